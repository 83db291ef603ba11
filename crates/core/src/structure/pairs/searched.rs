//! Pairs that are searched for while kernels run, some rows or columns at a time, and never kept.

use super::super::Structure;
use super::super::sealed::Sealed;
use super::{Kind, PairList};
use crate::Result;
use crate::array::{Buffer, View};
use crate::runtime::{SlotArray, StructureKind};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::OnceLock;

/// Rows, or columns, that are searched at once, counted from the first of their system.
pub const ROWS_AT_ONCE: usize = 16;

/// Pairs of rows, or of columns, that follow each other.
#[derive(Debug, Default)]
pub struct FoundPairs {
    /// Number of pairs up to the end of each row, or column.
    pub ends: Vec<i64>,
    /// Column, or row, of each pair.
    pub others: Buffer<i32>,
    /// Image S of each pair, packed as [`super::Shifts`] packs it.
    pub images: Buffer<i32>,
}

/// Search of the directed pairs between queries (rows) and points (columns). What it finds, and the order of that, depends
/// on their positions alone.
pub trait PairSearch: Debug + Send + Sync {
    /// Numbers of rows and of columns.
    fn sizes(&self) -> [usize; 2];

    /// Searcher of one task, with memory of its own.
    fn begin(&self) -> Box<dyn PairSearcher + '_>;

    /// All pairs.
    ///
    /// # Errors
    /// `radius`, where there are more than can be numbered.
    fn list(&self) -> Result<PairList<'static>>;
}

/// Searcher of one task.
pub trait PairSearcher {
    /// Puts the pairs of rows in the place of those that were found before: at most [`ROWS_AT_ONCE`] rows of one system.
    fn rows(&mut self, rows: Range<usize>, found: &mut FoundPairs);

    /// Adds the pairs of some columns.
    fn columns(&mut self, columns: Range<usize>, found: &mut FoundPairs);
}

/// Pairs that a call searches for while its kernels run. Kernels that need all of them at once get a list.
#[derive(Debug)]
pub struct SearchedPairs {
    search: Box<dyn PairSearch>,
    list: OnceLock<PairList<'static>>,
}

impl SearchedPairs {
    /// From their search.
    pub fn new(search: impl PairSearch + 'static) -> Self {
        Self { search: Box::new(search), list: OnceLock::new() }
    }

    /// All pairs, found once.
    ///
    /// # Errors
    /// As [`PairSearch::list`].
    pub fn list(&self) -> Result<&PairList<'static>> {
        match self.list.get() {
            Some(list) => Ok(list),
            None => {
                let list = self.search.list()?;
                Ok(self.list.get_or_init(|| list))
            }
        }
    }

    /// Search for the pairs of some rows, or columns, at a time.
    pub fn begin(&self, by_columns: bool) -> SearchTask<'_> {
        let [rows, columns] = self.search.sizes();
        let others = if by_columns { rows } else { columns };
        SearchTask { searcher: self.search.begin(), by_columns, others, found: FoundPairs::default() }
    }
}

/// Search of one task, for the pairs of some rows or columns at a time.
pub struct SearchTask<'s> {
    searcher: Box<dyn PairSearcher + 's>,
    by_columns: bool,
    others: usize,
    found: FoundPairs,
}

impl SearchTask<'_> {
    /// Pairs of rows, or columns: at most [`ROWS_AT_ONCE`] of one system. Their ends rise to the number of pairs, and every
    /// partner is there.
    pub fn find(&mut self, rows: Range<usize>) -> &FoundPairs {
        let (count, found) = (rows.len(), &mut self.found);
        if self.by_columns {
            self.searcher.columns(rows, found);
        } else {
            self.searcher.rows(rows, found);
        }
        let pairs = found.others.len();
        // As unsigned numbers negative indices are too large ones.
        let largest = found.others.iter().fold(0, |largest, j| largest.max(*j as u32));
        let is_whole = found.ends.len() == count
            && found.ends.last().is_none_or(|end| *end as usize == pairs)
            && found.ends.is_sorted()
            && found.ends.first().is_none_or(|end| *end >= 0)
            && found.images.len() == pairs
            && (pairs == 0 || (largest as usize) < self.others);
        assert!(is_whole, "a search finds partners that are there, row after row");
        found
    }
}

impl Sealed for SearchedPairs {}

impl Structure for SearchedPairs {
    fn kind(&self) -> StructureKind {
        StructureKind::Pairs
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        let [rows, columns] = self.search.sizes();
        [Some(rows), Some(columns), None]
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        self.list()?.array(array)
    }

    fn list_kind(&self) -> Option<Kind> {
        Some(Kind::Directed)
    }

    fn as_pairs(&self) -> Option<&PairList<'_>> {
        self.list().ok()
    }

    fn as_searched(&self) -> Option<&SearchedPairs> {
        Some(self)
    }
}
