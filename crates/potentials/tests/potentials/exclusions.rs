//! Pairs with factors against plain sums.

use crate::cases::{CASES, Case, Given, SWITCHED, TAPERED};
use crate::common::numeric::{assert_close_rms, finite_difference, rms};
use madelung_core::Error;
use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::structure::{Map, PairList};
use madelung_neighbors::Kind;

/// Pairs with factors: atoms, the image of the second, and the factor.
const EXCLUDED: [(usize, usize, [i32; 3], f64); 4] =
    [(0, 1, [0; 3], 0.5), (5, 2, [0, 1, 0], -0.3), (3, 3, [0, 0, 1], 1.5), (8, 10, [0; 3], 0.0)];

/// Energies of pairs with factors by definition, each half and half to its atoms.
fn excluded_energies(case: &Case, given: &Given, factors: &[f64]) -> Vec<f64> {
    let (rows, cells) = (given.rows(), given.cells());
    let mut energies = vec![0.0; rows.len()];
    for ((i, j, shift, _), factor) in EXCLUDED.into_iter().zip(factors) {
        let cell = cells[usize::from(i >= given.systems[0].positions.len())];
        let d: [f64; 3] = std::array::from_fn(|c| {
            rows[j][c] - rows[i][c] + (0..3).map(|k| f64::from(shift[k]) * cell[k][c]).sum::<f64>()
        });
        let r = d.iter().map(|x| x * x).sum::<f64>().sqrt();
        let types = [i, j].map(|k| given.types[k] as usize);
        let energy = if *factor == 0.0 { 0.0 } else { 0.5 * factor * given.pair(case, types, r) };
        (energies[i], energies[j]) = (energies[i] + energy, energies[j] + energy);
    }
    energies
}

#[test]
fn pairs_with_factors() {
    let mut entries: Vec<_> = EXCLUDED
        .iter()
        .enumerate()
        .flat_map(|(p, (i, j, s, _))| [(*i, *j, *s, p as i32), (*j, *i, s.map(|x| -x), p as i32)])
        .collect();
    entries.sort_unstable();
    let ptr: Vec<i64> = (0..=11).map(|i| entries.iter().filter(|e| e.0 < i).count() as i64).collect();
    let [columns, of] =
        [0, 1].map(|k| entries.iter().map(|e| if k == 0 { e.1 as i32 } else { e.3 }).collect::<Vec<i32>>());
    let images: Vec<[i32; 3]> = entries.iter().map(|e| e.2).collect();
    let list = PairList::from_csr(ptr, columns, images, 11, Kind::Full).expect("a list");
    let map = Map::new(of, EXCLUDED.len()).expect("a map");
    for (case, ends) in CASES.iter().flat_map(|case| [TAPERED, SWITCHED].map(|ends| (case, ends))) {
        let ops = case.potential.ops("test").expect("the declarations fit");
        let [_, _, per_atom, per_system, ..] = &ops[..] else { panic!("four ops") };
        let mut given = Given { ends, ..Given::new(case, 2) };
        // A pair of factor 0 may lie on one point.
        given.systems[1].positions[1] = given.systems[1].positions[3];
        let (types, batch) = (Map::new(given.types.clone(), 2).expect("a map"), given.batch());
        let factors: Vec<f64> = EXCLUDED.iter().map(|e| e.3).collect();
        let call = |op: &Op, given: &Given, factors: &[f64]| {
            let arrays = given.arrays(DType::F64);
            let factors = Array::from_f64(DType::F64, &[factors.len()], factors).expect("shapes fit");
            let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
            args.extend([Arg::Zero, Arg::Structure(&batch), Arg::Real(1.0), Arg::Structure(&types)]);
            args.extend([Arg::Structure(&list), Arg::Structure(&map), Arg::Array(factors.view())]);
            args.extend(given.ends.args(given.cutoff));
            let gradients: Vec<usize> = (0..arrays.len()).chain([args.len() - 4]).collect();
            let cotangents = [Some(Cotangent::Uniform(1.0))];
            let request = Request {
                values: true,
                cotangents: &cotangents,
                gradients: &gradients,
                ..Request::default()
            };
            let found = op.evaluate(&madelung_cpu::context(), &args, &request)?;
            let all = found.values.iter().chain(&found.gradients).map(|a| a.to_f64().unwrap());
            Ok::<_, Error>(all.collect::<Vec<_>>())
        };
        let got = call(per_atom, &given, &factors).expect("a call");
        let want = excluded_energies(case, &given, &factors);
        assert_close_rms(&got[0], &want, 1e-13, rms(&want));
        let totals = [0..7, 7..11].map(|atoms| want[atoms].iter().sum::<f64>());
        assert_close_rms(&call(per_system, &given, &factors).expect("a call")[0], &totals, 1e-13, rms(&want));
        let total = |given: &Given, factors: &[f64]| excluded_energies(case, given, factors).iter().sum();
        let moved = |x: &[f64]| {
            let (mut given, mut rows) = (given.clone(), x.as_chunks::<3>().0.iter());
            let all = given.systems.iter_mut().flat_map(|s| &mut s.positions);
            all.for_each(|r| *r = *rows.next().expect("a row"));
            total(&given, &factors)
        };
        let by_positions = finite_difference(moved, given.rows().as_flattened(), 1e-3);
        assert_close_rms(&got[1], &by_positions, 1e-7, rms(&by_positions));
        for n in 0..given.tables.len() {
            let tabled = |x: &[f64]| {
                let mut given = given.clone();
                given.tables[n] = x.to_vec();
                total(&given, &factors)
            };
            let by_table = finite_difference(tabled, &given.tables[n], 1e-3);
            assert_close_rms(&got[n + 3], &by_table, 1e-7, rms(&by_table));
        }
        // By the factor of two atoms on one point, which have no energy, there is no derivative.
        let by_factors = finite_difference(|x| total(&given, x), &factors[..3], 1e-3);
        assert_close_rms(&got[given.tables.len() + 3][..3], &by_factors, 1e-7, rms(&by_factors));
        assert_eq!(got[given.tables.len() + 3][3], 0.0);
        // Of two pairs on one point the one with a factor is named.
        if !case.amplitudes.is_empty() {
            given.systems[0].positions[1] = given.systems[0].positions[0];
            let error = call(per_atom, &given, &factors).expect_err("an infinite energy").to_string();
            assert!(error.contains("no two atoms on one point, got atoms 0 and 1"), "{error}");
            let error = call(per_atom, &given, &[0.0, 1.0, 1.0, 1.0]).expect_err("an infinite energy");
            assert!(error.to_string().contains("got atoms 8 and 10"), "{error}");
        }
    }
}
