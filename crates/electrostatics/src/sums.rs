//! The eager front ends: sums of the charges of a [`System`].

use crate::energies::{Energies, Options, Reduction};
use crate::mesh::{PmeParameters, SPLINE_ORDER, mesh_dimensions};
use crate::ops::registry;
use crate::parameters::{each, per_system};
use crate::plan::{Method, Prescription, Sum};
use crate::prepared::{SumSettings, parameters};
use crate::run::run;
use crate::system::System;
use crate::tuning::EwaldParameters;
use madelung_core::array::Array;
use madelung_core::backend::Context;
use madelung_core::op::Arg;
use madelung_core::structure::{Mesh, Structure};
use madelung_core::{Error, Result};
use std::f64::consts::TAU;

/// The parameters of an Ewald sum; a parameter that is `None` is chosen for `accuracy`.
#[derive(Clone, Debug, Default)]
pub struct EwaldSettings {
    /// Splitting parameter in 1/L, one value for all systems or one per system.
    pub alpha: Option<Vec<f64>>,
    /// Real-space cutoff in L, one value for all systems or one per system.
    pub cutoff: Option<Vec<f64>>,
    /// Reciprocal cutoff in radians per L, one value for all systems or one per system.
    pub k_cutoff: Option<Vec<f64>>,
    /// Waves in its place: Miller indices, one of each two ±k, and the system of each, in ascending order, as
    /// [`miller_indices_batch`](crate::kvectors::miller_indices_batch) has them. For cells that change so little that the set may
    /// stay.
    pub waves: Option<(Vec<[i32; 3]>, Vec<i32>)>,
    /// Target for the RMS force error, in units of q²_rms/(V/N)^{2/3}. None: given parameters are taken as they are, and others
    /// are chosen for [`DEFAULT_ACCURACY`](crate::DEFAULT_ACCURACY), or what float32 reaches.
    pub accuracy: Option<f64>,
    /// How pairs are summed; None: over a list where one or a parameter is given, else whichever way costs less.
    pub method: Option<Method>,
    /// Height of the cells of slabs in L, one value for all systems or one per system; None: chosen.
    pub slab_height: Option<Vec<f64>>,
}

impl EwaldSettings {
    /// Settings whose parameters are all chosen for an accuracy.
    pub fn accuracy(accuracy: f64) -> Self {
        Self { accuracy: Some(accuracy), ..Self::default() }
    }

    /// The parameters of each system in a sum over a list with these settings: those of the system alone. Systems that are no
    /// lattice have none that count.
    ///
    /// # Errors
    /// Those of [`plan::numbers`](crate::plan::numbers).
    pub fn parameters(&self, system: &System<'_>) -> Result<Vec<EwaldParameters>> {
        let found = parameters(&SumSettings::ewald(self), system)?;
        let of = |b: usize| EwaldParameters {
            alpha: found.alpha[b],
            cutoff: found.cutoff[b],
            k_cutoff: found.k_cutoff[b],
            predicted_force_error: found.errors[b],
        };
        Ok((0..system.systems()).map(of).collect())
    }
}

/// Real-space part of the Ewald sum: ½ Σ q_i q_j erfc(αr)/r over the pairs closer than `cutoff`.
///
/// `pairs` may reach further than the cutoff (a list with a skin) and may be full or half. `alpha` in 1/L: one value
/// for all systems or one per system.
///
/// # Errors
/// `alpha` or `cutoff`, where it is not finite and > 0; `pairs`, where they do not fit the atoms or cross systems;
/// `positions` or `charges`, where they are not finite or two charges share a point.
pub fn ewald_real_space(
    context: &Context<'_>,
    system: &System<'_>,
    alpha: &[f64],
    pairs: &dyn Structure,
    cutoff: f64,
    options: &Options,
) -> Result<Energies> {
    let (alpha, cutoff) = (Some(alpha.to_vec()), Some(vec![cutoff]));
    let settings = SumSettings::of(Sum::RealSpace, Prescription { alpha, cutoff, ..Prescription::default() });
    run(context, &settings, system, Some(pairs), options)
}

