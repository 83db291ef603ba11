//! Functions of one real: their names in the language and in printed code, and what simplification knows of them.
//! (Their derivatives: `derivative.rs`.)

/// A function of one real.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Function {
    /// eᵃ
    Exp,
    /// ln a
    Ln,
    /// erf a
    Erf,
    /// erfc a
    Erfc,
    /// exp(−a²)
    ExpNegSq,
    /// sin a
    Sin,
    /// cos a
    Cos,
    /// arcsin a
    Asin,
    /// arccos a
    Acos,
    /// tanh a
    Tanh,
    /// The largest integer that is not above (no derivative).
    Floor,
}

/// f(−a) in terms of f(a).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parity {
    Even,
    Odd,
    Neither,
}

use Function::*;

impl Function {
    /// The functions that kernels call, by name.
    pub(crate) const NAMED: [(&'static str, Self); 10] = [
        ("exp", Exp),
        ("log", Ln),
        ("erf", Erf),
        ("erfc", Erfc),
        ("sin", Sin),
        ("cos", Cos),
        ("asin", Asin),
        ("acos", Acos),
        ("tanh", Tanh),
        ("floor", Floor),
    ];

    /// The function that a kernel calls by a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|f| f.0 == name).map(|f| f.1)
    }

    /// The name of the function on lanes and on scalars (`rt::scalar`).
    pub(crate) fn rust(self) -> &'static str {
        if self == Ln { "ln" } else { self.cuda() }
    }

    /// The name of the function in CUDA text.
    pub(crate) fn cuda(self) -> &'static str {
        Self::NAMED.iter().find(|f| f.1 == self).map_or("exp_neg_sq", |f| f.0)
    }

    /// The value at 0, where it is exact.
    pub(crate) fn at_zero(self) -> Option<f64> {
        match self {
            Exp | Erfc | ExpNegSq | Cos => Some(1.0),
            Erf | Sin | Asin | Tanh | Floor => Some(0.0),
            Ln | Acos => None,
        }
    }

    pub(crate) fn parity(self) -> Parity {
        match self {
            Cos | ExpNegSq => Parity::Even,
            Erf | Sin | Asin | Tanh => Parity::Odd,
            Exp | Ln | Erfc | Acos | Floor => Parity::Neither,
        }
    }

    /// Whether the value or the derivative may be infinite or NaN at a finite number.
    pub(crate) fn may_diverge(self) -> bool {
        matches!(self, Exp | Ln | Asin | Acos)
    }
}
