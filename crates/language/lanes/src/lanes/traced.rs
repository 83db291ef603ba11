//! Lanes that write down what is done to them, as LLVM text. The special functions are generic over lanes and free of
//! branches, so running one here once writes all that it does, and code that is compiled at run time has the operations,
//! and the bits, of code that was compiled with the program.

use super::coefficients::{OCTAVE_F32, OCTAVE_F64};
use super::functions;
use super::isa::Isa;
use super::lane::{Elem, Lane, Mask};
use super::single::{FUSED, HALVES_F32, HALVES_F64, SQRT_HALF_F32, SQRT_HALF_F64};
use core::marker::PhantomData;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

/// A lane type, by the instruction set, the elements and whether it is that of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// The instruction set.
    pub isa: Isa,
    /// f32, otherwise f64.
    pub single: bool,
    /// The number of lanes.
    pub n: usize,
}

impl Lanes {
    /// The lanes of an instruction set: of the arrays' type (`single`: f32), or (`wide`) those of rows.
    pub fn of(isa: Isa, single: bool, wide: bool) -> Self {
        let single = single && !wide;
        let n = match (isa, single) {
            (Isa::Portable, _) if wide => 1,
            (Isa::Portable | Isa::Avx2, true) => 8,
            (Isa::Portable | Isa::Avx2, false) => 4,
            (Isa::Avx512, true) => 16,
            (Isa::Avx512, false) => 8,
        };
        Self { isa, single, n }
    }

    /// Whether [`Lane::mul_add`] is fused.
    pub fn is_fused(&self) -> bool {
        self.isa != Isa::Portable || FUSED
    }

    /// [`Lane::FLUSH`].
    pub fn flush(&self) -> usize {
        if self.single { <f32 as Elem>::FLUSH } else { <f64 as Elem>::FLUSH }
    }

    /// The LLVM type of an element.
    pub fn element(&self) -> &'static str {
        if self.single { "float" } else { "double" }
    }

    /// The LLVM type of a vector.
    pub fn vector(&self) -> String {
        format!("<{} x {}>", self.n, self.element())
    }

    /// The suffix of the vector's type in names of intrinsics.
    pub fn suffix(&self) -> String {
        format!("v{}f{}", self.n, if self.single { 32 } else { 64 })
    }

    /// A number on every lane, rounded to their type.
    pub fn splat(&self, x: f64) -> String {
        // Constants of either type are written by the bits of a double.
        let x = if self.single { f64::from(x as f32) } else { x };
        let bits = if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
        format!("splat ({} 0x{bits:016X})", self.element())
    }

    /// The definition of a function of `arity` vectors that is run on traced lanes, to be inlined; the functions that it
    /// calls are declared in `declared`. It gives a vector, or a structure of several.
    pub fn define(
        &self,
        name: &str,
        arity: usize,
        function: &impl Trace,
        declared: &mut BTreeSet<String>,
    ) -> String {
        match (self.isa, self.single, self.n) {
            (Isa::Portable, true, _) => define::<Portable32>(*self, name, arity, function, declared),
            (Isa::Portable, false, 1) => define::<PortableRows>(*self, name, arity, function, declared),
            (Isa::Portable, false, _) => define::<Portable64>(*self, name, arity, function, declared),
            (Isa::Avx2, true, _) => define::<Avx2F32>(*self, name, arity, function, declared),
            (Isa::Avx2, false, _) => define::<Avx2F64>(*self, name, arity, function, declared),
            (Isa::Avx512, true, _) => define::<Avx512F32>(*self, name, arity, function, declared),
            (Isa::Avx512, false, _) => define::<Avx512F64>(*self, name, arity, function, declared),
        }
    }
}

/// A function of lanes that can be traced: without branches on what lanes hold, and without memory.
pub trait Trace {
    /// Its results.
    fn run<L: Lane>(&self, x: &[L]) -> Vec<L>;
}

/// The text under construction.
#[derive(Default)]
struct Text {
    body: String,
    declared: BTreeSet<String>,
    operands: Vec<String>,
    known: HashMap<String, u32>,
}

thread_local! {
    static TEXT: RefCell<Text> = RefCell::default();
}

/// The value that a line defines: `right` has `{0}`, `{1}` … for its operands.
fn line(right: &str, args: &[u32]) -> u32 {
    TEXT.with_borrow_mut(|t| {
        let mut right = right.to_string();
        for (n, arg) in args.iter().enumerate() {
            right = right.replace(&format!("{{{n}}}"), &t.operands[*arg as usize]);
        }
        let name = format!("%v{}", t.operands.len());
        t.body += &format!("  {name} = {right}\n");
        t.operands.push(name);
        t.operands.len() as u32 - 1
    })
}

