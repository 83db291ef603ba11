//! Values on lanes.

use super::super::{Combine, Compare, Field, Fused, Instruction as I, IntegerOp, Mask, Pair, Unary, Vector};
use super::{Lowering, OnLanes, rows::Often};
use crate::ir::{OfWave, Op, Range, Role, Type, Val};
use crate::layout::Array;

impl Lowering<'_> {
    pub(super) fn let_lanes(&mut self, v: Val) {
        let op = self.b.op(v).clone();
        let lanes = self.lanes.as_ref().expect("inside a loop on lanes");
        let varies = match &self.rows {
            Some((_, ahead)) if ahead.contains(&v) => return,
            Some((often, _)) => often[&v] == Often::Rows,
            None => {
                op.of_loop() == Some(lanes.id)
                    || op.of_acc().is_some_and(|m| lanes.inner.contains(&m))
                    || op.any_arg(|a| lanes.varying.contains(&a))
            }
        };
        if !varies {
            // The same on all lanes: scalar code, and a copy on lanes for whoever needs it.
            let lanes = self.lanes.take();
            self.let_whole(v);
            self.lanes = lanes;
            self.let_splat(v);
            return;
        }
        self.lanes.as_mut().expect("inside a loop on lanes").varying.insert(v);
        if self.layout.fused.contains(&v) || self.layout.subtracted.contains(&v) {
            return;
        }
        if let Some(x) = self.lane_value(v, &op) {
            self.on_lanes.insert(v, x);
        }
    }

    /// A copy on lanes of a value that is the same on all of them.
    pub(super) fn let_splat(&mut self, v: Val) {
        if self.b.ty(v) == Type::Real && self.b.constant(v).is_none() {
            self.splat(v);
        }
    }

    pub(super) fn is_fused(&self, v: Val) -> Option<(Val, Val)> {
        match *self.b.op(v) {
            Op::Mul(x, y) if self.layout.fused.contains(&v) && self.varies(v) => Some((x, y)),
            _ => None,
        }
    }

    /// One of two functions that share their work, where both are needed.
    fn pair(&mut self, v: Val) -> Option<Vector> {
        let (x, pair, which) = self.layout.pair(self.b, v)?;
        if let Some(both) = self.paired.iter().find_map(|p| p.get(&(x, pair))) {
            return Some(both[which]);
        }
        Some(self.new_pair(x, pair)[which])
    }

    fn new_pair(&mut self, x: Val, pair: Pair) -> [Vector; 2] {
        let (of, to) = (self.real(x), [self.new_vector(), self.new_vector()]);
        self.emit(I::PairLanes { of: pair, x: of, to });
        self.paired.last_mut().expect("a block is open").insert((x, pair), to);
        to
    }

    /// Code for a value that varies; none for the variable of the loop itself, and what is as good.
    pub(super) fn lane_value(&mut self, v: Val, op: &Op) -> Option<OnLanes> {
        use Op::*;
        let id = self.lanes.as_ref()?.id;
        if let Some(x) = self.of_columns(v) {
            return Some(x);
        }
        if let Some(x) = self.pair(v) {
            return Some(OnLanes::Real(x));
        }
        if self.rows.is_some()
            && let Some(x) = self.row_value(op)
        {
            return Some(x);
        }
        if self.nodes
            && let Some(x) = self.node_value(op)
        {
            return Some(x);
        }
        Some(OnLanes::Real(match *op {
            LoopVar(_) | Row => return None,
            PairColumn(_) if self.run.is_some() => return None,
            PairEntry(_) if !self.transposed(id) => return None,
            PairEntry(_) => return Some(OnLanes::Index(self.load_entries(id))),
            PairColumn(_) => return Some(self.load_indices(self.list_slot(id, Array::Column))),
            PairRow(_) => return Some(self.load_indices(self.list_slot(id, Array::PairRow))),
            IndexOf { param, array, row } => {
                let slot = self.slot(param, array);
                let index = match self.b.op(row) {
                    PairEntry(_) if self.transposed(id) => self.load_entries(id),
                    LoopVar(_) | PairEntry(_) => return Some(self.load_indices(slot)),
                    _ => self.indices(row),
                };
                let to = self.new_indices();
                self.emit(I::Lookup { slot, index, to });
                return Some(OnLanes::Index(to));
            }
            Place(_) if self.transposed(id) => {
                let rows = self.new_indices();
                self.emit(I::LoadIndices { slot: self.list_slot(id, Array::PairRow), to: rows });
                let (entries, to) = (self.load_entries(id), self.new_vector());
                self.emit(I::PlacesIn { starts: self.list_slot(id, Array::Start), rows, entries, to });
                to
            }
            Place(_) => {
                let (first, to) = (self.firsts[&id], self.new_vector());
                self.emit(I::Places { first, to });
                to
            }
            PairShift(_, c) => self.shifts(id)[c],
            ReadChannel(m, _) => {
                let (slot, to) = (self.layout.scratch(m), self.new_vector());
                self.emit(I::LoadChannels { slot, first: None, to });
                to
            }
            Load { param, role, row: Some(row), component, channel: Some(c) } if !self.is_lane(c) => {
                self.gather_from_table((param, role, component), row, c)
            }
            Load { param, role, row, component, channel: Some(c) } => {
                let first = row.map(|row| self.first_of_row(row, c));
                let ((slot, stride), to) = (self.array(param, role), self.new_vector());
                self.emit(match stride {
                    1 => I::LoadChannels { slot, first, to },
                    _ => I::LoadLanes { slot, first, stride, component, to },
                });
                to
            }
            Load { param, role, row: Some(row), component, .. } => {
                self.lane_load(self.array(param, role), row, component)
            }
            LoadInt { param, row, component } => {
                self.lane_load_ints(self.array(param, Role::VALUE), row, component)
            }
            Read(m) | Best(m) => self.lanes_now(self.lane_sums[&m]),
            BestPlace(m) => self.lanes_now(self.lane_places[&m]),
            Stop(x) | Own { value: x, .. } => self.real(x),
            Add(x, y) => match (self.is_fused(x), self.is_fused(y)) {
                (Some(product), _) => self.fused_lanes(Fused::Add, product, y),
                (None, Some(product)) => self.fused_lanes(Fused::Add, product, x),
                (None, None) => self.combine_lanes(Combine::Add, x, y),
            },
            Sub(x, y) => match (self.is_fused(x), self.is_fused(y)) {
                (_, Some(product)) => self.fused_lanes(Fused::Subtracted, product, x),
                (Some(product), None) => self.fused_lanes(Fused::Sub, product, y),
                (None, None) => self.combine_lanes(Combine::Sub, x, y),
            },
            Mul(x, y) => self.combine_lanes(Combine::Mul, x, y),
            Pow(x, y) => self.combine_lanes(Combine::Pow, x, y),
            Atan2(y, x) => self.combine_lanes(Combine::Atan2, y, x),
            Neg(x) => self.unary_lanes(Unary::Neg, x),
            Recip(x) => self.unary_lanes(Unary::Recip, x),
            Nearest(x) => self.unary_lanes(Unary::Nearest, x),
            Sqrt(x) => self.unary_lanes(Unary::Sqrt, x),
            Call(f, x) => self.unary_lanes(Unary::Call(f), x),
            Lt(x, y) => return Some(self.compare_lanes(Compare::Lt, x, y)),
            Le(x, y) => return Some(self.compare_lanes(Compare::Le, x, y)),
            Eq(x, y) => return Some(self.compare_lanes(Compare::Eq, x, y)),
            And(x, y) => return Some(self.masks(IntegerOp::And, x, y)),
            Or(x, y) => return Some(self.masks(IntegerOp::Or, x, y)),
            Not(x) => {
                let (x, to) = (self.mask(x), self.new_mask());
                self.emit(I::NotMask { x, to });
                return Some(OnLanes::Bool(to));
            }
            Select(c, x, y) => {
                let (mask, x, y) = (self.mask(c), self.real(x), self.real(y));
                let to = self.new_vector();
                self.emit(I::SelectLanes { mask, x, y, to });
                to
            }
            Const(_)
            | Int(_)
            | Channel(..)
            | PlaceIn { .. }
            | Scalar(_)
            | IntScalar(_)
            | SplineOrder { .. }
            | MeshSize { .. }
            | Spline { .. }
            | MeshNode { .. }
            | Wave { .. }
            | Load { row: None, channel: None, .. }
            | FromInt(_)
            | Integers(..)
            | CompareIntegers(..)
            | Bool(_)
            | Xor(..)
            | Div(..)
            | Abs(_)
            | Number(_)
            | ToInt(_)
            | IsFinite(_)
            | Size(_)
            | Element { .. }
            | Atomic { .. } => unreachable!("value {v} does not vary between lanes: {op:?}"),
        }))
    }

    /// A copy of a register that changes.
    fn lanes_now(&mut self, from: Vector) -> Vector {
        let to = self.new_vector();
        self.emit(I::CopyLanes { from, to });
        to
    }

    pub(super) fn unary_lanes(&mut self, op: Unary, x: Val) -> Vector {
        let (x, to) = (self.real(x), self.new_vector());
        self.emit(I::UnaryLanes { op, x, to });
        to
    }

    fn combine_lanes(&mut self, op: Combine, x: Val, y: Val) -> Vector {
        let (x, y, to) = (self.real(x), self.real(y), self.new_vector());
        self.emit(I::CombineLanes { op, x, y, to });
        to
    }

    fn fused_lanes(&mut self, op: Fused, (x, y): (Val, Val), z: Val) -> Vector {
        let (x, y, z, to) = (self.real(x), self.real(y), self.real(z), self.new_vector());
        self.emit(I::FusedLanes { op, x, y, z, to });
        to
    }

    fn compare_lanes(&mut self, op: Compare, x: Val, y: Val) -> OnLanes {
        let (x, y, to) = (self.real(x), self.real(y), self.new_mask());
        self.emit(I::CompareLanes { op, x, y, to });
        OnLanes::Bool(to)
    }

    fn masks(&mut self, op: IntegerOp, x: Val, y: Val) -> OnLanes {
        let (x, y, to): (Mask, Mask, Mask) = (self.mask(x), self.mask(y), self.new_mask());
        self.emit(I::Masks { op, x, y, to });
        OnLanes::Bool(to)
    }

    pub(super) fn transposed(&self, id: crate::ir::LoopId) -> bool {
        matches!(self.data_loops[&id], Range::Column { .. })
    }

    /// Loads of rows on lanes; `None` for ops that are those of other lanes.
    fn row_value(&mut self, op: &Op) -> Option<OnLanes> {
        let to = match *op {
            Op::IndexOf { param, array, .. } => return Some(self.load_indices(self.slot(param, array))),
            Op::Wave { mesh, of, .. } => {
                let field = match of {
                    OfWave::Index(axis) => Field::Index(axis),
                    OfWave::Count => Field::Count,
                    OfWave::Modulus => Field::Modulus(self.slot(mesh, Array::MeshModuli)),
                };
                let to = self.new_vector();
                self.emit(I::LineField { field, to });
                to
            }
            Op::Load { param, role, row: Some(row), component, .. } => {
                let (slot, stride) = self.array(param, role);
                match (self.b.op(row), stride) {
                    (Op::Row, 3) => self.row_of_three(slot, row)[component],
                    (Op::Row, _) => {
                        let to = self.new_vector();
                        self.emit(I::LoadLanes { slot, first: None, stride, component, to });
                        to
                    }
                    _ => self.gather((slot, stride), row, component),
                }
            }
            Op::LoadInt { param, row, component } => {
                let ((slot, stride), to) = (self.array(param, Role::VALUE), self.new_vector());
                match self.b.op(row) {
                    Op::Row => self.emit(I::LoadInts { slot, stride, component, to }),
                    _ => {
                        let index = self.indices(row);
                        self.emit(I::GatherInts { slot, index, stride, component, to });
                    }
                }
                to
            }
            Op::Nearest(x) => self.unary_lanes(Unary::NearestOfAny, x),
            _ => return None,
        };
        Some(OnLanes::Real(to))
    }
}
