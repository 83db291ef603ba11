//! Grids in the memory of a device against those of the CPU, bit for bit.

use super::{CUBE, Case, Cells, Set, case, clusters, one};
use crate::gpu::{Gpu, SentBatch};
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::backend::context::Allocator;
use madelung_core::structure::DeviceBatch;
use madelung_cuda::Graph;
use madelung_neighbors::DeviceGrid;
use madelung_neighbors::grid::{HashGrid, Nearest};
use madelung_neighbors::{DeviceFrame, NearestArrays, Periodic, QueryPairs};
use madelung_stand_in::{Order, set_order};
use proptest::prelude::*;

/// Points or queries there.
struct Sent {
    at: Array,
    batch: SentBatch,
}

impl Sent {
    fn new(gpu: &Gpu, set: &Set, dtype: DType) -> Self {
        Self {
            at: gpu.upload(dtype, &[set.at.len(), 3], set.at.as_flattened()),
            batch: SentBatch::new(gpu, &set.batch()),
        }
    }

    fn batch(&self) -> DeviceBatch<'_> {
        self.batch.batch()
    }
}

/// A grid, its points, and their cells.
struct Searched {
    grid: DeviceGrid,
    cell: Array,
    pbc: Periodic<'static>,
}

impl Searched {
    fn new(gpu: &Gpu, points: &Sent, cells: &[Cells], pbc: [bool; 3], cell_size: f64) -> Self {
        let cell = gpu.upload(DType::F64, &[cells.len(), 3, 3], cells.as_flattened().as_flattened());
        let pbc = Periodic::All(pbc);
        let grid = Self::frame(points, &cell, &pbc, |frame| {
            DeviceGrid::build(&gpu.cuda, &gpu.context(), frame, cell_size).expect("a grid")
        });
        Self { grid, cell, pbc }
    }

    fn frame<T>(points: &Sent, cell: &Array, pbc: &Periodic<'_>, f: impl FnOnce(&DeviceFrame<'_>) -> T) -> T {
        let (positions, cell) = (points.at.view(), cell.view());
        f(&DeviceFrame { positions: &positions, cell: Some(&cell), pbc, batch: &points.batch() })
    }

    fn rebuild(&mut self, gpu: &Gpu, context: &Context<'_>, points: &Sent) {
        let Self { grid, cell, pbc } = self;
        Self::frame(points, cell, pbc, |frame| grid.rebuild(&gpu.cuda, context, frame).expect("a grid"));
    }

    fn query(&self, gpu: &Gpu, queries: &Sent, radius: f64, capacity: usize) -> QueryPairs {
        let context = gpu.context();
        let mut pairs = QueryPairs::room(&context, queries.at.shape()[0], capacity).expect("room");
        let (at, batch) = (queries.at.view(), queries.batch());
        self.grid.query(&gpu.cuda, &context, &at, Some(&batch), radius, &mut pairs).expect("a search");
        pairs
    }

    fn nearest(&self, gpu: &Gpu, queries: &Sent, k: usize, fill: Option<i32>) -> Nearest {
        let context = gpu.context();
        let mut found = NearestArrays::room(&context, queries.at.shape()[0], k).expect("room");
        let (at, batch) = (queries.at.view(), queries.batch());
        self.grid.nearest(&gpu.cuda, &context, &at, Some(&batch), (k, fill), &mut found).expect("a search");
        Nearest {
            indices: gpu.ints(&found.indices.view()),
            distances: gpu.read(&found.distances.view()).to_f64().unwrap(),
            shifts: gpu.ints(&found.shifts.view()).as_chunks().0.to_vec(),
            counts: gpu.ints(&found.counts.view()),
        }
    }
}

type List = (Vec<i64>, Vec<i32>, Vec<[i32; 3]>);

fn offsets(gpu: &Gpu, pairs: &QueryPairs) -> Vec<i64> {
    gpu.read(&pairs.neighbor_ptr()).to_f64().unwrap().iter().map(|x| *x as i64).collect()
}

fn read(gpu: &Gpu, pairs: &QueryPairs, grid: &DeviceGrid) -> List {
    let (ptr, list) = (offsets(gpu, pairs), pairs.list().expect("a list"));
    assert!(list.is_checked() && list.columns() == grid.points());
    let count = ptr[ptr.len() - 1] as usize;
    let shifts = gpu.ints(&list.triples().expect("three numbers for each image"));
    (ptr, gpu.ints(&list.others())[..count].to_vec(), shifts.as_chunks().0[..count].to_vec())
}

