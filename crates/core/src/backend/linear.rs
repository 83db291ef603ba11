//! Linear maps of arrays: segmented sums and broadcasts, and real 3-D Fourier transforms.
//!
//! Segment s is the range of rows `offsets[s]..offsets[s + 1]`, as in a batch's `ptr`; a row is an element along the
//! first dimension.

use super::context::Context;
use crate::array::{Array, DType, Data, View};
use crate::{Error, Result};

/// The kind of a prefix sum (scan) of n numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// n + 1 sums: of the numbers before each number, and of all numbers. These are offsets.
    Exclusive,
    /// n sums: of the numbers up to each number, inclusive.
    Inclusive,
}

/// The weights of waves in a half spectrum. The spectrum of a real mesh at −k is the conjugate of the spectrum at k, so
/// only waves with k₃ ≤ K₃/2 are stored. Each of them represents two waves, except those with k₃ = 0 or k₃ = K₃/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waves {
    /// Weight 1 for every stored wave.
    Kept,
    /// Weight 2 for a stored wave that represents two waves.
    All,
}

/// The number of waves in one system's half spectrum: K₁ · K₂ · (K₃/2 + 1).
pub fn half_spectrum(mesh: [usize; 3]) -> Option<usize> {
    mesh[0].checked_mul(mesh[1])?.checked_mul(mesh[2] / 2 + 1)
}

/// Meshes of one size, one after the other in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meshes {
    /// K₁, K₂, K₃.
    pub sizes: [usize; 3],
    /// The number of systems.
    pub systems: usize,
}

impl Meshes {
    /// The number of nodes, and of waves in half spectra; None where a size is 0 or they are more than 64 bits can number.
    pub fn counts(&self) -> Option<[usize; 2]> {
        let nodes = self.sizes.iter().try_fold(1usize, |n, k| n.checked_mul(*k)).filter(|n| *n > 0)?;
        Some([nodes.checked_mul(self.systems)?, half_spectrum(self.sizes)?.checked_mul(self.systems)?])
    }
}

impl Context<'_> {
    /// The sum of each segment's rows, added in f64 and rounded once: `values` (M, …), `sums` (S, …). The bits of a sum
    /// do not depend on other segments.
    ///
    /// # Errors
    /// An argument whose type or shape does not fit; `offsets`, where they decrease or do not span the rows.
    pub fn segmented_sum<'o>(
        &self,
        values: &View<'_>,
        offsets: impl Into<View<'o>>,
        sums: &mut Array,
    ) -> Result<()> {
        let offsets = offsets.into();
        let segments = check_offsets(values.shape(), &offsets)?;
        check_rows("sums", values, segments, sums)?;
        self.backend.segmented_sum(self, values, &offsets, sums)
    }

    /// Copies the row of each segment to all rows of the segment: `values` (S, …), `rows` (M, …). The transpose of
    /// [`Context::segmented_sum`].
    ///
    /// # Errors
    /// Those of [`Context::segmented_sum`].
    pub fn segmented_broadcast<'o>(
        &self,
        values: &View<'_>,
        offsets: impl Into<View<'o>>,
        rows: &mut Array,
    ) -> Result<()> {
        let offsets = offsets.into();
        let segments = check_offsets(rows.shape(), &offsets)?;
        check_len("values", segments, values.shape().first().copied().unwrap_or(0))?;
        check_rows("rows", values, rows.shape().first().copied().unwrap_or(0), rows)?;
        self.backend.segmented_broadcast(self, values, &offsets, rows)
    }

    /// Copies one row to all rows: `value` (…), `rows` (M, …). The transpose of [`Context::sum`].
    ///
    /// # Errors
    /// An argument whose type or shape does not fit.
    pub fn broadcast(&self, value: &View<'_>, rows: &mut Array) -> Result<()> {
        check_real("value", value.dtype())?;
        let width: usize = rows.shape().iter().skip(1).product();
        if rows.shape().is_empty() || rows.dtype() != value.dtype() || value.len() != width {
            let expected = format!("rows of {} elements of {}", value.len(), value.dtype());
            return Err(Error::argument("rows", expected, format!("{} {:?}", rows.dtype(), rows.shape())));
        }
        self.backend.broadcast(self, value, rows)
    }

    /// The sum of all rows, added in f64 and rounded once: `values` (M, …), `sum` (…).
    ///
    /// # Errors
    /// An argument whose type or shape does not fit.
    pub fn sum(&self, values: &View<'_>, sum: &mut Array) -> Result<()> {
        check_real("values", values.dtype())?;
        let Some((_, rest)) = values.shape().split_first() else {
            return Err(Error::argument("values", "at least one dimension", "none"));
        };
        check_array("sum", values.dtype(), rest, sum)?;
        self.backend.sum(self, values, sum)
    }

    /// The unnormalised Fourier transform of real meshes, X_k = Σ_n x_n exp(−2πi Σ_a k_a n_a / K_a) for 0 ≤ k₃ ≤ K₃/2.
    /// `values` has K₁·K₂·K₃ elements of each system, the meshes one after the other, K₃ fastest; `spectrum` is the
    /// real and the imaginary part, K₁·K₂·(K₃/2 + 1) elements of each system.
    ///
    /// [`Waves::All`] multiplies each wave by its weight. The transpose, as a real linear map, is
    /// [`Context::inverse_real_fft`] with equal `waves`.
    ///
    /// # Errors
    /// `mesh`, where a size is 0; an argument whose type or length does not fit.
    pub fn real_fft(
        &self,
        meshes: &[Meshes],
        waves: Waves,
        values: &View<'_>,
        spectrum: [&mut Array; 2],
    ) -> Result<()> {
        check_meshes(meshes, (values.dtype(), values.len()), spectrum.each_ref().map(|a| size(a)))?;
        self.backend.real_fft(self, meshes, waves, values, spectrum)
    }

    /// The real part of the unnormalised inverse Fourier transform: x_n = Σ_k w_k Re(X_k exp(2πi Σ_a k_a n_a / K_a))
    /// over the stored waves, with the weights w_k of `waves`. [`Waves::All`] gives K₁·K₂·K₃ times the inverse of
    /// [`Context::real_fft`] with [`Waves::Kept`].
    ///
    /// # Errors
    /// Those of [`Context::real_fft`].
    pub fn inverse_real_fft(
        &self,
        meshes: &[Meshes],
        waves: Waves,
        spectrum: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()> {
        check_meshes(meshes, size(values), spectrum.map(|v| (v.dtype(), v.len())))?;
        self.backend.inverse_real_fft(self, meshes, waves, spectrum, values)
    }
}

