//! A stable radix sort, one byte at a time from the lowest, and the segments of sorted keys.
#![expect(unsafe_code, reason = "disjoint parts of one slice go to several threads")]

use crate::scan::check_len;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::backend::pool::{Pool, map_tasks};
use madelung_core::{Error, Result};

/// Unsigned key of a sort.
pub trait Key: Copy + Ord + Send + Sync + std::fmt::Display + 'static {
    /// The size in bytes.
    const BYTES: usize;
    /// The key as a u64.
    fn wide(self) -> u64;
    /// Room for `n` of them.
    fn room(context: &Context<'_>, n: usize) -> Result<Array>;
    /// The keys in it.
    fn keys(room: &mut Array) -> &mut [Self];
}

impl Key for u32 {
    const BYTES: usize = 4;

    fn wide(self) -> u64 {
        self.into()
    }

    fn room(context: &Context<'_>, n: usize) -> Result<Array> {
        context.allocator.room(DType::I32, &[n])
    }

    fn keys(room: &mut Array) -> &mut [Self] {
        let Array::I32(a) = room else { unreachable!("made above") };
        // SAFETY: i32 and u32 have the same size and alignment, and any bits are one of either.
        unsafe { std::slice::from_raw_parts_mut(a.as_mut_ptr().cast(), a.len()) }
    }
}

impl Key for u64 {
    const BYTES: usize = 8;

    fn wide(self) -> u64 {
        self
    }

    fn room(context: &Context<'_>, n: usize) -> Result<Array> {
        context.allocator.room(DType::F64, &[n])
    }

    fn keys(room: &mut Array) -> &mut [Self] {
        let Array::F64(a) = room else { unreachable!("made above") };
        const { assert!(align_of::<u64>() <= align_of::<f64>()) };
        // SAFETY: f64 and u64 have the same size, the alignment fits, and any bits are one of either.
        unsafe { std::slice::from_raw_parts_mut(a.as_mut_ptr().cast(), a.len()) }
    }
}

/// Keys per block: a block's counts of 256 digits must cost little beside it.
const BLOCK: usize = 1 << 14;

/// Sorts `keys`, and `payload` with them; equal keys keep their order.
///
/// # Errors
/// `payload`, where it has another length than `keys`.
pub fn sort_by_key<K: Key>(context: &Context<'_>, keys: &mut [K], payload: &mut [u32]) -> Result<()> {
    check_len("payload", keys.len(), payload.len())?;
    // A pass over the keys is about 3 ns for each, and there are half as many as the key has bytes, or more.
    let pool = &context.threads_for(keys.len() * 6);
    let mut spare_keys = K::room(context, keys.len())?;
    let mut spare_payload = u32::room(context, keys.len())?;
    radix(pool, keys, payload, K::keys(&mut spare_keys), u32::keys(&mut spare_payload));
    context.allocator.recycle(spare_keys);
    context.allocator.recycle(spare_payload);
    Ok(())
}

/// An output that tasks share, each at elements of its own.
struct Shared<T>(*mut T);
// SAFETY: see `pass`: no two tasks write to one place, and none reads meanwhile.
unsafe impl<T: Send> Sync for Shared<T> {}

fn radix<K: Key>(
    pool: &dyn Pool,
    keys: &mut [K],
    payload: &mut [u32],
    spare_keys: &mut [K],
    spare_payload: &mut [u32],
) {
    let n = keys.len();
    // A stable order is one order, however many blocks there are.
    let blocks = n.div_ceil(BLOCK).min(4 * pool.threads());
    let block = |b: usize| n * b / blocks..n * (b + 1) / blocks;
    let Some(first) = keys.first().map(|k| k.wide()) else { return };
    let keys_now = &*keys;
    let differing =
        map_tasks(pool, blocks, |b| keys_now[block(b)].iter().fold(0, |bits, k| bits | (k.wide() ^ first)));
    let differing = differing.iter().fold(0, |a, b| a | b);
    let (mut from, mut to) = ((keys, payload), (spare_keys, spare_payload));
    let mut swapped = false;
    for byte in 0..K::BYTES {
        // A byte in which no two keys differ moves nothing.
        if differing >> (8 * byte) & 255 != 0 {
            pass(pool, 8 * byte, blocks, &block, (&*from.0, &*from.1), (&mut *to.0, &mut *to.1));
            std::mem::swap(&mut from, &mut to);
            swapped = !swapped;
        }
    }
    if swapped {
        to.0.copy_from_slice(from.0);
        to.1.copy_from_slice(from.1);
    }
}

fn pass<K: Key>(
    pool: &dyn Pool,
    shift: usize,
    blocks: usize,
    block: &(impl Fn(usize) -> std::ops::Range<usize> + Sync),
    from: (&[K], &[u32]),
    to: (&mut [K], &mut [u32]),
) {
    assert!(to.0.len() == from.0.len() && to.1.len() == from.0.len() && from.1.len() == from.0.len());
    let digit = |k: K| (k.wide() >> shift & 255) as usize;
    let mut places = map_tasks(pool, blocks, |b| {
        let mut counts = [0usize; 256];
        for k in &from.0[block(b)] {
            counts[digit(*k)] += 1;
        }
        counts
    });
    // Digit by digit, and block by block within a digit.
    let mut at = 0;
    for d in 0..256 {
        for counts in &mut places {
            at += std::mem::replace(&mut counts[d], at);
        }
    }
    let (keys, payload) = (Shared(to.0.as_mut_ptr()), Shared(to.1.as_mut_ptr()));
    pool.run(blocks, &|b| {
        let (keys, payload) = (&keys, &payload);
        let mut places = places[b];
        for (k, p) in from.0[block(b)].iter().zip(&from.1[block(b)]) {
            let place = &mut places[digit(*k)];
            // SAFETY: the places of a block's digit begin after all keys of lower digits and after those of this digit
            // in earlier blocks, and there are as many as the block has such keys: every key has its own place, below
            // the number of keys.
            unsafe {
                keys.0.add(*place).write(*k);
                payload.0.add(*place).write(*p);
            }
            *place += 1;
        }
    });
}

/// First key of each of `offsets.len() − 1` segments among sorted keys: `offsets[s]` is the number of keys below s, so
/// segment s has the keys equal to s.
///
/// # Errors
/// `keys`, where they are not sorted, one is not below the number of segments, or there are more than an i32 counts;
/// `offsets`, where it is empty.
pub fn segment_bounds<K: Key>(keys: &[K], offsets: &mut [i32]) -> Result<()> {
    if offsets.is_empty() {
        return Err(Error::argument("offsets", "one more than there are segments", "none"));
    }
    if i32::try_from(keys.len()).is_err() {
        return Err(Error::argument("keys", format!("at most {} rows", i32::MAX), keys.len().to_string()));
    }
    let segments = offsets.len() - 1;
    if let Some(at) = keys.windows(2).position(|w| w[0] > w[1]) {
        let got = format!("{} and then {} at {}", keys[at], keys[at + 1], at + 1);
        return Err(Error::argument("keys", "sorted keys", got));
    }
    if let Some(last) = keys.last().filter(|k| k.wide() >= segments as u64) {
        return Err(Error::argument("keys", format!("keys below {segments}"), last.to_string()));
    }
    let mut at = 0;
    for (s, offset) in offsets.iter_mut().enumerate() {
        while at < keys.len() && keys[at].wide() < s as u64 {
            at += 1;
        }
        // The number of keys fits an i32, as checked above.
        *offset = at as i32;
    }
    Ok(())
}
