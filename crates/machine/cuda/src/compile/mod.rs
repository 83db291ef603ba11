//! Programs: text to machine code by NVRTC, kept in memory and in a folder.

pub(crate) mod cache;
pub(crate) mod hash;
pub(crate) mod nvrtc;
pub(crate) mod program;

pub use nvrtc::has_compiler;
pub use program::{Function, Program};
