//! Every member of every op's family against finite differences of the member below it.

use crate::common::numeric::{richardson, rms};
use crate::common::systems::{left_handed_cell, random_system, triclinic_cell};
use crate::support::{ALPHA, Call, dot, random};
use madelung::array::{Array, DType};
use madelung::electrostatics::registry;
use madelung::map::Map;
use madelung::op::{Cotangent, Structure};
use madelung::tape::{Tape, Value};
use madelung_core::runtime::SlotArray;
use std::sync::Arc;

fn calls() -> Vec<Call> {
    let a = random_system(1, 9, triclinic_cell(260.0), 0.0, 1.2);
    let b = random_system(2, 7, left_handed_cell(240.0), 1.1, 1.2);
    registry().iter().map(|op| Call::new(op, &[&a, &b])).collect()
}

/// A difference in units of `scale`, against a bound.
fn check(what: &str, got: f64, want: f64, scale: f64, bound: f64) {
    let error = (got - want).abs() / scale;
    println!("{what}: {error:.1e}");
    assert!(error <= bound, "{what}: {got} against {want}, {error:.1e} of {scale}");
}

/// The differentiable arrays of an op.
fn arrays_of(call: &Call) -> impl Iterator<Item = &'static str> {
    let all = [
        "positions",
        "charges",
        "cell",
        "alpha",
        "factors",
        "widths",
        "background",
        "field",
        "electronegativity",
        "exponents",
    ];
    all.into_iter().filter(|name| call.op.arg(name).is_some())
}

#[test]
fn first_derivatives() {
    for call in calls() {
        let n = call.value(&call.arrays).len();
        let w = random(5, n);
        let weights = Array::from_f64(DType::F64, &[n], &w).expect("shapes fit");
        let gradient =
            call.gradient(&madelung::cpu::context(), &call.arrays, Cotangent::Array(weights.view()), &[]);
        let differentiable = call.differentiable();
        for (seed, name) in arrays_of(&call).flat_map(|a| (10..13).map(move |s| (s, a))) {
            let u = call.only(&call.direction(seed), name);
            let along = |h: f64| dot(&w, &call.value(&call.moved(&u, h)));
            let (numerical, _) = richardson(along, 0.0, 2e-2);
            let at = call.position(name);
            let u_values = u[at].as_ref().expect("a direction").to_f64().unwrap();
            let g = &gradient[differentiable.iter().position(|n| *n == at).expect("differentiable")];
            // Where alpha hardly matters (the whole sum does not depend on it) the parts set the scale.
            let scale = (rms(g) * (u_values.len() as f64).sqrt()).max(rms(&w) * (n as f64).sqrt() * 0.1);
            let title = format!("{} by {name}", call.op.name);
            check(&format!("G0 {title}"), dot(g, &u_values), numerical, scale, 1e-8);
            let forward = dot(&w, &call.tangent(&call.arrays, &[&u]));
            check(&format!("F1 {title}"), forward, dot(g, &u_values), scale, 1e-12);
        }
        let eta: [f64; 9] = random(3, 9).try_into().expect("nine");
        let (numerical, _) = richardson(|h| dot(&w, &call.value(&call.strained(&eta, h))), 0.0, 1e-3);
        let g = &gradient
            [differentiable.iter().position(|n| *n == call.position("strain")).expect("differentiable")];
        let by_eta = g.chunks_exact(9).map(|g| dot(g, &eta)).sum();
        check(&format!("G0 {} by strain", call.op.name), by_eta, numerical, rms(g) * 3.0, 1e-8);
    }
}

