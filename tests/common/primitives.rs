//! One suite for the primitives of every backend, against plain loops: scans, sorts, sums of segments, transforms.
//!
//! A crate includes it as `primitives`, implements [`Primitives`] for its backend, and has the tests by `suite!`.

use madelung_core::array::{Array, DType};
use madelung_core::backend::{Scan, Waves, half_spectrum};
use madelung_cpu::{Count, Key};
use std::fmt::Debug;

/// A type of integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Type {
    I32,
    U32,
    I64,
    U64,
}

pub(crate) trait Number: Copy + Default + Ord + Debug {
    const TYPE: Type;

    /// The lower bits.
    fn of(x: u64) -> Self;
}

macro_rules! numbers {
    ($($T:ty: $variant:ident),*) => {$(
        impl Number for $T {
            const TYPE: Type = Type::$variant;

            fn of(x: u64) -> Self {
                x as Self
            }
        }
    )*};
}
numbers!(i32: I32, u32: U32, i64: I64, u64: U64);

/// A backend under test. Each call is made in every way that must give the same bits: with any number of threads, in any
/// order.
pub(crate) trait Primitives {
    /// Rows of long arrays.
    const LONG: usize;
    const MESHES: &'static [[usize; 3]];

    /// The error of a transform of so many numbers below 1.
    fn tolerance(dtype: DType, n: usize) -> f64;
    /// Sums, or nothing where they do not fit or a count is negative.
    fn scan<T: Number + Count>(&self, kind: Scan, counts: &[T]) -> Option<Vec<T>>;
    /// Keys, of which so many bits are used, and what moves with them.
    fn sort_by_key<K: Number + Key>(&self, keys: &[K], bits: usize, payload: &[u32]) -> (Vec<K>, Vec<u32>);
    /// The offsets of each key's segment, or nothing where keys fall or reach beyond the segments.
    fn segment_bounds<K: Number + Key>(&self, keys: &[K], segments: usize) -> Option<Vec<i32>>;
    /// Of an array of shape (rows, width).
    fn sum(&self, values: &Array) -> Array;
    fn segmented_sum(&self, values: &Array, offsets: &[i32]) -> Array;
    fn segmented_broadcast(&self, values: &Array, offsets: &[i32]) -> Array;
    fn real_fft(&self, mesh: [usize; 3], waves: Waves, values: &Array) -> [Array; 2];
    fn inverse_real_fft(&self, mesh: [usize; 3], waves: Waves, spectrum: &[Array; 2]) -> Array;
}

/// The tests of a backend.
macro_rules! suite {
    ($backend:expr) => {
        $crate::primitives::suite!(@ $backend;
            scans_add_up
            sums_that_do_not_fit_are_refused
            sorts_are_stable
            sorted_keys_have_segments
            segments_add_up
            a_segment_has_the_same_bits_in_any_company
            all_rows_add_up
            f32_sums_are_carried_in_f64
            rows_get_their_segments_values
            transforms_are_their_definition
            inverses_are_their_definition
            the_inverse_undoes_it
            each_transform_is_the_transpose_of_the_other
            waves_that_stand_for_two_count_twice
        );
    };
    (@ $backend:expr; $($test:ident)*) => {$(
        #[test]
        fn $test() {
            $crate::primitives::$test(&$backend);
        }
    )*};
}
pub(crate) use suite;

