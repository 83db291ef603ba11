//! The special functions, once for all lane types.
//!
//! No branches: both sides are computed and selected. Comparisons are false for NaN, and each function is arranged
//! so that a NaN argument falls through to a NaN result.

use super::coefficients::*;
use super::lane::Lane;
use core::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, LOG2_E, PI};
use core::ops::{Add, Mul, Sub};

const TAN_PI_8: f64 = 0.4142135623730951;

/// The constants of one element type. `magic` of [`Lane`]'s methods is the first.
pub struct Tables {
    /// 1.5 · 2^(bits of the mantissa): adding it leaves the nearest integer in the lowest bits.
    pub(super) magic: f64,
    exp: &'static [f64],
    exp_part: &'static [f64],
    /// Arguments for which `exp` stays within the normal numbers.
    exp_range: (f64, f64),
    erfcx: (&'static [f64], &'static [f64]),
    /// From here on erfc(x) and exp(-x²) are zero.
    erfc_end: f64,
    sin: &'static [f64],
    cos: &'static [f64],
    sin_end: f64,
    ln: &'static [f64],
    erf: &'static [f64],
    atan: &'static [f64],
    ln2: [f64; 2],
    half_pi: [f64; 3],
    /// The least normal number and 2^(bits of the mantissa), which makes denormals normal.
    least: f64,
    raise: (f64, f64),
}

pub(super) const F64: Tables = Tables {
    magic: 6755399441055744.0,
    exp: &EXP_F64,
    exp_part: &EXP_PART_F64,
    exp_range: (-708.39, 709.782712893384),
    erfcx: (&ERFCX_TOP_F64, &ERFCX_BOTTOM_F64),
    erfc_end: 28.0,
    sin: &SIN_F64,
    cos: &COS_F64,
    sin_end: 1e9,
    ln: &LN_F64,
    erf: &ERF_F64,
    atan: &ATAN_F64,
    ln2: LN2_F64,
    half_pi: HALF_PI_F64,
    least: f64::MIN_POSITIVE,
    raise: (4503599627370496.0, 52.0),
};

pub(super) const F32: Tables = Tables {
    magic: 12582912.0,
    exp: &EXP_F32,
    exp_part: &EXP_PART_F32,
    exp_range: (-87.33, 88.72283),
    erfcx: (&ERFCX_TOP_F32, &ERFCX_BOTTOM_F32),
    erfc_end: 11.0,
    sin: &SIN_F32,
    cos: &COS_F32,
    sin_end: 1e6,
    ln: &LN_F32,
    erf: &ERF_F32,
    atan: &ATAN_F32,
    ln2: LN2_F32,
    half_pi: HALF_PI_F32,
    least: f32::MIN_POSITIVE as f64,
    raise: (8388608.0, 23.0),
};

/// Even and odd powers apart: one product more than Horner's rule and half its latency, which counts where a
/// whole pair of atoms hangs on the chain from its distance.
#[inline(always)]
fn polynomial<L: Lane>(x: L, coefficients: &[f64]) -> L {
    let (square, n) = (x * x, coefficients.len());
    let (mut upper, mut lower) = (L::splat(coefficients[n - 1]), L::splat(coefficients[n - 2]));
    for &c in coefficients[..n - 2].iter().rev() {
        (upper, lower) = (lower, upper.mul_add(square, L::splat(c)));
    }
    upper.mul_add(x, lower)
}

/// exp(x − low) within `exp_range`; `low` is at most a unit in the last place of `x`.
#[inline(always)]
fn exp_in_range<L: Lane>(x: L, low: L) -> L {
    // In a smaller magic number the lowest bits count parts of an octave.
    let magic = L::splat(L::TABLES.magic / L::PARTS);
    let magic_n = x.mul_add(L::splat(LOG2_E), magic);
    let n = magic_n - magic;
    let r = n.mul_add(L::splat(-L::TABLES.ln2[0]), x);
    let r = n.mul_add(L::splat(-L::TABLES.ln2[1]), r) - low;
    if L::PARTS == 1.0 {
        return polynomial(r, L::TABLES.exp).ldexp(n, magic_n);
    }
    (polynomial(r, L::TABLES.exp_part) * L::octave(magic_n)).ldexp(n, magic_n)
}

