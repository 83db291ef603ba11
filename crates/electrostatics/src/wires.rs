//! Charges that are periodic along one axis: wires, polymers, nanotubes.
//!
//! A pair interacts with 10 images to either side term by term, and with all others by the Euler–Maclaurin formula
//! (midpoint form: NIST Digital Library of Mathematical Functions, §2.10(i) and §24.17): an integral, and odd derivatives of
//! 1/r, which are Legendre polynomials. The first term that is left out is 0.08 (L/d)¹⁴ of the potential 1/L at the period L
//! and the least distance d = 10 L of images beyond: 8e-16, wherever the charges are. There is no parameter to choose.
//!
//! Σ 1/r grows as 2 ln n/L with the number n of images, so potentials of a charged wire are those of Σ_{|m|≤n} 1/r − 2 ln(2n)/L:
//! far from a charge and its images −(2/L) ln(ρ/L), at the distance ρ from their axis. Neutral wires do not depend on that.

use crate::declare::{charged_in, energies, summed};
use madelung_core::op::{Arg, Constraint, Op};
use madelung_core::runtime::Kernel;
use madelung_core::structure::Structure;
use madelung_core::{Error, Result};
use std::sync::Arc;

madelung_core::kernels! {
    /// Images beyond a distance of x along the axis, all lengths in periods: Σₙ 1/√(w + (x + ½ + n)²) over n ≥ 0, less ln 2n.
    /// With Pₘ the Legendre polynomials and R² = w + x², −ln(x + R) − Σ_k (1 − 2^(1−2k)) B₂ₖ/2k · P₂ₖ₋₁(x/R)/R²ᵏ for k up to 6.
    #[func]
    fn images_beyond(x: Real, w: Real) -> Real {
        let q = 1.0 / (x * x + w);
        let t = x * x * q;
        let p3 = 2.5 * t - 1.5;
        let p5 = (t * (63.0 * t - 70.0) + 15.0) / 8.0;
        let p7 = (t * (t * (429.0 * t - 693.0) + 315.0) - 35.0) / 16.0;
        let p9 = (t * (t * (t * (12155.0 * t - 25740.0) + 18018.0) - 4620.0) + 315.0) / 128.0;
        let p11 = (t * (t * (t * (t * (88179.0 * t - 230945.0) + 218790.0) - 90090.0) + 15015.0) - 693.0) / 256.0;
        let s = 511.0 / 67584.0 * p9 - q * (1414477.0 / 67092480.0 * p11);
        let s = 31.0 / 8064.0 * p5 - q * (127.0 / 30720.0 * p7 - q * s);
        let s = 1.0 / 24.0 - q * (7.0 / 960.0 * p3 - q * s);
        let root = sqrt(q);
        -log(x + 1.0 / root) - x * q * root * s
    }

    /// Energies of wires: Eᵢ = ½ qᵢ Σⱼ qⱼ φ over all charges of the system, with all images along its axis (1 there, 0 along
    /// the others). Systems without one have no energy. Two charges on one point make it infinite.
    #[kernel(small, prefix(wire), fast(positions, strain))]
    fn energy_of_images(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        wire_axis: &[IVec3; System],
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let direction = wire_axis[b];
        let a = direction * cell[b];
        let a = a + a * strain[b];
        let is_wire = dot(direction, direction) > 0.0;
        let period2 = if is_wire { dot(a, a) } else { 1.0 };
        let mut potential = 0.0;
        let mut here = 0.0;
        for j in atoms.members(b) {
            let d = positions[j] - positions[i];
            let d = d + d * strain[b];
            let along = dot(d, a) / period2;
            let across = d - a * along;
            let w = dot(across, across) / period2;
            let s = along - nearest(along);
            let mut near = 0.0;
            let mut same = 0.0;
            for n in 0..21 {
                let x = s + ((n - 10) as Real);
                let r2 = w + x * x;
                if r2 > 0.0 {
                    near += 1.0 / sqrt(r2);
                } else {
                    same += 1.0;
                }
            }
            for side in 0..2 {
                near += images_beyond(10.5 + s * (2.0 * (side as Real) - 1.0), w);
            }
            potential += charges[j] * near;
            here += same;
        }
        let alone = 1.0 / (2.0 - min(here, 2.0));
        energy[i] = if is_wire { 0.5 * prefactor * alone / sqrt(period2) * charges[i] * potential } else { 0.0 };
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 1] = [&ENERGY_OF_IMAGES];

/// The ops `wire_summation`, with energies per atom, and `wire_summation_total`, per system.
pub(crate) fn ops() -> Result<Vec<Arc<Op>>> {
    let op = |per_system| {
        // Vectors along open axes may be zero.
        let op = charged_in("wire_summation", per_system, &[], Constraint::Finite)
            .explain(explain)
            .ints("wire_axis", &["System", "3"]);
        let (op, into) = energies(op, per_system);
        let op = op.step_as(&ENERGY_OF_IMAGES, &[("energy", into)]);
        summed(op, per_system, &["positions", "charges", "cell", "strain"])
    };
    [false, true].into_iter().map(op).collect()
}

/// Why a sum is infinite: an axis without a lattice vector, or two atoms on one point.
fn explain(args: &[Arg<'_>]) -> Option<Error> {
    let [Arg::Array(positions), _, Arg::Array(cell), ..] = args else { return None };
    let batch = args.iter().filter_map(Arg::structure).find_map(Structure::as_batch)?;
    let axis = args.iter().find_map(|arg| match arg {
        Arg::Array(view) => view.to_i32("wire_axis").ok(),
        _ => None,
    })?;
    let (r, h) = (positions.to_f64().ok()?, cell.to_f64().ok()?);
    for (b, axis) in axis.as_chunks::<3>().0.iter().enumerate().filter(|(_, axis)| **axis != [0; 3]) {
        let a: [f64; 3] =
            std::array::from_fn(|c| (0..3).map(|k| f64::from(axis[k]) * h[9 * b + 3 * k + c]).sum());
        let square = a.iter().map(|x| x * x).sum::<f64>();
        if square == 0.0 {
            return Some(Error::argument("cell", "a lattice vector along the periodic axis", "zero"));
        }
        let members: Vec<usize> = batch.members(b).collect();
        for (n, i) in members.iter().enumerate() {
            for j in &members[n + 1..] {
                let d: [f64; 3] = std::array::from_fn(|c| r[3 * j + c] - r[3 * i + c]);
                let turns = d.iter().zip(a).map(|(x, y)| x * y).sum::<f64>() / square;
                let apart = (0..3).map(|c| (d[c] - a[c] * turns.round()).powi(2)).sum::<f64>();
                if apart <= 1e-28 * square {
                    let got = format!("atoms {i} and {j} (image {})", 0.0 - turns.round());
                    return Some(Error::argument("positions", "no two atoms on one point", got));
                }
            }
        }
    }
    None
}
