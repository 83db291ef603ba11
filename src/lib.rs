//! Energies, forces and every derivative of them for charged particles and their neighbourhoods.
//!
//! This crate is one page of names over the crates that do the work.

#![forbid(unsafe_code)]

pub use madelung_core::{
    Error, Result, array, backend, batch, cell, device, grid, kernels, map, mesh, op, pairs, runtime, tape,
};
pub use madelung_cpu as cpu;
pub use madelung_cuda as cuda;
pub use madelung_electrostatics as electrostatics;
pub use madelung_electrostatics::{
    Energies, EwaldParameters, EwaldSettings, Options, Reduction, System, estimate_ewald_parameters,
    ewald_real_space, ewald_reciprocal_space, ewald_summation,
};
pub use madelung_neighbors as neighbors;
pub use madelung_neighbors::neighbor_list;

/// The ops of every crate: what bridges are handed, and what the tests of all ops run through.
pub fn registries() -> Vec<&'static op::Registry> {
    vec![neighbors::registry(), electrostatics::registry()]
}

/// Units of energies.
pub mod units {
    /// e²/(4πε₀) in eV·Å, CODATA 2018: the `prefactor` for energies in eV from lengths in Å.
    pub const EV_ANGSTROM: f64 = 14.399_645_478_4;
}
