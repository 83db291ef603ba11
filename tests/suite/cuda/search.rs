//! A step of a simulation in one graph: the neighbour list, and energies and forces of what it holds.
#![expect(unsafe_code, reason = "a graph is replayed, and memory of a device written")]

use super::device::Gpu;
use crate::common::systems::{System, random_system, triclinic_cell};
use madelung::array::{Array, DType, Data, View};
use madelung::backend::Context;
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::cuda::{Cuda, Graph, Memory, check};
use madelung::device::DeviceBatch;
use madelung::electrostatics::registry;
use madelung::neighbor_list;
use madelung::neighbors::{DeviceFrame, DeviceOptions, DeviceSearch, Options, Periodic};
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
    /// The list is made again only if an atom has moved by more than half of it.
    skin: Option<f64>,
}

impl<'a> Step<'a> {
    fn new(cuda: &'a Cuda, memory: &'a Memory, system: &System, options: DeviceOptions) -> Self {
        let context = Context { backend: cuda, allocator: memory, ..madelung::cpu::context() };
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
        let batch = [ints(&[0; ATOMS]), ints(&[0, ATOMS as i32])];
        let search = DeviceSearch::new(&context, ATOMS, options).expect("a search");
        Self { cuda, memory, arrays, batch, search, skin: None }
    }
}

impl Step<'_> {
    /// Searches, and computes the energy and what it changes by with positions.
    fn run(&mut self) -> madelung::Result<[Array; 2]> {
        let context = Context { backend: self.cuda, allocator: self.memory, ..madelung::cpu::context() };
        let [positions, charges, cell, alpha] = self.arrays.each_ref().map(Array::view);
        let batch = DeviceBatch::new(self.batch[0].view(), self.batch[1].view())?;
        let pbc = Periodic::All([true; 3]);
        if let Some(skin) = self.skin {
            let flags =
                self.search.needs_rebuild(self.cuda, &context, &positions, Some(&cell), &batch, skin)?;
            let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
            self.search.search_if(self.cuda, &context, &frame, &flags.view())?;
        } else {
            self.search.search(self.cuda, &context, &positions, Some(&cell), &pbc, &batch)?;
        }
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
                "atoms" => Arg::Structure(&batch),
                "pairs" => Arg::Structure(&pairs),
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
        results.each_ref().map(|a| self.cuda.stream().read(&a.view()).expect("results").to_f64().unwrap())
    }
}

fn capacity(system: &System, cutoff: f64) -> usize {
    let batch = Batch::from_idx(vec![0; ATOMS], Some(1)).expect("a batch");
    let cell = [system.cell];
    let list = neighbor_list(&system.positions, cutoff, Some(&cell), None, &batch, &Options::full(), &Serial);
    list.expect("a list").len()
}

fn moved(system: &System, by: f64) -> Vec<[f64; 3]> {
    system.positions.iter().enumerate().map(|(n, r)| r.map(|x| x + by * (n as f64).sin())).collect()
}

#[test]
fn a_step_in_a_graph() {
    let turn = Gpu::alone();
    let device = turn.device();
    // SAFETY: every thread has this stream.
    let stream = unsafe { device.stream(2) }.expect("a stream");
    let (cuda, memory) = (Cuda::new(stream), Memory::new(stream));
    let context = Context { backend: &cuda, allocator: &memory, ..madelung::cpu::context() };
    let system = random_system(1, ATOMS, triclinic_cell(900.0), 0.0, 1.2);
    let options = DeviceOptions {
        cutoff: CUTOFF,
        kind: Kind::Full,
        capacity: capacity(&system, CUTOFF) + 400,
        packed: true,
    };
    let mut step = Step::new(&cuda, &memory, &system, options);
    // What is captured needs the memory that an eager call has left.
    let first = step.run().expect("a step");
    let before = step.read(&first);
    drop(first);
    let results = RefCell::new(None);
    let graph = Graph::capture(stream, |_| step.run().map(|arrays| *results.borrow_mut() = Some(arrays)));
    let (graph, results) = (graph.expect("a graph"), results.into_inner().expect("results"));
    for by in [0.0, 0.05, 0.2] {
        let moved = moved(&system, by);
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

/// One graph, in which a list is made again where it has to be: what it computes is what a list of the same moment gives.
#[test]
fn a_graph_that_searches_when_it_must() {
    const SKIN: f64 = 0.6;
    let turn = Gpu::alone();
    let device = turn.device();
    // SAFETY: every thread has this stream.
    let stream = unsafe { device.stream(2) }.expect("a stream");
    let (cuda, memory) = (Cuda::new(stream), Memory::new(stream));
    let system = random_system(2, ATOMS, triclinic_cell(900.0), 0.0, 1.2);
    let cutoff = CUTOFF + SKIN;
    let capacity = capacity(&system, cutoff) + 400;
    let options = DeviceOptions { cutoff, kind: Kind::Full, capacity, packed: true };
    let mut step = Step::new(&cuda, &memory, &system, options);
    let mut fresh = Step::new(&cuda, &memory, &system, options);
    step.run().expect("a first list");
    step.skin = Some(SKIN);
    step.run().expect("a step");
    let results = RefCell::new(None);
    let graph = Graph::capture(stream, |_| step.run().map(|arrays| *results.borrow_mut() = Some(arrays)));
    let (graph, results) = (graph.expect("a graph"), results.into_inner().expect("results"));
    let pairs = |step: &Step<'_>| {
        let (list, ptr) = (step.search.list().expect("a list"), step.search.neighbor_ptr());
        let read = |view: &View<'_>| stream.read(view).expect("integers").to_f64().unwrap();
        let ptr = read(&ptr);
        let others = read(&list.others())[..ptr[ATOMS] as usize].to_vec();
        (ptr, others)
    };
    // The list is that of the last move which it was made for.
    for (by, again) in [(0.1, false), (0.4, true), (0.3, false), (-0.4, true)] {
        let moved = moved(&system, by);
        step.move_to(&moved);
        fresh.move_to(&moved);
        let before = pairs(&step);
        // SAFETY: what the graph works on is still there.
        unsafe { graph.replay().expect("a replay") };
        let (got, want) = (step.read(&results), fresh.run().expect("a step"));
        let want = step.read(&want);
        check(device).expect("nothing is wrong");
        assert_eq!(pairs(&step) == pairs(&fresh), again, "{by}");
        if again {
            assert_eq!(got, want);
        } else {
            assert_eq!(pairs(&step), before);
            // The same pairs are added, among others between them that add nothing.
            for (got, want) in got.iter().zip(&want) {
                let scale = want.iter().fold(0f64, |most, x| most.max(x.abs()));
                assert!(got.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-12 * scale), "{got:?} {want:?}");
            }
        }
    }
}
