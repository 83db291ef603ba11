//! The innermost loop over data, on lanes.

use super::super::layout::Array;
use super::Printer;
use crate::ir::{LoopId, Op, Range, Role, Type, Val};

impl Printer<'_> {
    pub(super) fn let_lanes(&mut self, v: Val) {
        let op = self.b.op(v).clone();
        let lanes = self.lanes.as_ref().expect("inside a lane loop");
        let varies = match &self.rows {
            Some(rows) if rows.is_ahead(v) => return,
            Some(rows) => rows.varies(v),
            None => {
                op.of_loop() == Some(lanes.id)
                    || op.of_acc().is_some_and(|m| lanes.inner.contains(&m))
                    || op.any_arg(|a| lanes.varying.contains(&a))
            }
        };
        if !varies {
            // The same on all lanes: scalar code, and a copy on lanes for whoever needs it.
            let lanes = self.lanes.take();
            self.let_whole(v);
            self.lanes = lanes;
            self.let_splat(v);
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

    /// A copy on lanes of a value that is the same on all of them.
    pub(super) fn let_splat(&mut self, v: Val) {
        if self.b.ty(v) == Type::Real && self.b.constant(v).is_none() {
            self.line(&format!("let u{v} = L::splat(v{v});"));
        }
    }

    /// Scalar code for a value, also where scalar code would have it within the sum that it goes to.
    pub(in crate::print) fn let_whole(&mut self, v: Val) {
        match *self.b.op(v) {
            Op::Mul(x, y) if self.layout.fused.contains(&v) => {
                let text = format!("{} * {}", self.scalar(x), self.scalar(y));
                self.line(&format!("let v{v} = {text};"));
            }
            Op::Neg(x) if self.layout.subtracted.contains(&v) => {
                self.line(&format!("let v{v} = -{};", self.scalar(x)));
            }
            _ => self.let_scalar(v),
        }
    }

    pub(in crate::print) fn lane_expr(&mut self, v: Val, op: &Op) -> Option<String> {
        use Op::*;
        let (id, full) = self.lanes.as_ref().map(|l| (l.id, l.full))?;
        let r = |p: &Self, v: Val| p.real(v);
        let mask = |p: &Self, v: Val| {
            if p.varies(v) { p.real(v) } else { format!("L::mask({})", p.scalar(v)) }
        };
        if let Some(clusters) = self.clusters {
            if let Some(n) = clusters.packed_component(self.b, v) {
                return Some(format!("L::load(theirs{}.add({n} * L::N))", self.entry));
            }
            if let Some(n) = clusters.packed_element(self.b, v) {
                return Some(format!("L::index(theirs{}.add({n} * L::N).cast::<i32>())", self.entry));
            }
        }
        if let Some(text) = self.paired(v) {
            return Some(text);
        }
        if self.rows.is_some()
            && let Some(text) = self.row_expr(op)
        {
            return Some(text);
        }
        if self.wide
            && let Some(text) = self.node_expr(op)
        {
            return Some(text);
        }
        Some(match *op {
            LoopVar(_) | Row => return None,
            PairColumn(_) if self.clusters.is_some() => return None,
            PairEntry(_) if !self.transposed(id) => return None,
            PairEntry(_) => {
                self.load_entry(id);
                format!("e{id}")
            }
            PairColumn(_) => {
                self.load_lanes("index", format!("p{}.add(k{id})", self.list_slot(id, Array::Column)))
            }
            PairRow(_) => {
                self.load_lanes("index", format!("p{}.add(k{id})", self.list_slot(id, Array::PairRow)))
            }
            IndexOf { param, array, row } => {
                let slot = self.layout.slot(param, array);
                match self.b.op(row) {
                    PairEntry(_) if self.transposed(id) => {
                        self.load_entry(id);
                        format!("rt::lookup::<L>(p{slot}, e{id})")
                    }
                    LoopVar(_) | PairEntry(_) => self.load_lanes("index", format!("p{slot}.add(k{id})")),
                    _ => format!("rt::lookup::<L>(p{slot}, v{row})"),
                }
            }
            Place(_) if self.transposed(id) => {
                let load =
                    |array| self.load_lanes("index", format!("p{}.add(k{id})", self.list_slot(id, array)));
                let (rows, entries) = (load(Array::PairRow), load(Array::PairEntry));
                format!("rt::places_in::<L>(p{}, {rows}, {entries})", self.list_slot(id, Array::Start))
            }
            Place(_) => format!("rt::places::<L>(k{id} - first{id})"),
            PairShift(_, c) => {
                let (triples, packed) = self.shift_slots(id);
                let arrays = format!("p{triples}, p{packed}");
                let load = if self.transposed(id) {
                    self.load_entry(id);
                    format!("rt::shifts_at::<L>({arrays}, e{id})")
                } else if full {
                    format!("rt::shifts::<L>({arrays}, k{id})")
                } else {
                    format!("rt::shifts_first::<L>({arrays}, k{id}, n)")
                };
                self.load_row(triples, usize::MAX, &load);
                format!("s{triples}_x[{c}]")
            }
            ReadChannel(m, c) => self.read_channel(m, c),
            Load { param, role, row: Some(row), channel: Some(c), .. } if !self.is_lane(c) => {
                let (form, at) = self.in_table((param, role), row, c);
                format!("{}({at})", if form == "_table" { "rt::gather_table::<L>" } else { "L::gather" })
            }
            Load { param, role, row, channel: Some(c), .. } => self.load_channel(param, role, row, c),
            Load { param, role, row: Some(row), component, .. } => {
                let slot = self.layout.slot(param, Array::Values(role));
                self.lane_load(
                    slot,
                    row,
                    self.kernel.components(param, role),
                    component,
                    ["load", "load3", "gather", "gather3"],
                )
            }
            LoadInt { param, row, component } => {
                let slot = self.layout.slot(param, Array::Values(Role::VALUE));
                self.lane_load(
                    slot,
                    row,
                    self.kernel.components(param, Role::VALUE),
                    component,
                    ["", "int3", "int_gather", ""],
                )
            }
            Read(m) | Best(m) => format!("m{m}"),
            BestPlace(m) => format!("w{m}"),
            Stop(x) => r(self, x),
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
            Call(f, x) => format!("special::{}({})", f.rust(), r(self, x)),
            Pow(x, y) => format!("special::pow({}, {})", r(self, x), r(self, y)),
            Atan2(y, x) => format!("special::atan2({}, {})", r(self, y), r(self, x)),
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

    /// A load of consecutive elements, as the open loop has its lanes.
    fn load_lanes(&self, function: &str, at: String) -> String {
        self.lanes.as_ref().expect("inside a lane loop").load(function, &at)
    }

    pub(in crate::print) fn is_fused(&self, v: Val) -> Option<(Val, Val)> {
        match *self.b.op(v) {
            Op::Mul(x, y) if self.layout.fused.contains(&v) && self.varies(v) => Some((x, y)),
            _ => None,
        }
    }

    /// One of two functions that share their work, where both are needed.
    fn paired(&mut self, v: Val) -> Option<String> {
        let (x, pair, which) = self.layout.pair(self.b, v)?;
        let both = pair.name();
        let name = format!("b{x}_{both}{}", self.entry);
        if !self.paired.iter().any(|p| p.contains(&(x, pair, self.entry))) {
            self.paired.last_mut().expect("a block is open").insert((x, pair, self.entry));
            let arg = self.real(x);
            self.line(&format!("let {name} = special::{both}({arg});"));
        }
        Some(format!("{name}.{which}"))
    }

    fn transposed(&self, id: LoopId) -> bool {
        matches!(self.data_loops[&id], Range::Column { .. })
    }

    /// The entries of pairs that the transpose lists are loaded once.
    fn load_entry(&mut self, id: LoopId) {
        let entries = self.list_slot(id, Array::PairEntry);
        let lanes = self.lanes.as_mut().expect("inside a lane loop");
        if lanes.rows_loaded.insert((usize::MAX, id)) {
            let load = lanes.load("index", &format!("p{entries}.add(k{id})"));
            self.line(&format!("let e{id} = {load};"));
        }
    }

    /// A row of three is loaded once, whichever of its components comes first.
    pub(super) fn load_row(&mut self, slot: usize, row: Val, load: &str) {
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
        if self.clusters.is_some() {
            return format!("L::{}(p{slot}, v{row}{}, {stride}, {component})", names[2], self.entry);
        }
        let (id, count) = self.lanes.as_ref().map(|l| (l.id, l.count())).expect("inside a lane loop");
        let (is_entry, transposed) = (matches!(self.b.op(row), Op::PairEntry(_)), self.transposed(id));
        let contiguous = matches!(self.b.op(row), Op::LoopVar(_)) || (is_entry && !transposed);
        let row_name = if is_entry { format!("e{id}") } else { format!("v{row}") };
        if is_entry && transposed {
            self.load_entry(id);
        }
        match (contiguous, stride) {
            (true, 1) if !names[0].is_empty() => self.load_lanes(names[0], format!("p{slot}.add(k{id})")),
            (true, 3) => {
                let load = self.load_lanes(names[1], format!("p{slot}.add(3 * k{id})"));
                self.load_row(slot, row, &load);
                format!("s{slot}_{row}[{component}]")
            }
            (false, 3) if !names[3].is_empty() => {
                self.load_row(slot, row, &format!("L::{}(p{slot}, {row_name})", names[3]));
                format!("s{slot}_{row}[{component}]")
            }
            (false, _) => format!("L::{}(p{slot}, {row_name}, {stride}, {component})", names[2]),
            (true, _) => {
                format!(
                    "L::{}(p{slot}.add({stride} * k{id}), rt::consecutive::<L>({count}), {stride}, {component})",
                    names[2]
                )
            }
        }
    }
}
