//! Meshes: tables of splines, nodes, and the planes that a call adds to.

use super::super::{Combine, Field, Instruction as I, MAX_ORDERS, Shape, Table};
use super::{Lanes, Lowering, OnLanes, Single};
use crate::ir::{Body, LoopId, OfWave, Op, ParamId, Range, Stmt, Val, accumulators, declared, fed, walk};
use crate::layout::{Array, Layout, Table as Splines};
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// Whether the rows of a part loop over nodes of a mesh, and not over data.
pub(super) fn is_alone(b: &Body) -> bool {
    let is_data = |s: &Stmt| matches!(s, Stmt::For { range, .. } if range.is_data());
    b.ops().any(|op| matches!(op, Op::MeshNode { .. })) && !b.walk().any(is_data)
}

/// Whether a row does nothing but add to nodes around the point of which these are the splines along the first axis: a
/// row that reaches no plane of this call is then left before them.
fn is_only_point(b: &Body, layout: &Layout, t: Splines) -> bool {
    let mut points = b.ops().filter_map(|op| match op {
        Op::MeshNode { mesh, system, at, .. } => Some((*mesh, *system, at[0])),
        _ => None,
    });
    let is_known = [t.system, t.at].iter().all(|v| b.depth_of(*v) == 0);
    let is_first = layout.planes == Some(t.mesh) && t.axis == 0 && b.constant(t.at).is_none();
    is_first && is_known && points.all(|p| p == (t.mesh, t.system, t.at))
}

/// The loop along the third axis in a loop over the nodes around a point, where its nodes can be on lanes: for these
/// all sums of the loops stay on lanes until the last node.
fn along(b: &Body, s: &Stmt) -> Option<LoopId> {
    let Stmt::For { id, range: Range::Ints(_, hi), body } = s else { return None };
    if !matches!(b.op(*hi), Op::SplineOrder { .. }) {
        return None;
    }
    let mut loops = body.iter().filter(|s| matches!(s, Stmt::For { .. }));
    let Some(within) = loops.next() else {
        return body.iter().all(|s| is_of_nodes(b, s, *id)).then_some(*id);
    };
    let is_simple =
        |s: &Stmt| matches!(s, Stmt::Let(_) | Stmt::Declare(..) | Stmt::Accumulate(..) | Stmt::For { .. });
    if loops.next().is_some() || !body.iter().all(is_simple) { None } else { along(b, within) }
}

/// Whether nodes that lie side by side can do this at once.
fn is_of_nodes(b: &Body, s: &Stmt, along: LoopId) -> bool {
    let varies = |v: Val| *b.op(v) == Op::LoopVar(along);
    let is_node = |v: Val| matches!(b.op(v), Op::MeshNode { .. });
    match s {
        Stmt::Let(v) => match b.op(*v) {
            Op::MeshNode { node: [x, y, z], .. } => varies(*z) && !varies(*x) && !varies(*y),
            Op::Load { row: Some(row), channel, .. } => {
                channel.is_none() && (is_node(*row) || b.depth_of(*row) == 0)
            }
            op => !matches!(op, Op::LoadInt { .. } | Op::IndexOf { .. } | Op::FromInt(_)),
        },
        Stmt::Declare(..) | Stmt::Accumulate(..) => true,
        Stmt::Contribute { row: Some(row), channel: None, .. } => is_node(*row),
        _ => false,
    }
}

/// The plane of a node, where calls add to planes of their own: its mesh and system, and the coordinate and the node along
/// the first axis.
type Plane = (ParamId, Val, Val, Val);

/// The plane of a node, where calls have planes of their own.
fn plane(b: &Body, layout: &Layout, row: Val) -> Option<Plane> {
    let Op::MeshNode { mesh, system, at, node } = b.op(row) else { return None };
    layout.planes.map(|_| (*mesh, *system, at[0], node[0]))
}

/// For a loop over the planes around a point that does nothing but add to nodes: the plane whose call runs a turn of it, and
/// the value that is the loop's variable.
fn owned_planes(b: &Body, layout: &Layout, id: LoopId, body: &[Stmt]) -> Option<(Plane, Val)> {
    let mut planes = BTreeSet::new();
    let mut carries = !accumulators(body).is_subset(&declared(body));
    for s in walk(body) {
        let Stmt::Contribute { row: Some(row), .. } = s else { continue };
        match b.op(*row) {
            Op::MeshNode { node, .. } if *b.op(node[0]) == Op::LoopVar(id) => {
                planes.insert(plane(b, layout, *row));
            }
            _ => carries = true,
        }
    }
    let owned = planes.pop_first().flatten().filter(|_| planes.is_empty() && !carries)?;
    let variable = body.iter().find_map(|s| match s {
        Stmt::Let(v) if *b.op(*v) == Op::LoopVar(id) => Some(*v),
        _ => None,
    });
    Some((owned, variable?))
}

