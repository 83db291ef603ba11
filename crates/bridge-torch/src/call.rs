//! A call of the dispatcher as a call of an op.

use crate::layout::{CHECKED, Input, KINDS, Part};
use crate::member::{Counts, Member};
use crate::shim::shim;
use crate::tensor::{Looked, Tensor, TorchMemory};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::batch::Batch;
use madelung_core::map::Map;
use madelung_core::mesh::Mesh;
use madelung_core::op::{Arg, ArgKind, Cotangent, Op, Request, Size};
use madelung_core::pairs::{Kind, PairList};
use madelung_core::{Error, Result};
use std::sync::Arc;

/// A member of an op's family that the dispatcher can call.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) op: Arc<Op>,
    pub(crate) inputs: Arc<[Input]>,
    pub(crate) member: Member,
    pub(crate) counts: Counts,
    /// Whether what nobody wants comes back as an empty tensor, as graphs need it, and not as none.
    empties: bool,
    /// Positions of the differentiable arguments.
    reals: Vec<usize>,
}

impl Entry {
    pub(crate) fn new(op: &Arc<Op>, inputs: &Arc<[Input]>, member: Member, empties: bool) -> Self {
        let reals = (0..op.args.len()).filter(|n| op.is_differentiable(*n)).collect();
        Self { op: op.clone(), inputs: inputs.clone(), member, counts: Counts::of(op), empties, reals }
    }

    /// The name of tensor `n` of a call, for errors.
    fn name(&self, n: usize) -> String {
        let mut tensors = self.inputs.iter().filter(|i| i.kind == crate::layout::Type::Tensor);
        if let Some(input) = tensors.clone().nth(n) {
            return input.name.clone();
        }
        let extra = n - tensors.by_ref().count();
        let Counts { outputs, reals, .. } = self.counts;
        let gradient = matches!(self.member, Member::Gradient | Member::GradientTangent);
        match gradient {
            true if extra < outputs => format!("cotangent of {}", self.op.outputs[extra].name),
            true if self.member == Member::Gradient => format!("saved array {}", extra - outputs),
            true => format!("direction of {}", self.op.args[self.reals[extra - outputs]].name),
            false => format!("direction of {}", self.op.args[self.reals[extra % reals]].name),
        }
    }
}

/// Arguments that are made of tensors.
enum Made<'a> {
    Nothing,
    Batch(Batch<'a>),
    Pairs(Box<PairList<'a>>),
    Map(Map<'a>),
    Mesh(Mesh),
}

/// Runs a member.
pub(crate) fn run(entry: &Entry, tensors: Vec<Tensor>, numbers: &[u64]) -> Result<Vec<Tensor>> {
    let flags = usize::from(entry.member.has_mask()) + usize::from(entry.member.has_want());
    let (numbers, flags) = numbers.split_at(numbers.len() - flags);
    let mask = if entry.member.has_mask() { flags[0] } else { 0 };
    let want = if entry.member.has_want() { flags[flags.len() - 1] } else { 0 };
    let count = tensors.len() - entry.member.extra_tensors(entry.counts);
    let mut tensors = tensors.into_iter().enumerate();
    let look = |(n, tensor): (usize, Tensor)| tensor.look(&|| entry.name(n));
    let given: Vec<Looked> = tensors.by_ref().take(count).map(look).collect::<Result<_>>()?;
    // What stands for zero is not looked at.
    let extra = tensors.map(|(n, tensor)| {
        let there = mask >> (n - count) & 1 != 0;
        there.then(|| look((n, tensor))).transpose()
    });
    let extra: Vec<Option<Looked>> = extra.collect::<Result<_>>()?;
    let made = make(entry, &given, numbers)?;
    let args = arguments(entry, &given, numbers, &made)?;
    let context = match shim().threads() {
        Some(threads) => Context::default().with_max_threads(threads),
        None => Context::default(),
    };
    let rows = |n: usize| match entry.op.outputs[n].shape.as_slice() {
        [Size::Dim(dim)] => size_of(entry, &given, numbers, dim).ok(),
        _ => None,
    };
    evaluate(entry, &context, &args, &extra, want, &rows)
}

/// The tensors and numbers of each argument, in order.
struct Cursor<'a, 'n> {
    tensors: std::slice::Iter<'a, Looked>,
    numbers: std::slice::Iter<'n, u64>,
}

impl<'a> Cursor<'a, '_> {
    fn tensor(&mut self) -> &'a Looked {
        self.tensors.next().expect("as many tensors as the inputs say")
    }

    fn number(&mut self) -> u64 {
        *self.numbers.next().expect("as many numbers as the inputs say")
    }

    fn size(&mut self, name: &str) -> Result<usize> {
        let n = self.number() as i64;
        usize::try_from(n).map_err(|_| Error::argument(name, "a number ≥ 0", n.to_string()))
    }
}

