//! Sums of several terms, or with open parameters, in one call of this module: as callers of Rust have them.

use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::batch::Batch;
use madelung::electrostatics::plan::{self, Axes, Method};
use madelung::op::Structure;
use madelung::pairs::{Kind, Neighbors};
use madelung::{EwaldSettings, Options, PmeSettings, System, ewald_summation, particle_mesh_ewald};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyTuple};

use super::given::{List, axes_of, mesh, number, periodic_axes, unit_cell};
use super::sources::{Argument, Others, Parameters, others, place};
use crate::plain::Plain;

/// Places of a sum's arguments.
pub(super) struct Sum {
    sum: plan::Sum,
    positions: Argument,
    charges: Argument,
    cell: Argument,
    batch_idx: Argument,
    pbc: Argument,
    slab_correction: Argument,
    slab_height: Argument,
    alpha: Argument,
    cutoff: Argument,
    accuracy: Argument,
    exclusions: Argument,
    widths: Argument,
    prefactor: Argument,
    /// Arguments of a sum over waves (k_cutoff, miller_indices, miller_batch_idx, method) or on a mesh (mesh_dimensions,
    /// spline_order).
    own: Vec<Argument>,
    others: Others,
}

/// A call whose arguments are plain arrays, and numbers of Python.
pub(super) struct Given<'a> {
    positions: View<'a>,
    charges: View<'a>,
    cell: View<'a>,
    pbc: Axes,
    batch_idx: Option<View<'a>>,
    exclusions: Option<(Vec<[i32; 2]>, Vec<f64>)>,
    widths: Option<View<'a>>,
    /// A list, and whether a search has made it.
    list: Option<([View<'a>; 3], bool)>,
    settings: Settings,
    options: Options,
    /// Whether of one system that is no batch.
    pub(super) single: bool,
}

enum Settings {
    Waves(EwaldSettings),
    Mesh(PmeSettings),
}

impl Sum {
    /// The sum of which one op is a straight call; None of other ops. `used`: places of lists and results.
    pub(super) fn of(op: &str, parameters: &Parameters<'_>, used: &[Argument]) -> PyResult<Option<Self>> {
        let (sum, own) = match op {
            "ewald_summation" => {
                (plan::Sum::Waves, &["k_cutoff", "miller_indices", "miller_batch_idx", "method"][..])
            }
            "ewald_mesh_summation" => (plan::Sum::Mesh, &["mesh_dimensions", "spline_order"][..]),
            _ => return Ok(None),
        };
        let mut places = used.to_vec();
        let mut of = |name: &str| place(parameters, name).inspect(|place| places.push(*place));
        let mut found = Self {
            sum,
            positions: of("positions")?,
            charges: of("charges")?,
            cell: of("cell")?,
            batch_idx: of("batch_idx")?,
            pbc: of("pbc")?,
            slab_correction: of("slab_correction")?,
            slab_height: of("slab_height")?,
            alpha: of("alpha")?,
            cutoff: of("cutoff")?,
            accuracy: of("accuracy")?,
            exclusions: of("exclusions")?,
            widths: of("widths")?,
            prefactor: of("prefactor")?,
            own: own.iter().map(|name| of(name)).collect::<PyResult<_>>()?,
            others: Others::default(),
        };
        found.others = others(parameters, &places)?;
        Ok(Some(found))
    }

    /// The arguments of a call, where they are plain; `options` lacks the prefactor.
    pub(super) fn read<'a>(
        &self,
        plain: &'a Plain,
        args: &'a [Bound<'_, PyAny>],
        list: Option<&'a List<'_>>,
        options: Options,
    ) -> Option<Given<'a>> {
        if self.others.iter().any(|(at, default)| !args[at.0].is(default)) {
            return None;
        }
        let of = |at: Argument| &args[at.0];
        let dtype = plain.view(of(self.positions)).ok()??.dtype();
        let reader = Reader { plain, dtype };
        let positions = reader.reals(of(self.positions), 2)?;
        let cell = optional(of(self.cell), |x| reader.reals_of_any_shape(x))?;
        let batch_idx = optional(of(self.batch_idx), |x| reader.integers(x))?;
        let single = cell.as_ref().is_none_or(|cell| cell.shape().len() == 2) && batch_idx.is_none();
        let of_cell = cell.as_ref().map(periodic_axes);
        let pbc = match optional(of(self.pbc), |x| axes_of(x, plain))? {
            Some(rows) if of_cell.is_none() && rows.as_flattened().contains(&true) => return None,
            Some(rows) => rows,
            None => of_cell.clone().unwrap_or_else(|| vec![[false; 3]]),
        };
        let is_slab = |row: &[bool; 3]| row.iter().filter(|x| **x).count() == 2;
        let permits_slabs = of(self.slab_correction).cast_exact::<PyBool>().ok()?.is_true();
        if !permits_slabs && pbc.iter().any(is_slab) {
            return None;
        }
        let mut cutoff = reader.numbers(of(self.cutoff))?;
        if let Some(found) = list.and_then(|list| list.found.as_ref()) {
            let cutoffs = cutoff.get_or_insert_with(|| vec![found.cutoff]);
            let reaches = cutoffs.iter().all(|cutoff| *cutoff <= found.cutoff);
            let same = found.is_of(of(self.cell), cell.as_ref(), plain, true).ok()?;
            let fits = same && found.has_axes(&pbc, of_cell.as_ref());
            if !(fits && reaches && found.atoms == positions.shape()[0]) {
                return None;
            }
        }
        let memory = |x: &'a Bound<'_, PyAny>| plain.memory(x).ok()?;
        let arrays = |list: &'a List<'_>| {
            Some([memory(&list.index)?, list.columns(plain, true).ok()??, list.images(plain).ok()??])
        };
        let list = match list {
            Some(list) => Some((arrays(list)?, list.found.is_some())),
            None => None,
        };
        Some(Given {
            positions,
            charges: reader.reals(of(self.charges), 1)?,
            cell: cell.or_else(|| View::new(unit_cell(dtype)?.data(), &[3, 3]).ok())?,
            pbc,
            batch_idx,
            exclusions: optional(of(self.exclusions), |x| reader.excluded(x))?,
            widths: optional(of(self.widths), |x| reader.reals(x, 1))?,
            list,
            settings: self.settings(&reader, args, cutoff, single)?,
            options: Options { prefactor: number(of(self.prefactor))?, ..options },
            single,
        })
    }

    fn settings(
        &self,
        reader: &Reader<'_>,
        args: &[Bound<'_, PyAny>],
        cutoff: Option<Vec<f64>>,
        single: bool,
    ) -> Option<Settings> {
        let of = |at: Argument| &args[at.0];
        let (alpha, slab_height) = (reader.numbers(of(self.alpha))?, reader.numbers(of(self.slab_height))?);
        let accuracy = optional(of(self.accuracy), number)?;
        Some(match (self.sum, &self.own[..]) {
            (plan::Sum::Mesh, [nodes, order]) => {
                let given = optional(of(*nodes), |nodes| mesh(nodes, of(*order)))?;
                let given = given.map(|numbers| numbers.map(|n| n as usize));
                let order_alone = || optional(of(*order), |x| x.cast_exact::<PyInt>().ok()?.extract().ok());
                let order = if let Some([.., p]) = given { Some(p) } else { order_alone()? };
                Settings::Mesh(PmeSettings {
                    alpha,
                    cutoff,
                    mesh_dimensions: given.map(|[x, y, z, _]| vec![[x, y, z]]),
                    mesh_spacing: None,
                    spline_order: order.map(|p| vec![p]),
                    accuracy,
                    slab_height,
                })
            }
            (_, [k_cutoff, indices, of_waves, method]) => {
                let waves = optional(of(*indices), |indices| reader.waves(indices, of(*of_waves), single))?;
                if waves.is_none() && !of(*of_waves).is_none() {
                    return None;
                }
                let method = optional(of(*method), |x| match x.extract().ok()? {
                    "direct" => Some(Method::Direct),
                    "list" => Some(Method::List),
                    _ => None,
                });
                let (k_cutoff, method) = (reader.numbers(of(*k_cutoff))?, method?);
                Settings::Waves(EwaldSettings {
                    alpha,
                    cutoff,
                    k_cutoff,
                    waves,
                    accuracy,
                    method,
                    slab_height,
                })
            }
            _ => return None,
        })
    }
}

