//! Execution of a member of an op's family: its steps forwards, and backwards where gradients are wanted.

use super::arrays::{Arrays, Slot};
use super::bind::{bind, describe_view};
use super::call::Call;
use super::declare::{Op, Step, Work};
use super::grid::search;
use super::lists::transpose_lists;
use super::request::{Arg, Cotangent, Evaluated, Request};

use crate::array::Array;
use crate::backend::status::Word;
use crate::backend::{Bound, Context, Launch, LaunchArgs};
use crate::runtime::{Kernel, Member, ParamKind, Part, Role, SlotArray};
use crate::stop::caught;
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
        caught(
            || self.largest(args),
            || {
                let narrowed = self.narrowed(context, args)?;
                if narrowed.iter().any(Option::is_some) {
                    let views = narrowed.iter().zip(args);
                    let views = views
                        .map(|(array, arg)| array.as_ref().map_or(arg.clone(), |a| Arg::Array(a.view())));
                    let evaluated = self.evaluate(context, &views.collect::<Vec<_>>(), request);
                    narrowed.into_iter().flatten().for_each(|array| context.allocator.recycle(array));
                    return evaluated;
                }
                if let Some(evaluated) = self.evaluated_as_sum(context, args, request)? {
                    return Ok(evaluated);
                }
                if let Some(evaluated) = self.evaluated_sorted(context, args, request)? {
                    return Ok(evaluated);
                }
                let nearby = self.evaluated_nearby(context, args, request)?;
                nearby.map_or_else(|| self.evaluated_here(context, args, request), Ok)
            },
        )
    }

    pub(super) fn evaluated_here(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
    ) -> Result<Evaluated> {
        if let Some(search) = self.search {
            return Ok(Evaluated { values: search(context, args)?, ..Evaluated::default() });
        }
        let mut run = Run::new(self, context, args, request)?;
        let mut evaluated = run.evaluate(request)?;
        let Run { mut call, mut arrays, raised } = run;
        arrays.drain_owned(|array| context.allocator.recycle(array));
        std::mem::take(&mut call.lists).into_arrays().for_each(|array| context.allocator.recycle(array));
        // A device checks the results in their final types, all at once.
        let on_device = call.word.is_some();
        if on_device {
            call.narrow(&mut evaluated, request)?;
        }
        let mut evaluated = self.settle(context, args, request, evaluated, raised, call.word.take())?;
        if !on_device {
            call.narrow(&mut evaluated, request)?;
        }
        Ok(evaluated)
    }
}

impl Op {
    /// Name of the argument with the most elements, which makes the sizes of the others.
    fn largest(&self, args: &[Arg<'_>]) -> String {
        let elements = |arg: &Arg<'_>| match arg {
            Arg::Array(view) => view.len(),
            Arg::Structure(structure) => structure.sizes().into_iter().flatten().max().unwrap_or(0),
            Arg::Grid(grid) => grid.points(),
            Arg::Real(_) | Arg::Int(_) | Arg::Zero => 0,
        };
        let largest = self.args.iter().zip(args).max_by_key(|(_, arg)| elements(arg));
        largest.map(|(spec, _)| spec.name.clone()).unwrap_or_default()
    }
}

/// Execution of a call: its arrays, and the passes over the steps.
struct Run<'r, 'a> {
    call: Call<'r, 'a>,
    arrays: Arrays<'a>,
    /// Whether a kernel raised the status word, and the error was put off.
    raised: bool,
}

