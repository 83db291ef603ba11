//! Arrays of a library of Python that calls take as they are: in memory, in row-major order, and of no graph, transform or
//! mode.
#![expect(unsafe_code, reason = "memory behind objects of Python")]

use madelung::Error;
use madelung::array::{Array, DType, Data, Place, View};
use madelung::backend::Context;
use madelung_bridge::dlpack::{Exchange, Lent, Results, host_data};
use numpy::npyffi::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, PyArrayObject_fields};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyType};
use std::sync::{Arc, Mutex, PoisonError};

use crate::call::{compute, exception};
use crate::convert::given_any;
use crate::device::{DeviceArray, with_arrays};
use crate::stream::Lane;

/// The kind of full lists in a call: see `KINDS` of the bridge.
const FULL: i64 = 0;

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
    /// PyTorch's current stream of a device.
    Torch(usize),
}

/// Constant of a stream: its device and handle, dtype, length, and the number's bits.
type Key = (usize, usize, DType, usize, u64);

/// Most constants that are kept, and elements of one: for larger ones their cost does not matter.
const CONSTANTS: usize = 64;
const ELEMENTS: usize = 1 << 16;

/// Knowledge of `madelung.torch` about lists on a device, whose values are not read.
struct Known {
    /// The second row of a list of pairs, one tensor for all calls.
    columns_of: Py<PyAny>,
    /// Whether offsets, columns and images were checked.
    is_checked: Py<PyAny>,
    /// Whether the cell of a list is the copy of a cell.
    is_made_in: Py<PyAny>,
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
    /// `torch.empty`, and dtypes.
    empty: Py<PyAny>,
    dtypes: Vec<(DType, Py<PyAny>)>,
    known: Known,
    constants: Mutex<Vec<(Key, Py<PyAny>)>>,
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
    /// whose results are false in ordinary calls; `known`: `columns_of`, `is_checked` and `is_made_in` of lists on devices;
    /// `empty`: the function of that name, and the dtypes float64, float32, int32, int64, float16 and bfloat16.
    #[staticmethod]
    fn of_torch(
        table: &Bound<'_, PyCapsule>,
        types: Vec<Py<PyType>>,
        unusual: Vec<Py<PyAny>>,
        forward_ad: Py<PyAny>,
        is_grad_enabled: Py<PyAny>,
        known: [Py<PyAny>; 3],
        empty: (Py<PyAny>, Vec<Py<PyAny>>),
    ) -> PyResult<Option<Self>> {
        let pointer = table.pointer_checked(Some(c"dlpack_exchange_api"))?;
        // SAFETY: the capsule of this name holds the table, which the library keeps.
        let exchange = unsafe { Exchange::new(pointer.as_ptr()) };
        let [columns_of, is_checked, is_made_in] = known;
        let known = Known { columns_of, is_checked, is_made_in };
        let constants = Mutex::default();
        let (empty, dtypes) = empty;
        let all = [DType::F64, DType::F32, DType::I32, DType::I64, DType::F16, DType::BF16];
        let dtypes = all.into_iter().zip(dtypes).collect();
        Ok(exchange.map(|exchange| {
            Self(Library::Torch(Torch {
                exchange,
                types,
                unusual,
                forward_ad,
                is_grad_enabled,
                empty,
                dtypes,
                known,
                constants,
            }))
        }))
    }

    /// Whether no position is further than half a skin from the known one. Arrays that cannot be compared are near: a call
    /// refuses them by their names.
    pub(crate) fn is_near(
        &self,
        known: &Bound<'_, PyAny>,
        now: &Bound<'_, PyAny>,
        skin: f64,
    ) -> PyResult<bool> {
        let (Some(known), Some(now)) = (self.memory(known)?, self.memory(now)?) else { return Ok(true) };
        let largest = match (known.data(), now.data()) {
            _ if known.shape() != now.shape() => 0.0,
            (Data::F64(known), Data::F64(now)) => largest_step(known, now),
            (Data::F32(known), Data::F32(now)) => largest_step(known, now),
            _ => 0.0,
        };
        Ok(largest <= 0.25 * skin * skin)
    }
}

/// The square of the largest distance from one position to the other.
fn largest_step<T: Copy + Into<f64>>(from: &[T], to: &[T]) -> f64 {
    let squared = |(from, to): (&[T; 3], &[T; 3])| {
        let step: [f64; 3] = std::array::from_fn(|k| to[k].into() - from[k].into());
        step[0] * step[0] + step[1] * step[1] + step[2] * step[2]
    };
    from.as_chunks().0.iter().zip(to.as_chunks().0).map(squared).fold(0.0, f64::max)
}

impl Plain {
    /// Number of pairs from which plain lists go the other way: PyTorch remembers those that a call has checked.
    pub(crate) fn most_pairs(&self) -> usize {
        if matches!(self.0, Library::Torch(_)) { MANY } else { usize::MAX }
    }

    /// Whether arrays of the host are among those of the library: their values can be read without waiting for a device.
    pub(crate) fn has_host(&self) -> bool {
        !matches!(self.0, Library::Cuda(_))
    }

    /// The place of an array of PyTorch's that is plain; of other libraries the host.
    pub(crate) fn place(&self, x: &Bound<'_, PyAny>) -> PyResult<Option<Place>> {
        match &self.0 {
            Library::Torch(_) => Ok(self.memory(x)?.map(|view| view.place())),
            _ => Ok(Some(Place::Host)),
        }
    }

