//! Arrays, cells, pair lists, ops, the tape and the backends of Madelung.

pub mod array;
pub mod backend;
pub mod cell;
mod error;
pub mod op;
pub mod stop;
pub mod structure;
pub mod tape;

pub use error::{Error, Result};
#[doc(hidden)]
pub use madelung_macros::kernels as __kernels;

/// Declares kernels: functions over one row, from which value, derivatives and CUDA text are made. See the chapter
/// on the kernel language in `docs/kernel-language.md`.
#[macro_export]
macro_rules! kernels {
    ($($items:tt)*) => { $crate::__kernels! { ($crate) $($items)* } };
}

/// Runtime of the code that `kernels!` generates.
pub mod runtime {
    pub use madelung_interpreter::Interpreted;
    pub use madelung_lanes::*;
}
