//! Streams and arrays of CUDA devices, for Python.
//!
//! An array owns its memory, or keeps the owner of borrowed memory alive. The array records the stream that wrote it. A
//! call on another stream waits for that stream, which then waits for the call, so that later writes and frees on it
//! come after the call.
#![expect(unsafe_code, reason = "streams and memory are valid by promise of their owners")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use madelung::array::{Array, DType, Data, Place, View};
use madelung::backend::Allocator;
use madelung::backend::Context;
use madelung::cuda::{Cuda, Device, Memory, Stream};
use madelung::{Error, Result};
use madelung_bridge::dlpack::{Form, is_row_major};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{compute, exception};
use crate::captures::{self, Kept};
use crate::convert::{Numbers, given_any};
use crate::dlpack::{capsule, taken};

/// A CUDA stream of the caller, with the memory pool for work on the stream.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    pub(crate) memory: Memory,
    id: u64,
    /// The caller's Python object that keeps the stream alive.
    _object: Option<Py<PyAny>>,
}

/// The memory pools of streams, by device and stream number.
fn memories() -> &'static Mutex<HashMap<(usize, u64), Memory>> {
    static MEMORIES: OnceLock<Mutex<HashMap<(usize, u64), Memory>>> = OnceLock::new();
    MEMORIES.get_or_init(Mutex::default)
}

impl Lane {
    /// The backend of the stream.
    pub(crate) fn cuda(&self) -> Cuda {
        Cuda::new(self.stream)
    }

    /// The context of calls on the stream.
    pub(crate) fn context<'a>(&'a self, backend: &'a Cuda) -> Context<'a> {
        Context { allocator: &self.memory, ..Context::new(backend) }
    }

    fn device(&self) -> &'static Device {
        self.stream.device()
    }

    /// What is kept for the graph that the stream captures, if it does. Work in other memory is refused, which no graph
    /// keeps.
    fn capture(&self) -> Result<Option<Arc<Kept>>> {
        let kept = captures::of(self.stream, self.key())?;
        if kept.as_ref().is_some_and(|kept| !kept.memory.is(&self.memory)) {
            let text = "a call on a stream whose capture begins meanwhile";
            return Err(Error::Unsupported(text.into()));
        }
        Ok(kept)
    }

    /// Lets later work wait for the present work on another stream, which wrote the array of this name. Neither may
    /// capture: the other one would be part of its graph.
    fn wait_for(&self, other: &Self, name: &str) -> Result<()> {
        if self.stream.is_capturing()? || other.stream.is_capturing()? {
            let got = "one of another stream, while one of them is captured";
            return Err(Error::argument(name, "an array of the stream of the call", got));
        }
        self.stream.wait_for(other.stream)
    }

    /// The device, and the stream's number, unique in the process.
    pub(crate) fn key(&self) -> (usize, u64) {
        (self.device().ordinal(), self.id)
    }
}

/// A CUDA stream.
#[pyclass(frozen, module = "madelung._native")]
#[derive(Clone, Debug)]
pub(crate) struct DeviceStream(pub(crate) Arc<Lane>);

#[pymethods]
impl DeviceStream {
    /// The stream behind a handle, which `object` keeps alive; without a device, of the one that the driver names.
    #[new]
    fn new(
        py: Python<'_>,
        device: Option<usize>,
        handle: usize,
        object: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        compute(py, || {
            // SAFETY: the handle is a stream by promise of the caller, and lives as long as the object.
            let stream = unsafe {
                match device {
                    Some(device) => Device::get(device)?.stream(handle)?,
                    None => Stream::of(handle)?,
                }
            };
            let id = stream.id()?;
            let key = (stream.device().ordinal(), id);
            let captured = captures::of(stream, key)?.map(|kept| kept.memory.clone());
            let memory = captured.unwrap_or_else(|| {
                let mut memories = memories().lock().unwrap_or_else(PoisonError::into_inner);
                memories.entry(key).or_insert_with(|| Memory::new(stream)).clone()
            });
            Ok(Self(Arc::new(Lane { stream, memory, id, _object: object })))
        })
    }

    #[getter]
    fn device(&self) -> usize {
        self.0.device().ordinal()
    }

    #[getter]
    fn handle(&self) -> usize {
        self.0.stream.as_raw()
    }

