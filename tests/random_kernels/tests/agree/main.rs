//! Kernels by chance, compiled: every form on every width of lanes, as CUDA text through the host's compiler, gathered and
//! scattered, against each other and against finite differences.

#[path = "../../../../crates/kernel/tests/derivatives/generator.rs"]
#[allow(dead_code, reason = "the build writes the kernels; only its numbers are wanted here")]
mod generator;
#[path = "../../../../crates/kernel/tests/derivatives/geometry.rs"]
#[allow(dead_code, reason = "it serves other tests as well")]
mod geometry;
#[path = "../../../cuda_text/host.rs"]
#[allow(dead_code, reason = "it serves other tests as well")]
mod host;
#[path = "../../../common/parts.rs"]
mod parts;
mod world;

use host::{Host, Order, Scatter, Texts, Types};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Cotangent, Evaluated, Op, Request};
use madelung_core::runtime::Isa;
use madelung_core::runtime::Kernel;
use madelung_cpu::Cpu;
use madelung_random_kernels::ALL;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use world::World;

const STEP: f64 = geometry::STEP;

/// The members of an op's family.
struct Question<'a> {
    op: &'a Op,
    world: &'a World,
    /// Positions of the differentiable arguments.
    by: Vec<usize>,
}

type Arrays = BTreeMap<usize, Vec<f64>>;

impl Question<'_> {
    fn value(&self, context: &Context<'_>, arrays: &Arrays) -> Vec<Vec<f64>> {
        let args: Vec<Arg<'_>> = self.world.args(self.op, arrays);
        let done = self.op.value(context, &args).expect("a value");
        done.iter().map(Array::to_f64).collect()
    }

    fn derivative(
        &self,
        context: &Context<'_>,
        arrays: &Arrays,
        directions: &[&Arrays],
        weights: Option<&[Vec<f64>]>,
    ) -> Vec<Vec<f64>> {
        let shaped = |n: usize, data: &[f64]| {
            Array::from_f64(DType::F64, &self.world.shape(self.op, n), data).expect("its own shape")
        };
        let args = 0..self.op.args.len();
        let directions: Vec<Vec<Option<Array>>> = directions
            .iter()
            .map(|d| args.clone().map(|n| d.get(&n).map(|x| shaped(n, x))).collect())
            .collect();
        let views: Vec<Vec<Option<View<'_>>>> =
            directions.iter().map(|d| d.iter().map(|a| a.as_ref().map(Array::view)).collect()).collect();
        let views: Vec<&[Option<View<'_>>]> = views.iter().map(Vec::as_slice).collect();
        let weights: Vec<Array> =
            weights.into_iter().flatten().enumerate().map(|(o, w)| shaped(args.end + o, w)).collect();
        let cotangents: Vec<_> = weights.iter().map(|w| Some(Cotangent::Array(w.view()))).collect();
        let gradients = if weights.is_empty() { &[][..] } else { &self.by };
        let request =
            Request { directions: &views, cotangents: &cotangents, gradients, ..Request::default() };
        let args = self.world.args(self.op, arrays);
        let done: Evaluated = self.op.evaluate(context, &args, &request).unwrap_or_else(|e| {
            let member = if weights.is_empty() { "F" } else { "G" };
            panic!(
                "{member}{} on {}, scattered: {}: {e}",
                directions.len(),
                context.backend.name(),
                context.scatter
            )
        });
        let found = if weights.is_empty() { done.values } else { done.gradients };
        found.iter().map(Array::to_f64).collect()
    }
}

/// The derivative at 0 of what `f` gives, from four points.
fn difference(f: &dyn Fn(f64) -> Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let [a, b, c, d] = [-2.0, -1.0, 1.0, 2.0].map(|k| f(k * STEP));
    let one = |o: usize, n: usize| (a[o][n] - 8.0 * b[o][n] + 8.0 * c[o][n] - d[o][n]) / (12.0 * STEP);
    (0..a.len()).map(|o| (0..a[o].len()).map(|n| one(o, n)).collect()).collect()
}

fn moved(arrays: &Arrays, along: &Arrays, t: f64) -> Arrays {
    let mut moved = arrays.clone();
    for (n, d) in along {
        moved.get_mut(n).expect("an argument").iter_mut().zip(d).for_each(|(x, d)| *x += t * d);
    }
    moved
}

#[derive(Default)]
struct Worst(BTreeMap<&'static str, f64>);

/// What is compared: its name, the number of the kernel, and the bound on the error.
type Subject = (&'static str, usize, f64);

impl Worst {
    /// Relative to the root mean square of what is expected, and to `floor` where all is small.
    fn close(&mut self, (what, kernel, bound): Subject, got: &[Vec<f64>], want: &[Vec<f64>], floor: f64) {
        assert_eq!(got.len(), want.len());
        for (o, (got, want)) in got.iter().zip(want).enumerate() {
            assert_eq!(got.len(), want.len());
            let rms = (want.iter().map(|x| x * x).sum::<f64>() / want.len().max(1) as f64).sqrt().max(floor);
            for (n, (x, y)) in got.iter().zip(want).enumerate() {
                let error = (x - y).abs() / rms;
                assert!(
                    error <= bound,
                    "kernel {kernel}: {what}: array {o}, element {n}: {x:e}, expected {y:e} (error {error:.1e})"
                );
                let worst = self.0.entry(what).or_default();
                *worst = worst.max(error);
            }
        }
    }
}

/// A kernel as it was written.
fn source_of(number: usize) -> &'static str {
    let all = include_str!(concat!(env!("OUT_DIR"), "/kernels.rs"));
    let from = |n: usize| all.find(&format!("pub mod k{n} ")).unwrap_or(all.len());
    &all[from(number)..from(number + 1)]
}

fn texts() -> &'static Texts {
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    let types = Types { storage: DType::F64, real: DType::F64, sums: DType::F64 };
    TEXTS.get_or_init(|| Texts::new(&ALL, types, 1, Scatter::Atomic, true))
}

