//! The memory of arrays: a heap buffer, or memory of an owner that the array keeps alive.
//!
//! The caller of [`Array::lent`] promises that the pointer is valid for all elements while the owner lives. The owner
//! is dropped with the array, or returned by [`Array::into_owner`].
#![expect(unsafe_code, reason = "elements behind a pointer that an owner keeps good")]

use super::elements::Elements;
use super::{Array, Buffer, DType, Plain, each};
use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The owner of lent memory, which stays valid while the owner lives.
pub type Owner = Box<dyn Any + Send + Sync>;

pub(super) enum Memory<T: Plain> {
    Heap(Buffer<T>),
    Lent(Lent<T>),
}

pub(super) struct Lent<T> {
    pointer: NonNull<T>,
    len: usize,
    owner: Owner,
}

// SAFETY: the array has exclusive access to the elements, as a vector does, and the owner is `Send` and `Sync`.
unsafe impl<T: Send> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T: Plain> Deref for Memory<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Heap(elements) => elements,
            // SAFETY: the caller of `Array::lent` promised `len` elements of exclusive access while the owner lives.
            Self::Lent(lent) => unsafe { std::slice::from_raw_parts(lent.pointer.as_ptr(), lent.len) },
        }
    }
}

impl<T: Plain> DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::Heap(elements) => elements,
            // SAFETY: as for reading, with a mutable borrow of the memory.
            Self::Lent(lent) => unsafe { std::slice::from_raw_parts_mut(lent.pointer.as_ptr(), lent.len) },
        }
    }
}

impl<T: Plain> Memory<T> {
    fn is_kept_by<O: Any>(&self) -> bool {
        matches!(self, Self::Lent(lent) if lent.owner.is::<O>())
    }

    fn into_owner(self) -> Option<Owner> {
        match self {
            Self::Heap(_) => None,
            Self::Lent(lent) => Some(lent.owner),
        }
    }
}

impl Array {
    /// An array in the memory at `pointer`, which is valid while `owner` lives; the array owns `owner`.
    ///
    /// # Safety
    /// While `owner` lives, wherever it is moved, `pointer` is aligned for the dtype and points to as many initialised
    /// elements as `shape` has; only the array reads or writes them before the owner is dropped or taken out by
    /// [`Array::into_owner`].
    ///
    /// # Panics
    /// If `pointer` is null or not aligned, or the size of the array overflows an address.
    pub unsafe fn lent(dtype: DType, shape: &[usize], pointer: *mut u8, owner: Owner) -> Self {
        fn elements<T: Plain>(shape: &[usize], pointer: *mut u8, owner: Owner) -> Elements<T> {
            let len = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
            let len =
                len.filter(|n| n.checked_mul(size_of::<T>()).is_some_and(|n| isize::try_from(n).is_ok()));
            let pointer = NonNull::new(pointer.cast::<T>()).filter(|p| p.is_aligned());
            let (pointer, len) =
                pointer.zip(len).expect("memory that is there, aligned and as long as any can be");
            Elements::new(Memory::Lent(Lent { pointer, len, owner }), shape.into())
        }
        match dtype {
            DType::F16 => Self::F16(elements(shape, pointer, owner)),
            DType::BF16 => Self::BF16(elements(shape, pointer, owner)),
            DType::F32 => Self::F32(elements(shape, pointer, owner)),
            DType::F64 => Self::F64(elements(shape, pointer, owner)),
            DType::I32 => Self::I32(elements(shape, pointer, owner)),
            DType::I64 => Self::I64(elements(shape, pointer, owner)),
        }
    }

    /// The owner of the array's memory.
    ///
    /// # Errors
    /// The array itself, where its memory has no owner of this type.
    pub fn into_owner<O: Any>(self) -> Result<O, Self> {
        if !each!(Array: &self, a => a.memory().is_kept_by::<O>(), device d => d.is_kept_by::<O>()) {
            return Err(self);
        }
        let owner = each!(Array: self, a => a.into_memory().into_owner(), device d => Some(d.into_owner()));
        Ok(*owner.and_then(|owner| owner.downcast().ok()).expect("of this type, as seen above"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{Data, DataMut};
    use std::sync::Arc;

    /// An owner of elements whose drop shows in the reference count.
    struct Keeper(Box<[f64]>, #[expect(dead_code, reason = "counted")] Arc<()>);

    fn lend(numbers: &[f64], shape: &[usize], count: &Arc<()>) -> (*const f64, Array) {
        let mut keeper = Box::new(Keeper(numbers.into(), count.clone()));
        let pointer = keeper.0.as_mut_ptr();
        // SAFETY: the elements do not move while the keeper lives, and nothing else uses them.
        (pointer, unsafe { Array::lent(DType::F64, shape, pointer.cast(), keeper) })
    }

    #[test]
    fn lent_memory_is_used_in_place_and_handed_back() {
        let count = Arc::new(());
        let (pointer, mut array) = lend(&[1.0, 2.0, 3.0, 4.0], &[2, 2], &count);
        let copy = array.try_clone().expect("on the host");
        array.add(&copy).expect("of the same shape");
        if let Some(DataMut::F64(d)) = array.data_mut() {
            d[3] = 0.5;
        }
        assert_eq!((array.shape(), array.to_f64()), (&[2, 2][..], Ok(vec![2.0, 4.0, 6.0, 0.5])));
        assert!(matches!(array.view().data(), Data::F64(d) if std::ptr::eq(d.as_ptr(), pointer)));
        assert_eq!(copy.to_f64(), Ok(vec![1.0, 2.0, 3.0, 4.0]));
        assert!(copy.into_owner::<Keeper>().is_err(), "a copy has memory of its own");
        let array = array.into_owner::<String>().expect_err("its owner is no text");
        let keeper = array.into_owner::<Keeper>().unwrap_or_else(|_| panic!("its owner"));
        assert_eq!(*keeper.0, [2.0, 4.0, 6.0, 0.5]);
        assert_eq!(Arc::strong_count(&count), 2);
    }

    #[test]
    fn an_owner_is_dropped_with_its_array() {
        let count = Arc::new(());
        let (_, array) = lend(&[1.0, 2.0], &[2], &count);
        assert_eq!(Arc::strong_count(&count), 2);
        assert_eq!(array.cast(DType::F32).and_then(|a| a.to_f64()), Ok(vec![1.0, 2.0]));
        drop(array);
        assert_eq!(Arc::strong_count(&count), 1);
        let (_, empty) = lend(&[], &[0, 3], &count);
        assert!(empty.view().is_empty());
        drop(empty);
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
