//! Arguments of any op, made from its declaration.

use crate::common::systems::SplitMix64;
use madelung::array::{Array, DType};
use madelung::batch::Batch;
use madelung::map::Map;
use madelung::mesh::Mesh;
use madelung::neighbors::HashGrid;
use madelung::op::{Arg, ArgKind, ArgSpec, Constraint, Op, Size};
use madelung::pairs::{Kind, PairList};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An argument that owns its data.
#[derive(Debug)]
pub(crate) enum Given {
    Array(Array),
    Batch(Batch<'static>),
    Pairs(PairList<'static>),
    Grid(Arc<HashGrid>),
    Map(Map<'static>),
    Mesh(Mesh),
    Real(f64),
    Int(i64),
    Zero,
}

impl Given {
    pub(crate) fn arg(&self) -> Arg<'_> {
        match self {
            Self::Array(array) => Arg::Array(array.view()),
            Self::Batch(batch) => Arg::Structure(batch),
            Self::Pairs(pairs) => Arg::Structure(pairs),
            Self::Grid(grid) => Arg::Grid(&**grid),
            Self::Map(map) => Arg::Structure(map),
            Self::Mesh(mesh) => Arg::Structure(mesh),
            Self::Real(x) => Arg::Real(*x),
            Self::Int(i) => Arg::Int(*i),
            Self::Zero => Arg::Zero,
        }
    }
}

/// The parameters of a call, beyond the declaration.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The sizes of the dimensions.
    pub(crate) dims: BTreeMap<String, usize>,
    /// The values of the integer attributes.
    pub(crate) attrs: BTreeMap<String, i64>,
    pub(crate) dtype: DType,
    /// The dtype of stored arrays.
    pub(crate) stored: DType,
    pub(crate) integers: DType,
    /// The kind of the pair lists.
    pub(crate) pairs: Kind,
    pub(crate) seed: u64,
}

/// The dimensions of an op: those of systems, and the others.
pub(crate) fn dimensions(op: &Op) -> (Vec<String>, Vec<String>) {
    let (mut systems, mut others) = (vec![], vec![]);
    for arg in &op.args {
        if let ArgKind::Batch { systems: s, .. } | ArgKind::Mesh { systems: s, .. } = &arg.kind {
            systems.push(s.clone());
        }
    }
    for arg in &op.args {
        match &arg.kind {
            ArgKind::Real { shape, .. } | ArgKind::Ints { shape, .. } => {
                others.extend(
                    shape.iter().filter_map(|s| if let Size::Dim(d) = s { Some(d.clone()) } else { None }),
                );
            }
            ArgKind::Batch { rows, .. } => others.push(rows.clone()),
            ArgKind::Pairs { rows, columns, .. } | ArgKind::Grid { rows, columns, .. } => {
                others.extend([rows.clone(), columns.clone()]);
            }
            ArgKind::Map { rows, into } => others.extend([rows.clone(), into.clone()]),
            ArgKind::Mesh { .. } | ArgKind::Scalar | ArgKind::IntScalar => {}
        }
    }
    for dims in [&mut systems, &mut others] {
        dims.sort();
        dims.dedup();
    }
    others.retain(|d| !systems.contains(d));
    (systems, others)
}

/// The names of an op's integer attributes, with the smallest value and the number of values that they may have.
pub(crate) fn integer_attributes(op: &Op) -> Vec<(String, i64, usize)> {
    let ints = op.args.iter().filter(|a| matches!(a.kind, ArgKind::IntScalar));
    let of = |a: &ArgSpec| match a.constraint {
        Some(Constraint::Between(lo, hi)) => (a.name.clone(), lo, (hi - lo + 1) as usize),
        _ => (a.name.clone(), 0, 5),
    };
    ints.map(of).collect()
}

impl Plan {
    /// The sizes that follow from others: rows of maps without elements, entries of lists, nodes and waves of meshes.
    pub(crate) fn complete(mut self, op: &Op) -> Self {
        for arg in &op.args {
            if let ArgKind::Map { rows, into } = &arg.kind
                && self.dims[into] == 0
            {
                self.dims.insert(rows.clone(), 0);
            }
        }
        for (n, arg) in op.args.iter().enumerate() {
            match (&arg.kind, self.argument_if_structured(op, n)) {
                (ArgKind::Pairs { entries: Some(entries), .. }, Some(Given::Pairs(list))) => {
                    self.dims.insert(entries.clone(), list.others().len());
                }
                (ArgKind::Mesh { nodes, waves, .. }, Some(Given::Mesh(mesh))) => {
                    self.dims.insert(nodes.clone(), mesh.nodes());
                    self.dims.insert(waves.clone(), mesh.waves());
                }
                _ => {}
            }
        }
        self
    }

