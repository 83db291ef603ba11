//! Pair lists: COO, CSR and matrix as one type that borrows the arrays of its caller, and lists in the memory of a
//! device.

pub mod clusters;
mod device;
mod domain;
mod formats;
mod neighbors;
pub mod order;
mod renewed;
mod reverse;
mod searched;
mod shifts;
mod transpose;

pub use clusters::Clusters;
pub use device::DevicePairs;
pub(crate) use device::Transposed;
pub use formats::{Coo, Csr, Matrix};
pub use neighbors::Neighbors;
pub use searched::{FoundPairs, PairSearch, PairSearcher, ROWS_AT_ONCE, SearchTask, SearchedPairs};
pub use shifts::{Buffers, Shifts};
pub use transpose::Transpose;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::Structure;
use super::batch::Batch;
use super::sealed::Sealed;
use crate::array::{Buffer, Numbers, View};
use crate::backend::Check;
use crate::runtime::lanes::{Work, vectorized};
use crate::runtime::{SlotArray, StructureKind};
use crate::{Error, Result};
use reverse::Surplus;

/// Kind of a pair list: which of the pairs within reach it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Rows and columns are the same atoms, and every pair is there from both sides: (i, j, S) and (j, i, −S).
    Full,
    /// Rows and columns are the same atoms, and every pair is there once.
    Half,
    /// Rows look at columns that need not be the same points (a second point set, a subset of centres, ghost
    /// atoms). Nothing is promised about the way back, and no index stands for "itself".
    Directed,
}

/// Ranges of the entries of each row.
#[derive(Clone, Debug)]
enum Rows<'a> {
    /// CSR: row i is ptr\[i\]..ptr\[i+1\].
    Ptr(Numbers<'a, i64>),
    /// Matrix: rows with padding behind them.
    Padded { starts: Vec<i64>, ends: Vec<i64> },
}

/// Offsets of the entries of each row, `neighbor_ptr`, of 32 or 64 bits.
#[derive(Clone, Debug)]
pub struct Offsets<'a>(Numbers<'a, i64>);

impl<'a> From<Cow<'a, [i64]>> for Offsets<'a> {
    fn from(ptr: Cow<'a, [i64]>) -> Self {
        Self(ptr.into())
    }
}

impl<'a> From<&'a [i64]> for Offsets<'a> {
    fn from(ptr: &'a [i64]) -> Self {
        Self(ptr.into())
    }
}

impl From<Vec<i64>> for Offsets<'_> {
    fn from(ptr: Vec<i64>) -> Self {
        Self(ptr.into())
    }
}

impl From<Buffer<i64>> for Offsets<'_> {
    fn from(ptr: Buffer<i64>) -> Self {
        Self(ptr.into())
    }
}

impl From<&[i32]> for Offsets<'_> {
    fn from(ptr: &[i32]) -> Self {
        Self(ptr.iter().map(|&p| i64::from(p)).collect())
    }
}

impl From<Vec<i32>> for Offsets<'_> {
    fn from(ptr: Vec<i32>) -> Self {
        Self::from(&*ptr)
    }
}

/// A checked list of pairs. The entries of row i are `starts()[i]..ends()[i]` of the flat arrays `others()` (the
/// column j of the pair) and `shifts()` (its image S, in r_ij = r_j − r_i + S · cell).
///
/// Every constructor guarantees: `0 ≤ starts[i] ≤ ends[i] ≤ others().len()`, ranges that rise and never overlap,
/// `0 ≤ j < columns()` inside the ranges, `shifts().len() == others().len()`, at most `i32::MAX` rows and columns, and no
/// atom paired with itself at S = 0 (but in a [`Kind::Directed`] list). The constructors for lists from outside
/// guarantee besides that a full list is full. There may be more than 2³¹ entries.
#[derive(Clone, Debug)]
pub struct PairList<'a> {
    ranges: Rows<'a>,
    others: Numbers<'a, i32>,
    shifts: Shifts<'a>,
    columns: usize,
    len: usize,
    kind: Kind,
    /// The rows of a domain's own atoms; None: all are here.
    own: Option<usize>,
    /// Made when it is first asked for.
    transpose: OnceLock<Arc<Transpose>>,
}

