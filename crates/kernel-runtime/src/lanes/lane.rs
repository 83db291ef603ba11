//! The trait that every lane type has.
#![expect(unsafe_code, reason = "memory is read through raw pointers whose validity the caller promises")]

use core::ops::{Add, Div, Mul, Neg, Sub};

/// What memory holds.
pub trait Elem: Copy + Default + Send + Sync + 'static {
    /// The name of the type as it stands in dtypes.
    const NAME: &'static str;
    /// The value, which f64 holds exactly.
    fn to_f64(self) -> f64;
    /// The nearest value to `x`.
    fn of_f64(x: f64) -> Self;
}

/// One SIMD register of reals: the type that the innermost loop of a generated kernel runs on.
///
/// `*_first` functions are for the last, incomplete vector of a loop: they touch `n` (1 to `N`) valid elements and
/// fill the lanes behind with the last of these, so that no lane computes on rubbish.
pub trait Lane:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// f32 or f64: what memory holds and what the lanes compute in.
    type Elem: Elem;
    /// One truth value for each lane.
    type Mask: Copy;
    /// One i32 index for each lane.
    type Index: Copy;
    /// The number of lanes.
    const N: usize;
    /// How many iterations may be summed in `Self` before the sum must go to f64.
    const FLUSH: usize;

    /// `x`, rounded to `Elem`, in every lane.
    fn splat(x: f64) -> Self;
    /// `self * b + c`, fused where the hardware does it.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// `1 / self`.
    fn recip(self) -> Self;
    /// The square root and one over it, each to a unit in the last place, for numbers whose square root is normal.
    fn sqrt_recip(self) -> (Self, Self);
    /// Absolute value.
    fn abs(self) -> Self;

    /// `e^self`; 0 where the result would be below the normal numbers (or a denormal, where that is for free).
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// `self^e`. A negative base needs an integer `e`, as in C; anything to the power 0 is 1.
    fn pow(self, e: Self) -> Self;
    /// The complementary error function, for any sign.
    fn erfc(self) -> Self;
    /// `exp(-self²)`, with the rounding error of the square made good.
    fn exp_neg_sq(self) -> Self;
    /// `(erfc(self), exp(-self²))`, sharing the exponential.
    fn erfc_exp_neg_sq(self) -> (Self, Self);
    /// Sine; see [`Lane::sin_cos`].
    fn sin(self) -> Self;
    /// Cosine; see [`Lane::sin_cos`].
    fn cos(self) -> Self;
    /// Sine and cosine to a few 1e-16 (f64, |x| ≤ 1e6) or 1e-7 (f32, |x| ≤ 1e4). Beyond, a processor without fused
    /// operations answers as for an argument that is half a unit in the last place away; NaN beyond 1e9 (f64) or
    /// 1e6 (f32), where a phase means nothing any more.
    fn sin_cos(self) -> (Self, Self);

    /// `self < o`; false for NaN.
    fn lt(self, o: Self) -> Self::Mask;
    /// `self <= o`; false for NaN.
    fn le(self, o: Self) -> Self::Mask;
    /// `self == o`; false for NaN.
    fn eq(self, o: Self) -> Self::Mask;
    /// Both.
    fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Either.
    fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// The opposite.
    fn not(a: Self::Mask) -> Self::Mask;
    /// `b` in every lane.
    fn mask(b: bool) -> Self::Mask;
    /// Whether any lane is true.
    fn any(a: Self::Mask) -> bool;
    /// True in the lanes before `n`.
    fn first(n: usize) -> Self::Mask;
    /// True in the lanes whose bits are set.
    fn bits(mask: u32) -> Self::Mask;
    /// `a` where `m` is true, else `b`.
    fn select(m: Self::Mask, a: Self, b: Self) -> Self;

    /// The sum of the lanes, carried in f64, in an order that is fixed.
    fn sum(self) -> f64;
    /// One lane.
    fn lane(self, l: usize) -> f64;

    /// `N` elements.
    /// # Safety
    /// `p` is valid for reading `N` elements.
    unsafe fn load(p: *const Self::Elem) -> Self;
    /// The first `n` elements.
    /// # Safety
    /// `p` is valid for reading `n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn load_first(p: *const Self::Elem, n: usize) -> Self;
    /// Writes `N` elements.
    /// # Safety
    /// `p` is valid for writing `N` elements.
    unsafe fn store(self, p: *mut Self::Elem);
    /// Writes the first `n` lanes.
    /// # Safety
    /// `p` is valid for writing `n` elements, `n` ≤ `N`.
    unsafe fn store_first(self, p: *mut Self::Elem, n: usize);
    /// `N` rows of three, by column.
    /// # Safety
    /// `p` is valid for reading `3 N` elements.
    unsafe fn load3(p: *const Self::Elem) -> [Self; 3];
    /// The first `n` rows of three, by column.
    /// # Safety
    /// `p` is valid for reading `3 n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn load3_first(p: *const Self::Elem, n: usize) -> [Self; 3];
    /// `N` indices.
    /// # Safety
    /// `p` is valid for reading `N` elements.
    unsafe fn index(p: *const i32) -> Self::Index;
    /// The first `n` indices.
    /// # Safety
    /// `p` is valid for reading `n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn index_first(p: *const i32, n: usize) -> Self::Index;
    /// The index of one lane.
    fn index_lane(i: Self::Index, l: usize) -> usize;
    /// `p[i * stride + offset]`, addressed with 64 bits.
    /// # Safety
    /// No index is negative and `p` is valid for reading each of these elements.
    unsafe fn gather(p: *const Self::Elem, i: Self::Index, stride: usize, offset: usize) -> Self;
    /// Rows `i` of three, by column; nothing outside these rows is read.
    /// # Safety
    /// No index is negative and `p` is valid for reading each of these rows.
    unsafe fn gather3(p: *const Self::Elem, i: Self::Index) -> [Self; 3];
    /// `N` rows of three integers, by column, as reals.
    /// # Safety
    /// `p` is valid for reading `3 N` elements.
    unsafe fn int3(p: *const i32) -> [Self; 3];
    /// The first `n` rows of three integers, by column, as reals.
    /// # Safety
    /// `p` is valid for reading `3 n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3];
    /// `N` rows of three integers that are packed into one each ([`pack`](super::packed::pack)), by column, as reals.
    /// # Safety
    /// `p` is valid for reading `N` elements.
    unsafe fn packed3(p: *const i32) -> [Self; 3];
    /// The first `n` packed rows of three integers.
    /// # Safety
    /// `p` is valid for reading `n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3];
    /// Packed rows `i` of three integers.
    /// # Safety
    /// No index is negative and `p` is valid for reading each of these elements.
    unsafe fn packed3_gather(p: *const i32, i: Self::Index) -> [Self; 3];
    /// `p[i * stride + offset]` as reals, addressed with 64 bits.
    /// # Safety
    /// No index is negative and `p` is valid for reading each of these elements.
    unsafe fn int_gather(p: *const i32, i: Self::Index, stride: usize, offset: usize) -> Self;
}

