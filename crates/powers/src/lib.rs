//! Ewald sums of inverse powers of the distance, q_i q_j/rᵖ: dispersion (p = 6) and others.
//!
//! [`inverse_power`] says what the six functions of these potentials are; kernels and ops are those of
//! [`charge_sum!`](madelung_electrostatics::charge_sum). A crate of its own, as crates of kernels are long in compiling.

#![forbid(unsafe_code)]

pub mod inverse_power;

use madelung_core::op::Registry;
use madelung_core::runtime::Kernel;
use madelung_electrostatics::ChargeSum;
use std::sync::OnceLock;

madelung_electrostatics::charge_sum! {
    /// Sums of inverse powers of the distance, an exponent for each system.
    pub static INVERSE_POWER: inverse_power = crate::inverse_power[exponent];
}

/// All kernels of this crate, for callers that compile or check their source text.
pub fn all_kernels() -> Vec<&'static Kernel> {
    INVERSE_POWER.kernels().to_vec()
}

/// The ops of this crate, with energies per atom, and, as `…_total`, with energies per system.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    // One pass for values and gradients gives other last bits than one for values alone.
    let sums = ChargeSum { saves_gradients: false, ..INVERSE_POWER };
    let declare = || Registry::new(sums.ops("madelung")?);
    REGISTRY.get_or_init(|| declare().expect("the declarations fit their kernels, as the tests show"))
}
