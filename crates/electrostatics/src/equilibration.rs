//! Charge equilibration: the Gaussian charges that minimise an energy at a fixed total charge.
//!
//! E(q) = Σ χ_i q_i + ½ Σ η_i q_i² + E_Coulomb(q) is of second degree in the charges, so its minimum is the solution of a
//! linear system. Its matrix is not made: conjugate gradients take sums of charges alone.

use crate::energies::{Energies, Options, Reduction};
use crate::parameters::each;
use crate::plan::{Method, Prescription, Sum, meshes_reach};
use crate::prepared::{Prepared, SumSettings, parameters, prepare};
use crate::system::System;
use madelung_core::array::{Array, View};
use madelung_core::backend::Context;
use madelung_core::{Error, Result};
use std::f64::consts::PI;

/// Total charges, accuracy and sum of charge equilibration.
#[derive(Clone, Debug, Default)]
pub struct QeqSettings {
    /// Total charge in e, one number for all systems or one per system, or of each molecule; None: 0.
    pub total_charge: Option<Vec<f64>>,
    /// The molecule of each atom (N,), from 0 on, each in one system: each has a total charge of its own. None: a system is
    /// one.
    pub molecules: Option<Vec<i32>>,
    /// Atoms whose charges are held, each with its charge.
    pub held: Vec<(usize, f64)>,
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
/// `hardness`, too, where one is so small that the energy has no minimum; `total_charge`, where it does not fit the systems or
/// molecules, is not finite, or is that of one without atoms that are not held; `molecules` and `held`, where these do not
/// fit the atoms; `sum`, where it is another one; those of
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
    let (groups, start) = spread(system, settings)?;
    let given = Prescription { accuracy: settings.accuracy, ..Prescription::default() };
    let over_list = |sum| SumSettings { sum, method: Some(Method::List), given: given.clone() };
    let cost = |sum| parameters(&over_list(sum), system).map(|found| found.cost);
    let costs_less_on_mesh =
        || Ok::<_, Error>(meshes_reach(settings.accuracy) && cost(Sum::Mesh)? < cost(Sum::Waves)?);
    let sum = match settings.sum {
        Some(sum) if sum.is_whole() => sum,
        Some(sum) => return Err(Error::argument("sum", "Waves or Mesh", format!("{sum:?}"))),
        None if costs_less_on_mesh()? => Sum::Mesh,
        None => Sum::Waves,
    };
    let Prepared::Sum(coulomb) = prepare(context, &over_list(sum), system, None)? else {
        unreachable!("the settings say the method")
    };

    let (dtype, shape) = (system.positions.dtype(), [chi.len()]);
    let of_charges =
        Options { prefactor: options.prefactor, compute_charge_gradients: true, ..Options::default() };
    let times = |q: &[f64]| -> Result<Vec<f64>> {
        let charges = Array::from_f64(dtype, &shape, q)?;
        let potentials =
            coulomb.evaluated(context, system, &charges.view(), None, &of_charges)?.charge_gradients;
        let potentials = potentials.expect("asked for").to_f64()?;
        Ok(potentials.iter().zip(&eta).zip(q).map(|((v, eta), q)| v + eta * q).collect())
    };
    let own: Vec<f64> =
        eta.iter().zip(&widths).map(|(eta, width)| eta + options.prefactor / (PI.sqrt() * width)).collect();
    let (of, systems, narrow) = (system.batch.idx(), system.systems(), system.is_narrow());
    let mut search = Minimum::new(own, of.to_vec(), systems, groups, narrow, chi.clone(), start);
    while let Some(q) = search.asked() {
        let image = times(q)?;
        search.answered(&image)?;
    }

