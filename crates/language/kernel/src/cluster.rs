//! The cluster form of a pair loop: every unordered pair once, for both of its atoms (the idea of Páll and Hess,
//! Comput. Phys. Commun. 184, 2641 (2013)).
//!
//! In a full list, what the pair (j, i, −S) adds to the sums of row j is what (i, j, S) adds to those of row i with
//! the two exchanged. So one visit of a pair gives both, and most of the values are shared. Atoms that are close to
//! each other lie together in clusters as wide as the lanes: a row meets whole clusters, their data are loaded as they
//! lie, and nothing is gathered.
//!
//! The form has two phases: the sums of all rows over clusters of columns, and then what follows the loop, row by row.

use crate::factor::{factored, factored_after};
use crate::ir::{
    Acc, Array, Body, Dim, Kernel, Kind, LoopId, Op, ParamId, Range, Role, Stmt, Type, Val, accumulators,
    filtered, walk,
};
use crate::mirror::Part;
use crate::rewrite::rewrite;
pub use madelung_abi::Packed;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// A part in cluster form.
#[derive(Clone, Debug)]
pub struct Clusters {
    /// The second phase: the part with its sums given.
    pub part: Part,
    /// Outputs of the part that the form leaves out.
    pub without: BTreeSet<(ParamId, Role)>,
    /// The first phase: a loop over pairs that adds to the sums of the row and of the column.
    pub pair: Part,
    /// The loop over pairs in `pair`.
    pub loop_id: LoopId,
    /// The list of that loop.
    pub list: ParamId,
    /// The sums, in order.
    pub sums: Vec<Sum>,
    /// The components of the column's atom that a pair reads, in order.
    pub packed: Vec<Packed>,
    /// The positions: a pair depends on them by r_j − r_i + S · cell alone, so atoms may be moved by lattice vectors.
    pub positions: ParamId,
    /// The cell; None where images play no part.
    pub cell: Option<ParamId>,
}

/// A sum of the part, and the accumulators of the pair that make it.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// The accumulator of the part.
    pub of_part: Acc,
    /// The pair's contribution to the row.
    pub row: Acc,
    /// The pair's contribution to the column; None where either of the two atoms may have it.
    pub column: Option<Acc>,
    /// A factor on both contributions.
    pub factor: f64,
}

/// Whether a cluster form leaves an output of its part out.
pub(crate) type LeavesOut<'a> = &'a dyn Fn(ParamId, Role) -> bool;

impl Clusters {
    fn place(&self, param: ParamId, role: Role, component: usize) -> Option<usize> {
        self.packed.binary_search(&Packed { param, role, component }).ok()
    }

    /// The place of an atom's component, as a real, among what is packed in clusters.
    pub fn packed_component(&self, b: &Body, v: Val) -> Option<usize> {
        let of_atom = |row: Val| matches!(b.op(row), Op::Row | Op::PairColumn(_));
        match *b.op(v) {
            Op::Load { param, role, row: Some(row), component, .. } if of_atom(row) => {
                self.place(param, role, component)
            }
            Op::LoadInt { param, row, component } if of_atom(row) => {
                self.place(param, Role::VALUE, component)
            }
            _ => None,
        }
    }

    /// The place of a column's element of a map, as an integer, among what is packed in clusters.
    pub fn packed_element(&self, b: &Body, v: Val) -> Option<usize> {
        match *b.op(v) {
            Op::IndexOf { param, row, .. } if is_column(b, row) => self.place(param, Role::VALUE, 0),
            _ => None,
        }
    }
}

/// The cluster form of a part for full lists, if it has one: a single loop over the row's pairs that only sums, over
/// values of the row, the column, their system and the vector between them.
pub fn clusters(kernel: &Kernel, part: &Part) -> Option<Clusters> {
    paired(kernel, part, false)
}

/// The cluster form of a part whose products are not arranged yet, without some of its outputs. What a pair gives by
/// the weight of its row and by that of its column is added before anything is multiplied by it.
pub(crate) fn joined_clusters(kernel: &Kernel, part: &Part, leaves_out: LeavesOut<'_>) -> Option<Clusters> {
    let mut rest = part.clone();
    rest.body.retain(&|param, role| !leaves_out(param, role));
    let (_, _, body) = only_loop(kernel, &rest)?;
    rest.body = joined_sums(&rest.body, body);
    let mut found = paired(kernel, &rest, true)?;
    found.part.body = factored(&rest.body);
    found.without = part
        .body
        .walk()
        .filter_map(|s| match s {
            Stmt::Store { param, role, .. } | Stmt::Contribute { param, role, .. } => Some((*param, *role)),
            _ => None,
        })
        .filter(|(param, role)| leaves_out(*param, *role))
        .collect();
    Some(found)
}

