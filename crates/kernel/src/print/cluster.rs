//! The first phase of a cluster form as Rust: runs of one row against clusters of columns at one image.

use super::layout::Layout;
use super::rust::{Lanes, Printer, outside_values, pointers};
use crate::cluster::Clusters;
use crate::ir::{Acc, Body, Kernel, Op, ParamId, Role, Stmt, Val};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;

/// The function `name`, given the layout of the part that the form is of: its launch is bound as for the part.
pub fn function(kernel: &Kernel, clusters: &Clusters, of_part: &Layout, name: &str) -> String {
    let body = &clusters.pair.body;
    let mut layout = Layout::new(kernel, &clusters.pair);
    layout.slots.clone_from(&of_part.slots);
    let mut p = Printer::new(kernel, body, &layout);
    p.clusters = Some(clusters);
    let (columns, sums) = (clusters.packed.len(), clusters.sums.len());
    let mut stmts: Vec<&Stmt> = vec![];
    for s in body.stmts() {
        match s {
            Stmt::For { body, .. } => stmts.extend(body),
            s => stmts.push(s),
        }
    }
    let varying = varying(body, &stmts);
    p.line("for run in lo..hi {");
    p.line("let run = &*piece.runs.add(run);");
    p.line("let row = run.row as usize;");
    p.line(&format!("let mine = packed.add((run.cluster as usize * {columns}) * L::N + run.lane as usize);"));
    let mut inner = vec![];
    for s in stmts {
        match s {
            Stmt::Let(v) if !varying.contains(v) => p.let_whole(*v),
            s => inner.push(s.clone()),
        }
    }
    p.lanes = Some(Lanes {
        id: clusters.loop_id,
        full: true,
        varying,
        inner: BTreeSet::new(),
        sums: BTreeSet::new(),
        rows_loaded: HashSet::new(),
    });
    let joined = joined(&p, &inner);
    for v in outside_values(p.b, &inner) {
        p.line(&format!("let u{v} = L::splat(v{v});"));
    }
    for (v, j) in &joined {
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
        step(&mut p, clusters, &layout, &inner, &joined, entries);
        p.line("}");
    }
    for s in &clusters.sums {
        p.line(&format!("m{0} += l{0}.sum();", s.row));
    }
    p.line("}");
    p.line(&format!(
        "let sums = piece.sums.add((run.cluster as usize * {sums}) * L::N + run.lane as usize);"
    ));
    for (n, s) in clusters.sums.iter().enumerate() {
        p.line(&format!("*sums.add({n} * L::N) += m{};", s.row));
    }
    p.line("}");
    let mut head = pointers(kernel, of_part, "L::Elem");
    writeln!(head, "let packed = piece.packed as *mut L::Elem;").expect("a string");
    writeln!(head, "let columns = piece.columns as *mut L::Elem;").expect("a string");
    format!(
        "#[inline(always)]\nunsafe fn {name}<L: rt::Lane>(a: &rt::LaunchAbi, piece: &rt::ClusterPiece, lo: usize, hi: \
         usize) {{\n// SAFETY: `rt::LaunchAbi` and `rt::ClusterPiece` are made by the backend alone: the first as for the \
         part,\n// the second with room for every cluster that its runs and entries name; it is this call's own.\n\
         unsafe {{\n{head}{}}}\n}}\n",
        p.out
    )
}

/// (u₁ − x) ± u₂ as (u₁ ± u₂) − x, or (x − u₁) ± u₂ as x − (u₁ ∓ u₂), where only x differs between the lanes: the sum
/// of atom and image is known outside.
struct Joined {
    first: Val,
    sign: char,
    second: Val,
    varying: Val,
    /// Whether the known part is subtracted from `varying`.
    from_it: bool,
    /// The inner difference, which has no other use.
    without: Val,
}

fn joined(p: &Printer<'_>, inner: &[Stmt]) -> BTreeMap<Val, Joined> {
    let uses = p.b.uses();
    let plain = |v: Val| p.varies(v) && p.b.constant(v).is_none();
    let mut found = BTreeMap::new();
    for s in inner {
        let Stmt::Let(v) = s else { continue };
        let (without, second, adds) = match *p.b.op(*v) {
            Op::Sub(x, u) => (x, u, false),
            Op::Add(x, u) if plain(x) => (x, u, true),
            Op::Add(u, x) => (x, u, true),
            _ => continue,
        };
        let Op::Sub(x, y) = *p.b.op(without) else { continue };
        if plain(second) || uses.get(&without) != Some(&1) || p.b.constant(second).is_some() {
            continue;
        }
        let (first, varying, from_it) = match (plain(x), plain(y)) {
            (false, true) => (x, y, false),
            (true, false) => (y, x, true),
            _ => continue,
        };
        if p.b.constant(first).is_some() || p.is_fused(varying).is_some() {
            continue;
        }
        let sign = if adds != from_it { '+' } else { '-' };
        found.insert(*v, Joined { first, sign, second, varying, from_it, without });
    }
    found
}

