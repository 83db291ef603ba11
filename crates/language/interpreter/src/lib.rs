//! The interpreter: programs on every lane type, with no compiler at hand. It calls what compiled kernels call, in the same
//! order, so that it gives the same bits. An instruction on lanes is done for up to [`BLOCK`] vectors of iterations before
//! the next one is looked at.
//!
//! Sound as compiled kernels are, which are printed from such programs: programs come from the lowerings of
//! [`madelung_kernel::program`] alone, and backends check the arrays of a launch against the kernel's declaration.
#![expect(
    unsafe_code,
    reason = "arrays are reached through a launch's pointers, and lanes entered behind their features"
)]

mod chain;
mod interpreted;
mod line;
mod links;
mod machine;
mod memory;
mod numbers;
mod order;
mod special;
mod world;

pub use interpreted::Interpreted;
pub use line::Line;
#[doc(hidden)]
pub use madelung_kernel::ir::Function;

use machine::Machine;
use madelung_lanes::lanes::{Portable32, Portable64};
use madelung_lanes::{Isa, LaunchAbi};
use world::{Narrow, Wide};

/// Vectors of iterations that an instruction is done for at once.
const BLOCK: usize = 16;

/// A program of rows `lo..hi` on lanes of some type.
type Interpret = unsafe fn(&Line, &LaunchAbi, usize, usize, *mut f64);

/// The interpreter of a world, behind the features of its lanes.
macro_rules! interpreter {
    ($W:ty $(, $features:literal)?) => {{
        // SAFETY: called for an instruction set that the processor has, which the backend has seen.
        $(#[target_feature(enable = $features)])?
        unsafe fn run(line: &Line, a: &LaunchAbi, lo: usize, hi: usize, partials: *mut f64) {
            // SAFETY: the caller's promises are the callee's.
            unsafe { Machine::<$W>::new(line, a, partials).run(lo, hi) }
        }
        run as Interpret
    }};
}

/// The interpreters of an instruction set: for lanes of the arrays' type, f32 and f64, and for lanes of f64 over these.
type OfIsa = [Interpret; 4];

macro_rules! of_isa {
    ($single:ty, $double:ty, $rows:ty $(, $features:literal)?) => {
        [
            interpreter!(Narrow<$single> $(, $features)?),
            interpreter!(Narrow<$double> $(, $features)?),
            interpreter!(Wide<f32, $rows> $(, $features)?),
            interpreter!(Wide<f64, $rows> $(, $features)?),
        ]
    };
}

const PORTABLE: OfIsa = of_isa!(Portable32, Portable64, f64);

#[cfg(target_arch = "x86_64")]
fn of(isa: Isa) -> OfIsa {
    use madelung_lanes::lanes::{Avx2F32, Avx2F64};
    #[cfg(not(feature = "one-isa"))]
    use madelung_lanes::lanes::{Avx512F32, Avx512F64};
    match isa {
        Isa::Portable => PORTABLE,
        #[cfg(not(feature = "one-isa"))]
        Isa::Avx512 => {
            of_isa!(Avx512F32, Avx512F64, Avx512F64, "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
        }
        _ => of_isa!(Avx2F32, Avx2F64, Avx2F64, "avx2,fma"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn of(_: Isa) -> OfIsa {
    PORTABLE
}

/// Runs a program.
///
/// # Safety
/// The promises of a [`madelung_lanes::Run`] of the part; the line is made of the part's program as
/// [`madelung_kernel::program`] lowers it, and the processor has the instruction set.
pub unsafe fn run(
    line: &Line,
    single: bool,
    isa: Isa,
    a: &LaunchAbi,
    rows: (usize, usize),
    partials: *mut f64,
) {
    let run = of(isa)[usize::from(!single) + 2 * usize::from(line.wide)];
    // SAFETY: the caller's promises.
    unsafe { run(line, a, rows.0, rows.1, partials) }
}
