//! Every method against the oracle, on random cells, atoms and batches.

use crate::systems::{System, heights, place, random, search, systems};
use madelung_core::backend::pool::Serial;
use madelung_core::runtime::Isa;
use madelung_core::structure::Batch;
use madelung_cpu::Cpu;
use madelung_neighbors::brute_force::{self, Pair};
use madelung_neighbors::{Kind, Method, Options, PairList, neighbor_list};
use proptest::prelude::*;

/// The oracle's answer for a batch.
fn oracle(systems: &[System], cutoff: f64, half: bool) -> Vec<Pair> {
    let positions: Vec<_> = systems.iter().flat_map(|s| s.atoms.clone()).collect();
    let (mut found, mut first) = (Vec::new(), 0);
    for s in systems {
        // |S_k| ≤ (|r_j − r_i| + cutoff) / height of the lattice of periodic axes, which is at least the cell's.
        let far = s.atoms.iter().flatten().fold(0.0f64, |m, x| m.max(x.abs())) * 12f64.sqrt();
        let most = heights(&s.cell).map(|h| ((far + cutoff) / h) as i32 + 1);
        let last = first + s.atoms.len();
        found.extend(brute_force::pairs(&positions, first..last, cutoff, &s.cell, s.pbc, most, half));
        first = last;
    }
    found
}

/// The search against the oracle, for both methods and the choice between them, each on other instructions.
fn agree(systems: &[System], cutoff: f64, half: bool) -> Result<(), TestCaseError> {
    let expected = oracle(systems, cutoff, half);
    let options = if half { Options::half() } else { Options::full() };
    let all = [None, Some(Method::CellList), Some(Method::BruteForce)];
    for (method, isa) in all.into_iter().zip([Isa::Portable, Isa::Avx2, Isa::Avx512]) {
        let options = options.clone().maybe(method).with_cpu(Cpu::at_most(isa));
        let list = search::<f64>(systems, cutoff, &options, 1);
        prop_assert_eq!(&list.iter().collect::<Vec<_>>(), &expected, "{:?}", method);
        // Lists from outside are checked: ours pass as their own kind, and not as the other one.
        let csr = list.to_csr();
        let check =
            |kind| PairList::from_csr(&*csr.neighbor_ptr, &*csr.others, &*csr.shifts, list.columns(), kind);
        prop_assert!(check(list.kind()).is_ok());
        let other = if half { Kind::Full } else { Kind::Half };
        prop_assert!(list.is_empty() || check(other).is_err());
    }
    Ok(())
}

trait Maybe {
    fn maybe(self, method: Option<Method>) -> Self;
}