#[test]
fn second_derivatives() {
    for call in calls() {
        let n = call.value(&call.arrays).len();
        let w = random(6, n);
        let weights = Array::from_f64(DType::F64, &[n], &w).expect("shapes fit");
        let g = |arrays: &[Option<Array>]| {
            call.gradient(&madelung::cpu::context(), arrays, Cotangent::Array(weights.view()), &[])
        };
        let differentiable = call.differentiable();
        let probe = call.direction(40);
        for name in arrays_of(&call) {
            let u = call.only(&call.direction(30), name);
            let hvp = call.gradient(
                &madelung::cpu::context(),
                &call.arrays,
                Cotangent::Array(weights.view()),
                &[&u],
            );
            for (k, at) in differentiable.iter().enumerate() {
                let of = &call.op.args[*at].name;
                let v = match &probe[*at] {
                    Some(v) => v.to_f64().unwrap(),
                    None => random(7, hvp[k].len()),
                };
                let (numerical, _) = richardson(|h| dot(&g(&call.moved(&u, h))[k], &v), 0.0, 2e-2);
                let scale = rms(&hvp[k]) * (v.len() as f64).sqrt();
                let title = format!("G1 {}: {of} along {name}", call.op.name);
                check(&title, dot(&hvp[k], &v), numerical, scale.max(0.1), 1e-7);
            }
            let v = call.direction(50);
            let mixed = dot(&w, &call.tangent(&call.arrays, &[&u, &v]));
            let (numerical, _) = richardson(|h| dot(&w, &call.tangent(&call.moved(&v, h), &[&u])), 0.0, 2e-2);
            check(
                &format!("F2 {} along {name}", call.op.name),
                mixed,
                numerical,
                numerical.abs().max(0.1),
                1e-7,
            );
        }
    }
}

/// A strain on top of a deformation multiplies it: (1 + hη)(1 + ε) = 1 + hη + ε + hηε. So the difference of the
/// gradient along a deformation is the second derivative and a first one.
#[test]
fn second_derivatives_by_strain() {
    for call in calls() {
        let n = call.value(&call.arrays).len();
        let w = random(8, n);
        let weights = Array::from_f64(DType::F64, &[n], &w).expect("shapes fit");
        let by = call.position("strain");
        let k = call.differentiable().iter().position(|n| *n == by).expect("differentiable");
        let g = |arrays: &[Option<Array>]| {
            call.gradient(&madelung::cpu::context(), arrays, Cotangent::Array(weights.view()), &[])
                .swap_remove(k)
        };
        let eta: [f64; 9] = random(3, 9).try_into().expect("nine");
        let zeta: [f64; 9] = random(4, 9).try_into().expect("nine");
        let systems = g(&call.arrays).len() / 9;
        let mut u: Vec<_> = call.arrays.iter().map(|_| None).collect();
        u[by] =
            Some(Array::from_f64(DType::F64, &[systems, 3, 3], &eta.repeat(systems)).expect("shapes fit"));
        let hvp =
            call.gradient(&madelung::cpu::context(), &call.arrays, Cotangent::Array(weights.view()), &[&u]);
        let along = |g: &[f64], z: &[f64; 9]| g.chunks_exact(9).map(|g| dot(g, z)).sum::<f64>();
        let (difference, _) = richardson(|h| along(&g(&call.strained(&eta, h)), &zeta), 0.0, 1e-3);
        let product: [f64; 9] =
            std::array::from_fn(|m| (0..3).map(|q| eta[m / 3 * 3 + q] * zeta[3 * q + m % 3]).sum());
        let want = difference - along(&g(&call.arrays), &product);
        let title = format!("G1 {}: strain along strain", call.op.name);
        // An energy that is linear in the strain has none, and the rounding of its gradient.
        let scale = (rms(&hvp[k]) * 3.0).max(1e-3 * rms(&g(&call.arrays)));
        check(&title, along(&hvp[k], &zeta), want, scale, 1e-7);
        // And the tangent of the energies along the strain is the gradient's contraction.
        let forward = dot(&w, &call.tangent(&call.arrays, &[&u]));
        let reverse = along(&g(&call.arrays), &eta);
        check(&format!("F1 {} by strain", call.op.name), forward, reverse, reverse.abs().max(0.1), 1e-12);
    }
}

