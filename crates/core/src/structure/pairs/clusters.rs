//! Full pair lists as clusters of atoms that are neighbours in space, in three arrays of integers.
//!
//! Atoms lie in *slots*, system by system, in an order in space; the last atom of a system is repeated up to the end of
//! its last cluster of [`WIDTH`] slots. A *run* is an atom against the clusters that hold neighbours of it at one image, its
//! *entries*: a cluster and the mask of the lanes that are neighbours. Of the two pairs (i, j, S) and (j, i, −S) one is
//! there: that of the earlier slot, and for an atom and its own image that of the positive S. So the list is full by
//! construction, and exactly its pairs count in any order of the atoms, which decides how full the clusters are.
//!
//! Runs are cut into *pieces*, each of one system, in which slots and clusters are numbered by themselves. Where a system
//! is cut depends on the system alone.
//!
//! | array | shape | elements |
//! |---|---|---|
//! | `frame` | (F,) | the header: version, status (0 or [`OVERFLOW`]), N, systems B, slots A, pieces Q, clusters of all pieces C, runs R, entries E, directed pairs (low and high word); behind it the sections of [`Section`] |
//! | `runs` | (≥ R, 3) | slot within the piece, image of the wrapped atoms (packed), end of the run's entries |
//! | `entries` | (≥ E, 2) | cluster within the piece, mask of its lanes |

mod convert;
mod frame;
mod renewed;
mod rows;
mod without;

use super::order::SpatialOrder;
use super::{Kind, PairList};
use crate::array::{Buffer, Numbers, Plain, View, collected};
use crate::backend::Check;
use crate::backend::pool::{Pool, Serial, Threads, map_tasks, split_tasks};
use crate::runtime::lanes::packed::{fits, pack, unpack};
use crate::runtime::{SlotArray, StructureKind};
use crate::structure::sealed::Sealed;
use crate::structure::{Batch, Structure};
use crate::{Error, Result};
use frame::{Frame, few};
use std::ops::Range;
use std::sync::OnceLock;

/// Atoms of a cluster. Narrower registers take each in parts.
pub const WIDTH: usize = 16;
/// Entries of a piece, about: few enough for threads to share the work evenly, many enough for the clusters at its rim not
/// to count.
const PIECE: usize = 40_000;
/// Version of the layout.
const VERSION: i32 = 1;
/// Length of the header.
pub const HEADER: usize = 11;
/// Atoms, and pairs for each atom, from which a system is faster in clusters.
const WORTH: [f64; 2] = [512.0, 100.0];

/// Whether a system of so many atoms with so many neighbours each is faster in clusters than in rows.
pub fn is_worth(atoms: usize, neighbors: f64) -> bool {
    atoms as f64 >= WORTH[0] && neighbors >= WORTH[1]
}

/// Sections of the frame, in order.
#[derive(Clone, Copy, Debug)]
enum Section {
    /// First atom of each system, and the number of atoms: (B + 1,).
    Systems,
    /// One for each system whose pairs are evaluated in clusters, zero for those in rows: (B,).
    InClusters,
    /// Atom of each slot: (A,).
    Order,
    /// Lattice vectors by which each atom lay outside of its cell, packed: (N,).
    Wraps,
    /// System, first run and first member of each piece, and the ends: (Q + 1, 3).
    Pieces,
    /// Clusters of each piece, in the order of its numbers: (C,).
    Members,
}

/// Status of arrays that are too small for their list.
pub const OVERFLOW: i32 = 1;
/// First integer of a list, in rows or in clusters, that is no longer one of its atoms.
pub const STALE: i32 = -2;

/// Full pair list in clusters.
#[derive(Debug)]
pub struct Clusters<'a> {
    frame: Numbers<'a, i32>,
    runs: Numbers<'a, [i32; 3]>,
    entries: Numbers<'a, [i32; 2]>,
    /// Ranges of the sections in the frame.
    sections: [Range<usize>; 6],
    pairs: usize,
    /// For the list of a domain its own atoms: they are the first ones.
    own: Option<usize>,
    /// Rows of all systems, and of those that are evaluated in rows; made when they are first asked for.
    rows: [OnceLock<PairList<'static>>; 2],
}

