//! Reverse mode.
//!
//! Straight-line code: adjoints are SSA expressions, with no mutable adjoint variable and no tape. A loop replays
//! one iteration and reverses it; adjoints of values from outside the loop become accumulators. That is right
//! because the only state a loop may carry is a sum that is not read inside it, so its iterations commute.

use crate::derivative::{is_differentiable, partials};
use crate::ir::{Acc, Body, Dim, Kernel, Op, Role, Stmt, Type, Val, ValueMap, accumulators, declared, walk};
use crate::rewrite::mapped;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// The adjoint of `src`, together with its values: every output is stored, and every differentiable input gets
/// its cotangent contributed, from the cotangents of the outputs.
pub fn adjoint(kernel: &Kernel, src: &Body) -> Body {
    fused(kernel, src).unwrap_or_else(|| separate(kernel, src))
}

/// Forward, then backward with every loop run again. Always right.
pub fn separate(kernel: &Kernel, src: &Body) -> Body {
    let mut r = Reverse::new(kernel, src);
    let mut map = ValueMap::default();
    r.replay(src.stmts(), &mut map, Keep::All);
    r.reverse(src.stmts(), &mut map, false);
    r.b
}

/// Forward and backward in one pass over the loop. None where a value that the backward pass needs in the loop
/// depends on the loop's own sums.
fn fused(kernel: &Kernel, src: &Body) -> Option<Body> {
    let stmts = src.stmts();
    let is_loop = |s: &&Stmt| matches!(s, Stmt::For { .. });
    if stmts.iter().filter(is_loop).count() != 1 {
        return None;
    }
    let at = stmts.iter().position(|s| is_loop(&s))?;
    let mut r = Reverse::new(kernel, src);
    let mut map = ValueMap::default();
    r.replay(&stmts[..at], &mut map, Keep::All);
    let before = r.b.stmts().len();
    r.replay(&stmts[at + 1..], &mut map, Keep::All);
    r.reverse(&stmts[at + 1..], &mut map, false);
    r.reverse(&stmts[at..=at], &mut map, true);
    r.reverse(&stmts[..at], &mut map, false);
    let mut b = r.b;
    let stmts = after_the_loop(&b, before)?;
    b.set_stmts(stmts);
    Some(b)
}

/// Moves the uses of the loop's sums behind the loop, among the statements of the source from `before` on. None if the
/// loop itself needs one of them.
fn after_the_loop(b: &Body, before: usize) -> Option<Vec<Stmt>> {
    let stmts = b.stmts();
    let at = stmts.iter().position(|s| matches!(s, Stmt::For { .. }))?;
    let Stmt::For { body, .. } = &stmts[at] else { return None };
    let mut late_values: HashSet<Val> = HashSet::default();
    // Sums that are used behind the loop: their later uses stay there, too.
    let mut late_sums = accumulators(body);
    let (mut early, mut late) = (stmts[..before].to_vec(), vec![]);
    for s in &stmts[before..at] {
        let one = std::slice::from_ref(s);
        let values = values_used(b, one);
        // A sum has no use before its declaration; the loop's own (adjoint) sums are declared here, too.
        let declares =
            matches!(s, Stmt::Declare(..) | Stmt::DeclareChannels(..)) && values.is_disjoint(&late_values);
        let sums = if declares { BTreeSet::new() } else { sums_used(b, one) };
        if values.is_disjoint(&late_values) && sums.is_disjoint(&late_sums) {
            early.push(s.clone());
        } else {
            late_sums.extend(sums);
            if let Stmt::Let(v) = s {
                late_values.insert(*v);
            }
            late.push(s.clone());
        }
    }
    let the_loop = &stmts[at..=at];
    if !values_used(b, the_loop).is_disjoint(&late_values) || reads_from_outside(b, body) {
        return None;
    }
    early.extend_from_slice(the_loop);
    early.extend(late);
    early.extend_from_slice(&stmts[at + 1..]);
    Some(early)
}

/// Whether a loop's body reads a sum that was not declared in it. (The front end reads such sums before the loop.)
fn reads_from_outside(b: &Body, body: &[Stmt]) -> bool {
    let declared = declared(body);
    walk(body).any(|s| match s {
        Stmt::Let(v) => b.op(*v).of_acc().is_some_and(|m| !declared.contains(&m)),
        _ => false,
    })
}

