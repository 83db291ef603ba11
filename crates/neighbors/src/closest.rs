//! The k nearest points of each query, and points in an order in space, as ops of integers that frameworks call by name.

use crate::atoms::{Atoms, OnHost, wrong};
use crate::coo::room;
use crate::grid::{HashGrid, Nearest, of_each};
use crate::lattice::lattices;
use crate::near::{coordinates, order};
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Op};
use madelung_core::{Error, Result};
use std::sync::Arc;

/// `nearest`, on the host: where each query's points begin (M + 1,), their indices (M, k) and images (M, k, 3), by
/// distance, then index, then S. There is a cell for each system, and periodic axes as for the other searches.
pub(crate) fn declare() -> Result<Arc<Op>> {
    Op::new("madelung", "nearest", 1)
        .real("queries", &["Query", "3"])
        .real("points", &["Point", "3"])
        .real("cell", &["System", "3", "3"])
        .ints("pbc", &["Axes", "3"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .int_scalar("axes")
        .int_scalar("k")
        .integer_output("ptr", &["Query+1"], DType::I32)
        .integer_output("indices", &["Query", "k"], DType::I32)
        .integer_output("shifts", &["Query", "k", "3"], DType::I32)
        .search(nearest)
        .build()
}

fn nearest(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    if context.backend.place() != Place::Host {
        let text = "nearest points are searched on the CPU, and on a device from Rust (`DeviceGrid`)";
        return Err(Error::Unsupported(text.into()));
    }
    let [Arg::Array(queries), Arg::Array(points), Arg::Array(cell), Arg::Array(pbc), rest @ ..] = args else {
        return Err(wrong());
    };
    let [Arg::Structure(of_queries), Arg::Structure(of_points), Arg::Int(axes), Arg::Int(k)] = rest else {
        return Err(wrong());
    };
    let Some(k) = usize::try_from(*k).ok().filter(|k| *k > 0) else {
        return Err(Error::argument("k", "a number from 1 up", k.to_string()));
    };
    let found = Atoms::new(("points", points), cell, pbc, *of_points, *axes)?;
    let OnHost { cells, axes, batch, .. } = found.on_host()?;
    let of_queries = of_queries.as_batch().ok_or_else(|| queries.place().elsewhere("queries"))?;
    for b in 0..batch.systems().min(of_queries.systems()) {
        let (count, first) = (batch.members(b).len(), of_queries.members(b).start);
        let is_periodic = axes[if axes.len() == 1 { 0 } else { b }] != [false; 3] && count > 0;
        if !(is_periodic || count >= k || of_queries.members(b).is_empty()) {
            let expected = format!("at most {count}, the points that query {first} has");
            return Err(Error::argument("k", expected, k.to_string()));
        }
    }
    let owned = batch.clone().into_owned();
    let grid = HashGrid::build(context, points, cells.as_deref(), Some(&axes), owned)?;
    let Nearest { indices, shifts, .. } = grid.nearest(context, queries, of_queries, k, None)?;
    let m = of_queries.atoms();
    let ptr: Vec<i32> = (0..=m).map(|i| (i * k) as i32).collect();
    let mut results =
        [room(context, 0, &[m + 1])?, room(context, 1, &[m, k])?, room(context, 2, &[m, k, 3])?];
    for (result, values) in results.iter_mut().zip([&ptr, &indices, shifts.as_flattened()]) {
        if let Array::I32(into) = result {
            into.copy_from_slice(values);
        }
    }
    Ok(results.into())
}

/// `spatial_order`, on the host: queries and points in an order in space, each place with the number of its row within its
/// system, (M,) and (N,).
pub(crate) fn declare_order() -> Result<Arc<Op>> {
    Op::new("madelung", "spatial_order", 1)
        .real("queries", &["Query", "3"])
        .real("points", &["Point", "3"])
        .real("cell", &["System", "3", "3"])
        .ints("pbc", &["Axes", "3"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .int_scalar("axes")
        .integer_output("query_order", &["Query"], DType::I32)
        .integer_output("order", &["Point"], DType::I32)
        .search(spatial_order)
        .build()
}

fn spatial_order(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Array(queries), Arg::Array(points), Arg::Array(cell), Arg::Array(pbc), rest @ ..] = args else {
        return Err(wrong());
    };
    let [Arg::Structure(of_queries), Arg::Structure(of_points), Arg::Int(axes)] = rest else {
        return Err(wrong());
    };
    if context.backend.place() != Place::Host {
        return Err(Error::Unsupported("points are sorted in space on the CPU".into()));
    }
    let mut results = vec![];
    for (n, name, view, of) in [(0, "queries", queries, of_queries), (1, "points", points, of_points)] {
        let atoms = Atoms::new((name, view), cell, pbc, *of, *axes)?;
        let OnHost { cells, axes, batch, .. } = atoms.on_host()?;
        let lattices = of_each(lattices(cells.as_deref(), Some(&axes), batch.systems())?, batch.systems());
        let rows = coordinates(name, view, batch.atoms())?;
        let mut order = order(context, (name, &rows), batch, &lattices)?;
        for b in 0..batch.systems() {
            let members = batch.members(b);
            order[members.clone()].iter_mut().for_each(|row| *row -= members.start as i32);
        }
        let mut result = room(context, n, &[order.len()])?;
        if let Array::I32(into) = &mut result {
            into.copy_from_slice(&order);
        }
        results.push(result);
    }
    Ok(results)
}
