//! A device (the stand-in, where there is no other) with memory for a test.
#![expect(unsafe_code, reason = "a stream of the thread's own is used")]

use madelung_core::Result;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::structure::Batch;
use madelung_core::structure::DeviceBatch;
use madelung_cuda::{Cuda, Device, Graph, Memory};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) struct Gpu {
    pub(crate) cuda: Cuda,
    pub(crate) memory: Memory,
    /// One test at a time: the order of launches and the record of errors are the process's.
    _turn: MutexGuard<'static, ()>,
}

impl Gpu {
    pub(crate) fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed does not concern the others.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        madelung_stand_in::install();
        let device = Device::get(0).expect("a device");
        let _ = madelung_cuda::check(device);
        // SAFETY: every thread has this stream.
        let stream = unsafe { device.stream(2) }.expect("a stream");
        Self { cuda: Cuda::new(stream), memory: Memory::new(stream), _turn: turn }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { allocator: &self.memory, ..Context::new(&self.cuda) }
    }

    pub(crate) fn copy(&self, view: &View<'_>) -> Array {
        self.memory.upload(view).expect("room")
    }

    pub(crate) fn upload(&self, dtype: DType, shape: &[usize], data: &[f64]) -> Array {
        self.copy(&Array::from_f64(dtype, shape, data).expect("as many numbers as the shape says").view())
    }

    /// Other numbers in an array of f64.
    pub(crate) fn overwrite(&self, array: &Array, data: &[f64]) {
        let view = array.view();
        assert_eq!((view.dtype(), view.len()), (DType::F64, data.len()));
        // SAFETY: the array has as many.
        unsafe { self.cuda.stream().upload(view.data().pointer().addr() as u64, data) }.expect("a copy");
    }

    pub(crate) fn read(&self, view: &View<'_>) -> Array {
        self.cuda.stream().read(view).expect("an array of the device")
    }

    pub(crate) fn ints(&self, view: &View<'_>) -> Vec<i32> {
        self.read(view).to_f64().unwrap().iter().map(|x| *x as i32).collect()
    }

    pub(crate) fn check(&self) -> Result<()> {
        madelung_cuda::check(self.cuda.device())
    }

    /// Runs a graph of this stream, whose arrays are still there.
    pub(crate) fn replay(&self, graph: &Graph) {
        // SAFETY: see above.
        unsafe { graph.replay() }.expect("a launch");
    }

    /// The error that calls since the last look have left.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        self.check().expect_err("an error").to_string()
    }
}

/// A batch there.
pub(crate) struct SentBatch([Array; 2]);

impl SentBatch {
    pub(crate) fn new(gpu: &Gpu, batch: &Batch<'_>) -> Self {
        Self([batch.idx(), batch.ptr()].map(|integers| gpu.copy(&View::from(integers))))
    }

    pub(crate) fn batch(&self) -> DeviceBatch<'_> {
        let [idx, ptr] = self.0.each_ref().map(Array::view);
        DeviceBatch::new(idx, ptr).expect("a batch")
    }
}
