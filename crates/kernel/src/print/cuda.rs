//! CUDA: one `extern "C"` function per part, a thread per row, in plain C-like text. Reals are `REAL`; sums, and what
//! is computed from them, are double. Sums over rows are left per row (`partials`), to be added in a fixed order.

use super::layout::{Array, Layout, scalar_position};
use crate::ir::{Body, Kernel, Kind, LoopId, Op, Range, Role, Stmt, Type, Val};
use crate::mirror::Part;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// The function `name` of a part.
pub fn function(kernel: &Kernel, part: &Part, layout: &Layout, name: &str) -> String {
    let mut p = Printer {
        kernel,
        b: &part.body,
        layout,
        out: String::new(),
        loops: HashMap::new(),
        doubles: HashSet::new(),
    };
    p.out += &format!(
        "extern \"C\" __global__ void {name}(const Launch a, long long lo, long long hi, double* partials) {{\n"
    );
    p.line("const long long row = lo + (long long)blockIdx.x * blockDim.x + threadIdx.x;");
    p.line("if (row >= hi) return;");
    let stored: HashSet<_> = stored(&part.body);
    for (n, (param, array)) in layout.slots.iter().enumerate() {
        let ty = match array {
            Array::Values(role) if stored.contains(&(*param, *role)) => "REAL*",
            Array::Values(_) if !matches!(kernel.params[*param].kind, Kind::Ints { .. }) => "const REAL*",
            _ => "const int*",
        };
        p.line(&format!("{ty} __restrict__ p{n} = ({ty})a.pointers[{n}];"));
    }
    for r in 0..layout.reductions.len() {
        p.line(&format!("double r{r} = 0;"));
    }
    p.block(part.body.stmts());
    let n = layout.reductions.len();
    for r in 0..n {
        p.line(&format!("partials[row * {n} + {r}] = r{r};"));
    }
    p.out += "}\n";
    p.out
}

fn stored(b: &Body) -> HashSet<(usize, Role)> {
    let mut found = HashSet::new();
    b.for_each_stmt(&mut |s| {
        if let Stmt::Store { param, role, .. } | Stmt::Contribute { param, role, .. } = s {
            found.insert((*param, *role));
        }
    });
    found
}

struct Printer<'a> {
    kernel: &'a Kernel,
    b: &'a Body,
    layout: &'a Layout,
    out: String,
    loops: HashMap<LoopId, Range>,
    /// Values that depend on a sum.
    doubles: HashSet<Val>,
}

