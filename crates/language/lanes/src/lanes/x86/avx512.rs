//! AVX-512: masks are integers with a bit for each lane, and there are instructions for exponents and rough inverses.

use super::super::coefficients::{OCTAVE_F32, OCTAVE_F64};
use super::super::functions::{self, ROOT_ENDS};
use super::super::lane::{Elem, Lane, Mask, Work};
use super::super::registers::{arch, lane, register, table};
use super::super::single::{SQRT_HALF_F32, SQRT_HALF_F64};
use super::{columns_of_eight_ints, sum_of_four};
use core::arch::x86_64::*;

table! {
                        [avx512_f32               avx512_f64]
    Register:            __m512                   __m512d;
    add:                 _mm512_add_ps            _mm512_add_pd;
    sub:                 _mm512_sub_ps            _mm512_sub_pd;
    mul:                 _mm512_mul_ps            _mm512_mul_pd;
    div:                 _mm512_div_ps            _mm512_div_pd;
    mul_add:             _mm512_fmadd_ps          _mm512_fmadd_pd;
    sqrt:                _mm512_sqrt_ps           _mm512_sqrt_pd;
    min:                 _mm512_min_ps            _mm512_min_pd;
    max:                 _mm512_max_ps            _mm512_max_pd;
    compare:             _mm512_cmp_ps_mask       _mm512_cmp_pd_mask;
    set1:                _mm512_set1_ps           _mm512_set1_pd;
    set:                 _mm512_setr_ps           _mm512_setr_pd;
    load:                _mm512_loadu_ps          _mm512_loadu_pd;
    store:               _mm512_storeu_ps         _mm512_storeu_pd;
    masked_load:         load_of_sixteen          load_of_eight;
    masked_store:        _mm512_mask_storeu_ps    _mm512_mask_storeu_pd;
    before:              before_of_sixteen        before_of_eight;
    repeat_last:         repeat_last_of_sixteen   repeat_last_of_eight;
    columns:             columns_of_sixteen       columns_of_eight;

    Ints:                __m512i                  __m256i;
    add_ints:            _mm512_add_epi32         _mm256_add_epi32;
    sub_ints:            _mm512_sub_epi32         _mm256_sub_epi32;
    and_ints:            _mm512_and_si512         _mm256_and_si256;
    shift_right:         _mm512_srli_epi32        _mm256_srli_epi32;
    shift_right_signed:  _mm512_srai_epi32        _mm256_srai_epi32;
    of_ints:             _mm512_cvtepi32_ps       _mm512_cvtepi32_pd;
    set1_ints:           _mm512_set1_epi32        _mm256_set1_epi32;
    set_ints:            _mm512_setr_epi32        _mm256_setr_epi32;
    load_ints:           _mm512_loadu_si512       _mm256_loadu_si256;
    masked_load_ints:    load_of_sixteen_ints     load_of_eight_ints;
    ints_before:         before_of_sixteen        before_of_eight;
    int_columns:         columns_of_sixteen_ints  columns_of_eight_ints;

    // What `avx512!` uses.
    Mask:                __mmask16                __mmask8;
    OCTAVE:              OCTAVE_F32               OCTAVE_F64;
    SQRT_HALF:           SQRT_HALF_F32            SQRT_HALF_F64;
    abs:                 _mm512_abs_ps            _mm512_abs_pd;
    blend:               _mm512_mask_blend_ps     _mm512_mask_blend_pd;
    permute:             _mm512_permutexvar_ps    _mm512_permutexvar_pd;
    scale:               _mm512_scalef_ps         _mm512_scalef_pd;
    fix_up:              _mm512_fixupimm_ps       _mm512_fixupimm_pd;
    rough_recip:         _mm512_rcp14_ps          _mm512_rcp14_pd;
    rough_recip_sqrt:    _mm512_rsqrt14_ps        _mm512_rsqrt14_pd;
    to_bits:             _mm512_castps_si512      _mm512_castpd_si512;
    of_bits:             _mm512_castsi512_ps      _mm512_castsi512_pd;
    of_signed_bits:      _mm512_cvtepi32_ps       _mm512_cvtepi64_pd;
    sub_bits:            _mm512_sub_epi32         _mm512_sub_epi64;
    shift_left:          _mm512_slli_epi32        _mm512_slli_epi64;
    shift_bits_right:    _mm512_srai_epi32        _mm512_srai_epi64;
    test_bits:           _mm512_test_epi32_mask   _mm512_test_epi64_mask;
    set1_bits:           _mm512_set1_epi32        _mm512_set1_epi64;
}

