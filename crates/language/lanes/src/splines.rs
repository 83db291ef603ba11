//! Cardinal B-splines at the nodes around a coordinate, and where these nodes are.
#![expect(unsafe_code, reason = "nodes are read and written through a launch's pointers")]

use crate::{Elem, Lane, Spilled, WIDEST};
use madelung_abi::{MAX_SPLINE_ORDER, MESH_HEADER, MESH_RECORD};

/// The mesh of a system: its sizes, the order of its splines, the range of planes that a call adds to, its first node, wave
/// and plane, where its moduli begin, and the origin and the extent of its window.
pub type MeshShape = [usize; 16];

/// The mesh of a system.
///
/// # Safety
/// `shapes` is the pointer of meshes ([`SlotArray::MeshShape`](madelung_abi::SlotArray)) that have the system.
#[inline(always)]
pub unsafe fn mesh_of(shapes: *const i32, system: usize) -> MeshShape {
    let of = MESH_HEADER + MESH_RECORD * system;
    // The planes of the call stand ahead of the systems.
    std::array::from_fn(|n| {
        let at = match n {
            0..4 => of + n,
            4 | 5 => n - 3,
            _ => of + n - 2,
        };
        // SAFETY: the caller's promise.
        unsafe { *shapes.add(at) as usize }
    })
}

/// The system of a wave.
///
/// # Safety
/// `shapes` is the pointer of meshes that have the wave.
#[inline(always)]
pub unsafe fn wave_system(shapes: *const i32, wave: usize) -> usize {
    // SAFETY: the caller's promise.
    let (mut first, mut behind) = (0, unsafe { *shapes } as usize);
    while first + 1 < behind {
        let middle = usize::midpoint(first, behind);
        // SAFETY: a system between the first and the last.
        let begin = unsafe { *shapes.add(MESH_HEADER + MESH_RECORD * middle + 5) } as usize;
        if begin <= wave { first = middle } else { behind = middle }
    }
    first
}

/// The pieces of every M_p as polynomials of t = x − ⌊x⌋ − ½, by p, power of t and node: zero beyond the p nodes, so that
/// whole registers of nodes can be computed.
static PIECES: [[Spilled<f64>; MAX_SPLINE_ORDER]; MAX_SPLINE_ORDER + 1] = pieces();

/// M_1 is 1 on [0, 1). M_n(x) = (x M_{n−1}(x) + (n − x) M_{n−1}(x − 1)) / (n − 1).
const fn pieces() -> [[Spilled<f64>; MAX_SPLINE_ORDER]; MAX_SPLINE_ORDER + 1] {
    let mut all = [[[0.0; WIDEST]; MAX_SPLINE_ORDER]; MAX_SPLINE_ORDER + 1];
    // By interval and power.
    let mut m = [[0.0; MAX_SPLINE_ORDER]; MAX_SPLINE_ORDER];
    m[0][0] = 1.0;
    let mut n = 1;
    while n <= MAX_SPLINE_ORDER {
        let mut j = n;
        while j > 0 && n > 1 {
            j -= 1;
            let (middle, mut k) = (j as f64 + 0.5, n);
            while k > 0 {
                k -= 1;
                let mut sum = middle * m[j][k];
                if k > 0 {
                    sum += m[j][k - 1];
                }
                if j > 0 {
                    sum += (n as f64 - middle) * m[j - 1][k];
                    if k > 0 {
                        sum -= m[j - 1][k - 1];
                    }
                }
                m[j][k] = sum / (n - 1) as f64;
            }
        }
        let mut j = 0;
        while j < n {
            let mut k = 0;
            while k < n {
                all[n][k][n - 1 - j] = m[j][k];
                k += 1;
            }
            j += 1;
        }
        n += 1;
    }
    all
}

/// M_p and its first `N` − 1 derivatives at the p nodes below a coordinate x, in the order of the mesh: at x − k for k from
/// ⌊x⌋ − p + 1 to ⌊x⌋ (Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 4.1), with the wrapped indices of these nodes
/// in the window. A node beyond it has no weight, and the index of its first node.
#[derive(Clone, Copy, Debug)]
pub struct Splines<const N: usize> {
    weights: [Spilled<f64>; N],
    first: usize,
    size: usize,
    extent: usize,
}

