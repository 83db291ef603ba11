//! What a call on a device does besides computing: errors that it finds there, graphs, orders, batches, other devices.

use super::device::Gpu;
use super::streams;
use crate::common::systems::{SplitMix64, random_system, triclinic_cell};
use crate::support;
use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::backend::pool::Serial;
use madelung::cuda::{Device, Graph, Memory, Stream, check};
use madelung::device::{DeviceBatch, DevicePairs};
use madelung::electrostatics::registry;
use madelung::op::{Arg, Cotangent, Evaluated, Request};
use madelung::pairs::Kind;
use madelung::{Error, Result};
use madelung_stand_in::{UNASKED, calls, is_real};
use std::collections::BTreeMap;

const CUTOFF: f64 = 5.0;

/// The arrays of a call of `ewald_real_space`, by name, where anything may be wrong.
struct Arrays(BTreeMap<&'static str, Array>);

/// Systems of some atoms each, with a full list.
fn arrays(sizes: &[usize]) -> Arrays {
    let system =
        |(n, atoms): (usize, &usize)| random_system(n as u64 + 7, *atoms, triclinic_cell(300.0), 0.0, 1.0);
    let systems: Vec<_> = sizes.iter().enumerate().map(system).collect();
    let given = support::Arrays::new(&systems, DType::F64);
    let found = given.system().neighbor_list(CUTOFF, &Serial).expect("a list");
    let (batch, list) = (given.batch(), found.rows(&Serial));
    let ptr: Vec<i64> = list.starts().iter().chain(list.ends().last()).copied().collect();
    Arrays(BTreeMap::from([
        ("positions", given.positions),
        ("charges", given.charges),
        ("cell", given.cell),
        ("alpha", View::from(&vec![0.4; sizes.len()]).to_array().unwrap()),
        ("strain", Array::zeros(DType::F64, &[sizes.len(), 3, 3])),
        ("batch_idx", View::from(batch.idx()).to_array().unwrap()),
        ("batch_ptr", View::from(batch.ptr()).to_array().unwrap()),
        ("ptr", View::from(&ptr).to_array().unwrap()),
        ("others", View::from(list.others()).to_array().unwrap()),
        ("shifts", View::from(&*list.shifts()).to_array().unwrap()),
    ]))
}

impl Arrays {
    /// With one element changed.
    fn with(&self, name: &'static str, at: usize, x: f64) -> Self {
        let old = &self.0[name];
        let mut numbers = old.to_f64().unwrap();
        numbers[at] = x;
        let new = Array::from_f64(old.dtype(), old.shape(), &numbers).expect("the same shape");
        self.with_array(name, new)
    }

    fn with_array(&self, name: &'static str, array: Array) -> Self {
        let copy = |(name, array): (&&'static str, &Array)| (*name, array.try_clone().unwrap());
        let mut arrays: BTreeMap<_, _> = self.0.iter().map(copy).collect();
        arrays.insert(name, array);
        Self(arrays)
    }

    fn upload(&self, memory: &Memory) -> Self {
        let sent = self.0.iter().map(|(name, array)| (*name, memory.upload(&array.view()).expect("room")));
        Self(sent.collect())
    }

    /// Energies and forces (with their sign turned) from arrays on the device.
    fn evaluate(&self, context: &Context<'_>, kind: Kind) -> Result<Evaluated> {
        let view = |name: &str| self.0[name].view();
        let mut room = context.allocator.room(DType::I32, &[view("cell").shape()[0] + 1])?;
        let batch = match self.0.get("batch_ptr") {
            Some(ptr) => DeviceBatch::new(view("batch_idx"), ptr.view())?,
            None => DeviceBatch::derived(view("batch_idx"), &mut room)?,
        };
        let (ptr, n) = (view("ptr"), view("positions").shape()[0]);
        let mut wide = context.allocator.room(DType::I64, &[n + 1])?;
        let pairs = if ptr.dtype() == DType::I32 {
            DevicePairs::widened(ptr, &mut wide, view("others"), view("shifts"), n, kind)?
        } else {
            DevicePairs::from_csr(ptr, view("others"), view("shifts"), n, kind)?
        };
        let args = [
            Arg::Array(view("positions")),
            Arg::Array(view("charges")),
            Arg::Array(view("cell")),
            Arg::Array(view("alpha")),
            Arg::Array(view("strain")),
            Arg::Structure(&batch),
            Arg::Real(1.0),
            Arg::Structure(&pairs),
            Arg::Real(CUTOFF),
        ];
        let op = registry().get("ewald_real_space").expect("an op of the registry");
        let cotangents = [Some(Cotangent::Uniform(1.0))];
        let request =
            Request { values: true, cotangents: &cotangents, gradients: &[0], ..Request::default() };
        op.evaluate(context, &args, &request)
    }
}

fn read(stream: Stream, done: &Evaluated) -> Vec<Vec<f64>> {
    let arrays = done.values.iter().chain(&done.gradients);
    arrays.map(|a| stream.read(&a.view()).expect("an array of the device").to_f64().unwrap()).collect()
}

fn run(gpu: &Gpu, arrays: &Arrays) -> Vec<Vec<f64>> {
    let done = arrays.upload(&gpu.memory).evaluate(&gpu.context(), Kind::Full).expect("a call");
    read(gpu.stream(), &done)
}

/// What is wrong is found on the device: results are NaN, the next look says which argument of which call it was and then
/// forgets it, and nothing else is the worse for it.
#[test]
fn what_is_wrong_is_found_there() {
    let gpu = Gpu::alone();
    let good = arrays(&[9, 7]);
    let right = run(&gpu, &good);
    let n = good.0["others"].shape()[0];
    let short = |name, rows: usize| {
        let array = &good.0[name];
        array.view().rows(0, rows).expect("some rows").to_array().unwrap()
    };
    let one_sided = good.with("shifts", 0, 30.0);
    let cases: [(&str, Arrays, &str, &str); 17] = [
        (
            "a column beyond the atoms",
            good.with("others", 3, 16.0),
            "pairs",
            "indices of rows that are there",
        ),
        ("a negative column", good.with("others", n - 1, -1.0), "pairs", "indices of rows that are there"),
        ("a pair of two systems", good.with("others", 0, 12.0), "pairs", "pairs within one system"),
        ("a pair from one side", one_sided, "pairs", "a full list"),
        ("offsets that fall", good.with("ptr", 4, 1.0), "pairs", "offsets that never fall"),
        ("offsets below zero", good.with("ptr", 0, -2.0), "pairs", "offsets that never fall"),
        (
            "a capacity that was passed",
            good.with_array("others", short("others", n - 3)).with_array("shifts", short("shifts", n - 3)),
            "pairs",
            "room for all that there is",
        ),
        ("a batch without order", good.with("batch_idx", 2, 1.0), "atoms", "systems one after the other"),
        (
            "a system that ends far away",
            good.with("batch_ptr", 1, 1e8),
            "atoms",
            "systems one after the other",
        ),
        (
            "a system that begins before all",
            good.with("batch_ptr", 0, -5.0),
            "atoms",
            "systems one after the other",
        ),
        ("systems of fewer atoms", good.with("batch_ptr", 2, 3.0), "atoms", "systems one after the other"),
        ("a system that is not there", good.with("batch_idx", 15, 7.0), "atoms", "indices of rows"),
        ("a number that is none", good.with("positions", 11, f64::NAN), "positions", "finite numbers"),
        ("an infinity", good.with("charges", 1, f64::INFINITY), "charges", "finite numbers"),
        (
            "a flat cell",
            good.with_array("cell", Array::filled(DType::F64, &[2, 3, 3], 1.0)),
            "cell",
            "span a volume",
        ),
        ("alpha of nothing", good.with("alpha", 1, 0.0), "alpha", "finite numbers > 0"),
        ("a deformation", good.with("strain", 4, 0.1), "strain", "zeros"),
    ];
    for (what, wrong, argument, expected) in cases {
        for numbers in run(&gpu, &wrong) {
            assert!(numbers.iter().all(|x| x.is_nan()), "{what}: {numbers:?}");
        }
        let error = check(gpu.device()).expect_err(what).to_string();
        assert!(error.contains(&format!("ewald_real_space.v1::{argument}`")), "{what}: {error}");
        assert!(error.contains(expected), "{what}: {error}");
        assert_eq!(check(gpu.device()), Ok(()), "{what}");
        assert_eq!(run(&gpu, &good), right, "after {what}");
    }
    // The first of several stays.
    run(&gpu, &good.with("alpha", 0, -1.0));
    run(&gpu, &good.with("others", 3, 99.0));
    assert!(check(gpu.device()).is_err_and(|e| e.to_string().contains("::alpha")));
}

/// Where systems begin need not be given.
#[test]
fn a_batch_is_derived_from_the_system_of_each_atom() {
    let gpu = Gpu::alone();
    let derived = |mut arrays: Arrays| {
        arrays.0.remove("batch_ptr");
        arrays
    };
    for sizes in [&[9, 7][..], &[0, 5, 0, 0, 11, 0], &[13]] {
        assert_eq!(run(&gpu, &derived(arrays(sizes))), run(&gpu, &arrays(sizes)), "{sizes:?}");
    }
    let good = derived(arrays(&[9, 7]));
    let order = "systems one after the other";
    for (at, of, expected) in [(2, 1.0, order), (15, 7.0, "indices of rows"), (0, -1.0, "indices of rows")] {
        let results = run(&gpu, &good.with("batch_idx", at, of));
        assert!(results.iter().flatten().all(|x| x.is_nan()), "{expected}");
        let error = check(gpu.device()).expect_err(expected).to_string();
        assert!(error.contains("ewald_real_space.v1::atoms`") && error.contains(expected), "{error}");
    }
}

/// Offsets may be integers of 32 bits.
#[test]
fn offsets_are_widened() {
    let gpu = Gpu::alone();
    let wide = arrays(&[9, 7]);
    let ptr: Vec<i32> = wide.0["ptr"].to_f64().unwrap().iter().map(|x| *x as i32).collect();
    let narrow = |ptr: &[i32]| wide.with_array("ptr", View::from(ptr).to_array().unwrap());
    assert_eq!(run(&gpu, &narrow(&ptr)), run(&gpu, &wide));
    let mut falls = ptr.clone();
    falls[4] = 1;
    let mut too_far = ptr.clone();
    too_far[16] += 1;
    for (wrong, expected) in [(falls, "offsets that never fall"), (too_far, "room for all that there is")] {
        assert!(run(&gpu, &narrow(&wrong)).iter().flatten().all(|x| x.is_nan()), "{expected}");
        let error = check(gpu.device()).expect_err(expected).to_string();
        assert!(error.contains("ewald_real_space.v1::pairs`") && error.contains(expected), "{error}");
    }
}

/// Two charges on one place have no finite energy: that is seen in the results.
#[test]
fn results_that_are_not_finite_are_found_there() {
    let gpu = Gpu::alone();
    let arrays = arrays(&[9]);
    let there = arrays.0["positions"].to_f64().unwrap();
    let (ptr, others) = (arrays.0["ptr"].to_f64().unwrap(), arrays.0["others"].to_f64().unwrap());
    let shifts = arrays.0["shifts"].to_f64().unwrap();
    let inside =
        (0..others.len()).find(|k| shifts[3 * k..3 * k + 3] == [0.0; 3]).expect("a pair in one cell");
    let i = ptr.iter().rposition(|first| *first <= inside as f64).expect("its row");
    let j = others[inside] as usize;
    let moved = (0..3).fold(arrays, |a, c| a.with("positions", 3 * j + c, there[3 * i + c]));
    run(&gpu, &moved);
    let error = check(gpu.device()).expect_err("an infinite energy").to_string();
    assert!(error.contains("ewald_real_space") && error.contains("a finite result"), "{error}");
}

#[test]
fn arrays_of_the_host_are_refused_by_name() {
    let gpu = Gpu::alone();
    let host = arrays(&[5]);
    for name in ["positions", "alpha"] {
        let mut mixed = host.upload(&gpu.memory);
        mixed.0.insert(name, host.0[name].try_clone().unwrap());
        let error = mixed.evaluate(&gpu.context(), Kind::Full).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("cuda:0") && error.contains("cpu"), "{error}");
    }
    let there = host.upload(&gpu.memory);
    let error = there.evaluate(&madelung::cpu::context(), Kind::Full).expect_err("the host").to_string();
    assert!(error.contains("positions") && error.contains("cuda:0"), "{error}");
}

/// Blocks and threads run as they like.
#[test]
fn the_order_of_threads_changes_no_bit() {
    use madelung_stand_in::{Order, set_order};
    let gpu = Gpu::alone();
    let arrays = arrays(&[30, 0, 11]);
    let first = run(&gpu, &arrays);
    for order in [Order::Backwards, Order::Shuffled(1), Order::Shuffled(2)] {
        set_order(order);
        let again = run(&gpu, &arrays);
        set_order(Order::Forwards);
        assert_eq!(again, first, "{order:?}");
    }
}

#[test]
fn a_system_has_the_same_bits_alone_and_in_a_batch() {
    let gpu = Gpu::alone();
    let together = run(&gpu, &arrays(&[21, 8]));
    let alone = run(&gpu, &arrays(&[21]));
    assert_eq!(together[0][..21], alone[0][..]);
    assert_eq!(together[1][..63], alone[1][..]);
}

/// A second device, while the first one is current for whoever calls.
#[test]
fn the_second_device_is_as_good() {
    let first = Gpu::alone();
    if Device::count().expect("a driver") < 2 {
        println!("left out: there is one GPU only");
        return;
    }
    let second = Gpu::on(streams::default(Device::get(1).expect("a second device")));
    let arrays = arrays(&[12]);
    assert_eq!(run(&first, &arrays), run(&second, &arrays));
    let there = arrays.upload(&second.memory);
    let error = there.evaluate(&first.context(), Kind::Full).expect_err("memory of the other").to_string();
    assert!(error.contains("positions") && error.contains("cuda:0") && error.contains("cuda:1"), "{error}");
}

/// A step is captured once and replayed with other positions; nothing in it allocates, waits or reads back.
#[test]
fn a_step_is_a_graph() {
    let turn = Gpu::alone();
    // Records are part of it.
    let gpu = Gpu::on(streams::of_thread(turn.device())).with_records_from(1);
    let there = arrays(&[14, 9]).upload(&gpu.memory);
    // Compiled, and with memory at hand.
    drop(there.evaluate(&gpu.context(), Kind::Full).expect("a call"));
    let mut done = None;
    let before = UNASKED.map(calls);
    let graph = Graph::capture(gpu.stream(), |_| {
        done = Some(there.evaluate(&gpu.context(), Kind::Full)?);
        Ok(())
    });
    let (graph, done) = (graph.expect("a graph"), done.expect("captured results"));
    assert_eq!(UNASKED.map(calls), before, "allocated, given back or waited");
    let mut rng = SplitMix64(5);
    for _ in 0..3 {
        let moved: Vec<f64> = arrays(&[14, 9]).0["positions"]
            .to_f64()
            .unwrap()
            .iter()
            .map(|x| x + rng.uniform(-0.05, 0.05))
            .collect();
        streams::overwrite(gpu.stream(), &there.0["positions"], &moved);
        streams::replay(&graph);
        let replayed = read(gpu.stream(), &done);
        let eager = there.evaluate(&gpu.context(), Kind::Full).expect("a call");
        assert_eq!(replayed, read(gpu.stream(), &eager));
    }
}

/// Out of memory is an error with the sizes, and later calls work.
#[test]
fn memory_that_runs_out_is_an_error() {
    let gpu = Gpu::alone();
    let good = arrays(&[6]);
    let right = run(&gpu, &good);
    madelung_stand_in::set_memory(1 << 24);
    let (_, all) = gpu.device().memory().expect("a driver");
    // Of a GPU's memory, others may need some meanwhile: more than there is of it takes none.
    let much = if is_real() { 2 * all } else { all / 8 };
    let mut held = vec![];
    let error: Error = loop {
        match gpu.memory.allocate(much) {
            Ok(block) => held.push(block),
            Err(error) => break error,
        }
        assert!(held.len() < 8, "as much as there is");
    };
    madelung_stand_in::set_memory(1 << 30);
    assert!(error.to_string().contains("out of memory"), "{error}");
    drop(held);
    assert_eq!(run(&gpu, &good), right);
}
