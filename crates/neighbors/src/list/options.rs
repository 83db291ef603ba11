//! Options of a search: cutoffs, the kind and form of its list, limits of its size.

use crate::lattice::Precision;
use madelung_core::structure::pairs::Kind;
use madelung_core::{Error, Result};
use madelung_cpu::Cpu;

/// The method of a search. The list does not depend on it, bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Atoms sorted into the cells of a grid: time grows with the number of pairs.
    CellList,
    /// Every atom with every image near the system: best for some hundred atoms, and quadratic beyond.
    BruteForce,
}

/// The form of a list: see [`find_neighbors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Rows.
    Rows,
    /// Clusters of atoms that are neighbours in space.
    Clusters,
    /// A list in clusters that says of each system in which form it is faster.
    Mixed,
}

/// Cutoff of a search, above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cutoff<'a> {
    /// One for all systems.
    All(f64),
    /// One for each.
    Each(&'a [f64]),
}

impl From<f64> for Cutoff<'_> {
    fn from(cutoff: f64) -> Self {
        Self::All(cutoff)
    }
}

impl<'a> From<&'a [f64]> for Cutoff<'a> {
    fn from(cutoffs: &'a [f64]) -> Self {
        Self::Each(cutoffs)
    }
}

impl Cutoff<'_> {
    /// Cutoff of system `b`.
    pub(super) fn of(&self, b: usize) -> f64 {
        match self {
            Self::All(cutoff) => *cutoff,
            Self::Each(cutoffs) => cutoffs[b],
        }
    }

    pub(super) fn check(&self, systems: usize) -> Result<()> {
        let cutoffs = match self {
            Self::All(cutoff) => std::slice::from_ref(cutoff),
            Self::Each(cutoffs) if cutoffs.len() == systems => cutoffs,
            Self::Each(cutoffs) => {
                let expected = format!("one for each of {systems} systems");
                return Err(Error::argument("cutoff", expected, cutoffs.len().to_string()));
            }
        };
        match cutoffs.iter().find(|cutoff| !(**cutoff > 0.0 && cutoff.is_finite())) {
            Some(bad) => Err(Error::argument("cutoff", "a positive number", bad.to_string())),
            None => Ok(()),
        }
    }
}

/// The kind of a list, the method of its search, and limits of its size.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Full or half.
    pub kind: Kind,
    /// The method; None chooses one for each system of a batch by its size.
    pub method: Option<Method>,
    /// The form of [`find_neighbors`]; None: clusters where a system is faster so.
    pub form: Option<Form>,
    /// The most pairs the caller has room for.
    pub capacity: Option<usize>,
    /// The most pairs per atom the caller has room for.
    pub max_neighbors: Option<usize>,
    /// The processor's instructions; the list does not depend on them, bit for bit.
    pub cpu: Cpu,
    /// The precision of coordinates that were widened.
    pub(crate) precision: Precision,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kind: Kind::Full,
            method: None,
            form: None,
            capacity: None,
            max_neighbors: None,
            cpu: Cpu::new(),
            precision: Precision::Double,
        }
    }
}

impl Options {
    /// A full list by whichever method, without limits.
    pub fn full() -> Self {
        Self::default()
    }

    /// A half list by whichever method, without limits.
    pub fn half() -> Self {
        Self { kind: Kind::Half, ..Self::default() }
    }

    /// These options with a method prescribed.
    pub fn with_method(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// These options with a form prescribed.
    pub fn with_form(self, form: Form) -> Self {
        Self { form: Some(form), ..self }
    }

    /// These options with the instructions of `cpu`.
    pub fn with_cpu(self, cpu: Cpu) -> Self {
        Self { cpu, ..self }
    }

    /// These options for widened coordinates.
    pub(crate) fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// These options with a capacity in pairs.
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity: Some(capacity), ..self }
    }

    /// These options with a capacity in pairs per atom.
    pub fn with_max_neighbors(self, max_neighbors: usize) -> Self {
        Self { max_neighbors: Some(max_neighbors), ..self }
    }
}
