//! The XLA handlers of ops.

use madelung_bridge_jax::{HANDLERS, Outline, WITH_SCRATCH, scratch};
use madelung_core::Error;
use madelung_core::array::DType;
use pyo3::prelude::*;

use crate::call::exception;

/// The suffix of targets with a scratch result, and for each platform its name and the addresses of its handlers, which
/// are static C functions: the plain one, and the one whose last result is scratch (0 if there is none).
#[pyfunction]
pub(crate) fn jax_handlers() -> (&'static str, Vec<(&'static str, [usize; 2])>) {
    let scratch = |handler: Option<_>| handler.map_or(0, |handler| handler as usize);
    let addresses = HANDLERS.iter().map(|h| (h.platform, [h.plain as usize, scratch(h.with_scratch)]));
    (WITH_SCRATCH, addresses.collect())
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

/// The size in bytes of the scratch result of a call. `numbers` are integers, or the bits of floats; ahead of the integers of
/// a list stands their number.
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
