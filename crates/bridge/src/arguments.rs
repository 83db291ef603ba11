//! Views and numbers as the arguments of an op.

use crate::Entry;
use crate::layout::{CHECKED, KINDS, Part, Type};
use madelung_core::array::View;
use madelung_core::batch::Batch;
use madelung_core::device::{DeviceArg, DeviceBatch, DeviceMap, DevicePairs};
use madelung_core::map::Map;
use madelung_core::mesh::Mesh;
use madelung_core::op::{Arg, ArgKind, Size};
use madelung_core::pairs::{Kind, PairList};
use madelung_core::{Error, Result};

/// Arguments that are made of tensors.
pub(crate) enum Made<'a> {
    Nothing,
    Batch(Batch<'a>),
    Pairs(Box<PairList<'a>>),
    Map(Map<'a>),
    Mesh(Mesh),
    DeviceBatch(DeviceBatch<'a>),
    DevicePairs(Box<DevicePairs<'a>>),
    DeviceMap(DeviceMap<'a>),
}

/// The tensors and numbers of each argument, in order.
pub(crate) struct Cursor<'a, 'n> {
    tensors: std::slice::Iter<'a, View<'a>>,
    numbers: std::slice::Iter<'n, u64>,
}

impl<'a, 'n> Cursor<'a, 'n> {
    pub(crate) fn new(tensors: &'a [View<'a>], numbers: &'n [u64]) -> Self {
        Self { tensors: tensors.iter(), numbers: numbers.iter() }
    }

    pub(crate) fn tensor(&mut self) -> &'a View<'a> {
        self.tensors.next().expect("as many tensors as the inputs say")
    }

    pub(crate) fn number(&mut self) -> u64 {
        *self.numbers.next().expect("as many numbers as the inputs say")
    }

    pub(crate) fn size(&mut self, name: &str) -> Result<usize> {
        let n = self.number() as i64;
        usize::try_from(n).map_err(|_| Error::argument(name, "a number ≥ 0", n.to_string()))
    }

    /// The size that a number of argument `arg` says, or, where it has none of this kind, `otherwise`.
    pub(crate) fn size_or(
        &mut self,
        entry: &Entry,
        arg: usize,
        part: Part,
        name: &str,
        otherwise: impl FnOnce() -> Result<usize>,
    ) -> Result<usize> {
        let has = entry.inputs.iter().any(|i| i.arg == arg && i.part == part);
        if has { self.size(name) } else { otherwise() }
    }

    /// Goes over the numbers of an argument.
    pub(crate) fn skip_numbers(&mut self, entry: &Entry, arg: usize) {
        let numbers = entry.inputs.iter().filter(|i| i.arg == arg && i.kind != Type::Tensor);
        numbers.for_each(|_| _ = self.number());
    }

    /// Goes over an argument.
    pub(crate) fn skip(&mut self, entry: &Entry, arg: usize) {
        let tensors = entry.inputs.iter().filter(|i| i.arg == arg && i.kind == Type::Tensor);
        tensors.for_each(|_| _ = self.tensor());
        self.skip_numbers(entry, arg);
    }
}

/// The size of a dimension, which an array has or an integer says.
pub(crate) fn size_of(entry: &Entry, given: &[View<'_>], numbers: &[u64], dim: &str) -> Result<usize> {
    let (mut tensor, mut number) = (0, 0);
    let args = &entry.op.args;
    for input in entry.inputs.iter() {
        let at = |view: &View<'_>, axis: usize| view.shape().get(axis).copied().unwrap_or(0);
        let said = match (input.part, &args[input.arg].kind) {
            (Part::Real, ArgKind::Real { shape, zero: false }) | (Part::Ints, ArgKind::Ints { shape }) => {
                let axis = shape.iter().position(|s| matches!(s, Size::Dim(d) if d == dim));
                axis.map(|axis| at(&given[tensor], axis))
            }
            (Part::BatchIdx, ArgKind::Batch { rows, .. }) | (Part::MapOf, ArgKind::Map { rows, .. })
                if rows == dim =>
            {
                Some(at(&given[tensor], 0))
            }
            (Part::Ptr, ArgKind::Pairs { rows, .. }) if rows == dim => {
                Some(at(&given[tensor], 0).saturating_sub(1))
            }
            (Part::Systems, ArgKind::Batch { systems, .. } | ArgKind::Mesh { systems, .. })
                if systems == dim =>
            {
                Some(usize::try_from(numbers[number] as i64).unwrap_or(0))
            }
            (Part::Columns, ArgKind::Pairs { columns, .. }) if columns == dim => {
                Some(usize::try_from(numbers[number] as i64).unwrap_or(0))
            }
            (Part::Into, ArgKind::Map { into, .. }) if into == dim => {
                Some(usize::try_from(numbers[number] as i64).unwrap_or(0))
            }
            _ => None,
        };
        if let Some(size) = said {
            return Ok(size);
        }
        match input.kind {
            Type::Tensor => tensor += 1,
            _ => number += 1,
        }
    }
    Err(Error::argument(dim, "a dimension that an argument has", "none"))
}

/// Batches, lists, maps and meshes, checked.
pub(crate) fn make<'a>(entry: &Entry, given: &'a [View<'a>], numbers: &[u64]) -> Result<Vec<Made<'a>>> {
    let mut cursor = Cursor::new(given, numbers);
    let size = |dim: &str| size_of(entry, given, numbers, dim);
    let mut made = Vec::with_capacity(entry.op.args.len());
    for (n, spec) in entry.op.args.iter().enumerate() {
        let name = spec.name.as_str();
        made.push(match &spec.kind {
            ArgKind::Real { .. } | ArgKind::Ints { .. } => {
                cursor.tensor();
                Made::Nothing
            }
            ArgKind::Scalar | ArgKind::IntScalar => {
                cursor.number();
                Made::Nothing
            }
            ArgKind::Batch { systems, .. } => {
                let of = integers(name, cursor.tensor())?;
                let systems = cursor.size_or(entry, n, Part::Systems, name, || size(systems))?;
                Made::Batch(Batch::from_idx_array(of, Some(systems)).map_err(|e| renamed(e, name))?)
            }
            ArgKind::Pairs { columns, .. } => {
                let (ptr, others) = (integers(name, cursor.tensor())?, integers(name, cursor.tensor())?);
                let shifts = integers(name, cursor.tensor())?;
                let kind = cursor.number() as i64;
                let columns = cursor.size_or(entry, n, Part::Columns, name, || size(columns))?;
                let list = pairs(ptr, others, shifts, kind, columns).map_err(|e| renamed(e, name))?;
                Made::Pairs(Box::new(list))
            }
            ArgKind::Grid { .. } => return Err(Error::Unsupported("a grid in a call of a framework".into())),
            ArgKind::Map { into, .. } => {
                let of = integers(name, cursor.tensor())?;
                let into = cursor.size_or(entry, n, Part::Into, name, || size(into))?;
                Made::Map(Map::new(of.to_i32(name)?, into).map_err(|e| renamed(e, name))?)
            }
            ArgKind::Mesh { systems, .. } => {
                let sizes = [cursor.size(name)?, cursor.size(name)?, cursor.size(name)?];
                let order = cursor.size(name)?;
                let systems = cursor.size_or(entry, n, Part::Systems, name, || size(systems))?;
                Made::Mesh(Mesh::new(sizes, order, systems).map_err(|e| renamed(e, name))?)
            }
        });
    }
    Ok(made)
}

/// A tensor of integers.
fn integers<'a>(name: &str, view: &'a View<'a>) -> Result<&'a View<'a>> {
    if view.dtype().is_real() {
        return Err(Error::argument(name, "a tensor of int32 or int64", view.dtype().to_string()));
    }
    Ok(view)
}

fn pairs<'a>(
    ptr: &View<'a>,
    others: &View<'a>,
    shifts: &View<'a>,
    kind: i64,
    columns: usize,
) -> Result<PairList<'a>> {
    let checked = kind & CHECKED != 0;
    let kind = kind_of_list(kind)?;
    if checked {
        PairList::from_checked_csr_arrays(ptr, others, shifts, columns, kind)
    } else {
        PairList::from_csr_arrays(ptr, others, shifts, columns, kind)
    }
}

/// The kind that a number says.
pub(crate) fn kind_of_list(kind: i64) -> Result<Kind> {
    match kind & !CHECKED {
        0 => Ok(Kind::Full),
        1 => Ok(Kind::Half),
        2 => Ok(Kind::Directed),
        _ => {
            let names = KINDS.iter().enumerate().map(|(n, name)| format!("{n} ({name})"));
            let expected = format!("a kind of list: {}", names.collect::<Vec<_>>().join(", "));
            Err(Error::argument("pairs", expected, kind.to_string()))
        }
    }
}

/// An error about an argument that the op has under another name says so.
pub(crate) fn renamed(error: Error, name: &str) -> Error {
    match error {
        Error::Argument { argument, expected, got } if argument != name => {
            Error::argument(format!("{name}: {argument}"), expected, got)
        }
        error => error,
    }
}

pub(crate) fn arguments<'a>(
    entry: &Entry,
    given: &'a [View<'a>],
    numbers: &[u64],
    made: &'a [Made<'a>],
) -> Result<Vec<Arg<'a>>> {
    let mut cursor = Cursor::new(given, numbers);
    let mut args = Vec::with_capacity(made.len());
    let mut inputs = entry.inputs.iter().peekable();
    for (n, (spec, made)) in entry.op.args.iter().zip(made).enumerate() {
        args.push(match (&spec.kind, made) {
            (_, Made::Batch(batch)) => Arg::Batch(batch),
            (_, Made::Pairs(list)) => Arg::Pairs(list),
            (_, Made::Map(map)) => Arg::Map(map),
            (_, Made::DeviceBatch(batch)) => Arg::Device(DeviceArg::Batch(batch)),
            (_, Made::DevicePairs(list)) => Arg::Device(DeviceArg::Pairs(list)),
            (_, Made::DeviceMap(map)) => Arg::Device(DeviceArg::Map(map)),
            (_, Made::Mesh(mesh)) => Arg::Mesh(mesh),
            (ArgKind::Scalar, _) => Arg::Real(f64::from_bits(cursor.number())),
            (ArgKind::IntScalar, _) => Arg::Int(cursor.number() as i64),
            (ArgKind::Real { zero: true, .. }, _) => match cursor.tensor() {
                tensor if tensor.shape() == [0] => Arg::Zero,
                tensor => Arg::Array(tensor.clone()),
            },
            _ => Arg::Array(cursor.tensor().clone()),
        });
        let whole = !matches!(made, Made::Nothing);
        while let Some(input) = inputs.next_if(|input| input.arg == n) {
            match (whole, input.kind) {
                (false, _) => {}
                (true, Type::Tensor) => _ = cursor.tensor(),
                (true, _) => _ = cursor.number(),
            }
        }
    }
    Ok(args)
}
