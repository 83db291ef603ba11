//! Algebra on the way in: constants folded, signs collected, products by one and zero dropped.
//!
//! `0 · x` becomes 0 for every x: a kernel's arrays hold finite numbers (checked at the edge of a call), and an
//! argument declared `Zero` must cost nothing. A value that a condition makes 0 is treated alike: its product with a
//! value that may be infinite or NaN is selected once more.

use crate::ir::{Body, Op, Parity, Type, Val};

/// Emits a real-valued op.
pub(crate) fn real_op(b: &mut Body, op: Op) -> Val {
    let mut v = simplified(b, op);
    if let Op::Mul(x, y) = *b.op(v) {
        for (x, y) in [(x, y), (y, x)] {
            for (c, holds) in b.unless(x).to_vec() {
                if b.is_wild(y) {
                    let zero = b.real(0.0);
                    let (p, q) = if holds { (v, zero) } else { (zero, v) };
                    v = real_op(b, Op::Select(c, p, q));
                }
            }
        }
    }
    v
}

fn simplified(b: &mut Body, op: Op) -> Val {
    use Op::*;
    let ty = Type::Real;
    if let Some(x) = fold(b, &op).filter(|x| x.is_finite()) {
        return b.real(x);
    }
    if b.canonical_signs
        && let Some(v) = signs_outward(b, &op)
    {
        return v;
    }
    let op = match op {
        Add(x, y) => {
            if b.constant(x) == Some(0.0) {
                return y;
            }
            if b.constant(y) == Some(0.0) {
                return x;
            }
            match (b.op(x).clone(), b.op(y).clone()) {
                (_, Neg(z)) => return real_op(b, Sub(x, z)),
                (Neg(z), _) => return real_op(b, Sub(y, z)),
                _ if x == y => {
                    let two = b.real(2.0);
                    return real_op(b, Mul(two, x));
                }
                _ => Add(x.min(y), x.max(y)),
            }
        }
        Sub(x, y) => {
            if b.constant(y) == Some(0.0) {
                return x;
            }
            if b.constant(x) == Some(0.0) {
                return real_op(b, Neg(y));
            }
            if x == y {
                return b.real(0.0);
            }
            if let Neg(z) = *b.op(y) {
                return real_op(b, Add(x, z));
            }
            Sub(x, y)
        }
        Mul(x, y) => {
            for (c, z) in [(x, y), (y, x)] {
                match b.constant(c) {
                    Some(1.0) => return z,
                    Some(0.0) => return b.real(0.0),
                    Some(-1.0) => return real_op(b, Neg(z)),
                    _ => {}
                }
                if let Neg(n) = *b.op(c) {
                    let product = real_op(b, Mul(n, z));
                    return real_op(b, Neg(product));
                }
            }
            for (s, z) in [(x, y), (y, x)] {
                if let Select(c, p, q) = *b.op(s)
                    && b.is_wild(z)
                    && [p, q].iter().any(|v| b.constant(*v) == Some(0.0))
                {
                    let (p, q) = (real_op(b, Mul(p, z)), real_op(b, Mul(q, z)));
                    return real_op(b, Select(c, p, q));
                }
            }
            // Constants meet: c₁ · (c₂ · z) is one product.
            if let (Some(c), Mul(p, q)) = (b.constant(x), b.op(y).clone())
                && let Some(d) = b.constant(p).or(b.constant(q))
                && (c * d).is_normal()
            {
                let z = if b.constant(p).is_some() { q } else { p };
                let c = b.real(c * d);
                return real_op(b, Mul(c, z));
            }
            if b.constant(y).is_some() && b.constant(x).is_none() {
                return real_op(b, Mul(y, x));
            }
            let (x, y) = if b.constant(x).is_some() { (x, y) } else { (x.min(y), x.max(y)) };
            if b.canonical_signs {
                return power_of_two_outward(b, x, y).unwrap_or_else(|| b.product(x, y));
            }
            Mul(x, y)
        }
        Neg(x) => match *b.op(x) {
            Neg(z) => return z,
            Sub(p, q) if !b.canonical_signs => return real_op(b, Sub(q, p)),
            _ => Neg(x),
        },
        Select(c, x, y) => {
            if x == y {
                return x;
            }
            match (b.op(x), b.op(y)) {
                (Select(d, p, _), _) if *d == c => return real_op(b, Select(c, *p, y)),
                (_, Select(d, _, q)) if *d == c => return real_op(b, Select(c, x, *q)),
                (Select(d, _, q), _) if *q == y && implies(b, *d, c) => return x,
                _ => Select(c, x, y),
            }
        }
        Recip(x) => match *b.op(x) {
            Recip(z) => return z,
            _ => Recip(x),
        },
        op => op,
    };
    b.emit(op, ty)
}

