use crate::device::{Buffer, StatusWord, refusing, same_each_time, scratch};
use crate::{mixed, refused};
use madelung_core::backend::Scan;
use madelung_core::runtime::Reason;
use madelung_cpu::Count;
use madelung_cuda::primitives::{Integer, Length, scan, scan_scratch};

trait Number: Count + Default + PartialEq + std::fmt::Debug {
    const TYPE: Integer;
    fn of(x: u64) -> Self;
}
macro_rules! numbers {
    ($($T:ty: $V:ident),*) => {$(
        impl Number for $T {
            const TYPE: Integer = Integer::$V;
            fn of(x: u64) -> Self {
                x as Self
            }
        }
    )*};
}
numbers!(i32: I32, u32: U32, i64: I64);

/// The sums, and the bits that were raised; the true number may be one that only the device knows.
fn sums<A: Number, B: Number>(kind: Scan, counts: &[A], n: Option<i64>) -> (Vec<B>, u32) {
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
            let (from, to) = ((A::TYPE, counts.address()), (B::TYPE, sums.address()));
            scan(queue, kind, from, to, n, status.status(), room.scratch())
        },
        |(_, _, sums, status, _)| (sums.read(), status.bits()),
    )
}

fn like_the_cpu<T: Number>(n: usize) {
    let counts: Vec<T> = mixed(n).map(|x| T::of(x % 1000)).collect();
    for kind in [Scan::Exclusive, Scan::Inclusive] {
        let mut expected = vec![T::default(); n + usize::from(kind == Scan::Exclusive)];
        madelung_cpu::scan(&madelung_cpu::context(), kind, &counts, &mut expected).unwrap();
        assert_eq!(sums::<T, T>(kind, &counts, None), (expected, 0), "{n} {kind:?}");
    }
}

#[test]
fn sums_are_those_of_the_cpu() {
    for n in [0, 1, 31, 32, 33, 255, 256, 257, 1000, 2048, 2049] {
        like_the_cpu::<i32>(n);
        like_the_cpu::<i64>(n);
    }
    for n in [0, 33, 5000] {
        like_the_cpu::<u32>(n);
    }
    like_the_cpu::<i32>(100_000);
}

#[test]
fn offsets_outgrow_their_counts() {
    let counts = vec![i32::MAX; 5000];
    let (sums, bits) = sums::<i32, i64>(Scan::Exclusive, &counts, None);
    assert!(sums.iter().enumerate().all(|(n, sum)| *sum == n as i64 * i64::from(i32::MAX)));
    assert_eq!(bits, 0);
}

#[test]
fn sums_that_do_not_fit_are_raised() {
    fn bits<T: Number>(counts: &[T]) -> u32 {
        let [a, b] = [Scan::Exclusive, Scan::Inclusive].map(|kind| sums::<T, T>(kind, counts, None).1);
        assert_eq!(a, b);
        a
    }
    let overflow = Reason::Overflow.bit();
    assert_eq!(bits(&[i32::MAX - 5, 3, 2]), 0);
    assert_eq!(bits(&[i32::MAX - 5, 3, 3]), overflow);
    assert_eq!(bits(&[u32::MAX - 1, 1]), 0);
    assert_eq!(bits(&[u32::MAX - 1, 1, 1]), overflow);
    assert_eq!(bits(&[i64::MAX - 1, 1]), 0);
    assert_eq!(bits(&[i64::MAX - 1, 1, 1]), overflow);
    // In unsigned arithmetic the sum would wrap around to its start.
    assert_eq!(bits(&vec![i64::MAX; 4099]), overflow);
    let mut counts = vec![1; 3000];
    counts[2999] = -1;
    assert_eq!(bits(&counts), overflow);
    assert_eq!(bits(&[5i64, -1, 3]), overflow);
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
    refusing(|queue| {
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
