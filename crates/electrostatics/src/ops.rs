//! The ops, each declared once.

use crate::kernels as k;
use madelung_core::op::{Arg, Constraint, Op, OpBuilder, Registry};
use madelung_core::runtime::Kernel;
use madelung_core::{Error, Result};
use std::sync::{Arc, OnceLock};

/// Every kernel of this crate, for those who compile or check their text.
pub fn kernels() -> [&'static Kernel; 8] {
    [
        &k::REAL_SPACE,
        &k::LATTICE,
        &k::FRACTIONAL,
        &k::COULOMB_KERNEL,
        &k::STRUCTURE_FACTOR,
        &k::SUM_CHARGES,
        &k::RECIPROCAL_SPACE,
        &k::SUM_ENERGIES,
    ]
}

/// The ops of this crate. Each comes with per-atom energies, and, as `…_total`, with energies per system.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| declare().expect("the declarations fit their kernels, as the tests show"))
}

fn declare() -> Result<Registry> {
    let mut ops: Vec<Arc<Op>> = vec![];
    for per_system in [false, true] {
        let name = |n: &str| if per_system { format!("{n}_total") } else { n.to_string() };
        ops.push(energies(real(common(&name("ewald_real_space"))), per_system, &[Part::Real])?);
        ops.push(energies(
            reciprocal(common(&name("ewald_reciprocal_space"))),
            per_system,
            &[Part::Reciprocal],
        )?);
        let both = reciprocal(real(common(&name("ewald_summation"))));
        ops.push(energies(both, per_system, &[Part::Real, Part::Reciprocal])?);
    }
    Registry::new(ops)
}

fn common(name: &str) -> OpBuilder {
    Op::new("madelung", name, 1)
        .real("positions", &["Atom", "3"])
        .real("charges", &["Atom"])
        .real("cell", &["System", "3", "3"])
        .must_be(Constraint::Cell)
        .real("alpha", &["System"])
        .must_be(Constraint::Positive)
        .zero("strain", &["System", "3", "3"])
        .batch("atoms", "Atom", "System")
        .scalar("prefactor")
        .must_be(Constraint::Finite)
        .explain(coincident_atoms)
}

fn real(op: OpBuilder) -> OpBuilder {
    op.pairs("pairs", "Atom").must_be(Constraint::Full).scalar("cutoff").must_be(Constraint::Positive)
}

fn reciprocal(op: OpBuilder) -> OpBuilder {
    op.ints("miller", &["Wave", "3"])
        .batch("waves", "Wave", "System")
        .scratch("dual", &["System", "3", "3"])
        .scratch("wave_basis", &["System", "3", "3"])
        .scratch("volume", &["System"])
        .scratch("fraction", &["Atom", "3"])
        .scratch("green", &["Wave"])
        .scratch("real", &["Wave"])
        .scratch("imaginary", &["Wave"])
        .scratch("total_charge", &["System"])
}

enum Part {
    Real,
    Reciprocal,
}

/// The energies of the parts add up in one array.
fn energies(op: OpBuilder, per_system: bool, parts: &[Part]) -> Result<Arc<Op>> {
    let (op, into) = if per_system {
        (op.output("energy", &["System"]).scratch("atom_energy", &["Atom"]), "atom_energy")
    } else {
        (op.output("energy", &["Atom"]), "energy")
    };
    let op = parts.iter().fold(op, |op, part| match part {
        Part::Real => op.step_as(&k::REAL_SPACE, &[("energy", into)]),
        Part::Reciprocal => op
            .step(&k::LATTICE)
            .step(&k::FRACTIONAL)
            .step(&k::COULOMB_KERNEL)
            .step(&k::STRUCTURE_FACTOR)
            .step(&k::SUM_CHARGES)
            .step_as(&k::RECIPROCAL_SPACE, &[("energy", into)]),
    });
    if !per_system {
        return op.build();
    }
    // Forces that come with the energies: whatever the weights of the systems, the backward pass scales them.
    let by = ["positions", "charges", "cell", "alpha", "strain"];
    op.step(&k::SUM_ENERGIES).saved_gradients(&by).build()
}

/// Two charges on one point have no finite energy.
fn coincident_atoms(args: &[Arg<'_>]) -> Option<Error> {
    let [Arg::Array(positions), _, Arg::Array(cell), ..] = args else { return None };
    let batch = args.iter().find_map(|a| if let Arg::Batch(b) = a { Some(*b) } else { None })?;
    let pairs = args.iter().find_map(|a| if let Arg::Pairs(p) = a { Some(*p) } else { None })?;
    let (r, h) = (positions.to_f64(), cell.to_f64());
    pairs.iter().find_map(|(i, j, shift)| {
        let h = &h[9 * batch.of(i)..9 * batch.of(i) + 9];
        let component = |c: usize| {
            let image: f64 = (0..3).map(|k| f64::from(shift[k]) * h[3 * k + c]).sum();
            r[3 * j + c] - r[3 * i + c] + image
        };
        let square: f64 = (0..3).map(|c| component(c).powi(2)).sum();
        (square < 1e-60).then(|| {
            Error::argument(
                "positions",
                "no two charges on one point",
                format!("atoms {i} and {j} (image {shift:?})"),
            )
        })
    })
}
