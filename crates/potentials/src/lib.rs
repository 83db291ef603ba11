//! Short-range pair potentials between atoms of types: energies, forces, virials, and every derivative of them, those by
//! the parameters included.
//!
//! A potential is its formula, a `#[func]` of the distance and its parameters ([`formula`]); [`pair_potential!`] makes the
//! kernel and the ops of it. [`registry`] lists the ops.
//!
//! Units: lengths in any L, energies in any E; parameters in powers of these. Signs: forces are −∂E/∂r, the virial is −∂E/∂ε
//! for r → r(1+ε), cell → cell(1+ε), gradients of parameters are ∂E/∂p.

#![forbid(unsafe_code)]

pub mod formula;
mod potential;

pub use potential::{PairPotential, coincident};

use madelung_core::op::Registry;
use madelung_core::runtime::Kernel;
use std::sync::OnceLock;

/// The crate that [`pair_potential!`] refers to in other crates.
#[doc(hidden)]
pub use madelung_core as __core;

pair_potential! {
    /// Born–Mayer–Huggins potential: [`formula::born_mayer`].
    pub static BORN_MAYER: born_mayer =
        crate::formula::born_mayer[amplitude, steepness, sigma, c6, c8] of amplitude, c6, c8;
}

pair_potential! {
    /// Buckingham potential: [`formula::buckingham`].
    pub static BUCKINGHAM: buckingham = crate::formula::buckingham[amplitude, rho: Positive, c6] of amplitude, c6;
}

pair_potential! {
    /// Lennard-Jones potential: [`formula::lennard_jones`].
    pub static LENNARD_JONES: lennard_jones = crate::formula::lennard_jones[epsilon, sigma] of epsilon;
}

const POTENTIALS: [&PairPotential; 3] = [&BORN_MAYER, &BUCKINGHAM, &LENNARD_JONES];

/// All kernels of this crate, for callers that compile or check their source text.
pub fn all_kernels() -> [&'static Kernel; 3] {
    POTENTIALS.map(|potential| potential.kernel)
}

/// The ops of this crate, with energies per atom, and, as `…_total`, with energies per system.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let ops = POTENTIALS
            .iter()
            .flat_map(|p| p.ops("madelung").expect("the declarations fit, as the tests show"));
        Registry::new(ops).expect("names of ops differ")
    })
}
