//! Four f64 in an AVX2 register.

use super::super::functions::{self, Prim, Tables};
use super::super::lane::{Lane, common};
use super::super::packed;
use super::super::single::SQRT_HALF_F64;
use super::{arch, operators};
use core::arch::x86_64::*;

/// Four f64 in an AVX2 register.
#[derive(Clone, Copy, Debug)]
pub struct Avx2F64(__m256d);

operators!(Avx2F64: Add add _mm256_add_pd, Sub sub _mm256_sub_pd, Mul mul _mm256_mul_pd, Div div _mm256_div_pd;
    _mm256_sub_pd _mm256_set1_pd);

/// Columns of rows of three that lie in three registers. The elements of one column have different places in the
/// three, so two blends collect them and one permutation sorts them.
#[inline(always)]
fn columns(a: __m256d, b: __m256d, c: __m256d) -> [Avx2F64; 3] {
    arch!(
        let x = _mm256_blend_pd::<0b0010>(_mm256_blend_pd::<0b0100>(a, b), c);
        let y = _mm256_blend_pd::<0b0100>(_mm256_blend_pd::<0b1001>(a, b), c);
        let z = _mm256_blend_pd::<0b1001>(_mm256_blend_pd::<0b0010>(a, b), c);
        [
            Avx2F64(_mm256_permute4x64_pd::<0b01_10_11_00>(x)),
            Avx2F64(_mm256_permute4x64_pd::<0b10_11_00_01>(y)),
            Avx2F64(_mm256_permute4x64_pd::<0b11_00_01_10>(z)),
        ]
    )
}

/// The three integers packed into each, as reals.
#[inline(always)]
fn unpacked(v: __m128i) -> [Avx2F64; 3] {
    arch!(
        let (mask, bias) = (_mm_set1_epi32(packed::MASK), _mm_set1_epi32(packed::HALF));
        let v = _mm_add_epi32(v, _mm_set1_epi32(packed::BIAS));
        let x = _mm_srai_epi32::<{ packed::BITS[1] }>(v);
        let y = _mm_and_si128(_mm_srli_epi32::<{ packed::BITS[0] }>(v), mask);
        let z = _mm_and_si128(v, mask);
        [Avx2F64(_mm256_cvtepi32_pd(x)), Avx2F64(_mm256_cvtepi32_pd(_mm_sub_epi32(y, bias))), Avx2F64(_mm256_cvtepi32_pd(_mm_sub_epi32(z, bias)))]
    )
}

/// The same for integers.
#[inline(always)]
fn int_columns(a: __m128i, b: __m128i, c: __m128i) -> [Avx2F64; 3] {
    arch!(
        let x = _mm_blend_epi32::<0b0010>(_mm_blend_epi32::<0b0100>(a, b), c);
        let y = _mm_blend_epi32::<0b0100>(_mm_blend_epi32::<0b1001>(a, b), c);
        let z = _mm_blend_epi32::<0b1001>(_mm_blend_epi32::<0b0010>(a, b), c);
        [
            Avx2F64(_mm256_cvtepi32_pd(_mm_shuffle_epi32::<0b01_10_11_00>(x))),
            Avx2F64(_mm256_cvtepi32_pd(_mm_shuffle_epi32::<0b10_11_00_01>(y))),
            Avx2F64(_mm256_cvtepi32_pd(_mm_shuffle_epi32::<0b11_00_01_10>(z))),
        ]
    )
}

/// All bits of the lanes l with l + start < n.
#[inline(always)]
fn before(n: usize, start: i64) -> __m256i {
    arch!(
        let lanes = _mm256_setr_epi64x(start, start + 1, start + 2, start + 3);
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), lanes)
    )
}

/// The same for four i32.
#[inline(always)]
fn before_int(n: usize, start: i32) -> __m128i {
    arch!(_mm_cmpgt_epi32(_mm_set1_epi32(n as i32), _mm_setr_epi32(start, start + 1, start + 2, start + 3)))
}

