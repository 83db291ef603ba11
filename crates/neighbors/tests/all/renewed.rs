//! Lists of batches of which some systems are searched for again: against lists of each system alone, through the op that
//! frameworks call, and with the memory of its caller.

use crate::systems::{Cell, place, random};
use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::Threads;
use madelung_core::backend::{Allocator, Context};
use madelung_core::op::{Arg, Request};
use madelung_core::structure::{Batch, Clusters};
use madelung_neighbors::{Form, Neighbors, Options, PairList, find_neighbors, neighbor_list, searches};
use std::sync::Mutex;

const CUTOFF: f64 = 2.1;
/// Atoms of systems: within a cluster, of several, none, and of several pieces.
const SIZES: [usize; 6] = [3, 40, 0, 700, 17, 33];

struct Atoms {
    positions: Vec<[f64; 3]>,
    cells: Vec<Cell>,
    batch: Batch<'static>,
}

/// Atoms at random in and around skewed cells, one for each unit of volume or so.
fn atoms(seed: u64) -> Atoms {
    let mut random = random(seed);
    let (mut positions, mut cells, mut ptr) = (vec![], vec![], vec![0]);
    for size in SIZES {
        let a = (size.max(1) as f64).cbrt() * (1.0 + 0.1 * random());
        let cell = [[a, 0.0, 0.0], [0.3 * a, a, 0.0], [0.0, -0.2 * a, 1.1 * a]];
        positions.extend((0..size).map(|_| place([(); 3].map(|()| 3.0 * random() - 1.0), &cell)));
        cells.push(cell);
        ptr.push(positions.len() as i32);
    }
    Atoms { positions, cells, batch: Batch::from_ptr(ptr).unwrap() }
}

impl Atoms {
    fn found(&self, form: Form) -> Neighbors<'static> {
        let (options, pool) = (Options::full().with_form(form), Threads::new(2));
        find_neighbors(&self.positions, CUTOFF, Some(&self.cells), None, &self.batch, &options, &pool)
            .unwrap()
    }

    /// The systems that are chosen, alone.
    fn some(&self, chosen: &[bool]) -> Self {
        let (mut positions, mut cells, mut ptr) = (vec![], vec![], vec![0]);
        for b in (0..chosen.len()).filter(|b| chosen[*b]) {
            positions.extend(&self.positions[self.batch.members(b)]);
            cells.push(self.cells[b]);
            ptr.push(positions.len() as i32);
        }
        Self { positions, cells, batch: Batch::from_ptr(ptr).unwrap() }
    }

    /// Pairs of each system, searched for by itself.
    fn alone(&self, b: usize) -> Vec<(usize, usize, [i32; 3])> {
        let members = self.batch.members(b);
        let (batch, first) = (Batch::single(members.len()).unwrap(), members.start);
        let (options, pool) = (Options::full(), Threads::new(1));
        let cell = Some(&self.cells[b..=b]);
        let list =
            neighbor_list(&self.positions[members], CUTOFF, cell, None, &batch, &options, &pool).unwrap();
        list.iter().map(|(i, j, s)| (i + first, j + first, s)).collect()
    }
}

/// Pairs of each system from where its atoms were last searched for.
fn expected(before: &Atoms, now: &Atoms, raised: &[bool]) -> Vec<(usize, usize, [i32; 3])> {
    raised.iter().enumerate().flat_map(|(b, is)| if *is { now.alone(b) } else { before.alone(b) }).collect()
}

fn pairs(list: &PairList<'_>) -> Vec<(usize, usize, [i32; 3])> {
    list.iter().collect()
}

const CHOICES: [[bool; 6]; 6] = [
    [true, false, false, false, false, false],
    [false, true, false, true, false, false],
    [false, false, true, false, false, true],
    [true, true, true, true, false, true],
    [false; 6],
    [true; 6],
];

#[test]
fn some_systems_of_a_list_are_those_of_another() {
    let (before, now, pool) = (atoms(1), atoms(2), Threads::new(3));
    for form in [Form::Rows, Form::Clusters] {
        let former = before.found(form);
        for raised in CHOICES {
            let found = now.some(&raised).found(form);
            let renewed = former.renewed(&found, &raised, &before.batch, &pool).unwrap();
            assert_eq!(pairs(&renewed.rows(&pool)), expected(&before, &now, &raised), "{form:?} {raised:?}");
            if let Neighbors::Clusters(list) = &renewed {
                let (frame, runs, entries) = list.arrays();
                assert!(Clusters::new(frame, runs, entries).is_ok(), "every index is in range");
                assert_eq!(list.pairs(), renewed.len());
            }
        }
        let all = now.found(form);
        let refused = |raised: &[bool], found: &Neighbors<'_>| {
            let error = former.renewed(found, raised, &before.batch, &pool).unwrap_err().to_string();
            assert!(error.starts_with("`neighbors`: expected "), "{error}");
        };
        refused(&CHOICES[0], &all);
        refused(&CHOICES[5][..2], &all);
        refused(&CHOICES[5], &now.found(if form == Form::Rows { Form::Clusters } else { Form::Rows }));
    }
}