macro_rules! masks {
    ($($M:ident)*) => {$(
        impl Mask for $M {
            #[inline(always)]
            fn all(b: bool) -> Self {
                (b as $M).wrapping_neg()
            }
            #[inline(always)]
            fn first(n: usize) -> Self {
                ((1u32 << n) - 1) as $M
            }
            #[inline(always)]
            fn bits(mask: u32) -> Self {
                mask as $M
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
                self != 0
            }
        }
    )*};
}
masks!(__mmask8 __mmask16);

macro_rules! masked_loads {
    ($($name:ident: $intrinsic:ident, $T:ident => $Register:ident by $M:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name(p: *const $T, mask: $M) -> $Register {
            // SAFETY: the caller gives the elements of the mask, and no other is touched.
            unsafe { $intrinsic(mask, p) }
        }
    )*};
}
masked_loads! {
    load_of_eight: _mm512_maskz_loadu_pd, f64 => __m512d by __mmask8;
    load_of_eight_ints: _mm256_maskz_loadu_epi32, i32 => __m256i by __mmask8;
    load_of_sixteen: _mm512_maskz_loadu_ps, f32 => __m512 by __mmask16;
    load_of_sixteen_ints: _mm512_maskz_loadu_epi32, i32 => __m512i by __mmask16;
}

/// Items of both types, given the bits of the mantissa, the place of the sign, and how many of Newton's steps lead from 14
/// bits to half the digits.
macro_rules! avx512 {
    ($column:ident: $T:ident, mantissa $mantissa:literal, sign $sign:literal, steps $steps:literal) => {
        const SATURATES: bool = true;
        const PARTS: f64 = $column::OCTAVE.len() as f64;

        #[inline(always)]
        fn apart<W: Work>(work: W) -> W::Output {
            #[inline(never)]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
            fn run<W: Work>(work: W) -> W::Output {
                work.run()
            }
            // SAFETY: a lane type is used only where its features are enabled (see the module).
            unsafe { run(work) }
        }
        #[inline(always)]
        fn abs(self) -> Self {
            Self(arch!($column::abs(self.0)))
        }
        #[inline(always)]
        fn select(m: Self::Mask, a: Self, b: Self) -> Self {
            Self(arch!($column::blend(m, b.0, a.0)))
        }
        #[inline(always)]
        fn sqrt_recip(self) -> (Self, Self) {
            let estimate = Self(arch!($column::rough_recip_sqrt(self.0)));
            let (root, inverse) = functions::refined_roots(self, estimate, $steps);
            arch!(
                let of_root = $column::set1_bits(ROOT_ENDS.0.into());
                let of_inverse = $column::set1_bits(ROOT_ENDS.1.into());
                (
                    Self($column::fix_up::<0>(root.0, self.0, of_root)),
                    Self($column::fix_up::<0>(inverse.0, self.0, of_inverse)),
                )
            )
        }
        #[inline(always)]
        fn quotient(self, divisor: Self) -> Self {
            functions::refined_quotient(self, divisor, Self(arch!($column::rough_recip(divisor.0))), $steps)
        }
        #[inline(always)]
        fn octave(magic_n: Self) -> Self {
            const OCTAVE: [$T; $column::OCTAVE.len()] = {
                let (mut table, mut i) = ([0.0; $column::OCTAVE.len()], 0);
                while i < table.len() {
                    table[i] = $column::OCTAVE[i] as $T;
                    i += 1;
                }
                table
            };
            // SAFETY: the table fills a register, and the lowest bits of the index choose from it.
            Self(unsafe { $column::permute($column::to_bits(magic_n.0), $column::load(OCTAVE.as_ptr())) })
        }
        #[inline(always)]
        fn ldexp(self, n: Self, _: Self) -> Self {
            Self(arch!($column::scale(self.0, n.0)))
        }
        #[inline(always)]
        fn odd(magic_n: Self) -> Self::Mask {
            arch!($column::test_bits($column::to_bits(magic_n.0), $column::set1_bits(1)))
        }
        #[inline(always)]
        fn flip(self, magic_n: Self) -> Self {
            Self(arch!(
                let second = $column::shift_left::<{ $sign - 1 }>($column::to_bits(magic_n.0));
                let sign = _mm512_and_si512(second, $column::set1_bits(1 << $sign));
                $column::of_bits(_mm512_xor_si512($column::to_bits(self.0), sign))
            ))
        }
        #[inline(always)]
        fn frexp(self) -> (Self, Self) {
            arch!(
                let bits = $column::to_bits(self.0);
                let from_half = $column::sub_bits(bits, $column::set1_bits($column::SQRT_HALF as _));
                let n = $column::shift_bits_right::<$mantissa>(from_half);
                let m = $column::sub_bits(bits, $column::shift_left::<$mantissa>(n));
                (Self($column::of_bits(m)), Self($column::of_signed_bits(n)))
            )
        }
    };
}

