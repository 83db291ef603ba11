//! Layout of a launch, and the functions of a part for every instruction set.

use crate::Isa;
use madelung_abi::MAX_POINTERS;

/// Pointers and attributes of a launch, in the layout that the generated code and the CUDA text share.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchAbi {
    /// One pointer per slot of the part, and behind them that of its records, or those of its cluster form
    /// ([`madelung_abi::ClusterArray`], or the sums that are given).
    pub pointers: [*mut u8; MAX_POINTERS],
    /// Real attributes.
    pub reals: [f64; 8],
    /// Integer attributes.
    pub ints: [i64; 4],
    /// Bit n: slot n is added to, not overwritten.
    pub adds: u64,
    /// The sizes of the kernel's first dimensions: bounds of computed indices, and widths of channels.
    pub dims: [i64; 16],
    /// The status word.
    pub status: *mut u32,
}

impl Default for LaunchAbi {
    fn default() -> Self {
        Self {
            pointers: [std::ptr::null_mut(); MAX_POINTERS],
            reals: [0.0; 8],
            ints: [0; 4],
            adds: 0,
            dims: [0; 16],
            status: std::ptr::null_mut(),
        }
    }
}

impl LaunchAbi {
    /// Whether slot `n` is added to.
    #[inline(always)]
    pub fn adds(&self, n: usize) -> bool {
        self.adds >> n & 1 == 1
    }
}

/// Runs rows `lo..hi` of a part and adds the sums over them to `partials`.
///
/// # Safety
/// The launch's pointers are valid for the part's slots, as the backend checks before it calls.
pub type Run = unsafe fn(&LaunchAbi, usize, usize, *mut f64);

/// Code of a part that is interpreted, or made at run time.
#[expect(unsafe_code, reason = "generated code promises what backends rely on")]
pub trait Code: std::fmt::Debug + Sync {
    /// A [`Run`] for f32 arrays (`single`) or f64 arrays, on lanes of an instruction set.
    ///
    /// # Safety
    /// The promises of a [`Run`]; the processor has the instruction set.
    unsafe fn run(&self, single: bool, isa: Isa, a: &LaunchAbi, lo: usize, hi: usize, partials: *mut f64);
}

/// The CPU code of a part.
#[derive(Clone, Copy)]
pub enum EntryPoints {
    /// Compiled with the program, by [`Isa`].
    Compiled {
        /// For f32 arrays.
        f32: [Run; 3],
        /// For f64 arrays.
        f64: [Run; 3],
    },
    /// Interpreted, or made at run time.
    Made(&'static dyn Code),
}

impl EntryPoints {
    /// The code for f32 arrays (`single`) or f64 arrays on lanes of an instruction set.
    pub fn entry(&self, single: bool, isa: Isa) -> Entry {
        match *self {
            Self::Compiled { f32, f64 } => Entry::Compiled(if single { f32 } else { f64 }[isa as usize]),
            Self::Made(code) => Entry::Made(code, single, isa),
        }
    }
}

impl std::fmt::Debug for EntryPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EntryPoints")
    }
}

/// The code of a part for one type of arrays and one instruction set.
#[derive(Clone, Copy)]
pub enum Entry {
    /// Compiled with the program.
    Compiled(Run),
    /// Interpreted, or made at run time, with the arguments of [`Code::run`].
    Made(&'static dyn Code, bool, Isa),
}

impl Entry {
    /// Runs rows `lo..hi` of the part and adds the sums over them to `partials`.
    ///
    /// # Safety
    /// The promises of a [`Run`]; the processor has the instruction set.
    #[inline]
    #[expect(unsafe_code, reason = "generated code is called")]
    pub unsafe fn run(self, a: &LaunchAbi, lo: usize, hi: usize, partials: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Compiled(run) => run(a, lo, hi, partials),
                Self::Made(code, single, isa) => code.run(single, isa, a, lo, hi, partials),
            }
        }
    }
}

/// A generated function as a [`Run`] for every [`Isa`], given the lane types of the three, each behind the features it
/// needs. On x86-64 processors without AVX2 the part's code is interpreted: of what there is to compile, lanes that have no
/// instructions of their own take longest.
#[doc(hidden)]
#[macro_export]
macro_rules! by_isa {
    ($f:ident on $portable:ident $avx2:ident $avx512:ident, $single:literal, $interpreted:expr) => {{
        #[cfg(target_arch = "x86_64")]
        const RUN: [$crate::Run; 3] =
        $crate::by_x86_isa!($f on $avx2 $avx512, $crate::by_isa!(@interpreted $single, $interpreted));
        #[cfg(not(target_arch = "x86_64"))]
        const RUN: [$crate::Run; 3] = [$f::<$crate::lanes::$portable>; 3];
        RUN
    }};
    (@interpreted $single:literal, $interpreted:expr) => {{
        // SAFETY: the promises of a `Run`.
        unsafe fn run(a: &$crate::LaunchAbi, lo: usize, hi: usize, partials: *mut f64) {
            // SAFETY: the caller's promises are the callee's; every processor has portable lanes.
            unsafe { $crate::Code::run(&$interpreted, $single, $crate::Isa::Portable, a, lo, hi, partials) }
        }
        run as $crate::Run
    }};
    (@with $features:literal, $f:ident on $lane:ident) => {{
        // SAFETY: called only by the CPU backend, after it has seen that the processor has these features.
        #[target_feature(enable = $features)]
        unsafe fn run(a: &$crate::LaunchAbi, lo: usize, hi: usize, partials: *mut f64) {
            // SAFETY: the caller's promises are the callee's.
            unsafe { $f::<$crate::lanes::$lane>(a, lo, hi, partials) }
        }
        run as $crate::Run
    }};
}

#[doc(hidden)]
#[macro_export]
#[cfg(not(feature = "one-isa"))]
macro_rules! by_x86_isa {
    ($f:ident on $avx2:ident $avx512:ident, $portable:expr) => {
        [
            $portable,
            $crate::by_isa!(@with "avx2,fma", $f on $avx2),
            $crate::by_isa!(@with "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma", $f on $avx512),
        ]
    };
}

#[doc(hidden)]
#[macro_export]
#[cfg(feature = "one-isa")]
macro_rules! by_x86_isa {
    ($f:ident on $avx2:ident $avx512:ident, $portable:expr) => {
        [$crate::by_isa!(@with "avx2,fma", $f on $avx2); 3]
    };
}

/// Instantiates a generated function for every lane type. The second argument is the code of the part for the interpreter.
#[doc(hidden)]
#[macro_export]
macro_rules! entry_points {
    ($f:ident, $interpreted:expr) => {
        $crate::EntryPoints::Compiled {
            f32: $crate::by_isa!($f on Portable32 Avx2F32 Avx512F32, true, $interpreted),
            f64: $crate::by_isa!($f on Portable64 Avx2F64 Avx512F64, false, $interpreted),
        }
    };
}

/// Entry points of a generated function for lanes of one, and of four f64: less to compile. The widths share one text;
/// the other lane types run the kernels that are not small.
#[doc(hidden)]
#[macro_export]
macro_rules! small_entry_points {
    ($f:ident, $interpreted:expr) => {{
    const OF: [$crate::Run; 3] = $crate::by_isa!($f on Portable64 Avx2F64 Avx2F64, false, $interpreted);
        $crate::EntryPoints::Compiled {
            f32: [$f::<$crate::lanes::Portable32>; 3],
            f64: [OF[0], OF[1], OF[1]],
        }
    }};
}
