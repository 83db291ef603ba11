//! Terms of sums: products go into them by one operation with one rounding.

use super::Printer;
use crate::ir::{Op, Val};

impl Printer<'_> {
    /// The factors of a product that is to be a term of a sum in the block.
    pub(super) fn factors(&self, v: Val) -> Option<(Val, Val)> {
        let is_here = self.layout.fused.contains(&v) || self.defined.last().is_some_and(|d| d.contains(&v));
        match *self.b.op(v) {
            Op::Mul(x, y) if is_here => Some((x, y)),
            _ => None,
        }
    }

    /// `sum` + `v`, or `sum` − `v`.
    pub(super) fn plus(&self, sum: &str, sign: char, v: Val) -> String {
        match self.factors(v) {
            Some((x, y)) => {
                format!("fused({}{}, {}, {sum})", if sign == '-' { "-" } else { "" }, self.v(x), self.v(y))
            }
            None => format!("{sum} {sign} {}", self.v(v)),
        }
    }

    /// a + b, or a − b: of two products one that is used nowhere else is fused.
    pub(super) fn sum(&self, a: Val, sign: char, b: Val) -> String {
        let is_alone = |v: Val| self.layout.fused.contains(&v);
        match self.factors(a) {
            Some((x, y)) if is_alone(a) || (self.factors(b).is_none() && !is_alone(b)) => {
                let sign = if sign == '-' { "-" } else { "" };
                format!("fused({}, {}, {sign}{})", self.v(x), self.v(y), self.v(b))
            }
            _ => self.plus(&self.v(a), sign, b),
        }
    }
}
