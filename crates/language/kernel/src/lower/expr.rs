//! Expressions.

use super::{Lower, Value, err, syntax, type_name};
use crate::ir::{Array, Dim, IntegerOp, Kind, Op, ParamId, Shape, Type, Val};
use quote::ToTokens;
use syn::{BinOp, Expr, ExprLit, Lit, Result, UnOp};

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

    /// A row of a dimension, of which an array has elements.
    pub(super) fn row(&mut self, e: &Expr, dim: Dim, param: ParamId) -> Result<Val> {
        if self.b.in_order {
            return self.checked_row(e, dim, param);
        }
        let row = self.index(e)?;
        self.check_row(dim, row, e)?;
        Ok(row)
    }

    pub(super) fn int(&mut self, e: &Expr) -> Result<Val> {
        let ty = match self.expr(e)? {
            Value::Scalar(v) if self.b.ty(v) == Type::Int => return Ok(v),
            Value::Scalar(v) => Some(self.b.ty(v)),
            _ => None,
        };
        let message = match ty {
            _ if !self.b.in_order => {
                "expected an integer: a constant, an `i32` attribute or the variable of a range loop"
            }
            Some(Type::Real) => {
                "expected an integer (a real without its fraction is `x as i64`, after `floor(x)` rounded down)"
            }
            Some(Type::Index(_)) => "expected an integer (the number of a row is `row as i64`)",
            _ => "expected an integer",
        };
        err(e, message)
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

    pub(super) fn components(&self, v: &Value, wanted: Shape, at: &impl ToTokens) -> Result<Vec<Val>> {
        match self.reals(v) {
            Some((shape, components)) if shape == wanted => Ok(components),
            _ => err(at, format!("expected a {}", wanted.word())),
        }
    }

    pub(super) fn negated(&mut self, v: Value, at: &impl ToTokens) -> Result<Value> {
        let in_order = self.b.in_order;
        let has_sign = match &v {
            Value::Scalar(a) => match self.b.ty(*a) {
                Type::Real => true,
                Type::Int => in_order,
                _ => false,
            },
            Value::IVec3(_) => in_order,
            v => matches!(v, Value::Tensor(..)),
        };
        if !has_sign && in_order {
            return err(at, format!("a {} has no sign", self.type_of(&v)));
        }
        if !has_sign {
            return err(
                at,
                "only reals, vectors and matrices have a sign here: write `0 - n` for an integer",
            );
        }
        Ok(v.with(|x| match self.b.ty(x) {
            Type::Int => {
                let zero = self.b.op_value(Op::Int(0));
                self.b.op_value(Op::Integers(IntegerOp::Sub, zero, x))
            }
            _ => self.b.real_op(Op::Neg(x)),
        }))
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
            Expr::Lit(l) if self.b.in_order => match &l.lit {
                Lit::Bool(b) => Ok(Value::Scalar(self.b.op_value(Op::Bool(b.value)))),
                l => err(l, "there are numbers, `true` and `false`"),
            },
            Expr::Path(p) => self.name(p, e),
            Expr::Unary(u) => match u.op {
                UnOp::Neg(_) => {
                    let v = self.expr(&u.expr)?;
                    self.negated(v, &u.expr)
                }
                UnOp::Not(_) if self.b.in_order => match self.expr(&u.expr)? {
                    Value::Scalar(v) if self.b.ty(v) == Type::Bool => {
                        Ok(Value::Scalar(self.b.op_value(Op::Not(v))))
                    }
                    Value::Scalar(v) if self.b.ty(v) == Type::Int => {
                        let ones = self.b.op_value(Op::Int(-1));
                        Ok(Value::Scalar(self.b.op_value(Op::Integers(IntegerOp::Xor, v, ones))))
                    }
                    _ => err(e, "only conditions and integers have an opposite"),
                },
                UnOp::Not(_) => {
                    let c = self.boolean(&u.expr)?;
                    Ok(Value::Scalar(self.b.op_value(Op::Not(c))))
                }
                _ if self.b.in_order => {
                    let place = self.place(e)?;
                    self.read_place(place, e)
                }
                _ => err(
                    e,
                    "an input of one element is read by its name, without `*` (a power is `pow(x, n)`)",
                ),
            },
            Expr::Binary(b) if self.b.in_order && matches!(b.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.short_circuit(b)
            }
            Expr::Binary(b) => {
                syntax::check_power(b)?;
                let (l, r) = (self.expr(&b.left)?, self.expr(&b.right)?);
                if syntax::is_compound(&b.op) {
                    return self.mismatch(&l, &r, b);
                }
                self.operate(&b.op, &l, &r, b)
            }
            Expr::Index(_) if self.b.in_order => {
                if let Some(element) = self.element(e)? {
                    return Ok(element);
                }
                let place = self.place(e)?;
                self.read_place(place, e)
            }
            Expr::Index(ix) => match self.element(e)? {
                Some(element) => Ok(self.read(element, e)),
                None => self.indexed(ix),
            },
            Expr::Array(a) if !self.b.in_order => self.array(a),
            Expr::Repeat(r) if !self.b.in_order => self.repeat(r),
            Expr::Field(f) => self.field(f),
            Expr::Call(c) => self.call(c),
            Expr::MethodCall(m) => self.method(m),
            Expr::Cast(c) if self.b.in_order => self.cast(c),
            Expr::Cast(c) if type_name(&c.ty) == "Real" => {
                let v = self.int(&c.expr)?;
                Ok(Value::Scalar(self.b.real_op(Op::FromInt(v))))
            }
            Expr::If(f) if self.b.in_order => self.value_of_branches(f),
            Expr::If(f) => self.if_expression(f),
            Expr::Block(b) if self.b.in_order => self.value_of_block(&b.block, b),
            Expr::Block(b) => match b.block.stmts.as_slice() {
                [syn::Stmt::Expr(e, None)] => self.expr(e),
                _ => err(b, "a block used as a value holds one expression"),
            },
            e => {
                let message = if self.b.in_order {
                    "this expression is not part of the kernel language: there are names, numbers, operators, `array[row]`, \
                     `v.x`, functions, `n as Real`, `x as i64` and `if c { a } else { b }`"
                } else {
                    "this expression is not part of the kernel language: there are names, numbers, operators, `array[row]`, \
                     `v.x`, functions, `n as Real` and `if c { a } else { b }`"
                };
                err(e, message)
            }
        }
    }

    fn name(&mut self, p: &syn::ExprPath, at: &Expr) -> Result<Value> {
        let name = p.path.require_ident()?.to_string();
        match self.lookup(&name) {
            Some(v @ (Value::Sum(..) | Value::Array(_))) => Ok(self.read(v, at)),
            Some(Value::Variable(first, like)) => Ok(self.now(first, &like)),
            Some(Value::Param(id)) if self.b.in_order => match self.params[id].kind.structure() {
                Some(_) => err(
                    p,
                    "batches, maps and pair lists are used as `batch.of(row)`, `map.of(row)` and in loops over their rows",
                ),
                None => {
                    err(p, format!("say which element of it: `{name}[row]`, or `*{name}` where there is one"))
                }
            },
            Some(Value::Channels(_, dim, _)) => {
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
            Kind::Real { dim: Some(dim), .. } => {
                self.check_row(dim, row, &ix.index)?;
                Ok(self.load(param, Some(row), None))
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
        if !matches!(v, Value::IVec3(_) | Value::Tensor(Shape::Vector(_), _)) {
            return err(&f.base, "only vectors have components (rows of a matrix: `row(m, 0)`)");
        }
        let components = v.parts();
        let names = &["x", "y", "z", "w"][..components.len()];
        let component = match &f.member {
            syn::Member::Named(name) => names.iter().position(|c| name == c),
            syn::Member::Unnamed(_) => None,
        };
        match component {
            Some(c) => Ok(Value::Scalar(components[c])),
            None => {
                let (last, first) = names.split_last().expect("components");
                let message =
                    format!("components of a {} are .{} and .{last}", self.type_of(&v), first.join(", ."));
                err(&f.member, message)
            }
        }
    }

    fn method(&mut self, m: &syn::ExprMethodCall) -> Result<Value> {
        let in_order = self.b.in_order;
        if !in_order && matches!(m.method.to_string().as_str(), "system" | "wave" | "count" | "modulus") {
            return self.wave_method(m);
        }
        let forms = if in_order {
            "methods are `batch.of(row)`, `map.of(row)` and `array.len()`; functions are called as `sqrt(x)`"
        } else {
            "methods are `batch.of(row)`, `map.of(row)` and `mesh.wave(w)`, and in loops `batch.members(system)`, `pairs.row(i)` and `grid.query(x[i], radius)`; \
                     functions are called as `sqrt(x)`"
        };
        let is_length = in_order && m.method == "len";
        if m.method != "of" && !is_length {
            return err(m, syntax::no_method(&m.method, forms));
        }
        let batch = self.param_named(&m.receiver)?;
        if is_length {
            return if m.args.is_empty() { self.length(batch, m) } else { err(m, forms) };
        }
        let [arg] = m.args.iter().collect::<Vec<_>>()[..] else { return err(m, forms) };
        if let Kind::Map { rows, into } = self.params[batch].kind {
            let row = self.row(arg, rows, batch)?;
            let element = Op::IndexOf { param: batch, array: Array::MapOf, row };
            return Ok(Value::Scalar(self.b.emit(element, Type::Index(into))));
        }
        let Kind::Batch { rows, systems } = self.params[batch].kind else { return err(m, forms) };
        let row = self.row(arg, rows, batch)?;
        // Pairs never cross systems, and a member's system is the one it was found in.
        match *self.b.op(row) {
            _ if in_order => Ok(Value::Scalar(self.b.emit(Op::system(batch, row), Type::Index(systems)))),
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
        match (self.reals(&a), self.reals(&b)) {
            (Some((shape, a)), Some((other, b))) if shape == other => {
                let select = a.into_iter().zip(b).map(|(a, b)| self.b.real_op(Op::Select(c, a, b)));
                Ok(Value::of(shape, select.collect()))
            }
            _ => err(f, "both branches must be reals, or vectors or matrices of one type"),
        }
    }
}
