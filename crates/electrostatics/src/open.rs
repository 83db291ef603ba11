//! Charges that are not periodic: molecules, clusters, droplets.
//!
//! All pairs of a system interact by 1/r, each in the image that its positions say: nothing looks at a cell, and no list
//! has to have them. Systems of a batch that are periodic take no part, and cost nothing.
//!
//! Pairs that are left out may lie on one point, where subtracting their 1/r would lose all digits. So 1/r is split there as
//! in Ewald's sum: erfc(αr)/r of a list that lacks these pairs, and erf(αr)/r of all. What erfc(αr) leaves at the cutoff of
//! the list is 4·10⁻²⁰, so that pairs beyond it are whole, too.

use crate::declare::{charged_in, coincident_charges, energies, exclusions, summed};
use madelung_core::op::{Arg, Constraint, Op};
use madelung_core::runtime::Kernel;
use madelung_core::structure::{Batch, Structure};
use madelung_core::{Error, Result};
use madelung_neighbors::ENTRY_FACTORS;
use std::sync::Arc;

madelung_core::kernels! {
    use crate::potential::coulomb::{full, long_range};

    /// Energies of open systems: Eᵢ = ½ qᵢ Σⱼ qⱼ/r over all charges of the system. Particles without charge may lie on others.
    #[kernel(prefix(open), fast(positions, charges), fast(positions, charges, strain))]
    fn energy_of_pairs(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        strain: &[Zero<Mat3>; System],
        is_open: &[i32; System],
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let is_summed = is_open[b] > 0.0;
        let mut potential = 0.0;
        for j in atoms.members(b) {
            let d = positions[j] - positions[i];
            let d = d + d * strain[b];
            let r = length(d);
            let is_apart = r > -abs(charges[i] * charges[j]);
            if is_summed && j != i && is_apart {
                potential += charges[j] * full(r);
            }
        }
        energy[i] = 0.5 * prefactor * charges[i] * potential;
    }

    /// Charges of open systems; those of others are 0.
    #[kernel(small, prefix(open))]
    fn charges_of_open(
        i: Atom,
        charges: &[Real; Atom],
        is_open: &[i32; System],
        atoms: &Batch<Atom, System>,
        open_charges: &mut [Real; Atom],
    ) {
        open_charges[i] = if is_open[atoms.of(i)] > 0.0 { charges[i] } else { 0.0 };
    }

    /// Splitting parameter of pairs within the cutoff of a list.
    #[kernel(small, prefix(open))]
    fn splitting(b: System, cutoff: Real, alpha: &mut [Real; System]) {
        alpha[b] = 6.5 / cutoff;
    }

    /// Long-range part of these energies: Eᵢ = ½ qᵢ Σⱼ qⱼ `long_range`(r) over all charges of the system.
    #[kernel(small, prefix(open), fast(positions, charges, strain))]
    fn long_range_energy(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        alpha: &[Real; System],
        strain: &[Zero<Mat3>; System],
        is_open: &[i32; System],
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let is_summed = is_open[b] > 0.0;
        let mut potential = 0.0;
        for j in atoms.members(b) {
            let d = positions[j] - positions[i];
            let d = d + d * strain[b];
            if is_summed && j != i {
                potential += charges[j] * long_range(dot(d, d), alpha[b]);
            }
        }
        energy[i] = 0.5 * prefactor * charges[i] * potential;
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 4] = [&ENERGY_OF_PAIRS, &CHARGES_OF_OPEN, &SPLITTING, &LONG_RANGE_ENERGY];

/// The ops `open_summation`, and `open_summation_without` with pairs that are left out, or scaled, and are not in its list;
/// with energies per atom, and, as `…_total`, per system. The kernels are those of listed and of excluded pairs.
pub(crate) fn ops(real_space: &'static Kernel, excluded: &'static Kernel) -> Result<Vec<Arc<Op>>> {
    // The cell of an open system is not looked at.
    let declared =
        |name, per_system| charged_in(name, per_system, &[], Constraint::Finite).ints("is_open", &["System"]);
    let whole = |per_system| {
        let (op, into) = energies(declared("open_summation", per_system).explain(explain), per_system);
        let op = op.step_as(&ENERGY_OF_PAIRS, &[("energy", into)]);
        summed(op, per_system, &["positions", "charges", "cell", "strain"])
    };
    let without = |per_system| {
        let op = declared("open_summation_without", per_system)
            .explain(explain_listed)
            .pairs("pairs", "Atom")
            .must_be(Constraint::Full);
        let (op, into) = energies(exclusions(op), per_system);
        let of_open = [("charges", "open_charges"), ("energy", into)];
        let op = op
            .scratch("alpha", &["System"])
            .scratch("open_charges", &["Atom"])
            .step(&CHARGES_OF_OPEN)
            .step(&SPLITTING)
            .step_as(&LONG_RANGE_ENERGY, &of_open)
            .step_as(real_space, &of_open)
            .step(&ENTRY_FACTORS)
            .step_as(excluded, &of_open);
        summed(op, per_system, &[])
    };
    Ok(vec![whole(false)?, whole(true)?, without(false)?, without(true)?])
}

/// The batch of a call, and which of its systems are open.
fn systems<'a>(args: &[Arg<'a>]) -> Option<(&'a Batch<'a>, Vec<i32>)> {
    let is_open = args.iter().find_map(|arg| match arg {
        Arg::Array(view) => view.to_i32("is_open").ok(),
        _ => None,
    })?;
    let batch = args.iter().filter_map(Arg::structure).find_map(Structure::as_batch)?;
    Some((batch, is_open.into_owned()))
}

/// Why a sum is infinite: two charges on one point.
fn explain(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let [Arg::Array(positions), Arg::Array(charges), ..] = args else { return None };
    let (batch, is_open) = systems(args)?;
    let (positions, q) = (positions.to_f64().ok()?, charges.to_f64().ok()?);
    let points = positions.as_chunks::<3>().0;
    let pairs = (0..is_open.len()).filter(|b| is_open[*b] > 0).flat_map(|b| {
        let atoms = batch.members(b);
        atoms.clone().flat_map(move |i| (i + 1..atoms.end).map(move |j| (i, j)))
    });
    let (i, j) = pairs.into_iter().find(|(i, j)| points[*i] == points[*j] && q[*i] * q[*j] != 0.0)?;
    let got = format!("atoms {i} and {j}");
    Some(Error::argument("positions", "no two atoms on one point", got))
}

/// Error of a sum over a list that is infinite: two charges on one point.
fn explain_listed(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let (batch, is_open) = systems(args)?;
    coincident_charges(args, |i| is_open[batch.of(i)] > 0)
}
