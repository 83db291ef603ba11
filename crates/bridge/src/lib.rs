//! Seams that the bridges to array frameworks share: how an op's arguments lie in a call ([`layout`]), which members its
//! family has ([`Member`]), what a member computes from plain views and numbers ([`Entry::evaluate`]), and how arrays
//! go from one library of a process to another ([`dlpack`]).
//!
//! No framework is named here. How its arrays become views, and results its arrays, is the business of each bridge.

mod arguments;
pub mod dlpack;
mod evaluate;
mod in_place;
pub mod layout;
mod member;
mod structures;
mod table;

pub use in_place::{InPlace, unfit};
use layout::{Input, Type};
use madelung_core::Result;
use madelung_core::op::{Op, Registry};
pub use member::{Counts, Member, NEGATIVE};
use std::sync::Arc;
pub use table::{Described, describe, find};

/// An op with its inputs.
#[derive(Clone, Debug)]
pub struct Flat {
    /// The op.
    pub op: Arc<Op>,
    /// The inputs of every member, in order; those of derivatives follow: see [`Member`].
    pub inputs: Arc<[Input]>,
}

/// The ops of registries with their inputs.
///
/// # Errors
/// As [`layout::inputs`].
pub fn flat(registries: &[&Registry]) -> Result<Vec<Flat>> {
    let ops = registries.iter().flat_map(|registry| registry.iter());
    ops.map(|op| Ok(Flat { op: op.clone(), inputs: layout::inputs(op)?.into() })).collect()
}

/// `name_vN`
pub fn name_of(op: &Op) -> String {
    format!("{}_v{}", op.name, op.version)
}

/// A member of an op's family that a framework can call.
#[derive(Debug)]
pub struct Entry {
    /// The op.
    pub op: Arc<Op>,
    /// Its inputs.
    pub inputs: Arc<[Input]>,
    /// Which member.
    pub member: Member,
    /// How many arrays of each kind there are.
    pub counts: Counts,
    /// Positions of the differentiable arguments.
    pub reals: Vec<usize>,
}

impl Entry {
    /// A member of an op.
    pub fn new(flat: &Flat, member: Member) -> Self {
        let op = &flat.op;
        let reals = (0..op.args.len()).filter(|n| op.is_differentiable(*n)).collect();
        Self { op: op.clone(), inputs: flat.inputs.clone(), member, counts: Counts::of(op), reals }
    }

    /// How many tensors stand for the op's arguments.
    pub fn tensors(&self) -> usize {
        self.inputs.iter().filter(|input| input.kind == Type::Tensor).count()
    }

    /// The name of tensor `n` of a call, for errors.
    pub fn name(&self, n: usize) -> String {
        let mut tensors = self.inputs.iter().filter(|input| input.kind == Type::Tensor);
        if let Some(input) = tensors.nth(n) {
            return input.name.clone();
        }
        match self.extra(n - self.tensors()) {
            Extra::Cotangent(output) => format!("cotangent of {}", self.op.outputs[output].name),
            Extra::Saved(saved) => format!("saved array {saved}"),
            Extra::Tangent(arg) => format!("direction of {}", self.op.args[arg].name),
        }
    }

    /// Meaning of tensor `n` of those that follow the op's.
    pub fn extra(&self, n: usize) -> Extra {
        let Counts { outputs, reals, .. } = self.counts;
        match self.member {
            Member::Gradient | Member::GradientTangent if n < outputs => Extra::Cotangent(n),
            Member::Gradient => Extra::Saved(n - outputs),
            Member::GradientTangent => Extra::Tangent(self.reals[n - outputs]),
            _ => Extra::Tangent(self.reals[n % reals]),
        }
    }
}

/// A tensor that follows those of an op's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// The cotangent of an output.
    Cotangent(usize),
    /// A saved output of F₀, by position.
    Saved(usize),
    /// A direction's part of an argument.
    Tangent(usize),
}
