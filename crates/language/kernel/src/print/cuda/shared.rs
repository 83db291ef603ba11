//! Kernels without adjoint: elements of arrays that rows share, variables and control flow, one operation a line.

use super::Printer;
use crate::ir::{Atomic, Compare, IntegerOp, Kind, ParamId, Reason, Role, Stmt, Val};
use crate::layout::Array;

/// The type of the pointer to an array.
pub(super) fn pointer(kind: Kind) -> &'static str {
    match kind {
        Kind::Output { .. } => "REAL*",
        Kind::Real { .. } => "const REAL* __restrict__",
        Kind::Integers { wide: true, output: true, .. } => "long long*",
        Kind::Integers { wide: false, output: true, .. } => "int*",
        Kind::Integers { wide: true, .. } => "const long long* __restrict__",
        _ => "const int* __restrict__",
    }
}

/// The value of a function of integers, which wraps.
pub(super) fn integers(op: IntegerOp, x: &str, y: &str) -> String {
    let function = match op {
        IntegerOp::Add => "wrap_add",
        IntegerOp::Sub => "wrap_sub",
        IntegerOp::Mul => "wrap_mul",
        IntegerOp::Div => "int_div",
        IntegerOp::Rem => "int_rem",
        IntegerOp::Shl => "shift_left",
        IntegerOp::Shr => return format!("{x} >> ({y} & 63)"),
        IntegerOp::And => return format!("{x} & {y}"),
        IntegerOp::Or => return format!("{x} | {y}"),
        IntegerOp::Xor => return format!("{x} ^ {y}"),
    };
    format!("{function}({x}, {y})")
}

pub(super) fn comparison(op: Compare) -> &'static str {
    match op {
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Eq => "==",
        Compare::Ne => "!=",
    }
}

impl Printer<'_> {
    /// The address of an element.
    fn place(&self, param: ParamId, row: Option<Val>, component: usize) -> String {
        let slot = self.layout.slot(param, Array::Values(Role::VALUE));
        format!("p{slot} + ({})", self.at(param, Role::VALUE, row.map(|r| self.v(r)), component, None))
    }

    /// An element, which other rows may write where it is of an output.
    pub(super) fn shared(&self, param: ParamId, row: Option<Val>, component: usize) -> String {
        let place = self.place(param, row, component);
        if self.kernel.params[param].kind.is_output() {
            format!("load({place})")
        } else {
            format!("*({place})")
        }
    }

    /// An integer before it is changed.
    pub(super) fn atomic(&self, op: Atomic, param: ParamId, row: Option<Val>, value: Val) -> String {
        let name = match op {
            Atomic::Add => "add",
            Atomic::Max => "max",
            Atomic::Min => "min",
        };
        format!("atomic_{name}(a, {}, {}, {})", self.place(param, row, 0), self.v(value), param + 1)
    }

    /// A statement of kernels without adjoint alone.
    pub(super) fn in_order(&mut self, s: &Stmt) {
        let line = match s {
            Stmt::Assign(m, v) => format!("m{m} = {};", self.v(*v)),
            Stmt::Loop(body) => {
                self.line("for (;;) {");
                self.block(body);
                "}".into()
            }
            Stmt::Break => "break;".into(),
            Stmt::Continue => "continue;".into(),
            Stmt::Return => "return;".into(),
            Stmt::Check { index, dim, param } => {
                let index = self.v(*index);
                let outside = format!("{index} < 0 || {index} >= a.dims[{dim}]");
                format!("if ({outside}) {{ raise(a, {}, {}); return; }}", Reason::Index as u32, param + 1)
            }
            Stmt::Write { param, row, component, value } => {
                let (place, x) = (self.place(*param, *row, *component), self.v(*value));
                match self.kernel.params[*param].kind {
                    Kind::Output { .. } => format!("store({place}, REAL({x}));"),
                    _ => format!("store_int(a, {place}, {x}, {});", param + 1),
                }
            }
            Stmt::Signal(reason, param) => {
                format!("raise(a, {}, {});", *reason as u32, param.map_or(0, |p| p + 1))
            }
            s => unreachable!("kernels with an adjoint have it, too: {s:?}"),
        };
        self.line(&line);
    }
}
