//! Arrays of a library of Python that calls take as they are: in memory, in row-major order, and of no graph, transform or
//! mode.
#![expect(unsafe_code, reason = "memory behind objects of Python")]

use madelung::Error;
use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung_bridge::dlpack::{Exchange, Lent, Results, host_data};
use numpy::npyffi::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, PyArrayObject_fields};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};
use std::sync::Arc;

use crate::call::{compute, exception};
use crate::convert::given_any;
use crate::device::{DeviceArray, with_arrays};
use crate::stream::Lane;

/// Pairs from which PyTorch remembers that a plain list has been checked: `MANY` of `madelung.torch`.
const MANY: usize = 4096;

/// A library whose plain arrays are known.
#[pyclass(frozen, module = "madelung")]
pub(crate) struct Plain(Library);

enum Library {
    NumPy {
        types: [Py<PyArrayDescr>; 4],
    },
    Torch(Torch),
    /// `madelung.cuda`: the class of its arrays, which keep those of this module.
    Cuda(Py<PyType>),
}

/// Place of a call on plain arrays: the host, or a stream with all arrays of the call.
pub(crate) enum Site<'a> {
    Host,
    Stream(&'a Arc<Lane>, Vec<(&'a DeviceArray, &'static str)>),
}

struct Torch {
    exchange: Exchange,
    /// Types of tensors that are plain.
    types: Vec<Py<PyType>>,
    /// Functions whose results are false in ordinary calls: graphs, transforms and modes of others are none.
    unusual: Vec<Py<PyAny>>,
    /// The module whose level says whether forward mode is on.
    forward_ad: Py<PyAny>,
    is_grad_enabled: Py<PyAny>,
}

#[pymethods]
impl Plain {
    /// Arrays of NumPy.
    #[staticmethod]
    fn of_numpy(py: Python<'_>) -> Self {
        let types = [
            numpy::dtype::<f64>(py),
            numpy::dtype::<f32>(py),
            numpy::dtype::<i32>(py),
            numpy::dtype::<i64>(py),
        ];
        Self(Library::NumPy { types: types.map(Bound::unbind) })
    }

    /// Arrays of `madelung.cuda`, of its class.
    #[staticmethod]
    fn of_cuda(class: Py<PyType>) -> Self {
        Self(Library::Cuda(class))
    }

    /// Tensors of PyTorch, by the table of functions that its class has; None of another version. `unusual`: functions
    /// whose results are false in ordinary calls.
    #[staticmethod]
    fn of_torch(
        table: &Bound<'_, PyCapsule>,
        types: Vec<Py<PyType>>,
        unusual: Vec<Py<PyAny>>,
        forward_ad: Py<PyAny>,
        is_grad_enabled: Py<PyAny>,
    ) -> PyResult<Option<Self>> {
        let pointer = table.pointer_checked(Some(c"dlpack_exchange_api"))?;
        // SAFETY: the capsule of this name holds the table, which the library keeps.
        let exchange = unsafe { Exchange::new(pointer.as_ptr()) };
        Ok(exchange.map(|exchange| {
            Self(Library::Torch(Torch { exchange, types, unusual, forward_ad, is_grad_enabled }))
        }))
    }
}

impl Plain {
    /// Number of pairs from which plain lists go the other way: PyTorch remembers those that a call has checked. NumPy has
    /// none.
    pub(crate) fn most_pairs(&self) -> usize {
        if self.is_numpy() { usize::MAX } else { MANY }
    }

    /// Whether arrays are those of NumPy.
    pub(crate) fn is_numpy(&self) -> bool {
        matches!(self.0, Library::NumPy { .. })
    }

    /// Whether values of arrays can be read without waiting for a device.
    pub(crate) fn is_readable(&self) -> bool {
        !matches!(self.0, Library::Cuda(_))
    }

