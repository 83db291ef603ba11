//! Growable memory for plain numbers, which is kept for later buffers where it is large: see [`crate::kept`].
#![expect(unsafe_code, reason = "elements behind a pointer to memory of either kind")]

use crate::exhausted::{collected, reserve};
use crate::kept::{Block, SMALLEST};
use half::{bf16, f16};
use std::borrow::Cow;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Plain numbers, and arrays of them.
///
/// # Safety
/// Any bytes are a value, and all bytes of a value are initialised (there is no padding).
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($t:ty),*) => {$(
        // SAFETY: all bits are bits of the number.
        unsafe impl Plain for $t {}
    )*};
}
plain!(u8, i32, u32, i64, u64, usize, f16, bf16, f32, f64);

// SAFETY: elements follow each other without gaps.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// A vector of plain numbers.
///
/// From [`SMALLEST`](crate::kept::SMALLEST) bytes on its memory is a block that is aligned and, when the buffer is
/// dropped, kept for later ones. Smaller buffers are vectors. Functions that need memory which is not there unwind with
/// [`Exhausted`](crate::Exhausted).
pub struct Buffer<T: Plain> {
    pointer: NonNull<T>,
    len: usize,
    capacity: usize,
    /// Block that the elements lie in; none for memory of a vector.
    block: Option<Block>,
}

// SAFETY: the elements are nobody else's, as a vector's are.
unsafe impl<T: Plain> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Buffer<T> {}

impl<T: Plain> Buffer<T> {
    /// No elements, and no memory.
    pub const fn new() -> Self {
        Self { pointer: NonNull::dangling(), len: 0, capacity: 0, block: None }
    }

    /// No elements, and memory for `capacity`.
    pub fn with_capacity(capacity: usize) -> Self {
        match Self::in_block(capacity) {
            Some((buffer, _)) => buffer,
            None => {
                let mut elements = Vec::new();
                reserve(&mut elements, capacity);
                elements.into()
            }
        }
    }

    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let (buffer, zeros) = Self::anything(len);
        if !zeros {
            // SAFETY: the elements are the buffer's, and bytes of 0 are values.
            unsafe { buffer.pointer.write_bytes(0, len) };
        }
        buffer
    }

    /// `len` elements of any values, and whether they are zeros.
    pub fn room(len: usize) -> (Self, bool) {
        let (buffer, zeros) = Self::anything(len);
        if cfg!(debug_assertions) {
            // SAFETY: the elements are the buffer's, and any bytes are values; these are NaN, or no index, so that what is
            // read before it is written shows.
            unsafe { buffer.pointer.write_bytes(0xff, len) };
            return (buffer, false);
        }
        (buffer, zeros)
    }

    fn anything(len: usize) -> (Self, bool) {
        match Self::in_block(len) {
            Some((mut buffer, zeros)) => {
                // The bytes of a block are initialised, so these are values.
                buffer.len = len;
                (buffer, zeros)
            }
            None => {
                // Zeros of the system come without a write, but not from a vector that may fail.
                if len.saturating_mul(size_of::<T>()) >= SMALLEST {
                    reserve(&mut Vec::<T>::new(), len);
                }
                // SAFETY: bytes of 0 are a value.
                (vec![unsafe { std::mem::zeroed() }; len].into(), true)
            }
        }
    }

    /// `x`, `len` times.
    pub fn filled(len: usize, x: T) -> Self {
        let mut buffer = Self::with_capacity(len);
        buffer.resize(len, x);
        buffer
    }

    /// No elements in a block for `capacity`, and whether it holds zeros.
    fn in_block(capacity: usize) -> Option<(Self, bool)> {
        let (block, zeros) = Block::new(capacity.checked_mul(size_of::<T>())?)?;
        let capacity = block.size() / size_of::<T>();
        Some((Self { pointer: block.start().cast(), len: 0, capacity, block: Some(block) }, zeros))
    }

    /// Number of elements that there is memory for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether its memory is kept when it is dropped.
    pub fn is_kept(&self) -> bool {
        self.block.is_some()
    }

    /// Forgets all elements but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Forgets all elements; the memory stays.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Changes the length to `len`; new elements are `x`.
    pub fn resize(&mut self, len: usize, x: T) {
        self.reserve(len.saturating_sub(self.len));
        if len > self.len {
            let end = self.pointer.as_ptr().wrapping_add(self.len).cast::<MaybeUninit<T>>();
            // SAFETY: there is memory for `len` elements.
            let more = unsafe { std::slice::from_raw_parts_mut(end, len - self.len) };
            more.fill(MaybeUninit::new(x));
        }
        self.len = len;
    }

    /// Adds an element.
    pub fn push(&mut self, x: T) {
        if self.len == self.capacity {
            self.reserve(1);
        }
        // SAFETY: there is memory for one more.
        unsafe { self.pointer.add(self.len).write(x) };
        self.len += 1;
    }

    /// Adds elements.
    pub fn extend_from_slice(&mut self, more: &[T]) {
        self.reserve(more.len());
        // SAFETY: there is memory for as many more, which `more` does not overlap.
        unsafe {
            self.pointer.add(self.len).copy_from_nonoverlapping(NonNull::from(more).cast(), more.len())
        };
        self.len += more.len();
    }

    /// Reserves memory for `more` elements beyond those that are there.
    pub fn reserve(&mut self, more: usize) {
        let least = self.len.saturating_add(more);
        if least <= self.capacity {
            return;
        }
        let capacity = least.max(self.capacity.saturating_mul(2));
        if let Some((mut large, _)) = Self::in_block(capacity) {
            large.extend_from_slice(self);
            *self = large;
            return;
        }
        if self.is_kept() {
            let mut elements = Vec::new();
            reserve(&mut elements, capacity);
            elements.extend_from_slice(self);
            *self = elements.into();
            return;
        }
        let mut elements = Vec::from(std::mem::take(self));
        let more = capacity - elements.len();
        reserve(&mut elements, more);
        *self = elements.into();
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.block.is_none() {
            // SAFETY: without a block these are the parts of a vector, of which there is no other.
            drop(unsafe { Vec::from_raw_parts(self.pointer.as_ptr(), self.len, self.capacity) });
        }
    }
}

