//! From scatter to gather: the transposes of the access patterns.
//!
//! An adjoint adds to the arrays that its loop reads: to the partner `j` of a pair, or to the members of a system. Rows
//! run at the same time, so such additions collide. But every pattern has a transpose:
//!
//! * **Pairs of a full list.** The pair (i, j, S) has its partner (j, i, −S), so contributions of other rows to
//!   row i are those of its own pairs with i and j exchanged: the loop gathers them in one pass.
//! * **Pairs of any list** (half, between two sets of points, with arrays of their own). The list's transpose tells
//!   each column its pairs: a launch over the columns gathers.
//! * **Rows × members of a system.** The loops are exchanged: each member visits all rows of its system.
//! * **Rows × rows of their own system.** Each of two rows visits the other one: gathered as for a full list.
//! * **A system × its own members.** Each member has one row that visits it.
//!
//! Nodes of a mesh get what atoms add around them, forwards (spreading) and backwards (the transpose of gathering):
//! that stays an addition to shared elements, which backends do in a fixed order.

mod columns;
mod exchange;
mod targets;

use columns::{Visit, columns_part};
use exchange::{Exchange, Exchanged};
use targets::{ChannelSums, Target, channel_sum, for_channels, store_sums};

use crate::ir::{
    Acc, Array, Body, Dim, Kernel, Kind, LoopId, Op, ParamId, Range, Role, Stmt, Type, Val, ValueMap, walk,
};
use crate::rewrite::mapped;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// One launch of a form: the dimension it runs over and the body of a row.
#[derive(Clone, Debug)]
pub struct Part {
    /// Index dimension.
    pub index: Dim,
    /// The code.
    pub body: Body,
}

impl Part {
    /// A kernel's value as it is written.
    pub(crate) fn whole(kernel: &Kernel) -> Self {
        Self { index: kernel.index, body: kernel.body.clone() }
    }
}

/// The path of contributions to the partners of pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partners {
    /// Gathered by symmetry: the list is full.
    Symmetric,
    /// Gathered in a launch over the columns, through the list's transpose.
    Transposed,
    /// Added where they belong: rows collide.
    Scattered,
}

/// Own contributions as plain stores, those to members and, as `partners` says, to the columns of pairs as launches
/// of their own. The error says why a kernel cannot be transposed.
pub fn parts(kernel: &Kernel, src: &Body, partners: Partners) -> Result<Vec<Part>, String> {
    let mut m = Mirror::new(kernel, src, partners);
    m.block(src.stmts())?;
    m.store_own();
    let mut hidden = Hidden::default();
    let mut columns = vec![];
    for (list, dim) in pair_loops(kernel, src, partners)? {
        let visit = Visit::Pairs { list, symmetric: partners == Partners::Symmetric };
        columns.push(Part { index: dim, body: columns_part(kernel, src, visit, dim, &mut hidden)? });
    }
    for (batch, dim) in member_loops(kernel, src)? {
        let visit = Visit::Members { batch };
        columns.push(Part { index: dim, body: columns_part(kernel, src, visit, dim, &mut hidden)? });
    }
    m.store_hidden(&hidden);
    let mut parts = vec![Part { index: kernel.index, body: m.b }];
    // Contributions to mesh nodes have a launch of their own: there each thread has planes of the mesh, and visits all
    // rows.
    let meshed = meshed(&parts[0].body);
    if !meshed.is_empty() {
        let mut nodes = parts[0].clone();
        parts[0].body.retain(&|param, role| !meshed.contains(&(param, role)));
        nodes.body.retain(&|param, role| meshed.contains(&(param, role)));
        parts.push(nodes);
    }
    parts.extend(columns);
    for part in &mut parts {
        store_the_rest(kernel, &mut part.body);
        part.body.remove_unused();
    }
    parts.retain(|p| !p.body.stmts().is_empty());
    Ok(parts)
}

