//! Pairs in clusters against pairs row by row: every form that has both, every lane type, and lists of all kinds.

mod given;

use crate::support::refused;
use given::{
    CUTOFF, DENSITY, Given, Pair, System, TRICLINIC, YUKAWA, all_pairs, of_yukawa, open_system, random,
    system, yukawa_op,
};
use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::backend::{Context, PairLoops};
use madelung_core::op::{Cotangent, Linear, Op, Request};
use madelung_core::runtime::Isa;
use madelung_core::runtime::{Kernel, Lists, Member, Role};
use madelung_core::structure::pairs::order::SpatialOrder;
use madelung_core::structure::pairs::{Clusters, Kind, Neighbors, PairList};
use madelung_cpu::Cpu;

fn context(backend: &Cpu, pair_loops: PairLoops) -> Context<'_> {
    Context { backend, pair_loops, pool: &Serial, ..madelung_cpu::context() }
}

/// The largest difference over the RMS of each array, the largest of all arrays. What cancels (the force on an atom
/// among its own images) is measured by the size of its terms, which are of order one.
fn difference(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    let of = |(a, b): (&Vec<f64>, &Vec<f64>)| {
        assert_eq!(a.len(), b.len());
        let rms = (b.iter().map(|x| x * x).sum::<f64>() / b.len().max(1) as f64).sqrt();
        a.iter().zip(b).fold(0.0f64, |most, (x, y)| most.max((x - y).abs())) / rms.max(1.0)
    };
    a.iter().zip(b).map(of).fold(0.0, f64::max)
}

/// In clusters on all lanes as row by row, within what sums in another order lose.
fn agree(given: &Given) {
    let backend = Cpu::new();
    let rows = &context(&backend, PairLoops::Rows);
    let (reference, second) = (given.results(rows), given.second_order(rows));
    println!("instruction sets: {:?}", Isa::available());
    for &isa in Isa::available() {
        let backend = Cpu::at_most(isa);
        let clusters = given.results(&context(&backend, PairLoops::Clusters));
        let bound = if given.dtype == DType::F64 { 1e-13 } else { 1e-5 };
        let off = difference(&clusters, &reference);
        assert!(off < bound, "{isa:?} {}: {off:e}", given.dtype);
        let off = difference(&given.second_order(&context(&backend, PairLoops::Clusters)), &second);
        assert!(off < SECOND * bound, "second order, {isa:?} {}: {off:e}", given.dtype);
    }
}

/// How much more than the first derivatives the second ones lose: at 0.7 from each other, where third derivatives of 1/r
/// are 25, by what coordinates of up to 16 are rounded.
const SECOND: f64 = 10.0;

/// f32 in clusters against f64 row by row, at the same rounded inputs.
fn agree_in_f32(systems: &[System]) {
    let single = Given::new(systems, DType::F32, Kind::Full);
    let round = |a: &Array| Array::from_f64(DType::F64, a.shape(), &a.to_f64().unwrap()).unwrap();
    let mut double = Given::new(systems, DType::F64, Kind::Full);
    double.positions = round(&single.positions);
    double.charges = round(&single.charges);
    double.cell = round(&single.cell);
    double.kappa = round(&single.kappa);
    double.reach = round(&single.reach);
    double.weights = round(&single.weights);
    double.along = single.along.each_ref().map(round);
    let backend = Cpu::new();
    let rows = &context(&backend, PairLoops::Rows);
    let (reference, second) = (double.results(rows), double.second_order(rows));
    println!("instruction sets: {:?}", Isa::available());
    for &isa in Isa::available() {
        let backend = Cpu::at_most(isa);
        let context = context(&backend, PairLoops::Clusters);
        let off = difference(&single.results(&context), &reference);
        assert!(off < 1e-5, "{isa:?}: {off:e}");
        let off = difference(&single.second_order(&context), &second);
        assert!(off < SECOND * 1e-5, "second order, {isa:?}: {off:e}");
    }
}

/// The inputs without whose gradients each part of a member's forms for full lists has its cluster form; `None`: there is
/// no such form.
fn left_out(kernel: &'static Kernel, member: Member, uniform: bool) -> Vec<Option<Vec<(usize, Role)>>> {
    let forms = kernel.forms.iter().filter(|f| f.member == member && f.uniform == uniform);
    let forms = forms
        .filter(|f| f.lists == Lists::Full || !matches!(member, Member::Gradient | Member::GradientTangent));
    let parts = forms.flat_map(|f| f.parts);
    parts.map(|p| p.clusters.as_ref().map(|c| c.without.to_vec())).collect()
}

