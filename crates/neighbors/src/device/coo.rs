//! Neighbour lists in arrays of their caller, as frameworks have them: pairs (i, j), where those of each atom begin, and
//! images, all int32.

use super::passes::{self, Counted, DeviceFrame, Entries, ListParameters, integers};
use crate::CooArrays;
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::Context;
use madelung_core::structure::pairs::Kind;
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use madelung_cuda::memory::address;

/// Pairs that were counted, and are not yet written: a caller that can wait for their number allocates exactly as many.
///
/// ```text
/// let counted = DeviceCoo::count(&cuda, &context, &frame, cutoff, Kind::Full)?;
/// let mut list = CooArrays::room(&context, atoms, counted.total()?)?;     // waits
/// counted.write(&mut list)?;
/// ```
pub struct DeviceCoo<'c> {
    counted: Counted<'c>,
    atoms: usize,
    place: Place,
}

impl<'c> DeviceCoo<'c> {
    /// Counts the pairs closer than `cutoff` on the device, and waits for nothing. The arrays of the frame are not looked
    /// at again.
    ///
    /// # Errors
    /// `cutoff`, where it is not a positive number; `kind` for a directed list; the array of the frame whose dtype, shape
    /// or place is another; `cell`, where it is missing for periodic axes; the driver's.
    pub fn count(
        cuda: &Cuda,
        context: &'c Context<'c>,
        frame: &DeviceFrame<'_>,
        cutoff: f64,
        kind: Kind,
    ) -> Result<Self> {
        passes::check_kind(cutoff, kind)?;
        let place = Place::Cuda(cuda.device().ordinal());
        frame.check(place)?;
        let counted =
            Counted::new(cuda, context, frame, ListParameters { cutoff, kind, ptr: None, flags: None })?;
        Ok(Self { counted, atoms: frame.batch.atoms(), place })
    }

    /// The number of pairs; waits for the stream.
    ///
    /// # Errors
    /// An error on the device, as [`neighbor_coo`] records it; `cutoff`, where there are more pairs than 32-bit
    /// integers count; the stream captures.
    pub fn total(&self) -> Result<usize> {
        Ok(self.counted.total()?.0)
    }

    /// The number of pairs, and the shape of their images in a list of rows: packed, unless one may be too far away.
    pub(crate) fn images(&self) -> Result<(usize, Vec<usize>)> {
        let (total, packs) = self.counted.total()?;
        Ok((total, if packs { vec![total] } else { vec![total, 3] }))
    }

    /// Writes the pairs, in the order of the stream. Errors on the device go into its record.
    ///
    /// # Errors
    /// The array whose dtype, shape or place is another; the driver's.
    pub fn write(self, into: &mut CooArrays) -> Result<()> {
        let CooArrays { list, ptr, shifts } = into;
        let capacity = match list.shape() {
            [2, capacity] => *capacity,
            shape => {
                return Err(Error::argument("neighbor_list", "int32 [2, capacity]", format!("{shape:?}")));
            }
        };
        passes::check_capacity("neighbor_list", capacity)?;
        integers("neighbor_list", &list.view(), DType::I32, &[2, capacity], self.place)?;
        integers("neighbor_ptr", &ptr.view(), DType::I32, &[self.atoms + 1], self.place)?;
        integers("neighbor_shifts", &shifts.view(), DType::I32, &[capacity, 3], self.place)?;
        let [rows, ptr, shifts] = [list, ptr, shifts].map(|array| address(&array.view()));
        let others = rows + (capacity * DType::I32.size()) as u64;
        self.end(ptr, Entries { rows, others, shifts, capacity, packed: false })
    }

    /// Writes offsets (N + 1,), columns (C,) or (C, 1) and images (C, 3) or packed (C,), as [`DeviceCoo::write`] does.
    pub(crate) fn write_rows(self, [ptr, columns, shifts]: [&Array; 3]) -> Result<()> {
        let capacity = columns.shape()[0];
        let packed = shifts.shape().len() == 1;
        passes::check_capacity("neighbor_list", capacity)?;
        integers("index", &ptr.view(), DType::I32, &[self.atoms + 1], self.place)?;
        integers("columns", &columns.view(), DType::I32, columns.shape(), self.place)?;
        let shape = [capacity, 3];
        let shape = if packed { &shape[..1] } else { &shape };
        integers("images", &shifts.view(), DType::I32, shape, self.place)?;
        let [ptr, others, shifts] = [ptr, columns, shifts].map(|array| address(&array.view()));
        self.end(ptr, Entries { rows: 0, others, shifts, capacity, packed })
    }

    fn end(mut self, ptr: u64, entries: Entries) -> Result<()> {
        self.counted.fill(entries)?;
        self.counted.coordinates(ptr, entries)?;
        self.counted.end()
    }
}

/// The list of all pairs closer than `cutoff`, the CPU's bit for bit, in arrays of the caller, without the host.
///
/// Errors on the device wait in its record ([`madelung_cuda::check`]), as for a [`DeviceSearch`](super::DeviceSearch):
/// positions or cells that are not finite, cells that are flat, positions too far away, a cutoff over too many boxes,
/// and a list that has passed its capacity.
///
/// # Errors
/// Those of [`DeviceCoo::count`] and [`DeviceCoo::write`].
pub fn neighbor_coo(
    cuda: &Cuda,
    context: &Context<'_>,
    frame: &DeviceFrame<'_>,
    (cutoff, kind): (f64, Kind),
    into: &mut CooArrays,
) -> Result<()> {
    DeviceCoo::count(cuda, context, frame, cutoff, kind)?.write(into)
}
