//! Integer arrays of either width at the edge of a call: batches and pair lists from i32 or i64, and integers in the
//! memory of a device. Inside, indices are i32; an integer that is no i32 is an error that names the argument.

use super::batch::Batch;
use super::pairs::clusters::{STALE, stale};
use super::pairs::{Clusters, Kind, Neighbors, Offsets, PairList, Shifts};
use crate::array::{Array, DType, Data, Place, View, collected};
use crate::{Error, Result};
use std::borrow::Cow;

/// Integers in the memory of a device, lent by a caller or owned.
#[derive(Debug)]
pub enum Integers<'a> {
    /// Lent.
    Lent(View<'a>),
    /// Owned.
    Owned(Array),
}

impl Integers<'_> {
    /// A view of all of them.
    pub fn view(&self) -> View<'_> {
        match self {
            Self::Lent(view) => view.clone(),
            Self::Owned(array) => array.view(),
        }
    }

    /// The array, where it is owned.
    pub(super) fn into_array(self) -> Option<Array> {
        match self {
            Self::Lent(_) => None,
            Self::Owned(array) => Some(array),
        }
    }

    /// An array of a type and shape in the memory of a device.
    pub(super) fn check(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<()> {
        let view = self.view();
        if view.place() == Place::Host {
            return Err(Error::argument(name, "an array in the memory of a device", "one of the host"));
        }
        if view.dtype() != dtype || view.shape() != shape {
            let got = format!("{} {:?}", view.dtype(), view.shape());
            return Err(Error::argument(name, format!("{dtype} {shape:?}"), got));
        }
        Ok(())
    }

    /// An array of a place.
    pub(super) fn check_place(&self, name: &str, place: Place) -> Result<()> {
        let at = self.view().place();
        if at != place {
            return Err(Error::argument(name, format!("an array of {place}"), format!("one of {at}")));
        }
        Ok(())
    }
}

impl<'a> From<View<'a>> for Integers<'a> {
    fn from(view: View<'a>) -> Self {
        Self::Lent(view)
    }
}

impl<'a> From<&'a mut Array> for Integers<'a> {
    fn from(array: &'a mut Array) -> Self {
        Self::Lent(array.view())
    }
}

impl From<Array> for Integers<'_> {
    fn from(array: Array) -> Self {
        Self::Owned(array)
    }
}

/// At most as many entries as 32-bit indices can number.
pub(super) fn addressable(name: &str, count: usize) -> Result<()> {
    if i32::try_from(count).is_err() {
        return Err(Error::argument(name, format!("at most {} entries", i32::MAX), count.to_string()));
    }
    Ok(())
}

/// The shape of a view of `N` axes.
fn shape<'v, const N: usize>(view: &'v View<'_>, argument: &str, expected: &str) -> Result<&'v [usize; N]> {
    let wrong = || Error::argument(argument, format!("shape {expected}"), format!("{:?}", view.shape()));
    view.shape().try_into().map_err(|_| wrong())
}

/// The integer triples of an array whose last axis has size 3.
fn triples<'a>(view: &View<'a>, argument: &str) -> Result<Cow<'a, [[i32; 3]]>> {
    if view.shape().last() != Some(&3) {
        let got = format!("shape {:?}", view.shape());
        return Err(Error::argument(argument, "three integers per pair", got));
    }
    Ok(match view.to_i32(argument)? {
        Cow::Borrowed(d) => Cow::Borrowed(d.as_chunks().0),
        Cow::Owned(d) => Cow::Owned(collected(d.as_chunks().0.iter().copied())),
    })
}

/// The arrays of a list in CSR format: offsets, neighbours and shifts.
#[expect(clippy::type_complexity, reason = "three arrays")]
fn csr<'a>(
    neighbor_ptr: &View<'a>,
    neighbors: &View<'a>,
    shifts: &View<'a>,
) -> Result<(Offsets<'a>, Cow<'a, [i32]>, Cow<'a, [[i32; 3]]>)> {
    shape::<1>(neighbor_ptr, "neighbor_ptr", "(N + 1,)")?;
    shape::<1>(neighbors, "neighbor_list", "(P,)")?;
    shape::<2>(shifts, "neighbor_shifts", "(P, 3)")?;
    Ok((offsets(neighbor_ptr)?, neighbors.to_i32("neighbor_list")?, triples(shifts, "neighbor_shifts")?))
}

