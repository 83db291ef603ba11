//! The beginning and the end of a call: arguments checked and results looked at where they lie, without waiting for it.
//!
//! What is found stays in the record of the device until somebody looks ([`check`]): the first call since the last look,
//! and its status word. Kernels do nothing where an earlier one of their call has raised the word, so no wrong index is
//! ever followed.
#![expect(unsafe_code, reason = "kernels are launched with addresses of the call's arrays")]

use super::memory::address;
use super::primitives::{Compiled, Text};
use super::{Device, Function, Stream};
use crate::array::{Array, DType, View};
use crate::backend::Context;
use crate::backend::remote::Check;
use crate::backend::status::Word;
use crate::device::{DeviceArg, DeviceBatch, DevicePairs};
use crate::pairs::Kind;
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What has to hold for the elements of an item; numbered as in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
enum Rule {
    Finite = 0,
    Positive = 1,
    Zero = 2,
    Cells = 3,
    AtMost = 4,
    Below = 5,
    Batch = 6,
    DerivedBatch = 7,
    Widened = 8,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Item {
    data: u64,
    count: i64,
    rule: Rule,
    kind: i32,
    limit: i64,
    param: u32,
    ptr: u64,
    atoms: i64,
}

/// Items and results of a launch.
const TABLE: usize = 16;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Outcome {
    data: u64,
    count: i64,
    kind: i32,
}

/// Elements that a thread looks at, roughly, and threads of a block.
const ELEMENTS: usize = 4;
const THREADS: usize = 256;

/// Numbers of u32 in the word of a call: the word itself, padded to 8 bytes, and a sum for each list that is checked.
const WORDS: usize = Word::LEN.next_multiple_of(2);

const CHECKS: Text = Text::new("checks", concat!(include_str!("../prelude.cuh"), include_str!("checks.cu")));

fn program() -> Compiled {
    CHECKS.of(&[("REAL", "double")]).with(&["check_items", "check_pairs", "check_surplus", "settle"])
}

pub(super) fn programs() -> Vec<Compiled> {
    vec![program()]
}

/// The size of an element as the text knows it.
fn kind(dtype: DType) -> i32 {
    if dtype == DType::BF16 { 3 } else { dtype.size() as i32 }
}

/// The parameter of an argument in a word.
fn param(arg: usize) -> u32 {
    arg as u32 + 1
}

fn blocks(elements: usize, each: usize) -> u32 {
    elements.div_ceil(each).clamp(1, 1 << 16) as u32
}

/// An argument of a launch.
macro_rules! arguments {
    ($($x:expr),* $(,)?) => { [$(std::ptr::from_ref($x).cast::<std::ffi::c_void>()),*] };
}
pub(super) use arguments;

/// See [`crate::backend::remote::Remote::begin`].
pub(super) fn begin(stream: Stream, context: &Context<'_>, checks: &[(usize, Check<'_>)]) -> Result<Array> {
    let kernel = |name| program().function(stream.device(), name);
    let word = context.allocator.zeros(DType::I32, &[WORDS + 2 * checks.len()])?;
    let status = address(&word.view());
    let mut items = vec![];
    let real = |n: usize, view: &View<'_>, rule: Rule| Item {
        data: address(view),
        count: view.len() as i64,
        rule,
        kind: kind(view.dtype()),
        limit: 0,
        param: param(n),
        ptr: 0,
        atoms: 0,
    };
    let integers = |n: usize, view: &View<'_>, rule: Rule, limit: usize| Item {
        limit: limit as i64,
        ..real(n, view, rule)
    };
    let mut lists = vec![];
    for (n, check) in checks {
        match check {
            Check::Finite(view) => items.push(real(*n, view, Rule::Finite)),
            Check::Positive(view) => items.push(real(*n, view, Rule::Positive)),
            Check::Zero(view) => items.push(real(*n, view, Rule::Zero)),
            Check::Cells(view) => items.push(real(*n, view, Rule::Cells)),
            Check::Integers { arg: DeviceArg::Map(map), .. } if !map.is_checked() => {
                items.push(integers(*n, map.of(), Rule::Below, map.into_len()));
            }
            Check::Integers { arg: DeviceArg::Batch(batch), .. } if !batch.is_checked() => {
                let rule = if batch.is_derived() { Rule::DerivedBatch } else { Rule::Batch };
                items.push(Item {
                    count: batch.atoms().max(batch.systems() + 1) as i64,
                    ptr: address(batch.ptr()),
                    atoms: batch.atoms() as i64,
                    ..integers(*n, batch.idx(), rule, batch.systems())
                });
            }
            Check::Integers { arg: DeviceArg::Pairs(list), batches } => {
                // Whether it has passed its capacity can change with every search.
                if let Some(narrow) = list.narrow() {
                    let ptr = address(list.starts());
                    items.push(Item { ptr, ..integers(*n, narrow, Rule::Widened, list.capacity()) });
                } else if list.is_checked() {
                    items.push(integers(*n, list.ends(), Rule::AtMost, list.capacity()));
                }
                if !list.is_checked() {
                    lists.push((param(*n), *list, *batches));
                }
            }
            Check::Integers { .. } => {}
        }
    }
    items.retain(|item| item.count > 0);
    for some in items.chunks(TABLE) {
        let mut table = [some[0]; TABLE];
        table[..some.len()].copy_from_slice(some);
        let most = some.iter().map(|item| item.count as usize).max().unwrap_or(0);
        let grid = [blocks(most, THREADS * ELEMENTS), some.len() as u32, 1];
        // SAFETY: the addresses are those of the arrays that the items name, with as many elements; what is written is a
        // room that the call's caller has lent for it.
        unsafe {
            stream.launch(
                kernel("check_items")?,
                grid,
                [THREADS as u32, 1, 1],
                &arguments![&table, &status],
            )?
        };
    }
    for (at, (param, list, batches)) in lists.into_iter().enumerate() {
        let surplus = status + 4 * (WORDS + 2 * at) as u64;
        let kernels = [kernel("check_pairs")?, kernel("check_surplus")?];
        check_pairs(stream, kernels, list, batches, status, param, surplus)?;
    }
    Ok(word)
}

