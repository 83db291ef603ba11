//! Storage types: arrays whose dtype is not the one that kernels compute in are widened or narrowed once, at the edge
//! of a call, to nearest and ties to even.

use super::arrays::Slot;
use super::bind::describe_view;
use super::call::Call;
use super::declare::{ArgKind, ArgSpec, Op};
use super::request::{Arg, Evaluated, Request};
use crate::array::{Array, DType, Place, View};
use crate::backend::Context;
use crate::{Error, Result};

impl Op {
    /// Stored arguments are real arrays, and outputs with their dtype name one of them.
    pub(super) fn check_stored(&self) -> Result<()> {
        let name = |of: &str| format!("{}::{of}", self.full_name());
        if let Some(a) = self.args.iter().find(|a| a.stored && !matches!(a.kind, ArgKind::Real { .. })) {
            return Err(Error::argument(name(&a.name), "a real array to be stored", format!("{:?}", a.kind)));
        }
        for output in &self.outputs {
            let Some(follows) = &output.stored_as else { continue };
            if !self.args.iter().any(|a| a.name == *follows && a.stored) {
                return Err(Error::argument(
                    name(&output.name),
                    "the dtype of a stored argument",
                    format!("that of `{follows}`"),
                ));
            }
        }
        Ok(())
    }

    /// Arguments of an op that searches, whose integers are of 32 bits on a device: a number that is none becomes the nearest
    /// one, which is out of every range there.
    pub(super) fn narrowed(&self, context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Option<Array>>> {
        let searches = self.search.is_some() || self.searching.is_some();
        if context.backend.place() == Place::Host || !searches || args.len() > self.args.len() {
            return Ok(vec![]);
        }
        let narrowed = self.args.iter().zip(args).map(|(spec, arg)| match arg {
            Arg::Array(view)
                if matches!(spec.kind, ArgKind::Ints { .. })
                    && view.dtype() == DType::I64
                    && (view.is_empty() || view.place() == context.backend.place()) =>
            {
                let mut array = context.allocator.room(DType::I32, view.shape())?;
                if !view.is_empty() {
                    context.cast_integers(view, &mut array)?;
                }
                Ok(Some(array))
            }
            _ => Ok(None),
        });
        narrowed.collect()
    }
}

impl<'a> Call<'_, 'a> {
    /// The caller's dtype of a buffer, which is that of its cotangents, directions and gradients too.
    pub(super) fn dtype_of(&self, buffer: usize) -> DType {
        let stored = match (self.op.args.get(buffer), buffer.checked_sub(self.op.args.len())) {
            (Some(spec), _) => spec.stored.then_some(buffer),
            (None, Some(n)) => self.op.outputs.get(n).and_then(|o| self.op.arg(o.stored_as.as_ref()?)),
            (None, None) => None,
        };
        match stored.map(|n| &self.args[n]) {
            Some(Arg::Array(view)) => view.dtype(),
            _ => self.dtype,
        }
    }

    /// An argument in the dtype that kernels read.
    pub(super) fn computed(&self, spec: &ArgSpec, view: &View<'a>) -> Result<Slot<'a>> {
        if let ArgKind::Ints { dtype, .. } = spec.kind
            && view.dtype() != dtype
        {
            let mut array = self.context.allocator.room(dtype, view.shape())?;
            self.cast(view, &mut array, &spec.name)?;
            return Ok(Slot::Owned(array));
        }
        let slot = if view.dtype().is_real() { self.widened(view)? } else { Slot::Borrowed(view.clone()) };
        match &slot {
            Slot::Owned(array) if array.view().data().not_finite().is_some() => {
                let expected = format!("numbers within the range of {}, the others' dtype", self.dtype);
                Err(Error::argument(&spec.name, expected, describe_view(view)))
            }
            _ => Ok(slot),
        }
    }

    /// A real array in the dtype that kernels compute in.
    pub(super) fn widened(&self, view: &View<'a>) -> Result<Slot<'a>> {
        if view.dtype() == self.dtype {
            return Ok(Slot::Borrowed(view.clone()));
        }
        let mut array = self.context.allocator.room(self.dtype, view.shape())?;
        self.cast(view, &mut array, "")?;
        Ok(Slot::Owned(array))
    }

    /// Numbers of an array in the dtype of another; an integer that does not fit is an error of argument `name`.
    fn cast(&self, from: &View<'_>, to: &mut Array, name: &str) -> Result<()> {
        let word = self.word.as_ref().map(|word| (word, self.op.arg(name)));
        self.context.backend.cast(self.context, from, to, name, word)
    }

    /// Results in the caller's dtypes.
    pub(super) fn narrow(&self, evaluated: &mut Evaluated, request: &Request<'_, '_>) -> Result<()> {
        let outputs = self.op.args.len()..;
        for (buffer, array) in outputs.zip(&mut evaluated.values) {
            self.narrow_one(self.op.buffer_name(buffer), buffer, array)?;
        }
        for (arg, array) in request.gradients.iter().zip(&mut evaluated.gradients) {
            self.narrow_one(&format!("gradient by {}", self.op.args[*arg].name), *arg, array)?;
        }
        Ok(())
    }

    fn narrow_one(&self, name: &str, buffer: usize, array: &mut Array) -> Result<()> {
        let dtype = self.dtype_of(buffer);
        if dtype == self.dtype {
            return Ok(());
        }
        let mut narrow = self.context.allocator.room(dtype, array.shape())?;
        self.cast(&array.view(), &mut narrow, "")?;
        if self.word.is_some() {
            // Results beyond the range are seen when the call ends.
            self.context.allocator.recycle(std::mem::replace(array, narrow));
            return Ok(());
        }
        let mut both = array.to_f64()?.into_iter().zip(narrow.to_f64()?).enumerate();
        if let Some((at, (x, _))) = both.find(|(_, (x, y))| x.is_finite() && !y.is_finite()) {
            let got = format!("{x:e} at element {at}");
            return Err(Error::argument(name, format!("results within the range of {dtype}"), got));
        }
        self.context.allocator.recycle(std::mem::replace(array, narrow));
        Ok(())
    }
}