impl<'a> PairList<'a> {
    /// From `neighbor_ptr` (N+1,), `others` (P,) and `shifts` (P, 3); indices are below `columns`, which itself stands in entries
    /// behind the last pair of a list with room for more.
    ///
    /// # Errors
    /// `neighbor_ptr`, `neighbor_list` or `neighbor_shifts`, where one breaks what [`PairList`] guarantees.
    pub fn from_csr(
        neighbor_ptr: impl Into<Offsets<'a>>,
        others: impl Into<Cow<'a, [i32]>>,
        shifts: impl Into<Cow<'a, [[i32; 3]]>>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let shifts = Shifts::Triples(shifts.into().into());
        let list = Self::assemble(neighbor_ptr.into().0, others.into().into(), shifts, columns, kind)?;
        list.check_entries()?;
        Ok(list)
    }

    /// From rows `i` (P,), sorted, columns `j` (P,) and `shifts` (P, 3), for `rows` rows.
    ///
    /// # Errors
    /// As [`PairList::from_csr`]; `neighbor_list` too where `i` is not sorted or not below `rows`.
    pub fn from_coo(
        i: &[i32],
        j: impl Into<Cow<'a, [i32]>>,
        shifts: impl Into<Cow<'a, [[i32; 3]]>>,
        rows: usize,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let j = j.into();
        if i.len() != j.len() {
            let got = format!("{} rows and {} columns", i.len(), j.len());
            return Err(Error::argument("neighbor_list", "as many rows i as columns j", got));
        }
        addressable("rows", rows)?;
        let mut ptr = vec![0i64; rows + 1];
        let mut last = 0;
        for (p, &row) in i.iter().enumerate() {
            if row < last {
                let (expected, got) = if row < 0 {
                    ("rows ≥ 0", format!("row {row} for pair {p}"))
                } else {
                    ("pairs sorted by row i", format!("row {row} after row {last} at pair {p}"))
                };
                return Err(Error::argument("neighbor_list", expected, got));
            }
            if row as usize >= rows {
                let got = format!("row {row} for pair {p}");
                return Err(Error::argument("neighbor_list", format!("rows below {rows}"), got));
            }
            ptr[row as usize + 1] += 1;
            last = row;
        }
        for r in 0..rows {
            ptr[r + 1] += ptr[r];
        }
        Self::from_csr(ptr, j, shifts, columns, kind)
    }

    /// From a padded matrix, row by row: `matrix` of `shape` (N, M) and `shifts` (N, M, 3). A row ends at its first
    /// `fill_value`, behind which only `fill_value` may stand.
    ///
    /// # Errors
    /// `neighbor_matrix` or `neighbor_matrix_shifts`, as [`PairList::from_csr`]; `fill_value`, where it is a valid
    /// column.
    pub fn from_matrix(
        matrix: impl Into<Cow<'a, [i32]>>,
        shape: [usize; 2],
        shifts: impl Into<Cow<'a, [[i32; 3]]>>,
        fill_value: i32,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let (others, shifts) = (Numbers::from(matrix.into()), Shifts::Triples(shifts.into().into()));
        let [rows, width] = shape;
        if Some(others.len()) != rows.checked_mul(width) {
            let got = format!("{} entries", others.len());
            return Err(Error::argument("neighbor_matrix", format!("{rows} rows of {width} entries"), got));
        }
        lengths("neighbor_matrix_shifts", &others, &shifts)?;
        if usize::try_from(fill_value).is_ok_and(|fill| fill < columns) {
            let expected = format!("a number that is not one of the {columns} indices");
            return Err(Error::argument("fill_value", expected, fill_value.to_string()));
        }
        let (mut starts, mut ends) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut len = 0;
        for r in 0..rows {
            let row = &others[r * width..(r + 1) * width];
            let count = row.iter().position(|&j| j == fill_value).unwrap_or(width);
            if let Some(m) = row[count..].iter().position(|&j| j != fill_value) {
                let got = format!("{} behind padding in row {r}", row[count + m]);
                return Err(Error::argument("neighbor_matrix", "padding at the end of each row only", got));
            }
            starts.push((r * width) as i64);
            ends.push((r * width + count) as i64);
            len += count;
        }
        let list = Self::new(Rows::Padded { starts, ends }, others, shifts, columns, len, kind);
        list.check_square()?;
        list.check_entries()?;
        Ok(list)
    }

