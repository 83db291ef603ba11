//! Pair lists: three forms of one thing, and what is refused.

use crate::support::refused;
use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::Serial;
use madelung_core::structure::pairs::{Csr, Kind, Neighbors, PairList, Shifts};
use madelung_core::structure::{Batch, Structure};
use proptest::prelude::*;

const ZERO: [i32; 3] = [0; 3];
const X: [i32; 3] = [1, 0, 0];
const BACK: [i32; 3] = [-1, 0, 0];

/// Three atoms in a row, the first and the last joined through the border, the second with its own images.
fn full() -> PairList<'static> {
    let others = vec![1, 2, 0, 1, 1, 2, 0, 1];
    let shifts = vec![ZERO, BACK, ZERO, BACK, X, ZERO, X, ZERO];
    PairList::from_csr(vec![0i64, 2, 6, 8], others, shifts, 3, Kind::Full).unwrap()
}

#[test]
fn forms_turn_into_each_other() {
    let list = full();
    assert_eq!((list.rows(), list.columns(), list.len(), list.max_row()), (3, 3, 8, 4));
    let coo = list.to_coo();
    assert_eq!(coo.i, [0, 0, 1, 1, 1, 1, 2, 2]);
    let again = PairList::from_coo(&coo.i, &*coo.j, &*coo.shifts, 3, 3, Kind::Full).unwrap();
    assert!(again.iter().eq(list.iter()));
    let matrix = list.to_matrix(None, 3).unwrap();
    assert_eq!((matrix.width, &matrix.num_neighbors[..]), (4, &[2, 4, 2][..]));
    let padded =
        PairList::from_matrix(&matrix.neighbor_matrix, [3, 4], &matrix.shifts, 3, 3, Kind::Full).unwrap();
    assert_eq!((padded.starts(), padded.ends(), padded.len()), (&[0, 4, 8][..], &[2, 8, 10][..], 8));
    assert!(padded.iter().eq(list.iter()));
    let (others, shifts) = (matrix.neighbor_matrix.clone(), Shifts::Triples(matrix.shifts.clone().into()));
    let ranges = PairList::from_ranges(vec![0, 4, 8], vec![2, 8, 10], others, shifts, 3, Kind::Full).unwrap();
    assert!(ranges.iter().eq(list.iter()) && ranges.len() == 8);
    assert_eq!(padded.to_csr(), list.to_csr());
    assert_eq!(padded.into_csr().neighbor_ptr, list.to_csr().neighbor_ptr);
}

#[test]
fn csr_is_borrowed() {
    let list = full();
    let Csr { neighbor_ptr, others, shifts } = list.to_csr();
    let view = PairList::from_csr(&*neighbor_ptr, &*others, &*shifts, 3, Kind::Full).unwrap();
    assert!(std::ptr::eq(view.others(), &*others) && std::ptr::eq(&*view.shifts(), &*shifts));
    assert!(std::ptr::eq(view.starts().as_ptr(), neighbor_ptr.as_ptr()));
    assert!(std::ptr::eq(view.ends().as_ptr(), neighbor_ptr[1..].as_ptr()));
}

#[test]
fn halves() {
    let list = full();
    let half = list.to_half().unwrap();
    assert_eq!(half.iter().collect::<Vec<_>>(), [(0, 1, ZERO), (0, 2, BACK), (1, 1, X), (1, 2, ZERO)]);
    assert!(half.to_full().unwrap().iter().eq(list.iter()));
    let Csr { neighbor_ptr, others, shifts } = half.into_csr();
    refused(PairList::from_csr(&*neighbor_ptr, &*others, &*shifts, 3, Kind::Full), "neighbor_list", "half");
    assert!(PairList::from_csr(neighbor_ptr, others, shifts, 3, Kind::Half).is_ok());
    let full = full().into_csr();
    refused(
        PairList::from_csr(full.neighbor_ptr, full.others, full.shifts, 3, Kind::Half),
        "neighbor_list",
        "full",
    );
}

#[test]
fn a_missing_or_changed_pair_is_found() {
    let Csr { neighbor_ptr, others, shifts } = full().into_csr();
    let mut moved = shifts.to_vec();
    moved[4] = [0, 1, 0];
    refused(PairList::from_csr(&*neighbor_ptr, &*others, moved, 3, Kind::Full), "neighbor_list", "reverse");
    let short = PairList::from_csr(vec![0i64, 2, 6, 7], &others[..7], &shifts[..7], 3, Kind::Full);
    refused(short, "neighbor_list", "cut short");
}

#[test]
fn rings_are_not_full_although_every_atom_has_as_many_ways_in_as_out() {
    for n in 3..1000usize {
        for step in [1, n / 2] {
            let ring = (0..n).map(|i| ((i + step) % n) as i32).collect::<Vec<_>>();
            let ptr = (0..=n as i32).collect::<Vec<_>>();
            let full = PairList::from_csr(ptr, ring, vec![ZERO; n], n, Kind::Full);
            assert_eq!(full.is_ok(), 2 * step == n, "{n} atoms, step {step}");
        }
    }
}

