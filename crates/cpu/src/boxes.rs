//! Vectorised tests of sixteen boxes, or points, at once.
#![expect(unsafe_code, reason = "functions compiled for instructions that the processor has")]
// Sound because a form is only entered where `Cpu::isa` has found its instructions.

use super::Cpu;
use madelung_core::runtime::lanes::Isa;

/// Boxes, or points, of one test.
pub const FAN: usize = 16;

/// Coordinates of [`FAN`] corners or points, axis by axis, in single precision.
pub type Corners = [[f32; FAN]; 3];

/// A bit for each box from `low` to `high` whose squared distance from the box from `own[0]` to `own[1]` is below `reach`.
/// Boxes that are not there begin at infinity.
pub fn near_boxes(cpu: &Cpu, [low, high]: [&Corners; 2], own: [[f32; 3]; 2], reach: f32) -> u32 {
    match cpu.isa() {
        // SAFETY: `isa` has found the instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512(low, high, own, reach) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2(low, high, own, reach) },
        _ => near(low, high, own, reach),
    }
}

#[inline(always)]
fn near(low: &Corners, high: &Corners, [own_low, own_high]: [[f32; 3]; 2], reach: f32) -> u32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut apart = [0.0f32; FAN];
    for k in 0..3 {
        for ((apart, low), high) in apart.iter_mut().zip(&low[k]).zip(&high[k]) {
            let gap = larger(larger(low - own_high[k], own_low[k] - high), 0.0);
            *apart += gap * gap;
        }
    }
    apart.iter().enumerate().fold(0, |near, (n, apart)| near | u32::from(*apart < reach) << n)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
fn avx512(low: &Corners, high: &Corners, own: [[f32; 3]; 2], reach: f32) -> u32 {
    use core::arch::x86_64::*;
    let zero = _mm512_setzero_ps();
    let mut apart = zero;
    for k in 0..3 {
        // SAFETY: sixteen numbers are read where sixteen are.
        let (low, high) = unsafe { (_mm512_loadu_ps(low[k].as_ptr()), _mm512_loadu_ps(high[k].as_ptr())) };
        let (above, below) =
            (_mm512_sub_ps(low, _mm512_set1_ps(own[1][k])), _mm512_sub_ps(_mm512_set1_ps(own[0][k]), high));
        let gap = _mm512_max_ps(_mm512_max_ps(above, below), zero);
        apart = _mm512_add_ps(apart, _mm512_mul_ps(gap, gap));
    }
    u32::from(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(apart, _mm512_set1_ps(reach)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(low: &Corners, high: &Corners, own: [[f32; 3]; 2], reach: f32) -> u32 {
    near(low, high, own, reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_the_same_bits() {
        let wiggle = |n: usize| ((n as f32 * 1.7).sin() * 3.0, (n as f32 * 0.9).cos().abs());
        for case in 0..200 {
            let (mut low, mut high) = ([[0.0; FAN]; 3], [[0.0; FAN]; 3]);
            for k in 0..3 {
                for n in 0..FAN {
                    let (x, w) = wiggle(case * 97 + 16 * k + n);
                    (low[k][n], high[k][n]) =
                        if n < 11 { (x, x + w) } else { (f32::INFINITY, f32::NEG_INFINITY) };
                }
            }
            let own = [[-0.5, -0.2, 0.1], [0.3, 0.4, 0.6]];
            for reach in [0.1, 1.0, 4.0, f32::MAX] {
                let wanted = (0..FAN).fold(0, |bits, n| {
                    let gaps = (0..3).map(|k| (low[k][n] - own[1][k]).max(own[0][k] - high[k][n]).max(0.0));
                    bits | u32::from(gaps.map(|gap| gap * gap).sum::<f32>() < reach) << n
                });
                for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
                    assert_eq!(near_boxes(&Cpu::at_most(isa), [&low, &high], own, reach), wanted, "{isa:?}");
                }
            }
        }
    }
}
