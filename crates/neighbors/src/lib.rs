//! Neighbour lists for any cell: triclinic, left-handed, smaller than the cutoff, periodic along any axes, or none.
//!
//! [`neighbor_list`] finds the pairs, [`find_neighbors`] in the form that is fastest to use, [`NeighborSearch`] finds them again and again, [`distances`] measures them (and the
//! op `pair_vectors` of [`registry`] does so differentiably), [`DeviceSearch`] does all of it in the memory of a GPU, where
//! [`DeviceGrid`] answers around other points, and [`brute_force`] is the slow, readable answer that the tests hold every
//! method against.

pub mod aggregate;
mod anywhere;
mod atoms;
mod boxes;
mod closest;
mod coo;
pub mod device;
mod exclusions;
pub mod grid;
mod kept;
mod kernels;
mod lattice;
mod list;
mod near;
mod ops;
mod renewed;
mod searches;
mod segments;
mod verlet;
mod within;

/// The crate that [`aggregation!`] refers to in other crates.
#[doc(hidden)]
pub use madelung_core as __core;

pub use coo::CooArrays;
pub use device::{
    DeviceCoo, DeviceFrame, DeviceGrid, DeviceOptions, DeviceSearch, GridWithCapacity, NearestArrays,
    Periodic, QueryPairs, neighbor_coo,
};
pub use exclusions::{ExcludedPairs, excluded_pairs, pair_factors};
pub use grid::{HashGrid, Nearest};
pub use kept::KeptGrid;
#[doc(hidden)]
pub use kernels::ENTRY_FACTORS;
pub use list::{
    Coordinate, Cutoff, Form, ListArrays, Method, NeighborSearch, Options, brute_force, distances,
    find_neighbors, neighbor_list,
};
pub use madelung_core::structure::pairs::{Kind, Neighbors, PairList};
pub use ops::{coincidence, coincident_atoms, kernels as all_kernels, registry};
pub use searches::searches;
