//! Splitting parameter and cutoffs of an Ewald sum from one number, the wanted accuracy.
//!
//! The estimates are those of Kolafa and Perram, *Cutoff errors in the Ewald summation formulae for point
//! charge systems*, Mol. Simul. 9, 351 (1992): the RMS over atoms of the force that the terms left out would
//! have given, if charges were placed at random. With `Q = Σ q²`, `N` atoms and volume `V`, in e²/L²,
//!
//! ```text
//! real        δF² = (Q²/NV) ∫_{r>rc} (2α/√π · exp(−α²r²)/r)² d³r        ≈ 4 Q² exp(−2α²rc²) / (N V rc)
//! reciprocal  δF² = (Q²/N) · 8/V · ∫_{k>kc} exp(−k²/2α²) dk              ≈ 8 Q² α² exp(−kc²/2α²) / (N V kc)
//! ```
//!
//! The reciprocal form is the paper's `(Qα/πL) √(8/(K N)) …` in another dress: here the sum over wave vectors
//! of the half space became an integral with V/(2π)³ vectors per unit of reciprocal volume, so `k_cutoff` and
//! `V` describe any cell, and the two forms turn into each other under `α rc ↔ kc/2α`.
//!
//! In units of q²_rms/(V/N)^{2/3} the charges drop out. With the spacing `d = (V/N)^{1/3}`,
//!
//! ```text
//! ε_real = 2 √(d/rc) exp(−x²),  x = α rc          ε_reciprocal = 2 √(α d/s) exp(−s²),  s = kc/2α
//! ```
//!
//! and equal errors mean `s = x`, that is `kc = 2 α² rc`. A parameter that was given leaves an error of its own; what is
//! open is chosen for the rest of the target.
//!
//! Charges are not at random places, so parameters are chosen for estimates below the target, by a factor for either sum.
//! What is given is refused only where its own estimate exceeds the target.
//!
//! In droplets and layers both squares are larger by the density around atoms over that of the cell: see
//! [`crowding`](crate::plan::crowding()).
//!
//! The RMS is over atoms of the length of the error vector; over its components it is √3 smaller.
//!
//! Measured error over `predicted_force_error` for accuracies from 1e-3 to 1e-11, against converged sums:
//! - 0.6 to 1.6 for 13 random systems (20 to 200 charges, orthorhombic to left-handed triclinic, neutral and
//!   charged) with three cutoffs each: the chosen one, half the box and 1.2 times the box;
//! - 0.45 to 1.15 for 801 atoms of water, better at low accuracies because its molecules are neutral;
//! - in a crystal terms related by symmetry cancel or add up, and the estimate is no more than a scale: rock
//!   salt has no error at any cutoff, rutile 0.02 to 0.9 of the estimate, wurtzite and jittered rock salt up to
//!   1.75 times it.

use std::f64::consts::{PI, SQRT_2};

use madelung_core::cell::Cell;
use madelung_core::{Error, Result};

/// Cost of one pair of the full list in the real-space sum: a square root, an exponential, a polynomial and a
/// gathered read. The unit is arbitrary: only the ratio to [`WAVE_COST`] matters, and the cutoff goes with
/// its sixth root, so a ratio that is wrong by a factor of two costs about 6 % of the time.
pub const PAIR_COST: f64 = 1.0;

/// Cost of one atom and one wave vector (of the half space) in the reciprocal sum: a sine, a cosine and two
/// multiply-adds in each of two passes, in the unit of [`PAIR_COST`].
pub const WAVE_COST: f64 = 1.0;

/// Margin of chosen parameters for errors of the real-space sum above their estimate: images of a small cell and uneven
/// densities add up.
const REAL_MARGIN: f64 = 1.4;

/// Margin of chosen parameters for errors of the reciprocal sum. The waves left out first are few, and stronger or
/// weaker than those of random charges: in a crystal of N ions at finite temperature a Bragg peak is up to N times as strong.
const WAVE_MARGIN: f64 = 4.0;

/// The smallest accuracy: below it the rounding of f64 sums exceeds the truncation error.
pub(crate) const SMALLEST_ACCURACY: f64 = 1e-14;

