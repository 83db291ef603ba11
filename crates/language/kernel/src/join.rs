//! Loops over the same nodes of a mesh that follow one another become one: a value and its gradient visit each node once.

use crate::ir::{Acc, Body, LoopId, Stmt, Val, walk};
use crate::print::nest::is_over_nodes;
use crate::rewrite::rewrite_stmts;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

/// The body with such loops joined.
pub(crate) fn joined(src: &Body) -> Body {
    let mut join = Join { b: src, into: HashMap::default() };
    let stmts = join.block(src.stmts());
    if join.into.is_empty() {
        return src.clone();
    }
    let mut body = rewrite_stmts(src, &stmts, &mut |b, _, op, ty| {
        let op = match op.of_loop().and_then(|l| join.into.get(&l)) {
            Some(kept) => op.with_loop(*kept),
            None => op,
        };
        b.copy_op(op, ty)
    });
    body.remove_unused();
    body
}

struct Join<'a> {
    b: &'a Body,
    /// Loops that are gone, and those that run their bodies.
    into: HashMap<LoopId, LoopId>,
}

/// Values and sums that some statements make and use.
#[derive(Default)]
struct Effects {
    defined: HashSet<Val>,
    used: HashSet<Val>,
    fed: HashSet<Acc>,
    read: HashSet<Acc>,
}

impl Effects {
    fn of<'s>(b: &Body, stmts: impl IntoIterator<Item = &'s Stmt>) -> Self {
        let mut e = Self::default();
        for s in stmts.into_iter().flat_map(|s| walk(std::slice::from_ref(s))) {
            b.for_each_use(s, |v| _ = e.used.insert(v));
            match s {
                Stmt::Let(v) => {
                    e.defined.insert(*v);
                    e.read.extend(b.op(*v).of_acc());
                }
                s => e.fed.extend(s.acc()),
            }
        }
        e
    }

    /// Whether these statements need what others do before them.
    fn needs(&self, before: &Self) -> bool {
        !self.used.is_disjoint(&before.defined) || !self.read.is_disjoint(&before.fed)
    }

    /// Whether the order of two groups of statements is of no matter, but for that of terms in a sum.
    fn commutes(&self, other: &Self) -> bool {
        !self.needs(other) && !other.needs(self)
    }

    fn extend(&mut self, other: Self) {
        self.defined.extend(other.defined);
        self.used.extend(other.used);
        self.fed.extend(other.fed);
        self.read.extend(other.read);
    }
}

impl Join<'_> {
    fn block(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let mut done: Vec<Stmt> = vec![];
        for s in stmts {
            match s {
                Stmt::For { id, range, body } if is_over_nodes(self.b, *range) => {
                    let same = done
                        .iter()
                        .rposition(|s| matches!(s, Stmt::For { range: other, .. } if other == range));
                    if !same.is_some_and(|at| self.append(&mut done, at, *id, body)) {
                        let body = self.block(body);
                        done.push(Stmt::For { id: *id, range: *range, body });
                    }
                }
                Stmt::For { id, range, body } => {
                    let body = self.block(body);
                    done.push(Stmt::For { id: *id, range: *range, body });
                }
                Stmt::If { condition, then, otherwise } => {
                    let [then, otherwise] = [then, otherwise].map(|block| self.block(block));
                    done.push(Stmt::If { condition: *condition, then, otherwise });
                }
                s => done.push(s.clone()),
            }
        }
        done
    }

    /// Appends the body of a loop to that of the loop at a position, if what stands between may be ahead of both or behind
    /// both; whether it may.
    fn append(&mut self, done: &mut Vec<Stmt>, at: usize, id: LoopId, body: &[Stmt]) -> bool {
        let of = |s: &Stmt| Effects::of(self.b, [s]);
        let (first, second) = (of(&done[at]), Effects::of(self.b, body));
        // What needs the first loop is behind it.
        let (mut behind, mut late, mut early) = (Effects::default(), vec![], vec![]);
        for s in &done[at + 1..] {
            let effects = of(s);
            if effects.needs(&first) || !effects.commutes(&behind) {
                behind.extend(effects);
                late.push(s.clone());
            } else if first.needs(&effects) {
                return false;
            } else {
                early.push(s.clone());
            }
        }
        if !second.commutes(&first) || !second.commutes(&behind) {
            return false;
        }
        done.truncate(at + 1);
        let Some(Stmt::For { id: kept, range, body: inner }) = done.pop() else { unreachable!("a loop") };
        self.into.insert(id, kept);
        let body = self.block(&[inner, body.to_vec()].concat());
        done.extend(early);
        done.push(Stmt::For { id: kept, range, body });
        done.extend(late);
        true
    }
}
