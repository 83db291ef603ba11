//! Lennard-Jones potentials of atoms with parameters of their own, against plain sums with a type for each atom.

use crate::cases::{CASES, Given, SWITCHED, TAPERED};
use crate::common::numeric::{assert_close_rms, finite_difference, rms};
use crate::common::systems::SplitMix64;
use madelung_core::array::{Array, DType};
use madelung_core::backend::{Context, PairLoops};
use madelung_core::op::{Arg, Cotangent, Request};
use madelung_core::structure::{Map, PairList};
use madelung_neighbors::Kind;
use madelung_potentials::{DISPERSION_OF_ATOMS, LENNARD_JONES, LENNARD_JONES_OF_ATOMS, registry};

const ATOMS: usize = 11;

/// √ε and the parts of σ of each atom: with a geometric mean or an arithmetic one.
fn parts(is_geometric: bool) -> [Vec<f64>; 3] {
    let mut rng = SplitMix64(3);
    let mut each = |low, high| (0..ATOMS).map(|_| rng.uniform(low, high)).collect::<Vec<f64>>();
    let (epsilon, sigma) = (each(0.2, 1.5), each(1.2, 1.8));
    let op = registry().get("mixing_parts").expect("an op of the registry");
    let [e, s] = [&epsilon, &sigma].map(|x| Array::from_f64(DType::F64, &[ATOMS], x).expect("shapes fit"));
    let each = Map::new((0..ATOMS as i32).collect::<Vec<_>>(), ATOMS).expect("a map");
    let args = [
        Arg::Array(e.view()),
        Arg::Array(s.view()),
        Arg::Int(i64::from(is_geometric)),
        Arg::Structure(&each),
    ];
    let found = op.value(&madelung_cpu::context(), &args).expect("a call");
    let [root, arithmetic, geometric] = [0, 1, 2].map(|k| found[k].to_f64().unwrap());
    let of = |x: &[f64], f: fn(f64) -> f64| x.iter().map(|x| f(*x)).collect::<Vec<_>>();
    assert_close_rms(&root, &of(&epsilon, f64::sqrt), 4e-16, 1.0);
    let means = if is_geometric {
        (of(&sigma, |_| 0.0), of(&sigma, f64::sqrt))
    } else {
        (of(&sigma, |x| 0.5 * x), of(&sigma, |_| 0.0))
    };
    assert_close_rms(
        &[arithmetic.clone(), geometric.clone()].concat(),
        &[means.0, means.1].concat(),
        4e-16,
        1.0,
    );
    [root, arithmetic, geometric]
}

/// The system with a type for each atom, with ε and σ of two of them.
fn tabled(parts: &[Vec<f64>]) -> Given {
    let lennard_jones = CASES.iter().find(|case| case.potential.name == LENNARD_JONES.name).expect("a case");
    let table =
        |f: &dyn Fn(usize, usize) -> f64| (0..ATOMS * ATOMS).map(|p| f(p / ATOMS, p % ATOMS)).collect();
    let epsilon = table(&|a, b| parts[0][a] * parts[0][b]);
    let sigma = table(&|a, b| parts[1][a] + parts[1][b] + parts[2][a] * parts[2][b]);
    let (types, tables) = ((0..ATOMS as i32).collect(), vec![epsilon, sigma]);
    Given { types, kinds: ATOMS, tables, ..Given::new(lennard_jones, 2) }
}

#[test]
fn energies_and_gradients_are_those_of_the_plain_sum() {
    let case = CASES.iter().find(|case| case.potential.name == LENNARD_JONES.name).expect("a case");
    let ops = LENNARD_JONES_OF_ATOMS.ops("test").expect("the declarations fit");
    let of_types = LENNARD_JONES.ops("test").expect("the declarations fit");
    for (is_geometric, ends) in [(false, TAPERED), (true, SWITCHED)] {
        let parts = parts(is_geometric);
        let given = Given { ends, ..tabled(&parts) };
        let (list, batch) = (given.list(), given.batch());
        let mut arrays = given.arrays(DType::F64);
        arrays.truncate(2);
        arrays.extend(parts.iter().map(|x| Array::from_f64(DType::F64, &[ATOMS], x).expect("shapes fit")));
        let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend([Arg::Zero, Arg::Structure(&batch), Arg::Real(1.0), Arg::Structure(&list)]);
        args.extend(ends.args(given.cutoff));
        let want = given.plain(case);
        for loops in [PairLoops::Rows, PairLoops::Clusters] {
            let context = Context { pair_loops: loops, ..madelung_cpu::context() };
            let request = Request {
                values: true,
                cotangents: &[Some(Cotangent::Uniform(1.0))],
                gradients: &[0, 2, 3, 4, 5],
                ..Request::default()
            };
            let found = ops[0].evaluate(&context, &args, &request).expect("a call");
            let all: Vec<Vec<f64>> =
                found.values.iter().chain(&found.gradients).map(|a| a.to_f64().unwrap()).collect();
            assert_close_rms(&all[0], &want, 1e-13, rms(&want));
            // Positions and strain: those of the same pairs with tables.
            let same = given.call(&of_types[0], DType::F64, loops).expect("a call");
            assert_close_rms(&all[1], &same[1], 1e-12, rms(&same[1]));
            assert_close_rms(&all[5], &same[5], 1e-12, rms(&same[5]));
            for n in 0..3 {
                let total = |x: &[f64]| {
                    let mut parts = parts.clone();
                    parts[n] = x.to_vec();
                    Given { ends, ..tabled(&parts) }.total(case)
                };
                let by_part = finite_difference(total, &parts[n], 1e-3);
                assert_close_rms(&all[2 + n], &by_part, 1e-7, rms(&by_part));
            }
        }
    }
}