    let charges = Array::from_f64(dtype, &shape, search.charges())?;
    let mut energies = coulomb.evaluated(context, system, &charges.view(), None, options)?;
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

/// The atoms whose charges keep their sum, and charges of the total charges, of which those that are not held are alike.
fn spread(system: &System<'_>, settings: &QeqSettings) -> Result<(Groups, Vec<f64>)> {
    let atoms = system.batch.atoms();
    let of_systems = system.batch.idx();
    let mut of = settings.molecules.clone().unwrap_or_else(|| of_systems.to_vec());
    let refuse = |name: &str, expected: String, got: String| Err(Error::argument(name, expected, got));
    if of.len() != atoms {
        return refuse("molecules", format!("{atoms} of them, one for each atom"), format!("{}", of.len()));
    }
    let count = match settings.molecules {
        Some(_) => {
            of.iter().max().map_or(0, |most| usize::try_from(*most).map_or(0, |most| (most + 1).min(atoms)))
        }
        None => system.systems(),
    };
    let mut system_of = vec![None; count];
    for (i, (group, b)) in of.iter().zip(of_systems.iter()).enumerate() {
        match usize::try_from(*group).ok().and_then(|group| system_of.get_mut(group)) {
            Some(known) if known.is_none_or(|known| known == b) => *known = Some(b),
            _ => {
                let expected =
                    format!("numbers below {atoms} from 0 up, the same for atoms of one system alone");
                return refuse("molecules", expected, format!("{group} of atom {i}"));
            }
        }
    }
    let mut charges = vec![0.0; atoms];
    let given = settings.total_charge.as_deref().unwrap_or(&[0.0]);
    let mut left = each("total_charge", Some(given), count)?.unwrap_or_default();
    if let Some(bad) = left.iter().find(|x| !x.is_finite()) {
        return refuse("total_charge", "finite numbers".into(), bad.to_string());
    }
    for (i, q) in &settings.held {
        match of.get_mut(*i) {
            Some(group) if *group >= 0 && q.is_finite() => {
                left[*group as usize] -= q;
                (*group, charges[*i]) = (-1, *q);
            }
            _ => {
                let expected = format!("atoms below {atoms}, each once, with finite charges");
                return refuse("held", expected, format!("{q} of atom {i}"));
            }
        }
    }
    let free = sums(&of, count, of.iter().map(|_| 1.0));
    // One number for all is that of systems with atoms; sums of charges that are held are rounded.
    let is_wrong = |b: &usize| match system_of[*b] {
        None => given.len() > 1 && left[*b] != 0.0,
        Some(_) => free[*b] == 0.0 && left[*b].abs() > 1e-6,
    };
    if let Some(b) = (0..count).find(is_wrong) {
        let whole = if settings.molecules.is_some() { "molecule" } else { "system" };
        let expected = match system_of[b] {
            None => format!("0 of {whole} {b}, which has no atoms"),
            Some(_) => format!("the sum of the charges of {whole} {b}, which are all held"),
        };
        return refuse("total_charge", expected, format!("{given:?}"));
    }
    for (q, group) in charges.iter_mut().zip(&of).filter(|(_, group)| **group >= 0) {
        *q = left[*group as usize] * (1.0 / free[*group as usize]);
    }
    Ok((Groups { of, count }, charges))
}

/// Groups of atoms whose charges keep their sum.
#[derive(Clone, Debug)]
pub struct Groups {
    /// The group of each atom; −1: its charge is held.
    pub of: Vec<i32>,
    /// The number of groups.
    pub count: usize,
}

/// The sum over each system or group; atoms of −1 are in none.
fn sums(of: &[i32], systems: usize, each: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut found = vec![0.0; systems];
    of.iter().zip(each).filter(|(b, _)| **b >= 0).for_each(|(b, x)| found[*b as usize] += x);
    found
}

/// The search for the minimum of an energy of second degree at a fixed total charge of each group, by conjugate gradients
/// for each system alone, until slopes along changes of charge are 1e-12 (float32: 1e-6) of those of the energy without
/// charges, or of what the charges at the start add to them, whichever are larger.
///
/// Its caller multiplies by the matrix: for [`Minimum::asked`] charges, until there are none.
#[derive(Clone, Debug)]
pub struct Minimum {
    of: Vec<i32>,
    systems: usize,
    groups: Groups,
    /// The preconditioner: one over about the diagonal of the matrix, 0 of charges that are held, and its sum over each group.
    inverse: Vec<f64>,
    weight: Vec<f64>,
    tolerance: f64,
    charges: Vec<f64>,
    slopes: Vec<f64>,
    /// The length of slopes at which each system has its minimum; empty before the first slopes are known.
    limit: Vec<f64>,
    is_open: Vec<bool>,
    /// The direction, and slopes times preconditioned slopes.
    along: Vec<f64>,
    product: Vec<f64>,
    steps: usize,
}

impl Minimum {
    /// The search from charges that have the total charge; `slopes`: those of the energy without charges (N,); `own`: about
    /// the diagonal of the matrix (N,); `of`: the system of each atom; `groups`: whose charges keep their sums, each in one
    /// system; `narrow`: whether the matrix is one of float32.
    pub fn new(
        own: Vec<f64>,
        of: Vec<i32>,
        systems: usize,
        groups: Groups,
        narrow: bool,
        slopes: Vec<f64>,
        start: Vec<f64>,
    ) -> Self {
        let one_over = |(x, group): (f64, &i32)| match group {
            -1 => 0.0,
            _ if x > 0.0 => 1.0 / x,
            _ => 1.0,
        };
        let inverse: Vec<f64> = own.into_iter().zip(&groups.of).map(one_over).collect();
        let weight = sums(&groups.of, groups.count, inverse.iter().copied());
        let weight = weight.into_iter().map(|w| w.max(1e-300)).collect();
        // Below it rounding is all that changes.
        let tolerance = if narrow { 1e-6 } else { 1e-12 };
        let (limit, is_open, along, product) = (vec![], vec![true; systems], vec![], vec![]);
        let (charges, steps) = (start, 0);
        let mut search = Self {
            of,
            systems,
            groups,
            inverse,
            weight,
            tolerance,
            charges,
            slopes,
            limit,
            is_open,
            along,
            product,
            steps,
        };
        if search.charges.iter().all(|x| *x == 0.0) {
            search.begin(&vec![0.0; search.slopes.len()]);
        }
        search
    }

