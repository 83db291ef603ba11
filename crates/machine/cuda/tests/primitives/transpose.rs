use crate::device::{Buffer, StatusWord, alone, same_each_time, scratch};
use crate::primitives::mixed;
use crate::refused;
use madelung_core::runtime::Reason;
use madelung_core::structure::pairs::{Kind, PairList, Transpose};
use madelung_cuda::primitives::{Integer, Length, List, Transposed, transpose, transpose_scratch};

/// Starts, rows and entries, and the bits that were raised, of a list whose arrays have room for `spare` more entries.
fn transposed(list: &PairList<'_>, others: &[i32], spare: usize) -> (Vec<i64>, Vec<i32>, Vec<i32>, u32) {
    let entries = others.len();
    // Entries behind the last one are unused.
    let mut others = others.to_vec();
    others.resize(entries + spare, 0);
    same_each_time(
        || {
            (
                [list.starts(), list.ends(), &[entries as i64]].map(Buffer::of),
                Buffer::of(&others),
                Buffer::of(&vec![-1i64; list.columns() + 1]),
                [(); 2].map(|()| Buffer::of(&vec![-1i32; list.len()])),
                StatusWord::new(),
                scratch(transpose_scratch(entries + spare)),
            )
        },
        |queue, ([starts, ends, count], others, column_starts, [rows, numbers], status, room)| {
            let from = List {
                starts: starts.address(),
                ends: ends.address(),
                rows: list.rows(),
                others: others.address(),
                columns: list.columns(),
                entries: Length::on_device(entries + spare, (Integer::I64, count.address()))?,
            };
            let to = Transposed {
                starts: column_starts.address(),
                rows: rows.address(),
                entries: numbers.address(),
                capacity: rows.len(),
            };
            transpose(queue, from, to, status.status(), room.scratch())
        },
        |(_, _, starts, [rows, entries], status, _)| {
            (starts.read(), rows.read(), entries.read(), status.bits())
        },
    )
}

fn check(list: &PairList<'_>) {
    let expected = Transpose::new(list).unwrap();
    let expected = (expected.starts().to_vec(), expected.rows().to_vec(), expected.entries().to_vec(), 0);
    for spare in [0, 700] {
        assert_eq!(transposed(list, list.others(), spare), expected);
    }
}

#[test]
fn transposes_are_those_of_the_cpu() {
    for (rows, columns, pairs) in [(0, 3, 0), (1, 1, 1), (40, 33, 257), (500, 300, 5000)] {
        let of = |n: u64| mixed(pairs).map(move |x| ((x >> 9) % n) as i32);
        let mut i: Vec<i32> = if rows == 0 { vec![] } else { of(rows as u64 / 2 + 1).collect() };
        i.sort_unstable();
        let j: Vec<i32> = mixed(pairs).map(|x| ((x >> 33) % columns as u64) as i32).collect();
        let list = PairList::from_coo(&i, j, vec![[0; 3]; pairs], rows, columns, Kind::Directed).unwrap();
        check(&list);
    }
}

#[test]
fn entries_of_no_row_are_left_out() {
    let (rows, width, columns) = (150, 9, 40);
    let matrix: Vec<i32> = (0..rows * width)
        .zip(mixed(rows * width))
        .map(
            |(n, x)| if n % width < (n / width * 5) % (width + 1) { (x % columns as u64) as i32 } else { -1 },
        )
        .collect();
    let shifts = vec![[0; 3]; rows * width];
    let list = PairList::from_matrix(matrix, [rows, width], shifts, -1, columns, Kind::Directed).unwrap();
    assert!(list.len() < list.others().len());
    check(&list);
}

#[test]
fn columns_out_of_range_are_raised() {
    let list = PairList::from_coo(&[0, 1, 1], vec![1, 0, 1], vec![[0; 3]; 3], 2, 2, Kind::Directed).unwrap();
    for wrong in [-1, 2] {
        let (starts, rows, entries, bits) = transposed(&list, &[1, wrong, 1], 0);
        assert_eq!((starts, bits), (vec![0, 0, 2], Reason::Index.bit()));
        assert_eq!((&rows[..2], &entries[..2]), (&[0, 1][..], &[0, 2][..]));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    alone(|queue| {
        let list = |rows, columns, entries| List {
            starts: 0,
            ends: 0,
            rows,
            others: 0,
            columns,
            entries: Length::new(entries),
        };
        let to = Transposed { starts: 0, rows: 0, entries: 0, capacity: 0 };
        let none = scratch(0);
        let call = |list| transpose(queue, list, to, StatusWord::new().status(), none.scratch());
        refused(call(list(1, 1, 1 << 31)), "entries");
        refused(call(list(1 << 31, 1, 1)), "rows");
        refused(call(list(1, 1 << 31, 1)), "columns");
        refused(call(list(1, 1, 100)), "scratch");
    });
}
