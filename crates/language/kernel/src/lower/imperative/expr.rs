//! Expressions.

use super::{Lower, Name, Value, err, syntax, type_name};
use crate::imperative::{Atomic, Binary, Expr as Computed, Reason, Stmt, Type, Unary, Var};
use crate::ir::{Function, Kind};
use crate::layout::Array;
use syn::{BinOp, Expr, ExprLit, Lit, Result, UnOp};

impl Lower<'_> {
    pub(super) fn int(&mut self, e: &Expr) -> Result<Var> {
        match self.expr(e)? {
            Value::Int(v) => Ok(v),
            Value::Real(_) => err(
                e,
                "expected an integer (a real without its fraction is `x as i64`, after `floor(x)` rounded down)",
            ),
            Value::Row(..) => err(e, "expected an integer (the number of a row is `row as i64`)"),
            _ => err(e, "expected an integer"),
        }
    }

    pub(super) fn boolean(&mut self, e: &Expr) -> Result<Var> {
        match self.expr(e)? {
            Value::Bool(v) => Ok(v),
            _ => err(e, "expected a condition: a comparison, or several joined by && || !"),
        }
    }

    fn real(&mut self, e: &Expr) -> Result<Var> {
        match self.expr(e)? {
            Value::Real(v) => Ok(v),
            _ => err(e, "expected a Real (an integer becomes one as `n as Real`; a constant is `1.0`)"),
        }
    }

    pub(super) fn expr(&mut self, e: &Expr) -> Result<Value> {
        match e {
            Expr::Paren(p) => self.expr(&p.expr),
            Expr::Group(p) => self.expr(&p.expr),
            Expr::Lit(l) => self.literal(l),
            Expr::Path(p) => self.name(p),
            Expr::Unary(u) => match u.op {
                UnOp::Neg(_) => {
                    let v = self.expr(&u.expr)?;
                    self.negated(v, &u.expr)
                }
                UnOp::Not(_) => match self.expr(&u.expr)? {
                    Value::Bool(v) => Ok(Value::Bool(self.emit(Type::Bool, Computed::Unary(Unary::Not, v)))),
                    Value::Int(v) => Ok(Value::Int(self.emit(Type::Int, Computed::Unary(Unary::Not, v)))),
                    _ => err(e, "only conditions and integers have an opposite"),
                },
                _ => self.element(e),
            },
            Expr::Binary(b) => match b.op {
                BinOp::And(_) | BinOp::Or(_) => self.short_circuit(b),
                _ => {
                    syntax::check_power(b)?;
                    let (l, r) = (self.expr(&b.left)?, self.expr(&b.right)?);
                    self.operate(b.op, l, r, b)
                }
            },
            Expr::Index(_) => self.element(e),
            Expr::Field(f) => self.field(f),
            Expr::Call(c) => self.call(c),
            Expr::MethodCall(m) => self.method(m),
            Expr::Cast(c) => self.cast(c),
            Expr::If(f) => self.if_expression(f),
            Expr::Block(b) => self.block_value(&b.block, b),
            e => err(
                e,
                "this expression is not part of the kernel language: there are names, numbers, operators, `array[row]`, \
                 `v.x`, functions, `n as Real`, `x as i64` and `if c { a } else { b }`",
            ),
        }
    }

    fn literal(&mut self, l: &ExprLit) -> Result<Value> {
        match &l.lit {
            Lit::Float(x) => Ok(Value::Real(self.emit(Type::Real, Computed::Real(syntax::number(x)?)))),
            Lit::Int(x) => {
                let number: i64 = x.base10_parse()?;
                let v = self.emit(Type::Int, Computed::Int(number));
                if number != 0 {
                    self.nonzero.push(v);
                }
                Ok(Value::Int(v))
            }
            Lit::Bool(b) => Ok(Value::Bool(self.emit(Type::Bool, Computed::Bool(b.value)))),
            l => err(l, "there are numbers, `true` and `false`"),
        }
    }

    fn name(&mut self, p: &syn::ExprPath) -> Result<Value> {
        let name = p.path.require_ident()?.to_string();
        match self.lookup(&name) {
            Some(Name::Value(v)) => Ok(v),
            // A copy, since the variable may have changed when the value is used.
            Some(Name::Variable(v)) => Ok(self.copied(v)),
            Some(Name::Param(id)) => match self.params[id].kind {
                Kind::Batch { .. } | Kind::Pairs { .. } => {
                    err(p, "batches and pair lists are used as `batch.of(row)` and in loops over their rows")
                }
                _ => {
                    err(p, format!("say which element of it: `{name}[row]`, or `*{name}` where there is one"))
                }
            },
            None if name == "PI" => {
                Ok(Value::Real(self.emit(Type::Real, Computed::Real(std::f64::consts::PI))))
            }
            None => err(
                p,
                format!(
                    "there is no `{name}` here: a kernel sees its parameters, its own names and `PI`, no globals"
                ),
            ),
        }
    }

    fn element(&mut self, e: &Expr) -> Result<Value> {
        let place = self.place(e)?;
        self.read(place, e)
    }

    fn field(&mut self, f: &syn::ExprField) -> Result<Value> {
        let v = self.expr(&f.base)?;
        let component = match &f.member {
            syn::Member::Named(n) => ["x", "y", "z"].iter().position(|c| n == c),
            syn::Member::Unnamed(_) => None,
        };
        match (v, component) {
            (Value::Vec3(v), Some(c)) => Ok(Value::Real(v[c])),
            (Value::IVec3(v), Some(c)) => Ok(Value::Int(v[c])),
            (Value::Vec3(_) | Value::IVec3(_), None) => err(&f.member, "components are .x, .y and .z"),
            _ => err(f, "only vectors have components (rows of a matrix: `row(m, 0)`)"),
        }
    }

    fn cast(&mut self, c: &syn::ExprCast) -> Result<Value> {
        let v = self.expr(&c.expr)?;
        match (type_name(&c.ty).as_str(), v) {
            ("Real", Value::Int(v) | Value::Row(v, _)) => {
                Ok(Value::Real(self.emit(Type::Real, Computed::Unary(Unary::ToReal, v))))
            }
            ("Vec3", Value::IVec3(v)) => {
                Ok(Value::Vec3(v.map(|x| self.emit(Type::Real, Computed::Unary(Unary::ToReal, x)))))
            }
            ("i64", Value::Real(v)) => Ok(Value::Int(self.emit(Type::Int, Computed::Unary(Unary::ToInt, v)))),
            ("i64", Value::Row(v, _)) => Ok(Value::Int(v)),
            ("i64", Value::Bool(v)) => {
                let result = self.emit(Type::Int, Computed::Int(0));
                let (then, ()) = self.nested(|l| {
                    let one = l.emit(Type::Int, Computed::Int(1));
                    l.push(Stmt::Set(result, one));
                    Ok(())
                })?;
                self.push(Stmt::If { condition: v, then, otherwise: vec![] });
                Ok(Value::Int(result))
            }
            ("i32", _) => {
                err(&c.ty, "integers are 64-bit here: write `as i64` (arrays may have i32 elements)")
            }
            (ty, v) => err(c, format!("a {} does not become a {ty} by `as`", self.type_of(&v))),
        }
    }

    /// A short-circuit operator: the second operand is computed only if needed, because it may index by values that the
    /// first one has checked.
    fn short_circuit(&mut self, b: &syn::ExprBinary) -> Result<Value> {
        let first = self.boolean(&b.left)?;
        let result = self.emit(Type::Bool, Computed::Copy(first));
        let [(second, ()), _] = self.branches(
            |l| {
                let second = l.boolean(&b.right)?;
                l.push(Stmt::Set(result, second));
                Ok(())
            },
            |_| Ok(()),
        )?;
        let (then, otherwise) =
            if matches!(b.op, BinOp::And(_)) { (second, vec![]) } else { (vec![], second) };
        self.push(Stmt::If { condition: first, then, otherwise });
        Ok(Value::Bool(result))
    }

    fn if_expression(&mut self, f: &syn::ExprIf) -> Result<Value> {
        let condition = self.boolean(&f.cond)?;
        let Some((_, otherwise)) = &f.else_branch else {
            return err(f, "an `if` used as a value has an `else`: `if c { a } else { b }`");
        };
        let [(mut then, a), (mut other, b)] =
            self.branches(|l| l.block_value(&f.then_branch, f), |l| l.expr(otherwise))?;
        let (want, have) = (self.type_of(&a), self.type_of(&b));
        if want != have {
            return err(f, format!("both branches must be of one type, and these are {want} and {have}"));
        }
        // Declarations of a branch end with it.
        let result = a.with(|v| {
            let ty = self.types[v];
            let nothing = match ty {
                Type::Real => Computed::Real(0.0),
                Type::Int => Computed::Int(0),
                Type::Bool => Computed::Bool(false),
            };
            self.emit(ty, nothing)
        });
        for ((r, a), b) in result.vars().into_iter().zip(a.vars()).zip(b.vars()) {
            then.push(Stmt::Set(r, a));
            other.push(Stmt::Set(r, b));
        }
        self.push(Stmt::If { condition, then, otherwise: other });
        Ok(result)
    }

    /// A block whose last expression is its value.
    fn block_value(&mut self, block: &syn::Block, at: &impl quote::ToTokens) -> Result<Value> {
        let Some((syn::Stmt::Expr(last, None), before)) = block.stmts.split_last() else {
            return err(at, "a block used as a value ends in an expression");
        };
        let (stmts, value) = self.nested(|l| {
            l.block(before)?;
            l.expr(last)
        })?;
        stmts.into_iter().for_each(|s| self.push(s));
        Ok(value)
    }

    /// The result of an operator.
    pub(super) fn operate(&mut self, op: BinOp, l: Value, r: Value, at: &syn::ExprBinary) -> Result<Value> {
        use Binary::*;
        use Value as V;
        let Some((op, swapped)) = operation(&op) else { return self.mismatch(l, r, at) };
        let mut scalar = |ty: Type, op: Binary, a: Var, b: Var| self.emit(ty, Computed::Binary(op, a, b));
        let (a, b) = if swapped { (r, l) } else { (l, r) };
        Ok(match (op, a, b) {
            (Lt | Le | Eq | Ne, V::Real(a), V::Real(b)) | (Lt | Le | Eq | Ne, V::Int(a), V::Int(b)) => {
                V::Bool(scalar(Type::Bool, op, a, b))
            }
            (Lt | Le | Eq | Ne, V::Row(a, d), V::Row(b, e)) if d == e => {
                V::Bool(scalar(Type::Bool, op, a, b))
            }
            (Eq | Ne | And | Or | Xor, V::Bool(a), V::Bool(b)) => V::Bool(scalar(Type::Bool, op, a, b)),
            (Add | Sub | Mul | Div, V::Real(a), V::Real(b)) => V::Real(scalar(Type::Real, op, a, b)),
            (_, V::Int(a), V::Int(b)) => {
                if matches!(op, Div | Rem) && !self.nonzero.contains(&b) {
                    self.nonzero_or_return(b);
                }
                V::Int(self.emit(Type::Int, Computed::Binary(op, a, b)))
            }
            (Add | Sub, V::Vec3(a), V::Vec3(b)) => V::Vec3(self.zip(Type::Real, op, a, b)),
            (Add | Sub, V::IVec3(a), V::IVec3(b)) => V::IVec3(self.zip(Type::Int, op, a, b)),
            (Add | Sub, V::Mat3(a), V::Mat3(b)) => V::Mat3(self.zip(Type::Real, op, a, b)),
            (Mul | Div, V::Vec3(a), V::Real(s)) | (Mul, V::Real(s), V::Vec3(a)) => {
                V::Vec3(a.map(|x| scalar(Type::Real, op, x, s)))
            }
            (Mul, V::Mat3(a), V::Real(s)) | (Mul, V::Real(s), V::Mat3(a)) => {
                V::Mat3(a.map(|x| scalar(Type::Real, op, x, s)))
            }
            // A row vector times a matrix: the rows of a cell are its lattice vectors.
            (Mul, V::Vec3(a), V::Mat3(m)) => {
                V::Vec3([0, 1, 2].map(|c| self.dot3(a, [m[c], m[3 + c], m[6 + c]])))
            }
            (Mul, V::IVec3(a), V::Mat3(m)) => {
                let a = a.map(|x| self.emit(Type::Real, Computed::Unary(Unary::ToReal, x)));
                V::Vec3([0, 1, 2].map(|c| self.dot3(a, [m[c], m[3 + c], m[6 + c]])))
            }
            (Mul, V::Mat3(a), V::Mat3(m)) => V::Mat3([0, 1, 2, 3, 4, 5, 6, 7, 8].map(|k| {
                let (r, c) = (k / 3, k % 3);
                self.dot3([a[3 * r], a[3 * r + 1], a[3 * r + 2]], [m[c], m[3 + c], m[6 + c]])
            })),
            _ => return self.mismatch(l, r, at),
        })
    }

    fn mismatch(&self, l: Value, r: Value, at: &syn::ExprBinary) -> Result<Value> {
        if matches!(l, Value::Row(..)) || matches!(r, Value::Row(..)) {
            return err(at, "a row is not a number: the number of a row is `row as i64`");
        }
        let message = format!(
            "this operator does not take {} and {}: there are + - * / and comparisons on Real and on integers, % & | ^ << >> \
             on integers, && || & | ^ on conditions, + - on Vec3, IVec3 and Mat3 and their products (Real and integers do not \
             mix: write `n as Real`, `1.0`); powers are `pow(x, 6)`",
            self.type_of(&l),
            self.type_of(&r)
        );
        err(at, message)
    }

    fn nonzero_or_return(&mut self, v: Var) {
        let zero = self.emit(Type::Int, Computed::Int(0));
        let condition = self.emit(Type::Bool, Computed::Binary(Binary::Eq, v, zero));
        let then = vec![Stmt::Raise(Reason::Division, None), Stmt::Return];
        self.push(Stmt::If { condition, then, otherwise: vec![] });
    }

    fn zip<const N: usize>(&mut self, ty: Type, op: Binary, a: [Var; N], b: [Var; N]) -> [Var; N] {
        std::array::from_fn(|k| self.emit(ty, Computed::Binary(op, a[k], b[k])))
    }

    fn dot3(&mut self, a: [Var; 3], b: [Var; 3]) -> Var {
        let [x, y, z] = self.zip(Type::Real, Binary::Mul, a, b);
        let xy = self.emit(Type::Real, Computed::Binary(Binary::Add, x, y));
        self.emit(Type::Real, Computed::Binary(Binary::Add, xy, z))
    }

    fn method(&mut self, m: &syn::ExprMethodCall) -> Result<Value> {
        let forms = "methods are `batch.of(row)` and `array.len()`; functions are called as `sqrt(x)`";
        let (method, args) = (m.method.to_string(), m.args.iter().collect::<Vec<_>>());
        if !["of", "len"].contains(&method.as_str()) {
            return err(m, syntax::no_method(&m.method, forms));
        }
        let param = self.param_named(&m.receiver)?;
        match (method.as_str(), self.params[param].kind, args.as_slice()) {
            ("of", Kind::Batch { rows, systems }, [row]) => {
                let at = self.row(row, rows, param)?;
                let entry = Computed::Entry { param, array: Array::SystemOf, at, component: 0 };
                Ok(Value::Row(self.emit(Type::Int, entry), systems))
            }
            ("len", _, []) => match self.dim_of(param) {
                Some(dim) => Ok(Value::Int(self.emit(Type::Int, Computed::Rows(dim)))),
                None => err(m, "only an array with rows has a number of them"),
            },
            _ => err(m, forms),
        }
    }

    /// A call that stands alone.
    pub(super) fn call_statement(&mut self, c: &syn::ExprCall) -> Result<()> {
        let (name, args) = syntax::call(c)?;
        match name.as_str() {
            "raise" => {
                let reasons = [
                    ("CAPACITY", Reason::Capacity),
                    ("INDEX", Reason::Index),
                    ("COINCIDENT", Reason::Coincident),
                    ("NOT_FINITE", Reason::NotFinite),
                    ("OVERFLOW", Reason::Overflow),
                ];
                let (reason, param) = match args.as_slice() {
                    [reason] => (*reason, None),
                    [reason, array] => (*reason, Some(self.param_named(array)?)),
                    _ => return err(c, "`raise(REASON)`, or `raise(REASON, array)`"),
                };
                let known = |e: &Expr| match e {
                    Expr::Path(p) => reasons.iter().find(|r| p.path.is_ident(r.0)).map(|r| r.1),
                    _ => None,
                };
                let Some(reason) = known(reason) else {
                    let names = reasons.map(|r| r.0).join(", ");
                    return err(reason, format!("a reason is one of {names}"));
                };
                self.push(Stmt::Raise(reason, param));
                Ok(())
            }
            "atomic_add" | "atomic_max" | "atomic_min" => self.call(c).map(|_| ()),
            _ => err(c, "a function's value is used: `let x = …`"),
        }
    }

    fn call(&mut self, c: &syn::ExprCall) -> Result<Value> {
        let (name, args) = syntax::call(c)?;
        if let Some(f) = self.funcs.values.get(&name).copied() {
            return self.inline(f, &args, c);
        }
        let vec3 = |l: &mut Self, e: &Expr| match l.expr(e)? {
            Value::Vec3(v) => Ok(v),
            _ => err(e, "expected a Vec3 (three integers become one as `s as Vec3`)"),
        };
        let unary = |l: &mut Self, op: Unary, x: &Expr| {
            let x = l.real(x)?;
            Ok(Value::Real(l.emit(Type::Real, Computed::Unary(op, x))))
        };
        match (name.as_str(), args.as_slice()) {
            ("sqrt", [x]) => unary(self, Unary::Sqrt, x),
            ("nearest", [x]) => unary(self, Unary::Nearest, x),
            ("atan", [x]) => {
                let (x, one) = (self.real(x)?, self.emit(Type::Real, Computed::Real(1.0)));
                Ok(Value::Real(self.emit(Type::Real, Computed::Binary(Binary::Atan2, x, one))))
            }
            ("atan2", [y, x]) => {
                let (y, x) = (self.real(y)?, self.real(x)?);
                Ok(Value::Real(self.emit(Type::Real, Computed::Binary(Binary::Atan2, y, x))))
            }
            ("is_finite", [x]) => {
                let x = self.real(x)?;
                Ok(Value::Bool(self.emit(Type::Bool, Computed::Unary(Unary::IsFinite, x))))
            }
            ("pow", [x, Expr::Lit(ExprLit { lit: Lit::Int(n), .. })]) => {
                let x = self.real(x)?;
                let n: u32 = n.base10_parse()?;
                if n > 64 {
                    return err(c, "an integer power is multiplied out, up to 64: write `pow(x, 100.0)`");
                }
                Ok(Value::Real(self.integer_power(x, n)))
            }
            ("pow", [x, y]) => {
                let (x, y) = (self.real(x)?, self.real(y)?);
                Ok(Value::Real(self.emit(Type::Real, Computed::Binary(Binary::Pow, x, y))))
            }
            ("abs", [x]) => match self.expr(x)? {
                Value::Real(x) => Ok(Value::Real(self.emit(Type::Real, Computed::Unary(Unary::Abs, x)))),
                Value::Int(x) => {
                    let opposite = self.emit(Type::Int, Computed::Unary(Unary::Neg, x));
                    Ok(Value::Int(self.larger(x, opposite, Type::Int, false)))
                }
                _ => err(x, "expected a Real or an integer"),
            },
            ("min" | "max", [x, y]) => match (self.expr(x)?, self.expr(y)?) {
                (Value::Real(x), Value::Real(y)) => {
                    Ok(Value::Real(self.larger(x, y, Type::Real, name == "min")))
                }
                (Value::Int(x), Value::Int(y)) => Ok(Value::Int(self.larger(x, y, Type::Int, name == "min"))),
                _ => err(c, "expected two Reals or two integers"),
            },
            ("dot", [a, b]) => {
                let (a, b) = (vec3(self, a)?, vec3(self, b)?);
                Ok(Value::Real(self.dot3(a, b)))
            }
            ("length", [a]) => {
                let a = vec3(self, a)?;
                let square = self.dot3(a, a);
                Ok(Value::Real(self.emit(Type::Real, Computed::Unary(Unary::Sqrt, square))))
            }
            ("cross", [a, b]) => {
                let (a, b) = (vec3(self, a)?, vec3(self, b)?);
                Ok(Value::Vec3([(1, 2), (2, 0), (0, 1)].map(|(p, q)| {
                    let x = self.emit(Type::Real, Computed::Binary(Binary::Mul, a[p], b[q]));
                    let y = self.emit(Type::Real, Computed::Binary(Binary::Mul, a[q], b[p]));
                    self.emit(Type::Real, Computed::Binary(Binary::Sub, x, y))
                })))
            }
            ("vec3", [x, y, z]) => Ok(Value::Vec3([self.real(x)?, self.real(y)?, self.real(z)?])),
            ("mat3", [x, y, z]) => {
                let rows = [vec3(self, x)?, vec3(self, y)?, vec3(self, z)?];
                Ok(Value::Mat3(std::array::from_fn(|k| rows[k / 3][k % 3])))
            }
            ("row", [m, Expr::Lit(ExprLit { lit: Lit::Int(n), .. })]) => {
                let Value::Mat3(a) = self.expr(m)? else { return err(m, "expected a Mat3") };
                let n: usize = n.base10_parse()?;
                if n > 2 {
                    return err(c, "a Mat3 has rows 0, 1 and 2");
                }
                Ok(Value::Vec3([a[3 * n], a[3 * n + 1], a[3 * n + 2]]))
            }
            ("atomic_add", [at, n]) => self.atomic(Atomic::Add, at, n),
            ("atomic_max", [at, n]) => self.atomic(Atomic::Max, at, n),
            ("atomic_min", [at, n]) => self.atomic(Atomic::Min, at, n),
            ("raise", _) => err(c, "`raise(REASON)` is a statement and has no value"),
            (_, args) => match (Function::named(&name), args) {
                (Some(f), [x]) => unary(self, Unary::Call(f), x),
                _ => {
                    let own = "is_finite atomic_add atomic_max atomic_min raise";
                    err(c, syntax::no_function(&name, args.len(), own))
                }
            },
        }
    }

    /// The larger of two, or the smaller; the second where they cannot be compared, as in other kernels.
    fn larger(&mut self, x: Var, y: Var, ty: Type, smaller: bool) -> Var {
        let (a, b) = if smaller { (x, y) } else { (y, x) };
        let condition = self.emit(Type::Bool, Computed::Binary(Binary::Lt, a, b));
        let result = self.emit(ty, Computed::Copy(y));
        self.push(Stmt::If { condition, then: vec![Stmt::Set(result, x)], otherwise: vec![] });
        result
    }

    fn integer_power(&mut self, x: Var, n: u32) -> Var {
        match n {
            0 => self.emit(Type::Real, Computed::Real(1.0)),
            1 => x,
            _ => {
                let half = self.integer_power(x, n / 2);
                let square = self.emit(Type::Real, Computed::Binary(Binary::Mul, half, half));
                if n.is_multiple_of(2) {
                    square
                } else {
                    self.emit(Type::Real, Computed::Binary(Binary::Mul, square, x))
                }
            }
        }
    }
}

/// The operation of an operator or of the assignment with it, and whether it is on the operands in the other order: a > b
/// is b < a, false where one of them is NaN.
fn operation(op: &BinOp) -> Option<(Binary, bool)> {
    use BinOp::*;
    let operation = match op {
        Add(_) | AddAssign(_) => Binary::Add,
        Sub(_) | SubAssign(_) => Binary::Sub,
        Mul(_) | MulAssign(_) => Binary::Mul,
        Div(_) | DivAssign(_) => Binary::Div,
        Rem(_) | RemAssign(_) => Binary::Rem,
        BitXor(_) | BitXorAssign(_) => Binary::Xor,
        BitAnd(_) | BitAndAssign(_) => Binary::And,
        BitOr(_) | BitOrAssign(_) => Binary::Or,
        Shl(_) | ShlAssign(_) => Binary::Shl,
        Shr(_) | ShrAssign(_) => Binary::Shr,
        Lt(_) | Gt(_) => Binary::Lt,
        Le(_) | Ge(_) => Binary::Le,
        Eq(_) => Binary::Eq,
        Ne(_) => Binary::Ne,
        _ => return None,
    };
    Some((operation, matches!(op, Gt(_) | Ge(_))))
}
