//! A tape: calls of ops over arrays, replayed and differentiated as often as one likes.
//!
//! Two things make a long computation fit in memory: [`Tape::checkpoint`], a recorded region that keeps nothing but
//! what goes in and comes out, and [`Retain::Outputs`], a backward pass that gives back every array as soon as its last
//! user has run.

mod nested;
mod node;
mod reverse;

use crate::array::{Array, DType};
use crate::backend::Context;
use crate::op::Op;
use crate::structure::{PointGrid, Structure};
use crate::{Error, Result};
use node::{Call, Node, Recorded};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An array on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var {
    tape: u64,
    index: usize,
}

/// An argument of a call on a tape.
#[derive(Clone, Debug)]
pub enum Value {
    /// An array on the tape.
    Var(Var),
    /// An integer array.
    Ints(Arc<Array>),
    /// A batch, pair list, map or mesh.
    Structure(Arc<dyn Structure>),
    /// A grid, whose points stay where they are: a replay with others is an error.
    Grid(Arc<dyn PointGrid>),
    /// A real attribute.
    Real(f64),
    /// An integer attribute.
    Int(i64),
    /// The value of an argument that is zero in every call.
    Zero,
}

impl From<Var> for Value {
    fn from(v: Var) -> Self {
        Self::Var(v)
    }
}

/// What a backward pass leaves on the tape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retain {
    /// Everything: the tape can be replayed, and differentiated again.
    #[default]
    Everything,
    /// What was differentiated and the gradients. Every other array goes back to the allocator as soon as its last user
    /// has run, and the tape is spent: whoever uses it again gets an error.
    Outputs,
}

/// An array, and whether the context's allocator gave it.
#[derive(Debug)]
struct Held {
    array: Array,
    allocated: bool,
}

/// A variable's array, shared with the nested tapes that use it.
#[derive(Clone, Debug)]
struct Slot {
    /// None where it was given back.
    array: Option<Arc<Held>>,
    dtype: DType,
    shape: Vec<usize>,
    /// Whether it depends on an input.
    tracked: bool,
}

/// Records calls and differentiates them.
///
/// ```text
/// let x = tape.input(array);
/// let y = tape.call(&op, vec![x.into(), …])?;
/// tape.backward(&[(y[0], cotangent)])?;      // adds to the gradients
/// let g = tape.gradient(x);
/// ```
///
/// [`Tape::differentiate`] puts the backward pass itself on the tape, where it can be differentiated again.
/// [`Tape::nested`] and [`Tape::checkpoint`] record a composite function on a tape of its own, which is one node here.
///
/// What an op saves for its backward pass ([`Op::saved`]) is kept on the tape, hidden from the user.
pub struct Tape<'c> {
    context: Context<'c>,
    id: u64,
    slots: Vec<Slot>,
    nodes: Vec<Recorded<'c>>,
    inputs: Vec<Var>,
    gradients: BTreeMap<Var, Held>,
    /// An input was replaced, and what depends on it was not computed again.
    stale: bool,
    /// A backward pass gave the arrays back.
    spent: bool,
}

impl std::fmt::Debug for Tape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tape of {} arrays and {} calls", self.slots.len(), self.nodes.len())
    }
}

impl Drop for Tape<'_> {
    fn drop(&mut self) {
        for n in 0..self.slots.len() {
            self.release(n);
        }
        self.zero();
    }
}

impl<'c> Tape<'c> {
    /// An empty tape.
    pub fn new(context: Context<'c>) -> Self {
        // Variables know their tape, so that one of another is an error and not some other array.
        static TAPES: AtomicU64 = AtomicU64::new(0);
        Self {
            context,
            id: TAPES.fetch_add(1, Ordering::Relaxed),
            slots: vec![],
            nodes: vec![],
            inputs: vec![],
            gradients: BTreeMap::new(),
            stale: false,
            spent: false,
        }
    }

    /// Puts an array on the tape, to be differentiated by.
    pub fn input(&mut self, array: Array) -> Var {
        let v = self.push(Arc::new(Held { array, allocated: false }), true);
        self.inputs.push(v);
        v
    }

    /// Puts an array on the tape that nobody differentiates by.
    pub fn constant(&mut self, array: Array) -> Var {
        self.push(Arc::new(Held { array, allocated: false }), false)
    }

    fn push(&mut self, held: Arc<Held>, tracked: bool) -> Var {
        let (dtype, shape) = (held.array.dtype(), held.array.shape().to_vec());
        self.slots.push(Slot { array: Some(held), dtype, shape, tracked });
        Var { tape: self.id, index: self.slots.len() - 1 }
    }

    fn slot(&self, v: Var) -> Result<&Slot> {
        let slot = self.slots.get(v.index).filter(|_| v.tape == self.id);
        slot.ok_or_else(|| Error::argument("var", "a variable of this tape", format!("{v:?}")))
    }

    fn held(&self, v: Var) -> Result<&Arc<Held>> {
        let slot = self.slot(v)?;
        slot.array.as_ref().ok_or_else(|| {
            let got = format!("variable {} ({} {:?}), whose array is gone", v.index, slot.dtype, slot.shape);
            Error::argument("var", "an array that a backward pass retained", got)
        })
    }

    /// The array of a variable.
    ///
    /// # Errors
    /// `var`, where it is not of this tape, or a backward pass gave its array back.
    pub fn value(&self, v: Var) -> Result<&Array> {
        Ok(&self.held(v)?.array)
    }

