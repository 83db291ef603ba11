//! Sums of everything before.

use super::{Arguments, Compiled, Integer, Length, Queue, Scratch, Status, Text};
use madelung_core::backend::Scan;
use madelung_core::{Error, Result};

const SCAN: Text =
    Text::new("scan", &[include_str!("common.cuh"), include_str!("scans.cuh"), include_str!("scan.cu")]);

/// Numbers that a block takes at a time: TILE in scan.cu.
const TILE: usize = 2048;
/// More blocks would be busy with each other's sums.
const BLOCKS: usize = 1024;

/// The types of numbers and of their sums.
const TYPES: [(Integer, Integer); 4] = [
    (Integer::I32, Integer::I32),
    (Integer::U32, Integer::U32),
    (Integer::I64, Integer::I64),
    (Integer::I32, Integer::I64),
];

fn each_block(n: usize) -> usize {
    n.div_ceil(TILE).div_ceil(BLOCKS).max(1) * TILE
}

/// The bytes of scratch for a scan of up to `n` numbers.
pub fn scan_scratch(n: usize) -> usize {
    n.div_ceil(each_block(n)) * size_of::<u64>()
}

/// Sums of the `n` numbers before each one (n + 1 of them, the last the sum of all), or up to each one (n), in the type
/// of the numbers, or in i64 for i32. Where both types are one, `sums` may be `counts`. A negative number, or a sum
/// that does not fit its type, raises the status word ([`Reason::Overflow`]), and sums are then without meaning.
///
/// # Errors
/// `sums`, where it is of another type; `scratch`, where it is smaller than [`scan_scratch`]; those of the driver.
///
/// [`Reason::Overflow`]: madelung_core::backend::status::Reason::Overflow
pub fn scan(
    queue: &Queue,
    scan: Scan,
    counts: (Integer, u64),
    sums: (Integer, u64),
    n: Length,
    status: Status,
    scratch: Scratch,
) -> Result<()> {
    if !TYPES.contains(&(counts.0, sums.0)) {
        return Err(Error::argument("sums", format!("sums of {}", counts.0.name()), sums.0.name()));
    }
    scratch.check(scan_scratch(n.capacity))?;
    let each_block = each_block(n.capacity);
    let blocks = n.capacity.div_ceil(each_block).max(1);
    let program = program(counts.0, sums.0);
    if blocks > 1 {
        let arguments =
            Arguments::new().word(counts.1).length(n).word(each_block as u64).word(scratch.address);
        program.launch(queue, "scan_totals", blocks, arguments)?;
    }
    let arguments = Arguments::new()
        .word(counts.1)
        .word(sums.1)
        .length(n)
        .word(each_block as u64)
        .word(scratch.address)
        .word(u64::from(scan == Scan::Exclusive))
        .word(sums.0.largest())
        .status(status);
    program.launch(queue, "scan", blocks, arguments)
}

fn program(counts: Integer, sums: Integer) -> Compiled {
    SCAN.of(&[("COUNT", counts.name()), ("SUM", sums.name())])
}

pub(crate) fn programs() -> Vec<Compiled> {
    TYPES.iter().map(|(counts, sums)| program(*counts, *sums).with(&["scan_totals", "scan"])).collect()
}
