//! The table of derivatives, and forward mode over it.

use crate::ir::{Acc, Body, Function, Kernel, Kind, Op, Role, Stmt, Template, Type, Val, ValueMap};
use crate::rewrite::mapped;
use rustc_hash::FxHashMap as HashMap;

/// The partial derivatives of `op`, whose value is `v`, by each real argument. All values are of `b`.
/// (`Select` is not here: its derivative selects, so that the branch not taken cannot poison the result.)
pub(crate) fn partials(b: &mut Body, op: &Op, v: Val) -> Vec<(Val, Val)> {
    use Op::*;
    match *op {
        Add(x, y) => {
            let one = b.real(1.0);
            vec![(x, one), (y, one)]
        }
        Sub(x, y) => vec![(x, b.real(1.0)), (y, b.real(-1.0))],
        Neg(x) => vec![(x, b.real(-1.0))],
        Mul(x, y) => vec![(x, y), (y, x)],
        Recip(x) => {
            let square = b.real_op(Mul(v, v));
            vec![(x, b.real_op(Neg(square)))]
        }
        Sqrt(x) => {
            let (half, inverse) = (b.real(0.5), b.real_op(Recip(v)));
            vec![(x, b.real_op(Mul(half, inverse)))]
        }
        Call(f, x) => function_derivative(b, f, x, v).map_or_else(Vec::new, |d| vec![(x, d)]),
        Pow(x, y) => {
            let one = b.real(1.0);
            let exponent = b.real_op(Sub(y, one));
            let power = b.real_op(Pow(x, exponent));
            let log = b.real_op(Call(Function::Ln, x));
            vec![(x, b.real_op(Mul(y, power))), (y, b.real_op(Mul(v, log)))]
        }
        Atan2(y, x) => {
            let squares = [x, y].map(|z| b.real_op(Mul(z, z)));
            let square = b.real_op(Add(squares[0], squares[1]));
            let inverse = b.real_op(Recip(square));
            let opposite = b.real_op(Neg(y));
            vec![(y, b.real_op(Mul(x, inverse))), (x, b.real_op(Mul(opposite, inverse)))]
        }
        // M_p'(x) = M_{p−1}(x) − M_{p−1}(x − 1), left to the code that tabulates splines.
        Spline { mesh, system, axis, at, node, derivative } => {
            let derivative = derivative + 1;
            vec![(at, b.real_op(Spline { mesh, system, axis, at, node, derivative }))]
        }
        Own { template, ref args, .. } => {
            let template = b.templates[template].clone();
            let partials = instantiate(b, &template, args);
            args.iter().copied().zip(partials).collect()
        }
        _ => vec![],
    }
}

/// The derivative of a function at `x`, where its value is `v`; None where it is zero.
fn function_derivative(b: &mut Body, f: Function, x: Val, v: Val) -> Option<Val> {
    use Function::*;
    use Op::*;
    Some(match f {
        Exp => v,
        Ln => b.real_op(Recip(x)),
        Erf | Erfc => {
            let c = std::f64::consts::FRAC_2_SQRT_PI;
            let (c, e) = (b.real(if f == Erf { c } else { -c }), b.real_op(Call(ExpNegSq, x)));
            b.real_op(Mul(c, e))
        }
        ExpNegSq => {
            let c = b.real(-2.0);
            let c = b.real_op(Mul(c, x));
            b.real_op(Mul(c, v))
        }
        Sin => b.real_op(Call(Cos, x)),
        Cos => {
            let s = b.real_op(Call(Sin, x));
            b.real_op(Neg(s))
        }
        // In factors, which lose nothing near ±1.
        Asin | Acos | Tanh => {
            let (one, z) = (b.real(1.0), if f == Tanh { v } else { x });
            let (below, above) = (b.real_op(Sub(one, z)), b.real_op(Add(one, z)));
            let rest = b.real_op(Mul(below, above));
            if f == Tanh {
                return Some(rest);
            }
            let root = b.real_op(Sqrt(rest));
            let inverse = b.real_op(Recip(root));
            if f == Asin { inverse } else { b.real_op(Neg(inverse)) }
        }
        Floor => return None,
    })
}

/// The derivative of `y` by `x`, two values of `b`, along all ways from one to the other; None for a value that is read
/// from a sum of a loop, of which nothing is known here.
pub(crate) fn derivative(b: &mut Body, y: Val, x: Val) -> Option<Val> {
    let d = along(b, y, x, &mut HashMap::default())?;
    Some(d.unwrap_or_else(|| b.real(0.0)))
}

/// The derivative of a value, None where it is zero, with those that are `known`.
fn along(b: &mut Body, y: Val, x: Val, known: &mut HashMap<Val, Option<Val>>) -> Option<Option<Val>> {
    if y == x {
        return Some(Some(b.real(1.0)));
    }
    if let Some(d) = known.get(&y) {
        return Some(*d);
    }
    let op = b.op(y).clone();
    let d = match op {
        Op::Read(_) | Op::ReadChannel(..) => return None,
        Op::Select(c, p, q) => {
            let (dp, dq) = (along(b, p, x, known)?, along(b, q, x, known)?);
            let zero = b.real(0.0);
            (dp.is_some() || dq.is_some())
                .then(|| b.real_op(Op::Select(c, dp.unwrap_or(zero), dq.unwrap_or(zero))))
        }
        op => {
            let mut sum = None;
            for (arg, partial) in partials(b, &op, y) {
                if let Some(d) = along(b, arg, x, known)? {
                    let term = b.real_op(Op::Mul(partial, d));
                    sum = Some(sum.map_or(term, |s| b.real_op(Op::Add(s, term))));
                }
            }
            sum
        }
    };
    known.insert(y, d);
    Some(d)
}

