//! Lists in the memory of a device that a call makes for its kernels: what grids find, and transposes to gather through.
#![expect(unsafe_code, reason = "lists that grids have found are not checked")]

use super::declare::Step;
use super::evaluate::Run;
use super::request::Arg;
use crate::Result;
use crate::array::Array;
use crate::device::{DeviceArg, DevicePairs};
use crate::runtime::{Part, Slot, SlotArray};

impl Run<'_, '_> {
    /// Makes the transposes of lists in the memory of a device that a part needs.
    pub(super) fn transpose_lists(&mut self, step: &Step, part: &Part) -> Result<()> {
        let backend = self.context.backend;
        if self.word.is_none() {
            return Ok(());
        }
        let by_column = |slot: &&Slot| {
            matches!(slot.array, SlotArray::ColumnStart | SlotArray::PairRow | SlotArray::PairEntry)
        };
        for slot in part.slots.iter().filter(by_column) {
            let buffer = step.buffers[slot.param];
            if self.transposes.iter().any(|(b, _)| *b == buffer) {
                continue;
            }
            let transpose = match self.args.get(buffer) {
                Some(Arg::Device(DeviceArg::Pairs(list))) if list.transpose().is_none() => {
                    backend.transpose(self.context, list)?
                }
                _ => match self.near_list(buffer)? {
                    Some(list) => backend.transpose(self.context, &list)?,
                    None => continue,
                },
            };
            self.transposes.push((buffer, transpose));
        }
        Ok(())
    }

    /// The list that a grid in the memory of a device found.
    pub(super) fn near_list(&self, buffer: usize) -> Result<Option<DevicePairs<'_>>> {
        let Some(Arg::Device(DeviceArg::Grid { grid, .. })) = self.args.get(buffer) else { return Ok(None) };
        let near = self.near.iter().find(|(b, _)| *b == buffer);
        // SAFETY: `DevicePointGrid::query` has found them, or raised the call's word.
        near.map(|(_, arrays)| unsafe { DevicePairs::found(arrays.each_ref(), grid.points()) }).transpose()
    }

    /// Lists of a step that were made for the call, or have a transpose that was.
    pub(super) fn device_lists(&self, step: &Step) -> Result<Vec<(usize, DevicePairs<'_>)>> {
        let mut lists = vec![];
        for (buffer, _) in self.near.iter().filter(|(buffer, _)| step.buffers.contains(buffer)) {
            lists.extend(self.near_list(*buffer)?.map(|list| (*buffer, list)));
        }
        for (buffer, arrays) in self.transposes.iter().filter(|(b, _)| step.buffers.contains(b)) {
            let transpose: [&Array; 3] = arrays.each_ref();
            let transpose = transpose.map(Array::view);
            if let Some((_, list)) = lists.iter_mut().find(|(b, _)| b == buffer) {
                *list = list.transposed(transpose);
            } else if let Some(Arg::Device(DeviceArg::Pairs(list))) = self.args.get(*buffer) {
                lists.push((*buffer, list.transposed(transpose)));
            }
        }
        Ok(lists)
    }
}
