//! Real-space Ewald on one thread: energies, energies and forces, and everything, per directed pair of the full list.
//! 10,648 atoms at 0.1 atoms/Å³, cutoff 10 Å (about 420 neighbours each), the list given; pairs row by row, in clusters,
//! and in clusters that are made anew.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use madelung::array::{Array, DType};
use madelung::backend::pool::{Serial, Threads};
use madelung::backend::{Context, PairLoops};
use madelung::batch::Batch;
use madelung::cpu::Cpu;
use madelung::cpu::Isa;
use madelung::{Options, System, ewald_real_space};

const LOOPS: [PairLoops; 2] = [PairLoops::Rows, PairLoops::Clusters];

/// A jittered cubic lattice of alternating charges.
fn fluid(edge: usize) -> (Vec<f64>, Vec<f64>, f64) {
    let spacing = 10f64.cbrt();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    let (mut positions, mut charges) = (vec![], vec![]);
    for n in 0..edge.pow(3) {
        let site = [n / (edge * edge), n / edge % edge, n % edge];
        positions.extend(site.map(|s| (s as f64 + 0.5 + 0.6 * random()) * spacing));
        charges.push(if site.iter().sum::<usize>() % 2 == 0 { 1.0 } else { -1.0 });
    }
    (positions, charges, edge as f64 * spacing)
}

fn real_space(c: &mut Criterion) {
    let (r, q, length) = fluid(22);
    let n = q.len();
    let cell = [length, 0.0, 0.0, 0.0, length, 0.0, 0.0, 0.0, length];
    let threads = Threads::new(2);
    for dtype in [DType::F64, DType::F32] {
        let make = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("shapes fit");
        let (positions, charges, cell) = (make(&[n, 3], &r), make(&[n], &q), make(&[3, 3], &cell));
        let batch = Batch::single(n).expect("few atoms");
        let system = System::new(positions.view(), charges.view(), cell.view(), batch).expect("a system");
        let pairs = system.neighbor_list(10.0, &threads).expect("a list");
        let mut group = c.benchmark_group(format!("real_space/{dtype}"));
        group.throughput(Throughput::Elements(pairs.len() as u64)).sample_size(10);
        let options = [
            ("energies", Options::default()),
            ("energies, forces", Options::forces()),
            ("everything", Options::everything()),
        ];
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable] {
            if isa > Isa::detect() {
                continue;
            }
            let backend = Cpu::at_most(isa);
            for (pair_loops, (name, options)) in
                LOOPS.iter().flat_map(|loops| options.iter().map(move |o| (*loops, o)))
            {
                let context =
                    Context { backend: &backend, pool: &Serial, pair_loops, ..madelung::cpu::context() };
                group.bench_function(format!("{isa:?}/{name}/{pair_loops:?}"), |b| {
                    b.iter(|| {
                        ewald_real_space(&context, &system, &[0.3], &pairs, 10.0, options).expect("a sum")
                    });
                });
            }
        }
        for pair_loops in LOOPS {
            let context = Context { pool: &threads, pair_loops, ..madelung::cpu::context() };
            group.bench_function(format!("two threads/energies, forces/{pair_loops:?}"), |b| {
                b.iter(|| {
                    ewald_real_space(&context, &system, &[0.3], &pairs, 10.0, &Options::forces())
                        .expect("a sum")
                });
            });
        }
        let order = pairs.order().expect("the list has an order");
        let context = Context { pool: &Serial, ..madelung::cpu::context() };
        group.bench_function("made anew/energies, forces/Clusters", |b| {
            b.iter_batched(
                || pairs.clone().with_order(order.clone()).expect("the list is full"),
                |pairs| {
                    ewald_real_space(&context, &system, &[0.3], &pairs, 10.0, &Options::forces())
                        .expect("a sum")
                },
                BatchSize::LargeInput,
            );
        });
    }
}

criterion_group!(benches, real_space);
criterion_main!(benches);
