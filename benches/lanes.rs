//! Time per element of what the inner loops call, for every lane type of this processor.
//!
//!     cargo bench -p madelung-benches --bench lanes [-- erfc]
#![expect(
    unsafe_code,
    reason = "lane types are entered after a check of the processor; memory functions are unsafe"
)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
#[cfg(target_arch = "x86_64")]
use madelung_lanes::lanes::{Avx2F32, Avx2F64, Avx512F32, Avx512F64, Isa};
use madelung_lanes::lanes::{Elem, Lane, Portable32, Portable64};
use std::hint::black_box;

/// Elements of one run: they stay in the first cache.
const COUNT: usize = 1536;
/// Rows that are gathered from: they stay there too.
const ROWS: usize = 800;

struct Data<E> {
    reals: Vec<E>,
    rows: Vec<E>,
    indices: Vec<i32>,
    shifts: Vec<i32>,
}

impl<E: Elem> Data<E> {
    fn new() -> Self {
        // Indices like those of a row of neighbours: ascending, with gaps.
        Self {
            reals: (0..COUNT).map(|i| E::of_f64(i as f64 * (5.0 / COUNT as f64))).collect(),
            rows: (0..3 * COUNT).map(|i| E::of_f64(i as f64 * 1e-3)).collect(),
            indices: (0..COUNT).map(|i| ((i * 3 + i * i % 11) % ROWS) as i32).collect(),
            shifts: (0..3 * COUNT).map(|i| (i % 3) as i32 - 1).collect(),
        }
    }
}

/// What is timed: a function of real lanes, or one that reads memory.
#[derive(Clone, Copy)]
enum Work {
    Both,
    Erfc,
    Exp,
    SinCos,
    Ln,
    Pow,
    Recip,
    Sqrt,
    Gather,
    Gather3,
    Load3,
    Int3,
    Pair,
}

const WORK: [(&str, Work); 13] = [
    ("erfc_exp_neg_sq", Work::Both),
    ("erfc", Work::Erfc),
    ("exp", Work::Exp),
    ("sin_cos", Work::SinCos),
    ("ln", Work::Ln),
    ("pow", Work::Pow),
    ("recip", Work::Recip),
    ("sqrt", Work::Sqrt),
    ("gather", Work::Gather),
    ("gather3", Work::Gather3),
    ("load3", Work::Load3),
    ("int3", Work::Int3),
    ("pair", Work::Pair),
];

/// One loop for each kind of work, so that nothing is decided inside.
#[inline(always)]
fn work<L: Lane>(work: Work, data: &Data<L::Elem>) -> f64 {
    macro_rules! total {
        ($k:ident => $value:expr) => {{
            let mut sum = L::splat(0.0);
            let mut $k = 0;
            while $k < COUNT {
                // SAFETY: COUNT is a multiple of every N; indices are rows; shifts and rows are threes.
                sum = sum + unsafe { $value };
                $k += L::N;
            }
            sum.sum()
        }};
    }
    macro_rules! function {
        ($x:ident => $value:expr) => {
            total!(k => { let $x = L::load(data.reals.as_ptr().add(k)); $value })
        };
    }
    macro_rules! three {
        ($rows:expr) => {{
            let [x, y, z] = $rows;
            x.mul_add(y, z)
        }};
    }
    match work {
        Work::Both => function!(x => { let (a, b) = x.erfc_exp_neg_sq(); a + b }),
        Work::Erfc => function!(x => x.erfc()),
        Work::Exp => function!(x => x.exp()),
        Work::SinCos => function!(x => { let (a, b) = x.sin_cos(); a + b }),
        Work::Ln => function!(x => x.ln()),
        Work::Pow => function!(x => x.pow(L::splat(-2.5))),
        Work::Recip => function!(x => x.recip()),
        Work::Sqrt => function!(x => x.sqrt()),
        Work::Gather => {
            total!(k => L::gather(data.rows.as_ptr(), L::index(data.indices.as_ptr().add(k)), 1, 0))
        }
        Work::Gather3 => {
            total!(k => three!(L::gather3(data.rows.as_ptr(), L::index(data.indices.as_ptr().add(k)))))
        }
        Work::Load3 => total!(k => three!(L::load3(data.rows.as_ptr().add(3 * k)))),
        Work::Pair => pairs::<L>(data),
        Work::Int3 => total!(k => three!(L::int3(data.shifts.as_ptr().add(3 * k)))),
    }
}

