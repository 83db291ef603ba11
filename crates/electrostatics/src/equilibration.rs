//! Charge equilibration: the Gaussian charges that minimise an energy at a fixed total charge.
//!
//! E(q) = Σ χ_i q_i + ½ Σ η_i q_i² + E_Coulomb(q) is of second degree in the charges, so its minimum is the solution of a
//! linear system, whose matrix nobody makes: conjugate gradients take sums of charges alone.

use crate::energies::{Energies, Options, Reduction};
use crate::parameters::each;
use crate::plan::{Prescription, Sum, costs_less_on_mesh};
use crate::run::{self, prepared};
use crate::system::System;
use madelung_core::array::{Array, View};
use madelung_core::backend::Context;
use madelung_core::{Error, Result};
use std::f64::consts::PI;

/// What charge equilibration goes by besides electronegativities and hardnesses.
#[derive(Clone, Debug, Default)]
pub struct QeqSettings {
    /// Total charge in e, one number for all systems or one per system; None: 0.
    pub total_charge: Option<Vec<f64>>,
    /// Target for the RMS force error that charges of ±1 would have, in units of 1/(V/N)^{2/3}; None:
    /// [`DEFAULT_ACCURACY`](crate::DEFAULT_ACCURACY), or what float32 reaches.
    pub accuracy: Option<f64>,
    /// The sum over lattices, [`Sum::Waves`] or [`Sum::Mesh`]; None: the one that costs less.
    pub sum: Option<Sum>,
}

/// Charges of least energy, in the dtype of the positions.
#[derive(Debug)]
pub struct Equilibrated {
    /// The charges (N,), in e.
    pub charges: Array,
    /// The whole energy. Forces and virial are those at fixed charges and of the least energy alike, as it does not change
    /// with the charges to first order; charge gradients are one number for all atoms of a system, its chemical potential.
    pub energies: Energies,
}

/// The charges that minimise an energy at a fixed total charge: charge equilibration of Gaussian charges.
///
/// E(q) = Σ χ_i q_i + ½ Σ η_i q_i² + E_Coulomb(q), the last for Gaussian charges of the widths of [`System::with_widths`], with
/// the boundaries of the system; its charges are not looked at. `electronegativity` χ (N,) and `hardness` η (N,), in the dtype
/// of the positions, are in units of energy over e and e², that of the results: see [`Options::prefactor`]. Rappé and
/// Goddard, J. Phys. Chem. 95, 3358 (1991), with the Gaussians of Ko, Finkler, Goedecker and Behler, Nat. Commun. 12, 398
/// (2021). By conjugate gradients, for each system of a batch alone.
///
/// ```
/// use madelung_core::structure::Batch;
/// use madelung_electrostatics::{Options, QeqSettings, System, qeq};
///
/// // Two atoms of width ½ L and hardness 1, far apart: q = ½ Δχ / (η + 1/(σ√π)) but for their attraction.
/// let (positions, cell, open) = ([[0.0; 3], [1e6, 0.0, 0.0]], [[0.0; 3]; 3], [[false; 3]]);
/// let (none, widths, batch) = ([0.0; 2], [0.5; 2], Batch::single(2)?);
/// let system = System::with_boundaries((&positions[..]).into(), (&none).into(), (&cell[..]).into(), &open, batch)?
///     .with_widths((&widths).into())?;
/// let (chi, eta) = ([0.25, -0.25], [1.0; 2]);
/// let (settings, options) = (QeqSettings::default(), Options::forces());
/// let found = qeq(&madelung_cpu::context(), &system, &(&chi).into(), &(&eta).into(), &settings, &options)?;
/// let q = found.charges.to_f64()?;
/// assert!((q[1] - 0.25 / (1.0 + 2.0 / std::f64::consts::PI.sqrt())).abs() < 1e-6 && (q[0] + q[1]).abs() < 1e-15);
/// # Ok::<(), madelung_core::Error>(())
/// ```
///
/// # Errors
/// `widths`, where the system has none; `electronegativity` or `hardness`, where it does not fit the atoms or is not finite;
/// `hardness`, too, where one is so small that the energy has no minimum; `total_charge`, where it does not fit the systems,
/// is not finite, or is that of a system without atoms; `sum`, where it is another one; those of
/// [`ewald_summation`](crate::ewald_summation).
pub fn qeq(
    context: &Context<'_>,
    system: &System<'_>,
    electronegativity: &View<'_>,
    hardness: &View<'_>,
    settings: &QeqSettings,
    options: &Options,
) -> Result<Equilibrated> {
    let Some(widths) = &system.widths else {
        return Err(Error::argument("widths", "widths of charges", "None"));
    };
    let widths = widths.to_f64()?;
    let (chi, eta) =
        (reals("electronegativity", electronegativity, system)?, reals("hardness", hardness, system)?);
    let start = evenly_spread(system, settings.total_charge.as_deref())?;
    let given = Prescription { accuracy: settings.accuracy, ..Prescription::default() };
    let cost = |sum| run::parameters(sum, system, &given).map(|found| found.cost);
    let sum = match settings.sum {
        Some(sum) if sum.is_whole() => sum,
        Some(sum) => return Err(Error::argument("sum", "Waves or Mesh", format!("{sum:?}"))),
        None if costs_less_on_mesh(settings.accuracy, cost)? => Sum::Mesh,
        None => Sum::Waves,
    };
    let coulomb = prepared(context, sum, system, &given)?;

    let (dtype, shape) = (system.positions.dtype(), [chi.len()]);
    let of_charges =
        Options { prefactor: options.prefactor, compute_charge_gradients: true, ..Options::default() };
    let times = |q: &[f64]| -> Result<Vec<f64>> {
        let charges = Array::from_f64(dtype, &shape, q)?;
        let potentials = coulomb.evaluated(&charges.view(), &of_charges)?.charge_gradients;
        let potentials = potentials.expect("asked for").to_f64()?;
        Ok(potentials.iter().zip(&eta).zip(q).map(|((v, eta), q)| v + eta * q).collect())
    };
    let own: Vec<f64> =
        eta.iter().zip(&widths).map(|(eta, width)| eta + options.prefactor / (PI.sqrt() * width)).collect();
    let (of, systems, narrow) = (system.batch.idx(), system.systems(), system.is_narrow());
    let least = Minimum { own: &own, of, systems, narrow }.found(&chi, &start, times)?;

    let charges = Array::from_f64(dtype, &shape, &least)?;
    let mut energies = coulomb.evaluated(&charges.view(), options)?;
    let q = charges.to_f64()?;
    let sites = (0..q.len()).map(|i| q[i] * (chi[i] + 0.5 * eta[i] * q[i]));
    let sites = match options.energy_reduction {
        Reduction::Atom => sites.collect(),
        Reduction::System => sums(of, systems, sites),
    };
    energies.energies.add(&Array::from_f64(dtype, &[sites.len()], &sites)?)?;
    if let Some(potentials) = &mut energies.charge_gradients {
        let slopes: Vec<f64> = (0..q.len()).map(|i| chi[i] + eta[i] * q[i]).collect();
        potentials.add(&Array::from_f64(dtype, &shape, &slopes)?)?;
    }
    Ok(Equilibrated { charges, energies })
}

