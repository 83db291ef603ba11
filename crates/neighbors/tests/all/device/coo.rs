//! Lists as arrays of their own: counted and then written, or at once, with room for more, for less, and in memory of the
//! caller's.
#![expect(
    unsafe_code,
    reason = "arrays of the caller's, a graph that is replayed, and memory of a device written"
)]

use super::support::{Read, Sent};
use super::{SKEW, expected};
use crate::gpu::Gpu;
use crate::systems::System;
use madelung_core::Error;
use madelung_core::array::{Array, DType, Data, View};
use madelung_cuda::Graph;
use madelung_neighbors::{CooArrays, DeviceCoo, DeviceFrame, Kind, Periodic, neighbor_coo};
use madelung_stand_in::{UNASKED, UNCOMPILED, calls};

/// A list as it was read back, all that there is room for.
#[derive(Debug, PartialEq)]
pub(crate) struct Coo {
    rows: Vec<i32>,
    pub(crate) others: Vec<i32>,
    ptr: Vec<i64>,
    pub(crate) shifts: Vec<[i32; 3]>,
}

impl Coo {
    /// The CPU's list in arrays with room for `more` additional pairs.
    pub(crate) fn of(list: &Read, more: usize) -> Self {
        let atoms = list.ptr.len() - 1;
        let rows = (0..atoms).flat_map(|i| vec![i as i32; (list.ptr[i + 1] - list.ptr[i]) as usize]);
        let none = || std::iter::repeat_n(atoms as i32, more);
        Self {
            rows: rows.chain(none()).collect(),
            others: list.others.iter().copied().chain(none()).collect(),
            ptr: list.ptr.clone(),
            shifts: list.shifts.iter().copied().chain(std::iter::repeat_n([0; 3], more)).collect(),
        }
    }

    /// A list without a pair.
    fn none(ptr: Vec<i64>, capacity: usize) -> Self {
        let atoms = vec![ptr.len() as i32 - 1; capacity];
        Self { rows: atoms.clone(), others: atoms, ptr, shifts: vec![[0; 3]; capacity] }
    }
}

/// Integers that no list has.
fn spoil(gpu: &Gpu, array: &Array) {
    let Data::Device(remote) = array.view().data() else { panic!("an array of the host") };
    let stray = vec![0x7777_7777i32; array.view().len()];
    // SAFETY: the array has as many integers.
    unsafe { gpu.cuda.stream().upload(remote.address(), &stray).unwrap() };
}

impl Gpu {
    fn room(&self, atoms: usize, capacity: usize) -> CooArrays {
        let room = CooArrays::room(&self.context(), atoms, capacity).unwrap();
        [&room.list, &room.ptr, &room.shifts].iter().for_each(|array| spoil(self, array));
        room
    }

    fn read_coo(&self, list: &CooArrays) -> Coo {
        let ints = |array: &Array| -> Vec<i64> {
            self.read(&array.view()).to_f64().unwrap().iter().map(|x| *x as i64).collect()
        };
        let narrow = |x: &[i64]| -> Vec<i32> { x.iter().map(|x| *x as i32).collect() };
        let pairs = ints(&list.list);
        let (rows, others) = pairs.split_at(pairs.len() / 2);
        let shifts = narrow(&ints(&list.shifts)).as_chunks::<3>().0.to_vec();
        Coo { rows: narrow(rows), others: narrow(others), ptr: ints(&list.ptr), shifts }
    }

    /// The device's list, with room for so many pairs, or for exactly as many as there are.
    pub(crate) fn coo(&self, sent: &Sent, cutoff: f64, half: bool, capacity: Option<usize>) -> Coo {
        let context = self.context();
        let kind = if half { Kind::Half } else { Kind::Full };
        let (positions, cell, batch) = (sent.positions.view(), sent.cell.view(), sent.batch());
        let pbc = Periodic::Each(sent.pbc.view());
        let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
        let list = if let Some(capacity) = capacity {
            let mut list = self.room(batch.atoms(), capacity);
            neighbor_coo(&self.cuda, &context, &frame, (cutoff, kind), &mut list).unwrap();
            list
        } else {
            let counted = DeviceCoo::count(&self.cuda, &context, &frame, cutoff, kind).unwrap();
            let mut list = self.room(batch.atoms(), counted.total().unwrap());
            counted.write(&mut list).unwrap();
            list
        };
        self.read_coo(&list)
    }
}

