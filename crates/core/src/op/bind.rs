//! Binding: the arguments of a call are checked against the op's declaration.

use super::call::Call;
use super::declare::{ArgKind, Constraint, Op, Step, Work};
use super::lists::MadeLists;
use super::request::Arg;
use super::size::Size;
use crate::array::{DType, Place, View};
use crate::backend::{Check, Context};
use crate::cell::Cell;
use crate::runtime::ParamKind;
use crate::structure::pairs::Kind;
use crate::structure::{Mesh, Structure};
use crate::{Error, Result};

/// A call with every argument checked, and, by argument, the checks that are left to the memory of a device.
pub(super) fn bind<'r, 'a>(
    op: &'r Op,
    context: &'r Context<'r>,
    args: &'r [Arg<'a>],
) -> Result<(Call<'r, 'a>, Vec<(usize, Check<'r>)>)> {
    let place = context.backend.place();
    if args.len() != op.args.len() {
        let names: Vec<&str> = op.args.iter().map(|a| a.name.as_str()).collect();
        let expected = format!("{} arguments ({})", names.len(), names.join(", "));
        return Err(Error::argument(op.full_name(), expected, args.len().to_string()));
    }
    let (mut dims, mut attrs, mut dtype) = (Vec::<(&str, usize)>::with_capacity(4), vec![], None);
    let mut checks = vec![];
    // Bytes of the widest stored array.
    let mut stored = None;
    for (n, (spec, arg)) in op.args.iter().zip(args).enumerate() {
        let name = spec.name.as_str();
        check_place(name, arg, place)?;
        let wrong = |expected: &str| Err(Error::argument(name, expected, describe(arg)));
        let mut set = |dim: &'r str, size: usize| match dims.iter().find(|(known, _)| *known == dim) {
            Some((_, before)) if *before != size => {
                let expected = format!("{before} rows ({dim}), as other arguments have");
                Err(Error::argument(name, expected, size.to_string()))
            }
            Some(_) => Ok(()),
            None => {
                dims.push((dim, size));
                Ok(())
            }
        };
        match (&spec.kind, arg) {
            (ArgKind::Real { shape, zero }, Arg::Array(view)) => {
                if spec.stored {
                    if !view.dtype().is_real() {
                        return wrong("float16, bfloat16, float32 or float64");
                    }
                    stored = stored.max(Some(view.dtype().size()));
                } else {
                    let real = view.dtype().is_computed();
                    if !real || *dtype.get_or_insert(view.dtype()) != view.dtype() {
                        let expected =
                            dtype.filter(|_| real).map_or("float32 or float64".into(), |d| d.to_string());
                        return wrong(&expected);
                    }
                }
                match_shape(name, shape, view, &mut set)?;
                if place != Place::Host {
                    checks.push((n, device_check(view, *zero, spec.constraint)));
                    continue;
                }
                check_finite(&|| name.to_string(), view)?;
                if *zero && (0..view.len()).any(|n| view.at(n) != Some(0.0)) {
                    return wrong("zeros: it stands for a derivative, not a deformation");
                }
            }
            (ArgKind::Real { zero: true, .. }, Arg::Zero) => {}
            (ArgKind::Ints { shape, .. }, Arg::Array(view)) if !view.dtype().is_real() => {
                match_shape(name, shape, view, &mut set)?;
            }
            (kind, Arg::Structure(structure))
                if kind.structure().is_some_and(|d| !d.is_grid && d.kind == structure.kind()) =>
            {
                if spec.constraint == Some(Constraint::Full) && structure.list_kind() == Some(Kind::Half) {
                    return wrong("a full list (`to_full` makes one of a half list)");
                }
                if let Some(mesh) = structure.as_mesh() {
                    check_part(op, n, mesh)?;
                }
                let declared = kind.structure().into_iter().flat_map(|declared| declared.dims);
                for (dim, size) in declared.zip(structure.sizes()) {
                    if let (Some(dim), Some(size)) = (dim, size) {
                        set(dim, size)?;
                    }
                }
            }
            (ArgKind::Grid { columns, entries, .. }, Arg::Grid(grid)) => {
                set(columns, grid.points())?;
                if let (Some(entries), Some(capacity)) = (entries, grid.capacity()) {
                    set(entries, capacity)?;
                }
            }
            (ArgKind::Scalar, Arg::Real(x)) if x.is_finite() => {}
            (ArgKind::IntScalar, Arg::Int(i)) if i32::try_from(*i).is_ok() => {
                attrs.push((name, *i));
                // One that is named as a dimension is its size.
                if let Some(dim) = op.dimension(name) {
                    let size = usize::try_from(*i).map_err(|_| {
                        Error::argument(name, "the size of a dimension, from 0 up", i.to_string())
                    })?;
                    set(dim, size)?;
                }
            }
            (kind, _) => return wrong(kind.noun()),
        }
        if let Some(constraint) = spec.constraint {
            check(name, arg, constraint)?;
        }
    }
    for (n, arg) in args.iter().enumerate() {
        let Some(structure) = arg.structure() else { continue };
        checks.extend(structure.check(&joint_batches(op, args, n))?.into_iter().map(|check| (n, check)));
    }
    check_widths(op, args)?;
    // Where every array is stored, nothing is lost by computing in the widest of them, and in f32 at least.
    let narrow = stored.is_some_and(|size| size <= DType::F32.size());
    let dtype = dtype.unwrap_or(if narrow { DType::F32 } else { DType::F64 });
    let (results, word, lists) = (vec![], None, MadeLists::default());
    Ok((Call { op, context, args, dtype, dims, attrs, results, word, lists }, checks))
}

