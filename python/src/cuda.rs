//! CUDA devices, and the CUDA source text of kernels.

use madelung::cuda::{self, Device};
use madelung_core::runtime::{FINISH_NODES, FINISH_SCATTERED, Member, PRELUDE};
use madelung_cuda::primitives;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

use crate::call::compute;

/// Sets folders to search for CUDA's libraries before the system's folders.
#[pyfunction]
pub(crate) fn set_library_folders(folders: Vec<PathBuf>) {
    cuda::set_library_folders(folders);
}

/// Waits for a CUDA device, and raises the first error that its calls have recorded since the last check.
#[pyfunction]
pub(crate) fn check_device(py: Python<'_>, ordinal: usize) -> PyResult<()> {
    compute(py, || cuda::check(Device::get(ordinal)?))
}

/// The number of CUDA devices for which kernels can be compiled; only the driver itself is initialised.
#[pyfunction]
pub(crate) fn cuda_devices(py: Python<'_>) -> PyResult<usize> {
    compute(py, || Ok(if cuda::has_compiler() { Device::count().unwrap_or(0) } else { 0 }))
}

/// A dictionary for each CUDA function: the kernel, the function's name, the source text (which begins with the
/// prelude), the prelude, whether the function computes with dual numbers, and the name of the function that packs its
/// input records where `PACKED` is 1, if any. `REAL` is to be defined as `float` or `double`.
#[pyfunction]
pub(crate) fn cuda_sources(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let source = |kernel: &str, name: &str, text: &str, dual: bool, records: Option<&str>| -> PyResult<_> {
        let source = PyDict::new(py);
        source.set_item("kernel", kernel)?;
        source.set_item("name", name)?;
        source.set_item("text", format!("{PRELUDE}{text}"))?;
        source.set_item("prelude", PRELUDE)?;
        source.set_item("dual", dual)?;
        source.set_item("records", records)?;
        Ok(source)
    };
    let mut sources = vec![
        source("scattered", "madelung_scattered", FINISH_SCATTERED, false, None)?,
        source("nodes", "madelung_nodes", FINISH_NODES, false, None)?,
    ];
    let physics = madelung_neighbors::all_kernels().into_iter().chain(madelung_electrostatics::all_kernels());
    for kernel in physics.chain(madelung_potentials::all_kernels()) {
        for form in kernel.forms {
            let dual = !matches!(form.member, Member::Value | Member::Gradient);
            for part in form.parts {
                let records = part.cuda.records.map(|r| r.name);
                sources.push(source(kernel.name, part.cuda.name, part.cuda.text, dual, records)?);
            }
        }
    }
    Ok(sources)
}

/// A dictionary for each program of the backend's primitives (scans, sorts, sums, ...) and choice of types: the name,
/// the types, the source text, and the names of the functions.
#[pyfunction]
pub(crate) fn cuda_primitives(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let dictionary = |program: primitives::Compiled| {
        let source = PyDict::new(py);
        let types: String = program.types.iter().map(|(name, t)| format!("#define {name} {t}\n")).collect();
        source.set_item("name", program.name)?;
        source.set_item("types", program.types.iter().map(|(_, t)| *t).collect::<Vec<_>>())?;
        source.set_item("text", types + &program.text())?;
        source.set_item("functions", program.functions)?;
        Ok(source)
    };
    let searches = madelung_neighbors::device::programs();
    madelung_cuda::programs().into_iter().chain(searches).map(dictionary).collect()
}
