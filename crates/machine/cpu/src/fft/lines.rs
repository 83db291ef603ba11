//! Complex transforms of as many lines as there are lanes, one line on each lane.

use super::plan::{Pass, Plan};
use super::transform::Lanes;
use madelung_core::runtime::lanes::Elem;

/// A complex number on each lane.
type Complex<L> = [L; 2];

/// Lines side by side: the k-th numbers of all of them begin at `k · stride`.
#[derive(Clone, Copy)]
pub(super) struct Lines<T> {
    pub(super) re: *mut T,
    pub(super) im: *mut T,
    pub(super) stride: usize,
}

impl<T> Lines<T> {
    /// Real and imaginary parts exchanged: a transform from and to such lines is the inverse.
    pub(super) fn exchanged(self) -> Self {
        Self { re: self.im, im: self.re, stride: self.stride }
    }

    /// The lines `offset` numbers on.
    pub(super) fn from(self, offset: usize) -> Self {
        Self { re: self.re.wrapping_add(offset), im: self.im.wrapping_add(offset), stride: self.stride }
    }

    /// # Safety
    /// The lines have their `k`-th numbers.
    #[inline(always)]
    pub(super) unsafe fn get<L: Lanes<Elem = T>>(&self, k: usize) -> Complex<L> {
        // SAFETY: the caller's promise.
        unsafe { [L::load(self.re.add(k * self.stride)), L::load(self.im.add(k * self.stride))] }
    }

    /// # Safety
    /// The lines have their `k`-th numbers, which are the caller's to write.
    #[inline(always)]
    pub(super) unsafe fn set<L: Lanes<Elem = T>>(&self, k: usize, [re, im]: Complex<L>) {
        // SAFETY: the caller's promise.
        unsafe {
            re.store(self.re.add(k * self.stride));
            im.store(self.im.add(k * self.stride));
        }
    }
}

/// X_k = Σ_n x_n exp(−2πi k n / K), from lines to lines, which may be the same.
///
/// # Safety
/// The processor has the instructions of `L`; both lines are `plan.len` long and `room` has `plan.room() · N` numbers of
/// its own.
#[inline(always)]
pub(super) unsafe fn run<L: Lanes>(
    plan: &Plan<L::Elem>,
    from: Lines<L::Elem>,
    to: Lines<L::Elem>,
    room: *mut L::Elem,
) {
    let size = plan.len * L::N;
    let part = |p: usize| Lines {
        re: room.wrapping_add(2 * p * size),
        im: room.wrapping_add((2 * p + 1) * size),
        stride: L::N,
    };
    let mut from = from;
    for (n, pass) in plan.passes.iter().enumerate() {
        let to = if n + 1 == plan.passes.len() { to } else { part(n % 2) };
        // SAFETY: the caller's promise; passes go to and fro between two parts of the room, so only a single pass may
        // read where it writes: it consists of one butterfly, which reads all numbers first.
        unsafe {
            match pass.radix {
                8 => butterflies::<L, 8>(pass, from, to),
                4 => butterflies::<L, 4>(pass, from, to),
                2 => butterflies::<L, 2>(pass, from, to),
                3 => butterflies::<L, 3>(pass, from, to),
                5 => butterflies::<L, 5>(pass, from, to),
                7 => butterflies::<L, 7>(pass, from, to),
                _ => any_radix::<L>(pass, from, to, part(2)),
            }
        }
        from = to;
    }
    if plan.passes.is_empty() {
        // SAFETY: lines of one number.
        unsafe { to.set::<L>(0, from.get(0)) }
    }
}

#[inline(always)]
fn splat<L: Lanes>([a, b]: [L::Elem; 2]) -> Complex<L> {
    [L::splat(a.to_f64()), L::splat(b.to_f64())]
}

#[inline(always)]
fn times<L: Lanes>([a, b]: Complex<L>, [c, d]: Complex<L>) -> Complex<L> {
    [a.mul_add(c, -(b * d)), a.mul_add(d, b * c)]
}

/// # Safety
/// Those of [`run`].
#[inline(always)]
unsafe fn butterflies<L: Lanes, const R: usize>(
    pass: &Pass<L::Elem>,
    from: Lines<L::Elem>,
    to: Lines<L::Elem>,
) {
    let (blocks, stride) = (pass.blocks, pass.stride);
    let zero = [L::splat(0.0); 2];
    for (p, twiddles) in (0..blocks).zip(pass.twiddles.chunks_exact(R - 1)) {
        for q in 0..stride {
            let mut x = [zero; R];
            for (u, x) in x.iter_mut().enumerate() {
                // SAFETY: R · blocks · stride numbers are the length.
                *x = unsafe { from.get(q + stride * (p + u * blocks)) };
            }
            let mut y = butterfly::<L, R>(x, &pass.roots);
            if p > 0 {
                for (y, twiddle) in y[1..].iter_mut().zip(twiddles) {
                    *y = times(*y, splat::<L>(*twiddle));
                }
            }
            for (t, y) in y.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { to.set(q + stride * (R * p + t), y) };
            }
        }
    }
}

