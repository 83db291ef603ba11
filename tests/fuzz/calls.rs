//! Calls of ops, good and bad.

use crate::choices::Choices;
use crate::declared::{Given, Plan, dimensions, integer_attributes};
use madelung::Error;
use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::backend::PairLoops;
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::cpu::Cpu;
use madelung::cpu::Isa;
use madelung::map::Map;
use madelung::mesh::Mesh;
use madelung::neighbors::HashGrid;
use madelung::op::Structure;
use madelung::op::{Arg, ArgKind, Cotangent, Evaluated, Op, Request};
use madelung::pairs::{Kind, PairList};
use std::collections::BTreeMap;
use std::sync::Arc;

const DTYPES: [DType; 6] = [DType::F64, DType::F32, DType::I32, DType::F16, DType::BF16, DType::I64];
const SIZES: [usize; 8] = [3, 2, 1, 0, 5, 4, 7, 9];
const NUMBERS: [f64; 16] = [
    0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e300,
    -1e300,
    1e-300,
    f64::MAX,
    f64::MIN_POSITIVE,
    5e-324,
    1e39,
    -0.0,
    1e9,
    65_520.0,
];
const INTEGERS: [i64; 11] = [
    0,
    1,
    -1,
    2,
    i32::MAX as i64,
    i32::MIN as i64,
    i32::MAX as i64 + 1,
    i64::MAX,
    i64::MIN,
    1 << 40,
    100_000,
];

