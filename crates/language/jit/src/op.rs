//! Ops from the declarations of kernels.

use madelung_core::array::DType;
use madelung_core::op::{Constraint, Explain, Op, OpBuilder};
use madelung_core::runtime::{Kernel, Param, ParamKind};
use madelung_core::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Properties of an op that its kernels do not declare.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// Arrays that one kernel writes and later ones read: neither arguments nor outputs.
    pub scratch: Vec<String>,
    /// Scratch arrays that a call can save for its backward pass.
    pub saved: Vec<String>,
    /// For each grid the argument with the positions of its points.
    pub points: Vec<(String, String)>,
    /// Conditions on arguments.
    pub constraints: Vec<(String, Constraint)>,
    /// The name in errors of calls; None: the op's own.
    pub label: Option<String>,
    /// An explanation of results that are not finite.
    pub explain: Option<Explain>,
}

impl Declaration {
    /// An op whose steps are these kernels. Their parameters are its arguments and outputs, in the order in which they first
    /// stand; those of one name are one array. An in-out array that no earlier kernel writes is an argument and an output.
    ///
    /// # Errors
    /// What an op cannot declare, with the name of the argument.
    pub fn op(
        &self,
        (namespace, name, version): (&str, &str, u32),
        kernels: &[&'static Kernel],
    ) -> Result<Arc<Op>> {
        let mut op = Op::new(namespace, name, version);
        let (mut known, mut written) = (BTreeSet::new(), BTreeSet::new());
        for kernel in kernels {
            for (n, p) in kernel.params.iter().enumerate() {
                let (is_new, is_first) = (known.insert(p.name), p.is_output() && written.insert(p.name));
                let is_inner = || self.scratch.iter().chain(&self.saved).any(|name| name == p.name);
                if is_new && p.in_out && !is_inner() {
                    op = self.parameter(op, kernel, (n, &argument(p)))?;
                }
                // An earlier kernel may have read the argument of an in-out array.
                if is_new || (is_first && p.in_out) {
                    op = self.parameter(op, kernel, (n, p))?;
                }
                if !is_new {
                    continue;
                }
                if let Some((_, constraint)) = self.constraints.iter().find(|(name, _)| name == p.name) {
                    op = op.must_be(*constraint);
                }
            }
        }
        for dim in free(kernels) {
            op = op.int_scalar(dim);
        }
        let mut named = self.scratch.iter().chain(&self.saved).chain(self.constraints.iter().map(|(n, _)| n));
        if let Some(name) = named.find(|name| !known.contains(name.as_str())) {
            return Err(Error::argument(name, "a parameter of one of the kernels", "a name that none has"));
        }
        if let Some(label) = &self.label {
            op = op.label(label);
        }
        if let Some(explain) = self.explain {
            op = op.explain(explain);
        }
        kernels.iter().fold(op, |op, kernel| op.step(kernel)).build()
    }

    fn parameter(
        &self,
        op: OpBuilder,
        kernel: &'static Kernel,
        (n, p): (usize, &Param),
    ) -> Result<OpBuilder> {
        let dim = |d: usize| kernel.dims[d];
        let shape = |d: Option<usize>, width: Option<usize>| -> Vec<&'static str> {
            d.into_iter().chain(width).map(dim).chain(p.axes.iter().copied()).collect()
        };
        let is = |of: &[String]| of.iter().any(|name| name == p.name);
        Ok(match p.kind {
            ParamKind::Real { dim, zero: false, width, .. } => op.real(p.name, &shape(dim, width)),
            ParamKind::Real { dim, zero: true, width, .. } => op.zero(p.name, &shape(dim, width)),
            ParamKind::Output { dim, width, .. } => {
                let shape = shape(dim, width);
                match (is(&self.saved), is(&self.scratch)) {
                    (true, _) => op.saved(p.name, &shape),
                    (false, true) => op.scratch(p.name, &shape),
                    (false, false) => op.output(p.name, &shape),
                }
            }
            ParamKind::Ints { dim, .. } => op.ints(p.name, &shape(Some(dim), None)),
            ParamKind::Integers { dim, wide, output, .. } => {
                let (shape, dtype) = (shape(dim, None), if wide { DType::I64 } else { DType::I32 });
                match (output, is(&self.scratch)) {
                    (false, _) => op.integers(p.name, &shape, dtype),
                    (true, true) => op.integer_scratch(p.name, &shape, dtype),
                    (true, false) => op.integer_output(p.name, &shape, dtype),
                }
            }
            ParamKind::Scalar => op.scalar(p.name),
            ParamKind::IntScalar => op.int_scalar(p.name),
            ParamKind::Batch { rows, systems } => op.batch(p.name, dim(rows), dim(systems)),
            ParamKind::Pairs { rows, columns, entries } if kernel.query_of(n).is_some() => {
                let points = self.points.iter().find(|(grid, _)| grid == p.name).map(|(_, points)| points);
                let points = points.ok_or_else(|| {
                    Error::argument(p.name, "the argument with the positions of its points", "none")
                })?;
                match entries {
                    None => op.grid(p.name, dim(rows), dim(columns), points),
                    Some(e) => op.grid_with_entries(p.name, [dim(rows), dim(columns)], points, dim(e)),
                }
            }
            ParamKind::Pairs { rows, columns, entries: None } if rows == columns => {
                op.pairs(p.name, dim(rows))
            }
            ParamKind::Pairs { rows, columns, entries } => {
                let unnamed = format!("{}_entry", p.name);
                op.pairs_between(p.name, dim(rows), dim(columns), entries.map_or(&unnamed, |e| dim(e)))
            }
            ParamKind::Map { rows, into } => op.map(p.name, dim(rows), dim(into)),
            ParamKind::Mesh { systems, nodes, waves } => {
                let unnamed = format!("{}_wave", p.name);
                op.mesh(p.name, dim(systems), dim(nodes), waves.map_or(&unnamed, |w| dim(w)))
            }
        })
    }
}

