//! Neighbour lists for any cell: triclinic, left-handed, smaller than the cutoff, periodic along any axes, or none.
//!
//! [`neighbor_list`] finds the pairs, [`NeighborSearch`] finds them again and again, [`distances`] measures them (and the
//! op `pair_vectors` of [`registry`] does so differentiably), [`DeviceSearch`] does all of it in the memory of a GPU, where
//! [`DeviceGrid`] answers around other points, and [`brute_force`] is the slow, readable answer that the tests hold every
//! method against.

#![forbid(unsafe_code)]

mod all_pairs;
mod assemble;
pub mod brute_force;
mod candidates;
mod coordinate;
mod distances;
mod grid;
mod kernels;
mod ops;
mod search;
mod stencil;

use madelung_core::lattice;

pub use coordinate::Coordinate;
pub use distances::distances;
pub use madelung_core::backend::cuda::{
    CooArrays, DeviceCoo, DeviceFrame, DeviceOptions, DeviceSearch, NearestArrays, Periodic, QueryPairs,
    neighbor_coo,
};
pub use madelung_core::device::DeviceGrid;
pub use madelung_core::pairs::{Kind, PairList};
pub use ops::{kernels as all_kernels, registry};
pub use search::{Method, NeighborSearch, Options, neighbor_list};
