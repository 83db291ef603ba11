//! Order of atoms in space.

use super::clusters::WIDTH;
use crate::array::{Data, View, collected, filled, reserve};
use crate::backend::pool::{Pool, Serial, split_tasks};
use crate::cell::Cell;
use crate::structure::Batch;
use crate::{Error, Result};

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

/// The largest wrap of an atom: the least of what a packed image has room for on each axis, of which the wraps of two atoms
/// and the image of a pair take parts.
const FARTHEST: i32 = 255;

/// Atoms that a task puts in order, and halves that are made one after the other before.
const TASK: usize = 4096;

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
        let flat = positions.to_f64()?;
        let mut points = collected(flat.chunks_exact(3).map(|r| [r[0], r[1], r[2]]));
        let mut wraps = filled(n, [0; 3]);
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
                        (s.floor() as i32).clamp(-FARTHEST, FARTHEST)
                    });
                    points[i] = wrapped(r, wraps[i], rows);
                }
            }
        }
        Ok(Self::of_points(&points, wraps, batch, &Serial))
    }

    /// From points that lie in their cells, and the lattice vectors by which each atom lies outside, (N, 3).
    pub fn of_points(points: &[[f64; 3]], wraps: Vec<[i32; 3]>, batch: &Batch<'_>, pool: &dyn Pool) -> Self {
        let mut atoms = collected(0..points.len() as i32);
        let (mut large, mut small) = (vec![], vec![]);
        let mut rest = &mut atoms[..];
        for b in 0..batch.systems() {
            let (members, behind) = rest.split_at_mut(batch.members(b).len());
            large.push((members, 0));
            rest = behind;
        }
        while !large.is_empty() {
            let ends: Vec<usize> = (1..=large.len()).collect();
            split_tasks(pool, &mut large, &ends, |_, part| {
                for (atoms, half) in part {
                    *half = if atoms.len() > TASK { halve(atoms, points) } else { 0 };
                }
            });
            for (atoms, half) in std::mem::take(&mut large) {
                if half == 0 {
                    small.push(atoms);
                } else {
                    let (lower, upper) = atoms.split_at_mut(half);
                    large.extend([(lower, 0), (upper, 0)]);
                }
            }
        }
        let ends: Vec<usize> = (1..=small.len()).collect();
        split_tasks(pool, &mut small, &ends, |_, part| {
            part.iter_mut().for_each(|atoms| arrange(atoms, points));
        });
        Self { atoms, wraps, ptr: batch.ptr().to_vec() }
    }

    /// The atom of each slot of clusters, system by system; behind the last one of a system it is repeated up to the end of
    /// its last cluster.
    pub fn slots(&self) -> Vec<i32> {
        let mut slots = vec![];
        reserve(&mut slots, self.len() + WIDTH * self.ptr.len());
        for w in self.ptr.windows(2) {
            let members = &self.atoms[w[0] as usize..w[1] as usize];
            slots.extend_from_slice(members);
            if let Some(last) = members.last() {
                slots.resize(slots.len().next_multiple_of(WIDTH), *last);
            }
        }
        slots
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

/// Order in space of atoms: halves along the longest axis until as few are left as the narrowest registers hold.
pub fn arrange(atoms: &mut [i32], points: &[[f64; 3]]) {
    if atoms.len() <= 4 {
        return;
    }
    let half = halve(atoms, points);
    let (lower, upper) = atoms.split_at_mut(half);
    arrange(lower, points);
    arrange(upper, points);
}

/// Parts atoms in two along the longest axis, and says how many are in the first half. Cuts are at multiples of the widest
/// registers, so that clusters of every width are parts of one box.
fn halve(atoms: &mut [i32], points: &[[f64; 3]]) -> usize {
    let half = match atoms.len() {
        0..=8 => 4,
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
    half
}
