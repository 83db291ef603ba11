//! Nests of loops over the nodes around a point, whose innermost axis the lanes of a row divide: nodes along it lie side by
//! side in memory, so that lanes read and add to whole lines of a mesh.
//!
//! Every lane runs the loops over the first two axes, and visits nodes of its own along the third. What a loop over the
//! third axis sums is then a lane's part of a sum; it stays one through all that is linear in it, and the parts are added up
//! once, behind the nest.

use crate::ir::{Acc, Body, LoopId, Op, Range, Stmt, Val, declared, fed, walk};
use rustc_hash::FxHashSet as HashSet;

/// The axis along which nodes lie side by side.
pub(crate) const INNERMOST: usize = 2;

/// Whether a loop goes over the nodes of a spline.
pub(crate) fn is_over_nodes(b: &Body, range: Range) -> bool {
    matches!(range, Range::Ints(_, hi) if matches!(b.op(hi), Op::SplineOrder { .. }))
}

/// The loops over nodes along the innermost axis in a nest, whose iterations lanes may share; none where the nest has none, or
/// does more with what they sum than a sum of parts allows.
pub(crate) fn innermost(b: &Body, body: &[Stmt]) -> Option<HashSet<LoopId>> {
    let (mut loops, mut others) = (HashSet::default(), HashSet::default());
    let mut note = |axis: usize, node: Val| match b.op(node) {
        Op::LoopVar(l) => {
            if axis == INNERMOST { &mut loops } else { &mut others }.insert(*l);
            true
        }
        _ => false,
    };
    for s in walk(body) {
        let Stmt::Let(v) = s else { continue };
        let is_known = match b.op(*v) {
            Op::Spline { axis, node, .. } => note(*axis, *node),
            Op::MeshNode { node, .. } => (0..3).all(|axis| note(axis, node[axis])),
            _ => true,
        };
        if !is_known {
            return None;
        }
    }
    if loops.is_empty() || !loops.is_disjoint(&others) {
        return None;
    }
    let own = declared(body).into_iter().collect();
    let mut parts = Parts { b, loops: &loops, own, values: HashSet::default(), sums: HashSet::default() };
    while parts.grow(body) {}
    parts.add_up(body).then_some(loops)
}

/// Values and sums of which a lane has a part.
struct Parts<'a> {
    b: &'a Body,
    /// The loops over the innermost axis.
    loops: &'a HashSet<LoopId>,
    /// The sums that the nest declares.
    own: HashSet<Acc>,
    values: HashSet<Val>,
    sums: HashSet<Acc>,
}

impl Parts<'_> {
    /// Finds further parts; whether there were any.
    fn grow(&mut self, stmts: &[Stmt]) -> bool {
        let mut grown = false;
        for s in stmts {
            grown |= match s {
                Stmt::Let(v) => {
                    let op = self.b.op(*v);
                    let is_part = matches!(op, Op::Read(m) if self.sums.contains(m));
                    (is_part || op.any_arg(|a| self.values.contains(&a))) && self.values.insert(*v)
                }
                Stmt::Accumulate(m, v) => self.values.contains(v) && self.sums.insert(*m),
                Stmt::For { id, body, .. } if self.loops.contains(id) => {
                    let (sums, _) = fed(body);
                    let before = self.sums.len();
                    self.sums.extend(sums);
                    self.sums.len() > before
                }
                s => s.blocks().into_iter().fold(false, |grown, block| self.grow(block) | grown),
            };
        }
        grown
    }

    /// Whether the parts of all lanes add up to what one lane would compute: what is made of parts is linear in them, and
    /// nothing else happens once for each lane.
    fn add_up(&self, stmts: &[Stmt]) -> bool {
        let is_part = |v: &Val| self.values.contains(v);
        stmts.iter().all(|s| match s {
            Stmt::Let(v) if !is_part(v) => true,
            Stmt::Let(v) => match self.b.op(*v) {
                Op::Read(m) => self.own.contains(m),
                Op::Add(x, y) | Op::Sub(x, y) => is_part(x) && is_part(y),
                Op::Mul(x, y) => is_part(x) != is_part(y),
                Op::Neg(_) => true,
                _ => false,
            },
            Stmt::Declare(m, v) => !self.sums.contains(m) || self.b.constant(*v) == Some(0.0),
            Stmt::Accumulate(m, v) => is_part(v) || (self.own.contains(m) && !self.sums.contains(m)),
            Stmt::For { id, body, .. } if self.loops.contains(id) => self.is_each_lanes_own(body),
            Stmt::For { .. } | Stmt::If { .. } => {
                !s.any_arg(|v| is_part(&v)) && s.blocks().into_iter().all(|block| self.add_up(block))
            }
            _ => false,
        })
    }

    /// Whether a lane may run iterations of a loop over the innermost axis by itself.
    fn is_each_lanes_own(&self, body: &[Stmt]) -> bool {
        let local = declared(body);
        walk(body).all(|s| match s {
            Stmt::Let(v) => {
                let op = self.b.op(*v);
                let is_own = |m: Acc| local.contains(&m) || !self.sums.contains(&m);
                op.of_acc().is_none_or(is_own) && !op.any_arg(|a| self.values.contains(&a))
            }
            Stmt::Declare(..)
            | Stmt::DeclareBest(..)
            | Stmt::Accumulate(..)
            | Stmt::Contribute { .. }
            | Stmt::If { .. } => !s.any_arg(|v| self.values.contains(&v)),
            Stmt::Raise { acc, .. } => local.contains(acc) && !s.any_arg(|v| self.values.contains(&v)),
            Stmt::For { id, .. } => !self.loops.contains(id),
            _ => false,
        })
    }
}
