//! Kernels that are made at run time, and ops of them.

use madelung::electrostatics::ChargeSum;
use madelung::op::{Constraint, Op, Registry};
use madelung::runtime::{Declaration, Made, Place, SourceError};
use madelung_bridge::describe;
use madelung_core::runtime::{Kernel, ParamKind};
use madelung_neighbors::coincidence;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::call::{compute, exception};

/// The ops of such kernels, by full name, and those of laws, by the prefix of their names. They live as long as the process,
/// as kernels do.
static OPS: Mutex<BTreeMap<String, &'static Registry>> = Mutex::new(BTreeMap::new());

/// The kernels of a block of source, as JSON: `kernels`, each with its `name`, `dims`, `index` (the dimension that it runs
/// over), `params` (a grid's with its `query`: the names of positions and radius) and `differentiable`; or `error`, with
/// its `message`, `line` (from 1), `column` (characters before it), `end_line` and `end_column`.
#[pyfunction]
pub(crate) fn kernels(py: Python<'_>, source: &str) -> PyResult<String> {
    let found = compute(py, || Ok(madelung::runtime::kernels(source)))?;
    let described = match found {
        Ok(made) => json!({"kernels": made.iter().map(|made| described(made)).collect::<Vec<_>>()}),
        Err(error) => json!({"error": refused(&error)}),
    };
    Ok(described.to_string())
}

/// The lowered kernels of a block of source, as text, by which tests compare what sources mean.
#[pyfunction]
pub(crate) fn lowered_kernels(py: Python<'_>, source: &str) -> PyResult<Vec<String>> {
    compute(py, || Ok(madelung::runtime::lowered_text(source)?))
}

/// The paths of the library's functions that sources can import.
#[pyfunction]
pub(crate) fn kernel_functions() -> Vec<&'static str> {
    madelung::runtime::functions().iter().map(|f| f.path).collect()
}

/// The library's own kernels: the source and the name of each.
#[pyfunction]
pub(crate) fn library_kernels() -> Vec<(&'static str, &'static str)> {
    let ops = madelung::registries().into_iter().flat_map(Registry::iter);
    let kernels = ops.flat_map(|op| op.steps().iter().filter_map(|step| step.kernel()));
    kernels.map(|kernel| (kernel.source, kernel.name)).collect::<BTreeSet<_>>().into_iter().collect()
}

fn refused(error: &SourceError) -> Value {
    let SourceError { message, start, end } = error;
    let (Place { line, column }, Place { line: end_line, column: end_column }) = (start, end);
    json!({
        "message": message, "line": line, "column": column, "end_line": end_line, "end_column": end_column
    })
}

fn described(kernel: &Kernel) -> Value {
    let dim = |d: usize| kernel.dims[d];
    let array = |kind: &str, of: Option<usize>, components: usize, width: Option<usize>| json!({"kind": kind, "dims": of.into_iter().chain(width).map(dim).collect::<Vec<_>>(), "components": components});
    let structure = |kind: &str, dims: &[Option<usize>]| json!({"kind": kind, "dims": dims.iter().map(|d| d.map(dim)).collect::<Vec<_>>()});
    let param = |(n, p): (usize, &madelung_core::runtime::Param)| {
        let mut of = match p.kind {
            ParamKind::Real { dim, components, zero, width } => {
                array(if zero { "zero" } else { "real" }, dim, components, width)
            }
            ParamKind::Output { dim, components, width } => array("output", dim, components, width),
            ParamKind::Ints { dim, components } => array("ints", Some(dim), components, None),
            ParamKind::Integers { dim, components, wide, output } => {
                let mut of = array(if output { "integer_output" } else { "ints" }, dim, components, None);
                of["dtype"] = if wide { "int64" } else { "int32" }.into();
                of
            }
            ParamKind::Scalar => json!({"kind": "scalar"}),
            ParamKind::IntScalar => json!({"kind": "int_scalar"}),
            ParamKind::Batch { rows, systems } => structure("batch", &[Some(rows), Some(systems)]),
            ParamKind::Pairs { rows, columns, entries } => {
                let query = kernel.query_of(n);
                let mut of =
                    structure(query.map_or("pairs", |_| "grid"), &[Some(rows), Some(columns), entries]);
                if let Some(query) = query {
                    of["query"] = json!([query.positions, query.radius].map(|p| kernel.params[p].name));
                }
                of
            }
            ParamKind::Map { rows, into } => structure("map", &[Some(rows), Some(into)]),
            ParamKind::Mesh { systems, nodes, waves } => {
                structure("mesh", &[Some(systems), Some(nodes), waves])
            }
        };
        of["name"] = p.name.into();
        of
    };
    json!({
        "name": kernel.name,
        "dims": kernel.dims,
        "index": dim(kernel.index),
        "params": kernel.params.iter().enumerate().map(param).collect::<Vec<_>>(),
        "differentiable": kernel.is_differentiable(),
    })
}

