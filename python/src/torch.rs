//! Registration of ops with PyTorch.

use pyo3::prelude::*;

use crate::call::exception;
use crate::op_call::registries;

/// Registers all ops with the libtorch that is loaded from `path`. Returns their descriptions, as JSON.
#[pyfunction]
pub(crate) fn torch_init(path: &str) -> PyResult<String> {
    let described = madelung_bridge_torch::register(path, &registries()).map_err(exception)?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}
