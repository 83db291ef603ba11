//! The search on a device against that of the CPU: offsets, columns, shifts and their order. Every pair is decided by the
//! same rounded numbers, so that there is no pair that may be in one list alone.
//!
//! There need be no GPU: a driver of our own stands in (`tests/stand_in`).

mod band;
mod calls;
mod coo;
mod exclusions;
mod renewed;
mod support;

use crate::gpu::Gpu;
use crate::systems::{Cell, System, batch, search, systems};
use coo::Coo;
use madelung_core::array::DType;
use madelung_neighbors::{Coordinate, DeviceFrame, DeviceSearch, Options, Periodic};
use madelung_stand_in::{Order, set_order};
use proptest::prelude::*;
use support::{Read, options};

/// The CPU's list.
pub(crate) fn expected(systems: &[System], cutoff: f64, half: bool) -> Read {
    expected_of::<f64>(systems, cutoff, half)
}

fn expected_of<T: Coordinate>(systems: &[System], cutoff: f64, half: bool) -> Read {
    let options = if half { Options::half() } else { Options::full() };
    let list = search::<T>(systems, cutoff, &options, 1);
    let csr = list.to_csr();
    Read { ptr: csr.neighbor_ptr.to_vec(), others: csr.others.to_vec(), shifts: csr.shifts.to_vec() }
}

/// Asserts the CPU's lists with both types, both kinds, both forms of shifts, and as arrays of the caller.
#[track_caller]
fn agree(gpu: &Gpu, systems: &[System], cutoff: f64) -> usize {
    let mut most = 0;
    for dtype in [DType::F64, DType::F32] {
        let systems: Vec<System> = match dtype {
            DType::F32 => systems.iter().map(System::rounded).collect(),
            _ => systems.to_vec(),
        };
        // Single precision has no digits of a cutoff that is lost in the size of the box.
        let largest = systems.iter().flat_map(|s| s.atoms.as_flattened()).fold(0.0f64, |m, x| m.max(x.abs()));
        if dtype == DType::F32 && largest > 1e4 * cutoff {
            continue;
        }
        let sent = gpu.send(&systems, dtype);
        for (half, packed) in [(false, true), (false, false), (true, true), (true, false)] {
            let want = match dtype {
                DType::F32 => expected_of::<f32>(&systems, cutoff, half),
                _ => expected(&systems, cutoff, half),
            };
            let pairs = want.others.len();
            let options = options(cutoff, half, pairs, packed);
            let mut search = DeviceSearch::new(&gpu.context(), batch(&systems).atoms(), options).unwrap();
            gpu.update(&mut search, &sent).unwrap();
            gpu.check().unwrap_or_else(|e| panic!("{e}: {dtype}, half {half}, cutoff {cutoff}, {systems:?}"));
            let got = gpu.list(&search);
            assert!(got == want, "{dtype}, half {half}, packed {packed}\n{got:?}\n{want:?}");
            most = most.max(pairs);
            if !packed {
                let coo = gpu.coo(&sent, cutoff, half, None);
                assert!(coo == Coo::of(&want, 0), "{dtype}, half {half}\n{coo:?}\n{want:?}");
            }
        }
    }
    most
}

const CUBE: Cell = [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]];
const SKEW: Cell = [[6.0, 0.3, -0.2], [2.5, 5.0, 0.4], [-1.5, 2.2, 4.5]];
const LEFT: Cell = [[0.0, 0.4, 6.0], [0.3, 5.5, 0.0], [7.0, 0.1, 0.2]];

#[test]
fn cells_of_any_shape() {
    let gpu = Gpu::new();
    for cell in [CUBE, SKEW, LEFT] {
        for boxes in [0.0, 2.0] {
            for cutoff in [1.0, 2.4, 4.9] {
                agree(&gpu, &[System::new(40, cell, [true; 3], boxes)], cutoff);
            }
        }
    }
}

#[test]
fn cutoffs_beyond_the_box() {
    let gpu = Gpu::new();
    let tiny = SKEW.map(|row| row.map(|x| 0.3 * x));
    // Rows of more pairs than shared memory has room for, too.
    let pairs = agree(&gpu, &[System::new(3, tiny, [true; 3], 1.0)], 7.0);
    assert!(pairs > 3 * 300, "{pairs} pairs");
    agree(&gpu, &[System::new(1, tiny, [true; 3], 0.0)], 2.0);
    // Images that keys of 32 bits have no room for, in a row that shared memory has room for.
    let wire = [[0.0; 3], [0.0; 3], [0.0, 0.0, 0.01]];
    agree(&gpu, &[System { atoms: vec![[0.0; 3]], cell: wire, pbc: [false, false, true] }], 5.115);
}

