//! Ops: what a framework sees, and the family of derivatives of each.
//!
//! An op is declared once: its arguments, outputs and attributes, and the kernels and linear maps that compute it, in order. From
//! that follow its value `F₀(x)`, its directional derivatives `F₁(x; u)` and `F₂(x; u₁, u₂)`, its gradient
//! `G₀(x; w) = ∇ₓ⟨w, F₀⟩` and its Hessian-vector product `G₁(x; w; u) = ∇ₓ⟨w, F₁(·; u)⟩`. The family is closed:
//! differentiating a member by x adds a direction, transposing F in a direction gives G, transposing G in w gives F.

mod arrays;
mod bind;
mod builder;
mod call;
mod declare;
mod ends;
mod evaluate;
mod far;
mod grid;
mod linear;
mod lists;
mod plan;
mod quadratic;
mod registry;
mod request;
mod residuals;
mod size;
mod sorted;
mod storage;
mod validate;

pub use builder::OpBuilder;
pub use declare::{
    ArgKind, ArgSpec, Constraint, DeclaredStructure, Explain, Op, OutputSpec, Search, Step, Work,
};
pub use linear::Linear;
pub use registry::Registry;
pub use request::{Arg, Cotangent, Direction, Evaluated, Request};
pub use size::Size;
pub use sorted::MakeGrid;
