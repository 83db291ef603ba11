//! Handlers of members on a CUDA stream.
//!
//! Scratch either comes from XLA's allocator and is freed when the handler returns, so that a captured call must not be
//! replayed. Or scratch is the last result of the call, which stays valid whenever XLA runs or replays the call; its
//! size follows from the types and shapes of the arrays, without a device.

use crate::call::MemberCall;
use crate::ffi::{Call, Operand, Output};
use crate::runtime::{on_stream, scratch_of};
use madelung_bridge::{InPlace, find};
use madelung_core::Result;
use madelung_core::array::DType;
use madelung_core::backend::Context;
use madelung_cuda::{Stream, measure};

/// The signature of a call: its attributes, types and shapes.
#[derive(Clone, Debug)]
pub struct Outline<'a> {
    /// The member's target.
    pub target: &'a str,
    /// Bits that mark the present arrays among those that follow the op's inputs.
    pub mask: u64,
    /// Bits that mark the requested gradients.
    pub want: u64,
    /// The numbers among the op's inputs: integers, or the bits of f64s; lists of integers with their lengths ahead.
    pub numbers: Vec<u64>,
    /// The types and shapes of operands.
    pub operands: Vec<(DType, Vec<usize>)>,
    /// The types and shapes of results, without the scratch.
    pub results: Vec<(DType, Vec<usize>)>,
}

/// The size in bytes of the scratch result of a call.
///
/// # Errors
/// The target is unknown, the arrays do not fit the member, or the size depends on values.
pub fn scratch(outline: &Outline<'_>) -> Result<usize> {
    let mut member = MemberCall {
        entry: find(outline.target)?,
        mask: outline.mask,
        want: outline.want,
        numbers: outline.numbers.clone(),
        operands: outline
            .operands
            .iter()
            .map(|(dtype, shape)| Operand::without_memory(*dtype, shape))
            .collect(),
        outputs: outline.results.iter().map(|(dtype, shape)| Output::without_memory(*dtype, shape)).collect(),
    };
    member.check()?;
    measure(|context, stream| put(&mut member, context, stream))
}

/// Enqueues a member on XLA's stream, with scratch from XLA's allocator.
pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let mut member = MemberCall::read(call)?;
    on_stream(call, None, |context, stream| put(&mut member, context, stream))
}

/// Enqueues a member on XLA's stream, with the last result as scratch.
pub(crate) fn run_with_scratch(call: &Call<'_>) -> Result<()> {
    let mut member = MemberCall::read(call)?;
    let scratch = scratch_of(&mut member.outputs)?;
    on_stream(call, Some(&scratch), |context, stream| put(&mut member, context, stream))
}

fn put(member: &mut MemberCall<'_>, context: &Context<'_>, stream: Stream) -> Result<()> {
    let place = context.backend.place();
    let results = member.outputs.iter().map(|output| output.array_on(place).map(Some));
    let allocator = InPlace::new(context.allocator, results.collect::<Result<_>>()?);
    let context = Context { allocator: &allocator, ..*context };
    let arrays = member.evaluate(&context, |operand, name| operand.view_on(place, name))?;
    for (array, output) in arrays.into_iter().zip(&mut member.outputs) {
        output.write_on(stream, &array.view())?;
        context.allocator.recycle(array);
    }
    Ok(())
}
