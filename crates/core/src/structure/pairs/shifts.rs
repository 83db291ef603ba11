//! The images of pairs: three integers each, or packed into one.

use std::borrow::Cow;
use std::ops::Range;

use crate::array::{Buffer, Numbers};
use crate::runtime::lanes::packed::unpack;

/// The image S of each entry of a list.
#[derive(Clone, Debug)]
pub enum Shifts<'a> {
    /// One integer each ([`pack`](crate::runtime::lanes::packed::pack)): what the search makes.
    Packed(Numbers<'a, i32>),
    /// Three integers each: what comes from outside, and shifts that are too large to be packed.
    Triples(Numbers<'a, [i32; 3]>),
}

impl Shifts<'_> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.len(),
            Self::Triples(triples) => triples.len(),
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shift of entry `p`.
    pub fn at(&self, p: usize) -> [i32; 3] {
        match self {
            Self::Packed(packed) => unpack(packed[p]),
            Self::Triples(triples) => triples[p],
        }
    }

    /// The shifts of some entries.
    pub fn range(&self, entries: Range<usize>) -> impl ExactSizeIterator<Item = [i32; 3]> + '_ {
        entries.map(|p| self.at(p))
    }

    /// One integer for each entry, where shifts are packed.
    pub fn packed(&self) -> Option<&[i32]> {
        match self {
            Self::Packed(packed) => Some(packed),
            Self::Triples(_) => None,
        }
    }

    /// Three integers for each entry, where shifts are not packed.
    pub fn as_triples(&self) -> Option<&[[i32; 3]]> {
        match self {
            Self::Packed(_) => None,
            Self::Triples(triples) => Some(triples),
        }
    }

    /// Three integers for each entry, shape (P, 3); a copy only where they are packed.
    pub fn triples(&self) -> Cow<'_, [[i32; 3]]> {
        match self {
            Self::Packed(packed) => packed.iter().map(|&packed| unpack(packed)).collect(),
            Self::Triples(triples) => Cow::Borrowed(triples),
        }
    }

    /// [`Shifts::triples`], handed over.
    pub fn into_triples(self) -> Vec<[i32; 3]> {
        match self {
            Self::Packed(packed) => packed.iter().map(|&packed| unpack(packed)).collect(),
            Self::Triples(triples) => triples.into_buffer().into(),
        }
    }

    /// A view of these.
    pub fn borrowed(&self) -> Shifts<'_> {
        match self {
            Self::Packed(packed) => Shifts::Packed(packed.borrowed()),
            Self::Triples(triples) => Shifts::Triples(triples.borrowed()),
        }
    }

    /// The shifts in memory of their own.
    pub fn into_owned(self) -> Shifts<'static> {
        match self {
            Self::Packed(packed) => Shifts::Packed(packed.into_owned()),
            Self::Triples(triples) => Shifts::Triples(triples.into_owned()),
        }
    }
}

/// The memory of a list that is no longer needed, for the next one.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    /// Offsets of the rows.
    pub neighbor_ptr: Buffer<i64>,
    /// Columns of the pairs.
    pub others: Buffer<i32>,
    /// Image shifts, packed.
    pub packed: Buffer<i32>,
    /// Image shifts, as triples.
    pub triples: Buffer<[i32; 3]>,
}
