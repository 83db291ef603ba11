//! Sizes of arrays as expressions over dimensions and attributes.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// A number.
    Const(usize),
    /// A dimension of the op's inputs.
    Dim(String),
    /// An integer attribute.
    Attr(String),
    /// A sum.
    Sum(Vec<Size>),
    /// A product.
    Product(Vec<Size>),
}

impl Size {
    /// A number, the name of a dimension, or a sum of these (`Atom+1`).
    pub fn parse(text: &str) -> Self {
        if let Some((first, rest)) = text.split_once('+') {
            return Self::Sum(vec![Self::parse(first), Self::parse(rest)]);
        }
        text.parse().map_or_else(|_| Self::Dim(text.to_string()), Self::Const)
    }

    /// Value of the expression, where every dimension and attribute in it is known; an overflow is an error.
    pub fn evaluate(&self, dims: &[(&str, usize)], attrs: &[(&str, i64)]) -> Result<usize> {
        let overflow = || Error::argument("shape", "a size that fits in 64 bits", self.to_string());
        let attr = |name: &String| attrs.iter().find(|(a, _)| a == name).map(|(_, n)| *n);
        match self {
            Self::Const(n) => Ok(*n),
            Self::Dim(name) => dims
                .iter()
                .find(|(dim, _)| dim == name)
                .map(|(_, n)| *n)
                .ok_or_else(|| Error::argument(name, "a known dimension", "an unknown one")),
            Self::Attr(name) => attr(name)
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| Error::argument(name, "a size (an integer ≥ 0)", format!("{:?}", attr(name)))),
            Self::Sum(parts) => parts
                .iter()
                .try_fold(0usize, |n, p| n.checked_add(p.evaluate(dims, attrs)?).ok_or_else(overflow)),
            Self::Product(parts) => parts
                .iter()
                .try_fold(1usize, |n, p| n.checked_mul(p.evaluate(dims, attrs)?).ok_or_else(overflow)),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined =
            |parts: &[Size], by: &str| parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(by);
        match self {
            Self::Const(n) => write!(f, "{n}"),
            Self::Dim(name) | Self::Attr(name) => f.write_str(name),
            Self::Sum(parts) => f.write_str(&joined(parts, " + ")),
            Self::Product(parts) => f.write_str(&joined(parts, " · ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_expressions() {
        let dims = [("Atom", 5)];
        let attrs = [("order", 4), ("bad", -1)];
        let size = Size::Product(vec![Size::parse("3"), Size::parse("Atom+1"), Size::Attr("order".into())]);
        assert_eq!(size.evaluate(&dims, &attrs), Ok(72));
        assert!(Size::parse("Bond").evaluate(&dims, &attrs).is_err());
        assert!(Size::Attr("bad".into()).evaluate(&dims, &attrs).is_err());
        let huge = Size::Product(vec![Size::Const(usize::MAX), Size::Const(2)]);
        assert!(huge.evaluate(&dims, &attrs).is_err());
        let json = serde_json::to_string(&size).expect("sizes serialise");
        assert_eq!(serde_json::from_str::<Size>(&json).expect("and back"), size);
    }
}
