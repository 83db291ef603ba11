//! Kernel and ops of a pair potential.

use madelung_core::op::{Arg, Constraint, Explain, Linear, Op, OpBuilder};
use madelung_core::runtime::{Kernel, SlotArray};
use madelung_core::{Error, Result};
use madelung_neighbors::{ENTRY_FACTORS, coincident_atoms, excluded_pairs, pair_factors};
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
/// An option of the kernel stands behind the name, `morse(interpreted)`: without machine code the crate compiles in a tenth of
/// the time, and a pair takes some four times as long.
/// A formula behind the word `within` is one of the distance, the cutoff, the number `taper` and the parameters.
/// The word `of` names parameters, amplitudes: where they are all 0, two atoms have no energy, on one point either.
///
/// A formula behind the word `atoms` has parameters (N,) of atoms, each with the operator that makes a pair's of both:
/// `[root *, half +]`.
#[macro_export]
macro_rules! pair_potential {
    (
        $(#[$attribute:meta])*
        $visibility:vis static $name:ident: $prefix:ident $(($option:ident))? = atoms $($formula:ident)::+
            [$($parameter:ident $operator:tt),+ $(,)?] of $($amplitude:ident),+;
    ) => {
        $crate::pair_potential! {
            @sums
            $(#[$attribute])*
            $visibility static $name: $prefix $(($option))? [$($parameter),+] of $($amplitude),+; None;
            [] [] [] [$($parameter: &[Real; Atom],)+] [$($parameter[i] $operator $parameter[j]),+]
            use $($formula)::+ as formula;
            use $crate::formula::end_factor;

            /// The energy of a pair within the cutoff, with its factor at the end; none where all amplitudes are 0.
            #[func]
            fn ended(r: Real, cutoff: Real, taper: Real, switch: Real, $($parameter: Real),+) -> Real {
                let v = formula(r $(, $parameter)+) * end_factor(r, cutoff, taper, switch);
                if r < cutoff && r > -(0.0 $(+ abs($amplitude))+) { v } else { 0.0 }
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis static $name:ident: $prefix:ident $(($option:ident))? = within $($formula:ident)::+
            [$($parameter:ident),+ $(,)?] of $($amplitude:ident),+;
    ) => {
        $crate::pair_potential! {
            @sums
            $(#[$attribute])*
            $visibility static $name: $prefix $(($option))? [$($parameter),+] of $($amplitude),+; None;
            [types: &Map<Atom, Type>,] [let mine = types.of(i);] [let theirs = types.of(j);]
            [$($parameter: &[[Real; Type]; Type],)+]
            [$(0.5 * ($parameter[mine][theirs] + $parameter[theirs][mine])),+]
            use $($formula)::+ as formula;

            /// The energy of a pair within the cutoff; none where all amplitudes are 0.
            #[func]
            fn ended(r: Real, cutoff: Real, taper: Real, switch: Real, $($parameter: Real),+) -> Real {
                let v = formula(r, cutoff, taper $(, $parameter)+);
                if r < cutoff && r > -(0.0 $(+ abs($amplitude))+) { v } else { 0.0 }
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis static $name:ident: $prefix:ident $(($option:ident))? = $($formula:ident)::+
            [$($parameter:ident $(: $constraint:ident)?),+ $(,)?] $(of $($amplitude:ident),+)?;
    ) => {
        $crate::pair_potential! {
            @sums
            $(#[$attribute])*
            $visibility static $name: $prefix $(($option))? [$($parameter $(: $constraint)?),+]
                $(of $($amplitude),+)?; Some(&AT);
            [types: &Map<Atom, Type>,] [let mine = types.of(i);] [let theirs = types.of(j);]
            [$($parameter: &[[Real; Type]; Type],)+]
            [$(0.5 * ($parameter[mine][theirs] + $parameter[theirs][mine])),+]
            use $($formula)::+ as formula;
            use $crate::formula::end_factor;

            /// The energy of a pair within the cutoff, with its factor at the end; none where all amplitudes are 0.
            #[func]
            fn ended(r: Real, cutoff: Real, taper: Real, switch: Real, $($parameter: Real),+) -> Real {
                let v = formula(r $(, $parameter)+) * end_factor(r, cutoff, taper, switch);
                if r < cutoff $(&& r > -(0.0 $(+ abs($amplitude))+))? { v } else { 0.0 }
            }

            /// The energy of two types at distances r, with its first and second derivative by r.
            #[kernel(interpreted, prefix($prefix))]
            fn at(
                p: Entry,
                $($parameter: &[[Real; Type]; Type],)+
                distance: &[Real; Entry],
                first: &Map<Entry, Type>,
                second: &Map<Entry, Type>,
                value: &mut [Real; Entry],
                slope: &mut [Real; Entry],
                curvature: &mut [Real; Entry],
            ) {
                let a = first.of(p);
                let b = second.of(p);
                let r = distance[p];
                let v = formula(r $(, 0.5 * ($parameter[a][b] + $parameter[b][a]))+);
                let dv = derivative(v, r);
                value[p] = v;
                slope[p] = dv;
                curvature[p] = derivative(dv, r);
            }
        }
    };
    (
        @sums
        $(#[$attribute:meta])*
        $visibility:vis static $name:ident: $prefix:ident $(($option:ident))?
            [$($parameter:ident $(: $constraint:ident)?),+] $(of $($amplitude:ident),+)?; $at:expr;
        [$($types:tt)*] [$($of_row:tt)*] [$($of_column:tt)*] [$($declared:tt)+] [$($of_pair:expr),+]
        $($formula:tt)+
    ) => {
        $(#[$attribute])*
        $visibility static $name: $crate::PairPotential = {
            $crate::__core::kernels! {
                $($formula)+

                /// Eᵢ = ½ Σⱼ `ended`(r) over the pairs of a list.
                #[kernel($($option,)? prefix($prefix), fast(positions), fast(positions, strain))]
                fn energies(
                    i: Atom,
                    positions: &[Vec3; Atom],
                    cell: &[Mat3; System],
                    $($declared)+
                    strain: &[Zero<Mat3>; System],
                    prefactor: Real,
                    cutoff: Real,
                    taper: Real,
                    switch: Real,
                    atoms: &Batch<Atom, System>,
                    $($types)*
                    pairs: &Pairs<Atom>,
                    energy: &mut [Real; Atom],
                ) {
                    let b = atoms.of(i);
                    $($of_row)*
                    let mut e = 0.0;
                    for (j, shift) in pairs.row(i) {
                        let d = positions[j] - positions[i] + shift * cell[b];
                        let r = length(d + d * strain[b]);
                        $($of_column)*
                        e += ended(r, cutoff, taper, switch $(, $of_pair)+);
                    }
                    energy[i] = 0.5 * prefactor * e;
                }

                /// Eᵢ = ½ Σⱼ f `ended`(r) over pairs that are left out of the list, with their factors f. Where f is 0 they
                /// may lie on one point.
                #[kernel(interpreted, prefix($prefix), fast(positions), fast(positions, strain))]
                fn exclusions(
                    i: Atom,
                    positions: &[Vec3; Atom],
                    cell: &[Mat3; System],
                    $($declared)+
                    entry_factors: &[Real; Excluded],
                    strain: &[Zero<Mat3>; System],
                    prefactor: Real,
                    cutoff: Real,
                    taper: Real,
                    switch: Real,
                    atoms: &Batch<Atom, System>,
                    $($types)*
                    excluded: &Pairs<Atom, Atom, Excluded>,
                    energy: &mut [Real; Atom],
                ) {
                    let b = atoms.of(i);
                    $($of_row)*
                    let mut e = 0.0;
                    for (j, shift, p) in excluded.row(i) {
                        let d = positions[j] - positions[i] + shift * cell[b];
                        let r = length(d + d * strain[b]);
                        $($of_column)*
                        let f = entry_factors[p];
                        if r > -abs(f) {
                            e += f * ended(r, cutoff, taper, switch $(, $of_pair)+);
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
                at: $at,
                is_of_types: !stringify!($($types)*).is_empty(),
                kernel: &ENERGIES,
                exclusions: &EXCLUSIONS,
                explain: |_, args| {
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
    /// Whether the parameters are those of types; else they are those of atoms, (N,).
    pub is_of_types: bool,
    /// The energy of two types at distances, where it is defined without a cutoff.
    pub at: Option<&'static Kernel>,
    /// The sum over pairs.
    pub kernel: &'static Kernel,
    /// The sum over pairs that are left out of a list, with factors.
    pub exclusions: &'static Kernel,
    /// Why an energy is infinite.
    pub explain: Explain,
}

impl PairPotential {
    /// The op with energies per atom, and, as `…_total`, with energies per system; both for pairs that are left out of
    /// the list, with factors, as `…_exclusions`; and, as `…_at`, that of the energy of two types at distances, with two
    /// derivatives.
    ///
    /// Energies of pairs end at the `cutoff`, with the factor [`end_factor`](crate::formula::end_factor) from the distance
    /// `switch` on where that is below the cutoff, else from `taper` on; at the cutoff or beyond: they are cut off.
    ///
    /// # Errors
    /// Those of [`OpBuilder::build`], for kernels not made by [`pair_potential!`](crate::pair_potential).
    pub fn ops(&self, namespace: &str) -> Result<Vec<Arc<Op>>> {
        let op = |excluded: &str, total: &str| {
            let op = Op::new(namespace, &format!("{}{excluded}{total}", self.name), 1);
            let op = self.arguments(op, !excluded.is_empty());
            let (op, into) = if total.is_empty() {
                (op.output("energy", &["Atom"]), "energy")
            } else {
                (op.output("energy", &["System"]).scratch("atom_energy", &["Atom"]), "atom_energy")
            };
            let op = if excluded.is_empty() {
                op.step_as(self.kernel, &[("energy", into)])
            } else {
                op.step(&ENTRY_FACTORS).step_as(self.exclusions, &[("energy", into)])
            };
            if total.is_empty() {
                return op.build();
            }
            let op = op.linear(Linear::SegmentedSum, &["atoms", "atom_energy", "energy"]);
            // The backward pass scales gradients by the weights of the systems; factors of entries have rows of none.
            let saved = if excluded.is_empty() { &["positions", "cell", "strain"][..] } else { &[] };
            op.saved_gradients(saved).build()
        };
        let mut ops =
            vec![op("", "")?, op("", "_total")?, op("_exclusions", "")?, op("_exclusions", "_total")?];
        if let Some(kernel) = self.at {
            let op = Op::new(namespace, &format!("{}_at", self.name), 1);
            let op = self
                .tables(op)
                .real("distance", &["Entry"])
                .must_be(Constraint::Positive)
                .map("first", "Entry", "Type")
                .map("second", "Entry", "Type");
            let op = ["value", "slope", "curvature"].iter().fold(op, |op, name| op.output(name, &["Entry"]));
            ops.push(op.step(kernel).build()?);
        }
        Ok(ops)
    }

    /// An op with the parameters.
    fn tables(&self, op: OpBuilder) -> OpBuilder {
        let shape: &[&str] = if self.is_of_types { &["Type", "Type"] } else { &["Atom"] };
        self.parameters.iter().fold(op, |op, (name, constraint)| {
            let op = op.real(name, shape);
            if let Some(constraint) = constraint { op.must_be(*constraint) } else { op }
        })
    }

    fn arguments(&self, op: OpBuilder, are_excluded: bool) -> OpBuilder {
        let op = op
            .real("positions", &["Atom", "3"])
            .force()
            .real("cell", &["System", "3", "3"])
            .geometry()
            .must_be(Constraint::OpenCell);
        let op = self
            .tables(op)
            .zero("strain", &["System", "3", "3"])
            .force()
            .batch("atoms", "Atom", "System")
            .scalar("prefactor")
            .must_be(Constraint::Finite);
        let op = if self.is_of_types { op.map("types", "Atom", "Type") } else { op };
        let op = if are_excluded {
            excluded_pairs(op)
        } else {
            op.pairs("pairs", "Atom").must_be(Constraint::Full)
        };
        op.scalar("cutoff")
            .must_be(Constraint::Positive)
            .scalar("taper")
            .must_be(Constraint::Finite)
            .scalar("switch")
            .must_be(Constraint::Finite)
            .explain(self.explain)
            .lattice("positions", "cell", "atoms")
    }
}

/// The error of two atoms on one point in a call of the op of a potential. Atoms between which all amplitudes are 0,
/// and pairs with a factor of 0, may lie there.
#[doc(hidden)]
pub fn coincident(args: &[Arg<'_>], parameters: &[&str], amplitudes: &[&str]) -> Option<Error> {
    let at = args.iter().position(|arg| arg.structure().is_some_and(|s| s.as_pairs().is_some()))?;
    let pairs = args[at].structure()?.as_pairs()?;
    let factor = pair_factors(&args[at + 1..]);
    // Parameters follow the positions and the cell.
    let given = parameters.iter().zip(&args[2..]).filter_map(|(name, arg)| match arg {
        Arg::Array(x) if amplitudes.contains(name) => Some((x.shape().len(), x.shape()[0], x.to_f64().ok()?)),
        _ => None,
    });
    let given: Vec<_> = given.collect();
    let map = args.iter().filter_map(Arg::structure).find_map(|s| s.array(SlotArray::MapOf).ok()?);
    let types = map.and_then(|of| of.to_i32("types").ok().map(|of| of.into_owned()));
    coincident_atoms(args, pairs, |p, i, j| {
        let has_energy = |(axes, n, x): &(usize, usize, Vec<f64>)| match (&types, axes) {
            (Some(types), 2) => {
                let (a, b) = (types[i] as usize, types[j] as usize);
                x[n * a + b] + x[n * b + a] != 0.0
            }
            _ => x[i] * x[j] != 0.0,
        };
        factor(p) != 0.0 && (given.is_empty() || given.iter().any(has_energy))
    })
}
