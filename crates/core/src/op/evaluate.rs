//! Runs a member of an op's family: its kernels forwards, and backwards where gradients are wanted.

use super::check::{bind, check_finite, describe_view};
use super::declare::Op;
use crate::array::{Array, DType, View};
use crate::backend::kernel::{Array as ArrayOf, Form, Lists, Member, ParamKind, role};
use crate::backend::{Bound, Context, Launching};
use crate::batch::Batch;
use crate::pairs::PairList;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    /// A real or integer array.
    Array(View<'a>),
    /// A batch.
    Batch(&'a Batch<'a>),
    /// A pair list.
    Pairs(&'a PairList<'a>),
    /// A real attribute.
    Real(f64),
    /// An integer attribute.
    Int(i64),
    /// The value of an argument that is zero in every call.
    Zero,
}

/// The cotangent of an output.
#[derive(Clone, Debug)]
pub enum Cotangent<'a> {
    /// An array of the output's shape.
    Array(View<'a>),
    /// The same for every element: cheaper where kernels have a form for it.
    Uniform(f64),
}

/// A direction: for each argument a tangent of its shape, or none.
pub type Direction<'a> = [Option<View<'a>>];

/// Which members are wanted.
#[derive(Clone, Debug, Default)]
pub struct Request<'r, 'a> {
    /// Whether the outputs are wanted where gradients are.
    pub values: bool,
    /// Directions: none for F₀ and G₀, one for F₁ and G₁, two for F₂.
    pub directions: &'r [&'r Direction<'a>],
    /// Cotangents of the outputs; empty for F.
    pub cotangents: &'r [Option<Cotangent<'a>>],
    /// The arguments whose gradients are wanted; for G.
    pub gradients: &'r [usize],
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    /// The outputs (F₀, or beside G₀), or their first (F₁) or mixed second (F₂) derivatives.
    pub values: Vec<Array>,
    /// The gradients that were asked for (G₀), or their derivatives along the direction (G₁).
    pub gradients: Vec<Array>,
}

enum Slot<'a> {
    Absent,
    Borrowed(View<'a>),
    Owned(Array),
    /// One element for all rows.
    Uniform(Array),
}

impl Op {
    /// The outputs.
    pub fn value(&self, context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
        Ok(self.evaluate(context, args, &Request { values: true, ..Request::default() })?.values)
    }

    /// Any member of the family.
    pub fn evaluate(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
    ) -> Result<Evaluated> {
        let mut run = Run::new(self, context, args)?;
        let evaluated = run.evaluate(request)?;
        for slot in run.store.into_iter().flatten() {
            if let Slot::Owned(array) | Slot::Uniform(array) = slot {
                context.allocator.recycle(array);
            }
        }
        if evaluated.values.iter().chain(&evaluated.gradients).any(|a| !is_finite(a)) {
            return Err(self.why_not_finite(args));
        }
        Ok(evaluated)
    }

