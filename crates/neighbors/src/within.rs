//! Points within a radius of queries, and pairs of a list within shorter cutoffs, as ops of integers that frameworks call
//! by name.

use crate::atoms::{Atoms, wrong};
use crate::coo::room;
use crate::device::{Around, NarrowedList};
use crate::kept;
use crate::lattice::Precision;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::backend::pool::map_tasks;
use madelung_core::op::{Arg, Op};
use madelung_core::structure::PairList;
use madelung_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a task.
const ROWS: usize = 512;

/// `radius_search`: every image of every point with |r_j − q_i + S · cell| ≤ radius, as offsets of each query's pairs
/// (M + 1,), indices (P,) and images (P, 3), sorted by i, j, S. With a `capacity` from 0 up that is P: see
/// [`CooArrays`](crate::CooArrays). `order` may be that of the points in space, as `spatial_order` gives it, and `grid` the
/// number of a [`KeptGrid`](crate::KeptGrid) of these points, which may then be left out, or 0. A cell for
/// each system, and periodic axes as for the other searches.
pub(crate) fn declare() -> Result<Arc<Op>> {
    Op::new("madelung", "radius_search", 1)
        .real("queries", &["Query", "3"])
        .real("points", &["Point", "3"])
        .real("cell", &["System", "3", "3"])
        .ints("pbc", &["Axes", "3"])
        .ints("order", &["Order"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .scalar("radius")
        .int_scalar("axes")
        .int_scalar("grid")
        .int_scalar("capacity")
        .integer_output("ptr", &["Query+1"], DType::I32)
        .integer_output("indices", &["capacity"], DType::I32)
        .integer_output("shifts", &["capacity", "3"], DType::I32)
        .search(radius_search)
        .build()
}

fn radius_search(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Array(queries), Arg::Array(points), Arg::Array(cell), Arg::Array(pbc), rest @ ..] = args else {
        return Err(wrong());
    };
    let [Arg::Array(order), Arg::Structure(of_queries), Arg::Structure(of_points), rest @ ..] = rest else {
        return Err(wrong());
    };
    let [Arg::Real(radius), Arg::Int(axes), Arg::Int(grid), Arg::Int(capacity)] = rest else {
        return Err(wrong());
    };
    let capacity = usize::try_from(*capacity).ok();
    let atoms = Atoms::new(("points", points), cell, pbc, *of_points, *axes)?;
    if let Some(cuda) = context.backend.as_any().downcast_ref() {
        let around = Around { cuda, queries, of_queries: *of_queries, points: atoms };
        return around.within(context, *radius, capacity);
    }
    let of_queries = of_queries.as_batch().ok_or_else(|| queries.place().elsewhere("queries"))?;
    let grid = kept::grid_of(context, &atoms, *grid, order)?;
    let found = grid.query_capped(context, queries, of_queries, *radius, capacity.unwrap_or(usize::MAX))?;
    let total = found.neighbor_ptr.last().copied().unwrap_or(0);
    if total > i32::MAX.into() {
        let expected = format!("a radius within which there are at most {} pairs", i32::MAX);
        return Err(Error::argument("radius", expected, format!("{total} pairs")));
    }
    let capacity = capacity.unwrap_or(total as usize);
    let m = of_queries.atoms();
    let [mut ptr, mut indices, mut shifts] =
        [room(context, 0, &[m + 1])?, room(context, 1, &[capacity])?, room(context, 2, &[capacity, 3])?];
    if let (Array::I32(ptr), Array::I32(indices), Array::I32(shifts)) = (&mut ptr, &mut indices, &mut shifts)
    {
        ptr.iter_mut().zip(&found.neighbor_ptr).for_each(|(to, from)| *to = *from as i32);
        let pairs = match &found.list {
            Ok(list) => {
                indices[..list.len()].copy_from_slice(list.others());
                shifts[..3 * list.len()].copy_from_slice(list.shifts().as_flattened());
                list.len()
            }
            // The offsets say so.
            Err(_) if total as usize > capacity => 0,
            Err(error) => return Err(error.clone()),
        };
        indices[pairs..].fill(grid.len() as i32);
        shifts[3 * pairs..].fill(0);
    }
    Ok(vec![ptr, indices, shifts])
}

/// `narrowed_pairs`: the pairs (2, P) of a list with |r_j − q_i + S · cell| < cutoff, offsets of each query's
/// (M + 1,), and images (P, 3), in the order of the list; with a `capacity` as `radius_search`. Of typed queries and points
/// `cutoffs` (T, T) are counted instead. Queries that are themselves the points `own` (M,) are no pair with these.
pub(crate) fn declare_narrowed() -> Result<Arc<Op>> {
    Op::new("madelung", "narrowed_pairs", 1)
        .real("queries", &["Query", "3"])
        .real("points", &["Point", "3"])
        .real("cell", &["System", "3", "3"])
        .real("cutoffs", &["Type", "Type"])
        .ints("query_types", &["TypedQuery"])
        .ints("types", &["TypedPoint"])
        .ints("own", &["Own"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .pairs_between("pairs", "Query", "Point", "Pair")
        .scalar("cutoff")
        .int_scalar("capacity")
        .integer_output("neighbor_list", &["2", "capacity"], DType::I32)
        .integer_output("neighbor_ptr", &["Query+1"], DType::I32)
        .integer_output("neighbor_shifts", &["capacity", "3"], DType::I32)
        .search(narrowed_pairs)
        .build()
}

/// Condition on the pairs of a list.
struct Narrow<'a> {
    pairs: &'a PairList<'a>,
    queries: &'a [[f64; 3]],
    points: &'a [[f64; 3]],
    cells: &'a [[[f64; 3]; 3]],
    systems: &'a [i32],
    cutoff: f64,
    precision: Precision,
    typed: Option<Typed<'a>>,
    /// Point that each query is.
    own: &'a [i32],
}

/// Cutoffs (T, T) of typed atoms, and the types of queries and points.
struct Typed<'a> {
    types: usize,
    cutoffs: &'a [f64],
    of_queries: &'a [i32],
    of_points: &'a [i32],
}

/// Pairs of some rows.
#[derive(Default)]
struct Kept {
    counts: Vec<i32>,
    others: Vec<i32>,
    shifts: Vec<[i32; 3]>,
}

impl Narrow<'_> {
    fn of_rows(&self, rows: Range<usize>) -> Kept {
        let mut kept = Kept::default();
        for i in rows {
            let before = kept.others.len();
            let (others, shifts) = self.pairs.row(i);
            let cell = &self.cells[self.systems[i] as usize];
            let own = self.own.get(i).copied().unwrap_or(-1);
            for (j, shift) in others.iter().zip(shifts) {
                let at = *j as usize;
                let cutoff = match &self.typed {
                    Some(Typed { types, cutoffs, of_queries, of_points }) => {
                        cutoffs[of_queries[i] as usize * types + of_points[at] as usize]
                    }
                    None => self.cutoff,
                };
                let distance = self.precision.distance(cell, self.queries[i], self.points[at], shift);
                if distance < self.precision.rounded(cutoff) && !(*j == own && shift == [0; 3]) {
                    kept.others.push(*j);
                    kept.shifts.push(shift);
                }
            }
            kept.counts.push((kept.others.len() - before) as i32);
        }
        kept
    }
}

