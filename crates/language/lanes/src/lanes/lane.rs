//! The traits of elements, masks and lanes. What a lane type must bring has no body here; all else is derived from it.
#![expect(unsafe_code, reason = "memory is read through raw pointers whose validity the caller promises")]

use super::functions::{self, Tables};
use core::ops::{Add, Div, Mul, Neg, Sub};

/// Type of real numbers in memory.
pub trait Elem: Copy + Default + Send + Sync + 'static {
    /// The name of the type as it stands in dtypes.
    const NAME: &'static str;
    /// The number of terms that may be summed in this type before the sum must go to f64.
    const FLUSH: usize;
    /// The constants of the special functions.
    const TABLES: Tables;
    /// The value, which f64 holds exactly.
    fn to_f64(self) -> f64;
    /// The nearest value to `x`.
    fn of_f64(x: f64) -> Self;
}

/// One truth value for each lane.
pub trait Mask: Copy {
    /// `b` in every lane.
    fn all(b: bool) -> Self;
    /// True in the lanes before `n`.
    fn first(n: usize) -> Self;
    /// True in the lanes whose bits are set.
    fn bits(mask: u32) -> Self;
    /// Both.
    fn and(self, o: Self) -> Self;
    /// Either.
    fn or(self, o: Self) -> Self;
    /// The opposite.
    fn not(self) -> Self;
    /// Whether any lane is true.
    fn any(self) -> bool;
}

/// Work that is compiled for the instructions of its caller. Closures are such, but for one that is called in several places:
/// the compiler may keep a copy of it that is compiled for none of them.
pub trait Work {
    /// The result.
    type Output;
    /// Runs it. To be `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

impl<R, F: FnOnce() -> R> Work for F {
    type Output = R;

    #[inline(always)]
    fn run(self) -> R {
        self()
    }
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
    type Mask: Mask;
    /// One i32 index for each lane: `[i32; N]`. An array and no register: addresses are scalar.
    type Index: Copy + Default + AsRef<[i32]> + AsMut<[i32]>;
    /// The lanes of code outside of loops over data, which is f64 for either element type: one where there are no SIMD
    /// registers to count on.
    type Rows: Lane<Elem = f64>;
    /// The number of lanes.
    const N: usize;
    /// Whether every loop has code of its own for whole vectors. Without it, long loops run them as the last, incomplete
    /// vector: half as much to compile.
    const SPLIT: bool = true;
    /// The number of iterations that may be summed in `Self` before the sum must go to f64.
    const FLUSH: usize = <Self::Elem as Elem>::FLUSH;
    /// The constants of the special functions.
    const TABLES: Tables = <Self::Elem as Elem>::TABLES;
    /// Whether `ldexp` overflows to infinity and underflows to zero by itself.
    const SATURATES: bool = false;
    /// The number of parts into which `octave` divides one.
    const PARTS: f64 = 1.0;

    /// The output of work, in a function of its own that is compiled for the instructions of these lanes.
    #[inline(never)]
    fn apart<W: Work>(work: W) -> W::Output {
        work.run()
    }

    /// `x`, rounded to `Elem`, in every lane.
    fn splat(x: f64) -> Self;
    /// `self * b + c`, fused where the hardware does it.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// `1 / self`.
    #[inline(always)]
    fn recip(self) -> Self {
        Self::splat(1.0) / self
    }
    /// The square root and one over it, each to a unit in the last place, for numbers whose square root is normal.
    #[inline(always)]
    fn sqrt_recip(self) -> (Self, Self) {
        let root = self.sqrt();
        (root, root.recip())
    }
    /// Absolute value.
    fn abs(self) -> Self;