    /// Calls a function while the stream's device is current, as PyTorch's exporter needs.
    fn within<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.0.device().within(|| function.call0()).map_err(exception)?
    }

    /// Whether calls on the stream are captured.
    #[getter]
    fn captures(&self) -> PyResult<bool> {
        self.0.stream.capture().map(|id| id.is_some()).map_err(exception)
    }

    /// The stream's number, unique in the process.
    #[getter]
    fn id(&self) -> u64 {
        self.0.id
    }
}

/// Frees unused memory of all pools, for which the driver waits for the devices.
#[pyfunction]
pub(crate) fn release_device_memory(py: Python<'_>) -> PyResult<()> {
    compute(py, || {
        captures::release();
        let memories = memories().lock().unwrap_or_else(PoisonError::into_inner);
        memories.values().try_for_each(|memory| memory.release().map(|_| ()))
    })
}

/// An array in device memory, in row-major order.
#[pyclass(frozen, module = "madelung._native")]
#[derive(Debug)]
pub(crate) struct DeviceArray {
    /// The owner of the memory.
    kept: Arc<Array>,
    device: &'static Device,
    dtype: DType,
    shape: Vec<usize>,
    address: u64,
    /// The stream that wrote the array; None if the writes were complete when the array was imported.
    written: Option<Arc<Lane>>,
    /// Whether the memory is borrowed, and may have been freed by its owner.
    is_foreign: bool,
    /// Whether the memory is declared read-only.
    is_read_only: bool,
}

impl DeviceArray {
    /// A new array written by work on a stream.
    pub(crate) fn made(lane: &Arc<Lane>, array: Array) -> Self {
        Self::of(lane.device(), array, Some(lane.clone()), false)
    }

    fn of(device: &'static Device, array: Array, written: Option<Arc<Lane>>, is_foreign: bool) -> Self {
        let address = match array.view().data() {
            Data::Device(remote) => remote.address(),
            _ => unreachable!("arrays of calls on a device lie there"),
        };
        let (dtype, shape) = (array.dtype(), array.shape().to_vec());
        Self {
            kept: Arc::new(array),
            device,
            dtype,
            shape,
            address,
            written,
            is_foreign,
            is_read_only: false,
        }
    }

    /// An array of borrowed memory.
    fn borrowed(name: &str, array: Array, written: Option<Arc<Lane>>, is_read_only: bool) -> Result<Self> {
        let Place::Cuda(ordinal) = array.place() else {
            return Err(Error::argument(name, "an array of a CUDA device", "one of the host"));
        };
        let array = Self { is_read_only, ..Self::of(Device::get(ordinal)?, array, written, true) };
        if !array.address.is_multiple_of(array.dtype.size() as u64) && array.len() > 0 {
            let expected = format!("an address that is a multiple of {}", array.dtype.size());
            return Err(Error::argument(name, expected, format!("{:#x}", array.address)));
        }
        array.check(name)?;
        Ok(array)
    }

    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Checks that borrowed memory is still valid.
    fn check(&self, name: &str) -> Result<()> {
        if self.is_foreign {
            return self.device.check_pointer(name, self.address, self.len() * self.dtype.size());
        }
        Ok(())
    }

    pub(crate) fn view(&self) -> View<'_> {
        let place = Place::Cuda(self.device.ordinal());
        // SAFETY: the owner of the memory is kept alive and promised these elements; calls wait for the stream that
        // wrote them.
        unsafe { View::remote(place, self.dtype, &self.shape, self.address) }
    }

    /// The array's memory as that of a result, for a call that has it among its arrays.
    pub(crate) fn room(&self) -> Result<Array> {
        if self.is_read_only {
            return Err(Error::argument("out", "an array that can be written to", "one that is read-only"));
        }
        let (place, owner) = (Place::Cuda(self.device.ordinal()), Box::new(self.kept.clone()));
        // SAFETY: as for `view`; who gives the array to be written to uses it for nothing else on other streams meanwhile.
        Ok(unsafe { Array::remote(place, self.dtype, &self.shape, self.address, owner) })
    }

    /// Checks that work on a stream can use the array, named `name` in errors.
    fn check_on(&self, name: &str, lane: &Lane) -> Result<()> {
        if self.device.ordinal() != lane.device().ordinal() {
            let place = |device: &Device| Place::Cuda(device.ordinal());
            let (expected, got) = (place(lane.device()), place(self.device));
            return Err(Error::argument(name, format!("an array of {expected}"), format!("one of {got}")));
        }
        self.check(name)
    }

    /// The stream that wrote the array, unless it is `lane`.
    fn written_on_another(&self, lane: &Lane) -> Option<&Lane> {
        self.written.as_deref().filter(|written| written.id != lane.id)
    }
}

