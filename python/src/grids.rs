//! Points sorted in space, kept from call to call.

use crate::call::compute;
use crate::convert::{Numbers, given};
use madelung::batch::Batch;
use madelung::neighbors::KeptGrid;
use numpy::ndarray::Array1;
use pyo3::prelude::*;

/// Grid of points that searches find by its number, for as long as this object lives.
#[pyclass(frozen, module = "madelung._native")]
pub(crate) struct Grid(KeptGrid);

#[pymethods]
impl Grid {
    /// Grid of points (N, 3), cells (B, 3, 3), periodic axes as searches take them, and the system of each point.
    #[new]
    fn new(
        py: Python<'_>,
        points: Numbers<'_>,
        cell: Numbers<'_>,
        pbc: Numbers<'_>,
        axes: i64,
        batch_idx: Numbers<'_>,
        systems: usize,
    ) -> PyResult<Self> {
        let (r, h, rows, of) = (points.view()?, cell.view()?, pbc.view()?, batch_idx.view()?);
        compute(py, || {
            let batch = Batch::from_idx_array(&of, Some(systems))?;
            KeptGrid::of_search(&madelung::cpu::context(), &r, &h, (&rows, axes), &batch)
        })
        .map(Self)
    }

    /// Number of the grid.
    #[getter]
    fn number(&self) -> i64 {
        self.0.number()
    }

    /// The point of each place in the order of space, (N,), counted within its system.
    #[getter]
    fn order<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        given(py, Array1::from_vec(self.0.grid().order()))
    }
}
