//! A frame on the stream of a CUDA device.
//!
//! Scratch comes from XLA's allocator, and goes back to it when the handler returns, so that a captured call must not
//! run again. Or it is the last result of the call, which XLA keeps whenever the call runs, also as a part of a graph:
//! its size follows from the types and sizes of the arrays, without a device.

use crate::call::MemberCall;
use crate::ffi::{Call, Operand, Output, unfit};
use crate::runtime::{on_stream, scratch_of};
use madelung_bridge::find;
use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::backend::context::Allocator;
use madelung_cuda::{Stream, measure};
use std::sync::{Mutex, PoisonError};

/// A call by its types and sizes.
#[derive(Clone, Debug)]
pub struct Outline<'a> {
    /// The member's target.
    pub target: &'a str,
    /// Bits of the arrays that follow the op's, of those that may.
    pub mask: u64,
    /// Bits of the inputs whose gradients are wanted.
    pub want: u64,
    /// The numbers among the op's inputs: integers, or the bits of floats.
    pub numbers: Vec<u64>,
    /// The types and shapes of operands.
    pub operands: Vec<(DType, Vec<usize>)>,
    /// The types and shapes of results, without the scratch.
    pub results: Vec<(DType, Vec<usize>)>,
}

/// The bytes of scratch that a call needs as its last result.
///
/// # Errors
/// There is no such member, the arrays do not fit the member, or only a device knows.
pub fn scratch(outline: &Outline<'_>) -> Result<usize> {
    let mut member = MemberCall {
        entry: find(outline.target)?,
        mask: outline.mask,
        want: outline.want,
        numbers: outline.numbers.clone(),
        operands: outline.operands.iter().map(|(dtype, shape)| Operand::nowhere(*dtype, shape)).collect(),
        outputs: outline.results.iter().map(|(dtype, shape)| Output::nowhere(*dtype, shape)).collect(),
    };
    member.check()?;
    measure(|context, stream| put(&mut member, context, stream))
}

/// Puts a member on XLA's stream, with scratch of XLA's allocator.
pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let mut member = MemberCall::read(call)?;
    on_stream(call, None, |context, stream| put(&mut member, context, stream))
}

/// Puts a member on XLA's stream, with the last result as scratch.
pub(crate) fn run_with_scratch(call: &Call<'_>) -> Result<()> {
    let mut member = MemberCall::read(call)?;
    let scratch = scratch_of(&mut member.outputs)?;
    on_stream(call, Some(&scratch), |context, stream| put(&mut member, context, stream))
}

fn put(member: &mut MemberCall<'_>, context: &Context<'_>, stream: Stream) -> Result<()> {
    let place = context.backend.place();
    let results = member.outputs.iter().map(|output| Ok(Mutex::new(Some(output.array_on(place)?))));
    let allocator = InPlace { scratch: context.allocator, results: results.collect::<Result<_>>()? };
    let context = Context { allocator: &allocator, ..*context };
    let arrays = member.evaluate(&context, |operand, name| operand.view_on(place, name))?;
    for (array, output) in arrays.into_iter().zip(&mut member.outputs) {
        output.write_on(stream, &array.view())?;
        context.allocator.recycle(array);
    }
    Ok(())
}

/// An allocator of scratch that places results in the frame's own.
struct InPlace<'a> {
    scratch: &'a dyn Allocator,
    results: Vec<Mutex<Option<Array>>>,
}

impl Allocator for InPlace<'_> {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.scratch.zeros(dtype, shape)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.scratch.room(dtype, shape)
    }

    fn result(&self, n: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        let Some(result) = self.results.get(n) else { return Ok(None) };
        let Some(array) = result.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(None);
        };
        if (array.dtype(), array.shape()) != (dtype, shape) {
            return Err(unfit(dtype, shape, array.shape()));
        }
        Ok(Some(array))
    }

    fn recycle(&self, array: Array) {
        self.scratch.recycle(array);
    }
}
