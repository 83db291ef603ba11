//! Points sorted in space: once, to be searched often, around any other points.
//!
//! Points of each system are sorted along a curve through space and taken in blocks of sixteen; the boxes around blocks,
//! around sixteen boxes, and so on up to the whole system are a tree. So memory and time follow the points and not the space
//! that they lie in: no size of cells is to be chosen, and crowds, gaps and points far away cost nothing. All decisions are
//! made in f64 for the coordinates given, with the formula of the conventions, r_ij = r_j − r_i + S · cell; results do not
//! depend on the number of threads.

use crate::atoms::{Atoms, wrong};
use crate::lattice::{Lattice, Precision, lattices};
use crate::near::{Cloud, Finder, Hit, MOST_IMAGES, Nearby, Vicinity, coordinates, in_order_of, order};
use madelung_core::array::{Buffer, Place, View, collected, filled};
use madelung_core::backend::Context;
use madelung_core::backend::pool::{map_tasks, split_tasks};
use madelung_core::runtime::Reason;
use madelung_core::runtime::lanes::packed::{fits, pack, unpack};
use madelung_core::stop::caught;
use madelung_core::structure::pairs::{
    FoundPairs, Kind, PairList, PairSearch, PairSearcher, ROWS_AT_ONCE, SearchedPairs, Shifts,
};
use madelung_core::structure::{Batch, GridSearch, PointGrid, Structure};
use madelung_core::{Error, Result};
use madelung_cpu::Cpu;
use std::ops::Range;
use std::sync::Arc;

/// Searches of sixteen rows that a task does, and queries of a task that looks for the nearest points.
const TASK: [usize; 2] = [16, 1024];

/// Nearest points of a query, at most.
const MOST_NEAREST: usize = 1 << 24;

/// Points of one or several systems, sorted in space.
#[derive(Debug)]
pub struct HashGrid {
    lattices: Arc<[Lattice]>,
    batch: Batch<'static>,
    /// The point of each place.
    order: Vec<i32>,
    points: Arc<Cloud>,
    /// The last (re)build was not left half done by an error.
    whole: bool,
}

/// A search with a capacity: the true counts, and the list where it fits.
#[derive(Debug)]
pub struct Capped {
    /// The offsets of each query's pairs, shape (M + 1,): true for any capacity.
    pub neighbor_ptr: Vec<i64>,
    /// The list, or an error with the capacity that is needed.
    pub list: Result<PairList<'static>>,
}

/// The nearest points of each query, by distance, then index, then S.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// Points, then the fill value, shape (M, k).
    pub indices: Vec<i32>,
    /// |r_j − r_i + S · cell|, then infinity, shape (M, k).
    pub distances: Vec<f64>,
    /// Images S, then zeros, shape (M, k, 3).
    pub shifts: Vec<[i32; 3]>,
    /// The number of points of each query, shape (M,).
    pub counts: Vec<i32>,
}

impl HashGrid {
    /// Sorts `points` (N, 3), real numbers of any precision. `cell` (rows are lattice vectors) and `pbc` hold one entry for all systems of
    /// `batch` or one for each; without `pbc` all axes of a cell are periodic, without `cell` none are.
    ///
    /// # Errors
    /// `points`, where they are not finite, or farther than 2²⁹ boxes from the origin, or not as many as the batch says;
    /// `cell` and `pbc`, as [`neighbor_list`](crate::neighbor_list).
    pub fn build(
        context: &Context<'_>,
        points: &View<'_>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: Batch<'static>,
    ) -> Result<Self> {
        let lattices = lattices(cell, pbc, batch.systems(), Precision::Double)?;
        let lattices = of_each(lattices, batch.systems());
        let nothing = Batch::from_ptr(vec![0; batch.systems() + 1])?;
        let points_of_none = Cloud::new(context, ("points", Buffer::default()), nothing, &lattices)?;
        let mut grid =
            Self { lattices, batch, order: vec![], points: Arc::new(points_of_none), whole: false };
        grid.rebuild(context, points)?;
        Ok(grid)
    }

