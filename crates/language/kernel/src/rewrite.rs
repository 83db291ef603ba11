//! Copies a body with some of its ops replaced: specialisation, before a form is printed.

use crate::ir::{Body, Kernel, Kind, Op, Role, Stmt, Type, Val, ValueMap};

/// Specialisation: an argument declared `Zero` becomes 0 (its derivatives do not), a function with its own derivative
/// becomes its value, and, where `uniform`, all rows share one cotangent of each output.
pub fn specialise(kernel: &Kernel, src: &Body, uniform: bool) -> Body {
    rewrite(src, &mut |b, _, op, ty| match op {
        Op::Load { param, role, .. }
            if role == Role::VALUE && matches!(kernel.params[param].kind, Kind::Real { zero: true, .. }) =>
        {
            b.real(0.0)
        }
        Op::Load { param, role, component, channel, .. }
            if uniform && matches!(kernel.params[param].kind, Kind::Output { .. }) =>
        {
            b.real_op(Op::Load { param, role, row: None, component, channel })
        }
        Op::Own { value, .. } | Op::Stop(value) => value,
        op => b.copy_op(op, ty),
    })
}

/// A copy of a body in which `f` replaces each value, given its op with arguments that are in the copy already.
pub(crate) fn rewrite(src: &Body, f: &mut dyn FnMut(&mut Body, Val, Op, Type) -> Val) -> Body {
    rewrite_stmts(src, src.stmts(), f)
}

/// A copy as by [`rewrite`], with other statements of the body's values than its own.
pub(crate) fn rewrite_stmts(
    src: &Body,
    stmts: &[Stmt],
    f: &mut dyn FnMut(&mut Body, Val, Op, Type) -> Val,
) -> Body {
    let mut b = Body::new(Some(src));
    block(src, stmts, &mut b, &mut ValueMap::default(), f);
    b
}

/// The value in the new body.
pub(crate) fn mapped(src: &Body, b: &mut Body, map: &ValueMap, v: Val) -> Val {
    match src.op(v) {
        Op::Const(bits) => b.real(f64::from_bits(*bits)),
        Op::Int(i) => b.op_value(Op::Int(*i)),
        Op::Channel(_, dim) => b.emit(src.op(v).clone(), Type::Index(*dim)),
        _ => map[&v],
    }
}

fn block(
    src: &Body,
    stmts: &[Stmt],
    b: &mut Body,
    map: &mut ValueMap,
    f: &mut dyn FnMut(&mut Body, Val, Op, Type) -> Val,
) {
    for s in stmts {
        let at = |b: &mut Body, v: Val| mapped(src, b, map, v);
        match s {
            Stmt::Let(v) => {
                let op = src.op(*v).map_args(|a| at(b, a));
                let n = f(b, *v, op, src.ty(*v));
                map.insert(*v, n);
            }
            Stmt::For { id, range, body } => {
                let range = range.map_args(|a| at(b, a));
                b.open(true);
                block(src, body, b, map, f);
                let body = b.close();
                b.push(Stmt::For { id: *id, range, body });
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = at(b, *condition);
                b.open(false);
                block(src, then, b, map, f);
                let then = b.close();
                b.open(false);
                block(src, otherwise, b, map, f);
                let otherwise = b.close();
                b.push(Stmt::If { condition, then, otherwise });
            }
            s => {
                let s = s.map_args(|v| at(b, v));
                b.push_sum(s);
            }
        }
    }
}
