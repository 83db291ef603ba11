//! Requests of a call of an op, and their results.

use crate::array::{Array, View};
use crate::structure::{PointGrid, Structure};

/// Argument of a call.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    /// A real or integer array.
    Array(View<'a>),
    /// A batch, pair list, map or mesh, in the memory of the host or of a device.
    Structure(&'a dyn Structure),
    /// A grid, in which the call searches for pairs.
    Grid(&'a dyn PointGrid),
    /// A real attribute.
    Real(f64),
    /// An integer attribute.
    Int(i64),
    /// The value of an argument that is zero in every call.
    Zero,
}

impl<'a> Arg<'a> {
    /// The structured argument that it is.
    pub fn structure(&self) -> Option<&'a dyn Structure> {
        match self {
            Self::Structure(structure) => Some(*structure),
            _ => None,
        }
    }
}

/// The cotangent of an output.
#[derive(Clone, Debug)]
pub enum Cotangent<'a> {
    /// An array of the output's shape.
    Array(View<'a>),
    /// One number for every element: cheaper where kernels have a form for it.
    Uniform(f64),
}

/// A direction: for each argument a tangent of its shape, or none.
pub type Direction<'a> = [Option<View<'a>>];

/// Member of the family, and the arguments that it is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request<'r, 'a> {
    /// Whether the outputs are wanted where gradients are.
    pub values: bool,
    /// Directions: none for F₀ and G₀, one for F₁ and G₁, two for F₂.
    pub directions: &'r [&'r Direction<'a>],
    /// Cotangents of the outputs; empty for F.
    pub cotangents: &'r [Option<Cotangent<'a>>],
    /// The arguments whose gradients are wanted; for G.
    pub gradients: &'r [usize],
    /// For F₀: the arguments by which gradients will be wanted later. Arrays that the op saves for them are in
    /// [`Evaluated::saved`].
    pub save: Option<&'r [usize]>,
    /// Arrays that F₀ saved at these arguments, by position in [`super::Op::saved`]; empty where it saved none. They change
    /// the cost of a call, never its results.
    pub saved: &'r [Option<View<'a>>],
}

impl Request<'_, '_> {
    /// Whether all tangents and cotangents are finite, in the memory of the host.
    pub(super) fn is_finite(&self) -> bool {
        let finite = |view: &View<'_>| view.data().not_finite().is_none();
        self.directions.iter().flat_map(|direction| direction.iter().flatten()).all(finite)
            && self.cotangents.iter().flatten().all(|cotangent| match cotangent {
                Cotangent::Array(view) => finite(view),
                Cotangent::Uniform(w) => w.is_finite(),
            })
    }
}

/// Results of a call.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The outputs (F₀, or beside G₀), or their first (F₁) or mixed second (F₂) derivatives.
    pub values: Vec<Array>,
    /// The gradients that were asked for (G₀), or their derivatives along the direction (G₁).
    pub gradients: Vec<Array>,
    /// Arrays saved for the backward pass, where [`Request::save`] asked for them, by position in [`super::Op::saved`].
    pub saved: Vec<Option<Array>>,
}

impl Evaluated {
    /// All arrays.
    pub(super) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.values.iter().chain(&self.gradients).chain(self.saved.iter().flatten())
    }

    /// All arrays, for writing.
    pub(super) fn arrays_mut(&mut self) -> impl Iterator<Item = &mut Array> {
        let saved = self.saved.iter_mut().flatten();
        self.values.iter_mut().chain(&mut self.gradients).chain(saved)
    }
}
