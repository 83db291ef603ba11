//! Kernels as the backends see them: what `kernels!` generates, and what its code calls.
#![expect(unsafe_code, reason = "the helpers of generated code read and write through a launch's pointers")]

pub use super::clusters::{ClusterEntryPoints, ClusterForm, ClusterPiece, Packed, RunClusters};
pub use super::runtime::*;
pub use super::shared::{
    SharedReal, atomic_add, atomic_max, atomic_min, load, load_int, raise, store, store_int,
};
pub use super::splines::{MeshShape, Splines, in_planes, mesh_node};
pub use super::status::Reason;
pub use crate::math::{Elem, Lane, scalar};
pub use crate::{cluster_entry_points, entry_points, math, small_entry_points};

/// A kernel: its declaration and every form derived from it. `kernels!` makes them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kernel {
    /// Its name.
    pub name: &'static str,
    /// Names of its dimensions.
    pub dims: &'static [&'static str],
    /// The dimension it runs over.
    pub index: usize,
    /// Its parameters.
    pub params: &'static [Param],
    /// The searches that come before it runs, one for each grid among its parameters.
    pub queries: &'static [Query],
    /// Its forms.
    pub forms: &'static [Form],
}

impl Kernel {
    /// What `kernels!` calls.
    ///
    /// # Safety
    /// The code of every part uses no pointer beyond its slots, writes only where it says so, and indexes arrays by
    /// rows of the dimensions declared for them.
    pub const unsafe fn new(
        name: &'static str,
        dims: &'static [&'static str],
        index: usize,
        params: &'static [Param],
        queries: &'static [Query],
        forms: &'static [Form],
    ) -> Self {
        Self { name, dims, index, params, queries, forms }
    }

    /// Whether it has derivatives; `#[kernel(no_adjoint)]` has none.
    pub fn is_differentiable(&self) -> bool {
        self.forms.iter().any(|f| f.member != Member::Value)
    }

    /// The query of a parameter, where it is a grid.
    pub fn query_of(&self, param: usize) -> Option<&'static Query> {
        self.queries.iter().find(|q| q.grid == param)
    }
}

/// What lies within a radius of each row's own position, searched for before the kernel runs. The launch is given the
/// list that is found, as that of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The parameter that is the grid, a [`ParamKind::Pairs`].
    pub grid: usize,
    /// The one with the positions, a vector for each row.
    pub positions: usize,
    /// The one with the radius, an attribute.
    pub radius: usize,
}

/// A parameter of a kernel.
#[derive(Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: ParamKind,
}

/// The kind of a parameter. Dimensions are positions in [`Kernel::dims`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A differentiable array.
    Real {
        /// Elements per row of this dimension; `None`: one element.
        dim: Option<usize>,
        /// 1, 3 or 9.
        components: usize,
        /// Zero in every call: only its derivatives matter.
        zero: bool,
        /// Each element has a value for each channel of this dimension.
        width: Option<usize>,
    },
    /// An array that the kernel writes.
    Output {
        /// Elements per row of this dimension; `None`: one element.
        dim: Option<usize>,
        /// 1, 3 or 9.
        components: usize,
        /// Each element has a value for each channel of this dimension.
        width: Option<usize>,
    },
    /// An integer array.
    Ints {
        /// Elements per row of this dimension.
        dim: usize,
        /// 1 or 3.
        components: usize,
    },
    /// An integer array of a kernel that is not differentiated.
    Integers {
        /// Elements per row of this dimension; `None`: one element.
        dim: Option<usize>,
        /// 1 or 3.
        components: usize,
        /// Whether its elements are i64 and not i32.
        wide: bool,
        /// Whether the kernel writes it.
        output: bool,
    },
    /// A real attribute.
    Scalar,
    /// An integer attribute.
    IntScalar,
    /// Which system each row belongs to.
    Batch {
        /// The rows.
        rows: usize,
        /// The systems.
        systems: usize,
    },
    /// A pair list, or a grid whose query finds one.
    Pairs {
        /// Its rows.
        rows: usize,
        /// What the rows are paired with.
        columns: usize,
        /// The dimension of arrays that have an element per pair.
        entries: Option<usize>,
    },
    /// An element of another dimension for each row, in any order.
    Map {
        /// The rows.
        rows: usize,
        /// The other dimension.
        into: usize,
    },
    /// A periodic mesh for each system.
    Mesh {
        /// The systems.
        systems: usize,
        /// Their nodes.
        nodes: usize,
    },
}

