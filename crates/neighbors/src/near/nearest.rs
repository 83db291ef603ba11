//! The k nearest points of queries.
//!
//! Queries are taken in an order in space: the k-th distance of one and the way to the next bound that of the next, so
//! few points are looked at in vain.

use super::cloud::Cloud;
use super::pairs::image_range;
use crate::boxes::Extent;
use crate::lattice::{Lattice, displacement, norm, squared};
use madelung_core::stop::if_asked;
use madelung_cpu::Cpu;
use madelung_cpu::boxes::near_boxes;
use std::ops::Range;

/// A point, or an image of it, by its distance, its number, and S.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hit {
    pub(crate) distance: f64,
    pub(crate) point: i32,
    /// Place of the point in space.
    pub(crate) place: i32,
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
    pub(crate) cpu: Cpu,
}

impl Nearby<'_> {
    /// The nearest points of some queries, one after the other, `k` for each, and how many there are.
    pub(crate) fn find(&self, queries: Range<usize>, hits: &mut [Hit], counts: &mut [i32]) {
        let mut before: Option<usize> = None;
        let mut rest = hits;
        let mut last: &[Hit] = &[];
        for (i, count) in queries.clone().zip(counts) {
            if (i - queries.start).is_multiple_of(64) {
                if_asked();
            }
            let (hits, behind) = rest.split_at_mut(self.k);
            rest = behind;
            let system = self.queries.batch.of(i);
            // The nearest points of the query before are k points, too.
            let bound = before.filter(|b| *b == system).map(|_| self.farthest(i, system, last));
            let found = self.one(i, system, bound, hits);
            *count = found as i32;
            before = (found == self.k).then_some(system);
            last = hits;
        }
    }

    /// The largest distance of query `i` from images of points.
    fn farthest(&self, i: usize, system: usize, hits: &[Hit]) -> f64 {
        let before = self.queries.wrap(i - 1);
        let here = self.queries.wrap(i);
        let distance = |hit: &Hit| {
            let shift = std::array::from_fn(|k| hit.shift[k] + here[k] - before[k]);
            self.distance(i, hit.place as usize, shift, system)
        };
        hits.iter().map(distance).fold(0.0, f64::max)
    }

    /// The nearest points of query `i`, of which `k` are within `bound` if there is one.
    fn one(&self, i: usize, system: usize, bound: Option<f64>, hits: &mut [Hit]) -> usize {
        let (points, lattice) = (self.points, &self.lattices[system]);
        let members = points.batch.members(system);
        if members.is_empty() {
            return 0;
        }
        let at = self.queries.at[i];
        let Extent { low, high } = points.extents[system];
        let slack =
            lattice.slack(self.queries.largest[system].max(points.largest[system]), bound.unwrap_or(0.0));
        // In an open system no point is farther.
        let farthest = if lattice.periodic == [false; 3] {
            norm(std::array::from_fn(|k| (high[k] - at[k]).max(at[k] - low[k]))) * (1.0 + 1e-9)
        } else {
            f64::INFINITY
        };
        let mut radius =
            bound.map_or_else(|| self.first_radius(system), |bound| (bound + slack) * (1.0 + 1e-9));
        loop {
            radius = radius.min(farthest);
            let mut have = 0;
            let reach = (radius + slack) * (1.0 + 1e-9) + f64::MIN_POSITIVE;
            let mut limit = points.trees[system].squared_reach(reach);
            let images = image_range(lattice, &[at], reach);
            for x in images[0].clone() {
                for y in images[1].clone() {
                    for z in images[2].clone() {
                        let image = [x, y, z];
                        let t = lattice.translation(image);
                        let here: [f64; 3] = std::array::from_fn(|k| at[k] - t[k]);
                        let own = Extent { low: here, high: here };
                        let tree = &points.trees[system];
                        let seen = tree.seen(here);
                        tree.visit(&self.cpu, &own, reach * reach, points.first[system], &mut |block| {
                            let places = &points.near[block];
                            let mut near = near_boxes(&self.cpu, [places, places], [seen; 2], limit);
                            let first = points.first_point(block, system);
                            while near != 0 {
                                let hit = self.hit(i, first + near.trailing_zeros() as usize, image, system);
                                near &= near - 1;
                                if hit.distance <= radius && insert(hits, &mut have, hit) && have == self.k {
                                    limit = limit.min(tree.squared_reach(hits[have - 1].distance + slack));
                                }
                            }
                        });
                    }
                }
            }
            // All within the radius were seen, so the nearest k of them are the nearest of all.
            if have == self.k || radius >= farthest {
                return have;
            }
            // From outside of the box around all points nothing is nearer than that.
            let outside = norm(std::array::from_fn(|k| (low[k] - at[k]).max(at[k] - high[k]).max(0.0)));
            radius = 2.0 * if lattice.periodic == [false; 3] { radius.max(outside) } else { radius };
        }
    }

    fn hit(&self, i: usize, j: usize, image: [i32; 3], system: usize) -> Hit {
        let (q, p) = (self.queries.wrap(i), self.points.wrap(j));
        let shift = std::array::from_fn(|k| image[k] + q[k] - p[k]);
        Hit { distance: self.distance(i, j, shift, system), point: self.numbers[j], place: j as i32, shift }
    }

    fn distance(&self, i: usize, j: usize, shift: [i32; 3], system: usize) -> f64 {
        let rows = &self.lattices[system].rows;
        squared(displacement(rows, self.queries.given[i], self.points.given[j], shift)).sqrt()
    }

    /// A radius within which k points are likely, and many more are not.
    fn first_radius(&self, system: usize) -> f64 {
        let (lattice, members) = (&self.lattices[system], self.points.batch.members(system));
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

/// Puts a hit in its place, if that is among the first k; whether it is.
fn insert(hits: &mut [Hit], have: &mut usize, hit: Hit) -> bool {
    let mut place = *have;
    while place > 0 && hit.is_before(&hits[place - 1]) {
        place -= 1;
    }
    if place == hits.len() {
        return false;
    }
    let end = (*have).min(hits.len() - 1);
    hits.copy_within(place..end, place + 1);
    hits[place] = hit;
    *have = end + 1;
    true
}
