//! From scatter to gather: the transposes of the access patterns.
//!
//! An adjoint adds to the arrays that its loop reads: to the partner `j` of a pair, or to the members of a system.
//! Rows run at the same time, so such additions collide. But every pattern has a transpose:
//!
//! * **Pairs of a full list.** The pair (i, j, S) has its partner (j, i, −S), so what others add to row i is what
//!   row i's own pairs give with i and j exchanged: the loop gathers it in the same pass.
//! * **Rows × members of a system.** The loops are exchanged: each member visits all rows of its system.
//! * **A system × its own members.** Each member has one row that visits it.

use crate::ir::{Acc, Body, Dim, Kernel, Kind, LoopId, Map, Op, ParamId, Range, Role, Stmt, Type, Val};
use crate::rewrite::mapped;
use std::collections::{BTreeMap, HashMap};

/// One launch of a form: the dimension it runs over and what it does for a row.
#[derive(Clone, Debug)]
pub struct Part {
    /// Index dimension.
    pub index: Dim,
    /// The code.
    pub body: Body,
}

/// Own contributions as plain stores, members' contributions as a launch of their own, and, where `gather`,
/// contributions to partners gathered from a full list. The error says why a kernel cannot be transposed.
pub fn parts(kernel: &Kernel, src: &Body, gather: bool) -> Result<Vec<Part>, String> {
    let mut m = Mirror::new(kernel, src, gather);
    m.block(src.stmts())?;
    m.store_own();
    let mut parts = vec![Part { index: kernel.index, body: m.b }];
    for (batch, columns) in member_loops(kernel, src)? {
        parts.push(Part { index: columns, body: columns_part(kernel, src, batch, columns)? });
    }
    for part in &mut parts {
        part.body.remove_unused();
    }
    parts.retain(|p| !p.body.stmts().is_empty());
    Ok(parts)
}

/// Whether any contribution goes to the partner of a pair.
pub fn has_partners(src: &Body) -> bool {
    let mut any = false;
    src.for_each_stmt(&mut |s| {
        if let Stmt::Contribute { row: Some(r), .. } = s {
            any |= matches!(src.op(*r), Op::PairColumn(_));
        }
    });
    any
}

/// The batches whose members get contributions, with their row dimension.
fn member_loops(kernel: &Kernel, src: &Body) -> Result<BTreeMap<ParamId, Dim>, String> {
    let mut loops = HashMap::new();
    let outermost: Vec<LoopId> = src
        .stmts()
        .iter()
        .filter_map(|s| if let Stmt::For { id, .. } = s { Some(*id) } else { None })
        .collect();
    let mut found = BTreeMap::new();
    let mut error = None;
    src.for_each_stmt(&mut |s| match s {
        Stmt::For { id, range: Range::Members { batch, system }, .. } => {
            loops.insert(*id, (*batch, *system));
        }
        Stmt::Contribute { row: Some(r), .. } => {
            if let Op::LoopVar(l) = src.op(*r)
                && let Some((batch, system)) = loops.get(l)
            {
                let own = match src.op(*system) {
                    Op::Row => true,
                    Op::SystemOf { row, .. } => matches!(src.op(*row), Op::Row),
                    _ => false,
                };
                if !own {
                    error = Some("a loop over members must go over those of the row's own system".into());
                }
                if !outermost.contains(l) {
                    error = Some(
                        "a loop over members inside another loop has no transpose: put it outside".into(),
                    );
                }
                if let Kind::Batch { rows, .. } = kernel.params[*batch].kind {
                    found.insert(*batch, rows);
                }
            }
        }
        _ => {}
    });
    error.map_or(Ok(found), Err)
}

type Target = (ParamId, Role, usize);

struct Mirror<'a> {
    kernel: &'a Kernel,
    src: &'a Body,
    b: Body,
    map: Map,
    gather: bool,
    /// What the row's own elements get, summed at the end.
    own: BTreeMap<Target, Vec<Val>>,
    /// Sums of loops within loops that go there too, when all is done.
    inner: Vec<(Acc, Target)>,
}

