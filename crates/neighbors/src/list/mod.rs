//! Neighbour lists on the CPU.

mod all_pairs;
mod arrays;
mod assemble;
pub mod brute_force;
mod candidates;
mod clusters;
mod coordinate;
mod distances;
mod grid;
mod options;
mod search;
mod stencil;

pub use arrays::ListArrays;
pub use coordinate::Coordinate;
pub(crate) use distances::coincident_pair;
pub use distances::distances;
pub use options::{Cutoff, Form, Method, Options};
pub use search::{NeighborSearch, find_neighbors, neighbor_list};
