//! Kernels that are not differentiated: scalars alone.

use super::super::{
    Address, Class, Combine, Compare, Condition, Instruction as I, Integer, IntegerOp, Memory, Program,
    Scalar, Unary,
};
use super::{Single, at};
use crate::imperative::{self as imp, Binary, Body, Expr, Layout, Stmt, Type, Var, is_output};
use crate::ir::{Function, Kernel, Kind, ParamId, Role};
use crate::layout::{Array, scalar_position};

/// The program of a kernel without adjoint.
pub fn lower_imperative(kernel: &Kernel, body: &Body, layout: &Layout) -> Program {
    let mut l = Lowering { kernel, layout, program: Program::default(), vars: vec![], open: vec![vec![]] };
    let [from, to, row] = [l.integer(), l.integer(), l.integer()];
    l.program.rows = [from, to];
    l.vars = body.types.iter().map(|ty| l.variable(*ty)).collect();
    l.block(&body.stmts, row);
    let body = l.open.pop().unwrap_or_default();
    l.program.body = vec![I::For { variable: row, from, end: to, body }];
    l.program
}

struct Lowering<'a> {
    kernel: &'a Kernel,
    layout: &'a Layout,
    program: Program,
    vars: Vec<Single>,
    open: Vec<Vec<I>>,
}