/// The methods of [`Lane`] that are the same words for every type; `functions` has what they mean.
macro_rules! common {
    () => {
        #[inline(always)]
        fn recip(self) -> Self {
            Self::splat(1.0) / self
        }
        #[inline(always)]
        fn sqrt_recip(self) -> (Self, Self) {
            crate::lanes::functions::Prim::roots(self)
        }
        #[inline(always)]
        fn exp(self) -> Self {
            crate::lanes::functions::exp(self)
        }
        #[inline(always)]
        fn ln(self) -> Self {
            crate::lanes::functions::ln(self)
        }
        #[inline(always)]
        fn pow(self, e: Self) -> Self {
            crate::lanes::functions::pow(self, e)
        }
        #[inline(always)]
        fn erfc(self) -> Self {
            crate::lanes::functions::erfc_exp_neg_sq(self).0
        }
        #[inline(always)]
        fn exp_neg_sq(self) -> Self {
            crate::lanes::functions::exp_neg_sq(self)
        }
        #[inline(always)]
        fn erfc_exp_neg_sq(self) -> (Self, Self) {
            crate::lanes::functions::erfc_exp_neg_sq(self)
        }
        #[inline(always)]
        fn sin(self) -> Self {
            crate::lanes::functions::sin_cos(self).0
        }
        #[inline(always)]
        fn cos(self) -> Self {
            crate::lanes::functions::sin_cos(self).1
        }
        #[inline(always)]
        fn sin_cos(self) -> (Self, Self) {
            crate::lanes::functions::sin_cos(self)
        }
        #[inline(always)]
        fn index_lane(i: Self::Index, l: usize) -> usize {
            i[l] as usize
        }
        #[inline(always)]
        unsafe fn packed3_gather(p: *const i32, i: Self::Index) -> [Self; 3] {
            let mut v = [0; Self::N];
            for (l, v) in v.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the indices.
                *v = unsafe { p.add(i[l] as usize).read() };
            }
            // SAFETY: N elements.
            unsafe { Self::packed3(v.as_ptr()) }
        }
        #[inline(always)]
        unsafe fn index(p: *const i32) -> Self::Index {
            // SAFETY: the caller gives N indices. Kept as an array: addresses are scalar, and a register would have
            // to be taken apart again.
            unsafe { p.cast::<Self::Index>().read_unaligned() }
        }
        #[inline(always)]
        unsafe fn index_first(p: *const i32, n: usize) -> Self::Index {
            let mut i = [0; Self::N];
            for (l, i) in i.iter_mut().enumerate() {
                // SAFETY: the caller gives n ≥ 1 indices.
                *i = unsafe { p.add(l.min(n - 1)).read() };
            }
            i
        }
    };
}
pub(super) use common;
