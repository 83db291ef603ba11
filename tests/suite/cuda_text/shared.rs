//! Threads that share rows, and what rows add to each other's elements: kernels with channels, a mesh, the largest of many
//! values and scattered gradients, against the Rust code.

use super::host::{Host, Order, Scatter, Texts, Types};
use crate::common::numeric::{rms, rms_difference};
use madelung::array::{Array, DType};
use madelung::backend::Context;
use madelung::batch::Batch;
use madelung::mesh::Mesh;
use madelung::op::{Arg, ArgKind, Cotangent, Op, Request};
use madelung::pairs::{Kind, PairList};
use madelung_core::runtime::{Division, Kernel, Member};
use std::sync::Arc;

madelung::kernels! {
    /// The channels of a row, normalised, and sums over rows.
    #[kernel(small)]
    fn normalise(
        i: Row,
        x: &[[Real; Feature]; Row],
        gain: &[Real; Feature],
        rows: &Batch<Row, System>,
        out: &mut [[Real; Feature]; Row],
        total: &mut [Real; Feature],
        pooled: &mut [[Real; Feature]; System],
    ) {
        let mut sum = 0.0;
        for c in Feature {
            sum += x[i][c];
        }
        let mut variance = 0.0;
        let mut centred = [0.0; Feature];
        for c in Feature {
            let d = x[i][c] - 0.1 * sum;
            variance += d * d;
            centred[c] += d;
        }
        for c in Feature {
            out[i][c] = gain[c] * centred[c] / sqrt(variance + 0.01);
        }
        for c in Feature {
            total[c] += x[i][c] * gain[c];
            pooled[rows.of(i)][c] += sin(x[i][c]);
        }
    }

    /// A weight for each radial function of the distance.
    #[kernel(small)]
    fn radial(
        i: Centre,
        centres: &[Vec3; Centre],
        points: &[Vec3; Point],
        cell: &Mat3,
        knots: &[Real; Feature],
        own: &[[Real; Feature]; Centre],
        near: &Pairs<Centre, Point, Edge>,
        energy: &mut [Real; Centre],
    ) {
        let mut e = 0.0;
        for (j, shift, p) in near.row(i) {
            let d = points[j] - centres[i] + shift * cell;
            let r = length(d);
            let mut t = 0.0;
            for c in Feature {
                let u = 0.2 * r - knots[c];
                t += exp(-u * u) * own[i][c];
            }
            e += t / r;
        }
        energy[i] = e;
    }

    /// A softmax over the pairs of a row, in steps that no derivative sees.
    #[kernel(scatter, small)]
    fn attend(
        i: Centre,
        centres: &[Vec3; Centre],
        points: &[Vec3; Point],
        cell: &Mat3,
        features: &[[Real; Feature]; Point],
        sigma: &Real,
        near: &Pairs<Centre, Point, Edge>,
        out: &mut [[Real; Feature]; Centre],
    ) {
        let mut top = -1.0e30;
        for (j, shift, p) in near.row(i) {
            top = max(top, -sigma * length(points[j] - centres[i] + shift * cell));
        }
        let top = stop_gradient(top);
        let mut sum = [0.0; Feature];
        let mut norm = 0.0;
        for (j, shift, p) in near.row(i) {
            let weight = exp(-sigma * length(points[j] - centres[i] + shift * cell) - top);
            norm += weight;
            for c in Feature {
                sum[c] += weight * features[j][c];
            }
        }
        for c in Feature {
            out[i][c] = sum[c] / (norm + 1.0e-30);
        }
    }

    /// Its gradient goes to the first of those that are largest.
    #[kernel(scatter, small)]
    fn highest(i: Centre, heights: &[Real; Point], near: &Pairs<Centre, Point, Edge>, out: &mut [Real; Centre]) {
        let mut top = 0.3;
        let mut bottom = 0.2;
        for (j, shift, p) in near.row(i) {
            top = max(top, heights[j]);
            bottom = min(bottom, heights[j]);
        }
        out[i] = top * bottom;
    }

    /// To the nodes around each atom, and what they hold back to it.
    #[kernel(small)]
    fn spread(
        i: Atom,
        u: &[Vec3; Atom],
        charges: &[Real; Atom],
        potential: &[Real; Node],
        atoms: &Batch<Atom, System>,
        mesh: &Mesh<System, Node>,
        density: &mut [Real; Node],
        energy: &mut [Real; Atom],
    ) {
        let mut phi = 0.0;
        for (node, weight) in mesh.around(atoms.of(i), u[i]) {
            density[node] += weight * charges[i];
            phi += weight * potential[node];
        }
        energy[i] = charges[i] * phi;
    }
}

