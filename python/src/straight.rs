//! Straight calls: those of one op whose inputs are plain arrays, as the caller gives them, in one call of this module.
//!
//! What is not plain goes the way of all calls, in Python, and so does a call that fails: that way has the errors.

use madelung::Error;
use madelung::array::{Array, DType, Data, View};
use madelung::op::ArgKind;
use madelung_bridge::layout::{CHECKED, Input, Part, Type};
use madelung_bridge::{Entry, NEGATIVE};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyNotImplemented, PyTuple, PyType};
use std::cell::OnceCell;
use std::sync::OnceLock;

use crate::call::exception;
use crate::op_call::{member, results};
use crate::plain::Plain;

/// A member of an op on plain arrays; of others a function of the same arguments.
#[pyclass(frozen, module = "madelung")]
pub(crate) struct PlainOp {
    entry: &'static Entry,
    plain: Py<Plain>,
    otherwise: Py<PyAny>,
}

#[pymethods]
impl PlainOp {
    #[new]
    fn new(target: &str, plain: Py<Plain>, otherwise: Py<PyAny>) -> PyResult<Self> {
        Ok(Self { entry: member(target)?, plain, otherwise })
    }

    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        match self.called(args)? {
            Some(found) => Ok(found),
            None => self.otherwise.bind(args.py()).call1(args),
        }
    }
}

impl PlainOp {
    fn called<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, entry, plain) = (args.py(), self.entry, self.plain.get());
        let args: Vec<_> = args.iter().collect();
        let flags = usize::from(entry.member.has_mask()) + usize::from(entry.member.has_want());
        let extras = entry.member.extra_tensors(entry.counts);
        if args.len() != entry.inputs.len() + extras + flags || !plain.is_ordinary(py)? {
            return Ok(None);
        }
        let (args, flags) = args.split_at(args.len() - flags);
        let (inputs, extras) = args.split_at(entry.inputs.len());
        let flags = flags.iter().map(|flag| flag.extract::<u64>()).collect::<PyResult<Vec<_>>>()?;
        let mask = if entry.member.has_mask() { flags[0] } else { 0 };
        let want = if entry.member.has_want() { flags[flags.len() - 1] } else { 0 };
        let (mut tensors, mut numbers) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
        for (input, x) in entry.inputs.iter().zip(inputs) {
            match input.kind {
                Type::Float => numbers.push(x.extract::<f64>()?.to_bits()),
                Type::Int => numbers.push(x.extract::<i64>()?.cast_unsigned()),
                Type::Tensor | Type::Integers => {
                    let Some(view) = plain.view(x)? else { return Ok(None) };
                    match (input.kind, view.data()) {
                        (Type::Tensor, _) => tensors.push(view),
                        (_, Data::I64(list)) => {
                            numbers.push(list.len() as u64);
                            numbers.extend(list.iter().map(|n| n.cast_unsigned()));
                        }
                        _ => return Ok(None),
                    }
                }
            }
        }
        let mut more = Vec::with_capacity(extras.len());
        for (n, x) in extras.iter().enumerate() {
            let is_there = mask >> n & 1 != 0;
            let view = if is_there { plain.view(x)? } else { None };
            if is_there && view.is_none() {
                return Ok(None);
            }
            more.push(view);
        }
        let found = plain.run(py, false, |context| {
            Ok(results(entry, entry.evaluate(context, &tensors, &numbers, &more, want)?, want))
        })?;
        found.map(|found| unpacked(py, found)).transpose()
    }
}

/// One result, or several.
fn unpacked<'py>(
    py: Python<'py>,
    mut results: Vec<Option<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    match (results.len(), results.pop().flatten()) {
        (1, Some(result)) => Ok(result),
        (_, last) => {
            results.push(last);
            Ok(PyTuple::new(py, results)?.into_any())
        }
    }
}

/// A parameter of a function, by its place among all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(usize);

/// Source of an input of an op.
enum Source {
    /// An array of so many axes.
    Array(Place, usize),
    /// The cell, of all systems or of each.
    Cell(Place),
    /// A number of each system, or of all; and which of these inputs it is.
    PerSystem(Place, usize),
    /// An array that is zero in every call.
    Zero,
    /// The system of each row of a tensor of this number; None where there is one system.
    SystemOf(Place, usize),
    /// A part of the neighbour list.
    List(Part),
    /// The nodes of a mesh, and the order of its splines.
    Mesh(Place, Place),
    Prefactor(Place),
    /// The cutoff; if it may be left out, it is that of the list.
    Cutoff(Place, bool),
    /// The distance from which energies go to zero.
    Taper(Place),
}

