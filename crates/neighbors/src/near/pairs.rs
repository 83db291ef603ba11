//! Pairs within a radius, of some queries at a time.
//!
//! Sixteen queries that follow each other share a box, and so the points within its reach, which lie in few blocks. These
//! are tried in single precision, relative to the box and in units of the radius, sixteen at once; what single precision
//! cannot decide, the formula of the conventions does in f64, on the coordinates given.

use super::cloud::{BLOCK, Cloud};
use crate::boxes::Extent;
use crate::lattice::Lattice;
use madelung_core::array::{Buffer, push};
use madelung_core::runtime::lanes::packed::{pack, unpack};
use madelung_core::stop::if_asked;
use madelung_core::structure::pairs::FoundPairs;
use madelung_cpu::Cpu;
use madelung_cpu::points::{Points, WORD, pick};
use std::ops::Range;
use std::sync::Arc;

/// Points of a box above which boxes of its rows are compared with it, and how often a box may hold theirs: below either, it
/// takes less to try some points in vain than to find the blocks of each row.
const MANY: f64 = 1024.0;
const WORTH: f64 = 4.0;

/// Search of the points within a radius of queries: every (i, j, S) with |r_j − q_i + S · cell| ≤ radius.
#[derive(Clone, Debug)]
pub(crate) struct Vicinity {
    pub(crate) queries: Arc<Cloud>,
    pub(crate) points: Arc<Cloud>,
    pub(crate) lattices: Arc<[Lattice]>,
    pub(crate) radius: f64,
    pub(crate) cpu: Cpu,
}

/// Search of one task.
pub(crate) struct Finder<'v> {
    pub(crate) vicinity: &'v Vicinity,
    /// Blocks within reach, with the image that is, and the way to it from the centre of the box.
    near: Vec<Near>,
    of_blocks: Candidates,
    /// Candidates within the radius of the box.
    of_box: Candidates,
    bits: Vec<u64>,
    certain: Vec<u64>,
}

/// Points that may be partners of some rows.
#[derive(Default)]
struct Candidates {
    points: Points,
    /// Point and image of each of `points`, with room for whole words of bits; images where an axis is periodic.
    others: Buffer<i32>,
    images: Buffer<i32>,
}

/// Image of a block within reach.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    block: u32,
    first: u32,
    image: [i32; 3],
    origin: [f64; 3],
}

/// Single precision of a search: where it begins, its unit, and the squared distances that it can decide. Below the first
/// is a pair, from the second on is none.
struct Frame {
    centre: [f64; 3],
    scale: f64,
    certain: f32,
    possible: f32,
}

/// Rows of one direction of a search.
struct Around<'v> {
    own: &'v Cloud,
    other: &'v Cloud,
    /// Whether rows are the points, and their partners the queries.
    by_points: bool,
    system: usize,
    slack: f64,
}

impl<'v> Finder<'v> {
    pub(crate) fn new(vicinity: &'v Vicinity) -> Self {
        Self {
            vicinity,
            near: vec![],
            of_blocks: Candidates::default(),
            of_box: Candidates::default(),
            bits: vec![],
            certain: vec![],
        }
    }

    /// The pairs of some queries, or points, of one system, in place of those of `found`. Images are those of wrapped
    /// points, seen from the rows.
    pub(crate) fn find(&mut self, by_points: bool, rows: Range<usize>, found: &mut FoundPairs) {
        if_asked();
        found.ends.clear();
        found.others.clear();
        found.images.clear();
        let Vicinity { queries, points, lattices, .. } = self.vicinity;
        let (own, other) = if by_points { (&**points, &**queries) } else { (&**queries, &**points) };
        let system = own.batch.of(rows.start);
        let lattice = &lattices[system];
        let slack = lattice.slack(own.largest[system].max(other.largest[system]), self.vicinity.radius);
        self.append(&Around { own, other, by_points, system, slack }, rows, found);
    }

    /// Appends the pairs of rows: of those that lie far apart by halves.
    fn append(&mut self, around: &Around<'_>, rows: Range<usize>, found: &mut FoundPairs) {
        let own = around.own;
        if rows.len() > 1 && self.are_scattered(around, &own.at()[rows.clone()]) {
            let middle = rows.start + rows.len() / 2;
            self.append(around, rows.start..middle, found);
            return self.append(around, middle..rows.end, found);
        }
        let lattice = &self.vicinity.lattices[around.system];
        let Frame { centre, scale, certain, possible } = self.gather(around, &own.at()[rows.clone()]);
        let cpu = &self.vicinity.cpu;
        self.bits.resize(self.of_box.points.words(), 0);
        for i in rows {
            let at = seen(own.at()[i], centre, scale);
            if self.of_box.points.near(cpu, 0, at, certain, possible, &mut self.bits) {
                self.settle(around, i, at, certain);
            }
            let before = found.others.len();
            let count: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
            found.others.resize(before + count as usize, 0);
            found.images.resize(before + count as usize, 0);
            pick(cpu, &self.bits, &self.of_box.others, &mut found.others[before..]);
            if lattice.periodic != [false; 3] {
                pick(cpu, &self.bits, &self.of_box.images, &mut found.images[before..]);
            }
            found.ends.push(found.others.len() as i64);
        }
    }