fn narrowed_pairs(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Array(queries), Arg::Array(points), Arg::Array(cell), Arg::Array(cutoffs), rest @ ..] = args
    else {
        return Err(wrong());
    };
    let [Arg::Array(query_types), Arg::Array(types), Arg::Array(own), rest @ ..] = rest else {
        return Err(wrong());
    };
    let [Arg::Structure(batch), _, Arg::Structure(pairs), Arg::Real(cutoff), Arg::Int(capacity)] = rest
    else {
        return Err(wrong());
    };
    let [Some(rows), Some(systems), _] = batch.sizes() else { return Err(wrong()) };
    let [Some(m), Some(n), _] = pairs.sizes() else { return Err(wrong()) };
    let count = cutoffs.shape().first().copied().unwrap_or(0);
    for (name, view, shape) in [
        ("positions", queries, &[m, 3][..]),
        ("sources", points, &[n, 3]),
        ("cell", cell, &[systems, 3, 3]),
        ("cutoff", cutoffs, &[count, count]),
    ] {
        if view.shape() != shape {
            let got = format!("{:?}", view.shape());
            return Err(Error::argument(name, format!("shape {shape:?}"), got));
        }
    }
    if rows != m {
        return Err(Error::argument(
            "batch_idx",
            format!("the system of each of {m} atoms"),
            rows.to_string(),
        ));
    }
    for (name, view, rows) in [("types", query_types, m), ("types", types, n), ("centers", own, m)] {
        if !view.is_empty() && view.shape() != [rows] {
            let expected = format!("{rows} integers, one for each row");
            return Err(Error::argument(name, expected, view.len().to_string()));
        }
    }
    if count > 0 && (query_types.len(), types.len()) != (m, n) {
        let expected = format!("the types of {m} and {n} atoms, as there are cutoffs for types");
        let got = format!("{} and {}", query_types.len(), types.len());
        return Err(Error::argument("types", expected, got));
    }
    let capacity = usize::try_from(*capacity).ok();
    if let Some(cuda) = context.backend.as_any().downcast_ref() {
        let (reals, ints) = ([queries, points, cell, cutoffs], [query_types, types, own]);
        let (batch, pairs, cutoff) = (*batch, *pairs, *cutoff);
        return NarrowedList { cuda, batch, pairs, reals, ints, cutoff }.list(context, capacity);
    }
    let batch = batch.as_batch().ok_or_else(|| queries.place().elsewhere("queries"))?;
    let pairs = pairs.as_pairs().ok_or_else(|| queries.place().elsewhere("neighbor_list"))?;
    let matrix = cutoffs.to_f64()?;
    let numbers = |name: &str, view: &View<'_>, below: usize| {
        let given = view.to_i32(name)?.into_owned();
        let is_there = |x: &i32| usize::try_from(*x).is_ok_and(|x| x < below);
        match given.iter().position(|x| !is_there(x)) {
            Some(at) => {
                let expected = format!("numbers from 0 to below {below}");
                Err(Error::argument(name, expected, format!("{} in row {at}", given[at])))
            }
            None => Ok(given),
        }
    };
    let (of_queries, of_points) = (numbers("types", query_types, count)?, numbers("types", types, count)?);
    let own = numbers("centers", own, n)?;
    let cells = cell.to_f64()?;
    let narrow = Narrow {
        pairs,
        queries: &queries.to_rows()?,
        points: &points.to_rows()?,
        cells: cells.as_chunks().0.as_chunks().0,
        systems: batch.idx(),
        cutoff: *cutoff,
        precision: Precision::of(queries.dtype()),
        typed: (count > 0).then_some(Typed {
            types: count,
            cutoffs: &matrix,
            of_queries: &of_queries,
            of_points: &of_points,
        }),
        own: &own,
    };
    let tasks = m.div_ceil(ROWS);
    let kept = map_tasks(&context.threads(), tasks, |t| narrow.of_rows(t * ROWS..m.min((t + 1) * ROWS)));
    let total: usize = kept.iter().map(|kept| kept.others.len()).sum();
    let capacity = capacity.unwrap_or(total);
    let [mut list, mut ptr, mut images] =
        [room(context, 0, &[2, capacity])?, room(context, 1, &[m + 1])?, room(context, 2, &[capacity, 3])?];
    if let (Array::I32(list), Array::I32(ptr), Array::I32(images)) = (&mut list, &mut ptr, &mut images) {
        let counts = kept.iter().flat_map(|kept| &kept.counts);
        ptr[0] = 0;
        for (i, count) in counts.enumerate() {
            ptr[i + 1] = ptr[i] + count;
        }
        list.fill(m as i32);
        images.fill(0);
        let (rows, others) = list.split_at_mut(capacity);
        let mut first = 0;
        for kept in kept.iter().filter(|_| total <= capacity) {
            let end = first + kept.others.len();
            others[first..end].copy_from_slice(&kept.others);
            images[3 * first..3 * end].copy_from_slice(kept.shifts.as_flattened());
            first = end;
        }
        for i in (0..m).filter(|_| total <= capacity) {
            rows[ptr[i] as usize..ptr[i + 1] as usize].fill(i as i32);
        }
        if n != m {
            others[first..].fill(n as i32);
        }
    }
    Ok(vec![list, ptr, images])
}