/// Components of a row's own element that get nothing become 0: backends hand out arrays as they come.
fn store_the_rest(kernel: &Kernel, b: &mut Body) {
    let (mut stored, mut shared) = (BTreeMap::<_, BTreeSet<usize>>::new(), BTreeSet::new());
    for s in b.walk() {
        match s {
            Stmt::Store { param, role, component, .. } => {
                stored.entry((*param, *role)).or_default().insert(*component);
            }
            Stmt::Contribute { param, role, .. } => {
                shared.insert((*param, *role));
            }
            _ => {}
        }
    }
    let zero = b.real(0.0);
    for ((param, role), known) in stored {
        // Shared elements begin as zeros anyway.
        if shared.contains(&(param, role)) {
            continue;
        }
        for component in (0..kernel.components(param, role)).filter(|c| !known.contains(c)) {
            match kernel.width(param, role) {
                None => b.push(Stmt::Store { param, role, component, channel: None, value: zero }),
                Some(width) => for_channels(b, width, (None, &[]), |c, value| Stmt::Store {
                    param,
                    role,
                    component,
                    channel: Some(c),
                    value,
                }),
            }
        }
    }
}

/// Values of rows that depend on the sums of their loops. Other rows read these values from an array that the first
/// launch writes.
#[derive(Default)]
struct Hidden {
    numbers: BTreeMap<Val, usize>,
    /// Sums over channels, in arrays with channels.
    channels: BTreeMap<Acc, (usize, Dim)>,
}

impl Hidden {
    fn next(&self) -> usize {
        self.numbers.len() + self.channels.len()
    }

    fn number(&mut self, v: Val) -> usize {
        let next = self.next();
        *self.numbers.entry(v).or_insert(next)
    }

    fn channel_number(&mut self, sum: Acc, width: Dim) -> usize {
        let next = self.next();
        self.channels.entry(sum).or_insert((next, width)).0
    }
}

/// Whether a value depends on an accumulator.
fn depends_on_sums(b: &Body, v: Val) -> bool {
    b.op(v).of_acc().is_some() || b.op(v).any_arg(|a| depends_on_sums(b, a))
}

/// Whether a loop's contributions to the columns of its pairs, or to its members, depend on a sum from outside, or on
/// the pair's place in its list.
fn column_needs(src: &Body, id: LoopId, body: &[Stmt]) -> (bool, bool) {
    let mut inner = HashSet::default();
    let mut values = vec![];
    for s in walk(body) {
        match s {
            Stmt::Declare(m, v) => {
                inner.insert(*m);
                values.push(*v);
            }
            // Sums within the body may go to the columns: all of them count.
            Stmt::Accumulate(m, v) if inner.contains(m) => values.push(*v),
            Stmt::Contribute { row: Some(r), value, .. }
                if [Op::PairColumn(id), Op::LoopVar(id)].contains(src.op(*r)) =>
            {
                values.push(*value);
            }
            _ => {}
        }
    }
    let (mut sums, mut entry, mut seen) = (false, false, HashSet::default());
    while let Some(v) = values.pop() {
        if seen.insert(v) {
            let op = src.op(v);
            sums |= op.of_acc().is_some_and(|m| !inner.contains(&m));
            entry |= matches!(op, Op::PairEntry(l) | Op::Place(l) if *l == id);
            op.for_each_arg(|a| values.push(a));
        }
    }
    (sums, entry)
}

/// The loops that stand in no other one.
fn outermost(src: &Body) -> Vec<LoopId> {
    let id = |s: &Stmt| if let Stmt::For { id, .. } = s { Some(*id) } else { None };
    src.stmts().iter().filter_map(id).collect()
}

/// The elements that statements contribute to: array, role and the row's op.
fn contributions<'a>(src: &'a Body, stmts: &'a [Stmt]) -> impl Iterator<Item = (ParamId, Role, &'a Op)> {
    walk(stmts).filter_map(|s| match s {
        Stmt::Contribute { param, role, row: Some(row), .. } => Some((*param, *role, src.op(*row))),
        _ => None,
    })
}

/// The lists whose columns get contributions in a launch of their own, with their column dimension.
fn pair_loops(kernel: &Kernel, src: &Body, partners: Partners) -> Result<BTreeMap<ParamId, Dim>, String> {
    let mut found = BTreeMap::new();
    if partners == Partners::Scattered {
        return Ok(found);
    }
    let outermost = outermost(src);
    let mut error = None;
    for s in src.walk() {
        let Stmt::For { id, range: Range::Pairs { list, .. }, body } = s else { continue };
        if !contributions(src, body).any(|(_, _, row)| *row == Op::PairColumn(*id)) {
            continue;
        }
        let Kind::Pairs { rows, columns, .. } = kernel.params[*list].kind else { continue };
        let (sums, entry) = column_needs(src, *id, body);
        if partners == Partners::Symmetric {
            if rows != columns || entry || kernel.is_queried(*list) {
                error = Some("what a pair gives to its column is not the same from both sides".to_string());
            }
            if !sums {
                continue;
            }
        }
        if !outermost.contains(id) {
            error = Some("a loop over pairs inside another loop has no transpose: put it outside, or ask for `scatter`".into());
        }
        found.insert(*list, columns);
    }
    error.map_or(Ok(found), Err)
}

