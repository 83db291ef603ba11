//! AVX2 with fused operations: masks are registers, and masked loads know 32 and 64 bits.

use super::super::lane::{Elem, Lane, Mask, Work};
use super::super::registers::{arch, lane, register, table};
use super::super::single::{SQRT_HALF_F32, SQRT_HALF_F64};
use super::{columns_of_eight_ints, sum_of_four};
use core::arch::x86_64::*;

table! {
                        [avx2_f32                 avx2_f64]
    Register:            __m256                   __m256d;
    add:                 _mm256_add_ps            _mm256_add_pd;
    sub:                 _mm256_sub_ps            _mm256_sub_pd;
    mul:                 _mm256_mul_ps            _mm256_mul_pd;
    div:                 _mm256_div_ps            _mm256_div_pd;
    mul_add:             _mm256_fmadd_ps          _mm256_fmadd_pd;
    sqrt:                _mm256_sqrt_ps           _mm256_sqrt_pd;
    min:                 _mm256_min_ps            _mm256_min_pd;
    max:                 _mm256_max_ps            _mm256_max_pd;
    compare:             _mm256_cmp_ps            _mm256_cmp_pd;
    set1:                _mm256_set1_ps           _mm256_set1_pd;
    set:                 _mm256_setr_ps           _mm256_setr_pd;
    load:                _mm256_loadu_ps          _mm256_loadu_pd;
    store:               _mm256_storeu_ps         _mm256_storeu_pd;
    masked_load:         _mm256_maskload_ps       _mm256_maskload_pd;
    masked_store:        _mm256_maskstore_ps      _mm256_maskstore_pd;
    before:              before_of_eight          before_of_four;
    repeat_last:         repeat_last_of_eight     repeat_last_of_four;
    columns:             columns_of_eight         columns_of_four;

    Ints:                __m256i                  __m128i;
    add_ints:            _mm256_add_epi32         _mm_add_epi32;
    sub_ints:            _mm256_sub_epi32         _mm_sub_epi32;
    and_ints:            _mm256_and_si256         _mm_and_si128;
    shift_right:         _mm256_srli_epi32        _mm_srli_epi32;
    shift_right_signed:  _mm256_srai_epi32        _mm_srai_epi32;
    of_ints:             _mm256_cvtepi32_ps       _mm256_cvtepi32_pd;
    set1_ints:           _mm256_set1_epi32        _mm_set1_epi32;
    set_ints:            _mm256_setr_epi32        _mm_setr_epi32;
    load_ints:           _mm256_loadu_si256       _mm_loadu_si128;
    masked_load_ints:    _mm256_maskload_epi32    _mm_maskload_epi32;
    ints_before:         before_of_eight          before_of_four_ints;
    int_columns:         columns_of_eight_ints    columns_of_four_ints;

    // What `avx2!` and `mask!` use.
    Mask:                __m256                   __m256d;
    and:                 _mm256_and_ps            _mm256_and_pd;
    or:                  _mm256_or_ps             _mm256_or_pd;
    xor:                 _mm256_xor_ps            _mm256_xor_pd;
    and_not:             _mm256_andnot_ps         _mm256_andnot_pd;
    signs:               _mm256_movemask_ps       _mm256_movemask_pd;
    blend:               _mm256_blendv_ps         _mm256_blendv_pd;
    to_bits:             _mm256_castps_si256      _mm256_castpd_si256;
    of_bits:             _mm256_castsi256_ps      _mm256_castsi256_pd;
    add_bits:            _mm256_add_epi32         _mm256_add_epi64;
    shift_left:          _mm256_slli_epi32        _mm256_slli_epi64;
    equal_bits:          _mm256_cmpeq_epi32       _mm256_cmpeq_epi64;
    set1_bits:           _mm256_set1_epi32        _mm256_set1_epi64x;
    set_bits:            _mm256_setr_epi32        _mm256_setr_epi64x;
}