impl Printer<'_> {
    fn line(&mut self, s: &str) {
        self.out.push_str(s);
        self.out.push('\n');
    }

    fn v(&self, v: Val) -> String {
        match self.b.op(v) {
            Op::Const(bits) => format!("REAL({:?})", f64::from_bits(*bits)),
            Op::Int(i) => format!("{i}LL"),
            Op::Row => "row".into(),
            Op::Mul(x, y) if self.layout.fused.contains(&v) => format!("({} * {})", self.v(*x), self.v(*y)),
            _ => format!("v{v}"),
        }
    }

    fn at(&self, param: usize, row: Option<Val>, component: usize) -> String {
        let stride = match self.kernel.params[param].kind {
            Kind::Real { components, .. }
            | Kind::Output { components, .. }
            | Kind::Ints { components, .. } => components,
            _ => 1,
        };
        match (row, stride) {
            (None, _) => format!("{component}"),
            (Some(r), 1) => self.v(r),
            (Some(r), s) => format!("{s} * {} + {component}", self.v(r)),
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            match s {
                Stmt::Let(v) => self.define(*v),
                Stmt::Declare(m, v) => {
                    let x = self.v(*v);
                    self.line(&format!("double m{m} = {x};"));
                }
                Stmt::Accumulate(m, v) => {
                    let (v, sign) = match self.b.op(*v) {
                        Op::Neg(x) if self.layout.subtracted.contains(v) => (*x, '-'),
                        _ => (*v, '+'),
                    };
                    let x = self.v(v);
                    self.line(&format!("m{m} {sign}= {x};"));
                }
                Stmt::Store { param, role, component, value } => {
                    let slot = self.layout.slot(*param, Array::Values(*role));
                    let (at, x) = (self.own(*param, *component), self.v(*value));
                    self.line(&format!("put(p{slot}, {at}, {x}, (a.adds >> {slot}) & 1);"));
                }
                Stmt::Contribute { param, role, row, component, value } => {
                    let x = self.v(*value);
                    if let Some(r) = self.layout.reduction(self.b, *param, *role, *component, *row) {
                        self.line(&format!("r{r} += {x};"));
                    } else {
                        let slot = self.layout.slot(*param, Array::Values(*role));
                        let at = self.at(*param, *row, *component);
                        self.line(&format!("scatter(p{slot}, {at}, {x});"));
                    }
                }
                Stmt::For { id, range, body } => {
                    self.loops.insert(*id, *range);
                    let (lo, hi) = match *range {
                        Range::Ints(lo, hi) => (self.v(lo), self.v(hi)),
                        Range::Pairs { list, row } => {
                            let (s, e) =
                                (self.layout.slot(list, Array::Start), self.layout.slot(list, Array::End));
                            (format!("p{s}[{}]", self.v(row)), format!("p{e}[{}]", self.v(row)))
                        }
                        Range::Members { batch, system } => {
                            let m = self.layout.slot(batch, Array::Members);
                            let b = self.v(system);
                            (format!("p{m}[{b}]"), format!("p{m}[{b} + 1]"))
                        }
                    };
                    self.line(&format!("for (long long k{id} = {lo}; k{id} < {hi}; ++k{id}) {{"));
                    self.block(body);
                    self.line("}");
                }
                Stmt::If { condition, then, otherwise } => {
                    let c = self.v(*condition);
                    self.line(&format!("if ({c}) {{"));
                    self.block(then);
                    self.line("} else {");
                    self.block(otherwise);
                    self.line("}");
                }
            }
        }
    }

    fn own(&self, param: usize, component: usize) -> String {
        match self.kernel.params[param].kind {
            Kind::Real { components: 1, .. } | Kind::Output { components: 1, .. } => "row".into(),
            Kind::Real { components, .. } | Kind::Output { components, .. } => {
                format!("{components} * row + {component}")
            }
            _ => unreachable!("only real arrays are stored to"),
        }
    }

    fn define(&mut self, v: Val) {
        use Op::*;
        if self.layout.fused.contains(&v) || self.layout.subtracted.contains(&v) {
            let mut double = false;
            self.b.op(v).for_each_arg(|a| double |= self.doubles.contains(&a));
            if double {
                self.doubles.insert(v);
            }
            return;
        }
        let list = |p: &Self, l: LoopId, array| match p.loops[&l] {
            Range::Pairs { list, .. } => p.layout.slot(list, array),
            _ => unreachable!("pairs come from a loop over pairs"),
        };
        let mut text = String::new();
        let t = &mut text;
        let x = |v: &Val| self.v(*v);
        let written = match self.b.op(v) {
            Const(_) | Int(_) | Row => return,
            LoopVar(l) => write!(t, "k{l}"),
            PairColumn(l) => write!(t, "p{}[k{l}]", list(self, *l, Array::Column)),
            PairShift(l, c) => write!(t, "REAL(p{}[3 * k{l} + {c}])", list(self, *l, Array::Shift)),
            SystemOf { batch, row } => {
                write!(t, "p{}[{}]", self.layout.slot(*batch, Array::SystemOf), x(row))
            }
            Scalar(p) => write!(t, "REAL(a.reals[{}])", scalar_position(self.kernel, *p)),
            IntScalar(p) => write!(t, "a.ints[{}]", scalar_position(self.kernel, *p)),
            Load { param, role, row, component } => {
                let slot = self.layout.slot(*param, Array::Values(*role));
                write!(t, "p{slot}[{}]", self.at(*param, *row, *component))
            }
            LoadInt { param, row, component } => {
                let slot = self.layout.slot(*param, Array::Values(Role::VALUE));
                write!(t, "REAL(p{slot}[{}])", self.at(*param, Some(*row), *component))
            }
            Read(m) => write!(t, "m{m}"),
            Own { value, .. } => write!(t, "{}", x(value)),
            Add(a, b) | IAdd(a, b) => write!(t, "{} + {}", x(a), x(b)),
            Sub(a, b) | ISub(a, b) => write!(t, "{} - {}", x(a), x(b)),
            Mul(a, b) | IMul(a, b) => write!(t, "{} * {}", x(a), x(b)),
            Neg(a) => write!(t, "-{}", x(a)),
            Recip(a) => write!(t, "REAL(1) / {}", x(a)),
            Sqrt(a) => write!(t, "sqrt({})", x(a)),
            Exp(a) => write!(t, "exp({})", x(a)),
            Ln(a) => write!(t, "log({})", x(a)),
            Pow(a, b) => write!(t, "pow({}, {})", x(a), x(b)),
            Erfc(a) => write!(t, "erfc({})", x(a)),
            ExpNegSq(a) => write!(t, "exp_neg_sq({})", x(a)),
            Sin(a) => write!(t, "sin({})", x(a)),
            Cos(a) => write!(t, "cos({})", x(a)),
            Nearest(a) => write!(t, "rint({})", x(a)),
            FromInt(a) => write!(t, "REAL({})", x(a)),
            Lt(a, b) | ILt(a, b) => write!(t, "{} < {}", x(a), x(b)),
            Le(a, b) => write!(t, "{} <= {}", x(a), x(b)),
            Eq(a, b) | IEq(a, b) => write!(t, "{} == {}", x(a), x(b)),
            And(a, b) => write!(t, "{} && {}", x(a), x(b)),
            Or(a, b) => write!(t, "{} || {}", x(a), x(b)),
            Not(a) => write!(t, "!{}", x(a)),
            Select(c, a, b) => write!(t, "{} ? {} : {}", x(c), x(a), x(b)),
        };
        written.expect("writing to a string");
        let mut double = matches!(self.b.op(v), Read(_));
        self.b.op(v).for_each_arg(|a| double |= self.doubles.contains(&a));
        if double {
            self.doubles.insert(v);
        }
        let ty = match self.b.ty(v) {
            Type::Real if double => "double",
            Type::Real => "REAL",
            Type::Bool => "bool",
            Type::Int | Type::Index(_) => "long long",
        };
        self.line(&format!("const {ty} v{v} = {text};"));
    }
}
