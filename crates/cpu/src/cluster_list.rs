//! Pair lists in clusters as the loops of a launch take them: clusters as wide as the lanes.

use madelung_core::array::Buffer;
use madelung_core::runtime::lanes::packed::unpack;
use madelung_core::runtime::{ClusterEntry, ClusterRun};
use madelung_core::structure::Clusters;
use madelung_core::structure::pairs::clusters::WIDTH;

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

/// Runs of a piece, with clusters numbered among those that they touch.
pub(crate) struct Runs {
    pub(crate) runs: Buffer<ClusterRun>,
    pub(crate) entries: Buffer<ClusterEntry>,
    /// The offset in `touched` of each block of [`BLOCK`] runs, and the total.
    pub(crate) blocks: Vec<u32>,
    /// The clusters that each block adds to as columns.
    pub(crate) touched: Vec<u32>,
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
            members.flat_map(|member| (0..parts).map(move |k| *member as u32 * parts + k)).collect()
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
        let mut shares = vec![(0, 0); share_ptr[clusters] as usize];
        for (p, members) in members.iter().enumerate() {
            for (here, c) in members.iter().enumerate() {
                shares[next[*c as usize] as usize] = (p as u32, here as u32);
                next[*c as usize] += 1;
            }
        }
        Self { given, width, systems, members, share_ptr, shares }
    }

    /// The runs and entries of piece `p`. Its clusters are cut in parts as wide as the lanes, and of an entry those parts
    /// stay that hold pairs.
    pub(crate) fn runs(&self, p: usize) -> Runs {
        let (piece, slots, width) = (self.given.piece(p), self.given.slots(), self.width);
        let (parts, bits) = (WIDTH / width, width.trailing_zeros());
        let lanes = !(!0u32 << width);
        let mut entries = Buffer::filled(piece.entries.len() * parts, ClusterEntry { cluster: 0, mask: 0 });
        let mut runs = Buffer::with_capacity(piece.runs.len());
        let (mut blocks, mut touched) = (vec![0], vec![]);
        let mut seen = vec![u32::MAX; self.members[p].len()];
        let (mut at, mut from) = (0, piece.first_entry);
        for (n, block) in piece.runs.chunks(BLOCK).enumerate() {
            let first = at;
            for &[slot, image, end] in block {
                let begin = at;
                let of_run = &piece.entries[from - piece.first_entry..end as usize - piece.first_entry];
                from = end as usize;
                let out = &mut entries[at..at + of_run.len() * parts];
                let mut count = 0;
                for &[cluster, mask] in of_run {
                    for part in 0..parts {
                        let mask = mask as u32 >> (part * width) & lanes;
                        // Written in any case, and kept where it holds pairs.
                        out[count] =
                            ClusterEntry { cluster: cluster as u32 * parts as u32 + part as u32, mask };
                        count += usize::from(mask != 0);
                    }
                }
                at += count;
                let slot = slot as u32;
                let member = piece.members[slot as usize / WIDTH] as usize;
                runs.push(ClusterRun {
                    row: slots[member * WIDTH + slot as usize % WIDTH],
                    cluster: slot >> bits,
                    lane: slot & (width as u32 - 1),
                    shift: unpack(image),
                    start: begin as u32,
                    end: at as u32,
                });
            }
            for e in &entries[first..at] {
                if seen[e.cluster as usize] != n as u32 {
                    seen[e.cluster as usize] = n as u32;
                    touched.push(e.cluster);
                }
            }
            blocks.push(touched.len() as u32);
        }
        entries.truncate(at);
        Runs { runs, entries, blocks, touched }
    }
}
