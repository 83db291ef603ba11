//! Vectorised tests of points near a point or a box, and selection of the points found.
//!
//! The answer is one bit per point, in words of 64, lowest bit first. Every form (portable, AVX2, AVX-512) does equal
//! operations in equal order without fusing any, so all of them give equal bits.
#![expect(unsafe_code, reason = "processor intrinsics on checked slices")]
// Sound because a form is only entered where `Cpu::isa` has found its instructions, and because every load and store
// stays inside slices whose lengths were checked at the entry, or next to the store.

use super::Cpu;
use crate::boxes::seen;
use madelung_core::array::Buffer;
use madelung_core::runtime::lanes::Isa;

/// Points per word of bits.
pub const WORD: usize = u64::BITS as usize;

/// Points in single precision, coordinate by coordinate. Behind the last one up to the end of its word lie points at
/// infinity, which are near nothing.
#[derive(Clone, Debug, Default)]
pub struct Points {
    coordinates: [Buffer<f32>; 3],
    len: usize,
}

impl Points {
    /// Number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of words of bits, one bit per point.
    pub fn words(&self) -> usize {
        self.len.div_ceil(WORD)
    }

    /// Point `p`.
    pub fn at(&self, p: usize) -> [f32; 3] {
        self.coordinates.each_ref().map(|c| c[p])
    }

    /// Takes other points in place of those it has.
    pub fn fill(&mut self, points: impl ExactSizeIterator<Item = [f32; 3]>) {
        self.resize(points.len());
        let [x, y, z] = &mut self.coordinates;
        for (((x, y), z), at) in x.iter_mut().zip(&mut **y).zip(&mut **z).zip(points) {
            (*x, *y, *z) = (at[0], at[1], at[2]);
        }
    }

    /// Takes blocks of points in place of those it has, each coordinate by coordinate, moved by a vector and then scaled.
    pub fn fill_blocks<'b, const N: usize>(
        &mut self,
        cpu: &Cpu,
        blocks: impl ExactSizeIterator<Item = (&'b [[f64; N]; 3], [f64; 3])> + Clone,
        scale: f64,
    ) {
        self.resize(blocks.len() * N);
        for (k, c) in self.coordinates.iter_mut().enumerate() {
            for (to, (block, by)) in c.as_chunks_mut().0.iter_mut().zip(blocks.clone()) {
                seen(cpu, to, &block[k], by[k], scale);
            }
        }
    }

    /// Takes those of `from` whose bit is set, in their order.
    ///
    /// # Panics
    /// If `bits` has not one word for each of `from`.
    pub fn fill_picked(&mut self, cpu: &Cpu, from: &Points, bits: &[u64]) {
        assert_eq!(bits.len(), from.words(), "one word for 64 points");
        self.resize(bits.iter().map(|word| word.count_ones() as usize).sum());
        for (into, from) in self.coordinates.iter_mut().zip(&from.coordinates) {
            // SAFETY: both are slices of 32-bit numbers, for which every pattern of bits is one.
            unsafe { pick_raw(cpu, bits, from.as_ptr().cast(), into.as_mut_ptr().cast(), self.len) };
        }
    }

    /// Room for `len` points, with infinity behind them.
    fn resize(&mut self, len: usize) {
        self.len = len;
        let size = len.next_multiple_of(WORD);
        for c in &mut self.coordinates {
            c.resize(size, f32::INFINITY);
            c[len..].fill(f32::INFINITY);
        }
    }

    /// Sets the bits of points p with |p − centre|² < `possible`, from word `first` on, and returns whether any of
    /// these is undecided: |p − centre|² ≥ `certain`.
    ///
    /// # Panics
    /// If `bits` has not one word for each word of points from `first` on.
    pub fn near(
        &self,
        cpu: &Cpu,
        first: usize,
        centre: [f32; 3],
        certain: f32,
        possible: f32,
        bits: &mut [u64],
    ) -> bool {
        let words = self.coordinates.each_ref().map(|c| &c.as_chunks().0[first..]);
        assert_eq!(bits.len(), words[0].len(), "one word for 64 points");
        match cpu.isa() {
            // SAFETY: `isa` has found the instructions.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512::near(words, centre, certain, possible, bits) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::near(words, centre, certain, possible, bits) },
            _ => portable::near(words, centre, certain, possible, bits),
        }
    }

