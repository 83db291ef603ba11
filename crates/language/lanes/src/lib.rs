//! Runtime of the code that `kernels!` generates: SIMD lanes, special functions, atomics, splines, and the layout of a
//! launch. Generated code knows this crate as `rt`, through
//! `madelung_core::runtime`.

mod atomics;
mod clusters;
mod generated_code;
mod kernel;
pub mod lanes;
mod launch;
mod rows;
mod splines;

pub use atomics::{SharedReal, atomic_add, atomic_max, atomic_min, load, load_int, raise, store, store_int};
pub use clusters::{ClusterEntry, ClusterForm, ClusterRun};
pub use generated_code::*;
pub use kernel::{
    Cuda, FINISH_NODES, FINISH_SCATTERED, Form, Kernel, PRELUDE, Param, Part, Records, SCATTERED_BYTES,
    SHAPES, node_bytes,
};
pub use lanes::{Elem, Isa, Lane, scalar};
pub use launch::{Code, Entry, EntryPoints, LaunchAbi, Run};
pub use madelung_abi::*;
pub use rows::*;
pub use splines::{
    MeshShape, Splines, in_planes, mesh_node, mesh_of, node_add, node_load, reaches, wave_count, wave_index,
    wave_places, wave_system,
};