    /// A list that Madelung's own search built: everything is checked that indexing relies on, and nothing that the
    /// search guarantees (self pairs, fullness).
    ///
    /// # Errors
    /// As [`PairList::from_csr`].
    pub fn from_search(
        neighbor_ptr: impl Into<Offsets<'a>>,
        others: impl Into<Numbers<'a, i32>>,
        shifts: Shifts<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let list = Self::assemble(neighbor_ptr.into().0, others.into(), shifts, columns, kind)?;
        // As unsigned numbers negative indices are too large ones: one maximum checks both.
        let largest = list.others[..list.len].iter().fold(0, |largest, &j| largest.max(j as u32));
        if list.len > 0 && largest as usize >= columns {
            return Err(out_of_range(largest as i32, columns));
        }
        Ok(list)
    }

    fn assemble(
        ptr: Numbers<'a, i64>,
        others: Numbers<'a, i32>,
        shifts: Shifts<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let room = others.len();
        lengths("neighbor_shifts", &others, &shifts)?;
        let len = ptr.last().and_then(|end| usize::try_from(*end).ok());
        // Behind the last pair of a list with room for more stands the number of points.
        let is_room = |entries: &[i32]| entries.iter().all(|j| usize::try_from(*j) == Ok(columns));
        let len = len.filter(|len| ptr[0] == 0 && others.get(*len..).is_some_and(is_room));
        let Some(len) = len else {
            let got = match (ptr.first(), ptr.last()) {
                (Some(first), Some(last)) => format!("{first} to {last}"),
                _ => "an empty array".into(),
            };
            let expected = format!("N + 1 offsets from 0 to the number of pairs, {room}");
            return Err(Error::argument("neighbor_ptr", expected, got));
        };
        if let Some(i) = ptr.windows(2).position(|pair| pair[0] > pair[1]) {
            let got = format!("{} and then {} for row {i}", ptr[i], ptr[i + 1]);
            return Err(Error::argument("neighbor_ptr", "offsets that never fall", got));
        }
        let ranges = if len < room {
            Rows::Padded { starts: ptr[..ptr.len() - 1].to_vec(), ends: ptr[1..].to_vec() }
        } else {
            Rows::Ptr(ptr)
        };
        let list = Self::new(ranges, others, shifts, columns, len, kind);
        list.check_square()?;
        Ok(list)
    }

    fn new(
        ranges: Rows<'a>,
        others: Numbers<'a, i32>,
        shifts: Shifts<'a>,
        columns: usize,
        len: usize,
        kind: Kind,
    ) -> Self {
        Self { ranges, others, shifts, columns, len, kind, own: None, transpose: OnceLock::new() }
    }

    fn check_square(&self) -> Result<()> {
        addressable("positions", self.rows().max(self.columns))?;
        if self.kind != Kind::Directed && self.rows() != self.columns {
            let expected = format!("one row per atom ({}) in a full or half list", self.columns);
            return Err(Error::argument("neighbor_list", expected, format!("{} rows", self.rows())));
        }
        Ok(())
    }

