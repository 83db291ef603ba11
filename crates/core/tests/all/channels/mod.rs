//! Channels: values against plain loops, derivatives against finite differences, for widths around those of the lanes;
//! the same bits for any number of threads; widths of 0; more elements than 2³¹.

mod of_systems;

use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::backend::status::Word;
use madelung_core::backend::{Bound, Context, Launch, LaunchArgs};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::runtime::Role;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList};
use std::sync::Arc;

madelung_core::kernels! {
    /// Layer normalisation, and a total over rows.
    #[kernel]
    fn normalise(
        i: Row,
        x: &[[Real; Feature]; Row],
        gain: &[Real; Feature],
        shift: &[[Real; Feature]; System],
        count: Real,
        rows: &Batch<Row, System>,
        out: &mut [[Real; Feature]; Row],
        total: &mut [Real; Feature],
        pooled: &mut [[Real; Feature]; System],
    ) {
        let b = rows.of(i);
        let mut sum = 0.0;
        for c in Feature {
            sum += x[i][c];
        }
        let mean = sum / count;
        let mut variance = 0.0;
        let mut centred = [0.0; Feature];
        for c in Feature {
            let d = x[i][c] - mean;
            variance += d * d;
            centred[c] += d;
        }
        let scale = 1.0 / sqrt(variance / count + 0.01);
        for c in Feature {
            out[i][c] = gain[c] * centred[c] * scale + shift[b][c];
        }
        for c in Feature {
            total[c] += x[i][c] * x[i][c] * gain[c];
            pooled[b][c] += sin(x[i][c]);
        }
    }

    /// A weight for each radial function of the distance.
    #[kernel]
    fn radial(
        i: Row,
        positions: &[Vec3; Row],
        weights: &[Real; Feature],
        centres: &[Real; Feature],
        own: &[[Real; Feature]; Row],
        cutoff: Real,
        pairs: &Pairs<Row>,
        energy: &mut [Real; Row],
    ) {
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let r = length(positions[j] - positions[i]);
            if r > cutoff {
                continue;
            }
            let mut t = 0.0;
            for c in Feature {
                let u = r - centres[c];
                t += weights[c] * exp(-u * u) * own[i][c];
            }
            e += t / r * pow(1.0 - r / cutoff, 6);
        }
        energy[i] = e;
    }

    /// Features of the points near each centre, weighted by exp(−d/σ).
    #[kernel(scatter)]
    fn aggregate(
        i: Centre,
        centres: &[Vec3; Centre],
        points: &[Vec3; Point],
        features: &[[Real; Feature]; Point],
        sigma: &Real,
        near: &Pairs<Centre, Point, Edge>,
        out: &mut [[Real; Feature]; Centre],
    ) {
        let mut sum = [0.0; Feature];
        let mut norm = 0.0;
        for (j, shift, p) in near.row(i) {
            let weight = exp(-length(points[j] - centres[i]) / sigma);
            norm += weight;
            for c in Feature {
                sum[c] += weight * features[j][c];
            }
        }
        for c in Feature {
            out[i][c] = sum[c] / (norm + 1e-3);
        }
    }

    /// Messages to the vectors of each centre from the vectors and scalars near it (Schütt et al. 2021, eq. 8).
    #[kernel(scatter)]
    fn message(
        i: Centre,
        centres: &[Vec3; Centre],
        points: &[Vec3; Point],
        features: &[[Real; Feature]; Point],
        vectors: &[[Vec3; Feature]; Point],
        gates: &[[Vec2; Feature]; Centre],
        near: &Pairs<Centre, Point, Edge>,
        out: &mut [[Vec3; Feature]; Centre],
    ) {
        let mut sum = [vec3(0.0, 0.0, 0.0); Feature];
        for (j, shift, p) in near.row(i) {
            let d = points[j] - centres[i];
            let weight = exp(-length(d));
            for c in Feature {
                sum[c] += vectors[j][c] * weight + d * (weight * features[j][c]);
            }
        }
        for c in Feature {
            out[i][c] = sum[c] * gates[i][c].x + cross(sum[c], vec3(gates[i][c].y, 1.0, 0.0));
        }
    }

    /// Channels by their numbers: of the row's own, of its partners, of vectors.
    #[kernel(scatter)]
    fn numbered(
        i: Centre,
        centres: &[Vec3; Centre],
        points: &[Vec3; Point],
        features: &[[Real; Feature]; Point],
        vectors: &[[Vec3; Feature]; Point],
        gates: &[[Vec2; Feature]; Centre],
        weights: &[[Vec2; Feature]; Edge],
        near: &Pairs<Centre, Point, Edge>,
        out: &mut [Real; Centre],
    ) {
        let mut sum = 0.0;
        for (j, shift, p) in near.row(i) {
            let d = points[j] - centres[i];
            sum += exp(-length(d)) * features[j][2] * dot(vectors[j][1], d) + weights[p][1].y * features[j][0];
        }
        out[i] = sum * gates[i][2].y;
    }

    #[kernel]
    fn sum(i: Row, x: &[[Real; Feature]; System], rows: &Batch<Row, System>, out: &mut [Real; Row]) {
        let b = rows.of(i);
        let mut sum = 0.0;
        for c in Feature {
            sum += x[b][c];
        }
        out[i] = sum;
    }
}