/// The operand that a text stands for.
fn operand(text: String) -> u32 {
    TEXT.with_borrow_mut(|t| {
        if let Some(n) = t.known.get(&text) {
            return *n;
        }
        let n = t.operands.len() as u32;
        t.operands.push(text.clone());
        t.known.insert(text, n);
        n
    })
}

fn call(result: &str, function: &str, types: &[&str], args: &str, operands: &[u32]) -> u32 {
    let declaration = format!("declare {result} @{function}({})", types.join(", "));
    TEXT.with_borrow_mut(|t| t.declared.insert(declaration));
    line(&format!("call {result} @{function}({args})"), operands)
}

fn define<K: Kind>(
    lanes: Lanes,
    name: &str,
    arity: usize,
    function: &impl Trace,
    declared: &mut BTreeSet<String>,
) -> String {
    TEXT.set(Text::default());
    let x: Vec<Traced<K>> = (0..arity).map(|n| Traced::of(operand(format!("%x{n}")))).collect();
    let results = function.run(&x);
    let text = TEXT.take();
    let (ty, name_of) = (lanes.vector(), |x: &Traced<K>| text.operands[x.0 as usize].clone());
    let (mut result, mut body) = (ty.clone(), text.body.clone());
    if let [only] = &*results {
        body += &format!("  ret {ty} {}\n", name_of(only));
    } else {
        result = format!("{{ {} }}", vec![&*ty; results.len()].join(", "));
        let mut all = "poison".to_string();
        for (n, x) in results.iter().enumerate() {
            body += &format!("  %r{n} = insertvalue {result} {all}, {ty} {}, {n}\n", name_of(x));
            all = format!("%r{n}");
        }
        body += &format!("  ret {result} {all}\n");
    }
    declared.extend(text.declared);
    let parameters: Vec<String> = (0..arity).map(|n| format!("{ty} %x{n}")).collect();
    format!(
        "define internal {result} @{name}({}) alwaysinline nounwind {{\n{body}}}\n",
        parameters.join(", ")
    )
}

/// A kind of lanes.
trait Kind: Copy + 'static {
    type Elem: Elem;
    type Rows: Kind<Elem = f64>;
    const LANES: Lanes;
}

macro_rules! kinds {
    ($($K:ident: $isa:ident $T:ident $single:literal $n:literal, rows $Rows:ident;)*) => {$(
        #[derive(Clone, Copy)]
        struct $K;

        impl Kind for $K {
            type Elem = $T;
            type Rows = $Rows;
            const LANES: Lanes = Lanes { isa: Isa::$isa, single: $single, n: $n };
        }
    )*};
}
kinds! {
    PortableRows: Portable f64 false 1, rows PortableRows;
    Portable64: Portable f64 false 4, rows PortableRows;
    Portable32: Portable f32 true 8, rows PortableRows;
    Avx2F64: Avx2 f64 false 4, rows Avx2F64;
    Avx2F32: Avx2 f32 true 8, rows Avx2F64;
    Avx512F64: Avx512 f64 false 8, rows Avx512F64;
    Avx512F32: Avx512 f32 true 16, rows Avx512F64;
}

/// One truth value for each lane, by the number of an operand.
#[derive(Clone, Copy)]
struct TracedMask<K>(u32, PhantomData<K>);

/// Lanes, by the number of an operand.
#[derive(Clone, Copy)]
struct Traced<K>(u32, PhantomData<K>);

/// Indices, of which traced functions have none.
#[derive(Clone, Copy, Default)]
struct NoIndex;

impl AsRef<[i32]> for NoIndex {
    fn as_ref(&self) -> &[i32] {
        &[]
    }
}

impl AsMut<[i32]> for NoIndex {
    fn as_mut(&mut self) -> &mut [i32] {
        &mut []
    }
}

impl<K: Kind> TracedMask<K> {
    fn of(right: &str, args: &[u32]) -> Self {
        Self(line(&right.replace("MASK", &format!("<{} x i1>", K::LANES.n)), args), PhantomData)
    }
}

