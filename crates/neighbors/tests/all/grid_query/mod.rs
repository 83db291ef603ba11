//! Queries of grids in differentiable kernels: values against every image of every point, derivatives against finite
//! differences, and all results against the kernel over the grid's list.

mod declarations;
#[cfg(target_os = "linux")]
mod device;
mod support;
mod tapes;

use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_core::structure::{Batch, GridSearch, PointGrid, Structure};
use madelung_neighbors::grid::HashGrid;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{
    Arguments, BLUR_GRID, BLUR_PAIRS, FEATURES, Inputs, NAMES, QUERIES, RADIUS, array, batches, blur_op,
    grid, inputs, near,
};
use support::{POINTS, shapes, wiggles};

/// Values, gradients, Hessian-vector products and derivatives along the direction.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) values: Vec<Array>,
    pub(crate) gradients: Vec<Array>,
    pub(crate) products: Vec<Array>,
    pub(crate) tangents: Vec<Array>,
}

impl Answers {
    fn arrays(&self) -> impl Iterator<Item = &Array> {
        [&self.values, &self.gradients, &self.products, &self.tangents].into_iter().flatten()
    }
}

/// The cotangents of both outputs.
pub(crate) fn weights(dtype: DType) -> [Array; 2] {
    let queries = QUERIES[3] as usize;
    [(FEATURES, 0.3), (3, 2.2)]
        .map(|(width, phase)| array(dtype, &[queries, width], &wiggles(queries * width, phase)))
}

pub(crate) fn along(phase: f64) -> Inputs {
    let sizes = shapes().map(|s| s.iter().product::<usize>());
    std::array::from_fn(|n| wiggles(sizes[n], phase + n as f64))
}

