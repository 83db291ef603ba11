//! Points and queries in three systems: one periodic in a tilted cell that is smaller than the radius reaches, a slab,
//! and an open one.

use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, Op};
use madelung_core::structure::Batch;
use madelung_neighbors::grid::HashGrid;
use std::sync::Arc;

/// One kernel around a grid and around a list.
macro_rules! blur {
    ($name:ident, $list:ident: ($($of:tt)*), ($($pairs:tt)*)) => {
        madelung_core::kernels! {
            /// Features and vectors around each query, weighted by a function that vanishes at the radius with five
            /// derivatives.
            #[kernel]
            pub(super) fn $name(
                i: Query,
                x: &[Vec3; Query],
                r: &[Vec3; Point],
                cell: &[Mat3; System],
                features: &[[Real; Feature]; Point],
                width: &Real,
                radius: Real,
                queries: &Batch<Query, System>,
                points: &Batch<Point, System>,
                $list: $($of)*,
                out: &mut [[Real; Feature]; Query],
                moment: &mut [Vec3; Query],
            ) {
                let b = queries.of(i);
                let mut sum = [0.0; Feature];
                let mut m = vec3(0.0, 0.0, 0.0);
                for (j, shift) in $($pairs)* {
                    let d = r[j] - x[i] + shift * cell[b];
                    let weight = pow(1.0 - dot(d, d) / (radius * radius), 6) * exp(-width * dot(d, d));
                    m += weight * d;
                    for c in Feature {
                        sum[c] += weight * features[j][c];
                    }
                }
                for c in Feature {
                    out[i][c] = sum[c];
                }
                moment[i] = m;
            }
        }
    };
}

blur!(blur_grid, list: (&HashGrid<Query, Point>), (list.query(x[i], radius)));
blur!(blur_pairs, list: (&Pairs<Query, Point>), (list.row(i)));

pub(crate) const QUERIES: [i32; 4] = [0, 5, 9, 12];
pub(crate) const POINTS: [i32; 4] = [0, 8, 14, 21];
pub(crate) const FEATURES: usize = 5;
pub(crate) const RADIUS: f64 = 2.3;
pub(crate) const PBC: [[bool; 3]; 3] = [[true; 3], [true, false, true], [false; 3]];

/// Positions of queries and points, cells, features, width.
pub(crate) type Inputs = [Vec<f64>; 5];

pub(crate) const NAMES: [&str; 5] = ["x", "r", "cell", "features", "width"];

pub(crate) fn shapes() -> [Vec<usize>; 5] {
    let [queries, points] = [QUERIES[3] as usize, POINTS[3] as usize];
    [vec![queries, 3], vec![points, 3], vec![3, 3, 3], vec![points, FEATURES], vec![]]
}

pub(crate) fn wiggles(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (phase + 1.7 * i as f64 + 0.3 * (i * i) as f64).sin()).collect()
}

pub(crate) fn array(dtype: DType, shape: &[usize], data: &[f64]) -> Array {
    Array::from_f64(dtype, shape, data).unwrap()
}

/// Numbers that f32 has as well.
pub(crate) fn inputs() -> Inputs {
    let [queries, points] = [QUERIES[3] as usize, POINTS[3] as usize];
    let mut x: Vec<f64> = wiggles(3 * queries, 0.4).iter().map(|x| 2.1 * x).collect();
    let r: Vec<f64> = wiggles(3 * points, 1.3).iter().map(|x| 2.4 * x).collect();
    // A query on a point, and one some cells away.
    x[3..6].copy_from_slice(&r[6..9]);
    x[6] += 7.0;
    let tilted = [2.6, 0.3, -0.2, 0.9, 2.4, 0.1, -0.4, 0.7, 3.1];
    let slab = [3.4, -0.5, 0.2, 0.1, 5.0, 0.3, 0.6, 0.2, 4.2];
    let open = [9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 9.0];
    let cell = [tilted, slab, open].concat();
    let all = [x, r, cell, wiggles(points * FEATURES, 0.9), vec![0.17]];
    all.map(|numbers| numbers.iter().map(|x| f64::from(*x as f32)).collect())
}

pub(crate) fn batches() -> [Batch<'static>; 2] {
    [Batch::from_ptr(&QUERIES[..]).unwrap(), Batch::from_ptr(&POINTS[..]).unwrap()]
}

pub(crate) fn grid(inputs: &Inputs) -> HashGrid {
    let cells: Vec<[[f64; 3]; 3]> =
        inputs[2].as_chunks::<9>().0.iter().map(|c| [0, 3, 6].map(|n| [c[n], c[n + 1], c[n + 2]])).collect();
    let points = array(DType::F64, &[inputs[1].len() / 3, 3], &inputs[1]);
    let [_, batch] = batches();
    HashGrid::build(&madelung_cpu::context(), &points.view(), Some(&cells), Some(&PBC), batch).unwrap()
}

pub(crate) fn blur_op(pairs: bool) -> Arc<Op> {
    let op = Op::new("test", "blur", 1)
        .real("x", &["Query", "3"])
        .real("r", &["Point", "3"])
        .real("cell", &["System", "3", "3"])
        .real("features", &["Point", "Feature"])
        .real("width", &[])
        .scalar("radius")
        .batch("queries", "Query", "System")
        .batch("points", "Point", "System");
    let op = if pairs {
        op.pairs_between("list", "Query", "Point", "Edge")
    } else {
        op.grid("list", "Query", "Point", "r")
    };
    let op = op.output("out", &["Query", "Feature"]).output("moment", &["Query", "3"]);
    op.step(if pairs { &BLUR_PAIRS } else { &BLUR_GRID }).build().unwrap()
}

/// The arguments of [`blur_op`], but for the list.
pub(crate) struct Arguments {
    pub(crate) arrays: Vec<Array>,
    pub(crate) batches: [Batch<'static>; 2],
}

impl Arguments {
    pub(crate) fn new(inputs: &Inputs, dtype: DType) -> Self {
        let arrays = inputs.iter().zip(shapes()).map(|(x, shape)| array(dtype, &shape, x)).collect();
        Self { arrays, batches: batches() }
    }

    pub(crate) fn with<'a>(&'a self, list: Arg<'a>) -> Vec<Arg<'a>> {
        let mut args: Vec<Arg<'a>> = self.arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.push(Arg::Real(RADIUS));
        args.extend(self.batches.iter().map(|batch| Arg::Structure(batch)));
        args.push(list);
        args
    }
}

/// Every point within the radius, by all images: (i, j, S, r_j − x_i + S · cell).
pub(crate) fn near(inputs: &Inputs) -> Vec<(usize, usize, [f64; 3], [f64; 3])> {
    let [x, r, cell, ..] = inputs;
    let ([queries, points], mut found) = (batches(), vec![]);
    for i in 0..queries.atoms() {
        let b = queries.of(i);
        let range = |k: usize| if PBC[b][k] { -9..=9 } else { 0..=0 };
        for j in points.members(b) {
            for (u, v, w) in
                range(0).flat_map(|u| range(1).flat_map(move |v| range(2).map(move |w| (u, v, w))))
            {
                let s = [u, v, w].map(f64::from);
                let d: [f64; 3] = std::array::from_fn(|c| {
                    let image: f64 = (0..3).map(|k| s[k] * cell[9 * b + 3 * k + c]).sum();
                    r[3 * j + c] - x[3 * i + c] + image
                });
                if d.iter().map(|d| d * d).sum::<f64>().sqrt() <= RADIUS {
                    found.push((i, j, s, d));
                }
            }
        }
    }
    found
}
