//! Frames for CUDA, as XLA makes them, against the handler of the CPU. The driver, NVRTC and the rest of CUDA are stand-ins
//! that run kernels on the host (`tests/stand_in`), and so is XLA (`xla.rs`).

mod search;
mod xla;

use madelung_bridge_jax::{Described, HANDLERS, Handler, Handlers, Outline, describe, scratch};
use madelung_core::array::{Array, DType, View};
use madelung_core::op::{ArgKind, Linear, Op, Size, Work};
use madelung_cuda::{Device, check};
use madelung_stand_in::{UNASKED, UNCOMPILED, calls};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla::{Attribute, Xla, call_on_cpu, integers};

const CPU: Handlers = HANDLERS[0];
const CUDA: Handlers = HANDLERS[1];

/// Room behind the pairs of a list.
const SPARE: usize = 5;

/// Two systems, of four atoms and two, with a list of all pairs of each and the images next to them along one axis; four
/// segments, one of them empty.
struct Input {
    arrays: BTreeMap<&'static str, Array>,
    dims: BTreeMap<&'static str, usize>,
    pairs: usize,
}

/// Numbers between -1 and 1 that repeat nowhere.
fn numbers(seed: u64) -> impl Iterator<Item = f64> {
    (1..).map(move |n: u64| ((n + 97 * seed) as f64 * 0.754_877_666_246_693).fract() * 2.0 - 1.0)
}

fn some_reals(shape: &[usize], seed: u64) -> Array {
    let data: Vec<f64> = numbers(seed).take(shape.iter().product()).collect();
    Array::from_f64(DType::F64, shape, &data).expect("a shape that fits")
}

impl Input {
    /// Operands with room for `spare` pairs more than there are, or fewer.
    fn new(spare: isize) -> Self {
        let of = [0, 0, 0, 0, 1, 1];
        let atoms = of.len();
        let grid = |n: usize| [n % 2, n / 2 % 2, n / 4].map(|k| 2.1 * k as f64);
        let positions: Vec<f64> =
            (0..atoms).flat_map(grid).zip(numbers(1)).map(|(x, jitter)| x + 0.3 * jitter).collect();
        let cells =
            [[7.0, 0.0, 0.0, 0.5, 6.5, 0.0, 0.2, -0.4, 8.0], [6.0, 0.1, 0.0, 0.0, 7.5, 0.3, 0.0, 0.0, 6.0]];
        let (mut ptr, mut others, mut shifts) = (vec![0], vec![], vec![]);
        for i in 0..atoms {
            for (j, image) in (0..atoms).flat_map(|j| [-1, 0, 1].map(|image| (j, image))) {
                if of[i] == of[j] && (i != j || image != 0) {
                    others.push(j as i32);
                    shifts.extend([image, 0, 0]);
                }
            }
            ptr.push(others.len() as i32);
        }
        let pairs = others.len();
        let room = pairs.checked_add_signed(spare).expect("room");
        // Entries behind the last pair are no valid indices.
        others.resize(room, i32::MAX);
        shifts.resize(3 * room, i32::MAX);
        let miller = [1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, -1, 0, 1, 1, 0, 0, 0, 2, 0];
        let f64s = |shape: &[usize], data: &[f64]| {
            Array::from_f64(DType::F64, shape, data).expect("a shape that fits")
        };
        let arrays = BTreeMap::from([
            ("positions", f64s(&[atoms, 3], &positions)),
            ("queries", f64s(&[atoms, 3], &positions)),
            ("points", f64s(&[atoms, 3], &positions)),
            ("charges", f64s(&[atoms], &[1.0, -1.0, 0.5, -0.6, 0.8, -0.7])),
            ("cell", f64s(&[2, 3, 3], cells.as_flattened())),
            ("alpha", f64s(&[2], &[0.4, 0.5])),
            ("widths", f64s(&[atoms], &[0.5, 0.6, 0.7, 0.4, 0.5, 0.6])),
            ("exponents", f64s(&[atoms], &[0.5, 0.6, 0.7, 0.4, 0.5, 0.6])),
            ("sigma", f64s(&[2], &[0.7, 0.5])),
            ("strain", Array::zeros(DType::F64, &[0])),
            ("atoms", integers(&[atoms], &of)),
            ("query_batch_idx", integers(&[atoms], &of)),
            ("batch_idx", integers(&[atoms], &of)),
            ("pairs_ptr", integers(&[atoms + 1], &ptr)),
            ("pairs", integers(&[room], &others)),
            ("pairs_shifts", integers(&[room, 3], &shifts)),
            ("excluded_ptr", integers(&[atoms + 1], &ptr)),
            ("excluded", integers(&[room], &others)),
            ("excluded_shifts", integers(&[room, 3], &shifts)),
            ("exclusion_of", integers(&[room], &(0..room).map(|p| (p % 3) as i32).collect::<Vec<_>>())),
            ("open_axis", integers(&[2, 3], &[0, 0, 1, 0, 1, 0])),
            ("wire_axis", integers(&[2, 3], &[0, 0, 1, 0, 1, 0])),
            ("is_open", integers(&[2], &[1, 0])),
            ("lines", integers(&[7, 3], &miller)),
            ("beside", integers(&[7], &[0; 7])),
            ("line_systems", integers(&[7], &[0, 0, 0, 0, 0, 1, 1])),
            ("miller", integers(&[7, 3], &miller)),
            ("waves", integers(&[7], &[0, 0, 0, 0, 0, 1, 1])),
            ("segment_idx", integers(&[7], &[0, 0, 0, 1, 3, 3, 3])),
            ("pbc", integers(&[2, 3], &[1, 1, 0, 1, 1, 1])),
            ("query_order", integers(&[atoms], &[1, 3, 0, 2, 1, 0])),
            ("order", integers(&[atoms], &[3, 2, 1, 0, 0, 1])),
        ]);
        let dims = BTreeMap::from([
            ("Atom", atoms),
            ("Query", atoms),
            ("Point", atoms),
            ("System", 2),
            ("Wave", 7),
            ("Line", 7),
            ("Pair", room),
            ("Entry", 7),
            ("Excluded", room),
            ("Exclusion", 3),
            ("Segment", 4),
            ("Feature", 3),
            ("Axis", 3),
        ]);
        Self { arrays, dims, pairs }
    }

