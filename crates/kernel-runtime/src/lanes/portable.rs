//! Lanes for processors without AVX2: arrays, which the compiler puts into whatever registers the target has.
#![expect(unsafe_code, reason = "memory is read through raw pointers whose validity the caller promises")]

use super::functions::{Prim, Tables};
use super::lane::{Lane, common};
use super::packed::unpack;
use core::ops::{Add, Div, Mul, Neg, Sub};

/// Four f64.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Portable64([f64; 4]);

/// Eight f32.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Portable32([f32; 8]);

macro_rules! portable {
    ($L:ident, $T:ident, $Bits:ident, $n:literal) => {
        impl $L {
            #[inline(always)]
            fn from_masks(m: [$Bits; $n]) -> Self {
                let mut r = [0.0; $n];
                for l in 0..$n {
                    r[l] = $T::from_bits(m[l]);
                }
                Self(r)
            }
        }

        portable!(@operator $L, $n, Add add +=);
        portable!(@operator $L, $n, Sub sub -=);
        portable!(@operator $L, $n, Mul mul *=);
        portable!(@operator $L, $n, Div div /=);

        impl Neg for $L {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                let mut r = self.0;
                for l in 0..$n {
                    r[l] = -r[l];
                }
                Self(r)
            }
        }

        impl Lane for $L {
            type Elem = $T;
            /// All bits of a lane, set or not.
            type Mask = [$Bits; $n];
            type Index = [i32; $n];
            const N: usize = $n;
            const FLUSH: usize = <$T as Lane>::FLUSH;
            common!();

            #[inline(always)]
            fn splat(x: f64) -> Self {
                Self([x as $T; $n])
            }
            portable!(@each $L, $n, mul_add(self, b, c));
            portable!(@each $L, $n, sqrt(self));
            portable!(@each $L, $n, abs(self));
            portable!(@compare $Bits, $n, lt <);
            portable!(@compare $Bits, $n, le <=);
            portable!(@compare $Bits, $n, eq ==);
            #[inline(always)]
            fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask {
                let mut r = a;
                for l in 0..$n {
                    r[l] &= b[l];
                }
                r
            }
            #[inline(always)]
            fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask {
                let mut r = a;
                for l in 0..$n {
                    r[l] |= b[l];
                }
                r
            }
            #[inline(always)]
            fn not(a: Self::Mask) -> Self::Mask {
                let mut r = a;
                for l in 0..$n {
                    r[l] = !r[l];
                }
                r
            }
            #[inline(always)]
            fn mask(b: bool) -> Self::Mask {
                [(b as $Bits).wrapping_neg(); $n]
            }
            #[inline(always)]
            fn any(a: Self::Mask) -> bool {
                let mut r = 0;
                for l in 0..$n {
                    r |= a[l];
                }
                r != 0
            }
            #[inline(always)]
            fn first(n: usize) -> Self::Mask {
                let mut r = [0; $n];
                for l in 0..$n {
                    r[l] = ((l < n) as $Bits).wrapping_neg();
                }
                r
            }
            #[inline(always)]
            fn bits(mask: u32) -> Self::Mask {
                let mut r = [0; $n];
                for l in 0..$n {
                    r[l] = ((mask >> l & 1) as $Bits).wrapping_neg();
                }
                r
            }
            #[inline(always)]
            fn select(m: Self::Mask, a: Self, b: Self) -> Self {
                let mut r = m;
                for l in 0..$n {
                    r[l] = (m[l] & a.0[l].to_bits()) | (!m[l] & b.0[l].to_bits());
                }
                Self::from_masks(r)
            }
            #[inline(always)]
            fn sum(self) -> f64 {
                let mut v = [0.0; $n];
                for l in 0..$n {
                    v[l] = f64::from(self.0[l]);
                }
                let mut width = $n / 2;
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
                self.0[l].into()
            }
            #[inline(always)]
            unsafe fn load(p: *const $T) -> Self {
                // SAFETY: the caller gives N elements.
                Self(unsafe { p.cast::<[$T; $n]>().read() })
            }
            #[inline(always)]
            unsafe fn load_first(p: *const $T, n: usize) -> Self {
                let mut r = [0.0; $n];
                for l in 0..$n {
                    // SAFETY: the caller gives n ≥ 1 elements.
                    r[l] = unsafe { p.add(l.min(n - 1)).read() };
                }
                Self(r)
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
            unsafe fn load3(p: *const $T) -> [Self; 3] {
                // SAFETY: the caller gives N rows.
                unsafe { Self::load3_first(p, $n) }
            }
            #[inline(always)]
            unsafe fn load3_first(p: *const $T, n: usize) -> [Self; 3] {
                let mut r = [[0.0; $n]; 3];
                for l in 0..$n {
                    // SAFETY: the caller gives n ≥ 1 rows.
                    let row = unsafe { p.add(3 * l.min(n - 1)).cast::<[$T; 3]>().read() };
                    (r[0][l], r[1][l], r[2][l]) = (row[0], row[1], row[2]);
                }
                [Self(r[0]), Self(r[1]), Self(r[2])]
            }
            #[inline(always)]
            unsafe fn gather(p: *const $T, i: Self::Index, stride: usize, offset: usize) -> Self {
                let mut r = [0.0; $n];
                for l in 0..$n {
                    // SAFETY: the caller vouches for the indices.
                    r[l] = unsafe { p.add(i[l] as usize * stride + offset).read() };
                }
                Self(r)
            }
            #[inline(always)]
            unsafe fn gather3(p: *const $T, i: Self::Index) -> [Self; 3] {
                let mut r = [[0.0; $n]; 3];
                for l in 0..$n {
                    // SAFETY: the caller vouches for the rows.
                    let row = unsafe { p.add(3 * i[l] as usize).cast::<[$T; 3]>().read() };
                    (r[0][l], r[1][l], r[2][l]) = (row[0], row[1], row[2]);
                }
                [Self(r[0]), Self(r[1]), Self(r[2])]
            }
            #[inline(always)]
            unsafe fn int3(p: *const i32) -> [Self; 3] {
                // SAFETY: the caller gives N rows.
                unsafe { Self::int3_first(p, $n) }
            }
            #[inline(always)]
            unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3] {
                let mut r = [[0.0; $n]; 3];
                for l in 0..$n {
                    // SAFETY: the caller gives n ≥ 1 rows.
                    let row = unsafe { p.add(3 * l.min(n - 1)).cast::<[i32; 3]>().read() };
                    (r[0][l], r[1][l], r[2][l]) = (row[0] as $T, row[1] as $T, row[2] as $T);
                }
                [Self(r[0]), Self(r[1]), Self(r[2])]
            }
            #[inline(always)]
            unsafe fn packed3(p: *const i32) -> [Self; 3] {
                // SAFETY: the caller gives N elements.
                unsafe { Self::packed3_first(p, $n) }
            }
            #[inline(always)]
            unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3] {
                let mut r = [[0.0; $n]; 3];
                for l in 0..$n {
                    // SAFETY: the caller gives n ≥ 1 elements.
                    let row = unpack(unsafe { p.add(l.min(n - 1)).read() });
                    (r[0][l], r[1][l], r[2][l]) = (row[0] as $T, row[1] as $T, row[2] as $T);
                }
                [Self(r[0]), Self(r[1]), Self(r[2])]
            }
            #[inline(always)]
            unsafe fn int_gather(p: *const i32, i: Self::Index, stride: usize, offset: usize) -> Self {
                let mut r = [0.0; $n];
                for l in 0..$n {
                    // SAFETY: the caller vouches for the indices.
                    r[l] = unsafe { p.add(i[l] as usize * stride + offset).read() as $T };
                }
                Self(r)
            }
        }

        impl Prim for $L {
            const TABLES: Tables = <$T as Prim>::TABLES;
            const SATURATES: bool = false;
            portable!(@each $L, $n, product_error(self, b, c));
            portable!(@each $L, $n, at_most(self, b));
            portable!(@each $L, $n, at_least(self, b));
            portable!(@each $L, $n, ldexp(self, b, c));
            portable!(@each $L, $n, flip(self, b));
            #[inline(always)]
            fn odd(magic_n: Self) -> Self::Mask {
                let mut r = [0; $n];
                for l in 0..$n {
                    r[l] = (magic_n.0[l].to_bits() & 1).wrapping_neg();
                }
                r
            }
            #[inline(always)]
            fn frexp(self) -> (Self, Self) {
                let mut r = ([0.0; $n], [0.0; $n]);
                for l in 0..$n {
                    (r.0[l], r.1[l]) = self.0[l].frexp();
                }
                (Self(r.0), Self(r.1))
            }
        }
    };
    (@operator $L:ident, $n:literal, $Op:ident $op:ident $sign:tt) => {
        impl $Op for $L {
            type Output = Self;
            #[inline(always)]
            fn $op(self, o: Self) -> Self {
                let mut r = self.0;
                for l in 0..$n {
                    r[l] $sign o.0[l];
                }
                Self(r)
            }
        }
    };
    // What a lane of one does, in each lane.
    (@each $L:ident, $n:literal, $f:ident($self:ident $(, $arg:ident)*)) => {
        #[inline(always)]
        fn $f($self $(, $arg: Self)*) -> Self {
            let mut r = $self.0;
            for l in 0..$n {
                r[l] = portable!(@one $L $f)(r[l] $(, $arg.0[l])*);
            }
            Self(r)
        }
    };
    (@one $L:ident mul_add) => { Lane::mul_add };
    (@one $L:ident sqrt) => { Lane::sqrt };
    (@one $L:ident abs) => { Lane::abs };
    (@one $L:ident $f:ident) => { Prim::$f };
    (@compare $Bits:ident, $n:literal, $f:ident $sign:tt) => {
        #[inline(always)]
        fn $f(self, o: Self) -> Self::Mask {
            let mut r = [0; $n];
            for l in 0..$n {
                r[l] = ((self.0[l] $sign o.0[l]) as $Bits).wrapping_neg();
            }
            r
        }
    };
}

portable!(Portable64, f64, u64, 4);
portable!(Portable32, f32, u32, 8);