/// Refuses parts of meshes for an op that transforms them, or visits what they lack.
fn check_part(op: &Op, n: usize, mesh: &Mesh) -> Result<()> {
    let [_, nodes, waves] = mesh.sizes();
    let (has_nodes, has_waves) = (nodes.is_some(), waves.is_some());
    let is_refused = |step: &Step| match step.work {
        Work::Linear(_) => !(has_nodes && has_waves),
        Work::Kernel(kernel) => kernel.params.iter().zip(&step.buffers).any(|(param, buffer)| {
            let takes_waves = matches!(param.kind, ParamKind::Mesh { waves: Some(_), .. });
            *buffer == n && !if takes_waves { has_waves } else { has_nodes }
        }),
    };
    if op.steps.iter().any(|step| step.buffers.contains(&n) && is_refused(step)) {
        let expected = "whole meshes, as waves are those of all nodes";
        let got = if has_nodes { "windows" } else { "waves of planes" };
        return Err(Error::argument(&op.args[n].name, expected, got));
    }
    Ok(())
}

/// Arrays lie in the memory of the backend; numbers and meshes go with each launch.
fn check_place(name: &str, arg: &Arg<'_>, place: Place) -> Result<()> {
    let at = match arg {
        Arg::Array(view) => view.place(),
        Arg::Structure(structure) => structure.place().unwrap_or(place),
        Arg::Grid(grid) => grid.place(),
        Arg::Real(_) | Arg::Int(_) | Arg::Zero => place,
    };
    if at != place {
        let expected = format!("memory of {place}, where the call runs");
        return Err(Error::argument(name, expected, format!("{} in that of {at}", describe(arg))));
    }
    Ok(())
}

/// Whether an array has elements of no pair: those behind the last one of a list in the memory of a device, which may
/// hold less than its capacity. An array that begins as an argument has what that has.
pub(super) fn has_gaps(op: &Op, args: &[Arg<'_>], buffer: usize) -> bool {
    let Some(Size::Dim(rows)) = op.shape_of(buffer).and_then(|shape| shape.first()) else { return false };
    if op.steps.iter().any(|step| step.is_copy() && step.writes(buffer)) {
        return false;
    }
    op.args.iter().zip(args).any(|(spec, arg)| {
        let entries = spec.kind.structure().and_then(|declared| declared.dims[2]);
        let place = match arg {
            Arg::Structure(structure) => structure.place(),
            Arg::Grid(grid) => Some(grid.place()),
            _ => None,
        };
        entries == Some(rows) && place.is_some_and(|place| place != Place::Host)
    })
}

/// Check of a real array in the memory of a device.
fn device_check<'r>(view: &View<'r>, zero: bool, constraint: Option<Constraint>) -> Check<'r> {
    let view = view.clone();
    match constraint {
        _ if zero => Check::Zero(view),
        Some(Constraint::Positive) => Check::Positive(view),
        Some(Constraint::NotNegative) => Check::NotNegative(view),
        Some(Constraint::Cell) => Check::Cells(view, false),
        Some(Constraint::OpenCell) => Check::Cells(view, true),
        Some(Constraint::Finite | Constraint::Full | Constraint::Between(..)) | None => Check::Finite(view),
    }
}

/// The batches over a dimension, with the dimensions of their systems.
pub(super) fn batches_over<'r>(
    op: &'r Op,
    args: &'r [Arg<'_>],
    of: &'r str,
) -> impl Iterator<Item = (&'r str, &'r dyn Structure)> {
    op.args.iter().zip(args).filter_map(move |(spec, arg)| match (&spec.kind, arg.structure()) {
        (ArgKind::Batch { rows, systems }, Some(batch)) if *rows == of => Some((systems.as_str(), batch)),
        _ => None,
    })
}

/// For a pair list the pairs of batches over its rows and its columns that have their systems in common.
fn joint_batches<'r>(op: &'r Op, args: &'r [Arg<'_>], list: usize) -> Vec<[&'r dyn Structure; 2]> {
    let ArgKind::Pairs { rows, columns, .. } = &op.args[list].kind else { return vec![] };
    let of_rows = batches_over(op, args, rows);
    let joint = |(systems, of_rows): (&'r str, &'r dyn Structure)| {
        let of_columns = batches_over(op, args, columns).filter(move |(s, _)| *s == systems);
        of_columns.map(move |(_, of_columns)| [of_rows, of_columns])
    };
    of_rows.flat_map(joint).collect()
}

