//! Registers, and the instructions that use them.

use super::{
    Address, Condition, Indices, Instruction, Integer, Mask, Room, Scalar, Shape, Table, Term, Vector,
};

/// A class of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "each is the type of its name")]
pub enum Class {
    Scalar,
    Integer,
    Condition,
    /// [`Vector::Each`]
    Each,
    /// [`Vector::One`]
    One,
    Mask,
    Indices,
    Room,
    Shape,
    Table,
}

impl Class {
    /// The number of classes.
    pub const COUNT: usize = Self::Table as usize + 1;

    /// Whether there is a register for each vector of the open iterations.
    pub fn is_each(self) -> bool {
        matches!(self, Self::Each | Self::Mask | Self::Indices)
    }
}

/// A register: its class, and its number there.
pub type Register = (Class, u32);

/// How an instruction uses a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Both.
    Update,
    /// Sets it for each turn of a loop.
    Turn,
}

/// A field of an instruction.
pub(super) trait Operand {
    /// Calls `f` on its registers.
    fn registers(&self, _f: &mut dyn FnMut(Register)) {}

    /// Gives its registers other numbers.
    fn renumber(&mut self, _f: &mut dyn FnMut(Register) -> u32) {}

    /// The instructions of a block.
    fn block(&self) -> &[Instruction] {
        &[]
    }
}

macro_rules! operands {
    ($($ty:ident)*; none: $($other:ty),*) => {
        $(impl Operand for $ty {
            fn registers(&self, f: &mut dyn FnMut(Register)) {
                f((Class::$ty, self.0));
            }

            fn renumber(&mut self, f: &mut dyn FnMut(Register) -> u32) {
                self.0 = f((Class::$ty, self.0));
            }
        })*
        $(impl Operand for $other {})*
    };
}

operands! {
    Scalar Integer Condition Mask Indices Room Shape Table;
    none: bool, u32, usize, f64, super::Pair, super::Unary, super::Combine, crate::ir::Compare,
    crate::ir::IntegerOp, super::Fused, super::Field, super::Memory, crate::ir::Atomic, crate::ir::Reason
}

impl Vector {
    /// The register.
    pub(crate) fn register(self) -> Register {
        match self {
            Self::Each(n) => (Class::Each, n),
            Self::One(n) => (Class::One, n),
        }
    }
}

impl Operand for Vector {
    fn registers(&self, f: &mut dyn FnMut(Register)) {
        f(self.register());
    }

    fn renumber(&mut self, f: &mut dyn FnMut(Register) -> u32) {
        let of = f(self.register());
        let (Self::Each(n) | Self::One(n)) = self;
        *n = of;
    }
}

macro_rules! several {
    ($($of:ty $([$n:ident])?;)*) => {$(
        impl<T: Operand $(, const $n: usize)?> Operand for $of {
            fn registers(&self, f: &mut dyn FnMut(Register)) {
                self.iter().for_each(|x| x.registers(f));
            }

            fn renumber(&mut self, f: &mut dyn FnMut(Register) -> u32) {
                self.iter_mut().for_each(|x| x.renumber(f));
            }
        }
    )*};
}

several! {
    Option<T>;
    Box<[T]>;
    [T; N] [N];
}

impl Operand for (Table, Integer) {
    fn registers(&self, f: &mut dyn FnMut(Register)) {
        self.0.registers(f);
        self.1.registers(f);
    }

    fn renumber(&mut self, f: &mut dyn FnMut(Register) -> u32) {
        self.0.renumber(f);
        self.1.renumber(f);
    }
}

impl Operand for Address {
    fn registers(&self, f: &mut dyn FnMut(Register)) {
        self.row.registers(f);
    }

    fn renumber(&mut self, f: &mut dyn FnMut(Register) -> u32) {
        self.row.renumber(f);
    }
}

impl Operand for Term {
    fn registers(&self, f: &mut dyn FnMut(Register)) {
        self.x.registers(f);
        self.y.registers(f);
    }

