//! Devices, and whose memory an address is.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::program::Modules;
use crate::driver::constants::Constants;
use crate::driver::sys::{Code, Driver, driver};
use cudarc::driver::sys;
use madelung_core::{Error, Result};
use std::ffi::{c_int, c_void};
use std::fmt::Display;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The driver's numbers of a device's attributes.
const MAX_THREADS_PER_BLOCK: c_int = 1;
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY: [c_int; 2] = [75, 76];
/// The driver's numbers of an address's attributes.
const MEMORY_TYPE: c_int = 2;
const ORDINAL: c_int = 9;
/// The type of memory that lies on a device.
const ON_DEVICE: u32 = 2;

/// The description of an address that is no device's.
const ELSEWHERE: &str = "an address of the host's memory, or of memory that was given back";

/// A GPU, with its primary context, which all libraries of a process share. Made once per ordinal and kept.
#[derive(Debug)]
pub struct Device {
    pub(crate) driver: &'static Driver,
    ordinal: usize,
    /// An address, for threads share a device.
    context: usize,
    architecture: (i32, i32),
    multiprocessors: usize,
    max_threads: usize,
    pub(crate) modules: Modules,
    /// The address of the device's record: see `record.rs`.
    pub(crate) record: OnceLock<u64>,
    pub(crate) looks: AtomicU64,
    pub(crate) constants: Constants,
    /// Whether nothing happens on it.
    is_still: bool,
}

/// Devices that are open.
static FOUND: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

/// A scope in which the device's context is current; the end restores the previous context.
pub(crate) struct Current {
    /// None where the context was current before.
    pushed: Option<&'static Driver>,
}

impl Drop for Current {
    fn drop(&mut self) {
        let Some(driver) = self.pushed else { return };
        let mut context = null_mut();
        // SAFETY: this thread pushed a context; the place is writable.
        unsafe { (driver.cuCtxPopCurrent_v2)(&raw mut context) };
    }
}

