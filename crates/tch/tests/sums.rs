//! Whole sums: energies, forces, charge gradients and virials of the facade, and second derivatives of differences.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::{assert_close_rms, richardson, rms};
use common::systems::{
    SplitMix64, System as Charges, orthorhombic_cell, random_system, rock_salt, triclinic_cell,
};
use madelung::array::Array;
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::op::Structure;
use madelung::{Energies, EwaldSettings, LatentSettings, PmeSettings, Reduction, Result};
use madelung_tch::{Options, System};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// Charges, and what their sums leave out.
struct Case {
    name: &'static str,
    batch: Batch<'static>,
    positions: Vec<f64>,
    charges: Vec<f64>,
    cells: Vec<f64>,
    pbc: Vec<[bool; 3]>,
    excluded: Vec<[i32; 2]>,
    factors: Vec<f64>,
    widths: Vec<f64>,
}

/// Tensors of a case, which record what is done with them.
struct Leaves {
    positions: Tensor,
    charges: Tensor,
    cell: Tensor,
    strain: Tensor,
    factors: Tensor,
    widths: Tensor,
}

type OfFacade<'f> = &'f dyn Fn(&madelung::System<'_>, &madelung::Options) -> Result<Energies>;
type OfTch<'f> = &'f dyn Fn(&System<'_>, &Options) -> Result<Tensor>;

impl Case {
    fn new(name: &'static str, systems: &[Charges], pbc: &[[bool; 3]]) -> Self {
        let idx = systems.iter().enumerate().flat_map(|(b, s)| vec![b as i32; s.charges.len()]);
        Self {
            name,
            batch: Batch::from_idx(idx.collect::<Vec<_>>(), Some(systems.len())).expect("a batch"),
            positions: systems.iter().flat_map(|s| s.positions.as_flattened().to_vec()).collect(),
            charges: systems.iter().flat_map(|s| s.charges.clone()).collect(),
            cells: systems.iter().flat_map(|s| s.cell.as_flattened().to_vec()).collect(),
            pbc: pbc.to_vec(),
            excluded: vec![],
            factors: vec![],
            widths: vec![],
        }
    }

    fn excluding(mut self) -> Self {
        (self.excluded, self.factors) = (vec![[0, 1], [2, 4]], vec![0.0, 0.5]);
        self
    }

    fn with_widths(mut self) -> Self {
        self.widths = (0..self.charges.len()).map(|i| 0.3 + 0.02 * (i % 5) as f64).collect();
        self
    }

    fn leaves(&self, positions: &[f64], charges: &[f64]) -> Leaves {
        let of =
            |x: &[f64], shape: &[i64]| Tensor::from_slice(x).reshape(shape).detach().set_requires_grad(true);
        let (n, b) = (self.charges.len() as i64, self.batch.systems() as i64);
        Leaves {
            positions: of(positions, &[n, 3]),
            charges: of(charges, &[n]),
            cell: of(&self.cells, &[b, 3, 3]),
            strain: Tensor::zeros([b, 3, 3], (Kind::Double, Device::Cpu)).set_requires_grad(true),
            factors: of(&self.factors, &[self.factors.len() as i64]),
            widths: of(&self.widths, &[self.widths.len() as i64]),
        }
    }

    fn system<'t>(&self, of: &'t Leaves) -> System<'t> {
        let batch = self.batch.clone();
        let mut system =
            System::new(&of.positions, &of.charges, &of.cell).with_batch(batch).with_strain(&of.strain);
        system = system.with_boundaries(&self.pbc);
        if !self.excluded.is_empty() {
            system = system.excluding(&self.excluded, &of.factors);
        }
        if !self.widths.is_empty() {
            system = system.with_widths(&of.widths);
        }
        system
    }

    fn facade(&self) -> madelung::System<'_> {
        let rows = self.positions.as_chunks::<3>().0.into();
        let cells = self.cells.as_chunks::<3>().0.as_chunks::<3>().0.into();
        let (charges, batch) = ((&self.charges).into(), self.batch.clone());
        let mut system =
            madelung::System::with_boundaries(rows, charges, cells, &self.pbc, batch).expect("a system");
        if !self.excluded.is_empty() {
            system = system.excluding(&self.excluded, &self.factors).expect("exclusions");
        }
        if !self.widths.is_empty() {
            system = system.with_widths((&self.widths).into()).expect("widths");
        }
        system
    }

    /// Holds a sum of tch against that of the facade.
    fn check(&self, sum: &str, of_facade: OfFacade<'_>, of_tch: OfTch<'_>) {
        let name = format!("{}, {sum}", self.name);
        let facade = self.facade();
        let wanted = of_facade(&facade, &madelung::Options::everything()).expect("energies");
        let found = self.leaves(&self.positions, &self.charges);
        let energies = of_tch(&self.system(&found), &Options::default()).expect("energies");
        let values = |array: &Array| array.to_f64().expect("numbers");
        let same = |what: &str, found: &Tensor, wanted: Vec<f64>| {
            println!("{name}: {what}");
            assert_close_rms(&numbers(found), &wanted, 1e-12, rms(&wanted).max(1e-3));
        };
        same("energies", &energies, values(&wanted.energies));
        let total = energies.sum(Kind::Double);
        let leaves = [&found.positions, &found.charges, &found.strain];
        let first = Tensor::run_backward(&[&total], &leaves, true, true);
        same("forces", &-first[0].shallow_clone(), values(wanted.forces.as_ref().expect("forces")));
        same("potentials", &first[1], values(wanted.charge_gradients.as_ref().expect("gradients")));
        same("virials", &-first[2].shallow_clone(), values(wanted.virial.as_ref().expect("virials")));

        // A loss of forces and potentials, along a direction of positions and charges.
        let loss =
            |first: &[Tensor]| first[0].square().sum(Kind::Double) + first[1].square().sum(Kind::Double);
        let second = Tensor::run_backward(&[&loss(&first)], &leaves[..2], false, false);
        let mut rng = SplitMix64(9);
        let mut along = |n: usize| (0..n).map(|_| rng.uniform(-0.5, 0.5)).collect::<Vec<f64>>();
        let (u, p) = (along(self.positions.len()), along(self.charges.len()));
        let moved =
            |x: &[f64], h: f64, u: &[f64]| x.iter().zip(u).map(|(x, u)| x + h * u).collect::<Vec<f64>>();
        let at = |h: f64| {
            let of = self.leaves(&moved(&self.positions, h, &u), &moved(&self.charges, h, &p));
            let energy = of_tch(&self.system(&of), &Options::default()).expect("energies").sum(Kind::Double);
            loss(&Tensor::run_backward(&[&energy], &[&of.positions, &of.charges], false, false))
                .double_value(&[])
        };
        let (wanted, _) = richardson(at, 0.0, 4e-3);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let found = dot(&numbers(&second[0]), &u) + dot(&numbers(&second[1]), &p);
        let error = (found - wanted).abs() / wanted.abs().max(1.0);
        assert!(error < 1e-6, "{name}: {found} against {wanted}, {error:.1e}");
    }
}