    /// Sets the bits of the points whose squared distance from a box is below `possible`. The box is around `centre`
    /// and reaches `half` to each side.
    ///
    /// # Panics
    /// If `bits` has not one word for each of the points.
    pub fn near_box(&self, cpu: &Cpu, centre: [f32; 3], half: [f32; 3], possible: f32, bits: &mut [u64]) {
        let words = self.coordinates.each_ref().map(|c| c.as_chunks().0);
        assert_eq!(bits.len(), words[0].len(), "one word for 64 points");
        match cpu.isa() {
            // SAFETY: `isa` has found the instructions.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512::near_box(words, centre, half, possible, bits) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::near_box(words, centre, half, possible, bits) },
            _ => portable::near_box(words, centre, half, possible, bits),
        }
    }
}

/// Writes those of `from` whose bit is set to `into`, in their order.
///
/// # Panics
/// If `from` has fewer than 64 numbers for each word, or `into` not one for each bit that is set.
pub fn pick(cpu: &Cpu, bits: &[u64], from: &[i32], into: &mut [i32]) {
    assert!(from.len() >= bits.len() * WORD, "64 numbers for each word of bits");
    // SAFETY: `from` is as long as the bits need, and `into` as long as is said.
    let picked = unsafe { pick_raw(cpu, bits, from.as_ptr(), into.as_mut_ptr(), into.len()) };
    assert_eq!(picked, into.len(), "one number for each bit that is set");
}

/// [`pick`], by pointers; returns how many bits are set.
///
/// # Safety
/// `from` is valid for reading 64 numbers for each word, `into` for writing `room` numbers.
///
/// # Panics
/// If more than `room` bits are set.
unsafe fn pick_raw(cpu: &Cpu, bits: &[u64], from: *const i32, into: *mut i32, room: usize) -> usize {
    // SAFETY: `isa` has found the instructions; the pointers are the caller's.
    unsafe {
        match cpu.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::pick(bits, from, into, room),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::pick(bits, from, into, room),
            _ => portable::pick(bits, from, into, room),
        }
    }
}

/// The coordinates of words of points.
type Words<'a> = [&'a [[f32; WORD]]; 3];

