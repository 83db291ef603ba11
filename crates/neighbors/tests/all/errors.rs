//! Rejected arguments, and the names of the arguments in messages; and the edges that are not errors.

use madelung_core::backend::pool::Serial;
use madelung_core::structure::Batch;
use madelung_core::{Error, Result};
use madelung_neighbors::{Kind, Method, Options, PairList, distances, neighbor_list};

const CUBE: [[f64; 3]; 3] = [[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]];

fn search(
    positions: &[[f64; 3]],
    cutoff: f64,
    cell: [[f64; 3]; 3],
    pbc: [bool; 3],
    options: &Options,
) -> Result<PairList<'static>> {
    let batch = Batch::single(positions.len()).unwrap();
    neighbor_list(positions, cutoff, Some(&[cell]), Some(&[pbc]), &batch, options, &Serial)
}

/// Asserts that `result` is an error about `argument` with the text `what`.
fn refused<T>(result: Result<T>, argument: &str, what: &str) {
    match result.err() {
        Some(error @ Error::Argument { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with(&format!("`{argument}`")) && text.contains(what), "{text}");
        }
        other => panic!("{other:?} is not about {argument}"),
    }
}

#[test]
fn cutoffs() {
    let options = Options::full();
    for cutoff in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(search(&[[0.0; 3]], cutoff, CUBE, [true; 3], &options), "cutoff", "positive");
    }
    // A million boxes: refused at once, whether along one axis or along three.
    refused(search(&[[0.0; 3]], 4e6, CUBE, [true; 3], &options), "cutoff", "images");
    refused(search(&[[0.0; 3]; 300], 4e6, CUBE, [true, false, false], &options), "cutoff", "images");
}

#[test]
fn positions() {
    let options = Options::full();
    let mut atoms = [[1.0; 3]; 5];
    for bad in [f64::NAN, f64::INFINITY] {
        atoms[3][1] = bad;
        refused(search(&atoms, 1.0, CUBE, [true; 3], &options), "positions", "atom 3");
        refused(search(&atoms, 1.0, CUBE, [false; 3], &options), "positions", "atom 3");
    }
    atoms[3][1] = 1e13;
    refused(search(&atoms, 1.0, CUBE, [true; 3], &options), "positions", "atom 3");
    assert!(search(&atoms, 1.0, CUBE, [false; 3], &options).is_ok());
    let batch = Batch::single(4).unwrap();
    refused(neighbor_list(&atoms, 1.0, None, None, &batch, &options, &Serial), "positions", "4 rows");
}

#[test]
fn cells_and_axes() {
    let options = Options::full();
    let flat = [CUBE[0], CUBE[1], [4.0, 4.0, 0.0]];
    refused(search(&[[0.0; 3]], 1.0, flat, [true; 3], &options), "cell", "independent");
    assert!(search(&[[0.0; 3]], 1.0, flat, [true, true, false], &options).is_ok());
    refused(
        search(&[[0.0; 3]], 1.0, [CUBE[0], [f64::NAN; 3], CUBE[2]], [false; 3], &options),
        "cell",
        "finite",
    );

    let (atoms, batch) = ([[0.0; 3]; 3], Batch::from_idx(vec![0, 1, 2], None).unwrap());
    let call = |cell: Option<&[[[f64; 3]; 3]]>, pbc: Option<&[[bool; 3]]>| {
        neighbor_list(&atoms, 1.0, cell, pbc, &batch, &options, &Serial)
    };
    refused(call(Some(&[CUBE, flat, CUBE]), None), "cell", "system 1");
    refused(call(Some(&[CUBE, CUBE]), None), "cell", "each of the 3");
    refused(call(None, Some(&[[true; 3]])), "cell", "no cell");
    refused(call(Some(&[CUBE]), Some(&[[true; 3]; 2])), "pbc", "each of the 3");
    assert!(call(None, Some(&[[false; 3]; 3])).is_ok());
}

#[test]
fn capacities_say_what_is_needed() {
    let atoms: Vec<[f64; 3]> = (0..4).map(|i| [f64::from(i), 0.0, 0.0]).collect();
    let call = |options: &Options| search(&atoms, 1.5, CUBE, [false; 3], options);
    refused(call(&Options::full().with_capacity(5)), "capacity", "at least 6");
    refused(call(&Options::full().with_max_neighbors(1)), "max_neighbors", "at least 2");
    refused(call(&Options::half().with_capacity(2)), "capacity", "at least 3");
    assert_eq!(call(&Options::full().with_capacity(6).with_max_neighbors(2)).unwrap().len(), 6);
    let mut directed = Options::full();
    directed.kind = Kind::Directed;
    refused(call(&directed), "kind", "directed");
}

#[test]
fn nothing_and_one_atom() {
    for method in [None, Some(Method::CellList), Some(Method::BruteForce)] {
        let mut options = Options::full();
        options.method = method;
        assert_eq!(search(&[], 1.0, CUBE, [true; 3], &options).unwrap().rows(), 0);
        assert!(search(&[[9.0; 3]], 3.9, CUBE, [true; 3], &options).unwrap().is_empty());
        assert_eq!(search(&[[9.0; 3]], 4.1, CUBE, [true; 3], &options).unwrap().len(), 6);
        // Empty systems before, between and behind.
        let batch = Batch::from_idx(vec![1, 1, 3], Some(5)).unwrap();
        let atoms = [[0.0f32; 3], [0.5; 3], [0.1; 3]];
        let list = neighbor_list(&atoms, 1.0, Some(&[CUBE]), None, &batch, &options, &Serial).unwrap();
        assert_eq!(list.iter().map(|(i, j, _)| (i, j)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
        let none = Batch::from_idx(&[][..], Some(0)).unwrap();
        assert_eq!(neighbor_list::<f64>(&[], 1.0, None, None, &none, &options, &Serial).unwrap().rows(), 0);
    }
}

#[test]
fn distances_are_those_of_the_pairs() {
    let atoms = [[0.1f64, 0.0, 0.0], [3.9, 0.0, 0.0], [0.0, 1.0, 7.0]];
    let batch = Batch::single(3).unwrap();
    let list = search(&atoms, 2.0, CUBE, [true; 3], &Options::full()).unwrap();
    let (lengths, vectors) = distances(&atoms, Some(&[CUBE]), &batch, &list, &Serial).unwrap();
    assert_eq!(lengths.len(), list.len());
    for (p, (i, j, s)) in list.iter().enumerate() {
        let d: [f64; 3] = std::array::from_fn(|k| atoms[j][k] - atoms[i][k] + 4.0 * f64::from(s[k]));
        assert!((0..3).all(|k| (vectors[p][k] - d[k]).abs() < 1e-15) && lengths[p] < 2.0);
    }
    let matrix = list.to_matrix(Some(5), 3).unwrap();
    let padded =
        PairList::from_matrix(matrix.neighbor_matrix, [3, 5], matrix.shifts, 3, 3, Kind::Full).unwrap();
    let (padded_lengths, _) = distances(&atoms, Some(&[CUBE]), &batch, &padded, &Serial).unwrap();
    assert_eq!(padded_lengths.len(), 15);
    assert!(padded_lengths.iter().filter(|&&d| d > 0.0).eq(lengths.iter()));
    refused(distances(&atoms, None, &batch, &list, &Serial), "cell", "shifts");
    refused(distances(&atoms[..2], Some(&[CUBE]), &batch, &list, &Serial), "positions", "3 rows");
}
