//! Lists in clusters of which some systems come from a newer one.

use super::frame::{Frame, few};
use super::{Clusters, Piece, Section, WIDTH, joined};
use crate::Result;
use crate::array::{collected, reserve};
use crate::backend::pool::Pool;
use crate::structure::pairs::renewed::Sources;

/// List with what tells its systems apart.
struct Source<'c> {
    list: &'c Clusters<'c>,
    /// First cluster of each system.
    clusters: Vec<usize>,
    pieces: Vec<Vec<Piece<'c>>>,
}

impl<'c> Source<'c> {
    fn new(list: &'c Clusters<'c>) -> Self {
        let mut clusters = vec![0];
        for w in list.ptr().windows(2) {
            clusters.push(clusters[clusters.len() - 1] + ((w[1] - w[0]) as usize).div_ceil(WIDTH));
        }
        let mut pieces = vec![vec![]; clusters.len() - 1];
        for piece in (0..list.pieces()).map(|p| list.piece(p)) {
            pieces[piece.system].push(piece);
        }
        Self { list, clusters, pieces }
    }
}

impl Clusters<'_> {
    /// This list with the pairs of raised systems from `found`: pieces number slots and clusters by themselves, so they are copied.
    pub(in crate::structure::pairs) fn renewed(
        &self,
        found: &Clusters<'_>,
        sources: &Sources,
        pool: &dyn Pool,
    ) -> Result<Clusters<'static>> {
        let lists = [Source::new(self), Source::new(found)];
        let mut frame = Frame { ptr: self.ptr().to_vec(), ..Frame::default() };
        reserve(&mut frame.wraps, self.atoms());
        reserve(&mut frame.slots, WIDTH * lists[0].clusters[lists[0].clusters.len() - 1]);
        let (mut pieces, mut entries) = (vec![], 0);
        for (b, source) in sources.each().enumerate() {
            let Source { list, clusters, pieces: of_list } = &lists[usize::from(source.is_found)];
            let (from, to) = (clusters[source.system], frame.slots.len() / WIDTH);
            let last = clusters[source.system + 1];
            let slots = &list.slots()[WIDTH * from..WIDTH * last];
            frame.slots.extend(slots.iter().map(|atom| atom + source.shift));
            frame.wraps.extend(&list.section(Section::Wraps)[source.rows.clone()]);
            frame.in_clusters.push(list.section(Section::InClusters)[source.system] != 0);
            for piece in &of_list[source.system] {
                frame.piece(b, piece.runs.len(), piece.members, to as i32 - from as i32)?;
                pieces.push((*piece, entries));
                entries += piece.entries.len();
            }
        }
        few(entries)?;
        let runs: Vec<&[[i32; 3]]> = collected(pieces.iter().map(|(piece, _)| piece.runs));
        let runs = joined(&runs, pool, |p, run| {
            let (piece, first) = &pieces[p];
            [run[0], run[1], run[2] - piece.first_entry as i32 + *first as i32]
        });
        let entries: Vec<&[[i32; 2]]> = collected(pieces.iter().map(|(piece, _)| piece.entries));
        let entries = joined(&entries, pool, |_, entry| *entry);
        let dropped = sources.raised().flat_map(|b| &lists[0].pieces[b]).flat_map(|piece| piece.entries);
        let dropped = 2 * dropped.map(|entry| entry[1].count_ones() as usize).sum::<usize>();
        frame.list(runs, entries, self.pairs + found.pairs - dropped)
    }
}
