//! The grid against every image of every point, tried one by one.

#[cfg(target_os = "linux")]
mod device;

use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_neighbors::grid::{HashGrid, Nearest};
use proptest::prelude::*;

pub(crate) type Point = [f64; 3];
pub(crate) type Cells = [[f64; 3]; 3];

/// (i, j, S, d)
pub(crate) type Found = (usize, usize, [i32; 3], f64);

/// r_ij = r_j − r_i + S · cell, as the conventions have it.
fn distance(q: Point, r: Point, s: [i32; 3], cell: &Cells) -> f64 {
    let s = s.map(f64::from);
    let d: [f64; 3] =
        std::array::from_fn(|c| (r[c] - q[c]) + (s[0] * cell[0][c] + s[1] * cell[1][c] + s[2] * cell[2][c]));
    (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt()
}

/// Points or queries of several systems.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) at: Vec<Point>,
    pub(crate) ptr: Vec<i32>,
}

impl Set {
    pub(crate) fn batch(&self) -> Batch<'static> {
        Batch::from_ptr(self.ptr.clone()).expect("a batch")
    }

    pub(crate) fn view(&self) -> View<'_> {
        View::from(&self.at[..])
    }

    /// The coordinates in a type.
    pub(crate) fn of(&self, dtype: DType) -> Array {
        Array::from_f64(dtype, &[self.at.len(), 3], self.at.as_flattened()).expect("rows of three")
    }
}

/// The periodic rows of a cell, and their pseudo-inverse: the lattice coordinates nearest to a vector.
fn lateral(cell: &Cells, pbc: [bool; 3]) -> ([Point; 3], [Point; 3]) {
    let open: Cells = std::array::from_fn(|k| if pbc[k] { cell[k] } else { [0.0; 3] });
    let inverse = nalgebra::Matrix3::from_fn(|r, c| open[r][c]).pseudo_inverse(1e-9).expect("an inverse");
    (open, std::array::from_fn(|k| std::array::from_fn(|c| inverse[(c, k)])))
}

/// Every image along periodic axes that can be within `reach`, and some that are not.
pub(crate) fn all(queries: &Set, points: &Set, cells: &[Cells], pbc: [bool; 3], reach: f64) -> Vec<Found> {
    let (of, members) = (queries.batch(), points.batch());
    let mut found = vec![];
    for (i, q) in queries.at.iter().enumerate() {
        let (cell, inverse) = lateral(&cells[of.of(i)], pbc);
        for j in members.members(of.of(i)) {
            let range = |k: usize| {
                if !pbc[k] {
                    return 0..=0;
                }
                let length = inverse[k].iter().map(|x| x * x).sum::<f64>().sqrt();
                let middle: f64 = (0..3).map(|c| (q[c] - points.at[j][c]) * inverse[k][c]).sum();
                let most = reach * length + 0.01;
                (middle - most).ceil() as i32..=(middle + most).floor() as i32
            };
            for x in range(0) {
                for y in range(1) {
                    for z in range(2) {
                        let s = [x, y, z];
                        found.push((i, j, s, distance(*q, points.at[j], s, &cell)));
                    }
                }
            }
        }
    }
    found
}

pub(crate) fn entries(list: &PairList<'_>) -> Vec<(usize, usize, [i32; 3])> {
    list.iter().collect()
}

pub(crate) fn within(all: &[Found], radius: f64) -> Vec<(usize, usize, [i32; 3])> {
    all.iter().filter(|f| f.3 <= radius).map(|f| (f.0, f.1, f.2)).collect()
}

pub(crate) fn closest(all: &[Found], queries: usize, k: usize, fill: i32) -> Nearest {
    let (mut indices, mut distances, mut shifts, mut counts) = (vec![], vec![], vec![], vec![]);
    for i in 0..queries {
        let mut mine: Vec<&Found> = all.iter().filter(|f| f.0 == i).collect();
        mine.sort_by(|a, b| a.3.total_cmp(&b.3).then((a.1, a.2).cmp(&(b.1, b.2))));
        counts.push(mine.len().min(k) as i32);
        for n in 0..k {
            let f = mine.get(n);
            indices.push(f.map_or(fill, |f| f.1 as i32));
            distances.push(f.map_or(f64::INFINITY, |f| f.3));
            shifts.push(f.map_or([0; 3], |f| f.2));
        }
    }
    Nearest { indices, distances, shifts, counts }
}

