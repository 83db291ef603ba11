//! Ewald sums.

use madelung::electrostatics::kvectors::miller_indices_batch;
use madelung::pairs::{Kind, PairList};
use madelung::{Energies, Error, EwaldSettings, Options, Reduction, Result, System};
use numpy::ndarray::Array1;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{compute, exception};
use crate::convert::{Floats, Groups, elements, given, given_any, triples};
use crate::neighbors::{narrow_offsets, rows_of_three};

/// The attributes of a Python object with the charges of a call.
#[derive(FromPyObject)]
pub(crate) struct Charges<'py> {
    positions: Floats<'py>,
    charges: Floats<'py>,
    cell: Floats<'py>,
    groups: Groups<'py>,
}

impl Charges<'_> {
    fn system(&self) -> PyResult<System<'_>> {
        let positions = self.positions.view()?;
        let batch = self.groups.batch(positions.shape().first().copied().unwrap_or(0))?;
        System::new(positions, self.charges.view()?, self.cell.view()?, batch).map_err(exception)
    }
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

/// The requested results of a call.
#[derive(FromPyObject)]
pub(crate) struct Outputs {
    prefactor: f64,
    per_system: bool,
    forces: bool,
    charge_gradients: bool,
    virial: bool,
}

impl Outputs {
    fn options(&self) -> Options {
        Options {
            prefactor: self.prefactor,
            energy_reduction: if self.per_system { Reduction::System } else { Reduction::Atom },
            compute_forces: self.forces,
            compute_charge_gradients: self.charge_gradients,
            compute_virial: self.virial,
        }
    }
}

/// Energies, then the results requested: forces, charge gradients, virial.
fn results(py: Python<'_>, done: Energies) -> PyResult<Bound<'_, PyTuple>> {
    let optional = [done.forces, done.charge_gradients, done.virial];
    let arrays = std::iter::once(done.energies).chain(optional.into_iter().flatten());
    PyTuple::new(py, arrays.map(|a| given_any(py, a)).collect::<PyResult<Vec<_>>>()?)
}

/// The real-space part of the Ewald sum.
#[pyfunction]
pub(crate) fn ewald_real_space<'py>(
    py: Python<'py>,
    charges: Charges<'py>,
    alpha: Vec<f64>,
    cutoff: f64,
    neighbors: Option<Neighbors<'py>>,
    outputs: Outputs,
) -> PyResult<Bound<'py, PyTuple>> {
    let (system, options) = (charges.system()?, outputs.options());
    let neighbors = neighbors.as_ref().map(Neighbors::borrowed).transpose()?;
    let done = compute(py, || {
        let context = madelung::cpu::context();
        let pairs = match neighbors {
            Some(given) => given.pairs(system.batch().atoms())?,
            None => system.neighbor_list(cutoff, &context.threads())?,
        };
        madelung::ewald_real_space(&context, &system, &alpha, &pairs, cutoff, &options)
    })?;
    results(py, done)
}

/// The reciprocal-space part of the Ewald sum.
#[pyfunction]
pub(crate) fn ewald_reciprocal_space<'py>(
    py: Python<'py>,
    charges: Charges<'py>,
    alpha: Vec<f64>,
    k_cutoff: Vec<f64>,
    outputs: Outputs,
) -> PyResult<Bound<'py, PyTuple>> {
    let (system, options) = (charges.system()?, outputs.options());
    let done = compute(py, || {
        madelung::ewald_reciprocal_space(&madelung::cpu::context(), &system, &alpha, &k_cutoff, &options)
    })?;
    results(py, done)
}

/// The parameters of an Ewald sum; a parameter that is None is chosen for the accuracy.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    alpha: Option<Vec<f64>>,
    cutoff: Option<f64>,
    k_cutoff: Option<Vec<f64>>,
    accuracy: f64,
}

impl From<Settings> for EwaldSettings {
    fn from(s: Settings) -> Self {
        Self { alpha: s.alpha, cutoff: s.cutoff, k_cutoff: s.k_cutoff, accuracy: s.accuracy }
    }
}

/// The Ewald sum.
#[pyfunction]
pub(crate) fn ewald_summation<'py>(
    py: Python<'py>,
    charges: Charges<'py>,
    settings: Settings,
    neighbors: Option<Neighbors<'py>>,
    outputs: Outputs,
) -> PyResult<Bound<'py, PyTuple>> {
    let (system, options, settings) = (charges.system()?, outputs.options(), settings.into());
    let neighbors = neighbors.as_ref().map(Neighbors::borrowed).transpose()?;
    let done = compute(py, || {
        let pairs = neighbors.map(|given| given.pairs(system.batch().atoms())).transpose()?;
        madelung::ewald_summation(&madelung::cpu::context(), &system, &settings, pairs.as_ref(), &options)
    })?;
    results(py, done)
}

/// The parameters (alpha, cutoff, k_cutoff, predicted_force_error) of each system.
#[pyfunction]
pub(crate) fn ewald_parameters<'py>(
    py: Python<'py>,
    charges: Charges<'py>,
    settings: Settings,
) -> PyResult<Vec<(f64, f64, f64, f64)>> {
    let (system, settings) = (charges.system()?, EwaldSettings::from(settings));
    let parameters = compute(py, || settings.parameters(&system))?;
    Ok(parameters.iter().map(|p| (p.alpha, p.cutoff, p.k_cutoff, p.predicted_force_error)).collect())
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
