//! The same bits for any number of threads, again and again, alone and in a batch; and what physics leaves unchanged.

use crate::common::numeric::{assert_close_rms, rms};
use crate::common::systems::{System, left_handed_cell, random_system, rock_salt, triclinic_cell};
use crate::support::{Arrays, Call, copied, random};
use madelung::array::{Array, DType};
use madelung::backend::Context;
use madelung::backend::pool::{Serial, Threads};
use madelung::cpu::Cpu;
use madelung::cpu::Isa;
use madelung::electrostatics::registry;
use madelung::op::{Cotangent, Request};
use madelung::{Energies, EwaldSettings, Options, Reduction, ewald_summation};

fn everything(arrays: &Arrays, context: &Context<'_>) -> [Vec<f64>; 4] {
    let (alpha, k_cutoff) = (Some(vec![0.7]), Some(vec![8.4]));
    everything_by(
        &EwaldSettings { alpha, cutoff: Some(vec![8.6]), k_cutoff, ..EwaldSettings::default() },
        arrays,
        context,
    )
}

fn everything_by(settings: &EwaldSettings, arrays: &Arrays, context: &Context<'_>) -> [Vec<f64>; 4] {
    let Energies { energies, forces, charge_gradients, virial } =
        ewald_summation(context, &arrays.system(), settings, None, &Options::everything()).expect("a sum");
    [Some(energies), forces, charge_gradients, virial].map(|a| a.expect("asked for").to_f64().unwrap())
}

#[test]
fn bits_do_not_depend_on_threads() {
    let system = random_system(1, 300, triclinic_cell(5000.0), 0.0, 1.2);
    let (two, three) = (Threads::new(2), Threads::new(3));
    for dtype in [DType::F64, DType::F32] {
        let arrays = Arrays::new(&[&system], dtype);
        let alone = everything(&arrays, &madelung::cpu::context().with_pool(&Serial));
        for _ in 0..3 {
            assert_eq!(alone, everything(&arrays, &madelung::cpu::context().with_pool(&two)));
            assert_eq!(alone, everything(&arrays, &madelung::cpu::context().with_pool(&three)));
        }
    }
    // Also where contributions are scattered.
    let op = registry().get("ewald_real_space").expect("an op");
    let call = Call::new(op, &[&system]).scattering();
    let w = Array::from_f64(DType::F64, &[300], &random(1, 300)).expect("shapes fit");
    let of = |context: &Context<'_>| call.gradient(context, &call.arrays, Cotangent::Array(w.view()), &[]);
    let alone = of(&madelung::cpu::context().with_pool(&Serial));
    assert_eq!(alone, of(&madelung::cpu::context().with_pool(&two)));
    assert_eq!(alone, of(&madelung::cpu::context().with_pool(&three)));
}

#[test]
fn bits_do_not_depend_on_the_batch() {
    let a = random_system(1, 150, triclinic_cell(2000.0), 0.0, 1.2);
    let b = random_system(2, 5, left_handed_cell(300.0), 1.0, 1.2);
    let c = random_system(3, 90, triclinic_cell(1500.0), 0.0, 1.2);
    let empty = System { positions: vec![], charges: vec![], cell: triclinic_cell(100.0) };
    // A system large and dense enough for clusters, and settings that leave each subset of parameters open.
    let d = random_system(4, 700, triclinic_cell(7000.0), 0.0, 1.2);
    let given = [(None, None), (Some(0.5), None), (None, Some(9.0)), (Some(0.7), Some(8.6))];
    let context = madelung::cpu::context();
    for ((alpha, cutoff), dtype) in
        given.iter().flat_map(|given| [DType::F64, DType::F32].map(|d| (given, d)))
    {
        let settings = EwaldSettings {
            alpha: alpha.map(|x| vec![x]),
            cutoff: cutoff.map(|x| vec![x]),
            ..EwaldSettings::default()
        };
        let together = everything_by(&settings, &Arrays::new(&[&a, &empty, &b, &c, &d], dtype), &context);
        let mut start = [0; 4];
        for (system, empty) in [(&a, false), (&empty, true), (&b, false), (&c, false), (&d, false)] {
            let n = system.charges.len();
            let sizes = [n, 3 * n, n, 9];
            let alone = if empty {
                [vec![], vec![], vec![], vec![0.0; 9]]
            } else {
                everything_by(&settings, &Arrays::new(&[system], dtype), &context)
            };
            for k in 0..4 {
                assert_eq!(together[k][start[k]..start[k] + sizes[k]], alone[k]);
                start[k] += sizes[k];
            }
        }
    }
    // And with contributions scattered, second order included.
    let op = registry().get("ewald_real_space").expect("an op");
    let of = |systems: &[&System]| {
        let call = Call::new(op, systems).scattering();
        let n: usize = systems.iter().map(|s| s.charges.len()).sum();
        let w = Array::filled(DType::F64, &[n], 1.0);
        call.gradient(&madelung::cpu::context(), &call.arrays, Cotangent::Array(w.view()), &[]).swap_remove(0)
    };
    let together = of(&[&c, &a]);
    assert_eq!(together[..3 * 90], of(&[&c])[..]);
}