impl<'r, 'a> Run<'r, 'a> {
    fn new(
        op: &'r Op,
        context: &'r Context<'r>,
        args: &'r [Arg<'a>],
        request: &Request<'_, 'a>,
    ) -> Result<Self> {
        let (mut call, checks) = bind(op, context, args)?;
        let mut arrays = Arrays::new(op.buffers(), args.len());
        call.begin(&mut arrays, &checks, request)?;
        for (n, arg) in args.iter().enumerate() {
            if let Arg::Array(view) = arg {
                arrays.set(n, Role::VALUE, call.computed(&op.args[n], view)?);
            }
        }
        search(&mut call, &arrays, request)?;
        Ok(Self { call, arrays, raised: false })
    }

    fn evaluate(&mut self, request: &Request<'_, 'a>) -> Result<Evaluated> {
        if request.cotangents.len() > self.call.op.outputs.len() {
            let expected = format!("at most {}", self.call.op.outputs.len());
            return Err(Error::argument("cotangents", expected, request.cotangents.len().to_string()));
        }
        if request.directions.len() + usize::from(!request.cotangents.is_empty()) > 2 {
            return Err(Error::Unsupported(format!(
                "{}: derivatives ship up to F₂ and G₁; {}{} was asked for",
                self.call.op.full_name(),
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
            if direction.len() != self.call.op.args.len() {
                let expected = format!("{} entries, one per argument", self.call.op.args.len());
                return Err(Error::argument("directions", expected, direction.len().to_string()));
            }
            for (n, tangent) in direction.iter().enumerate() {
                let Some(view) = tangent else { continue };
                let name = || format!("direction {k} of {}", self.call.op.args[n].name);
                if !self.call.op.is_differentiable(n) {
                    return Err(Error::argument(
                        name(),
                        "none: there is no derivative by it",
                        describe_view(view),
                    ));
                }
                self.call.fits(&name, n, self.call.dtype_of(n), view)?;
                let slot = self.call.widened(view)?;
                self.arrays.set(n, [Role::FIRST, Role::SECOND][k], slot);
            }
        }
        for (n, cotangent) in request.cotangents.iter().enumerate() {
            let buffer = self.call.op.args.len() + n;
            let name = || format!("cotangent of {}", self.call.op.outputs[n].name);
            let slot = match cotangent {
                None => continue,
                Some(_) if self.call.op.integer(buffer).is_some() => {
                    return Err(Error::argument(name(), "none: integers have no derivatives", "one"));
                }
                Some(Cotangent::Array(view)) => {
                    self.call.fits(&name, buffer, self.call.dtype_of(buffer), view)?;
                    self.call.widened(view)?
                }
                // Filled when the call began.
                Some(Cotangent::Uniform(_)) => continue,
            };
            self.arrays.set(buffer, Role::COTANGENT, slot);
        }
        self.check_gradients(request.gradients)?;
        self.call.set_saved(&mut self.arrays, request)?;
        self.call.results = self.call.op.results_of(request);
        match (request.cotangents.is_empty(), request.directions.len()) {
            (true, 0) if request.save.is_some() => self.forward_saving(request.save.unwrap_or_default()),
            (true, 0) => self.forward(Member::Value, Role::VALUE),
            (true, 1) => self.forward(Member::Tangent, Role::FIRST),
            (false, order) => match self.call.scaled(request)? {
                Some(scaled) => Ok(scaled),
                None => self.backward(request, order),
            },
            (true, _) => self.forward(Member::SecondTangent, Role::FIRST.with(Role::SECOND)),
        }
    }

    fn outputs(&self) -> std::ops::Range<usize> {
        self.call.op.args.len()..self.call.op.args.len() + self.call.op.outputs.len()
    }

    /// F: every step, in the order of a forward pass.
    fn forward(&mut self, member: Member, wanted: Role) -> Result<Evaluated> {
        let op = self.call.op;
        for &s in &op.forward {
            // A step that no direction reaches has no derivatives: absent means zero.
            let member = if self.reaches(s, Role::FIRST.with(Role::SECOND)) { member } else { Member::Value };
            if member == Member::Value && self.call.written(s).all(|b| self.arrays.given(b, Role::VALUE)) {
                continue;
            }
            self.launch(s, member, &|buffer, r| {
                !op.is_output(buffer)
                    || r == wanted
                    || (member == Member::Value && r == Role::VALUE && wanted == Role::VALUE)
            })?;
        }
        let values = self.outputs().map(|b| self.take(b, wanted)).collect::<Result<_>>()?;
        Ok(Evaluated { values, ..Evaluated::default() })
    }

    /// F₀ and its residuals for gradients by some of `by`.
    fn forward_saving(&mut self, by: &[usize]) -> Result<Evaluated> {
        let saved_args = self.call.op.saved_args();
        let by: Vec<usize> = saved_args.iter().copied().filter(|n| by.contains(n)).collect();
        let mut evaluated = if by.is_empty() {
            self.forward(Member::Value, Role::VALUE)?
        } else {
            self.backward(&Request { values: true, gradients: &by, ..Request::default() }, 0)?
        };
        for buffer in self.call.op.saved_buffers() {
            evaluated.saved.push(Some(self.take(buffer, Role::VALUE)?));
        }
        let mut gradients = std::mem::take(&mut evaluated.gradients).into_iter();
        for n in saved_args {
            evaluated.saved.push(if by.contains(&n) { gradients.next() } else { None });
        }
        Ok(evaluated)
    }

    /// Whether any input of a step has an array with one of these bits.
    fn reaches(&self, step: usize, bits: Role) -> bool {
        let step = &self.call.op.steps[step];
        step.has_real_outputs()
            && step.params().iter().zip(&step.buffers).any(|(p, b)| {
                (matches!(p.kind, ParamKind::Real { .. }) || p.in_out)
                    && (1..8).map(Role).any(|r| r.meets(bits) && self.arrays.has(*b, r))
            })
    }

    fn check_gradients(&self, gradients: &[usize]) -> Result<()> {
        for n in gradients {
            if *n >= self.call.op.args.len() || !self.call.op.is_differentiable(*n) {
                let names =
                    self.call.op.args.iter().enumerate().filter(|(n, _)| self.call.op.is_differentiable(*n));
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

    /// G: forwards the steps whose arrays the backward pass reads, then every step backwards, then outputs that are still
    /// missing.
    fn backward(&mut self, request: &Request<'_, 'a>, order: usize) -> Result<Evaluated> {
        let op = self.call.op;
        let steps = op.steps.len();
        if request.values && order != 0 {
            return Err(Error::Unsupported("values are not given beside Hessian-vector products".into()));
        }
        let active = &self.call.active(request.gradients);
        let (gradient, value) = match order {
            0 => (Member::Gradient, Member::Value),
            _ => (Member::GradientTangent, Member::Tangent),
        };
        let needed = self.call.needed(&self.arrays, (gradient, value), active, request.values)?;
        let mut ran = vec![false; steps];
        for &s in &op.forward {
            let member = if self.reaches(s, Role::FIRST) { value } else { Member::Value };
            let makes = |b: usize| member != Member::Value || !self.arrays.given(b, Role::VALUE);
            if self.call.written(s).any(|b| needed.contains(&b) && makes(b)) {
                let values = request.values;
                self.launch(s, member, &|b, r| !op.is_output(b) || (values && r == Role::VALUE))?;
                ran[s] = true;
            }
        }
        for s in (0..steps).rev() {
            let reached = self.call.written(s).any(|b| (4..8).any(|r| self.arrays.has(b, Role(r))));
            if !reached || !self.call.depends(s, active) {
                if request.values && !ran[s] && self.call.adds(s) && self.call.adds_next(s, &ran) {
                    self.launch(s, Member::Value, &|_, _| true)?;
                    ran[s] = true;
                }
                continue;
            }
            // Without a direction among its inputs and cotangents, a step's gradient has no derivative.
            let tangent = self.reaches(s, Role::FIRST)
                || self.call.written(s).any(|b| self.arrays.has(b, Role::COTANGENT.with(Role::FIRST)));
            let member = if tangent { gradient } else { Member::Gradient };
            // Values fall out of the pass where they were not needed before it and what they need is there.
            let reads = self.call.reads(s, Member::Value, active)?;
            let ready =
                reads.iter().all(|b| *b < self.call.op.args.len() || self.arrays.has(*b, Role::VALUE));
            let values = order == 0 && request.values && !ran[s] && ready && self.call.adds_next(s, &ran);
            self.launch(s, member, &|b, r| {
                if !r.has(Role::COTANGENT) {
                    return r == Role::VALUE && values;
                }
                let is_arg = b < op.args.len();
                active.contains(&b) && (!is_arg || order == 0 || r.has(Role::FIRST))
            })?;
            ran[s] |= values;
        }
        let mut evaluated = Evaluated::default();
        if request.values {
            for s in op.forward.iter().filter(|s| !ran[**s]) {
                self.launch(*s, Member::Value, &|_, _| true)?;
            }
            evaluated.values = self.outputs().map(|b| self.take(b, Role::VALUE)).collect::<Result<_>>()?;
        }
        let wanted = Role::COTANGENT.with(if order == 0 { Role::VALUE } else { Role::FIRST });
        evaluated.gradients =
            request.gradients.iter().map(|n| self.take(*n, wanted)).collect::<Result<_>>()?;
        Ok(evaluated)
    }

    fn take(&mut self, buffer: usize, role: Role) -> Result<Array> {
        match self.arrays.take(buffer, role) {
            Slot::Owned(array) => Ok(array),
            // Nothing contributed: it is zero.
            _ => self.call.made(buffer, role, true),
        }
    }

    /// Runs one form of one step. `wanted` tells whether an array that the form can write is wanted.
    fn launch(&mut self, s: usize, member: Member, wanted: &dyn Fn(usize, Role) -> bool) -> Result<()> {
        let step = &self.call.op.steps[s];
        let kernel = match step.work {
            Work::Kernel(kernel) => kernel,
            Work::Linear(map) => {
                return map.apply(&self.call, &mut self.arrays, &step.buffers, member, wanted);
            }
        };
        let is_output = |p: usize| matches!(kernel.params[p].kind, ParamKind::Output { .. });
        let gradient = matches!(member, Member::Gradient | Member::GradientTangent);
        if kernel.forms.iter().any(|f| f.member == member && f.uniform) {
            self.arrays.find_uniform(&self.call, s)?;
        }
        let uniform = gradient
            && (0..kernel.params.len())
                .filter(|p| is_output(*p))
                .all(|p| matches!(self.arrays.get(step.buffers[p], Role::COTANGENT), Slot::Uniform(_)));
        let wanted_inputs: Vec<usize> = (0..kernel.params.len())
            .filter(|p| matches!(kernel.params[*p].kind, ParamKind::Real { .. }))
            .map(|p| step.buffers[p])
            .filter(|b| wanted(*b, Role::COTANGENT) || wanted(*b, Role::COTANGENT.with(Role::FIRST)))
            .collect();
        let form = self.call.form(s, kernel, member, &wanted_inputs, uniform)?;
        let mut sizes = vec![0; kernel.dims.len()];
        self.call.sizes(s, kernel, &mut sizes)?;
        let mut hidden: BTreeMap<usize, Array> = BTreeMap::new();
        for part in form.parts {
            let launch = PartLaunch { step, kernel, part, uniform: form.uniform, sizes: &sizes };
            self.launch_part(&launch, wanted, &mut hidden)?;
        }
        for (_, array) in hidden {
            self.call.context.allocator.recycle(array);
        }
        Ok(())
    }

    /// Runs one part of a form. Arrays between the launches of a form are `hidden`.
    fn launch_part(
        &mut self,
        launch: &PartLaunch<'_>,
        wanted: &dyn Fn(usize, Role) -> bool,
        hidden: &mut BTreeMap<usize, Array>,
    ) -> Result<()> {
        let PartLaunch { step, kernel, part, uniform, sizes } = *launch;
        let keys = launch.keys();
        let takes = |run: &Self, param: usize, r: Role| {
            let buffer = step.buffers[param];
            (wanted(buffer, r) && !run.arrays.given(buffer, r)) || !kernel.is_differentiable()
        };
        let mut written = keys.iter().filter(|key| key.2);
        if !written.any(|(param, r, _)| r.has(Role::HIDDEN) || takes(self, *param, *r)) {
            return Ok(());
        }
        transpose_lists(&mut self.call, step, part)?;
        // Outputs are taken out, so that the rest can be borrowed.
        let mut outputs = vec![];
        for (param, r, writes) in &keys {
            // The parameter of a hidden array is its number.
            let buffer = if r.has(Role::HIDDEN) { usize::MAX } else { step.buffers[*param] };
            match (r.has(Role::HIDDEN), *writes) {
                (true, true) => {
                    let shape: Vec<usize> =
                        [sizes[kernel.index]].into_iter().chain(r.width().map(|w| sizes[w])).collect();
                    let array = self.call.context.allocator.room(self.call.dtype, &shape)?;
                    outputs.push(((*param, *r), buffer, array, false));
                }
                (true, false) => {}
                (false, false) => {
                    let uniform = uniform && launch.is_output(*param);
                    self.arrays.make_readable(&self.call, buffer, *r, uniform)?;
                }
                (false, true) if takes(self, *param, *r) => {
                    let (array, adds) = match self.arrays.take_sum(&self.call, buffer, *r)? {
                        Some(array) => (array, true),
                        // Rows of a kernel that is not differentiated need not write all of it.
                        None => (self.call.made(buffer, *r, !kernel.is_differentiable())?, false),
                    };
                    outputs.push(((*param, *r), buffer, array, adds));
                }
                (false, true) => {}
            }
        }
        let mut arrays: Vec<((usize, Role), Bound<'_>)> = Vec::with_capacity(keys.len());
        for (param, r, writes) in &keys {
            let key = (*param, *r);
            arrays.push(match (writes, r.has(Role::HIDDEN)) {
                (true, _) if outputs.iter().any(|output| output.0 == key) => continue,
                (true, _) => (key, Bound::Unwanted),
                (false, true) => {
                    let array = hidden.get(param).ok_or_else(|| {
                        let name = kernel.name;
                        Error::Unsupported(format!(
                            "{name}: an array between launches is read before it is made"
                        ))
                    })?;
                    (key, Bound::Input(array.view()))
                }
                (false, false) => {
                    (key, Bound::Input(self.arrays.readable(step.buffers[*param], *r, uniform)))
                }
            });
        }
        arrays.extend(
            outputs.iter_mut().map(|(key, _, array, adds)| (*key, Bound::Output { array, adds: *adds })),
        );
        let given = |(p, b): (usize, &usize)| Some((p, *b, self.call.structure(*b)?));
        let given: Vec<_> = step.buffers.iter().enumerate().filter_map(given).collect();
        let transposed: Vec<_> =
            given.iter().map(|(_, b, list)| self.call.lists.transposed(*b, *list)).collect();
        let structures = given.iter().zip(&transposed).map(|((p, _, structure), transposed)| {
            (*p, transposed.as_ref().map_or(*structure, |list| list as &dyn Structure))
        });
        let (mut reals, mut ints) = (vec![], vec![]);
        for b in &step.buffers {
            match self.call.args.get(*b) {
                Some(Arg::Real(x)) => reals.push(*x),
                Some(Arg::Int(i)) => ints.push(*i),
                _ => {}
            }
        }
        let status = &Word::default();
        let (dtype, word) = (self.call.dtype, self.call.word.as_ref());
        let structures = structures.collect();
        let args =
            LaunchArgs { kernel, part, dtype, dims: sizes, arrays, structures, reals, ints, status, word };
        self.call.context.backend.launch(self.call.context, &mut Launch::bound(args)?)?;
        if let Some(error) = self.call.op.raised(step, status, self.call.args) {
            self.call.context.status.raise(error)?;
            self.raised = true;
        }
        for ((param, r), buffer, array, _) in outputs {
            if r.has(Role::HIDDEN) {
                hidden.insert(param, array);
                continue;
            }
            // A buffer that stands for two parameters of the kernel gets what both contribute.
            self.arrays.add_to(&self.call, buffer, r, array)?;
        }
        Ok(())
    }
}

/// Launch of a part of a step's kernel.
#[derive(Clone, Copy)]
struct PartLaunch<'s> {
    step: &'s Step,
    kernel: &'static Kernel,
    part: &'static Part,
    /// Whether cotangents are one number for all rows.
    uniform: bool,
    /// Sizes of the kernel's dimensions.
    sizes: &'s [usize],
}

impl PartLaunch<'_> {
    fn is_output(&self, param: usize) -> bool {
        matches!(self.kernel.params[param].kind, ParamKind::Output { .. })
    }

    /// The parameter and role of each array, and whether the part writes it.
    fn keys(&self) -> Vec<(usize, Role, bool)> {
        let part = self.part;
        let mut keys = Vec::with_capacity(part.slots.len() + part.reductions.len());
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
        keys
    }
}
