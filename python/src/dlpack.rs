//! DLPack's capsules.
#![expect(unsafe_code, reason = "Python's functions for capsules")]

use madelung_bridge::dlpack::{Borrowed, Form, OnDevice, lend};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName, PyObject};
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::CStr;

/// The names of a capsule before and after its use, for unversioned and for versioned tensors.
const NAMES: [[&CStr; 2]; 2] =
    [[c"dltensor", c"used_dltensor"], [c"dltensor_versioned", c"used_dltensor_versioned"]];

/// The tensor in a capsule, which is marked as used.
pub(crate) fn taken(name: &str, capsule: &Bound<'_, PyAny>) -> PyResult<Borrowed> {
    for (versioned, [fresh, used]) in [false, true].into_iter().zip(NAMES) {
        // SAFETY: the functions accept any object, and the names are static. The new name keeps others from taking the
        // tensor.
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

/// A capsule with an array whose memory `owner` keeps valid.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    array: &OnDevice,
    owner: Box<dyn Any + Send + Sync>,
    form: Form,
) -> PyResult<Bound<'py, PyAny>> {
    let content = lend(array, owner, form);
    let [fresh, _] = NAMES[usize::from(form != Form::Unversioned)];
    // SAFETY: the name fits the form of the content, which `destroy` deletes unless it is taken.
    unsafe { Bound::from_owned_ptr_or_err(py, PyCapsule_New(content, fresh.as_ptr(), Some(destroy))) }
}

/// Deletes the tensor of a capsule that was not used.
unsafe extern "C" fn destroy(capsule: *mut PyObject) {
    for (versioned, [fresh, _]) in [false, true].into_iter().zip(NAMES) {
        // SAFETY: the capsule comes from `capsule`, and owns its content while it has this name.
        unsafe {
            if PyCapsule_IsValid(capsule, fresh.as_ptr()) != 0 {
                drop(Borrowed::take(PyCapsule_GetPointer(capsule, fresh.as_ptr()), versioned));
            }
        }
    }
}
