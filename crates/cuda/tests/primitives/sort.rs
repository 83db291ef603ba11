use crate::device::{Buffer, StatusWord, refusing, same_each_time, scratch};
use crate::{mixed, refused};
use madelung_core::runtime::Reason;
use madelung_cuda::primitives::{Integer, Key, Length, segment_bounds, sort_by_key, sort_scratch};

trait Number: madelung_cpu::Key + Ord + Default + std::fmt::Debug {
    const TYPE: Key;
    fn of(x: u64) -> Self;
}
impl Number for u32 {
    const TYPE: Key = Key::U32;
    fn of(x: u64) -> Self {
        x as Self
    }
}
impl Number for u64 {
    const TYPE: Key = Key::U64;
    fn of(x: u64) -> Self {
        x
    }
}

/// The true number may be one that only the device knows.
fn sorted<K: Number>(keys: &[K], bits: usize, n: Option<usize>) -> (Vec<K>, Vec<u32>) {
    let payload: Vec<u32> = (0..keys.len() as u32).map(|n| n.wrapping_mul(7)).collect();
    same_each_time(
        || {
            let room = scratch(sort_scratch(K::TYPE, keys.len()));
            (Buffer::of(&[n.unwrap_or(0) as i32]), Buffer::of(keys), Buffer::of(&payload), room)
        },
        |queue, (count, keys, payload, room)| {
            let length = match n {
                Some(_) => Length::on_device(keys.len(), (Integer::I32, count.address()))?,
                None => Length::new(keys.len()),
            };
            let (keys, payload) = (keys.address(), payload.address());
            sort_by_key(queue, K::TYPE, keys, payload, length, bits, room.scratch())
        },
        |(_, keys, payload, _)| (keys.read(), payload.read()),
    )
}

/// Keys of so many bits, of which some are equal.
fn like_a_stable_sort<K: Number>(n: usize, bits: usize) {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let keys: Vec<K> = mixed(n).map(|x| K::of(if x % 3 == 0 { mask } else { (x >> 7) & mask })).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|i| keys[*i]);
    let expected = order.iter().map(|i| (keys[*i], (*i as u32).wrapping_mul(7))).unzip();
    assert_eq!(sorted(&keys, bits, None), expected, "{n} keys of {bits} bits");
}

#[test]
fn sorts_are_stable() {
    for n in [0, 1, 31, 32, 33, 255, 256, 257, 1000, 2048, 2049, 4096, 4097] {
        like_a_stable_sort::<u32>(n, 11);
    }
    for (n, bits) in [(300, 0), (300, 1), (300, 32), (9000, 8), (9000, 32), (100_000, 9)] {
        like_a_stable_sort::<u32>(n, bits);
    }
    for (n, bits) in [(0, 64), (257, 64), (2048, 40), (2049, 40), (5000, 64)] {
        like_a_stable_sort::<u64>(n, bits);
    }
}

#[test]
fn only_true_keys_are_sorted() {
    let keys: Vec<u32> = mixed(9000).map(|x| (x % 5000) as u32).collect();
    for (capacity, count) in [(100, 40), (9000, 0), (9000, 4097), (9000, 8999)] {
        let mut expected = keys[..count].to_vec();
        expected.sort_unstable();
        assert_eq!(sorted(&keys[..capacity], 13, Some(count)).0[..count], expected);
    }
}

fn bounds<K: Number, O: Copy + Default + PartialEq + std::fmt::Debug>(
    keys: &[K],
    integer: Integer,
    segments: usize,
) -> (Vec<O>, u32) {
    same_each_time(
        || (Buffer::of(keys), Buffer::of(&vec![O::default(); segments + 1]), StatusWord::new()),
        |queue, (keys, offsets, status)| {
            let (n, to) = (Length::new(keys.len()), (integer, offsets.address()));
            segment_bounds(queue, K::TYPE, keys.address(), n, to, segments, status.status())
        },
        |(_, offsets, status)| (offsets.read(), status.bits()),
    )
}

#[test]
fn bounds_are_those_of_the_cpu() {
    fn check<K: Number>(n: usize, segments: usize) {
        let mut keys: Vec<K> = mixed(n).map(|x| K::of(x % segments as u64 / 2 * 2)).collect();
        keys.sort_unstable();
        let mut expected = vec![0; segments + 1];
        madelung_cpu::segment_bounds(&keys, &mut expected).unwrap();
        let wide: Vec<i64> = expected.iter().map(|x| i64::from(*x)).collect();
        assert_eq!(bounds(&keys, Integer::I32, segments), (expected, 0));
        assert_eq!(bounds(&keys, Integer::I64, segments), (wide, 0));
    }
    for n in [1, 33, 257, 1000] {
        check::<u32>(n, 3);
        check::<u64>(n, 700);
    }
    check::<u32>(0, 5);
    assert_eq!(bounds::<u32, i32>(&[], Integer::I32, 0), (vec![0], 0));
    let falling: [u32; 3] = [0, 2, 1];
    assert_eq!(bounds::<_, i32>(&falling, Integer::I32, 3).1, Reason::Index.bit());
    assert_eq!(bounds::<_, i32>(&[0u64, 1, 3], Integer::I32, 3).1, Reason::Index.bit());
}

#[test]
fn what_does_not_fit_is_refused() {
    refusing(|queue| {
        let none = scratch(0);
        let sort = |n, bits| sort_by_key(queue, Key::U32, 0, 0, Length::new(n), bits, none.scratch());
        refused(sort(5000, 8), "scratch");
        refused(sort(5, 33), "bits");
        refused(sort((1 << 31) + 1, 8), "keys");
        let bounds = |n, integer| {
            let status = StatusWord::new();
            segment_bounds(queue, Key::U32, 0, Length::new(n), (integer, 0), 4, status.status())
        };
        refused(bounds(1 << 31, Integer::I32), "keys");
        refused(bounds(1, Integer::U32), "offsets");
    });
}
