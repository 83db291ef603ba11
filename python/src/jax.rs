//! The ops as XLA's handlers.

use madelung_bridge_jax::{HANDLERS, SEARCH, describe};
use pyo3::prelude::*;

use crate::call::exception;

/// What handlers know of all ops, as JSON.
#[pyfunction]
pub(crate) fn jax_init() -> PyResult<String> {
    let described = describe(&madelung::registries()).map_err(exception)?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}

/// For each platform its name, the address of the handler of members, that of the handler of the search, and the
/// target of the latter. They are those of C functions, good for ever.
#[pyfunction]
pub(crate) fn jax_handlers() -> Vec<(&'static str, usize, usize, &'static str)> {
    HANDLERS.iter().map(|h| (h.platform, h.member as usize, h.search as usize, SEARCH)).collect()
}