    fn shape(&self, shape: &[Size]) -> Vec<usize> {
        let size = |size: &Size| match size {
            Size::Const(n) => *n,
            Size::Dim(dim) => self.dims[&**dim],
            other => panic!("no size of these ops: {other:?}"),
        };
        shape.iter().map(size).collect()
    }

    fn of_arg(&self, op: &Op, arg: usize) -> Vec<usize> {
        match &op.args[arg].kind {
            ArgKind::Real { shape, .. } => self.shape(shape),
            other => panic!("nothing to differentiate by: {other:?}"),
        }
    }

    /// A frame for a member: operands, shapes of results, attributes.
    fn frame(&self, described: &Described, suffix: &str, target: &str) -> Question {
        let op = &described.op;
        let mut attributes = BTreeMap::from([("target".to_string(), Attribute::Text(target.into()))]);
        let mut operands = vec![];
        for input in described.inputs.iter() {
            match (self.arrays.get(&*input.name), &*input.name) {
                (Some(array), _) => operands.push(array.view().to_array().unwrap()),
                (None, "pairs_kind" | "excluded_kind") => {
                    _ = attributes.insert(input.name.clone(), Attribute::Int(0))
                }
                // Of each system, within the smallest height.
                (None, "cutoff") if matches!(op.args[input.arg].kind, ArgKind::Real { .. }) => {
                    operands.push(Array::filled(DType::F64, &self.of_arg(op, input.arg), 3.0));
                }
                (None, "images_1" | "images_2" | "images_3") => {
                    _ = attributes.insert(input.name.clone(), Attribute::Int(2))
                }
                (None, "cutoff" | "radius") => {
                    _ = attributes.insert(input.name.clone(), Attribute::Real(5.0))
                }
                (None, "axes") => _ = attributes.insert(input.name.clone(), Attribute::Int(7)),
                (None, "max_neighbors") => _ = attributes.insert(input.name.clone(), Attribute::Int(60)),
                (None, "batch_idx_systems" | "query_batch_idx_systems") => {
                    _ = attributes.insert(input.name.clone(), Attribute::Int(self.dims["System"] as i64));
                }
                (None, "segment_idx_systems") => {
                    _ = attributes.insert(input.name.clone(), Attribute::Int(self.dims["Segment"] as i64));
                }
                (None, _) if matches!(op.args[input.arg].kind, ArgKind::Real { .. }) => {
                    operands.push(some_reals(&self.of_arg(op, input.arg), 7 + input.arg as u64));
                }
                (None, "eps" | "normalize" | "real" | "reciprocal") => {
                    _ = attributes.insert(input.name.clone(), Attribute::Real(1.0))
                }
                (None, "mesh") => {
                    _ = attributes.insert(input.name.clone(), Attribute::Text("6 6 6 4".into()))
                }
                (None, "prefactor") => _ = attributes.insert(input.name.clone(), Attribute::Real(1.5)),
                (None, other) => panic!("{target}: an input that the test has no value for: {other}"),
            }
        }
        let reals: Vec<usize> = (0..op.args.len()).filter(|n| op.is_differentiable(*n)).collect();
        let direction = || reals.iter().map(|arg| self.of_arg(op, *arg)).collect::<Vec<_>>();
        let outputs: Vec<Vec<usize>> = op.outputs.iter().map(|o| self.shape(&o.shape)).collect();
        let (extra, results) = match suffix {
            "" => (vec![], outputs),
            "_direct" => (vec![], [outputs, direction()].concat()),
            "_jvp" => (direction(), outputs),
            "_jvp2" => ([direction(), direction()].concat(), outputs),
            "_vjp" => (outputs, direction()),
            "_vjp_jvp" => ([outputs, direction()].concat(), direction()),
            "_saving" => {
                let saved = op.saved();
                let by: Vec<&str> =
                    saved.iter().filter_map(|spec| spec.name.strip_prefix("gradient by ")).collect();
                // Arrays that steps hand on are saved for every gradient.
                let is_wanted = |arg: usize| by.is_empty() || by.contains(&&*op.args[arg].name);
                let want =
                    reals.iter().enumerate().filter(|(_, arg)| is_wanted(**arg)).map(|(n, _)| 1 << n).sum();
                attributes.insert("want".into(), Attribute::Int(want));
                (
                    vec![],
                    outputs.into_iter().chain(saved.iter().map(|spec| self.shape(&spec.shape))).collect(),
                )
            }
            other => panic!("no member: {other}"),
        };
        // All arrays that may follow are given, except for those that an earlier call has saved.
        attributes.insert("mask".into(), Attribute::Int((1 << extra.len()) - 1));
        attributes.entry("want".into()).or_insert(Attribute::Int((1 << reals.len()) - 1));
        operands.extend(extra.iter().zip(2..).map(|(shape, seed)| some_reals(shape, seed)));
        Question { operands, results, attributes }
    }
}

