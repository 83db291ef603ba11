//! The inputs of an op, by the names of a function's parameters.

use madelung::Error;
use madelung::op::ArgKind;
use madelung_bridge::Entry;
use madelung_bridge::layout::{Input, Part, Type};
use pyo3::prelude::*;

use crate::call::exception;

/// A parameter of a function, by its place among all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Argument(pub(super) usize);

/// Source of an input of an op.
pub(super) enum Source {
    /// An array of so many axes.
    Array(Argument, usize),
    /// The cell, of all systems or of each; whether it may be left out, as the sum over pairs of a molecule is the same in
    /// any.
    Cell(Argument, bool),
    /// A number of each system, or of all; and whether it is one number, of which 0, its default, says that nothing is split
    /// by it.
    PerSystem(Argument, bool),
    /// An array that is zero in every call.
    Zero,
    /// The system of each row of a tensor of this number; None where there is one system.
    SystemOf(Argument, usize),
    /// A part of the neighbour list.
    List(Part),
    /// The nodes of a mesh, and the order of its splines.
    Mesh(Argument, Argument),
    Prefactor(Argument),
    /// The cutoff; if it may be left out, it is that of the list.
    Cutoff(Argument, bool),
    /// The distance from which energies go to zero.
    Taper(Argument),
    /// A distance from which an end begins that energies do not have: the cutoff.
    NoEnd,
}

impl Source {
    pub(super) fn places(&self) -> Vec<Argument> {
        match *self {
            Self::Array(of, _)
            | Self::Cell(of, _)
            | Self::PerSystem(of, ..)
            | Self::SystemOf(of, _)
            | Self::Prefactor(of)
            | Self::Cutoff(of, _)
            | Self::Taper(of) => vec![of],
            Self::Mesh(nodes, order) => vec![nodes, order],
            Self::Zero | Self::NoEnd | Self::List(_) => vec![],
        }
    }
}

/// Names of a function's parameters, each with its default, if it has one.
pub(super) type Parameters<'py> = Vec<(String, Vec<Bound<'py, PyAny>>)>;

pub(super) fn place(parameters: &Parameters<'_>, name: &str) -> PyResult<Argument> {
    let at = parameters.iter().position(|(other, _)| other == name).map(Argument);
    at.ok_or_else(|| exception(Error::argument(name, "a parameter of the function", "none")))
}

/// Parameters of a function that have their defaults.
pub(super) type Others = Vec<(Argument, Py<PyAny>)>;

/// All parameters but some, and their defaults.
pub(super) fn others(parameters: &Parameters<'_>, used: &[Argument]) -> PyResult<Others> {
    let rest = parameters.iter().enumerate().filter(|(n, _)| !used.contains(&Argument(*n)));
    let others = rest.map(|(n, (name, default))| match default.first() {
        Some(default) => Ok((Argument(n), default.clone().unbind())),
        None => Err(exception(Error::argument(name, "a default, as the op has no such input", "none"))),
    });
    others.collect()
}

/// The inputs of an op, by the names of parameters.
pub(super) fn sources(entry: &Entry, parameters: &Parameters<'_>) -> PyResult<Vec<Source>> {
    let args = &entry.op.args;
    let shape = |arg: usize| match &args[arg].kind {
        ArgKind::Real { shape, .. } | ArgKind::Ints { shape, .. } => &shape[..],
        _ => &[],
    };
    let systems = args.iter().position(|arg| arg.name == "cell").and_then(|arg| shape(arg).first());
    let mut tensors = 0;
    let source = |input: &Input| {
        let before = tensors;
        tensors += usize::from(input.kind == Type::Tensor);
        let (of, shape) = (|name: &str| place(parameters, name), shape(input.arg));
        Ok(match (input.part, &*input.name) {
            (Part::Real, "strain") => Source::Zero,
            (Part::Real, "cell") => {
                let at = of("cell")?;
                Source::Cell(at, !parameters[at.0].1.is_empty())
            }
            (Part::Real, name) if shape.len() == 1 && shape.first() == systems => {
                let at = of(name)?;
                let is_zero = |default: &Bound<'_, PyAny>| default.extract::<f64>().is_ok_and(|x| x == 0.0);
                Source::PerSystem(at, parameters[at.0].1.first().is_some_and(is_zero))
            }
            (Part::Ints, "miller") => Source::Array(of("miller_indices")?, shape.len()),
            (Part::Real | Part::Ints, name) => Source::Array(of(name)?, shape.len()),
            (Part::MapOf, name) => Source::Array(of(name)?, 1),
            (Part::BatchIdx, "waves") => Source::SystemOf(of("miller_batch_idx")?, before - 1),
            (Part::BatchIdx, _) => Source::SystemOf(of("batch_idx")?, 0),
            (Part::Meshes, _) => Source::Mesh(of("mesh_dimensions")?, of("spline_order")?),
            (Part::Scalar, "prefactor") => Source::Prefactor(of("prefactor")?),
            (Part::Scalar, "cutoff") => {
                let at = of("cutoff")?;
                Source::Cutoff(at, !parameters[at.0].1.is_empty())
            }
            (Part::Scalar, "taper") => Source::Taper(of("onset")?),
            (Part::Scalar, "switch") => Source::NoEnd,
            (part @ (Part::Ptr | Part::Others | Part::Shifts | Part::ListKind), _) => Source::List(part),
            (_, name) => {
                return Err(exception(Error::argument(name, "an input of a straight call", "another")));
            }
        })
    };
    entry.inputs.iter().map(source).collect()
}
