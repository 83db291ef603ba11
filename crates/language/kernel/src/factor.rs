//! Products and sums of products arranged so that they cost least: loop-invariant factors are multiplied outside of the
//! loop, and a factor that both terms of a sum have is taken out. Shared subexpressions stay whole.
//!
//! This pass comes last, when a form is about to be printed: derivatives and transposes see the formula as it was
//! written.

use crate::ir::{Body, Op, Val};
use crate::rewrite::rewrite;
use rustc_hash::FxHashSet as HashSet;

/// The body with its products arranged.
pub(crate) fn factored(src: &Body) -> Body {
    factored_after(src, &Body::remove_unused)
}

/// Twin of [`factored`] for bodies with results of their own: `clean` removes what none of them depends on.
pub(crate) fn factored_after(src: &Body, clean: &dyn Fn(&mut Body)) -> Body {
    // Taking a sum apart may leave a product that two terms shared with a single user.
    once(&once(src, clean), clean)
}

fn once(src: &Body, clean: &dyn Fn(&mut Body)) -> Body {
    let uses = src.uses();
    let mut f = Factor { shared: HashSet::default() };
    let mut b = rewrite(src, &mut |b, v, op, ty| {
        let n = match op {
            Op::Mul(x, y) => f.product(b, x, y),
            Op::Add(x, y) => f.sum(b, x, y, false).unwrap_or_else(|| b.real_op(op)),
            Op::Sub(x, y) => f.sum(b, x, y, true).unwrap_or_else(|| b.real_op(op)),
            op => b.copy_op(op, ty),
        };
        if uses.get(&v).is_some_and(|n| *n > 1) {
            f.shared.insert(n);
        }
        n
    });
    clean(&mut b);
    b
}

struct Factor {
    /// Values that have several users.
    shared: HashSet<Val>,
}

/// A constant times values.
struct Product {
    constant: f64,
    factors: Vec<Val>,
}

impl Factor {
    fn product(&self, b: &mut Body, x: Val, y: Val) -> Val {
        let mut p = self.factors(b, x);
        let q = self.factors(b, y);
        p.constant *= q.constant;
        p.factors.extend(q.factors);
        let outside = p.factors.iter().filter(|v| b.depth_of(**v) < b.depth()).count();
        let constants = usize::from(p.constant.abs() != 1.0);
        if outside == p.factors.len() || outside + constants < 2 {
            return b.real_op(Op::Mul(x, y));
        }
        multiplied(b, p)
    }

    /// x ± y = common · (x′ ± y′), where that saves an operation.
    fn sum(&self, b: &mut Body, x: Val, y: Val, subtracts: bool) -> Option<Val> {
        let (mut p, mut q) = (self.factors(b, x), self.factors(b, y));
        if [&p, &q].iter().any(|p| p.factors.len() < 2) {
            return None;
        }
        let mut common = vec![];
        p.factors.retain(|v| match q.factors.iter().position(|w| w == v) {
            Some(at) => {
                common.push(q.factors.swap_remove(at));
                false
            }
            None => true,
        });
        // A product that goes to a sum alone is fused with it.
        let fused = usize::from(p.factors.len() > 1 || q.factors.len() > 1);
        if common.is_empty() || common.len() + fused < 2 {
            return None;
        }
        let (x, y) = (multiplied(b, p), multiplied(b, q));
        let inner = b.real_op(if subtracts { Op::Sub(x, y) } else { Op::Add(x, y) });
        common.push(inner);
        Some(multiplied(b, Product { constant: 1.0, factors: common }))
    }

    /// The factors of a value, as far as they have no other use and stand in the open block.
    fn factors(&self, b: &Body, v: Val) -> Product {
        let whole = self.shared.contains(&v) || b.depth_of(v) < b.depth();
        match *b.op(v) {
            Op::Const(bits) => Product { constant: f64::from_bits(bits), factors: vec![] },
            Op::Neg(x) if !whole => {
                let p = self.factors(b, x);
                Product { constant: -p.constant, ..p }
            }
            Op::Mul(x, y) if !whole => {
                let (mut p, q) = (self.factors(b, x), self.factors(b, y));
                p.constant *= q.constant;
                p.factors.extend(q.factors);
                p
            }
            _ => Product { constant: 1.0, factors: vec![v] },
        }
    }
}

/// The product, multiplied from the outermost block inwards; in a block, in the order in which the factors are known.
fn multiplied(b: &mut Body, mut p: Product) -> Val {
    p.factors.sort_unstable_by_key(|v| (b.depth_of(*v), *v));
    let mut product = b.real(p.constant.abs());
    for v in p.factors {
        product = b.real_op(Op::Mul(product, v));
    }
    if p.constant < 0.0 { b.real_op(Op::Neg(product)) } else { product }
}
