//! Programs: parts of forms as instructions on typed registers.
//!
//! Constructs of the language are lowered here, once ([`lower`](function@lower)); consumers know
//! instructions alone: the printer of Rust ([`crate::print::program`]), and for kernels that are made at run time an
//! interpreter and a printer of LLVM's text. All give the same bits.
//!
//! Every register of a part has one number in its class, and is written before it is read. Control flow is structured.
//! Inside an [`Instruction::Lanes`] or an [`Instruction::Strip`] each instruction on lanes works on the vectors of iterations
//! that are open, the last of which may be incomplete; outside, on one whole vector.

mod instruction;
mod lower;
mod registers;

pub use instruction::{Address, Combine, Family, Field, Fused, Instruction, Memory, Term, Unary};
pub use lower::{Joined, Phase, lower, lower_clusters, lower_rows};
pub use registers::{Class, Register, Use};

pub use crate::ir::{Atomic, Compare, IntegerOp, Reason};
pub use crate::layout::Pair;

/// Number of a register for a real, f64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Scalar(pub u32);

/// Number of a register for a 64-bit integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Integer(pub u32);

/// Number of a register for a condition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Condition(pub u32);

/// Register of reals on lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Vector {
    /// One for each vector of the iterations that are open.
    Each(u32),
    /// One for all of them: the same number on every lane, or a sum that goes through the vectors one after the other.
    One(u32),
}

/// Number of a register for conditions on lanes, one for each vector of the open iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mask(pub u32);

/// Number of a register for indices on lanes (i32), one for each vector of the open iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Indices(pub u32);

/// Number of a register for 16 reals, room for the lanes of any vector, of which single ones are read and written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Room(pub u32);

/// Number of a register for the mesh of a system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Shape(pub u32);

/// Number of a register for the splines at a coordinate along an axis of a mesh: values and derivatives at every node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Table(pub u32);

/// The derivatives of splines that a table holds at the most, the value among them.
pub const MAX_ORDERS: usize = 3;

/// Code of a part: runs rows `lo..hi` and adds the sums over them to the call's partial sums.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Whether lanes are f64 for either type of arrays (rows on lanes, nodes on lanes). Otherwise they are of the arrays'
    /// type.
    pub wide: bool,
    /// The instructions.
    pub body: Vec<Instruction>,
    /// The number of registers of each class.
    pub registers: [u32; Class::COUNT],
    /// Registers that hold a constant from the start.
    pub scalars: Vec<(Scalar, f64)>,
    /// Registers that hold a constant from the start.
    pub integers: Vec<(Integer, i64)>,
    /// Registers, the numbers of [`Vector::One`], that hold a constant on every lane from the start.
    pub vectors: Vec<(u32, f64)>,
    /// The registers that hold the first row and the one behind the last at the start.
    pub rows: [Integer; 2],
}