struct Question {
    operands: Vec<Array>,
    results: Vec<Vec<usize>>,
    attributes: BTreeMap<String, Attribute>,
}

fn described() -> Vec<Described> {
    let registries = [madelung_neighbors::registry(), madelung_electrostatics::registry()];
    describe(&registries).expect("the ops of the library")
}

/// The record of a device and the log of calls are the process's: one test at a time.
fn xla() -> (Xla, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    madelung_stand_in::install();
    (Xla::new(0), turn)
}

fn device() -> &'static Device {
    Device::get(0).expect("a device")
}

/// Whether what an op needs of memory is known without its device: that of a Fourier transform is not.
fn is_measured(described: &Described) -> bool {
    described.op.steps().iter().all(|step| !matches!(step.work, Work::Linear(Linear::RealFft)))
}

/// Elements of a result as they are compared: what is saved of rows that are searched for is in the order of their search,
/// which is another on a device, so these are sorted.
fn arranged(described: &Described, target: &str, result: usize, elements: &[f64]) -> Vec<f64> {
    let mut elements = elements.to_vec();
    let is_saved = target.ends_with("_saving") && result >= described.op.outputs.len();
    if is_saved && described.op.arg("query_order").is_some() {
        elements.sort_by(f64::total_cmp);
    }
    elements
}

