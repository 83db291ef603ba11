//! Neighbour lists.

use madelung::backend::pool::Threads;
use madelung::batch::Batch;
use madelung::neighbors::{CooArrays, Coordinate, Method, NeighborSearch, Options};
use madelung::pairs::Matrix;
use madelung::pairs::PairList;
use madelung::{Error, Result};
use numpy::ndarray::{Array1, Array2, Array3};
use numpy::{Element, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::compute;
use crate::convert::{Groups, elements, given, given_any, triples};

/// Positions (N, 3), f64 or f32.
#[derive(FromPyObject)]
pub(crate) enum Positions<'py> {
    F64(PyReadonlyArray2<'py, f64>),
    F32(PyReadonlyArray2<'py, f32>),
}

impl Positions<'_> {
    /// Number of atoms.
    pub(crate) fn len(&self) -> PyResult<usize> {
        Ok(match self {
            Self::F64(r) => triples(r)?.len(),
            Self::F32(r) => triples(r)?.len(),
        })
    }
}

/// Cells from their array (B, 3, 3).
pub(crate) fn cells(cell: &PyReadonlyArray3<'_, f64>) -> PyResult<Vec<[[f64; 3]; 3]>> {
    Ok(elements(cell)?.as_chunks().0.as_chunks().0.to_vec())
}

/// The options of a search.
#[derive(FromPyObject)]
pub(crate) struct ListOptions {
    half_fill: bool,
    format: String,
    method: Option<String>,
    max_neighbors: Option<usize>,
    capacity: Option<usize>,
    fill_value: Option<i32>,
    distances: bool,
    vectors: bool,
}

impl ListOptions {
    fn search(&self) -> PyResult<Options> {
        let mut options = if self.half_fill { Options::half() } else { Options::full() };
        options.max_neighbors = self.max_neighbors;
        options.capacity = self.capacity;
        options.method = match self.method.as_deref() {
            None => None,
            Some("cell_list") => Some(Method::CellList),
            Some("brute_force") => Some(Method::BruteForce),
            Some(other) => return Err(PyValueError::new_err(format!("unknown method {other}"))),
        };
        Ok(options)
    }
}

/// The arrays of a list, in the order of the result.
enum Arrays {
    Coo(Array2<i32>, Array1<i32>, Array2<i32>),
    Csr(Array1<i32>, Array1<i32>, Array2<i32>),
    Matrix(Array2<i32>, Array1<i32>, Array3<i32>),
}

/// The requested distances and vectors, per entry of the flat list or in rows of the matrix.
struct Measured<T> {
    distances: Option<Vec<T>>,
    vectors: Option<Vec<[T; 3]>>,
    /// The rows and width of a matrix.
    shape: Option<(usize, usize)>,
}

/// A list of all pairs closer than the cutoff.
#[pyfunction]
pub(crate) fn neighbor_list<'py>(
    py: Python<'py>,
    positions: Positions<'py>,
    cutoff: f64,
    cell: Option<PyReadonlyArray3<'py, f64>>,
    pbc: Option<Vec<[bool; 3]>>,
    groups: Groups<'py>,
    options: ListOptions,
) -> PyResult<Bound<'py, PyTuple>> {
    let cells = cell.as_ref().map(cells).transpose()?;
    match positions {
        Positions::F64(r) => {
            search(py, triples(&r)?, cutoff, cells.as_deref(), pbc.as_deref(), &groups, &options)
        }
        Positions::F32(r) => {
            search(py, triples(&r)?, cutoff, cells.as_deref(), pbc.as_deref(), &groups, &options)
        }
    }
}

fn search<'py, T: Coordinate + Element>(
    py: Python<'py>,
    positions: &[[T; 3]],
    cutoff: f64,
    cells: Option<&[[[f64; 3]; 3]]>,
    pbc: Option<&[[bool; 3]]>,
    groups: &Groups<'py>,
    options: &ListOptions,
) -> PyResult<Bound<'py, PyTuple>> {
    let (batch, search) = (groups.batch(positions.len())?, options.search()?);
    if options.format != "matrix" && !(options.distances || options.vectors) {
        let CooArrays { list, ptr, shifts } = compute(py, || {
            let context = madelung::cpu::context();
            NeighborSearch::new().coo(positions, cutoff, cells, pbc, &batch, &search, &context)
        })?;
        let [list, ptr, shifts] = [given_any(py, list)?, given_any(py, ptr)?, given_any(py, shifts)?];
        let arrays =
            if options.format == "coo" { [list, ptr, shifts] } else { [ptr, list.get_item(1)?, shifts] };
        return PyTuple::new(py, arrays);
    }
    let (arrays, measured) = compute(py, || {
        let pool = Threads::shared();
        let pairs = madelung::neighbor_list(positions, cutoff, cells, pbc, &batch, &search, pool)?;
        // The matrix first, since one with too many entries to address is an error.
        let matrix = (options.format == "matrix").then(|| matrix(&pairs, options)).transpose()?;
        let shape = matrix.as_ref().map(|m| (pairs.rows(), m.width));
        let measured = measure(positions, cells, &batch, &pairs, shape, options)?;
        let arrays = match matrix {
            Some(m) => in_rows(m, pairs.rows()),
            None => flat(pairs, options.format == "coo")?,
        };
        Ok((arrays, measured))
    })?;
    let mut out = match arrays {
        Arrays::Coo(a, b, c) => vec![given(py, a), given(py, b), given(py, c)],
        Arrays::Csr(a, b, c) => vec![given(py, a), given(py, b), given(py, c)],
        Arrays::Matrix(a, b, c) => vec![given(py, a), given(py, b), given(py, c)],
    };
    if let Some(d) = measured.distances {
        out.push(match measured.shape {
            Some(shape) => given(py, shaped2(shape, d)),
            None => given(py, Array1::from_vec(d)),
        });
    }
    if let Some(v) = measured.vectors {
        out.push(match measured.shape {
            Some((rows, width)) => given(py, shaped3((rows, width), v)),
            None => given(py, shaped2((v.len(), 3), v.into_flattened())),
        });
    }
    PyTuple::new(py, out)
}