/// The size of a dimension, which an array has or an integer says.
fn size_of(entry: &Entry, given: &[Looked], numbers: &[u64], dim: &str) -> Result<usize> {
    let (mut tensor, mut number) = (0, 0);
    let args = &entry.op.args;
    for input in entry.inputs.iter() {
        let at = |looked: &Looked, axis: usize| looked.shape().get(axis).copied().unwrap_or(0);
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
            crate::layout::Type::Tensor => tensor += 1,
            _ => number += 1,
        }
    }
    Err(Error::argument(dim, "a dimension that an argument has", "none"))
}

/// Batches, lists, maps and meshes, checked.
fn make<'a>(entry: &Entry, given: &'a [Looked], numbers: &[u64]) -> Result<Vec<Made<'a>>> {
    let mut cursor = Cursor { tensors: given.iter(), numbers: numbers.iter() };
    let has = |arg: usize, part: Part| entry.inputs.iter().any(|i| i.arg == arg && i.part == part);
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
                let systems = if has(n, Part::Systems) { cursor.size(name)? } else { size(systems)? };
                Made::Batch(Batch::from_idx_array(&of, Some(systems)).map_err(|e| renamed(e, name))?)
            }
            ArgKind::Pairs { columns, .. } => {
                let (ptr, others) = (integers(name, cursor.tensor())?, integers(name, cursor.tensor())?);
                let shifts = integers(name, cursor.tensor())?;
                let kind = cursor.number() as i64;
                let columns = if has(n, Part::Columns) { cursor.size(name)? } else { size(columns)? };
                let list = pairs(&ptr, &others, &shifts, kind, columns).map_err(|e| renamed(e, name))?;
                Made::Pairs(Box::new(list))
            }
            ArgKind::Grid { .. } => return Err(Error::Unsupported("a grid in a call of PyTorch".into())),
            ArgKind::Map { into, .. } => {
                let of = integers(name, cursor.tensor())?;
                let into = if has(n, Part::Into) { cursor.size(name)? } else { size(into)? };
                Made::Map(Map::new(of.to_i32(name)?, into).map_err(|e| renamed(e, name))?)
            }
            ArgKind::Mesh { systems, .. } => {
                let sizes = [cursor.size(name)?, cursor.size(name)?, cursor.size(name)?];
                let order = cursor.size(name)?;
                let systems = if has(n, Part::Systems) { cursor.size(name)? } else { size(systems)? };
                Made::Mesh(Mesh::new(sizes, order, systems).map_err(|e| renamed(e, name))?)
            }
        });
    }
    Ok(made)
}

/// A tensor of integers.
fn integers<'a>(name: &str, looked: &'a Looked) -> Result<View<'a>> {
    if looked.dtype().is_real() {
        return Err(Error::argument(name, "a tensor of int32 or int64", looked.dtype().to_string()));
    }
    looked.view()
}

fn pairs<'a>(
    ptr: &View<'a>,
    others: &View<'a>,
    shifts: &View<'a>,
    kind: i64,
    columns: usize,
) -> Result<PairList<'a>> {
    let checked = kind & CHECKED != 0;
    let kind = match kind & !CHECKED {
        0 => Kind::Full,
        1 => Kind::Half,
        2 => Kind::Directed,
        _ => {
            let names = KINDS.iter().enumerate().map(|(n, name)| format!("{n} ({name})"));
            let expected = format!("a kind of list: {}", names.collect::<Vec<_>>().join(", "));
            return Err(Error::argument("pairs", expected, kind.to_string()));
        }
    };
    if checked {
        PairList::from_checked_csr_arrays(ptr, others, shifts, columns, kind)
    } else {
        PairList::from_csr_arrays(ptr, others, shifts, columns, kind)
    }
}

/// An error about an argument that the op has under another name says so.
fn renamed(error: Error, name: &str) -> Error {
    match error {
        Error::Argument { argument, expected, got } if argument != name => {
            Error::argument(format!("{name}: {argument}"), expected, got)
        }
        error => error,
    }
}

fn arguments<'a>(
    entry: &Entry,
    given: &'a [Looked],
    numbers: &[u64],
    made: &'a [Made<'a>],
) -> Result<Vec<Arg<'a>>> {
    let mut cursor = Cursor { tensors: given.iter(), numbers: numbers.iter() };
    let mut args = Vec::with_capacity(made.len());
    let mut inputs = entry.inputs.iter().peekable();
    for (n, (spec, made)) in entry.op.args.iter().zip(made).enumerate() {
        args.push(match (&spec.kind, made) {
            (_, Made::Batch(batch)) => Arg::Batch(batch),
            (_, Made::Pairs(list)) => Arg::Pairs(list),
            (_, Made::Map(map)) => Arg::Map(map),
            (_, Made::Mesh(mesh)) => Arg::Mesh(mesh),
            (ArgKind::Scalar, _) => Arg::Real(f64::from_bits(cursor.number())),
            (ArgKind::IntScalar, _) => Arg::Int(cursor.number() as i64),
            (ArgKind::Real { zero: true, .. }, _) => match cursor.tensor() {
                tensor if tensor.is_absent() => Arg::Zero,
                tensor => Arg::Array(tensor.view()?),
            },
            _ => Arg::Array(cursor.tensor().view()?),
        });
        let whole = !matches!(made, Made::Nothing);
        while let Some(input) = inputs.next_if(|input| input.arg == n) {
            match (whole, input.kind) {
                (false, _) => {}
                (true, crate::layout::Type::Tensor) => _ = cursor.tensor(),
                (true, _) => _ = cursor.number(),
            }
        }
    }
    Ok(args)
}

