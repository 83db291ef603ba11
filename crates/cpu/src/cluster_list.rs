//! Full pair lists as clusters of atoms that are neighbours in space.
//!
//! A cluster is as many atoms as a register has lanes. A full list becomes *runs*, each of one atom against the
//! clusters that hold its neighbours at one image; which lanes of a cluster are neighbours is a mask. Of the two pairs
//! (i, j, S) and (j, i, −S) one is kept: that of the atom in the earlier cluster or lane, and for an atom and its own
//! image that of the positive S. So exactly the list's pairs count, with skins, exclusions or several images, and in
//! any order of the atoms: the order decides how full the clusters are, not the result.

use madelung_core::array::Buffer;
use madelung_core::backend::pool::{Pool, map_tasks};
use madelung_core::runtime::{ClusterEntry, ClusterRun};
use madelung_core::structure::PairList;
use madelung_core::structure::pairs::order::{IMAGES, Ordered, SpatialOrder};

/// An image as one number, linear in it.
fn code(image: [i32; 3]) -> u64 {
    let [x, y, z] = image.map(|s| s as u64);
    x.wrapping_add(y << 21).wrapping_add(z << 42)
}

/// The list in clusters of `width` atoms, kept with it. None where its images are out of all proportion.
pub(crate) fn clusters<'l>(
    ordered: &'l Ordered,
    list: &PairList<'_>,
    width: usize,
    pool: &dyn Pool,
) -> Option<&'l ClusterList> {
    let slot = [4, 8, 16].iter().position(|w| *w == width)?;
    ordered.form(slot, || ClusterList::new(list, ordered.order(), width, pool))?.as_ref()
}

/// Runs that one task works through, with clusters numbered among those that they touch.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The system.
    pub(crate) system: usize,
    /// The clusters that the runs touch.
    pub(crate) clusters: Vec<u32>,
    pub(crate) runs: Buffer<ClusterRun>,
    pub(crate) entries: Buffer<ClusterEntry>,
    /// The offset in `touched` of each block of [`BLOCK`] runs, and the total.
    pub(crate) blocks: Vec<u32>,
    /// The clusters that each block adds to as columns.
    pub(crate) touched: Vec<u32>,
}

/// Runs after which sums in f32 go to f64: a column gets one term from each run at most (but for pairs that the list
/// has twice).
pub(crate) const BLOCK: usize = 64;
/// Pairs for each piece, about: few enough for threads to share the work evenly, many enough for the clusters at its
/// rim not to count.
const PIECE: usize = 280_000;

/// A full list in clusters.
#[derive(Debug)]
pub(crate) struct ClusterList {
    /// Atoms for each cluster.
    pub(crate) width: usize,
    /// The atom of each lane of each cluster; behind the last of a system it is repeated.
    pub(crate) atoms: Vec<i32>,
    /// The system of each cluster.
    pub(crate) systems: Vec<u32>,
    pub(crate) pieces: Vec<Piece>,
    /// The offset in `shares` of each cluster, and the total.
    pub(crate) share_ptr: Vec<u32>,
    /// (piece, cluster there), in the order of the pieces.
    pub(crate) shares: Vec<(u32, u32)>,
}