/// Parameters of an Ewald sum, and their expected error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EwaldParameters {
    /// Splitting parameter, in 1/L.
    pub alpha: f64,
    /// Radius of the real-space sum, in L. It may exceed the cell: images are then pairs like any other.
    pub cutoff: f64,
    /// Radius of the reciprocal sum, in radians per L.
    pub k_cutoff: f64,
    /// Expected RMS force error of both sums together, in units of q²_rms/(V/N)^{2/3}. To have it in e²/L²,
    /// multiply by that: `Σ q² / N / (V/N)^{2/3}`.
    pub predicted_force_error: f64,
}

impl EwaldParameters {
    /// Cost of both sums for so many atoms in a volume (L³), in the unit of [`PAIR_COST`].
    pub fn cost(&self, natoms: usize, volume: f64) -> f64 {
        let waves = volume * self.k_cutoff.powi(3) / (12.0 * PI * PI);
        real_space_cost(natoms, volume, self.cutoff) + WAVE_COST * natoms as f64 * waves
    }
}

/// Cost of the pairs of atoms closer than a cutoff, in the unit of [`PAIR_COST`].
pub(crate) fn real_space_cost(natoms: usize, volume: f64, cutoff: f64) -> f64 {
    let n = natoms as f64;
    PAIR_COST * n * (4.0 / 3.0 * PI * cutoff.powi(3) * n / volume)
}

/// Parameters of an Ewald sum that are prescribed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prescribed {
    /// Splitting parameter, in 1/L.
    pub alpha: Option<f64>,
    /// Radius of the real-space sum, in L.
    pub cutoff: Option<f64>,
    /// Radius of the reciprocal sum, in radians per L.
    pub k_cutoff: Option<f64>,
}

impl Prescribed {
    /// Whether a parameter is open.
    pub(crate) fn is_open(&self) -> bool {
        self.alpha.is_none() || self.cutoff.is_none() || self.k_cutoff.is_none()
    }
}

/// Parameters of an Ewald sum whose predicted RMS force error is about half of `accuracy`, shared by both sums.
///
/// - `natoms`: number of atoms N, at random places in the cell: of droplets, [`EwaldSettings::parameters`](crate::EwaldSettings::parameters) knows.
/// - `cell`: rows are the lattice vectors (L), of either handedness.
/// - `accuracy`: RMS over atoms of the force error |δF|, over q²_rms/(V/N)^{2/3}; from 1e-14 to below 1. None: what is
///   prescribed is taken as it is, and the parameter that is open, one at most, gives both sums the same error.
/// - `given`: what is prescribed; the rest is chosen. Without a prescription the cutoff is the one where both sums cost
///   the least together, which grows with N as `(V²/N)^{1/6}` so that the total cost goes with N^{3/2}.
///
/// # Errors
/// `natoms` where it is zero, `cell` where it is singular or not finite, `accuracy` where it is outside the range or None
/// with more than one parameter open, `alpha`, `cutoff` and `k_cutoff` where they are not finite numbers above zero, and
/// `cutoff` or `k_cutoff` where the accuracy cannot be had with what is prescribed.
pub fn estimate_ewald_parameters(
    natoms: usize,
    cell: &[[f64; 3]; 3],
    accuracy: Option<f64>,
    given: Prescribed,
) -> Result<EwaldParameters> {
    estimate(natoms, cell, 1.0, accuracy, given)
}