fn kernels() -> Vec<&'static Kernel> {
    vec![&NORMALISE, &RADIAL, &ATTEND, &HIGHEST, &SPREAD]
}

fn ops() -> Vec<Arc<Op>> {
    let op = |name: &str| Op::new("test", name, 1);
    let between = |name: &str| {
        op(name).real("centres", &["Centre", "3"]).real("points", &["Point", "3"]).real("cell", &["3", "3"])
    };
    let built = |op: madelung::op::OpBuilder| op.build().expect("an op");
    vec![
        built(
            op("normalise")
                .real("x", &["Row", "Feature"])
                .real("gain", &["Feature"])
                .batch("rows", "Row", "System")
                .output("out", &["Row", "Feature"])
                .output("total", &["Feature"])
                .output("pooled", &["System", "Feature"])
                .step(&NORMALISE),
        ),
        built(
            between("radial")
                .real("knots", &["Feature"])
                .real("own", &["Centre", "Feature"])
                .pairs_between("near", "Centre", "Point", "Edge")
                .output("energy", &["Centre"])
                .step(&RADIAL),
        ),
        built(
            between("attend")
                .real("features", &["Point", "Feature"])
                .real("sigma", &[])
                .pairs_between("near", "Centre", "Point", "Edge")
                .output("out", &["Centre", "Feature"])
                .step(&ATTEND),
        ),
        built(
            op("highest")
                .real("heights", &["Point"])
                .pairs_between("near", "Centre", "Point", "Edge")
                .output("out", &["Centre"])
                .step(&HIGHEST),
        ),
        built(
            op("spread")
                .real("u", &["Atom", "3"])
                .real("charges", &["Atom"])
                .real("potential", &["Node"])
                .batch("atoms", "Atom", "System")
                .mesh("mesh", "System", "Node", "Wave")
                .output("density", &["Node"])
                .output("energy", &["Atom"])
                .step(&SPREAD),
        ),
    ]
}

/// The pairs of each row: those around the numbers of lanes.
const LENGTHS: [usize; 9] = [0, 1, 31, 32, 33, 500, 2, 7, 8];
const CENTRES: usize = LENGTHS.len();
const POINTS: usize = 41;
const WIDTH: usize = 19;
const SIZES: [usize; 3] = [6, 7, 9];
/// Those of three systems.
const NODES: usize = 3 * SIZES[0] * SIZES[1] * SIZES[2];

/// Numbers of no pattern.
fn array(shape: &[usize], seed: f64) -> Array {
    let n = shape.iter().product::<usize>();
    let numbers: Vec<f64> = (0..n).map(|k| (12.9898 * (k as f64 + 7.3 * seed)).sin()).collect();
    Array::from_f64(DType::F64, shape, &numbers).expect("a shape that fits")
}

/// What the ops' arguments are.
struct World {
    rows: Batch<'static>,
    mesh: Mesh,
    near: PairList<'static>,
}

impl World {
    fn new() -> Self {
        let pairs = || LENGTHS.iter().enumerate().flat_map(|(i, n)| (0..*n).map(move |k| (i, k)));
        let near = PairList::from_coo(
            &pairs().map(|(i, _)| i as i32).collect::<Vec<_>>(),
            pairs().map(|(i, k)| ((3 * i + 7 * k) % POINTS) as i32).collect::<Vec<_>>(),
            pairs().map(|(_, k)| [1, (k / POINTS) as i32, 0]).collect::<Vec<_>>(),
            CENTRES,
            POINTS,
            Kind::Directed,
        );
        Self {
            rows: Batch::from_ptr(vec![0, 9, 9, 16]).expect("a batch"),
            mesh: Mesh::new(SIZES, 5, 3).expect("a mesh"),
            near: near.expect("a list"),
        }
    }

