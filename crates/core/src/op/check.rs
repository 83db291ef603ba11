//! The arguments of a call against the op's declaration.

use super::declare::{ArgKind, Constraint, Op};
use super::request::Arg;
use super::size::Size;
use crate::array::{DType, Place, View};
use crate::backend::Check;
use crate::batch::Batch;
use crate::cell::Cell;
use crate::device::{DeviceArg, DeviceBatch};
use crate::pairs::Kind;
use crate::runtime::ParamKind;
use crate::{Error, Result};

/// What the arguments of a call say about it.
pub(super) struct BoundArgs<'r> {
    /// The dtype of the real arrays that are not stored, which is what kernels compute in.
    pub(super) dtype: DType,
    /// The sizes of the dimensions.
    pub(super) dims: Vec<(&'r str, usize)>,
    /// The integer attributes.
    pub(super) attrs: Vec<(&'r str, i64)>,
    /// What is left to check where the arguments lie, by argument.
    pub(super) checks: Vec<(usize, Check<'r>)>,
}

/// Checks every argument.
pub(super) fn bind<'r>(op: &'r Op, args: &'r [Arg<'_>], place: Place) -> Result<BoundArgs<'r>> {
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
            (ArgKind::Ints { shape }, Arg::Array(view)) if !view.dtype().is_real() => {
                match_shape(name, shape, view, &mut set)?;
            }
            (ArgKind::Batch { rows, systems }, Arg::Batch(batch)) => {
                set(rows, batch.atoms())?;
                set(systems, batch.systems())?;
            }
            (ArgKind::Pairs { .. }, Arg::Pairs(list))
                if spec.constraint == Some(Constraint::Full) && list.kind() == Kind::Half =>
            {
                return wrong("a full list (`to_full` makes one of a half list)");
            }
            (ArgKind::Pairs { rows, columns, entries }, Arg::Pairs(list)) => {
                set(rows, list.rows())?;
                set(columns, list.columns())?;
                if let Some(entries) = entries {
                    set(entries, list.others().len())?;
                }
            }
            (ArgKind::Batch { rows, systems }, Arg::Device(arg @ DeviceArg::Batch(batch))) => {
                set(rows, batch.atoms())?;
                set(systems, batch.systems())?;
                checks.push((n, Check::Integers { arg: *arg, batches: None }));
            }
            (ArgKind::Pairs { rows, columns, entries }, Arg::Device(arg @ DeviceArg::Pairs(list))) => {
                if spec.constraint == Some(Constraint::Full) && list.kind() == Kind::Half {
                    return wrong("a full list (`to_full` makes one of a half list)");
                }
                set(rows, list.rows())?;
                set(columns, list.columns())?;
                if let Some(entries) = entries {
                    set(entries, list.capacity())?;
                }
                let of_rows = device_batches(op, args, rows).next();
                let batches = of_rows.zip(device_batches(op, args, columns).next());
                let batches = batches.filter(|((a, _), (b, _))| a == b).map(|((_, a), (_, b))| [a, b]);
                checks.push((n, Check::Integers { arg: *arg, batches }));
            }
            (ArgKind::Map { rows, into }, Arg::Device(arg @ DeviceArg::Map(map))) => {
                set(rows, map.rows())?;
                set(into, map.into_len())?;
                checks.push((n, Check::Integers { arg: *arg, batches: None }));
            }
            (ArgKind::Grid { columns, .. }, Arg::Grid(grid)) => set(columns, grid.batch().atoms())?,
            (ArgKind::Grid { columns, entries, .. }, Arg::Device(DeviceArg::Grid { grid, capacity })) => {
                set(columns, grid.points())?;
                if let Some(entries) = entries {
                    set(entries, *capacity)?;
                }
            }
            (ArgKind::Map { rows, into }, Arg::Map(map)) => {
                set(rows, map.rows())?;
                set(into, map.into_len())?;
            }
            (ArgKind::Mesh { systems, nodes, waves }, Arg::Mesh(mesh)) => {
                set(systems, mesh.systems())?;
                set(nodes, mesh.nodes())?;
                set(waves, mesh.waves())?;
            }
            (ArgKind::Scalar, Arg::Real(x)) if x.is_finite() => {}
            (ArgKind::IntScalar, Arg::Int(i)) if i32::try_from(*i).is_ok() => {
                attrs.push((name, *i));
            }
            (ArgKind::Real { .. }, _) => return wrong("a real array"),
            (ArgKind::Ints { .. }, _) => return wrong("an int32 or int64 array"),
            (ArgKind::Batch { .. }, _) => return wrong("a batch"),
            (ArgKind::Pairs { .. }, _) => return wrong("a pair list"),
            (ArgKind::Grid { .. }, _) => return wrong("a grid of points"),
            (ArgKind::Map { .. }, _) => return wrong("a map"),
            (ArgKind::Mesh { .. }, _) => return wrong("a mesh"),
            (ArgKind::Scalar, _) => return wrong("a real attribute, finite"),
            (ArgKind::IntScalar, _) => return wrong("an integer attribute"),
        }
        if let Some(constraint) = spec.constraint {
            check(name, arg, constraint)?;
        }
    }
    check_lists(op, args)?;
    // Where every array is stored, nothing is lost by computing in the widest of them, and in f32 at least.
    let narrow = stored.is_some_and(|size| size <= DType::F32.size());
    let dtype = dtype.unwrap_or(if narrow { DType::F32 } else { DType::F64 });
    Ok(BoundArgs { dtype, dims, attrs, checks })
}

