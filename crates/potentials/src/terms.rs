//! The atoms of bonded terms: their checks, and the vectors between them.

use madelung_core::array::DType;
use madelung_core::op::{Arg, Op};
use madelung_core::runtime::{Kernel, SlotArray};
use madelung_core::{Error, Result};
use nalgebra::{Matrix3, RowVector3};
use std::sync::Arc;

madelung_core::kernels! {
    /// The image of a vector whose components along the lattice vectors are nearest to zero. Rows of `reciprocal` are dual to
    /// those of the cell, and zero along open axes.
    #[func]
    pub(crate) fn nearest_image(d: Vec3, cell: Mat3, reciprocal: Mat3) -> Vec3 {
        let s = reciprocal * d;
        d - vec3(nearest(s.x), nearest(s.y), nearest(s.z)) * cell
    }

    /// The vector in the span of a lattice vector and of those of `a` and `b` that are periodic, whose product with the lattice
    /// vector is 1 and that with the others 0; zero if it is not periodic.
    #[func]
    fn dual(own: Vec3, a: Vec3, b: Vec3, is_periodic: Real, is_a: Real, is_b: Real) -> Vec3 {
        let beside = if is_a > 0.0 { a } else { b };
        let apart = own * dot(beside, beside) - beside * dot(own, beside);
        let alone = if is_a + is_b > 0.0 { apart } else { own };
        let direction = if is_a + is_b > 1.0 { cross(a, b) } else { alone };
        let product = dot(own, direction);
        if is_periodic > 0.0 { direction * (1.0 / product) } else { vec3(0.0, 0.0, 0.0) }
    }

    /// Whether an axis is periodic: it is said to be, and has a lattice vector.
    #[func]
    fn is_along(flag: Real, vector: Vec3) -> Real {
        if flag > 0.0 && dot(vector, vector) > 0.0 { 1.0 } else { 0.0 }
    }

    /// Vectors dual to the periodic ones of each cell, without derivatives: they choose images.
    #[kernel(interpreted)]
    pub(crate) fn periodic_reciprocals(
        s: System,
        cell: &[Mat3; System],
        periodic: &[IVec3; System],
        reciprocals: &mut [Mat3; System],
    ) {
        let flags = periodic[s];
        let h = cell[s];
        let x = row(h, 0);
        let y = row(h, 1);
        let z = row(h, 2);
        let is_x = is_along(flags.x, x);
        let is_y = is_along(flags.y, y);
        let is_z = is_along(flags.z, z);
        reciprocals[s] = mat3(
            dual(x, y, z, is_x, is_y, is_z),
            dual(y, z, x, is_y, is_z, is_x),
            dual(z, x, y, is_z, is_x, is_y),
        );
    }

    /// Atoms of terms column by column, and the system of each; those of a term differ, and are of one system.
    #[kernel(no_adjoint)]
    pub(crate) fn bonded_atoms(
        e: Entry,
        terms: &[i32; Entry],
        width: i32,
        atoms: &Batch<Atom, System>,
        columns: &mut [i32; Entry],
        systems: &mut [i32; Entry],
    ) {
        let n = width;
        let p = e as i64 / n;
        let k = e as i64 - p * n;
        let own = terms[e];
        let system = atoms.of(own);
        let mut other = 0;
        while other < n {
            let beside = terms[p * n + other];
            if other != k && beside == own {
                raise(COINCIDENT, terms);
            }
            if atoms.of(beside) != system {
                raise(INDEX, terms);
            }
            other += 1;
        }
        let at = k * (terms.len() / n) + p;
        columns[at] = own;
        systems[at] = system as i64;
    }
}

/// The kernels that bonded terms share.
pub(crate) const KERNELS: [&Kernel; 2] = [&BONDED_ATOMS, &PERIODIC_RECIPROCALS];

/// The coordinate that a bonded term is a function of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The distance of two atoms.
    Distance,
    /// The angle at the middle one of three.
    Angle,
    /// The cosine of that angle, which has derivatives in a line.
    AngleCosine,
    /// The dihedral angle of four.
    Dihedral,
}