register! {
    /// Sixteen f32 in an AVX-512 register.
    Avx512F32: avx512_f32
}

impl Lane for Avx512F32 {
    lane!(avx512_f32: f32 [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]);
    type Rows = Avx512F64;
    avx512!(avx512_f32: f32, mantissa 23, sign 31, steps 0);

    #[inline(always)]
    fn reversed(self) -> Self {
        arch!(
            let lanes = _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            Self(_mm512_permutexvar_ps(lanes, self.0))
        )
    }
    #[inline(always)]
    fn exchange<const D: usize>(self, o: Self) -> (Self, Self) {
        if D == 1 {
            return arch!((
                Self(_mm512_mask_moveldup_ps(self.0, 0xAAAA, o.0)),
                Self(_mm512_mask_movehdup_ps(o.0, 0x5555, self.0)),
            ));
        }
        // Blocks of two are one f64 each.
        let (a, b) = arch!((Avx512F64(_mm512_castps_pd(self.0)), Avx512F64(_mm512_castps_pd(o.0))));
        let (a, b) = match D {
            2 => a.exchange::<1>(b),
            4 => a.exchange::<2>(b),
            8 => a.exchange::<4>(b),
            _ => (a, b),
        };
        arch!((Self(_mm512_castpd_ps(a.0)), Self(_mm512_castpd_ps(b.0))))
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        arch!(
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(self.0));
            sum_of_eight(_mm512_add_pd(low, _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0))))
        )
    }
    #[inline(always)]
    unsafe fn gather3(p: *const f32, i: [i32; 16]) -> [Self; 3] {
        macro_rules! rows {
            ($($l:literal),*) => {{
                // SAFETY: the caller vouches for the rows; the mask leaves the fourth element alone.
                let [a, b, c, d] = unsafe { [$(_mm_maskz_loadu_ps(0b111, p.add(3 * i[$l] as usize))),*] };
                arch!(
                    let low = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), b);
                    let high = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(c), d);
                    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
                )
            }};
        }
        let (a, b) = (rows!(0, 4, 8, 12), rows!(1, 5, 9, 13));
        let (c, d) = (rows!(2, 6, 10, 14), rows!(3, 7, 11, 15));
        arch!(
            let (xy_low, xy_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d));
            let (z_low, z_high) = (_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d));
            [
                Self(_mm512_shuffle_ps::<0b01_00_01_00>(xy_low, xy_high)),
                Self(_mm512_shuffle_ps::<0b11_10_11_10>(xy_low, xy_high)),
                Self(_mm512_shuffle_ps::<0b01_00_01_00>(z_low, z_high)),
            ]
        )
    }
}

#[inline(always)]
fn before_of_sixteen(n: usize, start: usize) -> __mmask16 {
    (((1u64 << n) - 1) >> start) as __mmask16
}

#[inline(always)]
fn repeat_last_of_sixteen(v: __m512, n: usize) -> __m512 {
    arch!(
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        _mm512_permutexvar_ps(_mm512_min_epi32(lanes, _mm512_set1_epi32(n as i32 - 1)), v)
    )
}

#[inline(always)]
fn columns_of_sixteen([a, b, c]: [__m512; 3]) -> [__m512; 3] {
    arch!(
        let rows = [_mm512_castps_si512(a), _mm512_castps_si512(b), _mm512_castps_si512(c)];
        let [x, y, z] = columns_of_sixteen_ints(rows);
        [_mm512_castsi512_ps(x), _mm512_castsi512_ps(y), _mm512_castsi512_ps(z)]
    )
}

#[inline(always)]
fn columns_of_sixteen_ints([a, b, c]: [__m512i; 3]) -> [__m512i; 3] {
    /// The places of the elements of one column are 0, 1 or 2 beyond a multiple of three.
    const PLACES: [__mmask16; 3] = [0x9249, 0x2492, 0x4924];
    arch!(
        let x = _mm512_mask_blend_epi32(PLACES[1], _mm512_mask_blend_epi32(PLACES[2], a, b), c);
        let y = _mm512_mask_blend_epi32(PLACES[2], _mm512_mask_blend_epi32(PLACES[0], a, b), c);
        let z = _mm512_mask_blend_epi32(PLACES[0], _mm512_mask_blend_epi32(PLACES[1], a, b), c);
        [
            _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13), x),
            _mm512_permutexvar_epi32(_mm512_setr_epi32(1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14), y),
            _mm512_permutexvar_epi32(_mm512_setr_epi32(2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15), z),
        ]
    )
}