/// Runs `work` on a stream, ordered with the streams that wrote the arrays; each array comes with its name for errors.
pub(crate) fn with_arrays<T>(
    lane: &Lane,
    arrays: &[(&DeviceArray, String)],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    arrays.iter().try_for_each(|(array, name)| array.check_on(name, lane))?;
    let kept = lane.capture()?;
    let mut others: Vec<(&Lane, &str)> = arrays
        .iter()
        .filter_map(|(array, name)| Some((array.written_on_another(lane)?, name.as_str())))
        .collect();
    others.sort_by_key(|(other, _)| other.id);
    others.dedup_by_key(|(other, _)| other.id);
    others.iter().try_for_each(|(other, name)| lane.wait_for(other, name))?;
    if let Some(kept) = kept {
        kept.keep(arrays.iter().map(|(array, _)| &array.kept));
    }
    let done = work();
    // Later writes and frees on those streams come after the work.
    others.iter().try_for_each(|(other, name)| other.wait_for(lane, name)).and(done)
}

#[pymethods]
impl DeviceArray {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn dtype(&self) -> String {
        self.dtype.to_string()
    }

    #[getter]
    fn device(&self) -> usize {
        self.device.ordinal()
    }

    /// The address of the first element; 0 for an empty array.
    #[getter]
    fn address(&self) -> u64 {
        if self.len() == 0 { 0 } else { self.address }
    }

    /// Whether the owner of the memory declares it read-only.
    #[getter]
    fn read_only(&self) -> bool {
        self.is_read_only
    }

    /// The handle of the stream that wrote the array.
    #[getter]
    fn stream(&self) -> Option<usize> {
        self.written.as_ref().map(|lane| lane.stream.as_raw())
    }

    /// Raises an error if the array's memory was freed.
    #[pyo3(name = "check")]
    fn checked(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        compute(py, || self.check(name))
    }

    /// A NumPy copy; the call waits for the stream.
    fn read<'py>(&self, py: Python<'py>, stream: &DeviceStream) -> PyResult<Bound<'py, PyAny>> {
        let lane = &*stream.0;
        let array =
            compute(py, || with_arrays(lane, &[(self, "array".into())], || lane.stream.read(&self.view())))?;
        given_any(py, array)
    }

    /// A copy on the device.
    fn copy(&self, py: Python<'_>, stream: &DeviceStream) -> PyResult<Self> {
        let lane = &stream.0;
        compute(py, || {
            with_arrays(lane, &[(self, "array".into())], || {
                let copy = lane.memory.room(self.dtype, &self.shape)?;
                let copy = Self::made(lane, copy);
                // SAFETY: both arrays have as many bytes, and `copy` is new.
                unsafe { lane.stream.copy(copy.address, self.address, self.len() * self.dtype.size())? };
                Ok(copy)
            })
        })
    }

    /// A view of `shape` on the array's elements from `first` on.
    fn part(&self, first: usize, shape: Vec<usize>) -> PyResult<Self> {
        let len = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
        if len.and_then(|len| len.checked_add(first)).is_none_or(|end| end > self.len()) {
            let got = format!("shape {shape:?} from {first} on");
            return Err(exception(Error::argument("part", format!("part of {} elements", self.len()), got)));
        }
        let address = self.address + (first * self.dtype.size()) as u64;
        let (kept, written) = (self.kept.clone(), self.written.clone());
        Ok(Self { kept, written, shape, address, ..*self })
    }

    /// A DLPack capsule for work on `stream`, which waits for the array; without a stream there is no wait. The capsule
    /// is versioned if `copied` is given, which tells whether the array is a copy made for the consumer.
    fn lend<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&DeviceStream>,
        copied: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(stream) = stream {
            compute(py, || {
                self.check("array")?;
                self.written_on_another(&stream.0)
                    .map_or(Ok(()), |written| stream.0.wait_for(written, "array"))
            })?;
        }
        let owner = Box::new((self.kept.clone(), self.written.clone()));
        let read_only = self.is_read_only;
        let form = copied.map_or(Form::Unversioned, |copied| Form::Versioned { read_only, copied });
        capsule(py, &self.view(), owner, form)
    }
}

/// A copy of a NumPy array on a device; the call waits for the stream.
#[pyfunction]
pub(crate) fn device_upload(
    py: Python<'_>,
    array: Numbers<'_>,
    stream: &DeviceStream,
) -> PyResult<DeviceArray> {
    let view = array.view()?;
    let lane = &stream.0;
    compute(py, || {
        lane.capture()?;
        Ok(DeviceArray::made(lane, lane.memory.upload(&view)?))
    })
}

