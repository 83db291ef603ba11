//! Instructions on single elements of arrays, and on memory that rows share.

use super::{Printer, Value, real};
use madelung_core::runtime::lanes::packed;
use madelung_kernel::program::Atomic;
use madelung_kernel::program::Instruction as I;
use madelung_kernel::program::{Address, Memory};

/// The LLVM type of shared integers, and its bytes.
fn integer(memory: Memory) -> (&'static str, usize) {
    if memory == Memory::Int64 { ("i64", 8) } else { ("i32", 4) }
}

impl Printer {
    pub(super) fn of_elements(&mut self, i: &I) {
        match *i {
            I::IsAsked { ref slots, to } => {
                let mut any = "false".to_string();
                for slot in slots {
                    let p = self.pointer(*slot);
                    let there = self.line(format_args!("icmp ne ptr {p}, null"));
                    any = self.line(format_args!("or i1 {any}, {there}"));
                }
                self.set_condition(to, &any);
            }
            I::LoadDouble { slot, ref at, to } => {
                let (p, at) = (self.pointer(slot), self.place(at));
                let q = self.address("double", &p, &at);
                let x = self.line(format_args!("load double, ptr {q}, align 8"));
                self.set_scalar(to, &x);
            }
            I::Load { slot, ref at, to } => {
                let (p, at, ty) = (self.pointer(slot), self.place(at), self.real_type());
                let x = self.real_at(&p, &at);
                let x = self.widened(&x, ty, "double");
                self.set_scalar(to, &x);
            }
            I::LoadInt { slot, ref at, to } => {
                let (p, at) = (self.pointer(slot), self.place(at));
                let x = self.int_at(&p, &at);
                let x = self.line(format_args!("sitofp i32 {x} to double"));
                self.set_scalar(to, &x);
            }
            I::Entry { slot, long, ref at, to } => {
                let (p, at) = (self.pointer(slot), self.place(at));
                let x = self.integer_at(&p, &at, long);
                self.set_int(to, &x);
            }
            I::Shift { triples, packed, entry, component, to } => {
                let (triples, packed) = (self.pointer(triples), self.pointer(packed));
                let entry = self.int(entry);
                let [of_triples, of_packed, end] = [(); 3].map(|()| self.new_label());
                let null = self.line(format_args!("icmp eq ptr {packed}, null"));
                self.branch(&null, &of_triples, &of_packed);
                self.begins(&of_triples);
                let at = self.element(&entry, "3", &component.to_string());
                let x = self.int_at(&triples, &at);
                self.does(format_args!("br label %{end}"));
                self.begins(&of_packed);
                let word = self.int_at(&packed, &entry);
                let y = self.unpacked("i32", &word)[component].clone();
                self.goes_on(&end);
                let shift = self.line(format_args!("phi i32 [ {x}, %{of_triples} ], [ {y}, %{of_packed} ]"));
                let shift = self.line(format_args!("sitofp i32 {shift} to double"));
                self.set_scalar(to, &shift);
            }
            I::Put { slot, ref at, x, adds } => {
                let (p, at, x) = (self.pointer(slot), self.place(at), self.scalar(x));
                let adds = if adds { "true".to_string() } else { self.adds(slot) };
                self.unless_null(&p, |s| {
                    let q = s.address(s.real_type(), &p, &at);
                    s.put(&q, &x, &adds);
                });
            }
            I::Add { slot, ref at, x } => {
                let (p, at, x) = (self.pointer(slot), self.place(at), self.scalar(x));
                self.unless_null(&p, |s| {
                    let q = s.address("double", &p, &at);
                    s.add_to(&q, &x);
                });
            }
            I::ClearChannels { slot, dim } => {
                let (p, n, lanes) = (self.pointer(slot), self.size(dim), self.lanes.n);
                let up = self.line(format_args!("add i64 {n}, {}", lanes - 1));
                let whole = self.line(format_args!("and i64 {up}, -{lanes}"));
                let bytes = self.line(format_args!("mul i64 {whole}, {}", if self.single { 4 } else { 8 }));
                let args = [("ptr", &*p), ("i8", "0"), ("i64", &*bytes), ("i1", "false")];
                self.calls("llvm.memset.p0.i64", &args);
            }
            I::Partial { n, x } => {
                let x = self.scalar(x);
                let q = self.address("double", "%partials", &n.to_string());
                self.add_to(&q, &x);
            }
            I::SharedLoad { slot, ref at, to } => {
                let (q, ty) = (self.shared(slot, at, self.real_type()), self.real_type());
                let align = if self.single { 4 } else { 8 };
                let x = self.line(format_args!("load atomic {ty}, ptr {q} monotonic, align {align}"));
                let x = self.widened(&x, ty, "double");
                self.set_scalar(to, &x);
            }
            I::SharedStore { slot, ref at, x } => {
                let (q, x, ty) = (self.shared(slot, at, self.real_type()), self.scalar(x), self.real_type());
                let x = self.narrowed(&x, "double", ty);
                let align = if self.single { 4 } else { 8 };
                self.does(format_args!("store atomic {ty} {x}, ptr {q} monotonic, align {align}"));
            }
            I::SharedLoadInt { slot, memory, shared, ref at, to } => {
                let (ty, align) = integer(memory);
                let q = self.shared(slot, at, ty);
                let mut x = if shared {
                    self.line(format_args!("load atomic {ty}, ptr {q} monotonic, align {align}"))
                } else {
                    self.line(format_args!("load {ty}, ptr {q}, align {align}"))
                };
                if ty == "i32" {
                    x = self.line(format_args!("sext i32 {x} to i64"));
                }
                self.set_int(to, &x);
            }
            I::SharedStoreInt { slot, memory, ref at, x, param } => {
                let (ty, _) = integer(memory);
                let (q, x) = (self.shared(slot, at, ty), self.int(x));
                let args = [("ptr", "%a"), ("ptr", &*q), ("i64", &*x), ("i32", &*param.to_string())];
                self.calls(&format!("madelung_store_{ty}"), &args);
            }
            I::Atomic { op, slot, memory, ref at, x, param, to } => {
                let (ty, _) = integer(memory);
                let (q, x) = (self.shared(slot, at, ty), self.int(x));
                let op = match op {
                    Atomic::Add => "add",
                    Atomic::Max => "max",
                    Atomic::Min => "min",
                };
                let args = [("ptr", "%a"), ("ptr", &*q), ("i64", &*x), ("i32", &*param.to_string())];
                let before = self.call("i64", &format!("madelung_{op}_{ty}"), &args);
                self.set_int(to, &before);
            }
            I::Raise { reason, param } => {
                let (reason, param) = ((reason as u32).to_string(), param.to_string());
                self.calls("madelung_raise", &[("ptr", "%a"), ("i32", &reason), ("i32", &param)]);
            }
            ref other => unreachable!("not of elements: {other:?}"),
        }
    }