/// Reciprocal part of the Ewald sum over |k| ≤ `k_cutoff` (radians per L), with the self term −α/√π Σq² and the
/// uniform background −πQ²/(2α²V) of a charged cell.
///
/// # Errors
/// `alpha` or `k_cutoff`, where it is not finite and > 0; `positions` or `charges`, where they are not finite.
pub fn ewald_reciprocal_space(
    context: &Context<'_>,
    system: &System<'_>,
    alpha: &[f64],
    k_cutoff: &[f64],
    options: &Options,
) -> Result<Energies> {
    let (alpha, k_cutoff) = (Some(alpha.to_vec()), Some(k_cutoff.to_vec()));
    let given = Prescription { alpha, k_cutoff, ..Prescription::default() };
    run(context, &SumSettings::of(Sum::ReciprocalSpace, given), system, None, options)
}

/// The Coulomb energy over pairs, ½ Σ q_i q_j erfc(αr)/r: of pairs closer than `cutoff` in L, or without one of all pairs of
/// open systems and of a list. α is the damping in 1/L, 0 for none. Without `pairs` they are searched for.
///
/// ```
/// use madelung_core::structure::Batch;
/// use madelung_electrostatics::{Options, System, coulomb};
///
/// // Two charges of 1 e and −1 e, 2 L apart: −1/2 e²/L, half of it of each.
/// let (positions, charges) = ([[0.0; 3], [2.0, 0.0, 0.0]], [1.0, -1.0]);
/// let (cell, open) = ([[0.0; 3]; 3], [[false; 3]]);
/// let batch = Batch::single(2)?;
/// let system =
///     System::with_boundaries((&positions[..]).into(), (&charges).into(), (&cell[..]).into(), &open, batch)?;
/// let found = coulomb(&madelung_cpu::context(), &system, 0.0, None, None, &Options::forces())?;
/// assert_eq!(found.energies.to_f64()?, [-0.25, -0.25]);
/// # Ok::<(), madelung_core::Error>(())
/// ```
///
/// # Errors
/// `alpha`, where it is negative or not finite; `cutoff`, where it is not above zero, or needed; as [`ewald_real_space`].
pub fn coulomb(
    context: &Context<'_>,
    system: &System<'_>,
    alpha: f64,
    cutoff: Option<f64>,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    run(context, &SumSettings::coulomb(system, alpha, cutoff)?, system, pairs, options)
}

/// The damped shifted force sum of Fennell and Gezelter, J. Chem. Phys. 124, 234104 (2006), over pairs closer than `cutoff`
/// in L: energies and forces go to zero there. With v(r) = erfc(αr)/r it is
/// ½ Σ q_i q_j [v(r) − v(r_c) − v′(r_c)(r − r_c)], and of each charge with itself −q²[v(r_c)/2 − r_c v′(r_c)/2 + α/√π].
/// `alpha` in 1/L: one value for all systems or one per system. Without `pairs` they are searched for.
///
/// # Errors
/// As [`ewald_real_space`]; `exclusions` and `widths`, which the sum does not have.
pub fn dsf(
    context: &Context<'_>,
    system: &System<'_>,
    alpha: &[f64],
    cutoff: f64,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    run(context, &SumSettings::dsf(alpha, cutoff), system, pairs, options)
}

/// The Coulomb energy of charges by Ewald's sum: of crystals, slabs, wires and molecules, with exclusions and widths, as the
/// [`System`] says. Parameters that `settings` leaves open are chosen for its accuracy, and the neighbour list is built
/// unless `pairs` is given. Where neither is given small systems are summed directly.
///
/// # Errors
/// Those of [`plan::compose`](crate::plan::compose) and [`plan::numbers`](crate::plan::numbers); `pairs`, where they do not
/// fit the atoms or cross systems; `positions` or `charges`, where they are not finite or two charges share a point.
pub fn ewald_summation(
    context: &Context<'_>,
    system: &System<'_>,
    settings: &EwaldSettings,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    run(context, &SumSettings::ewald(settings), system, pairs, options)
}

