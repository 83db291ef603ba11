//! Lanes for processors without AVX2: arrays, which the compiler puts into whatever registers the target has.
#![expect(unsafe_code, reason = "memory is read through raw pointers whose validity the caller promises")]

use super::lane::{Elem, Lane, Mask};
use core::ops::{Add, Div, Mul, Neg, Sub};

/// An unsigned integer as one lane of a mask: all bits set, or none.
trait Bits {
    /// All bits where `b` is true.
    fn all(b: bool) -> Self;
    /// The lowest bit in every place. By arithmetic: from a comparison the compiler would make branches.
    fn lowest(self) -> Self;
}

macro_rules! bits {
    ($($Bits:ident)*) => {$(
        impl Bits for $Bits {
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
bits!(u64 u32);

/// An array with a value for each lane. Without a loop, closure or repetition: a kernel has thousands of such arrays, and
/// the time that the compiler needs to unroll the loops of one function grows with the square of their number.
macro_rules! each {
    (4; $l:ident => $value:expr) => {
        each!(@ $l $value; 0 1 2 3)
    };
    (8; $l:ident => $value:expr) => {
        each!(@ $l $value; 0 1 2 3 4 5 6 7)
    };
    (@ $l:ident $value:expr; $($lane:literal)*) => {
        [$({
            let $l: usize = $lane;
            $value
        }),*]
    };
}

/// The lanes joined: those of the upper half to those of the lower one, until one is left.
macro_rules! fold {
    (4, $v:ident, $op:tt) => {
        ($v[0] $op $v[2]) $op ($v[1] $op $v[3])
    };
    (8, $v:ident, $op:tt) => {
        (($v[0] $op $v[4]) $op ($v[2] $op $v[6])) $op (($v[1] $op $v[5]) $op ($v[3] $op $v[7]))
    };
}

/// A lane type: its name, element, mask element and number of lanes.
macro_rules! portable {
    ($(#[$doc:meta])* $L:ident $T:ident $Bits:ident $n:tt) => {
$(#[$doc])*
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct $L([$T; $n]);

impl Mask for [$Bits; $n] {
    #[inline(always)]
    fn all(b: bool) -> Self {
        {
                let b = $Bits::all(b);
                each!($n; _l => b)
            }
    }
    #[inline(always)]
    fn first(n: usize) -> Self {
        each!($n; l => $Bits::all(l < n))
    }
    #[inline(always)]
    fn bits(mask: u32) -> Self {
        each!($n; l => $Bits::from(mask >> l).lowest())
    }
    #[inline(always)]
    fn and(self, o: Self) -> Self {
        each!($n; l => self[l] & o[l])
    }
    #[inline(always)]
    fn or(self, o: Self) -> Self {
        each!($n; l => self[l] | o[l])
    }
    #[inline(always)]
    fn not(self) -> Self {
        each!($n; l => !self[l])
    }
    #[inline(always)]
    fn any(self) -> bool {
        fold!($n, self, |) != 0
    }
}

impl Add for $L {
    type Output = Self;
    portable! { @each Add $T $n add(self, o) }
}
impl Sub for $L {
    type Output = Self;
    portable! { @each Sub $T $n sub(self, o) }
}
impl Mul for $L {
    type Output = Self;
    portable! { @each Mul $T $n mul(self, o) }
}
impl Div for $L {
    type Output = Self;
    portable! { @each Div $T $n div(self, o) }
}
impl Neg for $L {
    type Output = Self;
    portable! { @each Neg $T $n neg(self) }
}

impl $L {
    /// Rows of three by column.
    #[inline(always)]
    fn columns(rows: [[$T; 3]; $n]) -> [Self; 3] {
        [
            Self(each!($n; l => rows[l][0])),
            Self(each!($n; l => rows[l][1])),
            Self(each!($n; l => rows[l][2])),
        ]
    }
}

impl Lane for $L {
    type Elem = $T;
    type Mask = [$Bits; $n];
    type Index = [i32; $n];
    type Rows = f64;
    const N: usize = $n;
    const SPLIT: bool = false;

    portable! { @each Lane $T $n mul_add(self, b, c) }
    portable! { @each Lane $T $n sqrt(self) }
    portable! { @each Lane $T $n abs(self) }
    portable! { @each Lane $T $n product_error(self, b, product) }
    portable! { @each Lane $T $n at_most(self, bound) }
    portable! { @each Lane $T $n at_least(self, bound) }
    portable! { @each Lane $T $n ldexp(self, n, magic_n) }
    portable! { @each Lane $T $n flip(self, magic_n) }

    #[inline(always)]
    fn splat(x: f64) -> Self {
        let x = $T::of_f64(x);
        Self(each!($n; _l => x))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> Self::Mask {
        each!($n; l => $Bits::all(self.0[l] < o.0[l]))
    }
    #[inline(always)]
    fn le(self, o: Self) -> Self::Mask {
        each!($n; l => $Bits::all(self.0[l] <= o.0[l]))
    }
    #[inline(always)]
    fn eq(self, o: Self) -> Self::Mask {
        each!($n; l => $Bits::all(self.0[l] == o.0[l]))
    }
    #[inline(always)]
    fn select(m: Self::Mask, a: Self, b: Self) -> Self {
        Self(each!($n; l => $T::from_bits((m[l] & a.0[l].to_bits()) | (!m[l] & b.0[l].to_bits()))))
    }
    #[inline(always)]
    fn reversed(self) -> Self {
        Self(each!($n; l => self.0[$n - 1 - l]))
    }
    #[inline(always)]
    fn exchange<const D: usize>(self, o: Self) -> (Self, Self) {
        if D >= $n {
            return (self, o);
        }
        (
            Self(each!($n; l => if l & D == 0 { self.0[l] } else { o.0[l - D] })),
            Self(each!($n; l => if l & D == 0 { self.0[l + D] } else { o.0[l] })),
        )
    }
    #[inline(always)]
    fn sum(self) -> f64 {
        let v = each!($n; l => self.0[l].to_f64());
        fold!($n, v, +)
    }
    #[inline(always)]
    fn lane(self, l: usize) -> f64 {
        self.0[l].to_f64()
    }
    #[inline(always)]
    fn odd(magic_n: Self) -> Self::Mask {
        each!($n; l => magic_n.0[l].to_bits().lowest())
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        let pairs = each!($n; l => Lane::frexp(self.0[l]));
        (Self(each!($n; l => pairs[l].0)), Self(each!($n; l => pairs[l].1)))
    }

    #[inline(always)]
    unsafe fn load(p: *const $T) -> Self {
        // SAFETY: the caller gives N elements.
        Self(unsafe { p.cast::<[$T; $n]>().read() })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const $T, n: usize) -> Self {
        // SAFETY: the caller gives n ≥ 1 elements.
        Self(each!($n; l => unsafe { p.add(l.min(n - 1)).read() }))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut $T) {
        // SAFETY: the caller gives room for N elements.
        unsafe { p.cast::<[$T; $n]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut $T, n: usize) {
        // SAFETY: the caller gives room for n ≤ N elements.
        unsafe { p.copy_from_nonoverlapping(self.0.as_ptr(), n) }
    }
    #[inline(always)]
    unsafe fn load3_first(p: *const $T, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n ≥ 1 rows.
        Self::columns(each!($n; l => unsafe { <$T as Lane>::load3(p.add(3 * l.min(n - 1))) }))
    }
    #[inline(always)]
    unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n ≥ 1 rows.
        Self::columns(each!($n; l => unsafe { <$T as Lane>::int3(p.add(3 * l.min(n - 1))) }))
    }
    #[inline(always)]
    unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n ≥ 1 elements.
        Self::columns(each!($n; l => unsafe { <$T as Lane>::packed3(p.add(l.min(n - 1))) }))
    }
    #[inline(always)]
    unsafe fn gather(p: *const $T, i: Self::Index, stride: usize, offset: usize) -> Self {
        // SAFETY: the caller vouches for the indices.
        Self(each!($n; l => unsafe { <$T as Lane>::gather(p, [i[l]], stride, offset) }))
    }
    #[inline(always)]
    unsafe fn gather3(p: *const $T, i: Self::Index) -> [Self; 3] {
        // SAFETY: the caller vouches for the rows.
        Self::columns(each!($n; l => unsafe { <$T as Lane>::gather3(p, [i[l]]) }))
    }
    #[inline(always)]
    unsafe fn int_gather(p: *const i32, i: Self::Index, stride: usize, offset: usize) -> Self {
        // SAFETY: the caller vouches for the indices.
        Self(each!($n; l => unsafe { <$T as Lane>::int_gather(p, [i[l]], stride, offset) }))
    }
}
    };
    // A method whose lanes are those of the scalar's method.
    (@each $Trait:ident $T:ident $n:tt $f:ident($self:ident $(, $arg:ident)*)) => {
        #[inline(always)]
        fn $f($self $(, $arg: Self)*) -> Self {
            Self(each!($n; l => <$T as $Trait>::$f($self.0[l] $(, $arg.0[l])*)))
        }
    };
}
portable!(
    /// Four f64.
    Portable64 f64 u64 4
);
portable!(
    /// Eight f32.
    Portable32 f32 u32 8
);
