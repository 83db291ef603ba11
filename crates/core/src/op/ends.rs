//! Beginning and end of a call: conditions and fills ahead of its kernels, and the results of one whose kernels raised the
//! status word, or are not finite.

use super::arrays::{Arrays, Slot};
use super::call::Call;
use super::declare::{Op, Step, Work};
use super::request::{Arg, Cotangent, Evaluated, Request};
use crate::array::Array;
use crate::backend::status::Word;
use crate::backend::{Check, Context};
use crate::runtime::{Reason, Role};
use crate::{Error, Result};

impl Call<'_, '_> {
    /// Checks the arguments that are left to the backend, and fills the cotangents that are one number for all rows: on a
    /// device both in one launch.
    pub(super) fn begin(
        &mut self,
        arrays: &mut Arrays<'_>,
        checks: &[(usize, Check<'_>)],
        request: &Request<'_, '_>,
    ) -> Result<()> {
        let (mut ones, mut spread) = (vec![], vec![]);
        let mut uniform = self.uniform_cotangents(request);
        self.hand_down(&mut uniform, arrays);
        for (buffer, x) in uniform {
            let components: usize = self.shape(buffer)?.iter().skip(1).product();
            ones.push((buffer, x, self.context.allocator.room(self.dtype, &[components])?));
            if self.is_read_by_row(buffer, arrays) {
                spread.push((buffer, x, self.room(buffer)?));
            }
        }
        let filled = ones.iter_mut().chain(&mut spread);
        let mut fills: Vec<(&mut Array, f64)> = filled.map(|(_, x, array)| (array, *x)).collect();
        self.word = self.context.backend.begin(self.context, checks, &mut fills)?;
        for (buffer, _, one) in ones {
            arrays.set(buffer, Role::COTANGENT, Slot::Uniform(one));
        }
        for (buffer, _, array) in spread {
            arrays.set_spread(buffer, array);
        }
        Ok(())
    }

    /// Rows whose sums have a uniform cotangent have the same one: nothing is spread out for them, and on a device, whose
    /// arrays are not looked at, kernels of uniform cotangents serve them.
    fn hand_down(&self, uniform: &mut Vec<(usize, f64)>, arrays: &mut Arrays<'_>) {
        for step in self.op.steps.iter().rev() {
            if let Work::Linear(map) = step.work
                && let Some((rows, sums)) = map.rows_and_sums(&step.buffers)
                && rows >= self.op.args.len()
                && !self.op.steps.iter().any(|step| step.reads(sums))
                && let Some((_, x)) = uniform.iter().find(|(buffer, _)| *buffer == sums)
            {
                uniform.push((rows, *x));
                arrays.hand_down(rows);
            }
        }
    }

    /// The outputs whose cotangents are one number for all rows.
    fn uniform_cotangents(&self, request: &Request<'_, '_>) -> Vec<(usize, f64)> {
        let first = self.op.args.len();
        if self.op.saves_gradients(request) {
            return vec![(first, 1.0)];
        }
        let real = (first..first + self.op.outputs.len()).filter(|buffer| self.op.integer(*buffer).is_none());
        let uniform = real.filter_map(|buffer| match request.cotangents.get(buffer - first) {
            Some(Some(Cotangent::Uniform(x))) => Some((buffer, *x)),
            _ => None,
        });
        uniform.collect()
    }

    /// Whether a step that writes a buffer takes its cotangent only as one number for each row.
    fn is_read_by_row(&self, buffer: usize, arrays: &Arrays<'_>) -> bool {
        self.op.steps.iter().enumerate().any(|(s, step)| {
            self.written(s).any(|b| b == buffer)
                && match step.work {
                    Work::Kernel(kernel) => !kernel.forms.iter().any(|form| form.uniform),
                    // Of sums the rows may have it already.
                    Work::Linear(map) => {
                        map.rows_and_sums(&step.buffers).is_none_or(|(rows, _)| !arrays.is_handed_down(rows))
                    }
                }
        })
    }
}

impl Op {
    /// The error of a step that has run, as the op finds it in the arguments, else in its names.
    pub(super) fn raised(&self, step: &Step, word: &Word, args: &[Arg<'_>]) -> Option<Error> {
        let in_names = word.error(|param| match param {
            Some(p) => format!("{}::{}", self.said(), self.buffer_name(step.buffers[p])),
            None => self.said(),
        })?;
        Some(self.explain_raised.and_then(|why| why(self, args)).unwrap_or(in_names))
    }

    /// Results that are finite, or their error; `raised`: whether an error was put off on the way. Cotangents and tangents
    /// that are not finite have such results, by which a trainer knows that it has to skip the step.
    pub(super) fn settle(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
        mut evaluated: Evaluated,
        raised: bool,
        word: Option<Array>,
    ) -> Result<Evaluated> {
        if let Some(word) = word {
            let mut results: Vec<&mut Array> = evaluated.arrays_mut().collect();
            let arguments = || self.args.iter().map(|spec| spec.name.clone()).collect();
            context.backend.end(context, word, &mut results, &self.said(), &arguments)?;
            return Ok(evaluated);
        }
        if !raised {
            if evaluated.arrays().all(|a| a.view().data().not_finite().is_none()) || !request.is_finite() {
                return Ok(evaluated);
            }
            context.status.raise(self.why_not_finite(args))?;
        }
        // The error was put off; nobody shall take these for results until it comes.
        evaluated.arrays_mut().try_for_each(Array::poison)?;
        Ok(evaluated)
    }

    fn why_not_finite(&self, args: &[Arg<'_>]) -> Error {
        self.explain.and_then(|why| why(self, args)).unwrap_or_else(|| {
            let (expected, got) = Reason::Result.text();
            Error::argument(self.said(), expected, got)
        })
    }
}