/// Every member of every op, of a list with so much room to spare.
fn questions(spare: isize, mut ask: impl FnMut(&Described, &str, Question)) {
    let input = Input::new(spare);
    for described in described() {
        for (suffix, target) in &described.targets {
            ask(&described, target, input.frame(&described, suffix, target));
        }
    }
}

#[test]
fn cuda_gives_what_the_cpu_gives() {
    let (xla, _turn) = xla();
    let mut asked = 0;
    for spare in [0, SPARE as isize] {
        questions(spare, |described, target, q| {
            let want = call_on_cpu(CPU.plain, &q.operands, &q.results, &q.attributes)
                .unwrap_or_else(|e| panic!("{target}: {e:?}"));
            let (operands, results) = (xla.send(&q.operands), xla.results(&q.results));
            let done = xla.call(CUDA.plain, &operands, &results, &q.attributes);
            done.unwrap_or_else(|e| panic!("{target}: {e:?}"));
            check(device()).unwrap_or_else(|e| panic!("{target}: {e}"));
            for (n, (got, want)) in xla.read(&results).iter().zip(&want).enumerate() {
                let [got, want] = [got, want].map(|x| arranged(described, target, n, x));
                let largest = want.iter().fold(1e-3, |most: f64, x| most.max(x.abs()));
                for (k, (a, b)) in got.iter().zip(&want).enumerate() {
                    let differ = (a - b).abs() / largest;
                    assert!(differ < 1e-12, "{target}: element {k} of result {n}: {a} and {b}");
                }
            }
            asked += 1;
        });
    }
    let members: usize = described().iter().map(|d| d.targets.len()).sum();
    assert_eq!((asked, members > 30), (2 * members, true), "the members of all ops");
}

#[test]
fn results_per_pair_are_zero_where_there_is_no_pair() {
    let (xla, _turn) = xla();
    let pairs = Input::new(0).pairs;
    let mut seen = 0;
    questions(SPARE as isize, |_, target, q| {
        let results = xla.results(&q.results);
        xla.call(CUDA.plain, &xla.send(&q.operands), &results, &q.attributes).expect("a call");
        for (shape, result) in q.results.iter().zip(xla.read(&results)) {
            if shape[0] == pairs + SPARE {
                let width = result.len() / shape[0];
                let behind = &result[pairs * width..];
                assert!(behind.iter().all(|x| *x == 0.0), "{target}: {behind:?}");
                seen += 1;
            }
        }
    });
    assert!(seen > 0, "an op with elements per pair");
    check(device()).expect("nothing went wrong");
}

#[test]
fn a_list_beyond_its_room_gives_nan_and_is_recorded() {
    let (xla, _turn) = xla();
    questions(-1, |described, target, q| {
        if !described.inputs.iter().any(|input| input.name == "pairs_ptr") {
            return;
        }
        let want = call_on_cpu(CPU.plain, &q.operands, &q.results, &q.attributes).expect("NaN, and no error");
        let results = xla.results(&q.results);
        xla.call(CUDA.plain, &xla.send(&q.operands), &results, &q.attributes).expect("NaN, and no error");
        for values in [want, xla.read(&results)] {
            assert!(values.iter().flatten().all(|x| x.is_nan()), "{target}: {values:?}");
        }
        let error = check(device()).expect_err("a record").to_string();
        // Of the lists of an op, all of which lack room, one is named.
        let mut lists = described.inputs.iter().filter_map(|input| input.name.strip_suffix("_ptr"));
        let named =
            lists.any(|list| error.contains(&format!("::{list}`")) || error.contains(&format!("`{list}`")));
        assert!(named && error.contains("capacity that is too small"), "{target}: {error}");
        check(device()).expect("told once");
    });
}

