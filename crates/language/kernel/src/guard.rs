//! Loops over data that need not run: where a condition from outside decides whether any of their terms counts, the loop
//! stands in a branch of that condition.

use crate::ir::{Acc, Body, Op, Stmt, Val, declared, walk};
use rustc_hash::FxHashMap as HashMap;

/// Conditions, each with the outcome without which a value is 0; None: it is 0 in any case.
type Needs = Option<Vec<(Val, bool)>>;

/// The body with a branch around each outermost loop over data whose terms are 0 unless a condition from outside holds.
/// This pass comes last: transposes and clusters look for loops that stand in no branch.
pub(crate) fn guarded(src: &Body) -> Body {
    let mut body = src.clone();
    let stmts = src.stmts().iter().cloned().map(|s| match &s {
        Stmt::For { range, body, .. } if range.is_data() => {
            let needs = needs(src, body).unwrap_or_default();
            needs.into_iter().fold(s, |s, (condition, holds)| match holds {
                true => Stmt::If { condition, then: vec![s], otherwise: vec![] },
                false => Stmt::If { condition, then: vec![], otherwise: vec![s] },
            })
        }
        _ => s,
    });
    body.set_stmts(stmts.collect());
    body
}

/// Conditions that all terms of a loop need; none where the loop does more than adding terms.
fn needs(b: &Body, body: &[Stmt]) -> Needs {
    let (mut known, mut sums): (HashMap<Val, Needs>, HashMap<Acc, Needs>) = Default::default();
    let inner = declared(body);
    let mut all = None;
    for s in walk(body) {
        let of = |known: &HashMap<Val, Needs>, v: Val| match b.constant(v) {
            Some(0.0) => None,
            _ => known.get(&v).cloned().unwrap_or_else(|| outside(b, b.unless(v))),
        };
        match *s {
            Stmt::Let(v) => {
                let needs = match *b.op(v) {
                    Op::Read(m) if inner.contains(&m) => sums.get(&m).cloned().flatten(),
                    Op::Mul(x, y) => either(of(&known, x), of(&known, y)),
                    Op::Add(x, y) | Op::Sub(x, y) => both(of(&known, x), of(&known, y)),
                    Op::Neg(x) => of(&known, x),
                    Op::Select(c, x, y) => both(
                        either(of(&known, x), outside(b, &[(c, true)])),
                        either(of(&known, y), outside(b, &[(c, false)])),
                    ),
                    _ => Some(vec![]),
                };
                known.insert(v, needs);
            }
            Stmt::Declare(m, v) => _ = sums.insert(m, of(&known, v)),
            Stmt::Accumulate(m, v) if inner.contains(&m) => {
                let needs = both(sums.remove(&m).flatten(), of(&known, v));
                sums.insert(m, needs);
            }
            Stmt::Accumulate(_, v) | Stmt::AccumulateChannel { value: v, .. } => {
                all = both(all, of(&known, v))
            }
            Stmt::Contribute { row, value, .. } => match row.map(|r| b.op(r)) {
                // Written, whatever it is.
                Some(Op::PairEntry(_)) => return Some(vec![]),
                _ => all = both(all, of(&known, value)),
            },
            Stmt::For { .. } => {}
            _ => return Some(vec![]),
        }
    }
    all
}

/// Needs of a sum of two values.
fn both(x: Needs, y: Needs) -> Needs {
    match (x, y) {
        (None, of) | (of, None) => of,
        (Some(x), Some(y)) => Some(x.into_iter().filter(|c| y.contains(c)).collect()),
    }
}

/// Needs of a product.
fn either(x: Needs, y: Needs) -> Needs {
    let (mut x, y) = (x?, y?);
    for c in y {
        if !x.contains(&c) {
            x.push(c);
        }
    }
    Some(x)
}

/// Conditions from outside of loops that follow from others.
fn outside(b: &Body, conditions: &[(Val, bool)]) -> Needs {
    let (mut open, mut found) = (conditions.to_vec(), vec![]);
    while let Some((c, holds)) = open.pop() {
        match *b.op(c) {
            _ if b.depth_of(c) == 0 => found.push((c, holds)),
            Op::And(x, y) if holds => open.extend([(x, true), (y, true)]),
            Op::Or(x, y) if !holds => open.extend([(x, false), (y, false)]),
            Op::Not(x) => open.push((x, !holds)),
            _ => {}
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}
