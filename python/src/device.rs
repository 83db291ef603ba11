//! Arrays of CUDA devices, for Python.
//!
//! An array owns its memory, or keeps the owner of borrowed memory alive. The array records the stream that wrote it. A
//! call on another stream waits for that stream, which then waits for the call, so that later writes and frees on it
//! come after the call.
#![expect(unsafe_code, reason = "streams and memory are valid by promise of their owners")]

use std::any::Any;
use std::sync::Arc;

use madelung::array::{Array, DType, Place, View};
use madelung::backend::Allocator;
use madelung::cuda::Device;
use madelung::{Error, Result};
use madelung_bridge::dlpack::{Element, Form, OnDevice, is_row_major};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{compute, exception};
use crate::convert::Numbers;
use crate::dlpack::{capsule, taken};
use crate::owned::Owned;
use crate::stream::{DeviceStream, Lane};

/// An array in device memory, in row-major order, of any type that DLPack has.
#[pyclass(frozen, module = "madelung._native")]
#[derive(Debug)]
pub(crate) struct DeviceArray {
    /// The memory, or its owner.
    kept: Arc<Owned>,
    device: &'static Device,
    at: OnDevice,
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
        let (element, shape) = (array.dtype().into(), array.shape().to_vec());
        Self::of(lane, Owned::of(Arc::new(array)), element, shape)
    }

    /// Memory with elements of some type and shape, written by work on a stream.
    fn of(lane: &Arc<Lane>, kept: Arc<Owned>, element: Element, shape: Vec<usize>) -> Self {
        let (device, address) = (lane.device(), kept.address());
        Self {
            kept,
            device,
            at: OnDevice { ordinal: device.ordinal(), element, shape, address },
            written: Some(lane.clone()),
            is_foreign: false,
            is_read_only: false,
        }
    }

    /// An array of borrowed memory.
    fn borrowed(
        name: &str,
        at: OnDevice,
        owner: Arc<dyn Any + Send + Sync>,
        written: Option<Arc<Lane>>,
        is_read_only: bool,
    ) -> Result<Self> {
        let size = at.element.size();
        if isize::try_from(at.bytes()).is_err() {
            return Err(Error::argument(name, "a shape that fits in memory", format!("{:?}", at.shape)));
        }
        if !at.address.is_multiple_of(size as u64) && at.count() > 0 {
            let expected = format!("an address that is a multiple of {size}");
            return Err(Error::argument(name, expected, format!("{:#x}", at.address)));
        }
        let device = Device::get(at.ordinal)?;
        let kept = Owned::lent(owner, at.address, at.bytes());
        let array = Self { kept, device, at, written, is_foreign: true, is_read_only };
        array.check(name)?;
        Ok(array)
    }

    /// Checks that borrowed memory is still valid.
    fn check(&self, name: &str) -> Result<()> {
        if self.is_foreign {
            return self.device.check_pointer(name, self.at.address, self.at.bytes());
        }
        Ok(())
    }

    fn dtype(&self, name: &str) -> Result<DType> {
        let wrong = || Error::argument(name, "float32, float64, int32 or int64", self.at.element.to_string());
        self.at.element.dtype().ok_or_else(wrong)
    }

    /// The array as argument `name` of a call.
    pub(crate) fn view(&self, name: &str) -> Result<View<'_>> {
        let (place, dtype) = (Place::Cuda(self.device.ordinal()), self.dtype(name)?);
        // SAFETY: the owner of the memory is kept alive and promised these elements; calls wait for the stream that
        // wrote them.
        Ok(unsafe { View::remote(place, dtype, &self.at.shape, self.at.address) })
    }

    /// Whether it is so many bytes of its memory, from `first` on.
    fn lies_at(&self, first: usize, bytes: usize) -> bool {
        self.kept.is_at(self.at.address, first, bytes) && self.at.bytes() == bytes
    }

    /// The array's memory as that of a result, for a call that has it among its arrays.
    pub(crate) fn room(&self) -> Result<Array> {
        if self.is_read_only {
            return Err(Error::argument("out", "an array that can be written to", "one that is read-only"));
        }
        self.kept.share();
        let (place, owner) = (Place::Cuda(self.device.ordinal()), Box::new(self.kept.clone()));
        let dtype = self.dtype("out")?;
        // SAFETY: as for `view`; who gives the array to be written to uses it for nothing else on other streams meanwhile.
        Ok(unsafe { Array::remote(place, dtype, &self.at.shape, self.at.address, owner) })
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
    arrays: &[(&DeviceArray, impl AsRef<str>)],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    // Once for all that the work asks of the driver.
    lane.device().within(|| in_order(lane, arrays, work))?
}

