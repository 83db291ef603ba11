//! Parameters of one system for the accuracy of a call.

use crate::mesh::{self, PmeParameters, PrescribedMesh};
use crate::tuning::{self, EwaldParameters, Prescribed, SMALLEST_ACCURACY, of_power, spacing_of};
use madelung_core::{Error, Result};

/// The relative error of forces for which open parameters are chosen where a caller states none.
pub const DEFAULT_ACCURACY: f64 = 1e-6;

/// The smallest relative error of forces that sums of float32 have: their rounding.
pub const NARROW_ACCURACY: f64 = 1e-5;

/// The relative error of forces that a call asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accuracy {
    stated: Option<f64>,
    default: f64,
}

impl Accuracy {
    /// The accuracy that a caller states, if any; `narrow`: for arrays of float32.
    ///
    /// # Errors
    /// `accuracy`, where no such sum has it.
    pub(crate) fn of(stated: Option<f64>, narrow: bool) -> Result<Self> {
        let (least, why) = if narrow {
            (NARROW_ACCURACY, "1e-5 (the rounding of float32)")
        } else {
            (SMALLEST_ACCURACY, "1e-14 (the rounding of float64)")
        };
        if let Some(bad) = stated.filter(|x| !(least..1.0).contains(x)) {
            let expected = format!("a relative force error from {why} to below 1");
            return Err(Error::argument("accuracy", expected, bad.to_string()));
        }
        Ok(Self { stated, default: DEFAULT_ACCURACY.max(least) })
    }

    /// The error for which open parameters are chosen.
    pub(crate) fn target(self) -> f64 {
        self.stated.unwrap_or(self.default)
    }

    /// An estimate of parameters. Where no accuracy is stated, given ones are taken as they are, and open ones are chosen for
    /// the default; where given ones do not allow that, an open one is chosen that keeps their error, as `balanced` does.
    ///
    /// # Errors
    /// Those of the estimate.
    pub(crate) fn met<P>(
        self,
        is_open: bool,
        estimate: impl Fn(Option<f64>) -> Result<P>,
        balanced: impl Fn() -> Option<P>,
    ) -> Result<P> {
        if self.stated.is_some() || !is_open {
            return estimate(self.stated);
        }
        estimate(Some(self.default)).or_else(|error| balanced().ok_or(error))
    }
}

/// The relative error of forces for which a call chooses open parameters; `narrow`: in float32.
///
/// # Errors
/// `accuracy`, where no such sum has it.
pub fn accuracy(stated: Option<f64>, narrow: bool) -> Result<f64> {
    Accuracy::of(stated, narrow).map(Accuracy::target)
}

/// The parameters of a sum of 1/rᵖ of one system: its number of atoms, cell and crowding.
pub(crate) fn ewald_parameters(
    (atoms, cell, crowding): (usize, &[[f64; 3]; 3], f64),
    exponent: u32,
    accuracy: Accuracy,
    given: Prescribed,
) -> Result<EwaldParameters> {
    let spacing = spacing_of(atoms, cell)?;
    let estimate = |accuracy| {
        let of = |accuracy| tuning::estimate(atoms, cell, crowding, accuracy, given);
        of_power(exponent, (spacing, crowding), accuracy, given.alpha, of, |p: &mut EwaldParameters| {
            (p.alpha, p.cutoff, &mut p.predicted_force_error)
        })
    };
    accuracy.met(given.is_open(), estimate, || estimate(None).ok())
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

/// The parameters of a sum of 1/rᵖ of one system: its number of atoms, cell and crowding.
pub(crate) fn pme_parameters(
    (atoms, cell, crowding): (usize, &[[f64; 3]; 3], f64),
    exponent: u32,
    accuracy: Accuracy,
    given: PrescribedMesh,
) -> Result<PmeParameters> {
    let spacing = spacing_of(atoms, cell)?;
    let estimate = |accuracy, given| {
        let of = |accuracy| mesh::estimate(atoms, cell, crowding, accuracy, given);
        of_power(exponent, (spacing, crowding), accuracy, given.alpha, of, |p: &mut PmeParameters| {
            (p.alpha, p.cutoff, &mut p.predicted_force_error)
        })
    };
    let is_open = given.alpha.is_none() || given.cutoff.is_none() || given.mesh_dimensions.is_none();
    let powers = || (1..=20).find_map(|n| estimate(Some(accuracy.target() * 2f64.powi(n)), given).ok());
    accuracy.met(is_open, |accuracy| estimate(accuracy, given), powers)
}

/// Prescribed values, one for all systems or one for each.
pub(crate) fn each<T: Copy>(name: &str, given: Option<&[T]>, systems: usize) -> Result<Option<Vec<T>>> {
    match given {
        None => Ok(None),
        Some([all]) => Ok(Some(vec![*all; systems])),
        Some(each) if each.len() == systems => Ok(Some(each.to_vec())),
        Some(each) => {
            let expected = format!("one for all, or one for each of {systems} systems");
            Err(Error::argument(name, expected, each.len().to_string()))
        }
    }
}
