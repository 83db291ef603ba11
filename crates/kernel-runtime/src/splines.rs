//! Cardinal B-splines at the nodes around a coordinate, and where these nodes are.

use madelung_kernel_abi::MAX_SPLINE_ORDER;

/// The sizes of a mesh, the order of its splines, and the range of planes that a call adds to.
pub type MeshShape = [usize; 6];

/// M_p and its first `N` − 1 derivatives at the p nodes below a coordinate x: at x − k for k = ⌊x⌋, ⌊x⌋ − 1, … (Essmann
/// et al., J. Chem. Phys. 103, 8577 (1995), eq. 4.1), with the wrapped indices of these nodes.
#[derive(Clone, Copy, Debug)]
pub struct Splines<const N: usize> {
    weights: [[f64; MAX_SPLINE_ORDER]; N],
    indices: [usize; MAX_SPLINE_ORDER],
}

impl<const N: usize> Splines<N> {
    /// `shape`: the sizes of the mesh and p.
    #[inline]
    pub fn new(shape: &MeshShape, axis: usize, x: f64) -> Self {
        let (size, order) = (shape[axis], shape[3]);
        let floor = x.floor();
        let fraction = x - floor;
        let mut s = Self { weights: [[0.0; MAX_SPLINE_ORDER]; N], indices: [0; MAX_SPLINE_ORDER] };
        // For any number the first index is one of the mesh, and the others follow.
        let cells = (floor / size as f64).floor();
        let mut index = ((-cells).mul_add(size as f64, floor) as usize).min(size - 1);
        for out in &mut s.indices[..order] {
            *out = index;
            index = if index == 0 { size - 1 } else { index - 1 };
        }
        // M_1 is 1 on [0, 1). M_n(x) = (x M_{n−1}(x) + (n − x) M_{n−1}(x − 1)) / (n − 1).
        let mut m = [0.0; MAX_SPLINE_ORDER];
        m[0] = 1.0;
        for n in 1..=order {
            if n > 1 {
                let scale = 1.0 / (n - 1) as f64;
                for j in (0..n).rev() {
                    let x = fraction + j as f64;
                    let below = if j == 0 { 0.0 } else { m[j - 1] };
                    m[j] = scale * (x * m[j] + (n as f64 - x) * below);
                }
            }
            // The d-th derivative of M_p is the d-th difference of M_{p−d}.
            let d = order - n;
            if d < N {
                let w = &mut s.weights[d];
                *w = m;
                for _ in 0..d {
                    for j in (1..order).rev() {
                        w[j] -= w[j - 1];
                    }
                }
            }
        }
        s
    }

    /// The d-th derivative at a node.
    #[inline(always)]
    pub fn weight(&self, d: usize, node: i64) -> f64 {
        self.weights[d][node as usize]
    }

    /// The index of a node.
    #[inline(always)]
    pub fn index(&self, node: i64) -> usize {
        self.indices[node as usize]
    }
}

/// The node with these indices, in the mesh of a system.
#[inline(always)]
pub fn mesh_node(shape: &MeshShape, system: usize, index: [usize; 3]) -> usize {
    ((system * shape[0] + index[0]) * shape[1] + index[1]) * shape[2] + index[2]
}

/// Whether a call adds to the nodes with this first index.
#[inline(always)]
pub fn in_planes(shape: &MeshShape, system: usize, index: usize) -> bool {
    (shape[4]..shape[5]).contains(&(system * shape[0] + index))
}

/// Place of a wave along an axis of the half spectrum of its system.
#[inline(always)]
fn wave_place(shape: &MeshShape, wave: usize, axis: usize) -> usize {
    let along = shape[2] / 2 + 1;
    match axis {
        0 => wave / along / shape[1] % shape[0],
        1 => wave / along % shape[1],
        _ => wave % along,
    }
}

/// The system of a wave: half spectra follow each other.
#[inline(always)]
pub fn wave_system(shape: &MeshShape, wave: usize) -> usize {
    wave / (shape[0] * shape[1] * (shape[2] / 2 + 1))
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
    [0, 1, 2].map(|axis| first[axis] + wave_place(shape, wave, axis))
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

    #[test]
    fn splines_are_their_formula() {
        for p in 2..=MAX_SPLINE_ORDER {
            let shape = [p, 2 * p, 37, p, 0, 1];
            for x in [0.0, 0.25, 3.7, 11.999, -0.4, -123.456, 1e6 + 0.125] {
                let s = Splines::<3>::new(&shape, 1, x);
                let fraction = x - f64::floor(x);
                for d in 0..3.min(p) {
                    for j in 0..p {
                        // The formula cancels: terms grow as p^p / p!.
                        let exact = by_powers(p, fraction + j as f64, d);
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
                    let k = (x.floor() - j as f64).rem_euclid(2.0 * p as f64);
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
            let s = Splines::<1>::new(&[7, 7, 7, 4, 0, 7], 0, x);
            assert!((0..4).all(|j| s.index(j) < 7), "{x}");
        }
        assert_eq!(mesh_node(&[3, 4, 5, 2, 0, 9], 2, [2, 3, 4]), 179);
    }
}
