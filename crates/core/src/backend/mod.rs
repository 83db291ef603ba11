//! The door to the hardware: kernels are launched here and nowhere else.

pub mod clusters;
pub mod context;
pub mod cpu;
pub mod cuda;
pub mod kernel;
pub mod launch;
pub mod pool;
pub mod primitives;
pub mod rows;
mod runtime;
pub mod shared;
mod splines;
pub mod status;

pub use context::{Context, PairLoops};
pub use launch::{Bound, Launching};
pub use primitives::Primitives;
