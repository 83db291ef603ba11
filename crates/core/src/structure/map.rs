//! Maps from rows to elements of another dimension: from atoms to their types, say, and to the parameters of a type.

use super::Structure;
use super::integers::{Integers, addressable};
use super::sealed::Sealed;
use crate::array::{Array, DType, Place, View};
use crate::backend::Check;
use crate::runtime::{SlotArray, StructureKind};
use crate::{Error, Result};
use std::borrow::Cow;

/// Map from rows to elements of another dimension, in any order.
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

    /// The element of each row, shape (N,).
    pub fn of(&self) -> &[i32] {
        &self.of
    }

    /// The map with an array of its own.
    pub fn into_owned(self) -> Map<'static> {
        Map { of: Cow::Owned(self.of.into_owned()), into: self.into }
    }
}

impl Sealed for Map<'_> {}

impl Structure for Map<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Map
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [Some(self.rows()), Some(self.into), None]
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok((array == SlotArray::MapOf).then(|| self.of().into()))
    }
}

/// Map in the memory of a device.
#[derive(Debug)]
pub struct DeviceMap<'a> {
    of: Integers<'a>,
    into: usize,
    checked: bool,
}

impl<'a> DeviceMap<'a> {
    /// From the element of each row, (N,), int32, below `into`.
    ///
    /// # Errors
    /// `map`, where its dtype, shape or place is another, or a size is more than an i32 counts.
    pub fn new(of: impl Into<Integers<'a>>, into: usize) -> Result<Self> {
        let of = of.into();
        let rows = of.view().len();
        of.check("map", DType::I32, &[rows])?;
        addressable("map", rows.max(into))?;
        Ok(Self { of, into, checked: false })
    }

    /// The map without its checks.
    ///
    /// # Safety
    /// Every element lies from 0 to below `into`.
    #[must_use]
    #[expect(unsafe_code, reason = "kernels index by integers that are not checked")]
    pub unsafe fn assume_checked(self) -> Self {
        Self { checked: true, ..self }
    }
}

impl Sealed for DeviceMap<'_> {}

impl Structure for DeviceMap<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Map
    }

    fn place(&self) -> Option<Place> {
        Some(self.of.view().place())
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [Some(self.of.view().len()), Some(self.into), None]
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok((array == SlotArray::MapOf).then(|| self.of.view()))
    }

    fn check<'s>(&'s self, _batches: &[[&'s dyn Structure; 2]]) -> Result<Vec<Check<'s>>> {
        let below = || Check::Below(self.of.view(), self.into);
        Ok((!self.checked).then(below).into_iter().collect())
    }

    fn into_arrays(self: Box<Self>) -> Vec<Array> {
        self.of.into_array().into_iter().collect()
    }
}
