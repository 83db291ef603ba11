//! Ewald sums.

use madelung::electrostatics::direct;
use madelung::electrostatics::kvectors::miller_indices_batch;
use madelung::electrostatics::mesh::mesh_dimensions;
use madelung::{EwaldParameters, EwaldSettings, PmeParameters, PmeSettings, Prescribed, System};
use numpy::ndarray::Array1;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{compute, exception};
use crate::convert::{Groups, Numbers, elements, given};
use crate::lists::rows_of_three;

/// The attributes of a Python object with the charges of a call.
#[derive(FromPyObject)]
pub(crate) struct Charges<'py> {
    positions: Numbers<'py>,
    charges: Numbers<'py>,
    cell: Numbers<'py>,
    groups: Groups<'py>,
}

impl Charges<'_> {
    pub(crate) fn system(&self) -> PyResult<System<'_>> {
        let positions = self.positions.view()?;
        let batch = self.groups.batch(positions.shape().first().copied().unwrap_or(0))?;
        System::new(positions, self.charges.view()?, self.cell.view()?, batch).map_err(exception)
    }
}

/// The parameters of an Ewald sum; a parameter that is None is chosen for the accuracy.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    alpha: Option<Vec<f64>>,
    cutoff: Option<Vec<f64>>,
    k_cutoff: Option<Vec<f64>>,
    accuracy: Option<f64>,
}

impl From<Settings> for EwaldSettings {
    fn from(s: Settings) -> Self {
        Self { alpha: s.alpha, cutoff: s.cutoff, k_cutoff: s.k_cutoff, accuracy: s.accuracy }
    }
}

/// The parameters (alpha, cutoff, k_cutoff, predicted_force_error) of each system.
#[pyfunction]
pub(crate) fn ewald_parameters<'py>(
    py: Python<'py>,
    charges: Charges<'py>,
    settings: Settings,
    exponent: u32,
) -> PyResult<Vec<(f64, f64, f64, f64)>> {
    let (system, settings) = (charges.system()?, EwaldSettings::from(settings));
    let parameters = compute(py, || settings.parameters_of_power(&system, exponent))?;
    Ok(parameters.iter().map(|p| (p.alpha, p.cutoff, p.k_cutoff, p.predicted_force_error)).collect())
}

/// The parameters of a particle mesh Ewald sum; a parameter that is None is chosen for the accuracy.
#[derive(FromPyObject)]
pub(crate) struct MeshSettings {
    alpha: Option<Vec<f64>>,
    cutoff: Option<Vec<f64>>,
    mesh_dimensions: Option<Vec<[usize; 3]>>,
    spline_order: Option<Vec<usize>>,
    accuracy: Option<f64>,
}

impl From<MeshSettings> for PmeSettings {
    fn from(s: MeshSettings) -> Self {
        Self {
            alpha: s.alpha,
            cutoff: s.cutoff,
            mesh_dimensions: s.mesh_dimensions,
            mesh_spacing: None,
            spline_order: s.spline_order,
            accuracy: s.accuracy,
        }
    }
}

/// The parameters (alpha, cutoff, predicted_force_error) of each system, and the nodes and the order (K₁, K₂, K₃, p) of its
/// mesh.
#[pyfunction]
pub(crate) fn pme_parameters<'py>(
    py: Python<'py>,
    charges: Charges<'py>,
    settings: MeshSettings,
    exponent: u32,
) -> PyResult<Vec<([f64; 3], [usize; 4])>> {
    let (system, settings) = (charges.system()?, PmeSettings::from(settings));
    let parameters = compute(py, || settings.parameters_of_power(&system, exponent))?;
    let rows = parameters.iter().map(|p| {
        let [k1, k2, k3] = p.mesh_dimensions;
        ([p.alpha, p.cutoff, p.predicted_force_error], [k1, k2, k3, p.spline_order])
    });
    Ok(rows.collect())
}

/// Cost of an Ewald sum over waves, of atoms in a volume, over that of a pair.
#[pyfunction]
pub(crate) fn ewald_cost(atoms: usize, volume: f64, cutoff: f64, k_cutoff: f64) -> f64 {
    let (alpha, predicted_force_error) = (f64::NAN, f64::NAN);
    EwaldParameters { alpha, cutoff, k_cutoff, predicted_force_error }.cost(atoms, volume)
}

/// That of one on a mesh.
#[pyfunction]
pub(crate) fn pme_cost(
    atoms: usize,
    volume: f64,
    cutoff: f64,
    mesh_dimensions: [usize; 3],
    spline_order: usize,
) -> f64 {
    let (alpha, predicted_force_error) = (f64::NAN, f64::NAN);
    PmeParameters { alpha, cutoff, mesh_dimensions, spline_order, predicted_force_error }.cost(atoms, volume)
}

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

/// Of a direct sum: the parameters (alpha, cutoff, k_cutoff, predicted_force_error), the images along each axis, and the cost.
type Direct = ([f64; 4], [i64; 3], f64);

/// Direct sums of systems of so many atoms in cells (B, 3, 3).
#[pyfunction]
pub(crate) fn direct_parameters(
    atoms: Vec<usize>,
    cells: PyReadonlyArray3<'_, f64>,
    settings: Settings,
) -> PyResult<Vec<Direct>> {
    let cells = elements(&cells)?.as_chunks().0.as_chunks().0;
    let of = |x: &Option<Vec<f64>>, b: usize| x.as_ref().map(|x| x[if x.len() == 1 { 0 } else { b }]);
    let row = |(b, (atoms, cell)): (usize, (&usize, &[[f64; 3]; 3]))| {
        let given = Prescribed {
            alpha: of(&settings.alpha, b),
            cutoff: of(&settings.cutoff, b),
            k_cutoff: of(&settings.k_cutoff, b),
        };
        // An empty system has nothing to sum, whatever the parameters.
        let atoms = (*atoms).max(1);
        let (p, images) = direct::direct_parameters(atoms, cell, settings.accuracy, given)?;
        let cost = direct::training_cost(atoms, cell, &p, images)?;
        Ok(([p.alpha, p.cutoff, p.k_cutoff, p.predicted_force_error], images, cost))
    };
    atoms.iter().zip(cells).enumerate().map(row).collect::<madelung::Result<_>>().map_err(exception)
}

/// The most atoms of an open system whose pairs cost no more directly than over a list.
#[pyfunction]
pub(crate) fn most_open_atoms() -> usize {
    direct::MOST_OPEN
}

/// Costs of sums over lists, in the unit of those of direct sums.
#[pyfunction]
pub(crate) fn listed_costs(
    atoms: Vec<usize>,
    cells: PyReadonlyArray3<'_, f64>,
    accuracy: f64,
) -> PyResult<Vec<f64>> {
    let cells = elements(&cells)?.as_chunks().0.as_chunks().0;
    let cost = |(atoms, cell): (&usize, &[[f64; 3]; 3])| direct::listed_cost((*atoms).max(1), cell, accuracy);
    atoms.iter().zip(cells).map(cost).collect::<madelung::Result<_>>().map_err(exception)
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
