//! The arrays of a call.

use super::request::Arg;
use crate::array::{Array, View};
use crate::runtime::Role;

/// An array, by whom it is had.
pub(super) enum Slot<'a> {
    Absent,
    Borrowed(View<'a>),
    Owned(Array),
    /// One element for all rows.
    Uniform(Array),
}

/// Arrays by buffer and role. Most are absent, and small calls are many: only those that are there take room.
pub(super) struct Store<'a> {
    /// Where in `slots`; 0: absent.
    places: Vec<[u32; 8]>,
    slots: Vec<Slot<'a>>,
    /// Cotangents that are the same everywhere, spread out for forms that want arrays, by buffer.
    spread: Vec<(usize, Array)>,
}

impl<'a> Store<'a> {
    pub(super) fn new(buffers: usize, args: &[Arg<'_>]) -> Self {
        let mut slots = Vec::with_capacity(args.len() + 8);
        slots.push(Slot::Absent);
        Self { places: vec![[0; 8]; buffers], slots, spread: vec![] }
    }

    pub(super) fn get(&self, buffer: usize, role: Role) -> &Slot<'a> {
        &self.slots[self.places[buffer][usize::from(role.0)] as usize]
    }

    pub(super) fn set(&mut self, buffer: usize, role: Role, slot: Slot<'a>) {
        match &mut self.places[buffer][usize::from(role.0)] {
            0 => {
                self.places[buffer][usize::from(role.0)] = self.slots.len() as u32;
                self.slots.push(slot);
            }
            place => self.slots[*place as usize] = slot,
        }
    }

    pub(super) fn take(&mut self, buffer: usize, role: Role) -> Slot<'a> {
        match self.places[buffer][usize::from(role.0)] {
            0 => Slot::Absent,
            place => std::mem::replace(&mut self.slots[place as usize], Slot::Absent),
        }
    }

    /// What became of a cotangent that is the same everywhere.
    pub(super) fn spread(&self, buffer: usize) -> Option<&Array> {
        self.spread.iter().find(|(b, _)| *b == buffer).map(|(_, array)| array)
    }

    pub(super) fn set_spread(&mut self, buffer: usize, array: Array) {
        self.spread.push((buffer, array));
    }

    /// Gives up the arrays that the call made and nobody took.
    pub(super) fn drain_owned(&mut self, mut give: impl FnMut(Array)) {
        for slot in &mut self.slots {
            if let Slot::Owned(array) | Slot::Uniform(array) = std::mem::replace(slot, Slot::Absent) {
                give(array);
            }
        }
        self.spread.drain(..).for_each(|(_, array)| give(array));
    }
}