/// exp(x − low) for any `x`.
#[inline(always)]
fn exp_of_sum<L: Lane>(x: L, low: L) -> L {
    let (least, most) = L::TABLES.exp_range;
    if L::SATURATES {
        // Twice the range is far enough outside, and near enough for the reduction to hold.
        return exp_in_range(x.at_most(L::splat(2.0 * most)).at_least(L::splat(2.0 * least)), low);
    }
    let (least, most) = (L::splat(least), L::splat(most));
    let value = exp_in_range(x.at_most(most).at_least(least), low);
    let value = L::select(x.lt(least), L::splat(0.0), value);
    L::select(x.le(most), value, x + L::splat(f64::INFINITY))
}

/// `a / b` from 1/b to a quarter of its digits or half of them, and how many steps of Newton's method make it half.
#[inline(always)]
pub(super) fn refined_quotient<L: Lane>(a: L, b: L, estimate: L, steps: usize) -> L {
    let mut inverse = estimate;
    for _ in 0..steps {
        inverse = (-b).mul_add(inverse, L::splat(1.0)).mul_add(inverse, inverse);
    }
    let q = a * inverse;
    (-b).mul_add(q, a).mul_add(inverse, q)
}

/// `(√x, 1/√x)` from 1/√x to some digits likewise: Goldschmidt's iteration, then one step of Newton's for each. NaN at 0
/// and infinity.
#[inline(always)]
pub(super) fn refined_roots<L: Lane>(x: L, estimate: L, steps: usize) -> (L, L) {
    let half = L::splat(0.5);
    // √x and 1/2√x.
    let (mut g, mut h) = (x * estimate, estimate * half);
    for _ in 0..steps {
        let rest = (-g).mul_add(h, half);
        (g, h) = (g.mul_add(rest, g), h.mul_add(rest, h));
    }
    let root = (-g).mul_add(g, x).mul_add(h, g);
    let inverse = h + h;
    (root, (-root).mul_add(inverse, L::splat(1.0)).mul_add(inverse, inverse))
}

/// `a * b - product` without fused operations, where `product` is the rounded `a * b`: Veltkamp's halves, whose products
/// are exact (Dekker).
#[inline(always)]
pub(super) fn product_error_of_halves<L>(a: L, b: L, product: L, halves: L) -> L
where
    L: Copy + Add<Output = L> + Sub<Output = L> + Mul<Output = L>,
{
    let ((ah, al), (bh, bl)) = (split(a, halves), split(b, halves));
    ((ah * bh - product) + ah * bl + al * bh) + al * bl
}

#[inline(always)]
fn split<L: Copy + Sub<Output = L> + Mul<Output = L>>(x: L, halves: L) -> (L, L) {
    let c = x * halves;
    let high = c - (c - x);
    (high, x - high)
}

/// √x and 1/√x where x is 0 or infinite, as AVX-512's `fixupimm` takes it: four bits for each class of x. Zeros (the third
/// class): x itself (1), and an infinity of its sign (6). Infinity (the sixth): itself (5), and 0 (8).
pub(super) const ROOT_ENDS: (i32, i32) = (1 << 8 | 5 << 20, 6 << 8 | 8 << 20);

#[inline(always)]
pub(super) fn exp<L: Lane>(x: L) -> L {
    exp_of_sum(x, L::splat(0.0))
}

/// exp(−a²) for 0 ≤ a ≤ `erfc_end`.
#[inline(always)]
fn gaussian<L: Lane>(a: L) -> L {
    let square = a * a;
    let value = exp_in_range(-square, a.product_error(a, square));
    // No denormals: they cost more than they tell.
    let (zero, end) = (L::splat(0.0), L::splat(-L::TABLES.exp_range.0));
    if L::SATURATES {
        return L::select(end.lt(square), zero, value);
    }
    // 0 · a is zero, or NaN.
    L::select(square.le(end), value, a * zero)
}

#[inline(always)]
pub(super) fn exp_neg_sq<L: Lane>(x: L) -> L {
    gaussian(x.abs().at_most(L::splat(L::TABLES.erfc_end)))
}

/// erfc(a) = exp(−a²) · top(a) / bottom(a). One quotient serves the whole half line: its coefficients are positive, so
/// it keeps all digits, and dividing costs less than the terms it saves.
#[inline(always)]
pub(super) fn erfc_exp_neg_sq<L: Lane>(x: L) -> (L, L) {
    let a = x.abs().at_most(L::splat(L::TABLES.erfc_end));
    let e = gaussian(a);
    let (top, bottom) = L::TABLES.erfcx;
    let value = e * polynomial(a, top).quotient(polynomial(a, bottom));
    (L::select(x.lt(L::splat(0.0)), L::splat(2.0) - value, value), e)
}

