//! Ops on arrays of CUDA devices.

use madelung::array::{Array, View};
use madelung::backend::Context;
use madelung::op::Evaluated;
use madelung::{Error, Result};
use madelung_bridge::layout::Type;
use madelung_bridge::{Entry, Member, describe, find};
use madelung_core::backend::Weights;
use pyo3::prelude::*;

use crate::call::{compute, exception};
use crate::device::{DeviceArray, DeviceStream, with_arrays};

/// The descriptions of all ops, as JSON, for calls by name.
#[pyfunction]
pub(crate) fn described_ops() -> PyResult<String> {
    let described = describe(&madelung::registries()).map_err(exception)?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}

/// Enqueues a member of an op on a stream. Bit `n` of `want` requests the gradient by the n-th differentiable argument,
/// bit `n` of `negate` negates result `n`. Results that are not requested are None.
#[pyfunction]
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
) -> PyResult<Vec<Option<DeviceArray>>> {
    let entry = find(target).map_err(exception)?;
    let counts = [tensors.len(), numbers.len(), extra.len()];
    let expected =
        [entry.tensors(), entry.inputs.len() - entry.tensors(), entry.member.extra_tensors(entry.counts)];
    if counts != expected {
        let [arrays, scalars, more] = expected;
        let expected = format!("{arrays} arrays and {scalars} numbers, and {more} arrays after them");
        let got = format!("{}, {} and {}", counts[0], counts[1], counts[2]);
        return Err(exception(Error::argument(target, expected, got)));
    }
    let kinds = entry.inputs.iter().filter(|input| input.kind != Type::Tensor);
    let numbers = kinds.zip(&numbers).map(|(input, number)| match input.kind {
        Type::Float => number.extract::<f64>().map(f64::to_bits),
        _ => number.extract::<i64>().map(|n| n as u64),
    });
    let numbers = numbers.collect::<PyResult<Vec<u64>>>()?;
    let tensors: Vec<&DeviceArray> = tensors.iter().map(Bound::get).collect();
    let extra: Vec<Option<&DeviceArray>> = extra.iter().map(|array| array.as_ref().map(Bound::get)).collect();
    let lane = &stream.0;
    compute(py, || {
        let all = tensors.iter().copied().map(Some).chain(extra.iter().copied()).enumerate();
        let named: Vec<_> = all.filter_map(|(n, array)| Some((array?, entry.name(n)))).collect();
        with_arrays(lane, &named, || {
            let cuda = lane.cuda();
            let context = lane.context(&cuda);
            let views: Vec<View<'_>> = tensors.iter().map(|array| array.view()).collect();
            let more: Vec<_> = extra.iter().map(|array| array.map(DeviceArray::view)).collect();
            let evaluated = entry.evaluate(&context, &views, &numbers, &more, want)?;
            let signed = results(entry, evaluated, want).into_iter().enumerate().map(|(n, array)| {
                let array = match array {
                    Some(array) if negate >> n & 1 != 0 => Some(negated(&context, array)?),
                    array => array,
                };
                Ok(array.map(|array| DeviceArray::made(lane, array)))
            });
            signed.collect::<Result<Vec<_>>>()
        })
    })
}

fn results(entry: &Entry, evaluated: Evaluated, want: u64) -> Vec<Option<Array>> {
    let mut gradients = evaluated.gradients.into_iter();
    let by = (0..entry.reals.len()).map(|n| if want >> n & 1 != 0 { gradients.next() } else { None });
    let values = evaluated.values.into_iter().map(Some);
    match entry.member {
        Member::Gradient | Member::GradientTangent => by.collect(),
        Member::Direct => values.chain(by).collect(),
        _ => values.chain(evaluated.saved).collect(),
    }
}

/// The negative of an array, which is recycled.
fn negated(context: &Context<'_>, array: Array) -> Result<Array> {
    let mut other = context.allocator.room(array.dtype(), array.shape())?;
    context.backend.scale_rows(context, &array.view(), &Weights::Uniform(-1.0), &mut other)?;
    context.allocator.recycle(array);
    Ok(other)
}