    /// [`HashGrid::build`] of points whose order in space is known: the place of each row in its system, N of them, or none
    /// where it is to be found. Another order changes the time of searches, and never what they find.
    ///
    /// # Errors
    /// As there; `order`, where it is no permutation of each system's rows.
    pub(crate) fn build_in_order(
        context: &Context<'_>,
        points: &View<'_>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: Batch<'static>,
        order: &View<'_>,
    ) -> Result<Self> {
        if order.is_empty() {
            return Self::build(context, points, cell, pbc, batch);
        }
        let lattices = lattices(cell, pbc, batch.systems(), Precision::Double)?;
        let lattices = of_each(lattices, batch.systems());
        let order = batch.rows_in_order("order", &order.to_i32("order")?)?;
        let given = coordinates(context, "points", points, batch.atoms())?;
        let sorted = in_order_of(context, &given, &order);
        let points = Arc::new(Cloud::new(context, ("points", sorted), batch.clone(), &lattices)?);
        Ok(Self { lattices, batch, order, points, whole: true })
    }

    /// The grid of moved points: as many points, of these systems in these cells.
    ///
    /// # Errors
    /// `points`, as [`HashGrid::build`]; then the grid is to be rebuilt before it is searched.
    pub fn rebuild(&mut self, context: &Context<'_>, points: &View<'_>) -> Result<()> {
        self.whole = false;
        (self.order, self.points) = sorted(context, ("points", points), &self.batch, &self.lattices)?;
        self.whole = true;
        Ok(())
    }

    /// Whether it was built from these points (N, 3): equal numbers, exactly.
    pub fn is_of(&self, points: &View<'_>) -> bool {
        let is_of = |flat: &[f64]| {
            let rows: &[[f64; 3]] = flat.as_chunks().0;
            self.order.iter().zip(&*self.points.given).all(|(row, r)| rows[*row as usize] == *r)
        };
        self.whole && points.shape() == [self.len(), 3] && points.to_f64().is_ok_and(|flat| is_of(&flat))
    }

