//! Charge equilibration against dense solutions, with matrices by plain loops over waves and pairs.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::{assert_close_rms, finite_difference, rms};
use common::oracle::{dual_basis, erfc, volume};
use common::systems::SplitMix64;
use madelung_core::structure::Batch;
use madelung_core::{Error, Result};
use madelung_electrostatics::plan::Sum;
use madelung_electrostatics::{
    Equilibrated, EwaldSettings, Options, QeqSettings, Reduction, System, ewald_summation, qeq,
};
use std::f64::consts::PI;

type Matrix = [[f64; 3]; 3];

const CELL: Matrix = [[6.0, 0.3, 0.0], [1.0, 7.0, 0.2], [0.5, -0.6, 6.5]];
const LAYER: Matrix = [[7.0, 0.0, 0.0], [0.0, 7.0, 0.0], [0.0; 3]];
const CRYSTAL: [bool; 3] = [true; 3];
const SLAB: [bool; 3] = [true, true, false];
const OPEN: [bool; 3] = [false; 3];
const ATOMS: usize = 8;

/// Atoms of one system or several, eight each.
#[derive(Clone)]
struct Atoms {
    positions: Vec<[f64; 3]>,
    widths: Vec<f64>,
    chi: Vec<f64>,
    eta: Vec<f64>,
    cells: Vec<Matrix>,
    pbc: Vec<[bool; 3]>,
}

impl Atoms {
    /// On the corners of a cube, apart from each other.
    fn random(seed: u64, cell: Matrix, pbc: [bool; 3]) -> Self {
        let mut rng = SplitMix64(seed);
        let corner = |i: usize| [i / 4, i / 2 % 2, i % 2].map(|x| 2.8 * x as f64);
        let positions = (0..ATOMS).map(|i| corner(i).map(|x| x + rng.uniform(-0.4, 0.4))).collect();
        let mut each = |low, high| (0..ATOMS).map(|_| rng.uniform(low, high)).collect();
        let (widths, chi, eta) = (each(0.3, 0.9), each(-1.0, 1.0), each(0.5, 1.0));
        Self { positions, widths, chi, eta, cells: vec![cell], pbc: vec![pbc] }
    }

    fn joined(each: &[Self]) -> Self {
        let mut all = each[0].clone();
        for one in &each[1..] {
            all.positions.extend(&one.positions);
            all.widths.extend(&one.widths);
            all.chi.extend(&one.chi);
            all.eta.extend(&one.eta);
            all.cells.extend(&one.cells);
            all.pbc.extend(&one.pbc);
        }
        all
    }

    fn system<'a>(&'a self, charges: &'a [f64]) -> Result<System<'a>> {
        let of = (0..charges.len()).map(|i| (i / ATOMS) as i32).collect::<Vec<_>>();
        let (r, h, batch) =
            ((&self.positions[..]).into(), (&self.cells[..]).into(), Batch::from_idx(of, None)?);
        System::with_boundaries(r, charges.into(), h, &self.pbc, batch)?.with_widths((&self.widths).into())
    }

    fn equilibrated(&self, settings: &QeqSettings, options: &Options) -> Result<Equilibrated> {
        let none = vec![0.0; self.chi.len()];
        let (chi, eta) = ((&self.chi).into(), (&self.eta).into());
        qeq(&madelung_cpu::context(), &self.system(&none)?, &chi, &eta, settings, options)
    }

    /// The potentials of unit charges.
    fn matrix(&self) -> Vec<Vec<f64>> {
        match self.pbc[0] {
            CRYSTAL => self.over_waves(),
            OPEN => self.over_pairs(),
            _ => (0..ATOMS).map(|j| self.summed(j)).collect(),
        }
    }

