//! Grids of points, searched around others.
#![expect(unsafe_code, reason = "lists that the device has written are not checked")]

use super::counted::{Asked, CountedPairs, Queries};
use super::passes::{
    BATCH, Call, Cells, DeviceFrame, Launches, Of, PARAMS, WARP, begin, check_capacity, integers, reals,
    same_place,
};
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::backend::status::Word;
use madelung_core::runtime::SlotArray;
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{DeviceBatch, DevicePairs, GridSearch, Integers, PointGrid, Structure};
use madelung_core::{Error, Result};
use madelung_cuda::memory::address;
use madelung_cuda::primitives::Length;
use madelung_cuda::validation::{self, arguments};
use madelung_cuda::{Cuda, Stream};

/// The names in errors of a grid's build and its arguments: as search.cuh numbers them from 1 on.
const BUILD: (&str, [&str; 4]) = ("hash_grid", ["points", "cell", "batch_idx", "cell_size"]);
/// The names in errors of searches; the third argument is a radius or a number of points.
const QUERY: (&str, [&str; 5]) = ("radius_query", ["queries", "batch_idx", "radius", "grid", "capacity"]);
const NEAREST: (&str, [&str; 4]) = ("nearest", ["queries", "batch_idx", "k", "grid"]);
const QUERY_BATCH: usize = 1;

/// Memory for the pairs of queries with the points of a [`DeviceGrid`], reused by every search.
#[derive(Debug)]
pub struct QueryPairs {
    ptr: Array,
    others: Array,
    shifts: Array,
    /// The number of points of the grid that was searched last.
    points: usize,
}

impl QueryPairs {
    /// For up to `capacity` pairs of `queries` queries, from the context's allocator.
    ///
    /// # Errors
    /// `capacity`, where there are more than 32-bit integers count; memory ran out.
    pub fn room(context: &Context<'_>, queries: usize, capacity: usize) -> Result<Self> {
        check_capacity("capacity", capacity)?;
        let memory = context.allocator;
        Ok(Self {
            ptr: memory.zeros(DType::I64, &[queries + 1])?,
            others: memory.room(DType::I32, &[capacity])?,
            shifts: memory.room(DType::I32, &[capacity, 3])?,
            points: 0,
        })
    }

    /// The list of the last search, a directed one, or one that calls refuse. Before there is a search it has no points. Its
    /// pairs are within the systems that the grid and the queries had.
    ///
    /// # Errors
    /// None.
    pub fn list(&self) -> Result<DevicePairs<'_>> {
        // SAFETY: a query of the grid has written them, and its word is looked at by each call with the list.
        unsafe {
            found([&self.ptr, &self.others, &self.shifts].map(|array| array.view().into()), self.points)
        }
    }

    /// The offsets of each query's pairs, int64 (M + 1,): true for any capacity, and all but the first capacity + 1
    /// where there is no list.
    pub fn neighbor_ptr(&self) -> View<'_> {
        self.ptr.view()
    }
}

/// The nearest points of each of M queries, by distance, then index, then S, in arrays of the caller: as
/// [`crate::grid::Nearest`] has them.
#[derive(Debug)]
pub struct NearestArrays {
    /// Points, then the fill value: int32 (M, k).
    pub indices: Array,
    /// |r_j − r_i + S · cell|, then infinity: float64 (M, k). NaN where the search found something wrong.
    pub distances: Array,
    /// Images S, then zeros: int32 (M, k, 3).
    pub shifts: Array,
    /// The number of points of each query: int32 (M,).
    pub counts: Array,
}

impl NearestArrays {
    /// For `k` points of each of `queries` queries, from the context's allocator.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn room(context: &Context<'_>, queries: usize, k: usize) -> Result<Self> {
        let room = |dtype: DType, shape: &[usize]| context.allocator.room(dtype, shape);
        Ok(Self {
            indices: room(DType::I32, &[queries, k])?,
            distances: room(DType::F64, &[queries, k])?,
            shifts: room(DType::I32, &[queries, k, 3])?,
            counts: room(DType::I32, &[queries])?,
        })
    }
}

/// Points in the cells of a grid in the memory of a device: [`crate::HashGrid`] there.
#[derive(Debug)]
pub struct DeviceGrid {
    /// Systems, points and buckets as kernels have them.
    memory: Array,
    /// The status word of the kernels that built the grid.
    built: Array,
    points: usize,
    systems: usize,
    cell_size: f64,
    /// The last (re)build was not left half done by an error.
    whole: bool,
}

