//! Lanes on AVX2 and AVX-512 registers.
//!
//! Every method is `#[inline(always)]`, so it is compiled for the features of the function it is called from. The
//! one thing that a caller must keep: these types are used only inside functions that enable `avx2,fma`, or
//! `avx512f,avx512dq,avx512vl,avx512bw,avx2,fma`, entered after [`Isa::detect`](super::Isa::detect) has found them.
//! No closures here: whether these are inlined is the compiler's choice.
#![expect(unsafe_code, reason = "processor intrinsics, and memory whose validity the caller promises")]

mod avx2;
mod avx512;

pub use avx2::{Avx2F32, Avx2F64};
pub use avx512::{Avx512F32, Avx512F64};

use super::registers::arch;
use core::arch::x86_64::*;

/// The sum of four in the order that all f64 sums have: halves onto each other.
#[inline(always)]
fn sum_of_four(v: __m256d) -> f64 {
    arch!(
        let two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    )
}

/// Columns of eight rows of three integers. The elements of one column have different places in the three registers, so
/// two blends collect them and one permutation sorts them.
#[inline(always)]
fn columns_of_eight_ints([a, b, c]: [__m256i; 3]) -> [__m256i; 3] {
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
