//! The lattice of one system as searches see it: periodic axes as given, open axes made up.

use crate::boxes::Extent;
use madelung_core::array::DType;
use madelung_core::cell::Cell;
use madelung_core::{Error, Result};
use std::ops::{Add, Mul};

/// Arithmetic of the distances that decide which points are pairs: that of the coordinates, in which the distances of pairs
/// are computed too, so that none of a list is beyond its cutoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Precision {
    #[default]
    Double,
    Single,
}

impl Precision {
    /// The precision in which numbers of a dtype are computed with.
    pub(crate) fn of(dtype: DType) -> Self {
        if dtype == DType::F64 { Self::Double } else { Self::Single }
    }

    /// |r_j − r_i + S · cell|
    pub(crate) fn distance(self, rows: &[[f64; 3]; 3], from: [f64; 3], to: [f64; 3], s: [i32; 3]) -> f64 {
        if self == Self::Single {
            let [from, to] = [from, to].map(|r| r.map(|x| x as f32));
            let square = squared(displacement_in_single(rows, from, to, s));
            // Others have no room in single precision.
            if (1e-30..1e30).contains(&square) {
                return square.sqrt().into();
            }
        }
        squared(displacement(rows, from, to, s)).sqrt()
    }

    /// The nearest number.
    pub(crate) fn rounded(self, x: f64) -> f64 {
        match self {
            Self::Double => x,
            Self::Single => f64::from(x as f32),
        }
    }
}

/// Lattice vectors, and a frame of three independent vectors that contains the periodic ones.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    /// Lattice vectors (rows); zero along open axes, which no image ever moves along.
    pub rows: [[f64; 3]; 3],
    /// The periodic axes.
    pub periodic: [bool; 3],
    /// Rows: the periodic vectors as they are, and unit vectors perpendicular to them for the open axes.
    pub frame: [[f64; 3]; 3],
    /// s = r · inverse.
    pub inverse: [[f64; 3]; 3],
    /// Thickness of the frame along each axis; 1 for open axes.
    pub heights: [f64; 3],
    /// The largest ratio of a point's components along the frame to its length.
    pub skew: f64,
    pub precision: Precision,
}

impl Lattice {
    /// No periodic axis at all.
    pub(crate) const OPEN: Self = Self {
        rows: [[0.0; 3]; 3],
        periodic: [false; 3],
        frame: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        inverse: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        heights: [1.0; 3],
        skew: 1.0,
        precision: Precision::Double,
    };

    /// A lattice from a cell whose rows along open axes may be any finite numbers, zero included. `whose` names the
    /// cell in errors.
    ///
    /// # Errors
    /// `cell`, where it is not finite or its periodic rows are not independent.
    pub(crate) fn new(cell: &[[f64; 3]; 3], periodic: [bool; 3], whose: &str) -> Result<Self> {
        if cell.iter().flatten().any(|x| !x.is_finite()) {
            return Err(Error::argument("cell", "finite lattice vectors", format!("{cell:?}{whose}")));
        }
        let axes: Vec<usize> = (0..3).filter(|&k| periodic[k]).collect();
        let mut frame = *cell;
        match axes[..] {
            [] => return Ok(Self::OPEN),
            [k] => {
                let a = unit(cell[k]);
                // The axis that a has least of gives the best-conditioned perpendicular.
                let least = (0..3).fold(0, |l, c| if a[c].abs() < a[l].abs() { c } else { l });
                let mut other = [0.0; 3];
                other[least] = 1.0;
                frame[(k + 1) % 3] = unit(cross(a, other));
                frame[(k + 2) % 3] = cross(a, frame[(k + 1) % 3]);
            }
            [k, l] => frame[3 - k - l] = unit(cross(unit(cell[k]), unit(cell[l]))),
            _ => {}
        }
        let checked = Cell::from_rows(frame).map_err(|_| {
            let expected = "lattice vectors (rows) that are independent along the periodic axes";
            Error::argument("cell", expected, format!("{cell:?}{whose} with pbc {periodic:?}"))
        })?;
        let heights = std::array::from_fn(|k| if periodic[k] { checked.heights()[k] } else { 1.0 });
        Ok(Self {
            rows: std::array::from_fn(|k| if periodic[k] { cell[k] } else { [0.0; 3] }),
            periodic,
            frame,
            inverse: std::array::from_fn(|i| std::array::from_fn(|k| checked.inverse()[(i, k)])),
            heights,
            skew: (0..3).map(|k| norm(frame[k]) / heights[k]).fold(1.0, f64::max),
            precision: Precision::Double,
        })
    }

