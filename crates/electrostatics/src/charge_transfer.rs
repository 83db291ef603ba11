//! Electronegativities by which charge goes only between atoms whose orbitals overlap: QTPIE.

use crate::declare::{charged_with, energies, summed};
use madelung_core::Result;
use madelung_core::op::{Constraint, Op};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

madelung_core::kernels! {
    /// Overlap of two s orbitals exp(−αr²), each of norm 1: (4αβ/(α+β)²)^(3/4) exp(−αβ/(α+β) r²).
    #[func]
    fn overlap(r2: Real, a: Real, b: Real) -> Real {
        // Shares of the sum: products of exponents would leave the numbers that there are.
        let x = a / (a + b);
        let y = b / (a + b);
        pow(4.0 * x * y, 0.75) * exp(-a * y * r2)
    }

    /// Eᵢ = qᵢ Σⱼ Sᵢⱼ [χᵢ − χⱼ + (rⱼ − rᵢ)·F]/Σⱼ Sᵢⱼ over atoms and images within r < r_c, with Sᵢᵢ = 1, of overlaps S and
    /// the field F of a system.
    #[kernel(interpreted)]
    fn charge_transfer(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        cell: &[Mat3; System],
        electronegativity: &[Real; Atom],
        exponents: &[Real; Atom],
        field: &[Vec3; System],
        strain: &[Zero<Mat3>; System],
        prefactor: Real,
        cutoff: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let mut all = 1.0;
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let d = d + d * strain[b];
            let r2 = dot(d, d);
            let s = if r2 < cutoff * cutoff { overlap(r2, exponents[i], exponents[j]) } else { 0.0 };
            all += s;
            e += s * (electronegativity[i] - electronegativity[j] + dot(d, field[b]));
        }
        energy[i] = prefactor * charges[i] * e / all;
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 1] = [&CHARGE_TRANSFER];

/// The ops `charge_transfer`, with energies per atom, and `charge_transfer_total`, per system (Chen and Martínez, Chem. Phys.
/// Lett. 463, 288 (2008)).
pub(crate) fn ops() -> Result<Vec<Arc<Op>>> {
    let op = |per_system: bool| {
        let op = charged_with("charge_transfer", per_system, Constraint::OpenCell, |op| {
            op.real("electronegativity", &["Atom"])
                .must_be(Constraint::Finite)
                .real("exponents", &["Atom"])
                .must_be(Constraint::Positive)
                .real("field", &["System", "3"])
                .must_be(Constraint::Finite)
        });
        let op = op
            .pairs("pairs", "Atom")
            .must_be(Constraint::Full)
            .scalar("cutoff")
            .must_be(Constraint::Positive)
            .lattice("positions", "cell", "atoms");
        let (op, into) = energies(op, per_system);
        summed(op.step_as(&CHARGE_TRANSFER, &[("energy", into)]), per_system, &[])
    };
    [false, true].into_iter().map(op).collect()
}
