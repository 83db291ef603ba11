//! A system on the mesh of several processes, here threads, against the mesh of one.

use madelung_core::Result;
use madelung_core::array::Array;
use madelung_core::structure::{Batch, Mesh};
use madelung_electrostatics::domains::{
    Exchange, Processes, particle_mesh_ewald_of_domain, pme_reciprocal_space_of_domain,
};
use madelung_electrostatics::{
    Energies, Options, PmeSettings, PrescribedMesh, Reduction, System, particle_mesh_ewald,
    pme_reciprocal_space,
};
use std::sync::{Barrier, Mutex};

type Vec3 = [f64; 3];

/// Memory through which threads exchange their messages.
struct Table {
    messages: Mutex<Vec<Vec<Vec<f64>>>>,
    barrier: Barrier,
}

struct Thread<'t> {
    rank: usize,
    table: &'t Table,
}

impl Exchange for Thread<'_> {
    fn all_to_all(
        &self,
        send: &[f64],
        sent: &[usize],
        receive: &mut [f64],
        received: &[usize],
    ) -> Result<()> {
        assert_eq!((sent.iter().sum::<usize>(), received.iter().sum::<usize>()), (send.len(), receive.len()));
        let mut rest = send;
        let parts = sent.iter().map(|n| rest.split_off(..*n).unwrap().to_vec()).collect();
        self.table.messages.lock().unwrap()[self.rank] = parts;
        self.table.barrier.wait();
        let all: Vec<Vec<f64>> =
            self.table.messages.lock().unwrap().iter().map(|parts| parts[self.rank].clone()).collect();
        assert!(all.iter().zip(received).all(|(part, n)| part.len() == *n));
        receive.copy_from_slice(&all.concat());
        self.table.barrier.wait();
        Ok(())
    }
}

