//! Expressions: integers, branches that compute values, atomics.

use super::{Lower, Value, err, syntax};
use crate::ir::{Atomic, Compare, IntegerOp, Kind, Op, ParamId, Reason, Shape, Stmt, Type, Val};
use crate::lower::type_name;
use syn::{BinOp, Expr, Result};

impl Lower<'_> {
    pub(in crate::lower) fn cast(&mut self, c: &syn::ExprCast) -> Result<Value> {
        let v = self.expr(&c.expr)?;
        let ty = type_name(&c.ty);
        if ty == "i32" {
            return err(&c.ty, "integers are 64-bit here: write `as i64` (arrays may have i32 elements)");
        }
        Ok(match (ty.as_str(), &v) {
            ("Vec3", Value::IVec3(v)) => {
                Value::Tensor(Shape::Vector(3), v.map(|x| self.b.real_op(Op::FromInt(x))).to_vec())
            }
            (_, Value::Scalar(x)) => match (ty.as_str(), self.b.ty(*x)) {
                ("Real", Type::Int | Type::Index(_)) => Value::Scalar(self.b.real_op(Op::FromInt(*x))),
                ("i64", Type::Real) => Value::Scalar(self.b.op_value(Op::ToInt(*x))),
                ("i64", Type::Index(_)) => Value::Scalar(self.b.op_value(Op::Number(*x))),
                ("i64", Type::Bool) => {
                    let [zero, one] = [0, 1].map(|n| self.b.op_value(Op::Int(n)));
                    Value::Scalar(self.either(*x, one, zero))
                }
                _ => return self.no_cast(&v, c),
            },
            _ => return self.no_cast(&v, c),
        })
    }

    fn no_cast(&self, v: &Value, c: &syn::ExprCast) -> Result<Value> {
        err(c, format!("a {} does not become a {} by `as`", self.type_of(v), type_name(&c.ty)))
    }

    /// One of two values, by a condition.
    pub(in crate::lower) fn either(&mut self, condition: Val, x: Val, y: Val) -> Val {
        let result = self.declared_variable(y);
        self.b.push(Stmt::If { condition, then: vec![Stmt::Assign(result, x)], otherwise: vec![] });
        self.b.emit(Op::Read(result), self.b.ty(x))
    }

    /// A short-circuit operator: the second operand is computed only if needed, because it may index by values that the
    /// first one has checked.
    pub(in crate::lower) fn short_circuit(&mut self, b: &syn::ExprBinary) -> Result<Value> {
        let first = self.boolean(&b.left)?;
        let result = self.declared_variable(first);
        let [(second, ()), _] = self.branches(
            |l| {
                let second = l.boolean(&b.right)?;
                l.b.push(Stmt::Assign(result, second));
                Ok(())
            },
            |_| Ok(()),
        )?;
        let (then, otherwise) =
            if matches!(b.op, BinOp::And(_)) { (second, vec![]) } else { (vec![], second) };
        self.b.push(Stmt::If { condition: first, then, otherwise });
        Ok(Value::Scalar(self.b.emit(Op::Read(result), Type::Bool)))
    }

    /// `if c { a } else { b }`, whose branches are blocks.
    pub(in crate::lower) fn value_of_branches(&mut self, f: &syn::ExprIf) -> Result<Value> {
        let condition = self.boolean(&f.cond)?;
        let Some((_, otherwise)) = &f.else_branch else {
            return err(f, "an `if` used as a value has an `else`: `if c { a } else { b }`");
        };
        let [(mut then, a), (mut other, b)] =
            self.branches(|l| l.value_of_block(&f.then_branch, f), |l| l.expr(otherwise))?;
        let (want, have) = (self.type_of(&a), self.type_of(&b));
        if want != have {
            return err(f, format!("both branches must be of one type, and these are {want} and {have}"));
        }
        // What a branch computes ends with it.
        let nothing = a.with(|v| match self.b.ty(v) {
            Type::Real => self.b.real(0.0),
            Type::Bool => self.b.op_value(Op::Bool(false)),
            Type::Int | Type::Index(_) => self.b.op_value(Op::Int(0)),
        });
        let Value::Variable(first, _) = self.variable(nothing) else { unreachable!("a variable was made") };
        for (n, (a, b)) in a.parts().into_iter().zip(b.parts()).enumerate() {
            then.push(Stmt::Assign(first + n, a));
            other.push(Stmt::Assign(first + n, b));
        }
        self.b.push(Stmt::If { condition, then, otherwise: other });
        Ok(self.now(first, &a))
    }

    /// A block whose last expression is its value.
    pub(in crate::lower) fn value_of_block(
        &mut self,
        block: &syn::Block,
        at: &impl quote::ToTokens,
    ) -> Result<Value> {
        let Some((syn::Stmt::Expr(last, None), before)) = block.stmts.split_last() else {
            return err(at, "a block used as a value ends in an expression");
        };
        let (stmts, value) = self.nested(|l| {
            l.block(before)?;
            l.expr(last)
        })?;
        stmts.into_iter().for_each(|s| self.b.push(s));
        Ok(value)
    }

    /// Ends the row where a divisor is 0.
    pub(in crate::lower) fn check_divisor(&mut self, v: Val) {
        if matches!(self.b.op(v), Op::Int(n) if *n != 0) {
            return;
        }
        let zero = self.b.op_value(Op::Int(0));
        let condition = self.b.op_value(Op::CompareIntegers(Compare::Eq, v, zero));
        let then = vec![Stmt::Signal(Reason::Division, None), Stmt::Return];
        self.b.push(Stmt::If { condition, then, otherwise: vec![] });
    }

    /// The number of rows of an array.
    pub(in crate::lower) fn length(&mut self, param: ParamId, m: &syn::ExprMethodCall) -> Result<Value> {
        match self.params[param].kind.dim() {
            Some(dim) => Ok(Value::Scalar(self.b.op_value(Op::Size(dim)))),
            None => err(m, "only an array with rows has a number of them"),
        }
    }

    /// A call that stands alone.
    pub(super) fn call_statement(&mut self, c: &syn::ExprCall) -> Result<()> {
        let (name, args) = syntax::call(c)?;
        match name.as_str() {
            "raise" => self.raise(c, &args),
            "atomic_add" | "atomic_max" | "atomic_min" => self.expr(&Expr::Call(c.clone())).map(|_| ()),
            _ => err(c, "a function's value is used: `let x = …`"),
        }
    }

    fn raise(&mut self, c: &syn::ExprCall, args: &[&Expr]) -> Result<()> {
        let reasons = [
            ("CAPACITY", Reason::Capacity),
            ("INDEX", Reason::Index),
            ("COINCIDENT", Reason::Coincident),
            ("NOT_FINITE", Reason::NotFinite),
            ("OVERFLOW", Reason::Overflow),
        ];
        let (reason, param) = match args {
            [reason] => (*reason, None),
            [reason, array] => (*reason, Some(self.param_named(array)?)),
            _ => return err(c, "`raise(REASON)`, or `raise(REASON, array)`"),
        };
        let known = |e: &Expr| match e {
            Expr::Path(p) => reasons.iter().find(|r| p.path.is_ident(r.0)).map(|r| r.1),
            _ => None,
        };
        let Some(reason) = known(reason) else {
            let names = reasons.map(|r| r.0).join(", ");
            return err(reason, format!("a reason is one of {names}"));
        };
        self.b.push(Stmt::Signal(reason, param));
        Ok(())
    }

    /// `atomic_add(counts[c], 1)`: the value before.
    pub(in crate::lower) fn atomic(&mut self, op: Atomic, at: &Expr, value: &Expr) -> Result<Value> {
        let place = self.target(at)?;
        let Kind::Integers { .. } = self.params[place.param].kind else {
            return err(
                at,
                "reals are not counted atomically: their sum would depend on the order of rows (write one per row and \
                 sum these, or count in integers of a fixed unit)",
            );
        };
        let value = self.int(value)?;
        self.write(place);
        let atomic = Op::Atomic { op, param: place.param, row: place.row, value };
        Ok(Value::Scalar(self.b.op_value(atomic)))
    }

    pub(in crate::lower) fn smaller_or_larger(
        &mut self,
        is_smaller: bool,
        x: &Expr,
        y: &Expr,
        c: &syn::ExprCall,
    ) -> Result<Value> {
        let (Value::Scalar(x), Value::Scalar(y)) = (self.expr(x)?, self.expr(y)?) else {
            return err(c, "expected two Reals or two integers");
        };
        // The second where they cannot be compared, as in other kernels.
        let (a, b) = if is_smaller { (x, y) } else { (y, x) };
        let first = match (self.b.ty(x), self.b.ty(y)) {
            (Type::Real, Type::Real) => Op::Lt(a, b),
            (Type::Int, Type::Int) => Op::CompareIntegers(Compare::Lt, a, b),
            _ => return err(c, "expected two Reals or two integers"),
        };
        let first = self.b.op_value(first);
        Ok(Value::Scalar(self.either(first, x, y)))
    }

    /// |n|
    pub(in crate::lower) fn magnitude(&mut self, x: Val) -> Val {
        let zero = self.b.op_value(Op::Int(0));
        let opposite = self.b.op_value(Op::Integers(IntegerOp::Sub, zero, x));
        let larger = self.b.op_value(Op::CompareIntegers(Compare::Lt, opposite, x));
        self.either(larger, x, opposite)
    }
}
