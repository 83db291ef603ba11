//! How an op is declared.

use super::Arg;
use super::size::Size;
use crate::backend::kernel::{Kernel, ParamKind};
use crate::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArgKind {
    /// A differentiable array; all of an op's have one dtype, f32 or f64.
    Real {
        /// Its shape.
        shape: Vec<Size>,
        /// Its value is zero in every call: only derivatives by it matter (the strain).
        zero: bool,
    },
    /// An i32 array.
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
    /// A pair list between rows: starts and ends `(rows,)`, columns `(P,)`, shifts `(P, 3)`, all i32.
    Pairs {
        /// The rows.
        rows: String,
    },
    /// A real attribute.
    Scalar,
    /// An integer attribute.
    IntScalar,
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
}

/// An output, or an array that lives during the call.
#[derive(Clone, Debug, Serialize)]
pub struct OutputSpec {
    /// Its name.
    pub name: String,
    /// Its shape; its dtype is that of the real arguments.
    pub shape: Vec<Size>,
    /// Kept for the backward pass and hidden from the user.
    pub saved: bool,
}

/// A kernel of an op, its parameters bound to buffers.
#[derive(Clone, Debug)]
pub struct Step {
    /// The kernel.
    pub kernel: &'static Kernel,
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
    steps: Vec<(&'static Kernel, Vec<(String, String)>)>,
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

    /// The kernels, in order.
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

    /// Whether the buffer is an output.
    pub(crate) fn is_output(&self, buffer: usize) -> bool {
        (self.args.len()..self.args.len() + self.outputs.len()).contains(&buffer)
    }
}

impl OpBuilder {
    fn add(mut self, name: &str, kind: ArgKind) -> Self {
        self.op.args.push(ArgSpec { name: name.into(), kind, constraint: None });
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

    /// A pair list.
    #[must_use]
    pub fn pairs(self, name: &str, rows: &str) -> Self {
        self.add(name, ArgKind::Pairs { rows: rows.into() })
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

    /// An output.
    #[must_use]
    pub fn output(mut self, name: &str, shape: &[&str]) -> Self {
        self.op.outputs.push(OutputSpec { name: name.into(), shape: sizes(shape), saved: false });
        self
    }

    /// An array that steps hand on to each other.
    #[must_use]
    pub fn scratch(mut self, name: &str, shape: &[&str]) -> Self {
        self.op.scratch.push(OutputSpec { name: name.into(), shape: sizes(shape), saved: false });
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
        self.steps.push((kernel, names));
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
        for (kernel, names) in steps {
            let mut dims = BTreeMap::new();
            let mut buffers = vec![];
            for param in kernel.params {
                let name =
                    names.iter().find(|(p, _)| p == param.name).map_or(param.name, |(_, b)| b.as_str());
                let at = op.buffer(name).ok_or_else(|| {
                    let expected = format!("an argument, output or scratch array of {}", op.full_name());
                    Error::argument(format!("{}::{}", kernel.name, param.name), expected, format!("`{name}`"))
                })?;
                check_kind(&op, kernel, param.name, param.kind, at, &mut dims)?;
                buffers.push(at);
            }
            check_order(&op, kernel, &buffers)?;
            op.steps.push(Step { kernel, buffers });
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
        Ok(Arc::new(op))
    }
}

impl Step {
    fn uses(&self, buffer: usize, output: bool) -> bool {
        self.kernel.params.iter().zip(&self.buffers).any(|(p, b)| match p.kind {
            ParamKind::Output { .. } => output && *b == buffer,
            ParamKind::Real { .. } => !output && *b == buffer,
            _ => false,
        })
    }

    fn writes(&self, buffer: usize) -> bool {
        self.uses(buffer, true)
    }

    fn reads(&self, buffer: usize) -> bool {
        self.uses(buffer, false)
    }
}

/// An array is whole before it is read, and outputs are not read: the backward pass finds every value as the forward
/// pass used it.
fn check_order(op: &Op, kernel: &'static Kernel, buffers: &[usize]) -> Result<()> {
    let step = Step { kernel, buffers: buffers.to_vec() };
    let wrong = |b: usize, expected: &str, got: &str| {
        Err(Error::argument(
            format!("{}::{}::{}", op.full_name(), kernel.name, op.buffer_name(b)),
            expected,
            got,
        ))
    };
    for (n, b) in buffers.iter().enumerate() {
        let output = matches!(kernel.params[n].kind, ParamKind::Output { .. });
        if output && (step.reads(*b) || buffers[..n].contains(b)) {
            return wrong(*b, "one parameter that writes it, and none that reads it", "several");
        }
        if output && op.steps.iter().any(|s| s.reads(*b)) {
            return wrong(
                *b,
                "an array that no earlier step has read",
                "one that was read before it was whole",
            );
        }
        if step.reads(*b) && op.is_output(*b) {
            return wrong(
                *b,
                "an argument or scratch array to read from",
                "an output (hand on a scratch array)",
            );
        }
        if step.reads(*b) && *b >= op.args.len() && !op.steps.iter().any(|s| s.writes(*b)) {
            return wrong(*b, "an array that an earlier step wrote", "one that none has");
        }
    }
    Ok(())
}

fn sizes(shape: &[&str]) -> Vec<Size> {
    shape.iter().map(|s| Size::parse(s)).collect()
}

/// A parameter fits its buffer, and the kernel's dimensions mean the same in all of them.
fn check_kind(
    op: &Op,
    kernel: &Kernel,
    param: &str,
    kind: ParamKind,
    at: usize,
    dims: &mut BTreeMap<usize, Size>,
) -> Result<()> {
    let wrong = |expected: String| {
        let got = match op.args.get(at) {
            Some(a) => format!("{:?}", a.kind),
            None => format!("an array {:?}", op.shape_of(at)),
        };
        Err(Error::argument(format!("{}::{}::{param}", op.full_name(), kernel.name), expected, got))
    };
    let mut same = |dim: usize, size: &Size| dims.entry(dim).or_insert_with(|| size.clone()) == size;
    let components_of = |shape: &[Size]| {
        shape.iter().try_fold(1, |n, s| if let Size::Const(c) = s { Some(n * c) } else { None })
    };
    let is_arg = at < op.args.len();
    let arg = op.args.get(at).map(|a| &a.kind);
    match kind {
        ParamKind::Real { dim, components, .. } | ParamKind::Output { dim, components } => {
            let output = matches!(kind, ParamKind::Output { .. });
            let zero = matches!(kind, ParamKind::Real { zero: true, .. });
            if is_arg && (output || !matches!(arg, Some(ArgKind::Real { zero: z, .. }) if *z == zero)) {
                return wrong(format!("a real array, zero: {zero}, output: {output}"));
            }
            let shape = op.shape_of(at).unwrap_or(&[]);
            let (rows, rest) = match dim {
                Some(_) => shape.split_first().map_or((None, shape), |(r, rest)| (Some(r), rest)),
                None => (None, shape),
            };
            let rows_fit = match (dim, rows) {
                (Some(d), Some(r)) => same(d, r),
                (None, None) => true,
                _ => false,
            };
            if !rows_fit || components_of(rest) != Some(components) {
                return wrong(format!(
                    "{components} components per row of {:?}",
                    dim.map(|d| kernel.dims[d])
                ));
            }
        }
        ParamKind::Ints { dim, components } => match arg {
            Some(ArgKind::Ints { shape })
                if shape.first().is_some_and(|r| same(dim, r))
                    && components_of(&shape[1..]) == Some(components) => {}
            _ => return wrong(format!("{components} integers per row of {}", kernel.dims[dim])),
        },
        ParamKind::Batch { rows, systems } => match arg {
            Some(ArgKind::Batch { rows: r, systems: s })
                if same(rows, &Size::Dim(r.clone())) && same(systems, &Size::Dim(s.clone())) => {}
            _ => return wrong(format!("a batch of {} in {}", kernel.dims[rows], kernel.dims[systems])),
        },
        ParamKind::Pairs(rows) => match arg {
            Some(ArgKind::Pairs { rows: r }) if same(rows, &Size::Dim(r.clone())) => {}
            _ => return wrong(format!("pairs of {}", kernel.dims[rows])),
        },
        ParamKind::Scalar if matches!(arg, Some(ArgKind::Scalar)) => {}
        ParamKind::IntScalar if matches!(arg, Some(ArgKind::IntScalar)) => {}
        ParamKind::Scalar | ParamKind::IntScalar => return wrong("an attribute".into()),
    }
    Ok(())
}