/// Parameters for atoms whose density is so many times that of the cell around them: both errors go with its root.
pub(crate) fn estimate(
    natoms: usize,
    cell: &[[f64; 3]; 3],
    crowding: f64,
    accuracy: Option<f64>,
    given: Prescribed,
) -> Result<EwaldParameters> {
    if natoms == 0 {
        return Err(Error::argument("natoms", "at least one atom", "0"));
    }
    if let Some(bad) = accuracy.filter(|target| !(SMALLEST_ACCURACY..1.0).contains(target)) {
        let expected = "a relative force error from 1e-14 (the rounding of f64) to below 1";
        return Err(Error::argument("accuracy", expected, bad.to_string()));
    }
    let named = [("alpha", given.alpha), ("cutoff", given.cutoff), ("k_cutoff", given.k_cutoff)];
    for (name, x) in named {
        if let Some(bad) = x.filter(|x| !(x.is_finite() && *x > 0.0)) {
            return Err(Error::argument(name, "a finite number above zero", bad.to_string()));
        }
    }
    let volume = Cell::from_rows(*cell)?.volume();
    if !volume.is_normal() {
        return Err(Error::argument("cell", "a volume that f64 can hold", format!("{volume:e}")));
    }
    let spacing = (volume / natoms as f64).cbrt();
    let (alpha, cutoff, k_cutoff) = match accuracy {
        Some(target) => chosen(natoms, spacing, crowding.sqrt(), target, given)?,
        None => balanced(given)?,
    };
    // Of extreme numbers that are given, squares leave the range of f64.
    if let Some(bad) = [alpha, cutoff, k_cutoff].iter().find(|x| !(x.is_finite() && **x > 0.0)) {
        let name = named.iter().find(|(_, x)| x.is_some()).map_or("cell", |(name, _)| name);
        let got = format!("one that makes another parameter {bad}");
        return Err(Error::argument(name, "a number that leaves the others within the range of f64", got));
    }
    let real = real_space_force_error(spacing, alpha, cutoff);
    let reciprocal = reciprocal_space_force_error(spacing, alpha, k_cutoff);
    let predicted_force_error = crowding.sqrt() * real.hypot(reciprocal);
    Ok(EwaldParameters { alpha, cutoff, k_cutoff, predicted_force_error })
}

/// (V/N)^{1/3} of atoms in a cell.
pub(crate) fn spacing_of(natoms: usize, cell: &[[f64; 3]; 3]) -> Result<f64> {
    Ok((Cell::from_rows(*cell)?.volume() / natoms as f64).cbrt())
}

/// Error of the sum over waves of 1/rᵖ over that of a sum of 1/r with the same parameters, each in units of its own forces,
/// q²_rms/(V/N)^{(p+1)/3}: at most √π (αd)ᵖ⁻¹/Γ(p/2) at the spacing d, as y E₍ₚ₋₁₎⸝₂(y) ≤ exp(−y), which it is for p = 1.
fn waves_of_power(exponent: u32, alpha_spacing: f64) -> f64 {
    let gamma = [PI.sqrt(), 1.0, PI.sqrt() / 2.0, 1.0, 0.75 * PI.sqrt(), 2.0][exponent as usize - 1];
    PI.sqrt() * alpha_spacing.powi(exponent as i32 - 1) / gamma
}

/// Error of pairs beyond x = αr_c in that unit, over that of waves, at most: 1 + p/2 · Γ(p/2, x²) exp(x²)/xᵖ, the derivative of
/// Γ(p/2, x²)/rᵖ over its part that is left for large x, which is what is counted for p = 1.
fn pairs_of_power(exponent: u32, x: f64) -> f64 {
    let (square, s) = (x * x, f64::from(exponent) / 2.0);
    if exponent == 1 {
        return 1.0;
    }
    // Γ(s, u) = (s − 1) Γ(s − 1, u) + uˢ⁻¹ exp(−u), from Γ(1, u) = exp(−u) or Γ(½, u) < exp(−u)/√u.
    let first = if exponent.is_multiple_of(2) { 1.0 } else { 0.5 };
    let terms = (s - first) as usize;
    let gamma = (0..terms).fold(1.0 / square, |gamma, n| ((first + n as f64) * gamma + 1.0) / square);
    1.0 + s * gamma
}

/// Error of a sum of 1/rᵖ over that of a sum of 1/r with parameters α, r_c and this error, at most.
fn error_of_power(
    exponent: u32,
    (spacing, crowding): (f64, f64),
    (alpha, cutoff, error): (f64, f64, f64),
) -> f64 {
    let real = (crowding.sqrt() * real_space_force_error(spacing, alpha, cutoff)).min(error);
    let pairs = if error > 0.0 { (real / error).powi(2) } else { 1.0 };
    let beyond = pairs_of_power(exponent, alpha * cutoff);
    waves_of_power(exponent, alpha * spacing) * (1.0 + pairs * (beyond * beyond - 1.0)).sqrt()
}

