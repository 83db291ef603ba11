//! The transpose of a pair list: the pairs of each column.

use super::sort::{Key, segment_bounds, sort_by_key, sort_scratch};
use super::{Arguments, Compiled, Integer, Length, Queue, Scratch, Status, Text, room, tiles};
use madelung_core::{Error, Result};

const TRANSPOSE: Text = Text::new("transpose", &[include_str!("common.cuh"), include_str!("transpose.cu")]);

/// A pair list on the device: entries `starts[i]..ends[i]` are those of row i. The ranges rise and never overlap.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The start of each row's entries, i64.
    pub starts: u64,
    /// The end of each row's entries, i64.
    pub ends: u64,
    /// The number of rows.
    pub rows: usize,
    /// The column of each entry, i32.
    pub others: u64,
    /// The number of columns.
    pub columns: usize,
    /// The number of entries, including those that belong to no row.
    pub entries: Length,
}

/// The arrays of a list's transpose: see [`madelung_core::structure::pairs::Transpose`].
#[derive(Clone, Copy, Debug)]
pub struct Transposed {
    /// The offsets of each column's pairs: columns + 1 numbers, i64.
    pub starts: u64,
    /// The row of each pair, i32.
    pub rows: u64,
    /// The entry of each pair, i32.
    pub entries: u64,
    /// The number of pairs that `rows` and `entries` have room for.
    pub capacity: usize,
}

/// The bytes of scratch for a list of up to `entries` entries.
pub fn transpose_scratch(entries: usize) -> usize {
    3 * room(entries * 4) + sort_scratch(Key::U32, entries)
}

/// The transpose of a list: pairs by column, those of a column in the order of their entries. `rows` and `entries` are
/// written up to the number of pairs, `starts[columns]`, or their capacity. A column that is out of range raises the
/// status word ([`Reason::Index`]), and its entry is left out.
///
/// # Errors
/// `entries`, where there is room for more than an i32 numbers; `rows` and `columns`, where there are more; `scratch`,
/// where it is smaller than [`transpose_scratch`]; those of the driver.
///
/// [`Reason::Index`]: madelung_core::backend::status::Reason::Index
pub fn transpose(queue: &Queue, list: List, to: Transposed, status: Status, scratch: Scratch) -> Result<()> {
    let n = list.entries.capacity;
    for (name, size) in [("entries", n), ("rows", list.rows), ("columns", list.columns)] {
        if size > i32::MAX as usize {
            return Err(Error::argument(name, format!("at most {}", i32::MAX), size.to_string()));
        }
    }
    scratch.check(transpose_scratch(n))?;
    let part = |k: usize| scratch.address + (k * room(n * 4)) as u64;
    let [keys, numbers, row_of, rest] = [part(0), part(1), part(2), part(3)];
    let rest = Scratch { address: rest, bytes: scratch.bytes - 3 * room(n * 4) };
    let program = TRANSPOSE.of(&[]);
    let arguments = Arguments::new()
        .word(list.starts)
        .word(list.ends)
        .word(list.rows as u64)
        .word(list.others)
        .word(list.columns as u64)
        .length(list.entries)
        .word(keys)
        .word(numbers)
        .word(row_of)
        .status(status);
    program.launch(queue, "transpose_keys", tiles(n), arguments)?;
    // Entries of no row have a key behind the last column.
    let bits = (usize::BITS - list.columns.leading_zeros()) as usize;
    sort_by_key(queue, Key::U32, keys, numbers, list.entries, bits, rest)?;
    let starts = (Integer::I64, to.starts);
    segment_bounds(queue, Key::U32, keys, list.entries, starts, list.columns, Status::IGNORED)?;
    let arguments = Arguments::new()
        .word(to.starts + 8 * list.columns as u64)
        .word(to.capacity as u64)
        .word(numbers)
        .word(row_of)
        .word(to.rows)
        .word(to.entries);
    program.launch(queue, "transpose_rows", tiles(n.min(to.capacity)), arguments)
}

pub(crate) fn programs() -> Vec<Compiled> {
    vec![TRANSPOSE.of(&[]).with(&["transpose_keys", "transpose_rows"])]
}
