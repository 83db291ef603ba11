//! Ewald sums: energies, forces, virials and charge gradients of periodic point charges, and every derivative of them.
//!
//! The formulas stand once, in `kernels`; [`registry`] lists the ops made of them; [`ewald_summation`] and its two
//! parts are the eager front ends, which choose parameters, build lists and check their arguments.
//!
//! Units: lengths in any L, charges in e, energies in e²/L times `prefactor`. Signs: forces are −∂E/∂r, the virial is
//! −∂E/∂ε for r → r(1+ε), cell → cell(1+ε), charge gradients are ∂E/∂q.

#![forbid(unsafe_code)]

mod ewald;
pub mod functions;
mod kernels;
pub mod kvectors;
mod ops;
mod system;
pub mod tuning;

pub use ewald::{
    Energies, EwaldSettings, Options, Reduction, ewald_real_space, ewald_reciprocal_space, ewald_summation,
};
pub use ops::{kernels as all_kernels, registry};
pub use system::System;
pub use tuning::{EwaldParameters, estimate_ewald_parameters};
