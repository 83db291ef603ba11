//! A call of a member.

use crate::arguments::Inputs;
use crate::{Counts, Entry, Member, NEGATIVE};
use madelung_core::Result;
use madelung_core::array::View;
use madelung_core::backend::Context;
use madelung_core::op::{Cotangent, Evaluated, Request, Size};
use madelung_core::structure::Structure;

impl Entry {
    /// The results of a member for `tensors` and `numbers` (integers, or the bits of floats), which are the op's
    /// arguments, and for the `extra` tensors that follow them, `None` where one is zero. Bit `n` of `want` asks for the
    /// gradient by the n-th differentiable argument.
    ///
    /// # Errors
    /// Where tensors and numbers are no arguments of the op, or the op refuses them.
    pub fn evaluate(
        &self,
        context: &Context<'_>,
        tensors: &[View<'_>],
        numbers: &[u64],
        extra: &[Option<View<'_>>],
        want: u64,
    ) -> Result<Evaluated> {
        let inputs = Inputs::new(self, tensors, numbers);
        let structures = inputs.structures(context)?;
        let done = self.run(context, &inputs, &structures, extra, want);
        let arrays = structures.into_iter().flatten().flat_map(|structure| structure.into_arrays());
        arrays.for_each(|array| context.allocator.recycle(array));
        done
    }

    fn run<'a>(
        &self,
        context: &Context<'_>,
        inputs: &Inputs<'a, '_>,
        structures: &'a [Option<Box<dyn Structure + 'a>>],
        extra: &[Option<View<'_>>],
        want: u64,
    ) -> Result<Evaluated> {
        let args = inputs.arguments(structures);
        let rows = |n: usize| match self.op.outputs[n].shape.as_slice() {
            [Size::Dim(dim)] => inputs.size_of(dim).ok(),
            _ => None,
        };
        let (op, reals) = (&self.op, &self.reals);
        let Counts { outputs, .. } = self.counts;
        let view = |n: usize| extra[n].clone();
        // The direction whose tangents begin at `from`.
        let direction = |from: usize| {
            let mut tangents = vec![None; op.passed().len()];
            for (n, arg) in reals.iter().enumerate() {
                tangents[*arg] = view(from + n);
            }
            tangents
        };
        let cotangents = || {
            (0..outputs)
                .map(|n| view(n).map(|w| cotangent(w, rows(n))))
                .collect::<Vec<Option<Cotangent<'_>>>>()
        };
        let wanted =
            || reals.iter().enumerate().filter(|(n, _)| want >> n & 1 != 0).map(|(_, arg)| *arg).collect();
        match self.member {
            Member::Value => op.evaluate(context, &args, &Request { values: true, ..Request::default() }),
            Member::Saving => {
                let by: Vec<usize> = wanted();
                op.evaluate(context, &args, &Request { values: true, save: Some(&by), ..Request::default() })
            }
            Member::Direct => {
                let weight = if want & NEGATIVE == 0 { 1.0 } else { -1.0 };
                let gradients: Vec<usize> = wanted();
                let cotangents = [Some(Cotangent::Uniform(weight))];
                let request = Request {
                    values: true,
                    cotangents: if gradients.is_empty() { &[] } else { &cotangents },
                    gradients: &gradients,
                    ..Request::default()
                };
                op.evaluate(context, &args, &request)
            }
            Member::Tangent => {
                let directions: [&[_]; 1] = [&direction(0)];
                op.evaluate(context, &args, &Request { directions: &directions, ..Request::default() })
            }
            Member::SecondTangent => {
                let directions: [&[_]; 2] = [&direction(0), &direction(reals.len())];
                op.evaluate(context, &args, &Request { directions: &directions, ..Request::default() })
            }
            Member::Gradient => {
                let saved = (0..self.counts.saved).map(|n| view(outputs + n)).collect::<Vec<_>>();
                let (cotangents, gradients): (_, Vec<usize>) = (cotangents(), wanted());
                let request = Request {
                    cotangents: &cotangents,
                    gradients: &gradients,
                    saved: &saved,
                    ..Request::default()
                };
                op.evaluate(context, &args, &request)
            }
            Member::GradientTangent => {
                let directions: [&[_]; 1] = [&direction(outputs)];
                let (cotangents, gradients): (_, Vec<usize>) = (cotangents(), wanted());
                let request = Request {
                    cotangents: &cotangents,
                    gradients: &gradients,
                    directions: &directions,
                    ..Request::default()
                };
                op.evaluate(context, &args, &request)
            }
        }
    }
}

/// A cotangent of an output of so many numbers, which kernels take in a cheaper form where it is the same for each.
fn cotangent(view: View<'_>, rows: Option<usize>) -> Cotangent<'_> {
    match view.uniform() {
        Some(x) if rows.is_some_and(|rows| view.shape() == [rows]) => Cotangent::Uniform(x),
        _ => Cotangent::Array(view),
    }
}
