//! Instructions on numbers: scalars, lanes, and both.

use super::special::Special;
use super::{Printer, Value, real};
use madelung_core::runtime::LaunchAbi;
use madelung_interpreter::by_name;
use madelung_kernel::program::Instruction as I;
use madelung_kernel::program::{Combine, Compare, Fused, IntegerOp, Unary, Vector};
use std::mem::offset_of;

/// Predicates of comparisons, of reals and of integers.
fn predicates(op: Compare) -> [&'static str; 2] {
    match op {
        Compare::Lt => ["olt", "slt"],
        Compare::Le => ["ole", "sle"],
        Compare::Eq => ["oeq", "eq"],
        Compare::Ne => ["une", "ne"],
    }
}

impl Printer {
    /// An instruction on scalars.
    pub(super) fn of_scalars(&mut self, i: &I) {
        match *i {
            I::Copy { from, to } => {
                let x = self.scalar(from);
                self.set_scalar(to, &x);
            }
            I::Unary { op, x, to } => {
                let x = self.scalar(x);
                let y = self.unary(op, &x);
                self.set_scalar(to, &y);
            }
            I::Combine { op, x, y, to } => {
                let (x, y) = (self.scalar(x), self.scalar(y));
                let operator = match op {
                    Combine::Add => "fadd",
                    Combine::Sub => "fsub",
                    Combine::Mul => "fmul",
                    Combine::Div => "fdiv",
                    Combine::Pow => return self.scalar_call("pow", &[&x, &y], to),
                    Combine::Atan2 => return self.scalar_call("atan2", &[&x, &y], to),
                };
                let z = self.line(format_args!("{operator} double {x}, {y}"));
                self.set_scalar(to, &z);
            }
            I::Select { condition, x, y, to } => {
                let (condition, x, y) = (self.condition(condition), self.scalar(x), self.scalar(y));
                let z = self.line(format_args!("select i1 {condition}, double {x}, double {y}"));
                self.set_scalar(to, &z);
            }
            I::ToReal { x, to } => {
                let x = self.int(x);
                let y = self.line(format_args!("sitofp i64 {x} to double"));
                self.set_scalar(to, &y);
            }
            I::ToInteger { x, to } => {
                let x = self.scalar(x);
                let y = self.call("i64", "llvm.fptosi.sat.i64.f64", &[("double", &x)]);
                self.set_int(to, &y);
            }
            I::CopyInteger { from, to } => {
                let x = self.int(from);
                self.set_int(to, &x);
            }
            I::Integers { op, x, y, to } => {
                let (x, y) = (self.int(x), self.int(y));
                let z = self.integers(op, &x, &y);
                self.set_int(to, &z);
            }
            I::Compare { op, x, y, to } => {
                let (x, y) = (self.scalar(x), self.scalar(y));
                let z = self.line(format_args!("fcmp {} double {x}, {y}", predicates(op)[0]));
                self.set_condition(to, &z);
            }
            I::CompareIntegers { op, x, y, to } => {
                let (x, y) = (self.int(x), self.int(y));
                let z = self.line(format_args!("icmp {} i64 {x}, {y}", predicates(op)[1]));
                self.set_condition(to, &z);
            }
            I::IsFinite { x, to } => {
                let x = self.scalar(x);
                let x = self.call("double", "llvm.fabs.f64", &[("double", &x)]);
                let z = self.line(format_args!("fcmp olt double {x}, {}", real(f64::INFINITY)));
                self.set_condition(to, &z);
            }
            I::Conditions { op, x, y, to } => {
                let (x, y) = (self.condition(x), self.condition(y));
                let z = self.line(format_args!("{} i1 {x}, {y}", of_bits(op)));
                self.set_condition(to, &z);
            }
            I::Not { x, to } => {
                let x = self.condition(x);
                let z = self.line(format_args!("xor i1 {x}, true"));
                self.set_condition(to, &z);
            }
            I::SetCondition { value, to } => self.set_condition(to, &value.to_string()),
            I::CopyCondition { from, to } => {
                let x = self.condition(from);
                self.set_condition(to, &x);
            }
            I::Attribute { n, to } => {
                let x = self.field(&format!("real{n}"), "double", offset_of!(LaunchAbi, reals) + 8 * n);
                self.set_scalar(to, &x);
            }
            I::IntegerAttribute { n, to } => {
                let x = self.field(&format!("int{n}"), "i64", offset_of!(LaunchAbi, ints) + 8 * n);
                self.set_int(to, &x);
            }
            I::InCluster { cluster, lane, width, component, to } => {
                let (cluster, lane, n) = (self.int(cluster), self.int(lane), self.lanes.n);
                let (width, component) = ((width * n).to_string(), (component * n).to_string());
                let at = self.element(&cluster, &width, &component);
                let at = self.element(&at, "1", &lane);
                self.set_int(to, &at);
            }
            I::Size { dim, to } => {
                let x = self.size(dim);
                self.set_int(to, &x);
            }
            I::Count { to } => {
                let n = self.open.rest.as_ref().map_or(self.lanes.n.to_string(), |rest| rest.n.clone());
                self.set_int(to, &n);
            }
            ref other => unreachable!("not of scalars: {other:?}"),
        }
    }