/// A body whose loop has each sum once, and one for two that are only added up behind it.
fn joined_sums(src: &Body, in_loop: &[Stmt]) -> Body {
    let mut terms: BTreeMap<Acc, Vec<Val>> = BTreeMap::new();
    for s in in_loop {
        if let Stmt::Accumulate(m, v) = s {
            terms.entry(*m).or_default().push(*v);
        }
    }
    let declared = src.stmts().iter().filter_map(|s| match s {
        Stmt::Declare(m, v) => Some((*m, *v)),
        _ => None,
    });
    let begin: HashMap<Acc, Val> = declared.collect();
    let mut first = HashMap::default();
    let equal: HashMap<Acc, Acc> =
        terms.iter().map(|(m, terms)| (*m, *first.entry((begin.get(m), terms)).or_insert(*m))).collect();
    let mut reads: HashMap<Acc, usize> = HashMap::default();
    for m in src.ops().filter_map(Op::of_acc) {
        *reads.entry(equal.get(&m).copied().unwrap_or(m)).or_default() += 1;
    }
    let uses = src.uses();
    let behind = src.stmts().iter().skip_while(|s| !matches!(s, Stmt::For { .. }));
    let behind: HashSet<Val> =
        behind.filter_map(|s| if let Stmt::Let(v) = s { Some(*v) } else { None }).collect();
    // A sum from 0 that is read once, behind the loop, for one value.
    let alone = |v: &Val| match src.op(*v) {
        Op::Read(m) if uses[v] == 1 && reads.get(m) == Some(&1) && behind.contains(v) => {
            (src.constant(*begin.get(m)?) == Some(0.0)).then_some(*m)
        }
        _ => None,
    };
    // For each sum of two sums the one that takes up the other.
    let mut into = HashMap::default();
    let mut b = rewrite(src, &mut |b, v, op, ty| match (src.op(v), op) {
        (_, Op::Read(m)) => b.copy_op(Op::Read(equal.get(&m).copied().unwrap_or(m)), ty),
        (Op::Add(x, y), Op::Add(sum, _)) if alone(x).is_some() && alone(y).is_some() => {
            into.insert(alone(y), alone(x));
            sum
        }
        (_, op) => b.copy_op(op, ty),
    });
    let renamed = |s: Stmt| match s {
        Stmt::Accumulate(m, v) => Stmt::Accumulate(into.get(&Some(m)).copied().flatten().unwrap_or(m), v),
        s => s,
    };
    let stmts = b.stmts().iter().cloned().map(|s| match s {
        Stmt::For { id, range, body } => {
            Stmt::For { id, range, body: body.into_iter().map(renamed).collect() }
        }
        s => s,
    });
    b.set_stmts(stmts.collect());
    b.remove_unused();
    b
}

