//! The search for the pairs of a neighbour list, in the memory of a CUDA device.

use crate::call::checked;
use crate::tensor::{InputTensor, Tensor, TorchCudaMemory, stream};
use madelung_core::array::{DType, Data, Place, View};
use madelung_core::backend::Context;
use madelung_core::structure::DeviceBatch;
use madelung_core::structure::pairs::Kind;
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use madelung_neighbors::{CooArrays, DeviceCoo, DeviceFrame, Periodic};

/// The op's name in the dispatcher.
pub(crate) const NAME: &str = "neighbor_search_v1";
/// The op's schema: positions (N, 3), cells (1 or B, 3, 3), the periodic axes, int32 (1, 3) on the host or (1 or B, 3)
/// on the device, and the system of each atom, int32 (N,). Results: pairs (2, C), offsets of each atom's pairs (N +
/// 1,), and images (C, 3), int32, C being `capacity`, or as many as there are where that is negative.
pub(crate) const SCHEMA: &str = "neighbor_search_v1(Tensor positions, Tensor cell, Tensor pbc, Tensor batch_idx, \
     int systems, float cutoff, int half, int capacity) -> (Tensor, Tensor, Tensor)";
/// The op's arguments: tensors, then numbers.
pub(crate) const TENSORS: usize = 4;
pub(crate) const NUMBERS: usize = 4;

const NAMES: [&str; TENSORS] = ["positions", "cell", "pbc", "batch_idx"];

/// Runs it.
pub(crate) fn run(tensors: Vec<Tensor>, numbers: &[u64]) -> Result<Vec<Tensor>> {
    let (systems, cutoff) = (numbers[0] as i64, f64::from_bits(numbers[1]));
    let (half, capacity) = (numbers[2] != 0, numbers[3] as i64);
    let systems = usize::try_from(systems)
        .map_err(|_| Error::argument("systems", "a number from 0 up", systems.to_string()))?;
    let Some(Place::Cuda(ordinal)) = tensors.first().map(Tensor::place).transpose()?.flatten() else {
        return Err(Error::argument("positions", "a tensor on a CUDA device", "one on another device"));
    };
    let place = Place::Cuda(ordinal);
    let mut given = Vec::with_capacity(TENSORS);
    for (tensor, name) in tensors.into_iter().zip(NAMES) {
        let host = name == "pbc" && tensor.place()? == Some(Place::Host);
        given.push(tensor.look(if host { Place::Host } else { place }, &|| name.into())?);
    }
    let views: Vec<View<'_>> = given.iter().map(InputTensor::view).collect::<Result<_>>()?;
    let [positions, cell, pbc, of] = &views[..] else {
        return Err(Error::argument("tensors", format!("{TENSORS} of them"), views.len().to_string()));
    };
    let stream = stream(ordinal)?;
    let (cuda, memory) = (Cuda::new(stream), TorchCudaMemory { stream });
    let context = Context { allocator: &memory, ..Context::new(&cuda) };
    let mut ptr = context.allocator.room(DType::I32, &[systems + 1])?;
    let batch = DeviceBatch::derived(of.clone(), &mut ptr)?;
    let pbc = axes(pbc)?;
    let frame = DeviceFrame { positions, cell: Some(cell), pbc: &pbc, batch: &batch };
    let kind = if half { Kind::Half } else { Kind::Full };
    let counted = DeviceCoo::count(&cuda, &context, &frame, cutoff, kind)?;
    let room = match usize::try_from(capacity) {
        Ok(room) => room,
        Err(_) => counted.total()?,
    };
    let mut list = CooArrays::room(&context, batch.atoms(), room)?;
    counted.write(&mut list)?;
    checked(stream)?;
    [list.list, list.ptr, list.shifts].into_iter().map(Tensor::from_array).collect()
}

/// The periodic axes, on the host or on the device.
fn axes<'a>(view: &View<'a>) -> Result<Periodic<'a>> {
    if view.place() != Place::Host {
        return Ok(Periodic::Each(view.clone()));
    }
    match view.data() {
        Data::I32([a, b, c]) => Ok(Periodic::All([a, b, c].map(|axis| *axis != 0))),
        _ => {
            let got = format!("{} {:?}", view.dtype(), view.shape());
            Err(Error::argument("pbc", "int32 [1, 3] on the host", got))
        }
    }
}
