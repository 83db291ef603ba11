//! Lanes for processors without AVX2: arrays, which the compiler puts into whatever registers the target has.
#![expect(unsafe_code, reason = "memory is read through raw pointers whose validity the caller promises")]

use super::lane::{Elem, Lane, Mask};
use core::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// `N` elements.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Portable<T, const N: usize>([T; N]);

/// Four f64.
pub type Portable64 = Portable<f64, 4>;

/// Eight f32.
pub type Portable32 = Portable<f32, 8>;

/// A scalar and its bit pattern.
pub trait Scalar: Elem + Lane<Elem = Self, Mask = bool, Index = [i32; 1]> {
    /// The unsigned integer of the same size.
    type Bits: Bits;
    /// The bits of the scalar.
    fn to_bits(self) -> Self::Bits;
    /// The scalar that has these bits.
    fn from_bits(bits: Self::Bits) -> Self;
}

/// An unsigned integer as one lane of a mask: all bits set, or none.
pub trait Bits:
    Copy + PartialEq + From<u32> + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> + 'static
{
    /// No bit.
    const NONE: Self;
    /// All bits where `b` is true.
    fn all(b: bool) -> Self;
    /// The lowest bit in every place. By arithmetic: from a comparison the compiler would make branches.
    fn lowest(self) -> Self;
}

macro_rules! scalar {
    ($($T:ident $Bits:ident)*) => {$(
        impl Scalar for $T {
            type Bits = $Bits;
            #[inline(always)]
            fn to_bits(self) -> $Bits {
                self.to_bits()
            }
            #[inline(always)]
            fn from_bits(bits: $Bits) -> Self {
                $T::from_bits(bits)
            }
        }
        impl Bits for $Bits {
            const NONE: Self = 0;
            #[inline(always)]
            fn all(b: bool) -> Self {
                (b as $Bits).wrapping_neg()
            }
            #[inline(always)]
            fn lowest(self) -> Self {
                (self & 1).wrapping_neg()
            }
        }
    )*};
}
scalar!(f64 u64 f32 u32);

/// An array with a value for each lane. Loops and no `map`: whether closures are inlined is the compiler's choice.
macro_rules! each {
    ($zero:expr; $l:ident => $value:expr) => {{
        let mut r = [$zero; N];
        for $l in 0..N {
            r[$l] = $value;
        }
        r
    }};
}

impl<B: Bits, const N: usize> Mask for [B; N] {
    #[inline(always)]
    fn all(b: bool) -> Self {
        [B::all(b); N]
    }
    #[inline(always)]
    fn first(n: usize) -> Self {
        each!(B::NONE; l => B::all(l < n))
    }
    #[inline(always)]
    fn bits(mask: u32) -> Self {
        each!(B::NONE; l => B::from(mask >> l).lowest())
    }
    #[inline(always)]
    fn and(self, o: Self) -> Self {
        each!(B::NONE; l => self[l] & o[l])
    }
    #[inline(always)]
    fn or(self, o: Self) -> Self {
        each!(B::NONE; l => self[l] | o[l])
    }
    #[inline(always)]
    fn not(self) -> Self {
        each!(B::NONE; l => !self[l])
    }
    #[inline(always)]
    fn any(self) -> bool {
        let mut r = B::NONE;
        for lane in &self {
            r = r | *lane;
        }
        r != B::NONE
    }
}

/// A method whose lanes are those of the scalar's method.
macro_rules! lane_by_lane {
    ($($f:ident($self:ident $(, $arg:ident)*);)*) => {$(
        #[inline(always)]
        fn $f($self $(, $arg: Self)*) -> Self {
            Self(each!(T::default(); l => T::$f($self.0[l] $(, $arg.0[l])*)))
        }
    )*};
}

macro_rules! operators {
    ($($Op:ident $op:ident($($arg:ident)?);)*) => {$(
        impl<T: Scalar, const N: usize> $Op for Portable<T, N> {
            type Output = Self;
            lane_by_lane! { $op(self $(, $arg)?); }
        }
    )*};
}
operators! { Add add(o); Sub sub(o); Mul mul(o); Div div(o); Neg neg(); }

impl<T: Scalar, const N: usize> Portable<T, N> {
    /// Rows of three by column.
    #[inline(always)]
    fn columns(rows: [[T; 3]; N]) -> [Self; 3] {
        [
            Self(each!(T::default(); l => rows[l][0])),
            Self(each!(T::default(); l => rows[l][1])),
            Self(each!(T::default(); l => rows[l][2])),
        ]
    }
}

