//! Sums over pairs within a cutoff, and parts of Ewald's sum, against plain loops over all images.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::{assert_close_rms, finite_difference, rms};
use common::oracle::erfc;
use common::systems::SplitMix64;
use madelung_core::structure::{Batch, Structure};
use madelung_core::{Error, Result};
use madelung_electrostatics::{
    Energies, EwaldSettings, Options, System, coulomb, dsf, ewald_real_space, ewald_reciprocal_space,
    ewald_summation,
};
use madelung_neighbors::{Options as Lists, neighbor_list};

const SIDE: f64 = 6.0;
const CUTOFF: f64 = 4.5;
const ALPHA: f64 = 0.4;
const PAIRS: [[i32; 2]; 2] = [[0, 1], [2, 5]];
const FACTORS: [f64; 2] = [0.0, 0.3];
const AXES: [[[bool; 3]; 1]; 4] = [[[true; 3]], [[true, true, false]], [[false, true, false]], [[false; 3]]];

struct Charges {
    positions: Vec<[f64; 3]>,
    charges: Vec<f64>,
    cell: [[f64; 3]; 3],
    pbc: [[bool; 3]; 1],
}

impl Charges {
    fn random(pbc: [[bool; 3]; 1]) -> Self {
        let mut rng = SplitMix64(5);
        let positions = (0..12).map(|_| std::array::from_fn(|_| rng.uniform(0.0, SIDE))).collect();
        let charges = (0..12).map(|i| rng.uniform(0.5, 1.0) * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let cell = std::array::from_fn(|k| std::array::from_fn(|c| if k == c { SIDE } else { 0.0 }));
        Self { positions, charges, cell, pbc }
    }

    fn system(&self) -> Result<System<'_>> {
        let (r, q) = ((&self.positions[..]).into(), (&self.charges[..]).into());
        System::with_boundaries(r, q, (&self.cell[..]).into(), &self.pbc, Batch::single(self.charges.len())?)
    }

    /// ½ Σ f q_i q_j φ(r) over pairs and images closer than a cutoff, as energies of atoms; `factors`: whether those of the
    /// excluded pairs count, in their nearest image.
    fn summed(&self, cutoff: f64, factors: bool, law: impl Fn(f64) -> f64) -> Vec<f64> {
        // Open axes have one image, whatever the cutoff: it may be beyond any count of images.
        let count = |k: usize| if self.pbc[0][k] { (cutoff / SIDE).ceil() as i32 + 1 } else { 0 };
        let along = |k: usize| -count(k)..=count(k);
        let energy = |i: usize| {
            let mut energy = 0.0;
            for j in 0..self.charges.len() {
                let excluded = PAIRS.iter().position(|p| [[i, j], [j, i]].contains(&p.map(|n| n as usize)));
                let mut nearest = (f64::MAX, 0.0);
                for shift in
                    along(0).flat_map(|x| along(1).flat_map(move |y| along(2).map(move |z| [x, y, z])))
                {
                    let d =
                        |c: usize| self.positions[j][c] - self.positions[i][c] + SIDE * f64::from(shift[c]);
                    let r = (0..3).map(|c| d(c).powi(2)).sum::<f64>().sqrt();
                    if r == 0.0 {
                        continue;
                    }
                    let pair =
                        if r < cutoff { 0.5 * self.charges[i] * self.charges[j] * law(r) } else { 0.0 };
                    energy += pair;
                    if r < nearest.0 {
                        nearest = (r, pair);
                    }
                }
                if let Some(of) = excluded.filter(|_| factors) {
                    energy -= (1.0 - FACTORS[of]) * nearest.1;
                }
            }
            energy
        };
        (0..self.charges.len()).map(energy).collect()
    }

    fn check(&self, found: &Energies, energies: impl Fn(&Self) -> Vec<f64>) {
        let expected = energies(self);
        let scale = rms(&expected);
        assert_close_rms(&found.energies.to_f64().unwrap(), &expected, 1e-13, scale);
        let total = |r: &[f64]| {
            let positions = r.as_chunks().0.to_vec();
            energies(&Self { positions, charges: self.charges.clone(), ..*self }).iter().sum::<f64>()
        };
        let gradient = finite_difference(total, self.positions.as_flattened(), 1e-5);
        let forces: Vec<f64> = gradient.into_iter().map(|x| -x).collect();
        let found = found.forces.as_ref().expect("asked for").to_f64().unwrap();
        // The differences have an error of 1e-10 by their step and by rounding.
        assert_close_rms(&found, &forces, 1e-8, rms(&forces));
    }
}