    /// `e^self`; 0 where the result would be below the normal numbers (or a denormal, where that is for free).
    #[inline(always)]
    fn exp(self) -> Self {
        functions::exp(self)
    }
    /// Natural logarithm.
    #[inline(always)]
    fn ln(self) -> Self {
        functions::ln(self)
    }
    /// `self^e`. A negative base needs an integer `e`, as in C; anything to the power 0 is 1.
    #[inline(always)]
    fn pow(self, e: Self) -> Self {
        functions::pow(self, e)
    }
    /// The complementary error function, for any sign.
    #[inline(always)]
    fn erfc(self) -> Self {
        functions::erfc_exp_neg_sq(self).0
    }
    /// `exp(-self²)`, with the rounding error of the square made good.
    #[inline(always)]
    fn exp_neg_sq(self) -> Self {
        functions::exp_neg_sq(self)
    }
    /// `(erfc(self), exp(-self²))`, sharing the exponential.
    #[inline(always)]
    fn erfc_exp_neg_sq(self) -> (Self, Self) {
        functions::erfc_exp_neg_sq(self)
    }
    /// The error function.
    #[inline(always)]
    fn erf(self) -> Self {
        functions::erf(self)
    }
    /// Hyperbolic tangent.
    #[inline(always)]
    fn tanh(self) -> Self {
        functions::tanh(self)
    }
    /// The angle of the point (`x`, `self`), in (−π, π]: 0 for the origin, and π for −1 whatever the sign of a zero
    /// `self`.
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        functions::atan2(self, x)
    }
    /// Arcsine, in [−π/2, π/2]; NaN beyond ±1.
    #[inline(always)]
    fn asin(self) -> Self {
        functions::asin(self)
    }
    /// Arccosine, in [0, π]; NaN beyond ±1.
    #[inline(always)]
    fn acos(self) -> Self {
        functions::acos(self)
    }
    /// The largest integer that is not above.
    #[inline(always)]
    fn floor(self) -> Self {
        functions::floor(self)
    }
    /// Sine; see [`Lane::sin_cos`].
    #[inline(always)]
    fn sin(self) -> Self {
        functions::sin_cos(self).0
    }
    /// Cosine; see [`Lane::sin_cos`].
    #[inline(always)]
    fn cos(self) -> Self {
        functions::sin_cos(self).1
    }
    /// Sine and cosine to a few 1e-16 (f64, |x| ≤ 1e6) or 1e-7 (f32, |x| ≤ 1e4). Beyond, a processor without fused
    /// operations answers as for an argument that is half a unit in the last place away; NaN beyond 1e9 (f64) or
    /// 1e6 (f32), where a phase means nothing any more.
    #[inline(always)]
    fn sin_cos(self) -> (Self, Self) {
        functions::sin_cos(self)
    }

