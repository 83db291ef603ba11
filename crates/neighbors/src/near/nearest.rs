//! The k nearest points of queries.
//!
//! Queries are taken in an order in space, so a few that follow each other have the same points near them. These are gathered
//! once, within the distance at which queries before had theirs; single precision says which of them may be the nearest, and
//! f64 which are.

use super::cloud::{BLOCK, Cloud};
use super::pairs::image_range;
use crate::boxes::Extent;
use crate::lattice::{Lattice, norm};
use madelung_core::array::{Buffer, push};
use madelung_core::stop::if_asked;
use madelung_cpu::Cpu;
use madelung_cpu::boxes::near_points;
use std::ops::Range;

/// Queries that share their gathered points, at most.
const TOGETHER: usize = 8;

/// The radius in which points are gathered, over the largest distance of a k-th point before.
const MARGIN: f64 = 1.2;

/// Images within reach of a search, at most.
pub(crate) const MOST_IMAGES: f64 = (1u64 << 32) as f64;

/// Blocks of a query, at most: their points have numbers of 32 bits.
const MOST_BLOCKS: usize = 1 << 28;

/// A point, or an image of it, by its distance, its number, and S.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hit {
    pub(crate) distance: f64,
    pub(crate) point: i32,
    pub(crate) shift: [i32; 3],
}

impl Hit {
    fn is_before(&self, other: &Self) -> bool {
        self.distance < other.distance
            || self.distance == other.distance && (self.point, self.shift) < (other.point, other.shift)
    }
}

/// Search of the nearest points of queries.
pub(crate) struct Nearby<'a> {
    pub(crate) queries: &'a Cloud,
    pub(crate) points: &'a Cloud,
    /// The number of each point.
    pub(crate) numbers: &'a [i32],
    pub(crate) lattices: &'a [Lattice],
    pub(crate) k: usize,
    /// The largest distance of a point that counts.
    pub(crate) limit: f64,
    pub(crate) cpu: Cpu,
}

/// Blocks of points within a radius of queries of a system.
#[derive(Default)]
struct Gathered {
    radius: f64,
    /// The distance from blocks that is within reach of the queries.
    reach: f64,
    blocks: Vec<u32>,
    /// Images, and the ends of their blocks.
    images: Vec<([i32; 3], usize)>,
    /// Memory for points that may be the nearest.
    keys: Buffer<u64>,
}

