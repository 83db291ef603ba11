//! Rust: one generic function per part. Code outside the innermost loop over data is scalar, in f64; that loop runs
//! on lanes of the element type, and its sums come back to f64 every so many iterations.

mod bests;
mod channels;
mod lanes;
pub mod mesh;
pub mod rows;
pub mod strips;
mod tables;

use super::cluster::layout_of_rows;
use super::layout::{Array, Layout, Pair, scalar_position};
use super::needed::needed;
use crate::cluster::Clusters;
use crate::ir::{Acc, Body, Kernel, LoopId, Op, ParamId, Range, Role, Stmt, Type, Val, declared, fed, walk};
use crate::mirror::Part;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The function `name` of a part, in the terms of the runtime module `rt`. `compact`: whether lane types that ask for it
/// (`SPLIT` is false) run whole vectors through the code of incomplete ones, which halves what there is to compile.
pub fn function(kernel: &Kernel, part: &Part, layout: &Layout, name: &str, compact: bool) -> String {
    if let Some(rows) = rows::on_lanes(part, layout) {
        return rows::function(kernel, &rows, layout, name);
    }
    let wide = mesh::is_alone(&part.body);
    text(Printer { compact, wide, ..Printer::new(kernel, &part.body, layout) }, name)
}

/// Why the code of a part is sound.
const SAFETY: &str = "// SAFETY: `rt::LaunchAbi` is made by the backend alone, which checked every array's length and every index\n\
     // against the kernel's declaration; rows lo..hi are this call's own.\n";

/// The second phase of a part in cluster form: the loop's sums are given, row by row, behind the last slot.
pub fn rows_function(kernel: &Kernel, clusters: &Clusters, of_part: &Layout, name: &str) -> String {
    let layout = layout_of_rows(kernel, clusters, of_part);
    text(Printer { given: Some(clusters), ..Printer::new(kernel, &clusters.part.body, &layout) }, name)
}

fn text(mut p: Printer<'_>, name: &str) -> String {
    let (kernel, layout, given, wide) = (p.kernel, p.layout, p.given, p.wide);
    p.line("for row in lo..hi {");
    p.block(p.b.stmts());
    p.line("}");
    let body = p.out;
    let mut head = pointers(kernel, layout, if wide { "E" } else { "L::Elem" });
    if given.is_some() {
        writeln!(head, "let sums = a.pointers[{}] as *const f64;", layout.slots.len()).expect("a string");
    }
    for r in 0..layout.reductions.len() {
        writeln!(head, "let mut r{r} = 0.0f64;").expect("a string");
    }
    let mut tail = String::new();
    for r in 0..layout.reductions.len() {
        writeln!(tail, "*partials.add({r}) += r{r};").expect("a string");
    }
    if wide {
        return rows::on_wide_lanes(name, &format!("{head}{body}{tail}"));
    }
    format!(
        "#[inline(always)]\nunsafe fn {name}<L: rt::Lane>(a: &rt::LaunchAbi, lo: usize, hi: usize, partials: *mut f64) \
         {{\n{SAFETY}unsafe {{\n{head}{body}{tail}}}\n}}\n"
    )
}

/// Reals from outside that the body of a lane loop uses.
pub fn outside_values(b: &Body, body: &[Stmt]) -> BTreeSet<Val> {
    let mut defined = HashSet::default();
    let mut used = BTreeSet::new();
    for s in walk(body) {
        match s {
            Stmt::Let(v) => {
                defined.insert(*v);
                match b.op(*v) {
                    // Rows and pairs are addresses; the row of a load is used as such.
                    Op::Load { .. } | Op::LoadInt { .. } | Op::IndexOf { .. } => {}
                    op => op.for_each_arg(|a| {
                        used.insert(a);
                    }),
                }
            }
            s => s.for_each_arg(|v| {
                used.insert(v);
            }),
        }
    }
    used.into_iter()
        .filter(|v| !defined.contains(v) && b.ty(*v) == Type::Real && b.constant(*v).is_none())
        .collect()
}

/// The launch's pointers, with their types, and the widths of channels and tables. `element`: the type of reals in memory.
pub(super) fn pointers(kernel: &Kernel, layout: &Layout, element: &str) -> String {
    let mut text = String::new();
    for (n, slot) in layout.slots.iter().enumerate() {
        let ty = match slot.array {
            Array::Values(_) if layout.scattered.contains(slot) => "*mut f64",
            Array::Values(role) if kernel.is_ints(slot.param, role) => "*const i32",
            Array::Values(_) | Array::Scratch(_) => &format!("*mut {element}"),
            array if array.is_long() => "*const i64",
            Array::MeshModuli => "*const f64",
            _ => "*const i32",
        };
        writeln!(text, "let p{n} = a.pointers[{n}] as {ty};").expect("a string");
    }
    for dim in &layout.widths {
        writeln!(text, "let w{dim} = a.dims[{dim}] as usize;").expect("a string");
    }
    text
}

