//! The door to the hardware: kernels are launched here and nowhere else.

pub mod context;
pub mod cpu;
pub mod cuda;
pub mod launch;
pub mod pool;
pub mod primitives;
pub mod remote;
pub mod rows;
pub mod status;

pub use context::{Context, PairLoops};
pub use launch::{Bound, LaunchArgs};
pub use primitives::Primitives;