impl<const N: usize> Splines<N> {
    /// `shape`: the sizes of the mesh, none below p, and p.
    #[inline(always)]
    pub fn new<L: Lane<Elem = f64>>(shape: &MeshShape, axis: usize, x: f64) -> Self {
        let (size, order) = (shape[axis], shape[3]);
        let floor = x.floor();
        // For any number the last index is one of the mesh, and the others follow.
        let last = ((floor - (floor / size as f64).floor() * size as f64) as usize).min(size - 1);
        let first = if last + 1 >= order { last + 1 - order } else { last + 1 + size - order };
        let (origin, extent) = (shape[10 + axis], shape[13 + axis]);
        let first = if first >= origin { first - origin } else { first + size - origin };
        let mut s = Self { weights: [[0.0; WIDEST]; N], first, size, extent };
        let (t, pieces) = (L::splat(x - floor - 0.5), &PIECES[order]);
        for node in (0..order).step_by(L::N) {
            // Horner's rule for a polynomial and its derivatives, over d!.
            let mut sums = [L::splat(0.0); N];
            for piece in pieces[..order].iter().rev() {
                for d in (1..N).rev() {
                    sums[d] = sums[d].mul_add(t, sums[d - 1]);
                }
                // SAFETY: the order is at most 10, so registers of the nodes end before the last of the 16 numbers.
                sums[0] = sums[0].mul_add(t, unsafe { L::load(piece.as_ptr().add(node)) });
            }
            let mut factorial = 1.0;
            for (d, sum) in sums.into_iter().enumerate() {
                factorial *= d.max(1) as f64;
                // SAFETY: as above.
                unsafe { (sum * L::splat(factorial)).store(s.weights[d].as_mut_ptr().add(node)) };
            }
        }
        if extent < size {
            for node in (0..order).filter(|node| turned(first + node, size) >= extent) {
                s.weights.iter_mut().for_each(|weights| weights[node] = 0.0);
            }
        }
        s
    }

    /// The d-th derivative at a node.
    #[inline(always)]
    pub fn weight(&self, d: usize, node: i64) -> f64 {
        self.weights[d][node as usize]
    }

    /// The d-th derivative at nodes from `node` on, which is a multiple of the number of lanes.
    #[inline(always)]
    pub fn weights<L: Lane<Elem = f64>>(&self, d: usize, node: usize) -> L {
        assert!(node + L::N <= WIDEST);
        // SAFETY: the numbers are there.
        unsafe { L::load(self.weights[d].as_ptr().add(node)) }
    }

    /// The index of a node.
    #[inline(always)]
    pub fn index(&self, node: i64) -> usize {
        stored(self.first + node as usize, [self.size, self.extent])
    }

    /// The index of the node behind which `n` nodes lie side by side, or None where the end of the cell or of the window is
    /// between them.
    #[inline(always)]
    fn run(&self, node: usize, n: usize) -> Option<usize> {
        let first = turned(self.first + node, self.size);
        (first + n <= self.extent).then_some(first)
    }
}

/// One component of `n` nodes from `node` on along the third axis, whose first node is `line`; zeros in the lanes behind.
///
/// # Safety
/// `p` is valid for the elements of all nodes of the line, and 1 ≤ `n` ≤ `N`.
#[inline(always)]
pub unsafe fn node_load<E: Elem, L: Lane<Elem = f64>, const N: usize>(
    p: *const E,
    (line, along): (usize, &Splines<N>),
    (node, n): (usize, usize),
    (stride, component): (usize, usize),
) -> L {
    // SAFETY: the caller's promise; the indices are of the line.
    unsafe {
        match along.run(node, n) {
            Some(first) if stride == 1 => {
                let p = p.add(line + first);
                if size_of::<E>() == size_of::<f64>() {
                    L::load_some(p.cast(), n)
                } else {
                    L::load_some_f32(p.cast(), n)
                }
            }
            _ => {
                let at = (line, [along.size, along.extent], along.first + node, n);
                L::load(line_elements(p, at, (stride, component)).as_ptr())
            }
        }
    }
}