fn op(kernel: &str) -> Arc<Op> {
    let op = Op::new("test", kernel, 1);
    let op = match kernel {
        "normalise" => op
            .real("x", &["Row", "Feature"])
            .real("gain", &["Feature"])
            .real("shift", &["System", "Feature"])
            .scalar("count")
            .batch("rows", "Row", "System")
            .output("out", &["Row", "Feature"])
            .output("total", &["Feature"])
            .output("pooled", &["System", "Feature"])
            .step(&NORMALISE),
        "radial" => op
            .real("positions", &["Row", "3"])
            .real("weights", &["Feature"])
            .real("centres", &["Feature"])
            .real("own", &["Row", "Feature"])
            .scalar("cutoff")
            .pairs("pairs", "Row")
            .output("energy", &["Row"])
            .step(&RADIAL),
        "aggregate" => op
            .real("centres", &["Centre", "3"])
            .real("points", &["Point", "3"])
            .real("features", &["Point", "Feature"])
            .real("sigma", &[])
            .pairs_between("near", "Centre", "Point", "Edge")
            .output("out", &["Centre", "Feature"])
            .step(&AGGREGATE),
        "numbered" => op
            .real("centres", &["Centre", "3"])
            .real("points", &["Point", "3"])
            .real("features", &["Point", "Feature"])
            .real("vectors", &["Point", "Feature", "3"])
            .real("gates", &["Centre", "Feature", "2"])
            .real("weights", &["Edge", "Feature", "2"])
            .pairs_between("near", "Centre", "Point", "Edge")
            .output("out", &["Centre"])
            .step(&NUMBERED),
        "message" => op
            .real("centres", &["Centre", "3"])
            .real("points", &["Point", "3"])
            .real("features", &["Point", "Feature"])
            .real("vectors", &["Point", "Feature", "3"])
            .real("gates", &["Centre", "Feature", "2"])
            .pairs_between("near", "Centre", "Point", "Edge")
            .output("out", &["Centre", "Feature", "3"])
            .step(&MESSAGE),
        _ => op
            .real("x", &["System", "Feature"])
            .batch("rows", "Row", "System")
            .output("out", &["Row"])
            .step(&SUM),
    };
    op.build().expect("an op")
}

/// Numbers of no pattern, the same in every run.
fn numbers(n: usize, seed: f64) -> Vec<f64> {
    (0..n).map(|k| (12.9898 * (k as f64 + 7.3 * seed)).sin() * (1.0 + 0.3 * (0.7 * k as f64).cos())).collect()
}

fn array(dtype: DType, shape: &[usize], seed: f64) -> Array {
    Array::from_f64(dtype, shape, &numbers(shape.iter().product(), seed)).expect("a shape that fits")
}

struct Case {
    op: Arc<Op>,
    arrays: Vec<Array>,
    rows: Batch<'static>,
    pairs: PairList<'static>,
    count: f64,
}

const ROWS: usize = 150;
const POINTS: usize = 90;

