//! The intermediate form: scalarised SSA in structured blocks.
//!
//! A [`Kernel`] body runs once per row of its index dimension. Values are pure; the only state is accumulators
//! (`Declare`, `Accumulate`, [`Op::Read`]), stores to the row's own outputs, and contributions, which add to arrays
//! that several rows may share. Every array is named by a parameter and a [`Role`]: the value itself, its
//! derivative along one or two directions, or its cotangent.

mod body;

pub use body::Body;
use std::collections::{BTreeSet, HashMap};

/// A value, by number.
pub type Val = usize;
/// An accumulator, by number.
pub type Acc = usize;
/// A parameter, by position.
pub type ParamId = usize;
/// A loop, by number.
pub type LoopId = usize;
/// A dimension (`Atom`, `System`, …), by position in [`Kernel::dims`].
pub type Dim = usize;

/// Which array of a parameter is meant: a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Role(pub u8);

impl Role {
    /// The value.
    pub const VALUE: Role = Role(0);
    /// Derivative along the first direction.
    pub const FIRST: Role = Role(1);
    /// Derivative along the second direction.
    pub const SECOND: Role = Role(2);
    /// Cotangent: of an output it is read, of an input it is contributed to.
    pub const COTANGENT: Role = Role(4);

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: Role) -> Role {
        Role(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Role) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Type {
    /// A real number.
    Real,
    /// An integer of a plain range loop or an integer scalar.
    Int,
    /// A condition.
    Bool,
    /// A row of a dimension.
    Index(Dim),
}

/// What a value is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A real constant, by its bits.
    Const(u64),
    /// An integer constant.
    Int(i64),
    /// The row this instance of the kernel runs for.
    Row,
    /// The variable of a `lo..hi` loop, or the row that a loop over a batch's members visits.
    LoopVar(LoopId),
    /// The column of the pair that a loop over a pair list visits.
    PairColumn(LoopId),
    /// A component of that pair's image shift, as a real.
    PairShift(LoopId, usize),
    /// The system that a row of a batch belongs to.
    SystemOf {
        /// The batch.
        batch: ParamId,
        /// A row of the batch.
        row: Val,
    },
    /// A real attribute (no derivative).
    Scalar(ParamId),
    /// An integer attribute.
    IntScalar(ParamId),
    /// One component of one element of a real array; `row` is `None` for an array of one element.
    Load {
        /// The parameter.
        param: ParamId,
        /// Which of its arrays.
        role: Role,
        /// The element.
        row: Option<Val>,
        /// The component.
        component: usize,
    },
    /// The same of an integer array, as a real.
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
    /// `value`, whose partial derivatives are given by a template and not by its own expression.
    Own {
        /// What it evaluates to.
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
    /// eᵃ
    Exp(Val),
    /// ln a
    Ln(Val),
    /// aᵇ
    Pow(Val, Val),
    /// erfc a
    Erfc(Val),
    /// exp(−a²)
    ExpNegSq(Val),
    /// sin a
    Sin(Val),
    /// cos a
    Cos(Val),
    /// The nearest integer (no derivative).
    Nearest(Val),
    /// An integer as a real.
    FromInt(Val),
    /// a + b, integers
    IAdd(Val, Val),
    /// a − b, integers
    ISub(Val, Val),
    /// a · b, integers
    IMul(Val, Val),
    /// a < b, reals
    Lt(Val, Val),
    /// a ≤ b, reals
    Le(Val, Val),
    /// a = b, reals
    Eq(Val, Val),
    /// a < b, integers
    ILt(Val, Val),
    /// a = b, integers
    IEq(Val, Val),
    /// a and b
    And(Val, Val),
    /// a or b
    Or(Val, Val),
    /// not a
    Not(Val),
    /// if a then b else c, both evaluated
    Select(Val, Val, Val),
}

impl Op {
    /// Calls `f` on every value the op reads.
    pub fn for_each_arg(&self, mut f: impl FnMut(Val)) {
        let _ = self.map_args(|v| {
            f(v);
            v
        });
    }

    /// The op with its arguments replaced.
    #[must_use]
    pub fn map_args(&self, mut f: impl FnMut(Val) -> Val) -> Op {
        use Op::*;
        match self {
            Const(_) | Int(_) | Row | LoopVar(_) | PairColumn(_) | PairShift(..) | Scalar(_)
            | IntScalar(_) | Read(_) => self.clone(),
            SystemOf { batch, row } => SystemOf { batch: *batch, row: f(*row) },
            Load { param, role, row, component } => {
                Load { param: *param, role: *role, row: row.map(f), component: *component }
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
            IAdd(a, b) => IAdd(f(*a), f(*b)),
            ISub(a, b) => ISub(f(*a), f(*b)),
            IMul(a, b) => IMul(f(*a), f(*b)),
            Lt(a, b) => Lt(f(*a), f(*b)),
            Le(a, b) => Le(f(*a), f(*b)),
            Eq(a, b) => Eq(f(*a), f(*b)),
            ILt(a, b) => ILt(f(*a), f(*b)),
            IEq(a, b) => IEq(f(*a), f(*b)),
            And(a, b) => And(f(*a), f(*b)),
            Or(a, b) => Or(f(*a), f(*b)),
            Neg(a) => Neg(f(*a)),
            Recip(a) => Recip(f(*a)),
            Sqrt(a) => Sqrt(f(*a)),
            Exp(a) => Exp(f(*a)),
            Ln(a) => Ln(f(*a)),
            Erfc(a) => Erfc(f(*a)),
            ExpNegSq(a) => ExpNegSq(f(*a)),
            Sin(a) => Sin(f(*a)),
            Cos(a) => Cos(f(*a)),
            Nearest(a) => Nearest(f(*a)),
            FromInt(a) => FromInt(f(*a)),
            Not(a) => Not(f(*a)),
            Select(c, a, b) => Select(f(*c), f(*a), f(*b)),
        }
    }
}

/// What a loop visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Range {
    /// `lo..hi`, integers.
    Ints(Val, Val),
    /// The pairs of a row of a pair list.
    Pairs {
        /// The list.
        list: ParamId,
        /// The row.
        row: Val,
    },
    /// The rows of a batch that belong to a system.
    Members {
        /// The batch.
        batch: ParamId,
        /// The system.
        system: Val,
    },
}

impl Range {
    /// Calls `f` on every value the range reads.
    pub fn for_each_arg(self, mut f: impl FnMut(Val)) {
        let _ = self.map_args(|v| {
            f(v);
            v
        });
    }

    /// The range with its arguments replaced.
    #[must_use]
    pub fn map_args(self, mut f: impl FnMut(Val) -> Val) -> Range {
        match self {
            Range::Ints(lo, hi) => Range::Ints(f(lo), f(hi)),
            Range::Pairs { list, row } => Range::Pairs { list, row: f(row) },
            Range::Members { batch, system } => Range::Members { batch, system: f(system) },
        }
    }

    /// Whether the loop goes over data (and so may run on lanes) and not over plain integers.
    pub fn is_data(self) -> bool {
        !matches!(self, Range::Ints(..))
    }
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Defines a value.
    Let(Val),
    /// Declares an accumulator with its initial value.
    Declare(Acc, Val),
    /// Adds to an accumulator.
    Accumulate(Acc, Val),
    /// Writes one component of the row's own element of an array.
    Store {
        /// The parameter.
        param: ParamId,
        /// Which of its arrays.
        role: Role,
        /// The component.
        component: usize,
        /// What is written.
        value: Val,
    },
    /// Adds to one component of an element that other rows may add to as well.
    Contribute {
        /// The parameter.
        param: ParamId,
        /// Which of its arrays.
        role: Role,
        /// The element; `None` for an array of one element.
        row: Option<Val>,
        /// The component.
        component: usize,
        /// What is added.
        value: Val,
    },
    /// A loop.
    For {
        /// Its number.
        id: LoopId,
        /// What it visits.
        range: Range,
        /// Its body.
        body: Vec<Stmt>,
    },
    /// A branch.
    If {
        /// The condition.
        condition: Val,
        /// Where it holds.
        then: Vec<Stmt>,
        /// Where it does not.
        otherwise: Vec<Stmt>,
    },
}

/// The kind of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A real array, an element per row of `dim` (or one element), of so many components; differentiable.
    Real {
        /// Elements per row of this dimension; `None`: a single element.
        dim: Option<Dim>,
        /// 1, 3 or 9.
        components: usize,
        /// Its value is zero in every call; only its derivatives matter (the strain).
        zero: bool,
    },
    /// A real array that the kernel writes.
    Output {
        /// Elements per row of this dimension; `None`: a single element.
        dim: Option<Dim>,
        /// 1, 3 or 9.
        components: usize,
    },
    /// An integer array of so many components.
    Ints {
        /// Elements per row of this dimension.
        dim: Dim,
        /// 1 or 3.
        components: usize,
    },
    /// A real attribute.
    Scalar,
    /// An integer attribute.
    IntScalar,
    /// Which system each row belongs to, and the rows of each system.
    Batch {
        /// The rows.
        rows: Dim,
        /// The systems.
        systems: Dim,
    },
    /// A pair list between the rows of one dimension.
    Pairs(Dim),
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
}

