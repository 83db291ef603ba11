//! Points of any number of coordinates, without cells and images: a tree of halves along the longest axis of their boxes
//! (J. L. Bentley, Commun. ACM 18, 509 (1975)).

use madelung_core::array::filled;
use madelung_core::structure::Batch;
use std::ops::Range;

/// Points of a leaf, at most.
const LEAF: usize = 12;

/// A point by its squared distance and number.
pub(crate) type Near = (f64, i32);

/// Trees of the points of each system.
pub(crate) struct Halves {
    axes: usize,
    /// Coordinates, point by point, in the order of leaves.
    at: Vec<f64>,
    /// The point of each place.
    order: Vec<i32>,
    nodes: Vec<Node>,
    /// Corners of the boxes of nodes, the lower ones and then the upper ones.
    corners: Vec<f64>,
    /// The root of each system that has points.
    roots: Vec<Option<usize>>,
}

struct Node {
    places: Range<usize>,
    /// The second half; the first one follows its node.
    second: Option<usize>,
}

impl Halves {
    /// Trees of points (N, `axes`), row by row.
    pub(crate) fn new(points: &[f64], axes: usize, batch: &Batch<'_>) -> Self {
        let order = (0..batch.atoms() as i32).collect();
        let (nodes, corners, roots) = (vec![], vec![], vec![]);
        let mut tree = Self { axes, at: vec![], order, nodes, corners, roots };
        for b in 0..batch.systems() {
            let members = batch.members(b);
            let root = (!members.is_empty()).then(|| tree.divide(points, members));
            tree.roots.push(root);
        }
        let rows = tree.order.iter().flat_map(|i| &points[*i as usize * axes..][..axes]);
        tree.at = rows.copied().collect();
        tree
    }

    /// The number of the node of some places.
    fn divide(&mut self, points: &[f64], places: Range<usize>) -> usize {
        let (axes, node) = (self.axes, self.nodes.len());
        self.nodes.push(Node { places: places.clone(), second: None });
        let first = self.corners.len();
        self.corners.extend(filled(axes, f64::INFINITY));
        self.corners.extend(filled(axes, f64::NEG_INFINITY));
        let (low, high) = self.corners[first..].split_at_mut(axes);
        for i in &self.order[places.clone()] {
            let row = &points[*i as usize * axes..][..axes];
            for ((low, high), x) in low.iter_mut().zip(&mut *high).zip(row) {
                (*low, *high) = (low.min(*x), high.max(*x));
            }
        }
        if places.len() > LEAF {
            let longest = (0..axes).max_by(|a, b| (high[*a] - low[*a]).total_cmp(&(high[*b] - low[*b])));
            let (longest, half) = (longest.unwrap_or(0), places.len() / 2);
            let along = |i: &i32| points[*i as usize * axes + longest];
            self.order[places.clone()].select_nth_unstable_by(half, |i, j| along(i).total_cmp(&along(j)));
            let middle = places.start + half;
            self.divide(points, places.start..middle);
            let second = self.divide(points, middle..places.end);
            self.nodes[node].second = Some(second);
        }
        node
    }

    /// The square of a distance that no point of a node is nearer than.
    fn bound(&self, node: usize, query: &[f64]) -> f64 {
        let (low, high) = self.corners[2 * self.axes * node..][..2 * self.axes].split_at(self.axes);
        let beyond = low.iter().zip(high).zip(query).map(|((low, high), x)| (low - x).max(x - high).max(0.0));
        // Below the rounding of a sum of squares.
        beyond.map(|d| d * d).sum::<f64>() * (1.0 - 1e-12)
    }

    /// Calls `f(square, point)` for the points of a system whose squared distance is at most a limit, which `f` gives anew.
    pub(crate) fn visit(&self, system: usize, query: &[f64], mut limit: f64, mut f: impl FnMut(Near) -> f64) {
        let mut left: Vec<(f64, usize)> = vec![];
        left.extend(self.roots[system].map(|root| (self.bound(root, query), root)));
        while let Some((bound, node)) = left.pop() {
            if bound > limit {
                continue;
            }
            let Node { places, second } = &self.nodes[node];
            if let Some(second) = *second {
                let halves = [node + 1, second].map(|half| (self.bound(half, query), half));
                let [near, far] = if halves[0].0 <= halves[1].0 { halves } else { [halves[1], halves[0]] };
                left.extend([far, near]);
                continue;
            }
            for place in places.clone() {
                let row = &self.at[place * self.axes..][..self.axes];
                let square: f64 = row.iter().zip(query).map(|(r, q)| (r - q) * (r - q)).sum();
                if square <= limit {
                    limit = f((square, self.order[place]));
                }
            }
        }
    }

    /// All points that are as near as the `k` nearest of a query, or as a radius, by distance and number: where distances are
    /// those that `reach` gives of them.
    pub(crate) fn nearest(
        &self,
        system: usize,
        query: &[f64],
        k: usize,
        radius: f64,
        reach: &dyn Fn(f64) -> f64,
        found: &mut Vec<Near>,
    ) {
        found.clear();
        let squared = |distance: f64| distance * distance * (1.0 + 1e-12);
        let mut limit = squared(reach(radius));
        self.visit(system, query, limit, |near| {
            let place = found.partition_point(|other| *other < near);
            found.insert(place, near);
            if found.len() >= k {
                limit = limit.min(squared(reach(found[k - 1].0.sqrt())));
                found.truncate(found.partition_point(|other| other.0 <= limit));
            }
            limit
        });
    }

    /// The points within a radius of a query, by number.
    pub(crate) fn within(&self, system: usize, query: &[f64], radius: f64, found: &mut Vec<Near>) {
        found.clear();
        let most = radius * radius * (1.0 + 1e-12);
        self.visit(system, query, most, |near| {
            found.extend((near.0.sqrt() <= radius).then_some(near));
            most
        });
        found.sort_unstable_by_key(|(_, point)| *point);
    }
}
