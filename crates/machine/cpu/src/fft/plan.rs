//! Plans: the passes that make up a transform of some length, with their roots of unity.

use super::Float;
use std::cell::RefCell;
use std::f64::consts::TAU;
use std::sync::Arc;

/// The radices with code of their own, in the order in which they are taken out of a length.
const RADICES: [usize; 6] = [8, 4, 2, 3, 5, 7];

/// Plans that a thread keeps.
const KEPT: usize = 64;

/// The transform of lines of `len` complex numbers, pass by pass (Stockham's order, so no pass permutes anything).
pub(crate) struct Plan<T> {
    pub(super) len: usize,
    pub(super) passes: Vec<Pass<T>>,
}

/// Butterflies of `radix` numbers that lie `blocks · stride` apart.
pub(crate) struct Pass<T> {
    pub(super) radix: usize,
    /// The length of the transforms that are left behind this pass.
    pub(super) blocks: usize,
    /// The number of transforms before this pass: the product of the radices.
    pub(super) stride: usize,
    /// exp(−2πi p t / (radix · blocks)) for block p and t from 1 up to the radix.
    pub(super) twiddles: Vec<[T; 2]>,
    /// cos and sin of 2πt / radix.
    pub(super) roots: Vec<[T; 2]>,
}

impl<T: Float> Plan<T> {
    fn new(len: usize) -> Self {
        let (mut left, mut stride, mut passes) = (len, 1, vec![]);
        while left > 1 {
            let radix = next_radix(left);
            let blocks = left / radix;
            let number = |[cos, sin]: [f64; 2]| [T::of_f64(cos), T::of_f64(sin)];
            let conjugate = |[cos, sin]: [f64; 2]| [cos, -sin];
            passes.push(Pass {
                radix,
                blocks,
                stride,
                twiddles: (0..blocks)
                    .flat_map(|p| (1..radix).map(move |t| number(conjugate(root(p * t, left)))))
                    .collect(),
                roots: (0..radix).map(|t| number(root(t, radix))).collect(),
            });
            (left, stride) = (blocks, stride * radix);
        }
        Self { len, passes }
    }

    /// The plan for a length, of those that this thread has kept.
    pub(super) fn of(len: usize, kept: &RefCell<Vec<Arc<Self>>>) -> Arc<Self> {
        let mut kept = kept.borrow_mut();
        if let Some(plan) = kept.iter().find(|plan| plan.len == len) {
            return plan.clone();
        }
        if kept.len() == KEPT {
            kept.remove(0);
        }
        let plan = Arc::new(Self::new(len));
        kept.push(plan.clone());
        plan
    }

    /// The room that a transform of lanes needs besides its ends, in numbers for each lane: two spectra, and one for
    /// butterflies of any radix.
    pub(super) fn room(&self) -> usize {
        6 * self.len
    }
}

/// The radix of the next pass: a power of two is taken as eights and at most two fours, and a prime without code of its
/// own comes last, where nothing has to be turned.
fn next_radix(left: usize) -> usize {
    let of_eight = left.is_multiple_of(8) && (!left.is_multiple_of(16) || left.is_multiple_of(32));
    let known = |r: &&usize| left.is_multiple_of(**r) && (**r != 8 || of_eight);
    RADICES.iter().find(known).copied().unwrap_or_else(|| {
        (11..).step_by(2).take_while(|r| r * r <= left).find(|r| left.is_multiple_of(*r)).unwrap_or(left)
    })
}

/// Cosine and sine of 2πa/b, from an angle of at most an eighth of a turn: zeros, halves and ones are exact.
fn root(a: usize, b: usize) -> [f64; 2] {
    let a = a % b;
    if 2 * a > b {
        let [cos, sin] = root(b - a, b);
        return [cos, -sin];
    }
    if 4 * a > b {
        let [cos, sin] = root(b - 2 * a, 2 * b);
        return [-cos, sin];
    }
    if 8 * a > b {
        let [sin, cos] = root(b - 4 * a, 4 * b);
        return [cos, sin];
    }
    let (sin, cos) = (TAU * a as f64 / b as f64).sin_cos();
    [cos, sin]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_products_of_their_radices() {
        let radices = |n: usize| Plan::<f64>::new(n).passes.iter().map(|p| p.radix).collect::<Vec<_>>();
        assert!(radices(1).is_empty());
        assert_eq!(radices(64), [8, 8]);
        assert_eq!(radices(128), [8, 4, 4]);
        assert_eq!(radices(96), [8, 4, 3]);
        assert_eq!(radices(2 * 9 * 143), [2, 3, 3, 11, 13]);
        for n in 1..500 {
            assert_eq!(radices(n).iter().product::<usize>(), n);
        }
    }

    /// Cosine and sine of 2πa/b, corrected for the rounding of the angle and of 2π.
    fn unreduced(a: f64, b: f64) -> [f64; 2] {
        let beyond = 2.4492935982947064e-16;
        let turn = TAU * a;
        let angle = turn / b;
        let rest = (TAU.mul_add(a, -turn) + angle.mul_add(-b, turn) + beyond * a) / b;
        let (sin, cos) = angle.sin_cos();
        [cos - sin * rest, sin + cos * rest]
    }

    #[test]
    fn roots_of_unity_are_exact_where_they_can_be() {
        assert_eq!(
            (0..4).map(|a| root(a, 4)).collect::<Vec<_>>(),
            [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
        );
        for b in 1..200 {
            for a in 0..b {
                let [cos, sin] = unreduced(a as f64, b as f64);
                let [c, s] = root(a, b);
                assert!((c - cos).abs() < 1e-15 && (s - sin).abs() < 1e-15, "{a} {b}");
                assert_eq!(root(2 * a, 2 * b), root(a, b));
            }
        }
    }
}