#[test]
fn the_forms_that_fit_are_there() {
    let (gradient, along) = (Role::COTANGENT, Role::COTANGENT.with(Role::FIRST));
    for (kernel, inputs, cell) in [(&YUKAWA, &[0, 1, 2, 3, 4][..], 3), (&DENSITY, &[0, 1, 3], 3)] {
        assert_eq!(left_out(kernel, Member::Value, false), [Some(vec![])], "{}", kernel.name);
        let fast = left_out(kernel, Member::Gradient, true);
        assert!(!fast.is_empty() && fast.iter().all(|f| *f == Some(vec![])), "{}", kernel.name);
        assert_eq!(
            left_out(kernel, Member::Gradient, false),
            [Some(vec![(cell, gradient)])],
            "{}",
            kernel.name
        );
        let mut without: Vec<_> = inputs.iter().map(|p| (*p, gradient)).chain([(cell, along)]).collect();
        without.sort_by_key(|(p, role)| (*p, role.0));
        assert_eq!(left_out(kernel, Member::GradientTangent, false), [Some(without)], "{}", kernel.name);
        for member in [Member::Tangent, Member::SecondTangent] {
            assert_eq!(left_out(kernel, member, false), [None], "{}", kernel.name);
        }
        let others = kernel.forms.iter().filter(|f| f.lists != Lists::Full && f.member != Member::Value);
        assert!(others.flat_map(|f| f.parts).all(|p| p.clusters.is_none()));
    }
    // What ends in the sum over a system is kept for one of the two atoms of a pair.
    let sums = |f: &madelung_core::runtime::Form| f.parts[0].clusters.as_ref().map(|c| c.sums);
    let of: Vec<_> = YUKAWA.forms.iter().filter(|f| f.gradients.is_some()).map(sums).collect();
    // Of the virial's nine sums, six are different.
    assert_eq!(of, [Some(4), Some(11)]);
}

/// Members that have a cluster form are taken so; those by the cell are taken row by row, with the bits of rows.
#[test]
fn what_has_a_cluster_form_runs_in_clusters() {
    let given = Given::new(&[system(200, 1)], DType::F64, Kind::Full);
    let backend = Cpu::new();
    let of = |directions: &[&[usize]], by: &[usize]| {
        [PairLoops::Rows, PairLoops::Clusters].map(|l| given.member(&context(&backend, l), directions, by))
    };
    for directions in [&[][..], &[&[0][..]], &[&[0, 3, 4]]] {
        for by in [&[0][..], &[0, 1], &[0, 1, 2, 4]] {
            let [rows, clusters] = of(directions, by);
            // A sum of a whole system, at most nine numbers, may be the same in another order.
            let of_atoms = rows.iter().zip(&clusters).filter(|(rows, _)| rows.len() > 9);
            assert!(of_atoms.clone().all(|(rows, clusters)| rows != clusters), "{directions:?} {by:?}");
            assert_ne!(of_atoms.count(), 0);
        }
        let [rows, clusters] = of(directions, &[0, 3]);
        assert_eq!(rows, clusters);
    }
    for directions in [&[&[0][..]][..], &[&[0], &[0]]] {
        let [rows, clusters] = of(directions, &[]);
        assert_eq!(rows, clusters);
    }
}

/// Weighted gradients and Hessian-vector products in clusters against differences of energies and gradients.
#[test]
fn finite_differences() {
    let given = Given::new(&[system(37, 1), open_system(64, 2)], DType::F64, Kind::Full);
    let backend = Cpu::new();
    let (rows, clusters) = (context(&backend, PairLoops::Rows), context(&backend, PairLoops::Clusters));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let numbers = |a: &Array| a.to_f64().unwrap();
    const STEP: f64 = 1e-5;
    for along in 0..4 {
        let moved = |h: f64| {
            let mut moved = Given::new(&[system(37, 1), open_system(64, 2)], DType::F64, Kind::Full);
            let mut to = [&mut moved.positions, &mut moved.charges, &mut moved.kappa, &mut moved.cell];
            let [.., to] = &mut to[..=along] else { unreachable!("one of four") };
            let x: Vec<f64> =
                numbers(to).iter().zip(numbers(&given.along[along])).map(|(x, u)| x + h * u).collect();
            **to = Array::from_f64(DType::F64, to.shape(), &x).unwrap();
            moved
        };
        let [plus, minus] = [STEP, -STEP].map(moved);
        // A step's square times fourth derivatives of about 100, and what it leaves of the digits.
        let close = |what: &str, got: f64, expected: f64, scale: f64| {
            let off = (got - expected).abs() / scale.max(1.0);
            assert!(off < 1e-7, "{what} along {along}: {got} against {expected}");
        };
        let energy = |at: &Given| dot(&at.results(&rows)[0], &numbers(&given.weights));
        if along < 3 {
            let gradient = &given.member(&clusters, &[], &[along])[0];
            let difference = (energy(&plus) - energy(&minus)) / (2.0 * STEP);
            close("gradient", dot(gradient, &numbers(&given.along[along])), difference, difference.abs());
        }
        let by = [0, 1, 2, 4];
        let product = given.member(&clusters, &[&[along]], &by);
        let [plus, minus] = [plus, minus].map(|at| at.member(&rows, &[], &by));
        for ((got, plus), minus) in product.iter().zip(&plus).zip(&minus) {
            let scale = got.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            for ((got, plus), minus) in got.iter().zip(plus).zip(minus) {
                close("Hessian-vector product", *got, (plus - minus) / (2.0 * STEP), scale);
            }
        }
    }
}