/// Runs and entries that a search found one after the other, with slots and clusters numbered in the whole list.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Slot, image, end of the run's entries in this part.
    pub runs: Buffer<[i32; 3]>,
    /// Cluster, lanes.
    pub entries: Buffer<[i32; 2]>,
}

/// Piece of a list.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'c> {
    /// The system.
    pub system: usize,
    /// Clusters of the piece, in the order of its numbers.
    pub members: &'c [i32],
    /// Runs.
    pub runs: &'c [[i32; 3]],
    /// Entries of all runs.
    pub entries: &'c [[i32; 2]],
    /// Entries of the list ahead of these.
    pub first_entry: usize,
}

impl<'a> Clusters<'a> {
    /// From the three arrays; every index in them is checked.
    ///
    /// # Errors
    /// `neighbors`, where the arrays are no list in clusters, are too small for their list, or were found to be stale.
    pub fn new(
        frame: impl Into<Numbers<'a, i32>>,
        runs: impl Into<Numbers<'a, [i32; 3]>>,
        entries: impl Into<Numbers<'a, [i32; 2]>>,
    ) -> Result<Self> {
        let (frame, runs, entries) = (frame.into(), runs.into(), entries.into());
        let (sections, count) = sections(&frame)?;
        if frame[1] != 0 {
            return Err(overflow(&frame));
        }
        if runs.len() < count[3] || entries.len() < count[4] {
            let expected = format!("{} runs and {} entries, as its frame says", count[3], count[4]);
            return Err(no_list(&expected, format!("{} and {}", runs.len(), entries.len())));
        }
        let list =
            Self { frame, runs, entries, sections, pairs: count[5], own: None, rows: Default::default() };
        list.check_frame()?;
        list.check_pieces()?;
        Ok(list)
    }

