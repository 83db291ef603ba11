//! A weight of a caller's own, against sums over all pairs, and its backward pass against that of a tape.

use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::structure::Batch;
use madelung_core::tape::{Tape, Value};
use std::sync::Arc;

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

#[test]
fn a_weight_of_ones_own() {
    let (op, arrays, orders, batches) = (op(), arrays(), orders(), batches());
    let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
    args.extend(batches.iter().map(|b| Arg::Structure(b)));
    args.extend([Arg::Real(0.01), Arg::Real(1.0), Arg::Real(RADIUS)]);
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
            let (got, want) = (got[FEATURES * i + c], sums[c] / norm);
            assert!((got - want).abs() < 1e-13, "{i}, {c}: {got} {want}");
        }
    }
    let mut tape = Tape::new(madelung_cpu::context());
    let vars: Vec<_> = arrays.iter().map(|a| tape.input(a.try_clone().unwrap())).collect();
    let mut values: Vec<Value> = vars.iter().map(|v| (*v).into()).collect();
    values.extend(batches.map(|b| Value::Structure(Arc::new(b))));
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
    let (op, arrays, batches) = (op(), arrays(), batches());
    for (wrong, name) in [(vec![0; QUERIES], "query_order"), ((1..=QUERIES as i32).collect(), "query_order")]
    {
        let orders = [Array::I32(wrong.into()), orders()[1].try_clone().unwrap()];
        let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend(batches.iter().map(|b| Arg::Structure(b)));
        args.extend([Arg::Real(0.01), Arg::Real(1.0), Arg::Real(RADIUS)]);
        args.extend(orders.iter().map(|o| Arg::Array(o.view())));
        let error = op.value(&madelung_cpu::context(), &args).unwrap_err().to_string();
        let expected = format!("`{name}`: expected every number from 0 to below {QUERIES} once");
        assert!(error.starts_with(&expected), "{error}");
    }
}
