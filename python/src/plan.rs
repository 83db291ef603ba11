//! Plans of sums, as tuples of Python.

use madelung::batch::Batch;
use madelung::electrostatics::plan::{
    self, Atoms, Edge, Given, Height, Input, Kind, Law, Method, Parameter, Plan, Prescription, Rows, Sum,
    Systems, Term, Terms, compose,
};
use numpy::ndarray::Array1;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::call::{compute, exception};
use crate::convert::{elements, given, triples};

type Object<'py> = Bound<'py, PyAny>;

/// The fields of `Given` of Python.
#[derive(FromPyObject)]
struct GivenFields {
    alpha: bool,
    cutoff: bool,
    cutoffs: bool,
    k_cutoff: bool,
    waves: bool,
    mesh: bool,
    list: bool,
    exclusions: bool,
    widths: bool,
    accuracy: bool,
    cell: bool,
    slabs: bool,
    slab_height: bool,
    narrow: bool,
    readable: bool,
    unread_axes: bool,
}

/// A pair law: p of 1/rᵖ; or the name, the prefix of the ops and the parameters of a caller's own.
#[derive(FromPyObject)]
enum LawFields {
    Power(u32),
    Own(String, String, Vec<String>),
}

/// The fields of `Request` of Python.
#[derive(FromPyObject)]
pub(crate) struct Request {
    sum: String,
    method: Option<String>,
    law: LawFields,
    pbc: Option<Vec<[bool; 3]>>,
    given: GivenFields,
    kinds: Option<Vec<u8>>,
}

const KINDS: [Kind; 3] = [Kind::List, Kind::Nearest, Kind::More];

impl From<Request> for plan::Request {
    fn from(of: Request) -> Self {
        let GivenFields {
            alpha,
            cutoff,
            cutoffs,
            k_cutoff,
            waves,
            mesh,
            list,
            exclusions,
            widths,
            accuracy,
            cell,
            slabs,
            slab_height,
            narrow,
            readable,
            unread_axes,
        } = of.given;
        Self {
            sum: match &*of.sum {
                "mesh" => Sum::Mesh,
                "real_space" => Sum::RealSpace,
                "reciprocal_space" => Sum::ReciprocalSpace,
                "mesh_reciprocal_space" => Sum::MeshReciprocalSpace,
                "pairs" => Sum::Pairs,
                "shifted" => Sum::Shifted,
                _ => Sum::Waves,
            },
            method: of.method.map(|x| if x == "direct" { Method::Direct } else { Method::List }),
            law: match of.law {
                LawFields::Power(p) => Law::Power(p),
                LawFields::Own(name, prefix, parameters) => Law::Own { name, prefix, parameters },
            },
            pbc: of.pbc,
            given: Given {
                alpha,
                cutoff,
                cutoffs,
                k_cutoff,
                waves,
                mesh,
                list,
                exclusions,
                widths,
                accuracy,
                cell,
                slabs,
                slab_height,
                narrow,
                readable,
                unread_axes,
            },
            kinds: of.kinds.map(|kinds| kinds.into_iter().map(|k| KINDS[usize::from(k)]).collect()),
        }
    }
}

/// A tuple of things that a tuple may hold.
macro_rules! tuple {
    ($py:expr, $($x:expr),* $(,)?) => { ($($x,)*).into_pyobject($py).map(|x: Bound<'_, PyTuple>| x.into_any()) };
}

/// Rows of systems, or the name of those that follow from an array of periodic axes.
fn rows<'py, T: Clone + IntoPyObject<'py>>(py: Python<'py>, of: &Rows<T>) -> PyResult<Object<'py>> {
    Ok(match of {
        Rows::Known(rows) => PyTuple::new(py, rows.iter().cloned())?.into_any(),
        Rows::Of(edge) => PyString::intern(py, edge_name(*edge)).into_any(),
    })
}

/// Rows of several numbers of each system.
fn rows_of_axes<'py>(py: Python<'py>, of: &Rows<Vec<i32>>) -> PyResult<Object<'py>> {
    match of {
        Rows::Known(of) => {
            let of = of.iter().map(|row| PyTuple::new(py, row)).collect::<PyResult<Vec<_>>>()?;
            rows(py, &Rows::Known(of))
        }
        Rows::Of(edge) => rows::<i32>(py, &Rows::Of(*edge)),
    }
}

fn edge_name(of: Edge) -> &'static str {
    match of {
        Edge::Open => "open",
        Edge::Wire => "wire",
        Edge::Slab => "slab",
        Edge::Crystal => "crystal",
        Edge::Lattice => "lattice",
        Edge::NoLattice => "no_lattice",
    }
}

fn name(of: Parameter) -> &'static str {
    match of {
        Parameter::Alpha => "alpha",
        Parameter::Cutoff => "cutoff",
        Parameter::KCutoff => "k_cutoff",
    }
}

