//! Candidates for a block of atoms in the order of the list, and the rows that come of them.
//!
//! Both fast methods end here. A candidate is a point in single precision, relative to the block and in units of the
//! cutoff; whatever single precision cannot tell apart from the cutoff is decided by the formula of the conventions
//! in f64. Candidates are sorted once for all atoms of a block, and a row is kept as one bit per candidate until the
//! size of the list is known: little memory is touched twice, and every row comes out in order.

use std::ops::Range;

use madelung_core::{Error, Result};

use crate::lattice::{Lattice, displacement, squared};

/// An atom moved into the cell along the periodic axes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placed {
    /// r − wrap · cell.
    pub(crate) at: [f64; 3],
    /// Coordinates of `at` along the frame.
    pub(crate) s: [f64; 3],
    pub(crate) wrap: [i32; 3],
}

/// What one call searches for.
pub(crate) struct Search<'a> {
    pub(crate) positions: &'a [[f64; 3]],
    pub(crate) placed: &'a [Placed],
    pub(crate) cutoff: f64,
    pub(crate) half: bool,
}

/// One system of it.
pub(crate) struct System<'a> {
    pub(crate) atoms: Range<usize>,
    pub(crate) lattice: &'a Lattice,
    pub(crate) images: Images,
    /// Error of lengths between wrapped coordinates.
    pub(crate) slack: f64,
}

/// Packs the image n of a wrapped atom into 32 bits whose order is the lexicographic order of n.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Images {
    most: [i32; 3],
    bits: [u32; 3],
}

/// At most 2^28 images: a cutoff of some 300 boxes.
const IMAGE_BITS: u32 = 28;

impl Images {
    /// For every image that can lie within `cutoff` (plus `slack`) of an atom in the cell.
    pub(crate) fn new(
        lattice: &Lattice,
        atoms: usize,
        cutoff: f64,
        slack: f64,
        whose: impl Fn() -> String,
    ) -> Result<Self> {
        let mut images = Self::default();
        let mut count = atoms as f64;
        for k in (0..3).filter(|&k| lattice.periodic[k]) {
            // A little more than any search asks for, so that each finds room for its images.
            let fraction = (cutoff + slack) / lattice.heights[k] * (1.0 + 4e-9) + 4e-9;
            count *= 2.0 * fraction + 1.0;
            images.most[k] = (fraction + 1.0) as i32;
            images.bits[k] = 32 - (2 * (images.most[k].min(1 << 28)) as u32).leading_zeros();
        }
        if images.bits.iter().sum::<u32>() > IMAGE_BITS || count > (1u32 << IMAGE_BITS) as f64 {
            return Err(Error::argument(
                "cutoff",
                format!("a cutoff within reach of fewer than 2^{IMAGE_BITS} periodic images of the atoms"),
                format!("{cutoff}, across {:?} boxes{}", images.most, whose()),
            ));
        }
        Ok(images)
    }

    /// Largest |n| along each axis.
    pub(crate) fn most(&self) -> [i32; 3] {
        self.most
    }

    pub(crate) fn code(&self, n: [i32; 3]) -> u32 {
        let [x, y, z]: [u32; 3] = std::array::from_fn(|k| (n[k] + self.most[k]) as u32);
        (((x << self.bits[1]) + y) << self.bits[2]) + z
    }

    pub(crate) fn image(&self, code: u32) -> [i32; 3] {
        let mask = |bits: u32| (1 << bits) - 1;
        let (y, z) = (code >> self.bits[2], code & mask(self.bits[2]));
        let (x, y) = (y >> self.bits[1], y & mask(self.bits[1]));
        [x as i32 - self.most[0], y as i32 - self.most[1], z as i32 - self.most[2]]
    }
}

/// A candidate's place in the order of a row: atom, then image.
pub(crate) fn key(atom: usize, code: u32) -> u64 {
    (atom as u64) << 32 | u64::from(code)
}

/// Blocks of rows that one task found.
#[derive(Default)]
pub(crate) struct Found {
    /// For each block its number of rows and of candidates.
    pub(crate) blocks: Vec<(u32, u32)>,
    /// Keys of the candidates of each block.
    pub(crate) keys: Vec<u64>,
    /// For each row its atom i and its number of pairs.
    pub(crate) rows: Vec<(u32, u32)>,
    /// For each row the candidates that are its pairs: one bit each, in whole words.
    pub(crate) bits: Vec<u64>,
}

/// Candidates of a block, sorted by key.
#[derive(Default)]
pub(crate) struct Candidates {
    keys: Vec<u64>,
    /// x, y and z of the candidates of each word of bits, in the order of [`slot`] and padded with infinity.
    words: Vec<[[f32; WORD]; 3]>,
}

/// Candidates per word of bits.
pub(crate) const WORD: usize = u64::BITS as usize;
const LANES: usize = 8;

/// Where the coordinates of candidate `c` of a word are: so that lane l of the vector loop in [`compare`] collects the
/// bits 8l to 8l + 7 of the word.
fn slot(c: usize) -> usize {
    c % LANES * LANES + c / LANES % LANES
}

