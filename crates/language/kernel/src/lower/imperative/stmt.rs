//! Statements.

use super::place::conversion;
use super::written::Written;
use super::{Lower, Name, Value, err, syntax, type_name};
use crate::imperative::{Binary, Expr as Computed, Stmt, Type, Unary, Var};
use crate::ir::{Kind, ParamId, Query};
use crate::layout::Array;
use crate::lower::{grid, syntax::is_compound};
use syn::{Expr, Pat, Result};

impl Lower<'_> {
    pub(super) fn block(&mut self, stmts: &[syn::Stmt]) -> Result<()> {
        for s in stmts {
            match s {
                syn::Stmt::Local(local) => self.local(local)?,
                syn::Stmt::Expr(e, _) => self.statement(e)?,
                other => return err(other, STATEMENTS),
            }
        }
        Ok(())
    }

    fn statement(&mut self, e: &Expr) -> Result<()> {
        match e {
            Expr::ForLoop(f) => self.for_loop(f),
            Expr::While(w) => {
                no_label(w.label.as_ref())?;
                self.loop_of(|l| {
                    let condition = l.boolean(&w.cond)?;
                    l.leave_unless(condition);
                    l.block(&w.body.stmts)
                })
            }
            Expr::Loop(w) => {
                no_label(w.label.as_ref())?;
                self.loop_of(|l| l.block(&w.body.stmts))
            }
            Expr::If(f) => self.if_else(f),
            Expr::Block(b) => {
                no_label(b.label.as_ref())?;
                let (body, ()) = self.nested(|l| l.block(&b.block.stmts))?;
                body.into_iter().for_each(|s| self.push(s));
                Ok(())
            }
            Expr::Break(b) => {
                no_label(b.label.as_ref())?;
                if let Some(value) = &b.expr {
                    return err(value, "a loop has no value: assign it to a variable before `break`");
                }
                let here = self.written.end();
                self.in_loop(b, Stmt::Break)?.join(here);
                Ok(())
            }
            Expr::Continue(c) => {
                no_label(c.label.as_ref())?;
                let here = self.written.end();
                self.in_loop(c, Stmt::Continue)?.again(here);
                Ok(())
            }
            Expr::Return(r) => match &r.expr {
                Some(value) => err(value, "a kernel returns nothing: it writes to its `&mut` parameters"),
                None => {
                    self.push(Stmt::Return);
                    self.written.end();
                    Ok(())
                }
            },
            Expr::Assign(a) => self.assign(a),
            Expr::Binary(b) if is_compound(&b.op) => self.compound(b),
            Expr::Call(c) => self.call_statement(c),
            other => err(other, STATEMENTS),
        }
    }

    /// Leaves the innermost loop or its turn: gives what is written where it ends.
    fn in_loop(&mut self, at: &impl quote::ToTokens, s: Stmt) -> Result<&mut Written> {
        if self.exits.is_empty() {
            return err(at, "there is no loop here to leave or go on with: `return` ends the row");
        }
        self.push(s);
        Ok(self.innermost())
    }

    fn innermost(&mut self) -> &mut Written {
        self.exits.last_mut().expect("a loop is open")
    }

    /// A loop. Its first turn finds what was written before it.
    fn loop_of(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.exits.push(Written::nowhere());
        let (body, ()) = self.nested(f)?;
        let turn = self.written.end();
        self.innermost().again(turn);
        self.written = self.exits.pop().expect("pushed above");
        self.push(Stmt::Loop(body));
        Ok(())
    }

    /// Leaves the loop where a condition does not hold.
    fn leave_unless(&mut self, condition: Var) {
        let here = self.written.clone();
        self.innermost().join(here);
        self.push(Stmt::If { condition, then: vec![], otherwise: vec![Stmt::Break] });
    }

    pub(super) fn local(&mut self, local: &syn::Local) -> Result<()> {
        let (pat, ty, init) = syntax::binding(local)?;
        let (name, mutable) = match pat {
            Pat::Ident(name) => (name.ident.to_string(), name.mutability.is_some()),
            Pat::Wild(_) => ("_".into(), false),
            _ => return err(&local.pat, "`let` binds one plain name"),
        };
        let value = self.expr(init)?;
        if let Some(ty) = ty {
            self.fits(&value, ty)?;
        }
        let name_of = if mutable {
            let copy = self.copied(value);
            Name::Variable(copy)
        } else {
            Name::Value(value)
        };
        self.bind(name, name_of);
        Ok(())
    }

    /// Whether a value has the type that is written.
    pub(super) fn fits(&self, value: &Value, ty: &syn::Type) -> Result<()> {
        let (want, have) = (type_name(ty), self.type_of(value));
        if want == have {
            return Ok(());
        }
        if want == "i32" {
            return err(ty, "integers are 64-bit here: write `i64` (arrays may have i32 elements)");
        }
        err(ty, format!("this value is {have}"))
    }

    fn if_else(&mut self, f: &syn::ExprIf) -> Result<()> {
        let condition = self.boolean(&f.cond)?;
        let [(then, ()), (otherwise, ())] = self.branches(
            |l| l.block(&f.then_branch.stmts),
            |l| f.else_branch.as_ref().map_or(Ok(()), |(_, e)| l.statement(e)),
        )?;
        self.push(Stmt::If { condition, then, otherwise });
        Ok(())
    }

    fn assign(&mut self, a: &syn::ExprAssign) -> Result<()> {
        let target = match &*a.left {
            Expr::Path(p) => Some(self.variable(p)?),
            Expr::Field(f) => {
                return err(f, "components are not assigned one by one: `v = vec3(x, y, z)`");
            }
            _ => None,
        };
        match target {
            Some(target) => {
                let value = self.expr(&a.right)?;
                self.set(target, value, &a.right)
            }
            None => {
                // The value before the place, as in Rust.
                let value = self.expr(&a.right)?;
                let place = self.target(&a.left)?;
                self.store(place, value, &a.right)
            }
        }
    }

    fn variable(&self, p: &syn::ExprPath) -> Result<Value> {
        let name = p.path.require_ident()?.to_string();
        match self.lookup(&name) {
            Some(Name::Variable(v)) => Ok(v),
            Some(Name::Param(id)) if self.is_output(id) => err(
                p,
                format!("say which element of it: `{name}[row] = …`, or `*{name} = …` where there is one"),
            ),
            Some(_) => err(p, format!("`{name}` does not change: declare it with `let mut {name} = …`")),
            None => err(p, format!("there is no `{name}` here: declare it with `let mut {name} = …`")),
        }
    }

    fn set(&mut self, target: Value, value: Value, source: &Expr) -> Result<()> {
        let (want, have) = (self.type_of(&target), self.type_of(&value));
        if want != have {
            return err(
                source,
                format!("the variable is {want}, and this is {have}{}", conversion(want, have)),
            );
        }
        for (v, x) in target.vars().into_iter().zip(value.vars()) {
            self.push(Stmt::Set(v, x));
        }
        Ok(())
    }

    fn compound(&mut self, b: &syn::ExprBinary) -> Result<()> {
        if let Expr::Path(p) = &*b.left {
            let target = self.variable(p)?;
            let value = self.expr(&b.right)?;
            let now = self.copied(target);
            let result = self.operate(b.op, now, value, b)?;
            return self.set(target, result, &b.right);
        }
        let value = self.expr(&b.right)?;
        let place = self.target(&b.left)?;
        if !place.own {
            return err(
                b,
                "another row may change this element in between: `atomic_add(array[k], n)` for integers; for reals, write \
                 one element per row and sum these",
            );
        }
        let now = self.read(place, &b.left)?;
        let result = self.operate(b.op, now, value, b)?;
        self.store(place, result, &b.right)
    }

    fn for_loop(&mut self, f: &syn::ExprForLoop) -> Result<()> {
        no_label(f.label.as_ref())?;
        let forms = "a loop is `for n in lo..hi`, `for (j, shift) in pairs.row(i)`, `for (j, shift) in grid.query(x[i], \
                     radius)` or `for k in batch.members(system)`";
        let names = syntax::loop_variables(&f.pat, forms)?;
        let (lo, hi, over) = match &*f.expr {
            Expr::Range(r) => {
                let (Some(lo), Some(hi), syn::RangeLimits::HalfOpen(_), 1) =
                    (&r.start, &r.end, &r.limits, names.len())
                else {
                    return err(&f.expr, forms);
                };
                (self.int(lo)?, self.int(hi)?, None)
            }
            Expr::MethodCall(m) if m.method == "query" => {
                let grid = self.query(f, m, names.len())?;
                let (lo, hi) = self.pairs_of(grid, 0);
                (lo, hi, Some(grid))
            }
            Expr::MethodCall(m) => {
                let param = self.param_named(&m.receiver)?;
                if self.grids.has(param) {
                    return grid::no_rows(m);
                }
                let args: Vec<&Expr> = m.args.iter().collect();
                let [arg] = args.as_slice() else { return err(m, forms) };
                match (self.params[param].kind, m.method.to_string().as_str(), names.len()) {
                    (Kind::Pairs { entries: None, .. }, "row", 3) => {
                        return err(
                            &f.pat,
                            "this list does not name its entries: `&Pairs<Rows, Columns, Entries>`, and arrays `&[T; Entries]`",
                        );
                    }
                    (Kind::Pairs { rows, .. }, "row", 2 | 3) => {
                        let at = self.row(arg, rows, param)?;
                        let (lo, hi) = self.pairs_of(param, at);
                        (lo, hi, Some(param))
                    }
                    (Kind::Batch { systems, .. }, "members", 1) => {
                        let at = self.row(arg, systems, param)?;
                        let array = Array::Members;
                        let [lo, hi] = [0, 1].map(|component| {
                            self.emit(Type::Int, Computed::Entry { param, array, at, component })
                        });
                        (lo, hi, Some(param))
                    }
                    _ => return err(m, forms),
                }
            }
            e => return err(e, forms),
        };
        let next = self.emit(Type::Int, Computed::Copy(lo));
        self.loop_of(|l| {
            let goes_on = l.emit(Type::Bool, Computed::Binary(Binary::Lt, next, hi));
            l.leave_unless(goes_on);
            let k = l.emit(Type::Int, Computed::Copy(next));
            let one = l.emit(Type::Int, Computed::Int(1));
            let after = l.emit(Type::Int, Computed::Binary(Binary::Add, next, one));
            l.push(Stmt::Set(next, after));
            match over.map(|param| (param, l.params[param].kind)) {
                Some((param, Kind::Pairs { columns, entries, .. })) => {
                    let entry = |array, component| Computed::Entry { param, array, at: k, component };
                    let j = l.emit(Type::Int, entry(Array::Column, 0));
                    let shift = [0, 1, 2].map(|c| l.emit(Type::Int, entry(Array::Shift, c)));
                    l.bind(names[0].clone(), Name::Value(Value::Row(j, columns)));
                    l.bind(names[1].clone(), Name::Value(Value::IVec3(shift)));
                    if let (Some(name), Some(entries)) = (names.get(2), entries) {
                        l.bind(name.clone(), Name::Value(Value::Row(k, entries)));
                    }
                }
                Some((_, Kind::Batch { rows, .. })) => {
                    l.bind(names[0].clone(), Name::Value(Value::Row(k, rows)));
                }
                _ => l.bind(names[0].clone(), Name::Value(Value::Int(k))),
            }
            l.block(&f.body.stmts)
        })
    }

    /// The range of a row's pairs: the first and the one past the last.
    fn pairs_of(&mut self, param: ParamId, row: Var) -> (Var, Var) {
        let mut entry = |array| self.emit(Type::Int, Computed::Entry { param, array, at: row, component: 0 });
        (entry(Array::Start), entry(Array::End))
    }

    /// `grid.query(x[i], radius)`, in a loop that binds so many names: the grid.
    fn query(&mut self, f: &syn::ExprForLoop, m: &syn::ExprMethodCall, names: usize) -> Result<ParamId> {
        let grid = self.param_named(&m.receiver)?;
        let entries = matches!(self.params[grid].kind, Kind::Pairs { entries: Some(_), .. });
        let [position, radius] = grid::arguments(f, m, names, self.grids.has(grid), entries)?;
        let mut inner = position;
        while let Expr::Paren(p) = inner {
            inner = &p.expr;
        }
        let Expr::Index(_) = inner else { return Err(grid::wrong_position(position)) };
        let place = self.place(position)?;
        let positions = match self.params[place.param].kind {
            Kind::Real { components: 3, .. } if place.own => place.param,
            _ => return Err(grid::wrong_position(position)),
        };
        // Attributes are the variables that the outermost block begins with.
        let value = self.expr(radius)?;
        let attribute = self.blocks[0].iter().find_map(|s| match s {
            Stmt::Let(v, Computed::Attribute(param)) if value == Value::Real(*v) => Some(*param),
            _ => None,
        });
        let radius = attribute.ok_or_else(|| grid::wrong_radius(radius))?;
        self.grids.query(Query { grid, positions, radius }, m)?;
        Ok(grid)
    }

    /// A copy of a value in a new variable.
    pub(super) fn copied(&mut self, value: Value) -> Value {
        value.with(|v| self.emit(self.types[v], Computed::Copy(v)))
    }

    pub(super) fn negated(&mut self, v: Value, at: &Expr) -> Result<Value> {
        if matches!(v, Value::Bool(_) | Value::Row(..)) {
            return err(at, format!("a {} has no sign", self.type_of(&v)));
        }
        Ok(v.with(|x| self.emit(self.types[x], Computed::Unary(Unary::Neg, x))))
    }
}

const STATEMENTS: &str = "this statement is not part of the kernel language: there are `let`, `let mut`, `x = …`, `+=` and \
     the like, `if`, `for`, `while`, `loop`, `break`, `continue`, `return`, `output[row] = …`, `atomic_add(output[row], n)` \
     and `raise(REASON)`";

fn no_label(label: Option<&impl quote::ToTokens>) -> Result<()> {
    match label {
        Some(label) => err(label, "there are no labels: let a variable say that the outer loop is done"),
        None => Ok(()),
    }
}