    /// The batch of its points.
    pub fn batch(&self) -> &Batch<'static> {
        &self.batch
    }

    /// The point of each place in the order of space, (N,), counted within its system.
    pub fn order(&self) -> Vec<i32> {
        let ptr = self.batch.ptr();
        let place = |(place, row): (usize, &i32)| row - ptr[self.batch.of(place)];
        collected(self.order.iter().enumerate().map(place))
    }

    /// The number of its points.
    pub fn len(&self) -> usize {
        self.batch.atoms()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every image of every point within `radius` of each of `queries` (M, 3): |r_j − r_i + S · cell| ≤ radius, rows
    /// sorted by i, then j, then S. Queries, whose systems `batch` says, see the points of their own system, those at
    /// distance zero too.
    ///
    /// # Errors
    /// `queries`, as the points of [`HashGrid::build`]; `batch_idx`, where it has other systems than the points;
    /// `radius`, where it is negative or not finite, or reaches over more images than can be addressed.
    pub fn query(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        radius: f64,
    ) -> Result<PairList<'static>> {
        self.query_capped(context, queries, batch, radius, usize::MAX)?.list
    }

    /// [`HashGrid::query`] with room for `capacity` pairs.
    ///
    /// # Errors
    /// As there; a capacity that is too small is the error of the list alone.
    pub fn query_capped(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        radius: f64,
        capacity: usize,
    ) -> Result<Capped> {
        caught(
            || "radius".into(),
            || {
                let (order, vicinity) = self.vicinity(context, queries, batch, radius)?;
                let rows = Rows::find(context, &vicinity);
                rows.list(context, &vicinity, Some([&order, &self.order]), capacity)
            },
        )
    }

    fn vicinity(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        radius: f64,
    ) -> Result<(Vec<i32>, Vicinity)> {
        check_radius(radius, &self.batch, &self.lattices)?;
        let lattices = in_precision_of(queries, &self.lattices);
        let (order, queries) = self.placed(context, queries, batch)?;
        let points = Arc::clone(&self.points);
        Ok((order, Vicinity { queries, points, lattices, radius, cpu: cpu(context) }))
    }

    fn placed(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
    ) -> Result<(Vec<i32>, Arc<Cloud>)> {
        if batch.systems() != self.batch.systems() {
            let expected = format!("queries in {} systems, as the points are", self.batch.systems());
            return Err(Error::argument("batch_idx", expected, batch.systems().to_string()));
        }
        sorted(context, ("queries", queries), batch, &self.lattices)
    }

    /// The `k` nearest points of each of `queries` (M, 3), images counted as points of their own, by distance, then
    /// index, then S. Where there are fewer within `radius` (which may be infinity), the rest is `fill_value`, and without one
    /// that is an error.
    ///
    /// # Errors
    /// `queries` and `batch_idx`, as [`HashGrid::query`]; `k`, where there are fewer points and no fill value; `radius`, where
    /// it is negative or NaN; `fill_value`, where it is the index of a point.
    pub fn nearest(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        k: usize,
        radius: f64,
        fill_value: Option<i32>,
    ) -> Result<Nearest> {
        let m = batch.atoms();
        if radius.is_nan() || radius < 0.0 {
            return Err(Error::argument("radius", "a number ≥ 0", radius.to_string()));
        }
        if let Some(fill) =
            fill_value.filter(|fill| usize::try_from(*fill).is_ok_and(|fill| fill < self.len()))
        {
            let expected = format!("a number that is not one of the {} indices", self.len());
            return Err(Error::argument("fill_value", expected, fill.to_string()));
        }
        let addressed =
            |n: &usize| k <= MOST_NEAREST && n.checked_mul(3).is_some_and(|n| n <= i32::MAX as usize);
        let Some(total) = m.checked_mul(k).filter(addressed) else {
            return Err(Error::argument("k", "numbers of neighbours that can be addressed", k.to_string()));
        };
        caught(
            || "k".into(),
            || {
                let lattices = &*in_precision_of(queries, &self.lattices);
                let (order, queries) = self.placed(context, queries, batch)?;
                let numbers = &*self.order;
                let search = Nearby {
                    queries: &queries,
                    points: &self.points,
                    numbers,
                    lattices,
                    k,
                    limit: radius,
                    cpu: cpu(context),
                };
                let (mut hits, mut found) = (filled(total, Hit::default()), filled(m, 0));
                let per_task = TASK[1];
                let pool = &context.threads();
                if k > 0 {
                    let ends: Vec<usize> = (1..=m.div_ceil(per_task)).map(|t| m.min(t * per_task)).collect();
                    let mut parts: Vec<(&mut [Hit], &mut [i32])> =
                        hits.chunks_mut(per_task * k).zip(found.chunks_mut(per_task)).collect();
                    let each: Vec<usize> = (1..=parts.len()).collect();
                    split_tasks(pool, &mut parts, &each, |t, part| {
                        for (hits, counts) in part {
                            search.find(t * per_task..ends[t], hits, counts);
                        }
                    });
                }
                let fill = fill_value.unwrap_or(-1);
                let (mut indices, mut distances) = (filled(total, fill), filled(total, f64::INFINITY));
                let (mut shifts, mut counts) = (filled(total, [0; 3]), filled(m, 0));
                for (place, row) in order.iter().enumerate() {
                    let (row, count) = (*row as usize, found[place] as usize);
                    counts[row] = found[place];
                    for (n, hit) in hits[place * k..place * k + count].iter().enumerate() {
                        indices[row * k + n] = hit.point;
                        distances[row * k + n] = hit.distance;
                        shifts[row * k + n] = hit.shift;
                    }
                }
                if let Some(i) = counts.iter().position(|count| (*count as usize) < k && fill_value.is_none())
                {
                    let expected =
                        format!("at most {}, the points that query {i} has (or a fill value)", counts[i]);
                    return Err(Error::argument("k", expected, k.to_string()));
                }
                Ok(Nearest { indices, distances, shifts, counts })
            },
        )
    }
}

impl PointGrid for HashGrid {
    fn place(&self) -> Place {
        Place::Host
    }

    fn points(&self) -> usize {
        self.len()
    }

    fn systems(&self) -> usize {
        self.batch.systems()
    }

