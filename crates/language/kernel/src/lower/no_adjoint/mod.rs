//! Statements and values of kernels without adjoint alone, `#[kernel(no_adjoint)]`, which have no transpose.
//!
//! Such kernels change variables, loop until something holds, compute indices, read what they have written, count with
//! atomics. Errors at run time (an index out of range, an integer that does not fit) raise the status word.

mod place;
mod values;
mod written;

pub(super) use written::Written;

use super::{Lower, Value, err, syntax};
use crate::ir::{Acc, Kernel, Op, Stmt, Val};
use crate::layout::Layout;
use crate::lower::syntax::is_compound;
use crate::mirror::Part;
use madelung_abi::MAX_POINTERS;
use rustc_hash::FxHashMap as HashMap;
use syn::{Expr, ItemFn, Result};

/// Whether a kernel asks not to be differentiated.
pub(super) fn is_asked(f: &ItemFn) -> Result<bool> {
    let Some(attr) = f.attrs.iter().find(|a| a.path().is_ident("kernel")) else { return Ok(false) };
    let syn::Meta::List(_) = attr.meta else { return Ok(false) };
    let (mut asked, mut other) = (false, None);
    let parsed = attr.parse_nested_meta(|meta| {
        if meta.path.is_ident("no_adjoint") {
            asked = true;
            return Ok(());
        }
        let message = "`no_adjoint` stands alone: such a kernel has no gradient, so no form of one";
        other = other.take().or(Some(meta.error(message)));
        meta.parse_nested_meta(|_| Ok(()))
    });
    // Options of other kernels are checked where they are read.
    if asked {
        other.map_or(Ok(()), Err)?;
        parsed?;
    }
    Ok(asked)
}