    /// From the parts that a search found, in the order of their slots; `in_clusters` says which systems are to be evaluated
    /// in clusters.
    pub fn assemble(
        order: &SpatialOrder,
        in_clusters: &[bool],
        parts: Vec<Part>,
        pool: &dyn Pool,
    ) -> Result<Clusters<'static>> {
        let slots = order.slots();
        let clusters = slots.len() / WIDTH;
        let entry_ends = ends(parts.iter().map(|part| part.entries.len()));
        few(entry_ends.last().copied().unwrap_or(0))?;
        let runs: Vec<&[[i32; 3]]> = parts.iter().map(|part| &part.runs[..]).collect();
        let mut runs = joined(&runs, pool, |t, run| {
            let before = if t == 0 { 0 } else { entry_ends[t - 1] };
            [run[0], run[1], run[2] + before as i32]
        });
        let entries: Vec<&[[i32; 2]]> = parts.iter().map(|part| &part.entries[..]).collect();
        let mut entries = joined(&entries, pool, |_, entry| *entry);
        let cuts = cut(order, &runs);
        let mut rest = (&mut runs[..], &mut entries[..]);
        let mut pieces = Vec::with_capacity(cuts.len());
        let mut from = 0;
        for (_, range) in &cuts {
            let (runs, other_runs) = rest.0.split_at_mut(range.len());
            let to = runs[runs.len() - 1][2] as usize;
            let (entries, other_entries) = rest.1.split_at_mut(to - from);
            (rest, from) = ((other_runs, other_entries), to);
            pieces.push(Numbered { runs, entries, members: vec![], pairs: 0 });
        }
        let each: Vec<usize> = (1..=pieces.len()).collect();
        split_tasks(pool, &mut pieces, &each, |_, piece| {
            piece.iter_mut().for_each(|piece| piece.number(clusters));
        });
        let pairs = pieces.iter().map(|piece| piece.pairs).sum();
        let mut frame = Frame {
            ptr: order.ptr().to_vec(),
            in_clusters: in_clusters.to_vec(),
            slots,
            wraps: collected(order.wraps().iter().map(|wrap| pack(*wrap))),
            ..Frame::default()
        };
        for ((system, range), piece) in cuts.iter().zip(&pieces) {
            frame.piece(*system, range.len(), &piece.members, 0)?;
        }
        frame.list(runs, entries, pairs)
    }

    fn section(&self, section: Section) -> &[i32] {
        &self.frame[self.sections[section as usize].clone()]
    }

    /// First atom of each system, and the number of atoms, shape (B + 1,).
    pub fn ptr(&self) -> &[i32] {
        self.section(Section::Systems)
    }

    /// Whether each system is evaluated in clusters.
    pub fn in_clusters(&self) -> impl Iterator<Item = bool> + '_ {
        self.section(Section::InClusters).iter().map(|is| *is != 0)
    }

    /// Atom of each slot, system by system; the last one of a system is repeated up to the end of its last cluster.
    pub fn slots(&self) -> &[i32] {
        self.section(Section::Order)
    }

    /// Lattice vectors by which an atom lay outside of its cell.
    pub fn wrap(&self, atom: usize) -> [i32; 3] {
        unpack(self.section(Section::Wraps)[atom])
    }

    /// Number of atoms.
    pub fn atoms(&self) -> usize {
        self.section(Section::Wraps).len()
    }

    /// Number of directed pairs.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.section(Section::Pieces).len() / 3 - 1
    }

    /// Piece number `p`.
    pub fn piece(&self, p: usize) -> Piece<'_> {
        let at = self.section(Section::Pieces);
        let [system, run, member, _, last_run, last_member] = std::array::from_fn(|k| at[3 * p + k] as usize);
        let first_entry = if run == 0 { 0 } else { self.runs[run - 1][2] as usize };
        let runs = &self.runs[run..last_run];
        let last_entry = runs.last().map_or(first_entry, |run| run[2] as usize);
        Piece {
            system,
            members: &self.section(Section::Members)[member..last_member],
            runs,
            entries: &self.entries[first_entry..last_entry],
            first_entry,
        }
    }

    /// The three arrays: `frame`, `runs`, `entries`.
    pub fn arrays(&self) -> (&[i32], &[[i32; 3]], &[[i32; 2]]) {
        (&self.frame, &self.runs, &self.entries)
    }

    /// Header of the frame of arrays that are too small for the list.
    pub fn overflow(&self) -> [i32; HEADER] {
        let mut header: [i32; HEADER] = std::array::from_fn(|n| self.frame[n]);
        header[1] = OVERFLOW;
        header
    }

    /// Systems, slots and members name what there is.
    fn check_frame(&self) -> Result<()> {
        let (ptr, atoms, slots) = (self.ptr(), self.atoms(), self.slots());
        if ptr[0] != 0 || ptr[ptr.len() - 1] as usize != atoms || ptr.windows(2).any(|w| w[0] > w[1]) {
            return Err(no_list("systems from atom 0 to the last", "other offsets"));
        }
        let mut seen = vec![false; atoms];
        let mut rest = slots;
        for w in ptr.windows(2) {
            let members = (w[1] - w[0]) as usize;
            let Some((of_system, behind)) = rest.split_at_checked(members.next_multiple_of(WIDTH)) else {
                return Err(no_list("whole clusters of slots for each system", "fewer slots"));
            };
            rest = behind;
            for (n, atom) in of_system.iter().enumerate() {
                let filling = n >= members && *atom == of_system[members - 1];
                let new = n < members
                    && (w[0]..w[1]).contains(atom)
                    && !std::mem::replace(&mut seen[*atom as usize], true);
                if !(filling || new) {
                    let got = format!("atom {atom} in slot {n}");
                    return Err(no_list("each atom of a system in one slot of it", got));
                }
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(no_list("as many slots as systems fill", slots.len())) }
    }

    /// Pieces lie behind each other, and their runs and entries stay inside.
    fn check_pieces(&self) -> Result<()> {
        let systems = self.ptr().len() - 1;
        let pieces = self.section(Section::Pieces).as_chunks::<3>().0;
        let ([_, 0, 0], Some([_, runs, members])) = (pieces[0], pieces.last()) else {
            return Err(no_list("pieces from run 0", "others"));
        };
        let fits = *runs as usize == self.runs_in_use() && *members as usize == self.sections[5].len();
        let rises = |w: &[[i32; 3]]| w[0][1] <= w[1][1] && w[0][2] <= w[1][2] && (w[0][0] as usize) < systems;
        if !fits || !pieces.windows(2).all(rises) {
            return Err(no_list("pieces that follow each other", "others"));
        }
        // The valid lanes, and the system, of each cluster.
        let mut clusters = vec![];
        for (b, w) in self.ptr().windows(2).enumerate() {
            let members = (w[1] - w[0]) as usize;
            for n in (0..members).step_by(WIDTH) {
                clusters.push((b, if members - n < WIDTH { !(!0u32 << (members - n)) } else { 0xffff }));
            }
        }
        let mut ends = self.runs[..self.runs_in_use()].iter().map(|run| run[2]);
        let mut last = 0;
        if !ends.all(|end| std::mem::replace(&mut last, end) <= end) || last as usize != self.entries_in_use()
        {
            return Err(no_list("runs whose entries follow each other", "others"));
        }
        let pool: &dyn Pool = if pieces.len() > 2 { Threads::shared() } else { &Serial };
        let pairs: Result<Vec<usize>> =
            map_tasks(pool, pieces.len() - 1, |p| self.check_piece(p, &clusters)).into_iter().collect();
        let pairs = 2 * pairs?.iter().sum::<usize>();
        if pairs == self.pairs {
            return Ok(());
        }
        Err(no_list(&format!("{} pairs, as its frame says", self.pairs), pairs))
    }

    /// Runs and entries of a piece name valid lanes of its clusters; `clusters` has the system and the valid lanes of each.
    /// Returns the number of pairs, from one side.
    fn check_piece(&self, p: usize, clusters: &[(usize, u32)]) -> Result<usize> {
        let piece = self.piece(p);
        // Behind the members a cluster without valid lanes stands for all that are not there.
        let mut valid = Vec::with_capacity(piece.members.len() + 1);
        for member in piece.members {
            match clusters.get(*member as u32 as usize) {
                Some((system, lanes)) if *system == piece.system => valid.push(*lanes),
                _ => return Err(no_list("clusters of the piece's system", member)),
            }
        }
        let none = valid.len() as u32;
        valid.push(0);
        let mut from = 0;
        for &[slot, image, end] in piece.runs {
            let (own, lane) = (slot as u32 / WIDTH as u32, slot as u32 % WIDTH as u32);
            if valid[own.min(none) as usize] >> lane & 1 == 0 {
                return Err(no_list("runs of atoms of the piece", format!("slot {slot}")));
            }
            // Behind the atom itself, and of its own images one of each two.
            let behind = !1u32 << lane | u32::from(image > 0) << lane;
            let end = end as usize - piece.first_entry;
            let bad = piece.entries[from..end].iter().fold(0, |bad, &[cluster, mask]| {
                let (cluster, mask) = (cluster as u32, mask as u32);
                let lanes = valid[cluster.min(none) as usize];
                let lanes = if cluster == own { lanes & behind } else { lanes };
                bad | mask & !lanes | u32::from(cluster >= none)
            });
            if bad != 0 {
                let expected = "neighbours behind each atom in the clusters of its piece";
                return Err(no_list(expected, format!("others for slot {slot}")));
            }
            from = end;
        }
        // Masks of sixteen lanes, as was seen above: four of them in a word.
        let (fours, rest) = piece.entries.as_chunks::<4>();
        let of = |word: u64, entry: &[i32; 2]| word << WIDTH | u64::from(entry[1] as u16);
        let count = |entries: &[[i32; 2]]| entries.iter().fold(0, of).count_ones() as usize;
        Ok(fours.iter().map(|four| count(four)).sum::<usize>() + count(rest))
    }

    fn runs_in_use(&self) -> usize {
        self.frame[7] as usize
    }

    fn entries_in_use(&self) -> usize {
        self.frame[8] as usize
    }
}