/// The parameters of a sum of 1/rᵖ, from the estimate for one of 1/r, whose error is another and depends on α;
/// `given`: α, where it is; `parts`: α, cutoff and the predicted error.
pub(crate) fn of_power<P>(
    exponent: u32,
    (spacing, crowding): (f64, f64),
    accuracy: Option<f64>,
    given: Option<f64>,
    estimate: impl Fn(Option<f64>) -> Result<P>,
    parts: impl Fn(&mut P) -> (f64, f64, &mut f64),
) -> Result<P> {
    if !(1..=6).contains(&exponent) {
        return Err(Error::argument("exponent", "1 to 6", exponent.to_string()));
    }
    let ratio_of = |found: &mut P| {
        let (alpha, cutoff, error) = parts(found);
        error_of_power(exponent, (spacing, crowding), (alpha, cutoff, *error))
    };
    // Out of range, it is refused as for 1/r.
    let Some(target) = accuracy.filter(|x| exponent > 1 && (SMALLEST_ACCURACY..1.0).contains(x)) else {
        let mut found = estimate(accuracy)?;
        let ratio = ratio_of(&mut found);
        *parts(&mut found).2 *= ratio;
        return Ok(found);
    };
    let scaled = |ratio: f64| {
        estimate(Some((target / ratio).clamp(SMALLEST_ACCURACY, 0.5))).map_err(|error| match error {
            Error::Argument { argument, expected, got } => {
                let expected = format!(
                    "{expected}: that of a sum of 1/r, which is {target:e} with the exponent {exponent}"
                );
                Error::argument(argument, expected, got)
            }
            other => other,
        })
    };
    // Parameters that are given may be good enough for this power alone: α tells.
    let mut found = match given {
        Some(alpha) => scaled(waves_of_power(exponent, alpha * spacing)),
        None => scaled(1.0).or_else(|_| estimate(None)),
    }?;
    // α goes with the root of the logarithm of the accuracy, so few rounds settle it.
    for _ in 0..12 {
        found = scaled(ratio_of(&mut found))?;
    }
    let ratio = ratio_of(&mut found);
    if target < SMALLEST_ACCURACY * ratio {
        let expected = format!("at least {:.1e} with the exponent {exponent}", SMALLEST_ACCURACY * ratio);
        return Err(Error::argument("accuracy", expected, target.to_string()));
    }
    *parts(&mut found).2 *= ratio;
    Ok(found)
}

