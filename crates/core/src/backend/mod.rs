//! The door to the hardware: the one trait that a backend implements, and the context of a call.

pub mod context;
mod launch;
mod linear;
pub mod pool;
pub mod status;

pub use context::{Allocator, Context, Heap, PairLoops};
pub use launch::{Bound, Launch, LaunchArgs, OutputArray};
pub use linear::{Meshes, Scan, Waves, half_spectrum};

use crate::array::{Array, Place, View};
use crate::structure::{DevicePairs, Structure};
use crate::{Error, Result};
use std::any::Any;

/// Condition that holds before kernels read an array in the memory of a device.
#[derive(Clone, Debug)]
pub enum Check<'a> {
    /// Numbers that are finite.
    Finite(View<'a>),
    /// Numbers that are finite and above zero.
    Positive(View<'a>),
    /// Numbers that are finite and not below zero.
    NotNegative(View<'a>),
    /// Numbers that are zero.
    Zero(View<'a>),
    /// Matrices (B, 3, 3) of lattice vectors that span a volume; whether vectors may be zero, of cells that then need not.
    Cells(View<'a>, bool),
    /// Integers of at most a limit.
    AtMost(View<'a>, usize),
    /// Integers from 0 to below a limit.
    Below(View<'a>, usize),
    /// Integers of a batch: the system of each atom, (N,), and where systems begin, (B + 1,), which the check writes where
    /// it is derived.
    Batch {
        /// The system of each atom.
        idx: View<'a>,
        /// The first atom of each system, and the number of atoms.
        ptr: View<'a>,
        /// Whether the check writes where systems begin.
        derived: bool,
    },
    /// Offsets of at most a limit, which the check writes in 64 bits.
    Widened {
        /// The offsets, int32.
        narrow: View<'a>,
        /// Memory for the offsets, int64.
        wide: View<'a>,
        /// The limit.
        limit: usize,
    },
    /// Integers of a pair list, which is what [`crate::structure::PairList`] guarantees.
    Pairs {
        /// The list.
        list: &'a DevicePairs<'a>,
        /// The systems of its rows and columns, which no pair crosses, where there are several.
        systems: Option<[View<'a>; 2]>,
    },
}

/// Weights of rows.
#[derive(Clone, Debug)]
pub enum Weights<'a> {
    /// All by one number.
    Uniform(f64),
    /// Each by its own, and all by one number.
    Rows(&'a View<'a>, f64),
    /// Each by that of its system, whose number the second array says.
    Systems(&'a View<'a>, &'a View<'a>),
}

/// Hardware that runs kernels and works on arrays. [`Context`] checks the arguments of the linear maps; every result has
/// the same bits for any number of threads.
pub trait Backend: Sync {
    /// Its name: `cpu`, `cuda`.
    fn name(&self) -> &'static str;

    /// Itself, for crates that know more about it.
    fn as_any(&self) -> &dyn Any;

    /// Memory in which the arrays of its calls lie.
    fn place(&self) -> Place;

    /// Runs a part of a kernel.
    ///
    /// # Errors
    /// Memory ran out; the driver's.
    fn launch(&self, context: &Context<'_>, launch: &mut Launch<'_>) -> Result<()>;

    /// Begins a call: conditions on arguments (each with the number of its argument) that the call has not checked, and
    /// arrays that are filled with numbers, rounded to their types. A backend whose errors wait on a device gives the
    /// status word of the call.
    ///
    /// # Errors
    /// Memory ran out; the driver's.
    fn begin(
        &self,
        context: &Context<'_>,
        checks: &[(usize, Check<'_>)],
        fills: &mut [(&mut Array, f64)],
    ) -> Result<Option<Array>>;

    /// Ends a call that has a status word: results become NaN where the word was raised or one of them is not finite, and
    /// the next look at the device's errors finds the reason, under the names of the call and of its arguments.
    ///
    /// # Errors
    /// The driver's.
    fn end(
        &self,
        context: &Context<'_>,
        word: Array,
        results: &mut [&mut Array],
        call: &str,
        arguments: &dyn Fn() -> Vec<String>,
    ) -> Result<()>;

    /// Fills with a number, rounded to the array's type.
    ///
    /// # Errors
    /// The driver's.
    fn fill(&self, context: &Context<'_>, array: &mut Array, x: f64) -> Result<()>;

    /// Adds an array of the same type and shape.
    ///
    /// # Errors
    /// `other`, where they differ.
    fn add(&self, context: &Context<'_>, to: &mut Array, from: &Array) -> Result<()>;

    /// The numbers of `from` in the type of `to`, an array of as many: real ones rounded to nearest, ties to even. An i64
    /// that is no i32 is an error of argument `name`; with a status word it raises that, for the argument's number.
    ///
    /// # Errors
    /// The argument.
    fn cast(
        &self,
        context: &Context<'_>,
        from: &View<'_>,
        to: &mut Array,
        name: &str,
        word: Option<(&Array, Option<usize>)>,
    ) -> Result<()>;

    /// Rows of `unit` times their weights, into `rows`, an array of the same type and shape.
    ///
    /// # Errors
    /// Memory ran out.
    fn scale_rows(
        &self,
        context: &Context<'_>,
        unit: &View<'_>,
        weights: &Weights<'_>,
        rows: &mut Array,
    ) -> Result<()>;

    /// The transpose of a list in the memory of a device: its starts, rows and entries.
    ///
    /// # Errors
    /// Memory ran out; a list of the host, which makes its own.
    fn transpose(&self, context: &Context<'_>, list: &dyn Structure) -> Result<[Array; 3]>;

    /// See [`Context::segmented_sum`].
    ///
    /// # Errors
    /// Those of [`Context::segmented_sum`].
    fn segmented_sum(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        sums: &mut Array,
    ) -> Result<()>;

    /// See [`Context::segmented_broadcast`].
    ///
    /// # Errors
    /// Those of [`Context::segmented_broadcast`].
    fn segmented_broadcast(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        rows: &mut Array,
    ) -> Result<()>;

    /// See [`Context::sum`].
    ///
    /// # Errors
    /// Those of [`Context::sum`].
    fn sum(&self, context: &Context<'_>, values: &View<'_>, sum: &mut Array) -> Result<()>;

    /// See [`Context::broadcast`].
    ///
    /// # Errors
    /// Those of [`Context::broadcast`].
    fn broadcast(&self, context: &Context<'_>, value: &View<'_>, rows: &mut Array) -> Result<()>;

    /// See [`Context::real_fft`].
    ///
    /// # Errors
    /// Those of [`Context::real_fft`].
    fn real_fft(
        &self,
        context: &Context<'_>,
        meshes: &[Meshes],
        waves: Waves,
        values: &View<'_>,
        spectrum: [&mut Array; 2],
    ) -> Result<()>;

    /// See [`Context::inverse_real_fft`].
    ///
    /// # Errors
    /// Those of [`Context::inverse_real_fft`].
    fn inverse_real_fft(
        &self,
        context: &Context<'_>,
        meshes: &[Meshes],
        waves: Waves,
        spectrum: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()>;

    /// See [`Context::complex_fft`].
    ///
    /// # Errors
    /// Those of [`Context::complex_fft`].
    fn complex_fft(
        &self,
        context: &Context<'_>,
        sizes: [usize; 3],
        inverse: bool,
        spectrum: [&mut Array; 2],
    ) -> Result<()> {
        _ = (context, sizes, inverse, spectrum);
        Err(Error::argument("context", "one of the host", self.name()))
    }
}
