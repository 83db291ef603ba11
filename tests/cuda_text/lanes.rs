//! Several threads per row: every kernel of the registry does what its Rust code does, in any order of the threads.

use super::*;
use crate::host::Scatter;

/// The text of every kernel, for rows of so many threads.
fn texts(dtype: DType, lanes: usize) -> Texts {
    let types = Types { storage: dtype, real: dtype, sums: DType::F64 };
    Texts::shared(&all_kernels(), types, lanes, Scatter::Atomic)
}

/// Against the Rust code, and the same bits in other orders. Emulated threads take long, so each number of lanes has some
/// of the inputs.
fn agrees(lanes: usize, inputs: &[Input]) {
    // As long as the test runs, like those of one thread per row.
    let texts: &'static Texts = Box::leak(Box::new(texts(DType::F64, lanes)));
    let on_order = |order| Host { texts, order };
    let mut worst = Worst::default();
    each(inputs, |asked| {
        let got = asked.ask(&on(&on_order(Order::Forwards)));
        worst.note(F64_BOUND, &got, &asked.ask(&Context::default()), asked);
        if asked.input.gathers() {
            for order in [Order::Backwards, Order::Shuffled(lanes as u64)] {
                let again = asked.ask(&on(&on_order(order)));
                assert!(arrays(&again).eq(arrays(&got)), "{order:?}: {}", asked.what());
            }
        }
    });
    worst.assert_below(F64_BOUND);
    let ran = texts.ran();
    let idle = parts_of(all_kernels()).map(|(_, part)| part.cuda.name).filter(|name| !ran.contains(name));
    assert_eq!(idle.collect::<Vec<_>>(), [""; 0], "no op ran them");
}

#[test]
fn two_threads_per_row() {
    agrees(2, &of_lists(DType::F64, &["one system, full list", "a batch, directed list"]));
}

#[test]
fn eight_threads_per_row() {
    agrees(8, &of_lists(DType::F64, &["one system, directed list", "a batch, full list"]));
}

#[test]
fn a_warp_per_row() {
    agrees(32, &of_lists(DType::F64, &["a batch, full list", "a batch, half list"]));
}

fn of_lists(dtype: DType, names: &[&str]) -> Vec<Input> {
    let mut found: Vec<Input> =
        inputs(dtype).into_iter().filter(|i| names.contains(&i.name.as_str())).collect();
    assert_eq!(found.len(), names.len());
    found.push(calls::uneven_rows(dtype));
    found
}
