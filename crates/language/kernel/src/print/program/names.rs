//! Names in the text: registers, places in arrays, pointers.

use crate::program::{
    Address, Class, Condition, Indices, Integer, Mask, Register, Room, Scalar, Shape, Table, Vector,
};
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter, Result};

/// The mark at the end of names that an entry of clusters has for itself; the printer of lines puts the entry's suffix there.
pub(super) const OF_ENTRY: char = '@';

/// The letter of a class in names, and a value for rustc, which does not see that a register is written before it is read.
fn of(class: Class) -> (char, &'static str) {
    match class {
        Class::Scalar => ('s', "0.0f64"),
        Class::Integer => ('n', "0i64"),
        Class::Condition => ('c', "false"),
        Class::Each => ('e', "L::splat(0.0)"),
        Class::One => ('o', "L::splat(0.0)"),
        Class::Mask => ('m', "L::mask(false)"),
        Class::Indices => ('i', "<L::Index as Default>::default()"),
        Class::Room => ('r', "rt::Spilled::<f64>::default()"),
        Class::Shape => ('h', "rt::MeshShape::default()"),
        // Tables are written where they are declared: no text for a head, which does not compile.
        Class::Table => ('t', ""),
    }
}

/// The variable of a register.
pub(super) fn name((class, n): Register) -> String {
    let mark = class.is_each().then_some(OF_ENTRY);
    format!("{}{n}{}", of(class).0, mark.map(String::from).unwrap_or_default())
}

/// A declaration at the head of a block.
pub(super) fn declaration(register: Register) -> String {
    format!("let mut {} = {};", name(register), of(register.0).1)
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

/// Variables for pointers of the launch, with the number of their slot behind the word, by what they point to; no type: reals.
const POINTERS: [(&str, Option<&str>); 5] = [
    ("reals", None),
    ("doubles", Some("f64")),
    ("ints", Some("i32")),
    ("longs", Some("i64")),
    ("entries", Some("rt::ClusterEntry")),
];

/// The declarations of pointers that a text names, given the type of reals in memory.
pub(super) fn pointers(text: &str, real: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).collect::<BTreeSet<_>>();
    let declared = |word: &str| {
        POINTERS.into_iter().find_map(|(name, ty)| {
            let slot: usize = word.strip_prefix(name)?.parse().ok()?;
            Some(format!("let {word} = a.pointers[{slot}] as *mut {};\n", ty.unwrap_or(real)))
        })
    };
    words.into_iter().filter_map(declared).collect()
}
