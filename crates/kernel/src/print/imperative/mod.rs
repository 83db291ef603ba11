//! Printers of kernels that are not differentiated: the syntax that Rust and CUDA share, and a trait for the rest.

pub mod cuda;
pub mod rust;

use crate::imperative::{Atomic, Binary, Body, Expr, Layout, Reason, Stmt, Type, Unary, Var};
use crate::ir::{Kernel, Kind, ParamId, Role};
use crate::print::layout::{Array, scalar_position};

/// A language to print.
trait Language {
    /// The prefix of the runtime's functions.
    const RUNTIME: &'static str;
    /// The head of an endless loop.
    const LOOP: &'static str;
    /// The end of the row.
    const RETURN: &'static str;

    /// A variable with its first value.
    fn declare(ty: Type, v: Var, value: &str) -> String;
    /// The condition of an `if`.
    fn condition(v: Var) -> String;
    /// Whether an index lies outside a dimension.
    fn outside(index: Var, dim: usize) -> String;
    /// A reason to raise.
    fn reason(reason: Reason) -> String;
    /// A real, on its way to an array.
    fn stored_real(v: Var) -> String;
    /// The address of a component of an element of `stride` components.
    fn address(slot: usize, stride: usize, row: Option<Var>, component: usize) -> String;
    /// A load from an address.
    fn load(kind: Kind, at: &str) -> String;
    /// An integer of a list or batch.
    fn entry(slot: usize, packed: Option<usize>, at: Var, component: usize) -> String;
    /// A constant.
    fn real(x: f64) -> String;
    /// A constant.
    fn int(i: i64) -> String;
    /// The number of the row.
    fn row() -> &'static str;
    /// A function of one value.
    fn unary(op: Unary, ty: Type, x: Var) -> String;
    /// A function of two values, where it is not written as in both languages.
    fn binary(op: Binary, ty: Type, x: Var, y: Var) -> Option<String>;
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

    fn address<L: Language>(&self, param: ParamId, row: Option<Var>, component: usize) -> String {
        let slot = self.layout.slot(param, Array::Values(Role::VALUE));
        L::address(slot, self.kernel.components(param, Role::VALUE), row, component)
    }

    fn block<L: Language>(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.stmt::<L>(s);
        }
    }

    fn stmt<L: Language>(&mut self, s: &Stmt) {
        let rt = L::RUNTIME;
        match s {
            Stmt::Let(v, e) => {
                let text = self.expr::<L>(e);
                self.line(&L::declare(self.body.types[*v], *v, &text));
            }
            Stmt::Set(v, x) => self.line(&format!("v{v} = v{x};")),
            Stmt::If { condition, then, otherwise } => {
                self.line(&format!("if {} {{", L::condition(*condition)));
                self.block::<L>(then);
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.block::<L>(otherwise);
                }
                self.line("}");
            }
            Stmt::Loop(body) => {
                self.line(&format!("{} {{", L::LOOP));
                self.block::<L>(body);
                self.line("}");
            }
            Stmt::Break => self.line("break;"),
            Stmt::Continue => self.line("continue;"),
            Stmt::Return => self.line(L::RETURN),
            Stmt::Check { index, dim, param } => {
                let (outside, reason) = (L::outside(*index, *dim), L::reason(Reason::Index));
                let (end, param) = (L::RETURN, param + 1);
                self.line(&format!("if {outside} {{ {rt}raise(a, {reason}, {param}); {end} }}"));
            }
            Stmt::Store { param, row, component, value } => {
                let at = self.address::<L>(*param, *row, *component);
                match self.kernel.params[*param].kind {
                    Kind::Output { .. } => {
                        self.line(&format!("{rt}store({at}, {});", L::stored_real(*value)));
                    }
                    _ => self.line(&format!("{rt}store_int(a, {at}, v{value}, {});", param + 1)),
                }
            }
            Stmt::Raise(reason, param) => {
                let (reason, param) = (L::reason(*reason), param.map_or(0, |p| p + 1));
                self.line(&format!("{rt}raise(a, {reason}, {param});"));
            }
        }
    }

    fn expr<L: Language>(&self, e: &Expr) -> String {
        match e {
            Expr::Real(x) => L::real(*x),
            Expr::Int(i) => L::int(*i),
            Expr::Bool(b) => b.to_string(),
            Expr::Copy(v) => format!("v{v}"),
            Expr::Row => L::row().into(),
            Expr::Attribute(p) => {
                let list = if self.kernel.params[*p].kind == Kind::Scalar { "reals" } else { "ints" };
                format!("a.{list}[{}]", scalar_position(self.kernel, *p))
            }
            Expr::Rows(dim) => format!("a.dims[{dim}]"),
            Expr::Unary(op, x) => L::unary(*op, self.body.types[*x], *x),
            Expr::Binary(op, x, y) => {
                L::binary(*op, self.body.types[*x], *x, *y).unwrap_or_else(|| plain(*op, *x, *y))
            }
            Expr::Load { param, row, component } => {
                L::load(self.kernel.params[*param].kind, &self.address::<L>(*param, *row, *component))
            }
            Expr::Atomic { op, param, row, value } => {
                let name = match op {
                    Atomic::Add => "add",
                    Atomic::Max => "max",
                    Atomic::Min => "min",
                };
                let at = self.address::<L>(*param, *row, 0);
                format!("{}atomic_{name}(a, {at}, v{value}, {})", L::RUNTIME, param + 1)
            }
            Expr::Entry { param, array, at, component } => {
                let packed = || self.layout.slot(*param, Array::PackedShift);
                let packed = (*array == Array::Shift).then(packed);
                L::entry(self.layout.slot(*param, *array), packed, *at, *component)
            }
        }
    }
}

/// An operation that both languages write with one symbol.
fn plain(op: Binary, x: Var, y: Var) -> String {
    let symbol = match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::Lt => "<",
        Binary::Le => "<=",
        Binary::Eq => "==",
        Binary::Ne => "!=",
        Binary::Rem | Binary::Shl | Binary::Shr | Binary::Pow | Binary::Atan2 => {
            unreachable!("{op:?} is a function")
        }
    };
    format!("v{x} {symbol} v{y}")
}