/// What came of the calls, by op.
#[derive(Default)]
pub(crate) struct Tally {
    calls: usize,
    good: BTreeMap<(String, &'static str), usize>,
    bad: BTreeMap<String, usize>,
}

impl Tally {
    /// Every member of every op was reached, and so were errors: the calls are neither all bad nor all good.
    pub(crate) fn check(&self) {
        let (good, bad): (usize, usize) = (self.good.values().sum(), self.bad.values().sum());
        println!("{} calls: {good} gave a result, {bad} an error", self.calls);
        for ((op, member), count) in &self.good {
            println!("  {op} {member}: {count}");
        }
        for op in ops() {
            for member in op.derivatives {
                let reached = self.good.contains_key(&(op.full_name(), member));
                assert!(
                    reached || self.calls < enough() as usize,
                    "{} {member} was never reached",
                    op.full_name()
                );
            }
        }
        assert!(self.calls < 1000 || 10 * good > self.calls && 10 * bad > self.calls);
    }
}

/// So many calls that each member of each op is reached: about one call in fifteen of an op is a good one of its rarest member,
/// of which twenty are expected then, and none once in 10⁸ times.
pub(crate) fn enough() -> u32 {
    300 * ops().len() as u32
}

fn ops() -> Vec<Arc<Op>> {
    madelung::registries()
        .into_iter()
        .chain([crate::kinds::registry()])
        .flat_map(|r| r.iter())
        .cloned()
        .collect()
}

/// One call. What is wrong with it, if it gave neither what was declared nor an error that says something.
pub(crate) fn one(choices: &mut Choices, tally: &mut Tally) -> Result<(), String> {
    let op = choices.of(&ops());
    let plan = plan(&op, choices);
    let mut given = plan.arguments(&op);
    // Half of all calls have arguments that fit.
    let wrong = [0, 1, 0, 2, 0, 1, 0, 3][choices.below(8)];
    for _ in 0..wrong {
        spoil(&op, &plan, &mut given, choices);
    }
    let args: Vec<Arg<'_>> = given.iter().map(Given::arg).collect();
    let args = if choices.once_in(100) { &args[choices.below(args.len())..] } else { &args[..] };
    let cpu = Cpu::at_most(choices.of(&[Isa::Avx512, Isa::Avx2, Isa::Portable]));
    let pair_loops = choices.of(&[PairLoops::Auto, PairLoops::Rows, PairLoops::Clusters]);
    let scatter = choices.once_in(3);
    let context = Context { backend: &cpu, pool: &Serial, scatter, pair_loops, ..madelung::cpu::context() };
    let asked = Asked::new(&op, &plan, choices);
    tally.calls += 1;
    match asked.evaluate(&op, &context, args) {
        Ok(done) => {
            *tally.good.entry((op.full_name(), asked.member())).or_default() += 1;
            asked.check(&op, &plan, &done, wrong == 0)
        }
        Err(Error::Argument { argument, expected, got }) => {
            *tally.bad.entry(op.full_name()).or_default() += 1;
            let empty = [&argument, &expected, &got].iter().any(|s| s.is_empty());
            if empty {
                Err(format!("an error that says nothing: {argument}, {expected}, {got}"))
            } else {
                Ok(())
            }
        }
        Err(_) => {
            *tally.bad.entry(op.full_name()).or_default() += 1;
            Ok(())
        }
    }
}

fn plan(op: &Op, choices: &mut Choices) -> Plan {
    let (systems, others) = dimensions(op);
    let mut dims: BTreeMap<String, usize> = others.into_iter().map(|d| (d, choices.of(&SIZES))).collect();
    let no_rows = dims.values().all(|n| *n == 0);
    dims.extend(systems.into_iter().map(|d| (d, choices.of(if no_rows { &[1, 0] } else { &[1, 2, 3] }))));
    Plan {
        dims,
        attrs: integer_attributes(op)
            .into_iter()
            .map(|(name, least, values)| (name, least + choices.below(values) as i64))
            .collect(),
        dtype: choices.of(&DTYPES[..2]),
        stored: choices.of(&[DType::F64, DType::F32, DType::F16, DType::BF16]),
        integers: choices.of(&[DType::I32, DType::I64]),
        pairs: choices.of(&[Kind::Full, Kind::Full, Kind::Half, Kind::Directed]),
        seed: u64::from(choices.number()),
    }
    .complete(op)
}

/// Makes one argument wrong, or at least strange.
fn spoil(op: &Op, plan: &Plan, given: &mut [Given], choices: &mut Choices) {
    if given.is_empty() {
        return;
    }
    let n = choices.below(given.len());
    given[n] = match (&given[n], choices.below(5)) {
        // Something else altogether.
        (_, 4) => anything(choices),
        (Given::Array(array), 0) => Given::Array(with_number(array, choices)),
        (Given::Array(array), 1) => Given::Array(array.cast(choices.of(&DTYPES)).unwrap()),
        (Given::Array(array), 2) => Given::Array(reshaped(array, plan, choices)),
        (Given::Array(array), _) => {
            let x = choices.of(&NUMBERS);
            Given::Array(Array::filled(array.dtype(), array.shape(), x))
        }
        (Given::Real(_), _) => Given::Real(choices.of(&NUMBERS)),
        (Given::Int(_), _) => Given::Int(choices.of(&INTEGERS)),
        (Given::Batch(_), _) => batch(choices).map_or(Given::Zero, Given::Batch),
        (Given::Pairs(list), _) => pairs(list, choices).map_or(Given::Zero, Given::Pairs),
        (Given::Grid(_), _) => grid(choices).map_or(Given::Zero, Given::Grid),
        (Given::Map(map), _) => {
            let into = if choices.once_in(2) { map.sizes()[1].unwrap_or(0) } else { choices.of(&SIZES) };
            let n = if choices.once_in(2) { map.rows() } else { choices.of(&SIZES) };
            Map::new(integers(choices, n), into).map_or(Given::Zero, Given::Map)
        }
        (Given::Mesh(_), _) => mesh(choices).map_or(Given::Zero, Given::Mesh),
        (Given::Zero, _) => match &op.args[n].kind {
            ArgKind::Real { shape, .. } => Given::Array(plan.numbers(plan.dtype, &plan.shape(shape), 7)),
            _ => anything(choices),
        },
    };
}

/// One element replaced.
fn with_number(array: &Array, choices: &mut Choices) -> Array {
    let mut data = array.to_f64().unwrap();
    if data.is_empty() {
        return array.try_clone().unwrap();
    }
    let at = choices.below(data.len());
    data[at] = if choices.once_in(2) { choices.of(&INTEGERS) as f64 } else { choices.of(&NUMBERS) };
    // Rows that are the same: two atoms on one point, a singular cell.
    if choices.once_in(3) && array.shape().last() == Some(&3) && data.len() >= 6 {
        let (from, to) = (choices.below(data.len() / 3), choices.below(data.len() / 3));
        data.copy_within(3 * from..3 * from + 3, 3 * to);
    }
    Array::from_f64(array.dtype(), array.shape(), &data).expect("shapes fit")
}

/// Another rank, another length, zero sizes.
fn reshaped(array: &Array, plan: &Plan, choices: &mut Choices) -> Array {
    let mut shape = array.shape().to_vec();
    let axis = choices.below(shape.len().max(1));
    match choices.below(5) {
        0 => shape.push(choices.of(&[1, 0, 3])),
        1 => drop(shape.pop()),
        2 if !shape.is_empty() => shape[axis] = choices.of(&SIZES),
        3 => shape.insert(0, choices.of(&[1, 0, 2])),
        _ => shape.reverse(),
    }
    plan.numbers(array.dtype(), &shape, 11)
}

fn anything(choices: &mut Choices) -> Given {
    match choices.below(8) {
        0 => Given::Zero,
        5 => mesh(choices).map_or(Given::Zero, Given::Mesh),
        6 => grid(choices).map_or(Given::Zero, Given::Grid),
        1 => Given::Real(choices.of(&NUMBERS)),
        2 => Given::Int(choices.of(&INTEGERS)),
        3 => batch(choices).map_or(Given::Zero, Given::Batch),
        4 => {
            let none = PairList::from_csr(vec![0], vec![], vec![], 0, Kind::Full).expect("a list");
            pairs(&none, choices).map_or(Given::Zero, Given::Pairs)
        }
        _ => {
            let rank = choices.below(4);
            let shape: Vec<usize> = (0..rank).map(|_| choices.of(&SIZES)).collect();
            Given::Array(Array::filled(choices.of(&DTYPES), &shape, choices.of(&NUMBERS)))
        }
    }
}

/// Small integers, now and then a large one.
fn integers(choices: &mut Choices, n: usize) -> Vec<i32> {
    (0..n)
        .map(|_| match choices.once_in(12) {
            true => choices.of(&[-1, i32::MAX, i32::MIN, 1000]),
            false => choices.below(5) as i32,
        })
        .collect()
}

/// What a mesh's constructor lets pass.
fn mesh(choices: &mut Choices) -> Option<Mesh> {
    let mut one = || {
        let sizes = std::array::from_fn(|_| choices.of(&[4, 2, 1, 0, 5, 7, usize::MAX]));
        (sizes, choices.of(&[2, 3, 0, 1, 4, 11, usize::MAX]))
    };
    let (alike, other) = (one(), one());
    let systems = choices.of(&SIZES);
    if choices.once_in(2) {
        return Mesh::new(alike.0, alike.1, systems).ok();
    }
    Mesh::of_systems(&[vec![alike; systems.saturating_sub(1)], vec![other; systems.min(1)]].concat()).ok()
}

/// What a grid's constructor lets pass.
fn grid(choices: &mut Choices) -> Option<Arc<HashGrid>> {
    let batch = batch(choices)?;
    let points = Array::filled(DType::F64, &[batch.atoms(), 3], choices.of(&NUMBERS));
    HashGrid::build(&madelung::cpu::context(), &points.view(), None, None, batch).ok().map(Arc::new)
}

/// What a batch's constructors let pass.
fn batch(choices: &mut Choices) -> Option<Batch<'static>> {
    let n = choices.of(&SIZES);
    let mut data = integers(choices, n);
    if choices.once_in(2) {
        data.sort_unstable();
    }
    let systems = [None, Some(0), Some(1), Some(4)][choices.below(4)];
    match choices.below(3) {
        0 => Batch::single(n).ok(),
        1 => Batch::from_idx(data, systems).ok(),
        // Offsets say how long the array of systems is: what they say is allocated.
        _ => Batch::from_ptr(data.into_iter().map(|x| x.min(1000)).collect::<Vec<_>>()).ok(),
    }
}