/// Reciprocal part of the sum on a mesh (smooth particle mesh Ewald: Essmann et al., J. Chem. Phys. 103, 8577 (1995),
/// with the influence function that gives the least error of the energy), with the self term −α/√π Σq² and the uniform
/// background −πQ²/(2α²V) of a charged cell.
///
/// # Errors
/// `alpha`, where it is not finite and > 0; `mesh`, where it has another number of systems; `positions` or `charges`,
/// where they are not finite.
pub fn pme_reciprocal_space(
    context: &Context<'_>,
    system: &System<'_>,
    alpha: &[f64],
    mesh: &Mesh,
    options: &Options,
) -> Result<Energies> {
    let systems = system.systems();
    let alpha = per_system("alpha", Some(alpha), systems)?.unwrap_or_default();
    let alpha = Array::from_f64(system.positions.dtype(), &[systems], &alpha)?;
    let name = match options.energy_reduction {
        Reduction::Atom => "ewald_mesh_reciprocal_space",
        Reduction::System => "ewald_mesh_reciprocal_space_total",
    };
    let op = registry().get(name).expect("the registry has both reductions of every sum");
    let args = [
        Arg::Array(system.positions.clone()),
        Arg::Array(system.charges.clone()),
        Arg::Array(system.cell.view()),
        Arg::Array(alpha.view()),
        Arg::Zero,
        Arg::Structure(&system.batch),
        Arg::Real(options.prefactor),
        Arg::Structure(mesh),
    ];
    Energies::of_op(context, op, &args, options)
}

/// The parameters of a particle mesh Ewald sum; a parameter that is `None` is chosen for `accuracy`.
#[derive(Clone, Debug, Default)]
pub struct PmeSettings {
    /// Splitting parameter in 1/L, one value for all systems or one per system.
    pub alpha: Option<Vec<f64>>,
    /// Real-space cutoff in L, one value for all systems or one per system.
    pub cutoff: Option<Vec<f64>>,
    /// Nodes along each lattice vector, of all systems or one per system.
    pub mesh_dimensions: Option<Vec<[usize; 3]>>,
    /// Distance of nodes along lattice vectors in L, at most: in place of their number.
    pub mesh_spacing: Option<f64>,
    /// Order of the splines, of all systems or one per system; None: that at which both sums cost the least, or 5 on a mesh
    /// that is given.
    pub spline_order: Option<Vec<usize>>,
    /// Target for the RMS force error, in units of q²_rms/(V/N)^{2/3}. None: given parameters are taken as they are, and others
    /// are chosen for [`DEFAULT_ACCURACY`](crate::DEFAULT_ACCURACY), or what float32 reaches.
    pub accuracy: Option<f64>,
    /// Height of the cells of slabs in L, one value for all systems or one per system; None: chosen.
    pub slab_height: Option<Vec<f64>>,
}

impl PmeSettings {
    /// Settings whose parameters are all chosen for an accuracy.
    pub fn accuracy(accuracy: f64) -> Self {
        Self { accuracy: Some(accuracy), ..Self::default() }
    }

    /// The parameters of each system in a call with these settings: those that it would have alone. Systems that are no
    /// lattice have none that count.
    ///
    /// # Errors
    /// Those of [`plan::numbers`](crate::plan::numbers); `mesh_spacing`, where it is not finite and > 0, or given with the
    /// nodes.
    pub fn parameters(&self, system: &System<'_>) -> Result<Vec<PmeParameters>> {
        let found = parameters(&SumSettings::pme(self, system)?, system)?;
        let of = |b: usize| {
            let [k1, k2, k3, spline_order] = found.mesh[b];
            PmeParameters {
                alpha: found.alpha[b],
                cutoff: found.cutoff[b],
                mesh_dimensions: [k1, k2, k3],
                spline_order,
                predicted_force_error: found.errors[b],
            }
        };
        Ok((0..system.systems()).map(of).collect())
    }
}