fn system(boxes: f64) -> System {
    System::new(40, SKEW, [true; 3], boxes)
}

#[test]
fn room_for_more_and_for_less() {
    let gpu = Gpu::new();
    let systems = [system(0.0), System::new(0, SKEW, [true; 3], 0.0), system(1.0)];
    let sent = gpu.send(&systems, DType::F64);
    for half in [false, true] {
        let want = expected(&systems, 3.0, half);
        let pairs = want.others.len();
        for capacity in [0, 1, pairs / 2, pairs - 1, pairs, pairs + 1, 3 * pairs] {
            let got = gpu.coo(&sent, 3.0, half, Some(capacity));
            if capacity < pairs {
                let error = gpu.check().expect_err("no room").to_string();
                assert!(error.starts_with("`neighbor_list::capacity`"), "{error}");
                assert_eq!(got, Coo::none(want.ptr.clone(), capacity));
            } else {
                gpu.check().unwrap();
                assert_eq!(got, Coo::of(&want, capacity - pairs));
            }
        }
    }
}

/// Errors on the device: returned by calls that wait, or kept in the record.
#[test]
fn what_only_the_device_sees() {
    let gpu = Gpu::new();
    let context = gpu.context();
    let mut bad = system(0.0);
    bad.atoms[7][1] = f64::NAN;
    let flat = System { cell: [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]], ..system(0.0) };
    let empty = System { atoms: vec![], ..flat.clone() };
    for (systems, name) in
        [(vec![system(0.0), bad], "positions"), (vec![flat], "cell"), (vec![empty], "cell")]
    {
        let name = format!("`neighbor_list::{name}`");
        let sent = gpu.send(&systems, DType::F64);
        let (positions, cell, batch) = (sent.positions.view(), sent.cell.view(), sent.batch());
        let pbc = Periodic::All([true; 3]);
        let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
        let counted = DeviceCoo::count(&gpu.cuda, &context, &frame, 2.0, Kind::Full).unwrap();
        let error = counted.total().expect_err("something is wrong").to_string();
        assert!(error.starts_with(&name), "{error}");
        drop(counted);
        gpu.check().expect("what was told is not told again");

        let got = gpu.coo(&sent, 2.0, false, Some(100));
        let error = gpu.check().expect_err("something is wrong").to_string();
        assert!(error.starts_with(&name), "{error}");
        let ends = vec![101; batch.atoms()];
        assert_eq!(got, Coo::none([vec![0], ends].concat(), 100));
    }
}

/// One cell, and one choice of periodic axes, for all systems.
#[test]
fn one_cell_for_all_systems() {
    let gpu = Gpu::new();
    let systems = [system(0.0), system(1.0), system(2.0)].map(|s| System { pbc: [true, false, true], ..s });
    let sent = gpu.send(&systems, DType::F64);
    let one = gpu.send(&systems[..1], DType::F64);
    let (positions, cell, batch) = (sent.positions.view(), one.cell.view(), sent.batch());
    let pbc = Periodic::Each(one.pbc.view());
    let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
    let want = expected(&systems, 2.5, false);
    let mut list = gpu.room(120, want.others.len() + 5);
    neighbor_coo(&gpu.cuda, &gpu.context(), &frame, (2.5, Kind::Full), &mut list).unwrap();
    gpu.check().unwrap();
    assert_eq!(gpu.read_coo(&list), Coo::of(&want, 5));
}

