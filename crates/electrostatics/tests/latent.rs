//! Sums of latent charges against plain loops over waves and pairs.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::{assert_close_rms, finite_difference, rms};
use common::oracle::{dual_basis, erfc, volume};
use common::systems::SplitMix64;
use madelung_core::structure::Batch;
use madelung_core::{Error, Result};
use madelung_electrostatics::{Energies, LatentSettings, Options, Reduction, System, latent_ewald};
use std::f64::consts::PI;

const CELL: [[f64; 3]; 3] = [[6.0, 0.3, 0.0], [1.0, 7.0, 0.2], [0.5, -0.6, 6.5]];
const ATOMS: usize = 7;

/// A charged crystal and a charged molecule, seven atoms each.
struct Charges {
    positions: Vec<[f64; 3]>,
    charges: Vec<f64>,
}

impl Charges {
    fn random() -> Self {
        let mut rng = SplitMix64(7);
        let positions = (0..2 * ATOMS).map(|_| std::array::from_fn(|_| rng.uniform(0.0, 6.0))).collect();
        Self { positions, charges: (0..2 * ATOMS).map(|_| rng.uniform(-0.5, 1.0)).collect() }
    }

    fn summed(&self, settings: &LatentSettings, pbc: &[[bool; 3]], options: &Options) -> Result<Energies> {
        let of = (0..self.charges.len()).map(|i| (i / ATOMS) as i32).collect::<Vec<_>>();
        let batch = Batch::from_idx(of, None)?;
        let cells = [CELL, [[0.0; 3]; 3]];
        let (r, q, h) = ((&self.positions[..]).into(), (&self.charges).into(), (&cells[..pbc.len()]).into());
        let system = System::with_boundaries(r, q, h, pbc, batch)?;
        latent_ewald(&madelung_cpu::context(), &system, settings, options)
    }

    /// (2π/V) Σ exp(−σ²k²/2)/k² |S(k)|² over 0 < |k| ≤ 2π/dl.
    fn over_waves(&self, sigma: f64, dl: f64) -> f64 {
        let dual = dual_basis(&CELL);
        let each = || -9..=9i32;
        let of = |n: [i32; 3]| {
            let k: [f64; 3] =
                std::array::from_fn(|c| 2.0 * PI * (0..3).map(|a| f64::from(n[a]) * dual[a][c]).sum::<f64>());
            let square: f64 = k.iter().map(|x| x * x).sum();
            if n == [0; 3] || square.sqrt() > 2.0 * PI / dl {
                return 0.0;
            }
            let phases = self.positions[..ATOMS].iter().map(|r| (0..3).map(|c| k[c] * r[c]).sum::<f64>());
            let (re, im) = phases
                .zip(&self.charges)
                .fold((0.0, 0.0), |(re, im), (phase, q)| (re + q * phase.cos(), im + q * phase.sin()));
            2.0 * PI / volume(&CELL) * (-0.5 * sigma * sigma * square).exp() / square * (re * re + im * im)
        };
        each().flat_map(|x| each().flat_map(move |y| each().map(move |z| [x, y, z]))).map(of).sum()
    }

    /// ½ Σ q_i q_j erf(r/√2σ)/r over all pairs.
    fn over_pairs(&self, sigma: f64) -> f64 {
        let mut energy = 0.0;
        for i in ATOMS..2 * ATOMS {
            for j in ATOMS..i {
                let d = (0..3).map(|c| (self.positions[i][c] - self.positions[j][c]).powi(2)).sum::<f64>();
                let erf = 1.0 - erfc((0.5 * d).sqrt() / sigma);
                energy += self.charges[i] * self.charges[j] * erf / d.sqrt();
            }
        }
        energy
    }

    /// Σ q²/(σ√(2π)) of some atoms.
    fn selves(&self, of: std::ops::Range<usize>, sigma: f64) -> f64 {
        self.charges[of].iter().map(|q| q * q / (sigma * (2.0 * PI).sqrt())).sum()
    }
}

const PBC: [[bool; 3]; 2] = [[true; 3], [false; 3]];

#[test]
fn a_crystal_and_a_molecule_are_waves_and_pairs() {
    let (of, sigma, dl) = (Charges::random(), [0.9, 1.2], [1.7, 2.0]);
    let per_system = Options { energy_reduction: Reduction::System, ..Options::everything() };
    for remove_self_interaction in [true, false] {
        let settings = LatentSettings { sigma: sigma.to_vec(), dl: dl.to_vec(), remove_self_interaction };
        // The sum over waves has the energies of charges with themselves, that over pairs has not.
        let energies = |of: &Charges| {
            let own = [of.selves(0..ATOMS, sigma[0]), of.selves(ATOMS..2 * ATOMS, sigma[1])];
            let own = if remove_self_interaction { [-own[0], 0.0] } else { [0.0, own[1]] };
            vec![of.over_waves(sigma[0], dl[0]) + own[0], of.over_pairs(sigma[1]) + own[1]]
        };
        let expected = energies(&of);
        let found = of.summed(&settings, &PBC, &per_system).unwrap();
        assert_close_rms(&found.energies.to_f64().unwrap(), &expected, 1e-13, rms(&expected));
        let by_atom = of.summed(&settings, &PBC, &Options::default()).unwrap().energies.to_f64().unwrap();
        assert!((by_atom.iter().sum::<f64>() - expected.iter().sum::<f64>()).abs() < 1e-12);

        let total = |positions: &[f64], charges: &[f64]| {
            let positions = positions.as_chunks().0.to_vec();
            energies(&Charges { positions, charges: charges.to_vec() }).iter().sum::<f64>()
        };
        let r = of.positions.as_flattened();
        let gradient = finite_difference(|r| total(r, &of.charges), r, 1e-3);
        let forces: Vec<f64> = gradient.into_iter().map(|x| -x).collect();
        assert_close_rms(&found.forces.unwrap().to_f64().unwrap(), &forces, 1e-9, rms(&forces));
        let potentials = finite_difference(|q| total(r, q), &of.charges, 1e-2);
        let found = found.charge_gradients.unwrap().to_f64().unwrap();
        assert_close_rms(&found, &potentials, 1e-10, rms(&potentials));
    }
}

#[test]
fn bad_input() {
    let of = Charges::random();
    let name =
        |settings: &LatentSettings, pbc: &[[bool; 3]]| match of.summed(settings, pbc, &Options::default()) {
            Err(Error::Argument { argument, expected, got }) => format!("{argument}: {expected}, {got}"),
            other => panic!("{other:?}"),
        };
    let given = LatentSettings::default;
    assert!(
        name(&LatentSettings { sigma: vec![0.0], ..given() }, &PBC).starts_with("sigma: a finite number > 0")
    );
    assert!(name(&LatentSettings { dl: vec![1.0; 3], ..given() }, &PBC).starts_with("dl: one number"));
    let layer = [[true, false, true], [false; 3]];
    assert_eq!(
        name(&given(), &layer),
        "pbc: all axes of a system, or none of them, [True, False, True] (system 0)"
    );
}