/// What each member gives.
fn members(q: &Question<'_>, context: &Context<'_>, w: &World) -> Vec<Vec<Vec<f64>>> {
    let (x, u, v) = (&w.arrays, &w.first, &w.second);
    vec![
        q.value(context, x),
        q.derivative(context, x, &[u], None),
        q.derivative(context, x, &[u, v], None),
        q.derivative(context, x, &[], Some(&w.weights)),
        q.derivative(context, x, &[u], Some(&w.weights)),
    ]
}

fn check(number: usize, kernel: &'static Kernel, worst: &mut Worst) {
    let (op, w) = World::of(number, kernel);
    let by: Vec<usize> = w.first.keys().copied().collect();
    let q = Question { op: &op, world: &w, by };
    let portable = Cpu::at_most(Isa::Portable);
    let scalar = Context { backend: &portable, ..madelung_cpu::context() };
    let exact = members(&q, &scalar, &w);
    // How far inputs that change in their last digits move the results: no two ways to compute them are closer.
    let mut sensitivity: Vec<f64> = vec![0.0; exact.len()];
    for seed in 0..3 {
        let jittered = members(&q, &scalar, &w.jittered(seed));
        for (s, (a, b)) in sensitivity.iter_mut().zip(jittered.iter().zip(&exact)) {
            let moved = a.iter().flatten().zip(b.iter().flatten()).map(|(x, y)| (x - y).abs());
            *s = moved.fold(*s, f64::max);
        }
    }
    let host = Host { texts: texts(), order: Order::Backwards };
    let (avx2, avx512) = (Cpu::at_most(Isa::Avx2), Cpu::new());
    let others: [(&'static str, Context<'_>); 4] = [
        ("lanes of 4", Context { backend: &avx2, ..scalar }),
        ("lanes of 8", Context { backend: &avx512, ..scalar }),
        ("CUDA text", Context { backend: &host, ..scalar }),
        ("scattered", Context { scatter: true, ..scalar }),
    ];
    // CUDA text adds up n terms one after the other and rounds n times, which nothing that moves the inputs shows.
    let sequential = f64::max(1e-14, 0.5 * f64::EPSILON * w.terms(source_of(number)) as f64);
    for (what, context) in &others {
        let bound = if *what == "CUDA text" { sequential } else { 1e-14 };
        for ((got, want), s) in members(&q, context, &w).iter().zip(&exact).zip(&sensitivity) {
            worst.close((what, number, bound), got, want, 0.1 + s / world::JITTER);
        }
    }
    let (x, u, v) = (&w.arrays, &w.first, &w.second);
    let value = |x: &Arrays| q.value(&scalar, x);
    let first = difference(&|t| value(&moved(x, u, t)));
    worst.close(("first derivative along a direction", number, 1e-8), &exact[1], &first, 0.1);
    let second = difference(&|t| q.derivative(&scalar, &moved(x, v, t), &[u], None));
    worst.close(("second derivative along two", number, 1e-6), &exact[2], &second, 0.1);
    let weighted = |out: Vec<Vec<f64>>| {
        let weights = w.weights.iter().flatten();
        out.iter().flatten().zip(weights).map(|(x, w)| x * w).sum::<f64>()
    };
    for (n, gradient) in q.by.iter().zip(&exact[3]) {
        let one = |e: usize| {
            let unit = (0..gradient.len()).map(|k| f64::from(u8::from(k == e))).collect();
            let by = Arrays::from([(*n, unit)]);
            difference(&|t| vec![vec![weighted(value(&moved(x, &by, t)))]])[0][0]
        };
        let expected: Vec<f64> = (0..gradient.len()).map(one).collect();
        worst.close(("gradient", number, 1e-8), std::slice::from_ref(gradient), &[expected], 0.1);
    }
    let hessian = difference(&|t| q.derivative(&scalar, &moved(x, u, t), &[], Some(&w.weights)));
    worst.close(("Hessian-vector product", number, 1e-6), &exact[4], &hessian, 0.1);
}

#[test]
fn every_form_of_every_kernel() {
    let mut worst = Worst::default();
    let (mut checked, mut failed) = (0, vec![]);
    for (number, kernel) in ALL.iter().enumerate() {
        if std::env::var("ONLY").is_ok_and(|o| !o.split(',').any(|k| k == number.to_string())) {
            continue;
        }
        if World::is_tame(number, kernel) {
            match catch_unwind(AssertUnwindSafe(|| check(number, kernel, &mut worst))) {
                Ok(()) => checked += 1,
                Err(_) => failed.push(kernel.name),
            }
        }
    }
    println!("{checked} of {} kernels are tame enough for finite differences", ALL.len());
    for (what, error) in &worst.0 {
        println!("{what}: {error:.1e}");
    }
    assert!(failed.is_empty(), "{failed:?}");
    assert!(checked > ALL.len() * 3 / 4);
}
