//! Declarations of ops.

use super::Arg;
use super::builder::OpBuilder;
use super::far::Lattice;
use super::linear::Linear;
use super::quadratic::Quadratic;
use super::size::Size;
use super::sorted::Searching;
use crate::array::{Array, DType};
use crate::backend::Context;
use crate::runtime::{Kernel, Param, ParamKind, StructureKind};
use crate::structure::noun;
use crate::{Error, Result};
use serde::Serialize;

/// Kind of an argument.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArgKind {
    /// A differentiable array; all of an op's that are not stored have one dtype, f32 or f64.
    Real {
        /// Shape.
        shape: Vec<Size>,
        /// Zero in every call: only derivatives by it matter (the strain).
        zero: bool,
    },
    /// An i32 or i64 array; where the dtype is i32, of numbers that an i32 has.
    Ints {
        /// Shape.
        shape: Vec<Size>,
        /// The dtype that kernels read.
        dtype: DType,
    },
    /// A batch: the system of each row, `(rows,)`, sorted i32, and where each system begins, `(systems + 1,)`.
    Batch {
        /// The rows.
        rows: String,
        /// The systems.
        systems: String,
    },
    /// A pair list: starts and ends `(rows,)`, i64; columns `(P,)`, shifts `(P, 3)`, i32.
    Pairs {
        /// The rows.
        rows: String,
        /// The partners of the rows.
        columns: String,
        /// The dimension of arrays that have an element per entry of the list, padding included.
        entries: Option<String>,
    },
    /// A grid of points, searched around rows once for each call; kernels read the pairs that are found as a pair list
    /// between rows and points.
    Grid {
        /// The rows around which it is searched.
        rows: String,
        /// The points.
        columns: String,
        /// The argument with the points' positions, `(columns, 3)`: exactly the coordinates that the grid was built from.
        points: String,
        /// The dimension of arrays that have an element per pair that is found.
        entries: Option<String>,
    },
    /// A map: an element of another dimension for each row, `(rows,)`, i32.
    Map {
        /// The rows.
        rows: String,
        /// The other dimension.
        into: String,
    },
    /// A periodic mesh for each system, with its spline order: static.
    Mesh {
        /// The systems, each with a mesh of its own.
        systems: String,
        /// The nodes of all meshes, one system after the other.
        nodes: String,
        /// The waves of the half spectra.
        waves: String,
    },
    /// A real attribute.
    Scalar,
    /// An integer attribute.
    IntScalar,
}

/// Structured argument of a declaration.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredStructure<'o> {
    /// The kind.
    pub kind: StructureKind,
    /// The dimensions, in the order that [`StructureKind`] names them.
    pub dims: [Option<&'o str>; 3],
    /// Whether it is a grid, in which the call searches for the pairs.
    pub is_grid: bool,
}

impl ArgKind {
    /// The structured argument that it declares.
    pub fn structure(&self) -> Option<DeclaredStructure<'_>> {
        use StructureKind::{Batch, Map, Mesh, Pairs};
        let (kind, dims) = match self {
            Self::Batch { rows, systems } => (Batch, [Some(rows), Some(systems), None]),
            Self::Pairs { rows, columns, entries } | Self::Grid { rows, columns, entries, .. } => {
                (Pairs, [Some(rows), Some(columns), entries.as_ref()])
            }
            Self::Map { rows, into } => (Map, [Some(rows), Some(into), None]),
            Self::Mesh { systems, nodes, waves } => (Mesh, [Some(systems), Some(nodes), Some(waves)]),
            _ => return None,
        };
        let dims = dims.map(|dim| dim.map(String::as_str));
        Some(DeclaredStructure { kind, dims, is_grid: matches!(self, Self::Grid { .. }) })
    }

    /// The argument in words, for errors.
    pub(super) fn noun(&self) -> &'static str {
        match (self, self.structure()) {
            (_, Some(declared)) if declared.is_grid => "a grid of points",
            (_, Some(declared)) => noun(declared.kind),
            (Self::Real { .. }, _) => "a real array",
            (Self::Scalar, _) => "a real attribute, finite",
            (Self::IntScalar, _) => "an integer attribute",
            _ => "an int32 or int64 array",
        }
    }
}

