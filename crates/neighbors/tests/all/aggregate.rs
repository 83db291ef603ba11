//! A weight of a caller's own, against sums over all pairs, and its backward pass against that of a tape.

use crate::gpu::{Gpu, SentBatch};
use approx::assert_abs_diff_eq;
use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::backend::{Allocator, Context, Heap};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::structure::Batch;
use madelung_core::tape::{Tape, Value};
use madelung_stand_in::calls;
use std::sync::{Arc, Mutex};

madelung_core::kernels! {
    /// Logarithm of the weight (1 + d²/σ²)⁻².
    #[func]
    pub(crate) fn student(d: Real, sigma: Real) -> Real { -2.0 * log(1.0 + (d / sigma) * (d / sigma)) }
}

madelung_neighbors::aggregation! {
    static STUDENT: student = crate::aggregate::student;
}

const QUERIES: usize = 45;
const POINTS: usize = 70;
const FEATURES: usize = 3;
const SIGMA: f64 = 0.4;
const RADIUS: f64 = 0.9;

fn wiggles(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (phase + 1.7 * i as f64 + 0.3 * (i * i) as f64).sin()).collect()
}

fn array(shape: &[usize], data: &[f64]) -> Array {
    Array::from_f64(DType::F64, shape, data).unwrap()
}

/// Queries, points, features, sigma and the cell, which is open.
fn arrays() -> [Array; 5] {
    [
        array(&[QUERIES, 3], &wiggles(3 * QUERIES, 0.2)),
        array(&[POINTS, 3], &wiggles(3 * POINTS, 1.1)),
        array(&[POINTS, FEATURES], &wiggles(POINTS * FEATURES, 2.3)),
        array(&[1], &[SIGMA]),
        array(&[1, 3, 3], &[0.0; 9]),
    ]
}

fn op() -> Arc<Op> {
    let [around, _] = STUDENT.ops("test").unwrap();
    around
}

/// Places in space: any order gives the same sums.
fn orders() -> [Array; 2] {
    [QUERIES, POINTS].map(|n| Array::I32((0..n as i32).rev().collect::<Vec<_>>().into()))
}

fn batches() -> [Batch<'static>; 2] {
    [QUERIES, POINTS].map(|n| Batch::single(n).unwrap())
}

/// No rows of periodic axes.
fn no_axes() -> Array {
    Array::zeros(DType::I32, &[0, 3])
}

/// The numbers of a call, with room for the pairs of a query on a device.
fn numbers(axes: &Array, room: i64) -> [Arg<'_>; 6] {
    let [eps, normalize, radius] = [0.01, 1.0, RADIUS].map(Arg::Real);
    [Arg::Array(axes.view()), Arg::Int(0), Arg::Int(room), eps, normalize, radius]
}