/// Energies alone and beside each choice of gradients: one pass adds up the parts of a sum in the order of the other.
#[test]
fn bits_do_not_depend_on_what_else_is_asked_for() {
    let a = random_system(1, 150, triclinic_cell(2000.0), 0.0, 1.2);
    let b = random_system(2, 5, left_handed_cell(300.0), 1.0, 1.2);
    let context = madelung::cpu::context();
    println!("instruction sets: {:?}", Isa::available());
    for &isa in Isa::available() {
        let cpu = Cpu::at_most(isa);
        let context = Context { backend: &cpu, ..context };
        for dtype in [DType::F64, DType::F32] {
            let arrays = Arrays::new(&[&a, &b], dtype);
            for reduction in [Reduction::Atom, Reduction::System] {
                let of = |asked: u32| {
                    let options = Options {
                        energy_reduction: reduction,
                        compute_forces: asked & 1 != 0,
                        compute_charge_gradients: asked & 2 != 0,
                        compute_virial: asked & 4 != 0,
                        ..Options::default()
                    };
                    let settings = EwaldSettings::default();
                    let done = ewald_summation(&context, &arrays.system(), &settings, None, &options);
                    done.expect("a sum").energies.to_f64().unwrap()
                };
                let alone = of(0);
                (1..8)
                    .for_each(|asked| assert_eq!(of(asked), alone, "{isa:?} {dtype} {reduction:?} {asked}"));
            }
        }
    }
}

/// Values alone and beside the gradient by each input, of every op, in f32, whose rounding shows the order of a sum.
#[test]
fn values_do_not_depend_on_gradients() {
    let a = random_system(1, 31, triclinic_cell(900.0), 0.3, 1.2);
    let b = random_system(2, 5, left_handed_cell(500.0), 1.0, 1.2);
    let context = madelung::cpu::context();
    for op in registry().iter() {
        let call = Call::new(op, &[&a, &b]);
        let narrow = |x: &Option<Array>| match x {
            Some(x) if x.dtype() == DType::F64 => {
                Some(Array::from_f64(DType::F32, x.shape(), &x.to_f64().unwrap()).expect("shapes fit"))
            }
            other => copied(other),
        };
        let arrays: Vec<_> = call.arrays.iter().map(narrow).collect();
        let args = call.args(&arrays);
        let alone = call.value(&arrays);
        for n in call.differentiable() {
            let name = op.args[n].name.as_str();
            // Products of these are rounded once more where a gradient has a use of its own for them.
            let is_own = op.arg("excluded").is_some() && !["positions", "charges"].contains(&name);
            if is_own || op.arg("exponent").is_some() {
                continue;
            }
            let cotangents = [Some(Cotangent::Uniform(1.0))];
            let request =
                Request { values: true, cotangents: &cotangents, gradients: &[n], ..Request::default() };
            let done = op.evaluate(&context, &args, &request).expect("a gradient");
            assert_eq!(done.values[0].to_f64().unwrap(), alone, "{} by {name}", op.name);
        }
    }
}

/// Every width of lanes gives the same to rounding, in every member of every op's family; rows of many lengths, so
/// that loops end in every lane.
#[test]
fn lanes_agree() {
    let a = random_system(11, 31, triclinic_cell(900.0), 0.3, 1.2);
    let b = random_system(12, 3, left_handed_cell(2500.0), 0.0, 1.2);
    for op in registry().iter() {
        let call = Call::new(op, &[&a, &b]);
        let (u, v) = (call.direction(1), call.direction(2));
        let n = call.value(&call.arrays).len();
        let w = Array::from_f64(DType::F64, &[n], &random(3, n)).expect("shapes fit");
        let of = |isa: Isa| {
            let backend = Cpu::at_most(isa);
            let context = Context { backend: &backend, ..madelung::cpu::context() };
            let args = call.args(&call.arrays);
            let mut all = vec![
                op.value(&context, &args).expect("a value")[0].to_f64().unwrap(),
                call.tangent_on(&context, &call.arrays, &[&u]),
                call.tangent_on(&context, &call.arrays, &[&u, &v]),
            ];
            for directions in [&[][..], &[u.as_slice()]] {
                all.extend(call.gradient(&context, &call.arrays, Cotangent::Array(w.view()), directions));
                all.extend(call.gradient(&context, &call.arrays, Cotangent::Uniform(1.0), directions));
            }
            all
        };
        let portable = of(Isa::Portable);
        println!("{}: instruction sets: {:?}", op.name, Isa::available());
        for &isa in &Isa::available()[1..] {
            for (k, (x, y)) in of(isa).iter().zip(&portable).enumerate() {
                // The whole sum does not depend on alpha: its parts, of order one, set the scale.
                let bound = 1e-12 * rms(y).max(0.1);
                let worst = x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                assert!(worst <= bound, "{} {isa:?} array {k}: {worst:e} of {:e}", op.name, rms(y));
            }
        }
    }
}

