//! Candidates for a block of atoms in the order of the list, and the rows made from them.
//!
//! Both fast methods end here. A candidate is a point in single precision, relative to the block and in units of the
//! cutoff; distances that single precision cannot tell apart from the cutoff are decided by the formula of the
//! conventions in f64. Candidates are sorted once for all cells of a block; each cell picks those near it, still in
//! order, and tries them for each of its atoms. Rows are kept as one bit per candidate until the size of the list is
//! known: little memory is touched twice, and every row comes out in order.

use std::ops::Range;

use madelung_core::array::Buffer;
use madelung_core::stop::if_asked;
use madelung_core::{Error, Result};
use madelung_cpu::Cpu;
use madelung_cpu::points::{Points, WORD};

use crate::lattice::Lattice;

/// An atom moved into the cell along the periodic axes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WrappedAtom {
    /// r − wrap · cell.
    pub(crate) at: [f64; 3],
    /// Coordinates of `at` along the frame.
    pub(crate) s: [f64; 3],
    pub(crate) wrap: [i32; 3],
}

/// The input of one search.
pub(crate) struct Search<'a> {
    pub(crate) positions: &'a [[f64; 3]],
    pub(crate) placed: &'a [WrappedAtom],
    /// The largest |wrap| of any atom along each axis.
    pub(crate) wraps: [i32; 3],
    pub(crate) half: bool,
    pub(crate) cpu: Cpu,
}

impl Search<'_> {
    /// No |S| of `system` is larger, along each axis.
    pub(crate) fn farthest(&self, system: &System<'_>) -> [i32; 3] {
        let most = system.images.most();
        std::array::from_fn(|k| most[k].saturating_add(self.wraps[k].saturating_mul(2)))
    }
}

/// One system of it.
pub(crate) struct System<'a> {
    pub(crate) atoms: Range<usize>,
    pub(crate) lattice: &'a Lattice,
    pub(crate) images: Images,
    pub(crate) cutoff: f64,
    /// Error of lengths between wrapped coordinates.
    pub(crate) slack: f64,
}

/// Packs the image n of a wrapped atom into a number from 0 on whose order is the lexicographic order of n.
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

    pub(crate) fn code(&self, n: [i32; 3]) -> i32 {
        let [x, y, z] = std::array::from_fn(|k| n[k] + self.most[k]);
        (((x << self.bits[1]) + y) << self.bits[2]) + z
    }

    pub(crate) fn image(&self, code: i32) -> [i32; 3] {
        let mask = |bits: u32| (1 << bits) - 1;
        let (y, z) = (code >> self.bits[2], code & mask(self.bits[2]));
        let (x, y) = (y >> self.bits[1], y & mask(self.bits[1]));
        [x - self.most[0], y - self.most[1], z - self.most[2]]
    }
}

/// Rows that one task found, as bits that pick from tables: block by block, cell by cell, row by row.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) blocks: Vec<BlockSize>,
    /// Atom and image code of the candidates of each block, padded to whole words.
    pub(crate) atoms: Buffer<i32>,
    pub(crate) codes: Buffer<i32>,
    pub(crate) cells: Vec<CellSize>,
    /// For each cell those candidates of its block that are candidates of the cell.
    pub(crate) masks: Buffer<u64>,
    /// For each row its atom i and its number of pairs.
    pub(crate) rows: Buffer<[u32; 2]>,
    /// For each row those candidates of its cell that are its pairs.
    pub(crate) bits: Buffer<u64>,
}

impl Found {
    /// Forgets all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.atoms.clear();
        self.codes.clear();
        self.cells.clear();
        self.masks.clear();
        self.rows.clear();
        self.bits.clear();
    }
}

/// The numbers of cells and of words of candidates.
pub(crate) struct BlockSize {
    pub(crate) cells: u32,
    pub(crate) words: u32,
}

/// The numbers of rows and of candidates.
pub(crate) struct CellSize {
    pub(crate) rows: u32,
    pub(crate) near: u32,
}

/// The candidates of a block of cells, in the order of the list, and those of one of its cells.
#[derive(Default)]
pub(crate) struct Candidates {
    points: Points,
    /// Atom and image code of each, padded to whole words.
    atoms: Buffer<i32>,
    codes: Buffer<i32>,
    /// The candidates of the cell, as bits, and their number before each word.
    mask: Vec<u64>,
    before: Vec<u32>,
    near: Points,
    certain: Vec<u64>,
}

/// A box around the atoms of a cell, relative to the block and in cutoffs.
#[derive(Clone, Copy)]
pub(crate) struct Box3 {
    pub(crate) centre: [f32; 3],
    pub(crate) half: [f32; 3],
}

impl Candidates {
    /// Takes the candidates of a new block, sorted by atom and image: each at its place relative to the block, in
    /// cutoffs, with its atom and image code.
    pub(crate) fn fill(
        &mut self,
        candidates: impl ExactSizeIterator<Item = ([f32; 3], i32, i32)>,
        found: &mut Found,
    ) {
        let len = candidates.len();
        self.atoms.clear();
        self.codes.clear();
        self.points.fill(candidates.map(|(at, atom, code)| {
            self.atoms.push(atom);
            self.codes.push(code);
            at
        }));
        let size = len.next_multiple_of(WORD);
        self.atoms.resize(size, 0);
        self.codes.resize(size, 0);
        found.blocks.push(BlockSize { cells: 0, words: self.points.words() as u32 });
        found.atoms.extend_from_slice(&self.atoms);
        found.codes.extend_from_slice(&self.codes);
    }

