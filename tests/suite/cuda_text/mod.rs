//! The CUDA text of every kernel does what its Rust code does. It needs no GPU: a C++ compiler reads the text as it
//! stands. What that cannot show (registers, races, the real compiler) is elsewhere.

mod functions;
mod host;
mod lanes;
mod scatter;
mod shared;
mod storage;

use crate::backends::asked::{arrays, each};
use crate::backends::calls::{Input, inputs};
use crate::backends::{MEMBERS, agrees, floats_agree, is_in_turn};
use host::{Host, Order, Scatter, Texts, Types, idle, parts_of};
use madelung::array::DType;
use madelung::backend::Context;
use madelung_core::runtime::{Kernel, PRELUDE};
use std::collections::BTreeSet;
use std::sync::OnceLock;

fn all_kernels() -> Vec<&'static Kernel> {
    let electrostatics = madelung_electrostatics::all_kernels().into_iter();
    let shared = [&madelung_neighbors::ENTRY_FACTORS];
    electrostatics.chain(madelung_potentials::all_kernels()).chain(shared).collect()
}

/// The text of every kernel, compiled once for each dtype: in f32 with records of what is gathered, in f64 without.
fn texts(dtype: DType) -> &'static Texts {
    static F32: OnceLock<Texts> = OnceLock::new();
    static F64: OnceLock<Texts> = OnceLock::new();
    let types = Types { storage: dtype, real: dtype, sums: DType::F64 };
    if dtype == DType::F32 { &F32 } else { &F64 }
        .get_or_init(|| Texts::new(&all_kernels(), types, 1, Scatter::Atomic, dtype == DType::F32))
}

fn on(host: &Host) -> Context<'_> {
    Context { backend: host, ..madelung::cpu::context() }
}

#[test]
fn agrees_with_the_rust_code() {
    if !is_in_turn(0, 6) {
        return;
    }
    let texts = texts(DType::F64);
    agrees(&on(&Host { texts, order: Order::Forwards }), &inputs(DType::F64));
    let idle = idle(texts, all_kernels());
    println!("not run: {idle:?}");
    assert!(idle.is_empty(), "no op ran {idle:?}");
}

/// A GPU runs rows in any order, and many at once: no row may read what another one writes.
#[test]
fn rows_run_in_any_order() {
    if !is_in_turn(0, 6) {
        return;
    }
    let texts = texts(DType::F64);
    let [forwards, backwards] = [Order::Forwards, Order::Backwards].map(|order| Host { texts, order });
    let full: Vec<Input> = inputs(DType::F64).into_iter().filter(Input::gathers).collect();
    each(&full, |asked| {
        if asked.shares_elements() {
            return;
        }
        let (a, b) = (asked.ask(&on(&forwards)), asked.ask(&on(&backwards)));
        assert!(arrays(&a).eq(arrays(&b)), "{}", asked.what());
    });
}

#[test]
fn floats_are_as_good_as_floats_are() {
    if !is_in_turn(1, 6) {
        return;
    }
    let host = Host { texts: texts(DType::F32), order: Order::Forwards };
    floats_agree(&on(&host), &inputs(DType::F32), &MEMBERS);
}

#[test]
fn texts_are_plain() {
    assert!(PRELUDE.is_ascii());
    let mut names = BTreeSet::new();
    for (kernel, part) in parts_of(all_kernels()) {
        let cuda = part.cuda;
        assert!(cuda.text.is_ascii(), "{}", cuda.name);
        assert!(cuda.name.starts_with(kernel.name) && names.insert(cuda.name), "{}", cuda.name);
        assert!(cuda.text.contains(&format!("__global__ void {}(", cuda.name)), "{}", cuda.name);
    }
}
