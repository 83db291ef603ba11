//! The first phase of a cluster form: runs of one row against clusters of columns at one image.

use super::layout::Layout;
use super::rust::{Lanes, Printer, outside_values, pointers};
use crate::cluster::Clusters;
use crate::ir::{Acc, Body, Kernel, Op, Stmt, Val};
use madelung_kernel_abi::ClusterArray;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

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
pub fn layout_of_rows(kernel: &Kernel, clusters: &Clusters, of_part: &Layout) -> Layout {
    let (slots, reductions) = (of_part.slots.clone(), of_part.reductions.clone());
    Layout { slots, reductions, ..Layout::new(kernel, &clusters.part) }
}

/// The function `name` in Rust, given the layout of the part that the form is of.
pub fn function(kernel: &Kernel, clusters: &Clusters, of_part: &Layout, name: &str) -> String {
    let phase = Phase::new(kernel, clusters, of_part);
    let mut p = Printer::new(kernel, &clusters.pair.body, &phase.layout);
    p.clusters = Some(clusters);
    let (columns, sums) = (clusters.packed.len(), clusters.sums.len());
    p.line("for run in lo..hi {");
    p.line("let run = &*runs.add(run);");
    p.line("let row = run.row as usize;");
    p.line(&format!("let mine = packed.add((run.cluster as usize * {columns}) * L::N + run.lane as usize);"));
    for v in &phase.of_run {
        p.let_whole(*v);
    }
    p.lanes = Some(Lanes {
        id: clusters.loop_id,
        full: true,
        varying: phase.varying.clone(),
        inner: BTreeSet::new(),
        sums: BTreeSet::new(),
        rows_loaded: HashSet::default(),
    });
    for v in outside_values(p.b, &phase.of_entry) {
        p.line(&format!("let u{v} = L::splat(v{v});"));
    }
    for (v, j) in &phase.joined {
        p.line(&format!("let j{v} = L::splat(v{} {} v{});", j.first, j.sign, j.second));
    }
    for s in &clusters.sums {
        p.line(&format!("let mut m{} = 0.0f64;", s.row));
    }
    p.line("let (mut k, end) = (run.start as usize, run.end as usize);");
    p.line("while k < end {");
    p.line("let stop = end.min(k.saturating_add(L::FLUSH));");
    for s in &clusters.sums {
        p.line(&format!("let mut l{} = L::splat(0.0);", s.row));
    }
    // Two entries side by side, statement by statement: the chain from a distance to a force is long, and the second
    // fills the waits of the first.
    for entries in [&["", "_next"][..], &[""]] {
        p.line(&format!("while k + {} <= stop {{", entries.len()));
        step(&mut p, clusters, &phase, entries);
        p.line("}");
    }
    for s in &clusters.sums {
        p.line(&format!("m{0} += l{0}.sum();", s.row));
    }
    p.line("}");
    p.line(&format!("let to = sums.add((run.cluster as usize * {sums}) * L::N + run.lane as usize);"));
    for (n, s) in clusters.sums.iter().enumerate() {
        p.line(&format!("*to.add({n} * L::N) += m{};", s.row));
    }
    p.line("}");
    let mut head = pointers(kernel, of_part, "L::Elem");
    for (array, name, ty) in [
        (ClusterArray::Packed, "packed", "*mut L::Elem"),
        (ClusterArray::Columns, "columns", "*mut L::Elem"),
        (ClusterArray::Sums, "sums", "*mut f64"),
        (ClusterArray::Runs, "runs", "*const rt::ClusterRun"),
        (ClusterArray::Entries, "entries", "*const rt::ClusterEntry"),
    ] {
        let place = array.behind(of_part.slots.len());
        writeln!(head, "let {name} = a.pointers[{place}] as {ty};").expect("a string");
    }
    format!(
        "#[inline(always)]\nunsafe fn {name}<L: rt::Lane>(a: &rt::LaunchAbi, lo: usize, hi: usize, _partials: *mut f64) \
         {{\n// SAFETY: `rt::LaunchAbi` is made by the backend alone: as for the part, and with room for every cluster \
         that runs\n// and entries name, which is this call's own.\nunsafe {{\n{head}{}}}\n}}\n",
        p.out
    )
}

/// A step over several entries: their pairs, then their sums one after the other, since two may be of one cluster.
fn step(p: &mut Printer<'_>, clusters: &Clusters, phase: &Phase, entries: &[&'static str]) {
    let (columns, sums) = (clusters.packed.len(), clusters.sums.len());
    for (n, entry) in entries.iter().enumerate() {
        p.line(&format!("let entry{entry} = &*entries.add(k + {n});"));
        p.line(&format!(
            "let theirs{entry} = packed.add(entry{entry}.cluster as usize * ({columns} * L::N));"
        ));
    }
    p.line(&format!("k += {};", entries.len()));
    let outside = std::mem::replace(&mut p.paired, vec![HashSet::default()]);
    for v in phase.values() {
        for entry in entries {
            p.entry = entry;
            if let Some(j) = phase.joined.get(&v) {
                let x = p.real(j.varying);
                let text = if j.from_it { format!("{x} - j{v}") } else { format!("j{v} - {x}") };
                p.line(&format!("let v{v}{entry} = {text};"));
            } else if let Some(text) = p.lane_expr(v, p.b.op(v)) {
                p.line(&format!("let v{v}{entry} = {text};"));
            }
        }
    }
    let additions = phase.additions(clusters);
    for entry in entries {
        p.entry = entry;
        p.line(&format!("let onto{entry} = columns.add(entry{entry}.cluster as usize * ({sums} * L::N));"));
        p.line(&format!("let active = L::bits(entry{entry}.mask);"));
        let mut open = HashSet::default();
        for Addition { sum: m, place, to_column, value } in &additions {
            if *to_column && open.insert(*m) {
                p.line(&format!("let mut l{m} = L::load(onto{entry}.add({place} * L::N));"));
            }
            let text = added(p, &phase.layout, *value, &format!("l{m}"));
            p.line(&format!("l{m} = L::select(active, {text}, l{m});"));
        }
        for (n, s) in clusters.sums.iter().enumerate() {
            if let Some(m) = s.column {
                p.line(&format!("l{m}.store(onto{entry}.add({n} * L::N));"));
            }
        }
    }
    (p.entry, p.paired) = ("", outside);
}

/// The update of a sum by a value.
fn added(p: &Printer<'_>, layout: &Layout, v: Val, sum: &str) -> String {
    let (v, sign) = if p.varies(v) { layout.signed(p.b, v) } else { (v, '+') };
    p.added(sum, sign, v)
}
