//! Short-range pair potentials between atoms of types, and bonded terms: energies, forces, virials, and every derivative of
//! them, those by the parameters included.
//!
//! A potential is its formula, a `#[func]` of the distance and its parameters ([`formula`]); [`pair_potential!`] makes the
//! kernel and the ops of it. [`registry`] lists the ops.
//!
//! Units: lengths in any L, energies in any E; parameters in powers of these. Signs: forces are −∂E/∂r, the virial is −∂E/∂ε
//! for r → r(1+ε), cell → cell(1+ε), gradients of parameters are ∂E/∂p.

#![forbid(unsafe_code)]

pub mod bonded;
pub mod formula;
mod mixing;
mod potential;
mod tail;
mod terms;

pub use potential::{PairPotential, coincident};
pub use terms::Shape;

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
    /// Terms that ends of energies take off: [`formula::end_terms`], with the onset of a force switch as `taper`.
    pub static END_TERMS: end_terms =
        within crate::formula::end_terms[value, slope, curvature] of value, slope, curvature;
}

pair_potential! {
    /// Lennard-Jones potential: [`formula::lennard_jones`].
    pub static LENNARD_JONES: lennard_jones = crate::formula::lennard_jones[epsilon, sigma] of epsilon;
}

pair_potential! {
    /// Lennard-Jones potential of atoms with an ε and a σ each, in the parts of the op `mixing_parts`, of which pairs have
    /// products and sums: [`formula::mixed_lennard_jones`].
    pub static LENNARD_JONES_OF_ATOMS: lennard_jones_of_atoms =
        atoms crate::formula::mixed_lennard_jones[epsilon *, arithmetic +, geometric *] of epsilon;
}

pair_potential! {
    /// Its term r⁻⁶ alone: [`formula::mixed_dispersion`].
    pub static DISPERSION_OF_ATOMS: dispersion_of_atoms(interpreted) =
        atoms crate::formula::mixed_dispersion[epsilon *, arithmetic +, geometric *] of epsilon;
}

pair_potential! {
    /// Mie potential: [`formula::mie`].
    pub static MIE: mie =
        crate::formula::mie[epsilon, sigma: Positive, repulsive: Positive, attractive: Positive] of epsilon;
}

pair_potential! {
    /// Morse potential: [`formula::morse`].
    pub static MORSE: morse = crate::formula::morse[depth, steepness, length] of depth;
}

pair_potential! {
    /// Soft-core potential: [`formula::soft_core`].
    pub static SOFT_CORE: soft_core(interpreted) =
        crate::formula::soft_core[epsilon, sigma: Positive, coupling: NotNegative, softness: NotNegative] of epsilon;
}

pair_potential! {
    /// Tang–Toennies potential: [`formula::tang_toennies`].
    pub static TANG_TOENNIES: tang_toennies(interpreted) =
        crate::formula::tang_toennies[amplitude, steepness, c6, c8, c10] of amplitude, c6, c8, c10;
}

pair_potential! {
    /// Yukawa potential: [`formula::yukawa`].
    pub static YUKAWA: yukawa(interpreted) = crate::formula::yukawa[amplitude, kappa] of amplitude;
}

pair_potential! {
    /// Ziegler–Biersack–Littmark potential: [`formula::zbl`].
    pub static ZBL: zbl(interpreted) = crate::formula::zbl[amplitude, length: Positive] of amplitude;
}

const POTENTIALS: [&PairPotential; 12] = [
    &BORN_MAYER,
    &BUCKINGHAM,
    &DISPERSION_OF_ATOMS,
    &END_TERMS,
    &LENNARD_JONES,
    &LENNARD_JONES_OF_ATOMS,
    &MIE,
    &MORSE,
    &SOFT_CORE,
    &TANG_TOENNIES,
    &YUKAWA,
    &ZBL,
];

/// All kernels of this crate, for callers that compile or check their source text.
pub fn all_kernels() -> Vec<&'static Kernel> {
    let of_pairs =
        POTENTIALS.iter().flat_map(|of| [Some(of.kernel), Some(of.exclusions), of.at].into_iter().flatten());
    let of_terms = bonded::BONDED.iter().map(|term| term.kernel);
    of_pairs.chain(mixing::KERNELS).chain(tail::KERNELS).chain(of_terms).chain(terms::KERNELS).collect()
}

/// The ops of this crate, with energies per atom, and, as `…_total`, with energies per system; as `…_exclusions` those of
/// pairs that are left out of a list, with factors; as `…_at` those of two types at distances; bonded terms as potentials;
/// `tail`; mixing rules, `mixed_…` and `mixing_parts`; and `bonded_atoms`.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    let declare = || {
        let mut ops = mixing::ops()?;
        for potential in POTENTIALS {
            ops.extend(potential.ops("madelung")?);
        }
        for term in bonded::BONDED {
            ops.extend(term.ops()?);
        }
        ops.extend(tail::ops()?);
        ops.push(terms::declare()?);
        Registry::new(ops)
    };
    REGISTRY.get_or_init(|| declare().expect("the declarations fit their kernels, as the tests show"))
}
