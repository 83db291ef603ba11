//! Operators, on numbers, vectors and matrices.

use super::{Lower, Value, err};
use crate::ir::Shape::{Matrix, Vector};
use crate::ir::{Compare, IntegerOp, Op, Type, Val};
use syn::{BinOp, Result};

/// The operation of an operator.
#[derive(Clone, Copy)]
enum Operation {
    Arithmetic(IntegerOp),
    /// A comparison, and whether it is of the operands in the other order: a > b is b < a, false where one of them is NaN.
    Comparison(Compare, bool),
    Both,
    Either,
}

/// The operation of an operator, or of the assignment with it.
fn operation(op: &BinOp) -> Option<Operation> {
    use BinOp::*;
    use Operation::{Arithmetic, Comparison};
    Some(match op {
        Add(_) | AddAssign(_) => Arithmetic(IntegerOp::Add),
        Sub(_) | SubAssign(_) => Arithmetic(IntegerOp::Sub),
        Mul(_) | MulAssign(_) => Arithmetic(IntegerOp::Mul),
        Div(_) | DivAssign(_) => Arithmetic(IntegerOp::Div),
        Rem(_) | RemAssign(_) => Arithmetic(IntegerOp::Rem),
        BitXor(_) | BitXorAssign(_) => Arithmetic(IntegerOp::Xor),
        BitAnd(_) | BitAndAssign(_) => Arithmetic(IntegerOp::And),
        BitOr(_) | BitOrAssign(_) => Arithmetic(IntegerOp::Or),
        Shl(_) | ShlAssign(_) => Arithmetic(IntegerOp::Shl),
        Shr(_) | ShrAssign(_) => Arithmetic(IntegerOp::Shr),
        Lt(_) => Comparison(Compare::Lt, false),
        Gt(_) => Comparison(Compare::Lt, true),
        Le(_) => Comparison(Compare::Le, false),
        Ge(_) => Comparison(Compare::Le, true),
        Eq(_) => Comparison(Compare::Eq, false),
        Ne(_) => Comparison(Compare::Ne, false),
        And(_) => Operation::Both,
        Or(_) => Operation::Either,
        _ => return None,
    })
}