impl<'a> Lowering<'a> {
    /// A value of a mesh, its nodes and its waves, outside of lanes.
    pub(super) fn mesh_op(&mut self, v: Val) -> Single {
        let of_shape = |l: &mut Self, mesh, system, n| {
            let (shape, to) = (l.shapes[&(mesh, system)], l.new_integer());
            l.emit(I::ShapeNumber { shape, n, to });
            Single::Int(to)
        };
        match *self.b.op(v) {
            Op::SplineOrder { mesh, system } => of_shape(self, mesh, system, 3),
            Op::MeshSize { mesh, system, axis } => of_shape(self, mesh, system, axis),
            Op::Spline { mesh, system, axis, at, node, derivative } => {
                let table = self.tables[&(mesh, system, axis, at)];
                let (node, to) = (self.int(node), self.new_scalar());
                self.emit(I::Weight { table, derivative, node, to });
                Single::Real(to)
            }
            Op::MeshNode { mesh, system, at, node } => {
                let shape = self.shapes[&(mesh, system)];
                let tables = [0, 1, 2]
                    .map(|axis| Some((self.tables[&(mesh, system, axis, at[axis])], self.int(node[axis]))));
                let to = self.new_integer();
                self.emit(I::Node { shape, tables, to });
                Single::Int(to)
            }
            Op::Wave { of: OfWave::Index(axis), .. } if self.rows.is_some() => {
                let to = self.new_scalar();
                self.emit(I::LineIndex { axis, to });
                Single::Real(to)
            }
            Op::Wave { mesh, system, row, of } => {
                let (shape, wave) = (self.looked_up(mesh, system), self.int(row));
                let field = match of {
                    OfWave::Index(axis) => Field::Index(axis),
                    OfWave::Count => Field::Count,
                    OfWave::Modulus => Field::Modulus(self.slot(mesh, Array::MeshModuli)),
                };
                let to = self.new_scalar();
                self.emit(I::Wave { field, shape, wave, to });
                Single::Real(to)
            }
            ref op => unreachable!("no value of a mesh: {op:?}"),
        }
    }

    /// The mesh of a system.
    fn looked_up(&mut self, mesh: ParamId, system: Val) -> Shape {
        let (slot, system) = (self.slot(mesh, Array::MeshShape), self.int(system));
        self.mesh_of(slot, system)
    }

    pub(super) fn mesh_of(&mut self, slot: usize, system: super::Integer) -> Shape {
        let to = Shape(self.register(super::Class::Shape));
        self.emit(I::Mesh { slot, system, to });
        to
    }

    /// The mesh of a system and the splines at coordinates, where a value is known.
    pub(super) fn meshes(&mut self, v: Val) {
        let layout = self.layout;
        for (mesh, system) in layout.meshes.iter().filter(|(_, system)| *system == v) {
            let found = self.looked_up(*mesh, *system);
            self.shapes.insert((*mesh, *system), found);
        }
        for table in layout.tables.iter().filter(|t| t.known(self.b) == v) {
            self.table(*table);
        }
    }

    /// The splines at a coordinate. A row that does nothing but add to nodes around it is left where it
    /// reaches no plane of this call.
    fn table(&mut self, t: Splines) {
        let (shape, at) = (self.shapes[&(t.mesh, t.system)], self.scalar(t.at));
        if is_only_point(self.b, self.layout, t) {
            let (reaches, leaves) = (self.new_condition(), self.new_condition());
            self.emit(I::Reaches { shape, at, to: reaches });
            self.emit(I::Not { x: reaches, to: leaves });
            self.emit(I::If { condition: leaves, then: vec![I::NextRow], otherwise: vec![] });
        }
        assert!(t.orders <= MAX_ORDERS, "splines are differentiated twice at the most");
        let to = Table(self.register(super::Class::Table));
        self.emit(I::Splines { shape, axis: t.axis, orders: t.orders, at, to });
        self.tables.insert((t.mesh, t.system, t.axis, t.at), to);
    }

