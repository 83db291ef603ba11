//! Primitives of a backend: scans, sorts, reductions over segments, real 3-D Fourier transforms.
//!
//! [`Primitives`] is what a backend implements; the methods of [`Context`] check the arguments and call it. Every
//! result has the same bits for any number of threads.
//!
//! Segments are ranges of rows between offsets: segment s is `offsets[s]..offsets[s + 1]`, as in a batch's `ptr` and
//! in a sorted list. A row is what lies behind the first dimension.

use super::context::Context;
use crate::array::{Array, DType, Data, View};
use crate::{Error, Result};

/// Numbers to be added up, by their type.
#[derive(Clone, Copy, Debug)]
pub enum Counts<'a> {
    /// i32
    I32(&'a [i32]),
    /// u32
    U32(&'a [u32]),
    /// i64
    I64(&'a [i64]),
}

/// Where their sums go: the same type.
#[derive(Debug)]
pub enum CountsMut<'a> {
    /// i32
    I32(&'a mut [i32]),
    /// u32
    U32(&'a mut [u32]),
    /// i64
    I64(&'a mut [i64]),
}

/// Keys to sort by.
#[derive(Debug)]
pub enum KeysMut<'a> {
    /// u32
    U32(&'a mut [u32]),
    /// u64
    U64(&'a mut [u64]),
}

/// Sorted keys.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    /// u32
    U32(&'a [u32]),
    /// u64
    U64(&'a [u64]),
}

/// Which sums a scan gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// n + 1 sums of what comes before each number, the last one of all: offsets.
    Exclusive,
    /// n sums, each with its own number.
    Inclusive,
}

/// Which element of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extremum {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// How the waves of a half spectrum count. The spectrum of a real mesh at −k is the conjugate of that at k, so only
/// the waves with k₃ ≤ K₃/2 are kept. All of them but those with k₃ = 0 and k₃ = K₃/2 stand for two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waves {
    /// Each that is kept, once.
    Kept,
    /// Those that are left out too: a wave that stands for two counts twice.
    All,
}

/// What a backend can do besides launching kernels. Arguments have been checked by [`Context`].
pub trait Primitives: Sync {
    /// See [`Context::scan`].
    fn scan(&self, context: &Context<'_>, scan: Scan, counts: Counts<'_>, sums: CountsMut<'_>) -> Result<()>;
    /// See [`Context::sort_by_key`].
    fn sort_by_key(&self, context: &Context<'_>, keys: KeysMut<'_>, payload: &mut [u32]) -> Result<()>;
    /// See [`Context::segment_bounds`].
    fn segment_bounds(&self, context: &Context<'_>, keys: Keys<'_>, offsets: &mut [i32]) -> Result<()>;
    /// See [`Context::segmented_sum`].
    fn segmented_sum(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        sums: &mut Array,
    ) -> Result<()>;
    /// See [`Context::segmented_broadcast`].
    fn segmented_broadcast(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        rows: &mut Array,
    ) -> Result<()>;
    /// See [`Context::segmented_extremum`].
    fn segmented_extremum(
        &self,
        context: &Context<'_>,
        which: Extremum,
        values: &View<'_>,
        offsets: &[i32],
        extrema: &mut Array,
        arguments: &mut [i32],
    ) -> Result<()>;
    /// See [`Context::sum`].
    fn sum(&self, context: &Context<'_>, values: &View<'_>, sum: &mut Array) -> Result<()>;
    /// See [`Context::broadcast`].
    fn broadcast(&self, context: &Context<'_>, value: &View<'_>, rows: &mut Array) -> Result<()>;
    /// See [`Context::real_fft`].
    fn real_fft(
        &self,
        context: &Context<'_>,
        mesh: [usize; 3],
        waves: Waves,
        values: &View<'_>,
        spectrum: [&mut Array; 2],
    ) -> Result<()>;
    /// See [`Context::inverse_real_fft`].
    fn inverse_real_fft(
        &self,
        context: &Context<'_>,
        mesh: [usize; 3],
        waves: Waves,
        spectrum: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()>;
}

/// A number that scans add up.
pub trait Count: Copy + Send + Sync + 'static {
    /// Numbers of this type.
    fn counts(counts: &[Self]) -> Counts<'_>;
    /// The same, for writing.
    fn counts_mut(sums: &mut [Self]) -> CountsMut<'_>;
}

/// A key that sorts compare.
pub trait Key: Copy + Send + Sync + 'static {
    /// Keys of this type.
    fn keys(keys: &[Self]) -> Keys<'_>;
    /// The same, for writing.
    fn keys_mut(keys: &mut [Self]) -> KeysMut<'_>;
}

macro_rules! typed {
    ($Trait:ident, $Enum:ident, $EnumMut:ident, $f:ident, $f_mut:ident, $($T:ty, $V:ident);*) => {$(
        impl $Trait for $T {
            fn $f(values: &[Self]) -> $Enum<'_> {
                $Enum::$V(values)
            }
            fn $f_mut(values: &mut [Self]) -> $EnumMut<'_> {
                $EnumMut::$V(values)
            }
        }
    )*};
}
typed!(Count, Counts, CountsMut, counts, counts_mut, i32, I32; u32, U32; i64, I64);
typed!(Key, Keys, KeysMut, keys, keys_mut, u32, U32; u64, U64);

/// The waves of one system's half spectrum: K₁ · K₂ · (K₃/2 + 1).
pub fn half_spectrum(mesh: [usize; 3]) -> Option<usize> {
    mesh[0].checked_mul(mesh[1])?.checked_mul(mesh[2] / 2 + 1)
}

impl Context<'_> {
    /// Sums of the numbers before each one (n + 1 of them, the last the sum of all: offsets), or up to each one (n).
    ///
    /// # Errors
    /// `counts`, where a number is negative or the sum of all does not fit the type; `sums`, where it has another
    /// length.
    pub fn scan<T: Count>(&self, scan: Scan, counts: &[T], sums: &mut [T]) -> Result<()> {
        let len = counts.len() + usize::from(scan == Scan::Exclusive);
        check_len("sums", len, sums.len())?;
        self.backend.primitives()?.scan(self, scan, T::counts(counts), T::counts_mut(sums))
    }

    /// Sorts keys, and the payload with them; what has equal keys keeps its order.
    ///
    /// # Errors
    /// `payload`, where it has another length than `keys`.
    pub fn sort_by_key<K: Key>(&self, keys: &mut [K], payload: &mut [u32]) -> Result<()> {
        check_len("payload", keys.len(), payload.len())?;
        self.backend.primitives()?.sort_by_key(self, K::keys_mut(keys), payload)
    }

    /// Where each of `offsets.len() − 1` segments begins among sorted keys: `offsets[s]` is the number of keys below
    /// s, so segment s has the keys equal to s.
    ///
    /// # Errors
    /// `keys`, where they are not sorted, one is not below the number of segments, or there are more than an i32
    /// counts; `offsets`, where it is empty.
    pub fn segment_bounds<K: Key>(&self, keys: &[K], offsets: &mut [i32]) -> Result<()> {
        if offsets.is_empty() {
            return Err(Error::argument("offsets", "one more than there are segments", "none"));
        }
        fits_i32("keys", keys.len())?;
        self.backend.primitives()?.segment_bounds(self, K::keys(keys), offsets)
    }

    /// The sum of each segment's rows, added in f64 and rounded once: `values` (M, …), `sums` (S, …). A segment gives
    /// the same bits whichever others there are.
    ///
    /// # Errors
    /// An argument whose type or shape does not fit; `offsets`, where they fall or do not span the rows.
    pub fn segmented_sum<'o>(
        &self,
        values: &View<'_>,
        offsets: impl Into<View<'o>>,
        sums: &mut Array,
    ) -> Result<()> {
        let offsets = offsets.into();
        let segments = check_offsets(values.shape(), &offsets)?;
        check_rows("sums", values, segments, sums)?;
        self.backend.primitives()?.segmented_sum(self, values, &offsets, sums)
    }

    /// Each segment's row to all of its rows: `values` (S, …), `rows` (M, …). The transpose of
    /// [`Context::segmented_sum`].
    ///
    /// # Errors
    /// As there.
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
        self.backend.primitives()?.segmented_broadcast(self, values, &offsets, rows)
    }

    /// One element to all rows: `value` (…), `rows` (M, …). The transpose of [`Context::sum`].
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
        self.backend.primitives()?.broadcast(self, value, rows)
    }

    /// The largest or smallest element of each segment, component by component, and the row it is in: `values`
    /// (M, …), `extrema` (S, …), `arguments` as many. Of equal ones it is the first; a NaN wins. An empty segment has
    /// the element 0 in row −1.
    ///
    /// # Errors
    /// As [`Context::segmented_sum`].
    pub fn segmented_extremum(
        &self,
        which: Extremum,
        values: &View<'_>,
        offsets: &[i32],
        extrema: &mut Array,
        arguments: &mut [i32],
    ) -> Result<()> {
        let segments = check_offsets(values.shape(), &offsets.into())?;
        check_rows("extrema", values, segments, extrema)?;
        check_len("arguments", extrema.shape().iter().product(), arguments.len())?;
        self.backend.primitives()?.segmented_extremum(self, which, values, offsets, extrema, arguments)
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
        self.backend.primitives()?.sum(self, values, sum)
    }

    /// The Fourier transform of real meshes, X_k = Σ_n x_n exp(−2πi Σ_a k_a n_a / K_a), without a factor, with
    /// 0 ≤ k₃ ≤ K₃/2 only. `values` has B·K₁·K₂·K₃ elements, the meshes of B systems one after the other, K₃ fastest;
    /// `spectrum` is the real and the imaginary part, B·K₁·K₂·(K₃/2 + 1) elements each.
    ///
    /// With [`Waves::All`] the waves that stand for two are doubled: that is the transpose of
    /// [`Context::inverse_real_fft`] with [`Waves::All`], as a real linear map. Transposing keeps the counting and
    /// exchanges the two transforms.
    ///
    /// # Errors
    /// `mesh`, where a size is 0; an argument whose type or length does not fit.
    pub fn real_fft(
        &self,
        mesh: [usize; 3],
        waves: Waves,
        values: &View<'_>,
        spectrum: [&mut Array; 2],
    ) -> Result<()> {
        check_meshes(mesh, (values.dtype(), values.len()), spectrum.each_ref().map(|a| size(a)))?;
        self.backend.primitives()?.real_fft(self, mesh, waves, values, spectrum)
    }

    /// The real part of the inverse Fourier transform, without a factor: x_n = Σ_k w_k Re(X_k exp(2πi Σ_a k_a n_a /
    /// K_a)) over the k that are kept, with w_k = 1 for [`Waves::Kept`] (the transpose of [`Context::real_fft`]), and
    /// w_k = 2 for those that stand for two with [`Waves::All`] (K₁·K₂·K₃ times its inverse).
    ///
    /// # Errors
    /// As [`Context::real_fft`].
    pub fn inverse_real_fft(
        &self,
        mesh: [usize; 3],
        waves: Waves,
        spectrum: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()> {
        check_meshes(mesh, size(values), spectrum.map(|v| (v.dtype(), v.len())))?;
        self.backend.primitives()?.inverse_real_fft(self, mesh, waves, spectrum, values)
    }
}

