//! The ops as XLA's handlers.

use madelung_bridge_jax::{HANDLERS, Outline, SEARCH, WITH_SCRATCH, scratch};
use madelung_core::Error;
use madelung_core::array::DType;
use pyo3::prelude::*;

use crate::call::exception;

/// For each platform its name, the address of the handler of members, that of the handler of members that have their
/// scratch as a result (0 where there is none), and that of the handler of the search. They are those of C functions, good
/// for ever.
#[pyfunction]
pub(crate) fn jax_handlers() -> Vec<(&'static str, usize, usize, usize)> {
    let handlers = HANDLERS.iter();
    handlers
        .map(|h| {
            let with_scratch = h.member_with_scratch.map_or(0, |handler| handler as usize);
            (h.platform, h.member as usize, with_scratch, h.search as usize)
        })
        .collect()
}

/// The target of the search, and what follows the name of a target that has its scratch as a result.
#[pyfunction]
pub(crate) fn jax_targets() -> (&'static str, &'static str) {
    (SEARCH, WITH_SCRATCH)
}

/// A dtype by its name, and a shape.
type Typed = (String, Vec<usize>);

/// How many bytes of scratch a call needs as its last result. `numbers` are integers, or the bits of floats.
#[pyfunction]
pub(crate) fn jax_scratch(
    target: &str,
    mask: i64,
    want: i64,
    numbers: Vec<i64>,
    operands: Vec<Typed>,
    results: Vec<Typed>,
) -> PyResult<usize> {
    let typed = |arrays: Vec<Typed>| {
        let arrays = arrays.into_iter().map(|(name, shape)| {
            let all = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32, DType::I64];
            let dtype = all.into_iter().find(|dtype| dtype.to_string() == name);
            let dtype = dtype.ok_or_else(|| Error::argument("dtype", "one that an op has", &name))?;
            Ok((dtype, shape))
        });
        arrays.collect::<Result<Vec<_>, Error>>().map_err(exception)
    };
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