#[test]
fn a_call_after_the_first_only_puts_work_on_the_stream() {
    let (xla, _turn) = xla();
    questions(SPARE as isize, |_, target, q| {
        let (operands, results) = (xla.send(&q.operands), xla.results(&q.results));
        let call = || xla.call(CUDA.plain, &operands, &results, &q.attributes).expect("a call");
        call();
        let counts = || (UNASKED.map(calls), UNCOMPILED.map(calls), calls("cuCtxGetDevice"));
        let before = counts();
        let launched = calls("cuLaunchKernel");
        call();
        assert_eq!(counts(), before, "{target}");
        assert!(calls("cuLaunchKernel") > launched, "{target}");
    });
    check(device()).expect("nothing went wrong");
}

/// The handler that has its scratch as a result.
fn with_scratch() -> Handler {
    CUDA.with_scratch.expect("a handler")
}

/// The bytes of that scratch.
fn bytes_of(described: &Described, target: &str, q: &Question) -> usize {
    let typed = |view: &View<'_>| (view.dtype(), view.shape().to_vec());
    let integer = |name: &str| match q.attributes.get(name) {
        Some(Attribute::Int(n)) => n.cast_unsigned(),
        other => panic!("{target}: no integer: {other:?}"),
    };
    let numbers = described.inputs.iter().flat_map(|input| match q.attributes.get(&*input.name) {
        Some(Attribute::Int(n)) => vec![n.cast_unsigned()],
        Some(Attribute::Real(x)) => vec![x.to_bits()],
        // A list of four integers.
        Some(Attribute::Text(list)) => {
            let list = list.split(' ').map(|n| n.parse().expect("an integer"));
            [4].into_iter().chain(list).collect()
        }
        None => vec![],
    });
    let outline = Outline {
        target,
        mask: integer("mask"),
        want: integer("want"),
        numbers: numbers.collect(),
        operands: q.operands.iter().map(|array| typed(&array.view())).collect(),
        results: q.results.iter().map(|shape| (DType::F64, shape.clone())).collect(),
    };
    scratch(&outline).unwrap_or_else(|e| panic!("{target}: {e}"))
}

#[test]
fn scratch_of_the_size_that_was_measured_is_all_that_a_call_asks_for() {
    let (xla, _turn) = xla();
    questions(SPARE as isize, |described, target, q| {
        if !is_measured(described) {
            return;
        }
        let (operands, want, got) = (xla.send(&q.operands), xla.results(&q.results), xla.results(&q.results));
        xla.call(CUDA.plain, &operands, &want, &q.attributes).unwrap_or_else(|e| panic!("{target}: {e:?}"));
        let bytes = bytes_of(described, target, &q);
        let memory = xla.scratch(bytes);
        let call = |bytes: usize| {
            xla.call_with(with_scratch(), &operands, &got, Some((&memory, bytes)), &q.attributes)
        };
        xla.exhausted.store(true, Ordering::Relaxed);
        let copies = calls("cuMemcpyDtoDAsync_v2");
        call(bytes).unwrap_or_else(|e| panic!("{target}: {e:?}"));
        assert_eq!(calls("cuMemcpyDtoDAsync_v2"), copies, "{target}: results are made where they are wanted");
        assert_eq!(xla.read(&got), xla.read(&want), "{target}");
        // Scratch is too small if less by more than alignment may take.
        let (code, text) = call(bytes - 512).expect_err(target);
        assert!(code == 13 && text.contains("scratch memory"), "{target}: {code}: {text}");
        xla.exhausted.store(false, Ordering::Relaxed);
    });
    check(device()).expect("nothing went wrong");
}

