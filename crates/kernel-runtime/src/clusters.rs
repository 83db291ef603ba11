//! The cluster form of a part, as `kernels!` generates it: every unordered pair of a full list once, over clusters of
//! atoms as wide as the lanes. Backends make the clusters of a list.

use crate::launch::{EntryPoints, LaunchAbi};
use madelung_kernel_abi::Role;
use madelung_memory::Plain;

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
    /// The first phase.
    pub pairs: ClusterEntryPoints,
    /// The second phase. The sums are behind the last slot: `sums` f64 for each row.
    pub rows: EntryPoints,
}

/// One component of an array over atoms; or the elements of a map of atoms, as 32-bit integers side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The parameter.
    pub param: usize,
    /// The role of the array: its values, or a derivative.
    pub role: Role,
    /// The component.
    pub component: usize,
}

/// One atom against clusters at one image.
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

/// The input of the first phase: part of a system's runs, and copies of the clusters that they touch, numbered by
/// themselves. Arrays over clusters hold, for each cluster, each component (or sum) for all its lanes.
#[derive(Clone, Copy, Debug)]
pub struct ClusterPiece {
    /// Components of the atoms, in the element type of the launch.
    pub packed: *const u8,
    /// Sums of the columns, in that type.
    pub columns: *mut u8,
    /// Sums of the rows: for f64 the array `columns`.
    pub sums: *mut f64,
    /// Runs.
    pub runs: *const ClusterRun,
    /// Entries of all runs.
    pub entries: *const ClusterEntry,
}

/// Runs `lo..hi` of a piece.
///
/// # Safety
/// The launch's pointers are valid for the part's slots, those of the piece for its runs and entries, and no other
/// thread touches its sums.
pub type RunClusters = unsafe fn(&LaunchAbi, &ClusterPiece, usize, usize);

/// The first phase by [`crate::Isa`], with the number of lanes, which is the number of atoms of a cluster.
#[derive(Clone, Copy)]
pub struct ClusterEntryPoints {
    /// For f32 arrays.
    pub f32: [(RunClusters, usize); 3],
    /// For f64 arrays.
    pub f64: [(RunClusters, usize); 3],
}

impl std::fmt::Debug for ClusterEntryPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterEntryPoints")
    }
}

/// Instantiates the two generated functions of a cluster form: the first for every lane type, the second, which has
/// no loop over data, for lanes of one.
#[doc(hidden)]
#[macro_export]
macro_rules! cluster_entry_points {
    ($f:ident) => {
        $crate::ClusterEntryPoints {
            f32: $crate::cluster_entry_points!(@of $f, Portable32 Avx2F32 Avx512F32),
            f64: $crate::cluster_entry_points!(@of $f, Portable64 Avx2F64 Avx512F64),
        }
    };
    (@of $f:ident, $portable:ident $avx2:ident $avx512:ident) => {{
        #[cfg(target_arch = "x86_64")]
        const LANES: [usize; 3] = [
            <$crate::lanes::$portable as $crate::Lane>::N,
            <$crate::lanes::$avx2 as $crate::Lane>::N,
            <$crate::lanes::$avx512 as $crate::Lane>::N,
        ];
        #[cfg(not(target_arch = "x86_64"))]
        const LANES: [usize; 3] = [<$crate::lanes::$portable as $crate::Lane>::N; 3];
        const RUN: [($crate::RunClusters, usize); 3] = {
            let [portable, avx2, avx512] = $crate::by_isa!(
                $f: RunClusters(a: &$crate::LaunchAbi, piece: &$crate::ClusterPiece, lo: usize, hi: usize)
                on $portable $avx2 $avx512
            );
            [(portable, LANES[0]), (avx2, LANES[1]), (avx512, LANES[2])]
        };
        RUN
    }};
    ($f:ident, rows) => {
        rt::EntryPoints::Compiled { f32: [$f::<f32> as rt::Run; 3], f64: [$f::<f64> as rt::Run; 3] }
    };
}
