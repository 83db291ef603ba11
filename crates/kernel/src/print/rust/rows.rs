//! Rows on lanes: parts whose rows do not loop over data run several rows at once, in f64. What belongs to the system of a
//! chunk is computed once, ahead of its rows; what belongs to a line of waves, once a line.

use super::super::layout::{Array, Layout};
use super::{Lanes, Printer, SAFETY, pointers};
use crate::flatten::straightened;
use crate::ir::{Body, Kernel, LoopId, OfWave, Op, ParamId, Range, Role, Stmt, Val, declared};
use crate::mirror::Part;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::BTreeSet;

/// The number of the loop over rows: no other loop has it.
const ROWS: LoopId = LoopId::MAX;

/// How often a value is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Often {
    /// Once for all rows of a call, which are of one system.
    Once,
    /// Once for each line of waves.
    Lines,
    /// For each row.
    Rows,
}

/// The rows of a part on lanes.
pub(super) struct Rows {
    often: HashMap<Val, Often>,
    /// Values that are known before the rows.
    ahead: HashSet<Val>,
}

impl Rows {
    pub(super) fn varies(&self, v: Val) -> bool {
        self.often[&v] == Often::Rows
    }

    pub(super) fn is_ahead(&self, v: Val) -> bool {
        self.ahead.contains(&v)
    }
}

/// The body of a part whose rows can be on lanes, with its branches straightened.
pub fn on_lanes(part: &Part, layout: &Layout) -> Option<Part> {
    if layout.loops || layout.places || !layout.widths.is_empty() || part.body.walk().any(is_bar) {
        return None;
    }
    let part = Part { index: part.index, body: straightened(&part.body) };
    let often = often(&part.body);
    let varies = |v: &Val| often.get(v) == Some(&Often::Rows);
    let fits = |s: &Stmt| match s {
        Stmt::For { range, .. } => {
            let mut same = true;
            range.for_each_arg(|v| same &= !varies(&v));
            same
        }
        Stmt::Let(v) => match part.body.op(*v) {
            Op::IndexOf { row, .. } | Op::Wave { row, .. } => *part.body.op(*row) == Op::Row,
            _ => true,
        },
        _ => true,
    };
    let is_one = meshes(&part.body).len() < 2;
    (is_one && often.values().any(|o| *o == Often::Rows) && part.body.walk().all(fits)).then_some(part)
}

/// Statements that rows on lanes do not have.
fn is_bar(s: &Stmt) -> bool {
    match s {
        Stmt::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).any(|s| matches!(s, Stmt::Store { .. }))
        }
        Stmt::For { range, .. } => !matches!(range, Range::Ints(..)),
        Stmt::DeclareBest(..) | Stmt::Raise { .. } => true,
        _ => false,
    }
}

/// How often each value of a part with rows on lanes is computed.
pub fn often(b: &Body) -> HashMap<Val, Often> {
    let mut often: HashMap<Val, Often> = HashMap::default();
    for s in b.walk() {
        let Stmt::Let(v) = s else { continue };
        let op = b.op(*v);
        let mut of_args = Often::Once;
        op.for_each_arg(|a| of_args = of_args.max(often.get(&a).copied().unwrap_or(Often::Once)));
        let of = match op {
            Op::Row => Often::Rows,
            op if op.is_system() => Often::Once,
            Op::Wave { of: OfWave::Index(0 | 1), .. } => Often::Lines,
            op if op.of_acc().is_some() => Often::Rows,
            _ => of_args,
        };
        often.insert(*v, of);
    }
    often
}

/// The layout of rows on lanes, whose launch is that of the part.
pub fn layout(kernel: &Kernel, part: &Part, of_part: &Layout) -> Layout {
    let (slots, reductions) = (of_part.slots.clone(), of_part.reductions.clone());
    let mut layout = Layout { slots, reductions, ..Layout::new(kernel, part) };
    // Whether a product is the only one to use its factors depends on what else the part computes. Outside of loops none is
    // fused with a sum, so energies have the same bits alone and beside gradients.
    for s in part.body.stmts() {
        if let Stmt::Let(v) = s {
            layout.fused.remove(v);
        }
    }
    layout
}

/// How often a part with rows on lanes computes the values of its own block: those known once, and once a line.
pub fn ahead(b: &Body, often: &HashMap<Val, Often>) -> [Vec<Val>; 2] {
    [Often::Once, Often::Lines].map(|of| {
        let of = |s: &Stmt| if let Stmt::Let(v) = s { Some(*v).filter(|v| often[v] == of) } else { None };
        b.stmts().iter().filter_map(of).collect()
    })
}