    /// Indices, self pairs, and whether the list is what its kind says.
    pub(in crate::structure) fn check_entries(&self) -> Result<()> {
        let surplus = vectorized(Entries(self))?;
        match self.kind {
            Kind::Full if surplus != Surplus::default() => Err(Error::argument(
                "neighbor_list",
                "a full list (every (i, j, S) with its (j, i, −S)); declare a half list as half, or turn it into a \
                 full one first",
                "pairs without their reverse: a half list, or one that was cut short",
            )),
            Kind::Half if self.len > 0 && surplus == Surplus::default() => Err(Error::argument(
                "neighbor_list",
                "a half list (every pair once); declare it as full",
                "every pair from both sides: a full list",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that no pair joins two systems of `batch`, to which rows and columns belong.
    ///
    /// # Errors
    /// `neighbor_list`, with the first pair that does; `batch_idx`, where its atoms are not the rows and columns.
    pub fn check_batch(&self, batch: &Batch<'_>) -> Result<()> {
        self.check_batches(batch, batch)
    }

    /// [`PairList::check_batch`] for rows and columns that are different points.
    ///
    /// # Errors
    /// As [`PairList::check_batch`].
    pub fn check_batches(&self, rows: &Batch<'_>, columns: &Batch<'_>) -> Result<()> {
        for (batch, count, what) in [(rows, self.rows(), "rows"), (columns, self.columns, "columns")] {
            if batch.atoms() != count {
                let expected = format!("an entry for each of the {count} {what} of the list");
                return Err(Error::argument("batch_idx", expected, format!("{} entries", batch.atoms())));
            }
        }
        if rows.systems() == 1 && columns.systems() == 1 {
            return Ok(());
        }
        for i in 0..self.rows() {
            let b = rows.of(i);
            let members = if b < columns.systems() { columns.members(b) } else { 0..0 };
            if let Some(&j) = self.row(i).0.iter().find(|&&j| !members.contains(&(j as usize))) {
                let got =
                    format!("atom {i} of system {b} with atom {j} of system {}", columns.of(j as usize));
                return Err(Error::argument("neighbor_list", "pairs within one system", got));
            }
        }
        Ok(())
    }

    /// Number of rows N.
    pub fn rows(&self) -> usize {
        match &self.ranges {
            Rows::Ptr(ptr) => ptr.len() - 1,
            Rows::Padded { starts, .. } => starts.len(),
        }
    }

    /// Number of points that columns index.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of pairs P, padding not counted.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Full, half or directed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// First entry of each row, shape (N,).
    pub fn starts(&self) -> &[i64] {
        match &self.ranges {
            Rows::Ptr(ptr) => &ptr[..ptr.len() - 1],
            Rows::Padded { starts, .. } => starts,
        }
    }

    /// End of the entries of each row, shape (N,).
    pub fn ends(&self) -> &[i64] {
        match &self.ranges {
            Rows::Ptr(ptr) => &ptr[1..],
            Rows::Padded { ends, .. } => ends,
        }
    }

    /// Column of each entry, padding included.
    pub fn others(&self) -> &[i32] {
        &self.others
    }

    /// Image S of each entry, padding included. A copy where the list keeps them packed.
    pub fn shifts(&self) -> Cow<'_, [[i32; 3]]> {
        self.shifts.triples()
    }

    /// Images as the list keeps them.
    pub fn images(&self) -> &Shifts<'a> {
        &self.shifts
    }

    /// Bytes per entry that columns and images take.
    pub fn entry_bytes(&self) -> usize {
        size_of::<i32>()
            + match self.shifts {
                Shifts::Packed(_) => size_of::<i32>(),
                Shifts::Triples(_) => size_of::<[i32; 3]>(),
            }
    }

    /// The entries of row `i`, as a range of the flat arrays.
    pub fn range(&self, i: usize) -> Range<usize> {
        self.starts()[i] as usize..self.ends()[i] as usize
    }

    /// Columns and images of row `i`.
    pub fn row(&self, i: usize) -> (&[i32], impl ExactSizeIterator<Item = [i32; 3]> + '_) {
        let range = self.range(i);
        (&self.others[range.clone()], self.shifts.range(range))
    }

    /// All pairs (i, j, S), row by row.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, [i32; 3])> + '_ {
        (0..self.rows()).flat_map(move |i| self.iter_row(i))
    }

    fn iter_row(&self, i: usize) -> impl Iterator<Item = (usize, usize, [i32; 3])> + '_ {
        let (others, shifts) = self.row(i);
        others.iter().zip(shifts).map(move |(&j, s)| (i, j as usize, s))
    }

    /// Pairs of the longest row.
    pub fn max_row(&self) -> usize {
        (0..self.rows()).map(|i| self.range(i).len()).max().unwrap_or(0)
    }

    /// A view of this list.
    pub fn borrowed(&self) -> PairList<'_> {
        let ranges = match &self.ranges {
            Rows::Ptr(ptr) => Rows::Ptr(ptr.borrowed()),
            Rows::Padded { starts, ends } => Rows::Padded { starts: starts.clone(), ends: ends.clone() },
        };
        let (others, shifts) = (self.others.borrowed(), self.shifts.borrowed());
        let transpose = self.transpose.clone();
        let (columns, len, kind, own) = (self.columns, self.len, self.kind, self.own);
        PairList { ranges, others, shifts, columns, len, kind, own, transpose }
    }

    /// The list with arrays of its own.
    pub fn into_owned(self) -> PairList<'static> {
        let ranges = match self.ranges {
            Rows::Ptr(ptr) => Rows::Ptr(ptr.into_owned()),
            Rows::Padded { starts, ends } => Rows::Padded { starts, ends },
        };
        let (others, shifts) = (self.others.into_owned(), self.shifts.into_owned());
        let Self { columns, len, kind, own, transpose, .. } = self;
        PairList { ranges, others, shifts, columns, len, kind, own, transpose }
    }

    /// The memory of the list.
    pub fn into_buffers(self) -> Buffers {
        let neighbor_ptr = match self.ranges {
            Rows::Ptr(ptr) => ptr.into_buffer(),
            Rows::Padded { starts, .. } => starts.into(),
        };
        let others = self.others.into_buffer();
        let (packed, triples) = match self.shifts {
            Shifts::Packed(packed) => (packed.into_buffer(), Buffer::new()),
            Shifts::Triples(triples) => (Buffer::new(), triples.into_buffer()),
        };
        Buffers { neighbor_ptr, others, packed, triples }
    }
}

