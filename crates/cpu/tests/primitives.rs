//! Scans, sorts, reductions and Fourier transforms against brute force, with any number of threads.

use madelung_core::Result;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::pool::{Pool, Serial, Threads};
use madelung_core::backend::{Context, Scan, Waves, half_spectrum};
use madelung_cpu::{scan, segment_bounds, sort_by_key};
use proptest::prelude::*;
use std::sync::LazyLock;

static THREADS: LazyLock<[Threads; 3]> = LazyLock::new(|| [2, 3, 7].map(Threads::new));

/// Contexts with one thread, and with several.
fn contexts() -> Vec<Context<'static>> {
    let pools = THREADS.iter().map(|t| t as &dyn Pool);
    std::iter::once(&Serial as &dyn Pool).chain(pools).map(|p| madelung_cpu::context().with_pool(p)).collect()
}

fn refused<T: std::fmt::Debug>(result: Result<T>, argument: &str, what: &str) {
    let text = result.unwrap_err().to_string();
    assert!(text.starts_with(&format!("`{argument}`")) && text.contains(what), "{text}");
}

/// Reproducible pseudorandom numbers.
fn mixed(n: usize) -> impl Iterator<Item = u64> {
    (0..n as u64).map(|i| {
        let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}

/// Reproducible reals between −1 and 1.
fn reals(n: usize) -> Vec<f64> {
    mixed(n).map(|x| (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

fn f64s(shape: &[usize], data: &[f64]) -> Array {
    Array::from_f64(DType::F64, shape, data).unwrap()
}

#[test]
fn scans_add_up() {
    for n in [0, 1, 5, 40_000, 200_000] {
        let counts: Vec<i32> = mixed(n).map(|x| (x % 7) as i32).collect();
        let mut expected = vec![0];
        for c in &counts {
            expected.push(expected[expected.len() - 1] + c);
        }
        for context in contexts() {
            let mut sums = vec![-1; n + 1];
            scan(&context, Scan::Exclusive, &counts, &mut sums).unwrap();
            assert_eq!(sums, expected);
            let wide: Vec<i64> = counts.iter().map(|c| i64::from(*c)).collect();
            let mut sums = vec![-1i64; n];
            scan(&context, Scan::Inclusive, &wide, &mut sums).unwrap();
            assert!(sums.iter().zip(&expected[1..]).all(|(a, b)| *a == i64::from(*b)));
        }
    }
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
    fn sorting_is_stable(keys in prop::collection::vec(0u64..1 << 40, 0..300), bits in 0u32..40) {
        let keys: Vec<u64> = keys.into_iter().map(|k| k & ((1 << bits) - 1)).collect();
        sorts(&keys);
    }

    #[test]
    fn segments_reduce(lens in prop::collection::vec(0usize..9, 0..40), width in 1usize..4) {
        let mut offsets = vec![0i32];
        for n in &lens {
            offsets.push(offsets[offsets.len() - 1] + *n as i32);
        }
        reduces(&offsets, width);
    }
}

fn sorts(keys: &[u64]) {
    let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
    expected.sort_by_key(|i| keys[*i as usize]);
    for context in contexts() {
        let (mut sorted, mut payload) = (keys.to_vec(), (0..keys.len() as u32).collect::<Vec<_>>());
        sort_by_key(&context, &mut sorted, &mut payload).unwrap();
        assert_eq!(payload, expected);
        assert!(sorted.iter().eq(expected.iter().map(|i| &keys[*i as usize])));
        let mut narrow: Vec<u32> = keys.iter().map(|k| (*k >> 8) as u32).collect();
        let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
        expected.sort_by_key(|i| narrow[*i as usize]);
        let mut payload: Vec<u32> = (0..keys.len() as u32).collect();
        sort_by_key(&context, &mut narrow, &mut payload).unwrap();
        assert_eq!(payload, expected);
        assert!(narrow.is_sorted());
    }
}

#[test]
fn long_arrays_sort_over_threads() {
    sorts(&mixed(150_000).collect::<Vec<_>>());
    sorts(&mixed(150_000).map(|x| x % 1000).collect::<Vec<_>>());
    sorts(&vec![u64::MAX; 70_000]);
    refused(sort_by_key(&madelung_cpu::context(), &mut [1u32, 2], &mut [0]), "payload", "2");
}

#[test]
fn sorted_keys_have_segments() {
    let _context = madelung_cpu::context();
    let mut offsets = [-1; 6];
    segment_bounds(&[0u32, 0, 2, 2, 2, 4], &mut offsets).unwrap();
    assert_eq!(offsets, [0, 2, 2, 5, 5, 6]);
    segment_bounds::<u64>(&[], &mut offsets).unwrap();
    assert_eq!(offsets, [0; 6]);
    refused(segment_bounds(&[0u64, 5], &mut offsets), "keys", "below 5");
    refused(segment_bounds(&[1u32, 0], &mut offsets), "keys", "1 and then 0");
    refused(segment_bounds(&[1u32], &mut []), "offsets", "none");
}

fn reduces(offsets: &[i32], width: usize) {
    let (rows, segments) = (offsets[offsets.len() - 1] as usize, offsets.len() - 1);
    // Few different numbers, so that there are equal ones.
    let data: Vec<f64> = mixed(rows * width).map(|x| (x % 5) as f64 - 2.0).collect();
    let values = f64s(&[rows, width], &data);
    let rows_of = |s: usize| offsets[s] as usize..offsets[s + 1] as usize;
    for context in contexts() {
        let mut sums = Array::zeros(DType::F64, &[segments, width]);
        context.segmented_sum(&values.view(), offsets, &mut sums).unwrap();
        let exact: Vec<f64> = (0..segments * width)
            .map(|n| rows_of(n / width).map(|r| data[r * width + n % width]).sum::<f64>() + 0.0)
            .collect();
        assert_eq!(sums.to_f64().unwrap(), exact);
        let mut spread = Array::zeros(DType::F64, &[rows, width]);
        context.segmented_broadcast(&sums.view(), offsets, &mut spread).unwrap();
        let spread = spread.to_f64().unwrap();
        for s in 0..segments {
            for r in rows_of(s) {
                assert_eq!(spread[r * width..(r + 1) * width], exact[s * width..(s + 1) * width]);
            }
        }
    }
}

#[test]
fn long_segments_and_whole_arrays_have_the_same_bits_on_any_threads() {
    let offsets = [0, 3, 3, 90_003, 90_010, 100_000, 140_000];
    reduces(&offsets, 2);
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
        let [sums, sum] = contexts().map_and_agree(of);
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
fn f32_sums_are_carried_in_f64() {
    let values = Array::from_f64(DType::F32, &[30_000], &vec![0.1; 30_000]).unwrap();
    let mut sum = Array::zeros(DType::F32, &[]);
    madelung_cpu::context().sum(&values.view(), &mut sum).unwrap();
    assert_eq!(sum.to_f64().unwrap(), [f64::from((f64::from(0.1f32) * 30_000.0) as f32)]);
}

#[test]
fn reductions_refuse_what_does_not_fit() {
    let context = madelung_cpu::context();
    let (values, mut sums) = (f64s(&[4, 2], &[0.0; 8]), Array::zeros(DType::F64, &[2, 2]));
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

/// X_k = Σ_n x_n exp(−2πi Σ k n / K), by its definition.
fn naive(mesh: [usize; 3], x: &[f64]) -> [Vec<f64>; 2] {
    let [k1, k2, k3] = mesh;
    let waves = half_spectrum(mesh).unwrap();
    let (mut re, mut im) = (vec![0.0; waves], vec![0.0; waves]);
    for w in 0..waves {
        let (a, b, c) = (w / (k2 * (k3 / 2 + 1)), w / (k3 / 2 + 1) % k2, w % (k3 / 2 + 1));
        for (n, x) in x.iter().enumerate() {
            let (p, q, r) = (n / (k2 * k3), n / k3 % k2, n % k3);
            let turns = (a * p % k1) as f64 / k1 as f64
                + (b * q % k2) as f64 / k2 as f64
                + (c * r % k3) as f64 / k3 as f64;
            let (sin, cos) = (std::f64::consts::TAU * turns).sin_cos();
            re[w] += x * cos;
            im[w] -= x * sin;
        }
    }
    [re, im]
}

const MESHES: [[usize; 3]; 12] = [
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

fn forward(context: &Context<'_>, mesh: [usize; 3], waves: Waves, x: &Array) -> [Array; 2] {
    let systems = x.to_f64().unwrap().len() / mesh.iter().product::<usize>();
    let mut parts = [(); 2].map(|()| Array::zeros(x.dtype(), &[systems * half_spectrum(mesh).unwrap()]));
    let [re, im] = &mut parts;
    context.real_fft(mesh, waves, &x.view(), [re, im]).unwrap();
    parts
}

fn inverse(
    context: &Context<'_>,
    mesh: [usize; 3],
    waves: Waves,
    spectrum: &[Array; 2],
    systems: usize,
) -> Array {
    let mut values = Array::zeros(spectrum[0].dtype(), &[systems * mesh.iter().product::<usize>()]);
    context.inverse_real_fft(mesh, waves, [&spectrum[0].view(), &spectrum[1].view()], &mut values).unwrap();
    values
}

/// Rounding of a transform of n numbers below 1: a few ulp of the RMS, √n, for each of its log₂ n levels; primes go
/// through Bluestein's or Rader's convolutions, which cost a few times as much.
fn tolerance(dtype: DType, n: usize) -> f64 {
    let eps = if dtype == DType::F32 { 2f64.powi(-23) } else { 2f64.powi(-52) };
    8.0 * eps * (n as f64).sqrt() * ((n as f64).log2() + 2.0)
}

#[test]
fn transforms_are_their_definition() {
    for mesh in MESHES {
        let nodes = mesh.iter().product();
        for (dtype, systems) in [(DType::F64, 1), (DType::F64, 3), (DType::F32, 2)] {
            let x = Array::from_f64(dtype, &[systems * nodes], &reals(systems * nodes)).unwrap();
            let found =
                contexts().map_and_agree(|c| forward(c, mesh, Waves::Kept, &x).map(|a| a.to_f64().unwrap()));
            let data = x.to_f64().unwrap();
            let waves = half_spectrum(mesh).unwrap();
            for s in 0..systems {
                let exact = naive(mesh, &data[s * nodes..(s + 1) * nodes]);
                for (found, exact) in found.iter().zip(&exact) {
                    for (a, b) in found[s * waves..(s + 1) * waves].iter().zip(exact) {
                        assert!((a - b).abs() <= tolerance(dtype, nodes), "{mesh:?}: {a} {b}");
                    }
                }
            }
        }
    }
}

trait Agree {
    fn map_and_agree<T: PartialEq + std::fmt::Debug>(&self, f: impl Fn(&Context<'_>) -> T) -> T;
}

impl Agree for Vec<Context<'_>> {
    fn map_and_agree<T: PartialEq + std::fmt::Debug>(&self, f: impl Fn(&Context<'_>) -> T) -> T {
        let first = f(&self[0]);
        self[1..].iter().for_each(|c| assert_eq!(f(c), first));
        first
    }
}

#[test]
fn the_inverse_undoes_it() {
    for mesh in MESHES {
        let nodes: usize = mesh.iter().product();
        let x = f64s(&[2 * nodes], &reals(2 * nodes));
        let back = contexts().map_and_agree(|c| {
            let spectrum = forward(c, mesh, Waves::Kept, &x);
            inverse(c, mesh, Waves::All, &spectrum, 2).to_f64().unwrap()
        });
        for (a, b) in back.iter().zip(x.to_f64().unwrap()) {
            assert!((a / nodes as f64 - b).abs() <= tolerance(DType::F64, nodes), "{mesh:?}: {a} {b}");
        }
    }
}

/// ⟨w, L x⟩ = ⟨Lᵀ w, x⟩ for both transforms and any w and x: also spectra that no real mesh has.
#[test]
fn each_transform_is_the_transpose_of_the_other() {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for mesh in MESHES {
        let (nodes, waves) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        let numbers = reals(2 * nodes + 4 * waves);
        let (x, w) = numbers.split_at(2 * nodes);
        let w = [&w[..2 * waves], &w[2 * waves..]];
        let (mesh_array, spectrum) = (f64s(&[2 * nodes], x), w.map(|w| f64s(&[2 * waves], w)));
        let context = madelung_cpu::context();
        for counting in [Waves::Kept, Waves::All] {
            let f = forward(&context, mesh, counting, &mesh_array);
            let t = inverse(&context, mesh, counting, &spectrum, 2);
            let left = dot(&f[0].to_f64().unwrap(), w[0]) + dot(&f[1].to_f64().unwrap(), w[1]);
            let right = dot(&t.to_f64().unwrap(), x);
            // 4 · nodes products of numbers below 1 with numbers of about √nodes.
            let bound = tolerance(DType::F64, nodes) * (4 * nodes) as f64;
            assert!((left - right).abs() <= bound, "{mesh:?} {counting:?}: {left} {right}");
        }
    }
}

/// Σ_k w_k Re(X_k exp(2πi k n / K)) for one wave at a time, where w is 2 for waves that stand for two.
#[test]
fn waves_that_stand_for_two_count_twice() {
    for mesh in [[3, 2, 4], [2, 3, 5]] {
        let [k1, k2, k3] = mesh;
        let half = k3 / 2 + 1;
        for w in 0..half_spectrum(mesh).unwrap() {
            for part in 0..2 {
                let mut one = vec![0.0; half_spectrum(mesh).unwrap()];
                let nothing = f64s(&[one.len()], &one);
                one[w] = 1.0;
                let one = f64s(&[one.len()], &one);
                let spectrum = if part == 0 { [one, nothing] } else { [nothing, one] };
                let x = inverse(&madelung_cpu::context(), mesh, Waves::All, &spectrum, 1).to_f64().unwrap();
                let (a, b, c) = (w / (k2 * half), w / half % k2, w % half);
                let own = c == 0 || 2 * c == k3;
                for (n, x) in x.iter().enumerate() {
                    let (p, q, r) = (n / (k2 * k3), n / k3 % k2, n % k3);
                    let turns =
                        (a * p) as f64 / k1 as f64 + (b * q) as f64 / k2 as f64 + (c * r) as f64 / k3 as f64;
                    let (sin, cos) = (std::f64::consts::TAU * turns).sin_cos();
                    let exact = if own { 1.0 } else { 2.0 } * if part == 0 { cos } else { -sin };
                    assert!((x - exact).abs() < 1e-14, "{mesh:?} {w}: {x} {exact}");
                }
            }
        }
    }
}

#[test]
fn meshes_that_do_not_fit_are_refused() {
    let context = madelung_cpu::context();
    let mut parts = [(); 2].map(|()| Array::zeros(DType::F64, &[4]));
    let [re, im] = &mut parts;
    let six = Array::zeros(DType::F64, &[6]);
    refused(context.real_fft([2, 0, 3], Waves::Kept, &six.view(), [re, im]), "mesh", "[2, 0, 3]");
    refused(context.real_fft([usize::MAX, 2, 2], Waves::Kept, &six.view(), [re, im]), "mesh", "64 bits");
    refused(context.real_fft([1, 2, 2], Waves::Kept, &six.view(), [re, im]), "values", "multiple of 4");
    refused(context.real_fft([1, 6, 1], Waves::Kept, &six.view(), [re, im]), "spectrum", "6 elements");
    context.real_fft([1, 2, 3], Waves::Kept, &six.view(), [re, im]).unwrap();
    let mut floats = Array::zeros(DType::F32, &[4]);
    refused(context.real_fft([1, 2, 3], Waves::Kept, &six.view(), [re, &mut floats]), "spectrum", "float32");
    let ints = Array::zeros(DType::I32, &[6]);
    refused(context.real_fft([1, 2, 3], Waves::Kept, &ints.view(), [re, im]), "values", "int32");
    // No systems: nothing to do.
    let mut none = [(); 2].map(|()| Array::zeros(DType::F64, &[0]));
    let [re, im] = &mut none;
    context.real_fft([1, 2, 3], Waves::Kept, &Array::zeros(DType::F64, &[0]).view(), [re, im]).unwrap();
}