    fn why_not_finite(&self, args: &[Arg<'_>]) -> Error {
        self.explain.and_then(|why| why(args)).unwrap_or_else(|| {
            let name = self.full_name();
            Error::argument(name, "arguments with a finite result", "a result beyond the range of the dtype")
        })
    }
}

fn is_finite(a: &Array) -> bool {
    match a {
        Array::F32(a) => a.iter().all(|x| x.is_finite()),
        Array::F64(a) => a.iter().all(|x| x.is_finite()),
        Array::I32(_) => true,
    }
}

struct Run<'r, 'a> {
    op: &'r Op,
    context: &'r Context<'r>,
    args: &'r [Arg<'a>],
    dtype: DType,
    dims: BTreeMap<String, usize>,
    attrs: BTreeMap<String, i64>,
    store: Vec<[Slot<'a>; 8]>,
    /// Cotangents that are the same everywhere, spread out for forms that want arrays.
    spread: Vec<Option<Array>>,
}

impl<'r, 'a> Run<'r, 'a> {
    fn new(op: &'r Op, context: &'r Context<'r>, args: &'r [Arg<'a>]) -> Result<Self> {
        let bound = bind(op, args)?;
        let mut store: Vec<[Slot<'a>; 8]> =
            (0..op.buffers()).map(|_| std::array::from_fn(|_| Slot::Absent)).collect();
        for (slots, arg) in store.iter_mut().zip(args) {
            if let Arg::Array(view) = arg {
                slots[0] = Slot::Borrowed(view.clone());
            }
        }
        let spread = store.iter().map(|_| None).collect();
        Ok(Self {
            op,
            context,
            args,
            dtype: bound.dtype,
            dims: bound.dims,
            attrs: bound.attrs,
            store,
            spread,
        })
    }

    fn shape(&self, buffer: usize) -> Result<Vec<usize>> {
        let shape = self.op.shape_of(buffer).unwrap_or(&[]);
        shape.iter().map(|s| s.evaluate(&self.dims, &self.attrs)).collect()
    }

    fn zeros(&self, buffer: usize) -> Result<Array> {
        Ok(self.context.allocator.zeros(self.dtype, &self.shape(buffer)?))
    }

    fn has(&self, buffer: usize, role: u8) -> bool {
        !matches!(self.store[buffer][usize::from(role)], Slot::Absent)
    }

    fn fits(&self, name: &str, buffer: usize, view: &View<'_>) -> Result<()> {
        let shape = self.shape(buffer)?;
        if view.shape() != shape || view.dtype() != self.dtype {
            let expected = format!("{} {shape:?}", self.dtype);
            return Err(Error::argument(name, expected, format!("{} {:?}", view.dtype(), view.shape())));
        }
        check_finite(name, view)
    }

    fn evaluate(&mut self, request: &Request<'_, 'a>) -> Result<Evaluated> {
        if request.cotangents.len() > self.op.outputs.len() {
            let expected = format!("at most {}", self.op.outputs.len());
            return Err(Error::argument("cotangents", expected, request.cotangents.len().to_string()));
        }
        if request.directions.len() + usize::from(!request.cotangents.is_empty()) > 2 {
            return Err(Error::Unsupported(format!(
                "{}: derivatives ship up to F₂ and G₁; {}{} was asked for",
                self.op.full_name(),
                if request.cotangents.is_empty() { "F" } else { "G" },
                request.directions.len()
            )));
        }
        if request.cotangents.is_empty() && !request.gradients.is_empty() {
            return Err(Error::argument(
                "cotangents",
                "one per output, where gradients are asked for",
                "none",
            ));
        }
        for (k, direction) in request.directions.iter().enumerate() {
            if direction.len() != self.op.args.len() {
                let expected = format!("{} entries, one per argument", self.op.args.len());
                return Err(Error::argument("directions", expected, direction.len().to_string()));
            }
            for (n, tangent) in direction.iter().enumerate() {
                let Some(view) = tangent else { continue };
                let name = format!("direction {k} of {}", self.op.args[n].name);
                if !self.op.is_differentiable(n) {
                    return Err(Error::argument(
                        name,
                        "none: there is no derivative by it",
                        describe_view(view),
                    ));
                }
                self.fits(&name, n, view)?;
                self.store[n][1 << k] = Slot::Borrowed(view.clone());
            }
        }
        for (n, cotangent) in request.cotangents.iter().enumerate() {
            let buffer = self.op.args.len() + n;
            let slot = match cotangent {
                None => continue,
                Some(Cotangent::Array(view)) => {
                    self.fits(&format!("cotangent of {}", self.op.outputs[n].name), buffer, view)?;
                    Slot::Borrowed(view.clone())
                }
                Some(Cotangent::Uniform(x)) => {
                    let components: usize = self.shape(buffer)?.iter().skip(1).product();
                    Slot::Uniform(Array::filled(self.dtype, &[components], *x))
                }
            };
            self.store[buffer][usize::from(role::COTANGENT)] = slot;
        }
        match (request.cotangents.is_empty(), request.directions.len()) {
            (true, 0) => self.forward(Member::Value, role::VALUE),
            (true, 1) => self.forward(Member::Tangent, role::FIRST),
            (false, order) => self.backward(request, order),
            (true, _) => self.forward(Member::SecondTangent, role::FIRST | role::SECOND),
        }
    }

    fn outputs(&self) -> std::ops::Range<usize> {
        self.op.args.len()..self.op.args.len() + self.op.outputs.len()
    }

    /// F: every step in order.
    fn forward(&mut self, member: Member, wanted: u8) -> Result<Evaluated> {
        for s in 0..self.op.steps.len() {
            // A step that no direction reaches has no derivatives: absent means zero.
            let member = if self.reaches(s, !role::COTANGENT & 3) { member } else { Member::Value };
            self.launch(s, member, &|run, buffer, r| {
                !run.op.is_output(buffer)
                    || r == wanted
                    || (member == Member::Value && r == role::VALUE && wanted == 0)
            })?;
        }
        let values = self.outputs().map(|b| self.take(b, wanted)).collect::<Result<_>>()?;
        Ok(Evaluated { values, gradients: vec![] })
    }

    /// Whether any input of a step has an array with one of these bits.
    fn reaches(&self, step: usize, bits: u8) -> bool {
        let step = &self.op.steps[step];
        step.kernel.params.iter().zip(&step.buffers).any(|(p, b)| {
            matches!(p.kind, ParamKind::Real { .. }) && (1..8u8).any(|r| r & bits != 0 && self.has(*b, r))
        })
    }

    /// G: what the backward pass needs forwards, then every step backwards, then whatever outputs are still missing.
    fn backward(&mut self, request: &Request<'_, 'a>, order: usize) -> Result<Evaluated> {
        let steps = self.op.steps.len();
        for n in request.gradients {
            if *n >= self.op.args.len() || !self.op.is_differentiable(*n) {
                let names = self.op.args.iter().enumerate().filter(|(n, _)| self.op.is_differentiable(*n));
                let names: Vec<&str> = names.map(|(_, a)| a.name.as_str()).collect();
                let expected = format!("positions of differentiable arguments ({})", names.join(", "));
                return Err(Error::argument("gradients", expected, n.to_string()));
            }
        }
        if (1..request.gradients.len()).any(|n| request.gradients[..n].contains(&request.gradients[n])) {
            let got = format!("{:?}", request.gradients);
            return Err(Error::argument("gradients", "each argument once", got));
        }
        if request.values && order != 0 {
            return Err(Error::Unsupported("values are not given beside Hessian-vector products".into()));
        }
        let active = &self.active(request.gradients);
        let (gradient, value) = match order {
            0 => (Member::Gradient, Member::Value),
            _ => (Member::GradientTangent, Member::Tangent),
        };
        let needed = self.needed(gradient, value, active)?;
        let mut ran = vec![false; steps];
        for (s, ran) in ran.iter_mut().enumerate() {
            if self.written(s).any(|b| needed.contains(&b)) {
                let member = if self.reaches(s, role::FIRST) { value } else { Member::Value };
                let values = request.values;
                self.launch(s, member, &|run, b, r| !run.op.is_output(b) || (values && r == role::VALUE))?;
                *ran = true;
            }
        }
        let inputs = |run: &Self, s: usize| {
            let step = &run.op.steps[s];
            let params = step.kernel.params.iter().zip(&step.buffers);
            params
                .filter(|(p, _)| matches!(p.kind, ParamKind::Real { .. }))
                .map(|(_, b)| *b)
                .collect::<Vec<_>>()
        };
        for s in (0..steps).rev() {
            let reached = self.written(s).any(|b| (4..8).any(|r| self.has(b, r)));
            if !reached || !inputs(self, s).iter().any(|b| active.contains(b)) {
                continue;
            }
            // Without a direction among its inputs and cotangents, a step's gradient has no derivative.
            let tangent = self.reaches(s, role::FIRST)
                || self.written(s).any(|b| self.has(b, role::COTANGENT | role::FIRST));
            let member = if tangent { gradient } else { Member::Gradient };
            // Values fall out of the pass where they were not needed before it and what they need is there.
            let reads = self.reads(s, self.form(s, Member::Value, active, false)?);
            let ready = reads.iter().all(|b| *b < self.op.args.len() || self.has(*b, role::VALUE));
            let values = order == 0 && request.values && !ran[s] && ready;
            self.launch(s, member, &|run, b, r| {
                if r & role::COTANGENT == 0 {
                    return r == role::VALUE && values;
                }
                let is_arg = b < run.op.args.len();
                active.contains(&b) && (!is_arg || order == 0 || r & role::FIRST != 0)
            })?;
            ran[s] |= values;
        }
        let mut evaluated = Evaluated::default();
        if request.values {
            for (s, _) in ran.iter().enumerate().filter(|(_, ran)| !**ran) {
                self.launch(s, Member::Value, &|_, _, _| true)?;
            }
            evaluated.values = self.outputs().map(|b| self.take(b, role::VALUE)).collect::<Result<_>>()?;
        }
        let wanted = role::COTANGENT | if order == 0 { 0 } else { role::FIRST };
        evaluated.gradients =
            request.gradients.iter().map(|n| self.take(*n, wanted)).collect::<Result<_>>()?;
        Ok(evaluated)
    }

    /// The buffers that depend on an argument whose gradient is wanted.
    fn active(&self, gradients: &[usize]) -> BTreeSet<usize> {
        let mut active: BTreeSet<usize> = gradients.iter().copied().collect();
        for step in &self.op.steps {
            let depends = step
                .kernel
                .params
                .iter()
                .zip(&step.buffers)
                .any(|(p, b)| matches!(p.kind, ParamKind::Real { .. }) && active.contains(b));
            if depends {
                let written = step.kernel.params.iter().zip(&step.buffers);
                active.extend(
                    written.filter(|(p, _)| matches!(p.kind, ParamKind::Output { .. })).map(|(_, b)| *b),
                );
            }
        }
        active
    }

    fn written(&self, step: usize) -> impl Iterator<Item = usize> + use<'r> {
        let step = &self.op.steps[step];
        let params = step.kernel.params.iter().zip(&step.buffers);
        params.filter(|(p, _)| matches!(p.kind, ParamKind::Output { .. })).map(|(_, b)| *b)
    }

    /// The arrays that backward passes read and that some step must make first.
    fn needed(&self, gradient: Member, value: Member, active: &BTreeSet<usize>) -> Result<BTreeSet<usize>> {
        let first_made = self.op.args.len() + self.op.outputs.len();
        let mut needed = BTreeSet::new();
        for s in (0..self.op.steps.len()).rev() {
            let step = &self.op.steps[s];
            let inputs_active = step
                .kernel
                .params
                .iter()
                .zip(&step.buffers)
                .any(|(p, b)| matches!(p.kind, ParamKind::Real { .. }) && active.contains(b));
            if inputs_active {
                needed.extend(self.reads(s, self.form(s, gradient, active, false)?));
            }
            if self.written(s).any(|b| needed.contains(&b)) {
                needed.extend(self.reads(s, self.form(s, value, active, false)?));
            }
        }
        needed.retain(|b| *b >= first_made);
        Ok(needed)
    }

    /// The buffers whose values or tangents a form reads.
    fn reads(&self, step: usize, form: &Form) -> Vec<usize> {
        let step = &self.op.steps[step];
        let mut reads = vec![];
        for part in form.parts {
            for (n, slot) in part.slots.iter().enumerate() {
                if let ArrayOf::Values(r) = slot.array
                    && r & role::COTANGENT == 0
                    && !part.written.contains(&n)
                    && matches!(step.kernel.params[slot.param].kind, ParamKind::Real { .. })
                {
                    reads.push(step.buffers[slot.param]);
                }
            }
        }
        reads
    }

    /// The cheapest form that does what is asked.
    fn form(
        &self,
        step: usize,
        member: Member,
        active: &BTreeSet<usize>,
        uniform: bool,
    ) -> Result<&'static Form> {
        let step = &self.op.steps[step];
        let lists_full = Launching::lists_are_full(&self.pair_lists(&step.buffers, step.kernel.params.len()));
        let covers = |form: &Form| match form.gradients {
            None => true,
            Some(given) => (0..step.buffers.len()).all(|p| {
                !matches!(step.kernel.params[p].kind, ParamKind::Real { .. })
                    || !active.contains(&step.buffers[p])
                    || given.contains(&p)
            }),
        };
        step.kernel
            .forms
            .iter()
            .filter(|f| {
                f.member == member && (f.lists == Lists::Any || lists_full) && (!f.uniform || uniform)
            })
            .find(|f| covers(f))
            .ok_or_else(|| Error::Unsupported(format!("{}: no form for {member:?}", step.kernel.name)))
    }

