//! The intermediate form: scalarised SSA in structured blocks.
//!
//! A [`Kernel`] body runs once per row of its index dimension. Values are pure; the only state is accumulators
//! (`Declare`, `Accumulate`, [`Op::Read`]), stores to the row's own outputs, and contributions, which add to arrays
//! that several rows may share. Every array is named by a parameter and a [`Role`]: the value itself, its
//! derivative along one or two directions, or its cotangent.

use std::collections::{BTreeMap, HashMap, HashSet};

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
            Const(_) | Int(_) | Row | LoopVar(_) | PairColumn(_) | PairShift(..) | Scalar(_) | IntScalar(_)
            | Read(_) => self.clone(),
            SystemOf { batch, row } => SystemOf { batch: *batch, row: f(*row) },
            Load { param, role, row, component } => {
                Load { param: *param, role: *role, row: row.map(f), component: *component }
            }
            LoadInt { param, row, component } => {
                LoadInt { param: *param, row: f(*row), component: *component }
            }
            Own { value, template, args } => Own {
                value: f(*value),
                template: *template,
                args: args.iter().map(|a| f(*a)).collect(),
            },
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

/// Values and statements under construction or done.
#[derive(Clone, Debug, Default)]
pub struct Body {
    values: Vec<Value>,
    scopes: Vec<Scope>,
    loops: usize,
    accs: usize,
    /// Derivative templates that [`Op::Own`] refers to.
    pub templates: Vec<Template>,
    /// Moves signs outwards, so that values which are even or odd under the exchange of a pair are recognised.
    pub canonical_signs: bool,
}

#[derive(Clone, Debug)]
struct Value {
    op: Op,
    ty: Type,
    /// The block it was defined in.
    depth: usize,
    /// It may be infinite or NaN where the arrays are finite.
    wild: bool,
}

#[derive(Clone, Debug, Default)]
struct Scope {
    stmts: Vec<Stmt>,
    known: HashMap<Op, Val>,
    products: HashMap<Product, Val>,
    is_loop: bool,
}

/// A product whatever the order of its factors: the constant, by its bits, and the others, sorted.
type Product = (u64, Vec<Val>);

impl Body {
    /// An empty body that shares the other's templates and numbering of loops and accumulators.
    pub fn new(like: Option<&Body>) -> Self {
        Body {
            scopes: vec![Scope::default()],
            loops: like.map_or(0, |b| b.loops),
            accs: like.map_or(0, |b| b.accs),
            templates: like.map_or_else(Vec::new, |b| b.templates.clone()),
            ..Body::default()
        }
    }

    /// The statements.
    pub fn stmts(&self) -> &[Stmt] {
        &self.scopes[0].stmts
    }

    /// Replaces the statements.
    pub fn set_stmts(&mut self, stmts: Vec<Stmt>) {
        self.scopes[0].stmts = stmts;
    }

    /// What a value is.
    pub fn op(&self, v: Val) -> &Op {
        &self.values[v].op
    }

    /// A value's type.
    pub fn ty(&self, v: Val) -> Type {
        self.values[v].ty
    }

