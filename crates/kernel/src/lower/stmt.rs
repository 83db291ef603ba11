//! Statements.

use super::{Block, Loop, Lower, Value, err, type_name};
use crate::ir::{Acc, Kind, Op, Range, Role, Stmt, Type, Val};
use quote::ToTokens;
use std::collections::HashMap;
use syn::{BinOp, Error, Expr, Pat, Result};

impl Lower<'_> {
    pub(super) fn block(&mut self, stmts: &[syn::Stmt]) -> Result<()> {
        for (at, s) in stmts.iter().enumerate() {
            match s {
                syn::Stmt::Local(local) => self.local(local)?,
                syn::Stmt::Expr(Expr::ForLoop(f), _) => self.for_loop(f)?,
                syn::Stmt::Expr(Expr::If(f), _) => {
                    if self.is_continue(f)? {
                        // `if c { continue; }` puts the rest of the body under its opposite.
                        let c = self.boolean(&f.cond)?;
                        let not = self.b.op_value(Op::Not(c));
                        let then = self.branch(|l| l.block(&stmts[at + 1..]))?;
                        self.b.push(Stmt::If { condition: not, then, otherwise: vec![] });
                        return Ok(());
                    }
                    self.if_else(f)?;
                }
                syn::Stmt::Expr(Expr::Binary(b), _)
                    if matches!(b.op, BinOp::AddAssign(_) | BinOp::SubAssign(_)) =>
                {
                    self.add_assign(b)?;
                }
                syn::Stmt::Expr(Expr::Assign(a), _) => self.assign(a)?,
                syn::Stmt::Expr(Expr::While(w), _) => {
                    return err(
                        &w.while_token,
                        "`while` has no trip count that the backward pass could replay: use `for n in lo..hi`, or a \
                         loop over pairs or members",
                    );
                }
                syn::Stmt::Expr(Expr::Loop(w), _) => {
                    return err(
                        &w.loop_token,
                        "`loop` has no trip count that the backward pass could replay: use `for n in lo..hi`, or a \
                         loop over pairs or members",
                    );
                }
                syn::Stmt::Expr(Expr::Break(b), _) => {
                    return err(
                        b,
                        "`break` makes later iterations depend on earlier ones, which the backward pass cannot \
                         replay: put what follows under an `if`",
                    );
                }
                syn::Stmt::Expr(Expr::Continue(c), _) => {
                    return err(
                        c,
                        "`continue` stands alone in an `if` without `else`: `if condition { continue; }`",
                    );
                }
                syn::Stmt::Expr(Expr::Return(r), _) => {
                    return err(r, "a kernel has no early return: put what follows under an `if`");
                }
                syn::Stmt::Expr(Expr::Binary(b), _) if is_compound(&b.op) => {
                    return err(
                        b,
                        "only `+=` and `-=` change a sum: a product or quotient carried through a loop cannot be \
                         replayed backwards (sum the logarithms)",
                    );
                }
                other => {
                    return err(
                        other,
                        "this statement is not part of the kernel language: there are `let`, `let mut`, `+=`, `-=`, `if`, \
                         `for`, `continue` and `output[i] = …`",
                    );
                }
            }
        }
        Ok(())
    }

    fn local(&mut self, local: &syn::Local) -> Result<()> {
        let pat = match &local.pat {
            Pat::Type(t) => &*t.pat,
            p => p,
        };
        let Pat::Ident(name) = pat else {
            return err(&local.pat, "`let` binds one plain name");
        };
        let Some(init) = &local.init else {
            return err(local, "`let` needs a value: there are no uninitialised variables");
        };
        if let Some((token, _)) = &init.diverge {
            return err(token, "`let` binds one plain name: there is nothing that could fail");
        }
        let value = self.expr(&init.expr)?;
        if let Pat::Type(t) = &local.pat {
            let name = self.type_of(&value);
            if name != type_name(&t.ty) {
                return err(&t.ty, format!("this value is {name}"));
            }
        }
        let value = if name.mutability.is_some() { self.declare(value, &init.expr)? } else { value };
        self.bind(name.ident.to_string(), value);
        Ok(())
    }

    fn declare(&mut self, initial: Value, at: &Expr) -> Result<Value> {
        let components = match &initial {
            Value::Scalar(v) if self.b.ty(*v) == Type::Real => vec![*v],
            Value::Vec3(v) => v.to_vec(),
            _ => {
                return err(
                    at,
                    "`let mut` declares a sum, of Real or Vec3: an integer or condition that changes cannot be \
                     replayed backwards",
                );
            }
        };
        let first = self.b.new_acc();
        for (c, v) in components.iter().enumerate() {
            let m = if c == 0 { first } else { self.b.new_acc() };
            self.b.push(Stmt::Declare(m, *v));
        }
        self.declared_in.insert(first, self.loops.len());
        self.blocks.last_mut().expect("a block is open").sums.insert(first, first);
        Ok(Value::Sum(first, components.len()))
    }

    /// The innermost open block that has a sum of its own, and what it is called there.
    pub(super) fn sum(&self, first: Acc) -> (usize, Acc) {
        let found = |(depth, b): (usize, &Block)| b.sums.get(&first).map(|m| (depth, *m));
        self.blocks
            .iter()
            .enumerate()
            .rev()
            .find_map(found)
            .expect("a sum is declared where its name is known")
    }

    fn accumulate(&mut self, first: Acc, values: &[Val]) {
        for depth in self.sum(first).0 + 1..self.blocks.len() {
            if self.blocks[depth].is_loop {
                break;
            }
            let (outside, sum) = self.sum(first);
            let copy: Vec<Acc> = values.iter().map(|_| self.b.new_acc()).collect();
            for (c, m) in copy.iter().enumerate() {
                let now = self.b.read_at(sum + c, outside);
                self.b.push_at(depth, Stmt::Declare(*m, now));
            }
            self.blocks[depth].sums.insert(first, copy[0]);
        }
        for block in &self.blocks {
            if let Some(sum) = block.sums.get(&first) {
                for (c, v) in values.iter().enumerate() {
                    self.b.push(Stmt::Accumulate(sum + c, *v));
                }
            }
        }
    }

    fn type_of(&self, v: &Value) -> String {
        match v {
            Value::Scalar(v) => match self.b.ty(*v) {
                Type::Real => "Real".into(),
                Type::Int => "i32".into(),
                Type::Bool => "bool".into(),
                Type::Index(d) => self.dim_name(d).to_string(),
            },
            Value::Vec3(_) => "Vec3".into(),
            Value::Mat3(_) => "Mat3".into(),
            Value::IVec3(_) => "IVec3".into(),
            Value::Sum(..) | Value::Param(_) => "a parameter".into(),
        }
    }

    fn is_continue(&self, f: &syn::ExprIf) -> Result<bool> {
        if let ([syn::Stmt::Expr(Expr::Continue(c), _)], None) =
            (f.then_branch.stmts.as_slice(), &f.else_branch)
        {
            let Some(innermost) = self.loops.last() else {
                return err(c, "`continue` stands outside a loop");
            };
            if innermost.branches > 0 {
                return err(
                    c,
                    "`continue` stands in the loop's own body, not in a branch of it: put what it skips under an `if`",
                );
            }
            if c.label.is_some() {
                return err(c, "there are no labels: `continue` goes on with the innermost loop");
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn branch(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) -> Result<Vec<Stmt>> {
        self.b.open(false);
        self.blocks.push(Block::default());
        self.names.push(HashMap::new());
        self.branches += 1;
        f(self)?;
        self.branches -= 1;
        self.names.pop();
        self.blocks.pop();
        Ok(self.b.close())
    }

    /// A branch that what follows does not depend on.
    fn inner_branch(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) -> Result<Vec<Stmt>> {
        if let Some(l) = self.loops.last_mut() {
            l.branches += 1;
        }
        let stmts = self.branch(f)?;
        if let Some(l) = self.loops.last_mut() {
            l.branches -= 1;
        }
        Ok(stmts)
    }

    fn if_else(&mut self, f: &syn::ExprIf) -> Result<()> {
        let condition = self.boolean(&f.cond)?;
        let then = self.inner_branch(|l| l.block(&f.then_branch.stmts))?;
        let otherwise = match &f.else_branch {
            None => vec![],
            Some((_, e)) => match &**e {
                Expr::Block(b) => self.inner_branch(|l| l.block(&b.block.stmts))?,
                Expr::If(f) => self.inner_branch(|l| l.if_else(f))?,
                e => return err(e, "expected a block after `else`"),
            },
        };
        self.b.push(Stmt::If { condition, then, otherwise });
        Ok(())
    }

    fn add_assign(&mut self, b: &syn::ExprBinary) -> Result<()> {
        let mut value = self.expr(&b.right)?;
        if matches!(b.op, BinOp::SubAssign(_)) {
            value = self.negated(value, &b.right)?;
        }
        match &*b.left {
            Expr::Path(p) => {
                let name = p.path.require_ident()?.to_string();
                match self.lookup(&name) {
                    Some(Value::Sum(first, n)) => {
                        let components = self.components(&value, n, &b.right)?;
                        self.accumulate(first, &components);
                        let outside = self.declared_in[&first];
                        for l in &mut self.loops[outside..] {
                            l.changed.push(first);
                        }
                        Ok(())
                    }
                    _ => err(p, format!("`{name}` is not a sum: declare it with `let mut {name} = 0.0`")),
                }
            }
            // `*total += x` on an output of one element, `out[system] += x` on one per system.
            Expr::Unary(u) if matches!(u.op, syn::UnOp::Deref(_)) => {
                let param = self.param_named(&u.expr)?;
                self.contribute(param, None, value, b)
            }
            Expr::Index(ix) => {
                let param = self.param_named(&ix.expr)?;
                let row = self.index(&ix.index)?;
                self.contribute(param, Some(row), value, b)
            }
            l => err(l, "the left side of `+=` is a sum (`let mut`) or an output"),
        }
    }

    fn contribute(
        &mut self,
        param: usize,
        row: Option<Val>,
        value: Value,
        at: &syn::ExprBinary,
    ) -> Result<()> {
        let Kind::Output { dim, components } = self.params[param].kind else {
            return err(&at.left, "this parameter is read-only: declare it `&mut`");
        };
        if !self.loops.is_empty() {
            return err(
                at,
                "adding to an output inside a loop: sum into a `let mut` and add once after the loop",
            );
        }
        match (dim, row) {
            (None, None) => {}
            (Some(d), Some(r)) => {
                self.check_row(d, r, &at.left)?;
                if self.is_row(r) {
                    return err(at, "a row writes its own element once: `output[i] = …`");
                }
            }
            (Some(_), None) => {
                return err(&at.left, "this output has rows: say which, `output[system] += …`");
            }
            (None, Some(_)) => return err(&at.left, "this output is one element: `*output += …`"),
        }
        for (component, value) in self.components(&value, components, &at.right)?.into_iter().enumerate() {
            self.b.push(Stmt::Contribute { param, role: Role::VALUE, row, component, value });
        }
        self.stored.insert(param);
        Ok(())
    }

    fn assign(&mut self, a: &syn::ExprAssign) -> Result<()> {
        if let Expr::Unary(_) = &*a.left {
            return err(&a.left, "an output of one element is shared by all rows: `*output += …`");
        }
        let Expr::Index(ix) = &*a.left else {
            return err(
                &a.left,
                "assigning to a variable cannot be reversed: use a new `let`, or `+=` on a `let mut` sum",
            );
        };
        let param = self.param_named(&ix.expr)?;
        let Kind::Output { dim, components } = self.params[param].kind else {
            return err(&ix.expr, "this parameter is read-only: declare it `&mut`");
        };
        if !self.loops.is_empty() || self.branches > 0 {
            return err(
                a,
                "an output is written once per row, at the end: a store inside a loop or a branch would be overwritten \
                 or missing",
            );
        }
        let row = self.index(&ix.index)?;
        let Some(dim) = dim else { return err(&a.left, "this output is one element: `*output += …`") };
        self.check_row(dim, row, &ix.index)?;
        if !self.is_row(row) {
            return err(&ix.index, "a row stores to its own element only; add to shared ones with `+=`");
        }
        if !self.stored.insert(param) {
            return err(a, "this output was already written: its first value would be lost");
        }
        let value = self.expr(&a.right)?;
        for (component, value) in self.components(&value, components, &a.right)?.into_iter().enumerate() {
            self.b.push(Stmt::Store { param, role: Role::VALUE, component, value });
        }
        Ok(())
    }

    fn for_loop(&mut self, f: &syn::ExprForLoop) -> Result<()> {
        if let Some(label) = &f.label {
            return err(label, "there are no labels: `continue` goes on with the innermost loop");
        }
        let id = self.b.new_loop();
        let (range, names) = self.range(f)?;
        if range.is_data() && self.branches > 0 {
            return err(
                &f.expr,
                "a loop over data stands outside branches: move the condition into the loop",
            );
        }
        if let Range::Members { batch, system } = range {
            self.member_of.insert(id, (batch, system));
        }
        self.b.open(true);
        self.blocks.push(Block { is_loop: true, ..Block::default() });
        self.names.push(HashMap::new());
        self.loops.push(Loop::default());
        match range {
            Range::Ints(..) => {
                let v = self.b.emit(Op::LoopVar(id), Type::Int);
                self.bind(names[0].clone(), Value::Scalar(v));
            }
            Range::Members { batch, .. } => {
                let Kind::Batch { rows, .. } = self.params[batch].kind else {
                    unreachable!("checked by range")
                };
                let v = self.b.emit(Op::LoopVar(id), Type::Index(rows));
                self.bind(names[0].clone(), Value::Scalar(v));
            }
            Range::Pairs { list, .. } => {
                let Kind::Pairs(rows) = self.params[list].kind else { unreachable!("checked by range") };
                let j = self.b.emit(Op::PairColumn(id), Type::Index(rows));
                let shift = [0, 1, 2].map(|c| self.b.real_op(Op::PairShift(id, c)));
                self.bind(names[0].clone(), Value::Scalar(j));
                self.bind(names[1].clone(), Value::IVec3(shift));
            }
        }
        self.block(&f.body.stmts)?;
        let done = self.loops.pop().expect("pushed above");
        self.names.pop();
        self.blocks.pop();
        let body = self.b.close();
        for (m, name, span) in done.read {
            if done.changed.contains(&m) {
                let message = format!(
                    "`{name}` is read inside the loop that adds to it: a value carried from one iteration to the next \
                     cannot be replayed backwards (only `{name} += …` is allowed there)"
                );
                return Err(Error::new(span, message));
            }
        }
        self.b.push(Stmt::For { id, range, body });
        Ok(())
    }

    fn range(&mut self, f: &syn::ExprForLoop) -> Result<(Range, Vec<String>)> {
        let forms = "a loop is `for n in lo..hi`, `for (j, shift) in pairs.row(i)` or `for k in batch.members(system)`";
        let names = match &*f.pat {
            Pat::Ident(i) => vec![i.ident.to_string()],
            Pat::Wild(_) => vec!["_".into()],
            Pat::Tuple(t) => {
                let mut names = vec![];
                for e in &t.elems {
                    match e {
                        Pat::Ident(i) => names.push(i.ident.to_string()),
                        Pat::Wild(_) => names.push("_".into()),
                        e => return err(e, forms),
                    }
                }
                names
            }
            p => return err(p, forms),
        };
        match &*f.expr {
            Expr::Range(r) => {
                let (Some(lo), Some(hi), syn::RangeLimits::HalfOpen(_)) = (&r.start, &r.end, &r.limits)
                else {
                    return err(&f.expr, forms);
                };
                let range = Range::Ints(self.int(lo)?, self.int(hi)?);
                if names.len() != 1 {
                    return err(&f.pat, forms);
                }
                Ok((range, names))
            }
            Expr::MethodCall(m) => {
                let param = self.param_named(&m.receiver)?;
                let (method, args) = (m.method.to_string(), m.args.iter().collect::<Vec<_>>());
                let [arg] = args.as_slice() else { return err(m, forms) };
                let arg_value = self.index(arg)?;
                match (self.params[param].kind, method.as_str(), names.len()) {
                    (Kind::Pairs(rows), "row", 2) => {
                        self.check_row(rows, arg_value, arg)?;
                        if !self.is_row(arg_value) {
                            return err(arg, "a loop over pairs goes over those of the kernel's own row");
                        }
                        Ok((Range::Pairs { list: param, row: arg_value }, names))
                    }
                    (Kind::Batch { systems, .. }, "members", 1) => {
                        self.check_row(systems, arg_value, arg)?;
                        Ok((Range::Members { batch: param, system: arg_value }, names))
                    }
                    _ => err(m, forms),
                }
            }
            e => err(e, forms),
        }
    }

    pub(super) fn check_row(&self, dim: usize, row: Val, at: &impl ToTokens) -> Result<()> {
        match self.b.ty(row) {
            Type::Index(d) if d == dim => Ok(()),
            Type::Index(d) => {
                let (want, have) = (self.dim_name(dim), self.dim_name(d));
                err(at, format!("this array has an element per `{want}`, and the index is an `{have}`"))
            }
            _ => {
                let want = self.dim_name(dim);
                err(
                    at,
                    format!(
                        "this array has an element per `{want}`: index it by the kernel's own row, a pair's column, a \
                         member, or `batch.of(row)` (a computed number could be out of range)"
                    ),
                )
            }
        }
    }
}

fn is_compound(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}
