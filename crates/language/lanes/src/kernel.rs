//! Descriptions of kernels, which `kernels!` generates and backends read.
use crate::clusters::ClusterForm;
use crate::launch::EntryPoints;
use madelung_abi::{Division, Lists, Member, ParamKind, Query, Reduction, Slot};

/// A kernel: its declaration and every form derived from it. `kernels!` makes them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kernel {
    /// The name.
    pub name: &'static str,
    /// Names of its dimensions.
    pub dims: &'static [&'static str],
    /// The dimension it runs over.
    pub index: usize,
    /// The parameters.
    pub params: &'static [Param],
    /// The searches that come before it runs, one for each grid among its parameters.
    pub queries: &'static [Query],
    /// The forms.
    pub forms: &'static [Form],
    /// The source, with that of the functions that it calls: a block of its own.
    pub source: &'static str,
}

impl Kernel {
    /// The constructor that `kernels!` calls.
    ///
    /// # Safety
    /// The code of every part uses no pointer beyond its slots, writes only where it says so, and indexes arrays by
    /// rows of the dimensions declared for them.
    #[expect(unsafe_code, reason = "generated code promises what backends rely on")]
    pub const unsafe fn new(
        name: &'static str,
        dims: &'static [&'static str],
        index: usize,
        params: &'static [Param],
        queries: &'static [Query],
        forms: &'static [Form],
        source: &'static str,
    ) -> Self {
        Self { name, dims, index, params, queries, forms, source }
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

/// A parameter of a kernel.
#[derive(Debug)]
pub struct Param {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: ParamKind,
    /// The axes of an element in the shape of an array: `["2", "2"]` of a matrix of two rows.
    pub axes: &'static [&'static str],
    /// The least number of its channels; 0 where it has none.
    pub channels: usize,
    /// Whether it is an output that holds at first what the caller's array holds.
    pub in_out: bool,
}

impl Param {
    /// Whether the kernel writes it.
    pub fn is_output(&self) -> bool {
        self.kind.is_output()
    }

    /// Whether it is an array that the kernel only reads.
    pub fn is_input(&self) -> bool {
        use ParamKind::{Integers, Ints, Real};
        matches!(self.kind, Real { .. } | Ints { .. } | Integers { output: false, .. })
    }
}

/// One form of a kernel.
#[derive(Debug)]
pub struct Form {
    /// The output of the form: values, gradients or tangents.
    pub member: Member,
    /// The lists it is for.
    pub lists: Lists,
    /// Whether cotangents of outputs are one element for all rows.
    pub uniform: bool,
    /// The inputs whose gradients it gives; `None`: all.
    pub gradients: Option<&'static [usize]>,
    /// The launches, in order.
    pub parts: &'static [Part],
}

/// One launch of a form.
#[derive(Debug)]
pub struct Part {
    /// The dimension it runs over.
    pub index: usize,
    /// The batch of its rows, if there is one.
    pub batch: Option<usize>,
    /// The array behind each pointer of the launch.
    pub slots: &'static [Slot],
    /// The sums over rows it leaves to the backend.
    pub reductions: &'static [Reduction],
    /// Slots that rows add to at each other's elements.
    pub scattered: &'static [usize],
    /// Slots that rows add to at elements of their own.
    pub added: &'static [usize],
    /// Slots in `scattered` whose elements are nodes of a mesh, each with the slot of the mesh's shape.
    pub nodes: &'static [(usize, usize)],
    /// Slots in `scattered` that rows add to only at elements of maps, once for each map, with the slot of the map.
    pub maps: &'static [(usize, usize)],
    /// Slots that are written.
    pub written: &'static [usize],
    /// Whether rows loop over data.
    pub loops: bool,
    /// Whether places in rows and systems are counted, in reals.
    pub places: bool,
    /// The mesh, where all that rows do is add to its nodes: a call then adds only to those in the planes that its shape
    /// says.
    pub planes: Option<usize>,
    /// Whether cotangents of outputs are one element for all rows.
    pub uniform: bool,
    /// The CPU code.
    pub run: EntryPoints,
    /// The CPU code for full lists in clusters, if the part has this form.
    pub clusters: Option<ClusterForm>,
    /// The CUDA text.
    pub cuda: Cuda,
}