/// Most inputs of an op with a number of each system.
const NUMBERS: usize = 4;

impl Source {
    fn places(&self) -> Vec<Place> {
        match *self {
            Self::Array(of, _) | Self::Cell(of) | Self::PerSystem(of, _) => vec![of],
            Self::SystemOf(of, _) | Self::Prefactor(of) | Self::Cutoff(of, _) | Self::Taper(of) => vec![of],
            Self::Mesh(nodes, order) => vec![nodes, order],
            Self::Zero | Self::List(_) => vec![],
        }
    }
}

/// Function whose calls are straight where all inputs of one op are given.
#[pyclass(frozen, module = "madelung")]
pub(crate) struct Straight {
    plain: Py<Plain>,
    /// The class of neighbour lists.
    neighbors: Py<PyType>,
    /// Values, and values with gradients, of energies of atoms and of systems.
    members: [[&'static Entry; 2]; 2],
    sources: Vec<Source>,
    /// The numbers of parameters in each argument of a call, a tuple; None: one, as it is.
    groups: Vec<Option<usize>>,
    list: Option<Place>,
    pbc: Option<Place>,
    reduction: Place,
    /// Flags that ask for gradients, and the bits of these.
    gradients: Vec<(Place, u64)>,
    /// The bits of gradients whose other sign is returned.
    negated: u64,
    /// All other parameters, which have their defaults in straight calls.
    others: Vec<(Place, Py<PyAny>)>,
}

/// Names of a function's parameters, each with its default, if it has one.
type Parameters<'py> = Vec<(String, Vec<Bound<'py, PyAny>>)>;

fn place(parameters: &Parameters<'_>, name: &str) -> PyResult<Place> {
    let at = parameters.iter().position(|(other, _)| other == name).map(Place);
    at.ok_or_else(|| exception(Error::argument(name, "a parameter of the function", "none")))
}

/// The inputs of an op, by the names of parameters.
fn sources(entry: &Entry, parameters: &Parameters<'_>) -> PyResult<Vec<Source>> {
    let args = &entry.op.args;
    let shape = |arg: usize| match &args[arg].kind {
        ArgKind::Real { shape, .. } | ArgKind::Ints { shape } => &shape[..],
        _ => &[],
    };
    let systems = args.iter().position(|arg| arg.name == "cell").and_then(|arg| shape(arg).first());
    let (mut numbers_of_systems, mut tensors) = (0..NUMBERS, 0);
    let source = |input: &Input| {
        let before = tensors;
        tensors += usize::from(input.kind == Type::Tensor);
        let (of, shape) = (|name: &str| place(parameters, name), shape(input.arg));
        Ok(match (input.part, &*input.name) {
            (Part::Real, "strain") => Source::Zero,
            (Part::Real, "cell") => Source::Cell(of("cell")?),
            (Part::Real, name) if shape.len() == 1 && shape.first() == systems => {
                let number = numbers_of_systems.next();
                let none =
                    || exception(Error::argument(name, format!("at most {NUMBERS} such inputs"), "more"));
                Source::PerSystem(of(name)?, number.ok_or_else(none)?)
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
            (Part::Scalar, "taper") => Source::Taper(of("taper")?),
            (part @ (Part::Ptr | Part::Others | Part::Shifts | Part::ListKind), _) => Source::List(part),
            (_, name) => {
                return Err(exception(Error::argument(name, "an input of a straight call", "another")));
            }
        })
    };
    entry.inputs.iter().map(source).collect()
}

#[pymethods]
impl Straight {
    /// Function of an op's values and values with gradients, of energies of atoms and of systems. `parameters`: names and
    /// defaults, in the order of a call; `groups`: how many of them each argument of a call has, as a tuple; None: one.
    #[new]
    fn new(
        targets: [[String; 2]; 2],
        parameters: Vec<(String, Vec<Bound<'_, PyAny>>)>,
        groups: Vec<Option<usize>>,
        plain: Py<Plain>,
        neighbors: Py<PyType>,
    ) -> PyResult<Self> {
        let [atoms, systems] = &targets;
        let members =
            [[member(&atoms[0])?, member(&atoms[1])?], [member(&systems[0])?, member(&systems[1])?]];
        let entry = members[0][0];
        let sources = sources(entry, &parameters)?;
        let bit =
            |name: &str| entry.reals.iter().position(|arg| entry.op.args[*arg].name == name).map(|k| 1 << k);
        let flags = [
            ("compute_forces", "positions"),
            ("compute_charge_gradients", "charges"),
            ("compute_virial", "strain"),
        ];
        let asked = |(flag, input)| Some((place(&parameters, flag).ok()?, bit(input)?));
        let gradients: Vec<(Place, u64)> = flags.into_iter().filter_map(asked).collect();
        let negated = entry.reals.iter().enumerate().filter(|(_, arg)| entry.op.args[**arg].negated);
        let negated = negated.map(|(k, _)| 1 << k).sum();
        let has_list = sources.iter().any(|source| matches!(source, Source::List(_)));
        let list = has_list.then(|| place(&parameters, "neighbors")).transpose()?;
        let (pbc, reduction) = (place(&parameters, "pbc").ok(), place(&parameters, "energy_reduction")?);
        let mut used: Vec<Place> = sources.iter().flat_map(Source::places).chain([reduction]).collect();
        used.extend(gradients.iter().map(|(at, _)| *at).chain(list).chain(pbc));
        let rest = parameters.iter().enumerate().filter(|(n, _)| !used.contains(&Place(*n)));
        let others = rest.map(|(n, (name, default))| match default.first() {
            Some(default) => Ok((Place(n), default.clone().unbind())),
            None => Err(exception(Error::argument(name, "a default, as the op has no such input", "none"))),
        });
        let others = others.collect::<PyResult<_>>()?;
        Ok(Self {
            plain,
            neighbors,
            members,
            sources,
            groups,
            list,
            pbc,
            reduction,
            gradients,
            negated,
            others,
        })
    }

    /// The results of a call; `NotImplemented`, where it goes another way.
    fn __call__<'py>(&self, given: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.called(given)?;
        Ok(found.unwrap_or_else(|| PyNotImplemented::get(given.py()).to_owned().into_any()))
    }
}

/// Neighbour list of a call.
struct List<'py> {
    index: Bound<'py, PyAny>,
    columns: Bound<'py, PyAny>,
    images: Bound<'py, PyAny>,
    /// The cell that it was made in.
    cell: Bound<'py, PyAny>,
    cutoff: f64,
    atoms: usize,
}

impl<'py> List<'py> {
    /// The list of a class `of`, made without other axes than those of its cell.
    fn of(x: &Bound<'py, PyAny>, of: &Py<PyType>) -> PyResult<Option<Self>> {
        let py = x.py();
        if !x.get_type().is(of) || !x.getattr(intern!(py, "pbc"))?.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            index: x.getattr(intern!(py, "index"))?,
            columns: x.getattr(intern!(py, "columns"))?,
            images: x.getattr(intern!(py, "images"))?,
            cell: x.getattr(intern!(py, "cell"))?,
            cutoff: x.getattr(intern!(py, "cutoff"))?.extract()?,
            atoms: x.getattr(intern!(py, "atoms"))?.extract()?,
        }))
    }

    /// Whether it was made in a cell of these values; None: without one.
    fn is_of(&self, cell: Option<&View<'_>>, plain: &Plain) -> PyResult<bool> {
        let Some(cell) = cell else { return Ok(self.cell.is_none()) };
        let same = |other: View<'_>| match (cell.data(), other.data()) {
            (Data::F64(a), Data::F64(b)) => a == b,
            (Data::F32(a), Data::F32(b)) => a == b,
            _ => false,
        };
        Ok(!self.cell.is_none() && plain.memory(&self.cell)?.is_some_and(same))
    }
}

