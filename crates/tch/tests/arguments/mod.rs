//! Arguments for every op, made from its declaration.

use crate::common::systems::SplitMix64;
use madelung::array::{Array, DType};
use madelung::batch::Batch;
use madelung::map::Map;
use madelung::mesh::Mesh;
use madelung::op::{Arg, ArgKind, ArgSpec, Constraint, Op, Size, Structure};
use madelung::pairs::{Kind, PairList};
use madelung_tch::Input;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tch::Tensor;

const SYSTEMS: usize = 2;
/// Rows of each system.
const ROWS: usize = 4;
const KINDS: usize = 2;
/// Nodes and order of the meshes.
const MESHES: [([usize; 3], usize); SYSTEMS] = [([6, 7, 5], 4), ([6, 6, 6], 5)];

/// An argument that owns its data.
pub(crate) enum Given {
    Real(Vec<usize>, Vec<f64>),
    Ints(Vec<usize>, Vec<i32>),
    Structure(Arc<dyn Structure>),
    Scalar(f64),
    Int(i64),
}

/// Arguments of a call.
pub(crate) struct Arguments {
    pub(crate) op: Arc<Op>,
    pub(crate) given: Vec<Given>,
}

impl Arguments {
    pub(crate) fn of(op: &Arc<Op>) -> Self {
        let mut maker = Maker::new(op);
        Self { op: op.clone(), given: op.passed().iter().map(|spec| maker.argument(spec)).collect() }
    }

    /// The differentiable arguments.
    pub(crate) fn reals(&self) -> Vec<usize> {
        (0..self.given.len()).filter(|n| matches!(self.given[*n], Given::Real(..))).collect()
    }

    /// The values of a differentiable argument.
    pub(crate) fn values(&self, n: usize) -> &[f64] {
        match &self.given[n] {
            Given::Real(_, x) => x,
            _ => panic!("argument {n} is not real"),
        }
    }

    /// The tensors of the arguments that are arrays; real ones record what is done with them.
    pub(crate) fn tensors(&self, reals: &[Vec<f64>]) -> Vec<Option<Tensor>> {
        let mut reals = reals.iter();
        let shaped = |shape: &[usize]| shape.iter().map(|n| *n as i64).collect::<Vec<_>>();
        let of = |given: &Given| match given {
            Given::Real(shape, _) => {
                let x = Tensor::from_slice(reals.next().expect("values of each"));
                Some(x.reshape(shaped(shape)).detach().set_requires_grad(true))
            }
            Given::Ints(shape, x) => Some(Tensor::from_slice(x).reshape(shaped(shape))),
            _ => None,
        };
        self.given.iter().map(of).collect()
    }

    /// The inputs of a call of tch.
    pub(crate) fn inputs(&self, tensors: &[Option<Tensor>]) -> Vec<Input> {
        let of = |(given, tensor): (&Given, &Option<Tensor>)| match given {
            Given::Real(..) | Given::Ints(..) => tensor.as_ref().expect("a tensor of each array").into(),
            Given::Structure(x) => Input::Structure(x.clone()),
            Given::Scalar(x) => Input::Real(*x),
            Given::Int(x) => Input::Int(*x),
        };
        self.given.iter().zip(tensors).map(of).collect()
    }

    /// The outputs, by the facade.
    pub(crate) fn facade(&self) -> Vec<Array> {
        let array = |given: &Given| match given {
            Given::Real(shape, x) => Array::from_f64(DType::F64, shape, x).ok(),
            Given::Ints(shape, x) => {
                let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                Array::from_f64(DType::I32, shape, &x).ok()
            }
            _ => None,
        };
        let arrays: Vec<Option<Array>> = self.given.iter().map(array).collect();
        let args: Vec<Arg<'_>> = self.given.iter().zip(&arrays).map(arg).collect();
        self.op.value(&madelung::cpu::context(), &args).expect("values")
    }
}