fn in_order<T>(
    lane: &Lane,
    arrays: &[(&DeviceArray, impl AsRef<str>)],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    arrays.iter().try_for_each(|(array, name)| array.check_on(name.as_ref(), lane))?;
    let kept = lane.capture()?;
    let mut others: Vec<(&Lane, &str)> = arrays
        .iter()
        .filter_map(|(array, name)| Some((array.written_on_another(lane)?, name.as_ref())))
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
        PyTuple::new(py, &self.at.shape)
    }

    /// The name of the element type, as NumPy has it.
    #[getter]
    #[pyo3(name = "dtype")]
    fn name(&self) -> String {
        self.at.element.to_string()
    }

    #[getter]
    fn device(&self) -> usize {
        self.device.ordinal()
    }

    /// The address of the first element; 0 for an empty array.
    #[getter]
    fn address(&self) -> u64 {
        self.kept.share();
        if self.at.count() == 0 { 0 } else { self.at.address }
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

    /// A NumPy copy of the bytes; the call waits for the stream.
    fn read<'py>(&self, py: Python<'py>, stream: &DeviceStream) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let lane = &*stream.0;
        let bytes = compute(py, || {
            with_arrays(lane, &[(self, "array")], || {
                let mut bytes = vec![0_u8; self.at.bytes()];
                // SAFETY: the array has as many bytes.
                unsafe { lane.stream.download(&mut bytes, self.at.address)? };
                Ok(bytes)
            })
        })?;
        Ok(bytes.into_pyarray(py))
    }

    /// A copy on the device.
    fn copy(&self, py: Python<'_>, stream: &DeviceStream) -> PyResult<Self> {
        let lane = &stream.0;
        compute(py, || {
            with_arrays(lane, &[(self, "array")], || {
                let bytes = self.at.bytes();
                let words = lane.memory.room(DType::I64, &[bytes.div_ceil(DType::I64.size())])?;
                let copy = Self::of(lane, Owned::of(Arc::new(words)), self.at.element, self.at.shape.clone());
                // SAFETY: both arrays have as many bytes, and `copy` is new.
                unsafe { lane.stream.copy(copy.at.address, self.at.address, bytes)? };
                Ok(copy)
            })
        })
    }

    /// A view of `shape` on the array's elements from `first` on.
    pub(crate) fn part(&self, first: usize, shape: Vec<usize>) -> PyResult<Self> {
        let len = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
        if len.and_then(|len| len.checked_add(first)).is_none_or(|end| end > self.at.count()) {
            let got = format!("shape {shape:?} from {first} on");
            let expected = format!("part of {} elements", self.at.count());
            return Err(exception(Error::argument("part", expected, got)));
        }
        let address = self.at.address + (first * self.at.element.size()) as u64;
        let (kept, written) = (self.kept.clone(), self.written.clone());
        Ok(Self { kept, written, at: OnDevice { shape, address, ..self.at }, ..*self })
    }

    /// Notes that these offsets, pairs (2, P) or columns (P,), and images are a full list that a search has made.
    fn found_list(&self, pairs: &Self, images: &Self) {
        Owned::found([&self.kept, &pairs.kept, &images.kept]);
    }

    /// Whether these offsets, columns or pairs, and images are such a list, which nobody can have changed.
    pub(crate) fn is_checked_list(&self, columns: &Self, images: &Self) -> bool {
        let is_whole = |array: &Self| array.lies_at(0, array.kept.bytes());
        let pairs = columns.kept.bytes() / 2;
        Owned::are_checked([&self.kept, &columns.kept, &images.kept])
            && is_whole(self)
            && is_whole(images)
            && (is_whole(columns) || columns.lies_at(pairs, pairs))
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
        self.kept.share();
        let owner = Box::new((self.kept.clone(), self.written.clone()));
        let read_only = self.is_read_only;
        let form = copied.map_or(Form::Unversioned, |copied| Form::Versioned { read_only, copied });
        capsule(py, &self.at, owner, form)
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
        let (to, from) = (&out.at, &x.at);
        if (to.element, to.count(), out.is_read_only) != (from.element, from.count(), false) {
            let expected = format!("{} elements of {} that can be written to", from.count(), from.element);
            return Err(Error::argument("out", expected, format!("{} of {}", to.count(), to.element)));
        }
        out.kept.share();
        with_arrays(lane, &[(out, "out"), (x, "x")], || {
            // SAFETY: both have as many bytes, and elements of either array stay where they are while it lives; `out` is
            // there to be written to, and `x` is a result of its own.
            unsafe { lane.stream.copy(to.address, from.address, from.bytes()) }
        })
    })
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
        let dtype = dtype_named(dtype)?;
        lane.capture()?;
        Ok(DeviceArray::made(lane, lane.filled(dtype, &shape, x)?))
    })
}

/// A dtype of calls, by its name.
fn dtype_named(name: &str) -> Result<DType> {
    let wrong = || Error::argument("dtype", "float32, float64, int32 or int64", name);
    Element::named(name).and_then(Element::dtype).ok_or_else(wrong)
}

/// An array (count,) of one number, an input of ops that nobody gets: made once for the calls on a stream.
#[pyfunction]
pub(crate) fn device_constant(
    py: Python<'_>,
    count: usize,
    dtype: &str,
    x: f64,
    stream: &DeviceStream,
) -> PyResult<DeviceArray> {
    let lane = &stream.0;
    compute(py, || {
        let array = lane.constant(dtype_named(dtype)?, count, x)?;
        let element = array.dtype().into();
        Ok(DeviceArray::of(lane, Owned::of(array), element, vec![count]))
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
    borrowed.element(name).map_err(|e| PyTypeError::new_err(e.to_string()))?;
    let is_read_only = borrowed.is_read_only();
    compute(py, || {
        let at = borrowed.on_device(name)?;
        DeviceArray::borrowed(name, at, Arc::new(borrowed), Some(stream.0.clone()), is_read_only)
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
        let (address, shape, strides) = layout;
        let wrong = || Error::argument(name, "booleans, integers, or real or complex numbers", dtype);
        let element = Element::named(dtype).ok_or_else(wrong)?;
        if let Some(bytes) = strides {
            let size = element.size() as i64;
            let whole = bytes.len() == shape.len() && bytes.iter().all(|stride| stride % size == 0);
            let strides: Vec<i64> = bytes.iter().map(|stride| stride / size).collect();
            if !(whole && is_row_major(&shape, &strides)) {
                let got = format!("strides {bytes:?} of {shape:?}");
                return Err(Error::argument(name, "an array in row-major order without gaps", got));
            }
        }
        let at = OnDevice { ordinal: device, element, shape, address };
        DeviceArray::borrowed(name, at, Arc::new(owner), stream.map(|stream| stream.0.clone()), is_read_only)
    })
}