/// Whether a condition is one of those that another one joins.
fn implies(b: &Body, all: Val, one: Val) -> bool {
    match *b.op(all) {
        Op::And(x, y) => [x, y].into_iter().any(|v| v == one || implies(b, v, one)),
        _ => false,
    }
}

/// 2ⁿ · x, times y, is 2ⁿ · (x · y): the halves of square roots meet the twos of squares, and vanish.
fn power_of_two_outward(b: &mut Body, x: Val, y: Val) -> Option<Val> {
    if b.constant(x).is_some() {
        return None;
    }
    for (c, z) in [(x, y), (y, x)] {
        if let Op::Mul(p, q) = *b.op(c)
            && b.constant(p).is_some_and(|p| p == 0.5 || p == 2.0)
            // A product from outside of the loop stays there.
            && b.depth_of(c) == b.depth()
        {
            let product = real_op(b, Op::Mul(q, z));
            return Some(real_op(b, Op::Mul(p, product)));
        }
    }
    None
}

fn fold(b: &Body, op: &Op) -> Option<f64> {
    use Op::*;
    let c = |v: &Val| b.constant(*v);
    Some(match op {
        Add(x, y) => c(x)? + c(y)?,
        Sub(x, y) => c(x)? - c(y)?,
        Mul(x, y) => c(x)? * c(y)?,
        Neg(x) => -c(x)?,
        Recip(x) => 1.0 / c(x)?,
        Sqrt(x) => c(x)?.sqrt(),
        Call(f, x) => c(x).filter(|x| *x == 0.0).and(f.at_zero())?,
        FromInt(x) => match b.op(*x) {
            Int(i) => *i as f64,
            _ => return None,
        },
        _ => return None,
    })
}

/// Under the exchange of a pair, differences change sign. Writing every difference in one order, with its sign
/// pulled out, lets the exchanged value meet the plain one.
fn signs_outward(b: &mut Body, op: &Op) -> Option<Val> {
    use Op::*;
    let neg = |b: &Body, v: Val| match b.op(v) {
        Neg(x) => Some(*x),
        _ => None,
    };
    let flipped = match *op {
        Sub(x, y) => match (neg(b, x), neg(b, y)) {
            (Some(x), Some(y)) => return Some(real_op(b, Sub(y, x))),
            (Some(x), None) => real_op(b, Add(x, y)),
            (None, None) if x > y && b.constant(y) != Some(0.0) => real_op(b, Sub(y, x)),
            _ => return None,
        },
        Add(x, y) => match (neg(b, x), neg(b, y)) {
            (Some(x), Some(y)) => real_op(b, Add(x, y)),
            _ => return None,
        },
        Recip(x) => {
            let x = neg(b, x)?;
            real_op(b, Recip(x))
        }
        Select(c, x, y) => match (neg(b, x), neg(b, y)) {
            (Some(x), Some(y)) => real_op(b, Select(c, x, y)),
            (Some(x), None) if b.constant(y) == Some(0.0) => real_op(b, Select(c, x, y)),
            (None, Some(y)) if b.constant(x) == Some(0.0) => real_op(b, Select(c, x, y)),
            _ => return None,
        },
        Call(f, x) if f.parity() != Parity::Neither => {
            let x = neg(b, x)?;
            let value = real_op(b, Call(f, x));
            if f.parity() == Parity::Even {
                return Some(value);
            }
            value
        }
        _ => return None,
    };
    Some(real_op(b, Neg(flipped)))
}