    fn unary(&mut self, op: Unary, x: &str) -> Value {
        macro_rules! name {
            ($f:ident) => {
                stringify!($f)
            };
        }
        let intrinsic = match op {
            Unary::Neg => return self.line(format_args!("fneg double {x}")),
            Unary::Recip => return self.line(format_args!("fdiv double 1.0, {x}")),
            Unary::Sqrt => "sqrt",
            Unary::Abs => "fabs",
            Unary::Nearest | Unary::NearestOfAny => "roundeven",
            Unary::Call(f) => return self.function(by_name!(f, name), &[x]),
        };
        self.call("double", &format!("llvm.{intrinsic}.f64"), &[("double", x)])
    }

    /// A special function of scalars.
    fn function(&mut self, name: &str, x: &[&str]) -> Value {
        let args: Vec<(&str, &str)> = x.iter().map(|x| ("double", *x)).collect();
        let attributes = " nounwind willreturn memory(none)";
        let text = self.call_text("double", &format!("madelung_{name}"), &args, attributes);
        self.line(text)
    }

    fn scalar_call(&mut self, name: &str, x: &[&str], to: madelung_kernel::program::Scalar) {
        let y = self.function(name, x);
        self.set_scalar(to, &y);
    }

    fn integers(&mut self, op: IntegerOp, x: &str, y: &str) -> Value {
        match op {
            IntegerOp::Add => self.line(format_args!("add i64 {x}, {y}")),
            IntegerOp::Sub => self.line(format_args!("sub i64 {x}, {y}")),
            IntegerOp::Mul => self.line(format_args!("mul i64 {x}, {y}")),
            // The one quotient that does not fit has no meaning in LLVM.
            IntegerOp::Div | IntegerOp::Rem => {
                let negates = self.line(format_args!("icmp eq i64 {y}, -1"));
                let by = self.line(format_args!("select i1 {negates}, i64 1, i64 {y}"));
                if op == IntegerOp::Rem {
                    return self.line(format_args!("srem i64 {x}, {by}"));
                }
                let quotient = self.line(format_args!("sdiv i64 {x}, {by}"));
                let negated = self.line(format_args!("sub i64 0, {x}"));
                self.line(format_args!("select i1 {negates}, i64 {negated}, i64 {quotient}"))
            }
            IntegerOp::And | IntegerOp::Or | IntegerOp::Xor => {
                self.line(format_args!("{} i64 {x}, {y}", of_bits(op)))
            }
            IntegerOp::Shl | IntegerOp::Shr => {
                let by = self.line(format_args!("and i64 {y}, 63"));
                let shift = if op == IntegerOp::Shl { "shl" } else { "ashr" };
                self.line(format_args!("{shift} i64 {x}, {by}"))
            }
        }
    }

