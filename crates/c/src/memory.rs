//! Memory of callers: arrays, texts and structs.
#![allow(unsafe_code, reason = "pointers of C: what each must be is said, and null and sizes are looked at")]

use madelung::{Error, Result};
use std::ffi::{CStr, c_char};

/// The elements of an array of so many rows.
///
/// # Safety
/// `p` is null, or valid for reading `rows` times `width` elements while the call runs.
pub(crate) unsafe fn array<'a, T>(name: &str, p: *const T, rows: usize, width: usize) -> Result<&'a [T]> {
    let count = rows
        .checked_mul(width)
        .filter(|n| n.checked_mul(size_of::<T>()).is_some_and(|n| isize::try_from(n).is_ok()));
    let count = count.ok_or_else(|| {
        Error::argument(name, "as many elements as memory has", format!("{rows} × {width}"))
    })?;
    if count == 0 {
        return Ok(&[]);
    }
    check(name, p, count)?;
    // SAFETY: the caller's promise; the pointer is aligned, and the size is one of memory.
    Ok(unsafe { std::slice::from_raw_parts(p, count) })
}

/// Refuses a pointer that is null or not aligned.
fn check<T>(name: &str, p: *const T, count: usize) -> Result<()> {
    match () {
        () if p.is_null() => Err(Error::argument(name, format!("{count} elements"), "a null pointer")),
        () if !p.is_aligned() => {
            let expected = format!("an address that is a multiple of {}", align_of::<T>());
            Err(Error::argument(name, expected, format!("{p:p}")))
        }
        () => Ok(()),
    }
}

/// The room of an array of results; None where it is null, as it is not wanted.
///
/// # Safety
/// `p` is null, or valid for reading and writing `count` elements while the call runs, which nothing else touches.
pub(crate) unsafe fn room<'a>(name: &str, p: *mut f64, count: usize) -> Result<Option<&'a mut [f64]>> {
    if p.is_null() {
        return Ok(None);
    }
    check(name, p, count)?;
    // SAFETY: the caller's promise, of as many elements as a result has.
    Ok(Some(unsafe { std::slice::from_raw_parts_mut(p, count) }))
}

/// A number of elements.
pub(crate) fn size(name: &str, count: i64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::argument(name, "a number of elements from 0 up", count.to_string()))
}

/// A text.
///
/// # Safety
/// `p` is null, or a text that ends in a zero.
pub(crate) unsafe fn text<'a>(name: &str, p: *const c_char) -> Result<&'a str> {
    if p.is_null() {
        return Err(Error::argument(name, "a text", "a null pointer"));
    }
    // SAFETY: the caller's promise.
    let found = unsafe { CStr::from_ptr(p) };
    found.to_str().map_err(|_| Error::argument(name, "a text in UTF-8", format!("{found:?}")))
}

/// Structs of callers, which begin with their size; fields that an older version lacks are 0.
///
/// # Safety
/// The type is `repr(C)`, begins with a `u32`, and has a value where all bytes are 0.
pub(crate) unsafe trait Versioned: Copy {
    /// The size of its first version.
    const FIRST: usize;
}

/// A struct of a caller.
///
/// # Safety
/// `p` is null, or a struct that begins with its size and is as large as that says.
pub(crate) unsafe fn of_size<T: Versioned>(name: &str, p: *const T) -> Result<T> {
    check(name, p, 1)?;
    // SAFETY: it begins with a number of 4 bytes.
    let size = unsafe { p.cast::<u32>().read() } as usize;
    let own = size_of::<T>();
    if !(T::FIRST..=own).contains(&size) {
        let expected = format!("a struct whose `size` is its size, {own} bytes in this version");
        return Err(Error::argument(name, expected, format!("{size}")));
    }
    let mut made = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the caller's promise; there is room for as many bytes, and zeros are a value of the others.
    unsafe {
        std::ptr::copy_nonoverlapping(p.cast::<u8>(), made.as_mut_ptr().cast(), size);
        Ok(made.assume_init())
    }
}

/// Writes a struct back, as much of it as its caller has.
///
/// # Safety
/// `into` is the struct that [`of_size`] has read, and valid for writing.
pub(crate) unsafe fn give_back<T: Versioned>(from: &T, into: *mut T) {
    // SAFETY: the caller's promise, and that of the trait.
    unsafe {
        let size = into.cast::<u32>().read() as usize;
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), into.cast(), size);
    }
}

/// A handle.
///
/// # Safety
/// `p` is null, or a handle of this library that is not freed.
pub(crate) unsafe fn handle<'a, T>(name: &str, p: *const T) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { p.as_ref() }.ok_or_else(|| Error::argument(name, "a handle", "a null pointer"))
}

/// Gives a new handle to the caller.
///
/// # Safety
/// `into` is null, or valid for writing a pointer.
pub(crate) unsafe fn give<T>(name: &str, into: *mut *mut T, made: T) -> Result<()> {
    if into.is_null() {
        return Err(Error::argument(name, "a place for a handle", "a null pointer"));
    }
    // SAFETY: the caller's promise.
    unsafe { into.write(Box::into_raw(Box::new(made))) };
    Ok(())
}

/// Takes a handle back.
///
/// # Safety
/// `p` is null, or of [`give`], and is not used any more.
pub(crate) unsafe fn take<T>(p: *mut T) {
    if !p.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(p) });
    }
}