/// Adds `n` lanes to one component of the nodes that [`node_load`] reads; a null array is skipped.
///
/// # Safety
/// As [`node_load`], where no other thread touches the nodes.
#[inline(always)]
pub unsafe fn node_add<L: Lane<Elem = f64>, const N: usize>(
    p: *mut f64,
    (line, along): (usize, &Splines<N>),
    (node, n): (usize, usize),
    (stride, component): (usize, usize),
    x: L,
) {
    if p.is_null() {
        return;
    }
    // SAFETY: the caller's promise; the indices are of the line.
    unsafe {
        match along.run(node, n) {
            Some(first) if stride == 1 => {
                let p = p.add(line + first);
                (L::load_some(p, n) + x).store_first(p, n);
            }
            _ => {
                let mut lanes = [0.0; WIDEST];
                x.store(lanes.as_mut_ptr());
                let at = (line, [along.size, along.extent], along.first + node, n);
                add_to_line(p, at, (stride, component), &lanes);
            }
        }
    }
}

/// # Safety
/// As [`node_load`]: `n` nodes of a line from `first` on; `of`: the size of the mesh along it, and the window's extent.
#[inline(never)]
unsafe fn line_elements<E: Elem>(
    p: *const E,
    (line, of, first, n): (usize, [usize; 2], usize, usize),
    (stride, component): (usize, usize),
) -> Spilled<f64> {
    let mut x = [0.0; WIDEST];
    for (node, x) in (first..first + n).zip(&mut x) {
        // SAFETY: the caller's promise.
        *x = unsafe { *p.add((line + stored(node, of)) * stride + component) }.to_f64();
    }
    x
}

/// # Safety
/// As [`line_elements`].
#[inline(never)]
unsafe fn add_to_line(
    p: *mut f64,
    (line, of, first, n): (usize, [usize; 2], usize, usize),
    (stride, component): (usize, usize),
    x: &Spilled<f64>,
) {
    for (node, x) in (first..first + n).zip(x) {
        // SAFETY: the caller's promise.
        unsafe { *p.add((line + stored(node, of)) * stride + component) += x };
    }
}

/// An index at most one turn too far, by comparison: rows at the end of a line have no time for divisions.
#[inline(always)]
fn turned(index: usize, size: usize) -> usize {
    if index < size { index } else { index - size }
}

/// The place in a window of a node from its origin on, at most one turn too far: that of the first node for one beyond it,
/// since windows are no smaller than the order.
#[inline(always)]
fn stored(node: usize, [size, extent]: [usize; 2]) -> usize {
    if node < extent { node } else { node.saturating_sub(size) }
}

/// Whether any of the planes around a coordinate along the first axis is of this call. Rows that do not reach a window are
/// not left out: they add zeros.
#[inline(always)]
pub fn reaches(shape: &MeshShape, x: f64) -> bool {
    let (size, order, first) = (shape[0], shape[3], shape[8]);
    if shape[10] > 0 || shape[13] < size {
        return true;
    }
    // The call's planes of this system: usually an interval, into which a turn of the nodes may reach.
    let lo = shape[4].max(first) as i64 - first as i64;
    let hi = shape[5].min(first + size) as i64 - first as i64;
    let floor = x.floor();
    let last = (((floor - (floor / size as f64).floor() * size as f64) as usize).min(size - 1)) as i64;
    let first = last + 1 - order as i64;
    let meets = |first: i64, last: i64| first < hi && last >= lo;
    lo < hi && (meets(first, last) || (first < 0 && meets(first + size as i64, size as i64 - 1)))
}

/// The node with these indices.
#[inline(always)]
pub fn mesh_node(shape: &MeshShape, index: [usize; 3]) -> usize {
    shape[6] + (index[0] * shape[14] + index[1]) * shape[15] + index[2]
}

/// Whether a call adds to the nodes with this first index.
#[inline(always)]
pub fn in_planes(shape: &MeshShape, index: usize) -> bool {
    (shape[4]..shape[5]).contains(&(shape[8] + index))
}

