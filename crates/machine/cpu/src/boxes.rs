//! Vectorised tests of sixteen boxes, or points, at once.
#![expect(unsafe_code, reason = "functions compiled for instructions that the processor has")]
// Sound because a form is only entered where `Cpu::isa` has found its instructions, and because what is written has its
// room checked at the entry.

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

/// Numbers of a block, moved and then scaled in f64, and rounded to single precision.
pub(crate) fn seen<const N: usize>(cpu: &Cpu, to: &mut [f32; N], from: &[f64; N], by: f64, scale: f64) {
    match cpu.isa() {
        // SAFETY: `isa` has found the instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512_rounded(to, from, by, scale) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2_rounded(to, from, by, scale) },
        _ => rounded(to, from, by, scale),
    }
}

/// In a loop over blocks the compiler would put blocks on lanes, or nothing: a function for each block has its numbers there.
#[inline(always)]
fn rounded<const N: usize>(to: &mut [f32; N], from: &[f64; N], by: f64, scale: f64) {
    *to = from.map(|x| ((x + by) * scale) as f32);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
fn avx512_rounded<const N: usize>(to: &mut [f32; N], from: &[f64; N], by: f64, scale: f64) {
    rounded(to, from, by, scale);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn avx2_rounded<const N: usize>(to: &mut [f32; N], from: &[f64; N], by: f64, scale: f64) {
    rounded(to, from, by, scale);
}

/// Puts the points of the blocks of a list that are closer to `at` than the root of `reach` in `keys`, and returns how many
/// there are: squared distance in the upper half of a key, then [`FAN`] times the place in the list and the place in the
/// block. Keys are ordered by distance, and by place in the list.
///
/// # Panics
/// If a block of the list is not there, or `keys` has not room for all points of the list.
pub fn near_points(
    cpu: &Cpu,
    blocks: &[Corners],
    list: &[u32],
    at: [f32; 3],
    reach: f32,
    keys: &mut [u64],
) -> usize {
    assert!(keys.len() / FAN >= list.len(), "room for all points of the list");
    match cpu.isa() {
        // SAFETY: `isa` has found the instructions.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512_points(blocks, list, at, reach, keys) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2_points(blocks, list, at, reach, keys) },
        _ => points(blocks, list, at, reach, keys),
    }
}

#[inline(always)]
fn points(blocks: &[Corners], list: &[u32], at: [f32; 3], reach: f32, keys: &mut [u64]) -> usize {
    let mut count = 0;
    for (n, block) in list.iter().enumerate() {
        let places = &blocks[*block as usize];
        let mut squares = [0.0f32; FAN];
        for k in 0..3 {
            for (square, x) in squares.iter_mut().zip(&places[k]) {
                let d = x - at[k];
                *square += d * d;
            }
        }
        let mut near =
            squares.iter().enumerate().fold(0u32, |near, (n, s)| near | u32::from(*s < reach) << n);
        while near != 0 {
            let lane = near.trailing_zeros() as usize;
            near &= near - 1;
            keys[count] = u64::from(squares[lane].to_bits()) << 32 | (n * FAN + lane) as u64;
            count += 1;
        }
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
fn avx512_points(blocks: &[Corners], list: &[u32], at: [f32; 3], reach: f32, keys: &mut [u64]) -> usize {
    use core::arch::x86_64::*;
    let (at, reach) = (at.map(|x| _mm512_set1_ps(x)), _mm512_set1_ps(reach));
    let lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    let mut count = 0;
    for (n, block) in list.iter().enumerate() {
        let places = &blocks[*block as usize];
        let mut squares = _mm512_setzero_ps();
        for k in 0..3 {
            // SAFETY: sixteen numbers are read where sixteen are.
            let d = _mm512_sub_ps(unsafe { _mm512_loadu_ps(places[k].as_ptr()) }, at[k]);
            squares = _mm512_add_ps(squares, _mm512_mul_ps(d, d));
        }
        let near = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(squares, reach);
        if near == 0 {
            continue;
        }
        let bits = _mm512_castps_si512(squares);
        let halves = [_mm512_castsi512_si256(bits), _mm512_extracti64x4_epi64::<1>(bits)];
        for (half, bits) in halves.into_iter().enumerate() {
            let near = (near >> (8 * half)) as u8;
            let places = _mm512_add_epi64(lanes, _mm512_set1_epi64((n * FAN + 8 * half) as i64));
            let found = _mm512_or_si512(_mm512_slli_epi64::<32>(_mm512_cvtepu32_epi64(bits)), places);
            // SAFETY: there is room for sixteen keys of each block of the list, and the blocks before, and the half before,
            // have written no more than theirs; so there are eight places from `count` on.
            unsafe {
                let to = keys.as_mut_ptr().add(count);
                _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi64(near, found));
            }
            count += near.count_ones() as usize;
        }
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2_points(blocks: &[Corners], list: &[u32], at: [f32; 3], reach: f32, keys: &mut [u64]) -> usize {
    points(blocks, list, at, reach, keys)
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

    #[test]
    fn points_are_found_with_their_squares() {
        let place = |block: usize, n: usize, k: usize| ((block * 48 + 3 * n + k) as f32 * 1.7).sin();
        let blocks: Vec<Corners> = (0..40)
            .map(|b| {
                std::array::from_fn(|k| {
                    std::array::from_fn(|n| if b == 7 && n > 4 { f32::INFINITY } else { place(b, n, k) })
                })
            })
            .collect();
        let (list, at) = ([3, 39, 7, 0, 7, 20], [0.1, -0.2, 0.3]);
        for reach in [0.0, 0.2, 1.0, f32::INFINITY] {
            let mut wanted = vec![];
            for (n, block) in list.iter().enumerate() {
                let [x, y, z] = &blocks[*block as usize];
                for (lane, ((x, y), z)) in x.iter().zip(y).zip(z).enumerate() {
                    let d = [x - at[0], y - at[1], z - at[2]];
                    let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                    if square < reach {
                        wanted.push(u64::from(square.to_bits()) << 32 | (n * FAN + lane) as u64);
                    }
                }
            }
            for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
                let mut keys = vec![0; FAN * list.len()];
                let count = near_points(&Cpu::at_most(isa), &blocks, &list, at, reach, &mut keys);
                assert_eq!(keys[..count], wanted, "{isa:?}");
            }
        }
    }
}
