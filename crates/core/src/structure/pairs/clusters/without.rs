//! Lists without some of their pairs.

use super::{Clusters, WIDTH};
use crate::Result;
use crate::array::Buffer;
use crate::runtime::lanes::packed::pack;
use crate::structure::pairs::{Kind, PairList, Shifts};

impl PairList<'_> {
    /// The list without the pairs (i, j, S) of another one over the same atoms.
    ///
    /// # Errors
    /// None, where both lists are over the same atoms.
    pub fn without(&self, left_out: &PairList<'_>) -> Result<PairList<'static>> {
        let (mut ptr, mut others, mut shifts) = (vec![0i64], vec![], vec![]);
        for i in 0..self.rows() {
            let (columns, images) = self.row(i);
            let (their_columns, their_images) = left_out.row(i);
            let theirs: Vec<_> = their_columns.iter().zip(their_images).collect();
            for (j, image) in columns.iter().zip(images).filter(|pair| !theirs.contains(pair)) {
                others.push(*j);
                shifts.push(image);
            }
            ptr.push(others.len() as i64);
        }
        let (shifts, columns) = (Shifts::Triples(shifts.into()), self.columns());
        Ok(PairList { own: self.own, ..PairList::from_search(ptr, others, shifts, columns, self.kind())? })
    }

    /// Whether none of the pairs (i, j, S) of another list over the same atoms is there.
    pub fn lacks(&self, left_out: &PairList<'_>) -> bool {
        left_out.iter().all(|(i, j, shift)| {
            let of_row = self.range(i);
            !self.others[of_row.clone()].contains(&(j as i32))
                || !of_row.into_iter().any(|p| self.others[p] as usize == j && self.shifts.at(p) == shift)
        })
    }
}

impl Clusters<'_> {
    /// The list without the pairs (i, j, S) of another one over the same atoms, which has each from both sides: in the same
    /// clusters, with the lanes of these pairs taken out of their masks.
    pub fn without(&self, left_out: &PairList<'_>) -> Clusters<'static> {
        debug_assert_eq!(left_out.kind(), Kind::Full);
        let slots = self.slots();
        // The last atom of a system fills up its last cluster: its first slot counts.
        let mut slot_of = vec![0; self.atoms()];
        slots.iter().enumerate().rev().for_each(|(slot, atom)| slot_of[*atom as usize] = slot);
        let mut entries = Buffer::from(&*self.entries);
        let mut taken = 0;
        for p in 0..self.pieces() {
            let piece = self.piece(p);
            let mut from = piece.first_entry;
            for &[slot, image, end] in piece.runs {
                let (slot, run) = (slot as usize, from..end as usize);
                from = end as usize;
                let i = slots[piece.members[slot / WIDTH] as usize * WIDTH + slot % WIDTH] as usize;
                let (columns, images) = left_out.row(i);
                for (j, shift) in columns.iter().zip(images) {
                    let (theirs, mine) = (self.wrap(*j as usize), self.wrap(i));
                    if pack(std::array::from_fn(|k| shift[k] + theirs[k] - mine[k])) != image {
                        continue;
                    }
                    let (cluster, lane) =
                        ((slot_of[*j as usize] / WIDTH) as i32, 1 << (slot_of[*j as usize] % WIDTH));
                    for entry in &mut entries[run.clone()] {
                        if piece.members[entry[0] as usize] == cluster && entry[1] & lane != 0 {
                            entry[1] &= !lane;
                            taken += 1;
                        }
                    }
                }
            }
        }
        let pairs = self.pairs - 2 * taken;
        let mut frame = Buffer::from(&*self.frame);
        [frame[9], frame[10]] = [pairs as u32 as i32, (pairs >> 32) as i32];
        let (frame, entries) = (frame.into(), entries.into());
        let runs = Buffer::from(&*self.runs).into();
        let (sections, own) = (self.sections.clone(), self.own);
        Clusters { frame, runs, entries, sections, pairs, own, rows: Default::default() }
    }
}
