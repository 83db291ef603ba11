//! Printers: a part of a form as Rust (one text for scalars and lanes) and as CUDA.

pub mod cluster;
pub mod cuda;
pub mod divide;
pub mod imperative;
pub mod layout;
pub mod needed;
pub(crate) mod nest;
pub mod records;
pub mod rust;