pub(crate) fn answers(
    context: &Context<'_>,
    op: &Op,
    args: &[Arg<'_>],
    dtype: DType,
    direction: &Inputs,
) -> Answers {
    answers_of(context, op, args, dtype, direction, [&|array| array, &|array| array])
}

/// A way of arrays to where a call runs, or back.
pub(crate) type Way<'f> = &'f dyn Fn(Array) -> Array;

pub(crate) fn answers_of(
    context: &Context<'_>,
    op: &Op,
    args: &[Arg<'_>],
    dtype: DType,
    direction: &Inputs,
    [there, back]: [Way<'_>; 2],
) -> Answers {
    let direction: Vec<Array> =
        direction.iter().zip(shapes()).map(|(u, s)| there(array(dtype, &s, u))).collect();
    let mut along: Vec<Option<View<'_>>> = direction.iter().map(|u| Some(u.view())).collect();
    along.resize(args.len(), None);
    let weights = weights(dtype).map(there);
    let cotangents = weights.each_ref().map(|w| Some(Cotangent::Array(w.view())));
    let ask = |directions: &[&[Option<View<'_>>]], gradients: &[usize]| {
        let cotangents = if gradients.is_empty() { &[] } else { &cotangents[..] };
        op.evaluate(context, args, &Request { directions, cotangents, gradients, ..Request::default() })
            .unwrap()
    };
    let read = |arrays: Vec<Array>| arrays.into_iter().map(back).collect();
    Answers {
        values: read(op.value(context, args).unwrap()),
        gradients: read(ask(&[], &[0, 1, 2, 3, 4]).gradients),
        products: read(ask(&[&along], &[0, 1, 2, 3, 4]).gradients),
        tangents: read(ask(&[&along], &[]).values),
    }
}

fn by_grid(inputs: &Inputs, dtype: DType, direction: &Inputs) -> Answers {
    let (given, grid) = (Arguments::new(inputs, dtype), grid(inputs));
    answers(&madelung_cpu::context(), &blur_op(false), &given.with(Arg::Grid(&grid)), dtype, direction)
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// ⟨w, values⟩
fn weighed(values: &[Array]) -> f64 {
    values.iter().zip(weights(DType::F64)).map(|(y, w)| dot(&y.to_f64().unwrap(), &w.to_f64().unwrap())).sum()
}

#[test]
fn values_are_sums_over_all_images() {
    let inputs = inputs();
    let found = by_grid(&inputs, DType::F64, &along(0.0)).values;
    let queries = QUERIES[3] as usize;
    let (mut out, mut moment) = (vec![0.0; queries * FEATURES], vec![0.0; queries * 3]);
    let pairs = near(&inputs);
    for (i, j, _, d) in &pairs {
        let r2: f64 = d.iter().map(|d| d * d).sum();
        let weight = (1.0 - r2 / (RADIUS * RADIUS)).powi(6) * (-inputs[4][0] * r2).exp();
        for c in 0..FEATURES {
            out[i * FEATURES + c] += weight * inputs[3][j * FEATURES + c];
        }
        for c in 0..3 {
            moment[3 * i + c] += weight * d[c];
        }
    }
    // Images of one point, in more than the nearest cells; a point at distance 0.
    assert!(pairs.iter().any(|p| p.2.iter().any(|s| s.abs() > 1.0)), "no far image");
    assert!(pairs.iter().any(|p| p.3 == [0.0; 3]), "no point on a query");
    for (got, want) in found.iter().zip([out, moment]) {
        assert!(
            got.to_f64().unwrap().iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-13),
            "{got:?} {want:?}"
        );
    }
}

#[test]
fn derivatives_are_those_of_finite_differences() {
    let inputs = inputs();
    let (u, v) = (along(2.0), along(5.0));
    let found = by_grid(&inputs, DType::F64, &v);
    let value = weighed(&found.values);
    let of = |arrays: &[Array], n: usize| arrays[n].to_f64().unwrap();
    // The derivative along a direction is the gradient's component: two forms.
    let slope: f64 = (0..5).map(|n| dot(&of(&found.gradients, n), &v[n])).sum();
    assert!((weighed(&found.tangents) - slope).abs() < 1e-12 * slope.abs().max(1.0));
    let h = 1e-3;
    for by in 0..5 {
        let at = |t: f64| {
            let mut moved = inputs.clone();
            moved[by].iter_mut().zip(&u[by]).for_each(|(x, u)| *x += t * u);
            let there = by_grid(&moved, DType::F64, &v);
            (weighed(&there.values), (0..5).map(|n| dot(&of(&there.gradients, n), &v[n])).sum::<f64>())
        };
        let p = [-2.0, -1.0, 1.0, 2.0].map(|t| at(t * h));
        let difference = |f: &dyn Fn(&(f64, f64)) -> f64| {
            (f(&p[0]) - 8.0 * f(&p[1]) + 8.0 * f(&p[2]) - f(&p[3])) / (12.0 * h)
        };
        let (got, want) = (dot(&of(&found.gradients, by), &u[by]), difference(&|p| p.0));
        let size = want.abs().max(0.1 * value.abs());
        assert!((got - want).abs() < 1e-8 * size, "gradient by {}: {got} {want}", NAMES[by]);
        let (got, want) = (dot(&of(&found.products, by), &u[by]), difference(&|p| p.1));
        let size = want.abs().max(0.1 * slope.abs());
        assert!((got - want).abs() < 1e-6 * size, "second by {}: {got} {want}", NAMES[by]);
    }
}

/// Bit for bit, in every member of the family.
#[test]
fn a_query_is_the_loop_over_the_list_that_the_grid_gives() {
    let inputs = inputs();
    for dtype in [DType::F64, DType::F32] {
        let (given, grid) = (Arguments::new(&inputs, dtype), grid(&inputs));
        let x = given.arrays[0].view();
        let list = grid.query(&madelung_cpu::context(), &x, &batches()[0], RADIUS).unwrap();
        for scatter in [false, true] {
            let context = Context { scatter, ..madelung_cpu::context() };
            let of = |op: &Op, list: Arg<'_>| answers(&context, op, &given.with(list), dtype, &along(3.0));
            let by_grid = of(&blur_op(false), Arg::Grid(&grid));
            let by_list = of(&blur_op(true), Arg::Structure(&list));
            assert_eq!(by_grid.arrays().count(), by_list.arrays().count());
            let mut both = by_grid.arrays().zip(by_list.arrays());
            assert!(both.all(|(a, b)| a.equals(b).unwrap()), "{dtype}");
        }
    }
}

/// The query's CUDA text equals that of a loop over a list, which other tests compile and run.
#[test]
fn its_cuda_text_is_that_of_the_loop_over_a_list() {
    assert_eq!(BLUR_GRID.forms.len(), BLUR_PAIRS.forms.len());
    for (grid, pairs) in BLUR_GRID.forms.iter().zip(BLUR_PAIRS.forms) {
        assert_eq!(
            (grid.member, grid.lists, grid.parts.len()),
            (pairs.member, pairs.lists, pairs.parts.len())
        );
        for (grid, pairs) in grid.parts.iter().zip(pairs.parts) {
            assert_eq!(grid.slots, pairs.slots);
            assert_eq!(grid.cuda.text.replace("blur_grid", "blur_pairs"), pairs.cuda.text);
        }
    }
}

#[test]
fn f32_is_as_good_as_f32_is() {
    let inputs = inputs();
    let direction = along(4.0).map(|u| u.iter().map(|x| f64::from(*x as f32)).collect());
    let [narrow, wide] = [DType::F32, DType::F64].map(|dtype| by_grid(&inputs, dtype, &direction));
    for (n, (a, b)) in narrow.arrays().zip(wide.arrays()).enumerate() {
        assert_eq!(a.dtype(), DType::F32);
        let (a, b) = (a.to_f64().unwrap(), b.to_f64().unwrap());
        let difference: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        assert!(dot(&difference, &difference).sqrt() < 1e-5 * dot(&b, &b).sqrt(), "{n}: {a:?} {b:?}");
    }
}

/// A grid that counts its searches.
#[derive(Debug)]
struct Counting {
    grid: HashGrid,
    searches: AtomicUsize,
}

impl Counting {
    fn new(grid: HashGrid) -> Self {
        Self { grid, searches: AtomicUsize::new(0) }
    }
}

impl PointGrid for Counting {
    fn place(&self) -> Place {
        self.grid.place()
    }

    fn points(&self) -> usize {
        self.grid.points()
    }

    fn systems(&self) -> usize {
        self.grid.systems()
    }

    fn query(
        &self,
        context: &Context<'_>,
        search: &GridSearch<'_>,
    ) -> madelung_core::Result<Box<dyn Structure>> {
        self.searches.fetch_add(1, Ordering::Relaxed);
        PointGrid::query(&self.grid, context, search)
    }
}

madelung_core::kernels! {
    #[kernel(small)]
    fn weigh(
        i: Query, x: &[Vec3; Query], r: &[Vec3; Point], radius: Real, grid: &HashGrid<Query, Point, Edge>,
        weight: &mut [Real; Edge], norm: &mut [Real; Query],
    ) {
        let mut n = 0.0;
        for (j, shift, p) in grid.query(x[i], radius) {
            let d = r[j] - x[i];
            let w = pow(1.0 - dot(d, d) / (radius * radius), 6);
            weight[p] = w;
            n += w;
        }
        norm[i] = n;
    }

    /// Weights that are not summed to one do not count.
    #[kernel(small)]
    fn average(
        i: Query, x: &[Vec3; Query], charge: &[Real; Point], weight: &[Real; Edge], norm: &[Real; Query], radius: Real,
        grid: &HashGrid<Query, Point, Edge>, out: &mut [Real; Query],
    ) {
        let mut s = 0.0;
        for (j, shift, p) in grid.query(x[i], radius) { s += weight[p] * charge[j]; }
        out[i] = s / (norm[i] + 0.1);
    }

    #[kernel(small)]
    fn energies(
        i: Query, x: &[Vec3; Query], r: &[Vec3; Point], radius: Real, queries: &Batch<Query, System>,
        points: &Batch<Point, System>, grid: &HashGrid<Query, Point>, energy: &mut [Real; System],
    ) {
        let mut e = 0.0;
        for (j, shift) in grid.query(x[i], radius) {
            let d = r[j] - x[i];
            e += pow(1.0 - dot(d, d) / (radius * radius), 6);
        }
        energy[queries.of(i)] += e;
    }

    /// A gradient that only full lists have, beside a query.
    #[kernel(small)]
    fn crowded(
        i: Atom, x: &[Vec3; Atom], charge: &[Real; Atom], radius: Real, pairs: &Pairs<Atom>,
        grid: &HashGrid<Atom, Point>, out: &mut [Real; Atom],
    ) {
        let mut n = 0.0;
        for (j, shift) in grid.query(x[i], radius) { n += 1.0; }
        let mut e = 0.0;
        for k in 0..2 {
            for (j, shift) in pairs.row(i) { e += (1.0 + (k as Real)) * charge[j]; }
        }
        out[i] = n + e;
    }

    /// The points are the queries.
    #[kernel(small)]
    fn density(i: Atom, x: &[Vec3; Atom], radius: Real, grid: &HashGrid<Atom, Atom>, out: &mut [Real; Atom]) {
        let mut e = 0.0;
        for (j, shift) in grid.query(x[i], radius) {
            let d = x[j] - x[i];
            e += pow(1.0 - dot(d, d) / (radius * radius), 6);
        }
        out[i] = e * e;
    }

    #[kernel(no_adjoint)]
    fn count(
        i: Query, x: &[Vec3; Query], radius: Real, grid: &HashGrid<Query, Point>,
        found: &mut [i32; Query], images: &mut [i32; Query],
    ) {
        found[i] = 0;
        images[i] = 0;
        for (j, shift) in grid.query(x[i], radius) {
            found[i] += 1;
            images[i] += shift.x * shift.x + shift.y * shift.y + shift.z * shift.z;
        }
    }
}

fn open(points: &Array) -> HashGrid {
    let batch = Batch::single(points.shape()[0]).unwrap();
    HashGrid::build(&madelung_cpu::context(), &points.view(), None, None, batch).unwrap()
}

/// The value and ∂⟨w, value⟩ of an op with one real output, by its first `n` arguments.
fn value_and_gradient(
    context: &Context<'_>,
    op: &Op,
    args: &[Arg<'_>],
    n: usize,
) -> (Vec<f64>, Vec<Vec<f64>>) {
    let value = op.value(context, args).unwrap().remove(0);
    let w = array(DType::F64, value.shape(), &wiggles(value.shape()[0], 0.7));
    let gradients: Vec<usize> = (0..n).collect();
    let cotangents = [Some(Cotangent::Array(w.view()))];
    let request = Request { cotangents: &cotangents, gradients: &gradients, ..Request::default() };
    let done = op.evaluate(context, args, &request).unwrap();
    (value.to_f64().unwrap(), done.gradients.iter().map(|a| a.to_f64().unwrap()).collect())
}

/// Compares a gradient with finite differences of `f`, which gives the value.
fn check_gradient(inputs: &[Vec<f64>], gradient: &[Vec<f64>], f: impl Fn(&[Vec<f64>]) -> Vec<f64>) {
    for (by, g) in gradient.iter().enumerate() {
        let u = wiggles(g.len(), 1.0 + by as f64);
        let h = 1e-3;
        let at = |t: f64| {
            let mut moved = inputs.to_vec();
            moved[by].iter_mut().zip(&u).for_each(|(x, u)| *x += t * h * u);
            let value = f(&moved);
            dot(&value, &wiggles(value.len(), 0.7))
        };
        let want = (at(-2.0) - 8.0 * at(-1.0) + 8.0 * at(1.0) - at(2.0)) / (12.0 * h);
        let got = dot(g, &u);
        assert!((got - want).abs() < 1e-8 * want.abs().max(0.1), "{by}: {got} {want}");
    }
}

/// Means over the points that a search finds, by two steps.
fn average_op() -> Arc<Op> {
    Op::new("test", "average", 1)
        .real("x", &["Query", "3"])
        .real("r", &["Point", "3"])
        .real("charge", &["Point"])
        .scalar("radius")
        .grid_with_entries("grid", ["Query", "Point"], "r", "Edge")
        .output("out", &["Query"])
        .scratch("weight", &["Edge"])
        .scratch("norm", &["Query"])
        .step(&WEIGH)
        .step(&AVERAGE)
        .build()
        .unwrap()
}

/// Two steps share one search, and hand on arrays over its pairs.
#[test]
fn arrays_of_the_pairs_that_are_found() {
    let op = average_op();
    let inputs = [wiggles(15, 0.2), wiggles(27, 1.1), wiggles(9, 2.0)];
    let radius = 0.9;
    let run = |inputs: &[Vec<f64>]| {
        let shapes: [&[usize]; 3] = [&[5, 3], &[9, 3], &[9]];
        let arrays: Vec<Array> = inputs.iter().zip(shapes).map(|(x, s)| array(DType::F64, s, x)).collect();
        let grid = Counting::new(open(&arrays[1]));
        let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend([Arg::Real(radius), Arg::Grid(&grid)]);
        let found = value_and_gradient(&madelung_cpu::context(), &op, &args, 3);
        assert_eq!(grid.searches.into_inner(), 2, "one for the value, one for the gradient");
        found
    };
    let (value, gradient) = run(&inputs);
    for (i, got) in value.iter().enumerate() {
        let (mut sum, mut norm, mut pairs) = (0.0, 0.1, 0);
        for j in 0..9 {
            let r2: f64 = (0..3).map(|c| (inputs[1][3 * j + c] - inputs[0][3 * i + c]).powi(2)).sum();
            if r2.sqrt() <= radius {
                let w = (1.0 - r2 / (radius * radius)).powi(6);
                (sum, norm, pairs) = (sum + w * inputs[2][j], norm + w, pairs + 1);
            }
        }
        assert!((got - sum / norm).abs() < 1e-14, "{i}: {pairs} pairs: {got} {}", sum / norm);
    }
    check_gradient(&inputs, &gradient, |inputs| run(inputs).0);
}

/// A gradient that was saved is scaled, and nothing is searched for.
#[test]
fn saved_gradients_need_no_search() {
    let op = Op::new("test", "energies", 1)
        .real("x", &["Query", "3"])
        .real("r", &["Point", "3"])
        .scalar("radius")
        .batch("queries", "Query", "System")
        .batch("points", "Point", "System")
        .grid("grid", "Query", "Point", "r")
        .output("energy", &["System"])
        .saved_gradients(&["x"])
        .step(&ENERGIES)
        .build()
        .unwrap();
    let (inputs, [queries, points]) = (inputs(), batches());
    let r = array(DType::F64, &[POINTS[3] as usize, 3], &inputs[1]);
    let x = array(DType::F64, &[QUERIES[3] as usize, 3], &inputs[0]);
    let context = madelung_cpu::context();
    let grid = Counting::new(HashGrid::build(&context, &r.view(), None, None, points.clone()).unwrap());
    let arrays = [Arg::Array(x.view()), Arg::Array(r.view()), Arg::Real(RADIUS)];
    let args = [&arrays[..], &[Arg::Structure(&queries), Arg::Structure(&points), Arg::Grid(&grid)]].concat();
    let saved =
        op.evaluate(&context, &args, &Request { save: Some(&[0]), ..Request::default() }).unwrap().saved;
    let saved: Vec<Option<View<'_>>> = saved.iter().map(|a| a.as_ref().map(Array::view)).collect();
    let w = array(DType::F64, &[3], &[0.5, -2.0, 3.0]);
    let gradient = |saved: &[Option<View<'_>>]| {
        let before = grid.searches.load(Ordering::Relaxed);
        let cotangents = [Some(Cotangent::Array(w.view()))];
        let request = Request { cotangents: &cotangents, gradients: &[0], saved, ..Request::default() };
        let gradient = op.evaluate(&context, &args, &request).unwrap().gradients[0].to_f64().unwrap();
        (gradient, grid.searches.load(Ordering::Relaxed) - before)
    };
    let ((scaled, none), (computed, one)) = (gradient(&saved), gradient(&[]));
    assert_eq!((none, one), (0, 1));
    assert!(scaled.iter().zip(&computed).all(|(a, b)| (a - b).abs() < 1e-13) && dot(&scaled, &scaled) > 1.0);
}

#[test]
fn points_that_are_the_queries() {
    let op = Op::new("test", "density", 1)
        .real("x", &["Atom", "3"])
        .scalar("radius")
        .grid("grid", "Atom", "Atom", "x")
        .output("out", &["Atom"])
        .step(&DENSITY)
        .build()
        .unwrap();
    let inputs = [wiggles(36, 0.5)];
    let run = |inputs: &[Vec<f64>]| {
        let x = array(DType::F64, &[12, 3], &inputs[0]);
        let grid = open(&x);
        let args = [Arg::Array(x.view()), Arg::Real(1.1), Arg::Grid(&grid)];
        value_and_gradient(&madelung_cpu::context(), &op, &args, 1)
    };
    let (value, gradient) = run(&inputs);
    for (i, got) in value.iter().enumerate() {
        let weight = |j: usize| {
            let r2: f64 = (0..3).map(|c| (inputs[0][3 * j + c] - inputs[0][3 * i + c]).powi(2)).sum();
            (1.0 - r2 / 1.21).max(0.0).powi(6)
        };
        let sum: f64 = (0..12).map(weight).sum();
        assert!(sum >= 1.0 && (got - sum * sum).abs() < 1e-13, "{i}: {got} {sum}");
    }
    check_gradient(&inputs, &gradient, |inputs| run(inputs).0);
}

/// The pairs of a query are no full list, and leave the full lists beside them full.
#[test]
fn a_grid_beside_a_full_list() {
    let op = Op::new("test", "crowded", 1)
        .real("x", &["Atom", "3"])
        .real("r", &["Point", "3"])
        .real("charge", &["Atom"])
        .scalar("radius")
        .pairs("pairs", "Atom")
        .grid("grid", "Atom", "Point", "r")
        .output("out", &["Atom"])
        .step(&CROWDED)
        .build()
        .unwrap();
    let x = array(DType::F64, &[3, 3], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
    let r = array(DType::F64, &[2, 3], &[0.0, 0.0, 0.0, 1.5, 0.0, 0.0]);
    let charge = array(DType::F64, &[3], &[1.0, 10.0, 100.0]);
    let (rows, columns) = ([0, 1, 1, 2], vec![1, 0, 2, 1]);
    let pairs = PairList::from_coo(&rows, columns, vec![[0; 3]; 4], 3, 3, Kind::Full).unwrap();
    let grid = open(&r);
    let arrays = [&x, &r, &charge].map(|a| Arg::Array(a.view()));
    let args = [&arrays[..], &[Arg::Real(1.0), Arg::Structure(&pairs), Arg::Grid(&grid)]].concat();
    // 1, 2 and 1 points; neighbours count three times.
    assert_eq!(op.value(&madelung_cpu::context(), &args).unwrap()[0].to_f64().unwrap(), [31.0, 305.0, 31.0]);
    let cotangents = [Some(Cotangent::Uniform(1.0))];
    let request = Request { cotangents: &cotangents, gradients: &[2], ..Request::default() };
    let gradient =
        op.evaluate(&madelung_cpu::context(), &args, &request).unwrap().gradients[0].to_f64().unwrap();
    assert_eq!(gradient, [3.0, 6.0, 3.0]);
}

/// A radius is inclusive, zero counts, and so do kernels without derivatives; positions may be stored as they like.
#[test]
fn counting() {
    let op = |stored: bool| {
        let op = Op::new("test", "count", 1).real("x", &["Query", "3"]);
        if stored { op.stored() } else { op }
            .real("r", &["Point", "3"])
            .scalar("radius")
            .grid("grid", "Query", "Point", "r")
            .integer_output("found", &["Query"], DType::I32)
            .integer_output("images", &["Query"], DType::I32)
            .step(&COUNT)
            .build()
            .unwrap()
    };
    let x = array(DType::F64, &[3, 3], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 5.0, 0.0, 0.0]);
    let r = array(DType::F64, &[2, 3], &[0.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
    let found = |grid: &HashGrid, radius: f64| {
        let args = [Arg::Array(x.view()), Arg::Array(r.view()), Arg::Real(radius), Arg::Grid(grid)];
        let found = op(false).value(&madelung_cpu::context(), &args).unwrap();
        let half = x.cast(DType::F16).unwrap();
        let args = [Arg::Array(half.view()), args[1].clone(), args[2].clone(), args[3].clone()];
        let widened = op(true).value(&madelung_cpu::context(), &args).unwrap();
        assert!(widened.len() == 2 && widened.iter().zip(&found).all(|(a, b)| a.equals(b).unwrap()));
        [found[0].to_f64().unwrap(), found[1].to_f64().unwrap()]
    };
    let free = open(&r);
    assert_eq!(found(&free, 1.0)[0], [1.0, 2.0, 0.0]);
    assert_eq!(found(&free, 0.0)[0], [1.0, 0.0, 0.0]);
    let cell = [[[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]]];
    let batch = Batch::single(2).unwrap();
    let periodic = HashGrid::build(&madelung_cpu::context(), &r.view(), Some(&cell), None, batch).unwrap();
    assert_eq!(found(&periodic, 2.0), [[3.0, 2.0, 2.0], [1.0, 0.0, 2.0]]);
}