#[test]
fn a_weight_of_ones_own() {
    let (op, arrays, orders, batches, axes) = (op(), arrays(), orders(), batches(), no_axes());
    let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
    args.extend(batches.iter().map(|b| Arg::Structure(b)));
    args.extend(numbers(&axes, -1));
    args.extend(orders.iter().map(|o| Arg::Array(o.view())));
    let [q, r, x] = [0, 1, 2].map(|n| arrays[n].to_f64().unwrap());
    let weights = array(&[QUERIES, FEATURES], &wiggles(QUERIES * FEATURES, 0.7));
    let cotangents = [Some(Cotangent::Array(weights.view()))];
    let request =
        Request { values: true, cotangents: &cotangents, gradients: &[0, 1, 2, 3], ..Request::default() };
    let threads = Threads::new(3);
    let found = op.evaluate(&madelung_cpu::context().with_pool(&threads), &args, &request).unwrap();
    let serial = op.evaluate(&madelung_cpu::context().with_pool(&Serial), &args, &request).unwrap();
    for (a, b) in
        found.values.iter().chain(&found.gradients).zip(serial.values.iter().chain(&serial.gradients))
    {
        assert!(a.equals(b).unwrap(), "the same bits on any number of threads");
    }
    let got = found.values[0].to_f64().unwrap();
    for i in 0..QUERIES {
        let (mut sums, mut norm) = ([0.0; FEATURES], 0.01);
        for j in 0..POINTS {
            let d2: f64 = (0..3).map(|c| (r[3 * j + c] - q[3 * i + c]).powi(2)).sum();
            if d2.sqrt() <= RADIUS {
                let w = (1.0 + d2 / (SIGMA * SIGMA)).powi(-2);
                norm += w;
                (0..FEATURES).for_each(|c| sums[c] += w * x[FEATURES * j + c]);
            }
        }
        for c in 0..FEATURES {
            assert_abs_diff_eq!(got[FEATURES * i + c], sums[c] / norm, epsilon = 1e-13);
        }
    }
    let mut tape = Tape::new(madelung_cpu::context());
    let vars: Vec<_> = arrays.iter().map(|a| tape.input(a.try_clone().unwrap())).collect();
    let mut values: Vec<Value> = vars.iter().map(|v| (*v).into()).collect();
    values.extend(batches.map(|b| Value::Structure(Arc::new(b))));
    values.extend([Value::Ints(Arc::new(axes)), Value::Int(0), Value::Int(-1)]);
    values.extend([Value::Real(0.01), Value::Real(1.0), Value::Real(RADIUS)]);
    values.extend(orders.map(|o| tape.constant(o).into()));
    let y = tape.call(&op, values).unwrap();
    tape.backward(&[(y[0], weights)]).unwrap();
    for (n, want) in found.gradients.iter().enumerate() {
        let got = tape.gradient(vars[n]).expect("a gradient");
        assert!(got.equals(want).unwrap(), "argument {n}");
    }
}

#[test]
fn orders_that_are_none_are_named() {
    let (op, arrays, batches, axes) = (op(), arrays(), batches(), no_axes());
    for (wrong, name) in [(vec![0; QUERIES], "query_order"), ((1..=QUERIES as i32).collect(), "query_order")]
    {
        let orders = [Array::I32(wrong.into()), orders()[1].try_clone().unwrap()];
        let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend(batches.iter().map(|b| Arg::Structure(b)));
        args.extend(numbers(&axes, -1));
        args.extend(orders.iter().map(|o| Arg::Array(o.view())));
        let error = op.value(&madelung_cpu::context(), &args).unwrap_err().to_string();
        let expected = format!("`{name}`: expected every number from 0 to below {QUERIES} once");
        assert!(error.starts_with(&expected), "{error}");
    }
}

/// An allocator that counts what it gives and gets back.
struct Counting<'a> {
    inner: &'a dyn Allocator,
    /// Arrays and bytes that are out, and the most bytes that ever were.
    out: Mutex<[usize; 3]>,
}

fn bytes(array: &Array) -> usize {
    array.shape().iter().product::<usize>() * array.dtype().size()
}

impl<'a> Counting<'a> {
    fn of(inner: &'a dyn Allocator) -> Self {
        Self { inner, out: Mutex::default() }
    }

    fn out(&self) -> [usize; 3] {
        *self.out.lock().unwrap()
    }

    fn counted(&self, array: Result<Array>) -> Result<Array> {
        let array = array?;
        let mut out = self.out.lock().unwrap();
        let now = out[1] + bytes(&array);
        *out = [out[0] + 1, now, out[2].max(now)];
        Ok(array)
    }
}

impl Allocator for Counting<'_> {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.counted(self.inner.zeros(dtype, shape))
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.counted(self.inner.room(dtype, shape))
    }

    fn recycle(&self, array: Array) {
        let mut out = self.out.lock().unwrap();
        *out = [out[0] - 1, out[1] - bytes(&array), out[2]];
        self.inner.recycle(array);
    }
}

