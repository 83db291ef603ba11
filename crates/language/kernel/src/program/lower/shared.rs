//! Kernels without adjoint: variables, and elements of arrays that rows share.

use super::super::{Address, Compare, Instruction as I, Integer, IntegerOp, Memory, Scalar};
use super::{Lowering, Single};
use crate::ir::{Acc, Atomic, Dim, Kind, ParamId, Reason, Role, Type, Val};

impl Lowering<'_> {
    /// The value of a variable that is declared, or changes.
    pub(super) fn assign(&mut self, m: Acc, v: Val) {
        if self.b.ty(v) == Type::Real {
            let (from, to) = (self.scalar(v), self.sum_of(m));
            return self.emit(I::Copy { from, to });
        }
        let from = match self.b.ty(v) {
            Type::Bool => Single::Bool(self.condition(v)),
            _ => Single::Int(self.int(v)),
        };
        let to = self.copied(from, self.other_variables.get(&m).copied());
        self.other_variables.insert(m, to);
    }

    /// A copy of a register, in another one that is there or new.
    pub(super) fn copied(&mut self, from: Single, to: Option<Single>) -> Single {
        match (from, to) {
            (Single::Int(from), Some(Single::Int(to))) => self.emit(I::CopyInteger { from, to }),
            (Single::Bool(from), Some(Single::Bool(to))) => self.emit(I::CopyCondition { from, to }),
            (Single::Int(_), None) => {
                let to = Single::Int(self.new_integer());
                return self.copied(from, Some(to));
            }
            (Single::Bool(_), None) => {
                let to = Single::Bool(self.new_condition());
                return self.copied(from, Some(to));
            }
            other => unreachable!("types were checked: {other:?}"),
        }
        to.expect("matched above")
    }

    /// Whether other rows may write an array's elements at any time.
    pub(super) fn is_shared(&self, param: ParamId) -> bool {
        self.b.in_order && self.kernel.params[param].kind.is_output()
    }

    pub(super) fn size(&mut self, dim: Dim) -> Integer {
        let to = self.new_integer();
        self.emit(I::Size { dim, to });
        to
    }

    /// The slot and the place of an element.
    fn place(&mut self, param: ParamId, row: Option<Val>, component: usize) -> (usize, Address) {
        let (slot, stride) = self.array(param, Role::VALUE);
        (slot, self.address(row, stride, component))
    }

    fn memory(&self, param: ParamId) -> Memory {
        match self.kernel.params[param].kind {
            Kind::Integers { wide: true, .. } => Memory::Int64,
            _ => Memory::Int32,
        }
    }

    pub(super) fn shared_real(&mut self, param: ParamId, row: Option<Val>, component: usize) -> Scalar {
        let ((slot, at), to) = (self.place(param, row, component), self.new_scalar());
        self.emit(I::SharedLoad { slot, at, to });
        to
    }

    pub(super) fn shared_integer(&mut self, param: ParamId, row: Option<Val>, component: usize) -> Integer {
        let ((slot, at), to) = (self.place(param, row, component), self.new_integer());
        let (memory, shared) = (self.memory(param), self.is_shared(param));
        self.emit(I::SharedLoadInt { slot, memory, shared, at, to });
        to
    }

    pub(super) fn write(&mut self, param: ParamId, row: Option<Val>, component: usize, value: Val) {
        let (slot, at) = self.place(param, row, component);
        let i = match self.kernel.params[param].kind {
            Kind::Output { .. } => I::SharedStore { slot, at, x: self.scalar(value) },
            _ => {
                let (memory, x) = (self.memory(param), self.int(value));
                I::SharedStoreInt { slot, memory, at, x, param: param as u32 + 1 }
            }
        };
        self.emit(i);
    }

    /// The integer before the change.
    pub(super) fn atomic(&mut self, op: Atomic, param: ParamId, row: Option<Val>, value: Val) -> Integer {
        let ((slot, at), x, to) = (self.place(param, row, 0), self.int(value), self.new_integer());
        let memory = self.memory(param);
        self.emit(I::Atomic { op, slot, memory, at, x, param: param as u32 + 1, to });
        to
    }

    /// Ends the row where a number is not a row of a dimension.
    pub(super) fn check(&mut self, index: Val, dim: Dim, param: ParamId) {
        let (index, size, zero) = (self.int(index), self.size(dim), self.integer(0));
        let below = self.compare_integers(Compare::Lt, index, zero);
        let beyond = self.compare_integers(Compare::Le, size, index);
        let condition = self.combined(IntegerOp::Or, below, beyond);
        let raise = I::Raise { reason: Reason::Index, param: param as u32 + 1 };
        self.emit(I::If { condition, then: vec![raise, I::NextRow], otherwise: vec![] });
    }
}