/// Condition on an argument beyond its type, checked at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// Finite and > 0.
    Positive,
    /// Finite and ≥ 0.
    NotNegative,
    /// Finite.
    Finite,
    /// Cells: finite, |det| > 0.
    Cell,
    /// Cells whose vectors along open axes may be zero: finite, and |det| > 0 where none is.
    OpenCell,
    /// Pair lists: every pair from both sides.
    Full,
    /// Integer attributes: from the first to the second number.
    Between(i64, i64),
}

/// Declaration of an argument.
#[derive(Clone, Debug, Serialize)]
pub struct ArgSpec {
    /// Name.
    pub name: String,
    /// Kind.
    #[serde(flatten)]
    pub kind: ArgKind,
    /// Condition.
    pub constraint: Option<Constraint>,
    /// A real array of any real dtype (f16, bf16, f32 or f64), whatever that of the other arrays, in which kernels compute.
    /// Directions and gradients of the argument have its own dtype.
    pub stored: bool,
    /// Whether functions return the gradient with the other sign: forces and virials are negative gradients.
    pub negated: bool,
    /// Whether the argument is geometry, by which hybrid energies have no first derivative: the forces and the virial beside
    /// them have it.
    pub geometry: bool,
    /// Arguments whose gradients steps take from rows alone, for a pair list that they take in clusters, for values and for
    /// gradients.
    pub clusters: Option<Vec<String>>,
}

/// Declaration of an output, or of an array that lives during a call.
#[derive(Clone, Debug, Serialize)]
pub struct OutputSpec {
    /// Name.
    pub name: String,
    /// Shape.
    pub shape: Vec<Size>,
    /// The argument whose dtype the array has; None: the dtype of the real arguments that are not stored.
    pub stored_as: Option<String>,
    /// Dtype of an integer array.
    pub dtype: Option<DType>,
    /// Kept for the backward pass and hidden from the user.
    pub saved: bool,
}

impl OutputSpec {
    pub(super) fn new(name: &str, shape: Vec<Size>) -> Self {
        Self { name: name.into(), shape, stored_as: None, dtype: None, saved: false }
    }
}

/// Work of a step.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Runs a kernel.
    Kernel(&'static Kernel),
    /// Applies a linear map.
    Linear(Linear),
}

/// A step of an op, its parameters bound to buffers.
#[derive(Clone, Debug)]
pub struct Step {
    /// Kernel or linear map.
    pub work: Work,
    /// The argument, output or scratch array of each parameter: see [`Op::buffer_name`].
    pub buffers: Vec<usize>,
}