/// Checks that a launch has room for the arrays of a kernel.
pub(super) fn check_arrays(kernel: &Kernel, f: &ItemFn) -> Result<()> {
    let arrays = Layout::new(kernel, &Part::whole(kernel)).slots.len();
    if arrays > MAX_POINTERS {
        let message = format!(
            "it uses {arrays} arrays and a launch has room for {MAX_POINTERS}: split the kernel in two"
        );
        return err(&f.sig.ident, message);
    }
    Ok(())
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

impl Lower<'_> {
    /// The statements that `f` pushes.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<(Vec<Stmt>, T)> {
        self.b.open(false);
        self.names.push(HashMap::default());
        let result = f(self)?;
        self.names.pop();
        Ok((self.b.close(), result))
    }

    /// Statements of two branches.
    fn branches<T>(
        &mut self,
        then: impl FnOnce(&mut Self) -> Result<T>,
        otherwise: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<[(Vec<Stmt>, T); 2]> {
        let before = self.written.clone();
        let then = self.nested(then)?;
        let after = std::mem::replace(&mut self.written, before);
        let otherwise = self.nested(otherwise)?;
        self.written.join(after);
        Ok([then, otherwise])
    }

    pub(super) fn statement(&mut self, s: &syn::Stmt) -> Result<()> {
        match s {
            syn::Stmt::Local(local) => self.local(local),
            syn::Stmt::Expr(e, _) => self.statement_of(e),
            other => err(other, STATEMENTS),
        }
    }

    fn statement_of(&mut self, e: &Expr) -> Result<()> {
        match e {
            Expr::ForLoop(f) => self.plain_loop(f),
            Expr::While(w) => {
                no_label(w.label.as_ref())?;
                let body = self.turns(|l| {
                    let condition = l.boolean(&w.cond)?;
                    l.leaves_here();
                    l.b.push(Stmt::If { condition, then: vec![], otherwise: vec![Stmt::Break] });
                    l.block(&w.body.stmts)
                })?;
                self.b.push(Stmt::Loop(body));
                Ok(())
            }
            Expr::Loop(w) => {
                no_label(w.label.as_ref())?;
                let body = self.turns(|l| l.block(&w.body.stmts))?;
                self.b.push(Stmt::Loop(body));
                Ok(())
            }
            Expr::If(f) => {
                let condition = self.boolean(&f.cond)?;
                let [(then, ()), (otherwise, ())] = self.branches(
                    |l| l.block(&f.then_branch.stmts),
                    |l| f.else_branch.as_ref().map_or(Ok(()), |(_, e)| l.statement_of(e)),
                )?;
                self.b.push(Stmt::If { condition, then, otherwise });
                Ok(())
            }
            Expr::Block(b) => {
                no_label(b.label.as_ref())?;
                let (body, ()) = self.nested(|l| l.block(&b.block.stmts))?;
                body.into_iter().for_each(|s| self.b.push(s));
                Ok(())
            }
            Expr::Break(b) => {
                no_label(b.label.as_ref())?;
                if let Some(value) = &b.expr {
                    return err(value, "a loop has no value: assign it to a variable before `break`");
                }
                let here = self.written.end();
                self.leave(b, Stmt::Break)?.join(here);
                Ok(())
            }
            Expr::Continue(c) => {
                no_label(c.label.as_ref())?;
                let here = self.written.end();
                self.leave(c, Stmt::Continue)?.again(here);
                Ok(())
            }
            Expr::Return(r) => match &r.expr {
                Some(value) => err(value, "a kernel returns nothing: it writes to its `&mut` parameters"),
                None => {
                    self.b.push(Stmt::Return);
                    self.written.end();
                    Ok(())
                }
            },
            Expr::Assign(a) => self.change(a),
            Expr::Binary(b) if is_compound(&b.op) => self.compound(b),
            Expr::Call(c) => self.call_statement(c),
            other => err(other, STATEMENTS),
        }
    }

    /// Leaves the innermost loop or its turn: gives what is written where it ends.
    fn leave(&mut self, at: &impl quote::ToTokens, s: Stmt) -> Result<&mut Written> {
        if self.exits.is_empty() {
            return err(at, "there is no loop here to leave or go on with: `return` ends the row");
        }
        self.b.push(s);
        Ok(self.innermost())
    }

    fn innermost(&mut self) -> &mut Written {
        self.exits.last_mut().expect("a loop is open")
    }

    /// Notes that the innermost loop may end here.
    fn leaves_here(&mut self) {
        let here = self.written.clone();
        self.innermost().join(here);
    }

    /// The body of a loop. Its first turn finds what was written before it.
    fn turns(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) -> Result<Vec<Stmt>> {
        self.exits.push(Written::nowhere());
        let (body, ()) = self.nested(f)?;
        let turn = self.written.end();
        self.innermost().again(turn);
        self.written = self.exits.pop().expect("pushed above");
        Ok(body)
    }

    fn plain_loop(&mut self, f: &syn::ExprForLoop) -> Result<()> {
        no_label(f.label.as_ref())?;
        let id = self.b.new_loop();
        let (range, names) = self.range(f)?;
        let body = self.turns(|l| {
            l.leaves_here();
            l.bind_loop(id, range, &names);
            l.block(&f.body.stmts)
        })?;
        self.b.push(Stmt::For { id, range, body });
        Ok(())
    }

    fn change(&mut self, a: &syn::ExprAssign) -> Result<()> {
        match &*a.left {
            Expr::Path(p) => {
                let (first, like) = self.named_variable(p)?;
                let value = self.expr(&a.right)?;
                self.set(first, &like, &value, &a.right)
            }
            Expr::Field(f) => err(f, syntax::WHOLE),
            left => {
                // The value before the place, as in Rust.
                let value = self.expr(&a.right)?;
                let place = self.target(left)?;
                self.store(place, &value, &a.right)
            }
        }
    }

    fn compound(&mut self, b: &syn::ExprBinary) -> Result<()> {
        if let Expr::Path(p) = &*b.left {
            let (first, like) = self.named_variable(p)?;
            let value = self.expr(&b.right)?;
            let now = self.now(first, &like);
            let result = self.operate(&b.op, &now, &value, b)?;
            return self.set(first, &like, &result, &b.right);
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
        let now = self.read_place(place, &b.left)?;
        let result = self.operate(&b.op, &now, &value, b)?;
        self.store(place, &result, &b.right)
    }

    /// A variable that begins with a value.
    pub(super) fn variable(&mut self, value: Value) -> Value {
        let accs = value.parts().into_iter().map(|v| self.declared_variable(v)).collect::<Vec<_>>();
        Value::Variable(accs[0], Box::new(value))
    }

    fn declared_variable(&mut self, v: Val) -> Acc {
        let m = self.b.new_acc();
        self.b.push(Stmt::Declare(m, v));
        m
    }

    /// The value that a variable has here, given the first of its accumulators and a value of its type.
    pub(super) fn now(&mut self, first: Acc, like: &Value) -> Value {
        let mut next = first;
        like.with(|v| {
            let now = self.b.emit(Op::Read(next), self.b.ty(v));
            next += 1;
            now
        })
    }

    fn named_variable(&self, p: &syn::ExprPath) -> Result<(Acc, Value)> {
        let name = p.path.require_ident()?.to_string();
        match self.lookup(&name) {
            Some(Value::Variable(first, like)) => Ok((first, *like)),
            Some(Value::Param(id)) if self.params[id].kind.is_output() => err(
                p,
                format!("say which element of it: `{name}[row] = …`, or `*{name} = …` where there is one"),
            ),
            Some(_) => err(p, format!("`{name}` does not change: declare it with `let mut {name} = …`")),
            None => err(p, format!("there is no `{name}` here: declare it with `let mut {name} = …`")),
        }
    }

    fn set(&mut self, first: Acc, like: &Value, value: &Value, source: &Expr) -> Result<()> {
        let (want, have) = (self.type_of(like), self.type_of(value));
        if want != have {
            let hint = place::conversion(&want, &have);
            return err(source, format!("the variable is {want}, and this is {have}{hint}"));
        }
        for (n, v) in value.parts().into_iter().enumerate() {
            self.b.push(Stmt::Assign(first + n, v));
        }
        Ok(())
    }
}
