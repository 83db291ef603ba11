//! A step of a simulation in one graph: the neighbour list, and energies and forces of what it holds.
#![expect(unsafe_code, reason = "a graph is replayed, and memory of a device written")]

use crate::common::systems::{System, random_system, triclinic_cell};
use crate::device::Gpu;
use madelung::array::{Array, DType, Data, View};
use madelung::backend::Context;
use madelung::backend::cuda::{Cuda, Graph, Memory, check};
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::device::{DeviceArg, DeviceBatch};
use madelung::electrostatics::registry;
use madelung::neighbors::{DeviceOptions, DeviceSearch, Options, Periodic, neighbor_list};
use madelung::op::{Arg, Cotangent, Request};
use madelung::pairs::Kind;
use std::cell::RefCell;

const CUTOFF: f64 = 5.5;
const ATOMS: usize = 40;

struct Step<'a> {
    cuda: &'a Cuda,
    memory: &'a Memory,
    arrays: [Array; 4],
    batch: [Array; 2],
    search: DeviceSearch,
}

impl Step<'_> {
    /// Searches, and computes the energy and what it changes by with positions.
    fn run(&mut self) -> madelung::Result<[Array; 2]> {
        let context = Context { backend: self.cuda, allocator: self.memory, ..Context::default() };
        let [positions, charges, cell, alpha] = self.arrays.each_ref().map(Array::view);
        let batch = DeviceBatch::new(self.batch[0].view(), self.batch[1].view())?;
        let pbc = Periodic::All([true; 3]);
        self.search.search(self.cuda, &context, &positions, Some(&cell), &pbc, &batch)?;
        let pairs = self.search.list()?;
        let registry = registry();
        let op = registry.get("ewald_real_space").expect("an op of the library");
        let args: Vec<Arg<'_>> = op
            .args
            .iter()
            .map(|spec| match spec.name.as_str() {
                "positions" => Arg::Array(positions.clone()),
                "charges" => Arg::Array(charges.clone()),
                "cell" => Arg::Array(cell.clone()),
                "alpha" => Arg::Array(alpha.clone()),
                "strain" => Arg::Zero,
                "atoms" => Arg::Device(DeviceArg::Batch(&batch)),
                "pairs" => Arg::Device(DeviceArg::Pairs(&pairs)),
                "prefactor" => Arg::Real(1.0),
                "cutoff" => Arg::Real(CUTOFF),
                name => panic!("what should `{name}` be?"),
            })
            .collect();
        let cotangents = [Some(Cotangent::Uniform(1.0))];
        let request =
            Request { values: true, cotangents: &cotangents, gradients: &[0], ..Request::default() };
        let mut done = op.evaluate(&context, &args, &request)?;
        Ok([done.values.remove(0), done.gradients.remove(0)])
    }

    fn move_to(&self, positions: &[[f64; 3]]) {
        let Data::Device(remote) = self.arrays[0].view().data() else { panic!("an array of the host") };
        // SAFETY: the array has as many elements of this type.
        unsafe { self.cuda.stream().upload(remote.address(), positions).expect("a copy") };
    }

    fn read(&self, results: &[Array; 2]) -> [Vec<f64>; 2] {
        results.each_ref().map(|a| self.cuda.stream().read(&a.view()).expect("results").to_f64())
    }
}

fn capacity(system: &System) -> usize {
    let batch = Batch::from_idx(vec![0; ATOMS], Some(1)).expect("a batch");
    let cell = [system.cell];
    let list = neighbor_list(&system.positions, CUTOFF, Some(&cell), None, &batch, &Options::full(), &Serial);
    list.expect("a list").len()
}

#[test]
fn a_step_in_a_graph() {
    let turn = Gpu::alone();
    let device = turn.device();
    // SAFETY: every thread has this stream.
    let stream = unsafe { device.stream(2) }.expect("a stream");
    let (cuda, memory) = (Cuda::new(stream), Memory::new(stream));
    let context = Context { backend: &cuda, allocator: &memory, ..Context::default() };
    let system = random_system(1, ATOMS, triclinic_cell(900.0), 0.0, 1.2);
    let upload = |shape: &[usize], data: &[f64]| {
        let array = Array::from_f64(DType::F64, shape, data).expect("as many as the shape says");
        memory.upload(&array.view()).expect("room")
    };
    let ints = |data: &[i32]| memory.upload(&View::from(data)).expect("room");
    let arrays = [
        upload(&[ATOMS, 3], system.positions.as_flattened()),
        upload(&[ATOMS], &system.charges),
        upload(&[1, 3, 3], system.cell.as_flattened()),
        upload(&[1], &[0.6]),
    ];
    let options =
        DeviceOptions { cutoff: CUTOFF, kind: Kind::Full, capacity: capacity(&system) + 400, packed: true };
    let mut step = Step {
        cuda: &cuda,
        memory: &memory,
        arrays,
        batch: [ints(&[0; ATOMS]), ints(&[0, ATOMS as i32])],
        search: DeviceSearch::new(&context, ATOMS, options).expect("a search"),
    };
    // What is captured needs the memory that an eager call has left.
    let first = step.run().expect("a step");
    let before = step.read(&first);
    drop(first);
    let results = RefCell::new(None);
    let graph = Graph::capture(stream, |_| step.run().map(|arrays| *results.borrow_mut() = Some(arrays)));
    let (graph, results) = (graph.expect("a graph"), results.into_inner().expect("results"));
    for by in [0.0, 0.05, 0.2] {
        let moved: Vec<[f64; 3]> =
            system.positions.iter().enumerate().map(|(n, r)| r.map(|x| x + by * (n as f64).sin())).collect();
        step.move_to(&moved);
        // SAFETY: what the graph works on is still there.
        unsafe { graph.replay().expect("a replay") };
        let replayed = step.read(&results);
        let eager = step.run().expect("a step");
        check(device).expect("nothing is wrong");
        assert_eq!(replayed, step.read(&eager));
        assert_eq!(replayed == before, by == 0.0);
    }
    // A list that has no room for its pairs is seen by whoever uses it.
    step.search =
        DeviceSearch::new(&context, ATOMS, DeviceOptions { capacity: 10, ..options }).expect("a search");
    let results = step.run().expect("a step");
    assert!(step.read(&results).iter().flatten().all(|x| x.is_nan()));
    let error = check(device).expect_err("too many pairs").to_string();
    assert!(error.contains("neighbor_list::capacity"), "{error}");
}
