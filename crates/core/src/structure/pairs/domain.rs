//! Lists of one domain of a system that several processes share.

use super::order::SpatialOrder;
use super::{Clusters, Entries, Kind, Neighbors, Offsets, PairList, Shifts};
use crate::array::View;
use crate::backend::pool::Pool;
use crate::runtime::lanes::vectorized;
use crate::structure::Batch;
use crate::{Error, Result};
use std::borrow::Cow;

impl<'a> PairList<'a> {
    /// The list of one domain: rows of its own atoms, from `neighbor_ptr` (own + 1,), with `others` (P,) among these and the
    /// ghosts behind them, atoms of other domains and images, `atoms` in all. Entries have no shift, and rows of ghosts are
    /// empty.
    ///
    /// A full list has whole rows: each pair of own atoms from both sides, which is the caller's promise, and each of an own
    /// atom and a ghost from the own atom's. So a sum over pairs that look alike from both sides has energies of own atoms,
    /// and their whole forces, and nothing of ghosts: what domains have adds up to the whole system. What reads sums of
    /// another row, as many-body potentials do, or weighs rows one by one, needs what ghosts have in their own domains.
    ///
    /// A half list has each pair once, in one of the domains whose own atoms are in it. What ghosts then get belongs to the
    /// atoms that they stand for.
    ///
    /// # Errors
    /// As [`PairList::from_csr`]; `neighbor_ptr` too where it has more rows than there are atoms.
    pub fn of_domain(
        neighbor_ptr: impl Into<Cow<'a, [i64]>>,
        others: impl Into<Cow<'a, [i32]>>,
        atoms: usize,
        kind: Kind,
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
        let mut list = Self::assemble(Offsets::from(ptr).0, others.into(), none, atoms, kind)?;
        vectorized(Entries(&list))?;
        list.own = Some(own);
        Ok(list)
    }
}

impl Neighbors<'static> {
    /// A half list of a domain as sums take it fastest, for `positions` (N, 3) of its atoms and ghosts.
    ///
    /// # Errors
    /// As [`SpatialOrder::new`] and [`Clusters::from_list`].
    pub fn of_domain(list: &PairList<'_>, positions: &View<'_>, pool: &dyn Pool) -> Result<Self> {
        let order = SpatialOrder::new(positions, &[], &Batch::single(list.rows())?)?;
        Ok(Self::Clusters(Box::new(Clusters::from_list(list, &order, false, pool)?)))
    }
}