    /// The number of values, used and unused.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a real constant.
    pub fn constant(&self, v: Val) -> Option<f64> {
        match self.op(v) {
            Op::Const(bits) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }

    /// A new loop number.
    pub fn new_loop(&mut self) -> LoopId {
        self.loops += 1;
        self.loops - 1
    }

    /// A new accumulator number.
    pub fn new_acc(&mut self) -> Acc {
        self.accs += 1;
        self.accs - 1
    }

    /// Appends a statement.
    pub fn push(&mut self, s: Stmt) {
        self.scopes.last_mut().expect("a body has a scope").stmts.push(s);
    }

    /// Appends a statement to the open block of a depth, before the deeper ones that are open.
    pub(crate) fn push_at(&mut self, depth: usize, s: Stmt) {
        self.scopes[depth].stmts.push(s);
    }

    /// A sum as it is now, read in the open block of a depth, before the deeper ones that are open.
    pub(crate) fn read_at(&mut self, m: Acc, depth: usize) -> Val {
        self.values.push(Value { op: Op::Read(m), ty: Type::Real, depth, wild: true });
        let v = self.values.len() - 1;
        self.push_at(depth, Stmt::Let(v));
        v
    }

    /// Opens a block.
    pub fn open(&mut self, is_loop: bool) {
        self.scopes.push(Scope { is_loop, ..Scope::default() });
    }

    /// Closes it.
    pub fn close(&mut self) -> Vec<Stmt> {
        self.scopes.pop().expect("open and close match").stmts
    }

    /// The statements of the open block.
    pub(crate) fn open_stmts(&self) -> impl Iterator<Item = &Stmt> {
        self.scopes.last().into_iter().flat_map(|s| &s.stmts)
    }

    /// How many blocks are open.
    pub fn depth(&self) -> usize {
        self.scopes.len() - 1
    }

    /// The block a value was defined in.
    pub fn depth_of(&self, v: Val) -> usize {
        self.values[v].depth
    }

    /// Whether a value may be infinite or NaN although the arrays hold finite numbers.
    pub(crate) fn is_wild(&self, v: Val) -> bool {
        self.values[v].wild
    }

    /// A real constant.
    pub fn real(&mut self, x: f64) -> Val {
        self.emit(Op::Const(x.to_bits()), Type::Real)
    }

    /// A real-valued op, simplified.
    pub fn real_op(&mut self, op: Op) -> Val {
        crate::simplify::real_op(self, op)
    }

    /// Any op that has the type of its kind (everything but loop variables and rows).
    pub fn op_value(&mut self, op: Op) -> Val {
        use Op::*;
        match op {
            Int(_) | IAdd(..) | ISub(..) | IMul(..) | IntScalar(_) => self.emit(op, Type::Int),
            Lt(..) | Le(..) | Eq(..) | ILt(..) | IEq(..) | And(..) | Or(..) | Not(_) => {
                self.emit(op, Type::Bool)
            }
            Row | LoopVar(_) | PairColumn(_) | SystemOf { .. } => unreachable!("indices carry their type"),
            _ => self.real_op(op),
        }
    }

    /// The op of another body, with arguments already in this one and the type it had there.
    pub fn copy_op(&mut self, op: Op, ty: Type) -> Val {
        match ty {
            Type::Index(_) => self.emit(op, ty),
            Type::Int if matches!(op, Op::LoopVar(_)) => self.emit(op, ty),
            _ => self.op_value(op),
        }
    }

    /// Emits an op as it stands: found if it is known, else placed in the outermost block where it may stand.
    /// Loads go as far out as their row allows (rows are always valid), arithmetic leaves loops it does not
    /// depend on but stays inside branches.
    pub fn emit(&mut self, op: Op, ty: Type) -> Val {
        let is_const = matches!(op, Op::Const(_) | Op::Int(_));
        let is_read = matches!(op, Op::Read(_));
        if !is_read && let Some(v) = self.scopes.iter().rev().find_map(|s| s.known.get(&op)) {
            return *v;
        }
        let mut needed = 0;
        op.for_each_arg(|a| needed = needed.max(self.values[a].depth));
        let here = self.scopes.len() - 1;
        let depth = if is_const {
            0
        } else {
            match op {
                Op::Read(_) | Op::LoopVar(_) | Op::PairColumn(_) | Op::PairShift(..) => here,
                Op::Load { .. } | Op::LoadInt { .. } | Op::SystemOf { .. } => needed,
                _ => {
                    let mut d = here;
                    while d > needed && self.scopes[d].is_loop {
                        d -= 1;
                    }
                    d
                }
            }
        };
        let v = self.values.len();
        let mut wild = matches!(op, Op::Recip(_) | Op::Sqrt(_) | Op::Exp(_) | Op::Ln(_) | Op::Pow(..) | Op::Read(_));
        op.for_each_arg(|a| wild |= self.values[a].wild);
        self.values.push(Value { op: op.clone(), ty, depth, wild: wild && ty == Type::Real });
        if !is_read {
            self.scopes[depth].known.insert(op, v);
        }
        if !is_const {
            self.scopes[depth].stmts.push(Stmt::Let(v));
        }
        v
    }

    /// x · y, found if a product of the same factors is known, in whichever order it was formed.
    pub(crate) fn product(&mut self, x: Val, y: Val) -> Val {
        let mut factors = (1.0, vec![]);
        self.collect_factors(x, &mut factors);
        self.collect_factors(y, &mut factors);
        factors.1.sort_unstable();
        let key = (factors.0.to_bits(), factors.1);
        if let Some(v) = self.scopes.iter().rev().find_map(|s| s.products.get(&key)) {
            return *v;
        }
        let v = self.emit(Op::Mul(x, y), Type::Real);
        let depth = self.depth_of(v);
        self.scopes[depth].products.insert(key, v);
        v
    }

    fn collect_factors(&self, v: Val, factors: &mut (f64, Vec<Val>)) {
        match self.op(v) {
            Op::Const(bits) => factors.0 *= f64::from_bits(*bits),
            Op::Mul(x, y) => {
                self.collect_factors(*x, factors);
                self.collect_factors(*y, factors);
            }
            _ => factors.1.push(v),
        }
    }

    /// Removes what no store and no contribution needs.
    pub fn remove_unused(&mut self) {
        let body = std::mem::take(&mut self.scopes[0].stmts);
        let mut live = Live::default();
        loop {
            let before = (live.values.len(), live.accs.len());
            self.mark(&body, &mut live);
            if before == (live.values.len(), live.accs.len()) {
                break;
            }
        }
        self.scopes[0].stmts = sweep(body, &live);
    }

    fn need(&self, v: Val, live: &mut Live) {
        if live.values.insert(v) {
            match self.op(v) {
                Op::Read(m) => {
                    live.accs.insert(*m);
                }
                op => op.for_each_arg(|a| self.need(a, live)),
            }
        }
    }

    fn mark(&self, stmts: &[Stmt], live: &mut Live) {
        for s in stmts.iter().rev() {
            match s {
                Stmt::Let(_) => {}
                Stmt::Declare(m, v) | Stmt::Accumulate(m, v) => {
                    if live.accs.contains(m) {
                        self.need(*v, live);
                    }
                }
                Stmt::Store { value, .. } => self.need(*value, live),
                Stmt::Contribute { row, value, .. } => {
                    row.iter().for_each(|r| self.need(*r, live));
                    self.need(*value, live);
                }
                Stmt::For { range, body, .. } => {
                    if has_effect(body, live) {
                        range.for_each_arg(|a| self.need(a, live));
                        self.mark(body, live);
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    if has_effect(then, live) || has_effect(otherwise, live) {
                        self.need(*condition, live);
                        self.mark(then, live);
                        self.mark(otherwise, live);
                    }
                }
            }
        }
    }

    /// Keeps the stores and contributions that `keep` names, and what they need.
    pub fn retain(&mut self, keep: &dyn Fn(ParamId, Role) -> bool) {
        fn walk(stmts: Vec<Stmt>, keep: &dyn Fn(ParamId, Role) -> bool) -> Vec<Stmt> {
            stmts
                .into_iter()
                .filter_map(|s| match s {
                    Stmt::Store { param, role, .. } | Stmt::Contribute { param, role, .. }
                        if !keep(param, role) =>
                    {
                        None
                    }
                    Stmt::For { id, range, body } => Some(Stmt::For { id, range, body: walk(body, keep) }),
                    Stmt::If { condition, then, otherwise } => Some(Stmt::If {
                        condition,
                        then: walk(then, keep),
                        otherwise: walk(otherwise, keep),
                    }),
                    s => Some(s),
                })
                .collect()
        }
        let stmts = std::mem::take(&mut self.scopes[0].stmts);
        self.scopes[0].stmts = walk(stmts, keep);
        self.remove_unused();
    }

    /// Every statement, blocks before what they hold.
    pub fn for_each_stmt<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        for_each(self.stmts(), f);
    }
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

#[derive(Default)]
struct Live {
    values: HashSet<Val>,
    accs: HashSet<Acc>,
}

fn has_effect(stmts: &[Stmt], live: &Live) -> bool {
    stmts.iter().any(|s| match s {
        Stmt::Store { .. } | Stmt::Contribute { .. } => true,
        Stmt::Accumulate(m, _) => live.accs.contains(m),
        Stmt::For { body, .. } => has_effect(body, live),
        Stmt::If { then, otherwise, .. } => has_effect(then, live) || has_effect(otherwise, live),
        Stmt::Let(_) | Stmt::Declare(..) => false,
    })
}

fn sweep(stmts: Vec<Stmt>, live: &Live) -> Vec<Stmt> {
    stmts
        .into_iter()
        .filter_map(|s| match s {
            Stmt::Let(v) => live.values.contains(&v).then_some(s),
            Stmt::Declare(m, _) | Stmt::Accumulate(m, _) => live.accs.contains(&m).then_some(s),
            Stmt::For { id, range, body } => {
                has_effect(&body, live).then(|| Stmt::For { id, range, body: sweep(body, live) })
            }
            Stmt::If { condition, then, otherwise } => (has_effect(&then, live)
                || has_effect(&otherwise, live))
            .then(|| Stmt::If { condition, then: sweep(then, live), otherwise: sweep(otherwise, live) }),
            s => Some(s),
        })
        .collect()
}

/// Values of one body as values of another.
pub type Map = HashMap<Val, Val>;

/// The accumulators that statements add to.
pub fn accumulators(stmts: &[Stmt]) -> Vec<Acc> {
    let mut found = BTreeMap::new();
    for_each(stmts, &mut |s| {
        if let Stmt::Accumulate(m, _) = s {
            found.insert(*m, ());
        }
    });
    found.into_keys().collect()
}
