//! Expressions.

use super::{Lower, Value, err, syntax, type_name};
use crate::ir::{Array, Function, Kind, Op, Type, Val};
use quote::ToTokens;
use rustc_hash::FxHashMap as HashMap;
use syn::{BinOp, Expr, ExprLit, ItemFn, Lit, Pat, Result, UnOp};

/// The result of a function.
pub(super) enum Returned {
    One(Value),
    Tuple(Vec<Val>),
}

impl Lower<'_> {
    pub(super) fn param_named(&mut self, e: &Expr) -> Result<usize> {
        if let Expr::Path(p) = e
            && let Some(name) = p.path.get_ident()
        {
            return match self.lookup(&name.to_string()) {
                Some(Value::Param(id)) => Ok(id),
                Some(_) => err(e, format!("`{name}` is not an array, batch or pair list")),
                None => err(e, format!("there is no parameter `{name}`")),
            };
        }
        err(e, "expected the name of a parameter")
    }

    pub(super) fn index(&mut self, e: &Expr) -> Result<Val> {
        match self.expr(e)? {
            Value::Scalar(v) => Ok(v),
            _ => err(e, "expected a row: the kernel's own, a pair's column, a member or `batch.of(row)`"),
        }
    }

    pub(super) fn int(&mut self, e: &Expr) -> Result<Val> {
        match self.expr(e)? {
            Value::Scalar(v) if self.b.ty(v) == Type::Int => Ok(v),
            _ => {
                err(e, "expected an integer: a constant, an `i32` attribute or the variable of a range loop")
            }
        }
    }

    pub(super) fn boolean(&mut self, e: &Expr) -> Result<Val> {
        match self.expr(e)? {
            Value::Scalar(v) if self.b.ty(v) == Type::Bool => Ok(v),
            _ => err(e, "expected a condition: a comparison, or several joined by && || !"),
        }
    }

    pub(super) fn real(&mut self, e: &Expr) -> Result<Val> {
        match self.expr(e)? {
            Value::Scalar(v) if self.b.ty(v) == Type::Real => Ok(v),
            _ => err(e, "expected a Real (an integer becomes one as `n as Real`; a constant is `1.0`)"),
        }
    }

    pub(super) fn components(&mut self, v: &Value, n: usize, at: &impl ToTokens) -> Result<Vec<Val>> {
        match v {
            Value::Scalar(a) if n == 1 && self.b.ty(*a) == Type::Real => Ok(vec![*a]),
            Value::Vec3(a) if n == 3 => Ok(a.to_vec()),
            Value::Mat3(a) if n == 9 => Ok(a.to_vec()),
            _ => err(
                at,
                format!(
                    "expected a {}",
                    if n == 1 {
                        "Real"
                    } else if n == 3 {
                        "Vec3"
                    } else {
                        "Mat3"
                    }
                ),
            ),
        }
    }

    pub(super) fn negated(&mut self, v: Value, at: &impl ToTokens) -> Result<Value> {
        Ok(match v {
            Value::Scalar(a) if self.b.ty(a) == Type::Real => Value::Scalar(self.b.real_op(Op::Neg(a))),
            Value::Vec3(a) => Value::Vec3(a.map(|x| self.b.real_op(Op::Neg(x)))),
            Value::Mat3(a) => Value::Mat3(a.map(|x| self.b.real_op(Op::Neg(x)))),
            _ => return err(at, "only Real, Vec3 and Mat3 have a sign here: write `0 - n` for an integer"),
        })
    }

    pub(super) fn expr(&mut self, e: &Expr) -> Result<Value> {
        match e {
            Expr::Paren(p) => self.expr(&p.expr),
            Expr::Group(p) => self.expr(&p.expr),
            Expr::Lit(ExprLit { lit: Lit::Float(x), .. }) => {
                Ok(Value::Scalar(self.b.real(syntax::number(x)?)))
            }
            Expr::Lit(ExprLit { lit: Lit::Int(x), .. }) => {
                let x: i64 = x.base10_parse()?;
                Ok(Value::Scalar(self.b.op_value(Op::Int(x))))
            }
            Expr::Path(p) => self.name(p, e),
            Expr::Unary(u) => match u.op {
                UnOp::Neg(_) => {
                    let v = self.expr(&u.expr)?;
                    self.negated(v, &u.expr)
                }
                UnOp::Not(_) => {
                    let c = self.boolean(&u.expr)?;
                    Ok(Value::Scalar(self.b.op_value(Op::Not(c))))
                }
                _ => err(
                    e,
                    "an input of one element is read by its name, without `*` (a power is `pow(x, n)`)",
                ),
            },
            Expr::Binary(b) => self.binary(b),
            Expr::Index(ix) => match self.element(e)? {
                Some(element) => Ok(self.read(element, e)),
                None => self.indexed(ix),
            },
            Expr::Array(a) => self.array(a),
            Expr::Repeat(r) => self.repeat(r),
            Expr::Field(f) => self.field(f),
            Expr::Call(c) => self.call(c),
            Expr::MethodCall(m) => self.method(m),
            Expr::Cast(c) if type_name(&c.ty) == "Real" => {
                let v = self.int(&c.expr)?;
                Ok(Value::Scalar(self.b.real_op(Op::FromInt(v))))
            }
            Expr::If(f) => self.if_expression(f),
            Expr::Block(b) => match b.block.stmts.as_slice() {
                [syn::Stmt::Expr(e, None)] => self.expr(e),
                _ => err(b, "a block used as a value holds one expression"),
            },
            e => err(
                e,
                "this expression is not part of the kernel language: there are names, numbers, operators, `array[row]`, \
                 `v.x`, functions, `n as Real` and `if c { a } else { b }`",
            ),
        }
    }

    fn name(&mut self, p: &syn::ExprPath, at: &Expr) -> Result<Value> {
        let name = p.path.require_ident()?.to_string();
        match self.lookup(&name) {
            Some(v @ (Value::Sum(..) | Value::Array(_))) => Ok(self.read(v, at)),
            Some(Value::Channels(_, dim)) => {
                let dim = self.dim_name(dim);
                err(p, format!("`{name}` has a sum for each channel: `{name}[c]` in a loop `for c in {dim}`"))
            }
            Some(Value::Param(id)) if matches!(self.params[id].kind, Kind::Output { .. }) => {
                err(p, "an output cannot be read: its old value is gone in the backward pass")
            }
            Some(v) => Ok(v),
            None if name == "PI" => Ok(Value::Scalar(self.b.real(std::f64::consts::PI))),
            None => err(
                p,
                format!(
                    "there is no `{name}` here: a kernel sees its parameters, its own names and `PI`, no globals"
                ),
            ),
        }
    }

    fn indexed(&mut self, ix: &syn::ExprIndex) -> Result<Value> {
        if let Some(value) = self.channel_value(ix)? {
            return Ok(value);
        }
        let value = match &*ix.expr {
            Expr::Path(p) => p.path.get_ident().and_then(|name| self.lookup(&name.to_string())),
            e => self.expr(e).ok(),
        };
        match value {
            Some(Value::Vec3(_) | Value::IVec3(_) | Value::Sum(_, 3)) => {
                return err(ix, syntax::components(ix));
            }
            Some(Value::Mat3(_)) => return err(ix, syntax::rows(ix)),
            _ => {}
        }
        let param = self.param_named(&ix.expr)?;
        let kind = self.params[param].kind;
        if matches!(kind, Kind::Output { .. }) {
            return err(&ix.expr, "an output cannot be read: its old value is gone in the backward pass");
        }
        let row = self.index(&ix.index)?;
        match kind {
            Kind::Real { width: Some(width), .. } => {
                let width = self.dim_name(width);
                err(ix, format!("this array has channels: `array[row][c]` in a loop `for c in {width}`"))
            }
            Kind::Real { dim: Some(dim), components, .. } => {
                self.check_row(dim, row, &ix.index)?;
                Ok(self.load(param, Some(row), components))
            }
            Kind::Ints { dim, components } => {
                self.check_row(dim, row, &ix.index)?;
                let mut at = |component| self.b.real_op(Op::LoadInt { param, row, component });
                Ok(if components == 1 { Value::Scalar(at(0)) } else { Value::IVec3([0, 1, 2].map(at)) })
            }
            _ => err(
                &ix.expr,
                "only arrays with rows are indexed (batches and pairs: `batch.of(row)`, `pairs.row(i)`)",
            ),
        }
    }

    fn field(&mut self, f: &syn::ExprField) -> Result<Value> {
        let v = self.expr(&f.base)?;
        let syn::Member::Named(name) = &f.member else { return err(f, "components are .x, .y and .z") };
        let c = match name.to_string().as_str() {
            "x" => 0,
            "y" => 1,
            "z" => 2,
            _ => return err(f, "components are .x, .y and .z"),
        };
        match v {
            Value::Vec3(a) | Value::IVec3(a) => Ok(Value::Scalar(a[c])),
            _ => err(&f.base, "only vectors have components"),
        }
    }

    fn method(&mut self, m: &syn::ExprMethodCall) -> Result<Value> {
        if matches!(m.method.to_string().as_str(), "system" | "wave" | "count" | "modulus") {
            return self.wave_method(m);
        }
        let forms = "methods are `batch.of(row)`, `map.of(row)` and `mesh.wave(w)`, and in loops `batch.members(system)`, `pairs.row(i)` and `grid.query(x[i], radius)`; \
                     functions are called as `sqrt(x)`";
        if m.method != "of" {
            return err(m, syntax::no_method(&m.method, forms));
        }
        let batch = self.param_named(&m.receiver)?;
        let [arg] = m.args.iter().collect::<Vec<_>>()[..] else { return err(m, forms) };
        let row = self.index(arg)?;
        if let Kind::Map { rows, into } = self.params[batch].kind {
            self.check_row(rows, row, arg)?;
            return Ok(Value::Scalar(
                self.b.emit(Op::IndexOf { param: batch, array: Array::MapOf, row }, Type::Index(into)),
            ));
        }
        let Kind::Batch { rows, systems } = self.params[batch].kind else { return err(m, forms) };
        self.check_row(rows, row, arg)?;
        // Pairs never cross systems, and a member's system is the one it was found in.
        match *self.b.op(row) {
            Op::PairColumn(_) => {
                let mine = Kind::Batch { rows: self.index, systems };
                let Some(batch) = self.params.iter().position(|p| p.kind == mine) else {
                    let (own, systems) = (self.dim_name(self.index), self.dim_name(systems));
                    return err(
                        arg,
                        format!(
                            "a pair's system is that of its row: declare `&Batch<{own}, {systems}>` as well"
                        ),
                    );
                };
                let row = self.b.emit(Op::Row, Type::Index(self.index));
                Ok(Value::Scalar(self.b.emit(Op::system(batch, row), Type::Index(systems))))
            }
            Op::LoopVar(l) if self.member_of.get(&l).is_some_and(|(b, _)| *b == batch) => {
                Ok(Value::Scalar(self.member_of[&l].1))
            }
            Op::Row => Ok(Value::Scalar(self.b.emit(Op::system(batch, row), Type::Index(systems)))),
            _ => err(
                arg,
                "`of` takes the kernel's own row, a pair's column or a member, not a system: use two kernels",
            ),
        }
    }

    fn if_expression(&mut self, f: &syn::ExprIf) -> Result<Value> {
        let c = self.boolean(&f.cond)?;
        let one = |stmts: &[syn::Stmt]| match stmts {
            [syn::Stmt::Expr(e, None)] => Some(e.clone()),
            _ => None,
        };
        let then = one(&f.then_branch.stmts);
        let otherwise = match f.else_branch.as_ref().map(|(_, e)| &**e) {
            Some(Expr::Block(b)) => one(&b.block.stmts),
            Some(e @ Expr::If(_)) => Some(e.clone()),
            _ => None,
        };
        let (Some(then), Some(otherwise)) = (then, otherwise) else {
            return err(
                f,
                "an `if` used as a value has one expression in each branch: `if c { a } else { b }`",
            );
        };
        let (a, b) = (self.expr(&then)?, self.expr(&otherwise)?);
        match (a, b) {
            (Value::Scalar(a), Value::Scalar(b))
                if self.b.ty(a) == Type::Real && self.b.ty(b) == Type::Real =>
            {
                Ok(Value::Scalar(self.b.real_op(Op::Select(c, a, b))))
            }
            (Value::Vec3(a), Value::Vec3(b)) => {
                Ok(Value::Vec3([0, 1, 2].map(|k| self.b.real_op(Op::Select(c, a[k], b[k])))))
            }
            _ => err(f, "both branches must be Real, or both Vec3"),
        }
    }

    fn binary(&mut self, e: &syn::ExprBinary) -> Result<Value> {
        syntax::check_power(e)?;
        let (l, r) = (self.expr(&e.left)?, self.expr(&e.right)?);
        let row = |l: &Self, v: &Value| matches!(v, Value::Scalar(v) if matches!(l.b.ty(*v), Type::Index(_)));
        if row(self, &l) || row(self, &r) {
            return match self.same_row(e.op, &l, &r) {
                Some(same) => Ok(Value::Scalar(same)),
                None => err(
                    e,
                    "a row is not a number: it only says which element of an array is meant (a member of its own system \
                     compares with it by == and !=)",
                ),
            };
        }
        let mismatch = || {
            err(
                e,
                "the operands do not fit this operator: there are + - * / < <= > >= == on Real, + - * < > == on i32, && || \
                 on conditions, + - on Vec3 and Mat3 and their products (Real and i32 do not mix: write `n as Real`, `1.0`); \
                 powers are `pow(x, 6)`",
            )
        };
        if let (Value::Scalar(a), Value::Scalar(b)) = (&l, &r) {
            let (a, b) = (*a, *b);
            let op = match (self.b.ty(a), self.b.ty(b)) {
                (Type::Real, Type::Real) => match e.op {
                    BinOp::Add(_) => Op::Add(a, b),
                    BinOp::Sub(_) => Op::Sub(a, b),
                    BinOp::Mul(_) => Op::Mul(a, b),
                    BinOp::Div(_) => {
                        let inverse = self.b.real_op(Op::Recip(b));
                        Op::Mul(a, inverse)
                    }
                    BinOp::Lt(_) => Op::Lt(a, b),
                    BinOp::Gt(_) => Op::Lt(b, a),
                    BinOp::Le(_) => Op::Le(a, b),
                    BinOp::Ge(_) => Op::Le(b, a),
                    BinOp::Eq(_) => Op::Eq(a, b),
                    _ => return mismatch(),
                },
                (Type::Int, Type::Int) => match e.op {
                    BinOp::Add(_) => Op::IAdd(a, b),
                    BinOp::Sub(_) => Op::ISub(a, b),
                    BinOp::Mul(_) => Op::IMul(a, b),
                    BinOp::Lt(_) => Op::ILt(a, b),
                    BinOp::Gt(_) => Op::ILt(b, a),
                    BinOp::Eq(_) => Op::IEq(a, b),
                    _ => return mismatch(),
                },
                (Type::Bool, Type::Bool) => match e.op {
                    BinOp::And(_) | BinOp::BitAnd(_) => Op::And(a, b),
                    BinOp::Or(_) | BinOp::BitOr(_) => Op::Or(a, b),
                    _ => return mismatch(),
                },
                _ => return mismatch(),
            };
            return Ok(Value::Scalar(self.b.op_value(op)));
        }
        match (e.op, l, r) {
            (BinOp::Add(_), Value::Vec3(a), Value::Vec3(b)) => Ok(Value::Vec3(self.zip(a, b, Op::Add))),
            (BinOp::Sub(_), Value::Vec3(a), Value::Vec3(b)) => Ok(Value::Vec3(self.zip(a, b, Op::Sub))),
            (BinOp::Add(_), Value::Mat3(a), Value::Mat3(b)) => Ok(Value::Mat3(self.zip(a, b, Op::Add))),
            (BinOp::Sub(_), Value::Mat3(a), Value::Mat3(b)) => Ok(Value::Mat3(self.zip(a, b, Op::Sub))),
            (BinOp::Mul(_), Value::Vec3(a), Value::Scalar(s))
            | (BinOp::Mul(_), Value::Scalar(s), Value::Vec3(a))
                if self.b.ty(s) == Type::Real =>
            {
                Ok(Value::Vec3(a.map(|x| self.b.real_op(Op::Mul(x, s)))))
            }
            (BinOp::Mul(_), Value::Mat3(a), Value::Scalar(s))
            | (BinOp::Mul(_), Value::Scalar(s), Value::Mat3(a))
                if self.b.ty(s) == Type::Real =>
            {
                Ok(Value::Mat3(a.map(|x| self.b.real_op(Op::Mul(x, s)))))
            }
            (BinOp::Div(_), Value::Vec3(a), Value::Scalar(s)) if self.b.ty(s) == Type::Real => {
                let s = self.b.real_op(Op::Recip(s));
                Ok(Value::Vec3(a.map(|x| self.b.real_op(Op::Mul(x, s)))))
            }
            // A row vector times a matrix: the rows of a cell are its lattice vectors.
            (BinOp::Mul(_), Value::Vec3(a) | Value::IVec3(a), Value::Mat3(m)) => {
                Ok(Value::Vec3([0, 1, 2].map(|c| self.dot3(a, [m[c], m[3 + c], m[6 + c]]))))
            }
            (BinOp::Mul(_), Value::Mat3(a), Value::Mat3(m)) => {
                let mut out = [0; 9];
                for (k, o) in out.iter_mut().enumerate() {
                    let (r, c) = (k / 3, k % 3);
                    *o = self.dot3([a[3 * r], a[3 * r + 1], a[3 * r + 2]], [m[c], m[3 + c], m[6 + c]]);
                }
                Ok(Value::Mat3(out))
            }
            _ => mismatch(),
        }
    }

    /// Whether a member of the row's own system is the row itself: they have one place in it.
    fn same_row(&mut self, op: BinOp, l: &Value, r: &Value) -> Option<Val> {
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

    fn zip<const N: usize>(&mut self, a: [Val; N], b: [Val; N], op: fn(Val, Val) -> Op) -> [Val; N] {
        std::array::from_fn(|k| self.b.real_op(op(a[k], b[k])))
    }

    fn dot3(&mut self, a: [Val; 3], b: [Val; 3]) -> Val {
        let [x, y, z] = self.zip(a, b, Op::Mul);
        let xy = self.b.real_op(Op::Add(x, y));
        self.b.real_op(Op::Add(xy, z))
    }

    fn call(&mut self, c: &syn::ExprCall) -> Result<Value> {
        let (name, args) = syntax::call(c)?;
        if let Some(f) = self.funcs.values.get(&name).copied() {
            return self.inline(f, &args, c);
        }
        let vec3 = |l: &mut Self, e: &Expr| match l.expr(e)? {
            Value::Vec3(v) | Value::IVec3(v) => Ok(v),
            _ => err(e, "expected a Vec3"),
        };
        let scalar = |op: Op, l: &mut Self| Ok(Value::Scalar(l.b.real_op(op)));
        match (name.as_str(), args.as_slice()) {
            ("stop_gradient", [x]) => self.stop_gradient(x),
            ("sqrt", [x]) => scalar(Op::Sqrt(self.real(x)?), self),
            ("nearest", [x]) => scalar(Op::Nearest(self.real(x)?), self),
            ("atan2", [y, x]) => scalar(Op::Atan2(self.real(y)?, self.real(x)?), self),
            ("atan", [x]) => {
                let (x, one) = (self.real(x)?, self.b.real(1.0));
                scalar(Op::Atan2(x, one), self)
            }
            ("pow", [x, Expr::Lit(ExprLit { lit: Lit::Int(n), .. })]) => {
                let x = self.real(x)?;
                let n: u32 = n.base10_parse()?;
                if n > 64 {
                    return err(c, "an integer power is multiplied out, up to 64: write `pow(x, 100.0)`");
                }
                Ok(Value::Scalar(self.integer_power(x, n)))
            }
            ("pow", [x, y]) => scalar(Op::Pow(self.real(x)?, self.real(y)?), self),
            ("abs", [x]) => {
                let x = self.real(x)?;
                let (zero, negative) = (self.b.real(0.0), self.b.real_op(Op::Neg(x)));
                let below = self.b.op_value(Op::Lt(x, zero));
                scalar(Op::Select(below, negative, x), self)
            }
            ("min" | "max", [x, y]) => {
                let (x, y) = (self.real(x)?, self.real(y)?);
                let first = if name == "min" { Op::Lt(x, y) } else { Op::Lt(y, x) };
                let first = self.b.op_value(first);
                scalar(Op::Select(first, x, y), self)
            }
            ("dot", [a, b]) => {
                let (a, b) = (vec3(self, a)?, vec3(self, b)?);
                Ok(Value::Scalar(self.dot3(a, b)))
            }
            ("length", [a]) => {
                let a = vec3(self, a)?;
                let square = self.dot3(a, a);
                scalar(Op::Sqrt(square), self)
            }
            ("cross", [a, b]) => {
                let (a, b) = (vec3(self, a)?, vec3(self, b)?);
                Ok(Value::Vec3([(1, 2), (2, 0), (0, 1)].map(|(p, q)| {
                    let (x, y) = (self.b.real_op(Op::Mul(a[p], b[q])), self.b.real_op(Op::Mul(a[q], b[p])));
                    self.b.real_op(Op::Sub(x, y))
                })))
            }
            ("vec3", [x, y, z]) => Ok(Value::Vec3([self.real(x)?, self.real(y)?, self.real(z)?])),
            ("mat3", [x, y, z]) => {
                let rows = [vec3(self, x)?, vec3(self, y)?, vec3(self, z)?];
                Ok(Value::Mat3(std::array::from_fn(|k| rows[k / 3][k % 3])))
            }
            ("row", [m, Expr::Lit(ExprLit { lit: Lit::Int(n), .. })]) => {
                let Value::Mat3(a) = self.expr(m)? else { return err(m, "expected a Mat3") };
                let n: usize = n.base10_parse()?;
                if n > 2 {
                    return err(c, "a Mat3 has rows 0, 1 and 2");
                }
                Ok(Value::Vec3([a[3 * n], a[3 * n + 1], a[3 * n + 2]]))
            }
            (_, args) => match (Function::named(&name), args) {
                (Some(f), [x]) => scalar(Op::Call(f, self.real(x)?), self),
                _ => err(c, syntax::no_function(&name, args.len(), "stop_gradient")),
            },
        }
    }

    /// A value without derivative. An extremum that a loop has found is available without the loop that adds it up.
    fn stop_gradient(&mut self, x: &Expr) -> Result<Value> {
        let found = match x {
            Expr::Path(p) => p.path.get_ident().and_then(|name| match self.lookup(&name.to_string()) {
                Some(Value::Sum(first, 1)) => self.found.get(&first).copied(),
                _ => None,
            }),
            _ => None,
        };
        if let Some(v) = found {
            return Ok(Value::Scalar(v));
        }
        match self.expr(x)? {
            Value::Scalar(v) if self.b.ty(v) == Type::Real => Ok(Value::Scalar(self.b.real_op(Op::Stop(v)))),
            Value::Vec3(v) => Ok(Value::Vec3(v.map(|v| self.b.real_op(Op::Stop(v))))),
            Value::Mat3(v) => Ok(Value::Mat3(v.map(|v| self.b.real_op(Op::Stop(v))))),
            _ => err(x, "only Real, Vec3 and Mat3 have derivatives"),
        }
    }

    fn integer_power(&mut self, x: Val, n: u32) -> Val {
        match n {
            0 => self.b.real(1.0),
            1 => x,
            _ => {
                let half = self.integer_power(x, n / 2);
                let square = self.b.real_op(Op::Mul(half, half));
                if n.is_multiple_of(2) { square } else { self.b.real_op(Op::Mul(square, x)) }
            }
        }
    }

    fn inline(&mut self, f: &ItemFn, args: &[&Expr], at: &syn::ExprCall) -> Result<Value> {
        syntax::check_call(f, &self.inlining, args.len(), at)?;
        let name = f.sig.ident.to_string();
        let values = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>>>()?;
        // A function sees its arguments only.
        let outer = std::mem::replace(&mut self.names, vec![HashMap::default()]);
        for ((arg, value), e) in f.sig.inputs.iter().zip(&values).zip(args) {
            let (id, ty) = syntax::argument(arg)?;
            let fits = match (type_name(ty).as_str(), value) {
                ("Real", Value::Scalar(v)) => self.b.ty(*v) == Type::Real,
                ("i32", Value::Scalar(v)) => self.b.ty(*v) == Type::Int,
                ("Vec3", Value::Vec3(_)) | ("Mat3", Value::Mat3(_)) => true,
                ("Real" | "i32" | "Vec3" | "Mat3", _) => false,
                _ => return err(ty, "an argument is Real, i32, Vec3 or Mat3"),
            };
            if !fits {
                return err(e, format!("`{name}` takes a {} here", type_name(ty)));
            }
            self.bind(id.ident.to_string(), value.clone());
        }
        self.inlining.push(name.clone());
        let result = self.function_body(f);
        self.inlining.pop();
        self.names = outer;
        let Returned::One(value) = result? else { return err(&f.sig, "a function gives back one value") };
        match (self.template(&name)?, &value) {
            (Some(template), Value::Scalar(v)) => {
                let args =
                    values.iter().filter_map(|a| if let Value::Scalar(v) = a { Some(*v) } else { None });
                let op = Op::Own { value: *v, template, args: args.collect() };
                Ok(Value::Scalar(self.b.real_op(op)))
            }
            (Some(_), _) => err(&f.sig, "a function with its own derivative gives back a Real"),
            (None, _) => Ok(value),
        }
    }

    pub(super) fn function_body(&mut self, f: &ItemFn) -> Result<Returned> {
        let (lets, last) = syntax::function_body(f)?;
        for local in lets {
            let (Pat::Ident(name), Some(init)) = (&local.pat, &local.init) else {
                return err(local, "a function is `let`s and one expression at the end");
            };
            if name.mutability.is_some() {
                return err(name, "a function has no sums: `let mut` belongs in the kernel");
            }
            let value = self.expr(&init.expr)?;
            self.bind(name.ident.to_string(), value);
        }
        if let Expr::Tuple(t) = last {
            let values = t.elems.iter().map(|e| self.real(e)).collect::<Result<Vec<_>>>()?;
            return Ok(Returned::Tuple(values));
        }
        Ok(Returned::One(self.expr(last)?))
    }
}
