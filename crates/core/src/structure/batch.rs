//! Batches of systems: the system of each atom, and the atoms of each system.

use super::Structure;
use super::integers::{Integers, addressable};
use super::sealed::Sealed;
use crate::array::{Array, DType, Place, View, collected, filled};
use crate::backend::Check;
use crate::runtime::{SlotArray, StructureKind};
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;

/// Atoms that are counted together where they are of one system.
const SIDE_BY_SIDE: usize = 64;

/// A batch of systems whose atoms lie one system after the other. A single system is a batch of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    of: Cow<'a, [i32]>,
    ptr: Cow<'a, [i32]>,
}

impl<'a> Batch<'a> {
    /// One system of `atoms` atoms.
    ///
    /// # Errors
    /// `positions`, where there are more atoms than an i32 can number.
    pub fn single(atoms: usize) -> Result<Self> {
        Ok(Self { of: Cow::Owned(vec![0; atoms]), ptr: Cow::Owned(vec![0, fits("positions", atoms)?]) })
    }

    /// From the system of each atom: `batch_idx`, shape (N,), sorted. `systems` is how many systems there are, of
    /// which any may be empty; None takes the last index + 1 (so no atoms make no systems), of at most N systems.
    ///
    /// # Errors
    /// `batch_idx`, where an entry is negative, not below `systems` (or N), or smaller than the entry before it.
    pub fn from_idx(batch_idx: impl Into<Cow<'a, [i32]>>, systems: Option<usize>) -> Result<Self> {
        let of = batch_idx.into();
        fits("batch_idx", of.len())?;
        if let Some(first) = of.first().filter(|&&first| first < 0) {
            return Err(Error::argument("batch_idx", "system indices ≥ 0", format!("{first} for atom 0")));
        }
        if !of.is_sorted()
            && let Some(i) = of.windows(2).position(|pair| pair[0] > pair[1])
        {
            return Err(Error::argument(
                "batch_idx",
                "a sorted array (the atoms of one system, then those of the next)",
                format!("{} for atom {i}, then {} for atom {}", of[i], of[i + 1], i + 1),
            ));
        }
        let last = of.last().map_or(-1, |&last| i64::from(last));
        // More systems than atoms are stray indices, unless the caller says how many there are.
        let systems = systems.unwrap_or(((last + 1) as usize).min(of.len()));
        if last >= fits("batch_idx", systems)?.into() {
            let expected = format!("indices below the number of systems, {systems}");
            return Err(Error::argument("batch_idx", expected, last.to_string()));
        }
        let mut ptr = vec![0; systems + 1];
        for some in of.chunks(SIDE_BY_SIDE) {
            if some[0] == some[some.len() - 1] {
                ptr[some[0] as usize + 1] += some.len() as i32;
            } else {
                some.iter().for_each(|&system| ptr[system as usize + 1] += 1);
            }
        }
        for b in 0..systems {
            ptr[b + 1] += ptr[b];
        }
        Ok(Self { of, ptr: Cow::Owned(ptr) })
    }

    /// From where each system begins: `batch_ptr`, shape (B+1,), from 0 to the number of atoms.
    ///
    /// # Errors
    /// `batch_ptr`, where it is empty, does not start at 0, or falls.
    pub fn from_ptr(batch_ptr: impl Into<Cow<'a, [i32]>>) -> Result<Self> {
        let ptr = batch_ptr.into();
        if ptr.first() != Some(&0) {
            let got = ptr.first().map_or("an empty array".into(), |first| format!("{first} first"));
            return Err(Error::argument("batch_ptr", "B + 1 offsets, the first of them 0", got));
        }
        if let Some(b) = ptr.windows(2).position(|pair| pair[0] > pair[1]) {
            let got = format!("{} and then {} for system {b}", ptr[b], ptr[b + 1]);
            return Err(Error::argument("batch_ptr", "offsets that never fall", got));
        }
        fits("batch_ptr", ptr.len())?;
        let mut of = Vec::with_capacity(ptr[ptr.len() - 1] as usize);
        for (b, pair) in ptr.windows(2).enumerate() {
            of.resize(pair[1] as usize, b as i32);
        }
        Ok(Self { of: Cow::Owned(of), ptr })
    }

