//! Plan of a call: the arrays that its passes over the steps need, and the form of each kernel.

use super::arrays::Arrays;
use super::call::Call;
use super::declare::Work;
use crate::runtime::{Form, Kernel, Lists, Member, ParamKind, Role, SlotArray};
use crate::structure::Structure;
use crate::structure::pairs::Kind;
use crate::{Error, Result};

impl<'r> Call<'r, '_> {
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

    /// Whether a step reads one of some buffers.
    pub(super) fn depends(&self, step: usize, buffers: &[usize]) -> bool {
        let step = &self.op.steps[step];
        let mut params = step.params().iter().zip(&step.buffers);
        params.any(|(p, b)| (matches!(p.kind, ParamKind::Real { .. }) || p.in_out) && buffers.contains(b))
    }

    pub(super) fn written(&self, step: usize) -> impl Iterator<Item = usize> + use<'r> {
        let step = &self.op.steps[step];
        let params = step.params().iter().zip(&step.buffers);
        params.filter(|(p, _)| p.is_output()).map(|(_, b)| *b)
    }

    /// Whether a step and another one add to one array.
    pub(super) fn adds(&self, step: usize) -> bool {
        (0..self.op.steps.len()).any(|s| s != step && self.shares(s, step))
    }

    /// Whether all that is added to a step's arrays before it in a forward pass is there, so that it can follow.
    pub(super) fn adds_next(&self, step: usize, ran: &[bool]) -> bool {
        let before = self.op.forward.iter().take_while(|s| **s != step);
        before.filter(|s| self.shares(**s, step)).all(|s| ran[*s])
    }

    fn shares(&self, a: usize, b: usize) -> bool {
        self.written(a).any(|of_a| self.written(b).any(|of_b| of_a == of_b))
    }

    /// Arrays that backward passes read and that some step must make first.
    pub(super) fn needed(
        &self,
        arrays: &Arrays<'_>,
        (gradient, value): (Member, Member),
        active: &[usize],
        values: bool,
    ) -> Result<Vec<usize>> {
        let first_made = self.op.args.len() + self.op.outputs.len();
        let mut needed = vec![];
        for s in (0..self.op.steps.len()).rev() {
            if self.depends(s, active) && self.op.steps[s].has_real_outputs() {
                needed.extend(self.reads(s, gradient, active)?);
            } else if values && self.adds(s) {
                // What it adds takes its turn among values that fall out of the pass.
                needed.extend(self.reads(s, Member::Value, active)?);
            }
            let makes = |b: usize| value != Member::Value || !arrays.given(b, Role::VALUE);
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

    /// The cheapest form of a member with the wanted gradients.
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
            lists.filter_map(|p| self.structure(step.buffers[p])?.list_kind()).all(|kind| kind == Kind::Full);
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

    /// The structured argument of a buffer; for a grid the list that its search found.
    pub(super) fn structure(&self, buffer: usize) -> Option<&dyn Structure> {
        self.lists.found(buffer).or_else(|| self.args.get(buffer)?.structure())
    }

    /// Sizes of a kernel's dimensions.
    pub(super) fn sizes(&self, s: usize, kernel: &Kernel, sizes: &mut [usize]) -> Result<()> {
        let step = &self.op.steps[s];
        for (param, buffer) in kernel.params.iter().zip(&step.buffers) {
            if let ParamKind::Real { width: Some(w), .. } | ParamKind::Output { width: Some(w), .. } =
                param.kind
            {
                sizes[w] = self.size(*buffer, 1)?;
                if sizes[w] < param.channels {
                    let expected = format!("a feature width of at least {}", param.channels);
                    return Err(Error::argument(param.name, expected, sizes[w].to_string()));
                }
            }
            match param.kind {
                ParamKind::Real { dim: Some(d), .. }
                | ParamKind::Output { dim: Some(d), .. }
                | ParamKind::Ints { dim: d, .. }
                | ParamKind::Integers { dim: Some(d), .. } => {
                    sizes[d] = self.size(*buffer, 0)?;
                }
                kind => {
                    let structure = kind.structure().zip(self.structure(*buffer));
                    let known =
                        structure.into_iter().flat_map(|((_, dims), s)| dims.into_iter().zip(s.sizes()));
                    for (dim, size) in known {
                        if let (Some(dim), Some(size)) = (dim, size) {
                            sizes[dim] = size;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
