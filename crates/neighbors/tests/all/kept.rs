//! A search that keeps its memory gives the lists of a fresh one, after any earlier use.

use crate::systems::{Cell, place, random};
use madelung_core::backend::pool::Threads;
use madelung_core::structure::Batch;
use madelung_neighbors::{CooArrays, Method, NeighborSearch, Options, PairList, neighbor_list};

/// Random atoms in and around a sheared cell, up to `boxes` boxes away.
fn atoms(count: usize, length: f64, boxes: i64, seed: u64) -> (Vec<[f64; 3]>, Cell) {
    let mut random = random(seed);
    let cell = [[length, 0.0, 0.0], [0.2 * length, length, 0.0], [0.0, -0.1 * length, length]];
    let mut coordinate = || {
        let n = (random() * (2 * boxes + 1) as f64).floor() - boxes as f64;
        random() + n
    };
    ((0..count).map(|_| place([(); 3].map(|()| coordinate()), &cell)).collect(), cell)
}

fn same(a: &PairList<'_>, b: &PairList<'_>) {
    assert_eq!((a.starts(), a.others(), a.kind()), (b.starts(), b.others(), b.kind()));
    assert_eq!(a.shifts(), b.shifts());
    assert_eq!(a.entry_bytes(), b.entry_bytes());
}

fn same_in_coordinate_form(found: &CooArrays, list: &PairList<'_>) {
    let coo = list.to_coo();
    let integers = |numbers: &[i32]| numbers.iter().map(|&i| f64::from(i)).collect::<Vec<_>>();
    assert_eq!(found.list.to_f64().unwrap(), integers(&[&coo.i[..], &*coo.j].concat()));
    assert_eq!(found.shifts.to_f64().unwrap(), integers(coo.shifts.as_flattened()));
    let ptr: Vec<i32> = list.to_csr().neighbor_ptr.iter().map(|&p| p as i32).collect();
    assert_eq!(found.ptr.to_f64().unwrap(), integers(&ptr));
    let (atoms, pairs) = (list.rows(), list.len());
    let shapes = [&found.list, &found.ptr, &found.shifts].map(|array| array.shape().to_vec());
    assert_eq!(shapes, [vec![2, pairs], vec![atoms + 1], vec![pairs, 3]]);
}

#[test]
fn lists_do_not_depend_on_the_memory() {
    let mut search = NeighborSearch::new();
    let pool = Threads::new(2);
    let mut bytes = vec![];
    // Larger and smaller, many systems and one, shifts that are packed and shifts that are too large for that.
    for (call, (count, systems, boxes)) in [
        (900, 1, 0),
        (2500, 1, 0),
        (40, 12, 1),
        (300, 1, 2000),
        (700, 1, 3),
        (1, 1, 0),
        (0, 1, 0),
        (700, 3, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let length = (count.max(1) as f64 / 0.1).cbrt();
        let (positions, cell) = atoms(count * systems, length, boxes, call as u64 + 1);
        let ptr: Vec<i32> = (0..=systems).map(|b| (b * count) as i32).collect();
        let batch = Batch::from_ptr(ptr).unwrap();
        for options in [Options::full(), Options::half(), Options::full().with_method(Method::CellList)] {
            let cell = Some(&[cell][..]);
            let fresh = neighbor_list(&positions, 4.0, cell, None, &batch, &options, &pool).unwrap();
            for _ in 0..2 {
                let kept = search.build(&positions, 4.0, cell, None, &batch, &options, &pool).unwrap();
                same(&kept, &fresh);
                search.recycle(kept);
            }
            bytes.push(fresh.entry_bytes());
            let context = madelung_cpu::context().with_pool(&pool);
            let found = search.coo(&positions, 4.0, cell, None, &batch, &options, &context).unwrap();
            same_in_coordinate_form(&found, &fresh);
        }
        // An error leaves a search that still works.
        let none = Options::full().with_capacity(0);
        let refused = search.build(&positions, 4.0, Some(&[cell]), None, &batch, &none, &pool);
        assert_eq!(refused.is_err(), count > 0);
    }
    bytes.sort_unstable();
    bytes.dedup();
    assert_eq!(bytes, [8, 16], "both forms of shifts");
}

#[test]
fn packed_and_plain_shifts_are_the_same_list() {
    let (positions, cell) = atoms(500, 17.0, 2, 9);
    let batch = Batch::single(500).unwrap();
    let list =
        neighbor_list(&positions, 5.0, Some(&[cell]), None, &batch, &Options::full(), &Threads::new(1))
            .unwrap();
    let csr = list.to_csr();
    let plain = PairList::from_csr(&*csr.neighbor_ptr, &*csr.others, &*csr.shifts, 500, list.kind()).unwrap();
    assert_eq!((list.entry_bytes(), plain.entry_bytes()), (8, 16));
    assert!(plain.iter().eq(list.iter()));
    let (half, half_plain) = (list.to_half().unwrap(), plain.to_half().unwrap());
    assert_eq!((half.entry_bytes(), half_plain.entry_bytes()), (8, 16));
    assert!(half.iter().eq(half_plain.iter()));
    assert!(half.to_full().unwrap().iter().eq(list.iter()));
    assert_eq!(list.to_matrix(None, -1).unwrap(), plain.to_matrix(None, -1).unwrap());
    assert_eq!(list.clone().into_csr(), plain.into_csr());
}