/// `bonded_atoms`: from the atoms of terms, of `width` each, one after the other, those at each place of all terms, and their
/// systems.
pub(crate) fn declare() -> Result<Arc<Op>> {
    Op::new("madelung", "bonded_atoms", 1)
        .ints("terms", &["Entry"])
        .int_scalar("width")
        .batch("atoms", "Atom", "System")
        .integer_output("columns", &["Entry"], DType::I32)
        .integer_output("systems", &["Entry"], DType::I32)
        .step(&BONDED_ATOMS)
        .explain_raised(not_a_term)
        .build()
}

/// The first term that cannot be one.
fn not_a_term(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let [Arg::Array(terms), Arg::Int(width), Arg::Structure(batch)] = args else { return None };
    let (terms, batch) = (terms.to_i32("atoms").ok()?, batch.as_batch()?);
    let found =
        terms.chunks(usize::try_from(*width).ok().filter(|n| *n > 0)?).enumerate().find_map(|(p, term)| {
            let fault =
                |expected: String, got: String| Some((expected, format!("{got} (term {p}: {term:?})")));
            let systems: Vec<Option<&i32>> =
                term.iter().map(|a| usize::try_from(*a).ok().and_then(|a| batch.idx().get(a))).collect();
            if let Some(k) = systems.iter().position(Option::is_none) {
                return fault(format!("indices from 0 to below {}", batch.idx().len()), term[k].to_string());
            }
            if let Some(k) = (1..term.len()).find(|k| term[..*k].contains(&term[*k])) {
                return fault("atoms that differ in each term".into(), format!("atom {} twice", term[k]));
            }
            let other = systems.iter().flatten().find(|s| Some(**s) != systems[0])?;
            fault("atoms of one system in each term".into(), format!("systems {} and {other}", systems[0]?))
        });
    found.map(|(expected, got)| Error::argument("atoms", expected, got))
}

/// The error of a term whose coordinate has no value or no derivative: atoms on one point, or in a line.
pub(crate) fn degenerate(args: &[Arg<'_>], shape: Shape) -> Option<Error> {
    let [Arg::Array(positions), Arg::Array(cell), .., Arg::Array(periodic)] = args else { return None };
    let (r, h) = (positions.to_f64().ok()?, cell.to_f64().ok()?);
    let periodic = periodic.to_i32("periodic").ok()?;
    let maps = args.iter().filter_map(Arg::structure).filter_map(|s| s.array(SlotArray::MapOf).ok()?);
    let maps: Vec<_> = maps.map(|of| Some(of.to_i32("atoms").ok()?.into_owned())).collect::<Option<_>>()?;
    let (systems, columns) = maps.split_last()?;
    // What the dtype's vectors do not tell from a line.
    let rounding = if positions.dtype() == DType::F32 { 1e-6 } else { 1e-14 };
    let place = |a: i32| RowVector3::from_column_slice(&r[3 * a as usize..][..3]);
    (0..systems.len()).find_map(|p| {
        let s = systems[p] as usize;
        let lattice =
            Matrix3::from_fn(|i, k| if periodic[3 * s + i] != 0 { h[9 * s + 3 * i + k] } else { 0.0 });
        let dual = lattice.pseudo_inverse(1e-12 * lattice.norm()).ok()?;
        let atoms: Vec<i32> = columns.iter().map(|of| of[p]).collect();
        let vectors: Vec<_> = atoms
            .windows(2)
            .map(|w| {
                let d = place(w[1]) - place(w[0]);
                d - (d * dual).map(f64::round) * lattice
            })
            .collect();
        let got = || format!("those of term {p}: {atoms:?}");
        if vectors.iter().any(|v| v.norm() == 0.0) {
            return Some(Error::argument("positions", "bonded atoms that are apart", got()));
        }
        let in_line =
            |w: &[RowVector3<f64>]| w[0].cross(&w[1]).norm() <= rounding * w[0].norm() * w[1].norm();
        if matches!(shape, Shape::Angle | Shape::Dihedral) && vectors.windows(2).any(in_line) {
            let expected = match shape {
                Shape::Angle => "angles between 0° and 180° (`cosine_angles` has those at 180°)",
                _ => "dihedral angles of which no three atoms lie in a line",
            };
            return Some(Error::argument("positions", expected, got()));
        }
        None
    })
}
