//! Every op and form on memory that ends where the arrays end: a read or a write past an array is a fault.
//!
//! Runs as it is with the tests, on the lanes of every instruction set that the processor has, and under memcheck, with
//! the system's allocator, by `make sanitize`.
//!
//! A binary of its own: every allocation of its process has pages and a fence for itself, and a fault ends the process.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/declared.rs"]
mod declared;

#[path = "../common/kinds.rs"]
mod kinds;

#[path = "../common/parts.rs"]
mod parts;

#[cfg(target_os = "linux")]
mod fence;

use declared::{Given, Plan, dimensions, integer_attributes};
use madelung::Error;
use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::backend::PairLoops;
use madelung::backend::pool::Serial;
use madelung::cpu::Cpu;
use madelung::cpu::Isa;
use madelung::op::{Arg, ArgKind, ArgSpec, Cotangent, Evaluated, Op, Request, Work};
use madelung::pairs::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Row by row and in clusters; by the way back of a list that has none of its own, or scattered.
const HOW: [(Kind, PairLoops, bool); 4] = [
    (Kind::Full, PairLoops::Rows, false),
    (Kind::Full, PairLoops::Clusters, false),
    (Kind::Half, PairLoops::Auto, false),
    (Kind::Directed, PairLoops::Auto, true),
];

/// Remembers which parts of kernels were launched.
struct Recording {
    cpu: Cpu,
    parts: Mutex<BTreeSet<usize>>,
}

madelung_stand_in::launches_by!(Recording, |recording, context, args| {
    recording.parts.lock().expect("no test panicked").insert(std::ptr::from_ref(args.part) as usize);
    recording.cpu.launch(context, args)
});

/// The gradients to ask for: all, each alone, and every other set where `sets` says so.
fn masks(differentiable: &[usize], sets: bool) -> Vec<Vec<usize>> {
    let of = |bits: u32| {
        let chosen = differentiable.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1);
        chosen.map(|(_, arg)| *arg).collect::<Vec<_>>()
    };
    let all = (1u32 << differentiable.len()) - 1;
    (1u32..=all).filter(|bits| sets || *bits == all || bits.count_ones() == 1).map(of).collect()
}

/// Every member of the family.
fn run_all(op: &Op, plan: &Plan, context: &Context<'_>, sets: bool) {
    let given = plan.arguments(op);
    let args: Vec<Arg<'_>> = given.iter().map(Given::arg).collect();
    let differentiable: Vec<usize> = (0..args.len()).filter(|n| op.is_differentiable(*n)).collect();
    let direction = |seed: u64| -> Vec<Option<Array>> {
        let of = |(n, arg): (usize, &ArgSpec)| match &arg.kind {
            ArgKind::Real { shape, .. } => {
                Some(plan.numbers(plan.dtype_of(arg), &plan.shape(shape), seed + n as u64))
            }
            _ => None,
        };
        op.args.iter().enumerate().map(of).collect()
    };
    let (u, v) = (direction(100), direction(200));
    let u: Vec<Option<View<'_>>> = u.iter().map(|a| a.as_ref().map(Array::view)).collect();
    let v: Vec<Option<View<'_>>> = v.iter().map(|a| a.as_ref().map(Array::view)).collect();
    let first: Vec<Option<View<'_>>> =
        u.iter().enumerate().map(|(n, u)| u.clone().filter(|_| n == 0)).collect();
    let run = |request: &Request<'_, '_>| match op.evaluate(context, &args, request) {
        Ok(done) => done,
        // What has no derivative says so.
        Err(Error::Unsupported(_)) => Evaluated::default(),
        Err(e) => panic!("{}: {e}\n{plan:?}", op.name),
    };
    let outputs = run(&Request { values: true, save: Some(&differentiable), ..Request::default() });
    for directions in [&[][..], &[&u[..]], &[&first[..]], &[&u[..], &v[..]]] {
        run(&Request { directions, ..Request::default() });
    }
    // Integers have no cotangents.
    let real = |n: usize| op.outputs[n].dtype.is_none();
    let weights: Vec<Array> =
        (300..).zip(&outputs.values).map(|(seed, y)| plan.numbers(y.dtype(), y.shape(), seed)).collect();
    let arrays: Vec<_> =
        (0..).zip(&weights).map(|(n, w)| real(n).then(|| Cotangent::Array(w.view()))).collect();
    let uniform: Vec<_> = (0..weights.len()).map(|n| real(n).then_some(Cotangent::Uniform(0.5))).collect();
    let saved: Vec<Option<View<'_>>> = outputs.saved.iter().map(|a| a.as_ref().map(Array::view)).collect();
    for gradients in masks(&differentiable, sets) {
        for cotangents in [&arrays, &uniform] {
            let request = Request { cotangents, gradients: &gradients, ..Request::default() };
            run(&request);
            run(&Request { values: true, ..request.clone() });
            run(&Request { saved: &saved, ..request.clone() });
            for direction in [&u, &first] {
                run(&Request { directions: &[direction], ..request.clone() });
            }
        }
    }
}