fn arg<'a>((given, array): (&'a Given, &'a Option<Array>)) -> Arg<'a> {
    match (given, array) {
        (_, Some(array)) => Arg::Array(array.view()),
        (Given::Structure(x), _) => Arg::Structure(&**x),
        (Given::Scalar(x), _) => Arg::Real(*x),
        (Given::Int(x), _) => Arg::Int(*x),
        _ => unreachable!("arrays are above"),
    }
}

/// Elements of each row in some order, and how many are taken.
type Led = (Vec<Vec<i32>>, usize);

struct Maker<'o> {
    op: &'o Op,
    rng: SplitMix64,
    sizes: BTreeMap<String, usize>,
    /// Dimensions of systems.
    systems: BTreeSet<String>,
    pairs: PairList<'static>,
    mesh: Mesh,
    /// Elements that the rows of one dimension have in another one.
    led: BTreeMap<(String, String), Led>,
}

impl<'o> Maker<'o> {
    fn new(op: &'o Op) -> Self {
        let mut rng = SplitMix64(7);
        let pairs = pairs(&mut rng);
        let mesh = Mesh::of_systems(&MESHES).expect("meshes");
        let mut sizes = BTreeMap::from([("Axes".to_string(), SYSTEMS)]);
        let into = |dim: &str| {
            op.passed().iter().filter(|a| matches!(&a.kind, ArgKind::Map { into, .. } if into == dim)).count()
        };
        for arg in op.passed() {
            if let ArgKind::Map { into: dim, .. } = &arg.kind {
                sizes.insert(dim.clone(), if into(dim) == 1 { KINDS } else { SYSTEMS * ROWS });
            }
        }
        let mut of_systems = BTreeSet::new();
        for arg in op.passed() {
            if let ArgKind::Batch { systems, .. } | ArgKind::Mesh { systems, .. } = &arg.kind {
                sizes.insert(systems.clone(), SYSTEMS);
                of_systems.insert(systems.clone());
            }
            match &arg.kind {
                ArgKind::Pairs { entries: Some(entries), .. } => {
                    sizes.insert(entries.clone(), pairs.others().len());
                }
                ArgKind::Mesh { nodes, waves, .. } => {
                    sizes.insert(nodes.clone(), mesh.nodes());
                    sizes.insert(waves.clone(), mesh.waves());
                }
                _ => {}
            }
        }
        Self { op, rng, sizes, systems: of_systems, pairs, mesh, led: BTreeMap::new() }
    }

    fn size(&self, dim: &str) -> usize {
        self.sizes.get(dim).copied().unwrap_or(SYSTEMS * ROWS)
    }

    fn shape(&self, shape: &[Size]) -> Vec<usize> {
        let of = |size: &Size| match size {
            Size::Dim(dim) => self.size(dim),
            other => other.evaluate(&[], &[]).expect("a number"),
        };
        shape.iter().map(of).collect()
    }

    /// An argument that satisfies its declaration, by its kind and name and never by its op.
    fn argument(&mut self, spec: &ArgSpec) -> Given {
        match &spec.kind {
            ArgKind::Real { shape, zero } => {
                let shape = self.shape(shape);
                let x = if *zero { vec![0.0; shape.iter().product()] } else { self.real(spec, &shape) };
                Given::Real(shape, x)
            }
            ArgKind::Ints { shape, .. } if spec.name.ends_with("order") => {
                // Places in a system.
                Given::Ints(self.shape(shape), [2, 0, 3, 1].repeat(SYSTEMS))
            }
            ArgKind::Ints { shape, .. } => {
                // Never 0: wave vectors are made of integers, and that of 0 has no energy.
                let shape = self.shape(shape);
                let count = shape.iter().product();
                Given::Ints(
                    shape,
                    (0..count).map(|_| if self.rng.uniform(-1.0, 1.0) < 0.0 { -1 } else { 1 }).collect(),
                )
            }
            ArgKind::Batch { rows, .. } => {
                let each = self.size(rows) / SYSTEMS;
                let of = (0..SYSTEMS as i32).flat_map(|b| vec![b; each]).collect::<Vec<_>>();
                Given::Structure(Arc::new(Batch::from_idx(of, Some(SYSTEMS)).expect("a batch")))
            }
            ArgKind::Pairs { .. } => Given::Structure(Arc::new(self.pairs.clone())),
            ArgKind::Map { rows, into } => {
                let map = Map::new(self.led_to(rows, into), self.size(into)).expect("a map");
                Given::Structure(Arc::new(map))
            }
            ArgKind::Mesh { .. } => Given::Structure(Arc::new(self.mesh.clone())),
            ArgKind::Scalar => {
                // Ends begin well before the cutoff.
                let before = f64::from(u8::from(["taper", "switch", "bend"].contains(&&*spec.name)));
                Given::Scalar(self.rng.uniform(3.3, 3.6) - before)
            }
            // Bits of periodic axes; room for the points of a query; the nearest images alone.
            ArgKind::IntScalar => Given::Int(match &*spec.name {
                "axes" => 7,
                "max_neighbors" => 300,
                _ => 1,
            }),
            ArgKind::Grid { .. } => panic!("{}: no grid is passed", self.op.full_name()),
        }
    }