/// The sections of a frame, and its numbers of pieces' clusters, runs, entries and pairs.
fn sections(frame: &[i32]) -> Result<([Range<usize>; 6], [usize; 6])> {
    let Some((head, _)) = frame.split_first_chunk::<HEADER>() else {
        return Err(no_list("a frame", format!("{} integers", frame.len())));
    };
    if head[0] == STALE {
        return Err(stale());
    }
    if head[0] != VERSION {
        return Err(no_list(&format!("a frame of version {VERSION}"), head[0]));
    }
    let number = |n: usize| usize::try_from(head[n]).map_err(|_| no_list("numbers from 0 up", head[n]));
    let [atoms, systems, slots, pieces, members] =
        [number(2)?, number(3)?, number(4)?, number(5)?, number(6)?];
    let mut from = HEADER;
    let ranges = [systems + 1, systems, slots, atoms, 3 * (pieces + 1), members].map(|len| {
        from += len;
        from - len..from
    });
    if frame.len() < from && head[1] != OVERFLOW {
        return Err(no_list(&format!("a frame of {from} integers"), frame.len()));
    }
    let pairs = head[9] as u32 as usize | (head[10] as u32 as usize) << 32;
    Ok((ranges, [slots, pieces, members, number(7)?, number(8)?, pairs]))
}