/// The arrays that get contributions at nodes of a mesh.
fn meshed(b: &Body) -> BTreeSet<(ParamId, Role)> {
    let at_nodes = contributions(b, b.stmts()).filter(|(_, _, row)| matches!(row, Op::MeshNode { .. }));
    at_nodes.map(|(param, role, _)| (param, role)).collect()
}

/// Whether any contribution goes to the partner of a pair.
pub fn has_partners(src: &Body) -> bool {
    contributions(src, src.stmts()).any(|(_, _, row)| matches!(row, Op::PairColumn(_)))
}

/// The batches whose members get contributions, with their row dimension.
fn member_loops(kernel: &Kernel, src: &Body) -> Result<BTreeMap<ParamId, Dim>, String> {
    let outermost = outermost(src);
    let mut found = BTreeMap::new();
    let mut error = None;
    for s in src.walk() {
        let Stmt::For { id, range: Range::Members { batch, system }, body } = s else { continue };
        if !contributions(src, body).any(|(_, _, row)| *row == Op::LoopVar(*id)) {
            continue;
        }
        // Gathered in the row's own loop already.
        if visits_rows(kernel, src, *batch, *system) && !column_needs(src, *id, body).0 {
            continue;
        }
        let own = match src.op(*system) {
            Op::Row => true,
            op @ Op::IndexOf { row, .. } if op.is_system() => matches!(src.op(*row), Op::Row),
            _ => false,
        };
        if !own {
            error = Some("a loop over members must go over those of the row's own system".into());
        }
        if !outermost.contains(id) {
            error = Some("a loop over members inside another loop has no transpose: put it outside".into());
        }
        if let Kind::Batch { rows, .. } = kernel.params[*batch].kind {
            found.insert(*batch, rows);
        }
    }
    error.map_or(Ok(found), Err)
}

/// Whether the members of a system are the kernel's own rows, and the system that of the row.
fn visits_rows(kernel: &Kernel, src: &Body, batch: ParamId, system: Val) -> bool {
    let is_own = matches!(kernel.params[batch].kind, Kind::Batch { rows, .. } if rows == kernel.index);
    let Op::IndexOf { param, array: Array::SystemOf, row } = *src.op(system) else { return false };
    is_own && param == batch && *src.op(row) == Op::Row
}

struct Mirror<'a> {
    kernel: &'a Kernel,
    src: &'a Body,
    b: Body,
    map: ValueMap,
    partners: Partners,
    /// Contributions to elements of the pairs that the open loops visit, summed at the end of the loop's body.
    entries: Vec<BTreeMap<(Target, Val), Val>>,
    /// Contributions to the row's own elements, summed at the end.
    own: BTreeMap<Target, Vec<Val>>,
    /// Contributions to the row's own elements, channel by channel.
    own_channels: ChannelSums,
    /// Sums of loops within loops that go there too, when all is done.
    inner: Vec<(Acc, Target)>,
}

impl<'a> Mirror<'a> {
    fn new(kernel: &'a Kernel, src: &'a Body, partners: Partners) -> Self {
        let mut b = Body::new(Some(src));
        b.canonical_signs = true;
        Self {
            kernel,
            src,
            b,
            map: ValueMap::default(),
            partners,
            entries: vec![],
            own: BTreeMap::new(),
            own_channels: BTreeMap::new(),
            inner: vec![],
        }
    }

    fn value(&mut self, v: Val) -> Val {
        mapped(self.src, &mut self.b, &self.map, v)
    }