/// The CUDA text of a part.
#[derive(Clone, Copy, Debug)]
pub struct Cuda {
    /// The name of the function.
    pub name: &'static str,
    /// The text of the part, to be read after [`PRELUDE`].
    pub text: &'static str,
    /// The division of work among several threads of a row.
    pub lanes: Division,
    /// The records of partners' data, if rows gather more than one number.
    pub records: Option<Records>,
}

/// Records of partners' data in `REAL`, where `PACKED`: rows gather them with a few wide loads.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// The function of the text that makes them, with a thread for each.
    pub name: &'static str,
    /// The dimension that has one for each of its rows.
    pub dim: usize,
    /// The numbers of one: a multiple of four.
    pub width: usize,
}

/// CUDA text ahead of the text of every part. A part's function takes a launch, its first row and the one behind the last, room
/// for sums over rows, and, if a slot has the shapes of meshes ([`SlotArray::MeshShape`](madelung_abi::SlotArray)), 32
/// integers that are those of the first such slot where its pointer is null. Macros that are defined before it choose a form, each here with its default:
///
/// * `REAL`: `float` or `double`, the type of what is computed; there is no default.
/// * `ACC`: the type of sums; `double`.
/// * `LANES`: the threads of a row, 1 or a power of two up to 32, which divides a block's threads; 1. A part whose
///   [`Cuda::lanes`] is [`Division::None`] has one thread per row with any of them. The bits of a result depend on it.
/// * `ORDER`: the highest order of splines on the meshes of the batch, up to 10; 10. `ORDERS_DIFFER`: 1 where some may have a
///   lower one; 1. Neither changes a number.
/// * `SCATTER`: what becomes of what rows add to the arrays of [`Part::scattered`]; 0. With 0 it is added as it comes, to
///   elements of the array, in an order that differs from run to run. With 1 and then 2, pointers of these arrays lead
///   to [`SCATTERED_BYTES`] per element instead, zero before the first of the two launches: the first one finds how
///   large addends are and writes nothing else, the second adds in fixed point, exact to 2⁻⁶³ of the largest addend of the
///   element, for up to 2³¹ addends, and the same bits in any order. [`FINISH_SCATTERED`] makes numbers of them; an element
///   with an addend that is infinite or NaN becomes NaN. Arrays of [`Part::nodes`] have [`node_bytes`] per node and as many
///   for each system ahead of them; the unit is that of the system's largest addend.
/// * `CROWD`: the binary logarithm of the addends that a node has at most; 31. Sums at nodes in `float` are exact to
///   2^(`CROWD` − 63) of the largest addend.
/// * `PACKED`: 1 where a part that has [`Cuda::records`] finds them at the pointer behind those of its slots, aligned to 16
///   bytes; 0. [`Records::name`] is then a function of the text, which takes the launch and makes them from the arrays. The
///   bits are the same with either.
/// * `Tn`, directly before a text: the type that the real array at pointer n holds; `REAL`.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// The bytes of an element that rows add to in fixed point.
pub const SCATTERED_BYTES: usize = 24;

/// The integers of meshes' shapes that a launch may have as an argument: those of two systems.
pub const SHAPES: usize = 32;

/// The bytes of a node that rows add to in fixed point: a word for each of `REAL`'s.
pub const fn node_bytes(real: usize) -> usize {
    2 * real
}

/// `madelung_scattered(sums, to, n, adds)`, to be read after [`PRELUDE`]: converts n elements in fixed point to `REAL`
/// (or `T0`), and writes them to an array or adds them to its elements. A thread per element.
pub const FINISH_SCATTERED: &str = include_str!("scattered.cuh");

/// `madelung_nodes(sums, shapes, to, n, adds, crowd, Shapes)`: the same of n nodes of the meshes of these shapes.
pub const FINISH_NODES: &str = include_str!("nodes.cuh");
