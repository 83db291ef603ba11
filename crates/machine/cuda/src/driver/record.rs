//! The record of a device: the first call since the last look whose status word was raised, and that word.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::program::Relaxed;
use crate::driver::device::Device;
use crate::driver::stream::Stream;
use crate::driver::sys::Driver;
use madelung_core::Result;
use madelung_core::backend::status::Word;
use std::sync::atomic::Ordering;

/// The number of a call, and a word.
pub(crate) const LEN: usize = 1 + Word::LEN;

/// An empty record.
const ZEROS: [u32; LEN] = [0; LEN];

impl Device {
    /// The address of the record, to which kernels write.
    pub(crate) fn record(&self) -> Result<u64> {
        if let Some(address) = self.record.get() {
            return Ok(*address);
        }
        let _current = self.enter()?;
        // A stream's capture is not concerned.
        let _relaxed = Relaxed::new(self);
        let mut address = 0;
        // SAFETY: the place is writable, and then the memory has as many words.
        unsafe {
            let made = (self.driver.cuMemAlloc_v2)(&raw mut address, 4 * LEN);
            self.driver.check(made, "allocating the record of a device")?;
            let zeroed = (self.driver.cuMemcpyHtoD_v2)(address, ZEROS.as_ptr().cast(), 4 * LEN);
            self.driver.check(zeroed, "zeroing the record of a device")?;
        }
        // Two threads may both have made one: the first stays, and the other's few bytes are lost.
        Ok(*self.record.get_or_init(|| address))
    }

    /// The number of times that the record was taken.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Waits for the device, and takes its record: zeros if nothing was raised.
    pub(crate) fn take_record(&self) -> Result<[u32; LEN]> {
        let mut record = ZEROS;
        let Some(address) = self.record.get() else { return Ok(record) };
        self.looks.fetch_add(1, Ordering::Relaxed);
        let _current = self.enter()?;
        // SAFETY: the record has as many words, on either side.
        unsafe {
            self.driver.check((self.driver.cuCtxSynchronize)(), "waiting for a device")?;
            let read = (self.driver.cuMemcpyDtoH_v2)(record.as_mut_ptr().cast(), *address, 4 * LEN);
            self.driver.check(read, "reading the record of a device")?;
            let zeroed = (self.driver.cuMemcpyHtoD_v2)(*address, ZEROS.as_ptr().cast(), 4 * LEN);
            self.driver.check(zeroed, "zeroing the record of a device")?;
        }
        // Before and behind: who looks in between knows nothing.
        self.looks.fetch_add(1, Ordering::Relaxed);
        Ok(record)
    }
}

impl Stream {
    /// Copies the number of the call in the device's record to the host, in the order of the stream. Where it is 0, and the
    /// record was taken as often as before a call ([`Device::looks`]), the call has raised nothing.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `to` is memory of the host that is locked in its pages and lives until the stream has come so far.
    pub unsafe fn note_record(&self, to: *mut u32) -> Result<()> {
        let (record, bytes) = (self.device().record()?, size_of::<u32>());
        // SAFETY: the record has a number first, and the caller promises the other memory.
        let copy =
            |driver: &Driver| unsafe { (driver.cuMemcpyDtoHAsync_v2)(to.cast(), record, bytes, self.raw()) };
        self.device().call(format_args!("copying the record of a device"), copy)
    }
}
