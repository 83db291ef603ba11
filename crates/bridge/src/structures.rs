//! Structured arguments in the call of a framework: several tensors and integers, in a fixed order.
#![expect(unsafe_code, reason = "a list that its caller calls checked is not checked again")]

use madelung_core::array::{DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::runtime::StructureKind;
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{
    Batch, DeviceBatch, DeviceMap, DevicePairs, Integers, Map, Mesh, Neighbors, Structure, Window,
};
use madelung_core::{Error, Result};
use serde::Serialize;

/// Part of an argument in the call of a framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Differentiable array. One that is zero in every call may come as an empty tensor of shape (0,).
    Real,
    /// Array of integers.
    Ints,
    /// The system of each row of a batch, (rows,).
    BatchIdx,
    /// The number of systems, where no array has it.
    Systems,
    /// The first pair of each row, and the number of pairs, (rows + 1,).
    Ptr,
    /// The column of each pair, (P,).
    Others,
    /// The image of each pair, (P, 3).
    Shifts,
    /// The kind of a list: see [`KINDS`] and [`CHECKED`].
    ListKind,
    /// The number of columns, where no array has it.
    Columns,
    /// The element of each row of a map, (rows,).
    MapOf,
    /// The number of elements, where no array has it.
    Into,
    /// Three sizes of a mesh and the order of its splines, and of a window three origins and extents; of all systems or of
    /// each.
    Meshes,
    /// Real attribute.
    Scalar,
    /// Integer attribute.
    IntScalar,
}

/// Content of a part, and the dimension of the structure whose size it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Tensor with an element for each row of a dimension, and so many more.
    Rows(usize, usize),
    /// Tensor with an element, or three, for each entry of a list.
    Entries,
    /// Integer.
    Number,
    /// Integers.
    Numbers,
    /// Size of a dimension, an integer: a part only where no tensor of the op tells it.
    Size(usize),
}

/// Part of a structure: the end of its name, and its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartSpec {
    /// The part.
    pub(crate) part: Part,
    /// End of the part's name, behind the argument's.
    pub(crate) suffix: &'static str,
    /// Content.
    pub(crate) says: Says,
}

const fn part(part: Part, suffix: &'static str, says: Says) -> PartSpec {
    PartSpec { part, suffix, says }
}

/// Parts of a kind of structure, in their order in a call.
pub(crate) fn parts(kind: StructureKind) -> &'static [PartSpec] {
    use Says::{Entries, Number, Numbers, Rows, Size};
    match kind {
        StructureKind::Batch => {
            const { &[part(Part::BatchIdx, "", Rows(0, 0)), part(Part::Systems, "_systems", Size(1))] }
        }
        StructureKind::Pairs => {
            const {
                &[
                    part(Part::Ptr, "_ptr", Rows(0, 1)),
                    part(Part::Others, "", Entries),
                    part(Part::Shifts, "_shifts", Entries),
                    part(Part::ListKind, "_kind", Number),
                    part(Part::Columns, "_columns", Size(1)),
                ]
            }
        }
        StructureKind::Map => {
            const { &[part(Part::MapOf, "", Rows(0, 0)), part(Part::Into, "_into", Size(1))] }
        }
        StructureKind::Mesh => {
            const { &[part(Part::Meshes, "", Numbers), part(Part::Systems, "_systems", Size(0))] }
        }
    }
}

/// Kinds of pair lists, by their numbers in a call.
pub const KINDS: [&str; 3] = ["full", "half", "directed"];

/// Added to the number of a list that is known to be of its kind (a search made it, or a call has checked it before): the
/// call then checks that every index is in range, and not once more that a full list is full.
pub const CHECKED: i64 = 4;

/// Structure from its parts: tensors of integers, and numbers, sizes included.
///
/// # Errors
/// Those of the structure, under the names of its constructor's arguments.
pub(crate) fn build<'a>(
    kind: StructureKind,
    context: &Context<'_>,
    tensors: &[&View<'a>],
    numbers: &[i64],
) -> Result<Box<dyn Structure + 'a>> {
    let size =
        |n: i64| usize::try_from(n).map_err(|_| Error::argument("size", "a number ≥ 0", n.to_string()));
    let sizes = || numbers.iter().map(|n| size(*n)).collect::<Result<Vec<usize>>>();
    match kind {
        StructureKind::Batch => batch(context, exactly(tensors)?, exactly(&sizes()?)?),
        StructureKind::Map => map(context, exactly(tensors)?, exactly(&sizes()?)?),
        StructureKind::Mesh => mesh(&sizes()?),
        StructureKind::Pairs => {
            let [kind, columns] = exactly(numbers)?;
            let checked = kind & CHECKED != 0;
            pairs(context, exactly(tensors)?, (kind_of(kind & !CHECKED)?, checked), size(columns)?)
        }
    }
}

fn exactly<T: Copy, const N: usize>(given: &[T]) -> Result<[T; N]> {
    let wrong = |_| Error::argument("parts", format!("{N} tensors or numbers"), given.len().to_string());
    given.try_into().map_err(wrong)
}

/// The kind of a number of [`KINDS`].
fn kind_of(number: i64) -> Result<Kind> {
    match number {
        0 => Ok(Kind::Full),
        1 => Ok(Kind::Half),
        2 => Ok(Kind::Directed),
        _ => {
            let names = KINDS.iter().enumerate().map(|(n, name)| format!("{n} ({name})"));
            let expected = format!("a kind of list: {}", names.collect::<Vec<_>>().join(", "));
            Err(Error::argument("pairs", expected, number.to_string()))
        }
    }
}

