//! Calls of functions: those of the language, and those of a block, which are inlined.

use super::{ARGUMENT, Lower, Value, err, syntax, type_name};
use crate::ir::{Atomic, Function, Op, Shape, Type, Val};
use rustc_hash::FxHashMap as HashMap;
use syn::{Expr, ExprLit, ItemFn, Lit, Pat, Result, ReturnType};

/// The result of a function.
pub(super) enum Returned {
    One(Value),
    Tuple(Vec<Val>),
}

impl Lower<'_> {
    pub(super) fn call(&mut self, c: &syn::ExprCall) -> Result<Value> {
        let (name, args) = syntax::call(c)?;
        if let Some(f) = self.funcs.values.get(&name).copied() {
            return self.inline(f, &args, c);
        }
        let in_order = self.b.in_order;
        let scalar = |op: Op, l: &mut Self| Ok(Value::Scalar(l.b.real_op(op)));
        match (name.as_str(), args.as_slice()) {
            ("stop_gradient", [x]) if !in_order => self.stop_gradient(x),
            ("derivative", [y, x]) if !in_order => {
                let (of, by) = (self.real(y)?, self.real(x)?);
                if self.b.constant(by).is_some() {
                    return err(x, "a constant has no derivative by it");
                }
                let found = crate::derivative::derivative(&mut self.b, of, by).map(Value::Scalar);
                found.map_or_else(
                    || err(y, "a sum of a loop has no derivative here: take those of its terms"),
                    Ok,
                )
            }
            ("is_finite", [x]) if in_order => {
                let x = self.real(x)?;
                Ok(Value::Scalar(self.b.op_value(Op::IsFinite(x))))
            }
            ("atomic_add", [at, n]) if in_order => self.atomic(Atomic::Add, at, n),
            ("atomic_max", [at, n]) if in_order => self.atomic(Atomic::Max, at, n),
            ("atomic_min", [at, n]) if in_order => self.atomic(Atomic::Min, at, n),
            ("raise", _) if in_order => err(c, "`raise(REASON)` is a statement and has no value"),
            ("abs", [x]) if in_order => match self.expr(x)? {
                Value::Scalar(x) if self.b.ty(x) == Type::Real => scalar(Op::Abs(x), self),
                Value::Scalar(x) if self.b.ty(x) == Type::Int => Ok(Value::Scalar(self.magnitude(x))),
                _ => err(x, "expected a Real or an integer"),
            },
            ("min" | "max", [x, y]) if in_order => self.smaller_or_larger(name == "min", x, y, c),
            ("sqrt", [x]) => scalar(Op::Sqrt(self.real(x)?), self),
            ("nearest", [x]) => scalar(Op::Nearest(self.real(x)?), self),
            ("atan2", [y, x]) => scalar(Op::Atan2(self.real(y)?, self.real(x)?), self),
            ("atan", [x]) => {
                let (x, one) = (self.real(x)?, self.b.real(1.0));
                scalar(Op::Atan2(x, one), self)
            }
            ("pow", [x, Expr::Lit(ExprLit { lit: Lit::Int(n), .. })]) => {
                let x = self.real(x)?;
                let n: u32 = n.base10_parse()?;
                if n > 64 {
                    return err(c, "an integer power is multiplied out, up to 64: write `pow(x, 100.0)`");
                }
                Ok(Value::Scalar(self.integer_power(x, n)))
            }
            ("pow", [x, y]) => scalar(Op::Pow(self.real(x)?, self.real(y)?), self),
            ("abs", [x]) => {
                let x = self.real(x)?;
                let (zero, negative) = (self.b.real(0.0), self.b.real_op(Op::Neg(x)));
                let below = self.b.op_value(Op::Lt(x, zero));
                scalar(Op::Select(below, negative, x), self)
            }
            ("min" | "max", [x, y]) => {
                let (x, y) = (self.real(x)?, self.real(y)?);
                let first = if name == "min" { Op::Lt(x, y) } else { Op::Lt(y, x) };
                let first = self.b.op_value(first);
                scalar(Op::Select(first, x, y), self)
            }
            ("dot", [a, b]) => {
                let a = self.vector(a, None)?;
                let b = self.vector(b, Some(a.len()))?;
                Ok(Value::Scalar(self.dot(&a, &b)))
            }
            ("length", [a]) => {
                let a = self.vector(a, None)?;
                let square = self.dot(&a, &a);
                scalar(Op::Sqrt(square), self)
            }
            ("cross", [a, b]) => {
                let (a, b) = (self.vector(a, Some(3))?, self.vector(b, Some(3))?);
                let product = [(1, 2), (2, 0), (0, 1)].map(|(p, q)| {
                    let (x, y) = (self.b.real_op(Op::Mul(a[p], b[q])), self.b.real_op(Op::Mul(a[q], b[p])));
                    self.b.real_op(Op::Sub(x, y))
                });
                Ok(Value::Tensor(Shape::Vector(3), product.to_vec()))
            }
            ("vec2", [_, _]) | ("vec3", [_, _, _]) | ("vec4", [_, _, _, _]) => {
                let components = args.iter().map(|x| self.real(x)).collect::<Result<_>>()?;
                Ok(Value::Tensor(Shape::Vector(args.len()), components))
            }
            ("mat2", [_, _]) | ("mat3", [_, _, _]) => {
                let n = args.len();
                let rows = args.iter().map(|x| self.vector(x, Some(n))).collect::<Result<Vec<_>>>()?;
                Ok(Value::Tensor(Shape::Matrix(n), rows.concat()))
            }
            ("row", [m, n @ Expr::Lit(ExprLit { lit: Lit::Int(_), .. })]) => {
                let m = match self.expr(m)? {
                    m @ Value::Tensor(Shape::Matrix(_), _) => m,
                    _ => return err(m, "expected a matrix"),
                };
                self.part(&m, n, n)
            }
            (_, args) => match (Function::named(&name), args) {
                (Some(f), [x]) => scalar(Op::Call(f, self.real(x)?), self),
                _ => {
                    let own = if in_order {
                        "is_finite atomic_add atomic_max atomic_min raise"
                    } else {
                        "derivative stop_gradient"
                    };
                    err(c, syntax::no_function(&name, args.len(), own))
                }
            },
        }
    }

    /// A value without derivative. An extremum that a loop has found is available without the loop that adds it up.
    fn stop_gradient(&mut self, x: &Expr) -> Result<Value> {
        let found = match x {
            Expr::Path(p) => p.path.get_ident().and_then(|name| match self.lookup(&name.to_string()) {
                Some(Value::Sum(first, Shape::Number)) => self.found.get(&first).copied(),
                _ => None,
            }),
            _ => None,
        };
        if let Some(v) = found {
            return Ok(Value::Scalar(v));
        }
        match self.expr(x)? {
            v if self.reals(&v).is_some() => Ok(v.with(|v| self.b.real_op(Op::Stop(v)))),
            _ => err(x, "only reals, vectors and matrices have derivatives"),
        }
    }

    /// The components of a vector, of so many where that is given.
    fn vector(&mut self, e: &Expr, wanted: Option<usize>) -> Result<Vec<Val>> {
        let in_order = self.b.in_order;
        match self.expr(e)? {
            Value::Tensor(Shape::Vector(n), v) if wanted.is_none_or(|wanted| wanted == n) => Ok(v),
            Value::IVec3(v) if !in_order && wanted.is_none_or(|wanted| wanted == 3) => Ok(v.to_vec()),
            v => {
                let wanted = wanted.map_or("vector", |n| Shape::Vector(n).word());
                let hint = match v {
                    Value::IVec3(_) if in_order => " (three integers become one as `s as Vec3`)",
                    _ => "",
                };
                err(e, format!("expected a {wanted}{hint}"))
            }
        }
    }

    fn integer_power(&mut self, x: Val, n: u32) -> Val {
        match n {
            0 => self.b.real(1.0),
            1 => x,
            _ => {
                let half = self.integer_power(x, n / 2);
                let square = self.b.real_op(Op::Mul(half, half));
                if n.is_multiple_of(2) { square } else { self.b.real_op(Op::Mul(square, x)) }
            }
        }
    }

    fn inline(&mut self, f: &ItemFn, args: &[&Expr], at: &syn::ExprCall) -> Result<Value> {
        syntax::check_call(f, &self.inlining, args.len(), at)?;
        let name = f.sig.ident.to_string();
        let values = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>>>()?;
        // A function sees its arguments only.
        let outer = std::mem::replace(&mut self.names, vec![HashMap::default()]);
        for ((arg, value), e) in f.sig.inputs.iter().zip(&values).zip(args) {
            let (id, ty) = syntax::argument(arg)?;
            let word = type_name(ty);
            let fits = match Shape::named(&word) {
                Some(shape) => self.reals(value).is_some_and(|(of, _)| of == shape),
                None if word == "i32" || (word == "i64" && self.b.in_order) => {
                    matches!(value, Value::Scalar(v) if self.b.ty(*v) == Type::Int)
                }
                None => return err(ty, ARGUMENT),
            };
            if !fits {
                return err(e, format!("`{name}` takes a {word} here"));
            }
            self.bind(id.ident.to_string(), value.clone());
        }
        self.inlining.push(name.clone());
        let result = self.function_body(f);
        self.inlining.pop();
        self.names = outer;
        let Returned::One(value) = result? else { return err(&f.sig, "a function gives back one value") };
        self.check_returned(f, &value)?;
        if self.b.in_order {
            return Ok(value);
        }
        match (self.template(&name)?, &value) {
            (Some(template), Value::Scalar(v)) => {
                let args =
                    values.iter().filter_map(|a| if let Value::Scalar(v) = a { Some(*v) } else { None });
                let op = Op::Own { value: *v, template, args: args.collect() };
                Ok(Value::Scalar(self.b.real_op(op)))
            }
            (Some(_), _) => err(&f.sig, "a function with its own derivative gives back a Real"),
            (None, _) => Ok(value),
        }
    }

    /// Checks that a function's value has the type that it says.
    pub(super) fn check_returned(&self, f: &ItemFn, value: &Value) -> Result<()> {
        match &f.sig.output {
            // Integers are 64-bit in kernels that compute with them.
            ReturnType::Type(_, ty) if !(self.b.in_order && type_name(ty) == "i32") => self.fits(value, ty),
            _ => Ok(()),
        }
    }

    pub(super) fn function_body(&mut self, f: &ItemFn) -> Result<Returned> {
        let (lets, last) = syntax::function_body(f)?;
        for local in lets {
            match syntax::binding(local)?.0 {
                Pat::Ident(name) if name.mutability.is_some() => {
                    let message = if self.b.in_order {
                        "a function has no variables: `let mut` belongs in the kernel"
                    } else {
                        "a function has no sums: `let mut` belongs in the kernel"
                    };
                    return err(name, message);
                }
                Pat::Ident(_) => self.local(local)?,
                Pat::Wild(_) if self.b.in_order => self.local(local)?,
                _ => return err(local, "a function is `let`s and one expression at the end"),
            }
        }
        if let Expr::Tuple(t) = last
            && !self.b.in_order
        {
            let values = t.elems.iter().map(|e| self.real(e)).collect::<Result<Vec<_>>>()?;
            return Ok(Returned::Tuple(values));
        }
        Ok(Returned::One(self.expr(last)?))
    }
}