    fn shared(&mut self, slot: usize, at: &Address, ty: &str) -> Value {
        let (p, at) = (self.pointer(slot), self.place(at));
        self.address(ty, &p, &at)
    }

    /// An element of an array of reals.
    pub(super) fn real_at(&mut self, p: &str, at: &str) -> Value {
        let (ty, align) = (self.real_type(), if self.single { 4 } else { 8 });
        let q = self.address(ty, p, at);
        self.line(format_args!("load {ty}, ptr {q}, align {align}"))
    }

    /// An element of an i32 array.
    pub(super) fn int_at(&mut self, p: &str, at: &str) -> Value {
        let q = self.address("i32", p, at);
        self.line(format_args!("load i32, ptr {q}, align 4"))
    }

    /// An integer of an i64 (`long`) or i32 array.
    pub(super) fn integer_at(&mut self, p: &str, at: &str, long: bool) -> Value {
        if long {
            let q = self.address("i64", p, at);
            return self.line(format_args!("load i64, ptr {q}, align 8"));
        }
        let x = self.int_at(p, at);
        self.line(format_args!("sext i32 {x} to i64"))
    }

    /// Writes or adds to an element of an array of reals.
    pub(super) fn put(&mut self, q: &str, x: &str, adds: &str) {
        let (ty, align) = (self.real_type(), if self.single { 4 } else { 8 });
        let before = self.line(format_args!("load {ty}, ptr {q}, align {align}"));
        let before = self.widened(&before, ty, "double");
        let sum = self.line(format_args!("fadd double {before}, {x}"));
        let x = self.line(format_args!("select i1 {adds}, double {sum}, double {x}"));
        let x = self.narrowed(&x, "double", ty);
        self.does(format_args!("store {ty} {x}, ptr {q}, align {align}"));
    }

    /// Adds to a double.
    pub(super) fn add_to(&mut self, q: &str, x: &str) {
        let before = self.line(format_args!("load double, ptr {q}, align 8"));
        let after = self.line(format_args!("fadd double {before}, {x}"));
        self.does(format_args!("store double {after}, ptr {q}, align 8"));
    }

    /// The three integers packed into each of a type: [`packed::unpack`].
    pub(super) fn unpacked(&mut self, ty: &str, word: &str) -> [Value; 3] {
        let constant = |x: i32| if ty == "i32" { x.to_string() } else { format!("splat (i32 {x})") };
        let mut op = |op: &str, x: &str, y: i32| self.line(format_args!("{op} {ty} {x}, {}", constant(y)));
        let [low, high] = packed::BITS;
        let biased = op("add", word, packed::BIAS);
        let x = op("ashr", &biased, high);
        let y = op("lshr", &biased, low);
        let y = op("and", &y, packed::MASK);
        let z = op("and", &biased, packed::MASK);
        [x, op("sub", &y, packed::HALF), op("sub", &z, packed::HALF)]
    }

    /// `x`, or 0 where f32 would hold a number below the normal ones.
    pub(super) fn without_denormals(&mut self, x: &str, ty: &str, suffix: &str) -> Value {
        let literal = |x: f64| if ty == "double" { real(x) } else { format!("splat (double {})", real(x)) };
        let mask = if ty == "double" { "i1".to_string() } else { self.mask_type() };
        let size = self.call(ty, &format!("llvm.fabs.{suffix}"), &[(ty, x)]);
        let least = literal(f64::from(f32::MIN_POSITIVE));
        let small = self.line(format_args!("fcmp olt {ty} {size}, {least}"));
        self.line(format_args!("select {mask} {small}, {ty} {}, {ty} {x}", literal(0.0)))
    }
}
