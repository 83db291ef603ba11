//! Parts that machine code would serve: those that the interpreter has run for as long as LLVM takes to compile one, so
//! that a program loses at most that time again, whether it ends then or runs for days.

use madelung_core::runtime::Isa;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The processor time after which a part is wanted. LLVM takes 40 to 140 ms for one.
pub(crate) const AFTER: Duration = Duration::from_millis(50);

/// A part for whose machine code the interpreter asks.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The source text of the part's kernel.
    pub source: &'static str,
    /// The name of the part.
    pub part: String,
    /// Whether it is for f32 arrays, else for f64 arrays.
    pub single: bool,
    /// The instruction set.
    pub isa: Isa,
}

struct Queue {
    parts: Vec<Wanted>,
    stopped: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { parts: vec![], stopped: false });
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn ask(part: Wanted) {
    queue().parts.push(part);
    CHANGED.notify_all();
}

/// Waits for parts that are wanted, each of which comes once. None after [`stop_waiting`].
pub fn wait_for_wanted() -> Option<Vec<Wanted>> {
    let waited = CHANGED.wait_while(queue(), |queue| queue.parts.is_empty() && !queue.stopped);
    let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
    let stopped = std::mem::take(&mut queue.stopped);
    (!stopped).then(|| std::mem::take(&mut queue.parts))
}

/// Lets the thread in [`wait_for_wanted`], or the next one that comes there, go.
pub fn stop_waiting() {
    queue().stopped = true;
    CHANGED.notify_all();
}
