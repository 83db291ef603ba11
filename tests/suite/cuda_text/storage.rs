//! Channels, and arrays whose storage, compute and accumulator types are three: the text of a kernel with all its forms
//! against the Rust code.

use super::host::{Host, Order, Scatter, Texts, Types};
use crate::backends::noise::{Noise, SIZE};
use crate::common::numeric::{rms, rms_difference};
use madelung::array::{Array, DType};
use madelung::backend::Context;
use madelung::op::{Arg, Cotangent, Op, Request};
use madelung::pairs::{Kind, PairList};
use std::sync::Arc;

madelung::kernels! {
    #[kernel]
    fn aggregate(
        i: Centre,
        centres: &[Vec3; Centre],
        points: &[Vec3; Point],
        features: &[[Real; Feature]; Point],
        gain: &[Real; Feature],
        sigma: &Real,
        near: &Pairs<Centre, Point, Edge>,
        out: &mut [[Real; Feature]; Centre],
    ) {
        let mut sum = [0.0; Feature];
        let mut norm = 0.0;
        for (j, shift, p) in near.row(i) {
            let weight = exp(-length(points[j] - centres[i]) / sigma);
            norm += weight;
            for c in Feature {
                sum[c] += weight * features[j][c];
            }
        }
        for c in Feature {
            out[i][c] = gain[c] * sum[c] / (norm + 1e-3);
        }
    }
}

const CENTRES: usize = 45;
const POINTS: usize = 37;
const WIDTH: usize = 19;

fn op() -> Arc<Op> {
    let op =
        Op::new("test", "aggregate", 1).real("centres", &["Centre", "3"]).real("points", &["Point", "3"]);
    let op = op.real("features", &["Point", "Feature"]).real("gain", &["Feature"]).real("sigma", &[]);
    let op = op.pairs_between("near", "Centre", "Point", "Edge").output("out", &["Centre", "Feature"]);
    op.step(&AGGREGATE).build().expect("an op")
}

/// Numbers of no pattern that f32 has as well.
fn array(dtype: DType, shape: &[usize], seed: f64) -> Array {
    let n = shape.iter().product::<usize>();
    let numbers: Vec<f64> =
        (0..n).map(|k| f64::from((12.9898 * (k as f64 + 7.3 * seed)).sin() as f32)).collect();
    Array::from_f64(dtype, shape, &numbers).expect("a shape that fits")
}

/// Values, gradients and Hessian-vector products.
fn answers(context: &Context<'_>, dtype: DType) -> Vec<Vec<f64>> {
    let shapes: [&[usize]; 5] = [&[CENTRES, 3], &[POINTS, 3], &[POINTS, WIDTH], &[WIDTH], &[]];
    let arrays: Vec<Array> = (0..5).map(|n| array(dtype, shapes[n], 2.0 + n as f64)).collect();
    let direction: Vec<Array> = (0..5).map(|n| array(dtype, shapes[n], 12.0 + n as f64)).collect();
    let weights = array(dtype, &[CENTRES, WIDTH], 22.0);
    let (rows, columns): (Vec<i32>, Vec<i32>) = (0..(CENTRES * POINTS) as i32)
        .map(|k| (k / POINTS as i32, k % POINTS as i32))
        .filter(|(i, j)| (i * j + j) % 7 == 3)
        .unzip();
    let shifts = vec![[0; 3]; rows.len()];
    let near = PairList::from_coo(&rows, columns, shifts, CENTRES, POINTS, Kind::Directed).expect("a list");
    let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
    args.push(Arg::Structure(&near));
    let mut along: Vec<_> = direction.iter().map(|d| Some(d.view())).collect();
    along.push(None);
    let op = op();
    let mut answers = op.value(context, &args).expect("values");
    for directions in [&[][..], &[along.as_slice()][..]] {
        let request = Request {
            directions,
            cotangents: &[Some(Cotangent::Array(weights.view()))],
            gradients: &[0, 1, 2, 3, 4],
            ..Request::default()
        };
        answers.extend(op.evaluate(context, &args, &request).expect("gradients").gradients);
    }
    answers.iter().map(|a| a.to_f64().unwrap()).collect()
}

fn host(types: Types, packed: bool) -> Host {
    let texts = Texts::new(&[&AGGREGATE], types, 1, Scatter::Atomic, packed);
    // As long as the test runs, like those of all kernels.
    Host { texts: Box::leak(Box::new(texts)), order: Order::Backwards }
}

fn compare(types: Types, tolerance: f64) {
    let [got, packed] = [false, true].map(|packed| {
        let host = host(types, packed);
        answers(&Context { backend: &host, ..madelung::cpu::context() }, types.storage)
    });
    assert_eq!(packed, got, "{types:?}: records have what the arrays have");
    let want = answers(&madelung::cpu::context(), DType::F64);
    // Sums whose terms cancel keep the rounding of the terms: see `noise`.
    let mut sensitivity = vec![0.0; want.len()];
    for seed in 0..8 {
        let noise = Noise::new(seed);
        let moved = answers(&Context { backend: &noise, ..madelung::cpu::context() }, DType::F64);
        for (s, (x, y)) in sensitivity.iter_mut().zip(moved.iter().zip(&want)) {
            *s = rms_difference(x, y).max(*s * SIZE) / SIZE;
        }
    }
    for (n, ((x, y), s)) in got.iter().zip(&want).zip(sensitivity).enumerate() {
        let error = rms_difference(x, y) / rms(y).max(s);
        println!("{types:?}, answer {n}: {error:.1e}");
        assert!(error <= tolerance, "{types:?}, answer {n}: {error:.1e}");
    }
}

#[test]
fn channels_in_f64() {
    compare(Types { storage: DType::F64, real: DType::F64, sums: DType::F64 }, 1e-13);
}

/// Inputs are the same numbers in either type; what is left is the rounding of results, and of what one launch hands to
/// the next.
#[test]
fn f32_arrays_computed_in_f64() {
    compare(Types { storage: DType::F32, real: DType::F64, sums: DType::F64 }, 1.2e-7);
}

/// Sums in f64: the bound that docs/conventions.md has for f32. Sums in f32: that of adding up as many terms one after
/// the other as a row has, (n − 1) ε.
#[test]
fn f32_arrays_computed_in_f32_with_sums_in_either() {
    let terms = (POINTS * WIDTH) as f64;
    for (sums, tolerance) in [(DType::F32, terms * f64::from(f32::EPSILON)), (DType::F64, 1e-5)] {
        compare(Types { storage: DType::F32, real: DType::F32, sums }, tolerance);
    }
}