#[test]
fn a_list_in_either_form_says_how_each_system_is_evaluated() {
    let (now, pool) = (atoms(3), Threads::new(1));
    let Neighbors::Clusters(mixed) = now.found(Form::Mixed) else { panic!("a list in clusters") };
    // None of these has a hundred neighbours for each atom.
    assert!(mixed.in_clusters().all(|is| !is));
    let rows = now.found(Form::Rows);
    assert_eq!(pairs(mixed.rows_with(&pool)), pairs(&rows.rows(&pool)));
}

/// The heap, which counts, with arrays of the caller's for results.
#[derive(Default)]
struct Counting {
    results: Mutex<Vec<Option<Array>>>,
    /// Arrays asked for, and bytes: those that there are, and the most there were.
    counts: Mutex<[usize; 3]>,
}

impl Counting {
    fn counted(&self, array: Result<Array>) -> Result<Array> {
        let array = array?;
        let mut counts = self.counts.lock().unwrap();
        let [count, bytes, most] = *counts;
        let bytes = bytes + array.shape().iter().product::<usize>() * array.dtype().size();
        *counts = [count + 1, bytes, most.max(bytes)];
        Ok(array)
    }

    fn arrays(&self) -> usize {
        self.counts.lock().unwrap()[0]
    }

    fn most(&self) -> usize {
        self.counts.lock().unwrap()[2]
    }
}

impl Allocator for Counting {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.counted(Ok(Array::zeros(dtype, shape)))
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.counted(Ok(Array::room(dtype, shape)))
    }

    fn result(&self, n: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        let found = self.results.lock().unwrap().get_mut(n).and_then(Option::take);
        if let Some(array) = &found {
            assert_eq!((array.dtype(), array.shape()), (dtype, shape), "result {n}");
        }
        Ok(found)
    }

    fn recycle(&self, array: Array) {
        let mut counts = self.counts.lock().unwrap();
        counts[1] -= array.shape().iter().product::<usize>() * array.dtype().size();
    }
}

/// Room for a list: integers, entries and their length, and images.
#[derive(Clone, Copy)]
struct Room([usize; 4]);

impl Room {
    fn arrays(self) -> Vec<Option<Array>> {
        let [frame, entries, lanes, runs] = self.0;
        let shapes = [vec![frame], vec![entries, lanes], vec![runs, 3], vec![SIZES.len()]];
        shapes.iter().map(|shape| Some(Array::filled(DType::I32, shape, -7.0))).collect()
    }
}

fn call(
    context: &Context<'_>,
    now: &Atoms,
    raised: &[bool],
    former: [&Array; 3],
    form: i64,
    room: Room,
) -> Vec<Array> {
    let op = searches().get("renewed_neighbors").unwrap();
    let positions =
        Array::from_f64(DType::F64, &[now.positions.len(), 3], now.positions.as_flattened()).unwrap();
    let flat: Vec<f64> =
        now.cells.iter().flat_map(|cell| *cell.as_flattened().first_chunk::<9>().unwrap()).collect();
    let cells = Array::from_f64(DType::F64, &[SIZES.len(), 3, 3], &flat).unwrap();
    let (axes, flags) = (Array::zeros(DType::I32, &[0, 3]), raised.iter().map(|is| f64::from(u8::from(*is))));
    let flags = Array::from_f64(DType::I32, &[raised.len()], &flags.collect::<Vec<_>>()).unwrap();
    let mut args = vec![
        Arg::Array(positions.view()),
        Arg::Array(cells.view()),
        Arg::Array(axes.view()),
        Arg::Structure(&now.batch),
        Arg::Real(CUTOFF),
        Arg::Int(7),
        Arg::Array(flags.view()),
    ];
    args.extend(former.map(|array| Arg::Array(array.view())));
    args.extend([form].into_iter().chain(room.0.map(|n| n as i64)).map(Arg::Int));
    op.evaluate(context, &args, &Request { values: true, ..Request::default() }).unwrap().values
}

fn none() -> [Array; 3] {
    [&[0][..], &[0, 1], &[0, 3]].map(|shape| Array::zeros(DType::I32, shape))
}

fn ints(array: &Array) -> Vec<i32> {
    array.to_f64().unwrap().iter().map(|x| *x as i32).collect()
}

fn listed(arrays: &[Array], atoms: usize) -> Vec<(usize, usize, [i32; 3])> {
    let views = [arrays[0].view(), arrays[1].view(), arrays[2].view()];
    let columns = match arrays[1].shape() {
        [n, 1] => madelung_core::array::View::new(views[1].data(), &[*n]).unwrap(),
        _ => views[1].clone(),
    };
    let list =
        Neighbors::from_arrays([&views[0], &columns, &views[2]], atoms, madelung_neighbors::Kind::Full, true);
    pairs(&list.unwrap().rows(&Threads::new(1)))
}

