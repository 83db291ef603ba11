//! Grids kept from call to call, which searches find by a number: one that frameworks hand on as any other.

use crate::atoms::Atoms;
use crate::grid::HashGrid;
use madelung_core::array::View;
use madelung_core::backend::Context;
use madelung_core::structure::Batch;
use madelung_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

type Kept = Mutex<BTreeMap<i64, Weak<HashGrid>>>;

static KEPT: Kept = Mutex::new(BTreeMap::new());

/// Grid that searches find by its number, for as long as this value lives.
#[derive(Debug)]
pub struct KeptGrid {
    grid: Arc<HashGrid>,
    number: i64,
}

impl KeptGrid {
    /// A grid with a number of its own: above zero, and no other process's either, as compiled programs may be kept with it.
    pub fn new(grid: HashGrid) -> Self {
        static NEXT: OnceLock<AtomicI64> = OnceLock::new();
        let next = NEXT.get_or_init(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            AtomicI64::new((now.as_nanos() as i64 & (i64::MAX >> 1)) | 1)
        });
        let (number, grid) = (next.fetch_add(1, Ordering::Relaxed), Arc::new(grid));
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::downgrade(&grid));
        Self { grid, number }
    }

    /// A grid of the points (N, 3), cells (B, 3, 3) or none, and periodic axes that a search takes.
    ///
    /// # Errors
    /// Those of [`HashGrid::build`].
    pub fn of_search(
        context: &Context<'_>,
        points: &View<'_>,
        cell: &View<'_>,
        (pbc, axes): (&View<'_>, i64),
        batch: &Batch<'_>,
    ) -> Result<Self> {
        let atoms = Atoms::new(("points", points), cell, pbc, batch, axes)?;
        build(context, &atoms, &View::from(&[0i32; 0])).map(Self::new)
    }

    /// The grid.
    pub fn grid(&self) -> &HashGrid {
        &self.grid
    }

    /// Its number.
    pub fn number(&self) -> i64 {
        self.number
    }
}

impl Drop for KeptGrid {
    fn drop(&mut self) {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// Grid of points: the one that is kept under a number, of which a call may leave out the points, or one of this call.
///
/// # Errors
/// Those of [`HashGrid::build`]; `order`, where it is no permutation of each system's rows; `grid`, where the points are left
/// out and it is not kept any more.
pub(crate) fn grid_of(
    context: &Context<'_>,
    atoms: &Atoms<'_>,
    number: i64,
    order: &View<'_>,
) -> Result<Arc<HashGrid>> {
    let batch = atoms.batch_on_host()?;
    let is_of = |grid: &Arc<HashGrid>| {
        [0, grid.len()].contains(&batch.atoms()) && grid.batch().systems() == batch.systems()
    };
    match find(number).filter(is_of) {
        Some(grid) => Ok(grid),
        None if number != 0 && batch.atoms() == 0 => {
            Err(Error::argument("grid", "one that is kept, as there are no points", number.to_string()))
        }
        None => build(context, atoms, order).map(Arc::new),
    }
}

fn find(number: i64) -> Option<Arc<HashGrid>> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.get(&number)?.upgrade()
}

fn build(context: &Context<'_>, atoms: &Atoms<'_>, order: &View<'_>) -> Result<HashGrid> {
    let (cells, axes) = atoms.lattices()?;
    let (cells, owned) = (cells.as_deref(), atoms.batch_on_host()?.clone().into_owned());
    HashGrid::build_in_order(context, atoms.positions, cells, Some(&axes), owned, order)
}
