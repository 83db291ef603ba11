//! The members of an op's family as ops of a framework.

use madelung_core::op::Op;

/// A member of the family; see `madelung_core::op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// F₀.
    Value,
    /// F₀, and what it saves for the gradient.
    Saving,
    /// F₀ of an op with one output, and the gradients of the sum of its elements: G₀ for cotangents of one.
    Direct,
    /// F₁.
    Tangent,
    /// F₂.
    SecondTangent,
    /// G₀.
    Gradient,
    /// G₁.
    GradientTangent,
}

/// What is added to the gradients that are wanted of [`Member::Direct`] where all are to have the other sign.
pub const NEGATIVE: u64 = 1 << 32;

/// How many of each kind of array a family has.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Differentiable arguments.
    pub reals: usize,
    /// Outputs.
    pub outputs: usize,
    /// What F₀ saves.
    pub saved: usize,
}

impl Counts {
    /// Of an op.
    pub fn of(op: &Op) -> Self {
        let reals = (0..op.args.len()).filter(|n| op.is_differentiable(*n)).count();
        Self { reals, outputs: op.outputs.len(), saved: op.saved().len() }
    }
}

impl Member {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Value,
        Self::Saving,
        Self::Direct,
        Self::Tangent,
        Self::SecondTangent,
        Self::Gradient,
        Self::GradientTangent,
    ];

    /// What follows the op's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Value => "",
            Self::Saving => "_saving",
            Self::Direct => "_direct",
            Self::Tangent => "_jvp",
            Self::SecondTangent => "_jvp2",
            Self::Gradient => "_vjp",
            Self::GradientTangent => "_vjp_jvp",
        }
    }

    /// Whether an op has it.
    pub fn is_of(self, op: &Op) -> bool {
        let counts = Counts::of(op);
        match self {
            Self::Value => true,
            Self::Saving => counts.saved > 0,
            Self::Direct => counts.reals > 0 && op.outputs.len() == 1 && op.outputs[0].dtype.is_none(),
            _ => counts.reals > 0 && op.outputs.iter().any(|o| o.dtype.is_none()),
        }
    }

    /// Tensors that follow the op's inputs: cotangents of outputs, saved arrays, and tangents along two directions.
    pub fn extra_tensors(self, counts: Counts) -> usize {
        let Counts { reals, outputs, saved } = counts;
        match self {
            Self::Value | Self::Saving | Self::Direct => 0,
            Self::Tangent => reals,
            Self::SecondTangent => 2 * reals,
            Self::Gradient => outputs + saved,
            Self::GradientTangent => outputs + reals,
        }
    }

    /// Whether an integer follows them that says which of them are there.
    pub fn has_mask(self) -> bool {
        !matches!(self, Self::Value | Self::Saving | Self::Direct)
    }

    /// Whether another one says whose gradients are wanted.
    pub fn has_want(self) -> bool {
        matches!(self, Self::Saving | Self::Direct | Self::Gradient | Self::GradientTangent)
    }

    /// How many tensors come back.
    pub fn results(self, counts: Counts) -> usize {
        match self {
            Self::Value | Self::Tangent | Self::SecondTangent => counts.outputs,
            Self::Saving => counts.outputs + counts.saved,
            Self::Direct => counts.outputs + counts.reals,
            Self::Gradient | Self::GradientTangent => counts.reals,
        }
    }
}
