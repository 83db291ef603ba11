//! Point charges, their cells and boundaries, and what else a sum is of.

use crate::plan::Axes;
use madelung_core::array::{Array, DType, Data, View};
use madelung_core::backend::pool::Pool;
use madelung_core::cell::Cell;
use madelung_core::structure::{Batch, Neighbors};
use madelung_core::{Error, Result};
use madelung_neighbors::{Cutoff, Options, find_neighbors};

/// Point charges: one system, or a batch of them, each a crystal, a slab, a wire or a molecule.
///
/// A layer of ions, periodic along two axes, and a molecule beside it, whose first pair is left out:
///
/// ```
/// use madelung_core::structure::Batch;
/// use madelung_electrostatics::{EwaldSettings, Options, System, ewald_summation};
///
/// let positions = [[0.0, 0.0, 0.0], [2.8, 0.0, 0.1], [2.8, 2.8, 0.0], [0.0, 2.8, 0.1], [0.0; 3], [1.0, 0.0, 0.0]];
/// let charges = [1.0, -1.0, 1.0, -1.0, 0.5, -0.5];
/// // Vectors along open axes do not count.
/// let cells = [[[5.6, 0.0, 0.0], [0.0, 5.6, 0.0], [0.0; 3]], [[0.0; 3]; 3]];
/// let pbc = [[true, true, false], [false; 3]];
/// let batch = Batch::from_idx(vec![0, 0, 0, 0, 1, 1], None)?;
/// let system = System::with_boundaries((&positions[..]).into(), (&charges).into(), (&cells[..]).into(), &pbc, batch)?
///     .excluding(&[[4, 5]], &[0.0])?;
/// let context = madelung_cpu::context();
/// let found = ewald_summation(&context, &system, &EwaldSettings::default(), None, &Options::forces())?;
/// let energies = found.energies.to_f64()?;
/// // The energy of an ion of the layer, about that of a square lattice: −1.6155/2 · 1/2.8 each.
/// assert!((energies[0] + 1.6155 / 5.6).abs() < 1e-3);
/// assert!(energies[4].abs() < 1e-12);
/// # Ok::<(), madelung_core::Error>(())
/// ```
#[derive(Debug)]
pub struct System<'a> {
    pub(crate) positions: View<'a>,
    pub(crate) charges: View<'a>,
    /// (B, 3, 3), in the dtype of the positions.
    pub(crate) cell: Array,
    cells: Vec<[[f64; 3]; 3]>,
    pub(crate) batch: Batch<'a>,
    pub(crate) pbc: Axes,
    pub(crate) exclusions: Option<Excluded>,
    pub(crate) widths: Option<View<'a>>,
}

/// Pairs that a sum leaves out, or scales.
#[derive(Clone, Debug)]
pub(crate) struct Excluded {
    pub(crate) pairs: Vec<[i32; 2]>,
    pub(crate) factors: Vec<f64>,
}

impl<'a> System<'a> {
    /// Point charges in cells that are periodic along all axes, checked:
    /// - `positions` (N, 3) in L, f32 or f64
    /// - `charges` (N,) in e, with the dtype of the positions
    /// - `cell` (3, 3), for all systems, or (B, 3, 3): rows are lattice vectors, of either handedness
    /// - `batch`: the system of each atom; [`Batch::single`] for one system
    ///
    /// # Errors
    /// An argument on a device, or whose dtype or shape does not fit the others; `cell`, where one is singular.
    pub fn new(positions: View<'a>, charges: View<'a>, cell: View<'_>, batch: Batch<'a>) -> Result<Self> {
        Self::with_boundaries(positions, charges, cell, &[[true; 3]], batch)
    }