/// A kernel as written: its parameters and its value form.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Names of the dimensions.
    pub dims: Vec<String>,
    /// The dimension it runs over.
    pub index: Dim,
    /// The parameters, without the index.
    pub params: Vec<Param>,
    /// The value form.
    pub body: Body,
}

/// Straight-line code for the partial derivatives of a function, over its arguments.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Values; the first ones are the arguments (their op is not looked at).
    pub values: Vec<Op>,
    /// How many arguments.
    pub args: usize,
    /// The partial derivative by each argument.
    pub partials: Vec<Val>,
}

/// Every statement of a list and of the blocks in it.
pub fn for_each<'a>(stmts: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    for s in stmts {
        f(s);
        match s {
            Stmt::For { body, .. } => for_each(body, f),
            Stmt::If { then, otherwise, .. } => {
                for_each(then, f);
                for_each(otherwise, f);
            }
            _ => {}
        }
    }
}

/// Values of one body as values of another.
pub type Map = HashMap<Val, Val>;

/// The accumulators that statements add to.
pub fn accumulators(stmts: &[Stmt]) -> Vec<Acc> {
    let mut found = BTreeSet::new();
    for_each(stmts, &mut |s| {
        if let Stmt::Accumulate(m, _) = s {
            found.insert(*m);
        }
    });
    found.into_iter().collect()
}