/// The CPU's list.
fn expected(grid: &HashGrid, queries: &Set, dtype: DType, radius: f64) -> List {
    let at = queries.of(dtype);
    let list = grid.query(&madelung_cpu::context(), &at.view(), &queries.batch(), radius).expect("a list");
    let csr = list.to_csr();
    (csr.neighbor_ptr.to_vec(), csr.others.to_vec(), csr.shifts.to_vec())
}

/// Coordinates as a type of single precision has them.
fn rounded(set: &Set, dtype: DType) -> Set {
    let round = |x: f64| if dtype == DType::F32 { f64::from(x as f32) } else { x };
    Set { at: set.at.iter().map(|r| r.map(round)).collect(), ptr: set.ptr.clone() }
}

fn agree(gpu: &Gpu, case: &Case, radii: &[f64]) {
    let Case { points, queries, cells, pbc, cell_size, k, .. } = case;
    for (of_points, of_queries) in
        [(DType::F64, DType::F64), (DType::F32, DType::F64), (DType::F64, DType::F32)]
    {
        let (points, queries) = (rounded(points, of_points), rounded(queries, of_queries));
        let context = madelung_cpu::context();
        let host = HashGrid::build(&context, &points.view(), Some(cells), Some(&[*pbc]), points.batch())
            .expect("a grid");
        let (there, asked) = (Sent::new(gpu, &points, of_points), Sent::new(gpu, &queries, of_queries));
        let device = Searched::new(gpu, &there, cells, *pbc, *cell_size);
        for radius in radii {
            let want = expected(&host, &queries, of_queries, *radius);
            let pairs = device.query(gpu, &asked, *radius, want.1.len());
            gpu.check().unwrap_or_else(|e| panic!("{e}: {radius} {case:?}"));
            assert_eq!(read(gpu, &pairs, &device.grid), want, "{radius} {case:?}");
        }
        let want = host
            .nearest(&context, &queries.of(of_queries).view(), &queries.batch(), *k, f64::INFINITY, Some(-1))
            .expect("the nearest");
        let got = device.nearest(gpu, &asked, *k, Some(-1));
        gpu.check().unwrap_or_else(|e| panic!("{e}: {case:?}"));
        assert_eq!(got, want, "{case:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn finds_what_the_cpu_finds(case in case()) {
        agree(&Gpu::new(), &case, &[case.radius, 0.0, 6.0]);
    }
}

fn alone(points: &Set, queries: &Set, pbc: [bool; 3], cell_size: f64, k: usize) -> Case {
    let (points, queries) = (points.clone(), queries.clone());
    Case { points, moved: vec![], queries, cells: vec![CUBE], pbc, radius: 0.0, cell_size, k }
}

/// Rows of more than one round of a warp, for lists and for the nearest; points of one cell and of many.
#[test]
fn long_rows_and_far_points() {
    let gpu = Gpu::new();
    for at in clusters() {
        let points = one(&at);
        let queries = one(&[at[0], at[399], [0.01, 0.01, 0.0], [-2e9, 0.0, 1.0]]);
        agree(&gpu, &alone(&points, &queries, [false; 3], 1.0, 70), &[0.0015, 2.0, 3e8]);
    }
    let few = one(&[[0.1, 0.2, 0.3], [2.0, 2.0, 2.0]]);
    let periodic = alone(&few, &one(&[[0.0; 3], [40.0, -9.0, 2.0]]), [true; 3], 0.7, 300);
    agree(&gpu, &periodic, &[13.0]);
    agree(&gpu, &Case { pbc: [true, false, true], ..periodic }, &[20.0]);
    // No points on one side or the other.
    let none = one(&[]);
    agree(&gpu, &alone(&none, &few, [true; 3], 1.0, 3), &[2.0]);
    agree(&gpu, &alone(&few, &none, [true; 3], 1.0, 3), &[2.0]);
}

/// Rows on both sides of each number of entries from which they are sorted in another way.
#[test]
fn rows_of_any_length() {
    let gpu = Gpu::new();
    let at = |n: usize| [0.755, 0.57, 0.43].map(|x| (n as f64 * x).fract());
    for points in [1, 32, 33, 128, 129, 256, 257, 512, 513, 1024, 1025] {
        let points: Vec<_> = (0..points).map(at).collect();
        agree(&gpu, &alone(&one(&points), &one(&[[0.5; 3]]), [false; 3], 0.3, 5), &[2.0]);
    }
}

#[test]
fn neither_blocks_nor_threads_have_an_order() {
    let gpu = Gpu::new();
    let [clustered, ..] = clusters();
    let case = alone(&one(&clustered), &one(&clustered[..40]), [true; 3], 0.5, 9);
    for order in [Order::Backwards, Order::Shuffled(3)] {
        set_order(order);
        agree(&gpu, &case, &[0.004, 1.0]);
    }
    set_order(Order::Forwards);
}

#[test]
fn a_capacity_says_what_is_needed() {
    let gpu = Gpu::new();
    let points = one(&[[0.0; 3], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]);
    let sent = Sent::new(&gpu, &points, DType::F64);
    let device = Searched::new(&gpu, &sent, &[CUBE], [false; 3], 1.0);
    let short = device.query(&gpu, &sent, 1.0, 6);
    assert_eq!(offsets(&gpu, &short), [0, 2, 5, 7]);
    assert_eq!(
        gpu.error(),
        "`radius_query::capacity`: expected room for all that there is, got a capacity that is too small"
    );
    let enough = device.query(&gpu, &sent, 1.0, 9);
    gpu.check().expect("room for all");
    assert_eq!(read(&gpu, &enough, &device.grid).1, [0, 1, 0, 1, 2, 1, 2]);
}

/// Points move, the grid is built again and searched, all in one graph.
#[test]
fn a_graph_follows_the_points() {
    let gpu = Gpu::new();
    let (before, after) =
        ([[0.0; 3], [1.0, 0.0, 0.0], [3.5, 1.0, 0.0]], [[2.0, 0.5, 0.0], [1.0, 3.9, 0.0], [-0.5; 3]]);
    let sent = Sent::new(&gpu, &one(&before), DType::F64);
    let context = gpu.context();
    let mut device = Searched::new(&gpu, &sent, &[CUBE], [true; 3], 1.2);
    let mut pairs = QueryPairs::room(&context, 3, 100).expect("room");
    let (at, batch) = (sent.at.view(), sent.batch());
    let mut step = || {
        device.rebuild(&gpu, &context, &sent);
        device.grid.query(&gpu.cuda, &context, &at, Some(&batch), 1.7, &mut pairs)
    };
    step().expect("a search");
    let graph = Graph::capture(gpu.cuda.stream(), |_| step()).expect("a graph");
    for at in [after, before] {
        gpu.overwrite(&sent.at, at.as_flattened());
        gpu.replay(&graph);
        gpu.check().expect("nothing wrong");
        let points = one(&at);
        let host =
            HashGrid::build(&madelung_cpu::context(), &points.view(), Some(&[CUBE]), None, points.batch());
        assert_eq!(
            read(&gpu, &pairs, &device.grid),
            expected(&host.expect("a grid"), &points, DType::F64, 1.7)
        );
    }
}

#[test]
fn what_is_wrong_is_found_there() {
    let gpu = Gpu::new();
    let good = one(&[[0.0; 3], [1.0, 0.0, 0.0]]);
    let sent = Sent::new(&gpu, &good, DType::F64);
    let device = Searched::new(&gpu, &sent, &[CUBE], [true; 3], 1.0);
    let failed = |start: &str| {
        let error = gpu.error();
        assert!(error.starts_with(start), "{error}");
    };
    // A list that was not made is refused by its offsets.
    let refused = |device: &Searched, queries: &Sent, radius: f64, start: &str| {
        let pairs = device.query(&gpu, queries, radius, 20);
        failed(start);
        assert!(offsets(&gpu, &pairs)[1..].iter().all(|end| *end == 21));
    };
    let with = |at: [f64; 3]| Sent::new(&gpu, &one(&[[0.0; 3], at]), DType::F64);
    refused(&device, &with([f64::NAN, 0.0, 0.0]), 1.0, "`radius_query::queries`: expected finite numbers");
    refused(&device, &with([1e300, 0.0, 0.0]), 1.0, "`radius_query::queries`");
    refused(&device, &sent, 1e5, "`radius_query::radius`");
    for bad in [[0.0, f64::INFINITY, 0.0], [0.0, 1e300, 0.0]] {
        let broken = Searched::new(&gpu, &with(bad), &[CUBE], [true; 3], 1.0);
        failed("`hash_grid::points`");
        refused(&broken, &sent, 1.0, "`radius_query::grid`");
        let found = broken.nearest(&gpu, &sent, 1, None);
        failed("`nearest::grid`");
        assert!(found.distances.iter().all(|d| d.is_nan()) && found.indices == [-1, -1]);
    }
    let flat = Searched::new(&gpu, &sent, &[[[1.0, 0.0, 0.0]; 3]], [true; 3], 1.0);
    failed("`hash_grid::cell`");
    refused(&flat, &sent, 1.0, "`radius_query::grid`");
    // Fewer than are asked for.
    let open = Searched::new(&gpu, &sent, &[CUBE], [false; 3], 1.0);
    let found = open.nearest(&gpu, &sent, 3, None);
    assert_eq!(
        gpu.error(),
        "`nearest::k`: expected no more than there are points (or a fill value), got more"
    );
    assert_eq!((found.counts, found.distances.iter().all(|d| d.is_nan())), (vec![2, 2], true));
    assert_eq!(open.nearest(&gpu, &sent, 3, Some(2)).indices, [0, 1, 2, 1, 0, 2]);
    gpu.check().expect("a fill value");
}

#[test]
fn what_the_host_sees_is_an_error_at_once() {
    let gpu = Gpu::new();
    let context = gpu.context();
    let sent = Sent::new(&gpu, &one(&[[0.0; 3], [1.0, 0.0, 0.0]]), DType::F64);
    let device = Searched::new(&gpu, &sent, &[CUBE], [true; 3], 1.0);
    let names = |result: madelung_core::Result<()>, name: &str| {
        let error = result.expect_err(name).to_string();
        assert!(error.starts_with(&format!("`{name}`")), "{error}");
    };
    let frame = |size: f64, at: &Array| {
        let (positions, cell, batch) = (at.view(), device.cell.view(), sent.batch());
        let pbc = Periodic::All([true; 3]);
        let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
        DeviceGrid::build(&gpu.cuda, &context, &frame, size).map(|_| ())
    };
    names(frame(0.0, &sent.at), "cell_size");
    names(frame(f64::NAN, &sent.at), "cell_size");
    let other = gpu.upload(DType::F64, &[3, 3], &[0.0; 9]);
    names(frame(1.0, &other), "points");
    names(frame(1.0, &gpu.read(&sent.at.view())), "points");
    let query = |at: &Array, batch: Option<&DeviceBatch<'_>>, radius: f64, capacity: usize| {
        let mut pairs = QueryPairs::room(&context, 2, capacity)?;
        device.grid.query(&gpu.cuda, &context, &at.view(), batch, radius, &mut pairs)
    };
    names(query(&sent.at, None, -1.0, 9), "radius");
    names(query(&sent.at, None, f64::INFINITY, 9), "radius");
    names(query(&sent.at, None, 1.0, usize::MAX), "capacity");
    names(query(&other, Some(&sent.batch()), 1.0, 9), "queries");
    names(query(&gpu.read(&sent.at.view()), None, 1.0, 9), "queries");
    let two = Sent::new(&gpu, &Set { at: vec![[0.0; 3]; 2], ptr: vec![0, 1, 2] }, DType::F64);
    names(query(&two.at, Some(&two.batch()), 1.0, 9), "batch_idx");
    query(&sent.at, None, 1.0, 9).expect("one system needs no batch");
    let nearest = |k: usize, fill: Option<i32>, room: usize| {
        let mut found = NearestArrays::room(&context, 2, room)?;
        device.grid.nearest(&gpu.cuda, &context, &sent.at.view(), None, (k, fill), &mut found)
    };
    names(nearest(1, Some(1), 1), "fill_value");
    names(nearest(usize::MAX, None, 1), "k");
    names(nearest(2, None, 1), "indices");
}