fn case(kernel: &str, dtype: DType, width: usize) -> Case {
    let shapes = match kernel {
        "normalise" => vec![vec![ROWS, width], vec![width], vec![2, width]],
        "aggregate" => vec![vec![ROWS, 3], vec![POINTS, 3], vec![POINTS, width], vec![]],
        "message" | "numbered" => vec![
            vec![ROWS, 3],
            vec![POINTS, 3],
            vec![POINTS, width],
            vec![POINTS, width, 3],
            vec![ROWS, width, 2],
        ],
        _ => vec![vec![ROWS, 3], vec![width], vec![width], vec![ROWS, width]],
    };
    let near =
        |i: usize| [i.wrapping_sub(11), i.wrapping_sub(1), i + 1, i + 11].into_iter().filter(|j| *j < ROWS);
    let (rows, columns): (Vec<i32>, Vec<i32>) =
        (0..ROWS).flat_map(|i| near(i).map(move |j| (i as i32, j as i32))).unzip();
    let shifts = vec![[0; 3]; rows.len()];
    let pairs = PairList::from_coo(&rows, columns, shifts, ROWS, ROWS, Kind::Full).expect("a list");
    // Some centres have no points, some points no centre.
    let of_centre = |i: usize| (0..POINTS - 5).filter(move |j| !i.is_multiple_of(7) && (i * j + j) % 11 == 3);
    let (rows, columns): (Vec<i32>, Vec<i32>) =
        (0..ROWS).flat_map(|i| of_centre(i).map(move |j| (i as i32, j as i32))).unzip();
    let shifts = vec![[0; 3]; rows.len()];
    let near = PairList::from_coo(&rows, columns, shifts, ROWS, POINTS, Kind::Directed).expect("a list");
    let shapes =
        if kernel == "numbered" { [shapes, vec![vec![near.len(), width, 2]]].concat() } else { shapes };
    let arrays = shapes.iter().enumerate().map(|(n, shape)| array(dtype, shape, n as f64)).collect();
    let pairs = if matches!(kernel, "aggregate" | "message" | "numbered") { near } else { pairs };
    let rows = Batch::from_ptr(vec![0, 70, ROWS as i32]).expect("a batch");
    Case { op: op(kernel), arrays, rows, pairs, count: width as f64 }
}

impl Case {
    fn args(&self) -> Vec<Arg<'_>> {
        let mut args: Vec<Arg<'_>> = self.arrays.iter().map(|a| Arg::Array(a.view())).collect();
        if self.op.name == "normalise" {
            args.extend([Arg::Real(self.count), Arg::Structure(&self.rows)]);
        } else if matches!(&*self.op.name, "aggregate" | "message" | "numbered") {
            args.push(Arg::Structure(&self.pairs));
        } else {
            args.extend([Arg::Real(2.0), Arg::Structure(&self.pairs)]);
        }
        args
    }

    fn values(&self) -> Vec<Vec<f64>> {
        let values = self.op.value(&madelung_cpu::context(), &self.args()).expect("values");
        values.iter().map(|a| a.to_f64().unwrap()).collect()
    }

    fn cotangents(&self) -> Vec<Array> {
        let values = self.op.value(&madelung_cpu::context(), &self.args()).expect("values");
        values.iter().enumerate().map(|(n, v)| array(v.dtype(), v.shape(), 20.0 + n as f64)).collect()
    }

    /// The gradient, or its derivative along a direction.
    fn gradients(&self, context: &Context<'_>, direction: Option<&[Array]>) -> Vec<Vec<f64>> {
        let cotangents = self.cotangents();
        let cotangents: Vec<_> = cotangents.iter().map(|c| Some(Cotangent::Array(c.view()))).collect();
        let mut along: Vec<_> = direction.into_iter().flatten().map(|d| Some(d.view())).collect();
        along.resize(self.op.args.len(), None);
        let directions = [along.as_slice()];
        let gradients: Vec<usize> = (0..self.arrays.len()).collect();
        let request = Request {
            values: false,
            directions: &directions[..usize::from(direction.is_some())],
            cotangents: &cotangents,
            gradients: &gradients,
            ..Request::default()
        };
        let got = self.op.evaluate(context, &self.args(), &request).expect("gradients").gradients;
        got.iter().map(|a| a.to_f64().unwrap()).collect()
    }

    fn moved(&self, t: f64, direction: &[Array]) -> Self {
        let arrays = self.arrays.iter().zip(direction).map(|(a, d)| {
            let mut moved = d.try_clone().unwrap().map(|x| t * x).unwrap();
            moved.add(a).expect("shapes fit");
            moved
        });
        Self {
            op: self.op.clone(),
            arrays: arrays.collect(),
            rows: self.rows.clone(),
            pairs: self.pairs.clone(),
            count: self.count,
        }
    }
}

