use crate::device::{Buffer, StatusWord, alone, same_each_time, scratch};
use crate::primitives::{Number, Type, mixed};
use crate::refused;
use madelung_cuda::primitives::{Integer, Key, Length, segment_bounds, sort_by_key, sort_scratch};

fn key<K: Number>() -> Key {
    if K::TYPE == Type::U64 { Key::U64 } else { Key::U32 }
}

/// The true number may be one that only the device knows.
pub(crate) fn sorted<K: Number>(
    keys: &[K],
    bits: usize,
    payload: &[u32],
    n: Option<usize>,
) -> (Vec<K>, Vec<u32>) {
    same_each_time(
        || {
            let room = scratch(sort_scratch(key::<K>(), keys.len()));
            (Buffer::of(&[n.unwrap_or(0) as i32]), Buffer::of(keys), Buffer::of(payload), room)
        },
        |queue, (count, keys, payload, room)| {
            let length = match n {
                Some(_) => Length::on_device(keys.len(), (Integer::I32, count.address()))?,
                None => Length::new(keys.len()),
            };
            let (keys, payload) = (keys.address(), payload.address());
            sort_by_key(queue, key::<K>(), keys, payload, length, bits, room.scratch())
        },
        |(_, keys, payload, _)| (keys.read(), payload.read()),
    )
}

#[test]
fn only_true_keys_are_sorted() {
    let keys: Vec<u32> = mixed(9000).map(|x| (x % 5000) as u32).collect();
    for (capacity, count) in [(100, 40), (9000, 0), (9000, 4097), (9000, 8999)] {
        let mut expected = keys[..count].to_vec();
        expected.sort_unstable();
        assert_eq!(sorted(&keys[..capacity], 13, &vec![0; capacity], Some(count)).0[..count], expected);
    }
}

pub(crate) fn bounds<K: Number, O: Copy + Default + PartialEq + std::fmt::Debug>(
    keys: &[K],
    integer: Integer,
    segments: usize,
) -> (Vec<O>, u32) {
    same_each_time(
        || (Buffer::of(keys), Buffer::of(&vec![O::default(); segments + 1]), StatusWord::new()),
        |queue, (keys, offsets, status)| {
            let (n, to) = (Length::new(keys.len()), (integer, offsets.address()));
            segment_bounds(queue, key::<K>(), keys.address(), n, to, segments, status.status())
        },
        |(_, offsets, status)| (offsets.read(), status.bits()),
    )
}

#[test]
fn what_does_not_fit_is_refused() {
    alone(|queue| {
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
