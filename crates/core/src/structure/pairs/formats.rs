//! Formats of pair lists: CSR, COO and padded matrices, full and half.

use super::{Kind, PairList, Rows, Shifts, lengths, out_of_range};
use crate::array::{Buffer, Numbers, filled, reserve};
use crate::runtime::lanes::packed::pack;
use crate::stop::caught;
use crate::{Error, Result};
use std::borrow::Cow;

/// A list as CSR: row i is entries `neighbor_ptr[i]..neighbor_ptr[i+1]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csr<'a> {
    /// Shape (N+1,).
    pub neighbor_ptr: Cow<'a, [i64]>,
    /// Column of each pair, shape (P,).
    pub others: Cow<'a, [i32]>,
    /// Image of each pair, shape (P, 3).
    pub shifts: Cow<'a, [[i32; 3]]>,
}

/// A list as COO, sorted by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coo<'a> {
    /// Row of each pair, shape (P,).
    pub i: Vec<i32>,
    /// Column of each pair, shape (P,).
    pub j: Cow<'a, [i32]>,
    /// Image of each pair, shape (P, 3).
    pub shifts: Cow<'a, [[i32; 3]]>,
}

/// A list as a padded matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Entries per row, M.
    pub width: usize,
    /// Columns of each row's pairs, then `fill_value`, shape (N, M).
    pub neighbor_matrix: Vec<i32>,
    /// Pairs of each row, shape (N,).
    pub num_neighbors: Vec<i32>,
    /// Images, zero in the padding, shape (N, M, 3).
    pub shifts: Vec<[i32; 3]>,
}

impl<'a> PairList<'a> {
    /// From the first entry of each row and the end of its entries, as [`PairList::from_search`]: rows with room behind them.
    ///
    /// # Errors
    /// As [`PairList::from_csr`].
    pub fn from_ranges(
        starts: Vec<i64>,
        ends: Vec<i64>,
        others: impl Into<Numbers<'a, i32>>,
        shifts: Shifts<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let others = others.into();
        lengths("neighbor_shifts", &others, &shifts)?;
        let (mut len, mut last, mut largest) = (0, 0, 0);
        if starts.len() != ends.len() {
            let expected = format!("an end for each of {} rows", starts.len());
            return Err(Error::argument("neighbor_ptr", expected, ends.len().to_string()));
        }
        for (row, (&start, &end)) in starts.iter().zip(&ends).enumerate() {
            let range = (last <= start && start <= end).then(|| others.get(start as usize..end as usize));
            let Some(Some(range)) = range else {
                let expected = format!("rows that rise and end within the {} entries", others.len());
                let got = format!("{start} to {end} for row {row}");
                return Err(Error::argument("neighbor_ptr", expected, got));
            };
            largest = range.iter().fold(largest, |largest, &j| largest.max(j as u32));
            (last, len) = (end, len + range.len());
        }
        if len > 0 && largest as usize >= columns {
            return Err(out_of_range(largest as i32, columns));
        }
        let list = Self::new(Rows::Padded { starts, ends }, others, shifts, columns, len, kind);
        list.check_square()?;
        Ok(list)
    }
}