impl<T: Plain> From<Vec<T>> for Buffer<T> {
    /// The vector's memory.
    fn from(elements: Vec<T>) -> Self {
        let mut elements = ManuallyDrop::new(elements);
        let pointer = NonNull::new(elements.as_mut_ptr()).expect("vectors begin somewhere");
        Self { pointer, len: elements.len(), capacity: elements.capacity(), block: None }
    }
}

impl<T: Plain> From<Buffer<T>> for Vec<T> {
    /// Without a copy where the memory is a vector's.
    fn from(buffer: Buffer<T>) -> Self {
        if buffer.is_kept() {
            return collected(buffer.iter().copied());
        }
        let buffer = ManuallyDrop::new(buffer);
        // SAFETY: without a block these are the parts of a vector, of which there is no other.
        unsafe { Self::from_raw_parts(buffer.pointer.as_ptr(), buffer.len, buffer.capacity) }
    }
}

impl<T: Plain> From<&[T]> for Buffer<T> {
    fn from(elements: &[T]) -> Self {
        let mut buffer = Self::with_capacity(elements.len());
        buffer.extend_from_slice(elements);
        buffer
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as many elements were written, or are bytes of a block.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for reading, and this is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

impl<T: Plain> Default for Buffer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Plain> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }

    fn clone_from(&mut self, other: &Self) {
        self.clear();
        self.extend_from_slice(other);
    }
}

impl<T: Plain + PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Plain + Eq> Eq for Buffer<T> {}

impl<T: Plain + std::fmt::Debug> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Plain> Extend<T> for Buffer<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        let more = more.into_iter();
        self.reserve(more.size_hint().0);
        more.for_each(|x| self.push(x));
    }
}

impl<T: Plain> FromIterator<T> for Buffer<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut buffer = Self::new();
        buffer.extend(elements);
        buffer
    }
}

impl<'a, T: Plain> IntoIterator for &'a Buffer<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Plain numbers, borrowed or owned.
#[derive(Clone, Debug)]
pub enum Numbers<'a, T: Plain> {
    /// Numbers of another owner.
    Borrowed(&'a [T]),
    /// Numbers in a buffer.
    Owned(Buffer<T>),
}

impl<T: Plain> Numbers<'_, T> {
    /// Borrowed view of the numbers.
    pub fn borrowed(&self) -> Numbers<'_, T> {
        Numbers::Borrowed(self)
    }

    /// Buffer of the numbers, copied where they are borrowed.
    pub fn into_buffer(self) -> Buffer<T> {
        match self {
            Self::Borrowed(elements) => elements.into(),
            Self::Owned(buffer) => buffer,
        }
    }

    /// Owned numbers, copied where they are borrowed.
    pub fn into_owned(self) -> Numbers<'static, T> {
        Numbers::Owned(self.into_buffer())
    }
}

impl<T: Plain> Deref for Numbers<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Borrowed(elements) => elements,
            Self::Owned(buffer) => buffer,
        }
    }
}

impl<'a, T: Plain> From<&'a [T]> for Numbers<'a, T> {
    fn from(elements: &'a [T]) -> Self {
        Self::Borrowed(elements)
    }
}

impl<T: Plain> From<Vec<T>> for Numbers<'_, T> {
    fn from(elements: Vec<T>) -> Self {
        Self::Owned(elements.into())
    }
}

impl<T: Plain> From<Buffer<T>> for Numbers<'_, T> {
    fn from(buffer: Buffer<T>) -> Self {
        Self::Owned(buffer)
    }
}

impl<'a, T: Plain> From<Cow<'a, [T]>> for Numbers<'a, T> {
    fn from(elements: Cow<'a, [T]>) -> Self {
        match elements {
            Cow::Borrowed(elements) => Self::Borrowed(elements),
            Cow::Owned(elements) => elements.into(),
        }
    }
}

impl<'a, T: Plain> From<Numbers<'a, T>> for Cow<'a, [T]> {
    fn from(elements: Numbers<'a, T>) -> Self {
        match elements {
            Numbers::Borrowed(elements) => Cow::Borrowed(elements),
            Numbers::Owned(buffer) => Cow::Owned(buffer.into()),
        }
    }
}

impl<T: Plain> FromIterator<T> for Numbers<'_, T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self::Owned(elements.into_iter().collect())
    }
}
