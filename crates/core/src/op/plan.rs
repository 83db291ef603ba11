//! What a pass over an op's steps needs, and the form of each kernel that does it.

use super::declare::Work;
use super::evaluate::Run;
use super::request::Arg;
use crate::device::DeviceArg;
use crate::pairs::{Kind, PairList};
use crate::runtime::{Form, Kernel, Lists, Member, ParamKind, Role, SlotArray};
use crate::{Error, Result};

impl<'r> Run<'r, '_> {
    /// The buffers that depend on an argument whose gradient is wanted.
    pub(super) fn active(&self, gradients: &[usize]) -> Vec<usize> {
        let mut active = gradients.to_vec();
        for (s, step) in self.op.steps.iter().enumerate() {
            if self.depends(s, &active) {
                let written = step.params().iter().zip(&step.buffers);
                active.extend(
                    written.filter(|(p, _)| matches!(p.kind, ParamKind::Output { .. })).map(|(_, b)| *b),
                );
            }
        }
        active
    }

    /// Whether a step reads one of these.
    pub(super) fn depends(&self, step: usize, buffers: &[usize]) -> bool {
        let step = &self.op.steps[step];
        let mut params = step.params().iter().zip(&step.buffers);
        params.any(|(p, b)| matches!(p.kind, ParamKind::Real { .. }) && buffers.contains(b))
    }

    pub(super) fn written(&self, step: usize) -> impl Iterator<Item = usize> + use<'r> {
        let step = &self.op.steps[step];
        let params = step.params().iter().zip(&step.buffers);
        let written =
            |kind| matches!(kind, ParamKind::Output { .. } | ParamKind::Integers { output: true, .. });
        params.filter(move |(p, _)| written(p.kind)).map(|(_, b)| *b)
    }

    /// The arrays that backward passes read and that some step must make first.
    pub(super) fn needed(&self, gradient: Member, value: Member, active: &[usize]) -> Result<Vec<usize>> {
        let first_made = self.op.args.len() + self.op.outputs.len();
        let mut needed = vec![];
        for s in (0..self.op.steps.len()).rev() {
            if self.depends(s, active) && self.op.steps[s].has_real_outputs() {
                needed.extend(self.reads(s, gradient, active)?);
            }
            let makes = |b: usize| value != Member::Value || !self.given(b, Role::VALUE);
            if self.written(s).any(|b| needed.contains(&b) && makes(b)) {
                needed.extend(self.reads(s, value, active)?);
            }
        }
        needed.retain(|b| *b >= first_made);
        Ok(needed)
    }

    /// The buffers whose values or tangents a member reads.
    pub(super) fn reads(&self, s: usize, member: Member, active: &[usize]) -> Result<Vec<usize>> {
        let step = &self.op.steps[s];
        let kernel = match step.work {
            Work::Kernel(kernel) => kernel,
            Work::Linear(map) => return Ok(map.reads(member, &step.buffers)),
        };
        let form = self.form(s, kernel, member, active, false)?;
        let mut reads = vec![];
        for part in form.parts {
            for (n, slot) in part.slots.iter().enumerate() {
                if let SlotArray::Values(r) = slot.array
                    && !r.has(Role::COTANGENT)
                    && !r.has(Role::HIDDEN)
                    && !part.written.contains(&n)
                    && matches!(
                        kernel.params[slot.param].kind,
                        ParamKind::Real { .. } | ParamKind::Ints { .. } | ParamKind::Integers { .. }
                    )
                {
                    reads.push(step.buffers[slot.param]);
                }
            }
        }
        Ok(reads)
    }

    /// The cheapest form that does what is asked.
    pub(super) fn form(
        &self,
        step: usize,
        kernel: &'static Kernel,
        member: Member,
        active: &[usize],
        uniform: bool,
    ) -> Result<&'static Form> {
        let step = &self.op.steps[step];
        let scatter = self.context.scatter;
        let has = |lists: Lists| kernel.forms.iter().any(|f| f.member == member && f.lists == lists);
        let (has_any, has_scatter) = (has(Lists::Any), has(Lists::Scatter));
        // No form takes what queries find for symmetric.
        let lists = (0..kernel.params.len()).filter(|p| kernel.query_of(*p).is_none());
        let lists_full =
            lists.filter_map(|p| self.kind_of_list(step.buffers[p])).all(|kind| kind == Kind::Full);
        let covers = |form: &Form| match form.gradients {
            None => true,
            Some(given) => (0..step.buffers.len()).all(|p| {
                !matches!(kernel.params[p].kind, ParamKind::Real { .. })
                    || !active.contains(&step.buffers[p])
                    || given.contains(&p)
            }),
        };
        kernel
            .forms
            .iter()
            .filter(|f| {
                let list = match f.lists {
                    Lists::Any => !scatter || !has_scatter,
                    Lists::Full => lists_full && !scatter,
                    Lists::Scatter => scatter || !has_any,
                };
                f.member == member && list && (!f.uniform || uniform)
            })
            .find(|f| covers(f))
            .ok_or_else(|| {
                let (name, plain) = (kernel.name, !kernel.is_differentiable());
                Error::Unsupported(if has(Lists::Full) && !has_any {
                    format!("{name}: its gradient can be had for full lists only")
                } else if plain {
                    format!("{name}: no form for {member:?}: it is not differentiated")
                } else {
                    format!("{name}: no form for {member:?}")
                })
            })
    }

    pub(super) fn pair_lists(&self, buffers: &[usize], params: usize) -> Vec<(usize, &'r PairList<'r>)> {
        (0..params).filter_map(|p| Some((p, self.pair_list(buffers[p])?))).collect()
    }

    /// The kind of the list that an argument is.
    fn kind_of_list(&self, buffer: usize) -> Option<Kind> {
        match self.args.get(buffer)? {
            Arg::Device(DeviceArg::Pairs(list)) => Some(list.kind()),
            Arg::Device(DeviceArg::Grid { .. }) => Some(Kind::Directed),
            _ => Some(self.pair_list(buffer)?.kind()),
        }
    }

    /// The list that an argument is, or that its query found.
    pub(super) fn pair_list(&self, buffer: usize) -> Option<&'r PairList<'r>> {
        match self.args.get(buffer)? {
            Arg::Pairs(list) => Some(list),
            Arg::Grid(_) => self.found.iter().find(|(n, _)| *n == buffer).map(|(_, list)| list),
            _ => None,
        }
    }

    /// Sizes of a kernel's dimensions.
    pub(super) fn sizes(&self, s: usize, kernel: &Kernel, sizes: &mut [usize]) -> Result<()> {
        let step = &self.op.steps[s];
        for (param, buffer) in kernel.params.iter().zip(&step.buffers) {
            if let ParamKind::Real { width: Some(w), .. } | ParamKind::Output { width: Some(w), .. } =
                param.kind
            {
                sizes[w] = self.size(*buffer, 1)?;
            }
            match param.kind {
                ParamKind::Real { dim: Some(d), .. }
                | ParamKind::Output { dim: Some(d), .. }
                | ParamKind::Ints { dim: d, .. }
                | ParamKind::Integers { dim: Some(d), .. } => {
                    sizes[d] = self.size(*buffer, 0)?;
                }
                ParamKind::Batch { rows, systems } => match self.args.get(*buffer) {
                    Some(Arg::Batch(batch)) => {
                        (sizes[rows], sizes[systems]) = (batch.atoms(), batch.systems());
                    }
                    Some(Arg::Device(DeviceArg::Batch(batch))) => {
                        (sizes[rows], sizes[systems]) = (batch.atoms(), batch.systems());
                    }
                    _ => {}
                },
                ParamKind::Pairs { rows, columns, entries } => {
                    let room = if let Some(Arg::Device(DeviceArg::Pairs(list))) = self.args.get(*buffer) {
                        (sizes[rows], sizes[columns]) = (list.rows(), list.columns());
                        list.capacity()
                    } else if let Some(list) = self.near_list(*buffer)? {
                        (sizes[rows], sizes[columns]) = (list.rows(), list.columns());
                        list.capacity()
                    } else if let Some(list) = self.pair_list(*buffer) {
                        (sizes[rows], sizes[columns]) = (list.rows(), list.columns());
                        list.others().len()
                    } else {
                        continue;
                    };
                    if let Some(entries) = entries {
                        sizes[entries] = room;
                    }
                }
                ParamKind::Map { rows, into } => match self.args.get(*buffer) {
                    Some(Arg::Map(map)) => (sizes[rows], sizes[into]) = (map.rows(), map.into_len()),
                    Some(Arg::Device(DeviceArg::Map(map))) => {
                        (sizes[rows], sizes[into]) = (map.rows(), map.into_len());
                    }
                    _ => {}
                },
                ParamKind::Mesh { systems, nodes } => {
                    if let Some(Arg::Mesh(mesh)) = self.args.get(*buffer) {
                        (sizes[systems], sizes[nodes]) = (mesh.systems(), mesh.nodes());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