fn rms(x: &[f64]) -> f64 {
    (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt()
}

fn close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = rms(want).max(1e-3);
    for (n, (x, y)) in got.iter().zip(want).enumerate() {
        assert!((x - y).abs() <= tolerance * scale, "{what}: element {n} is {x}, not {y}");
    }
}

/// 16 lanes are the most: a part of a vector, whole ones, and both.
const WIDTHS: [usize; 5] = [1, 3, 16, 37, 64];

fn normalised(case: &Case, width: usize) -> Vec<Vec<f64>> {
    let [x, gain, shift] = [0, 1, 2].map(|n| case.arrays[n].to_f64().unwrap());
    let (mut out, mut total, mut pooled) = (vec![], vec![0.0; width], vec![0.0; 2 * width]);
    for (i, x) in x.chunks_exact(width).enumerate() {
        let b = usize::from(i >= 70);
        let mean = x.iter().sum::<f64>() / width as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
        for c in 0..width {
            out.push(gain[c] * (x[c] - mean) / (variance + 0.01).sqrt() + shift[b * width + c]);
            total[c] += x[c] * x[c] * gain[c];
            pooled[b * width + c] += x[c].sin();
        }
    }
    vec![out, total, pooled]
}

fn aggregated(case: &Case, width: usize) -> Vec<f64> {
    let [r, s, f, sigma] = [0, 1, 2, 3].map(|n| case.arrays[n].to_f64().unwrap());
    let (mut sum, mut norm) = (vec![0.0; ROWS * width], vec![1e-3; ROWS]);
    for (i, j, _) in case.pairs.iter() {
        let d = (0..3).map(|c| (s[3 * j + c] - r[3 * i + c]).powi(2)).sum::<f64>().sqrt();
        let weight = (-d / sigma[0]).exp();
        norm[i] += weight;
        (0..width).for_each(|c| sum[i * width + c] += weight * f[j * width + c]);
    }
    sum.iter().enumerate().map(|(n, x)| x / norm[n / width]).collect()
}

fn messages(case: &Case, width: usize) -> Vec<f64> {
    let [r, s, f, v, g] = [0, 1, 2, 3, 4].map(|n| case.arrays[n].to_f64().unwrap());
    let mut sum = vec![[0.0; 3]; ROWS * width];
    for (i, j, _) in case.pairs.iter() {
        let d: [f64; 3] = std::array::from_fn(|k| s[3 * j + k] - r[3 * i + k]);
        let weight = (-d.iter().map(|d| d * d).sum::<f64>().sqrt()).exp();
        for c in 0..width {
            let of = j * width + c;
            (0..3).for_each(|k| sum[i * width + c][k] += weight * (v[3 * of + k] + d[k] * f[of]));
        }
    }
    let gated = |(n, [x, y, z]): (usize, &[f64; 3])| {
        let [gate, turn] = [g[2 * n], g[2 * n + 1]];
        [x * gate - z, y * gate + z * turn, z * gate + x - y * turn]
    };
    sum.iter().enumerate().flat_map(gated).collect()
}

fn numbered(case: &Case, width: usize) -> Vec<f64> {
    let [r, s, f, v, g, w] = [0, 1, 2, 3, 4, 5].map(|n| case.arrays[n].to_f64().unwrap());
    let mut out = vec![0.0; ROWS];
    for (p, (i, j, _)) in case.pairs.iter().enumerate() {
        let d: [f64; 3] = std::array::from_fn(|k| s[3 * j + k] - r[3 * i + k]);
        let length = d.iter().map(|d| d * d).sum::<f64>().sqrt();
        let along: f64 = (0..3).map(|k| v[3 * (j * width + 1) + k] * d[k]).sum();
        out[i] += (-length).exp() * f[j * width + 2] * along + w[2 * (p * width + 1) + 1] * f[j * width];
    }
    (0..ROWS).map(|i| out[i] * g[2 * (i * width + 2) + 1]).collect()
}