impl Lower<'_> {
    /// The result of an operator, or of the assignment with it.
    pub(super) fn operate(
        &mut self,
        op: &BinOp,
        l: &Value,
        r: &Value,
        at: &syn::ExprBinary,
    ) -> Result<Value> {
        use IntegerOp::{Add, Div, Mul, Sub};
        use Value::{IVec3, Scalar, Tensor};
        if let Some(same) = self.same_row(op, l, r) {
            return Ok(Scalar(same));
        }
        let operation = operation(op);
        if let (Some(operation), Scalar(a), Scalar(b)) = (operation, l, r)
            && let Some(v) = self.scalars(operation, *a, *b)
        {
            return Ok(Scalar(v));
        }
        let Some(Operation::Arithmetic(op)) = operation else { return self.mismatch(l, r, at) };
        let is_real = |l: &Self, v: &Val| l.b.ty(*v) == Type::Real;
        Ok(match (op, l, r) {
            (Add, Tensor(of, a), Tensor(other, b)) if of == other => Tensor(*of, self.zip(a, b, Op::Add)),
            (Sub, Tensor(of, a), Tensor(other, b)) if of == other => Tensor(*of, self.zip(a, b, Op::Sub)),
            (Add | Sub, IVec3(a), IVec3(b)) if self.b.in_order => {
                IVec3(std::array::from_fn(|k| self.b.op_value(Op::Integers(op, a[k], b[k]))))
            }
            (Mul, v @ Tensor(..), Scalar(s)) | (Mul, Scalar(s), v @ Tensor(..)) if is_real(self, s) => {
                v.with(|x| self.b.real_op(Op::Mul(x, *s)))
            }
            (Div, Tensor(of, a), Scalar(s)) if is_real(self, s) => Tensor(*of, self.quotients(a, *s)),
            // A row vector times a matrix: the rows of a cell are its lattice vectors.
            (Mul, Tensor(Vector(n), a), Tensor(Matrix(rows), m)) if n == rows => {
                Tensor(Vector(*n), self.row_times(a, m))
            }
            (Mul, IVec3(a), Tensor(Matrix(3), m)) => {
                let a = a.map(|x| if is_real(self, &x) { x } else { self.b.real_op(Op::FromInt(x)) });
                Tensor(Vector(3), self.row_times(&a, m))
            }
            // A matrix times a column vector.
            (Mul, Tensor(Matrix(rows), m), Tensor(Vector(n), v)) if n == rows => {
                let transposed: Vec<Val> = (0..n * n).map(|k| m[k % n * n + k / n]).collect();
                Tensor(Vector(*n), self.row_times(v, &transposed))
            }
            (Mul, Tensor(Matrix(n), a), Tensor(Matrix(rows), m)) if n == rows => {
                Tensor(Matrix(*n), a.chunks(*n).flat_map(|row| self.row_times(row, m)).collect())
            }
            _ => return self.mismatch(l, r, at),
        })
    }

    /// An operation on two numbers of one type; none where there is no such operation.
    fn scalars(&mut self, operation: Operation, a: Val, b: Val) -> Option<Val> {
        use IntegerOp::{Add, And, Div, Mul, Or, Rem, Sub, Xor};
        use Operation::{Arithmetic, Comparison};
        let in_order = self.b.in_order;
        let (a, b) = if matches!(operation, Comparison(_, true)) { (b, a) } else { (a, b) };
        let op = match (self.b.ty(a), self.b.ty(b), operation) {
            (Type::Real, Type::Real, Arithmetic(Add)) => Op::Add(a, b),
            (Type::Real, Type::Real, Arithmetic(Sub)) => Op::Sub(a, b),
            (Type::Real, Type::Real, Arithmetic(Mul)) => Op::Mul(a, b),
            (Type::Real, Type::Real, Arithmetic(Div)) => return Some(self.quotients(&[a], b)[0]),
            (Type::Real, Type::Real, Comparison(Compare::Lt, _)) => Op::Lt(a, b),
            (Type::Real, Type::Real, Comparison(Compare::Le, _)) => Op::Le(a, b),
            (Type::Real, Type::Real, Comparison(Compare::Eq, _)) => Op::Eq(a, b),
            (Type::Real, Type::Real, Comparison(Compare::Ne, _)) if in_order => {
                let same = self.b.op_value(Op::Eq(a, b));
                Op::Not(same)
            }
            (Type::Int, Type::Int, Arithmetic(op)) if in_order || matches!(op, Add | Sub | Mul) => {
                if matches!(op, Div | Rem) {
                    self.check_divisor(b);
                }
                Op::Integers(op, a, b)
            }
            (Type::Int, Type::Int, Comparison(op, _))
                if in_order || matches!(op, Compare::Lt | Compare::Eq) =>
            {
                Op::CompareIntegers(op, a, b)
            }
            (Type::Index(d), Type::Index(e), Comparison(op, _)) if d == e && in_order => {
                Op::CompareIntegers(op, a, b)
            }
            (Type::Bool, Type::Bool, Operation::Both | Arithmetic(And)) => Op::And(a, b),
            (Type::Bool, Type::Bool, Operation::Either | Arithmetic(Or)) => Op::Or(a, b),
            (Type::Bool, Type::Bool, Arithmetic(Xor) | Comparison(Compare::Ne, _)) if in_order => {
                Op::Xor(a, b)
            }
            (Type::Bool, Type::Bool, Comparison(Compare::Eq, _)) if in_order => {
                let unequal = self.b.op_value(Op::Xor(a, b));
                Op::Not(unequal)
            }
            _ => return None,
        };
        Some(self.b.op_value(op))
    }

    fn quotients(&mut self, a: &[Val], b: Val) -> Vec<Val> {
        if self.b.in_order {
            return a.iter().map(|x| self.b.real_op(Op::Div(*x, b))).collect();
        }
        let inverse = self.b.real_op(Op::Recip(b));
        a.iter().map(|x| self.b.real_op(Op::Mul(*x, inverse))).collect()
    }

    pub(super) fn mismatch(&self, l: &Value, r: &Value, at: &syn::ExprBinary) -> Result<Value> {
        let is_row = |v: &Value| matches!(v, Value::Scalar(v) if matches!(self.b.ty(*v), Type::Index(_)));
        match (self.b.in_order, is_row(l) || is_row(r)) {
            (true, true) => err(at, "a row is not a number: the number of a row is `row as i64`"),
            (false, true) => err(
                at,
                "a row is not a number: it only says which element of an array is meant (a member of its own system \
                 compares with it by == and !=)",
            ),
            (true, false) => {
                let message = format!(
                    "this operator does not take {} and {}: there are + - * / and comparisons on Real and on integers, % & | ^ << >> \
                     on integers, && || & | ^ on conditions, + - on vectors and matrices of one type and their products (Real and integers do not \
                     mix: write `n as Real`, `1.0`); powers are `pow(x, 6)`",
                    self.type_of(l),
                    self.type_of(r)
                );
                err(at, message)
            }
            (false, false) => err(
                at,
                "the operands do not fit this operator: there are + - * / < <= > >= == on Real, + - * < > == on i32, && || \
                 on conditions, + - on vectors and matrices of one type and their products (Real and i32 do not mix: write `n as Real`, `1.0`); \
                 powers are `pow(x, 6)`",
            ),
        }
    }

    /// Whether a member of the row's own system is the row itself: they have one place in it.
    fn same_row(&mut self, op: &BinOp, l: &Value, r: &Value) -> Option<Val> {
        let (&Value::Scalar(l), &Value::Scalar(r)) = (l, r) else { return None };
        let (row, visited) = match (self.b.op(l), self.b.op(r)) {
            (Op::Row, Op::LoopVar(visited)) => (l, *visited),
            (Op::LoopVar(visited), Op::Row) => (r, *visited),
            _ => return None,
        };
        let (batch, system) = *self.member_of.get(&visited)?;
        if *self.b.op(system) != Op::system(batch, row) {
            return None;
        }
        let (place, own) = (self.b.real_op(Op::Place(visited)), self.b.real_op(Op::PlaceIn { batch, row }));
        let same = self.b.op_value(Op::Eq(place, own));
        match op {
            BinOp::Eq(_) => Some(same),
            BinOp::Ne(_) => Some(self.b.op_value(Op::Not(same))),
            _ => None,
        }
    }

    fn zip(&mut self, a: &[Val], b: &[Val], op: impl Fn(Val, Val) -> Op) -> Vec<Val> {
        a.iter().zip(b).map(|(x, y)| self.b.op_value(op(*x, *y))).collect()
    }

    /// The product of two vectors.
    pub(super) fn dot(&mut self, a: &[Val], b: &[Val]) -> Val {
        let products = self.zip(a, b, Op::Mul);
        products.into_iter().reduce(|sum, x| self.b.real_op(Op::Add(sum, x))).expect("components")
    }

    /// The product of a row vector and a square matrix.
    fn row_times(&mut self, row: &[Val], m: &[Val]) -> Vec<Val> {
        let n = row.len();
        let column = |c: usize| m[c..].iter().step_by(n).copied().collect::<Vec<_>>();
        (0..n).map(|c| self.dot(row, &column(c))).collect()
    }
}
