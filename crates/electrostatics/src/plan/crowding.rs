//! Crowding: the density around the atoms of droplets and layers, which fill a part of their cell.
//!
//! Estimates of errors take charges as spread over the cell. What a sum leaves out of a pair's force reaches no farther than
//! about its cutoff, so the square of the error of an atom goes with the number of others around it, and the mean square over
//! atoms with the mean density around atoms. With boxes half as wide as the cutoff, n_b of N atoms in box b of M,
//!
//! ```text
//! crowding = (density around atoms)/(N/V) = M Σ_b n_b(n_b − 1) / N(N − 1)
//! ```
//!
//! which is 1 for atoms at random places. It is a mean over atoms, so a stray one counts as one; boxes are those of the
//! lattice, so it does not matter where a droplet lies, or whether it is wrapped.

use super::boundaries::{Boundaries, row};
use super::numbers::check_rows;
use super::{Request, Systems, slabs};
use madelung_core::Result;
use madelung_core::cell::Cell;

/// Width of boxes over the cutoff.
const WIDTH: f64 = 0.5;

/// Atoms per box at the cell's density, at least about so many: molecules of a few atoms are no crowd.
const PER_BOX: f64 = 16.0;

/// Others in the box of an atom from which boxes may be narrower than that.
const CROWD: f64 = 32.0;

/// Crowding up to which a cell counts as filled, as by any crystal or liquid: the margins of parameters allow for that.
const FILLED: f64 = 2.0;

/// The crowding of each system, from the positions of all systems, one after the other, and the cutoffs and heights that are
/// chosen for cells which are filled. None: all are. Rounded up by at most a factor √2, so that it stays while atoms move.
///
/// # Errors
/// `pbc` and `cell`, where they are bad.
pub fn crowding(
    request: &Request,
    systems: Systems<'_>,
    (cutoffs, heights): (&[f64], &[f64]),
    positions: &[[f64; 3]],
) -> Result<Option<Vec<f64>>> {
    let edges = Boundaries::of(request)?;
    check_rows(&edges.axes, systems.atoms.len())?;
    let no_lattice = edges.no_lattice();
    let mut rest = positions;
    let mut found = vec![1.0; systems.atoms.len()];
    for (b, atoms) in systems.atoms.iter().enumerate() {
        let own;
        (own, rest) = rest.split_at((*atoms).min(rest.len()));
        if *row(no_lattice.known(), b) {
            continue;
        }
        let mut cell = systems.cells[b];
        let open = row(&edges.axes, b).iter().position(|periodic| !periodic);
        if let Some(open) = open.filter(|_| heights[b] > 0.0) {
            cell = slabs::upright(&cell, open, heights[b]);
        }
        let crowding = of_system(own, &Cell::from_rows(cell)?, cutoffs[b]);
        if crowding > FILLED {
            found[b] = (0.5 * (2.0 * crowding.log2()).ceil()).exp2();
        }
    }
    Ok(found.iter().any(|x| *x > 1.0).then_some(found))
}

/// Whether atoms may crowd in a part of a cell that is a sum's: one of several boxes.
pub(super) fn is_possible(atoms: usize, cell: &Cell, cutoff: f64) -> bool {
    let n = atoms as f64;
    let least = if n > CROWD { WIDTH * cutoff } else { roomy(n, cell).max(WIDTH * cutoff) };
    n >= PER_BOX && boxes(cell.heights(), least) != [1; 3]
}

/// The width of a box that has enough atoms at the density of the cell.
fn roomy(n: f64, cell: &Cell) -> f64 {
    (PER_BOX * cell.volume() / n).cbrt()
}

/// Boxes along each axis that are about so wide.
fn boxes(heights: [f64; 3], width: f64) -> [usize; 3] {
    heights.map(|height| (height / width).round().clamp(1.0, f64::from(1 << 20)) as usize)
}

