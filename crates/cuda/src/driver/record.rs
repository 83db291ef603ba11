//! The record of a device: the first call since the last look whose status word was raised, and that word.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::program::Relaxed;
use crate::driver::device::Device;
use madelung_core::Result;
use madelung_core::backend::status::Word;

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

    /// Waits for the device, and takes its record: zeros if nothing was raised.
    pub(crate) fn take_record(&self) -> Result<[u32; LEN]> {
        let mut record = ZEROS;
        let Some(address) = self.record.get() else { return Ok(record) };
        let _current = self.enter()?;
        // SAFETY: the record has as many words, on either side.
        unsafe {
            self.driver.check((self.driver.cuCtxSynchronize)(), "waiting for a device")?;
            let read = (self.driver.cuMemcpyDtoH_v2)(record.as_mut_ptr().cast(), *address, 4 * LEN);
            self.driver.check(read, "reading the record of a device")?;
            let zeroed = (self.driver.cuMemcpyHtoD_v2)(*address, ZEROS.as_ptr().cast(), 4 * LEN);
            self.driver.check(zeroed, "zeroing the record of a device")?;
        }
        Ok(record)
    }
}
