//! How an op's arguments lie in a framework's call: tensors, integers and floats. A structured argument is several of
//! them, in a fixed order.

use madelung_core::op::{ArgKind, Op, Size};
use madelung_core::{Error, Result};
use serde::Serialize;
use std::collections::BTreeSet;

/// The type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A tensor.
    Tensor,
    /// A 64-bit integer.
    Int,
    /// A double.
    Float,
}

/// What an input is of its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A differentiable array. One that is zero in every call may come as an empty tensor of shape (0,).
    Real,
    /// An array of integers.
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
    /// The kind of a list: see [`KINDS`] and [`CHECKED`].
    ListKind,
    /// The number of columns, where no array has it.
    Columns,
    /// The element of each row of a map, (rows,).
    MapOf,
    /// The number of elements, where no array has it.
    Into,
    /// One of the three sizes of a mesh.
    MeshSize,
    /// The order of its splines.
    SplineOrder,
    /// A real attribute.
    Scalar,
    /// An integer attribute.
    IntScalar,
}

/// The kinds of pair lists, by their numbers in a call.
pub const KINDS: [&str; 3] = ["full", "half", "directed"];

/// Added to the kind of a list that is known to be what it says (Madelung's own search made it, or a call has checked
/// it before): the call then checks that every index is in range, and not once more that a full list is full.
pub const CHECKED: i64 = 4;

/// An input of an op in a framework.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
    /// The argument of the op that it belongs to.
    pub arg: usize,
    /// What it is of it.
    pub part: Part,
}

/// The inputs that stand for an op's arguments.
///
/// # Errors
/// Where there is a grid among them, which no tensors stand for yet.
pub fn inputs(op: &Op) -> Result<Vec<Input>> {
    // Arrays that may come empty say nothing about sizes.
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for arg in &op.args {
        match &arg.kind {
            ArgKind::Real { shape, zero: false } | ArgKind::Ints { shape } => {
                known.extend(
                    shape.iter().filter_map(|s| if let Size::Dim(d) = s { Some(&**d) } else { None }),
                );
            }
            ArgKind::Batch { rows, .. } | ArgKind::Map { rows, .. } | ArgKind::Pairs { rows, .. } => {
                known.insert(rows);
            }
            _ => {}
        }
    }
    let mut inputs = vec![];
    for (arg, spec) in op.args.iter().enumerate() {
        let mut add = |suffix: &str, kind: Type, part: Part| {
            inputs.push(Input { name: format!("{}{suffix}", spec.name), kind, arg, part });
        };
        match &spec.kind {
            ArgKind::Real { .. } => add("", Type::Tensor, Part::Real),
            ArgKind::Ints { .. } => add("", Type::Tensor, Part::Ints),
            ArgKind::Batch { systems, .. } => {
                add("", Type::Tensor, Part::BatchIdx);
                if !known.contains(&**systems) {
                    add("_systems", Type::Int, Part::Systems);
                }
            }
            ArgKind::Pairs { columns, .. } => {
                add("_ptr", Type::Tensor, Part::Ptr);
                add("", Type::Tensor, Part::Others);
                add("_shifts", Type::Tensor, Part::Shifts);
                add("_kind", Type::Int, Part::ListKind);
                if !known.contains(&**columns) {
                    add("_columns", Type::Int, Part::Columns);
                }
            }
            ArgKind::Grid { .. } => {
                let message = format!(
                    "{} queries the grid `{}`, which no framework passes yet: search first, and give the op a pair list",
                    op.full_name(),
                    spec.name
                );
                return Err(Error::Unsupported(message));
            }
            ArgKind::Map { into, .. } => {
                add("", Type::Tensor, Part::MapOf);
                if !known.contains(&**into) {
                    add("_into", Type::Int, Part::Into);
                }
            }
            ArgKind::Mesh { systems, .. } => {
                for suffix in ["_k1", "_k2", "_k3"] {
                    add(suffix, Type::Int, Part::MeshSize);
                }
                add("_order", Type::Int, Part::SplineOrder);
                if !known.contains(&**systems) {
                    add("_systems", Type::Int, Part::Systems);
                }
            }
            ArgKind::Scalar => add("", Type::Float, Part::Scalar),
            ArgKind::IntScalar => add("", Type::Int, Part::IntScalar),
        }
    }
    Ok(inputs)
}
