//! Ops whose grids lie in the memory of a device, against the CPU.

use super::support::{
    Arguments, Inputs, PBC, POINTS, RADIUS, array, batches, blur_op, grid, inputs, wiggles,
};
use super::{COUNT, Way, along, answers, answers_of, average_op, dot, open, value_and_gradient};
use crate::gpu::{Gpu, SentBatch};
use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::structure::Batch;
use madelung_cuda::Graph;
use madelung_neighbors::DeviceGrid;
use madelung_neighbors::{DeviceFrame, Periodic};

/// A capacity with room for all pairs, and some more.
const CAPACITY: usize = 700;

/// The grid over an array of points.
fn built(
    gpu: &Gpu,
    points: &Array,
    cells: Option<(&Array, [[bool; 3]; 3])>,
    batch: &Batch<'_>,
) -> DeviceGrid {
    let sent = SentBatch::new(gpu, batch);
    let (positions, cell, batch) = (points.view(), cells.map(|(cell, _)| cell.view()), sent.batch());
    let pbc = match cells {
        Some((_, axes)) => {
            let axes: Vec<f64> =
                axes.as_flattened().iter().map(|periodic| f64::from(u8::from(*periodic))).collect();
            Some(gpu.upload(DType::I32, &[3, 3], &axes))
        }
        None => None,
    };
    let pbc = pbc.as_ref().map_or(Periodic::All([false; 3]), |axes| Periodic::Each(axes.view()));
    let frame = DeviceFrame { positions: &positions, cell: cell.as_ref(), pbc: &pbc, batch: &batch };
    DeviceGrid::build(&gpu.cuda, &gpu.context(), &frame, 1.4).expect("a grid")
}

/// The arguments of [`blur_op`] there.
struct Sent {
    arrays: Vec<Array>,
    batches: [SentBatch; 2],
    grid: DeviceGrid,
}

impl Sent {
    fn new(gpu: &Gpu, inputs: &Inputs, dtype: DType) -> Self {
        let given = Arguments::new(inputs, dtype);
        let arrays: Vec<Array> = given.arrays.iter().map(|a| gpu.copy(&a.view())).collect();
        let grid = built(gpu, &arrays[1], Some((&arrays[2], PBC)), &given.batches[1]);
        Self { arrays, batches: given.batches.each_ref().map(|batch| SentBatch::new(gpu, batch)), grid }
    }
}

/// Calls `f` with the arguments of [`blur_op`].
fn with<T>(
    sent: &Sent,
    grid: &DeviceGrid,
    radius: f64,
    capacity: usize,
    f: impl FnOnce(&[Arg<'_>]) -> T,
) -> T {
    let batches = sent.batches.each_ref().map(SentBatch::batch);
    let mut args: Vec<Arg<'_>> = sent.arrays.iter().map(|a| Arg::Array(a.view())).collect();
    args.push(Arg::Real(radius));
    args.extend(batches.iter().map(|batch| Arg::Structure(batch)));
    let grid = grid.with_capacity(capacity);
    args.push(Arg::Grid(&grid));
    f(&args)
}

#[track_caller]
fn close(got: &[Array], want: &[Array], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()));
        let (got, want) = (got.to_f64().unwrap(), want.to_f64().unwrap());
        let difference: Vec<f64> = got.iter().zip(&want).map(|(a, b)| a - b).collect();
        assert!(
            dot(&difference, &difference).sqrt() <= tolerance * dot(&want, &want).sqrt(),
            "{n}: {got:?} {want:?}"
        );
    }
}