/// Masks are registers. Only the sign bits count where a mask is used, but all bits of a lane are set or none: `not`.
macro_rules! mask {
    ($column:ident [$($l:literal)*]) => {
        impl Mask for $column::Mask {
            #[inline(always)]
            fn all(b: bool) -> Self {
                arch!($column::of_bits(_mm256_set1_epi32(-(b as i32))))
            }
            #[inline(always)]
            fn first(n: usize) -> Self {
                arch!($column::of_bits($column::before(n, 0)))
            }
            #[inline(always)]
            fn bits(mask: u32) -> Self {
                arch!(
                    let bit = $column::set_bits($(1 << $l),*);
                    let set = _mm256_and_si256($column::set1_bits(mask as _), bit);
                    $column::of_bits($column::equal_bits(set, bit))
                )
            }
            #[inline(always)]
            fn and(self, o: Self) -> Self {
                arch!($column::and(self, o))
            }
            #[inline(always)]
            fn or(self, o: Self) -> Self {
                arch!($column::or(self, o))
            }
            #[inline(always)]
            fn not(self) -> Self {
                arch!($column::xor(self, Self::all(true)))
            }
            #[inline(always)]
            fn any(self) -> bool {
                arch!($column::signs(self)) != 0
            }
        }
    };
}
mask!(avx2_f32 [0 1 2 3 4 5 6 7]);
mask!(avx2_f64 [0 1 2 3]);

/// Items of both types, given the bits of the mantissa and of all but the last two, which are the sign and its neighbour.
macro_rules! avx2 {
    ($column:ident: mantissa $mantissa:literal, sign $sign:literal) => {
        #[inline(always)]
        fn apart<W: Work>(work: W) -> W::Output {
            #[inline(never)]
            #[target_feature(enable = "avx2,fma")]
            fn run<W: Work>(work: W) -> W::Output {
                work.run()
            }
            // SAFETY: a lane type is used only where its features are enabled (see the module).
            unsafe { run(work) }
        }
        #[inline(always)]
        fn abs(self) -> Self {
            Self(arch!($column::and_not($column::set1(-0.0), self.0)))
        }
        #[inline(always)]
        fn select(m: Self::Mask, a: Self, b: Self) -> Self {
            Self(arch!($column::blend(b.0, a.0, m)))
        }
        #[inline(always)]
        fn ldexp(self, _: Self, magic_n: Self) -> Self {
            Self(arch!(
                let exponent = $column::shift_left::<$mantissa>($column::to_bits(magic_n.0));
                $column::of_bits($column::add_bits($column::to_bits(self.0), exponent))
            ))
        }
        #[inline(always)]
        fn odd(magic_n: Self) -> Self::Mask {
            // Only the sign bit of a mask counts, here as in the instructions that use it.
            arch!($column::of_bits($column::shift_left::<$sign>($column::to_bits(magic_n.0))))
        }
        #[inline(always)]
        fn flip(self, magic_n: Self) -> Self {
            Self(arch!(
                let second = $column::of_bits($column::shift_left::<{ $sign - 1 }>($column::to_bits(magic_n.0)));
                $column::xor(self.0, $column::and(second, $column::set1(-0.0)))
            ))
        }
    };
}

register! {
    /// Eight f32 in an AVX2 register.
    Avx2F32: avx2_f32
}

impl Lane for Avx2F32 {
    lane!(avx2_f32: f32 [0 1 2 3 4 5 6 7]);
    type Rows = Avx2F64;
    avx2!(avx2_f32: mantissa 23, sign 31);

