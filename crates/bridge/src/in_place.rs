//! Results in memory that the caller of an op has.

use madelung_core::array::{Array, DType};
use madelung_core::backend::context::Allocator;
use madelung_core::{Error, Result};
use std::sync::{Mutex, PoisonError};

/// An allocator that places results in arrays of the caller, and all else where another one does.
#[expect(missing_debug_implementations, reason = "allocators have none")]
pub struct InPlace<'a> {
    outer: &'a dyn Allocator,
    results: Vec<Mutex<Option<Array>>>,
    addresses: Vec<Option<usize>>,
}

fn address(array: &Array) -> usize {
    array.view().data().pointer().addr()
}

impl<'a> InPlace<'a> {
    /// With an array for each result of a call in order, None where the caller has none.
    pub fn new(outer: &'a dyn Allocator, results: Vec<Option<Array>>) -> Self {
        let addresses = results.iter().map(|result| result.as_ref().map(address)).collect();
        Self { outer, results: results.into_iter().map(Mutex::new).collect(), addresses }
    }

    /// The results of a call, without those that lie in arrays of the caller.
    pub fn elsewhere(&self, results: Vec<Option<Array>>) -> Vec<Option<Array>> {
        let places = self.addresses.iter().copied().chain(std::iter::repeat(None));
        let elsewhere = |(result, place): (Option<Array>, Option<usize>)| {
            result.filter(|array| place.is_none_or(|place| address(array) != place))
        };
        results.into_iter().zip(places).map(elsewhere).collect()
    }
}

impl Allocator for InPlace<'_> {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.outer.zeros(dtype, shape)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.outer.room(dtype, shape)
    }

    fn result(&self, n: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        let Some(result) = self.results.get(n) else { return Ok(None) };
        let Some(array) = result.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(None);
        };
        if (array.dtype(), array.shape()) != (dtype, shape) {
            return Err(unfit(dtype, shape, array.shape()));
        }
        Ok(Some(array))
    }

    fn recycle(&self, array: Array) {
        self.outer.recycle(array);
    }
}

/// The error of a result that does not fit the caller's array.
pub fn unfit(dtype: DType, shape: &[usize], room: &[usize]) -> Error {
    let got = format!("{dtype} of shape {shape:?} for one of shape {room:?}");
    Error::argument("result", "the array that was promised", got)
}
