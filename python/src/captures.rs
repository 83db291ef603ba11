//! The captures of streams that are under way, and what their calls read and write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use madelung::array::Array;
use madelung::cuda::Memory;

/// A stream: its device and its number.
pub(crate) type Key = (usize, u64);

/// Memory of captured work: its own, and the arrays of its calls.
#[derive(Debug)]
pub(crate) struct Kept {
    memory: Memory,
    arrays: Vec<Arc<Array>>,
}

/// The captures that are under way, by device and stream number.
static CAPTURES: Mutex<BTreeMap<Key, Kept>> = Mutex::new(BTreeMap::new());

fn with_captures<T>(f: impl FnOnce(&mut BTreeMap<Key, Kept>) -> T) -> T {
    f(&mut CAPTURES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The memory for calls on a stream that captures.
pub(crate) fn memory_of(stream: Key) -> Option<Memory> {
    with_captures(|captures| captures.get(&stream).map(|kept| kept.memory.clone()))
}

/// Keeps the arrays of a call, where its stream captures.
pub(crate) fn keep<'a>(stream: Key, arrays: impl Iterator<Item = &'a Arc<Array>>) {
    with_captures(|captures| {
        if let Some(kept) = captures.get_mut(&stream) {
            kept.arrays.extend(arrays.cloned());
        }
    });
}

/// From here on the calls on a stream are those of a capture, and work in its memory.
pub(crate) fn begin(stream: Key, memory: Memory) {
    with_captures(|captures| captures.insert(stream, Kept { memory, arrays: vec![] }));
}

/// Memory of a capture that is over.
pub(crate) fn end(stream: Key) -> Option<Kept> {
    with_captures(|captures| captures.remove(&stream))
}
