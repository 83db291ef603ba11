//! Calls of an op that launch every form of its kernels.

use crate::declared::{Given, Plan, dimensions, integer_attributes};
use madelung::Error;
use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::op::{Arg, ArgKind, ArgSpec, Cotangent, Evaluated, Op, Request};
use madelung::pairs::Kind;

/// An op's arguments of about `n` rows, with lists of some kind, in an order of storage and integers that `n` decides.
pub(crate) fn plan(op: &Op, n: usize, dtype: DType, pairs: Kind) -> Plan {
    let (systems, others) = dimensions(op);
    // The atoms of a bonded term differ.
    let places = |dim: &String| {
        op.args.iter().filter(|a| matches!(&a.kind, ArgKind::Map { into, .. } if into == dim)).count()
    };
    let sizes = others.iter().enumerate().map(|(k, d)| (d.clone(), (n + 2 * k).max(places(d))));
    // Terms of two atoms are whole.
    let whole = if op.arg("width").is_some() { 2 } else { 1 };
    let sizes = sizes.map(|(d, size)| (d, size.next_multiple_of(whole)));
    let number = if n.is_multiple_of(3) { 3 } else { 1 };
    Plan {
        dims: sizes.chain(systems.iter().map(|d| (d.clone(), number))).collect(),
        attrs: integer_attributes(op).into_iter().map(|(name, ..)| (name, 2)).collect(),
        dtype,
        stored: if n.is_multiple_of(2) { DType::F16 } else { DType::BF16 },
        integers: if n.is_multiple_of(2) { DType::I32 } else { DType::I64 },
        pairs,
        seed: n as u64,
    }
    .complete(op)
}

/// Whether an op sees a list of pairs.
pub(crate) fn has_pairs(op: &Op) -> bool {
    op.args.iter().any(|a| matches!(a.kind, ArgKind::Pairs { .. }))
}

/// The gradients to ask for: all and each alone, and, where `sets` says so, any two and all but any one. Code asks of one
/// array at a time whether its gradient is wanted, so other sets have no branches of their own.
fn masks(differentiable: &[usize], sets: bool) -> Vec<Vec<usize>> {
    let of = |bits: u32| {
        let chosen = differentiable.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1);
        chosen.map(|(_, arg)| *arg).collect::<Vec<_>>()
    };
    let count = differentiable.len() as u32;
    let is_asked =
        |wanted: u32| wanted == count || wanted == 1 || sets && (wanted == 2 || wanted + 1 == count);
    (1u32..1 << count).filter(|bits| is_asked(bits.count_ones())).map(of).collect()
}

/// Every member of the family.
pub(crate) fn run_all(op: &Op, plan: &Plan, context: &Context<'_>, sets: bool) {
    let given = plan.arguments(op);
    let args: Vec<Arg<'_>> = given.iter().map(Given::arg).collect();
    let differentiable: Vec<usize> = (0..args.len()).filter(|n| op.is_differentiable(*n)).collect();
    let direction = |seed: u64| -> Vec<Option<Array>> {
        let of = |(n, arg): (usize, &ArgSpec)| match &arg.kind {
            ArgKind::Real { shape, .. } => {
                Some(plan.numbers(plan.dtype_of(arg), &plan.shape(shape), seed + n as u64))
            }
            _ => None,
        };
        op.args.iter().enumerate().map(of).collect()
    };
    let (u, v) = (direction(100), direction(200));
    let u: Vec<Option<View<'_>>> = u.iter().map(|a| a.as_ref().map(Array::view)).collect();
    let v: Vec<Option<View<'_>>> = v.iter().map(|a| a.as_ref().map(Array::view)).collect();
    let first: Vec<Option<View<'_>>> =
        u.iter().enumerate().map(|(n, u)| u.clone().filter(|_| n == 0)).collect();
    let run = |request: &Request<'_, '_>| match op.evaluate(context, &args, request) {
        Ok(done) => done,
        // What has no derivative says so.
        Err(Error::Unsupported(_)) => Evaluated::default(),
        Err(e) => panic!("{}: {e}\n{plan:?}", op.name),
    };
    let outputs = run(&Request { values: true, save: Some(&differentiable), ..Request::default() });
    for directions in [&[][..], &[&u[..]], &[&first[..]], &[&u[..], &v[..]]] {
        run(&Request { directions, ..Request::default() });
    }
    // Integers have no cotangents.
    let real = |n: usize| op.outputs[n].dtype.is_none();
    let weights: Vec<Array> =
        (300..).zip(&outputs.values).map(|(seed, y)| plan.numbers(y.dtype(), y.shape(), seed)).collect();
    let arrays: Vec<_> =
        (0..).zip(&weights).map(|(n, w)| real(n).then(|| Cotangent::Array(w.view()))).collect();
    let uniform: Vec<_> = (0..weights.len()).map(|n| real(n).then_some(Cotangent::Uniform(0.5))).collect();
    let saved: Vec<Option<View<'_>>> = outputs.saved.iter().map(|a| a.as_ref().map(Array::view)).collect();
    for gradients in masks(&differentiable, sets) {
        for cotangents in [&arrays, &uniform] {
            let request = Request { cotangents, gradients: &gradients, ..Request::default() };
            run(&request);
            run(&Request { values: true, ..request.clone() });
            run(&Request { saved: &saved, ..request.clone() });
            for direction in [&u, &first] {
                run(&Request { directions: &[direction], ..request.clone() });
            }
        }
    }
}