#[test]
fn no_op_touches_what_is_not_its_own() {
    let (mut ran, mut all) = (BTreeSet::new(), BTreeMap::new());
    let registries = || madelung::registries().into_iter().chain([kinds::registry()]).collect::<Vec<_>>();
    #[cfg(target_os = "linux")]
    let registries = || fence::without(registries);
    for op in registries().into_iter().flat_map(|r| r.iter()) {
        let kernels =
            op.steps().iter().filter_map(|s| if let Work::Kernel(k) = s.work { Some(k) } else { None });
        let parts =
            kernels.flat_map(|k| k.forms).flat_map(|f| f.parts).filter(|part| parts::is_launched(part));
        all.extend(parts.map(|part| (std::ptr::from_ref(part) as usize, part.cuda.name)));
        let (systems, others) = dimensions(op);
        // Around the numbers of lanes, and below.
        let here = Isa::available().iter();
        for (n, isa) in here.flat_map(|isa| [1, 3, 5, 7, 9, 17, 33].map(|n| (n, *isa))) {
            for (how, dtype) in HOW.into_iter().flat_map(|how| [(how, DType::F64), (how, DType::F32)]) {
                let backend = Recording { cpu: Cpu::at_most(isa), parts: Mutex::default() };
                let (pairs, pair_loops, scatter) = how;
                let on = Context { backend: &backend, pool: &Serial, ..madelung::cpu::context() };
                let context = Context { pair_loops, scatter, ..on };
                let sizes = others.iter().enumerate().map(|(k, d)| (d.clone(), n + 2 * k));
                let number = if n % 3 == 0 { 3 } else { 1 };
                let plan = Plan {
                    dims: sizes.chain(systems.iter().map(|d| (d.clone(), number))).collect(),
                    attrs: integer_attributes(op).into_iter().map(|(name, ..)| (name, 2)).collect(),
                    dtype,
                    stored: if n % 2 == 0 { DType::F16 } else { DType::BF16 },
                    integers: if n % 2 == 0 { DType::I32 } else { DType::I64 },
                    pairs,
                    seed: n as u64,
                }
                .complete(op);
                run_all(op, &plan, &context, n == 5);
                ran.extend(backend.parts.into_inner().expect("no test panicked"));
            }
        }
    }
    let missed: Vec<&str> =
        all.iter().filter(|(part, _)| !ran.contains(*part)).map(|(_, name)| *name).collect();
    println!("{} parts of kernels, {} of them ran", all.len(), all.len() - missed.len());
    assert!(missed.is_empty(), "never launched: {missed:?}");
    // Blocks that are kept are longer than their arrays, and would hide an access behind these.
    assert_eq!(madelung::memory::bytes(), 0, "no array was large enough to be kept");
}
