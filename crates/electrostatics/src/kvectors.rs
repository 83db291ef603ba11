//! The wave vectors of a reciprocal-space sum.
//!
//! A wave vector is `k = h·B`, where the integer triple `h` holds its Miller indices and the rows of
//! `B` are the reciprocal lattice vectors, `B = 2π (cell⁻¹)ᵀ`. Since `k` and `−k` contribute complex
//! conjugates, only one of the two is listed: the half space `h > 0`, or `h = 0` and `k > 0`, or
//! `h = k = 0` and `l > 0`. Sums over the half space carry a factor of two.
//!
//! The indices depend on the cell, so they are computed on the host by the eager front ends; wave vectors
//! themselves are formed inside the kernels, where the derivative in the cell is taken.

use std::f64::consts::{PI, TAU};

use madelung_core::array::reserve;
use madelung_core::cell::Cell;
use madelung_core::stop::caught;
use madelung_core::{Error, Result};

/// Relative tolerance on k_cutoff², so that rounding never splits a shell of equivalent vectors, and a cell and its
/// mirror image have equally many.
const SHELL_TOLERANCE: f64 = 1e-12;

/// Largest number of rows, which the i32 offsets `kvec_ptr` can address.
const MAX_ROWS: f64 = i32::MAX as f64;

/// Miller indices (K, 3) of all wave vectors with 0 < |k| ≤ `k_cutoff`, one of each pair ±k.
///
/// - `cell`: rows are the lattice vectors (length L), of either handedness.
/// - `k_cutoff`: radius of the sphere, in radians per L.
///
/// Rows are in lexicographic order. A vector on the sphere to within rounding is included.
/// The list is empty if the sphere contains only k = 0.
///
/// # Errors
/// `cell` where it is not finite or is singular; `k_cutoff` where it is not finite and positive, or gives more
/// than 2³¹ − 1 rows.
pub fn miller_indices(cell: &[[f64; 3]; 3], k_cutoff: f64) -> Result<Vec<[i32; 3]>> {
    let cell = Cell::from_rows(*cell)?;
    if !(k_cutoff.is_finite() && k_cutoff > 0.0) {
        return Err(Error::argument("k_cutoff", "a finite number above zero", k_cutoff.to_string()));
    }

    // h_i = a_i·k / 2π, so Cauchy and Schwarz bound each index by the length of its lattice vector.
    let bound = cell.rows().map(|a| (k_cutoff * norm(a) / TAU * (1.0 + SHELL_TOLERANCE)).floor());
    let expected_rows = cell.volume() * k_cutoff.powi(3) / (12.0 * PI * PI);
    let columns = (bound[0] + 1.0) * (2.0 * bound[1] + 1.0);
    if expected_rows > MAX_ROWS || columns > MAX_ROWS || bound[2] > MAX_ROWS {
        return Err(too_many(expected_rows.max(columns).max(bound[2])));
    }
    let [h_bound, k_bound, l_bound] = bound.map(|n| n as i32);

    let limit = k_cutoff * k_cutoff * (1.0 + SHELL_TOLERANCE);
    let [b0, b1, b2] = cell.reciprocal();
    let b2_squared = dot(b2, b2);
    caught(
        || "k_cutoff".into(),
        || {
            let mut rows = vec![];
            reserve(&mut rows, (1.05 * expected_rows) as usize);
            for h in 0..=h_bound {
                let k_first = if h == 0 { 0 } else { -k_bound };
                for k in k_first..=k_bound {
                    let base = add(scaled(b0, h), scaled(b1, k));
                    // The chord that the line base + l·b2 cuts from the sphere, widened by one against rounding.
                    // It keeps the work proportional to the rows found, however skewed the cell is.
                    let centre = -dot(base, b2) / b2_squared;
                    let half_chord_squared = (limit - dot(base, base)) / b2_squared + centre * centre;
                    let half_chord = half_chord_squared.max(0.0).sqrt();
                    let first = if h == 0 && k == 0 { 1 } else { -l_bound };
                    let mut lower = first.max((centre - half_chord).floor() as i32);
                    let mut upper = l_bound.min((centre + half_chord).ceil() as i32);
                    let is_within = |l: i32| {
                        let kvec = add(base, scaled(b2, l));
                        dot(kvec, kvec) <= limit
                    };
                    while lower <= upper && !is_within(lower) {
                        lower += 1;
                    }
                    while lower <= upper && !is_within(upper) {
                        upper -= 1;
                    }
                    reserve(&mut rows, (upper - lower + 1).max(0) as usize);
                    rows.extend((lower..=upper).map(|l| [h, k, l]));
                }
                if rows.len() as f64 > MAX_ROWS {
                    return Err(too_many(rows.len() as f64));
                }
            }
            Ok(rows)
        },
    )
}

