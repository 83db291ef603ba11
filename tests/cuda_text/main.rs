//! The CUDA text of every kernel does what its Rust code does. It needs no GPU: a C++ compiler reads the text as it
//! stands. What that cannot show (registers, races, the real compiler) is elsewhere.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod functions;
mod host;
mod lanes;
mod noise;
mod scatter;
mod shared;
mod storage;

use calls::{Input, Question, inputs};
use common::numeric::{rms, rms_difference};
use host::{Host, Order, Texts, Types, parts_of};
use madelung::array::{Array, DType};
use madelung::backend::Context;
use madelung::backend::kernel::PRELUDE;
use madelung::electrostatics::{all_kernels, registry};
use madelung::op::{Evaluated, Op};
use noise::{Noise, SIZE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The text of every kernel, compiled once for each dtype.
fn texts(dtype: DType) -> &'static Texts {
    static F32: OnceLock<Texts> = OnceLock::new();
    static F64: OnceLock<Texts> = OnceLock::new();
    let types = Types { storage: dtype, real: dtype, sums: DType::F64 };
    if dtype == DType::F32 { &F32 } else { &F64 }.get_or_init(|| Texts::new(&all_kernels(), types))
}

fn on(host: &Host) -> Context<'_> {
    Context { backend: host, ..Context::default() }
}

/// Every question to every op about every input.
fn each(inputs: &[Input], mut ask: impl FnMut(&Asked<'_>)) {
    for op in registry().iter() {
        let mut seen = BTreeSet::new();
        for input in inputs {
            // An op without pairs does not care which list there is.
            let systems = input.name.split(',').next().expect("a name").to_string();
            if !Input::has_pairs(op) && !seen.insert(systems) {
                continue;
            }
            let outputs = &op.value(&Context::default(), &input.args(op)).expect("a value");
            for question in &input.questions(op) {
                ask(&Asked { op, input, question, outputs });
            }
        }
    }
}

fn arrays(e: &Evaluated) -> impl Iterator<Item = Vec<f64>> {
    e.values.iter().chain(&e.gradients).map(Array::to_f64)
}

/// A question, asked of one backend after the other.
struct Asked<'a> {
    op: &'a Op,
    input: &'a Input,
    question: &'a Question,
    outputs: &'a [Array],
}

impl Asked<'_> {
    fn ask(&self, context: &Context<'_>) -> Evaluated {
        let result = self.question.ask(self.op, context, &self.input.args(self.op), self.outputs);
        result.unwrap_or_else(|e| panic!("{} on {}: {e}", self.what(), context.backend.name()))
    }

    fn what(&self) -> String {
        format!("{}: {}: {}", self.op.name, self.input.name, self.question.title)
    }

    /// How much each array changes, in RMS, where all inputs of all kernels change, in units of their change.
    fn sensitivity(&self) -> Vec<f64> {
        let exact = self.ask(&Context::default());
        let mut largest = vec![0.0; arrays(&exact).count()];
        for seed in 0..8 {
            let noise = Noise::new(seed);
            let moved = self.ask(&Context { backend: &noise, ..Context::default() });
            for (s, (a, b)) in largest.iter_mut().zip(arrays(&moved).zip(arrays(&exact))) {
                *s = rms_difference(&a, &b).max(*s * SIZE) / SIZE;
            }
        }
        largest
    }
}

