//! Words of the host that calls read on a device again and again, such as the moduli of meshes: written once for all streams
//! and graphs, without waiting, and never freed, as a graph may hold their address.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::program::Relaxed;
use crate::driver::device::Device;
use crate::driver::stream::Stream;
use crate::driver::sys::Driver;
use madelung_core::Result;
use rustc_hash::FxHashMap as HashMap;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// Bytes of a device, and between the beginnings of words.
const MOST: usize = 1 << 20;
const STEP: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Constants(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The memory, and its bytes that are taken.
    memory: Option<u64>,
    taken: usize,
    words: HashMap<&'static [i32], Written>,
}

/// Words on their way, or there.
#[derive(Debug)]
struct Written {
    address: u64,
    /// The number of the stream that writes them, and the address of an event behind that; None: they are there.
    by: Option<(u64, usize)>,
}

impl Stream {
    /// The address of words on the stream's device; None where there are too many of them, or where they are not known to be
    /// there when this stream reads them.
    pub(crate) fn constant(&self, words: &[i32]) -> Result<Option<u64>> {
        let device = self.device();
        if device.is_still() {
            return Ok(None);
        }
        let mut known = device.constants.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(written) = known.words.get_mut(words) else { return self.keep(&mut known, words) };
        let Some((stream, event)) = written.by else { return Ok(Some(written.address)) };
        if device.has_come_to(event)? {
            written.by = None;
            return Ok(Some(written.address));
        }
        // Behind the words, but a graph may be launched on another stream.
        Ok((stream == self.id()? && !self.is_capturing()?).then_some(written.address))
    }

    /// Writes words that are new.
    fn keep(&self, known: &mut Known, words: &[i32]) -> Result<Option<u64>> {
        let (device, bytes) = (self.device(), size_of_val(words));
        if known.taken + bytes > MOST || self.is_capturing()? {
            return Ok(None);
        }
        let Some(memory) = known.memory.or_else(|| device.allocated().ok()) else { return Ok(None) };
        known.memory = Some(memory);
        let address = memory + known.taken as u64;
        let kept: &'static [i32] = Box::leak(words.into());
        known.taken = (known.taken + bytes).next_multiple_of(STEP);
        // SAFETY: the memory is there and has no words at this place yet; those of the host stay as they are.
        let copy = |driver: &Driver| unsafe {
            (driver.cuMemcpyHtoDAsync_v2)(address, kept.as_ptr().cast(), bytes, self.raw())
        };
        device.call(format_args!("copying {bytes} bytes from the host"), copy)?;
        let event = device.event()?;
        // SAFETY: the event was just made.
        let record = |driver: &Driver| unsafe { (driver.cuEventRecord)(event as _, self.raw()) };
        device.call(format_args!("recording an event"), record)?;
        known.words.insert(kept, Written { address, by: Some((self.id()?, event)) });
        Ok(Some(address))
    }
}

impl Device {
    /// Memory of the driver's own.
    fn allocated(&self) -> Result<u64> {
        let _current = self.enter()?;
        // A stream's capture is not concerned.
        let _relaxed = Relaxed::new(self);
        let mut address = 0;
        // SAFETY: the place is writable.
        let made = unsafe { (self.driver.cuMemAlloc_v2)(&raw mut address, MOST) };
        self.driver.check(made, "allocating the constants of a device")?;
        Ok(address)
    }

    /// The address of a new event that keeps no time.
    fn event(&self) -> Result<usize> {
        const DISABLE_TIMING: u32 = 2;
        let mut event = null_mut();
        // SAFETY: the place is writable.
        let make = |driver: &Driver| unsafe { (driver.cuEventCreate)(&raw mut event, DISABLE_TIMING) };
        self.call(format_args!("making an event"), make)?;
        Ok(event as usize)
    }

    /// Whether the device has come to an event, which is then given back.
    fn has_come_to(&self, event: usize) -> Result<bool> {
        let _current = self.enter()?;
        let _relaxed = Relaxed::new(self);
        // SAFETY: the event is there, and given back once.
        unsafe {
            let is_there = (self.driver.cuEventQuery)(event as _) == 0;
            if is_there {
                (self.driver.cuEventDestroy_v2)(event as _);
            }
            Ok(is_there)
        }
    }
}
