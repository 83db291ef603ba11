//! Searches on a device against the handler of the CPU, which is one that has tests of its own.

use super::xla::{Attribute, Xla, call_on_cpu_with, integers};
use super::{CPU, CUDA, device, xla};
use madelung_bridge_jax::{Handler, Outline, describe, scratch};
use madelung_core::array::{Array, DType};
use madelung_cuda::check;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

const TARGET: &str = "madelung.neighbor_search_v1";

/// The input of a search.
struct Question {
    operands: Vec<Array>,
    attributes: BTreeMap<String, Attribute>,
    atoms: usize,
    systems: usize,
}

/// Atoms at random places of skewed cells, some of them outside.
fn question(dtype: DType, cells: usize, axes: &[i32], half: bool) -> Question {
    describe(&[madelung_neighbors::searches()]).expect("the searches");
    let of = [0, 0, 0, 0, 0, 1, 1, 1, 1];
    let (atoms, systems) = (of.len(), 2);
    let numbers = (1..).map(|n: u32| (f64::from(n) * 0.754_877_666_246_693).fract());
    let positions: Vec<f64> = numbers.take(3 * atoms).map(|x| 6.0 * x - 1.0).collect();
    let both = [4.0, 0.0, 0.0, 0.7, 4.2, 0.0, -0.5, 0.3, 3.9, 5.0, 0.2, 0.0, 0.0, 4.4, 0.1, 0.0, 0.0, -4.8];
    let real =
        |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("a shape that fits");
    let operands = vec![
        real(&[atoms, 3], &positions),
        real(&[cells, 3, 3], &both[..9 * cells]),
        integers(&[axes.len() / 3, 3], axes),
        integers(&[atoms], &of),
    ];
    let attributes = [
        ("target", Attribute::Text(TARGET.into())),
        ("cutoff", Attribute::Real(3.3)),
        ("axes", Attribute::Int(if cells == 0 { 0 } else { 7 })),
        ("half", Attribute::Int(i64::from(half))),
        ("batch_idx_systems", Attribute::Int(systems as i64)),
        ("method", Attribute::Int(0)),
    ];
    let attributes = attributes.map(|(name, attribute)| (name.to_string(), attribute)).into();
    Question { operands, attributes, atoms, systems }
}

fn every_question() -> Vec<Question> {
    let mut all = vec![];
    for dtype in [DType::F32, DType::F64] {
        for half in [false, true] {
            for (cells, axes) in
                [(0, &[][..]), (1, &[]), (2, &[]), (2, &[1, 0, 1]), (2, &[1, 1, 0, 0, 0, 1]), (1, &[0, 1, 0])]
            {
                all.push(question(dtype, cells, axes, half));
            }
        }
    }
    all
}

impl Question {
    /// The attributes of a search with room for so many pairs.
    fn with_room(&self, capacity: usize) -> BTreeMap<String, Attribute> {
        let mut attributes = self.attributes.clone();
        attributes.insert("capacity".into(), Attribute::Int(capacity as i64));
        attributes
    }
}

fn shapes(q: &Question, capacity: usize) -> [Vec<usize>; 3] {
    [vec![2, capacity], vec![q.atoms + 1], vec![capacity, 3]]
}

/// List, offsets and images of the CPU's handler.
fn on_cpu(q: &Question, capacity: usize) -> Vec<Vec<i32>> {
    call_on_cpu_with(CPU.plain, &q.operands, &shapes(q, capacity), &q.with_room(capacity), -7)
        .expect("a list")
}

fn pairs_of(q: &Question) -> usize {
    on_cpu(q, 0)[1].last().copied().expect("offsets") as usize
}

/// Buffers of results, filled with fill values.
fn room(xla: &Xla, q: &Question, capacity: usize) -> Vec<Array> {
    let filled = shapes(q, capacity).map(|shape| integers(&shape, &vec![-7; shape.iter().product()]));
    xla.send(&filled)
}

fn read(xla: &Xla, arrays: &[Array]) -> Vec<Vec<i32>> {
    xla.read(arrays).into_iter().map(|array| array.into_iter().map(|x| x as i32).collect()).collect()
}

