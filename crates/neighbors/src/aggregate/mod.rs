//! Features of points around queries, weighted by distance: the search and the sums in one pass, with every derivative.
//!
//! A weight is its logarithm, a `#[func]` of the distance and a length ([`weight`]); [`aggregation!`](crate::aggregation)
//! makes the kernels and the ops of it.

pub mod weight;

use crate::atoms::{Atoms, wrong};
use crate::device::GridOfCall;
use crate::grid::sorted_grid;
use madelung_core::Result;
use madelung_core::array::Place;
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Constraint, Op, OpBuilder};
use madelung_core::runtime::Kernel;
use madelung_core::structure::PointGrid;
use std::sync::Arc;

/// The kernels and the ops of a weight, made from the `#[func]` of a distance and a length that gives its logarithm:
///
/// ```text
/// aggregation! {
///     /// Exponential weight.
///     static EXPONENTIAL: exponential = crate::aggregate::weight::exponential;
/// }
/// ```
///
/// defines an [`Aggregation`](crate::aggregate::Aggregation) of that name.
#[macro_export]
macro_rules! aggregation {
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $prefix:ident = $($weight:ident)::+;) => {
        $(#[$attribute])*
        $visibility static $name: $crate::aggregate::Aggregation = {
            $crate::__core::kernels! {
                use $($weight)::+ as weight;

                /// Σⱼ w(d) fⱼ and Σⱼ w(d) over the points within the radius. A distance of zero has a derivative of zero.
                #[kernel(prefix($prefix))]
                fn around(
                    i: Query,
                    queries: &[Vec3; Query],
                    points: &[Vec3; Point],
                    features: &[[Real; Feature]; Point],
                    sigma: &[Real; System],
                    cell: &[Mat3; System],
                    radius: Real,
                    query_batch_idx: &Batch<Query, System>,
                    batch_idx: &Batch<Point, System>,
                    grid: &HashGrid<Query, Point>,
                    total: &mut [[Real; Feature]; Query],
                    norm: &mut [Real; Query],
                ) {
                    let b = query_batch_idx.of(i);
                    let mut sum = [0.0; Feature];
                    let mut weights = 0.0;
                    for (j, shift) in grid.query(queries[i], radius) {
                        let d = points[j] - queries[i] + shift * cell[b];
                        let square = dot(d, d);
                        let w = exp(weight(if square > 0.0 { sqrt(square) } else { 0.0 }, sigma[b]));
                        weights += w;
                        for c in Feature {
                            sum[c] += w * features[j][c];
                        }
                    }
                    for c in Feature {
                        total[i][c] = sum[c];
                    }
                    norm[i] = weights;
                }

                /// Sums over the pairs of a list, of weights relative to the largest: so they never vanish
                /// together.
                #[kernel(prefix($prefix))]
                fn listed(
                    i: Query,
                    queries: &[Vec3; Query],
                    points: &[Vec3; Point],
                    features: &[[Real; Feature]; Point],
                    sigma: &[Real; System],
                    cell: &[Mat3; System],
                    query_batch_idx: &Batch<Query, System>,
                    batch_idx: &Batch<Point, System>,
                    pairs: &Pairs<Query, Point>,
                    total: &mut [[Real; Feature]; Query],
                    norm: &mut [Real; Query],
                ) {
                    let b = query_batch_idx.of(i);
                    let mut largest = -1e300;
                    for (j, shift) in pairs.row(i) {
                        let d = points[j] - queries[i] + shift * cell[b];
                        let square = dot(d, d);
                        largest = max(largest, weight(if square > 0.0 { sqrt(square) } else { 0.0 }, sigma[b]));
                    }
                    let largest = stop_gradient(largest);
                    let mut sum = [0.0; Feature];
                    let mut weights = 0.0;
                    for (j, shift) in pairs.row(i) {
                        let d = points[j] - queries[i] + shift * cell[b];
                        let square = dot(d, d);
                        let w = exp(weight(if square > 0.0 { sqrt(square) } else { 0.0 }, sigma[b]) - largest);
                        weights += w;
                        for c in Feature {
                            sum[c] += w * features[j][c];
                        }
                    }
                    for c in Feature {
                        total[i][c] = sum[c];
                    }
                    norm[i] = weights;
                }
            }
            $crate::aggregate::Aggregation { name: stringify!($prefix), around: &AROUND, listed: &LISTED }
        };
    };
}

aggregation! {
    /// Exponential weight: [`weight::exponential`].
    pub static EXPONENTIAL: exponential = crate::aggregate::weight::exponential;
}

aggregation! {
    /// Gaussian weight: [`weight::gaussian`].
    pub static GAUSSIAN: gaussian = crate::aggregate::weight::gaussian;
}

