//! Rust: one generic function per part. Code outside the innermost loop over data is scalar, in f64; that loop runs
//! on lanes of the element type, and its sums come back to f64 every so many iterations.

use super::layout::{Array, Layout, scalar_position};
use crate::ir::{Acc, Body, Kernel, LoopId, Op, Range, Stmt, Type, Val, accumulators};
use crate::mirror::Part;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;

/// The function `name` of a part, in the terms of the runtime module `rt`.
pub fn function(kernel: &Kernel, part: &Part, layout: &Layout, name: &str) -> String {
    let mut p = Printer {
        kernel,
        b: &part.body,
        layout,
        out: String::new(),
        lanes: None,
        paired: vec![HashSet::new()],
        data_loops: HashMap::new(),
    };
    p.line("for row in lo..hi {");
    p.block(part.body.stmts());
    p.line("}");
    let body = p.out;
    let mut head = String::new();
    for (n, slot) in layout.slots.iter().enumerate() {
        let ty = match slot.1 {
            Array::Values(_) if layout.scattered.contains(slot) => "*mut f64",
            Array::Values(_) if matches!(kernel.params[slot.0].kind, crate::ir::Kind::Ints { .. }) => {
                "*const i32"
            }
            Array::Values(_) => "*mut L::Elem",
            _ => "*const i32",
        };
        writeln!(head, "let p{n} = a.pointers[{n}] as {ty};").expect("a string");
    }
    for r in 0..layout.reductions.len() {
        writeln!(head, "let mut r{r} = 0.0f64;").expect("a string");
    }
    let mut tail = String::new();
    for r in 0..layout.reductions.len() {
        writeln!(tail, "*partials.add({r}) += r{r};").expect("a string");
    }
    format!(
        "#[inline(always)]\nunsafe fn {name}<L: rt::Lane>(a: &rt::Launch, lo: usize, hi: usize, partials: *mut f64) \
         {{\n// SAFETY: `rt::Launch` is made by the backend alone, which checked every array's length and every index\n\
         // against the kernel's declaration; rows lo..hi are this call's own.\nunsafe {{\n{head}{body}{tail}}}\n}}\n"
    )
}

/// What varies from lane to lane.
struct Lanes {
    id: LoopId,
    full: bool,
    varying: HashSet<Val>,
    /// Sums that live in the loop's body and so are lanes themselves.
    inner: HashSet<Acc>,
    /// Sums of the loop.
    sums: HashSet<Acc>,
    rows_loaded: HashSet<(usize, Val)>,
}

struct Printer<'a> {
    kernel: &'a Kernel,
    b: &'a Body,
    layout: &'a Layout,
    out: String,
    lanes: Option<Lanes>,
    paired: Vec<HashSet<Val>>,
    data_loops: HashMap<LoopId, Range>,
}

impl<'a> Printer<'a> {
    fn line(&mut self, s: &str) {
        self.out.push_str(s);
        self.out.push('\n');
    }

    fn varies(&self, v: Val) -> bool {
        self.lanes.as_ref().is_some_and(|l| l.varying.contains(&v))
    }

    /// A real, as lanes inside the lane loop and as f64 outside.
    fn real(&self, v: Val) -> String {
        if let Some(x) = self.b.constant(v) {
            return if self.lanes.is_some() { format!("L::splat({x:?})") } else { format!("({x:?}f64)") };
        }
        if self.lanes.is_some() && !self.varies(v) { format!("u{v}") } else { format!("v{v}") }
    }

    /// A value that is the same on all lanes.
    fn scalar(&self, v: Val) -> String {
        match self.b.op(v) {
            Op::Const(bits) => format!("({:?}f64)", f64::from_bits(*bits)),
            Op::Int(i) => format!("({i}i64)"),
            Op::Row => "row".into(),
            _ => format!("v{v}"),
        }
    }

    fn element(&self, row: Option<Val>, stride: usize, component: usize) -> String {
        match row {
            None => format!("{component}"),
            Some(r) => match (stride, component) {
                (1, _) => self.scalar(r),
                (s, 0) => format!("{s} * {}", self.scalar(r)),
                (s, c) => format!("{s} * {} + {c}", self.scalar(r)),
            },
        }
    }