/// Finite numbers of atoms.
fn reals(name: &str, x: &View<'_>, system: &System<'_>) -> Result<Vec<f64>> {
    x.place().check_host(name)?;
    let (dtype, shape) = (system.positions.dtype(), [system.batch.atoms()]);
    if x.dtype() != dtype {
        return Err(Error::argument(name, format!("{dtype}, as the positions"), x.dtype().to_string()));
    }
    if x.shape() != shape {
        return Err(Error::argument(name, format!("shape {shape:?}"), format!("{:?}", x.shape())));
    }
    let values = x.to_f64()?;
    match values.iter().position(|x| !x.is_finite()) {
        Some(i) => Err(Error::argument(name, "finite numbers", format!("{} in row {i}", values[i]))),
        None => Ok(values),
    }
}

/// Charges of the total charge, alike within each system.
fn evenly_spread(system: &System<'_>, total: Option<&[f64]>) -> Result<Vec<f64>> {
    let systems = system.systems();
    let total = each("total_charge", Some(total.unwrap_or(&[0.0])), systems)?.unwrap_or_default();
    if let Some(bad) = total.iter().find(|x| !x.is_finite()) {
        return Err(Error::argument("total_charge", "finite numbers", bad.to_string()));
    }
    let count = |b: usize| system.batch.members(b).len();
    if let Some(b) = (0..systems).find(|b| count(*b) == 0 && total[*b] != 0.0) {
        let expected = format!("0 of system {b}, which has no atoms");
        return Err(Error::argument("total_charge", expected, format!("{total:?}")));
    }
    Ok(system.batch.idx().iter().map(|b| *b as usize).map(|b| total[b] * (1.0 / count(b) as f64)).collect())
}

/// The sum over each system.
fn sums(of: &[i32], systems: usize, each: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut found = vec![0.0; systems];
    of.iter().zip(each).for_each(|(b, x)| found[*b as usize] += x);
    found
}