/// Indices of one system for all rows; None of more rows than are kept.
fn one_system(rows: usize) -> Option<View<'static>> {
    static ZEROS: OnceLock<Vec<i32>> = OnceLock::new();
    View::new(Data::I32(ZEROS.get_or_init(|| vec![0; 1 << 16]).get(..rows)?), &[rows]).ok()
}

/// The cell of atoms without one.
fn unit_cell(dtype: DType) -> Option<View<'static>> {
    const UNIT: [f64; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    const NARROW: [f32; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let data = if dtype == DType::F32 { Data::F32(&NARROW) } else { Data::F64(&UNIT) };
    View::new(data, &[1, 3, 3]).ok()
}

/// Whether axes are those of the cell, all of them.
fn are_all(pbc: &Bound<'_, PyAny>) -> bool {
    let is_true = |x: &Bound<'_, PyAny>| x.is(PyBool::new(x.py(), true));
    pbc.is_none()
        || is_true(pbc)
        || pbc.cast_exact::<PyTuple>().is_ok_and(|axes| axes.len() == 3 && axes.iter().all(|x| is_true(&x)))
}

/// A number of Python's own types.
fn number(x: &Bound<'_, PyAny>) -> Option<f64> {
    if x.is_exact_instance_of::<PyFloat>() || x.is_exact_instance_of::<PyInt>() {
        x.extract().ok()
    } else {
        None
    }
}

/// Order of the splines on a mesh that is given without one.
const ORDER: usize = 5;

/// Three nodes and the order of the splines on them.
fn mesh(nodes: &Bound<'_, PyAny>, order: &Bound<'_, PyAny>) -> Option<[u64; 4]> {
    let order = if order.is_none() { ORDER } else { order.cast_exact::<PyInt>().ok()?.extract().ok()? };
    let [x, y, z] = nodes.cast_exact::<PyTuple>().ok()?.extract::<[usize; 3]>().ok()?;
    let fits = (4..=8).contains(&order) && [x, y, z].iter().all(|n| *n >= order);
    fits.then_some([x as u64, y as u64, z as u64, order as u64])
}

/// The inputs of an op in the call of a bridge; `single`: whether of one system that is no batch.
struct Inputs<'a> {
    tensors: Vec<View<'a>>,
    numbers: Vec<u64>,
    single: bool,
}