/// What a list's constructors let pass, of a list that fits or of numbers.
fn pairs(list: &PairList<'_>, choices: &mut Choices) -> Option<PairList<'static>> {
    let csr = list.to_csr();
    let (mut ptr, mut others, mut shifts) =
        (csr.neighbor_ptr.to_vec(), csr.others.to_vec(), csr.shifts.to_vec());
    let columns = if choices.once_in(4) { choices.of(&SIZES) } else { list.columns() };
    let kind = choices.of(&[list.kind(), Kind::Full, Kind::Half, Kind::Directed]);
    match choices.below(8) {
        0 => return list.to_half().ok().map(PairList::into_owned),
        1 => drop(others.pop()),
        2 => {
            let n = choices.of(&SIZES);
            others = integers(choices, n);
            shifts = vec![[0; 3]; n];
        }
        3 => {
            let n = choices.of(&SIZES);
            ptr = integers(choices, n).into_iter().map(i64::from).collect();
        }
        4 if !shifts.is_empty() => {
            let at = choices.below(shifts.len());
            shifts[at] = integers(choices, 3).try_into().unwrap_or_default();
        }
        5 => {
            let n = choices.of(&SIZES);
            let (i, j) = (integers(choices, n), integers(choices, n));
            return PairList::from_coo(&i, j, vec![[0; 3]; n], columns, columns, kind).ok();
        }
        6 => {
            let shape = [choices.of(&SIZES), choices.of(&SIZES)];
            let n = shape[0] * shape[1];
            let (matrix, shifts) = (integers(choices, n), vec![[0; 3]; n]);
            let fill = choices.of(&[-1, 3, i32::MAX, i32::MIN]);
            return PairList::from_matrix(matrix, shape, shifts, fill, columns, kind).ok();
        }
        _ => {}
    }
    PairList::from_csr(ptr, others, shifts, columns, kind).ok()
}

/// What is asked of a call.
struct Asked {
    values: bool,
    directions: Vec<Vec<Option<Array>>>,
    cotangents: Vec<Option<Weight>>,
    gradients: Vec<usize>,
    save: Option<Vec<usize>>,
    saved: Vec<Option<Array>>,
    /// Whether all of it fits the declaration.
    fits: bool,
}

enum Weight {
    Array(Array),
    Uniform(f64),
}

impl Asked {
    fn new(op: &Op, plan: &Plan, choices: &mut Choices) -> Self {
        let mut fits = true;
        let member = choices.below(5);
        let order = [0, 1, 2, 0, 1][member] + usize::from(choices.once_in(40));
        let directions = (0..order).map(|k| direction(op, plan, choices, 20 * k as u64, &mut fits)).collect();
        let backward = member >= 3;
        let number = if backward { op.outputs.len() + usize::from(choices.once_in(40)) } else { 0 };
        let cotangents = (0..number).map(|n| weight(op, plan, choices, n, &mut fits)).collect();
        let mut gradients: Vec<usize> = (0..op.args.len())
            .filter(|n| backward && op.is_differentiable(*n) && !choices.once_in(3))
            .collect();
        if choices.once_in(30) {
            fits = false;
            gradients.push(choices.of(&[0, 1, 2, 5, 99, usize::MAX]));
        }
        let save = choices.once_in(8).then(|| gradients.clone());
        fits &= save.is_none() || !backward && order == 0;
        let saved = if choices.once_in(20) { spoiled(op, plan, choices) } else { vec![] };
        fits &= saved.is_empty() && order + usize::from(backward) <= 2 && number <= op.outputs.len();
        let values = choices.once_in(2);
        fits &= !(values && backward && order > 0);
        Self { values, directions, cotangents, gradients, save, saved, fits }
    }

    fn member(&self) -> &'static str {
        match (self.cotangents.is_empty(), self.directions.len()) {
            (true, 0) => "F0",
            (true, 1) => "F1",
            (true, _) => "F2",
            (false, 0) => "G0",
            (false, _) => "G1",
        }
    }

    fn evaluate(&self, op: &Op, context: &Context<'_>, args: &[Arg<'_>]) -> madelung::Result<Evaluated> {
        fn borrowed(arrays: &[Option<Array>]) -> Vec<Option<View<'_>>> {
            arrays.iter().map(|a| a.as_ref().map(Array::view)).collect()
        }
        let directions: Vec<Vec<Option<View<'_>>>> = self.directions.iter().map(|d| borrowed(d)).collect();
        let directions: Vec<&[Option<View<'_>>]> = directions.iter().map(Vec::as_slice).collect();
        let mut cotangents = vec![];
        for w in &self.cotangents {
            cotangents.push(w.as_ref().map(|w| match w {
                Weight::Array(array) => Cotangent::Array(array.view()),
                Weight::Uniform(x) => Cotangent::Uniform(*x),
            }));
        }
        let request = Request {
            values: self.values,
            directions: &directions,
            cotangents: &cotangents,
            gradients: &self.gradients,
            save: self.save.as_deref(),
            saved: &borrowed(&self.saved),
        };
        op.evaluate(context, args, &request)
    }

    /// Whether all tangents and cotangents are: otherwise results need not be.
    fn is_finite(&self) -> bool {
        let finite = |array: &Array| array.to_f64().unwrap().iter().all(|x| x.is_finite());
        self.directions.iter().flatten().flatten().all(finite)
            && self.cotangents.iter().flatten().all(|w| match w {
                Weight::Array(array) => finite(array),
                Weight::Uniform(x) => x.is_finite(),
            })
    }

    /// The results have the shapes that the declaration says, and finite numbers where those of the request are.
    fn check(&self, op: &Op, plan: &Plan, done: &Evaluated, good: bool) -> Result<(), String> {
        if !self.gradients.is_empty()
            && done.gradients.len() != self.gradients.len()
            && !self.cotangents.is_empty()
        {
            return Err(format!("{} gradients for {:?}", done.gradients.len(), self.gradients));
        }
        for array in done.values.iter().chain(&done.gradients).chain(done.saved.iter().flatten()) {
            if self.is_finite() && array.to_f64().unwrap().iter().any(|x| !x.is_finite()) {
                return Err("a result that is not finite".into());
            }
        }
        if good && self.fits {
            for (spec, array) in op.outputs.iter().zip(&done.values) {
                if plan.shape(&spec.shape) != array.shape() {
                    return Err(format!("{} of shape {:?}", spec.name, array.shape()));
                }
            }
        }
        Ok(())
    }
}