fn input<'py>(py: Python<'py>, of: &Input) -> PyResult<Object<'py>> {
    match of {
        Input::Argument(of) => tuple!(py, "argument", name(*of)),
        Input::Chosen(of) => tuple!(py, "chosen", name(*of)),
        Input::Masked(x, of, other) => tuple!(py, "masked", *x, rows(py, of)?, input(py, other)?),
        Input::Number(x) => tuple!(py, "number", *x),
        Input::OfLaw(name) => tuple!(py, "of_law", name.as_str()),
        Input::Scalar(x) => tuple!(py, "scalar", *x),
        Input::Cutoff => tuple!(py, "cutoff"),
        Input::Pairs(of) => {
            tuple!(py, "pairs", of.search.as_ref().map(|x| input(py, x)).transpose()?, of.without)
        }
        Input::AllPairs(_) => unreachable!("Python has no request of latent charges"),
        Input::Excluded => tuple!(py, "excluded"),
        Input::Waves => tuple!(py, "waves"),
        Input::WavesWithin(of, is_given) => tuple!(py, "waves_within", name(*of), *is_given),
        Input::Lines(is_given) => tuple!(py, "lines", *is_given),
        Input::Mesh(is_given) => tuple!(py, "mesh", *is_given),
        Input::Integers(of) => tuple!(py, "integers", rows_of_axes(py, of)?),
        Input::Widths => tuple!(py, "widths"),
        Input::ReachOfWidths => tuple!(py, "reach_of_widths"),
        Input::Numbers(x) => tuple!(py, "numbers", rows(py, x)?),
    }
}

/// The terms of a sum, with the numbers of their inputs among those of all.
fn terms<'py>(py: Python<'py>, of: &Terms) -> PyResult<Object<'py>> {
    let (inputs, numbered) = of.inputs();
    let mut found = vec![];
    for (Term { op, atoms: Atoms { lattice, charged }, .. }, (reals, rest)) in of.terms.iter().zip(numbered) {
        let charged = charged.as_ref().map(|x| rows(py, x)).transpose()?;
        let [reals, rest] = [reals, rest].map(|x| PyTuple::new(py, x));
        found.push(tuple!(py, op.as_str(), *lattice, charged, reals?, rest?)?);
    }
    let inputs = inputs.into_iter().map(|x| input(py, x)).collect::<PyResult<Vec<_>>>()?;
    let upright = of.cells.upright.as_ref().map(|x| rows_of_axes(py, x)).transpose()?;
    tuple!(
        py,
        PyTuple::new(py, inputs)?,
        PyTuple::new(py, found)?,
        rows(py, &of.cells.no_lattice)?,
        upright,
        of.cells.height == Height::Chosen,
        of.chooses,
        of.by_extents,
        of.is_direct,
        of.refuses_slabs,
    )
}

/// The plan of a request: the fields of `Plan` of Python.
#[pyfunction]
pub(crate) fn sum_plan(py: Python<'_>, request: Request) -> PyResult<Object<'_>> {
    let none = || PyTuple::empty(py);
    let request = request.into();
    match compose(&request).map_err(exception)? {
        Plan::Sum(of) => terms(py, &of),
        Plan::Ask => {
            let by_extents =
                request.pbc.as_ref().is_some_and(|rows| rows.iter().any(|row| row.contains(&false)));
            let open: Option<()> = None;
            tuple!(py, none(), none(), none(), open, false, false, by_extents, false, false, none(), true)
        }
        Plan::Parts(parts) => {
            let part = |(method, systems): &(Method, Vec<usize>)| {
                let method = if *method == Method::Direct { "direct" } else { "list" };
                tuple!(py, method, PyTuple::new(py, systems)?)
            };
            let parts = PyTuple::new(py, parts.iter().map(part).collect::<PyResult<Vec<_>>>()?)?;
            let open: Option<()> = None;
            tuple!(py, none(), none(), none(), open, false, false, false, false, false, parts)
        }
    }
}

fn cells<'a>(of: &'a PyReadonlyArray3<'_, f64>) -> PyResult<&'a [[[f64; 3]; 3]]> {
    Ok(elements(of)?.as_chunks().0.as_chunks().0)
}

/// The cheapest sum of each system: 0 over a list, 1 and 2 directly.
#[pyfunction]
pub(crate) fn sum_kinds(
    request: Request,
    atoms: Vec<usize>,
    cell: PyReadonlyArray3<'_, f64>,
    extents: Vec<f64>,
    accuracy: Option<f64>,
) -> PyResult<Vec<usize>> {
    let systems = Systems { cells: cells(&cell)?, atoms: &atoms, extents: &extents, crowding: &[] };
    let given = Prescription { accuracy, ..Prescription::default() };
    let found = plan::kinds(&request.into(), systems, &given).map_err(exception)?;
    Ok(found.iter().map(|kind| *kind as usize).collect())
}

/// Whether sums on meshes have an accuracy: see `plan::meshes_reach`.
#[pyfunction]
pub(crate) fn meshes_reach(accuracy: Option<f64>) -> bool {
    plan::meshes_reach(accuracy)
}

/// (alpha, cutoff, k_cutoff, slab_height, mesh_dimensions, spline_order, accuracy).
type Fixed = (
    Option<Vec<f64>>,
    Option<Vec<f64>>,
    Option<Vec<f64>>,
    Option<Vec<f64>>,
    Option<Vec<[usize; 3]>>,
    Option<Vec<usize>>,
    Option<f64>,
);

/// The parameters of a sum: the fields of `Numbers` of Python.
#[pyfunction]
pub(crate) fn sum_numbers<'py>(
    py: Python<'py>,
    request: Request,
    atoms: Vec<usize>,
    cell: PyReadonlyArray3<'_, f64>,
    extents: Vec<f64>,
    crowding: Vec<f64>,
    given: Fixed,
) -> PyResult<Object<'py>> {
    let systems = Systems { cells: cells(&cell)?, atoms: &atoms, extents: &extents, crowding: &crowding };
    let (alpha, cutoff, k_cutoff, slab_height, mesh_dimensions, spline_order, accuracy) = given;
    let given = Prescription {
        alpha,
        cutoff,
        k_cutoff,
        mesh_dimensions,
        spline_order,
        slab_height,
        accuracy,
        ..Prescription::default()
    };
    let request = request.into();
    let Plan::Sum(terms) = compose(&request).map_err(exception)? else {
        unreachable!("a sum whose kinds are known")
    };
    let found = plan::numbers(&request, &terms, systems, &given).map_err(exception)?;
    let (middles, beside, of) = found.lines;
    let middles: Vec<i32> = middles.into_iter().flatten().collect();
    tuple!(
        py,
        PyTuple::new(py, found.alpha)?,
        PyTuple::new(py, found.cutoff)?,
        PyTuple::new(py, found.k_cutoff)?,
        PyTuple::new(py, found.mesh.concat())?,
        PyTuple::new(py, found.heights)?,
        PyTuple::new(py, found.errors)?,
        found.cost,
        tuple!(py, PyTuple::new(py, found.images)?, middles, beside, of)?,
        found.by_crowding,
    )
}