    #[inline(always)]
    fn reversed(self) -> Self {
        Self(arch!(_mm256_permutevar8x32_ps(self.0, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0))))
    }
    #[inline(always)]
    fn exchange<const D: usize>(self, o: Self) -> (Self, Self) {
        if D == 1 {
            return arch!((
                Self(_mm256_blend_ps::<0b10101010>(self.0, _mm256_moveldup_ps(o.0))),
                Self(_mm256_blend_ps::<0b10101010>(_mm256_movehdup_ps(self.0), o.0)),
            ));
        }
        // Blocks of two are one f64 each.
        let (a, b) = arch!((Avx2F64(_mm256_castps_pd(self.0)), Avx2F64(_mm256_castps_pd(o.0))));
        let (a, b) = match D {
            2 => a.exchange::<1>(b),
            4 => a.exchange::<2>(b),
            _ => (a, b),
        };
        arch!((Self(_mm256_castpd_ps(a.0)), Self(_mm256_castpd_ps(b.0))))
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        arch!(
            let low = _mm256_cvtps_pd(_mm256_castps256_ps128(self.0));
            sum_of_four(_mm256_add_pd(low, _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(self.0))))
        )
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        arch!(
            let bits = _mm256_castps_si256(self.0);
            let from_half = _mm256_sub_epi32(bits, _mm256_set1_epi32(SQRT_HALF_F32 as i32));
            let n = _mm256_srai_epi32::<23>(from_half);
            let m = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(n));
            (Self(_mm256_castsi256_ps(m)), Self(_mm256_cvtepi32_ps(n)))
        )
    }
    #[inline(always)]
    unsafe fn gather3(p: *const f32, i: [i32; 8]) -> [Self; 3] {
        macro_rules! rows {
            ($low:literal, $high:literal) => {
                // SAFETY: the caller vouches for the rows; the mask leaves the fourth element alone.
                unsafe {
                    let three = _mm_setr_epi32(-1, -1, -1, 0);
                    let low = _mm_maskload_ps(p.add(3 * i[$low] as usize), three);
                    let high = _mm_maskload_ps(p.add(3 * i[$high] as usize), three);
                    _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
                }
            };
        }
        let (a, b, c, d) = (rows!(0, 4), rows!(1, 5), rows!(2, 6), rows!(3, 7));
        arch!(
            let (xy_low, xy_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (z_low, z_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            [
                Self(_mm256_shuffle_ps::<0b01_00_01_00>(xy_low, xy_high)),
                Self(_mm256_shuffle_ps::<0b11_10_11_10>(xy_low, xy_high)),
                Self(_mm256_shuffle_ps::<0b01_00_01_00>(z_low, z_high)),
            ]
        )
    }
}

#[inline(always)]
fn before_of_eight(n: usize, start: usize) -> __m256i {
    arch!(
        let lanes = _mm256_add_epi32(_mm256_set1_epi32(start as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lanes)
    )
}

#[inline(always)]
fn repeat_last_of_eight(v: __m256, n: usize) -> __m256 {
    arch!(
        let last = _mm256_set1_epi32(n as i32 - 1);
        _mm256_permutevar8x32_ps(v, _mm256_min_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), last))
    )
}

#[inline(always)]
fn columns_of_eight([a, b, c]: [__m256; 3]) -> [__m256; 3] {
    arch!(
        let rows = [_mm256_castps_si256(a), _mm256_castps_si256(b), _mm256_castps_si256(c)];
        let [x, y, z] = columns_of_eight_ints(rows);
        [_mm256_castsi256_ps(x), _mm256_castsi256_ps(y), _mm256_castsi256_ps(z)]
    )
}

register! {
    /// Four f64 in an AVX2 register.
    Avx2F64: avx2_f64
}

impl Lane for Avx2F64 {
    lane!(avx2_f64: f64 [0 1 2 3]);
    type Rows = Avx2F64;
    avx2!(avx2_f64: mantissa 52, sign 63);

