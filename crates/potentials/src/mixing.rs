//! Mixing rules: depth ε and length σ of two types from those of each.

use madelung_core::Result;
use madelung_core::op::{Constraint, Op};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

madelung_core::kernels! {
    /// Square root of |x| with a derivative of 0 at 0: an atom that has no energy gets none. It is finite for every x, as
    /// kernels without their ops' conditions must be.
    #[func]
    fn root(x: Real) -> Real {
        if x == 0.0 { 0.0 } else { sqrt(abs(x)) }
    }

    /// Lorentz and Berthelot: σ = (σ₁ + σ₂)/2, ε = √(ε₁ε₂) (Lorentz, Ann. Phys. 248, 127 (1881); Berthelot, C. R. Acad. Sci. 126,
    /// 1703 (1898)).
    #[kernel(interpreted)]
    pub(crate) fn lorentz_berthelot(
        p: Entry,
        epsilon: &[Real; Type],
        sigma: &[Real; Type],
        first: &Map<Entry, Type>,
        second: &Map<Entry, Type>,
        pair_epsilon: &mut [Real; Entry],
        pair_sigma: &mut [Real; Entry],
    ) {
        let a = first.of(p);
        let b = second.of(p);
        pair_epsilon[p] = root(epsilon[a]) * root(epsilon[b]);
        pair_sigma[p] = 0.5 * (sigma[a] + sigma[b]);
    }

    /// Geometric means: σ = √(σ₁σ₂), ε = √(ε₁ε₂) (Good and Hope, J. Chem. Phys. 53, 540 (1970)).
    #[kernel(interpreted)]
    pub(crate) fn geometric(
        p: Entry,
        epsilon: &[Real; Type],
        sigma: &[Real; Type],
        first: &Map<Entry, Type>,
        second: &Map<Entry, Type>,
        pair_epsilon: &mut [Real; Entry],
        pair_sigma: &mut [Real; Entry],
    ) {
        let a = first.of(p);
        let b = second.of(p);
        pair_epsilon[p] = root(epsilon[a]) * root(epsilon[b]);
        pair_sigma[p] = root(sigma[a]) * root(sigma[b]);
    }

    /// Parts of ε and σ of atoms from those of their types, by which those of pairs are products and sums: √ε, of which ε is the product, σ/2, of which
    /// an arithmetic mean is the sum, and √σ, of which a geometric one is the product. Of the last two one is 0.
    #[kernel(interpreted)]
    fn mixing_parts(
        i: Atom,
        epsilon: &[Real; Type],
        sigma: &[Real; Type],
        is_geometric: i32,
        types: &Map<Atom, Type>,
        root_epsilon: &mut [Real; Atom],
        arithmetic: &mut [Real; Atom],
        geometric: &mut [Real; Atom],
    ) {
        let t = types.of(i);
        root_epsilon[i] = root(epsilon[t]);
        arithmetic[i] = if is_geometric == 0 { 0.5 * sigma[t] } else { 0.0 };
        geometric[i] = if is_geometric == 0 { 0.0 } else { root(sigma[t]) };
    }

    /// Waldman and Hagler: σ⁶ = (σ₁⁶ + σ₂⁶)/2, ε = √(ε₁ε₂) σ₁³σ₂³/σ⁶ (Waldman and Hagler, J. Comput. Chem. 14, 1077 (1993)).
    #[kernel(interpreted)]
    pub(crate) fn waldman_hagler(
        p: Entry,
        epsilon: &[Real; Type],
        sigma: &[Real; Type],
        first: &Map<Entry, Type>,
        second: &Map<Entry, Type>,
        pair_epsilon: &mut [Real; Entry],
        pair_sigma: &mut [Real; Entry],
    ) {
        let a = first.of(p);
        let b = second.of(p);
        let x = pow(sigma[a], 3);
        let y = pow(sigma[b], 3);
        let sixth = 0.5 * (x * x + y * y);
        pair_epsilon[p] = if sixth == 0.0 { 0.0 } else { root(epsilon[a]) * root(epsilon[b]) * x * y / sixth };
        pair_sigma[p] = if sixth == 0.0 { 0.0 } else { pow(sixth, 1.0 / 6.0) };
    }
}

/// The rules.
const RULES: [&Kernel; 3] = [&GEOMETRIC, &LORENTZ_BERTHELOT, &WALDMAN_HAGLER];

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 4] = [&GEOMETRIC, &LORENTZ_BERTHELOT, &MIXING_PARTS, &WALDMAN_HAGLER];

/// The ops of the rules, `mixed_…`: ε and σ of pairs (P,) of the types `first` and `second` (P,); and `mixing_parts`, of
/// atoms.
pub(crate) fn ops() -> Result<Vec<Arc<Op>>> {
    let op = |kernel: &'static Kernel| {
        Op::new("madelung", &format!("mixed_{}", kernel.name), 1)
            .real("epsilon", &["Type"])
            .must_be(Constraint::NotNegative)
            .real("sigma", &["Type"])
            .must_be(Constraint::NotNegative)
            .map("first", "Entry", "Type")
            .map("second", "Entry", "Type")
            .output("pair_epsilon", &["Entry"])
            .output("pair_sigma", &["Entry"])
            .step(kernel)
            .build()
    };
    let parts = Op::new("madelung", "mixing_parts", 1)
        .real("epsilon", &["Type"])
        .must_be(Constraint::NotNegative)
        .real("sigma", &["Type"])
        .must_be(Constraint::NotNegative)
        .int_scalar("is_geometric")
        .map("types", "Atom", "Type")
        .output("root_epsilon", &["Atom"])
        .output("arithmetic", &["Atom"])
        .output("geometric", &["Atom"])
        .step(&MIXING_PARTS)
        .build();
    RULES.into_iter().map(op).chain([parts]).collect()
}
