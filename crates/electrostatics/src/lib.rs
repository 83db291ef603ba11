//! Ewald sums: energies, forces, virials and charge gradients of periodic point charges, or of a law 1/rᵖ, and every
//! derivative of them.
//!
//! The formulas of the pair potentials are in [`potential`] and [`inverse_power`] (dispersion among them), those of the sums
//! in `kernels`; [`mesh`] chooses the mesh of particle mesh Ewald sums. [`registry`] lists the ops;
//! [`charge_sum!`] makes the ops of another potential. [`ewald_summation`] and its two parts are the eager front ends,
//! which choose parameters, build lists and check their arguments.
//!
//! Units: lengths in any L, charges in e, energies in e²/L times `prefactor`. Signs: forces are −∂E/∂r, the virial is
//! −∂E/∂ε for r → r(1+ε), cell → cell(1+ε), charge gradients are ∂E/∂q.

#![forbid(unsafe_code)]

mod boundaries;
mod charge_transfer;
mod declare;
pub mod direct;
pub mod domains;
mod energies;
pub mod equilibration;
mod field;
mod gaussians;
pub mod inverse_power;
mod kernels;
pub mod kvectors;
mod latent;
pub mod mesh;
mod open;
mod ops;
mod parameters;
pub mod plan;
pub mod potential;
pub mod prepared;
mod run;
mod source;
mod sums;
mod system;
pub mod tuning;
mod wires;

pub use energies::{Energies, Options, Reduction};
pub use equilibration::{Equilibrated, QeqSettings, qeq};
pub use mesh::{PmeParameters, PrescribedMesh, estimate_pme_parameters};
pub use ops::{ChargeSum, INVERSE_POWER, all_kernels, registry};
pub use parameters::{DEFAULT_ACCURACY, NARROW_ACCURACY};
pub use sums::{
    EwaldSettings, LatentSettings, PmeSettings, coulomb, dsf, ewald_real_space, ewald_reciprocal_space,
    ewald_summation, latent_ewald, particle_mesh_ewald, pme_reciprocal_space,
};
pub use system::System;
pub use tuning::{EwaldParameters, Prescribed, estimate_ewald_parameters};

/// The crate that [`charge_sum!`] refers to in other crates.
#[doc(hidden)]
pub use madelung_core as __core;