    fn query(&self, context: &Context<'_>, search: &GridSearch<'_>) -> Result<Box<dyn Structure>> {
        let (points, of_points) = search.points;
        let of_points = of_points.and_then(Structure::as_batch);
        if !self.is_of(points) || of_points.is_some_and(|of| of.ptr() != self.batch.ptr()) {
            let (expected, got) = Reason::Stale.text();
            return Err(Error::argument("grid", expected, got));
        }
        let single;
        let batch = match search.batch.and_then(Structure::as_batch) {
            Some(batch) => batch,
            None => {
                single = Batch::single(search.queries.shape().first().copied().unwrap_or(0))?;
                &single
            }
        };
        Ok(Box::new(self.query(context, search.queries, batch, search.radius)?))
    }
}

/// Points that a call has sorted, to be searched while its kernels run.
#[derive(Debug)]
struct SortedGrid {
    lattices: Arc<[Lattice]>,
    points: Arc<Cloud>,
}

/// Grid of points (N, 3) that lie in an order in space.
///
/// # Errors
/// `points`, `cell` and `pbc`, as [`HashGrid::build`].
pub(crate) fn sorted_grid(context: &Context<'_>, atoms: &Atoms<'_>) -> Result<Box<dyn PointGrid>> {
    let batch = atoms.batch.as_batch().ok_or_else(wrong)?;
    let (cells, pbc) = atoms.lattices()?;
    let lattices = lattices(cells.as_deref(), Some(&pbc), batch.systems(), Precision::Double)?;
    let lattices = of_each(lattices, batch.systems());
    let given = coordinates(context, "points", atoms.positions, batch.atoms())?;
    let points = Cloud::new(context, ("points", given), batch.clone().into_owned(), &lattices)?;
    Ok(Box::new(SortedGrid { lattices, points: Arc::new(points) }))
}

impl PointGrid for SortedGrid {
    fn place(&self) -> Place {
        Place::Host
    }

    fn points(&self) -> usize {
        self.points.batch.atoms()
    }

    fn systems(&self) -> usize {
        self.points.batch.systems()
    }

    fn query(&self, context: &Context<'_>, search: &GridSearch<'_>) -> Result<Box<dyn Structure>> {
        let Some(batch) = search.batch.and_then(Structure::as_batch) else {
            return Err(Error::argument("batch_idx", "the systems of the queries", "none"));
        };
        check_radius(search.radius, &self.points.batch, &self.lattices)?;
        let (points, lattices) = (Arc::clone(&self.points), in_precision_of(search.queries, &self.lattices));
        let given = coordinates(context, "queries", search.queries, batch.atoms())?;
        let queries = Cloud::new(context, ("queries", given), batch.clone().into_owned(), &lattices)?;
        let queries = Arc::new(queries);
        let vicinity = Vicinity { queries, points, lattices, radius: search.radius, cpu: cpu(context) };
        let most = vicinity.farthest_image();
        if !fits(most) {
            let expected = "queries and points within 500 boxes of each other along the first axis and 1000 along the others";
            return Err(Error::argument("points", expected, format!("up to {most:?}")));
        }
        Ok(Box::new(SearchedPairs::new(vicinity)))
    }
}

impl PairSearch for Vicinity {
    fn sizes(&self) -> [usize; 2] {
        [self.queries.batch.atoms(), self.points.batch.atoms()]
    }

    fn begin(&self) -> Box<dyn PairSearcher + '_> {
        Box::new(Finder::new(self))
    }

    fn list(&self) -> Result<PairList<'static>> {
        let context = madelung_cpu::context();
        Rows::find(&context, self).list(&context, self, None, usize::MAX)?.list
    }
}

impl PairSearcher for Finder<'_> {
    fn rows(&mut self, rows: Range<usize>, found: &mut FoundPairs) {
        self.find(false, rows.clone(), found);
        self.vicinity.put_shifts(false, rows, found);
    }

    fn columns(&mut self, columns: Range<usize>, found: &mut FoundPairs) {
        self.find(true, columns.clone(), found);
        self.vicinity.put_shifts(true, columns, found);
    }
}