    /// Finds the rows of one cell of the block: of the atoms whose places among the candidates are `own`, all of them
    /// in `within`, if not in a box that holds all candidates. No coordinate passes `extent`.
    pub(crate) fn cell(
        &mut self,
        own: impl Iterator<Item = usize>,
        within: Option<Box3>,
        extent: f64,
        search: &Search<'_>,
        system: &System<'_>,
        found: &mut Found,
    ) {
        let limits = band(extent, system.slack / system.cutoff);
        self.mask.resize(self.points.words(), 0);
        match within {
            Some(Box3 { centre, half }) => {
                self.points.near_box(&search.cpu, centre, half, limits.1, &mut self.mask);
            }
            None => {
                self.mask.fill(!0);
                if let (Some(last), rest @ 1..) = (self.mask.last_mut(), self.points.len() % WORD) {
                    *last = !(!0 << rest);
                }
            }
        }
        self.before.clear();
        let mut count = 0;
        for word in &self.mask {
            self.before.push(count);
            count += word.count_ones();
        }
        self.near.fill_picked(&search.cpu, &self.points, &self.mask);
        let rows = found.rows.len();
        for (n, own) in own.enumerate() {
            if n % 64 == 0 {
                if_asked();
            }
            let i = self.atoms[own];
            debug_assert!(
                self.mask[own / WORD] >> (own % WORD) & 1 == 1,
                "atom {i} is not among its own candidates"
            );
            let below = self.mask[own / WORD] & !(!0 << (own % WORD));
            let own = (self.before[own / WORD] + below.count_ones()) as usize;
            let count = self.row(i as usize, own, limits, search, system, &mut found.bits);
            found.rows.push([i as u32, count]);
        }
        found.masks.extend_from_slice(&self.mask);
        found.cells.push(CellSize { rows: (found.rows.len() - rows) as u32, near: count });
        if let Some(block) = found.blocks.last_mut() {
            block.cells += 1;
        }
    }

    /// Appends the bits of the row of atom `i`, which is candidate `own` of the cell, and counts them.
    fn row(
        &mut self,
        i: usize,
        own: usize,
        (certain, possible): (f32, f32),
        search: &Search<'_>,
        system: &System<'_>,
        bits: &mut Buffer<u64>,
    ) -> u32 {
        let own_word = own / WORD;
        // Behind itself an atom has exactly the candidates of a half list.
        let first = if search.half { own_word } else { 0 };
        let start = bits.len() + first;
        bits.resize(bits.len() + self.near.words(), 0);
        let (row, at) = (&mut bits[start..], self.near.at(own));
        let undecided = self.near.near(&search.cpu, first, at, certain, possible, row);
        row[own_word - first] &= if search.half { !1 << (own % WORD) } else { !(1 << (own % WORD)) };
        if undecided {
            self.settle(i, first, at, certain, search, system, &mut bits[start..]);
        }
        bits[start..].iter().map(|word| word.count_ones()).sum()
    }

    /// Removes from the row of atom `i` the pairs that single precision let in and f64 rejects.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "what `row` has, out of its way")]
    fn settle(
        &mut self,
        i: usize,
        first: usize,
        at: [f32; 3],
        certain: f32,
        search: &Search<'_>,
        system: &System<'_>,
        row: &mut [u64],
    ) {
        self.certain.resize(row.len(), 0);
        self.near.near(&search.cpu, first, at, certain, certain, &mut self.certain);
        for (w, (word, certain)) in row.iter_mut().zip(&self.certain).enumerate() {
            let mut open = *word & !certain;
            while open != 0 {
                let bit = open.trailing_zeros();
                open &= open - 1;
                let candidate = self.of_cell((first + w) * WORD + bit as usize);
                if !is_pair(i, self.atoms[candidate], self.codes[candidate], search, system) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// The candidate of the block that is the `n`-th of the cell.
    fn of_cell(&self, n: usize) -> usize {
        let w = self.before.partition_point(|&before| before as usize <= n) - 1;
        let mut word = self.mask[w];
        for _ in self.before[w] as usize..n {
            word &= word - 1;
        }
        w * WORD + word.trailing_zeros() as usize
    }
}

/// Squared distances that single precision can decide: below the first is a pair, from the second on is none.
/// Coordinates are below `extent` and have errors of `slack` besides, all in cutoffs.
pub(crate) fn band(extent: f64, slack: f64) -> (f32, f32) {
    let blur = slack + (4.0 * extent + 8.0) * f64::from(f32::EPSILON);
    let (certain, possible) = ((1.0 - blur).max(0.0).powi(2), (1.0 + blur).powi(2));
    ((certain * (1.0 - 1e-6)) as f32, (possible * (1.0 + 1e-6)) as f32)
}

/// The decision itself, on the coordinates that came in.
pub(crate) fn is_pair(i: usize, j: i32, code: i32, search: &Search<'_>, system: &System<'_>) -> bool {
    let (j, n) = (j as usize, system.images.image(code));
    let (wi, wj) = (search.placed[i].wrap, search.placed[j].wrap);
    let s = std::array::from_fn(|k| n[k] + wi[k] - wj[k]);
    let distance = system.lattice.distance(search.positions[i], search.positions[j], s);
    distance < system.lattice.precision.rounded(system.cutoff)
}
