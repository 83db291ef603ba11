//! The kernels of charge sums.
//!
//! Per-atom energies in e²/L; `alpha` in 1/L; `strain` is the zero-valued ε of r → r(1+ε), cell → cell(1+ε).

/// The kernels and ops of a sum over the lattice, made from the six functions of a [`potential`](crate::potential):
///
/// ```text
/// charge_sum! {
///     /// Sums of exp(−κr)/r.
///     pub static YUKAWA: yukawa = crate::potential::yukawa[kappa];
/// }
/// ```
///
/// defines a [`ChargeSum`](crate::ChargeSum) of that name; the names of its kernels and ops start with the word after
/// the colon. The potential's own parameters, in brackets, are differentiable arrays with an element per system.
#[macro_export]
macro_rules! charge_sum {
    (
        $(#[$attribute:meta])*
        $visibility:vis static $name:ident: $prefix:ident = $($potential:ident)::+ [$($parameter:ident),*];
    ) => {
        $(#[$attribute])*
        $visibility static $name: $crate::ChargeSum = {
            $crate::__charge_kernels! {
                [$crate::__core::kernels] $prefix [$($parameter),*]
                use $($potential)::+::{background, long_range, long_range_k2, self_term, short_range};
            }
            $crate::ChargeSum {
                prefix: stringify!($prefix),
                parameters: &[$(stringify!($parameter)),*],
                real_space: &REAL_SPACE,
                exclusions: &EXCLUSIONS,
                green_function: &GREEN_FUNCTION,
                reciprocal_space: &RECIPROCAL_SPACE,
                mesh_energy: &MESH_ENERGY,
                own_energy: &OWN_ENERGY,
                mesh_potential: &MESH_POTENTIAL,
                saves_gradients: true,
            }
        };
    };
}

/// The kernels of [`charge_sum!`], handed on to a macro: one that makes them, or one that keeps their text.
#[doc(hidden)]
#[macro_export]
macro_rules! __charge_kernels {
    ([$($made:tt)+] $prefix:ident [$($parameter:ident),*] $($import:tt)*) => {
        $($made)+! {
            $($import)*

            /// The potential of a charge's own long-range part and of the background, which each count half.
            #[func]
            fn own_potential(
                charge: Real, total_charge: Real, volume: Real, alpha: Real $(, $parameter: Real)*
            ) -> Real {
                0.5 * (self_term(alpha $(, $parameter)*) * charge
                    + background(volume, alpha $(, $parameter)*) * total_charge)
            }

            /// Real-space part of the sum: Eᵢ = ½ qᵢ Σⱼ qⱼ `short_range`(r) over the pairs with r < cutoff.
            /// A particle without charge may lie on another one. Its long-range part, which the waves have, is then
            /// taken away from the derivative by its charge, twice: once for the row of either.
            #[kernel(prefix($prefix), fast(positions), fast(positions, strain), fast(positions, charges, strain))]
            fn real_space(
                i: Atom,
                positions: &[Vec3; Atom],
                charges: &[Real; Atom],
                cell: &[Mat3; System],
                alpha: &[Real; System],
                $($parameter: &[Real; System],)*
                strain: &[Zero<Mat3>; System],
                cutoff: Real,
                prefactor: Real,
                atoms: &Batch<Atom, System>,
                pairs: &Pairs<Atom>,
                energy: &mut [Real; Atom],
            ) {
                let b = atoms.of(i);
                let at_zero = self_term(alpha[b] $(, $parameter[b])*);
                let mut e = 0.0;
                for (j, shift) in pairs.row(i) {
                    let d = positions[j] - positions[i] + shift * cell[b];
                    let d = d + d * strain[b];
                    let r = length(d);
                    let is_apart = r > -abs(charges[i] * charges[j]);
                    if r < cutoff {
                        if is_apart {
                            e += charges[j] * short_range(r, alpha[b] $(, $parameter[b])*);
                        } else {
                            e -= 2.0 * (charges[j] - stop_gradient(charges[j])) * at_zero;
                        }
                    }
                }
                energy[i] = 0.5 * prefactor * charges[i] * e;
            }

            /// Pairs that are left out of the list, in the sum with their factors f: Eᵢ = ½ qᵢ Σⱼ qⱼ [f `short_range`(r) −
            /// (1 − f) `long_range`(r)], each part as far as `real` and `reciprocal` (0 or 1) count it. The long-range
            /// part, of which the sum over waves has all pairs, is smooth at r = 0.
            #[kernel(small, prefix($prefix), fast(positions), fast(positions, strain), fast(positions, charges, strain))]
            fn exclusions(
                i: Atom,
                positions: &[Vec3; Atom],
                charges: &[Real; Atom],
                cell: &[Mat3; System],
                alpha: &[Real; System],
                $($parameter: &[Real; System],)*
                entry_factors: &[Real; Excluded],
                strain: &[Zero<Mat3>; System],
                cutoff: Real,
                real: Real,
                reciprocal: Real,
                prefactor: Real,
                atoms: &Batch<Atom, System>,
                excluded: &Pairs<Atom, Atom, Excluded>,
                energy: &mut [Real; Atom],
            ) {
                let b = atoms.of(i);
                let at_zero = self_term(alpha[b] $(, $parameter[b])*);
                let mut e = 0.0;
                for (j, shift, p) in excluded.row(i) {
                    let d = positions[j] - positions[i] + shift * cell[b];
                    let d = d + d * strain[b];
                    let r2 = dot(d, d);
                    let f = entry_factors[p];
                    let is_apart = r2 > -abs(real * f * (charges[i] * charges[j]));
                    let near = if r2 < cutoff * cutoff {
                        f * if is_apart {
                            short_range(sqrt(r2), alpha[b] $(, $parameter[b])*)
                        } else {
                            -at_zero
                        }
                    } else {
                        0.0
                    };
                    let far = (1.0 - f) * long_range(r2, alpha[b] $(, $parameter[b])*);
                    e += charges[j] * (real * near - reciprocal * far);
                }
                energy[i] = 0.5 * prefactor * charges[i] * e;
            }

            /// Green function of a wave vector and its opposite: 2 · `long_range_k2`(k²).
            #[kernel(prefix($prefix))]
            fn green_function(
                k: Wave,
                wave_basis: &[Mat3; System],
                volume: &[Real; System],
                alpha: &[Real; System],
                $($parameter: &[Real; System],)*
                miller: &[IVec3; Wave],
                waves: &Batch<Wave, System>,
                green: &mut [Real; Wave],
            ) {
                let b = waves.of(k);
                let kvec = miller[k] * wave_basis[b];
                let k2 = dot(kvec, kvec);
                green[k] = 2.0 * long_range_k2(k2, volume[b], alpha[b] $(, $parameter[b])*);
            }

            /// Reciprocal part: Eᵢ = ½ qᵢ [Σ_k green(k) Re S(k)* exp(i k·rᵢ) − qᵢ `self_term` − Q `background`].
            #[kernel(prefix($prefix))]
            fn reciprocal_space(
                i: Atom,
                fraction: &[Vec3; Atom],
                charges: &[Real; Atom],
                green: &[Real; Wave],
                real: &[Real; Wave],
                imaginary: &[Real; Wave],
                total_charge: &[Real; System],
                volume: &[Real; System],
                alpha: &[Real; System],
                $($parameter: &[Real; System],)*
                prefactor: Real,
                miller: &[IVec3; Wave],
                atoms: &Batch<Atom, System>,
                waves: &Batch<Wave, System>,
                energy: &mut [Real; Atom],
            ) {
                let b = atoms.of(i);
                let mut potential = 0.0;
                for k in waves.members(b) {
                    let turns = dot(miller[k], fraction[i]);
                    let phase = 2.0 * PI * (turns - nearest(turns));
                    potential += green[k] * (real[k] * cos(phase) + imaginary[k] * sin(phase));
                }
                let own = own_potential(charges[i], total_charge[b], volume[b], alpha[b] $(, $parameter[b])*);
                energy[i] = prefactor * charges[i] * (0.5 * potential - own);
            }

            /// Energy of a mesh, wave by wave: ½ Σ_k `long_range_k2`(k²) m(k) |S(k)|² with the structure factor S of
            /// the charges on the mesh and the modulus m of its splines (smooth particle mesh Ewald: Essmann et al.,
            /// J. Chem. Phys. 103, 8577 (1995), eq. 4.7, with another modulus).
            #[kernel(prefix($prefix), fast(real, imaginary), fast(real, imaginary, wave_basis, volume))]
            fn mesh_energy(
                w: Wave,
                real: &[Real; Wave],
                imaginary: &[Real; Wave],
                wave_basis: &[Mat3; System],
                volume: &[Real; System],
                alpha: &[Real; System],
                $($parameter: &[Real; System],)*
                prefactor: Real,
                mesh: &Mesh<System, Node, Wave>,
                energy: &mut [Real; System],
            ) {
                let b = mesh.system(w);
                let kvec = mesh.wave(w) * wave_basis[b];
                let k2 = dot(kvec, kvec);
                let green = if k2 > 0.0 { long_range_k2(k2, volume[b], alpha[b] $(, $parameter[b])*) } else { 0.0 };
                let square = real[w] * real[w] + imaginary[w] * imaginary[w];
                energy[b] += 0.5 * prefactor * mesh.count(w) * mesh.modulus(w) * green * square;
            }

            /// Energies of charges with themselves and the background: −qᵢ `own_potential`.
            #[kernel(prefix($prefix))]
            fn own_energy(
                i: Atom,
                charges: &[Real; Atom],
                total_charge: &[Real; System],
                volume: &[Real; System],
                alpha: &[Real; System],
                $($parameter: &[Real; System],)*
                prefactor: Real,
                atoms: &Batch<Atom, System>,
                energy: &mut [Real; Atom],
            ) {
                let b = atoms.of(i);
                let own = own_potential(charges[i], total_charge[b], volume[b], alpha[b] $(, $parameter[b])*);
                energy[i] = -prefactor * charges[i] * own;
            }

            /// Waves of the potential of a mesh: `long_range_k2`(k²) m(k) S(k).
            #[kernel(prefix($prefix))]
            fn mesh_potential(
                w: Wave,
                real: &[Real; Wave],
                imaginary: &[Real; Wave],
                wave_basis: &[Mat3; System],
                volume: &[Real; System],
                alpha: &[Real; System],
                $($parameter: &[Real; System],)*
                mesh: &Mesh<System, Node, Wave>,
                potential_real: &mut [Real; Wave],
                potential_imaginary: &mut [Real; Wave],
            ) {
                let b = mesh.system(w);
                let kvec = mesh.wave(w) * wave_basis[b];
                let k2 = dot(kvec, kvec);
                let green = if k2 > 0.0 { long_range_k2(k2, volume[b], alpha[b] $(, $parameter[b])*) } else { 0.0 };
                let factor = mesh.modulus(w) * green;
                potential_real[w] = factor * real[w];
                potential_imaginary[w] = factor * imaginary[w];
            }
        }
    };
}

/// The text of the kernels of a potential without name: `PREFIX` stands for its prefix, and what begins with `PARAMETER`
/// behind a comma for as many as it has parameters.
pub(crate) const TEXT: &str = __charge_kernels!([stringify] PREFIX [PARAMETER]);

// The kernels that do not depend on the potential.
madelung_core::kernels! {
    /// The dual basis of the unstrained cell (rows, a·dual = δ), and the wave vectors' basis (rows, with 2π) and volume
    /// of the strained cell. A phase k·r does not change under strain, so phases use the dual basis of the unstrained
    /// cell.
    #[kernel]
    pub(crate) fn lattice(
        b: System,
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        dual: &mut [Mat3; System],
        wave_basis: &mut [Mat3; System],
        volume: &mut [Real; System],
    ) {
        let h = cell[b];
        let bc = cross(row(h, 1), row(h, 2));
        let ca = cross(row(h, 2), row(h, 0));
        let ab = cross(row(h, 0), row(h, 1));
        let inverse = 1.0 / dot(row(h, 0), bc);
        dual[b] = mat3(bc * inverse, ca * inverse, ab * inverse);
        let g = h + h * strain[b];
        let bc = cross(row(g, 1), row(g, 2));
        let ca = cross(row(g, 2), row(g, 0));
        let ab = cross(row(g, 0), row(g, 1));
        let det = dot(row(g, 0), bc);
        let twopi = 2.0 * PI / det;
        wave_basis[b] = mat3(bc * twopi, ca * twopi, ab * twopi);
        volume[b] = abs(det);
    }

    /// Fractional coordinates, wrapped to the cell around the origin.
    #[kernel]
    pub(crate) fn fractional(
        i: Atom,
        positions: &[Vec3; Atom],
        dual: &[Mat3; System],
        atoms: &Batch<Atom, System>,
        fraction: &mut [Vec3; Atom],
    ) {
        let m = dual[atoms.of(i)];
        let r = positions[i];
        let s = vec3(dot(r, row(m, 0)), dot(r, row(m, 1)), dot(r, row(m, 2)));
        fraction[i] = s - vec3(nearest(s.x), nearest(s.y), nearest(s.z));
    }

    /// Structure factor S(k) = Σⱼ qⱼ exp(i k·rⱼ).
    #[kernel]
    pub(crate) fn structure_factor(
        k: Wave,
        fraction: &[Vec3; Atom],
        charges: &[Real; Atom],
        miller: &[IVec3; Wave],
        waves: &Batch<Wave, System>,
        atoms: &Batch<Atom, System>,
        real: &mut [Real; Wave],
        imaginary: &mut [Real; Wave],
    ) {
        let mut re = 0.0;
        let mut im = 0.0;
        for j in atoms.members(waves.of(k)) {
            let turns = dot(miller[k], fraction[j]);
            let phase = 2.0 * PI * (turns - nearest(turns));
            re += charges[j] * cos(phase);
            im += charges[j] * sin(phase);
        }
        real[k] = re;
        imaginary[k] = im;
    }

    /// Charges of atoms on the nodes of a mesh around them, by splines.
    #[kernel]
    pub(crate) fn spread(
        i: Atom,
        fraction: &[Vec3; Atom],
        charges: &[Real; Atom],
        atoms: &Batch<Atom, System>,
        mesh: &Mesh<System, Node>,
        density: &mut [Real; Node],
    ) {
        for (node, weight) in mesh.around(atoms.of(i), fraction[i]) {
            density[node] += weight * charges[i];
        }
    }

    /// Half the potential of a mesh at the atoms, times their charges.
    #[kernel]
    pub(crate) fn gather(
        i: Atom,
        fraction: &[Vec3; Atom],
        charges: &[Real; Atom],
        mesh_potential: &[Real; Node],
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        mesh: &Mesh<System, Node>,
        energy: &mut [Real; Atom],
    ) {
        let mut potential = 0.0;
        for (node, weight) in mesh.around(atoms.of(i), fraction[i]) {
            potential += weight * mesh_potential[node];
        }
        energy[i] = 0.5 * prefactor * charges[i] * potential;
    }

    /// Total charge of each system.
    #[kernel]
    pub(crate) fn sum_charges(
        i: Atom,
        charges: &[Real; Atom],
        atoms: &Batch<Atom, System>,
        total_charge: &mut [Real; System],
    ) {
        total_charge[atoms.of(i)] += charges[i];
    }
}