    /// An instruction on lanes.
    pub(super) fn of_lanes(&mut self, i: &I) {
        let (ty, n, mask_type) = (self.lanes.vector(), self.lanes.n, self.mask_type());
        match *i {
            I::Splat { x, to } => {
                let x = self.scalar(x);
                let x = self.narrowed(&x, "double", self.lanes.element());
                let all = self.splat(self.lanes.element(), &x);
                self.set_vector(to, &all);
            }
            I::Fill { x, to } => {
                let x = self.lanes.splat(x);
                self.set_vector(to, &x);
            }
            I::CopyLanes { from, to } => {
                let x = self.vector(from);
                self.set_vector(to, &x);
            }
            I::UnaryLanes { op, x, to } => {
                let x = self.vector(x);
                let y = self.unary_lanes(op, &x);
                self.set_vector(to, &y);
            }
            I::CombineLanes { op, x, y, to } => {
                let (x, y) = (self.vector(x), self.vector(y));
                let z = match op {
                    Combine::Add => self.line(format_args!("fadd {ty} {x}, {y}")),
                    Combine::Sub => self.line(format_args!("fsub {ty} {x}, {y}")),
                    Combine::Mul => self.line(format_args!("fmul {ty} {x}, {y}")),
                    Combine::Div => self.line(format_args!("fdiv {ty} {x}, {y}")),
                    Combine::Pow => self.special(Special::Pow, &[&x, &y]),
                    Combine::Atan2 => self.special(Special::Atan2, &[&x, &y]),
                };
                self.set_vector(to, &z);
            }
            I::FusedLanes { op, x, y, z, to } => {
                let (mut x, y, mut z) = (self.vector(x), self.vector(y), self.vector(z));
                match op {
                    Fused::Add => {}
                    Fused::Subtracted => x = self.line(format_args!("fneg {ty} {x}")),
                    Fused::Sub => z = self.line(format_args!("fneg {ty} {z}")),
                }
                let fused = self.fused(&x, &y, &z);
                self.set_vector(to, &fused);
            }
            I::PairLanes { of, x, to } => {
                let x = self.vector(x);
                let both = self.special(Special::Pair(of), &[&x]);
                for (n, to) in to.into_iter().enumerate() {
                    let part = self.line(format_args!("extractvalue {{ {ty}, {ty} }} {both}, {n}"));
                    self.set_vector(to, &part);
                }
            }
            I::CompareLanes { op, x, y, to } => {
                let (x, y) = (self.vector(x), self.vector(y));
                let m = self.line(format_args!("fcmp {} {ty} {x}, {y}", predicates(op)[0]));
                self.set_mask(to, &m);
            }
            I::MaskOf { condition, to } => {
                let condition = self.condition(condition);
                let m = self.splat("i1", &condition);
                self.set_mask(to, &m);
            }
            I::Masks { op, x, y, to } => {
                let (x, y) = (self.mask(x), self.mask(y));
                let m = self.line(format_args!("{} {mask_type} {x}, {y}", of_bits(op)));
                self.set_mask(to, &m);
            }
            I::NotMask { x, to } => {
                let x = self.mask(x);
                let m = self.line(format_args!("xor {mask_type} {x}, splat (i1 true)"));
                self.set_mask(to, &m);
            }
            I::SelectLanes { mask, x, y, to } => {
                let (mask, x, y) = (self.mask(mask), self.vector(x), self.vector(y));
                let z = self.select(&mask, &x, &y);
                self.set_vector(to, &z);
            }
            I::Sum { x, minus, sum } => {
                let (x, before) = (self.vector(x), self.vector(sum));
                let after = self.added(&before, x, None, minus);
                self.keep_active(sum, &before, &after);
            }
            I::SumOfProduct { x, y, minus, sum } => {
                let (x, y, before) = (self.vector(x), self.vector(y), self.vector(sum));
                let after = self.added(&before, x, Some(y), minus);
                self.keep_active(sum, &before, &after);
            }
            I::Best { x, at, best, place } => {
                let (x, at) = (self.vector(x), self.vector(at));
                let (best_before, place_before) = (self.vector(best), self.vector(place));
                let larger = self.line(format_args!("fcmp olt {ty} {best_before}, {x}"));
                let x = self.select(&larger, &x, &best_before);
                let at = self.select(&larger, &at, &place_before);
                self.keep_active(best, &best_before, &x);
                self.keep_active(place, &place_before, &at);
            }
            I::BestOf { lanes, places, best, place } => {
                let (lanes, places) = (self.vector(lanes), self.vector(places));
                let (lanes, places) = (self.doubles(&lanes), self.doubles(&places));
                let (mut x, mut at) = (self.scalar(best), self.scalar(place));
                for l in 0..n {
                    (x, at) = self.better([&lanes, &places], l, [&x, &at]);
                }
                self.set_scalar(best, &x);
                self.set_scalar(place, &at);
            }
            I::Total { x, to } => {
                let x = self.vector(x);
                let sum = self.sum(&x);
                self.set_scalar(to, &sum);
            }
            I::Spill { x, to } => {
                let (x, room) = (self.vector(x), self.room(to));
                let x = self.doubles(&x);
                self.does(format_args!("store <{n} x double> {x}, ptr {room}, align 8"));
            }
            I::SpillMask { x, to } => {
                let (x, room) = (self.mask(x), self.room(to));
                let x = self.line(format_args!("uitofp {mask_type} {x} to <{n} x double>"));
                self.does(format_args!("store <{n} x double> {x}, ptr {room}, align 8"));
            }
            I::Clear { to: room } => {
                let room = self.room(room);
                self.does(format_args!("store [16 x double] zeroinitializer, ptr {room}, align 8"));
            }
            I::Pick { room, at, to } => {
                let (room, at) = (self.room(room), self.int(at));
                let at = self.address("double", &room, &at);
                let x = self.line(format_args!("load double, ptr {at}, align 8"));
                self.set_scalar(to, &x);
            }
            I::AddTo { sum: room, at, x } => {
                let (room, at, x) = (self.room(room), self.int(at), self.scalar(x));
                let at = self.address("double", &room, &at);
                let before = self.line(format_args!("load double, ptr {at}, align 8"));
                let after = self.line(format_args!("fadd double {before}, {x}"));
                self.does(format_args!("store double {after}, ptr {at}, align 8"));
            }
            I::Filled { room, to } => {
                let room = self.room(room);
                let x = self.line(format_args!("load <{n} x double>, ptr {room}, align 8"));
                let x = self.narrowed(&x, &format!("<{n} x double>"), &ty);
                self.set_vector(to, &x);
            }
            ref other => unreachable!("not of lanes: {other:?}"),
        }
    }

