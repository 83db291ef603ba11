//! Points around queries as calls have both, without a grid of the caller's: for ops of integers, and for ops that query a grid
//! of their own points.

use super::DeviceFrame;
use super::counted::{Asked, CountedPairs};
use super::grid::{DeviceGrid, check_radius, listed};
use super::passes;
use crate::atoms::{Atoms, wrong};
use crate::coo::room;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::structure::{GridSearch, PointGrid, Structure};
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use madelung_cuda::memory::{Rooms, address};
use madelung_cuda::validation::{self, arguments};

/// Points that a cell of a grid holds at least, about.
const SHARE: f64 = 1.0;

/// Grid of the points of an op's call, which is built and searched where the call does, with memory for the pairs that it
/// finds.
#[derive(Debug)]
pub(crate) struct GridOfCall<'a> {
    pub(crate) points: Atoms<'a>,
    /// Pairs of each query that there is memory for, on average; None: as many as there are, for which the host waits.
    pub(crate) most: Option<usize>,
    /// Numbers of arguments, from 1 on: points, cell, and the number of pairs.
    pub(crate) params: [u32; 3],
}

impl PointGrid for GridOfCall<'_> {
    fn place(&self) -> Place {
        self.points.positions.place()
    }

    fn points(&self) -> usize {
        self.points.batch.sizes()[0].unwrap_or(0)
    }

    fn systems(&self) -> usize {
        self.points.batch.sizes()[1].unwrap_or(0)
    }

    fn query(&self, context: &Context<'_>, search: &GridSearch<'_>) -> Result<Box<dyn Structure>> {
        let (Some(cuda), Some(word)) = (context.backend.as_any().downcast_ref::<Cuda>(), search.word) else {
            return Err(Error::argument("context", "a device", context.backend.name()));
        };
        let GridSearch { queries, batch, radius, points: (positions, _), params, .. } = *search;
        check_radius("radius", radius)?;
        let frame = DeviceFrame { positions, ..self.points.frame()? };
        let [of_points, of_cell, of_most] = self.params;
        let grid = DeviceGrid::of_call(cuda, context, &frame, (radius, SHARE), (word, [of_points, of_cell]))?;
        grid.check(cuda, queries, batch)?;
        let [of_queries, of_radius, _] = params.map(|arg| arg as u32 + 1);
        let asked = grid.queries(queries, batch, radius, [of_queries, of_radius, 0, of_most])?;
        let list = listed(&grid, cuda, context, (asked, word), |counted| match self.most {
            None => counted.total(),
            Some(most) => {
                let capacity = most.saturating_mul(queries.shape()[0]);
                passes::check_capacity("max_neighbors", capacity).map(|()| capacity)
            }
        })?;
        grid.recycle(context);
        Ok(list)
    }
}

impl<'a> Atoms<'a> {
    /// The atoms in the memory of a device.
    pub(super) fn frame(&self) -> Result<DeviceFrame<'_>> {
        let batch = self.batch.as_device_batch().ok_or_else(wrong)?;
        Ok(DeviceFrame { positions: self.positions, cell: self.cell, pbc: &self.pbc, batch })
    }
}

/// Queries among the points of a search, all in the memory of a device.
pub(crate) struct Around<'a> {
    pub(crate) cuda: &'a Cuda,
    pub(crate) queries: &'a View<'a>,
    pub(crate) of_queries: &'a dyn Structure,
    pub(crate) points: Atoms<'a>,
}

