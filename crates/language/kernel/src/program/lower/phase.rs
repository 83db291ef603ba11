//! The first phase of a cluster form, runs of one row against clusters of columns at one image, by what is of a run and what of
//! an entry.

use crate::cluster::Clusters;
use crate::ir::{Acc, Body, Kernel, Op, Stmt, Val};
use crate::layout::Layout;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::BTreeMap;

/// The work of a first phase, divided into that of each run and that of each entry.
#[derive(Debug)]
pub struct Phase {
    /// The layout of the pair, with the slots of the part: its launch is bound as for the part.
    pub layout: Layout,
    /// Values of a run.
    pub of_run: Vec<Val>,
    /// Statements of an entry.
    pub of_entry: Vec<Stmt>,
    /// The values that differ between the lanes: those that depend on the column.
    pub varying: HashSet<Val>,
    /// Differences that are taken in another order.
    pub joined: BTreeMap<Val, Joined>,
}

/// (u₁ − x) ± u₂ as (u₁ ± u₂) − x, or (x − u₁) ± u₂ as x − (u₁ ∓ u₂), where only x differs between the lanes: the sum
/// of atom and image is known outside.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    /// u₁
    pub first: Val,
    /// The sign of u₂.
    pub sign: char,
    /// u₂
    pub second: Val,
    /// x
    pub varying: Val,
    /// Whether the known part is subtracted from x.
    pub from_it: bool,
    /// The inner difference, which has no other use.
    without: Val,
}

impl Phase {
    /// The phase of a part's cluster form.
    pub fn new(kernel: &Kernel, clusters: &Clusters, of_part: &Layout) -> Self {
        let body = &clusters.pair.body;
        let layout = Layout { slots: of_part.slots.clone(), ..Layout::new(kernel, &clusters.pair) };
        let mut stmts: Vec<&Stmt> = vec![];
        for s in body.stmts() {
            match s {
                Stmt::For { body, .. } => stmts.extend(body),
                s => stmts.push(s),
            }
        }
        let mut varying = HashSet::default();
        let (mut of_run, mut of_entry) = (vec![], vec![]);
        for s in stmts {
            match s {
                Stmt::Let(v)
                    if !matches!(body.op(*v), Op::PairColumn(_))
                        && !body.op(*v).any_arg(|a| varying.contains(&a)) =>
                {
                    of_run.push(*v);
                }
                s => {
                    varying.extend(if let Stmt::Let(v) = s { Some(*v) } else { None });
                    of_entry.push(s.clone());
                }
            }
        }
        let joined = joined(body, &layout, &varying, &of_entry);
        Self { layout, of_run, of_entry, varying, joined }
    }

    /// The values of an entry that are computed by themselves: others are fused with sums, or joined.
    pub fn values(&self) -> impl Iterator<Item = Val> {
        let is_part = |v: Val| self.joined.values().any(|j| j.without == v);
        self.of_entry.iter().filter_map(move |s| match s {
            Stmt::Let(v) => {
                let within = self.layout.fused.contains(v) || self.layout.subtracted.contains(v);
                (!within && !is_part(*v)).then_some(*v)
            }
            _ => None,
        })
    }

    /// The additions of an entry to the form's sums.
    pub fn additions(&self, clusters: &Clusters) -> Vec<Addition> {
        let of = |m: Acc| {
            let is = |s: &crate::cluster::Sum| s.row == m || s.column == Some(m);
            let place = clusters.sums.iter().position(is).expect("accumulators of a pair are its sums");
            (place, clusters.sums[place].column == Some(m))
        };
        let additions = self.of_entry.iter().filter_map(|s| match s {
            Stmt::Accumulate(sum, value) => {
                let (place, to_column) = of(*sum);
                Some(Addition { sum: *sum, place, to_column, value: *value })
            }
            _ => None,
        });
        additions.collect()
    }
}

/// An addition to a sum.
#[derive(Clone, Copy, Debug)]
pub struct Addition {
    /// The accumulator.
    pub sum: Acc,
    /// Its place among the form's sums.
    pub place: usize,
    /// Whether it is the column's sum, and not the row's.
    pub to_column: bool,
    /// The summand.
    pub value: Val,
}

fn joined(b: &Body, layout: &Layout, varying: &HashSet<Val>, of_entry: &[Stmt]) -> BTreeMap<Val, Joined> {
    let uses: HashMap<Val, usize> = b.uses();
    let plain = |v: Val| varying.contains(&v) && b.constant(v).is_none();
    let is_fused = |v: Val| matches!(b.op(v), Op::Mul(..)) && layout.fused.contains(&v);
    let mut found = BTreeMap::new();
    for s in of_entry {
        let Stmt::Let(v) = s else { continue };
        let (without, second, adds) = match *b.op(*v) {
            Op::Sub(x, u) => (x, u, false),
            Op::Add(x, u) if plain(x) => (x, u, true),
            Op::Add(u, x) => (x, u, true),
            _ => continue,
        };
        let Op::Sub(x, y) = *b.op(without) else { continue };
        // A difference that is joined itself has no inner one left.
        let is_joined = found.contains_key(&without);
        if is_joined || plain(second) || uses.get(&without) != Some(&1) || b.constant(second).is_some() {
            continue;
        }
        let (first, varying, from_it) = match (plain(x), plain(y)) {
            (false, true) => (x, y, false),
            (true, false) => (y, x, true),
            _ => continue,
        };
        if b.constant(first).is_some() || is_fused(varying) {
            continue;
        }
        let sign = if adds != from_it { '+' } else { '-' };
        found.insert(*v, Joined { first, sign, second, varying, from_it, without });
    }
    found
}

/// The layout of a form's second phase: its launch is bound as for the part that the form is of.
pub(super) fn layout_of_rows(kernel: &Kernel, clusters: &Clusters, of_part: &Layout) -> Layout {
    let (slots, reductions) = (of_part.slots.clone(), of_part.reductions.clone());
    Layout { slots, reductions, ..Layout::new(kernel, &clusters.part) }
}