    /// Point charges with periodic axes, one row for all systems or one for each: three make a crystal; two a slab, which gets
    /// the correction for slabs; one a wire, and none an open system, which are summed over all of their pairs. Vectors
    /// along open axes are not looked at, and may be zero.
    ///
    /// # Errors
    /// As [`System::new`]; `pbc`, where it has rows of another number of systems.
    pub fn with_boundaries(
        positions: View<'a>,
        charges: View<'a>,
        cell: View<'_>,
        pbc: &[[bool; 3]],
        batch: Batch<'a>,
    ) -> Result<Self> {
        let dtype = positions.dtype();
        if !dtype.is_computed() {
            return Err(Error::argument("positions", "float32 or float64", dtype.to_string()));
        }
        let n = batch.atoms();
        check("positions", &positions, dtype, &[n, 3])?;
        check("charges", &charges, dtype, &[n])?;
        let systems = batch.systems();
        let cell = match cell.shape() {
            [3, 3] => {
                check("cell", &cell, dtype, &[3, 3])?;
                Array::from_f64(dtype, &[systems, 3, 3], &cell.to_f64()?.repeat(systems))?
            }
            _ => {
                check("cell", &cell, dtype, &[systems, 3, 3])?;
                cell.to_array()?
            }
        };
        if ![1, systems].contains(&pbc.len()) {
            let expected = format!("one row, or one for each of {systems} systems");
            return Err(Error::argument("pbc", expected, format!("{} rows", pbc.len())));
        }
        let cells = cell.to_f64()?.as_chunks().0.as_chunks().0.to_vec();
        for (b, rows) in cells.iter().enumerate() {
            check_cell(rows, &pbc[if pbc.len() == 1 { 0 } else { b }]).map_err(|e| match e {
                Error::Argument { argument, expected, got } if systems > 1 => {
                    Error::argument(argument, expected, format!("{got} (system {b})"))
                }
                e => e,
            })?;
        }
        let (exclusions, widths) = (None, None);
        Ok(Self { positions, charges, cell, cells, batch, pbc: pbc.to_vec(), exclusions, widths })
    }

    /// The system without pairs of atoms: the energy of pair p, in its nearest image, is multiplied by `factors`\[p\] in the
    /// real and the reciprocal part alike. Pairs whose factor is 0 may lie on one point.
    ///
    /// # Errors
    /// `exclusions`, where there are not as many factors as pairs, or a factor is not finite.
    pub fn excluding(mut self, pairs: &[[i32; 2]], factors: &[f64]) -> Result<Self> {
        if factors.len() != pairs.len() || factors.iter().any(|f| !f.is_finite()) {
            let expected = format!("{} finite factors, one for each pair", pairs.len());
            return Err(Error::argument("exclusions", expected, format!("{factors:?}")));
        }
        self.exclusions = Some(Excluded { pairs: pairs.to_vec(), factors: factors.to_vec() });
        Ok(self)
    }

    /// The system with Gaussian charges of widths σ (N,) in L, in place of points: charge i has the density
    /// q_i (2πσ_i²)^(−3/2) exp(−r²/2σ_i²).
    ///
    /// # Errors
    /// `widths`, where their dtype or shape is another one, or one is not above zero.
    pub fn with_widths(mut self, widths: View<'a>) -> Result<Self> {
        check("widths", &widths, self.positions.dtype(), &[self.batch.atoms()])?;
        if let Some(bad) = widths.to_f64()?.into_iter().find(|x| !(x.is_finite() && *x > 0.0)) {
            return Err(Error::argument("widths", "numbers above zero", bad.to_string()));
        }
        self.widths = Some(widths);
        Ok(self)
    }

    /// The number of systems.
    pub fn systems(&self) -> usize {
        self.batch.systems()
    }

