//! Eight f32 in an AVX2 register.

use super::super::functions::{self, Prim, Tables};
use super::super::lane::{Lane, common};
use super::super::packed;
use super::super::single::SQRT_HALF_F32;
use super::{arch, operators};
use core::arch::x86_64::*;

/// Eight f32 in an AVX2 register.
#[derive(Clone, Copy, Debug)]
pub struct Avx2F32(__m256);

operators!(Avx2F32: Add add _mm256_add_ps, Sub sub _mm256_sub_ps, Mul mul _mm256_mul_ps, Div div _mm256_div_ps;
    _mm256_sub_ps _mm256_set1_ps);

/// Columns of rows of three that lie in three registers. The elements of one column have different places in the
/// three, so two blends collect them and one permutation sorts them.
#[inline(always)]
fn columns(a: __m256, b: __m256, c: __m256) -> [Avx2F32; 3] {
    arch!(
        let [x, y, z] = sorted(_mm256_castps_si256(a), _mm256_castps_si256(b), _mm256_castps_si256(c));
        [
            Avx2F32(_mm256_castsi256_ps(x)),
            Avx2F32(_mm256_castsi256_ps(y)),
            Avx2F32(_mm256_castsi256_ps(z)),
        ]
    )
}

/// The three integers packed into each, as reals.
#[inline(always)]
fn unpacked(v: __m256i) -> [Avx2F32; 3] {
    arch!(
        let (mask, bias) = (_mm256_set1_epi32(packed::MASK), _mm256_set1_epi32(packed::HALF));
        let v = _mm256_add_epi32(v, _mm256_set1_epi32(packed::BIAS));
        let x = _mm256_srai_epi32::<{ packed::BITS[1] }>(v);
        let y = _mm256_and_si256(_mm256_srli_epi32::<{ packed::BITS[0] }>(v), mask);
        let z = _mm256_and_si256(v, mask);
        [Avx2F32(_mm256_cvtepi32_ps(x)), Avx2F32(_mm256_cvtepi32_ps(_mm256_sub_epi32(y, bias))), Avx2F32(_mm256_cvtepi32_ps(_mm256_sub_epi32(z, bias)))]
    )
}

/// The same for integers.
#[inline(always)]
fn int_columns(a: __m256i, b: __m256i, c: __m256i) -> [Avx2F32; 3] {
    arch!(
        let [x, y, z] = sorted(a, b, c);
        [Avx2F32(_mm256_cvtepi32_ps(x)), Avx2F32(_mm256_cvtepi32_ps(y)), Avx2F32(_mm256_cvtepi32_ps(z))]
    )
}

#[inline(always)]
fn sorted(a: __m256i, b: __m256i, c: __m256i) -> [__m256i; 3] {
    arch!(
        let x = _mm256_blend_epi32::<0b00100100>(_mm256_blend_epi32::<0b10010010>(a, b), c);
        let y = _mm256_blend_epi32::<0b01001001>(_mm256_blend_epi32::<0b00100100>(a, b), c);
        let z = _mm256_blend_epi32::<0b10010010>(_mm256_blend_epi32::<0b01001001>(a, b), c);
        [
            _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5)),
            _mm256_permutevar8x32_epi32(y, _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6)),
            _mm256_permutevar8x32_epi32(z, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7)),
        ]
    )
}

/// All bits of the lanes l with l + start < n.
#[inline(always)]
fn before(n: usize, start: i32) -> __m256i {
    arch!(
        let lanes = _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lanes)
    )
}

/// The lanes from `n` on become copies of the last before.
#[inline(always)]
fn repeat_last(v: Avx2F32, n: usize) -> Avx2F32 {
    Avx2F32(arch!(
        let last = _mm256_set1_epi32(n as i32 - 1);
        _mm256_permutevar8x32_ps(v.0, _mm256_min_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), last))
    ))
}

#[inline(always)]
fn join(low: __m128, high: __m128) -> __m256 {
    arch!(_mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high))
}

