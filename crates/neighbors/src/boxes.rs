//! Boxes around clusters of points, around sixteen of these, and so on up to a whole system: a tree, from whose top is left
//! out what is out of reach.
//!
//! Boxes are in single precision, relative to the middle of the system and in units of its size, and rounded outwards: what
//! is left out is out of reach, and what is not is looked at more closely by whoever asks.

use madelung_cpu::Cpu;
use madelung_cpu::boxes::{Corners, FAN, near_boxes};

/// Coordinates beyond, in units of a system, count as that far away: their squares have room in single precision.
const FARTHEST: f64 = 1e15;

/// Squares below are as good as this one, which single precision has in full.
const LEAST_SQUARE: f64 = 1e-36;

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
}

/// [`FAN`] boxes, coordinate by coordinate; those that are not there are near nothing.
#[derive(Debug)]
struct Boxes {
    low: Corners,
    high: Corners,
}

impl Boxes {
    fn new(extents: &[Extent], frame: &Frame) -> Self {
        let (mut low, mut high) = ([[f32::INFINITY; FAN]; 3], [[f32::NEG_INFINITY; FAN]; 3]);
        for (n, extent) in extents.iter().enumerate() {
            let [from, to] = frame.outwards(extent);
            for k in 0..3 {
                (low[k][n], high[k][n]) = (from[k], to[k]);
            }
        }
        Self { low, high }
    }
}

/// Origin and unit of coordinates in single precision.
#[derive(Clone, Copy, Debug)]
struct Frame {
    origin: [f64; 3],
    scale: f64,
}

impl Frame {
    fn coordinate(&self, r: [f64; 3], k: usize) -> f32 {
        ((r[k] - self.origin[k]) * self.scale).clamp(-FARTHEST, FARTHEST) as f32
    }

    fn outwards(&self, extent: &Extent) -> [[f32; 3]; 2] {
        let low = std::array::from_fn(|k| self.coordinate(extent.low, k).next_down());
        let high = std::array::from_fn(|k| self.coordinate(extent.high, k).next_up());
        [low, high]
    }
}

/// Boxes around the clusters of a system, and around [`FAN`] of each level, up to as few.
#[derive(Debug)]
pub(crate) struct Tree {
    /// First cluster.
    first: usize,
    /// Longest edge of the clusters' boxes.
    pub(crate) longest: f64,
    /// Coordinates around the middle of the box around all.
    frame: Frame,
    /// Distance of the corners from the middle.
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
        let size: f64 = (0..3).map(|k| (all.high[k] - origin[k]).max(0.0)).sum();
        // A power of two, which rounds nothing.
        let scale = if size > 0.0 { (-size.log2().ceil().clamp(-1000.0, 1000.0)).exp2() } else { 1.0 };
        let frame = Frame { origin, scale };
        let mut levels: Vec<Vec<Boxes>> = vec![];
        let mut below = clusters;
        loop {
            levels.push(below.chunks(FAN).map(|boxes| Boxes::new(boxes, &frame)).collect());
            if below.len() <= FAN {
                return Self { first, longest, frame, size, levels };
            }
            let box_of = |boxes: &[Extent]| boxes.iter().fold(Extent::NONE, |all, e| all.with(*e));
            below = below.chunks(FAN).map(box_of).collect();
        }
    }

    /// A place in single precision.
    pub(crate) fn seen(&self, r: [f64; 3]) -> [f32; 3] {
        std::array::from_fn(|k| self.frame.coordinate(r, k))
    }

    /// Upper bound of the square that single precision has for a distance, between places as far apart at most as `reach`
    /// from a point of the system.
    pub(crate) fn squared_reach(&self, distance: f64, reach: f64) -> f32 {
        self.square(distance + self.blur(reach))
    }

    /// Whether single precision has distances of places as far apart as `reach`, and not bounds of them alone.
    pub(crate) fn tells(&self, reach: f64) -> bool {
        let reach = (self.size + reach) * self.frame.scale;
        reach < 0.1 * FARTHEST && reach.powi(2) > 1e6 * LEAST_SQUARE
    }

    fn square(&self, distance: f64) -> f32 {
        let square = (distance * self.frame.scale).powi(2).max(LEAST_SQUARE);
        ((square * (1.0 + 1e-5)) as f32).next_up()
    }

    /// Upper bound of the distance of which single precision has the square.
    pub(crate) fn distance(&self, square: f32, reach: f64) -> f64 {
        f64::from(square).sqrt() * (1.0 + 1e-5) / self.frame.scale + self.blur(reach)
    }

    /// Rounding error of a distance in single precision, at most.
    fn blur(&self, reach: f64) -> f64 {
        (self.size + reach) * 4.0 * f64::from(f32::EPSILON)
    }

    /// Calls `visit` with the clusters from `from` on whose boxes are closer to `own` than `reach`, and perhaps with some
    /// that are a little farther.
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
            let query = Query {
                cpu,
                own: self.frame.outwards(own),
                reach: self.square(reach),
                from: from - self.first,
            };
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
