//! Meshes: splines at coordinates, and loops over the nodes around them.

use super::{LONG, Printer};
use crate::ir::{LoopId, Op, ParamId, Stmt, Val, fed, walk};
use crate::layout::{Array, Slot, Table};
use crate::print::nest::INNERMOST;
use std::collections::BTreeMap;

impl Printer<'_> {
    /// A loop over the nodes of a spline, as many as of the highest order in the batch: nodes behind a spline's own have no
    /// weight. What is added at nodes is collected around the outermost one.
    pub(super) fn loop_over_nodes(&mut self, id: LoopId, body: &[Stmt]) {
        if self.in_nest {
            return self.inner_loop_over_nodes(id, body);
        }
        let (sums, _) = fed(body);
        let is_nest = self.divided.nests.contains(&id);
        if is_nest {
            self.only_first_lane_keeps(&sums);
        }
        let nodes = self.added_at_nodes(body);
        for (slot, (mesh, system)) in &nodes {
            let shapes = self.layout.slot(*mesh, Array::MeshShape);
            let system = self.v(*system);
            self.line(&format!("AtNodes nodes{slot}(p{slot}, p{shapes}, {system});"));
        }
        self.in_nest = true;
        if self.divided.loops.contains(&id) {
            self.divided_loop(id, body);
        } else {
            let within = self.within;
            self.within |= is_nest;
            self.inner_loop_over_nodes(id, body);
            self.within = within;
        }
        self.in_nest = false;
        let threads = self.threads();
        for slot in nodes.keys() {
            self.line(&format!("nodes{slot}.leave({threads});"));
        }
        if is_nest {
            self.add_lanes_up(&sums);
        }
    }

    fn inner_loop_over_nodes(&mut self, id: LoopId, body: &[Stmt]) {
        // Which weight it is is known where the loop is repeated, so that weights stay in registers.
        let unroll = if walk(body).count() > LONG { "#pragma unroll 1" } else { "#pragma unroll" };
        if self.divided.loops.contains(&id) {
            self.line("#pragma unroll");
            self.line(&format!("for (int n{id} = 0; n{id} < NODES_OF_LANE; ++n{id}) {{"));
            self.line(&format!("const long long k{id} = n{id} * LANES + LANE;"));
            self.line(&format!("if (k{id} >= ORDER) break;"));
        } else {
            self.line(unroll);
            self.line(&format!("for (long long k{id} = first{id}; k{id} < last{id}; ++k{id}) {{"));
        }
        self.block(body);
        self.line("}");
    }

    /// The arrays that statements add to at nodes: with the mesh, and the system whose mesh it is.
    fn added_at_nodes(&self, stmts: &[Stmt]) -> BTreeMap<usize, (ParamId, Val)> {
        let added = |s: &Stmt| match s {
            Stmt::Contribute { param, role, row: Some(row), .. } => match self.b.op(*row) {
                Op::MeshNode { mesh, system, .. } => {
                    let slot = Slot::new(*param, Array::Values(*role));
                    self.layout.nodes.contains_key(&slot).then_some((slot, (*mesh, *system)))
                }
                _ => None,
            },
            _ => None,
        };
        walk(stmts)
            .filter_map(added)
            .map(|(slot, of)| (self.layout.slot(slot.param, slot.array), of))
            .collect()
    }

    /// A table of splines that lanes share: each has the nodes that it visits.
    fn is_shared(&self, axis: usize) -> bool {
        axis == INNERMOST && !self.divided.nests.is_empty()
    }

    /// The name of a table, and a node's place in it.
    pub(super) fn node(
        &self,
        mesh: ParamId,
        system: Val,
        axis: usize,
        at: Val,
        node: Val,
    ) -> (String, String) {
        let place = match self.b.op(node) {
            Op::LoopVar(l) if self.is_shared(axis) => format!("n{l}"),
            _ => self.v(node),
        };
        (Table::name(mesh, system, axis, at), place)
    }

    /// The mesh of a system.
    pub(super) fn mesh_of(&self, mesh: ParamId, system: Val) -> String {
        format!("mesh_of(p{}, {})", self.layout.slot(mesh, Array::MeshShape), self.v(system))
    }

    /// The splines at coordinates, where a value is known.
    pub(super) fn tables(&mut self, v: Val) {
        for t in self.layout.tables.iter().filter(|t| t.known(self.b) == v) {
            let (name, mesh) = (Table::name(t.mesh, t.system, t.axis, t.at), self.mesh_of(t.mesh, t.system));
            let (at, lanes) = (self.v(t.at), if self.is_shared(t.axis) { "LANES" } else { "1" });
            self.line(&format!("const Splines<{}, {lanes}> {name}({mesh}, {}, {at});", t.orders, t.axis));
        }
    }
}
