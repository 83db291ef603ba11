//! NVIDIA GPUs: the driver, the compiler and the transforms, loaded at first use.
//!
//! Nothing here is linked: a process without a GPU loads nothing, and a missing library is an error with the package to
//! install. Streams, memory and the current context belong to the caller and are left as they were.

mod backend;
mod compile;
pub mod cufft;
mod driver;
mod launch;
pub mod memory;
pub mod primitives;
pub mod validation;

pub use backend::{Cuda, measure, programs};
pub use compile::{Function, Program, has_compiler};
pub use driver::{Capture, Device, Graph, Stream, set_library_folders};
pub use memory::{Arena, Block, Memory};
pub use validation::check;