/// Miller indices of a batch: the rows (K, 3) of all systems one after the other, and `kvec_ptr` (B + 1,),
/// where rows `kvec_ptr[b]..kvec_ptr[b + 1]` belong to system `b`.
///
/// - `cell`: (B, 3, 3), as in [`miller_indices`].
/// - `k_cutoff`: (B,), or (1,) for one radius for all systems. A system of radius 0 has no rows, and needs no cell.
///
/// The rows of a system do not depend on other systems.
///
/// # Errors
/// Those of [`miller_indices`], with the system; `k_cutoff` where its length fits neither, or where the whole batch
/// passes 2³¹ − 1 rows.
pub fn miller_indices_batch(cells: &[[[f64; 3]; 3]], k_cutoffs: &[f64]) -> Result<(Vec<[i32; 3]>, Vec<i32>)> {
    if k_cutoffs.len() != cells.len() && k_cutoffs.len() != 1 {
        let expected = format!("1 or {} values (one per system)", cells.len());
        return Err(Error::argument("k_cutoff", expected, k_cutoffs.len().to_string()));
    }
    let mut rows = Vec::new();
    let mut kvec_ptr = vec![0];
    for (system, cell) in cells.iter().enumerate() {
        let which = if k_cutoffs.len() == 1 { 0 } else { system };
        let found = if k_cutoffs[which] == 0.0 { Ok(vec![]) } else { miller_indices(cell, k_cutoffs[which]) };
        let of_system = found.map_err(|error| match error {
            Error::Argument { argument, expected, got } if cells.len() > 1 => {
                Error::Argument { argument, expected, got: format!("{got} (system {system})") }
            }
            other => other,
        })?;
        caught(
            || "k_cutoff".into(),
            || {
                reserve(&mut rows, of_system.len());
                rows.extend(of_system);
                Ok(())
            },
        )?;
        kvec_ptr.push(i32::try_from(rows.len()).map_err(|_| {
            let expected = "radii that give at most 2147483647 wave vectors in the whole batch";
            Error::argument("k_cutoff", expected, format!("{} after {} systems", rows.len(), system + 1))
        })?);
    }
    Ok((rows, kvec_ptr))
}

