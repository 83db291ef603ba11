//! Kernels by chance, compiled: every form on lanes of one and of four, in clusters, as CUDA text through the host's
//! compiler, gathered and scattered, against the same form in an interpreter. The tests of the kernel language hold the
//! interpreted forms against finite differences.

#[path = "../../../../crates/language/kernel/tests/all/by_chance/mod.rs"]
#[allow(dead_code, reason = "it serves other tests as well")]
mod by_chance;
mod given;
#[path = "../../../suite/cuda_text/host.rs"]
#[allow(dead_code, reason = "it serves other tests as well")]
mod host;
mod made;
#[path = "../../../common/parts.rs"]
mod parts;

use by_chance::ByChance;
use by_chance::interpreter::{World, run};
use by_chance::sources::{Random, text};
use by_chance::world::{get, inputs, outputs, size};
use given::{Full, Given};
use host::{Host, Order, Scatter, Texts, Types, idle};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::{Context, PairLoops};
use madelung_core::op::{Cotangent, Request};
use madelung_core::runtime::Isa;
use madelung_core::runtime::Kernel;
use madelung_cpu::Cpu;
use madelung_kernel::forms::{Form, Lists, Member};
use madelung_kernel::ir::Role;
use madelung_random_kernels::ALL;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// The relative change of inputs that shows how far rounding moves results.
const JITTER: f64 = 1e-10;

const MEMBERS: [Member; 5] =
    [Member::Value, Member::Tangent, Member::SecondTangent, Member::Gradient, Member::GradientTangent];

/// The arrays that each member gives: those of outputs, or the gradients by every input.
type Results = Vec<Vec<Vec<f64>>>;

/// The roles of what a member gives.
fn role(member: Member) -> Role {
    match member {
        Member::Value => Role::VALUE,
        Member::Tangent => Role::FIRST,
        Member::SecondTangent => Role::FIRST.with(Role::SECOND),
        Member::Gradient => Role::COTANGENT,
        Member::GradientTangent => Role::COTANGENT.with(Role::FIRST),
    }
}

/// Every member, in the interpreter: the first of its forms that is for the kernel's list.
fn interpreted(of: &ByChance, world: &World) -> Results {
    let kernel = &of.source.kernel;
    let is_half = kernel.params.iter().any(|p| p.name == "half");
    let results = |member: &Member| {
        let fits = |f: &&Form| f.member == *member && !(is_half && f.lists == Lists::Full);
        let form = of.forms.iter().find(fits).expect("every kernel has every member");
        let arrays = run(kernel, world, &form.parts);
        let params = if role(*member).has(Role::COTANGENT) { inputs(kernel) } else { outputs(kernel) };
        params.into_iter().map(|p| get(&arrays, p, role(*member), size(kernel, world, p))).collect()
    };
    MEMBERS.iter().map(results).collect()
}

