//! The number types that positions come in.

use madelung_core::array::Numbers;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// f32 or f64. Neighbours are decided in f64 whichever it is, so an f32 list is exact for its f32 coordinates.
pub trait Coordinate: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The coordinates in f64, borrowed where they are already.
    fn widen(positions: &[[Self; 3]]) -> Numbers<'_, [f64; 3]>;
    /// The nearest number of this type.
    fn narrow(x: f64) -> Self;
}

impl Coordinate for f64 {
    fn widen(positions: &[[Self; 3]]) -> Numbers<'_, [f64; 3]> {
        positions.into()
    }

    fn narrow(x: f64) -> Self {
        x
    }
}

impl Coordinate for f32 {
    fn widen(positions: &[[Self; 3]]) -> Numbers<'_, [f64; 3]> {
        positions.iter().map(|r| r.map(f64::from)).collect()
    }

    fn narrow(x: f64) -> Self {
        x as f32
    }
}
