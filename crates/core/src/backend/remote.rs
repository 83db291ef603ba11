//! What the core itself does to arrays, where a backend has them in the memory of a device.

use super::context::Context;
use crate::Result;
use crate::array::{Array, View};
use crate::device::{DeviceArg, DeviceBatch, DeviceGrid, DevicePairs};

/// What has to hold for an argument before kernels read it.
#[derive(Clone, Copy, Debug)]
pub enum Check<'a> {
    /// Numbers that are finite.
    Finite(&'a View<'a>),
    /// Numbers that are finite and above zero.
    Positive(&'a View<'a>),
    /// Numbers that are zero.
    Zero(&'a View<'a>),
    /// Matrices (B, 3, 3) of lattice vectors that span a volume.
    Cells(&'a View<'a>),
    /// The integers of a batch, list or map, and that pairs stay within systems.
    Integers {
        /// The argument.
        arg: DeviceArg<'a>,
        /// For a list: the batches of its rows and columns.
        batches: Option<[&'a DeviceBatch<'a>; 2]>,
    },
}

/// A search of a grid for a call.
#[derive(Clone, Copy, Debug)]
pub struct GridSearch<'a> {
    /// The grid.
    pub grid: &'a DeviceGrid,
    /// Room for so many pairs.
    pub capacity: usize,
    /// What is searched around, (M, 3).
    pub queries: &'a View<'a>,
    /// The systems of these; without it all are in one.
    pub batch: Option<&'a DeviceBatch<'a>>,
    /// Pairs are at most so far apart.
    pub radius: f64,
    /// The points, (N, 3), and their systems, of which the grid should have been built.
    pub points: (&'a View<'a>, Option<&'a DeviceBatch<'a>>),
    /// The arguments that are the positions of queries, the radius and the grid.
    pub params: [usize; 3],
}

/// What rows are scaled by.
#[derive(Clone, Debug)]
pub enum Weights<'a> {
    /// All by one number.
    Uniform(f64),
    /// Each by its own.
    Rows(&'a View<'a>),
    /// Each by that of its system, whose number the second array says.
    Systems(&'a View<'a>, &'a View<'a>),
}

/// Work on arrays in the memory of a device, in the order of the backend's stream.
pub trait Remote: Sync {
    /// Fills with a number, rounded to the array's type.
    fn fill(&self, context: &Context<'_>, array: &mut Array, x: f64) -> Result<()>;

    /// Adds an array of the same type and shape.
    fn add(&self, context: &Context<'_>, to: &mut Array, from: &Array) -> Result<()>;

    /// The same numbers in the type of `to`: real ones rounded to nearest, ties to even; an i64 that is no i32 raises
    /// `word`, for argument `param`, and is cut.
    fn cast(
        &self,
        context: &Context<'_>,
        from: &View<'_>,
        to: &mut Array,
        word: Option<&Array>,
        param: Option<usize>,
    ) -> Result<()>;

    /// Row r of `rows` is the weight of r times row r of `unit`, an array of the same type and shape.
    fn scale_rows(
        &self,
        context: &Context<'_>,
        unit: &View<'_>,
        weights: &Weights<'_>,
        rows: &mut Array,
    ) -> Result<()>;

    /// The transpose of a list: its starts, rows and entries.
    fn transpose(&self, context: &Context<'_>, list: &DevicePairs<'_>) -> Result<[Array; 3]>;

    /// The pairs that a search finds, a directed list: offsets, int64 (M + 1,), columns, int32 (capacity,), and images,
    /// int32 (capacity, 3). What is wrong is raised in `word`.
    fn query(&self, context: &Context<'_>, asked: &GridSearch<'_>, word: &Array) -> Result<[Array; 3]>;

    /// Begins a call: its status word, into which the checks (each with the number of the argument that it is about)
    /// raise what they find. In the same go arrays are filled with numbers, rounded to their types.
    fn begin(
        &self,
        context: &Context<'_>,
        checks: &[(usize, Check<'_>)],
        fills: &[(&Array, f64)],
    ) -> Result<Array>;

    /// Ends a call: results become NaN where the word was raised or one of them is not finite, and the next look at the
    /// device's errors finds the reason, under the names of the call and of its arguments.
    fn end(
        &self,
        context: &Context<'_>,
        word: Array,
        results: &mut [&mut Array],
        call: &str,
        arguments: &dyn Fn() -> Vec<String>,
    ) -> Result<()>;
}