    fn argument_if_structured(&self, op: &Op, n: usize) -> Option<Given> {
        let structured = matches!(op.args[n].kind, ArgKind::Pairs { .. } | ArgKind::Mesh { .. });
        structured.then(|| self.argument(op, &op.args[n], n as u64))
    }

    /// An array's shape.
    pub(crate) fn shape(&self, shape: &[Size]) -> Vec<usize> {
        let dims: Vec<(&str, usize)> = self.dims.iter().map(|(dim, n)| (&**dim, *n)).collect();
        let attrs: Vec<(&str, i64)> = self.attrs.iter().map(|(attr, n)| (&**attr, *n)).collect();
        shape.iter().map(|s| s.evaluate(&dims, &attrs).expect("a known size")).collect()
    }

    /// Numbers of order one, in the dtype.
    pub(crate) fn numbers(&self, dtype: DType, shape: &[usize], seed: u64) -> Array {
        let mut rng = SplitMix64(self.seed ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let data: Vec<f64> = (0..shape.iter().product()).map(|_| rng.uniform(-2.0, 2.0)).collect();
        Array::from_f64(dtype, shape, &data).expect("shapes fit")
    }

    /// The dtype in which an argument's array comes.
    pub(crate) fn dtype_of(&self, arg: &ArgSpec) -> DType {
        if arg.stored { self.stored } else { self.dtype }
    }

    /// Arguments that fit the declaration and each other.
    pub(crate) fn arguments(&self, op: &Op) -> Vec<Given> {
        op.args.iter().enumerate().map(|(n, arg)| self.argument(op, arg, n as u64)).collect()
    }

    fn argument(&self, op: &Op, arg: &ArgSpec, seed: u64) -> Given {
        let mut rng = SplitMix64(self.seed ^ (seed + 1));
        match &arg.kind {
            ArgKind::Real { zero: true, shape } if seed.is_multiple_of(2) => {
                Given::Array(Array::zeros(self.dtype_of(arg), &self.shape(shape)))
            }
            ArgKind::Real { zero: true, .. } => Given::Zero,
            ArgKind::Real { shape, .. } => {
                let shape = self.shape(shape);
                let numbers = self.numbers(self.dtype_of(arg), &shape, seed);
                Given::Array(match arg.constraint {
                    Some(Constraint::Positive | Constraint::NotNegative) => {
                        numbers.map(|x| 0.3 + 0.4 * x.abs()).unwrap()
                    }
                    Some(Constraint::Cell | Constraint::OpenCell) => {
                        cells(self.dtype_of(arg), &shape, &mut rng)
                    }
                    _ => numbers,
                })
            }
            ArgKind::Ints { shape, .. } => {
                let shape = self.shape(shape);
                if let Some(data) = self.terms(op, shape.iter().product()) {
                    return Given::Array(Array::from_f64(self.integers, &shape, &data).expect("shapes fit"));
                }
                // Never 0: wave vectors are made of integers, and that of 0 has no energy.
                let one =
                    |rng: &mut SplitMix64| rng.uniform(1.0, 4.0).floor().copysign(rng.uniform(-1.0, 1.0));
                let data: Vec<f64> = (0..shape.iter().product()).map(|_| one(&mut rng)).collect();
                Given::Array(Array::from_f64(self.integers, &shape, &data).expect("shapes fit"))
            }
            ArgKind::Batch { rows, systems } => Given::Batch(self.batch(rows, systems)),
            ArgKind::Pairs { rows, columns, .. } => {
                let full = arg.constraint == Some(Constraint::Full);
                Given::Pairs(self.pairs(op, [rows, columns], full, &mut rng))
            }
            ArgKind::Grid { rows, columns, points, .. } => {
                let at = op.arg(points).expect("the points of a grid are an argument");
                let Given::Array(points) = self.argument(op, &op.args[at], at as u64) else {
                    unreachable!("the points of a grid are an array")
                };
                Given::Grid(Arc::new(self.grid(&points, self.batch_of(op, rows, columns))))
            }
            ArgKind::Map { rows, into } => {
                // Several maps of the same rows, as those of bonded terms, differ in each row where they can.
                let is_beside = |a: &&ArgSpec| matches!(&a.kind, ArgKind::Map { rows: r, into: i } if r == rows && i == into);
                let before = op.args.iter().filter(is_beside).position(|a| a.name == arg.name).unwrap_or(0);
                let (rows, into) = (self.dims[rows], self.dims[into]);
                let mut rng = SplitMix64(self.seed);
                let first = (0..rows).map(|_| rng.uniform(0.0, into as f64) as usize);
                let of: Vec<i32> = first.map(|at| ((at + before) % into.max(1)) as i32).collect();
                Given::Map(Map::new(if into == 0 { vec![] } else { of }, into).expect("a map"))
            }
            ArgKind::Mesh { systems, .. } => {
                let mesh = |system: usize| {
                    let order = 2 + (self.seed as usize + system) % 3;
                    ([order, order + 1 + (self.seed % 2) as usize, order + 3 + system % 2], order)
                };
                let meshes: Vec<_> = (0..self.dims[systems]).map(mesh).collect();
                Given::Mesh(Mesh::of_systems(&meshes).expect("a mesh"))
            }
            ArgKind::Scalar => Given::Real(rng.uniform(0.5, 3.0)),
            ArgKind::IntScalar => Given::Int(self.attrs.get(&arg.name).copied().unwrap_or(1)),
        }
    }

    /// The atoms of bonded terms of the op's `width`, where it has one: the last of the last system, which differ.
    fn terms(&self, op: &Op, entries: usize) -> Option<Vec<f64>> {
        let width = (*self.attrs.get("width")?).max(1) as usize;
        let atoms = op.args.iter().find_map(|a| match &a.kind {
            ArgKind::Batch { rows, .. } => Some(self.dims[rows]),
            _ => None,
        })?;
        Some((0..entries).map(|e| atoms as f64 - 1.0 - (e % width) as f64).collect())
    }

    /// The points in the systems of the op's batch over `rows`.
    fn batch_of(&self, op: &Op, rows: &str, points: &str) -> Batch<'static> {
        let found = op.args.iter().find_map(|a| match &a.kind {
            ArgKind::Batch { rows: r, systems } if r == rows => Some(self.batch(points, systems)),
            _ => None,
        });
        found.unwrap_or_else(|| Batch::single(self.dims[points]).expect("a batch"))
    }

