//! Straightens the bodies of data loops: branches become selections of what is added, and sums that live within one
//! iteration become values. The result can run on lanes, and the mirror can exchange and share it.
//!
//! This comes after differentiation on purpose: a selection of finished terms discards all results of the branch not
//! taken, infinities and NaN included, whereas the derivative of a selection would multiply them by zero.

use crate::ir::{Acc, Body, Op, Stmt, Val, ValueMap, accumulators, walk};
use crate::rewrite::mapped;
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// The body with its data loops straightened.
pub fn flatten(src: &Body) -> Body {
    let mut f = Flatten { src, b: Body::new(Some(src)), map: ValueMap::default(), now: HashMap::default() };
    f.block(src.stmts(), false, None);
    f.b
}

/// A body without loops over data, straightened as if it stood in one: its rows can run on lanes.
pub(crate) fn straightened(src: &Body) -> Body {
    let mut f = Flatten { src, b: Body::new(Some(src)), map: ValueMap::default(), now: HashMap::default() };
    f.block(src.stmts(), true, None);
    f.b
}

struct Flatten<'a> {
    src: &'a Body,
    b: Body,
    map: ValueMap,
    /// The running value of each sum that has become one.
    now: HashMap<Acc, Val>,
}

impl Flatten<'_> {
    fn value(&mut self, v: Val) -> Val {
        mapped(self.src, &mut self.b, &self.map, v)
    }

    /// Lets a statement take effect under a condition only, by the value that it adds or offers.
    fn select(&mut self, s: &mut Stmt, condition: Val) {
        let (value, other) = match s {
            Stmt::Accumulate(_, value)
            | Stmt::AccumulateChannel { value, .. }
            | Stmt::Contribute { value, .. } => (value, 0.0),
            Stmt::Raise { value, .. } => (value, f64::MIN),
            _ => return,
        };
        let other = self.b.real(other);
        *value = self.b.real_op(Op::Select(condition, *value, other));
    }

    fn both(&mut self, outer: Option<Val>, c: Val) -> Val {
        outer.map_or(c, |o| self.b.op_value(Op::And(o, c)))
    }

    /// `inside`: within a data loop; `condition`: under which the statements take effect there.
    fn block(&mut self, stmts: &[Stmt], inside: bool, condition: Option<Val>) {
        let in_inner_loops: BTreeSet<Acc> = walk(stmts)
            .filter_map(|s| if let Stmt::For { body, .. } = s { Some(accumulators(body)) } else { None })
            .flatten()
            .collect();
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    let n = match self.src.op(*v) {
                        Op::Read(m) if self.now.contains_key(m) => self.now[m],
                        op => {
                            let op = op.map_args(|a| self.value(a));
                            self.b.copy_op(op, self.src.ty(*v))
                        }
                    };
                    self.map.insert(*v, n);
                }
                Stmt::For { id, range, body } => {
                    let range = range.map_args(|a| self.value(a));
                    self.b.open(true);
                    self.block(body, inside || range.is_data(), condition);
                    let body = self.b.close();
                    self.b.push(Stmt::For { id: *id, range, body });
                }
                Stmt::If { condition: c, then, otherwise } if inside => {
                    let c = self.value(*c);
                    let when = self.both(condition, c);
                    self.block(then, true, Some(when));
                    if !otherwise.is_empty() {
                        let not = self.b.op_value(Op::Not(c));
                        let when = self.both(condition, not);
                        self.block(otherwise, true, Some(when));
                    }
                }
                Stmt::If { condition: c, then, otherwise } => {
                    let condition = self.value(*c);
                    self.b.open(false);
                    self.block(then, false, None);
                    let then = self.b.close();
                    self.b.open(false);
                    self.block(otherwise, false, None);
                    let otherwise = self.b.close();
                    self.b.push(Stmt::If { condition, then, otherwise });
                }
                s => {
                    let mut s = s.map_args(|v| self.value(v));
                    if let Some(condition) = condition {
                        self.select(&mut s, condition);
                    }
                    match s {
                        Stmt::Declare(m, x) if inside && !in_inner_loops.contains(&m) => {
                            self.now.insert(m, x);
                        }
                        Stmt::Accumulate(m, x) if self.now.contains_key(&m) => {
                            let sum = self.b.real_op(Op::Add(self.now[&m], x));
                            self.now.insert(m, sum);
                        }
                        s => self.b.push_sum(s),
                    }
                }
            }
        }
    }
}
