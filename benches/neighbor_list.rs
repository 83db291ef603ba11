//! Time per pair of [`neighbor_list`] on a jittered lattice of 0.1 atoms/Å³ of a thousand to a million atoms, in memory
//! that is fresh or kept by a [`NeighborSearch`], and on batches of small systems. Criterion's element is a directed
//! pair, so `thrpt` is pairs per second; bytes per pair are printed beside.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use madelung_core::backend::pool::{Pool, Serial, Threads};
use madelung_core::structure::Batch;
use madelung_neighbors::{NeighborSearch, Options, neighbor_list};

/// n³ atoms in a cubic box, in lattice order or shuffled.
fn fluid(n: usize, shuffled: bool) -> (Vec<[f64; 3]>, [[f64; 3]; 3]) {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    let spacing = 10f64.cbrt();
    let mut atoms: Vec<[f64; 3]> = (0..n * n * n)
        .map(|p| [p / n / n, p / n % n, p % n].map(|c| (c as f64 + 0.9 * random()) * spacing))
        .collect();
    if shuffled {
        (1..atoms.len()).rev().for_each(|p| atoms.swap(p, (random() * (p + 1) as f64) as usize));
    }
    let length = n as f64 * spacing;
    (atoms, [[length, 0.0, 0.0], [0.0, length, 0.0], [0.0, 0.0, length]])
}

fn large(c: &mut Criterion) {
    let two = Threads::new(2);
    let mut group = c.benchmark_group("fluid");
    group.sample_size(10);
    for (n, shuffled) in [10, 22, 46, 100].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let (atoms, cell) = fluid(n, shuffled);
        let batch = Batch::single(atoms.len()).unwrap();
        for cutoff in [5.0, 10.0] {
            if n > 46 && cutoff > 5.0 {
                continue;
            }
            for (options, kind) in [(Options::full(), "full"), (Options::half(), "half")] {
                let build = |pool: &dyn Pool| {
                    neighbor_list(&atoms, cutoff, Some(&[cell]), None, &batch, &options, pool).unwrap()
                };
                let list = build(&Serial);
                let order = if shuffled { "shuffled" } else { "ordered" };
                let name = format!("{} atoms, {order}, {cutoff} Å, {kind}", atoms.len());
                println!("{name}: {} pairs of {} bytes", list.len(), list.entry_bytes());
                let directed = list.len() as u64 * if kind == "half" { 2 } else { 1 };
                group.throughput(Throughput::Elements(directed));
                for (pool, threads) in [(&Serial as &dyn Pool, "1 thread"), (&two, "2 threads")] {
                    group.bench_function(BenchmarkId::new(&name, threads), |b| b.iter(|| build(pool)));
                    let mut search = NeighborSearch::new();
                    group.bench_function(BenchmarkId::new(&name, format!("{threads}, kept")), |b| {
                        b.iter(|| {
                            let cell = Some(&[cell][..]);
                            let list = search.build(&atoms, cutoff, cell, None, &batch, &options, pool);
                            search.recycle(list.unwrap());
                        });
                    });
                }
            }
        }
    }
    group.finish();
}

fn small(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch");
    group.sample_size(10);
    for (n, systems) in [(2usize, 1000usize), (3, 300), (4, 100), (5, 100), (7, 30)] {
        let (atoms, cell) = fluid(n, true);
        let count = atoms.len();
        let positions: Vec<_> = (0..systems).flat_map(|_| atoms.clone()).collect();
        let batch = Batch::from_ptr((0..=systems).map(|b| (b * count) as i32).collect::<Vec<_>>()).unwrap();
        for periodic in [true, false] {
            let build = || {
                let pbc = [[periodic; 3]];
                neighbor_list(&positions, 5.0, Some(&[cell]), Some(&pbc), &batch, &Options::full(), &Serial)
                    .unwrap()
            };
            group.throughput(Throughput::Elements(build().len() as u64));
            let name = format!("{systems} × {count} atoms, {}", if periodic { "periodic" } else { "open" });
            group.bench_function(name, |b| b.iter(build));
        }
    }
    group.finish();
}

criterion_group!(benches, large, small);
criterion_main!(benches);
