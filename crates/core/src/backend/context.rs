//! The execution context of ops: backend, threads, memory and error handling.

use super::Backend;
use super::Weights;
use super::pool::{Pool, Share, Threads, WORTH_THREADS};
use super::status::{AtOnce, Status};
use crate::Result;
use crate::array::{Array, DType, Place, View};

/// An allocator of the arrays that an op needs besides its inputs.
pub trait Allocator: Sync {
    /// An array of zeros.
    ///
    /// # Errors
    /// Memory ran out.
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array>;
    /// An array of arbitrary values, for callers that write every element before they read it.
    ///
    /// # Errors
    /// Memory ran out.
    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.zeros(dtype, shape)
    }
    /// The caller's own array for result `n` of a call (values, gradients and residuals, in this order), of arbitrary
    /// values; None if the caller provides none, and on every later request for `n`.
    ///
    /// # Errors
    /// The caller's array has another type or shape.
    fn result(&self, n: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        _ = (n, dtype, shape);
        Ok(None)
    }
    /// Takes back an array that is no longer needed.
    fn recycle(&self, array: Array);
}

/// The heap of the process, which keeps the memory of large arrays for later arrays ([`crate::array::kept`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

impl Allocator for Heap {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Ok(Array::zeros(dtype, shape))
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Ok(Array::room(dtype, shape))
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}

/// The loop order of the CPU over the pairs of full lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairLoops {
    /// By clusters if the list has a spatial order and clusters are faster, decided for each system alone.
    #[default]
    Auto,
    /// By rows.
    Rows,
    /// By clusters if the kernel has this form; lists without a spatial order get one for the call.
    Clusters,
}

/// The execution context of an op.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The backend.
    pub backend: &'a dyn Backend,
    /// The thread pool.
    pub pool: &'a dyn Pool,
    /// The largest number of threads that a call uses.
    pub max_threads: usize,
    /// The allocator of results and scratch.
    pub allocator: &'a dyn Allocator,
    /// Whether gradients add (scatter) to the elements of neighbours where a kernel has such a form. By default they gather
    /// through the list's transpose.
    pub scatter: bool,
    /// The policy for errors detected while kernels run.
    pub status: &'a dyn Status,
    /// The loop order over pairs.
    pub pair_loops: PairLoops,
}

impl<'a> Context<'a> {
    /// A context with the shared pool, the heap, and immediate errors.
    pub fn new(backend: &'a dyn Backend) -> Self {
        Self {
            backend,
            pool: Threads::shared(),
            max_threads: usize::MAX,
            allocator: &Heap,
            scatter: false,
            status: &AtOnce,
            pair_loops: PairLoops::Auto,
        }
    }
}

impl<'a> Context<'a> {
    /// The context with another pool.
    #[must_use]
    pub fn with_pool<'b>(self, pool: &'b dyn Pool) -> Context<'b>
    where
        'a: 'b,
    {
        Context { pool, ..self }
    }

    /// The context with at most `threads` threads for a call, at least one.
    #[must_use]
    pub fn with_max_threads(self, threads: usize) -> Self {
        Self { max_threads: threads, ..self }
    }

    /// An array whose elements all equal `x`, rounded to the dtype.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn filled(&self, dtype: DType, shape: &[usize], x: f64) -> Result<Array> {
        let mut array = self.allocator.room(dtype, shape)?;
        self.backend.fill(self, &mut array, x)?;
        Ok(array)
    }

    /// A copy of an array, in the memory that holds the array.
    ///
    /// # Errors
    /// Memory ran out; `array`, where it lies on a device that is not the backend's.
    pub(crate) fn copy(&self, array: &Array) -> Result<Array> {
        if array.place() == Place::Host {
            return array.try_clone();
        }
        let mut copy = self.allocator.room(array.dtype(), array.shape())?;
        self.backend.cast(self, &array.view(), &mut copy, "array", None)?;
        Ok(copy)
    }

    /// Copies the elements of `from` to `to`, an array of equal type and shape; none, where it lies in the same memory.
    pub(crate) fn copy_to(&self, from: &View<'_>, to: &mut Array) -> Result<()> {
        if to.view().data().pointer() == from.data().pointer() {
            return Ok(());
        }
        self.backend.cast(self, from, to, "array", None)
    }

    /// Adds `from` to `to`, an array of equal type and shape.
    ///
    /// # Errors
    /// The types or shapes differ.
    pub fn add(&self, to: &mut Array, from: &Array) -> Result<()> {
        self.backend.add(self, to, from)
    }

    /// Copies integers, converted to the width of `to`, which has as many elements; a device truncates numbers that do
    /// not fit.
    ///
    /// # Errors
    /// `integers`, where a number does not fit (on the CPU).
    pub fn cast_integers(&self, from: &View<'_>, to: &mut Array) -> Result<()> {
        self.backend.cast(self, from, to, "integers", None)
    }

    /// The rows of `unit`, each multiplied by its weight.
    pub(crate) fn scaled_rows(&self, unit: &View<'_>, weights: &Weights<'_>) -> Result<Array> {
        let mut rows = self.allocator.room(unit.dtype(), unit.shape())?;
        self.backend.scale_rows(self, unit, weights, &mut rows)?;
        Ok(rows)
    }

    /// The threads available to a call.
    pub fn threads(&self) -> Share<'a> {
        Share::new(self.pool, self.max_threads)
    }

    /// The threads for work of about `nanoseconds`: the calling thread alone below [`WORTH_THREADS`].
    pub fn threads_for(&self, nanoseconds: usize) -> Share<'a> {
        Share::new(self.pool, if nanoseconds < WORTH_THREADS { 1 } else { self.max_threads })
    }
}
