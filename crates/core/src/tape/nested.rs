//! Nested tapes: a composite function, recorded on an inner tape, is one node of the outer tape.
//!
//! The gradient of a composite is again a composite: the inner tape followed by its recorded backward pass. A composite
//! can therefore be differentiated as often as the ops inside it.

use super::node::{Node, Recorded};
use super::reverse::{Adjoints, Mode};
use super::{Held, Tape, Var};
use crate::Result;
use std::sync::Arc;

/// A composite function of variables of the outer tape.
#[derive(Debug)]
pub(super) struct Composite<'c> {
    tape: Tape<'c>,
    /// Pairs of an outer variable and its inner one.
    pub(super) inputs: Vec<(Var, Var)>,
    /// Variables of the inner tape.
    outputs: Vec<Var>,
    /// Whether the inner arrays stay between passes; otherwise every pass recomputes them.
    keeps: bool,
    /// The node of the outer tape whose inner tape this composite extends, sharing its arrays.
    continues: Option<usize>,
}

impl Clone for Composite<'_> {
    fn clone(&self) -> Self {
        let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
        Self { tape: self.tape.fork(), inputs, outputs, ..*self }
    }
}

impl<'c> Tape<'c> {
    /// Records a composite function of `inputs` on an inner tape: `record` receives the inner tape and the inputs'
    /// variables on it, and returns the variables of the outputs. On the outer tape the function is one call, which can
    /// be replayed, and differentiated as often as the ops inside it.
    ///
    /// # Errors
    /// Those of `record`; `var`, where an input is not of this tape or an output not of the inner tape.
    pub fn nested(
        &mut self,
        inputs: &[Var],
        record: impl FnOnce(&mut Tape<'c>, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        self.compose(inputs, true, record)
    }

    /// [`Tape::nested`] with recomputation (gradient checkpointing): only inputs and outputs are kept, and the backward
    /// pass computes the arrays between them again. The gradients equal those of [`Tape::nested`] bit for bit.
    ///
    /// # Errors
    /// Those of [`Tape::nested`].
    pub fn checkpoint(
        &mut self,
        inputs: &[Var],
        record: impl FnOnce(&mut Tape<'c>, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        self.compose(inputs, false, record)
    }

    fn compose(
        &mut self,
        inputs: &[Var],
        keeps: bool,
        record: impl FnOnce(&mut Tape<'c>, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        self.check_fresh()?;
        let mut tape = Tape::new(self.context);
        let mut bound = vec![];
        for outer in inputs {
            let (held, tracked) = (self.held(*outer)?.clone(), self.slot(*outer)?.tracked);
            let inner = tape.push(held, tracked);
            tape.inputs.push(inner);
            bound.push((*outer, inner));
        }
        let inner: Vec<Var> = bound.iter().map(|(_, inner)| *inner).collect();
        let outputs = record(&mut tape, &inner)?;
        tape.check_fresh()?;
        let composite = Composite { tape, inputs: bound, outputs, keeps, continues: None };
        self.put_composite(composite)
    }

    /// Records an evaluated composite.
    fn put_composite(&mut self, mut composite: Composite<'c>) -> Result<Vec<Var>> {
        let arrays = composite.arrays()?;
        if !composite.keeps {
            composite.forget();
        }
        Ok(self.put(Node::Composite(Box::new(composite)), (arrays, vec![])))
    }

    /// Evaluates a composite again with the current arrays of its inputs.
    pub(super) fn run_composite(&self, composite: &mut Composite<'c>) -> Result<Vec<Arc<Held>>> {
        self.compute(composite)?;
        let arrays = composite.arrays()?;
        if !composite.keeps {
            composite.forget();
        }
        Ok(arrays)
    }

    fn compute(&self, composite: &mut Composite<'c>) -> Result<()> {
        let mut first = 0;
        if let Some(Recorded { node: Node::Composite(base), .. }) =
            composite.continues.and_then(|n| self.nodes.get(n))
        {
            first = base.tape.nodes.len();
            composite.tape.nodes.splice(..first, base.tape.nodes.iter().cloned());
            for (index, slot) in base.tape.slots.iter().enumerate() {
                composite.tape.release(index);
                composite.tape.slots[index].array.clone_from(&slot.array);
            }
        }
        for (outer, inner) in &composite.inputs {
            composite.tape.release(inner.index);
            composite.tape.slots[inner.index].array = Some(self.held(*outer)?.clone());
        }
        composite.tape.replay_from(first)
    }

    /// Adds the contributions of a composite: the backward pass of its inner tape.
    pub(super) fn transpose_composite(
        &mut self,
        n: usize,
        mut composite: Composite<'c>,
        w: &[Option<Var>],
        adjoints: &mut Adjoints,
    ) -> Result<()> {
        if !composite.keeps {
            self.compute(&mut composite)?;
        }
        let mut by = vec![];
        for (outer, inner) in &composite.inputs {
            if adjoints.wants(*outer) {
                by.push((*outer, *inner));
            }
        }
        let (outer_by, inner_by): (Vec<Var>, Vec<Var>) = by.into_iter().unzip();
        let mut seeds = vec![];
        for (y, w) in composite.outputs.iter().zip(w) {
            if let Some(w) = w {
                let tracked = self.slot(*w)?.tracked;
                let seed = composite.tape.push(self.held(*w)?.clone(), tracked);
                seeds.push((*y, seed));
                composite.inputs.push((*w, seed));
            }
        }
        if adjoints.mode == Mode::Record {
            let found = composite.tape.reverse(&seeds, &inner_by, Mode::Record)?;
            let found: Vec<(Var, Var)> =
                outer_by.into_iter().zip(found).filter_map(|(v, g)| g.map(|g| (v, g))).collect();
            composite.outputs = found.iter().map(|(_, g)| *g).collect();
            composite.continues = composite.keeps.then_some(n);
            for ((v, _), gradient) in found.iter().zip(self.put_composite(composite)?) {
                self.add(adjoints, *v, gradient)?;
            }
            return Ok(());
        }
        // Frees arrays that only the inner tape holds.
        let found = composite.tape.reverse(&seeds, &inner_by, Mode::Consume)?;
        let mut gradients = vec![];
        for (v, g) in outer_by.into_iter().zip(found) {
            if let Some(g) = g {
                gradients.push((v, composite.tape.held(g)?.clone()));
            }
        }
        drop(composite);
        for (v, gradient) in gradients {
            let gradient = self.push(gradient, false);
            self.add(adjoints, v, gradient)?;
        }
        Ok(())
    }

    /// A second tape that shares the arrays and keeps the variables.
    fn fork(&self) -> Self {
        Self {
            context: self.context,
            id: self.id,
            slots: self.slots.clone(),
            nodes: self.nodes.clone(),
            inputs: self.inputs.clone(),
            gradients: Default::default(),
            stale: self.stale,
            spent: self.spent,
        }
    }
}

impl Composite<'_> {
    fn arrays(&self) -> Result<Vec<Arc<Held>>> {
        self.outputs.iter().map(|v| Ok(self.tape.held(*v)?.clone())).collect()
    }

    /// Frees every array that can be recomputed.
    fn forget(&mut self) {
        let nodes = self.tape.nodes.iter_mut();
        let mut computed: Vec<usize> = self.inputs.iter().map(|(_, inner)| inner.index).collect();
        for Recorded { node, outputs, saved } in nodes {
            computed.extend(outputs.iter().chain(saved.iter().flatten()).map(|v| v.index));
            if let Node::Composite(inner) = node {
                inner.forget();
            }
        }
        computed.into_iter().for_each(|index| self.tape.release(index));
    }
}