/// The partial derivatives that a template gives for `args`.
fn instantiate(b: &mut Body, template: &Template, args: &[Val]) -> Vec<Val> {
    let mut map: Vec<Val> = args.to_vec();
    for op in &template.values[template.args..] {
        let op = op.map_args(|a| map[a]);
        map.push(b.op_value(op));
    }
    template.partials.iter().map(|p| map[*p]).collect()
}

/// Whether a parameter's arrays have derivatives.
pub(crate) fn is_differentiable(kernel: &Kernel, param: usize) -> bool {
    matches!(kernel.params[param].kind, Kind::Real { .. } | Kind::Output { .. })
}

/// Dual numbers, lowered: the body with, beside every value, its derivative along `direction`.
/// Stores and contributions are made of both.
pub fn tangent(kernel: &Kernel, src: &Body, direction: Role) -> Body {
    let mut t = Tangent {
        kernel,
        src,
        b: Body::new(Some(src)),
        map: ValueMap::default(),
        dot: vec![HashMap::default()],
        acc_dot: HashMap::default(),
        direction,
    };
    t.block(src.stmts());
    t.b
}

struct Tangent<'a> {
    kernel: &'a Kernel,
    src: &'a Body,
    b: Body,
    map: ValueMap,
    /// Derivatives of the new values, by the block that formed them: a derivative that was formed in a branch does not
    /// exist after the branch, although the value may. Values without an entry have none.
    dot: Vec<HashMap<Val, Val>>,
    acc_dot: HashMap<Acc, Acc>,
    direction: Role,
}

impl Tangent<'_> {
    fn value(&mut self, v: Val) -> Val {
        mapped(self.src, &mut self.b, &self.map, v)
    }

    fn dot(&self, x: Val) -> Option<Val> {
        self.dot.iter().rev().find_map(|d| d.get(&x).copied())
    }

    fn dot_or_zero(&mut self, x: Val) -> Val {
        self.dot(x).unwrap_or_else(|| self.b.real(0.0))
    }

    fn inner(&mut self, is_loop: bool, stmts: &[Stmt]) -> Vec<Stmt> {
        self.b.open(is_loop);
        self.dot.push(HashMap::default());
        self.block(stmts);
        self.dot.pop();
        self.b.close()
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            match s {
                Stmt::Let(v) => self.define(*v),
                Stmt::For { id, range, body } => {
                    let range = range.map_args(|a| self.value(a));
                    let body = self.inner(true, body);
                    self.b.push(Stmt::For { id: *id, range, body });
                }
                Stmt::If { condition, then, otherwise } => {
                    let condition = self.value(*condition);
                    let (then, otherwise) = (self.inner(false, then), self.inner(false, otherwise));
                    self.b.push(Stmt::If { condition, then, otherwise });
                }
                s => {
                    let s = s.map_args(|v| self.value(v));
                    self.with_derivative(s);
                }
            }
        }
    }

    /// A statement, and beside it the one that does the same with the derivative of its value.
    fn with_derivative(&mut self, s: Stmt) {
        self.b.push(s.clone());
        let mut derivative = s;
        match &mut derivative {
            Stmt::Declare(m, v) => (*m, *v) = (self.new_acc_dot(*m), self.dot_or_zero(*v)),
            Stmt::DeclareChannels(m, _) => *m = self.new_acc_dot(*m),
            Stmt::Accumulate(m, v) | Stmt::AccumulateChannel { sum: m, value: v, .. } => {
                (*m, *v) = (self.acc_dot[m], self.dot_or_zero(*v));
            }
            Stmt::Store { role, value, .. } | Stmt::Contribute { role, value, .. } => {
                (*role, *value) = (role.with(self.direction), self.dot_or_zero(*value));
            }
            // A maximum has no derivative.
            _ => return,
        }
        self.b.push_sum(derivative);
    }

    fn new_acc_dot(&mut self, m: Acc) -> Acc {
        let dot = self.b.new_acc();
        self.acc_dot.insert(m, dot);
        dot
    }

    fn define(&mut self, v: Val) {
        let op = self.src.op(v).map_args(|a| self.value(a));
        let x = self.b.copy_op(op.clone(), self.src.ty(v));
        self.map.insert(v, x);
        if self.src.ty(v) != Type::Real || self.dot(x).is_some() {
            return;
        }
        let dx = match op {
            Op::Load { param, role, row, component, channel } if is_differentiable(self.kernel, param) => {
                let role = role.with(self.direction);
                Some(self.b.real_op(Op::Load { param, role, row, component, channel }))
            }
            Op::ReadChannel(m, c) => Some(self.b.emit(Op::ReadChannel(self.acc_dot[&m], c), Type::Real)),
            Op::Read(m) => Some(self.b.emit(Op::Read(self.acc_dot[&m]), Type::Real)),
            Op::Select(c, p, q) if self.dot(p).is_some() || self.dot(q).is_some() => {
                let zero = self.b.real(0.0);
                let (dp, dq) = (self.dot(p).unwrap_or(zero), self.dot(q).unwrap_or(zero));
                Some(self.b.real_op(Op::Select(c, dp, dq)))
            }
            _ => {
                let mut sum = None;
                if op.any_arg(|a| self.dot(a).is_some()) {
                    for (arg, partial) in partials(&mut self.b, &op, x) {
                        if let Some(d) = self.dot(arg) {
                            let term = self.b.real_op(Op::Mul(partial, d));
                            sum = Some(sum.map_or(term, |s| self.b.real_op(Op::Add(s, term))));
                        }
                    }
                }
                sum
            }
        };
        if let Some(dx) = dx.filter(|d| self.b.constant(*d) != Some(0.0)) {
            self.dot.last_mut().expect("a block is open").insert(x, dx);
        }
    }
}