/// Operation with named arguments and outputs, and the family of its derivatives.
#[derive(Clone, Debug, Serialize)]
pub struct Op {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Version, which rises when the declaration changes; a released version never changes.
    pub version: u32,
    /// Arguments.
    pub args: Vec<ArgSpec>,
    /// Outputs.
    pub outputs: Vec<OutputSpec>,
    /// Scratch arrays of a call, from the caller's allocator. Derivatives need them once more for each direction and for
    /// the cotangents.
    pub scratch: Vec<OutputSpec>,
    /// The arguments whose gradients a call of F₀ can save beside its values, so that the backward pass scales them:
    /// see [`OpBuilder::saved_gradients`].
    pub saved_gradients: Vec<String>,
    /// Members of the family that can be called.
    pub derivatives: [&'static str; 5],
    /// Whether kernels may compute indices, so that the rows of several calls cannot stand side by side in one.
    pub computes_indices: bool,
    #[serde(skip)]
    pub(crate) steps: Vec<Step>,
    /// Order of the steps in a forward pass: see [`forward_order`].
    #[serde(skip)]
    pub(super) forward: Vec<usize>,
    #[serde(skip)]
    pub(crate) label: Option<String>,
    #[serde(skip)]
    pub(crate) explain: Option<Explain>,
    #[serde(skip)]
    pub(crate) explain_raised: Option<Explain>,
    #[serde(skip)]
    pub(super) search: Option<Search>,
    #[serde(skip)]
    pub(super) lattice: Option<Lattice>,
    #[serde(skip)]
    pub(super) searching: Option<Searching>,
    #[serde(skip)]
    pub(super) quadratic: Option<Quadratic>,
}

/// Order of steps in which each follows those whose arrays it reads, and steps that do not depend on each other come last
/// first, linear maps behind kernels. What several steps add to one array is added in this order by a backward pass that gives
/// values too, which takes steps in it as far as it can, so energies have the same bits from both passes.
pub(super) fn forward_order(steps: &[Step]) -> Vec<usize> {
    let follows = |step: &Step, other: &Step| {
        let mut shared = step.buffers.iter();
        // Steps that read the argument of a copy come before it: it may lie where the result is to lie.
        shared.any(|b| {
            other.writes(*b) && step.reads(*b) || other.reads(*b) && (step.writes(*b) || step.is_copy())
        })
    };
    let mut order: Vec<usize> = Vec::with_capacity(steps.len());
    while order.len() < steps.len() {
        let ready = |s: &usize| {
            !order.contains(s)
                && (0..*s).all(|earlier| order.contains(&earlier) || !follows(&steps[*s], &steps[earlier]))
        };
        // A backward pass has sums of what it makes itself when it is over.
        let is_kernel = |s: &usize| matches!(steps[*s].work, Work::Kernel(_));
        let last = (0..steps.len()).rev();
        order.extend(last.clone().find(|s| ready(s) && is_kernel(s)).or_else(|| last.clone().find(ready)));
    }
    order
}

/// Explanation of a result that is not finite, or of what a kernel raised.
pub type Explain = fn(&Op, &[Arg<'_>]) -> Option<Error>;

/// Search of a call: its integer outputs, from arguments that it checks itself. Sizes of outputs that are attributes are
/// capacities; where one is negative, the search finds the size.
pub type Search = fn(&Context<'_>, &[Arg<'_>]) -> Result<Vec<Array>>;

impl Op {
    /// Begins a declaration.
    #[expect(clippy::new_ret_no_self, reason = "an op is declared step by step")]
    pub fn new(namespace: &str, name: &str, version: u32) -> OpBuilder {
        OpBuilder {
            op: Op {
                namespace: namespace.into(),
                name: name.into(),
                version,
                args: vec![],
                outputs: vec![],
                scratch: vec![],
                saved_gradients: vec![],
                derivatives: ["F0", "F1", "F2", "G0", "G1"],
                computes_indices: false,
                steps: vec![],
                forward: vec![],
                label: None,
                explain: None,
                explain_raised: None,
                search: None,
                lattice: None,
                searching: None,
                quadratic: None,
            },
            steps: vec![],
            lattice: None,
            searching: None,
        }
    }

    /// `namespace::name.vN`
    pub fn full_name(&self) -> String {
        format!("{}::{}.v{}", self.namespace, self.name, self.version)
    }

    /// The name in errors of a call: a label, or else the full name.
    pub(crate) fn said(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.full_name())
    }

    /// The position of an argument.
    pub fn arg(&self, name: &str) -> Option<usize> {
        self.args.iter().position(|a| a.name == name)
    }

    /// Whether there are derivatives by an argument.
    pub fn is_differentiable(&self, arg: usize) -> bool {
        matches!(self.args[arg].kind, ArgKind::Real { .. })
    }

    /// Steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Arguments, then outputs, then scratch, in one numbering.
    pub fn buffer_name(&self, buffer: usize) -> &str {
        let (a, o) = (self.args.len(), self.outputs.len());
        match buffer {
            b if b < a => &self.args[b].name,
            b if b < a + o => &self.outputs[b - a].name,
            b => &self.scratch[b - a - o].name,
        }
    }

    pub(crate) fn buffers(&self) -> usize {
        self.args.len() + self.outputs.len() + self.scratch.len()
    }

    pub(super) fn buffer(&self, name: &str) -> Option<usize> {
        (0..self.buffers()).find(|b| self.buffer_name(*b) == name)
    }

    /// The buffer of a name that a step's parameter means: one that steps write, where this one or an earlier one does; or
    /// the argument.
    pub(super) fn buffer_for(&self, name: &str, param: &Param) -> Option<usize> {
        let made = (self.args.len()..self.buffers()).find(|b| self.buffer_name(*b) == name);
        let meant = made.filter(|b| param.is_output() || self.steps.iter().any(|s| s.writes(*b)));
        meant.or_else(|| self.buffer(name))
    }

    /// The dimension of this name, where an output or a scratch array has it.
    pub fn dimension(&self, name: &str) -> Option<&str> {
        let shapes = self.outputs.iter().chain(&self.scratch).flat_map(|array| &array.shape);
        shapes
            .filter_map(|size| if let Size::Dim(dim) = size { Some(&**dim) } else { None })
            .find(|dim| *dim == name)
    }

    /// The shape of an array buffer.
    pub(crate) fn shape_of(&self, buffer: usize) -> Option<&[Size]> {
        let (a, o) = (self.args.len(), self.outputs.len());
        match buffer {
            b if b < a => match &self.args[b].kind {
                ArgKind::Real { shape, .. } | ArgKind::Ints { shape, .. } => Some(shape),
                _ => None,
            },
            b if b < a + o => Some(&self.outputs[b - a].shape),
            b => Some(&self.scratch[b - a - o].shape),
        }
    }

    /// The dtype of an integer array.
    pub(crate) fn integer(&self, buffer: usize) -> Option<DType> {
        match buffer.checked_sub(self.args.len()) {
            None => match self.args[buffer].kind {
                ArgKind::Ints { dtype, .. } => Some(dtype),
                _ => None,
            },
            Some(n) => self.outputs.iter().chain(&self.scratch).nth(n).and_then(|spec| spec.dtype),
        }
    }

    /// Whether the buffer is an output.
    pub(crate) fn is_output(&self, buffer: usize) -> bool {
        (self.args.len()..self.args.len() + self.outputs.len()).contains(&buffer)
    }
}

impl Step {
    /// Whether an array that the step writes can have derivatives.
    pub(crate) fn has_real_outputs(&self) -> bool {
        self.params().iter().any(|p| matches!(p.kind, ParamKind::Output { .. }))
    }