impl Given<'_> {
    /// The results that are asked for, in the order in which functions return them.
    pub(super) fn results(self, context: &Context<'_>) -> madelung::Result<Vec<Option<Array>>> {
        let atoms = self.positions.shape()[0];
        let systems = if let [systems, 3, 3] = self.cell.shape() { Some(*systems) } else { None };
        let batch = match &self.batch_idx {
            Some(idx) => Batch::from_idx_array(idx, systems)?,
            None => Batch::single(atoms)?,
        };
        let mut system = System::with_boundaries(self.positions, self.charges, self.cell, &self.pbc, batch)?;
        if let Some((pairs, factors)) = &self.exclusions {
            system = system.excluding(pairs, factors)?;
        }
        if let Some(widths) = self.widths {
            system = system.with_widths(widths)?;
        }
        let list = match &self.list {
            Some(([index, columns, images], is_checked)) => {
                Some(Neighbors::from_arrays([index, columns, images], atoms, Kind::Full, *is_checked)?)
            }
            None => None,
        };
        let (list, options) = (list.as_ref().map(|list| list as &dyn Structure), &self.options);
        let found = match &self.settings {
            Settings::Waves(of) => ewald_summation(context, &system, of, list, options),
            Settings::Mesh(of) => particle_mesh_ewald(context, &system, of, list, options),
        }?;
        let gradients = [found.forces, found.charge_gradients, found.virial].into_iter().flatten();
        Ok([found.energies].into_iter().chain(gradients).map(Some).collect())
    }
}

