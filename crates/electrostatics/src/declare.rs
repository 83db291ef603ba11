//! Common parts of declarations of ops of energies.

use madelung_core::op::{Arg, Constraint, Linear, Op, OpBuilder};
use madelung_core::{Error, Result};
use madelung_neighbors::{coincident_atoms, excluded_pairs, pair_factors};
use std::sync::Arc;

/// Charges in their cells, with parameters of each system.
pub(crate) fn charged(name: &str, per_system: bool, parameters: &[&str]) -> OpBuilder {
    charged_in(name, per_system, parameters, Constraint::Cell)
}

/// Declaration of charges in cells that satisfy a condition.
pub(crate) fn charged_in(name: &str, per_system: bool, parameters: &[&str], cells: Constraint) -> OpBuilder {
    charged_with(name, per_system, cells, |op| {
        parameters.iter().fold(op, |op, name| op.real(name, &["System"]).must_be(Constraint::Positive))
    })
}

/// Declaration of charges in cells that satisfy a condition, with real arguments that `reals` adds.
pub(crate) fn charged_with(
    name: &str,
    per_system: bool,
    cells: Constraint,
    reals: impl FnOnce(OpBuilder) -> OpBuilder,
) -> OpBuilder {
    let total = if per_system { "_total" } else { "" };
    let op = Op::new("madelung", &format!("{name}{total}"), 1)
        .real("positions", &["Atom", "3"])
        .force()
        .real("charges", &["Atom"])
        .real("cell", &["System", "3", "3"])
        .geometry()
        .must_be(cells);
    reals(op)
        .zero("strain", &["System", "3", "3"])
        .force()
        .batch("atoms", "Atom", "System")
        .scalar("prefactor")
        .must_be(Constraint::Finite)
}

/// Arguments of pairs that are left out, or scaled, and their factors for each entry of the list.
pub(crate) fn exclusions(op: OpBuilder) -> OpBuilder {
    excluded_pairs(op).scalar("cutoff").must_be(Constraint::Positive).scalar("real").scalar("reciprocal")
}

/// An op's energies, and the array that its kernels add those of atoms to.
pub(crate) fn energies(op: OpBuilder, per_system: bool) -> (OpBuilder, &'static str) {
    if per_system {
        (op.output("energy", &["System"]).scratch("atom_energy", &["Atom"]), "atom_energy")
    } else {
        (op.output("energy", &["Atom"]), "energy")
    }
}

/// The op, its energies added up where they are those of systems. Gradients by some arguments are saved with these; the
/// backward pass scales them by the weights of the systems.
pub(crate) fn summed(op: OpBuilder, per_system: bool, saved: &[&str]) -> Result<Arc<Op>> {
    if !per_system {
        return op.build();
    }
    op.linear(Linear::SegmentedSum, &["atoms", "atom_energy", "energy"]).saved_gradients(saved).build()
}

/// The error of two charges on one point in any list of a call whose charges are the second argument, of the atoms that
/// count. Pairs that are left out, by the factors behind their list, and what has no charge may lie anywhere.
pub(crate) fn coincident_charges(args: &[Arg<'_>], counts: impl Fn(usize) -> bool) -> Option<Error> {
    let [_, Arg::Array(charges), ..] = args else { return None };
    let q = charges.to_f64().ok()?;
    (0..args.len()).find_map(|n| {
        let pairs = args[n].structure()?.as_pairs()?;
        let factor = pair_factors(&args[n + 1..]);
        coincident_atoms(args, pairs, |p, i, j| counts(i) && q[i] * q[j] * factor(p) != 0.0)
    })
}
