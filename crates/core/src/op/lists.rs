//! Lists of a call: those that it makes for its kernels, which searches of grids find, and transposes in the memory of a
//! device; and those that kernels take in clusters.

use super::call::Call;
use super::declare::{Op, Step, Work};
use crate::Result;
use crate::array::Array;
use crate::runtime::{Form, Kernel, Lists, Member, Part, SlotArray};
use crate::structure::Structure;
use crate::structure::pairs::Transposed;
use std::collections::BTreeSet;

/// Lists that a call has made, by buffer.
#[derive(Debug, Default)]
pub(super) struct MadeLists {
    /// Lists that searches of grids found.
    found: Vec<(usize, Box<dyn Structure>)>,
    /// Transposes of lists that have none.
    transposes: Vec<(usize, [Array; 3])>,
}

fn of<T>(made: &[(usize, T)], buffer: usize) -> Option<&T> {
    made.iter().find(|(b, _)| *b == buffer).map(|(_, made)| made)
}

impl MadeLists {
    /// The list that the search of a grid found.
    pub(super) fn found(&self, buffer: usize) -> Option<&dyn Structure> {
        of(&self.found, buffer).map(|list| &**list)
    }

    pub(super) fn set_found(&mut self, buffer: usize, list: Box<dyn Structure>) {
        self.found.push((buffer, list));
    }

    /// A list with the transpose that was made for it.
    pub(super) fn transposed<'l>(&'l self, buffer: usize, list: &'l dyn Structure) -> Option<Transposed<'l>> {
        of(&self.transposes, buffer).map(|transpose| Transposed { list, transpose })
    }

    /// The arrays of all of them.
    pub(super) fn into_arrays(self) -> impl Iterator<Item = Array> {
        let found = self.found.into_iter().flat_map(|(_, list)| list.into_arrays());
        found.chain(self.transposes.into_iter().flat_map(|(_, transpose)| transpose))
    }
}

/// Makes the transposes of lists that a part reads. A list of the host keeps its own, one of a device has it for the length
/// of the call.
pub(super) fn transpose_lists(call: &mut Call<'_, '_>, step: &Step, part: &Part) -> Result<()> {
    let by_column = [SlotArray::ColumnStart, SlotArray::PairRow, SlotArray::PairEntry];
    for slot in part.slots.iter().filter(|slot| by_column.contains(&slot.array)) {
        let buffer = step.buffers[slot.param];
        let Some(list) = call.structure(buffer).filter(|list| list.as_searched().is_none()) else { continue };
        if of(&call.lists.transposes, buffer).is_none() && list.array(slot.array)?.is_none() {
            let transpose = call.context.backend.transpose(call.context, list)?;
            call.lists.transposes.push((buffer, transpose));
        }
    }
    Ok(())
}

impl Op {
    /// The arguments whose gradients need rows of a list, an argument; none where values or all gradients do.
    pub(super) fn left_to_rows(&self, list: usize) -> Option<BTreeSet<&str>> {
        let mut left = BTreeSet::new();
        for step in &self.steps {
            let Work::Kernel(kernel) = step.work else { continue };
            let Some(param) = step.buffers.iter().position(|b| *b == list) else { continue };
            for part in parts_of_full_lists(kernel).filter(|part| reads(part, param)) {
                let form = part.clusters.as_ref().filter(|form| form.list == param)?;
                left.extend(form.without.iter().map(|(p, _)| self.buffer_name(step.buffers[*p])));
            }
        }
        Some(left)
    }
}

/// The parts that values, and gradients by everything, of full lists have.
fn parts_of_full_lists(kernel: &Kernel) -> impl Iterator<Item = &'static Part> {
    let gradients = |form: &&Form| form.member == Member::Gradient && form.gradients.is_none();
    let has_own = kernel.forms.iter().any(|form| gradients(&form) && form.lists == Lists::Full);
    let lists = if has_own { Lists::Full } else { Lists::Any };
    let is_one = move |form: &&Form| form.member == Member::Value || (gradients(form) && form.lists == lists);
    kernel.forms.iter().filter(is_one).flat_map(|form| form.parts)
}

/// Whether a part goes over the pairs of a list.
fn reads(part: &Part, param: usize) -> bool {
    let is_of = |array| !matches!(array, SlotArray::Values(_) | SlotArray::Scratch(_));
    part.slots.iter().any(|slot| slot.param == param && is_of(slot.array))
}
