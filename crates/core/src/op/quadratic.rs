//! Ops whose rows add up to a form of second degree in one argument, and another op that has that sum.
//!
//! By Euler's theorem, E = ½ Σᵢ qᵢ ∂E/∂qᵢ for such a form, and where row i is ½ qᵢ ∂E/∂qᵢ one gradient of the sum gives all
//! rows, beside any other first gradient: with half of the Fourier transforms that rows of their own would take.

use super::declare::Op;
use super::request::{Arg, Cotangent, Evaluated, Request};
use crate::array::{Array, DType, Place};
use crate::backend::context::Allocator;
use crate::backend::{Context, Weights};
use crate::{Error, Result};
use std::sync::Arc;

/// The sum of an op's rows.
#[derive(Clone, Debug)]
pub(super) struct Quadratic {
    /// The argument of second degree.
    pub(super) of: String,
    /// The op of the sum, with the same arguments.
    pub(super) sum: Arc<Op>,
}

/// The allocator of the sum's call: its first gradients are results of the outer call, which the caller may have arrays for.
struct Inner<'a> {
    outer: &'a dyn Allocator,
    /// The result of the outer call that gradient 0 is, and the number of gradients that are results.
    first: usize,
    count: usize,
}

impl Allocator for Inner<'_> {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.outer.zeros(dtype, shape)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.outer.room(dtype, shape)
    }

    fn result(&self, n: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        if n < self.count { self.outer.result(self.first + n, dtype, shape) } else { Ok(None) }
    }

    fn recycle(&self, array: Array) {
        self.outer.recycle(array);
    }
}

impl Op {
    /// The rows, and gradients by a cotangent that is one number for all rows, from the gradient of the sum; None for other
    /// members.
    pub(super) fn evaluated_as_sum(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
    ) -> Result<Option<Evaluated>> {
        let Some(Quadratic { of, sum }) = &self.quadratic else { return Ok(None) };
        let weight = match request.cotangents {
            [] if request.gradients.is_empty() => 1.0,
            [Some(Cotangent::Uniform(weight))] => *weight,
            _ => return Ok(None),
        };
        let of = self.arg(of).filter(|of| matches!(args.get(*of), Some(Arg::Array(_))));
        let (Some(of), true) = (of, request.directions.is_empty() && request.saved.is_empty()) else {
            return Ok(None);
        };
        let wants_rows = request.cotangents.is_empty() || request.values;
        // A weight that is its own inverse.
        if wants_rows && weight.abs() != 1.0 {
            return Ok(None);
        }
        let mut gradients = request.gradients.to_vec();
        if wants_rows && !gradients.contains(&of) {
            gradients.push(of);
        }
        let cotangent = [Some(Cotangent::Uniform(weight))];
        let of_sum = Request { cotangents: &cotangent, gradients: &gradients, ..Request::default() };
        let (first, count) = (usize::from(wants_rows), request.gradients.len());
        let inner = Inner { outer: context.allocator, first, count };
        let mut found = sum.evaluate(&Context { allocator: &inner, ..*context }, args, &of_sum)?.gradients;
        let mut evaluated = Evaluated::default();
        if let (true, Some(at), Arg::Array(values)) =
            (wants_rows, gradients.iter().position(|n| *n == of), &args[of])
        {
            let found = found[at].view();
            let mut rows = match context.allocator.result(0, found.dtype(), found.shape())? {
                Some(array) => array,
                None => context.allocator.room(found.dtype(), found.shape())?,
            };
            context.backend.scale_rows(context, &found, &Weights::Rows(values, 0.5 * weight), &mut rows)?;
            evaluated.values.push(rows);
        }
        found.drain(count..).for_each(|array| context.allocator.recycle(array));
        evaluated.gradients = found;
        // The products may pass the range of the dtype where the gradients did not.
        if context.backend.place() == Place::Host {
            evaluated = self.settle(context, args, request, evaluated, false, None)?;
        }
        Ok(Some(evaluated))
    }

    /// The op of the sum has the same arguments, and nothing is saved for backward passes.
    pub(super) fn check_quadratic(&self) -> Result<()> {
        let Some(Quadratic { of, sum }) = &self.quadratic else { return Ok(()) };
        let names = |op: &Op| op.args.iter().map(|arg| arg.name.clone()).collect::<Vec<_>>();
        let fits = names(self) == names(sum) && self.arg(of).is_some_and(|of| self.is_differentiable(of));
        let rows = matches!(self.outputs.as_slice(), [one] if self.arg(of).and_then(|of| self.shape_of(of)) == Some(&one.shape));
        if fits && rows && self.saved().is_empty() {
            return Ok(());
        }
        let expected = "an op of the same arguments, and an output with a row for each of theirs";
        Err(Error::argument(format!("sum of {}", self.full_name()), expected, sum.full_name()))
    }
}
