//! Statements.

use super::super::{Address, Combine, Compare, Instruction as I, Integer, Scalar};
use super::{Lowering, at};
use crate::ir::{Acc, LoopId, Op, ParamId, Range, Role, Stmt, Type, Val};
use crate::layout::Array;

impl<'a> Lowering<'a> {
    pub(super) fn stmt(&mut self, s: &'a Stmt) {
        match *s {
            Stmt::Let(v) if self.lanes.is_some() => self.let_lanes(v),
            Stmt::Let(v) => self.let_scalar(v),
            Stmt::Declare(m, v) => self.declare(m, v),
            Stmt::Accumulate(m, v) => self.accumulate(m, v),
            Stmt::DeclareBest(m, v) => {
                self.declare(m, v);
                if self.lanes.is_some() {
                    let to = self.new_vector();
                    self.emit(I::Fill { x: -1.0, to });
                    self.lane_places.insert(m, to);
                } else {
                    let (from, to) = (self.constant(-1.0), self.place_of(m));
                    self.emit(I::Copy { from, to });
                }
            }
            Stmt::Raise { acc, value, place } => self.raise(acc, value, place),
            Stmt::DeclareChannels(m, dim) => {
                let slot = self.layout.scratch(m);
                self.emit(I::ClearChannels { slot, dim });
            }
            Stmt::AccumulateChannel { sum, value, .. } => self.accumulate_channel(sum, value),
            Stmt::Store { param, role, component, channel: Some(channel), value } => {
                self.store_channel((param, role, component), channel, value);
            }
            Stmt::Store { param, role, component, channel: None, value } if self.rows.is_some() => {
                let ((slot, stride), x) = (self.array(param, role), self.real(value));
                self.emit(I::StoreLanes { slot, first: None, stride, component, x, adds: false });
            }
            Stmt::Store { param, role, component, channel: None, value } => {
                let ((slot, stride), x) = (self.array(param, role), self.scalar(value));
                let at = match stride {
                    1 => at(self.row),
                    stride => Address { row: Some(self.row), stride, component },
                };
                self.emit(I::Put { slot, at, x, adds: false });
            }
            Stmt::Contribute { param, role, row: Some(row), component, channel, value }
                if channel.is_some_and(|c| self.is_lane(c)) || self.is_lane(row) =>
            {
                self.contribute_channel((param, role, component), row, channel, value);
            }
            Stmt::Contribute { param, role, row: Some(row), component, channel: Some(column), value } => {
                self.contribute_to_table((param, role, component), row, column, value);
            }
            Stmt::Contribute { param, role, row, component, value, .. } => {
                self.contribute((param, role, component), row, value);
            }
            Stmt::For { id, range, ref body } => self.for_loop(s, id, range, body),
            Stmt::Assign(m, v) => self.assign(m, v),
            Stmt::Loop(ref body) => {
                let body = self.inner(body);
                self.emit(I::Loop { body });
            }
            Stmt::Break => self.emit(I::Break),
            Stmt::Continue => self.emit(I::Continue),
            Stmt::Return => self.emit(I::NextRow),
            Stmt::Check { index, dim, param } => self.check(index, dim, param),
            Stmt::Write { param, row, component, value } => self.write(param, row, component, value),
            Stmt::Signal(reason, param) => {
                let param = param.map_or(0, |p| p as u32 + 1);
                self.emit(I::Raise { reason, param });
            }
            Stmt::If { condition, ref then, ref otherwise } => {
                let condition = self.condition(condition);
                let (then, otherwise) = (self.inner(then), self.inner(otherwise));
                self.emit(I::If { condition, then, otherwise });
            }
        }
    }

    /// The instructions of a block within.
    fn inner(&mut self, stmts: &'a [Stmt]) -> Vec<I> {
        self.begin();
        self.block(stmts);
        self.end()
    }

    /// The register of a sum outside of lanes.
    pub(super) fn sum_of(&mut self, m: Acc) -> Scalar {
        if let Some(sum) = self.sums.get(&m) {
            return *sum;
        }
        let to = self.new_scalar();
        self.sums.insert(m, to);
        to
    }

    fn place_of(&mut self, m: Acc) -> Scalar {
        if let Some(place) = self.places.get(&m) {
            return *place;
        }
        let to = self.new_scalar();
        self.places.insert(m, to);
        to
    }

    fn declare(&mut self, m: Acc, v: Val) {
        if self.lanes.is_some() {
            let (from, to) = (self.real(v), self.new_vector());
            self.emit(I::CopyLanes { from, to });
            self.lane_sums.insert(m, to);
        } else if self.b.ty(v) != Type::Real {
            self.assign(m, v);
        } else {
            let (from, to) = (self.scalar(v), self.sum_of(m));
            self.emit(I::Copy { from, to });
        }
    }

    fn accumulate(&mut self, m: Acc, v: Val) {
        let (v, sign) = self.layout.signed(self.b, v);
        self.accumulate_signed(m, v, sign);
    }

