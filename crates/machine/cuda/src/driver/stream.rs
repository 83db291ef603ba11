//! Streams of the caller, and operations on them.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::program::Function;
use crate::driver::device::Device;
use crate::driver::sys::{Driver, driver};
use cudarc::driver::sys;
use madelung_core::{Error, Result};
use std::ffi::c_void;
use std::ptr::null_mut;

/// A borrowed stream: never created, synchronised or destroyed here, except where a method says so.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    device: &'static Device,
    /// An address, for threads share it.
    raw: usize,
}

impl Device {
    /// The stream behind a raw `CUstream`: 0 and 1 are the legacy default stream, 2 is the thread's default stream.
    ///
    /// # Errors
    /// It is a stream of another device, or none.
    ///
    /// # Safety
    /// A number above 2 is a stream, which lives as long as this is used.
    pub unsafe fn stream(&'static self, raw: usize) -> Result<Stream> {
        let stream = Stream { device: self, raw };
        let mut context = null_mut();
        // SAFETY: the caller knows that it is a stream; the place is writable.
        let ask = |driver: &Driver| unsafe { (driver.cuStreamGetCtx)(stream.raw(), &raw mut context) };
        self.call("asking for a stream's device", ask)?;
        if context != self.context() {
            let expected = format!("a stream of device {}", self.ordinal());
            return Err(Error::argument("stream", expected, "one of another device"));
        }
        Ok(stream)
    }
}

impl Stream {
    /// A stream whose device only the driver knows, as [`Device::stream`] otherwise.
    ///
    /// # Errors
    /// There is no driver; it is no stream of a device's primary context, or a default one.
    ///
    /// # Safety
    /// A number above 2 is a stream, which lives as long as this is used.
    pub unsafe fn of(raw: usize) -> Result<Self> {
        if raw <= 2 {
            // The driver would answer for the context that is current on this thread.
            return Err(Error::argument("stream", "a stream that belongs to a device", "a default stream"));
        }
        /// The driver answers only where some context is current.
        const NO_CONTEXT: u32 = 201;
        let driver = driver()?;
        let mut context = null_mut();
        // SAFETY: the caller knows that it is a stream; the place is writable.
        let mut ask = || unsafe { (driver.cuStreamGetCtx)(raw as sys::CUstream, &raw mut context) };
        let code = match ask() {
            NO_CONTEXT => {
                let _current = Device::get(0)?.enter()?;
                ask()
            }
            code => code,
        };
        driver.check(code, "asking for a stream's device")?;
        // SAFETY: a stream's context lives as it does.
        unsafe { Device::of_context(driver, context)?.stream(raw) }
    }

    /// One on which nothing happens.
    pub(crate) fn still() -> Self {
        Self { device: Device::still(), raw: 0 }
    }

    /// The device that it is of.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// The `CUstream`.
    pub fn as_raw(&self) -> usize {
        self.raw
    }

    pub(crate) fn raw(&self) -> sys::CUstream {
        self.raw as sys::CUstream
    }

    /// The stream's number, unique in the process, whereas its address may be reused after its end. The number of the
    /// thread's default stream is the calling thread's.
    ///
    /// # Errors
    /// The driver's.
    pub fn id(&self) -> Result<u64> {
        let mut id = 0;
        // SAFETY: it is a stream of this device; the place is writable.
        let ask = |driver: &Driver| unsafe { (driver.cuStreamGetId)(self.raw(), &raw mut id) };
        self.device.call("asking for a stream's number", ask).map(|()| id)
    }

    /// Makes later work on this stream wait for the present work on another one, which may be of another device. The
    /// host waits for neither.
    ///
    /// # Errors
    /// The driver's.
    pub fn wait_for(&self, other: Self) -> Result<()> {
        /// An event that keeps no time.
        const DISABLE_TIMING: u32 = 2;
        let (driver, mut event) = (self.device.driver, null_mut());
        let recorded = {
            let _current = other.device.enter()?;
            // SAFETY: the place is writable.
            let code = unsafe { (driver.cuEventCreate)(&raw mut event, DISABLE_TIMING) };
            driver.check(code, "making an event")?;
            // SAFETY: the event was just made where this stream is.
            unsafe { (driver.cuEventRecord)(event, other.raw()) }
        };
        let _current = self.device.enter()?;
        // SAFETY: the event is there, and a stream of any device may wait for it. What waits for it goes on to do so after
        // it is given back.
        let (waits, _) = unsafe {
            let waits = match recorded {
                0 => (driver.cuStreamWaitEvent)(self.raw(), event, 0),
                code => code,
            };
            (waits, (driver.cuEventDestroy_v2)(event))
        };
        driver.check(waits, "letting a stream wait for another")
    }