    fn pair_lists(&self, buffers: &[usize], params: usize) -> Vec<(usize, &'r PairList<'r>)> {
        (0..params)
            .filter_map(|p| match self.args.get(buffers[p]) {
                Some(Arg::Pairs(list)) => Some((p, *list)),
                _ => None,
            })
            .collect()
    }

    fn take(&mut self, buffer: usize, role: u8) -> Result<Array> {
        match std::mem::replace(&mut self.store[buffer][usize::from(role)], Slot::Absent) {
            Slot::Owned(array) => Ok(array),
            // Nothing contributed: it is zero.
            _ => self.zeros(buffer),
        }
    }

    /// Runs one form of one step. `wanted` says which of the arrays that it can write are wanted.
    fn launch(&mut self, s: usize, member: Member, wanted: &dyn Fn(&Self, usize, u8) -> bool) -> Result<()> {
        let step = &self.op.steps[s];
        let kernel = step.kernel;
        let is_output = |p: usize| matches!(kernel.params[p].kind, ParamKind::Output { .. });
        let gradient = matches!(member, Member::Gradient | Member::GradientTangent);
        let uniform = gradient
            && (0..kernel.params.len()).filter(|p| is_output(*p)).all(|p| {
                matches!(self.store[step.buffers[p]][usize::from(role::COTANGENT)], Slot::Uniform(_))
            });
        let wanted_inputs: BTreeSet<usize> = (0..kernel.params.len())
            .filter(|p| matches!(kernel.params[*p].kind, ParamKind::Real { .. }))
            .map(|p| step.buffers[p])
            .filter(|b| wanted(self, *b, role::COTANGENT) || wanted(self, *b, role::COTANGENT | role::FIRST))
            .collect();
        let form = self.form(s, member, &wanted_inputs, uniform)?;
        let mut sizes = vec![0; kernel.dims.len()];
        self.sizes(s, &mut sizes)?;
        for part in form.parts {
            let mut keys: Vec<(usize, u8, bool)> = vec![];
            for (n, slot) in part.slots.iter().enumerate() {
                if let ArrayOf::Values(r) = slot.array {
                    keys.push((slot.param, r, part.written.contains(&n)));
                }
            }
            for r in part.reductions {
                if !keys.iter().any(|k| (k.0, k.1) == (r.param, r.role)) {
                    keys.push((r.param, r.role, true));
                }
            }
            // What is written is taken out, so that the rest can be borrowed.
            let mut outputs = vec![];
            for (param, r, writes) in &keys {
                let buffer = step.buffers[*param];
                if !writes {
                    self.make_readable(buffer, *r, form.uniform && is_output(*param))?;
                } else if wanted(self, buffer, *r) {
                    let slot = std::mem::replace(&mut self.store[buffer][usize::from(*r)], Slot::Absent);
                    let (array, adds) = match slot {
                        Slot::Owned(array) => (array, true),
                        _ => (self.zeros(buffer)?, false),
                    };
                    outputs.push(((*param, *r), buffer, array, adds));
                }
            }
            let mut arrays: Vec<((usize, u8), Bound<'_>)> = vec![];
            for (param, r, writes) in &keys {
                if *writes {
                    if !outputs.iter().any(|o| o.0 == (*param, *r)) {
                        arrays.push(((*param, *r), Bound::Unwanted));
                    }
                } else {
                    let view = match &self.store[step.buffers[*param]][usize::from(*r)] {
                        Slot::Borrowed(view) => view.clone(),
                        Slot::Uniform(_) if !form.uniform => match &self.spread[step.buffers[*param]] {
                            Some(array) => array.view(),
                            None => unreachable!("made readable above"),
                        },
                        Slot::Owned(array) | Slot::Uniform(array) => array.view(),
                        Slot::Absent => unreachable!("made readable above"),
                    };
                    arrays.push(((*param, *r), Bound::Input(view)));
                }
            }
            arrays.extend(
                outputs.iter_mut().map(|(key, _, array, adds)| (*key, Bound::Output { array, adds: *adds })),
            );
            let mut batches = vec![];
            let (mut reals, mut ints) = (vec![], vec![]);
            for (p, b) in step.buffers.iter().enumerate() {
                match self.args.get(*b) {
                    Some(Arg::Batch(batch)) => batches.push((p, *batch)),
                    Some(Arg::Real(x)) => reals.push(*x),
                    Some(Arg::Int(i)) => ints.push(*i),
                    _ => {}
                }
            }
            let mut launch = Launching {
                kernel,
                part,
                dtype: self.dtype,
                dims: &sizes,
                arrays,
                batches,
                pairs: self.pair_lists(&step.buffers, kernel.params.len()),
                reals,
                ints,
            };
            self.context.backend.run(self.context, &mut launch)?;
            drop(launch);
            for ((_, r), buffer, array, _) in outputs {
                // A buffer that stands for two parameters of the kernel gets what both contribute.
                match &mut self.store[buffer][usize::from(r)] {
                    Slot::Owned(sum) => sum.add(&array)?,
                    slot => *slot = Slot::Owned(array),
                }
            }
        }
        Ok(())
    }

    /// Sizes of a kernel's dimensions.
    fn sizes(&self, s: usize, sizes: &mut [usize]) -> Result<()> {
        let step = &self.op.steps[s];
        for (param, buffer) in step.kernel.params.iter().zip(&step.buffers) {
            match param.kind {
                ParamKind::Real { dim: Some(d), .. }
                | ParamKind::Output { dim: Some(d), .. }
                | ParamKind::Ints { dim: d, .. } => {
                    sizes[d] = self.shape(*buffer)?.first().copied().unwrap_or(0);
                }
                ParamKind::Batch { rows, systems } => {
                    if let Some(Arg::Batch(batch)) = self.args.get(*buffer) {
                        (sizes[rows], sizes[systems]) = (batch.atoms(), batch.systems());
                    }
                }
                ParamKind::Pairs(d) => {
                    if let Some(Arg::Pairs(list)) = self.args.get(*buffer) {
                        sizes[d] = list.rows();
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// An array that is not there is zero; a cotangent that is the same everywhere is spread out where the form
    /// wants an array.
    fn make_readable(&mut self, buffer: usize, r: u8, uniform: bool) -> Result<()> {
        match &self.store[buffer][usize::from(r)] {
            Slot::Absent => self.store[buffer][usize::from(r)] = Slot::Owned(self.zeros(buffer)?),
            Slot::Uniform(one) if !uniform && self.spread[buffer].is_none() => {
                self.spread[buffer] = Some(Array::filled(self.dtype, &self.shape(buffer)?, one.to_f64()[0]));
            }
            _ => {}
        }
        Ok(())
    }
}
