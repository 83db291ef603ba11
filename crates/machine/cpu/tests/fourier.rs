//! Fourier transforms on the lanes of every instruction set, beside sums of plane waves in f64.

use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::{Pool, Serial, Threads};
use madelung_core::backend::{Context, Meshes, Waves, half_spectrum};
use madelung_core::runtime::Isa;
use madelung_cpu::Cpu;
use std::sync::LazyLock;

static TWO: LazyLock<Threads> = LazyLock::new(|| Threads::new(2));

const DTYPES: [DType; 2] = [DType::F32, DType::F64];

/// Reproducible pseudorandom numbers between −1 and 1.
fn reals(n: usize) -> Vec<f64> {
    let mixed = (1..=n as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).map(|x| x ^ x >> 29);
    mixed.map(|x| (x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

fn array(dtype: DType, shape: &[usize], data: &[f64]) -> Array {
    Array::from_f64(dtype, shape, data).unwrap()
}

/// A few ulp of a sum of `n` numbers below 1, for each factor of two.
fn tolerance(dtype: DType, n: usize) -> f64 {
    let eps = if dtype == DType::F32 { 2f64.powi(-23) } else { 2f64.powi(-52) };
    8.0 * eps * (n as f64).sqrt() * ((n as f64).log2() + 2.0)
}

/// Σ_n x_n exp(∓2πi k n / K) along one axis after the other, each sum term by term.
fn plane_waves(mesh: [usize; 3], mut x: Vec<[f64; 2]>, sign: f64) -> Vec<[f64; 2]> {
    let steps = [mesh[1] * mesh[2], mesh[2], 1];
    for (len, step) in mesh.into_iter().zip(steps) {
        let phase =
            |k: usize, n: usize| (sign * std::f64::consts::TAU * (k * n % len) as f64 / len as f64).sin_cos();
        let of = |at: usize| {
            let k = at / step % len;
            (0..len).fold([0.0; 2], |sum, n| {
                let ((sin, cos), [re, im]) = (phase(k, n), x[at - k * step + n * step]);
                [sum[0] + re * cos - im * sin, sum[1] + re * sin + im * cos]
            })
        };
        x = (0..x.len()).map(of).collect();
    }
    x
}

/// The waves of a mesh that are stored, with their weights.
fn stored(mesh: [usize; 3], waves: Waves) -> impl Iterator<Item = (usize, f64)> {
    let half = mesh[2] / 2 + 1;
    (0..half_spectrum(mesh).unwrap()).map(move |w| {
        let k = w % half;
        let own = k == 0 || 2 * k == mesh[2];
        (w / half * mesh[2] + k, if own || waves == Waves::Kept { 1.0 } else { 2.0 })
    })
}

fn forward(mesh: [usize; 3], waves: Waves, x: &[f64]) -> [Vec<f64>; 2] {
    let all = plane_waves(mesh, x.iter().map(|x| [*x, 0.0]).collect(), -1.0);
    [0, 1].map(|part| stored(mesh, waves).map(|(at, weight)| weight * all[at][part]).collect())
}

fn inverse(mesh: [usize; 3], waves: Waves, [re, im]: [&[f64]; 2]) -> Vec<f64> {
    let mut all = vec![[0.0; 2]; mesh.iter().product()];
    for ((at, weight), (re, im)) in stored(mesh, waves).zip(re.iter().zip(im)) {
        all[at] = [weight * re, weight * im];
    }
    plane_waves(mesh, all, 1.0).into_iter().map(|[re, _]| re).collect()
}

/// Meshes of one size.
fn of_size(sizes: [usize; 3], systems: usize) -> [Meshes; 1] {
    [Meshes { sizes, systems }]
}

/// Both transforms of some systems: waves and nodes.
fn both(
    context: &Context<'_>,
    meshes: &[Meshes],
    waves: Waves,
    x: &Array,
    spectrum: &[Array; 2],
) -> [Array; 3] {
    let (nodes, kept) = (x.view().len(), spectrum[0].view().len());
    let [mut re, mut im] = [(); 2].map(|()| Array::filled(x.dtype(), &[kept], f64::NAN));
    context.real_fft(meshes, waves, &x.view(), [&mut re, &mut im]).unwrap();
    let mut back = Array::filled(x.dtype(), &[nodes], f64::NAN);
    let parts = spectrum.each_ref().map(|part| part.view());
    context.inverse_real_fft(meshes, waves, parts.each_ref(), &mut back).unwrap();
    [re, im, back]
}

#[track_caller]
fn close(found: &Array, exact: &[f64], tolerance: f64, what: &str) {
    let found = found.to_f64().unwrap();
    assert_eq!(found.len(), exact.len());
    for (n, (a, b)) in found.iter().zip(exact).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what}, {n}: {a} {b}");
    }
}

/// Any spectra, both transforms, all dtypes and instruction sets.
fn are_plane_waves(mesh: [usize; 3], waves: Waves) {
    let (nodes, kept) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
    let numbers = reals(nodes + 2 * kept);
    let (x, w) = numbers.split_at(nodes);
    for dtype in DTYPES {
        let given = array(dtype, &[nodes], x);
        let spectrum = [&w[..kept], &w[kept..]].map(|w| array(dtype, &[kept], w));
        let rounded = spectrum.each_ref().map(|part| part.to_f64().unwrap());
        let exact = forward(mesh, waves, &given.to_f64().unwrap());
        let exact_back = inverse(mesh, waves, [&rounded[0], &rounded[1]]);
        for isa in Isa::available() {
            let cpu = Cpu::at_most(*isa);
            let context = Context::new(&cpu).with_pool(&Serial);
            let [re, im, back] = both(&context, &of_size(mesh, 1), waves, &given, &spectrum);
            let what = format!("{mesh:?} {waves:?} {dtype} {isa:?}");
            close(&re, &exact[0], tolerance(dtype, 2 * nodes), &what);
            close(&im, &exact[1], tolerance(dtype, 2 * nodes), &what);
            close(&back, &exact_back, tolerance(dtype, 2 * nodes), &what);
        }
    }
}

#[test]
fn all_lengths_on_each_axis() {
    for n in (1..=64).chain([96, 97, 100, 121, 125, 128, 343]) {
        for mesh in [[n, 1, 1], [1, n, 1], [1, 1, n], [n, 3, 2], [2, n, 5], [3, 2, n]] {
            are_plane_waves(mesh, if n % 2 == 0 { Waves::All } else { Waves::Kept });
        }
    }
}

#[test]
fn mixed_lengths() {
    for mesh in [
        [4, 15, 7],
        [15, 7, 4],
        [7, 4, 15],
        [16, 17, 18],
        [21, 22, 23],
        [32, 9, 40],
        [6, 50, 33],
        [25, 14, 96],
    ] {
        for waves in [Waves::Kept, Waves::All] {
            are_plane_waves(mesh, waves);
        }
    }
}

/// Small meshes, whose systems go side by side, and ones whose stages are divided.
#[test]
fn threads_and_batches_change_no_bit() {
    for (mesh, systems) in
        [([7, 6, 5], 40), ([8, 8, 8], 33), ([12, 15, 10], 3), ([32, 30, 33], 2), ([48, 40, 64], 1)]
    {
        let (nodes, kept) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        let numbers = reals(systems * (nodes + 2 * kept));
        let (x, w) = numbers.split_at(systems * nodes);
        for dtype in DTYPES {
            for isa in Isa::available() {
                let cpu = Cpu::at_most(*isa);
                let on = |pool: &dyn Pool, range: std::ops::Range<usize>| {
                    let n = range.len();
                    let x = array(dtype, &[n * nodes], &x[range.start * nodes..range.end * nodes]);
                    let spectrum = [0, systems * kept].map(|part| {
                        array(dtype, &[n * kept], &w[part + range.start * kept..part + range.end * kept])
                    });
                    both(&Context::new(&cpu).with_pool(pool), &of_size(mesh, n), Waves::All, &x, &spectrum)
                        .map(|a| a.to_f64().unwrap())
                };
                let alone = on(&Serial, 0..systems);
                assert!(on(&*TWO, 0..systems) == alone, "{mesh:?} {dtype} {isa:?}");
                for system in [0, systems - 1] {
                    let one = on(&*TWO, system..system + 1);
                    for (one, all) in one.iter().zip(&alone) {
                        let len = one.len();
                        assert!(*one == all[system * len..(system + 1) * len], "{mesh:?} {dtype} {isa:?}");
                    }
                }
            }
        }
    }
}

/// Small meshes, which tasks take one by one, and large ones among them.
#[test]
fn meshes_of_several_sizes_are_transformed_as_alone() {
    let small = [([7, 6, 5], 2), ([8, 3, 9], 1), ([7, 6, 5], 1)];
    for meshes in [&small[..], &[small[0], ([30, 32, 33], 1), ([24, 32, 24], 2)]] {
        let meshes: Vec<Meshes> =
            meshes.iter().map(|(sizes, systems)| of_size(*sizes, *systems)[0]).collect();
        let counts: Vec<[usize; 2]> = meshes.iter().map(|of| of.counts().unwrap()).collect();
        let [nodes, kept] = [0, 1].map(|n| counts.iter().map(|counts| counts[n]).sum::<usize>());
        let numbers = reals(nodes + 2 * kept);
        for dtype in DTYPES {
            let on = |pool: &dyn Pool, meshes: &[Meshes], node: [usize; 2], wave: [usize; 2]| {
                let x = array(dtype, &[node[1]], &numbers[node[0]..][..node[1]]);
                let part = |n| array(dtype, &[wave[1]], &numbers[nodes + n * kept + wave[0]..][..wave[1]]);
                let context = madelung_cpu::context().with_pool(pool);
                both(&context, meshes, Waves::All, &x, &[0, 1].map(part)).map(|a| a.to_f64().unwrap())
            };
            let together = on(&Serial, &meshes, [0, nodes], [0, kept]);
            assert!(on(&*TWO, &meshes, [0, nodes], [0, kept]) == together, "{meshes:?} {dtype}");
            let (mut node, mut wave) = (0, 0);
            for (of, [nodes, waves]) in meshes.iter().zip(&counts) {
                let [re, im, back] = on(&Serial, &[*of], [node, *nodes], [wave, *waves]);
                assert!(re == together[0][wave..wave + waves], "{of:?} {dtype}");
                assert!(im == together[1][wave..wave + waves], "{of:?} {dtype}");
                assert!(back == together[2][node..node + nodes], "{of:?} {dtype}");
                (node, wave) = (node + nodes, wave + waves);
            }
        }
    }
}

/// ⟨F x, w⟩ = ⟨x, Fᵀ w⟩.
#[test]
fn each_is_the_others_transpose() {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for mesh in [[32, 32, 32], [10, 15, 28], [9, 25, 11]] {
        let (nodes, kept) = (mesh.iter().product::<usize>(), half_spectrum(mesh).unwrap());
        let numbers = reals(nodes + 2 * kept);
        let (x, w) = numbers.split_at(nodes);
        let spectrum = [&w[..kept], &w[kept..]].map(|w| array(DType::F64, &[kept], w));
        for waves in [Waves::Kept, Waves::All] {
            let context = madelung_cpu::context();
            let found = both(&context, &of_size(mesh, 1), waves, &array(DType::F64, &[nodes], x), &spectrum);
            let [re, im, back] = found.map(|a| a.to_f64().unwrap());
            let (left, right) = (dot(&re, &w[..kept]) + dot(&im, &w[kept..]), dot(&back, x));
            assert!(
                (left - right).abs() <= tolerance(DType::F64, nodes) * nodes as f64,
                "{mesh:?}: {left} {right}"
            );
        }
    }
}

/// A spectrum that leaves the normal numbers, as that of a Gaussian does.
#[test]
fn spectra_decay_below_the_normal_numbers() {
    let mesh = [12, 10, 16];
    let (nodes, kept) = (1920, half_spectrum(mesh).unwrap());
    let numbers = reals(2 * kept);
    let decays = |w: usize| (numbers[w], 10f64.powf(-50.0 * (w % kept) as f64 / kept as f64));
    let parts =
        [0, kept].map(|first| (first..first + kept).map(decays).map(|(x, d)| x * d).collect::<Vec<_>>());
    let spectrum = parts.each_ref().map(|part| array(DType::F32, &[kept], part));
    let exact = inverse(mesh, Waves::All, [&parts[0], &parts[1]]);
    for isa in Isa::available() {
        let cpu = Cpu::at_most(*isa);
        let x = Array::zeros(DType::F32, &[nodes]);
        let [_, _, back] = both(&Context::new(&cpu), &of_size(mesh, 1), Waves::All, &x, &spectrum);
        close(&back, &exact, tolerance(DType::F32, nodes), &format!("{isa:?}"));
    }
}

#[test]
fn complex_lines_are_plane_waves() {
    // Fewer columns than lanes, as many and more; one line, prime lengths, and none at all.
    for sizes in [[3, 12, 5], [1, 7, 16], [2, 30, 37], [4, 1, 3], [1, 11, 1], [0, 5, 6], [2, 5, 0]] {
        let [planes, len, columns] = sizes;
        let numbers: usize = sizes.iter().product();
        let given = reals(2 * numbers);
        let (re, im) = given.split_at(numbers);
        for (dtype, inverse) in DTYPES.into_iter().flat_map(|dtype| [(dtype, false), (dtype, true)]) {
            let parts = [re, im].map(|part| array(dtype, &[numbers], part));
            let [x, y] = parts.each_ref().map(|part| part.to_f64().unwrap());
            let mut exact = [vec![0.0; numbers], vec![0.0; numbers]];
            let sign = if inverse { 1.0 } else { -1.0 };
            for line in 0..planes * columns {
                let at = |n: usize| (line / columns * len + n) * columns + line % columns;
                let of_line = (0..len).map(|n| [x[at(n)], y[at(n)]]).collect();
                for (n, [re, im]) in plane_waves([1, 1, len], of_line, sign).into_iter().enumerate() {
                    [exact[0][at(n)], exact[1][at(n)]] = [re, im];
                }
            }
            let of = |context: &Context<'_>| {
                let [mut re, mut im] = parts.each_ref().map(|part| part.try_clone().unwrap());
                context.complex_fft(sizes, inverse, [&mut re, &mut im]).unwrap();
                [re, im]
            };
            for isa in Isa::available() {
                let cpu = Cpu::at_most(*isa);
                let alone = of(&Context::new(&cpu).with_pool(&Serial));
                for (found, exact) in alone.iter().zip(&exact) {
                    let what = format!("{sizes:?} {dtype} {isa:?} {inverse}");
                    close(found, exact, tolerance(dtype, 2 * len), &what);
                }
                let together = of(&Context::new(&cpu).with_pool(&*TWO));
                assert!(alone.iter().zip(&together).all(|(a, b)| a.equals(b).unwrap()));
            }
        }
    }
    let cpu = Cpu::new();
    let [mut few, mut right] = [5, 6].map(|n| Array::zeros(DType::F64, &[n]));
    let error = Context::new(&cpu).complex_fft([1, 2, 3], false, [&mut right, &mut few]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`spectrum`: expected [1, 2, 3] elements of float64, got 5 elements of float64"
    );
}
