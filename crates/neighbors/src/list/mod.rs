//! Neighbour lists on the CPU.

mod all_pairs;
mod assemble;
pub mod brute_force;
mod candidates;
mod coordinate;
mod distances;
mod grid;
mod search;
mod stencil;

pub use coordinate::Coordinate;
pub(crate) use distances::coincident_pair;
pub use distances::distances;
pub use search::{Method, NeighborSearch, Options, neighbor_list};