impl<T: Scalar, const N: usize> Lane for Portable<T, N>
where
    [i32; N]: Default,
{
    type Elem = T;
    type Mask = [T::Bits; N];
    type Index = [i32; N];
    const N: usize = N;

    lane_by_lane! { mul_add(self, b, c); sqrt(self); abs(self); }
    lane_by_lane! { product_error(self, b, product); at_most(self, bound); at_least(self, bound); }
    lane_by_lane! { ldexp(self, n, magic_n); flip(self, magic_n); }

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self([T::of_f64(x); N])
    }
    #[inline(always)]
    fn lt(self, o: Self) -> Self::Mask {
        each!(T::Bits::NONE; l => T::Bits::all(self.0[l].lt(o.0[l])))
    }
    #[inline(always)]
    fn le(self, o: Self) -> Self::Mask {
        each!(T::Bits::NONE; l => T::Bits::all(self.0[l].le(o.0[l])))
    }
    #[inline(always)]
    fn eq(self, o: Self) -> Self::Mask {
        each!(T::Bits::NONE; l => T::Bits::all(self.0[l].eq(o.0[l])))
    }
    #[inline(always)]
    fn select(m: Self::Mask, a: Self, b: Self) -> Self {
        Self(each!(T::default(); l => T::from_bits((m[l] & a.0[l].to_bits()) | (!m[l] & b.0[l].to_bits()))))
    }
    #[inline(always)]
    fn sum(self) -> f64 {
        let mut v = each!(0.0; l => self.0[l].to_f64());
        let mut width = N / 2;
        while width > 0 {
            for l in 0..width {
                v[l] += v[l + width];
            }
            width /= 2;
        }
        v[0]
    }
    #[inline(always)]
    fn lane(self, l: usize) -> f64 {
        self.0[l].to_f64()
    }
    #[inline(always)]
    fn odd(magic_n: Self) -> Self::Mask {
        each!(T::Bits::NONE; l => magic_n.0[l].to_bits().lowest())
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        let pairs = each!((T::default(), T::default()); l => self.0[l].frexp());
        (Self(each!(T::default(); l => pairs[l].0)), Self(each!(T::default(); l => pairs[l].1)))
    }

    #[inline(always)]
    unsafe fn load(p: *const T) -> Self {
        // SAFETY: the caller gives N elements.
        Self(unsafe { p.cast::<[T; N]>().read() })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const T, n: usize) -> Self {
        // SAFETY: the caller gives n ≥ 1 elements.
        Self(each!(T::default(); l => unsafe { p.add(l.min(n - 1)).read() }))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut T) {
        // SAFETY: the caller gives room for N elements.
        unsafe { p.cast::<[T; N]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut T, n: usize) {
        // SAFETY: the caller gives room for n ≤ N elements.
        unsafe { p.copy_from_nonoverlapping(self.0.as_ptr(), n) }
    }
    #[inline(always)]
    unsafe fn load3_first(p: *const T, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n ≥ 1 rows.
        Self::columns(each!([T::default(); 3]; l => unsafe { T::load3(p.add(3 * l.min(n - 1))) }))
    }
    #[inline(always)]
    unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n ≥ 1 rows.
        Self::columns(each!([T::default(); 3]; l => unsafe { T::int3(p.add(3 * l.min(n - 1))) }))
    }
    #[inline(always)]
    unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n ≥ 1 elements.
        Self::columns(each!([T::default(); 3]; l => unsafe { T::packed3(p.add(l.min(n - 1))) }))
    }
    #[inline(always)]
    unsafe fn gather(p: *const T, i: Self::Index, stride: usize, offset: usize) -> Self {
        // SAFETY: the caller vouches for the indices.
        Self(each!(T::default(); l => unsafe { T::gather(p, [i[l]], stride, offset) }))
    }
    #[inline(always)]
    unsafe fn gather3(p: *const T, i: Self::Index) -> [Self; 3] {
        // SAFETY: the caller vouches for the rows.
        Self::columns(each!([T::default(); 3]; l => unsafe { T::gather3(p, [i[l]]) }))
    }
    #[inline(always)]
    unsafe fn int_gather(p: *const i32, i: Self::Index, stride: usize, offset: usize) -> Self {
        // SAFETY: the caller vouches for the indices.
        Self(each!(T::default(); l => unsafe { T::int_gather(p, [i[l]], stride, offset) }))
    }
}