impl<'a> Mirror<'a> {
    fn new(kernel: &'a Kernel, src: &'a Body, gather: bool) -> Self {
        let mut b = Body::new(Some(src));
        b.canonical_signs = true;
        Self { kernel, src, b, map: Map::new(), gather, own: BTreeMap::new(), inner: vec![] }
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
                Stmt::Declare(m, v) => {
                    let v = self.value(*v);
                    self.b.push(Stmt::Declare(*m, v));
                }
                Stmt::Accumulate(m, v) => {
                    let v = self.value(*v);
                    self.b.push(Stmt::Accumulate(*m, v));
                }
                Stmt::Store { param, role, component, value } => {
                    let value = self.value(*value);
                    self.b.push(Stmt::Store { param: *param, role: *role, component: *component, value });
                }
                Stmt::Contribute { param, role, row, component, value } => {
                    self.contribute((*param, *role, *component), *row, *value);
                }
                Stmt::For { id, range, body } => {
                    let new_range = range.map_args(|a| self.value(a));
                    let mut sums = vec![];
                    self.b.open(true);
                    self.block(body)?;
                    if self.gather && matches!(range, Range::Pairs { .. }) {
                        sums = self.partner(*id, body)?;
                    }
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
            }
        }
        Ok(())
    }

    fn contribute(&mut self, target: Target, row: Option<Val>, value: Val) {
        let (param, role, component) = target;
        let whose = row.map(|r| self.src.op(r).clone());
        match whose {
            // Their own launch.
            Some(Op::LoopVar(_)) => {}
            // The partner's copy lands here instead.
            Some(Op::PairColumn(_)) if self.gather => {}
            Some(Op::Row) if self.gather || !self.is_scattered(param, role) => {
                let value = self.value(value);
                self.own.entry(target).or_default().push(value);
            }
            _ => {
                let row = row.map(|r| self.value(r));
                let value = self.value(value);
                self.b.push(Stmt::Contribute { param, role, row, component, value });
            }
        }
    }

    /// Whether the array also gets contributions through pairs.
    fn is_scattered(&self, param: ParamId, role: Role) -> bool {
        let mut any = false;
        self.src.for_each_stmt(&mut |s| {
            if let Stmt::Contribute { param: p, role: r, row: Some(row), .. } = s {
                any |= (*p, *r) == (param, role) && matches!(self.src.op(*row), Op::PairColumn(_));
            }
        });
        any
    }

    /// The loop's body with i and j exchanged, inside the loop that is open.
    fn partner(&mut self, id: LoopId, body: &[Stmt]) -> Result<Vec<(Acc, Target)>, String> {
        let row = self.b.emit(Op::Row, Type::Index(self.kernel.index));
        let column = self.b.emit(Op::PairColumn(id), Type::Index(self.kernel.index));
        let exchange = Exchange { row: column, member: row, loop_id: id, system: None };
        let mut e = Exchanged::new(self.src, &mut self.b, exchange, Some(self.map.clone()));
        e.block(body)?;
        Ok(e.sums)
    }

    /// Where both sides of a pair get the same (or the opposite), one sum serves both: an earlier one that the loop
    /// adds the same value to, or its opposite, and nothing else.
    fn same_sum(&self, body: &[Stmt], m: Acc) -> Option<(Acc, bool)> {
        let added = |m: Acc| {
            let mut values = vec![];
            crate::ir::for_each(body, &mut |s| {
                if let Stmt::Accumulate(n, v) = s
                    && *n == m
                {
                    values.push(*v);
                }
            });
            (values.len() == 1).then(|| values[0])
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
        for ((param, role, component), values) in std::mem::take(&mut self.own) {
            let mut values = values.into_iter();
            let Some(mut sum) = values.next() else { continue };
            for v in values {
                sum = self.b.real_op(Op::Add(sum, v));
            }
            self.b.push(Stmt::Store { param, role, component, value: sum });
        }
    }
}