fn numbers(x: &Tensor) -> Vec<f64> {
    Vec::try_from(x.detach().flatten(0, -1)).expect("numbers")
}

fn crystal(seed: u64, atoms: usize) -> Charges {
    random_system(seed, atoms, triclinic_cell(30.0 * atoms as f64), 0.0, 1.4)
}

fn other(seed: u64) -> Charges {
    random_system(seed, 6, orthorhombic_cell(240.0), 0.0, 1.4)
}

/// A crystal, a slab, a wire and a molecule.
fn boundaries() -> Case {
    let pbc = [[true; 3], [true, false, true], [false, true, false], [false; 3]];
    Case::new("all boundaries", &[crystal(1, 8), other(2), other(3), other(4)], &pbc)
}

/// The parameters in which nothing is chosen, so that sums stay what they are while atoms move.
fn listed() -> EwaldSettings {
    let of = |x: f64| Some(vec![x]);
    EwaldSettings { alpha: of(0.7), cutoff: of(6.0), k_cutoff: of(6.0), ..EwaldSettings::default() }
}

#[test]
fn sums_over_waves() {
    let context = madelung::cpu::context();
    let cases = [
        Case::new("a crystal", &[crystal(5, 9)], &[[true; 3]]),
        Case::new("exclusions", &[crystal(6, 9)], &[[true; 3]]).excluding(),
        Case::new("widths", &[crystal(7, 9)], &[[true; 3]]).with_widths(),
        boundaries(),
        boundaries().excluding(),
    ];
    for case in cases {
        for settings in [listed(), EwaldSettings::accuracy(1e-8)] {
            case.check(
                "Ewald",
                &|system, options| madelung::ewald_summation(&context, system, &settings, None, options),
                &|system, options| madelung_tch::ewald_summation(system, &settings, None, options),
            );
        }
    }
}