    fn renumber(&mut self, f: &mut dyn FnMut(Register) -> u32) {
        self.x.renumber(f);
        self.y.renumber(f);
    }
}

impl Operand for Vec<Instruction> {
    fn block(&self) -> &[Instruction] {
        self
    }
}

/// The enum of instructions, and what follows from the names of their fields. A field `to`, the last one, is written; `sum`,
/// `best` and `place` are read and written; `sums`, `variable`, `begin`, `stop` and `pair` are set by a loop for its turns; all
/// others are read.
macro_rules! instructions {
    (
        $(#[$meta:meta])*
        pub enum Instruction;
        $($(#[$of_family:meta])* $family:ident {
            $($(#[$doc:meta])* $name:ident $({ $($field:ident: $ty:ty),* $(,)? })?,)*
        })*
    ) => {
        $(#[$meta])*
        pub enum Instruction {
            $($($(#[$doc])* $name $({ $($field: $ty),* })?,)*)*
        }

        /// Family of instructions: consumers take one family each in a function of its own.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Family {
            $($(#[$of_family])* $family,)*
        }

        use $crate::program::registers::{Operand, how};

        impl Instruction {
            /// The family.
            #[inline(always)]
            pub fn family(&self) -> Family {
                match self {
                    $($(Self::$name $({ $($field: _),* })? => Family::$family,)*)*
                }
            }

            /// Calls `f` on every register of the instruction's own, not of its blocks, in the order of the fields.
            pub fn registers(&self, f: &mut dyn FnMut($crate::program::Register, $crate::program::Use)) {
                match self {
                    $($(Self::$name $({ $($field),* })? => {
                        $($($field.registers(&mut |r| f(r, how(stringify!($field))));)*)?
                    })*)*
                }
            }

            /// Gives registers other numbers.
            pub fn renumber(&mut self, f: &mut dyn FnMut($crate::program::Register) -> u32) {
                match self {
                    $($(Self::$name $({ $($field),* })? => {
                        $($($field.renumber(f);)*)?
                    })*)*
                }
            }

            /// The blocks in the instruction.
            pub fn blocks(&self) -> impl Iterator<Item = &[Self]> {
                let blocks: Vec<&[Self]> = match self {
                    $($(Self::$name $({ $($field),* })? => vec![$($($field.block()),*)?],)*)*
                };
                blocks.into_iter().filter(|block| !block.is_empty())
            }
        }
    };
}

/// Use of the registers of a field, by its name.
pub(super) fn how(field: &str) -> Use {
    match field {
        "to" => Use::Write,
        "sum" | "best" | "place" => Use::Update,
        "sums" | "variable" | "begin" | "stop" | "pair" => Use::Turn,
        _ => Use::Read,
    }
}

pub(super) use instructions;

impl Instruction {
    /// Whether it is an addition, which is done entry by entry, behind all else that is done for several entries of clusters:
    /// two may be of one cluster.
    pub fn is_addition(&self) -> bool {
        matches!(self, Self::Sum { .. } | Self::SumOfProduct { .. } | Self::AddInClusters { .. })
    }

    /// The loop over the pairs of an [`Instruction::Strip`] that takes all channels of one pair after those of another; none
    /// for other instructions.
    pub fn pair_by_pair(&self) -> Option<Self> {
        let Self::Strip { pair, pairs, before, sums, variable, from, end, body, after } = self else {
            return None;
        };
        let mut of_pair = before.clone();
        of_pair.extend(sums.iter().map(|to| Self::Fill { x: 0.0, to: *to }));
        let (body, single, entries) = (body.clone(), false, None);
        of_pair.push(Self::Lanes { variable: *variable, from: *from, end: *end, single, entries, body });
        of_pair.extend_from_slice(after);
        let [from, end] = *pairs;
        Some(Self::For { variable: *pair, from, end, body: of_pair })
    }
}