/// Reproducible pseudorandom numbers.
pub(crate) fn mixed(n: usize) -> impl Iterator<Item = u64> {
    (0..n as u64).map(|i| {
        let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}

/// Multiples of 1/8 between −100 and 100: their sums are exact, in any order.
pub(crate) fn eighths(n: usize) -> Vec<f64> {
    mixed(n).map(|x| (x >> 40) as f64 % 1601.0 / 8.0 - 100.0).collect()
}

/// Reproducible reals between −1 and 1.
pub(crate) fn reals(n: usize) -> Vec<f64> {
    mixed(n).map(|x| (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

pub(crate) fn array(dtype: DType, shape: &[usize], data: &[f64]) -> Array {
    Array::from_f64(dtype, shape, data).unwrap()
}

const SCANS: [Scan; 2] = [Scan::Exclusive, Scan::Inclusive];

/// Lengths at the borders of warps, blocks and tiles.
const LENGTHS: [usize; 13] = [0, 1, 5, 31, 32, 33, 255, 256, 257, 1000, 2048, 2049, 5000];

/// Exclusive and inclusive sums of so many counts.
pub(crate) fn scans<T: Number + Count>(on: &impl Primitives, n: usize) {
    let counts: Vec<T> = mixed(n).map(|x| T::of(x % 1000)).collect();
    let mut sums = vec![0];
    for x in &counts {
        let x: i64 = (*x).into();
        sums.push(sums[sums.len() - 1] + x);
    }
    let sums: Vec<T> = sums.iter().map(|x| T::of(*x as u64)).collect();
    for kind in SCANS {
        let expected = &sums[usize::from(kind == Scan::Inclusive)..];
        assert_eq!(on.scan(kind, &counts).as_deref(), Some(expected), "{n} {:?} {kind:?}", T::TYPE);
    }
}

pub(crate) fn scans_add_up<P: Primitives>(on: &P) {
    for n in LENGTHS {
        scans::<i32>(on, n);
        scans::<u32>(on, n);
        scans::<i64>(on, n);
    }
    scans::<i32>(on, P::LONG);
}

pub(crate) fn sums_that_do_not_fit_are_refused(on: &impl Primitives) {
    fn fits<T: Number + Count>(on: &impl Primitives, counts: &[T]) -> bool {
        let [a, b] = SCANS.map(|kind| on.scan(kind, counts).is_some());
        assert_eq!(a, b);
        a
    }
    assert!(fits(on, &[i32::MAX - 5, 3, 2]) && !fits(on, &[i32::MAX - 5, 3, 3]));
    assert!(fits(on, &[u32::MAX - 1, 1]) && !fits(on, &[u32::MAX - 1, 1, 1]));
    assert!(fits(on, &[i64::MAX - 1, 1]) && !fits(on, &[i64::MAX - 1, 1, 1]));
    // In unsigned arithmetic the sum would wrap around to its start.
    assert!(!fits(on, &vec![i64::MAX; 4099]));
    let mut counts = vec![1; 3000];
    counts[2999] = -1;
    assert!(!fits(on, &counts) && !fits(on, &[5i64, -1, 3]));
}

/// Against a stable sort.
pub(crate) fn sorts<K: Number + Key>(on: &impl Primitives, keys: &[K], bits: usize) {
    let payload: Vec<u32> = (0..keys.len() as u32).map(|n| n.wrapping_mul(7)).collect();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|i| keys[*i]);
    let expected = order.iter().map(|i| (keys[*i], payload[*i])).unzip();
    assert!(on.sort_by_key(keys, bits, &payload) == expected, "{} keys of {bits} bits", keys.len());
}

/// Keys of so many bits, of which some are equal.
fn sorts_by_chance<K: Number + Key>(on: &impl Primitives, n: usize, bits: usize) {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let keys: Vec<K> = mixed(n).map(|x| K::of(if x % 3 == 0 { mask } else { (x >> 7) & mask })).collect();
    sorts(on, &keys, bits);
}

pub(crate) fn sorts_are_stable<P: Primitives>(on: &P) {
    for n in LENGTHS.into_iter().chain([4096, 4097]) {
        sorts_by_chance::<u32>(on, n, 11);
    }
    for (n, bits) in [(300, 0), (300, 1), (300, 32), (9000, 8), (9000, 32), (P::LONG, 9)] {
        sorts_by_chance::<u32>(on, n, bits);
    }
    for (n, bits) in [(0, 64), (257, 64), (2048, 40), (2049, 40), (5000, 64)] {
        sorts_by_chance::<u64>(on, n, bits);
    }
}

pub(crate) fn sorted_keys_have_segments(on: &impl Primitives) {
    fn check<K: Number + Key>(on: &impl Primitives, n: usize, segments: usize) {
        let mut numbers: Vec<u64> = mixed(n).map(|x| x % segments as u64 / 2 * 2).collect();
        numbers.sort_unstable();
        let before = |s: usize| numbers.iter().filter(|x| **x < s as u64).count() as i32;
        let keys: Vec<K> = numbers.iter().map(|x| K::of(*x)).collect();
        assert_eq!(on.segment_bounds(&keys, segments), Some((0..=segments).map(before).collect()));
    }
    for n in [1, 33, 257, 1000] {
        check::<u32>(on, n, 3);
        check::<u64>(on, n, 700);
    }
    check::<u32>(on, 0, 5);
    assert_eq!(on.segment_bounds(&[0u32, 0, 2, 2, 2, 4], 5), Some(vec![0, 2, 2, 5, 5, 6]));
    assert_eq!(on.segment_bounds::<u64>(&[], 0), Some(vec![0]));
    assert_eq!(on.segment_bounds(&[0u32, 2, 1], 3), None);
    assert_eq!(on.segment_bounds(&[1u32, 0], 5), None);
    assert_eq!(on.segment_bounds(&[0u64, 1, 3], 3), None);
    assert_eq!(on.segment_bounds(&[0u64, 5], 5), None);
}

/// Lengths of segments: one alone, many short ones, and all that can meet at the borders of chunks.
pub(crate) fn segments() -> Vec<Vec<usize>> {
    let short = mixed(700).map(|x| (x % 12) as usize).collect();
    let borders = vec![1024, 0, 1025, 3000, 1, 2048, 700, 0, 33, 8, 9];
    vec![vec![], vec![0, 0], vec![1], vec![5000], short, borders]
}

pub(crate) fn offsets(lengths: &[usize]) -> Vec<i32> {
    let mut offsets = vec![0];
    offsets.extend(lengths.iter().scan(0, |sum, n| {
        *sum += *n as i32;
        Some(*sum)
    }));
    offsets
}

/// Row by row, one component after the other.
pub(crate) fn summed(values: &[f64], width: usize, lengths: &[usize]) -> Vec<f64> {
    let mut sums = vec![0.0; lengths.len() * width];
    let mut rows = values.chunks_exact(width);
    for (sums, n) in sums.chunks_exact_mut(width).zip(lengths) {
        for row in rows.by_ref().take(*n) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }
    sums
}

/// Sums of numbers whose sums are exact.
pub(crate) fn adds_up(on: &impl Primitives, dtype: DType, width: usize, lengths: &[usize]) {
    let rows = lengths.iter().sum::<usize>();
    let values = eighths(rows * width);
    let expected = array(dtype, &[lengths.len(), width], &summed(&values, width, lengths));
    let sums = on.segmented_sum(&array(dtype, &[rows, width], &values), &offsets(lengths));
    assert!(sums.equals(&expected).unwrap(), "{dtype}, {width}: {sums:?} {expected:?}");
}

pub(crate) fn segments_add_up(on: &impl Primitives) {
    for lengths in segments() {
        for width in [1, 2, 3, 9, 20] {
            adds_up(on, DType::F32, width, &lengths);
            if width != 2 {
                adds_up(on, DType::F64, width, &lengths);
            }
        }
    }
    // More than a warp has one segment each of.
    let lengths: Vec<usize> = mixed(6000).map(|x| (x % 3) as usize).collect();
    adds_up(on, DType::F64, 1, &lengths);
}

pub(crate) fn a_segment_has_the_same_bits_in_any_company(on: &impl Primitives) {
    /// Enough of them for warps that take several at once.
    const FEW: usize = 2200;
    let sums = |values: &[f64], width: usize, lengths: &[usize]| {
        let values = array(DType::F64, &[values.len() / width, width], values);
        on.segmented_sum(&values, &offsets(lengths)).to_f64().unwrap()
    };
    for width in [1, 3, 9] {
        for rows in [7, 100, 1024, 2500] {
            let values = reals(rows * width);
            let alone = sums(&values, width, &[rows]);
            for before in [1, 1000, 1024] {
                let mut all = reals((before + rows + 2 * FEW) * width);
                all[before * width..(before + rows) * width].copy_from_slice(&values);
                let mut lengths = vec![before, rows];
                lengths.resize(2 + 2 * FEW, 1);
                assert_eq!(sums(&all, width, &lengths)[width..2 * width], alone, "{rows} {width}");
            }
        }
    }
}

pub(crate) fn all_rows_add_up(on: &impl Primitives) {
    for rows in [0, 1, 1000, 3000] {
        let values = eighths(rows * 3);
        let sum = on.sum(&array(DType::F64, &[rows, 3], &values));
        assert_eq!(sum.to_f64().unwrap(), summed(&values, 3, &[rows]));
    }
}

pub(crate) fn f32_sums_are_carried_in_f64(on: &impl Primitives) {
    let sum = on.sum(&array(DType::F32, &[30_000, 1], &vec![0.1; 30_000]));
    assert_eq!(sum.to_f64().unwrap(), [f64::from((f64::from(0.1f32) * 30_000.0) as f32)]);
}

/// Each row gets the numbers of its segment.
pub(crate) fn spreads(on: &impl Primitives, dtype: DType, width: usize, lengths: &[usize]) {
    let values = array(dtype, &[lengths.len(), width], &reals(lengths.len() * width));
    let numbers = values.to_f64().unwrap();
    let segment = |s: usize| &numbers[s * width..(s + 1) * width];
    let expected: Vec<f64> = (0..lengths.len()).flat_map(|s| segment(s).repeat(lengths[s])).collect();
    assert!(
        on.segmented_broadcast(&values, &offsets(lengths)).to_f64().unwrap() == expected,
        "{dtype}, {width}"
    );
}

pub(crate) fn rows_get_their_segments_values(on: &impl Primitives) {
    for lengths in segments() {
        spreads(on, DType::F32, 3, &lengths);
        spreads(on, DType::F64, 1, &lengths);
    }
}

/// The waves of a mesh that are kept, each with its weight: 2 where it stands for two that count.
fn weighted_waves(mesh: [usize; 3], counting: Waves) -> impl Iterator<Item = ([usize; 3], f64)> {
    let [_, k2, k3] = mesh;
    let half = k3 / 2 + 1;
    (0..half_spectrum(mesh).unwrap()).map(move |w| {
        let (a, b, c) = (w / (k2 * half), w / half % k2, w % half);
        let own = c == 0 || 2 * c == k3;
        ([a, b, c], if own || counting == Waves::Kept { 1.0 } else { 2.0 })
    })
}

fn nodes(mesh: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [k1, k2, k3] = mesh;
    (0..k1 * k2 * k3).map(move |n| [n / (k2 * k3), n / k3 % k2, n % k3])
}

/// Sine and cosine of 2π Σ k n / K.
fn phase(mesh: [usize; 3], wave: [usize; 3], node: [usize; 3]) -> (f64, f64) {
    let turns: f64 = (0..3).map(|k| (wave[k] * node[k] % mesh[k]) as f64 / mesh[k] as f64).sum();
    (std::f64::consts::TAU * turns).sin_cos()
}

/// Σ_n x_n exp(−2πi Σ k n / K).
fn forward(mesh: [usize; 3], x: &[f64]) -> [Vec<f64>; 2] {
    let of = |(wave, _)| {
        let mut sum = (0.0, 0.0);
        for (node, x) in nodes(mesh).zip(x) {
            let (sin, cos) = phase(mesh, wave, node);
            sum = (sum.0 + x * cos, sum.1 - x * sin);
        }
        sum
    };
    let (re, im) = weighted_waves(mesh, Waves::Kept).map(of).unzip();
    [re, im]
}

/// Σ_k w_k Re(X_k exp(2πi Σ k n / K)).
fn inverse(mesh: [usize; 3], counting: Waves, re: &[f64], im: &[f64]) -> Vec<f64> {
    let waves: Vec<_> = weighted_waves(mesh, counting).collect();
    let of = |node| {
        let term = |(((wave, weight), re), im): ((&([usize; 3], f64), &f64), &f64)| {
            let (sin, cos) = phase(mesh, *wave, node);
            weight * (re * cos - im * sin)
        };
        waves.iter().zip(re).zip(im).map(term).sum::<f64>()
    };
    nodes(mesh).map(of).collect()
}

#[track_caller]
fn close(found: &[f64], exact: &[f64], tolerance: f64, what: &dyn Debug) {
    assert_eq!(found.len(), exact.len());
    for (a, b) in found.iter().zip(exact) {
        assert!((a - b).abs() <= tolerance, "{what:?}: {a} {b}");
    }
}

const KINDS: [Waves; 2] = [Waves::Kept, Waves::All];

/// Types, and numbers of systems.
const BATCHES: [(DType, usize); 4] = [(DType::F64, 1), (DType::F64, 3), (DType::F32, 2), (DType::F32, 0)];

pub(crate) fn transforms_are_their_definition<P: Primitives>(on: &P) {
    for mesh in P::MESHES.iter().copied() {
        let (nodes, waves) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        for (dtype, systems) in BATCHES {
            let x = array(dtype, &[systems * nodes], &reals(systems * nodes));
            let found = KINDS.map(|counting| on.real_fft(mesh, counting, &x).map(|a| a.to_f64().unwrap()));
            assert!(found.as_flattened().iter().all(|part| part.len() == systems * waves));
            for (s, x) in x.to_f64().unwrap().chunks_exact(nodes).enumerate() {
                let exact = forward(mesh, x);
                for (counting, found) in KINDS.into_iter().zip(&found) {
                    for (found, exact) in found.iter().zip(&exact) {
                        let weights = weighted_waves(mesh, counting).map(|(_, weight)| weight);
                        let exact: Vec<f64> =
                            exact.iter().zip(weights).map(|(x, weight)| weight * x).collect();
                        let found = &found[s * waves..(s + 1) * waves];
                        close(found, &exact, P::tolerance(dtype, nodes), &(mesh, counting));
                    }
                }
            }
        }
    }
}

/// Of any spectra: waves that stand for themselves alone need not be those of a real mesh.
pub(crate) fn inverses_are_their_definition<P: Primitives>(on: &P) {
    for mesh in P::MESHES.iter().copied() {
        let (nodes, waves) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        for (dtype, systems) in BATCHES.into_iter().skip(1) {
            let all = reals(2 * systems * waves);
            let (re, im) = all.split_at(systems * waves);
            let spectrum = [re, im].map(|part| array(dtype, &[systems * waves], part));
            let parts = spectrum.each_ref().map(|part| part.to_f64().unwrap());
            for counting in KINDS {
                let found = on.inverse_real_fft(mesh, counting, &spectrum).to_f64().unwrap();
                assert_eq!(found.len(), systems * nodes);
                for s in 0..systems {
                    let [re, im] = parts.each_ref().map(|part| &part[s * waves..(s + 1) * waves]);
                    let exact = inverse(mesh, counting, re, im);
                    let found = &found[s * nodes..(s + 1) * nodes];
                    close(found, &exact, P::tolerance(dtype, 2 * nodes), &(mesh, counting));
                }
            }
        }
    }
}

pub(crate) fn the_inverse_undoes_it<P: Primitives>(on: &P) {
    for mesh in P::MESHES.iter().copied() {
        let nodes: usize = mesh.iter().product();
        let x = reals(2 * nodes);
        let spectrum = on.real_fft(mesh, Waves::Kept, &array(DType::F64, &[2 * nodes], &x));
        let back = on.inverse_real_fft(mesh, Waves::All, &spectrum).to_f64().unwrap();
        let back: Vec<f64> = back.iter().map(|x| x / nodes as f64).collect();
        close(&back, &x, P::tolerance(DType::F64, nodes), &mesh);
    }
}

/// ⟨w, L x⟩ = ⟨Lᵀ w, x⟩ for both transforms and any w and x: also spectra that no real mesh has.
pub(crate) fn each_transform_is_the_transpose_of_the_other<P: Primitives>(on: &P) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for mesh in P::MESHES.iter().copied() {
        let (nodes, waves) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        let numbers = reals(2 * nodes + 4 * waves);
        let (x, w) = numbers.split_at(2 * nodes);
        let w = [&w[..2 * waves], &w[2 * waves..]];
        let given = array(DType::F64, &[2 * nodes], x);
        let spectrum = w.map(|w| array(DType::F64, &[2 * waves], w));
        for counting in KINDS {
            let f = on.real_fft(mesh, counting, &given);
            let t = on.inverse_real_fft(mesh, counting, &spectrum);
            let left = dot(&f[0].to_f64().unwrap(), w[0]) + dot(&f[1].to_f64().unwrap(), w[1]);
            let right = dot(&t.to_f64().unwrap(), x);
            // 4 · nodes products of numbers below 1 with numbers of about √nodes.
            let bound = P::tolerance(DType::F64, nodes) * (4 * nodes) as f64;
            assert!((left - right).abs() <= bound, "{mesh:?} {counting:?}: {left} {right}");
        }
    }
}

/// One wave at a time.
pub(crate) fn waves_that_stand_for_two_count_twice(on: &impl Primitives) {
    for mesh in [[3, 2, 4], [2, 3, 5]] {
        let waves = half_spectrum(mesh).unwrap();
        for w in 0..waves {
            for part in 0..2 {
                let mut spectrum = [(); 2].map(|()| vec![0.0; waves]);
                spectrum[part][w] = 1.0;
                let [re, im] = spectrum.each_ref().map(|x| array(DType::F64, &[waves], x));
                let x = on.inverse_real_fft(mesh, Waves::All, &[re, im]).to_f64().unwrap();
                let exact = inverse(mesh, Waves::All, &spectrum[0], &spectrum[1]);
                close(&x, &exact, 1e-14, &(mesh, w));
            }
        }
    }
}
