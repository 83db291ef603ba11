//! Neighbour lists on CUDA devices.

use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::device::DeviceBatch;
use madelung::neighbors::{CooArrays, DeviceCoo, DeviceFrame, Periodic};
use madelung::pairs::Kind;
use madelung::{Error, Result};
use pyo3::prelude::*;

use crate::call::compute;
use crate::device::{DeviceArray, DeviceStream, with_arrays};

/// An optional array of a frame.
type OptionalArray<'py> = Option<Bound<'py, DeviceArray>>;

/// The pairs (2, P), the offsets of each atom's pairs, and images. The arrays have a capacity of `capacity` pairs;
/// without one the call waits for the number of pairs. The frame is positions, cells, the periodic axes of each system
/// (without them `axes` for all), and the system of each atom.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the arguments of a search")]
pub(crate) fn device_neighbors<'py>(
    py: Python<'py>,
    frame: (Bound<'py, DeviceArray>, OptionalArray<'py>, OptionalArray<'py>, Bound<'py, DeviceArray>),
    axes: [bool; 3],
    systems: usize,
    cutoff: f64,
    half: bool,
    capacity: Option<usize>,
    stream: &DeviceStream,
) -> PyResult<(DeviceArray, DeviceArray, DeviceArray)> {
    let lane = &stream.0;
    let [positions, batch_idx] = [&frame.0, &frame.3].map(Bound::get);
    let [cell, pbc] = [&frame.1, &frame.2].map(|array| array.as_ref().map(Bound::get));
    let kind = if half { Kind::Half } else { Kind::Full };
    compute(py, || {
        let named =
            [("positions", Some(positions)), ("cell", cell), ("pbc", pbc), ("batch_idx", Some(batch_idx))];
        let named: Vec<_> =
            named.into_iter().filter_map(|(name, array)| Some((array?, name.to_string()))).collect();
        with_arrays(lane, &named, || {
            let cuda = lane.cuda();
            let context = lane.context(&cuda);
            let narrow = narrowed(&context, &batch_idx.view())?;
            let of = narrow.as_ref().map_or_else(|| batch_idx.view(), Array::view);
            let mut ptr = context.allocator.room(DType::I32, &[systems + 1])?;
            let batch = DeviceBatch::derived(of, &mut ptr)?;
            let pbc = pbc.map_or(Periodic::All(axes), |array| Periodic::Each(array.view()));
            let (positions, cell) = (positions.view(), cell.map(DeviceArray::view));
            let frame = DeviceFrame { positions: &positions, cell: cell.as_ref(), pbc: &pbc, batch: &batch };
            let counted = DeviceCoo::count(&cuda, &context, &frame, cutoff, kind)?;
            let capacity = capacity.map_or_else(|| counted.total(), Ok)?;
            let mut list = CooArrays::room(&context, batch.atoms(), capacity)?;
            counted.write(&mut list)?;
            let made = |array| DeviceArray::made(lane, array);
            Ok((made(list.list), made(list.ptr), made(list.shifts)))
        })
    })
}

/// The system of each atom as int32, unless it is int32 already.
fn narrowed(context: &Context<'_>, idx: &View<'_>) -> Result<Option<Array>> {
    if idx.dtype().is_real() {
        return Err(Error::argument("batch_idx", "int32 or int64", idx.dtype().to_string()));
    }
    if idx.dtype() == DType::I32 {
        return Ok(None);
    }
    let mut narrow = context.allocator.room(DType::I32, idx.shape())?;
    // Numbers that do not fit are truncated; the check of indices finds them out of range.
    context.cast_integers(idx, &mut narrow)?;
    Ok(Some(narrow))
}
