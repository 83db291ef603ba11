//! Loops over data that a call need not run: those whose sums go to arrays that it does not ask for, as the values of a
//! gradient.

use crate::ir::{Acc, Body, LoopId, ParamId, Role, Stmt, Val, walk};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::BTreeSet;

/// The arrays that need a row's loop over data, of which one must be asked for. A loop that is not here is always needed.
pub(super) fn needed(b: &Body) -> HashMap<LoopId, BTreeSet<(ParamId, Role)>> {
    let mut found = HashMap::default();
    if b.in_order {
        return found;
    }
    for (n, s) in b.stmts().iter().enumerate() {
        // A loop may stand alone in a branch.
        let within = std::iter::successors(Some(s), |s| match s {
            Stmt::If { then, otherwise, .. } if then.len() + otherwise.len() == 1 => {
                then.iter().chain(otherwise).next()
            }
            _ => None,
        });
        if let Some(Stmt::For { id, range, body }) = within.last()
            && range.is_data()
            && let Some(arrays) = sums(body).and_then(|sums| reached(b, &b.stmts()[n + 1..], sums))
        {
            found.insert(*id, arrays);
        }
    }
    found
}

/// Sums of a loop; none if it stores or contributes besides.
fn sums(body: &[Stmt]) -> Option<BTreeSet<Acc>> {
    let is_kept = |s: &Stmt| !matches!(s, Stmt::Store { .. } | Stmt::Contribute { .. });
    walk(body).all(is_kept).then(|| walk(body).filter_map(Stmt::acc).collect())
}

/// The arrays that sums reach; none if they reach more than arrays of the row.
fn reached(b: &Body, rest: &[Stmt], mut sums: BTreeSet<Acc>) -> Option<BTreeSet<(ParamId, Role)>> {
    let (mut values, mut arrays) = (HashSet::<Val>::default(), BTreeSet::new());
    loop {
        let known = (sums.len(), values.len());
        for s in walk(rest) {
            if let Stmt::Let(v) = s {
                let op = b.op(*v);
                if op.of_acc().is_some_and(|m| sums.contains(&m)) || op.any_arg(|a| values.contains(&a)) {
                    values.insert(*v);
                }
                continue;
            }
            if !s.any_arg(|v| values.contains(&v)) {
                continue;
            }
            match s {
                Stmt::Store { param, role, .. } => _ = arrays.insert((*param, *role)),
                s => _ = sums.insert(s.acc()?),
            }
        }
        if known == (sums.len(), values.len()) {
            return (!arrays.is_empty()).then_some(arrays);
        }
    }
}
