//! Operations: the definitions of values.

use super::*;

/// A number that a mesh knows of each of its waves; it has no derivative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OfWave {
    /// A component of its index k, from −K/2 up to K/2.
    Index(usize),
    /// The waves it stands for: itself, or −k too.
    Count,
    /// The modulus of the splines, a product over the axes.
    Modulus,
}

/// A function of two integers, which wraps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IntegerOp {
    /// x + y
    Add,
    /// x − y
    Sub,
    /// x · y
    Mul,
    /// x / y, towards zero; y is not 0.
    Div,
    /// The remainder of that division.
    Rem,
    /// Bits of both.
    And,
    /// Bits of either.
    Or,
    /// Bits of one alone.
    Xor,
    /// x · 2ʸ, y modulo 64.
    Shl,
    /// ⌊x / 2ʸ⌋, y modulo 64.
    Shr,
}

/// A comparison; false where a real is NaN, but for `Ne`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compare {
    /// x < y
    Lt,
    /// x ≤ y
    Le,
    /// x = y
    Eq,
    /// x ≠ y, of scalars.
    Ne,
}

/// An atomic change of an integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Atomic {
    /// Adds.
    Add,
    /// Keeps the larger.
    Max,
    /// Keeps the smaller.
    Min,
}

/// An operation, which defines a value. The last ones are those of kernels without adjoint alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A real constant, by its bits.
    Const(u64),
    /// An integer constant.
    Int(i64),
    /// A channel of a dimension, by its number.
    Channel(usize, Dim),
    /// The row this instance of the kernel runs for.
    Row,
    /// The variable of a `lo..hi` loop, the row that a loop over a batch's members visits, or a channel.
    LoopVar(LoopId),
    /// The column of the pair that a loop over a pair list visits.
    PairColumn(LoopId),
    /// A component of that pair's image shift, as a real.
    PairShift(LoopId, usize),
    /// The row of the pair that a loop over the pairs of a column visits.
    PairRow(LoopId),
    /// The entry of that pair in arrays that have an element per pair.
    PairEntry(LoopId),
    /// The ordinal of a loop's pair within its row, or of a loop's member within its system, from 0.
    Place(LoopId),
    /// The ordinal of a row within its system, from 0.
    PlaceIn {
        /// The batch.
        batch: ParamId,
        /// A row of the batch.
        row: Val,
    },
    /// The index that a structured argument has for a row: the system in a batch, the element in a map, the system of a
    /// wave.
    IndexOf {
        /// The structured argument.
        param: ParamId,
        /// Its array of indices.
        array: Array,
        /// A row.
        row: Val,
    },
    /// A real attribute (no derivative).
    Scalar(ParamId),
    /// An integer attribute.
    IntScalar(ParamId),
    /// The order of the splines on the mesh of a system.
    SplineOrder {
        /// The mesh.
        mesh: ParamId,
        /// The system.
        system: Val,
    },
    /// The nodes of the mesh of a system along an axis.
    MeshSize {
        /// The mesh.
        mesh: ParamId,
        /// The system.
        system: Val,
        /// The axis.
        axis: usize,
    },
    /// The d-th derivative of the cardinal B-spline M_p(`at` − k) for k = ⌊`at`⌋ − `node`, where 0 ≤ `node` < p and `at`
    /// is a coordinate in units of the mesh.
    Spline {
        /// The mesh.
        mesh: ParamId,
        /// The system.
        system: Val,
        /// The axis.
        axis: usize,
        /// The coordinate.
        at: Val,
        /// The node, of the spline's p.
        node: Val,
        /// d
        derivative: usize,
    },
    /// The node with the indices ⌊`at`⌋ − `node`, wrapped, in the mesh of a system.
    MeshNode {
        /// The mesh.
        mesh: ParamId,
        /// The system.
        system: Val,
        /// The coordinates, by axis.
        at: [Val; 3],
        /// The node on each axis, of the spline's p.
        node: [Val; 3],
    },
    /// A number of a wave of a mesh.
    Wave {
        /// The mesh.
        mesh: ParamId,
        /// The system of the wave.
        system: Val,
        /// The wave.
        row: Val,
        /// The number.
        of: OfWave,
    },
    /// One component of one element of a real array; `row` is `None` for an array of one element.
    Load {
        /// The parameter.
        param: ParamId,
        /// The role of the array: its values, or a derivative.
        role: Role,
        /// The element.
        row: Option<Val>,
        /// The component.
        component: usize,
        /// The channel, of an array that has them.
        channel: Option<Val>,
    },
    /// One component of one element of an integer array, as a real.
    LoadInt {
        /// The parameter.
        param: ParamId,
        /// The element.
        row: Val,
        /// The component.
        component: usize,
    },
    /// The accumulator's sum so far.
    Read(Acc),
    /// One channel of a sum over channels.
    ReadChannel(Acc, Val),
    /// The largest of the values that a loop has seen ([`Stmt::Raise`]); no derivative.
    Best(Acc),
    /// The [`Op::Place`] at which it was, the first one if there are several; −1 for the initial value.
    BestPlace(Acc),
    /// The value, with no derivative.
    Stop(Val),
    /// `value`, whose partial derivatives are given by a template and not by its own expression.
    Own {
        /// The result of the function's body.
        value: Val,
        /// The template in [`Body::templates`].
        template: usize,
        /// The arguments.
        args: Vec<Val>,
    },
    /// a + b
    Add(Val, Val),
    /// a − b
    Sub(Val, Val),
    /// a · b
    Mul(Val, Val),
    /// −a
    Neg(Val),
    /// 1 / a
    Recip(Val),
    /// √a
    Sqrt(Val),
    /// A function of a.
    Call(Function, Val),
    /// aᵇ
    Pow(Val, Val),
    /// The angle of the point (b, a).
    Atan2(Val, Val),
    /// The nearest integer (no derivative).
    Nearest(Val),
    /// An integer as a real.
    FromInt(Val),
    /// A function of integers; with derivatives a sum, a difference or a product.
    Integers(IntegerOp, Val, Val),
    /// a < b, reals
    Lt(Val, Val),
    /// a ≤ b, reals
    Le(Val, Val),
    /// a = b, reals
    Eq(Val, Val),
    /// A comparison of integers, or of rows.
    CompareIntegers(Compare, Val, Val),
    /// a and b
    And(Val, Val),
    /// a or b
    Or(Val, Val),
    /// not a
    Not(Val),
    /// if a then b else c, both evaluated
    Select(Val, Val, Val),
    /// A constant condition.
    Bool(bool),
    /// One of a and b alone
    Xor(Val, Val),
    /// a / b, reals
    Div(Val, Val),
    /// |a|, reals
    Abs(Val),
    /// The number of a row, as an integer.
    Number(Val),
    /// A real without its fraction, as the nearest integer there is; 0 for NaN.
    ToInt(Val),
    /// Whether a real is a finite number.
    IsFinite(Val),
    /// The number of rows of a dimension.
    Size(Dim),
    /// One component of one element of an integer array, as an integer; `row` is `None` for an array of one element.
    Element {
        /// The parameter.
        param: ParamId,
        /// The element.
        row: Option<Val>,
        /// The component.
        component: usize,
    },
    /// An integer of an output before it is changed at once, whatever other rows do to it.
    Atomic {
        /// The change.
        op: Atomic,
        /// The parameter.
        param: ParamId,
        /// The element.
        row: Option<Val>,
        /// The other operand.
        value: Val,
    },
}

