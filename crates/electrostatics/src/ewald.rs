//! The eager front ends of the Ewald sum.

use crate::kvectors::miller_indices_batch;
use crate::ops::registry;
use crate::system::System;
use crate::tuning::{EwaldParameters, Prescribed, estimate_ewald_parameters, of_power, spacing_of};
use madelung_core::array::Array;
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Cotangent, Request};
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_core::structure::{Batch, Structure};
use madelung_core::{Error, Result};

/// Cutoff beyond all pairs of a list.
const UNBOUNDED: f64 = 1e30;

/// The granularity of energies: per atom or per system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// Energies per atom (N,), each pair energy split equally.
    #[default]
    Atom,
    /// Energies per system (B,).
    System,
}

/// The requested results of a call, and their unit.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The factor of energies and all derivatives: 14.3996454784 for eV and Å.
    pub prefactor: f64,
    /// The granularity of energies.
    pub energy_reduction: Reduction,
    /// Whether to compute forces −∂E/∂r, (N, 3).
    pub compute_forces: bool,
    /// Whether to compute site potentials ∂E/∂q, (N,).
    pub compute_charge_gradients: bool,
    /// Whether to compute virials −∂E/∂ε, (B, 3, 3).
    pub compute_virial: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefactor: 1.0,
            energy_reduction: Reduction::Atom,
            compute_forces: false,
            compute_charge_gradients: false,
            compute_virial: false,
        }
    }
}

impl Options {
    /// Energies and forces.
    pub fn forces() -> Self {
        Self { compute_forces: true, ..Self::default() }
    }

    /// Energies, forces, charge gradients and virial.
    pub fn everything() -> Self {
        Self { compute_forces: true, compute_charge_gradients: true, compute_virial: true, ..Self::default() }
    }
}

/// The results of a call, in the dtype of the positions.
#[derive(Debug)]
pub struct Energies {
    /// Energies (N,) or (B,).
    pub energies: Array,
    /// Forces −∂E/∂r (N, 3).
    pub forces: Option<Array>,
    /// Site potentials ∂E/∂q (N,).
    pub charge_gradients: Option<Array>,
    /// Virials −∂E/∂ε (B, 3, 3).
    pub virial: Option<Array>,
}

/// The parameters of an Ewald sum; a parameter that is `None` is chosen for `accuracy`.
#[derive(Clone, Debug)]
pub struct EwaldSettings {
    /// Splitting parameter in 1/L, one value for all systems or one per system.
    pub alpha: Option<Vec<f64>>,
    /// Real-space cutoff in L, one value for all systems or one per system.
    pub cutoff: Option<Vec<f64>>,
    /// Reciprocal cutoff in radians per L, one value for all systems or one per system.
    pub k_cutoff: Option<Vec<f64>>,
    /// Target for the RMS force error, in units of q²_rms/(V/N)^{2/3}; None: see [`estimate_ewald_parameters`].
    pub accuracy: Option<f64>,
}

impl Default for EwaldSettings {
    fn default() -> Self {
        Self { alpha: None, cutoff: None, k_cutoff: None, accuracy: Some(1e-6) }
    }
}

impl EwaldSettings {
    /// Settings whose parameters are all chosen for an accuracy.
    pub fn accuracy(accuracy: f64) -> Self {
        Self { accuracy: Some(accuracy), ..Self::default() }
    }

    /// The parameters of each system in a call with these settings: those of the system alone.
    ///
    /// # Errors
    /// Those of [`estimate_ewald_parameters`].
    pub fn parameters(&self, system: &System<'_>) -> Result<Vec<EwaldParameters>> {
        self.parameters_of_power(system, 1)
    }

    /// Those of a sum of 1/rᵖ, p = 1 to 6.
    ///
    /// # Errors
    /// Those of [`estimate_ewald_parameters`].
    pub fn parameters_of_power(&self, system: &System<'_>, exponent: u32) -> Result<Vec<EwaldParameters>> {
        let systems = system.systems();
        let alpha = per_system("alpha", self.alpha.as_deref(), systems)?;
        let cutoff = per_system("cutoff", self.cutoff.as_deref(), systems)?;
        let k_cutoff = per_system("k_cutoff", self.k_cutoff.as_deref(), systems)?;
        let cells = system.cells();
        let of = |b: usize| {
            let given = Prescribed {
                alpha: alpha.as_ref().map(|x| x[b]),
                cutoff: cutoff.as_ref().map(|x| x[b]),
                k_cutoff: k_cutoff.as_ref().map(|x| x[b]),
            };
            // An empty system has nothing to sum, whatever the parameters.
            let atoms = system.batch.members(b).len().max(1);
            let estimate = |accuracy| estimate_ewald_parameters(atoms, &cells[b], accuracy, given);
            of_power(exponent, spacing_of(atoms, &cells[b])?, self.accuracy, given.alpha, estimate, |p| {
                (p.alpha, p.cutoff, &mut p.predicted_force_error)
            })
        };
        (0..systems).map(of).collect()
    }
}

