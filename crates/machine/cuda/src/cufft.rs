//! cuFFT: real transforms in three dimensions, in batches.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::program::Relaxed;
use crate::driver::device::Device;
use crate::driver::libraries::{Wanted, library_functions};
use crate::driver::stream::Stream;
use crate::driver::sys::driver;
use madelung_core::{Error, Result};
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, OnceLock, PoisonError};

const CUFFT: Wanted = Wanted {
    stem: "cufft",
    majors: &[(13, 14), (12, 13), (11, 12)],
    install: "CUDA's toolkit, or `pip install nvidia-cufft-cu12` (for drivers of CUDA 13: nvidia-cufft)",
};

library_functions! {
    /// Functions of cuFFT, by its own names.
    Functions {
        cufftCreate(*mut c_int);
        cufftDestroy(c_int);
        cufftSetAutoAllocation(c_int, c_int);
        cufftMakePlanMany(
            c_int, c_int, *mut c_int, *mut c_int, c_int, c_int, *mut c_int, c_int, c_int, c_int, c_int, *mut usize
        );
        cufftSetWorkArea(c_int, *mut c_void);
        cufftSetStream(c_int, *mut c_void);
        cufftExecD2Z(c_int, *mut c_void, *mut c_void);
        cufftExecZ2D(c_int, *mut c_void, *mut c_void);
        cufftExecR2C(c_int, *mut c_void, *mut c_void);
        cufftExecC2R(c_int, *mut c_void, *mut c_void);
    }
}

/// The kind of a transform; the numbers are cuFFT's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transform {
    /// Reals to half a spectrum, in 32 bits.
    R2C = 0x2a,
    /// Half a spectrum to reals, in 32 bits, without a factor.
    C2R = 0x2c,
    /// Reals to half a spectrum, in 64 bits.
    D2Z = 0x6a,
    /// Half a spectrum to reals, in 64 bits, without a factor.
    Z2D = 0x6c,
}

/// A transform that is ready to run on a device.
#[derive(Debug)]
pub struct Plan {
    functions: &'static Functions,
    device: &'static Device,
    transform: Transform,
    /// The plan's stream and work area are set ahead of each run.
    handle: Mutex<c_int>,
    work_bytes: usize,
}

fn functions() -> Result<&'static Functions> {
    static FOUND: OnceLock<Functions> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    let library = CUFFT.load(driver()?.major()?)?;
    // SAFETY: these are cuFFT's signatures since CUDA 6.5.
    let found = unsafe { Functions::find(library)? };
    Ok(FOUND.get_or_init(|| found))
}

fn check(code: c_int, doing: &str) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Driver(format!("{doing}: cuFFT's error {code}"))) }
}

impl Plan {
    /// A plan for `batch` dense arrays of a shape, one behind the other; of the spectrum's last axis there are
    /// `shape[2] / 2 + 1` elements. Plans are made outside of captures.
    ///
    /// # Errors
    /// There is no cuFFT (the error says what to install); a size is 0 or beyond 32 bits; cuFFT's.
    pub fn new(
        device: &'static Device,
        transform: Transform,
        shape: [usize; 3],
        batch: usize,
    ) -> Result<Self> {
        let functions = functions()?;
        let size = |name: &str, n: usize| match c_int::try_from(n) {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(Error::argument(name, "a size from 1 to 2147483647", n.to_string())),
        };
        let mut n = [size("shape", shape[0])?, size("shape", shape[1])?, size("shape", shape[2])?];
        let batch = size("batch", batch)?;
        let _current = device.enter()?;
        let _relaxed = Relaxed::new(device);
        let mut handle = 0;
        // SAFETY: the place is writable.
        check(unsafe { (functions.cufftCreate)(&raw mut handle) }, "making a plan")?;
        let mut plan = Self { functions, device, transform, handle: Mutex::new(handle), work_bytes: 0 };
        // SAFETY: the plan is there. Arrays that are dense have no embedding.
        let code = unsafe {
            let code = (functions.cufftSetAutoAllocation)(handle, 0);
            check(code, "making a plan without a work area")?;
            (functions.cufftMakePlanMany)(
                handle,
                3,
                n.as_mut_ptr(),
                null_mut(),
                1,
                0,
                null_mut(),
                1,
                0,
                transform as c_int,
                batch,
                &raw mut plan.work_bytes,
            )
        };
        check(code, &format!("planning {transform:?} of {batch} arrays of {shape:?}"))?;
        Ok(plan)
    }

    /// The bytes of device memory that the transform works in.
    pub fn work_bytes(&self) -> usize {
        self.work_bytes
    }

    /// Transforms `from` to `to`, which do not overlap. A transform to reals destroys the spectrum.
    ///
    /// # Errors
    /// The stream is of another device; cuFFT's.
    ///
    /// # Safety
    /// These are addresses on the device of as many elements as the plan is for, and of [`Plan::work_bytes`] bytes
    /// aligned to 256, which nothing else uses until the stream has finished the transform.
    pub unsafe fn run(&self, stream: Stream, from: u64, to: u64, work: u64) -> Result<()> {
        if !std::ptr::eq(stream.device(), self.device) {
            let expected = format!("a stream of device {}", self.device.ordinal());
            return Err(Error::argument("stream", expected, "one of another device"));
        }
        let _current = self.device.enter()?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let f = self.functions;
        let run = match self.transform {
            Transform::R2C => f.cufftExecR2C,
            Transform::C2R => f.cufftExecC2R,
            Transform::D2Z => f.cufftExecD2Z,
            Transform::Z2D => f.cufftExecZ2D,
        };
        let address = |n: u64| without_provenance_mut(n as usize);
        // SAFETY: the plan is there and locked, and the caller gives what it needs.
        unsafe {
            check((f.cufftSetStream)(*handle, stream.raw().cast()), "setting a plan's stream")?;
            check((f.cufftSetWorkArea)(*handle, address(work)), "setting a plan's work area")?;
            check(run(*handle, address(from), address(to)), &format!("running {:?}", self.transform))
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let handle = *self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Ok(_current) = self.device.enter() {
            // SAFETY: the plan is used no more.
            unsafe { (self.functions.cufftDestroy)(handle) };
        }
    }
}
