//! Rows on lanes: parts whose rows do not loop over data run several rows at once, in f64. What belongs to the system of a
//! chunk is computed once, ahead of its rows; what belongs to a line of waves, once a line.

use super::super::{Compare, Instruction as I, Program};
use super::Lowering;
use crate::flatten::straightened;
use crate::ir::{Body, Kernel, LoopId, OfWave, Op, ParamId, Range, Stmt, Val};
use crate::layout::{Array, Layout};
use crate::mirror::Part;
use rustc_hash::FxHashMap as HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The number of the loop over rows: no other loop has it.
const ROWS: LoopId = LoopId::MAX;

/// Frequency of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Often {
    /// Once for all rows of a call, which are of one system.
    Once,
    /// Once for each line of waves.
    Lines,
    /// For each row.
    Rows,
}

/// The body of a part whose rows can be on lanes, with its branches straightened.
pub(super) fn on_lanes(part: &Part, layout: &Layout) -> Option<Part> {
    let is_barred = layout.loops || layout.places || part.body.in_order;
    if is_barred || !layout.widths.is_empty() || part.body.walk().any(is_bar) {
        return None;
    }
    let part = Part { index: part.index, body: straightened(&part.body) };
    let often = often(&part.body);
    let varies = |v: &Val| often.get(v) == Some(&Often::Rows);
    let fits = |s: &Stmt| match s {
        Stmt::For { range, .. } => {
            let mut same = true;
            range.for_each_arg(|v| same &= !varies(&v));
            same
        }
        Stmt::Let(v) => match part.body.op(*v) {
            Op::IndexOf { row, .. } | Op::Wave { row, .. } => *part.body.op(*row) == Op::Row,
            _ => true,
        },
        _ => true,
    };
    let is_one = meshes(&part.body).len() < 2;
    (is_one && often.values().any(|o| *o == Often::Rows) && part.body.walk().all(fits)).then_some(part)
}

/// Statements that rows on lanes do not have.
fn is_bar(s: &Stmt) -> bool {
    match s {
        Stmt::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).any(|s| matches!(s, Stmt::Store { .. }))
        }
        Stmt::For { range, .. } => !matches!(range, Range::Ints(..)),
        Stmt::DeclareBest(..) | Stmt::Raise { .. } => true,
        _ => false,
    }
}

/// Frequency of each value of a part with rows on lanes.
fn often(b: &Body) -> HashMap<Val, Often> {
    let mut often: HashMap<Val, Often> = HashMap::default();
    for s in b.walk() {
        let Stmt::Let(v) = s else { continue };
        let op = b.op(*v);
        let mut of_args = Often::Once;
        op.for_each_arg(|a| of_args = of_args.max(often.get(&a).copied().unwrap_or(Often::Once)));
        let of = match op {
            Op::Row => Often::Rows,
            op if op.is_system() => Often::Once,
            Op::Wave { of: OfWave::Index(0 | 1), .. } => Often::Lines,
            op if op.of_acc().is_some() => Often::Rows,
            _ => of_args,
        };
        often.insert(*v, of);
    }
    often
}

/// The layout of rows on lanes, whose launch is that of the part.
fn layout(kernel: &Kernel, part: &Part, of_part: &Layout) -> Layout {
    let (slots, reductions) = (of_part.slots.clone(), of_part.reductions.clone());
    let mut layout = Layout { slots, reductions, ..Layout::new(kernel, part) };
    // Whether a product is the only one to use its factors depends on what else the part computes. Outside of loops none is
    // fused with a sum, so energies have the same bits alone and beside gradients.
    for s in part.body.stmts() {
        if let Stmt::Let(v) = s {
            layout.fused.remove(v);
        }
    }
    layout
}

/// Values of the own block of a part with rows on lanes that are known ahead of its rows: once, and once a line.
fn ahead(b: &Body, often: &HashMap<Val, Often>) -> [Vec<Val>; 2] {
    [Often::Once, Often::Lines].map(|of| {
        let of = |s: &Stmt| if let Stmt::Let(v) = s { Some(*v).filter(|v| often[v] == of) } else { None };
        b.stmts().iter().filter_map(of).collect()
    })
}

/// The meshes whose waves the rows are.
fn meshes(b: &Body) -> BTreeSet<ParamId> {
    b.ops().filter_map(|op| if let Op::Wave { mesh, .. } = op { Some(*mesh) } else { None }).collect()
}

/// The program of a part whose rows are on lanes, given the layout of the part as it was.
pub(super) fn lower(kernel: &Kernel, part: &Part, of_part: &Layout) -> Program {
    let layout = layout(kernel, part, of_part);
    let (b, often) = (&part.body, often(&part.body));
    let [once, lines] = ahead(b, &often);
    let mut l = Lowering::new(kernel, b, &layout);
    l.program.wide = true;
    l.rows = Some((often, once.iter().chain(&lines).copied().collect()));
    for _ in &layout.reductions {
        let to = l.new_one();
        l.emit(I::Fill { x: 0.0, to });
        l.reductions_on_lanes.push(to);
    }
    let ([from, to], condition) = (l.program.rows, l.new_condition());
    l.emit(I::CompareIntegers { op: Compare::Lt, x: from, y: to, to: condition });
    l.begin();
    l.row = from;
    l.ahead(&once);
    match meshes(b).pop_first() {
        None => l.all_rows((from, to), b.stmts()),
        Some(mesh) => {
            let slot = l.slot(mesh, Array::MeshShape);
            let system = l.new_integer();
            l.emit(I::WaveSystem { slot, wave: from, to: system });
            let shape = l.mesh_of(slot, system);
            let [begin, stop] = [l.new_integer(), l.new_integer()];
            l.begin();
            l.ahead(&lines);
            l.all_rows((begin, stop), b.stmts());
            let body = l.end();
            l.emit(I::Lines { begin, stop, from, end: to, shape, body });
        }
    }
    for (n, x) in l.reductions_on_lanes.clone().into_iter().enumerate() {
        let to = l.new_scalar();
        l.emit(I::Total { x, to });
        l.emit(I::Partial { n, x: to });
    }
    let then = l.end();
    l.emit(I::If { condition, then, otherwise: vec![] });
    l.done()
}

impl<'a> Lowering<'a> {
    /// Values that all rows have in common, as scalars and on lanes.
    fn ahead(&mut self, values: &[Val]) {
        for v in values {
            self.let_whole(*v);
            self.let_splat(*v);
        }
    }

    fn all_rows(&mut self, rows: (super::Integer, super::Integer), stmts: &'a [Stmt]) {
        let (variable, body) = self.turn_on_lanes(ROWS, stmts, BTreeMap::new(), &BTreeMap::new());
        self.emit(I::Lanes { variable, from: rows.0, end: rows.1, single: false, entries: None, body });
    }
}
