//! Capacities, bad input, graphs, and driver calls.

use super::expected;
use super::support::{Sent, options};
use crate::gpu::Gpu;
use crate::systems::System;
use madelung_core::Error;
use madelung_core::array::{Array, DType, View};
use madelung_cuda::Graph;
use madelung_neighbors::{DeviceFrame, DeviceSearch, Kind, Periodic};
use madelung_stand_in::{UNASKED, UNCOMPILED, calls};

const CELL: [[f64; 3]; 3] = [[6.0, 0.3, -0.2], [2.5, 5.0, 0.4], [-1.5, 2.2, 4.5]];

fn system(boxes: f64) -> System {
    System::new(40, CELL, [true; 3], boxes)
}

#[track_caller]
fn raised(gpu: &Gpu, argument: &str) {
    let error = gpu.error();
    assert!(error.starts_with(&format!("`neighbor_list::{argument}`:")), "{error}");
    gpu.check().expect("an error is told once");
}

#[test]
fn capacities() {
    let gpu = Gpu::new();
    let systems = [system(0.0)];
    let sent = gpu.send(&systems, DType::F64);
    let want = expected(&systems, 3.0, false);
    let pairs = want.others.len();
    for capacity in [0, 1, pairs / 2, pairs - 1, pairs, pairs + 1, 3 * pairs] {
        let mut search = DeviceSearch::new(&gpu.context(), 40, options(3.0, false, capacity, true)).unwrap();
        gpu.update(&mut search, &sent).unwrap();
        assert_eq!(gpu.offsets(&search), want.ptr, "{capacity}");
        if capacity < pairs {
            raised(&gpu, "capacity");
        } else {
            gpu.check().unwrap();
            assert_eq!(gpu.list(&search), want);
        }
    }
}

#[test]
fn what_only_the_device_sees() {
    let gpu = Gpu::new();
    let good = system(0.0);
    let with_atom = |r: [f64; 3]| {
        let mut system = good.clone();
        system.atoms[7] = r;
        system
    };
    let flat = System { cell: [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]], ..good.clone() };
    let endless = System { cell: [[f64::INFINITY, 0.0, 0.0], CELL[1], CELL[2]], ..good.clone() };
    let small = System { cell: CELL.map(|row| row.map(|x| 1e-4 * x)), ..good.clone() };
    let cases = [
        (with_atom([f64::NAN, 0.0, 0.0]), "positions"),
        (with_atom([0.0, f64::NEG_INFINITY, 0.0]), "positions"),
        (with_atom([0.0, 1e30, 0.0]), "positions"),
        (with_atom([1e300; 3]), "positions"),
        (flat, "cell"),
        (endless, "cell"),
        (small, "cutoff"),
    ];
    for (bad, argument) in cases {
        // A system that is as it should be does not hide it.
        let sent = gpu.send(&[good.clone(), bad], DType::F64);
        let mut search = DeviceSearch::new(&gpu.context(), 80, options(2.0, false, 5000, true)).unwrap();
        gpu.update(&mut search, &sent).unwrap();
        raised(&gpu, argument);
        let offsets = gpu.offsets(&search);
        assert!(offsets[0] == 0 && offsets[1..].iter().all(|end| *end == 5001), "{argument}: {offsets:?}");
        // The next list is not concerned.
        let sent = gpu.send(&[good.clone(), good.clone()], DType::F64);
        gpu.update(&mut search, &sent).unwrap();
        gpu.check().unwrap();
        assert_eq!(gpu.list(&search), expected(&[good.clone(), good.clone()], 2.0, false));
    }
}

/// Shifts that have no room in one integer have it in three.
#[test]
fn atoms_in_boxes_far_apart() {
    let gpu = Gpu::new();
    let mut far = system(0.0);
    (0..3).for_each(|k| far.atoms[3][k] += 2000.0 * CELL[2][k]);
    let want = expected(std::slice::from_ref(&far), 3.0, false);
    let sent = gpu.send(&[far], DType::F64);
    for packed in [true, false] {
        let options = options(3.0, false, want.others.len(), packed);
        let mut search = DeviceSearch::new(&gpu.context(), 40, options).unwrap();
        gpu.update(&mut search, &sent).unwrap();
        if packed {
            raised(&gpu, "positions");
        } else {
            gpu.check().unwrap();
            assert_eq!(gpu.list(&search), want);
        }
    }
}

#[test]
fn a_batch_that_is_none() {
    let gpu = Gpu::new();
    let sent = gpu.send(&[system(0.0)], DType::F64);
    let mut idx = [0i32; 40];
    (idx[3], idx[9]) = (1_000_000, -5);
    let [idx, ptr] = [&idx[..], &[0, 40]].map(|ints| gpu.memory.upload(&View::from(ints)).unwrap());
    let batch = madelung_core::structure::DeviceBatch::new(idx.view(), ptr.view()).unwrap();
    let mut search = DeviceSearch::new(&gpu.context(), 40, options(2.0, false, 5000, true)).unwrap();
    let pbc = Periodic::All([true; 3]);
    let (positions, cell) = (sent.positions.view(), sent.cell.view());
    search.search(&gpu.cuda, &gpu.context(), &positions, Some(&cell), &pbc, &batch).unwrap();
    raised(&gpu, "batch_idx");
}

