//! Every method against the oracle, on random cells, atoms and batches.

use crate::systems::{System, batch, heights, place, random, search, systems};
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::runtime::Isa;
use madelung_core::structure::{Batch, Clusters};
use madelung_cpu::Cpu;
use madelung_neighbors::brute_force::{self, Pair};
use madelung_neighbors::{
    Coordinate, Form, Kind, Method, Neighbors, Options, PairList, distances, find_neighbors, neighbor_list,
};
use proptest::prelude::*;

/// The oracle's answer for a batch.
fn oracle<T: Coordinate>(systems: &[System], cutoff: f64, half: bool) -> Vec<Pair> {
    let positions: Vec<_> = systems.iter().flat_map(|s| &s.atoms).map(|r| r.map(T::narrow)).collect();
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
    let expected = oracle::<f64>(systems, cutoff, half);
    let options = if half { Options::half() } else { Options::full() };
    let all = [None, Some(Method::CellList), Some(Method::BruteForce)];
    for (method, &isa) in all.into_iter().zip(Isa::available().iter().rev().cycle()) {
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
    fn in_single_precision_distances_of_that_decide(system in systems(20), cutoff in 0.3..3.0f64) {
        let rounded = System { atoms: system.rounded().atoms, ..system };
        let cutoff = f64::from(cutoff as f32);
        let expected = oracle::<f32>(std::slice::from_ref(&rounded), cutoff, false);
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

/// Pairs of a list are closer than a cutoff that is the distance of one of them, in the precision of the positions.
fn none_is_at_its_cutoff<T: Coordinate + Into<f64>>() {
    let system = fluid(5, 0.3);
    let positions: Vec<[T; 3]> = system.atoms.iter().map(|r| r.map(T::narrow)).collect();
    let batch = batch(std::slice::from_ref(&system));
    let lengths = |cutoff: f64, method: Option<Method>| -> Vec<f64> {
        let (cell, options) = (Some(&[system.cell][..]), Options::full().maybe(method));
        let list = neighbor_list(&positions, cutoff, cell, None, &batch, &options, &Serial).unwrap();
        let (lengths, _) = distances(&positions, cell, &batch, &list, &Serial).unwrap();
        lengths.into_iter().map(T::into).collect()
    };
    let all = lengths(2.5, None);
    for (n, &cutoff) in all.iter().enumerate().step_by(all.len() / 300) {
        let method = [None, Some(Method::CellList), Some(Method::BruteForce)][n % 3];
        let found = lengths(cutoff, method);
        assert!(found.iter().all(|d| *d < cutoff), "{cutoff}");
        assert_eq!(found.len(), all.iter().filter(|d| **d < cutoff).count(), "{cutoff}");
    }
}

#[test]
fn no_pair_is_at_its_cutoff() {
    none_is_at_its_cutoff::<f64>();
    none_is_at_its_cutoff::<f32>();
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
            for &isa in Isa::available() {
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

/// A liquid of `edge`³ atoms, some of them cells away.
fn liquid(edge: usize, seed: u64) -> System {
    let mut next = random(seed);
    let length = edge as f64;
    let cell = [[length, 0.0, 0.0], [0.2 * length, length, 0.0], [0.0, -0.1 * length, length]];
    let atoms = (0..edge.pow(3))
        .map(|n| {
            let far = if n % 97 == 0 { 2.0 } else { 0.0 };
            let site = [n / (edge * edge), n / edge % edge, n % edge].map(|k| k as f64);
            place(site.map(|k| (k + 0.4 * next()) / length + far), &cell)
        })
        .collect();
    System { atoms, cell, pbc: [true; 3] }
}

#[test]
fn clusters_of_large_systems_do_not_depend_on_threads_or_batch() {
    let systems = [liquid(12, 1), liquid(3, 2), liquid(17, 3)];
    let found = |systems: &[System], threads: usize, form: Option<Form>| {
        let positions: Vec<_> = systems.iter().flat_map(|s| s.atoms.clone()).collect();
        let cells: Vec<_> = systems.iter().map(|s| s.cell).collect();
        let (batch, pool) = (batch(systems), Threads::new(threads));
        let options = form.map_or_else(Options::full, |form| Options::full().with_form(form));
        find_neighbors(&positions, 3.1, Some(&cells), None, &batch, &options, &pool).unwrap()
    };
    let arrays = |list: &Neighbors<'_>| {
        let Neighbors::Clusters(list) = list else { panic!("rows") };
        let (frame, runs, entries) = list.arrays();
        (frame.to_vec(), runs.to_vec(), entries.to_vec())
    };
    let [one, three] = [1, 3].map(|threads| found(&systems, threads, None));
    assert!(arrays(&one) == arrays(&three));
    // The small system is evaluated in rows, in a batch as alone; the others in clusters.
    let Neighbors::Clusters(list) = &one else { panic!("rows") };
    assert_eq!(list.in_clusters().collect::<Vec<_>>(), [true, false, true]);
    assert!(matches!(found(&systems[1..2], 1, None), Neighbors::Rows(_)));
    let rows = search::<f64>(&systems, 3.1, &Options::full(), 2);
    let others = list.other_rows_with(&Serial);
    for (b, first) in [(0, 0), (1, 1728), (2, 1755)] {
        for i in first..first + systems[b].atoms.len() {
            let of =
                |list: &PairList<'_>| list.row(i).0.iter().copied().zip(list.row(i).1).collect::<Vec<_>>();
            assert_eq!(of(others), if b == 1 { of(&rows) } else { vec![] });
        }
        // The pieces of a system are those that it has alone, with its own clusters.
        let alone = found(&systems[b..=b], 1, Some(Form::Clusters));
        let (_, of_alone, _) = arrays(&alone);
        let Neighbors::Clusters(alone) = &alone else { panic!("rows") };
        let mine: Vec<_> = (0..list.pieces()).map(|p| list.piece(p)).filter(|p| p.system == b).collect();
        assert_eq!(mine.len(), alone.pieces());
        let slots: Vec<_> = mine.iter().flat_map(|p| p.runs.iter().map(|run| [run[0], run[1]])).collect();
        assert_eq!(slots, of_alone.iter().map(|run| [run[0], run[1]]).collect::<Vec<_>>());
    }
}

#[test]
fn arrays_that_are_no_list_in_clusters_are_refused() {
    let system = liquid(4, 5);
    let batch = batch(std::slice::from_ref(&system));
    let options = Options::full().with_form(Form::Clusters);
    let cells = [system.cell];
    let found = find_neighbors(&system.atoms, 2.5, Some(&cells), None, &batch, &options, &Serial).unwrap();
    let Neighbors::Clusters(list) = &found else { panic!("clusters were asked for") };
    let (frame, runs, entries) = list.arrays();
    let refused = |frame: &[i32], runs: &[[i32; 3]], entries: &[[i32; 2]], expected: &str| {
        let error = Clusters::new(frame, runs, entries).expect_err(expected).to_string();
        assert!(error.contains("`neighbors`") && error.contains(expected), "{error}");
    };
    refused(&frame[..5], runs, entries, "a frame");
    refused(&frame[..40], runs, entries, "integers");
    refused(frame, &runs[1..], entries, "runs and");
    let with = |n: usize, x: i32| {
        frame.iter().enumerate().map(|(k, y)| if k == n { x } else { *y }).collect::<Vec<_>>()
    };
    refused(&with(0, -2), runs, entries, "out of date");
    refused(&with(1, 1), runs, entries, "room for");
    refused(&with(9, frame[9] - 2), runs, entries, "pairs, as its frame says");
    // A pair of an atom with itself, and a pair that is there from both sides.
    let mut own = entries.to_vec();
    let at = own.iter().position(|e| e[0] == runs[0][0] / 16).unwrap();
    own[at][1] |= 1 << (runs[0][0] % 16);
    refused(frame, runs, &own, "neighbours behind each atom");
    // Whatever else is changed is refused, or a list all of whose indices are in range.
    let mut next = random(11);
    let mut number = |n: usize| (next() * n as f64) as usize;
    for _ in 0..4000 {
        let (mut frame, mut runs, mut entries) = (frame.to_vec(), runs.to_vec(), entries.to_vec());
        let x = [-1, 0, 1, 63, 64, 65_536, i32::MAX, i32::MIN][number(8)];
        let (a, b, c) = (number(frame.len()), number(runs.len()), number(entries.len()));
        match number(3) {
            0 => frame[a] = x,
            1 => runs[b][number(3)] = x,
            _ => entries[c][number(2)] = x,
        }
        if let Ok(list) = Clusters::new(&frame[..], &runs[..], &entries[..]) {
            assert!(list.rows_with(&Serial).others().iter().all(|j| (0..64).contains(j)));
        }
    }
}