/// The cluster form of a part. `joins`: what a pair gives to one sum is added up with common factors outside.
fn paired(kernel: &Kernel, part: &Part, joins: bool) -> Option<Clusters> {
    let src = &part.body;
    let (loop_id, list, body) = only_loop(kernel, part)?;
    let mut pair = Pair::new(src, part.index, loop_id);
    let mut sums = BTreeMap::new();
    let mut terms: HashMap<Acc, Vec<Val>> = HashMap::default();
    for s in body {
        if let Stmt::Accumulate(m, v) = s {
            terms.entry(*m).or_default().push(*v);
        }
    }
    for m in accumulators(body) {
        let (row, column) = (pair.b.new_acc(), pair.b.new_acc());
        let column = (!is_pooled(src, m)).then_some(column);
        sums.insert(m, Sum { of_part: m, row, column, factor: 1.0 });
    }
    let row = pair.b.emit(Op::Row, Type::Index(part.index));
    pair.b.open(true);
    for s in body {
        if let Stmt::Accumulate(m, v) = s {
            let (mut mine, mut theirs) = (pair.value(*v, false)?, pair.value(*v, true)?);
            let mut is_one = terms.get(m).is_some_and(|terms| terms.len() == 1);
            if joins {
                // All terms of the sum, where its first one stands.
                let Some(terms) = terms.remove(m) else { continue };
                for v in &terms[1..] {
                    let (x, y) = (pair.value(*v, false)?, pair.value(*v, true)?);
                    (mine, theirs) = (pair.sum(mine, x), pair.sum(theirs, y));
                }
                is_one = true;
            }
            let sum = sums.get_mut(m)?;
            match sum.column {
                Some(column) => {
                    if is_one {
                        (sum.factor, mine, theirs) = without_factor(&mut pair.b, mine, theirs);
                    }
                    pair.b.push(Stmt::Accumulate(column, theirs));
                }
                None if joins => mine = pair.sum(mine, theirs),
                None => mine = pair.b.real_op(Op::Add(mine, theirs)),
            }
            pair.b.push(Stmt::Accumulate(sum.row, mine));
        }
    }
    let mut b = pair.b;
    let body = b.close();
    b.push(Stmt::For { id: loop_id, range: Range::Pairs { list, row }, body });
    b = if joins { factored_after(&b, &remove_unneeded) } else { b };
    remove_unneeded(&mut b);
    let used = used(&b);
    let (positions, cell) = pair_vector(kernel, part.index, &b, &used)?;
    let packed: BTreeSet<Packed> = used
        .iter()
        .filter_map(|v| match *b.op(*v) {
            Op::Load { param, role, row: Some(r), component, .. } if is_column(&b, r) => {
                Some(Packed { param, role, component })
            }
            Op::LoadInt { param, row, component } if is_column(&b, row) => {
                Some(Packed { param, role: Role::VALUE, component })
            }
            Op::IndexOf { param, row, .. } if is_column(&b, row) => {
                Some(Packed { param, role: Role::VALUE, component: 0 })
            }
            _ => None,
        })
        .collect();
    Some(Clusters {
        part: part.clone(),
        without: BTreeSet::new(),
        pair: Part { index: part.index, body: b },
        loop_id,
        list,
        sums: sums.into_values().collect(),
        packed: packed.into_iter().collect(),
        positions,
        cell,
    })
}

fn is_column(b: &Body, row: Val) -> bool {
    matches!(b.op(row), Op::PairColumn(_))
}

/// The one loop over data of the part, if it is over the row's pairs, outermost, and only adds to sums.
fn only_loop<'a>(kernel: &Kernel, part: &'a Part) -> Option<(LoopId, ParamId, &'a [Stmt])> {
    let src = &part.body;
    let loops = src.walk().filter(|s| matches!(s, Stmt::For { range, .. } if range.is_data())).count();
    let scatters =
        src.walk().any(|s| matches!(s, Stmt::Contribute { row: Some(r), .. } if !src.op(*r).is_system()));
    let found = src.stmts().iter().find_map(|s| match s {
        Stmt::For { id, range: Range::Pairs { list, row }, body } if matches!(src.op(*row), Op::Row) => {
            Some((*id, *list, body.as_slice()))
        }
        _ => None,
    });
    let (id, list, body) = found?;
    let sums_only = body.iter().all(|s| matches!(s, Stmt::Let(_) | Stmt::Accumulate(..)));
    let square = matches!(
        kernel.params[list].kind,
        Kind::Pairs { rows, columns, .. } if (rows, columns) == (part.index, part.index)
    );
    (loops == 1 && !scatters && sums_only && square && !kernel.is_queried(list)).then_some((id, list, body))
}

