//! The stand-in for a device, memory on it, and calls that are made in several ways.
#![expect(unsafe_code, reason = "a stream is used, with addresses of memory that lives long enough")]

use madelung_core::Result;
use madelung_core::array::{Array, DType, Data};
use madelung_cuda::primitives::{Queue, Scratch, Status};
use madelung_cuda::{Block, Device, Graph, Memory, Stream};
use madelung_stand_in::{Order, UNASKED, calls, install, set_order};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// Memory for this thread's own stream, which no other thread's work waits for. Kept until the process ends.
    static MEMORY: &'static Memory = {
        install();
        // SAFETY: every thread has this stream.
        let stream = unsafe { Device::get(0).unwrap().stream(2) };
        Box::leak(Box::new(Memory::new(stream.unwrap())))
    };
}
/// One test at a time: the order of launches and the counts of calls are the process's.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    // A test that failed does not concern the others.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stream() -> Stream {
    MEMORY.with(|memory| memory.stream())
}

pub(crate) fn queue() -> Queue {
    // SAFETY: buffers live until the stream was waited for, and nobody else has their addresses.
    unsafe { Queue::new(stream()) }
}

/// An array on the device.
pub(crate) struct Buffer<T> {
    block: Block,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Copy> Buffer<T> {
    pub(crate) fn of(values: &[T]) -> Self {
        let block = MEMORY.with(|memory| memory.allocate(size_of_val(values))).unwrap();
        // SAFETY: the block is as large, and new.
        unsafe { stream().upload(block.address(), values).unwrap() };
        Self { block, len: values.len(), of: PhantomData }
    }

    pub(crate) fn address(&self) -> u64 {
        self.block.address()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn read(&self) -> Vec<T> {
        let mut values: Vec<T> = Vec::with_capacity(self.len);
        // SAFETY: there is room for what is read, which has been numbers since `of`.
        unsafe {
            let room = std::slice::from_raw_parts_mut(values.as_mut_ptr(), self.len);
            stream().download(room, self.address()).unwrap();
            values.set_len(self.len);
        }
        values
    }
}

/// A status word, raised for parameter 3.
pub(crate) struct StatusWord(Buffer<u32>);

impl StatusWord {
    pub(crate) fn new() -> Self {
        Self(Buffer::of(&[0; 7]))
    }

    pub(crate) fn status(&self) -> Status {
        Status::new(self.0.address(), Some(3))
    }

    /// The bits that were raised, all of them for the parameter.
    pub(crate) fn bits(&self) -> u32 {
        let word = self.0.read();
        for (reason, param) in word[1..].iter().enumerate() {
            assert_eq!(*param, if word[0] >> reason & 1 == 1 { 4 } else { 0 });
        }
        word[0]
    }
}

/// Memory to work in, in which nothing is a useful number.
pub(crate) struct Room(Block);

pub(crate) fn scratch(bytes: usize) -> Room {
    let room = Buffer::of(&vec![0xa5u8; bytes]);
    Room(room.block)
}

impl Room {
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch { address: self.0.address(), bytes: self.0.bytes() }
    }
}

/// Calls with the blocks and threads in several orders, and captured in a graph: the results must be equal each time,
/// and no call may wait, allocate or read.
#[track_caller]
pub(crate) fn same_each_time<C, R: PartialEq + Debug>(
    make: impl Fn() -> C,
    call: impl Fn(&Queue, &C) -> Result<()>,
    read: impl Fn(&C) -> R,
) -> R {
    let _turn = turn();
    let counted = |work: &dyn Fn()| {
        let before = UNASKED.map(calls);
        work();
        assert_eq!(UNASKED.map(calls), before);
    };
    let mut results = vec![];
    for order in [Order::Forwards, Order::Backwards, Order::Shuffled(7)] {
        set_order(order);
        let case = make();
        counted(&|| call(&queue(), &case).unwrap());
        results.push(read(&case));
    }
    set_order(Order::Forwards);
    let case = make();
    let graph = Graph::capture(stream(), |_| {
        counted(&|| call(&queue(), &case).unwrap());
        Ok(())
    });
    // SAFETY: what the graph works on is still there.
    unsafe { graph.unwrap().replay().unwrap() };
    results.push(read(&case));
    let last = results.pop();
    assert!(results.iter().all(|r| Some(r) == last.as_ref()), "the order or the graph makes a difference");
    last.unwrap()
}

/// Calls while no other test counts its own, for those of which nothing is expected.
#[track_caller]
pub(crate) fn alone(calls: impl Fn(&Queue)) {
    let _turn = turn();
    calls(&queue());
}

/// A call while the stream captures.
pub(crate) fn captured(call: impl FnOnce(&Queue) -> Result<()>) -> Result<()> {
    let _turn = turn();
    Graph::capture(stream(), |_| call(&queue())).map(drop)
}

/// The bytes of an array.
pub(crate) fn bytes(array: &Array) -> Vec<u8> {
    match array.view().data() {
        Data::F16(d) => d.iter().flat_map(|x| x.to_bits().to_ne_bytes()).collect(),
        Data::BF16(d) => d.iter().flat_map(|x| x.to_bits().to_ne_bytes()).collect(),
        Data::F32(d) => d.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        Data::F64(d) => d.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        Data::I32(d) => d.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        Data::I64(d) => d.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        Data::Device(_) => panic!("an array of the host"),
    }
}

/// The numbers of an array of one of the types that kernels compute in.
pub(crate) fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|x| f32::from_ne_bytes(*x).into()).collect(),
        _ => bytes.as_chunks().0.iter().map(|x| f64::from_ne_bytes(*x)).collect(),
    }
}
