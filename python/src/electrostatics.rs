//! Ewald sums and charge equilibration.

use madelung::electrostatics::direct;
use madelung::electrostatics::equilibration::{Groups, Minimum};
use madelung::electrostatics::kvectors::miller_indices_batch;
use madelung::electrostatics::mesh::mesh_dimensions;
use numpy::ndarray::Array1;
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{compute, exception};
use crate::convert::{elements, given};
use crate::lists::rows_of_three;

/// The nodes (K₁, K₂, K₃) of meshes whose nodes are no farther apart, in each of the cells (B, 3, 3).
#[pyfunction]
pub(crate) fn mesh_of_spacing(
    cells: PyReadonlyArray3<'_, f64>,
    spacing: f64,
    spline_order: usize,
) -> PyResult<Vec<[usize; 3]>> {
    let cells = elements(&cells)?.as_chunks().0.as_chunks().0;
    let nodes = cells.iter().map(|cell| mesh_dimensions(cell, spacing, spline_order).map_err(exception));
    nodes.collect()
}

/// Miller indices (K, 3) of the wave vectors of all systems, and each system's offsets (B + 1,).
#[pyfunction]
pub(crate) fn miller_indices<'py>(
    py: Python<'py>,
    cells: PyReadonlyArray3<'py, f64>,
    k_cutoff: Vec<f64>,
) -> PyResult<Bound<'py, PyTuple>> {
    let cells = elements(&cells)?.as_chunks().0.as_chunks().0;
    let (rows, ptr) = compute(py, || miller_indices_batch(cells, &k_cutoff))?;
    PyTuple::new(py, [given(py, rows_of_three(rows)), given(py, Array1::from_vec(ptr))])
}

/// Lines of waves: the middle of each (L, 3), the number of waves beside it and the system (L,).
#[pyfunction]
pub(crate) fn wave_lines<'py>(
    py: Python<'py>,
    miller: PyReadonlyArray2<'py, i32>,
    systems: PyReadonlyArray1<'py, i32>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (lines, beside, of) = direct::wave_lines(elements(&miller)?.as_chunks().0, elements(&systems)?);
    PyTuple::new(
        py,
        [
            given(py, rows_of_three(lines)),
            given(py, Array1::from_vec(beside)),
            given(py, Array1::from_vec(of)),
        ],
    )
}

/// The search for charges of least energy: see `Minimum`. It is asked and answered rather than given a function, as what that
/// calls may give up the interpreter's lock, which counts as held below a function of the extension.
#[pyclass(module = "madelung")]
pub(crate) struct LeastCharges(Minimum);

#[pymethods]
impl LeastCharges {
    #[new]
    fn new(
        slopes: PyReadonlyArray1<'_, f64>,
        start: PyReadonlyArray1<'_, f64>,
        own: PyReadonlyArray1<'_, f64>,
        of: PyReadonlyArray1<'_, i32>,
        systems: usize,
        groups: PyReadonlyArray1<'_, i32>,
        narrow: bool,
    ) -> PyResult<Self> {
        let [slopes, start, own] =
            [elements(&slopes)?, elements(&start)?, elements(&own)?].map(<[f64]>::to_vec);
        let groups = elements(&groups)?.to_vec();
        let count = groups.iter().max().map_or(0, |most| usize::try_from(most + 1).unwrap_or(0));
        let groups = Groups { of: groups, count };
        Ok(Self(Minimum::new(own, elements(&of)?.to_vec(), systems, groups, narrow, slopes, start)))
    }

    #[getter]
    fn charges<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.0.charges())
    }

    #[getter]
    fn asked<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.0.asked().map(|x| PyArray1::from_slice(py, x))
    }

    fn answered(&mut self, image: PyReadonlyArray1<'_, f64>) -> PyResult<()> {
        self.0.answered(elements(&image)?).map_err(exception)
    }
}
