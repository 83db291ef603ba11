//! Structured arguments: integers that say how the rows of arrays belong together, in the memory of the host or of a
//! device.
//!
//! A kind of structured argument is one file here: how it is made from arrays and from the tensors of a framework, its
//! sizes, its conditions, and the integers that kernels read. Everybody else sees a [`Structure`].
//!
//! On the host the integers of a structure are checked when it is made. Those in the memory of a device cannot be read
//! without waiting for it: each call checks them there, ahead of its kernels, which do nothing where a check fails. A
//! caller who knows that they hold says so once (`assume_checked`).

mod batch;
mod grid;
mod integers;
mod map;
mod mesh;
pub mod pairs;

pub use batch::{Batch, DeviceBatch};
pub use grid::{GridSearch, PointGrid};
pub use integers::Integers;
pub use map::{DeviceMap, Map};
pub use mesh::{MAX_SPLINE_ORDER, Mesh, Window};
pub use pairs::{Clusters, DevicePairs, Neighbors, PairList};

use crate::Result;
use crate::array::{Array, Place, View};
use crate::backend::Check;
use crate::runtime::{SlotArray, StructureKind};
use std::fmt::Debug;

/// Types of this crate, whose integers are as generated code relies on them.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Structured argument of a call. Generated code indexes by its integers, so the types that implement it are those of this
/// crate: their constructors check, or leave the check to each call.
pub trait Structure: sealed::Sealed + Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> StructureKind;

    /// Memory that holds the integers; `None`: a few numbers that go with each launch, wherever it runs.
    fn place(&self) -> Option<Place> {
        Some(Place::Host)
    }

    /// Sizes of the dimensions, in the order that [`StructureKind`] names them; `None`: beyond the last.
    fn sizes(&self) -> [Option<usize>; 3];

    /// Integers that kernels read through a slot, or `None`, where the structure has none of them.
    ///
    /// # Errors
    /// `neighbor_list`, where it has more entries than its transpose can number.
    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>>;

    /// Checks of a call. `batches`: for a pair list all pairs of batches over its rows and its columns that have their
    /// systems in common. Checks for which a backend reads the memory of a device are results.
    ///
    /// # Errors
    /// `neighbor_list`, where a pair of the host's joins two systems.
    fn check<'s>(&'s self, batches: &[[&'s dyn Structure; 2]]) -> Result<Vec<Check<'s>>> {
        _ = batches;
        Ok(vec![])
    }

    /// The list after atom i was moved by −n\[i\] lattice vectors: each image S becomes S + nⱼ − nᵢ; None for what is no
    /// list of the host's.
    fn moved(&self, n: &[[i32; 3]]) -> Option<Box<dyn Structure + '_>> {
        _ = n;
        None
    }

    /// Full, half or directed, for a pair list.
    fn list_kind(&self) -> Option<pairs::Kind> {
        None
    }

    /// The number of own atoms, for the list of a [domain](PairList::of_domain).
    fn own_rows(&self) -> Option<usize> {
        None
    }

    /// The batch, in the memory of the host.
    fn as_batch(&self) -> Option<&Batch<'_>> {
        None
    }

    /// The batch, in the memory of a device.
    fn as_device_batch(&self) -> Option<&DeviceBatch<'_>> {
        None
    }

    /// The pair list, in the memory of the host.
    fn as_pairs(&self) -> Option<&PairList<'_>> {
        None
    }

    /// Pairs that are searched for while kernels run.
    fn as_searched(&self) -> Option<&pairs::SearchedPairs> {
        None
    }

    /// The pair list, if it came in clusters, in the memory of the host.
    fn as_clusters(&self) -> Option<&Clusters<'_>> {
        None
    }

    /// The meshes.
    fn as_mesh(&self) -> Option<&Mesh> {
        None
    }

    /// Arrays that the structure owns, for the allocator that they came from.
    fn into_arrays(self: Box<Self>) -> Vec<Array> {
        vec![]
    }
}

impl dyn Structure + '_ {
    /// The structure in words, for errors.
    pub fn describe(&self) -> String {
        match self.list_kind() {
            Some(kind) => format!("a pair list ({kind:?})").to_lowercase(),
            None => noun(self.kind()).into(),
        }
    }
}

/// A kind of structure in words, for errors.
pub(crate) fn noun(kind: StructureKind) -> &'static str {
    match kind {
        StructureKind::Batch => "a batch",
        StructureKind::Pairs => "a pair list",
        StructureKind::Map => "a map",
        StructureKind::Mesh => "a mesh",
    }
}