/// (α, rc, kc) for an accuracy, where errors are so many times those of a filled cell.
fn chosen(
    natoms: usize,
    spacing: f64,
    times: f64,
    accuracy: f64,
    given: Prescribed,
) -> Result<(f64, f64, f64)> {
    let target = accuracy / times;
    let share = target / SQRT_2;
    let (real_share, wave_share) = (share / REAL_MARGIN, share / WAVE_MARGIN);
    // What one sum leaves of the target for the other, no less than what costs little more.
    let rest = |error: f64| (target * target - error * error).max(0.0).sqrt().clamp(0.1 * target, share);
    let cutoff_for = |alpha: f64, error: f64| reach(2.0 * (spacing * alpha).sqrt(), 0.5, error) / alpha;
    let k_cutoff_for =
        |alpha: f64, error: f64| 2.0 * alpha * reach(2.0 * (spacing * alpha).sqrt(), 0.5, error);
    let enough = |name: &str, got: f64, needed: f64, error: f64, with: &str| {
        // But for the rounding of parameters that were chosen for it.
        if error <= target * (1.0 + 1e-9) {
            return Ok(());
        }
        let expected =
            format!("at least {needed:.4} for an accuracy of {accuracy:e} with {with} (or no accuracy)");
        Err(Error::argument(name, expected, format!("{got}, which allows {:.1e}", times * error)))
    };
    let real = |alpha: f64, cutoff: f64| {
        let error = real_space_force_error(spacing, alpha, cutoff);
        enough("cutoff", cutoff, cutoff_for(alpha, share), error, &format!("an alpha of {alpha}"))?;
        Ok(error)
    };
    let waves = |alpha: f64, k_cutoff: f64| {
        let error = reciprocal_space_force_error(spacing, alpha, k_cutoff);
        enough("k_cutoff", k_cutoff, k_cutoff_for(alpha, share), error, &format!("an alpha of {alpha}"))?;
        Ok(error)
    };
    Ok(match (given.alpha, given.cutoff, given.k_cutoff) {
        (None, cutoff, None) => {
            let both = (real_share * wave_share).sqrt();
            let cutoff = cutoff.unwrap_or_else(|| cheapest_cutoff(natoms, spacing, both));
            let alpha = reach_of_cutoff(spacing, cutoff, real_share) / cutoff;
            (alpha, cutoff, k_cutoff_for(alpha, wave_share))
        }
        (None, None, Some(k_cutoff)) => {
            // α d/s = kc d/2s²
            let alpha = k_cutoff / (2.0 * reach((2.0 * k_cutoff * spacing).sqrt(), 1.0, wave_share));
            (alpha, cutoff_for(alpha, real_share), k_cutoff)
        }
        (None, Some(cutoff), Some(k_cutoff)) => {
            let error_at = |alpha: f64| {
                real_space_force_error(spacing, alpha, cutoff)
                    .hypot(reciprocal_space_force_error(spacing, alpha, k_cutoff))
            };
            let safest = alpha_between(cutoff, k_cutoff, WAVE_MARGIN / REAL_MARGIN);
            let alpha = if error_at(safest) <= target { safest } else { (k_cutoff / (2.0 * cutoff)).sqrt() };
            let needed = 2.0 * reach_of_cutoff(spacing, cutoff, share).powi(2) / cutoff;
            enough("k_cutoff", k_cutoff, needed, error_at(alpha), &format!("a cutoff of {cutoff}"))?;
            (alpha, cutoff, k_cutoff)
        }
        (Some(alpha), None, None) => (alpha, cutoff_for(alpha, real_share), k_cutoff_for(alpha, wave_share)),
        (Some(alpha), Some(cutoff), None) => {
            let left = rest(REAL_MARGIN * real(alpha, cutoff)?);
            (alpha, cutoff, k_cutoff_for(alpha, left / WAVE_MARGIN))
        }
        (Some(alpha), None, Some(k_cutoff)) => {
            let left = rest(WAVE_MARGIN * waves(alpha, k_cutoff)?);
            (alpha, cutoff_for(alpha, left / REAL_MARGIN), k_cutoff)
        }
        (Some(alpha), Some(cutoff), Some(k_cutoff)) => {
            real(alpha, cutoff)?;
            waves(alpha, k_cutoff)?;
            (alpha, cutoff, k_cutoff)
        }
    })
}

/// (α, rc, kc) with the same error of both sums, whatever it is.
fn balanced(given: Prescribed) -> Result<(f64, f64, f64)> {
    match (given.alpha, given.cutoff, given.k_cutoff) {
        (Some(alpha), Some(cutoff), Some(k_cutoff)) => Ok((alpha, cutoff, k_cutoff)),
        (Some(alpha), Some(cutoff), None) => Ok((alpha, cutoff, 2.0 * alpha * alpha * cutoff)),
        (Some(alpha), None, Some(k_cutoff)) => Ok((alpha, k_cutoff / (2.0 * alpha * alpha), k_cutoff)),
        (None, Some(cutoff), Some(k_cutoff)) => Ok(((k_cutoff / (2.0 * cutoff)).sqrt(), cutoff, k_cutoff)),
        _ => {
            let expected = "a number, or two of `alpha`, `cutoff` and `k_cutoff`";
            Err(Error::argument("accuracy", expected, "None"))
        }
    }
}

/// Expected RMS force error of a real-space sum that ends at `cutoff` (L), in units of q²_rms/(V/N)^{2/3}.
///
/// `spacing` is (V/N)^{1/3} in L and `alpha` is in 1/L. Kolafa and Perram, Mol. Simul. 9, 351 (1992).
pub fn real_space_force_error(spacing: f64, alpha: f64, cutoff: f64) -> f64 {
    2.0 * (spacing / cutoff).sqrt() * (-(alpha * cutoff).powi(2)).exp()
}

/// Expected RMS force error of a reciprocal sum that ends at `k_cutoff` (radians per L), in units of
/// q²_rms/(V/N)^{2/3}.
///
/// `spacing` is (V/N)^{1/3} in L and `alpha` is in 1/L. Kolafa and Perram, Mol. Simul. 9, 351 (1992).
pub fn reciprocal_space_force_error(spacing: f64, alpha: f64, k_cutoff: f64) -> f64 {
    let s = k_cutoff / (2.0 * alpha);
    2.0 * (alpha * spacing / s).sqrt() * (-s * s).exp()
}

