//! The declarations of the ops.

use crate::declare::{coincident_charges, energies, exclusions, summed};
use crate::kernels as k;
use crate::latent::{self, LATENT};
use crate::{boundaries, charge_transfer, direct, field, gaussians, open, wires};
use madelung_core::op::{Arg, Constraint, Linear, Op, OpBuilder, Registry};
use madelung_core::runtime::Kernel;
use madelung_core::{Error, Result};
use madelung_neighbors::ENTRY_FACTORS;
use std::sync::{Arc, OnceLock};

crate::charge_sum! {
    /// Ewald sums of point charges.
    pub(crate) static COULOMB: ewald = crate::potential::coulomb[];
}

crate::charge_sum! {
    /// Sums of inverse powers of the distance, an exponent for each system.
    pub static INVERSE_POWER: inverse_power = crate::inverse_power[exponent];
}

/// All kernels of this crate, for callers that compile or check their source text.
pub fn all_kernels() -> Vec<&'static Kernel> {
    let mut all =
        vec![&k::LATTICE, &k::FRACTIONAL, &k::STRUCTURE_FACTOR, &k::SUM_CHARGES, &k::SPREAD, &k::GATHER];
    all.extend(COULOMB.kernels());
    all.extend(INVERSE_POWER.kernels());
    all.extend([LATENT.real_space, LATENT.green_function, LATENT.reciprocal_space]);
    all.extend(boundaries::KERNELS);
    all.extend(charge_transfer::KERNELS);
    all.extend(field::KERNELS);
    all.extend(gaussians::KERNELS);
    all.extend(wires::KERNELS);
    all.extend(open::KERNELS);
    all.extend(direct::KERNELS);
    all
}

/// The ops of this crate, with energies per atom, and, as `…_total`, with energies per system.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    // One pass for values and gradients of inverse powers gives other last bits than one for values alone.
    let powers = ChargeSum { saves_gradients: false, ..INVERSE_POWER };
    let declare = || {
        Registry::new(
            [
                COULOMB.ops("madelung")?,
                powers.ops("madelung")?,
                direct::ops(COULOMB.own_energy)?,
                latent::ops("madelung")?,
                boundaries::ops()?,
                charge_transfer::ops()?,
                field::ops()?,
                gaussians::ops()?,
                wires::ops(COULOMB.real_space, COULOMB.exclusions)?,
                open::ops(COULOMB.real_space, COULOMB.exclusions)?,
            ]
            .concat(),
        )
    };
    REGISTRY.get_or_init(|| declare().expect("the declarations fit their kernels, as the tests show"))
}

/// The Ewald sum of a pair potential: the kernels that [`charge_sum!`](crate::charge_sum) instantiates.
#[derive(Clone, Copy, Debug)]
pub struct ChargeSum {
    /// The prefix of the names of the kernels and ops.
    pub prefix: &'static str,
    /// The potential's own parameters: real arrays with an element per system, beside `alpha`.
    pub parameters: &'static [&'static str],
    /// The sum over pairs.
    pub real_space: &'static Kernel,
    /// The sum over pairs that are left out of lists, or scaled.
    pub exclusions: &'static Kernel,
    /// The factors of the reciprocal sum.
    pub green_function: &'static Kernel,
    /// The sum over wave vectors, with the self term and the background.
    pub reciprocal_space: &'static Kernel,
    /// The energy of a mesh, by its waves.
    pub mesh_energy: &'static Kernel,
    /// The self term and the background, by atoms.
    pub own_energy: &'static Kernel,
    /// The waves of a mesh's potential.
    pub mesh_potential: &'static Kernel,
    /// Whether energies of systems keep their gradients for a backward pass. Where one pass for both gives energies of other
    /// last bits than those alone, they may not.
    pub saves_gradients: bool,
}

#[derive(Clone, Copy)]
enum Part {
    Real,
    Exclusions,
    Reciprocal,
    Mesh,
}

impl ChargeSum {
    /// The kernels of all its ops.
    pub fn kernels(&self) -> [&'static Kernel; 7] {
        [
            self.real_space,
            self.exclusions,
            self.green_function,
            self.reciprocal_space,
            self.mesh_energy,
            self.own_energy,
            self.mesh_potential,
        ]
    }

    /// The ops `…_real_space`, `…_exclusions` (pairs that are left out of its list, or scaled), `…_reciprocal_space` and `…_summation` (the sum of both), and `…_mesh_reciprocal_space` and
    /// `…_mesh_summation` with the reciprocal part on a mesh, with energies per atom, and, as `…_total`, with energies
    /// per system. The potential's parameters follow `alpha`.
    ///
    /// # Errors
    /// Those of [`OpBuilder::build`], for kernels not made by [`charge_sum!`](crate::charge_sum).
    pub fn ops(&self, namespace: &str) -> Result<Vec<Arc<Op>>> {
        let sums: [(&str, &[Part]); 6] = [
            ("real_space", &[Part::Real]),
            ("exclusions", &[Part::Exclusions]),
            ("reciprocal_space", &[Part::Reciprocal]),
            ("summation", &[Part::Real, Part::Reciprocal]),
            ("mesh_reciprocal_space", &[Part::Mesh]),
            ("mesh_summation", &[Part::Real, Part::Mesh]),
        ];
        let mut ops = vec![];
        for (name, parts) in sums {
            let total = self.op(namespace, name, None, parts)?;
            ops.extend([self.op(namespace, name, Some(&total), parts)?, total]);
        }
        Ok(ops)
    }