    fn components(&self, param: usize) -> usize {
        use crate::ir::Kind;
        match self.kernel.params[param].kind {
            Kind::Real { components, .. }
            | Kind::Output { components, .. }
            | Kind::Ints { components, .. } => components,
            _ => 1,
        }
    }

    fn block(&mut self, stmts: &'a [Stmt]) {
        self.paired.push(HashSet::new());
        for s in stmts {
            self.stmt(s);
        }
        self.paired.pop();
    }

    fn stmt(&mut self, s: &'a Stmt) {
        match s {
            Stmt::Let(v) => {
                if self.lanes.is_some() {
                    self.let_lanes(*v)
                } else {
                    self.let_scalar(*v)
                }
            }
            Stmt::Declare(m, v) => {
                let x = self.real(*v);
                self.line(&format!("let mut m{m} = {x};"));
            }
            Stmt::Accumulate(m, v) => self.accumulate(*m, *v),
            Stmt::Store { param, role, component, value } => {
                let slot = self.layout.slot(*param, Array::Values(*role));
                let stride = self.components(*param);
                let at = match stride {
                    1 => "row".to_string(),
                    s => format!("{s} * row + {component}"),
                };
                let x = self.scalar(*value);
                self.line(&format!("rt::put(p{slot}, {at}, {x}, a.adds({slot}));"));
            }
            Stmt::Contribute { param, role, row, component, value } => {
                if let Some(r) = self.layout.reduction(self.b, *param, *role, *component, *row) {
                    let x = self.scalar(*value);
                    self.line(&format!("r{r} += {x};"));
                    return;
                }
                let slot = self.layout.slot(*param, Array::Values(*role));
                let (stride, row) = (self.components(*param), row.expect("not a reduction"));
                if self.varies(row) {
                    let x = self.real(*value);
                    let n = if self.lanes.as_ref().is_some_and(|l| l.full) { "L::N" } else { "n" };
                    self.line(&format!(
                        "rt::scatter::<L>(p{slot}, v{row}, {stride}, {component}, {x}, {n});"
                    ));
                } else {
                    let (at, x) = (self.element(Some(row), stride, *component), self.scalar(*value));
                    self.line(&format!("*p{slot}.add({at}) += {x};"));
                }
            }
            Stmt::For { id, range, body } => match range {
                Range::Ints(lo, hi) => {
                    let (lo, hi) = (self.scalar(*lo), self.scalar(*hi));
                    self.line(&format!("for k{id} in {lo}..{hi} {{"));
                    self.block(body);
                    self.line("}");
                }
                _ => self.data_loop(*id, *range, body),
            },
            Stmt::If { condition, then, otherwise } => {
                let c = self.scalar(*condition);
                self.line(&format!("if {c} {{"));
                self.block(then);
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.block(otherwise);
                }
                self.line("}");
            }
        }
    }

    fn accumulate(&mut self, m: Acc, v: Val) {
        let (v, sign) = match self.b.op(v) {
            Op::Neg(x) if self.layout.subtracted.contains(&v) => (*x, "-"),
            _ => (v, "+"),
        };
        let Some(lanes) = &self.lanes else {
            let x = self.scalar_expr_or_name(v);
            self.line(&format!("m{m} {sign}= {x};"));
            return;
        };
        let sum = if lanes.sums.contains(&m) { format!("l{m}") } else { format!("m{m}") };
        let added = |p: &Self, v: Val, sum: &str| match p.b.op(v) {
            Op::Mul(x, y) if p.layout.fused.contains(&v) && p.varies(v) => {
                let minus = if sign == "-" { "-" } else { "" };
                format!("({minus}{}).mul_add({}, {sum})", p.real(*x), p.real(*y))
            }
            _ => format!("{sum} {sign} {}", p.real(v)),
        };
        let mut text = added(self, v, &sum);
        if !lanes.full && lanes.sums.contains(&m) {
            text = format!("L::select(active, {text}, {sum})");
        }
        self.line(&format!("{sum} = {text};"));
    }

    fn scalar_expr_or_name(&self, v: Val) -> String {
        match self.b.op(v) {
            Op::Mul(x, y) if self.layout.fused.contains(&v) => {
                format!("{} * {}", self.scalar(*x), self.scalar(*y))
            }
            _ => self.scalar(v),
        }
    }

    fn data_loop(&mut self, id: LoopId, range: Range, body: &'a [Stmt]) {
        self.data_loops.insert(id, range);
        let (lo, hi) = match range {
            Range::Pairs { list, row } => {
                let (s, e) = (self.layout.slot(list, Array::Start), self.layout.slot(list, Array::End));
                let row = self.scalar(row);
                (format!("*p{s}.add({row}) as usize"), format!("*p{e}.add({row}) as usize"))
            }
            Range::Members { batch, system } => {
                let m = self.layout.slot(batch, Array::Members);
                let b = self.scalar(system);
                (format!("*p{m}.add({b}) as usize"), format!("*p{m}.add({b} + 1) as usize"))
            }
            Range::Ints(..) => unreachable!("not a loop over data"),
        };
        let has_inner = {
            let mut any = false;
            crate::ir::for_each(body, &mut |s| {
                any |= matches!(s, Stmt::For { range, .. } if range.is_data())
            });
            any
        };
        if has_inner {
            self.line(&format!("for k{id} in {lo}..{hi} {{"));
            self.block(body);
            self.line("}");
            return;
        }
        let declared: HashSet<Acc> = {
            let mut d = HashSet::new();
            crate::ir::for_each(body, &mut |s| {
                if let Stmt::Declare(m, _) = s {
                    d.insert(*m);
                }
            });
            d
        };
        let sums: Vec<Acc> = accumulators(body).into_iter().filter(|m| !declared.contains(m)).collect();
        self.line("{");
        for v in self.outside_values(body) {
            self.line(&format!("let u{v} = L::splat(v{v});"));
        }
        self.line(&format!("let (mut k{id}, end) = ({lo}, {hi});"));
        self.line(&format!("while k{id} < end {{"));
        self.line(&format!("let stop = end.min(k{id}.saturating_add(L::N.saturating_mul(L::FLUSH)));"));
        for m in &sums {
            self.line(&format!("let mut l{m} = L::splat(0.0);"));
        }
        self.line(&format!("while k{id} + L::N <= stop {{"));
        self.lane_body(id, body, true, &declared, &sums);
        self.line(&format!("k{id} += L::N;\n}}"));
        self.line(&format!("if L::N > 1 && k{id} < stop {{"));
        self.line(&format!("let n = stop - k{id};\nlet active = L::first(n);"));
        self.lane_body(id, body, false, &declared, &sums);
        self.line(&format!("k{id} = stop;\n}}"));
        for m in &sums {
            self.line(&format!("m{m} += l{m}.sum();"));
        }
        self.line("}\n}");
    }

    fn lane_body(&mut self, id: LoopId, body: &'a [Stmt], full: bool, declared: &HashSet<Acc>, sums: &[Acc]) {
        self.lanes = Some(Lanes {
            id,
            full,
            varying: HashSet::new(),
            inner: declared.clone(),
            sums: sums.iter().copied().collect(),
            rows_loaded: HashSet::new(),
        });
        // What was paired outside is scalar; inside everything is computed on lanes.
        let outside = std::mem::replace(&mut self.paired, vec![HashSet::new()]);
        self.block(body);
        self.paired = outside;
        self.lanes = None;
    }

    /// Reals from outside that the body of a lane loop uses.
    fn outside_values(&self, body: &[Stmt]) -> BTreeSet<Val> {
        let mut defined = HashSet::new();
        let mut used = BTreeSet::new();
        crate::ir::for_each(body, &mut |s| match s {
            Stmt::Let(v) => {
                defined.insert(*v);
                match self.b.op(*v) {
                    // Rows and pairs are addresses; the row of a load is used as such.
                    Op::Load { .. } | Op::LoadInt { .. } | Op::SystemOf { .. } => {}
                    op => op.for_each_arg(|a| {
                        used.insert(a);
                    }),
                }
            }
            Stmt::Declare(_, v) | Stmt::Accumulate(_, v) => {
                used.insert(*v);
            }
            Stmt::Contribute { value, .. } => {
                used.insert(*value);
            }
            _ => {}
        });
        used.into_iter()
            .filter(|v| !defined.contains(v) && self.b.ty(*v) == Type::Real && self.b.constant(*v).is_none())
            .collect()
    }

    fn let_scalar(&mut self, v: Val) {
        use Op::*;
        if self.layout.fused.contains(&v) || self.layout.subtracted.contains(&v) {
            return;
        }
        let s = |p: &Self, v: Val| p.scalar_expr_or_name(v);
        let text = match self.b.op(v).clone() {
            Const(_) | Int(_) | Row => return,
            LoopVar(l) => format!("k{l}"),
            PairColumn(l) => format!("*p{}.add(k{l}) as usize", self.list_slot(l, Array::Column)),
            PairShift(l, c) => {
                format!("f64::from(*p{}.add(3 * k{l} + {c}))", self.list_slot(l, Array::Shift))
            }
            SystemOf { batch, row } => {
                let slot = self.layout.slot(batch, Array::SystemOf);
                format!("*p{slot}.add({}) as usize", self.scalar(row))
            }
            Scalar(p) => format!("a.reals[{}]", scalar_position(self.kernel, p)),
            IntScalar(p) => format!("a.ints[{}]", scalar_position(self.kernel, p)),
            Load { param, role, row, component } => {
                let slot = self.layout.slot(param, Array::Values(role));
                let at = self.element(row, self.components(param), component);
                format!("rt::get(p{slot}, {at})")
            }
            LoadInt { param, row, component } => {
                let slot = self.layout.slot(param, Array::Values(crate::ir::Role::VALUE));
                let at = self.element(Some(row), self.components(param), component);
                format!("f64::from(*p{slot}.add({at}))")
            }
            Read(m) => format!("m{m}"),
            Own { value, .. } => s(self, value),
            Add(x, y) => format!("{} + {}", s(self, x), s(self, y)),
            Sub(x, y) => format!("{} - {}", s(self, x), s(self, y)),
            Mul(x, y) => format!("{} * {}", s(self, x), s(self, y)),
            Neg(x) => format!("-{}", s(self, x)),
            Recip(x) => format!("1.0 / {}", s(self, x)),
            Sqrt(x) => format!("{}.sqrt()", s(self, x)),
            Exp(x) => format!("rt::scalar::exp({})", s(self, x)),
            Ln(x) => format!("rt::scalar::ln({})", s(self, x)),
            Pow(x, y) => format!("rt::scalar::pow({}, {})", s(self, x), s(self, y)),
            Erfc(x) => format!("rt::scalar::erfc({})", s(self, x)),
            ExpNegSq(x) => format!("rt::scalar::exp_neg_sq({})", s(self, x)),
            Sin(x) => format!("rt::scalar::sin({})", s(self, x)),
            Cos(x) => format!("rt::scalar::cos({})", s(self, x)),
            Nearest(x) => format!("{}.round_ties_even()", s(self, x)),
            FromInt(x) => format!("{} as f64", self.scalar(x)),
            IAdd(x, y) => format!("{} + {}", self.scalar(x), self.scalar(y)),
            ISub(x, y) => format!("{} - {}", self.scalar(x), self.scalar(y)),
            IMul(x, y) => format!("{} * {}", self.scalar(x), self.scalar(y)),
            Lt(x, y) | ILt(x, y) => format!("{} < {}", self.scalar(x), self.scalar(y)),
            Le(x, y) => format!("{} <= {}", self.scalar(x), self.scalar(y)),
            Eq(x, y) | IEq(x, y) => format!("{} == {}", self.scalar(x), self.scalar(y)),
            And(x, y) => format!("{} && {}", self.scalar(x), self.scalar(y)),
            Or(x, y) => format!("{} || {}", self.scalar(x), self.scalar(y)),
            Not(x) => format!("!{}", self.scalar(x)),
            Select(c, x, y) => {
                format!("if {} {{ {} }} else {{ {} }}", self.scalar(c), self.scalar(x), self.scalar(y))
            }
        };
        self.line(&format!("let v{v} = {text};"));
    }

    fn list_slot(&self, l: LoopId, array: Array) -> usize {
        match self.data_loops[&l] {
            Range::Pairs { list, .. } => self.layout.slot(list, array),
            _ => unreachable!("pairs come from a loop over pairs"),
        }
    }

    fn let_lanes(&mut self, v: Val) {
        use Op::*;
        let op = self.b.op(v).clone();
        let lanes = self.lanes.as_ref().expect("inside a lane loop");
        let mut varies = match op {
            LoopVar(l) | PairColumn(l) | PairShift(l, _) => l == lanes.id,
            Read(m) => lanes.inner.contains(&m),
            _ => false,
        };
        op.for_each_arg(|a| varies |= lanes.varying.contains(&a));
        if !varies {
            // The same on all lanes: scalar code, and a copy on lanes for whoever needs it.
            let lanes = self.lanes.take();
            match op {
                Mul(x, y) if self.layout.fused.contains(&v) => {
                    let text = format!("{} * {}", self.scalar(x), self.scalar(y));
                    self.line(&format!("let v{v} = {text};"));
                }
                Neg(x) if self.layout.subtracted.contains(&v) => {
                    self.line(&format!("let v{v} = -{};", self.scalar(x)));
                }
                _ => self.let_scalar(v),
            }
            self.lanes = lanes;
            if self.b.ty(v) == Type::Real && self.b.constant(v).is_none() {
                self.line(&format!("let u{v} = L::splat(v{v});"));
            }
            return;
        }
        self.lanes.as_mut().expect("inside a lane loop").varying.insert(v);
        if self.layout.fused.contains(&v) || self.layout.subtracted.contains(&v) {
            return;
        }
        if let Some(text) = self.lane_expr(v, &op) {
            self.line(&format!("let v{v} = {text};"));
        }
    }

    fn lane_expr(&mut self, v: Val, op: &Op) -> Option<String> {
        use Op::*;
        let (id, full) = self.lanes.as_ref().map(|l| (l.id, l.full))?;
        let r = |p: &Self, v: Val| p.real(v);
        let mask = |p: &Self, v: Val| {
            if p.varies(v) { format!("v{v}") } else { format!("L::mask({})", p.scalar(v)) }
        };
        let first = |name: &str, at: String| {
            if full { format!("L::{name}({at})") } else { format!("L::{name}_first({at}, n)") }
        };
        Some(match *op {
            LoopVar(_) => return None,
            PairColumn(_) => first("index", format!("p{}.add(k{id})", self.list_slot(id, Array::Column))),
            PairShift(_, c) => {
                let slot = self.list_slot(id, Array::Shift);
                let load = first("int3", format!("p{slot}.add(3 * k{id})"));
                self.load_row(slot, usize::MAX, &load);
                format!("s{slot}_x[{c}]")
            }
            Load { param, role, row: Some(row), component } => {
                let slot = self.layout.slot(param, Array::Values(role));
                self.lane_load(
                    slot,
                    row,
                    self.components(param),
                    component,
                    ["load", "load3", "gather", "gather3"],
                )
            }
            LoadInt { param, row, component } => {
                let slot = self.layout.slot(param, Array::Values(crate::ir::Role::VALUE));
                self.lane_load(slot, row, self.components(param), component, ["", "int3", "int_gather", ""])
            }
            Read(m) => format!("m{m}"),
            Own { value, .. } => r(self, value),
            Add(x, y) => match (self.is_fused(x), self.is_fused(y)) {
                (Some((p, q)), _) => format!("{}.mul_add({}, {})", r(self, p), r(self, q), r(self, y)),
                (None, Some((p, q))) => format!("{}.mul_add({}, {})", r(self, p), r(self, q), r(self, x)),
                _ => format!("{} + {}", r(self, x), r(self, y)),
            },
            Sub(x, y) => match (self.is_fused(x), self.is_fused(y)) {
                (_, Some((p, q))) => format!("(-{}).mul_add({}, {})", r(self, p), r(self, q), r(self, x)),
                (Some((p, q)), None) => format!("{}.mul_add({}, -{})", r(self, p), r(self, q), r(self, y)),
                _ => format!("{} - {}", r(self, x), r(self, y)),
            },
            Mul(x, y) => format!("{} * {}", r(self, x), r(self, y)),
            Neg(x) => format!("-{}", r(self, x)),
            Recip(x) => format!("{}.recip()", r(self, x)),
            Nearest(x) => format!("rt::nearest({})", r(self, x)),
            Sqrt(x) => format!("{}.sqrt()", r(self, x)),
            Exp(x) => format!("{}.exp()", r(self, x)),
            Ln(x) => format!("{}.ln()", r(self, x)),
            Pow(x, y) => format!("{}.pow({})", r(self, x), r(self, y)),
            Erfc(x) => self.paired(x, "erfc", "erfc_exp_neg_sq", 0),
            ExpNegSq(x) => self.paired(x, "exp_neg_sq", "erfc_exp_neg_sq", 1),
            Sin(x) => self.paired(x, "sin", "sin_cos", 0),
            Cos(x) => self.paired(x, "cos", "sin_cos", 1),
            Lt(x, y) => format!("{}.lt({})", r(self, x), r(self, y)),
            Le(x, y) => format!("{}.le({})", r(self, x), r(self, y)),
            Eq(x, y) => format!("{}.eq({})", r(self, x), r(self, y)),
            And(x, y) => format!("L::and({}, {})", mask(self, x), mask(self, y)),
            Or(x, y) => format!("L::or({}, {})", mask(self, x), mask(self, y)),
            Not(x) => format!("L::not({})", mask(self, x)),
            Select(c, x, y) => format!("L::select({}, {}, {})", mask(self, c), r(self, x), r(self, y)),
            ref op => unreachable!("value {v} does not vary between lanes: {op:?}"),
        })
    }

    fn is_fused(&self, v: Val) -> Option<(Val, Val)> {
        match *self.b.op(v) {
            Op::Mul(x, y) if self.layout.fused.contains(&v) && self.varies(v) => Some((x, y)),
            _ => None,
        }
    }

    /// One of two functions that share their work, where both are needed.
    fn paired(&mut self, x: Val, alone: &str, both: &str, which: usize) -> String {
        let arg = self.real(x);
        if !self.layout.together.contains(&x) {
            return format!("{arg}.{alone}()");
        }
        let kind = both.len();
        let key = x * 2 + usize::from(both == "sin_cos");
        if !self.paired.iter().any(|p| p.contains(&key)) {
            self.paired.last_mut().expect("a block is open").insert(key);
            self.line(&format!("let b{x}_{kind} = {arg}.{both}();"));
        }
        format!("b{x}_{kind}.{which}")
    }

    /// A row of three is loaded once, whichever of its components comes first.
    fn load_row(&mut self, slot: usize, row: Val, load: &str) {
        let lanes = self.lanes.as_mut().expect("inside a lane loop");
        if lanes.rows_loaded.insert((slot, row)) {
            let name = if row == usize::MAX { "x".to_string() } else { row.to_string() };
            self.line(&format!("let s{slot}_{name} = {load};"));
        }
    }

    fn lane_load(
        &mut self,
        slot: usize,
        row: Val,
        stride: usize,
        component: usize,
        names: [&str; 4],
    ) -> String {
        let (id, full) = self.lanes.as_ref().map(|l| (l.id, l.full)).expect("inside a lane loop");
        let contiguous = matches!(self.b.op(row), Op::LoopVar(_));
        let first = |name: &str, at: String| {
            if full { format!("L::{name}({at})") } else { format!("L::{name}_first({at}, n)") }
        };
        match (contiguous, stride) {
            (true, 1) if !names[0].is_empty() => first(names[0], format!("p{slot}.add(k{id})")),
            (true, 3) => {
                let load = first(names[1], format!("p{slot}.add(3 * k{id})"));
                self.load_row(slot, row, &load);
                format!("s{slot}_{row}[{component}]")
            }
            (false, 3) if !names[3].is_empty() => {
                self.load_row(slot, row, &format!("L::{}(p{slot}, v{row})", names[3]));
                format!("s{slot}_{row}[{component}]")
            }
            (false, _) => format!("L::{}(p{slot}, v{row}, {stride}, {component})", names[2]),
            (true, _) => {
                let n = if full { "L::N" } else { "n" };
                format!("L::{}(p{slot}, rt::consecutive::<L>(k{id}, {n}), {stride}, {component})", names[2])
            }
        }
    }
}
