//! What a call of an op is given, and what it gives.

use crate::array::{Array, View};
use crate::batch::Batch;
use crate::device::DeviceArg;
use crate::grid::PointGrid;
use crate::map::Map;
use crate::mesh::Mesh;
use crate::pairs::PairList;

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    /// A real or integer array.
    Array(View<'a>),
    /// A batch.
    Batch(&'a Batch<'a>),
    /// A pair list.
    Pairs(&'a PairList<'a>),
    /// A grid.
    Grid(&'a dyn PointGrid),
    /// A map.
    Map(&'a Map<'a>),
    /// A mesh.
    Mesh(&'a Mesh),
    /// A batch, pair list, map or grid in the memory of a device.
    Device(DeviceArg<'a>),
    /// A real attribute.
    Real(f64),
    /// An integer attribute.
    Int(i64),
    /// The value of an argument that is zero in every call.
    Zero,
}

/// The cotangent of an output.
#[derive(Clone, Debug)]
pub enum Cotangent<'a> {
    /// An array of the output's shape.
    Array(View<'a>),
    /// The same for every element: cheaper where kernels have a form for it.
    Uniform(f64),
}

/// A direction: for each argument a tangent of its shape, or none.
pub type Direction<'a> = [Option<View<'a>>];

/// Which members are wanted.
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
    /// For F₀: the arguments that gradients will be wanted by later. What the op saves for that is given back in
    /// [`Evaluated::saved`].
    pub save: Option<&'r [usize]>,
    /// What F₀ saved at these arguments, by position in [`super::Op::saved`]; empty where it saved nothing. It
    /// changes what a call costs, never what it means.
    pub saved: &'r [Option<View<'a>>],
}

/// What came out.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The outputs (F₀, or beside G₀), or their first (F₁) or mixed second (F₂) derivatives.
    pub values: Vec<Array>,
    /// The gradients that were asked for (G₀), or their derivatives along the direction (G₁).
    pub gradients: Vec<Array>,
    /// What the op keeps for the backward pass, where [`Request::save`] asked for it, by position in
    /// [`super::Op::saved`].
    pub saved: Vec<Option<Array>>,
}

impl Evaluated {
    /// Everything that was computed.
    pub(super) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.values.iter().chain(&self.gradients).chain(self.saved.iter().flatten())
    }

    /// The same, for writing.
    pub(super) fn arrays_mut(&mut self) -> impl Iterator<Item = &mut Array> {
        let saved = self.saved.iter_mut().flatten();
        self.values.iter_mut().chain(&mut self.gradients).chain(saved)
    }
}
