//! CUDA text of kernels that are not differentiated: one `extern "C"` function, a thread per row, in plain C-like text. Reals
//! are double, but in their arrays.

use crate::imperative::{Atomic, Binary, Body, Expr, Layout, Reason, Stmt, Type, Unary, Var, is_output};
use crate::ir::{Kernel, Kind, ParamId, Role};
use crate::layout::{Array, Slot, scalar_position};

/// The function `name` of a body.
pub fn function(kernel: &Kernel, body: &Body, layout: &Layout, name: &str) -> String {
    let mut p = Printer { kernel, body, layout, out: String::new() };
    p.line(&format!(
        "extern \"C\" __global__ void {name}(const Launch a, long long lo, long long hi, double* partials) {{"
    ));
    p.line("const long long row = lo + (long long)blockIdx.x * blockDim.x + threadIdx.x;");
    p.line("if (row >= hi) return;");
    for (n, Slot { param, array }) in layout.slots.iter().enumerate() {
        let ty = match (array, kernel.params[*param].kind) {
            (Array::Values(_), Kind::Output { .. }) => "REAL*",
            (Array::Values(_), Kind::Real { .. }) => "const REAL* __restrict__",
            (Array::Values(_), Kind::Integers { wide: true, output: true, .. }) => "long long*",
            (Array::Values(_), Kind::Integers { wide: false, output: true, .. }) => "int*",
            (Array::Values(_), Kind::Integers { wide: true, .. }) => "const long long* __restrict__",
            _ if array.is_long() => "const long long* __restrict__",
            _ => "const int* __restrict__",
        };
        let plain = ty.trim_end_matches(" __restrict__");
        p.line(&format!("{ty} p{n} = ({plain})a.pointers[{n}];"));
    }
    p.block(&body.stmts);
    p.line("}");
    p.out
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

    fn address(&self, param: ParamId, row: Option<Var>, component: usize) -> String {
        let slot = self.layout.slot(param, Array::Values(Role::VALUE));
        match (row, self.kernel.components(param, Role::VALUE)) {
            (None, _) => format!("p{slot} + {component}"),
            (Some(r), 1) => format!("p{slot} + v{r}"),
            (Some(r), stride) => format!("p{slot} + ({stride} * v{r} + {component})"),
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
                    Type::Real => "double",
                    Type::Int => "long long",
                    Type::Bool => "bool",
                };
                let text = self.expr(e);
                self.line(&format!("{ty} v{v} = {text};"));
            }
            Stmt::Set(v, x) => self.line(&format!("v{v} = v{x};")),
            Stmt::If { condition, then, otherwise } => {
                self.line(&format!("if (v{condition}) {{"));
                self.block(then);
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.block(otherwise);
                }
                self.line("}");
            }
            Stmt::Loop(body) => {
                self.line("for (;;) {");
                self.block(body);
                self.line("}");
            }
            Stmt::Break => self.line("break;"),
            Stmt::Continue => self.line("continue;"),
            Stmt::Return => self.line("return;"),
            Stmt::Check { index, dim, param } => {
                let (reason, param) = (Reason::Index as u32, param + 1);
                self.line(&format!(
                    "if ((v{index} < 0 || v{index} >= a.dims[{dim}])) {{ raise(a, {reason}, {param}); return; }}"
                ));
            }
            Stmt::Store { param, row, component, value } => {
                let at = self.address(*param, *row, *component);
                match self.kernel.params[*param].kind {
                    Kind::Output { .. } => self.line(&format!("store({at}, REAL(v{value}));")),
                    _ => self.line(&format!("store_int(a, {at}, v{value}, {});", param + 1)),
                }
            }
            Stmt::Raise(reason, param) => {
                let (reason, param) = (*reason as u32, param.map_or(0, |p| p + 1));
                self.line(&format!("raise(a, {reason}, {param});"));
            }
        }
    }

    fn expr(&self, e: &Expr) -> String {
        match e {
            Expr::Real(x) => format!("{x:?}"),
            Expr::Int(i64::MIN) => "(-9223372036854775807LL - 1)".into(),
            Expr::Int(i) => format!("{i}LL"),
            Expr::Bool(b) => b.to_string(),
            Expr::Copy(v) => format!("v{v}"),
            Expr::Row => "row".into(),
            Expr::Attribute(p) => {
                let list = if self.kernel.params[*p].kind == Kind::Scalar { "reals" } else { "ints" };
                format!("a.{list}[{}]", scalar_position(self.kernel, *p))
            }
            Expr::Rows(dim) => format!("a.dims[{dim}]"),
            Expr::Unary(op, x) => unary(*op, self.body.types[*x], *x),
            Expr::Binary(op, x, y) => binary(*op, self.body.types[*x], *x, *y),
            Expr::Load { param, row, component } => {
                let at = self.address(*param, *row, *component);
                if is_output(self.kernel.params[*param].kind) {
                    format!("load({at})")
                } else {
                    format!("*({at})")
                }
            }
            Expr::Atomic { op, param, row, value } => {
                let name = match op {
                    Atomic::Add => "add",
                    Atomic::Max => "max",
                    Atomic::Min => "min",
                };
                let at = self.address(*param, *row, 0);
                format!("atomic_{name}(a, {at}, v{value}, {})", param + 1)
            }
            Expr::Entry { param, array, at, component } => {
                let slot = self.layout.slot(*param, *array);
                if *array == Array::Shift {
                    let packed = self.layout.slot(*param, Array::PackedShift);
                    return format!("shift(p{slot}, p{packed}, v{at}).of[{component}]");
                }
                format!("p{slot}[v{at} + {component}]")
            }
        }
    }
}

