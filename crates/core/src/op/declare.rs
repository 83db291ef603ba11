//! How an op is declared.

use super::Arg;
use super::fit::{check_kind, check_order};
use super::linear::Linear;
use super::size::Size;
use crate::array::DType;
use crate::runtime::{Kernel, Param, ParamKind, StructureKind};
use crate::structure::noun;
use crate::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArgKind {
    /// A differentiable array; all of an op's that are not stored have one dtype, f32 or f64.
    Real {
        /// Its shape.
        shape: Vec<Size>,
        /// Its value is zero in every call: only derivatives by it matter (the strain).
        zero: bool,
    },
    /// An i32 or i64 array, of numbers that an i32 has.
    Ints {
        /// Its shape.
        shape: Vec<Size>,
    },
    /// Which system each row belongs to: `(rows,)` sorted i32, and where each system begins, `(systems + 1,)`.
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
        /// What they are paired with.
        columns: String,
        /// The dimension of arrays that have an element per entry of the list, padding included.
        entries: Option<String>,
    },
    /// A grid of points that kernels query around rows: what is found, once for each call, they see as a pair list
    /// between the two.
    Grid {
        /// The rows that it is queried around.
        rows: String,
        /// Its points.
        columns: String,
        /// The argument with their positions, `(columns, 3)`: the same coordinates as the grid was built from.
        points: String,
        /// The dimension of arrays that have an element per pair that is found.
        entries: Option<String>,
    },
    /// An element of another dimension for each row: `(rows,)`, i32.
    Map {
        /// The rows.
        rows: String,
        /// The other dimension.
        into: String,
    },
    /// A periodic mesh with its spline order: sizes `(3,)` and order, static.
    Mesh {
        /// The systems, each with a mesh of its own.
        systems: String,
        /// Their nodes, one system after the other.
        nodes: String,
        /// The waves of their half spectra.
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

/// What an argument must satisfy beyond its type, checked at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// Finite and > 0.
    Positive,
    /// Finite.
    Finite,
    /// Cells: finite, |det| > 0.
    Cell,
    /// Pair lists: every pair from both sides.
    Full,
}

/// An argument.
#[derive(Clone, Debug, Serialize)]
pub struct ArgSpec {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub kind: ArgKind,
    /// What it must satisfy.
    pub constraint: Option<Constraint>,
    /// A real array whose dtype is f16, bf16, f32 or f64, whatever the others' is. Kernels compute in the dtype of the
    /// others; its directions and gradients have its own.
    pub stored: bool,
}

/// An output, or an array that lives during the call.
#[derive(Clone, Debug, Serialize)]
pub struct OutputSpec {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<Size>,
    /// The argument whose dtype it has; None: that of the real arguments that are not stored.
    pub stored_as: Option<String>,
    /// Its dtype where it holds integers.
    pub dtype: Option<DType>,
    /// Kept for the backward pass and hidden from the user.
    pub saved: bool,
}

impl OutputSpec {
    pub(super) fn new(name: &str, shape: Vec<Size>) -> Self {
        Self { name: name.into(), shape, stored_as: None, dtype: None, saved: false }
    }
}

/// What a step does.
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
    /// What it does.
    pub work: Work,
    /// For each parameter, the argument, output or scratch array it is: see [`Op::buffer_name`].
    pub buffers: Vec<usize>,
}

