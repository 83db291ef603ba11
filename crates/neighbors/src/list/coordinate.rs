//! The number types that positions come in.

use crate::lattice::{displacement, displacement_in_single, squared};
use madelung_core::array::{DType, Numbers};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// f32 or f64: the type in which distances are computed, and so the one that decides which atoms are neighbours.
pub trait Coordinate: sealed::Sealed + Copy + Default + PartialOrd + Send + Sync + 'static {
    /// The type, as arrays have it.
    const DTYPE: DType;
    /// The coordinates in f64, borrowed where they are already.
    fn widen(positions: &[[Self; 3]]) -> Numbers<'_, [f64; 3]>;
    /// The nearest number of this type.
    fn narrow(x: f64) -> Self;
    /// r_ij = r_j − r_i + S · cell, and its length.
    fn between(cell: &[[f64; 3]; 3], from: [Self; 3], to: [Self; 3], s: [i32; 3]) -> ([Self; 3], Self);
}

impl Coordinate for f64 {
    const DTYPE: DType = DType::F64;

    fn narrow(x: f64) -> Self {
        x
    }

    fn widen(positions: &[[Self; 3]]) -> Numbers<'_, [f64; 3]> {
        positions.into()
    }

    fn between(cell: &[[f64; 3]; 3], from: [Self; 3], to: [Self; 3], s: [i32; 3]) -> ([Self; 3], Self) {
        let d = displacement(cell, from, to, s);
        (d, squared(d).sqrt())
    }
}

impl Coordinate for f32 {
    const DTYPE: DType = DType::F32;

    fn narrow(x: f64) -> Self {
        x as f32
    }

    fn widen(positions: &[[Self; 3]]) -> Numbers<'_, [f64; 3]> {
        positions.iter().map(|r| r.map(f64::from)).collect()
    }

    fn between(cell: &[[f64; 3]; 3], from: [Self; 3], to: [Self; 3], s: [i32; 3]) -> ([Self; 3], Self) {
        let d = displacement_in_single(cell, from, to, s);
        (d, squared(d).sqrt())
    }
}
