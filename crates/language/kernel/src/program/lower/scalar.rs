//! Values outside of lanes: f64, 64-bit integers, conditions.

use super::super::{
    Address, Combine, Compare, Condition, Instruction as I, Integer, IntegerOp, Scalar, Unary,
};
use super::{Lowering, Single, at};
use crate::ir::{LoopId, Op, Range, Role, Type, Val};
use crate::layout::{Array, scalar_position};

impl Lowering<'_> {
    pub(super) fn let_scalar(&mut self, v: Val) {
        if self.layout.fused.contains(&v) || self.layout.subtracted.contains(&v) {
            return;
        }
        if let Some(x) = self.of_run(v).or_else(|| self.single(v)) {
            self.values.insert(v, x);
        }
        self.meshes(v);
    }

    /// Code for a value, also where scalar code would have it within the sum that it goes to.
    pub(super) fn let_whole(&mut self, v: Val) {
        let x = match *self.b.op(v) {
            Op::Mul(..) if self.layout.fused.contains(&v) => self.term(v),
            Op::Neg(x) if self.layout.subtracted.contains(&v) => {
                let x = self.scalar(x);
                self.unary(Unary::Neg, x)
            }
            _ => return self.let_scalar(v),
        };
        self.values.insert(v, Single::Real(x));
    }

    /// A real, which is computed here where it is a product within a sum.
    pub(super) fn term(&mut self, v: Val) -> Scalar {
        match *self.b.op(v) {
            Op::Mul(x, y) if self.layout.fused.contains(&v) => {
                let (x, y) = (self.scalar(x), self.scalar(y));
                self.combine(Combine::Mul, x, y)
            }
            _ => self.scalar(v),
        }
    }

    fn unary(&mut self, op: Unary, x: Scalar) -> Scalar {
        let to = self.new_scalar();
        self.emit(I::Unary { op, x, to });
        to
    }

    pub(super) fn combine(&mut self, op: Combine, x: Scalar, y: Scalar) -> Scalar {
        let to = self.new_scalar();
        self.emit(I::Combine { op, x, y, to });
        to
    }

    pub(super) fn integers(&mut self, op: IntegerOp, x: Integer, y: Integer) -> Integer {
        let to = self.new_integer();
        self.emit(I::Integers { op, x, y, to });
        to
    }

    pub(super) fn entry_of(&mut self, slot: usize, array: Array, at: Address) -> Integer {
        let to = self.new_integer();
        self.emit(I::Entry { slot, long: array.is_long(), at, to });
        to
    }

    /// An integer of the pair list that a loop goes over, at a place.
    fn of_list(&mut self, l: LoopId, array: Array, place: Integer) -> Integer {
        let slot = self.list_slot(l, array);
        self.entry_of(slot, array, at(place))
    }

    pub(super) fn list_slot(&self, l: LoopId, array: Array) -> usize {
        self.layout.list_slot(self.data_loops[&l], array)
    }

    /// The entry of the pair that a loop visits.
    pub(super) fn entry(&mut self, l: LoopId) -> Integer {
        let k = self.variables[&l];
        match self.data_loops[&l] {
            Range::Column { .. } => self.of_list(l, Array::PairEntry, k),
            _ => k,
        }
    }

    /// A difference of integers, as a real.
    fn difference(&mut self, x: Integer, y: Integer) -> Single {
        let x = self.integers(IntegerOp::Sub, x, y);
        self.real_of(x)
    }

    fn real_of(&mut self, x: Integer) -> Single {
        let to = self.new_scalar();
        self.emit(I::ToReal { x, to });
        Single::Real(to)
    }

    fn compare(&mut self, op: Compare, x: Val, y: Val) -> Single {
        let (x, y) = (self.scalar(x), self.scalar(y));
        let to = self.new_condition();
        self.emit(I::Compare { op, x, y, to });
        Single::Bool(to)
    }

    pub(super) fn compare_integers(&mut self, op: Compare, x: Integer, y: Integer) -> Condition {
        let to = self.new_condition();
        self.emit(I::CompareIntegers { op, x, y, to });
        to
    }

    fn conditions(&mut self, op: IntegerOp, x: Val, y: Val) -> Single {
        let (x, y) = (self.condition(x), self.condition(y));
        Single::Bool(self.combined(op, x, y))
    }

    pub(super) fn combined(&mut self, op: IntegerOp, x: Condition, y: Condition) -> Condition {
        let to = self.new_condition();
        self.emit(I::Conditions { op, x, y, to });
        to
    }

    /// A copy of a register that changes.
    fn now(&mut self, from: Scalar) -> Single {
        let to = self.new_scalar();
        self.emit(I::Copy { from, to });
        Single::Real(to)
    }

    /// Code for a value; none for constants and the row.
    fn single(&mut self, v: Val) -> Option<Single> {
        use Op::*;
        let b = self.b;
        Some(match *b.op(v) {
            Const(_) | Int(_) | Channel(..) | Row => return None,
            LoopVar(l) => Single::Int(self.variables[&l]),
            PairColumn(l) => {
                let k = self.variables[&l];
                Single::Int(self.of_list(l, Array::Column, k))
            }
            PairRow(l) => {
                let k = self.variables[&l];
                Single::Int(self.of_list(l, Array::PairRow, k))
            }
            PairEntry(l) => Single::Int(self.entry(l)),
            PairShift(l, component) => {
                let [triples, packed] = [Array::Shift, Array::PackedShift].map(|a| self.list_slot(l, a));
                let (entry, to) = (self.entry(l), self.new_scalar());
                self.emit(I::Shift { triples, packed, entry, component, to });
                Single::Real(to)
            }
            Place(l) if matches!(self.data_loops.get(&l), Some(Range::Column { .. })) => {
                let (k, entry) = (self.variables[&l], self.entry(l));
                let row = self.of_list(l, Array::PairRow, k);
                let start = self.of_list(l, Array::Start, row);
                self.difference(entry, start)
            }
            Place(l) => self.difference(self.variables[&l], self.firsts[&l]),
            PlaceIn { batch, row } => {
                let row = self.int(row);
                let of = self.entry_of(self.slot(batch, Array::SystemOf), Array::SystemOf, at(row));
                let first = self.entry_of(self.slot(batch, Array::Members), Array::Members, at(of));
                self.difference(row, first)
            }
            IndexOf { param, array: Array::MeshShape, row } => {
                let (slot, wave) = (self.slot(param, Array::MeshShape), self.int(row));
                let to = self.new_integer();
                self.emit(I::WaveSystem { slot, wave, to });
                Single::Int(to)
            }
            IndexOf { param, array, row } => {
                let row = self.int(row);
                Single::Int(self.entry_of(self.slot(param, array), array, at(row)))
            }
            Scalar(p) => {
                let (n, to) = (scalar_position(self.kernel, p), self.new_scalar());
                self.emit(I::Attribute { n, to });
                Single::Real(to)
            }
            IntScalar(p) => {
                let (n, to) = (scalar_position(self.kernel, p), self.new_integer());
                self.emit(I::IntegerAttribute { n, to });
                Single::Int(to)
            }
            SplineOrder { .. } | MeshSize { .. } | Spline { .. } | MeshNode { .. } | Wave { .. } => {
                self.mesh_op(v)
            }
            ReadChannel(..) => unreachable!("loops over channels run on lanes"),
            Load { param, role, row, component, channel: Some(column) } => {
                let (slot, components) = self.array(param, role);
                let (at, to) = (self.table_place(row, column, (components, component)), self.new_scalar());
                self.emit(I::Load { slot, at, to });
                Single::Real(to)
            }
            Load { param, row, component, .. } if self.is_shared(param) => {
                Single::Real(self.shared_real(param, row, component))
            }
            Load { param, role, row, component, .. } => {
                let (slot, stride) = self.array(param, role);
                let (at, to) = (self.address(row, stride, component), self.new_scalar());
                self.emit(I::Load { slot, at, to });
                Single::Real(to)
            }
            LoadInt { param, row, component } => {
                let (slot, stride) = self.array(param, Role::VALUE);
                let (at, to) = (self.address(Some(row), stride, component), self.new_scalar());
                self.emit(I::LoadInt { slot, at, to });
                Single::Real(to)
            }
            Read(m) if b.ty(v) != Type::Real => self.copied(self.other_variables[&m], None),
            Read(m) | Best(m) => self.now(self.sums[&m]),
            BestPlace(m) => self.now(self.places[&m]),
            Stop(x) | Own { value: x, .. } => Single::Real(self.term(x)),
            Add(x, y) => self.of_terms(Combine::Add, x, y),
            Sub(x, y) => self.of_terms(Combine::Sub, x, y),
            Mul(x, y) => self.of_terms(Combine::Mul, x, y),
            Pow(x, y) => self.of_terms(Combine::Pow, x, y),
            Atan2(y, x) => self.of_terms(Combine::Atan2, y, x),
            Neg(x) => self.of_term(Unary::Neg, x),
            Recip(x) => self.of_term(Unary::Recip, x),
            Sqrt(x) => self.of_term(Unary::Sqrt, x),
            Call(f, x) => self.of_term(Unary::Call(f), x),
            Nearest(x) => self.of_term(Unary::Nearest, x),
            FromInt(x) => {
                let x = self.int(x);
                self.real_of(x)
            }
            Integers(op, x, y) => {
                let (x, y) = (self.int(x), self.int(y));
                Single::Int(self.integers(op, x, y))
            }
            Lt(x, y) => self.compare(Compare::Lt, x, y),
            Le(x, y) => self.compare(Compare::Le, x, y),
            Eq(x, y) => self.compare(Compare::Eq, x, y),
            CompareIntegers(op, x, y) => {
                let (x, y) = (self.int(x), self.int(y));
                Single::Bool(self.compare_integers(op, x, y))
            }
            And(x, y) => self.conditions(IntegerOp::And, x, y),
            Or(x, y) => self.conditions(IntegerOp::Or, x, y),
            Xor(x, y) => self.conditions(IntegerOp::Xor, x, y),
            Not(x) => {
                let (x, to) = (self.condition(x), self.new_condition());
                self.emit(I::Not { x, to });
                Single::Bool(to)
            }
            Select(c, x, y) => {
                let (condition, x, y) = (self.condition(c), self.scalar(x), self.scalar(y));
                debug_assert_eq!(b.ty(v), Type::Real, "selections are of reals");
                let to = self.new_scalar();
                self.emit(I::Select { condition, x, y, to });
                Single::Real(to)
            }
            Div(x, y) => self.of_terms(Combine::Div, x, y),
            Abs(x) => self.of_term(Unary::Abs, x),
            Bool(value) => {
                let to = self.new_condition();
                self.emit(I::SetCondition { value, to });
                Single::Bool(to)
            }
            Number(x) => Single::Int(self.int(x)),
            ToInt(x) => {
                let (x, to) = (self.scalar(x), self.new_integer());
                self.emit(I::ToInteger { x, to });
                Single::Int(to)
            }
            IsFinite(x) => {
                let (x, to) = (self.scalar(x), self.new_condition());
                self.emit(I::IsFinite { x, to });
                Single::Bool(to)
            }
            Size(dim) => Single::Int(self.size(dim)),
            Element { param, row, component } => Single::Int(self.shared_integer(param, row, component)),
            Atomic { op, param, row, value } => Single::Int(self.atomic(op, param, row, value)),
        })
    }

    fn of_term(&mut self, op: Unary, x: Val) -> Single {
        let x = self.term(x);
        Single::Real(self.unary(op, x))
    }

    fn of_terms(&mut self, op: Combine, x: Val, y: Val) -> Single {
        let (x, y) = (self.term(x), self.term(y));
        Single::Real(self.combine(op, x, y))
    }

    /// Row · width, by the width of a channel's or table column's dimension.
    pub(super) fn first_of_row(&mut self, row: Val, column: Val) -> Integer {
        let (row, width) = (self.int(row), self.widths[&self.b.width(column)]);
        self.integers(IntegerOp::Mul, row, width)
    }

    /// An element of a table, where neither row nor column varies.
    pub(super) fn table_place(
        &mut self,
        row: Option<Val>,
        column: Val,
        (stride, component): (usize, usize),
    ) -> Address {
        let (first, column) = (row.map(|row| self.first_of_row(row, column)), self.int(column));
        let element = first.map_or(column, |first| self.integers(IntegerOp::Add, first, column));
        Address { row: Some(element), stride, component }
    }
}
