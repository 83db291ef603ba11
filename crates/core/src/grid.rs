//! Grids of points that kernels query: the core asks, the crate of neighbour searches answers.

use crate::Result;
use crate::array::{Array, Place, View};
use crate::backend::Context;
use crate::batch::Batch;
use crate::device::DeviceBatch;
use crate::pairs::PairList;
use std::fmt::Debug;

/// Points of one or several systems in the cells of a grid.
pub trait PointGrid: Debug + Send + Sync {
    /// The batch of its points.
    fn batch(&self) -> &Batch<'static>;

    /// Whether it was built from these points (N, 3): the same numbers, exactly.
    fn is_of(&self, points: &View<'_>) -> bool;

    /// Every image of every point within `radius` of each of `queries` (M, 3), whose systems `batch` says; rows sorted by
    /// i, then j, then S.
    ///
    /// # Errors
    /// `queries`, `batch_idx` or `radius`, where they do not fit the points.
    fn query(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        radius: f64,
    ) -> Result<PairList<'static>>;
}

/// A grid of points in the memory of a device.
pub trait DevicePointGrid: Debug + Send + Sync {
    /// Memory that holds the grid.
    fn place(&self) -> Place;

    /// The number of its points.
    fn points(&self) -> usize;

    /// The number of their systems.
    fn systems(&self) -> usize;

    /// The pairs that a search finds, a directed list: offsets, int64 (M + 1,), columns, int32 (capacity,), and images,
    /// int32 (capacity, 3). Errors that only the device sees are raised in `word`.
    ///
    /// # Errors
    /// Memory ran out; the driver's.
    fn query(&self, context: &Context<'_>, asked: &GridSearch<'_>, word: &Array) -> Result<[Array; 3]>;
}

/// A search of a grid for a call.
#[derive(Clone, Copy, Debug)]
pub struct GridSearch<'a> {
    /// The grid.
    pub grid: &'a dyn DevicePointGrid,
    /// Room for so many pairs.
    pub capacity: usize,
    /// Points around which is searched, (M, 3).
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
