//! The ops as XLA's handlers.

use madelung_bridge_jax::{HANDLERS, SEARCH};
use pyo3::prelude::*;

/// For each platform its name, the address of the handler of members, that of the handler of the search, and the
/// target of the latter. They are those of C functions, good for ever.
#[pyfunction]
pub(crate) fn jax_handlers() -> Vec<(&'static str, usize, usize, &'static str)> {
    HANDLERS.iter().map(|h| (h.platform, h.member as usize, h.search as usize, SEARCH)).collect()
}
