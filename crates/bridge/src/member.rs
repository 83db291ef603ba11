//! The members of an op's family as operators of a framework.

use madelung_core::op::Op;

/// A member of an op's family of derivatives; see `madelung_core::op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The outputs F₀.
    Value,
    /// The outputs F₀ and the residuals for the gradient.
    Saving,
    /// The output F₀ of an op with one output, and the gradients of the sum of its elements (G₀ with cotangents of
    /// one).
    Direct,
    /// The directional derivative F₁.
    Tangent,
    /// The second directional derivative F₂.
    SecondTangent,
    /// The gradient G₀.
    Gradient,
    /// The directional derivative G₁ of the gradient.
    GradientTangent,
}

/// The flag, among the bits of requested gradients of [`Member::Direct`], that negates all gradients.
pub const NEGATIVE: u64 = 1 << 32;

/// The numbers of arrays of an op, by kind.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// The number of differentiable arguments.
    pub reals: usize,
    /// The number of outputs.
    pub outputs: usize,
    /// The number of residuals.
    pub saved: usize,
}

impl Counts {
    /// The numbers of an op.
    pub fn of(op: &Op) -> Self {
        let reals = (0..op.args.len()).filter(|n| op.is_differentiable(*n)).count();
        Self { reals, outputs: op.outputs.len(), saved: op.saved().len() }
    }
}

impl Member {
    /// All members.
    pub const ALL: [Self; 7] = [
        Self::Value,
        Self::Saving,
        Self::Direct,
        Self::Tangent,
        Self::SecondTangent,
        Self::Gradient,
        Self::GradientTangent,
    ];

    /// The suffix of the operator's name.
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

    /// Whether an op has the member.
    pub fn is_of(self, op: &Op) -> bool {
        let counts = Counts::of(op);
        match self {
            Self::Value => true,
            Self::Saving => counts.saved > 0,
            Self::Direct => counts.reals > 0 && op.outputs.len() == 1 && op.outputs[0].dtype.is_none(),
            _ => counts.reals > 0 && op.outputs.iter().any(|o| o.dtype.is_none()),
        }
    }

    /// The number of tensors that follow the op's inputs: cotangents, residuals, and tangents along up to two
    /// directions.
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

    /// Whether an integer argument follows whose bits mark the tensors that are present.
    pub fn has_mask(self) -> bool {
        !matches!(self, Self::Value | Self::Saving | Self::Direct)
    }

    /// Whether an integer argument follows whose bits mark the requested gradients.
    pub fn has_want(self) -> bool {
        matches!(self, Self::Saving | Self::Direct | Self::Gradient | Self::GradientTangent)
    }

    /// The number of result tensors.
    pub fn results(self, counts: Counts) -> usize {
        match self {
            Self::Value | Self::Tangent | Self::SecondTangent => counts.outputs,
            Self::Saving => counts.outputs + counts.saved,
            Self::Direct => counts.outputs + counts.reals,
            Self::Gradient | Self::GradientTangent => counts.reals,
        }
    }
}
