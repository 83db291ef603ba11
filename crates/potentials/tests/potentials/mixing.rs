//! Mixing rules against their formulas.

use crate::common::numeric::{assert_close_rms, finite_difference};
use madelung_core::Error;
use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, Cotangent, Request};
use madelung_core::structure::Map;
use madelung_potentials::registry;

#[test]
fn mixing_rules() {
    let (epsilon, sigma): ([f64; 3], [f64; 3]) = ([0.2, 0.9, 0.0], [1.1, 2.3, 1.7]);
    let types: Vec<[usize; 2]> = (0..9).map(|p| [p / 3, p % 3]).collect();
    type Rule = fn([f64; 2], [f64; 2]) -> [f64; 2];
    let rules: [(&str, Rule); 3] = [
        ("mixed_lorentz_berthelot", |e, s| [(e[0] * e[1]).sqrt(), (s[0] + s[1]) / 2.0]),
        ("mixed_geometric", |e, s| [(e[0] * e[1]).sqrt(), (s[0] * s[1]).sqrt()]),
        ("mixed_waldman_hagler", |e, s| {
            let sixth = s[0].powi(6) + s[1].powi(6);
            [2.0 * (e[0] * e[1]).sqrt() * s[0].powi(3) * s[1].powi(3) / sixth, (sixth / 2.0).powf(1.0 / 6.0)]
        }),
    ];
    let maps =
        [0, 1].map(|k| Map::new(types.iter().map(|t| t[k] as i32).collect::<Vec<_>>(), 3).expect("a map"));
    for (name, rule) in rules {
        let op = registry().get(name).expect("an op of the registry");
        let call = |epsilon: &[f64; 3], sigma: &[f64; 3]| {
            let [e, s] = [epsilon, sigma].map(|x| Array::from_f64(DType::F64, &[3], x).expect("shapes fit"));
            let args = [
                Arg::Array(e.view()),
                Arg::Array(s.view()),
                Arg::Structure(&maps[0]),
                Arg::Structure(&maps[1]),
            ];
            let cotangents = [Some(Cotangent::Uniform(1.0)), Some(Cotangent::Uniform(1.0))];
            let request =
                Request { values: true, cotangents: &cotangents, gradients: &[0, 1], ..Request::default() };
            let found = op.evaluate(&madelung_cpu::context(), &args, &request)?;
            let all = found.values.iter().chain(&found.gradients).map(|a| a.to_f64().unwrap());
            Ok::<_, Error>(all.collect::<Vec<_>>())
        };
        let mixed = |epsilon: &[f64], sigma: &[f64]| {
            types.iter().map(|t| rule(t.map(|a| epsilon[a]), t.map(|a| sigma[a]))).collect::<Vec<_>>()
        };
        let (got, want) = (call(&epsilon, &sigma).expect("a call"), mixed(&epsilon, &sigma));
        for k in 0..2 {
            assert_close_rms(&got[k], &want.iter().map(|x| x[k]).collect::<Vec<_>>(), 4e-16, 1.0);
        }
        let by_sigma = finite_difference(|x| mixed(&epsilon, x).iter().flatten().sum(), &sigma, 1e-3);
        assert_close_rms(&got[3], &by_sigma, 1e-9, 1.0);
        // A root of 0 has no difference: the derivative of the other two types, by the pairs of these.
        let by_epsilon = finite_difference(
            |x| mixed(&[x[0], x[1], 0.0], &sigma).iter().flatten().sum(),
            &epsilon[..2],
            1e-3,
        );
        assert_close_rms(&got[2][..2], &by_epsilon, 1e-8, 1.0);
        assert_eq!(got[2][2], 0.0);
        // Types of no size, and one below zero.
        let zero = call(&epsilon, &[0.0; 3]).expect("a call");
        assert_eq!(zero[1], [0.0; 9]);
        assert!([&zero[0], &zero[2], &zero[3]].into_iter().flatten().all(|x| x.is_finite()));
        for (epsilon, sigma, argument) in
            [([0.1, -0.2, 0.3], sigma, "epsilon"), (epsilon, [0.1, -0.2, 0.3], "sigma")]
        {
            let error = call(&epsilon, &sigma).expect_err("a number below zero").to_string();
            let expected = format!("`{argument}`: expected finite numbers >= 0");
            assert!(error.contains(&expected) && error.contains("-0.2"), "{error}");
        }
    }
}