impl Context<'_> {
    /// The unnormalised complex Fourier transform along the second of three axes, in place: X_k = Σ_n x_n exp(∓2πi k n/K), with
    /// the upper sign unless it is `inverse`. `spectrum` is the real and the imaginary part, (P, K, C) each.
    ///
    /// # Errors
    /// `spectrum`, where its type or length does not fit; `context`, where it is not of the host.
    pub fn complex_fft(&self, sizes: [usize; 3], inverse: bool, spectrum: [&mut Array; 2]) -> Result<()> {
        let dtype = spectrum[0].dtype();
        check_real("spectrum", dtype)?;
        let numbers = sizes.iter().try_fold(1usize, |n, k| n.checked_mul(*k));
        for part in &spectrum {
            if (part.dtype(), Some(size(part).1)) != (dtype, numbers) {
                let got = format!("{} elements of {}", size(part).1, part.dtype());
                return Err(Error::argument("spectrum", format!("{sizes:?} elements of {dtype}"), got));
            }
        }
        self.backend.complex_fft(self, sizes, inverse, spectrum)
    }
}

fn size(array: &Array) -> (DType, usize) {
    (array.dtype(), array.shape().iter().product())
}

fn check_meshes(meshes: &[Meshes], values: (DType, usize), spectrum: [(DType, usize); 2]) -> Result<()> {
    check_real("values", values.0)?;
    let (mut nodes, mut waves) = (0usize, 0usize);
    for of_size in meshes {
        let counts = of_size.counts().and_then(|[n, w]| Some((nodes.checked_add(n)?, waves.checked_add(w)?)));
        let Some(counts) = counts else {
            let expected = "three sizes ≥ 1 whose product fits in 64 bits";
            return Err(Error::argument("mesh", expected, format!("{:?}", of_size.sizes)));
        };
        (nodes, waves) = counts;
    }
    check_len("values", nodes, values.1)?;
    for part in spectrum {
        let expected = (values.0, waves);
        if part != expected {
            let show = |(dtype, len): (DType, usize)| format!("{len} elements of {dtype}");
            return Err(Error::argument("spectrum", show(expected), show(part)));
        }
    }
    Ok(())
}

fn check_len(name: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::argument(name, format!("{expected} elements"), got.to_string()))
}

fn check_real(name: &str, dtype: DType) -> Result<()> {
    match dtype {
        DType::F32 | DType::F64 => Ok(()),
        other => Err(Error::argument(name, "float32 or float64", other.to_string())),
    }
}

fn check_array(name: &str, dtype: DType, shape: &[usize], array: &Array) -> Result<()> {
    if (array.dtype(), array.shape()) != (dtype, shape) {
        let got = format!("{} {:?}", array.dtype(), array.shape());
        return Err(Error::argument(name, format!("{dtype} {shape:?}"), got));
    }
    Ok(())
}

/// Checks that an array has `rows` rows of the type and shape of those of `values`.
fn check_rows(name: &str, values: &View<'_>, rows: usize, array: &Array) -> Result<()> {
    check_real("values", values.dtype())?;
    let mut shape = values.shape().to_vec();
    match shape.first_mut() {
        Some(first) => *first = rows,
        None => return Err(Error::argument("values", "at least one dimension", "none")),
    }
    check_array(name, values.dtype(), &shape, array)
}

/// The number of segments, after a check of the offsets; the numbers of offsets on a device are not checked.
fn check_offsets(shape: &[usize], offsets: &View<'_>) -> Result<usize> {
    let rows = shape.first().copied().unwrap_or(0);
    let expected = || format!("offsets that never fall, from 0 to {rows}");
    let offsets = match offsets.data() {
        Data::I32(offsets) => offsets,
        Data::Device(d) if d.dtype() == DType::I32 && !d.is_empty() => return Ok(d.len() - 1),
        _ => {
            let got = format!("{} of them, {}", offsets.len(), offsets.dtype());
            return Err(Error::argument("offsets", format!("int32 {}", expected()), got));
        }
    };
    let falls = offsets.windows(2).any(|w| w[0] > w[1]);
    match (offsets.first(), offsets.last()) {
        (Some(0), Some(last)) if usize::try_from(*last) == Ok(rows) && !falls => Ok(offsets.len() - 1),
        (first, last) => Err(Error::argument(
            "offsets",
            expected(),
            format!("{first:?} to {last:?}{}", if falls { ", falling" } else { "" }),
        )),
    }
}