    /// Launches a function on `grid` blocks of `block` threads. `args` are the addresses of its parameters, which are
    /// copied at once.
    ///
    /// # Errors
    /// The function is of another device, or the driver refuses.
    ///
    /// # Safety
    /// There is an address for every parameter, of its type, and the function's use of them is sound.
    pub unsafe fn launch(
        &self,
        function: Function,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[*const c_void],
    ) -> Result<()> {
        if !std::ptr::eq(function.device(), self.device) {
            let expected = format!("one of device {}", self.device.ordinal());
            return Err(Error::argument(
                "function",
                expected,
                format!("one of device {}", function.device().ordinal()),
            ));
        }
        let args = args.as_ptr().cast_mut().cast();
        let ([x, y, z], [i, j, k]) = (grid, block);
        // SAFETY: the caller gives what the function needs; the driver only reads the addresses.
        let launch = |driver: &Driver| unsafe {
            (driver.cuLaunchKernel)(function.raw(), x, y, z, i, j, k, 0, self.raw(), args, null_mut())
        };
        self.device.call(format_args!("launching {grid:?} blocks of {block:?} threads"), launch)
    }

    /// Makes `bytes` bytes zero.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// They are the device's memory, and nothing else uses it until the stream has done so.
    pub unsafe fn zero(&self, address: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller knows whose memory it is.
        let zero = |driver: &Driver| unsafe { (driver.cuMemsetD8Async)(address, 0, bytes, self.raw()) };
        self.device.call(format_args!("zeroing {bytes} bytes"), zero)
    }

    /// Copies `bytes` bytes from one place of the device to another.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// As for [`Stream::zero`], of both places, which do not overlap.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller knows whose memory it is.
        let copy = |driver: &Driver| unsafe { (driver.cuMemcpyDtoDAsync_v2)(to, from, bytes, self.raw()) };
        self.device.call(format_args!("copying {bytes} bytes"), copy)
    }

    /// Copies from the host, and waits for the stream.
    ///
    /// # Errors
    /// The stream captures; the driver's.
    ///
    /// # Safety
    /// As for [`Stream::zero`].
    pub unsafe fn upload<T: Copy>(&self, to: u64, from: &[T]) -> Result<()> {
        let bytes = size_of_val(from);
        if bytes == 0 {
            return Ok(());
        }
        self.must_not_capture("copying from the host")?;
        let from = from.as_ptr().cast();
        // SAFETY: the caller knows whose memory it is, and what is copied stays until the stream has come so far.
        let copy = |driver: &Driver| unsafe { (driver.cuMemcpyHtoDAsync_v2)(to, from, bytes, self.raw()) };
        self.device.call(format_args!("copying {bytes} bytes from the host"), copy)?;
        self.synchronize()
    }

    /// Copies to the host, and waits for the stream.
    ///
    /// # Errors
    /// The stream captures; the driver's.
    ///
    /// # Safety
    /// The device's memory holds values of that type.
    pub unsafe fn download<T: Copy>(&self, to: &mut [T], from: u64) -> Result<()> {
        let bytes = size_of_val(to);
        if bytes == 0 {
            return Ok(());
        }
        self.must_not_capture("copying to the host")?;
        let to = to.as_mut_ptr().cast();
        // SAFETY: there is room, which stays until the stream has come so far; the caller knows what is there.
        let copy = |driver: &Driver| unsafe { (driver.cuMemcpyDtoHAsync_v2)(to, from, bytes, self.raw()) };
        self.device.call(format_args!("copying {bytes} bytes to the host"), copy)?;
        self.synchronize()
    }

    /// Waits for everything on the stream.
    ///
    /// # Errors
    /// An error of earlier work on the stream; the stream captures.
    pub fn synchronize(&self) -> Result<()> {
        self.must_not_capture("waiting for the stream")?;
        // SAFETY: it is a stream of this device.
        let wait = |driver: &Driver| unsafe { (driver.cuStreamSynchronize)(self.raw()) };
        self.device.call("waiting for the stream", wait)
    }

    /// Whether the stream is capturing its work in a graph.
    ///
    /// # Errors
    /// The driver's.
    pub fn is_capturing(&self) -> Result<bool> {
        let mut status = 0;
        // SAFETY: it is a stream of this device; the place is writable.
        let ask = |driver: &Driver| unsafe { (driver.cuStreamIsCapturing)(self.raw(), &raw mut status) };
        self.device.call("asking whether a stream captures", ask).map(|()| status != 0)
    }

    /// An error that leaves the capture whole, where the driver's would break it.
    pub(crate) fn must_not_capture(&self, doing: &str) -> Result<()> {
        if self.is_capturing()? {
            return Err(Error::Unsupported(format!(
                "{doing}: the stream captures a graph, in which this cannot be"
            )));
        }
        Ok(())
    }
}