#[test]
fn one_pair_is_never_a_full_list() {
    for at in 0..4 {
        for code in (0..7 * 7 * 7).filter(|&code| code != 171) {
            let s = [code / 49 - 3, code / 7 % 7 - 3, code % 7 - 3];
            let ptr = (0..5).map(|row| i32::from(row > at)).collect::<Vec<_>>();
            let list = |kind| PairList::from_csr(ptr.clone(), vec![at], vec![s], 4, kind);
            assert!(list(Kind::Full).is_err() && list(Kind::Half).is_ok(), "{at} {s:?}");
        }
    }
}

#[test]
fn directed_lists_promise_less() {
    let list = PairList::from_csr(vec![0i64, 2, 3], vec![0, 6, 6], vec![ZERO; 3], 7, Kind::Directed).unwrap();
    assert_eq!((list.rows(), list.columns()), (2, 7));
    refused(list.to_full(), "neighbor_list", "directed");
    let (rows, columns) = (Batch::single(2).unwrap(), Batch::single(7).unwrap());
    assert!(list.check_batches(&rows, &columns).is_ok());
    refused(list.check_batch(&rows), "batch_idx", "7 columns");
    let full = PairList::from_csr(vec![0i64, 0], vec![], vec![], 7, Kind::Full);
    refused(full, "neighbor_list", "one row per atom");
}

#[test]
fn pairs_across_systems_are_found() {
    let list = full();
    assert!(list.check_batch(&Batch::single(3).unwrap()).is_ok());
    let two = Batch::from_idx(vec![0, 0, 1], None).unwrap();
    refused(list.check_batch(&two), "neighbor_list", "atom 0 of system 0 with atom 2 of system 1");
}

#[test]
fn what_is_not_a_list_is_refused() {
    let csr = |ptr: Vec<i32>, others: Vec<i32>| {
        let shifts = vec![ZERO; others.len()];
        PairList::from_csr(ptr, others, shifts, 2, Kind::Full)
    };
    refused(csr(vec![], vec![]), "neighbor_ptr", "empty");
    refused(csr(vec![0, 2, 1, 2], vec![1, 0]), "neighbor_ptr", "row 1");
    refused(csr(vec![0, 1, 1], vec![1, 0]), "neighbor_ptr", "0 to the number of pairs, 2");
    refused(csr(vec![0, 1, 2], vec![2, 0]), "neighbor_list", "below 2");
    refused(csr(vec![0, 1, 2], vec![-1, 0]), "neighbor_list", "-1");
    refused(csr(vec![0, 1, 2], vec![0, 0]), "neighbor_list", "itself");
    refused(
        PairList::from_csr(vec![0i64, 1, 2], vec![1, 0], vec![ZERO], 2, Kind::Full),
        "neighbor_shifts",
        "2 entries",
    );
    let coo = |i: &[i32]| PairList::from_coo(i, vec![1, 0], vec![ZERO; 2], 2, 2, Kind::Full);
    refused(coo(&[1, 0]), "neighbor_list", "sorted");
    refused(coo(&[-1, 0]), "neighbor_list", "rows ≥ 0");
    refused(coo(&[0, 2]), "neighbor_list", "rows below 2");
    refused(coo(&[0]), "neighbor_list", "as many");
    assert!(coo(&[0, 1]).is_ok());
    let matrix =
        |matrix: Vec<i32>, fill| PairList::from_matrix(matrix, [2, 2], vec![ZERO; 4], fill, 2, Kind::Full);
    assert_eq!(matrix(vec![1, 2, 0, 2], 2).unwrap().len(), 2);
    assert_eq!(matrix(vec![1, -1, 0, -1], -1).unwrap().len(), 2);
    refused(matrix(vec![2, 1, 0, 2], 2), "neighbor_matrix", "behind padding");
    refused(matrix(vec![1, 2, 0, 2], 1), "fill_value", "not one of the 2");
    refused(matrix(vec![1, 2, 0], 2), "neighbor_matrix", "2 rows of 2");
    refused(full().to_matrix(Some(3), 3), "max_neighbors", "at least 4");
    refused(full().to_matrix(None, 1), "fill_value", "1");
    let ranges = |starts: Vec<i64>, ends: Vec<i64>, others: Vec<i32>| {
        let shifts = Shifts::Triples(vec![ZERO; 4].into());
        PairList::from_ranges(starts, ends, others, shifts, 2, Kind::Directed)
    };
    assert_eq!(ranges(vec![0, 2], vec![1, 4], vec![0, 9, 1, 1]).unwrap().len(), 3);
    refused(ranges(vec![0, 2], vec![3, 4], vec![0; 4]), "neighbor_ptr", "rows that rise");
    refused(ranges(vec![0, 2], vec![1, 5], vec![0; 4]), "neighbor_ptr", "within the 4 entries");
    refused(ranges(vec![0, -2], vec![0, 4], vec![0; 4]), "neighbor_ptr", "-2 to 4 for row 1");
    refused(ranges(vec![0, 2], vec![1], vec![0; 4]), "neighbor_ptr", "rows");
    refused(ranges(vec![0, 2], vec![1, 4], vec![0, 9, 1, 2]), "neighbor_list", "2");
    assert!(
        PairList::from_search(vec![0, 1], vec![-1], Shifts::Packed(vec![0].into()), 1, Kind::Full).is_err()
    );
}

