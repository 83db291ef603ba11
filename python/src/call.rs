//! The border to Python: computation without the interpreter's lock, errors and panics as exceptions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use madelung::Error;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Runs `work` while other Python threads run too.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> madelung::Result<T> + Send,
) -> PyResult<T> {
    // pyo3's own exception for a panic is no `Exception`, so that handlers would let it pass.
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(done) => done.map_err(exception),
        Err(panic) => {
            let message = format!("a defect in Madelung, please report it: {}", said(&*panic));
            Err(PyRuntimeError::new_err(message))
        }
    }
}

/// Madelung's error in Python's words.
pub(crate) fn exception(error: Error) -> PyErr {
    match error {
        Error::Unsupported(what) => PyNotImplementedError::new_err(what),
        error => PyValueError::new_err(error.to_string()),
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
