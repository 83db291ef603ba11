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
    /// Of a list. A counting sort: linear in the pairs.
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

    /// Whether it is that of a list: every pair once, under its column, in the list's order.
    fn is_of(&self, list: &PairList<'_>) -> bool {
        let column = |j: usize| {
            let mut last = -1;
            (self.starts[j] as usize..self.starts[j + 1] as usize).all(|k| {
                let (row, entry) = (self.rows[k], self.entries[k]);
                let later = entry > std::mem::replace(&mut last, entry);
                later
                    && (row as usize) < list.rows()
                    && list.range(row as usize).contains(&(entry as usize))
                    && list.others()[entry as usize] as usize == j
            })
        };
        self.starts.len() == list.columns() + 1
            && self.rows.len() == list.len()
            && (0..list.columns()).all(column)
    }

    /// Where the pairs of each column begin, and one more: shape (columns + 1,).
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// The row of each pair, shape (P,).
    pub fn rows(&self) -> &[i32] {
        &self.rows
    }

    /// Where each pair stands in the list, shape (P,).
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

    /// The list with a transpose that was made before, of this list or of an equal one.
    ///
    /// # Errors
    /// `transpose`, where it is that of another list, or of this one before it changed.
    pub fn with_transpose(mut self, transpose: Arc<Transpose>) -> Result<Self> {
        if !transpose.is_of(&self) {
            let got = format!(
                "one of {} pairs and {} columns, which is not this list's (or was, before it changed)",
                transpose.rows.len(),
                transpose.starts.len() - 1
            );
            let expected =
                format!("the transpose of this list of {} pairs and {} columns", self.len(), self.columns());
            return Err(Error::argument("transpose", expected, got));
        }
        self.transpose = transpose.into();
        Ok(self)
    }
}