/// Directed list that a search of a grid has written.
///
/// # Safety
/// Offsets are sums of counts from 0 on, or pass the capacity; entries are below `points`.
unsafe fn found<'a>([ptr, others, shifts]: [Integers<'a>; 3], points: usize) -> Result<DevicePairs<'a>> {
    let list = DevicePairs::from_csr(ptr, others, shifts, points, Kind::Directed)?;
    // SAFETY: as the caller promises; a directed list promises nothing else.
    Ok(unsafe { list.assume_checked() })
}

/// Grid as the argument of an op, with memory for a number of pairs.
#[derive(Clone, Copy, Debug)]
pub struct GridWithCapacity<'a> {
    grid: &'a DeviceGrid,
    capacity: usize,
}

impl PointGrid for GridWithCapacity<'_> {
    fn place(&self) -> Place {
        self.grid.memory.place()
    }

    fn points(&self) -> usize {
        self.grid.points
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.capacity)
    }

    fn systems(&self) -> usize {
        self.grid.systems
    }

    fn query(&self, context: &Context<'_>, search: &GridSearch<'_>) -> Result<Box<dyn Structure>> {
        query(self.grid, context, search, self.capacity)
    }
}

impl DeviceGrid {
    /// The grid as the argument of an op whose calls have memory for `capacity` pairs.
    pub fn with_capacity(&self, capacity: usize) -> GridWithCapacity<'_> {
        GridWithCapacity { grid: self, capacity }
    }

    /// The number of its points.
    pub fn points(&self) -> usize {
        self.points
    }

    /// The number of their systems.
    pub fn systems(&self) -> usize {
        self.systems
    }

    /// The size of its cells, as it was given.
    pub fn cell_size(&self) -> f64 {
        self.cell_size
    }

    /// A grid over the points of the frame in cells of about `cell_size`, in memory of the context's allocator: like
    /// [`crate::grid::HashGrid::build`]. A good size is the most frequent radius, or the distance to the k-th
    /// neighbour.
    ///
    /// Errors on the device wait in its record ([`madelung_cuda::check`]), and in every search of the grid: points or
    /// cells that are not finite, cells that are flat, points too far away.
    ///
    /// # Errors
    /// `cell_size`, where it is not a positive number; the array of the frame whose dtype, shape or place is another;
    /// `cell`, where it is missing for periodic axes; the driver's; memory ran out.
    pub fn build(
        cuda: &Cuda,
        context: &Context<'_>,
        frame: &DeviceFrame<'_>,
        cell_size: f64,
    ) -> Result<Self> {
        if !(cell_size > 0.0 && cell_size.is_finite()) {
            return Err(Error::argument("cell_size", "a positive number", cell_size.to_string()));
        }
        let mut grid = Self::room(context, frame, cell_size)?;
        grid.rebuild(cuda, context, frame)?;
        Ok(grid)
    }

    fn room(context: &Context<'_>, frame: &DeviceFrame<'_>, cell_size: f64) -> Result<Self> {
        let (points, systems) = (frame.batch.atoms(), frame.batch.systems());
        let bytes: usize = Cells::bytes(points, systems).into_iter().map(aligned).sum();
        Ok(Self {
            memory: context.allocator.room(DType::F64, &[bytes.div_ceil(DType::F64.size())])?,
            built: context.allocator.room(DType::I32, &[Word::LEN])?,
            points,
            systems,
            cell_size,
            whole: false,
        })
    }

    /// The grid of a call's points in cells of `cell_size`, or as large as to hold about `share` points. What is wrong is raised
    /// in the call's word, under the numbers (from 1 on) of its positions and cell.
    pub(super) fn of_call(
        cuda: &Cuda,
        context: &Context<'_>,
        frame: &DeviceFrame<'_>,
        (cell_size, share): (f64, f64),
        (word, params): (&Array, [u32; 2]),
    ) -> Result<Self> {
        frame.check(Place::Cuda(cuda.device().ordinal())).map_err(|error| named(error, "points"))?;
        let mut grid = Self::room(context, frame, cell_size)?;
        grid.place(cuda, context, frame, (word, params), Some(share))?;
        Ok(grid)
    }

    /// Puts the points of a frame, which was checked, into the cells.
    fn place(
        &mut self,
        cuda: &Cuda,
        context: &Context<'_>,
        frame: &DeviceFrame<'_>,
        (word, params): (&Array, [u32; 2]),
        share: Option<f64>,
    ) -> Result<()> {
        let call = frame.call(0.0, self.cell_size, Kind::Directed, address(&word.view())).naming(params);
        let launches = grids(cuda.stream(), frame.positions);
        let buckets = Length::new(call.buckets());
        self.cells().fill(cuda, context, &launches, &call, frame, (buckets, share))?;
        let (built, words) = (address(&self.built.view()), Word::LEN as i32);
        launches.run("seal", 1, &arguments![&call, &built, &words])?;
        self.whole = true;
        Ok(())
    }

    /// The grid of moved points, in the memory of this one, as a graph can repeat it: as many points and systems.
    ///
    /// # Errors
    /// As [`DeviceGrid::build`]; `points`, where their number is another one; `batch_idx`, where it has other systems.
    pub fn rebuild(&mut self, cuda: &Cuda, context: &Context<'_>, frame: &DeviceFrame<'_>) -> Result<()> {
        frame.check(Place::Cuda(cuda.device().ordinal())).map_err(|error| named(error, "points"))?;
        same_place("grid", &self.memory.view(), frame.positions.place())?;
        for (name, of, before, now) in [
            ("points", "points", self.points, frame.batch.atoms()),
            ("batch_idx", "systems", self.systems, frame.batch.systems()),
        ] {
            if before != now {
                return Err(Error::argument(
                    name,
                    format!("{before} {of}, as the grid has"),
                    now.to_string(),
                ));
            }
        }
        self.whole = false;
        let word = begin(cuda.stream(), context, Some(frame.batch), BATCH)?;
        self.place(cuda, context, frame, (&word, PARAMS), None)?;
        end(cuda.stream(), context, word, BUILD.0, &BUILD.1)
    }

    /// Every image of every point within `radius` of each of `queries` (M, 3), float32 or float64: the list of
    /// [`crate::grid::HashGrid::query`], bit for bit. `batch` has the systems of the queries, where there are several.
    ///
    /// Errors on the device wait in its record: queries that are not finite, or too far away, a radius over too many
    /// boxes (500 along the first axis, 1000 along the others), a grid that was not built, and more pairs than there is
    /// room for. Then calls with the list make NaN.
    ///
    /// # Errors
    /// `queries`, `batch_idx` and `into`, where a dtype, shape or place is another; `grid`, where it could not be built
    /// again; `radius`, where it is negative or not finite; the driver's.
    pub fn query(
        &self,
        cuda: &Cuda,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: Option<&DeviceBatch<'_>>,
        radius: f64,
        into: &mut QueryPairs,
    ) -> Result<()> {
        let systems = batch.map(structure);
        let place = self.check(cuda, queries, systems)?;
        check_radius("radius", radius)?;
        integers("into", &into.ptr.view(), DType::I64, &[queries.shape()[0] + 1], place)?;
        into.points = self.points;
        let word = begin(cuda.stream(), context, batch, QUERY_BATCH)?;
        let asked = self.queries(queries, systems, radius, [1, 3, 4, 5])?;
        let mut found = self.count(cuda, context, asked, &word, &into.ptr)?;
        found.fill([&into.others, &into.shifts])?;
        found.finish()?;
        drop(found);
        end(cuda.stream(), context, word, QUERY.0, &QUERY.1)
    }

    /// The `k` nearest points of each of `queries` (M, 3), as [`crate::grid::HashGrid::nearest`] gives them, bit for
    /// bit, where they are within 500 boxes along the first axis and 1000 along the others. Where a system has fewer, the
    /// rest is `fill_value`, and without one that is an error, which waits in the device's record with the others (see
    /// [`DeviceGrid::query`]).
    ///
    /// # Errors
    /// As [`DeviceGrid::query`]; `fill_value`, where it is the index of a point; the array of `into` whose dtype, shape or
    /// place is another.
    pub fn nearest(
        &self,
        cuda: &Cuda,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: Option<&DeviceBatch<'_>>,
        (k, fill_value): (usize, Option<i32>),
        into: &mut NearestArrays,
    ) -> Result<()> {
        let systems = batch.map(structure);
        let place = self.check(cuda, queries, systems)?;
        let is_point = |fill: &i32| usize::try_from(*fill).is_ok_and(|fill| fill < self.points);
        if let Some(fill) = fill_value.filter(is_point) {
            let expected = format!("a number that is not one of the {} indices", self.points);
            return Err(Error::argument("fill_value", expected, fill.to_string()));
        }
        let m = queries.shape()[0];
        if m.checked_mul(k).and_then(|n| n.checked_mul(3)).is_none_or(|n| n > i32::MAX as usize) {
            return Err(Error::argument("k", "numbers of neighbours that can be addressed", k.to_string()));
        }
        let NearestArrays { indices, distances, shifts, counts } = into;
        for (name, array, dtype, shape) in [
            ("indices", &*indices, DType::I32, &[m, k][..]),
            ("distances", distances, DType::F64, &[m, k]),
            ("shifts", shifts, DType::I32, &[m, k, 3]),
            ("counts", counts, DType::I32, &[m]),
        ] {
            integers(name, &array.view(), dtype, shape, place)?;
        }
        let word = begin(cuda.stream(), context, batch, QUERY_BATCH)?;
        let asked = self.queries(queries, systems, f64::INFINITY, [1, 3, 4, 0])?;
        let arrays = [&*indices, &*distances, &*shifts, &*counts].map(|array| address(&array.view()));
        let (call, launches) = self.find_nearest(cuda, asked, &word, (k, fill_value), arrays)?;
        // Infinity is a result here.
        let (distances, count) = (arrays[1], (m * k) as i64);
        launches.run("spoil", m * k, &arguments![&call, &count, &distances])?;
        end(cuda.stream(), context, word, NEAREST.0, &NEAREST.1)
    }

    /// The k nearest points of queries that were checked: addresses of their indices, distances, images and numbers.
    pub(super) fn find_nearest(
        &self,
        cuda: &Cuda,
        asked: Asked,
        word: &Array,
        (k, fill_value): (usize, Option<i32>),
        [index, distance, shift, count]: [u64; 4],
    ) -> Result<(Call, Launches)> {
        let call = self.call(address(&word.view()), 0);
        let Cells { systems, points, sorted, bounds } = self.cells();
        let Asked { queries: asked, positions } = asked;
        let (most, empty, all) = (k as i64, fill_value.unwrap_or(-1), i32::from(fill_value.is_none()));
        let arguments = arguments![
            &call, &asked, &systems, &points, &sorted, &bounds, &most, &empty, &all, &count, &index,
            &distance, &shift
        ];
        let launches = Launches { stream: cuda.stream(), of: Of::Grids, positions };
        launches.run("nearest", asked.queries as usize * WARP, &arguments)?;
        Ok((call, launches))
    }

    /// Gives the memory back.
    pub fn recycle(self, context: &Context<'_>) {
        [self.memory, self.built].into_iter().for_each(|array| context.allocator.recycle(array));
    }

    pub(super) fn check(
        &self,
        cuda: &Cuda,
        queries: &View<'_>,
        batch: Option<&dyn Structure>,
    ) -> Result<Place> {
        let place = Place::Cuda(cuda.device().ordinal());
        same_place("grid", &self.memory.view(), place)?;
        if !self.whole {
            return Err(Error::argument("grid", "one that was built", "one whose last `rebuild` failed"));
        }
        let [rows, systems, _] = batch.map_or([None, Some(1), None], |batch| batch.sizes());
        let m = rows.unwrap_or(queries.shape().first().copied().unwrap_or(0));
        reals("queries", queries, &[&[m, 3]], place)?;
        if i32::try_from(m).is_err() {
            return Err(Error::argument("queries", format!("at most {}", i32::MAX), m.to_string()));
        }
        let systems = systems.unwrap_or(0);
        if systems != self.systems {
            let expected = format!("queries in {} systems, as the points are", self.systems);
            return Err(Error::argument("batch_idx", expected, systems.to_string()));
        }
        if let Some(batch) = batch {
            same_place("batch_idx", &systems_of(batch)?, place)?;
        }
        Ok(place)
    }

    /// Counts the pairs of queries that were checked, and writes their offsets, int64 (M + 1,).
    pub(super) fn count<'c>(
        &self,
        cuda: &Cuda,
        context: &'c Context<'c>,
        asked: Asked,
        word: &Array,
        ptr: &Array,
    ) -> Result<CountedPairs<'c>> {
        CountedPairs::new(cuda, context, (self.call(address(&word.view()), 0), self.cells()), asked, ptr)
    }

    fn call(&self, word: u64, capacity: usize) -> Call {
        Call::of_grid(self.points, self.systems, self.cell_size, capacity, word)
    }

    /// Queries, which were checked, with the numbers of arguments (from 1 on; 0: none): queries, radius or number of points,
    /// grid, capacity.
    pub(super) fn queries(
        &self,
        queries: &View<'_>,
        batch: Option<&dyn Structure>,
        radius: f64,
        params: [u32; 4],
    ) -> Result<Asked> {
        let asked = Queries {
            radius,
            queries: queries.shape()[0] as i64,
            r: address(queries),
            of: batch.map_or(Ok(0), |batch| Ok(address(&systems_of(batch)?)))?,
            built: address(&self.built.view()),
            params,
        };
        Ok(Asked { queries: asked, positions: queries.dtype() })
    }

    fn cells(&self) -> Cells {
        let mut at = address(&self.memory.view());
        Cells::at(Cells::bytes(self.points, self.systems).map(|bytes| {
            let begin = at;
            at += aligned(bytes) as u64;
            begin
        }))
    }
}

