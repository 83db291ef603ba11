//! Full lists of which some systems come from a newer one: a batch whose systems leave their skins one by one.

use super::clusters::joined;
use super::{Kind, Neighbors, PairList, Shifts};
use crate::array::{collected, reserve};
use crate::backend::pool::Pool;
use crate::structure::Batch;
use crate::{Error, Result};
use std::ops::Range;

/// Place of a system's pairs.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Whether in the newer list.
    pub(super) is_found: bool,
    /// The system there.
    pub(super) system: usize,
    /// Its rows there.
    pub(super) rows: Range<usize>,
    /// Added to atoms there.
    pub(super) shift: i32,
}

/// Place of every system's pairs.
#[derive(Clone, Debug)]
pub(super) struct Sources(Vec<Source>);

impl Sources {
    /// Raised systems lie behind each other in the newer list.
    fn new(batch: &Batch<'_>, raised: &[bool]) -> Self {
        let (mut system, mut first) = (0, 0);
        let each = raised.iter().enumerate().map(|(b, &is_found)| {
            let rows = batch.members(b);
            if !is_found {
                return Source { is_found, system: b, rows, shift: 0 };
            }
            let shift = rows.start as i32 - first as i32;
            let source = Source { is_found, system, rows: first..first + rows.len(), shift };
            (system, first) = (system + 1, first + rows.len());
            source
        });
        Self(each.collect())
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    /// The systems of the newer list.
    pub(super) fn raised(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().filter(|(_, source)| source.is_found).map(|(b, _)| b)
    }
}

impl Neighbors<'_> {
    /// The list of `batch` in which the pairs of systems that are `raised` are those of `found`: a list in the same form of these
    /// systems alone, one behind the other.
    ///
    /// # Errors
    /// `neighbors`, where either is of other systems, or their forms differ; `cutoff`, where the list is too long for its form.
    pub fn renewed(
        &self,
        found: &Self,
        raised: &[bool],
        batch: &Batch<'_>,
        pool: &dyn Pool,
    ) -> Result<Neighbors<'static>> {
        let other = |expected: &str| Error::argument("neighbors", expected, "another one");
        let atoms = |list: &Self| list.form().sizes()[0];
        let members = raised.iter().enumerate().filter(|(_, is)| **is).map(|(b, _)| batch.members(b).len());
        let sizes = [batch.atoms(), if raised.len() == batch.systems() { members.sum() } else { usize::MAX }];
        if [atoms(self), atoms(found)] != sizes.map(Some) {
            return Err(other("a list of the systems of the batch, and one of those that are raised"));
        }
        let sources = Sources::new(batch, raised);
        match (self, found) {
            (Self::Rows(former), Self::Rows(found)) => {
                rows([former, found], &sources, pool).map(Neighbors::Rows)
            }
            (Self::Clusters(former), Self::Clusters(found)) => {
                let systems = |list: &[i32], b: usize| list[b + 1] - list[b];
                let fits =
                    former.ptr() == batch.ptr()
                        && found.ptr().len() == sources.raised().count() + 1
                        && sources.each().zip(0..).filter(|(source, _)| source.is_found).all(
                            |(source, b)| systems(found.ptr(), source.system) == systems(batch.ptr(), b),
                        );
                if !fits {
                    return Err(other("a list of the systems of the batch"));
                }
                Ok(Neighbors::Clusters(former.renewed(found, &sources, pool)?.into()))
            }
            _ => Err(other("lists in the same form")),
        }
    }
}

/// Rows of either list.
fn rows(lists: [&PairList<'_>; 2], sources: &Sources, pool: &dyn Pool) -> Result<PairList<'static>> {
    let list = |source: &Source| lists[usize::from(source.is_found)];
    let count = lists[0].rows();
    let mut ptr: Vec<i64> = vec![];
    reserve(&mut ptr, count + 1);
    ptr.push(0);
    let (mut entries, mut shifts) = (vec![], vec![]);
    for source in sources.each() {
        let (list, rows) = (list(source), &source.rows);
        let (begin, last) = (&list.starts()[rows.clone()], list.ends()[rows.clone()].last().copied());
        let first = begin.first().copied().unwrap_or(0);
        let at = ptr[ptr.len() - 1];
        ptr.extend(list.ends()[rows.clone()].iter().map(|end| at + end - first));
        entries.push(first as usize..last.unwrap_or(first) as usize);
        shifts.push(source.shift);
    }
    let each = || sources.each().zip(&entries).map(|(source, range)| (list(source), range.clone()));
    let parts: Vec<&[i32]> = each().map(|(list, range)| &list.others()[range]).collect();
    let others = joined(&parts, pool, |t, j| j + shifts[t]);
    let packed: Option<Vec<&[i32]>> =
        each().map(|(list, range)| list.images().packed().map(|packed| &packed[range])).collect();
    let images = match packed {
        Some(parts) => Shifts::Packed(joined(&parts, pool, |_, image| *image).into()),
        None => {
            let wide = lists.map(PairList::shifts);
            let triples = sources.each().zip(&entries);
            let parts: Vec<&[[i32; 3]]> = collected(
                triples
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|(s, range)| &wide[usize::from(s.is_found)][range.clone()]),
            );
            Shifts::Triples(joined(&parts, pool, |_, image| *image).into())
        }
    };
    PairList::from_search(ptr, others, images, count, Kind::Full)
}
