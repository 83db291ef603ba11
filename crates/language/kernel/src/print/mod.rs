//! Printers: the program of a part as Rust (one text for scalars and lanes), and the part itself as CUDA.

pub mod cuda;
pub mod divide;
pub(crate) mod nest;
pub mod program;
pub mod records;