#[test]
fn pairs_within_a_cutoff() {
    let context = madelung_cpu::context();
    for pbc in AXES {
        let of = Charges::random(pbc);
        for (alpha, excluding) in [(0.0, false), (0.0, true), (ALPHA, false), (ALPHA, true)] {
            let law = |r: f64| erfc(alpha * r) / r;
            let system = of.system().unwrap();
            let system = if excluding { system.excluding(&PAIRS, &FACTORS).unwrap() } else { system };
            let found = coulomb(&context, &system, alpha, Some(CUTOFF), None, &Options::forces()).unwrap();
            of.check(&found, |at| at.summed(CUTOFF, excluding, law));
            // Half lists and such with a skin are full ones within the cutoff.
            let r = &of.positions[..];
            let cells = &[of.cell][..];
            let batch = Batch::single(r.len()).unwrap();
            for options in [Lists::full(), Lists::half()] {
                let searched = neighbor_list(
                    r,
                    CUTOFF + 0.5,
                    Some(cells),
                    Some(&of.pbc[..]),
                    &batch,
                    &options,
                    &context.threads(),
                );
                let list = searched.unwrap();
                let pairs = Some(&list as &dyn Structure);
                let again =
                    coulomb(&context, &system, alpha, Some(CUTOFF), pairs, &Options::forces()).unwrap();
                let (a, b) = (again.energies.to_f64().unwrap(), found.energies.to_f64().unwrap());
                assert_close_rms(&a, &b, 1e-14, rms(&b));
            }
            if alpha > 0.0 {
                let list = system.neighbor_list(CUTOFF, &context.threads()).unwrap();
                let part = ewald_real_space(&context, &system, &[alpha], &list, CUTOFF, &Options::forces());
                assert!(part.unwrap().energies.equals(&found.energies).unwrap());
            }
        }
    }
}

#[test]
fn shifted_forces() {
    let context = madelung_cpu::context();
    let v = |r: f64| erfc(ALPHA * r) / r;
    let own = 2.0 * ALPHA / std::f64::consts::PI.sqrt();
    let slope = |r: f64| -(v(r) + own * (-(ALPHA * r).powi(2)).exp()) / r;
    let law = |r: f64| v(r) - v(CUTOFF) - slope(CUTOFF) * (r - CUTOFF);
    let itself = 0.5 * (v(CUTOFF) - CUTOFF * slope(CUTOFF) + own);
    for pbc in AXES {
        let of = Charges::random(pbc);
        let system = of.system().unwrap();
        let found = dsf(&context, &system, &[ALPHA], CUTOFF, None, &Options::forces()).unwrap();
        of.check(&found, |at| {
            let pairs = at.summed(CUTOFF, false, law).into_iter();
            pairs.zip(&at.charges).map(|(energy, q)| energy - itself * q * q).collect()
        });
    }
}

#[test]
fn damped_charges_of_open_systems_need_no_cutoff() {
    let of = Charges::random([[false; 3]]);
    let (context, system) = (madelung_cpu::context(), of.system().unwrap());
    let found = coulomb(&context, &system, ALPHA, None, None, &Options::forces()).unwrap();
    of.check(&found, |at| at.summed(f64::MAX.sqrt(), false, |r| erfc(ALPHA * r) / r));
    let whole = coulomb(&context, &system, 0.0, None, None, &Options::forces()).unwrap();
    of.check(&whole, |at| at.summed(f64::MAX.sqrt(), false, |r| 1.0 / r));
}

#[test]
fn parts_add_up() {
    let context = madelung_cpu::context();
    let of = Charges::random([[true; 3]]);
    let settings = EwaldSettings {
        alpha: Some(vec![0.9]),
        cutoff: Some(vec![CUTOFF]),
        k_cutoff: Some(vec![6.0]),
        ..EwaldSettings::default()
    };
    for excluding in [false, true] {
        let system = of.system().unwrap();
        let system = if excluding { system.excluding(&PAIRS, &FACTORS).unwrap() } else { system };
        let list = system.neighbor_list(CUTOFF, &context.threads()).unwrap();
        let energies = |found: Result<Energies>| found.unwrap().energies.to_f64().unwrap();
        let options = Options::default();
        let whole = energies(ewald_summation(&context, &system, &settings, Some(&list), &options));
        let real = energies(ewald_real_space(&context, &system, &[0.9], &list, CUTOFF, &options));
        let waves = energies(ewald_reciprocal_space(&context, &system, &[0.9], &[6.0], &options));
        let sum: Vec<f64> = real.iter().zip(&waves).map(|(a, b)| a + b).collect();
        assert_close_rms(&sum, &whole, 1e-13, rms(&whole));
    }
}

#[test]
fn bad_input() {
    let context = madelung_cpu::context();
    let of = Charges::random([[true; 3]]);
    let options = Options::default();
    let name = |found: Result<Energies>| match found {
        Err(Error::Argument { argument, .. }) => argument,
        other => panic!("{other:?}"),
    };
    let system = of.system().unwrap();
    assert_eq!(name(coulomb(&context, &system, -1.0, Some(CUTOFF), None, &options)), "alpha");
    assert_eq!(name(coulomb(&context, &system, ALPHA, None, None, &options)), "cutoff");
    assert_eq!(name(coulomb(&context, &system, ALPHA, Some(0.0), None, &options)), "cutoff");
    assert_eq!(name(dsf(&context, &system, &[ALPHA, 1.0], CUTOFF, None, &options)), "alpha");
    let excluding = of.system().unwrap().excluding(&PAIRS, &FACTORS).unwrap();
    assert_eq!(name(dsf(&context, &excluding, &[ALPHA], CUTOFF, None, &options)), "exclusions");
    let widths = vec![0.5; of.charges.len()];
    let wide = of.system().unwrap().with_widths((&widths).into()).unwrap();
    assert_eq!(name(dsf(&context, &wide, &[ALPHA], CUTOFF, None, &options)), "widths");
    assert_eq!(name(ewald_reciprocal_space(&context, &wide, &[ALPHA], &[3.0], &options)), "widths");
}