    /// Parameters.
    pub fn params(&self) -> &'static [Param] {
        match self.work {
            Work::Kernel(kernel) => kernel.params,
            Work::Linear(map) => map.params(),
        }
    }

    /// The kernel, where the step is one.
    pub fn kernel(&self) -> Option<&'static Kernel> {
        match self.work {
            Work::Kernel(kernel) => Some(kernel),
            Work::Linear(_) => None,
        }
    }

    /// Name of the kernel or linear map.
    pub(crate) fn name(&self) -> &'static str {
        match self.work {
            Work::Kernel(kernel) => kernel.name,
            Work::Linear(map) => map.name(),
        }
    }

    fn has(&self, buffer: usize, fits: impl Fn(&Param) -> bool) -> bool {
        self.params().iter().zip(&self.buffers).any(|(p, b)| *b == buffer && fits(p))
    }

    pub(super) fn writes(&self, buffer: usize) -> bool {
        self.has(buffer, Param::is_output)
    }

    /// Whether the step reads what an array holds before it runs.
    pub(super) fn reads(&self, buffer: usize) -> bool {
        self.has(buffer, |p| p.is_input() || p.in_out)
    }

    /// Whether the step reads an array and leaves it as it is.
    pub(super) fn keeps(&self, buffer: usize) -> bool {
        self.has(buffer, Param::is_input)
    }

    /// Whether the step copies an argument to the output of its name, for kernels that go on with it.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.work, Work::Linear(Linear::Copy))
    }
}