fn radials(case: &Case, width: usize) -> Vec<f64> {
    let [r, w, m, own] = [0, 1, 2, 3].map(|n| case.arrays[n].to_f64().unwrap());
    let mut energy = vec![0.0; ROWS];
    for (i, j, _) in case.pairs.iter() {
        let d = (0..3).map(|c| (r[3 * j + c] - r[3 * i + c]).powi(2)).sum::<f64>().sqrt();
        if d <= 2.0 {
            let t: f64 = (0..width).map(|c| w[c] * (-(d - m[c]).powi(2)).exp() * own[i * width + c]).sum();
            energy[i] += t / d * (1.0 - d / 2.0).powi(6);
        }
    }
    energy
}

#[test]
fn values_are_those_of_plain_loops() {
    for width in WIDTHS {
        for (dtype, tolerance) in [(DType::F64, 2e-14), (DType::F32, 2e-5)] {
            let case = case("normalise", dtype, width);
            for (got, want) in case.values().iter().zip(normalised(&case, width)) {
                close(&format!("normalise, {width}, {dtype}"), got, &want, tolerance);
            }
            let case = self::case("radial", dtype, width);
            close(&format!("radial, {width}, {dtype}"), &case.values()[0], &radials(&case, width), tolerance);
            let case = self::case("aggregate", dtype, width);
            let want = aggregated(&case, width);
            close(&format!("aggregate, {width}, {dtype}"), &case.values()[0], &want, tolerance);
            if width > 2 {
                let case = self::case("numbered", dtype, width);
                let want = numbered(&case, width);
                close(&format!("numbered, {width}, {dtype}"), &case.values()[0], &want, tolerance);
            }
            let case = self::case("message", dtype, width);
            close(
                &format!("message, {width}, {dtype}"),
                &case.values()[0],
                &messages(&case, width),
                tolerance,
            );
        }
    }
}

#[test]
fn derivatives_are_those_of_finite_differences() {
    let step = 3e-4;
    for kernel in ["normalise", "radial", "aggregate", "message", "numbered"] {
        for width in [3, 20] {
            let case = case(kernel, DType::F64, width);
            let direction: Vec<Array> = case
                .arrays
                .iter()
                .enumerate()
                .map(|(n, a)| array(DType::F64, a.shape(), 40.0 + n as f64))
                .collect();
            let difference = |f: &dyn Fn(&Case) -> Vec<f64>| {
                let [a, b, c, d] = [-2.0, -1.0, 1.0, 2.0].map(|k| f(&case.moved(k * step, &direction)));
                (0..a.len())
                    .map(|n| (a[n] - 8.0 * b[n] + 8.0 * c[n] - d[n]) / (12.0 * step))
                    .collect::<Vec<f64>>()
            };
            let weights = case.cotangents();
            let weighted = |case: &Case| {
                let values = case.values();
                let terms =
                    values.iter().zip(&weights).flat_map(|(v, w)| v.iter().copied().zip(w.to_f64().unwrap()));
                vec![terms.map(|(v, w)| v * w).sum::<f64>()]
            };
            let gradient = case.gradients(&madelung_cpu::context(), None);
            let terms =
                gradient.iter().zip(&direction).flat_map(|(g, d)| g.iter().copied().zip(d.to_f64().unwrap()));
            let terms: Vec<f64> = terms.map(|(g, d)| g * d).collect();
            let error = (terms.iter().sum::<f64>() - difference(&weighted)[0]).abs();
            let scale = terms.iter().map(|x| x.abs()).sum::<f64>();
            assert!(error <= 1e-9 * scale, "gradient of {kernel}, {width}: {error:e} of {scale:e}");
            let hessian = case.gradients(&madelung_cpu::context(), Some(&direction));
            for (n, got) in hessian.iter().enumerate() {
                // The weights stay as they are: all of the case's cotangents are the same numbers.
                let want = difference(&|case| case.gradients(&madelung_cpu::context(), None)[n].clone());
                close(&format!("second order of {kernel}, {width}, by {n}"), got, &want, 1e-7);
            }
        }
    }
}