/// Small systems are summed directly and others over a list, with results in the order of the batch.
#[test]
fn batches_of_both_methods() {
    let systems = [rock_salt(3, 2.8, 0.2, 1), rock_salt(1, 2.8, 0.2, 2), rock_salt(3, 2.8, 0.2, 3)];
    let case = Case::new("both methods", &systems, &[[true; 3]]);
    let settings = EwaldSettings::accuracy(1e-6);
    let found = case.leaves(&case.positions, &case.charges);
    for (energy_reduction, rows) in [(Reduction::Atom, case.charges.len()), (Reduction::System, 3)] {
        let options = Options { energy_reduction, prefactor: 2.5 };
        let of = case.system(&found);
        let energies = madelung_tch::ewald_summation(&of, &settings, None, &options).expect("energies");
        let options =
            madelung::Options { energy_reduction, prefactor: 2.5, ..madelung::Options::everything() };
        let facade = case.facade();
        let context = madelung::cpu::context();
        let wanted =
            madelung::ewald_summation(&context, &facade, &settings, None, &options).expect("energies");
        assert_eq!(energies.size(), [rows as i64]);
        assert_eq!(numbers(&energies), wanted.energies.to_f64().expect("numbers"));
        let leaves = [&found.positions, &found.charges, &found.strain];
        let gradients = Tensor::run_backward(&[&energies.sum(Kind::Double)], &leaves, false, false);
        let of = [(wanted.forces, -1.0), (wanted.charge_gradients, 1.0), (wanted.virial, -1.0)];
        for (gradient, (wanted, sign)) in gradients.iter().zip(of) {
            let wanted = wanted.expect("asked for").to_f64().expect("numbers");
            assert_close_rms(&numbers(&(gradient * sign)), &wanted, 1e-12, rms(&wanted));
        }
    }
}

#[test]
fn sums_on_a_mesh() {
    let context = madelung::cpu::context();
    let of = |x: f64| Some(vec![x]);
    let given = PmeSettings {
        alpha: of(0.7),
        cutoff: of(6.0),
        mesh_spacing: Some(0.8),
        spline_order: Some(vec![6]),
        ..PmeSettings::default()
    };
    let cases = [
        (Case::new("a crystal", &[crystal(8, 9)], &[[true; 3]]), given),
        (boundaries(), PmeSettings::accuracy(1e-7)),
    ];
    for (case, settings) in cases {
        case.check(
            "PME",
            &|system, options| madelung::particle_mesh_ewald(&context, system, &settings, None, options),
            &|system, options| madelung_tch::particle_mesh_ewald(system, &settings, None, options),
        );
    }
}

#[test]
fn other_sums() {
    let context = madelung::cpu::context();
    let case = Case::new("a crystal", &[crystal(10, 9)], &[[true; 3]]);
    case.check(
        "dsf",
        &|system, options| madelung::dsf(&context, system, &[0.2], 6.0, None, options),
        &|system, options| madelung_tch::dsf(system, &[0.2], 6.0, None, options),
    );
    case.check(
        "damped pairs",
        &|system, options| madelung::coulomb(&context, system, 0.6, Some(6.0), None, options),
        &|system, options| madelung_tch::coulomb(system, 0.6, Some(6.0), None, options),
    );
    let open = Case::new("a molecule", &[other(11)], &[[false; 3]]);
    open.check(
        "all pairs",
        &|system, options| madelung::coulomb(&context, system, 0.0, None, None, options),
        &|system, options| madelung_tch::coulomb(system, 0.0, None, None, options),
    );
    let settings = LatentSettings::default();
    Case::new("a crystal and a molecule", &[crystal(12, 7), other(13)], &[[true; 3], [false; 3]]).check(
        "latent charges",
        &|system, options| madelung::latent_ewald(&context, system, &settings, options),
        &|system, options| madelung_tch::latent_ewald(system, &settings, options),
    );
}