    /// The atom of each place, from an order within systems: the place of each of their atoms, counted from its first.
    ///
    /// # Errors
    /// The argument `name`, where it is no permutation of each system's atoms.
    pub fn rows_in_order(&self, name: &str, order: &[i32]) -> Result<Vec<i32>> {
        if order.len() != self.atoms() {
            let expected = format!("{} integers, as there are rows", self.atoms());
            return Err(Error::argument(name, expected, order.len().to_string()));
        }
        let (mut rows, mut is_taken) = (collected(order.iter().copied()), filled(order.len(), false));
        for b in 0..self.systems() {
            let members = self.members(b);
            for place in members.clone() {
                let row = usize::try_from(rows[place]).ok().filter(|row| *row < members.len());
                let Some(row) = row.map(|row| members.start + row).filter(|row| !is_taken[*row]) else {
                    let expected = format!("every number from 0 to below {} once", members.len());
                    let got = format!("{} again, or out of range", rows[place]);
                    return Err(Error::argument(name, expected, got));
                };
                (rows[place], is_taken[row]) = (row as i32, true);
            }
        }
        Ok(rows)
    }

    /// Number of systems B.
    pub fn systems(&self) -> usize {
        self.ptr.len() - 1
    }

    /// Number of atoms N, of all systems together.
    pub fn atoms(&self) -> usize {
        self.of.len()
    }

    /// The atoms of system `b`.
    pub fn members(&self, b: usize) -> Range<usize> {
        self.ptr[b] as usize..self.ptr[b + 1] as usize
    }

    /// The system of atom `i`.
    pub fn of(&self, i: usize) -> usize {
        self.of[i] as usize
    }

    /// The system of each atom, shape (N,).
    pub fn idx(&self) -> &[i32] {
        &self.of
    }

    /// The first atom of each system, and the number of atoms, shape (B+1,).
    pub fn ptr(&self) -> &[i32] {
        &self.ptr
    }

    /// The batch with arrays of its own.
    pub fn into_owned(self) -> Batch<'static> {
        Batch { of: Cow::Owned(self.of.into_owned()), ptr: Cow::Owned(self.ptr.into_owned()) }
    }
}

impl Sealed for Batch<'_> {}

impl Structure for Batch<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Batch
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [Some(self.atoms()), Some(self.systems()), None]
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok(match array {
            SlotArray::SystemOf => Some(self.idx().into()),
            SlotArray::Members => Some(self.ptr().into()),
            _ => None,
        })
    }

    fn as_batch(&self) -> Option<&Batch<'_>> {
        Some(self)
    }
}

/// Batch in the memory of a device.
#[derive(Debug)]
pub struct DeviceBatch<'a> {
    of: Integers<'a>,
    ptr: Integers<'a>,
    state: State,
}

/// Knowledge of a batch's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Given,
    /// Each call writes where systems begin, and checks the rest.
    Derived,
    Checked,
}

impl<'a> DeviceBatch<'a> {
    /// From the system of each atom, `batch_idx` (N,), and where each system begins, `batch_ptr` (B + 1,); int32.
    ///
    /// # Errors
    /// The array whose dtype, shape or place is another.
    pub fn new(batch_idx: impl Into<Integers<'a>>, batch_ptr: impl Into<Integers<'a>>) -> Result<Self> {
        let (of, ptr) = (batch_idx.into(), batch_ptr.into());
        let (n, count) = (of.view().len(), ptr.view().len());
        of.check("batch_idx", DType::I32, &[n])?;
        ptr.check("batch_ptr", DType::I32, &[count.max(1)])?;
        ptr.check_place("batch_ptr", of.view().place())?;
        addressable("batch_idx", n)?;
        addressable("batch_ptr", count)?;
        Ok(Self { of, ptr, state: State::Given })
    }

