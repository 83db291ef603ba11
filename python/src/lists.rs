//! Neighbour lists as arguments: the caller's in any form, and those of a search.

use madelung::backend::pool::Threads;
use madelung::cpu::context;
use madelung::neighbors::{Form, ListArrays, Options};
use madelung::pairs::{Kind, Neighbors as FoundList, PairList};
use madelung::{Error, Result};
use numpy::ndarray::Array1;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::compute;
use crate::convert::{Groups, Numbers, elements, given, given_any, triples};
use crate::neighbors::{Positions, cells, narrow_offsets, rows_of_three};

/// The list of all pairs closer than the cutoff in the form that is fastest to use, or in a given one ("rows" or
/// "clusters"), as three arrays.
#[pyfunction]
pub(crate) fn find_neighbors<'py>(
    py: Python<'py>,
    positions: Positions<'py>,
    cutoff: f64,
    cell: Option<PyReadonlyArray3<'py, f64>>,
    pbc: Option<Vec<[bool; 3]>>,
    groups: Groups<'py>,
    form: Option<&str>,
) -> PyResult<Bound<'py, PyTuple>> {
    let cells = cell.as_ref().map(cells).transpose()?;
    let (cells, pbc) = (cells.as_deref(), pbc.as_deref());
    let options = match form {
        Some("rows") => Options::full().with_form(Form::Rows),
        Some("clusters") => Options::full().with_form(Form::Clusters),
        _ => Options::full(),
    };
    let groups = groups.batch(positions.len()?)?;
    let of = |list: Result<FoundList<'static>>| list.and_then(|list| ListArrays::of(&list, &context()));
    let pool = Threads::shared();
    let found = match &positions {
        Positions::F64(r) => {
            let r = triples(r)?;
            compute(py, || of(madelung::find_neighbors(r, cutoff, cells, pbc, &groups, &options, pool)))
        }
        Positions::F32(r) => {
            let r = triples(r)?;
            compute(py, || of(madelung::find_neighbors(r, cutoff, cells, pbc, &groups, &options, pool)))
        }
    }?;
    let ListArrays { index, columns, images } = found;
    PyTuple::new(py, [given_any(py, index)?, given_any(py, columns)?, given_any(py, images)?])
}

/// The rows of a list in either form: offsets, columns and images (P, 3).
#[pyfunction]
pub(crate) fn neighbor_rows<'py>(
    py: Python<'py>,
    index: Numbers<'py>,
    columns: Numbers<'py>,
    images: Numbers<'py>,
    atoms: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let views = [index.view()?, columns.view()?, images.view()?];
    let (ptr, columns, shifts) = compute(py, || {
        let list = FoundList::from_arrays(views.each_ref(), atoms, Kind::Full, true)?;
        let csr = list.rows(Threads::shared()).into_owned().into_csr();
        Ok((narrow_offsets(&csr.neighbor_ptr)?, csr.others.into_owned(), csr.shifts.into_owned()))
    })?;
    let arrays = [given(py, ptr), given(py, Array1::from_vec(columns)), given(py, rows_of_three(shifts))];
    PyTuple::new(py, arrays)
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