#[inline(always)]
fn add<L: Lanes>(a: Complex<L>, b: Complex<L>) -> Complex<L> {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn sub<L: Lanes>(a: Complex<L>, b: Complex<L>) -> Complex<L> {
    [a[0] - b[0], a[1] - b[1]]
}

/// a − i b and a + i b.
#[inline(always)]
fn turned<L: Lanes>(a: Complex<L>, b: Complex<L>) -> [Complex<L>; 2] {
    [[a[0] + b[1], a[1] - b[0]], [a[0] - b[1], a[1] + b[0]]]
}

/// a + √½ b and a − √½ b.
#[inline(always)]
fn diagonal<L: Lanes>(a: Complex<L>, b: Complex<L>) -> [Complex<L>; 2] {
    let half_root = L::splat(std::f64::consts::FRAC_1_SQRT_2);
    [scaled_add(a, b, half_root), scaled_add(a, b, -half_root)]
}

/// a + s b.
#[inline(always)]
fn scaled_add<L: Lanes>(a: Complex<L>, b: Complex<L>, s: L) -> Complex<L> {
    [b[0].mul_add(s, a[0]), b[1].mul_add(s, a[1])]
}

#[inline(always)]
fn four<L: Lanes>(x: [Complex<L>; 4]) -> [Complex<L>; 4] {
    let (even, odd) = (add(x[0], x[2]), add(x[1], x[3]));
    let [y1, y3] = turned(sub(x[0], x[2]), sub(x[1], x[3]));
    [add(even, odd), y1, sub(even, odd), y3]
}

#[inline(always)]
fn eight<L: Lanes>(x: [Complex<L>; 8]) -> [Complex<L>; 8] {
    let even = four([x[0], x[2], x[4], x[6]]);
    let odd = four([x[1], x[3], x[5], x[7]]);
    let [y1, y5] = diagonal(even[1], [odd[1][0] + odd[1][1], odd[1][1] - odd[1][0]]);
    let [y2, y6] = turned(even[2], odd[2]);
    let [y3, y7] = diagonal(even[3], [odd[3][1] - odd[3][0], -(odd[3][0] + odd[3][1])]);
    [add(even[0], odd[0]), y1, y2, y3, sub(even[0], odd[0]), y5, y6, y7]
}

#[inline(always)]
fn butterfly<L: Lanes, const R: usize>(x: [Complex<L>; R], roots: &[[L::Elem; 2]]) -> [Complex<L>; R] {
    let mut y = x;
    match R {
        2 => [y[0], y[1]] = [add(x[0], x[1]), sub(x[0], x[1])],
        4 => y.copy_from_slice(&four([x[0], x[1], x[2], x[3]])),
        8 => y.copy_from_slice(&eight([x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]])),
        _ => {
            // Numbers at equal distances from x₀ meet conjugate roots.
            let (mut sum, mut difference) = (x, x);
            for u in 1..=R / 2 {
                (sum[u], difference[u]) = (add(x[u], x[R - u]), sub(x[u], x[R - u]));
                y[0] = add(y[0], sum[u]);
            }
            for t in 1..=R / 2 {
                let (mut along, mut across) = (x[0], [L::splat(0.0); 2]);
                for u in 1..=R / 2 {
                    let [cos, sin] = splat::<L>(roots[t * u % R]);
                    along = scaled_add(along, sum[u], cos);
                    across = scaled_add(across, difference[u], sin);
                }
                [y[t], y[R - t]] = turned(along, across);
            }
        }
    }
    y
}

/// Butterflies of an odd radix, sum by sum.
///
/// # Safety
/// Those of [`run`]; `room` has a number for each of the radix.
#[inline(always)]
unsafe fn any_radix<L: Lanes>(
    pass: &Pass<L::Elem>,
    from: Lines<L::Elem>,
    to: Lines<L::Elem>,
    room: Lines<L::Elem>,
) {
    let (radix, blocks, stride) = (pass.radix, pass.blocks, pass.stride);
    for p in 0..blocks {
        for q in 0..stride {
            let at = |u: usize| q + stride * (p + u * blocks);
            let place = |t: usize| q + stride * (radix * p + t);
            let twiddle = |t: usize| pass.twiddles[p * (radix - 1) + t - 1];
            // SAFETY: radix · blocks · stride numbers are the length; the room has sums in its first half, and
            // differences behind.
            unsafe {
                let first = from.get::<L>(at(0));
                let mut all = first;
                for u in 1..=radix / 2 {
                    let (x, y) = (from.get::<L>(at(u)), from.get(at(radix - u)));
                    all = add(all, add(x, y));
                    room.set(u, add(x, y));
                    room.set(radix - u, sub(x, y));
                }
                to.set(place(0), all);
                for t in 1..=radix / 2 {
                    let (mut along, mut across, mut root) = (first, [L::splat(0.0); 2], 0);
                    for u in 1..=radix / 2 {
                        root = if root + t < radix { root + t } else { root + t - radix };
                        let [cos, sin] = splat::<L>(pass.roots[root]);
                        along = scaled_add(along, room.get(u), cos);
                        across = scaled_add(across, room.get(radix - u), sin);
                    }
                    let [x, y] = turned(along, across);
                    to.set(place(t), times(x, splat(twiddle(t))));
                    to.set(place(radix - t), times(y, splat(twiddle(radix - t))));
                }
            }
        }
    }
}