    fn unary_lanes(&mut self, op: Unary, x: &str) -> Value {
        let (ty, suffix) = (self.lanes.vector(), self.lanes.suffix());
        match op {
            Unary::Neg => self.line(format_args!("fneg {ty} {x}")),
            Unary::Recip => {
                let one = self.lanes.splat(1.0);
                self.line(format_args!("fdiv {ty} {one}, {x}"))
            }
            Unary::Sqrt => self.call(&ty, &format!("llvm.sqrt.{suffix}"), &[(&ty, x)]),
            Unary::Abs => self.call(&ty, &format!("llvm.fabs.{suffix}"), &[(&ty, x)]),
            Unary::Nearest => self.special(Special::Nearest, &[x]),
            Unary::NearestOfAny => {
                let nearest = self.special(Special::Nearest, &[x]);
                let size = self.call(&ty, &format!("llvm.fabs.{suffix}"), &[(&ty, x)]);
                let bound = self.lanes.splat(2_251_799_813_685_248.0);
                let small = self.line(format_args!("fcmp olt {ty} {size}, {bound}"));
                self.select(&small, &nearest, x)
            }
            Unary::Call(f) => self.special(Special::Call(f), &[x]),
        }
    }

    /// A special function on lanes: a vector, or a structure of two.
    fn special(&mut self, function: Special, x: &[&str]) -> Value {
        let (ty, name) = (self.lanes.vector(), format!("lanes_{}", function.name()));
        if !self.functions.contains_key(&name) {
            let text = self.lanes.define(&name, function.arity(), &function, &mut self.declared);
            self.functions.insert(name.clone(), text);
        }
        let args: Vec<String> = x.iter().map(|x| format!("{ty} {x}")).collect();
        let result = if matches!(function, Special::Pair(_)) { format!("{{ {ty}, {ty} }}") } else { ty };
        self.line(format_args!("call {result} @{name}({})", args.join(", ")))
    }

    pub(super) fn fused(&mut self, x: &str, y: &str, z: &str) -> Value {
        let ty = self.lanes.vector();
        if self.lanes.is_fused() {
            let name = format!("llvm.fma.{}", self.lanes.suffix());
            return self.call(&ty, &name, &[(&ty, x), (&ty, y), (&ty, z)]);
        }
        let product = self.line(format_args!("fmul {ty} {x}, {y}"));
        self.line(format_args!("fadd {ty} {product}, {z}"))
    }

    /// sum ± x, or the fused sum ± x · y.
    pub(super) fn added(&mut self, sum: &str, mut x: Value, y: Option<Value>, minus: bool) -> Value {
        let ty = self.lanes.vector();
        match y {
            None => self.line(format_args!("{} {ty} {sum}, {x}", if minus { "fsub" } else { "fadd" })),
            Some(y) => {
                if minus {
                    x = self.line(format_args!("fneg {ty} {x}"));
                }
                self.fused(&x, &y, sum)
            }
        }
    }

