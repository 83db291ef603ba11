//! Arrays of a call, by buffer and role.

use super::call::Call;
use crate::Result;
use crate::array::{Array, View};
use crate::runtime::Role;

/// Array of a buffer and role.
pub(super) enum Slot<'a> {
    Absent,
    Borrowed(View<'a>),
    Owned(Array),
    /// One element for all rows.
    Uniform(Array),
}

/// Arrays by buffer and role. Most are absent, and small calls are many: only arrays that are there take memory.
pub(super) struct Arrays<'a> {
    /// Number of arguments, the first of the buffers.
    args: usize,
    /// Positions in `slots`; 0: absent.
    places: Vec<[u32; 8]>,
    slots: Vec<Slot<'a>>,
    /// Uniform cotangents, spread out for forms that want arrays, by buffer.
    spread: Vec<(usize, Array)>,
    /// Buffers of rows that have the uniform cotangent of their sums from the beginning.
    handed_down: Vec<usize>,
}

impl<'a> Arrays<'a> {
    pub(super) fn new(buffers: usize, args: usize) -> Self {
        let mut slots = Vec::with_capacity(args + 8);
        slots.push(Slot::Absent);
        Self { args, places: vec![[0; 8]; buffers], slots, spread: vec![], handed_down: vec![] }
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

    pub(super) fn has(&self, buffer: usize, role: Role) -> bool {
        !matches!(self.get(buffer, role), Slot::Absent)
    }

    /// Whether a value came with the call, saved by an earlier one.
    pub(super) fn given(&self, buffer: usize, r: Role) -> bool {
        r == Role::VALUE && buffer >= self.args && matches!(self.get(buffer, r), Slot::Borrowed(_))
    }

    /// An array that was made readable.
    pub(super) fn readable(&self, buffer: usize, r: Role, uniform: bool) -> View<'_> {
        match (self.get(buffer, r), self.spread(buffer)) {
            (Slot::Borrowed(view), _) => view.clone(),
            (Slot::Uniform(_), Some(array)) if !uniform => array.view(),
            (Slot::Owned(array) | Slot::Uniform(array), _) => array.view(),
            (Slot::Absent, _) => unreachable!("made readable before"),
        }
    }

    /// Makes an absent array, which is zero, and spreads a uniform cotangent out where the form wants an array.
    pub(super) fn make_readable(
        &mut self,
        call: &Call<'_, '_>,
        buffer: usize,
        r: Role,
        uniform: bool,
    ) -> Result<()> {
        match self.get(buffer, r) {
            Slot::Absent => self.set(buffer, r, Slot::Owned(call.zeros(buffer)?)),
            Slot::Uniform(one) if !uniform && self.spread(buffer).is_none() => {
                let mut spread = call.room(buffer)?;
                call.context.broadcast(&one.view(), &mut spread)?;
                self.set_spread(buffer, spread);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether rows have the uniform cotangent of their sums from the beginning.
    pub(super) fn is_handed_down(&self, rows: usize) -> bool {
        self.handed_down.contains(&rows)
    }

    pub(super) fn hand_down(&mut self, rows: usize) {
        self.handed_down.push(rows);
    }

    /// An array that is to be added to, if there is one.
    pub(super) fn take_sum(&mut self, call: &Call<'_, '_>, buffer: usize, r: Role) -> Result<Option<Array>> {
        Ok(match self.take(buffer, r) {
            Slot::Owned(sum) => Some(sum),
            Slot::Uniform(one) => {
                let mut sum = call.room(buffer)?;
                call.context.broadcast(&one.view(), &mut sum)?;
                call.context.allocator.recycle(one);
                Some(sum)
            }
            _ => None,
        })
    }

    /// Puts an array where there is none, or adds it to the one that is there.
    pub(super) fn add_to(&mut self, call: &Call<'_, '_>, buffer: usize, r: Role, array: Array) -> Result<()> {
        let sum = match self.take_sum(call, buffer, r)? {
            Some(mut sum) => {
                call.context.add(&mut sum, &array)?;
                call.context.allocator.recycle(array);
                sum
            }
            None => array,
        };
        self.set(buffer, r, Slot::Owned(sum));
        Ok(())
    }

    /// Marks cotangents that are equal for every row, such as those of the energies in a sum, as uniform, for the sake of
    /// cheaper forms.
    pub(super) fn find_uniform(&mut self, call: &Call<'_, '_>, step: usize) -> Result<()> {
        for buffer in call.written(step) {
            let Slot::Owned(array) = self.get(buffer, Role::COTANGENT) else { continue };
            let (true, Some(x)) = (array.shape().len() == 1, array.view().uniform()) else { continue };
            let one = Slot::Uniform(call.context.filled(call.dtype, &[1], x)?);
            if let Slot::Owned(array) = self.take(buffer, Role::COTANGENT) {
                self.set_spread(buffer, array);
            }
            self.set(buffer, Role::COTANGENT, one);
        }
        Ok(())
    }

    /// A uniform cotangent, spread out.
    pub(super) fn spread(&self, buffer: usize) -> Option<&Array> {
        self.spread.iter().find(|(b, _)| *b == buffer).map(|(_, array)| array)
    }

    pub(super) fn set_spread(&mut self, buffer: usize, array: Array) {
        self.spread.push((buffer, array));
    }

    /// Gives up the arrays that the call made and that are no results.
    pub(super) fn drain_owned(&mut self, mut give: impl FnMut(Array)) {
        for slot in &mut self.slots {
            if let Slot::Owned(array) | Slot::Uniform(array) = std::mem::replace(slot, Slot::Absent) {
                give(array);
            }
        }
        self.spread.drain(..).for_each(|(_, array)| give(array));
    }
}