#[test]
fn rows_without_pairs() {
    let none = PairList::from_matrix(vec![], [3, 0], vec![], 3, 3, Kind::Full).unwrap();
    assert_eq!((none.rows(), none.len(), none.to_coo().i.len()), (3, 0, 0));
    assert_eq!(none.to_matrix(Some(2), -1).unwrap().neighbor_matrix, [-1; 6]);
    assert!(none.to_half().unwrap().to_full().unwrap().is_empty());
}

proptest! {
    #[test]
    fn full_lists_stand_and_lists_with_one_pair_less_do_not(
        pairs in prop::collection::btree_set((0usize..6, 0usize..6, prop::array::uniform3(-2i32..3)), 1..60),
        gone in any::<prop::sample::Index>(),
    ) {
        let mut both: Vec<(usize, usize, [i32; 3])> = pairs.iter().copied().filter(|p| p.0 != p.1 || p.2 != ZERO)
            .flat_map(|(i, j, s)| [(i, j, s), (j, i, s.map(|s| -s))]).collect();
        both.sort_unstable();
        both.dedup();
        let list = |pairs: &[(usize, usize, [i32; 3])]| {
            let (i, j): (Vec<i32>, Vec<i32>) = pairs.iter().map(|p| (p.0 as i32, p.1 as i32)).unzip();
            PairList::from_coo(&i, j, pairs.iter().map(|p| p.2).collect::<Vec<_>>(), 6, 6, Kind::Full)
        };
        let whole = list(&both).unwrap();
        prop_assert!(whole.to_half().unwrap().to_full().unwrap().iter().eq(both.iter().copied()));
        prop_assert_eq!(whole.to_half().unwrap().len() * 2, both.len());
        if !both.is_empty() {
            both.remove(gone.index(both.len()));
            prop_assert!(list(&both).is_err());
        }
    }
}

#[test]
fn lists_of_domains() {
    let of = |ptr: Vec<i64>, others: Vec<i32>, atoms| PairList::of_domain(ptr, others, atoms, Kind::Full);
    let list = of(vec![0, 2, 3], vec![1, 2, 0], 4).unwrap();
    assert_eq!((list.rows(), list.columns(), list.len(), list.own_rows()), (4, 4, 3, Some(2)));
    assert_eq!(list.iter().collect::<Vec<_>>(), [(0, 1, ZERO), (0, 2, ZERO), (1, 0, ZERO)]);
    assert_eq!(list.moved(&[ZERO; 4]).unwrap().own_rows(), Some(2));
    assert_eq!(list.borrowed().into_owned().own_rows(), Some(2));
    let left_out = of(vec![0, 1, 1], vec![2], 4).unwrap();
    let without = list.without(&left_out).unwrap();
    assert_eq!((without.len(), without.own_rows()), (2, Some(2)));
    assert!(!list.lacks(&left_out) && without.lacks(&left_out));
    refused(list.to_half(), "neighbor_list", "of a domain");
    refused(of(vec![0, 1, 2, 3], vec![1; 3], 2), "neighbor_ptr", "at most 2");
    refused(of(vec![0, 1], vec![4], 4), "neighbor_list", "below 4");
    refused(of(vec![0, 1], vec![0], 4), "neighbor_list", "itself");
    assert!(of(vec![0], vec![], 0).unwrap().is_empty());
    let half = PairList::of_domain(vec![0, 2, 3], vec![1, 2, 3], 4, Kind::Half).unwrap();
    let positions = Array::zeros(DType::F64, &[4, 3]);
    let made = Neighbors::of_domain(&half, &positions.view(), &Serial).unwrap();
    assert_eq!((made.len(), made.own_rows(), made.list_kind()), (6, Some(2), Some(Kind::Full)));
    let both = [(0, 1, ZERO), (0, 2, ZERO), (1, 0, ZERO), (1, 3, ZERO), (2, 0, ZERO), (3, 1, ZERO)];
    assert_eq!(made.rows(&Serial).iter().collect::<Vec<_>>(), both);
    refused(
        Neighbors::of_domain(&half, &Array::zeros(DType::F64, &[3, 3]).view(), &Serial),
        "positions",
        "[4, 3]",
    );
}
