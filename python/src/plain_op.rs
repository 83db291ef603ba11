//! Members of ops on plain arrays.

use madelung::array::{Data, Place};
use madelung_bridge::Entry;
use madelung_bridge::layout::Type;
use pyo3::prelude::*;
use pyo3::types::{PyNotImplemented, PyTuple};

use crate::op_call::{member, results};
use crate::plain::{Plain, Site};

/// A member of an op on plain arrays. It calls nothing of Python: while an outer call of this module runs on the thread, the
/// interpreter's lock counts as held, and a kernel that the dispatcher of a framework runs without it would use Python
/// unlocked.
#[pyclass(frozen, module = "madelung")]
pub(crate) struct PlainOp {
    entry: &'static Entry,
    plain: Py<Plain>,
    /// Whether a single result comes unwrapped.
    unwraps: bool,
}

#[pymethods]
impl PlainOp {
    #[new]
    fn new(target: &str, plain: Py<Plain>, unwraps: bool) -> PyResult<Self> {
        Ok(Self { entry: member(target)?, plain, unwraps })
    }

    /// The results; `NotImplemented`, where an argument is not plain or the call fails, which another way tells of.
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.called(args)?;
        Ok(found.unwrap_or_else(|| PyNotImplemented::get(args.py()).to_owned().into_any()))
    }
}

impl PlainOp {
    fn called<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, entry, plain) = (args.py(), self.entry, self.plain.get());
        let args: Vec<_> = args.iter().collect();
        let flags = usize::from(entry.member.has_mask()) + usize::from(entry.member.has_want());
        let extras = entry.member.extra_tensors(entry.counts);
        if args.len() != entry.inputs.len() + extras + flags || !plain.is_ordinary(py)? {
            return Ok(None);
        }
        let (args, flags) = args.split_at(args.len() - flags);
        let (inputs, extras) = args.split_at(entry.inputs.len());
        let flags = flags.iter().map(|flag| flag.extract::<u64>()).collect::<PyResult<Vec<_>>>()?;
        let mask = if entry.member.has_mask() { flags[0] } else { 0 };
        let want = if entry.member.has_want() { flags[flags.len() - 1] } else { 0 };
        let (mut tensors, mut numbers) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
        for (input, x) in entry.inputs.iter().zip(inputs) {
            match input.kind {
                Type::Float => numbers.push(x.extract::<f64>()?.to_bits()),
                Type::Int => numbers.push(x.extract::<i64>()?.cast_unsigned()),
                Type::Tensor | Type::Integers => {
                    let Some(view) = plain.view(x)? else { return Ok(None) };
                    match (input.kind, view.data()) {
                        (Type::Tensor, _) => tensors.push(view),
                        (_, Data::I64(list)) => {
                            numbers.push(list.len() as u64);
                            numbers.extend(list.iter().map(|n| n.cast_unsigned()));
                        }
                        _ => return Ok(None),
                    }
                }
            }
        }
        let mut more = Vec::with_capacity(extras.len());
        for (n, x) in extras.iter().enumerate() {
            let is_there = mask >> n & 1 != 0;
            let view = if is_there { plain.view(x)? } else { None };
            if is_there && view.is_none() {
                return Ok(None);
            }
            more.push(view);
        }
        let on_device = tensors.iter().find_map(|view| match view.place() {
            Place::Cuda(ordinal) => Some(ordinal),
            Place::Host => None,
        });
        let site = on_device.map_or(Site::Host, Site::Torch);
        let found = plain.run(py, &site, false, |context| {
            Ok(results(entry, entry.evaluate(context, &tensors, &numbers, &more, want)?, want))
        })?;
        let Some(found) = found else { return Ok(None) };
        let wrapped = |found| PyTuple::new(py, found).map(Bound::into_any);
        if self.unwraps { unpacked(py, found) } else { wrapped(found) }.map(Some)
    }
}

/// One result, or several.
pub(crate) fn unpacked<'py>(
    py: Python<'py>,
    mut results: Vec<Option<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    match (results.len(), results.pop().flatten()) {
        (1, Some(result)) => Ok(result),
        (_, last) => {
            results.push(last);
            Ok(PyTuple::new(py, results)?.into_any())
        }
    }
}
