//! Periodic axes: which systems are lattices, slabs, wires and open.

use super::{Axes, Edge, Request, Rows};
use madelung_core::{Error, Result};

/// The boundary conditions of a request, a row for each system or one for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundaries {
    /// The periodic axes; of an array that nobody has read, none.
    pub axes: Axes,
    /// Whether they are such an array: then there may be systems of every kind that is permitted.
    is_unread: bool,
    has_slabs: bool,
}

impl Boundaries {
    /// The boundaries of a request.
    ///
    /// # Errors
    /// `cell`, where axes are periodic without one; `pbc`, where a slab is not permitted.
    pub fn of(request: &Request) -> Result<Self> {
        let (has_cell, is_unread) = (request.given.cell, request.given.unread_axes);
        if is_unread {
            if !has_cell {
                let expected = "lattice vectors (zero along open axes), as `pbc` is an array without values";
                return Err(Error::argument("cell", expected, "None"));
            }
            return Ok(Self { axes: vec![], is_unread, has_slabs: request.given.slabs });
        }
        let axes = request.pbc.clone().unwrap_or_else(|| vec![[has_cell; 3]]);
        if !has_cell && axes.as_flattened().contains(&true) {
            return Err(Error::argument("cell", "lattice vectors for the periodic axes", "None"));
        }
        let mut found = Self { axes, is_unread, has_slabs: false };
        // The flag is a permission: a batch without slabs may have it.
        if let Some(b) = found.first(2).filter(|_| !request.given.slabs) {
            let expected = "two periodic axes with `slab_correction=True` alone";
            return Err(Error::argument("pbc", expected, said(&found.axes, b)));
        }
        found.has_slabs = found.first(2).is_some();
        Ok(found)
    }

    fn count(row: &[bool; 3]) -> usize {
        row.iter().filter(|x| **x).count()
    }

    /// The first row with so many periodic axes.
    fn first(&self, axes: usize) -> Option<usize> {
        self.axes.iter().position(|row| Self::count(row) == axes)
    }

    /// Numbers of each system, by its axes and their count.
    fn each<T>(&self, edge: Edge, of: impl Fn(&[bool; 3], usize) -> T) -> Rows<T> {
        if self.is_unread {
            return Rows::Of(edge);
        }
        Rows::Known(self.axes.iter().map(|row| of(row, Self::count(row))).collect())
    }

    /// Integers of each system, by its axes and their count; None where no system can be of a kind.
    fn each_if_any(&self, edge: Edge, of: impl Fn(&[bool; 3], usize) -> Vec<i32>) -> Option<Rows<Vec<i32>>> {
        let is_there = match edge {
            Edge::Slab => self.has_slabs,
            _ => self.is_unread || self.axes.iter().any(|row| edge.has(Self::count(row))),
        };
        is_there.then(|| self.each(edge, of))
    }

    /// Whether each system is summed over all of its pairs: without a periodic axis, or with one.
    pub fn no_lattice(&self) -> Rows<bool> {
        self.each(Edge::NoLattice, |_, n| Edge::NoLattice.has(n))
    }

    /// Whether some system may be summed over a lattice.
    pub fn has_lattice(&self) -> bool {
        self.is_unread || self.axes.iter().any(|row| Self::count(row) > 1)
    }

    /// Whether all systems are.
    pub fn is_lattice(&self) -> bool {
        !self.is_unread && self.axes.iter().all(|row| Self::count(row) > 1)
    }

    /// 1 for each open system; None where there is none.
    pub fn open(&self) -> Option<Rows<Vec<i32>>> {
        self.each_if_any(Edge::Open, |_, n| vec![i32::from(n == 0)])
    }

    /// 1 along the periodic axis of each wire; None where there is none.
    pub fn wires(&self) -> Option<Rows<Vec<i32>>> {
        self.each_if_any(Edge::Wire, |row, n| row.map(|x| i32::from(x && n == 1)).to_vec())
    }

    /// 1 along the open axis of each slab; None where there is none.
    pub fn slabs(&self) -> Option<Rows<Vec<i32>>> {
        self.each_if_any(Edge::Slab, |row, n| row.map(|x| i32::from(!x && n == 2)).to_vec())
    }

    /// Whether there may be slabs that the caller does not permit.
    pub fn refuses_slabs(&self) -> bool {
        self.is_unread && !self.has_slabs
    }

    /// 1 for systems of a kind, 0 for others; None where all are of it.
    pub fn charged(&self, edge: Edge) -> Option<Rows<f64>> {
        let each = self.factors(edge);
        (each != Rows::Known(vec![1.0; self.axes.len()])).then_some(each)
    }

    /// 1 for systems of a kind, 0 for others.
    pub fn factors(&self, edge: Edge) -> Rows<f64> {
        self.each(edge, |_, n| f64::from(u8::from(edge.has(n))))
    }
}

/// The periodic axes of a system, in an error.
pub(super) fn said(axes: &[[bool; 3]], system: usize) -> String {
    let row = axes[system].map(|x| if x { "True" } else { "False" }).join(", ");
    format!("[{row}] (system {system})")
}

/// The row of a system, of rows for each or one for all.
pub(crate) fn row<T>(rows: &[T], system: usize) -> &T {
    &rows[if rows.len() == 1 { 0 } else { system }]
}