impl Sealed for PairList<'_> {}

impl Structure for PairList<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Pairs
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [self.rows(), self.columns, self.others.len()].map(Some)
    }

    fn moved(&self, n: &[[i32; 3]]) -> Option<Box<dyn Structure + '_>> {
        (n.len() == self.rows() && n.len() == self.columns).then(|| Box::new(self.moved_atoms(n)) as _)
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok(match array {
            SlotArray::Start => Some(self.starts().into()),
            SlotArray::End => Some(self.ends().into()),
            SlotArray::Column => Some(self.others().into()),
            SlotArray::Shift => self.shifts.as_triples().map(View::from),
            SlotArray::PackedShift => self.shifts.packed().map(View::from),
            SlotArray::ColumnStart => Some(self.transpose()?.starts().into()),
            SlotArray::PairRow => Some(self.transpose()?.rows().into()),
            SlotArray::PairEntry => Some(self.transpose()?.entries().into()),
            _ => None,
        })
    }

    fn check<'s>(&'s self, batches: &[[&'s dyn Structure; 2]]) -> Result<Vec<Check<'s>>> {
        for [rows, columns] in batches {
            if let (Some(rows), Some(columns)) = (rows.as_batch(), columns.as_batch()) {
                self.check_batches(rows, columns)?;
            }
        }
        Ok(vec![])
    }

    fn list_kind(&self) -> Option<Kind> {
        Some(self.kind)
    }

    fn own_rows(&self) -> Option<usize> {
        self.own
    }

    fn as_pairs(&self) -> Option<&PairList<'_>> {
        Some(self)
    }
}

/// The entries of a list: their surplus over the reverse ones, where indices are in range and no atom is its own partner.
struct Entries<'l, 'a>(&'l PairList<'a>);

impl Work for Entries<'_, '_> {
    type Output = Result<Surplus>;

    #[inline(always)]
    fn run(self) -> Result<Surplus> {
        let list = self.0;
        let mut surplus = Surplus::default();
        for i in 0..list.rows() {
            let range = list.range(i);
            let others = &list.others[range.clone()];
            let bad = others.iter().fold(false, |bad, &j| bad | (j as u32 as usize >= list.columns));
            if let Some(&j) = others.iter().find(|&&j| bad && j as u32 as usize >= list.columns) {
                return Err(out_of_range(j, list.columns));
            }
            let itself = others.iter().fold(false, |itself, &j| itself | (j as usize == i));
            if itself
                && list.kind != Kind::Directed
                && list.iter_row(i).any(|(_, j, s)| i == j && s == [0; 3])
            {
                let got = format!("atom {i} paired with itself at shift 0");
                return Err(Error::argument("neighbor_list", "pairs of two atoms (or images)", got));
            }
            if list.kind != Kind::Directed {
                surplus.add(i, &list.others, &list.shifts, range);
            }
        }
        Ok(surplus)
    }
}

fn addressable(argument: &str, entries: usize) -> Result<()> {
    if entries > i32::MAX as usize {
        let expected = format!("at most {} points, which is what 32-bit indices can number", i32::MAX);
        return Err(Error::argument(argument, expected, entries.to_string()));
    }
    Ok(())
}

fn lengths(argument: &str, others: &[i32], shifts: &Shifts<'_>) -> Result<()> {
    if others.len() != shifts.len() {
        let expected = format!("an image for each of the {} entries of the list", others.len());
        return Err(Error::argument(argument, expected, format!("{} images", shifts.len())));
    }
    Ok(())
}

fn out_of_range(index: i32, columns: usize) -> Error {
    Error::argument("neighbor_list", format!("indices from 0 to below {columns}"), index.to_string())
}
