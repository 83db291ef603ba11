//! Kernels that are made at run time, from source text of the kernel language.
//!
//! ```text
//! source ─ madelung-kernel ─► forms ─► programs ─┬─ interpreter: always there
//!                                                └─ machine code, by whoever installs it ([`PartCode::install`])
//!                                                   for the parts that run for long ([`wait_for_wanted`])
//! ```
//!
//! [`kernels`] gives ordinary kernels, with every form and CUDA text: ops, tape and backends see no difference. Their
//! results have the bits of the same kernels compiled by `kernels!`, row by row and in clusters. Equal source gives the same
//! kernels; they live as long as the process.

mod code;
mod functions;
pub mod llvm;
mod made;
mod op;
mod source;
mod wanted;

pub use code::{Machine, PartCode};
pub use functions::Function;
pub use made::{Made, kernels, kernels_with};
pub use op::Declaration;
pub use source::{Place, SourceError, lowered_text};
pub use wanted::{Wanted, stop_waiting, wait_for_wanted};