/// Arrays with channels have those that kernels name by their numbers, and at least one.
fn check_widths(op: &Op, args: &[Arg<'_>]) -> Result<()> {
    for step in &op.steps {
        let params = step.kernel().map_or(&[][..], |kernel| kernel.params);
        for (param, buffer) in params.iter().zip(&step.buffers) {
            let width = op.shape_of(*buffer).and_then(|shape| shape.get(1)).filter(|_| param.channels > 0);
            for (spec, arg) in op.args.iter().zip(args) {
                if let (ArgKind::Real { shape, .. }, Arg::Array(view)) = (&spec.kind, arg)
                    && width.is_some_and(|width| shape.get(1) == Some(width))
                    && view.shape().get(1).is_some_and(|size| *size < param.channels)
                {
                    let got = describe_view(view);
                    return Err(Error::argument(
                        &spec.name,
                        format!("a feature width of at least {}", param.channels),
                        got,
                    ));
                }
            }
        }
    }
    Ok(())
}

/// All numbers are finite: an infinity or NaN would pass a comparison with a cutoff unseen. `name` is called for an error
/// alone.
pub(super) fn check_finite(name: &dyn Fn() -> String, view: &View<'_>) -> Result<()> {
    match view.data().not_finite() {
        Some((at, x)) => {
            let row = at / view.shape().iter().skip(1).product::<usize>().max(1);
            Err(Error::argument(name(), "finite numbers", format!("{x} in row {row}")))
        }
        None => Ok(()),
    }
}

/// The bytes of an array have addresses.
pub(super) fn check_room(name: &str, dtype: DType, shape: &[usize]) -> Result<()> {
    // A shape with a 0 in it has no elements, but sizes that no array can have all the same.
    let extent = shape.iter().filter(|d| **d > 0).try_fold(dtype.size(), |n, d| n.checked_mul(*d));
    if extent.is_some_and(|n| isize::try_from(n).is_ok()) {
        return Ok(());
    }
    Err(Error::argument(name, "an array that fits in memory", format!("{dtype} {shape:?}")))
}

fn match_shape<'r>(
    name: &str,
    shape: &'r [super::Size],
    view: &View<'_>,
    set: &mut dyn FnMut(&'r str, usize) -> Result<()>,
) -> Result<()> {
    let text = || {
        let parts: Vec<String> = shape.iter().map(ToString::to_string).collect();
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
    let count = match arg {
        Arg::Array(view) => view.len(),
        Arg::Real(_) => 1,
        _ => 0,
    };
    let number = |n: usize| match arg {
        Arg::Array(view) => view.at(n),
        Arg::Real(x) => Some(*x),
        _ => None,
    };
    match constraint {
        Constraint::Positive | Constraint::NotNegative | Constraint::Finite => {
            let (expected, good): (_, fn(f64) -> bool) = match constraint {
                Constraint::Positive => ("finite numbers > 0", |x| x > 0.0),
                Constraint::NotNegative => ("finite numbers >= 0", |x| x >= 0.0),
                _ => ("finite numbers", |_| true),
            };
            if let Some(bad) = (0..count).filter_map(number).find(|x| !(x.is_finite() && good(*x))) {
                return Err(Error::argument(name, expected, bad.to_string()));
            }
        }
        Constraint::Full => {}
        Constraint::Between(lo, hi) => {
            if let Arg::Int(n) = arg
                && !(lo..=hi).contains(n)
            {
                return Err(Error::argument(name, format!("an integer from {lo} to {hi}"), n.to_string()));
            }
        }
        Constraint::Cell | Constraint::OpenCell => {
            for b in 0..count / 9 {
                let row = |r: usize| std::array::from_fn(|k| number(9 * b + 3 * r + k).unwrap_or(f64::NAN));
                let rows: [[f64; 3]; 3] = std::array::from_fn(row);
                let is_finite = rows.as_flattened().iter().all(|x| x.is_finite());
                if constraint == Constraint::OpenCell && is_finite && rows.contains(&[0.0; 3]) {
                    continue;
                }
                Cell::from_rows(rows).map_err(|e| match e {
                    Error::Argument { expected, got, .. } => {
                        Error::argument(name, expected, format!("{got} (system {b})"))
                    }
                    e => e,
                })?;
            }
        }
    }
    Ok(())
}

fn describe(arg: &Arg<'_>) -> String {
    match arg {
        Arg::Array(view) => describe_view(view),
        Arg::Structure(structure) => structure.describe(),
        Arg::Grid(grid) => format!("a grid of {} points", grid.points()),
        Arg::Real(x) => format!("the real {x}"),
        Arg::Int(i) => format!("the integer {i}"),
        Arg::Zero => "a zero".into(),
    }
}

pub(super) fn describe_view(view: &View<'_>) -> String {
    format!("{} of shape {:?}", view.dtype(), view.shape())
}
