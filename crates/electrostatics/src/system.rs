//! The charges of a call, checked.

use madelung_core::array::{Array, Data, View};
use madelung_core::cell::Cell;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::order::SpatialOrder;
use madelung_core::{Error, Result};

/// Point charges in periodic cells: one system, or a batch of them.
#[derive(Clone, Debug)]
pub struct System<'a> {
    pub(crate) positions: View<'a>,
    pub(crate) charges: View<'a>,
    /// (B, 3, 3), in the dtype of the positions.
    pub(crate) cell: Array,
    pub(crate) batch: Batch<'a>,
}

impl<'a> System<'a> {
    /// - `positions` (N, 3) in L, f32 or f64
    /// - `charges` (N,) in e, of the same dtype
    /// - `cell` (3, 3), for all systems, or (B, 3, 3): rows are lattice vectors, of any handedness
    /// - `batch`: which system each atom belongs to; [`Batch::single`] for one
    ///
    /// # Errors
    /// Names the argument whose dtype or shape does not fit the others, or the cell that is singular.
    pub fn new(positions: View<'a>, charges: View<'a>, cell: View<'_>, batch: Batch<'a>) -> Result<Self> {
        let dtype = positions.dtype();
        if !dtype.is_computed() {
            return Err(Error::argument("positions", "float32 or float64", dtype.to_string()));
        }
        let n = batch.atoms();
        let check = |name: &str, view: &View<'_>, shape: &[usize]| {
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
                Array::from_f64(dtype, &[systems, 3, 3], &cell.to_f64().repeat(systems))?
            }
            _ => {
                check("cell", &cell, &[systems, 3, 3])?;
                cell.to_array()
            }
        };
        let system = Self { positions, charges, cell, batch };
        for (b, rows) in system.cells().into_iter().enumerate() {
            Cell::from_rows(rows).map_err(|e| match e {
                Error::Argument { argument, expected, got } if systems > 1 => {
                    Error::argument(argument, expected, format!("{got} (system {b})"))
                }
                e => e,
            })?;
        }
        Ok(system)
    }

    /// The number of systems.
    pub fn systems(&self) -> usize {
        self.batch.systems()
    }

    /// The batch.
    pub fn batch(&self) -> &Batch<'a> {
        &self.batch
    }

    /// The cells.
    pub fn cells(&self) -> Vec<[[f64; 3]; 3]> {
        let rows = |c: &[f64]| std::array::from_fn(|r| std::array::from_fn(|k| c[3 * r + k]));
        self.cell.to_f64().chunks_exact(9).map(rows).collect()
    }

    /// All pairs closer than `cutoff` under full periodicity, as a full list to be used many times: with an order of
    /// the atoms in space, so that sums may take its pairs in clusters.
    pub fn neighbor_list(
        &self,
        cutoff: f64,
        pool: &dyn madelung_core::backend::pool::Pool,
    ) -> Result<madelung_neighbors::PairList<'static>> {
        let list = self.plain_neighbor_list(cutoff, pool)?;
        list.with_order(SpatialOrder::new(&self.positions, &self.cells(), &self.batch)?)
    }

    /// The same for one use.
    pub(crate) fn plain_neighbor_list(
        &self,
        cutoff: f64,
        pool: &dyn madelung_core::backend::pool::Pool,
    ) -> Result<madelung_neighbors::PairList<'static>> {
        let (cells, options) = (self.cells(), madelung_neighbors::Options::full());
        match self.positions.data() {
            Data::F32(r) => {
                let r = r.as_chunks().0;
                madelung_neighbors::neighbor_list::<f32>(
                    r,
                    cutoff,
                    Some(&cells),
                    None,
                    &self.batch,
                    &options,
                    pool,
                )
            }
            Data::F64(r) => {
                let r = r.as_chunks().0;
                madelung_neighbors::neighbor_list::<f64>(
                    r,
                    cutoff,
                    Some(&cells),
                    None,
                    &self.batch,
                    &options,
                    pool,
                )
            }
            _ => Err(Error::argument("positions", "float32 or float64", self.positions.dtype().to_string())),
        }
    }
}