pub(crate) fn per_system(name: &str, given: Option<&[f64]>, systems: usize) -> Result<Option<Vec<f64>>> {
    let Some(given) = given else { return Ok(None) };
    if let Some(bad) = given.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
        return Err(Error::argument(name, "a finite number > 0", bad.to_string()));
    }
    match given.len() {
        1 => Ok(Some(vec![given[0]; systems])),
        n if n == systems => Ok(Some(given.to_vec())),
        n => Err(Error::argument(
            name,
            format!("one number, or one for each of {systems} systems"),
            n.to_string(),
        )),
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

/// The Ewald sum of periodic point charges. Parameters that `settings` leaves open are chosen for its accuracy, and
/// the neighbour list is built unless `pairs` is given.
///
/// The cell is periodic along all three axes (the sum has no slab correction).
///
/// # Errors
/// Those of [`ewald_real_space`] and [`ewald_reciprocal_space`]; `cutoff`, where `pairs` is given without one
/// or with several.
pub fn ewald_summation(
    context: &Context<'_>,
    system: &System<'_>,
    settings: &EwaldSettings,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    let parameters = settings.parameters(system)?;
    let cutoffs: Vec<f64> = parameters.iter().map(|p| p.cutoff).collect();
    let alpha = alphas(system, &parameters.iter().map(|p| p.alpha).collect::<Vec<_>>())?;
    let (miller, waves) = waves(system, &parameters.iter().map(|p| p.k_cutoff).collect::<Vec<_>>())?;
    let (made, cutoff) = real_pairs(context, system, settings.cutoff.as_deref(), pairs, &cutoffs)?;
    let pairs = made.as_deref().or(pairs).expect("a list is made where none is given");
    let extra = [Arg::Structure(pairs), Arg::Real(cutoff), Arg::Array(miller.view()), Arg::Structure(&waves)];
    run(context, "ewald_summation", system, &alpha, &extra, options)
}

/// The list that a call makes for its real-space sum, none where the `given` one is full, and the cutoff of all systems.
///
/// # Errors
/// `cutoff`, where a list is given without one or with several; `pairs`, where it is no list of the host.
pub(crate) fn real_pairs<'a>(
    context: &Context<'_>,
    system: &System<'_>,
    asked: Option<&[f64]>,
    given: Option<&'a dyn Structure>,
    cutoffs: &[f64],
) -> Result<(Option<Box<dyn Structure + 'a>>, f64)> {
    let one = asked.filter(|cutoffs| cutoffs.len() == 1).map(|cutoffs| cutoffs[0]);
    // Pairs that were searched for are within the cutoff of their system.
    let cutoff = one.unwrap_or(UNBOUNDED);
    let Some(pairs) = given else {
        return Ok((Some(Box::new(system.neighbor_list(cutoffs, &context.threads())?)), cutoff));
    };
    if one.is_none() {
        let got = asked.map_or("none".into(), |cutoffs| format!("{} numbers", cutoffs.len()));
        return Err(Error::argument("cutoff", "the cutoff that the neighbour list was built for", got));
    }
    Ok((full_list(pairs)?.map(|full| Box::new(full) as Box<dyn Structure + 'a>), cutoff))
}

pub(crate) fn alphas(system: &System<'_>, alpha: &[f64]) -> Result<Array> {
    let systems = system.systems();
    let alpha = per_system("alpha", Some(alpha), systems)?.unwrap_or_default();
    Array::from_f64(system.positions.dtype(), &[systems], &alpha)
}

/// The full list of a half one.
fn full_list(pairs: &dyn Structure) -> Result<Option<PairList<'_>>> {
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
    let wanted = [
        (options.compute_forces, "positions"),
        (options.compute_charge_gradients, "charges"),
        (options.compute_virial, "strain"),
    ];
    let gradients: Vec<usize> =
        wanted.iter().filter(|(on, _)| *on).filter_map(|(_, name)| op.arg(name)).collect();
    // The gradient of the sum of all energies.
    let cotangents = [Some(Cotangent::Uniform(1.0))];
    let cotangents = if gradients.is_empty() { &[][..] } else { &cotangents[..] };
    let request = Request { values: true, cotangents, gradients: &gradients, ..Request::default() };
    let mut done = op.evaluate(context, &args, &request)?;
    let mut next = done.gradients.into_iter();
    let mut given = |on: bool| if on { next.next() } else { None };
    let negative = |gradient: Option<Array>| gradient.map(|g| g.map(|x| -x)).transpose();
    Ok(Energies {
        energies: done.values.swap_remove(0),
        forces: negative(given(options.compute_forces))?,
        charge_gradients: given(options.compute_charge_gradients),
        virial: negative(given(options.compute_virial))?,
    })
}
