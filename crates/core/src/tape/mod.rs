//! A tape for reverse-mode differentiation: recorded calls of ops, replayed and differentiated any number of times.
//!
//! Two features bound the memory of a long computation: [`Tape::checkpoint`], a recorded region that keeps only its
//! inputs and outputs, and [`Retain::Outputs`], a backward pass that frees every array after the array's last use.

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

/// A variable: an array on a tape.
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
    /// The value of an argument that is always zero.
    Zero,
}

impl From<Var> for Value {
    fn from(v: Var) -> Self {
        Self::Var(v)
    }
}

/// The arrays that a backward pass leaves on the tape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retain {
    /// All arrays: the tape can be replayed and differentiated again.
    #[default]
    Everything,
    /// The differentiated variables and the gradients. Every other array returns to the allocator after its last use,
    /// and further use of the tape is an error.
    Outputs,
}

/// An array, and whether it came from the context's allocator.
#[derive(Debug)]
struct Held {
    array: Array,
    allocated: bool,
}

/// A variable's array, shared with the nested tapes that use it.
#[derive(Clone, Debug)]
struct Slot {
    /// None after a backward pass has freed the array.
    array: Option<Arc<Held>>,
    dtype: DType,
    shape: Vec<usize>,
    /// Whether the variable depends on an input.
    tracked: bool,
}

/// A record of calls, which can be replayed and differentiated.
///
/// ```text
/// let x = tape.input(array);
/// let y = tape.call(&op, vec![x.into(), …])?;
/// tape.backward(&[(y[0], cotangent)])?;      // adds to the gradients
/// let g = tape.gradient(x);
/// ```
///
/// [`Tape::differentiate`] records the backward pass itself, so that it can be differentiated again. [`Tape::nested`]
/// and [`Tape::checkpoint`] record a composite function on an inner tape, which is one node of the outer tape.
///
/// The tape also holds the residuals of ops ([`Op::saved`]), hidden from the user.
pub struct Tape<'c> {
    context: Context<'c>,
    id: u64,
    slots: Vec<Slot>,
    nodes: Vec<Recorded<'c>>,
    inputs: Vec<Var>,
    gradients: BTreeMap<Var, Held>,
    /// Whether an input was replaced without a replay.
    stale: bool,
    /// Whether a backward pass has freed the arrays.
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
        // A variable holds the number of its tape, so that a variable of another tape is an error.
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

    /// Adds an input: an array with a gradient.
    pub fn input(&mut self, array: Array) -> Var {
        let v = self.push(Arc::new(Held { array, allocated: false }), true);
        self.inputs.push(v);
        v
    }

    /// Adds a constant: an array without a gradient.
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
    /// `var`, where it is not of this tape, or a backward pass has freed its array.
    pub fn value(&self, v: Var) -> Result<&Array> {
        Ok(&self.held(v)?.array)
    }

    /// Frees the array of a variable, unless a nested tape shares the array.
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

    /// Replaces the array of an input by one of equal type and shape; [`Tape::replay`] then updates the other
    /// variables.
    ///
    /// # Errors
    /// `var`, where it is no input of this tape; `array`, where its type or shape differs; `tape`, where a backward
    /// pass has freed its arrays.
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
    /// Those of [`Op::evaluate`]; `var` or `tape`, where an array of the call was freed.
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

    /// Records the derivative of a call's outputs along a direction.
    ///
    /// # Errors
    /// Those of [`Tape::call`].
    pub fn tangent(
        &mut self,
        op: &Arc<Op>,
        args: Vec<Value>,
        direction: Vec<Option<Var>>,
    ) -> Result<Vec<Var>> {
        self.record(Node::Call(Call { directions: vec![direction], ..Call::new(op, args) }))
    }

    /// Repeats every recorded call, in order, with the current arrays of the inputs.
    ///
    /// # Errors
    /// `tape`, where a backward pass has freed its arrays.
    pub fn replay(&mut self) -> Result<()> {
        self.check_whole()?;
        self.replay_from(0)?;
        self.stale = false;
        Ok(())
    }

    /// Discards the gradients.
    pub fn zero(&mut self) {
        for held in std::mem::take(&mut self.gradients).into_values() {
            self.recycle(held);
        }
    }

    /// The gradient by an input, summed over the backward passes since the last [`Tape::zero`]; None if no
    /// backward pass reached the input.
    pub fn gradient(&self, v: Var) -> Option<&Array> {
        self.gradients.get(&v).map(|held| &held.array)
    }

    /// Adds ∇⟨cotangent, y⟩ to the gradient of every input, for each `(y, cotangent)`, and retains all arrays.
    ///
    /// # Errors
    /// `cotangent`, where its type or shape is not that of y; `tape`, where its arrays were freed or an input was set
    /// without a replay.
    pub fn backward(&mut self, seeds: &[(Var, Array)]) -> Result<()> {
        self.backward_with(seeds, Retain::Everything)
    }

    /// [`Tape::backward`] with a choice of the arrays to retain.
    ///
    /// # Errors
    /// Those of [`Tape::backward`].
    pub fn backward_with(&mut self, seeds: &[(Var, Array)], retain: Retain) -> Result<()> {
        self.check_fresh()?;
        let begin = self.slots.len();
        let result = self.gradients_of(seeds, retain);
        for n in begin..self.slots.len() {
            self.release(n);
        }
        // Variables of the pass itself leave the tape.
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

    /// Records the backward pass: for each variable of `by` the gradient of Σ ⟨cotangent, y⟩, again a variable, or None
    /// where no y depends on it.
    ///
    /// # Errors
    /// Those of [`Tape::backward`].
    pub fn differentiate(&mut self, seeds: &[(Var, Var)], by: &[Var]) -> Result<Vec<Option<Var>>> {
        self.check_fresh()?;
        self.reverse(seeds, by, reverse::Mode::Record)
    }
}
