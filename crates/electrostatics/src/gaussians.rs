//! Gaussian charges, each of its own width.

use crate::declare::{charged_in, energies, summed};
use madelung_core::cell::Cell;
use madelung_core::op::{Arg, Constraint, Op};
use madelung_core::runtime::Kernel;
use madelung_core::{Error, Result};
use madelung_neighbors::{ENTRY_FACTORS, excluded_pairs};
use std::sync::Arc;

/// The distance beyond which Gaussian charges of widths up to σ are points, for a relative error, or to the last digit:
/// erfc(r/2σ) is below exp(−r²/4σ²), and 7e-15 at 11 σ.
pub fn reach(widest: f64, accuracy: Option<f64>) -> f64 {
    accuracy.map_or(11.0, |accuracy| 2.0 * (-accuracy.ln()).sqrt()) * widest
}

madelung_core::kernels! {
    use crate::potential::coulomb::{self_term, short_range};

    /// Interaction with the uniform background of a cell, 2π/V, times `background`: 1 where there is one and 0 where not.
    #[kernel(small)]
    fn gaussian_backgrounds(
        b: System,
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        background: &[Real; System],
        background_scale: &mut [Real; System],
    ) {
        let h = cell[b];
        let g = h + h * strain[b];
        let volume = abs(dot(row(g, 0), cross(row(g, 1), row(g, 2))));
        // Cells without a background may span none; one with a vector of zero, an open axis, has none.
        let shortest = min(dot(row(g, 0), row(g, 0)), min(dot(row(g, 1), row(g, 1)), dot(row(g, 2), row(g, 2))));
        let is_needed = volume > 0.0 || (abs(background[b]) > 0.0 && shortest > 0.0);
        background_scale[b] = if is_needed { 2.0 * PI * background[b] / volume } else { 0.0 };
    }

    /// Σ q and Σ q σ².
    #[kernel(small)]
    fn gaussian_moments(
        i: Atom,
        charges: &[Real; Atom],
        widths: &[Real; Atom],
        atoms: &Batch<Atom, System>,
        total_charge: &mut [Real; System],
        charge_spread: &mut [Real; System],
    ) {
        total_charge[atoms.of(i)] += charges[i];
        charge_spread[atoms.of(i)] += charges[i] * widths[i] * widths[i];
    }

    /// Energy of Gaussian charges less that of point charges: Eᵢ = ½ qᵢ [−Σⱼ qⱼ erfc(r/√(2(σᵢ²+σⱼ²)))/r + qᵢ/(σᵢ√π) + (2π/V)
    /// (Σ q σ² + σᵢ² Σ q)], over r < r_c.
    #[kernel(prefix(gaussian), fast(positions, charges, strain))]
    fn gaussian_energy(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        cell: &[Mat3; System],
        widths: &[Real; Atom],
        strain: &[Zero<Mat3>; System],
        background_scale: &[Real; System],
        total_charge: &[Real; System],
        charge_spread: &[Real; System],
        cutoff: Real,
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let square = widths[i] * widths[i];
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let d = d + d * strain[b];
            let r = length(d);
            if r < cutoff {
                let alpha = 1.0 / sqrt(2.0 * (square + widths[j] * widths[j]));
                // On one point its limit and that of 1/r, which the sum of point charges lacks there, leave a finite part.
                if r > 0.0 {
                    e += charges[j] * short_range(r, alpha);
                } else {
                    e -= charges[j] * self_term(alpha);
                }
            }
        }
        let own = charges[i] / (widths[i] * sqrt(PI));
        let uniform = background_scale[b] * (charge_spread[b] + square * total_charge[b]);
        energy[i] = 0.5 * prefactor * charges[i] * (own + uniform - e);
    }

    /// Pairs that are left out of that list, with their factors f: Eᵢ = −½ qᵢ Σⱼ f qⱼ erfc(r/√(2(σᵢ²+σⱼ²)))/r, over r < r_c.
    #[kernel(interpreted, fast(positions, charges, strain))]
    fn gaussian_excluded(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        cell: &[Mat3; System],
        widths: &[Real; Atom],
        entry_factors: &[Real; Excluded],
        strain: &[Zero<Mat3>; System],
        cutoff: Real,
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        excluded: &Pairs<Atom, Atom, Excluded>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let square = widths[i] * widths[i];
        let mut e = 0.0;
        for (j, shift, p) in excluded.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let r = length(d + d * strain[b]);
            if r < cutoff {
                let alpha = 1.0 / sqrt(2.0 * (square + widths[j] * widths[j]));
                // As above: what a sum of point charges lacks there.
                e += entry_factors[p] * charges[j] * if r > 0.0 { short_range(r, alpha) } else { -self_term(alpha) };
            }
        }
        energy[i] = -0.5 * prefactor * charges[i] * e;
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 4] =
    [&GAUSSIAN_BACKGROUNDS, &GAUSSIAN_MOMENTS, &GAUSSIAN_ENERGY, &GAUSSIAN_EXCLUDED];

/// The ops `gaussian_correction`, with energies per atom, and `gaussian_correction_total`, per system; as
/// `gaussian_exclusions` those of pairs that are left out of its list, with their factors.
pub(crate) fn ops() -> Result<Vec<Arc<Op>>> {
    let op = |per_system| {
        let op = charged_in("gaussian_correction", per_system, &[], Constraint::Finite)
            .explain(no_volume)
            .lattice("positions", "cell", "atoms")
            .real("widths", &["Atom"])
            .must_be(Constraint::Positive)
            .real("background", &["System"])
            .must_be(Constraint::Finite)
            .pairs("pairs", "Atom")
            .must_be(Constraint::Full)
            .scalar("cutoff")
            .must_be(Constraint::Positive);
        let (op, into) = energies(op, per_system);
        let op = op
            .scratch("background_scale", &["System"])
            .scratch("total_charge", &["System"])
            .scratch("charge_spread", &["System"])
            .step(&GAUSSIAN_BACKGROUNDS)
            .step(&GAUSSIAN_MOMENTS)
            .step_as(&GAUSSIAN_ENERGY, &[("energy", into)]);
        summed(op, per_system, &["positions", "charges", "cell", "strain", "widths"])
    };
    let of_excluded = |per_system| {
        let op = charged_in("gaussian_exclusions", per_system, &[], Constraint::OpenCell)
            .lattice("positions", "cell", "atoms")
            .real("widths", &["Atom"])
            .must_be(Constraint::Positive);
        let op = excluded_pairs(op).scalar("cutoff").must_be(Constraint::Positive);
        let (op, into) = energies(op, per_system);
        summed(op.step(&ENTRY_FACTORS).step_as(&GAUSSIAN_EXCLUDED, &[("energy", into)]), per_system, &[])
    };
    [op(false), op(true), of_excluded(false), of_excluded(true)].into_iter().collect()
}

/// A background of a cell that spans no volume.
fn no_volume(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let [_, _, Arg::Array(cell), _, _, _, _, Arg::Array(background), ..] = args else { return None };
    let (h, background) = (cell.to_f64().ok()?, background.to_f64().ok()?);
    let cells = h.as_chunks::<3>().0.as_chunks::<3>().0.iter().zip(background).enumerate();
    cells.filter(|(_, (_, scale))| *scale != 0.0).find_map(|(b, (rows, _))| match Cell::from_rows(*rows) {
        Err(Error::Argument { expected, got, .. }) => {
            Some(Error::argument("cell", expected, format!("{got} (system {b})")))
        }
        _ => None,
    })
}
