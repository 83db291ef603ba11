//! Pair potentials against plain sums over images, and against known energies of crystals.

mod bonded;
mod cases;
#[path = "../../../../tests/common/mod.rs"]
mod common;
mod derivatives;
mod exclusions;
mod mixing;
mod of_atoms;
mod tail;

use cases::{CASES, CUT, CUTOFF, Case, Ends, Given, SWITCHED, TAPER, TAPERED, case, end_terms, ops};
use common::numeric::{assert_close_rms, finite_difference, fourth_order_difference, rms};
use common::systems::System;
use madelung_core::Error;
use madelung_core::array::{Array, DType};
use madelung_core::backend::PairLoops;
use madelung_core::backend::pool::Serial;
use madelung_core::op::Arg;
use madelung_core::structure::Map;
use madelung_potentials::END_TERMS;

#[test]
fn energies_are_those_of_the_plain_sum() {
    for case in &CASES {
        let [per_atom, per_system] = ops(case);
        for (kinds, ends) in (1..=4).map(|kinds| (kinds, TAPERED)).chain([(3, SWITCHED)]) {
            let given = Given { ends, ..Given::new(case, kinds) };
            let want = given.plain(case);
            let ptr = given.batch();
            let totals: Vec<f64> = (0..2).map(|s| ptr.members(s).map(|i| want[i]).sum()).collect();
            for loops in [PairLoops::Rows, PairLoops::Clusters] {
                let got = given.call(&per_atom, DType::F64, loops).expect("a call");
                assert_close_rms(&got[0], &want, 1e-13, rms(&want));
                let got = given.call(&per_system, DType::F64, loops).expect("a call");
                assert_close_rms(&got[0], &totals, 1e-13, rms(&totals));
                let got = given.call(&per_atom, DType::F32, loops).expect("a call");
                assert_close_rms(&got[0], &want, 2e-6, rms(&want));
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_plain_sum() {
    for (case, ends) in CASES.iter().flat_map(|case| [TAPERED, SWITCHED].map(|ends| (case, ends))) {
        let given = Given { ends, ..Given::new(case, 3) };
        let got = given.call(&ops(case)[0], DType::F64, PairLoops::Clusters).expect("a call");
        let check = |what: &str, got: &[f64], energy: &dyn Fn(&[f64]) -> f64, at: &[f64]| {
            let want = finite_difference(energy, at, 1e-3);
            let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / rms(&want);
            println!("{} by {what}: {worst:.1e}", case.potential.name);
            assert!(worst < 1e-7, "{} by {what}: {worst:e}", case.potential.name);
        };
        let rows = |x: &[f64]| -> Vec<[f64; 3]> { x.as_chunks().0.to_vec() };
        let moved = |x: &[f64]| {
            let (mut given, mut rows) = (given.clone(), rows(x));
            for system in &mut given.systems {
                let rest = rows.split_off(system.positions.len());
                system.positions = std::mem::replace(&mut rows, rest);
            }
            given.total(case)
        };
        check("positions", &got[1], &moved, given.rows().as_flattened());
        for s in 0..2 {
            let in_cell = |x: &[f64]| {
                let (mut given, rows) = (given.clone(), rows(x));
                given.systems[s].cell = [rows[0], rows[1], rows[2]];
                given.total(case)
            };
            check("cell", &got[2][9 * s..][..9], &in_cell, given.systems[s].cell.as_flattened());
            let strained = |x: &[f64]| {
                let (mut given, rows) = (given.clone(), rows(x));
                given.systems[s] = given.systems[s].strained(&[rows[0], rows[1], rows[2]]);
                given.total(case)
            };
            check("strain", &got[given.tables.len() + 3][9 * s..][..9], &strained, &[0.0; 9]);
        }
        for (n, (name, _)) in case.potential.parameters.iter().enumerate() {
            let tabled = |x: &[f64]| {
                let mut given = given.clone();
                given.tables[n] = x.to_vec();
                given.total(case)
            };
            check(name, &got[n + 3], &tabled, &given.tables[n]);
        }
    }
}

/// Every member of the family along a random direction of all arguments, against differences of the member below it.
#[test]
fn derivatives_of_both_orders() {
    for case in &CASES {
        let given = Given::new(case, 2);
        let (batch, list) = (given.batch(), given.list());
        let types = Map::new(given.types.clone(), given.kinds).expect("a map");
        let rest = [Arg::Zero, Arg::Structure(&batch), Arg::Real(1.0), Arg::Structure(&types)];
        for ends in [TAPERED, SWITCHED] {
            let rest = [&rest[..], &[Arg::Structure(&list)], &ends.args(CUTOFF)].concat();
            for op in ops(case) {
                derivatives::of_both_orders(&op, &given.arrays(DType::F64), &rest);
            }
        }
    }
}

/// The energy of two types at distances and its derivatives, and how each depends on the parameters.
#[test]
fn energies_at_distances() {
    for case in &CASES {
        let given = Given::new(case, 2);
        let (types, distances) = ([[0, 1, 1, 0], [0, 0, 1, 1]], [1.7, 2.4, 3.3, 4.1]);
        let plain = |n: usize, r: f64| {
            let cut = Given { ends: Ends::cut_at(9.0), cutoff: 9.0, ..given.clone() };
            cut.pair(case, [0, 1].map(|k| types[k][n] as usize), r)
        };
        let [first, second] = types.map(|x| Map::new(x.to_vec(), 2).expect("a map"));
        let mut arrays = given.arrays(DType::F64).split_off(2);
        arrays.push(Array::from_f64(DType::F64, &[4], &distances).expect("shapes fit"));
        let rest = [Arg::Structure(&first), Arg::Structure(&second)];
        let args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).chain(rest.clone()).collect();
        let ops = case.potential.ops("test").expect("the declarations fit");
        let op = ops.last().expect("five ops");
        let found = op.value(&madelung_cpu::context(), &args).expect("a call");
        let found: Vec<Vec<f64>> = found.iter().map(|a| a.to_f64().unwrap()).collect();
        let want: Vec<f64> = (0..4).map(|n| plain(n, distances[n])).collect();
        assert_close_rms(&found[0], &want, 1e-14, rms(&want));
        for (n, r) in distances.into_iter().enumerate() {
            let slope = fourth_order_difference(|r| plain(n, r), r, 1e-3);
            let curvature =
                fourth_order_difference(|r| fourth_order_difference(|r| plain(n, r), r, 1e-3), r, 1e-3);
            assert!((found[1][n] - slope).abs() < 1e-8 * slope.abs().max(1.0), "{}", case.potential.name);
            assert!(
                (found[2][n] - curvature).abs() < 1e-6 * curvature.abs().max(1.0),
                "{}",
                case.potential.name
            );
        }
        derivatives::of_both_orders(op, &arrays, &rest);
    }
}

/// Terms that ends take off, a straight line and a force switch.
#[test]
fn terms_of_ends() {
    for bend in [0.0, TAPER] {
        let plain: fn(f64, &[f64]) -> f64 = if bend == 0.0 {
            |r, p| end_terms(r, CUTOFF, 0.0, [p[0], p[1], p[2]])
        } else {
            |r, p| end_terms(r, CUTOFF, TAPER, [p[0], p[1], p[2]])
        };
        let case = case(END_TERMS, plain, &[(-1.0, 1.0); 3], &[0, 1, 2]);
        let given = Given { ends: Ends { bend: Some(bend), ..CUT }, ..Given::new(&case, 3) };
        let (want, [per_atom, per_system]) = (given.plain(&case), ops(&case));
        for loops in [PairLoops::Rows, PairLoops::Clusters] {
            for (dtype, bound) in [(DType::F64, 1e-13), (DType::F32, 2e-6)] {
                let got = given.call(&per_atom, dtype, loops).expect("a call");
                assert_close_rms(&got[0], &want, bound, rms(&want));
            }
        }
        let (batch, list) = (given.batch(), given.list());
        let types = Map::new(given.types.clone(), given.kinds).expect("a map");
        let rest = [Arg::Zero, Arg::Structure(&batch), Arg::Real(1.0), Arg::Structure(&types)];
        let rest = [&rest[..], &[Arg::Structure(&list)], &given.ends.args(CUTOFF)].concat();
        for op in [per_atom, per_system] {
            derivatives::of_both_orders(&op, &given.arrays(DType::F64), &rest);
        }
    }
}

/// Two atoms at a distance: their energy and its derivative.
fn dimer(case: &Case, r: f64, ends: Ends) -> [f64; 2] {
    let mut given = Given { ends, ..Given::new(case, 1) };
    let cell = [[50.0, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, 0.0, 50.0]];
    given.systems = vec![System { positions: vec![[0.0; 3], [r, 0.0, 0.0]], charges: vec![0.0; 2], cell }];
    given.types = vec![0; 2];
    let got = given.call(&ops(case)[1], DType::F64, PairLoops::Rows).expect("a call");
    [got[0][0], got[1][3]]
}

#[test]
fn energies_and_forces_are_continuous() {
    for case in &CASES {
        for at in [TAPER, CUTOFF] {
            let step = 1e-5;
            let [below, above] = [at - step, at + step].map(|r| dimer(case, r, TAPERED));
            let scale = dimer(case, TAPER, TAPERED);
            for k in 0..2 {
                let change = (above[k] - below[k]).abs();
                assert!(change < 30.0 * step * scale[0].abs().max(scale[1].abs()), "{change:e}");
            }
            // Second derivatives, too: those of the taper grow in proportion to the step.
            let second = |r: f64, side: f64| {
                (dimer(case, r + side * step, TAPERED)[1] - dimer(case, r, TAPERED)[1]) / (side * step)
            };
            let [left, right] = [second(at, -1.0), second(at, 1.0)];
            assert!((left - right).abs() < 1e-3 * scale[1].abs().max(scale[0].abs()), "{left} {right}");
        }
        // Without a taper the energy is plain up to the cutoff, and its derivatives are finite.
        for ends in [CUT, Ends::cut_at(CUTOFF + 1.0)] {
            let r = CUTOFF - 0.01;
            let p: Vec<f64> = Given::new(case, 1).tables.iter().map(|t| t[0]).collect();
            let [energy, slope] = dimer(case, r, ends);
            assert!((energy / (case.plain)(r, &p) - 1.0).abs() < 1e-13);
            let want = fourth_order_difference(|r| (case.plain)(r, &p), r, 1e-3);
            assert!((slope / want - 1.0).abs() < 1e-8);
            assert_eq!(dimer(case, CUTOFF + 0.01, ends), [0.0; 2]);
        }
    }
}

/// A cubic crystal: n³ cells with atoms at multiples of half an edge.
fn crystal(basis: &[([f64; 3], i32)], edge: f64, n: usize) -> (System, Vec<i32>) {
    let (mut positions, mut types) = (vec![], vec![]);
    for cell in 0..n * n * n {
        let at = [cell / (n * n), cell / n % n, cell % n].map(|k| k as f64);
        for (r, kind) in basis {
            positions.push(std::array::from_fn(|c| edge * (at[c] + 0.5 * r[c])));
            types.push(*kind);
        }
    }
    let cell = std::array::from_fn(|a| std::array::from_fn(|b| if a == b { edge * n as f64 } else { 0.0 }));
    let charges = types.iter().map(|kind| 1.0 - 2.0 * f64::from(*kind)).collect();
    (System { positions, charges, cell }, types)
}

const FCC: [[f64; 3]; 4] = [[0.0; 3], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]];

/// The cohesive energy of the Lennard-Jones crystal at its minimum is ε A₆²/(2 A₁₂), with the lattice sums A₆ = 14.4539 and
/// A₁₂ = 12.1319 (Jones and Ingham, Proc. R. Soc. Lond. A 107, 636 (1925); digits: Kittel, Introduction to Solid State
/// Physics, chapter 3).
#[test]
fn the_lennard_jones_crystal() {
    let nearest = (2.0 * 12.131_88_f64 / 14.453_92).powf(1.0 / 6.0);
    let (system, types) = crystal(&FCC.map(|r| (r, 0)), nearest * 2f64.sqrt(), 3);
    let density = system.positions.len() as f64 / system.volume();
    let cutoff: f64 = 14.0;
    let (tables, ends) = (vec![vec![1.0]; 2], Ends::cut_at(cutoff));
    let given = Given { systems: vec![system], types, kinds: 1, tables, ends, cutoff };
    let energy = given.call(&ops(&CASES[2])[0], DType::F64, PairLoops::Clusters).expect("a call")[0][0];
    let tail = 8.0 * std::f64::consts::PI * density * (cutoff.powi(-9) / 9.0 - cutoff.powi(-3) / 3.0);
    let want = -14.453_92f64.powi(2) / (2.0 * 12.131_88);
    assert!((want + 8.610).abs() < 1e-3);
    // Shells at the cutoff make the truncated sum vary by about its last one.
    assert!((energy + tail - want).abs() < 5e-4, "{} against {want}", energy + tail);
}

/// Sodium chloride with the parameters of Tosi and Fumi (in kJ/mol and Å as by Anwar, Frenkel and Noro, J. Chem. Phys. 118,
/// 728 (2003)) and the Madelung energy: the crystal has its least energy close to the measured distance of ions, 2.79 Å at
/// 0 K, and there it is close to the lattice energy from the Born–Haber cycle, −786 kJ/mol.
#[test]
fn sodium_chloride() {
    let table = |like: f64, unlike: f64, other: f64| vec![like, unlike, unlike, other];
    let tables = vec![
        table(25.4435, 20.3548, 15.2661),
        vec![3.1546; 4],
        table(2.340, 2.755, 3.170),
        table(101.1719, 674.4793, 6985.6786),
        table(48.1771, 837.0770, 14031.5785),
    ];
    let plus = |r: [f64; 3], s: [f64; 3]| std::array::from_fn(|c| r[c] + s[c]);
    let basis: Vec<_> = FCC.iter().flat_map(|r| [(*r, 0), (plus(*r, [1.0, 0.0, 0.0]), 1)]).collect();
    let energy = |distance: f64| {
        let (system, types) = crystal(&basis, 2.0 * distance, 2);
        let pairs = system.positions.len() as f64 / 2.0;
        let coulomb = 1_389.354_576 * system.ewald().energy;
        let (systems, tables, cutoff) = (vec![system], tables.clone(), 6.0 * distance + 0.1);
        let given = Given { systems, types, kinds: 2, tables, ends: Ends::cut_at(cutoff), cutoff };
        let short: f64 = given.call(&ops(&CASES[0])[1], DType::F64, PairLoops::Rows).expect("a call")[0][0];
        (short + coulomb) / pairs
    };
    let energies: Vec<(f64, f64)> =
        (0..9).map(|n| 2.75 + 0.015 * f64::from(n)).map(|r| (r, energy(r))).collect();
    let (distance, least) = energies.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("some");
    println!("{distance} Å, {least} kJ/mol");
    assert!((distance / 2.79 - 1.0).abs() < 0.01, "{distance}");
    assert!((least / -786.0 - 1.0).abs() < 0.015, "{least}");
}

/// Atoms of a type without energy lie on others and on each other; two that have some are named.
#[test]
fn atoms_without_energy_may_lie_on_others() {
    for case in CASES.iter().filter(|case| !case.amplitudes.is_empty()) {
        let mut given = Given::new(case, 3);
        for n in case.amplitudes {
            for k in 0..3 {
                (given.tables[*n][6 + k], given.tables[*n][3 * k + 2]) = (0.0, 0.0);
            }
        }
        given.types = vec![0, 1, 0, 1, 0, 2, 2, 1, 0, 2, 1];
        let [first, second] = &mut given.systems[..] else { panic!("two systems") };
        (first.positions[5], first.positions[6]) = (first.positions[0], first.positions[0]);
        second.positions[2] = second.positions[3];
        let want = given.plain(case);
        let moved = |x: &[f64]| {
            let mut given = given.clone();
            let mut rows = x.as_chunks::<3>().0.iter();
            given
                .systems
                .iter_mut()
                .flat_map(|s| &mut s.positions)
                .for_each(|r| *r = *rows.next().expect("a row"));
            given.total(case)
        };
        let by_positions = finite_difference(moved, given.rows().as_flattened(), 1e-3);
        for loops in [PairLoops::Rows, PairLoops::Clusters] {
            for (dtype, bound) in [(DType::F64, 1e-13), (DType::F32, 2e-6)] {
                let got = given.call(&ops(case)[0], dtype, loops).expect("a call");
                assert!(got.iter().flatten().all(|x| x.is_finite()), "{}", case.potential.name);
                assert_close_rms(&got[0], &want, bound, rms(&want));
                assert_close_rms(
                    &got[1],
                    &by_positions,
                    if dtype == DType::F64 { 1e-8 } else { 1e-5 },
                    rms(&by_positions),
                );
            }
        }
        given.systems[0].positions[1] = given.systems[0].positions[0];
        let error =
            given.call(&ops(case)[0], DType::F64, PairLoops::Clusters).expect_err("an infinite energy");
        assert!(error.to_string().contains("no two atoms on one point, got atoms 0 and 1"), "{error}");
    }
}

#[test]
fn errors_name_the_argument() {
    let names = |result: Result<Vec<Vec<f64>>, Error>, name: &str| match result {
        Err(Error::Argument { argument, .. }) => assert_eq!(argument, name),
        other => panic!("expected an error about `{name}`, got {other:?}"),
    };
    let case = &CASES[1];
    for op in ops(case) {
        let given = Given::new(case, 3);
        let call = |given: &Given| given.call(&op, DType::F64, PairLoops::Rows);
        let with = |change: &dyn Fn(&mut Given)| {
            let mut changed = given.clone();
            change(&mut changed);
            call(&changed)
        };
        names(with(&|g| g.tables[1][4] = 0.0), "rho");
        names(with(&|g| g.tables[0][4] = f64::NAN), "amplitude");
        names(with(&|g| g.ends.taper = f64::NAN), "taper");
        names(with(&|g| g.ends.switch = f64::NAN), "switch");
        names(with(&|g| g.systems[0].positions[2] = g.systems[0].positions[5]), "positions");
        names(with(&|g| g.types[3] = 3), "map");
        let (arrays, batch, list) = (given.arrays(DType::F64), given.batch(), given.list());
        let mut negative = given.clone();
        negative.cutoff = -1.0;
        names(negative.call_with(&op, &arrays, (&batch, &list), PairLoops::Rows), "cutoff");
        for shape in [[3, 2], [2, 3], [2, 2]] {
            let mut arrays = given.arrays(DType::F64);
            arrays[4] = Array::filled(DType::F64, &shape, 1.0);
            names(given.call_with(&op, &arrays, (&batch, &list), PairLoops::Rows), "c6");
        }
        let rows = list.rows(&Serial);
        let half = rows.to_half().expect("a half list");
        names(given.call_with(&op, &arrays, (&batch, &half), PairLoops::Rows), "pairs");
    }
}