/// Writes the elements of `x` to `out`, which has as many of the same type, in the order of a stream.
#[pyfunction]
pub(crate) fn device_write(
    py: Python<'_>,
    out: &DeviceArray,
    x: &DeviceArray,
    stream: &DeviceStream,
) -> PyResult<()> {
    let lane = &*stream.0;
    compute(py, || {
        if (out.dtype, out.len(), out.is_read_only) != (x.dtype, x.len(), false) {
            let expected = format!("{} elements of {} that can be written to", x.len(), x.dtype);
            return Err(Error::argument("out", expected, format!("{} of {}", out.len(), out.dtype)));
        }
        with_arrays(lane, &[(out, "out".into()), (x, "x".into())], || {
            // SAFETY: both have as many bytes, and elements of either array stay where they are while it lives; `out` is
            // there to be written to, and `x` is a result of its own.
            unsafe { lane.stream.copy(out.address, x.address, x.len() * x.dtype.size()) }
        })
    })
}

fn dtype_of(name: &str, dtype: &str) -> Result<DType> {
    let known = [DType::F64, DType::F32, DType::I32, DType::I64];
    known
        .into_iter()
        .find(|known| known.to_string() == dtype)
        .ok_or_else(|| Error::argument(name, "float32, float64, int32 or int64", dtype))
}

/// An array whose elements all equal `x`.
#[pyfunction]
pub(crate) fn device_filled(
    py: Python<'_>,
    shape: Vec<usize>,
    dtype: &str,
    x: f64,
    stream: &DeviceStream,
) -> PyResult<DeviceArray> {
    let lane = &stream.0;
    compute(py, || {
        let dtype = dtype_of("dtype", dtype)?;
        lane.capture()?;
        let array = if x == 0.0 {
            lane.memory.zeros(dtype, &shape)?
        } else {
            lane.context(&lane.cuda()).filled(dtype, &shape, x)?
        };
        Ok(DeviceArray::made(lane, array))
    })
}

/// The array in a DLPack capsule, whose exporter has ordered `stream` after the writes.
#[pyfunction]
pub(crate) fn device_from_capsule(
    py: Python<'_>,
    name: &str,
    capsule: &Bound<'_, PyAny>,
    stream: &DeviceStream,
) -> PyResult<DeviceArray> {
    let borrowed = taken(name, capsule)?;
    borrowed.dtype(name).map_err(|e| PyTypeError::new_err(e.to_string()))?;
    let is_read_only = borrowed.is_read_only();
    compute(py, || {
        DeviceArray::borrowed(name, borrowed.into_array(name)?, Some(stream.0.clone()), is_read_only)
    })
}

/// The device in whose memory an address lies.
#[pyfunction]
pub(crate) fn device_of_pointer(py: Python<'_>, name: &str, address: u64) -> PyResult<usize> {
    compute(py, || Ok(Device::of_pointer(name, address)?.ordinal()))
}

/// The array of an object's `__cuda_array_interface__`, in row-major order; `owner` keeps the memory valid.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the fields of the interface")]
pub(crate) fn device_from_address(
    py: Python<'_>,
    name: &str,
    is_read_only: bool,
    layout: (u64, Vec<usize>, Option<Vec<i64>>),
    dtype: &str,
    device: usize,
    stream: Option<&DeviceStream>,
    owner: Py<PyAny>,
) -> PyResult<DeviceArray> {
    compute(py, || {
        let ((address, shape, strides), dtype) = (layout, dtype_of(name, dtype)?);
        if let Some(bytes) = strides {
            let size = dtype.size() as i64;
            let whole = bytes.len() == shape.len() && bytes.iter().all(|stride| stride % size == 0);
            let strides: Vec<i64> = bytes.iter().map(|stride| stride / size).collect();
            if !(whole && is_row_major(&shape, &strides)) {
                let got = format!("strides {bytes:?} of {shape:?}");
                return Err(Error::argument(name, "an array in row-major order without gaps", got));
            }
        }
        // SAFETY: the owner promises the elements and is kept alive; `borrowed` checks that the memory is a device's.
        let array = unsafe { Array::remote(Place::Cuda(device), dtype, &shape, address, Box::new(owner)) };
        DeviceArray::borrowed(name, array, stream.map(|stream| stream.0.clone()), is_read_only)
    })
}
