//! Arrays of a device as its backend has them, and memory for the length of a launch.

use crate::primitives::Scratch;
use madelung_core::Result;
use madelung_core::array::{Array, DType, Data, View};
use madelung_core::backend::Context;

/// The address of an array.
///
/// # Panics
/// If the array lies on the host, which the checks of a launch rule out.
pub fn address(view: &View<'_>) -> u64 {
    match view.data() {
        Data::Device(remote) => remote.address(),
        _ => panic!("an array of the host in a call on a device"),
    }
}

/// Temporary arrays of a launch: later work of the stream may reuse their memory.
pub struct Rooms<'c> {
    context: &'c Context<'c>,
    arrays: Vec<Array>,
}

impl<'c> Rooms<'c> {
    /// No memory yet, from the allocator of a context.
    pub fn new(context: &'c Context<'c>) -> Self {
        Self { context, arrays: vec![] }
    }

    /// The context of the allocator.
    pub fn context(&self) -> &'c Context<'c> {
        self.context
    }

    /// Room for so many f64, which hold anything.
    pub fn open(&mut self, elements: usize) -> Result<u64> {
        let array = self.context.allocator.room(DType::F64, &[elements])?;
        let at = address(&array.view());
        self.arrays.push(array);
        Ok(at)
    }

    /// Scratch of `bytes` bytes, aligned as allocators of devices align, to more than 16.
    pub fn scratch(&mut self, bytes: usize) -> Result<Scratch> {
        if bytes == 0 {
            return Ok(Scratch::EMPTY);
        }
        Ok(Scratch { address: self.open(bytes.div_ceil(size_of::<f64>()))?, bytes })
    }
}

impl Drop for Rooms<'_> {
    fn drop(&mut self) {
        self.arrays.drain(..).for_each(|array| self.context.allocator.recycle(array));
    }
}
