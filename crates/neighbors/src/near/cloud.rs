//! Points moved into their cells and sorted in space, in blocks with boxes around them.

use crate::boxes::{Extent, Tree};
use crate::lattice::Lattice;
use madelung_core::array::{Buffer, View, collected, filled, reserve};
use madelung_core::backend::Context;
use madelung_core::backend::pool::split_tasks;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::order::arrange;
use madelung_core::{Error, Result};
use madelung_cpu::boxes::Corners;

/// Points of a block, all of one system.
pub(crate) const BLOCK: usize = 16;

/// Blocks of a task.
const TASK: usize = 256;

/// Boxes between a point and the origin, at most: there is room for the way to another one.
const FARTHEST: f64 = (1u32 << 29) as f64;

/// Coordinates are below: squares of distances have room in single precision.
const LARGEST: f64 = 1e30;

/// Parts along the longest edge of the box around a system, on whose curve points are sorted: 2¹⁰.
const BITS: u32 = 10;

/// Points within one part from which on they are sorted among themselves.
const CROWD: usize = 64;

/// Points of several systems, in an order in which those that follow each other are neighbours.
#[derive(Debug)]
pub(crate) struct Cloud {
    pub(crate) batch: Batch<'static>,
    /// As they were given.
    pub(crate) given: Buffer<[f64; 3]>,
    /// In their cells: given − wrap · cell.
    pub(crate) at: Buffer<[f64; 3]>,
    /// Lattice vectors between the two; empty where all are zero.
    pub(crate) wraps: Buffer<[i32; 3]>,
    /// Largest coordinate given in each system.
    pub(crate) largest: Vec<f64>,
    /// Box around each system.
    pub(crate) extents: Vec<Extent>,
    /// Boxes around the blocks of each system.
    pub(crate) trees: Vec<Tree>,
    /// Blocks, coordinate by coordinate; infinity in place of points that are not there.
    pub(crate) blocks: Buffer<[[f64; BLOCK]; 3]>,
    /// The same in single precision, from the middle of their system.
    pub(crate) near: Vec<Corners>,
    /// First block of each system, and the number of blocks.
    pub(crate) first: Vec<usize>,
}

/// The rows (N, 3) of an argument, checked.
///
/// # Errors
/// The argument `name`, where it has another shape, is not of real numbers, or not finite.
pub(crate) fn coordinates(name: &str, view: &View<'_>, rows: usize) -> Result<Buffer<[f64; 3]>> {
    if view.shape() != [rows, 3] || !view.dtype().is_real() {
        let expected = format!("real numbers [{rows}, 3], as the batch says");
        return Err(Error::argument(name, expected, format!("{} {:?}", view.dtype(), view.shape())));
    }
    let points = view.to_rows()?;
    match points.iter().position(|r: &[f64; 3]| !r.iter().all(|x| x.abs() < LARGEST)) {
        Some(i) => {
            let expected = "finite coordinates, below 1e30";
            Err(Error::argument(name, expected, format!("{:?} in row {i}", points[i])))
        }
        None => Ok(points.into()),
    }
}

/// The lattice vectors by which points lie outside their cells; empty where all are zero.
///
/// # Errors
/// The argument `name`, where a point is too far away.
fn wraps(
    name: &str,
    points: &[[f64; 3]],
    batch: &Batch<'_>,
    lattices: &[Lattice],
) -> Result<Buffer<[i32; 3]>> {
    let mut wraps = Buffer::default();
    for (b, lattice) in lattices.iter().enumerate().filter(|(_, lattice)| lattice.periodic != [false; 3]) {
        for i in batch.members(b) {
            let s = lattice.fractional(points[i]);
            let wrap: [f64; 3] =
                std::array::from_fn(|k| if lattice.periodic[k] { s[k].floor() } else { 0.0 });
            if wrap == [0.0; 3] {
                continue;
            }
            if !wrap.iter().all(|n| n.abs() <= FARTHEST) {
                let got = format!("{:?} in row {i}", points[i]);
                return Err(Error::argument(name, "coordinates within 2^29 boxes of the origin", got));
            }
            if wraps.is_empty() {
                wraps = Buffer::zeros(points.len());
            }
            wraps[i] = wrap.map(|n| n as i32);
        }
    }
    Ok(wraps)
}

fn in_cells(
    points: &[[f64; 3]],
    wraps: &[[i32; 3]],
    batch: &Batch<'_>,
    lattices: &[Lattice],
) -> Buffer<[f64; 3]> {
    let mut at: Buffer<[f64; 3]> = collected(points.iter().copied()).into();
    for (b, lattice) in lattices.iter().enumerate().filter(|_| !wraps.is_empty()) {
        for i in batch.members(b) {
            let t = lattice.translation(wraps[i]);
            at[i] = std::array::from_fn(|c| at[i][c] - t[c]);
        }
    }
    at
}

