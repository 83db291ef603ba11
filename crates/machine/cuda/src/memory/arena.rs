//! The memory of a call out of one piece, for those who have to say ahead how much it is.
#![expect(unsafe_code, reason = "addresses of a piece of memory are handed out")]

use crate::Stream;
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::Allocator;
use madelung_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The alignment of blocks, more than any kernel needs.
const ALIGNED: usize = 256;

/// An allocator of blocks of one piece of memory. Freed blocks are reused by later work of the stream. Equal requests
/// in equal order get equal places.
#[derive(Debug)]
pub struct Arena {
    stream: Stream,
    begin: u64,
    bytes: usize,
    used: Arc<Mutex<Used>>,
}

/// The blocks in use, in bytes from the beginning.
#[derive(Debug, Default)]
struct Used {
    /// The size of each block, by its offset.
    blocks: BTreeMap<usize, usize>,
    /// The furthest end of any block so far.
    most: usize,
}

/// A block, which is given back when this is dropped.
struct Block {
    used: Arc<Mutex<Used>>,
    at: usize,
}

fn lock(used: &Mutex<Used>) -> MutexGuard<'_, Used> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Used {
    /// The first place with so much room.
    fn place(&self, bytes: usize) -> usize {
        let mut at = 0;
        for (begin, size) in &self.blocks {
            if begin - at >= bytes {
                break;
            }
            at = begin + size;
        }
        at
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        lock(&self.used).blocks.remove(&self.at);
    }
}

impl Arena {
    /// An arena of `bytes` bytes at an address.
    ///
    /// # Safety
    /// They are memory of the stream's device, and while the arena or an array of it lives, other users keep to the
    /// order of the stream.
    pub unsafe fn new(stream: Stream, address: u64, bytes: usize) -> Self {
        let begin = address.next_multiple_of(ALIGNED as u64);
        let bytes = bytes.saturating_sub((begin - address) as usize);
        Self { stream, begin, bytes, used: Arc::default() }
    }

    /// Addresses without memory on a device where nothing happens: what is asked of this arena is measured.
    pub(crate) fn unbacked() -> Self {
        // SAFETY: nothing is read or written on this device.
        unsafe { Self::new(Stream::still(), ALIGNED as u64, usize::MAX / 4) }
    }

    /// Bytes for all that was asked of this arena, wherever the memory begins.
    pub(crate) fn required(&self) -> usize {
        lock(&self.used).most + ALIGNED
    }
}

impl Allocator for Arena {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let array = self.room(dtype, shape)?;
        let view = array.view();
        // SAFETY: the array has as many bytes, and nobody else has it yet.
        unsafe { self.stream.zero(view.data().pointer().addr() as u64, view.len() * dtype.size())? };
        Ok(array)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let count = shape.iter().try_fold(dtype.size(), |n, size| n.checked_mul(*size));
        let bytes = count.and_then(|n| n.checked_next_multiple_of(ALIGNED)).unwrap_or(usize::MAX);
        let place = Place::Cuda(self.stream.device().ordinal());
        let (used, mut now) = (Arc::clone(&self.used), lock(&self.used));
        let at = now.place(bytes);
        let Some(end) = at.checked_add(bytes).filter(|end| *end <= self.bytes) else {
            return Err(Error::Driver(format!(
                "a call was given {} bytes of scratch memory, {} of which are in use, and needs {bytes} more",
                self.bytes,
                now.blocks.values().sum::<usize>()
            )));
        };
        now.most = now.most.max(end);
        if bytes == 0 {
            // SAFETY: there is no element.
            return Ok(unsafe { Array::remote(place, dtype, shape, self.begin, Box::new(())) });
        }
        now.blocks.insert(at, bytes);
        drop(now);
        let address = self.begin + at as u64;
        // SAFETY: the block has as many bytes, aligned to more than any dtype, and goes to later work of the same stream
        // only; the memory lives as long, which whoever made the arena knows.
        Ok(unsafe { Array::remote(place, dtype, shape, address, Box::new(Block { used, at })) })
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cuda, measure};
    use madelung_core::array::View;
    use madelung_core::backend::Context;

    fn arena(bytes: usize) -> Arena {
        // SAFETY: nothing is read or written on this device.
        unsafe { Arena::new(Stream::still(), 1000, bytes) }
    }

    fn address(view: &View<'_>) -> usize {
        view.data().pointer().addr()
    }

    #[test]
    fn blocks_are_apart_and_handed_out_again() {
        let arena = arena(2048);
        let room = |elements: usize| arena.room(DType::F64, &[elements]);
        let (a, b, c) = (room(32).expect("room"), room(33).expect("room"), room(1).expect("room"));
        let at = [&a, &b, &c].map(|array| address(&array.view()));
        assert_eq!(at, [1024, 1280, 1792]);
        drop(b);
        // 512 bytes were left between the others: two blocks of 256.
        let (d, e) = (room(1).expect("room"), room(32).expect("room"));
        assert_eq!([&d, &e].map(|array| address(&array.view())), [1280, 1536]);
        // 24 bytes were lost to the alignment, so that 2024 - 1024 are left.
        let error = room(126).expect_err("no room").to_string();
        assert!(error.contains("2024 bytes") && error.contains("1024 of which"), "{error}");
        drop((a, c, d, e));
        assert_eq!(address(&room(200).expect("room").view()), 1024);
        assert_eq!(room(0).expect("nothing").view().len(), 0);
    }

    #[test]
    fn what_is_measured_is_enough_wherever_memory_begins() {
        let work = |context: &Context<'_>| {
            let allocator = context.allocator;
            let a = allocator.zeros(DType::F32, &[3, 7])?;
            let b = allocator.room(DType::I32, &[1000])?;
            allocator.recycle(a);
            let c = allocator.room(DType::F64, &[2, 40])?;
            allocator.recycle(b);
            allocator.recycle(c);
            Ok(())
        };
        let bytes = measure(|context, _| work(context)).expect("a size");
        assert_eq!(bytes, 256 + 4096 + 768 + 256);
        for begin in [1, 255, 256, 1000] {
            let stream = Stream::still();
            // SAFETY: nothing is read or written on this device.
            let arena = unsafe { Arena::new(stream, begin, bytes) };
            let cuda = Cuda::new(stream);
            let context = Context { allocator: &arena, ..Context::new(&cuda) };
            work(&context).expect("enough");
        }
        let failed = measure(|_, _| Err(Error::Unsupported("on purpose".into())));
        assert!(failed.is_err());
    }
}
