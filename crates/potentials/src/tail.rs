//! The mean energy of what pairs lack: beyond a cutoff, and where an end takes something off.

use madelung_core::Result;
use madelung_core::op::{Constraint, Linear, Op};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

madelung_core::kernels! {
    use crate::formula::end_factor;
    use crate::formula::end_terms;

    /// Shapes of ends at distances: the factor of an energy, and what a slope and a curvature of 1 at the cutoff take off it.
    #[kernel(interpreted)]
    fn end_shapes(
        p: Entry,
        distance: &[Real; Entry],
        cutoff: Real,
        taper: Real,
        switch: Real,
        bend: Real,
        factor: &mut [Real; Entry],
        of_slope: &mut [Real; Entry],
        of_curvature: &mut [Real; Entry],
    ) {
        factor[p] = end_factor(distance[p], cutoff, taper, switch);
        of_slope[p] = end_terms(distance[p], cutoff, bend, 0.0, 1.0, 0.0);
        of_curvature[p] = end_terms(distance[p], cutoff, bend, 0.0, 0.0, 1.0);
    }

    /// Numbers of atoms of each type, from 0 on, in each system.
    #[kernel(interpreted)]
    fn type_counts(
        i: Atom,
        kind: &[i32; Atom],
        number: &[Real; Type],
        atoms: &Batch<Atom, System>,
        counts: &mut [[Real; Type]; System],
    ) {
        for t in Type {
            counts[atoms.of(i)][t] += if abs(kind[i] - number[t]) < 0.5 { 1.0 } else { 0.0 };
        }
    }

    /// Eᵢ = (2π/V) Σₜ Nₜ Jᵢₜ, half the energy of an atom with Nₜ/V atoms of each type t in a unit of volume around it, where
    /// J = ∫ r² v(r) dr is that of two types.
    #[kernel(interpreted)]
    fn tail(
        i: Atom,
        cell: &[Mat3; System],
        counts: &[[Real; Type]; System],
        integral: &[[Real; Type]; Kind],
        strain: &[Zero<Mat3>; System],
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        types: &Map<Atom, Kind>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let h = cell[b] + cell[b] * strain[b];
        let volume = abs(dot(row(h, 0), cross(row(h, 1), row(h, 2))));
        let own = types.of(i);
        let mut e = 0.0;
        for t in Type {
            e += counts[b][t] * integral[own][t];
        }
        energy[i] = 2.0 * PI * prefactor * e / volume;
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 3] = [&END_SHAPES, &TAIL, &TYPE_COUNTS];

/// The ops `tail`, with energies per atom, and `tail_total`, per system, from integrals (K, K) over types 0 to K − 1, which
/// `number` lists, and the type of each atom, twice; and `end_shapes`, which such integrals take.
pub(crate) fn ops() -> Result<Vec<Arc<Op>>> {
    let op = |total: &str| {
        let op = Op::new("madelung", &format!("tail{total}"), 1)
            .real("positions", &["Atom", "3"])
            .force()
            .real("cell", &["System", "3", "3"])
            .geometry()
            .must_be(Constraint::Cell)
            .real("integral", &["Kind", "Type"])
            .zero("strain", &["System", "3", "3"])
            .force()
            .batch("atoms", "Atom", "System")
            .scalar("prefactor")
            .must_be(Constraint::Finite)
            .map("types", "Atom", "Kind")
            .ints("kind", &["Atom"])
            .real("number", &["Type"])
            .scratch("counts", &["System", "Type"])
            .step(&TYPE_COUNTS);
        if total.is_empty() {
            return op.output("energy", &["Atom"]).step(&TAIL).build();
        }
        op.output("energy", &["System"])
            .scratch("atom_energy", &["Atom"])
            .step_as(&TAIL, &[("energy", "atom_energy")])
            .linear(Linear::SegmentedSum, &["atoms", "atom_energy", "energy"])
            .saved_gradients(&["positions", "cell", "strain"])
            .build()
    };
    let shapes = Op::new("madelung", "end_shapes", 1).real("distance", &["Entry"]);
    let shapes = ["cutoff", "taper", "switch", "bend"].iter().fold(shapes, |op, name| op.scalar(name));
    let shapes =
        ["factor", "of_slope", "of_curvature"].iter().fold(shapes, |op, name| op.output(name, &["Entry"]));
    ["", "_total"].into_iter().map(op).chain([shapes.step(&END_SHAPES).build()]).collect()
}