impl Op {
    /// The system of a row of a batch.
    pub fn system(batch: ParamId, row: Val) -> Self {
        Self::IndexOf { param: batch, array: Array::SystemOf, row }
    }

    /// Whether the op is the system of a row.
    pub fn is_system(&self) -> bool {
        matches!(self, Self::IndexOf { array: Array::SystemOf | Array::MeshShape, .. })
    }

    /// The loop whose iteration the op belongs to.
    pub fn of_loop(&self) -> Option<LoopId> {
        match *self {
            Op::LoopVar(l)
            | Op::PairColumn(l)
            | Op::PairShift(l, _)
            | Op::PairRow(l)
            | Op::PairEntry(l)
            | Op::Place(l) => Some(l),
            _ => None,
        }
    }

    /// A copy of the op with another loop.
    #[must_use]
    pub fn with_loop(&self, l: LoopId) -> Op {
        match *self {
            Op::LoopVar(_) => Op::LoopVar(l),
            Op::PairColumn(_) => Op::PairColumn(l),
            Op::PairShift(_, c) => Op::PairShift(l, c),
            Op::PairRow(_) => Op::PairRow(l),
            Op::PairEntry(_) => Op::PairEntry(l),
            Op::Place(_) => Op::Place(l),
            _ => self.clone(),
        }
    }

    /// The accumulator that the op reads.
    pub fn of_acc(&self) -> Option<Acc> {
        match *self {
            Op::Read(m) | Op::ReadChannel(m, _) | Op::Best(m) | Op::BestPlace(m) => Some(m),
            _ => None,
        }
    }

    /// A copy of the op with another accumulator.
    #[must_use]
    pub fn with_acc(&self, m: Acc) -> Op {
        match *self {
            Op::Read(_) => Op::Read(m),
            Op::ReadChannel(_, c) => Op::ReadChannel(m, c),
            Op::Best(_) => Op::Best(m),
            Op::BestPlace(_) => Op::BestPlace(m),
            _ => self.clone(),
        }
    }