fn offsets<'a>(neighbor_ptr: &View<'a>) -> Result<Offsets<'a>> {
    Ok(match neighbor_ptr.data() {
        Data::I64(ptr) => Offsets::from(ptr),
        _ => Offsets::from(&*neighbor_ptr.to_i32("neighbor_ptr")?),
    })
}

impl<'a> Batch<'a> {
    /// [`Batch::from_idx`] of an i32 or i64 array (N,).
    ///
    /// # Errors
    /// Those of [`Batch::from_idx`]; `batch_idx`, of wrong dtype or shape, or with an entry beyond i32.
    pub fn from_idx_array(batch_idx: &View<'a>, systems: Option<usize>) -> Result<Self> {
        shape::<1>(batch_idx, "batch_idx", "(N,)")?;
        Self::from_idx(batch_idx.to_i32("batch_idx")?, systems)
    }

    /// [`Batch::from_ptr`] of an i32 or i64 array (B+1,).
    ///
    /// # Errors
    /// Those of [`Batch::from_ptr`]; `batch_ptr`, of wrong dtype or shape, or with an entry beyond i32.
    pub fn from_ptr_array(batch_ptr: &View<'a>) -> Result<Self> {
        shape::<1>(batch_ptr, "batch_ptr", "(B + 1,)")?;
        Self::from_ptr(batch_ptr.to_i32("batch_ptr")?)
    }
}

/// Integers of an array in rows of `N`.
fn rows_of<'a, const N: usize>(view: &View<'a>, argument: &str) -> Result<Cow<'a, [[i32; N]]>> {
    if view.shape().len() != 2 || view.shape()[1] != N {
        let got = format!("shape {:?}", view.shape());
        return Err(Error::argument(argument, format!("rows of {N} integers"), got));
    }
    Ok(match view.to_i32(argument)? {
        Cow::Borrowed(d) => Cow::Borrowed(d.as_chunks().0),
        Cow::Owned(d) => Cow::Owned(collected(d.as_chunks().0.iter().copied())),
    })
}

impl<'a> Neighbors<'a> {
    /// From three arrays of i32 or i64. In rows: `neighbor_ptr` (N+1,), or where rows begin and end (2, N), columns (P,) and
    /// images, (P, 3) or packed (P,). In clusters: the frame (F,), entries (E, 2) and runs (R, 3) of [`Clusters`]. `checked`: the list is known to be of its
    /// kind.
    ///
    /// # Errors
    /// Those of [`PairList::from_csr`] and [`Clusters::new`]; an array of wrong dtype or shape, or with an entry beyond i32.
    pub fn from_arrays(
        [index, columns, images]: [&View<'a>; 3],
        count: usize,
        kind: Kind,
        checked: bool,
    ) -> Result<Self> {
        if index.at(0) == Some(f64::from(STALE)) {
            return Err(stale());
        }
        if let [_, 2] = columns.shape() {
            shape::<1>(index, "neighbors", "(F,)")?;
            let (entries, runs) = (rows_of(columns, "neighbors")?, rows_of(images, "neighbors")?);
            return Clusters::new(index.to_i32("neighbors")?, runs, entries)
                .map(|list| Self::Clusters(list.into()));
        }
        if let [2, rows] = *index.shape() {
            shape::<1>(columns, "neighbor_list", "(P,)")?;
            let ends = index.to_i32("neighbor_ptr")?;
            let [starts, ends] =
                [&ends[..rows], &ends[rows..]].map(|ends| ends.iter().map(|end| i64::from(*end)).collect());
            let images = Shifts::Triples(triples(images, "neighbor_shifts")?.into());
            let others = columns.to_i32("neighbor_list")?;
            return PairList::from_ranges(starts, ends, others, images, count, kind).map(Self::Rows);
        }
        if images.shape().len() == 1 {
            shape::<1>(index, "neighbor_ptr", "(N + 1,)")?;
            let (ptr, others) = (offsets(index)?, columns.to_i32("neighbor_list")?);
            let images = Shifts::Packed(images.to_i32("neighbor_shifts")?.into());
            let list = PairList::from_search(ptr, others, images, count, kind)?;
            if !checked {
                list.check_entries()?;
            }
            return Ok(Self::Rows(list));
        }
        let list = if checked { PairList::from_checked_csr_arrays } else { PairList::from_csr_arrays };
        list(index, columns, images, count, kind).map(Self::Rows)
    }
}

impl<'a> PairList<'a> {
    /// [`PairList::from_csr`] of i32 or i64 arrays: `neighbor_ptr` (N+1,), `neighbors` (P,), `shifts` (P, 3).
    ///
    /// # Errors
    /// Those of [`PairList::from_csr`]; an array of wrong dtype or shape, or with an entry beyond i32.
    pub fn from_csr_arrays(
        neighbor_ptr: &View<'a>,
        neighbors: &View<'a>,
        shifts: &View<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let (ptr, neighbors, shifts) = csr(neighbor_ptr, neighbors, shifts)?;
        Self::from_csr(ptr, neighbors, shifts, columns, kind)
    }

