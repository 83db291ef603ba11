//! Tapes inside tapes: a composite function over arrays, recorded on a tape of its own, is one node of the outer one.
//!
//! Its gradient is again a composite: the inner tape with its backward pass recorded behind it. So a composite can be
//! differentiated as often as the ops inside it.

use super::node::{Node, Recorded};
use super::reverse::{Adjoints, Mode};
use super::{Held, Tape, Var};
use crate::Result;
use std::sync::Arc;

/// A function of the outer tape's variables, as a tape.
#[derive(Debug)]
pub(super) struct Composite<'c> {
    tape: Tape<'c>,
    /// (outer, inner)
    pub(super) inputs: Vec<(Var, Var)>,
    /// Inner variables.
    outputs: Vec<Var>,
    /// Whether the inner arrays stay between passes; otherwise they are computed again for each.
    keeps: bool,
    /// The node of the outer tape whose inner tape this one continues, with the same arrays.
    continues: Option<usize>,
}

impl Clone for Composite<'_> {
    fn clone(&self) -> Self {
        let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
        Self { tape: self.tape.fork(), inputs, outputs, ..*self }
    }
}

impl<'c> Tape<'c> {
    /// Records a composite function of `inputs` on a tape of its own: `record` gets that tape and the inputs' variables
    /// on it, and gives the variables that are the function's outputs. Here it is one call, with its own derivatives,
    /// replayed and differentiated (twice, or as often as the ops inside it) like any other.
    ///
    /// # Errors
    /// As `record`; `var`, where an input is not of this tape, or an output not of the inner one.
    pub fn nested(
        &mut self,
        inputs: &[Var],
        record: impl FnOnce(&mut Tape<'c>, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        self.compose(inputs, true, record)
    }

    /// [`Tape::nested`] that keeps only inputs and outputs: the arrays between them are given back when they are
    /// computed, and computed again for the backward pass. The gradients have the same bits.
    ///
    /// # Errors
    /// As [`Tape::nested`].
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

    /// Puts a composite that was run on the tape.
    fn put_composite(&mut self, mut composite: Composite<'c>) -> Result<Vec<Var>> {
        let arrays = composite.arrays()?;
        if !composite.keeps {
            composite.forget();
        }
        Ok(self.put(Node::Composite(Box::new(composite)), (arrays, vec![])))
    }

    /// Runs a composite again on the arrays that its inputs have now.
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

    /// The gradient of a composite: its inner tape backwards.
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
        // What nobody else holds is given back on the way.
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

    /// The same tape, with the same arrays.
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

    /// Gives back every array that can be computed again.
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