/// All of it as in a kernel: energy and force of one atom with its neighbours, real part of an Ewald sum.
#[inline(always)]
fn pairs<L: Lane>(data: &Data<L::Elem>) -> f64 {
    let (alpha, cutoff, slope) = (L::splat(0.35), L::splat(9.0), L::splat(0.39));
    let (box_length, center) = (L::splat(5.0), L::splat(1.3));
    let mut sums = [L::splat(0.0); 4];
    let mut k = 0;
    while k < COUNT {
        // SAFETY: COUNT is a multiple of every N; indices are rows; shifts are threes.
        let (i, shift) =
            unsafe { (L::index(data.indices.as_ptr().add(k)), L::int3(data.shifts.as_ptr().add(3 * k))) };
        // SAFETY: as above.
        let (row, q) =
            unsafe { (L::gather3(data.rows.as_ptr(), i), L::gather(data.reals.as_ptr(), i, 1, 0)) };
        let x = shift[0].mul_add(box_length, row[0] - center);
        let y = shift[1].mul_add(box_length, row[1] - center);
        let z = shift[2].mul_add(box_length, row[2] - center);
        let square = x.mul_add(x, y.mul_add(y, z * z));
        let r = square.sqrt();
        let (erfc, gauss) = (alpha * r).erfc_exp_neg_sq();
        let inverse = r.recip();
        let energy = q * erfc * inverse;
        let force = (q * slope).mul_add(gauss, energy) * (inverse * inverse);
        let inside = r.lt(cutoff);
        let (energy, force) =
            (L::select(inside, energy, L::splat(0.0)), L::select(inside, force, L::splat(0.0)));
        sums[0] = sums[0] + energy;
        sums[1] = force.mul_add(x, sums[1]);
        sums[2] = force.mul_add(y, sums[2]);
        sums[3] = force.mul_add(z, sums[3]);
        k += L::N;
    }
    sums[0].sum() + sums[1].sum() + sums[2].sum() + sums[3].sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<L: Lane>(kind: Work, data: &Data<L::Elem>) -> f64 {
    work::<L>(kind, data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
fn avx512<L: Lane>(kind: Work, data: &Data<L::Elem>) -> f64 {
    work::<L>(kind, data)
}

fn all(criterion: &mut Criterion) {
    let (single, double) = (Data::<f32>::new(), Data::<f64>::new());
    for (name, kind) in WORK {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(COUNT as u64));
        let mut time = |id: &str, run: &dyn Fn() -> f64| {
            group.bench_function(BenchmarkId::from_parameter(id), |b| b.iter(run));
        };
        time("f64 single", &|| work::<f64>(kind, black_box(&double)));
        time("f32 single", &|| work::<f32>(kind, black_box(&single)));
        time("f64 portable", &|| work::<Portable64>(kind, black_box(&double)));
        time("f32 portable", &|| work::<Portable32>(kind, black_box(&single)));
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() >= Isa::Avx2 {
            // SAFETY: the processor has these features.
            time("f64 avx2", &|| unsafe { avx2::<Avx2F64>(kind, black_box(&double)) });
            // SAFETY: the processor has these features.
            time("f32 avx2", &|| unsafe { avx2::<Avx2F32>(kind, black_box(&single)) });
        }
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() >= Isa::Avx512 {
            // SAFETY: the processor has these features.
            time("f64 avx512", &|| unsafe { avx512::<Avx512F64>(kind, black_box(&double)) });
            // SAFETY: the processor has these features.
            time("f32 avx512", &|| unsafe { avx512::<Avx512F32>(kind, black_box(&single)) });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).warm_up_time(std::time::Duration::from_millis(100))
        .measurement_time(std::time::Duration::from_millis(400)).without_plots();
    targets = all
}
criterion_main!(benches);
