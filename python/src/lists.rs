//! Neighbour lists as arguments: the caller's in any form, and those of a search.

use madelung::backend::pool::Threads;
use madelung::pairs::{Kind, PairList};
use madelung::{Error, Result};
use numpy::ndarray::Array1;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::compute;
use crate::convert::{elements, given, triples};
use crate::electrostatics::Charges;
use crate::neighbors::{narrow_offsets, rows_of_three};

/// A full list of pairs, as an argument of `host_call`.
#[pyclass(frozen, module = "madelung._native")]
pub(crate) struct Pairs(pub(crate) PairList<'static>);

/// The caller's list.
#[pyfunction]
pub(crate) fn given_pairs(py: Python<'_>, neighbors: Neighbors<'_>, atoms: usize) -> PyResult<Pairs> {
    let neighbors = neighbors.borrowed()?;
    compute(py, || {
        let pairs = neighbors.pairs(atoms)?;
        Ok(Pairs(if pairs.kind() == Kind::Half { pairs.to_full()?.into_owned() } else { pairs.into_owned() }))
    })
}

/// The list of all pairs closer than the cutoff.
#[pyfunction]
pub(crate) fn found_pairs(py: Python<'_>, charges: Charges<'_>, cutoff: f64) -> PyResult<Pairs> {
    let system = charges.system()?;
    compute(py, || Ok(Pairs(system.plain_neighbor_list(cutoff, Threads::shared())?)))
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
