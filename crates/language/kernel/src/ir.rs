//! The intermediate form: scalarised SSA in structured blocks.
//!
//! A [`Kernel`] body runs once per row of its index dimension. Values are pure; the only state is accumulators
//! (`Declare`, `Accumulate`, [`Op::Read`]), stores to the row's own outputs, and contributions, which add to arrays
//! that several rows may share. Kernels without adjoint have variables besides, and arrays that rows read and write at any
//! time ([`Body::in_order`]). Every array is named by a parameter and a [`Role`]: the value itself, its
//! derivative along one or two directions, or its cotangent.

mod body;
mod function;
mod op;
mod shape;

pub use body::Body;
pub use function::Function;
pub(crate) use function::Parity;
pub use madelung_abi::{ParamKind as Kind, Query, Reason, Role, SlotArray as Array};
pub use op::{Atomic, Compare, IntegerOp, OfWave, Op};
use rustc_hash::FxHashMap as HashMap;
pub use shape::Shape;
use std::collections::BTreeSet;

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

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Type {
    /// A real number.
    Real,
    /// An integer of 64 bits.
    Int,
    /// A condition.
    Bool,
    /// A row of a dimension.
    Index(Dim),
}

/// The range of a loop.
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
    /// The pairs of a column of a pair list, by the list's transpose.
    Column {
        /// The list.
        list: ParamId,
        /// The column.
        column: Val,
    },
    /// The rows of a batch that belong to a system.
    Members {
        /// The batch.
        batch: ParamId,
        /// The system.
        system: Val,
    },
    /// The channels of a dimension: all of it, in every row.
    Channels(Dim),
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
            Range::Column { list, column } => Range::Column { list, column: f(column) },
            Range::Members { batch, system } => Range::Members { batch, system: f(system) },
            Range::Channels(dim) => Range::Channels(dim),
        }
    }

    /// Whether the loop goes over data (and so may run on lanes) and not over plain integers.
    pub fn is_data(self) -> bool {
        !matches!(self, Range::Ints(..))
    }
}

/// A statement. The last ones are those of kernels without adjoint alone.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Defines a value.
    Let(Val),
    /// Declares an accumulator with its initial value.
    Declare(Acc, Val),
    /// Adds to an accumulator.
    Accumulate(Acc, Val),
    /// Declares an accumulator that keeps the largest value, with its initial one.
    DeclareBest(Acc, Val),
    /// A running maximum: replaces the kept value by a larger one.
    Raise {
        /// The accumulator.
        acc: Acc,
        /// The value.
        value: Val,
        /// The value's [`Op::Place`].
        place: Val,
    },
    /// Declares an accumulator of every channel of a dimension, each 0. It is read only after all was added.
    DeclareChannels(Acc, Dim),
    /// Adds to one channel of such an accumulator.
    AccumulateChannel {
        /// The accumulator.
        sum: Acc,
        /// The channel.
        channel: Val,
        /// The term.
        value: Val,
    },
    /// Writes one component of the row's own element of an array.
    Store {
        /// The parameter.
        param: ParamId,
        /// The role of the array: its values, or a derivative.
        role: Role,
        /// The component.
        component: usize,
        /// The channel, of an array that has them.
        channel: Option<Val>,
        /// The value.
        value: Val,
    },
    /// Adds to one component of an element that other rows may add to as well.
    Contribute {
        /// The parameter.
        param: ParamId,
        /// The role of the array: its values, or a derivative.
        role: Role,
        /// The element; `None` for an array of one element.
        row: Option<Val>,
        /// The component.
        component: usize,
        /// The channel, of an array that has them.
        channel: Option<Val>,
        /// The term.
        value: Val,
    },
    /// A loop.
    For {
        /// The number of the loop.
        id: LoopId,
        /// The range.
        range: Range,
        /// The body.
        body: Vec<Stmt>,
    },
    /// A branch.
    If {
        /// The condition.
        condition: Val,
        /// The statements if the condition holds.
        then: Vec<Stmt>,
        /// The statements if it does not.
        otherwise: Vec<Stmt>,
    },
    /// Gives an accumulator another value.
    Assign(Acc, Val),
    /// A loop without an end of its own.
    Loop(Vec<Stmt>),
    /// Leaves the innermost loop.
    Break,
    /// Begins the innermost loop's next turn.
    Continue,
    /// Ends the row.
    Return,
    /// Ends the row with [`Reason::Index`] where a number is not a row of a dimension.
    Check {
        /// The number.
        index: Val,
        /// The dimension.
        dim: Dim,
        /// The array that is indexed.
        param: ParamId,
    },
    /// Writes one component of an element of an output, which other rows may touch at any time.
    Write {
        /// The parameter.
        param: ParamId,
        /// The element; `None` for an array of one element.
        row: Option<Val>,
        /// The component.
        component: usize,
        /// The value.
        value: Val,
    },
    /// Raises a bit of the status word, for an array or for none.
    Signal(Reason, Option<ParamId>),
}

