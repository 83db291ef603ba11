//! Lists in coordinate form, as frameworks have them.

use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;

/// List of up to C pairs of N atoms in coordinate form, on the host or in the memory of a device.
///
/// With a capacity C, atoms behind the last pair are N and images zeros. A list of more than C pairs has no pair at all in it, and
/// offsets that say how many there are (up to `i32::MAX`, which no room is enough for). So has one that could not be made,
/// but for its offsets: 0, and then C + 1.
#[derive(Debug)]
pub struct CooArrays {
    /// Pairs (i, j), sorted: int32 (2, C).
    pub list: Array,
    /// The offsets of each atom's pairs: int32 (N + 1,).
    pub ptr: Array,
    /// The image S of each pair, r_ij = r_j − r_i + S · cell: int32 (C, 3).
    pub shifts: Array,
}

/// Integers where the caller wants result `n`, or from the context's allocator.
pub(crate) fn room(context: &Context<'_>, n: usize, shape: &[usize]) -> Result<Array> {
    match context.allocator.result(n, DType::I32, shape)? {
        Some(array) => Ok(array),
        None => context.allocator.room(DType::I32, shape),
    }
}

impl CooArrays {
    /// Arrays from the context's allocator.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn room(context: &Context<'_>, atoms: usize, capacity: usize) -> Result<Self> {
        let room = |n, shape: &[usize]| room(context, n, shape);
        Ok(Self {
            list: room(0, &[2, capacity])?,
            ptr: room(1, &[atoms + 1])?,
            shifts: room(2, &[capacity, 3])?,
        })
    }

    /// The list of the host with room for `capacity` pairs, filled up as on a device.
    pub(crate) fn with_room(self, context: &Context<'_>, capacity: usize) -> Result<Self> {
        let atoms = self.ptr.shape()[0] - 1;
        let mut wide = Self::room(context, atoms, capacity)?;
        let pairs = self.shifts.shape()[0];
        if let (
            [Array::I32(list), Array::I32(ptr), Array::I32(shifts)],
            [Array::I32(i), Array::I32(p), Array::I32(s)],
        ) = ([&mut wide.list, &mut wide.ptr, &mut wide.shifts], [&self.list, &self.ptr, &self.shifts])
        {
            ptr.copy_from_slice(p);
            list.fill(atoms as i32);
            shifts.fill(0);
            if pairs <= capacity {
                list[..pairs].copy_from_slice(&i[..pairs]);
                list[capacity..][..pairs].copy_from_slice(&i[pairs..]);
                shifts[..3 * pairs].copy_from_slice(s);
            }
        }
        [self.list, self.ptr, self.shifts].into_iter().for_each(|array| context.allocator.recycle(array));
        Ok(wide)
    }
}
