//! Grids of points: core asks, the crate of neighbour searches answers.

use super::Structure;
use crate::Result;
use crate::array::{Array, Place, View};
use crate::backend::Context;
use std::fmt::Debug;

/// Points of one or several systems in the cells of a grid.
pub trait PointGrid: Debug + Send + Sync {
    /// Memory that holds the grid.
    fn place(&self) -> Place;

    /// The number of its points.
    fn points(&self) -> usize;

    /// The number of their systems.
    fn systems(&self) -> usize;

    /// The number of pairs that a search has memory for; `None`: as many as it finds.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// Every image of every point within the radius of each query, a directed list; rows of the host's are sorted by i,
    /// then j, then S. Errors that only a device sees are raised in the call's word.
    ///
    /// # Errors
    /// `queries`, `batch_idx` or `radius`, where they do not fit the points; `grid`, where it was built from other
    /// points or systems; on a device also: memory ran out, and the driver's.
    fn query(&self, context: &Context<'_>, search: &GridSearch<'_>) -> Result<Box<dyn Structure>>;
}

/// Search of a grid for a call.
#[derive(Clone, Copy, Debug)]
pub struct GridSearch<'a> {
    /// Points around which to search, (M, 3).
    pub queries: &'a View<'a>,
    /// The systems of the queries; without it all are in one.
    pub batch: Option<&'a dyn Structure>,
    /// The largest distance of a pair.
    pub radius: f64,
    /// The points of the call, (N, 3), and their systems: the grid should have been built from them.
    pub points: (&'a View<'a>, Option<&'a dyn Structure>),
    /// Numbers of the arguments that are the positions of queries, the radius and the grid.
    pub params: [usize; 3],
    /// Whether all pairs are wanted at once, as arrays with an element for each are.
    pub whole: bool,
    /// Status word of the call, in the memory of a device.
    pub word: Option<&'a Array>,
}