    /// The op of one or both parts, whose energies add up in one array: per system, or per atom beside the op of that.
    fn op(&self, namespace: &str, name: &str, sum: Option<&Arc<Op>>, parts: &[Part]) -> Result<Arc<Op>> {
        let per_system = sum.is_none();
        let total = if per_system { "_total" } else { "" };
        let has_waves = parts.iter().any(|part| matches!(part, Part::Reciprocal | Part::Mesh));
        let cells = if has_waves { Constraint::Cell } else { Constraint::OpenCell };
        let op = self.arguments(Op::new(namespace, &format!("{}_{name}{total}", self.prefix), 1), cells);
        let op = parts.iter().fold(op, |op, part| match part {
            Part::Real => real(op),
            Part::Exclusions => exclusions(op),
            Part::Reciprocal => reciprocal(op),
            Part::Mesh => mesh(op),
        });
        let (op, into) = energies(op, per_system);
        let op = parts.iter().fold(op, |op, part| match part {
            Part::Real => op.step_as(self.real_space, &[("energy", into)]),
            Part::Exclusions => op.step(&ENTRY_FACTORS).step_as(self.exclusions, &[("energy", into)]),
            Part::Reciprocal => op
                .step(&k::LATTICE)
                .step(&k::FRACTIONAL)
                .step(self.green_function)
                .step(&k::STRUCTURE_FACTOR)
                .step(&k::SUM_CHARGES)
                .step_as(self.reciprocal_space, &[("energy", into)]),
            Part::Mesh => {
                let op = op
                    .step(&k::LATTICE)
                    .step(&k::FRACTIONAL)
                    .step(&k::SPREAD)
                    .linear(Linear::RealFft, &["mesh", "density", "real", "imaginary"])
                    .step(&k::SUM_CHARGES)
                    .step_as(self.own_energy, &[("energy", into)]);
                if per_system {
                    op.step(self.mesh_energy)
                } else {
                    op.scratch("potential_real", &["Wave"])
                        .scratch("potential_imaginary", &["Wave"])
                        .scratch("mesh_potential", &["Node"])
                        .step(self.mesh_potential)
                        .linear(
                            Linear::InverseRealFft,
                            &["mesh", "potential_real", "potential_imaginary", "mesh_potential"],
                        )
                        .step(&k::GATHER)
                }
            }
        });
        if let Some(sum) = sum {
            // Waves have the energy of a system with half of the transforms that potentials at atoms take.
            let is_mesh = parts.iter().any(|part| matches!(part, Part::Mesh));
            return if is_mesh { op.rows_of("charges", sum) } else { op }.build();
        }
        let by = [&["positions", "charges", "cell", "alpha"][..], self.parameters, &["strain"]].concat();
        // Factors belong to no system.
        let is_saved = self.saves_gradients && !parts.iter().any(|part| matches!(part, Part::Exclusions));
        summed(op, per_system, if is_saved { &by } else { &[] })
    }

    fn arguments(&self, op: OpBuilder, cells: Constraint) -> OpBuilder {
        let op = op
            .real("positions", &["Atom", "3"])
            .force()
            .real("charges", &["Atom"])
            .real("cell", &["System", "3", "3"])
            .geometry()
            .must_be(cells)
            .real("alpha", &["System"])
            .must_be(Constraint::Positive);
        self.parameters
            .iter()
            .fold(op, |op, parameter| op.real(parameter, &["System"]))
            .zero("strain", &["System", "3", "3"])
            .force()
            .batch("atoms", "Atom", "System")
            .scalar("prefactor")
            .must_be(Constraint::Finite)
            .explain(explain)
            .lattice("positions", "cell", "atoms")
    }
}

/// Why a sum is infinite: two charges on one point, or a wave without a wave vector.
fn explain(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let triples = args.iter().filter_map(|arg| match arg {
        Arg::Array(view) => Some(view.to_i32("miller").ok()?),
        _ => None,
    });
    let zero = triples.flat_map(|rows| rows.as_chunks::<3>().0.iter().position(|row| *row == [0; 3])).next();
    let wave =
        |row| Error::argument("miller", "wave vectors other than (0, 0, 0)", format!("it in row {row}"));
    zero.map(wave).or_else(|| coincident_charges(args, |_| true))
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

fn mesh(op: OpBuilder) -> OpBuilder {
    op.mesh("mesh", "System", "Node", "Wave")
        .scratch("dual", &["System", "3", "3"])
        .scratch("wave_basis", &["System", "3", "3"])
        .scratch("volume", &["System"])
        .scratch("fraction", &["Atom", "3"])
        .scratch("density", &["Node"])
        .scratch("real", &["Wave"])
        .scratch("imaginary", &["Wave"])
        .scratch("total_charge", &["System"])
}
