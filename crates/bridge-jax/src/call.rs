//! The handler of members of ops.
//!
//! Operands are the tensors of the op's inputs, then the present ones (by `mask`) of cotangents, residuals and
//! directions; numbers are attributes. Under jit a pair list has a capacity beyond its pairs: on the CPU the handler
//! removes unused entries, and results with an element per pair are padded with zeros. If the capacity is too small,
//! all results are NaN. On a device, where the host reads no offsets, the op itself does both.

use crate::ffi::{Call, Operand, Output};
use madelung_bridge::layout::{Part, Type};
use madelung_bridge::{Entry, Extra, find};
use madelung_core::array::{Array, Data, View};
use madelung_core::backend::Context;
use madelung_core::op::{ArgKind, Size};
use madelung_core::structure::pairs::clusters::{OVERFLOW, STALE};
use madelung_core::{Error, Result};
use std::collections::BTreeMap;

/// The arguments of a member, read from a frame.
pub(crate) struct MemberCall<'a> {
    pub(crate) entry: &'static Entry,
    pub(crate) mask: u64,
    pub(crate) want: u64,
    pub(crate) numbers: Vec<u64>,
    pub(crate) operands: Vec<Operand<'a>>,
    pub(crate) outputs: Vec<Output<'a>>,
}

impl<'a> MemberCall<'a> {
    pub(crate) fn read(call: &Call<'a>) -> Result<Self> {
        let entry = find(call.text("target")?)?;
        let mask = if entry.member.has_mask() { call.integer("mask")? } else { 0 };
        let want = if entry.member.has_want() { call.integer("want")? } else { 0 };
        let mut numbers = vec![];
        for input in entry.inputs.iter() {
            match input.kind {
                Type::Tensor => {}
                Type::Int => numbers.push(call.integer(&input.name)?),
                Type::Float => numbers.push(call.real(&input.name)?),
                Type::Integers => {
                    let list = integers(&input.name, call.text(&input.name)?)?;
                    numbers.push(list.len() as u64);
                    numbers.extend(list);
                }
            }
        }
        let member =
            Self { entry, mask, want, numbers, operands: call.operands()?, outputs: call.outputs()? };
        member.check()?;
        Ok(member)
    }

    /// Checks that there are as many operands as the member takes.
    pub(crate) fn check(&self) -> Result<()> {
        let expected = self.entry.tensors() + (0..self.extras()).filter(|n| self.is_present(*n)).count();
        if self.operands.len() == expected {
            return Ok(());
        }
        let got = self.operands.len().to_string();
        Err(Error::argument("operands", format!("{expected} arrays"), got))
    }

    /// The largest number of arrays that follow the op's inputs.
    fn extras(&self) -> usize {
        self.entry.member.extra_tensors(self.entry.counts)
    }

    /// Whether the n-th array after the op's inputs is present.
    fn is_present(&self, n: usize) -> bool {
        self.mask >> n & 1 != 0
    }

    /// The results of the member for the views that `view` makes of operands and their names.
    pub(crate) fn evaluate<'v>(
        &'v self,
        context: &Context<'_>,
        view: impl Fn(&'v Operand<'a>, &dyn Fn() -> String) -> Result<View<'v>>,
    ) -> Result<Vec<Array>> {
        let (entry, is_present) = (self.entry, |n: usize| self.is_present(n));
        let mut views = self
            .operands
            .iter()
            .enumerate()
            .map(|(n, operand)| view(operand, &|| name(entry, n, &is_present)));
        let tensors: Vec<View<'_>> = views.by_ref().take(entry.tensors()).collect::<Result<_>>()?;
        let extra = (0..self.extras()).map(|n| is_present(n).then(|| views.next()).flatten().transpose());
        let extra: Vec<Option<View<'_>>> = extra.collect::<Result<_>>()?;
        let evaluated = entry.evaluate(context, &tensors, &self.numbers, &extra, self.want)?;
        let arrays = evaluated.values.into_iter().chain(evaluated.gradients);
        let arrays: Vec<Array> = arrays.chain(evaluated.saved.into_iter().flatten()).collect();
        if arrays.len() != self.outputs.len() {
            let (expected, got) = (format!("{} arrays", arrays.len()), self.outputs.len().to_string());
            return Err(Error::argument("results", expected, got));
        }
        Ok(arrays)
    }
}

/// Runs a member on the CPU.
pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let mut member = MemberCall::read(call)?;
    let mask = member.mask;
    let Some(cuts) = cut(member.entry, &mut member.operands, &|n| mask >> n & 1 != 0)? else {
        return member.outputs.iter_mut().try_for_each(Output::poison);
    };
    let context = madelung_cpu::context();
    let arrays = member.evaluate(&context, |operand, name| operand.view(name))?;
    for (array, output) in arrays.into_iter().zip(&mut member.outputs) {
        if cuts.is_empty() && array.shape() != output.shape {
            let got = format!("shape {:?}", output.shape);
            return Err(Error::argument("result", format!("shape {:?}", array.shape()), got));
        }
        output.write(&array.view())?;
        context.allocator.recycle(array);
    }
    Ok(())
}

