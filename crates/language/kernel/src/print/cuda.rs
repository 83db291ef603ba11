//! CUDA: one `extern "C"` function per part, in plain C-like text. Reals are computed in `REAL`; sums, and values
//! computed from them, in `ACC`; the real array at pointer n holds `Tn`, which is `REAL` unless it is defined before
//! the text (a half of the widths, say). Reals of kernels without adjoint are doubles, but in their arrays. Sums over rows are left per row (`partials`), to be added in a fixed order.
//!
//! A row has `LANES` threads side by side in a warp. Each thread computes the whole row except for divided loops
//! ([`Divided`]): of these it visits every `LANES`th iteration, and the sums are added up over the lanes in a fixed
//! order, so that all lanes go on with equal bits. Lane 0 writes the row's own results. In a nest of loops over nodes the
//! loops along the innermost axis are divided ([`super::nest`]).
//!
//! A product is a term of a sum by an operation with one rounding (`fused`) where it is computed in the sum's block. The text
//! says so, and the compiler is to fuse nothing else: bits depend on no compiler's choice.
//!
//! Data of partners are loaded from their arrays, or, where `PACKED`, from records that a function of its own makes
//! ahead of the launch ([`Records`]). Both give equal numbers.

mod divided;
mod nodes;
mod shared;
mod terms;

use super::divide::{Divided, Division};
use super::nest;
use super::records::Records;
use crate::ir::{Acc, Body, Function, Kernel, LoopId, OfWave, Op, Range, Role, Stmt, Type, Val, walk};
use crate::layout::{Array, Layout, Pair, Slot, scalar_position};
use crate::mirror::Part;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::f64::consts::TAU;
use std::fmt::Write;

/// Statements of a loop that the compiler is not to repeat.
const LONG: usize = 40;

/// The function `name` of a part.
pub fn function(
    kernel: &Kernel,
    part: &Part,
    layout: &Layout,
    divided: &Divided,
    records: Option<&Records>,
    name: &str,
) -> String {
    let mut p = Printer {
        kernel,
        b: &part.body,
        layout,
        divided,
        records,
        out: String::new(),
        loops: HashMap::default(),
        doubles: HashSet::default(),
        within: false,
        in_nest: false,
        scales: HashMap::default(),
        reduced_within: HashSet::default(),
        known: vec![],
        defined: vec![],
    };
    let is_real = |Slot { param, array }: &Slot| {
        matches!(array, Array::Values(role) if !kernel.is_ints(*param, *role)) && !p.b.in_order
    };
    let reals: Vec<usize> = (0..layout.slots.len()).filter(|n| is_real(&layout.slots[*n])).collect();
    for n in &reals {
        p.line(&format!("#ifndef T{n}\n#define T{n} REAL\n#endif"));
    }
    if let Some(r) = records {
        p.where_packed(&r.function(kernel, layout, name));
    }
    let shapes = layout.slots.iter().position(|s| s.array == Array::MeshShape);
    let argument = if shapes.is_some() { ", const __grid_constant__ Shapes shapes" } else { "" };
    p.out += &format!(
        "extern \"C\" __global__ void {name}(const Launch a, long long lo, long long hi, double* partials{argument}) {{\n"
    );
    p.line(if p.has_lanes() {
        "const long long row = lo + (long long)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;"
    } else {
        "const long long row = lo + (long long)blockIdx.x * blockDim.x + threadIdx.x;"
    });
    p.line(if p.b.in_order { "if (row >= hi) return;" } else { "if (row >= hi || is_stopped(a)) return;" });
    let stored: HashSet<_> = stored(&part.body);
    for dim in &layout.widths {
        p.line(&format!("const long long w{dim} = a.dims[{dim}];"));
    }
    for (n, Slot { param, array }) in layout.slots.iter().enumerate() {
        if let Array::Scratch(dim) = array {
            p.line(&format!("ACC* __restrict__ p{n} = (ACC*)a.pointers[{n}] + row * w{dim};"));
            continue;
        }
        if shapes == Some(n) {
            p.line(&format!("const int* __restrict__ p{n} = shapes_at(a.pointers[{n}], shapes);"));
            continue;
        }
        if p.b.in_order && matches!(array, Array::Values(_)) {
            let ty = shared::pointer(kernel.params[*param].kind);
            let plain = ty.trim_end_matches(" __restrict__");
            p.line(&format!("{ty} p{n} = ({plain})a.pointers[{n}];"));
            continue;
        }
        let ty = match array {
            Array::Values(_) if layout.nodes.contains_key(&Slot::new(*param, *array)) => {
                format!("NODES(T{n})*")
            }
            Array::Values(_) if layout.scattered.contains(&Slot::new(*param, *array)) => {
                format!("SCATTERED(T{n})*")
            }
            Array::Values(role) if stored.contains(&(*param, *role)) => format!("T{n}*"),
            Array::Values(role) if !kernel.is_ints(*param, *role) => format!("const T{n}*"),
            array if array.is_long() => "const long long*".into(),
            Array::MeshModuli => "const double*".into(),
            _ => "const int*".into(),
        };
        p.line(&format!("{ty} __restrict__ p{n} = ({ty})a.pointers[{n}];"));
    }
    if let Some(r) = records {
        let (ty, n) = (r.ty(), layout.slots.len());
        p.where_packed(&format!("const {ty}* __restrict__ records = (const {ty}*)a.pointers[{n}];\n"));
    }
    for r in 0..layout.reductions.len() {
        p.line(&format!("ACC r{r} = 0;"));
    }
    p.block(part.body.stmts());
    let n = layout.reductions.len();
    for r in 0..n {
        if p.reduced_within.contains(&r) {
            p.line(&format!("r{r} = sum_of_lanes(r{r}, WARP);"));
        }
        p.line_of_row(&format!("leave(partials, row * {n} + {r}, r{r});"));
    }
    p.out += "}\n";
    for n in &reals {
        p.line(&format!("#undef T{n}"));
    }
    p.out
}

