//! The Ewald sum as it stands in the textbooks, in f64, by loops over images and over all of reciprocal space.
//!
//! Nothing here is fast. Units and signs are those of `docs/conventions.md`: Coulomb constant 1, energies in
//! e²/L, `virial = −∂E/∂ε`, a uniform background for charged cells, self and background terms in the
//! reciprocal part. Formulas: de Leeuw, Perram and Smith, Proc. R. Soc. Lond. A 373, 27 (1980); the virial
//! is the strain derivative term by term.

use std::f64::consts::{PI, TAU};

/// `α·cutoff` and `k_cutoff/2α` of a converged sum: exp(−6.5²) is 4e-19.
const CONVERGED: f64 = 6.5;

/// A wave vector longer than `k_cutoff` by less than this, relatively, counts: no shell is ever split.
const SHELL_TOLERANCE: f64 = 1e-12;

/// Energy of one periodic system and its first derivatives.
#[derive(Clone, Debug)]
pub struct Reference {
    /// e²/L, the sum of `atom_energies`.
    pub energy: f64,
    /// (N,), e²/L; the energy of a pair is split half and half.
    pub atom_energies: Vec<f64>,
    /// (N, 3), −∂E/∂r, e²/L².
    pub forces: Vec<[f64; 3]>,
    /// (N,), ∂E/∂q, e/L.
    pub charge_gradients: Vec<f64>,
    /// (3, 3), −∂E/∂ε, e²/L.
    pub virial: [[f64; 3]; 3],
}

/// The converged Ewald energy of charges (N,) at positions (N, 3) in a cell (rows are lattice vectors, either
/// handedness), split at `alpha` (1/L). The result does not depend on `alpha`; the time taken does, see
/// [`balanced_alpha`].
///
/// # Panics
/// If two charges coincide, or the arguments make no sense.
pub fn ewald(positions: &[[f64; 3]], charges: &[f64], cell: &[[f64; 3]; 3], alpha: f64) -> Reference {
    ewald_truncated(positions, charges, cell, alpha, CONVERGED / alpha, 2.0 * alpha * CONVERGED)
}

/// [`ewald`] with the sums truncated at `cutoff` (L, pairs with r < cutoff) and `k_cutoff` (radians per L).
pub fn ewald_truncated(
    positions: &[[f64; 3]],
    charges: &[f64],
    cell: &[[f64; 3]; 3],
    alpha: f64,
    cutoff: f64,
    k_cutoff: f64,
) -> Reference {
    let mut total = Totals::new(charges);
    total.add_real_space(positions, cell, alpha, cutoff);
    total.add_reciprocal_space(positions, cell, alpha, k_cutoff);
    total.finish()
}

/// The real-space part alone: ½ Σ_i Σ_j q_i q_j erfc(αr)/r over images with r < `cutoff`. `alpha` may be zero.
pub fn real_space(
    positions: &[[f64; 3]],
    charges: &[f64],
    cell: &[[f64; 3]; 3],
    alpha: f64,
    cutoff: f64,
) -> Reference {
    let mut total = Totals::new(charges);
    total.add_real_space(positions, cell, alpha, cutoff);
    total.finish()
}

/// The reciprocal part alone, over 0 < |k| ≤ `k_cutoff`, with self energy and background.
pub fn reciprocal_space(
    positions: &[[f64; 3]],
    charges: &[f64],
    cell: &[[f64; 3]; 3],
    alpha: f64,
    k_cutoff: f64,
) -> Reference {
    let mut total = Totals::new(charges);
    total.add_reciprocal_space(positions, cell, alpha, k_cutoff);
    total.finish()
}

/// A splitting parameter with which [`ewald`] takes about as long in either space.
pub fn balanced_alpha(natoms: usize, cell: &[[f64; 3]; 3]) -> f64 {
    // Images cost several times a wave vector here, so the shift is towards a short real-space sum.
    1.5 * PI.sqrt() * ((natoms as f64).sqrt() / volume(cell)).cbrt()
}

/// Volume |det cell|, L³.
pub fn volume(cell: &[[f64; 3]; 3]) -> f64 {
    dot(cell[0], cross(cell[1], cell[2])).abs()
}

/// Rows b_i with a_i·b_j = δ_ij (no factor 2π), so that b_i·r is a fractional coordinate.
pub fn dual_basis(cell: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let [a, b, c] = *cell;
    let determinant = dot(a, cross(b, c));
    assert!(determinant != 0.0, "singular cell {cell:?}");
    [cross(b, c), cross(c, a), cross(a, b)].map(|row| row.map(|x| x / determinant))
}

