//! Arrays between the host and a device, for those who have no framework that does it. Both ways wait for the stream.
#![expect(unsafe_code, reason = "memory of a device is written and read")]

use super::allocator::Memory;
use super::scratch::address;
use crate::driver::stream::Stream;
use madelung_core::array::{Array, DType, Data, Place, View};
use madelung_core::backend::context::Allocator;
use madelung_core::{Error, Result};

impl Memory {
    /// A copy of an array of the host in the memory of the device.
    ///
    /// # Errors
    /// Memory ran out; the stream captures; `array`, where it lies on a device.
    pub fn upload(&self, array: &View<'_>) -> Result<Array> {
        array.place().check_host("array")?;
        let copy = self.room(array.dtype(), array.shape())?;
        let bytes = array.len() * array.dtype().size();
        let from = array.data().pointer();
        // SAFETY: both have as many bytes, and an array of the host has no others between them.
        unsafe {
            let from = if bytes == 0 { &[] } else { std::slice::from_raw_parts(from, bytes) };
            self.stream().upload(address(&copy.view()), from)?;
        }
        Ok(copy)
    }
}

impl Stream {
    /// A copy of an array of this stream's device in the memory of the host.
    ///
    /// # Errors
    /// An error of earlier work on the stream; the stream captures; `array`, where it lies elsewhere.
    pub fn read(&self, array: &View<'_>) -> Result<Array> {
        let place = Place::Cuda(self.device().ordinal());
        if array.place() != place {
            let expected = format!("an array of {place}");
            return Err(Error::argument("array", expected, format!("one of {}", array.place())));
        }
        match array.dtype() {
            DType::F16 => self.numbers(array, |x| Data::F16(x)),
            DType::BF16 => self.numbers(array, |x| Data::BF16(x)),
            DType::F32 => self.numbers(array, |x| Data::F32(x)),
            DType::F64 => self.numbers(array, |x| Data::F64(x)),
            DType::I32 => self.numbers(array, |x| Data::I32(x)),
            DType::I64 => self.numbers(array, |x| Data::I64(x)),
        }
    }

    /// A copy of an array of this stream's device whose elements are `T`s.
    fn numbers<T: Copy + Default>(&self, array: &View<'_>, data: fn(&[T]) -> Data<'_>) -> Result<Array> {
        let mut numbers = vec![T::default(); array.len()];
        // SAFETY: the array has as many elements, of this type.
        unsafe { self.download(&mut numbers, address(array))? };
        View::new(data(&numbers), array.shape()).and_then(|view| view.to_array())
    }
}