    /// (4π/V) Σ exp(−(σᵢ²+σⱼ²)k²/2) cos(k·(rᵢ−rⱼ))/k² over k ≠ 0.
    fn over_waves(&self) -> Vec<Vec<f64>> {
        let (cell, dual) = (&self.cells[0], dual_basis(&self.cells[0]));
        let mut found = vec![vec![0.0; ATOMS]; ATOMS];
        let each = || -16..=16i32;
        for n in each().flat_map(|x| each().flat_map(move |y| each().map(move |z| [x, y, z]))) {
            let k: [f64; 3] =
                std::array::from_fn(|c| 2.0 * PI * (0..3).map(|a| f64::from(n[a]) * dual[a][c]).sum::<f64>());
            let square: f64 = k.iter().map(|x| x * x).sum();
            if n == [0; 3] || square > 900.0 {
                continue;
            }
            let phase: Vec<f64> =
                self.positions.iter().map(|r| (0..3).map(|c| k[c] * r[c]).sum::<f64>()).collect();
            let damp: Vec<f64> = self.widths.iter().map(|s| (-0.5 * square * s * s).exp()).collect();
            for (i, row) in found.iter_mut().enumerate() {
                for (j, x) in row.iter_mut().enumerate() {
                    *x += 4.0 * PI / volume(cell) * damp[i] * damp[j] * (phase[i] - phase[j]).cos() / square;
                }
            }
        }
        found
    }

    /// erf(r/√(2(σᵢ²+σⱼ²)))/r, and 1/(σ√π) of each charge with itself.
    fn over_pairs(&self) -> Vec<Vec<f64>> {
        let of = |i: usize, j: usize| {
            if i == j {
                return 1.0 / (PI.sqrt() * self.widths[i]);
            }
            let r = (0..3).map(|c| (self.positions[i][c] - self.positions[j][c]).powi(2)).sum::<f64>().sqrt();
            (1.0 - erfc(r / (2.0 * (self.widths[i].powi(2) + self.widths[j].powi(2))).sqrt())) / r
        };
        (0..ATOMS).map(|i| (0..ATOMS).map(|j| of(i, j)).collect()).collect()
    }

    /// The potentials of a unit charge, by Ewald's sum.
    fn summed(&self, j: usize) -> Vec<f64> {
        let mut charges = [0.0; ATOMS];
        charges[j] = 1.0;
        let (system, settings) = (self.system(&charges).unwrap(), EwaldSettings::accuracy(1e-13));
        let options = Options { compute_charge_gradients: true, ..Options::default() };
        let found = ewald_summation(&madelung_cpu::context(), &system, &settings, None, &options).unwrap();
        found.charge_gradients.expect("asked for").to_f64().unwrap()
    }

    /// The charges and the energy of each by a solution with the whole matrix, and a multiplier for the total charge.
    fn dense(&self, total: f64) -> (Vec<f64>, Vec<f64>) {
        let mut matrix = self.matrix();
        matrix.iter_mut().enumerate().for_each(|(i, row)| row[i] += self.eta[i]);
        let mut rows = matrix.clone();
        rows.iter_mut().zip(&self.chi).for_each(|(row, chi)| row.extend([1.0, -chi]));
        rows.push([vec![1.0; ATOMS], vec![0.0, total]].concat());
        let q = solved(rows)[..ATOMS].to_vec();
        let energy = |i: usize| {
            let potential: f64 = matrix[i].iter().zip(&q).map(|(a, q)| a * q).sum();
            q[i] * (self.chi[i] + 0.5 * potential)
        };
        ((0..ATOMS).map(|i| q[i]).collect(), (0..ATOMS).map(energy).collect())
    }
}

/// The solution of a linear system by Gauss, with pivots; each row ends with its right side.
fn solved(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let n = rows.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|a, b| rows[*a][k].abs().total_cmp(&rows[*b][k].abs())).unwrap();
        rows.swap(k, pivot);
        let own: Vec<f64> = rows[k].iter().map(|x| x / rows[k][k]).collect();
        for (i, row) in rows.iter_mut().enumerate() {
            let by = row[k];
            if i == k {
                row.clone_from(&own);
            } else {
                row.iter_mut().zip(&own).for_each(|(x, y)| *x -= by * y);
            }
        }
    }
    rows.iter().map(|row| row[n]).collect()
}

fn settings(total: &[f64], accuracy: f64, sum: Sum) -> QeqSettings {
    let total_charge = Some(total.to_vec());
    QeqSettings { total_charge, accuracy: Some(accuracy), sum: Some(sum), ..QeqSettings::default() }
}

