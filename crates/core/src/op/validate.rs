//! Validation of a declaration against its kernels.

use super::declare::{ArgKind, Op, Step};
use super::size::Size;
use crate::array::DType;
use crate::runtime::{Kernel, ParamKind};
use crate::structure::noun;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Order of the steps: an array is whole before it is read, and outputs are not read, so that the backward pass finds every
/// value as the forward pass used it. Only in-out parameters go on with what is there: they have no backward pass.
pub(super) fn check_order(op: &Op, step: &Step) -> Result<()> {
    let buffers = &step.buffers;
    let wrong = |b: usize, expected: &str, got: &str| {
        Err(Error::argument(
            format!("{}::{}::{}", op.full_name(), step.name(), op.buffer_name(b)),
            expected,
            got,
        ))
    };
    for (n, b) in buffers.iter().enumerate() {
        let param = &step.params()[n];
        let output = param.is_output();
        if output && (step.keeps(*b) || buffers[..n].contains(b)) {
            return wrong(*b, "one parameter that writes it, and none that reads it", "several");
        }
        if output && op.steps.iter().any(|s| s.keeps(*b)) {
            return wrong(
                *b,
                "an array that no earlier step has read",
                "one that was read before it was whole",
            );
        }
        if step.keeps(*b) && op.is_output(*b) {
            return wrong(
                *b,
                "an argument or scratch array to read from",
                "an output (hand on a scratch array)",
            );
        }
        if step.reads(*b) && *b >= op.args.len() && !op.steps.iter().any(|s| s.writes(*b)) {
            let expected = if param.in_out {
                "an argument of this name, or an array that an earlier step wrote"
            } else {
                "an array that an earlier step wrote"
            };
            return wrong(*b, expected, "one that none has");
        }
    }
    Ok(())
}

/// Kinds of a parameter and its buffer, which fit each other; a dimension of the kernel is one dimension of the op in all
/// parameters.
pub(super) fn check_kind(
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
    let queried = kernel.queries.iter().any(|q| kernel.params[q.grid].name == param);
    let arg = op.args.get(at).map(|a| &a.kind);
    match kind {
        ParamKind::Real { dim, components, width, .. } | ParamKind::Output { dim, components, width } => {
            let output = matches!(kind, ParamKind::Output { .. });
            let zero = matches!(kind, ParamKind::Real { zero: true, .. });
            if is_arg && (output || !matches!(arg, Some(ArgKind::Real { zero: z, .. }) if *z == zero)) {
                return wrong(format!("a real array, zero: {zero}, output: {output}"));
            }
            let shape = if op.integer(at).is_some() { &[] } else { op.shape_of(at).unwrap_or(&[]) };
            let (rows, rest) = match dim {
                Some(_) => shape.split_first().map_or((None, shape), |(r, rest)| (Some(r), rest)),
                None => (None, shape),
            };
            let rows_fit = match (dim, rows) {
                (Some(d), Some(r)) => same(d, r),
                (None, None) => true,
                _ => false,
            };
            let (width_fits, rest) = match (width, rest) {
                (Some(w), [size, rest @ ..]) => (same(w, size), rest),
                (width, rest) => (width.is_none(), rest),
            };
            if !rows_fit || !width_fits || components_of(rest) != Some(components) {
                let of = |d: Option<usize>| d.map(|d| kernel.dims[d]);
                return wrong(format!(
                    "{components} components per channel of {:?}, row of {:?}",
                    of(width),
                    of(dim)
                ));
            }
        }
        ParamKind::Ints { dim, components } => {
            let shape = op.shape_of(at).filter(|_| op.integer(at) == Some(DType::I32)).unwrap_or(&[]);
            let rows_fit = shape.first().is_some_and(|r| same(dim, r));
            if !rows_fit || components_of(&shape[1..]) != Some(components) {
                return wrong(format!("{components} int32 per row of {}", kernel.dims[dim]));
            }
        }
        ParamKind::Integers { dim, components, wide, output } => {
            let dtype = if wide { DType::I64 } else { DType::I32 };
            let shape = op.shape_of(at).filter(|_| op.integer(at) == Some(dtype));
            let fits = shape.is_some_and(|shape| match (dim, shape.split_first()) {
                (Some(d), Some((rows, rest))) => same(d, rows) && components_of(rest) == Some(components),
                (None, _) => components_of(shape) == Some(components),
                _ => false,
            });
            if !fits || (is_arg && output) {
                let rows = dim.map(|d| kernel.dims[d]);
                return wrong(format!("{components} {dtype} per row of {rows:?}, output: {output}"));
            }
        }
        ParamKind::Scalar if matches!(arg, Some(ArgKind::Scalar)) => {}
        ParamKind::IntScalar if matches!(arg, Some(ArgKind::IntScalar)) => {}
        kind => {
            let Some((wanted, dims)) = kind.structure() else { return wrong("an attribute".into()) };
            let fits = arg.and_then(ArgKind::structure).is_some_and(|declared| {
                declared.kind == wanted
                    && declared.is_grid == queried
                    && dims.iter().zip(declared.dims).all(|(dim, of_op)| match (dim, of_op) {
                        (None, _) => true,
                        (Some(dim), Some(of_op)) => same(*dim, &Size::Dim(of_op.into())),
                        (Some(_), None) => false,
                    })
            });
            if !fits {
                let what = if queried { "a grid for queries" } else { noun(wanted) };
                let dims: Vec<&str> = dims.iter().flatten().map(|dim| kernel.dims[*dim]).collect();
                return wrong(format!("{what} over {}", dims.join(", ")));
            }
        }
    }
    Ok(())
}