/// Pairs of factors, and r⁻⁶ alone.
#[test]
fn pairs_with_factors() {
    let parts = parts(false);
    let given = Given { ends: TAPERED, ..tabled(&parts) };
    let (rows, batch) = (given.rows(), given.batch());
    let near = |i: usize, j: usize| (0..3).map(|c| (rows[j][c] - rows[i][c]).powi(2)).sum::<f64>().sqrt();
    // The closest two of each system, which are within the cutoff.
    let closest = |atoms: std::ops::Range<usize>| {
        let pairs = atoms.clone().flat_map(|i| atoms.clone().filter(move |j| i < *j).map(move |j| (i, j)));
        pairs.min_by(|a, b| near(a.0, a.1).total_cmp(&near(b.0, b.1))).expect("a pair")
    };
    let (pairs, factors) = ([closest(0..7), closest(7..11)], [0.4, -1.5]);
    let entries = pairs.iter().enumerate().flat_map(|(p, (i, j))| [(*i, *j, p as i32), (*j, *i, p as i32)]);
    let mut entries: Vec<_> = entries.collect();
    entries.sort_unstable();
    let ptr: Vec<i64> = (0..=ATOMS).map(|i| entries.iter().filter(|e| e.0 < i).count() as i64).collect();
    let columns: Vec<i32> = entries.iter().map(|e| e.1 as i32).collect();
    let list = PairList::from_csr(ptr, columns, vec![[0; 3]; 4], ATOMS, Kind::Full).expect("a list");
    let map = Map::new(entries.iter().map(|e| e.2).collect::<Vec<_>>(), 2).expect("a map");
    let tapered = |r: f64| crate::cases::taper(r, crate::cases::TAPER, given.cutoff);
    for (potential, repulsive) in [(LENNARD_JONES_OF_ATOMS, 1.0), (DISPERSION_OF_ATOMS, 0.0)] {
        let op = &potential.ops("test").expect("the declarations fit")[2];
        let call = |parts: &[Vec<f64>], rows: &[[f64; 3]]| {
            let mut arrays = given.arrays(DType::F64);
            arrays.truncate(2);
            arrays[0] = Array::from_f64(DType::F64, &[ATOMS, 3], rows.as_flattened()).expect("shapes fit");
            let real = |x: &[f64]| Array::from_f64(DType::F64, &[x.len()], x).expect("shapes fit");
            arrays.extend(parts.iter().map(|x| real(x)));
            let factors = real(&factors);
            let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
            args.extend([Arg::Zero, Arg::Structure(&batch), Arg::Real(1.0), Arg::Structure(&list)]);
            args.extend([Arg::Structure(&map), Arg::Array(factors.view())]);
            args.extend(given.ends.args(given.cutoff));
            op.value(&madelung_cpu::context(), &args).map(|found| found[0].to_f64().unwrap())
        };
        let mut want = vec![0.0; ATOMS];
        for ((i, j), factor) in pairs.into_iter().zip(factors) {
            let (r, p) = (near(i, j), i * ATOMS + j);
            let s6 = (given.tables[1][p] / r).powi(6);
            let energy = 2.0 * given.tables[0][p] * (repulsive * s6 * s6 - s6) * factor * tapered(r);
            (want[i], want[j]) = (energy, energy);
        }
        assert_close_rms(&call(&parts, &rows).expect("a call"), &want, 1e-13, rms(&want));
        // Two atoms on one point have no energy where one of them has none.
        let (first, second) = pairs[0];
        let (mut coinciding, mut without) = (rows.clone(), parts.clone());
        coinciding[second] = coinciding[first];
        without[0][second] = 0.0;
        assert!(call(&without, &coinciding).expect("a call").iter().all(|e| e.is_finite()));
        let error = call(&parts, &coinciding).expect_err("an infinite energy").to_string();
        let expected = format!("no two atoms on one point, got atoms {first} and {second}");
        assert!(error.contains(&expected), "{error}");
    }
}