    /// [`PairList::from_search`] of arrays in the format of [`PairList::from_csr_arrays`], for a list that is known to
    /// be of its kind.
    ///
    /// # Errors
    /// Those of [`PairList::from_search`]; an array of wrong dtype or shape, or with an entry beyond i32.
    pub fn from_checked_csr_arrays(
        neighbor_ptr: &View<'a>,
        neighbors: &View<'a>,
        shifts: &View<'a>,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let (ptr, neighbors, shifts) = csr(neighbor_ptr, neighbors, shifts)?;
        Self::from_search(ptr, neighbors, Shifts::Triples(shifts.into()), columns, kind)
    }

    /// [`PairList::from_coo`] of i32 or i64 arrays: `neighbor_list` (2, P), `shifts` (P, 3).
    ///
    /// # Errors
    /// Those of [`PairList::from_coo`]; an array of wrong dtype or shape, or with an entry beyond i32.
    pub fn from_coo_arrays(
        neighbor_list: &View<'a>,
        shifts: &View<'a>,
        rows: usize,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let [two, pairs] = *shape::<2>(neighbor_list, "neighbor_list", "(2, P)")?;
        if two != 2 {
            let got = format!("{:?}", neighbor_list.shape());
            return Err(Error::argument("neighbor_list", "shape (2, P)", got));
        }
        shape::<2>(shifts, "neighbor_shifts", "(P, 3)")?;
        let shifts = triples(shifts, "neighbor_shifts")?;
        match neighbor_list.to_i32("neighbor_list")? {
            Cow::Borrowed(list) => {
                let (i, j) = list.split_at(pairs);
                Self::from_coo(i, j, shifts, rows, columns, kind)
            }
            Cow::Owned(list) => {
                let (i, j) = list.split_at(pairs);
                Self::from_coo(i, j.to_vec(), shifts, rows, columns, kind)
            }
        }
    }

    /// [`PairList::from_matrix`] of i32 or i64 arrays: `matrix` (N, M), `shifts` (N, M, 3).
    ///
    /// # Errors
    /// Those of [`PairList::from_matrix`]; an array of wrong dtype or shape, or with an entry beyond i32.
    pub fn from_matrix_arrays(
        matrix: &View<'a>,
        shifts: &View<'a>,
        fill_value: i64,
        columns: usize,
        kind: Kind,
    ) -> Result<Self> {
        let size = *shape::<2>(matrix, "neighbor_matrix", "(N, M)")?;
        shape::<3>(shifts, "neighbor_matrix_shifts", "(N, M, 3)")?;
        let fill = i32::try_from(fill_value).map_err(|_| {
            let expected = format!("an integer from {} to {}", i32::MIN, i32::MAX);
            Error::argument("fill_value", expected, fill_value.to_string())
        })?;
        let shifts = triples(shifts, "neighbor_matrix_shifts")?;
        Self::from_matrix(matrix.to_i32("neighbor_matrix")?, size, shifts, fill, columns, kind)
    }
}
