//! Rust: a scalar function, generic over the element type of real arrays.

use super::{Language, Printer};
use crate::imperative::{Binary, Body, Layout, Reason, Type, Unary, Var, is_output};
use crate::ir::{Function, Kernel, Kind};
use crate::print::layout::{Array, Slot};

/// The function `name` of a body, in the terms of the runtime module `rt`.
pub fn function(kernel: &Kernel, body: &Body, layout: &Layout, name: &str) -> String {
    let mut p = Printer { kernel, body, layout, out: String::new() };
    for (n, Slot { param, array }) in layout.slots.iter().enumerate() {
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
    p.block::<Rust>(&body.stmts);
    p.line("}");
    format!(
        "unsafe fn {name}<E: rt::SharedReal>(a: &rt::LaunchAbi, lo: usize, hi: usize, _: *mut f64) {{\n\
         // SAFETY: `rt::LaunchAbi` is made by the backend alone, which checked the length of every array against the\n\
         // kernel's declaration. Rows come from the launch, or from lists and batches that were checked, or were\n\
         // compared with the number of rows; outputs, which rows share, are only touched atomically.\n\
         unsafe {{\n{}}}\n}}\n",
        p.out
    )
}

struct Rust;

impl Language for Rust {
    const RUNTIME: &'static str = "rt::";
    const LOOP: &'static str = "loop";
    const RETURN: &'static str = "continue 'rows;";

    fn declare(ty: Type, v: Var, value: &str) -> String {
        let ty = match ty {
            Type::Real => "f64",
            Type::Int => "i64",
            Type::Bool => "bool",
        };
        format!("let mut v{v}: {ty} = {value};")
    }
    fn condition(v: Var) -> String {
        format!("v{v}")
    }
    fn outside(index: Var, dim: usize) -> String {
        format!("(v{index} as u64) >= (a.dims[{dim}] as u64)")
    }
    fn reason(reason: Reason) -> String {
        format!("rt::Reason::{reason:?}")
    }
    fn stored_real(v: Var) -> String {
        format!("v{v}")
    }
    fn address(slot: usize, stride: usize, row: Option<Var>, component: usize) -> String {
        match row {
            None => format!("p{slot}.add({component})"),
            Some(r) => format!("p{slot}.add({stride} * (v{r} as usize) + {component})"),
        }
    }
    fn load(kind: Kind, at: &str) -> String {
        match kind {
            Kind::Output { .. } => format!("rt::load({at})"),
            Kind::Real { .. } => format!("rt::Elem::to_f64(*{at})"),
            _ if is_output(kind) => format!("rt::load_int({at})"),
            _ => format!("i64::from(*{at})"),
        }
    }
    fn entry(slot: usize, packed: Option<usize>, at: Var, component: usize) -> String {
        match packed {
            Some(packed) => format!("i64::from(rt::shift(p{slot}, p{packed}, v{at} as usize, {component}))"),
            None => format!("i64::from(*p{slot}.add(v{at} as usize + {component}))"),
        }
    }
    fn real(x: f64) -> String {
        format!("({x:?}f64)")
    }
    fn int(i: i64) -> String {
        if i == i64::MIN { "i64::MIN".into() } else { format!("({i}i64)") }
    }
    fn row() -> &'static str {
        "row as i64"
    }
    fn unary(op: Unary, ty: Type, x: Var) -> String {
        match (op, ty) {
            (Unary::Neg, Type::Int) => format!("v{x}.wrapping_neg()"),
            (Unary::Neg, _) => format!("-v{x}"),
            (Unary::Not, _) => format!("!v{x}"),
            (Unary::Sqrt, _) => format!("v{x}.sqrt()"),
            // An instruction, not a call.
            (Unary::Call(Function::Floor), _) => format!("v{x}.floor()"),
            (Unary::Call(f), _) => format!("rt::scalar::{}(v{x})", f.rust()),
            (Unary::Nearest, _) => format!("v{x}.round_ties_even()"),
            (Unary::Abs, _) => format!("v{x}.abs()"),
            (Unary::ToReal, _) => format!("v{x} as f64"),
            (Unary::ToInt, _) => format!("v{x} as i64"),
            (Unary::IsFinite, _) => format!("v{x}.is_finite()"),
        }
    }
    fn binary(op: Binary, ty: Type, x: Var, y: Var) -> Option<String> {
        let wrapping = |name: &str| Some(format!("v{x}.wrapping_{name}(v{y})"));
        match (op, ty) {
            (Binary::Add, Type::Int) => wrapping("add"),
            (Binary::Sub, Type::Int) => wrapping("sub"),
            (Binary::Mul, Type::Int) => wrapping("mul"),
            (Binary::Div, Type::Int) => wrapping("div"),
            (Binary::Rem, _) => wrapping("rem"),
            (Binary::Shl, _) => Some(format!("v{x}.wrapping_shl(v{y} as u32)")),
            (Binary::Shr, _) => Some(format!("v{x}.wrapping_shr(v{y} as u32)")),
            (Binary::Pow, _) => Some(format!("rt::scalar::pow(v{x}, v{y})")),
            (Binary::Atan2, _) => Some(format!("rt::scalar::atan2(v{x}, v{y})")),
            _ => None,
        }
    }
}