fn evaluate(
    entry: &Entry,
    context: &Context<'_>,
    args: &[Arg<'_>],
    extra: &[Option<Looked>],
    want: u64,
    rows: &dyn Fn(usize) -> Option<usize>,
) -> Result<Vec<Tensor>> {
    let (op, reals, context) = (&entry.op, &entry.reals, &Context { allocator: &TorchMemory, ..*context });
    let Counts { outputs, .. } = entry.counts;
    let view = |n: usize| extra[n].as_ref().map(Looked::view).transpose();
    // The direction whose tangents begin at `from`.
    let direction = |from: usize| -> Result<Vec<Option<View<'_>>>> {
        let mut tangents = vec![None; op.args.len()];
        for (n, arg) in reals.iter().enumerate() {
            tangents[*arg] = view(from + n)?;
        }
        Ok(tangents)
    };
    let cotangents = || -> Result<Vec<Option<Cotangent<'_>>>> {
        (0..outputs).map(|n| Ok(view(n)?.map(|w| cotangent(w, rows(n))))).collect()
    };
    let wanted =
        || reals.iter().enumerate().filter(|(n, _)| want >> n & 1 != 0).map(|(_, arg)| *arg).collect();
    let evaluated = match entry.member {
        Member::Value => op.evaluate(context, args, &Request { values: true, ..Request::default() })?,
        Member::Saving => {
            let by: Vec<usize> = wanted();
            op.evaluate(context, args, &Request { values: true, save: Some(&by), ..Request::default() })?
        }
        Member::Tangent => {
            let directions: [&[_]; 1] = [&direction(0)?];
            op.evaluate(context, args, &Request { directions: &directions, ..Request::default() })?
        }
        Member::SecondTangent => {
            let directions: [&[_]; 2] = [&direction(0)?, &direction(reals.len())?];
            op.evaluate(context, args, &Request { directions: &directions, ..Request::default() })?
        }
        Member::Gradient => {
            let saved = (0..entry.counts.saved).map(|n| view(outputs + n)).collect::<Result<Vec<_>>>()?;
            let (cotangents, gradients): (_, Vec<usize>) = (cotangents()?, wanted());
            let request = Request {
                cotangents: &cotangents,
                gradients: &gradients,
                saved: &saved,
                ..Request::default()
            };
            op.evaluate(context, args, &request)?
        }
        Member::GradientTangent => {
            let directions: [&[_]; 1] = [&direction(outputs)?];
            let (cotangents, gradients): (_, Vec<usize>) = (cotangents()?, wanted());
            let request = Request {
                cotangents: &cotangents,
                gradients: &gradients,
                directions: &directions,
                ..Request::default()
            };
            op.evaluate(context, args, &request)?
        }
    };
    let none = evaluated.values.first().or(evaluated.gradients.first()).map_or(DType::F32, Array::dtype);
    let mut results = Vec::with_capacity(entry.member.results(entry.counts));
    let mut give = |array: Option<Array>| -> Result<()> {
        results.push(match array {
            Some(array) => Tensor::from_array(array)?,
            None if entry.empties => Tensor::empty(none, &[0])?.0,
            None => Tensor::undefined()?,
        });
        Ok(())
    };
    match entry.member {
        Member::Gradient | Member::GradientTangent => {
            let mut gradients = evaluated.gradients.into_iter();
            for n in 0..reals.len() {
                give(if want >> n & 1 != 0 { gradients.next() } else { None })?;
            }
        }
        _ => {
            evaluated.values.into_iter().map(Some).try_for_each(&mut give)?;
            evaluated.saved.into_iter().try_for_each(&mut give)?;
        }
    }
    Ok(results)
}

/// A cotangent of an output of so many numbers, which kernels take in a cheaper form where it is the same for each.
fn cotangent(view: View<'_>, rows: Option<usize>) -> Cotangent<'_> {
    match view.uniform() {
        Some(x) if rows.is_some_and(|rows| view.shape() == [rows]) => Cotangent::Uniform(x),
        _ => Cotangent::Array(view),
    }
}