    /// Whether one box around rows holds many more points than a box around each.
    fn are_scattered(&self, around: &Around<'_>, rows: &[[f64; 3]]) -> bool {
        let own = rows.iter().fold(Extent::NONE, |all, r| all.with(Extent { low: *r, high: *r }));
        let (all, reach) = (&around.other.extents[around.system], 2.0 * self.vicinity.radius);
        let lengths: [f64; 3] = std::array::from_fn(|k| own.high[k] - own.low[k] + reach);
        let part = (0..3).map(|k| (lengths[k] / (all.high[k] - all.low[k])).min(1.0)).product::<f64>();
        let points = part * around.other.batch.members(around.system).len() as f64;
        points > MANY && lengths.iter().product::<f64>() > WORTH * rows.len() as f64 * reach.powi(3)
    }

    /// Gathers everything within the radius of the box around some rows, seen from its centre.
    fn gather(&mut self, around: &Around<'_>, rows: &[[f64; 3]]) -> Frame {
        let Around { other, system, slack, .. } = *around;
        let (radius, lattice) = (self.vicinity.radius, &self.vicinity.lattices[system]);
        let unit = if radius > 0.0 { radius } else { 1.0 };
        let own = rows.iter().fold(Extent::NONE, |all, r| all.with(Extent { low: *r, high: *r }));
        let centre: [f64; 3] = std::array::from_fn(|k| 0.5 * (own.low[k] + own.high[k]));
        let reach = (radius + slack) * (1.0 + 1e-9) + f64::MIN_POSITIVE;
        let images = image_range(lattice, rows, &other.extents[system], reach);
        let (tree, near) = (&other.trees[system], &mut self.near);
        near.clear();
        for x in images[0].clone() {
            for y in images[1].clone() {
                for z in images[2].clone() {
                    let image = [x, y, z];
                    let t = lattice.translation(image);
                    let origin = std::array::from_fn(|k| t[k] - centre[k]);
                    tree.visit(
                        &self.vicinity.cpu,
                        &own.moved(t.map(|x| -x)),
                        reach,
                        other.first[system],
                        &mut |block| {
                            let first = other.first_point(block, system) as u32;
                            push(near, Near { block: block as u32, first, image, origin });
                        },
                    );
                }
            }
        }
        // No point of a box within reach is farther from the centre.
        let half = (0..3).map(|k| own.high[k] - centre[k]).fold(0.0, f64::max);
        let extent = (reach + half + tree.longest) / unit + 1.0;
        // Single precision that has no room for squares decides nothing.
        let scale = if extent < 1e15 && (1.0 / unit).is_finite() { 1.0 / unit } else { 0.0 };
        let blocks = near.iter().map(|near| (&other.blocks[near.block as usize], near.origin));
        let Candidates { points, others, images } = &mut self.of_blocks;
        points.fill_blocks(&self.vicinity.cpu, blocks, scale);
        let room = points.words() * WORD;
        others.resize(room, 0);
        for (others, near) in others.chunks_exact_mut(BLOCK).zip(near.iter()) {
            others.iter_mut().zip(near.first as i32..).for_each(|(other, j)| *other = j);
        }
        if lattice.periodic != [false; 3] {
            images.resize(room, 0);
            for (images, near) in images.chunks_exact_mut(BLOCK).zip(near.iter()) {
                images.fill(pack(near.image));
            }
        }
        let blur = slack / unit + (4.0 * extent + 8.0) * f64::from(f32::EPSILON);
        let length = radius / unit;
        let (certain, possible) = ((length - blur).max(0.0).powi(2), (length + blur).powi(2));
        let frame = Frame {
            centre,
            scale,
            certain: (certain * (1.0 - 1e-6)) as f32,
            possible: (possible * (1.0 + 1e-6)) as f32,
        };
        let frame =
            if scale > 0.0 { frame } else { Frame { certain: 0.0, possible: f32::INFINITY, ..frame } };
        self.pick_near(rows, &frame, lattice.periodic != [false; 3]);
        frame
    }