/// Arrays lie where the backend has them; numbers and meshes are the host's everywhere.
fn check_place(name: &str, arg: &Arg<'_>, place: Place) -> Result<()> {
    let at = match arg {
        Arg::Array(view) => view.place(),
        Arg::Device(arg) => arg.place(),
        Arg::Batch(_) | Arg::Pairs(_) | Arg::Grid(_) | Arg::Map(_) => Place::Host,
        Arg::Mesh(_) | Arg::Real(_) | Arg::Int(_) | Arg::Zero => place,
    };
    if at != place {
        let expected = format!("memory of {place}, where the call runs");
        return Err(Error::argument(name, expected, format!("{} in that of {at}", describe(arg))));
    }
    Ok(())
}

/// Whether an array has elements of no pair: those behind the last one of a list on a device, which has room to spare.
pub(super) fn has_gaps(op: &Op, args: &[Arg<'_>], buffer: usize) -> bool {
    let Some(Size::Dim(rows)) = op.shape_of(buffer).and_then(|shape| shape.first()) else { return false };
    op.args.iter().zip(args).any(|(spec, arg)| match (&spec.kind, arg) {
        (
            ArgKind::Pairs { entries: Some(entries), .. } | ArgKind::Grid { entries: Some(entries), .. },
            Arg::Device(_),
        ) => entries == rows,
        _ => false,
    })
}

/// What is left to check of a real array.
fn device_check<'r>(view: &'r View<'_>, zero: bool, constraint: Option<Constraint>) -> Check<'r> {
    match constraint {
        _ if zero => Check::Zero(view),
        Some(Constraint::Positive) => Check::Positive(view),
        Some(Constraint::Cell) => Check::Cells(view),
        Some(Constraint::Finite | Constraint::Full) | None => Check::Finite(view),
    }
}

/// The batches over a dimension, with the dimensions of their systems.
pub(super) fn device_batches<'r>(
    op: &'r Op,
    args: &'r [Arg<'_>],
    of: &'r str,
) -> impl Iterator<Item = (&'r String, &'r DeviceBatch<'r>)> {
    op.args.iter().zip(args).filter_map(move |(spec, arg)| match (&spec.kind, arg) {
        (ArgKind::Batch { rows, systems }, Arg::Device(DeviceArg::Batch(batch))) if *rows == of => {
            Some((systems, *batch))
        }
        _ => None,
    })
}