/// A compensated sum (Neumaier, ZAMM 54, 39 (1974)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    /// Adds one term.
    pub fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        let (large, small) = if self.sum.abs() >= x.abs() { (self.sum, x) } else { (x, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    /// The sum so far.
    pub fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// Sum of the terms of an iterator, compensated.
pub fn sum(terms: impl IntoIterator<Item = f64>) -> f64 {
    let mut total = Sum::default();
    terms.into_iter().for_each(|x| total.add(x));
    total.value()
}

/// Potentials, forces and virial of one system while terms are added. Energies are ½ q φ of the potentials.
struct Totals<'a> {
    charges: &'a [f64],
    potentials: Vec<Sum>,
    forces: Vec<[Sum; 3]>,
    virial: [[Sum; 3]; 3],
}

impl<'a> Totals<'a> {
    fn new(charges: &'a [f64]) -> Self {
        let n = charges.len();
        Self {
            charges,
            potentials: vec![Sum::default(); n],
            forces: vec![[Sum::default(); 3]; n],
            virial: Default::default(),
        }
    }

    fn add_real_space(&mut self, positions: &[[f64; 3]], cell: &[[f64; 3]; 3], alpha: f64, cutoff: f64) {
        assert_eq!(positions.len(), self.charges.len());
        assert!(alpha >= 0.0 && cutoff > 0.0 && cutoff.is_finite(), "alpha {alpha}, cutoff {cutoff}");
        let dual = dual_basis(cell);
        // |b_i·d| ≤ |b_i| cutoff for every displacement d within the cutoff.
        let reach = dual.map(|b| norm(b) * cutoff);
        for i in 0..positions.len() {
            for j in 0..positions.len() {
                let in_cell = sub(positions[j], positions[i]);
                let fractional = dual.map(|b| dot(b, in_cell));
                let images = |axis: usize| {
                    let lower = (-fractional[axis] - reach[axis]).floor() as i64;
                    let upper = (-fractional[axis] + reach[axis]).ceil() as i64;
                    lower..=upper
                };
                for sx in images(0) {
                    for sy in images(1) {
                        for sz in images(2) {
                            if i == j && (sx, sy, sz) == (0, 0, 0) {
                                continue;
                            }
                            let displacement = add(in_cell, lattice_vector(cell, [sx, sy, sz]));
                            self.add_pair(i, j, displacement, alpha, cutoff);
                        }
                    }
                }
            }
        }
    }

    /// The contribution to atom i of one image of atom j at `displacement` = r_j − r_i + S·cell.
    fn add_pair(&mut self, i: usize, j: usize, displacement: [f64; 3], alpha: f64, cutoff: f64) {
        let r = norm(displacement);
        if r >= cutoff {
            return;
        }
        assert!(r > 0.0, "atoms {i} and {j} coincide");
        let (qi, qj) = (self.charges[i], self.charges[j]);
        let potential = erfc(alpha * r) / r;
        // −d(potential)/dr
        let slope = potential / r + 2.0 * alpha / PI.sqrt() * exp_minus_square(alpha * r) / r;
        self.potentials[i].add(qj * potential);
        for a in 0..3 {
            self.forces[i][a].add(-qi * qj * slope * displacement[a] / r);
            for b in 0..3 {
                // Each pair is met from both ends, hence the half.
                self.virial[a][b].add(0.5 * qi * qj * slope * displacement[a] * displacement[b] / r);
            }
        }
    }

    fn add_reciprocal_space(
        &mut self,
        positions: &[[f64; 3]],
        cell: &[[f64; 3]; 3],
        alpha: f64,
        k_cutoff: f64,
    ) {
        assert_eq!(positions.len(), self.charges.len());
        assert!(alpha > 0.0 && k_cutoff >= 0.0 && k_cutoff.is_finite(), "alpha {alpha}, k_cutoff {k_cutoff}");
        let volume = volume(cell);
        let dual = dual_basis(cell);
        // Fractional coordinates in [0, 1): the phases stay small, and with them their rounding.
        let fractional: Vec<[f64; 3]> = positions
            .iter()
            .map(|&r| {
                dual.map(|b| {
                    let f = dot(b, r);
                    f - f.floor()
                })
            })
            .collect();
        let bound = cell.map(|a| (norm(a) * k_cutoff / TAU).ceil() as i64);
        for h in -bound[0]..=bound[0] {
            for k in -bound[1]..=bound[1] {
                for l in -bound[2]..=bound[2] {
                    let miller = [h, k, l];
                    let kvec = lattice_vector(&dual, miller).map(|x| TAU * x);
                    let within = norm(kvec) <= k_cutoff * (1.0 + SHELL_TOLERANCE);
                    if miller != [0, 0, 0] && within {
                        self.add_wave(miller, kvec, &fractional, alpha, volume);
                    }
                }
            }
        }

        let total_charge = sum(self.charges.iter().copied());
        let background = PI / (alpha * alpha * volume);
        for (potential, q) in self.potentials.iter_mut().zip(self.charges) {
            potential.add(-2.0 * alpha / PI.sqrt() * q);
            potential.add(-background * total_charge);
        }
        for (a, row) in self.virial.iter_mut().enumerate() {
            row[a].add(-0.5 * background * total_charge * total_charge);
        }
    }

    /// One wave vector: E = A/2V |S|² with A = 4π/k² exp(−k²/4α²) and S = Σ q exp(ik·r).
    fn add_wave(
        &mut self,
        miller: [i64; 3],
        kvec: [f64; 3],
        fractional: &[[f64; 3]],
        alpha: f64,
        volume: f64,
    ) {
        let k_squared = dot(kvec, kvec);
        let amplitude = 4.0 * PI / (volume * k_squared) * exp_minus_square(k_squared.sqrt() / (2.0 * alpha));
        let waves: Vec<(f64, f64)> = fractional
            .iter()
            .map(|&f| {
                let turns = dot(miller.map(|h| h as f64), f);
                (TAU * (turns - turns.round())).sin_cos()
            })
            .collect();
        let real = sum(waves.iter().zip(self.charges).map(|((_, cos), q)| q * cos));
        let imaginary = sum(waves.iter().zip(self.charges).map(|((sin, _), q)| q * sin));
        for (i, &(sin, cos)) in waves.iter().enumerate() {
            self.potentials[i].add(amplitude * (real * cos + imaginary * sin));
            let slope = amplitude * self.charges[i] * (real * sin - imaginary * cos);
            for (force, k) in self.forces[i].iter_mut().zip(kvec) {
                force.add(slope * k);
            }
        }
        let energy = 0.5 * amplitude * (real * real + imaginary * imaginary);
        for a in 0..3 {
            self.virial[a][a].add(energy);
            for b in 0..3 {
                let stretch = 2.0 / k_squared + 0.5 / (alpha * alpha);
                self.virial[a][b].add(-energy * stretch * kvec[a] * kvec[b]);
            }
        }
    }

    fn finish(self) -> Reference {
        let charge_gradients: Vec<f64> = self.potentials.iter().map(|p| p.value()).collect();
        let atom_energies: Vec<f64> =
            charge_gradients.iter().zip(self.charges).map(|(phi, q)| 0.5 * q * phi).collect();
        Reference {
            energy: sum(atom_energies.iter().copied()),
            atom_energies,
            forces: self.forces.iter().map(|f| f.map(Sum::value)).collect(),
            charge_gradients,
            virial: self.virial.map(|row| row.map(Sum::value)),
        }
    }
}

/// exp(−x²), with the rounding of x² made good: exp alone would multiply it by x².
pub fn exp_minus_square(x: f64) -> f64 {
    let square = x * x;
    (-square).exp() * (1.0 - x.mul_add(x, -square))
}

/// Complementary error function, to a few units in the last place for every x.
///
/// For |x| < ½ the Taylor series of erf. Beyond, the trapezoidal rule for `erfc(x) = (2x/π) e^{−x²} ∫_0^∞ e^{−t²}/(t² +
/// x²) dt` with step ½, and the residue of its pole (Chiarella and Reichel, Math. Comp. 22, 137 (1968)); the error of
/// the rule is of order exp(−π²/h²) = 7e-18.
pub fn erfc(x: f64) -> f64 {
    const STEP: f64 = 0.5;
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 0.5 {
        // erf(x) = 2/√π Σ (−1)ⁿ x^{2n+1} / (n! (2n+1))
        let mut term = x;
        let mut erf = Sum::default();
        for n in 0..30 {
            erf.add(term / (2 * n + 1) as f64);
            term *= -x * x / (n + 1) as f64;
        }
        return 1.0 - 2.0 / PI.sqrt() * erf.value();
    }
    if x > 27.5 {
        return 0.0;
    }
    let mut total = Sum::default();
    total.add(0.5 / (x * x));
    for n in 1..=13 {
        let t = STEP * f64::from(n);
        total.add((-t * t).exp() / (t * t + x * x));
    }
    let rule = 2.0 * STEP * x / PI * exp_minus_square(x) * total.value();
    // The residue of the pole at t = ix belongs to the formula for x below π/h.
    if x < PI / STEP { rule - 2.0 / (TAU * x / STEP).exp_m1() } else { rule }
}

fn lattice_vector(rows: &[[f64; 3]; 3], multiples: [i64; 3]) -> [f64; 3] {
    let m = multiples.map(|n| n as f64);
    std::array::from_fn(|a| m[0] * rows[0][a] + m[1] * rows[1][a] + m[2] * rows[2][a])
}

pub(super) fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn norm(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn add(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}