    /// Coordinates along the frame.
    pub(crate) fn fractional(&self, r: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|k| {
            r[0] * self.inverse[0][k] + r[1] * self.inverse[1][k] + r[2] * self.inverse[2][k]
        })
    }

    /// The distance of some points from a box along the open axes, which no image is nearer than; not above it by rounding.
    pub(crate) fn gap(&self, rows: &[[f64; 3]], Extent { low, high }: &Extent) -> f64 {
        let along = |axis: [f64; 3]| {
            let (mut own, mut other) = ([f64::INFINITY, f64::NEG_INFINITY], [0.0; 2]);
            for r in rows {
                let x = axis[0] * r[0] + axis[1] * r[1] + axis[2] * r[2];
                own = [own[0].min(x), own[1].max(x)];
            }
            for k in 0..3 {
                let ends = [axis[k] * low[k], axis[k] * high[k]];
                other = [other[0] + ends[0].min(ends[1]), other[1] + ends[0].max(ends[1])];
            }
            let rounded = 1e-14 * [own, other].as_flattened().iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            ((other[0] - own[1]).max(own[0] - other[1]) - rounded).max(0.0)
        };
        norm(std::array::from_fn(|k| if self.periodic[k] { 0.0 } else { along(self.frame[k]) }))
    }

    /// S · cell.
    pub(crate) fn translation(&self, s: [i32; 3]) -> [f64; 3] {
        translation(&self.rows, s)
    }

    /// |r_j − r_i + S · cell|, in the precision of the coordinates.
    pub(crate) fn distance(&self, from: [f64; 3], to: [f64; 3], s: [i32; 3]) -> f64 {
        self.precision.distance(&self.rows, from, to, s)
    }

    /// The largest error of a length computed from wrapped coordinates against that from the coordinates given, in their
    /// precision, where none of these passes `largest` and lengths beyond `cutoff` do not matter.
    pub(crate) fn slack(&self, largest: f64, cutoff: f64) -> f64 {
        let lengths: f64 = self.rows.iter().map(|&a| norm(a)).sum();
        // Some dozen roundings, of 2⁻⁵³ or 2⁻²⁴. Where the latter pass the cutoff itself, single precision has no digits of it,
        // and points that are farther are not looked at.
        match self.precision {
            Precision::Double => (0.5f64).powi(43) * self.skew * (largest + cutoff + lengths),
            Precision::Single => ((0.5f64).powi(18) * self.skew * (largest + cutoff + lengths))
                .min(cutoff.max(f64::MIN_POSITIVE)),
        }
    }
}

