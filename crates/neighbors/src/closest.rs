//! The k nearest points of each query, as an op of integers that frameworks call by name.

use crate::atoms::{Atoms, OnHost, wrong};
use crate::coo::room;
use crate::grid::HashGrid;
use madelung_core::array::{Array, DType, Place, View, filled};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Op};
use madelung_core::structure::pairs::order::SpatialOrder;
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
    let OnHost { positions, cells, axes, batch } = found.on_host()?;
    let of_queries = of_queries.as_batch().ok_or_else(|| queries.place().elsewhere("queries"))?;
    for b in 0..batch.systems().min(of_queries.systems()) {
        let (count, first) = (batch.members(b).len(), of_queries.members(b).start);
        let is_periodic = axes[if axes.len() == 1 { 0 } else { b }] != [false; 3] && count > 0;
        if !(is_periodic || count >= k || of_queries.members(b).is_empty()) {
            let expected = format!("at most {count}, the points that query {first} has");
            return Err(Error::argument("k", expected, k.to_string()));
        }
    }
    let spacing = spacing(positions.as_chunks().0, k);
    let owned = batch.clone().into_owned();
    let grid = HashGrid::build(context, points, spacing, cells.as_deref(), Some(&axes), owned)?;
    let (m, r) = (of_queries.atoms(), queries.to_f64()?);
    let r: &[[f64; 3]] = r.as_chunks().0;
    let (indices, shifts) = if r.len() == m && r.as_flattened().iter().all(|x| x.is_finite()) {
        // Queries that are neighbours in space look at the same points: one after the other, they find these in the cache.
        let order = SpatialOrder::of_points(r, filled(m, [0; 3]), of_queries, &context.threads());
        let sorted: Vec<[f64; 3]> = order.atoms().iter().map(|i| r[*i as usize]).collect();
        let found = grid.nearest(context, &View::from(&sorted[..]), of_queries, k, None)?;
        let (mut indices, mut shifts) = (filled(m * k, 0), filled(m * k, [0; 3]));
        for (n, i) in order.atoms().iter().enumerate() {
            let (from, to) = (n * k..(n + 1) * k, *i as usize * k..(*i as usize + 1) * k);
            indices[to.clone()].copy_from_slice(&found.indices[from.clone()]);
            shifts[to].copy_from_slice(&found.shifts[from]);
        }
        (indices, shifts)
    } else {
        // An error of the search.
        let found = grid.nearest(context, queries, of_queries, k, None)?;
        (found.indices, found.shifts)
    };
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

/// A radius within which k of N points are likely: of the ball that holds 2k of them at their mean density. That is N over
/// the volume of the box around them, or of a box that they would fill evenly with their variance, which few points far
/// outside do not change. Results do not depend on it.
fn spacing(points: &[[f64; 3]], k: usize) -> f64 {
    let n = points.len().max(1) as f64;
    let sides: [f64; 3] = std::array::from_fn(|axis| {
        let along = || points.iter().map(|r| r[axis]);
        let (low, high) = (along().fold(f64::INFINITY, f64::min), along().fold(f64::NEG_INFINITY, f64::max));
        let mean = along().sum::<f64>() / n;
        let variance = along().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        (high - low).min((12.0 * variance).sqrt())
    });
    let longest = sides.into_iter().fold(0.0, f64::max);
    // Points in a plane or on a line are as deep as they are apart.
    let volume: f64 = sides.iter().map(|side| side.max(longest / n)).product();
    let radius = (0.75 * 2.0 * k as f64 * volume / (std::f64::consts::PI * n)).cbrt();
    if radius > 0.0 && radius.is_finite() { radius } else { 1.0 }
}
