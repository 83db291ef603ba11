//! Periodic cells: three lattice vectors of any shape and handedness.

use std::f64::consts::TAU;

use nalgebra::{Matrix3, RowVector3, Vector3};

use crate::{Error, Result};

/// Smallest |det| over the product of the lengths for which three vectors span a volume.
const FLAT: f64 = 1e-12;

/// A periodic cell: three lattice vectors, the rows of a 3×3 matrix, in the caller's length unit. Cells may be
/// left-handed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    rows: Matrix3<f64>,
    inverse: Matrix3<f64>,
}

impl Cell {
    /// The cell whose lattice vectors are `rows`, shape (3, 3).
    ///
    /// # Errors
    /// `cell`, where an element is not finite or the vectors span no volume.
    pub fn from_rows(rows: [[f64; 3]; 3]) -> Result<Self> {
        Self::from_matrix(Matrix3::from_fn(|i, k| rows[i][k]))
    }

    /// The cell whose lattice vectors are the rows of a matrix.
    ///
    /// # Errors
    /// Those of [`Cell::from_rows`].
    pub fn from_matrix(rows: Matrix3<f64>) -> Result<Self> {
        if !rows.iter().all(|x| x.is_finite()) {
            return Err(Error::argument("cell", "finite lattice vectors", format!("{:?}", to_rows(&rows))));
        }
        let lengths: [f64; 3] = std::array::from_fn(|i| rows.row(i).norm());
        // Unit vectors, so that the test and the inverse hold for cells of any scale.
        let unit = Matrix3::from_fn(|i, k| rows[(i, k)] / lengths[i]);
        let relative = unit.determinant();
        // A zero vector makes the unit vectors NaN, which must fail too.
        let volume = if relative.abs() > FLAT { unit.try_inverse() } else { None };
        let Some(inverse) = volume else {
            return Err(Error::argument(
                "cell",
                "three lattice vectors (rows) that span a volume",
                format!("{:?}, |det| = {:e}", to_rows(&rows), rows.determinant().abs()),
            ));
        };
        Ok(Self { rows, inverse: Matrix3::from_fn(|k, i| inverse[(k, i)] / lengths[i]) })
    }

    /// The lattice vectors as the rows of a matrix.
    pub fn matrix(&self) -> &Matrix3<f64> {
        &self.rows
    }

    /// The lattice vectors, shape (3, 3).
    pub fn rows(&self) -> [[f64; 3]; 3] {
        to_rows(&self.rows)
    }

    /// The inverse of the matrix of lattice vectors: `s = r · inverse`.
    pub fn inverse(&self) -> &Matrix3<f64> {
        &self.inverse
    }

    /// The volume |det cell|.
    pub fn volume(&self) -> f64 {
        self.rows.determinant().abs()
    }

    /// The perpendicular heights: element k is the distance between the two faces that lattice vector k connects.
    pub fn heights(&self) -> [f64; 3] {
        std::array::from_fn(|k| 1.0 / self.inverse.column(k).norm())
    }

    /// The reciprocal lattice vectors, 2π included: rows b_i with b_i · a_j = 2π δ_ij, in 1/length.
    pub fn reciprocal(&self) -> [[f64; 3]; 3] {
        std::array::from_fn(|i| std::array::from_fn(|k| TAU * self.inverse[(k, i)]))
    }

    /// Fractional coordinates `s` of a point `r`: r = s · cell.
    pub fn fractional(&self, r: [f64; 3]) -> [f64; 3] {
        (RowVector3::from(Vector3::from(r).transpose()) * self.inverse).transpose().into()
    }

    /// The point with fractional coordinates `s`: s · cell.
    pub fn cartesian(&self, s: [f64; 3]) -> [f64; 3] {
        (RowVector3::from(Vector3::from(s).transpose()) * self.rows).transpose().into()
    }
}

fn to_rows(matrix: &Matrix3<f64>) -> [[f64; 3]; 3] {
    std::array::from_fn(|i| std::array::from_fn(|k| matrix[(i, k)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;
    use proptest::prelude::*;

    fn cells() -> impl Strategy<Value = Cell> {
        prop::array::uniform3(prop::array::uniform3(-5.0..5.0f64))
            .prop_filter_map("flat", |rows| Cell::from_rows(rows).ok().filter(|c| c.volume() > 0.5))
    }

    proptest! {
        #[test]
        fn fractional_and_cartesian_are_inverse(cell in cells(), r in prop::array::uniform3(-20.0..20.0f64)) {
            let back = cell.cartesian(cell.fractional(r));
            for k in 0..3 {
                prop_assert!((back[k] - r[k]).abs() < 1e-9, "{back:?} for {r:?}");
            }
        }

        #[test]
        fn reciprocal_vectors_are_dual(cell in cells()) {
            let (a, b) = (cell.rows(), cell.reciprocal());
            for (i, b) in b.iter().enumerate() {
                for (j, a) in a.iter().enumerate() {
                    let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    let expected = if i == j { TAU } else { 0.0 };
                    prop_assert!((dot - expected).abs() < 1e-8);
                }
            }
        }

        #[test]
        fn heights_times_face_areas_are_the_volume(cell in cells()) {
            let a: [Vector3<f64>; 3] = cell.rows().map(Vector3::from);
            for (k, height) in cell.heights().into_iter().enumerate() {
                let area = a[(k + 1) % 3].cross(&a[(k + 2) % 3]).norm();
                prop_assert!((height * area - cell.volume()).abs() < 1e-9 * cell.volume().max(1.0));
            }
        }
    }

    #[test]
    fn handedness_is_free() {
        let right = Cell::from_rows([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.5, 0.0, 4.0]]).unwrap();
        let left = Cell::from_rows([[0.0, 3.0, 0.0], [2.0, 0.0, 0.0], [0.5, 0.0, 4.0]]).unwrap();
        assert_eq!(right.volume(), 24.0);
        assert_eq!(left.volume(), 24.0);
    }

    #[test]
    fn scale_does_not_matter() {
        for scale in [1e-90, 1e90] {
            let cell = Cell::from_rows([[scale, 0.0, 0.0], [0.0, scale, 0.0], [0.0, scale, scale]]).unwrap();
            assert_relative_eq!(cell.heights()[0], scale, max_relative = 1e-12);
        }
    }

    #[test]
    fn flat_and_infinite_cells_are_refused() {
        for rows in [
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]],
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
            [[1.0, 0.0, 0.0], [0.0, f64::NAN, 0.0], [0.0, 0.0, 1.0]],
        ] {
            let error = Cell::from_rows(rows).unwrap_err().to_string();
            assert!(error.starts_with("`cell`"), "{error}");
        }
    }
}