#[test]
fn gather_is_scatter() {
    let a = random_system(3, 40, triclinic_cell(500.0), 0.0, 1.2);
    let b = random_system(4, 11, left_handed_cell(300.0), 0.4, 1.2);
    for op in registry().iter().filter(|op| op.arg("pairs").is_some()) {
        let gather = Call::new(op, &[&a, &b]);
        let scatter = Call::new(op, &[&a, &b]).scattering();
        let n = gather.value(&gather.arrays).len();
        let weights = Array::from_f64(DType::F64, &[n], &random(9, n)).expect("shapes fit");
        let u = gather.direction(1);
        for directions in [&[][..], &[u.as_slice()]] {
            let of = |call: &Call| {
                let w = Cotangent::Array(weights.view());
                call.gradient(&madelung::cpu::context(), &call.arrays, w, directions)
            };
            for (k, (x, y)) in of(&gather).iter().zip(of(&scatter)).enumerate() {
                // The whole sum does not depend on alpha: its parts, of order one, set the scale.
                let scale = rms(x).max(0.1);
                for (x, y) in x.iter().zip(&y) {
                    let name = &op.args[gather.differentiable()[k]].name;
                    check(&format!("{} by {name}", op.name), *x, *y, scale, 1e-13);
                }
            }
        }
    }
}

#[test]
fn uniform_cotangent_is_the_same_everywhere() {
    for call in calls() {
        let n = call.value(&call.arrays).len();
        let ones = Array::filled(DType::F64, &[n], 0.7);
        let of = |w| call.gradient(&madelung::cpu::context(), &call.arrays, w, &[]);
        // The terms of ∂E/∂α are of the size of E/α, and cancel where the sum is whole.
        let terms = call.value(&call.arrays).iter().map(|e| e.abs()).sum::<f64>() / ALPHA;
        let by = call.differentiable();
        let uniform = of(Cotangent::Uniform(0.7));
        for ((n, x), y) in by.iter().zip(&uniform).zip(of(Cotangent::Array(ones.view()))) {
            let name = &call.op.args[*n].name;
            let bound = 1e-13 * rms(&y).max(if name == "alpha" { terms } else { 1e-3 });
            let error = x.iter().zip(&y).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
            assert!(error <= bound, "{} by {name}: {error:.1e} of {:.1e}", call.op.name, rms(&y));
        }
    }
}

/// Scaled losses overflow: a trainer sees it in the gradients, and skips the step. Systems that have nothing to do with it
/// keep their bits.
#[test]
fn what_is_not_finite_goes_through() {
    const ATOMS: usize = 9;
    for call in calls() {
        let n = call.value(&call.arrays).len();
        let first = if n == 2 { 1 } else { ATOMS };
        let of = |x: f64, second_order: bool| {
            let (mut w, mut u) = (random(5, n), call.direction(3));
            w[first..].fill(if second_order { 0.3 } else { x });
            let at = call.position("charges");
            let mut charges = u[at].as_ref().expect("a direction").to_f64().unwrap();
            charges[ATOMS..].fill(if second_order { x } else { 0.2 });
            u[at] = Some(Array::from_f64(DType::F64, &[charges.len()], &charges).expect("shapes fit"));
            let w = Array::from_f64(DType::F64, &[n], &w).expect("shapes fit");
            let along: &[&[Option<Array>]] = if second_order { &[&u] } else { &[] };
            call.gradient(&madelung::cpu::context(), &call.arrays, Cotangent::Array(w.view()), along)
        };
        for second_order in [false, true] {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let (expected, found) = (of(1.0, second_order), of(bad, second_order));
                for (name, (x, y)) in call.differentiable().iter().zip(expected.iter().zip(&found)) {
                    let name = &call.op.args[*name].name;
                    // Sums of pairs do not change with where they end, but for jumps, nor with an exponent, which is rounded;
                    // those of all pairs, and charges in a field, have no cell.
                    let has = |name: &str| call.op.arg(name).is_some();
                    let all_pairs = (has("is_open") || has("field")) && !has("pairs");
                    if ["cutoff", "exponent"].contains(&name.as_str()) || (name == "cell" && all_pairs) {
                        assert!(x.iter().chain(y).all(|x| *x == 0.0), "{} by {name}", call.op.name);
                        continue;
                    }
                    // Potentials of a field do not depend on charges.
                    if has("field") && name == "charges" && second_order {
                        continue;
                    }
                    // Of atoms, of systems; factors are those of pairs of both systems.
                    let sixteenths = match name.as_str() {
                        "positions" | "charges" | "widths" | "electronegativity" | "exponents" => ATOMS,
                        "factors" => 0,
                        _ => 8,
                    };
                    let first = x.len() * sixteenths / 16;
                    assert_eq!(x[..first], y[..first], "{} by {name}", call.op.name);
                    assert!(y[first..].iter().all(|y| !y.is_finite()), "{} by {name}", call.op.name);
                }
            }
        }
    }
}

