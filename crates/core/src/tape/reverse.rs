//! The backward pass: recorded on the tape, or run once, freeing its own arrays.

use super::node::{Call, Node, Recorded};
use super::{Held, Retain, Tape, Value, Var};
use crate::array::Array;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The treatment of the pass and of the tape's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The pass is recorded.
    Record,
    /// The pass is run and its own arrays are freed; the tape does not change.
    Run,
    /// The pass is run, and arrays of the pass and of the tape are freed after their last use.
    Consume,
}

/// The adjoints (gradients by variables) accumulated so far.
pub(super) struct Adjoints {
    pub(super) mode: Mode,
    /// Whether each variable depends on one that the pass differentiates by.
    pub(super) depends: Vec<bool>,
    sums: BTreeMap<Var, Var>,
}

impl Adjoints {
    pub(super) fn wants(&self, v: Var) -> bool {
        self.depends[v.index]
    }
}

impl<'c> Tape<'c> {
    /// The gradients by all inputs, from a backward pass that is not recorded.
    pub(super) fn gradients_of(
        &mut self,
        seeds: &[(Var, Array)],
        retain: Retain,
    ) -> Result<Vec<(Var, Held)>> {
        for (y, w) in seeds {
            self.check_cotangent(*y, w)?;
        }
        let mut pushed = vec![];
        for (y, w) in seeds {
            let held = Arc::new(Held { array: self.context.copy(w)?, allocated: false });
            pushed.push((*y, self.push(held, false)));
        }
        let inputs = self.inputs.clone();
        let mode = if retain == Retain::Everything { Mode::Run } else { Mode::Consume };
        self.spent = mode == Mode::Consume;
        let found = self.reverse(&pushed, &inputs, mode)?;
        let mut gradients = vec![];
        for (x, g) in inputs.into_iter().zip(found) {
            let Some(held) = g.and_then(|g| self.slots[g.index].array.take()) else { continue };
            let held = match Arc::try_unwrap(held) {
                Ok(held) => held,
                Err(shared) => Held { array: self.context.copy(&shared.array)?, allocated: false },
            };
            gradients.push((x, held));
        }
        Ok(gradients)
    }

    fn check_cotangent(&self, y: Var, w: &Array) -> Result<()> {
        let slot = self.slot(y)?;
        if (slot.dtype, slot.shape.as_slice()) != (w.dtype(), w.shape()) {
            let expected = format!("{} {:?}", slot.dtype, slot.shape);
            return Err(Error::argument("cotangent", expected, format!("{} {:?}", w.dtype(), w.shape())));
        }
        Ok(())
    }

    /// The gradient of Σ ⟨w, y⟩ over the `(y, w)` of `seeds` by each variable of `by`. After a pass that is not
    /// recorded the caller removes its variables, which follow those of the tape.
    pub(super) fn reverse(
        &mut self,
        seeds: &[(Var, Var)],
        by: &[Var],
        mode: Mode,
    ) -> Result<Vec<Option<Var>>> {
        for v in by {
            self.slot(*v)?;
        }
        let (depends, own) = (self.dependents(by), self.slots.len());
        let mut adjoints = Adjoints { mode, depends, sums: BTreeMap::new() };
        let mut last_users =
            if mode == Mode::Consume { self.last_users(seeds) } else { vec![vec![]; self.nodes.len()] };
        for (y, w) in seeds {
            self.check_cotangent(*y, self.value(*w)?)?;
            let w = self.share(mode, *w)?;
            self.add(&mut adjoints, *y, w)?;
        }
        for n in (0..self.nodes.len()).rev() {
            let outputs = self.nodes[n].outputs.clone();
            let w: Vec<Option<Var>> = outputs.iter().map(|o| adjoints.sums.get(o).copied()).collect();
            if w.iter().any(Option::is_some) {
                self.transpose(n, &w, &mut adjoints)?;
            }
            for o in outputs.iter().filter(|o| !by.contains(o)) {
                if let Some(w) = adjoints.sums.remove(o).filter(|w| w.index >= own && mode != Mode::Record) {
                    self.release(w.index);
                }
            }
            if mode == Mode::Consume {
                self.nodes[n].node = Node::Freed;
            }
            for index in std::mem::take(&mut last_users[n]) {
                self.release(index);
            }
        }
        Ok(by.iter().map(|x| adjoints.sums.get(x).copied()).collect())
    }

    /// For each node the variables that no earlier node reads: in the pass, the node is their last user. Arrays without
    /// a reader are freed at once.
    fn last_users(&mut self, seeds: &[(Var, Var)]) -> Vec<Vec<usize>> {
        let mut kept: BTreeSet<usize> = seeds.iter().flat_map(|(y, w)| [y.index, w.index]).collect();
        let mut users = vec![];
        for recorded in &self.nodes {
            // The backward pass of a call reads the call's residuals.
            let reads = recorded.node.reads().into_iter().chain(recorded.saved.iter().flatten().copied());
            users.push(reads.map(|v| v.index).filter(|v| kept.insert(*v)).collect());
        }
        for index in (0..self.slots.len()).filter(|v| !kept.contains(v)) {
            self.release(index);
        }
        users
    }

