//! Searches among points of more than three coordinates, as ops of integers that frameworks call by name.

use crate::atoms::wrong;
use crate::coo::room;
use crate::near::{Halves, Near};
use crate::registry;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::pool::map_tasks;
use madelung_core::backend::{Context, Heap};
use madelung_core::op::{Arg, Op, Request};
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{Batch, PairList};
use madelung_core::{Error, Result};
use std::sync::Arc;

/// Queries of a task.
const ROWS: usize = 64;

/// `points_within`: every point within a radius, as `radius_search` gives them, of points (N, D) of any number of
/// coordinates, on the host.
pub(crate) fn declare_within() -> Result<Arc<Op>> {
    Op::new("madelung", "points_within", 1)
        .real("queries", &["Query", "Axis"])
        .real("points", &["Point", "Axis"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .scalar("radius")
        .int_scalar("capacity")
        .integer_output("ptr", &["Query+1"], DType::I32)
        .integer_output("indices", &["capacity"], DType::I32)
        .integer_output("shifts", &["capacity", "3"], DType::I32)
        .search(|context, args| {
            let (asked, [Arg::Real(radius), Arg::Int(capacity)]) = Asked::new(args)? else {
                return Err(wrong());
            };
            asked.within(context, *radius, usize::try_from(*capacity).ok())
        })
        .build()
}

/// `nearest_points`: the nearest points, as `nearest` gives them, of points (N, D) of any number of coordinates, on the host.
pub(crate) fn declare_nearest() -> Result<Arc<Op>> {
    Op::new("madelung", "nearest_points", 1)
        .real("queries", &["Query", "Axis"])
        .real("points", &["Point", "Axis"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .scalar("radius")
        .int_scalar("k")
        .integer_output("ranges", &["2", "Query"], DType::I32)
        .integer_output("indices", &["Query", "k"], DType::I32)
        .integer_output("shifts", &["Query", "k", "3"], DType::I32)
        .search(|context, args| {
            let (asked, [Arg::Real(radius), Arg::Int(k)]) = Asked::new(args)? else { return Err(wrong()) };
            asked.nearest(context, *radius, *k)
        })
        .build()
}

/// Queries among points, on the host.
///
/// Distances are those of the op `point_distances`, which callers have: only with them a point counts at a radius that is its
/// own distance. The tree finds what may be within, by a distance of its own.
struct Asked<'a> {
    queries: Vec<f64>,
    of_queries: &'a Batch<'a>,
    points: &'a Batch<'a>,
    trees: Halves,
    axes: usize,
    dtype: DType,
    /// The arguments of `point_distances` but for the list.
    given: &'a [Arg<'a>],
}

impl<'a> Asked<'a> {
    /// The queries, and what else there is.
    fn new(args: &'a [Arg<'a>]) -> Result<(Self, &'a [Arg<'a>])> {
        let [
            Arg::Array(queries),
            Arg::Array(points),
            Arg::Structure(of_queries),
            Arg::Structure(of),
            rest @ ..,
        ] = args
        else {
            return Err(wrong());
        };
        let (Some(of_queries), Some(of)) = (of_queries.as_batch(), of.as_batch()) else {
            let text = "points of more than three coordinates are searched on the CPU";
            return Err(Error::Unsupported(text.into()));
        };
        let axes = points.shape().get(1).copied().unwrap_or(0);
        let trees = Halves::new(&finite("points", points, of, axes)?, axes, of);
        if of.systems() != of_queries.systems() {
            let expected = format!("queries in {} systems, as the points are", of.systems());
            return Err(Error::argument("query_batch_idx", expected, of_queries.systems().to_string()));
        }
        let given = &args[..4];
        let dtype = points.dtype();
        let queries = finite("queries", queries, of_queries, axes)?;
        Ok((Self { queries, of_queries, points: of, trees, axes, dtype, given }, rest))
    }

    /// A radius within which is every point whose distance, as it is rounded, is at most another one: sums of as many squares
    /// as there are axes are rounded, and may be too small to be normal numbers.
    fn beyond(&self, radius: f64) -> f64 {
        let (epsilon, least) = match self.dtype {
            DType::F64 => (f64::EPSILON, f64::MIN_POSITIVE),
            _ => (f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE)),
        };
        let axes = self.axes as f64 + 4.0;
        radius * (1.0 + axes * epsilon) + (axes * least).sqrt()
    }

    /// The distances of some points of each query, as callers have them.
    fn measured(&self, context: &Context<'_>, rows: &[Vec<i32>]) -> Result<Vec<f64>> {
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len() as i64;
            Some(*end)
        });
        let ptr: Vec<i64> = std::iter::once(0).chain(ends).collect();
        let others = rows.concat();
        let shifts = vec![[0; 3]; others.len()];
        let list = PairList::from_csr(ptr, others, shifts, self.points.atoms(), Kind::Directed)?;
        let op = registry().get("point_distances").ok_or_else(wrong)?;
        // Results of the search have the caller's memory, these do not.
        let context = Context { allocator: &Heap, ..*context };
        let args: Vec<Arg<'_>> = self.given.iter().cloned().chain([Arg::Structure(&list)]).collect();
        let found = op.evaluate(&context, &args, &Request { values: true, ..Request::default() });
        let found = found.map_err(|error| match error {
            Error::Argument { .. } => {
                let expected = format!("points at distances that {} holds", self.dtype);
                Error::argument("points", expected, "some beyond its range")
            }
            other => other,
        })?;
        found.values[0].to_f64()
    }

    /// The points of each query, which `find(system, query, found)` puts into `found`.
    fn rows(
        &self,
        context: &Context<'_>,
        find: impl Fn(usize, &[f64], &mut Vec<Near>) + Sync,
    ) -> Vec<Vec<Near>> {
        let (m, axes) = (self.of_queries.atoms(), self.axes);
        let tasks = map_tasks(&context.threads(), m.div_ceil(ROWS), |t| {
            let mut found = vec![];
            let row = |i: usize| {
                find(self.of_queries.of(i), &self.queries[i * axes..][..axes], &mut found);
                found.clone()
            };
            (t * ROWS..m.min((t + 1) * ROWS)).map(row).collect::<Vec<Vec<Near>>>()
        });
        tasks.into_iter().flatten().collect()
    }

    fn within(&self, context: &Context<'_>, radius: f64, capacity: Option<usize>) -> Result<Vec<Array>> {
        let reach = self.beyond(radius);
        let rows = self.rows(context, |system, query, found| self.trees.within(system, query, reach, found));
        // Far from the radius no rounding moves a point across.
        let is_doubtful = |near: &Near| self.beyond(near.0.sqrt()) > radius;
        let doubtful =
            |row: &Vec<Near>| row.iter().filter(|near| is_doubtful(near)).map(|near| near.1).collect();
        let mut distances =
            self.measured(context, &rows.iter().map(doubtful).collect::<Vec<_>>())?.into_iter();
        let mut is_within = |near: &Near| !is_doubtful(near) || distances.next().is_some_and(|d| d <= radius);
        let kept = |row: Vec<Near>| row.into_iter().filter(&mut is_within).map(|near| near.1).collect();
        let rows: Vec<Vec<i32>> = rows.into_iter().map(kept).collect();
        let total: usize = rows.iter().map(Vec::len).sum();
        if i32::try_from(total).is_err() {
            let expected = format!("a radius within which there are at most {} pairs", i32::MAX);
            return Err(Error::argument("radius", expected, format!("{total} pairs")));
        }
        let capacity = capacity.unwrap_or(total);
        let mut results = [
            room(context, 0, &[rows.len() + 1])?,
            room(context, 1, &[capacity])?,
            room(context, 2, &[capacity, 3])?,
        ];
        if let [Array::I32(ptr), Array::I32(indices), Array::I32(shifts)] = &mut results {
            ptr[0] = 0;
            indices.fill(self.points.atoms() as i32);
            shifts.fill(0);
            let mut end = 0;
            for (i, row) in rows.iter().enumerate() {
                if total <= capacity {
                    indices[end..end + row.len()].copy_from_slice(row);
                }
                end += row.len();
                ptr[i + 1] = end as i32;
            }
        }
        Ok(results.into())
    }

    fn nearest(&self, context: &Context<'_>, radius: f64, k: i64) -> Result<Vec<Array>> {
        let m = self.of_queries.atoms();
        let addressed = |k: &usize| k.checked_mul(3 * m.max(1)).is_some_and(|n| i32::try_from(n).is_ok());
        let Some(k) = usize::try_from(k).ok().filter(|k| *k > 0).filter(addressed) else {
            let expected = "a number from 1 up of neighbours that can be addressed";
            return Err(Error::argument("k", expected, k.to_string()));
        };
        let is_padded = radius > 0.0;
        let limit = if is_padded { radius } else { f64::INFINITY };
        let reach = |distance: f64| self.beyond(distance);
        let rows = self.rows(context, |system, query, found| {
            self.trees.nearest(system, query, k, limit, &reach, found);
        });
        let rows: Vec<Vec<i32>> =
            rows.into_iter().map(|row| row.into_iter().map(|near| near.1).collect()).collect();
        let mut distances = self.measured(context, &rows)?.into_iter();
        let nearest = |row: Vec<i32>| {
            let measured = row.into_iter().zip(distances.by_ref()).map(|(point, d)| (d, point));
            let mut row: Vec<(f64, i32)> = measured.filter(|(d, _)| *d <= limit).collect();
            row.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            row.truncate(k);
            row.into_iter().map(|(_, point)| point).collect()
        };
        let rows: Vec<Vec<i32>> = rows.into_iter().map(nearest).collect();
        if let Some((i, row)) = rows.iter().enumerate().find(|(_, row)| !is_padded && row.len() < k) {
            let expected = format!("at most {}, the points that query {i} has, or a radius", row.len());
            return Err(Error::argument("k", expected, k.to_string()));
        }
        let mut results =
            [room(context, 0, &[2, m])?, room(context, 1, &[m, k])?, room(context, 2, &[m, k, 3])?];
        if let [Array::I32(ranges), Array::I32(indices), Array::I32(shifts)] = &mut results {
            indices.fill(self.points.atoms() as i32);
            shifts.fill(0);
            for (i, row) in rows.iter().enumerate() {
                indices[i * k..i * k + row.len()].copy_from_slice(row);
                (ranges[i], ranges[m + i]) = ((i * k) as i32, (i * k + row.len()) as i32);
            }
        }
        Ok(results.into())
    }
}

/// The rows of an argument, which are finite.
fn finite(name: &str, view: &View<'_>, batch: &Batch<'_>, axes: usize) -> Result<Vec<f64>> {
    if view.place() != Place::Host {
        return Err(view.place().elsewhere(name));
    }
    if view.shape() != [batch.atoms(), axes] || !view.dtype().is_real() {
        let expected = format!("real numbers [{}, {axes}], as the batch says", batch.atoms());
        return Err(Error::argument(name, expected, format!("{} {:?}", view.dtype(), view.shape())));
    }
    let rows = view.to_f64()?;
    match rows.iter().position(|x| x.is_nan() || x.abs() >= 1e150) {
        Some(bad) => {
            let got = format!("{} in row {}", rows[bad], bad / axes.max(1));
            Err(Error::argument(name, "finite coordinates, below 1e150", got))
        }
        None => Ok(rows),
    }
}