fn with_scratch() -> Handler {
    CUDA.with_scratch.expect("a handler")
}

fn bytes_of(q: &Question, capacity: usize) -> usize {
    let operands = q.operands.iter().map(|a| (a.dtype(), a.shape().to_vec())).collect();
    let results = shapes(q, capacity).map(|shape| (DType::I32, shape)).into();
    // Systems, cutoff, axes, half, capacity and method.
    let numbers = vec![q.systems as u64, 1.0_f64.to_bits(), 0, 0, capacity as u64, 0];
    scratch(&Outline { target: TARGET, mask: 0, want: 0, numbers, operands, results }).expect("a size")
}

#[test]
fn lists_are_those_of_the_cpu() {
    let (xla, _turn) = xla();
    for q in every_question() {
        let operands = xla.send(&q.operands);
        let pairs = pairs_of(&q);
        assert!(pairs > 0, "some pairs");
        for capacity in [pairs, pairs + 7] {
            let want = on_cpu(&q, capacity);
            let (plain, other) = (room(&xla, &q, capacity), room(&xla, &q, capacity));
            xla.call(CUDA.plain, &operands, &plain, &q.with_room(capacity)).expect("a search");
            assert_eq!(read(&xla, &plain), want);
            // With scratch of the size that was measured, and nothing else.
            let bytes = bytes_of(&q, capacity);
            let memory = xla.scratch(bytes);
            xla.exhausted.store(true, Ordering::Relaxed);
            xla.call_with(with_scratch(), &operands, &other, Some((&memory, bytes)), &q.with_room(capacity))
                .expect("a search");
            xla.exhausted.store(false, Ordering::Relaxed);
            assert_eq!(read(&xla, &other), want);
        }
        check(device()).expect("nothing went wrong");
    }
}

#[test]
fn a_list_without_enough_room_has_no_pair_and_true_offsets() {
    let (xla, _turn) = xla();
    let q = question(DType::F64, 2, &[], false);
    let capacity = pairs_of(&q) - 1;
    let results = room(&xla, &q, capacity);
    xla.call(CUDA.plain, &xla.send(&q.operands), &results, &q.with_room(capacity)).expect("no error");
    assert_eq!(read(&xla, &results), on_cpu(&q, capacity));
    let error = check(device()).expect_err("a record").to_string();
    assert!(error.contains("capacity"), "{error}");
}

#[test]
fn what_is_not_finite_is_recorded_and_gives_a_list_that_no_room_is_enough_for() {
    let (xla, _turn) = xla();
    let mut q = question(DType::F64, 2, &[], false);
    q.operands[0] = Array::filled(DType::F64, &[q.atoms, 3], f64::NAN);
    let results = room(&xla, &q, 50);
    xla.call(CUDA.plain, &xla.send(&q.operands), &results, &q.with_room(50)).expect("no error");
    let found = read(&xla, &results);
    assert!(found[1].last().is_some_and(|last| *last > 50), "{:?}", found[1]);
    assert!(found[0].iter().all(|atom| *atom == q.atoms as i32));
    let error = check(device()).expect_err("a record").to_string();
    assert!(error.contains("positions"), "{error}");
}

#[test]
fn a_search_can_be_captured_and_run_again_for_other_positions() {
    let (xla, _turn) = xla();
    let (q, capacity) = (question(DType::F64, 1, &[], false), 200);
    let (operands, results) = (xla.send(&q.operands), room(&xla, &q, capacity));
    let bytes = bytes_of(&q, capacity);
    let memory = xla.scratch(bytes);
    let graph = xla.capture(|| {
        xla.call_with(with_scratch(), &operands, &results, Some((&memory, bytes)), &q.with_room(capacity))
            .expect("a search");
    });
    let mut seen = vec![];
    for factor in [1.0, 1.4, 0.6] {
        let moved: Vec<f64> = q.operands[0].to_f64().unwrap().iter().map(|x| factor * x).collect();
        let mut other = question(DType::F64, 1, &[], false);
        other.operands[0] = Array::from_f64(DType::F64, &[q.atoms, 3], &moved).expect("a shape that fits");
        xla.overwrite(&operands, &other.operands);
        xla.replay(&graph);
        assert_eq!(read(&xla, &results), on_cpu(&other, capacity));
        seen.push(pairs_of(&other));
    }
    assert!(seen.iter().any(|pairs| *pairs != seen[0]), "other lists: {seen:?}");
    check(device()).expect("nothing went wrong");
}