impl Lane for Avx2F32 {
    type Elem = f32;
    type Mask = __m256;
    type Index = [i32; 8];
    const N: usize = 8;
    const FLUSH: usize = 32;
    common!();

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self(arch!(_mm256_set1_ps(x as f32)))
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self(arch!(_mm256_fmadd_ps(self.0, b.0, c.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(arch!(_mm256_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(arch!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> __m256 {
        arch!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn le(self, o: Self) -> __m256 {
        arch!(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn eq(self, o: Self) -> __m256 {
        arch!(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn and(a: __m256, b: __m256) -> __m256 {
        arch!(_mm256_and_ps(a, b))
    }
    #[inline(always)]
    fn or(a: __m256, b: __m256) -> __m256 {
        arch!(_mm256_or_ps(a, b))
    }
    #[inline(always)]
    fn not(a: __m256) -> __m256 {
        arch!(_mm256_xor_ps(a, Self::mask(true)))
    }
    #[inline(always)]
    fn mask(b: bool) -> __m256 {
        arch!(_mm256_castsi256_ps(_mm256_set1_epi32(-(b as i32))))
    }
    #[inline(always)]
    fn any(a: __m256) -> bool {
        arch!(_mm256_movemask_ps(a)) != 0
    }
    #[inline(always)]
    fn first(n: usize) -> __m256 {
        arch!(_mm256_castsi256_ps(before(n, 0)))
    }
    #[inline(always)]
    fn bits(mask: u32) -> __m256 {
        arch!(
            let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(mask as i32), bit);
            _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit))
        )
    }
    #[inline(always)]
    fn select(m: __m256, a: Self, b: Self) -> Self {
        Self(arch!(_mm256_blendv_ps(b.0, a.0, m)))
    }
    #[inline(always)]
    fn sum(self) -> f64 {
        arch!(
            let low = _mm256_cvtps_pd(_mm256_castps256_ps128(self.0));
            let four = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(self.0)));
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        )
    }
    #[inline(always)]
    fn lane(self, l: usize) -> f64 {
        let mut v = [0.0; 8];
        // SAFETY: the array has room for eight.
        unsafe { self.store(v.as_mut_ptr()) };
        v[l].into()
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller gives eight elements.
        Self(unsafe { _mm256_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: the caller gives n elements, and no other is touched.
        repeat_last(Self(unsafe { _mm256_maskload_ps(p, before(n, 0)) }), n)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller gives room for eight elements.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: the caller gives room for n elements, and no other is touched.
        unsafe { _mm256_maskstore_ps(p, before(n, 0), self.0) }
    }
    #[inline(always)]
    unsafe fn load3(p: *const f32) -> [Self; 3] {
        // SAFETY: the caller gives 24 elements.
        unsafe { columns(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8)), _mm256_loadu_ps(p.add(16))) }
    }
    #[inline(always)]
    unsafe fn load3_first(p: *const f32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives 3n elements, and no other is touched.
        let [x, y, z] = unsafe {
            columns(
                _mm256_maskload_ps(p, before(3 * n, 0)),
                _mm256_maskload_ps(p.wrapping_add(8), before(3 * n, 8)),
                _mm256_maskload_ps(p.wrapping_add(16), before(3 * n, 16)),
            )
        };
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn gather(p: *const f32, i: [i32; 8], stride: usize, offset: usize) -> Self {
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
        Self(join(four!(0, 1, 2, 3), four!(4, 5, 6, 7)))
    }
    #[inline(always)]
    unsafe fn gather3(p: *const f32, i: [i32; 8]) -> [Self; 3] {
        macro_rules! row {
            ($l:literal) => {
                // SAFETY: the caller vouches for the row; the mask leaves the fourth element alone.
                unsafe { _mm_maskload_ps(p.add(3 * i[$l] as usize), _mm_setr_epi32(-1, -1, -1, 0)) }
            };
        }
        let (a, b) = (join(row!(0), row!(4)), join(row!(1), row!(5)));
        let (c, d) = (join(row!(2), row!(6)), join(row!(3), row!(7)));
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
        // SAFETY: the caller gives 3n integers, and no other is touched.
        let [x, y, z] = unsafe {
            int_columns(
                _mm256_maskload_epi32(p, before(3 * n, 0)),
                _mm256_maskload_epi32(p.wrapping_add(8), before(3 * n, 8)),
                _mm256_maskload_epi32(p.wrapping_add(16), before(3 * n, 16)),
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
        let [x, y, z] = unpacked(unsafe { _mm256_maskload_epi32(p, before(n, 0)) });
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn int_gather(p: *const i32, i: [i32; 8], stride: usize, offset: usize) -> Self {
        let mut v = [0; 8];
        for l in 0..8 {
            // SAFETY: the caller vouches for the indices.
            v[l] = unsafe { p.add(i[l] as usize * stride + offset).read() };
        }
        Self(arch!(_mm256_cvtepi32_ps(_mm256_setr_epi32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]))))
    }
}

impl Prim for Avx2F32 {
    const TABLES: Tables = functions::F32;
    const SATURATES: bool = false;
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        self.mul_add(b, -product)
    }
    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // The instruction returns its second operand where one is NaN.
        Self(arch!(_mm256_min_ps(bound.0, self.0)))
    }
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        Self(arch!(_mm256_max_ps(bound.0, self.0)))
    }
    #[inline(always)]
    fn ldexp(self, _: Self, magic_n: Self) -> Self {
        Self(arch!(
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(magic_n.0));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(self.0), exponent))
        ))
    }
    #[inline(always)]
    fn odd(magic_n: Self) -> __m256 {
        // Only the sign bit of a mask counts, here as in the instructions that use it.
        arch!(_mm256_castsi256_ps(_mm256_slli_epi32::<31>(_mm256_castps_si256(magic_n.0))))
    }
    #[inline(always)]
    fn flip(self, magic_n: Self) -> Self {
        Self(arch!(
            let second = _mm256_castsi256_ps(_mm256_slli_epi32::<30>(_mm256_castps_si256(magic_n.0)));
            _mm256_xor_ps(self.0, _mm256_and_ps(second, _mm256_set1_ps(-0.0)))
        ))
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
}
