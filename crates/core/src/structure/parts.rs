//! Structures in the call of a framework: several tensors and integers, in a fixed order.

use super::pairs::{CHECKED, Kind};
use super::{Structure, batch, map, mesh, pairs};
use crate::array::View;
use crate::backend::Context;
use crate::runtime::StructureKind;
use crate::{Error, Result};
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
    /// Where the pairs of each row begin, (rows + 1,).
    Ptr,
    /// The column of each pair, (P,).
    Others,
    /// The image of each pair, (P, 3).
    Shifts,
    /// The kind of a list: see [`pairs::KINDS`] and [`CHECKED`].
    ListKind,
    /// The number of columns, where no array has it.
    Columns,
    /// The element of each row of a map, (rows,).
    MapOf,
    /// The number of elements, where no array has it.
    Into,
    /// One of the three sizes of a mesh.
    MeshSize,
    /// The order of a mesh's splines.
    SplineOrder,
    /// Real attribute.
    Scalar,
    /// Integer attribute.
    IntScalar,
}

/// Content of a part, and the dimension of the structure whose size it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Tensor with an element for each row of a dimension, and so many more.
    Rows(usize, usize),
    /// Tensor with an element, or three, for each entry of a list.
    Entries,
    /// Integer.
    Number,
    /// Size of a dimension, an integer: a part only where no tensor of the op tells it.
    Size(usize),
}

/// Part of a structure: the end of its name, and its content.
#[derive(Clone, Copy, Debug)]
pub struct PartSpec {
    /// The part.
    pub part: Part,
    /// End of the part's name, behind the argument's.
    pub suffix: &'static str,
    /// Content.
    pub says: Says,
}

const fn part(part: Part, suffix: &'static str, says: Says) -> PartSpec {
    PartSpec { part, suffix, says }
}

/// Parts of a kind of structure, in their order in a call.
pub fn parts(kind: StructureKind) -> &'static [PartSpec] {
    use Says::{Entries, Number, Rows, Size};
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
            const {
                &[
                    part(Part::MeshSize, "_k1", Number),
                    part(Part::MeshSize, "_k2", Number),
                    part(Part::MeshSize, "_k3", Number),
                    part(Part::SplineOrder, "_order", Number),
                    part(Part::Systems, "_systems", Size(0)),
                ]
            }
        }
    }
}

/// Structure from its parts: tensors of integers, and numbers, sizes included.
///
/// # Errors
/// Those of the structure, under the names of its constructor's arguments.
pub fn build<'a>(
    kind: StructureKind,
    context: &Context<'_>,
    tensors: &[&View<'a>],
    numbers: &[i64],
) -> Result<Box<dyn Structure + 'a>> {
    let size =
        |n: i64| usize::try_from(n).map_err(|_| Error::argument("size", "a number ≥ 0", n.to_string()));
    let sizes = || numbers.iter().map(|n| size(*n)).collect::<Result<Vec<usize>>>();
    match kind {
        StructureKind::Batch => batch::build(context, exactly(tensors)?, exactly(&sizes()?)?),
        StructureKind::Map => map::build(context, exactly(tensors)?, exactly(&sizes()?)?),
        StructureKind::Mesh => mesh::build(exactly(&sizes()?)?),
        StructureKind::Pairs => {
            let [kind, columns] = exactly(numbers)?;
            let checked = kind & CHECKED != 0;
            pairs::build(
                context,
                exactly(tensors)?,
                (Kind::of_number(kind & !CHECKED)?, checked),
                size(columns)?,
            )
        }
    }
}

fn exactly<T: Copy, const N: usize>(given: &[T]) -> Result<[T; N]> {
    let wrong = |_| Error::argument("parts", format!("{N} tensors or numbers"), given.len().to_string());
    given.try_into().map_err(wrong)
}
