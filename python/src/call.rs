//! The border to Python: computation without the interpreter's lock, errors and panics as exceptions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::signals::interruptible;
use madelung::Error;
use pyo3::exceptions::{
    PyKeyboardInterrupt, PyMemoryError, PyNotImplementedError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

/// Runs `work` without the interpreter's lock.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> madelung::Result<T> + Send,
) -> PyResult<T> {
    // pyo3's own exception for a panic is not a subclass of `Exception`, so handlers would not catch it.
    match py.detach(|| catch_unwind(AssertUnwindSafe(|| interruptible(work)))) {
        Ok((Err(Error::Interrupted), Some(raised))) => Err(raised),
        Ok((done, _)) => done.map_err(exception),
        Err(panic) => {
            let message = format!("a defect in Madelung, please report it: {}", panic_message(&*panic));
            Err(PyRuntimeError::new_err(message))
        }
    }
}

/// Madelung's error as a Python exception.
pub(crate) fn exception(error: Error) -> PyErr {
    match error {
        Error::Unsupported(text) => PyNotImplementedError::new_err(text),
        Error::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        Error::Interrupted => PyKeyboardInterrupt::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
