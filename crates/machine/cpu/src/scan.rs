//! Sums of everything before.

use madelung_core::backend::pool::{map_tasks, split_tasks};
use madelung_core::backend::{Context, Scan};
use madelung_core::{Error, Result};

/// Integer that a scan adds up.
pub trait Count: Copy + Send + Sync + Into<i64> + TryFrom<i128> + std::fmt::Display + 'static {}
impl<T: Copy + Send + Sync + Into<i64> + TryFrom<i128> + std::fmt::Display + 'static> Count for T {}

/// Numbers per block; blocks are added up side by side, then each starts from the sum of those before it.
const BLOCK: usize = 1 << 15;

/// Sums of the numbers before each one (n + 1 of them, the last of all: offsets), or up to each one (n).
///
/// # Errors
/// `counts`, where a number is negative or the sum of all does not fit the type; `sums`, where it has another length.
pub fn scan<T: Count>(context: &Context<'_>, scan: Scan, counts: &[T], sums: &mut [T]) -> Result<()> {
    check_len("sums", counts.len() + usize::from(scan == Scan::Exclusive), sums.len())?;
    let pool = &context.threads_for(counts.len());
    let blocks = counts.len().div_ceil(BLOCK);
    let block = |b: usize| &counts[b * BLOCK..counts.len().min((b + 1) * BLOCK)];
    let totals = map_tasks(pool, blocks, |b| {
        let negative = block(b).iter().find(|n| (**n).into() < 0);
        negative.map_or_else(|| Ok(block(b).iter().map(|n| i128::from((*n).into())).sum::<i128>()), Err)
    });
    let mut starts = Vec::with_capacity(blocks);
    let mut sum = 0i128;
    for total in totals {
        starts.push(sum);
        sum += total.map_err(|n| Error::argument("counts", "numbers ≥ 0", n.to_string()))?;
    }
    let Ok(last) = T::try_from(sum) else {
        let expected = format!("a sum that fits in {} bits", 8 * size_of::<T>());
        return Err(Error::argument("counts", expected, sum.to_string()));
    };
    if let (Scan::Exclusive, Some(end)) = (scan, sums.last_mut()) {
        *end = last;
    }
    let ends: Vec<usize> = (1..=blocks).map(|b| counts.len().min(b * BLOCK)).collect();
    split_tasks(pool, sums, &ends, |b, sums| {
        // No sum is larger than the last one, which fits.
        let fit = |sum: i128| T::try_from(sum).unwrap_or(last);
        let mut sum = starts[b];
        for (out, n) in sums.iter_mut().zip(block(b)) {
            let before = sum;
            sum += i128::from((*n).into());
            *out = fit(if scan == Scan::Exclusive { before } else { sum });
        }
    });
    Ok(())
}

pub(crate) fn check_len(name: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::argument(name, format!("{expected} elements"), got.to_string()))
}
