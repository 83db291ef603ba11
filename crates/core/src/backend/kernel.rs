//! Kernels as the backends see them: what `kernels!` generates, and what its code calls.
#![expect(unsafe_code, reason = "the helpers of generated code read and write through a launch's pointers")]

pub use crate::math::{Elem, Lane, scalar};
pub use crate::{entry_points, math};

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
        forms: &'static [Form],
    ) -> Self {
        Self { name, dims, index, params, forms }
    }
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
    },
    /// An array that the kernel writes.
    Output {
        /// Elements per row of this dimension; `None`: one element.
        dim: Option<usize>,
        /// 1, 3 or 9.
        components: usize,
    },
    /// An integer array.
    Ints {
        /// Elements per row of this dimension.
        dim: usize,
        /// 1 or 3.
        components: usize,
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
    /// A pair list between the rows of one dimension.
    Pairs(usize),
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
    /// Any list.
    Any,
    /// Full lists only: what partners get is gathered by symmetry.
    Full,
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
    /// Slots that are written.
    pub written: &'static [usize],
    /// Whether rows loop over data.
    pub loops: bool,
    /// Whether cotangents of outputs are one element, the same for every row.
    pub uniform: bool,
    /// The CPU code.
    pub run: EntryPoints,
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
    /// A pair list: where each row's pairs begin.
    Start,
    /// A pair list: where they end.
    End,
    /// A pair list: the columns.
    Column,
    /// A pair list: the image shifts.
    Shift,
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
}

/// What every CUDA text needs before it, `REAL` being defined as `float` or `double`.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// Pointers and attributes of a launch, in the layout that the generated code and the CUDA text share.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Launch {
    /// One pointer per slot of the part.
    pub pointers: [*mut u8; 64],
    /// Real attributes.
    pub reals: [f64; 8],
    /// Integer attributes.
    pub ints: [i64; 4],
    /// Bit n: slot n is added to, not overwritten.
    pub adds: u64,
}

impl Launch {
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

/// Element `i`, as f64.
///
/// # Safety
/// `p` is valid for reading element `i`.
#[inline(always)]
pub unsafe fn get<E: Elem>(p: *mut E, i: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { (*p.add(i)).to_f64() }
}

/// Writes or adds to element `i`; a null array is one that nobody wants.
///
/// # Safety
/// `p` is null or valid for writing element `i`, which no other thread touches.
#[inline(always)]
pub unsafe fn put<E: Elem>(p: *mut E, i: usize, x: f64, adds: bool) {
    if p.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let q = p.add(i);
        *q = E::of_f64(if adds { (*q).to_f64() + x } else { x });
    }
}

/// Adds each of the first `n` lanes to its own element.
///
/// # Safety
/// `p` is valid for every element `index * stride + component`.
#[inline(always)]
pub unsafe fn scatter<L: Lane>(
    p: *mut f64,
    index: L::Index,
    stride: usize,
    component: usize,
    x: L,
    n: usize,
) {
    for lane in 0..n {
        // SAFETY: the caller's promise.
        unsafe { *p.add(L::index_lane(index, lane) * stride + component) += x.lane(lane) };
    }
}

/// `k, k + 1, …` for arrays that have no faster way; the lanes from `n` on repeat the last.
#[inline(always)]
pub fn consecutive<L: Lane>(k: usize, n: usize) -> L::Index {
    let mut index = [0i32; 16];
    for (l, i) in index.iter_mut().enumerate() {
        *i = (k + l.min(n - 1)) as i32;
    }
    // SAFETY: no lane type has more than 16 lanes.
    unsafe { L::index(index.as_ptr()) }
}

/// The nearest integer, for |x| < 2²² (f32) or 2⁵¹ (f64).
#[inline(always)]
pub fn nearest<L: Lane>(x: L) -> L {
    // Adding 1.5 · 2^(mantissa bits) leaves no room for a fraction.
    let big = L::splat(if size_of::<L::Elem>() == 4 { 12_582_912.0 } else { 6_755_399_441_055_744.0 });
    (x + big) - big
}
