//! Straight calls: those of plain arrays, as the caller gives them, in one call of this module. Where all inputs of one op are
//! given it is that op; other sums are those of Rust.
//!
//! Calls of other arrays go the way of all calls, in Python, and so do calls that fail: that way has the errors.

mod constants;
mod given;
mod sources;
mod sum;

use madelung::array::{DType, Place, View};
use madelung::electrostatics::plan::{UNBOUNDED, unsplit};
use madelung::{Options, Reduction};
use madelung_bridge::layout::{CHECKED, Part};
use madelung_bridge::{Entry, NEGATIVE};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyNotImplemented, PyTuple, PyType};
use std::sync::Arc;

use crate::device::DeviceArray;
use crate::op_call::{member, results, signed};
use crate::plain::{Plain, Site};
use crate::plain_op::unpacked;
use crate::stream::{DeviceStream, Lane};
use constants::{At, Constants};
use given::{List, are_all, mesh, number, periodic_axes, unit_cell};
use sources::{Argument, Others, Source, others, place, sources};
use sum::Sum;

/// Function whose calls of plain arrays are straight.
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
    /// The list that a search has made, or its pairs, offsets and images.
    list: Option<[Argument; 4]>,
    pbc: Option<Argument>,
    reduction: Argument,
    /// Flags that ask for gradients, and the bits of these.
    gradients: Vec<(Argument, u64)>,
    /// The bits of gradients whose other sign is returned.
    negated: u64,
    /// All other parameters, which have their defaults where the call is that of one op.
    others: Others,
    /// The sum of which the op is a part, for calls of several terms or with open parameters.
    sum: Option<Sum>,
    derived: Option<Derived>,
}

/// A call that belongs to a graph of derivatives: the arguments of the mode's function `evaluated`, which Python calls (see
/// [`PlainOp`](crate::plain_op::PlainOp)).
#[pyclass(frozen, module = "madelung")]
pub(crate) struct InGraph {
    #[pyo3(get)]
    arguments: Py<PyTuple>,
}

/// Receiver of the inputs of calls that belong to a graph of derivatives.
struct Derived {
    /// A framework's modes on the host and on devices: see `Eager` and `Device` of `madelung.torch`.
    modes: Two,
    /// The op there, of energies of atoms and of systems.
    energies: Two,
}

/// Two objects of Python.
type Two = [Py<PyAny>; 2];

/// The inputs of an op in the call of a bridge.
struct Inputs<'a> {
    tensors: Vec<View<'a>>,
    numbers: Vec<u64>,
    systems: usize,
    /// Whether of one system that is no batch.
    single: bool,
    /// Whether the call belongs to a graph of derivatives.
    in_graph: bool,
}

impl Inputs<'_> {
    fn on_host(&self) -> bool {
        self.tensors.first().is_none_or(|view| view.place() == Place::Host)
    }
}

#[pymethods]
impl Straight {
    /// Straight call of the members `targets`: values, and values with gradients, of energies of atoms and of systems.
    /// `parameters`: names and defaults, in the order of a call; `groups`: how many of them each argument of a call has, as a tuple; None: one.
    /// `derived`: modes on the host and on devices, and the op in them, of energies of atoms and of systems, for calls in
    /// graphs of derivatives.
    #[new]
    fn new(
        targets: [[String; 2]; 2],
        parameters: Vec<(String, Vec<Bound<'_, PyAny>>)>,
        groups: Vec<Option<usize>>,
        plain: Py<Plain>,
        neighbors: Py<PyType>,
        derived: Option<(Two, Two)>,
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
        let gradients: Vec<(Argument, u64)> = flags.into_iter().filter_map(asked).collect();
        let negated = entry.reals.iter().enumerate().filter(|(_, arg)| entry.op.args[**arg].negated);
        let negated = negated.map(|(k, _)| 1 << k).sum();
        let has_list = sources.iter().any(|source| matches!(source, Source::List(_)));
        let list = has_list.then(|| {
            let [found, pairs, ptr, shifts] =
                ["neighbors", "neighbor_list", "neighbor_ptr", "neighbor_shifts"]
                    .map(|name| place(&parameters, name));
            Ok::<_, PyErr>([found?, pairs?, ptr?, shifts?])
        });
        let list = list.transpose()?;
        let (pbc, reduction) = (place(&parameters, "pbc").ok(), place(&parameters, "energy_reduction")?);
        let of_any: Vec<Argument> = gradients
            .iter()
            .map(|(at, _)| *at)
            .chain(list.into_iter().flatten())
            .chain([reduction])
            .collect();
        // Where values cannot be read nothing is chosen by them.
        let sum = if gradients.len() == flags.len() && plain.get().has_host() {
            Sum::of(&entry.op.name, &parameters, &of_any)?
        } else {
            None
        };
        let used: Vec<Argument> = sources.iter().flat_map(Source::places).chain(of_any).chain(pbc).collect();
        let others = others(&parameters, &used)?;
        let derived = derived.map(|(modes, energies)| Derived { modes, energies });
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
            sum,
            derived,
        })
    }

    /// The results of a call; of one in a graph of derivatives its arguments there; `NotImplemented`, where it goes another
    /// way. `stream`: where calls on arrays of a device run.
    #[pyo3(signature = (given, stream = None))]
    fn __call__<'py>(
        &self,
        given: &Bound<'py, PyTuple>,
        stream: Option<&DeviceStream>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.called(given, stream.map(|stream| &stream.0))?;
        Ok(found.unwrap_or_else(|| PyNotImplemented::get(given.py()).to_owned().into_any()))
    }
}