    pub(super) fn accumulate_signed(&mut self, m: Acc, v: Val, sign: char) {
        let Some(lanes) = &self.lanes else {
            let (x, sum) = (self.term(v), self.sums[&m]);
            let op = if sign == '-' { Combine::Sub } else { Combine::Add };
            self.emit(I::Combine { op, x: sum, y: x, to: sum });
            return;
        };
        let sum = lanes.sums.get(&m).copied().unwrap_or_else(|| self.lane_sums[&m]);
        let minus = sign == '-';
        match self.is_fused(v) {
            Some((x, y)) => {
                let (x, y) = (self.real(x), self.real(y));
                self.emit(I::SumOfProduct { x, y, minus, sum });
            }
            None => {
                let x = self.real(v);
                self.emit(I::Sum { x, minus, sum });
            }
        }
    }

    fn raise(&mut self, m: Acc, value: Val, place: Val) {
        if let Some(lanes) = &self.lanes {
            let best = lanes.sums.get(&m).copied().unwrap_or_else(|| self.lane_sums[&m]);
            let kept = lanes.places.get(&m).copied().unwrap_or_else(|| self.lane_places[&m]);
            let (x, at) = (self.real(value), self.real(place));
            self.emit(I::Best { x, at, best, place: kept });
            return;
        }
        let (x, at) = (self.scalar(value), self.scalar(place));
        let (best, kept, larger) = (self.sums[&m], self.places[&m], self.new_condition());
        self.emit(I::Compare { op: Compare::Lt, x: best, y: x, to: larger });
        self.emit(I::Select { condition: larger, x, y: best, to: best });
        self.emit(I::Select { condition: larger, x: at, y: kept, to: kept });
    }

    /// A contribution to an element that is no channel and of no table.
    fn contribute(&mut self, (param, role, component): (ParamId, Role, usize), row: Option<Val>, value: Val) {
        if let Some(r) = self.layout.reduction(self.b, param, role, component, row) {
            if self.rows.is_some() {
                let (x, sum) = (self.real(value), self.reductions_on_lanes[r]);
                self.emit(I::Sum { x, minus: false, sum });
            } else {
                let (x, sum) = (self.scalar(value), self.reductions[r]);
                self.emit(I::Combine { op: Combine::Add, x: sum, y: x, to: sum });
            }
            return;
        }
        let (slot, stride) = self.array(param, role);
        let row = row.expect("not a reduction");
        let varies = self.varies(row);
        if matches!(self.b.op(row), Op::PairEntry(_)) {
            if varies {
                let x = self.real(value);
                self.emit(I::StoreLanes { slot, first: None, stride, component, x, adds: true });
            } else {
                let (at, x) = (self.address(Some(row), stride, component), self.scalar(value));
                self.emit(I::Put { slot, at, x, adds: true });
            }
        } else if varies && self.nodes {
            self.add_to_nodes(row, (slot, stride), component, value);
        } else if varies {
            let (index, x) = (self.indices(row), self.real(value));
            let (stride, offset) = (self.integer(stride as i64), self.integer(component as i64));
            self.emit(I::Scatter { slot, index, stride, offset, x });
        } else {
            let (at, x) = (self.address(Some(row), stride, component), self.scalar(value));
            self.where_owned(row, I::Add { slot, at, x });
        }
    }

    fn for_loop(&mut self, s: &'a Stmt, id: LoopId, range: Range, body: &'a [Stmt]) {
        match range {
            Range::Ints(..) if self.nodes_on_lanes(s) => {}
            Range::Ints(_, hi) if self.lanes.as_ref().is_some_and(|l| l.id == id) => {
                self.along_axis(id, hi, body);
            }
            Range::Ints(lo, hi) => {
                let (lo, hi) = (self.int(lo), self.int(hi));
                self.turns(id, (lo, hi), body);
            }
            Range::Pairs { .. } | Range::Column { .. } | Range::Members { .. } | Range::Channels(_) => {
                let Some(arrays) = self.needed.get(&id).cloned() else {
                    return self.data_loop(id, range, body);
                };
                let slots = arrays.iter().map(|(param, role)| self.slot(*param, Array::Values(*role)));
                let (slots, to) = (slots.collect(), self.new_condition());
                self.emit(I::IsAsked { slots, to });
                self.begin();
                self.data_loop(id, range, body);
                let then = self.end();
                self.emit(I::If { condition: to, then, otherwise: vec![] });
            }
        }
    }

    /// The turns of a loop, one after the other.
    pub(super) fn turns(&mut self, id: LoopId, (from, to): (Integer, Integer), body: &'a [Stmt]) {
        let variable = self.new_integer();
        self.variables.insert(id, variable);
        self.firsts.insert(id, from);
        self.begin();
        match self.own_planes(id, body) {
            None => self.block(body),
            Some(condition) => {
                self.begin();
                self.block(body);
                let then = self.end();
                self.emit(I::If { condition, then, otherwise: vec![] });
            }
        }
        let body = self.end();
        self.emit(I::For { variable, from, end: to, body });
    }
}