#[test]
fn lists_that_are_given() {
    let context = madelung::cpu::context();
    let case = Case::new("a given list", &[crystal(15, 9)], &[[true; 3]]).excluding();
    let cells = case.cells.as_chunks::<3>().0.as_chunks::<3>().0;
    for kind in [madelung::neighbors::Options::full(), madelung::neighbors::Options::half()] {
        let rows = case.positions.as_chunks::<3>().0;
        let list = madelung::neighbor_list(rows, 6.5, Some(cells), None, &case.batch, &kind, &Serial);
        let list: Arc<dyn Structure> = Arc::new(list.expect("a list"));
        case.check(
            "Ewald",
            &|system, options| madelung::ewald_summation(&context, system, &listed(), Some(&*list), options),
            &|system, options| madelung_tch::ewald_summation(system, &listed(), Some(&list), options),
        );
    }
}

/// The chain rule goes through factors of exclusions, widths and cells.
#[test]
fn gradients_by_what_the_facade_has_none_of() {
    let case = Case::new("all", &[crystal(14, 9)], &[[true; 3]]).excluding().with_widths();
    let energy = |of: &Leaves| {
        madelung_tch::ewald_summation(&case.system(of), &listed(), None, &Options::per_system())
            .expect("an energy")
    };
    let of = case.leaves(&case.positions, &case.charges);
    let leaves = [&of.factors, &of.widths, &of.cell];
    let found = Tensor::run_backward(&[&energy(&of).sum(Kind::Double)], &leaves, false, false);
    for (n, gradient) in found.iter().enumerate() {
        let u: Vec<f64> = (0..gradient.numel()).map(|k| 0.1 - 0.03 * (k % 7) as f64).collect();
        let u = Tensor::from_slice(&u).reshape(gradient.size());
        let at = |h: f64| {
            let mut of = case.leaves(&case.positions, &case.charges);
            let leaf = [&mut of.factors, &mut of.widths, &mut of.cell].into_iter().nth(n).expect("a leaf");
            *leaf = (&*leaf + &u * h).detach();
            energy(&of).double_value(&[0])
        };
        let (wanted, _) = richardson(at, 0.0, 4e-3);
        let along = (gradient * &u).sum(Kind::Double).double_value(&[]);
        assert!((along - wanted).abs() < 1e-7 * wanted.abs().max(1.0), "{n}: {along} against {wanted}");
    }
}

/// The vectors of open axes, any or zero, count for nothing.
#[test]
fn gradients_by_cells_of_all_boundaries() {
    let of = |x: f64| Some(vec![x]);
    // Heights that are chosen change with cells, within the error of the sum, and are no part of gradients.
    let settings = EwaldSettings { cutoff: of(8.0), k_cutoff: of(8.0), slab_height: of(30.0), ..listed() };
    let mut without = boundaries();
    for (n, row) in without.cells.chunks_exact_mut(3).enumerate() {
        if !without.pbc[n / 3][n % 3] {
            row.fill(0.0);
        }
    }
    for case in [boundaries(), without] {
        let energies = |cell: &[f64]| {
            let mut of = case.leaves(&case.positions, &case.charges);
            of.cell = Tensor::from_slice(cell).reshape([4, 3, 3]).detach().set_requires_grad(true);
            let found =
                madelung_tch::ewald_summation(&case.system(&of), &settings, None, &Options::per_system());
            (found.expect("energies").sum(Kind::Double), of.cell)
        };
        let (energy, cell) = energies(&case.cells);
        let found = numbers(&Tensor::run_backward(&[&energy], &[&cell], false, false)[0]);
        for (n, found) in found.chunks_exact(3).enumerate() {
            if !case.pbc[n / 3][n % 3] {
                assert_eq!(found, [0.0; 3], "row {n}");
                continue;
            }
            for (k, found) in found.iter().enumerate() {
                let at = |h: f64| {
                    let mut cells = case.cells.clone();
                    cells[3 * n + k] += h;
                    energies(&cells).0.double_value(&[])
                };
                let (wanted, _) = richardson(at, 0.0, 4e-3);
                assert!((found - wanted).abs() < 1e-7, "row {n}, {k}: {found} against {wanted}");
            }
        }
    }
}

#[path = "../examples/charges.rs"]
mod charges;

#[test]
fn a_network_of_charges_learns() {
    let [first, last] = charges::train(100).expect("losses");
    assert!(last < first / 20.0, "{first} before, {last} after");
}
