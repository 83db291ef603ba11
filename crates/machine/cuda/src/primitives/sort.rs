//! A stable sort of keys with a payload, and the segments of sorted keys.

use super::{Arguments, Compiled, Integer, Length, Queue, Scratch, Status, THREADS, Text, room};
use madelung_core::{Error, Result};

const SORT: Text =
    Text::new("sort", &[include_str!("common.cuh"), include_str!("scans.cuh"), include_str!("sort.cu")]);
const BOUNDS: Text = Text::new("bounds", &[include_str!("common.cuh"), include_str!("bounds.cu")]);

/// Digits of eight bits.
const DIGITS: usize = 256;
/// Each block has its own count of every digit.
const BLOCKS: usize = 1024;

/// The type of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// u32
    U32,
    /// u64
    U64,
}

impl Key {
    fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::U64 => "u64",
        }
    }

    fn size(self) -> usize {
        match self {
            Self::U32 => 4,
            Self::U64 => 8,
        }
    }

    /// Keys that a block takes at a time: TILE in sort.cu.
    fn tile(self) -> usize {
        THREADS * 64 / self.size()
    }

    fn each_block(self, n: usize) -> usize {
        n.div_ceil(self.tile()).div_ceil(BLOCKS).max(1) * self.tile()
    }
}

/// The parts of the scratch: offsets of keys, payload, counts, totals, and the end.
fn parts(key: Key, n: usize) -> [usize; 4] {
    let blocks = n.div_ceil(key.each_block(n));
    let payload = room(n * key.size());
    let counts = payload + room(n * 4);
    let totals = counts + room(DIGITS * blocks * 4);
    [payload, counts, totals, totals + DIGITS * 4]
}

/// The bytes of scratch for a sort of up to `n` keys.
pub fn sort_scratch(key: Key, n: usize) -> usize {
    if n <= key.tile() { 0 } else { parts(key, n)[3] }
}

/// Sorts `n` keys by their lowest `bits` bits, and a payload of as many u32 with them; equal keys keep their order.
/// Higher bits are zero. Where the true number is less than the capacity, elements behind it are lost.
///
/// # Errors
/// `keys`, where there is room for more than 2³¹; `bits`, where a key has less; `scratch`, where it is smaller than
/// [`sort_scratch`]; those of the driver.
pub fn sort_by_key(
    queue: &Queue,
    key: Key,
    keys: u64,
    payload: u64,
    n: Length,
    bits: usize,
    scratch: Scratch,
) -> Result<()> {
    if n.capacity > 1 << 31 {
        return Err(Error::argument("keys", "at most 2^31", n.capacity.to_string()));
    }
    if bits > 8 * key.size() {
        return Err(Error::argument("bits", format!("at most {}", 8 * key.size()), bits.to_string()));
    }
    scratch.check(sort_scratch(key, n.capacity))?;
    let program = program(key);
    if n.capacity <= key.tile() {
        if n.capacity < 2 || bits == 0 {
            return Ok(());
        }
        let arguments = Arguments::new().word(keys).word(payload).length(n).word(bits as u64);
        return program.launch(queue, "sort_tile", 1, arguments);
    }
    let [spare_payload, counts, totals, _] = parts(key, n.capacity).map(|at| scratch.address + at as u64);
    let each_block = key.each_block(n.capacity);
    let blocks = n.capacity.div_ceil(each_block);
    let (mut from, mut to) = ([keys, payload], [scratch.address, spare_payload]);
    for shift in (0..bits).step_by(8) {
        let digit = [each_block as u64, shift as u64, (bits - shift) as u64];
        let arguments = digit.iter().fold(Arguments::new().word(from[0]).length(n), |a, word| a.word(*word));
        program.launch(queue, "sort_count", blocks, arguments.word(counts))?;
        let arguments = Arguments::new().word(counts).word(blocks as u64).word(totals);
        program.launch(queue, "sort_starts", DIGITS, arguments)?;
        let places = Arguments::new().word(from[0]).word(from[1]).word(to[0]).word(to[1]).length(n);
        let arguments = digit.iter().fold(places, |a, word| a.word(*word));
        program.launch(queue, "sort_place", blocks, arguments.word(counts).word(totals))?;
        std::mem::swap(&mut from, &mut to);
    }
    if from[0] != keys {
        queue.copy(keys, from[0], n.capacity * key.size())?;
        queue.copy(payload, from[1], n.capacity * 4)?;
    }
    Ok(())
}

/// The `segments + 1` offsets of segments among `n` sorted keys, in i32 or i64: offset s is the number of keys below s.
/// A key that is below the one before it, or is no segment, raises the status word ([`Reason::Index`]).
///
/// # Errors
/// `keys`, where there is room for more than the offsets count; `offsets`, where they are u32; those of the driver.
///
/// [`Reason::Index`]: madelung_core::backend::status::Reason::Index
pub fn segment_bounds(
    queue: &Queue,
    key: Key,
    keys: u64,
    n: Length,
    offsets: (Integer, u64),
    segments: usize,
    status: Status,
) -> Result<()> {
    match offsets.0 {
        Integer::I32 if n.capacity > i32::MAX as usize => {
            return Err(Error::argument("keys", format!("at most {}", i32::MAX), n.capacity.to_string()));
        }
        Integer::U32 => return Err(Error::argument("offsets", "i32 or i64", "u32")),
        _ => {}
    }
    let arguments =
        Arguments::new().word(keys).length(n).word(offsets.1).word(segments as u64).status(status);
    let blocks = (segments + 1).max(n.capacity).div_ceil(THREADS);
    bounds(key, offsets.0).launch(queue, "bounds", blocks, arguments)
}

fn program(key: Key) -> Compiled {
    SORT.of(&[("KEY", key.name())])
}

fn bounds(key: Key, offsets: Integer) -> Compiled {
    BOUNDS.of(&[("KEY", key.name()), ("OFFSET", offsets.name())])
}

pub(crate) fn programs() -> Vec<Compiled> {
    let mut all = vec![];
    for key in [Key::U32, Key::U64] {
        all.push(program(key).with(&["sort_tile", "sort_count", "sort_starts", "sort_place"]));
        all.extend([Integer::I32, Integer::I64].map(|offsets| bounds(key, offsets).with(&["bounds"])));
    }
    all
}