/// A structured argument with arrays of its own.
fn owned(structure: &dyn Structure) -> Arc<dyn Structure> {
    match (structure.as_batch(), structure.as_pairs(), structure.as_mesh()) {
        (Some(batch), ..) => Arc::new(batch.clone().into_owned()),
        (_, Some(list), _) => Arc::new(list.clone().into_owned()),
        (.., Some(mesh)) => Arc::new(mesh.clone()),
        _ => {
            let of = structure.array(SlotArray::MapOf).expect("a map").expect("its elements");
            let of = of.to_i32("map").expect("int32").into_owned();
            Arc::new(Map::new(of, structure.sizes()[1].expect("a size")).expect("a map"))
        }
    }
}

/// Records an op's call on a tape; gives the inputs by argument and the energies.
fn record(
    tape: &mut Tape<'_>,
    call: &Call,
) -> (Vec<Option<madelung::tape::Var>>, madelung::tape::Var, Vec<Value>) {
    let mut inputs = vec![None; call.arrays.len()];
    let values: Vec<Value> = call
        .args(&call.arrays)
        .into_iter()
        .enumerate()
        .map(|(n, arg)| match arg {
            madelung::op::Arg::Array(view) if call.op.is_differentiable(n) => {
                let x = tape.input(view.to_array().unwrap());
                inputs[n] = Some(x);
                Value::Var(x)
            }
            madelung::op::Arg::Array(view) => {
                Value::Ints(Arc::new(view.to_array().expect("an array of the host")))
            }
            madelung::op::Arg::Structure(structure) => Value::Structure(owned(structure)),
            madelung::op::Arg::Grid(_) => unreachable!("no op of the library has a grid"),
            madelung::op::Arg::Real(x) => Value::Real(x),
            madelung::op::Arg::Int(i) => Value::Int(i),
            madelung::op::Arg::Zero => Value::Zero,
        })
        .collect();
    let energy = tape.call(&call.op, values.clone()).expect("a call")[0];
    (inputs, energy, values)
}

#[test]
fn tape_gives_the_analytic_gradients() {
    for call in calls() {
        let mut tape = Tape::new(madelung::cpu::context());
        let (inputs, energy, _) = record(&mut tape, &call);
        let n = tape.value(energy).expect("a value").shape()[0];
        let w = Array::from_f64(DType::F64, &[n], &random(5, n)).expect("shapes fit");
        let gradient =
            call.gradient(&madelung::cpu::context(), &call.arrays, Cotangent::Array(w.view()), &[]);
        let by: Vec<usize> = call.differentiable();
        // The terms of ∂E/∂α are of the size of E/α, and cancel where the sum is whole.
        let terms = call.value(&call.arrays).iter().map(|e| e.abs()).sum::<f64>() / ALPHA;
        for times in [1.0, 2.0] {
            // A second pass adds to the first.
            tape.backward(&[(energy, w.try_clone().unwrap())]).expect("a backward pass");
            for (n, want) in by.iter().zip(&gradient) {
                let Some(x) = inputs[*n] else { continue };
                let got = tape.gradient(x).expect("a gradient").to_f64().unwrap();
                let error = got.iter().zip(want).map(|(g, w)| (g - times * w).abs()).fold(0.0, f64::max);
                let name = &call.op.args[*n].name;
                let scale = rms(want).max(if name == "alpha" { terms } else { 0.0 });
                // Saved gradients are multiplied by the weight at the end, the others in each term.
                assert!(error <= 1e-13 * times * scale, "{} by {name}: {:.1e}", call.op.name, error / scale);
            }
        }
        // Zeroed, moved and replayed.
        tape.zero();
        let u = call.direction(3);
        let moved = call.moved(&u, 0.01);
        for (x, array) in inputs.iter().zip(&moved) {
            if let (Some(x), Some(array)) = (x, array) {
                tape.set(*x, array.try_clone().unwrap()).expect("an input");
            }
        }
        tape.replay().expect("a replay");
        assert_eq!(
            tape.value(energy).expect("a value").to_f64().unwrap(),
            call.value(&moved),
            "{}",
            call.op.name
        );
        tape.backward(&[(energy, w.try_clone().unwrap())]).expect("a backward pass");
        let want = call.gradient(&madelung::cpu::context(), &moved, Cotangent::Array(w.view()), &[]);
        let got = tape.gradient(inputs[0].expect("positions")).expect("a gradient").to_f64().unwrap();
        assert!(got.iter().zip(&want[0]).all(|(g, w)| (g - w).abs() <= 1e-13 * rms(&want[0])));
    }
}

