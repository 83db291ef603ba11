//! Points moved into their cells and sorted in space, in blocks with boxes around them.

use crate::boxes::{Extent, Tree};
use crate::lattice::Lattice;
use madelung_core::array::{Buffer, Place, Plain, View, collected, filled, reserve};
use madelung_core::backend::Context;
use madelung_core::backend::pool::split_tasks;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::order::arrange;
use madelung_core::{Error, Result};
use madelung_cpu::Key;
use madelung_cpu::boxes::Corners;
use std::sync::atomic::{AtomicBool, Ordering};

/// Points of a block, all of one system.
pub(crate) const BLOCK: usize = 16;

/// Blocks of a task.
const TASK: usize = 256;

/// Rows of a task.
const ROWS: usize = 4096;

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
    /// Coordinates before wrapping.
    pub(crate) given: Buffer<[f64; 3]>,
    /// In their cells: given − wrap · cell; empty where all are there.
    moved: Buffer<[f64; 3]>,
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
    /// Corners of blocks in single precision, from the middle of their system.
    pub(crate) near: Vec<Corners>,
    /// First block of each system, and the number of blocks.
    pub(crate) first: Vec<usize>,
}

/// The rows (N, 3) of an argument, checked.
///
/// # Errors
/// The argument `name`, where it has another shape, is not of real numbers, or not finite.
pub(crate) fn coordinates(
    context: &Context<'_>,
    name: &str,
    view: &View<'_>,
    rows: usize,
) -> Result<Buffer<[f64; 3]>> {
    if view.shape() != [rows, 3] || !view.dtype().is_real() {
        let expected = format!("real numbers [{rows}, 3], as the batch says");
        return Err(Error::argument(name, expected, format!("{} {:?}", view.dtype(), view.shape())));
    }
    if view.place() != Place::Host {
        return Err(view.place().elsewhere(name));
    }
    let (mut points, _) = Buffer::<[f64; 3]>::room(rows);
    let is_good = AtomicBool::new(true);
    split_tasks(&context.threads_for(rows * 2), &mut points, &ends(rows), |t, part| {
        let written = view.write_rows(t * ROWS, part).is_ok();
        if !written || !part.as_flattened().iter().fold(true, |good, x| good & (x.abs() < LARGEST)) {
            is_good.store(false, Ordering::Relaxed);
        }
    });
    if is_good.into_inner() {
        return Ok(points);
    }
    let bad = points.iter().position(|r| !r.iter().all(|x| x.abs() < LARGEST)).unwrap_or_default();
    Err(Error::argument(name, "finite coordinates, below 1e30", format!("{:?} in row {bad}", points[bad])))
}

/// Ends of the tasks for some rows.
fn ends(rows: usize) -> Vec<usize> {
    (1..=rows.div_ceil(ROWS)).map(|t| rows.min(t * ROWS)).collect()
}

/// Points in an order of their rows.
pub(crate) fn in_order_of(context: &Context<'_>, points: &[[f64; 3]], order: &[i32]) -> Buffer<[f64; 3]> {
    let (mut sorted, _) = Buffer::<[f64; 3]>::room(order.len());
    split_tasks(&context.threads_for(order.len() * 4), &mut sorted, &ends(order.len()), |t, part| {
        part.iter_mut().zip(&order[t * ROWS..]).for_each(|(to, row)| *to = points[*row as usize]);
    });
    sorted
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

/// Points in their cells; none where all are there.
fn in_cells(
    points: &[[f64; 3]],
    wraps: &[[i32; 3]],
    batch: &Batch<'_>,
    lattices: &[Lattice],
) -> Buffer<[f64; 3]> {
    if wraps.is_empty() {
        return Buffer::default();
    }
    let mut at: Buffer<[f64; 3]> = collected(points.iter().copied()).into();
    for (b, lattice) in lattices.iter().enumerate() {
        for i in batch.members(b) {
            let t = lattice.translation(wraps[i]);
            at[i] = std::array::from_fn(|c| at[i][c] - t[c]);
        }
    }
    at
}

/// The rows of each system in an order in space: a curve through the box around it (Hilbert), of which any few points that
/// follow each other are in a small box, and among points that are crowded there, halves along the longest axis.
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
    let moved = in_cells(points, &wraps, batch, lattices);
    let at = if moved.is_empty() { points } else { &moved };
    let frame = |b: usize| {
        let Extent { low, high } = extent(&at[batch.members(b)]);
        let edge = (0..3).map(|k| high[k] - low[k]).fold(0.0, f64::max);
        let parts = f64::from(1u32 << BITS) * (1.0 - 1e-9);
        (low, if edge > 0.0 { parts / edge } else { 0.0 })
    };
    let frames: Vec<([f64; 3], f64)> = (0..batch.systems()).map(frame).collect();
    let code = |i: usize| {
        let (low, scale) = frames[batch.of(i)];
        along_curve(std::array::from_fn(|k| ((at[i][k] - low[k]) * scale) as u32))
    };
    // A system's number stands above the place in it, and costs nothing where there is one.
    match batch.systems() {
        1 => in_order::<u32>(context, at, code),
        _ => in_order::<u64>(context, at, |i| (batch.of(i) as u64) << (3 * BITS) | u64::from(code(i))),
    }
}