    /// Gives a variable's array back, if nobody else holds it.
    fn release(&mut self, index: usize) {
        if let Some(held) = self.slots[index].array.take().and_then(Arc::into_inner) {
            self.recycle(held);
        }
    }

    fn recycle(&self, held: Held) {
        if held.allocated {
            self.context.allocator.recycle(held.array);
        }
    }

    /// Replaces the array of an input by another of the same type and shape; [`Tape::replay`] does the rest.
    ///
    /// # Errors
    /// `var`, where it is no input of this tape; `array`, where its type or shape is another; `tape`, where a backward
    /// pass has spent it.
    pub fn set(&mut self, v: Var, array: Array) -> Result<()> {
        self.check_whole()?;
        if !self.inputs.contains(&v) {
            return Err(Error::argument("var", "an input of this tape", format!("{v:?}")));
        }
        let slot = self.slot(v)?;
        if (slot.dtype, slot.shape.as_slice()) != (array.dtype(), array.shape()) {
            let expected = format!("{} {:?}", slot.dtype, slot.shape);
            return Err(Error::argument("array", expected, format!("{} {:?}", array.dtype(), array.shape())));
        }
        self.release(v.index);
        self.slots[v.index].array = Some(Arc::new(Held { array, allocated: false }));
        self.stale = true;
        Ok(())
    }

    fn check_whole(&self) -> Result<()> {
        if self.spent {
            return Err(Error::argument(
                "tape",
                "one whose arrays are there (a backward pass that retains everything)",
                "one whose arrays a backward pass gave back",
            ));
        }
        Ok(())
    }

    fn check_fresh(&self) -> Result<()> {
        self.check_whole()?;
        if self.stale {
            return Err(Error::argument(
                "tape",
                "a replay after an input was set",
                "arrays of the old input",
            ));
        }
        Ok(())
    }

    /// Calls an op and records the call.
    ///
    /// # Errors
    /// As [`Op::evaluate`]; `var` or `tape`, where an array of the call is gone.
    pub fn call(&mut self, op: &Arc<Op>, args: Vec<Value>) -> Result<Vec<Var>> {
        let saves = !op.saved().is_empty();
        let by = || {
            let tracked = |v: Var| self.slot(v).is_ok_and(|s| s.tracked);
            let wanted = |n: &usize| matches!(args[*n], Value::Var(v) if tracked(v));
            let by = (0..args.len().min(op.args.len())).filter(|n| op.is_differentiable(*n));
            by.filter(wanted).collect()
        };
        let save = saves.then(by);
        self.record(Node::Call(Call { save, ..Call::new(op, args) }))
    }

    /// The derivative of a call's outputs along a direction, recorded.
    ///
    /// # Errors
    /// As [`Tape::call`].
    pub fn tangent(
        &mut self,
        op: &Arc<Op>,
        args: Vec<Value>,
        direction: Vec<Option<Var>>,
    ) -> Result<Vec<Var>> {
        self.record(Node::Call(Call { directions: vec![direction], ..Call::new(op, args) }))
    }

    /// Runs every recorded call again, in order, on the arrays that the inputs have now.
    ///
    /// # Errors
    /// `tape`, where a backward pass gave its arrays back.
    pub fn replay(&mut self) -> Result<()> {
        self.check_whole()?;
        self.replay_from(0)?;
        self.stale = false;
        Ok(())
    }

    /// Forgets the gradients.
    pub fn zero(&mut self) {
        for held in std::mem::take(&mut self.gradients).into_values() {
            self.recycle(held);
        }
    }

    /// The gradient by an input, summed over the backward passes since the last [`Tape::zero`]; None where none
    /// reached it.
    pub fn gradient(&self, v: Var) -> Option<&Array> {
        self.gradients.get(&v).map(|held| &held.array)
    }

    /// Adds ∇⟨cotangent, y⟩ to the gradient of every input, for each `(y, cotangent)`, and retains everything.
    ///
    /// # Errors
    /// `cotangent`, where its type or shape is not that of y; `tape`, where its arrays are gone or an input was set
    /// without a replay.
    pub fn backward(&mut self, seeds: &[(Var, Array)]) -> Result<()> {
        self.backward_with(seeds, Retain::Everything)
    }

    /// [`Tape::backward`], and what it leaves on the tape.
    ///
    /// # Errors
    /// As [`Tape::backward`].
    pub fn backward_with(&mut self, seeds: &[(Var, Array)], retain: Retain) -> Result<()> {
        self.check_fresh()?;
        let begin = self.slots.len();
        let result = self.gradients_of(seeds, retain);
        for n in begin..self.slots.len() {
            self.release(n);
        }
        // The pass itself leaves the tape as it was.
        self.slots.truncate(begin);
        for (x, g) in result? {
            match self.gradients.get_mut(&x) {
                Some(sum) => {
                    self.context.add(&mut sum.array, &g.array)?;
                    self.recycle(g);
                }
                None => {
                    self.gradients.insert(x, g);
                }
            }
        }
        Ok(())
    }

    /// Puts the backward pass on the tape: for each of `by` the gradient of Σ ⟨cotangent, y⟩, or None where nothing
    /// depends on it. The gradients are variables like any other.
    ///
    /// # Errors
    /// As [`Tape::backward`].
    pub fn differentiate(&mut self, seeds: &[(Var, Var)], by: &[Var]) -> Result<Vec<Option<Var>>> {
        self.check_fresh()?;
        self.reverse(seeds, by, reverse::Mode::Record)
    }
}