/// Whether a sum ends in sums over all rows of the system alone, with equal weights: then the row may have the column's
/// contribution, too.
fn is_pooled(src: &Body, m: Acc) -> bool {
    let mut depends = HashSet::default();
    for s in src.stmts() {
        match s {
            Stmt::Let(v) => {
                let fits = match src.op(*v) {
                    Op::Read(n) if *n == m => {
                        depends.insert(*v);
                        continue;
                    }
                    Op::Neg(_) | Op::Add(..) | Op::Sub(..) => true,
                    Op::Mul(x, y) => [(x, y), (y, x)].iter().any(|(x, y)| {
                        depends.contains(*x) && !depends.contains(*y) && is_same_for_rows(src, **y)
                    }),
                    _ => false,
                };
                if src.op(*v).any_arg(|a| depends.contains(&a)) {
                    if !fits {
                        return false;
                    }
                    depends.insert(*v);
                }
            }
            Stmt::Contribute { .. } | Stmt::For { range: Range::Pairs { .. }, .. } => {}
            s => {
                let reads = |s: &Stmt| match s {
                    Stmt::Let(v) => {
                        *src.op(*v) == Op::Read(m) || src.op(*v).any_arg(|a| depends.contains(&a))
                    }
                    s => s.any_arg(|v| depends.contains(&v)),
                };
                if walk(std::slice::from_ref(s)).any(reads) {
                    return false;
                }
            }
        }
    }
    true
}

/// Whether a value is equal in all rows of a system.
fn is_same_for_rows(src: &Body, v: Val) -> bool {
    match src.op(v) {
        Op::IndexOf { array: Array::SystemOf, row, .. } => matches!(src.op(*row), Op::Row),
        Op::Row | Op::PlaceIn { .. } | Op::IndexOf { .. } => false,
        op if op.of_loop().is_some() || op.of_acc().is_some() => false,
        op => !op.any_arg(|a| !is_same_for_rows(src, a)),
    }
}

/// A copy of a pair's contributions, as they are or with the pair's two sides exchanged.
struct Pair<'a> {
    src: &'a Body,
    b: Body,
    index: Dim,
    id: LoopId,
    known: [HashMap<Val, Val>; 2],
    /// Sums with common factors outside; None where there are none.
    joined: HashMap<(Val, Val), Option<Val>>,
}

impl<'a> Pair<'a> {
    fn new(src: &'a Body, index: Dim, id: LoopId) -> Self {
        let mut b = Body::new(Some(src));
        b.canonical_signs = true;
        Self {
            src,
            b,
            index,
            id,
            known: [HashMap::default(), HashMap::default()],
            joined: HashMap::default(),
        }
    }

    /// A value of the row, the column, their system or the image; None for any other.
    fn value(&mut self, v: Val, exchanged: bool) -> Option<Val> {
        if let Some(n) = self.known[usize::from(exchanged)].get(&v) {
            return Some(*n);
        }
        let op = self.src.op(v).clone();
        let index = Type::Index(self.index);
        let n = match op {
            Op::Const(bits) => self.b.real(f64::from_bits(bits)),
            Op::Int(i) => self.b.op_value(Op::Int(i)),
            Op::Channel(..) => self.b.emit(op, self.src.ty(v)),
            Op::Row if exchanged => self.b.emit(Op::PairColumn(self.id), index),
            Op::PairColumn(l) if l == self.id && exchanged => self.b.emit(Op::Row, index),
            Op::Row => self.b.emit(Op::Row, index),
            Op::PairColumn(l) if l == self.id => self.b.emit(op, index),
            Op::PairShift(l, _) if l == self.id => {
                let shift = self.b.real_op(op);
                if exchanged { self.b.real_op(Op::Neg(shift)) } else { shift }
            }
            Op::IndexOf { param, array: Array::SystemOf, row } if matches!(self.src.op(row), Op::Row) => {
                let row = self.b.emit(Op::Row, index);
                self.b.emit(Op::IndexOf { param, array: Array::SystemOf, row }, self.src.ty(v))
            }
            Op::IndexOf { param, array: Array::MapOf, row } => {
                let row = self.value(row, exchanged)?;
                self.b.emit(Op::IndexOf { param, array: Array::MapOf, row }, self.src.ty(v))
            }
            Op::IndexOf { .. } | Op::PlaceIn { .. } => return None,
            ref op if op.of_loop().is_some() || op.of_acc().is_some() => return None,
            Op::Load { role, .. } if role.has(Role::HIDDEN) => return None,
            // Components alone are packed in clusters.
            Op::Load { channel: Some(c), .. } if matches!(self.src.op(c), Op::Channel(..)) => return None,
            op => {
                let op = op.try_map_args(|a| self.value(a, exchanged).ok_or(())).ok()?;
                self.b.copy_op(op, self.src.ty(v))
            }
        };
        self.known[usize::from(exchanged)].insert(v, n);
        Some(n)
    }

