//! Eight f64 in an AVX-512 register.

use super::super::coefficients::OCTAVE_F64;
use super::super::functions::{self, Prim, Tables};
use super::super::lane::{Lane, common};
use super::super::packed;
use super::super::single::SQRT_HALF_F64;
use super::{ROOT_ENDS, arch, operators};
use core::arch::x86_64::*;

/// Eight f64 in an AVX-512 register.
#[derive(Clone, Copy, Debug)]
pub struct Avx512F64(__m512d);

operators!(Avx512F64: Add add _mm512_add_pd, Sub sub _mm512_sub_pd, Mul mul _mm512_mul_pd, Div div _mm512_div_pd;
    _mm512_sub_pd _mm512_set1_pd);

/// Columns of rows of three that lie in three registers. The elements of one column have different places in the
/// three, so two blends collect them and one permutation sorts them.
#[inline(always)]
fn columns(a: __m512d, b: __m512d, c: __m512d) -> [Avx512F64; 3] {
    arch!(
        let x = _mm512_mask_blend_pd(0b00100100, _mm512_mask_blend_pd(0b10010010, a, b), c);
        let y = _mm512_mask_blend_pd(0b01001001, _mm512_mask_blend_pd(0b00100100, a, b), c);
        let z = _mm512_mask_blend_pd(0b10010010, _mm512_mask_blend_pd(0b01001001, a, b), c);
        [
            Avx512F64(_mm512_permutexvar_pd(_mm512_setr_epi64(0, 3, 6, 1, 4, 7, 2, 5), x)),
            Avx512F64(_mm512_permutexvar_pd(_mm512_setr_epi64(1, 4, 7, 2, 5, 0, 3, 6), y)),
            Avx512F64(_mm512_permutexvar_pd(_mm512_setr_epi64(2, 5, 0, 3, 6, 1, 4, 7), z)),
        ]
    )
}

/// The three integers packed into each, as reals.
#[inline(always)]
fn unpacked(v: __m256i) -> [Avx512F64; 3] {
    arch!(
        let (mask, bias) = (_mm256_set1_epi32(packed::MASK), _mm256_set1_epi32(packed::HALF));
        let v = _mm256_add_epi32(v, _mm256_set1_epi32(packed::BIAS));
        let x = _mm256_srai_epi32::<{ packed::BITS[1] }>(v);
        let y = _mm256_and_si256(_mm256_srli_epi32::<{ packed::BITS[0] }>(v), mask);
        let z = _mm256_and_si256(v, mask);
        [Avx512F64(_mm512_cvtepi32_pd(x)), Avx512F64(_mm512_cvtepi32_pd(_mm256_sub_epi32(y, bias))), Avx512F64(_mm512_cvtepi32_pd(_mm256_sub_epi32(z, bias)))]
    )
}

/// The same for integers.
#[inline(always)]
fn int_columns(a: __m256i, b: __m256i, c: __m256i) -> [Avx512F64; 3] {
    arch!(
        let x = _mm256_blend_epi32::<0b00100100>(_mm256_blend_epi32::<0b10010010>(a, b), c);
        let y = _mm256_blend_epi32::<0b01001001>(_mm256_blend_epi32::<0b00100100>(a, b), c);
        let z = _mm256_blend_epi32::<0b10010010>(_mm256_blend_epi32::<0b01001001>(a, b), c);
        let x = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
        let y = _mm256_permutevar8x32_epi32(y, _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6));
        let z = _mm256_permutevar8x32_epi32(z, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
        [
            Avx512F64(_mm512_cvtepi32_pd(x)),
            Avx512F64(_mm512_cvtepi32_pd(y)),
            Avx512F64(_mm512_cvtepi32_pd(z)),
        ]
    )
}

/// The masks of the first `n` of 24 elements in three registers.
#[inline(always)]
fn first_of_three(n: usize) -> [__mmask8; 3] {
    let all = (1u32 << n) - 1;
    [all as u8, (all >> 8) as u8, (all >> 16) as u8]
}

/// The lanes from `n` on become copies of the last before.
#[inline(always)]
fn repeat_last(v: Avx512F64, n: usize) -> Avx512F64 {
    Avx512F64(arch!(
        let last = _mm512_set1_epi64(n as i64 - 1);
        _mm512_permutexvar_pd(_mm512_min_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), last), v.0)
    ))
}

#[inline(always)]
fn join(low: __m256d, high: __m256d) -> __m512d {
    arch!(_mm512_insertf64x4::<1>(_mm512_castpd256_pd512(low), high))
}