impl ClusterList {
    pub(crate) fn new(
        list: &PairList<'_>,
        order: &SpatialOrder,
        width: usize,
        pool: &dyn Pool,
    ) -> Option<Self> {
        let (mut atoms, mut systems) = (Vec::with_capacity(order.len() + width), vec![]);
        let mut places = vec![(0u64, 0u32); order.len()];
        for (b, bounds) in order.ptr().windows(2).enumerate() {
            let members = &order.atoms()[bounds[0] as usize..bounds[1] as usize];
            for (n, atom) in members.iter().enumerate() {
                let wrap = order.wraps()[*atom as usize];
                places[*atom as usize] = (code(wrap), (atoms.len() + n) as u32);
            }
            atoms.extend_from_slice(members);
            if let Some(last) = members.last() {
                atoms.resize(atoms.len().next_multiple_of(width), *last);
            }
            systems.resize(atoms.len() / width, b as u32);
        }
        let clusters = systems.len();
        let tasks = (pool.threads() * 4).min(clusters).max(1);
        let convert = Convert { list, width, atoms: &atoms, places: &places, clusters };
        let parts =
            map_tasks(pool, tasks, |t| convert.rows(clusters * t / tasks, clusters * (t + 1) / tasks));
        let (mut runs, mut entries) = (Buffer::new(), Buffer::new());
        for part in parts {
            let (mut new_runs, new_entries) = part?;
            let offset = u32::try_from(entries.len()).ok()?;
            for run in &mut *new_runs {
                run.start += offset;
                run.end += offset;
            }
            runs.extend_from_slice(&new_runs);
            entries.extend_from_slice(&new_entries);
        }
        u32::try_from(entries.len()).ok()?;
        let cuts = cut(list, order, &systems, &runs);
        let pieces = map_tasks(pool, cuts.len(), |p| {
            let (system, range) = &cuts[p];
            localize(*system, &runs[range.clone()], &entries, clusters)
        });
        let mut share_ptr = vec![0u32; clusters + 1];
        for c in pieces.iter().flat_map(|p| &p.clusters) {
            share_ptr[*c as usize + 1] += 1;
        }
        for c in 0..clusters {
            share_ptr[c + 1] += share_ptr[c];
        }
        let mut next = share_ptr.clone();
        let mut shares = vec![(0, 0); share_ptr[clusters] as usize];
        for (p, piece) in pieces.iter().enumerate() {
            for (here, c) in piece.clusters.iter().enumerate() {
                shares[next[*c as usize] as usize] = (p as u32, here as u32);
                next[*c as usize] += 1;
            }
        }
        Some(Self { width, atoms, systems, pieces, share_ptr, shares })
    }
}

/// Cuts the runs of each system at equal numbers of entries.
fn cut(
    list: &PairList<'_>,
    order: &SpatialOrder,
    systems: &[u32],
    runs: &[ClusterRun],
) -> Vec<(usize, std::ops::Range<usize>)> {
    let mut cuts = vec![];
    let mut from = 0;
    for system in 0..order.ptr().len() - 1 {
        let of_system = |run: &ClusterRun| systems[run.cluster as usize] as usize <= system;
        let to = from + runs[from..].partition_point(of_system);
        if from == to {
            continue;
        }
        let members = order.ptr()[system] as usize..order.ptr()[system + 1] as usize;
        let pairs: usize = members.map(|i| list.range(i).len()).sum();
        let pieces = (pairs / 2).div_ceil(PIECE);
        let (first, last) = (runs[from].start as usize, runs[to - 1].end as usize);
        let mut begin = from;
        for p in 1..=pieces {
            let until = first + (last - first) * p / pieces;
            let end = begin + runs[begin..to].partition_point(|run| run.end as usize <= until);
            if end > begin {
                cuts.push((system, begin..end));
            }
            begin = end;
        }
        from = to;
    }
    cuts
}

/// A piece of its own: clusters by their place among those that it touches.
fn localize(system: usize, runs: &[ClusterRun], entries: &[ClusterEntry], clusters: usize) -> Piece {
    let mut here = vec![u32::MAX; clusters];
    let mut found = vec![];
    let mut place = |c: u32| {
        let at = &mut here[c as usize];
        if *at == u32::MAX {
            *at = found.len() as u32;
            found.push(c);
        }
        *at
    };
    let offset = runs.first().map_or(0, |run| run.start);
    let (mut my_runs, mut my_entries) = (Buffer::with_capacity(runs.len()), Buffer::new());
    for run in runs {
        my_entries.extend(
            entries[run.start as usize..run.end as usize]
                .iter()
                .map(|e| ClusterEntry { cluster: place(e.cluster), mask: e.mask }),
        );
        my_runs.push(ClusterRun {
            cluster: place(run.cluster),
            start: run.start - offset,
            end: run.end - offset,
            ..*run
        });
    }
    let (mut blocks, mut touched) = (vec![0], vec![]);
    let mut seen = vec![u32::MAX; found.len()];
    for (n, block) in my_runs.chunks(BLOCK).enumerate() {
        let (start, end) = (block[0].start as usize, block[block.len() - 1].end as usize);
        for e in &my_entries[start..end] {
            if seen[e.cluster as usize] != n as u32 {
                seen[e.cluster as usize] = n as u32;
                touched.push(e.cluster);
            }
        }
        blocks.push(touched.len() as u32);
    }
    Piece { system, clusters: found, runs: my_runs, entries: my_entries, blocks, touched }
}

