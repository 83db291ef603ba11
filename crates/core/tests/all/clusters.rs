//! Pairs in clusters against pairs row by row: every form that has both, every lane type, and lists of all kinds.

use crate::support::refused;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::backend::{Context, PairLoops};
use madelung_core::op::{Arg, Cotangent, Linear, Op, OpBuilder, Request};
use madelung_core::runtime::Isa;
use madelung_core::runtime::{Kernel, Lists, Member};
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::order::SpatialOrder;
use madelung_core::structure::pairs::{Clusters, Kind, Neighbors, PairList};
use madelung_cpu::Cpu;
use std::sync::Arc;

madelung_core::kernels! {
    /// Screened charges: the same from both sides of a pair.
    #[kernel(fast(positions), fast(positions, charges, strain))]
    fn yukawa(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        kappa: &[Real; System],
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        cutoff: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let d = d + d * strain[b];
            let r = length(d);
            if r < cutoff { e += charges[j] * exp(-kappa[b] * r) / r; }
        }
        energy[i] = 0.5 * charges[i] * e;
    }

    /// What an atom sees of others: not the same from both sides, with two sums, integers, and a sum over the system.
    #[kernel(fast(positions))]
    fn density(
        i: Atom,
        positions: &[Vec3; Atom],
        reach: &[Real; Atom],
        species: &[i32; Atom],
        cell: &[Mat3; System],
        cutoff: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
        total: &mut [Real; System],
    ) {
        let b = atoms.of(i);
        let mut near = 1.0;
        let mut far = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let r = length(d);
            if r < cutoff {
                near += exp(-r / reach[j]) * (1.0 + species[j]);
                far += species[i] * d.x / (r + reach[i]);
            }
        }
        energy[i] = near + 0.3 * far;
        total[b] += far;
    }
}

const CUTOFF: f64 = 4.0;
const TRICLINIC: [[f64; 3]; 3] = [[1.0, 0.1, -0.2], [0.3, 1.1, 0.15], [-0.1, 0.25, 0.95]];

/// An op of the arguments of `YUKAWA`.
fn of_yukawa(name: &str) -> OpBuilder {
    Op::new("test", name, 1)
        .real("positions", &["Atom", "3"])
        .real("charges", &["Atom"])
        .real("kappa", &["System"])
        .real("cell", &["System", "3", "3"])
        .zero("strain", &["System", "3", "3"])
        .scalar("cutoff")
        .batch("atoms", "Atom", "System")
        .pairs("pairs", "Atom")
}

fn yukawa_op() -> Arc<Op> {
    of_yukawa("yukawa").output("energy", &["Atom"]).step(&YUKAWA).build().unwrap()
}

fn density_op() -> Arc<Op> {
    Op::new("test", "density", 1)
        .real("positions", &["Atom", "3"])
        .real("reach", &["Atom"])
        .ints("species", &["Atom"])
        .real("cell", &["System", "3", "3"])
        .scalar("cutoff")
        .batch("atoms", "Atom", "System")
        .pairs("pairs", "Atom")
        .output("energy", &["Atom"])
        .output("total", &["System"])
        .step(&DENSITY)
        .build()
        .unwrap()
}

fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

type Pair = (usize, usize, [i32; 3]);

#[derive(Clone)]
struct System {
    positions: Vec<[f64; 3]>,
    cell: [[f64; 3]; 3],
    pairs: Vec<Pair>,
}

/// All pairs within reach, image by image.
fn all_pairs(positions: &[[f64; 3]], cell: &[[f64; 3]; 3], reach: f64, images: i32) -> Vec<Pair> {
    let mut found = vec![];
    let range = || -images..=images;
    for i in 0..positions.len() {
        for j in 0..positions.len() {
            for s in range().flat_map(|x| range().flat_map(move |y| range().map(move |z| [x, y, z]))) {
                let component = |c: usize| {
                    let image: f64 = (0..3).map(|k| f64::from(s[k]) * cell[k][c]).sum();
                    positions[j][c] - positions[i][c] + image
                };
                let r2: f64 = (0..3).map(|c| component(c).powi(2)).sum();
                if r2 < reach * reach && (i, s) != (j, [0; 3]) {
                    found.push((i, j, s));
                }
            }
        }
    }
    found
}