impl Candidates {
    /// Takes `candidates`, sorted by key: each at its place relative to the block, in cutoffs.
    pub(crate) fn fill(&mut self, candidates: impl Iterator<Item = ([f32; 3], u64)>) {
        self.keys.clear();
        self.words.clear();
        for (c, (at, key)) in candidates.enumerate() {
            self.keys.push(key);
            if c.is_multiple_of(WORD) {
                self.words.push([[f32::INFINITY; WORD]; 3]);
            }
            if let Some([x, y, z]) = self.words.last_mut() {
                (x[slot(c)], y[slot(c)], z[slot(c)]) = (at[0], at[1], at[2]);
            }
        }
    }

    /// Finds the rows of `atoms`, all of which are among the candidates. No coordinate passes `extent`.
    pub(crate) fn rows(
        &self,
        atoms: impl Iterator<Item = usize>,
        extent: f64,
        search: &Search<'_>,
        system: &System<'_>,
        found: &mut Found,
    ) {
        let within = band(extent, system.slack / search.cutoff);
        let before = found.rows.len();
        for i in atoms {
            let count = self.row(i, within, search, system, &mut found.bits);
            found.rows.push((i as u32, count));
        }
        found.blocks.push(((found.rows.len() - before) as u32, self.keys.len() as u32));
        found.keys.extend_from_slice(&self.keys);
    }

    /// Appends the bits of the row of atom `i` and counts them.
    fn row(
        &self,
        i: usize,
        (sure, hit): (f32, f32),
        search: &Search<'_>,
        system: &System<'_>,
        bits: &mut Vec<u64>,
    ) -> u32 {
        let me = key(i, system.images.code([0; 3]));
        let own = self.keys.partition_point(|&key| key < me);
        debug_assert_eq!(self.keys.get(own), Some(&me), "atom {i} is not among its own candidates");
        let own_word = own / WORD;
        let at = self.words[own_word].map(|coordinate| coordinate[slot(own)]);
        // Behind itself an atom has exactly the candidates of a half list.
        let first = if search.half { own_word } else { 0 };
        bits.resize(bits.len() + first, 0);
        let mut count = 0;
        for (w, candidates) in self.words.iter().enumerate().skip(first) {
            let (mut word, doubt) = compare(candidates, at, sure, hit);
            if w == own_word {
                word &= if search.half { u64::MAX << (own % WORD) << 1 } else { !(1 << (own % WORD)) };
            }
            let mut open = word & doubt;
            while open != 0 {
                let c = open.trailing_zeros();
                open &= open - 1;
                if !is_pair(i, self.keys[w * WORD + c as usize], search, system) {
                    word &= !(1 << c);
                }
            }
            count += word.count_ones();
            bits.push(word);
        }
        count
    }
}

/// Which of a word of candidates are closer to a point than `hit`, and which are not closer than `sure` (squared).
#[inline(never)]
fn compare(candidates: &[[f32; WORD]; 3], [x, y, z]: [f32; 3], sure: f32, hit: f32) -> (u64, u64) {
    let (mut near, mut doubt) = ([0u32; LANES], [0u32; LANES]);
    // A bit that is carried along keeps the compiler from making vectors of the outer loop instead of the lanes.
    let mut bit = 1;
    let [cx, cy, cz] = candidates.each_ref().map(|c| c.as_chunks::<LANES>().0);
    for ((cx, cy), cz) in cx.iter().zip(cy).zip(cz) {
        for l in 0..LANES {
            let (dx, dy, dz) = (cx[l] - x, cy[l] - y, cz[l] - z);
            let r2 = dx * dx + dy * dy + dz * dz;
            near[l] |= if r2 < hit { bit } else { 0 };
            doubt[l] |= if r2 >= sure { bit } else { 0 };
        }
        bit <<= 1;
    }
    let join = |lanes: [u32; LANES]| (0..LANES).fold(0, |word, l| word | u64::from(lanes[l]) << (l * LANES));
    (join(near), join(doubt))
}

/// Squared distances that single precision can decide: below the first is a pair, from the second on is none.
/// Coordinates are below `extent` and have errors of `slack` besides, all in cutoffs.
pub(crate) fn band(extent: f64, slack: f64) -> (f32, f32) {
    let blur = slack + (4.0 * extent + 8.0) * f64::from(f32::EPSILON);
    let (sure, hit) = ((1.0 - blur).max(0.0).powi(2), (1.0 + blur).powi(2));
    ((sure * (1.0 - 1e-6)) as f32, (hit * (1.0 + 1e-6)) as f32)
}

/// The decision itself, on the coordinates that came in.
#[cold]
fn is_pair(i: usize, key: u64, search: &Search<'_>, system: &System<'_>) -> bool {
    let (j, n) = ((key >> 32) as usize, system.images.image(key as u32));
    let (wi, wj) = (search.placed[i].wrap, search.placed[j].wrap);
    let s = std::array::from_fn(|k| n[k] + wi[k] - wj[k]);
    let d = displacement(&system.lattice.rows, search.positions[i], search.positions[j], s);
    squared(d) < search.cutoff * search.cutoff
}
