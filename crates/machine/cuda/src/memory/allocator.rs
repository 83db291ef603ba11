//! Memory of a device, for those who have no allocator of their own.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::program::Relaxed;
use crate::driver::stream::Stream;
use crate::driver::sys::Driver;
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::context::Allocator;
use madelung_core::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The smallest block, in bytes: the driver's alignment.
const SMALLEST: usize = 512;

/// Memory for the work of one stream. Freed blocks are reused by the stream without a call of the driver, so a step
/// that was run once allocates nothing and can be captured.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stream: Stream,
    /// Whether it is for what the stream captures.
    captures: bool,
    /// Freed blocks, by size.
    free: Mutex<HashMap<usize, Vec<u64>>>,
}

/// Bytes of a device, given back when this is dropped. Work that is on the stream by then may still use them.
#[derive(Debug)]
pub struct Block {
    shared: Arc<Shared>,
    address: u64,
    bytes: usize,
    room: usize,
}

impl Memory {
    /// For a stream.
    pub fn new(stream: Stream) -> Self {
        Self { shared: Arc::new(Shared { stream, captures: false, free: Mutex::default() }) }
    }

    /// For what a stream captures: blocks are allocated meanwhile, and stay until this and all of them are dropped, so
    /// that the graph can be run again as long as this is there.
    pub fn of_capture(stream: Stream) -> Self {
        Self { shared: Arc::new(Shared { stream, captures: true, free: Mutex::default() }) }
    }

    /// Whether this is the memory of another one, too.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The stream.
    pub fn stream(&self) -> Stream {
        self.shared.stream
    }

    /// A block of uninitialised memory, never at the address 0.
    ///
    /// # Errors
    /// Memory ran out: the error has the sizes. The stream captures, and nothing of that size was given back before.
    pub fn allocate(&self, bytes: usize) -> Result<Block> {
        if bytes == 0 {
            return Ok(self.block(0, 0, 0));
        }
        // Powers of two and their midpoints: sizes that change a little from step to step share blocks.
        let whole = bytes.checked_next_power_of_two().unwrap_or(bytes).max(SMALLEST);
        let room = if bytes <= whole / 4 * 3 && whole > SMALLEST { whole / 4 * 3 } else { whole };
        if self.shared.captures && !self.shared.stream.is_capturing()? {
            // A graph would write there whenever it is launched.
            return Err(Error::Unsupported("allocating memory of a graph whose capture is over".into()));
        }
        if let Some(address) = self.shared.lock().get_mut(&room).and_then(Vec::pop) {
            return Ok(self.block(address, bytes, room));
        }
        if !self.shared.captures {
            self.shared.stream.must_not_capture("allocating memory that was not allocated before")?;
        }
        let (device, mut code) = (self.shared.stream.device(), 0);
        let current = device.enter()?;
        let mut address = 0;
        for again in [false, true] {
            if again && !self.release()? {
                break;
            }
            // Another stream's capture is not concerned.
            let _relaxed = Relaxed::new(device);
            // SAFETY: the place is writable.
            code = unsafe { (device.driver.cuMemAlloc_v2)(&raw mut address, room) };
            if !Driver::is_out_of_memory(code) {
                break;
            }
        }
        drop(current);
        if Driver::is_out_of_memory(code) {
            let (free, _) = device.memory()?;
            return Err(Error::memory(room, Some(free)));
        }
        device.driver.check(code, format_args!("allocating {room} bytes"))?;
        Ok(self.block(address, bytes, room))
    }

    fn block(&self, address: u64, bytes: usize, room: usize) -> Block {
        Block { shared: Arc::clone(&self.shared), address, bytes, room }
    }

    /// Returns free blocks to the driver, which waits for the device; whether there were any. Those of a capture stay.
    ///
    /// # Errors
    /// The driver's.
    pub fn release(&self) -> Result<bool> {
        if self.shared.captures { Ok(false) } else { self.shared.release() }
    }
}

impl Allocator for Memory {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let array = self.room(dtype, shape)?;
        let (address, bytes) =
            (array.view().data().pointer().addr() as u64, array.view().len() * dtype.size());
        // SAFETY: the array has as many bytes.
        unsafe { self.stream().zero(address, bytes)? };
        Ok(array)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let block = self.allocate(shape.iter().product::<usize>() * dtype.size())?;
        let (place, address) = (Place::Cuda(self.stream().device().ordinal()), block.address());
        // SAFETY: the block has as many bytes, aligned to more than any dtype, and goes to later work of the same stream
        // only.
        Ok(unsafe { Array::remote(place, dtype, shape, address, Box::new(block)) })
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Vec<u64>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) -> Result<bool> {
        let free: Vec<u64> = self.lock().drain().flat_map(|(_, addresses)| addresses).collect();
        let device = self.stream.device();
        let _current = device.enter()?;
        let _relaxed = Relaxed::new(device);
        for address in &free {
            // SAFETY: it came from this device's driver, and nobody has it any more.
            device.driver.check(unsafe { (device.driver.cuMemFree_v2)(*address) }, "giving memory back")?;
        }
        Ok(!free.is_empty())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A context that is lost has no memory to give back.
        let _ = self.release();
    }
}

impl Block {
    /// The address of the block; 0 if it is empty.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The number of bytes requested.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.room > 0 {
            self.shared.lock().entry(self.room).or_default().push(self.address);
        }
    }
}