impl<K: Kind> Mask for TracedMask<K> {
    fn all(b: bool) -> Self {
        Self(operand(format!("splat (i1 {b})")), PhantomData)
    }
    fn first(n: usize) -> Self {
        Self::bits(((1u64 << n) - 1) as u32)
    }
    fn bits(mask: u32) -> Self {
        let of: Vec<String> = (0..K::LANES.n).map(|l| format!("i1 {}", mask >> l & 1)).collect();
        Self(operand(format!("<{}>", of.join(", "))), PhantomData)
    }
    fn and(self, o: Self) -> Self {
        Self::of("and MASK {0}, {1}", &[self.0, o.0])
    }
    fn or(self, o: Self) -> Self {
        Self::of("or MASK {0}, {1}", &[self.0, o.0])
    }
    fn not(self) -> Self {
        Self::of("xor MASK {0}, splat (i1 true)", &[self.0])
    }
    fn any(self) -> bool {
        unreachable!("{UNTRACED}")
    }
}

/// Operations that no traced function has.
const UNTRACED: &str = "special functions neither branch nor touch memory";

impl<K: Kind> Traced<K> {
    fn of(operand: u32) -> Self {
        Self(operand, PhantomData)
    }

    /// An operation on vectors: `TYPE` stands for their type.
    fn op(right: &str, args: &[u32]) -> Self {
        Self::of(line(&right.replace("TYPE", &K::LANES.vector()), args))
    }

    /// An intrinsic of vectors alone.
    fn intrinsic(name: &str, args: &[Self]) -> Self {
        let ty = K::LANES.vector();
        let list: Vec<String> = (0..args.len()).map(|n| format!("{ty} {{{n}}}")).collect();
        let operands: Vec<u32> = args.iter().map(|x| x.0).collect();
        let name = format!("llvm.{name}.{}", K::LANES.suffix());
        Self::of(call(&ty, &name, &vec![&*ty; args.len()], &list.join(", "), &operands))
    }

    /// An intrinsic of AVX-512 registers: the first types and arguments are those of vectors, and `MASK` a mask of all.
    fn of_register(name: &str, types: &[&str], args: &str, operands: &[u32]) -> Self {
        let (suffix, mask) = if K::LANES.single { ("ps", "i16") } else { ("pd", "i8") };
        let (ty, int) = (K::LANES.vector(), Self::int_type());
        let text = |of: &str| of.replace("TYPE", &ty).replace("INTS", &int).replace("MASK", mask);
        let types: Vec<String> = types.iter().map(|of| text(of)).collect();
        let types: Vec<&str> = types.iter().map(|of| &**of).collect();
        Self::of(call(&ty, &format!("llvm.x86.avx512.{name}.{suffix}.512"), &types, &text(args), operands))
    }

    fn is_wide() -> bool {
        K::LANES.isa == Isa::Avx512
    }

    fn width() -> u32 {
        if K::LANES.single { 32 } else { 64 }
    }

    /// The bits of the mantissa, those of √½, and twice the bias that makes exponents positive.
    fn format() -> (u32, u64, u64) {
        if K::LANES.single { (23, SQRT_HALF_F32.into(), 128) } else { (52, SQRT_HALF_F64, 1024) }
    }

    fn int_type() -> String {
        format!("<{} x i{}>", K::LANES.n, Self::width())
    }

    /// An operation on integers: `INTS` stands for their type.
    fn ints(right: &str, args: &[u32]) -> u32 {
        line(&right.replace("INTS", &Self::int_type()), args)
    }

    /// An operation of integers and a constant.
    fn with(op: &str, x: u32, constant: u64) -> u32 {
        let width = Self::width();
        let constant = if width == 32 { i64::from(constant as u32 as i32) } else { constant as i64 };
        Self::ints(&format!("{op} INTS {{0}}, splat (i{width} {constant})"), &[x])
    }

    fn to_bits(self) -> u32 {
        Self::ints(&format!("bitcast {} {{0}} to INTS", K::LANES.vector()), &[self.0])
    }

    fn of_bits(bits: u32) -> Self {
        Self::op(&format!("bitcast {} {{0}} to TYPE", Self::int_type()), &[bits])
    }

    fn compare(self, op: &str, o: Self) -> TracedMask<K> {
        TracedMask::of(&format!("fcmp {op} {} {{0}}, {{1}}", K::LANES.vector()), &[self.0, o.0])
    }

    /// The ends of roots, as `fixupimm` takes them.
    fn with_ends(self, x: Self, ends: i32) -> Self {
        let args =
            format!("TYPE {{0}}, TYPE {{1}}, INTS splat (i{} {ends}), i32 0, MASK -1, i32 4", Self::width());
        Self::of_register(
            "mask.fixupimm",
            &["TYPE", "TYPE", "INTS", "i32", "MASK", "i32"],
            &args,
            &[self.0, x.0],
        )
    }

