//! Loops, and searches for extrema within them.

use super::grid::no_rows;
use super::*;
use crate::ir::{Range, Role, Stmt, declared, filtered};
use syn::Expr;

impl Lower<'_> {
    /// `weight[p] = x`, in the loop that visits the pair.
    pub(super) fn store_entry(
        &mut self,
        a: &syn::ExprAssign,
        param: usize,
        row: Val,
        of: usize,
    ) -> Result<()> {
        let Expr::Index(ix) = &*a.left else { unreachable!("the left side was an index") };
        let Kind::Output { dim: Some(dim), width: None, .. } = self.params[param].kind else {
            return err(&a.left, "this output is one element: `*output += …`");
        };
        self.check_row(dim, row, &ix.index)?;
        if self.loops.last().is_none_or(|l| l.id != of) {
            return err(
                a,
                "an element of a pair is written in the loop over pairs itself, not in a loop within it",
            );
        }
        if !self.stored.insert(param) {
            return err(a, "this output is written twice: only one of the two would count");
        }
        let value = self.expr(&a.right)?;
        let value = self.components(&value, self.params[param].element, &a.right)?;
        for (component, value) in value.into_iter().enumerate() {
            let (role, row, channel) = (Role::VALUE, Some(row), None);
            self.b.push(Stmt::Contribute { param, role, row, component, channel, value });
        }
        Ok(())
    }

    /// `m = max(m, x)`, in a loop.
    pub(super) fn seek(&mut self, a: &syn::ExprAssign, name: &str, negative: bool, x: &Expr) -> Result<()> {
        let Some(Value::Sum(first, Shape::Number)) = self.lookup(name) else {
            return err(&a.left, format!("`{name}` is not a Real that may change: `let mut {name} = …`"));
        };
        if self.loops.last().is_some_and(|l| l.mesh) {
            return err(a, "a loop over a mesh only sums: it looks for nothing");
        }
        let Some(sought) = self.sought.get(&first).copied() else {
            return err(
                a,
                format!(
                    "`{name}` is found by a loop that stands in the block where `{name}` was declared, and by one \
                     statement in it"
                ),
            );
        };
        let x = self.real(x)?;
        let here = self.loops.last_mut().expect("what is sought is sought in a loop");
        here.changed.push(first);
        let place = self.b.real_op(Op::Place(here.id));
        match sought.at {
            None => {
                let value = if negative { self.b.real_op(Op::Neg(x)) } else { x };
                self.b.push(Stmt::Raise { acc: sought.best, value, place });
            }
            Some((best, sum)) => {
                let (is_best, zero) = (self.b.op_value(Op::Eq(place, best)), self.b.real(0.0));
                let term = self.b.real_op(Op::Select(is_best, x, zero));
                self.b.push(Stmt::Accumulate(sum, term));
            }
        }
        Ok(())
    }

    pub(super) fn for_loop(&mut self, f: &syn::ExprForLoop) -> Result<()> {
        if let Some(label) = &f.label {
            return err(label, "there are no labels: `continue` goes on with the innermost loop");
        }
        if let Expr::MethodCall(m) = &*f.expr
            && m.method == "around"
        {
            return self.mesh_loop(f, m);
        }
        if self.unroll(f)? {
            return Ok(());
        }
        let mut extremes = vec![];
        find_extremes(&f.body.stmts, &mut extremes);
        let mut sought = vec![];
        for (name, negative, span) in extremes {
            let top = self.names.last().expect("a block is open").get(&name).cloned();
            let Some(Value::Sum(first, Shape::Number)) = top else { continue };
            if sought.iter().any(|s: &(String, _, _, _, _)| s.0 == name) {
                return Err(Error::new(
                    span,
                    format!("`{name}` is sought twice in this loop: use two names"),
                ));
            }
            let (depth, sum) = self.sum(first);
            let initial = self.b.read_at(sum, depth);
            let start = if negative { self.b.real_op(Op::Neg(initial)) } else { initial };
            let best = self.b.new_acc();
            self.b.push(Stmt::DeclareBest(best, start));
            self.sought.insert(first, Sought { best, at: None });
            sought.push((name, first, best, negative, initial));
        }
        if sought.is_empty() {
            return self.one_loop(f, false);
        }
        self.one_loop(f, true)?;
        let mut sums = vec![];
        for (_, first, best, ..) in &sought {
            let place = self.b.emit(Op::BestPlace(*best), Type::Real);
            let (sum, zero) = (self.b.new_acc(), self.b.real(0.0));
            self.b.push(Stmt::Declare(sum, zero));
            self.sought.insert(*first, Sought { best: *best, at: Some((place, sum)) });
            sums.push((place, sum));
        }
        self.one_loop(f, false)?;
        for ((name, first, best, negative, initial), (place, sum)) in sought.into_iter().zip(sums) {
            self.sought.remove(&first);
            let zero = self.b.real(0.0);
            let any = self.b.op_value(Op::Le(zero, place));
            let sum = self.b.emit(Op::Read(sum), Type::Real);
            let value = self.b.real_op(Op::Select(any, sum, initial));
            let found = self.declare(Value::Scalar(value), &f.expr)?;
            let Value::Sum(new, _) = found else { unreachable!("declared as a sum") };
            let mut plain = self.b.emit(Op::Best(best), Type::Real);
            if negative {
                plain = self.b.real_op(Op::Neg(plain));
            }
            self.found.insert(new, plain);
            self.bind(name, found);
        }
        Ok(())
    }

    /// Lowers one loop. `searching`: of its statements only searches for extrema have an effect.
    fn one_loop(&mut self, f: &syn::ExprForLoop, searching: bool) -> Result<()> {
        let id = self.b.new_loop();
        let (range, names) = self.range(f)?;
        let channels = matches!(range, Range::Channels(_));
        if range.is_data() && self.loops.iter().any(|l| l.channels) {
            return err(
                &f.expr,
                "a loop over channels holds no other loop over data: put that one outside, and sum into `[0.0; Feature]`",
            );
        }
        if range.is_data() && self.loops.iter().any(|l| l.mesh) {
            return err(
                &f.expr,
                "a loop over data stands outside a loop over a mesh: sum first, or make it a kernel of its own",
            );
        }
        if range.is_data() && !channels && self.branches > 0 {
            return err(
                &f.expr,
                "a loop over data stands outside branches: move the condition into the loop",
            );
        }
        if let Range::Members { batch, system } = range {
            self.member_of.insert(id, (batch, system));
        }
        let stored = self.stored.clone();
        self.b.open(true);
        self.blocks.push(Block { is_loop: true, ..Block::default() });
        self.names.push(HashMap::default());
        self.loops.push(Loop { id, channels, ..Loop::default() });
        self.bind_loop(id, range, &names);
        self.block(&f.body.stmts)?;
        self.names.pop();
        let mut body = self.close_loop()?;
        if searching {
            self.stored = stored;
            body = without_effects(body);
        }
        self.b.push(Stmt::For { id, range, body });
        Ok(())
    }

    /// Binds the variables of a loop.
    pub(super) fn bind_loop(&mut self, id: LoopId, range: Range, names: &[String]) {
        let dim = match range {
            Range::Ints(..) => None,
            Range::Channels(dim) => Some(dim),
            Range::Members { batch, .. } => self.params[batch].kind.rows_in_systems(),
            Range::Pairs { list, .. } => return self.bind_pair(id, list, names),
            Range::Column { .. } => unreachable!("only the transpose visits columns"),
        };
        let v = self.b.emit(Op::LoopVar(id), dim.map_or(Type::Int, Type::Index));
        self.bind(names[0].clone(), Value::Scalar(v));
    }

    fn bind_pair(&mut self, id: LoopId, list: ParamId, names: &[String]) {
        let Kind::Pairs { columns, entries, .. } = self.params[list].kind else {
            unreachable!("checked by range")
        };
        let j = self.b.emit(Op::PairColumn(id), Type::Index(columns));
        let shift = [0, 1, 2].map(|c| {
            let shift = self.b.real_op(Op::PairShift(id, c));
            if self.b.in_order { self.b.op_value(Op::ToInt(shift)) } else { shift }
        });
        self.bind(names[0].clone(), Value::Scalar(j));
        self.bind(names[1].clone(), Value::IVec3(shift));
        if let (Some(name), Some(entries)) = (names.get(2), entries) {
            let p = self.b.emit(Op::PairEntry(id), Type::Index(entries));
            self.bind(name.clone(), Value::Scalar(p));
        }
    }

    /// Closes the innermost loop; gives its body.
    pub(super) fn close_loop(&mut self) -> Result<Vec<Stmt>> {
        let done = self.loops.pop().expect("closed as often as opened");
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
        Ok(body)
    }

    pub(super) fn range(&mut self, f: &syn::ExprForLoop) -> Result<(Range, Vec<String>)> {
        let forms = if self.b.in_order {
            "a loop is `for n in lo..hi`, `for (j, shift) in pairs.row(i)`, `for (j, shift) in grid.query(x[i], radius)` or \
             `for k in batch.members(system)`"
        } else {
            "a loop is `for n in lo..hi`, `for (j, shift) in pairs.row(i)`, `for (j, shift, p) in pairs.row(i)` \
                     (p: the pair, where the list names its entries), `for k in batch.members(system)`, `for (node, \
                     weight) in mesh.around(system, u)` or `for (j, shift) in grid.query(x[i], radius)`, and `for c in \
                     Feature` over channels"
        };
        let names = syntax::loop_variables(&f.pat, forms)?;
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
            Expr::MethodCall(m) if m.method == "query" => Ok((self.query_range(f, m, names.len())?, names)),
            Expr::MethodCall(m) => {
                let param = self.param_named(&m.receiver)?;
                if self.grids.has(param) {
                    return no_rows(m);
                }
                let (method, args) = (m.method.to_string(), m.args.iter().collect::<Vec<_>>());
                let [arg] = args.as_slice() else { return err(m, forms) };
                match (self.params[param].kind, method.as_str(), names.len()) {
                    (Kind::Pairs { entries: None, .. }, "row", 3) => err(
                        &f.pat,
                        "this list does not name its entries: `&Pairs<Rows, Columns, Entries>`, and arrays `&[T; Entries]`",
                    ),
                    (Kind::Pairs { rows, .. }, "row", 2 | 3) => {
                        let row = self.row(arg, rows, param)?;
                        if !self.is_row(row) && !self.b.in_order {
                            return err(arg, "a loop over pairs goes over those of the kernel's own row");
                        }
                        Ok((Range::Pairs { list: param, row }, names))
                    }
                    (Kind::Batch { systems, .. }, "members", 1) => {
                        let system = self.row(arg, systems, param)?;
                        Ok((Range::Members { batch: param, system }, names))
                    }
                    _ => err(m, forms),
                }
            }
            e if self.b.in_order => err(e, forms),
            e => match self.channels(e)? {
                Some(dim) if names.len() == 1 => Ok((Range::Channels(dim), names)),
                Some(_) => err(&f.pat, forms),
                None => err(e, forms),
            },
        }
    }
}