    /// The charges (N,), at their minimum where none are asked for.
    pub fn charges(&self) -> &[f64] {
        &self.charges
    }

    /// Charges whose product with the matrix comes next; None: the minimum is found.
    pub fn asked(&self) -> Option<&[f64]> {
        let along = if self.limit.is_empty() { &self.charges } else { &self.along };
        self.is_open.contains(&true).then_some(&along[..])
    }

    /// Goes on by the product of the matrix and the charges that were asked for.
    ///
    /// # Errors
    /// `hardness`, where the energy has no minimum.
    pub fn answered(&mut self, image: &[f64]) -> Result<()> {
        if self.limit.is_empty() {
            self.begin(image);
            return Ok(());
        }
        let curvature = self.dot(&self.along, image);
        let has_minimum = |b: usize| curvature[b] > 0.0;
        if let Some(b) = (0..self.systems).find(|b| self.is_open[*b] && !has_minimum(*b)) {
            let expected = "numbers so large that the energy has a minimum at fixed total charge";
            let found = three_digits(curvature[b] / self.dot(&self.along, &self.along)[b]);
            return Err(Error::argument(
                "hardness",
                expected,
                format!("a curvature of {found} (system {b})"),
            ));
        }
        let steps = self.ratios(&self.product, &curvature);
        for (i, b) in self.of.iter().enumerate() {
            self.charges[i] -= steps[*b as usize] * self.along[i];
            self.slopes[i] -= steps[*b as usize] * image[i];
        }
        let slopes = std::mem::take(&mut self.slopes);
        self.slopes = self.level(slopes);
        let scaled = self.scaled();
        let product = self.dot(&self.slopes, &scaled);
        let turns = self.ratios(&product, &self.product);
        for (i, b) in self.of.iter().enumerate() {
            self.along[i] = scaled[i] + turns[*b as usize] * self.along[i];
        }
        self.product = product;
        let lengths = self.lengths();
        let limits = lengths.iter().zip(&self.limit);
        self.is_open.iter_mut().zip(limits).for_each(|(on, (x, limit))| *on &= x > limit);
        self.steps += 1;
        match self.is_open.iter().position(|on| *on) {
            Some(b) if self.steps == 4 * self.charges.len() + 20 => {
                let [limit, slope] = [self.limit[b], lengths[b]].map(three_digits);
                let expected = format!("numbers for which slopes fall below {limit}");
                Err(Error::argument("hardness", expected, format!("slopes of {slope} (system {b})")))
            }
            _ => Ok(()),
        }
    }

    /// The first direction; `image` is the product of the matrix and the charges at the start.
    fn begin(&mut self, image: &[f64]) {
        let [without, of_charges] = [self.slopes.clone(), image.to_vec()].map(|x| {
            let x = self.level(x);
            self.dot(&x, &x)
        });
        let larger = without.iter().zip(of_charges).map(|(x, y)| x.max(y).sqrt());
        self.limit = larger.map(|x| self.tolerance * x).collect();
        self.slopes.iter_mut().zip(image).for_each(|(r, image)| *r += image);
        let slopes = std::mem::take(&mut self.slopes);
        self.slopes = self.level(slopes);
        self.is_open = self.lengths().iter().zip(&self.limit).map(|(x, limit)| x > limit).collect();
        self.along = self.scaled();
        self.product = self.dot(&self.slopes, &self.along);
    }

    /// Leaves of the slopes what those of a group do not have in common, which would be all that is left of them in the end,
    /// and none of charges that are held.
    fn level(&self, mut slopes: Vec<f64>) -> Vec<f64> {
        let each = self.inverse.iter().zip(&slopes).map(|(x, r)| x * r);
        let common = sums(&self.groups.of, self.groups.count, each);
        for (r, group) in slopes.iter_mut().zip(&self.groups.of) {
            match usize::try_from(*group) {
                Ok(group) => *r -= common[group] / self.weight[group],
                Err(_) => *r = 0.0,
            }
        }
        slopes
    }

    fn scaled(&self) -> Vec<f64> {
        self.slopes.iter().zip(&self.inverse).map(|(r, x)| x * r).collect()
    }

    /// The product of two vectors in each system.
    fn dot(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        sums(&self.of, self.systems, a.iter().zip(b).map(|(a, b)| a * b))
    }

    fn lengths(&self) -> Vec<f64> {
        self.dot(&self.slopes, &self.slopes).into_iter().map(f64::sqrt).collect()
    }

    /// A quotient of each system; 0 for those that have their minimum.
    fn ratios(&self, over: &[f64], under: &[f64]) -> Vec<f64> {
        (0..self.systems).map(|b| if self.is_open[b] { over[b] / under[b] } else { 0.0 }).collect()
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