    fn real(&mut self, spec: &ArgSpec, shape: &[usize]) -> Vec<f64> {
        let is_positive = matches!(spec.constraint, Some(Constraint::Positive | Constraint::NotNegative));
        let of = |n: usize, x: f64| match shape {
            // Parameters of potentials: steep ones would leave no digits to differences.
            [KINDS, KINDS] => 0.3 + 0.1 * x,
            _ if is_positive => 0.8 + 0.2 * x.abs(),
            [_, 3, 3] => 0.2 * x + [3.1, 0.0, 0.0, 0.0, 3.4, 0.0, 0.0, 0.0, -3.7][n % 9],
            // Points stay apart, so that differences of values tell derivatives.
            [_, 3] => 0.25 * x + 0.8 * (n / 3 % ROWS) as f64,
            _ => x,
        };
        (0..shape.iter().product()).map(|n| of(n, self.rng.uniform(-1.0, 1.0))).collect()
    }

    /// Elements of a dimension for rows, of which as many belong to each system: its number; or elements of it, where
    /// several maps lead there different ones; or any.
    fn led_to(&mut self, rows: &str, into: &str) -> Vec<i32> {
        let (count, elements) = (self.size(rows), self.size(into));
        let systems = (0..count).map(|row| row * SYSTEMS / count);
        if self.systems.contains(into) {
            return systems.map(|b| b as i32).collect();
        }
        let each = if elements == KINDS { KINDS } else { elements / SYSTEMS };
        let rng = &mut self.rng;
        let shuffled = |b: usize| {
            let first = if elements == KINDS { 0 } else { b * each };
            let mut all: Vec<i32> = (first as i32..(first + each) as i32).collect();
            (1..each).rev().for_each(|n| all.swap(n, rng.next_u64() as usize % (n + 1)));
            all
        };
        let key = (rows.to_string(), into.to_string());
        let (all, taken) = self.led.entry(key).or_insert_with(|| (systems.map(shuffled).collect(), 0));
        *taken += 1;
        all.iter().map(|row| row[*taken - 1]).collect()
    }
}

/// A full list within systems, with images, an atom with its own image among them.
fn pairs(rng: &mut SplitMix64) -> PairList<'static> {
    let mut entries = vec![];
    for i in 0..(SYSTEMS * ROWS) as i32 {
        entries.extend([(i, i, [1, 0, 0]), (i, i, [-1, 0, 0])]);
        for j in i + 1..(i / ROWS as i32 + 1) * ROWS as i32 {
            let far = rng.uniform(0.0, 1.0) < 0.4;
            let s = [(); 3].map(|()| if far { rng.uniform(-1.0, 2.0).floor() as i32 } else { 0 });
            entries.extend([(i, j, s), (j, i, s.map(|k| -k))]);
        }
    }
    entries.sort_unstable();
    let i: Vec<i32> = entries.iter().map(|e| e.0).collect();
    let (j, s): (Vec<i32>, Vec<[i32; 3]>) = entries.iter().map(|e| (e.1, e.2)).unzip();
    PairList::from_coo(&i, j, s, SYSTEMS * ROWS, SYSTEMS * ROWS, Kind::Full).expect("a list")
}
