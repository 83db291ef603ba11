//! Lists that a call makes for its kernels: those that searches of grids find, and transposes in the memory of a device.

use super::call::Call;
use super::declare::Step;
use crate::Result;
use crate::array::Array;
use crate::runtime::{Part, SlotArray};
use crate::structure::Structure;
use crate::structure::pairs::Transposed;

/// Lists that a call has made, by buffer.
#[derive(Debug, Default)]
pub(super) struct MadeLists {
    /// Those that searches of grids found.
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