aggregation! {
    /// Inverse distance: [`weight::inverse`].
    pub static INVERSE: inverse = crate::aggregate::weight::inverse;
}

pub(crate) const WEIGHTS: [&Aggregation; 3] = [&EXPONENTIAL, &GAUSSIAN, &INVERSE];

madelung_core::kernels! {
    /// Sums over the sum of their weights, or the sums themselves.
    #[kernel]
    pub(crate) fn normalised(
        i: Query, total: &[[Real; Feature]; Query], norm: &[Real; Query], eps: Real, normalize: Real,
        out: &mut [[Real; Feature]; Query],
    ) {
        let scale = if normalize > 0.0 { 1.0 / (norm[i] + eps) } else { 1.0 };
        for c in Feature {
            out[i][c] = total[i][c] * scale;
        }
    }
}

madelung_core::kernels! {
    /// Sums over the sum of their weights, whatever all of these are relative to; zero where there is none.
    #[kernel]
    pub(crate) fn averaged(
        i: Query, total: &[[Real; Feature]; Query], norm: &[Real; Query], out: &mut [[Real; Feature]; Query],
    ) {
        let scale = if norm[i] > 0.0 { 1.0 / norm[i] } else { 0.0 };
        for c in Feature {
            out[i][c] = total[i][c] * scale;
        }
    }
}

/// A weight: the kernels that [`aggregation!`](crate::aggregation) instantiates.
#[derive(Clone, Copy, Debug)]
pub struct Aggregation {
    /// The weight's name, behind those of its ops.
    pub name: &'static str,
    /// The sums over the points within a radius.
    pub around: &'static Kernel,
    /// The sums over the pairs of a list.
    pub listed: &'static Kernel,
}

impl Aggregation {
    /// Its ops: `radius_aggregate_…`, which searches for its pairs and gives Σ w f / (Σ w + `eps`), or Σ w f where `normalize`
    /// is 0 (on a device with memory for `max_neighbors` pairs of each query, or below 0 for as many as there are, and the
    /// host waits), and `list_aggregate_…`, over the pairs of a list, which gives Σ w f / Σ w.
    ///
    /// # Errors
    /// Those of [`OpBuilder::build`], for kernels not made by [`aggregation!`](crate::aggregation).
    pub fn ops(&self, namespace: &str) -> Result<[Arc<Op>; 2]> {
        let around = arguments(Op::new(namespace, &format!("radius_aggregate_{}", self.name), 1))
            .ints("pbc", &["Axes", "3"])
            .int_scalar("axes")
            .int_scalar("max_neighbors")
            .scalar("eps")
            .must_be(Constraint::Finite)
            .scalar("normalize")
            .scalar("radius")
            .must_be(Constraint::Positive)
            .ints("query_order", &["Query"])
            .ints("order", &["Point"])
            .searched("grid", ["Query", "Point"], "points", ["query_order", "order"], own_grid);
        let listed = arguments(Op::new(namespace, &format!("list_aggregate_{}", self.name), 1))
            .pairs_between("pairs", "Query", "Point", "Pair");
        Ok([sums(around, self.around, &NORMALISED)?, sums(listed, self.listed, &AVERAGED)?])
    }
}

/// Grid of a call's points. On the host they lie in an order in space.
fn own_grid<'a>(context: &Context<'_>, args: &'a [Arg<'a>]) -> Result<Box<dyn PointGrid + 'a>> {
    let [_, Arg::Array(points), _, _, Arg::Array(cell), _, Arg::Structure(of_points), rest @ ..] = args
    else {
        return Err(wrong());
    };
    let [Arg::Array(pbc), Arg::Int(axes), Arg::Int(most), ..] = rest else { return Err(wrong()) };
    let points = Atoms::new(("points", points), cell, pbc, *of_points, *axes)?;
    if context.backend.place() == Place::Host {
        return sorted_grid(context, &points);
    }
    // Points, cell and `max_neighbors` are the second, the fifth and the tenth argument.
    Ok(Box::new(GridOfCall { points, most: usize::try_from(*most).ok(), params: [2, 5, 10] }))
}

fn arguments(op: OpBuilder) -> OpBuilder {
    op.real("queries", &["Query", "3"])
        .stored()
        .real("points", &["Point", "3"])
        .stored()
        .real("features", &["Point", "Feature"])
        .stored()
        .real("sigma", &["System"])
        .must_be(Constraint::Positive)
        .real("cell", &["System", "3", "3"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
}

/// The sums stay for the backward pass, which then needs each pair once.
fn sums(op: OpBuilder, kernel: &'static Kernel, last: &'static Kernel) -> Result<Arc<Op>> {
    op.output("out", &["Query", "Feature"])
        .stored_as("features")
        .saved("total", &["Query", "Feature"])
        .saved("norm", &["Query"])
        .step(kernel)
        .step(last)
        .build()
}
