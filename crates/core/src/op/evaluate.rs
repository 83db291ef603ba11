//! Runs a member of an op's family: its kernels forwards, and backwards where gradients are wanted.

use super::check::{BoundArgs, bind, check_finite, describe_view};
use super::declare::{Op, Work};
use super::lists::MadeLists;
use super::request::{Arg, Cotangent, Evaluated, Request};
use super::store::{Slot, Store};
use crate::array::{Array, DType, Shape, View};
use crate::backend::status::Word;
use crate::backend::{Bound, Context, Launch, LaunchArgs};
use crate::runtime::{Member, ParamKind, Role, SlotArray};
use crate::structure::Structure;
use crate::{Error, Result};
use std::collections::BTreeMap;

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
        let mut run = Run::new(self, context, args, bind(self, args, context.backend.place())?, request)?;
        run.search(request)?;
        let mut evaluated = run.evaluate(request)?;
        run.store.drain_owned(|array| context.allocator.recycle(array));
        std::mem::take(&mut run.lists).into_arrays().for_each(|array| context.allocator.recycle(array));
        let on_device = run.word.is_some();
        if on_device {
            // A device looks at what the caller gets, all at once.
            run.narrow(&mut evaluated, request)?;
        }
        let mut evaluated = self.settle(context, args, evaluated, run.raised, run.word.take())?;
        if !on_device {
            run.narrow(&mut evaluated, request)?;
        }
        Ok(evaluated)
    }
}