/// The function of such a part.
pub(super) fn function(kernel: &Kernel, part: &Part, of_part: &Layout, name: &str) -> String {
    let layout = layout(kernel, part, of_part);
    let (b, often) = (&part.body, often(&part.body));
    let [once, lines] = ahead(b, &often);
    let mut p = Printer::new(kernel, b, &layout);
    p.rows = Some(Rows { ahead: once.iter().chain(&lines).copied().collect(), often });
    for r in 0..layout.reductions.len() {
        p.line(&format!("let mut r{r} = L::splat(0.0);"));
    }
    p.line("let row = lo;");
    p.ahead(&once);
    p.line("let mut row = lo;");
    let mesh = meshes(b).pop_first();
    if let Some(mesh) = mesh {
        let shapes = format!("p{}", layout.slot(mesh, Array::MeshShape));
        let of_row = format!("rt::mesh_of({shapes}, rt::wave_system({shapes}, row))");
        p.line(&format!("let mut line = rt::WaveLine::new({of_row}, row);\nwhile row < hi {{"));
        p.line("let stop = hi.min(line.end());");
        p.ahead(&lines);
    } else {
        p.line("let stop = hi;");
    }
    p.line("while row < stop {\nlet n = L::N.min(stop - row);\nlet active = L::first(n);");
    p.lanes = Some(Lanes {
        id: ROWS,
        full: false,
        varying: HashSet::default(),
        inner: declared(b.stmts()),
        sums: BTreeSet::new(),
        rows_loaded: HashSet::default(),
    });
    p.block(b.stmts());
    p.line("row += n;\n}");
    if mesh.is_some() {
        p.line("line.step();\n}");
    }
    for r in 0..layout.reductions.len() {
        p.line(&format!("*partials.add({r}) += r{r}.sum();"));
    }
    on_wide_lanes(name, &format!("{}if lo >= hi {{ return; }}\n{}", pointers(kernel, &layout, "E"), p.out))
}

/// A function whose lanes are those of code outside of loops over data, and whose arrays are of `E`.
pub(super) fn on_wide_lanes(name: &str, body: &str) -> String {
    let args = "a: &rt::LaunchAbi, lo: usize, hi: usize, partials: *mut f64";
    format!(
        "#[inline(always)]\nunsafe fn {name}<M: rt::Lane>({args}) {{\n\
         #[inline(always)]\nunsafe fn on_lanes<E: rt::Elem, L: rt::Lane<Elem = f64>>({args}) {{\n{SAFETY}unsafe {{\n{body}}}\n}}\n\
         // SAFETY: the caller's promises are the callee's.\n\
         unsafe {{ on_lanes::<M::Elem, M::Rows>(a, lo, hi, partials) }}\n}}\n"
    )
}

/// The meshes whose waves the rows are.
pub fn meshes(b: &Body) -> BTreeSet<ParamId> {
    b.ops().filter_map(|op| if let Op::Wave { mesh, .. } = op { Some(*mesh) } else { None }).collect()
}

impl Printer<'_> {
    /// Values that all rows have in common, as scalars and on lanes.
    fn ahead(&mut self, values: &[Val]) {
        for v in values {
            self.let_whole(*v);
            self.let_splat(*v);
        }
    }

    /// Loads of rows on lanes; `None` for ops that are those of other lanes.
    pub(super) fn row_expr(&mut self, op: &Op) -> Option<String> {
        Some(match *op {
            Op::IndexOf { param, array, .. } => {
                format!("rt::row_index::<L>(p{}, row, n)", self.layout.slot(param, array))
            }
            Op::Wave { of: OfWave::Index(_), .. } => "line.indices::<L>(row)".into(),
            Op::Wave { of: OfWave::Count, .. } => "line.counts::<L>(row)".into(),
            Op::Wave { mesh, of: OfWave::Modulus, .. } => {
                format!("line.moduli::<L>(p{}, row, n)", self.layout.slot(mesh, Array::MeshModuli))
            }
            Op::Load { param, role, row: Some(row), component, .. } => {
                let (slot, stride) = self.array(param, role);
                match (self.b.op(row), stride) {
                    (Op::Row, 3) => {
                        self.load_row(slot, row, &format!("rt::row_load3::<E, L>(p{slot}, row, n)"));
                        format!("s{slot}_{row}[{component}]")
                    }
                    (Op::Row, _) => format!("rt::row_load::<E, L>(p{slot}, row, n, {stride}, {component})"),
                    _ => format!("rt::elements::<E, L>(p{slot}, v{row}, {stride}, {component})"),
                }
            }
            Op::LoadInt { param, row, component } => {
                let (slot, stride) = self.array(param, Role::VALUE);
                match self.b.op(row) {
                    Op::Row => format!("rt::row_ints::<L>(p{slot}, row, n, {stride}, {component})"),
                    _ => format!("L::int_gather(p{slot}, v{row}, {stride}, {component})"),
                }
            }
            Op::Nearest(x) => format!("rt::nearest_of_any({})", self.real(x)),
            _ => return None,
        })
    }

    /// The slot of an array and the components of its elements.
    pub(super) fn array(&self, param: ParamId, role: Role) -> (usize, usize) {
        (self.layout.slot(param, Array::Values(role)), self.kernel.components(param, role))
    }

    pub(super) fn put_row(&mut self, (param, role, component): (ParamId, Role, usize), value: Val) {
        let ((slot, stride), x) = (self.array(param, role), self.real(value));
        self.line(&format!(
            "rt::row_put::<E, L>(p{slot}, (row, n), ({stride}, {component}), {x}, a.adds({slot}));"
        ));
    }
}