    /// Takes those of the blocks' points that single precision may find near one of the rows: as it rounds larger numbers to
    /// larger ones, or equal ones, it finds no point nearer to a row than to the box around all.
    fn pick_near(&mut self, rows: &[[f64; 3]], frame: &Frame, is_periodic: bool) {
        let (cpu, Candidates { points, others, images }) = (&self.vicinity.cpu, &self.of_blocks);
        let half = rows.iter().fold([0.0f32; 3], |half, r| {
            let at = seen(*r, frame.centre, frame.scale);
            std::array::from_fn(|k| half[k].max(at[k].abs()))
        });
        self.bits.resize(points.words(), 0);
        points.near_box(cpu, [0.0; 3], half, frame.possible, &mut self.bits);
        let near = &mut self.of_box;
        near.points.fill_picked(cpu, points, &self.bits);
        let (count, room) = (near.points.len(), near.points.words() * WORD);
        near.others.resize(room, 0);
        pick(cpu, &self.bits, others, &mut near.others[..count]);
        if is_periodic {
            near.images.resize(room, 0);
            pick(cpu, &self.bits, images, &mut near.images[..count]);
        }
    }

    /// Removes what single precision let in and f64 rejects.
    #[cold]
    fn settle(&mut self, around: &Around<'_>, i: usize, at: [f32; 3], certain: f32) {
        self.certain.resize(self.bits.len(), 0);
        let Candidates { points, others, images } = &self.of_box;
        points.near(&self.vicinity.cpu, 0, at, certain, certain, &mut self.certain);
        let (lattice, radius) = (&self.vicinity.lattices[around.system], self.vicinity.radius);
        let is_periodic = lattice.periodic != [false; 3];
        for (w, (word, certain)) in self.bits.iter_mut().zip(&self.certain).enumerate() {
            let mut open = *word & !certain;
            while open != 0 {
                let n = w * WORD + open.trailing_zeros() as usize;
                open &= open - 1;
                let j = others[n] as usize;
                let s = around.shift(i, j, if is_periodic { unpack(images[n]) } else { [0; 3] });
                let (q, r) = if around.by_points { (j, i) } else { (i, j) };
                let (q, r) = (self.vicinity.queries.given[q], self.vicinity.points.given[r]);
                // NaN does not come here.
                if lattice.distance(q, r, s) > radius {
                    *word &= !(1 << (n % WORD));
                }
            }
        }
    }
}

impl Vicinity {
    /// The image S of query `i` and point `j`, r_j − q_i + S · cell, from that of the wrapped point.
    pub(crate) fn shift(&self, i: usize, j: usize, image: [i32; 3]) -> [i32; 3] {
        let (i, j) = (self.queries.wrap(i), self.points.wrap(j));
        std::array::from_fn(|k| image[k] + i[k] - j[k])
    }
}

impl Around<'_> {
    /// The image S of a pair from that of the wrapped partner seen from the row.
    fn shift(&self, own: usize, other: usize, image: [i32; 3]) -> [i32; 3] {
        let (own, other) = (self.own.wrap(own), self.other.wrap(other));
        let sign = if self.by_points { -1 } else { 1 };
        std::array::from_fn(|k| sign * (image[k] + own[k] - other[k]))
    }
}

/// A place in single precision.
fn seen(r: [f64; 3], centre: [f64; 3], scale: f64) -> [f32; 3] {
    std::array::from_fn(|k| ((r[k] - centre[k]) * scale) as f32)
}

/// Images of the points of a system that can be within reach of some points in the cell, along each axis; none, where they
/// are too far apart along the open axes.
pub(crate) fn image_range(
    lattice: &Lattice,
    rows: &[[f64; 3]],
    points: &Extent,
    reach: f64,
) -> [Range<i32>; 3] {
    if lattice.periodic == [false; 3] {
        return [0..1, 0..1, 0..1];
    }
    let gap = lattice.gap(rows, points);
    let reach = ((reach - gap).max(0.0) * (reach + gap)).sqrt();
    let mut range = [[f64::INFINITY, f64::NEG_INFINITY]; 3];
    for r in rows {
        for (range, s) in range.iter_mut().zip(lattice.fractional(*r)) {
            *range = [range[0].min(s), range[1].max(s)];
        }
    }
    std::array::from_fn(|k| {
        if !lattice.periodic[k] {
            return 0..1;
        }
        // A point on the border of a cell counts to either side.
        let f = reach / lattice.heights[k] + 1e-9;
        (range[k][0] - f).floor() as i32..((range[k][1] + f).floor() as i32).saturating_add(1)
    })
}
