//! Streams of CUDA devices, for Python, and what is kept for each: its pool of memory, and constants of its calls.
#![expect(unsafe_code, reason = "streams are valid by promise of their owners")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use madelung::array::{Array, DType};
use madelung::backend::{Allocator, Context};
use madelung::cuda::{Cuda, Device, Memory, Stream};
use madelung::{Error, Result};
use pyo3::prelude::*;

use crate::call::{compute, exception};
use crate::captures::{self, Kept};

/// A CUDA stream of the caller, with the memory pool for work on the stream.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    pub(crate) memory: Memory,
    constants: Constants,
    pub(crate) id: u64,
    /// The caller's Python object that keeps the stream alive.
    _object: Option<Py<PyAny>>,
}

/// Memory pool of a stream, and arrays of one number that its calls have in common.
#[derive(Clone, Debug)]
struct Pool {
    memory: Memory,
    constants: Constants,
}

/// The pools of streams, by device and stream number.
fn pools() -> MutexGuard<'static, HashMap<captures::Key, Pool>> {
    static POOLS: OnceLock<Mutex<HashMap<captures::Key, Pool>>> = OnceLock::new();
    POOLS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Arrays of one number, by dtype, length and the number's bits, the last ones last.
type Constants = Arc<Mutex<Vec<((DType, usize, u64), Arc<Array>)>>>;

/// Most constants of a stream, and elements of one that is kept: for larger ones their cost does not matter.
const CONSTANTS: usize = 64;
const ELEMENTS: usize = 1 << 16;

impl Lane {
    /// The backend of the stream.
    pub(crate) fn cuda(&self) -> Cuda {
        Cuda::new(self.stream)
    }

    /// The context of calls on the stream.
    pub(crate) fn context<'a>(&'a self, backend: &'a Cuda) -> Context<'a> {
        Context { allocator: &self.memory, ..Context::new(backend) }
    }

    pub(crate) fn device(&self) -> &'static Device {
        self.stream.device()
    }

    /// The array (count,) of one number that earlier calls on the stream have made.
    pub(crate) fn known(&self, dtype: DType, count: usize, x: f64) -> Option<Arc<Array>> {
        let known = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (dtype, count, x.to_bits());
        known.iter().find(|(of, _)| *of == key).map(|(_, array)| array.clone())
    }

    /// A constant array, made where there is none.
    pub(crate) fn constant(&self, dtype: DType, count: usize, x: f64) -> Result<Arc<Array>> {
        if let Some(array) = self.known(dtype, count, x) {
            return Ok(array);
        }
        // A graph that is captured meanwhile would be the one to write it.
        self.capture()?;
        let array = Arc::new(self.filled(dtype, &[count], x)?);
        if count <= ELEMENTS {
            let mut known = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() == CONSTANTS {
                known.remove(0);
            }
            known.push(((dtype, count, x.to_bits()), array.clone()));
        }
        Ok(array)
    }

    /// An array of one number.
    pub(crate) fn filled(&self, dtype: DType, shape: &[usize], x: f64) -> Result<Array> {
        if x == 0.0 {
            self.memory.zeros(dtype, shape)
        } else {
            self.context(&self.cuda()).filled(dtype, shape, x)
        }
    }

    /// Memory kept for the graph that the stream captures, if it does. Work in other memory is refused, which no graph
    /// keeps.
    pub(crate) fn capture(&self) -> Result<Option<Arc<Kept>>> {
        let kept = captures::of(self.stream, self.key())?;
        if kept.as_ref().is_some_and(|kept| !kept.memory.is(&self.memory)) {
            let text = "a call on a stream whose capture begins meanwhile";
            return Err(Error::Unsupported(text.into()));
        }
        Ok(kept)
    }

    /// Lets later work wait for the present work on another stream, which wrote the array of this name. Neither may
    /// capture: the other one would be part of its graph.
    pub(crate) fn wait_for(&self, other: &Self, name: &str) -> Result<()> {
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
            let pool = |memory| Pool { memory, constants: Constants::default() };
            // A graph has constants of its own, which it makes when it is launched.
            let captured = captures::of(stream, key)?.map(|kept| pool(kept.memory.clone()));
            let Pool { memory, constants } = captured
                .unwrap_or_else(|| pools().entry(key).or_insert_with(|| pool(Memory::new(stream))).clone());
            Ok(Self(Arc::new(Lane { stream, memory, constants, id, _object: object })))
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
        pools().values().try_for_each(|pool| {
            pool.constants.lock().unwrap_or_else(PoisonError::into_inner).clear();
            pool.memory.release().map(|_| ())
        })
    })
}

/// The number of times that the record of a device's errors was taken.
#[pyfunction]
pub(crate) fn device_looks(ordinal: usize) -> PyResult<u64> {
    Ok(Device::get(ordinal).map_err(exception)?.looks())
}

/// Copies the number of the call that the record of a device names to pinned memory of the host, an int32 at `address`, in the
/// order of PyTorch's current stream.
#[pyfunction]
pub(crate) fn note_record(ordinal: usize, address: usize) -> PyResult<()> {
    let stream = madelung_bridge_torch::stream(ordinal).map_err(exception)?;
    // SAFETY: the memory is a pinned tensor's, by promise of `madelung.torch`, which keeps it until the stream has come so far.
    unsafe { stream.note_record(std::ptr::with_exposed_provenance_mut(address)) }.map_err(exception)
}
