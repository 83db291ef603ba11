//! Ewald sums.

use madelung::electrostatics::direct;
use madelung::electrostatics::kvectors::miller_indices_batch;
use madelung::electrostatics::mesh::mesh_dimensions;
use numpy::ndarray::Array1;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3};
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
