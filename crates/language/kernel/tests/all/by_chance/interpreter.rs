//! Runs bodies in f64, statement by statement: slow, readable, and strict about scopes.

use super::geometry::{List, half};
use madelung_kernel::cluster::Clusters;
use madelung_kernel::ir::{
    Acc, Body, Compare, Function, IntegerOp, Kernel, Kind, OfWave, Op, Range, Role, Stmt, Val,
};
use madelung_kernel::mirror::Part;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Real arrays by parameter and role.
pub(crate) type Arrays = BTreeMap<(usize, Role), Vec<f64>>;

/// The arguments of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    /// Sizes of the kernel's dimensions.
    pub(crate) dims: Vec<usize>,
    /// Inputs; one that is not here is zero.
    pub(crate) arrays: Arrays,
    pub(crate) ints: HashMap<usize, Vec<i32>>,
    pub(crate) reals: HashMap<usize, f64>,
    pub(crate) integers: HashMap<usize, i64>,
    /// The system of each row, sorted.
    pub(crate) batches: HashMap<usize, Vec<usize>>,
    /// Sizes and spline order of the mesh of each system.
    pub(crate) meshes: HashMap<usize, Vec<([usize; 3], usize)>>,
    /// Pair lists; entries are numbered through.
    pub(crate) pairs: HashMap<usize, List>,
    /// The element of each row.
    pub(crate) maps: HashMap<usize, Vec<usize>>,
}

/// Row, column, shift, entry, place in the row.
#[derive(Clone, Copy)]
struct Pair {
    row: usize,
    column: usize,
    shift: [i32; 3],
    entry: usize,
    place: usize,
}

fn entries(list: &List) -> Vec<Pair> {
    let mut found: Vec<Pair> = vec![];
    for (row, pairs) in list.iter().enumerate() {
        for (place, (column, shift)) in pairs.iter().enumerate() {
            found.push(Pair { row, column: *column, shift: *shift, entry: found.len(), place });
        }
    }
    found
}

/// Numbers per row of an array.
pub(crate) fn components(kernel: &Kernel, dims: &[usize], param: usize, role: Role) -> usize {
    kernel.components(param, role) * kernel.width(param, role).map_or(1, |w| dims[w])
}

/// Runs one body for every row of its dimension.
pub(crate) fn run_body(kernel: &Kernel, world: &World, body: &Body) -> Arrays {
    let part = Part { index: kernel.index, body: body.clone() };
    run(kernel, world, &[part])
}

/// Runs the parts of a form one after the other; outputs of later parts are added.
pub(crate) fn run(kernel: &Kernel, world: &World, parts: &[Part]) -> Arrays {
    let parts: Vec<_> = parts.iter().map(|part| (part, None)).collect();
    run_in_clusters(kernel, world, &parts)
}

/// Runs parts, some of them in cluster form: each pair of the full list is visited once.
pub(crate) fn run_in_clusters(
    kernel: &Kernel,
    world: &World,
    parts: &[(&Part, Option<&Clusters>)],
) -> Arrays {
    let mut written = Arrays::new();
    for (part, clusters) in parts {
        let given = clusters.map(|clusters| cluster_sums(kernel, world, clusters));
        let mut stored = HashSet::new();
        for row in 0..world.dims[part.index] {
            let given = given.as_ref().map(|sums| sums[row].as_slice());
            let mut m = Machine::new(kernel, world, &part.body, (row, given), &mut written, &mut stored);
            m.block(part.body.stmts());
        }
    }
    written
}

/// The sums of each row over its pairs, by the accumulators of the part.
fn cluster_sums(kernel: &Kernel, world: &World, clusters: &Clusters) -> Vec<Vec<(Acc, f64)>> {
    let body = &clusters.pair.body;
    let none = clusters.sums.iter().map(|s| (s.of_part, 0.0)).collect();
    let mut sums: Vec<Vec<(Acc, f64)>> = vec![none; world.dims[clusters.pair.index]];
    let pairs = entries(&half(&world.pairs[&clusters.list]));
    let (mut written, mut stored) = (Arrays::new(), HashSet::new());
    for row in 0..sums.len() {
        let mut m = Machine::new(kernel, world, body, (row, None), &mut written, &mut stored);
        for s in body.stmts() {
            let Stmt::For { id, body, .. } = s else {
                m.stmt(s);
                continue;
            };
            for pair in pairs.iter().filter(|p| p.row == row) {
                m.sums = clusters
                    .sums
                    .iter()
                    .flat_map(|s| s.column.into_iter().chain([s.row]))
                    .map(|m| (m, 0.0))
                    .collect();
                m.loops.insert(*id, Visit::Pair(*pair));
                m.block(body);
                for (n, s) in clusters.sums.iter().enumerate() {
                    sums[row][n].1 += s.factor * m.sums[&s.row];
                    sums[pair.column][n].1 += s.column.map_or(0.0, |column| s.factor * m.sums[&column]);
                }
            }
        }
    }
    assert!(written.is_empty(), "a pair writes to arrays");
    sums
}