/// erf(x) = 1 − erfc(x), and x · P(x²) where that would cancel.
#[inline(always)]
pub(super) fn erf<L: Lane>(x: L) -> L {
    let (half, one) = (L::splat(0.5), L::splat(1.0));
    let small = x.abs().at_most(half);
    let small = small * polynomial(small * small, L::TABLES.erf);
    let large = one - erfc_exp_neg_sq(x.abs()).0;
    with_sign_of(x, L::select(x.abs().lt(half), small, large))
}

/// `value` where `x` is positive, zero or NaN, else its opposite.
#[inline(always)]
fn with_sign_of<L: Lane>(x: L, value: L) -> L {
    L::select(x.lt(L::splat(0.0)), -value, value)
}

/// tanh(a) = −m / (2 + m) with m = exp(−2a) − 1 = 2ⁿ (exp(r) − 1) + (2ⁿ − 1), whose first term alone is there for small a.
#[inline(always)]
pub(super) fn tanh<L: Lane>(x: L) -> L {
    let (one, two) = (L::splat(1.0), L::splat(2.0));
    // From 40 on, the value is 1.
    let y = -two * x.abs().at_most(L::splat(40.0));
    let magic = L::splat(L::TABLES.magic);
    let magic_n = y.mul_add(L::splat(LOG2_E), magic);
    let n = magic_n - magic;
    let r = n.mul_add(L::splat(-L::TABLES.ln2[0]), y);
    let r = n.mul_add(L::splat(-L::TABLES.ln2[1]), r);
    let power = one.ldexp(n, magic_n);
    // The polynomial of exp begins with 1.
    let m = (power * r).mul_add(polynomial(r, &L::TABLES.exp[1..]), power - one);
    with_sign_of(x, -m / (two + m))
}

/// The angle of the point (x, y), in (−π, π], by the arctangent of a number below tan(π/8): that of the smaller
/// coordinate over the larger one, or of π/4 less.
#[inline(always)]
pub(super) fn atan2<L: Lane>(y: L, x: L) -> L {
    let (a, b) = (y.abs(), x.abs());
    let steep = b.lt(a);
    let (small, large) = (L::select(steep, b, a), L::select(steep, a, b));
    let upper = (large * L::splat(TAN_PI_8)).lt(small);
    let top = L::select(upper, small - large, small);
    let bottom = L::select(upper, small + large, large);
    // 0 at the origin, and still NaN where a coordinate is.
    let t = top / bottom.at_least(L::splat(L::TABLES.least));
    let square = t * t;
    let angle = (t * square).mul_add(polynomial(square, L::TABLES.atan), t);
    let angle = L::select(upper, angle + L::splat(FRAC_PI_4), angle);
    let angle = L::select(steep, L::splat(FRAC_PI_2) - angle, angle);
    let angle = L::select(x.lt(L::splat(0.0)), L::splat(PI) - angle, angle);
    with_sign_of(y, angle)
}

/// √(1 − x²), NaN beyond ±1.
#[inline(always)]
fn other_leg<L: Lane>(x: L) -> L {
    let one = L::splat(1.0);
    ((one - x) * (one + x)).sqrt()
}

#[inline(always)]
pub(super) fn asin<L: Lane>(x: L) -> L {
    atan2(x, other_leg(x))
}

#[inline(always)]
pub(super) fn acos<L: Lane>(x: L) -> L {
    atan2(other_leg(x), x)
}

/// The largest integer that is not above, exactly.
#[inline(always)]
pub(super) fn floor<L: Lane>(x: L) -> L {
    // Numbers from here on are whole.
    let end = L::splat(L::TABLES.raise.0);
    let a = x.abs();
    let nearest = with_sign_of(x, L::select(a.lt(end), (a + end) - end, a));
    L::select(x.lt(nearest), nearest - L::splat(1.0), nearest)
}

#[inline(always)]
pub(super) fn sin_cos<L: Lane>(x: L) -> (L, L) {
    let magic = L::splat(L::TABLES.magic);
    let magic_n = x.mul_add(L::splat(FRAC_2_PI), magic);
    let n = magic_n - magic;
    let [high, middle, low] = L::TABLES.half_pi;
    let r = n.mul_add(L::splat(-high), x);
    let r = n.mul_add(L::splat(-middle), r);
    let r = n.mul_add(L::splat(-low), r);
    let r = L::select(x.abs().le(L::splat(L::TABLES.sin_end)), r, L::splat(f64::NAN));

    let square = r * r;
    let sin = (r * square).mul_add(polynomial(square, L::TABLES.sin), r);
    let cos = square.mul_add(L::splat(-0.5), L::splat(1.0));
    let cos = (square * square).mul_add(polynomial(square, L::TABLES.cos), cos);

    let odd = L::odd(magic_n);
    (L::select(odd, cos, sin).flip(magic_n), L::select(odd, sin, cos).flip(magic_n + L::splat(1.0)))
}

