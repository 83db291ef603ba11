//! Builder of ops.

use super::declare::{
    ArgKind, ArgSpec, Constraint, Explain, Op, OutputSpec, Search, Step, Work, forward_order,
};
use super::far::Lattice;
use super::linear::Linear;
use super::quadratic::Quadratic;
use super::size::Size;
use super::sorted::{MakeGrid, Searching};
use super::validate::{check_kind, check_order};
use crate::array::DType;
use crate::runtime::Kernel;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Declares an op.
#[derive(Debug)]
pub struct OpBuilder {
    pub(super) op: Op,
    pub(super) steps: Vec<(Work, Vec<(String, String)>)>,
    pub(super) lattice: Option<[String; 3]>,
    pub(super) searching: Option<([String; 2], MakeGrid)>,
}

impl OpBuilder {
    fn add(mut self, name: &str, kind: ArgKind) -> Self {
        let (constraint, stored, negated, geometry) = (None, false, false, false);
        self.op.args.push(ArgSpec {
            name: name.into(),
            kind,
            constraint,
            stored,
            negated,
            geometry,
            clusters: None,
        });
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
        self.integers(name, shape, DType::I32)
    }

    /// An array of i32 or i64.
    #[must_use]
    pub fn integers(self, name: &str, shape: &[&str], dtype: DType) -> Self {
        self.add(name, ArgKind::Ints { shape: sizes(shape), dtype })
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

    /// A grid as for [`OpBuilder::grid`], and the dimension of arrays with an element for each pair that is found: scratch
    /// arrays, or arguments of a caller who knows how many pairs there will be.
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

    /// Grid that calls make for themselves, the last argument, which callers do not pass: `points` is the argument with its
    /// positions, `orders` are those (rows,) and (columns,) of integers with the place in its system of each row and of each
    /// point, in an order in space. Pairs are searched for while kernels run, and never kept; on a device calls have a list.
    #[must_use]
    pub fn searched(
        mut self,
        name: &str,
        [rows, columns]: [&str; 2],
        points: &str,
        orders: [&str; 2],
        make: MakeGrid,
    ) -> Self {
        self.searching = Some((orders.map(String::from), make));
        self.grid(name, rows, columns, points)
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

    /// Condition on the last argument.
    #[must_use]
    pub fn must_be(mut self, constraint: Constraint) -> Self {
        if let Some(last) = self.op.args.last_mut() {
            last.constraint = Some(constraint);
        }
        self
    }

    /// The last argument is geometry: see [`ArgSpec::geometry`].
    #[must_use]
    pub fn geometry(mut self) -> Self {
        if let Some(last) = self.op.args.last_mut() {
            last.geometry = true;
        }
        self
    }

    /// The last argument is geometry whose negative gradient is a force or a virial: see [`ArgSpec::negated`].
    #[must_use]
    pub fn force(mut self) -> Self {
        if let Some(last) = self.op.args.last_mut() {
            last.negated = true;
        }
        self.geometry()
    }

    /// Arguments by whose lattice translations pairs' images are meant, so that an atom may be moved by a lattice vector
    /// which its list takes up: positions (N, 3), cells (B, 3, 3), and the systems of the atoms. In f32, calls move atoms
    /// that lie far outside their cells.
    #[must_use]
    pub fn lattice(mut self, positions: &str, cell: &str, batch: &str) -> Self {
        self.lattice = Some([positions, cell, batch].map(String::from));
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

    /// The last output has the dtype of a stored argument. Its numbers are rounded once, at the end of the call; a number
    /// beyond the dtype's range is an error.
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

    /// A scratch array: one step writes it, later ones read it.
    #[must_use]
    pub fn scratch(mut self, name: &str, shape: &[&str]) -> Self {
        self.op.scratch.push(OutputSpec::new(name, sizes(shape)));
        self
    }

    /// A scratch array that a call of F₀ can save for the backward pass, which then does not compute it again; hidden from
    /// users of the op.
    #[must_use]
    pub fn saved(mut self, name: &str, shape: &[&str]) -> Self {
        self.op.scratch.push(OutputSpec { saved: true, ..OutputSpec::new(name, sizes(shape)) });
        self
    }

    /// Gradients of the op's one output by these arguments, which a call of F₀ can save: it computes them with the values in
    /// one pass, and a backward pass by no other arguments only scales them by each system's cotangent. The output has one
    /// number per system, rows of the arguments belong to systems, and no array of the op joins systems.
    #[must_use]
    pub fn saved_gradients(mut self, args: &[&str]) -> Self {
        self.op.saved_gradients = args.iter().map(ToString::to_string).collect();
        self
    }

    /// The op `sum` is the sum of the rows, a form of second degree in the argument `of` whose row i is ½ ofᵢ ∂sum/∂ofᵢ: one
    /// gradient of it gives values, and first gradients by one number for all rows, where the op's own steps give the rest.
    #[must_use]
    pub fn rows_of(mut self, of: &str, sum: &Arc<Op>) -> Self {
        self.op.quadratic = Some(Quadratic { of: of.into(), sum: Arc::clone(sum) });
        self
    }

    /// An integer output, of kernels that are not differentiated or of a search. Sizes may also be sums (`Atom+1`) and
    /// integer attributes, which are capacities.
    #[must_use]
    pub fn integer_output(mut self, name: &str, shape: &[&str], dtype: DType) -> Self {
        let mut shape = sizes(shape);
        for size in &mut shape {
            if let Size::Dim(name) = size
                && self.op.args.iter().any(|arg| arg.name == *name && arg.kind == ArgKind::IntScalar)
            {
                *size = Size::Attr(std::mem::take(name));
            }
        }
        self.op.outputs.push(OutputSpec { dtype: Some(dtype), ..OutputSpec::new(name, shape) });
        self
    }

    /// An integer scratch array, of kernels that are not differentiated.
    #[must_use]
    pub fn integer_scratch(mut self, name: &str, shape: &[&str], dtype: DType) -> Self {
        self.op.scratch.push(OutputSpec { dtype: Some(dtype), ..OutputSpec::new(name, sizes(shape)) });
        self
    }

    /// A kernel, each of its parameters bound to the buffer of its name. An in-out parameter is bound to an output or scratch
    /// array: it finds there what an earlier step left, or else what the argument of the same name holds.
    #[must_use]
    pub fn step(self, kernel: &'static Kernel) -> Self {
        self.step_as(kernel, &[])
    }

    /// A kernel, some of whose parameters are bound to buffers of another name: `(parameter, buffer)`.
    #[must_use]
    pub fn step_as(mut self, kernel: &'static Kernel, names: &[(&str, &str)]) -> Self {
        let names = names.iter().map(|(p, b)| ((*p).to_string(), (*b).to_string())).collect();
        self.op.computes_indices |= !kernel.is_differentiable();
        self.steps.push((Work::Kernel(kernel), names));
        self
    }

    /// A linear map, its parameters bound to buffers in their order: see [`Linear`]. Parameters beyond the given buffers are
    /// bound to the buffers of their names.
    #[must_use]
    pub fn linear(mut self, map: Linear, buffers: &[&str]) -> Self {
        let params = map.params().iter().map(|p| p.name).chain(std::iter::repeat("beyond the last"));
        let names = params.zip(buffers).map(|(p, b)| (p.into(), (*b).into())).collect();
        self.steps.push((Work::Linear(map), names));
        self
    }

    /// A name for errors of calls in place of the full one.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.op.label = Some(label.into());
        self
    }

    /// A function that finds in the arguments what a kernel has raised.
    #[must_use]
    pub fn explain_raised(mut self, explain: Explain) -> Self {
        self.op.explain_raised = Some(explain);
        self
    }

    /// A function that explains results that are not finite where all inputs are.
    #[must_use]
    pub fn explain(mut self, explain: Explain) -> Self {
        self.op.explain = Some(explain);
        self
    }

    /// A search in the place of steps.
    #[must_use]
    pub fn search(mut self, search: Search) -> Self {
        self.op.search = Some(search);
        self
    }

    /// The op, its declaration checked against its kernels.
    pub fn build(self) -> Result<Arc<Op>> {
        let Self { mut op, steps, lattice, searching } = self;
        let at = |op: &Op, name: &String| {
            op.arg(name).ok_or_else(|| Error::argument(name, "an argument of the op", "none of this name"))
        };
        if let Some(names) = lattice {
            let [positions, cell, batch] = [at(&op, &names[0])?, at(&op, &names[1])?, at(&op, &names[2])?];
            op.lattice = Some(Lattice { positions, cell, batch });
        }
        if let Some((names, make)) = searching {
            let orders = [at(&op, &names[0])?, at(&op, &names[1])?];
            op.searching = Some(Searching { orders, make });
        }
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
                let at = op.buffer_for(name, param).ok_or_else(|| {
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
            let params = step.params().iter().zip(&step.buffers);
            for at in params.filter(|(param, _)| param.in_out).map(|(_, at)| *at) {
                if let Some(arg) = op.arg(op.buffer_name(at))
                    && !op.steps.iter().any(|s| s.writes(at))
                {
                    if step.buffers.contains(&arg) {
                        let name = format!("{}::{}::{}", op.full_name(), step.name(), op.buffer_name(at));
                        return Err(Error::argument(
                            name,
                            "the one parameter of this array",
                            "another that reads it",
                        ));
                    }
                    let copy = Step { work: Work::Linear(Linear::Copy), buffers: vec![arg, at] };
                    Linear::Copy.check(&op, &copy.buffers)?;
                    op.steps.push(copy);
                }
            }
            check_order(&op, &step)?;
            if let Work::Kernel(kernel) = work {
                op.check_queries(kernel, &step)?;
            }
            op.steps.push(step);
        }
        let written = |b: usize| op.steps.iter().any(|s| s.writes(b));
        if let (None, Some(b)) = (op.search, (op.args.len()..op.buffers()).find(|b| !written(*b))) {
            return Err(Error::argument(
                op.buffer_name(b),
                "an array that some step writes",
                "one that none does",
            ));
        }
        let copied = |b: usize| op.steps.iter().any(|s| s.is_copy() && s.writes(b));
        let is_named = |b: usize| op.buffer(op.buffer_name(b)) == Some(b) || copied(b);
        if let Some(b) = (0..op.buffers()).find(|b| !is_named(*b)) {
            return Err(Error::argument(
                op.buffer_name(b),
                "a name of its own",
                "one that another buffer has",
            ));
        }
        op.forward = forward_order(&op.steps);
        op.check_stored()?;
        op.check_grids()?;
        op.check_saved_gradients()?;
        op.check_quadratic()?;
        for n in (0..op.args.len())
            .filter(|n| matches!(op.args[*n].kind, ArgKind::Pairs { .. }))
            .collect::<Vec<_>>()
        {
            let left = op.left_to_rows(n).map(|left| left.into_iter().map(String::from).collect());
            op.args[n].clusters = left;
        }
        Ok(Arc::new(op))
    }
}

fn sizes(shape: &[&str]) -> Vec<Size> {
    shape.iter().map(|s| Size::parse(s)).collect()
}