/// Batch from the tensors of a framework: `batch_idx` (N,), and the number of systems.
fn batch<'a>(
    context: &Context<'_>,
    [batch_idx]: [&View<'a>; 1],
    [systems]: [usize; 1],
) -> Result<Box<dyn Structure + 'a>> {
    if context.backend.place() == Place::Host {
        return Ok(Box::new(Batch::from_idx_array(batch_idx, Some(systems))?));
    }
    let ptr = context.allocator.room(DType::I32, &[systems + 1])?;
    Ok(Box::new(DeviceBatch::derived(widened(context, batch_idx, DType::I32)?, ptr)?))
}

/// List from its kind and whether this is known, `neighbor_ptr` (N + 1,) or where rows begin and end (2, N), columns (P,) and images, (P, 3) or packed (P,); on
/// the host also in clusters: see [`Neighbors::from_arrays`].
fn pairs<'a>(
    context: &Context<'_>,
    [ptr, others, shifts]: [&View<'a>; 3],
    (kind, checked): (Kind, bool),
    columns: usize,
) -> Result<Box<dyn Structure + 'a>> {
    if context.backend.place() == Place::Host {
        return Ok(Box::new(Neighbors::from_arrays([ptr, others, shifts], columns, kind, checked)?));
    }
    if others.shape().len() != 1 {
        let got = "one in clusters, which are lists of the CPU";
        return Err(Error::argument("neighbors", "a list that was made on the device", got));
    }
    let narrow = |view: &View<'a>| widened(context, view, DType::I32);
    let list = if ptr.shape().len() == 2 {
        let ranges = widened(context, ptr, DType::I64)?;
        DevicePairs::from_ranges(ranges, narrow(others)?, narrow(shifts)?, columns, kind)?
    } else if ptr.dtype() == DType::I32 && !ptr.is_empty() {
        // The check of the call widens the offsets.
        let wide = context.allocator.room(DType::I64, ptr.shape())?;
        DevicePairs::widened(ptr.clone(), wide, narrow(others)?, narrow(shifts)?, columns, kind)?
    } else {
        let ptr = widened(context, ptr, DType::I64)?;
        DevicePairs::from_csr(ptr, narrow(others)?, narrow(shifts)?, columns, kind)?
    };
    // SAFETY: the caller says that the list was checked, or made by a search, and not changed since.
    Ok(Box::new(if checked { unsafe { list.assume_checked() } } else { list }))
}

/// Map from the tensors of a framework: the element of each row, (N,), and the number of elements.
fn map<'a>(
    context: &Context<'_>,
    [of]: [&View<'a>; 1],
    [into]: [usize; 1],
) -> Result<Box<dyn Structure + 'a>> {
    if context.backend.place() == Place::Host {
        return Ok(Box::new(Map::new(of.to_i32("map")?, into)?));
    }
    Ok(Box::new(DeviceMap::new(widened(context, of, DType::I32)?, into)?))
}

/// Meshes from the numbers of a framework: K₁, K₂, K₃ and the order of the splines, and of windows three origins and extents;
/// of all systems or of each, and the number of systems.
fn mesh<'a>(numbers: &[usize]) -> Result<Box<dyn Structure + 'a>> {
    let Some((systems, numbers)) = numbers.split_last() else {
        return Err(Error::argument("mesh", "the number of systems", "none"));
    };
    let of_window = |[k1, k2, k3, order, o1, o2, o3, e1, e2, e3]: &[usize; 10]| {
        ([*k1, *k2, *k3], *order, Window { origin: [*o1, *o2, *o3], extent: [*e1, *e2, *e3] })
    };
    Ok(Box::new(match (numbers.as_chunks(), numbers.as_chunks()) {
        (([[k1, k2, k3, order]], []), _) => Mesh::new([*k1, *k2, *k3], *order, *systems)?,
        (_, ([window], [])) => Mesh::of_windows(&vec![of_window(window); *systems])?,
        ((each, []), _) if each.len() == *systems => {
            let each = each.iter().map(|[k1, k2, k3, order]| ([*k1, *k2, *k3], *order));
            Mesh::of_systems(&each.collect::<Vec<_>>())?
        }
        (_, (each, [])) if each.len() == *systems => {
            Mesh::of_windows(&each.iter().map(of_window).collect::<Vec<_>>())?
        }
        _ => {
            let expected = format!(
                "three sizes and the order of the splines (and the origin and the extent of a window), once or of each of \
                 {systems} systems"
            );
            return Err(Error::argument("mesh", expected, format!("{} integers", numbers.len())));
        }
    }))
}

/// Integers in the memory of a device as int32 or int64: a view where they are, an array where they are of the other width.
/// An integer that is no int32 is cut, and found out of range where indices are checked.
fn widened<'a>(context: &Context<'_>, view: &View<'a>, dtype: DType) -> Result<Integers<'a>> {
    if view.dtype() == dtype {
        return Ok(view.clone().into());
    }
    let mut array = context.allocator.room(dtype, view.shape())?;
    context.cast_integers(view, &mut array)?;
    Ok(array.into())
}
