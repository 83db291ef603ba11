//! Statements.

use super::loops::extreme;
use super::{Block, Lower, Value, err, syntax, type_name};
use crate::ir::{Acc, Kind, Op, Role, Shape, Stmt, Type, Val};
use quote::ToTokens;
use rustc_hash::FxHashMap as HashMap;
use syn::{BinOp, Expr, Pat, Result};

impl Lower<'_> {
    pub(super) fn block(&mut self, stmts: &[syn::Stmt]) -> Result<()> {
        for (at, s) in stmts.iter().enumerate() {
            match s {
                s if self.b.in_order => self.statement(s)?,
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
                syn::Stmt::Expr(Expr::Binary(b), _) if syntax::is_compound(&b.op) => {
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

    pub(super) fn local(&mut self, local: &syn::Local) -> Result<()> {
        let (pat, ty, init) = syntax::binding(local)?;
        let (name, is_mutable) = match pat {
            Pat::Ident(name) => (name.ident.to_string(), name.mutability.is_some()),
            Pat::Wild(_) if self.b.in_order => ("_".into(), false),
            _ => return err(&local.pat, "`let` binds one plain name"),
        };
        if is_mutable
            && !self.b.in_order
            && let Some(sums) = self.channel_sums(init)?
        {
            if let Some(ty) = ty {
                return err(ty, "the type of sums over channels is not written");
            }
            self.bind(name, sums);
            return Ok(());
        }
        let mut value = self.expr(init)?;
        if let Some(ty) = ty {
            self.fits(&value, ty)?;
        }
        if is_mutable {
            value = if self.b.in_order { self.variable(value) } else { self.declare(value, init)? };
        }
        self.bind(name, value);
        Ok(())
    }

    /// Checks that a value has the type that is written.
    pub(super) fn fits(&self, value: &Value, ty: &syn::Type) -> Result<()> {
        let (want, have) = (type_name(ty), self.type_of(value));
        if want == have {
            return Ok(());
        }
        if want == "i32" && self.b.in_order {
            return err(ty, "integers are 64-bit here: write `i64` (arrays may have i32 elements)");
        }
        err(ty, format!("this value is {have}"))
    }

    pub(super) fn declare(&mut self, initial: Value, at: &Expr) -> Result<Value> {
        if let Value::Array(elements) = initial {
            let sums = elements.into_iter().map(|v| self.declare(v, at)).collect::<Result<_>>()?;
            return Ok(Value::Array(sums));
        }
        let Some((shape, components)) = self.reals(&initial) else {
            return err(
                at,
                "`let mut` declares a sum, of reals, vectors or matrices: an integer or condition that changes cannot be \
                 replayed backwards",
            );
        };
        let first = self.b.new_acc();
        for (c, v) in components.iter().enumerate() {
            let m = if c == 0 { first } else { self.b.new_acc() };
            self.b.push(Stmt::Declare(m, *v));
        }
        self.declared_in.insert(first, self.loops.len());
        self.blocks.last_mut().expect("a block is open").sums.insert(first, first);
        Ok(Value::Sum(first, shape))
    }

    /// The innermost open block that has a copy of a sum, and that copy.
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
        self.found.remove(&first);
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

    pub(super) fn type_of(&self, v: &Value) -> String {
        match v {
            Value::Scalar(v) => match self.b.ty(*v) {
                Type::Real => "Real".into(),
                Type::Int if self.b.in_order => "i64".into(),
                Type::Int => "i32".into(),
                Type::Bool => "bool".into(),
                Type::Index(d) => self.dim_name(d).to_string(),
            },
            Value::Tensor(shape, _) | Value::Sum(_, shape) => shape.word().into(),
            Value::IVec3(_) => "IVec3".into(),
            Value::Variable(_, like) => self.type_of(like),
            Value::Array(elements) => match elements.first() {
                Some(first) => format!("[{};{}]", self.type_of(first), elements.len()),
                None => "an empty array".into(),
            },
            Value::Param(_) | Value::Channels(..) => "a parameter".into(),
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
        self.names.push(HashMap::default());
        self.branches += 1;
        f(self)?;
        self.branches -= 1;
        self.names.pop();
        self.blocks.pop();
        Ok(self.b.close())
    }

    /// A branch whose results later statements do not depend on.
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
                    Some(Value::Sum(first, of)) => self.add_to_sum(first, of, &value, b),
                    _ => err(p, format!("`{name}` is not a sum: declare it with `let mut {name} = 0.0`")),
                }
            }
            // `*total += x` on an output of one element, `out[system] += x` on one per system.
            Expr::Unary(u) if matches!(u.op, syn::UnOp::Deref(_)) => {
                let param = self.param_named(&u.expr)?;
                self.contribute(param, None, value, b)
            }
            Expr::Index(ix) => {
                match self.element(&b.left)? {
                    Some(Value::Sum(first, of)) => return self.add_to_sum(first, of, &value, b),
                    Some(_) => {
                        return err(
                            &b.left,
                            "this is not a sum: the array is declared `let mut`, and added to by element (a \
                             vector as a whole)",
                        );
                    }
                    None => {}
                }
                if self.add_to_channel(ix, &value, b)? {
                    return Ok(());
                }
                let param = self.param_named(&ix.expr)?;
                let row = self.index(&ix.index)?;
                self.contribute(param, Some(row), value, b)
            }
            l => err(l, "the left side of `+=` is a sum (`let mut`) or an output"),
        }
    }

    fn add_to_sum(&mut self, first: Acc, of: Shape, value: &Value, b: &syn::ExprBinary) -> Result<()> {
        let components = self.components(value, of, &b.right)?;
        self.accumulate(first, &components);
        let outside = self.declared_in[&first];
        for l in &mut self.loops[outside..] {
            l.changed.push(first);
        }
        Ok(())
    }

    fn contribute(
        &mut self,
        param: usize,
        row: Option<Val>,
        value: Value,
        at: &syn::ExprBinary,
    ) -> Result<()> {
        let dim = match self.params[param].kind {
            Kind::Output { dim, width: None, .. } => dim,
            Kind::Output { .. } => return err(&at.left, "this output has channels: `output[row][c] += …`"),
            _ => return err(&at.left, "this parameter is read-only: declare it `&mut`"),
        };
        // One element per channel, in a loop over these.
        let to_channel = self.loops.len() == 1
            && self.loops[0].channels
            && row.is_some_and(|r| matches!(self.b.op(r), Op::LoopVar(_)));
        let is_node = row.is_some_and(|r| matches!(self.b.op(r), Op::MeshNode { .. }));
        if !self.loops.is_empty() && !to_channel && !is_node {
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
        let value = self.components(&value, self.params[param].element, &at.right)?;
        for (component, value) in value.into_iter().enumerate() {
            let (role, channel) = (Role::VALUE, None);
            self.b.push(Stmt::Contribute { param, role, row, component, channel, value });
        }
        self.stored.insert(param);
        Ok(())
    }

    fn assign(&mut self, a: &syn::ExprAssign) -> Result<()> {
        if let Some((name, negative, x)) = extreme(a) {
            return self.seek(a, &name, negative, x);
        }
        if let Expr::Unary(_) = &*a.left {
            return err(&a.left, "an output of one element is shared by all rows: `*output += …`");
        }
        let local = self.element(&a.left)?.is_some();
        let Expr::Index(ix) = &*a.left else {
            return err(
                &a.left,
                "assigning to a variable cannot be reversed: use a new `let`, or `+=` on a `let mut` sum",
            );
        };
        if local {
            return err(
                &a.left,
                "assigning to an element cannot be reversed: use a new `let`, or `+=` on a `let mut` array of sums",
            );
        }
        if matches!(&*ix.expr, Expr::Index(_)) {
            return self.assign_channel(a, ix);
        }
        let param = self.param_named(&ix.expr)?;
        let dim = match self.params[param].kind {
            Kind::Output { dim, width: None, .. } => dim,
            Kind::Output { .. } => return err(&ix.expr, "this output has channels: `output[row][c] = …`"),
            _ => return err(&ix.expr, "this parameter is read-only: declare it `&mut`"),
        };
        let row = self.index(&ix.index)?;
        if let Op::PairEntry(l) = *self.b.op(row) {
            return self.store_entry(a, param, row, l);
        }
        if !self.loops.is_empty() || self.branches > 0 {
            return err(
                a,
                "an output is written once per row, at the end: a store inside a loop or a branch would be overwritten \
                 or missing",
            );
        }
        let Some(dim) = dim else { return err(&a.left, "this output is one element: `*output += …`") };
        self.check_row(dim, row, &ix.index)?;
        if !self.is_row(row) {
            return err(&ix.index, "a row stores to its own element only; add to shared ones with `+=`");
        }
        if !self.stored.insert(param) {
            return err(a, "this output was already written: its first value would be lost");
        }
        let value = self.expr(&a.right)?;
        let value = self.components(&value, self.params[param].element, &a.right)?;
        for (component, value) in value.into_iter().enumerate() {
            let (role, channel) = (Role::VALUE, None);
            self.b.push(Stmt::Store { param, role, component, channel, value });
        }
        Ok(())
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
