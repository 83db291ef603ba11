//! Residuals: arrays that a call of F₀ keeps for the backward pass.
//!
//! There are two kinds. A *saved array* is one that steps hand on to each other: given back, the steps that made it
//! are not run again. A *saved gradient* belongs to an op whose output is one number per system: with E_b of system b,
//! ∂/∂xᵢ Σ_b w_b E_b = w_b(i) ∂E_b(i)/∂xᵢ, so the gradient for any cotangent is a scale of the one for cotangents of 1.

use super::arrays::{Arrays, Slot};
use super::bind::batches_over;
use super::call::Call;
use super::declare::{ArgKind, Op, OutputSpec};
use super::request::{Cotangent, Evaluated, Request};
use super::size::Size;
use crate::array::View;
use crate::backend::Weights;
use crate::runtime::{Role, SlotArray, StructureKind};
use crate::{Error, Result};

impl Op {
    /// Residuals of a call of F₀, in order: the arrays declared by [`super::OpBuilder::saved`], then the gradients
    /// declared by [`super::OpBuilder::saved_gradients`].
    pub fn saved(&self) -> Vec<OutputSpec> {
        let arrays = self.scratch.iter().filter(|s| s.saved).cloned();
        let gradients = self.saved_gradients.iter().filter_map(|name| {
            let shape = self.shape_of(self.arg(name)?)?.to_vec();
            Some(OutputSpec { saved: true, ..OutputSpec::new(&format!("gradient by {name}"), shape) })
        });
        arrays.chain(gradients).collect()
    }

    /// The buffers of the saved arrays, in order.
    pub(super) fn saved_buffers(&self) -> Vec<usize> {
        let first = self.args.len() + self.outputs.len();
        (0..self.scratch.len()).filter(|n| self.scratch[*n].saved).map(|n| first + n).collect()
    }

    /// The arguments whose gradients are saved, in order.
    pub(super) fn saved_args(&self) -> Vec<usize> {
        self.saved_gradients.iter().filter_map(|name| self.arg(name)).collect()
    }

    /// Whether a call makes gradients to save.
    pub(super) fn saves_gradients(&self, request: &Request<'_, '_>) -> bool {
        request.save.is_some_and(|by| self.saved_args().iter().any(|arg| by.contains(arg)))
    }

    /// The buffer and role of each array that a call which saves for gradients by some of `by` keeps.
    pub(super) fn kept(&self, by: &[usize]) -> Vec<(usize, Role)> {
        let arrays = self.saved_buffers().into_iter().map(|buffer| (buffer, Role::VALUE));
        let gradients = self.saved_args().into_iter().filter(|arg| by.contains(arg));
        arrays.chain(gradients.map(|arg| (arg, Role::COTANGENT))).collect()
    }

    /// The buffer and role of each result that a request asks for.
    pub(super) fn results_of(&self, request: &Request<'_, '_>) -> Vec<(usize, Role)> {
        let tangent = match request.directions.len() {
            0 => Role::VALUE,
            1 => Role::FIRST,
            _ => Role::FIRST.with(Role::SECOND),
        };
        let forwards = request.cotangents.is_empty();
        let outputs = self.args.len()..self.args.len() + self.outputs.len();
        let values = outputs.filter(|_| forwards || request.values);
        let values = values.map(|buffer| (buffer, if forwards { tangent } else { Role::VALUE }));
        let gradients = request.gradients.iter().map(|arg| (*arg, Role::COTANGENT.with(tangent)));
        let kept = request.save.map(|by| self.kept(by)).unwrap_or_default();
        values.chain(gradients).chain(kept).collect()
    }

    /// The cotangent and the saved gradients that make a call of G₀, where nothing else does.
    pub(super) fn scales<'q, 'a>(
        &self,
        request: &'q Request<'_, 'a>,
    ) -> Option<(&'q Cotangent<'a>, Vec<&'q View<'a>>)> {
        let saved_args = self.saved_args();
        let first = request.saved.len().saturating_sub(saved_args.len());
        let saved = |n: &usize| {
            let at = saved_args.iter().position(|a| a == n)?;
            request.saved.get(first + at)?.as_ref()
        };
        let (true, false, [Some(cotangent)]) =
            (request.directions.is_empty(), request.values, request.cotangents)
        else {
            return None;
        };
        Some((cotangent, request.gradients.iter().map(saved).collect::<Option<_>>()?))
    }