#[test]
fn open_axes() {
    let gpu = Gpu::new();
    for bits in 0..7 {
        let pbc = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
        let cell = if bits % 2 == 0 { SKEW } else { LEFT };
        agree(&gpu, &[System::new(20, cell, pbc, 1.0)], 2.5);
    }
    // Rows along open axes may be anything.
    let wire = [[0.0; 3], [1.0, 2.0, 2.0], [0.0; 3]];
    let atoms = System::new(20, CUBE, [true; 3], 0.0).atoms;
    agree(&gpu, &[System { atoms, cell: wire, pbc: [false, true, false] }], 3.5);
}

#[test]
fn batches_with_empty_systems() {
    let gpu = Gpu::new();
    let empty = System::new(0, SKEW, [true; 3], 0.0);
    let slab = System::new(25, SKEW, [true, true, false], 1.0);
    let open = System::new(11, [[0.0; 3]; 3], [false; 3], 0.0);
    let open = System { atoms: System::new(11, LEFT, [true; 3], 0.0).atoms, ..open };
    let systems =
        [empty.clone(), System::new(30, CUBE, [true; 3], 2.0), empty.clone(), slab, open, empty.clone()];
    agree(&gpu, &systems, 2.2);
    agree(&gpu, &[empty.clone(), empty], 2.2);
    agree(&gpu, &[], 1.0);
}

/// Pairs exactly at the cutoff, and points on the faces of cells.
#[test]
fn lattices() {
    let gpu = Gpu::new();
    let atoms: Vec<[f64; 3]> =
        (0..64).map(|n| [n % 4, n / 4 % 4, n / 16].map(|x| 1.25 * f64::from(x))).collect();
    let system = System { atoms, cell: CUBE, pbc: [true; 3] };
    for cutoff in [1.25, 2.5, 1.25 * 2f64.sqrt()] {
        agree(&gpu, std::slice::from_ref(&system), cutoff);
    }
}

/// More points than a tile of the sort has.
#[test]
fn many_atoms() {
    let gpu = Gpu::new();
    let cell = SKEW.map(|row| row.map(|x| 5.0 * x));
    let systems = [System::new(4200, cell, [true; 3], 1.0)];
    let want = expected(&systems, 1.0, true);
    let sent = gpu.send(&systems, DType::F64);
    let options = options(1.0, true, want.others.len() + 1000, true);
    let mut search = DeviceSearch::new(&gpu.context(), 4200, options).unwrap();
    gpu.update(&mut search, &sent).unwrap();
    gpu.check().unwrap();
    assert!(gpu.list(&search) == want);

    // An unwanted search leaves the offsets and entries of many blocks unchanged.
    let other = [System::new(4200, cell.map(|row| row.map(|x| 1.01 * x)), [true; 3], 1.0)];
    let moved = gpu.send(&other, DType::F64);
    let (positions, cell, batch) = (moved.positions.view(), moved.cell.view(), moved.batch());
    let pbc = Periodic::All([true; 3]);
    let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
    for (flag, want) in [(0.0, want), (1.0, expected(&other, 1.0, true))] {
        let flags = gpu.upload(DType::I32, &[1], &[flag]);
        search.search_if(&gpu.cuda, &gpu.context(), &frame, &flags.view()).unwrap();
        gpu.check().unwrap();
        assert!(gpu.list(&search) == want, "flag {flag}");
    }
}

/// Any order of blocks, and of threads between two barriers.
#[test]
fn orders_of_threads() {
    let gpu = Gpu::new();
    let systems = [System::new(150, SKEW, [true; 3], 1.0), System::new(50, LEFT, [true, true, false], 1.0)];
    let want = expected(&systems, 2.0, false);
    let sent = gpu.send(&systems, DType::F64);
    let mut lists = vec![];
    for order in [Order::Forwards, Order::Backwards, Order::Shuffled(11)] {
        set_order(order);
        let options = options(2.0, false, want.others.len() + 100, true);
        let mut search = DeviceSearch::new(&gpu.context(), 200, options).unwrap();
        gpu.update(&mut search, &sent).unwrap();
        gpu.check().unwrap();
        lists.push(gpu.list(&search));
    }
    set_order(Order::Forwards);
    assert!(lists.iter().all(|list| *list == want), "the order makes a difference");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn by_chance(systems in prop::collection::vec(systems(14), 0..4), cutoff in 0.3..2.5f64) {
        agree(&Gpu::new(), &systems, cutoff);
    }
}
