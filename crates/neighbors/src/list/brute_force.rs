//! The oracle: every pair of atoms with every image, read straight off the definition. O(N² · images), for tests.

use super::coordinate::Coordinate;
use std::ops::Range;

/// A pair (i, j, S).
pub type Pair = (usize, usize, [i32; 3]);

/// All pairs of the atoms `members` with |r_j − r_i + S · cell| < `cutoff`, ordered by i, j, S. `positions` (N, 3) and
/// `cell` (rows are lattice vectors, of which those along axes that are not `periodic` are not looked at) are in one
/// length unit. `most` is the largest |S| tried along each periodic axis; the caller says how far that must be.
pub fn pairs<T: Coordinate>(
    positions: &[[T; 3]],
    members: Range<usize>,
    cutoff: f64,
    cell: &[[f64; 3]; 3],
    periodic: [bool; 3],
    most: [i32; 3],
    half: bool,
) -> Vec<Pair> {
    let range = |k: usize| if periodic[k] { -most[k]..=most[k] } else { 0..=0 };
    let cell = std::array::from_fn(|k| if periodic[k] { cell[k] } else { [0.0; 3] });
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
                        let (_, distance) = T::between(&cell, positions[i], positions[j], s);
                        if distance < T::narrow(cutoff) {
                            found.push((i, j, s));
                        }
                    }
                }
            }
        }
    }
    found
}