/// One lattice for all systems, or one for each, for points of a precision. Without `pbc` all axes of a cell are periodic;
/// without `cell` none are.
///
/// # Errors
/// `cell` and `pbc`, where their number is neither 1 nor that of the systems; `cell`, where it is missing for a periodic
/// axis, or as [`Lattice::new`].
pub(crate) fn lattices(
    cell: Option<&[[[f64; 3]; 3]]>,
    pbc: Option<&[[bool; 3]]>,
    systems: usize,
    precision: Precision,
) -> Result<Vec<Lattice>> {
    for (name, given) in [("cell", cell.map(<[_]>::len)), ("pbc", pbc.map(<[_]>::len))] {
        if let Some(given) = given.filter(|&given| given != 1 && given != systems) {
            let expected = format!("one for all systems, or one for each of the {systems}");
            return Err(Error::argument(name, expected, given.to_string()));
        }
    }
    let Some(cells) = cell else {
        if pbc.is_some_and(|pbc| pbc.iter().flatten().any(|&periodic| periodic)) {
            return Err(Error::argument("cell", "lattice vectors for the periodic axes", "no cell"));
        }
        return Ok(vec![Lattice { precision, ..Lattice::OPEN }]);
    };
    let pbc = pbc.unwrap_or(&[[true; 3]]);
    if cells.is_empty() || pbc.is_empty() {
        return Ok(vec![]); // one for each of no systems
    }
    (0..cells.len().max(pbc.len()))
        .map(|b| {
            let whose = if cells.len() > 1 { format!(" for system {b}") } else { String::new() };
            let lattice = Lattice::new(&cells[b.min(cells.len() - 1)], pbc[b.min(pbc.len() - 1)], &whose)?;
            Ok(Lattice { precision, ..lattice })
        })
        .collect()
}

/// S · cell, in the one order of operations that every part of Madelung uses.
pub(crate) fn translation(rows: &[[f64; 3]; 3], s: [i32; 3]) -> [f64; 3] {
    let s = s.map(f64::from);
    std::array::from_fn(|k| s[0] * rows[0][k] + s[1] * rows[1][k] + s[2] * rows[2][k])
}

/// r_ij = r_j − r_i + S · cell.
pub(crate) fn displacement(rows: &[[f64; 3]; 3], from: [f64; 3], to: [f64; 3], s: [i32; 3]) -> [f64; 3] {
    let t = translation(rows, s);
    std::array::from_fn(|k| (to[k] - from[k]) + t[k])
}

/// [`displacement`], computed in single precision.
pub(crate) fn displacement_in_single(
    rows: &[[f64; 3]; 3],
    from: [f32; 3],
    to: [f32; 3],
    s: [i32; 3],
) -> [f32; 3] {
    let (rows, s) = (rows.map(|row| row.map(|x| x as f32)), s.map(|n| n as f32));
    std::array::from_fn(|k| (to[k] - from[k]) + (s[0] * rows[0][k] + s[1] * rows[1][k] + s[2] * rows[2][k]))
}

/// |v|²
pub(crate) fn squared<T: Copy + Add<Output = T> + Mul<Output = T>>(v: [T; 3]) -> T {
    v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
}

/// |v|
pub(crate) fn norm(v: [f64; 3]) -> f64 {
    // Scaled, so that very large and very small cells keep their lengths.
    let scale = v.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    if scale == 0.0 { 0.0 } else { scale * squared(v.map(|x| x / scale)).sqrt() }
}

fn unit(v: [f64; 3]) -> [f64; 3] {
    let length = norm(v);
    v.map(|x| x / length)
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_axes_need_no_vector() {
        let wire = Lattice::new(&[[0.0; 3], [1.0, 2.0, 2.0], [0.0; 3]], [false, true, false], "").unwrap();
        assert!((wire.heights[1] - 3.0).abs() < 1e-14);
        let s = wire.fractional([1.0, 2.0, 2.0]);
        assert!(s[0].abs() < 1e-14 && (s[1] - 1.0).abs() < 1e-14 && s[2].abs() < 1e-14, "{s:?}");
        let slab =
            Lattice::new(&[[2.0, 0.0, 0.0], [1.0, 3.0, 0.0], [0.0; 3]], [true, true, false], "").unwrap();
        assert!((slab.heights[1] - 3.0).abs() < 1e-14 && slab.heights[2] == 1.0);
    }

    #[test]
    fn dependent_vectors_are_refused() {
        let cell = [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
        assert!(Lattice::new(&cell, [true, true, false], "").unwrap_err().to_string().starts_with("`cell`"));
        assert!(Lattice::new(&cell, [true, false, true], "").is_ok());
    }
}