/// The gradients of a call, which saves for them, with all that both passes give back to their allocator.
fn both_ways(
    context: &Context<'_>,
    memory: &Counting<'_>,
    args: &[Arg<'_>],
    weights: &Array,
    read: &dyn Fn(&Array) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let (op, by) = (op(), [0, 1, 2, 3]);
    let forward = Request { values: true, save: Some(&by), ..Request::default() };
    let done = op.evaluate(context, args, &forward).unwrap();
    let results = || done.values.iter().chain(done.saved.iter().flatten());
    let (count, held) = (results().count(), results().map(bytes).sum::<usize>());
    assert_eq!(memory.out()[..2], [count, held], "the results, and nothing else, are out");
    let cotangents = [Some(Cotangent::Array(weights.view()))];
    let saved: Vec<_> = done.saved.iter().map(|array| array.as_ref().map(Array::view)).collect();
    let backward = Request { cotangents: &cotangents, gradients: &by, saved: &saved, ..Request::default() };
    let back = op.evaluate(context, args, &backward).unwrap();
    let gradients: usize = back.gradients.iter().map(bytes).sum();
    assert_eq!(memory.out()[..2], [count + by.len(), held + gradients]);
    let found = back.gradients.iter().map(read).collect();
    for done in [done, back] {
        let all = done.values.into_iter().chain(done.gradients).chain(done.saved.into_iter().flatten());
        all.for_each(|array| memory.recycle(array));
    }
    assert_eq!(memory.out()[..2], [0, 0]);
    found
}

#[test]
fn memory_is_that_of_the_allocator_and_grows_with_points() {
    let (arrays, orders, batches, axes) = (arrays(), orders(), batches(), no_axes());
    let weights = array(&[QUERIES, FEATURES], &wiggles(QUERIES * FEATURES, 0.7));
    let mut most = vec![];
    for radius in [1e-3, RADIUS, 30.0] {
        let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend(batches.iter().map(|b| Arg::Structure(b)));
        args.extend(numbers(&axes, -1));
        args.extend(orders.iter().map(|o| Arg::Array(o.view())));
        args[12] = Arg::Real(radius);
        let memory = Counting::of(&Heap);
        let context = Context { allocator: &memory, ..madelung_cpu::context() };
        both_ways(&context, &memory, &args, &weights, &|array| array.to_f64().unwrap());
        most.push(memory.out()[2]);
    }
    assert_eq!(most, [most[0]; 3], "no memory grows with pairs");
}

#[test]
fn a_device_gives_what_the_processor_gives_in_memory_of_the_allocator() {
    let (gpu, arrays, orders, batches, axes) = (Gpu::new(), arrays(), orders(), batches(), no_axes());
    let weights = array(&[QUERIES, FEATURES], &wiggles(QUERIES * FEATURES, 0.7));
    let memory = Counting::of(&Heap);
    let context = Context { allocator: &memory, ..madelung_cpu::context() };
    let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
    args.extend(batches.iter().map(|b| Arg::Structure(b)));
    args.extend(numbers(&axes, -1));
    args.extend(orders.iter().map(|o| Arg::Array(o.view())));
    let expected = both_ways(&context, &memory, &args, &weights, &|array| array.to_f64().unwrap());
    let [sent, sent_orders] =
        [&arrays[..], &orders[..]].map(|host| host.iter().map(|a| gpu.copy(&a.view())).collect::<Vec<_>>());
    let (of, sent_axes, sent_weights) = (
        batches.each_ref().map(|b| SentBatch::new(&gpu, b)),
        gpu.copy(&axes.view()),
        gpu.copy(&weights.view()),
    );
    let of = of.each_ref().map(SentBatch::batch);
    // All pairs, and exactly as many as there are.
    for room in [POINTS as i64, -1] {
        let mut args: Vec<Arg<'_>> = sent.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend(of.iter().map(|b| Arg::Structure(b)));
        args.extend(numbers(&sent_axes, room));
        args.extend(sent_orders.iter().map(|o| Arg::Array(o.view())));
        let memory = Counting::of(&gpu.memory);
        let context = Context { allocator: &memory, ..gpu.context() };
        let read = |array: &Array| gpu.read(&array.view()).to_f64().unwrap();
        let mut asked = vec![];
        for _ in 0..2 {
            let found = both_ways(&context, &memory, &args, &sent_weights, &read);
            for (found, expected) in found.iter().zip(&expected) {
                let largest = expected.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
                let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart <= 1e-13 * largest, "{apart} of {largest}");
            }
            asked.push(["cuMemAlloc_v2", "cuMemAllocAsync"].map(calls));
        }
        assert_eq!(asked[0], asked[1], "the driver is asked for nothing that the allocator has");
        gpu.check().expect("nothing went wrong");
    }
}