    /// The batch.
    pub fn batch(&self) -> &Batch<'a> {
        &self.batch
    }

    /// The cells, one for each system; rows are lattice vectors.
    pub fn cells(&self) -> &[[[f64; 3]; 3]] {
        &self.cells
    }

    /// Whether its arrays are of float32.
    pub(crate) fn is_narrow(&self) -> bool {
        self.positions.dtype() == DType::F32
    }

    /// A full list of all pairs closer than `cutoff` (one for all systems, or one for each) along the periodic axes, in the
    /// form in which sums are fastest.
    ///
    /// # Errors
    /// Those of [`madelung_neighbors::neighbor_list`].
    pub fn neighbor_list<'c>(
        &self,
        cutoff: impl Into<Cutoff<'c>>,
        pool: &dyn Pool,
    ) -> Result<Neighbors<'static>> {
        let (cells, pbc, batch, options) =
            (Some(self.cells()), Some(&self.pbc[..]), &self.batch, &Options::full());
        match self.positions.data() {
            Data::F32(r) => find_neighbors(r.as_chunks().0, cutoff, cells, pbc, batch, options, pool),
            Data::F64(r) => find_neighbors(r.as_chunks().0, cutoff, cells, pbc, batch, options, pool),
            _ => Err(Error::argument("positions", "float32 or float64", self.positions.dtype().to_string())),
        }
    }

    /// Some systems, with arrays of their own; `atoms`: those of these systems.
    pub(crate) fn part(&self, systems: &[usize], atoms: &[usize]) -> Result<Part> {
        let dtype = self.positions.dtype();
        let (r, q) = (self.positions.to_rows::<3>()?, self.charges.to_f64()?);
        let cells: Vec<f64> = systems.iter().flat_map(|b| self.cells[*b].as_flattened().to_vec()).collect();
        let positions: Vec<f64> = atoms.iter().flat_map(|i| r[*i]).collect();
        let charges: Vec<f64> = atoms.iter().map(|i| q[*i]).collect();
        let of: Vec<i32> = systems
            .iter()
            .enumerate()
            .flat_map(|(n, b)| vec![n as i32; self.batch.members(*b).len()])
            .collect();
        Ok(Part {
            positions: Array::from_f64(dtype, &[atoms.len(), 3], &positions)?,
            charges: Array::from_f64(dtype, &[atoms.len()], &charges)?,
            cell: Array::from_f64(dtype, &[systems.len(), 3, 3], &cells)?,
            of,
        })
    }
}

/// Some systems of a batch.
pub(crate) struct Part {
    positions: Array,
    charges: Array,
    cell: Array,
    of: Vec<i32>,
}

impl Part {
    /// The systems; `pbc` has the axes of all systems of the batch, or one row for all, and `systems` those of the part.
    pub(crate) fn system(&self, pbc: &[[bool; 3]], systems: &[usize]) -> Result<System<'_>> {
        let own: Axes = if pbc.len() == 1 { pbc.to_vec() } else { systems.iter().map(|b| pbc[*b]).collect() };
        let batch = Batch::from_idx(&self.of[..], Some(systems.len()))?;
        System::with_boundaries(self.positions.view(), self.charges.view(), self.cell.view(), &own, batch)
    }
}

fn check(name: &str, view: &View<'_>, dtype: DType, shape: &[usize]) -> Result<()> {
    view.place().check_host(name)?;
    if view.shape() != shape || view.dtype() != dtype {
        let got = format!("{} {:?}", view.dtype(), view.shape());
        return Err(Error::argument(name, format!("{dtype} {shape:?}"), got));
    }
    Ok(())
}

/// Refuses vectors of periodic axes that span no space.
fn check_cell(rows: &[[f64; 3]; 3], periodic: &[bool; 3]) -> Result<()> {
    let vectors: Vec<[f64; 3]> = (0..3).filter(|k| periodic[*k]).map(|k| rows[k]).collect();
    let cross = |a: [f64; 3], b: [f64; 3]| -> [f64; 3] {
        std::array::from_fn(|k| a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3])
    };
    let spans = match vectors[..] {
        [] => [1.0; 3],
        [a] => a,
        [a, b] => cross(a, b),
        _ => return Cell::from_rows(*rows).map(|_| ()),
    };
    if spans.iter().all(|x| x.is_finite()) && spans.iter().any(|x| *x != 0.0) {
        return Ok(());
    }
    Err(Error::argument("cell", "vectors along periodic axes that are independent", format!("{vectors:?}")))
}