/// Charges that are held and totals of molecules, against a solution with the whole matrix and a multiplier for each.
#[test]
fn constraints_are_those_of_a_dense_solution() {
    let (molecules, totals) = ([0, 1, 0, 0, 1, 1, 0, 1], [0.4, -0.7]);
    let held = vec![(2, 0.25), (4, -0.3)];
    for atoms in [Atoms::random(4, CELL, CRYSTAL), Atoms::random(5, [[0.0; 3]; 3], OPEN)] {
        let mut rows = atoms.matrix();
        let indicator = |i: usize| {
            let of_molecule = |k: i32| f64::from(molecules[i] == k);
            let of_held = |n: usize| f64::from(u8::from(held[n].0 == i));
            [of_molecule(0), of_molecule(1), of_held(0), of_held(1)]
        };
        for (i, row) in rows.iter_mut().enumerate() {
            row[i] += atoms.eta[i];
            row.extend(indicator(i));
            row.push(-atoms.chi[i]);
        }
        for (n, right) in [totals[0], totals[1], held[0].1, held[1].1].into_iter().enumerate() {
            let row: Vec<f64> = (0..ATOMS).map(|i| indicator(i)[n]).chain([0.0; 4]).chain([right]).collect();
            rows.push(row);
        }
        let want = &solved(rows)[..ATOMS];
        let constrained = QeqSettings {
            molecules: Some(molecules.to_vec()),
            held: held.clone(),
            ..settings(&totals, 1e-13, Sum::Waves)
        };
        let got = atoms.equilibrated(&constrained, &Options::default()).unwrap().charges.to_f64().unwrap();
        for (x, y) in got.iter().zip(want) {
            assert!((x - y).abs() < 1e-11, "{got:?} {want:?}");
        }
        let said = |change: &dyn Fn(&mut QeqSettings)| {
            let mut other = constrained.clone();
            change(&mut other);
            atoms.equilibrated(&other, &Options::default()).unwrap_err().to_string()
        };
        assert!(said(&|s| s.held.push((4, 0.1))).contains("`held`: expected atoms below 8, each once"));
        assert!(
            said(&|s| s.molecules = Some(vec![-1; ATOMS]))
                .contains("`molecules`: expected numbers below 8 from 0 up")
        );
        assert!(said(&|s| s.molecules = Some(vec![0; 3])).contains("`molecules`: expected 8 of them"));
        assert!(said(&|s| s.held = (0..ATOMS).map(|i| (i, 1.0)).collect()).contains("which are all held"));
    }
}

fn each() -> [Atoms; 3] {
    [Atoms::random(1, CELL, CRYSTAL), Atoms::random(2, [[0.0; 3]; 3], OPEN), Atoms::random(3, LAYER, SLAB)]
}

#[test]
fn charges_and_energies_are_those_of_a_dense_solution() {
    for atoms in each() {
        let (charges, energies) = atoms.dense(0.6);
        for (accuracy, sum, error) in [(1e-13, Sum::Waves, 1e-11), (1e-9, Sum::Mesh, 1e-8)] {
            let found = atoms.equilibrated(&settings(&[0.6], accuracy, sum), &Options::default()).unwrap();
            assert_close_rms(&found.charges.to_f64().unwrap(), &charges, error, 1.0);
            assert_close_rms(&found.energies.energies.to_f64().unwrap(), &energies, error, 1.0);
        }
    }
}

#[test]
fn systems_of_a_batch_have_charges_of_their_own() {
    let (each, total) = (each(), [0.0, 1.0, -0.5]);
    let all = Atoms::joined(&each);
    let options = Options { energy_reduction: Reduction::System, ..Options::everything() };
    let found = all.equilibrated(&settings(&total, 1e-13, Sum::Waves), &options).unwrap();
    let (charges, slopes) = (found.charges.to_f64().unwrap(), found.energies.charge_gradients.unwrap());
    let (slopes, energies) = (slopes.to_f64().unwrap(), found.energies.energies.to_f64().unwrap());
    for (b, atoms) in each.iter().enumerate() {
        let own = b * ATOMS..(b + 1) * ATOMS;
        let (want, of_atoms) = atoms.dense(total[b]);
        assert_close_rms(&charges[own.clone()], &want, 1e-11, 1.0);
        assert!((charges[own.clone()].iter().sum::<f64>() - total[b]).abs() < 1e-14);
        assert!((energies[b] - of_atoms.iter().sum::<f64>()).abs() < 1e-11);
        // One chemical potential.
        assert_close_rms(&slopes[own], &[slopes[b * ATOMS]; ATOMS], 1e-11, 1.0);
    }
}