impl Lane for Avx512F64 {
    type Elem = f64;
    type Mask = __mmask8;
    type Index = [i32; 8];
    const N: usize = 8;
    const FLUSH: usize = usize::MAX;
    common!();

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self(arch!(_mm512_set1_pd(x)))
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self(arch!(_mm512_fmadd_pd(self.0, b.0, c.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(arch!(_mm512_sqrt_pd(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(arch!(_mm512_abs_pd(self.0)))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> __mmask8 {
        arch!(_mm512_cmp_pd_mask::<_CMP_LT_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn le(self, o: Self) -> __mmask8 {
        arch!(_mm512_cmp_pd_mask::<_CMP_LE_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn eq(self, o: Self) -> __mmask8 {
        arch!(_mm512_cmp_pd_mask::<_CMP_EQ_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn and(a: __mmask8, b: __mmask8) -> __mmask8 {
        a & b
    }
    #[inline(always)]
    fn or(a: __mmask8, b: __mmask8) -> __mmask8 {
        a | b
    }
    #[inline(always)]
    fn not(a: __mmask8) -> __mmask8 {
        !a
    }
    #[inline(always)]
    fn mask(b: bool) -> __mmask8 {
        (b as __mmask8).wrapping_neg()
    }
    #[inline(always)]
    fn any(a: __mmask8) -> bool {
        a != 0
    }
    #[inline(always)]
    fn first(n: usize) -> __mmask8 {
        ((1u32 << n) - 1) as __mmask8
    }
    #[inline(always)]
    fn bits(mask: u32) -> __mmask8 {
        mask as __mmask8
    }
    #[inline(always)]
    fn select(m: __mmask8, a: Self, b: Self) -> Self {
        Self(arch!(_mm512_mask_blend_pd(m, b.0, a.0)))
    }
    #[inline(always)]
    fn sum(self) -> f64 {
        arch!(
            let four = _mm256_add_pd(_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0));
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        )
    }
    #[inline(always)]
    fn lane(self, l: usize) -> f64 {
        let mut v = [0.0; 8];
        // SAFETY: the array has room for eight.
        unsafe { self.store(v.as_mut_ptr()) };
        v[l]
    }

    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: the caller gives eight elements.
        Self(unsafe { _mm512_loadu_pd(p) })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> Self {
        // SAFETY: the caller gives n elements, and no other is touched.
        repeat_last(Self(unsafe { _mm512_maskz_loadu_pd(Self::first(n), p) }), n)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: the caller gives room for eight elements.
        unsafe { _mm512_storeu_pd(p, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f64, n: usize) {
        // SAFETY: the caller gives room for n elements, and no other is touched.
        unsafe { _mm512_mask_storeu_pd(p, Self::first(n), self.0) }
    }
    #[inline(always)]
    unsafe fn load3(p: *const f64) -> [Self; 3] {
        // SAFETY: the caller gives 24 elements.
        unsafe { columns(_mm512_loadu_pd(p), _mm512_loadu_pd(p.add(8)), _mm512_loadu_pd(p.add(16))) }
    }
    #[inline(always)]
    unsafe fn load3_first(p: *const f64, n: usize) -> [Self; 3] {
        let [a, b, c] = first_of_three(3 * n);
        // SAFETY: the caller gives 3n elements, and no other is touched.
        let [x, y, z] = unsafe {
            columns(
                _mm512_maskz_loadu_pd(a, p),
                _mm512_maskz_loadu_pd(b, p.wrapping_add(8)),
                _mm512_maskz_loadu_pd(c, p.wrapping_add(16)),
            )
        };
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn gather(p: *const f64, i: [i32; 8], stride: usize, offset: usize) -> Self {
        // SAFETY: the caller vouches for the indices.
        unsafe {
            macro_rules! pair {
                ($a:literal, $b:literal) => {
                    _mm_loadh_pd(
                        _mm_load_sd(p.add(i[$a] as usize * stride + offset)),
                        p.add(i[$b] as usize * stride + offset),
                    )
                };
            }
            let low = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(pair!(0, 1)), pair!(2, 3));
            let high = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(pair!(4, 5)), pair!(6, 7));
            Self(join(low, high))
        }
    }
    #[inline(always)]
    unsafe fn gather3(p: *const f64, i: [i32; 8]) -> [Self; 3] {
        macro_rules! row {
            ($l:literal) => {
                // SAFETY: the caller vouches for the row; the mask leaves the fourth element alone.
                unsafe { _mm256_maskz_loadu_pd(0b111, p.add(3 * i[$l] as usize)) }
            };
        }
        let (a, b) = (join(row!(0), row!(2)), join(row!(1), row!(3)));
        let (c, d) = (join(row!(4), row!(6)), join(row!(5), row!(7)));
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
    #[inline(always)]
    unsafe fn int3(p: *const i32) -> [Self; 3] {
        let p = p.cast::<__m256i>();
        // SAFETY: the caller gives 24 integers.
        unsafe {
            int_columns(_mm256_loadu_si256(p), _mm256_loadu_si256(p.add(1)), _mm256_loadu_si256(p.add(2)))
        }
    }
    #[inline(always)]
    unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3] {
        let [a, b, c] = first_of_three(3 * n);
        // SAFETY: the caller gives 3n integers, and no other is touched.
        let [x, y, z] = unsafe {
            int_columns(
                _mm256_maskz_loadu_epi32(a, p),
                _mm256_maskz_loadu_epi32(b, p.wrapping_add(8)),
                _mm256_maskz_loadu_epi32(c, p.wrapping_add(16)),
            )
        };
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn packed3(p: *const i32) -> [Self; 3] {
        // SAFETY: the caller gives N integers.
        unpacked(unsafe { _mm256_loadu_si256(p.cast()) })
    }
    #[inline(always)]
    unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n integers, and no other is touched.
        let [x, y, z] = unpacked(unsafe { _mm256_maskz_loadu_epi32(((1u32 << n) - 1) as u8, p) });
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn int_gather(p: *const i32, i: [i32; 8], stride: usize, offset: usize) -> Self {
        let mut v = [0; 8];
        for l in 0..8 {
            // SAFETY: the caller vouches for the indices.
            v[l] = unsafe { p.add(i[l] as usize * stride + offset).read() };
        }
        Self(arch!(_mm512_cvtepi32_pd(_mm256_setr_epi32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]))))
    }
}

impl Prim for Avx512F64 {
    const TABLES: Tables = functions::F64;
    const SATURATES: bool = true;
    const PARTS: f64 = OCTAVE_F64.len() as f64;
    #[inline(always)]
    fn octave(magic_n: Self) -> Self {
        // SAFETY: the table fills a register, and the lowest bits of the index choose from it.
        Self(unsafe {
            _mm512_permutexvar_pd(_mm512_castpd_si512(magic_n.0), _mm512_loadu_pd(OCTAVE_F64.as_ptr()))
        })
    }
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        self.mul_add(b, -product)
    }
    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // The instruction returns its second operand where one is NaN.
        Self(arch!(_mm512_min_pd(bound.0, self.0)))
    }
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        Self(arch!(_mm512_max_pd(bound.0, self.0)))
    }
    #[inline(always)]
    fn ldexp(self, n: Self, _: Self) -> Self {
        Self(arch!(_mm512_scalef_pd(self.0, n.0)))
    }
    #[inline(always)]
    fn odd(magic_n: Self) -> __mmask8 {
        arch!(_mm512_test_epi64_mask(_mm512_castpd_si512(magic_n.0), _mm512_set1_epi64(1)))
    }
    #[inline(always)]
    fn flip(self, magic_n: Self) -> Self {
        Self(arch!(
            let sign = _mm512_and_si512(
                _mm512_slli_epi64::<62>(_mm512_castpd_si512(magic_n.0)),
                _mm512_set1_epi64(i64::MIN),
            );
            _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(self.0), sign))
        ))
    }
    #[inline(always)]
    fn roots(self) -> (Self, Self) {
        let (root, inverse) = functions::refined_roots(self, Self(arch!(_mm512_rsqrt14_pd(self.0))), 1);
        arch!(
            let (of_root, of_inverse) = (_mm512_set1_epi64(ROOT_ENDS.0.into()), _mm512_set1_epi64(ROOT_ENDS.1.into()));
            (
                Self(_mm512_fixupimm_pd::<0>(root.0, self.0, of_root)),
                Self(_mm512_fixupimm_pd::<0>(inverse.0, self.0, of_inverse)),
            )
        )
    }
    #[inline(always)]
    fn quotient(self, divisor: Self) -> Self {
        functions::refined_quotient(self, divisor, Self(arch!(_mm512_rcp14_pd(divisor.0))), 1)
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        arch!(
            let bits = _mm512_castpd_si512(self.0);
            let from_half = _mm512_sub_epi64(bits, _mm512_set1_epi64(SQRT_HALF_F64 as i64));
            let n = _mm512_srai_epi64::<52>(from_half);
            let m = _mm512_sub_epi64(bits, _mm512_slli_epi64::<52>(n));
            (Self(_mm512_castsi512_pd(m)), Self(_mm512_cvtepi64_pd(n)))
        )
    }
}
