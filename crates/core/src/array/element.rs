//! Element types, and conversions between them.

use super::{Array, DType, Data, Elements, Plain, View, each};
use crate::Result;
use crate::runtime::lanes::{Work, vectorized};
use half::{bf16, f16};

/// An element type of arrays.
pub(super) trait Element: Plain + PartialEq {
    fn to_f64(self) -> f64;
    /// `x` rounded to nearest, ties to even; for integers truncated and saturated.
    fn of_f64(x: f64) -> Self;
}

macro_rules! elements {
    ($($t:ty: $to:expr, $of:expr;)*) => {$(
        impl Element for $t {
            fn to_f64(self) -> f64 {
                $to(self)
            }

            fn of_f64(x: f64) -> Self {
                $of(x)
            }
        }
    )*};
}
elements! {
    f16: f16::to_f64, |x| f16::from_f32(odd(x));
    bf16: bf16::to_f64, |x| bf16::from_f32(odd(x));
    f32: f64::from, |x| x as f32;
    f64: |x| x, |x| x;
    i32: f64::from, |x| x as i32;
    i64: |x| x as f64, |x| x as i64;
}

/// `x` rounded to odd: an inexact result is truncated and its last bit set. A further rounding to a type with at least
/// two bits less then equals the direct rounding of `x`; rounding to nearest twice does not (double rounding).
fn odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let cut = if f64::from(near).abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(cut | 1)
}

/// Elements of a chunk that is checked as a whole for numbers that are not finite.
const CHECKED: usize = 512;

impl Data<'_> {
    /// Element `n` in row-major order, as f64; None beyond the last one, and on a device.
    pub fn at(self, n: usize) -> Option<f64> {
        each!(Data: self, d => d.get(n).map(|x| x.to_f64()), device _ => None)
    }

    /// The position and value of the first element that is not finite; None on a device.
    pub fn not_finite(self) -> Option<(usize, f64)> {
        fn first<T: Element>(d: &[T], finite: impl Fn(&T) -> bool) -> Option<(usize, f64)> {
            vectorized(First(d, finite)).map(|at| (at, d[at].to_f64()))
        }
        match self {
            Data::F16(d) => first(d, |x| x.is_finite()),
            Data::BF16(d) => first(d, |x| x.is_finite()),
            Data::F32(d) => first(d, |x| x.is_finite()),
            Data::F64(d) => first(d, |x| x.is_finite()),
            // Backends of devices check in a kernel.
            Data::I32(_) | Data::I64(_) | Data::Device(_) => None,
        }
    }
}

/// The place of the first element that is not as it should be.
struct First<'d, T, F>(&'d [T], F);

impl<T, F: Fn(&T) -> bool> Work for First<'_, T, F> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        let Self(d, good) = self;
        // Whole chunks at first: without a way out between two elements they are checked many at once.
        let is_whole = |chunk: &[T]| chunk.iter().fold(true, |all, x| all & good(x));
        let from = CHECKED * d.chunks(CHECKED).position(|chunk| !is_whole(chunk))?;
        Some(from + d[from..].iter().position(|x| !good(x))?)
    }
}

impl View<'_> {
    /// Element `n` in row-major order, as f64; None beyond the last one, and on a device.
    pub fn at(&self, n: usize) -> Option<f64> {
        self.data.at(n)
    }

    /// The common value of all elements of a real array; None if elements differ, and on a device.
    pub fn uniform(&self) -> Option<f64> {
        fn common<T: Element>(d: &[T]) -> Option<f64> {
            let first = d.first()?;
            let is_common = |chunk: &[T]| chunk.iter().fold(true, |all, x| all & (x == first));
            d.chunks(CHECKED).all(is_common).then(|| first.to_f64())
        }
        match self.data {
            Data::F16(d) => common(d),
            Data::BF16(d) => common(d),
            Data::F32(d) => common(d),
            Data::F64(d) => common(d),
            Data::I32(_) | Data::I64(_) | Data::Device(_) => None,
        }
    }
}

impl Array {
    /// The numbers in another type: rounded to nearest, ties to even, and infinite beyond its range; integers are
    /// truncated and saturated.
    ///
    /// # Errors
    /// `array`, where the elements lie on a device.
    pub fn cast(&self, dtype: DType) -> Result<Self> {
        if self.dtype() == dtype {
            return self.try_clone();
        }
        fn to<A: Element, B: Element>(a: &Elements<A>) -> Elements<B> {
            Elements::of(a.iter().map(|x| B::of_f64(x.to_f64())).collect(), a.shape())
        }
        fn from<A: Element>(a: &Elements<A>, dtype: DType) -> Array {
            match dtype {
                DType::F16 => Array::F16(to(a)),
                DType::BF16 => Array::BF16(to(a)),
                DType::F32 => Array::F32(to(a)),
                DType::F64 => Array::F64(to(a)),
                DType::I32 => Array::I32(to(a)),
                DType::I64 => Array::I64(to(a)),
            }
        }
        // Not through f64, which cannot represent every i64.
        if let (Self::I64(a), DType::I32) = (self, dtype) {
            let cut = |x: &i64| (*x).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            return Ok(Self::I32(Elements::of(a.iter().map(cut).collect(), a.shape())));
        }
        each!(Array: self, a => from(a, dtype))
    }

    /// Copies the elements of `from`, as many as the array has, converted to the array's type as in [`Array::cast`].
    ///
    /// # Errors
    /// `array`, where one of the two lies on a device.
    pub fn set_cast(&mut self, from: Data<'_>) -> Result<()> {
        fn copy<A: Element, B: Element>(to: &mut [A], from: &[B]) {
            for (a, b) in to.iter_mut().zip(from) {
                *a = A::of_f64(b.to_f64());
            }
        }
        fn fill<A: Element>(to: &mut [A], from: Data<'_>) -> Result<()> {
            each!(Data: from, d => copy(to, d))
        }
        each!(Array: self, a => fill(a, from), device d => Err(d.place().elsewhere("array")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounding between neighbouring numbers of the narrow type: down below the midpoint, up above it, and at the
    /// midpoint to the number whose last bit is 0.
    fn halves<T: Element + PartialEq + std::fmt::Debug>(from_bits: impl Fn(u16) -> T, infinity: u16) {
        for bits in 0..infinity - 1 {
            let (low, high) = (from_bits(bits), from_bits(bits + 1));
            let middle = 0.5 * (low.to_f64() + high.to_f64());
            let even = if bits % 2 == 0 { low } else { high };
            for (x, want) in [(middle.next_down(), low), (middle, even), (middle.next_up(), high)] {
                assert_eq!(T::of_f64(x), want, "{x:e}");
                assert_eq!(T::of_f64(-x).to_f64(), -want.to_f64(), "{x:e}");
            }
            assert_eq!(T::of_f64(low.to_f64()), low);
        }
        // Half a step beyond the largest number.
        let (below, largest) = (from_bits(infinity - 2).to_f64(), from_bits(infinity - 1).to_f64());
        let border = largest + 0.5 * (largest - below);
        assert_eq!(T::of_f64(border.next_down()).to_f64(), largest);
        assert_eq!(T::of_f64(border).to_f64(), f64::INFINITY);
        assert_eq!(T::of_f64(f64::MAX).to_f64(), f64::INFINITY);
        assert!(T::of_f64(f64::NAN).to_f64().is_nan());
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        halves(f16::from_bits, 0x7c00);
        halves(bf16::from_bits, 0x7f80);
    }
}
