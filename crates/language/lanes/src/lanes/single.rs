//! `f64` and `f32` as lanes of one: the scalar form, and the reference for the others.
#![expect(unsafe_code, reason = "memory is read through raw pointers whose validity the caller promises")]

use super::functions::{self, Tables};
use super::lane::{Elem, Lane, Mask};
use super::packed::unpack;

/// The bits of √½, the least mantissa that `frexp` returns.
pub(super) const SQRT_HALF_F64: u64 = 0x3FE6_A09E_667F_3BCD;
pub(super) const SQRT_HALF_F32: u32 = 0x3F35_04F3;

/// 2^⌈half the bits of a mantissa⌉ + 1, by which a number is split into halves.
pub(super) const HALVES_F64: f64 = 134_217_729.0;
pub(super) const HALVES_F32: f32 = 4097.0;

/// Whether a fused operation is an instruction here and not a slow library call.
pub(super) const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

impl Mask for bool {
    #[inline(always)]
    fn all(b: bool) -> Self {
        b
    }
    #[inline(always)]
    fn first(n: usize) -> Self {
        n > 0
    }
    #[inline(always)]
    fn bits(mask: u32) -> Self {
        mask & 1 == 1
    }
    #[inline(always)]
    fn and(self, o: Self) -> Self {
        self & o
    }
    #[inline(always)]
    fn or(self, o: Self) -> Self {
        self | o
    }
    #[inline(always)]
    fn not(self) -> Self {
        !self
    }
    #[inline(always)]
    fn any(self) -> bool {
        self
    }
}

macro_rules! single {
    ($T:ident, $Bits:ident, $name:literal, flush $flush:expr, tables $tables:ident, mantissa $mantissa:literal,
     bias $bias:literal, halves $halves:ident, least $least:ident) => {
        impl Elem for $T {
            const NAME: &'static str = $name;
            const FLUSH: usize = $flush;
            const TABLES: Tables = functions::$tables;
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn of_f64(x: f64) -> Self {
                x as $T
            }
        }

        impl Lane for $T {
            type Elem = $T;
            type Mask = bool;
            type Index = [i32; 1];
            type Rows = f64;
            const N: usize = 1;

            #[inline(always)]
            fn splat(x: f64) -> Self {
                x as $T
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                if FUSED { $T::mul_add(self, b, c) } else { self * b + c }
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $T::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $T::abs(self)
            }
            #[inline(always)]
            fn lt(self, o: Self) -> bool {
                self < o
            }
            #[inline(always)]
            fn le(self, o: Self) -> bool {
                self <= o
            }
            #[inline(always)]
            fn eq(self, o: Self) -> bool {
                self == o
            }
            #[inline(always)]
            fn select(m: bool, a: Self, b: Self) -> Self {
                if m { a } else { b }
            }
            #[inline(always)]
            fn reversed(self) -> Self {
                self
            }
            #[inline(always)]
            fn exchange<const D: usize>(self, o: Self) -> (Self, Self) {
                (self, o)
            }
            #[inline(always)]
            fn sum(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn lane(self, _: usize) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn product_error(self, b: Self, product: Self) -> Self {
                if FUSED {
                    return $T::mul_add(self, b, -product);
                }
                functions::product_error_of_halves(self, b, product, $halves)
            }
            #[inline(always)]
            fn at_most(self, bound: Self) -> Self {
                if bound < self { bound } else { self }
            }
            #[inline(always)]
            fn at_least(self, bound: Self) -> Self {
                if bound > self { bound } else { self }
            }
            #[inline(always)]
            fn ldexp(self, _: Self, magic_n: Self) -> Self {
                $T::from_bits(self.to_bits().wrapping_add(magic_n.to_bits() << $mantissa))
            }
            #[inline(always)]
            fn odd(magic_n: Self) -> bool {
                magic_n.to_bits() & 1 != 0
            }
            #[inline(always)]
            fn flip(self, magic_n: Self) -> Self {
                $T::from_bits(self.to_bits() ^ (magic_n.to_bits() >> 1 << ($Bits::BITS - 1)))
            }
            #[inline(always)]
            fn frexp(self) -> (Self, Self) {
                // The exponent counts from √½; the offset keeps it positive for the lanes, which shift without sign.
                let n = self.to_bits().wrapping_sub($least).wrapping_add($bias << $mantissa) >> $mantissa;
                let m = self.to_bits().wrapping_sub(n << $mantissa).wrapping_add($bias << $mantissa);
                ($T::from_bits(m), n as $T - $bias as $T)
            }

            #[inline(always)]
            unsafe fn load(p: *const $T) -> Self {
                // SAFETY: the caller gives one element.
                unsafe { p.read() }
            }
            #[inline(always)]
            unsafe fn load_first(p: *const $T, _: usize) -> Self {
                // SAFETY: the caller gives one element.
                unsafe { p.read() }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $T) {
                // SAFETY: the caller gives room for one element.
                unsafe { p.write(self) }
            }
            #[inline(always)]
            unsafe fn store_first(self, p: *mut $T, n: usize) {
                if n > 0 {
                    // SAFETY: the caller gives room for one element.
                    unsafe { p.write(self) }
                }
            }
            #[inline(always)]
            unsafe fn load3_first(p: *const $T, _: usize) -> [Self; 3] {
                // SAFETY: the caller gives one row of three.
                unsafe { p.cast::<[$T; 3]>().read() }
            }
            #[inline(always)]
            unsafe fn int3_first(p: *const i32, _: usize) -> [Self; 3] {
                // SAFETY: the caller gives one row of three.
                let [x, y, z] = unsafe { p.cast::<[i32; 3]>().read() };
                [x as $T, y as $T, z as $T]
            }
            #[inline(always)]
            unsafe fn packed3_first(p: *const i32, _: usize) -> [Self; 3] {
                // SAFETY: the caller gives one element.
                let [x, y, z] = unpack(unsafe { p.read() });
                [x as $T, y as $T, z as $T]
            }
            #[inline(always)]
            unsafe fn gather(p: *const $T, i: [i32; 1], stride: usize, offset: usize) -> Self {
                // SAFETY: the caller vouches for the index.
                unsafe { p.add(i[0] as usize * stride + offset).read() }
            }
            #[inline(always)]
            unsafe fn gather3(p: *const $T, i: [i32; 1]) -> [Self; 3] {
                // SAFETY: the caller vouches for the row.
                unsafe { Self::load3(p.add(i[0] as usize * 3)) }
            }
            #[inline(always)]
            unsafe fn int_gather(p: *const i32, i: [i32; 1], stride: usize, offset: usize) -> Self {
                // SAFETY: the caller vouches for the index.
                unsafe { p.add(i[0] as usize * stride + offset).read() as $T }
            }
        }
    };
}

single!(f64, u64, "f64", flush usize::MAX, tables F64, mantissa 52, bias 1024, halves HALVES_F64, least SQRT_HALF_F64);
single!(f32, u32, "f32", flush 32, tables F32, mantissa 23, bias 128, halves HALVES_F32, least SQRT_HALF_F32);