/// What the members of `batch` get, from their own point of view.
fn columns_part(kernel: &Kernel, src: &Body, batch: ParamId, columns: Dim) -> Result<Body, String> {
    let mut b = Body::new(Some(src));
    b.canonical_signs = true;
    let row = b.emit(Op::Row, Type::Index(columns));
    let Kind::Batch { systems, .. } = kernel.params[batch].kind else {
        return Err("members of what is not a batch".into());
    };
    let system = b.emit(Op::SystemOf { batch, row }, Type::Index(systems));
    let mut stores = vec![];
    for s in src.stmts() {
        let Stmt::For { id, range: Range::Members { batch: of, system: their }, body } = s else { continue };
        if *of != batch {
            continue;
        }
        let outer = b.new_loop();
        let rows = match src.op(*their) {
            Op::SystemOf { batch, .. } => Some(*batch),
            _ => None,
        };
        if rows.is_some() {
            b.open(true);
        }
        let partner = match rows {
            Some(_) => b.emit(Op::LoopVar(outer), Type::Index(kernel.index)),
            None => system,
        };
        let exchange = Exchange { row: partner, member: row, loop_id: *id, system: Some(system) };
        let mut e = Exchanged::new(src, &mut b, exchange, None);
        if rows.is_none() {
            e.declare_at_once = true;
        }
        e.block(body)?;
        let sums = e.sums;
        if let Some(rows) = rows {
            let body = b.close();
            let zero = b.real(0.0);
            for (m, _) in &sums {
                b.push(Stmt::Declare(*m, zero));
            }
            b.push(Stmt::For { id: outer, range: Range::Members { batch: rows, system }, body });
        }
        stores.extend(sums);
    }
    let mut totals: BTreeMap<Target, Val> = BTreeMap::new();
    for (m, target) in stores {
        let sum = b.emit(Op::Read(m), Type::Real);
        let total = totals.get(&target).map_or(sum, |t| b.real_op(Op::Add(*t, sum)));
        totals.insert(target, total);
    }
    for ((param, role, component), value) in totals {
        b.push(Stmt::Store { param, role, component, value });
    }
    Ok(b)
}

/// What takes whose place.
struct Exchange {
    /// Stands for the row.
    row: Val,
    /// Stands for the pair's column, or the member that the loop visits.
    member: Val,
    /// The loop.
    loop_id: LoopId,
    /// The system they share (for pairs it is the same expression before and after).
    system: Option<Val>,
}

/// Copies the contributions of a loop's body with the two sides exchanged.
struct Exchanged<'a> {
    src: &'a Body,
    b: &'a mut Body,
    by: Exchange,
    /// Values of the body that is being mirrored, for what the exchange does not touch.
    same: Option<Map>,
    /// Exchanged values, block by block.
    known: Vec<HashMap<Val, Val>>,
    accs: HashMap<Acc, Acc>,
    sums: Vec<(Acc, Target)>,
    /// There is no loop around: the sums are declared where they are made.
    declare_at_once: bool,
}

impl<'a> Exchanged<'a> {
    fn new(src: &'a Body, b: &'a mut Body, by: Exchange, same: Option<Map>) -> Self {
        let (known, accs) = (vec![HashMap::new()], HashMap::new());
        Self { src, b, by, same, known, accs, sums: vec![], declare_at_once: false }
    }