/// Whether statements add to sums over channels, of those that are given.
fn feeds_channels(stmts: &[Stmt], sums: &HashSet<Acc>) -> bool {
    walk(stmts).any(|s| matches!(s, Stmt::AccumulateChannel { sum, .. } if sums.contains(sum)))
}

/// The arrays that statements write.
fn stored(b: &Body) -> HashSet<(usize, Role)> {
    let array = |s: &Stmt| match s {
        Stmt::Store { param, role, .. } | Stmt::Contribute { param, role, .. } => Some((*param, *role)),
        _ => None,
    };
    b.walk().filter_map(array).collect()
}

struct Printer<'a> {
    kernel: &'a Kernel,
    b: &'a Body,
    layout: &'a Layout,
    divided: &'a Divided,
    records: Option<&'a Records>,
    out: String,
    loops: HashMap<LoopId, Range>,
    /// Values that depend on a sum.
    doubles: HashSet<Val>,
    /// Whether the lanes are at iterations of their own.
    within: bool,
    /// Whether a statement is in a nest of loops over nodes.
    in_nest: bool,
    /// Sums that the open loop adds a few terms to at a time, with the factor that these lack.
    scales: HashMap<Acc, f64>,
    /// Sums over rows that lanes have parts of.
    reduced_within: HashSet<usize>,
    /// Common parts of several values that have been printed, by name, block by block.
    known: Vec<HashSet<String>>,
    /// Values that have been defined, block by block.
    defined: Vec<HashSet<Val>>,
}