fn unary(op: Unary, ty: Type, x: Var) -> String {
    match (op, ty) {
        (Unary::Neg, Type::Int) => format!("wrap_sub(0, v{x})"),
        (Unary::Neg, _) => format!("-v{x}"),
        (Unary::Not, Type::Int) => format!("~v{x}"),
        (Unary::Not, _) => format!("!v{x}"),
        (Unary::Sqrt, _) => format!("sqrt(v{x})"),
        (Unary::Call(f), _) => format!("{}(v{x})", f.cuda()),
        (Unary::Nearest, _) => format!("rint(v{x})"),
        (Unary::Abs, _) => format!("fabs(v{x})"),
        (Unary::ToReal, _) => format!("double(v{x})"),
        (Unary::ToInt, _) => format!("to_int(v{x})"),
        (Unary::IsFinite, _) => format!("is_finite(v{x})"),
    }
}

fn binary(op: Binary, ty: Type, x: Var, y: Var) -> String {
    let call = |name: &str| format!("{name}(v{x}, v{y})");
    let symbol = match (op, ty) {
        (Binary::Add, Type::Int) => return call("wrap_add"),
        (Binary::Sub, Type::Int) => return call("wrap_sub"),
        (Binary::Mul, Type::Int) => return call("wrap_mul"),
        (Binary::Div, Type::Int) => return call("int_div"),
        (Binary::Rem, _) => return call("int_rem"),
        (Binary::Shl, _) => return call("shift_left"),
        (Binary::Shr, _) => return format!("v{x} >> (v{y} & 63)"),
        (Binary::Pow, _) => return call("pow"),
        (Binary::Atan2, _) => return call("angle"),
        (Binary::Add, _) => "+",
        (Binary::Sub, _) => "-",
        (Binary::Mul, _) => "*",
        (Binary::Div, _) => "/",
        (Binary::And, _) => "&",
        (Binary::Or, _) => "|",
        (Binary::Xor, _) => "^",
        (Binary::Lt, _) => "<",
        (Binary::Le, _) => "<=",
        (Binary::Eq, _) => "==",
        (Binary::Ne, _) => "!=",
    };
    format!("v{x} {symbol} v{y}")
}