impl Device {
    /// The device of an ordinal, as the driver counts them.
    ///
    /// # Errors
    /// There is no driver, no such device, or the driver refuses its context.
    pub fn get(ordinal: usize) -> Result<&'static Self> {
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = found.iter().find(|device| device.ordinal == ordinal) {
            return Ok(device);
        }
        let device: &'static Self = Box::leak(Box::new(Self::new(ordinal)?));
        found.push(device);
        Ok(device)
    }

    fn new(ordinal: usize) -> Result<Self> {
        let driver = driver()?;
        let count = Self::count()?;
        if ordinal >= count {
            let what = format!("the ordinal of one of {count} devices");
            return Err(Error::argument("ordinal", what, ordinal.to_string()));
        }
        let mut handle = 0;
        let doing = format!("opening device {ordinal}");
        // SAFETY: the place is writable.
        driver.check(unsafe { (driver.cuDeviceGet)(&raw mut handle, ordinal as c_int) }, &doing)?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: the place is writable.
            driver.check(unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, which, handle) }, &doing)?;
            Ok(value)
        };
        let mut context = null_mut();
        let architecture = (attribute(CAPABILITY[0])?, attribute(CAPABILITY[1])?);
        let multiprocessors = attribute(MULTIPROCESSORS)? as usize;
        let max_threads = attribute(MAX_THREADS_PER_BLOCK)? as usize;
        // SAFETY: the place is writable. The context is retained for as long as the process lives.
        driver.check(unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut context, handle) }, &doing)?;
        Ok(Self {
            driver,
            ordinal,
            context: context as usize,
            architecture,
            multiprocessors,
            max_threads,
            modules: Modules::default(),
            record: OnceLock::new(),
            looks: AtomicU64::new(0),
            constants: Constants::default(),
            is_still: false,
        })
    }

    /// A virtual device without hardware, which runs nothing: for measuring the needs of a call.
    pub(crate) fn still() -> &'static Self {
        static STILL: OnceLock<Device> = OnceLock::new();
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        STILL.get_or_init(|| Self {
            driver: DRIVER.get_or_init(Driver::still),
            ordinal: usize::MAX,
            context: 0,
            architecture: (0, 0),
            multiprocessors: 1,
            max_threads: 1024,
            modules: Modules::default(),
            record: OnceLock::new(),
            looks: AtomicU64::new(0),
            constants: Constants::default(),
            is_still: true,
        })
    }

    /// Whether nothing happens on it.
    pub(crate) fn is_still(&self) -> bool {
        self.is_still
    }

    /// The device whose primary context an address is.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// It is a context that lives.
    pub(crate) unsafe fn of_context(driver: &Driver, context: sys::CUcontext) -> Result<&'static Self> {
        {
            let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(device) = found.iter().find(|device| device.context() == context) {
                return Ok(device);
            }
        }
        let (mut ordinal, mut before) = (0, null_mut());
        // SAFETY: the caller knows that it is a context; the places are writable, and what was current is so again.
        let code = unsafe {
            driver.check((driver.cuCtxPushCurrent_v2)(context), "entering a stream's context")?;
            let code = (driver.cuCtxGetDevice)(&raw mut ordinal);
            (driver.cuCtxPopCurrent_v2)(&raw mut before);
            code
        };
        driver.check(code, "asking for a context's device")?;
        Self::get(usize::try_from(ordinal).unwrap_or(usize::MAX))
    }

    /// The number of devices of the driver.
    ///
    /// # Errors
    /// There is no driver.
    pub fn count() -> Result<usize> {
        let driver = driver()?;
        let mut count = 0;
        // SAFETY: the place is writable.
        driver.check(unsafe { (driver.cuDeviceGetCount)(&raw mut count) }, "counting devices")?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The ordinal of the device, as the driver counts.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The compute capability, major and minor.
    pub fn architecture(&self) -> (i32, i32) {
        self.architecture
    }

    /// The number of multiprocessors.
    pub fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    /// The most threads of a block.
    pub fn max_threads(&self) -> usize {
        self.max_threads
    }

    /// The device's memory in bytes: free, and total.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the places are writable.
        let ask = |driver: &Driver| unsafe { (driver.cuMemGetInfo_v2)(&raw mut free, &raw mut total) };
        self.call("asking for free memory", ask).map(|()| (free, total))
    }

    pub(crate) fn context(&self) -> sys::CUcontext {
        self.context as sys::CUcontext
    }

    /// Makes its context current. Most often it is: of libraries that use it, or of the call around this one.
    pub(crate) fn enter(&self) -> Result<Current> {
        let mut before = null_mut();
        // SAFETY: the place is writable.
        let code = unsafe { (self.driver.cuCtxGetCurrent)(&raw mut before) };
        if code == 0 && before == self.context() {
            return Ok(Current { pushed: None });
        }
        // SAFETY: the context is retained.
        let code = unsafe { (self.driver.cuCtxPushCurrent_v2)(self.context()) };
        self.driver.check(code, format_args!("entering device {}", self.ordinal))?;
        Ok(Current { pushed: Some(self.driver) })
    }

    /// Calls the driver with its context current; `doing` describes the call.
    pub(crate) fn call(&self, doing: impl Display, call: impl FnOnce(&Driver) -> Code) -> Result<()> {
        let _current = self.enter()?;
        self.driver.check(call(self.driver), doing)
    }

    /// Runs a caller's work with this device as the current one.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let _current = self.enter()?;
        Ok(work())
    }

    /// Checks that an address is that of memory of this device which has not been given back, with one call of the
    /// driver. An empty range passes. The length is not checked: for memory that is mapped in pieces, as PyTorch may
    /// do, the driver knows only the piece.
    ///
    /// # Errors
    /// The address is not; `name` is that of the argument.
    pub fn check_pointer(&self, name: &str, address: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let found = self.memory_at(name, address)?;
        let expected = format!("memory of device {}", self.ordinal);
        let wrong = |got: String| Err(Error::argument(name, &expected, got));
        match found {
            None => wrong(ELSEWHERE.into()),
            Some(ordinal) if ordinal != self.ordinal => wrong(format!("memory of device {ordinal}")),
            Some(_) => Ok(()),
        }
    }

    /// The device in whose memory an address lies.
    ///
    /// # Errors
    /// There is no driver; the address is no device's. `name` is that of the argument.
    pub fn of_pointer(name: &str, address: u64) -> Result<&'static Self> {
        // Any device's context will do for the question.
        match Self::get(0)?.memory_at(name, address)? {
            Some(ordinal) => Self::get(ordinal),
            None => Err(Error::argument(name, "memory of a device", ELSEWHERE)),
        }
    }

    /// The ordinal of the device in whose memory an address lies.
    fn memory_at(&self, name: &str, address: u64) -> Result<Option<usize>> {
        let (mut kind, mut ordinal) = (0_u32, 0_i32);
        let mut asked = [MEMORY_TYPE, ORDINAL];
        let mut places: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut ordinal).cast()];
        // SAFETY: there is a place of its own type for every attribute. What the address is does not matter: one that
        // the driver does not know has no attributes.
        let ask = |driver: &Driver| unsafe {
            (driver.cuPointerGetAttributes)(2, asked.as_mut_ptr(), places.as_mut_ptr(), address)
        };
        self.call(format_args!("asking where `{name}` lies"), ask)?;
        Ok(usize::try_from(ordinal).ok().filter(|_| kind == ON_DEVICE))
    }
}