/// The loss of a force-matching fit, ½ Σ |F − F₀|², differentiated through the forces.
#[test]
fn tape_differentiates_forces() {
    for call in calls() {
        let force_loss = |arrays: &[Option<Array>], target: &[f64]| {
            let g =
                call.gradient(&madelung::cpu::context(), arrays, Cotangent::Uniform(1.0), &[]).swap_remove(0);
            0.5 * g.iter().zip(target).map(|(g, t)| (g - t).powi(2)).sum::<f64>()
        };
        let mut tape = Tape::new(madelung::cpu::context());
        let (inputs, energy, _) = record(&mut tape, &call);
        let ones = Array::filled(DType::F64, tape.value(energy).expect("a value").shape(), 1.0);
        let ones = tape.constant(ones);
        let r = inputs[0].expect("positions");
        let forces = tape.differentiate(&[(energy, ones)], &[r]).expect("recorded")[0].expect("depends");
        let f = tape.value(forces).expect("a value");
        let target: Vec<f64> = random(11, f.to_f64().unwrap().len()).iter().map(|x| 0.1 * x).collect();
        let residual: Vec<f64> = f.to_f64().unwrap().iter().zip(&target).map(|(f, t)| f - t).collect();
        let residual = Array::from_f64(DType::F64, f.shape(), &residual).expect("shapes fit");
        tape.backward(&[(forces, residual)]).expect("second order");
        for name in arrays_of(&call) {
            let at = call.position(name);
            let u = call.only(&call.direction(12), name);
            let (numerical, _) = richardson(|h| force_loss(&call.moved(&u, h), &target), 0.0, 2e-2);
            let g = tape.gradient(inputs[at].expect("an input")).expect("a gradient").to_f64().unwrap();
            let u = u[at].as_ref().expect("a direction").to_f64().unwrap();
            let scale = (rms(&g) * (g.len() as f64).sqrt()).max(0.1);
            check(&format!("{} force loss by {name}", call.op.name), dot(&g, &u), numerical, scale, 1e-7);
        }
    }
}

#[test]
fn third_order_says_that_it_does_not_ship() {
    let call = &calls()[0];
    let mut tape = Tape::new(madelung::cpu::context());
    let (inputs, energy, _) = record(&mut tape, call);
    let r = inputs[0].expect("positions");
    let mut y = energy;
    let mut last = Ok(vec![]);
    for _ in 0..3 {
        let ones = Array::filled(DType::F64, tape.value(y).expect("a value").shape(), 1.0);
        let ones = tape.constant(ones);
        last = tape.differentiate(&[(y, ones)], &[r]);
        match &last {
            Ok(found) => y = found[0].expect("depends"),
            Err(_) => break,
        }
    }
    let message = last.expect_err("third order").to_string();
    assert!(message.contains("F₂ and G₁"), "{message}");
}
