//! The captures of streams that are under way, and what their graphs keep.
//!
//! Whoever captures a stream, calls on it work in memory of that capture. A graph of ours keeps it itself; one of somebody
//! else's, as XLA's or PyTorch's, has it tied to it, until the driver says that the graph is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use madelung::Result;
use madelung::cuda::{Memory, Stream};

use crate::owned::Owned;

/// A stream: its device and its number.
pub(crate) type Key = (usize, u64);

/// Memory of captured work: its own, and the arrays of its calls.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) memory: Memory,
    arrays: Mutex<Vec<Arc<Owned>>>,
}

/// By stream: the number of its last capture, and what the graph of that keeps.
static CAPTURES: Mutex<BTreeMap<Key, (u64, Weak<Kept>)>> = Mutex::new(BTreeMap::new());

/// Memory of destroyed graphs of others. A thread of the driver destroyed them, in which no memory can be given back.
static OVER: Mutex<Vec<Arc<Kept>>> = Mutex::new(vec![]);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn new(stream: Stream) -> Arc<Self> {
        Arc::new(Self { memory: Memory::of_capture(stream), arrays: Mutex::default() })
    }

    /// Keeps the arrays of a call.
    pub(crate) fn keep<'a>(&self, arrays: impl Iterator<Item = &'a Arc<Owned>>) {
        lock(&self.arrays).extend(arrays.cloned());
    }
}

/// The memory and arrays of the graph that a stream captures; None where it does not capture.
pub(crate) fn of(stream: Stream, key: Key) -> Result<Option<Arc<Kept>>> {
    release();
    let Some(id) = stream.capture()? else { return Ok(None) };
    let mut captures = lock(&CAPTURES);
    let known = captures.get(&key).filter(|(of, _)| *of == id).and_then(|(_, kept)| kept.upgrade());
    if known.is_some() {
        return Ok(known);
    }
    let kept = Kept::new(stream);
    captures.insert(key, (id, Arc::downgrade(&kept)));
    let tied = Arc::clone(&kept);
    stream.when_graph_is_over(move || lock(&OVER).push(tied))?;
    Ok(Some(kept))
}

/// From here on the calls on a stream, whose capture began, work in what is returned.
pub(crate) fn begin(stream: Stream, key: Key) -> Result<Arc<Kept>> {
    let kept = Kept::new(stream);
    if let Some(id) = stream.capture()? {
        lock(&CAPTURES).insert(key, (id, Arc::downgrade(&kept)));
    }
    Ok(kept)
}

/// Gives back what graphs that are over have kept.
pub(crate) fn release() {
    let over = std::mem::take(&mut *lock(&OVER));
    drop(over);
}