impl Vicinity {
    /// The images S of pairs, from those of wrapped partners seen from their rows.
    fn put_shifts(&self, by_points: bool, rows: Range<usize>, found: &mut FoundPairs) {
        let (own, other) =
            if by_points { (&self.points, &self.queries) } else { (&self.queries, &self.points) };
        if by_points {
            found.images.iter_mut().for_each(|image| *image = -*image);
        }
        if own.wraps.is_empty() && other.wraps.is_empty() {
            return;
        }
        let mut first = 0;
        for (i, end) in rows.zip(&found.ends) {
            let pairs = first..*end as usize;
            first = pairs.end;
            let own = own.wrap(i);
            for (image, j) in found.images[pairs.clone()].iter_mut().zip(&found.others[pairs]) {
                let other = other.wrap(*j as usize);
                let way = pack(std::array::from_fn(|k| own[k] - other[k]));
                *image += if by_points { -way } else { way };
            }
        }
    }

    /// No |S| is larger, along each axis.
    fn farthest_image(&self) -> [i32; 3] {
        let most = |wraps: &[[i32; 3]], k: usize| wraps.iter().fold(0, |most: i32, w| most.max(w[k].abs()));
        std::array::from_fn(|k| {
            let along = |lattice: &Lattice| {
                if lattice.periodic[k] { (self.radius / lattice.heights[k]).min(1e9) as i32 + 2 } else { 0 }
            };
            let images = self.lattices.iter().map(along).max().unwrap_or(0);
            images.saturating_add(most(&self.queries.wraps, k)).saturating_add(most(&self.points.wraps, k))
        })
    }
}

/// Pairs of all rows, as tasks have found them.
struct Rows {
    /// Rows of each task, of which it has searched [`ROWS_AT_ONCE`] at a time.
    tasks: Vec<(Range<usize>, FoundPairs)>,
}

impl Rows {
    fn find(context: &Context<'_>, vicinity: &Vicinity) -> Self {
        let batch = &vicinity.queries.batch;
        let mut ranges = vec![];
        for b in 0..batch.systems() {
            let members = batch.members(b);
            let step = TASK[0] * ROWS_AT_ONCE;
            ranges.extend(members.clone().step_by(step).map(|first| first..members.end.min(first + step)));
        }
        let tasks = map_tasks(&context.threads(), ranges.len(), |t| {
            let (mut finder, mut all, mut part) =
                (Finder::new(vicinity), FoundPairs::default(), FoundPairs::default());
            let rows = ranges[t].clone();
            for first in rows.clone().step_by(ROWS_AT_ONCE) {
                finder.find(false, first..rows.end.min(first + ROWS_AT_ONCE), &mut part);
                let before = all.others.len() as i64;
                all.ends.extend(part.ends.iter().map(|end| before + end));
                all.others.extend_from_slice(&part.others);
                all.images.extend_from_slice(&part.images);
            }
            (rows, all)
        });
        Self { tasks }
    }

