//! The instructions of programs.

use super::registers::instructions;
use super::{Condition, Indices, Integer, Mask, Pair, Room, Scalar, Shape, Table, Vector};
use crate::ir::{Atomic, Compare, Dim, Function, IntegerOp, Reason};

/// A function of one real.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unary {
    /// −x
    Neg,
    /// 1 / x
    Recip,
    /// √x
    Sqrt,
    /// |x|, of scalars.
    Abs,
    /// The nearest integer; on lanes for |x| < 2²² (f32) or 2⁵¹ (f64).
    Nearest,
    /// The nearest integer on lanes of f64, for any x.
    NearestOfAny,
    /// A special function: the one of lanes (`Lane`) or of scalars (`rt::scalar`).
    Call(Function),
}

/// A function of two reals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// x + y
    Add,
    /// x − y
    Sub,
    /// x · y
    Mul,
    /// x / y, of scalars.
    Div,
    /// xʸ
    Pow,
    /// The angle of the point (y, x).
    Atan2,
}

/// A product fused with a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fused {
    /// x · y + z
    Add,
    /// −x · y + z
    Subtracted,
    /// x · y − z
    Sub,
}

/// A number of a wave of a mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// A component of its index.
    Index(usize),
    /// The waves it stands for.
    Count,
    /// Its modulus, given the slot of moduli.
    Modulus(usize),
}

/// Element `stride` · row + `component` of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The row; none: 0.
    pub row: Option<Integer>,
    /// The distance of rows.
    pub stride: usize,
    /// The element of the row.
    pub component: usize,
}

/// A term of a sum: x, or the fused product x · y, added or subtracted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the sum says what they are")]
pub struct Term {
    pub x: Vector,
    pub y: Option<Vector>,
    pub minus: bool,
}

/// The type of numbers that rows of a kernel without adjoint share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The real type of the call's arrays.
    Real,
    /// i32
    Int32,
    /// i64
    Int64,
}

