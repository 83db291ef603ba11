//! Validated point charges in periodic cells.

use madelung_core::array::{Array, Data, View};
use madelung_core::backend::pool::Pool;
use madelung_core::cell::Cell;
use madelung_core::structure::{Batch, Neighbors};
use madelung_core::{Error, Result};
use madelung_neighbors::{Cutoff, Options, find_neighbors};

/// Point charges in periodic cells: one system, or a batch of them.
#[derive(Debug)]
pub struct System<'a> {
    pub(crate) positions: View<'a>,
    pub(crate) charges: View<'a>,
    /// (B, 3, 3), in the dtype of the positions.
    pub(crate) cell: Array,
    cells: Vec<[[f64; 3]; 3]>,
    pub(crate) batch: Batch<'a>,
}

impl<'a> System<'a> {
    /// Point charges, checked:
    /// - `positions` (N, 3) in L, f32 or f64
    /// - `charges` (N,) in e, with the dtype of the positions
    /// - `cell` (3, 3), for all systems, or (B, 3, 3): rows are lattice vectors, of either handedness
    /// - `batch`: the system of each atom; [`Batch::single`] for one system
    ///
    /// # Errors
    /// An argument on a device, or whose dtype or shape does not fit the others; `cell`, where one is singular.
    pub fn new(positions: View<'a>, charges: View<'a>, cell: View<'_>, batch: Batch<'a>) -> Result<Self> {
        let dtype = positions.dtype();
        if !dtype.is_computed() {
            return Err(Error::argument("positions", "float32 or float64", dtype.to_string()));
        }
        let n = batch.atoms();
        let check = |name: &str, view: &View<'_>, shape: &[usize]| {
            view.place().check_host(name)?;
            let got = format!("{} {:?}", view.dtype(), view.shape());
            if view.shape() != shape || view.dtype() != dtype {
                return Err(Error::argument(name, format!("{dtype} {shape:?}"), got));
            }
            Ok(())
        };
        check("positions", &positions, &[n, 3])?;
        check("charges", &charges, &[n])?;
        let systems = batch.systems();
        let cell = match cell.shape() {
            [3, 3] => {
                check("cell", &cell, &[3, 3])?;
                Array::from_f64(dtype, &[systems, 3, 3], &cell.to_f64()?.repeat(systems))?
            }
            _ => {
                check("cell", &cell, &[systems, 3, 3])?;
                cell.to_array()?
            }
        };
        let cells = cell.to_f64()?.as_chunks().0.as_chunks().0.to_vec();
        for (b, rows) in cells.iter().enumerate() {
            Cell::from_rows(*rows).map_err(|e| match e {
                Error::Argument { argument, expected, got } if systems > 1 => {
                    Error::argument(argument, expected, format!("{got} (system {b})"))
                }
                e => e,
            })?;
        }
        Ok(Self { positions, charges, cell, cells, batch })
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

    /// A full list of all pairs closer than `cutoff` (one for all systems, or one for each) under full periodicity, in the
    /// form in which sums are fastest.
    ///
    /// # Errors
    /// Those of [`madelung_neighbors::neighbor_list`].
    pub fn neighbor_list<'c>(
        &self,
        cutoff: impl Into<Cutoff<'c>>,
        pool: &dyn Pool,
    ) -> Result<Neighbors<'static>> {
        let (cells, batch, options) = (Some(self.cells()), &self.batch, &Options::full());
        match self.positions.data() {
            Data::F32(r) => find_neighbors(r.as_chunks().0, cutoff, cells, None, batch, options, pool),
            Data::F64(r) => find_neighbors(r.as_chunks().0, cutoff, cells, None, batch, options, pool),
            _ => Err(Error::argument("positions", "float32 or float64", self.positions.dtype().to_string())),
        }
    }
}
