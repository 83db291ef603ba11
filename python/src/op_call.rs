//! Ops by name, on NumPy arrays and on arrays of CUDA devices.

use madelung::array::{Array, Place, View};
use madelung::backend::Context;
use madelung::op::{Evaluated, Registry};
use madelung::{Error, Result};
use madelung_bridge::layout::Type;
use madelung_bridge::{Entry, InPlace, Member, describe, find};
use madelung_core::backend::Weights;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use std::sync::OnceLock;

use crate::call::{compute, exception};
use crate::convert::{Numbers, given_any, lent};
use crate::device::{DeviceArray, with_arrays};
use crate::stream::DeviceStream;

/// The registries that frameworks call: ops, and searches.
pub(crate) fn registries() -> Vec<&'static Registry> {
    [madelung::registries(), vec![madelung_neighbors::searches()]].concat()
}

/// The descriptions of all ops and searches, as JSON, for calls by name.
#[pyfunction]
pub(crate) fn described_ops() -> PyResult<String> {
    let described = describe(&registries()).map_err(exception)?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}

/// Evaluates a member of an op on NumPy arrays. Bit `n` of `want` requests the gradient by the n-th differentiable
/// argument, bit `n` of `negate` negates result `n`. Results lie in the arrays `into`, where there are some. Those, and
/// results that are not requested, are None.
#[pyfunction]
#[pyo3(signature = (target, tensors, numbers, extra, want, negate, into = vec![]))]
#[expect(clippy::too_many_arguments, reason = "the arguments of a call")]
pub(crate) fn host_call<'py>(
    py: Python<'py>,
    target: &str,
    tensors: Vec<Numbers<'py>>,
    numbers: Vec<Bound<'py, PyAny>>,
    extra: Vec<Option<Numbers<'py>>>,
    want: u64,
    negate: u64,
    into: Vec<Option<Bound<'py, PyUntypedArray>>>,
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let entry = entry(target, [tensors.len(), numbers.len(), extra.len()])?;
    let numbers = bits(entry, &numbers)?;
    let views = tensors.iter().map(Numbers::view).collect::<PyResult<Vec<_>>>()?;
    let more = extra.iter().map(|x| x.as_ref().map(Numbers::view).transpose());
    let more = more.collect::<PyResult<Vec<_>>>()?;
    let rooms =
        into.iter().map(|array| array.as_ref().map(lent).transpose()).collect::<PyResult<Vec<_>>>()?;
    let arrays = compute(py, || {
        let context = madelung::cpu::context();
        let allocator = InPlace::new(context.allocator, rooms);
        let context = Context { allocator: &allocator, ..context };
        let evaluated = entry.evaluate(&context, &views, &numbers, &more, want)?;
        signed(&context, results(entry, evaluated, want), negate).map(|found| allocator.elsewhere(found))
    })?;
    arrays.into_iter().map(|array| array.map(|array| given_any(py, array)).transpose()).collect()
}

/// Enqueues a member of an op on a stream: see [`host_call`].
#[pyfunction]
#[pyo3(signature = (target, stream, tensors, numbers, extra, want, negate, into = vec![]))]
#[expect(clippy::too_many_arguments, reason = "the arguments of a call")]
pub(crate) fn device_call(
    py: Python<'_>,
    target: &str,
    stream: &DeviceStream,
    tensors: Vec<Bound<'_, DeviceArray>>,
    numbers: Vec<Bound<'_, PyAny>>,
    extra: Vec<Option<Bound<'_, DeviceArray>>>,
    want: u64,
    negate: u64,
    into: Vec<Option<Bound<'_, DeviceArray>>>,
) -> PyResult<Vec<Option<DeviceArray>>> {
    let entry = entry(target, [tensors.len(), numbers.len(), extra.len()])?;
    let numbers = bits(entry, &numbers)?;
    let tensors: Vec<&DeviceArray> = tensors.iter().map(Bound::get).collect();
    let extra: Vec<Option<&DeviceArray>> = extra.iter().map(|array| array.as_ref().map(Bound::get)).collect();
    let into: Vec<Option<&DeviceArray>> = into.iter().map(|array| array.as_ref().map(Bound::get)).collect();
    let lane = &stream.0;
    compute(py, || {
        let all = tensors.iter().copied().map(Some).chain(extra.iter().copied()).enumerate();
        let mut named: Vec<_> = all.filter_map(|(n, array)| Some((array?, entry.name(n)))).collect();
        let outputs = into.iter().zip(entry.op.outputs.iter());
        named.extend(outputs.filter_map(|(array, output)| Some(((*array)?, output.name.to_string()))));
        with_arrays(lane, &named, || {
            let cuda = lane.cuda();
            let context = lane.context(&cuda);
            let rooms = into.iter().map(|array| array.map(DeviceArray::room).transpose());
            let allocator = InPlace::new(context.allocator, rooms.collect::<Result<_>>()?);
            let context = Context { allocator: &allocator, ..context };
            let views = tensors.iter().enumerate().map(|(n, array)| array.view(&entry.name(n)));
            let views = views.collect::<Result<Vec<View<'_>>>>()?;
            let more = (tensors.len()..).zip(&extra);
            let more = more.map(|(n, array)| array.map(|array| array.view(&entry.name(n))).transpose());
            let more = more.collect::<Result<Vec<_>>>()?;
            let evaluated = entry.evaluate(&context, &views, &numbers, &more, want)?;
            let arrays = signed(&context, results(entry, evaluated, want), negate)?;
            let arrays = allocator.elsewhere(arrays).into_iter();
            Ok(arrays.map(|array| array.map(|array| DeviceArray::made(lane, array))).collect())
        })
    })
}