/// A step over several entries: their pairs, then their sums one after the other, since two may be of one cluster.
fn step(
    p: &mut Printer<'_>,
    clusters: &Clusters,
    layout: &Layout,
    inner: &[Stmt],
    joined: &BTreeMap<Val, Joined>,
    entries: &[&'static str],
) {
    let (columns, sums) = (clusters.packed.len(), clusters.sums.len());
    let place = |m: Acc| clusters.sums.iter().position(|s| s.row == m || s.column == Some(m));
    let is_column = |m: Acc| clusters.sums.iter().any(|s| s.column == Some(m));
    for (n, entry) in entries.iter().enumerate() {
        p.line(&format!("let entry{entry} = &*piece.entries.add(k + {n});"));
        p.line(&format!(
            "let theirs{entry} = packed.add(entry{entry}.cluster as usize * ({columns} * L::N));"
        ));
    }
    p.line(&format!("k += {};", entries.len()));
    let outside = std::mem::replace(&mut p.paired, vec![HashSet::new()]);
    for s in inner {
        let Stmt::Let(v) = s else { continue };
        let part_of_another = joined.values().any(|j| j.without == *v);
        if layout.fused.contains(v) || layout.subtracted.contains(v) || part_of_another {
            continue;
        }
        for entry in entries {
            p.entry = entry;
            if let Some(j) = joined.get(v) {
                let x = p.real(j.varying);
                let text = if j.from_it { format!("{x} - j{v}") } else { format!("j{v} - {x}") };
                p.line(&format!("let v{v}{entry} = {text};"));
            } else if let Some(text) = p.lane_expr(*v, p.b.op(*v)) {
                p.line(&format!("let v{v}{entry} = {text};"));
            }
        }
    }
    for entry in entries {
        p.entry = entry;
        p.line(&format!("let sums{entry} = columns.add(entry{entry}.cluster as usize * ({sums} * L::N));"));
        p.line(&format!("let active = L::bits(entry{entry}.mask);"));
        let mut open = HashSet::new();
        for s in inner {
            let Stmt::Accumulate(m, v) = s else { continue };
            let n = place(*m).expect("every accumulator of a pair is one of the sums");
            if is_column(*m) && open.insert(*m) {
                p.line(&format!("let mut l{m} = L::load(sums{entry}.add({n} * L::N));"));
            }
            let text = added(p, layout, *v, &format!("l{m}"));
            p.line(&format!("l{m} = L::select(active, {text}, l{m});"));
        }
        for (n, s) in clusters.sums.iter().enumerate() {
            if let Some(m) = s.column {
                p.line(&format!("l{m}.store(sums{entry}.add({n} * L::N));"));
            }
        }
    }
    (p.entry, p.paired) = ("", outside);
}

/// The values that differ between the lanes: those that depend on the column.
fn varying(b: &Body, stmts: &[&Stmt]) -> HashSet<Val> {
    let mut varying = HashSet::new();
    for s in stmts {
        if let Stmt::Let(v) = s
            && (matches!(b.op(*v), Op::PairColumn(_)) || b.op(*v).any_arg(|a| varying.contains(&a)))
        {
            varying.insert(*v);
        }
    }
    varying
}

/// The update of a sum by a value.
fn added(p: &Printer<'_>, layout: &Layout, v: Val, sum: &str) -> String {
    let (v, sign) = if p.varies(v) { layout.signed(p.b, v) } else { (v, '+') };
    p.added(sum, sign, v)
}

impl Printer<'_> {
    /// The place of a column's element of a map among what lies packed in clusters, as integers.
    pub(super) fn packed_element(&self, map: ParamId, row: Val) -> Option<usize> {
        self.clusters?.place(map, Role::VALUE, 0).filter(|_| matches!(self.b.op(row), Op::PairColumn(_)))
    }

    /// The place of an atom's component among those that lie packed in clusters.
    pub(super) fn packed(&self, v: Val) -> Option<usize> {
        let of_atom = |row: Val| matches!(self.b.op(row), Op::Row | Op::PairColumn(_));
        match *self.b.op(v) {
            Op::Load { param, role, row: Some(row), component, .. } if of_atom(row) => {
                self.clusters?.place(param, role, component)
            }
            Op::LoadInt { param, row, component } if of_atom(row) => {
                self.clusters?.place(param, Role::VALUE, component)
            }
            _ => None,
        }
    }
}