impl Printer<'_> {
    fn line(&mut self, s: &str) {
        self.out.push_str(s);
        self.out.push('\n');
    }

    /// Lines that are there where records are.
    fn where_packed(&mut self, lines: &str) {
        self.out += &format!("#if PACKED\n{lines}#endif\n");
    }

    fn has_lanes(&self) -> bool {
        self.divided.lanes != Division::None
    }

    /// A statement that runs once for the row, or once for the iteration that a lane visits.
    fn line_of_row(&mut self, s: &str) {
        if self.has_lanes() && !self.within {
            self.line(&format!("if (LANE == 0) {s}"));
        } else {
            self.line(s);
        }
    }

    fn v(&self, v: Val) -> String {
        match self.b.op(v) {
            Op::Const(bits) => {
                let x = f64::from_bits(*bits);
                // A literal beyond the numbers of a float is none of one.
                if x.abs() > f64::from(f32::MAX) && !self.b.in_order {
                    format!("REAL(wide({x:?}))")
                } else {
                    format!("{}({x:?})", self.real())
                }
            }
            Op::Int(i64::MIN) => "(-9223372036854775807LL - 1)".into(),
            Op::Int(i) => format!("{i}LL"),
            Op::Channel(n, _) => format!("{n}LL"),
            Op::Row => "row".into(),
            Op::Mul(x, y) if self.layout.fused.contains(&v) => format!("({} * {})", self.v(*x), self.v(*y)),
            _ => format!("v{v}"),
        }
    }

    /// The type that reals are computed in.
    fn real(&self) -> &'static str {
        if self.b.in_order { "double" } else { "REAL" }
    }

    /// The type of a value; `double`: that depends on a sum.
    fn ty(&self, v: Val, double: bool) -> &'static str {
        match self.b.ty(v) {
            Type::Real if double && !self.b.in_order => "ACC",
            Type::Real => self.real(),
            Type::Bool => "bool",
            Type::Int | Type::Index(_) => "long long",
        }
    }

    /// The threads that exchange numbers at a statement: those of a warp where all its rows pass, else those of a row; 0 where
    /// a thread is by itself.
    fn threads(&self) -> &'static str {
        match self.known.len() {
            _ if !self.has_lanes() || self.within => "0",
            0 | 1 => "WARP",
            _ => "lanes_of_row()",
        }
    }

    fn at(
        &self,
        param: usize,
        role: Role,
        row: Option<String>,
        component: usize,
        channel: Option<Val>,
    ) -> String {
        let element = match channel {
            None => row,
            Some(c) => {
                let (width, c) = (self.b.width(c), self.v(c));
                Some(row.map_or(c.clone(), |r| format!("({r} * w{width} + {c})")))
            }
        };
        match (element, self.kernel.components(param, role)) {
            (None, _) => format!("{component}"),
            (Some(e), 1) => e,
            (Some(e), s) => format!("{s} * {e} + {component}"),
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        self.known.push(HashSet::default());
        self.defined.push(HashSet::default());
        let mut channels = HashSet::default();
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    self.define(*v);
                    self.defined.last_mut().expect("a block is open").insert(*v);
                }
                Stmt::Declare(m, v) => {
                    let (x, ty) = (self.v(*v), self.ty(*v, true));
                    self.line(&format!("{ty} m{m} = {x};"));
                }
                Stmt::Accumulate(m, v) => self.accumulate(*m, *v),
                Stmt::DeclareBest(m, v) => {
                    let x = self.v(*v);
                    self.line(&format!("ACC m{m} = {x}, w{m} = -1;"));
                }
                Stmt::Raise { acc: m, value, place } => {
                    let (x, at) = (self.v(*value), self.v(*place));
                    self.line(&format!("if ({x} > m{m}) {{ m{m} = {x}; w{m} = {at}; }}"));
                }
                Stmt::DeclareChannels(m, dim) => {
                    let slot = self.layout.scratch(*m);
                    channels.insert(*m);
                    // Another lane may still read the old values.
                    self.exchange();
                    let (first, step) = if self.has_lanes() { ("LANE", "LANES") } else { ("0", "1") };
                    self.line(&format!(
                        "for (long long c = {first}; c < w{dim}; c += {step}) p{slot}[c] = 0;"
                    ));
                    self.exchange();
                }
                Stmt::AccumulateChannel { sum, channel, value } => {
                    let (slot, c) = (self.layout.scratch(*sum), self.v(*channel));
                    let sum = self.plus(&format!("p{slot}[{c}]"), '+', *value);
                    self.line(&format!("p{slot}[{c}] = {sum};"));
                }
                Stmt::Store { param, role, component, channel, value } => {
                    let slot = self.layout.slot(*param, Array::Values(*role));
                    let at = self.at(*param, *role, Some("row".into()), *component, *channel);
                    let x = self.v(*value);
                    self.line_of_row(&format!("put(p{slot}, {at}, {x}, (a.adds >> {slot}) & 1);"));
                }
                Stmt::Contribute { param, role, row, component, channel, value } => {
                    let x = self.v(*value);
                    if let Some(r) = self.layout.reduction(self.b, *param, *role, *component, *row) {
                        if self.within {
                            self.reduced_within.insert(r);
                        }
                        let sum = self.plus(&format!("r{r}"), '+', *value);
                        self.line_of_row(&format!("r{r} = {sum};"));
                    } else if let Some(Op::MeshNode { .. }) = row.map(|r| self.b.op(r))
                        && self.in_nest
                    {
                        let (slot, at) = (
                            self.layout.slot(*param, Array::Values(*role)),
                            self.at(*param, *role, row.map(|r| self.v(r)), *component, *channel),
                        );
                        self.line(&format!("nodes{slot}.add({at}, {x});"));
                    } else {
                        let slot = self.layout.slot(*param, Array::Values(*role));
                        let at = self.at(*param, *role, row.map(|r| self.v(r)), *component, *channel);
                        let own = row.is_some_and(|r| matches!(self.b.op(r), Op::PairEntry(_)));
                        let add = if own { "put" } else { "scatter" };
                        let last = if own { ", true" } else { "" };
                        self.line_of_row(&format!("{add}(p{slot}, {at}, {x}{last});"));
                    }
                }
                Stmt::For { id, range, body } => {
                    self.loops.insert(*id, *range);
                    let value = |v| match self.b.op(v) {
                        Op::SplineOrder { .. } => "ORDER".into(),
                        _ => self.v(v),
                    };
                    let (lo, hi) = self.layout.bounds(*range, |slot, at| format!("p{slot}[{at}]"), value);
                    self.line(&format!("const long long first{id} = {lo}, last{id} = {hi};"));
                    if nest::is_over_nodes(self.b, *range) {
                        self.loop_over_nodes(*id, body);
                    } else if self.divided.loops.contains(id) {
                        self.divided_loop(*id, body);
                    } else {
                        // The compiler repeats the body of a loop over constants: a long one would run out of registers.
                        if walk(body).count() > LONG {
                            self.line("#pragma unroll 1");
                        }
                        self.line(&format!(
                            "for (long long k{id} = first{id}; k{id} < last{id}; ++k{id}) {{"
                        ));
                        self.block(body);
                        self.line("}");
                    }
                    if feeds_channels(body, &channels) {
                        self.exchange();
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    let c = self.v(*condition);
                    self.line(&format!("if ({c}) {{"));
                    self.block(then);
                    self.line("} else {");
                    self.block(otherwise);
                    self.line("}");
                }
                s => self.in_order(s),
            }
        }
        self.known.pop();
        self.defined.pop();
    }

    /// A barrier that makes sums over channels visible to all lanes.
    fn exchange(&mut self) {
        if self.divided.exchanged && self.has_lanes() {
            self.line("wait_for_lanes();");
        }
    }

    /// An array of the pair list that a loop goes over.
    fn of_list(&self, l: LoopId, array: Array) -> usize {
        self.layout.list_slot(self.loops[&l], array)
    }

    /// The entry of the pair that a loop visits.
    fn entry(&self, l: LoopId) -> String {
        match self.loops[&l] {
            Range::Column { .. } => format!("p{}[k{l}]", self.of_list(l, Array::PairEntry)),
            _ => format!("k{l}"),
        }
    }

    fn define(&mut self, v: Val) {
        use Op::*;
        if self.layout.fused.contains(&v) || self.layout.subtracted.contains(&v) {
            if self.b.op(v).any_arg(|a| self.doubles.contains(&a)) {
                self.doubles.insert(v);
            }
            return;
        }
        let mut text = String::new();
        let t = &mut text;
        let paired = self.paired(v);
        if let PairShift(l, _) = self.b.op(v) {
            self.know_shift(*l);
        }
        let (x, real) = (|v: &Val| self.v(*v), self.real());
        let written = match self.b.op(v) {
            _ if paired.is_some() => write!(t, "{}", paired.unwrap_or_default()),
            Const(_) | Int(_) | Channel(..) => return,
            Row => return self.tables(v),
            LoopVar(l) => write!(t, "k{l}"),
            PairColumn(l) => write!(t, "p{}[k{l}]", self.of_list(*l, Array::Column)),
            PairShift(l, c) => write!(t, "{real}(s{l}.of[{c}])"),
            PairRow(l) => write!(t, "p{}[k{l}]", self.of_list(*l, Array::PairRow)),
            PairEntry(l) => write!(t, "{}", self.entry(*l)),
            Place(l) if matches!(self.loops[l], Range::Column { .. }) => {
                let (start, row) = (self.of_list(*l, Array::Start), self.of_list(*l, Array::PairRow));
                write!(t, "REAL({} - p{start}[p{row}[k{l}]])", self.entry(*l))
            }
            Place(l) => write!(t, "REAL(k{l} - first{l})"),
            PlaceIn { batch, row } => {
                let (of, first) =
                    (self.layout.slot(*batch, Array::SystemOf), self.layout.slot(*batch, Array::Members));
                let row = x(row);
                write!(t, "REAL({row} - p{first}[p{of}[{row}]])")
            }
            Best(m) => write!(t, "m{m}"),
            BestPlace(m) => write!(t, "w{m}"),
            Stop(a) => write!(t, "{}", x(a)),
            IndexOf { param, array: Array::MeshShape, row } => {
                write!(t, "wave_system(p{}, {})", self.layout.slot(*param, Array::MeshShape), x(row))
            }
            IndexOf { param, array, row } => write!(t, "p{}[{}]", self.layout.slot(*param, *array), x(row)),
            Scalar(p) => write!(t, "{real}(a.reals[{}])", scalar_position(self.kernel, *p)),
            IntScalar(p) => write!(t, "a.ints[{}]", scalar_position(self.kernel, *p)),
            SplineOrder { mesh, system } => write!(t, "{}[3]", self.mesh_of(*mesh, *system)),
            MeshSize { mesh, system, axis } => write!(t, "{}[{axis}]", self.mesh_of(*mesh, *system)),
            Spline { mesh, system, axis, at, node, derivative } => {
                let (table, place) = self.node(*mesh, *system, *axis, *at, *node);
                write!(t, "{table}.weight({derivative}, {place})")
            }
            MeshNode { mesh, system, at, node } => {
                let of = [0, 1, 2].map(|axis| {
                    let (table, place) = self.node(*mesh, *system, axis, at[axis], node[axis]);
                    format!("{table}.index({place})")
                });
                write!(t, "{}", of.join(" + "))
            }
            Wave { mesh, system, row, of } => {
                let (mesh_of, row) = (self.mesh_of(*mesh, *system), x(row));
                match of {
                    OfWave::Index(axis) => write!(t, "REAL(wave_index({mesh_of}, {row}, {axis}))"),
                    OfWave::Count => write!(t, "REAL(wave_count({mesh_of}, {row}))"),
                    OfWave::Modulus => {
                        let moduli = self.layout.slot(*mesh, Array::MeshModuli);
                        write!(t, "REAL(wave_modulus({mesh_of}, p{moduli}, {row}))")
                    }
                }
            }
            Load { param, row, component, .. } | Element { param, row, component } if self.b.in_order => {
                write!(t, "{}", self.shared(*param, *row, *component))
            }
            Load { param, role, row, component, channel } => {
                let slot = self.layout.slot(*param, Array::Values(*role));
                let plain = format!(
                    "REAL(p{slot}[{}])",
                    self.at(*param, *role, row.as_ref().map(x), *component, *channel)
                );
                let field = self.records.zip(*row).and_then(|(records, row)| {
                    let field = channel.is_none().then(|| records.position(row, (*param, *role, *component)));
                    Some((row, field??))
                });
                match field {
                    Some((row, n)) => write!(t, "GATHERED({plain}, g{row}.of[{n}])"),
                    None => write!(t, "{plain}"),
                }
            }
            LoadInt { param, row, component } => {
                let slot = self.layout.slot(*param, Array::Values(Role::VALUE));
                write!(t, "REAL(p{slot}[{}])", self.at(*param, Role::VALUE, Some(x(row)), *component, None))
            }
            Read(m) => write!(t, "m{m}"),
            ReadChannel(m, c) => write!(t, "p{}[{}]", self.layout.scratch(*m), x(c)),
            Own { value: a, .. } | Number(a) => write!(t, "{}", x(a)),
            Add(a, b) if self.b.in_order => write!(t, "{} + {}", x(a), x(b)),
            Sub(a, b) if self.b.in_order => write!(t, "{} - {}", x(a), x(b)),
            Add(a, b) => write!(t, "{}", self.sum(*a, '+', *b)),
            Sub(a, b) => write!(t, "{}", self.sum(*a, '-', *b)),
            Integers(op, a, b) => write!(t, "{}", shared::integers(*op, &x(a), &x(b))),
            CompareIntegers(op, a, b) => write!(t, "{} {} {}", x(a), shared::comparison(*op), x(b)),
            Mul(a, b) => write!(t, "{} * {}", x(a), x(b)),
            Div(a, b) => write!(t, "{} / {}", x(a), x(b)),
            Abs(a) => write!(t, "fabs({})", x(a)),
            ToInt(a) => write!(t, "to_int({})", x(a)),
            IsFinite(a) => write!(t, "is_finite({})", x(a)),
            Bool(b) => write!(t, "{b}"),
            Xor(a, b) => write!(t, "{} != {}", x(a), x(b)),
            Size(dim) => write!(t, "a.dims[{dim}]"),
            Element { .. } => unreachable!("an element as an integer is one of a kernel without adjoint"),
            Atomic { op, param, row, value } => {
                write!(t, "{}", self.atomic(*op, *param, *row, *value))
            }
            Neg(a) => write!(t, "-{}", x(a)),
            Recip(a) => write!(t, "{real}(1) / {}", x(a)),
            Sqrt(a) => write!(t, "sqrt({})", x(a)),
            Call(Function::Erfc, a) => write!(t, "erfc_exp_neg_sq({}).first", x(a)),
            Call(f, a) => write!(t, "{}({})", f.cuda(), x(a)),
            Pow(a, b) => write!(t, "pow({}, {})", x(a), x(b)),
            Atan2(a, b) => write!(t, "angle({}, {})", x(a), x(b)),
            Nearest(a) => write!(t, "rint({})", x(a)),
            FromInt(a) => write!(t, "{real}({})", x(a)),
            Lt(a, b) => write!(t, "{} < {}", x(a), x(b)),
            Le(a, b) => write!(t, "{} <= {}", x(a), x(b)),
            Eq(a, b) => write!(t, "{} == {}", x(a), x(b)),
            And(a, b) => write!(t, "{} && {}", x(a), x(b)),
            Or(a, b) => write!(t, "{} || {}", x(a), x(b)),
            Not(a) => write!(t, "!{}", x(a)),
            Select(c, a, b) => write!(t, "{} ? {} : {}", x(c), x(a), x(b)),
        };
        written.expect("writing to a string");
        let op = self.b.op(v);
        let double = op.of_acc().is_some() || op.any_arg(|a| self.doubles.contains(&a));
        if double {
            self.doubles.insert(v);
        }
        let ty = self.ty(v, double);
        self.line(&format!("const {ty} v{v} = {text};"));
        if let Some(records) = self.records.filter(|r| r.has(v)) {
            self.where_packed(&format!("const {} g{v} = records[v{v}];\n", records.ty()));
        }
        self.tables(v);
    }

    /// One of two functions that share their work, where both are needed.
    fn paired(&mut self, v: Val) -> Option<String> {
        let (x, pair, which) = self.layout.pair(self.b, v)?;
        if let (Pair::SinCos, Some(turns)) = (pair, self.turns(x)) {
            let name = format!("b{x}_sin_cos_turns");
            self.know(&name, format!("sin_cos_turns({})", self.v(turns)));
            return Some(format!("{name}.{}", ["first", "second"][which]));
        }
        let both = pair.name();
        let name = format!("b{x}_{both}");
        self.know(&name, format!("{both}({})", self.v(x)));
        Some(format!("{name}.{}", ["first", "second"][which]))
    }

    /// An angle in turns, where it is 2π times something.
    fn turns(&self, angle: Val) -> Option<Val> {
        let is_turn = |v: Val| matches!(self.b.op(v), Op::Const(bits) if f64::from_bits(*bits) == TAU);
        match *self.b.op(angle) {
            Op::Mul(a, x) | Op::Mul(x, a) if is_turn(a) => Some(x),
            _ => None,
        }
    }

    /// The shift of the pair that a loop visits: a packed one is read once for all its components.
    fn know_shift(&mut self, l: LoopId) {
        let (triples, packed) = (self.of_list(l, Array::Shift), self.of_list(l, Array::PackedShift));
        self.know(&format!("s{l}"), format!("shift(p{triples}, p{packed}, {})", self.entry(l)));
    }

    /// Defines `name`, unless it is known already.
    fn know(&mut self, name: &str, what: String) {
        if !self.known.iter().any(|known| known.contains(name)) {
            self.known.last_mut().expect("a block is open").insert(name.into());
            self.line(&format!("const auto {name} = {what};"));
        }
    }
}
