//! The functions again, to 30 digits, by series and continued fractions: nothing here is shared with what it judges.

use core::ops::{Add, Div, Mul, Neg, Sub};

/// A sum of two f64 that do not overlap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Double(pub(super) f64, pub(super) f64);

fn two_sum(a: f64, b: f64) -> Double {
    let s = a + b;
    let v = s - a;
    Double(s, (a - (s - v)) + (b - v))
}

impl Add for Double {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        let (s, t) = (two_sum(self.0, o.0), two_sum(self.1, o.1));
        let s = two_sum(s.0, s.1 + t.0);
        two_sum(s.0, s.1 + t.1)
    }
}
impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0, -self.1)
    }
}
impl Sub for Double {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        self + -o
    }
}
impl Mul for Double {
    type Output = Self;
    fn mul(self, o: Self) -> Self {
        let p = self.0 * o.0;
        two_sum(p, self.0.mul_add(o.0, -p) + (self.0 * o.1 + self.1 * o.0))
    }
}
impl Div for Double {
    type Output = Self;
    fn div(self, o: Self) -> Self {
        let a = self.0 / o.0;
        let rest = self - Self(a, 0.0) * o;
        let b = rest.0 / o.0;
        let rest = rest - Self(b, 0.0) * o;
        two_sum(a, b) + Self(rest.0 / o.0, 0.0)
    }
}
impl From<f64> for Double {
    fn from(x: f64) -> Self {
        Self(x, 0.0)
    }
}

pub(super) const LN2: Double = Double(core::f64::consts::LN_2, 2.3190468138462996e-17);
pub(super) const HALF_PI: Double = Double(core::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
/// 1/√π.
const ROOT: Double = Double(0.5641895835477563, 7.66772980658294e-18);

fn scaled(x: Double, power: i32) -> Double {
    // In two steps, for 2^power alone may be out of range.
    let half = power / 2;
    let (a, b) = (2f64.powi(half), 2f64.powi(power - half));
    Double(x.0 * a * b, x.1 * a * b)
}

pub(super) fn exp(x: Double) -> Double {
    let n = (x.0 / LN2.0).round();
    let r = scaled(x - Double::from(n) * LN2, -9);
    let (mut sum, mut term) = (Double::from(1.0), Double::from(1.0));
    for k in 1..14 {
        term = term * r / f64::from(k).into();
        sum = sum + term;
    }
    for _ in 0..9 {
        sum = sum * sum;
    }
    scaled(sum, n as i32)
}

pub(super) fn exp_neg_sq(x: f64) -> Double {
    exp(-(Double::from(x) * x.into()))
}

/// Positive terms below 2, a continued fraction above.
pub(super) fn erfc(x: f64) -> Double {
    if x < 0.0 {
        return Double::from(2.0) - erfc(-x);
    }
    let e = exp_neg_sq(x);
    let x = Double::from(x);
    if x.0 < 2.0 {
        let two_square = x * x * 2.0.into();
        let (mut sum, mut term) = (x, x);
        for k in 1..80 {
            term = term * two_square / f64::from(2 * k + 1).into();
            sum = sum + term;
        }
        return Double::from(1.0) - sum * e * ROOT * 2.0.into();
    }
    let mut below = x;
    for k in (1..if x.0 < 4.0 { 250 } else { 70 }).rev() {
        below = x + Double::from(0.5 * f64::from(k)) / below;
    }
    e * ROOT / below
}

/// Terms of one sign for small numbers, where 1 − erfc(x) would cancel.
pub(super) fn erf(x: f64) -> Double {
    if x < 0.0 {
        return -erf(-x);
    }
    if x > 1.0 {
        return Double::from(1.0) - erfc(x);
    }
    let e = exp_neg_sq(x);
    let x = Double::from(x);
    let two_square = x * x * 2.0.into();
    let (mut sum, mut term) = (x, x);
    for k in 1..60 {
        term = term * two_square / f64::from(2 * k + 1).into();
        sum = sum + term;
    }
    sum * e * ROOT * 2.0.into()
}

/// By the series of sinh and cosh for small numbers, and by exp for others.
pub(super) fn tanh(x: f64) -> Double {
    if x.abs() > 0.5 {
        let e = exp(Double::from(-2.0 * x.abs()));
        let value = (Double::from(1.0) - e) / (Double::from(1.0) + e);
        return if x < 0.0 { -value } else { value };
    }
    let x = Double::from(x);
    let square = x * x;
    let (mut sinh, mut cosh, mut term) = (x, Double::from(1.0), Double::from(1.0));
    for k in 1..16 {
        term = term * square / f64::from((2 * k - 1) * 2 * k).into();
        cosh = cosh + term;
        sinh = sinh + term * x / f64::from(2 * k + 1).into();
    }
    sinh / cosh
}

/// One step of Newton's from the library's angle: what is left of the point when it is turned back.
pub(super) fn atan2(y: Double, x: Double) -> Double {
    // In a range whose squares are normal numbers.
    let power = -(y.0.abs().max(x.0.abs()).log2().round() as i32);
    let (y, x) = (scaled(y, power), scaled(x, power));
    let angle = y.0.atan2(x.0);
    let (sin, cos) = sin_cos(angle);
    let rest = (y * cos - x * sin) / (x * cos + y * sin);
    Double::from(angle) + rest - rest * rest * rest / 3.0.into()
}

fn other_leg(x: f64) -> Double {
    let x = Double::from(x);
    let square = (Double::from(1.0) - x) * (Double::from(1.0) + x);
    if square.0 == 0.0 {
        return square;
    }
    let root = Double::from(square.0.sqrt());
    root + (square - root * root) / (root * 2.0.into())
}

pub(super) fn asin(x: f64) -> Double {
    atan2(x.into(), other_leg(x))
}

pub(super) fn acos(x: f64) -> Double {
    atan2(other_leg(x), x.into())
}

/// One step of Newton's from the library's root.
pub(super) fn sqrt(x: f64) -> Double {
    let root = Double::from(x.sqrt());
    root + (Double::from(x) - root * root) / (root * 2.0.into())
}

/// One step of Halley's from the library's logarithm.
pub(super) fn ln(x: f64) -> Double {
    // Powers of two apart, so that exp stays in range.
    let n = (x.log2().round() as i32).clamp(-1000, 1000);
    let x = scaled(x.into(), -n);
    let y = Double::from(x.0.ln());
    let e = exp(y);
    y + (x - e) / (x + e) * 2.0.into() + Double::from(f64::from(n)) * LN2
}

pub(super) fn pow(x: f64, e: f64) -> Double {
    exp(ln(x) * e.into())
}

pub(super) fn sin_cos(x: f64) -> (Double, Double) {
    let n = (x / HALF_PI.0).round();
    let r = Double::from(x) - Double::from(n) * HALF_PI;
    // The third part of π/2, for large n.
    let r = r - Double::from(n * -1.4973849048591833e-33);
    let (mut sin, mut cos, mut term) = (Double::from(0.0), Double::from(0.0), Double::from(1.0));
    for k in 0..28 {
        match k % 4 {
            0 => cos = cos + term,
            1 => sin = sin + term,
            2 => cos = cos - term,
            _ => sin = sin - term,
        }
        term = term * r / f64::from(k + 1).into();
    }
    match n.rem_euclid(4.0) as i32 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// The references themselves, against values from mpmath with 40 digits.
#[test]
fn references_hold() {
    let close = |a: Double, b: (f64, f64)| {
        let off = a - Double(b.0, b.1);
        assert!(off.0.abs() <= 1e-20 * b.0.abs(), "{a:?} {b:?}");
    };
    include!("mpmath_values.inc");
}