    fn shape(name: &str) -> &'static [usize] {
        match name {
            "x" => &[16, WIDTH],
            "gain" | "knots" => &[WIDTH],
            "centres" => &[CENTRES, 3],
            "points" => &[POINTS, 3],
            "cell" => &[3, 3],
            "own" => &[CENTRES, WIDTH],
            "features" => &[POINTS, WIDTH],
            "sigma" => &[],
            "heights" => &[POINTS],
            "u" => &[16, 3],
            "charges" => &[16],
            "potential" => &[NODES],
            _ => unreachable!("no argument of these ops"),
        }
    }

    /// The arrays of an op's arguments, or a direction along each.
    fn arrays(op: &Op, seed: f64) -> Vec<Option<Array>> {
        let array = |(n, spec): (usize, &madelung::op::ArgSpec)| {
            let of = |name: &str| array(Self::shape(name), seed + n as f64);
            match (&spec.kind, spec.name.as_str()) {
                // Few different ones, so that most rows have several that are largest.
                (ArgKind::Real { .. }, "heights") => {
                    Some(of("heights").map(|x| (3.0 * x).round() / 3.0).unwrap())
                }
                (ArgKind::Real { .. }, name) => Some(of(name)),
                _ => None,
            }
        };
        op.args.iter().enumerate().map(array).collect()
    }

    /// Values, tangents, gradients and Hessian-vector products, array by array.
    fn answers(&self, op: &Op, context: &Context<'_>) -> Vec<Vec<f64>> {
        let arrays = Self::arrays(op, 2.0);
        let args = op.args.iter().zip(&arrays).map(|(spec, a)| match (&spec.kind, a) {
            (_, Some(a)) => Arg::Array(a.view()),
            (ArgKind::Batch { .. }, _) => Arg::Structure(&self.rows),
            (ArgKind::Mesh { .. }, _) => Arg::Structure(&self.mesh),
            _ => Arg::Structure(&self.near),
        });
        let args: Vec<Arg<'_>> = args.collect();
        let [first, second] = [12.0, 17.0].map(|seed| Self::arrays(op, seed));
        let [along, then] =
            [&first, &second].map(|d| d.iter().map(|d| d.as_ref().map(Array::view)).collect::<Vec<_>>());
        let values = op.value(context, &args).expect("values");
        let weights: Vec<Array> =
            values.iter().zip(22..).map(|(v, n)| array(v.shape(), f64::from(n))).collect();
        let weights: Vec<_> = weights.iter().map(|w| Some(Cotangent::Array(w.view()))).collect();
        let gradients: Vec<usize> = (0..arrays.len()).filter(|n| arrays[*n].is_some()).collect();
        let (directions, both) = ([along.as_slice()], [along.as_slice(), then.as_slice()]);
        let requests = [
            Request { directions: &directions, ..Request::default() },
            Request { directions: &both, ..Request::default() },
            Request { cotangents: &weights, gradients: &gradients, ..Request::default() },
            Request {
                directions: &directions,
                cotangents: &weights,
                gradients: &gradients,
                ..Request::default()
            },
        ];
        let mut answers = values;
        for request in requests {
            let done = op.evaluate(context, &args, &request).expect("derivatives");
            answers.extend(done.values.into_iter().chain(done.gradients));
        }
        answers.iter().map(|a| a.to_f64().unwrap()).collect()
    }
}

const F64: Types = Types { storage: DType::F64, real: DType::F64, sums: DType::F64 };

fn texts(lanes: usize, scatter: Scatter, packed: bool) -> &'static Texts {
    // As long as the test runs, like those of all kernels.
    Box::leak(Box::new(Texts::new(&kernels(), F64, lanes, scatter, packed)))
}

