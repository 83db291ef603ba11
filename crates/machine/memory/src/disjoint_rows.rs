//! Disjoint rows of one array, written by different tasks.
#![expect(unsafe_code, reason = "disjoint parts of one slice go to several threads")]
// Sound because an atomic flag per row hands out each row once, and the constructor checks that rows do not overlap.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rows of a CSR array; any thread may take a row, each row once.
#[derive(Debug)]
pub struct Rows<'a, T> {
    data: *mut T,
    ptr: &'a [i64],
    taken: Vec<AtomicBool>,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: a shared `Rows` hands each element to at most one thread, as `&mut [T]`, for which `T: Send` suffices.
unsafe impl<T: Send> Sync for Rows<'_, T> {}

impl<'a, T> Rows<'a, T> {
    /// Rows `ptr[i]..ptr[i + 1]` of `data`.
    ///
    /// # Panics
    /// If `ptr` is not ascending from at least 0 to at most `data.len()`.
    pub fn new(data: &'a mut [T], ptr: &'a [i64]) -> Self {
        let rises = ptr.first().is_none_or(|&first| first >= 0) && ptr.is_sorted();
        assert!(rises && ptr.last().is_none_or(|&last| last as usize <= data.len()), "rows inside the array");
        let taken = (1..ptr.len()).map(|_| AtomicBool::new(false)).collect();
        Self { data: data.as_mut_ptr(), ptr, taken, slice: PhantomData }
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there is no such row, or the row was taken before.
    pub fn take(&self, i: usize) -> &'a mut [T] {
        assert!(!self.taken[i].swap(true, Ordering::Relaxed), "row {i} was taken before");
        let (start, end) = (self.ptr[i] as usize, self.ptr[i + 1] as usize);
        // SAFETY: inside the array, disjoint from all other rows, and handed out once.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start), end - start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_disjoint_and_given_once() {
        let ptr: Vec<i64> = (0..1001).map(|i| i * i / 7).collect();
        let mut data = vec![0; ptr[1000] as usize + 3];
        let rows = Rows::new(&mut data, &ptr);
        std::thread::scope(|scope| {
            for t in 0..3 {
                let rows = &rows;
                scope.spawn(move || (t..1000).step_by(3).for_each(|i| rows.take(i).fill(i + 1)));
            }
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rows.take(4).len())).is_err());
        let expected: Vec<usize> =
            (0..1000).flat_map(|i| vec![i + 1; (ptr[i + 1] - ptr[i]) as usize]).chain([0; 3]).collect();
        assert_eq!(data, expected);
    }

    #[test]
    fn rows_stay_inside() {
        for ptr in [vec![0, 5], vec![0, 3, 2], vec![-1, 2]] {
            let rows = || drop(Rows::new(&mut [0; 4], &ptr));
            assert!(std::panic::catch_unwind(rows).is_err(), "{ptr:?}");
        }
    }
}