    /// Calls `f` on every value the op reads.
    pub fn for_each_arg(&self, mut f: impl FnMut(Val)) {
        let _ = self.map_args(|v| {
            f(v);
            v
        });
    }

    /// Whether `f` holds for any value the op reads.
    pub fn any_arg(&self, mut f: impl FnMut(Val) -> bool) -> bool {
        let mut any = false;
        self.for_each_arg(|v| any |= f(v));
        any
    }

    /// The op with its arguments replaced, or why one of them can not be.
    pub fn try_map_args<E>(&self, f: impl FnMut(Val) -> Result<Val, E>) -> Result<Op, E> {
        all_mapped(f, |f| self.map_args(f))
    }

    /// The op with its arguments replaced.
    #[must_use]
    pub fn map_args(&self, mut f: impl FnMut(Val) -> Val) -> Op {
        use Op::*;
        match self {
            Const(_) | Int(_) | Channel(..) | Row | LoopVar(_) | PairColumn(_) | PairShift(..)
            | PairRow(_) | PairEntry(_) | Place(_) | Scalar(_) | IntScalar(_) | Read(_) | Best(_)
            | BestPlace(_) | Bool(_) | Size(_) => self.clone(),
            SplineOrder { mesh, system } => SplineOrder { mesh: *mesh, system: f(*system) },
            MeshSize { mesh, system, axis } => MeshSize { mesh: *mesh, system: f(*system), axis: *axis },
            Spline { mesh, system, axis, at, node, derivative } => {
                // The coordinate comes first: it has the derivative.
                let (at, node, system) = (f(*at), f(*node), f(*system));
                Spline { mesh: *mesh, system, axis: *axis, at, node, derivative: *derivative }
            }
            MeshNode { mesh, system, at, node } => {
                let system = f(*system);
                MeshNode { mesh: *mesh, system, at: at.map(&mut f), node: node.map(f) }
            }
            IndexOf { param, array, row } => IndexOf { param: *param, array: *array, row: f(*row) },
            Wave { mesh, system, row, of } => Wave { mesh: *mesh, system: f(*system), row: f(*row), of: *of },
            PlaceIn { batch, row } => PlaceIn { batch: *batch, row: f(*row) },
            Stop(a) => Stop(f(*a)),
            ReadChannel(m, c) => ReadChannel(*m, f(*c)),
            Load { param, role, row, component, channel } => {
                let (row, channel) = (row.map(&mut f), channel.map(f));
                Load { param: *param, role: *role, row, component: *component, channel }
            }
            LoadInt { param, row, component } => {
                LoadInt { param: *param, row: f(*row), component: *component }
            }
            Own { value, template, args } => {
                Own { value: f(*value), template: *template, args: args.iter().map(|a| f(*a)).collect() }
            }
            Add(a, b) => Add(f(*a), f(*b)),
            Sub(a, b) => Sub(f(*a), f(*b)),
            Mul(a, b) => Mul(f(*a), f(*b)),
            Pow(a, b) => Pow(f(*a), f(*b)),
            Atan2(a, b) => Atan2(f(*a), f(*b)),
            Integers(op, a, b) => Integers(*op, f(*a), f(*b)),
            Lt(a, b) => Lt(f(*a), f(*b)),
            Le(a, b) => Le(f(*a), f(*b)),
            Eq(a, b) => Eq(f(*a), f(*b)),
            CompareIntegers(op, a, b) => CompareIntegers(*op, f(*a), f(*b)),
            And(a, b) => And(f(*a), f(*b)),
            Or(a, b) => Or(f(*a), f(*b)),
            Neg(a) => Neg(f(*a)),
            Recip(a) => Recip(f(*a)),
            Sqrt(a) => Sqrt(f(*a)),
            Call(function, a) => Call(*function, f(*a)),
            Nearest(a) => Nearest(f(*a)),
            FromInt(a) => FromInt(f(*a)),
            Not(a) => Not(f(*a)),
            Select(c, a, b) => Select(f(*c), f(*a), f(*b)),
            Xor(a, b) => Xor(f(*a), f(*b)),
            Div(a, b) => Div(f(*a), f(*b)),
            Abs(a) => Abs(f(*a)),
            Number(a) => Number(f(*a)),
            ToInt(a) => ToInt(f(*a)),
            IsFinite(a) => IsFinite(f(*a)),
            Element { param, row, component } => {
                Element { param: *param, row: row.map(f), component: *component }
            }
            Atomic { op, param, row, value } => {
                let row = row.map(&mut f);
                Atomic { op: *op, param: *param, row, value: f(*value) }
            }
        }
    }
}