    /// A loop over the nodes around a point, with those along the third axis on lanes.
    pub(super) fn nodes_on_lanes(&mut self, s: &'a Stmt) -> bool {
        let Some(along) = along(self.b, s).filter(|_| self.nodes && self.lanes.is_none()) else {
            return false;
        };
        let nest = std::slice::from_ref(s);
        self.splat_outside(nest);
        let (sums, _) = fed(nest);
        let sums = self.clear_sums(&sums);
        let mut lanes = Lanes::new(along, declared(nest));
        (lanes.within, lanes.sums) = (false, sums.clone());
        self.lanes = Some(lanes);
        let outside = std::mem::replace(&mut self.paired, vec![HashMap::default()]);
        self.stmt(s);
        self.paired = outside;
        self.lanes = None;
        for (m, x) in sums {
            let (to, sum) = (self.new_scalar(), self.sums[&m]);
            self.emit(I::Total { x, to });
            self.emit(I::Combine { op: Combine::Add, x: sum, y: to, to: sum });
        }
        true
    }

    /// The loop along the third axis, on lanes.
    pub(super) fn along_axis(&mut self, id: LoopId, order: Val, body: &'a [Stmt]) {
        let (from, to, variable) = (self.integer(0), self.int(order), self.new_integer());
        self.variables.insert(id, variable);
        self.set_within(true);
        self.begin();
        self.block(body);
        let body = self.end();
        self.set_within(false);
        self.emit(I::Lanes { variable, from, end: to, single: false, entries: None, body });
    }

    fn set_within(&mut self, within: bool) {
        self.lanes.as_mut().expect("inside a loop over nodes").within = within;
    }

    /// Operations of nodes that lie side by side; `None` for ops that are those of other lanes.
    pub(super) fn node_value(&mut self, op: &Op) -> Option<OnLanes> {
        Some(match *op {
            Op::Spline { mesh, system, axis, at, derivative, .. } => {
                let table = self.tables[&(mesh, system, axis, at)];
                let to = self.new_vector();
                self.emit(I::Weights { table, derivative, to });
                OnLanes::Real(to)
            }
            Op::MeshNode { mesh, system, at, node } => {
                let shape = self.shapes[&(mesh, system)];
                let [x, y] = [0, 1]
                    .map(|axis| Some((self.tables[&(mesh, system, axis, at[axis])], self.int(node[axis]))));
                let to = self.new_integer();
                self.emit(I::Node { shape, tables: [x, y, None], to });
                OnLanes::Line(to)
            }
            Op::Load { param, role, row: Some(row), component, .. } => {
                let (slot, stride) = self.array(param, role);
                let (line, along) = self.nodes_of(row)?;
                let to = self.new_vector();
                self.emit(I::NodeLoad { slot, line, along, stride, component, to });
                OnLanes::Real(to)
            }
            _ => return None,
        })
    }

    /// Nodes that lie side by side: the first node of their line, and the splines along it.
    fn nodes_of(&self, row: Val) -> Option<(super::Integer, Table)> {
        let Op::MeshNode { mesh, system, at, .. } = *self.b.op(row) else { return None };
        match self.on_lanes.get(&row) {
            Some(OnLanes::Line(line)) => Some((*line, self.tables[&(mesh, system, 2, at[2])])),
            _ => None,
        }
    }

    /// Adds to nodes that lie side by side, where this call does.
    pub(super) fn add_to_nodes(
        &mut self,
        row: Val,
        (slot, stride): (usize, usize),
        component: usize,
        value: Val,
    ) {
        let Some((line, along)) = self.nodes_of(row) else { return };
        let x = self.real(value);
        self.where_owned(row, I::NodeAdd { slot, line, along, stride, component, x });
    }

    /// An addition to a node, where it is this call's to make.
    pub(super) fn where_owned(&mut self, row: Val, add: I) {
        match plane(self.b, self.layout, row) {
            None => self.emit(add),
            Some(plane) => {
                let condition = self.in_planes(plane);
                self.emit(I::If { condition, then: vec![add], otherwise: vec![] });
            }
        }
    }

    fn in_planes(&mut self, (mesh, system, at, node): Plane) -> super::Condition {
        let (shape, table) = (self.shapes[&(mesh, system)], self.tables[&(mesh, system, 0, at)]);
        let (node, to) = (self.int(node), self.new_condition());
        self.emit(I::InPlanes { shape, table, node, to });
        to
    }

    /// For a loop that skips planes of other calls: whether this call has the turn's.
    pub(super) fn own_planes(&mut self, id: LoopId, body: &[Stmt]) -> Option<super::Condition> {
        let (plane, v) = owned_planes(self.b, self.layout, id, body)?;
        self.values.insert(v, Single::Int(self.variables[&id]));
        Some(self.in_planes(plane))
    }
}
