//! Programs as LLVM text, for whoever compiles it ([`PartCode::llvm`]) and gives the address back
//! ([`PartCode::install`]).
//!
//! The text does what the interpreter does, operation by operation, with one vector of iterations open at a time, and so
//! has its bits. A loop on lanes is there twice, for whole vectors and for the incomplete one at its end. Registers are
//! stack slots, which LLVM makes registers of. Special functions of lanes are traced
//! ([`madelung_core::runtime::lanes::traced`]); those of scalars, meshes and counters are functions of this library
//! ([`symbols`]).

mod arrays;
mod calls;
mod control;
mod elements;
mod meshes;
mod numbers;
mod scatter;
mod special;

pub use calls::symbols;

use crate::PartCode;
use madelung_core::runtime::lanes::traced::Lanes;
use madelung_core::runtime::{Isa, LaunchAbi};
use madelung_kernel::program::{
    Address, Condition, Family, Indices, Instruction, Integer, Mask, Program, Room, Scalar, Vector,
};
use rustc_hash::FxHashMap as HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::mem::offset_of;

/// The name of the function in each text.
pub const NAME: &str = "madelung_part";

impl PartCode {
    /// The part as LLVM text that defines [`NAME`], a [`crate::Machine`], for f32 arrays (`single`) or f64 arrays on lanes
    /// of an instruction set ([`PartCode::isa`]). It calls [`symbols`].
    pub fn llvm(&self, single: bool, isa: Isa) -> String {
        text(&self.program, single, self.isa(single, isa))
    }
}

/// A program as text.
fn text(program: &Program, single: bool, isa: Isa) -> String {
    let mut p = Printer::new(program, single, isa);
    p.block(&program.body);
    let Printer { entry, body, allocas, declared, functions, .. } = p;
    let allocas: String = allocas.iter().map(|(name, ty)| format!("  %{name} = alloca {ty}\n")).collect();
    let declared: String = declared.iter().map(|line| format!("{line}\n")).collect();
    let functions: String = functions.into_values().collect();
    format!(
        "{declared}{functions}define void @{NAME}(ptr noalias %a, i64 %lo, i64 %hi, ptr noalias %partials) nounwind {{\n\
         entry:\n{allocas}{entry}  br label %begin\nbegin:\n{body}  ret void\n}}\n"
    )
}

/// The text of a value.
type Value = String;

/// The vector of iterations that is open.
#[derive(Clone)]
struct Open {
    /// Its first iteration.
    k: Value,
    /// The incomplete one.
    rest: Option<Rest>,
    /// The entry of clusters that is the vector.
    entry: Option<Entry>,
}

/// An entry of clusters.
#[derive(Clone)]
struct Entry {
    /// Its cluster, and the lanes that have an iteration.
    cluster: Value,
    active: Value,
    /// The ending of its registers' names, by which two open entries differ.
    suffix: &'static str,
}

impl Open {
    /// The lanes that have an iteration; none where all have.
    fn active(&self) -> Option<Value> {
        let of_rest = self.rest.as_ref().map(|rest| &rest.active);
        self.entry.as_ref().map(|entry| &entry.active).or(of_rest).cloned()
    }
}

/// An incomplete vector.
#[derive(Clone)]
struct Rest {
    /// Its iterations.
    n: Value,
    /// The lanes that have one.
    active: Value,
    /// The iteration of each lane, from the first one; behind the last one that.
    places: Vec<Value>,
}

struct Printer {
    lanes: Lanes,
    /// Whether arrays of reals hold f32.
    single: bool,
    /// Instructions ahead of the program's first one: fields of the launch.
    entry: String,
    body: String,
    /// Stack slots, by name.
    allocas: BTreeMap<String, String>,
    declared: BTreeSet<String>,
    /// Special functions, by name.
    functions: BTreeMap<String, String>,
    /// Registers that never change, and what others hold since the last label.
    constants: HashMap<String, Value>,
    known: HashMap<String, Value>,
    /// Fields of the launch that were loaded.
    fields: BTreeSet<String>,
    values: usize,
    labels: usize,
    open: Open,
    /// Labels behind the open loops and of their next turns.
    loops: Vec<[String; 2]>,
}

impl Printer {
    fn new(program: &Program, single: bool, isa: Isa) -> Self {
        let lanes = Lanes::of(isa, single, program.wide);
        let [lo, hi] = program.rows;
        let mut constants = HashMap::from_iter([
            (format!("n{}", lo.0), "%lo".to_string()),
            (format!("n{}", hi.0), "%hi".to_string()),
        ]);
        constants.extend(program.scalars.iter().map(|(r, x)| (format!("s{}", r.0), real(*x))));
        constants.extend(program.integers.iter().map(|(r, x)| (format!("n{}", r.0), x.to_string())));
        constants.extend(program.vectors.iter().map(|(n, x)| (one(*n), lanes.splat(*x))));
        Self {
            lanes,
            single,
            entry: String::new(),
            body: String::new(),
            allocas: BTreeMap::new(),
            declared: BTreeSet::new(),
            functions: BTreeMap::new(),
            constants,
            known: HashMap::default(),
            fields: BTreeSet::new(),
            values: 0,
            labels: 0,
            open: Open { k: "0".to_string(), rest: None, entry: None },
            loops: vec![],
        }
    }

