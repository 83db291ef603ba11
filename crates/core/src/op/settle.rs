//! What becomes of a call whose kernels raised the status word, or whose result is not finite.

use super::declare::{Op, Step};
use super::request::{Arg, Evaluated};
use crate::array::Array;
use crate::backend::Context;
use crate::backend::status::Word;
use crate::{Error, Result};

impl Op {
    /// The error of a step that has run, in the names of the op.
    pub(super) fn raised(&self, step: &Step, word: &Word) -> Option<Error> {
        word.error(|param| match param {
            Some(p) => format!("{}::{}", self.full_name(), self.buffer_name(step.buffers[p])),
            None => self.full_name(),
        })
    }

    /// The results where they are some; `raised`: whether an error was put off on the way.
    pub(super) fn settle(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        mut evaluated: Evaluated,
        raised: bool,
        word: Option<Array>,
    ) -> Result<Evaluated> {
        if let Some((remote, word)) = context.backend.remote().zip(word) {
            let mut results: Vec<&mut Array> = evaluated.arrays_mut().collect();
            let arguments = || self.args.iter().map(|spec| spec.name.clone()).collect();
            remote.end(context, word, &mut results, &self.full_name(), &arguments)?;
            return Ok(evaluated);
        }
        if !raised {
            if evaluated.arrays().all(|a| a.view().data().not_finite().is_none()) {
                return Ok(evaluated);
            }
            context.status.raise(self.why_not_finite(args))?;
        }
        // The error was put off; nobody shall take these for results until it comes.
        evaluated.arrays_mut().for_each(Array::poison);
        Ok(evaluated)
    }

    fn why_not_finite(&self, args: &[Arg<'_>]) -> Error {
        self.explain.and_then(|why| why(args)).unwrap_or_else(|| {
            let name = self.full_name();
            Error::argument(name, "arguments with a finite result", "a result beyond the range of the dtype")
        })
    }
}
