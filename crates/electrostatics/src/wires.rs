//! Charges that are periodic along one axis: wires, polymers, nanotubes.
//!
//! A pair interacts with 10 images to either side term by term, and with all others by the Euler–Maclaurin formula
//! (midpoint form: NIST Digital Library of Mathematical Functions, §2.10(i) and §24.17): an integral, and odd derivatives of
//! 1/r, which are Legendre polynomials. The first term that is left out is 0.08 (L/d)¹⁴ of the potential 1/L at the period L
//! and the least distance d = 10 L of images beyond: 8e-16, wherever the charges are. There is no parameter to choose.
//!
//! Σ 1/r grows as 2 ln n/L with the number n of images, so potentials of a charged wire are those of Σ_{|m|≤n} 1/r − 2 ln(2n)/L:
//! far from a charge and its images −(2/L) ln(ρ/L), at the distance ρ from their axis. Neutral wires do not depend on that.
//!
//! Pairs that are left out may lie on one point, where subtracting their 1/r would lose all digits. So nearest images are split
//! there as in Ewald's sum: erfc(αr)/r of a list that lacks these pairs, and erf(αr)/r of all.

use crate::declare::{charged_in, coincident_charges, energies, exclusions, summed};
use madelung_core::op::{Arg, Constraint, Op};
use madelung_core::runtime::Kernel;
use madelung_core::structure::Structure;
use madelung_core::{Error, Result};
use madelung_neighbors::ENTRY_FACTORS;
use std::sync::Arc;