#[test]
fn arguments_that_do_not_fit() {
    let gpu = Gpu::new();
    let context = gpu.context();
    let named = |result: Result<(), Error>, name: &str| {
        let error = result.expect_err("an error");
        assert!(error.to_string().starts_with(&format!("`{name}`")), "{error}");
    };
    for cutoff in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        named(DeviceSearch::new(&context, 4, options(cutoff, false, 9, true)).map(drop), "cutoff");
    }
    named(DeviceSearch::new(&context, 4, options(1.0, false, i32::MAX as usize, true)).map(drop), "capacity");
    let directed = madelung_neighbors::DeviceOptions { kind: Kind::Directed, ..options(1.0, false, 9, true) };
    named(DeviceSearch::new(&context, 4, directed).map(drop), "kind");

    let Sent { positions, cell, .. } = &gpu.send(&[system(0.0)], DType::F64);
    let sent = gpu.send(&[system(0.0)], DType::F64);
    let all = Periodic::All([true; 3]);
    let mut search = DeviceSearch::new(&context, 40, options(2.0, false, 5000, true)).unwrap();
    let (r, c, batch) = (positions.view(), cell.view(), sent.batch());
    let wrong = gpu.upload(DType::I32, &[1, 2], &[1.0; 2]);
    let host = Array::zeros(DType::F64, &[40, 3]);
    named(search.search(&gpu.cuda, &context, &host.view(), Some(&c), &all, &batch), "positions");
    named(search.search(&gpu.cuda, &context, &c, Some(&c), &all, &batch), "positions");
    named(search.search(&gpu.cuda, &context, &r, Some(&r), &all, &batch), "cell");
    named(search.search(&gpu.cuda, &context, &r, None, &all, &batch), "cell");
    let each = Periodic::Each(wrong.view());
    named(search.search(&gpu.cuda, &context, &r, None, &each, &batch), "cell");
    named(search.search(&gpu.cuda, &context, &r, Some(&c), &each, &batch), "pbc");
    named(search.needs_rebuild(&gpu.cuda, &context, &r, Some(&c), &batch, 1.0).map(drop), "positions");
    search.search(&gpu.cuda, &context, &r, Some(&c), &all, &batch).unwrap();
    named(search.needs_rebuild(&gpu.cuda, &context, &r, None, &batch, 1.0).map(drop), "cell");
    named(search.needs_rebuild(&gpu.cuda, &context, &r, Some(&c), &batch, -1.0).map(drop), "skin");
    let flags = gpu.upload(DType::I32, &[1], &[1.0]);
    let frame = DeviceFrame { positions: &r, cell: Some(&c), pbc: &all, batch: &batch };
    let mut fresh = DeviceSearch::new(&context, 40, options(2.0, false, 5000, true)).unwrap();
    named(fresh.search_if(&gpu.cuda, &context, &frame, &flags.view()), "positions");
    let without = DeviceFrame { cell: None, pbc: &Periodic::All([false; 3]), ..frame };
    named(search.search_if(&gpu.cuda, &context, &without, &flags.view()), "cell");
    named(search.search_if(&gpu.cuda, &context, &frame, &wrong.view()), "flags");
    let mut other = DeviceSearch::new(&context, 41, options(2.0, false, 5000, true)).unwrap();
    named(other.search(&gpu.cuda, &context, &r, Some(&c), &all, &batch), "batch_idx");
}

/// A search without a cell, and one with the axes given by the host.
#[test]
fn one_answer_for_all_systems() {
    let gpu = Gpu::new();
    let open = System { pbc: [false; 3], ..system(1.0) };
    let slab = System { pbc: [true, false, true], ..system(1.0) };
    for (system, cell) in [(open, false), (slab, true)] {
        let systems = [system.clone(), system];
        let sent = gpu.send(&systems, DType::F64);
        let mut search = DeviceSearch::new(&gpu.context(), 80, options(2.5, false, 9000, true)).unwrap();
        let (r, c) = (sent.positions.view(), sent.cell.view());
        let pbc = Periodic::All(systems[0].pbc);
        search.search(&gpu.cuda, &gpu.context(), &r, cell.then_some(&c), &pbc, &sent.batch()).unwrap();
        gpu.check().unwrap();
        assert_eq!(gpu.list(&search), expected(&systems, 2.5, false));
    }
}