fn cell() -> impl Strategy<Value = Cells> {
    prop::array::uniform3(prop::array::uniform3(-4.0..4.0f64)).prop_filter("flat", |c| {
        let lengths: f64 = c.iter().map(|a| a.iter().map(|x| x * x).sum::<f64>().sqrt()).product();
        let det = nalgebra::Matrix3::from_fn(|r, k| c[r][k]).determinant();
        det.abs() > 0.3 * lengths && c.iter().all(|a| a.iter().map(|x| x * x).sum::<f64>() > 2.0)
    })
}

/// Coordinates, many of them equal, on the borders of cells, or far away.
fn coordinate() -> impl Strategy<Value = f64> {
    prop_oneof![6 => -6.0..6.0f64, 2 => (-8i32..8).prop_map(|x| f64::from(x) / 2.0), 1 => -60.0..60.0f64]
}

fn set(systems: usize, most: usize) -> impl Strategy<Value = Set> {
    prop::collection::vec(prop::collection::vec(prop::array::uniform3(coordinate()), 0..most), systems)
        .prop_map(|all| {
            let mut set = Set { at: vec![], ptr: vec![0] };
            for system in all {
                set.at.extend(system);
                set.ptr.push(set.at.len() as i32);
            }
            set
        })
}

#[derive(Clone, Debug)]
struct Case {
    points: Set,
    moved: Vec<Point>,
    queries: Set,
    cells: Vec<Cells>,
    pbc: [bool; 3],
    radius: f64,
    cell_size: f64,
    k: usize,
}