/// The name, whether the smallest is meant, and the other value of `m = max(m, x)` or `m = min(m, x)`.
pub(super) fn extreme(a: &syn::ExprAssign) -> Option<(String, bool, &Expr)> {
    let name = |e: &Expr| match e {
        Expr::Path(p) => p.path.get_ident().map(ToString::to_string),
        _ => None,
    };
    let m = name(&a.left)?;
    let Expr::Call(call) = &*a.right else { return None };
    let negative = match name(&call.func)?.as_str() {
        "max" => false,
        "min" => true,
        _ => return None,
    };
    match call.args.iter().collect::<Vec<_>>()[..] {
        [x, y] if name(x).as_ref() == Some(&m) => Some((m, negative, y)),
        [x, y] if name(y).as_ref() == Some(&m) => Some((m, negative, x)),
        _ => None,
    }
}

/// The extrema that a loop's own statements search for, without those of inner loops.
fn find_extremes(stmts: &[syn::Stmt], found: &mut Vec<(String, bool, proc_macro2::Span)>) {
    for s in stmts {
        match s {
            syn::Stmt::Expr(Expr::Assign(a), _) => {
                if let Some((name, negative, _)) = extreme(a) {
                    found.push((name, negative, syn::spanned::Spanned::span(&a.left)));
                }
            }
            syn::Stmt::Expr(Expr::If(f), _) => {
                find_extremes(&f.then_branch.stmts, found);
                let mut otherwise = f.else_branch.as_ref().map(|(_, e)| &**e);
                while let Some(e) = otherwise.take() {
                    match e {
                        Expr::Block(b) => find_extremes(&b.block.stmts, found),
                        Expr::If(f) => {
                            find_extremes(&f.then_branch.stmts, found);
                            otherwise = f.else_branch.as_ref().map(|(_, e)| &**e);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// A loop's body without effects other than its searches for extrema.
fn without_effects(body: Vec<Stmt>) -> Vec<Stmt> {
    let inner = declared(&body);
    filtered(body, &|s| match s {
        Stmt::Accumulate(m, _) => inner.contains(m),
        Stmt::AccumulateChannel { .. } | Stmt::Contribute { .. } | Stmt::Store { .. } => false,
        _ => true,
    })
}
