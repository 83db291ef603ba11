//! The kernel language: from a formula over one row to its value, its derivatives and its CUDA text.
//!
//! ```text
//! source ─ lower ─► SSA ─┬─────────────────────────► value
//!                        ├─ tangent, tangent² ─────► derivatives along directions
//!                        └─ reverse ─┬─────────────► value and gradient
//!                                    └─ tangent ───► Hessian-vector products
//!          each: specialise ─ flatten ─ mirror ─ join, sums, factor, guard ─► parts ─┬─► programs ─► Rust (scalar and lanes)
//!                                                                                    └─────────────► CUDA
//! ```
//!
//! Kernels without adjoint have one part, their body as it is written ([`ir::Body::in_order`]).
//!
//! Nothing here knows a backend; the form between the passes ([`ir`]) knows no syntax, so that another front end can
//! build it at run time.

pub mod cluster;
pub mod derivative;
pub mod describe;
mod factor;
pub mod flatten;
pub mod forms;
mod guard;
pub mod ir;
mod join;
pub mod layout;
pub mod lower;
mod merge;
pub mod mirror;
pub mod print;
pub mod program;
pub mod reverse;
pub mod rewrite;
mod simplify;
mod sums;