    /// A grid without images: however far a radius reaches, it finds no more than the points.
    fn grid(&self, points: &Array, batch: Batch<'static>) -> HashGrid {
        HashGrid::build(&madelung::cpu::context(), &points.view(), None, None, batch).expect("a grid")
    }

    /// Systems of unlike sizes, some of them empty.
    fn batch(&self, rows: &str, systems: &str) -> Batch<'static> {
        let (rows, systems) = (self.dims[rows], self.dims[systems]);
        let mut ptr: Vec<i32> =
            (0..=systems).map(|s| (s * s * rows / (systems * systems).max(1)) as i32).collect();
        if let Some(last) = ptr.last_mut().filter(|_| systems > 0) {
            *last = rows as i32;
        }
        Batch::from_ptr(ptr).expect("a batch")
    }

    /// Pairs within systems, some with images, an atom with its own among them.
    fn pairs(
        &self,
        op: &Op,
        [rows, columns]: [&str; 2],
        full: bool,
        rng: &mut SplitMix64,
    ) -> PairList<'static> {
        let (i, j) = (self.batch_of(op, rows, rows), self.batch_of(op, columns, columns));
        let kind = match self.pairs {
            _ if rows != columns => Kind::Directed,
            Kind::Half if full => Kind::Full,
            kind => kind,
        };
        let members = |b: usize| if b < j.systems() { j.members(b) } else { 0..0 };
        let mut entries = vec![];
        for (i, j) in (0..i.atoms()).flat_map(|a| members(i.of(a)).map(move |b| (a, b))) {
            let shift: [i32; 3] = std::array::from_fn(|_| rng.uniform(-1.0, 2.0).floor() as i32);
            let second = rows == columns && (j < i || (i == j && shift <= [0; 3]));
            if second || rng.uniform(0.0, 1.0) < 0.3 {
                continue;
            }
            entries.push((i as i32, j as i32, shift));
            if rows == columns && kind != Kind::Half {
                entries.push((j as i32, i as i32, shift.map(|s| -s)));
            }
        }
        entries.sort_unstable();
        let i: Vec<i32> = entries.iter().map(|e| e.0).collect();
        let j: Vec<i32> = entries.iter().map(|e| e.1).collect();
        let shifts: Vec<[i32; 3]> = entries.iter().map(|e| e.2).collect();
        PairList::from_coo(&i, j, shifts, self.dims[rows], self.dims[columns], kind).expect("a list")
    }
}

/// Cells of either handedness.
fn cells(dtype: DType, shape: &[usize], rng: &mut SplitMix64) -> Array {
    let mut data = vec![];
    for k in 0..shape.iter().product::<usize>() {
        let edge = if k % 9 == 8 && k % 2 == 0 { -6.0 } else { 6.0 };
        data.push(rng.uniform(-0.5, 0.5) + if k % 9 % 4 == 0 { edge } else { 0.0 });
    }
    Array::from_f64(dtype, shape, &data).expect("shapes fit")
}
