//! Printers of kernels that are not differentiated.

pub mod cuda;
pub mod rust;
