//! Rows on lanes: parts whose rows do not loop over data.

use super::super::{Compare, Instruction as I, Program};
use super::Lowering;
use crate::ir::{Kernel, LoopId, Stmt, Val};
use crate::mirror::Part;
use crate::print::layout::{Array, Layout};
use crate::print::rust::rows::{ahead, layout, meshes, often};

/// The number of the loop over rows: no other loop has it.
const ROWS: LoopId = LoopId::MAX;

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
            l.emit(I::Lines { begin, stop, from, to, shape, body });
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
        self.on_lanes(ROWS, rows, stmts, Default::default());
    }
}
