//! Kernel and ops of a pair potential.

use madelung_core::op::{Arg, Constraint, Explain, Linear, Op, OpBuilder};
use madelung_core::runtime::{Kernel, SlotArray};
use madelung_core::structure::Structure;
use madelung_core::{Error, Result};
use madelung_neighbors::coincident_atoms;
use std::sync::Arc;

/// The kernel and the ops of a pair potential, made from its formula, a `#[func]` of the distance and its parameters:
///
/// ```text
/// pair_potential! {
///     /// Morse potential.
///     static MORSE: morse = crate::morse[depth, steepness: Positive, length] of depth;
/// }
/// ```
///
/// defines a [`PairPotential`](crate::PairPotential) of that name; the names of its ops are the word after the colon. The
/// parameters, in brackets, are differentiable (K, K) tables over the types of two atoms, of which the symmetric part counts:
/// the pair's parameter is the mean of both its elements. A parameter may be followed by a
/// [`Constraint`](madelung_core::op::Constraint) on it.
/// The word `of` names parameters, amplitudes: where they are all 0, two atoms have no energy, on one point either.
#[macro_export]
macro_rules! pair_potential {
    (
        $(#[$attribute:meta])*
        $visibility:vis static $name:ident: $prefix:ident = $($formula:ident)::+
            [$($parameter:ident $(: $constraint:ident)?),+ $(,)?] $(of $($amplitude:ident),+)?;
    ) => {
        $(#[$attribute])*
        $visibility static $name: $crate::PairPotential = {
            $crate::__core::kernels! {
                use $($formula)::+ as formula;
                use $crate::formula::taper_factor;

                /// Eᵢ = ½ Σⱼ `formula`(r) over the pairs with r < cutoff, tapered from r = `taper` on.
                #[kernel(prefix($prefix), fast(positions), fast(positions, strain))]
                fn energies(
                    i: Atom,
                    positions: &[Vec3; Atom],
                    cell: &[Mat3; System],
                    $($parameter: &[[Real; Type]; Type],)+
                    strain: &[Zero<Mat3>; System],
                    prefactor: Real,
                    cutoff: Real,
                    taper: Real,
                    atoms: &Batch<Atom, System>,
                    types: &Map<Atom, Type>,
                    pairs: &Pairs<Atom>,
                    energy: &mut [Real; Atom],
                ) {
                    let b = atoms.of(i);
                    let mine = types.of(i);
                    let per_width = 1.0 / (cutoff - taper);
                    let mut e = 0.0;
                    for (j, shift) in pairs.row(i) {
                        let d = positions[j] - positions[i] + shift * cell[b];
                        let d = d + d * strain[b];
                        let r = length(d);
                        let theirs = types.of(j);
                        let v = formula(r $(, 0.5 * ($parameter[mine][theirs] + $parameter[theirs][mine]))+);
                        if r < cutoff
                            $(&& r > -(0.0 $(+ abs(0.5 * ($amplitude[mine][theirs] + $amplitude[theirs][mine])))+))?
                        {
                            if r > taper {
                                e += v * taper_factor((r - taper) * per_width);
                            } else {
                                e += v;
                            }
                        }
                    }
                    energy[i] = 0.5 * prefactor * e;
                }
            }
            $crate::PairPotential {
                name: stringify!($prefix),
                parameters: &[$((
                    stringify!($parameter),
                    [$(Some($crate::__core::op::Constraint::$constraint),)? None][0],
                )),+],
                kernel: &ENERGIES,
                explain: |args| {
                    $crate::coincident(args, &[$(stringify!($parameter)),+], &[$($(stringify!($amplitude)),+)?])
                },
            }
        };
    };
}

/// A pair potential: the kernel that [`pair_potential!`](crate::pair_potential) instantiates.
#[derive(Clone, Copy, Debug)]
pub struct PairPotential {
    /// The name of its op.
    pub name: &'static str,
    /// The parameters, real (K, K) arrays over the types of two atoms, with conditions on them.
    pub parameters: &'static [(&'static str, Option<Constraint>)],
    /// The sum over pairs.
    pub kernel: &'static Kernel,
    /// Why an energy is infinite.
    pub explain: Explain,
}

impl PairPotential {
    /// The op with energies per atom, and, as `…_total`, with energies per system. Energies of pairs are tapered from
    /// distance `taper` to `cutoff`, and cut off there if `taper` is not smaller.
    ///
    /// # Errors
    /// Those of [`OpBuilder::build`], for kernels not made by [`pair_potential!`](crate::pair_potential).
    pub fn ops(&self, namespace: &str) -> Result<[Arc<Op>; 2]> {
        let op = |total: &str| self.arguments(Op::new(namespace, &format!("{}{total}", self.name), 1));
        let per_atom = op("").output("energy", &["Atom"]).step(self.kernel).build()?;
        let per_system = op("_total")
            .output("energy", &["System"])
            .scratch("atom_energy", &["Atom"])
            .step_as(self.kernel, &[("energy", "atom_energy")])
            .linear(Linear::SegmentedSum, &["atoms", "atom_energy", "energy"])
            // The backward pass scales them by the weights of the systems, which have their tables in common.
            .saved_gradients(&["positions", "cell", "strain"])
            .build()?;
        Ok([per_atom, per_system])
    }

    fn arguments(&self, op: OpBuilder) -> OpBuilder {
        let op = op
            .real("positions", &["Atom", "3"])
            .force()
            .real("cell", &["System", "3", "3"])
            .geometry()
            .must_be(Constraint::OpenCell);
        let table = |op: OpBuilder, (name, constraint): &(&str, Option<Constraint>)| {
            let op = op.real(name, &["Type", "Type"]);
            if let Some(constraint) = constraint { op.must_be(*constraint) } else { op }
        };
        self.parameters
            .iter()
            .fold(op, table)
            .zero("strain", &["System", "3", "3"])
            .force()
            .batch("atoms", "Atom", "System")
            .scalar("prefactor")
            .must_be(Constraint::Finite)
            .map("types", "Atom", "Type")
            .pairs("pairs", "Atom")
            .must_be(Constraint::Full)
            .scalar("cutoff")
            .must_be(Constraint::Positive)
            .scalar("taper")
            .must_be(Constraint::Finite)
            .explain(self.explain)
            .lattice("positions", "cell", "atoms")
    }
}

/// The error of two atoms on one point in a call of the op of a potential. Atoms between which all amplitudes are 0 may
/// lie there.
#[doc(hidden)]
pub fn coincident(args: &[Arg<'_>], parameters: &[&str], amplitudes: &[&str]) -> Option<Error> {
    let pairs = args.iter().filter_map(Arg::structure).find_map(Structure::as_pairs)?;
    let types = args.iter().filter_map(Arg::structure).find_map(|s| s.array(SlotArray::MapOf).ok()?)?;
    let types = types.to_i32("types").ok()?;
    // Tables follow the positions and the cell.
    let tables = parameters.iter().zip(&args[2..]).filter_map(|(name, arg)| match arg {
        Arg::Array(table) if amplitudes.contains(name) => Some((table.shape()[0], table.to_f64().ok()?)),
        _ => None,
    });
    let tables: Vec<_> = tables.collect();
    coincident_atoms(args, pairs, |_, i, j| {
        let (a, b) = (types[i] as usize, types[j] as usize);
        tables.is_empty() || tables.iter().any(|(n, table)| table[n * a + b] + table[n * b + a] != 0.0)
    })
}
