//! The ops in PyTorch's dispatcher.

use pyo3::prelude::*;

use crate::call::exception;

/// Registers all ops with the libtorch that is loaded from `path`. Returns the registered ops, as JSON.
#[pyfunction]
pub(crate) fn torch_init(path: &str) -> PyResult<String> {
    let described = madelung_bridge_torch::register(path, &madelung::registries()).map_err(exception)?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}