    pub(super) fn select(&mut self, mask: &str, x: &str, y: &str) -> Value {
        let (ty, mask_type) = (self.lanes.vector(), self.mask_type());
        self.line(format_args!("select {mask_type} {mask}, {ty} {x}, {ty} {y}"))
    }

    /// Writes a register in the lanes that have an iteration.
    fn keep_active(&mut self, r: Vector, before: &str, after: &str) {
        let active = self.open.active();
        let after = active.map_or(after.to_string(), |active| self.select(&active, after, before));
        self.set_vector(r, &after);
    }

    /// A value on every lane.
    pub(super) fn splat(&mut self, element: &str, x: &str) -> Value {
        let ty = format!("<{} x {element}>", self.lanes.n);
        let mask = format!("<{} x i32>", self.lanes.n);
        let one = self.line(format_args!("insertelement {ty} poison, {element} {x}, i32 0"));
        self.line(format_args!("shufflevector {ty} {one}, {ty} poison, {mask} zeroinitializer"))
    }

    /// Lanes as f64.
    pub(super) fn doubles(&mut self, x: &str) -> Value {
        let (ty, wide) = (self.lanes.vector(), format!("<{} x double>", self.lanes.n));
        self.widened(x, &ty, &wide)
    }

    /// Reals of a type as ones of a wider one.
    pub(super) fn widened(&mut self, x: &str, from: &str, to: &str) -> Value {
        if from == to { x.to_string() } else { self.line(format_args!("fpext {from} {x} to {to}")) }
    }

    /// Reals of a type as ones of a narrower one.
    pub(super) fn narrowed(&mut self, x: &str, from: &str, to: &str) -> Value {
        if from == to { x.to_string() } else { self.line(format_args!("fptrunc {from} {x} to {to}")) }
    }

    /// One lane of f64.
    pub(super) fn lane(&mut self, doubles: &str, l: usize) -> Value {
        let n = self.lanes.n;
        self.line(format_args!("extractelement <{n} x double> {doubles}, i32 {l}"))
    }

    /// The sum of the lanes in f64: halves onto each other.
    fn sum(&mut self, x: &str) -> Value {
        let (mut x, mut n) = (self.doubles(x), self.lanes.n);
        while n > 1 {
            let half = |p: &mut Self, from: usize| {
                let places: Vec<String> = (from..from + n / 2).map(|l| format!("i32 {l}")).collect();
                p.line(format_args!(
                    "shufflevector <{n} x double> {x}, <{n} x double> poison, <{} x i32> <{}>",
                    n / 2,
                    places.join(", ")
                ))
            };
            let (low, high) = (half(self, 0), half(self, n / 2));
            n /= 2;
            x = self.line(format_args!("fadd <{n} x double> {low}, {high}"));
        }
        self.line(format_args!("extractelement <1 x double> {x}, i32 0"))
    }

    /// The larger of an earlier maximum and a lane, with its place, as `rt::best` has it.
    fn better(&mut self, [lanes, places]: [&str; 2], l: usize, [best, place]: [&str; 2]) -> (Value, Value) {
        let (x, at) = (self.lane(lanes, l), self.lane(places, l));
        let larger = self.line(format_args!("fcmp ogt double {x}, {best}"));
        let equal = self.line(format_args!("fcmp oeq double {x}, {best}"));
        let known = self.line(format_args!("fcmp oge double {place}, 0.0"));
        let earlier = self.line(format_args!("fcmp olt double {at}, {place}"));
        let first = self.line(format_args!("and i1 {known}, {earlier}"));
        let first = self.line(format_args!("and i1 {equal}, {first}"));
        let better = self.line(format_args!("or i1 {larger}, {first}"));
        let there = self.line(format_args!("fcmp oge double {at}, 0.0"));
        let better = self.line(format_args!("and i1 {there}, {better}"));
        (
            self.line(format_args!("select i1 {better}, double {x}, double {best}")),
            self.line(format_args!("select i1 {better}, double {at}, double {place}")),
        )
    }
}

/// The operation on bits.
fn of_bits(op: IntegerOp) -> &'static str {
    match op {
        IntegerOp::And => "and",
        IntegerOp::Or => "or",
        IntegerOp::Xor => "xor",
        other => unreachable!("not of bits: {other:?}"),
    }
}
