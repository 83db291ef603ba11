//! Atoms far outside their cells in f32, against f64 at the same rounded numbers.

use crate::common::numeric::rms;
use crate::common::systems::{System, left_handed_cell, random_system, triclinic_cell};
use crate::support::Call;
use madelung::array::{Array, DType};
use madelung::electrostatics::registry;
use madelung::op::{Cotangent, Request};

/// The RMS error of every result in f32, over the RMS of the result: values, gradients, tangents, and gradients of those.
fn errors(systems: &[&System]) -> Vec<(String, f64)> {
    let mut errors = vec![];
    for name in ["ewald_real_space", "ewald_reciprocal_space", "ewald_summation_total"] {
        let call = Call::new(registry().get(name).expect("an op"), systems);
        let single = |array: &Array| {
            if array.dtype() == DType::F64 { array.cast(DType::F32) } else { array.try_clone() }
        };
        let double = |array: &Array| {
            if array.dtype() == DType::F32 { array.cast(DType::F64) } else { array.try_clone() }
        };
        let direction = call.direction(7);
        let [arrays, direction] = [&call.arrays, &direction]
            .map(|arrays| arrays.iter().map(|a| a.as_ref().map(|a| single(a).unwrap())).collect::<Vec<_>>());
        let wide = |arrays: &[Option<Array>]| -> Vec<Option<Array>> {
            arrays.iter().map(|a| a.as_ref().map(|a| double(a).unwrap())).collect()
        };
        let by = ["positions", "charges", "cell", "alpha", "strain"].map(|name| call.position(name));
        let results = |arrays: &[Option<Array>], direction: &[Option<Array>]| -> Vec<Vec<f64>> {
            let views: Vec<_> = direction.iter().map(|a| a.as_ref().map(Array::view)).collect();
            let one = [Some(Cotangent::Uniform(1.0))];
            let requests = [
                Request { values: true, cotangents: &one, gradients: &by, ..Request::default() },
                Request { directions: &[&views], ..Request::default() },
                Request { directions: &[&views], cotangents: &one, gradients: &by, ..Request::default() },
            ];
            let evaluated = requests.map(|request| {
                call.op.evaluate(&madelung::cpu::context(), &call.args(arrays), &request).expect("results")
            });
            let all = evaluated.iter().flat_map(|e| e.values.iter().chain(&e.gradients));
            all.map(|array| array.to_f64().unwrap()).collect()
        };
        let (narrow, exact) = (results(&arrays, &direction), results(&wide(&arrays), &wide(&direction)));
        for (n, (x, y)) in narrow.iter().zip(&exact).enumerate() {
            // The whole sum does not depend on alpha.
            if name == "ewald_summation_total" && [4, 10].contains(&n) {
                continue;
            }
            let off: Vec<f64> = x.iter().zip(y).map(|(x, y)| x - y).collect();
            errors.push((format!("{name}, result {n}"), rms(&off) / rms(y)));
        }
    }
    errors
}

#[test]
fn atoms_a_thousand_cells_away_have_the_forces_of_atoms_at_home() {
    let home = [
        random_system(1, 40, triclinic_cell(500.0), 0.3, 1.2),
        random_system(2, 100, left_handed_cell(1000.0), 0.0, 1.2),
    ];
    for reach in [0, 1, 2, 10, 100, 1000] {
        let systems = home.each_ref().map(|system| system.unwrapped(3, reach));
        for (what, error) in errors(&systems.each_ref()) {
            // What conventions.md promises of forces; at home and away 2e-6 was measured.
            assert!(error < 1e-5, "{what}, up to {reach} cells away: {error:e}");
        }
    }
}
