//! Real-space Ewald on one thread: energies, energies and forces, and everything, per directed pair of the full list.
//! 10,648 atoms at 0.1 atoms/Å³, cutoff 10 Å (about 420 neighbours each), the list given; pairs row by row, in clusters,
//! and in clusters that are made anew. Then calls that make and drop megabytes, with the page faults of each: a neighbour
//! list, and the whole Ewald sum with its list.
#![expect(unsafe_code, reason = "the system's count of page faults")]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use madelung::array::{Array, DType};
use madelung::backend::pool::{Pool, Serial, Threads};
use madelung::backend::{Context, PairLoops};
use madelung::batch::Batch;
use madelung::cpu::{Cpu, Isa};
use madelung::electrostatics::registry;
use madelung::neighbors::Options as SearchOptions;
use madelung::op::{Arg, Cotangent, Request, Structure};
use madelung::{EwaldSettings, Options, System, ewald_real_space, ewald_summation, neighbor_list};

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
        training(&mut group, [&positions, &charges, &cell], system.batch(), &pairs);
        for pair_loops in LOOPS {
            let context = Context { pool: &threads, pair_loops, ..madelung::cpu::context() };
            group.bench_function(format!("two threads/energies, forces/{pair_loops:?}"), |b| {
                b.iter(|| {
                    ewald_real_space(&context, &system, &[0.3], &pairs, 10.0, &Options::forces())
                        .expect("a sum")
                });
            });
        }
        let context = Context { pool: &Serial, ..madelung::cpu::context() };
        group.bench_function("list and sum/energies, forces/Clusters", |b| {
            b.iter(|| {
                let pairs = system.neighbor_list(10.0, &Serial).expect("a list");
                ewald_real_space(&context, &system, &[0.3], &pairs, 10.0, &Options::forces()).expect("a sum")
            });
        });
        for (pool, name) in [(&Serial as &dyn Pool, "one thread"), (&threads, "two threads")] {
            group.bench_function(format!("list/{name}"), |b| {
                b.iter(|| system.neighbor_list(10.0, pool).expect("a list"));
            });
        }
    }
}

/// Gradients with a weight for each atom, and Hessian-vector products along positions, which losses of energies and forces
/// are trained by: of positions and charges, and of the strain besides.
fn training(
    group: &mut BenchmarkGroup<'_, WallTime>,
    [positions, charges, cell]: [&Array; 3],
    atoms: &Batch<'_>,
    pairs: &dyn Structure,
) {
    let op = registry().get("ewald_real_space").expect("an op");
    let (dtype, n) = (charges.dtype(), charges.shape()[0]);
    let cell = Array::from_f64(dtype, &[1, 3, 3], &cell.to_f64().expect("numbers")).expect("shapes fit");
    let weights = Array::from_f64(dtype, &[n], &vec![0.7; n]).expect("shapes fit");
    let alpha = Array::from_f64(dtype, &[1], &[0.3]).expect("shapes fit");
    let args: Vec<Arg<'_>> = op
        .args
        .iter()
        .map(|a| match a.name.as_str() {
            "positions" => Arg::Array(positions.view()),
            "charges" => Arg::Array(charges.view()),
            "cell" => Arg::Array(cell.view()),
            "alpha" => Arg::Array(alpha.view()),
            "strain" => Arg::Zero,
            "atoms" => Arg::Structure(atoms),
            "pairs" => Arg::Structure(pairs),
            "cutoff" => Arg::Real(10.0),
            _ => Arg::Real(1.0),
        })
        .collect();
    let mut along = vec![None; args.len()];
    along[op.arg("positions").expect("an argument")] = Some(positions.view());
    for pair_loops in LOOPS {
        let context = Context { pool: &Serial, pair_loops, ..madelung::cpu::context() };
        for (member, directions) in
            [("weighted gradient", &[][..]), ("Hessian-vector product", &[&along[..]])]
        {
            for by in [&["positions"][..], &["positions", "charges"], &["positions", "charges", "strain"]] {
                let gradients: Vec<usize> =
                    by.iter().map(|name| op.arg(name).expect("an argument")).collect();
                let cotangents = [Some(Cotangent::Array(weights.view()))];
                let request = Request {
                    directions,
                    cotangents: &cotangents,
                    gradients: &gradients,
                    ..Request::default()
                };
                group.bench_function(format!("{member} by {}/{pair_loops:?}", by.join(", ")), |b| {
                    b.iter(|| op.evaluate(&context, &args, &request).expect("gradients"));
                });
            }
        }
    }
}

/// Page faults of this process so far, and its seconds of the processor.
fn usage() -> (f64, f64) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a structure of numbers, which the call fills.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
            usage
        };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + 1e-6 * t.tv_usec as f64;
        (usage.ru_minflt as f64, seconds(usage.ru_utime) + seconds(usage.ru_stime))
    }
    #[cfg(not(target_os = "linux"))]
    (0.0, 0.0)
}

/// Calls that make megabytes and drop them.
fn memory(c: &mut Criterion) {
    const CALLS: u32 = 10;
    let threads = Threads::new(2);
    let mut group = c.benchmark_group("memory");
    group.sample_size(10);
    let mut measure = |name: &str, call: &dyn Fn()| {
        call();
        let before = usage();
        (0..CALLS).for_each(|_| call());
        let after = usage();
        let of_each = |before: f64, after: f64| (after - before) / f64::from(CALLS);
        let (faults, seconds) = (of_each(before.0, after.0), of_each(before.1, after.1));
        println!(
            "memory/{name}: {faults:.0} page faults, {:.2} ms of the processor for each call",
            1e3 * seconds
        );
        group.bench_function(name, |b| b.iter(call));
    };
    for edge in [23, 46] {
        let (r, q, length) = fluid(edge);
        let (r, n) = (r.as_chunks().0, q.len());
        let cell = [[[length, 0.0, 0.0], [0.0, length, 0.0], [0.0, 0.0, length]]];
        let batch = Batch::single(n).expect("few atoms");
        for (pool, count) in [(&Serial as &dyn Pool, "1 thread"), (&threads, "2 threads")] {
            measure(&format!("neighbour list/{n} atoms, 6 Å, {count}"), &|| {
                neighbor_list(r, 6.0, Some(&cell), None, &batch, &SearchOptions::full(), pool)
                    .expect("a list");
            });
        }
    }
    let (r, q, length) = fluid(12);
    let n = q.len();
    let cell = Array::from_f64(DType::F64, &[3, 3], &[length, 0.0, 0.0, 0.0, length, 0.0, 0.0, 0.0, length]);
    let cell = cell.expect("a cell");
    let positions = Array::from_f64(DType::F64, &[n, 3], &r).expect("shapes fit");
    let charges = Array::from_f64(DType::F64, &[n], &q).expect("shapes fit");
    let batch = Batch::single(n).expect("few atoms");
    let system = System::new(positions.view(), charges.view(), cell.view(), batch).expect("a system");
    let settings = EwaldSettings::default();
    for (pool, count) in [(&Serial as &dyn Pool, "1 thread"), (&threads, "2 threads")] {
        let context = Context { pool, ..madelung::cpu::context() };
        measure(&format!("Ewald sum/{n} atoms, energies, forces, {count}"), &|| {
            ewald_summation(&context, &system, &settings, None, &Options::forces()).expect("a sum");
        });
    }
}

criterion_group!(benches, memory, real_space);
criterion_main!(benches);
