use crate::device::{Buffer, StatusWord, alone, same_each_time, scratch};
use crate::primitives::{Number, Type, mixed};
use crate::refused;
use madelung_core::backend::Scan;
use madelung_cpu::Count;
use madelung_cuda::primitives::{Integer, Length, scan, scan_scratch};

fn integer<T: Number>() -> Integer {
    match T::TYPE {
        Type::I32 => Integer::I32,
        Type::U32 => Integer::U32,
        Type::I64 => Integer::I64,
        Type::U64 => unreachable!("nothing is counted in it"),
    }
}

/// The sums, and the bits that were raised; the true number may be one that only the device knows.
pub(crate) fn sums<A: Number + Count, B: Number>(kind: Scan, counts: &[A], n: Option<i64>) -> (Vec<B>, u32) {
    let len = counts.len() + usize::from(kind == Scan::Exclusive);
    same_each_time(
        || {
            let room = scratch(scan_scratch(counts.len()));
            let sums = Buffer::of(&vec![B::default(); len]);
            ([Buffer::of(&[n.unwrap_or(0)])], Buffer::of(counts), sums, StatusWord::new(), room)
        },
        |queue, ([count], counts, sums, status, room)| {
            let n = match n {
                Some(_) => Length::on_device(counts.len(), (Integer::I64, count.address()))?,
                None => Length::new(counts.len()),
            };
            let (from, to) = ((integer::<A>(), counts.address()), (integer::<B>(), sums.address()));
            scan(queue, kind, from, to, n, status.status(), room.scratch())
        },
        |(_, _, sums, status, _)| (sums.read(), status.bits()),
    )
}

#[test]
fn offsets_outgrow_their_counts() {
    let counts = vec![i32::MAX; 5000];
    let (sums, bits) = sums::<i32, i64>(Scan::Exclusive, &counts, None);
    assert!(sums.iter().enumerate().all(|(n, sum)| *sum == n as i64 * i64::from(i32::MAX)));
    assert_eq!(bits, 0);
}

#[test]
fn sums_may_take_the_place_of_their_counts() {
    let counts: Vec<i32> = mixed(4500).map(|x| (x % 9) as i32).collect();
    let mut expected = vec![0; 4501];
    madelung_cpu::scan(&madelung_cpu::context(), Scan::Exclusive, &counts, &mut expected).unwrap();
    let got = same_each_time(
        || {
            let both: Vec<i32> = counts.iter().copied().chain([-7]).collect();
            (Buffer::of(&both), StatusWord::new(), scratch(scan_scratch(4500)))
        },
        |queue, (both, status, room)| {
            let place = (Integer::I32, both.address());
            let n = Length::new(4500);
            scan(queue, Scan::Exclusive, place, place, n, status.status(), room.scratch())
        },
        |(both, ..)| both.read(),
    );
    assert_eq!(got, expected);
}

#[test]
fn the_true_number_may_be_on_the_device() {
    for (count, n) in [(0, 0), (1, 1), (2500, 2500), (6000, 6000), (7000, 6000), (-4, 0)] {
        let counts: Vec<i32> = mixed(6000).map(|x| (x % 9) as i32).collect();
        let mut expected = vec![0; n + 1];
        madelung_cpu::scan(&madelung_cpu::context(), Scan::Exclusive, &counts[..n], &mut expected).unwrap();
        let (got, bits) = sums::<i32, i32>(Scan::Exclusive, &counts, Some(count));
        assert_eq!((&got[..=n], bits), (&expected[..], 0));
        // Elements behind the sums stay unchanged.
        assert!(got[n + 1..].iter().all(|x| *x == 0));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    alone(|queue| {
        let status = StatusWord::new();
        let call = |counts, sums, n, room| {
            scan(queue, Scan::Inclusive, (counts, 0), (sums, 0), Length::new(n), status.status(), room)
        };
        let none = scratch(0);
        refused(call(Integer::I64, Integer::I32, 1, none.scratch()), "sums");
        refused(call(Integer::I32, Integer::I32, 5000, none.scratch()), "scratch");
        refused(Length::on_device(1, (Integer::U32, 0)), "count");
    });
}