/// Rounding: that of the terms of a sum in another order, some thousand units of 1.1e-16.
const BOUND: f64 = 1e-12;

/// Both ways to the partners of pairs, each in several orders of threads.
fn compare(lanes: usize, scatter: Scatter, packed: bool) {
    let (texts, world) = (texts(lanes, scatter, packed), World::new());
    for op in ops() {
        for scattered in [false, true] {
            let on = |order| Host { texts, order };
            let ask = |host: &Host| {
                world.answers(&op, &Context { backend: host, scatter: scattered, ..madelung::cpu::context() })
            };
            let got = ask(&on(Order::Forwards));
            let want = world.answers(&op, &Context { scatter: scattered, ..madelung::cpu::context() });
            for (n, (x, y)) in got.iter().zip(&want).enumerate() {
                let error = rms_difference(x, y) / rms(y).max(f64::MIN_POSITIVE);
                let what = format!("{}, {lanes} lanes, {scatter:?} {scattered}, answer {n}", op.name);
                assert!(error <= BOUND, "{what}: {error:.1e}");
            }
            for order in [Order::Backwards, Order::Shuffled(1), Order::Shuffled(2)] {
                let again = ask(&on(order));
                // Additions as they come are rounded as they come.
                let same = if scatter == Scatter::Fixed { again == got } else { close(&again, &got) };
                assert!(same, "{}, {lanes} lanes, {order:?}", op.name);
            }
        }
    }
    assert_eq!(super::host::idle(texts, kernels()), [""; 0], "no op ran them");
}

fn close(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    a.iter().zip(b).all(|(x, y)| rms_difference(x, y) <= BOUND * rms(y))
}

#[test]
fn one_thread_per_row() {
    compare(1, Scatter::Atomic, false);
    compare(1, Scatter::Fixed, true);
}

#[test]
fn two_and_eight_threads_per_row() {
    compare(2, Scatter::Atomic, true);
    compare(8, Scatter::Fixed, false);
}

#[test]
fn a_warp_per_row() {
    compare(32, Scatter::Fixed, true);
}

/// Numbers of partners have records, not one alone, nor channels, which lie side by side already.
#[test]
fn what_records_have() {
    let records = |kernel: &'static Kernel, member| {
        let form = kernel.forms.iter().find(|f| f.member == member).expect("a form");
        let parts = form.parts.iter().map(|p| p.cuda.records.map(|r| (kernel.dims[r.dim], r.width)));
        parts.collect::<Vec<_>>()
    };
    assert_eq!(records(&NORMALISE, Member::Value), [None]);
    assert_eq!(records(&RADIAL, Member::Value), [Some(("Point", 4))]);
    assert_eq!(records(&ATTEND, Member::Value), [Some(("Point", 4))]);
    assert_eq!(records(&HIGHEST, Member::Value), [None]);
    // Coordinates and their tangents.
    assert_eq!(records(&RADIAL, Member::Tangent), [Some(("Point", 8))]);
    // Columns visit rows in their turn: their coordinates and cotangents.
    assert_eq!(records(&RADIAL, Member::Gradient), [Some(("Point", 4)), Some(("Centre", 4))]);
}

/// What is divided is what lies side by side, or what is long.
#[test]
fn what_lanes_divide() {
    let lanes =
        |kernel: &'static Kernel| kernel.forms[0].parts.iter().map(|p| p.cuda.lanes).collect::<Vec<_>>();
    let feature = |kernel: &Kernel| kernel.dims.iter().position(|d| *d == "Feature").expect("a dimension");
    assert_eq!(lanes(&NORMALISE), [Division::Channels(feature(&NORMALISE))]);
    assert_eq!(lanes(&RADIAL), [Division::Loops]);
    assert_eq!(lanes(&ATTEND), [Division::Channels(feature(&ATTEND))]);
    assert_eq!(lanes(&HIGHEST), [Division::Loops]);
    // What goes to nodes is a launch of its own.
    assert_eq!(lanes(&SPREAD), [Division::Nodes, Division::Nodes]);
}
