//! Calls of the dispatcher as calls of ops.

use crate::pieces::Pieces;
use crate::shim::shim;
use crate::tensor::{InputTensor, Tensor, TorchCudaMemory, TorchMemory, stream};
use crate::threads::TorchThreads;
use madelung_bridge::{Flat, Member};
use madelung_core::Result;
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::{Allocator, Context};
use madelung_core::op::Evaluated;
use madelung_cuda::{Cuda, Stream, check};
use std::sync::OnceLock;

/// A member of an op's family that the dispatcher can call.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) of: madelung_bridge::Entry,
    /// Whether results that are not requested are empty tensors, as graphs need, rather than undefined ones.
    empties: bool,
}

impl Entry {
    pub(crate) fn new(flat: &Flat, member: Member, empties: bool) -> Self {
        Self { of: madelung_bridge::Entry::new(flat, member), empties }
    }
}

/// Runs a member for the tensors and numbers of its schema.
pub(crate) fn run(entry: &Entry, tensors: Vec<Tensor>, numbers: &[u64]) -> Result<Vec<Tensor>> {
    let flags = usize::from(entry.of.member.has_mask()) + usize::from(entry.of.member.has_want());
    let (numbers, flags) = numbers.split_at(numbers.len() - flags);
    let mask = if entry.of.member.has_mask() { flags[0] } else { 0 };
    let want = if entry.of.member.has_want() { flags[flags.len() - 1] } else { 0 };
    let count = tensors.len() - entry.of.member.extra_tensors(entry.of.counts);
    let place = match tensors.first().map(Tensor::place).transpose()?.flatten() {
        Some(place @ Place::Cuda(_)) => place,
        _ => Place::Host,
    };
    // Allocated at full size, since small calls are frequent.
    let (mut inputs, mut extra) = (Vec::with_capacity(count), Vec::with_capacity(tensors.len() - count));
    for (n, tensor) in tensors.into_iter().enumerate() {
        if n < count {
            inputs.push(tensor.into_input(place, &|| entry.of.name(n))?);
        } else {
            // A placeholder for zero is not examined.
            let is_present = mask >> (n - count) & 1 != 0;
            extra.push(is_present.then(|| tensor.into_input(place, &|| entry.of.name(n))).transpose()?);
        }
    }
    let (mut views, mut extra_views) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(extra.len()));
    for input in &inputs {
        views.push(input.view()?);
    }
    for input in &extra {
        extra_views.push(input.as_ref().map(InputTensor::view).transpose()?);
    }
    let evaluated = match place {
        Place::Host => {
            on_host(&TorchMemory, |context| entry.of.evaluate(context, &views, numbers, &extra_views, want))?
        }
        Place::Cuda(ordinal) => {
            let whole = TorchCudaMemory { stream: stream(ordinal)? };
            let result = |dtype: DType, shape: &[usize]| whole.room(dtype, shape);
            on_device(ordinal, &result, |context| {
                entry.of.evaluate(context, &views, numbers, &extra_views, want)
            })?
        }
    };
    results(entry, evaluated, want, place)
}

/// Runs `work` on the host, with torch's threads and memory of `allocator`.
pub fn on_host<T>(allocator: &dyn Allocator, work: impl FnOnce(&Context<'_>) -> T) -> T {
    let known = shim().threads();
    let torch = known.filter(|threads| *threads > 1).and_then(TorchThreads::new);
    let context = madelung_cpu::context().with_max_threads(known.unwrap_or(usize::MAX));
    let context = Context { allocator, ..context };
    work(&torch.as_ref().map_or(context, |torch| context.with_pool(torch)))
}

/// Runs `work` on torch's current stream of a device, with torch's memory; `result` makes the arrays of results.
///
/// # Errors
/// Those of `work`; no such device.
pub fn on_device<T>(
    ordinal: usize,
    result: &(dyn Fn(DType, &[usize]) -> Result<Array> + Sync),
    work: impl FnOnce(&Context<'_>) -> Result<T>,
) -> Result<T> {
    let stream = stream(ordinal)?;
    let (cuda, memory) = (Cuda::new(stream), Pieces::new(TorchCudaMemory { stream }, result));
    let done = work(&Context { allocator: &memory, ..Context::new(&cuda) })?;
    checked(stream)?;
    Ok(done)
}

/// Whether every call on a device waits and checks for errors, so that the call itself raises its error: set by CUDA's
/// environment variable or by Madelung's.
fn is_blocking() -> bool {
    static BLOCKING: OnceLock<bool> = OnceLock::new();
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    *BLOCKING.get_or_init(|| ["MADELUNG_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"].into_iter().any(is_set))
}

/// Checks the device for errors so far, if blocking checks are on and no capture is in progress.
fn checked(stream: Stream) -> Result<()> {
    if is_blocking() && !stream.is_capturing()? { check(stream.device()) } else { Ok(()) }
}

fn results(entry: &Entry, evaluated: Evaluated, want: u64, place: Place) -> Result<Vec<Tensor>> {
    let none = evaluated.values.first().or(evaluated.gradients.first()).map_or(DType::F32, Array::dtype);
    let mut results = Vec::with_capacity(entry.of.member.results(entry.of.counts));
    let mut give = |array: Option<Array>| -> Result<()> {
        results.push(match array {
            Some(array) => Tensor::from_array(array)?,
            None if entry.empties => Tensor::empty(none, &[0], place)?.0,
            None => Tensor::undefined()?,
        });
        Ok(())
    };
    let member = entry.of.member;
    if !matches!(member, Member::Gradient | Member::GradientTangent) {
        evaluated.values.into_iter().map(Some).try_for_each(&mut give)?;
    }
    match member {
        Member::Direct | Member::Gradient | Member::GradientTangent => {
            let mut gradients = evaluated.gradients.into_iter();
            for n in 0..entry.of.reals.len() {
                give(if want >> n & 1 != 0 { gradients.next() } else { None })?;
            }
        }
        _ => evaluated.saved.into_iter().try_for_each(&mut give)?,
    }
    Ok(results)
}
