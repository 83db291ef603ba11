//! Pair lists from the tensors of a framework.

use super::super::Structure;
use super::{DevicePairs, Kind, PairList};
use crate::array::{DType, Place, View};
use crate::backend::Context;
use crate::{Error, Result};

/// Kinds of pair lists, by their numbers in a call.
pub const KINDS: [&str; 3] = ["full", "half", "directed"];

/// Added to the number of a list that is known to be of its kind (a search made it, or a call has checked it before): the
/// call then checks that every index is in range, and not once more that a full list is full.
pub const CHECKED: i64 = 4;

impl Kind {
    /// The kind of a number of [`KINDS`].
    ///
    /// # Errors
    /// `pairs`, where it is none.
    pub fn of_number(number: i64) -> Result<Self> {
        match number {
            0 => Ok(Self::Full),
            1 => Ok(Self::Half),
            2 => Ok(Self::Directed),
            _ => {
                let names = KINDS.iter().enumerate().map(|(n, name)| format!("{n} ({name})"));
                let expected = format!("a kind of list: {}", names.collect::<Vec<_>>().join(", "));
                Err(Error::argument("pairs", expected, number.to_string()))
            }
        }
    }
}

/// List from its kind and whether this is known, `neighbor_ptr` (N + 1,), columns (P,) and images (P, 3).
#[expect(unsafe_code, reason = "a list that its caller calls checked is not checked again")]
pub(in super::super) fn build<'a>(
    context: &Context<'_>,
    [ptr, others, shifts]: [&View<'a>; 3],
    (kind, checked): (Kind, bool),
    columns: usize,
) -> Result<Box<dyn Structure + 'a>> {
    if context.backend.place() == Place::Host {
        let list = if checked { PairList::from_checked_csr_arrays } else { PairList::from_csr_arrays };
        return Ok(Box::new(list(ptr, others, shifts, columns, kind)?));
    }
    let narrow = |view: &View<'a>| context.widened(view, DType::I32);
    let list = if ptr.dtype() == DType::I32 && !ptr.is_empty() {
        // The check of the call widens the offsets.
        let wide = context.allocator.room(DType::I64, ptr.shape())?;
        DevicePairs::widened(ptr.clone(), wide, narrow(others)?, narrow(shifts)?, columns, kind)?
    } else {
        let ptr = context.widened(ptr, DType::I64)?;
        DevicePairs::from_csr(ptr, narrow(others)?, narrow(shifts)?, columns, kind)?
    };
    // SAFETY: the caller says that the list was checked, or made by a search, and not changed since.
    Ok(Box::new(if checked { unsafe { list.assume_checked() } } else { list }))
}