    #[inline(always)]
    fn reversed(self) -> Self {
        Self(arch!(_mm256_permute4x64_pd::<0b00_01_10_11>(self.0)))
    }
    #[inline(always)]
    fn exchange<const D: usize>(self, o: Self) -> (Self, Self) {
        let (a, b) = (self.0, o.0);
        match D {
            1 => arch!((Self(_mm256_unpacklo_pd(a, b)), Self(_mm256_unpackhi_pd(a, b)))),
            2 => arch!((
                Self(_mm256_permute2f128_pd::<0x20>(a, b)),
                Self(_mm256_permute2f128_pd::<0x31>(a, b)),
            )),
            _ => (self, o),
        }
    }
    #[inline(always)]
    unsafe fn load_some_f32(p: *const f32, n: usize) -> Self {
        // SAFETY: the caller gives n elements, and no other is touched.
        Self(unsafe { _mm256_cvtps_pd(_mm_maskload_ps(p, avx2_f64::ints_before(n, 0))) })
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        sum_of_four(self.0)
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        arch!(
            // There is no shift of 64 bits that keeps the sign, nor a conversion: the exponent is kept positive, and
            // the bits of 2^52 make it a number.
            let bits = _mm256_castpd_si256(self.0);
            let offset = _mm256_set1_epi64x(1024 << 52);
            let from_half = _mm256_sub_epi64(bits, _mm256_set1_epi64x(SQRT_HALF_F64 as i64));
            let n = _mm256_srli_epi64::<52>(_mm256_add_epi64(from_half, offset));
            let m = _mm256_add_epi64(_mm256_sub_epi64(bits, _mm256_slli_epi64::<52>(n)), offset);
            let two52 = 4503599627370496.0;
            let n = _mm256_or_pd(_mm256_castsi256_pd(n), _mm256_set1_pd(two52));
            (Self(_mm256_castsi256_pd(m)), Self(_mm256_sub_pd(n, _mm256_set1_pd(two52 + 1024.0))))
        )
    }
    #[inline(always)]
    unsafe fn gather3(p: *const f64, i: [i32; 4]) -> [Self; 3] {
        macro_rules! row {
            ($l:literal) => {
                // SAFETY: the caller vouches for the row; the mask leaves the fourth element alone.
                unsafe { _mm256_maskload_pd(p.add(3 * i[$l] as usize), _mm256_setr_epi64x(-1, -1, -1, 0)) }
            };
        }
        let (a, b, c, d) = (row!(0), row!(1), row!(2), row!(3));
        arch!(
            let (xz_low, xz_high) = (_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d));
            let (y_low, y_high) = (_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d));
            [
                Self(_mm256_permute2f128_pd::<0x20>(xz_low, xz_high)),
                Self(_mm256_permute2f128_pd::<0x20>(y_low, y_high)),
                Self(_mm256_permute2f128_pd::<0x31>(xz_low, xz_high)),
            ]
        )
    }
}

#[inline(always)]
fn before_of_four(n: usize, start: usize) -> __m256i {
    arch!(
        let start = start as i64;
        let lanes = _mm256_setr_epi64x(start, start + 1, start + 2, start + 3);
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), lanes)
    )
}

#[inline(always)]
fn before_of_four_ints(n: usize, start: usize) -> __m128i {
    arch!(
        let start = start as i32;
        _mm_cmpgt_epi32(_mm_set1_epi32(n as i32), _mm_setr_epi32(start, start + 1, start + 2, start + 3))
    )
}

#[inline(always)]
fn repeat_last_of_four(v: __m256d, n: usize) -> __m256d {
    arch!(
        // Halves of f64 are what can be permuted by a variable.
        let lane = _mm256_min_epi32(_mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3), _mm256_set1_epi32(n as i32 - 1));
        let half = _mm256_add_epi32(_mm256_add_epi32(lane, lane), _mm256_setr_epi32(0, 1, 0, 1, 0, 1, 0, 1));
        _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v), half))
    )
}

#[inline(always)]
fn columns_of_four([a, b, c]: [__m256d; 3]) -> [__m256d; 3] {
    arch!(
        let x = _mm256_blend_pd::<0b0010>(_mm256_blend_pd::<0b0100>(a, b), c);
        let y = _mm256_blend_pd::<0b0100>(_mm256_blend_pd::<0b1001>(a, b), c);
        let z = _mm256_blend_pd::<0b1001>(_mm256_blend_pd::<0b0010>(a, b), c);
        [
            _mm256_permute4x64_pd::<0b01_10_11_00>(x),
            _mm256_permute4x64_pd::<0b10_11_00_01>(y),
            _mm256_permute4x64_pd::<0b11_00_01_10>(z),
        ]
    )
}

#[inline(always)]
fn columns_of_four_ints([a, b, c]: [__m128i; 3]) -> [__m128i; 3] {
    arch!(
        let x = _mm_blend_epi32::<0b0010>(_mm_blend_epi32::<0b0100>(a, b), c);
        let y = _mm_blend_epi32::<0b0100>(_mm_blend_epi32::<0b1001>(a, b), c);
        let z = _mm_blend_epi32::<0b1001>(_mm_blend_epi32::<0b0010>(a, b), c);
        [
            _mm_shuffle_epi32::<0b01_10_11_00>(x),
            _mm_shuffle_epi32::<0b10_11_00_01>(y),
            _mm_shuffle_epi32::<0b11_00_01_10>(z),
        ]
    )
}
