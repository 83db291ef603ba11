//! Code around loops over a mesh: tables of splines, nodes, and the planes that a call adds to.

use super::Printer;
use crate::ir::{LoopId, OfWave, Op, Stmt, Val, accumulators, declared, walk};
use crate::print::layout::{Array, Table};
use std::collections::BTreeSet;

impl Printer<'_> {
    /// A value of a mesh, its nodes and its waves.
    pub(super) fn mesh_op(&self, op: &Op) -> String {
        use Op::*;
        match *op {
            SplineOrder(mesh) => format!("g{}[3] as i64", self.layout.slot(mesh, Array::MeshShape)),
            MeshSize(mesh, axis) => format!("g{}[{axis}] as i64", self.layout.slot(mesh, Array::MeshShape)),
            Spline { mesh, axis, at, node, derivative } => {
                let (table, node) = (Table::name(mesh, axis, at), self.scalar(node));
                format!("{table}.weight({derivative}, {node})")
            }
            MeshNode { mesh, system, at, node } => {
                let index = [0, 1, 2].map(|axis| {
                    format!("{}.index({})", Table::name(mesh, axis, at[axis]), self.scalar(node[axis]))
                });
                let shape = self.layout.slot(mesh, Array::MeshShape);
                format!("rt::mesh_node(&g{shape}, {}, [{}])", self.scalar(system), index.join(", "))
            }
            Wave { mesh, row, of } => {
                let (shape, row) = (self.layout.slot(mesh, Array::MeshShape), self.scalar(row));
                match of {
                    OfWave::Index(axis) if self.rows.is_some() => format!("line.index({axis})"),
                    OfWave::Index(axis) => format!("rt::wave_index(&g{shape}, {row}, {axis})"),
                    OfWave::Count => format!("rt::wave_count(&g{shape}, {row})"),
                    OfWave::Modulus => {
                        let moduli = self.layout.slot(mesh, Array::MeshModuli);
                        format!("rt::wave_modulus(&g{shape}, p{moduli}, {row})")
                    }
                }
            }
            ref op => unreachable!("no value of a mesh: {op:?}"),
        }
    }

    /// The splines at a coordinate, where it is known.
    pub(super) fn table(&mut self, t: Table) {
        let (name, shape) = (Table::name(t.mesh, t.axis, t.at), self.layout.slot(t.mesh, Array::MeshShape));
        let at = self.scalar(t.at);
        self.line(&format!("let {name} = rt::Splines::<{}>::new(&g{shape}, {}, {at});", t.orders, t.axis));
    }

    /// Whether this call adds to a node, where calls have planes of their own.
    pub(super) fn owned(&self, row: Val) -> Option<String> {
        let Op::MeshNode { mesh, system, at, node } = self.b.op(row) else { return None };
        let shape = self.layout.slot(self.layout.planes?, Array::MeshShape);
        let (table, system) = (Table::name(*mesh, 0, at[0]), self.scalar(*system));
        Some(format!("rt::in_planes(&g{shape}, {system}, {table}.index({}))", self.scalar(node[0])))
    }

    /// For a loop over the planes around a point that does nothing but add to nodes: whether this call adds to those of
    /// a plane.
    fn owned_planes(&self, id: LoopId, body: &[Stmt]) -> Option<String> {
        let mut conditions = BTreeSet::new();
        let mut carries = !accumulators(body).is_subset(&declared(body));
        for s in walk(body) {
            let Stmt::Contribute { row: Some(row), .. } = s else { continue };
            match self.b.op(*row) {
                Op::MeshNode { node, .. } if *self.b.op(node[0]) == Op::LoopVar(id) => {
                    conditions.insert(self.owned(*row));
                }
                _ => carries = true,
            }
        }
        conditions.pop_first().flatten().filter(|_| conditions.is_empty() && !carries)
    }

    /// The head of a loop's body that skips planes of other calls.
    pub(super) fn skip_planes(&mut self, id: LoopId, body: &[Stmt]) {
        let Some(owned) = self.owned_planes(id, body) else { return };
        let plane = body.iter().find_map(|s| match s {
            Stmt::Let(v) if *self.b.op(*v) == Op::LoopVar(id) => Some(*v),
            _ => None,
        });
        if let Some(v) = plane {
            self.line(&format!("let v{v} = k{id};\nif !{owned} {{ continue; }}"));
        }
    }
}
