//! Text of what instructions name: registers, places in arrays, pointers.

use super::Printer;
use crate::program::{
    Address, Condition, Indices, Integer, Mask, Memory, Room, Scalar, Shape, Table, Vector,
};

/// A register of any class, as a variable of the text.
pub(super) trait Variable: Copy {
    /// A value for rustc, which does not see that the register is written before it is read.
    const NONE: &'static str;

    /// The variable of the text; `suffix`: that of the open entry of clusters.
    fn name(self, suffix: &str) -> String;
}

macro_rules! registers {
    ($($class:ident: $none:literal, $suffix:ident => $name:expr;)*) => {$(
        impl Variable for $class {
            const NONE: &'static str = $none;

            fn name(self, $suffix: &str) -> String {
                $name(self)
            }
        }
    )*};
}

registers! {
    Scalar: "0.0f64", _suffix => |Self(n)| format!("s{n}");
    Integer: "0i64", _suffix => |Self(n)| format!("n{n}");
    Condition: "false", _suffix => |Self(n)| format!("c{n}");
    Room: "rt::Spilled::<f64>::default()", _suffix => |Self(n)| format!("r{n}");
    Shape: "rt::MeshShape::default()", _suffix => |Self(n)| format!("h{n}");
    // Tables are written where they are declared: their type has no value for none.
    Table: "", _suffix => |Self(n)| format!("t{n}");
    Mask: "L::mask(false)", suffix => |Self(n)| format!("m{n}{suffix}");
    Indices: "<L::Index as Default>::default()", suffix => |Self(n)| format!("i{n}{suffix}");
    Vector: "L::splat(0.0)", suffix => |r| match r {
        Self::Each(n) => format!("e{n}{suffix}"),
        Self::One(n) => format!("o{n}"),
    };
}

/// An operand of a statement.
pub(super) trait Operand {
    fn text(&self, p: &mut Printer<'_>) -> String;
}

impl<R: Variable> Operand for R {
    fn text(&self, p: &mut Printer<'_>) -> String {
        let name = self.name(p.suffix());
        if let Some(x) = p.constants.get(&name) {
            return x.clone();
        }
        p.is_used(&name, R::NONE, false);
        name
    }
}

macro_rules! as_they_are {
    ($($ty:ty),*) => {$(
        impl Operand for $ty {
            fn text(&self, _: &mut Printer<'_>) -> String {
                self.to_string()
            }
        }
    )*};
}

as_they_are!(usize, u32, &str, String);

/// An integer as a place in an array.
pub(super) struct At<'i>(pub(super) &'i Integer);

impl Operand for At<'_> {
    fn text(&self, p: &mut Printer<'_>) -> String {
        match p.program.integers.iter().find(|(of, _)| of == self.0) {
            Some((_, x)) if *x >= 0 => x.to_string(),
            _ => format!("({} as usize)", self.0.text(p)),
        }
    }
}

impl Operand for Address {
    fn text(&self, p: &mut Printer<'_>) -> String {
        let Some(row) = self.row else { return self.component.to_string() };
        let row = At(&row).text(p);
        match (self.stride, self.component) {
            (1, 0) => row,
            (1, c) => format!("{row} + {c}"),
            (s, 0) => format!("{s} * {row}"),
            (s, c) => format!("{s} * {row} + {c}"),
        }
    }
}

/// The first element of the open vector, in rows that begin at an integer.
pub(super) struct First<'i>(pub(super) &'i Option<Integer>);

impl Operand for First<'_> {
    fn text(&self, p: &mut Printer<'_>) -> String {
        let k = p.open.k.clone();
        self.0.as_ref().map_or(k.clone(), |first| format!("{} + {k}", At(first).text(p)))
    }
}

/// Whether a slot is added to.
pub(super) struct Adds(pub(super) usize, pub(super) bool);

impl Operand for Adds {
    fn text(&self, _: &mut Printer<'_>) -> String {
        if self.1 { "true".into() } else { format!("a.adds({})", self.0) }
    }
}

/// The type of what a pointer of the launch points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pointer {
    /// Reals of a type of the text.
    Reals(&'static str),
    Doubles,
    Ints,
    Longs,
    Entries,
}

impl Pointer {
    fn ty(self) -> &'static str {
        match self {
            Self::Reals("E") => "*mut E",
            Self::Reals(_) => "*mut L::Elem",
            Self::Doubles => "*mut f64",
            Self::Ints => "*mut i32",
            Self::Longs => "*mut i64",
            Self::Entries => "*const rt::ClusterEntry",
        }
    }

    pub(super) fn declared(self, slot: usize) -> String {
        format!("let p{slot} = a.pointers[{slot}] as {};\n", self.ty())
    }
}

impl Printer<'_> {
    /// A pointer, which is declared with the type of its first use.
    pub(super) fn pointer(&mut self, slot: usize, of: Pointer) -> String {
        let declared = *self.pointers.entry(slot).or_insert(of);
        if declared == of { format!("p{slot}") } else { format!("(p{slot} as {})", of.ty()) }
    }

    pub(super) fn reals(&mut self, slot: &usize) -> String {
        let element = self.element;
        self.pointer(*slot, Pointer::Reals(element))
    }

    pub(super) fn doubles(&mut self, slot: &usize) -> String {
        self.pointer(*slot, Pointer::Doubles)
    }

    pub(super) fn ints(&mut self, slot: &usize) -> String {
        self.pointer(*slot, Pointer::Ints)
    }

    pub(super) fn longs(&mut self, slot: &usize) -> String {
        self.pointer(*slot, Pointer::Longs)
    }

    pub(super) fn memory(&mut self, slot: &usize, of: Memory) -> String {
        match of {
            Memory::Real => self.reals(slot),
            Memory::Int32 => self.ints(slot),
            Memory::Int64 => self.longs(slot),
        }
    }

    /// A component of the open entry's cluster.
    pub(super) fn in_cluster(&mut self, slot: &usize, width: &usize, component: &usize) -> String {
        let p = self.reals(slot);
        format!("{p}.add((cluster{} * {width} + {component}) * L::N)", self.suffix())
    }
}

/// A statement.
macro_rules! does {
    ($p:expr, $text:literal $(, $x:expr)* $(,)?) => {{
        let line = format!($text $(, { let x = $x; x.text($p) })*);
        $p.line(&line);
    }};
}

/// A statement that writes a register.
macro_rules! set {
    ($p:expr, $to:expr, $text:literal $(, $x:expr)* $(,)?) => {{
        let x = format!($text $(, { let x = $x; x.text($p) })*);
        $p.set($to, &x);
    }};
}

pub(super) use {does, set};