/// The lanes from `n` on become copies of the last before.
#[inline(always)]
fn repeat_last(v: Avx2F64, n: usize) -> Avx2F64 {
    Avx2F64(arch!(
        // Halves of f64 are what can be permuted by a variable.
        let lane = _mm256_min_epi32(_mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3), _mm256_set1_epi32(n as i32 - 1));
        let half = _mm256_add_epi32(_mm256_add_epi32(lane, lane), _mm256_setr_epi32(0, 1, 0, 1, 0, 1, 0, 1));
        _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v.0), half))
    ))
}

impl Lane for Avx2F64 {
    type Elem = f64;
    type Mask = __m256d;
    type Index = [i32; 4];
    const N: usize = 4;
    const FLUSH: usize = usize::MAX;
    common!();

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self(arch!(_mm256_set1_pd(x)))
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self(arch!(_mm256_fmadd_pd(self.0, b.0, c.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(arch!(_mm256_sqrt_pd(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(arch!(_mm256_andnot_pd(_mm256_set1_pd(-0.0), self.0)))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> __m256d {
        arch!(_mm256_cmp_pd::<_CMP_LT_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn le(self, o: Self) -> __m256d {
        arch!(_mm256_cmp_pd::<_CMP_LE_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn eq(self, o: Self) -> __m256d {
        arch!(_mm256_cmp_pd::<_CMP_EQ_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn and(a: __m256d, b: __m256d) -> __m256d {
        arch!(_mm256_and_pd(a, b))
    }
    #[inline(always)]
    fn or(a: __m256d, b: __m256d) -> __m256d {
        arch!(_mm256_or_pd(a, b))
    }
    #[inline(always)]
    fn not(a: __m256d) -> __m256d {
        arch!(_mm256_xor_pd(a, Self::mask(true)))
    }
    #[inline(always)]
    fn mask(b: bool) -> __m256d {
        arch!(_mm256_castsi256_pd(_mm256_set1_epi32(-(b as i32))))
    }
    #[inline(always)]
    fn any(a: __m256d) -> bool {
        arch!(_mm256_movemask_pd(a)) != 0
    }
    #[inline(always)]
    fn first(n: usize) -> __m256d {
        arch!(_mm256_castsi256_pd(before(n, 0)))
    }
    #[inline(always)]
    fn bits(mask: u32) -> __m256d {
        arch!(
            let bit = _mm256_setr_epi64x(1, 2, 4, 8);
            let set = _mm256_and_si256(_mm256_set1_epi64x(i64::from(mask)), bit);
            _mm256_castsi256_pd(_mm256_cmpeq_epi64(set, bit))
        )
    }
    #[inline(always)]
    fn select(m: __m256d, a: Self, b: Self) -> Self {
        Self(arch!(_mm256_blendv_pd(b.0, a.0, m)))
    }
    #[inline(always)]
    fn sum(self) -> f64 {
        arch!(
            let two = _mm_add_pd(_mm256_castpd256_pd128(self.0), _mm256_extractf128_pd::<1>(self.0));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        )
    }
    #[inline(always)]
    fn lane(self, l: usize) -> f64 {
        let mut v = [0.0; 4];
        // SAFETY: the array has room for four.
        unsafe { self.store(v.as_mut_ptr()) };
        v[l]
    }

    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: the caller gives four elements.
        Self(unsafe { _mm256_loadu_pd(p) })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> Self {
        // SAFETY: the caller gives n elements, and no other is touched.
        repeat_last(Self(unsafe { _mm256_maskload_pd(p, before(n, 0)) }), n)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: the caller gives room for four elements.
        unsafe { _mm256_storeu_pd(p, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f64, n: usize) {
        // SAFETY: the caller gives room for n elements, and no other is touched.
        unsafe { _mm256_maskstore_pd(p, before(n, 0), self.0) }
    }
    #[inline(always)]
    unsafe fn load3(p: *const f64) -> [Self; 3] {
        // SAFETY: the caller gives 12 elements.
        unsafe { columns(_mm256_loadu_pd(p), _mm256_loadu_pd(p.add(4)), _mm256_loadu_pd(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn load3_first(p: *const f64, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives 3n elements, and no other is touched.
        let [x, y, z] = unsafe {
            columns(
                _mm256_maskload_pd(p, before(3 * n, 0)),
                _mm256_maskload_pd(p.wrapping_add(4), before(3 * n, 4)),
                _mm256_maskload_pd(p.wrapping_add(8), before(3 * n, 8)),
            )
        };
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn gather(p: *const f64, i: [i32; 4], stride: usize, offset: usize) -> Self {
        macro_rules! pair {
            ($a:literal, $b:literal) => {
                // SAFETY: the caller vouches for the indices.
                unsafe {
                    _mm_loadh_pd(
                        _mm_load_sd(p.add(i[$a] as usize * stride + offset)),
                        p.add(i[$b] as usize * stride + offset),
                    )
                }
            };
        }
        let (low, high) = (pair!(0, 1), pair!(2, 3));
        Self(arch!(_mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high)))
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
    #[inline(always)]
    unsafe fn int3(p: *const i32) -> [Self; 3] {
        let p = p.cast::<__m128i>();
        // SAFETY: the caller gives 12 integers.
        unsafe { int_columns(_mm_loadu_si128(p), _mm_loadu_si128(p.add(1)), _mm_loadu_si128(p.add(2))) }
    }
    #[inline(always)]
    unsafe fn int3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives 3n integers, and no other is touched.
        let [x, y, z] = unsafe {
            int_columns(
                _mm_maskload_epi32(p, before_int(3 * n, 0)),
                _mm_maskload_epi32(p.wrapping_add(4), before_int(3 * n, 4)),
                _mm_maskload_epi32(p.wrapping_add(8), before_int(3 * n, 8)),
            )
        };
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn packed3(p: *const i32) -> [Self; 3] {
        // SAFETY: the caller gives N integers.
        unpacked(unsafe { _mm_loadu_si128(p.cast()) })
    }
    #[inline(always)]
    unsafe fn packed3_first(p: *const i32, n: usize) -> [Self; 3] {
        // SAFETY: the caller gives n integers, and no other is touched.
        let [x, y, z] = unpacked(unsafe { _mm_maskload_epi32(p, before_int(n, 0)) });
        [repeat_last(x, n), repeat_last(y, n), repeat_last(z, n)]
    }
    #[inline(always)]
    unsafe fn int_gather(p: *const i32, i: [i32; 4], stride: usize, offset: usize) -> Self {
        let mut v = [0; 4];
        for l in 0..4 {
            // SAFETY: the caller vouches for the indices.
            v[l] = unsafe { p.add(i[l] as usize * stride + offset).read() };
        }
        Self(arch!(_mm256_cvtepi32_pd(_mm_setr_epi32(v[0], v[1], v[2], v[3]))))
    }
}

impl Prim for Avx2F64 {
    const TABLES: Tables = functions::F64;
    const SATURATES: bool = false;
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        self.mul_add(b, -product)
    }
    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // The instruction returns its second operand where one is NaN.
        Self(arch!(_mm256_min_pd(bound.0, self.0)))
    }
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        Self(arch!(_mm256_max_pd(bound.0, self.0)))
    }
    #[inline(always)]
    fn ldexp(self, _: Self, magic_n: Self) -> Self {
        Self(arch!(
            let exponent = _mm256_slli_epi64::<52>(_mm256_castpd_si256(magic_n.0));
            _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(self.0), exponent))
        ))
    }
    #[inline(always)]
    fn odd(magic_n: Self) -> __m256d {
        // Only the sign bit of a mask counts, here as in the instructions that use it.
        arch!(_mm256_castsi256_pd(_mm256_slli_epi64::<63>(_mm256_castpd_si256(magic_n.0))))
    }
    #[inline(always)]
    fn flip(self, magic_n: Self) -> Self {
        Self(arch!(
            let second = _mm256_castsi256_pd(_mm256_slli_epi64::<62>(_mm256_castpd_si256(magic_n.0)));
            _mm256_xor_pd(self.0, _mm256_and_pd(second, _mm256_set1_pd(-0.0)))
        ))
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
}