/// The minimum of an energy of second degree at a fixed total charge of each system.
#[derive(Clone, Copy, Debug)]
pub struct Minimum<'a> {
    /// About the diagonal of its matrix, which conjugate gradients are preconditioned by (N,).
    pub own: &'a [f64],
    /// The system of each atom (N,).
    pub of: &'a [i32],
    /// The number of systems.
    pub systems: usize,
    /// Whether the matrix is one of float32.
    pub narrow: bool,
}

impl Minimum<'_> {
    /// The charges with these slopes at zero, from charges that have the total charge, by conjugate gradients for each system
    /// alone, until slopes along changes of charge are 1e-12 (float32: 1e-6) of what they were. `times`: the matrix times
    /// charges.
    ///
    /// # Errors
    /// `hardness`, where the energy has no minimum; those of `times`.
    pub fn found<E: From<Error>>(
        &self,
        slopes: &[f64],
        start: &[f64],
        mut times: impl FnMut(&[f64]) -> std::result::Result<Vec<f64>, E>,
    ) -> std::result::Result<Vec<f64>, E> {
        // Below it rounding is all that changes.
        let tolerance = if self.narrow { 1e-6 } else { 1e-12 };
        let inverse: Vec<f64> = self.own.iter().map(|x| if *x > 0.0 { 1.0 / x } else { 1.0 }).collect();
        let weight = sums(self.of, self.systems, inverse.iter().copied());
        let dot = |a: &[f64], b: &[f64]| sums(self.of, self.systems, a.iter().zip(b).map(|(a, b)| a * b));
        let lengths = |r: &[f64]| dot(r, r).into_iter().map(f64::sqrt).collect::<Vec<_>>();
        // Slopes less what those of a system have in common, which would be all that is left of them in the end.
        let across = |r: &mut [f64]| {
            let common = dot(&inverse, r).into_iter().zip(&weight).map(|(x, w)| x / w.max(1e-300));
            let common: Vec<f64> = common.collect();
            r.iter_mut().zip(self.of).for_each(|(r, b)| *r -= common[*b as usize]);
        };
        let scaled = |r: &[f64]| r.iter().zip(&inverse).map(|(r, x)| x * r).collect::<Vec<f64>>();

        let mut x = start.to_vec();
        let mut r = slopes.to_vec();
        if x.iter().any(|x| *x != 0.0) {
            r.iter_mut().zip(times(&x)?).for_each(|(r, image)| *r += image);
        }
        across(&mut r);
        let limit: Vec<f64> = lengths(&r).into_iter().map(|x| tolerance * x).collect();
        let mut p = scaled(&r);
        let mut product = dot(&r, &p);
        let mut is_open: Vec<bool> = limit.iter().map(|x| *x > 0.0).collect();
        for _ in 0..4 * x.len() + 20 {
            if !is_open.contains(&true) {
                return Ok(x);
            }
            let image = times(&p)?;
            let curvature = dot(&p, &image);
            if let Some(b) = (0..self.systems).find(|b| is_open[*b] && !(curvature[*b] > 0.0)) {
                let expected = "numbers so large that the energy has a minimum at fixed total charge";
                let found = three_digits(curvature[b] / dot(&p, &p)[b]);
                let found = format!("a curvature of {found} (system {b})");
                return Err(Error::argument("hardness", expected, found).into());
            }
            let ratio =
                |over: &[f64], under: &[f64], b: usize| if is_open[b] { over[b] / under[b] } else { 0.0 };
            for (i, b) in self.of.iter().enumerate() {
                let step = ratio(&product, &curvature, *b as usize);
                x[i] -= step * p[i];
                r[i] -= step * image[i];
            }
            across(&mut r);
            let z = scaled(&r);
            let next = dot(&r, &z);
            for (i, b) in self.of.iter().enumerate() {
                p[i] = z[i] + ratio(&next, &product, *b as usize) * p[i];
            }
            product = next;
            is_open.iter_mut().zip(lengths(&r)).zip(&limit).for_each(|((on, x), limit)| *on &= x > *limit);
        }
        match is_open.iter().position(|on| *on) {
            Some(b) => {
                let [limit, slope] = [limit[b], lengths(&r)[b]].map(three_digits);
                let expected = format!("numbers for which slopes fall below {limit}");
                Err(Error::argument("hardness", expected, format!("slopes of {slope} (system {b})")).into())
            }
            None => Ok(x),
        }
    }
}

/// A number in three digits.
fn three_digits(x: f64) -> String {
    let rounded: f64 = format!("{x:.2e}").parse().unwrap_or(x);
    if x == 0.0 || (1e-4..1e3).contains(&rounded.abs()) {
        rounded.to_string()
    } else {
        format!("{rounded:e}")
    }
}