/// The relative error of forces for which a call chooses open parameters; `narrow`: in float32.
#[pyfunction]
pub(crate) fn sum_accuracy(stated: Option<f64>, narrow: bool) -> PyResult<f64> {
    plan::accuracy(stated, narrow).map_err(exception)
}

/// The distance beyond which Gaussian charges of widths up to one are points: see `plan::gaussian_reach`.
#[pyfunction]
pub(crate) fn gaussian_reach(widest: f64, accuracy: Option<f64>) -> f64 {
    plan::gaussian_reach(widest, accuracy)
}

/// The crowding of systems, in cells for which these cutoffs and heights are chosen: see `plan::crowding`.
#[pyfunction]
pub(crate) fn crowding(
    request: Request,
    atoms: Vec<usize>,
    cell: PyReadonlyArray3<'_, f64>,
    cutoffs: Vec<f64>,
    heights: Vec<f64>,
    positions: PyReadonlyArray2<'_, f64>,
) -> PyResult<Option<Vec<f64>>> {
    let systems = Systems { cells: cells(&cell)?, atoms: &atoms, extents: &[], crowding: &[] };
    plan::crowding(&request.into(), systems, (&cutoffs, &heights), triples(&positions)?).map_err(exception)
}

/// The extents of systems of so many atoms each: see `plan::extents`.
#[pyfunction]
pub(crate) fn extents(
    positions: PyReadonlyArray2<'_, f64>,
    atoms: Vec<usize>,
    cell: PyReadonlyArray3<'_, f64>,
    axes: Vec<[bool; 3]>,
) -> PyResult<Vec<f64>> {
    plan::extents(triples(&positions)?, &atoms, cells(&cell)?, &axes).map_err(exception)
}

/// All pairs within systems that are open: offsets of each atom's pairs, and the other atom of each. See `plan::all_pairs`.
#[pyfunction]
pub(crate) fn all_pairs<'py>(
    py: Python<'py>,
    batch_idx: PyReadonlyArray1<'py, i32>,
    open: Vec<bool>,
) -> PyResult<Object<'py>> {
    let idx = elements(&batch_idx)?;
    let (ptr, columns) = compute(py, || {
        let batch = Batch::from_idx(idx, Some(open.len()))?;
        let columns = plan::all_pairs(&batch, &open)?.into_csr().others.into_owned();
        Ok((plan::all_pairs_ptr(&batch, &open)?, columns))
    })?;
    tuple!(py, given(py, Array1::from_vec(ptr)), given(py, Array1::from_vec(columns)))
}

/// Offsets of each atom's pairs in `all_pairs`.
#[pyfunction]
pub(crate) fn all_pairs_ptr<'py>(
    py: Python<'py>,
    batch_idx: PyReadonlyArray1<'py, i32>,
    open: Vec<bool>,
) -> PyResult<Object<'py>> {
    let batch = Batch::from_idx(elements(&batch_idx)?, Some(open.len())).map_err(exception)?;
    Ok(given(py, Array1::from_vec(plan::all_pairs_ptr(&batch, &open).map_err(exception)?)))
}
