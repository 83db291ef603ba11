//! Charges that are not periodic along all axes: the correction of an Ewald sum for slabs, and the damped shifted force.

use crate::declare::{charged, charged_in, coincident_charges, energies, summed};
use madelung_core::Result;
use madelung_core::op::{Constraint, Op};
use madelung_core::runtime::Kernel;
use std::sync::Arc;

madelung_core::kernels! {
    use crate::potential::coulomb::short_range;

    /// Dual vector of the axis along which a slab is open (1 there, 0 along the others), in the unstrained cell, so that
    /// r · dual does not change under strain; and π L²/V = π V/A² with the period L along the normal and the area A of the
    /// strained cell. Zeros for a system without an open axis.
    #[kernel(small)]
    fn slab(
        b: System,
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        open_axis: &[IVec3; System],
        slab_dual: &mut [Vec3; System],
        slab_scale: &mut [Real; System],
    ) {
        let h = cell[b];
        let bc = cross(row(h, 1), row(h, 2));
        let area = open_axis[b] * mat3(bc, cross(row(h, 2), row(h, 0)), cross(row(h, 0), row(h, 1)));
        slab_dual[b] = area * (1.0 / dot(row(h, 0), bc));
        let g = h + h * strain[b];
        let bc = cross(row(g, 1), row(g, 2));
        let area = open_axis[b] * mat3(bc, cross(row(g, 2), row(g, 0)), cross(row(g, 0), row(g, 1)));
        let square = dot(area, area);
        slab_scale[b] = if square > 0.0 { PI * abs(dot(row(g, 0), bc)) / square } else { 0.0 };
    }

    /// Height of each atom over the plane of its slab, in units of the period.
    #[kernel(small)]
    fn slab_heights(
        i: Atom,
        positions: &[Vec3; Atom],
        slab_dual: &[Vec3; System],
        atoms: &Batch<Atom, System>,
        height: &mut [Real; Atom],
    ) {
        height[i] = dot(positions[i], slab_dual[atoms.of(i)]);
    }

    /// Moments of the charges along the normal, Σ q, Σ q s and Σ q s².
    #[kernel(small)]
    fn slab_moments(
        i: Atom,
        charges: &[Real; Atom],
        height: &[Real; Atom],
        atoms: &Batch<Atom, System>,
        total_charge: &mut [Real; System],
        slab_dipole: &mut [Real; System],
        slab_quadrupole: &mut [Real; System],
    ) {
        let q = charges[i];
        let s = height[i];
        total_charge[atoms.of(i)] += q;
        slab_dipole[atoms.of(i)] += q * s;
        slab_quadrupole[atoms.of(i)] += q * s * s;
    }

    /// Correction of a sum over a lattice for charges that are no lattice along the normal: Eᵢ = −(πL²/V) qᵢ (Q sᵢ² − 2 sᵢ Σ q s +
    /// Σ q s² + Q²/6) (Yeh and Berkowitz, J. Chem. Phys. 111, 3155 (1999); charged slabs: Ballenegger, Arnold and Cerdà,
    /// J. Chem. Phys. 131, 094107 (2009), eq. 29).
    #[kernel(small)]
    fn slab_energy(
        i: Atom,
        charges: &[Real; Atom],
        height: &[Real; Atom],
        total_charge: &[Real; System],
        slab_dipole: &[Real; System],
        slab_quadrupole: &[Real; System],
        slab_scale: &[Real; System],
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let s = height[i];
        let total = total_charge[b];
        let moments = s * (total * s - 2.0 * slab_dipole[b]) + slab_quadrupole[b] + total / 6.0;
        energy[i] = -prefactor * slab_scale[b] * charges[i] * moments;
    }

    /// Damped shifted force (Fennell and Gezelter, J. Chem. Phys. 124, 234104 (2006), eq. 18): with v(r) = erfc(αr)/r,
    /// Eᵢ = ½ qᵢ Σⱼ qⱼ [v(r) − v(r_c) − v′(r_c)(r − r_c)] over r < r_c, and for a charge with the image of itself at the cutoff
    /// ½ qᵢ² times the limit of that bracket without 1/r at r = 0.
    #[kernel(prefix(damped), fast(positions), fast(positions, strain), fast(positions, charges, strain))]
    fn shifted_force(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        cell: &[Mat3; System],
        alpha: &[Real; System],
        strain: &[Zero<Mat3>; System],
        cutoff: Real,
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let a = alpha[b];
        let slope = -(short_range(cutoff, a) + 2.0 * a / sqrt(PI) * exp(-(a * cutoff) * (a * cutoff))) / cutoff;
        let level = short_range(cutoff, a) - slope * cutoff;
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let d = d + d * strain[b];
            let r = length(d);
            let is_apart = r > -abs(charges[i] * charges[j]);
            if r < cutoff && is_apart {
                e += charges[j] * (short_range(r, a) - level - slope * r);
            }
        }
        let own = -(level + 2.0 * a / sqrt(PI)) * charges[i];
        energy[i] = 0.5 * prefactor * charges[i] * (e + own);
    }
}

/// The kernels of this module.
pub(crate) const KERNELS: [&Kernel; 5] = [&SLAB, &SLAB_HEIGHTS, &SLAB_MOMENTS, &SLAB_ENERGY, &SHIFTED_FORCE];

/// The ops `slab_correction` and `damped_shifted_force`, with energies per atom, and, as `…_total`, with energies per system.
pub(crate) fn ops() -> Result<Vec<Arc<Op>>> {
    let both = [false, true];
    let slabs = both.map(|per_system| {
        let op = charged("slab_correction", per_system, &[]).ints("open_axis", &["System", "3"]);
        let (op, into) = energies(op, per_system);
        let op = op
            .scratch("slab_dual", &["System", "3"])
            .scratch("slab_scale", &["System"])
            .scratch("height", &["Atom"])
            .scratch("total_charge", &["System"])
            .scratch("slab_dipole", &["System"])
            .scratch("slab_quadrupole", &["System"])
            .step(&SLAB)
            .step(&SLAB_HEIGHTS)
            .step(&SLAB_MOMENTS)
            .step_as(&SLAB_ENERGY, &[("energy", into)]);
        summed(op, per_system, &["positions", "charges", "cell", "strain"])
    });
    let forces = both.map(|per_system| {
        let op = charged_in("damped_shifted_force", per_system, &["alpha"], Constraint::OpenCell)
            .explain(|_, args| coincident_charges(args, |_| true))
            .lattice("positions", "cell", "atoms")
            .pairs("pairs", "Atom")
            .must_be(Constraint::Full)
            .scalar("cutoff")
            .must_be(Constraint::Positive);
        let (op, into) = energies(op, per_system);
        let op = op.step_as(&SHIFTED_FORCE, &[("energy", into)]);
        summed(op, per_system, &["positions", "charges", "cell", "alpha", "strain"])
    });
    slabs.into_iter().chain(forces).collect()
}
