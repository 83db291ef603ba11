//! NVIDIA GPUs: the driver, the compiler and the transforms, found when they are asked for.
//!
//! Nothing here is linked: a process without a GPU loads nothing, and what is missing is an error that says what to
//! install. Streams, memory and the current context belong to the caller and are left as they were.

mod allocator;
mod arena;
mod arrays;
mod backend;
mod cache;
mod checks;
pub mod cufft;
mod device;
mod driver;
mod graph;
mod hash;
mod launch;
mod libraries;
mod memory;
mod nvrtc;
pub mod primitives;
mod program;
mod record;
mod search;
mod stream;
mod transfer;

pub use allocator::{Block, Memory};
pub use arena::{Arena, measure};
pub use backend::Cuda;
pub use checks::check;
pub use device::Device;
pub use graph::Graph;
pub use libraries::set_library_folders;
pub use nvrtc::has_compiler;
pub use program::{Function, Program};
pub use search::{
    CooArrays, DeviceCoo, DeviceFrame, DeviceOptions, DeviceSearch, NearestArrays, Periodic, QueryPairs,
    neighbor_coo,
};
pub use stream::Stream;