fn no_list(expected: &str, got: impl ToString) -> Error {
    Error::argument("neighbors", format!("a list in clusters: {expected}"), got.to_string())
}

/// The error of a list that is marked as out of date.
pub(crate) fn stale() -> Error {
    Error::argument("neighbors", "a list that was made in this cell", "one of another cell, or out of date")
}

/// The error of arrays that were too small for their list.
fn overflow(frame: &[i32]) -> Error {
    let expected = format!("room for {} runs and {} entries", frame[7], frame[8]);
    Error::argument("neighbors", expected, "a list that had less room")
}

/// Cuts the runs of each system at equal numbers of entries.
fn cut(order: &SpatialOrder, runs: &[[i32; 3]]) -> Vec<(usize, Range<usize>)> {
    let end_of = |run: usize| if run == 0 { 0 } else { runs[run - 1][2] as usize };
    let (mut cuts, mut from, mut last_slot) = (vec![], 0, 0);
    for (system, w) in order.ptr().windows(2).enumerate() {
        last_slot += ((w[1] - w[0]) as usize).next_multiple_of(WIDTH) as i32;
        let to = from + runs[from..].partition_point(|run| run[0] < last_slot);
        let (first, last) = (end_of(from), end_of(to));
        let pieces = (last - first).div_ceil(PIECE);
        let mut begin = from;
        for p in 1..=pieces {
            let until = first + (last - first) * p / pieces;
            let end = begin + runs[begin..to].partition_point(|run| run[2] as usize <= until);
            if end > begin {
                cuts.push((system, begin..end));
            }
            begin = end;
        }
        from = to;
    }
    cuts
}

/// Running sums: the end of each of several parts that follow each other.
fn ends(lens: impl Iterator<Item = usize>) -> Vec<usize> {
    lens.scan(0, |end, len| {
        *end += len;
        Some(*end)
    })
    .collect()
}

/// Elements of several parts behind each other, each as `of` gives it for the number of its part.
pub(super) fn joined<T: Plain + Sync>(
    parts: &[&[T]],
    pool: &dyn Pool,
    of: impl Fn(usize, &T) -> T + Sync,
) -> Buffer<T> {
    let ends = ends(parts.iter().map(|part| part.len()));
    let (mut all, _) = Buffer::room(ends.last().copied().unwrap_or(0));
    split_tasks(pool, &mut all, &ends, |t, into| {
        into.iter_mut().zip(parts[t]).for_each(|(into, x)| *into = of(t, x));
    });
    all
}

