//! Names in the text: registers, places in arrays, pointers.

use crate::program::{
    Address, Class, Condition, Indices, Integer, Mask, Register, Room, Scalar, Shape, Table, Vector,
};
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter, Result};

/// The mark at the end of names that an entry of clusters has for itself; the printer of lines puts the entry's suffix there.
pub(super) const OF_ENTRY: char = '@';

/// The variable of a register.
pub(super) fn name((class, n): Register) -> String {
    match class {
        Class::Scalar => format!("s{n}"),
        Class::Integer => format!("n{n}"),
        Class::Condition => format!("c{n}"),
        Class::Each => format!("e{n}{OF_ENTRY}"),
        Class::One => format!("o{n}"),
        Class::Mask => format!("m{n}{OF_ENTRY}"),
        Class::Indices => format!("i{n}{OF_ENTRY}"),
        Class::Room => format!("r{n}"),
        Class::Shape => format!("h{n}"),
        Class::Table => format!("t{n}"),
    }
}

/// A value for rustc, which does not see that a register is written before it is read.
pub(super) fn none(class: Class) -> &'static str {
    match class {
        Class::Scalar => "0.0f64",
        Class::Integer => "0i64",
        Class::Condition => "false",
        Class::Each | Class::One => "L::splat(0.0)",
        Class::Mask => "L::mask(false)",
        Class::Indices => "<L::Index as Default>::default()",
        Class::Room => "rt::Spilled::<f64>::default()",
        Class::Shape => "rt::MeshShape::default()",
        Class::Table => unreachable!("tables are written where they are declared"),
    }
}

macro_rules! shown {
    ($($ty:ident)*) => {$(
        impl Display for $ty {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                f.write_str(&name((Class::$ty, self.0)))
            }
        }
    )*};
}

shown!(Scalar Condition Mask Indices Room Shape Table);

impl Display for Vector {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&name(self.register()))
    }
}

/// `{:#}`: as a place in an array.
impl Display for Integer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = name((Class::Integer, self.0));
        if f.alternate() { write!(f, "({name} as usize)") } else { f.write_str(&name) }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self { row: None, component, .. } => write!(f, "{component}"),
            Self { row: Some(row), stride: 1, component: 0 } => write!(f, "{row:#}"),
            Self { row: Some(row), stride, component } => write!(f, "{stride} * {row:#} + {component}"),
        }
    }
}

/// The type of what a pointer of the launch points to. Its name with the number of a slot is a variable of the text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pointer {
    Reals,
    Doubles,
    Ints,
    Longs,
    Entries,
}

impl Pointer {
    const ALL: [Self; 5] = [Self::Reals, Self::Doubles, Self::Ints, Self::Longs, Self::Entries];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reals => "reals",
            Self::Doubles => "doubles",
            Self::Ints => "ints",
            Self::Longs => "longs",
            Self::Entries => "entries",
        }
    }

    /// The declarations of those that a text names, given the type of reals in memory.
    pub(super) fn declared(text: &str, real: &str) -> String {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric()).collect::<BTreeSet<_>>();
        let declared = |word: &str| {
            let of = Self::ALL.into_iter().find(|of| word.starts_with(of.name()))?;
            let slot: usize = word[of.name().len()..].parse().ok()?;
            let ty = match of {
                Self::Reals => real,
                Self::Doubles => "f64",
                Self::Ints => "i32",
                Self::Longs => "i64",
                Self::Entries => "rt::ClusterEntry",
            };
            Some(format!("let {word} = a.pointers[{slot}] as *mut {ty};\n"))
        };
        words.into_iter().filter_map(declared).collect()
    }
}
