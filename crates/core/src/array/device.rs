//! Arrays in device memory: an address that only a backend of the device dereferences, and the owner of the memory.
#![expect(unsafe_code, reason = "addresses are valid by promise of the caller")]

use super::memory::Owner;
use super::{Array, DType, Data, Shape, View};
use crate::{Error, Result};
use std::any::Any;
use std::marker::PhantomData;

/// The memory that holds the elements of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// The host's memory.
    #[default]
    Host,
    /// The memory of an NVIDIA GPU, by CUDA's device ordinal in this process.
    Cuda(usize),
}

impl Place {
    /// Checks that the place is the host's memory.
    ///
    /// # Errors
    /// `argument`, where the place is a device.
    pub fn check_host(self, argument: &str) -> Result<()> {
        match self {
            Self::Host => Ok(()),
            Self::Cuda(_) => Err(self.elsewhere(argument)),
        }
    }

    /// The error of a host function for an argument in this memory.
    pub fn elsewhere(self, argument: &str) -> Error {
        Error::argument(argument, "an array of the host", format!("one of {self}"))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// Borrowed elements in device memory, in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct Remote<'a> {
    place: Place,
    dtype: DType,
    len: usize,
    address: u64,
    memory: PhantomData<&'a ()>,
}

impl Remote<'_> {
    /// The device.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device address of the first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Elements `from..from + len`.
    pub(super) fn part(&self, from: usize, len: usize) -> Self {
        Self { len, address: self.address + (from * self.dtype.size()) as u64, ..*self }
    }
}

/// An owned array in device memory.
pub struct RemoteArray {
    place: Place,
    dtype: DType,
    shape: Shape,
    address: u64,
    owner: Owner,
}

impl RemoteArray {
    /// The device.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The device address of the first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn data(&self) -> Remote<'_> {
        let (place, dtype, address) = (self.place, self.dtype, self.address);
        Remote { place, dtype, len: self.shape.iter().product(), address, memory: PhantomData }
    }

    pub(super) fn is_kept_by<O: Any>(&self) -> bool {
        self.owner.is::<O>()
    }

    pub(super) fn into_owner(self) -> Owner {
        self.owner
    }
}

impl std::fmt::Debug for RemoteArray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("RemoteArray");
        fields.field("place", &self.place).field("dtype", &self.dtype).field("shape", &self.shape());
        fields.finish_non_exhaustive()
    }
}

/// The number of elements of a shape whose size in bytes fits in an address.
fn elements(dtype: DType, shape: &[usize]) -> usize {
    let len = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
    let len = len.filter(|n| n.checked_mul(dtype.size()).is_some_and(|n| isize::try_from(n).is_ok()));
    len.expect("a shape that fits in memory")
}

impl<'a> View<'a> {
    /// A view of elements in device memory.
    ///
    /// # Safety
    /// During `'a`, `address` is the address of as many elements on the device as `shape` has, aligned for `dtype`;
    /// they are written only in the order of the stream that the view is used on.
    ///
    /// # Panics
    /// If the size of the array overflows an address.
    pub unsafe fn remote(place: Place, dtype: DType, shape: &[usize], address: u64) -> Self {
        let len = elements(dtype, shape);
        let data = Data::Device(Remote { place, dtype, len, address, memory: PhantomData });
        Self { data, shape: shape.into() }
    }

    /// The memory that holds the elements.
    pub fn place(&self) -> Place {
        match self.data {
            Data::Device(remote) => remote.place,
            _ => Place::Host,
        }
    }
}

impl Array {
    /// An array in device memory at `address`, valid while `owner` lives; the array owns `owner`.
    ///
    /// # Safety
    /// While `owner` lives, `address` is the address of as many elements on the device as `shape` has, aligned for
    /// `dtype`; before the owner is dropped or taken out by [`Array::into_owner`], anything but the array uses them
    /// only in the order of the stream that the array is used on.
    ///
    /// # Panics
    /// If the size of the array overflows an address.
    pub unsafe fn remote(place: Place, dtype: DType, shape: &[usize], address: u64, owner: Owner) -> Self {
        _ = elements(dtype, shape);
        Self::Device(RemoteArray { place, dtype, shape: shape.into(), address, owner })
    }

    /// The memory that holds the elements.
    pub fn place(&self) -> Place {
        match self {
            Self::Device(remote) => remote.place,
            _ => Place::Host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_shape_and_an_owner() {
        // SAFETY: nobody uses the address.
        let array = unsafe {
            Array::remote(Place::Cuda(1), DType::F32, &[2, 3], 0x1000, Box::new("kept".to_string()))
        };
        assert_eq!((array.place(), array.dtype(), array.shape()), (Place::Cuda(1), DType::F32, &[2, 3][..]));
        let view = array.view();
        assert_eq!((view.place(), view.dtype(), view.len()), (Place::Cuda(1), DType::F32, 6));
        assert!(matches!(view.data(), Data::Device(r) if r.address() == 0x1000 && r.len() == 6));
        assert_eq!(view.uniform(), None);
        let array = array.into_owner::<Vec<u8>>().expect_err("it has another owner");
        assert_eq!(array.into_owner::<String>().expect("its owner"), "kept");
    }

    #[test]
    fn functions_of_the_host_are_errors() {
        // SAFETY: nobody uses the address.
        let far = || unsafe { Array::remote(Place::Cuda(1), DType::F32, &[2], 0x1000, Box::new(())) };
        let near = || Array::zeros(DType::F32, &[2]);
        let array = [
            ("to_f64", far().to_f64().map(|_| ())),
            ("to_array", far().view().to_array().map(|_| ())),
            ("try_clone", far().try_clone().map(|_| ())),
            ("equals", far().equals(&near()).map(|_| ())),
            ("equals of the host", near().equals(&far()).map(|_| ())),
            ("fill", far().fill(1.0)),
            ("poison", far().poison()),
            ("map", far().map(|x| x).map(|_| ())),
            ("add", far().add(&near())),
            ("cast", far().cast(DType::F64).map(|_| ())),
            ("set_cast", far().set_cast(near().view().data())),
            ("set_cast of the host", near().set_cast(far().view().data())),
        ];
        let other = [("add of the host", near().add(&far()))];
        let named = [
            ("to_i32", far().view().to_i32("types").map(|_| ())),
            ("check_host", far().place().check_host("types")),
        ];
        let cases = array.into_iter().map(|case| ("array", case));
        let cases = cases.chain(other.map(|case| ("other", case))).chain(named.map(|case| ("types", case)));
        for (argument, (function, result)) in cases {
            let error = result.expect_err(function).to_string();
            assert_eq!(
                error,
                format!("`{argument}`: expected an array of the host, got one of cuda:1"),
                "{function}"
            );
        }
        assert_eq!((far().view().at(0), near().view().at(0), near().view().at(2)), (None, Some(0.0), None));
        assert_eq!(far().pointer_mut().addr(), 0x1000);
    }
}