    /// From the system of each atom, `batch_idx` (N,), and memory for where each system begins, `batch_ptr` (B + 1,),
    /// which each call with the batch writes; int32.
    ///
    /// # Errors
    /// As [`DeviceBatch::new`].
    pub fn derived(batch_idx: impl Into<Integers<'a>>, batch_ptr: impl Into<Integers<'a>>) -> Result<Self> {
        Ok(Self { state: State::Derived, ..Self::new(batch_idx, batch_ptr)? })
    }

    /// The batch without its checks.
    ///
    /// # Safety
    /// `batch_ptr` rises from 0 to N, and `batch_idx` says the same.
    #[must_use]
    #[expect(unsafe_code, reason = "kernels index by integers that are not checked")]
    pub unsafe fn assume_checked(self) -> Self {
        Self { state: State::Checked, ..self }
    }

    /// Number of atoms N, of all systems together.
    pub fn atoms(&self) -> usize {
        self.of.view().len()
    }

    /// Number of systems B.
    pub fn systems(&self) -> usize {
        self.ptr.view().len() - 1
    }

    /// The system of each atom, (N,).
    pub fn idx(&self) -> View<'_> {
        self.of.view()
    }

    /// The first atom of each system, and the number of atoms, (B + 1,).
    pub fn ptr(&self) -> View<'_> {
        self.ptr.view()
    }

    /// Conditions that a call checks.
    pub fn checks(&self) -> Vec<Check<'_>> {
        let derived = self.state == State::Derived;
        match self.state {
            State::Checked => vec![],
            _ => vec![Check::Batch { idx: self.idx(), ptr: self.ptr(), derived }],
        }
    }
}

impl Sealed for DeviceBatch<'_> {}

impl Structure for DeviceBatch<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Batch
    }

    fn as_device_batch(&self) -> Option<&DeviceBatch<'_>> {
        Some(self)
    }

    fn place(&self) -> Option<Place> {
        Some(self.ptr.view().place())
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [Some(self.atoms()), Some(self.systems()), None]
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        Ok(match array {
            SlotArray::SystemOf => Some(self.idx()),
            SlotArray::Members => Some(self.ptr()),
            _ => None,
        })
    }

    fn check<'s>(&'s self, _batches: &[[&'s dyn Structure; 2]]) -> Result<Vec<Check<'s>>> {
        Ok(self.checks())
    }

    fn into_arrays(self: Box<Self>) -> Vec<Array> {
        [self.of, self.ptr].into_iter().filter_map(Integers::into_array).collect()
    }
}

/// `count` as an i32, the type of indices.
fn fits(argument: &str, count: usize) -> Result<i32> {
    i32::try_from(count)
        .map_err(|_| Error::argument(argument, format!("at most {} entries", i32::MAX), count.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree() {
        let idx = Batch::from_idx(vec![1, 1, 3], Some(5)).unwrap();
        assert_eq!(idx.ptr(), [0, 0, 2, 2, 3, 3]);
        assert_eq!(Batch::from_ptr(idx.ptr()).unwrap(), idx);
        assert_eq!((idx.systems(), idx.atoms(), idx.members(1), idx.of(2)), (5, 3, 0..2, 3));
        assert_eq!(Batch::from_idx(&[0, 0, 0][..], None).unwrap(), Batch::single(3).unwrap());
    }

    #[test]
    fn nothing_is_a_batch_too() {
        assert_eq!(Batch::from_idx(&[][..], None).unwrap().systems(), 0);
        assert_eq!(Batch::from_idx(&[][..], Some(2)).unwrap().members(1), 0..0);
        assert_eq!(Batch::single(0).unwrap().systems(), 1);
        assert_eq!(Batch::from_ptr(&[0][..]).unwrap().systems(), 0);
    }

    #[test]
    fn what_is_not_a_batch_is_refused() {
        for idx in [&[0, 1, 0][..], &[-1, 0], &[0, 3]] {
            let error = Batch::from_idx(idx, Some(3)).unwrap_err().to_string();
            assert!(error.starts_with("`batch_idx`"), "{error}");
        }
        for ptr in [&[][..], &[1, 2], &[0, 3, 2], &[0, -1]] {
            let error = Batch::from_ptr(ptr).unwrap_err().to_string();
            assert!(error.starts_with("`batch_ptr`"), "{error}");
        }
    }
}
