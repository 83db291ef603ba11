//! Systems to search in: given, by chance, and as strategies; and the CPU's lists of them.

use madelung_core::backend::pool::Threads;
use madelung_core::structure::{Batch, Clusters};
use madelung_neighbors::{
    Coordinate, Form, Kind, Neighbors, Options, PairList, find_neighbors, neighbor_list,
};
use proptest::prelude::*;

pub(crate) type Cell = [[f64; 3]; 3];

/// One system: atoms, cell, and which axes are periodic.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) atoms: Vec<[f64; 3]>,
    pub(crate) cell: Cell,
    pub(crate) pbc: [bool; 3],
}

impl System {
    /// The system rounded to single precision.
    pub(crate) fn rounded(&self) -> Self {
        let round = |v: [f64; 3]| v.map(|x| f64::from(x as f32));
        Self {
            atoms: self.atoms.iter().map(|r| round(*r)).collect(),
            cell: self.cell.map(round),
            pbc: self.pbc,
        }
    }
}

/// The place of lattice coordinates.
pub(crate) fn place(s: [f64; 3], cell: &Cell) -> [f64; 3] {
    std::array::from_fn(|k| s[0] * cell[0][k] + s[1] * cell[1][k] + s[2] * cell[2][k])
}

/// Numbers from 0 to 1 by a linear congruential generator.
pub(crate) fn random(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub(crate) fn batch(systems: &[System]) -> Batch<'static> {
    let idx: Vec<i32> = systems.iter().enumerate().flat_map(|(b, s)| vec![b as i32; s.atoms.len()]).collect();
    Batch::from_idx(idx, Some(systems.len())).expect("a batch")
}

/// The CPU's list for a batch.
pub(crate) fn search<T: Coordinate>(
    systems: &[System],
    cutoff: f64,
    options: &Options,
    threads: usize,
) -> PairList<'static> {
    let positions: Vec<[T; 3]> =
        systems.iter().flat_map(|s| s.atoms.iter().map(|r| r.map(T::narrow))).collect();
    let cells: Vec<Cell> = systems.iter().map(|s| s.cell).collect();
    let pbc: Vec<[bool; 3]> = systems.iter().map(|s| s.pbc).collect();
    let (batch, pool) = (batch(systems), Threads::new(threads));
    let list = neighbor_list(&positions, cutoff, Some(&cells), Some(&pbc), &batch, options, &pool).unwrap();
    list.check_batch(&batch).unwrap();
    if options.kind == Kind::Full {
        let options = options.clone().with_form(Form::Clusters);
        let found = find_neighbors(&positions, cutoff, Some(&cells), Some(&pbc), &batch, &options, &pool);
        let clusters = match &found {
            Ok(Neighbors::Clusters(clusters)) => clusters,
            found => {
                // Packed images have room for some hundred cells.
                assert!(format!("{found:?}").contains("images are too far"), "{found:?}");
                return list;
            }
        };
        assert_eq!(clusters.pairs(), list.len());
        assert_eq!(clusters.rows_with(&pool).to_csr(), list.to_csr());
        let (frame, runs, entries) = clusters.arrays();
        assert!(Clusters::new(frame, runs, entries).is_ok());
    }
    list
}

pub(crate) fn heights(c: &Cell) -> [f64; 3] {
    let cross = |a: [f64; 3], b: [f64; 3]| {
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    };
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let volume = dot(c[0], cross(c[1], c[2])).abs();
    std::array::from_fn(|k| {
        let face = cross(c[(k + 1) % 3], c[(k + 2) % 3]);
        volume / dot(face, face).sqrt()
    })
}

/// Triclinic cells of either hand, neither flat nor needles.
fn cells() -> impl Strategy<Value = Cell> {
    let rows = prop::array::uniform3(prop::array::uniform3(-3.0..3.0f64));
    let cube = (1.0..4.0f64).prop_map(|l| [[l, 0.0, 0.0], [0.0, l, 0.0], [0.0, 0.0, l]]);
    let long = (1.0..2.0f64, 4.0..9.0f64).prop_map(|(l, m)| [[0.0, 0.0, m], [0.0, l, 0.0], [l, 0.3, 0.0]]);
    prop_oneof![3 => rows, 1 => cube, 1 => long].prop_filter("flat", |c| heights(c).iter().all(|&h| h > 0.7))
}

/// Atoms in the cell, on its faces, and some boxes away.
pub(crate) fn systems(most: usize) -> impl Strategy<Value = System> {
    let coordinate =
        prop_oneof![6 => 0.0..1.0f64, 2 => -3.0..3.0f64, 1 => Just(0.0), 1 => Just(0.5), 1 => Just(1.0)];
    let atoms = prop::collection::vec(prop::array::uniform3(coordinate), 0..most);
    (atoms, cells(), any::<[bool; 3]>()).prop_map(|(fractions, cell, pbc)| System {
        atoms: fractions.iter().map(|s| place(*s, &cell)).collect(),
        cell,
        pbc,
    })
}