#[test]
fn few_atoms_and_their_own_images() {
    for n in 1..=20 {
        let systems = [system(n, n as u64)];
        agree(&Given::new(&systems, DType::F64, Kind::Full));
        agree_in_f32(&systems);
    }
}

#[test]
fn many_atoms() {
    let systems = [system(400, 1)];
    agree(&Given::new(&systems, DType::F64, Kind::Full));
    agree_in_f32(&systems);
}

#[test]
fn batches_and_open_systems() {
    let systems = [system(37, 1), open_system(64, 2), system(1, 3), system(5, 4), open_system(1, 5)];
    agree(&Given::new(&systems, DType::F64, Kind::Full));
    agree_in_f32(&systems);
    let none = System { positions: vec![], cell: TRICLINIC, pairs: vec![] };
    agree(&Given::new(&[none.clone(), system(9, 6), none], DType::F64, Kind::Full));
}

#[test]
fn the_scatter_forms_agree() {
    let systems = [system(60, 1), system(20, 2)];
    let scattered = Given::new(&systems, DType::F64, Kind::Directed).results(&madelung_cpu::context());
    let backend = Cpu::new();
    let given = Given::new(&systems, DType::F64, Kind::Full);
    let clusters = given.results(&context(&backend, PairLoops::Clusters));
    assert!(difference(&clusters, &scattered) < 1e-13);
}

#[test]
fn exactly_the_pairs_of_the_list() {
    let mut given = system(120, 1);
    // Exclusions, from both sides.
    given.pairs.retain(|(i, j, _)| (i * j + i + j) % 7 != 0);
    agree(&Given::new(&[given.clone()], DType::F64, Kind::Full));
    // Some pairs twice.
    let twice: Vec<Pair> = given.pairs.iter().filter(|(i, j, _)| (i + j) % 5 == 0).copied().collect();
    given.pairs.extend(twice);
    given.pairs.sort_unstable();
    agree(&Given::new(&[given], DType::F64, Kind::Full));
}

#[test]
fn atoms_far_outside_the_cell() {
    let inside = system(80, 1);
    let mut next = random(3);
    let wraps: Vec<[i32; 3]> = (0..80).map(|_| [0; 3].map(|_: i32| (9.0 * next()) as i32 - 4)).collect();
    let mut outside = inside.clone();
    for (r, w) in outside.positions.iter_mut().zip(&wraps) {
        *r = std::array::from_fn(|c| r[c] + (0..3).map(|k| f64::from(w[k]) * inside.cell[k][c]).sum::<f64>());
    }
    for (i, j, s) in &mut outside.pairs {
        *s = std::array::from_fn(|k| s[k] + wraps[*i][k] - wraps[*j][k]);
    }
    outside.pairs.sort_unstable();
    let (inside, mut outside) =
        (Given::new(&[inside], DType::F64, Kind::Full), Given::new(&[outside], DType::F64, Kind::Full));
    // Lattice vectors that move take the atoms along.
    let (mut along, by_cell) = (outside.along[0].to_f64().unwrap(), outside.along[3].to_f64().unwrap());
    for (u, w) in along.as_chunks_mut::<3>().0.iter_mut().zip(&wraps) {
        for (c, u) in u.iter_mut().enumerate() {
            *u += (0..3).map(|k| f64::from(w[k]) * by_cell[3 * k + c]).sum::<f64>();
        }
    }
    outside.along[0] = Array::from_f64(DType::F64, &[80, 3], &along).unwrap();
    let backend = Cpu::new();
    let of = |given: &Given, loops: PairLoops| {
        let context = context(&backend, loops);
        (given.results(&context), given.member(&context, &[&[0, 1, 2, 3, 4]], &[0, 1, 2, 4]))
    };
    let (clusters, rows) = (of(&outside, PairLoops::Clusters), of(&inside, PairLoops::Rows));
    // Ten cells away, coordinates have ten times the rounding error.
    assert!(difference(&clusters.0, &rows.0) < 1e-12);
    assert!(difference(&clusters.1, &rows.1) < SECOND * 1e-12);
}