/// A member of the closed set of derivatives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// The outputs.
    Value,
    /// And their derivative along one direction.
    Tangent,
    /// And along a second one, and the mixed second derivative.
    SecondTangent,
    /// The outputs and the gradient of ⟨cotangent, outputs⟩ by the inputs.
    Gradient,
    /// And its derivative along a direction.
    GradientTangent,
}

/// The pair lists that a form is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lists {
    /// Any list: what partners get is gathered through the list's transpose.
    Any,
    /// Full lists only: what partners get is gathered by symmetry.
    Full,
    /// Any list, without its transpose: what partners get is added where it belongs.
    Scatter,
}

/// One form of a kernel.
#[derive(Debug)]
pub struct Form {
    /// What it computes.
    pub member: Member,
    /// The lists it is for.
    pub lists: Lists,
    /// Whether cotangents of outputs are one element, the same for every row.
    pub uniform: bool,
    /// The inputs whose gradients it gives; `None`: all.
    pub gradients: Option<&'static [usize]>,
    /// Its launches, in order.
    pub parts: &'static [Part],
}

/// One launch of a form.
#[derive(Debug)]
pub struct Part {
    /// The dimension it runs over.
    pub index: usize,
    /// The batch of its rows, if there is one.
    pub batch: Option<usize>,
    /// What each pointer of the launch is.
    pub slots: &'static [Slot],
    /// The sums over rows it leaves to the backend.
    pub reductions: &'static [Reduction],
    /// Slots that rows add to at each other's elements.
    pub scattered: &'static [usize],
    /// Slots that rows add to at elements of their own.
    pub added: &'static [usize],
    /// Slots that are written.
    pub written: &'static [usize],
    /// Whether rows loop over data.
    pub loops: bool,
    /// Whether places in rows and systems are counted, in reals.
    pub places: bool,
    /// The mesh, where all that rows do is add to its nodes: a call then adds only to those in the planes that its shape
    /// says.
    pub planes: Option<usize>,
    /// Whether cotangents of outputs are one element, the same for every row.
    pub uniform: bool,
    /// The CPU code.
    pub run: EntryPoints,
    /// The same for full lists in clusters, if the part has this form.
    pub clusters: Option<ClusterForm>,
    /// The CUDA text.
    pub cuda: Cuda,
}

/// What a pointer of a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The parameter.
    pub param: usize,
    /// Which of its arrays.
    pub array: Array,
}

/// An array of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    /// Values, by role: see [`role`].
    Values(u8),
    /// A batch: the system of each row.
    SystemOf,
    /// A batch: where each system's rows begin, and one more.
    Members,
    /// A pair list: where each row's pairs begin (64-bit).
    Start,
    /// A pair list: where they end (64-bit).
    End,
    /// A pair list: the columns.
    Column,
    /// A pair list: the image shifts, three integers each; null where they are packed.
    Shift,
    /// Room for sums over the channels of this dimension, which only the row at hand uses: once per thread that runs
    /// rows one after the other (the CPU code, in the launch's type), or once per row (the CUDA text, in `ACC`).
    Scratch(usize),
    /// A pair list: the image shifts, packed; null where they are not.
    PackedShift,
    /// The transpose of a pair list: where each column's pairs begin, and one more (64-bit).
    ColumnStart,
    /// The transpose of a pair list: the rows.
    PairRow,
    /// The transpose of a pair list: the entries.
    PairEntry,
    /// A map: the element of each row.
    MapOf,
    /// A mesh: its three sizes, the order of its splines, and the first of the planes (numbered through all systems, first
    /// axis) that a call adds to, and the one after the last.
    MeshShape,
}

