//! The k nearest points of each query, and points in an order in space, as ops of integers that frameworks call by name.

use crate::atoms::{Atoms, OnHost, wrong};
use crate::coo::room;
use crate::device::{self, Around};
use crate::grid::{Nearest, of_each};
use crate::kept;
use crate::lattice::{Precision, lattices};
use crate::near::{coordinates, order};
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Op};
use madelung_core::{Error, Result};
use std::sync::Arc;

/// `nearest`: where each query's points begin and end (2, M), their indices (M, k) and images (M, k, 3), by distance, then
/// index, then S. With a `radius` above zero (which may be infinity) there may be fewer than k, and the rest is N. `order` may
/// be that of the points in space, as `spatial_order` gives it, and `grid` the number of a [`KeptGrid`](crate::KeptGrid) of
/// these points, which may then be left out, or 0. There is a cell for each system, and periodic axes as for the other
/// searches.
pub(crate) fn declare() -> Result<Arc<Op>> {
    Op::new("madelung", "nearest", 1)
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
        .int_scalar("k")
        .integer_output("ranges", &["2", "Query"], DType::I32)
        .integer_output("indices", &["Query", "k"], DType::I32)
        .integer_output("shifts", &["Query", "k", "3"], DType::I32)
        .search(nearest)
        .build()
}

fn nearest(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Array(queries), Arg::Array(points), Arg::Array(cell), Arg::Array(pbc), rest @ ..] = args else {
        return Err(wrong());
    };
    let [Arg::Array(order), Arg::Structure(of_queries), Arg::Structure(of_points), rest @ ..] = rest else {
        return Err(wrong());
    };
    let [Arg::Real(radius), Arg::Int(axes), Arg::Int(grid), Arg::Int(k)] = rest else { return Err(wrong()) };
    let radius = (*radius > 0.0).then_some(*radius);
    let Some(k) = usize::try_from(*k).ok().filter(|k| *k > 0) else {
        return Err(Error::argument("k", "a number from 1 up", k.to_string()));
    };
    let found = Atoms::new(("points", points), cell, pbc, *of_points, *axes)?;
    if let Some(cuda) = context.backend.as_any().downcast_ref() {
        return Around { cuda, queries, of_queries: *of_queries, points: found }.nearest(context, k, radius);
    }
    let (_, axes) = found.lattices()?;
    let of_queries = of_queries.as_batch().ok_or_else(|| queries.place().elsewhere("queries"))?;
    let grid = kept::grid_of(context, &found, *grid, order)?;
    let batch = grid.batch();
    for b in 0..batch.systems().min(of_queries.systems()) {
        let (count, first) = (batch.members(b).len(), of_queries.members(b).start);
        let is_periodic = axes[if axes.len() == 1 { 0 } else { b }] != [false; 3] && count > 0;
        if !(radius.is_some() || is_periodic || count >= k || of_queries.members(b).is_empty()) {
            let expected = format!("at most {count}, the points that query {first} has, or a radius");
            return Err(Error::argument("k", expected, k.to_string()));
        }
    }
    let fill = radius.map(|_| batch.atoms() as i32);
    let limit = radius.unwrap_or(f64::INFINITY);
    let Nearest { indices, shifts, counts, .. } =
        grid.nearest(context, queries, of_queries, k, limit, fill)?;
    let m = of_queries.atoms();
    let starts = (0..m).map(|i| (i * k) as i32);
    let ranges: Vec<i32> = starts.clone().chain(starts.zip(&counts).map(|(start, n)| start + n)).collect();
    let mut results = [room(context, 0, &[2, m])?, room(context, 1, &[m, k])?, room(context, 2, &[m, k, 3])?];
    for (result, values) in results.iter_mut().zip([&ranges, &indices, shifts.as_flattened()]) {
        if let Array::I32(into) = result {
            into.copy_from_slice(values);
        }
    }
    Ok(results.into())
}

/// `spatial_order` of points: an order in space, each place with the number of its row within its system, (N,). `query_order`
/// and `point_order`: the order in which a call takes queries and points, which is that on the host, where their neighbours
/// are then in the cache, and on a device, where a call has a list of pairs, the one that they have.
pub(crate) fn declare_orders() -> Result<[Arc<Op>; 3]> {
    let of = |name: &str, [points, batch]: [&str; 2], search| {
        Op::new("madelung", name, 1)
            .real(points, &["Point", "3"])
            .real("cell", &["System", "3", "3"])
            .ints("pbc", &["Axes", "3"])
            .batch(batch, "Point", "System")
            .int_scalar("axes")
            .integer_output("order", &["Point"], DType::I32)
            .search(search)
            .build()
    };
    Ok([
        of("spatial_order", ["points", "batch_idx"], |context, args| ordered("points", true, context, args))?,
        of("point_order", ["points", "batch_idx"], |context, args| ordered("points", false, context, args))?,
        of("query_order", ["queries", "query_batch_idx"], |context, args| {
            ordered("queries", false, context, args)
        })?,
    ])
}

/// `always`: in space on a device, too.
fn ordered(name: &str, always: bool, context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Array(points), Arg::Array(cell), Arg::Array(pbc), Arg::Structure(batch), Arg::Int(axes)] = args
    else {
        return Err(wrong());
    };
    let atoms = Atoms::new((name, points), cell, pbc, *batch, *axes)?;
    if let Some(cuda) = context.backend.as_any().downcast_ref() {
        return Ok(vec![device::order(cuda, context, name, &atoms, always)?]);
    }
    let OnHost { cells, axes, batch, .. } = atoms.on_host()?;
    let lattices = lattices(cells.as_deref(), Some(&axes), batch.systems(), Precision::Double)?;
    let lattices = of_each(lattices, batch.systems());
    let rows = coordinates(context, name, points, batch.atoms())?;
    let order = order(context, (name, &rows), batch, &lattices)?;
    let mut result = room(context, 0, &[order.len()])?;
    if let Array::I32(places) = &mut result {
        for (i, (place, row)) in places.iter_mut().zip(&order).enumerate() {
            *place = row - batch.ptr()[batch.of(i)];
        }
    }
    Ok(vec![result])
}