struct Convert<'a> {
    list: &'a PairList<'a>,
    width: usize,
    atoms: &'a [i32],
    /// For each atom the code of its wrap, and its place.
    places: &'a [(u64, u32)],
    clusters: usize,
}

impl Convert<'_> {
    /// The runs of the rows in clusters `lo..hi`. None where an image does not fit its bits.
    fn rows(&self, lo: usize, hi: usize) -> Option<(Buffer<ClusterRun>, Buffer<ClusterEntry>)> {
        let (mut runs, mut entries) = (Buffer::new(), Buffer::<ClusterEntry>::new());
        // For each cluster the entry it has in the run that made it.
        let mut last = vec![(u32::MAX, 0u32); self.clusters];
        let mut kept: Vec<(u64, u32)> = vec![];
        let mut images: Vec<(u64, usize)> = vec![];
        let mut sorted: Vec<u32> = vec![];
        let bits = self.width.trailing_zeros();
        for place in lo * self.width..hi * self.width {
            let i = self.atoms[place] as usize;
            if self.places[i].1 as usize != place {
                continue;
            }
            self.keep(i, &mut kept)?;
            images.clear();
            let mut now = 0;
            for (image, _) in &mut kept {
                if images.get(now).is_none_or(|known| known.0 != *image) {
                    now = images.iter().position(|known| known.0 == *image).unwrap_or_else(|| {
                        images.push((*image, 0));
                        images.len() - 1
                    });
                }
                images[now].1 += 1;
                *image = now as u64;
            }
            let mut next = 0;
            for (_, count) in &mut images {
                (*count, next) = (next, next + *count);
            }
            sorted.resize(kept.len(), 0);
            for (image, column) in &kept {
                let at = &mut images[*image as usize].1;
                sorted[*at] = *column;
                *at += 1;
            }
            let mut from = 0;
            for (image, to) in &images {
                let (number, start) = (runs.len() as u32, entries.len() as u32);
                for column in &sorted[from..*to] {
                    let (cluster, bit) = (column >> bits, 1 << (column & (self.width as u32 - 1)));
                    let (run, at) = &mut last[cluster as usize];
                    // A pair that the list has twice counts twice.
                    if *run == number && entries[*at as usize].mask & bit == 0 {
                        entries[*at as usize].mask |= bit;
                    } else {
                        (*run, *at) = (number, entries.len() as u32);
                        entries.push(ClusterEntry { cluster, mask: bit });
                    }
                }
                let axis = |k: u32| ((image >> (21 * k)) as i32 & (2 * IMAGES - 1)) - IMAGES;
                runs.push(ClusterRun {
                    row: i as i32,
                    cluster: (place as u32) >> bits,
                    lane: place as u32 & (self.width as u32 - 1),
                    shift: [axis(0), axis(1), axis(2)],
                    start,
                    end: entries.len() as u32,
                });
                from = *to;
            }
        }
        Some((runs, entries))
    }

    /// The pairs of atom `i` that are counted from its side: (image of the wrapped atoms, place of the column).
    fn keep(&self, i: usize, kept: &mut Vec<(u64, u32)>) -> Option<()> {
        let (others, shifts) = self.list.row(i);
        kept.resize(others.len(), (0, 0));
        let (mine, place) = self.places[i];
        let middle = code([IMAGES; 3]).wrapping_sub(mine);
        let (mut count, mut beyond) = (0, 0u32);
        for (&j, s) in others.iter().zip(shifts) {
            let (theirs, column) = self.places[j as usize];
            kept[count] = (code(s).wrapping_add(theirs).wrapping_add(middle), column);
            count += usize::from(column > place || (column == place && s > [0; 3]));
            beyond |= s.iter().fold(0, |beyond, s| beyond | s.wrapping_add(IMAGES / 2) as u32);
        }
        kept.truncate(count);
        (beyond < IMAGES as u32).then_some(())
    }
}