    /// The second row of a list of pairs on a device.
    pub(crate) fn columns_of<'py>(&self, pairs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match &self.0 {
            Library::Torch(torch) => torch.known.columns_of.bind(pairs.py()).call1((pairs,)),
            _ => Ok(pairs.clone()),
        }
    }

    /// Whether a list on a device, of so many columns, was checked, and nobody can have written to it since.
    pub(crate) fn is_checked(&self, list: [&Bound<'_, PyAny>; 3], columns: usize) -> PyResult<bool> {
        if let Library::Torch(torch) = &self.0 {
            let [ptr, others, images] = list;
            let known = torch.known.is_checked.bind(ptr.py());
            return known.call1(((ptr, others, images), FULL, columns))?.extract();
        }
        let array = |x: &Bound<'_, PyAny>| x.cast_exact::<DeviceArray>().ok().map(|x| x.clone().unbind());
        let [Some(ptr), Some(others), Some(images)] = list.map(array) else { return Ok(false) };
        Ok(ptr.get().is_checked_list(others.get(), images.get()))
    }

    /// Whether the cell of a list, if it has one, is known to be that of a call, on a device.
    pub(crate) fn is_made_in(&self, of_list: &Bound<'_, PyAny>, cell: &Bound<'_, PyAny>) -> PyResult<bool> {
        match &self.0 {
            Library::Torch(torch) if !of_list.is_none() && !cell.is_none() => {
                torch.known.is_made_in.bind(cell.py()).call1((of_list, cell))?.extract()
            }
            _ => Ok(of_list.is_none() == cell.is_none()),
        }
    }

    /// The constant that an earlier call has made, or `make` makes; None of other libraries.
    pub(crate) fn constant<'py>(
        &self,
        py: Python<'py>,
        key: Key,
        make: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Library::Torch(torch) = &self.0 else { return Ok(None) };
        let known = || torch.constants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tensor)) = known().iter().find(|(of, _)| *of == key) {
            return Ok(Some(tensor.bind(py).clone()));
        }
        let made = make()?;
        if key.3 <= ELEMENTS {
            let mut known = known();
            let oldest = (known.len() == CONSTANTS).then(|| known.remove(0));
            known.push((key, made.clone().unbind()));
            drop(known);
            drop(oldest);
        }
        Ok(Some(made))
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
                (Site::Torch(ordinal), _) => {
                    let made = |dtype: DType, shape: &[usize]| self.tensor(*ordinal, single, dtype, shape);
                    madelung_bridge_torch::on_device(*ordinal, &made, work)
                }
                (Site::Host, Some(results)) => madelung_bridge_torch::on_host(results, work),
                (Site::Host, None) => work(&madelung::cpu::context()),
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
                (_, Site::Torch(ordinal), _) => match array.into_owner::<Kept>() {
                    Ok(Kept(tensor)) => Ok(tensor.into_bound(py)),
                    Err(array) => self.copied(py, *ordinal, single, &array),
                },
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

    /// A new tensor of PyTorch's on a device, as the array of a result.
    fn tensor(&self, ordinal: usize, single: bool, dtype: DType, shape: &[usize]) -> madelung::Result<Array> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        Python::attach(|py| {
            // A call that has no memory goes another way, which tells of it.
            let failed = |_| Error::memory(bytes, None);
            let (tensor, at) = self.empty(py, ordinal, single, dtype, shape).map_err(failed)?;
            let kept = Box::new(Kept(tensor.unbind()));
            // SAFETY: the new tensor is contiguous, has as many elements of this dtype and no other reference; PyTorch uses
            // its memory again for later work of the stream alone.
            Ok(unsafe { Array::remote(Place::Cuda(ordinal), dtype, shape, at, kept) })
        })
    }

    /// A tensor with the elements of an array of a device.
    fn copied<'py>(
        &self,
        py: Python<'py>,
        ordinal: usize,
        single: bool,
        array: &Array,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (tensor, at) = self.empty(py, ordinal, single, array.dtype(), array.shape())?;
        if !array.view().is_empty() {
            // SAFETY: the new tensor has as many elements of this dtype, and no other reference.
            unsafe { madelung_bridge_torch::copied(at, &array.view()) }.map_err(exception)?;
        }
        Ok(tensor)
    }

    /// A new tensor of PyTorch's own allocator on a device, and its address.
    fn empty<'py>(
        &self,
        py: Python<'py>,
        ordinal: usize,
        single: bool,
        dtype: DType,
        shape: &[usize],
    ) -> PyResult<(Bound<'py, PyAny>, u64)> {
        let Library::Torch(torch) = &self.0 else {
            return Err(exception(Error::Unsupported("a tensor of another library".into())));
        };
        let own = if single && *shape == [1, 3, 3] { &shape[1..] } else { shape };
        let known = torch.dtypes.iter().find(|(of, _)| *of == dtype).map(|(_, object)| object);
        let named = PyDict::new(py);
        named.set_item(intern!(py, "dtype"), known)?;
        named.set_item(intern!(py, "device"), ordinal)?;
        let tensor = torch.empty.bind(py).call((own.to_vec(),), Some(&named))?;
        let address = self.memory(&tensor)?.filter(|view| !view.is_empty());
        let address = address.map_or(0, |view| madelung_cuda::memory::address(&view));
        Ok((tensor, address))
    }
}

/// A tensor that is a result.
struct Kept(Py<PyAny>);

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
