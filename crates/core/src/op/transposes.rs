//! Transposes of lists in the memory of a device, made for a call whose kernels gather through them.

use super::declare::Step;
use super::evaluate::Run;
use super::request::Arg;
use crate::Result;
use crate::array::Array;
use crate::backend::kernel::{Array as ArrayOf, Part, Slot};
use crate::device::{DeviceArg, DevicePairs};

impl Run<'_, '_> {
    /// Makes the transposes of lists in the memory of a device that a part needs.
    pub(super) fn transpose_lists(&mut self, step: &Step, part: &Part) -> Result<()> {
        let Some(remote) = self.context.backend.remote() else { return Ok(()) };
        let by_column =
            |slot: &&Slot| matches!(slot.array, ArrayOf::ColumnStart | ArrayOf::PairRow | ArrayOf::PairEntry);
        for slot in part.slots.iter().filter(by_column) {
            let buffer = step.buffers[slot.param];
            if let Some(Arg::Device(DeviceArg::Pairs(list))) = self.args.get(buffer)
                && list.transpose().is_none()
                && !self.transposes.iter().any(|(b, _)| *b == buffer)
            {
                self.transposes.push((buffer, remote.transpose(self.context, list)?));
            }
        }
        Ok(())
    }

    /// Lists of a step with the transposes that were made.
    pub(super) fn transposed(&self, step: &Step) -> Vec<(usize, DevicePairs<'_>)> {
        let of_step = self.transposes.iter().filter(|(buffer, _)| step.buffers.contains(buffer));
        of_step
            .filter_map(|(buffer, arrays)| match self.args.get(*buffer) {
                Some(Arg::Device(DeviceArg::Pairs(list))) => {
                    Some((*buffer, list.transposed(arrays.each_ref().map(Array::view))))
                }
                _ => None,
            })
            .collect()
    }
}