fn close(a: &[f64], b: &[f64]) {
    assert_close_rms(a, b, 1e-11, rms(b));
}

#[test]
fn invariances() {
    let system = random_system(7, 40, triclinic_cell(700.0), 0.6, 1.2);
    let context = madelung::cpu::context();
    let [e, f, phi, virial] = everything(&Arrays::new(&[&system], DType::F64), &context);
    let moved = |positions: Vec<[f64; 3]>, cell: [[f64; 3]; 3]| {
        everything(
            &Arrays::new(&[&System { positions, charges: system.charges.clone(), cell }], DType::F64),
            &context,
        )
    };
    // Translation.
    let shifted = system.positions.iter().map(|r| [r[0] + 1.7, r[1] - 2.1, r[2] + 0.3]).collect();
    let got = moved(shifted, system.cell);
    for (g, w) in got.iter().zip([&e, &f, &phi, &virial]) {
        close(g, w);
    }
    // Atoms in other boxes.
    let unwrapped = system.unwrapped(3, 2);
    for (g, w) in moved(unwrapped.positions, system.cell).iter().zip([&e, &f, &phi, &virial]) {
        close(g, w);
    }
    // Rotation: forces and virial turn along.
    let q = rotation();
    let turn = |r: &[f64]| -> Vec<f64> { (0..3).map(|c| (0..3).map(|k| r[k] * q[k][c]).sum()).collect() };
    let rows =
        |v: &[[f64; 3]]| v.iter().map(|r| turn(r).try_into().expect("three")).collect::<Vec<[f64; 3]>>();
    let cell = rows(&system.cell);
    let got = moved(rows(&system.positions), [cell[0], cell[1], cell[2]]);
    close(&got[0], &e);
    close(&got[2], &phi);
    let turned: Vec<f64> = f.chunks_exact(3).flat_map(turn).collect();
    close(&got[1], &turned);
    let mut turned_virial = vec![0.0; 9];
    for (m, t) in turned_virial.iter_mut().enumerate() {
        for k in 0..9 {
            *t += q[k / 3][m / 3] * virial[k] * q[k % 3][m % 3];
        }
    }
    close(&got[3], &turned_virial);
    // Permutation.
    let n = system.charges.len();
    let order: Vec<usize> = (0..n).map(|i| (i * 7 + 3) % n).collect();
    let permuted = System {
        positions: order.iter().map(|i| system.positions[*i]).collect(),
        charges: order.iter().map(|i| system.charges[*i]).collect(),
        cell: system.cell,
    };
    let got = everything(&Arrays::new(&[&permuted], DType::F64), &context);
    close(&got[0], &order.iter().map(|i| e[*i]).collect::<Vec<_>>());
    close(&got[2], &order.iter().map(|i| phi[*i]).collect::<Vec<_>>());
    // The same lattice in the other handedness.
    let [a, b, c] = system.cell;
    for (g, w) in moved(system.positions.clone(), [b, a, c]).iter().zip([&e, &f, &phi, &virial]) {
        close(g, w);
    }
}

/// Rotation by the unit quaternion (1, 2, 3, 4)/√30.
fn rotation() -> [[f64; 3]; 3] {
    let [w, x, y, z] = [1.0, 2.0, 3.0, 4.0].map(|v: f64| v / 30f64.sqrt());
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
}

#[test]
fn supercells() {
    let small = rock_salt(1, 2.8, 0.0, 1);
    let large = rock_salt(2, 2.8, 0.0, 1);
    let context = madelung::cpu::context();
    let one = everything(&Arrays::new(&[&small], DType::F64), &context);
    let eight = everything(&Arrays::new(&[&large], DType::F64), &context);
    let total = |e: &[f64]| e.iter().sum::<f64>();
    close(&[total(&eight[0])], &[8.0 * total(&one[0])]);
    close(&eight[3], &one[3].iter().map(|v| 8.0 * v).collect::<Vec<_>>());
}