/// The integers of a list, which is a text of them.
fn integers(name: &str, text: &str) -> Result<Vec<u64>> {
    let numbers = text.split_ascii_whitespace().map(|n| n.parse::<i64>().map(i64::cast_unsigned));
    let wrong = |_| Error::argument(name, "integers with spaces between them", text);
    numbers.collect::<std::result::Result<_, _>>().map_err(wrong)
}

/// The name of operand `n`, for errors.
fn name(entry: &Entry, n: usize, is_present: &dyn Fn(usize) -> bool) -> String {
    let count = entry.tensors();
    let extra = n.checked_sub(count).and_then(|n| (0..).filter(|k| is_present(*k)).nth(n));
    entry.name(extra.map_or(n, |k| count + k))
}

/// Cuts unused entries of pair lists off the operands. Returns the dimensions that got smaller, with their sizes;
/// `None` if a list is too short for its pairs.
fn cut<'e>(
    entry: &'e Entry,
    operands: &mut [Operand<'_>],
    is_present: &dyn Fn(usize) -> bool,
) -> Result<Option<BTreeMap<&'e str, usize>>> {
    let mut cuts = BTreeMap::new();
    let tensors: Vec<_> = entry.inputs.iter().filter(|input| input.kind == Type::Tensor).collect();
    for (n, input) in tensors.iter().enumerate().filter(|(_, input)| input.part == Part::Ptr) {
        // Ranges of rows leave nothing behind the last one.
        if operands[n].shape.len() == 2 {
            continue;
        }
        let first = first_two(&operands[n])?;
        if first[0] == STALE || (operands[n + 1].shape.len() == 2 && first[1] == OVERFLOW) {
            return Ok(None);
        }
        // A list in clusters has its counts in its frame.
        if operands[n + 1].shape.len() == 2 {
            continue;
        }
        let (Some(pairs), Some(last)) = (last(&operands[n])?, operands[n + 1].shape.first().copied()) else {
            continue;
        };
        if pairs > last {
            return Ok(None);
        }
        if pairs < last {
            operands[n + 1].shape[0] = pairs;
            if operands[n + 2].shape.first() == Some(&last) {
                operands[n + 2].shape[0] = pairs;
            }
            if let ArgKind::Pairs { entries: Some(dim), .. } = &entry.op.args[input.arg].kind {
                cuts.insert(&**dim, pairs);
            }
        }
    }
    if cuts.is_empty() {
        return Ok(Some(cuts));
    }
    let rows = |shape: &'e [Size]| match shape.first() {
        Some(Size::Dim(dim)) => Some(&**dim),
        _ => None,
    };
    let rows_of = |arg: usize| match &entry.op.args[arg].kind {
        ArgKind::Real { shape, .. } | ArgKind::Ints { shape, .. } => rows(shape),
        ArgKind::Map { rows, .. } => Some(&**rows),
        _ => None,
    };
    let of_inputs = tensors.iter().map(|input| match input.part {
        Part::Real | Part::Ints | Part::MapOf => rows_of(input.arg),
        _ => None,
    });
    let extras = (0..entry.member.extra_tensors(entry.counts)).filter(|k| is_present(*k));
    let of_extras = extras.map(|k| match entry.extra(k) {
        Extra::Cotangent(output) => rows(&entry.op.outputs[output].shape),
        Extra::Tangent(arg) => rows_of(arg),
        Extra::Saved(_) => None,
    });
    for (operand, dim) in operands.iter_mut().zip(of_inputs.chain(of_extras)) {
        if let Some(pairs) = dim.and_then(|dim| cuts.get(dim))
            && let Some(rows) = operand.shape.first_mut()
        {
            *rows = (*rows).min(*pairs);
        }
    }
    Ok(Some(cuts))
}

/// The first two integers of a list, which say that it is out of date, or had too little room.
fn first_two(index: &Operand<'_>) -> Result<[i32; 2]> {
    let view = index.view(&|| "neighbors".into())?;
    Ok(match view.data() {
        Data::I32([first, second, ..]) => [*first, *second],
        _ => [0; 2],
    })
}

/// The last offset of a list.
fn last(ptr: &Operand<'_>) -> Result<Option<usize>> {
    let view = ptr.view(&|| "neighbor_ptr".into())?;
    let last = match view.data() {
        Data::I32(d) => d.last().map(|x| i64::from(*x)),
        Data::I64(d) => d.last().copied(),
        _ => None,
    };
    Ok(last.and_then(|x| usize::try_from(x).ok()))
}
