//! The nodes of a tape, and their evaluation.

use super::nested::Composite;
use super::{Held, Tape, Value, Var};
use crate::array::{Array, View};
use crate::op::{Arg, Cotangent, Op, Request};
use crate::{Error, Result};
use std::sync::Arc;

/// A call of a member of an op's family: F along the directions, or G if there are cotangents.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) op: Arc<Op>,
    pub(super) args: Vec<Value>,
    pub(super) directions: Vec<Vec<Option<Var>>>,
    /// Empty for F.
    pub(super) cotangents: Vec<Option<Var>>,
    /// For G: the arguments whose gradients are the outputs.
    pub(super) gradients: Vec<usize>,
    /// For F₀: the arguments whose gradients the op may save residuals for.
    pub(super) save: Option<Vec<usize>>,
    /// For G₀ and G₁: the residuals that F₀ saved.
    pub(super) saved: Vec<Option<Var>>,
}

/// A node with the variables of its outputs.
#[derive(Clone, Debug)]
pub(super) struct Recorded<'c> {
    pub(super) node: Node<'c>,
    pub(super) outputs: Vec<Var>,
    /// Residuals, by position in [`Op::saved`].
    pub(super) saved: Vec<Option<Var>>,
}

#[derive(Clone, Debug)]
pub(super) enum Node<'c> {
    Call(Call),
    Sum(Var, Var),
    Composite(Box<Composite<'c>>),
    /// A node whose arrays a backward pass has freed.
    Freed,
}

/// The arrays of a node's outputs and residuals.
type Outputs = (Vec<Arc<Held>>, Vec<Option<Arc<Held>>>);

impl Call {
    pub(super) fn new(op: &Arc<Op>, args: Vec<Value>) -> Self {
        let op = op.clone();
        Self {
            op,
            args,
            directions: vec![],
            cotangents: vec![],
            gradients: vec![],
            save: None,
            saved: vec![],
        }
    }
}

impl Node<'_> {
    /// The variables whose arrays the node reads.
    pub(super) fn reads(&self) -> Vec<Var> {
        match self {
            Self::Call(call) => {
                let args =
                    call.args.iter().filter_map(|a| if let Value::Var(v) = a { Some(*v) } else { None });
                let directions = call.directions.iter().flatten();
                let optional = directions.chain(&call.cotangents).chain(&call.saved).flatten();
                args.chain(optional.copied()).collect()
            }
            Self::Sum(a, b) => vec![*a, *b],
            Self::Composite(c) => c.inputs.iter().map(|(outer, _)| *outer).collect(),
            Self::Freed => vec![],
        }
    }
}

impl<'c> Tape<'c> {
    /// Evaluates a node and records it.
    pub(super) fn record(&mut self, mut node: Node<'c>) -> Result<Vec<Var>> {
        self.check_fresh()?;
        let outputs = self.run(&mut node)?;
        Ok(self.put(node, outputs))
    }

    /// Records an evaluated node.
    pub(super) fn put(&mut self, node: Node<'c>, (outputs, saved): Outputs) -> Vec<Var> {
        let tracked = node.reads().iter().any(|v| self.slot(*v).is_ok_and(|s| s.tracked));
        let outputs: Vec<Var> = outputs.into_iter().map(|a| self.push(a, tracked)).collect();
        let saved = saved.into_iter().map(|a| a.map(|a| self.push(a, tracked))).collect();
        self.nodes.push(Recorded { node, outputs: outputs.clone(), saved });
        outputs
    }

    /// Evaluates the nodes from `first` on again.
    pub(super) fn replay_from(&mut self, first: usize) -> Result<()> {
        for n in first..self.nodes.len() {
            let mut node = std::mem::replace(&mut self.nodes[n].node, Node::Freed);
            let done = self.run(&mut node);
            self.nodes[n].node = node;
            let (outputs, saved) = done?;
            let hidden = saved.into_iter().flatten();
            let vars = self.nodes[n].outputs.iter().chain(self.nodes[n].saved.iter().flatten());
            let vars: Vec<Var> = vars.copied().collect();
            for (v, array) in vars.into_iter().zip(outputs.into_iter().chain(hidden)) {
                self.release(v.index);
                self.slots[v.index].array = Some(array);
            }
        }
        Ok(())
    }

    /// The arrays of a node's outputs and residuals, evaluated.
    pub(super) fn run(&self, node: &mut Node<'c>) -> Result<Outputs> {
        match node {
            Node::Sum(a, b) => {
                let (a, b) = (self.value(*a)?, self.value(*b)?);
                Ok((vec![self.sum(a, b)?], vec![]))
            }
            Node::Call(call) => self.run_call(call),
            Node::Composite(composite) => Ok((self.run_composite(composite)?, vec![])),
            Node::Freed => Ok((vec![], vec![])),
        }
    }

    pub(super) fn sum(&self, a: &Array, b: &Array) -> Result<Arc<Held>> {
        let mut array = self.context.allocator.zeros(a.dtype(), a.shape())?;
        self.context.add(&mut array, a)?;
        self.context.add(&mut array, b)?;
        let finite = |array: &Array| array.view().data().not_finite().is_none();
        if finite(a) && finite(b) && !finite(&array) {
            let expected = format!("sums within the range of {}", a.dtype());
            return Err(Error::argument("gradient", expected, "a sum of gradients beyond it"));
        }
        Ok(Arc::new(Held { array, allocated: true }))
    }

    fn run_call(&self, call: &Call) -> Result<Outputs> {
        let args = call
            .args
            .iter()
            .map(|v| {
                Ok(match v {
                    Value::Var(v) => Arg::Array(self.value(*v)?.view()),
                    Value::Ints(a) => Arg::Array(a.view()),
                    Value::Structure(structure) => Arg::Structure(&**structure),
                    Value::Grid(grid) => Arg::Grid(&**grid),
                    Value::Real(x) => Arg::Real(*x),
                    Value::Int(i) => Arg::Int(*i),
                    Value::Zero => Arg::Zero,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let views = |vars: &[Option<Var>]| -> Result<Vec<Option<View<'_>>>> {
            vars.iter().map(|v| v.map(|v| Ok(self.value(v)?.view())).transpose()).collect()
        };
        let directions = call.directions.iter().map(|d| views(d)).collect::<Result<Vec<_>>>()?;
        let directions: Vec<&[_]> = directions.iter().map(Vec::as_slice).collect();
        let cotangents: Vec<_> =
            views(&call.cotangents)?.into_iter().map(|c| c.map(Cotangent::Array)).collect();
        let saved = views(&call.saved)?;
        let request = Request {
            values: call.cotangents.is_empty(),
            directions: &directions,
            cotangents: &cotangents,
            gradients: &call.gradients,
            save: call.save.as_deref(),
            saved: &saved,
        };
        let done = call.op.evaluate(&self.context, &args, &request)?;
        let hold = |array: Array| Arc::new(Held { array, allocated: true });
        let outputs = if call.cotangents.is_empty() { done.values } else { done.gradients };
        let outputs = outputs.into_iter().map(hold).collect();
        Ok((outputs, done.saved.into_iter().map(|a| a.map(hold)).collect()))
    }
}
