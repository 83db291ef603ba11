//! The transpose of a list: the pairs of each column.

use super::PairList;
use crate::array::Buffer;
use crate::{Error, Result};
use std::sync::Arc;

/// The pairs of each column of a list, ordered by row and then as they stand in the list: pairs of column j are
/// `starts()[j]..starts()[j + 1]` of the arrays `rows()` (the row i of the pair) and `entries()` (where it stands in the
/// list). Gradients that rows give to columns are gathered through it, in this order, whatever the number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    starts: Buffer<i64>,
    rows: Buffer<i32>,
    entries: Buffer<i32>,
}

impl Transpose {
    /// The transpose of a list. A counting sort: linear in the pairs.
    ///
    /// # Errors
    /// `neighbor_list`, where it has more entries than an i32 can number.
    pub fn new(list: &PairList<'_>) -> Result<Self> {
        if list.others().len() > i32::MAX as usize {
            let expected = format!("at most {} entries in a list that is transposed", i32::MAX);
            return Err(Error::argument("neighbor_list", expected, list.others().len().to_string()));
        }
        let mut starts = Buffer::<i64>::zeros(list.columns() + 1);
        for i in 0..list.rows() {
            for &j in list.row(i).0 {
                starts[j as usize + 1] += 1;
            }
        }
        for j in 0..list.columns() {
            starts[j + 1] += starts[j];
        }
        let mut next = starts.clone();
        // All of them are written: the columns hold as many.
        let [(mut rows, _), (mut entries, _)] = [(); 2].map(|()| Buffer::room(list.len()));
        for i in 0..list.rows() {
            for p in list.range(i) {
                let next = &mut next[list.others()[p] as usize];
                (rows[*next as usize], entries[*next as usize]) = (i as i32, p as i32);
                *next += 1;
            }
        }
        Ok(Self { starts, rows, entries })
    }

    /// Offsets of the columns, shape (columns + 1,).
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// The row of each pair, shape (P,).
    pub fn rows(&self) -> &[i32] {
        &self.rows
    }

    /// The place of each pair in the list, shape (P,).
    pub fn entries(&self) -> &[i32] {
        &self.entries
    }
}

impl<'a> PairList<'a> {
    /// The list's transpose, made when it is first asked for.
    ///
    /// # Errors
    /// As [`Transpose::new`].
    pub fn transpose(&self) -> Result<&Arc<Transpose>> {
        if let Some(t) = self.transpose.get() {
            return Ok(t);
        }
        let made = Arc::new(Transpose::new(self)?);
        Ok(self.transpose.get_or_init(|| made))
    }
}
