//! Calls that stop midway: memory ran out, or the host program interrupts them.
//!
//! Both unwind from the depth of a call, which may lie on a worker's thread, to its beginning, and are an error there. A
//! program that is built with `panic = "abort"` ends instead.

use crate::{Error, Result};
use madelung_memory::Exhausted;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The payload of an interrupted call's unwinding.
struct Interrupt;

static ASKED: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that says whether the host program wants the calls of this thread to stop; once in a process.
///
/// Calls ask it on the thread that made the call, some thousand times a second: it answers in nanoseconds as a rule. A call that is told to stop returns [`Error::Interrupted`].
///
/// # Errors
/// `asked`, where there is such a function.
pub fn on_interrupt(asked: fn() -> bool) -> Result<()> {
    let again = |_| Error::argument("asked", "one function in a process", "a second one");
    ASKED.set(asked).map_err(again)
}

thread_local! {
    /// Whether the call that a worker works for has stopped.
    static STOPPED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Unwinds to the beginning of the call where the host program wants it to stop: for each millisecond of work.
pub fn if_asked() {
    let has_stopped = |call: &RefCell<Option<Arc<AtomicBool>>>| {
        call.borrow().as_ref().is_some_and(|stopped| stopped.load(Ordering::Relaxed))
    };
    if ASKED.get().is_some_and(|asked| asked()) || STOPPED.with(has_stopped) {
        resume_unwind(Box::new(Interrupt));
    }
}

/// Runs a task of a call that another thread makes, which stops with that call.
pub(crate) fn until<T>(stopped: &Arc<AtomicBool>, task: impl FnOnce() -> T) -> T {
    let before = STOPPED.replace(Some(stopped.clone()));
    let done = task();
    STOPPED.set(before);
    done
}

/// Runs `work`, and returns as an error what unwinds from within it because memory ran out or the host program
/// interrupts the call. `argument` names the argument that makes the size.
///
/// # Errors
/// Those of `work`; [`Error::Memory`] and [`Error::Interrupted`].
pub fn caught<T>(argument: impl FnOnce() -> String, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Arrays half written are dropped on the way, and scratch that is kept for later calls is written before it is read.
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Err(error @ Error::Memory { .. })) => error,
        Ok(done) => return done,
        Err(payload) => match (payload.downcast_ref::<Exhausted>(), payload.is::<Interrupt>()) {
            (Some(exhausted), _) => Error::memory(exhausted.bytes, None),
            (None, true) => Error::Interrupted,
            (None, false) => resume_unwind(payload),
        },
    };
    Err(match error {
        Error::Memory { argument: known, bytes, left } if known.is_empty() => {
            Error::Memory { argument: argument(), bytes, left }
        }
        error => error,
    })
}