fn measure<T: Coordinate>(
    positions: &[[T; 3]],
    cells: Option<&[[[f64; 3]; 3]]>,
    batch: &Batch<'_>,
    pairs: &PairList<'_>,
    shape: Option<(usize, usize)>,
    options: &ListOptions,
) -> Result<Measured<T>> {
    if !(options.distances || options.vectors) {
        return Ok(Measured { distances: None, vectors: None, shape });
    }
    let (distances, vectors) =
        madelung::neighbors::distances(positions, cells, batch, pairs, Threads::shared())?;
    let zero = T::narrow(0.0);
    let distances = options.distances.then(|| spread(pairs, shape, distances, zero));
    let vectors = options.vectors.then(|| spread(pairs, shape, vectors, [zero; 3]));
    Ok(Measured { distances, vectors, shape })
}

/// The entries of a flat list in the rows of a matrix, padded with `zero`; unchanged without a matrix.
fn spread<V: Copy>(pairs: &PairList<'_>, shape: Option<(usize, usize)>, flat: Vec<V>, zero: V) -> Vec<V> {
    let Some((rows, width)) = shape else { return flat };
    let mut out = vec![zero; rows * width];
    for i in 0..rows {
        let row = &flat[pairs.range(i)];
        out[i * width..][..row.len()].copy_from_slice(row);
    }
    out
}

fn matrix(pairs: &PairList<'_>, options: &ListOptions) -> Result<Matrix> {
    pairs.to_matrix(options.max_neighbors, options.fill_value.unwrap_or(pairs.rows() as i32))
}

fn in_rows(m: Matrix, rows: usize) -> Arrays {
    Arrays::Matrix(
        shaped2((rows, m.width), m.neighbor_matrix),
        Array1::from_vec(m.num_neighbors),
        shaped3((rows, m.width), m.shifts),
    )
}

fn flat(pairs: PairList<'static>, coo: bool) -> Result<Arrays> {
    let both = coo.then(|| {
        let coo = pairs.to_coo();
        let mut both = coo.i;
        both.extend_from_slice(&coo.j);
        both
    });
    let csr = pairs.into_csr();
    let ptr = narrow_offsets(&csr.neighbor_ptr)?;
    let shifts = rows_of_three(csr.shifts.into_owned());
    Ok(match both {
        Some(both) => Arrays::Coo(shaped2((2, both.len() / 2), both), ptr, shifts),
        None => Arrays::Csr(ptr, Array1::from_vec(csr.others.into_owned()), shifts),
    })
}

/// Offsets as int32.
pub(crate) fn narrow_offsets(ptr: &[i64]) -> Result<Array1<i32>> {
    let narrow = |p: &i64| {
        i32::try_from(*p).map_err(|_| {
            let expected = format!(
                "at most {} pairs, which is what the int32 offsets of the result can address",
                i32::MAX
            );
            Error::argument("cutoff", expected, format!("{p} pairs"))
        })
    };
    Ok(Array1::from_vec(ptr.iter().map(narrow).collect::<Result<_>>()?))
}

pub(crate) fn rows_of_three(rows: Vec<[i32; 3]>) -> Array2<i32> {
    shaped2((rows.len(), 3), rows.into_flattened())
}

fn shaped2<V>(shape: (usize, usize), flat: Vec<V>) -> Array2<V> {
    Array2::from_shape_vec(shape, flat).expect("as many elements as the shape says")
}

fn shaped3<V>((rows, width): (usize, usize), flat: Vec<[V; 3]>) -> Array3<V> {
    Array3::from_shape_vec((rows, width, 3), flat.into_flattened())
        .expect("as many elements as the shape says")
}