/// α at which the error of the real-space sum is so many times that of the reciprocal one, by Newton's method for its
/// logarithm: ln(ε_real/ε_reciprocal) = ½ ln(kc/2rc) − ln α − (α rc)² + (kc/2α)².
fn alpha_between(cutoff: f64, k_cutoff: f64, ratio: f64) -> f64 {
    let mut alpha = (k_cutoff / (2.0 * cutoff)).sqrt();
    for _ in 0..20 {
        let (x, s) = (alpha * cutoff, k_cutoff / (2.0 * alpha));
        let value = 0.5 * (s / x).ln() - x * x + s * s - ratio.ln();
        alpha *= (value / (1.0 + 2.0 * (x * x + s * s))).exp();
    }
    alpha
}

/// `x = α·cutoff` at which the real-space sum leaves an error.
///
/// The asymptotic forms need x of order one; where a low accuracy and a long cutoff ask for less, the result
/// is simply more accurate than wanted.
fn reach_of_cutoff(spacing: f64, cutoff: f64, error: f64) -> f64 {
    (2.0 * (spacing / cutoff).sqrt() / error).ln().max(1.0).sqrt()
}

/// `x`, 1 or more, at which `scale x⁻ᵖ exp(−x²)` falls to an error: x² = ln(scale/error) − p ln x, by Newton's method.
fn reach(scale: f64, power: f64, error: f64) -> f64 {
    let square = (scale / error).ln();
    let mut x = square.max(1.0).sqrt();
    for _ in 0..50 {
        let value = x * x + power * x.ln() - square;
        x = (x - value / (2.0 * x + power / x)).max(1.0);
    }
    x
}