fn direction(op: &Op, plan: &Plan, choices: &mut Choices, seed: u64, fits: &mut bool) -> Vec<Option<Array>> {
    let mut arrays: Vec<Option<Array>> = vec![];
    for (n, arg) in (seed..).zip(&op.args) {
        arrays.push(match &arg.kind {
            ArgKind::Real { shape, .. } if !choices.once_in(3) => {
                Some(plan.numbers(plan.dtype_of(arg), &plan.shape(shape), n))
            }
            _ => None,
        });
    }
    if choices.once_in(12) {
        *fits = false;
        let at = choices.below(arrays.len().max(1));
        match (choices.below(3), arrays.get_mut(at)) {
            (0, Some(Some(array))) => *array = with_number(array, choices),
            (1, Some(slot)) => *slot = Some(plan.numbers(choices.of(&DTYPES), &[choices.of(&SIZES)], 3)),
            _ => drop(arrays.pop()),
        }
    }
    arrays
}

fn weight(op: &Op, plan: &Plan, choices: &mut Choices, n: usize, fits: &mut bool) -> Option<Weight> {
    let spec = op.outputs.get(n)?;
    if spec.dtype.is_some() && !choices.once_in(20) {
        return None;
    }
    let stored = spec.stored_as.as_ref().map_or(plan.dtype, |_| plan.stored);
    match choices.below(8) {
        0 => None,
        1 | 2 => Some(Weight::Uniform(if choices.once_in(10) { choices.of(&NUMBERS) } else { 0.5 })),
        3 if choices.once_in(2) => {
            *fits = false;
            let array = plan.numbers(choices.of(&DTYPES), &plan.shape(&spec.shape), 5);
            Some(Weight::Array(reshaped(&with_number(&array, choices), plan, choices)))
        }
        _ => Some(Weight::Array(plan.numbers(stored, &plan.shape(&spec.shape), 5))),
    }
}

/// Saved arrays that no call saved.
fn spoiled(op: &Op, plan: &Plan, choices: &mut Choices) -> Vec<Option<Array>> {
    let mut arrays = vec![];
    for spec in op.saved() {
        let dtype = if choices.once_in(10) { choices.of(&DTYPES) } else { plan.dtype };
        let array = plan.numbers(dtype, &plan.shape(&spec.shape), 9);
        arrays.push(
            (!choices.once_in(3))
                .then(|| if choices.once_in(5) { reshaped(&array, plan, choices) } else { array }),
        );
    }
    if choices.once_in(10) {
        arrays.push(None);
    }
    arrays
}
