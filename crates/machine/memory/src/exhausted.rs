//! Memory that is not there: large allocations that fail unwind to the call that wanted them, which returns an error,
//! where Rust's collections would end the process.

use std::panic::resume_unwind;

/// An allocation that failed: the payload of its unwinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The size of the allocation.
    pub bytes: usize,
}

impl Exhausted {
    /// Unwinds, without a message on stderr, for the caller to catch.
    pub fn unwind(bytes: usize) -> ! {
        resume_unwind(Box::new(Self { bytes }))
    }
}

/// Sizes from here on are compared with the memory that the system has left: Linux grants more than there is, and ends
/// the process when the pages are written.
const LARGE: usize = 256 << 20;

/// Whether the system has so much memory left; true where that is not known.
pub fn is_left(bytes: usize) -> bool {
    bytes < LARGE || left().is_none_or(|left| bytes <= left)
}

/// Bytes that the system can give without the death of a process.
#[cfg(target_os = "linux")]
fn left() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of = |name: &str| -> Option<usize> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((of("MemAvailable")? + of("SwapFree").unwrap_or(0)) << 10)
}

#[cfg(not(target_os = "linux"))]
fn left() -> Option<usize> {
    None
}

/// Reserves memory for `more` elements of a vector.
///
/// # Panics
/// Unwinds with [`Exhausted`] where there is no memory.
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) {
    let bytes = vec.len().saturating_add(more).saturating_mul(size_of::<T>());
    if more > vec.capacity() - vec.len() && (!is_left(bytes) || vec.try_reserve(more).is_err()) {
        Exhausted::unwind(bytes);
    }
}

/// Adds an element to a vector.
///
/// # Panics
/// As [`reserve`].
pub fn push<T>(vec: &mut Vec<T>, x: T) {
    if vec.len() == vec.capacity() {
        reserve(vec, vec.len().max(16));
    }
    vec.push(x);
}

/// A vector of `len` times `x`.
///
/// # Panics
/// As [`reserve`].
pub fn filled<T: Clone>(len: usize, x: T) -> Vec<T> {
    let mut vec = Vec::new();
    reserve(&mut vec, len);
    vec.resize(len, x);
    vec
}

/// A vector of some items.
///
/// # Panics
/// As [`reserve`].
pub fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut vec = Vec::new();
    reserve(&mut vec, items.len());
    vec.extend(items);
    vec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use std::panic::catch_unwind;

    fn wanted(work: impl FnOnce() + std::panic::UnwindSafe) -> usize {
        let payload = catch_unwind(work).expect_err("there is no such memory");
        payload.downcast_ref::<Exhausted>().expect("of this type").bytes
    }

    #[test]
    fn sizes_beyond_the_machine_unwind() {
        for len in [1 << 45, 1 << 59, usize::MAX] {
            let bytes = len.saturating_mul(8);
            assert_eq!(wanted(|| drop(Buffer::<f64>::zeros(len))), bytes);
            assert_eq!(wanted(|| drop(Buffer::<f64>::room(len))), bytes);
            assert_eq!(wanted(|| drop(Buffer::<f64>::with_capacity(len))), bytes);
            assert_eq!(wanted(|| drop(Buffer::filled(len, 1.0))), bytes);
            assert_eq!(wanted(|| Buffer::from(vec![1.0; 3]).reserve(len - 3)), bytes);
            assert_eq!(wanted(|| drop(filled(len, 1.0))), bytes);
            assert_eq!(wanted(|| drop(collected((0..len).map(|n| n as f64)))), bytes);
            assert_eq!(wanted(|| reserve(&mut vec![1.0; 3], len - 3)), bytes);
        }
    }

    #[test]
    fn the_system_says_what_is_left() {
        let left = left();
        assert_eq!(left.is_some(), cfg!(target_os = "linux"));
        assert!(left.is_none_or(|left| left > 1 << 20 && left < 1 << 50), "{left:?}");
    }
}