impl Maybe for Options {
    fn maybe(self, method: Option<Method>) -> Self {
        method.map_or(self.clone(), |method| self.with_method(method))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn single_systems(system in systems(14), reach in 0.1..2.0f64, half in any::<bool>()) {
        let cutoff = reach * heights(&system.cell).into_iter().fold(f64::INFINITY, f64::min);
        agree(&[system], cutoff, half)?;
    }

    #[test]
    fn cutoffs_of_many_boxes(system in systems(4), reach in 2.0..4.0f64, half in any::<bool>()) {
        let cutoff = reach * heights(&system.cell).into_iter().fold(f64::INFINITY, f64::min);
        agree(&[system], cutoff, half)?;
    }

    #[test]
    fn batches(systems in prop::collection::vec(systems(10), 0..5), cutoff in 0.3..2.5f64, half in any::<bool>()) {
        agree(&systems, cutoff, half)?;
    }

    #[test]
    fn a_system_alone_is_the_same_as_in_its_batch(systems in prop::collection::vec(systems(60), 1..4), cutoff in 0.3..2.0f64) {
        let together: Vec<_> = search::<f64>(&systems, cutoff, &Options::full(), 2).iter().collect();
        let (mut alone, mut first) = (Vec::new(), 0);
        for system in &systems {
            let list = search::<f64>(std::slice::from_ref(system), cutoff, &Options::full(), 1);
            alone.extend(list.iter().map(|(i, j, s)| (first + i, first + j, s)));
            first += system.atoms.len();
        }
        prop_assert_eq!(together, alone);
    }

    #[test]
    fn single_precision_is_exact_for_its_coordinates(system in systems(20), cutoff in 0.3..3.0f64) {
        let rounded = System { atoms: system.rounded().atoms, ..system };
        let cutoff = f64::from(cutoff as f32);
        let expected = oracle(std::slice::from_ref(&rounded), cutoff, false);
        for method in [Method::CellList, Method::BruteForce] {
            let list = search::<f32>(std::slice::from_ref(&rounded), cutoff, &Options::full().with_method(method), 1);
            prop_assert_eq!(&list.iter().collect::<Vec<_>>(), &expected);
        }
    }

    #[test]
    fn half_and_full_turn_into_each_other(system in systems(20), cutoff in 0.3..3.0f64) {
        let systems = [system];
        let (full, half) = (search::<f64>(&systems, cutoff, &Options::full(), 1), search::<f64>(&systems, cutoff, &Options::half(), 1));
        prop_assert!(full.to_half().unwrap().iter().eq(half.iter()));
        prop_assert!(half.to_full().unwrap().iter().eq(full.iter()));
    }
}

/// A jittered lattice of n³ atoms in a box whose atoms are far from sorted.
fn fluid(n: usize, shear: f64) -> System {
    let mut random = random(7);
    let length = n as f64 * 2.15;
    let cell = [[length, 0.0, 0.0], [shear * length, length, 0.0], [0.0, -shear * length, length]];
    let mut atoms: Vec<[f64; 3]> = (0..n * n * n)
        .map(|p| {
            let s = [p / n / n, p / n % n, p % n].map(|c| (c as f64 + random()) / n as f64);
            place(s, &cell)
        })
        .collect();
    for p in (1..atoms.len()).rev() {
        atoms.swap(p, (random() * p as f64) as usize);
    }
    System { atoms, cell, pbc: [true; 3] }
}

#[test]
fn large_systems_agree_whatever_the_threads_and_instructions() {
    for (n, shear, cutoff, pbc) in [
        (11, 0.0, 5.0, [true; 3]),
        (11, 0.4, 5.0, [true; 3]),
        (10, -1.3, 7.0, [true, false, true]),
        (9, 0.0, 12.0, [true; 3]),
        (12, 0.1, 2.5, [false; 3]),
    ] {
        let system = [System { pbc, ..fluid(n, shear) }];
        for options in [Options::full(), Options::half()] {
            let grid = search::<f64>(&system, cutoff, &options.clone().with_method(Method::CellList), 1);
            let all = search::<f64>(&system, cutoff, &options.clone().with_method(Method::BruteForce), 1);
            let threads = search::<f64>(&system, cutoff, &options, 3);
            assert!(grid.len() > 1000);
            assert_eq!((grid.others(), grid.shifts()), (all.others(), all.shifts()));
            assert_eq!((grid.others(), grid.shifts()), (threads.others(), threads.shifts()));
            assert_eq!(grid.starts(), threads.starts());
            for isa in [Isa::Portable, Isa::Avx2] {
                let other = search::<f64>(&system, cutoff, &options.clone().with_cpu(Cpu::at_most(isa)), 2);
                assert_eq!(grid.starts(), other.starts(), "{isa:?}");
                assert_eq!((grid.others(), grid.shifts()), (other.others(), other.shifts()), "{isa:?}");
            }
        }
    }
}

#[test]
fn pairs_at_the_cutoff_are_decided_in_double_precision() {
    // Along x every distance is a whole number: at a cutoff of 3 the third neighbour is out, a hair above it is in.
    let atoms: Vec<[f64; 3]> = (0..500).map(|i| [f64::from(i), 1e5, -1e5]).collect();
    let system = [System { atoms, cell: [[500.0, 0.0, 0.0], [0.0; 3], [0.0; 3]], pbc: [true, false, false] }];
    for method in [Method::CellList, Method::BruteForce] {
        for (cutoff, neighbors) in [(3.0, 4), (3.0 * (1.0 + 1e-15), 6), (3.0 * (1.0 - 1e-15), 4)] {
            let list = search::<f64>(&system, cutoff, &Options::full().with_method(method), 1);
            assert!((0..500).all(|i| list.range(i).len() == neighbors), "{cutoff}");
        }
    }
}

#[test]
fn wrapping_changes_shifts_and_nothing_else() {
    let system = fluid(9, 0.2);
    let mut moved = system.clone();
    for (i, r) in moved.atoms.iter_mut().enumerate() {
        let n = [i % 5, i % 7, i % 3].map(|n| n as f64 * 1000.0 - 2000.0);
        *r = std::array::from_fn(|k| {
            r[k] + n[0] * system.cell[0][k] + n[1] * system.cell[1][k] + n[2] * system.cell[2][k]
        });
    }
    let (here, there) = (
        search::<f64>(std::slice::from_ref(&system), 4.0, &Options::full(), 1),
        search::<f64>(&[moved.clone()], 4.0, &Options::full(), 1),
    );
    let columns = |list: &PairList<'_>| list.iter().map(|(i, j, _)| (i, j)).collect::<Vec<_>>();
    assert_eq!(columns(&here), columns(&there));
    let brute = search::<f64>(&[moved], 4.0, &Options::full().with_method(Method::BruteForce), 1);
    assert_eq!(brute.shifts(), there.shifts());
}

#[test]
fn known_counts() {
    // One atom in a cube of edge 1: 6 neighbours at 1, 12 at √2, 8 at √3.
    let cube = [System {
        atoms: vec![[7.3, -2.0, 0.1]],
        cell: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        pbc: [true; 3],
    }];
    for (cutoff, count) in [(0.9, 0), (1.2, 6), (1.5, 18), (1.8, 26), (10.5, 4944)] {
        for method in [Method::CellList, Method::BruteForce] {
            assert_eq!(
                search::<f64>(&cube, cutoff, &Options::full().with_method(method), 1).len(),
                count,
                "{cutoff}"
            );
        }
        assert_eq!(search::<f64>(&cube, cutoff, &Options::half(), 1).len() * 2, count);
    }
    // Two atoms on one point are a pair, of each with the other.
    let batch = Batch::single(2).unwrap();
    let list = neighbor_list(&[[0.5f32; 3]; 2], 1.0, None, None, &batch, &Options::full(), &Serial).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), [(0, 1, [0; 3]), (1, 0, [0; 3])]);
    assert_eq!(list.kind(), Kind::Full);
}