/// The worst of every op and member, and what it was.
#[derive(Default)]
struct Worst(BTreeMap<(String, &'static str), Entry>);

#[derive(Clone, Debug, Default)]
struct Entry {
    /// The largest error of an element, in units of the RMS of its array.
    of_rms: f64,
    /// The same, in units of what the array is sensitive to where that is larger.
    of_scale: f64,
    what: String,
}

impl Worst {
    /// Compares two results; `exact` is the question in f64, for where its own size is not the measure.
    fn note(&mut self, bound: f64, got: &Evaluated, want: &Evaluated, exact: &Asked<'_>) {
        assert_eq!(arrays(got).count(), arrays(want).count());
        let mut sensitivity = None;
        let entry = self.0.entry((exact.op.name.clone(), exact.question.member)).or_default();
        for (n, (got, want)) in arrays(got).zip(arrays(want)).enumerate() {
            assert_eq!(got.len(), want.len());
            let error = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let in_units = |scale: f64| if error == 0.0 { 0.0 } else { error / scale };
            let of_rms = in_units(rms(&want));
            let of_scale = if of_rms <= bound {
                of_rms
            } else {
                let sensitivity = sensitivity.get_or_insert_with(|| exact.sensitivity());
                in_units(rms(&want).max(sensitivity[n]))
            };
            entry.of_rms = entry.of_rms.max(of_rms);
            if of_scale >= entry.of_scale {
                entry.of_scale = of_scale;
                entry.what = format!("{}; {}", exact.input.name, exact.question.title);
            }
        }
    }

    #[track_caller]
    fn assert_below(&self, bound: f64) {
        for ((op, member), e) in &self.0 {
            println!("{op:32} {member}  {:7.1e}  {:7.1e}  {}", e.of_rms, e.of_scale, e.what);
        }
        let beyond: Vec<_> = self.0.iter().filter(|(_, e)| e.of_scale > bound).collect();
        assert!(beyond.is_empty(), "beyond {bound:e}: {beyond:#?}");
    }
}

/// 45 rounding units of the result, or of what goes into it. Special functions take a dozen of them: those of Rust
/// and those of C++ differ.
const F64_BOUND: f64 = 1e-14;

#[test]
fn agrees_with_the_rust_code() {
    let texts = texts(DType::F64);
    let host = Host { texts, order: Order::Forwards };
    let mut worst = Worst::default();
    each(&inputs(DType::F64), |asked| {
        let (got, want) = (asked.ask(&on(&host)), asked.ask(&Context::default()));
        worst.note(F64_BOUND, &got, &want, asked);
    });
    let ran = texts.ran();
    let idle: Vec<_> =
        parts_of(all_kernels()).map(|(_, part)| part.cuda.name).filter(|name| !ran.contains(name)).collect();
    println!("not run: {idle:?}");
    worst.assert_below(F64_BOUND);
    assert!(idle.is_empty(), "no op ran {idle:?}");
}

/// A GPU runs rows in any order, and many at once: no row may read what another one writes.
#[test]
fn rows_run_in_any_order() {
    let texts = texts(DType::F64);
    let [forwards, backwards] = [Order::Forwards, Order::Backwards].map(|order| Host { texts, order });
    let full: Vec<Input> = inputs(DType::F64).into_iter().filter(Input::gathers).collect();
    each(&full, |asked| {
        let (a, b) = (asked.ask(&on(&forwards)), asked.ask(&on(&backwards)));
        assert!(arrays(&a).eq(arrays(&b)), "{}", asked.what());
    });
}

/// As many rounding units as in f64, rounded up.
const F32_BOUND: f64 = 1e-5;

/// Float text at numbers that floats have, against the Rust code in f64.
#[test]
fn floats_are_as_good_as_floats_are() {
    let host = Host { texts: texts(DType::F32), order: Order::Forwards };
    let (mut text, mut rust) = (Worst::default(), Worst::default());
    each(&inputs(DType::F32), |asked| {
        let (input, question) = (asked.input.cast(DType::F64), asked.question.cast(DType::F64));
        let outputs: Vec<Array> = asked.outputs.iter().map(|o| o.clone().cast(DType::F64)).collect();
        let exact = Asked { op: asked.op, input: &input, question: &question, outputs: &outputs };
        let want = exact.ask(&Context::default());
        text.note(F32_BOUND, &asked.ask(&on(&host)), &want, &exact);
        rust.note(F32_BOUND, &asked.ask(&Context::default()), &want, &exact);
    });
    println!("Rust code:");
    rust.assert_below(f64::INFINITY);
    println!("CUDA text:");
    text.assert_below(F32_BOUND);
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