/// The loop on lanes that is open.
pub(super) struct Lanes {
    pub(super) id: LoopId,
    pub(super) full: bool,
    pub(super) varying: HashSet<Val>,
    /// Sums that live in the loop's body and so are lanes themselves.
    pub(super) inner: BTreeSet<Acc>,
    /// Sums of the loop.
    pub(super) sums: BTreeSet<Acc>,
    pub(super) rows_loaded: HashSet<(usize, Val)>,
}

impl Lanes {
    /// The number of lanes that have an iteration.
    fn count(&self) -> &'static str {
        if self.full { "L::N" } else { "n" }
    }

    /// A function that loads consecutive elements, into all lanes or into the first ones.
    fn load(&self, function: &str, at: &str) -> String {
        if self.full { format!("L::{function}({at})") } else { format!("L::{function}_first({at}, n)") }
    }

    /// The channels at `at`; behind the last one of an incomplete register zeros, which nobody reads.
    fn load_channels(&self, at: &str) -> String {
        if self.full { format!("L::load({at})") } else { format!("L::load_some({at}, n)") }
    }
}

pub(super) struct Printer<'a> {
    kernel: &'a Kernel,
    pub(super) b: &'a Body,
    layout: &'a Layout,
    pub(super) out: String,
    pub(super) lanes: Option<Lanes>,
    /// The rows, where these are on lanes.
    rows: Option<rows::Rows>,
    /// Whether lanes are those of code outside of loops over data: rows, or nodes of a mesh.
    wide: bool,
    /// Sums over channels that are in registers.
    held: BTreeSet<Acc>,
    pub(super) paired: Vec<HashSet<(Val, Pair, &'static str)>>,
    data_loops: HashMap<LoopId, Range>,
    /// The arrays that need a loop, of which one must be asked for.
    needed: HashMap<LoopId, BTreeSet<(ParamId, Role)>>,
    /// The cluster form whose first phase this is.
    pub(super) clusters: Option<&'a Clusters>,
    /// A suffix that distinguishes the names of one entry from those of another that is computed beside it.
    pub(super) entry: &'static str,
    /// The cluster form whose sums are given.
    given: Option<&'a Clusters>,
    /// Whether lane types may have one body of a loop for whole and incomplete vectors.
    compact: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(kernel: &'a Kernel, b: &'a Body, layout: &'a Layout) -> Self {
        Self {
            kernel,
            b,
            layout,
            out: String::new(),
            lanes: None,
            rows: None,
            wide: false,
            held: BTreeSet::new(),
            paired: vec![HashSet::default()],
            data_loops: HashMap::default(),
            needed: needed(b),
            clusters: None,
            entry: "",
            given: None,
            compact: false,
        }
    }

    pub(super) fn line(&mut self, s: &str) {
        self.out.push_str(s);
        self.out.push('\n');
    }

    pub(super) fn varies(&self, v: Val) -> bool {
        self.lanes.as_ref().is_some_and(|l| l.varying.contains(&v))
    }

    /// A real, as lanes inside the lane loop and as f64 outside.
    pub(super) fn real(&self, v: Val) -> String {
        if let Some(x) = self.b.constant(v) {
            return if self.lanes.is_some() { format!("L::splat({x:?})") } else { format!("({x:?}f64)") };
        }
        match self.lanes {
            Some(_) if !self.varies(v) => format!("u{v}"),
            _ => format!("v{v}{}", self.entry),
        }
    }

    /// A value that is equal on all lanes.
    pub(super) fn scalar(&self, v: Val) -> String {
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

    fn block(&mut self, stmts: &'a [Stmt]) {
        self.paired.push(HashSet::default());
        // Loads of a block are known there, and in the blocks within it.
        let loaded = self.lanes.as_ref().map(|l| l.rows_loaded.clone());
        for s in stmts {
            self.stmt(s);
        }
        if let (Some(lanes), Some(loaded)) = (&mut self.lanes, loaded) {
            lanes.rows_loaded = loaded;
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
            Stmt::DeclareBest(m, v) => {
                let x = self.real(*v);
                let none = if self.lanes.is_some() { "L::splat(-1.0)" } else { "-1.0f64" };
                self.line(&format!("let (mut m{m}, mut w{m}) = ({x}, {none});"));
            }
            Stmt::Raise { acc, value, place } => self.raise(*acc, *value, *place),
            Stmt::DeclareChannels(m, dim) => {
                let slot = self.layout.scratch(*m);
                self.line(&format!("rt::clear(p{slot}, w{dim}.next_multiple_of(L::N));"));
            }
            Stmt::AccumulateChannel { sum, channel, value } => {
                self.accumulate_channel(*sum, *channel, *value)
            }
            Stmt::Store { param, role, channel: Some(channel), value, .. } => {
                self.store_channel(*param, *role, *channel, *value);
            }
            Stmt::Store { param, role, component, value, .. } if self.rows.is_some() => {
                self.put_row((*param, *role, *component), *value);
            }
            Stmt::Store { param, role, component, value, .. } => {
                let slot = self.layout.slot(*param, Array::Values(*role));
                let stride = self.kernel.components(*param, *role);
                let at = match stride {
                    1 => "row".to_string(),
                    s => format!("{s} * row + {component}"),
                };
                let x = self.scalar(*value);
                self.line(&format!("rt::put(p{slot}, {at}, {x}, a.adds({slot}));"));
            }
            Stmt::Contribute { param, role, row: Some(row), component, channel, value }
                if channel.is_some_and(|c| self.is_lane(c)) || self.is_lane(*row) =>
            {
                self.contribute_channel((*param, *role, *component), *row, *channel, *value);
            }
            Stmt::Contribute { param, role, row: Some(row), channel: Some(column), value, .. } => {
                self.contribute_to_table((*param, *role), *row, *column, *value);
            }
            Stmt::Contribute { param, role, row, component, value, .. } => {
                if let Some(r) = self.layout.reduction(self.b, *param, *role, *component, *row) {
                    let x = if self.rows.is_some() { self.real(*value) } else { self.scalar(*value) };
                    let line = match self.rows {
                        Some(_) => format!("r{r} = L::select(active, r{r} + {x}, r{r});"),
                        None => format!("r{r} += {x};"),
                    };
                    self.line(&line);
                    return;
                }
                let slot = self.layout.slot(*param, Array::Values(*role));
                let (stride, row) = (self.kernel.components(*param, *role), row.expect("not a reduction"));
                if let Op::PairEntry(l) = *self.b.op(row) {
                    let n = self.lanes.as_ref().map_or("n", Lanes::count);
                    if self.varies(row) {
                        let x = self.real(*value);
                        self.line(&format!(
                            "rt::add_entries::<L>(p{slot}, k{l}, {stride}, {component}, {x}, {n});"
                        ));
                    } else {
                        let (at, x) = (self.element(Some(row), stride, *component), self.scalar(*value));
                        self.line(&format!("rt::put(p{slot}, {at}, {x}, true);"));
                    }
                } else if self.wide && self.varies(row) {
                    self.add_to_nodes(row, (slot, stride), *component, *value);
                } else if self.varies(row) {
                    let x = self.real(*value);
                    let n = self.lanes.as_ref().map_or("n", Lanes::count);
                    self.line(&format!(
                        "rt::scatter::<L>(p{slot}, v{row}, {stride}, {component}, {x}, {n});"
                    ));
                } else {
                    let (at, x) = (self.element(Some(row), stride, *component), self.scalar(*value));
                    if let Some(owned) = self.owned(row) {
                        self.line(&format!("if {owned} {{ rt::add(p{slot}, {at}, {x}); }}"));
                        return;
                    }
                    self.line(&format!("rt::add(p{slot}, {at}, {x});"));
                }
            }
            Stmt::For { id, range, body } => match range {
                Range::Ints(..) if self.nodes(s) => {}
                Range::Ints(_, hi) if self.lanes.as_ref().is_some_and(|l| l.id == *id) => {
                    let order = self.scalar(*hi);
                    self.along_axis(*id, &order, body);
                }
                Range::Ints(lo, hi) => {
                    let (lo, hi) = (self.scalar(*lo), self.scalar(*hi));
                    self.line(&format!("let first{id} = {lo};\nfor k{id} in first{id}..{hi} {{"));
                    self.skip_planes(*id, body);
                    self.block(body);
                    self.line("}");
                }
                _ => {
                    let arrays = self.needed.get(id).cloned();
                    if let Some(arrays) = &arrays {
                        self.line("let asked = false;");
                        for (param, role) in arrays {
                            let slot = self.layout.slot(*param, Array::Values(*role));
                            self.line(&format!("let asked = asked || !p{slot}.is_null();"));
                        }
                        self.line("if asked {");
                    }
                    self.data_loop(*id, *range, body);
                    if arrays.is_some() {
                        self.line("}");
                    }
                }
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
        let (v, sign) = self.layout.signed(self.b, v);
        let Some(lanes) = &self.lanes else {
            let x = self.scalar_expr_or_name(v);
            self.line(&format!("m{m} {sign}= {x};"));
            return;
        };
        let sum = if lanes.sums.contains(&m) { format!("l{m}") } else { format!("m{m}") };
        let mut text = self.added(&sum, sign, v);
        if !lanes.full && (self.wide || lanes.sums.contains(&m)) {
            text = format!("L::select(active, {text}, {sum})");
        }
        self.line(&format!("{sum} = {text};"));
    }

    /// A sum on lanes after the addition of a value, or its subtraction.
    pub(super) fn added(&self, sum: &str, sign: char, v: Val) -> String {
        match self.is_fused(v) {
            Some((x, y)) => {
                let minus = if sign == '-' { "-" } else { "" };
                format!("({minus}{}).mul_add({}, {sum})", self.real(x), self.real(y))
            }
            None => format!("{sum} {sign} {}", self.real(v)),
        }
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
        if let Some(clusters) = self.given {
            for (n, sum) in clusters.sums.iter().enumerate() {
                let (m, stride) = (sum.of_part, clusters.sums.len());
                self.line(&format!("m{m} += {:?} * *sums.add({stride} * row + {n});", sum.factor));
            }
            return;
        }
        self.data_loops.insert(id, range);
        let element = |slot, at: &str| format!("*p{slot}.add({at}) as usize");
        let (lo, hi) = self.layout.bounds(range, element, |v| self.scalar(v));
        if strips::in_strips(body) {
            self.strips(id, (&lo, &hi), body);
            return;
        }
        let has_inner = walk(body).any(|s| matches!(s, Stmt::For { range, .. } if range.is_data()));
        if has_inner {
            self.line(&format!("let first{id} = {lo};\nfor k{id} in first{id}..{hi} {{"));
            self.block(body);
            self.line("}");
            return;
        }
        let (sums, bests) = fed(body);
        self.line("{");
        for v in outside_values(self.b, body) {
            self.line(&format!("let u{v} = L::splat(v{v});"));
        }
        self.line(&format!("let (first{id}, end) = ({lo}, {hi});\nlet mut k{id} = first{id};"));
        self.begin_bests(&bests);
        self.line(&format!("while k{id} < end {{"));
        self.line(&format!("let stop = end.min(k{id}.saturating_add(L::N.saturating_mul(L::FLUSH)));"));
        for m in &sums {
            self.line(&format!("let mut l{m} = L::splat(0.0);"));
        }
        let rest = format!("stop - k{id}");
        let (split, n) = match self.compact {
            true => ("L::SPLIT", format!("if L::SPLIT {{ {rest} }} else {{ L::N.min({rest}) }}")),
            false => ("true", rest),
        };
        self.line(&format!("if {split} {{ while k{id} + L::N <= stop {{"));
        self.lane_body(id, body, true, &sums);
        self.line(&format!("k{id} += L::N;\n}} }}"));
        self.line(&format!("while L::N > 1 && k{id} < stop {{"));
        self.line(&format!("let n = {n};\nlet active = L::first(n);"));
        self.lane_body(id, body, false, &sums);
        self.line(&format!("k{id} += n;\nif {split} {{ break; }}\n}}"));
        for m in &sums {
            self.line(&format!("m{m} += l{m}.sum();"));
        }
        self.line("}");
        self.end_bests(&bests);
        self.line("}");
    }

    fn lane_body(&mut self, id: LoopId, body: &'a [Stmt], full: bool, sums: &BTreeSet<Acc>) {
        self.lanes = Some(Lanes {
            id,
            full,
            varying: HashSet::default(),
            inner: declared(body),
            sums: sums.clone(),
            rows_loaded: HashSet::default(),
        });
        // Pairs made outside are scalar; inside everything is computed on lanes.
        let outside = std::mem::replace(&mut self.paired, vec![HashSet::default()]);
        self.block(body);
        self.paired = outside;
        self.lanes = None;
    }

    /// The two forms of a list's shifts.
    fn shift_slots(&self, l: LoopId) -> (usize, usize) {
        (self.list_slot(l, Array::Shift), self.list_slot(l, Array::PackedShift))
    }

    pub(super) fn let_scalar(&mut self, v: Val) {
        use Op::*;
        if self.layout.fused.contains(&v) || self.layout.subtracted.contains(&v) {
            return;
        }
        if let Some(n) = self.clusters.and_then(|c| c.packed_component(self.b, v)) {
            self.line(&format!("let v{v} = rt::get(mine, {n} * L::N);"));
            return;
        }
        let s = |p: &Self, v: Val| p.scalar_expr_or_name(v);
        let text = match self.b.op(v).clone() {
            Const(_) | Int(_) => return,
            Row => return self.meshes(v),
            LoopVar(l) => format!("k{l}"),
            PairColumn(l) => format!("*p{}.add(k{l}) as usize", self.list_slot(l, Array::Column)),
            PairShift(_, c) if self.clusters.is_some() => format!("f64::from(run.shift[{c}])"),
            PairShift(l, c) => {
                let (triples, packed) = self.shift_slots(l);
                format!("f64::from(rt::shift(p{triples}, p{packed}, {}, {c}))", self.entry(l))
            }
            PairRow(l) => format!("*p{}.add(k{l}) as usize", self.list_slot(l, Array::PairRow)),
            PairEntry(l) => self.entry(l),
            Place(l) if matches!(self.data_loops.get(&l), Some(Range::Column { .. })) => {
                let (start, row) = (self.list_slot(l, Array::Start), self.list_slot(l, Array::PairRow));
                format!("({} - *p{start}.add(*p{row}.add(k{l}) as usize) as usize) as f64", self.entry(l))
            }
            Place(l) => format!("(k{l} - first{l}) as f64"),
            PlaceIn { batch, row } => {
                let of = self.layout.slot(batch, Array::SystemOf);
                let (first, row) = (self.layout.slot(batch, Array::Members), self.scalar(row));
                format!("({row} - *p{first}.add(*p{of}.add({row}) as usize) as usize) as f64")
            }
            Best(m) => format!("m{m}"),
            BestPlace(m) => format!("w{m}"),
            Stop(x) => s(self, x),
            IndexOf { param, array: Array::MeshShape, row } => {
                format!(
                    "rt::wave_system(p{}, {})",
                    self.layout.slot(param, Array::MeshShape),
                    self.scalar(row)
                )
            }
            IndexOf { param, array, row } => {
                let slot = self.layout.slot(param, array);
                format!("*p{slot}.add({}) as usize", self.scalar(row))
            }
            Scalar(p) => format!("a.reals[{}]", scalar_position(self.kernel, p)),
            IntScalar(p) => format!("a.ints[{}]", scalar_position(self.kernel, p)),
            ref
            op @ (SplineOrder { .. } | MeshSize { .. } | Spline { .. } | MeshNode { .. } | Wave { .. }) => {
                self.mesh_op(op)
            }
            ReadChannel(..) => unreachable!("loops over channels run on lanes"),
            Load { param, role, row: Some(row), channel: Some(column), .. } => {
                format!("rt::get({})", self.in_table((param, role), row, column).1)
            }
            Load { param, role, row, component, .. } => {
                let slot = self.layout.slot(param, Array::Values(role));
                let at = self.element(row, self.kernel.components(param, role), component);
                format!("rt::get(p{slot}, {at})")
            }
            LoadInt { param, row, component } => {
                let slot = self.layout.slot(param, Array::Values(Role::VALUE));
                let at = self.element(Some(row), self.kernel.components(param, Role::VALUE), component);
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
            Call(f, x) => format!("rt::scalar::{}({})", f.rust(), s(self, x)),
            Pow(x, y) => format!("rt::scalar::pow({}, {})", s(self, x), s(self, y)),
            Atan2(y, x) => format!("rt::scalar::atan2({}, {})", s(self, y), s(self, x)),
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
        self.meshes(v);
    }

    fn list_slot(&self, l: LoopId, array: Array) -> usize {
        self.layout.list_slot(self.data_loops[&l], array)
    }

    /// The entry of the pair that a loop visits.
    fn entry(&self, l: LoopId) -> String {
        match self.data_loops[&l] {
            Range::Column { .. } => format!("*p{}.add(k{l}) as usize", self.list_slot(l, Array::PairEntry)),
            _ => format!("k{l}"),
        }
    }
}
