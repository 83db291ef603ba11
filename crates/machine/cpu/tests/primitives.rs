//! Scans, sorts, reductions and Fourier transforms on the CPU: the suite of all backends, with any number of threads; long
//! arrays, and errors.

#[path = "../../../../tests/common/primitives.rs"]
mod primitives;

use madelung_core::Result;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::pool::{Pool, Serial, Threads};
use madelung_core::backend::{Context, Meshes, Scan, Waves, half_spectrum};
use madelung_cpu::{Count, Key, scan, segment_bounds, sort_by_key};
use primitives::{Number, Primitives, adds_up, array, mixed, offsets, reals, scans, sorts, spreads};
use proptest::prelude::*;
use std::fmt::Debug;
use std::sync::LazyLock;

primitives::suite!(Processor);

static THREADS: LazyLock<[Threads; 3]> = LazyLock::new(|| [2, 3, 7].map(Threads::new));

/// Contexts with one thread, and with several.
fn contexts() -> Vec<Context<'static>> {
    let pools = THREADS.iter().map(|t| t as &dyn Pool);
    std::iter::once(&Serial as &dyn Pool).chain(pools).map(|p| madelung_cpu::context().with_pool(p)).collect()
}

fn same_on_any_threads<T: PartialEq + Debug>(f: impl Fn(&Context<'_>) -> T) -> T {
    let contexts = contexts();
    let first = f(&contexts[0]);
    contexts[1..].iter().for_each(|context| assert_eq!(f(context), first));
    first
}

/// Arrays of equal bits on any number of threads.
fn same_arrays_on_any_threads<const N: usize>(of: impl Fn(&Context<'_>) -> [Array; N]) -> [Array; N] {
    let first = of(&contexts()[0]);
    for context in &contexts()[1..] {
        let pairs = of(context).into_iter().zip(&first).map(|(a, b)| a.equals(b));
        assert!(pairs.into_iter().all(|same| same.unwrap()));
    }
    first
}

/// The CPU with one thread and with several.
struct Processor;

impl Primitives for Processor {
    const LONG: usize = 200_000;
    const MESHES: &[[usize; 3]] = &[
        [1, 1, 1],
        [1, 1, 2],
        [1, 2, 3],
        [2, 1, 4],
        [3, 4, 5],
        [4, 4, 4],
        [5, 3, 8],
        [2, 7, 6],
        [7, 5, 13],
        [8, 9, 10],
        [17, 2, 11],
        [6, 20, 34],
    ];

    /// A few ulp of the RMS, √n, for each of the log₂ n levels; primes from 11 on are sums of
    /// as many terms, whose errors are a few times as large.
    fn tolerance(dtype: DType, n: usize) -> f64 {
        let eps = if dtype == DType::F32 { 2f64.powi(-23) } else { 2f64.powi(-52) };
        8.0 * eps * (n as f64).sqrt() * ((n as f64).log2() + 2.0)
    }

    fn scan<T: Number + Count>(&self, kind: Scan, counts: &[T]) -> Option<Vec<T>> {
        same_on_any_threads(|context| {
            let mut sums = vec![T::of(99); counts.len() + usize::from(kind == Scan::Exclusive)];
            scan(context, kind, counts, &mut sums).ok().map(|()| sums)
        })
    }

    fn sort_by_key<K: Number + Key>(&self, keys: &[K], _bits: usize, payload: &[u32]) -> (Vec<K>, Vec<u32>) {
        same_on_any_threads(|context| {
            let (mut keys, mut payload) = (keys.to_vec(), payload.to_vec());
            sort_by_key(context, &mut keys, &mut payload).unwrap();
            (keys, payload)
        })
    }

    fn segment_bounds<K: Number + Key>(&self, keys: &[K], segments: usize) -> Option<Vec<i32>> {
        let mut offsets = vec![-1; segments + 1];
        segment_bounds(keys, &mut offsets).ok().map(|()| offsets)
    }

    fn sum(&self, values: &Array) -> Array {
        let [array] = same_arrays_on_any_threads(|context| {
            let mut sum = Array::zeros(values.dtype(), &values.shape()[1..]);
            context.sum(&values.view(), &mut sum).unwrap();
            [sum]
        });
        array
    }

    fn segmented_sum(&self, values: &Array, offsets: &[i32]) -> Array {
        let [array] = same_arrays_on_any_threads(|context| {
            let mut sums = Array::zeros(values.dtype(), &[offsets.len() - 1, values.shape()[1]]);
            context.segmented_sum(&values.view(), offsets, &mut sums).unwrap();
            [sums]
        });
        array
    }

    fn segmented_broadcast(&self, values: &Array, offsets: &[i32]) -> Array {
        let [array] = same_arrays_on_any_threads(|context| {
            let rows = offsets[offsets.len() - 1] as usize;
            let mut spread = Array::zeros(values.dtype(), &[rows, values.shape()[1]]);
            context.segmented_broadcast(&values.view(), offsets, &mut spread).unwrap();
            [spread]
        });
        array
    }

    fn real_fft(&self, mesh: [usize; 3], waves: Waves, values: &Array) -> [Array; 2] {
        same_arrays_on_any_threads(|context| {
            let systems = values.shape()[0] / mesh.iter().product::<usize>();
            let kept = systems * half_spectrum(mesh).unwrap();
            let mut parts = [(); 2].map(|()| Array::zeros(values.dtype(), &[kept]));
            let [re, im] = &mut parts;
            context.real_fft(&[Meshes { sizes: mesh, systems }], waves, &values.view(), [re, im]).unwrap();
            parts
        })
    }

    fn inverse_real_fft(&self, mesh: [usize; 3], waves: Waves, spectrum: &[Array; 2]) -> Array {
        let [array] = same_arrays_on_any_threads(|context| {
            let systems = spectrum[0].shape()[0] / half_spectrum(mesh).unwrap();
            let nodes = systems * mesh.iter().product::<usize>();
            let mut values = Array::zeros(spectrum[0].dtype(), &[nodes]);
            let parts = [&spectrum[0].view(), &spectrum[1].view()];
            context.inverse_real_fft(&[Meshes { sizes: mesh, systems }], waves, parts, &mut values).unwrap();
            [values]
        });
        array
    }
}

fn refused<T: Debug>(result: Result<T>, argument: &str, what: &str) {
    let text = result.unwrap_err().to_string();
    assert!(text.starts_with(&format!("`{argument}`")) && text.contains(what), "{text}");
}

#[test]
fn a_sum_that_does_not_fit_is_an_error() {
    let context = madelung_cpu::context();
    refused(scan(&context, Scan::Inclusive, &[i32::MAX, 1], &mut [0; 2]), "counts", "2147483648");
    refused(scan(&context, Scan::Exclusive, &[i64::MAX, i64::MAX], &mut [0; 3]), "counts", "64 bits");
    refused(scan(&context, Scan::Inclusive, &[3, -1], &mut [0; 2]), "counts", "-1");
    refused(scan(&context, Scan::Exclusive, &[1u32; 3], &mut [0; 3]), "sums", "4");
    let mut sums = [0; 3];
    scan(&context, Scan::Exclusive, &[u32::MAX - 1, 1], &mut sums).unwrap();
    assert_eq!(sums, [0, u32::MAX - 1, u32::MAX]);
}

proptest! {
    #[test]
    fn keys_by_chance_are_sorted(
        keys in prop::collection::vec(0u64..1 << 40, 0..300),
        bits in 0u32..40,
    ) {
        let keys: Vec<u64> = keys.into_iter().map(|k| k & ((1 << bits) - 1)).collect();
        sorts(&Processor, &keys, 40);
        sorts(&Processor, &keys.iter().map(|k| (k >> 8) as u32).collect::<Vec<_>>(), 32);
    }

    #[test]
    fn segments_by_chance_add_up(lengths in prop::collection::vec(0usize..9, 0..40), width in 1usize..4) {
        adds_up(&Processor, DType::F64, width, &lengths);
        spreads(&Processor, DType::F64, width, &lengths);
    }
}

#[test]
fn long_arrays_scan_over_threads() {
    for n in [40_000, 200_000] {
        scans::<i64>(&Processor, n);
    }
}

#[test]
fn long_arrays_sort_over_threads() {
    sorts(&Processor, &mixed(150_000).collect::<Vec<_>>(), 64);
    sorts(&Processor, &mixed(150_000).map(|x| x % 1000).collect::<Vec<_>>(), 10);
    sorts(&Processor, &vec![u64::MAX; 70_000], 64);
    refused(sort_by_key(&madelung_cpu::context(), &mut [1u32, 2], &mut [0]), "payload", "2");
}

#[test]
fn keys_without_segments_are_refused() {
    let mut offsets = [-1; 6];
    refused(segment_bounds(&[0u64, 5], &mut offsets), "keys", "below 5");
    refused(segment_bounds(&[1u32, 0], &mut offsets), "keys", "1 and then 0");
    refused(segment_bounds(&[1u32], &mut []), "offsets", "none");
}

#[test]
fn long_segments_and_whole_arrays_have_the_same_bits_on_any_threads() {
    let lengths = [3, 0, 90_000, 7, 9990, 40_000];
    let offsets = offsets(&lengths);
    adds_up(&Processor, DType::F64, 2, &lengths);
    spreads(&Processor, DType::F64, 2, &lengths);
    let data = reals(280_000);
    for dtype in [DType::F32, DType::F64] {
        let values = Array::from_f64(dtype, &[140_000, 2], &data).unwrap();
        let rounded = values.to_f64().unwrap();
        let of = |context: &Context<'_>| {
            let mut sums = Array::zeros(dtype, &[6, 2]);
            context.segmented_sum(&values.view(), &offsets, &mut sums).unwrap();
            let mut sum = Array::zeros(dtype, &[2]);
            context.sum(&values.view(), &mut sum).unwrap();
            [sums, sum].map(|a| a.to_f64().unwrap())
        };
        let [sums, sum] = same_on_any_threads(of);
        // 140,000 numbers below 1 in f64: errors below 140,000 · 2⁻⁵³ · 140,000, and one rounding to the dtype.
        let eps = if dtype == DType::F32 { 2f64.powi(-24) } else { 0.0 };
        for (c, sum) in sum.iter().enumerate() {
            let exact: f64 = rounded.iter().skip(c).step_by(2).sum();
            assert!((sum - exact).abs() <= 3e-6 + eps * exact.abs());
        }
        // A segment alone has the bits that it has among others.
        let mine = View::from(&data[6..180_006]);
        let mine = Array::from_f64(dtype, &[90_000, 2], &mine.to_f64().unwrap()).unwrap();
        let mut alone = Array::zeros(dtype, &[1, 2]);
        contexts()[2].segmented_sum(&mine.view(), &[0, 90_000], &mut alone).unwrap();
        assert_eq!(alone.to_f64().unwrap(), sums[4..6]);
    }
}

#[test]
fn reductions_refuse_what_does_not_fit() {
    let context = madelung_cpu::context();
    let (values, mut sums) = (array(DType::F64, &[4, 2], &[0.0; 8]), Array::zeros(DType::F64, &[2, 2]));
    for offsets in [&[][..], &[0], &[0, 2, 3], &[0, 5, 4], &[1, 2, 4], &[0, -1, 4]] {
        refused(context.segmented_sum(&values.view(), offsets, &mut sums), "offsets", "from 0 to 4");
    }
    refused(context.segmented_sum(&values.view(), &[0, 4], &mut sums), "sums", "[1, 2]");
    let ints = Array::zeros(DType::I32, &[4, 2]);
    refused(context.segmented_sum(&ints.view(), &[0, 1, 4], &mut sums), "values", "int32");
    let mut narrow = Array::zeros(DType::F32, &[2, 2]);
    refused(context.segmented_sum(&values.view(), &[0, 1, 4], &mut narrow), "sums", "float32");
    refused(context.sum(&values.view(), &mut sums), "sum", "[2]");
    refused(
        context.segmented_broadcast(&sums.view(), &[0, 4], &mut values.try_clone().unwrap()),
        "values",
        "1",
    );
}

#[test]
fn meshes_that_do_not_fit_are_refused() {
    let context = madelung_cpu::context();
    let mut parts = [(); 2].map(|()| Array::zeros(DType::F64, &[4]));
    let [re, im] = &mut parts;
    let six = Array::zeros(DType::F64, &[6]);
    let of = |sizes| [Meshes { sizes, systems: 1 }];
    refused(context.real_fft(&of([2, 0, 3]), Waves::Kept, &six.view(), [re, im]), "mesh", "[2, 0, 3]");
    refused(context.real_fft(&of([usize::MAX, 2, 2]), Waves::Kept, &six.view(), [re, im]), "mesh", "64 bits");
    refused(context.real_fft(&of([1, 2, 2]), Waves::Kept, &six.view(), [re, im]), "values", "4 elements");
    refused(context.real_fft(&of([1, 6, 1]), Waves::Kept, &six.view(), [re, im]), "spectrum", "6 elements");
    context.real_fft(&of([1, 2, 3]), Waves::Kept, &six.view(), [re, im]).unwrap();
    let mut floats = Array::zeros(DType::F32, &[4]);
    refused(
        context.real_fft(&of([1, 2, 3]), Waves::Kept, &six.view(), [re, &mut floats]),
        "spectrum",
        "float32",
    );
    let ints = Array::zeros(DType::I32, &[6]);
    refused(context.real_fft(&of([1, 2, 3]), Waves::Kept, &ints.view(), [re, im]), "values", "int32");
    // No systems: nothing to do.
    let mut none = [(); 2].map(|()| Array::zeros(DType::F64, &[0]));
    let [re, im] = &mut none;
    context.real_fft(&[], Waves::Kept, &Array::zeros(DType::F64, &[0]).view(), [re, im]).unwrap();
}