    /// x + y, with common factors outside.
    fn sum(&mut self, x: Val, y: Val) -> Val {
        self.joined(x, y).unwrap_or_else(|| self.b.real_op(Op::Add(x, y)))
    }

    fn joined(&mut self, x: Val, y: Val) -> Option<Val> {
        if let Some(known) = self.joined.get(&(x, y)) {
            return *known;
        }
        let sum = match (self.b.op(x).clone(), self.b.op(y).clone()) {
            (Op::Neg(x), Op::Neg(y)) => Some(Op::Neg(self.sum(x, y))),
            (Op::Select(c, x, p), Op::Select(d, y, q)) if c == d => {
                Some(Op::Select(c, self.sum(x, y), self.sum(p, q)))
            }
            (Op::Mul(x, p), Op::Mul(y, q)) => [(x, p, y, q), (x, p, q, y), (p, x, y, q), (p, x, q, y)]
                .into_iter()
                .find(|(x, _, y, _)| x == y)
                .map(|(common, p, _, q)| Op::Mul(common, self.sum(p, q))),
            (Op::Add(x, p), Op::Add(y, q)) => self.both((x, p), (y, q)).map(|(x, p)| Op::Add(x, p)),
            (Op::Sub(x, p), Op::Sub(y, q)) => self.both((x, p), (y, q)).map(|(x, p)| Op::Sub(x, p)),
            _ => None,
        };
        let sum = sum.map(|op| self.b.real_op(op));
        self.joined.insert((x, y), sum);
        sum
    }

    fn both(&mut self, (x, p): (Val, Val), (y, q): (Val, Val)) -> Option<(Val, Val)> {
        Some((self.joined(x, y)?, self.joined(p, q)?))
    }
}

/// Removes what the sums do not need.
fn remove_unneeded(b: &mut Body) {
    let used = used(b);
    let is_needed = |s: &Stmt| !matches!(s, Stmt::Let(v) if !used.contains(v));
    b.set_stmts(filtered(b.stmts().to_vec(), &is_needed));
}

/// The values that the sums need, and the row of their loop.
fn used(b: &Body) -> BTreeSet<Val> {
    fn need(b: &Body, v: Val, used: &mut BTreeSet<Val>) {
        if used.insert(v) {
            b.op(v).for_each_arg(|a| need(b, a, used));
        }
    }
    let mut used = BTreeSet::new();
    for s in b.walk().filter(|s| !matches!(s, Stmt::Let(_))) {
        b.for_each_use(s, |v| need(b, v, &mut used));
    }
    used
}

/// A power of two that both sides of a pair are multiplied by may wait for the sums: no bit changes.
fn without_factor(b: &mut Body, mine: Val, theirs: Val) -> (f64, Val, Val) {
    fn split(b: &Body, v: Val) -> Option<(f64, Val)> {
        match *b.op(v) {
            Op::Neg(x) => split(b, x).map(|(factor, x)| (-factor, x)),
            Op::Mul(x, y) => {
                let (factor, rest) =
                    b.constant(x).map(|c| (c, y)).or_else(|| b.constant(y).map(|c| (c, x)))?;
                let is_power = factor.to_bits().trailing_zeros() >= 52 && factor.is_normal();
                is_power.then_some((factor, rest))
            }
            _ => None,
        }
    }
    match (split(b, mine), split(b, theirs)) {
        (Some((f, x)), Some((g, y))) if f.abs() == g.abs() => {
            let mut signed = |f: f64, x: Val| if f < 0.0 { b.real_op(Op::Neg(x)) } else { x };
            (f.abs(), signed(f, x), signed(g, y))
        }
        _ => (1.0, mine, theirs),
    }
}

/// A term of a sum of coordinates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Term {
    /// A component of an array, at the row.
    Row(ParamId, Role, usize),
    /// A component of an array, at the column.
    Column(ParamId, Role, usize),
    /// A component of the image times one of a 3×3 array of the system.
    Image(usize, ParamId, Role, usize),
}

type Linear = BTreeMap<Term, f64>;

