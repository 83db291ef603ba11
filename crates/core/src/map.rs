//! An element of one dimension for each row of another: types of atoms, say, and the parameters that belong to a type.

use crate::{Error, Result};
use std::borrow::Cow;

/// For each row the element it refers to, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<'a> {
    of: Cow<'a, [i32]>,
    into: usize,
}

impl<'a> Map<'a> {
    /// From the element of each row, shape (N,), below `into`.
    ///
    /// # Errors
    /// `map`, where an element is negative or not below `into`.
    pub fn new(of: impl Into<Cow<'a, [i32]>>, into: usize) -> Result<Self> {
        let of = of.into();
        if of.len().max(into) > i32::MAX as usize {
            let expected = format!("at most {} rows and elements", i32::MAX);
            return Err(Error::argument("map", expected, format!("{} rows, {into} elements", of.len())));
        }
        match of.iter().position(|&e| e < 0 || e as usize >= into) {
            Some(i) => Err(Error::argument(
                "map",
                format!("elements from 0 to below {into}"),
                format!("{} for row {i}", of[i]),
            )),
            None => Ok(Self { of, into }),
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.of.len()
    }

    /// The number of elements that rows may refer to.
    pub fn into_len(&self) -> usize {
        self.into
    }

    /// The element of each row, shape (N,).
    pub fn of(&self) -> &[i32] {
        &self.of
    }

    /// The same map, owning its array.
    pub fn into_owned(self) -> Map<'static> {
        Map { of: Cow::Owned(self.of.into_owned()), into: self.into }
    }
}
