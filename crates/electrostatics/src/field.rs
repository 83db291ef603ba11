//! Charges in a uniform external field.

use crate::declare::{charged_with, energies, summed};
use madelung_core::Result;
use madelung_core::op::{Constraint, Op};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

madelung_core::kernels! {
    /// Eᵢ = −qᵢ rᵢ·F of the field F of a system.
    #[kernel(interpreted)]
    fn uniform_field(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        field: &[Vec3; System],
        strain: &[Zero<Mat3>; System],
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let r = positions[i] + positions[i] * strain[b];
        energy[i] = -prefactor * charges[i] * dot(r, field[b]);
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 1] = [&UNIFORM_FIELD];

/// The ops `uniform_field`, with energies per atom, and `uniform_field_total`, per system; they do not depend on cells.
pub(crate) fn ops() -> Result<Vec<Arc<Op>>> {
    let op = |per_system: bool| {
        let op = charged_with("uniform_field", per_system, Constraint::OpenCell, |op| {
            op.real("field", &["System", "3"]).must_be(Constraint::Finite)
        });
        let (op, into) = energies(op, per_system);
        let op = op.step_as(&UNIFORM_FIELD, &[("energy", into)]);
        summed(op, per_system, &["positions", "charges", "cell", "field", "strain"])
    };
    [false, true].into_iter().map(op).collect()
}
