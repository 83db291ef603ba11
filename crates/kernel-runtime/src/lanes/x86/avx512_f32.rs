//! Sixteen f32 in an AVX-512 register.

use super::super::coefficients::OCTAVE_F32;
use super::super::functions::{self, Prim, Tables};
use super::super::lane::{Lane, common};
use super::super::packed;
use super::super::single::SQRT_HALF_F32;
use super::{ROOT_ENDS, arch, operators};
use core::arch::x86_64::*;

/// Sixteen f32 in an AVX-512 register.
#[derive(Clone, Copy, Debug)]
pub struct Avx512F32(__m512);

operators!(Avx512F32: Add add _mm512_add_ps, Sub sub _mm512_sub_ps, Mul mul _mm512_mul_ps, Div div _mm512_div_ps;
    _mm512_sub_ps _mm512_set1_ps);

/// The table in the type that the register holds.
const OCTAVE: [f32; 16] = {
    let (mut table, mut i) = ([0.0; 16], 0);
    while i < 16 {
        table[i] = OCTAVE_F32[i] as f32;
        i += 1;
    }
    table
};

/// The places of the elements of one column are 0, 1 or 2 beyond a multiple of three.
const PLACES: [__mmask16; 3] = [0x9249, 0x2492, 0x4924];

/// Columns of rows of three that lie in three registers. The elements of one column have different places in the
/// three, so two blends collect them and one permutation sorts them.
#[inline(always)]
fn columns(a: __m512, b: __m512, c: __m512) -> [Avx512F32; 3] {
    let (a, b, c) = arch!((_mm512_castps_si512(a), _mm512_castps_si512(b), _mm512_castps_si512(c)));
    let [x, y, z] = int_sorted(a, b, c);
    arch!([
        Avx512F32(_mm512_castsi512_ps(x)),
        Avx512F32(_mm512_castsi512_ps(y)),
        Avx512F32(_mm512_castsi512_ps(z)),
    ])
}

/// The three integers packed into each, as reals.
#[inline(always)]
fn unpacked(v: __m512i) -> [Avx512F32; 3] {
    arch!(
        let (mask, bias) = (_mm512_set1_epi32(packed::MASK), _mm512_set1_epi32(packed::HALF));
        let v = _mm512_add_epi32(v, _mm512_set1_epi32(packed::BIAS));
        let x = _mm512_srai_epi32::<{ packed::BITS[1] as u32 }>(v);
        let y = _mm512_and_si512(_mm512_srli_epi32::<{ packed::BITS[0] as u32 }>(v), mask);
        let z = _mm512_and_si512(v, mask);
        [Avx512F32(_mm512_cvtepi32_ps(x)), Avx512F32(_mm512_cvtepi32_ps(_mm512_sub_epi32(y, bias))), Avx512F32(_mm512_cvtepi32_ps(_mm512_sub_epi32(z, bias)))]
    )
}

/// The same for integers.
#[inline(always)]
fn int_columns(a: __m512i, b: __m512i, c: __m512i) -> [Avx512F32; 3] {
    let [x, y, z] = int_sorted(a, b, c);
    arch!([
        Avx512F32(_mm512_cvtepi32_ps(x)),
        Avx512F32(_mm512_cvtepi32_ps(y)),
        Avx512F32(_mm512_cvtepi32_ps(z)),
    ])
}

#[inline(always)]
fn int_sorted(a: __m512i, b: __m512i, c: __m512i) -> [__m512i; 3] {
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

/// The masks of the first `n` of 48 elements in three registers.
#[inline(always)]
fn first_of_three(n: usize) -> [__mmask16; 3] {
    let all = (1u64 << n) - 1;
    [all as u16, (all >> 16) as u16, (all >> 32) as u16]
}

/// The lanes from `n` on become copies of the last before.
#[inline(always)]
fn repeat_last(v: Avx512F32, n: usize) -> Avx512F32 {
    Avx512F32(arch!(
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        _mm512_permutexvar_ps(_mm512_min_epi32(lanes, _mm512_set1_epi32(n as i32 - 1)), v.0)
    ))
}

#[inline(always)]
fn join(a: __m128, b: __m128, c: __m128, d: __m128) -> __m512 {
    arch!(
        let low = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), b);
        let high = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(c), d);
        _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
    )
}