impl Lowering<'_> {
    fn register(&mut self, class: Class) -> u32 {
        let count = &mut self.program.registers[class as usize];
        *count += 1;
        *count - 1
    }

    fn integer(&mut self) -> Integer {
        Integer(self.register(Class::Integer))
    }

    fn condition(&mut self) -> Condition {
        Condition(self.register(Class::Condition))
    }

    fn variable(&mut self, ty: Type) -> Single {
        match ty {
            Type::Real => Single::Real(Scalar(self.register(Class::Scalar))),
            Type::Int => Single::Int(self.integer()),
            Type::Bool => Single::Bool(self.condition()),
        }
    }

    fn emit(&mut self, i: I) {
        self.open.last_mut().expect("a block is open").push(i);
    }

    fn real(&self, v: Var) -> Scalar {
        match self.vars[v] {
            Single::Real(x) => x,
            other => unreachable!("variable {v} is {other:?}"),
        }
    }

    fn int(&self, v: Var) -> Integer {
        match self.vars[v] {
            Single::Int(x) => x,
            other => unreachable!("variable {v} is {other:?}"),
        }
    }

    fn bool(&self, v: Var) -> Condition {
        match self.vars[v] {
            Single::Bool(x) => x,
            other => unreachable!("variable {v} is {other:?}"),
        }
    }

    fn inner(&mut self, stmts: &[Stmt], row: Integer) -> Vec<I> {
        self.open.push(vec![]);
        self.block(stmts, row);
        self.open.pop().unwrap_or_default()
    }

    fn copy(&mut self, from: Single, to: Single) {
        self.emit(match (from, to) {
            (Single::Real(from), Single::Real(to)) => I::Copy { from, to },
            (Single::Int(from), Single::Int(to)) => I::CopyInteger { from, to },
            (Single::Bool(from), Single::Bool(to)) => I::CopyCondition { from, to },
            other => unreachable!("types were checked: {other:?}"),
        });
    }

    fn slot(&self, param: ParamId) -> usize {
        self.layout.slot(param, Array::Values(Role::VALUE))
    }

    fn address(&self, param: ParamId, row: Option<Var>, component: usize) -> Address {
        let stride = self.kernel.components(param, Role::VALUE);
        Address { row: row.map(|row| self.int(row)), stride, component }
    }

    fn memory(&self, param: ParamId) -> Memory {
        match self.kernel.params[param].kind {
            Kind::Real { .. } | Kind::Output { .. } => Memory::Real,
            Kind::Integers { wide: true, .. } => Memory::Int64,
            Kind::Integers { wide: false, .. }
            | Kind::Ints { .. }
            | Kind::Scalar
            | Kind::IntScalar
            | Kind::Batch { .. }
            | Kind::Pairs { .. }
            | Kind::Map { .. }
            | Kind::Mesh { .. } => Memory::Int32,
        }
    }

    fn block(&mut self, stmts: &[Stmt], row: Integer) {
        for s in stmts {
            self.stmt(s, row);
        }
    }

    fn stmt(&mut self, s: &Stmt, row: Integer) {
        match s {
            Stmt::Let(v, e) => self.expr(e, self.vars[*v], row),
            Stmt::Set(v, x) => self.copy(self.vars[*x], self.vars[*v]),
            Stmt::If { condition, then, otherwise } => {
                let condition = self.bool(*condition);
                let (then, otherwise) = (self.inner(then, row), self.inner(otherwise, row));
                self.emit(I::If { condition, then, otherwise });
            }
            Stmt::Loop(body) => {
                let body = self.inner(body, row);
                self.emit(I::Loop { body });
            }
            Stmt::Break => self.emit(I::Break),
            Stmt::Continue => self.emit(I::Continue),
            Stmt::Return => self.emit(I::NextRow),
            Stmt::Check { index, dim, param } => self.check(self.int(*index), *dim, *param),
            Stmt::Store { param, row, component, value } => {
                let (slot, at) = (self.slot(*param), self.address(*param, *row, *component));
                let memory = self.memory(*param);
                self.emit(match memory {
                    Memory::Real => I::SharedStore { slot, at, x: self.real(*value) },
                    Memory::Int32 | Memory::Int64 => {
                        let param = *param as u32 + 1;
                        I::SharedStoreInt { slot, memory, at, x: self.int(*value), param }
                    }
                });
            }
            Stmt::Raise(reason, param) => {
                let param = param.map_or(0, |p| p as u32 + 1);
                self.emit(I::Raise { reason: *reason, param });
            }
        }
    }

    /// Ends the row where a number is not a row of a dimension.
    fn check(&mut self, index: Integer, dim: usize, param: ParamId) {
        let (size, zero) = (self.integer(), self.constant(0));
        let [below, beyond, outside] = [self.condition(), self.condition(), self.condition()];
        self.emit(I::Size { dim, to: size });
        self.emit(I::CompareIntegers { op: Compare::Lt, x: index, y: zero, to: below });
        self.emit(I::CompareIntegers { op: Compare::Le, x: size, y: index, to: beyond });
        self.emit(I::Conditions { op: IntegerOp::Or, x: below, y: beyond, to: outside });
        let raise = I::Raise { reason: imp::Reason::Index, param: param as u32 + 1 };
        self.emit(I::If { condition: outside, then: vec![raise, I::NextRow], otherwise: vec![] });
    }

    /// The register of a constant.
    fn constant(&mut self, x: i64) -> Integer {
        let known = self.program.integers.iter().find(|(_, y)| *y == x);
        known.map(|(r, _)| *r).unwrap_or_else(|| {
            let to = self.integer();
            self.program.integers.push((to, x));
            to
        })
    }

    fn expr(&mut self, e: &Expr, to: Single, row: Integer) {
        let i = match (e, to) {
            (Expr::Real(x), Single::Real(to)) => {
                let known = self.program.scalars.iter().find(|(_, y)| y.to_bits() == x.to_bits());
                let from = known.map(|(r, _)| *r).unwrap_or_else(|| {
                    let register = Scalar(self.register(Class::Scalar));
                    self.program.scalars.push((register, *x));
                    register
                });
                I::Copy { from, to }
            }
            (Expr::Int(x), Single::Int(to)) => I::CopyInteger { from: self.constant(*x), to },
            (Expr::Bool(value), Single::Bool(to)) => I::SetCondition { value: *value, to },
            (Expr::Copy(v), _) => return self.copy(self.vars[*v], to),
            (Expr::Row, Single::Int(to)) => I::CopyInteger { from: row, to },
            (Expr::Attribute(p), Single::Real(to)) => {
                I::Attribute { n: scalar_position(self.kernel, *p), to }
            }
            (Expr::Attribute(p), Single::Int(to)) => {
                I::IntegerAttribute { n: scalar_position(self.kernel, *p), to }
            }
            (Expr::Rows(dim), Single::Int(to)) => I::Size { dim: *dim, to },
            (Expr::Unary(op, x), to) => return self.unary(*op, *x, to),
            (Expr::Binary(op, x, y), to) => self.binary(*op, self.vars[*x], self.vars[*y], to),
            (Expr::Load { param, row, component }, to) => {
                let (slot, at) = (self.slot(*param), self.address(*param, *row, *component));
                let (memory, shared) = (self.memory(*param), is_output(self.kernel.params[*param].kind));
                match (memory, to) {
                    (Memory::Real, Single::Real(to)) if shared => I::SharedLoad { slot, at, to },
                    (Memory::Real, Single::Real(to)) => I::Load { slot, at, to },
                    (_, Single::Int(to)) => I::SharedLoadInt { slot, memory, shared, at, to },
                    other => unreachable!("types were checked: {other:?}"),
                }
            }
            (Expr::Atomic { op, param, row, value }, Single::Int(to)) => I::Atomic {
                op: *op,
                slot: self.slot(*param),
                memory: self.memory(*param),
                at: self.address(*param, *row, 0),
                x: self.int(*value),
                param: *param as u32 + 1,
                to,
            },
            (Expr::Entry { param, array: Array::Shift, at, component }, Single::Int(to)) => {
                let [triples, packed] =
                    [Array::Shift, Array::PackedShift].map(|array| self.layout.slot(*param, array));
                let (entry, x) = (self.int(*at), Scalar(self.register(Class::Scalar)));
                self.emit(I::Shift { triples, packed, entry, component: *component, to: x });
                I::ToInteger { x, to }
            }
            (Expr::Entry { param, array, at: place, component }, Single::Int(to)) => {
                let slot = self.layout.slot(*param, *array);
                let at = Address { component: *component, ..at(self.int(*place)) };
                I::Entry { slot, long: array.is_long(), at, to }
            }
            other => unreachable!("types were checked: {other:?}"),
        };
        self.emit(i);
    }

    fn unary(&mut self, op: imp::Unary, x: Var, to: Single) {
        let i = match (op, self.vars[x], to) {
            (imp::Unary::Neg, Single::Int(y), Single::Int(to)) => {
                I::Integers { op: IntegerOp::Sub, x: self.constant(0), y, to }
            }
            (imp::Unary::Not, Single::Int(x), Single::Int(to)) => {
                I::Integers { op: IntegerOp::Xor, x, y: self.constant(-1), to }
            }
            (imp::Unary::Not, Single::Bool(x), Single::Bool(to)) => I::Not { x, to },
            (imp::Unary::Neg, Single::Real(x), Single::Real(to)) => I::Unary { op: Unary::Neg, x, to },
            (imp::Unary::Sqrt, Single::Real(x), Single::Real(to)) => I::Unary { op: Unary::Sqrt, x, to },
            (imp::Unary::Call(f), Single::Real(x), Single::Real(to)) => {
                I::Unary { op: Unary::Call(f), x, to }
            }
            (imp::Unary::Nearest, Single::Real(x), Single::Real(to)) => {
                I::Unary { op: Unary::Nearest, x, to }
            }
            (imp::Unary::Abs, Single::Real(x), Single::Real(to)) => I::Unary { op: Unary::Abs, x, to },
            (imp::Unary::ToReal, Single::Int(x), Single::Real(to)) => I::ToReal { x, to },
            (imp::Unary::ToInt, Single::Real(x), Single::Int(to)) => I::ToInteger { x, to },
            (imp::Unary::IsFinite, Single::Real(x), Single::Bool(to)) => I::IsFinite { x, to },
            other => unreachable!("types were checked: {other:?}"),
        };
        debug_assert!(op != imp::Unary::Call(Function::Ln) || matches!(to, Single::Real(_)));
        self.emit(i);
    }

    fn binary(&mut self, op: Binary, x: Single, y: Single, to: Single) -> I {
        match (x, y, to) {
            (Single::Real(x), Single::Real(y), Single::Real(to)) => {
                let op = match op {
                    Binary::Add => Combine::Add,
                    Binary::Sub => Combine::Sub,
                    Binary::Mul => Combine::Mul,
                    Binary::Div => Combine::Div,
                    Binary::Pow => Combine::Pow,
                    Binary::Atan2 => Combine::Atan2,
                    other => unreachable!("{other:?} gives no real"),
                };
                I::Combine { op, x, y, to }
            }
            (Single::Real(x), Single::Real(y), Single::Bool(to)) => I::Compare { op: compare(op), x, y, to },
            (Single::Int(x), Single::Int(y), Single::Bool(to)) => {
                I::CompareIntegers { op: compare(op), x, y, to }
            }
            (Single::Int(x), Single::Int(y), Single::Int(to)) => I::Integers { op: integer_op(op), x, y, to },
            (Single::Bool(x), Single::Bool(y), Single::Bool(to)) => match op {
                Binary::Eq => {
                    let unequal = self.condition();
                    self.emit(I::Conditions { op: IntegerOp::Xor, x, y, to: unequal });
                    I::Not { x: unequal, to }
                }
                Binary::Ne => I::Conditions { op: IntegerOp::Xor, x, y, to },
                op => I::Conditions { op: integer_op(op), x, y, to },
            },
            other => unreachable!("types were checked: {other:?}"),
        }
    }
}

fn compare(op: Binary) -> Compare {
    match op {
        Binary::Lt => Compare::Lt,
        Binary::Le => Compare::Le,
        Binary::Eq => Compare::Eq,
        Binary::Ne => Compare::Ne,
        other => unreachable!("{other:?} is no comparison"),
    }
}

fn integer_op(op: Binary) -> IntegerOp {
    match op {
        Binary::Add => IntegerOp::Add,
        Binary::Sub => IntegerOp::Sub,
        Binary::Mul => IntegerOp::Mul,
        Binary::Div => IntegerOp::Div,
        Binary::Rem => IntegerOp::Rem,
        Binary::And => IntegerOp::And,
        Binary::Or => IntegerOp::Or,
        Binary::Xor => IntegerOp::Xor,
        Binary::Shl => IntegerOp::Shl,
        Binary::Shr => IntegerOp::Shr,
        other => unreachable!("{other:?} gives no integer"),
    }
}
