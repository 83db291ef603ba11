//! Order of a list's atoms in space, and what backends derive from a list and keep with it.

use super::{Kind, PairList};
use crate::array::{Data, View};
use crate::cell::Cell;
use crate::structure::Batch;
use crate::{Error, Result};
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// Order of the atoms of each system in space: neighbours in space are neighbours in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpatialOrder {
    /// Atoms, system by system.
    atoms: Vec<i32>,
    /// By how many lattice vectors each atom lies outside the cell.
    wraps: Vec<[i32; 3]>,
    /// First atom of each system in this order, and the number of atoms.
    ptr: Vec<i32>,
}

/// Images of wrapped atoms are kept in 21 bits for each axis: those of the list may take half of the range, and the
/// wraps of two atoms a quarter each.
pub const IMAGES: i32 = 1 << 20;

impl SpatialOrder {
    /// From `positions` (N, 3), f32 or f64, and the cell of each system, (B, 3, 3) (or none, for systems that are not
    /// periodic). Atoms are halved along the longest axis again and again, in time N log N.
    ///
    /// # Errors
    /// `positions` or `cell`, where the shape does not fit the batch, or a cell spans no volume.
    pub fn new(positions: &View<'_>, cells: &[[[f64; 3]; 3]], batch: &Batch<'_>) -> Result<Self> {
        let n = batch.atoms();
        if positions.shape() != [n, 3] || matches!(positions.data(), Data::I32(_)) {
            let got = format!("{} {:?}", positions.dtype(), positions.shape());
            return Err(Error::argument("positions", format!("real numbers of shape [{n}, 3]"), got));
        }
        if !cells.is_empty() && cells.len() != batch.systems() {
            let expected = format!("a cell for each of {} systems", batch.systems());
            return Err(Error::argument("cell", expected, cells.len().to_string()));
        }
        let flat = positions.to_f64();
        let mut points: Vec<[f64; 3]> = flat.chunks_exact(3).map(|r| [r[0], r[1], r[2]]).collect();
        let mut wraps = vec![[0; 3]; n];
        let mut atoms: Vec<i32> = (0..n as i32).collect();
        for b in 0..batch.systems() {
            let members = batch.members(b);
            if let Some(rows) = cells.get(b) {
                let cell = Cell::from_rows(*rows)?;
                for i in members.clone() {
                    let inverse = cell.inverse();
                    let r = points[i];
                    // A wrap may be any integer: a position that is no number gets one too.
                    wraps[i] = std::array::from_fn(|k| {
                        let s: f64 = (0..3).map(|c| r[c] * inverse[(c, k)]).sum();
                        (s.floor() as i32).clamp(-IMAGES / 4 + 1, IMAGES / 4 - 1)
                    });
                    points[i] = wrapped(r, wraps[i], rows);
                }
            }
            arrange(&mut atoms[members], &points);
        }
        Ok(Self { atoms, wraps, ptr: batch.ptr().to_vec() })
    }

    /// Number of atoms N.
    pub fn len(&self) -> usize {
        self.atoms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// The atoms in this order, system by system.
    pub fn atoms(&self) -> &[i32] {
        &self.atoms
    }

    /// First atom of each system in this order, and the number of atoms, shape (B+1,).
    pub fn ptr(&self) -> &[i32] {
        &self.ptr
    }

    /// Lattice vectors by which each atom lies outside its cell, (N, 3).
    pub fn wraps(&self) -> &[[i32; 3]] {
        &self.wraps
    }
}

/// Position in the cell: r − w · cell.
pub fn wrapped(r: [f64; 3], wrap: [i32; 3], cell: &[[f64; 3]; 3]) -> [f64; 3] {
    std::array::from_fn(|c| r[c] - (0..3).map(|k| f64::from(wrap[k]) * cell[k][c]).sum::<f64>())
}

/// Halves along the longest axis until as few are left as the narrowest registers hold. Cuts are at multiples of the
/// widest, so that clusters of every width are parts of one box.
fn arrange(atoms: &mut [i32], points: &[[f64; 3]]) {
    let half = match atoms.len() {
        0..=4 => return,
        5..=8 => 4,
        9..=16 => 8,
        n => (n / 32).max(1) * 16,
    };
    let extent = |c: usize| {
        let of = |atom: &i32| points[*atom as usize][c];
        let (low, high) = atoms
            .iter()
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        high - low
    };
    let extents: [f64; 3] = std::array::from_fn(extent);
    let axis = (1..3).fold(0, |longest, c| if extents[c] > extents[longest] { c } else { longest });
    let of = |atom: i32| points[atom as usize][axis];
    atoms.select_nth_unstable_by(half, |a, b| of(*a).total_cmp(&of(*b)).then(a.cmp(b)));
    let (lower, upper) = atoms.split_at_mut(half);
    arrange(lower, points);
    arrange(upper, points);
}

/// Order of a list's atoms, with the forms of the list that a backend derives from it and keeps.
#[derive(Debug)]
pub struct Ordered {
    order: SpatialOrder,
    forms: [OnceLock<Box<dyn Any + Send + Sync>>; 3],
}

impl Ordered {
    /// An order without any form yet.
    pub fn new(order: SpatialOrder) -> Self {
        Self { order, forms: Default::default() }
    }

    /// The order.
    pub fn order(&self) -> &SpatialOrder {
        &self.order
    }

    /// Form number `n` (0 to 2) of the list, made when it is first asked for; none where it was made as another type.
    pub fn form<T: Any + Send + Sync>(&self, n: usize, make: impl FnOnce() -> T) -> Option<&T> {
        self.forms.get(n)?.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

impl PairList<'_> {
    /// List with an order of its atoms, so that kernels may take its pairs in clusters. They do where that
    /// is faster in the long run: the first call that does makes the clusters, which costs several evaluations, and the
    /// list (and every view of it) keeps them. An order made from other positions than the list's is as right, and
    /// slower.
    ///
    /// # Errors
    /// `neighbor_list`, where it is not full; `order`, where it is of another number of atoms.
    pub fn with_order(mut self, order: SpatialOrder) -> Result<Self> {
        if self.kind() != Kind::Full {
            return Err(Error::argument("neighbor_list", "a full list", format!("{:?}", self.kind())));
        }
        if order.len() != self.rows() {
            let expected = format!("an order of {} atoms", self.rows());
            return Err(Error::argument("order", expected, order.len().to_string()));
        }
        self.ordered = Some(Arc::new(Ordered::new(order)));
        Ok(self)
    }

    /// The order of its atoms with its derived forms, if it was given one.
    pub fn ordered(&self) -> Option<&Ordered> {
        self.ordered.as_deref()
    }

    /// The order of its atoms, if it was given one.
    pub fn order(&self) -> Option<&SpatialOrder> {
        self.ordered.as_ref().map(|o| o.order())
    }
}