instructions! {
    /// An instruction. `slot` is a pointer of the launch, by position; a null pointer is never read, and skipped where it would
    /// be written. Iterations are those of the innermost open [`Instruction::Lanes`] or [`Instruction::Strip`]; k is the first one of a vector.
    #[derive(Clone, PartialEq, Debug)]
    #[allow(missing_docs, reason = "fields are operands, which the instruction's line names")]
    pub enum Instruction;

    /// Branches and loops.
    Control {
        /// A branch.
        If { condition: Condition, then: Vec<Instruction>, otherwise: Vec<Instruction> },
        /// For variable in from..end.
        For { variable: Integer, from: Integer, end: Integer, body: Vec<Instruction> },
        /// A loop without an end of its own.
        Loop { body: Vec<Instruction> },
        /// Leaves the innermost `Loop` or `For`.
        Break,
        /// Begins the next turn of the innermost `Loop` or `For`.
        Continue,
        /// Begins the next turn of the outermost `For`: the next row.
        NextRow,
        /// The iterations from..end in segments begin..stop, each as long as sums of lanes may stay in their type: `Lane::FLUSH`
        /// vectors. `entries`: each iteration is a vector, an entry of clusters.
        Segments {
            begin: Integer,
            stop: Integer,
            from: Integer,
            end: Integer,
            entries: bool,
            body: Vec<Instruction>,
        },
        /// The iterations from..end on lanes. `variable`: the first one of those that are open. `single`: one vector after the
        /// other; otherwise each instruction may be done for several vectors before the next one. `entries`: the slot of
        /// [`ClusterArray::Entries`](madelung_abi::ClusterArray), whose entries the iterations are, a vector each;
        /// lanes whose bit is set have one.
        Lanes {
            variable: Integer,
            from: Integer,
            end: Integer,
            single: bool,
            entries: Option<usize>,
            body: Vec<Instruction>,
        },
        /// Channels from..end of every pair of a strip, `pairs[0]..pairs[1]`: `before`, once a pair; `body`, on lanes, which adds
        /// to `sums`, each 0 at first; and `after`, which uses of the other blocks the sums alone. Pairs may take turns after
        /// every vector of channels: bits do not depend on it.
        Strip {
            pair: Integer,
            pairs: [Integer; 2],
            before: Vec<Instruction>,
            sums: Box<[Vector]>,
            variable: Integer,
            from: Integer,
            end: Integer,
            body: Vec<Instruction>,
            after: Vec<Instruction>,
        },
        /// Rows from..end, waves of a mesh, in runs begin..stop that are of one line. `shape`: the mesh of the first one.
        Lines { begin: Integer, stop: Integer, from: Integer, end: Integer, shape: Shape, body: Vec<Instruction> },
    }
    /// Scalars, integers and conditions.
    Scalars {
        /// to = from
        Copy { from: Scalar, to: Scalar },
        /// to = op(x)
        Unary { op: Unary, x: Scalar, to: Scalar },
        /// to = x op y
        Combine { op: Combine, x: Scalar, y: Scalar, to: Scalar },
        /// to = if condition then x else y
        Select { condition: Condition, x: Scalar, y: Scalar, to: Scalar },
        /// to = x, an integer, as a real.
        ToReal { x: Integer, to: Scalar },
        /// to = x, a real without its fraction, as the nearest integer there is; 0 for NaN.
        ToInteger { x: Scalar, to: Integer },
        /// to = from
        CopyInteger { from: Integer, to: Integer },
        /// to = x op y
        Integers { op: IntegerOp, x: Integer, y: Integer, to: Integer },
        /// to = x op y
        Compare { op: Compare, x: Scalar, y: Scalar, to: Condition },
        /// to = x op y
        CompareIntegers { op: Compare, x: Integer, y: Integer, to: Condition },
        /// to = whether x is finite.
        IsFinite { x: Scalar, to: Condition },
        /// to = x op y, of `And`, `Or` and `Xor`.
        Conditions { op: IntegerOp, x: Condition, y: Condition, to: Condition },
        /// to = not x
        Not { x: Condition, to: Condition },
        /// to = a constant.
        SetCondition { value: bool, to: Condition },
        /// to = from
        CopyCondition { from: Condition, to: Condition },
        /// to = the n-th real attribute of the launch.
        Attribute { n: usize, to: Scalar },
        /// to = the n-th integer attribute of the launch.
        IntegerAttribute { n: usize, to: Integer },
        /// to = the place of a component of an atom, by its cluster and its lane there, in an array of so many for each.
        InCluster { cluster: Integer, lane: Integer, width: usize, component: usize, to: Integer },
        /// to = the size of a dimension.
        Size { dim: Dim, to: Integer },
        /// to = the number of iterations of the open vector.
        Count { to: Integer },
    }
    /// Numbers and masks on lanes.
    Lanes {
        /// to = x on every lane, rounded to the lanes' type.
        Splat { x: Scalar, to: Vector },
        /// to = a constant on every lane.
        Fill { x: f64, to: Vector },
        /// to = from
        CopyLanes { from: Vector, to: Vector },
        /// to = op(x)
        UnaryLanes { op: Unary, x: Vector, to: Vector },
        /// to = x op y
        CombineLanes { op: Combine, x: Vector, y: Vector, to: Vector },
        /// to = a fused product of x and y, and z.
        FusedLanes { op: Fused, x: Vector, y: Vector, z: Vector, to: Vector },
        /// to = two functions of x that share their work.
        PairLanes { of: Pair, x: Vector, to: [Vector; 2] },
        /// to = x op y
        CompareLanes { op: Compare, x: Vector, y: Vector, to: Mask },
        /// to = a condition on every lane.
        MaskOf { condition: Condition, to: Mask },
        /// to = x op y, of `And` and `Or`.
        Masks { op: IntegerOp, x: Mask, y: Mask, to: Mask },
        /// to = not x
        NotMask { x: Mask, to: Mask },
        /// to = x where the mask is true, else y.
        SelectLanes { mask: Mask, x: Vector, y: Vector, to: Vector },
        /// sum ± x, vector by vector, in the lanes that have an iteration.
        Sum { x: Vector, minus: bool, sum: Vector },
        /// The fused sum ± x · y, likewise.
        SumOfProduct { x: Vector, y: Vector, minus: bool, sum: Vector },
        /// Keeps the larger of `best` and x, with its place, vector by vector, in the lanes that have an iteration.
        Best { x: Vector, at: Vector, best: Vector, place: Vector },
        /// (best, place) = the largest of it and of the lanes, the first one where several are (`rt::best`).
        BestOf { lanes: Vector, places: Vector, best: Scalar, place: Scalar },
        /// to = the sum of the lanes of a [`Vector::One`] in f64.
        Total { x: Vector, to: Scalar },
        /// Writes the lanes of the open vector.
        Spill { x: Vector, to: Room },
        /// Writes 1 where the mask of the open vector is true, else 0.
        SpillMask { x: Mask, to: Room },
        /// Clears a room.
        Clear { to: Room },
        /// to = a number.
        Pick { room: Room, at: Integer, to: Scalar },
        /// Adds to a number.
        AddTo { sum: Room, at: Integer, x: Scalar },
        /// to = the numbers on lanes, rounded to their type.
        Filled { room: Room, to: Vector },
    }
    /// Single elements of arrays. `Shared…` and `Atomic` are relaxed atomic accesses to memory that rows of kernels without
    /// adjoint share; `param` is for the status word.
    Elements {
        /// to = whether any of these arrays is asked for (not null).
        IsAsked { slots: Box<[usize]>, to: Condition },
        /// to = an element of an f64 array.
        LoadDouble { slot: usize, at: Address, to: Scalar },
        /// to = an element of a real array.
        Load { slot: usize, at: Address, to: Scalar },
        /// to = an element of an i32 array, as a real.
        LoadInt { slot: usize, at: Address, to: Scalar },
        /// to = an integer of a structured argument: i64 where it is long, else i32.
        Entry { slot: usize, long: bool, at: Address, to: Integer },
        /// to = a component of an image shift, from the array of triples or the packed one, whichever is there.
        Shift { triples: usize, packed: usize, entry: Integer, component: usize, to: Scalar },
        /// Writes x, or adds it where the launch (or `adds`) says so.
        Put { slot: usize, at: Address, x: Scalar, adds: bool },
        /// Adds x to an element of an f64 array.
        Add { slot: usize, at: Address, x: Scalar },
        /// Clears the channels of a sum, as many as the dimension has, up to whole vectors.
        ClearChannels { slot: usize, dim: Dim },
        /// Adds to the call's n-th partial sum.
        Partial { n: usize, x: Scalar },
        /// to = a real element.
        SharedLoad { slot: usize, at: Address, to: Scalar },
        /// Writes a real element.
        SharedStore { slot: usize, at: Address, x: Scalar },
        /// to = an integer element; `shared`: of an output.
        SharedLoadInt { slot: usize, memory: Memory, shared: bool, at: Address, to: Integer },
        /// Writes an integer element; raises the status word where it does not fit.
        SharedStoreInt { slot: usize, memory: Memory, at: Address, x: Integer, param: u32 },
        /// to = an integer element before it is changed.
        Atomic { op: Atomic, slot: usize, memory: Memory, at: Address, x: Integer, param: u32, to: Integer },
        /// Raises a bit of the status word.
        Raise { reason: Reason, param: u32 },
    }
    /// Meshes: shapes, splines, nodes and waves.
    Meshes {
        /// to = the mesh of a system.
        Mesh { slot: usize, system: Integer, to: Shape },
        /// to = the system of a wave.
        WaveSystem { slot: usize, wave: Integer, to: Integer },
        /// to = the n-th number of a mesh.
        ShapeNumber { shape: Shape, n: usize, to: Integer },
        /// to = the splines at a coordinate, with so many derivatives (the value is one).
        Splines { shape: Shape, axis: usize, orders: usize, at: Scalar, to: Table },
        /// to = a derivative at a node of a table.
        Weight { table: Table, derivative: usize, node: Integer, to: Scalar },
        /// to = the node with the indices that tables give for these; one that is `None` has index 0.
        Node { shape: Shape, tables: [Option<(Table, Integer)>; 3], to: Integer },
        /// to = whether this call adds to the plane of a table's node.
        InPlanes { shape: Shape, table: Table, node: Integer, to: Condition },
        /// to = whether any plane around a coordinate along the first axis is this call's.
        Reaches { shape: Shape, at: Scalar, to: Condition },
        /// to = a number of a wave.
        Wave { field: Field, shape: Shape, wave: Integer, to: Scalar },
        /// to = a component of the index that all waves of the open line have.
        LineIndex { axis: usize, to: Scalar },
        /// to = a derivative at nodes k …
        Weights { table: Table, derivative: usize, to: Vector },
        /// to = a component of nodes k … of the line that begins at a node.
        NodeLoad { slot: usize, line: Integer, along: Table, stride: usize, component: usize, to: Vector },
        /// Adds to these.
        NodeAdd { slot: usize, line: Integer, along: Table, stride: usize, component: usize, x: Vector },
        /// to = the third component of the indices, the counts or the moduli of waves k … of the open line.
        LineField { field: Field, to: Vector },
    }
    /// Arrays to lanes.
    Loads {
        /// to = elements `first` + k …, each of `stride` components.
        LoadLanes { slot: usize, first: Option<Integer>, stride: usize, component: usize, to: Vector },
        /// to = vectors of three k …, by component.
        LoadLanes3 { slot: usize, to: [Vector; 3] },
        /// to = elements of an i32 array k …, each of `stride` components, as reals.
        LoadInts { slot: usize, stride: usize, component: usize, to: Vector },
        /// to = elements `stride` · index + `offset`.
        Gather { slot: usize, index: Indices, stride: Integer, offset: Integer, to: Vector },
        /// to = elements of an i32 array, as reals.
        GatherInts { slot: usize, index: Indices, stride: usize, component: usize, to: Vector },
        /// to = i32 integers k …
        LoadIndices { slot: usize, to: Indices },
        /// to = k …
        Iterations { to: Indices },
    }
    /// Arrays to lanes, for pairs and channels alone.
    LoadsOfPairs {
        /// to = channels `first` + k …, side by side; any number behind the last.
        LoadChannels { slot: usize, first: Option<Integer>, to: Vector },
        /// to = triples of an i32 array k …, by component, as reals.
        LoadInts3 { slot: usize, to: [Vector; 3] },
        /// to = vectors of three, by component.
        Gather3 { slot: usize, index: Indices, to: [Vector; 3] },
        /// to = elements `width` · row + column.
        GatherTable { slot: usize, rows: Indices, width: Integer, columns: Indices, to: Vector },
        /// to = i32 integers at these places.
        Lookup { slot: usize, index: Indices, to: Indices },
        /// to = image shifts, by component, of entries k …, or of these.
        Shifts { triples: usize, packed: usize, entries: Option<Indices>, to: [Vector; 3] },
        /// to = k − first, …, as reals.
        Places { first: Integer, to: Vector },
        /// to = entries − starts of their rows, as reals.
        PlacesIn { starts: usize, rows: Indices, entries: Indices, to: Vector },
        /// to = a component of the open entries' clusters.
        LoadInClusters { slot: usize, width: usize, component: usize, to: Vector },
        /// to = likewise, as 32-bit integers side by side.
        LoadIndicesInClusters { slot: usize, width: usize, component: usize, to: Indices },
    }
    /// Lanes to arrays.
    Stores {
        /// Writes elements `first` + k …, each of `stride` components, or adds to them where the launch (or `adds`) says so.
        StoreLanes { slot: usize, first: Option<Integer>, stride: usize, component: usize, x: Vector, adds: bool },
        /// Adds to elements `first` + k … of an f64 array, each of `stride` components.
        AddConsecutive { slot: usize, first: Option<Integer>, stride: usize, component: usize, x: Vector },
        /// Adds to elements `stride` · index + `offset` of an f64 array, lane by lane.
        Scatter { slot: usize, index: Indices, stride: Integer, offset: Integer, x: Vector },
    }
    /// Lanes to arrays, for pairs and channels alone.
    StoresOfPairs {
        /// Adds terms, one after the other, to a component of the open entries' clusters, entry by entry.
        AddInClusters { slot: usize, width: usize, component: usize, terms: Box<[Term]> },
        /// Adds x, or the fused x · y, to channels k … of a sum, of which there are whole vectors.
        AddChannels { slot: usize, x: Vector, y: Option<Vector> },
        /// Adds to elements `width` · row + column of an f64 array, lane by lane.
        ScatterTable { slot: usize, rows: Indices, width: Integer, columns: Indices, x: Vector },
    }
}