/// The names of a search's arguments, from 1 on in its word; the sixth is a radius or a number of points.
type Names = [&'static str; 7];
const RADIUS: Names = ["queries", "points", "cell", "query_batch_idx", "batch_idx", "radius", "capacity"];
const NEAREST: Names = ["queries", "points", "cell", "query_batch_idx", "batch_idx", "k", "capacity"];

impl Around<'_> {
    /// A word, the grid of the points, in cells of a size and about `share` of them in each, and the queries.
    fn begin(
        &self,
        context: &Context<'_>,
        radius: f64,
        (cell_size, share): (f64, f64),
    ) -> Result<(Array, DeviceGrid, Asked)> {
        let (frame, batch) = (self.points.frame()?, self.of_queries.as_device_batch().ok_or_else(wrong)?);
        let checks = [(3, batch), (4, frame.batch)].into_iter();
        let checks = checks.flat_map(|(n, batch)| batch.checks().into_iter().map(move |check| (n, check)));
        let word = validation::begin(self.cuda.stream(), context, &checks.collect::<Vec<_>>(), &mut [])?;
        let grid = DeviceGrid::of_call(self.cuda, context, &frame, (cell_size, share), (&word, [2, 3]))?;
        grid.check(self.cuda, self.queries, Some(self.of_queries))?;
        let asked = grid.queries(self.queries, Some(self.of_queries), radius, [1, 6, 0, 7])?;
        Ok((word, grid, asked))
    }

    fn end(
        &self,
        context: &Context<'_>,
        word: Array,
        grid: DeviceGrid,
        call: &str,
        names: Names,
    ) -> Result<()> {
        grid.recycle(context);
        let names = || names.map(str::to_string).to_vec();
        validation::end(self.cuda.stream(), context, word, &mut [], call, &names)
    }

    /// The points within a radius, as `radius_search` gives them; without a capacity the host waits for their number.
    ///
    /// # Errors
    /// The array whose dtype, shape or place is another; `radius`; without a capacity what the device has found wrong;
    /// the driver's.
    pub(crate) fn within(
        &self,
        context: &Context<'_>,
        radius: f64,
        capacity: Option<usize>,
    ) -> Result<Vec<Array>> {
        check_radius("radius", radius)?;
        let m = self.queries.shape().first().copied().unwrap_or(0);
        let (word, grid, asked) = self.begin(context, radius, (radius, SHARE))?;
        let wide = context.allocator.zeros(DType::I64, &[m + 1])?;
        let mut counted = grid.count(self.cuda, context, asked, &word, &wide)?;
        let capacity = match capacity {
            Some(capacity) => capacity,
            None => self.total(&counted, &word)?,
        };
        passes::check_capacity("capacity", capacity)?;
        let [ptr, others, shifts] =
            [room(context, 0, &[m + 1])?, room(context, 1, &[capacity])?, room(context, 2, &[capacity, 3])?];
        counted.fill([&others, &shifts])?;
        counted.settle(&ptr, [&others, &shifts])?;
        drop(counted);
        context.allocator.recycle(wide);
        self.end(context, word, grid, "radius_search", RADIUS)?;
        Ok(vec![ptr, others, shifts])
    }

    /// The number of pairs, or what the device has found wrong.
    fn total(&self, counted: &CountedPairs<'_>, word: &Array) -> Result<usize> {
        let raised = passes::word(self.cuda.stream(), word)?;
        let name = |param: Option<usize>| RADIUS[param.unwrap_or(0).min(RADIUS.len() - 1)].to_string();
        raised.error(name).map_or_else(|| counted.total(), Err)
    }

    /// The k nearest points, as `nearest` gives them.
    ///
    /// # Errors
    /// The array whose dtype, shape or place is another; `k`, where 32 bits do not number the results; the driver's.
    pub(crate) fn nearest(&self, context: &Context<'_>, k: usize, radius: Option<f64>) -> Result<Vec<Array>> {
        let m = self.queries.shape().first().copied().unwrap_or(0);
        if m.checked_mul(k).and_then(|n| n.checked_mul(3)).is_none_or(|n| n >= i32::MAX as usize) {
            return Err(Error::argument("k", "numbers of neighbours that can be addressed", k.to_string()));
        }
        let limit = radius.unwrap_or(f64::INFINITY);
        let (word, grid, asked) = self.begin(context, limit, (0.0, k as f64))?;
        let [ranges, indices, shifts] =
            [room(context, 0, &[2, m])?, room(context, 1, &[m, k])?, room(context, 2, &[m, k, 3])?];
        let fill = radius.map(|_| self.points.batch.sizes()[0].unwrap_or(0) as i32);
        let mut rooms = Rooms::new(context);
        let [distances, counts] = [rooms.scratch(8 * m * k)?, rooms.scratch(4 * m)?].map(|s| s.address);
        let [index, shift] = [&indices, &shifts].map(|array| address(&array.view()));
        let (call, launches) =
            grid.find_nearest(self.cuda, asked, &word, (k, fill), [index, distances, shift, counts])?;
        let (most, ends) = (k as i64, address(&ranges.view()));
        launches.run("strides", m, &arguments![&call, &asked.queries, &most, &counts, &ends])?;
        drop(rooms);
        self.end(context, word, grid, "nearest", NEAREST)?;
        Ok(vec![ranges, indices, shifts])
    }
}
