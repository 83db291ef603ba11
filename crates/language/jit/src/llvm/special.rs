//! Special functions on lanes, traced.

use madelung_core::runtime::lanes::traced::Trace;
use madelung_core::runtime::{self as rt, Lane};
use madelung_interpreter::by_name;
use madelung_kernel::ir::Function;
use madelung_kernel::program::Pair;

/// A special function on lanes.
#[derive(Clone, Copy)]
pub(super) enum Special {
    Call(Function),
    Pow,
    Atan2,
    Nearest,
    Pair(Pair),
}

impl Special {
    /// The name.
    pub(super) fn name(self) -> &'static str {
        macro_rules! name {
            ($f:ident) => {
                stringify!($f)
            };
        }
        match self {
            Self::Call(f) => by_name!(f, name),
            Self::Pow => "pow",
            Self::Atan2 => "atan2",
            Self::Nearest => "nearest",
            Self::Pair(Pair::ErfcExpNegSq) => "erfc_exp_neg_sq",
            Self::Pair(Pair::SinCos) => "sin_cos",
            Self::Pair(Pair::SqrtRecip) => "sqrt_recip",
        }
    }

    /// The number of arguments.
    pub(super) fn arity(self) -> usize {
        match self {
            Self::Call(_) | Self::Nearest | Self::Pair(_) => 1,
            Self::Pow | Self::Atan2 => 2,
        }
    }
}

impl Trace for Special {
    fn run<L: Lane>(&self, x: &[L]) -> Vec<L> {
        macro_rules! call {
            ($f:ident) => {
                vec![x[0].$f()]
            };
        }
        let both = |(first, second): (L, L)| vec![first, second];
        match *self {
            Self::Call(f) => by_name!(f, call),
            Self::Pow => vec![x[0].pow(x[1])],
            Self::Atan2 => vec![x[0].atan2(x[1])],
            Self::Nearest => vec![rt::nearest(x[0])],
            Self::Pair(Pair::ErfcExpNegSq) => both(x[0].erfc_exp_neg_sq()),
            Self::Pair(Pair::SinCos) => both(x[0].sin_cos()),
            Self::Pair(Pair::SqrtRecip) => both(x[0].sqrt_recip()),
        }
    }
}
