//! Code around loops over a mesh: tables of splines, nodes, and the planes that a call adds to.

use super::{Lanes, Printer, outside_values};
use crate::ir::{Body, LoopId, OfWave, Op, ParamId, Range, Stmt, Val, accumulators, declared, fed, walk};
use crate::print::layout::{Array, Layout, Table};
use rustc_hash::FxHashSet as HashSet;
use std::collections::BTreeSet;

/// Whether the rows of a part loop over nodes of a mesh, and not over data.
pub fn is_alone(b: &Body) -> bool {
    let is_data = |s: &Stmt| matches!(s, Stmt::For { range, .. } if range.is_data());
    b.ops().any(|op| matches!(op, Op::MeshNode { .. })) && !b.walk().any(is_data)
}

/// The name of the mesh of a system in printed code.
fn mesh_of(mesh: ParamId, system: Val) -> String {
    format!("g{mesh}_{system}")
}

/// Whether a row does nothing but add to nodes around the point of which these are the splines along the first axis: a
/// row that reaches no plane of this call is then left before them.
pub fn is_only_point(b: &Body, layout: &Layout, t: Table) -> bool {
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
pub fn along(b: &Body, s: &Stmt) -> Option<LoopId> {
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
pub type Plane = (ParamId, Val, Val, Val);

/// The plane of a node, where calls have planes of their own.
pub fn plane(b: &Body, layout: &Layout, row: Val) -> Option<Plane> {
    let Op::MeshNode { mesh, system, at, node } = b.op(row) else { return None };
    layout.planes.map(|_| (*mesh, *system, at[0], node[0]))
}

/// For a loop over the planes around a point that does nothing but add to nodes: the plane whose call runs a turn of it, and
/// the value that is the loop's variable.
pub fn owned_planes(b: &Body, layout: &Layout, id: LoopId, body: &[Stmt]) -> Option<(Plane, Val)> {
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

impl<'a> Printer<'a> {
    /// A value of a mesh, its nodes and its waves.
    pub(super) fn mesh_op(&self, op: &Op) -> String {
        use Op::*;
        match *op {
            SplineOrder { mesh, system } => format!("{}[3] as i64", mesh_of(mesh, system)),
            MeshSize { mesh, system, axis } => format!("{}[{axis}] as i64", mesh_of(mesh, system)),
            Spline { mesh, system, axis, at, node, derivative } => {
                let (table, node) = (Table::name(mesh, system, axis, at), self.scalar(node));
                format!("{table}.weight({derivative}, {node})")
            }
            MeshNode { mesh, system, at, node } => {
                let index = [0, 1, 2].map(|axis| {
                    format!(
                        "{}.index({})",
                        Table::name(mesh, system, axis, at[axis]),
                        self.scalar(node[axis])
                    )
                });
                format!("rt::mesh_node(&{}, [{}])", mesh_of(mesh, system), index.join(", "))
            }
            Wave { of: OfWave::Index(axis), .. } if self.rows.is_some() => format!("line.index({axis})"),
            Wave { mesh, system, row, of } => {
                let (mesh_of, row) = (self.looked_up(mesh, system), self.scalar(row));
                match of {
                    OfWave::Index(axis) => format!("rt::wave_index(&{mesh_of}, {row}, {axis})"),
                    OfWave::Count => format!("rt::wave_count(&{mesh_of}, {row})"),
                    OfWave::Modulus => {
                        let moduli = self.layout.slot(mesh, Array::MeshModuli);
                        format!("rt::wave_modulus(&{mesh_of}, p{moduli}, {row})")
                    }
                }
            }
            ref op => unreachable!("no value of a mesh: {op:?}"),
        }
    }

    /// The mesh of a system.
    fn looked_up(&self, mesh: ParamId, system: Val) -> String {
        format!("rt::mesh_of(p{}, {})", self.layout.slot(mesh, Array::MeshShape), self.scalar(system))
    }

    /// The mesh of a system and the splines at coordinates, where a value is known.
    pub(super) fn meshes(&mut self, v: Val) {
        for (mesh, system) in self.layout.meshes.iter().filter(|(_, system)| *system == v) {
            let found = self.looked_up(*mesh, *system);
            self.line(&format!("let {} = {found};", mesh_of(*mesh, *system)));
        }
        for table in self.layout.tables.iter().filter(|t| t.known(self.b) == v) {
            self.table(*table);
        }
    }

    /// The splines at a coordinate.
    fn table(&mut self, t: Table) {
        let (name, mesh) = (Table::name(t.mesh, t.system, t.axis, t.at), mesh_of(t.mesh, t.system));
        let at = self.scalar(t.at);
        if is_only_point(self.b, self.layout, t) {
            self.line(&format!("if !rt::reaches(&{mesh}, {at}) {{ continue; }}"));
        }
        self.line(&format!(
            "let {name} = rt::Splines::<{}>::new::<L::Rows>(&{mesh}, {}, {at});",
            t.orders, t.axis
        ));
    }

    /// A loop over the nodes around a point, with those along the third axis on lanes.
    pub(super) fn nodes(&mut self, s: &'a Stmt) -> bool {
        let Some(along) = along(self.b, s).filter(|_| self.wide && self.lanes.is_none()) else {
            return false;
        };
        let nest = std::slice::from_ref(s);
        self.line("{");
        for v in outside_values(self.b, nest) {
            self.line(&format!("let u{v} = L::splat(v{v});"));
        }
        let (sums, _) = fed(nest);
        for m in &sums {
            self.line(&format!("let mut l{m} = L::splat(0.0);"));
        }
        self.lanes = Some(Lanes {
            id: along,
            full: true,
            varying: HashSet::default(),
            inner: declared(nest),
            sums: sums.clone(),
            rows_loaded: HashSet::default(),
        });
        let outside = std::mem::replace(&mut self.paired, vec![HashSet::default()]);
        self.stmt(s);
        self.paired = outside;
        self.lanes = None;
        for m in &sums {
            self.line(&format!("m{m} += l{m}.sum();"));
        }
        self.line("}");
        true
    }

    /// The loop along the third axis, on lanes.
    pub(super) fn along_axis(&mut self, id: LoopId, order: &str, body: &'a [Stmt]) {
        self.line(&format!("let mut k{id} = 0usize;\nwhile k{id} < {order} as usize {{"));
        self.line(&format!("let n = L::N.min({order} as usize - k{id});\nlet active = L::first(n);"));
        self.whole_lanes(false);
        self.block(body);
        self.whole_lanes(true);
        self.line(&format!("k{id} += L::N;\n}}"));
    }

    fn whole_lanes(&mut self, full: bool) {
        self.lanes.as_mut().expect("inside a loop over nodes").full = full;
    }

    /// Operations of nodes that lie side by side; `None` for ops that are those of other lanes.
    pub(super) fn node_expr(&self, op: &Op) -> Option<String> {
        let k = self.lanes.as_ref()?.id;
        Some(match *op {
            Op::Spline { mesh, system, axis, at, derivative, .. } => {
                format!("{}.weights::<L>({derivative}, k{k})", Table::name(mesh, system, axis, at))
            }
            Op::MeshNode { mesh, system, at, node } => {
                let index = [0, 1].map(|axis| {
                    format!(
                        "{}.index({})",
                        Table::name(mesh, system, axis, at[axis]),
                        self.scalar(node[axis])
                    )
                });
                format!("rt::mesh_node(&{}, [{}, 0])", mesh_of(mesh, system), index.join(", "))
            }
            Op::Load { param, role, row: Some(row), component, .. } => {
                let (slot, stride) = self.array(param, role);
                let (orders, at) = self.nodes_of(row)?;
                format!("rt::node_load::<E, L, {orders}>(p{slot}, {at}, ({stride}, {component}))")
            }
            _ => return None,
        })
    }

    /// Nodes that lie side by side: the functions tabulated along the axis, and the arguments that name the nodes.
    fn nodes_of(&self, row: Val) -> Option<(usize, String)> {
        let Op::MeshNode { mesh, system, at, .. } = *self.b.op(row) else { return None };
        let is_along = |t: &&Table| (t.mesh, t.system, t.axis, t.at) == (mesh, system, 2, at[2]);
        let table = self.layout.tables.iter().find(is_along)?;
        let k = self.lanes.as_ref()?.id;
        Some((table.orders, format!("(v{row}, &{}), (k{k}, n)", Table::name(mesh, system, 2, at[2]))))
    }

    /// Adds to nodes that lie side by side, where this call does.
    pub(super) fn add_to_nodes(
        &mut self,
        row: Val,
        (slot, stride): (usize, usize),
        component: usize,
        value: Val,
    ) {
        let Some((orders, at)) = self.nodes_of(row) else { return };
        let x = self.real(value);
        let add = format!("rt::node_add::<L, {orders}>(p{slot}, {at}, ({stride}, {component}), {x});");
        match self.owned(row) {
            Some(owned) => self.line(&format!("if {owned} {{ {add} }}")),
            None => self.line(&add),
        }
    }

    /// Whether this call adds to a node, where calls have planes of their own.
    pub(super) fn owned(&self, row: Val) -> Option<String> {
        plane(self.b, self.layout, row).map(|plane| self.in_planes(plane))
    }

    fn in_planes(&self, (mesh, system, at, node): Plane) -> String {
        let (table, shape) = (Table::name(mesh, system, 0, at), mesh_of(mesh, system));
        format!("rt::in_planes(&{shape}, {table}.index({}))", self.scalar(node))
    }

    /// The head of a loop's body that skips planes of other calls.
    pub(super) fn skip_planes(&mut self, id: LoopId, body: &[Stmt]) {
        if let Some((plane, v)) = owned_planes(self.b, self.layout, id, body) {
            let owned = self.in_planes(plane);
            self.line(&format!("let v{v} = k{id};\nif !{owned} {{ continue; }}"));
        }
    }
}