#[test]
fn all_members_are_those_of_the_cpu() {
    let (gpu, inputs, direction) = (Gpu::new(), inputs(), along(3.0));
    for (dtype, tolerance) in [(DType::F64, 1e-14), (DType::F32, 1e-5)] {
        let (given, host) = (Arguments::new(&inputs, dtype), grid(&inputs));
        let sent = Sent::new(&gpu, &inputs, dtype);
        for scatter in [false, true] {
            let context = Context { scatter, ..madelung_cpu::context() };
            let want = answers(&context, &blur_op(false), &given.with(Arg::Grid(&host)), dtype, &direction);
            let context = Context { scatter, ..gpu.context() };
            let ways: [Way<'_>; 2] = [&|array| gpu.copy(&array.view()), &|array| gpu.read(&array.view())];
            let got = with(&sent, &sent.grid, RADIUS, CAPACITY, |args| {
                answers_of(&context, &blur_op(false), args, dtype, &direction, ways)
            });
            gpu.check().expect("nothing wrong");
            for (got, want) in [
                (got.values, want.values),
                (got.gradients, want.gradients),
                (got.products, want.products),
                (got.tangents, want.tangents),
            ] {
                close(&got, &want, tolerance);
            }
        }
    }
}

/// Positions, and the grid with them, in one graph with the op.
#[test]
fn a_graph_searches_again() {
    let (gpu, inputs) = (Gpu::new(), inputs());
    let mut sent = Sent::new(&gpu, &inputs, DType::F64);
    let context = gpu.context();
    let other = SentBatch::new(&gpu, &batches()[1]);
    let mut out = vec![];
    let mut step = |sent: &mut Sent| -> Result<()> {
        let (positions, cell, batch) = (sent.arrays[1].view(), sent.arrays[2].view(), other.batch());
        let pbc = Periodic::All([true; 3]);
        let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
        // The memory of the results before is that of the next, and of what is made ahead of these.
        out.clear();
        sent.grid.rebuild(&gpu.cuda, &context, &frame)?;
        out = with(sent, &sent.grid, RADIUS, 2 * CAPACITY, |args| blur_op(false).value(&context, args))?;
        Ok(())
    };
    step(&mut sent).expect("a step");
    let graph = Graph::capture(gpu.cuda.stream(), |_| step(&mut sent)).expect("a graph");
    let mut moved = inputs.clone();
    for phase in [0.0, 2.5] {
        for n in [0, 1] {
            moved[n] = wiggles(inputs[n].len(), phase + n as f64).iter().map(|x| 3.0 * x).collect();
            gpu.overwrite(&sent.arrays[n], &moved[n]);
        }
        gpu.replay(&graph);
        gpu.check().expect("nothing wrong");
        let given = Arguments::new(&moved, DType::F64);
        let cells: Vec<[[f64; 3]; 3]> = moved[2].as_chunks::<3>().0.as_chunks::<3>().0.to_vec();
        let [_, batch] = batches();
        let view = given.arrays[1].view();
        let host = madelung_neighbors::grid::HashGrid::build(
            &madelung_cpu::context(),
            &view,
            Some(&cells),
            None,
            batch,
        );
        let want =
            blur_op(false).value(&madelung_cpu::context(), &given.with(Arg::Grid(&host.expect("a grid"))));
        let got: Vec<Array> = out.iter().map(|a| gpu.read(&a.view())).collect();
        close(&got, &want.expect("values"), 1e-14);
    }
}

/// Arrays for the pairs have room for as many as the list.
#[test]
fn arrays_of_the_pairs_that_are_found() {
    let gpu = Gpu::new();
    let shapes: [&[usize]; 3] = [&[5, 3], &[9, 3], &[9]];
    let phases = [0.2, 1.1, 2.0];
    let numbers = |n: usize| wiggles(shapes[n].iter().product(), phases[n]);
    let arrays: [Array; 3] = std::array::from_fn(|n| array(DType::F64, shapes[n], &numbers(n)));
    let host = open(&arrays[1]);
    let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
    args.extend([Arg::Real(0.9), Arg::Grid(&host)]);
    let (value, gradient) = value_and_gradient(&madelung_cpu::context(), &average_op(), &args, 3);
    let there = arrays.each_ref().map(|a| gpu.copy(&a.view()));
    let points = built(&gpu, &there[1], None, &Batch::single(9).expect("a batch"));
    let mut args: Vec<Arg<'_>> = there.iter().map(|a| Arg::Array(a.view())).collect();
    let points = points.with_capacity(40);
    args.extend([Arg::Real(0.9), Arg::Grid(&points)]);
    let context = gpu.context();
    let got = average_op().value(&context, &args).expect("queued").remove(0);
    let w = gpu.upload(DType::F64, &[5], &wiggles(5, 0.7));
    let cotangents = [Some(Cotangent::Array(w.view()))];
    let request = Request { cotangents: &cotangents, gradients: &[0, 1, 2], ..Request::default() };
    let gradients = average_op().evaluate(&context, &args, &request).expect("queued").gradients;
    gpu.check().expect("nothing wrong");
    close(&[gpu.read(&got.view())], &[array(DType::F64, &[5], &value)], 1e-14);
    for (got, want) in gradients.iter().zip(&gradient) {
        close(&[gpu.read(&got.view())], &[array(DType::F64, got.shape(), want)], 1e-14);
    }
}

#[test]
fn counting_without_batches() {
    let gpu = Gpu::new();
    let op = Op::new("test", "count", 1)
        .real("x", &["Query", "3"])
        .stored()
        .real("r", &["Point", "3"])
        .scalar("radius");
    let op = op.grid("grid", "Query", "Point", "r").integer_output("found", &["Query"], DType::I32);
    let op = op.integer_output("images", &["Query"], DType::I32).step(&COUNT).build().expect("an op");
    let x = gpu.upload(DType::F16, &[3, 3], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 5.0, 0.0, 0.0]);
    let r = gpu.upload(DType::F64, &[2, 3], &[0.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
    let grid = built(&gpu, &r, None, &Batch::single(2).expect("a batch"));
    let call = |radius: f64| {
        let grid = grid.with_capacity(6);
        let grid = Arg::Grid(&grid);
        let args = [Arg::Array(x.view()), Arg::Array(r.view()), Arg::Real(radius), grid];
        op.value(&gpu.context(), &args).map(|found| gpu.ints(&found[0].view()))
    };
    assert_eq!(call(1.0).expect("counts"), [1, 2, 0]);
    assert_eq!(call(0.0).expect("counts"), [1, 0, 0]);
    gpu.check().expect("nothing wrong");
    let error = call(-1.0).expect_err("a negative radius").to_string();
    assert!(error.starts_with("`radius`: expected a finite number ≥ 0"), "{error}");
}

/// Points of another type than the queries, whose precision decides.
#[test]
fn points_of_another_type() {
    let gpu = Gpu::new();
    let op = Op::new("test", "count", 1).real("x", &["Query", "3"]).real("r", &["Point", "3"]).stored();
    let op = op.scalar("radius").grid("grid", "Query", "Point", "r");
    let op = op.integer_output("found", &["Query"], DType::I32);
    let op = op.integer_output("images", &["Query"], DType::I32).step(&COUNT).build().expect("an op");
    let x = array(DType::F32, &[1, 3], &[0.0; 3]);
    let r = array(DType::F64, &[2, 3], &[1.0 + 1e-6, 0.0, 0.0, 1.0 - 1e-6, 0.0, 0.0]);
    let (host, sent) = (open(&r), [&x, &r].map(|a| gpu.copy(&a.view())));
    let there = built(&gpu, &sent[1], None, &Batch::single(2).expect("a batch"));
    let args = [Arg::Array(x.view()), Arg::Array(r.view()), Arg::Real(1.0), Arg::Grid(&host)];
    let want = op.value(&madelung_cpu::context(), &args).expect("counts");
    let there = there.with_capacity(2);
    let grid = Arg::Grid(&there);
    let args = [Arg::Array(sent[0].view()), Arg::Array(sent[1].view()), Arg::Real(1.0), grid];
    let got = op.value(&gpu.context(), &args).expect("counts");
    gpu.check().expect("nothing wrong");
    assert_eq!((want[0].to_f64().unwrap(), gpu.ints(&got[0].view())), (vec![1.0], vec![1]));
}

#[test]
fn what_is_wrong_with_a_grid_is_found_there() {
    let (gpu, mut inputs) = (Gpu::new(), inputs());
    let context = gpu.context();
    let sent = Sent::new(&gpu, &inputs, DType::F64);
    let call = |grid: &DeviceGrid, radius: f64, capacity: usize| {
        with(&sent, grid, radius, capacity, |args| blur_op(false).value(&context, args))
    };
    let fails = |grid: &DeviceGrid, radius: f64, capacity: usize, start: &str| {
        let values = call(grid, radius, capacity).expect("queued");
        let error = gpu.error();
        assert!(error.starts_with(start), "{error}");
        assert!(values.iter().all(|a| gpu.read(&a.view()).to_f64().unwrap().iter().all(|x| x.is_nan())));
    };
    // Moved since it was built.
    inputs[1][17] += 1e-15 + inputs[1][17] * 1e-15;
    let moved = Sent::new(&gpu, &inputs, DType::F64);
    fails(&moved.grid, RADIUS, CAPACITY, "`test::blur.v1::list`: expected a grid of the call's points");
    fails(&sent.grid, RADIUS, 10, "`test::blur.v1::list`: expected room for all that there is");
    fails(&sent.grid, 1e5, CAPACITY, "`test::blur.v1::radius`");
    // The grid's points, in other systems.
    let others = Batch::from_ptr(&[0, 7, 14, POINTS[3]][..]).expect("a batch");
    let mixed = built(&gpu, &sent.arrays[1], Some((&sent.arrays[2], PBC)), &others);
    fails(&mixed, RADIUS, CAPACITY, "`test::blur.v1::list`: expected a grid of the call's points");
    // One that could not be built.
    inputs[1][4] = f64::NAN;
    let broken = Sent::new(&gpu, &inputs, DType::F64);
    assert!(gpu.error().starts_with("`hash_grid::points`"));
    fails(&broken.grid, RADIUS, CAPACITY, "`test::blur.v1::list`: expected finite numbers");
    call(&sent.grid, RADIUS, CAPACITY).expect("queued");
    gpu.check().expect("the device stays usable");
    // Errors that the host finds.
    let refused = |result: Result<Vec<Array>>, text: &str| {
        let error = result.expect_err(text).to_string();
        assert!(error.starts_with(text), "{error}");
    };
    let one = built(&gpu, &sent.arrays[1], None, &Batch::single(POINTS[3] as usize).expect("a batch"));
    refused(
        call(&one, RADIUS, CAPACITY),
        "`list`: expected a grid over 3 systems, as `queries` has, got 1 systems",
    );
    let host = Arguments::new(&super::inputs(), DType::F64);
    let there = sent.grid.with_capacity(CAPACITY);
    let on_host = host.with(Arg::Grid(&there));
    refused(blur_op(false).value(&madelung_cpu::context(), &on_host), "`list`: expected memory of cpu");
}
