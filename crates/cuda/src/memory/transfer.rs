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
        let mut bytes = vec![0u8; array.len() * array.dtype().size()];
        // SAFETY: the array has as many bytes.
        unsafe { self.download(&mut bytes, address(array))? };
        let numbers = |size: usize| bytes.chunks_exact(size);
        fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
            bytes.try_into().expect("chunks of this size")
        }
        let f16: Vec<_> = match array.dtype() {
            DType::F16 => numbers(2).map(|b| half::f16::from_ne_bytes(word(b))).collect(),
            _ => vec![],
        };
        let bf16: Vec<_> = match array.dtype() {
            DType::BF16 => numbers(2).map(|b| half::bf16::from_ne_bytes(word(b))).collect(),
            _ => vec![],
        };
        let view = |data: Data<'_>| View::new(data, array.shape()).and_then(|v| v.to_array());
        match array.dtype() {
            DType::F16 => view(Data::F16(&f16)),
            DType::BF16 => view(Data::BF16(&bf16)),
            DType::F32 => {
                view(Data::F32(&numbers(4).map(|b| f32::from_ne_bytes(word(b))).collect::<Vec<_>>()))
            }
            DType::F64 => {
                view(Data::F64(&numbers(8).map(|b| f64::from_ne_bytes(word(b))).collect::<Vec<_>>()))
            }
            DType::I32 => {
                view(Data::I32(&numbers(4).map(|b| i32::from_ne_bytes(word(b))).collect::<Vec<_>>()))
            }
            DType::I64 => {
                view(Data::I64(&numbers(8).map(|b| i64::from_ne_bytes(word(b))).collect::<Vec<_>>()))
            }
        }
    }
}