fn too_many(rows: f64) -> Error {
    let expected = "a radius that gives at most 2147483647 wave vectors in this cell";
    Error::argument("k_cutoff", expected, format!("about {rows:.3e} of them"))
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn norm(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

fn add(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn scaled(a: [f64; 3], factor: i32) -> [f64; 3] {
    a.map(|x| x * f64::from(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUBE: [[f64; 3]; 3] = [[TAU, 0.0, 0.0], [0.0, TAU, 0.0], [0.0, 0.0, TAU]];
    const SKEWED: [[f64; 3]; 3] = [[8.2, 0.3, -1.1], [1.9, 7.7, 0.4], [-0.6, 2.5, 9.3]];

    /// Brute force over a generous box of indices.
    fn brute(cell: &[[f64; 3]; 3], k_cutoff: f64, reach: i32) -> Vec<[i32; 3]> {
        let b = Cell::from_rows(*cell).unwrap().reciprocal();
        let mut rows = Vec::new();
        for h in 0..=reach {
            for k in -reach..=reach {
                for l in -reach..=reach {
                    let kvec = add(add(scaled(b[0], h), scaled(b[1], k)), scaled(b[2], l));
                    let upper_half = h > 0 || (h == 0 && (k > 0 || (k == 0 && l > 0)));
                    if upper_half && norm(kvec) <= k_cutoff {
                        rows.push([h, k, l]);
                    }
                }
            }
        }
        rows
    }

    fn argument(error: Error) -> String {
        match error {
            Error::Argument { argument, .. } => argument,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn whole_shells_of_a_cube() {
        // Half of 6, 12, 8, 6, 24 and 24 vectors with |h|² = 1, 2, 3, 4, 5, 6.
        for (radius_squared, rows) in [(1.0, 3), (2.0, 9), (3.0, 13), (4.0, 16), (5.0, 28), (6.0, 40)] {
            assert_eq!(miller_indices(&CUBE, f64::sqrt(radius_squared)).unwrap().len(), rows);
            let other_size = CUBE.map(|row| row.map(|x| x * 0.37));
            assert_eq!(miller_indices(&other_size, f64::sqrt(radius_squared) / 0.37).unwrap().len(), rows);
        }
        assert_eq!(miller_indices(&CUBE, 1.0).unwrap(), [[0, 0, 1], [0, 1, 0], [1, 0, 0]]);
        assert!(miller_indices(&CUBE, 0.99).unwrap().is_empty());
    }

    #[test]
    fn every_vector_once_in_lexicographic_order() {
        let nearly_flat = [[1.0, 0.0, 0.0], [7.3, 1.0, 0.0], [-4.1, 9.2, 1.0]];
        for (cell, k_cutoff, reach) in [(SKEWED, 6.0, 12), (CUBE, 7.5, 9), (nearly_flat, 8.0, 16)] {
            let rows = miller_indices(&cell, k_cutoff).unwrap();
            assert!(rows.is_sorted());
            assert_eq!(rows, brute(&cell, k_cutoff, reach));
        }
    }

    #[test]
    fn handedness_changes_nothing() {
        let mirrored = [SKEWED[1], SKEWED[0], SKEWED[2]];
        let inverted = SKEWED.map(|row| row.map(|x| -x));
        for k_cutoff in [1.0, 3.3, 7.0] {
            let rows = miller_indices(&SKEWED, k_cutoff).unwrap();
            assert_eq!(rows.len(), miller_indices(&mirrored, k_cutoff).unwrap().len());
            assert_eq!(rows, miller_indices(&inverted, k_cutoff).unwrap());
        }
    }

    #[test]
    fn batch_is_its_systems_one_after_the_other() {
        let (rows, ptr) = miller_indices_batch(&[SKEWED, CUBE, SKEWED], &[3.0, 0.5, 2.0]).unwrap();
        let (first, last) = (miller_indices(&SKEWED, 3.0).unwrap(), miller_indices(&SKEWED, 2.0).unwrap());
        assert_eq!(ptr, [0, first.len() as i32, first.len() as i32, (first.len() + last.len()) as i32]);
        assert_eq!(rows, [&first[..], &last].concat());

        let open = miller_indices_batch(&[SKEWED, [[0.0; 3]; 3], SKEWED], &[3.0, 0.0, 2.0]).unwrap();
        let ends = [first.len(), first.len(), first.len() + last.len()].map(|n| n as i32);
        assert_eq!(open, ([first, last].concat(), [&[0][..], &ends].concat()));

        let (rows, ptr) = miller_indices_batch(&[CUBE, CUBE], &[1.0]).unwrap();
        assert_eq!((rows.len(), ptr), (6, vec![0, 3, 6]));
        assert_eq!(miller_indices_batch(&[], &[]).unwrap(), (vec![], vec![0]));
    }

    #[test]
    fn bad_input_is_named() {
        for k_cutoff in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e5, 1e200] {
            assert_eq!(argument(miller_indices(&CUBE, k_cutoff).unwrap_err()), "k_cutoff");
        }
        let huge = CUBE.map(|row| row.map(|x| 1e150 * x));
        assert_eq!(argument(miller_indices(&huge, 1.0).unwrap_err()), "k_cutoff");
        let flat = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]];
        let unknown = [[f64::NAN, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        for cell in [flat, unknown, [[0.0; 3]; 3]] {
            assert_eq!(argument(miller_indices(&cell, 1.0).unwrap_err()), "cell");
        }
        assert_eq!(argument(miller_indices_batch(&[CUBE, flat], &[1.0]).unwrap_err()), "cell");
        assert_eq!(argument(miller_indices_batch(&[CUBE; 2], &[1.0, -1.0]).unwrap_err()), "k_cutoff");
        assert_eq!(argument(miller_indices_batch(&[CUBE; 3], &[1.0; 2]).unwrap_err()), "k_cutoff");
    }
}
