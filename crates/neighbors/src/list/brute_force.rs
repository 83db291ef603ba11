//! The oracle: every pair of atoms with every image, read straight off the definition. O(N² · images), for tests.

use std::ops::Range;

/// A pair (i, j, S).
pub type Pair = (usize, usize, [i32; 3]);

/// All pairs of the atoms `members` with |r_j − r_i + S · cell| < `cutoff`, ordered by i, j, S. `positions` (N, 3) and
/// `cell` (rows are lattice vectors, of which those along axes that are not `periodic` are not looked at) are in one
/// length unit. `most` is the largest |S| tried along each periodic axis; the caller says how far that must be.
pub fn pairs(
    positions: &[[f64; 3]],
    members: Range<usize>,
    cutoff: f64,
    cell: &[[f64; 3]; 3],
    periodic: [bool; 3],
    most: [i32; 3],
    half: bool,
) -> Vec<Pair> {
    let range = |k: usize| if periodic[k] { -most[k]..=most[k] } else { 0..=0 };
    let row = |k: usize, c: usize| if periodic[k] { cell[k][c] } else { 0.0 };
    let mut found = Vec::new();
    for i in members.clone() {
        for j in members.clone() {
            for sx in range(0) {
                for sy in range(1) {
                    for sz in range(2) {
                        let s = [sx, sy, sz];
                        if (i == j && s == [0; 3]) || (half && !(i < j || (i == j && s > [0; 3]))) {
                            continue;
                        }
                        let d: [f64; 3] = std::array::from_fn(|c| {
                            let shift = f64::from(sx) * row(0, c)
                                + f64::from(sy) * row(1, c)
                                + f64::from(sz) * row(2, c);
                            (positions[j][c] - positions[i][c]) + shift
                        });
                        if d[0] * d[0] + d[1] * d[1] + d[2] * d[2] < cutoff * cutoff {
                            found.push((i, j, s));
                        }
                    }
                }
            }
        }
    }
    found
}