#[derive(Clone, Copy)]
enum Visit {
    /// The number and how many came before.
    Int(i64, usize),
    Pair(Pair),
    Member(usize, usize),
}

struct Machine<'a> {
    kernel: &'a Kernel,
    world: &'a World,
    body: &'a Body,
    row: usize,
    /// Values that are in scope.
    values: Vec<Option<f64>>,
    sums: HashMap<usize, f64>,
    channels: HashMap<usize, Vec<f64>>,
    /// The sums over channels that have been read: these are whole.
    read: RefCell<HashSet<usize>>,
    /// The largest value and its place.
    bests: HashMap<usize, (f64, f64)>,
    loops: HashMap<usize, Visit>,
    /// Sums of the loop over pairs, where they are known.
    given: Option<&'a [(Acc, f64)]>,
    written: &'a mut Arrays,
    stored: &'a mut HashSet<(usize, u8, usize, usize)>,
}

impl<'a> Machine<'a> {
    fn new(
        kernel: &'a Kernel,
        world: &'a World,
        body: &'a Body,
        (row, given): (usize, Option<&'a [(Acc, f64)]>),
        written: &'a mut Arrays,
        stored: &'a mut HashSet<(usize, u8, usize, usize)>,
    ) -> Self {
        Self {
            kernel,
            world,
            body,
            row,
            values: vec![None; body.len()],
            sums: HashMap::new(),
            channels: HashMap::new(),
            read: RefCell::default(),
            bests: HashMap::new(),
            loops: HashMap::new(),
            given,
            written,
            stored,
        }
    }

    fn value(&self, v: Val) -> f64 {
        match self.body.op(v) {
            Op::Const(bits) => f64::from_bits(*bits),
            Op::Int(i) => *i as f64,
            Op::Channel(n, _) => *n as f64,
            Op::Row => self.row as f64,
            op => self.values[v].unwrap_or_else(|| panic!("value {v} = {op:?} is used out of its scope")),
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.stmt(s);
        }
        // Values of this block end here.
        for s in stmts {
            match s {
                Stmt::Let(v) => self.values[*v] = None,
                Stmt::Declare(m, _) => {
                    self.sums.remove(m);
                }
                Stmt::DeclareBest(m, _) => {
                    self.bests.remove(m);
                }
                _ => {}
            }
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        match s {
            Stmt::Let(v) => self.values[*v] = Some(self.evaluate(*v)),
            Stmt::Declare(m, v) => {
                let before = self.sums.insert(*m, self.value(*v));
                assert!(before.is_none(), "sum {m} is declared twice");
            }
            Stmt::Accumulate(m, v) => {
                let x = self.value(*v);
                *self.sums.get_mut(m).unwrap_or_else(|| panic!("sum {m} is added to out of its scope")) += x;
            }
            Stmt::DeclareBest(m, v) => {
                let before = self.bests.insert(*m, (self.value(*v), -1.0));
                assert!(before.is_none(), "best {m} is declared twice");
            }
            Stmt::Raise { acc, value, place } => {
                let (x, at) = (self.value(*value), self.value(*place));
                let best = self
                    .bests
                    .get_mut(acc)
                    .unwrap_or_else(|| panic!("best {acc} is raised out of its scope"));
                if x > best.0 {
                    *best = (x, at);
                }
            }
            Stmt::DeclareChannels(m, dim) => {
                let before = self.channels.insert(*m, vec![0.0; self.world.dims[*dim]]);
                assert!(before.is_none(), "sums {m} are declared twice");
            }
            Stmt::AccumulateChannel { sum, channel, value } => {
                assert!(!self.read.borrow().contains(sum), "sums {sum} were read before they were whole");
                let (c, x) = (self.value(*channel) as usize, self.value(*value));
                let sums = self.channels.get_mut(sum);
                sums.unwrap_or_else(|| panic!("sums {sum} are added to out of their scope"))[c] += x;
            }
            Stmt::Store { param, role, component, channel, value } => {
                let at = self.in_row((*param, *role, *component), *channel);
                let key = (*param, role.0, self.row, at);
                assert!(self.stored.insert(key), "stored twice: {key:?}");
                let x = self.value(*value);
                self.add(*param, *role, self.row, at, x);
            }
            Stmt::Contribute { param, role, row, component, channel, value } => {
                let at = self.in_row((*param, *role, *component), *channel);
                let row = row.map_or(0, |r| self.value(r) as usize);
                let x = self.value(*value);
                self.add(*param, *role, row, at, x);
            }
            Stmt::For { range: Range::Pairs { .. }, .. } if self.given.is_some() => {
                for (m, x) in self.given.into_iter().flatten() {
                    *self.sums.get_mut(m).expect("a sum of the loop is declared before it") += x;
                }
            }
            Stmt::For { id, range, body } => {
                for visit in self.visits(*range) {
                    self.loops.insert(*id, visit);
                    self.block(body);
                }
                self.loops.remove(id);
            }
            Stmt::If { condition, then, otherwise } => {
                let branch = if self.value(*condition) != 0.0 { then } else { otherwise };
                self.block(branch);
            }
            s => panic!("of kernels without adjoint: {s:?}"),
        }
    }

    fn visits(&self, range: Range) -> Vec<Visit> {
        match range {
            Range::Ints(lo, hi) => {
                let numbers = self.value(lo) as i64..self.value(hi) as i64;
                numbers.enumerate().map(|(place, i)| Visit::Int(i, place)).collect()
            }
            Range::Pairs { list, row } => {
                let row = self.value(row) as usize;
                let all = entries(&self.world.pairs[&list]);
                all.into_iter().filter(|p| p.row == row).map(Visit::Pair).collect()
            }
            Range::Column { list, column } => {
                let column = self.value(column) as usize;
                let all = entries(&self.world.pairs[&list]);
                all.into_iter().filter(|p| p.column == column).map(Visit::Pair).collect()
            }
            Range::Channels(dim) => (0..self.world.dims[dim]).map(|c| Visit::Int(c as i64, c)).collect(),
            Range::Members { batch, system } => {
                let system = self.value(system) as usize;
                let of = &self.world.batches[&batch];
                let members = (0..of.len()).filter(|r| of[*r] == system);
                members.enumerate().map(|(place, r)| Visit::Member(r, place)).collect()
            }
        }
    }

    /// Index of a component, or of that of a channel, within its row.
    fn in_row(&self, (param, role, component): (usize, Role, usize), channel: Option<Val>) -> usize {
        let channel = channel.map_or(0, |c| self.value(c) as usize);
        channel * self.kernel.components(param, role) + component
    }

    fn add(&mut self, param: usize, role: Role, row: usize, at: usize, x: f64) {
        let components = components(self.kernel, &self.world.dims, param, role);
        let kind = if role.has(Role::HIDDEN) {
            Kind::Output { dim: Some(self.kernel.index), components, width: None }
        } else {
            self.kernel.params[param].kind
        };
        let (Kind::Real { dim, .. } | Kind::Output { dim, .. }) = kind else {
            panic!("parameter {param} has no real array")
        };
        let rows = dim.map_or(1, |d| self.world.dims[d]);
        let array = self.written.entry((param, role)).or_insert_with(|| vec![0.0; rows * components]);
        array[row * components + at] += x;
    }

    fn pair(&self, l: usize) -> Pair {
        match self.loops[&l] {
            Visit::Pair(p) => p,
            _ => panic!("not a loop over pairs"),
        }
    }

    fn best(&self, m: usize) -> (f64, f64) {
        *self.bests.get(&m).unwrap_or_else(|| panic!("best {m} is read out of its scope"))
    }

    fn evaluate(&self, v: Val) -> f64 {
        use Op::*;
        let of = |v: &Val| self.value(*v);
        let truth = |c: bool| f64::from(u8::from(c));
        match self.body.op(v) {
            Const(_) | Int(_) | Channel(..) | Row => self.value(v),
            LoopVar(l) => match self.loops[l] {
                Visit::Int(i, _) => i as f64,
                Visit::Member(r, _) => r as f64,
                Visit::Pair(..) => panic!("a pair is not one number"),
            },
            Place(l) => match self.loops[l] {
                Visit::Int(_, place) | Visit::Member(_, place) | Visit::Pair(Pair { place, .. }) => {
                    place as f64
                }
            },
            PairColumn(l) => self.pair(*l).column as f64,
            PairRow(l) => self.pair(*l).row as f64,
            PairEntry(l) => self.pair(*l).entry as f64,
            PairShift(l, c) => f64::from(self.pair(*l).shift[*c]),
            PlaceIn { batch, row } => {
                let (of, row) = (&self.world.batches[batch], of(row) as usize);
                of[..row].iter().filter(|s| **s == of[row]).count() as f64
            }
            Best(m) => self.best(*m).0,
            BestPlace(m) => self.best(*m).1,
            Stop(a) => of(a),
            IndexOf { param, array: madelung_kernel::ir::Array::SystemOf, row } => {
                self.world.batches[param][of(row) as usize] as f64
            }
            IndexOf { param, array: madelung_kernel::ir::Array::MeshShape, row } => {
                wave_of(&self.world.meshes[param], of(row) as usize).0 as f64
            }
            Wave { mesh, row, of: number, .. } => {
                let (system, wave) = wave_of(&self.world.meshes[mesh], of(row) as usize);
                number_of(self.world.meshes[mesh][system], wave, *number)
            }
            IndexOf { param, row, .. } => self.world.maps[param][of(row) as usize] as f64,
            Scalar(p) => self.world.reals[p],
            IntScalar(p) => self.world.integers[p] as f64,
            SplineOrder { mesh, system } => self.world.meshes[mesh][of(system) as usize].1 as f64,
            MeshSize { mesh, system, axis } => self.world.meshes[mesh][of(system) as usize].0[*axis] as f64,
            Spline { mesh, system, at, node, derivative, .. } => {
                let x = of(at);
                let order = self.world.meshes[mesh][of(system) as usize].1;
                spline(order, x - x.floor() + of(node), *derivative)
            }
            MeshNode { mesh, system, at, node } => {
                let (before, of_system) = self.world.meshes[mesh].split_at(of(system) as usize);
                let ahead: usize = before.iter().map(|(sizes, _)| sizes.iter().product::<usize>()).sum();
                let sizes = of_system[0].0;
                ahead as f64
                    + (0..3).fold(0.0, |n, axis| {
                        let k = of(&at[axis]).floor() - of(&node[axis]);
                        n * sizes[axis] as f64 + k.rem_euclid(sizes[axis] as f64)
                    })
            }
            Load { param, role, row, component, channel } => {
                let made = role.has(Role::HIDDEN).then(|| self.written.get(&(*param, *role))).flatten();
                match made.or_else(|| self.world.arrays.get(&(*param, *role))) {
                    None => 0.0,
                    Some(array) => {
                        let row = row.map_or(0, |r| self.value(r) as usize);
                        let column = self.in_row((*param, *role, *component), *channel);
                        array[row * components(self.kernel, &self.world.dims, *param, *role) + column]
                    }
                }
            }
            LoadInt { param, row, component } => f64::from(
                self.world.ints[param][of(row) as usize
                    * components(self.kernel, &self.world.dims, *param, Role::VALUE)
                    + component],
            ),
            Read(m) => *self.sums.get(m).unwrap_or_else(|| panic!("sum {m} is read out of its scope")),
            ReadChannel(m, c) => {
                self.read.borrow_mut().insert(*m);
                let sums = self.channels.get(m);
                sums.unwrap_or_else(|| panic!("sums {m} are read out of their scope"))[of(c) as usize]
            }
            Own { value, .. } => of(value),
            Add(a, b) | Integers(IntegerOp::Add, a, b) => of(a) + of(b),
            Sub(a, b) | Integers(IntegerOp::Sub, a, b) => of(a) - of(b),
            Mul(a, b) | Integers(IntegerOp::Mul, a, b) => of(a) * of(b),
            Neg(a) => -of(a),
            Recip(a) => 1.0 / of(a),
            Sqrt(a) => of(a).sqrt(),
            Call(f, a) => function(*f, of(a)),
            Pow(a, b) => of(a).powf(of(b)),
            Atan2(a, b) => of(a).atan2(of(b)),
            Nearest(a) => of(a).round_ties_even(),
            FromInt(a) => of(a),
            Lt(a, b) | CompareIntegers(Compare::Lt, a, b) => truth(of(a) < of(b)),
            Le(a, b) => truth(of(a) <= of(b)),
            Eq(a, b) | CompareIntegers(Compare::Eq, a, b) => truth(of(a) == of(b)),
            And(a, b) => truth(of(a) != 0.0 && of(b) != 0.0),
            Or(a, b) => truth(of(a) != 0.0 || of(b) != 0.0),
            Not(a) => truth(of(a) == 0.0),
            Select(c, a, b) => {
                if of(c) != 0.0 {
                    of(a)
                } else {
                    of(b)
                }
            }
            op => panic!("of kernels without adjoint: {op:?}"),
        }
    }
}

fn function(f: Function, x: f64) -> f64 {
    match f {
        Function::Exp => x.exp(),
        Function::Ln => x.ln(),
        Function::Erf => 1.0 - erfc(x),
        Function::Erfc => erfc(x),
        Function::ExpNegSq => (-x * x).exp(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Asin => x.asin(),
        Function::Acos => x.acos(),
        Function::Tanh => x.tanh(),
        Function::Floor => x.floor(),
    }
}

/// The system of a wave, and its number there.
fn wave_of(meshes: &[([usize; 3], usize)], wave: usize) -> (usize, usize) {
    let mut left = wave;
    for (system, ([k1, k2, k3], _)) in meshes.iter().enumerate() {
        let waves = k1 * k2 * (k3 / 2 + 1);
        if left < waves {
            return (system, left);
        }
        left -= waves;
    }
    panic!("no wave {wave}")
}

/// A number of a wave of a mesh with these sizes and splines of this order.
fn number_of((sizes, order): ([usize; 3], usize), wave: usize, of: OfWave) -> f64 {
    let along = sizes[2] / 2 + 1;
    let place = [wave / along / sizes[1] % sizes[0], wave / along % sizes[1], wave % along];
    let index = |axis: usize| {
        let (k, size) = (place[axis] as f64, sizes[axis] as f64);
        if k > 0.5 * size { k - size } else { k }
    };
    let square = |axis: usize, m: i32| {
        let x = std::f64::consts::PI * (index(axis) / sizes[axis] as f64 + f64::from(m));
        if x == 0.0 { 1.0 } else { (x.sin() / x).powi(2 * order as i32) }
    };
    let aliases = |axis: usize| (-200..=200).map(|m| square(axis, m)).sum::<f64>();
    match of {
        OfWave::Index(axis) => index(axis),
        OfWave::Count => (1 + usize::from(place[2] > 0 && 2 * place[2] < sizes[2])) as f64,
        OfWave::Modulus => (0..3).map(|axis| square(axis, 0) / aliases(axis).powi(2)).product(),
    }
}

/// The d-th derivative of the cardinal B-spline M_p by its truncated powers (Essmann et al. 1995, eq. 4.1's closed form):
/// M_p(x) = Σ_k (−1)^k C(p, k) (x − k)₊^{p−1} / (p−1)!
pub(crate) fn spline(p: usize, x: f64, d: usize) -> f64 {
    if d >= p || x <= 0.0 || x >= p as f64 {
        return 0.0;
    }
    let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
    let power = (p - 1 - d) as i32;
    (0..=p)
        .filter(|k| x > *k as f64)
        .map(|k| {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            let choose = factorial(p) / (factorial(k) * factorial(p - k));
            sign * choose * (x - k as f64).powi(power) / factorial(p - 1 - d)
        })
        .sum()
}

/// erfc by its series (|x| < 2.5) and its continued fraction.
pub(crate) fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let front = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term > 1e-17 * sum {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        return 1.0 - 2.0 * front * sum;
    }
    let mut tail = x;
    for k in (1..120).rev() {
        tail = x + f64::from(k) / 2.0 / tail;
    }
    front / tail
}