impl PairList<'_> {
    /// The list as CSR; a CSR list gives its own arrays (but shifts that it keeps packed, which are copied).
    pub fn to_csr(&self) -> Csr<'_> {
        if let Rows::Ptr(ptr) = &self.ranges {
            return Csr {
                neighbor_ptr: Cow::Borrowed(ptr),
                others: Cow::Borrowed(&self.others),
                shifts: self.shifts.triples(),
            };
        }
        let mut ptr = vec![0];
        let (mut others, mut shifts) = (vec![], vec![]);
        reserve(&mut others, self.len);
        reserve(&mut shifts, self.len);
        for i in 0..self.rows() {
            let (j, s) = self.row(i);
            others.extend_from_slice(j);
            shifts.extend(s);
            ptr.push(others.len() as i64);
        }
        Csr { neighbor_ptr: ptr.into(), others: others.into(), shifts: shifts.into() }
    }

    /// The arrays of [`PairList::to_csr`], handed over rather than copied where the list owns them.
    pub fn into_csr(self) -> Csr<'static> {
        match self.ranges {
            Rows::Ptr(ptr) => Csr {
                neighbor_ptr: Cow::Owned(ptr.into_buffer().into()),
                others: Cow::Owned(self.others.into_buffer().into()),
                shifts: Cow::Owned(self.shifts.into_triples()),
            },
            Rows::Padded { .. } => {
                let Csr { neighbor_ptr, others, shifts } = self.to_csr();
                Csr {
                    neighbor_ptr: Cow::Owned(neighbor_ptr.into_owned()),
                    others: Cow::Owned(others.into_owned()),
                    shifts: Cow::Owned(shifts.into_owned()),
                }
            }
        }
    }

    /// The list as COO, sorted by row; only `i` is new where the list is CSR.
    pub fn to_coo(&self) -> Coo<'_> {
        let mut i = vec![];
        reserve(&mut i, self.len);
        for row in 0..self.rows() {
            i.resize(i.len() + self.range(row).len(), row as i32);
        }
        let Csr { others, shifts, .. } = self.to_csr();
        Coo { i, j: others, shifts }
    }

    /// The list as a matrix padded with `fill_value`, of `max_neighbors` entries per row (None: as the longest row needs).
    ///
    /// # Errors
    /// `max_neighbors`, with what is needed, where a row is longer ([`Error::Memory`] where there is no memory for the matrix); `fill_value`, where it is a valid column.
    pub fn to_matrix(&self, max_neighbors: Option<usize>, fill_value: i32) -> Result<Matrix> {
        let needed = self.max_row();
        let width = max_neighbors.unwrap_or(needed);
        if width < needed {
            let expected = format!("at least {needed}, the neighbours of the atom that has most");
            return Err(Error::argument("max_neighbors", expected, width.to_string()));
        }
        if usize::try_from(fill_value).is_ok_and(|fill| fill < self.columns) {
            let expected = format!("a number that is not one of the {} indices", self.columns);
            return Err(Error::argument("fill_value", expected, fill_value.to_string()));
        }
        let size = self.rows().saturating_mul(width);
        let (mut matrix, mut shifts) =
            caught(|| "max_neighbors".into(), || Ok((filled(size, fill_value), filled(size, [0; 3]))))?;
        let mut num_neighbors = Vec::with_capacity(self.rows());
        for i in 0..self.rows() {
            let (j, s) = self.row(i);
            matrix[i * width..][..j.len()].copy_from_slice(j);
            shifts[i * width..].iter_mut().zip(s).for_each(|(shift, s)| *shift = s);
            num_neighbors.push(j.len() as i32);
        }
        Ok(Matrix { width, neighbor_matrix: matrix, num_neighbors, shifts })
    }

    /// Every pair from both sides, rows ordered by i, then j, then S. A full list stays as it is.
    ///
    /// # Errors
    /// `neighbor_list`, where it is directed.
    pub fn to_full(&self) -> Result<PairList<'_>> {
        match self.kind {
            Kind::Full => return Ok(self.borrowed()),
            Kind::Directed => return Err(no_reverse()),
            Kind::Half => {}
        }
        let reverse = |(i, j, s): (usize, usize, [i32; 3])| (j, i, s.map(i32::wrapping_neg));
        Ok(self.rebuilt(Kind::Full, || self.iter().chain(self.iter().map(reverse))))
    }

    /// Every pair once, rows ordered by i, then j, then S: i < j with every S, and i = j with the S whose first
    /// non-zero component is positive. A half list stays as it is.
    ///
    /// # Errors
    /// `neighbor_list`, where it is directed, or of a domain.
    pub fn to_half(&self) -> Result<PairList<'_>> {
        match self.kind {
            Kind::Half => return Ok(self.borrowed()),
            Kind::Directed => return Err(no_reverse()),
            Kind::Full if self.own.is_some() => {
                let got = "that of a domain, some of whose pairs are there from one side";
                return Err(Error::argument("neighbor_list", "a full list", got));
            }
            Kind::Full => {}
        }
        Ok(self.rebuilt(Kind::Half, || self.iter().filter(|&(i, j, s)| i < j || (i == j && s > [0; 3]))))
    }

    /// The list after atom i was moved by −n\[i\] lattice vectors: each image S becomes S + nⱼ − nᵢ.
    pub(super) fn moved_atoms(&self, n: &[[i32; 3]]) -> PairList<'_> {
        let mut shifts = Buffer::filled(self.others().len(), [0; 3]);
        for (i, of_row) in n.iter().enumerate() {
            for p in self.range(i) {
                let (of_column, shift) = (n[self.others()[p] as usize], self.shifts.at(p));
                shifts[p] =
                    std::array::from_fn(|k| shift[k].wrapping_add(of_column[k]).wrapping_sub(of_row[k]));
            }
        }
        let list = self.borrowed();
        PairList { shifts: Shifts::Triples(shifts.into()), ..list }
    }

    /// A list of the pairs that `pairs` walks over, each row sorted.
    fn rebuilt<I: Iterator<Item = (usize, usize, [i32; 3])>>(
        &self,
        kind: Kind,
        pairs: impl Fn() -> I,
    ) -> PairList<'static> {
        let rows = self.rows();
        let mut ptr = vec![0i64; rows + 1];
        pairs().for_each(|(i, _, _)| ptr[i + 1] += 1);
        for i in 0..rows {
            ptr[i + 1] += ptr[i];
        }
        let len = ptr[rows] as usize;
        let mut entries = filled(len, (0i32, [0i32; 3]));
        let mut next = ptr.clone();
        for (i, j, s) in pairs() {
            entries[next[i] as usize] = (j as i32, s);
            next[i] += 1;
        }
        for row in ptr.windows(2) {
            entries[row[0] as usize..row[1] as usize].sort_unstable();
        }
        let others: Buffer<i32> = entries.iter().map(|(j, _)| *j).collect();
        let shifts = entries.into_iter().map(|(_, shift)| shift);
        let ranges = Rows::Ptr(ptr.into());
        let shifts = match self.shifts {
            Shifts::Packed(_) => Shifts::Packed(shifts.map(pack).collect()),
            Shifts::Triples(_) => Shifts::Triples(shifts.collect::<Buffer<_>>().into()),
        };
        PairList::new(ranges, others.into(), shifts, self.columns, len, kind)
    }
}

fn no_reverse() -> Error {
    Error::argument("neighbor_list", "a full or a half list", "a directed one, whose rows and columns differ")
}