/// No pair joins two systems.
fn check_lists(op: &Op, args: &[Arg<'_>]) -> Result<()> {
    fn batches<'r, 'a>(
        op: &'r Op,
        args: &'r [Arg<'a>],
        of: &'r str,
    ) -> impl Iterator<Item = (&'r String, &'a Batch<'a>)> {
        op.args.iter().zip(args).filter_map(move |(spec, arg)| match (&spec.kind, arg) {
            (ArgKind::Batch { rows, systems }, Arg::Batch(batch)) if *rows == of => Some((systems, *batch)),
            _ => None,
        })
    }
    for (spec, arg) in op.args.iter().zip(args) {
        let (ArgKind::Pairs { rows, columns, .. }, Arg::Pairs(list)) = (&spec.kind, arg) else { continue };
        for (systems, of_rows) in batches(op, args, rows) {
            for (_, of_columns) in batches(op, args, columns).filter(|(s, _)| *s == systems) {
                list.check_batches(of_rows, of_columns)?;
            }
        }
    }
    for step in &op.steps {
        let params = step.kernel().map_or(&[][..], |kernel| kernel.params);
        for (param, buffer) in params.iter().zip(&step.buffers) {
            if let ParamKind::Real { width: Some(_), .. } = param.kind
                && let Some(Arg::Array(view)) = args.get(*buffer)
                && view.shape().get(1) == Some(&0)
            {
                let name = op.args[*buffer].name.as_str();
                return Err(Error::argument(name, "a feature width of at least 1", describe_view(view)));
            }
        }
    }
    Ok(())
}

/// Every number is one: an infinity or NaN would pass a comparison with a cutoff unseen. `name` is asked for where one
/// is not.
pub(super) fn check_finite(name: &dyn Fn() -> String, view: &View<'_>) -> Result<()> {
    match view.data().not_finite() {
        Some((at, x)) => {
            let row = at / view.shape().iter().skip(1).product::<usize>().max(1);
            Err(Error::argument(name(), "finite numbers", format!("{x} in row {row}")))
        }
        None => Ok(()),
    }
}

/// Room for an array of that shape: an allocation that fails would end the process. Small ones are not asked for.
pub(super) fn check_room(name: &str, dtype: DType, shape: &[usize], place: Place) -> Result<()> {
    const LARGE: usize = 1 << 30;
    let bytes = shape.iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d));
    // A shape with a 0 in it has no elements, but sizes that no array can have all the same.
    let extent = shape.iter().filter(|d| **d > 0).try_fold(dtype.size(), |n, d| n.checked_mul(*d));
    let addressable = extent.is_some_and(|n| isize::try_from(n).is_ok());
    match bytes {
        // A device's allocator says itself what it has no room for.
        Some(n)
            if addressable
                && (place != Place::Host || n < LARGE || Vec::<u8>::new().try_reserve_exact(n).is_ok()) =>
        {
            Ok(())
        }
        _ => Err(Error::argument(name, "an array that fits in memory", format!("{dtype} {shape:?}"))),
    }
}

fn match_shape<'r>(
    name: &str,
    shape: &'r [super::Size],
    view: &View<'_>,
    set: &mut dyn FnMut(&'r str, usize) -> Result<()>,
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
        Constraint::Positive | Constraint::Finite => {
            let good = |x: &f64| x.is_finite() && (constraint == Constraint::Finite || *x > 0.0);
            if let Some(bad) = (0..count).filter_map(number).find(|x| !good(x)) {
                let expected =
                    if constraint == Constraint::Finite { "finite numbers" } else { "finite numbers > 0" };
                return Err(Error::argument(name, expected, bad.to_string()));
            }
        }
        Constraint::Full => {}
        Constraint::Cell => {
            for b in 0..count / 9 {
                let row = |r: usize| std::array::from_fn(|k| number(9 * b + 3 * r + k).unwrap_or(f64::NAN));
                Cell::from_rows(std::array::from_fn(row)).map_err(|e| match e {
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
        Arg::Batch(_) => "a batch".into(),
        Arg::Pairs(list) => format!("a pair list ({:?})", list.kind()).to_lowercase(),
        Arg::Device(DeviceArg::Batch(_)) => "a batch".into(),
        Arg::Device(DeviceArg::Pairs(list)) => format!("a pair list ({:?})", list.kind()).to_lowercase(),
        Arg::Device(DeviceArg::Map(_)) => "a map".into(),
        Arg::Device(DeviceArg::Grid { grid, .. }) => format!("a grid of {} points", grid.points()),
        Arg::Grid(grid) => format!("a grid of {} points", grid.batch().atoms()),
        Arg::Map(_) => "a map".into(),
        Arg::Mesh(_) => "a mesh".into(),
        Arg::Real(x) => format!("the real {x}"),
        Arg::Int(i) => format!("the integer {i}"),
        Arg::Zero => "a zero".into(),
    }
}

pub(super) fn describe_view(view: &View<'_>) -> String {
    format!("{} of shape {:?}", view.dtype(), view.shape())
}