    /// The list, of rows and points with other numbers if there are `orders`, which say the number of each place; each row
    /// by point, then S.
    fn list(
        &self,
        context: &Context<'_>,
        vicinity: &Vicinity,
        orders: Option<[&[i32]; 2]>,
        capacity: usize,
    ) -> Result<Capped> {
        let [m, n] = vicinity.sizes();
        let row_of = |place: usize| orders.map_or(place, |[rows, _]| rows[place] as usize);
        let (mut ptr, mut place_of) = (filled(m + 1, 0i64), filled(m, [0u32; 2]));
        for (t, (rows, found)) in self.tasks.iter().enumerate() {
            let mut before = 0;
            for (place, end) in rows.clone().zip(&found.ends) {
                ptr[row_of(place) + 1] = end - before;
                place_of[row_of(place)] = [t as u32, (place - rows.start) as u32];
                before = *end;
            }
        }
        for i in 0..m {
            ptr[i + 1] += ptr[i];
        }
        let total = ptr[m] as usize;
        if total > capacity {
            let expected = format!("at least {total}, the number of pairs");
            let error = Error::argument("capacity", expected, capacity.to_string());
            return Ok(Capped { neighbor_ptr: ptr, list: Err(error) });
        }
        if total > u32::MAX as usize {
            let expected = format!("a radius within which there are at most {} pairs", u32::MAX);
            return Err(Error::argument("radius", expected, format!("{total} pairs")));
        }
        let mut entries: Vec<(i32, [i32; 3])> = filled(total, (0, [0; 3]));
        let step = TASK[0] * ROWS_AT_ONCE;
        let borders: Vec<usize> = (1..=m.div_ceil(step)).map(|t| ptr[m.min(t * step)] as usize).collect();
        split_tasks(&context.threads(), &mut entries, &borders, |t, mut part| {
            for row in t * step..m.min((t + 1) * step) {
                let (mine, rest) = part.split_at_mut((ptr[row + 1] - ptr[row]) as usize);
                part = rest;
                let [task, at] = place_of[row].map(|n| n as usize);
                let (rows, found) = &self.tasks[task];
                let first = if at == 0 { 0 } else { found.ends[at - 1] as usize };
                let pairs = first..first + mine.len();
                for ((entry, j), image) in
                    mine.iter_mut().zip(&found.others[pairs.clone()]).zip(&found.images[pairs])
                {
                    let shift = vicinity.shift(rows.start + at, *j as usize, unpack(*image));
                    *entry = (orders.map_or(*j, |[_, points]| points[*j as usize]), shift);
                }
                mine.sort_unstable();
            }
        });
        let others: Buffer<i32> = collected(entries.iter().map(|(j, _)| *j)).into();
        let shifts: Buffer<[i32; 3]> = collected(entries.iter().map(|(_, s)| *s)).into();
        let list =
            PairList::from_search(ptr.clone(), others, Shifts::Triples(shifts.into()), n, Kind::Directed)?;
        Ok(Capped { neighbor_ptr: ptr, list: Ok(list) })
    }
}

/// A lattice for each system.
pub(crate) fn of_each(found: Vec<Lattice>, systems: usize) -> Arc<[Lattice]> {
    let one = |b: usize| if found.len() == 1 { found[0].clone() } else { found[b].clone() };
    (0..systems).map(one).collect()
}

/// Lattices for distances from queries, in their precision.
fn in_precision_of(queries: &View<'_>, lattices: &Arc<[Lattice]>) -> Arc<[Lattice]> {
    match Precision::of(queries.dtype()) {
        Precision::Double => Arc::clone(lattices),
        precision => lattices.iter().map(|lattice| Lattice { precision, ..lattice.clone() }).collect(),
    }
}

fn cpu(context: &Context<'_>) -> Cpu {
    context.backend.as_any().downcast_ref().copied().unwrap_or_default()
}

/// Points of an argument in an order in space, and that order.
fn sorted(
    context: &Context<'_>,
    (name, view): (&str, &View<'_>),
    batch: &Batch<'_>,
    lattices: &[Lattice],
) -> Result<(Vec<i32>, Arc<Cloud>)> {
    let given = coordinates(context, name, view, batch.atoms())?;
    let order = order(context, (name, &given), batch, lattices)?;
    let sorted = in_order_of(context, &given, &order);
    let cloud = Cloud::new(context, (name, sorted), batch.clone().into_owned(), lattices)?;
    Ok((order, Arc::new(cloud)))
}

fn check_radius(radius: f64, points: &Batch<'_>, lattices: &[Lattice]) -> Result<()> {
    if !(radius >= 0.0 && radius.is_finite()) {
        return Err(Error::argument("radius", "a finite number ≥ 0", radius.to_string()));
    }
    for (b, lattice) in lattices.iter().enumerate() {
        let along = (0..3).filter(|k| lattice.periodic[*k]);
        let images = along.map(|k| 2.0 * radius / lattice.heights[k] + 1.0);
        let boxes = |k: usize| (radius / lattice.heights[k]).min(1e9) as i32 + 2;
        let reach = std::array::from_fn(|k| if lattice.periodic[k] { boxes(k) } else { 0 });
        if points.members(b).len() as f64 * images.product::<f64>() > MOST_IMAGES || !fits(reach) {
            let expected = "a radius within reach of fewer than 2^32 images of the points, and 500 boxes";
            return Err(Error::argument("radius", expected, format!("{radius} for system {b}")));
        }
    }
    Ok(())
}
