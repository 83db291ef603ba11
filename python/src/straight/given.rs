//! Arguments of straight calls.

use madelung::array::{DType, Data, View};
use madelung::electrostatics::mesh::SPLINE_ORDER;
use madelung::electrostatics::plan::Axes;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple, PyType};
use std::sync::OnceLock;

use crate::plain::Plain;

/// Neighbour list of a call.
pub(super) struct List<'py> {
    pub(super) index: Bound<'py, PyAny>,
    /// The columns; of plain arrays the pairs (2, P), but for those of PyTorch on a device.
    pub(super) columns: Bound<'py, PyAny>,
    pub(super) images: Bound<'py, PyAny>,
    /// Facts about a list that a search has made; None for plain arrays.
    pub(super) found: Option<Found<'py>>,
}

/// Facts that a search says of its list.
pub(super) struct Found<'py> {
    /// The cell that it was made in.
    cell: Bound<'py, PyAny>,
    /// The periodic axes; None: those of the cell.
    pub(super) pbc: Option<Axes>,
    pub(super) cutoff: f64,
    pub(super) atoms: usize,
    /// The positions that it was made for, and the skin that its atoms may use up.
    made_for: Option<(Bound<'py, PyAny>, f64)>,
}

impl<'py> List<'py> {
    /// The list of a class `of`.
    pub(super) fn of(x: &Bound<'py, PyAny>, of: &Py<PyType>, plain: &Plain) -> PyResult<Option<Self>> {
        let py = x.py();
        if !x.get_type().is(of) {
            return Ok(None);
        }
        let Ok(pbc) = x.getattr(intern!(py, "pbc"))?.extract() else { return Ok(None) };
        let (cutoff, atoms) = (x.getattr(intern!(py, "cutoff"))?, x.getattr(intern!(py, "atoms"))?);
        let (Ok(cutoff), Ok(atoms)) = (cutoff.extract(), atoms.extract()) else { return Ok(None) };
        let (positions, skin) = (x.getattr(intern!(py, "positions"))?, x.getattr(intern!(py, "skin"))?);
        let skin: f64 = skin.extract().unwrap_or(0.0);
        let made_for = (skin > 0.0 && !positions.is_none()).then_some((positions, skin));
        Ok(Some(Self {
            index: plain.inside(x.getattr(intern!(py, "index"))?)?,
            columns: plain.inside(x.getattr(intern!(py, "columns"))?)?,
            images: plain.inside(x.getattr(intern!(py, "images"))?)?,
            found: Some(Found { cell: x.getattr(intern!(py, "cell"))?, pbc, cutoff, atoms, made_for }),
        }))
    }

    /// The list of plain arrays: pairs (2, P), offsets and images.
    pub(super) fn of_arrays(
        [pairs, ptr, shifts]: [&Bound<'py, PyAny>; 3],
        plain: &Plain,
        on_host: bool,
    ) -> PyResult<Option<Self>> {
        if pairs.is_none() || ptr.is_none() || shifts.is_none() {
            return Ok(None);
        }
        let columns = if on_host { pairs.clone() } else { plain.columns_of(pairs)? };
        Ok(Some(Self { index: ptr.clone(), columns, images: shifts.clone(), found: None }))
    }

    /// Whether calls with so many atoms need not check it: a search has made it, and on a device nobody else can have written
    /// to it.
    pub(super) fn is_checked(&self, plain: &Plain, on_host: bool, atoms: usize) -> PyResult<bool> {
        if on_host {
            return Ok(self.found.is_some());
        }
        plain.is_checked([&self.index, &self.columns, &self.images], atoms)
    }

    /// Whether PyTorch remembers it when a call on a device has checked it.
    pub(super) fn is_long(&self, plain: &Plain) -> PyResult<bool> {
        Ok(plain.memory(&self.columns)?.is_some_and(|columns| columns.len() >= plain.most_pairs()))
    }

    /// The images. Those of plain arrays in three integers each.
    pub(super) fn images<'a>(&'a self, plain: &Plain) -> PyResult<Option<View<'a>>> {
        if self.found.is_some() {
            return plain.memory(&self.images);
        }
        Ok(plain.view(&self.images)?.filter(|images| matches!(images.shape(), [_, 3])))
    }

    /// The columns. Those of plain arrays, where values can be read, only where the first row of the pairs fits the offsets,
    /// and where there are fewer pairs than [`Plain::most_pairs`].
    pub(super) fn columns<'a>(&'a self, plain: &Plain, on_host: bool) -> PyResult<Option<View<'a>>> {
        if self.found.is_some() {
            return plain.memory(&self.columns);
        }
        let (Some(columns), offsets) = (plain.view(&self.columns)?, plain.view(&self.index)?) else {
            return Ok(None);
        };
        if !on_host {
            return Ok(match columns.shape() {
                [2, count] => columns.rows(1, 1).and_then(|row| View::new(row.data(), &[*count])).ok(),
                [_] => Some(columns),
                _ => None,
            });
        }
        Ok(match (columns.data(), columns.shape(), offsets.map(|offsets| offsets.data())) {
            (Data::I32(pairs), [2, count], Some(Data::I32(ptr))) if *count < plain.most_pairs() => {
                let (rows, columns) = pairs.split_at(*count);
                let fits = |(i, ends): (usize, &[i32])| {
                    let own = rows.get(ends[0] as usize..ends[1] as usize);
                    own.is_some_and(|own| own.iter().all(|row| *row == i as i32))
                };
                let is_whole = ptr.first() == Some(&0) && ptr.last() == i32::try_from(*count).ok().as_ref();
                let fit = is_whole && ptr.windows(2).enumerate().all(fits);
                View::new(Data::I32(columns), &[*count]).ok().filter(|_| fit)
            }
            _ => None,
        })
    }
}

