//! Lists of one domain of a system that several processes share.

use super::{Entries, Kind, Offsets, PairList, Shifts};
use crate::runtime::lanes::vectorized;
use crate::{Error, Result};
use std::borrow::Cow;

impl<'a> PairList<'a> {
    /// The full list of one domain: rows of its own atoms, from `neighbor_ptr` (own + 1,), with `others` (P,) among these and
    /// the ghosts behind them, atoms of other domains and images, `atoms` in all. Entries have no shift.
    ///
    /// Rows of ghosts are with the domains that own the atoms, and empty here. So a sum over pairs that look alike from both
    /// sides has energies of own atoms, and their whole forces, and nothing of ghosts: what domains have adds up to the
    /// whole system. That each pair of own atoms is there from both sides is the caller's promise. What reads sums of another
    /// row, as many-body potentials do, or weighs rows one by one, needs what ghosts have in their own domains.
    ///
    /// # Errors
    /// As [`PairList::from_csr`]; `neighbor_ptr` too where it has more rows than there are atoms.
    pub fn of_domain(
        neighbor_ptr: impl Into<Cow<'a, [i64]>>,
        others: impl Into<Cow<'a, [i32]>>,
        atoms: usize,
    ) -> Result<Self> {
        let (mut ptr, others) = (neighbor_ptr.into().into_owned(), others.into());
        let own = ptr.len().saturating_sub(1);
        if own > atoms {
            let expected = format!("rows of own atoms, at most {atoms}");
            return Err(Error::argument("neighbor_ptr", expected, own.to_string()));
        }
        ptr.resize(atoms + 1, others.len() as i64);
        // Zeros that are never written take address space, and no memory.
        let none = Shifts::Packed(vec![0; others.len()].into());
        let mut list = Self::assemble(Offsets::from(ptr).0, others.into(), none, atoms, Kind::Full)?;
        vectorized(Entries(&list))?;
        list.own = Some(own);
        Ok(list)
    }
}