impl Stmt {
    /// The accumulator that the statement declares or changes.
    pub fn acc(&self) -> Option<Acc> {
        match *self {
            Stmt::Declare(m, _)
            | Stmt::Accumulate(m, _)
            | Stmt::Assign(m, _)
            | Stmt::DeclareBest(m, _)
            | Stmt::Raise { acc: m, .. }
            | Stmt::DeclareChannels(m, _)
            | Stmt::AccumulateChannel { sum: m, .. } => Some(m),
            _ => None,
        }
    }

    /// The statement with another accumulator.
    #[must_use]
    pub fn with_acc(mut self, other: Acc) -> Self {
        match &mut self {
            Stmt::Declare(m, _)
            | Stmt::Accumulate(m, _)
            | Stmt::Assign(m, _)
            | Stmt::DeclareBest(m, _)
            | Stmt::Raise { acc: m, .. }
            | Stmt::DeclareChannels(m, _)
            | Stmt::AccumulateChannel { sum: m, .. } => *m = other,
            _ => {}
        }
        self
    }

    /// Ends a pass over kernels with an adjoint at a statement that they do not have.
    ///
    /// # Panics
    /// Always: the front end has refused such a kernel.
    pub(crate) fn refuse_without_adjoint(&self) -> ! {
        unreachable!("kernels without adjoint alone have it: {self:?}")
    }

    /// Whether the statement declares an accumulator.
    pub fn is_declaration(&self) -> bool {
        matches!(self, Stmt::Declare(..) | Stmt::DeclareBest(..) | Stmt::DeclareChannels(..))
    }

    /// The blocks in the statement; empty ones where it has fewer than two.
    pub fn blocks(&self) -> [&[Stmt]; 2] {
        match self {
            Stmt::For { body, .. } | Stmt::Loop(body) => [body, &[]],
            Stmt::If { then, otherwise, .. } => [then, otherwise],
            _ => [&[], &[]],
        }
    }

    /// Calls `f` on every value the statement reads, without those of the op that a `Let` defines and those in blocks.
    pub fn for_each_arg(&self, mut f: impl FnMut(Val)) {
        match self {
            Stmt::Let(_) | Stmt::Loop(_) => {}
            Stmt::For { range, .. } => range.for_each_arg(f),
            Stmt::If { condition, .. } => f(*condition),
            simple => {
                let _ = simple.map_args(|v| {
                    f(v);
                    v
                });
            }
        }
    }

    /// Whether `f` holds for any value that [`Stmt::for_each_arg`] visits.
    pub fn any_arg(&self, mut f: impl FnMut(Val) -> bool) -> bool {
        let mut any = false;
        self.for_each_arg(|v| any |= f(v));
        any
    }

    /// [`Stmt::map_args`], or why an argument can not be replaced.
    pub fn try_map_args<E>(&self, f: impl FnMut(Val) -> Result<Val, E>) -> Result<Self, E> {
        all_mapped(f, |f| self.map_args(f))
    }

    /// A statement that neither defines a value nor has blocks, with its arguments replaced.
    #[must_use]
    pub fn map_args(&self, mut f: impl FnMut(Val) -> Val) -> Self {
        use Stmt::*;
        match *self {
            Declare(m, v) => Declare(m, f(v)),
            Accumulate(m, v) => Accumulate(m, f(v)),
            Assign(m, v) => Assign(m, f(v)),
            DeclareBest(m, v) => DeclareBest(m, f(v)),
            Raise { acc, value, place } => Raise { acc, value: f(value), place: f(place) },
            DeclareChannels(m, dim) => DeclareChannels(m, dim),
            AccumulateChannel { sum, channel, value } => {
                AccumulateChannel { sum, channel: f(channel), value: f(value) }
            }
            Store { param, role, component, channel, value } => {
                Store { param, role, component, channel: channel.map(&mut f), value: f(value) }
            }
            Contribute { param, role, row, component, channel, value } => {
                let (row, channel) = (row.map(&mut f), channel.map(&mut f));
                Contribute { param, role, row, component, channel, value: f(value) }
            }
            Check { index, dim, param } => Check { index: f(index), dim, param },
            Write { param, row, component, value } => {
                Write { param, row: row.map(&mut f), component, value: f(value) }
            }
            Break | Continue | Return | Signal(..) => self.clone(),
            Let(_) | For { .. } | Loop(_) | If { .. } => unreachable!("not a simple statement: {self:?}"),
        }
    }
}

/// The result of `map_args`, given a function that may fail.
fn all_mapped<T, E>(
    mut f: impl FnMut(Val) -> Result<Val, E>,
    map_args: impl FnOnce(&mut dyn FnMut(Val) -> Val) -> T,
) -> Result<T, E> {
    let mut error = None;
    let mapped = map_args(&mut |v| {
        f(v).unwrap_or_else(|e| {
            error = Some(e);
            v
        })
    });
    error.map_or(Ok(mapped), Err)
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// The shape of an element, where it is an array.
    pub element: Shape,
    /// The least number of its channels: more than the largest that the kernel names by its number; 0 where it has none.
    pub channels: usize,
    /// Whether it is an output that holds at first what the caller's array holds.
    pub in_out: bool,
}