#[test]
fn an_order_of_other_positions_is_as_right() {
    let mut given = Given::new(&[system(200, 1)], DType::F64, Kind::Full);
    let other = Given::new(&[system(200, 2)], DType::F64, Kind::Full);
    let clusters = Clusters::from_list(&given.rows(), &other.order(), true, &Serial).unwrap();
    given.list = Neighbors::Clusters(clusters.into());
    agree(&given);
}

#[test]
fn half_lists_are_as_the_full_ones() {
    let mut given = Given::new(&[system(200, 1), system(30, 2)], DType::F64, Kind::Full);
    let full = given.rows();
    // Of both sides of a pair either is as good.
    let is_kept = |(i, j, s): &(usize, usize, [i32; 3])| {
        let is_first = (i, s) < (j, &s.map(|n| -n));
        is_first == ((i + j) % 3 == 0 || i == j)
    };
    let kept: Vec<_> = full.iter().filter(is_kept).collect();
    assert_eq!(2 * kept.len(), full.len());
    let (rows, columns): (Vec<i32>, Vec<i32>) = kept.iter().map(|p| (p.0 as i32, p.1 as i32)).unzip();
    let shifts: Vec<_> = kept.iter().map(|p| p.2).collect();
    let half = PairList::from_coo(&rows, columns, shifts, 230, 230, Kind::Half).unwrap();
    let clusters = Clusters::from_list(&half, &given.order(), true, &Serial).unwrap();
    assert!(clusters.rows().iter().eq(full.to_half().unwrap().to_full().unwrap().iter()));
    given.list = Neighbors::Clusters(clusters.into());
    agree(&given);
}

#[test]
fn images_beyond_all_bounds_are_taken_row_by_row() {
    let far = 1 << 22;
    let pairs = vec![(0, 1, [far, 0, 0]), (1, 0, [-far, 0, 0])];
    let given = System { positions: vec![[0.0; 3], [1.0, 0.0, 0.0]], cell: TRICLINIC, pairs };
    agree(&Given::new(&[given], DType::F64, Kind::Full));
}

#[test]
fn the_same_bits_for_any_threads_and_batch() {
    let systems = [system(700, 1), system(30, 2), system(700, 3)];
    let backend = Cpu::new();
    for dtype in [DType::F64, DType::F32] {
        let given = Given::new(&systems, dtype, Kind::Full).ordered();
        let of = |given: &Given, context: &Context<'_>| {
            [given.results(context), given.second_order(context)].concat()
        };
        let reference = of(&given, &context(&backend, PairLoops::Clusters));
        for threads in [1, 2, 3] {
            let pool = Threads::new(threads);
            let context = Context { pool: &pool, ..context(&backend, PairLoops::Clusters) };
            assert_eq!(of(&given, &context), reference);
        }
        let mut first = 0;
        for (n, s) in systems.iter().enumerate() {
            let alone = Given::new(std::slice::from_ref(s), dtype, Kind::Full).ordered();
            let alone = of(&alone, &context(&backend, PairLoops::Clusters));
            for (k, (alone, all)) in alone.iter().zip(&reference).enumerate() {
                // An element, three or nine for each atom or each system.
                let (rows, at) = match all.len() / systems.len() {
                    1 | 9 => (systems.len(), n..n + 1),
                    _ => (1430, first..first + s.positions.len()),
                };
                let width = all.len() / rows;
                assert_eq!(*alone, all[at.start * width..at.end * width], "result {k} of system {n}");
            }
            first += s.positions.len();
        }
    }
}

