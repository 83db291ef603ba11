//! DLPack's capsules.
#![expect(unsafe_code, reason = "Python's functions for capsules")]

use madelung::array::View;
use madelung_bridge::dlpack::{Borrowed, Form, lend};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName, PyObject};
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::CStr;

/// The names of a capsule, before and after its content is taken: without a version, and with one.
const NAMES: [[&CStr; 2]; 2] =
    [[c"dltensor", c"used_dltensor"], [c"dltensor_versioned", c"used_dltensor_versioned"]];

/// Takes the content of a capsule, once.
pub(crate) fn taken(name: &str, capsule: &Bound<'_, PyAny>) -> PyResult<Borrowed> {
    for (versioned, [fresh, used]) in [false, true].into_iter().zip(NAMES) {
        // SAFETY: any object may be asked; the names are C strings for ever. Nobody else takes what is renamed.
        unsafe {
            if PyCapsule_IsValid(capsule.as_ptr(), fresh.as_ptr()) == 0 {
                continue;
            }
            let content = PyCapsule_GetPointer(capsule.as_ptr(), fresh.as_ptr());
            if content.is_null() || PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) != 0 {
                return Err(PyErr::fetch(capsule.py()));
            }
            return Ok(Borrowed::take(content, versioned));
        }
    }
    let got = capsule.repr()?;
    Err(PyValueError::new_err(format!(
        "`{name}`: expected a capsule of DLPack that nobody has taken yet, got {got}"
    )))
}

/// A capsule with an array that `owner` keeps.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    array: &View<'_>,
    owner: Box<dyn Any + Send + Sync>,
    form: Form,
) -> PyResult<Bound<'py, PyAny>> {
    let content = lend(array, owner, form);
    let [fresh, _] = NAMES[usize::from(form != Form::Plain)];
    // SAFETY: the content is of the form that the name says, and the capsule gives it back if nobody takes it.
    unsafe { Bound::from_owned_ptr_or_err(py, PyCapsule_New(content, fresh.as_ptr(), Some(destroy))) }
}

/// Releases a capsule whose content was not taken.
unsafe extern "C" fn destroy(capsule: *mut PyObject) {
    for (versioned, [fresh, _]) in [false, true].into_iter().zip(NAMES) {
        // SAFETY: the capsule is one of `capsule`, and its content is still its own under this name.
        unsafe {
            if PyCapsule_IsValid(capsule, fresh.as_ptr()) != 0 {
                drop(Borrowed::take(PyCapsule_GetPointer(capsule, fresh.as_ptr()), versioned));
            }
        }
    }
}