impl Straight {
    fn called<'py>(
        &self,
        given: &Bound<'py, PyTuple>,
        lane: Option<&Arc<Lane>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, plain) = (given.py(), self.plain.get());
        let Some(args) = self.flattened(given)? else { return Ok(None) };
        if !plain.is_ordinary(py)? {
            return Ok(None);
        }
        let Some((reduction, want)) = self.asked(&args) else { return Ok(None) };
        let Some(at) = self.at(&args[0], lane)? else { return Ok(None) };
        let on_host = matches!(at, At::Host);
        let Some(list) = self.list.map_or(Ok(Some(None)), |places| self.list(&args, places, on_host))? else {
            return Ok(None);
        };
        if let Some(found) = list.as_ref().and_then(|list| list.found.as_ref())
            && on_host
            && !found.holds(&args[0], plain)?
        {
            return Ok(None);
        }
        let constants = Constants::new(self.sources.len(), at);
        let found = self.of_one_op(py, (lane, &constants), &args, list.as_ref(), (reduction, want))?;
        match &self.sum {
            Some(sum) if found.is_none() && on_host => {
                self.of_sum(py, sum, &args, list.as_ref(), (reduction, want))
            }
            _ => Ok(found),
        }
    }

    /// The place of a call, by its first array; None of one that is not plain, or on a stream that is captured, whose graph
    /// has constants of its own.
    fn at<'a, 'py>(
        &'a self,
        like: &'a Bound<'py, PyAny>,
        lane: Option<&'a Arc<Lane>>,
    ) -> PyResult<Option<At<'a, 'py>>> {
        if let Some(lane) = lane {
            return Ok(Some(At::Lane(lane)));
        }
        let plain = self.plain.get();
        Ok(match (plain.place(like)?, &self.derived) {
            (Some(Place::Host), _) => Some(At::Host),
            (Some(Place::Cuda(ordinal)), Some(derived)) => {
                let Ok(stream) = madelung_bridge_torch::stream(ordinal) else { return Ok(None) };
                if stream.is_capturing().unwrap_or(true) {
                    return Ok(None);
                }
                let stream = (ordinal, stream.as_raw());
                Some(At::Torch { plain, stream, mode: derived.modes[1].bind(like.py()), like })
            }
            _ => None,
        })
    }

    /// The results of a sum that Rust composes: of several terms, or with open parameters.
    fn of_sum<'py>(
        &self,
        py: Python<'py>,
        sum: &Sum,
        args: &[Bound<'py, PyAny>],
        list: Option<&List<'py>>,
        (reduction, want): (usize, u64),
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_wanted = |n: usize| self.gradients.get(n).is_some_and(|(_, bit)| want & bit != 0);
        let options = Options {
            energy_reduction: if reduction == 1 { Reduction::System } else { Reduction::Atom },
            compute_forces: is_wanted(0),
            compute_charge_gradients: is_wanted(1),
            compute_virial: is_wanted(2),
            ..Options::default()
        };
        let plain = self.plain.get();
        let Some(given) = sum.read(plain, args, list, options) else { return Ok(None) };
        let found = plain.run(py, &Site::Host, given.single, |context| given.results(context))?;
        found.map(|found| unpacked(py, found)).transpose()
    }

    /// The results of a call whose op's inputs are all given.
    fn of_one_op<'py>(
        &self,
        py: Python<'py>,
        (lane, constants): (Option<&Arc<Lane>>, &Constants<'_, 'py>),
        args: &[Bound<'py, PyAny>],
        list: Option<&List<'py>>,
        (reduction, want): (usize, u64),
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.others.iter().any(|(at, default)| !args[at.0].is(default))
            || !self.pbc.is_none_or(|at| are_all(&args[at.0]))
            || list.and_then(|list| list.found.as_ref()).is_some_and(|found| found.pbc.is_some())
            || (self.list.is_some() && list.is_none())
        {
            return Ok(None);
        }
        let entry = self.members[reduction][usize::from(want != 0)];
        let Some(inputs) = self.inputs(args, list, constants)? else { return Ok(None) };
        if inputs.in_graph {
            let Some(derived) = &self.derived else { return Ok(None) };
            let mode = derived.modes[usize::from(!constants.on_host())].bind(py);
            let Some(flat) = self.objects(mode, args, list, &inputs)? else {
                return Ok(None);
            };
            let of = (&derived.energies[reduction], PyTuple::new(py, flat)?, want, false, inputs.single);
            let of = InGraph { arguments: of.into_pyobject(py)?.unbind() };
            return Ok(Some(Bound::new(py, of)?.into_any()));
        }
        let site = match (lane, inputs.tensors.first().map(View::place)) {
            (Some(lane), _) => Site::Stream(lane, arrays_of(args, list)),
            (None, Some(Place::Cuda(ordinal))) => Site::Torch(ordinal),
            (None, _) => Site::Host,
        };
        let found = self.evaluated(py, &site, entry, inputs, want)?;
        let asked =
            |found: Vec<Option<Bound<'py, PyAny>>>| found.into_iter().filter(Option::is_some).collect();
        found.map(|found| unpacked(py, asked(found))).transpose()
    }

    /// Energies of atoms, 0, or of systems, 1, and the bits of the gradients that are asked for.
    fn asked(&self, args: &[Bound<'_, PyAny>]) -> Option<(usize, u64)> {
        let reduction = match args[self.reduction.0].extract().ok()? {
            "atom" => 0,
            "system" => 1,
            _ => return None,
        };
        let mut want = 0;
        for (at, bit) in &self.gradients {
            let is_wanted = args[at.0].cast_exact::<PyBool>().ok()?.is_true();
            want |= if is_wanted { *bit } else { 0 };
        }
        Some((reduction, want))
    }

    /// The list of a call, if it has one: one that a search has made, or pairs, offsets and images. None of others.
    fn list<'py>(
        &self,
        args: &[Bound<'py, PyAny>],
        [found, arrays @ ..]: [Argument; 4],
        on_host: bool,
    ) -> PyResult<Option<Option<List<'py>>>> {
        let arrays = arrays.map(|at| &args[at.0]);
        Ok(match (args[found.0].is_none(), arrays.iter().all(|x| x.is_none())) {
            (true, true) => Some(None),
            (true, false) => List::of_arrays(arrays, self.plain.get(), on_host)?.map(Some),
            (false, true) => List::of(&args[found.0], &self.neighbors, self.plain.get())?.map(Some),
            (false, false) => None,
        })
    }

    /// The results of the op, forces and virials with their sign.
    fn evaluated<'py>(
        &self,
        py: Python<'py>,
        site: &Site<'_>,
        entry: &Entry,
        inputs: Inputs<'_>,
        want: u64,
    ) -> PyResult<Option<Vec<Option<Bound<'py, PyAny>>>>> {
        let Inputs { tensors, numbers, single, .. } = inputs;
        let negated = want & self.negated;
        let all = want != 0 && negated == want;
        self.plain.get().run(py, site, single, |context| {
            let asked = if all { want | NEGATIVE } else { want };
            let found = results(entry, entry.evaluate(context, &tensors, &numbers, &[], asked)?, want);
            signed(context, found, if all { 0 } else { negated << 1 })
        })
    }

    /// The values of all parameters, each by its place.
    fn flattened<'py>(&self, given: &Bound<'py, PyTuple>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let (mut args, plain) = (Vec::with_capacity(32), self.plain.get());
        if given.len() != self.groups.len() {
            return Ok(None);
        }
        for (x, group) in given.iter().zip(&self.groups) {
            match group {
                None => args.push(plain.inside(x)?),
                Some(count) => {
                    let Ok(members) = x.cast_exact::<PyTuple>() else { return Ok(None) };
                    if members.len() != *count {
                        return Ok(None);
                    }
                    for x in members.iter() {
                        args.push(plain.inside(x)?);
                    }
                }
            }
        }
        Ok(Some(args))
    }

    /// The cells of systems, and whether there is one alone; None where the list was made in another cell.
    fn cell<'a>(
        &self,
        x: &'a Bound<'_, PyAny>,
        dtype: Option<DType>,
        list: Option<&List<'_>>,
        on_host: bool,
    ) -> PyResult<Option<(View<'a>, bool)>> {
        let (plain, Some(dtype)) = (self.plain.get(), dtype) else { return Ok(None) };
        let given = if x.is_none() { None } else { plain.view(x)? };
        let single = given.as_ref().is_none_or(|cell| cell.shape().len() == 2);
        let cell = match &given {
            None if x.is_none() && on_host => unit_cell(dtype),
            Some(cell) if *cell.shape() == [3, 3] => View::new(cell.data(), &[1, 3, 3]).ok(),
            Some(cell) if matches!(cell.shape(), [n, 3, 3] if *n > 0) => Some(cell.clone()),
            _ => None,
        };
        let Some(cell) = cell.filter(|cell| cell.dtype() == dtype) else { return Ok(None) };
        if let Some(found) = list.and_then(|list| list.found.as_ref())
            && !found.is_of(x, given.as_ref(), plain, on_host)?
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
        constants: &'a Constants<'_, '_>,
    ) -> PyResult<Option<Inputs<'a>>> {
        let (plain, on_host) = (self.plain.get(), constants.on_host());
        let (mut tensors, mut numbers) =
            (Vec::<View<'a>>::with_capacity(self.sources.len()), Vec::with_capacity(4));
        // Without a cutoff all pairs of open systems count, which may have no cell.
        let mut may_be_open = false;
        let (mut dtype, mut systems, mut single, mut in_graph, mut cutoff) = (None, 1, true, false, f64::NAN);
        for (n, source) in self.sources.iter().enumerate() {
            let view = match *source {
                Source::Array(at, axes) => {
                    let Some(view) = plain.view(&args[at.0])?.filter(|view| view.shape().len() == axes)
                    else {
                        return Ok(None);
                    };
                    if view.dtype().is_real() {
                        if *dtype.get_or_insert(view.dtype()) != view.dtype() {
                            return Ok(None);
                        }
                        in_graph |= plain.requires_graph(&args[at.0])?;
                    }
                    Some(view)
                }
                Source::Cell(at, false) if args[at.0].is_none() => return Ok(None),
                Source::Cell(at, _)
                    if args[at.0].is_none() && self.pbc.is_some_and(|pbc| !args[pbc.0].is_none()) =>
                {
                    return Ok(None);
                }
                Source::Cell(at, is_optional) => {
                    let Some(cell) = self.cell(&args[at.0], dtype, list, on_host)? else { return Ok(None) };
                    (systems, single) = (cell.0.shape()[0], cell.1);
                    in_graph |= !args[at.0].is_none() && plain.requires_graph(&args[at.0])?;
                    may_be_open = is_optional
                        && (args[at.0].is_none()
                            || !on_host
                            || periodic_axes(&cell.0).as_flattened().contains(&false));
                    Some(cell.0)
                }
                Source::PerSystem(at, is_number) => {
                    let x = &args[at.0];
                    match (number(x), dtype) {
                        (Some(x), Some(dtype)) => {
                            let x = if is_number && x == 0.0 { unsplit(dtype == DType::F32) } else { x };
                            if !(x > 0.0 && x.is_finite()) {
                                return Ok(None);
                            }
                            constants.filled(n, dtype, systems, x)?
                        }
                        _ if is_number => return Ok(None),
                        _ => {
                            let view = plain.view(x)?.filter(|view| view.shape() == [systems]);
                            let is_usual = |view: &View<'_>| Some(view.dtype()) == dtype;
                            let Some(view) = view.filter(is_usual) else { return Ok(None) };
                            in_graph |= plain.requires_graph(x)?;
                            Some(view)
                        }
                    }
                }
                Source::Zero => constants.absent(n, dtype.unwrap_or(DType::F64))?,
                Source::SystemOf(at, of) if args[at.0].is_none() && systems == 1 => {
                    constants.one_system(n, tensors[of].shape()[0])?
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
                        Part::Others => list.columns(plain, on_host)?,
                        Part::Shifts => list.images(plain)?,
                        _ => {
                            let rows = tensors.first().map_or(0, |view| view.shape()[0]);
                            let is_checked = list.is_checked(plain, on_host, rows)?;
                            if !is_checked && !on_host && list.is_long(plain)? {
                                return Ok(None);
                            }
                            numbers.push(if is_checked { CHECKED.cast_unsigned() } else { 0 });
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
                    let found = list.and_then(|list| list.found.as_ref());
                    let of_list = found.map_or(UNBOUNDED, |found| found.cutoff);
                    cutoff = match number(&args[at.0]) {
                        Some(cutoff) if cutoff <= of_list => cutoff,
                        None if may_be_of_list && !may_be_open && args[at.0].is_none() && list.is_some() => {
                            of_list
                        }
                        _ => return Ok(None),
                    };
                    numbers.push(cutoff.to_bits());
                    continue;
                }
                Source::Taper(at) => {
                    let taper = if args[at.0].is_none() { Some(0.9 * cutoff) } else { number(&args[at.0]) };
                    let Some(taper) = taper.filter(|x| *x > 0.0 && *x < cutoff) else { return Ok(None) };
                    numbers.push(taper.to_bits());
                    continue;
                }
                Source::NoEnd => {
                    numbers.push(cutoff.to_bits());
                    continue;
                }
            };
            match view {
                Some(view) => tensors.push(view),
                None => return Ok(None),
            }
        }
        let atoms = tensors.first().and_then(|view| view.shape().first().copied());
        if list.and_then(|list| list.found.as_ref()).is_some_and(|found| Some(found.atoms) != atoms) {
            return Ok(None);
        }
        Ok(Some(Inputs { tensors, numbers, systems, single, in_graph }))
    }

    /// The inputs as objects, where they are part of a graph of derivatives.
    fn objects<'py>(
        &self,
        mode: &Bound<'py, PyAny>,
        args: &[Bound<'py, PyAny>],
        list: Option<&List<'py>>,
        inputs: &Inputs<'_>,
    ) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let (py, positions) = (mode.py(), &args[0]);
        let mut numbers = inputs.numbers.iter();
        let mut next = || numbers.next().copied().unwrap_or_default();
        let mut objects = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            objects.push(match *source {
                Source::Cell(at, _) if args[at.0].is_none() => return Ok(None),
                Source::Cell(at, _) if args[at.0].getattr(intern!(py, "ndim"))?.extract::<usize>()? == 2 => {
                    args[at.0].call_method1(intern!(py, "unsqueeze"), (0,))?
                }
                Source::PerSystem(at, is_number) if let Some(x) = number(&args[at.0]) => {
                    let is_narrow = inputs.tensors[0].dtype() == DType::F32;
                    let x = if is_number && x == 0.0 { unsplit(is_narrow) } else { x };
                    mode.call_method1(intern!(py, "constant"), (x, positions, inputs.systems))?
                }
                Source::Zero => mode.call_method1(intern!(py, "absent"), (positions,))?,
                Source::SystemOf(at, of) if args[at.0].is_none() => {
                    let rows = inputs.tensors[of].shape()[0];
                    mode.call_method1(intern!(py, "one_system"), (positions, rows))?
                }
                Source::Array(at, _)
                | Source::Cell(at, _)
                | Source::PerSystem(at, ..)
                | Source::SystemOf(at, _) => args[at.0].clone(),
                Source::List(part) => match (part, list) {
                    (Part::Ptr, Some(list)) => list.index.clone(),
                    (Part::Others, Some(list)) if list.found.is_none() && inputs.on_host() => {
                        list.columns.call_method1(intern!(py, "select"), (0, 1))?
                    }
                    (Part::Others, Some(list)) => list.columns.clone(),
                    (Part::Shifts, Some(list)) => list.images.clone(),
                    _ => next().into_pyobject(py)?.into_any(),
                },
                Source::Mesh(..) => {
                    let count = next();
                    let mesh: Vec<u64> = (0..count).map(|_| next()).collect();
                    mode.call_method1(intern!(py, "integer_list"), (mesh,))?
                }
                Source::Prefactor(_) | Source::Cutoff(..) | Source::Taper(_) | Source::NoEnd => {
                    f64::from_bits(next()).into_pyobject(py)?.into_any()
                }
            });
        }
        Ok(Some(objects))
    }
}

/// The arrays of a device among a call's arguments and in its list.
fn arrays_of<'a>(
    args: &'a [Bound<'_, PyAny>],
    list: Option<&'a List<'_>>,
) -> Vec<(&'a DeviceArray, &'static str)> {
    let of_list = list.into_iter().flat_map(|list| [&list.index, &list.columns, &list.images]);
    let all = args.iter().chain(of_list).filter_map(|x| x.cast_exact().ok());
    // A call that fails goes another way, which names them.
    all.map(|array: &Bound<'_, DeviceArray>| (array.get(), "")).collect()
}