#[test]
fn forces_and_virials_are_those_of_the_minimum() {
    let given = settings(&[0.4], 1e-13, Sum::Waves);
    let options = Options { prefactor: 14.4, compute_charge_gradients: false, ..Options::everything() };
    for atoms in each() {
        let energy = |atoms: &Atoms| {
            let found = atoms.equilibrated(&given, &options).unwrap().energies.energies;
            found.to_f64().unwrap().iter().sum::<f64>()
        };
        let found = atoms.equilibrated(&given, &options).unwrap().energies;
        let moved = |r: &[f64]| energy(&Atoms { positions: r.as_chunks().0.to_vec(), ..atoms.clone() });
        let forces = finite_difference(moved, atoms.positions.as_flattened(), 1e-3);
        let forces: Vec<f64> = forces.into_iter().map(|x| -x).collect();
        assert_close_rms(&found.forces.unwrap().to_f64().unwrap(), &forces, 1e-8, rms(&forces));
        let strained = |strain: &[f64]| {
            let along = |r: &[f64; 3]| -> [f64; 3] {
                std::array::from_fn(|c| r[c] + (0..3).map(|a| r[a] * strain[3 * a + c]).sum::<f64>())
            };
            let positions = atoms.positions.iter().map(along).collect();
            let cells = atoms.cells.iter().map(|cell| cell.each_ref().map(along)).collect();
            energy(&Atoms { positions, cells, ..atoms.clone() })
        };
        let virial: Vec<f64> = finite_difference(strained, &[0.0; 9], 1e-3).into_iter().map(|x| -x).collect();
        assert_close_rms(&found.virial.unwrap().to_f64().unwrap(), &virial, 1e-8, rms(&virial));
    }
}

#[test]
fn float32_has_the_charges_of_float64() {
    let atoms = Atoms::random(1, CELL, CRYSTAL);
    let want = atoms.equilibrated(&QeqSettings::default(), &Options::default()).unwrap().charges;
    let single = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let (r, h) = (single(atoms.positions.as_flattened()), single(atoms.cells.as_flattened().as_flattened()));
    let (widths, chi, eta) = (single(&atoms.widths), single(&atoms.chi), single(&atoms.eta));
    let (r, h, none): (&[[f32; 3]], &[[f32; 3]], _) = (r.as_chunks().0, h.as_chunks().0, [0f32; ATOMS]);
    let system = System::new(r.into(), (&none).into(), h.into(), Batch::single(ATOMS).unwrap()).unwrap();
    let system = system.with_widths((&widths).into()).unwrap();
    let (context, given) = (madelung_cpu::context(), QeqSettings::default());
    let found = qeq(&context, &system, &(&chi).into(), &(&eta).into(), &given, &Options::default()).unwrap();
    assert_close_rms(&found.charges.to_f64().unwrap(), &want.to_f64().unwrap(), 1e-5, 1.0);
}