    /// Whether each variable depends on any of `by`.
    fn dependents(&self, by: &[Var]) -> Vec<bool> {
        let mut depends = vec![false; self.slots.len()];
        for v in by {
            depends[v.index] = true;
        }
        for recorded in &self.nodes {
            let any = recorded.node.reads().iter().any(|v| depends[v.index]);
            for o in &recorded.outputs {
                depends[o.index] |= any;
            }
        }
        depends
    }

    /// Evaluates a call of the pass, recorded or not.
    fn step(&mut self, mode: Mode, call: Call) -> Result<Vec<Var>> {
        let mut node = Node::Call(call);
        if mode == Mode::Record {
            return self.record(node);
        }
        let (outputs, _) = self.run(&mut node)?;
        Ok(outputs.into_iter().map(|a| self.push(a, false)).collect())
    }

    /// A cotangent for one more user: in a pass that frees its arrays each variable has a single user.
    fn share(&mut self, mode: Mode, w: Var) -> Result<Var> {
        if mode == Mode::Record {
            return Ok(w);
        }
        let held = self.held(w)?.clone();
        Ok(self.push(held, false))
    }

    /// Adds `w` to the adjoint of `v`.
    pub(super) fn add(&mut self, adjoints: &mut Adjoints, v: Var, w: Var) -> Result<()> {
        let Some(before) = adjoints.sums.get(&v).copied() else {
            adjoints.sums.insert(v, w);
            return Ok(());
        };
        if adjoints.mode == Mode::Record {
            let sum = self.record(Node::Sum(before, w))?[0];
            adjoints.sums.insert(v, sum);
            return Ok(());
        }
        let sum = self.sum(self.value(before)?, self.value(w)?)?;
        self.release(before.index);
        self.release(w.index);
        self.slots[before.index].array = Some(sum);
        Ok(())
    }

    /// Adds the contributions of a node with output cotangents `w` to the adjoints of the variables that it reads.
    fn transpose(&mut self, n: usize, w: &[Option<Var>], adjoints: &mut Adjoints) -> Result<()> {
        let Recorded { node, saved, .. } = &mut self.nodes[n];
        let node = match adjoints.mode {
            Mode::Consume => std::mem::replace(node, Node::Freed),
            _ => node.clone(),
        };
        let saved = saved.clone();
        match node {
            Node::Sum(a, b) => {
                for v in [a, b] {
                    if let (true, Some(w)) = (adjoints.wants(v), w[0]) {
                        let w = self.share(adjoints.mode, w)?;
                        self.add(adjoints, v, w)?;
                    }
                }
                Ok(())
            }
            Node::Call(mut call) => {
                if call.save.take().is_some() {
                    call.saved = saved;
                }
                self.transpose_call(&call, w, adjoints)
            }
            Node::Composite(composite) => self.transpose_composite(n, *composite, w, adjoints),
            Node::Freed => Ok(()),
        }
    }

    /// The transposition rules of the family F, G. `w`: cotangents of the call's outputs.
    fn transpose_call(&mut self, call: &Call, w: &[Option<Var>], adjoints: &mut Adjoints) -> Result<()> {
        let mode = adjoints.mode;
        let var = |n: usize| match &call.args[n] {
            Value::Var(v) => Some(*v),
            _ => None,
        };
        let by_args: Vec<usize> = (0..call.args.len())
            .filter(|n| var(*n).is_some_and(|v| adjoints.wants(v)) && call.op.is_differentiable(*n))
            .collect();
        let is_f = call.cotangents.is_empty();
        // By arguments. F: G with cotangents w. G: w is a further direction.
        if !by_args.is_empty() {
            let mut g = call.clone();
            g.gradients = by_args.clone();
            if is_f {
                g.cotangents = w.to_vec();
            } else {
                g.directions.push(spread(call, w));
            }
            for (v, gradient) in by_args.iter().filter_map(|n| var(*n)).zip(self.step(mode, g)?) {
                self.add(adjoints, v, gradient)?;
            }
        }
        // By directions.
        for (k, direction) in call.directions.iter().enumerate() {
            let wanted = |n: &usize| direction[*n].is_some_and(|v| adjoints.wants(v));
            let by: Vec<usize> = (0..direction.len()).filter(wanted).collect();
            if by.is_empty() {
                continue;
            }
            let mut g = call.clone();
            g.gradients = by.clone();
            if is_f {
                g.directions.remove(k);
                g.cotangents = w.to_vec();
            } else {
                g.directions[k] = spread(call, w);
            }
            for (v, gradient) in by.iter().filter_map(|n| direction[*n]).zip(self.step(mode, g)?) {
                self.add(adjoints, v, gradient)?;
            }
        }
        // By the cotangents of G.
        if call.cotangents.iter().flatten().any(|c| adjoints.wants(*c)) {
            let mut f = call.clone();
            f.directions.push(spread(call, w));
            (f.cotangents, f.gradients) = (vec![], vec![]);
            for (c, derivative) in call.cotangents.iter().zip(self.step(mode, f)?) {
                match c.filter(|c| adjoints.wants(*c)) {
                    Some(c) => self.add(adjoints, c, derivative)?,
                    None if mode != Mode::Record => self.release(derivative.index),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

/// Cotangents of G's outputs, by argument.
fn spread(call: &Call, w: &[Option<Var>]) -> Vec<Option<Var>> {
    let mut by_arg = vec![None; call.args.len()];
    for (n, w) in call.gradients.iter().zip(w) {
        by_arg[*n] = *w;
    }
    by_arg
}
