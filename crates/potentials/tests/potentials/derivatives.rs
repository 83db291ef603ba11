//! Derivatives of an op against differences.

use crate::common::numeric::{assert_close_rms, rms};
use crate::common::systems::SplitMix64;
use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, Cotangent, Op, Request};

/// Tangents, second tangents and the tangent of the gradient along a random direction of all arrays, each against differences
/// of the member of the family below it. `rest`: the arguments behind the arrays.
pub(crate) fn of_both_orders(op: &Op, arrays: &[Array], rest: &[Arg<'_>]) {
    let mut r = SplitMix64(7);
    let mut random = |n: usize| (0..n).map(|_| r.uniform(-1.0, 1.0)).collect::<Vec<f64>>();
    let array = |shape: &[usize], x: &[f64]| Array::from_f64(DType::F64, shape, x).expect("shapes fit");
    let u: Vec<Vec<f64>> = arrays.iter().map(|a| random(a.shape().iter().product())).collect();
    let mut weights: Option<Array> = None;
    let mut ask = |h: f64, directions: usize, backwards: bool| -> Vec<Vec<f64>> {
        let moved = |(a, u): (&Array, &Vec<f64>)| {
            let x: Vec<f64> = a.to_f64().unwrap().iter().zip(u).map(|(x, u)| x + h * u).collect();
            array(a.shape(), &x)
        };
        let moved: Vec<Array> = arrays.iter().zip(&u).map(moved).collect();
        let along: Vec<Array> = arrays.iter().zip(&u).map(|(a, u)| array(a.shape(), u)).collect();
        let mut args: Vec<Arg<'_>> = moved.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend_from_slice(rest);
        let mut direction = vec![None; args.len()];
        for (d, a) in direction.iter_mut().zip(&along) {
            *d = Some(a.view());
        }
        let weights = weights.get_or_insert_with(|| {
            let request = Request { values: true, ..Request::default() };
            let shape = op.evaluate(&madelung_cpu::context(), &args, &request).expect("a call").values;
            let shape = shape[0].shape();
            array(shape, &random(shape.iter().product()))
        });
        let gradients: Vec<usize> = if backwards { (0..arrays.len()).collect() } else { vec![] };
        let cotangents = [Some(Cotangent::Array(weights.view()))];
        let request = Request {
            directions: &vec![direction.as_slice(); directions],
            cotangents: if backwards { &cotangents } else { &[] },
            gradients: &gradients,
            ..Request::default()
        };
        let done = op.evaluate(&madelung_cpu::context(), &args, &request).expect("a call");
        done.values.iter().chain(&done.gradients).map(|a| a.to_f64().unwrap()).collect()
    };
    for (directions, backwards) in [(1, false), (2, false), (1, true)] {
        let got = ask(0.0, directions, backwards);
        for (k, got) in got.iter().enumerate() {
            let mut below = |h: f64| ask(h, directions - 1, backwards).swap_remove(k);
            let h = 1e-4;
            let [near, far] = [h, 2.0 * h].map(|h| {
                let (up, down) = (below(h), below(-h));
                up.iter().zip(down).map(|(a, b)| (a - b) / (2.0 * h)).collect::<Vec<f64>>()
            });
            let want: Vec<f64> = near.iter().zip(&far).map(|(a, b)| (4.0 * a - b) / 3.0).collect();
            assert_close_rms(got, &want, 1e-8, rms(&want));
        }
    }
}
