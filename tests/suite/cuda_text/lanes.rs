//! Several threads per row: every kernel of the registry does what its Rust code does, in any order of the threads.

use super::*;
use crate::backends::asked::{F64_BOUND, Worst};
use crate::backends::calls::uneven_rows;
use madelung::cpu::Cpu;
use std::sync::{Mutex, PoisonError};

/// The Rust code, and which parts it ran.
#[derive(Default)]
struct Noting(Mutex<BTreeSet<&'static str>>);

madelung_stand_in::launches_by!(Noting, |noting, context, args| {
    noting.0.lock().unwrap_or_else(PoisonError::into_inner).insert(args.part.cuda.name);
    Cpu::new().launch(context, args)
});

/// Against the Rust code, and the same bits in other orders. Emulated threads take long, so each number of lanes has some
/// of the inputs and a turn, and of each input the questions that run a part for the first time.
fn agrees(turn: usize, lanes: usize, packed: bool, lists: &[&str]) {
    if !is_in_turn(turn, 6) {
        return;
    }
    let mut inputs: Vec<Input> = inputs(DType::F64);
    inputs.retain(|i| lists.contains(&i.name.as_str()));
    assert_eq!(inputs.len(), lists.len());
    inputs.push(uneven_rows(DType::F64));
    let types = Types { storage: DType::F64, real: DType::F64, sums: DType::F64 };
    // As long as the test runs, like those of one thread per row.
    let texts: &'static Texts =
        Box::leak(Box::new(Texts::new(&all_kernels(), types, lanes, Scatter::Atomic, packed)));
    let on_order = |order| Host { texts, order };
    let (mut worst, mut seen) = (Worst::default(), BTreeSet::new());
    each(&inputs, |asked| {
        let noting = Noting::default();
        let want = asked.ask(&Context { backend: &noting, ..madelung::cpu::context() });
        let parts = noting.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let new = parts.into_iter().filter(|part| seen.insert((asked.input.name.clone(), *part)));
        if new.count() == 0 {
            return;
        }
        let got = asked.ask(&on(&on_order(Order::Forwards)));
        worst.note(F64_BOUND, &got, &want, asked);
        if asked.adds_to_nodes() || asked.shares_elements_of_pairs() {
            return;
        }
        for order in [Order::Backwards, Order::Shuffled(lanes as u64)] {
            let again = asked.ask(&on(&on_order(order)));
            assert!(arrays(&again).eq(arrays(&got)), "{order:?}: {}", asked.what());
        }
    });
    worst.assert_below(F64_BOUND);
    assert_eq!(idle(texts, all_kernels()), [""; 0], "no op ran them");
}

#[test]
fn two_threads_per_row() {
    agrees(2, 2, true, &["one system, full list", "a batch, directed list"]);
}

#[test]
fn eight_threads_per_row() {
    agrees(3, 8, false, &["one system, directed list", "a batch, full list"]);
}

#[test]
fn a_warp_per_row() {
    agrees(4, 32, true, &["a batch, full list", "a batch, half list"]);
}
