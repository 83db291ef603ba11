//! Layout of an op's arguments in the call of a framework: tensors, integers and floats. A structured argument is several
//! of them, in a fixed order.

pub use crate::structures::{CHECKED, KINDS, Part};
use crate::structures::{Says, parts};
use madelung_core::op::{ArgKind, Op, Size};
use madelung_core::{Error, Result};
use serde::Serialize;
use std::collections::BTreeSet;

/// Type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// Tensor.
    Tensor,
    /// 64-bit integer.
    Int,
    /// Double.
    Float,
    /// List of 64-bit integers of the host, of any length; a tensor on the CPU where a framework's calls have no lists.
    Integers,
}

/// Input of an op in a framework.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
    /// The argument of the op that it belongs to.
    pub arg: usize,
    /// The part of the argument that it is.
    pub part: Part,
    /// Content of a part of a structured argument.
    #[serde(skip)]
    pub(crate) says: Option<Says>,
}

/// The inputs that stand for an op's arguments.
///
/// # Errors
/// Where there is a grid among them, which no tensors stand for yet.
pub fn inputs(op: &Op) -> Result<Vec<Input>> {
    // Arrays that may come empty say nothing about sizes.
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for arg in op.passed() {
        if let ArgKind::Real { shape, zero: false } | ArgKind::Ints { shape, .. } = &arg.kind {
            known.extend(shape.iter().filter_map(|s| if let Size::Dim(d) = s { Some(&**d) } else { None }));
        }
        if let Some(declared) = arg.kind.structure().filter(|declared| !declared.is_grid) {
            known.extend(parts(declared.kind).iter().filter_map(|part| match part.says {
                Says::Rows(dim, _) => declared.dims[dim],
                _ => None,
            }));
        }
    }
    let mut inputs = vec![];
    for (arg, spec) in op.passed().iter().enumerate() {
        let mut add = |suffix: &str, kind: Type, part: Part, says: Option<Says>| {
            inputs.push(Input { name: format!("{}{suffix}", spec.name), kind, arg, part, says });
        };
        match (&spec.kind, spec.kind.structure()) {
            (_, Some(declared)) if declared.is_grid => {
                let message = format!(
                    "{} queries the grid `{}`, which no framework passes yet: search first, and give the op a pair list",
                    op.full_name(),
                    spec.name
                );
                return Err(Error::Unsupported(message));
            }
            (_, Some(declared)) => {
                for part in parts(declared.kind) {
                    let kind = match part.says {
                        Says::Rows(..) | Says::Entries => Type::Tensor,
                        Says::Size(dim) if declared.dims[dim].is_some_and(|dim| known.contains(dim)) => {
                            continue;
                        }
                        Says::Number | Says::Size(_) => Type::Int,
                        Says::Numbers => Type::Integers,
                    };
                    add(part.suffix, kind, part.part, Some(part.says));
                }
            }
            (ArgKind::Real { .. }, _) => add("", Type::Tensor, Part::Real, None),
            (ArgKind::Ints { .. }, _) => add("", Type::Tensor, Part::Ints, None),
            (ArgKind::Scalar, _) => add("", Type::Float, Part::Scalar, None),
            _ => add("", Type::Int, Part::IntScalar, None),
        }
    }
    Ok(inputs)
}
