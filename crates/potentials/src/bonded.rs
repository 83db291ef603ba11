//! Bonded terms: bonds, angles and dihedrals of given atoms, with parameters of each term.

use crate::terms::{PERIODIC_RECIPROCALS, Shape, degenerate};
use madelung_core::Result;
use madelung_core::op::{Constraint, Explain, Linear, Op};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

/// Functions of the distance of two atoms, the angle of three and the dihedral angle of four.
pub mod formula {
    madelung_core::kernels! {
        /// Harmonic: ½k(x − x₀)², of a distance or an angle, with `stiffness` k and `rest` x₀.
        #[func]
        pub fn harmonic(x: Real, stiffness: Real, rest: Real) -> Real {
            let d = x - rest;
            0.5 * stiffness * d * d
        }

        /// Morse bond: D[1 − exp(−a(r − r₀))]², with `depth` D, `steepness` a and `rest` r₀ (Morse, Phys. Rev. 34, 57 (1929)).
        #[func]
        pub fn morse_bond(x: Real, depth: Real, steepness: Real, rest: Real) -> Real {
            let y = 1.0 - exp(steepness * (rest - x));
            depth * y * y
        }

        /// Harmonic in the cosine of an angle: ½k(cos θ − cos θ₀)² of cos θ, with `stiffness` k and `rest` θ₀.
        #[func]
        pub fn cosine(x: Real, stiffness: Real, rest: Real) -> Real {
            let d = x - cos(rest);
            0.5 * stiffness * d * d
        }

        /// Periodic: k[1 + cos(nφ − φ₀)], with `stiffness` k, `periodicity` n and `phase` φ₀.
        #[func]
        pub fn periodic(x: Real, stiffness: Real, periodicity: Real, phase: Real) -> Real {
            stiffness * (1.0 + cos(periodicity * x - phase))
        }

        /// Ryckaert–Bellemans: Σₙ Cₙ cosⁿ ψ, n = 0 to 5, with ψ = φ − π (Ryckaert and Bellemans, Chem. Phys. Lett. 30, 123
        /// (1975)).
        #[func]
        pub fn ryckaert_bellemans(x: Real, c0: Real, c1: Real, c2: Real, c3: Real, c4: Real, c5: Real) -> Real {
            let y = -cos(x);
            c0 + y * (c1 + y * (c2 + y * (c3 + y * (c4 + y * c5))))
        }

        /// Harmonic in a dihedral angle: ½k(φ − φ₀)², with the difference in [−π, π], `stiffness` k and `rest` φ₀.
        #[func]
        pub fn improper(x: Real, stiffness: Real, rest: Real) -> Real {
            let turns = (x - rest) / (2.0 * PI);
            let d = 2.0 * PI * (turns - nearest(turns));
            0.5 * stiffness * d * d
        }

        /// The angle at the middle one of three atoms, between the vectors to both others, from 0 to π.
        #[func]
        pub(crate) fn angle(u: Vec3, v: Vec3) -> Real {
            atan2(length(cross(u, v)), dot(u, v))
        }

        /// The cosine of that angle.
        #[func]
        pub(crate) fn angle_cosine(u: Vec3, v: Vec3) -> Real {
            dot(u, v) / (length(u) * length(v))
        }

        /// The dihedral angle of four atoms from the vectors u, v, w of each to the next: 0 where the outer two are on one
        /// side, positive for a right-handed screw (IUPAC; Blondel and Karplus, J. Comput. Chem. 17, 1132 (1996)).
        #[func]
        pub(crate) fn dihedral(u: Vec3, v: Vec3, w: Vec3) -> Real {
            let n = cross(v, w);
            atan2(length(v) * dot(u, n), dot(cross(u, v), n))
        }
    }
}

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
            @kernel Angle, 1.0 / 3.0, [use crate::bonded::formula::angle;] [angle(ba, bc)]
            [a b c] [ba: b -> a, bc: b -> c] $($rest)+
        }
    };
    (@angle_cosine $($rest:tt)+) => {
        bonded_term! {
            @kernel AngleCosine, 1.0 / 3.0, [use crate::bonded::formula::angle_cosine;] [angle_cosine(ba, bc)]
            [a b c] [ba: b -> a, bc: b -> c] $($rest)+
        }
    };
    (@dihedral $($rest:tt)+) => {
        bonded_term! {
            @kernel Dihedral, 0.25, [use crate::bonded::formula::dihedral;] [dihedral(ab, bc, cd)]
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
                use crate::bonded::formula::$formula as formula;
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
    /// Harmonic bonds: [`formula::harmonic`] of the distance.
    HARMONIC_BONDS: harmonic_bonds = harmonic[stiffness, rest] of distance;
}

bonded_term! {
    /// Morse's bonds: [`formula::morse_bond`].
    MORSE_BONDS: morse_bonds(interpreted) = morse_bond[depth, steepness, rest] of distance;
}

bonded_term! {
    /// Harmonic angles: [`formula::harmonic`] of the angle.
    HARMONIC_ANGLES: harmonic_angles = harmonic[stiffness, rest] of angle;
}

bonded_term! {
    /// Angles harmonic in the cosine: [`formula::cosine`].
    COSINE_ANGLES: cosine_angles(interpreted) = cosine[stiffness, rest] of angle_cosine;
}

bonded_term! {
    /// Periodic dihedrals: [`formula::periodic`].
    PERIODIC_DIHEDRALS: periodic_dihedrals = periodic[stiffness, periodicity, phase] of dihedral;
}

bonded_term! {
    /// Ryckaert–Bellemans dihedrals: [`formula::ryckaert_bellemans`].
    RYCKAERT_BELLEMANS: ryckaert_bellemans = ryckaert_bellemans[c0, c1, c2, c3, c4, c5] of dihedral;
}

bonded_term! {
    /// Harmonic improper dihedrals: [`formula::improper`].
    HARMONIC_IMPROPERS: harmonic_impropers(interpreted) = improper[stiffness, rest] of dihedral;
}

/// All bonded terms.
pub const BONDED: [&BondedTerm; 7] = [
    &COSINE_ANGLES,
    &HARMONIC_ANGLES,
    &HARMONIC_BONDS,
    &HARMONIC_IMPROPERS,
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
