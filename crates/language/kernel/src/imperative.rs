//! Kernels that are not differentiated, in the form that the lowering to programs and the printer of CUDA read: scalar variables, structured control flow,
//! one operation per statement.
//!
//! Integers are 64-bit and wrap; reals are f64. Every element that a computed number names is checked first
//! ([`Stmt::Check`]), and every access to an output is a relaxed atomic one, as other rows may touch it at any time.

pub use madelung_abi::Reason;

use crate::ir::{Dim, Function, Kernel, Kind, ParamId, Role};
use crate::layout::{Array, Slot};
use std::collections::BTreeSet;

/// A variable, by number.
pub type Var = usize;

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// A real number, in f64.
    Real,
    /// A 64-bit integer, or a row.
    Int,
    /// A condition.
    Bool,
}

/// An operation on one variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unary {
    /// −a, by type.
    Neg,
    /// not a; bit by bit for integers.
    Not,
    /// √a
    Sqrt,
    /// A function of a, real.
    Call(Function),
    /// The nearest integer, ties to even, as a real.
    Nearest,
    /// |a|, of reals.
    Abs,
    /// An integer as a real.
    ToReal,
    /// A real without its fraction as an integer: the nearest one there is, and 0 for NaN.
    ToInt,
    /// Whether a real is a finite number.
    IsFinite,
}

/// An operation on two variables of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    /// a + b
    Add,
    /// a − b
    Sub,
    /// a · b
    Mul,
    /// a / b; of integers towards zero (b is checked).
    Div,
    /// The remainder of that division of integers (b is checked).
    Rem,
    /// Bits of both.
    And,
    /// Bits of either.
    Or,
    /// Bits of one alone.
    Xor,
    /// a · 2ᵇ, b modulo 64.
    Shl,
    /// ⌊a / 2ᵇ⌋, b modulo 64.
    Shr,
    /// aᵇ, of reals.
    Pow,
    /// The angle of the point (b, a), of reals.
    Atan2,
    /// a < b
    Lt,
    /// a ≤ b
    Le,
    /// a = b
    Eq,
    /// a ≠ b
    Ne,
}

/// An atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomic {
    /// Adds.
    Add,
    /// Keeps the larger.
    Max,
    /// Keeps the smaller.
    Min,
}

/// An expression: the right-hand side of a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A constant.
    Real(f64),
    /// A constant.
    Int(i64),
    /// A constant.
    Bool(bool),
    /// The value that another variable has now.
    Copy(Var),
    /// The row that runs.
    Row,
    /// A real or integer attribute.
    Attribute(ParamId),
    /// The number of rows of a dimension.
    Rows(Dim),
    /// An operation.
    Unary(Unary, Var),
    /// An operation.
    Binary(Binary, Var, Var),
    /// One component of an element of an array; `row` is `None` for an array of one element.
    Load {
        /// The parameter.
        param: ParamId,
        /// The element.
        row: Option<Var>,
        /// The component.
        component: usize,
    },
    /// An atomic change of an integer output; gives the value before.
    Atomic {
        /// The operation.
        op: Atomic,
        /// The parameter.
        param: ParamId,
        /// The element.
        row: Option<Var>,
        /// The other operand.
        value: Var,
    },
    /// An entry of a batch or a pair list.
    Entry {
        /// The parameter.
        param: ParamId,
        /// The array of the parameter.
        array: Array,
        /// The row, system or pair.
        at: Var,
        /// The component of a shift; otherwise how far behind `at`.
        component: usize,
    },
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// Declares a variable.
    Let(Var, Expr),
    /// Gives a variable the value of another.
    Set(Var, Var),
    /// A branch.
    If {
        /// The condition.
        condition: Var,
        /// The statements if the condition holds.
        then: Vec<Stmt>,
        /// The statements if it does not.
        otherwise: Vec<Stmt>,
    },
    /// A loop without an end of its own.
    Loop(Vec<Stmt>),
    /// Leaves the innermost loop.
    Break,
    /// Begins the innermost loop's next turn.
    Continue,
    /// Ends the row.
    Return,
    /// Ends the row with [`Reason::Index`] where a number is not a row of a dimension.
    Check {
        /// The number.
        index: Var,
        /// The dimension.
        dim: Dim,
        /// The array that is indexed.
        param: ParamId,
    },
    /// Writes one component of an element of an output.
    Store {
        /// The parameter.
        param: ParamId,
        /// The element.
        row: Option<Var>,
        /// The component.
        component: usize,
        /// The value.
        value: Var,
    },
    /// Raises a bit of the status word, for an array or for none.
    Raise(Reason, Option<ParamId>),
}

/// The body of a kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Body {
    /// The types of its variables.
    pub types: Vec<Type>,
    /// The statements.
    pub stmts: Vec<Stmt>,
}

/// The arguments of a body's launch.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Pointers, in order.
    pub slots: Vec<Slot>,
    /// The positions of outputs among the slots.
    pub written: Vec<usize>,
    /// Whether rows loop.
    pub loops: bool,
}

impl Layout {
    /// Reads a body.
    pub fn new(kernel: &Kernel, body: &Body) -> Self {
        let (mut slots, mut loops) = (BTreeSet::new(), false);
        visit(&body.stmts, &mut |s| match s {
            Stmt::Let(_, Expr::Load { param, .. } | Expr::Atomic { param, .. })
            | Stmt::Store { param, .. } => {
                slots.insert(Slot::new(*param, Array::Values(Role::VALUE)));
            }
            Stmt::Let(_, Expr::Entry { param, array, .. }) => {
                slots.insert(Slot::new(*param, *array));
                if *array == Array::Shift {
                    slots.insert(Slot::new(*param, Array::PackedShift));
                }
            }
            Stmt::Loop(_) => loops = true,
            _ => {}
        });
        let slots: Vec<Slot> = slots.into_iter().collect();
        let written = (0..slots.len()).filter(|n| is_output(kernel.params[slots[*n].param].kind)).collect();
        Self { slots, written, loops }
    }

    /// The position of an array among the pointers.
    pub fn slot(&self, param: ParamId, array: Array) -> usize {
        self.slots.binary_search(&Slot::new(param, array)).expect("every array of the body has a slot")
    }
}

/// Whether a kernel writes a parameter.
pub fn is_output(kind: Kind) -> bool {
    matches!(kind, Kind::Output { .. } | Kind::Integers { output: true, .. })
}

fn visit(stmts: &[Stmt], f: &mut dyn FnMut(&Stmt)) {
    for s in stmts {
        f(s);
        match s {
            Stmt::If { then, otherwise, .. } => {
                visit(then, f);
                visit(otherwise, f);
            }
            Stmt::Loop(body) => visit(body, f),
            _ => {}
        }
    }
}