    /// `self * b - product` exactly, where `product` is the rounded `self * b`.
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        self.mul_add(b, -product)
    }
    /// The smaller of `self` and `bound`; NaN stays NaN.
    fn at_most(self, bound: Self) -> Self;
    /// The larger of `self` and `bound`; NaN stays NaN.
    fn at_least(self, bound: Self) -> Self;
    /// `self · 2^⌊n⌋`, given `n` and `n + magic`; `self` is in [0.7, 2].
    fn ldexp(self, n: Self, magic_n: Self) -> Self;
    /// 2^(fraction of n), given `n + magic / PARTS`, for the wider registers, which hold a table of them.
    #[inline(always)]
    fn octave(_magic_n: Self) -> Self {
        Self::splat(1.0)
    }
    /// Whether `n` is odd, given `n + magic`.
    fn odd(magic_n: Self) -> Self::Mask;
    /// `-self` where the second bit of `n` is set, given `n + magic`.
    fn flip(self, magic_n: Self) -> Self;
    /// `(m, n)` with `self = m · 2^n` and m in [√½, √2), for positive normal numbers.
    fn frexp(self) -> (Self, Self);
    /// `self / divisor` to a unit in the last place, for numbers far from the ends of the range.
    #[inline(always)]
    fn quotient(self, divisor: Self) -> Self {
        self / divisor
    }

    /// `self < o`; false for NaN.
    fn lt(self, o: Self) -> Self::Mask;
    /// `self <= o`; false for NaN.
    fn le(self, o: Self) -> Self::Mask;
    /// `self == o`; false for NaN.
    fn eq(self, o: Self) -> Self::Mask;
    /// Both.
    #[inline(always)]
    fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        a.and(b)
    }
    /// Either.
    #[inline(always)]
    fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        a.or(b)
    }
    /// The opposite.
    #[inline(always)]
    fn not(a: Self::Mask) -> Self::Mask {
        a.not()
    }
    /// `b` in every lane.
    #[inline(always)]
    fn mask(b: bool) -> Self::Mask {
        Self::Mask::all(b)
    }
    /// Whether any lane is true.
    #[inline(always)]
    fn any(a: Self::Mask) -> bool {
        a.any()
    }
    /// True in the lanes before `n`.
    #[inline(always)]
    fn first(n: usize) -> Self::Mask {
        Self::Mask::first(n)
    }
    /// True in the lanes whose bits are set.
    #[inline(always)]
    fn bits(mask: u32) -> Self::Mask {
        Self::Mask::bits(mask)
    }
    /// `a` where `m` is true, else `b`.
    fn select(m: Self::Mask, a: Self, b: Self) -> Self;

    /// The lanes in the opposite order.
    fn reversed(self) -> Self;
    /// Exchanges blocks of `D` lanes: the odd blocks of `self` for the even blocks of `o` before them. With D = 1, 2, 4, …
    /// below `N`, each on rows that are D apart, `N` rows become their columns. Nothing is exchanged where D is no smaller
    /// than `N`.
    fn exchange<const D: usize>(self, o: Self) -> (Self, Self);

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
    /// The first `n` elements, and anything finite in the other lanes.
    /// # Safety
    /// As [`Lane::load_first`].
    #[inline(always)]
    unsafe fn load_some(p: *const Self::Elem, n: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::load_first(p, n) }
    }
    /// The first `n` of elements in f32, and anything finite in the other lanes.
    /// # Safety
    /// As [`Lane::load_first`].
    #[inline(always)]
    unsafe fn load_some_f32(p: *const f32, n: usize) -> Self {
        let mut x = [Self::Elem::default(); 16];
        for (l, x) in x.iter_mut().enumerate().take(n) {
            // SAFETY: the caller's promise.
            *x = Self::Elem::of_f64(f64::from(unsafe { p.add(l).read() }));
        }
        // SAFETY: no lane type has more than 16 lanes.
        unsafe { Self::load(x.as_ptr()) }
    }
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
    #[inline(always)]
    unsafe fn load3(p: *const Self::Elem) -> [Self; 3] {
        // SAFETY: the caller gives N rows.
        unsafe { Self::load3_first(p, Self::N) }
    }
    /// The first `n` rows of three, by column.
    /// # Safety
    /// `p` is valid for reading `3 n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn load3_first(p: *const Self::Elem, n: usize) -> [Self; 3];
    /// `N` indices.
    /// # Safety
    /// `p` is valid for reading `N` elements.
    #[inline(always)]
    unsafe fn index(p: *const i32) -> Self::Index {
        let mut i = Self::Index::default();
        // SAFETY: the caller gives N indices.
        i.as_mut().copy_from_slice(unsafe { core::slice::from_raw_parts(p, Self::N) });
        i
    }
    /// The first `n` indices.
    /// # Safety
    /// `p` is valid for reading `n` elements, 1 ≤ `n` ≤ `N`.
    #[inline(always)]
    unsafe fn index_first(p: *const i32, n: usize) -> Self::Index {
        let mut i = Self::Index::default();
        for (l, i) in i.as_mut().iter_mut().enumerate() {
            // SAFETY: the caller gives n ≥ 1 indices.
            *i = unsafe { p.add(l.min(n - 1)).read() };
        }
        i
    }
    /// The index of one lane.
    #[inline(always)]
    fn index_lane(i: Self::Index, l: usize) -> usize {
        i.as_ref()[l] as usize
    }
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
    #[inline(always)]
    unsafe fn int3(p: *const i32) -> [Self; 3] {
        // SAFETY: the caller gives N rows.
        unsafe { Self::int3_first(p, Self::N) }
    }
    /// The first `n` rows of three integers, by column, as reals.
    /// # Safety
    /// `p` is valid for reading `3 n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3];
    /// `N` rows of three integers that are packed into one each ([`pack`](super::packed::pack)), by column, as reals.
    /// # Safety
    /// `p` is valid for reading `N` elements.
    #[inline(always)]
    unsafe fn packed3(p: *const i32) -> [Self; 3] {
        // SAFETY: the caller gives N elements.
        unsafe { Self::packed3_first(p, Self::N) }
    }
    /// The first `n` packed rows of three integers.
    /// # Safety
    /// `p` is valid for reading `n` elements, 1 ≤ `n` ≤ `N`.
    unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3];
    /// Packed rows `i` of three integers.
    /// # Safety
    /// No index is negative and `p` is valid for reading each of these elements.
    #[inline(always)]
    unsafe fn packed3_gather(p: *const i32, i: Self::Index) -> [Self; 3] {
        let mut v = Self::Index::default();
        for (v, i) in v.as_mut().iter_mut().zip(i.as_ref()) {
            // SAFETY: the caller vouches for the indices.
            *v = unsafe { p.add(*i as usize).read() };
        }
        // SAFETY: N elements.
        unsafe { Self::packed3(v.as_ref().as_ptr()) }
    }
    /// `p[i * stride + offset]` as reals, addressed with 64 bits.
    /// # Safety
    /// No index is negative and `p` is valid for reading each of these elements.
    unsafe fn int_gather(p: *const i32, i: Self::Index, stride: usize, offset: usize) -> Self;
}