impl Nearby<'_> {
    /// The nearest points of some queries, one after the other, `k` for each, and how many there are.
    pub(crate) fn find(&self, queries: Range<usize>, hits: &mut [Hit], counts: &mut [i32]) {
        let (mut near, mut alone) = (Gathered::default(), Gathered::default());
        let mut each = hits.chunks_exact_mut(self.k).zip(counts);
        let (mut first, mut before) = (queries.start, None);
        while first < queries.end {
            let system = self.queries.batch.of(first);
            let end = queries.end.min(self.queries.batch.members(system).end);
            let likely = before.filter(|(of, _)| *of == system).map(|(_, radius)| radius);
            let likely = likely.unwrap_or_else(|| self.first_radius(system));
            let rows = self.together(first..end, likely);
            first = rows.end;
            let gaps = self.queries.at()[rows.clone()].iter().map(|r| self.gap(system, *r));
            let radius = gaps.fold(0.0, f64::max).hypot(likely);
            let is_whole = self.gather(system, rows.clone(), radius, &mut near);
            let mut farthest = 0.0f64;
            for (i, (hits, count)) in rows.zip(&mut each) {
                let mut found = if is_whole { self.among(i, system, &mut near, hits) } else { 0 };
                if found < self.k {
                    found = self.farther(i, system, likely, &mut alone, hits);
                }
                *count = found as i32;
                // The way along the open axes to all points is another one for the next queries.
                let beyond = |hit: &Hit| {
                    (hit.distance.powi(2) - self.gap(system, self.queries.at()[i]).powi(2)).max(0.0).sqrt()
                };
                farthest = hits[..found].last().map_or(farthest, |hit| farthest.max(beyond(hit)));
            }
            before = (farthest > 0.0 && farthest.is_finite()).then_some((system, MARGIN * farthest));
        }
    }

    /// The way from a place to the box around all points, along the open axes.
    fn gap(&self, system: usize, at: [f64; 3]) -> f64 {
        self.lattices[system].gap(&[at], &self.points.extents[system])
    }

    /// The first of some queries, as many as are in a box that is not much larger than what is near a query.
    fn together(&self, rows: Range<usize>, radius: f64) -> Range<usize> {
        let most = rows.start..rows.end.min(rows.start + TOGETHER);
        let mut all = Extent::NONE;
        for (i, r) in most.clone().zip(&self.queries.at()[most.clone()]) {
            all = all.with(Extent { low: *r, high: *r });
            if (0..3).any(|k| all.high[k] - all.low[k] > 2.0 * radius) {
                return most.start..i;
            }
        }
        most
    }

    /// Gathers all blocks within a radius of queries; false where there are more images than can be looked at.
    fn gather(&self, system: usize, rows: Range<usize>, radius: f64, near: &mut Gathered) -> bool {
        let (points, lattice) = (self.points, &self.lattices[system]);
        let rows = &self.queries.at()[rows];
        let slack = lattice.slack(self.queries.largest[system].max(points.largest[system]), radius);
        let reach = (radius + slack) * (1.0 + 1e-9) + f64::MIN_POSITIVE;
        (near.radius, near.reach) = (radius, reach);
        near.blocks.clear();
        near.images.clear();
        let own = rows.iter().fold(Extent::NONE, |all, r| all.with(Extent { low: *r, high: *r }));
        let images = image_range(lattice, rows, &points.extents[system], reach);
        if images.iter().map(|along| along.len() as f64).product::<f64>() > MOST_IMAGES {
            return false;
        }
        for x in images[0].clone() {
            for y in images[1].clone() {
                if_asked();
                for z in images[2].clone() {
                    let image = [x, y, z];
                    let own = own.moved(lattice.translation(image).map(|x| -x));
                    let blocks = &mut near.blocks;
                    let mut visit = |block| push(blocks, block as u32);
                    points.trees[system].visit(&self.cpu, &own, reach, points.first[system], &mut visit);
                    if near.images.last().map_or(0, |(_, end)| *end) < near.blocks.len() {
                        push(&mut near.images, (image, near.blocks.len()));
                    }
                }
            }
        }
        near.blocks.len() < MOST_BLOCKS
    }

    /// The nearest of the points that were gathered, no farther than their radius, and how many there are.
    fn among(&self, i: usize, system: usize, near: &mut Gathered, hits: &mut [Hit]) -> usize {
        let (points, lattice, tree) = (self.points, &self.lattices[system], &self.points.trees[system]);
        let Gathered { radius, reach, .. } = *near;
        if near.keys.len() < near.blocks.len() * BLOCK {
            near.keys.resize(near.blocks.len() * BLOCK, 0);
        }
        let (mut count, mut first) = (0, 0);
        for (image, end) in &near.images {
            let t = lattice.translation(*image);
            let seen = tree.seen(std::array::from_fn(|k| self.queries.at()[i][k] - t[k]));
            let (blocks, keys) = (&near.blocks[first..*end], &mut near.keys[count..]);
            let limit = tree.squared_reach(reach, reach);
            let more = near_points(&self.cpu, &points.near, blocks, seen, limit, keys);
            // Places in the list of all images.
            keys[..more].iter_mut().for_each(|key| *key += (first * BLOCK) as u64);
            (count, first) = (count + more, *end);
        }
        let mut keys = &mut near.keys[..count];
        if count > self.k && tree.tells(reach) {
            let (_, last, _) = keys.select_nth_unstable(self.k - 1);
            // So many are as near as that.
            let distance = tree.distance(f32::from_bits((*last >> 32) as u32), reach);
            let limit = tree.squared_reach(distance + 2.0 * (reach - radius), reach);
            let mut kept = 0;
            for next in 0..count {
                if f32::from_bits((keys[next] >> 32) as u32) <= limit {
                    keys.swap(kept, next);
                    kept += 1;
                }
            }
            keys = &mut near.keys[..kept];
        }
        keys.sort_unstable();
        let (most, mut have) = (radius.min(self.limit), 0);
        for key in keys {
            let at = (*key as u32) as usize;
            let image = near.images.partition_point(|(_, end)| *end <= at / BLOCK);
            let first = points.first_point(near.blocks[at / BLOCK] as usize, system);
            let hit = self.hit(i, first + at % BLOCK, near.images[image].0, system);
            if hit.distance <= most {
                insert(hits, &mut have, hit);
            }
        }
        have
    }

    /// The nearest points of a query that has fewer than `k` within a radius.
    fn farther(&self, i: usize, system: usize, radius: f64, near: &mut Gathered, hits: &mut [Hit]) -> usize {
        let (at, lattice) = (self.queries.at()[i], &self.lattices[system]);
        let is_open = lattice.periodic == [false; 3];
        if self.points.batch.members(system).is_empty() {
            return 0;
        }
        let Extent { low, high } = self.points.extents[system];
        // In an open system no point is farther.
        let farthest = norm(std::array::from_fn(|k| (high[k] - at[k]).max(at[k] - low[k])));
        let largest = self.queries.largest[system].max(self.points.largest[system]);
        let farthest = (farthest + lattice.slack(largest, farthest)) * (1.0 + 1e-9);
        let (gap, mut beyond) = (self.gap(system, at), radius);
        loop {
            beyond *= 2.0;
            let radius = gap.hypot(beyond).min(if is_open { farthest } else { f64::MAX });
            if !self.gather(system, i..i + 1, radius, near) {
                return 0;
            }
            let have = self.among(i, system, near, hits);
            if have == self.k || is_open && radius >= farthest || radius >= self.limit || beyond > 1e300 {
                return have;
            }
        }
    }

    fn hit(&self, i: usize, j: usize, image: [i32; 3], system: usize) -> Hit {
        let (q, p) = (self.queries.wrap(i), self.points.wrap(j));
        let shift = std::array::from_fn(|k| image[k] + q[k] - p[k]);
        let distance = self.lattices[system].distance(self.queries.given[i], self.points.given[j], shift);
        Hit { distance, point: self.numbers[j], shift }
    }

    /// A radius within which k points are likely, and many more are not.
    fn first_radius(&self, system: usize) -> f64 {
        let (lattice, members) = (&self.lattices[system], self.points.batch.members(system));
        if members.is_empty() {
            return f64::MIN_POSITIVE.sqrt();
        }
        let Extent { low, high } = self.points.extents[system];
        let edges: [f64; 3] = std::array::from_fn(|k| high[k] - low[k]);
        let longest = edges.into_iter().fold(0.0, f64::max);
        let n = members.len() as f64;
        // Points in a plane or on a line are as deep as they are apart.
        let volume: f64 = edges.into_iter().map(|edge| edge.max(longest / n)).product();
        let mut radius = (volume * (self.k as f64 + 1.0) / n).cbrt();
        let boxes = (self.k as f64 + 1.0) / n;
        for axis in (0..3).filter(|axis| lattice.periodic[*axis]) {
            radius = radius.max(1e-3 * lattice.heights[axis]).min((boxes + 1.0) * lattice.heights[axis]);
        }
        if radius > 0.0 { radius } else { f64::MIN_POSITIVE.sqrt() }
    }
}

/// Puts a hit in its place, if that is among the first k.
fn insert(hits: &mut [Hit], have: &mut usize, hit: Hit) {
    let mut place = *have;
    while place > 0 && hit.is_before(&hits[place - 1]) {
        place -= 1;
    }
    if place < hits.len() {
        let end = (*have).min(hits.len() - 1);
        hits.copy_within(place..end, place + 1);
        hits[place] = hit;
        *have = end + 1;
    }
}
