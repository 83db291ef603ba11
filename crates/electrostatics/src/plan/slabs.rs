//! The cells of slabs, whose vector along the open axis is no physics.
//!
//! A sum over the lattice has images of a slab along its normal. With the correction for slabs what is left of these falls as
//! exp(−G g), with the gap g between images and the shortest wave G of the slab's plane (Yeh and Berkowitz, J. Chem. Phys.
//! 111, 3155 (1999)). So slabs are summed in a cell whose third vector is the normal times a height of their thickness and
//! such a gap.

use std::f64::consts::PI;

/// The height of a cell for a slab of a thickness, for a relative error of forces, with a gap of no less than a cutoff: then no
/// pair within the cutoff is with an image along the normal. `open` is the open axis. Rounded up to an eighth of the period,
/// so that it stays while atoms move.
pub fn height(cell: &[[f64; 3]; 3], open: usize, thickness: f64, accuracy: f64, cutoff: f64) -> f64 {
    let step = 0.125 * period(cell, open);
    ((thickness + gap(cell, open, accuracy).max(cutoff)) / step).ceil() * step
}

/// The gap between a slab and its image that a relative error of forces asks for.
pub(super) fn gap(cell: &[[f64; 3]; 3], open: usize, accuracy: f64) -> f64 {
    period(cell, open) / (2.0 * PI) * (0.4 / accuracy).ln()
}

/// 2π/G of the shortest wave of a slab's plane: the area over the shortest lattice vector.
fn period(cell: &[[f64; 3]; 3], open: usize) -> f64 {
    let (a, b) = (cell[(open + 1) % 3], cell[(open + 2) % 3]);
    length(cross(a, b)) / shortest(a, b)
}

/// The height of a cell along the normal of a slab.
pub(super) fn height_of(cell: &[[f64; 3]; 3], open: usize) -> f64 {
    dot(cell[open], normal(cell, open)).abs()
}

/// The cell with the normal of a slab times a height in place of the vector of the open axis.
pub(super) fn upright(cell: &[[f64; 3]; 3], open: usize, height: f64) -> [[f64; 3]; 3] {
    let mut found = *cell;
    found[open] = normal(cell, open).map(|x| x * height);
    found
}

/// The normal of a slab, of length 1.
pub(super) fn normal(cell: &[[f64; 3]; 3], open: usize) -> [f64; 3] {
    let area = cross(cell[(open + 1) % 3], cell[(open + 2) % 3]);
    area.map(|x| x / length(area))
}

/// The length of the shortest vector of a plane's lattice, by Gauss' reduction.
fn shortest(a: [f64; 3], b: [f64; 3]) -> f64 {
    let (mut short, mut long) = if dot(a, a) < dot(b, b) { (a, b) } else { (b, a) };
    // Each round halves the longer vector at least, or ends.
    for _ in 0..64 {
        let times = (dot(short, long) / dot(short, short)).round();
        long = std::array::from_fn(|k| long[k] - times * short[k]);
        if dot(long, long) >= dot(short, short) {
            break;
        }
        std::mem::swap(&mut short, &mut long);
    }
    length(short)
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn length(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|k| a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_is_that_of_the_shortest_wave() {
        // A sheared description of a square lattice of period 2, open along the second axis.
        let cell = [[2.0, 0.0, 0.0], [0.3, 0.1, 5.0], [6.0, 0.0, 2.0]];
        let gap = 1.0 / PI * (0.4f64 / 1e-6).ln();
        let found = height(&cell, 1, 1.0, 1e-6, 0.0);
        assert!(found >= 1.0 + gap && found < 1.0 + gap + 0.25 && (found / 0.25).fract() == 0.0);
        assert_eq!(height(&cell, 1, 1.0, 1e-6, 7.1), 8.25);
    }

    #[test]
    fn upright_cells_keep_their_plane() {
        let cell = [[2.0, 0.0, 0.0], [1.0, 3.0, 0.0], [0.5, 0.5, -0.0]];
        let found = upright(&cell, 2, 7.0);
        assert_eq!(found, [cell[0], cell[1], [0.0, 0.0, 7.0]]);
    }
}
