//! The mean energy beyond a cutoff against its formula.

use crate::cases::{CASES, Given};
use crate::common::numeric::{assert_close_rms, rms};
use crate::derivatives;
use madelung_core::array::{Array, DType};
use madelung_core::op::Arg;
use madelung_core::structure::{Map, Structure};
use std::f64::consts::PI;

#[test]
fn tails_of_two_systems() {
    let given = Given::new(&CASES[0], 3);
    let integrals = [-0.3, 0.4, 0.1, 0.4, -0.7, 0.2, 0.1, 0.2, 1.3];
    let count = |atoms: std::ops::Range<usize>, kind: i32| {
        given.types[atoms].iter().filter(|other| **other == kind).count() as f64
    };
    let batch = given.batch();
    let mut want = vec![];
    for (s, system) in given.systems.iter().enumerate() {
        want.extend(batch.members(s).map(|i| {
            let of =
                |kind: i32| count(batch.members(s), kind) * integrals[(3 * given.types[i] + kind) as usize];
            1.7 * 2.0 * PI / system.volume() * (0..3).map(of).sum::<f64>()
        }));
    }
    let totals: Vec<f64> = (0..2).map(|s| batch.members(s).map(|i| want[i]).sum()).collect();
    let array = |shape: &[usize], x: &[f64]| Array::from_f64(DType::F64, shape, x).expect("shapes fit");
    let mut arrays = given.arrays(DType::F64);
    arrays.truncate(2);
    arrays.push(array(&[3, 3], &integrals));
    let (number, types) = (array(&[3], &[0.0, 1.0, 2.0]), Map::new(given.types.clone(), 3).expect("a map"));
    let of_each: Vec<f64> = given.types.iter().map(|kind| f64::from(*kind)).collect();
    let kind = Array::from_f64(DType::I32, &[of_each.len()], &of_each).expect("integers");
    let rest = [
        Arg::Zero,
        Arg::Structure(&batch as &dyn Structure),
        Arg::Real(1.7),
        Arg::Structure(&types),
        Arg::Array(kind.view()),
        Arg::Array(number.view()),
    ];
    let args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).chain(rest.clone()).collect();
    for (name, want) in [("tail", &want), ("tail_total", &totals)] {
        let op = madelung_potentials::registry().get(name).expect("an op");
        let got = op.value(&madelung_cpu::context(), &args).expect("a call")[0].to_f64().unwrap();
        assert_close_rms(&got, want, 1e-14, rms(want));
        derivatives::of_both_orders(op, &arrays, &rest);
    }
}
