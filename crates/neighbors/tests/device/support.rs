//! The stand-in for a device, systems on it, and lists that are read back.
#![expect(unsafe_code, reason = "a stream of the thread's own is used")]

use madelung_core::Result;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::backend::cuda::{self, Cuda, Device, Memory};
use madelung_core::batch::Batch;
use madelung_core::device::DeviceBatch;
use madelung_neighbors::{DeviceOptions, DeviceSearch, Kind, Periodic};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) type Cell = [[f64; 3]; 3];

/// One system: atoms, cell, and which axes are periodic.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) atoms: Vec<[f64; 3]>,
    pub(crate) cell: Cell,
    pub(crate) pbc: [bool; 3],
}

impl System {
    /// Atoms at fractions that look like chance, from 0 to 1 and shifted by some boxes.
    pub(crate) fn new(atoms: usize, cell: Cell, pbc: [bool; 3], boxes: f64) -> Self {
        let fraction = |n: usize, k: usize| {
            let x = ((n * 3 + k + 1) as f64 * 0.754_877_666_246_692_7).fract();
            x + boxes * (((n + k) % 3) as f64 - 1.0)
        };
        let atoms = (0..atoms).map(|n| {
            let s: [f64; 3] = std::array::from_fn(|k| fraction(n * n + n, k));
            std::array::from_fn(|k| s[0] * cell[0][k] + s[1] * cell[1][k] + s[2] * cell[2][k])
        });
        Self { atoms: atoms.collect(), cell, pbc }
    }

    /// The same as a type of single precision has it.
    pub(crate) fn rounded(&self) -> Self {
        let round = |v: [f64; 3]| v.map(|x| f64::from(x as f32));
        Self {
            atoms: self.atoms.iter().map(|r| round(*r)).collect(),
            cell: self.cell.map(round),
            pbc: self.pbc,
        }
    }
}

/// A device with memory for this thread's stream.
pub(crate) struct Gpu {
    pub(crate) cuda: Cuda,
    pub(crate) memory: Memory,
    /// One test at a time: the order of launches and the record of errors are the process's.
    _turn: MutexGuard<'static, ()>,
}

/// Systems there.
pub(crate) struct Sent {
    pub(crate) positions: Array,
    pub(crate) cell: Array,
    pub(crate) pbc: Array,
    idx: Array,
    ptr: Array,
}

/// A list as it was read back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) ptr: Vec<i64>,
    pub(crate) others: Vec<i32>,
    pub(crate) shifts: Vec<[i32; 3]>,
}

impl Gpu {
    pub(crate) fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed does not concern the others.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        madelung_stand_in::install();
        let device = Device::get(0).expect("a device");
        let _ = cuda::check(device);
        // SAFETY: every thread has this stream.
        let stream = unsafe { device.stream(2) }.expect("a stream");
        Self { cuda: Cuda::new(stream), memory: Memory::new(stream), _turn: turn }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { backend: &self.cuda, allocator: &self.memory, ..Context::default() }
    }

    pub(crate) fn upload(&self, dtype: DType, shape: &[usize], data: &[f64]) -> Array {
        let array = Array::from_f64(dtype, shape, data).expect("as many numbers as the shape says");
        self.memory.upload(&array.view()).expect("room")
    }

    pub(crate) fn send(&self, systems: &[System], dtype: DType) -> Sent {
        let positions: Vec<f64> = systems.iter().flat_map(|s| s.atoms.as_flattened().to_vec()).collect();
        let cells: Vec<f64> = systems.iter().flat_map(|s| s.cell.as_flattened().to_vec()).collect();
        let pbc: Vec<f64> = systems.iter().flat_map(|s| s.pbc.map(|p| f64::from(u8::from(p)))).collect();
        let (batch, b) = (batch(systems), systems.len());
        Sent {
            positions: self.upload(dtype, &[batch.atoms(), 3], &positions),
            cell: self.upload(dtype, &[b, 3, 3], &cells),
            pbc: self.upload(DType::I32, &[b, 3], &pbc),
            idx: self.memory.upload(&View::from(batch.idx())).expect("room"),
            ptr: self.memory.upload(&View::from(batch.ptr())).expect("room"),
        }
    }

    pub(crate) fn update(&self, search: &mut DeviceSearch, sent: &Sent) -> Result<()> {
        let pbc = Periodic::Each(sent.pbc.view());
        let (positions, cell) = (sent.positions.view(), sent.cell.view());
        search.search(&self.cuda, &self.context(), &positions, Some(&cell), &pbc, &sent.batch())
    }

    pub(crate) fn check(&self) -> Result<()> {
        cuda::check(self.cuda.device())
    }

    pub(crate) fn read(&self, view: &View<'_>) -> Array {
        self.cuda.stream().read(view).expect("an array of the device")
    }

    pub(crate) fn offsets(&self, search: &DeviceSearch) -> Vec<i64> {
        self.read(&search.neighbor_ptr()).to_f64().iter().map(|x| *x as i64).collect()
    }

    pub(crate) fn list(&self, search: &DeviceSearch) -> Read {
        let (list, ptr) = (search.list().expect("a list"), self.offsets(search));
        let pairs = ptr[ptr.len() - 1] as usize;
        let ints =
            |view: &View<'_>| -> Vec<i32> { self.read(view).to_f64().iter().map(|x| *x as i32).collect() };
        let shifts = match (list.packed(), list.triples()) {
            (Some(packed), _) => {
                ints(packed)[..pairs].iter().map(|p| madelung_core::math::packed::unpack(*p)).collect()
            }
            (_, Some(triples)) => ints(triples).as_chunks::<3>().0[..pairs].to_vec(),
            _ => unreachable!("a list has shifts"),
        };
        Read { ptr, others: ints(list.others())[..pairs].to_vec(), shifts }
    }
}

impl Sent {
    pub(crate) fn batch(&self) -> DeviceBatch<'_> {
        DeviceBatch::new(self.idx.view(), self.ptr.view()).expect("a batch")
    }
}

pub(crate) fn options(cutoff: f64, half: bool, capacity: usize, packed: bool) -> DeviceOptions {
    DeviceOptions { cutoff, kind: if half { Kind::Half } else { Kind::Full }, capacity, packed }
}

pub(crate) fn batch(systems: &[System]) -> Batch<'static> {
    let idx: Vec<i32> = systems.iter().enumerate().flat_map(|(b, s)| vec![b as i32; s.atoms.len()]).collect();
    Batch::from_idx(idx, Some(systems.len())).expect("a batch")
}