/// A kernel as written: its parameters and its value form.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name.
    pub name: String,
    /// Names of the dimensions.
    pub dims: Vec<String>,
    /// The dimension it runs over.
    pub index: Dim,
    /// The parameters, without the index.
    pub params: Vec<Param>,
    /// The queries of its grids: one for each.
    pub queries: Vec<Query>,
    /// The value form.
    pub body: Body,
    /// Whether products are rounded before they are added, so that CPUs and GPUs give equal numbers.
    pub rounded: bool,
}

impl Kernel {
    /// Components of an element of a parameter's array.
    pub fn components(&self, param: ParamId, role: Role) -> usize {
        if role.has(Role::HIDDEN) {
            return 1;
        }
        match self.params[param].kind {
            Kind::Real { components, .. }
            | Kind::Output { components, .. }
            | Kind::Ints { components, .. }
            | Kind::Integers { components, .. } => components,
            _ => 1,
        }
    }

    /// The dimension of an array's channels.
    pub fn width(&self, param: ParamId, role: Role) -> Option<Dim> {
        if role.has(Role::HIDDEN) {
            return role.width();
        }
        self.params[param].kind.width()
    }

    /// Whether the array holds integers.
    pub fn is_ints(&self, param: ParamId, role: Role) -> bool {
        !role.has(Role::HIDDEN) && matches!(self.params[param].kind, Kind::Ints { .. })
    }

    /// Whether the pairs of a parameter are those that a query finds: never a full list.
    pub fn is_queried(&self, param: ParamId) -> bool {
        self.queries.iter().any(|q| q.grid == param)
    }

    /// The batch that says to which of `systems` the rows of a dimension belong.
    pub fn batch_of(&self, rows: Dim, systems: Dim) -> Option<ParamId> {
        self.params.iter().position(|p| p.kind == Kind::Batch { rows, systems })
    }
}

/// Straight-line code for the partial derivatives of a function, over its arguments.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Values; the first ones are the arguments (their op is not looked at).
    pub values: Vec<Op>,
    /// The number of arguments.
    pub args: usize,
    /// The partial derivative by each argument.
    pub partials: Vec<Val>,
}

/// The statements of a list and of the blocks in it: each before those of its blocks.
pub fn walk(stmts: &[Stmt]) -> impl Iterator<Item = &Stmt> {
    let mut open = vec![stmts.iter()];
    std::iter::from_fn(move || {
        loop {
            match open.last_mut()?.next() {
                Some(s) => {
                    open.extend(s.blocks().into_iter().rev().map(|block| block.iter()));
                    return Some(s);
                }
                None => open.pop(),
            };
        }
    })
}

/// The statements of a list, and of the blocks in it, that `keep` selects.
pub fn filtered(stmts: Vec<Stmt>, keep: &dyn Fn(&Stmt) -> bool) -> Vec<Stmt> {
    let kept = stmts.into_iter().filter(keep).map(|s| match s {
        Stmt::For { id, range, body } => Stmt::For { id, range, body: filtered(body, keep) },
        Stmt::Loop(body) => Stmt::Loop(filtered(body, keep)),
        Stmt::If { condition, then, otherwise } => {
            Stmt::If { condition, then: filtered(then, keep), otherwise: filtered(otherwise, keep) }
        }
        s => s,
    });
    kept.collect()
}

/// Values of one body as values of another.
pub type ValueMap = HashMap<Val, Val>;

/// The accumulators that statements add to, but for those of channels.
pub fn accumulators(stmts: &[Stmt]) -> BTreeSet<Acc> {
    let changes = |s: &&Stmt| matches!(s, Stmt::Accumulate(..) | Stmt::Raise { .. });
    walk(stmts).filter(changes).filter_map(Stmt::acc).collect()
}

/// The accumulators that statements declare, but for those of channels.
pub fn declared(stmts: &[Stmt]) -> BTreeSet<Acc> {
    let declares = |s: &&Stmt| matches!(s, Stmt::Declare(..) | Stmt::DeclareBest(..));
    walk(stmts).filter(declares).filter_map(Stmt::acc).collect()
}

/// The sums and the maxima that statements feed and do not declare.
pub fn fed(stmts: &[Stmt]) -> (BTreeSet<Acc>, BTreeSet<Acc>) {
    let own = declared(stmts);
    let (mut sums, mut bests) = (BTreeSet::new(), BTreeSet::new());
    for s in walk(stmts) {
        match s {
            Stmt::Accumulate(m, _) if !own.contains(m) => sums.insert(*m),
            Stmt::Raise { acc, .. } if !own.contains(acc) => bests.insert(*acc),
            _ => false,
        };
    }
    (sums, bests)
}