/// An op.
#[derive(Clone, Debug, Serialize)]
pub struct Op {
    /// Whose it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Rises when the declaration changes; a released one never does.
    pub version: u32,
    /// Its arguments.
    pub args: Vec<ArgSpec>,
    /// Its outputs.
    pub outputs: Vec<OutputSpec>,
    /// Arrays it needs during a call, from the caller's allocator. Derivatives need the same once more for each
    /// direction and for the cotangents.
    pub scratch: Vec<OutputSpec>,
    /// The arguments whose gradients a call of F₀ can save beside its values, so that the backward pass scales them:
    /// see [`OpBuilder::saved_gradients`].
    pub saved_gradients: Vec<String>,
    /// The members of its family that can be called.
    pub derivatives: [&'static str; 5],
    #[serde(skip)]
    pub(crate) steps: Vec<Step>,
    #[serde(skip)]
    pub(crate) explain: Option<Explain>,
}

/// Says why a result is not finite.
pub type Explain = fn(&[Arg<'_>]) -> Option<Error>;

/// Declares an op.
#[derive(Debug)]
pub struct OpBuilder {
    op: Op,
    steps: Vec<(Work, Vec<(String, String)>)>,
}

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
                steps: vec![],
                explain: None,
            },
            steps: vec![],
        }
    }

    /// `namespace::name.vN`
    pub fn full_name(&self) -> String {
        format!("{}::{}.v{}", self.namespace, self.name, self.version)
    }

    /// The position of an argument.
    pub fn arg(&self, name: &str) -> Option<usize> {
        self.args.iter().position(|a| a.name == name)
    }

    /// Whether there are derivatives by an argument.
    pub fn is_differentiable(&self, arg: usize) -> bool {
        matches!(self.args[arg].kind, ArgKind::Real { .. })
    }

    /// Its steps, in order.
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

    fn buffer(&self, name: &str) -> Option<usize> {
        (0..self.buffers()).find(|b| self.buffer_name(*b) == name)
    }

    /// The shape of an array buffer.
    pub(crate) fn shape_of(&self, buffer: usize) -> Option<&[Size]> {
        let (a, o) = (self.args.len(), self.outputs.len());
        match buffer {
            b if b < a => match &self.args[b].kind {
                ArgKind::Real { shape, .. } | ArgKind::Ints { shape } => Some(shape),
                _ => None,
            },
            b if b < a + o => Some(&self.outputs[b - a].shape),
            b => Some(&self.scratch[b - a - o].shape),
        }
    }

    /// The dtype of an integer array.
    pub(crate) fn integer(&self, buffer: usize) -> Option<DType> {
        match buffer.checked_sub(self.args.len()) {
            None => matches!(self.args[buffer].kind, ArgKind::Ints { .. }).then_some(DType::I32),
            Some(n) => self.outputs.iter().chain(&self.scratch).nth(n).and_then(|spec| spec.dtype),
        }
    }

    /// Whether the buffer is an output.
    pub(crate) fn is_output(&self, buffer: usize) -> bool {
        (self.args.len()..self.args.len() + self.outputs.len()).contains(&buffer)
    }
}

impl OpBuilder {
    fn add(mut self, name: &str, kind: ArgKind) -> Self {
        self.op.args.push(ArgSpec { name: name.into(), kind, constraint: None, stored: false });
        self
    }

    /// A differentiable array; sizes are numbers or names of dimensions.
    #[must_use]
    pub fn real(self, name: &str, shape: &[&str]) -> Self {
        self.add(name, ArgKind::Real { shape: sizes(shape), zero: false })
    }

    /// A differentiable array that is zero in every call.
    #[must_use]
    pub fn zero(self, name: &str, shape: &[&str]) -> Self {
        self.add(name, ArgKind::Real { shape: sizes(shape), zero: true })
    }

    /// An i32 array.
    #[must_use]
    pub fn ints(self, name: &str, shape: &[&str]) -> Self {
        self.add(name, ArgKind::Ints { shape: sizes(shape) })
    }

    /// A batch.
    #[must_use]
    pub fn batch(self, name: &str, rows: &str, systems: &str) -> Self {
        self.add(name, ArgKind::Batch { rows: rows.into(), systems: systems.into() })
    }

    /// A pair list between the rows of one dimension.
    #[must_use]
    pub fn pairs(self, name: &str, rows: &str) -> Self {
        self.add(name, ArgKind::Pairs { rows: rows.into(), columns: rows.into(), entries: None })
    }

    /// A pair list between two dimensions, and the dimension of arrays that have an element per pair.
    #[must_use]
    pub fn pairs_between(self, name: &str, rows: &str, columns: &str, entries: &str) -> Self {
        let (rows, columns, entries) = (rows.into(), columns.into(), Some(entries.into()));
        self.add(name, ArgKind::Pairs { rows, columns, entries })
    }

    /// A grid of points, `points` being the argument with their positions, that kernels over `rows` query. The systems
    /// of the rows are those of the op's batch over them; without one the grid has one system.
    #[must_use]
    pub fn grid(self, name: &str, rows: &str, columns: &str, points: &str) -> Self {
        let (rows, columns, points, entries) = (rows.into(), columns.into(), points.into(), None);
        self.add(name, ArgKind::Grid { rows, columns, points, entries })
    }

    /// The same, and the dimension of arrays that have an element per pair that is found: scratch arrays, or arguments
    /// of a caller who knows what will be.
    #[must_use]
    pub fn grid_with_entries(
        self,
        name: &str,
        [rows, columns]: [&str; 2],
        points: &str,
        entries: &str,
    ) -> Self {
        let (rows, columns, points) = (rows.into(), columns.into(), points.into());
        self.add(name, ArgKind::Grid { rows, columns, points, entries: Some(entries.into()) })
    }

