//! The cluster form of a part, as `kernels!` generates it: every unordered pair of a full list once, over clusters of
//! atoms as wide as the lanes. Backends make the clusters of a list.

use crate::launch::EntryPoints;
use madelung_abi::{Packed, Role, RunField};
use madelung_memory::Plain;
use std::mem::offset_of;

/// The cluster form of a part. Its first phase sums over clusters; its second is the part with its sums given.
#[derive(Debug)]
pub struct ClusterForm {
    /// The pair list.
    pub list: usize,
    /// The positions, which the pairs depend on by r_j − r_i + S · cell alone.
    pub positions: usize,
    /// The cell; `None` where images play no part.
    pub cell: Option<usize>,
    /// The components of its two atoms that a pair reads, in order.
    pub packed: &'static [Packed],
    /// Outputs of the part that it does not give: a launch that wants one of them runs row by row.
    pub without: &'static [(usize, Role)],
    /// Sums per atom.
    pub sums: usize,
    /// The first phase: runs of a piece of the list in the place of rows. Its arrays are those of
    /// [`madelung_abi::ClusterArray`], behind the last slot; clusters are as wide as the lanes.
    pub pairs: EntryPoints,
    /// The second phase. The sums are behind the last slot: `sums` f64 for each row.
    pub rows: EntryPoints,
}

/// One atom against clusters at one image. A piece of a list numbers the clusters that it touches by themselves.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClusterRun {
    /// The atom.
    pub row: i32,
    /// The cluster of the atom.
    pub cluster: u32,
    /// The lane of the atom in its cluster.
    pub lane: u32,
    /// The image.
    pub shift: [i32; 3],
    /// The run's first entry.
    pub start: u32,
    /// The one after its last.
    pub end: u32,
}

// Compiled code reads the fields by these places.
const _: () = {
    assert!(size_of::<ClusterRun>() == 4 * RunField::COUNT);
    assert!(offset_of!(ClusterRun, row) == 4 * RunField::Row as usize);
    assert!(offset_of!(ClusterRun, cluster) == 4 * RunField::Cluster as usize);
    assert!(offset_of!(ClusterRun, lane) == 4 * RunField::Lane as usize);
    assert!(offset_of!(ClusterRun, shift) == 4 * RunField::Shift as usize);
    assert!(offset_of!(ClusterRun, start) == 4 * RunField::Start as usize);
    assert!(offset_of!(ClusterRun, end) == 4 * RunField::End as usize);
};

/// A cluster that holds neighbours.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClusterEntry {
    /// The number of the cluster.
    pub cluster: u32,
    /// The lanes that are neighbours: a bit each.
    pub mask: u32,
}

// SAFETY: numbers of 32 bits, without gaps.
#[expect(unsafe_code, reason = "declared to be plain numbers")]
unsafe impl Plain for ClusterRun {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "declared to be plain numbers")]
unsafe impl Plain for ClusterEntry {}
