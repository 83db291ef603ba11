//! Tensors in the memory of a device as the arguments of an op: what is not there as kernels want it is made there.
#![expect(unsafe_code, reason = "a list that its caller calls checked is not checked again")]

use crate::Entry;
use crate::arguments::{Cursor, Made, kind_of_list, renamed, size_of};
use crate::layout::{CHECKED, Part};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::device::{DeviceBatch, DeviceMap, DevicePairs};
use madelung_core::mesh::Mesh;
use madelung_core::op::ArgKind;
use madelung_core::{Error, Result};

/// What was made for an argument, for the length of a call.
#[derive(Default)]
pub(crate) struct Room {
    /// Integers in the width of kernels, by the argument's tensors.
    integers: [Option<Array>; 3],
    /// Where the systems of a batch begin, or the offsets of a list in 64 bits: the call writes them.
    ptr: Option<Array>,
}

/// Integers as `dtype`, with a room of their own where they are not.
fn widened(context: &Context<'_>, name: &str, view: &View<'_>, dtype: DType) -> Result<Option<Array>> {
    if view.dtype().is_real() {
        return Err(Error::argument(name, "a tensor of int32 or int64", view.dtype().to_string()));
    }
    if view.dtype() == dtype {
        return Ok(None);
    }
    let mut array = context.allocator.room(dtype, view.shape())?;
    // What is no i32 is cut, and found out of range where indices are checked.
    context.cast_integers(view, &mut array)?;
    Ok(Some(array))
}

/// Makes what the arguments of a call lack.
pub(crate) fn rooms(
    context: &Context<'_>,
    entry: &Entry,
    given: &[View<'_>],
    numbers: &[u64],
) -> Result<Vec<Room>> {
    let mut cursor = Cursor::new(given, numbers);
    let mut rooms = Vec::with_capacity(entry.op.args.len());
    for (n, spec) in entry.op.args.iter().enumerate() {
        let name = spec.name.as_str();
        let mut room = Room::default();
        match &spec.kind {
            ArgKind::Batch { systems, .. } => {
                room.integers[0] = widened(context, name, cursor.tensor(), DType::I32)?;
                let systems = cursor
                    .size_or(entry, n, Part::Systems, name, || size_of(entry, given, numbers, systems))?;
                room.ptr = Some(context.allocator.room(DType::I32, &[systems + 1])?);
            }
            ArgKind::Pairs { .. } => {
                let ptr = cursor.tensor();
                if ptr.dtype() == DType::I32 && !ptr.is_empty() {
                    room.ptr = Some(context.allocator.room(DType::I64, ptr.shape())?);
                } else {
                    room.integers[0] = widened(context, name, ptr, DType::I64)?;
                }
                for integers in &mut room.integers[1..] {
                    *integers = widened(context, name, cursor.tensor(), DType::I32)?;
                }
                cursor.skip_numbers(entry, n);
            }
            ArgKind::Map { .. } => {
                room.integers[0] = widened(context, name, cursor.tensor(), DType::I32)?;
                cursor.skip_numbers(entry, n);
            }
            _ => cursor.skip(entry, n),
        }
        rooms.push(room);
    }
    Ok(rooms)
}

/// Gives the rooms of a call back.
pub(crate) fn close(context: &Context<'_>, rooms: Vec<Room>) {
    for room in rooms {
        let arrays = room.integers.into_iter().flatten().chain(room.ptr);
        arrays.for_each(|array| context.allocator.recycle(array));
    }
}

/// Batches, lists, maps and meshes.
pub(crate) fn make<'a>(
    entry: &Entry,
    given: &'a [View<'a>],
    numbers: &[u64],
    rooms: &'a mut [Room],
) -> Result<Vec<Made<'a>>> {
    let mut cursor = Cursor::new(given, numbers);
    let size = |dim: &str| size_of(entry, given, numbers, dim);
    let mut made = Vec::with_capacity(entry.op.args.len());
    for ((n, spec), room) in entry.op.args.iter().enumerate().zip(rooms) {
        let name = spec.name.as_str();
        let Room { integers, ptr: room } = room;
        let integers = |at: usize, view: &'a View<'a>| match &integers[at] {
            Some(array) => array.view(),
            None => view.clone(),
        };
        made.push(match &spec.kind {
            ArgKind::Batch { .. } => {
                let of = integers(0, cursor.tensor());
                cursor.skip_numbers(entry, n);
                let room = room.as_mut().expect("made for every batch");
                Made::DeviceBatch(DeviceBatch::derived(of, room).map_err(|e| renamed(e, name))?)
            }
            ArgKind::Pairs { columns, .. } => {
                let ptr = integers(0, cursor.tensor());
                let (others, shifts) = (integers(1, cursor.tensor()), integers(2, cursor.tensor()));
                let kind = cursor.number() as i64;
                let columns = cursor.size_or(entry, n, Part::Columns, name, || size(columns))?;
                let rows = ptr.shape().first().copied().unwrap_or(0).saturating_sub(1);
                let list = kind_of_list(kind).and_then(|of| match room {
                    Some(room) => DevicePairs::widened(ptr, room, others, shifts, columns, of),
                    None => {
                        let (starts, ends) = (ptr.rows(0, rows)?, ptr.rows(1, rows)?);
                        DevicePairs::new(starts, ends, others, shifts, columns, of)
                    }
                });
                let list = list.map_err(|e| renamed(e, name))?;
                Made::DevicePairs(Box::new(if kind & CHECKED == 0 {
                    list
                } else {
                    // SAFETY: the caller says that the list was checked, or made by a search, and not changed since.
                    unsafe { list.assume_checked() }
                }))
            }
            ArgKind::Map { into, .. } => {
                let of = integers(0, cursor.tensor());
                let into = cursor.size_or(entry, n, Part::Into, name, || size(into))?;
                Made::DeviceMap(DeviceMap::new(of, into).map_err(|e| renamed(e, name))?)
            }
            ArgKind::Mesh { systems, .. } => {
                let sizes = [cursor.size(name)?, cursor.size(name)?, cursor.size(name)?];
                let order = cursor.size(name)?;
                let systems = cursor.size_or(entry, n, Part::Systems, name, || size(systems))?;
                Made::Mesh(Mesh::new(sizes, order, systems).map_err(|e| renamed(e, name))?)
            }
            _ => {
                cursor.skip(entry, n);
                Made::Nothing
            }
        });
    }
    Ok(made)
}
