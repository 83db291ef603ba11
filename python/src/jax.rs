//! The XLA handlers of ops.

use madelung_bridge_jax::{HANDLERS, Outline, Pair, SEARCH, WITH_SCRATCH, scratch, search_scratch};
use madelung_core::Error;
use madelung_core::array::DType;
use pyo3::prelude::*;

use crate::call::exception;

/// The name of each platform, and the addresses of its handlers of members and of the search: the plain handler, and
/// the handler whose last result is scratch (0 if there is none). The addresses are of static C functions.
#[pyfunction]
pub(crate) fn jax_handlers() -> Vec<(&'static str, [usize; 2], [usize; 2])> {
    let addresses =
        |pair: Pair| [pair.plain as usize, pair.with_scratch.map_or(0, |handler| handler as usize)];
    HANDLERS.iter().map(|h| (h.platform, addresses(h.member), addresses(h.search))).collect()
}

/// The target of the search, and the suffix of targets with a scratch result.
#[pyfunction]
pub(crate) fn jax_targets() -> (&'static str, &'static str) {
    (SEARCH, WITH_SCRATCH)
}

/// The name of a dtype, and a shape.
type Typed = (String, Vec<usize>);

fn typed(arrays: Vec<Typed>) -> PyResult<Vec<(DType, Vec<usize>)>> {
    let arrays = arrays.into_iter().map(|(name, shape)| {
        let all = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32, DType::I64];
        let dtype = all.into_iter().find(|dtype| dtype.to_string() == name);
        let dtype = dtype.ok_or_else(|| Error::argument("dtype", "one that an op has", &name))?;
        Ok((dtype, shape))
    });
    arrays.collect::<Result<_, Error>>().map_err(exception)
}

/// The size in bytes of the scratch result of a call. `numbers` are integers, or the bits of floats.
#[pyfunction]
pub(crate) fn jax_scratch(
    target: &str,
    mask: i64,
    want: i64,
    numbers: Vec<i64>,
    operands: Vec<Typed>,
    results: Vec<Typed>,
) -> PyResult<usize> {
    let outline = Outline {
        target,
        mask: mask.cast_unsigned(),
        want: want.cast_unsigned(),
        numbers: numbers.into_iter().map(i64::cast_unsigned).collect(),
        operands: typed(operands)?,
        results: typed(results)?,
    };
    scratch(&outline).map_err(exception)
}

/// The size in bytes of the scratch result of a search.
#[pyfunction]
pub(crate) fn jax_search_scratch(
    systems: usize,
    operands: Vec<Typed>,
    results: Vec<Typed>,
) -> PyResult<usize> {
    search_scratch(systems, &typed(operands)?, &typed(results)?).map_err(exception)
}