/// Runs a part for each of several processes.
fn on<T: Send>(ranks: usize, part: impl Fn(&Processes<'_>) -> T + Sync) -> Vec<T> {
    let table = Table { messages: Mutex::new(vec![vec![]; ranks]), barrier: Barrier::new(ranks) };
    let part = |rank: usize| {
        let thread = Thread { rank, table: &table };
        part(&Processes::new(rank as i64, ranks as i64, &thread).unwrap())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                scope.spawn({
                    let part = &part;
                    move || part(rank)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[derive(Clone)]
struct Setting {
    positions: Vec<Vec3>,
    charges: Vec<f64>,
    cell: [Vec3; 3],
    alpha: f64,
    mesh: [usize; 3],
    order: usize,
}

/// Numbers between 0 and 1, by chance.
fn by_chance(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..n).map(next).collect()
}

/// Ions in a triclinic cell, some of them outside of it, that are not neutral.
fn setting(mesh: [usize; 3], order: usize) -> Setting {
    let cell = [[7.0, 0.0, 0.4], [1.5, 8.0, 0.0], [-0.7, 1.1, 9.0]];
    let place = |s: &[f64]| -> Vec3 {
        std::array::from_fn(|c| (0..3).map(|k| (3.0 * s[k] - 1.0) * cell[k][c]).sum())
    };
    let positions: Vec<Vec3> = by_chance(3 * 60, 5).chunks(3).map(place).collect();
    let charges = by_chance(60, 9).into_iter().map(|x| x - 0.4).collect();
    Setting { positions, charges, cell, alpha: 0.6, mesh, order }
}

impl Setting {
    /// Calls `of` with the system of some of the atoms.
    fn with<T>(&self, atoms: &[usize], of: impl FnOnce(&System<'_>) -> T) -> T {
        let positions: Vec<Vec3> = atoms.iter().map(|i| self.positions[*i]).collect();
        let charges: Vec<f64> = atoms.iter().map(|i| self.charges[*i]).collect();
        let batch = Batch::single(atoms.len()).unwrap();
        let (r, q) = ((&positions[..]).into(), (&charges[..]).into());
        of(&System::new(r, q, (&self.cell[..]).into(), batch).unwrap())
    }

    fn of_domain(&self, processes: &Processes<'_>, atoms: &[usize], options: &Options) -> Result<Energies> {
        let context = madelung_cpu::context();
        let Self { alpha, mesh, order, .. } = *self;
        self.with(atoms, |system| {
            pme_reciprocal_space_of_domain(&context, processes, system, alpha, mesh, order, options)
        })
    }

    fn whole(&self, options: &Options) -> Energies {
        let all: Vec<usize> = (0..self.positions.len()).collect();
        let mesh = Mesh::new(self.mesh, self.order, 1).unwrap();
        let context = madelung_cpu::context();
        let found = self.with(&all, |s| pme_reciprocal_space(&context, s, &[self.alpha], &mesh, options));
        found.unwrap()
    }

    /// The whole sum of a process' atoms, with parameters that are given or chosen.
    fn sum_of_domain(
        &self,
        processes: &Processes<'_>,
        atoms: &[usize],
        given: PrescribedMesh,
        options: &Options,
    ) -> Result<Energies> {
        let context = madelung_cpu::context();
        self.with(atoms, |s| particle_mesh_ewald_of_domain(&context, processes, s, given, None, options))
    }

    /// The results of all processes, in the order of the atoms: energies, forces, charge gradients and virial.
    fn together(
        &self,
        ranks: usize,
        of: impl Fn(usize) -> usize + Sync,
        part: impl Fn(&Processes<'_>, &[usize]) -> Result<Energies> + Sync,
    ) -> [Vec<f64>; 4] {
        let n = self.positions.len();
        let own = |rank: usize| -> Vec<usize> { (0..n).filter(|i| of(*i) == rank).collect() };
        let parts = on(ranks, |processes| part(processes, &own(processes.rank())).unwrap());
        let mut all = [vec![0.0; n], vec![0.0; 3 * n], vec![0.0; n], vec![0.0; 9]];
        for (rank, part) in parts.iter().enumerate() {
            let [energies, forces, gradients, virial] = numbers(part);
            for (n, i) in own(rank).into_iter().enumerate() {
                all[0][i] = energies[n];
                all[1][3 * i..3 * i + 3].copy_from_slice(&forces[3 * n..3 * n + 3]);
                all[2][i] = gradients[n];
            }
            all[3].iter_mut().zip(virial).for_each(|(sum, x)| *sum += x);
        }
        all
    }
}

fn numbers(found: &Energies) -> [Vec<f64>; 4] {
    let of = |x: &Option<Array>| x.as_ref().map_or(vec![], |x| x.to_f64().unwrap());
    let Energies { energies, forces, charge_gradients, virial } = found;
    [energies.to_f64().unwrap(), of(forces), of(charge_gradients), of(virial)]
}

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-13 * size, "{what}: {a} {b}, of {size}");
    }
}

const NAMES: [&str; 4] = ["energies", "forces", "charge gradients", "virial"];

#[test]
fn all_processes_together_are_as_one() {
    let options = Options { prefactor: 14.4, ..Options::everything() };
    for (mesh, order) in [([12, 15, 16], 5), ([9, 10, 7], 4), ([8, 8, 8], 8)] {
        let setting = setting(mesh, order);
        let expected = numbers(&setting.whole(&options));
        let octant = |r: &Vec3| usize::from(r[0] > 4.0) + 2 * usize::from(r[2] > 3.0);
        let own: Vec<usize> = setting.positions.iter().map(octant).collect();
        for ranks in [1, 2, 3, 4, 5, 17] {
            // By chance, by halves of two axes, and all atoms in one process.
            let divisions: [&(dyn Fn(usize) -> usize + Sync); 3] =
                [&|i| i * 7 % 5 % ranks, &|i| own[i] % ranks, &|_| ranks - 1];
            for of in divisions {
                let part = |processes: &Processes<'_>, atoms: &[usize]| {
                    setting.of_domain(processes, atoms, &options)
                };
                let found = setting.together(ranks, of, part);
                for ((found, expected), name) in found.iter().zip(&expected).zip(NAMES) {
                    assert_close(found, expected, &format!("{name} of {ranks} on {mesh:?}"));
                }
            }
        }
    }
}

#[test]
fn whole_sums_are_those_of_one_process() {
    let options = Options { prefactor: 14.4, ..Options::everything() };
    let setting = setting([12, 15, 16], 5);
    let all: Vec<usize> = (0..setting.positions.len()).collect();
    let context = madelung_cpu::context();
    // Cutoffs within the cell and far beyond it, and all numbers chosen.
    let given = |cutoff: f64| PrescribedMesh {
        alpha: Some(setting.alpha),
        cutoff: Some(cutoff),
        mesh_dimensions: Some(setting.mesh),
        spline_order: Some(setting.order),
    };
    for given in [given(2.5), given(5.0), given(17.0), PrescribedMesh::default()] {
        let settings = PmeSettings {
            alpha: given.alpha.map(|x| vec![x]),
            cutoff: given.cutoff.map(|x| vec![x]),
            mesh_dimensions: given.mesh_dimensions.map(|x| vec![x]),
            spline_order: given.spline_order.map(|x| vec![x]),
            ..PmeSettings::default()
        };
        let whole = |s: &System<'_>| particle_mesh_ewald(&context, s, &settings, None, &options).unwrap();
        let expected = numbers(&setting.with(&all, whole));
        let octant = |r: &Vec3| usize::from(r[0] > 4.0) + 2 * usize::from(r[2] > 3.0);
        let own: Vec<usize> = setting.positions.iter().map(octant).collect();
        for ranks in [1, 2, 4, 7] {
            let divisions: [&(dyn Fn(usize) -> usize + Sync); 3] =
                [&|i| i * 7 % 5 % ranks, &|i| own[i] % ranks, &|_| ranks - 1];
            for of in divisions {
                let part = |processes: &Processes<'_>, atoms: &[usize]| {
                    setting.sum_of_domain(processes, atoms, given, &options)
                };
                let found = setting.together(ranks, of, part);
                for ((found, expected), name) in found.iter().zip(&expected).zip(NAMES) {
                    assert_close(found, expected, &format!("{name} of {ranks}, {given:?}"));
                }
            }
        }
    }
}

#[test]
fn many_ions_of_two_processes() {
    // As many neighbours as are summed in clusters, on sites whose distances are equal.
    let sites = (0..1728).map(|n| [n / 144, n / 12 % 12, n % 12]);
    let positions: Vec<Vec3> = sites.clone().map(|site| site.map(|k| 2.8 * k as f64)).collect();
    let charges = sites.map(|site| 1.0 - 2.0 * (site.iter().sum::<usize>() % 2) as f64).collect();
    let edge = 2.8 * 12.0;
    let cell = [[edge, 0.0, 0.0], [0.0, edge, 0.0], [0.0, 0.0, edge]];
    let setting = Setting { positions, charges, cell, alpha: 0.35, mesh: [36; 3], order: 6 };
    let given = PrescribedMesh {
        alpha: Some(0.35),
        cutoff: Some(10.0),
        mesh_dimensions: Some([36; 3]),
        spline_order: Some(6),
    };
    let options = Options::everything();
    let part =
        |processes: &Processes<'_>, atoms: &[usize]| setting.sum_of_domain(processes, atoms, given, &options);
    let alone = setting.together(1, |_| 0, part);
    let both = setting.together(2, |i| i / 864, part);
    // Madelung's constant of rock salt, to the error of the sum.
    let constant = -2.8 * 2.0 * alone[0].iter().sum::<f64>() / 1728.0;
    assert!((constant - 1.747_564_594_633).abs() < 1e-5, "{constant}");
    assert_close(&both[0], &alone[0], "energies");
    assert_close(&both[2], &alone[2], "charge gradients");
    assert_close(&both[3], &alone[3], "virial");
    assert!(both[1].iter().all(|f| f.abs() < 1e-12), "forces");
}

#[test]
fn left_handed_cells_narrow_numbers_and_no_atoms() {
    let mut setting = setting([12, 15, 16], 5);
    setting.cell.swap(0, 1);
    setting.mesh.swap(0, 1);
    let (options, halves) = (Options::everything(), |i: usize| i % 2);
    let of = |setting: &Setting| {
        setting.together(2, halves, |processes, atoms| setting.of_domain(processes, atoms, &options))
    };
    for ((found, expected), name) in of(&setting).iter().zip(numbers(&setting.whole(&options))).zip(NAMES) {
        assert_close(found, &expected, name);
    }
    // Positions and charges of f32 are computed with in f64.
    let (r, q) = (setting.positions.as_flattened(), &setting.charges);
    let narrow = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let (r, q, h) = (narrow(r), narrow(q), narrow(setting.cell.as_flattened()));
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
    let rounded = Setting {
        positions: wide(&r).as_chunks().0.to_vec(),
        charges: wide(&q),
        cell: std::array::from_fn(|k| std::array::from_fn(|c| f64::from(h[3 * k + c]))),
        ..setting
    };
    let (r, h) = (r.as_chunks::<3>().0, [h.as_chunks::<3>().0.as_chunks::<3>().0[0]]);
    let context = madelung_cpu::context();
    let found = on(1, |processes| {
        let batch = Batch::single(60).unwrap();
        let system = System::new(r.into(), q.as_slice().into(), (&h[..]).into(), batch).unwrap();
        let Setting { alpha, mesh, order, .. } = rounded;
        pme_reciprocal_space_of_domain(&context, processes, &system, alpha, mesh, order, &options).unwrap()
    });
    let [energies, forces, ..] = numbers(&found[0]);
    let expected = numbers(&rounded.whole(&options));
    assert_close(&energies, &expected[0], "energies of narrow numbers");
    assert_close(&forces, &expected[1], "forces of narrow numbers");
    // Nobody has an atom.
    for found in on(3, |processes| rounded.sum_of_domain(processes, &[], PrescribedMesh::default(), &options))
    {
        assert_eq!(numbers(&found.unwrap()), [vec![], vec![], vec![], vec![0.0; 9]]);
    }
    for found in on(2, |processes| rounded.of_domain(processes, &[], &options)) {
        assert_eq!(numbers(&found.unwrap())[3], [0.0; 9]);
    }
}

#[test]
fn what_is_not_asked_for_is_not_there() {
    let setting = setting([12, 15, 16], 5);
    let all: Vec<usize> = (0..60).collect();
    let whole = numbers(&setting.whole(&Options::everything()));
    let total: f64 = whole[0].iter().sum();
    let energy = Options { energy_reduction: Reduction::System, ..Options::default() };
    let found = on(1, |processes| setting.of_domain(processes, &all, &energy).unwrap()).remove(0);
    assert!(found.forces.is_none() && found.charge_gradients.is_none() && found.virial.is_none());
    assert_close(&found.energies.to_f64().unwrap(), &[total], "the energy");
    let shares = on(3, |processes| {
        let atoms: Vec<usize> = all.iter().copied().filter(|i| i % 3 == processes.rank()).collect();
        let forces = Options { compute_forces: true, ..energy };
        numbers(&setting.of_domain(processes, &atoms, &forces).unwrap())
    });
    assert_close(&[shares.iter().map(|share| share[0][0]).sum()], &[total], "the sum of all shares");
    for (rank, [_, forces, ..]) in shares.iter().enumerate() {
        let own: Vec<f64> = whole[1].chunks(3).skip(rank).step_by(3).flatten().copied().collect();
        assert_close(forces, &own, "forces");
    }
}

#[test]
fn an_error_in_one_process_is_one_in_all() {
    let good = setting([12, 15, 16], 5);
    let words = |of: &(dyn Fn(usize) -> Setting + Sync)| {
        on(2, |processes| {
            let atoms: Vec<usize> = (0..60).filter(|i| i % 2 == processes.rank()).collect();
            let found = of(processes.rank()).of_domain(processes, &atoms, &Options::forces());
            found.unwrap_err().to_string()
        })
    };
    let mut bad = good.clone();
    bad.charges[7] = f64::NAN;
    let same = "`exchange`: expected the same cell, mesh and options in all processes, got";
    let other = [1, 0].map(|rank| format!("{same} another one in process {rank}"));
    let nan = "`charges`: expected finite numbers, got NaN".to_string();
    assert_eq!(words(&|_| bad.clone()), [format!("{same} an error in process 1"), nan]);
    let thread = Table { messages: Mutex::new(vec![]), barrier: Barrier::new(1) };
    for (rank, ranks) in [(2, 2), (-1, 2), (0, 0)] {
        let error = Processes::new(rank, ranks, &Thread { rank: 0, table: &thread }).err().unwrap();
        let expected = "`rank`: expected a process from 0 to below their number, got";
        assert_eq!(error.to_string(), format!("{expected} {rank} of {ranks}"));
    }
    let far = Setting { positions: vec![[1e8, 0.0, 0.0]; 60], ..good.clone() };
    assert!(
        words(&|_| far.clone())
            .iter()
            .all(|words| words.starts_with("`positions`: expected atoms within 1e6"))
    );
    // Two charges on one point, which one process finds.
    let mut coincident = good.clone();
    coincident.positions[10] = coincident.positions[8];
    let found = on(2, |processes| {
        let atoms: Vec<usize> = (0..60).filter(|i| i % 2 == processes.rank()).collect();
        let none = PrescribedMesh::default();
        coincident.sum_of_domain(processes, &atoms, none, &Options::forces()).unwrap_err().to_string()
    });
    assert!(found[0].starts_with("`positions`: expected no two atoms on one point"), "{found:?}");
    assert_eq!(found[1], format!("{same} an error in process 0"));
    assert_eq!(words(&|rank| Setting { mesh: [12 + 2 * rank, 15, 16], ..good.clone() }), other);
    assert_eq!(words(&|rank| Setting { alpha: 0.6 + 0.1 * rank as f64, ..good.clone() }), other);
    let words_of_both = |setting: Setting, words_of: &str| {
        words(&|_| setting.clone()).iter().for_each(|words| assert!(words.starts_with(words_of), "{words}"));
    };
    let small = Setting { mesh: [12, 4, 16], ..good.clone() };
    words_of_both(small, "`mesh`: expected three sizes ≥ the spline order");
    words_of_both(Setting { alpha: -1.0, ..good }, "`alpha`: expected a finite number above zero, got -1");
}