/// Cutoff at which the estimated cost of both sums is smallest, where each leaves an error.
///
/// Pairs cost `N · 4π/3 rc³ N/V`, waves `N · V kc³/12π²` with `kc = 2x²/rc`. At fixed x the minimum is where
/// the two are equal; x depends on the cutoff through the logarithm of a square root only, so few rounds settle
/// it.
fn cheapest_cutoff(natoms: usize, spacing: f64, error: f64) -> f64 {
    let ratio = WAVE_COST / PAIR_COST / (2.0 * PI.powi(3));
    let scale = spacing * (natoms as f64 * ratio).powf(1.0 / 6.0);
    let mut cutoff = spacing;
    for _ in 0..20 {
        cutoff = scale * reach_of_cutoff(spacing, cutoff, error);
    }
    cutoff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvectors::miller_indices;

    const CELL: [[f64; 3]; 3] = [[9.0, 0.0, 0.0], [2.0, 11.0, 0.0], [-1.0, 3.0, 10.0]];
    const SPACING: f64 = 2.1472291690189413; // (990/100)^{1/3}
    const NATOMS: usize = 100;

    const OPEN: Prescribed = Prescribed { alpha: None, cutoff: None, k_cutoff: None };

    fn estimate(accuracy: f64, cutoff: Option<f64>) -> EwaldParameters {
        estimate_ewald_parameters(
            NATOMS,
            &CELL,
            Some(accuracy),
            Prescribed { cutoff, ..Prescribed::default() },
        )
        .unwrap()
    }

    /// Midpoint rule over [from, from + length], fine enough for the smooth integrands below.
    fn integrate(f: impl Fn(f64) -> f64, from: f64, length: f64) -> f64 {
        let step = length / 20_000.0;
        (0..20_000).map(|i| f(from + (f64::from(i) + 0.5) * step)).sum::<f64>() * step
    }

    #[test]
    fn both_sums_share_the_error() {
        for accuracy in [1e-2, 1e-3, 1e-6, 1e-9, 1e-14] {
            for cutoff in [None, Some(4.0), Some(25.0)] {
                let p = estimate(accuracy, cutoff);
                assert!(cutoff.is_none_or(|r| r == p.cutoff));
                let share = accuracy / SQRT_2;
                let real = real_space_force_error(SPACING, p.alpha, p.cutoff);
                let reciprocal = reciprocal_space_force_error(SPACING, p.alpha, p.k_cutoff);
                assert!((real * REAL_MARGIN / share - 1.0).abs() < 1e-9, "{real} {share}");
                assert!((reciprocal * WAVE_MARGIN / share - 1.0).abs() < 1e-9, "{reciprocal} {share}");
                assert!((p.predicted_force_error / real.hypot(reciprocal) - 1.0).abs() < 1e-9);
            }
        }
    }

    /// Every subset that is prescribed: the parameters that are open meet the target, or an error says what is needed.
    #[test]
    fn open_parameters_meet_the_target() {
        for (accuracy, alpha, cutoff, k_cutoff) in
            [(1e-3, 0.3, 9.0, 2.0), (1e-6, 0.6, 7.0, 5.0), (1e-6, 0.1, 5.0, 0.7), (1e-9, 0.9, 5.5, 8.5)]
        {
            for subset in 0..8u32 {
                let of = |bit: u32, x: f64| (subset >> bit & 1 == 1).then_some(x);
                let given =
                    Prescribed { alpha: of(0, alpha), cutoff: of(1, cutoff), k_cutoff: of(2, k_cutoff) };
                match estimate_ewald_parameters(NATOMS, &CELL, Some(accuracy), given) {
                    Ok(p) => {
                        assert!(p.predicted_force_error <= 1.42 * accuracy, "{given:?} {p:?}");
                        assert!(given.alpha.is_none_or(|x| x == p.alpha));
                        assert!(given.cutoff.is_none_or(|x| x == p.cutoff));
                        assert!(given.k_cutoff.is_none_or(|x| x == p.k_cutoff));
                    }
                    Err(Error::Argument { argument, .. }) => {
                        assert!(subset.count_ones() > 1, "{given:?}");
                        assert!(["cutoff", "k_cutoff"].contains(&&*argument));
                        let known = Prescribed { alpha: Some(alpha), cutoff: Some(cutoff), ..given };
                        let p = estimate_ewald_parameters(NATOMS, &CELL, None, known).unwrap();
                        assert!(p.predicted_force_error > 0.7 * accuracy, "{given:?} {p:?}");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }

    /// The closed forms against the integrals that they approximate, with the whole pair force in the first.
    #[test]
    fn estimates_follow_from_the_integrals() {
        let (volume, n) = (SPACING.powi(3) * NATOMS as f64, NATOMS as f64);
        let unit = 60.0 / n / SPACING.powi(2);
        for accuracy in [1e-3, 1e-6, 1e-9] {
            let p = estimate(accuracy, None);
            // erfc(x) = exp(−x²)/(x√π) (1 − 1/2x² + 3/4x⁴ − …)
            let pair_force = |r: f64| {
                let x = p.alpha * r;
                let tail = (1.0 - 0.5 / (x * x) + 0.75 / x.powi(4)) / (2.0 * x * x);
                2.0 * p.alpha / PI.sqrt() * (-x * x).exp() / r * (1.0 + tail)
            };
            let square = integrate(|r| 4.0 * PI * r * r * pair_force(r).powi(2), p.cutoff, p.cutoff);
            let real = (60.0 * 60.0 / (n * volume) * square).sqrt() / unit;
            let ratio = real_space_force_error(SPACING, p.alpha, p.cutoff) / real;
            assert!((0.9..1.1).contains(&ratio), "{ratio}");

            let square = integrate(|k| (-k * k / (2.0 * p.alpha * p.alpha)).exp(), p.k_cutoff, p.k_cutoff);
            let reciprocal = (60.0 * 60.0 / n * 8.0 / volume * square).sqrt() / unit;
            let ratio = reciprocal_space_force_error(SPACING, p.alpha, p.k_cutoff) / reciprocal;
            assert!((0.95..1.1).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn chosen_cutoff_is_the_cheapest() {
        let cost = |p: &EwaldParameters| {
            let pairs = 4.0 / 3.0 * PI * (p.cutoff / SPACING).powi(3);
            PAIR_COST * pairs + WAVE_COST * miller_indices(&CELL, p.k_cutoff).unwrap().len() as f64
        };
        for accuracy in [1e-3, 1e-6, 1e-12] {
            let best = estimate(accuracy, None);
            for factor in [0.7, 0.8, 1.25, 1.4] {
                let other = estimate(accuracy, Some(best.cutoff * factor));
                assert!(cost(&best) < cost(&other), "{accuracy} {factor}");
            }
        }
    }

    #[test]
    fn size_unit_and_handedness() {
        let p = estimate(1e-6, None);
        let mirrored = [CELL[1], CELL[0], CELL[2]];
        assert_eq!(p, estimate_ewald_parameters(NATOMS, &mirrored, Some(1e-6), OPEN).unwrap());

        let in_nanometres = CELL.map(|row| row.map(|x| 0.1 * x));
        let q = estimate_ewald_parameters(NATOMS, &in_nanometres, Some(1e-6), OPEN).unwrap();
        assert!((q.cutoff / p.cutoff * 10.0 - 1.0).abs() < 1e-12);
        assert!((q.alpha / p.alpha / 10.0 - 1.0).abs() < 1e-12);
        assert!((q.k_cutoff / p.k_cutoff / 10.0 - 1.0).abs() < 1e-12);

        // 64 times the atoms at one density: the cutoff doubles, but for the logarithm.
        let supercell = CELL.map(|row| row.map(|x| 4.0 * x));
        let q = estimate_ewald_parameters(64 * NATOMS, &supercell, Some(1e-6), OPEN).unwrap();
        assert!((1.9..2.0).contains(&(q.cutoff / p.cutoff)));
    }

    #[test]
    fn coarse_targets_stay_meaningful() {
        let p = estimate(0.9, Some(1000.0));
        assert!(p.alpha > 0.0 && p.k_cutoff > 0.0 && p.predicted_force_error < 0.9);
        let lone = estimate_ewald_parameters(1, &CELL, Some(1e-8), OPEN).unwrap();
        assert!(lone.cutoff.is_finite() && lone.k_cutoff.is_finite());
    }

    #[test]
    fn bad_input_is_named() {
        let flat = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]];
        let of = |natoms, cell: &[[f64; 3]; 3], accuracy, given| {
            estimate_ewald_parameters(natoms, cell, Some(accuracy), given)
        };
        let cutoff = |cutoff| Prescribed { cutoff: Some(cutoff), ..OPEN };
        let alpha = Prescribed { alpha: Some(-1.0), ..OPEN };
        let k_cutoff = Prescribed { k_cutoff: Some(f64::NAN), ..OPEN };
        let cases = [
            ("natoms", of(0, &CELL, 1e-6, OPEN)),
            ("cell", of(5, &flat, 1e-6, OPEN)),
            ("cell", of(5, &CELL.map(|a| a.map(|x| 1e120 * x)), 1e-6, OPEN)),
            ("accuracy", of(5, &CELL, 1e-15, OPEN)),
            ("accuracy", of(5, &CELL, 0.0, OPEN)),
            ("accuracy", of(5, &CELL, 1.0, OPEN)),
            ("accuracy", of(5, &CELL, f64::NAN, OPEN)),
            ("accuracy", estimate_ewald_parameters(5, &CELL, None, cutoff(5.0))),
            ("cutoff", of(5, &CELL, 1e-6, cutoff(0.0))),
            ("cutoff", of(5, &CELL, 1e-6, cutoff(f64::INFINITY))),
            ("cutoff", of(5, &CELL, 1e-6, Prescribed { alpha: Some(0.1), ..cutoff(5.0) })),
            ("k_cutoff", of(5, &CELL, 1e-6, Prescribed { k_cutoff: Some(1.0), ..cutoff(5.0) })),
            ("alpha", of(5, &CELL, 1e-6, alpha)),
            ("k_cutoff", of(5, &CELL, 1e-6, k_cutoff)),
            ("alpha", of(5, &CELL, 1e-6, Prescribed { alpha: Some(1e308), ..OPEN })),
            ("alpha", of(5, &CELL, 1e-6, Prescribed { alpha: Some(1e-320), ..OPEN })),
            ("cutoff", of(5, &CELL, 1e-6, cutoff(1e-310))),
        ];
        for (name, result) in cases {
            match result {
                Err(Error::Argument { argument, .. }) => assert_eq!(argument, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