#[test]
fn what_is_no_search_is_an_error() {
    let (xla, _turn) = xla();
    let q = question(DType::F64, 2, &[], false);
    let (operands, results) = (xla.send(&q.operands), room(&xla, &q, 300));
    let call = |operands: &[Array], results: &[Array]| {
        let error = xla.call(CUDA.plain, operands, results, &q.with_room(300)).expect_err("an error");
        assert_eq!(error.0, 3, "{error:?}");
        error.1
    };
    assert!(call(&operands[..3], &results).contains("`operands`"));
    assert!(call(&operands, &results[..2]).contains("`results`"));
    let axes_without_a_cell = question(DType::F64, 0, &[1, 0, 0], false);
    assert!(call(&xla.send(&axes_without_a_cell.operands), &results).contains("`cell`"));
    let short = room(&xla, &Question { atoms: 3, ..question(DType::F64, 2, &[], false) }, 300);
    assert!(call(&operands, &short).contains("`result`"));
    check(device()).expect("nothing was recorded");
}

#[test]
fn the_age_of_a_list_can_be_captured() {
    let (xla, _turn) = xla();
    let target = "madelung.needs_rebuild_v1";
    let copy = |array: &Array| array.view().to_array().expect("a copy");
    for (dtype, cells) in [(DType::F32, 1), (DType::F64, 0), (DType::F64, 2)] {
        let q = question(dtype, cells, &[], false);
        let [r, cell, _, of] = &q.operands[..] else { panic!("four operands") };
        let [axes, reference] = [[1, 1, 0], [1, 1, 0]].map(|axes| integers(&[1, 3], &axes));
        let host = [copy(r), copy(r), copy(cell), copy(cell), copy(of), axes, reference];
        let attributes = [
            ("target", Attribute::Text(target.into())),
            ("batch_idx_systems", Attribute::Int(2)),
            ("skin", Attribute::Real(0.5)),
        ];
        let attributes: BTreeMap<_, _> = attributes.map(|(name, x)| (name.to_string(), x)).into();
        let types = host.iter().map(|a| (a.dtype(), a.shape().to_vec())).collect();
        let (results, numbers) = (vec![(DType::I32, vec![2])], vec![2, 0.5_f64.to_bits()]);
        let outline = Outline { target, mask: 0, want: 0, numbers, operands: types, results };
        let bytes = scratch(&outline).expect("a size");
        let (operands, memory) = (xla.send(&host), xla.scratch(bytes));
        let results = xla.send(&[integers(&[2], &[-7, -7])]);
        let graph = xla.capture(|| {
            xla.call_with(with_scratch(), &operands, &results, Some((&memory, bytes)), &attributes)
                .expect("flags");
        });
        for (atom, step, expected) in
            [(0, 0.0, [0, 0]), (3, 0.24, [0, 0]), (4, 0.26, [1, 0]), (8, f64::NAN, [0, 1])]
        {
            let mut moved = r.to_f64().expect("numbers").to_vec();
            moved[3 * atom + 1] += step;
            let mut host: Vec<Array> = host.iter().map(copy).collect();
            host[0] = Array::from_f64(dtype, &[q.atoms, 3], &moved).expect("a shape that fits");
            xla.overwrite(&operands, &host);
            xla.replay(&graph);
            let on_cpu = call_on_cpu_with(CPU.plain, &host, &[vec![2]], &attributes, -7).expect("flags");
            assert_eq!(read(&xla, &results), on_cpu);
            assert_eq!(on_cpu, [expected]);
        }
    }
    check(device()).expect("nothing went wrong");
}
