//! Pair lists in clusters as the loops of a launch take them: clusters as wide as the lanes.

use madelung_core::array::{filled, reserve};
use madelung_core::runtime::lanes::packed::unpack;
use madelung_core::runtime::{ClusterEntry, ClusterRun};
use madelung_core::structure::Clusters;
use madelung_core::structure::pairs::clusters::{Piece, WIDTH};
use std::ops::Range;

/// Runs after which sums in f32 go to f64: a column gets one term from each run at most (but for pairs that the list
/// has twice).
pub(crate) const BLOCK: usize = 64;

/// Clusters of a list, by the number of lanes.
#[derive(Debug)]
pub(crate) struct ClusterList<'c> {
    /// The list.
    pub(crate) given: &'c Clusters<'c>,
    /// Atoms for each cluster.
    pub(crate) width: usize,
    /// The system of each cluster.
    pub(crate) systems: Vec<u32>,
    /// The clusters that each piece touches.
    pub(crate) members: Vec<Vec<u32>>,
    /// The offset in `shares` of each cluster, and the total.
    pub(crate) share_ptr: Vec<u32>,
    /// (piece, cluster there), in the order of the pieces.
    pub(crate) shares: Vec<(u32, u32)>,
}

/// Some runs of a piece, with clusters numbered among those that the piece touches.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) runs: Vec<ClusterRun>,
    /// Entries of the runs, and room for more.
    pub(crate) entries: Vec<ClusterEntry>,
    /// Entries in use.
    pub(crate) count: usize,
}

impl<'c> ClusterList<'c> {
    pub(crate) fn new(given: &'c Clusters<'c>, width: usize) -> Self {
        let parts = (WIDTH / width) as u32;
        let clusters = given.slots().len() / width;
        let mut systems = Vec::with_capacity(clusters);
        for (b, w) in given.ptr().windows(2).enumerate() {
            let slots = ((w[1] - w[0]) as usize).next_multiple_of(WIDTH);
            systems.resize(systems.len() + slots / width, b as u32);
        }
        let of_piece = |p: usize| {
            let members = given.piece(p).members.iter();
            let mut of_piece = vec![];
            reserve(&mut of_piece, members.len() * parts as usize);
            of_piece.extend(members.flat_map(|member| (0..parts).map(move |k| *member as u32 * parts + k)));
            of_piece
        };
        let members: Vec<Vec<u32>> = (0..given.pieces()).map(of_piece).collect();
        let mut share_ptr = vec![0u32; clusters + 1];
        for c in members.iter().flatten() {
            share_ptr[*c as usize + 1] += 1;
        }
        for c in 0..clusters {
            share_ptr[c + 1] += share_ptr[c];
        }
        let mut next = share_ptr.clone();
        let mut shares = filled(share_ptr[clusters] as usize, (0, 0));
        for (p, members) in members.iter().enumerate() {
            for (here, c) in members.iter().enumerate() {
                shares[next[*c as usize] as usize] = (p as u32, here as u32);
                next[*c as usize] += 1;
            }
        }
        Self { given, width, systems, members, share_ptr, shares }
    }

    /// Puts runs of a piece into `block`. Clusters are cut in parts as wide as the lanes, and of an entry those parts stay
    /// that hold pairs.
    pub(crate) fn expand(&self, piece: &Piece<'_>, runs: Range<usize>, block: &mut Block) {
        match WIDTH / self.width {
            1 => self.expand_in::<1>(piece, runs, block),
            2 => self.expand_in::<2>(piece, runs, block),
            4 => self.expand_in::<4>(piece, runs, block),
            _ => self.expand_in::<8>(piece, runs, block),
        }
    }

    fn expand_in<const PARTS: usize>(&self, piece: &Piece<'_>, runs: Range<usize>, block: &mut Block) {
        let (slots, width) = (self.given.slots(), WIDTH / PARTS);
        let lanes = !(!0u32 << width);
        let end_of = |run: usize| piece.runs[run][2] as usize - piece.first_entry;
        let mut from = if runs.start == 0 { 0 } else { end_of(runs.start - 1) };
        let most = (end_of(runs.end - 1) - from) * PARTS;
        if block.entries.len() < most {
            block.entries.resize(most, ClusterEntry { cluster: 0, mask: 0 });
        }
        block.runs.clear();
        let mut at = 0;
        for &[slot, image, end] in &piece.runs[runs] {
            let end = end as usize - piece.first_entry;
            let of_run = &piece.entries[from..end];
            let (begin, out) = (at, &mut block.entries[at..]);
            let mut count = 0;
            for &[cluster, mask] in of_run {
                for part in 0..PARTS {
                    let mask = mask as u32 >> (part * width) & lanes;
                    // Written in any case, and kept where it holds pairs.
                    out[count] = ClusterEntry { cluster: cluster as u32 * PARTS as u32 + part as u32, mask };
                    count += usize::from(mask != 0);
                }
            }
            (at, from) = (at + count, end);
            let slot = slot as u32;
            let member = piece.members[slot as usize / WIDTH] as usize;
            block.runs.push(ClusterRun {
                row: slots[member * WIDTH + slot as usize % WIDTH],
                cluster: slot / width as u32,
                lane: slot % width as u32,
                shift: unpack(image),
                start: begin as u32,
                end: at as u32,
            });
        }
        block.count = at;
    }
}