    fn block(&mut self, body: &[Instruction]) {
        for i in body {
            self.instruction(i);
        }
    }

    fn instruction(&mut self, i: &Instruction) {
        match i.family() {
            Family::Control => self.control(i),
            Family::Scalars => self.of_scalars(i),
            Family::Lanes => self.of_lanes(i),
            Family::Elements => self.of_elements(i),
            Family::Meshes => self.of_meshes(i),
            Family::Loads | Family::LoadsOfPairs => self.of_arrays(i),
            Family::Stores | Family::StoresOfPairs => self.scattered(i),
        }
    }

    /// A line that defines a value.
    fn line(&mut self, right: impl Display) -> Value {
        self.values += 1;
        let name = format!("%v{}", self.values);
        self.does(format_args!("{name} = {right}"));
        name
    }

    /// A line that defines none.
    fn does(&mut self, text: impl Display) {
        self.body += &format!("  {text}\n");
    }

    fn new_label(&mut self) -> String {
        self.labels += 1;
        format!("l{}", self.labels)
    }

    /// Begins a block, to which the one before goes on.
    fn goes_on(&mut self, label: &str) {
        self.does(format_args!("br label %{label}"));
        self.begins(label);
    }

    /// Begins a block. Nothing is known there.
    fn begins(&mut self, label: &str) {
        self.body += &format!("{label}:\n");
        self.known.clear();
    }

    fn branch(&mut self, condition: &str, yes: &str, no: &str) {
        self.does(format_args!("br i1 {condition}, label %{yes}, label %{no}"));
    }

    /// A call of a function that is not defined here.
    fn call(&mut self, result: &str, name: &str, args: &[(&str, &str)]) -> Value {
        let text = self.call_text(result, name, args, "");
        self.line(text)
    }

    /// Likewise, of one without a result.
    fn calls(&mut self, name: &str, args: &[(&str, &str)]) {
        let text = self.call_text("void", name, args, "");
        self.does(text);
    }

    fn call_text(&mut self, result: &str, name: &str, args: &[(&str, &str)], attributes: &str) -> String {
        let types: Vec<&str> = args.iter().map(|(ty, _)| *ty).collect();
        self.declared.insert(format!("declare {result} @{name}({}){attributes}", types.join(", ")));
        let args: Vec<String> = args.iter().map(|(ty, x)| format!("{ty} {x}")).collect();
        format!("call {result} @{name}({})", args.join(", "))
    }

    // Registers.

    fn read(&mut self, name: &str, ty: &str) -> Value {
        if let Some(x) = self.constants.get(name).or_else(|| self.known.get(name)) {
            return x.clone();
        }
        self.slot(name, ty);
        let x = self.line(format_args!("load {ty}, ptr %{name}"));
        self.known.insert(name.to_string(), x.clone());
        x
    }

    fn write(&mut self, name: &str, ty: &str, x: &str) {
        self.slot(name, ty);
        self.does(format_args!("store {ty} {x}, ptr %{name}"));
        self.known.insert(name.to_string(), x.to_string());
    }

    /// A stack slot.
    fn slot(&mut self, name: &str, ty: &str) -> String {
        if !self.allocas.contains_key(name) {
            self.allocas.insert(name.to_string(), ty.to_string());
        }
        format!("%{name}")
    }

    fn scalar(&mut self, r: Scalar) -> Value {
        self.read(&format!("s{}", r.0), "double")
    }

    fn set_scalar(&mut self, r: Scalar, x: &str) {
        self.write(&format!("s{}", r.0), "double", x);
    }

    fn int(&mut self, r: Integer) -> Value {
        self.read(&format!("n{}", r.0), "i64")
    }

    fn set_int(&mut self, r: Integer, x: &str) {
        self.write(&format!("n{}", r.0), "i64", x);
    }

    fn condition(&mut self, r: Condition) -> Value {
        self.read(&format!("c{}", r.0), "i1")
    }

    fn set_condition(&mut self, r: Condition, x: &str) {
        self.write(&format!("c{}", r.0), "i1", x);
    }

    /// The name of a register of the open vector.
    fn of_vector(&self, class: char, n: u32) -> String {
        format!("{class}{n}{}", self.open.entry.as_ref().map_or("", |entry| entry.suffix))
    }

    fn register(&self, r: Vector) -> String {
        match r {
            Vector::Each(n) => self.of_vector('e', n),
            Vector::One(n) => one(n),
        }
    }

    fn vector(&mut self, r: Vector) -> Value {
        let (name, ty) = (self.register(r), self.lanes.vector());
        self.read(&name, &ty)
    }

