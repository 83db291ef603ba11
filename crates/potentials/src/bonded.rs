//! Bonded terms: bonds, angles and dihedrals of given atoms, with parameters of each term.

use crate::terms::{PERIODIC_RECIPROCALS, Shape, degenerate};
use madelung_core::Result;
use madelung_core::op::{Constraint, Explain, Linear, Op};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

/// The kernel of a bonded term, made of its formula and the coordinate that it is a function of: the distance of two atoms,
/// the angle of three or its cosine, or the dihedral angle of four. Its atoms have equal parts of its energy. Rare terms
/// have no machine code, `(interpreted)`.
macro_rules! bonded_term {
    (
        $(#[$attribute:meta])* $name:ident: $prefix:ident $(($option:ident))? =
            $formula:ident[$($parameter:ident),+] of $coordinate:ident;
    ) => {
        bonded_term! { @$coordinate $(#[$attribute])* $name $prefix [$($option)?] $formula [$($parameter)+] }
    };
    (@distance $($rest:tt)+) => {
        bonded_term! { @kernel Distance, 0.5, [] [length(ab)] [a b] [ab: a -> b] $($rest)+ }
    };
    (@angle $($rest:tt)+) => {
        bonded_term! {
            @kernel Angle, 1.0 / 3.0, [use crate::formula::angle;] [angle(ba, bc)]
            [a b c] [ba: b -> a, bc: b -> c] $($rest)+
        }
    };
    (@angle_cosine $($rest:tt)+) => {
        bonded_term! {
            @kernel AngleCosine, 1.0 / 3.0, [use crate::formula::angle_cosine;] [angle_cosine(ba, bc)]
            [a b c] [ba: b -> a, bc: b -> c] $($rest)+
        }
    };
    (@dihedral $($rest:tt)+) => {
        bonded_term! {
            @kernel Dihedral, 0.25, [use crate::formula::dihedral;] [dihedral(ab, bc, cd)]
            [a b c d] [ab: a -> b, bc: b -> c, cd: c -> d] $($rest)+
        }
    };
    (
        @kernel $shape:ident, $share:expr, [$($import:tt)*] [$($coordinate:tt)+] [$($atom:ident)+]
        [$($vector:ident: $from:ident -> $to:ident),+]
        $(#[$attribute:meta])* $name:ident $prefix:ident [$($option:ident)?] $formula:ident [$($parameter:ident)+]
    ) => {
        $(#[$attribute])*
        pub static $name: BondedTerm = {
            madelung_core::kernels! {
                use crate::formula::$formula as formula;
                use crate::terms::nearest_image;
                $($import)*

                /// The energy of each term, split equally between its atoms. Vectors are those to the nearest image.
                #[kernel($($option,)? prefix($prefix), fast(positions), fast(positions, strain))]
                fn energies(
                    p: Term,
                    positions: &[Vec3; Atom],
                    cell: &[Mat3; System],
                    $($parameter: &[Real; Term],)+
                    strain: &[Zero<Mat3>; System],
                    prefactor: Real,
                    $($atom: &Map<Term, Atom>,)+
                    system: &Map<Term, System>,
                    reciprocals: &[Mat3; System],
                    energy: &mut [Real; Atom],
                ) {
                    let s = system.of(p);
                    $(
                        let $vector = positions[$to.of(p)] - positions[$from.of(p)];
                        let $vector = nearest_image($vector, cell[s], reciprocals[s]);
                        let $vector = $vector + $vector * strain[s];
                    )+
                    let e = prefactor * ($share) * formula($($coordinate)+ $(, $parameter[p])+);
                    $(energy[$atom.of(p)] += e;)+
                }
            }
            BondedTerm {
                name: stringify!($prefix),
                shape: Shape::$shape,
                atoms: &[$(stringify!($atom)),+],
                parameters: &[$(stringify!($parameter)),+],
                kernel: &ENERGIES,
                explain: |_, args| degenerate(args, Shape::$shape),
            }
        };
    };
}

bonded_term! {
    /// Harmonic bonds: [`crate::formula::harmonic`] of the distance.
    HARMONIC_BONDS: harmonic_bonds = harmonic[stiffness, rest] of distance;
}

bonded_term! {
    /// Morse's bonds: [`crate::formula::morse_bond`].
    MORSE_BONDS: morse_bonds(interpreted) = morse_bond[depth, steepness, rest] of distance;
}

bonded_term! {
    /// Harmonic angles: [`crate::formula::harmonic`] of the angle.
    HARMONIC_ANGLES: harmonic_angles = harmonic[stiffness, rest] of angle;
}

bonded_term! {
    /// Angles harmonic in the cosine: [`crate::formula::cosine`].
    COSINE_ANGLES: cosine_angles(interpreted) = cosine[stiffness, rest] of angle_cosine;
}

bonded_term! {
    /// Periodic dihedrals: [`crate::formula::periodic`].
    PERIODIC_DIHEDRALS: periodic_dihedrals = periodic[stiffness, periodicity, phase] of dihedral;
}

bonded_term! {
    /// Ryckaert–Bellemans dihedrals: [`crate::formula::ryckaert_bellemans`].
    RYCKAERT_BELLEMANS: ryckaert_bellemans = ryckaert_bellemans[c0, c1, c2, c3, c4, c5] of dihedral;
}

bonded_term! {
    /// Harmonic improper dihedrals: [`crate::formula::improper`].
    HARMONIC_IMPROPERS: harmonic_impropers(interpreted) = improper[stiffness, rest] of dihedral;
}

bonded_term! {
    /// Lennard-Jones potentials of given pairs, those that force fields have between atoms three bonds apart.
    LENNARD_JONES_PAIRS: lennard_jones_pairs(interpreted) = lennard_jones[epsilon, sigma] of distance;
}

/// All bonded terms.
pub const BONDED: [&BondedTerm; 8] = [
    &COSINE_ANGLES,
    &HARMONIC_ANGLES,
    &HARMONIC_BONDS,
    &HARMONIC_IMPROPERS,
    &LENNARD_JONES_PAIRS,
    &MORSE_BONDS,
    &PERIODIC_DIHEDRALS,
    &RYCKAERT_BELLEMANS,
];

/// A bonded term: the kernel made of its formula and its coordinate.
#[derive(Clone, Copy, Debug)]
pub struct BondedTerm {
    /// The name of its op.
    pub name: &'static str,
    /// The coordinate that the energy is a function of.
    pub shape: Shape,
    /// The names of its atoms.
    pub atoms: &'static [&'static str],
    /// The parameters, real arrays with an element for each term.
    pub parameters: &'static [&'static str],
    /// The sum over terms.
    pub kernel: &'static Kernel,
    /// Why an energy or a derivative is not finite.
    pub explain: Explain,
}

impl BondedTerm {
    /// The op with energies per atom, and, as `…_total`, with energies per system.
    ///
    /// # Errors
    /// Those of [`OpBuilder::build`](madelung_core::op::OpBuilder::build).
    pub(crate) fn ops(&self) -> Result<[Arc<Op>; 2]> {
        let op = |total: &str| {
            let op = Op::new("madelung", &format!("{}{total}", self.name), 1)
                .real("positions", &["Atom", "3"])
                .force()
                .real("cell", &["System", "3", "3"])
                .geometry()
                .must_be(Constraint::OpenCell);
            let op = self.parameters.iter().fold(op, |op, name| op.real(name, &["Term"]));
            let op = op
                .zero("strain", &["System", "3", "3"])
                .force()
                .batch("batch_idx", "Atom", "System")
                .scalar("prefactor")
                .must_be(Constraint::Finite);
            let op = self.atoms.iter().fold(op, |op, name| op.map(name, "Term", "Atom"));
            let op = op
                .map("system", "Term", "System")
                .ints("periodic", &["System", "3"])
                .scratch("reciprocals", &["System", "3", "3"])
                .explain(self.explain);
            if total.is_empty() {
                return op.output("energy", &["Atom"]).step(&PERIODIC_RECIPROCALS).step(self.kernel).build();
            }
            op.output("energy", &["System"])
                .scratch("atom_energy", &["Atom"])
                .step(&PERIODIC_RECIPROCALS)
                .step_as(self.kernel, &[("energy", "atom_energy")])
                .linear(Linear::SegmentedSum, &["batch_idx", "atom_energy", "energy"])
                .build()
        };
        Ok([op("")?, op("_total")?])
    }
}