fn size(array: &Array) -> (DType, usize) {
    (array.dtype(), array.shape().iter().product())
}

fn check_meshes(mesh: [usize; 3], values: (DType, usize), spectrum: [(DType, usize); 2]) -> Result<()> {
    check_real("values", values.0)?;
    let sizes = mesh.iter().try_fold(1usize, |n, k| n.checked_mul(*k)).zip(half_spectrum(mesh));
    let Some((nodes, waves)) = sizes.filter(|(nodes, _)| *nodes > 0) else {
        return Err(Error::argument(
            "mesh",
            "three sizes ≥ 1 whose product fits in 64 bits",
            format!("{mesh:?}"),
        ));
    };
    if !values.1.is_multiple_of(nodes) {
        return Err(Error::argument(
            "values",
            format!("a multiple of {nodes} elements"),
            values.1.to_string(),
        ));
    }
    for part in spectrum {
        let expected = (values.0, values.1 / nodes * waves);
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

fn fits_i32(name: &str, len: usize) -> Result<()> {
    if i32::try_from(len).is_ok() {
        return Ok(());
    }
    Err(Error::argument(name, format!("at most {} rows", i32::MAX), len.to_string()))
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

/// An array of `rows` rows such as `values` has.
fn check_rows(name: &str, values: &View<'_>, rows: usize, array: &Array) -> Result<()> {
    check_real("values", values.dtype())?;
    let mut shape = values.shape().to_vec();
    match shape.first_mut() {
        Some(first) => *first = rows,
        None => return Err(Error::argument("values", "at least one dimension", "none")),
    }
    check_array(name, values.dtype(), &shape, array)
}

/// How many segments there are. What offsets hold is not looked at where they lie on a device.
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
