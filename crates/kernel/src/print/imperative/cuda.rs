//! CUDA: one `extern "C"` function, a thread per row, in plain C-like text. Reals are double, but in their arrays.

use super::{Language, Printer};
use crate::imperative::{Binary, Body, Layout, Reason, Type, Unary, Var, is_output};
use crate::ir::{Kernel, Kind};
use crate::print::layout::{Array, Slot};

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
    p.block::<Cuda>(&body.stmts);
    p.line("}");
    p.out
}

struct Cuda;

impl Language for Cuda {
    const RUNTIME: &'static str = "";
    const LOOP: &'static str = "for (;;)";
    const RETURN: &'static str = "return;";

    fn declare(ty: Type, v: Var, value: &str) -> String {
        let ty = match ty {
            Type::Real => "double",
            Type::Int => "long long",
            Type::Bool => "bool",
        };
        format!("{ty} v{v} = {value};")
    }
    fn condition(v: Var) -> String {
        format!("(v{v})")
    }
    fn outside(index: Var, dim: usize) -> String {
        format!("(v{index} < 0 || v{index} >= a.dims[{dim}])")
    }
    fn reason(reason: Reason) -> String {
        (reason as u32).to_string()
    }
    fn stored_real(v: Var) -> String {
        format!("REAL(v{v})")
    }
    fn address(slot: usize, stride: usize, row: Option<Var>, component: usize) -> String {
        match (row, stride) {
            (None, _) => format!("p{slot} + {component}"),
            (Some(r), 1) => format!("p{slot} + v{r}"),
            (Some(r), stride) => format!("p{slot} + ({stride} * v{r} + {component})"),
        }
    }
    fn load(kind: Kind, at: &str) -> String {
        if is_output(kind) { format!("load({at})") } else { format!("*({at})") }
    }
    fn entry(slot: usize, packed: Option<usize>, at: Var, component: usize) -> String {
        match packed {
            Some(packed) => format!("shift(p{slot}, p{packed}, v{at}).of[{component}]"),
            None => format!("p{slot}[v{at} + {component}]"),
        }
    }
    fn real(x: f64) -> String {
        format!("{x:?}")
    }
    fn int(i: i64) -> String {
        if i == i64::MIN { "(-9223372036854775807LL - 1)".into() } else { format!("{i}LL") }
    }
    fn row() -> &'static str {
        "row"
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
    fn binary(op: Binary, ty: Type, x: Var, y: Var) -> Option<String> {
        let call = |name: &str| Some(format!("{name}(v{x}, v{y})"));
        match (op, ty) {
            (Binary::Add, Type::Int) => call("wrap_add"),
            (Binary::Sub, Type::Int) => call("wrap_sub"),
            (Binary::Mul, Type::Int) => call("wrap_mul"),
            (Binary::Div, Type::Int) => call("int_div"),
            (Binary::Rem, _) => call("int_rem"),
            (Binary::Shl, _) => call("shift_left"),
            (Binary::Shr, _) => Some(format!("v{x} >> (v{y} & 63)")),
            (Binary::Pow, _) => call("pow"),
            (Binary::Atan2, _) => call("angle"),
            _ => None,
        }
    }
}
