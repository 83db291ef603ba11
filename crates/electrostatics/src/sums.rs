//! The eager front ends: sums of the charges of a [`System`].

use crate::energies::{Energies, Options, Reduction, results};
use crate::kvectors::miller_indices_batch;
use crate::mesh::{PmeParameters, SPLINE_ORDER, mesh_dimensions};
use crate::ops::registry;
use crate::parameters::{each, per_system};
use crate::plan::{Method, Prescription, Sum};
use crate::run::{self, run_plan};
use crate::system::System;
use crate::tuning::EwaldParameters;
use madelung_core::array::Array;
use madelung_core::backend::Context;
use madelung_core::op::Arg;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_core::structure::{Batch, Mesh, Structure};
use madelung_core::{Error, Result};

/// The parameters of an Ewald sum; a parameter that is `None` is chosen for `accuracy`.
#[derive(Clone, Debug, Default)]
pub struct EwaldSettings {
    /// Splitting parameter in 1/L, one value for all systems or one per system.
    pub alpha: Option<Vec<f64>>,
    /// Real-space cutoff in L, one value for all systems or one per system.
    pub cutoff: Option<Vec<f64>>,
    /// Reciprocal cutoff in radians per L, one value for all systems or one per system.
    pub k_cutoff: Option<Vec<f64>>,
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
        let found = run::parameters(Sum::Waves, system, &self.prescription())?;
        let of = |b: usize| EwaldParameters {
            alpha: found.alpha[b],
            cutoff: found.cutoff[b],
            k_cutoff: found.k_cutoff[b],
            predicted_force_error: found.errors[b],
        };
        Ok((0..system.systems()).map(of).collect())
    }

    fn prescription(&self) -> Prescription {
        Prescription {
            alpha: self.alpha.clone(),
            cutoff: self.cutoff.clone(),
            k_cutoff: self.k_cutoff.clone(),
            slab_height: self.slab_height.clone(),
            accuracy: self.accuracy,
            ..Prescription::default()
        }
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
    let alpha = alphas(system, alpha)?;
    let full = full_list(pairs)?;
    let extra = [Arg::Structure(full.as_ref().map_or(pairs, |full| full)), Arg::Real(cutoff)];
    run(context, "ewald_real_space", system, &alpha, &extra, options)
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
    let alpha = alphas(system, alpha)?;
    let (miller, waves) = waves(system, k_cutoff)?;
    let extra = [Arg::Array(miller.view()), Arg::Structure(&waves)];
    run(context, "ewald_reciprocal_space", system, &alpha, &extra, options)
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
    let full = pairs.map(full_list).transpose()?.flatten();
    let pairs = full.as_ref().map(|full| full as &dyn Structure).or(pairs);
    run_plan(context, (Sum::Waves, settings.method), system, &settings.prescription(), pairs, options)
}

pub(crate) fn alphas(system: &System<'_>, alpha: &[f64]) -> Result<Array> {
    let systems = system.systems();
    let alpha = per_system("alpha", Some(alpha), systems)?.unwrap_or_default();
    Array::from_f64(system.positions.dtype(), &[systems], &alpha)
}

/// The full list of a half one.
pub(crate) fn full_list(pairs: &dyn Structure) -> Result<Option<PairList<'_>>> {
    match pairs.list_kind() {
        Some(Kind::Full) => Ok(None),
        Some(Kind::Half) if let Some(half) = pairs.as_pairs() => half.to_full().map(Some),
        _ => Err(Error::argument("pairs", "a full or a half list on the host", pairs.describe())),
    }
}

fn waves(system: &System<'_>, k_cutoff: &[f64]) -> Result<(Array, Batch<'static>)> {
    let k_cutoff = per_system("k_cutoff", Some(k_cutoff), system.systems())?.unwrap_or_default();
    let (rows, ptr) = miller_indices_batch(system.cells(), &k_cutoff)?;
    let miller = Array::from(rows.as_slice());
    Ok((miller, Batch::from_ptr(ptr)?))
}

pub(crate) fn run(
    context: &Context<'_>,
    name: &str,
    system: &System<'_>,
    alpha: &Array,
    extra: &[Arg<'_>],
    options: &Options,
) -> Result<Energies> {
    let name = match options.energy_reduction {
        Reduction::Atom => name.to_string(),
        Reduction::System => format!("{name}_total"),
    };
    let op = registry().get(&name).expect("the registry has both reductions of every sum");
    let mut args = vec![
        Arg::Array(system.positions.clone()),
        Arg::Array(system.charges.clone()),
        Arg::Array(system.cell.view()),
        Arg::Array(alpha.view()),
        Arg::Zero,
        Arg::Structure(&system.batch),
        Arg::Real(options.prefactor),
    ];
    args.extend_from_slice(extra);
    results(context, op, &args, options)
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
    let alpha = alphas(system, alpha)?;
    run(context, "ewald_mesh_reciprocal_space", system, &alpha, &[Arg::Structure(mesh)], options)
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
        let found = run::parameters(Sum::Mesh, system, &self.prescription(system)?)?;
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

    fn prescription(&self, system: &System<'_>) -> Result<Prescription> {
        if self.mesh_spacing.is_some() && self.mesh_dimensions.is_some() {
            return Err(Error::argument("mesh_spacing", "it or `mesh_dimensions`", "both"));
        }
        let orders = each("spline_order", self.spline_order.as_deref(), system.systems())?;
        let nodes = |spacing: f64| {
            let of = |(b, cell): (usize, &[[f64; 3]; 3])| {
                mesh_dimensions(cell, spacing, orders.as_ref().map_or(SPLINE_ORDER, |p| p[b]))
            };
            system.cells().iter().enumerate().map(of).collect::<Result<Vec<_>>>()
        };
        Ok(Prescription {
            alpha: self.alpha.clone(),
            cutoff: self.cutoff.clone(),
            k_cutoff: None,
            mesh_dimensions: self
                .mesh_spacing
                .map(nodes)
                .transpose()?
                .or_else(|| self.mesh_dimensions.clone()),
            spline_order: self.spline_order.clone(),
            slab_height: self.slab_height.clone(),
            accuracy: self.accuracy,
        })
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
    let full = pairs.map(full_list).transpose()?.flatten();
    let pairs = full.as_ref().map(|full| full as &dyn Structure).or(pairs);
    run_plan(context, (Sum::Mesh, None), system, &settings.prescription(system)?, pairs, options)
}