    /// An estimate to 14 bits.
    fn rough(self, name: &str) -> Self {
        let args = "TYPE {0}, TYPE zeroinitializer, MASK -1";
        Self::of_register(name, &["TYPE", "TYPE", "MASK"], args, &[self.0])
    }

    /// Newton's steps from 14 bits to half the digits.
    fn steps() -> usize {
        usize::from(!K::LANES.single)
    }
}

macro_rules! operators {
    ($($Op:ident $op:ident $text:literal;)*) => {$(
        impl<K: Kind> core::ops::$Op for Traced<K> {
            type Output = Self;
            fn $op(self, o: Self) -> Self {
                Self::op(concat!($text, " TYPE {0}, {1}"), &[self.0, o.0])
            }
        }
    )*};
}
operators! { Add add "fadd"; Sub sub "fsub"; Mul mul "fmul"; Div div "fdiv"; }

impl<K: Kind> core::ops::Neg for Traced<K> {
    type Output = Self;
    fn neg(self) -> Self {
        Self::op("fneg TYPE {0}", &[self.0])
    }
}

#[expect(unsafe_code, reason = "lanes have functions that read and write memory; none of them can be traced")]
impl<K: Kind> Lane for Traced<K> {
    type Elem = K::Elem;
    type Mask = TracedMask<K>;
    type Index = NoIndex;
    type Rows = Traced<K::Rows>;
    const N: usize = K::LANES.n;
    const SATURATES: bool = matches!(K::LANES.isa, Isa::Avx512);
    const PARTS: f64 = match (K::LANES.isa, K::LANES.single) {
        (Isa::Avx512, true) => OCTAVE_F32.len() as f64,
        (Isa::Avx512, false) => OCTAVE_F64.len() as f64,
        _ => 1.0,
    };

    fn splat(x: f64) -> Self {
        Self::of(operand(K::LANES.splat(x)))
    }
    fn mul_add(self, b: Self, c: Self) -> Self {
        if K::LANES.is_fused() { Self::intrinsic("fma", &[self, b, c]) } else { self * b + c }
    }
    fn sqrt(self) -> Self {
        Self::intrinsic("sqrt", &[self])
    }
    fn abs(self) -> Self {
        Self::intrinsic("fabs", &[self])
    }
    fn sqrt_recip(self) -> (Self, Self) {
        if !Self::is_wide() {
            let root = self.sqrt();
            return (root, root.recip());
        }
        let (root, inverse) = functions::refined_roots(self, self.rough("rsqrt14"), Self::steps());
        let (of_root, of_inverse) = functions::ROOT_ENDS;
        (root.with_ends(self, of_root), inverse.with_ends(self, of_inverse))
    }
    fn product_error(self, b: Self, product: Self) -> Self {
        if K::LANES.is_fused() {
            return self.mul_add(b, -product);
        }
        let halves = if K::LANES.single { f64::from(HALVES_F32) } else { HALVES_F64 };
        functions::product_error_of_halves(self, b, product, Self::splat(halves))
    }
    fn at_most(self, bound: Self) -> Self {
        Self::select(bound.lt(self), bound, self)
    }
    fn at_least(self, bound: Self) -> Self {
        Self::select(self.lt(bound), bound, self)
    }
    fn ldexp(self, n: Self, magic_n: Self) -> Self {
        if Self::is_wide() {
            let args = "TYPE {0}, TYPE {1}, TYPE zeroinitializer, MASK -1, i32 4";
            let types = ["TYPE", "TYPE", "TYPE", "MASK", "i32"];
            return Self::of_register("mask.scalef", &types, args, &[self.0, n.0]);
        }
        let exponent = Self::with("shl", magic_n.to_bits(), Self::format().0.into());
        Self::of_bits(Self::ints("add INTS {0}, {1}", &[self.to_bits(), exponent]))
    }
    fn octave(magic_n: Self) -> Self {
        if !Self::is_wide() {
            return Self::splat(1.0);
        }
        let (name, octave): (_, &[f64]) =
            if K::LANES.single { ("sf", &OCTAVE_F32) } else { ("df", &OCTAVE_F64) };
        let entry = |x: &f64| K::LANES.splat(*x).replace("splat (", "").replace(')', "");
        let table = operand(format!("<{}>", octave.iter().map(entry).collect::<Vec<_>>().join(", ")));
        let (ty, int) = (K::LANES.vector(), Self::int_type());
        let (name, args) =
            (format!("llvm.x86.avx512.permvar.{name}.512"), format!("{ty} {{0}}, {int} {{1}}"));
        Self::of(call(&ty, &name, &[&ty, &int], &args, &[table, magic_n.to_bits()]))
    }
    fn odd(magic_n: Self) -> TracedMask<K> {
        let lowest = Self::with("and", magic_n.to_bits(), 1);
        TracedMask::of(&format!("icmp ne {} {{0}}, zeroinitializer", Self::int_type()), &[lowest])
    }
    fn flip(self, magic_n: Self) -> Self {
        let width = Self::width();
        let second = Self::with("shl", magic_n.to_bits(), u64::from(width - 2));
        let sign = Self::with("and", second, 1 << (width - 1));
        Self::of_bits(Self::ints("xor INTS {0}, {1}", &[self.to_bits(), sign]))
    }
    fn frexp(self) -> (Self, Self) {
        let (mantissa, half, bias) = Self::format();
        let bits = self.to_bits();
        let from_half = Self::with("sub", bits, half);
        if Self::is_wide() || K::LANES.single {
            let n = Self::with("ashr", from_half, mantissa.into());
            let exponent = Self::with("shl", n, mantissa.into());
            let m = Self::of_bits(Self::ints("sub INTS {0}, {1}", &[bits, exponent]));
            return (m, Self::op(&format!("sitofp {} {{0}} to TYPE", Self::int_type()), &[n]));
        }
        // There is no conversion: the exponent is kept positive, and the bits of 2^52 make it a number.
        let (offset, two52) = (bias << mantissa, 4_503_599_627_370_496.0_f64);
        let n = Self::with("lshr", Self::with("add", from_half, offset), mantissa.into());
        let exponent = Self::with("shl", n, mantissa.into());
        let m = Self::with("add", Self::ints("sub INTS {0}, {1}", &[bits, exponent]), offset);
        let n = Self::of_bits(Self::with("or", n, two52.to_bits()));
        (Self::of_bits(m), n - Self::splat(two52 + bias as f64))
    }
    fn quotient(self, divisor: Self) -> Self {
        if !Self::is_wide() {
            return self / divisor;
        }
        functions::refined_quotient(self, divisor, divisor.rough("rcp14"), Self::steps())
    }
    fn lt(self, o: Self) -> TracedMask<K> {
        self.compare("olt", o)
    }
    fn le(self, o: Self) -> TracedMask<K> {
        self.compare("ole", o)
    }
    fn eq(self, o: Self) -> TracedMask<K> {
        self.compare("oeq", o)
    }
    fn select(m: TracedMask<K>, a: Self, b: Self) -> Self {
        let right = format!("select <{} x i1> {{0}}, TYPE {{1}}, TYPE {{2}}", K::LANES.n);
        Self::op(&right, &[m.0, a.0, b.0])
    }