#[test]
fn graphs_and_calls() {
    let gpu = Gpu::new();
    let sent = gpu.send(&[system(0.0), system(1.0)], DType::F64);
    let mut search = DeviceSearch::new(&gpu.context(), 80, options(2.5, false, 9000, true)).unwrap();
    gpu.update(&mut search, &sent).unwrap();
    let counts = || (UNASKED.map(calls), UNCOMPILED.map(calls));
    let before = counts();
    gpu.update(&mut search, &sent).unwrap();
    let graph = Graph::capture(gpu.cuda.stream(), |_| gpu.update(&mut search, &sent)).unwrap();
    assert_eq!(counts(), before, "{UNASKED:?} {UNCOMPILED:?}");
    for by in [0.1, 0.7] {
        let moved = |s: System| System {
            atoms: s.atoms.iter().enumerate().map(|(n, r)| r.map(|x| x + by * (n as f64).sin())).collect(),
            ..s
        };
        let systems = [system(0.0), system(1.0)].map(moved);
        let atoms: Vec<f64> = systems.iter().flat_map(|s| s.atoms.as_flattened().to_vec()).collect();
        gpu.overwrite(&sent.positions, &atoms);
        gpu.replay(&graph);
        gpu.check().unwrap();
        assert_eq!(gpu.list(&search), expected(&systems, 2.5, false));
    }
}

#[test]
fn when_to_search_again() {
    let gpu = Gpu::new();
    let systems = [system(0.0), system(0.0), system(0.0)];
    let sent = gpu.send(&systems, DType::F64);
    let mut search = DeviceSearch::new(&gpu.context(), 120, options(2.5, false, 9000, true)).unwrap();
    gpu.update(&mut search, &sent).unwrap();
    let ask = |positions: &Array, cell: &Array, skin: f64| {
        let (r, c) = (positions.view(), cell.view());
        let flags =
            search.needs_rebuild(&gpu.cuda, &gpu.context(), &r, Some(&c), &sent.batch(), skin).unwrap();
        gpu.read(&flags.view()).to_f64().unwrap()
    };
    assert_eq!(ask(&sent.positions, &sent.cell, 0.0), [0.0; 3]);
    let mut moved = systems.clone();
    moved[1].atoms[5][2] += 0.25;
    moved[2].cell[0][1] += 1e-9;
    let other = gpu.send(&moved, DType::F64);
    assert_eq!(ask(&other.positions, &sent.cell, 0.6), [0.0; 3]);
    assert_eq!(ask(&other.positions, &sent.cell, 0.4), [0.0, 1.0, 0.0]);
    assert_eq!(ask(&other.positions, &other.cell, 0.6), [0.0, 0.0, 1.0]);
    moved[0].atoms[0][0] = f64::NAN;
    let other = gpu.send(&moved, DType::F64);
    assert_eq!(ask(&other.positions, &sent.cell, 1e6), [1.0, 0.0, 0.0]);
}

/// One graph of a rebuild test and a search: the list is made again where an atom has moved too far since the list was
/// made, not since the last step; from then on, the new positions count.
#[test]
fn a_search_in_a_graph_that_a_flag_decides() {
    let gpu = Gpu::new();
    let systems = [system(0.0), System::new(0, CELL, [true; 3], 0.0), system(1.0)];
    let sent = gpu.send(&systems, DType::F64);
    let (context, skin, cutoff) = (gpu.context(), 0.5, 2.5);
    let mut search = DeviceSearch::new(&context, 80, options(cutoff, false, 9000, true)).unwrap();
    gpu.update(&mut search, &sent).unwrap();
    let (positions, cell, batch) = (sent.positions.view(), sent.cell.view(), sent.batch());
    let pbc = Periodic::Each(sent.pbc.view());
    let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
    let step = |search: &mut DeviceSearch| {
        let flags = search.needs_rebuild(&gpu.cuda, &context, &positions, Some(&cell), &batch, skin)?;
        search.search_if(&gpu.cuda, &context, &frame, &flags.view())
    };
    step(&mut search).unwrap();
    let counts = || (UNASKED.map(calls), UNCOMPILED.map(calls));
    let before = counts();
    let graph = Graph::capture(gpu.cuda.stream(), |_| step(&mut search)).unwrap();
    assert_eq!(counts(), before, "{UNASKED:?} {UNCOMPILED:?}");
    let moved = |by: f64| {
        let mut systems = systems.clone();
        systems[2].atoms.iter_mut().enumerate().for_each(|(n, r)| r[n % 3] += by);
        systems
    };
    let mut old = expected(&systems, cutoff, false);
    for (by, again) in
        [(0.0, false), (0.2, false), (0.3, true), (0.5, false), (0.1, false), (0.0, true), (0.2, false)]
    {
        let now = moved(by);
        let atoms: Vec<f64> = now.iter().flat_map(|s| s.atoms.as_flattened().to_vec()).collect();
        gpu.overwrite(&sent.positions, &atoms);
        gpu.replay(&graph);
        gpu.check().unwrap();
        let fresh = expected(&now, cutoff, false);
        if again {
            old = fresh;
        } else if by > 0.0 {
            assert_ne!(old, fresh, "a move by {by} makes no difference");
        }
        assert_eq!(gpu.list(&search), old, "{by}");
    }
    // An atom that is nowhere has moved.
    let mut atoms: Vec<f64> = systems.iter().flat_map(|s| s.atoms.as_flattened().to_vec()).collect();
    atoms[100] = f64::NAN;
    gpu.overwrite(&sent.positions, &atoms);
    gpu.replay(&graph);
    raised(&gpu, "positions");
    assert!(gpu.offsets(&search)[1..].iter().all(|end| *end == 9001));
}