/// `(n, s, d, f)` with x = m · 2^n, f = m − 1, d = m + 1 (rounded), s = f / d; ln(m) = 2 artanh(s).
#[inline(always)]
fn ln_parts<L: Lane>(x: L) -> (L, L, L, L) {
    let (factor, shift) = L::TABLES.raise;
    let denormal = x.lt(L::splat(L::TABLES.least));
    let (m, n) = L::select(denormal, x * L::splat(factor), x).frexp();
    let n = L::select(denormal, n - L::splat(shift), n);
    let (f, d) = (m - L::splat(1.0), m + L::splat(1.0));
    (n, f / d, d, f)
}

/// Ends of ln: −∞ at 0, ∞ at ∞, NaN below 0.
#[inline(always)]
fn ln_ends<L: Lane>(x: L, value: L) -> L {
    let (zero, infinity) = (L::splat(0.0), L::splat(f64::INFINITY));
    let value = L::select(x.eq(zero), -infinity, value);
    let value = L::select(x.lt(zero), L::splat(f64::NAN), value);
    L::select(x.lt(infinity), value, x)
}

#[inline(always)]
pub(super) fn ln<L: Lane>(x: L) -> L {
    let (n, s, _, _) = ln_parts(x);
    let square = s * s;
    let tail = n.mul_add(L::splat(L::TABLES.ln2[1]), s * square * polynomial(square, L::TABLES.ln));
    ln_ends(x, n.mul_add(L::splat(L::TABLES.ln2[0]), s.mul_add(L::splat(2.0), tail)))
}

/// The nearest integer.
#[inline(always)]
fn whole<L: Lane>(x: L) -> L {
    let magic = L::splat(L::TABLES.magic);
    L::select(x.abs().lt(L::splat(0.5 * L::TABLES.raise.0)), (x + magic) - magic, x)
}

/// exp(e · ln x), with ln x and the product in two parts, for the exponential makes an absolute error a relative one.
#[inline(always)]
pub(super) fn pow<L: Lane>(x: L, e: L) -> L {
    let (zero, one, two) = (L::splat(0.0), L::splat(1.0), L::splat(2.0));
    let base = x.abs();
    let (n, s, d, f) = ln_parts(base);
    // What s = f / (m + 1) lost: to the division, and to the rounding of m + 1 = d + (f − (d − 2)).
    let back = s * d;
    let s_low = ((f - back) - s.product_error(d, back) - s * (f - (d - two))) / d;
    let square = s * s;
    let tail = n.mul_add(L::splat(L::TABLES.ln2[1]), s * square * polynomial(square, L::TABLES.ln));
    // The larger first: n · ln2 is zero or more than 2s.
    let (large, small) = (n * L::splat(L::TABLES.ln2[0]), two * s);
    let high = large + small;
    let low = (small - (high - large)) + s_low.mul_add(two, tail);
    let ln = high + low;
    let ln_low = low - (ln - high);

    let ln = ln_ends(base, ln);
    let y = e * ln;
    let y_low = e.mul_add(ln_low, e.product_error(ln, y));
    let y_low = L::select(y.abs().le(L::splat(-2.0 * L::TABLES.exp_range.0)), y_low, zero);
    let value = exp_of_sum(y, -y_low);

    // Negative bases: −∞ … −0 to an integer power.
    let half = e * L::splat(0.5);
    let even = whole(half).eq(half);
    let signed = L::select(even, value, -value);
    let signed = L::select(whole(e).eq(e), signed, L::splat(f64::NAN));
    let value = L::select(x.lt(zero), signed, value);
    L::select(e.eq(zero), one, value)
}

#[cfg(test)]
mod tests {
    use super::super::single::{SQRT_HALF_F32, SQRT_HALF_F64};
    use core::f64::consts::FRAC_1_SQRT_2;

    #[test]
    fn the_cut_is_where_the_mantissa_turns() {
        // frexp of every lane type relies on these bits of √½.
        assert_eq!(FRAC_1_SQRT_2.to_bits(), SQRT_HALF_F64);
        assert_eq!((FRAC_1_SQRT_2 as f32).to_bits(), SQRT_HALF_F32);
    }
}