impl Found<'_> {
    /// Whether it was made in the cell `x`, by its values as far as they can be read; None: without one.
    pub(super) fn is_of(
        &self,
        x: &Bound<'_, PyAny>,
        cell: Option<&View<'_>>,
        plain: &Plain,
        on_host: bool,
    ) -> PyResult<bool> {
        let Some(cell) = cell.filter(|_| on_host) else { return plain.is_made_in(&self.cell, x) };
        let systems = if cell.shape().len() == 2 { 1 } else { cell.shape()[0] };
        let same = |other: View<'_>| match (cell.data(), other.data()) {
            _ if other.shape() != [systems, 3, 3] => false,
            (Data::F64(a), Data::F64(b)) => a == b,
            (Data::F32(a), Data::F32(b)) => a == b,
            _ => false,
        };
        Ok(!self.cell.is_none() && plain.memory(&self.cell)?.is_some_and(same))
    }

    /// Whether no atom of the host has moved by more than half the skin since.
    pub(super) fn holds(&self, positions: &Bound<'_, PyAny>, plain: &Plain) -> PyResult<bool> {
        let near = |(known, skin): &(Bound<'_, PyAny>, f64)| plain.is_near(known, positions, *skin);
        self.made_for.as_ref().map_or(Ok(true), near)
    }

    /// Whether it was made with these periodic axes; `of_cell`: those of its cell, if it has one.
    pub(super) fn has_axes(&self, pbc: &[[bool; 3]], of_cell: Option<&Axes>) -> bool {
        let own = match (&self.pbc, of_cell) {
            (Some(own), _) => own,
            (None, Some(of_cell)) => of_cell,
            (None, None) => &vec![[false; 3]],
        };
        let rows = own.len().max(pbc.len());
        [own, pbc].iter().all(|of| [1, rows].contains(&of.len()))
            && (0..rows).all(|b| own[b % own.len()] == pbc[b % pbc.len()])
    }
}

/// Indices of one system for all rows; None of more rows than are kept.
pub(super) fn one_system(rows: usize) -> Option<View<'static>> {
    static ZEROS: OnceLock<Vec<i32>> = OnceLock::new();
    View::new(Data::I32(ZEROS.get_or_init(|| vec![0; 1 << 16]).get(..rows)?), &[rows]).ok()
}

/// The cell of atoms without one.
pub(super) fn unit_cell(dtype: DType) -> Option<View<'static>> {
    const UNIT: [f64; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    const NARROW: [f32; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let data = if dtype == DType::F32 { Data::F32(&NARROW) } else { Data::F64(&UNIT) };
    View::new(data, &[1, 3, 3]).ok()
}

/// Periodic axes of cells: those whose vector is not zero.
pub(super) fn periodic_axes(cells: &View<'_>) -> Axes {
    let vectors: Vec<bool> = match cells.data() {
        Data::F64(rows) => rows.as_chunks().0.iter().map(|vector| *vector != [0.0; 3]).collect(),
        Data::F32(rows) => rows.as_chunks().0.iter().map(|vector| *vector != [0.0; 3]).collect(),
        _ => vec![],
    };
    vectors.as_chunks().0.to_vec()
}

/// Periodic axes of all systems, or of each, in Python's own types or an array of truths.
pub(super) fn axes_of(pbc: &Bound<'_, PyAny>, plain: &Plain) -> Option<Axes> {
    if let Ok(all) = pbc.cast_exact::<PyBool>() {
        return Some(vec![[all.is_true(); 3]]);
    }
    let rows = if pbc.is_exact_instance_of::<PyTuple>() || pbc.is_exact_instance_of::<PyList>() {
        pbc.clone()
    } else {
        plain.truths(pbc)?
    };
    rows.extract()
        .map(|row| vec![row])
        .or_else(|_| rows.extract())
        .ok()
        .filter(|rows: &Axes| !rows.is_empty())
}

/// Whether axes are those of the cell, all of them.
pub(super) fn are_all(pbc: &Bound<'_, PyAny>) -> bool {
    let is_true = |x: &Bound<'_, PyAny>| x.is(PyBool::new(x.py(), true));
    pbc.is_none()
        || is_true(pbc)
        || pbc.cast_exact::<PyTuple>().is_ok_and(|axes| axes.len() == 3 && axes.iter().all(|x| is_true(&x)))
}

/// A number of Python's own types.
pub(super) fn number(x: &Bound<'_, PyAny>) -> Option<f64> {
    if x.is_exact_instance_of::<PyFloat>() || x.is_exact_instance_of::<PyInt>() {
        x.extract().ok()
    } else {
        None
    }
}

/// Three nodes and the order of the splines on them.
pub(super) fn mesh(nodes: &Bound<'_, PyAny>, order: &Bound<'_, PyAny>) -> Option<[u64; 4]> {
    let order =
        if order.is_none() { SPLINE_ORDER } else { order.cast_exact::<PyInt>().ok()?.extract().ok()? };
    let [x, y, z] = nodes.cast_exact::<PyTuple>().ok()?.extract::<[usize; 3]>().ok()?;
    let fits = (4..=8).contains(&order) && [x, y, z].iter().all(|n| *n >= order);
    fits.then_some([x as u64, y as u64, z as u64, order as u64])
}