    /// The gradient by a row depends on the cotangent of that row's system alone.
    pub(super) fn check_saved_gradients(&self) -> Result<()> {
        if self.saved_gradients.is_empty() {
            return Ok(());
        }
        let wrong = |name: &str, expected: &str, got: String| {
            Err(Error::argument(format!("saved_gradients of {}: {name}", self.full_name()), expected, got))
        };
        let [OutputSpec { shape, .. }] = self.outputs.as_slice() else {
            return wrong("outputs", "one output", self.outputs.len().to_string());
        };
        let [Size::Dim(system)] = shape.as_slice() else {
            return wrong(&self.outputs[0].name, "one number per system", format!("{shape:?}"));
        };
        let of_a_system = |dim: &str| {
            let batched = |kind: &ArgKind| match kind {
                ArgKind::Batch { rows, systems } => rows == dim && systems == system,
                ArgKind::Mesh { systems, nodes, waves } => {
                    (nodes == dim || waves == dim) && systems == system
                }
                _ => false,
            };
            dim == system || self.args.iter().any(|a| batched(&a.kind))
        };
        let rows_of = |shape: &[Size]| matches!(shape.first(), Some(Size::Dim(d)) if of_a_system(d));
        for name in &self.saved_gradients {
            match self.arg(name).map(|n| &self.args[n].kind) {
                Some(ArgKind::Real { shape, .. }) if rows_of(shape) => {}
                other => {
                    return wrong(name, "a real argument whose rows belong to systems", format!("{other:?}"));
                }
            }
        }
        if let Some(joins) = self.scratch.iter().find(|s| !rows_of(&s.shape)) {
            return wrong(&joins.name, "an array whose rows belong to systems", format!("{:?}", joins.shape));
        }
        // Pairs stay within systems where both sides belong to them; nothing says so of rows and the elements of a map, but
        // all that is known of elements that belong to no system is arguments, which no row writes.
        let joins = |kind: &ArgKind| match kind.structure().map(|declared| (declared.kind, declared.dims)) {
            None | Some((StructureKind::Batch | StructureKind::Mesh, _)) => false,
            Some((StructureKind::Pairs, [rows, columns, _])) => {
                [rows, columns].into_iter().flatten().any(|d| d == system || !of_a_system(d))
            }
            Some((StructureKind::Map, [_, into, _])) => into.is_none_or(of_a_system),
        };
        match self.args.iter().find(|a| joins(&a.kind)) {
            Some(arg) => wrong(
                &arg.name,
                "pairs within systems, and no maps into what belongs to systems",
                format!("{:?}", arg.kind),
            ),
            None => Ok(()),
        }
    }
}

impl<'a> Call<'_, 'a> {
    /// Checks what was saved, and puts the arrays where steps look for them.
    pub(super) fn set_saved(&self, arrays: &mut Arrays<'a>, request: &Request<'_, 'a>) -> Result<()> {
        if let Some(by) = request.save {
            if !request.cotangents.is_empty() || !request.directions.is_empty() {
                return Err(Error::argument("save", "a call of F₀ alone", "directions or cotangents"));
            }
            if let Some(n) = by.iter().find(|n| **n >= self.op.args.len() || !self.op.is_differentiable(**n))
            {
                return Err(Error::argument("save", "positions of differentiable arguments", n.to_string()));
            }
        }
        if request.saved.is_empty() {
            return Ok(());
        }
        let buffers = self.op.saved_buffers();
        let count = buffers.len() + self.op.saved_gradients.len();
        if request.saved.len() != count {
            let expected = format!("{count} arrays, or none");
            return Err(Error::argument("saved", expected, request.saved.len().to_string()));
        }
        let all = buffers.iter().copied().chain(self.op.saved_args());
        for (n, (buffer, view)) in all.zip(request.saved).enumerate() {
            let Some(view) = view else { continue };
            self.fits(&|| format!("saved {}", self.op.saved()[n].name), buffer, self.dtype, view)?;
            if n < buffers.len() {
                arrays.set(buffer, Role::VALUE, Slot::Borrowed(view.clone()));
            }
        }
        Ok(())
    }

    /// G₀ from saved gradients, where there is one for every argument that is asked for.
    pub(super) fn scaled(&self, request: &Request<'_, 'a>) -> Result<Option<Evaluated>> {
        let Some((cotangent, saved)) = self.op.scales(request) else { return Ok(None) };
        let mut gradients = vec![];
        for (n, unit) in request.gradients.iter().zip(saved) {
            let of = self.systems_of(*n);
            let weights = match (cotangent, &of) {
                (Cotangent::Uniform(w), _) => Weights::Uniform(*w),
                (Cotangent::Array(w), Some(of)) => Weights::Systems(w, of),
                (Cotangent::Array(w), None) => Weights::Rows(w, 1.0),
            };
            gradients.push(self.context.scaled_rows(unit, &weights)?);
        }
        Ok(Some(Evaluated { gradients, ..Evaluated::default() }))
    }

    /// The system of each row of an argument; None where its rows are the systems.
    fn systems_of(&self, arg: usize) -> Option<View<'_>> {
        let Some([Size::Dim(dim), ..]) = self.op.shape_of(arg) else { return None };
        let [Size::Dim(system)] = self.op.outputs[0].shape.as_slice() else { return None };
        if dim == system {
            return None;
        }
        let (_, batch) = batches_over(self.op, self.args, dim).find(|(systems, _)| systems == system)?;
        batch.array(SlotArray::SystemOf).ok()?
    }
}
