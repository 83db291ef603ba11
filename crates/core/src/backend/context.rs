//! What a launch is given by its caller: where to run, and where memory comes from.

use super::launch::Backend;
use super::pool::{Pool, Threads};
use crate::array::{Array, DType};

/// Gives the arrays that an op needs besides its inputs, and takes them back.
pub trait Allocator: Sync {
    /// Zeros.
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Array;
    /// Takes back what is no longer needed.
    fn recycle(&self, array: Array);
}

/// The process's own memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

impl Allocator for Heap {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Array {
        Array::zeros(dtype, shape)
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}

/// Keeps launches in their order.
pub trait Stream: Sync {
    /// Runs `work` after everything that was given before it.
    fn run(&self, work: &mut (dyn FnMut() + Send));
}

/// Runs at once, on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Immediate;

impl Stream for Immediate {
    fn run(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }
}

/// Where and with what an op runs.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The backend.
    pub backend: &'a dyn Backend,
    /// Threads.
    pub pool: &'a dyn Pool,
    /// Memory.
    pub allocator: &'a dyn Allocator,
    /// Order.
    pub stream: &'a dyn Stream,
}

impl Default for Context<'static> {
    /// The CPU, the shared pool, the heap, at once.
    fn default() -> Self {
        Self {
            backend: &const { super::cpu::Cpu::new() },
            pool: Threads::shared(),
            allocator: &Heap,
            stream: &Immediate,
        }
    }
}

impl<'a> Context<'a> {
    /// The same with other threads.
    #[must_use]
    pub fn with_pool<'b>(self, pool: &'b dyn Pool) -> Context<'b>
    where
        'a: 'b,
    {
        Context { pool, ..self }
    }
}
