//! Frames for CUDA, as XLA makes them, against the handler of the CPU. The driver, NVRTC and the rest of CUDA are stand-ins
//! that run kernels on the host (`tests/stand_in`), and so is XLA (`xla.rs`).

mod xla;

use madelung_bridge_jax::{Described, HANDLERS, Handlers, SEARCH, describe};
use madelung_core::array::{Array, DType};
use madelung_core::backend::cuda::{Device, check};
use madelung_core::op::{ArgKind, Op, Size};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use xla::{Attribute, Xla, call_on_cpu, integers};

const [CPU, CUDA]: [Handlers; 2] = HANDLERS;

/// Room behind the pairs of a list.
const SPARE: usize = 5;

/// Two systems, of four atoms and two, with a list of all pairs of each and the images next to them along one axis.
struct Input {
    arrays: BTreeMap<&'static str, Array>,
    dims: BTreeMap<&'static str, usize>,
    pairs: usize,
}

/// Numbers between -1 and 1 that repeat nowhere.
fn numbers(seed: u64) -> impl Iterator<Item = f64> {
    (1..).map(move |n: u64| ((n + 97 * seed) as f64 * 0.754_877_666_246_693).fract() * 2.0 - 1.0)
}

fn reals(shape: &[usize], seed: u64) -> Array {
    let data: Vec<f64> = numbers(seed).take(shape.iter().product()).collect();
    Array::from_f64(DType::F64, shape, &data).expect("a shape that fits")
}

impl Input {
    /// With room for `spare` pairs more than there are, or fewer.
    fn new(spare: isize) -> Self {
        let of = [0, 0, 0, 0, 1, 1];
        let atoms = of.len();
        let grid = |n: usize| [n % 2, n / 2 % 2, n / 4].map(|k| 2.1 * k as f64);
        let positions: Vec<f64> =
            (0..atoms).flat_map(grid).zip(numbers(1)).map(|(x, jitter)| x + 0.3 * jitter).collect();
        let cells = [[7.0, 0.0, 0.0, 0.5, 6.5, 0.0, 0.2, -0.4, 8.0], [6.0, 0.1, 0.0, 0.0, 7.5, 0.3, 0.0, 0.0, 6.0]];
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
        let room = pairs.strict_add_signed(spare);
        // What stands behind the last pair is nothing that may be followed.
        others.resize(room, i32::MAX);
        shifts.resize(3 * room, i32::MAX);
        let miller = [1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, -1, 0, 1, 1, 0, 0, 0, 2, 0];
        let f64s = |shape: &[usize], data: &[f64]| {
            Array::from_f64(DType::F64, shape, data).expect("a shape that fits")
        };
        let arrays = BTreeMap::from([
            ("positions", f64s(&[atoms, 3], &positions)),
            ("charges", f64s(&[atoms], &[1.0, -1.0, 0.5, -0.6, 0.8, -0.7])),
            ("cell", f64s(&[2, 3, 3], cells.as_flattened())),
            ("alpha", f64s(&[2], &[0.4, 0.5])),
            ("strain", Array::zeros(DType::F64, &[0])),
            ("atoms", integers(&[atoms], &of)),
            ("pairs_ptr", integers(&[atoms + 1], &ptr)),
            ("pairs", integers(&[room], &others)),
            ("pairs_shifts", integers(&[room, 3], &shifts)),
            ("miller", integers(&[7, 3], &miller)),
            ("waves", integers(&[7], &[0, 0, 0, 0, 0, 1, 1])),
        ]);
        let dims = BTreeMap::from([("Atom", atoms), ("System", 2), ("Wave", 7), ("Pair", room)]);
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
                (Some(array), _) => operands.push(array.view().to_array()),
                (None, "pairs_kind") => _ = attributes.insert(input.name.clone(), Attribute::Int(0)),
                (None, "cutoff") => _ = attributes.insert(input.name.clone(), Attribute::Real(5.0)),
                (None, "prefactor") => _ = attributes.insert(input.name.clone(), Attribute::Real(1.5)),
                (None, other) => panic!("{target}: an input that the test has no value for: {other}"),
            }
        }
        let reals: Vec<usize> = (0..op.args.len()).filter(|n| op.is_differentiable(*n)).collect();
        let direction = || reals.iter().map(|arg| self.of_arg(op, *arg)).collect::<Vec<_>>();
        let outputs: Vec<Vec<usize>> = op.outputs.iter().map(|o| self.shape(&o.shape)).collect();
        let (extra, results) = match suffix {
            "" => (vec![], outputs),
            "_jvp" => (direction(), outputs),
            "_jvp2" => ([direction(), direction()].concat(), outputs),
            "_vjp" => (outputs, direction()),
            "_vjp_jvp" => ([outputs, direction()].concat(), direction()),
            "_saving" => {
                let by = described.saves.iter().map(|name| name.strip_prefix("gradient by ").expect("a gradient"));
                let by: Vec<usize> = by.map(|by| op.args.iter().position(|a| a.name == by).expect("it")).collect();
                let want = reals.iter().enumerate().filter(|(_, arg)| by.contains(arg));
                let want = want.map(|(n, _)| 1 << n).sum();
                attributes.insert("want".into(), Attribute::Int(want));
                (vec![], outputs.into_iter().chain(by.iter().map(|arg| self.of_arg(op, *arg))).collect())
            }
            other => panic!("no member: {other}"),
        };
        // All that may follow is there, but for what an earlier call has saved.
        attributes.insert("mask".into(), Attribute::Int((1 << extra.len()) - 1));
        attributes.entry("want".into()).or_insert(Attribute::Int((1 << reals.len()) - 1));
        operands.extend(extra.iter().zip(2..).map(|(shape, seed)| reals_of(shape, seed)));
        Question { operands, results, attributes }
    }
}

fn reals_of(shape: &[usize], seed: u64) -> Array {
    reals(shape, seed)
}

struct Question {
    operands: Vec<Array>,
    results: Vec<Vec<usize>>,
    attributes: BTreeMap<String, Attribute>,
}

fn described() -> Vec<Described> {
    let registries = [madelung_neighbors::ops::registry(), madelung_electrostatics::registry()];
    describe(&registries).expect("the ops of the library")
}

/// The stand-ins, one device of which is XLA's.
fn xla() -> Xla {
    madelung_stand_in::install();
    Xla::new(0)
}