/// The dimensions of written arrays, and of rows, that no argument has: arguments of their names are their sizes.
fn free(kernels: &[&'static Kernel]) -> BTreeSet<&'static str> {
    let (mut needed, mut known) = (BTreeSet::new(), BTreeSet::new());
    for kernel in kernels {
        let names = |dims: &[Option<usize>]| -> Vec<&'static str> {
            dims.iter().flatten().map(|dim| kernel.dims[*dim]).collect()
        };
        needed.insert(kernel.dims[kernel.index]);
        for p in kernel.params {
            match p.kind {
                ParamKind::Output { dim, width, .. } if !p.in_out => needed.extend(names(&[dim, width])),
                ParamKind::Integers { dim, output: true, .. } if !p.in_out => needed.extend(names(&[dim])),
                ParamKind::Real { dim, width, zero: false, .. } | ParamKind::Output { dim, width, .. } => {
                    known.extend(names(&[dim, width]));
                }
                ParamKind::Ints { dim, .. } => known.extend(names(&[Some(dim)])),
                ParamKind::Integers { dim, .. } => known.extend(names(&[dim])),
                ParamKind::IntScalar => {
                    known.insert(p.name);
                }
                kind => {
                    let of_structure = kind.structure().map(|(_, dims)| dims);
                    known.extend(names(&of_structure.unwrap_or([None; 3])));
                }
            }
        }
    }
    needed.difference(&known).copied().collect()
}

/// The argument that an in-out parameter begins as.
fn argument(p: &Param) -> Param {
    let kind = match p.kind {
        ParamKind::Output { dim, components, width } => {
            ParamKind::Real { dim, components, zero: false, width }
        }
        ParamKind::Integers { dim, components, wide, .. } => {
            ParamKind::Integers { dim, components, wide, output: false }
        }
        kind => kind,
    };
    Param { kind, in_out: false, ..*p }
}