    /// An argument as a call reads it: of an array of a device the object of this module within.
    pub(crate) fn inside<'py>(&self, x: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match &self.0 {
            Library::Cuda(class) if x.get_type().is(class) => x.getattr(intern!(x.py(), "_native")),
            _ => Ok(x),
        }
    }

    /// Whether calls are of no graph, transform or mode.
    pub(crate) fn is_ordinary(&self, py: Python<'_>) -> PyResult<bool> {
        let Library::Torch(torch) = &self.0 else { return Ok(true) };
        for is_unusual in &torch.unusual {
            if is_unusual.bind(py).call0()?.is_truthy()? {
                return Ok(false);
            }
        }
        Ok(torch.forward_ad.bind(py).getattr(intern!(py, "_current_level"))?.extract::<i64>()? < 0)
    }

    /// The memory of an array that is plain.
    pub(crate) fn view<'a>(&self, x: &'a Bound<'_, PyAny>) -> PyResult<Option<View<'a>>> {
        let view = self.memory(x)?;
        // Tensors may be the negatives of the numbers in their memory.
        let is_negative = matches!(self.0, Library::Torch(_))
            && view.is_some()
            && x.call_method0(intern!(x.py(), "is_neg"))?.is_truthy()?;
        Ok(view.filter(|_| !is_negative))
    }

    /// The memory of an array of this library or of its results, which no view has the negatives of.
    pub(crate) fn memory<'a>(&self, x: &'a Bound<'_, PyAny>) -> PyResult<Option<View<'a>>> {
        match &self.0 {
            Library::NumPy { types } => Ok(numpy_view(x, types)),
            Library::Cuda(_) => {
                Ok(x.cast_exact::<DeviceArray>().ok().and_then(|array| array.get().view("").ok()))
            }
            Library::Torch(torch) => {
                let of = x.get_type();
                if !torch.types.iter().any(|plain| of.is(plain)) {
                    return Ok(None);
                }
                // SAFETY: a tensor, by its type; the interpreter is locked. The reference to the object keeps the memory,
                // and as for every operator inputs are not written to while it runs.
                match unsafe { torch.exchange.view(x.as_ptr().cast()) } {
                    Lent::View(view) => Ok(Some(view)),
                    Lent::Other => Ok(None),
                    Lent::Raised => {
                        drop(PyErr::take(x.py()));
                        Ok(None)
                    }
                }
            }
        }
    }

    /// An array of truths as lists of Python; None of other objects.
    pub(crate) fn truths<'py>(&self, x: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let py = x.py();
        let is_array = match &self.0 {
            Library::NumPy { .. } => {
                let dtype = x.cast_exact::<PyUntypedArray>().ok()?.dtype();
                dtype.is_equiv_to(&numpy::dtype::<bool>(py))
            }
            // The lists of other tensors have no truths.
            Library::Torch(torch) => torch.types.iter().any(|plain| x.get_type().is(plain)),
            Library::Cuda(_) => false,
        };
        if is_array { x.call_method0(intern!(py, "tolist")).ok() } else { None }
    }

    /// Whether a call with an array belongs to a graph of derivatives.
    pub(crate) fn requires_graph(&self, x: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, Library::Torch(torch)) = (x.py(), &self.0) else { return Ok(false) };
        Ok(x.getattr(intern!(py, "requires_grad"))?.is_truthy()?
            && torch.is_grad_enabled.bind(py).call0()?.is_truthy()?)
    }

    /// The results of `work`, as arrays of the library; None where it fails, which another way then tells of. `single`: a
    /// matrix of each system comes without the axis of systems.
    pub(crate) fn run<'py>(
        &self,
        py: Python<'py>,
        site: &Site<'_>,
        single: bool,
        work: impl FnOnce(&Context<'_>) -> madelung::Result<Vec<Option<Array>>> + Send,
    ) -> PyResult<Option<Vec<Option<Bound<'py, PyAny>>>>> {
        let results = match &self.0 {
            Library::Torch(torch) => Some(Results { exchange: torch.exchange, single }),
            _ => None,
        };
        let found = compute(py, || {
            let done = match (site, &results) {
                (Site::Stream(lane, arrays), _) => {
                    with_arrays(lane, arrays, || work(&lane.context(&lane.cuda())))
                }
                (Site::Host, None) => work(&madelung::cpu::context()),
                (Site::Host, Some(results)) => madelung_bridge_torch::on_host(results, work),
            };
            match done {
                Err(error @ Error::Interrupted) => Err(error),
                done => Ok(done.ok()),
            }
        })?;
        let Some(found) = found else { return Ok(None) };
        let object = |array: Array| {
            let is_one = single && array.shape() == [1, 3, 3];
            match (&self.0, site, &results) {
                (Library::Cuda(class), Site::Stream(lane, _), _) => {
                    let made = DeviceArray::made(lane, array);
                    class.bind(py).call1((if is_one { made.part(0, vec![3, 3])? } else { made },))
                }
                (.., Some(results)) => {
                    // SAFETY: the interpreter is locked, and the reference goes to the result.
                    unsafe {
                        let object = results.object(array).map_err(exception)?;
                        Bound::from_owned_ptr_or_err(py, object.cast())
                    }
                }
                _ if is_one => given_any(py, array)?.get_item(0),
                _ => given_any(py, array),
            }
        };
        found.into_iter().map(|array| array.map(object).transpose()).collect::<PyResult<Vec<_>>>().map(Some)
    }
}

/// The memory of an array of NumPy, not of a class derived from it.
fn numpy_view<'a>(x: &'a Bound<'_, PyAny>, types: &[Py<PyArrayDescr>; 4]) -> Option<View<'a>> {
    let array = x.cast_exact::<PyUntypedArray>().ok()?;
    // SAFETY: the array is there, with its flags and its address.
    let &PyArrayObject_fields { flags, data, .. } = unsafe { &(*array.as_array_ptr()).fields };
    let needed = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    if flags & needed != needed {
        return None;
    }
    let (dtype, count, start) = (array.dtype(), array.len(), data.cast_const());
    let number = types
        .iter()
        .position(|known| dtype.is(known))
        .or_else(|| types.iter().position(|known| dtype.is_equiv_to(known.bind(x.py()))))?;
    const DTYPES: [DType; 4] = [DType::F64, DType::F32, DType::I32, DType::I64];
    // SAFETY: the flags say that the elements lie side by side, aligned; the type is that of the dtype. They are there while
    // the reference to the array lives.
    let data = unsafe { host_data(DTYPES[number], start.cast(), count) };
    View::new(data, array.shape()).ok()
}