/// The Coulomb energy of charges with the reciprocal part of lattices on a mesh, as [`pme_reciprocal_space`] has it: of
/// crystals, slabs, wires and molecules, with exclusions and widths, as the [`System`] says. Parameters that `settings` leaves
/// open are chosen for its accuracy, and the neighbour list is built unless `pairs` is given.
///
/// # Errors
/// Those of [`ewald_summation`](crate::ewald_summation).
pub fn particle_mesh_ewald(
    context: &Context<'_>,
    system: &System<'_>,
    settings: &PmeSettings,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    run(context, &SumSettings::pme(settings, system)?, system, pairs, options)
}

/// The parameters of a sum of latent charges, which belong to its model: one number for all systems or one per system.
#[derive(Clone, Debug)]
pub struct LatentSettings {
    /// Width σ of the Gaussian charges, in L.
    pub sigma: Vec<f64>,
    /// Shortest wavelength of the sum over waves, in L: 0 < |k| ≤ 2π/dl. The sum need not be converged there.
    pub dl: Vec<f64>,
    /// Whether the energy q²/(σ√(2π)) of each charge with itself is left out.
    pub remove_self_interaction: bool,
}

impl Default for LatentSettings {
    fn default() -> Self {
        Self { sigma: vec![1.0], dl: vec![2.0], remove_self_interaction: true }
    }
}

/// The electrostatic energy of latent charges: Gaussians of width σ, without a background. The charge part of Latent Ewald
/// Summation (Cheng, npj Comput. Mater. 11, 80 (2025)).
///
/// Crystals: (2π/V) Σ_k exp(−σ²k²/2)/k² |S(k)|² over 0 < |k| ≤ 2π/dl, without the energy of each charge with itself. Open
/// systems: ½ Σ q_i q_j erf(r/√2σ)/r over all pairs. A batch may hold both.
///
/// ```
/// use madelung_core::structure::Batch;
/// use madelung_electrostatics::{LatentSettings, Options, System, latent_ewald};
///
/// // Two charges of 1 e and −1 e, 3 L apart, of width 1/√2 L: −erf(3)/3 e²/L, half of it of each.
/// let (positions, charges) = ([[0.0; 3], [3.0, 0.0, 0.0]], [1.0, -1.0]);
/// let (cell, open) = ([[0.0; 3]; 3], [[false; 3]]);
/// let batch = Batch::single(2)?;
/// let system =
///     System::with_boundaries((&positions[..]).into(), (&charges).into(), (&cell[..]).into(), &open, batch)?;
/// let settings = LatentSettings { sigma: vec![0.5f64.sqrt()], ..LatentSettings::default() };
/// let found = latent_ewald(&madelung_cpu::context(), &system, &settings, &Options::forces())?;
/// assert!((found.energies.to_f64()?[0] + 0.999977909503 / 6.0).abs() < 1e-12);
/// # Ok::<(), madelung_core::Error>(())
/// ```
///
/// # Errors
/// `sigma` or `dl`, where it is not finite and > 0; `pbc` of slabs and wires; `exclusions` and `widths`, which the sum does
/// not have; `positions` or `charges`, where they are not finite.
pub fn latent_ewald(
    context: &Context<'_>,
    system: &System<'_>,
    settings: &LatentSettings,
    options: &Options,
) -> Result<Energies> {
    run(context, &SumSettings::latent(settings, system)?, system, None, options)
}

impl SumSettings {
    fn of(sum: Sum, given: Prescription) -> Self {
        Self { sum, method: None, given }
    }