/// Memory of results that the caller lends, like XLA, inside a graph.
#[test]
fn memory_of_the_caller_in_a_graph() {
    let gpu = Gpu::new();
    let context = gpu.context();
    let systems = [system(0.0), system(1.0)];
    let sent = gpu.send(&systems, DType::F64);
    let (positions, cell, batch) = (sent.positions.view(), sent.cell.view(), sent.batch());
    let pbc = Periodic::Each(sent.pbc.view());
    let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
    let own = gpu.room(80, 9000);
    let lent = |array: &Array| {
        let (view, Data::Device(remote)) = (array.view(), array.view().data()) else { unreachable!() };
        // SAFETY: the array stays until the end of the test.
        unsafe { Array::remote(view.place(), view.dtype(), view.shape(), remote.address(), Box::new(())) }
    };
    let mut list = CooArrays { list: lent(&own.list), ptr: lent(&own.ptr), shifts: lent(&own.shifts) };
    let mut run = || neighbor_coo(&gpu.cuda, &context, &frame, (2.5, Kind::Full), &mut list);
    run().unwrap();
    let counts = || (UNASKED.map(calls), UNCOMPILED.map(calls));
    let before = counts();
    let graph = Graph::capture(gpu.cuda.stream(), |_| {
        let counted = DeviceCoo::count(&gpu.cuda, &context, &frame, 2.5, Kind::Full)?;
        assert!(matches!(counted.total(), Err(Error::Unsupported(_))), "nothing waits in a graph");
        // The next one has its memory.
        drop(counted);
        run()
    });
    let graph = graph.unwrap();
    assert_eq!(counts(), before, "{UNASKED:?} {UNCOMPILED:?}");
    [&own.list, &own.ptr, &own.shifts].iter().for_each(|array| spoil(&gpu, array));
    gpu.replay(&graph);
    gpu.check().unwrap();
    let want = expected(&systems, 2.5, false);
    assert_eq!(gpu.read_coo(&own), Coo::of(&want, 9000 - want.others.len()));
}

#[test]
fn arguments_that_do_not_fit() {
    let gpu = Gpu::new();
    let context = gpu.context();
    let sent = gpu.send(&[system(0.0), system(1.0)], DType::F64);
    let (positions, cell, batch) = (sent.positions.view(), sent.cell.view(), sent.batch());
    let pbc = Periodic::All([true; 3]);
    let frame = DeviceFrame { positions: &positions, cell: Some(&cell), pbc: &pbc, batch: &batch };
    let named = |result: Result<(), Error>, name: &str| {
        let error = result.expect_err("an error").to_string();
        assert!(error.starts_with(&format!("`{name}`")), "{error}");
    };
    let count = |frame: &DeviceFrame<'_>, cutoff: f64, kind: Kind| {
        DeviceCoo::count(&gpu.cuda, &context, frame, cutoff, kind).map(drop)
    };
    named(count(&frame, f64::NAN, Kind::Full), "cutoff");
    named(count(&frame, 1.0, Kind::Directed), "kind");
    named(count(&DeviceFrame { positions: &cell, ..frame }, 1.0, Kind::Full), "positions");
    named(count(&DeviceFrame { cell: Some(&positions), ..frame }, 1.0, Kind::Full), "cell");
    named(count(&DeviceFrame { cell: None, ..frame }, 1.0, Kind::Full), "cell");
    let three = gpu.memory.upload(&View::from(&[1i32, 1, 1][..])).unwrap();
    let each = Periodic::Each(three.view());
    named(count(&DeviceFrame { pbc: &each, ..frame }, 1.0, Kind::Full), "pbc");

    let list = |change: &dyn Fn(&mut CooArrays)| {
        let mut list = gpu.room(80, 10);
        change(&mut list);
        neighbor_coo(&gpu.cuda, &context, &frame, (1.0, Kind::Full), &mut list)
    };
    let (other, wide) = (|| gpu.room(79, 11), || gpu.upload(DType::F64, &[2, 10], &[0.0; 20]));
    named(list(&|list| list.ptr = other().ptr), "neighbor_ptr");
    named(list(&|list| list.shifts = other().shifts), "neighbor_shifts");
    named(list(&|list| list.list = other().shifts), "neighbor_list");
    named(list(&|list| list.list = wide()), "neighbor_list");
    named(list(&|list| list.list = Array::zeros(DType::I32, &[2, 10])), "neighbor_list");
}