/// `n` atoms at about 0.1 for each unit of volume, no two closer than 0.7, pairs a little beyond the cutoff.
fn system(n: usize, seed: u64) -> System {
    let mut next = random(seed);
    let edge = (10.0 * n as f64).cbrt();
    let cell = TRICLINIC.map(|row| row.map(|x| x * edge));
    let images = (CUTOFF / (0.8 * edge)).ceil() as i32;
    let mut positions: Vec<[f64; 3]> = vec![];
    while positions.len() < n {
        let s = [next(), next(), next()];
        let r: [f64; 3] = std::array::from_fn(|c| (0..3).map(|k| s[k] * cell[k][c]).sum());
        positions.push(r);
        let close = all_pairs(&positions[positions.len() - 1..], &cell, 0.7, 1).len()
            + positions[..positions.len() - 1]
                .iter()
                .map(|other| all_pairs(&[*other, r], &cell, 0.7, 1).len())
                .sum::<usize>();
        if close > 0 {
            positions.pop();
        }
    }
    let pairs = all_pairs(&positions, &cell, CUTOFF + 0.3, images + 1);
    System { positions, cell, pairs }
}

fn open_system(n: usize, seed: u64) -> System {
    let mut system = system(n, seed);
    system.pairs = all_pairs(&system.positions, &system.cell, CUTOFF, 0);
    system
}

/// Systems in a batch, in one dtype.
struct Given {
    dtype: DType,
    positions: Array,
    cells: Vec<[[f64; 3]; 3]>,
    cell: Array,
    charges: Array,
    kappa: Array,
    reach: Array,
    species: Vec<i32>,
    batch: Batch<'static>,
    list: Neighbors<'static>,
}

impl Given {
    fn new(systems: &[System], dtype: DType, kind: Kind) -> Self {
        let mut next = random(7);
        let positions: Vec<f64> = systems.iter().flat_map(|s| s.positions.as_flattened()).copied().collect();
        let cells: Vec<_> = systems.iter().map(|s| s.cell).collect();
        let n = positions.len() / 3;
        let (mut idx, mut rows, mut columns, mut shifts) = (vec![], vec![], vec![], vec![]);
        let mut first = 0;
        for (b, s) in systems.iter().enumerate() {
            idx.resize(first + s.positions.len(), b as i32);
            for (i, j, shift) in &s.pairs {
                rows.push((first + i) as i32);
                columns.push((first + j) as i32);
                shifts.push(*shift);
            }
            first += s.positions.len();
        }
        // The same in each system, whatever the batch.
        let mut charges = vec![];
        for s in systems {
            let mut next = random(s.positions.len() as u64);
            charges.extend((0..s.positions.len()).map(|_| 2.0 * next() - 1.0));
        }
        let of = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).unwrap();
        Self {
            dtype,
            positions: of(&[n, 3], &positions),
            cell: of(&[cells.len(), 3, 3], cells.as_flattened().as_flattened()),
            charges: of(&[n], &charges),
            kappa: of(&[cells.len()], &vec![0.4; cells.len()]),
            reach: of(&[n], &(0..n).map(|_| 1.0 + next()).collect::<Vec<_>>()),
            species: (0..n).map(|i| (i % 3) as i32).collect(),
            batch: Batch::from_idx(idx, Some(systems.len())).unwrap(),
            list: Neighbors::Rows(PairList::from_coo(&rows, columns, shifts, n, n, kind).unwrap()),
            cells,
        }
    }

    fn order(&self) -> SpatialOrder {
        SpatialOrder::new(&self.positions.view(), &self.cells, &self.batch).unwrap()
    }

    fn rows(&self) -> PairList<'_> {
        self.list.rows(&Serial)
    }

    fn ordered(mut self) -> Self {
        let clusters = Clusters::from_list(&self.rows(), &self.order(), false, &Serial).unwrap();
        self.list = Neighbors::Clusters(clusters.into());
        self
    }

    fn yukawa(&self) -> [Arg<'_>; 8] {
        [
            Arg::Array(self.positions.view()),
            Arg::Array(self.charges.view()),
            Arg::Array(self.kappa.view()),
            Arg::Array(self.cell.view()),
            Arg::Zero,
            Arg::Real(CUTOFF),
            Arg::Structure(&self.batch),
            Arg::Structure(&self.list),
        ]
    }

    /// Energies, and energies with every set of gradients: one array after the other.
    fn results(&self, context: &Context<'_>) -> Vec<Vec<f64>> {
        let species =
            View::new(madelung_core::array::Data::I32(&self.species), &[self.species.len()]).unwrap();
        let density = [
            Arg::Array(self.positions.view()),
            Arg::Array(self.reach.view()),
            Arg::Array(species),
            Arg::Array(self.cell.view()),
            Arg::Real(CUTOFF),
            Arg::Structure(&self.batch),
            Arg::Structure(&self.list),
        ];
        let one = [Some(Cotangent::Uniform(1.0))];
        let two = [Some(Cotangent::Uniform(1.0)), Some(Cotangent::Uniform(0.5))];
        let mut results = vec![];
        let mut run =
            |op: &Op, args: &[Arg<'_>], cotangents: &[Option<Cotangent<'_>>], gradients: &[usize]| {
                let cotangents = if gradients.is_empty() { &[] } else { cotangents };
                let request = Request { values: true, cotangents, gradients, ..Request::default() };
                let done = op.evaluate(context, args, &request).unwrap();
                results.extend(done.values.iter().chain(&done.gradients).map(|a| a.to_f64().unwrap()));
            };
        for gradients in [&[][..], &[0], &[0, 4], &[0, 1, 4]] {
            run(&yukawa_op(), &self.yukawa(), &one, gradients);
        }
        for gradients in [&[][..], &[0]] {
            run(&density_op(), &density, &two, gradients);
        }
        results
    }
}

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
    let reference = given.results(&context(&Cpu::new(), PairLoops::Rows));
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        let backend = Cpu::at_most(isa);
        let clusters = given.results(&context(&backend, PairLoops::Clusters));
        let bound = if given.dtype == DType::F64 { 1e-13 } else { 1e-5 };
        let off = difference(&clusters, &reference);
        assert!(off < bound, "{isa:?} {}: {off:e}", given.dtype);
    }
}

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
    let reference = double.results(&context(&Cpu::new(), PairLoops::Rows));
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        let backend = Cpu::at_most(isa);
        let off = difference(&single.results(&context(&backend, PairLoops::Clusters)), &reference);
        assert!(off < 1e-5, "{isa:?}: {off:e}");
    }
}

