//! Pair lists in either form.

use super::{Clusters, Kind, PairList};
use crate::array::View;
use crate::backend::Check;
use crate::backend::pool::Pool;
use crate::runtime::{SlotArray, StructureKind};
use crate::structure::Structure;
use crate::structure::sealed::Sealed;
use crate::{Error, Result};

/// Result of a search: a list in rows, or in clusters of atoms that are neighbours in space, whichever is faster to use.
#[derive(Debug)]
pub enum Neighbors<'a> {
    /// Rows.
    Rows(PairList<'a>),
    /// Clusters.
    Clusters(Box<Clusters<'a>>),
}

impl Neighbors<'_> {
    pub(super) fn form(&self) -> &dyn Structure {
        match self {
            Self::Rows(list) => list,
            Self::Clusters(list) => &**list,
        }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.form().sizes()[2].unwrap_or(0)
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The list without the pairs (i, j, S) of another one over the same atoms, which has each from both sides.
    ///
    /// # Errors
    /// `exclusions`, where they are of another number of atoms.
    pub fn without(&self, left_out: &PairList<'_>) -> Result<Neighbors<'static>> {
        let (atoms, theirs) = (self.form().sizes()[0].unwrap_or(0), left_out.rows());
        if atoms != theirs {
            return Err(Error::argument("exclusions", format!("those of {atoms} atoms"), theirs.to_string()));
        }
        Ok(match self {
            Self::Rows(list) => Neighbors::Rows(list.without(left_out)?),
            Self::Clusters(list) => Neighbors::Clusters(Box::new(list.without(left_out))),
        })
    }

    /// The list in rows, ordered by i, then j, then S; made from clusters when it is first asked for.
    pub fn rows(&self, pool: &dyn Pool) -> PairList<'_> {
        match self {
            Self::Rows(list) => list.borrowed(),
            Self::Clusters(list) => list.rows_with(pool).borrowed(),
        }
    }
}

impl Sealed for Neighbors<'_> {}

impl Structure for Neighbors<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Pairs
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        self.form().sizes()
    }

    fn moved(&self, n: &[[i32; 3]]) -> Option<Box<dyn Structure + '_>> {
        self.form().moved(n)
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        self.form().array(array)
    }

    fn check<'s>(&'s self, batches: &[[&'s dyn Structure; 2]]) -> Result<Vec<Check<'s>>> {
        self.form().check(batches)
    }

    fn list_kind(&self) -> Option<Kind> {
        self.form().list_kind()
    }

    fn own_rows(&self) -> Option<usize> {
        self.form().own_rows()
    }

    fn as_pairs(&self) -> Option<&PairList<'_>> {
        self.form().as_pairs()
    }

    fn as_clusters(&self) -> Option<&Clusters<'_>> {
        self.form().as_clusters()
    }
}
