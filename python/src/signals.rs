//! Signals of the process: Ctrl-C stops a call that computes without the interpreter's lock.
//!
//! Python notes a signal when it comes, and runs its handler on the main thread, which then holds the lock: a call on that
//! thread takes the lock for a moment now and then, and stops where a handler raises an exception.

use madelung::Result;
use madelung_core::stop::{caught, on_interrupt};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// Time between two looks at the signals, which cost a microsecond each.
const BETWEEN: Duration = Duration::from_millis(50);

/// Questions between two looks at the clock, which cost more than the question: small calls ask a dozen times.
const ASKED: u8 = 4;

thread_local! {
    /// Whether this is the main thread, whose handlers run.
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
    static TIMES: Cell<u8> = const { Cell::new(0) };
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether a call of this module, which raises the exception itself, runs on the thread.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Lets calls of this process's main thread look at signals, if it is the one that imports the module.
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    if threading.call_method0("get_ident")?.eq(main)? && !IS_MAIN.replace(true) {
        on_interrupt(is_asked).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    }
    Ok(())
}

/// Whether a handler of a signal has raised an exception.
fn is_asked() -> bool {
    if !IS_MAIN.get() {
        return false;
    }
    let times = TIMES.get() + 1;
    TIMES.set(times % ASKED);
    if times < ASKED {
        return false;
    }
    let now = Instant::now();
    if LOOKED.get().is_some_and(|looked| now - looked < BETWEEN) {
        return false;
    }
    let first = LOOKED.replace(Some(now)).is_none();
    !first && Python::attach(look)
}

fn look(py: Python<'_>) -> bool {
    let Err(raised) = py.check_signals() else { return false };
    if CATCHES.get() {
        RAISED.replace(Some(raised));
    } else if raised.is_instance_of::<PyKeyboardInterrupt>(py) {
        // The framework that made the call has an error of its own, behind which the interpreter raises this one again.
        let again = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
        again.err().into_iter().for_each(|error| error.write_unraisable(py, None));
    }
    true
}

/// Runs `work`; the exception of a handler of a signal that stopped it comes beside its error.
pub(crate) fn interruptible<T>(work: impl FnOnce() -> Result<T>) -> (Result<T>, Option<PyErr>) {
    let before = CATCHES.replace(true);
    let done = caught(String::new, work);
    CATCHES.set(before);
    (done, RAISED.take())
}