impl Straight {
    fn called<'py>(&self, given: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, plain) = (given.py(), self.plain.get());
        let Some(args) = self.flattened(given)? else { return Ok(None) };
        if self.others.iter().any(|(at, default)| !args[at.0].is(default))
            || !self.pbc.is_none_or(|at| are_all(&args[at.0]))
            || !plain.is_ordinary(py)?
        {
            return Ok(None);
        }
        let Some(members) = args[self.reduction.0].extract().ok().and_then(|name: &str| match name {
            "atom" => Some(self.members[0]),
            "system" => Some(self.members[1]),
            _ => None,
        }) else {
            return Ok(None);
        };
        let mut want = 0;
        for (at, bit) in &self.gradients {
            match args[at.0].cast_exact::<PyBool>() {
                Ok(flag) => want |= if flag.is_true() { *bit } else { 0 },
                Err(_) => return Ok(None),
            }
        }
        let list = match self.list {
            Some(at) => match List::of(&args[at.0], &self.neighbors)? {
                None => return Ok(None),
                list => list,
            },
            None => None,
        };
        let entry = members[usize::from(want != 0)];
        let constants = [const { OnceCell::new() }; NUMBERS];
        let Some(Inputs { tensors, numbers, single }) = self.inputs(&args, list.as_ref(), &constants)? else {
            return Ok(None);
        };
        let negated = want & self.negated;
        let all = want != 0 && negated == want;
        let found = plain.run(py, single, |context| {
            let asked = if all { want | NEGATIVE } else { want };
            let found = results(entry, entry.evaluate(context, &tensors, &numbers, &[], asked)?, want);
            let signed = found.into_iter().enumerate().map(|(n, array)| match array {
                Some(array) if n > 0 && !all && negated >> (n - 1) & 1 != 0 => array.map(|x| -x).map(Some),
                array => Ok(array),
            });
            signed.collect()
        })?;
        let asked =
            |found: Vec<Option<Bound<'py, PyAny>>>| found.into_iter().filter(Option::is_some).collect();
        found.map(|found| unpacked(py, asked(found))).transpose()
    }

    /// The values of all parameters, each by its place.
    fn flattened<'py>(&self, given: &Bound<'py, PyTuple>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let mut args = Vec::with_capacity(32);
        if given.len() != self.groups.len() {
            return Ok(None);
        }
        for (x, group) in given.iter().zip(&self.groups) {
            match group {
                None => args.push(x),
                Some(count) => {
                    let members = x.cast_exact::<PyTuple>()?;
                    if members.len() != *count {
                        return Ok(None);
                    }
                    args.extend(members.iter());
                }
            }
        }
        Ok(Some(args))
    }

    /// The cells of systems, and whether there is one alone; of other cells than that of the list none.
    fn cell<'a>(
        &self,
        x: &'a Bound<'_, PyAny>,
        dtype: Option<DType>,
        list: Option<&List<'_>>,
    ) -> PyResult<Option<(View<'a>, bool)>> {
        let (plain, Some(dtype)) = (self.plain.get(), dtype) else { return Ok(None) };
        let given = if x.is_none() { None } else { plain.view(x)? };
        let single = given.as_ref().is_none_or(|cell| cell.shape().len() == 2);
        let cell = match &given {
            None if x.is_none() => unit_cell(dtype),
            Some(cell) if *cell.shape() == [3, 3] => View::new(cell.data(), &[1, 3, 3]).ok(),
            Some(cell) if matches!(cell.shape(), [n, 3, 3] if *n > 0) => Some(cell.clone()),
            _ => None,
        };
        let Some(cell) = cell.filter(|cell| cell.dtype() == dtype) else { return Ok(None) };
        if (given.is_some() && plain.requires_graph(x)?)
            || list.map_or(Ok(false), |list| list.is_of(given.as_ref(), plain).map(|same| !same))?
        {
            return Ok(None);
        }
        Ok(Some((cell, single)))
    }

    /// The inputs of the op, where all of them are plain arrays and numbers of Python.
    fn inputs<'a>(
        &self,
        args: &'a [Bound<'_, PyAny>],
        list: Option<&'a List<'_>>,
        constants: &'a [OnceCell<Array>],
    ) -> PyResult<Option<Inputs<'a>>> {
        let plain = self.plain.get();
        let (mut tensors, mut numbers) =
            (Vec::<View<'a>>::with_capacity(self.sources.len()), Vec::with_capacity(4));
        let (mut dtype, mut systems, mut single, mut cutoff) = (None, 1, true, f64::NAN);
        for source in &self.sources {
            let view = match *source {
                Source::Array(at, axes) => {
                    let Some(view) = plain.view(&args[at.0])?.filter(|view| view.shape().len() == axes)
                    else {
                        return Ok(None);
                    };
                    if view.dtype().is_real()
                        && (*dtype.get_or_insert(view.dtype()) != view.dtype()
                            || plain.requires_graph(&args[at.0])?)
                    {
                        return Ok(None);
                    }
                    Some(view)
                }
                Source::Cell(at) => {
                    let Some(cell) = self.cell(&args[at.0], dtype, list)? else { return Ok(None) };
                    (systems, single) = (cell.0.shape()[0], cell.1);
                    Some(cell.0)
                }
                Source::PerSystem(at, n) => {
                    let x = &args[at.0];
                    match (number(x), dtype) {
                        (Some(x), Some(dtype)) => {
                            Some(constants[n].get_or_init(|| Array::filled(dtype, &[systems], x)).view())
                        }
                        _ => {
                            let view = plain.view(x)?.filter(|view| view.shape() == [systems]);
                            let is_usual = |view: &View<'_>| Some(view.dtype()) == dtype;
                            match view.filter(is_usual) {
                                Some(view) if !plain.requires_graph(x)? => Some(view),
                                _ => return Ok(None),
                            }
                        }
                    }
                }
                Source::Zero => View::new(Data::F64(&[]), &[0]).ok(),
                Source::SystemOf(at, of) if args[at.0].is_none() && systems == 1 => {
                    one_system(tensors[of].shape()[0])
                }
                // Of one cell for all the indices say how many systems there are.
                Source::SystemOf(_, 0) if single => None,
                Source::SystemOf(at, _) => {
                    plain.view(&args[at.0])?.filter(|view| view.shape().len() == 1 && !view.dtype().is_real())
                }
                Source::List(part) => {
                    let Some(list) = list else { return Ok(None) };
                    match part {
                        Part::Ptr => plain.memory(&list.index)?,
                        Part::Others => plain.memory(&list.columns)?,
                        Part::Shifts => plain.memory(&list.images)?,
                        _ => {
                            // The search made it full.
                            numbers.push(CHECKED.cast_unsigned());
                            continue;
                        }
                    }
                }
                Source::Mesh(nodes, order) => {
                    let Some(mesh) = mesh(&args[nodes.0], &args[order.0]) else { return Ok(None) };
                    numbers.push(4);
                    numbers.extend(mesh);
                    continue;
                }
                Source::Prefactor(at) => {
                    let Some(x) = number(&args[at.0]) else { return Ok(None) };
                    numbers.push(x.to_bits());
                    continue;
                }
                Source::Cutoff(at, may_be_of_list) => {
                    let of_list = list.map_or(f64::INFINITY, |list| list.cutoff);
                    cutoff = match number(&args[at.0]) {
                        Some(cutoff) if cutoff <= of_list => cutoff,
                        None if may_be_of_list && args[at.0].is_none() && list.is_some() => of_list,
                        _ => return Ok(None),
                    };
                    numbers.push(cutoff.to_bits());
                    continue;
                }
                Source::Taper(at) => {
                    let taper = if args[at.0].is_none() { Some(0.9 * cutoff) } else { number(&args[at.0]) };
                    let Some(taper) = taper.filter(|x| *x > 0.0) else { return Ok(None) };
                    numbers.push(taper.to_bits());
                    continue;
                }
            };
            match view {
                Some(view) => tensors.push(view),
                None => return Ok(None),
            }
        }
        let atoms = tensors.first().and_then(|view| view.shape().first().copied());
        if list.is_some_and(|list| Some(list.atoms) != atoms) {
            return Ok(None);
        }
        Ok(Some(Inputs { tensors, numbers, single }))
    }
}