/// The sums that statements declare, add to or read.
fn sums_used(b: &Body, stmts: &[Stmt]) -> BTreeSet<Acc> {
    let of = |s: &Stmt| match s {
        Stmt::Let(v) => b.op(*v).of_acc(),
        s => s.acc(),
    };
    walk(stmts).filter_map(of).collect()
}

/// The values that statements define or read.
fn values_used(b: &Body, stmts: &[Stmt]) -> HashSet<Val> {
    let mut used = HashSet::default();
    for s in walk(stmts) {
        if let Stmt::Let(v) = s {
            used.insert(*v);
        }
        b.for_each_use(s, |v| {
            used.insert(v);
        });
    }
    used
}

/// A holder of an adjoint: a value, or an accumulator's final sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Value(Val),
    Sum(Acc),
}

/// The accumulators that a replay keeps beside values.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    /// All accumulators.
    All,
    /// Accumulators declared inside the block.
    Inner,
}

struct Reverse<'a> {
    kernel: &'a Kernel,
    src: &'a Body,
    b: Body,
    /// Adjoints, block by block.
    adjoints: Vec<BTreeMap<Key, Val>>,
    loops: HashMap<usize, usize>,
    accs: HashMap<Acc, Acc>,
    /// The adjoints of sums over channels. Each is complete before it is read, because the forward pass completes a sum
    /// before it reads it.
    channel_adjoints: HashMap<Acc, Acc>,
    /// The dimensions of sums over channels.
    channels: HashMap<Acc, Dim>,
}

impl<'a> Reverse<'a> {
    fn new(kernel: &'a Kernel, src: &'a Body) -> Self {
        let channels = src.walk().filter_map(|s| match s {
            Stmt::DeclareChannels(m, dim) => Some((*m, *dim)),
            _ => None,
        });
        Self {
            kernel,
            src,
            b: Body::new(Some(src)),
            adjoints: vec![BTreeMap::new()],
            loops: HashMap::default(),
            accs: HashMap::default(),
            channel_adjoints: HashMap::default(),
            channels: channels.collect(),
        }
    }

    fn value(&mut self, map: &ValueMap, v: Val) -> Val {
        mapped(self.src, &mut self.b, map, v)
    }

    fn acc(&mut self, m: Acc) -> Acc {
        if let Some(n) = self.accs.get(&m) {
            return *n;
        }
        let n = self.b.new_acc();
        self.accs.insert(m, n);
        n
    }

    fn mapped_op(&mut self, map: &ValueMap, v: Val) -> Op {
        let src = self.src;
        let op = src.op(v);
        match (op.of_loop(), op.of_acc()) {
            (Some(l), _) => op.with_loop(self.loops[&l]),
            (_, Some(m)) => {
                let m = self.acc(m);
                op.map_args(|a| self.value(map, a)).with_acc(m)
            }
            _ => op.map_args(|a| self.value(map, a)),
        }
    }

    fn in_loop<T>(&mut self, id: usize, f: impl FnOnce(&mut Self, usize) -> T) -> T {
        let new = self.b.new_loop();
        let old = self.loops.insert(id, new);
        let result = f(self, new);
        if let Some(old) = old {
            self.loops.insert(id, old);
        }
        result
    }

    fn replay(&mut self, stmts: &[Stmt], map: &mut ValueMap, keep: Keep) {
        let mut inner = HashSet::default();
        self.replay_inner(stmts, map, keep, &mut inner);
    }