/// Some members, as an op evaluates them.
fn evaluated(
    given: &Given<'_>,
    context: &Context<'_>,
    dtype: DType,
    weights: &[Vec<f64>],
    members: &[Member],
) -> Results {
    let shaped = |n: usize, data: &[f64]| given.shaped(dtype, n, data);
    let count = given.op.args.len();
    let values: BTreeMap<usize, Array> =
        given.arrays(Role::VALUE).into_iter().map(|(n, data)| (n, shaped(n, &data))).collect();
    let args = given.args(&values);
    let by: Vec<usize> = values.keys().copied().collect();
    let directions = [Role::FIRST, Role::SECOND].map(|role| {
        let arrays = given.arrays(role);
        (0..count).map(|n| arrays.get(&n).map(|x| shaped(n, x))).collect::<Vec<_>>()
    });
    let views: Vec<Vec<Option<View<'_>>>> =
        directions.iter().map(|d| d.iter().map(|a| a.as_ref().map(Array::view)).collect()).collect();
    let views: Vec<&[Option<View<'_>>]> = views.iter().map(Vec::as_slice).collect();
    let weights: Vec<Array> = weights.iter().enumerate().map(|(o, w)| shaped(count + o, w)).collect();
    let weights: Vec<_> = weights.iter().map(|w| Some(Cotangent::Array(w.view()))).collect();
    let results = |member: &Member| {
        let (along, backwards) = match member {
            Member::Value => (0, false),
            Member::Tangent => (1, false),
            Member::SecondTangent => (2, false),
            Member::Gradient => (0, true),
            Member::GradientTangent => (1, true),
        };
        let (cotangents, gradients) = if backwards { (&weights[..], &by[..]) } else { (&[][..], &[][..]) };
        let request = Request {
            values: *member == Member::Value,
            directions: &views[..along],
            cotangents,
            gradients,
            ..Request::default()
        };
        let done = given.op.evaluate(context, &args, &request).unwrap_or_else(|e| {
            panic!("{member:?} on {}, scattered: {}: {e}", context.backend.name(), context.scatter)
        });
        let found = if backwards { done.gradients } else { done.values };
        found.iter().map(|a| a.to_f64().unwrap()).collect()
    };
    members.iter().map(results).collect()
}

/// The least accuracy, relative to what is expected, at which a comparison says something.
const SHARP: f64 = 1e-9;

/// The largest error of each comparison.
#[derive(Default)]
struct Worst(BTreeMap<&'static str, f64>);

impl Worst {
    /// Compares relative to the root mean square of what is expected, and to `floor` where all is small. Gives the number
    /// of arrays for which that is a sharp bound: neither zeros, nor much smaller than `floor`.
    fn close(
        &mut self,
        what: &'static str,
        bound: f64,
        got: &[Vec<f64>],
        want: &[Vec<f64>],
        floor: f64,
    ) -> usize {
        assert_eq!(got.len(), want.len());
        let mut sharp = 0;
        for (o, (got, want)) in got.iter().zip(want).enumerate() {
            assert_eq!(got.len(), want.len());
            let size = by_chance::world::rms(want);
            sharp += usize::from(bound * floor < SHARP * size);
            let rms = size.max(floor);
            for (n, (x, y)) in got.iter().zip(want).enumerate() {
                let error = (x - y).abs() / rms;
                assert!(
                    error <= bound,
                    "{what}: array {o}, element {n}: {x:e}, expected {y:e} (error {error:.1e})"
                );
                let worst = self.0.entry(what).or_default();
                *worst = worst.max(error);
            }
        }
        sharp
    }
}

/// How far inputs that change in their last digits move what each member gives: no two ways to compute it are closer.
fn sensitivity(of: &ByChance, exact: &Results) -> Vec<f64> {
    let mut found: Vec<f64> = vec![0.0; exact.len()];
    // By so many ways to round: where the result is one number, few of them may leave it as it is.
    for seed in 0..8 {
        let (mut world, mut r) = (of.world.clone(), Random::new(seed + 100));
        for x in world.arrays.values_mut().flatten() {
            *x *= 1.0 + JITTER * r.between(-1.0, 1.0);
        }
        for (s, (a, b)) in found.iter_mut().zip(interpreted(of, &world).iter().zip(exact)) {
            let moved = a.iter().flatten().zip(b.iter().flatten()).map(|(x, y)| (x - y).abs());
            *s = moved.fold(*s, f64::max);
        }
    }
    found
}

fn texts() -> &'static Texts {
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    let types = Types { storage: DType::F64, real: DType::F64, sums: DType::F64 };
    TEXTS.get_or_init(|| Texts::new(&ALL.map(|(_, kernel)| kernel), types, 1, Scatter::Atomic, true))
}

/// The number of comparisons that are made.
fn check(seed: u64, kernel: &'static Kernel, worst: &mut Worst) -> usize {
    let text = text(seed);
    let mut compared = check_with(seed, &text, kernel, worst);
    // A list of a full kind, where the kernel has half of one: it has forms for both.
    let full = text.replace("half", "pairs");
    if full != text {
        compared += check_with(seed, &full, kernel, worst);
    }
    compared
}

/// `text`: the kernel's, by whose names of lists these are made.
fn check_with(seed: u64, text: &str, kernel: &'static Kernel, worst: &mut Worst) -> usize {
    let mut of = ByChance::new(seed, text);
    // An op's directions are those of its arguments.
    let moving = Role::COTANGENT.with(Role::FIRST);
    of.world.arrays.retain(|(_, role), _| *role != moving);
    let exact = interpreted(&of, &of.world);
    let floors: Vec<f64> = sensitivity(&of, &exact).iter().map(|s| 0.1 + s / JITTER).collect();
    let [full, directed] = [Full::Full, Full::Directed].map(|full| Given::new(kernel, &of, full));
    let cotangents: Vec<Vec<f64>> =
        outputs(&of.source.kernel).iter().map(|p| of.world.arrays[&(*p, Role::COTANGENT)].clone()).collect();
    let host = Host { texts: texts(), order: Order::Backwards };
    let (portable, lanes) = (Cpu::at_most(Isa::Portable), Cpu::new());
    let scalar = Context { backend: &portable, pair_loops: PairLoops::Rows, ..madelung_cpu::context() };
    let backends = [
        ("lanes of one", scalar),
        ("lanes of four", Context { backend: &lanes, ..scalar }),
        ("CUDA text", Context { backend: &host, ..scalar }),
    ];
    // CUDA text adds up n terms one after the other and rounds n times, which nothing that moves the inputs shows.
    let sequential = f64::max(1e-14, 0.5 * f64::EPSILON * full.terms(text) as f64);
    let mut compared = 0;
    let mut agree = |what: &'static str, given: &Given<'_>, context: &Context<'_>, members: &[Member]| {
        let bound = if what == "CUDA text" { sequential } else { 1e-14 };
        let got = evaluated(given, context, DType::F64, &cotangents, members);
        for (member, got) in members.iter().zip(&got) {
            let n = MEMBERS.iter().position(|m| m == member).expect("one of all");
            let sharp = worst.close(what, bound, got, &exact[n], floors[n]);
            assert!(sharp > 0, "{what}: nothing is compared for {member:?}");
            compared += 1;
        }
    };
    let has_transposed = of.forms.iter().any(|f| f.member == Member::Gradient && f.lists == Lists::Any);
    for (what, context) in &backends {
        agree(what, &full, context, &MEMBERS);
        agree(what, &full, &Context { scatter: true, ..*context }, &MEMBERS);
        if has_transposed {
            agree(what, &directed, context, &MEMBERS);
        }
    }
    for backend in [&portable, &lanes] {
        let context = Context { backend, pair_loops: PairLoops::Clusters, ..scalar };
        agree("clusters", &full, &context, &[Member::Value]);
    }
    compared
}

#[test]
fn every_form_of_every_kernel() {
    println!("instruction sets: {:?}", [Isa::Portable, Cpu::new().isa()]);
    let mut worst = Worst::default();
    let (mut failed, mut compared) = (vec![], 0);
    for (seed, kernel) in ALL {
        match catch_unwind(AssertUnwindSafe(|| check(seed, kernel, &mut worst))) {
            Ok(count) => compared += count,
            Err(_) => failed.push(seed),
        }
    }
    println!("{} kernels, {compared} comparisons", ALL.len());
    for (what, error) in &worst.0 {
        println!("{what}: {error:.1e}");
    }
    assert!(failed.is_empty(), "kernels {failed:?}");
    let idle = idle(texts(), ALL.map(|(_, kernel)| kernel));
    assert!(idle.is_empty(), "no call ran {idle:?}");
    let clusters = |kernel: &Kernel| kernel.forms.iter().flat_map(|f| f.parts).any(|p| p.clusters.is_some());
    assert!(ALL.iter().any(|(_, kernel)| clusters(kernel)), "no kernel has a cluster form");
}
