//! The frame of a list, from its sections.

use super::{Clusters, VERSION, sections};
use crate::array::{Buffer, reserve};
use crate::{Error, Result};

/// Sections of a frame.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) ptr: Vec<i32>,
    pub(super) in_clusters: Vec<bool>,
    pub(super) slots: Vec<i32>,
    /// Packed.
    pub(super) wraps: Vec<i32>,
    /// System, first run and first member.
    pub(super) pieces: Vec<[i32; 3]>,
    pub(super) members: Vec<i32>,
    pub(super) runs: i32,
}

/// A number of runs or entries.
pub(super) fn few(n: usize) -> Result<i32> {
    let expected = || Error::argument("cutoff", "a list of at most 2^31 runs", n.to_string());
    i32::try_from(n).map_err(|_| expected())
}

impl Frame {
    /// Adds a piece of so many runs, whose members have numbers that `shift` brings to those of this list.
    pub(super) fn piece(&mut self, system: usize, runs: usize, members: &[i32], shift: i32) -> Result<()> {
        self.pieces.push([system as i32, self.runs, few(self.members.len())?]);
        reserve(&mut self.members, members.len());
        self.members.extend(members.iter().map(|member| member + shift));
        self.runs = few(self.runs as usize + runs)?;
        Ok(())
    }

    /// The list with these runs and entries, and so many directed pairs.
    pub(super) fn list(
        self,
        runs: Buffer<[i32; 3]>,
        entries: Buffer<[i32; 2]>,
        pairs: usize,
    ) -> Result<Clusters<'static>> {
        let numbers = [
            self.wraps.len(),
            self.in_clusters.len(),
            self.slots.len(),
            self.pieces.len(),
            self.members.len(),
            runs.len(),
            entries.len(),
        ];
        let mut frame = vec![VERSION, 0];
        for n in numbers {
            frame.push(few(n)?);
        }
        frame.extend([pairs as u32 as i32, (pairs >> 32) as i32]);
        let [atoms, systems, slots, pieces, members, ..] = numbers;
        reserve(&mut frame, 2 * systems + 1 + slots + atoms + 3 * (pieces + 1) + members);
        frame.extend(self.ptr);
        frame.extend(self.in_clusters.into_iter().map(i32::from));
        frame.extend(self.slots);
        frame.extend(self.wraps);
        frame.extend(self.pieces.as_flattened());
        frame.extend([0, self.runs, members as i32]);
        frame.extend(self.members);
        let (sections, _) = sections(&frame)?;
        let (runs, entries) = (runs.into(), entries.into());
        Ok(Clusters {
            frame: frame.into(),
            runs,
            entries,
            sections,
            pairs,
            own: None,
            rows: Default::default(),
        })
    }
}
