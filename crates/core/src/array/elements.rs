//! The elements of an owned array, in row-major order.

use super::memory::Memory;
use super::{Buffer, Plain, Shape};
use ndarray::{ArrayD, Dimension};
use std::ops::{Deref, DerefMut};

/// The elements of an array of one type, with their shape; dereferences to a slice.
pub struct Elements<T: Plain> {
    memory: Memory<T>,
    shape: Shape,
}

impl<T: Plain> Elements<T> {
    /// Elements in `memory`, as many as the shape has.
    pub(super) fn new(memory: Memory<T>, shape: Shape) -> Self {
        debug_assert_eq!(memory.len(), shape.iter().product::<usize>());
        Self { memory, shape }
    }

    /// Elements on the heap, as many as the shape has.
    pub(super) fn of(elements: Buffer<T>, shape: &[usize]) -> Self {
        Self::new(Memory::Heap(elements), shape.into())
    }

    pub(super) fn memory(&self) -> &Memory<T> {
        &self.memory
    }

    pub(super) fn into_memory(self) -> Memory<T> {
        self.memory
    }

    /// Whether the memory goes back to the pool of large buffers on drop.
    pub fn is_kept(&self) -> bool {
        matches!(&self.memory, Memory::Heap(buffer) if buffer.is_kept())
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
}

impl<T: Plain> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory
    }
}

impl<T: Plain> DerefMut for Elements<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory
    }
}

impl<T: Plain> Clone for Elements<T> {
    /// A copy on the heap.
    fn clone(&self) -> Self {
        Self { memory: Memory::Heap((&**self).into()), shape: self.shape.clone() }
    }
}

impl<T: Plain + PartialEq> PartialEq for Elements<T> {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && **self == **other
    }
}

impl<T: Plain + std::fmt::Debug> std::fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elements").field("shape", &self.shape()).field("elements", &&**self).finish()
    }
}

/// An array of one axis.
impl<T: Plain> From<Vec<T>> for Elements<T> {
    fn from(elements: Vec<T>) -> Self {
        let len = elements.len();
        Self::of(elements.into(), &[len])
    }
}

/// An array of one axis.
impl<T: Plain> From<Buffer<T>> for Elements<T> {
    fn from(elements: Buffer<T>) -> Self {
        let len = elements.len();
        Self::of(elements, &[len])
    }
}

impl<T: Plain, D: Dimension> From<ndarray::Array<T, D>> for Elements<T> {
    /// No copy for an array in row-major order that uses its whole buffer.
    fn from(a: ndarray::Array<T, D>) -> Self {
        let shape = Shape::from(a.shape());
        let len = a.len();
        let elements = if a.is_standard_layout() {
            match a.into_raw_vec_and_offset() {
                (elements, None | Some(0)) if elements.len() == len => elements,
                (elements, from) => elements[from.unwrap_or(0)..][..len].to_vec(),
            }
        } else {
            a.iter().copied().collect()
        };
        Self { memory: Memory::Heap(elements.into()), shape }
    }
}

impl<T: Plain> From<Elements<T>> for Vec<T> {
    /// No copy for memory of a vector (elements made from one, or few elements).
    fn from(elements: Elements<T>) -> Self {
        match elements.memory {
            Memory::Heap(elements) => elements.into(),
            lent @ Memory::Lent(_) => lent.to_vec(),
        }
    }
}

impl<T: Plain> From<Elements<T>> for Buffer<T> {
    /// No copy except from lent memory.
    fn from(elements: Elements<T>) -> Self {
        match elements.memory {
            Memory::Heap(elements) => elements,
            lent @ Memory::Lent(_) => (&*lent).into(),
        }
    }
}

impl<T: Plain> From<Elements<T>> for ArrayD<T> {
    /// No copy for memory of a vector (elements made from one, or few elements).
    fn from(elements: Elements<T>) -> Self {
        let shape = elements.shape().to_vec();
        Self::from_shape_vec(shape, elements.into()).expect("as many elements as the shape says")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array1, Array2, s};

    #[test]
    fn arrays_of_ndarray_keep_their_memory() {
        let a = Array2::from_shape_fn((2, 3), |(i, j)| (3 * i + j) as f64);
        let (pointer, elements) = (a.as_ptr(), Elements::from(a.clone().reversed_axes()));
        assert_eq!((elements.shape(), &*elements), (&[3, 2][..], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0][..]));
        let elements = Elements::from(a);
        assert!(std::ptr::eq(elements.as_ptr(), pointer));
        let back = ArrayD::from(elements);
        assert!(std::ptr::eq(back.as_ptr(), pointer));
        assert_eq!(back.shape(), [2, 3]);
    }

    #[test]
    fn parts_of_arrays_are_cut_out() {
        let part = Array1::from_vec(vec![1, 2, 3, 4, 5]).slice_move(s![1..4]);
        assert_eq!(*Elements::from(part), [2, 3, 4]);
        let backwards = Array1::from_vec(vec![1, 2, 3]).slice_move(s![..;-1]);
        assert_eq!(*Elements::from(backwards), [3, 2, 1]);
        let none = Array2::<f32>::zeros((0, 3));
        assert_eq!(Elements::from(none).shape(), [0, 3]);
    }
}