/// [`PointGrid::query`] on the device of the context.
fn query(
    grid: &DeviceGrid,
    context: &Context<'_>,
    search: &GridSearch<'_>,
    capacity: usize,
) -> Result<Box<dyn Structure>> {
    let (Some(cuda), Some(word)) = (context.backend.as_any().downcast_ref::<Cuda>(), search.word) else {
        let got = format!("the backend {}", context.backend.name());
        return Err(Error::argument("context", "the device of the grid", got));
    };
    let GridSearch { queries, batch, radius, points: (points, of), params, .. } = *search;
    let place = grid.check(cuda, queries, batch)?;
    check_radius("radius", radius)?;
    check_capacity("capacity", capacity)?;
    reals("points", points, &[&[grid.points, 3]], place)?;
    let param = params.map(|arg| arg as u32 + 1);
    let (call, cells) = (grid.call(address(&word.view()), 0), grid.cells());
    let (r, of) = (address(points), of.map_or(Ok(0), |batch| Ok(address(&systems_of(batch)?)))?);
    let built = address(&grid.built.view());
    let arguments = arguments![&call, &built, &cells.points, &r, &of, &param[2]];
    grids(cuda.stream(), points).run("same", grid.points, &arguments)?;
    let asked = grid.queries(queries, batch, radius, [param[0], param[1], param[2], param[2]])?;
    listed(grid, cuda, context, (asked, word), |_| Ok(capacity))
}