fn of_member(kernel: &'static Kernel, member: Member) -> impl Iterator<Item = bool> {
    let direct = move |f: &&madelung_core::runtime::Form| {
        f.member == member && (member == Member::Value || f.gradients.is_some())
    };
    kernel.forms.iter().filter(direct).flat_map(|f| f.parts).map(|p| p.clusters.is_some())
}

#[test]
fn the_forms_that_fit_are_there() {
    for kernel in [&YUKAWA, &DENSITY] {
        assert!(of_member(kernel, Member::Value).all(|has| has), "{}", kernel.name);
        assert!(of_member(kernel, Member::Gradient).all(|has| has), "{}", kernel.name);
        let others = kernel.forms.iter().filter(|f| f.lists != Lists::Full && f.member != Member::Value);
        assert!(others.flat_map(|f| f.parts).all(|p| p.clusters.is_none()));
    }
    // What ends in the sum over a system is kept for one of the two atoms of a pair.
    let sums = |f: &madelung_core::runtime::Form| f.parts[0].clusters.as_ref().map(|c| c.sums);
    let of: Vec<_> = YUKAWA.forms.iter().filter(|f| f.gradients.is_some()).map(sums).collect();
    assert_eq!(of, [Some(4), Some(14)]);
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
    let given = Given::new(&[outside], DType::F64, Kind::Full);
    let backend = Cpu::new();
    let clusters = given.results(&context(&backend, PairLoops::Clusters));
    // Ten cells away, coordinates have ten times the rounding error.
    let rows = Given::new(&[inside], DType::F64, Kind::Full).results(&context(&backend, PairLoops::Rows));
    assert!(difference(&clusters, &rows) < 1e-12);
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
        let reference = given.results(&context(&backend, PairLoops::Clusters));
        for threads in [1, 2, 3] {
            let pool = Threads::new(threads);
            let context = Context { pool: &pool, ..context(&backend, PairLoops::Clusters) };
            assert_eq!(given.results(&context), reference);
        }
        let energies = &reference[0];
        let mut first = 0;
        for s in &systems {
            let alone = Given::new(std::slice::from_ref(s), dtype, Kind::Full).ordered();
            let alone = alone.results(&context(&backend, PairLoops::Clusters));
            assert_eq!(alone[0], energies[first..first + s.positions.len()]);
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
    let half = given.rows().to_half().unwrap().into_owned();
    refused(clusters(&half, &given.order()), "neighbor_list", "a full list");
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
