//! Rust: a scalar function, generic over the element type of real arrays.

use crate::imperative::{Atomic, Binary, Body, Expr, Layout, Stmt, Type, Unary, Var, components, is_output};
use crate::ir::{Kernel, Kind, ParamId, Role};
use crate::print::layout::{Array, scalar_position};
use std::fmt::Write;

/// The function `name` of a body, in the terms of the runtime module `rt`.
pub fn function(kernel: &Kernel, body: &Body, layout: &Layout, name: &str) -> String {
    let mut p = Printer { kernel, body, layout, out: String::new() };
    for (n, (param, array)) in layout.slots.iter().enumerate() {
        let (mutability, ty) = match (array, kernel.params[*param].kind) {
            (Array::Values(_), Kind::Output { .. }) => ("mut", "E"),
            (Array::Values(_), Kind::Real { .. }) => ("const", "E"),
            (Array::Values(_), Kind::Integers { wide, output, .. }) => {
                (if output { "mut" } else { "const" }, if wide { "i64" } else { "i32" })
            }
            _ => ("const", if array.is_long() { "i64" } else { "i32" }),
        };
        p.line(&format!("let p{n} = a.pointers[{n}] as *{mutability} {ty};"));
    }
    p.line("'rows: for row in lo..hi {");
    p.block(&body.stmts);
    p.line("}");
    format!(
        "unsafe fn {name}<E: rt::SharedReal>(a: &rt::Launch, lo: usize, hi: usize, _: *mut f64) {{\n\
         // SAFETY: `rt::Launch` is made by the backend alone, which checked the length of every array against the\n\
         // kernel's declaration. Rows come from the launch, or from lists and batches that were checked, or were\n\
         // compared with the number of rows; outputs, which rows share, are only touched atomically.\n\
         unsafe {{\n{}}}\n}}\n",
        p.out
    )
}

struct Printer<'a> {
    kernel: &'a Kernel,
    body: &'a Body,
    layout: &'a Layout,
    out: String,
}

impl Printer<'_> {
    fn line(&mut self, s: &str) {
        self.out.push_str(s);
        self.out.push('\n');
    }

    /// The address of a component of an element.
    fn address(&self, param: ParamId, row: Option<Var>, component: usize) -> String {
        let slot = self.layout.slot(param, Array::Values(Role::VALUE));
        let stride = components(self.kernel.params[param].kind);
        match row {
            None => format!("p{slot}.add({component})"),
            Some(r) => format!("p{slot}.add({stride} * (v{r} as usize) + {component})"),
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.stmt(s);
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        match s {
            Stmt::Let(v, e) => {
                let ty = match self.body.types[*v] {
                    Type::Real => "f64",
                    Type::Int => "i64",
                    Type::Bool => "bool",
                };
                let text = self.expr(e);
                self.line(&format!("let mut v{v}: {ty} = {text};"));
            }
            Stmt::Set(v, x) => self.line(&format!("v{v} = v{x};")),
            Stmt::If { condition, then, otherwise } => {
                self.line(&format!("if v{condition} {{"));
                self.block(then);
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.block(otherwise);
                }
                self.line("}");
            }
            Stmt::Loop(body) => {
                self.line("loop {");
                self.block(body);
                self.line("}");
            }
            Stmt::Break => self.line("break;"),
            Stmt::Continue => self.line("continue;"),
            Stmt::Return => self.line("continue 'rows;"),
            Stmt::Check { index, dim, param } => self.line(&format!(
                "if (v{index} as u64) >= (a.dims[{dim}] as u64) {{ rt::raise(a, rt::Reason::Index, {}); continue 'rows; }}",
                param + 1
            )),
            Stmt::Store { param, row, component, value } => {
                let at = self.address(*param, *row, *component);
                match self.kernel.params[*param].kind {
                    Kind::Output { .. } => self.line(&format!("rt::store({at}, v{value});")),
                    _ => self.line(&format!("rt::store_int(a, {at}, v{value}, {});", param + 1)),
                }
            }
            Stmt::Raise(reason, param) => {
                self.line(&format!("rt::raise(a, rt::Reason::{reason:?}, {});", param.map_or(0, |p| p + 1)));
            }
        }
    }

    fn expr(&self, e: &Expr) -> String {
        match e {
            Expr::Real(x) => real(*x),
            Expr::Int(i64::MIN) => "i64::MIN".into(),
            Expr::Int(i) => format!("({i}i64)"),
            Expr::Bool(b) => b.to_string(),
            Expr::Copy(v) => format!("v{v}"),
            Expr::Row => "row as i64".into(),
            Expr::Attribute(p) => {
                let list = if self.kernel.params[*p].kind == Kind::Scalar { "reals" } else { "ints" };
                format!("a.{list}[{}]", scalar_position(self.kernel, *p))
            }
            Expr::Rows(dim) => format!("a.dims[{dim}]"),
            Expr::Unary(op, x) => unary(*op, self.body.types[*x], *x),
            Expr::Binary(op, x, y) => binary(*op, self.body.types[*x], *x, *y),
            Expr::Load { param, row, component } => {
                let kind = self.kernel.params[*param].kind;
                let at = self.address(*param, *row, *component);
                match kind {
                    Kind::Output { .. } => format!("rt::load({at})"),
                    Kind::Real { .. } => format!("rt::Elem::to_f64(*{at})"),
                    _ if is_output(kind) => format!("rt::load_int({at})"),
                    _ => format!("i64::from(*{at})"),
                }
            }
            Expr::Atomic { op, param, row, value } => {
                let name = match op {
                    Atomic::Add => "atomic_add",
                    Atomic::Max => "atomic_max",
                    Atomic::Min => "atomic_min",
                };
                let at = self.address(*param, *row, 0);
                format!("rt::{name}(a, {at}, v{value}, {})", param + 1)
            }
            Expr::Entry { param, array, at, component } => {
                let slot = self.layout.slot(*param, *array);
                if *array == Array::Shift {
                    let packed = self.layout.slot(*param, Array::PackedShift);
                    return format!("i64::from(rt::shift(p{slot}, p{packed}, v{at} as usize, {component}))");
                }
                format!("i64::from(*p{slot}.add(v{at} as usize + {component}))")
            }
        }
    }
}

