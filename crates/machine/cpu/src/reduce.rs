//! Sums, largest and smallest elements of segments and of whole arrays, in a fixed order.

use madelung_core::backend::Context;
use madelung_core::backend::pool::{Pool, map_tasks, split_tasks};
use madelung_core::runtime::lanes::Elem;
use std::ops::Range;

/// Rows that are added one after the other. Longer segments are cut into as many, counted from their own beginning,
/// and the pieces are added in order.
const CHUNK: usize = 4096;

/// Cuts segments into tasks of about equal work: the segments of task t are `cuts[t]..cuts[t + 1]`.
fn cuts(offsets: &[i32], threads: usize) -> Vec<usize> {
    let segments = offsets.len() - 1;
    // A segment costs something even where it is empty.
    let work = |s: usize| offsets[s] as usize + 4 * s;
    let tasks = (8 * threads).min(segments).max(1);
    let mut cuts: Vec<usize> = (0..tasks)
        .map(|t| {
            let before = work(segments) * t / tasks;
            partition(segments, |s| work(s) < before)
        })
        .collect();
    cuts.push(segments);
    cuts
}

/// The first of 0..n for which `below` does not hold; it holds for none after that.
fn partition(n: usize, below: impl Fn(usize) -> bool) -> usize {
    let (mut lo, mut hi) = (0, n);
    while lo < hi {
        let mid = usize::midpoint(lo, hi);
        if below(mid) { lo = mid + 1 } else { hi = mid }
    }
    lo
}

fn range(offsets: &[i32], s: usize) -> Range<usize> {
    offsets[s] as usize..offsets[s + 1] as usize
}

fn add_rows<T: Elem>(values: &[T], width: usize, rows: Range<usize>, sums: &mut [f64]) {
    for row in values[rows.start * width..rows.end * width].chunks_exact(width) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += x.to_f64();
        }
    }
}

/// The sum of each segment's rows of `width` components.
pub(crate) fn segmented_sum<T: Elem>(
    context: &Context<'_>,
    values: &[T],
    width: usize,
    offsets: &[i32],
    sums: &mut [T],
) {
    if width == 0 {
        return;
    }
    let pool = &context.threads_for(values.len() + 8 * offsets.len());
    let segments = offsets.len() - 1;
    // The pieces of long segments, so that one of them occupies all threads.
    let long = |s: usize| range(offsets, s).len() > CHUNK;
    let mut first_piece = vec![];
    let mut pieces = vec![];
    for s in (0..segments).filter(|s| long(*s)) {
        first_piece.push((s, pieces.len()));
        let rows = range(offsets, s);
        pieces.extend(rows.clone().step_by(CHUNK).map(|lo| lo..rows.end.min(lo + CHUNK)));
    }
    let piece_sums = map_tasks(pool, pieces.len(), |p| {
        let mut sums = vec![0.0; width];
        add_rows(values, width, pieces[p].clone(), &mut sums);
        sums
    });
    let cuts = cuts(offsets, pool.threads());
    let ends: Vec<usize> = cuts[1..].iter().map(|s| s * width).collect();
    split_tasks(pool, sums, &ends, |t, out| {
        let mut sums = vec![0.0; width];
        for (s, out) in (cuts[t]..cuts[t + 1]).zip(out.chunks_exact_mut(width)) {
            sums.fill(0.0);
            if long(s) {
                let at = first_piece.partition_point(|(before, _)| *before < s);
                let first = first_piece[at].1;
                for piece in &piece_sums[first..first + range(offsets, s).len().div_ceil(CHUNK)] {
                    sums.iter_mut().zip(piece).for_each(|(sum, x)| *sum += x);
                }
            } else {
                add_rows(values, width, range(offsets, s), &mut sums);
            }
            out.iter_mut().zip(&sums).for_each(|(out, x)| *out = T::of_f64(*x));
        }
    });
}

/// The sum of all rows.
pub(crate) fn sum<T: Elem>(context: &Context<'_>, values: &[T], width: usize, sum: &mut [T]) {
    let Some(rows) = values.len().checked_div(width) else { return };
    let pool = &context.threads_for(values.len());
    let pieces = map_tasks(pool, rows.div_ceil(CHUNK), |p| {
        let mut sums = vec![0.0; width];
        add_rows(values, width, p * CHUNK..rows.min((p + 1) * CHUNK), &mut sums);
        sums
    });
    for (c, out) in sum.iter_mut().enumerate() {
        *out = T::of_f64(pieces.iter().fold(0.0, |sum, p| sum + p[c]));
    }
}

/// Each segment's row to all of its rows.
pub(crate) fn segmented_broadcast<T: Elem>(
    context: &Context<'_>,
    values: &[T],
    width: usize,
    offsets: &[i32],
    rows: &mut [T],
) {
    if width == 0 {
        return;
    }
    let pool = &context.threads_for(rows.len() + 4 * offsets.len());
    let cuts = cuts(offsets, pool.threads());
    let ends: Vec<usize> = cuts[1..].iter().map(|s| offsets[*s] as usize * width).collect();
    split_tasks(pool, rows, &ends, |t, mut out| {
        for s in cuts[t]..cuts[t + 1] {
            let (mine, rest) = std::mem::take(&mut out).split_at_mut(range(offsets, s).len() * width);
            out = rest;
            for row in mine.chunks_exact_mut(width) {
                row.copy_from_slice(&values[s * width..(s + 1) * width]);
            }
        }
    });
}