#[test]
fn the_choice_is_made_system_by_system() {
    let systems = [system(700, 1), system(30, 2)];
    let backend = Cpu::new();
    let run = |systems: &[System], loops: PairLoops, ordered: bool| {
        let given = Given::new(systems, DType::F64, Kind::Full);
        let given = if ordered { given.ordered() } else { given };
        given.results(&context(&backend, loops))[0].clone()
    };
    // Without an order, and below 100 pairs for each atom, nothing changes.
    assert_eq!(run(&systems, PairLoops::Auto, false), run(&systems, PairLoops::Rows, false));
    assert_eq!(run(&systems, PairLoops::Auto, true), run(&systems, PairLoops::Rows, false));
    // Closer together, the large one is worth it and the small one is not.
    let dense = systems.map(|mut s| {
        for x in s.positions.as_flattened_mut().iter_mut().chain(s.cell.as_flattened_mut()) {
            *x *= 0.6;
        }
        s.pairs = all_pairs(&s.positions, &s.cell, CUTOFF, 1);
        s
    });
    let auto = run(&dense, PairLoops::Auto, true);
    assert_eq!(auto[..700], run(&dense, PairLoops::Clusters, true)[..700]);
    assert_eq!(auto[700..], run(&dense, PairLoops::Rows, true)[700..]);
    assert_eq!(auto[..700], run(&dense[..1], PairLoops::Auto, true));
    assert_eq!(auto[700..], run(&dense[1..], PairLoops::Auto, true));
}

/// Energies summed up for each system have cotangents that are made on the way, and that are the same for every atom
/// where those of the systems are.
#[test]
fn sums_of_energies_are_taken_in_clusters_too() {
    let total = of_yukawa("yukawa_total")
        .output("total", &["System"])
        .scratch("energy", &["Atom"])
        .step(&YUKAWA)
        .linear(Linear::SegmentedSum, &["atoms", "energy", "total"])
        .build()
        .unwrap();
    let given = Given::new(&[system(700, 1), system(30, 2)], DType::F64, Kind::Full).ordered();
    let backend = Cpu::new();
    let context = context(&backend, PairLoops::Clusters);
    let gradients = |op: &Op, cotangent: Cotangent<'_>, gradients: &[usize]| -> Vec<Vec<f64>> {
        let request = Request { cotangents: &[Some(cotangent)], gradients, ..Request::default() };
        op.evaluate(&context, &given.yukawa(), &request)
            .unwrap()
            .gradients
            .iter()
            .map(|a| a.to_f64().unwrap())
            .collect()
    };
    let filled = |n: usize, x: f64| Array::filled(DType::F64, &[n], x);
    for by in [&[0][..], &[0, 1, 4]] {
        let each = gradients(&yukawa_op(), Cotangent::Array(filled(730, 0.5).view()), by);
        let of_total = gradients(&total, Cotangent::Array(filled(2, 0.5).view()), by);
        assert_eq!(of_total, gradients(&yukawa_op(), Cotangent::Uniform(0.5), by));
        assert_ne!(of_total, each);
        assert!(difference(&of_total, &each) < 1e-13);
        // Systems that count differently are taken as any atoms that do.
        let differ = Array::from_f64(DType::F64, &[2], &[0.5, 2.0]).unwrap();
        let spread = [vec![0.5; 700], vec![2.0; 30]].concat();
        let spread = Array::from_f64(DType::F64, &[730], &spread).unwrap();
        let of_total = gradients(&total, Cotangent::Array(differ.view()), by);
        assert_eq!(of_total, gradients(&yukawa_op(), Cotangent::Array(spread.view()), by));
    }
}

#[test]
fn what_is_no_order_is_refused() {
    let given = Given::new(&[system(12, 1)], DType::F64, Kind::Full);
    let other = Given::new(&[system(11, 1)], DType::F64, Kind::Full);
    let clusters =
        |list: &PairList<'_>, order: &SpatialOrder| Clusters::from_list(list, order, true, &Serial);
    let directed = PairList::from_csr(vec![0; 13], vec![], vec![], 12, Kind::Directed).unwrap();
    refused(clusters(&directed, &given.order()), "neighbor_list", "a full or a half list");
    let domain = PairList::of_domain(vec![0, 1], vec![1], 12, Kind::Full).unwrap();
    refused(clusters(&domain, &given.order()), "neighbor_list", "that of a domain");
    refused(clusters(&given.rows(), &other.order()), "order", "12 atoms");
    refused(SpatialOrder::new(&given.charges.view(), &given.cells, &given.batch), "positions", "[12, 3]");
    refused(SpatialOrder::new(&given.positions.view(), &[TRICLINIC; 2], &given.batch), "cell", "1 systems");
    refused(
        SpatialOrder::new(&given.positions.view(), &[[[0.0; 3]; 3]], &given.batch),
        "cell",
        "span a volume",
    );
    let order = given.order();
    assert_eq!((order.len(), order.is_empty(), order.ptr()), (12, false, &[0, 12][..]));
    let clusters = clusters(&given.rows(), &order).unwrap();
    assert_eq!((clusters.ptr(), &clusters.slots()[..12]), (order.ptr(), order.atoms()));
}