fn real(x: f64) -> String {
    let mut text = String::new();
    write!(text, "({x:?}f64)").expect("a string");
    text
}

fn unary(op: Unary, ty: Type, x: Var) -> String {
    match (op, ty) {
        (Unary::Neg, Type::Int) => format!("v{x}.wrapping_neg()"),
        (Unary::Neg, _) => format!("-v{x}"),
        (Unary::Not, _) => format!("!v{x}"),
        (Unary::Sqrt, _) => format!("v{x}.sqrt()"),
        (Unary::Exp, _) => format!("rt::scalar::exp(v{x})"),
        (Unary::Ln, _) => format!("rt::scalar::ln(v{x})"),
        (Unary::Erfc, _) => format!("rt::scalar::erfc(v{x})"),
        (Unary::Sin, _) => format!("rt::scalar::sin(v{x})"),
        (Unary::Cos, _) => format!("rt::scalar::cos(v{x})"),
        (Unary::Nearest, _) => format!("v{x}.round_ties_even()"),
        (Unary::Floor, _) => format!("v{x}.floor()"),
        (Unary::Abs, _) => format!("v{x}.abs()"),
        (Unary::ToReal, _) => format!("v{x} as f64"),
        (Unary::ToInt, _) => format!("v{x} as i64"),
        (Unary::IsFinite, _) => format!("v{x}.is_finite()"),
    }
}

fn binary(op: Binary, ty: Type, x: Var, y: Var) -> String {
    let wrapping = |name: &str| format!("v{x}.wrapping_{name}(v{y})");
    let symbol = |s: &str| format!("v{x} {s} v{y}");
    match (op, ty) {
        (Binary::Add, Type::Int) => wrapping("add"),
        (Binary::Sub, Type::Int) => wrapping("sub"),
        (Binary::Mul, Type::Int) => wrapping("mul"),
        (Binary::Div, Type::Int) => wrapping("div"),
        (Binary::Rem, _) => wrapping("rem"),
        (Binary::Shl, _) => format!("v{x}.wrapping_shl(v{y} as u32)"),
        (Binary::Shr, _) => format!("v{x}.wrapping_shr(v{y} as u32)"),
        (Binary::Pow, _) => format!("rt::scalar::pow(v{x}, v{y})"),
        (Binary::Add, _) => symbol("+"),
        (Binary::Sub, _) => symbol("-"),
        (Binary::Mul, _) => symbol("*"),
        (Binary::Div, _) => symbol("/"),
        (Binary::And, _) => symbol("&"),
        (Binary::Or, _) => symbol("|"),
        (Binary::Xor, _) => symbol("^"),
        (Binary::Lt, _) => symbol("<"),
        (Binary::Le, _) => symbol("<="),
        (Binary::Eq, _) => symbol("=="),
        (Binary::Ne, _) => symbol("!="),
    }
}