register! {
    /// Eight f64 in an AVX-512 register.
    Avx512F64: avx512_f64
}

impl Lane for Avx512F64 {
    lane!(avx512_f64: f64 [0 1 2 3 4 5 6 7]);
    type Rows = Avx512F64;
    avx512!(avx512_f64: f64, mantissa 52, sign 63, steps 1);

    #[inline(always)]
    fn reversed(self) -> Self {
        Self(arch!(_mm512_permutexvar_pd(_mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0), self.0)))
    }
    #[inline(always)]
    fn exchange<const D: usize>(self, o: Self) -> (Self, Self) {
        let (a, b) = (self.0, o.0);
        match D {
            1 => arch!((Self(_mm512_unpacklo_pd(a, b)), Self(_mm512_unpackhi_pd(a, b)))),
            2 => arch!(
                let even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
                let odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
                (Self(_mm512_permutex2var_pd(a, even, b)), Self(_mm512_permutex2var_pd(a, odd, b)))
            ),
            4 => arch!((
                Self(_mm512_shuffle_f64x2::<0b01_00_01_00>(a, b)),
                Self(_mm512_shuffle_f64x2::<0b11_10_11_10>(a, b)),
            )),
            _ => (self, o),
        }
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        sum_of_eight(self.0)
    }
    #[inline(always)]
    unsafe fn load_some_f32(p: *const f32, n: usize) -> Self {
        // SAFETY: the caller gives n elements, and no other is touched.
        Self(unsafe { _mm512_cvtps_pd(_mm256_maskz_loadu_ps(before_of_eight(n, 0), p)) })
    }
    #[inline(always)]
    unsafe fn gather3(p: *const f64, i: [i32; 8]) -> [Self; 3] {
        macro_rules! rows {
            ($low:literal, $high:literal) => {
                // SAFETY: the caller vouches for the rows; the mask leaves the fourth element alone.
                unsafe {
                    let low = _mm256_maskz_loadu_pd(0b111, p.add(3 * i[$low] as usize));
                    let high = _mm256_maskz_loadu_pd(0b111, p.add(3 * i[$high] as usize));
                    _mm512_insertf64x4::<1>(_mm512_castpd256_pd512(low), high)
                }
            };
        }
        let (a, b, c, d) = (rows!(0, 2), rows!(1, 3), rows!(4, 6), rows!(5, 7));
        arch!(
            let (xz_low, xz_high) = (_mm512_unpacklo_pd(a, b), _mm512_unpacklo_pd(c, d));
            let (y_low, y_high) = (_mm512_unpackhi_pd(a, b), _mm512_unpackhi_pd(c, d));
            [
                Self(_mm512_shuffle_f64x2::<0b10_00_10_00>(xz_low, xz_high)),
                Self(_mm512_shuffle_f64x2::<0b10_00_10_00>(y_low, y_high)),
                Self(_mm512_shuffle_f64x2::<0b11_01_11_01>(xz_low, xz_high)),
            ]
        )
    }
}

#[inline(always)]
fn sum_of_eight(v: __m512d) -> f64 {
    arch!(sum_of_four(_mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd::<1>(v))))
}

#[inline(always)]
fn before_of_eight(n: usize, start: usize) -> __mmask8 {
    (((1u32 << n) - 1) >> start) as __mmask8
}

#[inline(always)]
fn repeat_last_of_eight(v: __m512d, n: usize) -> __m512d {
    arch!(
        let last = _mm512_set1_epi64(n as i64 - 1);
        _mm512_permutexvar_pd(_mm512_min_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), last), v)
    )
}

#[inline(always)]
fn columns_of_eight([a, b, c]: [__m512d; 3]) -> [__m512d; 3] {
    arch!(
        let x = _mm512_mask_blend_pd(0b00100100, _mm512_mask_blend_pd(0b10010010, a, b), c);
        let y = _mm512_mask_blend_pd(0b01001001, _mm512_mask_blend_pd(0b00100100, a, b), c);
        let z = _mm512_mask_blend_pd(0b10010010, _mm512_mask_blend_pd(0b01001001, a, b), c);
        [
            _mm512_permutexvar_pd(_mm512_setr_epi64(0, 3, 6, 1, 4, 7, 2, 5), x),
            _mm512_permutexvar_pd(_mm512_setr_epi64(1, 4, 7, 2, 5, 0, 3, 6), y),
            _mm512_permutexvar_pd(_mm512_setr_epi64(2, 5, 0, 3, 6, 1, 4, 7), z),
        ]
    )
}