pub(super) struct Run<'r, 'a> {
    pub(super) op: &'r Op,
    pub(super) context: &'r Context<'r>,
    pub(super) args: &'r [Arg<'a>],
    pub(super) dtype: DType,
    pub(super) dims: Vec<(&'r str, usize)>,
    attrs: Vec<(&'r str, i64)>,
    /// The buffer and role of each result.
    pub(super) results: Vec<(usize, Role)>,
    pub(super) store: Store<'a>,
    /// Whether a kernel raised the status word, and the error was put off.
    raised: bool,
    /// The call's status word in the memory of a device.
    pub(super) word: Option<Array>,
    /// Lists that the call has made.
    pub(super) lists: MadeLists,
}

impl<'r, 'a> Run<'r, 'a> {
    fn new(
        op: &'r Op,
        context: &'r Context<'r>,
        args: &'r [Arg<'a>],
        bound: BoundArgs<'r>,
        request: &Request<'_, 'a>,
    ) -> Result<Self> {
        let store = Store::new(op.buffers(), args);
        let BoundArgs { dtype, dims, attrs, checks } = bound;
        let mut run = Self {
            op,
            context,
            args,
            dtype,
            dims,
            attrs,
            results: vec![],
            store,
            raised: false,
            word: None,
            lists: MadeLists::default(),
        };
        run.begin(&checks, request)?;
        for (n, arg) in args.iter().enumerate() {
            if let Arg::Array(view) = arg {
                let slot = run.computed(&op.args[n], view)?;
                run.store.set(n, Role::VALUE, slot);
            }
        }
        Ok(run)
    }

    pub(super) fn shape(&self, buffer: usize) -> Result<Shape> {
        let shape = self.op.shape_of(buffer).unwrap_or(&[]);
        shape.iter().map(|s| s.evaluate_in(&self.dims, &self.attrs)).collect()
    }

    /// The size of one axis; 0 where there are fewer.
    pub(super) fn size(&self, buffer: usize, axis: usize) -> Result<usize> {
        let size = self.op.shape_of(buffer).and_then(|shape| shape.get(axis));
        size.map_or(Ok(0), |size| size.evaluate_in(&self.dims, &self.attrs))
    }

    /// Whether a value came with the call, saved by an earlier one.
    pub(super) fn given(&self, buffer: usize, r: Role) -> bool {
        let slot = self.store.get(buffer, r);
        r == Role::VALUE && buffer >= self.op.args.len() && matches!(slot, Slot::Borrowed(_))
    }

    pub(super) fn has(&self, buffer: usize, role: Role) -> bool {
        !matches!(self.store.get(buffer, role), Slot::Absent)
    }

    /// `name` is asked for where something is wrong.
    pub(super) fn fits(
        &self,
        name: &dyn Fn() -> String,
        buffer: usize,
        dtype: DType,
        view: &View<'_>,
    ) -> Result<()> {
        let shape = self.shape(buffer)?;
        if view.shape() != &*shape || view.dtype() != dtype {
            let expected = format!("{dtype} {:?}", &*shape);
            return Err(Error::argument(name(), expected, format!("{} {:?}", view.dtype(), view.shape())));
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
                let name = || format!("direction {k} of {}", self.op.args[n].name);
                if !self.op.is_differentiable(n) {
                    return Err(Error::argument(
                        name(),
                        "none: there is no derivative by it",
                        describe_view(view),
                    ));
                }
                self.fits(&name, n, self.dtype_of(n), view)?;
                let slot = self.widened(view)?;
                self.store.set(n, [Role::FIRST, Role::SECOND][k], slot);
            }
        }
        for (n, cotangent) in request.cotangents.iter().enumerate() {
            let buffer = self.op.args.len() + n;
            let name = || format!("cotangent of {}", self.op.outputs[n].name);
            let slot = match cotangent {
                None => continue,
                Some(_) if self.op.integer(buffer).is_some() => {
                    return Err(Error::argument(name(), "none: integers have no derivatives", "one"));
                }
                Some(Cotangent::Array(view)) => {
                    self.fits(&name, buffer, self.dtype_of(buffer), view)?;
                    self.widened(view)?
                }
                // Filled when the call began.
                Some(Cotangent::Uniform(_)) => {
                    check_finite(&name, &self.readable(buffer, Role::COTANGENT, true))?;
                    continue;
                }
            };
            self.store.set(buffer, Role::COTANGENT, slot);
        }
        self.check_gradients(request.gradients)?;
        self.set_saved(request)?;
        self.results = self.results_of(request);
        match (request.cotangents.is_empty(), request.directions.len()) {
            (true, 0) if request.save.is_some() => self.forward_saving(request.save.unwrap_or_default()),
            (true, 0) => self.forward(Member::Value, Role::VALUE),
            (true, 1) => self.forward(Member::Tangent, Role::FIRST),
            (false, order) => match self.scaled(request)? {
                Some(scaled) => Ok(scaled),
                None => self.backward(request, order),
            },
            (true, _) => self.forward(Member::SecondTangent, Role::FIRST.with(Role::SECOND)),
        }
    }

    fn outputs(&self) -> std::ops::Range<usize> {
        self.op.args.len()..self.op.args.len() + self.op.outputs.len()
    }

    /// F: every step in order.
    pub(super) fn forward(&mut self, member: Member, wanted: Role) -> Result<Evaluated> {
        for s in 0..self.op.steps.len() {
            // A step that no direction reaches has no derivatives: absent means zero.
            let member = if self.reaches(s, Role::FIRST.with(Role::SECOND)) { member } else { Member::Value };
            if member == Member::Value && self.written(s).all(|b| self.given(b, Role::VALUE)) {
                continue;
            }
            self.launch(s, member, &|run, buffer, r| {
                !run.op.is_output(buffer)
                    || r == wanted
                    || (member == Member::Value && r == Role::VALUE && wanted == Role::VALUE)
            })?;
        }
        let values = self.outputs().map(|b| self.take(b, wanted)).collect::<Result<_>>()?;
        Ok(Evaluated { values, ..Evaluated::default() })
    }

    /// Whether any input of a step has an array with one of these bits.
    fn reaches(&self, step: usize, bits: Role) -> bool {
        let step = &self.op.steps[step];
        step.has_real_outputs()
            && step.params().iter().zip(&step.buffers).any(|(p, b)| {
                matches!(p.kind, ParamKind::Real { .. })
                    && (1..8).map(Role).any(|r| r.meets(bits) && self.has(*b, r))
            })
    }

    fn check_gradients(&self, gradients: &[usize]) -> Result<()> {
        for n in gradients {
            if *n >= self.op.args.len() || !self.op.is_differentiable(*n) {
                let names = self.op.args.iter().enumerate().filter(|(n, _)| self.op.is_differentiable(*n));
                let names: Vec<&str> = names.map(|(_, a)| a.name.as_str()).collect();
                let expected = format!("positions of differentiable arguments ({})", names.join(", "));
                return Err(Error::argument("gradients", expected, n.to_string()));
            }
        }
        if (1..gradients.len()).any(|n| gradients[..n].contains(&gradients[n])) {
            let got = format!("{:?}", gradients);
            return Err(Error::argument("gradients", "each argument once", got));
        }
        Ok(())
    }

    /// G: what the backward pass needs forwards, then every step backwards, then whatever outputs are still missing.
    pub(super) fn backward(&mut self, request: &Request<'_, 'a>, order: usize) -> Result<Evaluated> {
        let steps = self.op.steps.len();
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
            let member = if self.reaches(s, Role::FIRST) { value } else { Member::Value };
            let makes = |b: usize| member != Member::Value || !self.given(b, Role::VALUE);
            if self.written(s).any(|b| needed.contains(&b) && makes(b)) {
                let values = request.values;
                self.launch(s, member, &|run, b, r| !run.op.is_output(b) || (values && r == Role::VALUE))?;
                *ran = true;
            }
        }
        for s in (0..steps).rev() {
            let reached = self.written(s).any(|b| (4..8).any(|r| self.has(b, Role(r))));
            if !reached || !self.depends(s, active) {
                continue;
            }
            // Without a direction among its inputs and cotangents, a step's gradient has no derivative.
            let tangent = self.reaches(s, Role::FIRST)
                || self.written(s).any(|b| self.has(b, Role::COTANGENT.with(Role::FIRST)));
            let member = if tangent { gradient } else { Member::Gradient };
            // Values fall out of the pass where they were not needed before it and what they need is there.
            let reads = self.reads(s, Member::Value, active)?;
            let ready = reads.iter().all(|b| *b < self.op.args.len() || self.has(*b, Role::VALUE));
            let values = order == 0 && request.values && !ran[s] && ready;
            self.launch(s, member, &|run, b, r| {
                if !r.has(Role::COTANGENT) {
                    return r == Role::VALUE && values;
                }
                let is_arg = b < run.op.args.len();
                active.contains(&b) && (!is_arg || order == 0 || r.has(Role::FIRST))
            })?;
            ran[s] |= values;
        }
        let mut evaluated = Evaluated::default();
        if request.values {
            for (s, _) in ran.iter().enumerate().filter(|(_, ran)| !**ran) {
                self.launch(s, Member::Value, &|_, _, _| true)?;
            }
            evaluated.values = self.outputs().map(|b| self.take(b, Role::VALUE)).collect::<Result<_>>()?;
        }
        let wanted = Role::COTANGENT.with(if order == 0 { Role::VALUE } else { Role::FIRST });
        evaluated.gradients =
            request.gradients.iter().map(|n| self.take(*n, wanted)).collect::<Result<_>>()?;
        Ok(evaluated)
    }

    pub(super) fn take(&mut self, buffer: usize, role: Role) -> Result<Array> {
        match self.store.take(buffer, role) {
            Slot::Owned(array) => Ok(array),
            // Nothing contributed: it is zero.
            _ => self.made(buffer, role, true),
        }
    }

    /// Runs one form of one step. `wanted` says which of the arrays that it can write are wanted.
    fn launch(
        &mut self,
        s: usize,
        member: Member,
        wanted: &dyn Fn(&Self, usize, Role) -> bool,
    ) -> Result<()> {
        let step = &self.op.steps[s];
        let kernel = match step.work {
            Work::Kernel(kernel) => kernel,
            Work::Linear(map) => return self.apply(map, &step.buffers, member, wanted),
        };
        let is_output = |p: usize| matches!(kernel.params[p].kind, ParamKind::Output { .. });
        let gradient = matches!(member, Member::Gradient | Member::GradientTangent);
        if kernel.forms.iter().any(|f| f.member == member && f.uniform) {
            self.find_uniform(s)?;
        }
        let uniform = gradient
            && (0..kernel.params.len())
                .filter(|p| is_output(*p))
                .all(|p| matches!(self.store.get(step.buffers[p], Role::COTANGENT), Slot::Uniform(_)));
        let wanted_inputs: Vec<usize> = (0..kernel.params.len())
            .filter(|p| matches!(kernel.params[*p].kind, ParamKind::Real { .. }))
            .map(|p| step.buffers[p])
            .filter(|b| {
                wanted(self, *b, Role::COTANGENT) || wanted(self, *b, Role::COTANGENT.with(Role::FIRST))
            })
            .collect();
        let form = self.form(s, kernel, member, &wanted_inputs, uniform)?;
        let mut sizes = vec![0; kernel.dims.len()];
        self.sizes(s, kernel, &mut sizes)?;
        let rows = sizes[kernel.index];
        let mut hidden: BTreeMap<usize, Array> = BTreeMap::new();
        for part in form.parts {
            let mut keys: Vec<(usize, Role, bool)> =
                Vec::with_capacity(part.slots.len() + part.reductions.len());
            for (n, slot) in part.slots.iter().enumerate() {
                if let SlotArray::Values(r) = slot.array {
                    keys.push((slot.param, r, part.written.contains(&n)));
                }
            }
            for r in part.reductions {
                if !keys.iter().any(|k| (k.0, k.1) == (r.param, r.role)) {
                    keys.push((r.param, r.role, true));
                }
            }
            let takes = |run: &Self, param: usize, r: Role| {
                let buffer = step.buffers[param];
                (wanted(run, buffer, r) && !run.given(buffer, r)) || !kernel.is_differentiable()
            };
            let mut written = keys.iter().filter(|key| key.2);
            if !written.any(|(param, r, _)| r.has(Role::HIDDEN) || takes(self, *param, *r)) {
                // Nobody wants what it would write.
                continue;
            }
            self.transpose_lists(step, part)?;
            // What is written is taken out, so that the rest can be borrowed.
            let mut outputs = vec![];
            for (param, r, writes) in &keys {
                if r.has(Role::HIDDEN) {
                    if *writes {
                        let channels = r.width().map(|w| sizes[w]);
                        let shape: Vec<usize> = [rows].into_iter().chain(channels).collect();
                        let array = self.context.allocator.room(self.dtype, &shape)?;
                        outputs.push(((*param, *r), usize::MAX, array, false));
                    }
                    continue;
                }
                let buffer = step.buffers[*param];
                if !writes {
                    self.make_readable(buffer, *r, form.uniform && is_output(*param))?;
                } else if takes(self, *param, *r) {
                    let slot = self.store.take(buffer, *r);
                    let (array, adds) = match slot {
                        Slot::Owned(array) => (array, true),
                        // Rows of a kernel that is not differentiated need not write all of it.
                        _ => (self.made(buffer, *r, !kernel.is_differentiable())?, false),
                    };
                    outputs.push(((*param, *r), buffer, array, adds));
                }
            }
            let mut arrays: Vec<((usize, Role), Bound<'_>)> = Vec::with_capacity(keys.len());
            for (param, r, writes) in &keys {
                if *writes {
                    if !outputs.iter().any(|o| o.0 == (*param, *r)) {
                        arrays.push(((*param, *r), Bound::Unwanted));
                    }
                } else if r.has(Role::HIDDEN) {
                    let array = hidden.get(param).ok_or_else(|| {
                        Error::Unsupported(format!(
                            "{}: an array between launches is read before it is made",
                            kernel.name
                        ))
                    })?;
                    arrays.push(((*param, *r), Bound::Input(array.view())));
                } else {
                    let view = self.readable(step.buffers[*param], *r, form.uniform);
                    arrays.push(((*param, *r), Bound::Input(view)));
                }
            }
            arrays.extend(
                outputs.iter_mut().map(|(key, _, array, adds)| (*key, Bound::Output { array, adds: *adds })),
            );
            let given = |(p, b): (usize, &usize)| Some((p, *b, self.structure(*b)?));
            let given: Vec<_> = step.buffers.iter().enumerate().filter_map(given).collect();
            let transposed: Vec<_> =
                given.iter().map(|(_, b, list)| self.lists.transposed(*b, *list)).collect();
            let structures = given.iter().zip(&transposed).map(|((p, _, structure), transposed)| {
                (*p, transposed.as_ref().map_or(*structure, |list| list as &dyn Structure))
            });
            let (mut reals, mut ints) = (vec![], vec![]);
            for b in &step.buffers {
                match self.args.get(*b) {
                    Some(Arg::Real(x)) => reals.push(*x),
                    Some(Arg::Int(i)) => ints.push(*i),
                    _ => {}
                }
            }
            let word = Word::default();
            let mut launch = Launch::bound(LaunchArgs {
                kernel,
                part,
                dtype: self.dtype,
                dims: &sizes,
                arrays,
                structures: structures.collect(),
                reals,
                ints,
                status: &word,
                word: self.word.as_ref(),
            })?;
            self.context.backend.launch(self.context, &mut launch)?;
            drop(launch);
            if let Some(error) = self.op.raised(step, &word) {
                self.context.status.raise(error)?;
                self.raised = true;
            }
            for ((param, r), buffer, array, _) in outputs {
                if r.has(Role::HIDDEN) {
                    hidden.insert(param, array);
                    continue;
                }
                // A buffer that stands for two parameters of the kernel gets what both contribute.
                self.add_to(buffer, r, array)?;
            }
        }
        for (_, array) in hidden {
            self.context.allocator.recycle(array);
        }
        Ok(())
    }

    /// Cotangents that later steps made and that are the same for every row, such as those of the energies in a sum,
    /// are called so for the sake of the cheaper forms.
    fn find_uniform(&mut self, s: usize) -> Result<()> {
        for buffer in self.written(s) {
            let Slot::Owned(array) = self.store.get(buffer, Role::COTANGENT) else { continue };
            let (true, Some(x)) = (array.shape().len() == 1, array.view().uniform()) else { continue };
            let one = Slot::Uniform(self.context.filled(self.dtype, &[1], x)?);
            if let Slot::Owned(array) = self.store.take(buffer, Role::COTANGENT) {
                self.store.set_spread(buffer, array);
            }
            self.store.set(buffer, Role::COTANGENT, one);
        }
        Ok(())
    }

    /// An array that is not there is zero; a cotangent that is the same everywhere is spread out where the form
    /// wants an array.
    pub(super) fn make_readable(&mut self, buffer: usize, r: Role, uniform: bool) -> Result<()> {
        match self.store.get(buffer, r) {
            Slot::Absent => {
                let zeros = self.zeros(buffer)?;
                self.store.set(buffer, r, Slot::Owned(zeros));
            }
            Slot::Uniform(one) if !uniform && self.store.spread(buffer).is_none() => {
                let mut spread = self.room(buffer)?;
                self.context.broadcast(&one.view(), &mut spread)?;
                self.store.set_spread(buffer, spread);
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts an array where there is none, or adds it to the one that is there.
    pub(super) fn add_to(&mut self, buffer: usize, r: Role, array: Array) -> Result<()> {
        let sum = match self.store.take(buffer, r) {
            Slot::Owned(mut sum) => {
                self.context.add(&mut sum, &array)?;
                self.context.allocator.recycle(array);
                sum
            }
            _ => array,
        };
        self.store.set(buffer, r, Slot::Owned(sum));
        Ok(())
    }
}
