//! Stencils: the cells of a grid that can hold neighbours of the atoms of one cell.

use crate::lattice::{norm, squared};

/// A column of cells along the last axis, relative to the cell in the middle: (dx, dy, first..=last).
pub(crate) struct Column {
    pub(crate) dx: i32,
    pub(crate) dy: i32,
    pub(crate) first: i32,
    pub(crate) last: i32,
}

/// Above this many cells, finding out which can be left out costs more than it saves.
const MOST_PRUNED: i64 = 2000;

/// All columns, ordered by dx and then dy, that have a cell within `reach` of the middle one. `edges` (rows) are the
/// edges of a grid cell and `most` the number of cells to look at each way.
pub(crate) fn stencil(edges: &[[f64; 3]; 3], most: [i32; 3], reach: f64) -> Vec<Column> {
    let cells: i64 = most.iter().map(|&m| 2 * i64::from(m) + 1).product();
    let near = |d: [i32; 3]| cells > MOST_PRUNED || gap(edges, d) < reach;
    let mut columns = Vec::new();
    for dx in -most[0]..=most[0] {
        for dy in -most[1]..=most[1] {
            // Cells within reach are convex, so a column of them has no holes.
            let Some(first) = (-most[2]..=most[2]).find(|&dz| near([dx, dy, dz])) else { continue };
            let last = (first..=most[2]).rev().find(|&dz| near([dx, dy, dz])).unwrap_or(first);
            columns.push(Column { dx, dy, first, last });
        }
    }
    columns
}

/// The stencil of a block of `size` cells, relative to its first one: the union of its cells' stencils.
pub(crate) fn of_block(columns: &[Column], size: [i32; 3]) -> Vec<Column> {
    if size.contains(&0) {
        return vec![];
    }
    let mut of_cells: Vec<Column> = (0..size[0])
        .flat_map(|a| (0..size[1]).map(move |b| (a, b)))
        .flat_map(|(a, b)| {
            columns.iter().map(move |c| Column {
                dx: c.dx + a,
                dy: c.dy + b,
                first: c.first,
                last: c.last + size[2] - 1,
            })
        })
        .collect();
    of_cells.sort_unstable_by_key(|c| (c.dx, c.dy));
    let mut union: Vec<Column> = Vec::with_capacity(of_cells.len());
    for column in of_cells {
        match union.last_mut() {
            Some(last) if (last.dx, last.dy) == (column.dx, column.dy) => {
                (last.first, last.last) = (last.first.min(column.first), last.last.max(column.last));
            }
            _ => union.push(column),
        }
    }
    union
}

/// A lower bound, exact up to rounding, of the distance between two cells of the grid that are `d` cells apart.
fn gap(edges: &[[f64; 3]; 3], d: [i32; 3]) -> f64 {
    let d = d.map(f64::from);
    let centre: [f64; 3] = std::array::from_fn(|k| (0..3).map(|a| d[a] * edges[a][k]).sum());
    // The nearest point of the difference of the two cells, by descent along one edge after the other.
    let mut u: [f64; 3] = d.map(|d| (-d).clamp(-1.0, 1.0));
    let mut point: [f64; 3] =
        std::array::from_fn(|k| centre[k] + (0..3).map(|a| u[a] * edges[a][k]).sum::<f64>());
    for _ in 0..24 {
        let mut moved = 0.0f64;
        for a in 0..3 {
            let slope: f64 = (0..3).map(|k| point[k] * edges[a][k]).sum();
            let step = (u[a] - slope / squared(edges[a])).clamp(-1.0, 1.0) - u[a];
            u[a] += step;
            (0..3).for_each(|k| point[k] += step * edges[a][k]);
            moved = moved.max(step.abs());
        }
        if moved < 1e-9 {
            break;
        }
    }
    let length = norm(point);
    if length == 0.0 {
        return 0.0;
    }
    // Any plane between the cells bounds their distance from below; the one across `point` does it best, and holds
    // even where the descent has not arrived.
    let along = |v: [f64; 3]| (0..3).map(|k| v[k] * point[k] / length).sum::<f64>();
    along(centre) - edges.iter().map(|&edge| along(edge).abs()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_cubes_are_known() {
        let cube = [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]];
        assert!(gap(&cube, [1, -1, 0]) <= 0.0);
        assert!((gap(&cube, [3, 1, 0]) - 4.0).abs() < 1e-12);
        assert!((gap(&cube, [-2, 3, 0]) - 20f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn gaps_never_pass_a_distance() {
        let edges = [[1.0, 0.0, 0.0], [0.9, 0.5, 0.0], [-0.7, 0.4, 0.8]];
        let corner = |d: f64, u: f64| d + 2.0 * u - 1.0;
        for d in [[2, 0, 0], [1, -3, 2], [0, 2, -2], [3, 3, 3]] {
            let mut nearest = f64::INFINITY;
            for p in 0..17 * 17 * 17 {
                let u = [p % 17, p / 17 % 17, p / 289].map(|u| f64::from(u) / 16.0);
                let v: [f64; 3] = std::array::from_fn(|k| {
                    (0..3).map(|a| corner(f64::from(d[a]), u[a]) * edges[a][k]).sum()
                });
                nearest = nearest.min(norm(v));
            }
            let gap = gap(&edges, d);
            assert!(gap <= nearest + 1e-12 && gap > nearest - 0.2, "{d:?}: {gap} for {nearest}");
        }
    }
}