/// Place of a wave along an axis of the half spectrum of its system.
#[inline(always)]
fn wave_place(shape: &MeshShape, wave: usize, axis: usize) -> usize {
    // The first wave of a part of the half spectrum lies ahead of its arrays: its number is below zero.
    let (along, wave) = (shape[2] / 2 + 1, wave.wrapping_sub(shape[7]));
    match axis {
        0 => wave / along / shape[1],
        1 => wave / along % shape[1],
        _ => wave % along,
    }
}

/// A component of the index of a wave: from below zero up to half the size of the mesh.
#[inline(always)]
pub fn wave_index(shape: &MeshShape, wave: usize, axis: usize) -> f64 {
    let k = wave_place(shape, wave, axis);
    if 2 * k > shape[axis] { -((shape[axis] - k) as f64) } else { k as f64 }
}

/// How many waves of a real mesh a wave of its half spectrum stands for.
#[inline(always)]
pub fn wave_count(shape: &MeshShape, wave: usize) -> f64 {
    let k = wave_place(shape, wave, 2);
    if k == 0 || 2 * k == shape[2] { 1.0 } else { 2.0 }
}

/// Places of a wave in arrays with a number for each wave of the first axis, then of the second and third.
#[inline(always)]
pub fn wave_places(shape: &MeshShape, wave: usize) -> [usize; 3] {
    let first = [0, shape[0], shape[0] + shape[1]];
    [0, 1, 2].map(|axis| shape[9] + first[axis] + wave_place(shape, wave, axis))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M_p(x) = Σ_k (−1)^k C(p, k) (x − k)₊^{p−1} / (p − 1)!, differentiated d times.
    fn by_powers(p: usize, x: f64, d: usize) -> f64 {
        let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
        let terms = (0..=p).filter(|k| x > *k as f64).map(|k| {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            let choose = factorial(p) / (factorial(k) * factorial(p - k));
            sign * choose * (x - k as f64).powi((p - 1 - d) as i32) / factorial(p - 1 - d)
        });
        terms.sum()
    }

    /// A whole mesh of these sizes.
    fn whole([k1, k2, k3]: [usize; 3], order: usize, [lo, hi]: [usize; 2], first_plane: usize) -> MeshShape {
        [k1, k2, k3, order, lo, hi, 0, 0, first_plane, 0, 0, 0, 0, k1, k2, k3]
    }

    #[test]
    fn splines_are_their_formula() {
        for p in 2..=MAX_SPLINE_ORDER {
            let shape = whole([p, 2 * p, 37], p, [0, 1], 0);
            for x in [0.0, 0.25, 3.7, 11.999, -0.4, -123.456, 1e6 + 0.125] {
                let s = Splines::<3>::new::<f64>(&shape, 1, x);
                let fraction = x - f64::floor(x);
                for d in 0..3.min(p) {
                    for j in 0..p {
                        // The formula cancels: terms grow as p^p / p!.
                        let exact = by_powers(p, fraction + (p - 1 - j) as f64, d);
                        let found = s.weight(d, j as i64);
                        // At x = 0 the formula is one-sided where the derivative jumps.
                        if fraction > 0.0 || d + 2 < p {
                            assert!((found - exact).abs() < 1e-10, "{p} {x} {d} {j}: {found} {exact}");
                        }
                    }
                }
                // A partition of unity, so its derivatives sum to zero.
                for (d, expected) in [1.0, 0.0, 0.0].into_iter().enumerate() {
                    let sum: f64 = (0..p).map(|j| s.weight(d, j as i64)).sum();
                    assert!((sum - expected).abs() < 1e-14, "{p} {x} {d}: {sum}");
                }
                for j in 0..p {
                    let k = (x.floor() - (p - 1 - j) as f64).rem_euclid(2.0 * p as f64);
                    assert_eq!(s.index(j as i64) as f64, k, "{p} {x} {j}");
                }
            }
        }
    }

    #[test]
    fn any_number_gives_nodes_of_the_mesh() {
        for x in [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            -f64::MAX,
            1e17,
            -1e17,
            -1e-300,
            7.0 - 1e-16,
        ] {
            let s = Splines::<1>::new::<f64>(&whole([7; 3], 4, [0, 7], 0), 0, x);
            assert!((0..4).all(|j| s.index(j) < 7), "{x}");
        }
        let mut shape = whole([3, 4, 5], 2, [0, 9], 6);
        shape[6] = 120;
        assert_eq!(mesh_node(&shape, [2, 3, 4]), 179);
    }

    #[test]
    fn a_point_reaches_the_planes_of_its_nodes() {
        for order in 2..=4 {
            for (lo, hi) in [(0, 3), (2, 9), (9, 14), (0, 14), (6, 7), (5, 5)] {
                let places = [0, 7].into_iter().flat_map(|b| (-20..20).map(move |x| (b, f64::from(x) + 0.3)));
                for (first, x) in places {
                    let shape = whole([7; 3], order, [lo, hi], first);
                    let s = Splines::<1>::new::<f64>(&shape, 0, x);
                    let any = (0..order as i64).any(|j| in_planes(&shape, s.index(j)));
                    assert_eq!(reaches(&shape, x), any, "{shape:?} {x}");
                    // Of a window, no row that adds to it is left out.
                    for (origin, extent) in [(3, 7), (0, 4), (5, 5)] {
                        let mut shape = shape;
                        (shape[10], shape[13]) = (origin, extent);
                        let s = Splines::<1>::new::<f64>(&shape, 0, x);
                        let adds = |j: i64| s.weight(0, j) != 0.0 && in_planes(&shape, s.index(j));
                        assert!(reaches(&shape, x) || !(0..order as i64).any(adds), "{shape:?} {x}");
                    }
                }
            }
        }
    }

    #[test]
    fn lines_are_read_and_added_to_around_their_end() {
        let shape = whole([4, 4, 5], 3, [0, 4], 0);
        let mut line: Vec<f64> = (0..10).map(f64::from).collect();
        for x in [1.5, 2.5, 4.5, 5.5, 6.5] {
            let s = Splines::<1>::new::<f64>(&shape, 2, x);
            for node in 0..3 {
                // SAFETY: the line has two numbers for each of its five nodes.
                unsafe {
                    let at = 2 * s.index(node as i64) + 1;
                    let before = line[at];
                    let read = node_load::<f64, f64, 1>(line.as_ptr(), (0, &s), (node, 1), (2, 1));
                    assert_eq!(read, before);
                    node_add::<f64, 1>(line.as_mut_ptr(), (0, &s), (node, 1), (2, 1), 0.5);
                    assert_eq!(line[at], before + 0.5);
                    let read = node_load::<f64, f64, 1>(line.as_ptr(), (5, &s), (node, 1), (1, 0));
                    assert_eq!(read, line[5 + s.index(node as i64)]);
                }
            }
        }
    }

    #[test]
    fn nodes_beyond_a_window_have_no_weight() {
        let (size, order) = (9, 4);
        for (origin, extent) in (0..size).flat_map(|o| (order..=size).map(move |e| (o, e))) {
            let mut shape = whole([size; 3], order, [0, size], 0);
            (shape[12], shape[15]) = (origin, extent);
            for x in [-3.6, 0.2, 2.9, 8.5, 20.1] {
                let all = Splines::<2>::new::<f64>(&whole([size; 3], order, [0, size], 0), 2, x);
                let part = Splines::<2>::new::<f64>(&shape, 2, x);
                let (mut line, mut expected) = (vec![0.0; extent], vec![0.0; extent]);
                for j in 0..order as i64 {
                    let place = (all.index(j) + size - origin) % size;
                    for d in 0..2 {
                        let weight = if place < extent { all.weight(d, j) } else { 0.0 };
                        assert_eq!(part.weight(d, j), weight, "{origin} {extent} {x} {j}");
                    }
                    if place < extent {
                        assert_eq!(part.index(j), place);
                        expected[place] = all.weight(0, j);
                    }
                    // SAFETY: the line has the nodes of the window.
                    unsafe {
                        let weight = part.weight(0, j);
                        node_add::<f64, 2>(line.as_mut_ptr(), (0, &part), (j as usize, 1), (1, 0), weight);
                    }
                }
                assert_eq!(line, expected, "{origin} {extent} {x}");
            }
        }
    }
}
