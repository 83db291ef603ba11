//! Sums, means, extrema and softmax over the entries of segments, such as the pairs of each atom.

use madelung_core::Result;
use madelung_core::op::{Linear, Op, OpBuilder};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

madelung_core::kernels! {
    /// Sums over the number of entries; 0 for a segment without any.
    #[kernel]
    fn segment_mean(
        s: Segment,
        sums: &[[Real; Feature]; Segment],
        segment_idx: &Batch<Entry, Segment>,
        mean: &mut [[Real; Feature]; Segment],
    ) {
        let mut entries = 0.0;
        for _p in segment_idx.members(s) {
            entries += 1.0;
        }
        for c in Feature {
            mean[s][c] = sums[s][c] / max(entries, 1.0);
        }
    }

    /// The largest of the entries; 0 for a segment without any. Of several that are equal the first has the derivative.
    #[kernel]
    fn segment_max(
        s: Segment,
        values: &[Real; Entry],
        segment_idx: &Batch<Entry, Segment>,
        largest: &mut [Real; Segment],
    ) {
        let mut entries = 0.0;
        // Below every number of either dtype.
        let mut found = -1.7976931348623157e308;
        for p in segment_idx.members(s) {
            entries += 1.0;
            found = max(found, values[p]);
        }
        largest[s] = if entries > 0.0 { found } else { 0.0 };
    }

    /// exp(xₚ − m), where m is the largest of the segment, so that the largest of each segment is 1. No ratio of two of them
    /// depends on m.
    #[kernel]
    fn segment_exponential(
        p: Entry,
        values: &[Real; Entry],
        largest: &[Real; Segment],
        segment_idx: &Batch<Entry, Segment>,
        exponential: &mut [Real; Entry],
    ) {
        exponential[p] = exp(values[p] - stop_gradient(largest[segment_idx.of(p)]));
    }

    /// Shares of a segment's sum.
    #[kernel]
    fn segment_share(
        p: Entry,
        exponential: &[Real; Entry],
        norm: &[Real; Segment],
        segment_idx: &Batch<Entry, Segment>,
        weight: &mut [Real; Entry],
    ) {
        weight[p] = exponential[p] / norm[segment_idx.of(p)];
    }

    /// Inner products of the features of each entry.
    #[kernel]
    fn entry_dot(
        p: Entry,
        x: &[[Real; Feature]; Entry],
        y: &[[Real; Feature]; Entry],
        product: &mut [Real; Entry],
    ) {
        let mut sum = 0.0;
        for c in Feature {
            sum += x[p][c] * y[p][c];
        }
        product[p] = sum;
    }
}

/// The kernels of these ops.
pub(crate) const KERNELS: [&Kernel; 5] =
    [&SEGMENT_MEAN, &SEGMENT_MAX, &SEGMENT_EXPONENTIAL, &SEGMENT_SHARE, &ENTRY_DOT];

/// The ops `segment_sum`, `segment_mean`, `segment_max`, `segment_softmax` and `segment_dot`. Entries are sorted by their
/// segments. Sums, means and inner products take features (Entry, Feature), extrema and softmax one number for each entry.
pub(crate) fn ops() -> Result<[Arc<Op>; 5]> {
    let summed = |op: OpBuilder, values: &str, sums: &str| {
        op.linear(Linear::SegmentedSum, &["segment_idx", values, sums])
    };
    let sum = segments(named("segment_sum").real("values", FEATURES)).output("sums", SUMS);
    let mean = segments(named("segment_mean").real("values", FEATURES)).output("mean", SUMS);
    let largest = segments(named("segment_max").real("values", &["Entry"])).output("largest", &["Segment"]);
    let softmax = segments(named("segment_softmax").real("values", &["Entry"]))
        .output("weight", &["Entry"])
        .scratch("largest", &["Segment"])
        .scratch("exponential", &["Entry"])
        .scratch("norm", &["Segment"])
        .step(&SEGMENT_MAX)
        .step(&SEGMENT_EXPONENTIAL);
    let dot = segments(named("segment_dot").real("x", FEATURES).real("y", FEATURES))
        .output("dots", &["Segment"])
        .scratch("product", &["Entry"])
        .step(&ENTRY_DOT);
    Ok([
        summed(sum, "values", "sums").build()?,
        summed(mean.scratch("sums", SUMS), "values", "sums").step(&SEGMENT_MEAN).build()?,
        largest.step(&SEGMENT_MAX).build()?,
        summed(softmax, "exponential", "norm").step(&SEGMENT_SHARE).build()?,
        summed(dot, "product", "dots").build()?,
    ])
}

const FEATURES: &[&str] = &["Entry", "Feature"];
const SUMS: &[&str] = &["Segment", "Feature"];

fn named(name: &str) -> OpBuilder {
    Op::new("madelung", name, 1)
}

fn segments(op: OpBuilder) -> OpBuilder {
    op.batch("segment_idx", "Entry", "Segment")
}