    /// Settings of [`ewald_summation`].
    pub fn ewald(settings: &EwaldSettings) -> Self {
        let EwaldSettings { alpha, cutoff, k_cutoff, waves, accuracy, method, slab_height } =
            settings.clone();
        let none = Prescription::default();
        let given = Prescription { alpha, cutoff, k_cutoff, waves, slab_height, accuracy, ..none };
        Self { method, ..Self::of(Sum::Waves, given) }
    }

    /// Settings of [`particle_mesh_ewald`].
    ///
    /// # Errors
    /// `mesh_spacing`, where it is not finite and > 0, or given with the nodes; `spline_order`, where it does not fit the
    /// systems.
    pub fn pme(settings: &PmeSettings, system: &System<'_>) -> Result<Self> {
        let PmeSettings { alpha, cutoff, spline_order, accuracy, slab_height, .. } = settings.clone();
        let mesh_dimensions = match (&settings.mesh_dimensions, settings.mesh_spacing) {
            (Some(_), Some(_)) => {
                return Err(Error::argument("mesh_spacing", "it or `mesh_dimensions`", "both"));
            }
            (None, Some(spacing)) => {
                let orders = each("spline_order", spline_order.as_deref(), system.systems())?;
                let order = |b: usize| orders.as_ref().map_or(SPLINE_ORDER, |p| p[b]);
                let cells = system.cells().iter().enumerate();
                let nodes = cells.map(|(b, cell)| mesh_dimensions(cell, spacing, order(b)));
                Some(nodes.collect::<Result<_>>()?)
            }
            (nodes, None) => nodes.clone(),
        };
        let none = Prescription::default();
        let given =
            Prescription { alpha, cutoff, mesh_dimensions, spline_order, slab_height, accuracy, ..none };
        Ok(Self::of(Sum::Mesh, given))
    }

    /// Settings of [`coulomb`].
    ///
    /// # Errors
    /// `alpha`, where it is negative or not finite.
    pub fn coulomb(system: &System<'_>, alpha: f64, cutoff: Option<f64>) -> Result<Self> {
        if !(alpha.is_finite() && alpha >= 0.0) {
            return Err(Error::argument("alpha", "a number from 0 up", alpha.to_string()));
        }
        let is_whole = alpha == 0.0 && cutoff.is_none() && !system.pbc.as_flattened().contains(&true);
        let sum = if is_whole { Sum::Waves } else { Sum::Pairs };
        let (alpha, cutoff) = ((alpha > 0.0).then(|| vec![alpha]), cutoff.map(|cutoff| vec![cutoff]));
        Ok(Self::of(sum, Prescription { alpha, cutoff, ..Prescription::default() }))
    }

    /// Settings of [`dsf`].
    pub fn dsf(alpha: &[f64], cutoff: f64) -> Self {
        let (alpha, cutoff) = (Some(alpha.to_vec()), Some(vec![cutoff]));
        Self::of(Sum::Shifted, Prescription { alpha, cutoff, ..Prescription::default() })
    }

    /// Settings of [`latent_ewald`].
    ///
    /// # Errors
    /// `sigma` or `dl`, where it is not finite and > 0, or does not fit the systems.
    pub fn latent(settings: &LatentSettings, system: &System<'_>) -> Result<Self> {
        let each = |name, numbers: &[f64], of: fn(f64) -> f64| {
            let found = per_system(name, Some(numbers), system.systems())?;
            Ok::<_, Error>(found.map(|each| each.into_iter().map(of).collect::<Vec<f64>>()))
        };
        let alpha = each("sigma", &settings.sigma, |sigma| 1.0 / (2f64.sqrt() * sigma))?;
        let k_cutoff = each("dl", &settings.dl, |dl| TAU / dl)?;
        let sum = Sum::Latent { with_selves: !settings.remove_self_interaction };
        Ok(Self::of(sum, Prescription { alpha, k_cutoff, ..Prescription::default() }))
    }
}