/// Piece whose slots and clusters get numbers of its own.
struct Numbered<'a> {
    runs: &'a mut [[i32; 3]],
    entries: &'a mut [[i32; 2]],
    members: Vec<i32>,
    pairs: usize,
}

impl Numbered<'_> {
    /// Numbers clusters in the order in which they come; there are so many in the list.
    fn number(&mut self, clusters: usize) {
        let mut here = vec![i32::MAX; clusters];
        let members = &mut self.members;
        let mut place = |cluster: i32| {
            let at = &mut here[cluster as usize];
            if *at == i32::MAX {
                *at = members.len() as i32;
                members.push(cluster);
            }
            *at
        };
        let wide = WIDTH as i32;
        self.runs.iter_mut().for_each(|run| run[0] = place(run[0] / wide) * wide + run[0] % wide);
        self.entries.iter_mut().for_each(|entry| entry[0] = place(entry[0]));
        self.pairs = 2 * self.entries.iter().map(|entry| entry[1].count_ones() as usize).sum::<usize>();
    }
}

impl Sealed for Clusters<'_> {}

impl Structure for Clusters<'_> {
    fn kind(&self) -> StructureKind {
        StructureKind::Pairs
    }

    fn sizes(&self) -> [Option<usize>; 3] {
        [self.atoms(), self.atoms(), self.pairs].map(Some)
    }

    fn moved(&self, n: &[[i32; 3]]) -> Option<Box<dyn Structure + '_>> {
        let wraps = (0..self.atoms()).zip(n).map(|(i, n)| {
            let wrap = self.wrap(i);
            Some(std::array::from_fn(|k| wrap[k] - n[k]))
                .filter(|wrap: &[i32; 3]| fits(wrap.map(i32::abs)))
                .map(pack)
        });
        let Some(wraps) = wraps.collect::<Option<Vec<i32>>>() else { return self.rows().moved(n) };
        let mut frame = Buffer::from(&*self.frame);
        frame[self.sections[Section::Wraps as usize].clone()].copy_from_slice(&wraps);
        Some(Box::new(Clusters {
            frame: frame.into(),
            runs: self.runs.borrowed(),
            entries: self.entries.borrowed(),
            sections: self.sections.clone(),
            pairs: self.pairs,
            own: self.own,
            rows: Default::default(),
        }))
    }

    fn array(&self, array: SlotArray) -> Result<Option<View<'_>>> {
        self.rows().array(array)
    }

    fn check<'s>(&'s self, batches: &[[&'s dyn Structure; 2]]) -> Result<Vec<Check<'s>>> {
        let of = |batch: &&'s dyn Structure| batch.as_batch().map(Batch::ptr);
        match batches.iter().flatten().filter_map(of).find(|ptr| *ptr != self.ptr()) {
            None => Ok(vec![]),
            Some(ptr) => {
                let sizes = |ptr: &[i32]| {
                    let sizes: Vec<_> = ptr.windows(2).map(|w| w[1] - w[0]).collect();
                    let few = format!("{:?}", &sizes[..sizes.len().min(4)]);
                    format!(
                        "{} systems of {few}{} atoms",
                        sizes.len(),
                        if sizes.len() > 4 { ", …" } else { "" }
                    )
                };
                Err(Error::argument("neighbors", format!("a list of {}", sizes(ptr)), sizes(self.ptr())))
            }
        }
    }

    fn list_kind(&self) -> Option<Kind> {
        Some(Kind::Full)
    }

    fn own_rows(&self) -> Option<usize> {
        self.own
    }

    fn as_pairs(&self) -> Option<&PairList<'_>> {
        Some(self.rows())
    }

    fn as_clusters(&self) -> Option<&Clusters<'_>> {
        Some(self)
    }
}