    fn value(&mut self, v: Val) -> Result<Val, String> {
        if let Some(n) = self.known.iter().rev().find_map(|k| k.get(&v)) {
            return Ok(*n);
        }
        let op = self.src.op(v).clone();
        let n = match op {
            Op::Const(bits) => self.b.real(f64::from_bits(bits)),
            Op::Int(i) => self.b.op_value(Op::Int(i)),
            Op::Row => self.by.row,
            Op::PairColumn(l) | Op::LoopVar(l) if l == self.by.loop_id => self.by.member,
            Op::PairShift(l, _) if l == self.by.loop_id => {
                let shift = self.b.real_op(op);
                self.b.real_op(Op::Neg(shift))
            }
            Op::SystemOf { row, .. } if matches!(self.src.op(row), Op::Row) => {
                match (self.by.system, &self.same) {
                    (Some(system), _) => system,
                    (None, Some(same)) => same[&v],
                    (None, None) => return Err("a system without its row".into()),
                }
            }
            Op::Read(_) => {
                return Err(
                    "what a row gives to others depends on a sum of its own: split it in two kernels, \
                            the sum being an array between them"
                        .into(),
                );
            }
            op => {
                let mut error = None;
                let op = op.map_args(|a| match self.value(a) {
                    Ok(n) => n,
                    Err(e) => {
                        error = Some(e);
                        a
                    }
                });
                if let Some(e) = error {
                    return Err(e);
                }
                self.b.copy_op(op, self.src.ty(v))
            }
        };
        // The value may have been placed further out than this block; it is valid here in any case.
        self.known.last_mut().expect("a block is open").insert(v, n);
        Ok(n)
    }

    fn block(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    if let Op::Read(m) = self.src.op(*v)
                        && let Some(m) = self.accs.get(m)
                    {
                        let n = self.b.emit(Op::Read(*m), Type::Real);
                        self.known.last_mut().expect("a block is open").insert(*v, n);
                    }
                }
                Stmt::Declare(m, v) => {
                    let v = self.value(*v)?;
                    let fresh = self.b.new_acc();
                    self.accs.insert(*m, fresh);
                    self.b.push(Stmt::Declare(fresh, v));
                }
                Stmt::Accumulate(m, v) => {
                    if let Some(m) = self.accs.get(m).copied() {
                        let v = self.value(*v)?;
                        self.b.push(Stmt::Accumulate(m, v));
                    }
                }
                Stmt::Store { .. } => {}
                Stmt::Contribute { param, role, row: Some(row), component, value } => {
                    let theirs = match self.src.op(*row) {
                        Op::PairColumn(l) | Op::LoopVar(l) => *l == self.by.loop_id,
                        _ => false,
                    };
                    if theirs {
                        let value = self.value(*value)?;
                        let m = self.b.new_acc();
                        if self.declare_at_once {
                            let zero = self.b.real(0.0);
                            self.b.push(Stmt::Declare(m, zero));
                        }
                        self.b.push(Stmt::Accumulate(m, value));
                        self.sums.push((m, (*param, *role, *component)));
                    }
                }
                Stmt::Contribute { row: None, .. } => {}
                Stmt::For { id, range, body } => {
                    let Range::Ints(lo, hi) = *range else {
                        return Err("a loop over data inside a loop over data has no transpose: make the inner one a kernel of its own, with an \
                             array between them".into());
                    };
                    let range = Range::Ints(self.value(lo)?, self.value(hi)?);
                    self.known.push(HashMap::new());
                    self.b.open(true);
                    let fresh = self.b.new_loop();
                    if let Some(var) = self.loop_var(*id) {
                        let n = self.b.emit(Op::LoopVar(fresh), Type::Int);
                        self.known.last_mut().expect("just pushed").insert(var, n);
                    }
                    self.block(body)?;
                    let body = self.b.close();
                    self.known.pop();
                    self.b.push(Stmt::For { id: fresh, range, body });
                }
                Stmt::If { .. } => return Err("a branch in a loop over data was not straightened".into()),
            }
        }
        Ok(())
    }

    fn loop_var(&self, id: LoopId) -> Option<Val> {
        (0..self.src.len()).find(|v| *self.src.op(*v) == Op::LoopVar(id))
    }
}