/// The crowding of a system, with boxes half as wide as a cutoff, or the least that have enough atoms.
fn of_system(positions: &[[f64; 3]], cell: &Cell, cutoff: f64) -> f64 {
    if !is_possible(positions.len(), cell, cutoff) {
        return 1.0;
    }
    let (n, width) = (positions.len() as f64, WIDTH * cutoff);
    let wrapped = |r: &[f64; 3]| cell.fractional(*r).map(|s| s - s.floor());
    let places: Vec<_> = positions.iter().map(wrapped).collect();
    let mut wide = roomy(n, cell).max(width);
    let mut largest = 1.0f64;
    // Each round halves the width.
    for _ in 0..20 {
        let along = boxes(cell.heights(), wide);
        let around = others(&places, along);
        let boxes: f64 = along.iter().map(|m| *m as f64).product();
        largest = largest.max(around * boxes / (n - 1.0));
        if around < CROWD || wide < 1.5 * width {
            break;
        }
        wide = width.max(0.5 * wide);
    }
    largest
}

/// The mean number of others in the box of an atom, over four grids that are moved by half a box along two axes: so that
/// droplets between boxes count as those within.
fn others(places: &[[f64; 3]], along: [usize; 3]) -> f64 {
    let boxes: usize = along.iter().product();
    // Where there are more boxes than room, boxes share it, which adds an eighth of an atom.
    let room = boxes.min(8 * places.len());
    let mut counts = vec![[0u32; 4]; room];
    let slot = |x: usize, y: usize, z: usize| {
        let own = (x * along[1] + y) * along[2] + z;
        if room == boxes {
            own
        } else {
            ((own as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as usize % room
        }
    };
    for place in places {
        let at = |k: usize, moved: f64| {
            let box_of = (place[k] * along[k] as f64 + moved) as usize;
            if box_of >= along[k] { box_of - along[k] } else { box_of }
        };
        let [[x, u], [y, v], [z, w]] = [0, 1, 2].map(|k| [at(k, 0.0), at(k, 0.5)]);
        for (grid, slot) in
            [slot(x, y, z), slot(u, v, z), slot(u, y, w), slot(x, v, w)].into_iter().enumerate()
        {
            counts[slot][grid] += 1;
        }
    }
    let pairs = |n: u32| f64::from(n) * (f64::from(n) - 1.0);
    counts.as_flattened().iter().map(|n| pairs(*n)).sum::<f64>() / (4.0 * places.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of a cubic lattice of spacing 1, each moved by up to a third of it.
    fn points(edge: usize) -> Vec<[f64; 3]> {
        let mut state = 1u64;
        let mut moved = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as f64 / (1u64 << 31) as f64 - 0.5) * 0.6
        };
        (0..edge.pow(3))
            .map(|n| [n % edge, n / edge % edge, n / edge.pow(2)].map(|x| x as f64 + 0.5 + moved()))
            .collect()
    }

    fn cell(edges: [f64; 3]) -> Cell {
        Cell::from_rows(std::array::from_fn(|k| std::array::from_fn(|n| if k == n { edges[k] } else { 0.0 })))
            .unwrap()
    }

    #[test]
    fn filled_cells_have_none() {
        for (edge, cutoff) in [(2, 0.2), (3, 0.2), (4, 2.0), (8, 3.0), (16, 4.4)] {
            let side = edge as f64;
            let found = of_system(&points(edge), &cell([side; 3]), cutoff);
            assert!(found < 1.3, "{edge} {cutoff}: {found}");
        }
    }

    /// A droplet as wide as many boxes counts with its density, one narrower than a box with that of one box.
    #[test]
    fn droplets_have_their_density_wherever_they_lie() {
        let own = points(10);
        for (f, cutoff, expected) in
            [(2.0, 4.0, 8.0), (4.0, 4.0, 64.0), (10.0, 4.0, 1000.0), (10.0, 100.0, 8.0)]
        {
            let cell = cell([10.0 * f; 3]);
            for shift in [[0.0; 3], [3.0, -7.0, 5.0 * f], [10.0 * f - 4.0; 3]] {
                let moved: Vec<_> = own.iter().map(|r| [0, 1, 2].map(|k| r[k] + shift[k])).collect();
                let found = of_system(&moved, &cell, cutoff);
                assert!((0.4..1.1).contains(&(found / expected)), "{f} {cutoff} {shift:?}: {found}");
                // One atom of 1,000 that has left changes nothing.
                let stray: Vec<_> =
                    [[5.0 * f + 1.0; 3]].into_iter().chain(moved[1..].iter().copied()).collect();
                assert!((of_system(&stray, &cell, cutoff) / found - 1.0).abs() < 0.01);
            }
        }
        let layers = of_system(&own, &cell([10.0, 10.0, 50.0]), 4.0);
        assert!((4.0..5.5).contains(&layers), "{layers}");
    }
}