impl Lane for Avx512F32 {
    type Elem = f32;
    type Mask = __mmask16;
    type Index = [i32; 16];
    const N: usize = 16;
    const FLUSH: usize = 32;
    common!();

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self(arch!(_mm512_set1_ps(x as f32)))
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self(arch!(_mm512_fmadd_ps(self.0, b.0, c.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(arch!(_mm512_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(arch!(_mm512_abs_ps(self.0)))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> __mmask16 {
        arch!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn le(self, o: Self) -> __mmask16 {
        arch!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn eq(self, o: Self) -> __mmask16 {
        arch!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn and(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }
    #[inline(always)]
    fn or(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    fn not(a: __mmask16) -> __mmask16 {
        !a
    }
    #[inline(always)]
    fn mask(b: bool) -> __mmask16 {
        (b as __mmask16).wrapping_neg()
    }
    #[inline(always)]
    fn any(a: __mmask16) -> bool {
        a != 0
    }
    #[inline(always)]
    fn first(n: usize) -> __mmask16 {
        ((1u32 << n) - 1) as __mmask16
    }
    #[inline(always)]
    fn bits(mask: u32) -> __mmask16 {
        mask as __mmask16
    }
    #[inline(always)]
    fn select(m: __mmask16, a: Self, b: Self) -> Self {
        Self(arch!(_mm512_mask_blend_ps(m, b.0, a.0)))
    }
    #[inline(always)]
    fn sum(self) -> f64 {
        arch!(
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(self.0));
            let eight = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0)));
            let four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd::<1>(eight));
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        )
    }
    #[inline(always)]
    fn lane(self, l: usize) -> f64 {
        let mut v = [0.0; 16];
        // SAFETY: the array has room for sixteen.
        unsafe { self.store(v.as_mut_ptr()) };
        v[l].into()
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller gives sixteen elements.
        Self(unsafe { _mm512_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: the caller gives n elements, and no other is touched.
        repeat_last(Self(unsafe { _mm512_maskz_loadu_ps(Self::first(n), p) }), n)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller gives room for sixteen elements.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: the caller gives room for n elements, and no other is touched.
        unsafe { _mm512_mask_storeu_ps(p, Self::first(n), self.0) }
    }
    #[inline(always)]
    unsafe fn load3(p: *const f32) -> [Self; 3] {
        // SAFETY: the caller gives 48 elements.
        unsafe { columns(_mm512_loadu_ps(p), _mm512_loadu_ps(p.add(16)), _mm512_loadu_ps(p.add(32))) }
    }
    #[inline(always)]
    unsafe fn load3_first(p: *const f32, n: usize) -> [Self; 3] {
        let [a, b, c] = first_of_three(3 * n);
        // SAFETY: the caller gives 3n elements, and no other is touched.
        let [x, y, z] = unsafe {
            columns(
                _mm512_maskz_loadu_ps(a, p),
                _mm512_maskz_loadu_ps(b, p.wrapping_add(16)),
                _mm512_maskz_loadu_ps(c, p.wrapping_add(32)),
            )
        };
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn gather(p: *const f32, i: [i32; 16], stride: usize, offset: usize) -> Self {
        macro_rules! four {
            ($a:literal, $b:literal, $c:literal, $d:literal) => {
                // SAFETY: the caller vouches for the indices.
                unsafe {
                    _mm_setr_ps(
                        *p.add(i[$a] as usize * stride + offset),
                        *p.add(i[$b] as usize * stride + offset),
                        *p.add(i[$c] as usize * stride + offset),
                        *p.add(i[$d] as usize * stride + offset),
                    )
                }
            };
        }
        Self(join(four!(0, 1, 2, 3), four!(4, 5, 6, 7), four!(8, 9, 10, 11), four!(12, 13, 14, 15)))
    }
    #[inline(always)]
    unsafe fn gather3(p: *const f32, i: [i32; 16]) -> [Self; 3] {
        macro_rules! row {
            ($l:expr) => {
                // SAFETY: the caller vouches for the row; the mask leaves the fourth element alone.
                unsafe { _mm_maskz_loadu_ps(0b111, p.add(3 * i[$l] as usize)) }
            };
        }
        let a = join(row!(0), row!(4), row!(8), row!(12));
        let b = join(row!(1), row!(5), row!(9), row!(13));
        let c = join(row!(2), row!(6), row!(10), row!(14));
        let d = join(row!(3), row!(7), row!(11), row!(15));
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
    #[inline(always)]
    unsafe fn int3(p: *const i32) -> [Self; 3] {
        let p = p.cast::<__m512i>();
        // SAFETY: the caller gives 48 integers.
        unsafe {
            int_columns(_mm512_loadu_si512(p), _mm512_loadu_si512(p.add(1)), _mm512_loadu_si512(p.add(2)))
        }
    }
    #[inline(always)]
    unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3] {
        let [a, b, c] = first_of_three(3 * n);
        // SAFETY: the caller gives 3n integers, and no other is touched.
        let [x, y, z] = unsafe {
            int_columns(
                _mm512_maskz_loadu_epi32(a, p),
                _mm512_maskz_loadu_epi32(b, p.wrapping_add(16)),
                _mm512_maskz_loadu_epi32(c, p.wrapping_add(32)),
            )
        };
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn packed3(p: *const i32) -> [Self; 3] {
        // SAFETY: the caller gives N integers.
        unpacked(unsafe { _mm512_loadu_si512(p.cast()) })
    }
    #[inline(always)]
    unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n integers, and no other is touched.
        let [x, y, z] = unpacked(unsafe { _mm512_maskz_loadu_epi32(((1u32 << n) - 1) as u16, p) });
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn int_gather(p: *const i32, i: [i32; 16], stride: usize, offset: usize) -> Self {
        let mut v = [0; 16];
        for l in 0..16 {
            // SAFETY: the caller vouches for the indices.
            v[l] = unsafe { p.add(i[l] as usize * stride + offset).read() };
        }
        // SAFETY: the array has sixteen integers.
        Self(unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(v.as_ptr().cast())) })
    }
}

impl Prim for Avx512F32 {
    const TABLES: Tables = functions::F32;
    const SATURATES: bool = true;
    const PARTS: f64 = OCTAVE_F32.len() as f64;
    #[inline(always)]
    fn octave(magic_n: Self) -> Self {
        // SAFETY: the table fills a register, and the lowest bits of the index choose from it.
        Self(unsafe {
            _mm512_permutexvar_ps(_mm512_castps_si512(magic_n.0), _mm512_loadu_ps(OCTAVE.as_ptr()))
        })
    }
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        self.mul_add(b, -product)
    }
    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // The instruction returns its second operand where one is NaN.
        Self(arch!(_mm512_min_ps(bound.0, self.0)))
    }
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        Self(arch!(_mm512_max_ps(bound.0, self.0)))
    }
    #[inline(always)]
    fn ldexp(self, n: Self, _: Self) -> Self {
        Self(arch!(_mm512_scalef_ps(self.0, n.0)))
    }
    #[inline(always)]
    fn odd(magic_n: Self) -> __mmask16 {
        arch!(_mm512_test_epi32_mask(_mm512_castps_si512(magic_n.0), _mm512_set1_epi32(1)))
    }
    #[inline(always)]
    fn flip(self, magic_n: Self) -> Self {
        Self(arch!(
            let sign = _mm512_and_si512(
                _mm512_slli_epi32::<30>(_mm512_castps_si512(magic_n.0)),
                _mm512_set1_epi32(i32::MIN),
            );
            _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(self.0), sign))
        ))
    }
    #[inline(always)]
    fn roots(self) -> (Self, Self) {
        let (root, inverse) = functions::refined_roots(self, Self(arch!(_mm512_rsqrt14_ps(self.0))), 0);
        arch!(
            let (of_root, of_inverse) = (_mm512_set1_epi32(ROOT_ENDS.0), _mm512_set1_epi32(ROOT_ENDS.1));
            (
                Self(_mm512_fixupimm_ps::<0>(root.0, self.0, of_root)),
                Self(_mm512_fixupimm_ps::<0>(inverse.0, self.0, of_inverse)),
            )
        )
    }
    #[inline(always)]
    fn quotient(self, divisor: Self) -> Self {
        functions::refined_quotient(self, divisor, Self(arch!(_mm512_rcp14_ps(divisor.0))), 0)
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        arch!(
            let bits = _mm512_castps_si512(self.0);
            let from_half = _mm512_sub_epi32(bits, _mm512_set1_epi32(SQRT_HALF_F32 as i32));
            let n = _mm512_srai_epi32::<23>(from_half);
            let m = _mm512_sub_epi32(bits, _mm512_slli_epi32::<23>(n));
            (Self(_mm512_castsi512_ps(m)), Self(_mm512_cvtepi32_ps(n)))
        )
    }
}