    fn reversed(self) -> Self {
        unreachable!("{UNTRACED}")
    }
    fn exchange<const D: usize>(self, _: Self) -> (Self, Self) {
        unreachable!("{UNTRACED}")
    }
    fn sum(self) -> f64 {
        unreachable!("{UNTRACED}")
    }
    fn lane(self, _: usize) -> f64 {
        unreachable!("{UNTRACED}")
    }
    unsafe fn load(_: *const K::Elem) -> Self {
        unreachable!("{UNTRACED}")
    }
    unsafe fn load_first(_: *const K::Elem, _: usize) -> Self {
        unreachable!("{UNTRACED}")
    }
    unsafe fn store(self, _: *mut K::Elem) {
        unreachable!("{UNTRACED}")
    }
    unsafe fn store_first(self, _: *mut K::Elem, _: usize) {
        unreachable!("{UNTRACED}")
    }
    unsafe fn load3_first(_: *const K::Elem, _: usize) -> [Self; 3] {
        unreachable!("{UNTRACED}")
    }
    unsafe fn gather(_: *const K::Elem, _: NoIndex, _: usize, _: usize) -> Self {
        unreachable!("{UNTRACED}")
    }
    unsafe fn gather3(_: *const K::Elem, _: NoIndex) -> [Self; 3] {
        unreachable!("{UNTRACED}")
    }
    unsafe fn int3_first(_: *const i32, _: usize) -> [Self; 3] {
        unreachable!("{UNTRACED}")
    }
    unsafe fn packed3_first(_: *const i32, _: usize) -> [Self; 3] {
        unreachable!("{UNTRACED}")
    }
    unsafe fn int_gather(_: *const i32, _: NoIndex, _: usize, _: usize) -> Self {
        unreachable!("{UNTRACED}")
    }
}