#[test]
fn a_call_with_scratch_can_be_captured_and_run_again_on_other_numbers() {
    let (xla, _turn) = xla();
    questions(SPARE as isize, |described, target, q| {
        if !is_measured(described) {
            return;
        }
        let (operands, results) = (xla.send(&q.operands), xla.results(&q.results));
        let bytes = bytes_of(described, target, &q);
        let memory = xla.scratch(bytes);
        let graph = xla.capture(|| {
            xla.call_with(with_scratch(), &operands, &results, Some((&memory, bytes)), &q.attributes)
                .unwrap_or_else(|e| panic!("{target}: {e:?}"));
        });
        for factor in [1.0, 0.97] {
            // All operands that are no integers, and so every argument of physics.
            let others: Vec<Array> = q.operands.iter().map(|array| scaled(array, factor)).collect();
            xla.overwrite(&operands, &others);
            // Scratch may be anybody's between two runs.
            xla.overwrite(std::slice::from_ref(&memory), &[filled_like(&memory)]);
            xla.replay(&graph);
            let want = call_on_cpu(CPU.plain, &others, &q.results, &q.attributes)
                .unwrap_or_else(|e| panic!("{target}: {e:?}"));
            for (n, (got, want)) in xla.read(&results).iter().zip(&want).enumerate() {
                let [got, want] = [got, want].map(|x| arranged(described, target, n, x));
                let largest = want.iter().fold(1e-3, |most: f64, x| most.max(x.abs()));
                for (a, b) in got.iter().zip(want) {
                    assert!((a - b).abs() / largest < 1e-12, "{target}: result {n}: {a} and {b}");
                }
            }
        }
    });
    check(device()).expect("nothing went wrong");
}

/// The array with its reals times a factor.
fn scaled(array: &Array, factor: f64) -> Array {
    if !array.dtype().is_real() {
        return array.view().to_array().unwrap();
    }
    let data: Vec<f64> = array.to_f64().unwrap().iter().map(|x| factor * x).collect();
    Array::from_f64(array.dtype(), array.shape(), &data).expect("a shape that fits")
}

/// An array of NaN.
fn filled_like(array: &Array) -> Array {
    Array::filled(array.dtype(), array.shape(), f64::NAN)
}

#[test]
fn a_call_that_lacks_its_scratch_is_an_error() {
    let (xla, _turn) = xla();
    let described = described();
    let op = described.iter().find(|d| d.op.name == "pair_vectors").expect("an op of the library");
    let target = &op.targets[0].1;
    let q = Input::new(0).frame(op, "", target);
    let (operands, results) = (xla.send(&q.operands), xla.results(&q.results));
    let error = xla.call(with_scratch(), &operands, &results, &q.attributes).expect_err("no scratch");
    assert!(error.0 == 3 && error.1.contains("`scratch`"), "{error:?}");
    let error = xla.call(with_scratch(), &operands, &[], &q.attributes).expect_err("no result");
    assert!(error.0 == 3 && error.1.contains("`results`"), "{error:?}");
    let outline =
        |target, operands| Outline { target, mask: 0, want: 0, numbers: vec![0], operands, results: vec![] };
    let unknown = scratch(&outline("madelung.none_v1", vec![])).expect_err("no op").to_string();
    assert!(unknown.contains("madelung.none_v1"), "{unknown}");
    let fewer =
        scratch(&outline(target, vec![(DType::F64, vec![6, 3])])).expect_err("one operand").to_string();
    assert!(fewer.contains("`operands`") && fewer.contains('6'), "{fewer}");
}

#[test]
fn what_xla_or_the_arguments_lack_is_an_error() {
    let (xla, _turn) = xla();
    let (invalid, exhausted) = (3, 8);
    let described = described();
    let op = described.iter().find(|d| d.op.name == "pair_vectors").expect("an op of the library");
    let q = Input::new(0).frame(op, "", &op.targets[0].1);
    let (operands, results) = (xla.send(&q.operands), xla.results(&q.results));
    let call = |results: &[Array]| xla.call(CUDA.plain, &operands, results, &q.attributes);
    let said = |(code, text): (u32, String), expected: u32, part: &str| {
        assert!(code == expected && text.contains(part), "{code}: {text}");
    };
    xla.exhausted.store(true, Ordering::Relaxed);
    said(call(&results).expect_err("no memory"), exhausted, "out of memory: ");
    xla.exhausted.store(false, Ordering::Relaxed);
    xla.default_stream.store(true, Ordering::Relaxed);
    said(call(&results).expect_err("no stream"), invalid, "`stream`");
    xla.default_stream.store(false, Ordering::Relaxed);
    said(call(&xla.results(&q.results[..1])).expect_err("one result"), invalid, "`results`");
    let short = xla.results(&[q.results[0].clone(), vec![1]]);
    said(call(&short).expect_err("a short result"), invalid, "`result`");
    call(&results).expect("a call that lacks nothing");
    check(device()).expect("nothing was recorded");
}
