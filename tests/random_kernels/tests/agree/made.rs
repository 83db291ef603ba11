//! Kernels that are made at run time against the compiled ones, bit for bit, and, of those that are not compiled, against
//! the interpreter of the language's tests.

use crate::JITTER;
use crate::by_chance::ByChance;
use crate::by_chance::sources::text;
use crate::by_chance::world::outputs;
use crate::given::{Full, Given};
use crate::{ALL, MEMBERS, Results, Worst, evaluated, interpreted, sensitivity};
use madelung_core::array::DType;
use madelung_core::backend::{Context, PairLoops};
use madelung_core::runtime::{Isa, Kernel};
use madelung_cpu::Cpu;
use madelung_jit::kernels;
use madelung_kernel::forms::{Lists, Member};
use madelung_kernel::ir::Role;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The kernel of a text, made at run time with the options of the compiled ones.
fn made(text: &str, options: &str) -> &'static Kernel {
    let source = text.replacen("#[kernel]", &format!("#[kernel({options})]"), 1);
    let all = kernels(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    assert_eq!(all.len(), 1);
    all[0].kernel()
}

/// Every list in which the forms of a kernel run, and whether gradients are scattered and pairs taken in clusters.
fn contexts(of: &ByChance) -> Vec<(Full, bool, PairLoops)> {
    let transposed = of.forms.iter().any(|f| f.member == Member::Gradient && f.lists == Lists::Any);
    let mut all = vec![
        (Full::Full, false, PairLoops::Rows),
        (Full::Full, false, PairLoops::Clusters),
        (Full::Full, true, PairLoops::Rows),
    ];
    if transposed {
        all.push((Full::Directed, false, PairLoops::Rows));
    }
    all
}

fn world(seed: u64, text: &str) -> (ByChance, Vec<Vec<f64>>) {
    let mut of = ByChance::new(seed, text);
    let moving = Role::COTANGENT.with(Role::FIRST);
    of.world.arrays.retain(|(_, role), _| *role != moving);
    let cotangents =
        outputs(&of.source.kernel).iter().map(|p| of.world.arrays[&(*p, Role::COTANGENT)].clone()).collect();
    (of, cotangents)
}

fn bits(results: &Results) -> Vec<u64> {
    results.iter().flatten().flatten().map(|x| x.to_bits()).collect()
}

/// The instruction sets of this processor.
fn backends() -> Vec<Cpu> {
    Isa::available().iter().map(|isa| Cpu::at_most(*isa)).collect()
}

/// Compares a kernel with the one that the macro has made of the same source; the count of numbers.
fn same_bits(seed: u64, compiled: &'static Kernel) -> usize {
    let text = text(seed);
    let kernel = made(&text, "scatter, small");
    let (of, cotangents) = world(seed, &text);
    let mut count = 0;
    for backend in &backends() {
        for (full, scatter, pair_loops) in contexts(&of) {
            let context = Context { backend, pair_loops, scatter, ..madelung_cpu::context() };
            for dtype in [DType::F64, DType::F32] {
                for member in MEMBERS {
                    let [got, want] = [kernel, compiled].map(|kernel| {
                        evaluated(&Given::new(kernel, &of, full), &context, dtype, &cotangents, &[member])
                    });
                    let what = format!(
                        "{member:?}, {dtype:?}, {:?}, {full:?}, {scatter}, {pair_loops:?}",
                        backend.isa()
                    );
                    let (got, want) = (bits(&got), bits(&want));
                    let differ = got.iter().zip(&want).filter(|(x, y)| x != y).count();
                    assert!(got.len() == want.len() && differ == 0, "{what}: {differ} of {}", got.len());
                    count += got.len();
                }
            }
        }
    }
    count
}

#[test]
fn kernels_made_at_run_time_have_the_bits_of_compiled_ones() {
    let (mut failed, mut numbers) = (vec![], 0);
    for (seed, compiled) in ALL {
        match catch_unwind(AssertUnwindSafe(|| same_bits(seed, compiled))) {
            Ok(count) => numbers += count,
            Err(_) => failed.push(seed),
        }
    }
    println!("{} kernels, {numbers} numbers", ALL.len());
    assert!(failed.is_empty(), "kernels {failed:?}");
}

/// The kernels that are written; those that are compiled are among them.
const WRITTEN: u64 = 240;

/// Compares a kernel on the widest lanes, and on lanes of one, with the interpreter of its forms.
fn agrees(seed: u64, worst: &mut Worst) {
    let text = text(seed);
    let kernel = made(&text, "scatter");
    let (of, cotangents) = world(seed, &text);
    let exact = interpreted(&of, &of.world);
    let floors: Vec<f64> = sensitivity(&of, &exact).iter().map(|s| 0.1 + s / JITTER).collect();
    for backend in &backends() {
        for (full, scatter, pair_loops) in contexts(&of) {
            let context = Context { backend, pair_loops, scatter, ..madelung_cpu::context() };
            let given = Given::new(kernel, &of, full);
            let got = evaluated(&given, &context, DType::F64, &cotangents, &MEMBERS);
            for (n, got) in got.iter().enumerate() {
                worst.close("made at run time", 1e-14, got, &exact[n], floors[n]);
            }
        }
    }
}

#[test]
fn kernels_made_at_run_time_agree_with_the_language() {
    let (mut failed, mut worst) = (vec![], Worst::default());
    for seed in 0..WRITTEN {
        if catch_unwind(AssertUnwindSafe(|| agrees(seed, &mut worst))).is_err() {
            failed.push(seed);
        }
    }
    println!("{WRITTEN} kernels, {:?}", worst.0);
    assert!(failed.is_empty(), "kernels {failed:?}");
}
