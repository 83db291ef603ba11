//! Pair laws of sums.

use super::boundaries::Boundaries;
use super::{Input, Method, Request, Sum};
use madelung_core::{Error, Result};

/// Pair law of a sum: its ops, and their real inputs behind the splitting parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// q_i q_j/rᵖ with p from 1, of charges, to 6.
    Power(u32),
    /// A law of the caller's own, in crystals. Nothing estimates its errors, so that its parameters are given.
    Own {
        /// Its name, for errors.
        name: String,
        /// The prefix of its ops.
        prefix: String,
        /// Its own parameters.
        parameters: Vec<String>,
    },
}

impl Default for Law {
    fn default() -> Self {
        Self::Power(1)
    }
}

impl Law {
    /// Whether it is that of charges.
    pub fn is_coulomb(&self) -> bool {
        *self == Self::Power(1)
    }

    /// p of 1/rᵖ.
    pub(super) fn power(&self) -> Option<u32> {
        match self {
            Self::Power(p) => Some(*p),
            Self::Own { .. } => None,
        }
    }

    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Power(1) => "ewald",
            Self::Power(_) => "inverse_power",
            Self::Own { prefix, .. } => prefix,
        }
    }

    /// Its own real inputs.
    pub(super) fn reals(&self) -> Vec<Input> {
        match self {
            Self::Power(1) => vec![],
            Self::Power(p) => vec![Input::Number(f64::from(*p))],
            Self::Own { parameters, .. } => parameters.iter().cloned().map(Input::OfLaw).collect(),
        }
    }

    /// Refuses what the law does not go with.
    pub(super) fn check(&self, request: &Request, edges: &Boundaries) -> Result<()> {
        if self.is_coulomb() {
            return Ok(());
        }
        let given = &request.given;
        let (argument, plain, other, got) = match self {
            Self::Power(p) => ("exponent", "1", "`exponent` above 1", p.to_string()),
            Self::Own { name, .. } => ("law", "None", "`law`", name.clone()),
        };
        let refuse = |expected: String| Err(Error::argument(argument, expected, got.clone()));
        if let Self::Power(p) = self
            && !(1..=6).contains(p)
        {
            return refuse("1 to 6".into());
        }
        if given.unread_axes {
            let expected = format!("flags of Python with {other}");
            return Err(Error::argument("pbc", expected, "an array without values"));
        }
        let others = [
            (edges.slabs().is_some() || edges.wires().is_some(), "slabs and wires"),
            (given.widths, "`widths`"),
            (request.method == Some(Method::Direct), "`method=\"direct\"`"),
            (self.power().is_none() && edges.open().is_some(), "open systems"),
        ];
        if let Some((_, what)) = others.iter().find(|(is_there, _)| *is_there) {
            return refuse(format!("{plain} with {what}"));
        }
        if self.power().is_some() {
            return Ok(());
        }
        let why = format!("with `law={got}`, whose errors nothing estimates");
        if given.accuracy {
            return Err(Error::argument("accuracy", format!("None {why}"), "a number"));
        }
        let far = match request.sum {
            Sum::Mesh => ("mesh_dimensions", given.mesh),
            _ => ("k_cutoff", given.k_cutoff || given.waves),
        };
        let needed = [("alpha", given.alpha), ("cutoff", given.cutoff || given.list), far];
        if let Some((name, _)) = needed.iter().find(|(_, is_given)| !is_given) {
            return Err(Error::argument(*name, format!("a value {why}"), "None"));
        }
        Ok(())
    }
}