/// The rows of each system in an order in space: a curve through the box around it (Morton), and among points that are
/// crowded there, halves along the longest axis.
///
/// # Errors
/// The argument `name`, where a point is too far away; memory ran out.
pub(crate) fn order(
    context: &Context<'_>,
    (name, points): (&str, &[[f64; 3]]),
    batch: &Batch<'_>,
    lattices: &[Lattice],
) -> Result<Vec<i32>> {
    let wraps = wraps(name, points, batch, lattices)?;
    let at = in_cells(points, &wraps, batch, lattices);
    let mut keys: Buffer<u64> = Buffer::zeros(at.len());
    for b in 0..batch.systems() {
        let members = batch.members(b);
        let extent = extent(&at[members.clone()]);
        let edge = (0..3).map(|k| extent.high[k] - extent.low[k]).fold(0.0, f64::max);
        let parts = f64::from(1u32 << BITS) * (1.0 - 1e-9);
        let scale = if edge > 0.0 { parts / edge } else { 0.0 };
        for i in members {
            let part = |k: usize| spread(((at[i][k] - extent.low[k]) * scale) as u32);
            keys[i] = (b as u64) << (3 * BITS) | u64::from(part(0) << 2 | part(1) << 1 | part(2));
        }
    }
    let mut rows: Buffer<u32> = Buffer::zeros(at.len());
    rows.iter_mut().zip(0..).for_each(|(row, n)| *row = n);
    if batch.systems() == 1 {
        let mut short: Buffer<u32> = Buffer::zeros(at.len());
        short.iter_mut().zip(&*keys).for_each(|(short, key)| *short = *key as u32);
        madelung_cpu::sort_by_key(context, &mut short, &mut rows)?;
        keys.iter_mut().zip(&*short).for_each(|(key, short)| *key = u64::from(*short));
    } else {
        madelung_cpu::sort_by_key(context, &mut keys, &mut rows)?;
    }
    let mut order = collected(rows.iter().map(|row| *row as i32));
    let mut first = 0;
    for crowd in keys.chunk_by(|a, b| a == b) {
        if crowd.len() > CROWD {
            arrange(&mut order[first..first + crowd.len()], &at);
        }
        first += crowd.len();
    }
    Ok(order)
}

/// Ten bits, with two zeros between them.
fn spread(x: u32) -> u32 {
    let x = (x | x << 16) & 0x0300_00ff;
    let x = (x | x << 8) & 0x0300_f00f;
    let x = (x | x << 4) & 0x030c_30c3;
    (x | x << 2) & 0x0924_9249
}

fn extent(points: &[[f64; 3]]) -> Extent {
    points.iter().fold(Extent::NONE, |all, r| all.with(Extent { low: *r, high: *r }))
}

impl Cloud {
    /// Of points in an order in space.
    ///
    /// # Errors
    /// The argument `name`, where a point is too far away.
    pub(crate) fn new(
        context: &Context<'_>,
        (name, given): (&str, Buffer<[f64; 3]>),
        batch: Batch<'static>,
        lattices: &[Lattice],
    ) -> Result<Self> {
        let wraps = wraps(name, &given, &batch, lattices)?;
        let at = in_cells(&given, &wraps, &batch, lattices);
        let mut first = vec![0];
        reserve(&mut first, batch.systems());
        for b in 0..batch.systems() {
            first.push(first[b] + batch.members(b).len().div_ceil(BLOCK));
        }
        let (count, pool) = (first[batch.systems()], &context.threads());
        let mut blocks: Buffer<[[f64; BLOCK]; 3]> = Buffer::zeros(count);
        let mut boxes = filled(count, Extent::NONE);
        let points_of = |block: usize| {
            // The last system that begins at the block or before.
            let b = first.partition_point(|first| *first <= block) - 1;
            let (members, from) = (batch.members(b), (block - first[b]) * BLOCK);
            members.start + from..members.end.min(members.start + from + BLOCK)
        };
        let ends: Vec<usize> = (1..=count.div_ceil(TASK)).map(|t| count.min(t * TASK)).collect();
        split_tasks(pool, &mut blocks, &ends, |t, part| {
            for (n, block) in (t * TASK..).zip(part) {
                let points = &at[points_of(n)];
                *block = [[f64::INFINITY; BLOCK]; 3];
                for (lane, r) in points.iter().enumerate() {
                    for k in 0..3 {
                        block[k][lane] = r[k];
                    }
                }
            }
        });
        split_tasks(pool, &mut boxes, &ends, |t, part| {
            for (n, own) in (t * TASK..).zip(part) {
                *own = extent(&at[points_of(n)]);
            }
        });
        let each = || (0..batch.systems()).map(|b| (b, first[b]..first[b + 1]));
        let trees: Vec<Tree> =
            each().map(|(b, blocks)| Tree::new(first[b], boxes[blocks].to_vec())).collect();
        let mut near = filled(count, [[0.0; BLOCK]; 3]);
        split_tasks(pool, &mut near, &ends, |t, part| {
            for (n, near) in (t * TASK..).zip(part) {
                let tree = &trees[first.partition_point(|first| *first <= n) - 1];
                *near = [[f32::INFINITY; BLOCK]; 3];
                for (lane, r) in at[points_of(n)].iter().enumerate() {
                    for (near, x) in near.iter_mut().zip(tree.seen(*r)) {
                        near[lane] = x;
                    }
                }
            }
        });
        let extents =
            each().map(|(_, blocks)| boxes[blocks].iter().fold(Extent::NONE, |all, e| all.with(*e)));
        let extents = extents.collect();
        let magnitude = |rows: &[[f64; 3]]| rows.as_flattened().iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        let largest = (0..batch.systems()).map(|b| magnitude(&given[batch.members(b)])).collect();
        Ok(Self { batch, given, at, wraps, largest, extents, trees, blocks, near, first })
    }

    /// Lattice vectors by which a point lies outside its cell.
    pub(crate) fn wrap(&self, i: usize) -> [i32; 3] {
        self.wraps.get(i).copied().unwrap_or_default()
    }

    /// The first point of a block of system `b`.
    pub(crate) fn first_point(&self, block: usize, b: usize) -> usize {
        self.batch.members(b).start + (block - self.first[b]) * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn bits_are_spread() {
        for x in 0..1u32 << 10 {
            let wanted = (0..10).fold(0, |all, bit| all | (x >> bit & 1) << (3 * bit));
            assert_eq!(spread(x), wanted);
        }
    }
}