    /// An element of another dimension for each row.
    #[must_use]
    pub fn map(self, name: &str, rows: &str, into: &str) -> Self {
        self.add(name, ArgKind::Map { rows: rows.into(), into: into.into() })
    }

    /// A periodic mesh for each system: its nodes and the waves of its half spectrum are dimensions of the op.
    #[must_use]
    pub fn mesh(self, name: &str, systems: &str, nodes: &str, waves: &str) -> Self {
        let (systems, nodes, waves) = (systems.into(), nodes.into(), waves.into());
        self.add(name, ArgKind::Mesh { systems, nodes, waves })
    }

    /// A real attribute.
    #[must_use]
    pub fn scalar(self, name: &str) -> Self {
        self.add(name, ArgKind::Scalar)
    }

    /// An integer attribute.
    #[must_use]
    pub fn int_scalar(self, name: &str) -> Self {
        self.add(name, ArgKind::IntScalar)
    }

    /// What the last argument must satisfy.
    #[must_use]
    pub fn must_be(mut self, constraint: Constraint) -> Self {
        if let Some(last) = self.op.args.last_mut() {
            last.constraint = Some(constraint);
        }
        self
    }

    /// The last argument may be stored in another dtype than the others: see [`ArgSpec::stored`].
    #[must_use]
    pub fn stored(mut self) -> Self {
        if let Some(last) = self.op.args.last_mut() {
            last.stored = true;
        }
        self
    }

    /// The last output has the dtype of a stored argument. It is rounded once, at the end of the call; what is beyond
    /// the dtype's range is an error.
    #[must_use]
    pub fn stored_as(mut self, arg: &str) -> Self {
        if let Some(last) = self.op.outputs.last_mut() {
            last.stored_as = Some(arg.into());
        }
        self
    }

    /// An output.
    #[must_use]
    pub fn output(mut self, name: &str, shape: &[&str]) -> Self {
        self.op.outputs.push(OutputSpec::new(name, sizes(shape)));
        self
    }

    /// An array that steps hand on to each other.
    #[must_use]
    pub fn scratch(mut self, name: &str, shape: &[&str]) -> Self {
        self.op.scratch.push(OutputSpec::new(name, sizes(shape)));
        self
    }

    /// An array that steps hand on to each other, and that a call of F₀ can hand on to the backward pass, which then
    /// does not compute it again. Users of the op do not see it.
    #[must_use]
    pub fn saved(mut self, name: &str, shape: &[&str]) -> Self {
        self.op.scratch.push(OutputSpec { saved: true, ..OutputSpec::new(name, sizes(shape)) });
        self
    }

    /// The gradients of the op's one output by these arguments can be saved by a call of F₀, which computes them with
    /// the values in one pass; a backward pass by no others then only scales them by each system's cotangent. The
    /// output has one number per system, the arguments have rows that belong to systems, and no array of the op joins
    /// systems.
    #[must_use]
    pub fn saved_gradients(mut self, args: &[&str]) -> Self {
        self.op.saved_gradients = args.iter().map(ToString::to_string).collect();
        self
    }

    /// An integer output, of kernels that are not differentiated.
    #[must_use]
    pub fn integer_output(mut self, name: &str, shape: &[&str], dtype: DType) -> Self {
        self.op.outputs.push(OutputSpec { dtype: Some(dtype), ..OutputSpec::new(name, sizes(shape)) });
        self
    }

    /// An integer array that such steps hand on.
    #[must_use]
    pub fn integer_scratch(mut self, name: &str, shape: &[&str], dtype: DType) -> Self {
        self.op.scratch.push(OutputSpec { dtype: Some(dtype), ..OutputSpec::new(name, sizes(shape)) });
        self
    }

    /// A kernel, its parameters bound to the buffers of the same name.
    #[must_use]
    pub fn step(self, kernel: &'static Kernel) -> Self {
        self.step_as(kernel, &[])
    }

    /// A kernel, some of whose parameters are bound to buffers of another name: `(parameter, buffer)`.
    #[must_use]
    pub fn step_as(mut self, kernel: &'static Kernel, names: &[(&str, &str)]) -> Self {
        let names = names.iter().map(|(p, b)| ((*p).to_string(), (*b).to_string())).collect();
        self.steps.push((Work::Kernel(kernel), names));
        self
    }

