//! Runs bodies in f64, statement by statement: slow, readable, and strict about scopes.

use madelung_kernel::ir::{Body, Kernel, Kind, Op, Range, Role, Stmt, Val};
use madelung_kernel::mirror::Part;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Real arrays by parameter and role.
pub(crate) type Arrays = BTreeMap<(usize, Role), Vec<f64>>;

/// What a kernel is given.
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
    /// The pairs of each row.
    pub(crate) pairs: Vec<Vec<(usize, [i32; 3])>>,
}

pub(crate) fn components(kernel: &Kernel, param: usize) -> usize {
    match kernel.params[param].kind {
        Kind::Real { components, .. } | Kind::Output { components, .. } | Kind::Ints { components, .. } => {
            components
        }
        _ => 1,
    }
}

/// Runs one body for every row of its dimension.
pub(crate) fn run_body(kernel: &Kernel, world: &World, body: &Body) -> Arrays {
    let part = Part { index: kernel.index, body: body.clone() };
    run(kernel, world, &[part])
}

/// Runs the parts of a form one after the other; what a later one writes is added.
pub(crate) fn run(kernel: &Kernel, world: &World, parts: &[Part]) -> Arrays {
    let mut written = Arrays::new();
    for part in parts {
        let mut stored = HashSet::new();
        for row in 0..world.dims[part.index] {
            let mut m = Machine {
                kernel,
                world,
                body: &part.body,
                row,
                values: vec![None; part.body.len()],
                sums: HashMap::new(),
                loops: HashMap::new(),
                written: &mut written,
                stored: &mut stored,
            };
            m.block(part.body.stmts());
        }
    }
    written
}

#[derive(Clone, Copy)]
enum Visit {
    Int(i64),
    Pair(usize, [i32; 3]),
    Member(usize),
}

struct Machine<'a> {
    kernel: &'a Kernel,
    world: &'a World,
    body: &'a Body,
    row: usize,
    /// Values that are in scope.
    values: Vec<Option<f64>>,
    sums: HashMap<usize, f64>,
    loops: HashMap<usize, Visit>,
    written: &'a mut Arrays,
    stored: &'a mut HashSet<(usize, u8, usize, usize)>,
}

impl Machine<'_> {
    fn value(&self, v: Val) -> f64 {
        match self.body.op(v) {
            Op::Const(bits) => f64::from_bits(*bits),
            Op::Int(i) => *i as f64,
            Op::Row => self.row as f64,
            op => self.values[v].unwrap_or_else(|| panic!("value {v} = {op:?} is used out of its scope")),
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.stmt(s);
        }
        // What was made here ends here.
        for s in stmts {
            match s {
                Stmt::Let(v) => self.values[*v] = None,
                Stmt::Declare(m, _) => {
                    self.sums.remove(m);
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
            Stmt::Store { param, role, component, value } => {
                let key = (*param, role.0, self.row, *component);
                assert!(self.stored.insert(key), "stored twice: {key:?}");
                let x = self.value(*value);
                self.add(*param, *role, self.row, *component, x);
            }
            Stmt::Contribute { param, role, row, component, value } => {
                let row = row.map_or(0, |r| self.value(r) as usize);
                let x = self.value(*value);
                self.add(*param, *role, row, *component, x);
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
        }
    }

    fn visits(&self, range: Range) -> Vec<Visit> {
        match range {
            Range::Ints(lo, hi) => (self.value(lo) as i64..self.value(hi) as i64).map(Visit::Int).collect(),
            Range::Pairs { row, .. } => {
                self.world.pairs[self.value(row) as usize].iter().map(|(j, s)| Visit::Pair(*j, *s)).collect()
            }
            Range::Members { batch, system } => {
                let system = self.value(system) as usize;
                let of = &self.world.batches[&batch];
                (0..of.len()).filter(|r| of[*r] == system).map(Visit::Member).collect()
            }
        }
    }

    fn add(&mut self, param: usize, role: Role, row: usize, component: usize, x: f64) {
        let (Kind::Real { dim, components, .. } | Kind::Output { dim, components }) =
            self.kernel.params[param].kind
        else {
            panic!("parameter {param} has no real array")
        };
        let rows = dim.map_or(1, |d| self.world.dims[d]);
        let array = self.written.entry((param, role)).or_insert_with(|| vec![0.0; rows * components]);
        array[row * components + component] += x;
    }

    fn evaluate(&self, v: Val) -> f64 {
        use Op::*;
        let of = |v: &Val| self.value(*v);
        let truth = |c: bool| f64::from(u8::from(c));
        match self.body.op(v) {
            Const(_) | Int(_) | Row => self.value(v),
            LoopVar(l) => match self.loops[l] {
                Visit::Int(i) => i as f64,
                Visit::Member(r) => r as f64,
                Visit::Pair(..) => panic!("a pair is not one number"),
            },
            PairColumn(l) => match self.loops[l] {
                Visit::Pair(j, _) => j as f64,
                _ => panic!("not a loop over pairs"),
            },
            PairShift(l, c) => match self.loops[l] {
                Visit::Pair(_, s) => f64::from(s[*c]),
                _ => panic!("not a loop over pairs"),
            },
            SystemOf { batch, row } => self.world.batches[batch][of(row) as usize] as f64,
            Scalar(p) => self.world.reals[p],
            IntScalar(p) => self.world.integers[p] as f64,
            Load { param, role, row, component } => match self.world.arrays.get(&(*param, *role)) {
                None => 0.0,
                Some(array) => {
                    array[row.map_or(0, |r| self.value(r) as usize) * components(self.kernel, *param)
                        + component]
                }
            },
            LoadInt { param, row, component } => f64::from(
                self.world.ints[param][of(row) as usize * components(self.kernel, *param) + component],
            ),
            Read(m) => *self.sums.get(m).unwrap_or_else(|| panic!("sum {m} is read out of its scope")),
            Own { value, .. } => of(value),
            Add(a, b) | IAdd(a, b) => of(a) + of(b),
            Sub(a, b) | ISub(a, b) => of(a) - of(b),
            Mul(a, b) | IMul(a, b) => of(a) * of(b),
            Neg(a) => -of(a),
            Recip(a) => 1.0 / of(a),
            Sqrt(a) => of(a).sqrt(),
            Exp(a) => of(a).exp(),
            Ln(a) => of(a).ln(),
            Pow(a, b) => of(a).powf(of(b)),
            Erfc(a) => erfc(of(a)),
            ExpNegSq(a) => (-of(a) * of(a)).exp(),
            Sin(a) => of(a).sin(),
            Cos(a) => of(a).cos(),
            Nearest(a) => of(a).round_ties_even(),
            FromInt(a) => of(a),
            Lt(a, b) | ILt(a, b) => truth(of(a) < of(b)),
            Le(a, b) => truth(of(a) <= of(b)),
            Eq(a, b) | IEq(a, b) => truth(of(a) == of(b)),
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
        }
    }
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
