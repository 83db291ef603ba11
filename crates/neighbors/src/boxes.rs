//! Boxes around clusters of points, around sixteen of these, and so on up to a whole system: a tree, from whose top is left
//! out what is out of reach.
//!
//! Boxes are in single precision, relative to the middle of the system, and rounded outwards: what is left out is out of
//! reach, and what is not is looked at more closely by whoever asks.

use madelung_cpu::Cpu;
use madelung_cpu::boxes::{Corners, FAN, near_boxes};

/// Box around points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) low: [f64; 3],
    pub(crate) high: [f64; 3],
}

impl Extent {
    pub(crate) const NONE: Self = Self { low: [f64::INFINITY; 3], high: [f64::NEG_INFINITY; 3] };

    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            low: std::array::from_fn(|k| self.low[k].min(other.low[k])),
            high: std::array::from_fn(|k| self.high[k].max(other.high[k])),
        }
    }

    pub(crate) fn moved(self, t: [f64; 3]) -> Self {
        Self {
            low: std::array::from_fn(|k| self.low[k] + t[k]),
            high: std::array::from_fn(|k| self.high[k] + t[k]),
        }
    }

    /// In single precision from `origin`, rounded outwards.
    fn outwards(&self, origin: [f64; 3]) -> [[f32; 3]; 2] {
        let low = std::array::from_fn(|k| ((self.low[k] - origin[k]) as f32).next_down());
        let high = std::array::from_fn(|k| ((self.high[k] - origin[k]) as f32).next_up());
        [low, high]
    }
}

/// [`FAN`] boxes, coordinate by coordinate; those that are not there are near nothing.
#[derive(Debug)]
struct Boxes {
    low: Corners,
    high: Corners,
}

impl Boxes {
    fn new(extents: &[Extent], origin: [f64; 3]) -> Self {
        let (mut low, mut high) = ([[f32::INFINITY; FAN]; 3], [[f32::NEG_INFINITY; FAN]; 3]);
        for (n, extent) in extents.iter().enumerate() {
            let [from, to] = extent.outwards(origin);
            for k in 0..3 {
                (low[k][n], high[k][n]) = (from[k], to[k]);
            }
        }
        Self { low, high }
    }
}

/// Boxes around the clusters of a system, and around [`FAN`] of each level, up to as few.
#[derive(Debug)]
pub(crate) struct Tree {
    /// First cluster.
    first: usize,
    /// Longest edge of the clusters' boxes.
    pub(crate) longest: f64,
    /// Middle of the box around all.
    origin: [f64; 3],
    /// Distance of the corners from there.
    size: f64,
    levels: Vec<Vec<Boxes>>,
}

impl Tree {
    pub(crate) fn new(first: usize, clusters: Vec<Extent>) -> Self {
        let edges = clusters.iter().flat_map(|e| (0..3).map(|k| e.high[k] - e.low[k]));
        let longest = edges.fold(0.0, f64::max);
        let all = clusters.iter().fold(Extent::NONE, |all, e| all.with(*e));
        let origin = if clusters.is_empty() {
            [0.0; 3]
        } else {
            std::array::from_fn(|k| 0.5 * (all.low[k] + all.high[k]))
        };
        let size = (0..3).map(|k| (all.high[k] - origin[k]).max(0.0)).sum();
        let mut levels: Vec<Vec<Boxes>> = vec![];
        let mut below = clusters;
        loop {
            levels.push(below.chunks(FAN).map(|boxes| Boxes::new(boxes, origin)).collect());
            if below.len() <= FAN {
                return Self { first, longest, origin, size, levels };
            }
            let box_of = |boxes: &[Extent]| boxes.iter().fold(Extent::NONE, |all, e| all.with(*e));
            below = below.chunks(FAN).map(box_of).collect();
        }
    }

    /// A place in single precision, from the middle.
    pub(crate) fn seen(&self, r: [f64; 3]) -> [f32; 3] {
        std::array::from_fn(|k| (r[k] - self.origin[k]) as f32)
    }

    /// Square of a distance, with what single precision rounds off of places that far apart in the system.
    pub(crate) fn squared_reach(&self, distance: f64) -> f32 {
        let blur = (self.size + distance) * 4.0 * f64::from(f32::EPSILON);
        (((distance + blur).powi(2) * (1.0 + 1e-5)) as f32).next_up()
    }

    /// Calls `visit` with the clusters from `from` on whose boxes are closer to `own` than the root of `reach`, and perhaps
    /// with some that are a little farther.
    pub(crate) fn visit(
        &self,
        cpu: &Cpu,
        own: &Extent,
        reach: f64,
        from: usize,
        visit: &mut impl FnMut(usize),
    ) {
        let top = self.levels.len() - 1;
        if !self.levels[top].is_empty() {
            // Squares are rounded.
            let reach = ((reach * (1.0 + 1e-5)) as f32).next_up();
            let query = Query { cpu, own: own.outwards(self.origin), reach, from: from - self.first };
            self.descend(top, 0, &query, visit);
        }
    }

    fn descend(&self, level: usize, node: usize, query: &Query<'_>, visit: &mut impl FnMut(usize)) {
        let Boxes { low, high } = &self.levels[level][node];
        let mut near = near_boxes(query.cpu, [low, high], query.own, query.reach);
        let ahead = (query.from / FAN.pow(level as u32)).saturating_sub(node * FAN);
        near &= (!0u32).checked_shl(ahead as u32).unwrap_or(0);
        while near != 0 {
            let child = node * FAN + near.trailing_zeros() as usize;
            near &= near - 1;
            if level == 0 {
                visit(self.first + child);
            } else {
                self.descend(level - 1, child, query, visit);
            }
        }
    }
}

struct Query<'a> {
    cpu: &'a Cpu,
    own: [[f32; 3]; 2],
    reach: f32,
    from: usize,
}