madelung_core::kernels! {
    use crate::potential::coulomb::long_range;

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

    /// No splitting: the pairs of wires are summed whole.
    #[kernel(small, prefix(wire))]
    fn unsplit(b: System, alpha: &mut [Real; System]) {
        alpha[b] = 0.0;
    }

    /// Splitting parameters of wires whose nearest images are in a list: what erfc(αr) leaves at half a period, or at the
    /// cutoff of the list, is 4·10⁻²⁰. Systems without an axis have any.
    #[kernel(small, prefix(wire))]
    fn splitting(
        b: System,
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        wire_axis: &[IVec3; System],
        cutoff: Real,
        alpha: &mut [Real; System],
    ) {
        let direction = wire_axis[b];
        let a = direction * cell[b];
        let a = a + a * strain[b];
        let is_wire = dot(direction, direction) > 0.0;
        alpha[b] = if is_wire { max(13.0 / length(a), 6.5 / cutoff) } else { 1.0 };
    }

    /// Energies of wires: Eᵢ = ½ qᵢ Σⱼ qⱼ φ over all charges of the system, with all images along its axis (1 there, 0 along
    /// the others). Systems without one have no energy. Of nearest images a list has the part erfc(αr)/r, where α is not 0;
    /// where it is, two charges on one point make the energy infinite, and what has no charge adds nothing there.
    #[kernel(small, prefix(wire), fast(positions, strain))]
    fn energy_of_images(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        cell: &[Mat3; System],
        alpha: &[Real; System],
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
        let split = alpha[b] * sqrt(period2);
        let mut potential = 0.0;
        for j in atoms.members(b) {
            let d = positions[j] - positions[i];
            let d = d + d * strain[b];
            let along = dot(d, a) / period2;
            let across = d - a * along;
            let w = dot(across, across) / period2;
            let s = along - nearest(along);
            let r2 = w + s * s;
            let first = if j == i {
                0.0
            } else if split > 0.0 {
                long_range(r2, split)
            } else if r2 > -abs(charges[i] * charges[j]) {
                1.0 / sqrt(r2)
            } else {
                0.0
            };
            let mut others = 0.0;
            for n in 0..10 {
                let x = (n + 1) as Real;
                others += 1.0 / sqrt(w + (s + x) * (s + x)) + 1.0 / sqrt(w + (s - x) * (s - x));
            }
            for side in 0..2 {
                others += images_beyond(10.5 + s * (2.0 * (side as Real) - 1.0), w);
            }
            if is_wire {
                potential += charges[j] * (first + others);
            }
        }
        energy[i] = 0.5 * prefactor / sqrt(period2) * charges[i] * potential;
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 3] = [&UNSPLIT, &SPLITTING, &ENERGY_OF_IMAGES];

/// The ops `wire_summation`, and `wire_summation_without` with pairs that are left out, or scaled, and are not in its list;
/// with energies per atom, and, as `…_total`, per system. The kernels are those of listed and of excluded pairs.
pub(crate) fn ops(real_space: &'static Kernel, excluded: &'static Kernel) -> Result<Vec<Arc<Op>>> {
    // Vectors along open axes may be zero.
    let declared = |name, per_system| charged_in(name, per_system, &[], Constraint::Finite);
    let whole = |per_system| {
        let op = declared("wire_summation", per_system).explain(explain).ints("wire_axis", &["System", "3"]);
        let (op, into) = energies(op.scratch("alpha", &["System"]), per_system);
        let op = op.step(&UNSPLIT).step_as(&ENERGY_OF_IMAGES, &[("energy", into)]);
        summed(op, per_system, &["positions", "charges", "cell", "strain"])
    };
    let without = |per_system| {
        let op = declared("wire_summation_without", per_system)
            .explain(|_, args| no_vector(args).or_else(|| coincident_charges(args, |_| true)))
            .ints("wire_axis", &["System", "3"])
            .pairs("pairs", "Atom")
            .must_be(Constraint::Full);
        let (op, into) = energies(exclusions(op).scratch("alpha", &["System"]), per_system);
        let op = op
            .step(&SPLITTING)
            .step_as(&ENERGY_OF_IMAGES, &[("energy", into)])
            .step_as(real_space, &[("energy", into)])
            .step(&ENTRY_FACTORS)
            .step_as(excluded, &[("energy", into)]);
        summed(op, per_system, &[])
    };
    Ok(vec![whole(false)?, whole(true)?, without(false)?, without(true)?])
}

/// Positions, charges, and the system and lattice vector of each wire.
type Wires = (Vec<f64>, Vec<f64>, Vec<(usize, [f64; 3])>);

fn wires(args: &[Arg<'_>]) -> Option<Wires> {
    let [Arg::Array(positions), Arg::Array(charges), Arg::Array(cell), ..] = args else { return None };
    let axis = args.iter().find_map(|arg| match arg {
        Arg::Array(view) => view.to_i32("wire_axis").ok(),
        _ => None,
    })?;
    let (r, q, h) = (positions.to_f64().ok()?, charges.to_f64().ok()?, cell.to_f64().ok()?);
    let vector = |b: usize, axis: &[i32; 3]| {
        std::array::from_fn(|c| (0..3).map(|k| f64::from(axis[k]) * h[9 * b + 3 * k + c]).sum())
    };
    let axes = axis.as_chunks::<3>().0.iter().enumerate().filter(|(_, axis)| **axis != [0; 3]);
    Some((r, q, axes.map(|(b, axis)| (b, vector(b, axis))).collect()))
}

/// An axis without a lattice vector.
fn no_vector(args: &[Arg<'_>]) -> Option<Error> {
    let (.., wires) = wires(args)?;
    let zero = wires.iter().any(|(_, a)| *a == [0.0; 3]);
    zero.then(|| Error::argument("cell", "a lattice vector along the periodic axis", "zero"))
}

/// Why a sum is infinite: an axis without a lattice vector, or two charges on one point.
fn explain(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    if let Some(error) = no_vector(args) {
        return Some(error);
    }
    let batch = args.iter().filter_map(Arg::structure).find_map(Structure::as_batch)?;
    let (r, q, wires) = wires(args)?;
    for (b, a) in wires {
        let square = a.iter().map(|x| x * x).sum::<f64>();
        let members: Vec<usize> = batch.members(b).collect();
        for (n, i) in members.iter().enumerate() {
            for j in members[n + 1..].iter().filter(|j| q[*i] * q[**j] != 0.0) {
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