#[test]
fn a_list_is_renewed_in_memory_of_its_caller() {
    let (before, now) = (atoms(4), atoms(5));
    let count = before.positions.len();
    let form = |n: i64| if n == 1 { Form::Clusters } else { Form::Rows };
    for n in [0, 1] {
        let room = match before.found(form(n)) {
            Neighbors::Rows(list) => Room([count + 1, 2 * list.len(), 1, 2 * list.len()]),
            Neighbors::Clusters(list) => {
                let (frame, runs, entries) = list.arrays();
                Room([2 * frame.len(), 2 * entries.len(), 2, 2 * runs.len()])
            }
        };
        let evaluate = |now: &Atoms, raised: &[bool], former: [&Array; 3], room: Room| {
            let memory = Counting { results: Mutex::new(room.arrays()), ..Counting::default() };
            let context = Context { allocator: &memory, ..madelung_cpu::context() };
            let found = call(&context, now, raised, former, n, room);
            assert_eq!(memory.arrays(), 0, "results lie in the caller's memory, and there is nothing else");
            found
        };
        let nothing = none();
        let first = evaluate(&before, &[true; 6], nothing.each_ref(), room);
        assert_eq!(listed(&first, count), expected(&before, &now, &[false; 6]));
        assert_eq!(ints(&first[3]), [0; 6]);
        for raised in CHOICES {
            let former = [&first[0], &first[1], &first[2]];
            let again = evaluate(&now, &raised, former, room);
            assert_eq!(listed(&again, count), expected(&before, &now, &raised), "{n} {raised:?}");
            assert_eq!(ints(&again[3]), raised.map(|is| i32::from(!is)));
        }
        // Too little room: true counts, no pair, and so it stays.
        let [frame, entries, lanes, runs] = room.0;
        let tight = Room([frame, entries / 8, lanes, if n == 0 { entries / 8 } else { runs }]);
        let over = evaluate(&now, &[true; 6], nothing.each_ref(), tight);
        let sizes = ints(&over[0]);
        let fresh = now.found(form(n));
        match &fresh {
            Neighbors::Rows(list) => {
                assert_eq!(sizes[count] as usize, list.len());
                assert!(ints(&over[1]).iter().all(|j| *j == count as i32));
            }
            Neighbors::Clusters(list) => {
                assert_eq!(sizes[..9], list.overflow()[..9]);
                assert!(ints(&over[1]).iter().all(|entry| *entry == 0));
            }
        }
        let still = evaluate(&before, &[true; 6], [&over[0], &over[1], &over[2]], tight);
        assert_eq!(ints(&still[0]), sizes);
        assert_eq!(ints(&still[3]), [1; 6]);
        let views = [over[0].view(), over[1].view(), over[2].view()];
        let columns = madelung_core::array::View::new(views[1].data(), &[entries / 8]);
        let columns = if n == 0 { columns.unwrap() } else { views[1].clone() };
        let kind = madelung_neighbors::Kind::Full;
        assert!(Neighbors::from_arrays([&views[0], &columns, &views[2]], count, kind, true).is_err());
    }
}

#[test]
fn memory_of_an_aggregation_does_not_grow_with_its_pairs() {
    let (count, features) = (6000, 4);
    let mut random = random(7);
    let mut numbers = |n: usize| (0..n).map(|_| random()).collect::<Vec<f64>>();
    let array = |shape: &[usize], data: &[f64]| Array::from_f64(DType::F64, shape, data).unwrap();
    let arrays = [
        array(&[count, 3], &numbers(3 * count)),
        array(&[count, 3], &numbers(3 * count)),
        array(&[count, features], &numbers(features * count)),
        array(&[1], &[0.1]),
        array(&[1, 3, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]),
    ];
    let none = Array::zeros(DType::I32, &[0, 3]);
    let order = Array::I32((0..count as i32).collect::<Vec<_>>().into());
    let batch = Batch::single(count).unwrap();
    let op = madelung_neighbors::registry().get("radius_aggregate_exponential").unwrap();
    let most = [0.02, 0.2].map(|radius| {
        let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend([Arg::Structure(&batch), Arg::Structure(&batch)]);
        // No periodic axes, and no room for pairs.
        args.extend([Arg::Array(none.view()), Arg::Int(0), Arg::Int(-1)]);
        args.extend([Arg::Real(0.01), Arg::Real(1.0), Arg::Real(radius)]);
        args.extend([Arg::Array(order.view()), Arg::Array(order.view())]);
        let weights = Array::filled(DType::F64, &[count, features], 0.5);
        let cotangents = [Some(madelung_core::op::Cotangent::Array(weights.view()))];
        let request =
            Request { values: true, cotangents: &cotangents, gradients: &[0, 1, 2, 3], ..Request::default() };
        let memory = Counting::default();
        let context = Context { allocator: &memory, ..madelung_cpu::context() };
        op.evaluate(&context, &args, &request).unwrap();
        memory.most()
    });
    // 0.2 reaches a thousand times as many points as 0.02 does.
    let rows = 2 * count * (3 + features) * DType::F64.size();
    assert_eq!(most[0], most[1]);
    assert!(most[0] > 0 && most[0] < 6 * rows, "{most:?} bytes, where points and queries have {rows}");
}