/// An op whose steps are kernels, `(source, name)` each: its description as JSON, for calls by name from NumPy, JAX and
/// CUDA. Grids are pair lists there. Arrays of `scratch` and `saved` pass between steps, `constraints` are conditions on
/// arguments: `positive`, `finite`, `cell` or `full`. An op that is there, of equal steps, is given back.
#[pyfunction]
pub(crate) fn kernel_op(
    py: Python<'_>,
    name: (String, String, u32),
    label: String,
    steps: Vec<(String, String)>,
    scratch: Vec<String>,
    saved: Vec<String>,
    constraints: Vec<(String, String)>,
) -> PyResult<String> {
    let described = compute(py, || {
        let constraints = constraints.into_iter().map(|(name, word)| Ok((constraint(&name, &word)?, name)));
        let constraints = constraints.map(|c| c.map(|(constraint, name)| (name, constraint)));
        let declaration = Declaration {
            scratch,
            saved,
            constraints: constraints.collect::<madelung::Result<_>>()?,
            label: Some(label),
            explain: Some(coincidence),
            ..Declaration::default()
        };
        let kernels = steps.iter().map(|(source, name)| kernel(source, name));
        let kernels = kernels.collect::<madelung::Result<Vec<_>>>()?;
        let (namespace, short, version) = name;
        let op = declaration.op((&namespace, &short, version), &kernels)?;
        describe(&[registered(op.full_name(), vec![op])?])
    })?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}

/// The ops of the sums of a pair law whose functions are source text, as [`ChargeSum::from_source`] takes them: their
/// descriptions as JSON, as those of [`kernel_op`]. Their names begin with the prefix.
#[pyfunction]
pub(crate) fn law_ops(
    py: Python<'_>,
    prefix: &str,
    parameters: Vec<String>,
    functions: &str,
) -> PyResult<String> {
    let described = compute(py, || {
        let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
        let sum = ChargeSum::from_source(prefix, &parameters, functions, |text| {
            Ok(madelung::runtime::kernels(text)?.iter().map(Made::kernel).collect())
        })?;
        describe(&[registered(prefix.into(), sum.ops("user")?)?])
    })?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}

/// Registers an op of [`kernel_op`], or those of [`law_ops`] by their prefix, with the libtorch that is loaded from `path`.
/// Returns their descriptions, as JSON.
#[pyfunction]
pub(crate) fn torch_kernel_ops(path: &str, name: &str) -> PyResult<String> {
    let ops = OPS.lock().unwrap_or_else(PoisonError::into_inner);
    let registry = ops.get(name).copied().ok_or_else(|| {
        exception(madelung::Error::argument(
            "name",
            "the name of an op of kernels, or the prefix of a law",
            name,
        ))
    })?;
    let described = madelung_bridge_torch::register(path, &[registry]).map_err(exception)?;
    Ok(serde_json::to_string(&described).unwrap_or_default())
}

/// The kernel of a name in a block of source, with pair lists in the place of its grids.
fn kernel(source: &str, name: &str) -> madelung::Result<&'static Kernel> {
    let made = madelung::runtime::kernels(source)?;
    let found = made.iter().find(|made| made.name == name).map(Made::listed);
    found.ok_or_else(|| {
        let known: Vec<&str> = made.iter().map(|made| made.name).collect();
        madelung::Error::argument("steps", format!("one of the source's kernels: {}", known.join(", ")), name)
    })
}

fn constraint(name: &str, word: &str) -> madelung::Result<Constraint> {
    Ok(match word {
        "positive" => Constraint::Positive,
        "not_negative" => Constraint::NotNegative,
        "finite" => Constraint::Finite,
        "cell" => Constraint::Cell,
        "full" => Constraint::Full,
        other => {
            return Err(madelung::Error::argument(
                name,
                "positive, not_negative, finite, cell or full",
                other,
            ));
        }
    })
}

/// The registry of ops under a name. One that is there already has the same steps.
fn registered(name: String, of: Vec<Arc<Op>>) -> madelung::Result<&'static Registry> {
    let mut ops = OPS.lock().unwrap_or_else(PoisonError::into_inner);
    let registry = Registry::new(of)?;
    if let Some(known) = ops.get(&name).copied() {
        if known.to_json() == registry.to_json() && same_kernels(known, &registry) {
            return Ok(known);
        }
        return Err(madelung::Error::argument("name", "a new name or version", name));
    }
    let registry: &'static Registry = Box::leak(Box::new(registry));
    ops.insert(name, registry);
    Ok(registry)
}

/// Whether two registries are of ops with the same kernels.
fn same_kernels(one: &Registry, other: &Registry) -> bool {
    let kernels = |of: &Registry| -> Vec<Option<*const Kernel>> {
        let steps = of.iter().flat_map(|op| op.steps().iter().map(|step| step.kernel()).collect::<Vec<_>>());
        steps.map(|kernel| kernel.map(std::ptr::from_ref)).collect()
    };
    kernels(one) == kernels(other)
}