    /// A linear map, its parameters bound to buffers in their order: see [`Linear`]. What is not given is bound to the
    /// buffer of the parameter's name.
    #[must_use]
    pub fn linear(mut self, map: Linear, buffers: &[&str]) -> Self {
        let params = map.params().iter().map(|p| p.name).chain(std::iter::repeat("beyond the last"));
        let names = params.zip(buffers).map(|(p, b)| (p.into(), (*b).into())).collect();
        self.steps.push((Work::Linear(map), names));
        self
    }

    /// Names who can say why a result is not finite, beyond an input that is not.
    #[must_use]
    pub fn explain(mut self, explain: Explain) -> Self {
        self.op.explain = Some(explain);
        self
    }

    /// Checks the declaration against its kernels.
    pub fn build(self) -> Result<Arc<Op>> {
        let Self { mut op, steps } = self;
        for (work, names) in steps {
            let mut dims = BTreeMap::new();
            let mut step = Step { work, buffers: vec![] };
            if let Some((stray, buffer)) =
                names.iter().find(|(n, _)| step.params().iter().all(|p| p.name != n))
            {
                let expected = step.params().iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
                let name = format!("{}::{}", op.full_name(), step.name());
                return Err(Error::argument(
                    name,
                    format!("the parameters {expected}"),
                    format!("{stray} ({buffer})"),
                ));
            }
            for param in step.params() {
                let name =
                    names.iter().find(|(p, _)| p == param.name).map_or(param.name, |(_, b)| b.as_str());
                let at = op.buffer(name).ok_or_else(|| {
                    let expected = format!("an argument, output or scratch array of {}", op.full_name());
                    Error::argument(format!("{}::{}", step.name(), param.name), expected, format!("`{name}`"))
                })?;
                if let Work::Kernel(kernel) = work {
                    check_kind(&op, kernel, param.name, param.kind, at, &mut dims)?;
                }
                step.buffers.push(at);
            }
            if let Work::Linear(map) = work {
                map.check(&op, &step.buffers)?;
            }
            check_order(&op, &step)?;
            if let Work::Kernel(kernel) = work {
                op.check_queries(kernel, &step)?;
            }
            op.steps.push(step);
        }
        let written = |b: usize| op.steps.iter().any(|s| s.writes(b));
        if let Some(b) = (op.args.len()..op.buffers()).find(|b| !written(*b)) {
            return Err(Error::argument(
                op.buffer_name(b),
                "an array that some step writes",
                "one that none does",
            ));
        }
        if let Some(b) = (0..op.buffers()).find(|b| op.buffer(op.buffer_name(*b)) != Some(*b)) {
            return Err(Error::argument(
                op.buffer_name(b),
                "a name of its own",
                "one that another buffer has",
            ));
        }
        op.check_stored()?;
        op.check_grids()?;
        op.check_saved_gradients()?;
        Ok(Arc::new(op))
    }
}

impl Step {
    /// Whether something that it writes can have derivatives.
    pub(crate) fn has_real_outputs(&self) -> bool {
        self.params().iter().any(|p| matches!(p.kind, ParamKind::Output { .. }))
    }

    /// Its parameters.
    pub fn params(&self) -> &'static [Param] {
        match self.work {
            Work::Kernel(kernel) => kernel.params,
            Work::Linear(map) => map.params(),
        }
    }

    /// Its kernel, where it has one.
    pub fn kernel(&self) -> Option<&'static Kernel> {
        match self.work {
            Work::Kernel(kernel) => Some(kernel),
            Work::Linear(_) => None,
        }
    }

    /// The name of its kernel or map.
    pub(crate) fn name(&self) -> &'static str {
        match self.work {
            Work::Kernel(kernel) => kernel.name,
            Work::Linear(map) => map.name(),
        }
    }

    fn uses(&self, buffer: usize, output: bool) -> bool {
        self.params().iter().zip(&self.buffers).any(|(p, b)| match p.kind {
            ParamKind::Output { .. } | ParamKind::Integers { output: true, .. } => output && *b == buffer,
            ParamKind::Real { .. } | ParamKind::Ints { .. } | ParamKind::Integers { .. } => {
                !output && *b == buffer
            }
            _ => false,
        })
    }

    pub(super) fn writes(&self, buffer: usize) -> bool {
        self.uses(buffer, true)
    }

    pub(super) fn reads(&self, buffer: usize) -> bool {
        self.uses(buffer, false)
    }
}

fn sizes(shape: &[&str]) -> Vec<Size> {
    shape.iter().map(|s| Size::parse(s)).collect()
}