/// An allocator that has nothing.
struct Nothing;

impl Allocator for Nothing {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> madelung_core::Result<Array> {
        self.room(dtype, shape)
    }

    fn room(&self, _: DType, _: &[usize]) -> madelung_core::Result<Array> {
        Err(madelung_core::Error::Driver("out of memory".into()))
    }

    fn recycle(&self, _: Array) {}
}

#[test]
fn a_grid_that_could_not_be_built_again_is_refused() {
    let gpu = Gpu::new();
    let sent = Sent::new(&gpu, &one(&[[0.0; 3], [1.0, 0.0, 0.0]]), DType::F64);
    let mut device = Searched::new(&gpu, &sent, &[CUBE], [true; 3], 1.0);
    let context = Context { allocator: &Nothing, ..gpu.context() };
    let Searched { grid, cell, pbc } = &mut device;
    let error = Searched::frame(&sent, cell, pbc, |frame| grid.rebuild(&gpu.cuda, &context, frame));
    assert!(error.expect_err("no memory").to_string().contains("out of memory"));
    let mut pairs = QueryPairs::room(&gpu.context(), 2, 9).expect("room");
    let query = device.grid.query(&gpu.cuda, &gpu.context(), &sent.at.view(), None, 1.0, &mut pairs);
    let error = query.expect_err("no grid").to_string();
    assert!(error.starts_with("`grid`: expected one that was built"), "{error}");
    device.rebuild(&gpu, &gpu.context(), &sent);
    device.query(&gpu, &sent, 1.0, 9);
    gpu.check().expect("a grid again");
}

/// Searches once more.
#[test]
fn no_two_threads_race() {
    madelung_stand_in::look_for_races(&[
        "hash_grid::device::a_",
        "hash_grid::device::long_rows",
        "hash_grid::device::what_is",
    ]);
}