/// Gathered through the list's transpose, and added where it belongs.
#[test]
fn gather_is_scatter() {
    for kernel in ["aggregate", "message", "numbered"] {
        let case = case(kernel, DType::F64, 37);
        let along = |n: usize, a: &Array| array(DType::F64, a.shape(), 60.0 + n as f64);
        let direction: Vec<Array> = case.arrays.iter().enumerate().map(|(n, a)| along(n, a)).collect();
        for direction in [None, Some(direction.as_slice())] {
            let scatter = Context { scatter: true, ..madelung_cpu::context() };
            let scattered = case.gradients(&scatter, direction);
            for (x, y) in case.gradients(&madelung_cpu::context(), direction).iter().zip(&scattered) {
                close(&format!("{kernel}, gathered"), x, y, 1e-13);
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let threads = Threads::new(3);
    for kernel in ["normalise", "radial", "aggregate", "message", "numbered"] {
        let case = case(kernel, DType::F32, 37);
        let one = case.gradients(&madelung_cpu::context().with_pool(&Serial), None);
        assert_eq!(one, case.gradients(&madelung_cpu::context().with_pool(&threads), None));
    }
}

#[test]
fn a_width_below_a_channel_of_the_kernel_names_the_argument() {
    let case = case("numbered", DType::F64, 2);
    let error = case.op.value(&madelung_cpu::context(), &case.args()).expect_err("too few channels");
    let expected = "`features`: expected a feature width of at least 3";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_width_of_nothing_names_the_argument() {
    let x = Array::zeros(DType::F64, &[1, 0]);
    let rows = Batch::single(4).expect("a batch");
    let args = [Arg::Array(x.view()), Arg::Structure(&rows)];
    let error = op("sum").value(&madelung_cpu::context(), &args).expect_err("no channels");
    let expected = "`x`: expected a feature width of at least 1";
    assert!(error.to_string().contains(expected), "{error}");
    let mut out = Array::zeros(DType::F64, &[4]);
    let word = Word::default();
    let args = LaunchArgs {
        kernel: &SUM,
        part: &SUM.forms[0].parts[0],
        dtype: DType::F64,
        dims: &[4, 1, 0],
        arrays: vec![
            ((0, Role::VALUE), Bound::Input(x.view())),
            ((2, Role::VALUE), Bound::Output { array: &mut out, adds: false }),
        ],
        structures: vec![(1, &rows)],
        reals: vec![],
        ints: vec![],
        status: &word,
        word: None,
    };
    let error = Launch::new(args, Place::Host).expect_err("no channels");
    assert!(error.to_string().contains(expected), "{error}");
}

/// The last row lies beyond 2³¹ elements; untouched memory costs nothing.
#[test]
fn arrays_have_more_elements_than_an_i32_counts() {
    let (systems, width) = (32_770, 65_536);
    assert!((systems - 1) * width > 1 << 31);
    let mut x = Array::zeros(DType::F32, &[systems, width]);
    let Array::F32(numbers) = &mut x else { unreachable!("made so") };
    numbers[(systems - 1) * width] = 2.0;
    numbers[systems * width - 1] = 0.5;
    let mut ptr = vec![1; systems + 1];
    (ptr[0], ptr[systems]) = (0, 2);
    let rows = Batch::from_ptr(ptr).expect("a batch");
    let mut out = Array::zeros(DType::F32, &[2]);
    assert_eq!(SUM.dims, ["Row", "System", "Feature"]);
    let word = Word::default();
    let args = LaunchArgs {
        kernel: &SUM,
        part: &SUM.forms[0].parts[0],
        dtype: DType::F32,
        dims: &[2, systems, width],
        arrays: vec![
            ((0, Role::VALUE), Bound::Input(x.view())),
            ((2, Role::VALUE), Bound::Output { array: &mut out, adds: false }),
        ],
        structures: vec![(1, &rows)],
        reals: vec![],
        ints: vec![],
        status: &word,
        word: None,
    };
    let context = madelung_cpu::context();
    let mut launch = Launch::new(args, Place::Host).expect("a launch");
    context.backend.launch(&context, &mut launch).expect("sums");
    drop(launch);
    assert_eq!(out.to_f64().unwrap(), [0.0, 2.5]);
    // Positions in the CUDA text are products of 64-bit integers.
    let text = SUM.forms[0].parts[0].cuda.text;
    for long in ["const long long row", "const long long w2", "for (long long at", "const long long k"] {
        assert!(text.contains(long), "{text}");
    }
}