/// Calls `word` for each word of points and of bits.
#[inline(always)]
fn each<'a>([x, y, z]: Words<'a>, bits: &mut [u64], mut word: impl FnMut([&'a [f32; WORD]; 3]) -> u64) {
    for (((x, y), z), bits) in x.iter().zip(y).zip(z).zip(bits) {
        *bits = word([x, y, z]);
    }
}

mod portable {
    use super::{WORD, Words, each};

    pub(crate) fn near(
        words: Words<'_>,
        [x, y, z]: [f32; 3],
        certain: f32,
        possible: f32,
        bits: &mut [u64],
    ) -> bool {
        let mut undecided = false;
        each(words, bits, |[px, py, pz]| {
            let r2: [f32; WORD] = std::array::from_fn(|p| {
                let (dx, dy, dz) = (px[p] - x, py[p] - y, pz[p] - z);
                dx * dx + dy * dy + dz * dz
            });
            let near = below(&r2, possible);
            undecided |= near & !below(&r2, certain) != 0;
            near
        });
        undecided
    }

    pub(crate) fn near_box(
        words: Words<'_>,
        [x, y, z]: [f32; 3],
        half: [f32; 3],
        possible: f32,
        bits: &mut [u64],
    ) {
        each(words, bits, |[px, py, pz]| {
            let out = |d: f32, half: f32| if d.abs() - half > 0.0 { d.abs() - half } else { 0.0 };
            let r2: [f32; WORD] = std::array::from_fn(|p| {
                let (dx, dy, dz) =
                    (out(px[p] - x, half[0]), out(py[p] - y, half[1]), out(pz[p] - z, half[2]));
                dx * dx + dy * dy + dz * dz
            });
            below(&r2, possible)
        });
    }

    /// One bit for each number below `limit`.
    fn below(numbers: &[f32; WORD], limit: f32) -> u64 {
        let bytes: [u8; WORD] = std::array::from_fn(|p| u8::from(numbers[p] < limit));
        // The product puts the lowest bits of eight bytes side by side in the highest byte.
        bytes.as_chunks().0.iter().rev().fold(0, |word, &eight| {
            word << 8 | u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56
        })
    }

    /// [`super::pick_raw`] with AVX-512.
    pub(crate) unsafe fn pick(bits: &[u64], from: *const i32, into: *mut i32, room: usize) -> usize {
        let mut count = 0;
        for (w, &word) in bits.iter().enumerate() {
            let mut word = word;
            assert!(word.count_ones() as usize <= room - count, "room for each bit that is set");
            while word != 0 {
                // SAFETY: bit p of word w stands for a number of `from`, and there is room in `into`.
                unsafe { *into.add(count) = *from.add(w * WORD + word.trailing_zeros() as usize) };
                count += 1;
                word &= word - 1;
            }
        }
        count
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use core::arch::x86_64::*;

    use super::{WORD, Words, each};

    const LANES: usize = 16;

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
    pub(crate) fn near(
        words: Words<'_>,
        centre: [f32; 3],
        certain: f32,
        possible: f32,
        bits: &mut [u64],
    ) -> bool {
        let [x, y, z] = [centre[0], centre[1], centre[2]].map(|c| _mm512_set1_ps(c));
        let (certain, possible) = (_mm512_set1_ps(certain), _mm512_set1_ps(possible));
        let mut undecided = 0;
        each(words, bits, |[px, py, pz]| {
            let mut word = 0;
            for q in 0..WORD / LANES {
                let dx = _mm512_sub_ps(load(px, q), x);
                let dy = _mm512_sub_ps(load(py, q), y);
                let dz = _mm512_sub_ps(load(pz, q), z);
                let xy = _mm512_add_ps(_mm512_mul_ps(dx, dx), _mm512_mul_ps(dy, dy));
                let r2 = _mm512_add_ps(xy, _mm512_mul_ps(dz, dz));
                let near = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(r2, possible);
                undecided |= _mm512_mask_cmp_ps_mask::<_CMP_GE_OQ>(near, r2, certain);
                word |= u64::from(near) << (q * LANES);
            }
            word
        });
        undecided != 0
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
    pub(crate) fn near_box(
        words: Words<'_>,
        centre: [f32; 3],
        half: [f32; 3],
        possible: f32,
        bits: &mut [u64],
    ) {
        let [x, y, z] = centre.map(|c| _mm512_set1_ps(c));
        let half = half.map(|h| _mm512_set1_ps(h));
        let possible = _mm512_set1_ps(possible);
        each(words, bits, |[px, py, pz]| {
            let mut word = 0;
            for q in 0..WORD / LANES {
                let dx = out(_mm512_sub_ps(load(px, q), x), half[0]);
                let dy = out(_mm512_sub_ps(load(py, q), y), half[1]);
                let dz = out(_mm512_sub_ps(load(pz, q), z), half[2]);
                let xy = _mm512_add_ps(_mm512_mul_ps(dx, dx), _mm512_mul_ps(dy, dy));
                let r2 = _mm512_add_ps(xy, _mm512_mul_ps(dz, dz));
                word |= u64::from(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(r2, possible)) << (q * LANES);
            }
            word
        });
    }

    /// The distance by which |d| passes `half`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
    fn out(d: __m512, half: __m512) -> __m512 {
        _mm512_max_ps(_mm512_sub_ps(_mm512_abs_ps(d), half), _mm512_setzero_ps())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
    fn load(word: &[f32; WORD], q: usize) -> __m512 {
        let lanes = &word.as_chunks::<LANES>().0[q];
        // SAFETY: sixteen numbers are read where sixteen are.
        unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
    }

    /// [`super::pick_raw`] with AVX-512.
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,popcnt")]
    pub(crate) unsafe fn pick(bits: &[u64], from: *const i32, into: *mut i32, room: usize) -> usize {
        let mut count = 0;
        for (w, &word) in bits.iter().enumerate() {
            for q in 0..WORD / LANES {
                let mask = (word >> (q * LANES)) as u16;
                let picked = mask.count_ones() as usize;
                // Compressed in a register: a store that compresses is slow on some processors.
                // SAFETY: these are numbers w · 64 + 16 q and the 15 behind of `from`.
                let numbers = unsafe {
                    _mm512_maskz_compress_epi32(
                        mask,
                        _mm512_loadu_si512(from.add(w * WORD + q * LANES).cast()),
                    )
                };
                if room - count >= LANES {
                    // SAFETY: sixteen numbers have room, of which the next ones overwrite what is not picked.
                    unsafe { _mm512_storeu_si512(into.add(count).cast(), numbers) };
                } else {
                    assert!(picked <= room - count, "room for each bit that is set");
                    // SAFETY: exactly as many numbers are written as were just found to have room.
                    unsafe {
                        _mm512_mask_storeu_epi32(into.add(count), ((1u32 << picked) - 1) as u16, numbers)
                    };
                }
                count += picked;
            }
        }
        count
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::*;

    use super::{WORD, Words, each};

    const LANES: usize = 8;

    /// For each pattern of eight bits the lanes whose bit is set, from the front; one byte a lane.
    static PICKED: [u64; 256] = {
        let mut table = [0; 256];
        let mut bits = 0;
        while bits < 256 {
            let (mut lane, mut place) = (0, 0);
            while lane < LANES {
                if bits >> lane & 1 == 1 {
                    table[bits] |= (lane as u64) << (8 * place);
                    place += 1;
                }
                lane += 1;
            }
            bits += 1;
        }
        table
    };

    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn near(
        words: Words<'_>,
        centre: [f32; 3],
        certain: f32,
        possible: f32,
        bits: &mut [u64],
    ) -> bool {
        let [x, y, z] = centre.map(|c| _mm256_set1_ps(c));
        let (certain, possible) = (_mm256_set1_ps(certain), _mm256_set1_ps(possible));
        let mut undecided = _mm256_setzero_ps();
        each(words, bits, |[px, py, pz]| {
            let mut word = 0;
            for q in 0..WORD / LANES {
                let dx = _mm256_sub_ps(load(px, q), x);
                let dy = _mm256_sub_ps(load(py, q), y);
                let dz = _mm256_sub_ps(load(pz, q), z);
                let xy = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
                let r2 = _mm256_add_ps(xy, _mm256_mul_ps(dz, dz));
                let near = _mm256_cmp_ps::<_CMP_LT_OQ>(r2, possible);
                undecided =
                    _mm256_or_ps(undecided, _mm256_and_ps(near, _mm256_cmp_ps::<_CMP_GE_OQ>(r2, certain)));
                word |= u64::from(_mm256_movemask_ps(near) as u8) << (q * LANES);
            }
            word
        });
        _mm256_movemask_ps(undecided) != 0
    }

    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn near_box(
        words: Words<'_>,
        centre: [f32; 3],
        half: [f32; 3],
        possible: f32,
        bits: &mut [u64],
    ) {
        let [x, y, z] = centre.map(|c| _mm256_set1_ps(c));
        let half = half.map(|h| _mm256_set1_ps(h));
        let possible = _mm256_set1_ps(possible);
        each(words, bits, |[px, py, pz]| {
            let mut word = 0;
            for q in 0..WORD / LANES {
                let dx = out(_mm256_sub_ps(load(px, q), x), half[0]);
                let dy = out(_mm256_sub_ps(load(py, q), y), half[1]);
                let dz = out(_mm256_sub_ps(load(pz, q), z), half[2]);
                let xy = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
                let r2 = _mm256_add_ps(xy, _mm256_mul_ps(dz, dz));
                let near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(r2, possible));
                word |= u64::from(near as u8) << (q * LANES);
            }
            word
        });
    }

    /// The distance by which |d| passes `half`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn out(d: __m256, half: __m256) -> __m256 {
        let length = _mm256_andnot_ps(_mm256_set1_ps(-0.0), d);
        _mm256_max_ps(_mm256_sub_ps(length, half), _mm256_setzero_ps())
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn load(word: &[f32; WORD], q: usize) -> __m256 {
        let lanes = &word.as_chunks::<LANES>().0[q];
        // SAFETY: eight numbers are read where eight are.
        unsafe { _mm256_loadu_ps(lanes.as_ptr()) }
    }

    /// [`super::pick_raw`] with AVX2.
    #[target_feature(enable = "avx2,fma,popcnt")]
    pub(crate) unsafe fn pick(bits: &[u64], from: *const i32, into: *mut i32, room: usize) -> usize {
        let mut count = 0;
        for (w, &word) in bits.iter().enumerate() {
            for q in 0..WORD / LANES {
                let mask = (word >> (q * LANES)) as u8;
                let picked = mask.count_ones() as usize;
                let order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(PICKED[usize::from(mask)] as i64));
                // SAFETY: these are numbers w · 64 + 8 q and the 7 behind of `from`.
                let numbers = unsafe {
                    let all = _mm256_loadu_si256(from.add(w * WORD + q * LANES).cast());
                    _mm256_permutevar8x32_epi32(all, order)
                };
                if room - count >= LANES {
                    // SAFETY: eight numbers have room, of which the next ones overwrite what is not picked.
                    unsafe { _mm256_storeu_si256(into.add(count).cast(), numbers) };
                } else {
                    assert!(picked <= room - count, "room for each bit that is set");
                    let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                    let wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(picked as i32), lane);
                    // SAFETY: exactly as many numbers are written as were just found to have room.
                    unsafe { _mm256_maskstore_epi32(into.add(count), wanted, numbers) };
                }
                count += picked;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from −1 to 1.
    fn random(seed: &mut u64) -> f32 {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn points(count: usize, seed: &mut u64) -> (Vec<[f32; 3]>, Points) {
        let list: Vec<[f32; 3]> = (0..count).map(|_| std::array::from_fn(|_| random(seed))).collect();
        let mut points = Points::default();
        points.fill(list.iter().copied());
        (list, points)
    }

    #[test]
    fn bits_are_those_of_the_distances_on_every_isa() {
        let mut seed = 3;
        for count in [0, 1, 63, 64, 65, 200] {
            let (list, points) = points(count, &mut seed);
            for _ in 0..20 {
                let centre: [f32; 3] = std::array::from_fn(|_| random(&mut seed));
                let half: [f32; 3] = std::array::from_fn(|_| random(&mut seed).abs() * 0.5);
                let (certain, possible) = (0.6, 0.6 + 0.02 * random(&mut seed).abs());
                let square = |d: [f32; 3]| d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                let from = |at: &[f32; 3]| square(std::array::from_fn(|k| at[k] - centre[k]));
                let from_box = |at: &[f32; 3]| {
                    square(std::array::from_fn(|k| ((at[k] - centre[k]).abs() - half[k]).max(0.0)))
                };
                for &isa in Isa::available() {
                    let cpu = Cpu::at_most(isa);
                    let mut bits = vec![!0; points.words()];
                    let undecided = points.near(&cpu, 0, centre, certain, possible, &mut bits);
                    let is_set = |bits: &[u64], p: usize| bits[p / WORD] >> (p % WORD) & 1 == 1;
                    for p in 0..points.words() * WORD {
                        let near = list.get(p).is_some_and(|at| from(at) < possible);
                        assert_eq!(is_set(&bits, p), near, "{isa:?}: point {p} of {count}");
                    }
                    assert_eq!(undecided, list.iter().any(|at| (certain..possible).contains(&from(at))));
                    if points.words() > 1 {
                        let mut rest = vec![0; points.words() - 1];
                        points.near(&cpu, 1, centre, certain, possible, &mut rest);
                        assert_eq!(rest, bits[1..]);
                    }
                    points.near_box(&cpu, centre, half, 0.1, &mut bits);
                    for p in 0..points.words() * WORD {
                        let near = list.get(p).is_some_and(|at| from_box(at) < 0.1);
                        assert_eq!(is_set(&bits, p), near, "{isa:?}: point {p} of {count}, box");
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_are_moved_and_scaled_before_they_are_rounded() {
        let mut seed = 7;
        let blocks: Vec<[[f64; 16]; 3]> = (0..5)
            .map(|_| std::array::from_fn(|_| std::array::from_fn(|_| f64::from(random(&mut seed)) * 1e3)))
            .collect();
        let by: Vec<[f64; 3]> =
            blocks.iter().map(|_| std::array::from_fn(|_| f64::from(random(&mut seed)) * 1e3)).collect();
        for &isa in Isa::available() {
            let mut points = Points::default();
            points.fill_blocks(&Cpu::at_most(isa), blocks.iter().zip(by.iter().copied()), 0.37);
            assert_eq!(points.len(), 80);
            for p in 0..80 {
                let expected =
                    std::array::from_fn(|k| ((blocks[p / 16][k][p % 16] + by[p / 16][k]) * 0.37) as f32);
                assert_eq!(points.at(p), expected, "{isa:?}: point {p}");
            }
        }
    }

    #[test]
    fn picking_keeps_the_order_and_writes_nothing_else() {
        let mut seed = 5;
        let from: Vec<i32> = (0..256).map(|p| p * p).collect();
        let (list, points) = points(256, &mut seed);
        for density in 0..6 {
            let bits: Vec<u64> = (0..4)
                .map(|_| {
                    (0..WORD).fold(0, |word, p| {
                        word | u64::from(random(&mut seed) < density as f32 * 0.5 - 1.2) << p
                    })
                })
                .collect();
            let set = |p: &usize| bits[p / WORD] >> (p % WORD) & 1 == 1;
            let expected: Vec<i32> = (0..256).filter(set).map(|p| from[p]).collect();
            let places: Vec<[f32; 3]> = (0..256).filter(set).map(|p| list[p]).collect();
            for &isa in Isa::available() {
                let cpu = Cpu::at_most(isa);
                let mut into = vec![-1; expected.len() + 20];
                pick(&cpu, &bits, &from, &mut into[3..][..expected.len()]);
                assert_eq!(into[3..][..expected.len()], expected, "{isa:?}");
                assert!(into[..3].iter().chain(&into[3 + expected.len()..]).all(|&n| n == -1), "{isa:?}");
                let mut picked = Points::default();
                picked.fill(std::iter::repeat_n([0.0; 3], 300));
                picked.fill_picked(&cpu, &points, &bits);
                assert_eq!((0..picked.len()).map(|p| picked.at(p)).collect::<Vec<_>>(), places, "{isa:?}");
                assert!(picked.coordinates[1][picked.len()..].iter().all(|x| x.is_infinite()));
                let short = expected.len().saturating_sub(1);
                if short > 0 {
                    let pick_too_many = || pick(&cpu, &bits, &from, &mut vec![0; short]);
                    assert!(std::panic::catch_unwind(pick_too_many).is_err(), "{isa:?}");
                }
            }
        }
    }
}