fn check_pairs(
    stream: Stream,
    [kernel, surplus_kernel]: [Function; 2],
    list: &DevicePairs<'_>,
    batches: Option<[&DeviceBatch<'_>; 2]>,
    word: u64,
    param: u32,
    surplus: u64,
) -> Result<()> {
    if list.rows() == 0 {
        return Ok(());
    }
    let (start, end, column) = (address(list.starts()), address(list.ends()), address(list.others()));
    let [triples, packed] = [list.triples(), list.packed()].map(|view| view.map_or(0, address));
    // One system has no border to cross.
    let batches = batches.filter(|of| of.iter().any(|batch| batch.systems() != 1));
    let [row_of, column_of] = batches.map_or([0; 2], |of| of.map(|batch| address(batch.idx())));
    let (rows, columns, capacity) = (list.rows() as i64, list.columns() as i64, list.capacity() as i64);
    let (directed, full) = (i32::from(list.kind() == Kind::Directed), i32::from(list.kind() == Kind::Full));
    let grid = [(list.rows() * 32).div_ceil(THREADS) as u32, 1, 1];
    // SAFETY: the arrays have the lengths that the kernel is told, and it goes no further.
    unsafe {
        let arguments = arguments![
            &start, &end, &column, &triples, &packed, &row_of, &column_of, &rows, &columns, &capacity,
            &directed, &full, &word, &param, &surplus,
        ];
        stream.launch(kernel, grid, [THREADS as u32, 1, 1], &arguments)?;
        if full != 0 {
            stream.launch(surplus_kernel, [1; 3], [1; 3], &arguments![&surplus, &word, &param])?;
        }
    }
    Ok(())
}

/// The calls that a record can name: their names, and those of their arguments.
#[derive(Default)]
struct Calls {
    numbers: HashMap<String, u32>,
    names: Vec<(String, Vec<String>)>,
}

fn calls() -> &'static Mutex<Calls> {
    static CALLS: OnceLock<Mutex<Calls>> = OnceLock::new();
    CALLS.get_or_init(Mutex::default)
}

/// The number of a call, from 1 on.
fn number(call: &str, arguments: &dyn Fn() -> Vec<String>) -> u32 {
    let mut calls = calls().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(number) = calls.numbers.get(call) {
        return *number;
    }
    calls.names.push((call.to_string(), arguments()));
    let number = calls.names.len() as u32;
    calls.numbers.insert(call.to_string(), number);
    number
}

/// See [`crate::backend::remote::Remote::end`].
pub(super) fn end(
    stream: Stream,
    context: &Context<'_>,
    word: Array,
    results: &mut [&mut Array],
    call: &str,
    arguments: &dyn Fn() -> Vec<String>,
) -> Result<()> {
    let (status, words) = (address(&word.view()), Word::LEN as i32);
    let (record, number) = (stream.device().record()?, number(call, arguments));
    let settle = program().function(stream.device(), "settle")?;
    let outcomes = results.iter().filter(|array| array.dtype().is_real()).map(|array| Outcome {
        data: address(&array.view()),
        count: array.view().len() as i64,
        kind: kind(array.dtype()),
    });
    let outcomes: Vec<Outcome> = outcomes.collect();
    // What was raised is recorded without results too.
    let empty = [Outcome { data: 0, count: 0, kind: 8 }];
    for some in if outcomes.is_empty() { &empty[..] } else { &outcomes }.chunks(TABLE) {
        let mut table = [empty[0]; TABLE];
        table[..some.len()].copy_from_slice(some);
        let most = some.iter().map(|o| o.count as usize).max().unwrap_or(0);
        let grid = [blocks(most, THREADS * ELEMENTS), some.len() as u32, 1];
        // SAFETY: the addresses are those of the results, with as many elements; the record has room for a word.
        unsafe {
            let arguments = arguments![&table, &status, &words, &record, &number];
            stream.launch(settle, grid, [THREADS as u32, 1, 1], &arguments)?;
        }
    }
    context.allocator.recycle(word);
    Ok(())
}

/// The first error of a call on a device since the last look, for which it waits.
///
/// # Errors
/// That one; it is then forgotten.
pub fn check(device: &'static Device) -> Result<()> {
    let record = device.take_record()?;
    let Some(call) = (record[0] as usize).checked_sub(1) else { return Ok(()) };
    let word = Word::of(std::array::from_fn(|n| record[1 + n]));
    let calls = calls().lock().unwrap_or_else(PoisonError::into_inner);
    let Some((name, arguments)) = calls.names.get(call) else {
        return Err(Error::Unsupported(format!("a record of call {call}, which no call has written")));
    };
    let named = |param: Option<usize>| match param.and_then(|p| arguments.get(p)) {
        Some(argument) => format!("{name}::{argument}"),
        None => name.clone(),
    };
    word.error(named).map_or(Ok(()), Err)
}
