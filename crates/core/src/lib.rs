//! Arrays, cells, pair lists, ops, the tape and the backends of Madelung.

pub mod array;
pub mod backend;
pub mod batch;
pub mod cell;
pub mod clusters;
pub mod device;
mod error;
pub mod hash_grid;
mod integers;
pub mod lattice;
pub mod map;
pub mod mesh;
pub mod op;
pub mod pairs;
pub mod tape;

pub use error::{Error, Result};
pub use madelung_kernel_runtime as runtime;
#[doc(hidden)]
pub use madelung_kernel_macros::kernels as __kernels;

/// Declares kernels: functions over one row, from which value, derivatives and CUDA text are made. See the chapter
/// on the kernel language in `docs/kernel-language.md`.
#[macro_export]
macro_rules! kernels {
    ($($items:tt)*) => { $crate::__kernels! { ($crate) $($items)* } };
}