fn case() -> impl Strategy<Value = Case> {
    (1usize..4).prop_flat_map(|systems| {
        let cells = prop::collection::vec(cell(), systems);
        let sizes = (0.0..3.5f64, 0.2..5.0f64, 0usize..9);
        let moved = prop::collection::vec(prop::array::uniform3(coordinate()), 30);
        (set(systems, 10), moved, set(systems, 6), cells, prop::array::uniform3(any::<bool>()), sizes)
            .prop_map(|(points, moved, queries, cells, pbc, (radius, cell_size, k))| Case {
                moved: moved[..points.at.len()].to_vec(),
                points,
                queries,
                cells,
                pbc,
                radius,
                cell_size,
                k,
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn finds_what_brute_force_finds(case in case()) {
        let Case { points, moved, queries, cells, pbc, radius, k, .. } = case;
        let context = madelung_cpu::context();
        let build = |set: &Set| {
            HashGrid::build(&context, &set.view(), Some(&cells), Some(&[pbc]), set.batch()).expect("a grid")
        };
        let reach = 6.0;
        let every = all(&queries, &points, &cells, pbc, reach);
        let mut grid = build(&points);
        let list = grid.query(&context, &queries.view(), &queries.batch(), radius).expect("a list");
        prop_assert_eq!(list.kind(), Kind::Directed);
        let mut expected = within(&every, radius);
        expected.sort_unstable();
        prop_assert_eq!(entries(&list), expected);
        // The oracle has all images within its reach, and without periodic axes all points.
        let nearest = grid.nearest(&context, &queries.view(), &queries.batch(), k, f64::INFINITY, Some(-1)).expect("the nearest");
        let expected = closest(&every, queries.at.len(), k, -1);
        for i in 0..queries.at.len() {
            let row = i * k..(i + 1) * k;
            let complete = pbc == [false; 3] || expected.distances[row.clone()].iter().all(|d| *d < reach);
            if complete {
                prop_assert_eq!(nearest.counts[i], expected.counts[i]);
                prop_assert_eq!(&nearest.indices[row.clone()], &expected.indices[row.clone()]);
                prop_assert_eq!(&nearest.distances[row.clone()], &expected.distances[row.clone()]);
                prop_assert_eq!(&nearest.shifts[row.clone()], &expected.shifts[row]);
            }
        }
        // Moved points, in the memory of the first grid.
        let moved = Set { at: moved, ..points };
        grid.rebuild(&context, &moved.view()).expect("the grid again");
        for radius in [radius, 0.0, 1.0] {
            let [again, anew] = [&grid, &build(&moved)]
                .map(|g| g.query(&context, &queries.view(), &queries.batch(), radius).expect("a list"));
            prop_assert_eq!(entries(&again), entries(&anew));
        }
    }
}

/// Points and queries in crowds, so that blocks are full and queries share what is near them.
fn crowds() -> impl Strategy<Value = Case> {
    (1usize..3).prop_flat_map(|systems| {
        let cells = prop::collection::vec(cell(), systems);
        let sizes = (0.0..1.5f64, 0usize..30, 0.05..1.0f64);
        (set(systems, 150), set(systems, 60), cells, prop::array::uniform3(any::<bool>()), sizes).prop_map(
            |(mut points, queries, cells, pbc, (radius, k, crowd))| {
                for r in points.at.iter_mut().step_by(2) {
                    *r = r.map(|x| crowd * x);
                }
                Case { moved: vec![], points, queries, cells, pbc, radius, cell_size: 1.0, k }
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn finds_what_brute_force_finds_in_crowds(case in crowds()) {
        let Case { points, queries, cells, pbc, radius, k, .. } = case;
        let context = madelung_cpu::context();
        let grid = HashGrid::build(&context, &points.view(), Some(&cells), Some(&[pbc]), points.batch()).unwrap();
        let reach = 2.0;
        let every = all(&queries, &points, &cells, pbc, reach);
        let list = grid.query(&context, &queries.view(), &queries.batch(), radius).expect("a list");
        let mut expected = within(&every, radius);
        expected.sort_unstable();
        prop_assert_eq!(entries(&list), expected);
        let nearest = grid.nearest(&context, &queries.view(), &queries.batch(), k, f64::INFINITY, Some(-1)).expect("the nearest");
        let expected = closest(&every, queries.at.len(), k, -1);
        for row in (0..queries.at.len()).map(|i| i * k..(i + 1) * k) {
            if pbc == [false; 3] || expected.distances[row.clone()].iter().all(|d| *d < reach) {
                prop_assert_eq!(&nearest.indices[row.clone()], &expected.indices[row.clone()]);
                prop_assert_eq!(&nearest.distances[row.clone()], &expected.distances[row.clone()]);
                prop_assert_eq!(&nearest.shifts[row.clone()], &expected.shifts[row]);
            }
        }
    }
}

const CUBE: Cells = [[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]];

fn one(at: &[Point]) -> Set {
    Set { at: at.to_vec(), ptr: vec![0, at.len() as i32] }
}

fn grid(points: &Set, cell: Option<&[Cells]>) -> HashGrid {
    HashGrid::build(&madelung_cpu::context(), &points.view(), cell, None, points.batch()).expect("a grid")
}

#[test]
fn the_radius_is_inclusive_and_ties_go_by_index_and_image() {
    // A simple cubic lattice of edge 2, four points to an edge of the box.
    let lattice: Vec<Point> =
        (0..8).map(|n| [n & 1, n >> 1 & 1, n >> 2].map(|x| 2.0 * f64::from(x))).collect();
    let points = one(&lattice);
    let (context, grid) = (madelung_cpu::context(), grid(&points, Some(&[CUBE])));
    let query = one(&[[0.0; 3]]);
    let count =
        |radius: f64| grid.query(&context, &query.view(), &query.batch(), radius).expect("a list").len();
    // Shells of a simple cubic lattice: 1, 6, 12, 8, 6.
    let shells = [(0.0, 1), (2.0, 7), (8f64.sqrt(), 19), (12f64.sqrt(), 27), (4.0, 33)];
    for (radius, n) in shells {
        assert_eq!(count(radius), n, "{radius}");
        assert_eq!(
            count(radius * (1.0 - 1e-15)),
            if radius == 0.0 { 1 } else { shells[shells.iter().position(|s| s.1 == n).unwrap() - 1].1 }
        );
    }
    let n =
        grid.nearest(&context, &query.view(), &query.batch(), 7, f64::INFINITY, None).expect("the nearest");
    assert_eq!(n.indices, [0, 1, 1, 2, 2, 4, 4]);
    assert_eq!(n.shifts, [[0; 3], [-1, 0, 0], [0; 3], [0, -1, 0], [0; 3], [0, 0, -1], [0; 3]]);
    assert_eq!(n.distances, [0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
    let far =
        grid.nearest(&context, &query.view(), &query.batch(), 33, f64::INFINITY, None).expect("the nearest");
    assert_eq!(far.distances[27..], [4.0; 6]);
}

#[test]
fn too_few_points_are_an_error_or_padding() {
    let points = one(&[[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]);
    let (context, grid) = (madelung_cpu::context(), grid(&points, None));
    let query = one(&[[0.0; 3], [3.5, 0.0, 0.0]]);
    let error = grid
        .nearest(&context, &query.view(), &query.batch(), 3, f64::INFINITY, None)
        .expect_err("two points")
        .to_string();
    assert!(error.starts_with("`k`: expected at most 2, the points that query 0 has"), "{error}");
    let n = grid.nearest(&context, &query.view(), &query.batch(), 3, f64::INFINITY, Some(2)).expect("padded");
    assert_eq!((n.indices, n.counts), (vec![0, 1, 2, 1, 0, 2], vec![2, 2]));
    assert_eq!(n.distances, [1.0, 3.0, f64::INFINITY, 0.5, 2.5, f64::INFINITY]);
    assert!(
        grid.nearest(&context, &query.view(), &query.batch(), 3, f64::INFINITY, Some(1))
            .expect_err("an index")
            .to_string()
            .starts_with("`fill_value`")
    );
    let none = one(&[]);
    let empty = HashGrid::build(&context, &none.view(), Some(&[CUBE]), None, none.batch()).expect("a grid");
    assert!(empty.query(&context, &query.view(), &query.batch(), 2.0).expect("a list").is_empty());
    let n =
        empty.nearest(&context, &query.view(), &query.batch(), 1, f64::INFINITY, Some(-5)).expect("padding");
    assert_eq!(n.indices, [-5, -5]);
    assert!(grid.query(&context, &none.view(), &none.batch(), 2.0).expect("a list").is_empty());
    assert!(
        grid.nearest(&context, &none.view(), &none.batch(), 2, f64::INFINITY, None)
            .expect("nothing")
            .indices
            .is_empty()
    );
}

/// Points that are crowded in one place, spread over 10¹² times its size, and both.
fn clusters() -> [Vec<Point>; 3] {
    let clustered: Vec<Point> =
        (0..400).map(|n| [f64::from(n % 20) * 1e-3, f64::from(n / 20) * 1e-3, 0.0]).collect();
    let scattered: Vec<Point> = (0..400)
        .map(|n| {
            let t = f64::from(n);
            [1e9 * (0.7 * t).sin(), 1e9 * (1.3 * t).cos(), 1e9 * (2.1 * t).sin()]
        })
        .collect();
    let mixed = [clustered.clone(), scattered.clone()].concat();
    [clustered, scattered, mixed]
}

#[test]
fn memory_and_time_follow_the_points() {
    let context = madelung_cpu::context();
    for at in clusters() {
        let points = one(&at);
        let grid = grid(&points, None);
        let every = all(&points, &points, &[CUBE], [false; 3], 0.0);
        for radius in [0.0015, 2.0, 3e8] {
            let list = grid.query(&context, &points.view(), &points.batch(), radius).expect("a list");
            assert_eq!(entries(&list), within(&every, radius), "{radius}");
        }
        let n = grid
            .nearest(&context, &points.view(), &points.batch(), 5, f64::INFINITY, None)
            .expect("the nearest");
        assert_eq!(n, closest(&every, at.len(), 5, -1));
    }
}

#[test]
fn points_closer_than_single_precision_can_tell() {
    let context = madelung_cpu::context();
    let nearest = |at: &[Point], edge: f64, k: usize| {
        let (points, query) = (one(at), one(&[[0.0; 3]]));
        let cell = [[edge, 0.0, 0.0], [0.0, edge, 0.0], [0.0, 0.0, edge]];
        let found = grid(&points, Some(&[cell])).nearest(
            &context,
            &query.view(),
            &query.batch(),
            k,
            f64::INFINITY,
            None,
        );
        let mut every = vec![];
        for (j, r) in at.iter().enumerate() {
            for n in 0..343 {
                let s = [n / 49 - 3, n / 7 % 7 - 3, n % 7 - 3];
                every.push((0, j, s, distance([0.0; 3], *r, s, &cell)));
            }
        }
        assert_eq!(found.expect("the nearest"), closest(&every, 1, k, -1), "{edge}");
    };
    nearest(&[[0.0; 3], [1e-15, 0.0, 0.0]], 10.0, 60);
    for edge in [1e20, 1e-20, 1e-30] {
        nearest(&[[0.0; 3]], edge, 30);
    }
    // Distances of zero are within any radius.
    let same = one(&[[0.0; 3]; 20]);
    for radius in [0.0, 5e-324, 3e-309, 1e-200] {
        let list = grid(&same, None).query(&context, &same.view(), &same.batch(), radius).expect("a list");
        assert_eq!(list.len(), 400, "{radius}");
    }
}

#[test]
fn queries_far_from_slabs_and_wires() {
    let context = madelung_cpu::context();
    let points = one(&[[0.0; 3], [0.3, 0.4, 0.1], [0.7, 0.2, -0.2]]);
    let cell = [[1.0, 0.0, 0.0], [0.3, 1.1, 0.0], [0.0, 0.0, 5.0]];
    for pbc in [[true, true, false], [true, false, false]] {
        let grid = HashGrid::build(&context, &points.view(), Some(&[cell]), Some(&[pbc]), points.batch())
            .expect("a grid");
        let far = [[0.1, 0.2, 3e3], [0.4, 0.1, 0.3], [0.2, 0.9, -1e4], [5.5, 0.2, 0.1], [0.5, 0.5, 1e5]];
        let queries = one(&far);
        let found = grid
            .nearest(&context, &queries.view(), &queries.batch(), 9, f64::INFINITY, None)
            .expect("the nearest");
        for (i, q) in far.iter().enumerate() {
            // Images beside the query, which is far along an open axis alone.
            let mut every = vec![];
            for (j, r) in points.at.iter().enumerate() {
                let along = |k: usize| if pbc[k] { -12..=12 } else { 0..=0 };
                for s in along(0).flat_map(|x| along(1).map(move |y| [x, y, 0])) {
                    every.push((0, j, s, distance(*q, *r, s, &cell)));
                }
            }
            let expected = closest(&every, 1, 9, -1);
            assert_eq!(found.distances[9 * i..9 * i + 9], expected.distances, "{pbc:?} {q:?}");
            assert_eq!(found.indices[9 * i..9 * i + 9], expected.indices, "{pbc:?} {q:?}");
            assert_eq!(found.shifts[9 * i..9 * i + 9], expected.shifts, "{pbc:?} {q:?}");
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let at: Vec<Point> = (0..700)
        .map(|n| {
            let t = f64::from(n);
            [5.0 * (0.7 * t).sin(), 7.0 * (1.3 * t).cos(), 2.0 * (2.1 * t).sin()].map(|x| f64::from(x as f32))
        })
        .collect();
    let points = one(&at);
    let cells = [[[4.0, 0.5, 0.0], [-1.0, 5.0, 0.3], [0.2, 0.0, -6.0]]];
    for dtype in [DType::F64, DType::F32] {
        let search = |context: &Context<'_>| {
            let (at, batch) = (points.of(dtype), points.batch());
            let view = at.view();
            let grid = HashGrid::build(context, &view, Some(&cells), None, batch.clone()).expect("a grid");
            let list = grid.query(context, &view, &batch, 1.3).expect("a list");
            let nearest = grid.nearest(context, &view, &batch, 12, f64::INFINITY, None).expect("the nearest");
            (entries(&list), nearest)
        };
        let threads = Threads::new(3);
        let serial = madelung_cpu::context().with_pool(&Serial);
        assert_eq!(search(&madelung_cpu::context().with_pool(&threads)), search(&serial));
    }
}

/// The k-th nearest point is within the radius of its distance, and no farther one is.
#[test]
fn a_distance_is_a_radius_that_has_its_point() {
    let mut number = crate::systems::random(5);
    let at: Vec<Point> = (0..200).map(|_| std::array::from_fn(|_| 9.0 * number() + 300.0)).collect();
    let (points, context) = (one(&at), madelung_cpu::context());
    let cells = [[[9.1, 0.5, 0.0], [-1.0, 8.7, 0.3], [0.2, 0.0, -9.3]]];
    for dtype in [DType::F64, DType::F32] {
        let (sent, batch) = (points.of(dtype), points.batch());
        let view = sent.view();
        let grid = HashGrid::build(&context, &view, Some(&cells), None, batch.clone()).expect("a grid");
        let k = 9;
        let nearest = grid.nearest(&context, &view, &batch, k, f64::INFINITY, None).expect("the nearest");
        for i in (0..200).step_by(7) {
            let (row, radius) = (&nearest.distances[k * i..k * (i + 1)], nearest.distances[k * i + k - 1]);
            let list = grid.query(&context, &view, &batch, radius).expect("a list");
            let within = list.range(i).len();
            assert!(within >= k, "{dtype} {i}: {within} within {radius}");
            assert!(row.is_sorted(), "{row:?}");
            let below = row.iter().filter(|d| **d < radius).count();
            let capped =
                grid.nearest(&context, &view, &batch, k, radius.next_down(), Some(-1)).expect("fewer");
            assert_eq!(capped.counts[i] as usize, below, "{dtype} {i}");
        }
    }
}

#[test]
fn a_capacity_says_what_is_needed() {
    let points = one(&[[0.0; 3], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]);
    let (context, grid) = (madelung_cpu::context(), grid(&points, None));
    let capped = |capacity| {
        grid.query_capped(&context, &points.view(), &points.batch(), 1.0, capacity).expect("counts")
    };
    assert_eq!(entries(&capped(7).list.expect("a list")).len(), 7);
    let short = capped(6);
    assert_eq!(short.neighbor_ptr, [0, 2, 5, 7]);
    assert_eq!(
        short.list.expect_err("too little room").to_string(),
        "`capacity`: expected at least 7, the number of pairs, got 6"
    );
}

#[test]
fn bad_input_is_named() {
    let context = madelung_cpu::context();
    let points = one(&[[0.0; 3], [1.0, 0.0, 0.0]]);
    let build = |at: &[Point]| {
        let set = one(at);
        HashGrid::build(&context, &set.view(), Some(&[CUBE]), None, points.batch()).map(|_| ())
    };
    let names = |result: madelung_core::Result<()>, name: &str| {
        let error = result.expect_err(name).to_string();
        assert!(error.starts_with(&format!("`{name}`")), "{error}");
    };
    names(build(&points.at[..1]), "points");
    names(build(&[[0.0; 3], [f64::INFINITY, 0.0, 0.0]]), "points");
    names(build(&[[0.0; 3], [1e300, 0.0, 0.0]]), "points");
    let grid = grid(&points, Some(&[CUBE]));
    let query = |at: &[Point], batch: &Batch<'_>, radius: f64| {
        grid.query(&context, &View::from(at), batch, radius).map(|_| ())
    };
    names(query(&points.at, &points.batch(), -1.0), "radius");
    names(query(&points.at, &points.batch(), f64::INFINITY), "radius");
    names(query(&points.at, &points.batch(), 1e9), "radius");
    names(query(&points.at, &Batch::from_ptr(vec![0, 1, 2]).expect("a batch"), 1.0), "batch_idx");
    names(query(&[[f64::NAN; 3], [0.0; 3]], &points.batch(), 1.0), "queries");
    names(query(&points.at[..1], &points.batch(), 1.0), "queries");
}