/// The roles of a parameter's real arrays: bits.
pub mod role {
    /// The value.
    pub const VALUE: u8 = 0;
    /// Derivative along the first direction.
    pub const FIRST: u8 = 1;
    /// Derivative along the second direction.
    pub const SECOND: u8 = 2;
    /// Cotangent of an output, or gradient by an input.
    pub const COTANGENT: u8 = 4;
    /// An array of the form's own, with an element per row of the kernel: its first launch leaves it to the later ones.
    /// The parameter is its number.
    pub const HIDDEN: u8 = 8;

    /// The dimension of such an array's channels, if it has them: one less than the upper half of the bits.
    pub fn width(role: u8) -> Option<usize> {
        (role >> 4).checked_sub(1).map(usize::from)
    }
}

/// A sum over rows that ends in an element they share.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The parameter.
    pub param: usize,
    /// Which of its arrays.
    pub role: u8,
    /// The component.
    pub component: usize,
    /// The batch whose system gets the sum; `None`: the array's one element.
    pub batch: Option<usize>,
}

/// The CUDA text of a part.
#[derive(Clone, Copy, Debug)]
pub struct Cuda {
    /// The name of the function.
    pub name: &'static str,
    /// Its text, to be read after [`PRELUDE`].
    pub text: &'static str,
    /// What several threads of a row would divide.
    pub lanes: Lanes,
    /// What rows gather at their partners, if it is more than one number.
    pub records: Option<Records>,
}

/// What rows gather at their partners: side by side in records of `REAL`, where `PACKED`, so that a few wide loads get it.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// The function of the text that makes them, with a thread for each.
    pub name: &'static str,
    /// The dimension that has one for each of its rows.
    pub dim: usize,
    /// The numbers of one: a multiple of four.
    pub width: usize,
}

/// What the threads that share a row divide among themselves, where `LANES` of them do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lanes {
    /// Nothing: a row has one thread, whatever `LANES` is.
    None,
    /// The iterations of its loops over data: as many lanes pay as a row has pairs, or a system members.
    Loops,
    /// The planes of a mesh's nodes around a point: as many lanes pay as the splines have nodes.
    Nodes,
    /// The channels of this dimension, side by side in memory: as many lanes pay as there are channels.
    Channels(usize),
}

/// What every CUDA text needs before it. Macros that are defined before say what for:
///
/// * `REAL`: `float` or `double`, the type of what is computed; there is no default.
/// * `ACC`: the type of sums; `double`.
/// * `LANES`: the threads of a row, 1 or a power of two up to 32, which divides a block's threads; 1. A part whose
///   [`Cuda::lanes`] is [`Lanes::None`] has one thread per row with any of them. The bits of a result depend on it.
/// * `SCATTER`: what becomes of what rows add to the arrays of [`Part::scattered`]; 0. With 0 it is added as it comes, to
///   elements of the array, in an order that differs from run to run. With 1 and then 2, pointers of these arrays lead
///   to [`SCATTERED_BYTES`] per element instead, zero before the first of the two launches: the first one finds how
///   large addends are and writes nothing else, the second adds in fixed point, exact to 2⁻⁶³ of the largest addend of the
///   element, for up to 2³¹ addends, and the same bits in any order. [`FINISH_SCATTERED`] makes numbers of them; an element
///   with an addend that is infinite or NaN becomes NaN.
/// * `PACKED`: 1 where a part that has [`Cuda::records`] finds them at the pointer behind those of its slots, aligned to 16
///   bytes; 0. [`Records::name`] is then a function of the text, which takes the launch and makes them from the arrays. The
///   bits are the same with either.
/// * `Tn`, directly before a text: the type that the real array at pointer n holds; `REAL`.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// The bytes of an element that rows add to in fixed point.
pub const SCATTERED_BYTES: usize = 24;

/// `madelung_scattered(sums, to, n, adds)`, to be read after [`PRELUDE`]: the numbers that n elements in fixed point stand
/// for are put into an array of `REAL` (or `T0`), or added to what it has. A thread per element.
pub const FINISH_SCATTERED: &str = include_str!("scattered.cuh");