/// The member of a name.
pub(crate) fn member(target: &str) -> PyResult<&'static Entry> {
    static DESCRIBED: OnceLock<Result<()>> = OnceLock::new();
    let described = DESCRIBED.get_or_init(|| describe(&registries()).map(|_| ()));
    described.clone().and_then(|()| find(target)).map_err(exception)
}

/// The member of a name, for a call with so many arrays, numbers and further arrays.
fn entry(target: &str, counts: [usize; 3]) -> PyResult<&'static Entry> {
    let entry = find(target).map_err(exception)?;
    let expected =
        [entry.tensors(), entry.inputs.len() - entry.tensors(), entry.member.extra_tensors(entry.counts)];
    if counts != expected {
        let [arrays, scalars, more] = expected;
        let expected = format!("{arrays} arrays and {scalars} numbers, and {more} arrays after them");
        let got = format!("{}, {} and {}", counts[0], counts[1], counts[2]);
        return Err(exception(Error::argument(target, expected, got)));
    }
    Ok(entry)
}

/// The numbers of a call: integers, the bits of floats, and lists of integers with their lengths ahead.
fn bits(entry: &Entry, numbers: &[Bound<'_, PyAny>]) -> PyResult<Vec<u64>> {
    let kinds = entry.inputs.iter().map(|input| input.kind).filter(|kind| *kind != Type::Tensor);
    let mut bits = vec![];
    for (kind, number) in kinds.zip(numbers) {
        match kind {
            Type::Float => bits.push(number.extract::<f64>()?.to_bits()),
            Type::Integers => {
                let list = number.extract::<Vec<i64>>()?;
                bits.push(list.len() as u64);
                bits.extend(list.into_iter().map(i64::cast_unsigned));
            }
            _ => bits.push(number.extract::<i64>()?.cast_unsigned()),
        }
    }
    Ok(bits)
}

/// The results of a member in the order of its call, None for those that are not requested.
pub(crate) fn results(entry: &Entry, evaluated: Evaluated, want: u64) -> Vec<Option<Array>> {
    let mut gradients = evaluated.gradients.into_iter();
    let by = (0..entry.reals.len()).map(|n| if want >> n & 1 != 0 { gradients.next() } else { None });
    let values = evaluated.values.into_iter().map(Some);
    match entry.member {
        Member::Gradient | Member::GradientTangent => by.collect(),
        Member::Direct => values.chain(by).collect(),
        _ => values.chain(evaluated.saved).collect(),
    }
}

/// The results, with the other sign where `negate` has a bit.
pub(crate) fn signed(
    context: &Context<'_>,
    results: Vec<Option<Array>>,
    negate: u64,
) -> Result<Vec<Option<Array>>> {
    let signed = results.into_iter().enumerate().map(|(n, array)| match array {
        Some(array) if negate >> n & 1 != 0 => negated(context, n, array).map(Some),
        array => Ok(array),
    });
    signed.collect()
}

/// The negative of result `n`, which is recycled.
fn negated(context: &Context<'_>, n: usize, array: Array) -> Result<Array> {
    if array.place() == Place::Host {
        return array.map(|x| -x);
    }
    let mut other = match context.allocator.result(n, array.dtype(), array.shape())? {
        Some(array) => array,
        None => context.allocator.room(array.dtype(), array.shape())?,
    };
    context.backend.scale_rows(context, &array.view(), &Weights::Uniform(-1.0), &mut other)?;
    context.allocator.recycle(array);
    Ok(other)
}
