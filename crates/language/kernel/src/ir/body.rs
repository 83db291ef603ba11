//! Bodies: values and statements, built block by block.

use super::{Acc, Dim, LoopId, Op, ParamId, Role, Stmt, Template, Type, Val, filtered, walk};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

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
    /// Leaves operations where they are written, each by itself: those of kernels without adjoint, whose variables change
    /// and whose arrays other rows write.
    pub in_order: bool,
}

#[derive(Clone, Debug)]
struct Value {
    op: Op,
    ty: Type,
    /// The block it was defined in.
    depth: usize,
    /// Whether the value may be infinite or NaN for finite arrays.
    wild: bool,
    /// Conditions, each with the outcome that a nonzero value needs.
    unless: Vec<(Val, bool)>,
}

#[derive(Clone, Debug, Default)]
struct Scope {
    stmts: Vec<Stmt>,
    known: HashMap<Op, Val>,
    products: HashMap<Product, Val>,
    is_loop: bool,
    /// A loop that has one iteration at least.
    runs: bool,
}

/// A product regardless of the order of its factors: the constant, by its bits, and the other factors, sorted.
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

    /// The op of a value.
    pub fn op(&self, v: Val) -> &Op {
        &self.values[v].op
    }

    /// A value's type.
    pub fn ty(&self, v: Val) -> Type {
        self.values[v].ty
    }

    /// The dimension of a channel.
    pub fn width(&self, channel: Val) -> Dim {
        match self.ty(channel) {
            Type::Index(dim) => dim,
            ty => unreachable!("a channel is a row of its dimension, not {ty:?}"),
        }
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

    /// Appends a statement, unless it adds the constant 0 to a sum.
    pub(crate) fn push_sum(&mut self, s: Stmt) {
        if let Stmt::Accumulate(_, value) | Stmt::AccumulateChannel { value, .. } = s
            && self.constant(value) == Some(0.0)
        {
            return;
        }
        self.push(s);
    }

    /// Appends a statement to the open block of a depth, before the deeper ones that are open.
    pub(crate) fn push_at(&mut self, depth: usize, s: Stmt) {
        self.scopes[depth].stmts.push(s);
    }

    /// A sum as it is now, read in the open block of a depth, before the deeper ones that are open.
    pub(crate) fn read_at(&mut self, m: Acc, depth: usize) -> Val {
        self.values.push(Value { op: Op::Read(m), ty: Type::Real, depth, wild: true, unless: vec![] });
        let v = self.values.len() - 1;
        self.push_at(depth, Stmt::Let(v));
        v
    }

    /// Opens a block.
    pub fn open(&mut self, is_loop: bool) {
        self.scopes.push(Scope { is_loop, ..Scope::default() });
    }

    /// Opens the block of a loop over channels, of which an array has one at least.
    pub fn open_channels(&mut self) {
        self.scopes.push(Scope { is_loop: true, runs: true, ..Scope::default() });
    }

    /// Closes it.
    pub fn close(&mut self) -> Vec<Stmt> {
        self.scopes.pop().expect("open and close match").stmts
    }

    /// The statements of the open block.
    pub(crate) fn open_stmts(&self) -> impl Iterator<Item = &Stmt> {
        self.scopes.last().into_iter().flat_map(|s| &s.stmts)
    }

    /// The number of open blocks.
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

    /// Conditions without which a value is 0, as far as can be seen.
    pub(crate) fn unless(&self, v: Val) -> &[(Val, bool)] {
        &self.values[v].unless
    }

    fn unless_of(&self, op: &Op) -> Vec<(Val, bool)> {
        let both =
            |x: Val, y: Val| self.unless(x).iter().filter(|c| self.unless(y).contains(c)).copied().collect();
        let either = |x: &[(Val, bool)], y: &[(Val, bool)]| {
            let new = y.iter().filter(|c| !x.contains(c));
            x.iter().chain(new).copied().collect::<Vec<_>>()
        };
        match *op {
            Op::Mul(x, y) => either(self.unless(x), self.unless(y)),
            Op::Add(x, y) | Op::Sub(x, y) => both(x, y),
            Op::Neg(x) => self.unless(x).to_vec(),
            Op::Select(c, x, y) => match [x, y].map(|v| self.constant(v) == Some(0.0)) {
                [false, true] => either(self.unless(x), &[(c, true)]),
                [true, false] => either(self.unless(y), &[(c, false)]),
                _ => both(x, y),
            },
            _ => vec![],
        }
    }

    /// A real constant.
    pub fn real(&mut self, x: f64) -> Val {
        self.emit(Op::Const(x.to_bits()), Type::Real)
    }

    /// A real-valued op, simplified.
    pub fn real_op(&mut self, op: Op) -> Val {
        if self.in_order { self.emit(op, Type::Real) } else { crate::simplify::real_op(self, op) }
    }

    /// Any op that has the type of its kind (everything but loop variables and rows).
    pub fn op_value(&mut self, op: Op) -> Val {
        use Op::*;
        match op {
            Int(_)
            | Integers(..)
            | IntScalar(_)
            | SplineOrder { .. }
            | MeshSize { .. }
            | Number(_)
            | ToInt(_)
            | Size(_)
            | Element { .. }
            | Atomic { .. } => self.emit(op, Type::Int),
            Lt(..) | Le(..) | Eq(..) | CompareIntegers(..) | And(..) | Or(..) | Xor(..) | Not(_)
            | Bool(_) | IsFinite(_) => self.emit(op, Type::Bool),
            Row
            | LoopVar(_)
            | PairColumn(_)
            | PairRow(_)
            | PairEntry(_)
            | IndexOf { .. }
            | MeshNode { .. } => {
                unreachable!("indices carry their type")
            }
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

    /// Emits an op as it stands: found if it is known, else placed in the outermost block where it may stand; in the open
    /// block, where operations are in order. Loads go
    /// as far out as their row allows (rows are always valid), arithmetic leaves loops it does not depend on but stays
    /// inside branches. Values that may be infinite, or have an infinite derivative, stay in loops, too: outside, the
    /// adjoint 0 that a loop over nothing leaves would meet it.
    pub fn emit(&mut self, op: Op, ty: Type) -> Val {
        let is_const = matches!(op, Op::Const(_) | Op::Int(_) | Op::Channel(..));
        let is_read = op.of_acc().is_some();
        let is_shared = is_const || !(is_read || self.in_order);
        if is_shared && let Some(v) = self.scopes.iter().rev().find_map(|s| s.known.get(&op)) {
            return *v;
        }
        let mut needed = 0;
        op.for_each_arg(|a| needed = needed.max(self.values[a].depth));
        let here = self.scopes.len() - 1;
        let may_diverge = match op {
            Op::Recip(_) | Op::Sqrt(_) | Op::Pow(..) | Op::Atan2(..) => true,
            Op::Call(f, _) => f.may_diverge(),
            _ => false,
        };
        let depth = if is_const {
            0
        } else {
            match op {
                _ if !is_shared || matches!(op, Op::LoopVar(_) | Op::Place(_)) => here,
                _ if may_diverge || op.of_loop().is_some() => {
                    let mut d = here;
                    while d > needed && self.scopes[d].runs {
                        d -= 1;
                    }
                    d
                }
                Op::Load { .. }
                | Op::LoadInt { .. }
                | Op::IndexOf { .. }
                | Op::PlaceIn { .. }
                | Op::Wave { .. } => needed,
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
        let wild = is_read || may_diverge || op.any_arg(|a| self.values[a].wild);
        let unless = self.unless_of(&op);
        self.values.push(Value { op: op.clone(), ty, depth, wild: wild && ty == Type::Real, unless });
        if is_shared {
            self.scopes[depth].known.insert(op, v);
        }
        if !is_const {
            self.scopes[depth].stmts.push(Stmt::Let(v));
        }
        v
    }

    /// x · y: an earlier product of these factors, in any order, or a new one.
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

    /// Calls `f` on every value that a statement reads, without those in blocks.
    pub(crate) fn for_each_use(&self, s: &Stmt, f: impl FnMut(Val)) {
        match s {
            Stmt::Let(v) => self.op(*v).for_each_arg(f),
            s => s.for_each_arg(f),
        }
    }

    /// The number of uses of each value.
    pub(crate) fn uses(&self) -> HashMap<Val, usize> {
        let mut uses = HashMap::default();
        for s in self.walk() {
            self.for_each_use(s, |v| *uses.entry(v).or_insert(0) += 1);
        }
        uses
    }

    /// Removes statements that no store and no contribution depends on.
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
        self.scopes[0].stmts = filtered(body, &|s| live.has(s));
    }

    fn need(&self, v: Val, live: &mut Live) {
        if live.values.insert(v) {
            let op = self.op(v);
            live.accs.extend(op.of_acc());
            op.for_each_arg(|a| self.need(a, live));
        }
    }

    fn mark(&self, stmts: &[Stmt], live: &mut Live) {
        for s in stmts.iter().rev() {
            if live.has(s) {
                s.for_each_arg(|a| self.need(a, live));
                s.blocks().into_iter().for_each(|block| self.mark(block, live));
            }
        }
    }

    /// Keeps the stores and contributions that `keep` selects, and their dependencies.
    pub fn retain(&mut self, keep: &dyn Fn(ParamId, Role) -> bool) {
        let stmts = std::mem::take(&mut self.scopes[0].stmts);
        self.scopes[0].stmts = filtered(stmts, &|s| match s {
            Stmt::Store { param, role, .. } | Stmt::Contribute { param, role, .. } => keep(*param, *role),
            _ => true,
        });
        self.remove_unused();
    }

    /// The ops of the values that statements define.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.walk().filter_map(|s| if let Stmt::Let(v) = s { Some(self.op(*v)) } else { None })
    }

    /// Every statement: each before those of its blocks.
    pub fn walk(&self) -> impl Iterator<Item = &Stmt> {
        walk(self.stmts())
    }
}

#[derive(Default)]
struct Live {
    values: HashSet<Val>,
    accs: HashSet<Acc>,
}

impl Live {
    /// Whether a statement is needed.
    fn has(&self, s: &Stmt) -> bool {
        match s {
            Stmt::Let(v) => self.values.contains(v),
            Stmt::Store { .. } | Stmt::Contribute { .. } => true,
            Stmt::For { .. } | Stmt::If { .. } => {
                s.blocks().into_iter().flatten().any(|s| self.has_effect(s))
            }
            s => s.acc().is_some_and(|m| self.accs.contains(&m)),
        }
    }

    /// Whether a statement is needed for more than the others of its block.
    fn has_effect(&self, s: &Stmt) -> bool {
        !matches!(s, Stmt::Let(_)) && !s.is_declaration() && self.has(s)
    }
}