/// A value as a sum of coordinates and image vectors, if it is one.
fn linear(kernel: &Kernel, b: &Body, v: Val) -> Option<Linear> {
    let sum = |x: Linear, y: Linear, sign: f64| {
        let mut sum = x;
        for (term, factor) in y {
            *sum.entry(term).or_default() += sign * factor;
        }
        sum.retain(|_, factor| *factor != 0.0);
        sum
    };
    let of = |v: Val| linear(kernel, b, v);
    let is_input = |role: Role| !role.meets(Role::COTANGENT.with(Role::HIDDEN));
    match *b.op(v) {
        Op::Load { param, role, row: Some(row), component, .. }
            if is_input(role) && matches!(kernel.params[param].kind, Kind::Real { components: 3, .. }) =>
        {
            match b.op(row) {
                Op::Row => Some(Linear::from([(Term::Row(param, role, component), 1.0)])),
                Op::PairColumn(_) => Some(Linear::from([(Term::Column(param, role, component), 1.0)])),
                _ => None,
            }
        }
        Op::Add(x, y) => Some(sum(of(x)?, of(y)?, 1.0)),
        Op::Sub(x, y) => Some(sum(of(x)?, of(y)?, -1.0)),
        Op::Neg(x) => Some(sum(Linear::new(), of(x)?, -1.0)),
        Op::Mul(x, y) => [(x, y), (y, x)].iter().find_map(|(x, y)| match (b.op(*x), b.op(*y)) {
            (Op::PairShift(_, k), Op::Load { param, role, row, component, .. }) if is_input(*role) => {
                let of_system = row.is_none_or(|r| b.op(r).is_system());
                of_system.then(|| Linear::from([(Term::Image(*k, *param, *role, *component), 1.0)]))
            }
            _ => None,
        }),
        _ => None,
    }
}

/// The positions and the cell of r_j − r_i + S · cell, if the pair depends on positions and image by this and its
/// tangents alone.
fn pair_vector(
    kernel: &Kernel,
    index: Dim,
    b: &Body,
    used: &BTreeSet<Val>,
) -> Option<(ParamId, Option<ParamId>)> {
    // Values that enter anything but a sum of coordinates.
    let mut ends = BTreeSet::new();
    for v in used {
        if linear(kernel, b, *v).is_none() {
            b.op(*v).for_each_arg(|a| {
                ends.insert(a);
            });
        }
    }
    for s in b.walk() {
        if let Stmt::Accumulate(_, v) = s {
            ends.insert(*v);
        }
    }
    if ends.iter().any(|v| matches!(b.op(*v), Op::PairShift(..))) {
        return None;
    }
    let ends: Vec<Linear> = ends.into_iter().filter_map(|v| linear(kernel, b, v)).collect();
    let terms = || ends.iter().flat_map(BTreeMap::keys);
    let cell = terms().find_map(|t| if let Term::Image(_, cell, ..) = t { Some(*cell) } else { None });
    let is_square = |p: ParamId| matches!(kernel.params[p].kind, Kind::Real { components: 9, .. });
    if cell.is_some_and(|cell| !is_square(cell)) {
        return None;
    }
    let vector = |positions: ParamId, role: Role, c: usize, sign: f64| -> Linear {
        let ends = [(Term::Row(positions, role, c), -sign), (Term::Column(positions, role, c), sign)];
        let mut vector = Linear::from(ends);
        if let Some(cell) = cell {
            vector.extend((0..3).map(|k| (Term::Image(k, cell, role, 3 * k + c), sign)));
        }
        vector
    };
    let is_vector = |end: &Linear, p: ParamId, role: Role| {
        (0..3).any(|c| *end == vector(p, role, c, 1.0) || *end == vector(p, role, c, -1.0))
    };
    // The first vector field whose coordinates form a pair vector, of several that differ between i and j.
    let over_atoms =
        |p: ParamId| matches!(kernel.params[p].kind, Kind::Real { dim: Some(d), .. } if d == index);
    let positions = ends.iter().find_map(|end| {
        end.keys().find_map(|t| match t {
            Term::Column(p, Role::VALUE, _) if over_atoms(*p) && is_vector(end, *p, Role::VALUE) => Some(*p),
            _ => None,
        })
    })?;
    // The role in which a term has coordinates of the pair vector.
    let concerns = |t: &Term| match t {
        Term::Row(p, role, _) | Term::Column(p, role, _) => (*p == positions).then_some(*role),
        Term::Image(_, _, role, _) => Some(*role),
    };
    let alone =
        ends.iter().all(|end| end.keys().find_map(concerns).is_none_or(|r| is_vector(end, positions, r)));
    alone.then_some((positions, cell))
}