    fn set_vector(&mut self, r: Vector, x: &str) {
        let (name, ty) = (self.register(r), self.lanes.vector());
        self.write(&name, &ty, x);
    }

    fn mask(&mut self, r: Mask) -> Value {
        let (name, ty) = (self.of_vector('m', r.0), self.mask_type());
        self.read(&name, &ty)
    }

    fn set_mask(&mut self, r: Mask, x: &str) {
        let (name, ty) = (self.of_vector('m', r.0), self.mask_type());
        self.write(&name, &ty, x);
    }

    /// The index of each lane: addresses are scalar.
    fn indices(&mut self, r: Indices) -> Vec<Value> {
        let name = self.of_vector('i', r.0);
        (0..self.lanes.n).map(|l| self.read(&format!("{name}_{l}"), "i64")).collect()
    }

    fn set_indices(&mut self, r: Indices, x: &[Value]) {
        let name = self.of_vector('i', r.0);
        for (l, x) in x.iter().enumerate() {
            self.write(&format!("{name}_{l}"), "i64", x);
        }
    }

    fn room(&mut self, r: Room) -> String {
        self.slot(&format!("r{}", r.0), "[16 x double]")
    }

    fn mask_type(&self) -> String {
        format!("<{} x i1>", self.lanes.n)
    }

    // The launch.

    /// A field of the launch, loaded ahead of the first instruction.
    fn field(&mut self, name: &str, ty: &str, offset: usize) -> Value {
        if self.fields.insert(name.to_string()) {
            self.entry += &format!(
                "  %at_{name} = getelementptr inbounds i8, ptr %a, i64 {offset}\n  %{name} = load {ty}, ptr %at_{name}\n"
            );
        }
        format!("%{name}")
    }

    /// The pointer of a slot.
    fn pointer(&mut self, slot: usize) -> Value {
        self.field(&format!("p{slot}"), "ptr", offset_of!(LaunchAbi, pointers) + 8 * slot)
    }

    fn size(&mut self, dim: usize) -> Value {
        self.field(&format!("dim{dim}"), "i64", offset_of!(LaunchAbi, dims) + 8 * dim)
    }

    /// Whether the launch adds to a slot.
    fn adds(&mut self, slot: usize) -> Value {
        let adds = self.field("adds", "i64", offset_of!(LaunchAbi, adds));
        let bit = self.line(format_args!("and i64 {adds}, {}", (1u64 << slot) as i64));
        self.line(format_args!("icmp ne i64 {bit}, 0"))
    }

    // Addresses.

    /// The type of elements of arrays of reals.
    fn real_type(&self) -> &'static str {
        if self.single { "float" } else { "double" }
    }

    fn address(&mut self, ty: &str, pointer: &str, at: &str) -> Value {
        self.line(format_args!("getelementptr inbounds {ty}, ptr {pointer}, i64 {at}"))
    }

    /// stride · row + component
    fn element(&mut self, row: &str, stride: &str, component: &str) -> Value {
        let mut at = row.to_string();
        if stride != "1" {
            at = self.line(format_args!("mul nsw i64 {at}, {stride}"));
        }
        if component != "0" {
            at = self.line(format_args!("add nsw i64 {at}, {component}"));
        }
        at
    }

    /// The element that an address names.
    fn place(&mut self, at: &Address) -> Value {
        match at.row {
            Some(row) => {
                let row = self.int(row);
                self.element(&row, &at.stride.to_string(), &at.component.to_string())
            }
            None => at.component.to_string(),
        }
    }

    /// The first of the elements that lanes name from an offset on.
    fn first(&mut self, first: Option<Integer>) -> Value {
        let k = self.open.k.clone();
        match first {
            Some(first) => {
                let first = self.int(first);
                self.line(format_args!("add nsw i64 {first}, {k}"))
            }
            None => k,
        }
    }

    /// The iteration of each lane from `first` on; behind the last one that.
    fn iterations(&mut self, first: &str) -> Vec<Value> {
        let places = match &self.open.rest {
            Some(rest) => rest.places.clone(),
            None => (0..self.lanes.n).map(|l| l.to_string()).collect(),
        };
        places.iter().map(|l| self.element(first, "1", l)).collect()
    }

    /// Does what `f` prints unless a pointer is null.
    fn unless_null(&mut self, pointer: &str, f: impl FnOnce(&mut Self)) {
        let (there, end) = (self.new_label(), self.new_label());
        let null = self.line(format_args!("icmp eq ptr {pointer}, null"));
        self.branch(&null, &end, &there);
        self.begins(&there);
        f(self);
        self.goes_on(&end);
    }
}

/// The name of a register that all vectors share.
fn one(n: u32) -> String {
    format!("o{n}")
}

/// A number as a literal of a double.
fn real(x: f64) -> Value {
    format!("0x{:016X}", x.to_bits())
}
