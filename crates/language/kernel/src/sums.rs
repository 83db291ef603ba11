//! Sums through nested loops over a mesh: acc += f(outer) · g(inner) becomes an inner sum of g and one product behind the
//! loop, loop by loop. A weight and its derivatives are products over the axes, so what a node gives to several sums is a
//! few terms, and the products that tell them apart are made once a line or once a plane.
//!
//! Loops of other kinds may have no iteration: there an infinite f would meet the sum 0.

use crate::ir::{Acc, Body, Op, Range, Stmt, Val, ValueMap, declared};
use crate::print::nest::is_over_nodes;
use crate::rewrite::mapped;
use std::collections::BTreeSet;

/// The body with its sums arranged.
pub(crate) fn arranged(src: &Body) -> Body {
    if !src.ops().any(|op| matches!(op, Op::SplineOrder { .. })) {
        return src.clone();
    }
    let mut s = Sums { src, b: Body::new(Some(src)), map: ValueMap::default(), open: vec![] };
    s.block(src.stmts());
    s.b.remove_unused();
    s.b
}

/// A constant times values.
#[derive(Clone)]
struct Product {
    constant: f64,
    factors: Vec<Val>,
}

/// A loop whose sums are arranged.
struct Open {
    /// Sums that live in its body.
    own: BTreeSet<Acc>,
    /// Inner sums: the factors of their terms.
    inner: Vec<(Vec<Val>, Acc)>,
    /// Additions behind the loop: to a sum, of an inner one, times a product.
    behind: Vec<(Acc, Acc, Product)>,
}

struct Sums<'a> {
    src: &'a Body,
    b: Body,
    map: ValueMap,
    open: Vec<Open>,
}

impl Sums<'_> {
    fn value(&mut self, v: Val) -> Val {
        mapped(self.src, &mut self.b, &self.map, v)
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    let op = self.src.op(*v).map_args(|a| self.value(a));
                    let n = self.b.copy_op(op, self.src.ty(*v));
                    self.map.insert(*v, n);
                }
                Stmt::For { id, range, body } => {
                    let range = range.map_args(|a| self.value(a));
                    let is_mesh = is_over_nodes(&self.b, range);
                    let outer = std::mem::take(&mut self.open);
                    if is_mesh {
                        self.open = outer;
                        self.open.push(Open { own: declared(body), inner: vec![], behind: vec![] });
                        self.for_loop(*id, range, body);
                        let done = self.open.pop().expect("it was opened");
                        for (sum, inner, mut by) in done.behind {
                            let read = self.b.copy_op(Op::Read(inner), crate::ir::Type::Real);
                            by.factors.push(read);
                            self.add(sum, vec![by]);
                        }
                    } else {
                        self.for_loop(*id, range, body);
                        self.open = outer;
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    let condition = self.value(*condition);
                    let outer = std::mem::take(&mut self.open);
                    let [then, otherwise] = [then, otherwise].map(|stmts| {
                        self.b.open(false);
                        self.block(stmts);
                        self.b.close()
                    });
                    self.open = outer;
                    self.b.push(Stmt::If { condition, then, otherwise });
                }
                Stmt::Accumulate(m, v) if !self.open.is_empty() => {
                    let v = self.value(*v);
                    let terms = self.terms(v, 1.0);
                    if terms.iter().all(|t| self.moves(*m, t)) {
                        self.add(*m, terms);
                    } else {
                        self.b.push_sum(Stmt::Accumulate(*m, v));
                    }
                }
                s => {
                    let s = s.map_args(|v| self.value(v));
                    self.b.push_sum(s);
                }
            }
        }
    }

    fn for_loop(&mut self, id: usize, range: Range, body: &[Stmt]) {
        self.b.open(true);
        self.block(body);
        let body = self.b.close();
        if let Some(open) = self.open.last() {
            let inner: Vec<Acc> = open.inner.iter().map(|(_, m)| *m).collect();
            let zero = self.b.real(0.0);
            inner.into_iter().for_each(|m| self.b.push(Stmt::Declare(m, zero)));
        }
        self.b.push(Stmt::For { id, range, body });
    }

    /// The terms of a sum, as products.
    fn terms(&self, v: Val, sign: f64) -> Vec<Product> {
        match *self.b.op(v) {
            Op::Add(x, y) => [self.terms(x, sign), self.terms(y, sign)].concat(),
            Op::Sub(x, y) => [self.terms(x, sign), self.terms(y, -sign)].concat(),
            Op::Neg(x) => self.terms(x, -sign),
            _ => {
                let mut p = Product { constant: sign, factors: vec![] };
                self.factors(v, &mut p);
                vec![p]
            }
        }
    }

    fn factors(&self, v: Val, p: &mut Product) {
        match *self.b.op(v) {
            Op::Const(bits) => p.constant *= f64::from_bits(bits),
            Op::Neg(x) => {
                p.constant = -p.constant;
                self.factors(x, p);
            }
            Op::Mul(x, y) => {
                self.factors(x, p);
                self.factors(y, p);
            }
            _ => p.factors.push(v),
        }
    }

    /// Whether a term of a sum has factors within the loop that is open, and others.
    fn moves(&self, m: Acc, p: &Product) -> bool {
        let within = |v: &Val| self.b.depth_of(*v) == self.b.depth();
        self.open.last().is_some_and(|open| !open.own.contains(&m))
            && p.factors.iter().any(within)
            && !p.factors.iter().all(within)
    }

    /// Adds terms to a sum: by an inner sum of the loop that is open, if they can be.
    fn add(&mut self, m: Acc, terms: Vec<Product>) {
        for p in terms {
            if !self.moves(m, &p) {
                let value = self.multiplied(p.constant, &p.factors);
                self.b.push_sum(Stmt::Accumulate(m, value));
                continue;
            }
            let depth = self.b.depth();
            let (mut within, outside): (Vec<Val>, Vec<Val>) =
                p.factors.iter().partition(|v| self.b.depth_of(**v) == depth);
            within.sort_unstable();
            let known = self.open.last().and_then(|open| open.inner.iter().find(|(of, _)| *of == within));
            let inner = match known {
                Some((_, inner)) => *inner,
                None => {
                    let inner = self.b.new_acc();
                    let value = self.multiplied(1.0, &within);
                    self.b.push(Stmt::Accumulate(inner, value));
                    self.open.last_mut().expect("a loop is open").inner.push((within, inner));
                    inner
                }
            };
            let by = Product { constant: p.constant, factors: outside };
            self.open.last_mut().expect("a loop is open").behind.push((m, inner, by));
        }
    }

    fn multiplied(&mut self, constant: f64, factors: &[Val]) -> Val {
        let mut product = self.b.real(constant.abs());
        for v in factors {
            product = self.b.real_op(Op::Mul(product, *v));
        }
        if constant < 0.0 { self.b.real_op(Op::Neg(product)) } else { product }
    }
}