/// Reading of an argument that may be left out: `Some(None)` where it is; None where it is not plain.
fn optional<'a, 'py, T>(
    x: &'a Bound<'py, PyAny>,
    read: impl FnOnce(&'a Bound<'py, PyAny>) -> Option<T>,
) -> Option<Option<T>> {
    if x.is_none() { Some(None) } else { read(x).map(Some) }
}

/// Reader of plain arrays of one dtype, and of numbers.
struct Reader<'p> {
    plain: &'p Plain,
    dtype: DType,
}

impl Reader<'_> {
    /// An array of real numbers that belongs to no graph of derivatives.
    fn reals_of_any_shape<'a>(&self, x: &'a Bound<'_, PyAny>) -> Option<View<'a>> {
        let view = self.plain.view(x).ok()??;
        (view.dtype() == self.dtype && !self.plain.requires_graph(x).ok()?).then_some(view)
    }

    /// Such an array of so many axes.
    fn reals<'a>(&self, x: &'a Bound<'_, PyAny>, axes: usize) -> Option<View<'a>> {
        self.reals_of_any_shape(x).filter(|view| view.shape().len() == axes)
    }

    /// Integers of each row.
    fn integers<'a>(&self, x: &'a Bound<'_, PyAny>) -> Option<View<'a>> {
        let view = self.plain.view(x).ok()??;
        (view.shape().len() == 1 && !view.dtype().is_real()).then_some(view)
    }

    /// Rows of integers.
    fn rows<const N: usize>(&self, x: &Bound<'_, PyAny>) -> Option<Vec<[i32; N]>> {
        let view = self.plain.view(x).ok()??;
        let fits = matches!(view.shape(), [_, n] if *n == N) && !view.dtype().is_real();
        fits.then(|| view.to_i32("rows").ok().map(|all| all.as_chunks().0.to_vec()))?
    }

    /// A number of all systems, or one of each, or None.
    fn numbers(&self, x: &Bound<'_, PyAny>) -> Option<Option<Vec<f64>>> {
        optional(x, |x| match number(x) {
            Some(x) => Some(vec![x]),
            None => self.reals(x, 1)?.to_f64().ok(),
        })
    }

    /// Pairs that are left out, and the factors of their energies.
    fn excluded(&self, x: &Bound<'_, PyAny>) -> Option<(Vec<[i32; 2]>, Vec<f64>)> {
        let Ok(both) = x.cast_exact::<PyTuple>() else {
            let pairs = self.rows(x)?;
            let factors = vec![0.0; pairs.len()];
            return Some((pairs, factors));
        };
        let (pairs, given): (Bound<'_, PyAny>, Bound<'_, PyAny>) = both.extract().ok()?;
        let pairs = self.rows(&pairs)?;
        let factors = match number(&given) {
            Some(factor) => vec![factor; pairs.len()],
            None if given.is_none() => vec![0.0; pairs.len()],
            None => self.reals(&given, 1)?.to_f64().ok()?,
        };
        Some((pairs, factors))
    }

    /// Waves, and the system of each.
    fn waves(
        &self,
        indices: &Bound<'_, PyAny>,
        of: &Bound<'_, PyAny>,
        single: bool,
    ) -> Option<(Vec<[i32; 3]>, Vec<i32>)> {
        let indices = self.rows(indices)?;
        let of = match optional(of, |of| self.integers(of))? {
            Some(of) => of.to_i32("miller_batch_idx").ok()?.into_owned(),
            None if single => vec![0; indices.len()],
            None => return None,
        };
        Some((indices, of))
    }
}