/// The list of a search that was checked, with room for as many pairs as are said once they are counted.
pub(super) fn listed(
    grid: &DeviceGrid,
    cuda: &Cuda,
    context: &Context<'_>,
    (asked, word): (Asked, &Array),
    capacity: impl FnOnce(&CountedPairs<'_>) -> Result<usize>,
) -> Result<Box<dyn Structure>> {
    let (memory, m) = (context.allocator, asked.queries.queries as usize);
    let ptr = memory.zeros(DType::I64, &[m + 1])?;
    let mut counted = grid.count(cuda, context, asked, word, &ptr)?;
    let capacity = capacity(&counted)?;
    let [others, shifts] = [memory.room(DType::I32, &[capacity])?, memory.room(DType::I32, &[capacity, 3])?];
    counted.fill([&others, &shifts])?;
    counted.finish()?;
    // SAFETY: the search has written them, or raised the call's word.
    Ok(Box::new(unsafe { found([ptr, others, shifts].map(Integers::from), grid.points)? }))
}

pub(super) fn check_radius(name: &str, radius: f64) -> Result<()> {
    if !(radius >= 0.0 && radius.is_finite()) {
        return Err(Error::argument(name, "a finite number ≥ 0", radius.to_string()));
    }
    Ok(())
}

/// A multiple of the points' alignment.
fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(16)
}

fn grids(stream: Stream, positions: &View<'_>) -> Launches {
    Launches { stream, of: Of::Grids, positions: positions.dtype() }
}

/// The system of each row of a batch.
fn systems_of<'b>(batch: &'b dyn Structure) -> Result<View<'b>> {
    let systems = batch.array(SlotArray::SystemOf)?;
    systems.ok_or_else(|| Error::argument("batch_idx", "a batch", batch.describe()))
}

/// A batch as a structured argument.
fn structure<'b>(batch: &'b DeviceBatch<'_>) -> &'b dyn Structure {
    batch
}

fn end(stream: Stream, context: &Context<'_>, word: Array, name: &str, arguments: &[&str]) -> Result<()> {
    let names = || arguments.iter().map(|name| name.to_string()).collect();
    validation::end(stream, context, word, &mut [], name, &names)
}

/// Positions are points here.
pub(super) fn named(error: Error, name: &str) -> Error {
    match error {
        Error::Argument { argument, expected, got } if argument == "positions" => {
            Error::argument(name, expected, got)
        }
        error => error,
    }
}
