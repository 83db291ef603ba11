//! The beginning and the end of a call: arguments checked and results looked at where they lie, without waiting for it.
//!
//! What is found stays in the record of the device until somebody looks ([`check`]): the first call since the last look,
//! and its status word. Kernels do nothing where an earlier one of their call has raised the word, so no wrong index is
//! ever followed.
#![expect(unsafe_code, reason = "kernels are launched with addresses of the call's arrays")]

use crate::memory::address;
use crate::primitives::{Compiled, Text, bits_of};
use crate::{Device, Stream};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Check;
use madelung_core::backend::Context;
use madelung_core::backend::status::Word;
use madelung_core::runtime::PRELUDE;
use madelung_core::structure::DevicePairs;
use madelung_core::structure::pairs::Kind;
use madelung_core::{Error, Result};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Conditions on the elements of an item, numbered as in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
enum Rule {
    Finite = 0,
    Positive = 1,
    Zero = 2,
    /// With a `limit` of 1 vectors may be zero.
    Cells = 3,
    AtMost = 4,
    Below = 5,
    Batch = 6,
    DerivedBatch = 7,
    Widened = 8,
    /// Nothing: each becomes the number whose bits `limit` has.
    Filled = 9,
    /// The conditions on a list: `limit` is its place in the table.
    Pairs = 10,
    NotNegative = 11,
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
    first: u32,
    blocks: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct List {
    narrow: u64,
    start: u64,
    end: u64,
    column: u64,
    triples: u64,
    packed: u64,
    row_of: u64,
    column_of: u64,
    rows: i64,
    columns: i64,
    capacity: i64,
    surplus: u64,
    directed: i32,
    full: i32,
}

/// Items and results of a launch, and lists.
const TABLE: usize = 16;
const LISTS: usize = 4;

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

/// Threads of a block that looks at all items of a small call, a few warps for each: so it can clear the call's word first.
const ALONE: usize = 512;
const WARP: usize = 32;

/// Numbers of u32 in the word of a call: the word itself, padded to 8 bytes, and for each list that is checked.
const WORDS: usize = Word::LEN.next_multiple_of(2);
const SURPLUS: usize = 4;

const CHECKS: Text = Text::new("checks", &[PRELUDE, include_str!("validation.cu")]);

fn program() -> Compiled {
    CHECKS.of(&[("REAL", "double")]).with(&["check", "settle"])
}

pub(crate) fn programs() -> Vec<Compiled> {
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

/// Arguments of a launch: the addresses of places.
#[doc(hidden)]
#[macro_export]
macro_rules! __arguments {
    ($($x:expr),* $(,)?) => { [$(std::ptr::from_ref($x).cast::<std::ffi::c_void>()),*] };
}
pub use __arguments as arguments;

/// Begins a call: see [`madelung_core::backend::Backend::begin`].
///
/// # Errors
/// Memory ran out; the driver's.
pub fn begin(
    stream: Stream,
    context: &Context<'_>,
    checks: &[(usize, Check<'_>)],
    fills: &mut [(&mut Array, f64)],
) -> Result<Array> {
    let real = |n: usize, view: &View<'_>, rule: Rule| Item {
        data: address(view),
        count: view.len() as i64,
        rule,
        kind: kind(view.dtype()),
        limit: 0,
        param: param(n),
        ptr: 0,
        atoms: 0,
        first: 0,
        blocks: blocks(view.len(), THREADS * ELEMENTS),
    };
    let integers = |n: usize, view: &View<'_>, rule: Rule, limit: usize| Item {
        limit: limit as i64,
        ..real(n, view, rule)
    };
    let (mut items, mut lists) = (vec![], vec![]);
    for (n, check) in checks {
        items.push(match check {
            Check::Finite(view) => real(*n, view, Rule::Finite),
            Check::Positive(view) => real(*n, view, Rule::Positive),
            Check::NotNegative(view) => real(*n, view, Rule::NotNegative),
            Check::Zero(view) => real(*n, view, Rule::Zero),
            Check::Cells(view, are_open) => {
                Item { limit: i64::from(*are_open), ..real(*n, view, Rule::Cells) }
            }
            Check::AtMost(view, limit) => integers(*n, view, Rule::AtMost, *limit),
            Check::Below(view, limit) => integers(*n, view, Rule::Below, *limit),
            Check::Widened { narrow, wide, limit } => {
                Item { ptr: address(wide), ..integers(*n, narrow, Rule::Widened, *limit) }
            }
            Check::Batch { idx, ptr, derived } => {
                let rule = if *derived { Rule::DerivedBatch } else { Rule::Batch };
                let count = idx.len().max(ptr.len());
                Item {
                    count: count as i64,
                    ptr: address(ptr),
                    atoms: idx.len() as i64,
                    blocks: blocks(count, THREADS * ELEMENTS),
                    ..integers(*n, idx, rule, ptr.len() - 1)
                }
            }
            Check::Pairs { list, systems } => {
                lists.push((*list, systems.as_ref()));
                Item {
                    count: list.rows() as i64,
                    // A warp for each row.
                    blocks: blocks(list.rows() * 32, THREADS),
                    ..integers(*n, &list.others(), Rule::Pairs, lists.len() - 1)
                }
            }
        });
    }
    for (array, x) in fills {
        let bits = bits_of(array.dtype(), *x)?;
        items.push(Item { limit: bits.cast_signed(), ..real(0, &array.view(), Rule::Filled) });
    }
    items.retain(|item| item.count > 0);
    let warps = |item: &Item| match item.rule {
        Rule::Pairs => item.count as usize,
        _ => (item.count as usize).div_ceil(4 * ELEMENTS * WARP),
    };
    let is_alone = (1..=TABLE).contains(&items.len())
        && lists.len() <= LISTS
        && items.iter().map(warps).sum::<usize>() <= ALONE / WARP;
    let words = [WORDS + SURPLUS * lists.len()];
    let word = if is_alone {
        items.iter_mut().for_each(|item| item.blocks = warps(item) as u32);
        context.allocator.room(DType::I32, &words)?
    } else {
        context.allocator.zeros(DType::I32, &words)?
    };
    let cleared = if is_alone { words[0] as i32 } else { 0 };
    let status = address(&word.view());
    let surplus = |n: usize| status + 4 * (WORDS + SURPLUS * n) as u64;
    let kernel = program().function(stream.device(), "check")?;
    let mut left = items.as_slice();
    while !left.is_empty() {
        let (mut table, mut listed) = (vec![], vec![]);
        let mut first = 0;
        while let Some((item, rest)) = left.split_first() {
            let is_list = item.rule == Rule::Pairs;
            if table.len() == TABLE || (is_list && listed.len() == LISTS) {
                break;
            }
            let mut item = Item { first, ..*item };
            if is_list {
                let n = item.limit as usize;
                item.limit = listed.len() as i64;
                let (list, systems) = lists[n];
                listed.push(as_listed(list, systems, surplus(n)));
            }
            first += item.blocks;
            table.push(item);
            left = rest;
        }
        let count = table.len() as i32;
        table.resize(TABLE, table[0]);
        listed.resize(LISTS, List::default());
        // SAFETY: the addresses are those of the arrays that the items name, with as many elements; what is written is a
        // room that the call's caller has lent for it, the call's own word, and arrays that it fills.
        unsafe {
            let arguments: [*const c_void; 5] = [
                table.as_ptr().cast(),
                (&raw const count).cast(),
                listed.as_ptr().cast(),
                (&raw const status).cast(),
                (&raw const cleared).cast(),
            ];
            let (blocks, threads) = if is_alone { (1, first * WARP as u32) } else { (first, THREADS as u32) };
            stream.launch(kernel, [blocks, 1, 1], [threads, 1, 1], &arguments)?;
        }
    }
    Ok(word)
}

fn as_listed(list: &DevicePairs<'_>, systems: Option<&[View<'_>; 2]>, surplus: u64) -> List {
    let or_none = |view: Option<&View<'_>>| view.map_or(0, address);
    let narrow = or_none(list.narrow());
    let [triples, packed] = [list.triples(), list.packed()].map(|view| or_none(view.as_ref()));
    let [row_of, column_of] = systems.map_or([0; 2], |of| of.each_ref().map(address));
    List {
        narrow,
        start: address(&list.starts()),
        end: address(&list.ends()),
        column: address(&list.others()),
        triples,
        packed,
        row_of,
        column_of,
        rows: list.rows() as i64,
        columns: list.columns() as i64,
        capacity: list.capacity() as i64,
        surplus,
        directed: i32::from(list.kind() == Kind::Directed),
        full: i32::from(list.kind() == Kind::Full),
    }
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

/// See [`madelung_core::backend::Backend::end`].
pub fn end(
    stream: Stream,
    context: &Context<'_>,
    word: Array,
    results: &mut [&mut Array],
    call: &str,
    arguments: &dyn Fn() -> Vec<String>,
) -> Result<()> {
    let (status, words) = (address(&word.view()), Word::LEN as i32);
    let (surplus, lists) = (status + 4 * WORDS as u64, ((word.view().len() - WORDS) / SURPLUS) as i32);
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
            let arguments = arguments![&table, &status, &words, &surplus, &lists, &record, &number];
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
