//! Periodic axes: which systems are lattices, slabs, wires and open.

use super::{Axes, Request};
use madelung_core::{Error, Result};

/// The boundary conditions of a request, a row for each system or one for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundaries {
    /// The periodic axes.
    pub axes: Axes,
}

impl Boundaries {
    /// Those of a request.
    ///
    /// # Errors
    /// `cell`, where axes are periodic without one; `pbc`, where a slab is not permitted.
    pub fn of(request: &Request) -> Result<Self> {
        let has_cell = request.given.cell;
        let axes = request.pbc.clone().unwrap_or_else(|| vec![[has_cell; 3]]);
        if !has_cell && axes.as_flattened().contains(&true) {
            return Err(Error::argument("cell", "lattice vectors for the periodic axes", "None"));
        }
        let found = Self { axes };
        // The flag is a permission: a batch without slabs may have it.
        if let Some(b) = found.first(2).filter(|_| !request.given.slabs) {
            let row = found.axes[b].map(|x| if x { "True" } else { "False" }).join(", ");
            let expected = "two periodic axes with `slab_correction=True` alone";
            return Err(Error::argument("pbc", expected, format!("[{row}] (system {b})")));
        }
        Ok(found)
    }

    fn count(row: &[bool; 3]) -> usize {
        row.iter().filter(|x| **x).count()
    }

    /// The first row with so many periodic axes.
    fn first(&self, axes: usize) -> Option<usize> {
        self.axes.iter().position(|row| Self::count(row) == axes)
    }

    fn each<T>(&self, of: impl Fn(&[bool; 3], usize) -> T) -> Vec<T> {
        self.axes.iter().map(|row| of(row, Self::count(row))).collect()
    }

    /// Whether each system is summed over all of its pairs: without a periodic axis, or with one.
    pub fn no_lattice(&self) -> Vec<bool> {
        self.each(|_, n| n < 2)
    }

    /// Whether some system is summed over a lattice.
    pub fn has_lattice(&self) -> bool {
        self.axes.iter().any(|row| Self::count(row) > 1)
    }

    /// Whether all systems are.
    pub fn is_lattice(&self) -> bool {
        self.axes.iter().all(|row| Self::count(row) > 1)
    }

    /// 1 for each open system; None where there is none.
    pub fn open(&self) -> Option<Vec<Vec<i32>>> {
        self.first(0).map(|_| self.each(|_, n| vec![i32::from(n == 0)]))
    }

    /// 1 along the periodic axis of each wire; None where there is none.
    pub fn wires(&self) -> Option<Vec<Vec<i32>>> {
        self.first(1).map(|_| self.each(|row, n| row.map(|x| i32::from(x && n == 1)).to_vec()))
    }

    /// 1 along the open axis of each slab; None where there is none.
    pub fn slabs(&self) -> Option<Vec<Vec<i32>>> {
        self.first(2).map(|_| self.each(|row, n| row.map(|x| i32::from(!x && n == 2)).to_vec()))
    }

    /// 1 for systems of so many periodic axes that a condition holds for, 0 for others; None where it holds for all.
    pub fn charged(&self, counts: impl Fn(usize) -> bool) -> Option<Vec<f64>> {
        let each = self.each(|_, n| f64::from(u8::from(counts(n))));
        each.contains(&0.0).then_some(each)
    }

    /// 1 for each system that is periodic along all axes.
    pub fn backgrounds(&self) -> Vec<f64> {
        self.each(|_, n| f64::from(u8::from(n == 3)))
    }
}

/// The row of a system, of rows for each or one for all.
pub(crate) fn row<T>(rows: &[T], system: usize) -> &T {
    &rows[if rows.len() == 1 { 0 } else { system }]
}