/// Pointers and attributes of a launch, in the layout that the generated code and the CUDA text share.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Launch {
    /// One pointer per slot of the part, and behind them that of its records, if it has them.
    pub pointers: [*mut u8; 64],
    /// Real attributes.
    pub reals: [f64; 8],
    /// Integer attributes.
    pub ints: [i64; 4],
    /// Bit n: slot n is added to, not overwritten.
    pub adds: u64,
    /// The sizes of the kernel's first dimensions: what computed indices are compared with, and widths of channels.
    pub dims: [i64; 16],
    /// The status word.
    pub status: *mut u32,
}

impl Launch {
    /// A launch without pointers: attributes, dimensions and the status word of `launching`.
    pub fn new(launching: &super::Launching<'_>) -> Self {
        let mut launch = Self {
            pointers: [std::ptr::null_mut(); 64],
            reals: [0.0; 8],
            ints: [0; 4],
            adds: 0,
            dims: [0; 16],
            status: launching.status.pointer(),
        };
        launch.reals[..launching.reals.len()].copy_from_slice(&launching.reals);
        launch.ints[..launching.ints.len()].copy_from_slice(&launching.ints);
        for (size, dim) in launch.dims.iter_mut().zip(launching.dims) {
            *size = *dim as i64;
        }
        launch
    }

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
pub type Run = unsafe fn(&Launch, usize, usize, *mut f64);

/// The CPU code of a part, by [`math::Isa`].
#[derive(Clone, Copy)]
pub struct EntryPoints {
    /// For f32 arrays.
    pub f32: [Run; 3],
    /// For f64 arrays.
    pub f64: [Run; 3],
}

impl std::fmt::Debug for EntryPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EntryPoints")
    }
}

/// Instantiates a generated function for every lane type, each behind the features it needs.
#[doc(hidden)]
#[macro_export]
macro_rules! entry_points {
    ($f:ident) => {{
        #[cfg(target_arch = "x86_64")]
        macro_rules! with {
            ($features:literal, $lane:ident) => {{
                // SAFETY: called only by the CPU backend, after it has seen that the processor has these features.
                #[target_feature(enable = $features)]
                unsafe fn run(a: &rt::Launch, lo: usize, hi: usize, partials: *mut f64) {
                    // SAFETY: the caller's promises are the callee's.
                    unsafe { $f::<rt::math::$lane>(a, lo, hi, partials) }
                }
                run as rt::Run
            }};
        }
        #[cfg(target_arch = "x86_64")]
        const RUN: rt::EntryPoints = rt::EntryPoints {
            f32: [
                $f::<rt::math::Portable32>,
                with!("avx2,fma", Avx2F32),
                with!("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma", Avx512F32),
            ],
            f64: [
                $f::<rt::math::Portable64>,
                with!("avx2,fma", Avx2F64),
                with!("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma", Avx512F64),
            ],
        };
        #[cfg(not(target_arch = "x86_64"))]
        const RUN: rt::EntryPoints = rt::EntryPoints {
            f32: [$f::<rt::math::Portable32>; 3],
            f64: [$f::<rt::math::Portable64>; 3],
        };
        RUN
    }};
}

/// Instantiates a generated function for lanes of one, and of four f64: less to compile. The widths share one text; the
/// other lane types run the kernels that are not small.
#[doc(hidden)]
#[macro_export]
macro_rules! small_entry_points {
    ($f:ident) => {{
        #[cfg(target_arch = "x86_64")]
        const F64: [rt::Run; 3] = {
            // SAFETY: called only by the CPU backend, after it has seen that the processor has these features.
            #[target_feature(enable = "avx2,fma")]
            unsafe fn run(a: &rt::Launch, lo: usize, hi: usize, partials: *mut f64) {
                // SAFETY: the caller's promises are the callee's.
                unsafe { $f::<rt::math::Avx2F64>(a, lo, hi, partials) }
            }
            [$f::<rt::math::Portable64>, run, run]
        };
        #[cfg(not(target_arch = "x86_64"))]
        const F64: [rt::Run; 3] = [$f::<rt::math::Portable64>; 3];
        rt::EntryPoints { f32: [$f::<rt::math::Portable32>; 3], f64: F64 }
    }};
}
