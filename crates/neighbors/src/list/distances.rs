//! Lengths and vectors of the pairs of a list.

use madelung_core::array::View;
use madelung_core::backend::pool::{Pool, split_tasks};
use madelung_core::structure::{Batch, PairList};
use madelung_core::{Error, Result};

use super::coordinate::Coordinate;
use crate::lattice::{displacement, squared};

/// Rows of a list per task.
const ROWS_PER_TASK: usize = 1024;

/// Distances (P,) and vectors r_ij = r_j − r_i + S · cell (P, 3) of the entries of `pairs`, in the order of its flat
/// arrays; padding gets zeros. `positions` (N, 3) are those of rows and columns alike, `cell` is as for
/// [`neighbor_list`](crate::neighbor_list), and so is the unit of length.
///
/// # Errors
/// `positions` or `neighbor_list`, where atoms, rows and columns are not equally many; `cell`, where there is neither
/// one for all systems nor one for each, or none and the list has shifts.
pub fn distances<T: Coordinate>(
    positions: &[[T; 3]],
    cell: Option<&[[[f64; 3]; 3]]>,
    batch: &Batch<'_>,
    pairs: &PairList<'_>,
    pool: &dyn Pool,
) -> Result<(Vec<T>, Vec<[T; 3]>)> {
    for (name, count) in
        [("positions", positions.len()), ("neighbor_list", pairs.rows()), ("neighbor_list", pairs.columns())]
    {
        if count != batch.atoms() {
            let expected = format!("{} rows, as the batch has atoms", batch.atoms());
            return Err(Error::argument(name, expected, format!("{count} rows")));
        }
    }
    let cells = cell.unwrap_or(&[[[0.0; 3]; 3]]);
    if cells.len() != 1 && cells.len() != batch.systems() {
        let expected = format!("one for all systems, or one for each of the {}", batch.systems());
        return Err(Error::argument("cell", expected, cells.len().to_string()));
    }
    if cells.iter().flatten().flatten().any(|x| !x.is_finite()) {
        return Err(Error::argument("cell", "finite lattice vectors", "one that is not"));
    }
    if cell.is_none() && pairs.iter().any(|(_, _, s)| s != [0; 3]) {
        return Err(Error::argument(
            "cell",
            "the cell that the list was built with",
            "no cell, but pairs with shifts",
        ));
    }
    let rows = pairs.rows();
    let borders: Vec<usize> =
        (0..=rows.div_ceil(ROWS_PER_TASK)).map(|t| (t * ROWS_PER_TASK).min(rows)).collect();
    let starts = pairs.starts();
    // A task's part of the arrays reaches up to the next task's first row, padding in between included.
    let first = |task: usize| starts.get(borders[task]).map_or(pairs.others().len(), |&start| start as usize);
    let ends: Vec<usize> = (1..borders.len()).map(first).collect();
    let mut vectors = vec![[T::default(); 3]; pairs.others().len()];
    let mut lengths = vec![T::default(); pairs.others().len()];
    let measure = |task: usize, write: &mut dyn FnMut(usize, ([T; 3], T))| {
        for i in borders[task]..borders[task + 1] {
            let cell = if cells.len() == 1 { &cells[0] } else { &cells[batch.of(i)] };
            let (others, shifts) = pairs.row(i);
            for ((p, &j), s) in pairs.range(i).zip(others).zip(shifts) {
                write(p - first(task), T::between(cell, positions[i], positions[j as usize], s));
            }
        }
    };
    split_tasks(pool, &mut vectors, &ends, |task, out| measure(task, &mut |p, (vector, _)| out[p] = vector));
    split_tasks(pool, &mut lengths, &ends, |task, out| {
        measure(task, &mut |p, (_, length)| out[p] = length);
    });
    Ok((lengths, vectors))
}

/// The first pair (i, j, S) of a list whose points coincide, of those that count, by their entry and both points, if there is
/// one. `positions` (N, 3) and `cell` (B, 3, 3) are arrays of the host.
pub(crate) fn coincident_pair(
    positions: &View<'_>,
    cell: &View<'_>,
    batch: &Batch<'_>,
    pairs: &PairList<'_>,
    counts: impl Fn(usize, usize, usize) -> bool,
) -> Option<(usize, usize, [i32; 3])> {
    let (r, h) = (positions.to_f64().ok()?, cell.to_f64().ok()?);
    let at = |i: usize| [r[3 * i], r[3 * i + 1], r[3 * i + 2]];
    (0..pairs.rows()).find_map(|i| {
        let h = &h[9 * batch.of(i)..][..9];
        let cell = std::array::from_fn(|row| std::array::from_fn(|k| h[3 * row + k]));
        let (others, shifts) = pairs.row(i);
        pairs.range(i).zip(others.iter().zip(shifts)).find_map(|(p, (&j, shift))| {
            let j = j as usize;
            let is_one_point = squared(displacement(&cell, at(i), at(j), shift)) < 1e-60;
            (is_one_point && counts(p, i, j)).then_some((i, j, shift))
        })
    })
}