    fn block(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    let op = self.src.op(*v).map_args(|a| self.value(a));
                    let n = self.b.copy_op(op, self.src.ty(*v));
                    self.map.insert(*v, n);
                }
                Stmt::Contribute { param, role, row, component, channel, value } => {
                    let (target, channel) = Target::of(self.src, *param, *role, *component, *channel);
                    self.contribute(target, *row, channel, *value);
                }
                Stmt::For { id, range, body } => {
                    let new_range = range.map_args(|a| self.value(a));
                    let mut sums = vec![];
                    self.b.open(true);
                    self.entries.push(BTreeMap::new());
                    self.block(body)?;
                    let is_mutual = match *range {
                        Range::Pairs { .. } => self.partners == Partners::Symmetric,
                        Range::Members { batch, system } => visits_rows(self.kernel, self.src, batch, system),
                        _ => false,
                    };
                    if is_mutual && !column_needs(self.src, *id, body).0 {
                        sums = self.partner(*id, range, body)?;
                    }
                    self.give_to_entries();
                    let body = self.b.close();
                    let zero = self.b.real(0.0);
                    for (m, _) in &sums {
                        self.b.push_at(0, Stmt::Declare(*m, zero));
                    }
                    if self.b.depth() > 0 {
                        self.inner.append(&mut sums);
                    }
                    let same: Vec<_> = sums.iter().map(|(m, _)| self.same_sum(&body, *m)).collect();
                    self.b.push(Stmt::For { id: *id, range: new_range, body });
                    for ((m, target), same) in sums.into_iter().zip(same) {
                        let (m, negative) = same.unwrap_or((m, false));
                        let mut sum = self.b.emit(Op::Read(m), Type::Real);
                        if negative {
                            sum = self.b.real_op(Op::Neg(sum));
                        }
                        self.own.entry(target).or_default().push(sum);
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    let condition = self.value(*condition);
                    self.b.open(false);
                    self.block(then)?;
                    let then = self.b.close();
                    self.b.open(false);
                    self.block(otherwise)?;
                    let otherwise = self.b.close();
                    self.b.push(Stmt::If { condition, then, otherwise });
                }
                s => {
                    let s = s.map_args(|v| self.value(v));
                    self.b.push(s);
                }
            }
        }
        Ok(())
    }

    fn contribute(&mut self, target: Target, row: Option<Val>, channel: Option<Val>, value: Val) {
        let Target { param, role, component, .. } = target;
        let gather = self.partners != Partners::Scattered;
        let whose = row.map(|r| self.src.op(r).clone());
        match whose {
            // Members have their own launch (a channel has none: every row adds to it).
            Some(Op::LoopVar(l)) if !is_channel(self.src, l) => {}
            // The partner's copy lands here instead, or they have a launch of their own.
            Some(Op::PairColumn(_)) if gather => {}
            Some(Op::PairEntry(_)) if channel.is_none() => {
                let row = row.map_or(0, |r| self.value(r));
                let value = self.value(value);
                let key = (target, row);
                let before = self.entries.last().and_then(|e| e.get(&key)).copied();
                let sum = before.map_or(value, |b| self.b.real_op(Op::Add(b, value)));
                self.entries.last_mut().expect("a pair has a loop").insert(key, sum);
            }
            Some(Op::Row) if !self.is_scattered(param, role) => {
                let value = self.value(value);
                match channel {
                    Some(channel) => {
                        let channel = self.value(channel);
                        let sum = channel_sum(self.kernel, &mut self.b, &mut self.own_channels, target);
                        self.b.push(Stmt::AccumulateChannel { sum, channel, value });
                    }
                    None => self.own.entry(target).or_default().push(value),
                }
            }
            _ => {
                let row = row.map(|r| self.value(r));
                let channel = channel.map(|c| self.value(c)).or_else(|| self.numbered(target));
                let value = self.value(value);
                self.b.push(Stmt::Contribute { param, role, row, component, channel, value });
            }
        }
    }

    /// The channel of a target that has a number.
    fn numbered(&mut self, target: Target) -> Option<Val> {
        let width = self.kernel.width(target.param, target.role)?;
        target.channel.map(|n| self.b.emit(Op::Channel(n, width), Type::Index(width)))
    }

    fn give_to_entries(&mut self) {
        for ((target, row), value) in self.entries.pop().unwrap_or_default() {
            let Target { param, role, component, channel } = target;
            let give =
                |channel, value| Stmt::Contribute { param, role, row: Some(row), component, channel, value };
            match channel.zip(self.kernel.width(param, role)) {
                None => self.b.push(give(None, value)),
                Some((n, width)) => {
                    for_channels(&mut self.b, width, (None, &[(n, value)]), |c, value| give(Some(c), value));
                }
            }
        }
    }

    /// The values that later launches need.
    fn store_hidden(&mut self, hidden: &Hidden) {
        for (v, n) in &hidden.numbers {
            let value = self.value(*v);
            self.b.push(Stmt::Store { param: *n, role: Role::HIDDEN, component: 0, channel: None, value });
        }
        for (sum, (n, width)) in &hidden.channels {
            let (param, role, component) = (*n, Role::hidden_channels(*width), 0);
            for_channels(&mut self.b, *width, (Some(*sum), &[]), |c, value| Stmt::Store {
                param,
                role,
                component,
                channel: Some(c),
                value,
            });
        }
    }

    /// Whether the array also gets contributions through a mesh, a map, or pairs that are not gathered.
    fn is_scattered(&self, param: ParamId, role: Role) -> bool {
        contributions(self.src, self.src.stmts()).any(|(p, r, row)| {
            let shared = match row {
                Op::PairColumn(_) => self.partners == Partners::Scattered,
                Op::MeshNode { .. } | Op::IndexOf { .. } => true,
                _ => false,
            };
            (p, r) == (param, role) && shared
        })
    }

    /// The loop's body with i and j exchanged, inside the loop that is open.
    fn partner(&mut self, id: LoopId, range: &Range, body: &[Stmt]) -> Result<Vec<(Acc, Target)>, String> {
        let index = Type::Index(self.kernel.index);
        let row = self.b.emit(Op::Row, index);
        let (theirs, new, place) = match *range {
            Range::Members { batch, .. } => {
                let place = self.b.real_op(Op::PlaceIn { batch, row });
                (self.b.emit(Op::LoopVar(id), index), None, Some(place))
            }
            _ => (self.b.emit(Op::PairColumn(id), index), Some((id, true)), None),
        };
        let exchange = Exchange { row: theirs, member: row, loop_id: id, new, place, column: None };
        let mut e = Exchanged::new(self.kernel, self.src, &mut self.b, exchange, Some(self.map.clone()));
        e.channel_sums = std::mem::take(&mut self.own_channels);
        e.block(body)?;
        let (sums, channel_sums) = (e.sums, e.channel_sums);
        self.own_channels = channel_sums;
        Ok(sums)
    }

    /// An earlier sum that serves both sides of a pair, where their contributions are equal or opposite: one that the
    /// loop adds an equal value to, or its opposite, and nothing else.
    fn same_sum(&self, body: &[Stmt], m: Acc) -> Option<(Acc, bool)> {
        let added = |m: Acc| {
            let mut values = walk(body).filter_map(|s| match s {
                Stmt::Accumulate(n, v) if *n == m => Some(*v),
                _ => None,
            });
            values.next().filter(|_| values.next().is_none())
        };
        let zero = |m: Acc| {
            let (mut declared, mut added_before) = (false, false);
            for s in self.b.open_stmts() {
                match s {
                    Stmt::Declare(n, v) if *n == m => declared = self.b.constant(*v) == Some(0.0),
                    Stmt::Accumulate(n, _) => added_before |= *n == m,
                    Stmt::For { .. } | Stmt::If { .. } => {
                        added_before |= crate::ir::accumulators(std::slice::from_ref(s)).contains(&m);
                    }
                    _ => {}
                }
            }
            declared && !added_before
        };
        let v = added(m)?;
        let opposite = |a: Val, b: Val| matches!(self.b.op(a), Op::Neg(x) if *x == b);
        body.iter().find_map(|s| match s {
            Stmt::Accumulate(n, _) if *n < m && zero(*n) => {
                let w = added(*n)?;
                let negative = opposite(v, w) || opposite(w, v);
                (v == w || negative).then_some((*n, negative))
            }
            _ => None,
        })
    }

    fn store_own(&mut self) {
        for (m, target) in std::mem::take(&mut self.inner) {
            let sum = self.b.emit(Op::Read(m), Type::Real);
            self.own.entry(target).or_default().push(sum);
        }
        let own = std::mem::take(&mut self.own).into_iter().filter_map(|(target, values)| {
            let sum = values.into_iter().reduce(|sum, v| self.b.real_op(Op::Add(sum, v)));
            sum.map(|sum| (target, sum))
        });
        let own = own.collect();
        store_sums(self.kernel, &mut self.b, own, std::mem::take(&mut self.own_channels));
    }
}

/// Whether a loop goes over channels.
fn is_channel(src: &Body, id: LoopId) -> bool {
    src.walk().any(|s| matches!(s, Stmt::For { id: l, range: Range::Channels(_), .. } if *l == id))
}