#[test]
fn bad_input() {
    let atoms = Atoms::random(1, CELL, CRYSTAL);
    let said = |found: Result<Equilibrated>| match found {
        Err(Error::Argument { argument, expected, got }) => format!("{argument}: {expected}, {got}"),
        other => panic!("{other:?}"),
    };
    let of = |atoms: &Atoms| said(atoms.equilibrated(&QeqSettings::default(), &Options::default()));
    let soft = Atoms { eta: vec![-2.0; ATOMS], ..atoms.clone() };
    let expected =
        "hardness: numbers so large that the energy has a minimum at fixed total charge, a curvature of -";
    assert!(of(&soft).starts_with(expected), "{}", of(&soft));
    let few = Atoms { eta: vec![1.0; 3], ..atoms.clone() };
    assert_eq!(of(&few), "hardness: shape [8], [3]");
    let mut bad = atoms.clone();
    bad.chi[1] = f64::NAN;
    assert_eq!(of(&bad), "electronegativity: finite numbers, NaN in row 1");
    let with = |settings: &QeqSettings| said(atoms.equilibrated(settings, &Options::default()));
    assert!(with(&settings(&[0.0; 2], 1e-6, Sum::Waves)).starts_with("total_charge: one for all"));
    assert_eq!(with(&settings(&[f64::NAN], 1e-6, Sum::Waves)), "total_charge: finite numbers, NaN");
    assert!(with(&settings(&[0.0], 2.0, Sum::Waves)).starts_with("accuracy: a relative force error"));
    assert_eq!(with(&settings(&[0.0], 1e-6, Sum::Pairs)), "sum: Waves or Mesh, Pairs");
    let (context, given, none) = (madelung_cpu::context(), QeqSettings::default(), [0.0; ATOMS]);
    let run = |system: &System<'_>, given: &QeqSettings| {
        let (chi, eta) = ((&atoms.chi).into(), (&atoms.eta).into());
        said(qeq(&context, system, &chi, &eta, given, &Options::default()))
    };
    let (r, h) = (|| (&atoms.positions[..]).into(), || (&CELL[..]).into());
    let points = System::new(r(), (&none).into(), h(), Batch::single(ATOMS).unwrap()).unwrap();
    assert_eq!(run(&points, &given), "widths: widths of charges, None");
    let second_is_empty = Batch::from_idx(vec![0; ATOMS], Some(2)).unwrap();
    let two = System::new(r(), (&none).into(), h(), second_is_empty).unwrap();
    let two = two.with_widths((&atoms.widths).into()).unwrap();
    let charged = settings(&[0.5, 1.0], 1e-6, Sum::Waves);
    assert_eq!(run(&two, &charged), "total_charge: 0 of system 1, which has no atoms, [0.5, 1.0]");
}

/// A pair that is left out, and one that is scaled, of nearest images: their parts of the matrix are those of a molecule.
#[test]
fn exclusions_are_taken_off_the_matrix() {
    const PAIRS: [[i32; 2]; 2] = [[0, 1], [3, 2]];
    let factors = [0.0, 0.4];
    for (cell, pbc, bound) in [(CELL, CRYSTAL, 1e-11), (LAYER, OPEN, 1e-11)] {
        let atoms = Atoms::random(21, cell, pbc);
        let alone = Atoms { pbc: vec![OPEN], ..atoms.clone() }.over_pairs();
        let taken = |i: usize, j: usize| {
            let of = PAIRS
                .iter()
                .position(|p| [p.map(|x| x as usize), [p[1] as usize, p[0] as usize]].contains(&[i, j]));
            of.map_or(0.0, |n| (1.0 - factors[n]) * alone[i][j])
        };
        let mut matrix = atoms.matrix();
        for (i, row) in matrix.iter_mut().enumerate() {
            row[i] += atoms.eta[i];
            row.iter_mut().enumerate().for_each(|(j, x)| *x -= taken(i, j));
        }
        let mut rows = matrix.clone();
        rows.iter_mut().zip(&atoms.chi).for_each(|(row, chi)| row.extend([1.0, -chi]));
        rows.push([vec![1.0; ATOMS], vec![0.0, 0.3]].concat());
        let none = vec![0.0; ATOMS];
        let system = atoms.system(&none).unwrap().excluding(&PAIRS, &factors).unwrap();
        let (chi, eta) = ((&atoms.chi).into(), (&atoms.eta).into());
        let given = settings(&[0.3], 1e-13, Sum::Waves);
        let found = qeq(&madelung_cpu::context(), &system, &chi, &eta, &given, &Options::default()).unwrap();
        assert_close_rms(&found.charges.to_f64().unwrap(), &solved(rows)[..ATOMS], bound, 1.0);
    }
}
