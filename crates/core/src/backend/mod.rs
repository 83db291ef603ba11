//! The door to the hardware: kernels are launched here and nowhere else.

pub mod context;
pub mod cpu;
pub mod kernel;
pub mod launch;
pub mod pool;

pub use context::Context;
pub use launch::{Bound, Launching};
