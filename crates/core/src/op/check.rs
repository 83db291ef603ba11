//! The arguments of a call against the op's declaration.

use super::declare::{ArgKind, Constraint, Op};
use super::evaluate::Arg;
use crate::array::{DType, Data, View};
use crate::cell::Cell;
use crate::pairs::Kind;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// What the arguments of a call say about it.
pub(super) struct BoundArgs {
    /// The dtype of the real arrays.
    pub(super) dtype: DType,
    /// The sizes of the dimensions.
    pub(super) dims: BTreeMap<String, usize>,
    /// The integer attributes.
    pub(super) attrs: BTreeMap<String, i64>,
}

/// Checks every argument.
pub(super) fn bind(op: &Op, args: &[Arg<'_>]) -> Result<BoundArgs> {
    if args.len() != op.args.len() {
        let names: Vec<&str> = op.args.iter().map(|a| a.name.as_str()).collect();
        let expected = format!("{} arguments ({})", names.len(), names.join(", "));
        return Err(Error::argument(op.full_name(), expected, args.len().to_string()));
    }
    let (mut dims, mut attrs, mut dtype) = (BTreeMap::new(), BTreeMap::new(), None);
    for (spec, arg) in op.args.iter().zip(args) {
        let name = spec.name.as_str();
        let wrong = |expected: &str| Err(Error::argument(name, expected, describe(arg)));
        let mut set = |dim: &String, size: usize| match dims.insert(dim.clone(), size) {
            Some(before) if before != size => {
                let expected = format!("{before} rows ({dim}), as other arguments have");
                Err(Error::argument(name, expected, size.to_string()))
            }
            _ => Ok(()),
        };
        match (&spec.kind, arg) {
            (ArgKind::Real { shape, zero }, Arg::Array(view)) => {
                let real = matches!(view.dtype(), DType::F32 | DType::F64);
                if !real || *dtype.get_or_insert(view.dtype()) != view.dtype() {
                    let expected =
                        dtype.filter(|_| real).map_or("float32 or float64".into(), |d| d.to_string());
                    return wrong(&expected);
                }
                match_shape(name, shape, view, &mut set)?;
                check_finite(name, view)?;
                if *zero && view.to_f64().iter().any(|x| *x != 0.0) {
                    return wrong("zeros: it stands for a derivative, not a deformation");
                }
            }
            (ArgKind::Real { zero: true, .. }, Arg::Zero) => {}
            (ArgKind::Ints { shape }, Arg::Array(view)) if view.dtype() == DType::I32 => {
                match_shape(name, shape, view, &mut set)?;
            }
            (ArgKind::Batch { rows, systems }, Arg::Batch(batch)) => {
                set(rows, batch.atoms())?;
                set(systems, batch.systems())?;
            }
            (ArgKind::Pairs { .. }, Arg::Pairs(list)) if list.kind() == Kind::Half => {
                return wrong("a full list (`to_full` makes one of a half list)");
            }
            (ArgKind::Pairs { rows }, Arg::Pairs(list)) => {
                set(rows, list.rows())?;
                set(rows, list.columns())?;
            }
            (ArgKind::Scalar, Arg::Real(_)) => {}
            (ArgKind::IntScalar, Arg::Int(i)) if i32::try_from(*i).is_ok() => {
                attrs.insert(spec.name.clone(), *i);
            }
            (ArgKind::Real { .. }, _) => return wrong("a real array"),
            (ArgKind::Ints { .. }, _) => return wrong("an int32 array"),
            (ArgKind::Batch { .. }, _) => return wrong("a batch"),
            (ArgKind::Pairs { .. }, _) => return wrong("a pair list"),
            (ArgKind::Scalar, _) => return wrong("a real attribute"),
            (ArgKind::IntScalar, _) => return wrong("an integer attribute"),
        }
        if let Some(constraint) = spec.constraint {
            check(name, arg, constraint)?;
        }
    }
    for (n, arg) in args.iter().enumerate() {
        if let Arg::Pairs(list) = arg {
            for (spec, other) in op.args.iter().zip(args) {
                let same = match (&op.args[n].kind, &spec.kind) {
                    (ArgKind::Pairs { rows }, ArgKind::Batch { rows: r, .. }) => rows == r,
                    _ => false,
                };
                if let (true, Arg::Batch(batch)) = (same, other) {
                    list.check_batch(batch)?;
                }
            }
        }
    }
    Ok(BoundArgs { dtype: dtype.unwrap_or(DType::F64), dims, attrs })
}

/// Every number is one: an infinity or NaN would pass a comparison with a cutoff unseen.
pub(super) fn check_finite(name: &str, view: &View<'_>) -> Result<()> {
    let bad = match view.data() {
        Data::F32(d) => d.iter().position(|x| !x.is_finite()).map(|at| (at, f64::from(d[at]))),
        Data::F64(d) => d.iter().position(|x| !x.is_finite()).map(|at| (at, d[at])),
        Data::I32(_) => None,
    };
    match bad {
        Some((at, x)) => {
            let row = at / view.shape().iter().skip(1).product::<usize>().max(1);
            Err(Error::argument(name, "finite numbers", format!("{x} in row {row}")))
        }
        None => Ok(()),
    }
}

fn match_shape(
    name: &str,
    shape: &[super::Size],
    view: &View<'_>,
    set: &mut dyn FnMut(&String, usize) -> Result<()>,
) -> Result<()> {
    let text = || {
        let parts: Vec<String> = shape
            .iter()
            .map(|s| match s {
                super::Size::Const(n) => n.to_string(),
                super::Size::Dim(d) => d.clone(),
                other => format!("{other:?}"),
            })
            .collect();
        format!("shape ({})", parts.join(", "))
    };
    let wrong = || Err(Error::argument(name, text(), format!("{:?}", view.shape())));
    if view.shape().len() != shape.len() {
        return wrong();
    }
    for (size, have) in shape.iter().zip(view.shape()) {
        match size {
            super::Size::Const(n) if n != have => return wrong(),
            super::Size::Dim(d) => set(d, *have)?,
            _ => {}
        }
    }
    Ok(())
}

fn check(name: &str, arg: &Arg<'_>, constraint: Constraint) -> Result<()> {
    let numbers = match arg {
        Arg::Array(view) => view.to_f64(),
        Arg::Real(x) => vec![*x],
        _ => vec![],
    };
    match constraint {
        Constraint::Positive | Constraint::Finite => {
            let good = |x: &f64| x.is_finite() && (constraint == Constraint::Finite || *x > 0.0);
            if let Some(bad) = numbers.iter().find(|x| !good(x)) {
                let expected =
                    if constraint == Constraint::Finite { "finite numbers" } else { "finite numbers > 0" };
                return Err(Error::argument(name, expected, bad.to_string()));
            }
        }
        Constraint::Cell => {
            for (b, c) in numbers.chunks_exact(9).enumerate() {
                Cell::from_rows(std::array::from_fn(|r| std::array::from_fn(|k| c[3 * r + k]))).map_err(
                    |e| match e {
                        Error::Argument { expected, got, .. } => {
                            Error::argument(name, expected, format!("{got} (system {b})"))
                        }
                        e => e,
                    },
                )?;
            }
        }
    }
    Ok(())
}

fn describe(arg: &Arg<'_>) -> String {
    match arg {
        Arg::Array(view) => describe_view(view),
        Arg::Batch(_) => "a batch".into(),
        Arg::Pairs(_) => "a pair list".into(),
        Arg::Real(x) => format!("the real {x}"),
        Arg::Int(i) => format!("the integer {i}"),
        Arg::Zero => "a zero".into(),
    }
}

pub(super) fn describe_view(view: &View<'_>) -> String {
    format!("{} of shape {:?}", view.dtype(), view.shape())
}
