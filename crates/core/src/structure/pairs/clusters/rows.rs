//! Clusters to rows.

use super::{Clusters, Piece, Section, WIDTH};
use crate::array::{Buffer, Numbers, collected};
use crate::backend::pool::{Pool, Threads, map_tasks, split_tasks};
use crate::structure::pairs::{Kind, PairList, Shifts};
use std::sync::atomic::{AtomicU64, Ordering};

impl Clusters<'_> {
    /// Rows of the list, ordered by i, then j, then S: what a kernel without a cluster form takes.
    pub fn rows(&self) -> &PairList<'static> {
        self.rows_with(Threads::shared())
    }

    /// [`Clusters::rows`], made by a pool.
    pub fn rows_with(&self, pool: &dyn Pool) -> &PairList<'static> {
        self.rows[0].get_or_init(|| self.to_rows(&|_| true, pool))
    }

    /// Rows of the systems that are evaluated in rows; those of other systems are empty.
    pub fn other_rows_with(&self, pool: &dyn Pool) -> &PairList<'static> {
        let in_clusters: Vec<bool> = self.in_clusters().collect();
        self.rows[1].get_or_init(|| self.to_rows(&|system| !in_clusters[system], pool))
    }

    fn to_rows(&self, wanted: &(dyn Fn(usize) -> bool + Sync), pool: &dyn Pool) -> PairList<'static> {
        // Each group counts the pairs of all atoms.
        let (atoms, groups) = (self.atoms(), pool.threads().min(16));
        let in_group = |n: usize, g: usize| n * g / groups..n * (g + 1) / groups;
        let (ptr, any_order) = gather(atoms, groups, pool, &|g, put| {
            for piece in in_group(self.pieces(), g).map(|p| self.piece(p)).filter(|p| wanted(p.system)) {
                self.for_each_pair(&piece, |i, j, shift| {
                    put(i, element(j, shift));
                    put(j, element(i, shift.wrapping_neg()));
                });
            }
        });
        // Each pair is there from both sides, so that rows filled by columns in their order have these in order.
        let (ptr, mut elements) = gather(atoms, groups, pool, &|g, put| {
            for j in in_group(atoms, g) {
                for there in &any_order[ptr[j] as usize..ptr[j + 1] as usize] {
                    let (i, shift) = parts(*there);
                    put(i as usize, element(j, shift.wrapping_neg()));
                }
            }
        });
        let tasks = atoms.div_ceil(256);
        let ends: Vec<usize> = (1..=tasks).map(|t| ptr[atoms.min(t * 256)] as usize).collect();
        split_tasks(pool, &mut elements, &ends, |t, part| {
            for row in ptr[t * 256..=atoms.min((t + 1) * 256)].windows(2) {
                let row = &mut part[(row[0] - ptr[t * 256]) as usize..(row[1] - ptr[t * 256]) as usize];
                // Several images of a column come in any order.
                if !row.is_sorted() {
                    row.sort_unstable();
                }
            }
        });
        let (mut others, mut shifts) = (Buffer::zeros(elements.len()), Buffer::zeros(elements.len()));
        let first = |t: usize| if t == 0 { 0 } else { ends[t - 1] };
        split_tasks(pool, &mut others, &ends, |t, part| {
            part.iter_mut().zip(&elements[first(t)..]).for_each(|(j, there)| *j = parts(*there).0);
        });
        split_tasks(pool, &mut shifts, &ends, |t, part| {
            part.iter_mut().zip(&elements[first(t)..]).for_each(|(shift, there)| *shift = parts(*there).1);
        });
        PairList::from_search(ptr, Numbers::Owned(others), Shifts::Packed(shifts.into()), atoms, Kind::Full)
            .expect("atoms of slots are below their number")
    }

    /// Calls `visit` with the atoms and the packed image of every pair of a piece, once.
    fn for_each_pair(&self, piece: &Piece<'_>, mut visit: impl FnMut(usize, usize, i32)) {
        let (slots, wraps) = (self.slots(), self.section(Section::Wraps));
        let slot = |local: usize| piece.members[local / WIDTH] as usize * WIDTH + local % WIDTH;
        let mut from = piece.first_entry;
        for &[row, image, end] in piece.runs {
            let i = slots[slot(row as usize)] as usize;
            let image = image.wrapping_add(wraps[i]);
            for &[cluster, mask] in &self.entries[from..end as usize] {
                let (base, mut mask) = (slot(cluster as usize * WIDTH), mask as u32);
                while mask != 0 {
                    let j = slots[base + mask.trailing_zeros() as usize] as usize;
                    mask &= mask - 1;
                    visit(i, j, image.wrapping_sub(wraps[j]));
                }
            }
            from = end as usize;
        }
    }
}

/// Column and packed image of a pair, as a number with the order of both.
fn element(column: usize, shift: i32) -> u64 {
    (column as u64) << 32 | u64::from(shift as u32 ^ 1 << 31)
}

/// Column and packed image of an element.
fn parts(element: u64) -> (i32, i32) {
    ((element >> 32) as i32, (element as u32 ^ 1 << 31) as i32)
}

/// Gives an element to a row.
type Put<'p> = dyn FnMut(usize, u64) + 'p;

/// Elements of each row, in the order in which `walk` gives those of a group, group by group; and where rows begin. Each
/// group is walked twice: its elements are counted, and then have their places to themselves.
fn gather(
    rows: usize,
    groups: usize,
    pool: &dyn Pool,
    walk: &(dyn Fn(usize, &mut Put<'_>) + Sync),
) -> (Vec<i64>, Vec<u64>) {
    let mut places = map_tasks(pool, groups, |g| {
        let mut counts = vec![0usize; rows];
        walk(g, &mut |row, _| counts[row] += 1);
        counts
    });
    let (mut ptr, mut end) = (Vec::with_capacity(rows + 1), 0);
    for row in 0..rows {
        ptr.push(end as i64);
        for group in &mut places {
            end += std::mem::replace(&mut group[row], end);
        }
    }
    ptr.push(end as i64);
    let elements = collected((0..end).map(|_| AtomicU64::new(0)));
    let each: Vec<usize> = (1..=groups).collect();
    split_tasks(pool, &mut places, &each, |g, places| {
        let Some(places) = places.first_mut() else { return };
        walk(g, &mut |row, there| {
            elements[places[row]].store(there, Ordering::Relaxed);
            places[row] += 1;
        });
    });
    (ptr, elements.into_iter().map(AtomicU64::into_inner).collect())
}
