//! Lists in coordinate form, as frameworks have them.

use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;

/// List of up to C pairs of N atoms in coordinate form, on the host or in the memory of a device.
///
/// On a device atoms behind the last pair are N and images zeros. A list of more than C pairs has no pair at all in it, and
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

impl CooArrays {
    /// Arrays from the context's allocator.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn room(context: &Context<'_>, atoms: usize, capacity: usize) -> Result<Self> {
        let room = |shape: &[usize]| context.allocator.room(DType::I32, shape);
        Ok(Self { list: room(&[2, capacity])?, ptr: room(&[atoms + 1])?, shifts: room(&[capacity, 3])? })
    }
}
