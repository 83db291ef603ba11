//! Views and numbers as the arguments of an op.

use crate::Entry;
use crate::layout::{Input, Part, Type};
use crate::structures::{Says, build, parts};
use madelung_core::array::View;
use madelung_core::backend::Context;
use madelung_core::op::{Arg, ArgKind, Size};
use madelung_core::structure::Structure;
use madelung_core::{Error, Result};

/// Tensor, number or list of integers of a call.
#[derive(Clone, Copy)]
enum Given<'a, 'n> {
    Tensor(&'a View<'a>),
    Number(u64),
    Numbers(&'n [u64]),
}

/// Tensors and numbers of a call in the order of an op's inputs, each list in its own order; ahead of the integers of a list
/// stands their number.
pub(crate) struct Inputs<'a, 'n> {
    entry: &'a Entry,
    tensors: &'a [View<'a>],
    numbers: &'n [u64],
}

impl<'a, 'n> Inputs<'a, 'n> {
    pub(crate) fn new(entry: &'a Entry, tensors: &'a [View<'a>], numbers: &'n [u64]) -> Self {
        Self { entry, tensors, numbers }
    }

    fn iter(&self) -> impl Iterator<Item = (&'a Input, Given<'a, 'n>)> + use<'a, 'n> {
        let (mut tensors, mut numbers) = (self.tensors.iter(), self.numbers);
        self.entry.inputs.iter().map(move |input| {
            let given = match input.kind {
                Type::Tensor => Given::Tensor(tensors.next().expect("as many tensors as the inputs say")),
                Type::Int | Type::Float => Given::Number(taken(&mut numbers, 1)[0]),
                Type::Integers => {
                    let count = taken(&mut numbers, 1)[0];
                    Given::Numbers(taken(&mut numbers, count as usize))
                }
            };
            (input, given)
        })
    }

    /// The size of a dimension, which an array has or an integer says.
    pub(crate) fn size_of(&self, dim: &str) -> Result<usize> {
        let args = &self.entry.op.args;
        let says = |(input, given): (&Input, Given<'_, '_>)| match (given, &args[input.arg].kind) {
            (Given::Tensor(view), ArgKind::Real { shape, zero: false } | ArgKind::Ints { shape, .. }) => {
                let axis = shape.iter().position(|s| matches!(s, Size::Dim(d) if d == dim))?;
                Some(view.shape().get(axis).copied().unwrap_or(0))
            }
            (Given::Number(n), ArgKind::IntScalar) if args[input.arg].name == dim => {
                Some(usize::try_from(n as i64).unwrap_or(0))
            }
            (given, kind) => {
                let declared = kind.structure()?;
                match (given, input.says?) {
                    (Given::Tensor(view), Says::Rows(at, more)) if declared.dims[at] == Some(dim) => {
                        Some(view.shape().first().copied().unwrap_or(0).saturating_sub(more))
                    }
                    (Given::Number(n), Says::Size(at)) if declared.dims[at] == Some(dim) => {
                        Some(usize::try_from(n as i64).unwrap_or(0))
                    }
                    _ => None,
                }
            }
        };
        let size = self.iter().find_map(says);
        size.ok_or_else(|| Error::argument(dim, "a dimension that an argument has", "none"))
    }

    /// The structured arguments, checked, by argument.
    pub(crate) fn structures(&self, context: &Context<'_>) -> Result<Vec<Option<Box<dyn Structure + 'a>>>> {
        let mut inputs = self.iter().peekable();
        let passed = self.entry.op.passed();
        let mut structures = Vec::with_capacity(passed.len());
        for (n, spec) in passed.iter().enumerate() {
            let Some(declared) = spec.kind.structure() else {
                _ = inputs.next_if(|(input, _)| input.arg == n);
                structures.push(None);
                continue;
            };
            let (mut of, mut numbers) = (Vec::with_capacity(3), Vec::with_capacity(5));
            for part in parts(declared.kind) {
                match (inputs.next_if(|(input, _)| input.arg == n && input.part == part.part), part.says) {
                    (Some((_, Given::Tensor(view))), _) if view.dtype().is_real() => {
                        let got = view.dtype().to_string();
                        return Err(Error::argument(&spec.name, "a tensor of int32 or int64", got));
                    }
                    (Some((_, Given::Tensor(view))), _) => of.push(view),
                    (Some((_, Given::Number(number))), _) => numbers.push(number as i64),
                    (Some((_, Given::Numbers(list))), _) => numbers.extend(list.iter().map(|n| *n as i64)),
                    (None, Says::Size(dim)) => {
                        numbers.push(self.size_of(declared.dims[dim].unwrap_or_default())? as i64);
                    }
                    (None, _) => unreachable!("the inputs are those of the op"),
                }
            }
            let made = build(declared.kind, context, &of, &numbers);
            structures.push(Some(made.map_err(|error| renamed(error, &spec.name))?));
        }
        Ok(structures)
    }

    /// The arguments.
    pub(crate) fn arguments(&self, structures: &'a [Option<Box<dyn Structure + 'a>>]) -> Vec<Arg<'a>> {
        let mut inputs = self.iter().peekable();
        let mut args = Vec::with_capacity(structures.len());
        for (n, structure) in structures.iter().enumerate() {
            let mut arg = structure.as_ref().map(|structure| Arg::Structure(&**structure));
            while let Some((input, given)) = inputs.next_if(|(input, _)| input.arg == n) {
                arg.get_or_insert_with(|| match (given, input.part, &self.entry.op.args[n].kind) {
                    (Given::Tensor(view), Part::Real, ArgKind::Real { zero: true, .. })
                        if view.shape() == [0] =>
                    {
                        Arg::Zero
                    }
                    (Given::Tensor(view), ..) => Arg::Array(view.clone()),
                    (Given::Number(bits), Part::Scalar, _) => Arg::Real(f64::from_bits(bits)),
                    (Given::Number(number), ..) => Arg::Int(number as i64),
                    (Given::Numbers(_), ..) => unreachable!("lists of integers are parts of structures"),
                });
            }
            args.push(arg.expect("every argument has inputs"));
        }
        args
    }
}

/// The next numbers of a call.
fn taken<'n>(numbers: &mut &'n [u64], count: usize) -> &'n [u64] {
    numbers.split_off(..count).expect("as many numbers as the inputs say")
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