    fn replay_inner(&mut self, stmts: &[Stmt], map: &mut ValueMap, keep: Keep, inner: &mut HashSet<Acc>) {
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    let op = self.mapped_op(map, *v);
                    let n = self.b.copy_op(op, self.src.ty(*v));
                    map.insert(*v, n);
                }
                Stmt::For { id, range, body } => {
                    let range = range.map_args(|a| self.value(map, a));
                    let (id, body) = self.in_loop(*id, |r, id| {
                        r.b.open(true);
                        r.replay_inner(body, &mut map.clone(), keep, inner);
                        (id, r.b.close())
                    });
                    self.b.push(Stmt::For { id, range, body });
                }
                Stmt::If { condition, then, otherwise } => {
                    let condition = self.value(map, *condition);
                    let mut branch = |r: &mut Self, stmts| {
                        r.b.open(false);
                        r.replay_inner(stmts, &mut map.clone(), keep, inner);
                        r.b.close()
                    };
                    let then = branch(self, then);
                    let otherwise = branch(self, otherwise);
                    self.b.push(Stmt::If { condition, then, otherwise });
                }
                s => {
                    let acc = s.acc();
                    if let Some(m) = acc.filter(|_| s.is_declaration()) {
                        inner.insert(m);
                        let fresh = self.b.new_acc();
                        self.accs.insert(m, fresh);
                    }
                    if keep == Keep::All || acc.is_some_and(|m| inner.contains(&m)) {
                        let s = s.map_args(|v| self.value(map, v));
                        let s = match acc {
                            Some(m) => s.with_acc(self.acc(m)),
                            None => s,
                        };
                        self.b.push(s);
                    }
                }
            }
        }
    }

    fn add(&mut self, key: Key, a: Val) {
        if let Key::Value(v) = key
            && (matches!(self.src.op(v), Op::Const(_)) || self.src.ty(v) != Type::Real)
        {
            return;
        }
        let known = self.adjoints.last().and_then(|m| m.get(&key)).copied();
        let sum = known.map_or(a, |k| self.b.real_op(Op::Add(k, a)));
        self.adjoints.last_mut().expect("a block is open").insert(key, sum);
    }

    /// `with_sums`: loops also add to the accumulators that the forward pass fills.
    fn reverse(&mut self, stmts: &[Stmt], map: &mut ValueMap, with_sums: bool) {
        for s in stmts.iter().rev() {
            match s {
                Stmt::Let(v) => {
                    let key = Key::Value(*v);
                    if let Some(a) = self.adjoints.last_mut().and_then(|m| m.remove(&key)) {
                        self.reverse_value(*v, a, map);
                    }
                }
                Stmt::Accumulate(m, v) => {
                    for a in self.sum_adjoints(*m) {
                        self.add(Key::Value(*v), a);
                    }
                }
                Stmt::Declare(m, v) => {
                    if let Some(a) = self.adjoints.last_mut().and_then(|k| k.remove(&Key::Sum(*m))) {
                        self.add(Key::Value(*v), a);
                    }
                }
                // A maximum and its place have no derivative: a loop of its own finds them again.
                Stmt::DeclareBest(..) | Stmt::Raise { .. } => {}
                // Sums over channels begin at 0, and all reads of the adjoint come later.
                Stmt::DeclareChannels(..) => {}
                Stmt::AccumulateChannel { sum, channel, value } => {
                    if let Some(adjoint) = self.channel_adjoints.get(sum).copied() {
                        let channel = self.value(map, *channel);
                        let a = self.b.emit(Op::ReadChannel(adjoint, channel), Type::Real);
                        self.add(Key::Value(*value), a);
                    }
                }
                Stmt::Store { param, role, component, channel, value } => {
                    let row = self.b.emit(Op::Row, Type::Index(self.kernel.index));
                    let channel = channel.map(|c| self.value(map, c));
                    let role = role.with(Role::COTANGENT);
                    let (param, row, component) = (*param, Some(row), *component);
                    let a = self.b.real_op(Op::Load { param, role, row, component, channel });
                    self.add(Key::Value(*value), a);
                }
                Stmt::Contribute { param, role, row, component, channel, value } => {
                    let (row, channel) =
                        (row.map(|r| self.value(map, r)), channel.map(|c| self.value(map, c)));
                    let (param, role, component) = (*param, role.with(Role::COTANGENT), *component);
                    let a = self.b.real_op(Op::Load { param, role, row, component, channel });
                    self.add(Key::Value(*value), a);
                }
                Stmt::For { id, range, body } => {
                    let range = range.map_args(|a| self.value(map, a));
                    let (id, body, outer) = self.in_loop(*id, |r, id| {
                        let (body, outer) = r.block(body, map, true, with_sums);
                        (id, body, outer)
                    });
                    self.declare(&outer);
                    self.b.push(Stmt::For { id, range, body });
                    self.collect(outer, |_, a| a);
                }
                Stmt::If { condition, then, otherwise } => {
                    let condition = self.value(map, *condition);
                    let (then, if_so) = self.block(then, map, false, with_sums);
                    let (otherwise, if_not) = self.block(otherwise, map, false, with_sums);
                    self.declare(&if_so);
                    self.declare(&if_not);
                    self.b.push(Stmt::If { condition, then, otherwise });
                    // Selected, so that products with values that the branch guarded against are 0, too.
                    let zero = self.b.real(0.0);
                    self.collect(if_so, |b, a| b.real_op(Op::Select(condition, a, zero)));
                    self.collect(if_not, |b, a| b.real_op(Op::Select(condition, zero, a)));
                }
                s => s.refuse_without_adjoint(),
            }
        }
    }

    /// The adjoints of a sum that later reads left in the open blocks.
    fn sum_adjoints(&self, m: Acc) -> Vec<Val> {
        self.adjoints.iter().filter_map(|k| k.get(&Key::Sum(m)).copied()).collect()
    }

    /// The adjoint of a sum over channels, declared before everything that is open.
    fn channel_adjoint(&mut self, sum: Acc) -> Acc {
        if let Some(adjoint) = self.channel_adjoints.get(&sum) {
            return *adjoint;
        }
        let adjoint = self.b.new_acc();
        self.channel_adjoints.insert(sum, adjoint);
        self.b.push_at(0, Stmt::DeclareChannels(adjoint, self.channels[&sum]));
        adjoint
    }

    fn declare(&mut self, outer: &[(Key, Acc)]) {
        let zero = self.b.real(0.0);
        for (_, m) in outer {
            self.b.push(Stmt::Declare(*m, zero));
        }
    }

    fn collect(&mut self, outer: Vec<(Key, Acc)>, selected: impl Fn(&mut Body, Val) -> Val) {
        for (key, m) in outer {
            let a = self.b.emit(Op::Read(m), Type::Real);
            let a = selected(&mut self.b, a);
            self.add(key, a);
        }
    }

    /// Replays and reverses a block; adjoints of values from outside of the block come back as accumulators.
    fn block(
        &mut self,
        stmts: &[Stmt],
        map: &ValueMap,
        is_loop: bool,
        with_sums: bool,
    ) -> (Vec<Stmt>, Vec<(Key, Acc)>) {
        self.b.open(is_loop);
        let mut map = map.clone();
        let keep = if with_sums { Keep::All } else { Keep::Inner };
        self.replay(stmts, &mut map, keep);
        self.adjoints.push(BTreeMap::new());
        self.reverse(stmts, &mut map, false);
        let rest = self.adjoints.pop().expect("pushed above");
        let outer = rest
            .into_iter()
            .map(|(key, a)| {
                let m = self.b.new_acc();
                self.b.push(Stmt::Accumulate(m, a));
                (key, m)
            })
            .collect();
        (self.b.close(), outer)
    }

    fn reverse_value(&mut self, v: Val, a: Val, map: &ValueMap) {
        match self.src.op(v) {
            Op::Load { param, role, row, component, channel } => {
                if is_differentiable(self.kernel, *param) {
                    let row = row.map(|r| self.value(map, r));
                    let channel = channel.map(|c| self.value(map, c));
                    let role = role.with(Role::COTANGENT);
                    let (param, component) = (*param, *component);
                    self.b.push(Stmt::Contribute { param, role, row, component, channel, value: a });
                }
            }
            Op::ReadChannel(m, c) => {
                let (sum, channel) = (self.channel_adjoint(*m), self.value(map, *c));
                self.b.push(Stmt::AccumulateChannel { sum, channel, value: a });
            }
            Op::Read(m) => self.add(Key::Sum(*m), a),
            Op::Select(c, x, y) => {
                let (x, y) = (*x, *y);
                let (c, zero) = (self.value(map, *c), self.b.real(0.0));
                let ax = self.b.real_op(Op::Select(c, a, zero));
                let ay = self.b.real_op(Op::Select(c, zero, a));
                self.add(Key::Value(x), ax);
                self.add(Key::Value(y), ay);
            }
            op => {
                let mut args = vec![];
                match op {
                    Op::Own { args: own, .. } => args.extend(own),
                    op => op.for_each_arg(|x| args.push(x)),
                }
                let (mapped, value) = (self.mapped_op(map, v), self.value(map, v));
                for (by, partial) in partials(&mut self.b, &mapped, value) {
                    let at = args.iter().position(|x| self.value(map, *x) == by);
                    let x = args.remove(at.expect("a partial derivative is by an argument"));
                    let term = self.b.real_op(Op::Mul(a, partial));
                    self.add(Key::Value(x), term);
                }
            }
        }
    }
}
