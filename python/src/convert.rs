//! NumPy arrays as borrowed views, and owned arrays as NumPy arrays, without copies.
#![expect(unsafe_code, reason = "NumPy arrays in memory that a Python object owns")]

use madelung_core::array::{Array, DType, Data, Elements, Plain, View};
use numpy::ndarray::{ArrayBase, ArrayD, ArrayViewMutD, Dimension, OwnedRepr};
use numpy::npyffi::{NPY_ARRAY_CARRAY, PyArrayObject_fields};
use numpy::{
    Element, PyArray, PyArrayDescrMethods, PyReadonlyArray, PyReadonlyArray2, PyReadonlyArrayDyn,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::any::Any;

use crate::call::exception;

/// A contiguous array of real numbers or integers.
pub(crate) enum Numbers<'py> {
    F64(PyReadonlyArrayDyn<'py, f64>),
    F32(PyReadonlyArrayDyn<'py, f32>),
    I32(PyReadonlyArrayDyn<'py, i32>),
    I64(PyReadonlyArrayDyn<'py, i64>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Numbers<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // By the dtype, as an attempt that fails writes a message.
        let (py, dtype) = (object.py(), object.cast::<PyUntypedArray>()?.dtype());
        if dtype.is_equiv_to(&numpy::dtype::<f64>(py)) {
            object.extract().map(Self::F64)
        } else if dtype.is_equiv_to(&numpy::dtype::<f32>(py)) {
            object.extract().map(Self::F32)
        } else if dtype.is_equiv_to(&numpy::dtype::<i32>(py)) {
            object.extract().map(Self::I32)
        } else {
            Ok(Self::I64(object.extract()?))
        }
    }
}

impl Numbers<'_> {
    pub(crate) fn view(&self) -> PyResult<View<'_>> {
        let view = match self {
            Self::F64(a) => View::new(Data::F64(elements(a)?), a.shape()),
            Self::F32(a) => View::new(Data::F32(elements(a)?), a.shape()),
            Self::I32(a) => View::new(Data::I32(elements(a)?), a.shape()),
            Self::I64(a) => View::new(Data::I64(elements(a)?), a.shape()),
        };
        view.map_err(exception)
    }
}

/// The elements of a contiguous array, in row-major order.
pub(crate) fn elements<'a, T: Element, D: Dimension>(
    array: &'a PyReadonlyArray<'_, T, D>,
) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| PyValueError::new_err("expected a contiguous array in C order"))
}

/// The rows of a contiguous (N, 3) array.
pub(crate) fn triples<'a, T: Element>(array: &'a PyReadonlyArray2<'_, T>) -> PyResult<&'a [[T; 3]]> {
    let flat = elements(array)?;
    match (array.as_array().ncols(), flat.as_chunks()) {
        (3, (rows, [])) => Ok(rows),
        (columns, _) => Err(PyValueError::new_err(format!("expected three columns, got {columns}"))),
    }
}

/// An owned ndarray as a NumPy array.
pub(crate) fn given<'py, T: Element, D: Dimension>(
    py: Python<'py>,
    array: ArrayBase<OwnedRepr<T>, D>,
) -> Bound<'py, PyAny> {
    PyArray::from_owned_array(py, array).into_any()
}

/// The owner of a NumPy array's memory: the array's base.
#[pyclass(frozen, module = "madelung")]
struct Owner(#[expect(dead_code, reason = "dropped with the object")] Box<dyn Any + Send + Sync>);

/// Owned elements as a NumPy array.
fn given_elements<T: Element + Plain>(py: Python<'_>, mut elements: Elements<T>) -> Bound<'_, PyAny> {
    if !elements.is_kept() {
        return given(py, ArrayD::from(elements));
    }
    let (shape, pointer) = (elements.shape().to_vec(), elements.as_mut_ptr());
    let owner = Bound::new(py, Owner(Box::new(elements))).expect("memory for an object");
    // SAFETY: the elements do not move while their owner lives, which the array keeps alive, and nothing else uses
    // them.
    unsafe {
        let view = ArrayViewMutD::from_shape_ptr(shape, pointer);
        PyArray::borrow_from_array(&view, owner.into_any()).into_any()
    }
}

/// An owned array as a NumPy array.
pub(crate) fn given_any(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyAny>> {
    Ok(match array {
        Array::F64(a) => given_elements(py, a),
        Array::F32(a) => given_elements(py, a),
        Array::I32(a) => given_elements(py, a),
        Array::I64(a) => given_elements(py, a),
        // NumPy has no bfloat16.
        a @ (Array::F16(_) | Array::BF16(_)) => given_any(py, a.cast(DType::F32).map_err(exception)?)?,
        Array::Device(a) => return Err(exception(a.place().elsewhere("array"))),
    })
}

/// The memory of a NumPy array as that of a result, which the call may write to and keeps.
pub(crate) fn lent(array: &Bound<'_, PyUntypedArray>) -> PyResult<Array> {
    let py = array.py();
    let known = [
        (DType::F64, numpy::dtype::<f64>(py)),
        (DType::F32, numpy::dtype::<f32>(py)),
        (DType::I32, numpy::dtype::<i32>(py)),
        (DType::I64, numpy::dtype::<i64>(py)),
    ];
    let dtype = known.into_iter().find(|(_, dtype)| array.dtype().is_equiv_to(dtype)).map(|(dtype, _)| dtype);
    // SAFETY: the array is there, with its flags and its address.
    let &PyArrayObject_fields { flags, data, .. } = unsafe { &(*array.as_array_ptr()).fields };
    match dtype {
        Some(dtype) if flags & NPY_ARRAY_CARRAY == NPY_ARRAY_CARRAY && !array.is_empty() => {
            // SAFETY: the flags say that the elements lie side by side, aligned, and may be written to. The array keeps
            // them, and who gives it to be written to uses it for nothing else meanwhile, but as the argument that the
            // result begins as, which is read no more once the call has taken the result's memory.
            Ok(unsafe { Array::lent(dtype, array.shape(), data.cast(), Box::new(array.clone().unbind())) })
        }
        _ => Err(PyValueError::new_err("expected a contiguous array in C order that can be written to")),
    }
}
