//! The op of a kernel alone.

use madelung_core::array::DType;
use madelung_core::op::{Op, OpBuilder};
use madelung_core::runtime::{Kernel, ParamKind};
use madelung_core::{Error, Result};
use std::sync::Arc;

/// An op of one kernel, each of whose parameters is an argument or an output of the same name. Grids stand over the
/// positions that `points` gives for each.
///
/// # Errors
/// What an op cannot declare.
pub fn op_of(
    builder: OpBuilder,
    kernel: &'static Kernel,
    points: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<Op>> {
    let dim = |d: usize| kernel.dims[d];
    let shape = |d: Option<usize>, components: usize, width: Option<usize>| -> Vec<&'static str> {
        let of_element: &[&str] = match components {
            3 => &["3"],
            9 => &["3", "3"],
            _ => &[],
        };
        d.into_iter().chain(width).map(dim).chain(of_element.iter().copied()).collect()
    };
    let mut op = builder;
    for (n, p) in kernel.params.iter().enumerate() {
        op = match p.kind {
            ParamKind::Real { dim, components, zero: false, width } => {
                op.real(p.name, &shape(dim, components, width))
            }
            ParamKind::Real { dim, components, zero: true, width } => {
                op.zero(p.name, &shape(dim, components, width))
            }
            ParamKind::Output { dim, components, width } => op.output(p.name, &shape(dim, components, width)),
            ParamKind::Ints { dim, components } => op.ints(p.name, &shape(Some(dim), components, None)),
            ParamKind::Integers { dim, components, wide, output: true } => {
                let dtype = if wide { DType::I64 } else { DType::I32 };
                op.integer_output(p.name, &shape(dim, components, None), dtype)
            }
            ParamKind::Integers { dim, components, wide: false, output: false } => {
                op.ints(p.name, &shape(dim, components, None))
            }
            ParamKind::Integers { wide: true, output: false, .. } => {
                let text = format!("`{}`: an op takes integers of 32 bits, not of 64", p.name);
                return Err(Error::Unsupported(text));
            }
            ParamKind::Scalar => op.scalar(p.name),
            ParamKind::IntScalar => op.int_scalar(p.name),
            ParamKind::Batch { rows, systems } => op.batch(p.name, dim(rows), dim(systems)),
            ParamKind::Pairs { rows, columns, entries } if kernel.query_of(n).is_some() => {
                let points = points(p.name).unwrap_or_default();
                match entries {
                    None => op.grid(p.name, dim(rows), dim(columns), &points),
                    Some(e) => op.grid_with_entries(p.name, [dim(rows), dim(columns)], &points, dim(e)),
                }
            }
            ParamKind::Pairs { rows, columns, entries: Some(e) } => {
                op.pairs_between(p.name, dim(rows), dim(columns), dim(e))
            }
            ParamKind::Pairs { rows, columns, entries: None } if rows != columns => {
                op.pairs_between(p.name, dim(rows), dim(columns), &format!("{}Pair", p.name))
            }
            ParamKind::Pairs { rows, .. } => op.pairs(p.name, dim(rows)),
            ParamKind::Map { rows, into } => op.map(p.name, dim(rows), dim(into)),
            ParamKind::Mesh { systems, nodes, waves } => {
                let unnamed = format!("{}Wave", p.name);
                op.mesh(p.name, dim(systems), dim(nodes), waves.map_or(&unnamed, |w| dim(w)))
            }
        };
    }
    op.step(kernel).build()
}
