//! Neighbour lists as arguments, in any form.

use madelung::backend::pool::Threads;
use madelung::pairs::{Kind, Neighbors as FoundList, PairList};
use madelung::{Error, Result};
use numpy::ndarray::{Array1, Array2};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::compute;
use crate::convert::{Numbers, elements, given, triples};

/// The rows of a list in either form: offsets, columns and images, (P, 3), or (P,) where they may stay `packed` and are.
#[pyfunction]
pub(crate) fn neighbor_rows<'py>(
    py: Python<'py>,
    index: Numbers<'py>,
    columns: Numbers<'py>,
    images: Numbers<'py>,
    atoms: usize,
    packed: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let views = [index.view()?, columns.view()?, images.view()?];
    let (ptr, columns, images) = compute(py, || {
        let list = FoundList::from_arrays(views.each_ref(), atoms, Kind::Full, true)?;
        let rows = list.rows(Threads::shared()).into_owned();
        let whole = rows.images().packed().filter(|_| packed).map(<[i32]>::to_vec);
        let csr = rows.into_csr();
        let images = whole.ok_or_else(|| csr.shifts.into_owned());
        Ok((narrow_offsets(&csr.neighbor_ptr)?, csr.others.into_owned(), images))
    })?;
    let images = match images {
        Ok(packed) => given(py, Array1::from_vec(packed)),
        Err(triples) => given(py, rows_of_three(triples)),
    };
    PyTuple::new(py, [given(py, ptr), given(py, Array1::from_vec(columns)), images])
}

/// The caller's neighbour list.
#[derive(FromPyObject)]
pub(crate) struct Neighbors<'py> {
    neighbor_list: Option<PyReadonlyArray2<'py, i32>>,
    neighbor_ptr: Option<PyReadonlyArray1<'py, i32>>,
    neighbor_matrix: Option<PyReadonlyArray2<'py, i32>>,
    /// Images (P, 3), or (N·M, 3) with a matrix.
    shifts: PyReadonlyArray2<'py, i32>,
    fill_value: i32,
    half_fill: bool,
}

/// The borrowed arrays of [`Neighbors`], without Python.
#[derive(Clone, Copy)]
struct Borrowed<'a> {
    list: Option<&'a [i32]>,
    ptr: Option<&'a [i32]>,
    matrix: Option<(&'a [i32], [usize; 2])>,
    shifts: &'a [[i32; 3]],
    fill_value: i32,
    kind: Kind,
}

impl Neighbors<'_> {
    fn borrowed(&self) -> PyResult<Borrowed<'_>> {
        let matrix = match &self.neighbor_matrix {
            Some(m) => Some((elements(m)?, m.as_array().dim().into())),
            None => None,
        };
        Ok(Borrowed {
            list: self.neighbor_list.as_ref().map(elements).transpose()?,
            ptr: self.neighbor_ptr.as_ref().map(elements).transpose()?,
            matrix,
            shifts: triples(&self.shifts)?,
            fill_value: self.fill_value,
            kind: if self.half_fill { Kind::Half } else { Kind::Full },
        })
    }
}

impl<'a> Borrowed<'a> {
    fn pairs(self, atoms: usize) -> Result<PairList<'a>> {
        if let Some((matrix, shape)) = self.matrix {
            return PairList::from_matrix(matrix, shape, self.shifts, self.fill_value, atoms, self.kind);
        }
        let (i, j) = self.list.map_or((&[][..], &[][..]), |list| list.split_at(list.len() / 2));
        let pairs = PairList::from_coo(i, j, self.shifts, atoms, atoms, self.kind)?;
        match self.ptr {
            Some(ptr)
                if !pairs.to_csr().neighbor_ptr.iter().copied().eq(ptr.iter().map(|&p| i64::from(p))) =>
            {
                let expected = "where the rows of `neighbor_list` begin, and their number";
                Err(Error::argument("neighbor_ptr", expected, "other offsets"))
            }
            _ => Ok(pairs),
        }
    }
}

/// The full list of a call's pairs: offsets, neighbours and images.
#[pyfunction]
pub(crate) fn full_list<'py>(
    py: Python<'py>,
    neighbors: Neighbors<'py>,
    atoms: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let neighbors = neighbors.borrowed()?;
    let (ptr, columns, shifts) = compute(py, || {
        let csr = neighbors.pairs(atoms)?.to_full()?.into_csr();
        Ok((narrow_offsets(&csr.neighbor_ptr)?, csr.others.into_owned(), csr.shifts.into_owned()))
    })?;
    let arrays = [given(py, ptr), given(py, Array1::from_vec(columns)), given(py, rows_of_three(shifts))];
    PyTuple::new(py, arrays)
}

/// Offsets as int32.
fn narrow_offsets(ptr: &[i64]) -> Result<Array1<i32>> {
    let narrow = |p: &i64| {
        i32::try_from(*p).map_err(|_| {
            let expected = format!(
                "at most {} pairs, which is what the int32 offsets of the result can address",
                i32::MAX
            );
            Error::argument("cutoff", expected, format!("{p} pairs"))
        })
    };
    Ok(Array1::from_vec(ptr.iter().map(narrow).collect::<Result<_>>()?))
}

pub(crate) fn rows_of_three<T>(rows: Vec<[T; 3]>) -> Array2<T> {
    Array2::from_shape_vec((rows.len(), 3), rows.into_flattened())
        .expect("as many elements as the shape says")
}
