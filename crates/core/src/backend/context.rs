//! What a launch is given by its caller: where to run, and where memory comes from.

use super::Backend;
use super::Weights;
use super::pool::{Pool, Share, Threads, WORTH_THREADS};
use super::status::{AtOnce, Status};
use crate::Result;
use crate::array::{Array, DType, View};
use crate::structure::Integers;

/// Gives the arrays that an op needs besides its inputs, and takes them back.
pub trait Allocator: Sync {
    /// Zeros.
    ///
    /// # Errors
    /// Where there is no memory.
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array>;
    /// An array that is written before it is read, and holds anything.
    ///
    /// # Errors
    /// Where there is no memory.
    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.zeros(dtype, shape)
    }
    /// Where result `n` of a call (its values, gradients, and what it saves, in this order) is to be made, if its caller
    /// has a place for it, which holds anything. It is given once.
    ///
    /// # Errors
    /// The place is one for another array.
    fn result(&self, n: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        _ = (n, dtype, shape);
        Ok(None)
    }
    /// Takes back what is no longer needed.
    fn recycle(&self, array: Array);
}

/// The process's own memory; that of large arrays is kept for later ones ([`crate::array::kept`]).
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

/// How the CPU takes the pairs of full lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairLoops {
    /// In clusters where the list has an order and it is faster; a matter of each system alone.
    #[default]
    Auto,
    /// Row by row.
    Rows,
    /// In clusters wherever the kernel has this form; lists without an order are ordered for the call.
    Clusters,
}

/// Where and with what an op runs.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The backend.
    pub backend: &'a dyn Backend,
    /// Threads.
    pub pool: &'a dyn Pool,
    /// The most of them that a call uses at once.
    pub max_threads: usize,
    /// Memory.
    pub allocator: &'a dyn Allocator,
    /// Takes gradients that add to partners' elements where a kernel has such a form, in place of those that gather
    /// through the list's transpose: no transpose is made, and rows collide.
    pub scatter: bool,
    /// Errors that only a run shows.
    pub status: &'a dyn Status,
    /// How pairs are taken.
    pub pair_loops: PairLoops,
}

impl<'a> Context<'a> {
    /// A backend with the shared pool and the heap; launches and errors at once.
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
    /// The same with other threads.
    #[must_use]
    pub fn with_pool<'b>(self, pool: &'b dyn Pool) -> Context<'b>
    where
        'a: 'b,
    {
        Context { pool, ..self }
    }

    /// The same with at most `threads` threads for a call, and at least one.
    #[must_use]
    pub fn with_max_threads(self, threads: usize) -> Self {
        Self { max_threads: threads, ..self }
    }

    /// `x` everywhere, rounded to the dtype.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn filled(&self, dtype: DType, shape: &[usize], x: f64) -> Result<Array> {
        let mut array = self.allocator.room(dtype, shape)?;
        self.backend.fill(self, &mut array, x)?;
        Ok(array)
    }

    /// Adds `from` to `to`, an array of the same type and shape.
    ///
    /// # Errors
    /// Where they differ.
    pub fn add(&self, to: &mut Array, from: &Array) -> Result<()> {
        self.backend.add(self, to, from)
    }

    /// Integers of `from` in the width of `to`, an array of as many; on a device an integer that does not fit is cut.
    ///
    /// # Errors
    /// Where a number does not fit.
    pub fn cast_integers(&self, from: &View<'_>, to: &mut Array) -> Result<()> {
        self.backend.cast(self, from, to, "integers", None)
    }

    /// Integers in the memory of a device as int32 or int64: a view where they are, an array where they are of the other
    /// width. An integer that is no int32 is cut, and found out of range where indices are checked.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn widened<'v>(&self, view: &View<'v>, dtype: DType) -> Result<Integers<'v>> {
        if view.dtype() == dtype {
            return Ok(view.clone().into());
        }
        let mut array = self.allocator.room(dtype, view.shape())?;
        self.cast_integers(view, &mut array)?;
        Ok(array.into())
    }

    /// Rows of `unit` times their weights.
    pub(crate) fn scaled_rows(&self, unit: &View<'_>, weights: &Weights<'_>) -> Result<Array> {
        let mut rows = self.allocator.room(unit.dtype(), unit.shape())?;
        self.backend.scale_rows(self, unit, weights, &mut rows)?;
        Ok(rows)
    }

    /// The threads of a call.
    pub fn threads(&self) -> Share<'a> {
        Share::new(self.pool, self.max_threads)
    }

    /// The threads for work of about this many nanoseconds: the calling thread alone below [`WORTH_THREADS`].
    pub fn threads_for(&self, nanoseconds: usize) -> Share<'a> {
        Share::new(self.pool, if nanoseconds < WORTH_THREADS { 1 } else { self.max_threads })
    }
}
