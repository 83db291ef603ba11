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

#[path = "../common/every_form.rs"]
mod every_form;

#[path = "../common/kinds.rs"]
mod kinds;

#[path = "../common/parts.rs"]
mod parts;

#[cfg(target_os = "linux")]
mod fence;

use every_form::{has_pairs, plan, run_all};
use madelung::array::DType;
use madelung::backend::Context;
use madelung::backend::PairLoops;
use madelung::backend::pool::Serial;
use madelung::cpu::Cpu;
use madelung::cpu::Isa;
use madelung::op::Work;
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

const DTYPES: [DType; 2] = [DType::F64, DType::F32];

/// Numbers of rows below the numbers of lanes, and around and above these. Every way of every op is run at one of each, in
/// turn.
const FEW: [usize; 5] = [1, 2, 3, 5, 7];
const MANY: [usize; 5] = [8, 9, 16, 17, 33];

/// Remembers which parts of kernels were launched.
struct Recording {
    cpu: Cpu,
    parts: Mutex<BTreeSet<usize>>,
}

madelung_stand_in::launches_by!(Recording, |recording, context, args| {
    recording.parts.lock().expect("no test panicked").insert(std::ptr::from_ref(args.part) as usize);
    recording.cpu.launch(context, args)
});

#[test]
fn no_op_touches_what_is_not_its_own() {
    let (mut ran, mut all) = (BTreeSet::new(), BTreeMap::new());
    let (mut few, mut many) = (FEW.into_iter().cycle(), MANY.into_iter().cycle());
    let registries = || madelung::registries().into_iter().chain([kinds::registry()]).collect::<Vec<_>>();
    for op in registries().into_iter().flat_map(|r| r.iter()) {
        let kernels =
            op.steps().iter().filter_map(|s| if let Work::Kernel(k) = s.work { Some(k) } else { None });
        let parts =
            kernels.flat_map(|k| k.forms).flat_map(|f| f.parts).filter(|part| parts::is_launched(part));
        all.extend(parts.map(|part| (std::ptr::from_ref(part) as usize, part.cuda.name)));
        let mut run = |n: usize, isa: Isa, how: (Kind, PairLoops, bool), dtype: DType| {
            let backend = Recording { cpu: Cpu::at_most(isa), parts: Mutex::default() };
            let (pairs, pair_loops, scatter) = how;
            let on = Context { backend: &backend, pool: &Serial, ..madelung::cpu::context() };
            let context = Context { pair_loops, scatter, ..on };
            run_all(op, &plan(op, n, dtype, pairs), &context, n == 5);
            ran.extend(backend.parts.into_inner().expect("no test panicked"));
        };
        // Programs of kernels that are interpreted are made in their first run, which has no fences.
        let here = Isa::available();
        let hows = if has_pairs(op) { &HOW[..] } else { &HOW[..1] };
        for (how, dtype) in hows.iter().flat_map(|how| DTYPES.map(|dtype| (*how, dtype))) {
            run(5, here[0], how, dtype);
        }
        let ways =
            here.iter().flat_map(|isa| hows.iter().flat_map(move |how| DTYPES.map(|d| (*isa, *how, d))));
        for (isa, how, dtype) in ways {
            for n in [few.next(), many.next()].map(|n| n.expect("without end")) {
                #[cfg(target_os = "linux")]
                fence::within(|| run(n, isa, how, dtype));
                #[cfg(not(target_os = "linux"))]
                run(n, isa, how, dtype);
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
