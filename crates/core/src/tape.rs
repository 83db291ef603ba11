//! A tape: calls of ops over arrays, replayed and differentiated as often as one likes.

use crate::array::Array;
use crate::backend::Context;
use crate::batch::Batch;
use crate::op::{Arg, Cotangent, Op, Request};
use crate::pairs::PairList;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An array on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(usize);

/// An argument of a call on a tape.
#[derive(Clone, Debug)]
pub enum Value {
    /// An array on the tape.
    Var(Var),
    /// An integer array.
    Ints(Arc<Array>),
    /// A batch.
    Batch(Arc<Batch<'static>>),
    /// A pair list.
    Pairs(Arc<PairList<'static>>),
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

/// A member of an op's family: F with as many directions as there are, or G of cotangents with them.
#[derive(Clone, Debug)]
struct Call {
    op: Arc<Op>,
    args: Vec<Value>,
    directions: Vec<Vec<Option<Var>>>,
    /// Empty for F.
    cotangents: Vec<Option<Var>>,
    /// For G: the arguments whose gradients are its outputs.
    gradients: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Node {
    Call(Call),
    Sum(Var, Var),
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
pub struct Tape<'c> {
    context: Context<'c>,
    values: Vec<Array>,
    nodes: Vec<(Node, Vec<Var>)>,
    inputs: Vec<Var>,
    gradients: BTreeMap<Var, Array>,
    /// An input was replaced, and what depends on it was not computed again.
    stale: bool,
}

impl std::fmt::Debug for Tape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tape of {} arrays and {} calls", self.values.len(), self.nodes.len())
    }
}

impl<'c> Tape<'c> {
    /// An empty tape.
    pub fn new(context: Context<'c>) -> Self {
        Self {
            context,
            values: vec![],
            nodes: vec![],
            inputs: vec![],
            gradients: BTreeMap::new(),
            stale: false,
        }
    }

    /// Puts an array on the tape, to be differentiated by.
    pub fn input(&mut self, array: Array) -> Var {
        let v = self.push(array);
        self.inputs.push(v);
        v
    }

    /// Puts an array on the tape that nobody differentiates by.
    pub fn constant(&mut self, array: Array) -> Var {
        self.push(array)
    }

    fn push(&mut self, array: Array) -> Var {
        self.values.push(array);
        Var(self.values.len() - 1)
    }

    /// The array of a variable.
    pub fn value(&self, v: Var) -> Result<&Array> {
        self.values
            .get(v.0)
            .ok_or_else(|| Error::argument("var", "a variable of this tape", format!("{v:?}")))
    }

    /// Replaces the array of an input by another of the same type and shape; [`Tape::replay`] does the rest.
    pub fn set(&mut self, v: Var, array: Array) -> Result<()> {
        if !self.inputs.contains(&v) {
            return Err(Error::argument("var", "an input of this tape", format!("{v:?}")));
        }
        let old = &self.values[v.0];
        if (old.dtype(), old.shape()) != (array.dtype(), array.shape()) {
            let show = |a: &Array| format!("{} {:?}", a.dtype(), a.shape());
            return Err(Error::argument("array", show(old), show(&array)));
        }
        self.values[v.0] = array;
        self.stale = true;
        Ok(())
    }

    fn check_fresh(&self) -> Result<()> {
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
    pub fn call(&mut self, op: &Arc<Op>, args: Vec<Value>) -> Result<Vec<Var>> {
        let call = Call { op: op.clone(), args, directions: vec![], cotangents: vec![], gradients: vec![] };
        self.record(Node::Call(call))
    }

    /// The derivative of a call's outputs along a direction, recorded.
    pub fn tangent(
        &mut self,
        op: &Arc<Op>,
        args: Vec<Value>,
        direction: Vec<Option<Var>>,
    ) -> Result<Vec<Var>> {
        let directions = vec![direction];
        self.record(Node::Call(Call {
            op: op.clone(),
            args,
            directions,
            cotangents: vec![],
            gradients: vec![],
        }))
    }

    fn record(&mut self, node: Node) -> Result<Vec<Var>> {
        self.check_fresh()?;
        let outputs = self.run(&node)?;
        let vars: Vec<Var> = outputs.into_iter().map(|a| self.push(a)).collect();
        self.nodes.push((node, vars.clone()));
        Ok(vars)
    }

    fn run(&self, node: &Node) -> Result<Vec<Array>> {
        let call = match node {
            Node::Sum(a, b) => {
                let mut sum = self.value(*a)?.clone();
                sum.add(self.value(*b)?)?;
                return Ok(vec![sum]);
            }
            Node::Call(call) => call,
        };
        let args = call
            .args
            .iter()
            .map(|v| {
                Ok(match v {
                    Value::Var(v) => Arg::Array(self.value(*v)?.view()),
                    Value::Ints(a) => Arg::Array(a.view()),
                    Value::Batch(b) => Arg::Batch(b),
                    Value::Pairs(p) => Arg::Pairs(p),
                    Value::Real(x) => Arg::Real(*x),
                    Value::Int(i) => Arg::Int(*i),
                    Value::Zero => Arg::Zero,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let views = |vars: &[Option<Var>]| -> Result<Vec<_>> {
            vars.iter().map(|v| v.map(|v| Ok(self.value(v)?.view())).transpose()).collect()
        };
        let directions = call.directions.iter().map(|d| views(d)).collect::<Result<Vec<_>>>()?;
        let directions: Vec<&[_]> = directions.iter().map(Vec::as_slice).collect();
        let cotangents: Vec<_> =
            views(&call.cotangents)?.into_iter().map(|c| c.map(Cotangent::Array)).collect();
        let request = Request {
            values: call.cotangents.is_empty(),
            directions: &directions,
            cotangents: &cotangents,
            gradients: &call.gradients,
        };
        let done = call.op.evaluate(&self.context, &args, &request)?;
        Ok(if call.cotangents.is_empty() { done.values } else { done.gradients })
    }

    /// Runs every recorded call again, in order, on the arrays that the inputs have now.
    pub fn replay(&mut self) -> Result<()> {
        for n in 0..self.nodes.len() {
            let outputs = self.run(&self.nodes[n].0)?;
            for (v, array) in self.nodes[n].1.clone().into_iter().zip(outputs) {
                self.values[v.0] = array;
            }
        }
        self.stale = false;
        Ok(())
    }

    /// Forgets the gradients.
    pub fn zero(&mut self) {
        self.gradients.clear();
    }

    /// The gradient by an input, summed over the backward passes since the last [`Tape::zero`]; None where none
    /// reached it.
    pub fn gradient(&self, v: Var) -> Option<&Array> {
        self.gradients.get(&v)
    }

    /// Adds ∇⟨cotangent, y⟩ to the gradient of every input, for each `(y, cotangent)`.
    pub fn backward(&mut self, seeds: &[(Var, Array)]) -> Result<()> {
        let (values, nodes) = (self.values.len(), self.nodes.len());
        let result = self.backward_recorded(seeds);
        // The pass itself leaves the tape as it was.
        let gradients = result
            .map(|vars| vars.into_iter().map(|(x, g)| (x, self.values[g.0].clone())).collect::<Vec<_>>());
        self.values.truncate(values);
        self.nodes.truncate(nodes);
        for (x, g) in gradients? {
            match self.gradients.get_mut(&x) {
                Some(sum) => sum.add(&g)?,
                None => {
                    self.gradients.insert(x, g);
                }
            }
        }
        Ok(())
    }

    fn backward_recorded(&mut self, seeds: &[(Var, Array)]) -> Result<Vec<(Var, Var)>> {
        let seeds: Vec<(Var, Var)> = seeds.iter().map(|(y, w)| (*y, self.push(w.clone()))).collect();
        let inputs = self.inputs.clone();
        let found = self.differentiate(&seeds, &inputs)?;
        Ok(inputs.into_iter().zip(found).filter_map(|(x, g)| g.map(|g| (x, g))).collect())
    }

    /// Puts the backward pass on the tape: for each of `by` the gradient of Σ ⟨cotangent, y⟩, or None where nothing
    /// depends on it. The gradients are variables like any other.
    pub fn differentiate(&mut self, seeds: &[(Var, Var)], by: &[Var]) -> Result<Vec<Option<Var>>> {
        self.check_fresh()?;
        let mut adjoints: BTreeMap<Var, Var> = BTreeMap::new();
        for (y, w) in seeds {
            let (array, cotangent) = (self.value(*y)?, self.value(*w)?);
            if (array.dtype(), array.shape()) != (cotangent.dtype(), cotangent.shape()) {
                let show = |a: &Array| format!("{} {:?}", a.dtype(), a.shape());
                return Err(Error::argument("cotangent", show(array), show(cotangent)));
            }
            self.add(&mut adjoints, *y, *w)?;
        }
        let depends = self.dependents(by);
        for n in (0..self.nodes.len()).rev() {
            let (node, outputs) = self.nodes[n].clone();
            let w: Vec<Option<Var>> = outputs.iter().map(|o| adjoints.get(o).copied()).collect();
            if w.iter().all(Option::is_none) {
                continue;
            }
            match node {
                Node::Sum(a, b) => {
                    for v in [a, b] {
                        if let (true, Some(w)) = (depends[v.0], w[0]) {
                            self.add(&mut adjoints, v, w)?;
                        }
                    }
                }
                Node::Call(call) => self.transpose(&call, &w, &depends, &mut adjoints)?,
            }
        }
        Ok(by.iter().map(|x| adjoints.get(x).copied()).collect())
    }

    /// Which variables depend on any of `by`.
    fn dependents(&self, by: &[Var]) -> Vec<bool> {
        let mut depends = vec![false; self.values.len()];
        for v in by {
            if let Some(d) = depends.get_mut(v.0) {
                *d = true;
            }
        }
        for (node, outputs) in &self.nodes {
            let any = match node {
                Node::Sum(a, b) => depends[a.0] || depends[b.0],
                Node::Call(call) => {
                    let args =
                        call.args.iter().filter_map(|a| if let Value::Var(v) = a { Some(*v) } else { None });
                    let extra = call.directions.iter().flatten().chain(&call.cotangents).flatten().copied();
                    args.chain(extra).any(|v| depends[v.0])
                }
            };
            for o in outputs {
                depends[o.0] |= any;
            }
        }
        depends
    }

    fn add(&mut self, adjoints: &mut BTreeMap<Var, Var>, v: Var, w: Var) -> Result<()> {
        let sum = match adjoints.get(&v) {
            Some(before) => self.record(Node::Sum(*before, w))?[0],
            None => w,
        };
        adjoints.insert(v, sum);
        Ok(())
    }

    /// The rules of the family. `w`: cotangents of the call's outputs.
    fn transpose(
        &mut self,
        call: &Call,
        w: &[Option<Var>],
        depends: &[bool],
        adjoints: &mut BTreeMap<Var, Var>,
    ) -> Result<()> {
        let is_wanted = |v: &Option<Var>| v.is_some_and(|v| depends[v.0]);
        let by_args: Vec<usize> = (0..call.args.len())
            .filter(|n| match &call.args[*n] {
                Value::Var(v) => depends[v.0] && call.op.is_differentiable(*n),
                _ => false,
            })
            .collect();
        let var = |n: usize| match &call.args[n] {
            Value::Var(v) => *v,
            _ => unreachable!("only variables are wanted"),
        };
        let is_f = call.cotangents.is_empty();
        // In x. F: weights w. G: the cotangents of its outputs are a further direction.
        if !by_args.is_empty() {
            let mut g = call.clone();
            g.gradients = by_args.clone();
            if is_f {
                g.cotangents = w.to_vec();
            } else {
                g.directions.push(spread(call, w));
            }
            for (n, gradient) in by_args.iter().zip(self.record(Node::Call(g))?) {
                self.add(adjoints, var(*n), gradient)?;
            }
        }
        // In the directions.
        for (k, direction) in call.directions.iter().enumerate() {
            let by: Vec<usize> = (0..direction.len()).filter(|n| is_wanted(&direction[*n])).collect();
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
            for (n, gradient) in by.iter().zip(self.record(Node::Call(g))?) {
                self.add(adjoints, direction[*n].expect("wanted"), gradient)?;
            }
        }
        // In the weights of G.
        if call.cotangents.iter().any(is_wanted) {
            let mut f = call.clone();
            f.directions.push(spread(call, w));
            (f.cotangents, f.gradients) = (vec![], vec![]);
            for (c, derivative) in call.cotangents.iter().zip(self.record(Node::Call(f))?) {
                if let Some(c) = c.filter(|c| depends[c.0]) {
                    self.add(adjoints, c, derivative)?;
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