/// The rows by their keys; those with equal ones as they are, or where they are many, in an order in space.
fn in_order<K: Key + Plain>(
    context: &Context<'_>,
    at: &[[f64; 3]],
    key: impl Fn(usize) -> K + Sync,
) -> Result<Vec<i32>> {
    let n = at.len();
    let pool = &context.threads_for(n * 10);
    let ends = ends(n);
    let (mut keys, mut rows) = (Buffer::<K>::zeros(n), Buffer::<u32>::zeros(n));
    split_tasks(pool, &mut keys, &ends, |t, part| {
        part.iter_mut().zip(t * ROWS..).for_each(|(own, i)| *own = key(i));
    });
    rows.iter_mut().zip(0..).for_each(|(row, i)| *row = i);
    madelung_cpu::sort_by_key(context, &mut keys, &mut rows)?;
    let mut order = collected(rows.iter().map(|row| *row as i32));
    let mut first = 0;
    for crowd in keys.chunk_by(|a, b| a == b) {
        if crowd.len() > CROWD {
            arrange(&mut order[first..first + crowd.len()], at);
        }
        first += crowd.len();
    }
    Ok(order)
}

/// The place of a part of the box along Hilbert's curve, two levels at a time.
fn along_curve(part: [u32; 3]) -> u32 {
    let octants = spread(part[0]) << 2 | spread(part[1]) << 1 | spread(part[2]);
    let (mut way, mut place) = (0, 0);
    for level in (0..BITS / 2).rev() {
        let next = TWO_LEVELS[way as usize][(octants >> (6 * level) & 63) as usize];
        (way, place) = (next >> 6, place << 6 | u32::from(next & 63));
    }
    place
}

/// [`CURVE`], twice: for each way and each octant of an octant 64 times the way through it, and its place.
static TWO_LEVELS: [[u16; 64]; 24] = {
    let mut table = [[0; 64]; 24];
    let mut n = 0;
    while n < 24 * 64 {
        let (way, octants) = (n / 64, n % 64);
        let first = CURVE[way][octants >> 3] as u16;
        let second = CURVE[first as usize >> 3][octants & 7] as u16;
        table[way][octants] = second >> 3 << 6 | (first & 7) << 3 | second & 7;
        n += 1;
    }
    table
};

/// For each way in which the curve goes through a box, and each octant of it: eight times the way through the octant, and the
/// octant's place. A way is three times the corner where it begins, and the axis along which it ends (the numbers of C. H.
/// Hamilton, Compact Hilbert Indices, 2006).
pub(crate) static CURVE: [[u8; 8]; 24] = {
    let mut table = [[0; 8]; 24];
    let mut way = 0;
    while way < 24 {
        let (begin, turn) = (way as u8 / 3, way as u8 % 3 + 1);
        let mut place = 0u8;
        while place < 8 {
            let octant = turned(place ^ place >> 1, turn) ^ begin;
            // The octant is entered at the corner nearest to the one before, and left along the axis to the next.
            let enter = if place == 0 { 0 } else { (place - 1) & !1 };
            let along = match place {
                0 => 0,
                _ if place.is_multiple_of(2) => (place - 1).trailing_ones(),
                _ => place.trailing_ones(),
            };
            let corner = begin ^ turned(enter ^ enter >> 1, turn);
            let axis = (turn + along as u8 % 3) % 3;
            table[way][octant as usize] = (3 * corner + axis) << 3 | place;
            place += 1;
        }
        way += 1;
    }
    table
};

/// Three bits, turned to the left.
const fn turned(bits: u8, by: u8) -> u8 {
    let by = by % 3;
    (bits << by | bits >> (3 - by)) & 7
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
    /// A cloud of points in an order in space.
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
        let moved = in_cells(&given, &wraps, &batch, lattices);
        let at: &[[f64; 3]] = if moved.is_empty() { &given } else { &moved };
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
        Ok(Self { batch, given, moved, wraps, largest, extents, trees, blocks, near, first })
    }

    /// Points in their cells: given − wrap · cell.
    pub(crate) fn at(&self) -> &[[f64; 3]] {
        if self.moved.is_empty() { &self.given } else { &self.moved }
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
    use super::{BITS, along_curve, spread};

    #[test]
    fn parts_that_follow_each_other_on_the_curve_touch() {
        let side = 16u32;
        let mut parts = vec![None; side.pow(3) as usize];
        for x in 0..side {
            for y in 0..side {
                for z in 0..side {
                    // The four levels at the top.
                    let place = along_curve([x, y, z].map(|c| c << (BITS - 4))) >> (3 * (BITS - 4));
                    assert_eq!(parts[place as usize].replace([x, y, z]), None);
                }
            }
        }
        for pair in parts.windows(2) {
            let [Some(a), Some(b)] = [pair[0], pair[1]] else { panic!("each place has a part") };
            assert_eq!((0..3).map(|k| a[k].abs_diff(b[k])).sum::<u32>(), 1);
        }
    }

    #[test]
    fn bits_are_spread() {
        for x in 0..1u32 << 10 {
            let wanted = (0..10).fold(0, |all, bit| all | (x >> bit & 1) << (3 * bit));
            assert_eq!(spread(x), wanted);
        }
    }
}
