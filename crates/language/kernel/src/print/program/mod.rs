//! Rust text of programs, a statement an instruction: no construct of the language is known here.
//!
//! A register is declared where it is first written, if the block of that statement holds all of its uses, and otherwise
//! at the head of the innermost block that does. A program is printed twice: the first text tells what is used where.

mod instructions;
mod operands;

use crate::program::{Instruction as I, Integer, Program};
use operands::{Operand, Pointer, Variable, does};
use rustc_hash::FxHashMap as HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Lanes of a printed function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lanes {
    /// Lanes of the arrays' type, or of f64 where the program says so.
    Any {
        /// Whether lane types that ask for it (`SPLIT` is false) run whole vectors through the code of incomplete ones, which
        /// halves what there is to compile.
        compact: bool,
    },
    /// None: a function of the arrays' type.
    None,
}

/// The function `name` of a program, in the terms of the runtime module `rt`.
///
/// The printed code is sound where a launch is: the backend checks the length of every array and every index against the
/// kernel's declaration, rows that a kernel without derivatives computes are compared with the number of rows
/// ([`Stmt::Check`](crate::imperative::Stmt::Check)), what such rows share is touched atomically, and the arrays of a cluster
/// form have room for every cluster that its runs and entries name.
pub fn function(program: &Program, name: &str, lanes: Lanes) -> String {
    let mut p = Printer::new(program, lanes);
    p.block(&program.rows, &program.body);
    p.text = Some(String::new());
    p.block(&program.rows, &program.body);
    let [lo, hi] = program.rows.map(|row| row.name(""));
    let pointers: String = p.pointers.iter().map(|(slot, of)| of.declared(*slot)).collect();
    let body = format!(
        "// SAFETY: `rt::LaunchAbi` is made by the backend alone, which checked every array's length and every index\n\
         // against the kernel's declaration, or had them checked; rows lo..hi are this call's own.\n\
         unsafe {{\n{pointers}let ({lo}, {hi}) = (lo as i64, hi as i64);\n{}}}\n",
        p.text.unwrap_or_default()
    );
    let args = "(a: &rt::LaunchAbi, lo: usize, hi: usize, partials: *mut f64)";
    match lanes {
        Lanes::None => format!("unsafe fn {name}<E: rt::SharedReal>{args} {{\n{body}}}\n"),
        Lanes::Any { .. } if !program.wide => {
            format!("#[inline(always)]\nunsafe fn {name}<L: rt::Lane>{args} {{\n{body}}}\n")
        }
        Lanes::Any { .. } => format!(
            "#[inline(always)]\nunsafe fn {name}<M: rt::Lane>{args} {{\n\
             #[inline(always)]\nunsafe fn on_lanes<E: rt::Elem, L: rt::Lane<Elem = f64>>{args} {{\n{body}}}\n\
             // SAFETY: the caller's promises are the callee's.\n\
             unsafe {{ on_lanes::<M::Elem, M::Rows>(a, lo, hi, partials) }}\n}}\n"
        ),
    }
}

/// Use of a register: the innermost block that holds all uses, and the block of the first one, if that is a write. Blocks
/// are named by the ones around them, each by its first instruction.
struct Usage {
    home: Vec<usize>,
    first: Option<Vec<usize>>,
    writes: usize,
    /// A value for rustc, which does not see that the register is written before it is read.
    none: &'static str,
    is_declared: bool,
}

impl Usage {
    /// Whether the first write declares the register.
    fn by_write(&self) -> bool {
        self.first.as_ref() == Some(&self.home)
    }
}

/// The vector of iterations that is open.
#[derive(Clone)]
struct Open {
    /// The first iteration, and the number of iterations.
    k: String,
    n: &'static str,
    is_whole: bool,
    /// The suffix of the names of an entry of clusters.
    entry: Option<&'static str>,
}

struct Printer<'a> {
    program: &'a Program,
    lanes: Lanes,
    /// The type of reals in memory.
    element: &'static str,
    /// None while uses are found.
    text: Option<String>,
    usages: BTreeMap<String, Usage>,
    constants: HashMap<String, String>,
    pointers: BTreeMap<usize, Pointer>,
    /// The derivatives that tables of splines hold.
    orders: HashMap<u32, usize>,
    /// The open blocks, and the number of loops around that can be left.
    path: Vec<usize>,
    loops: usize,
    open: Open,
    /// Slots of sums over channels whose open channels are registers.
    held: BTreeSet<usize>,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program, lanes: Lanes) -> Self {
        let reals = program.scalars.iter().map(|(r, x)| (r.name(""), format!("({x:?}f64)")));
        let integers = program.integers.iter().map(|(r, x)| (r.name(""), format!("({x}i64)")));
        let vectors = program.vectors.iter().map(|(r, x)| (format!("o{r}"), format!("L::splat({x:?})")));
        Self {
            program,
            lanes,
            element: if program.wide || lanes == Lanes::None { "E" } else { "L::Elem" },
            text: None,
            usages: BTreeMap::new(),
            constants: reals.chain(integers).chain(vectors).collect(),
            pointers: BTreeMap::new(),
            orders: HashMap::default(),
            path: vec![],
            loops: 0,
            // Outside of loops on lanes an instruction works on one whole vector.
            open: Open { k: "0".into(), n: "L::N", is_whole: true, entry: None },
            held: BTreeSet::new(),
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(text) = &mut self.text {
            text.push_str(line);
            text.push('\n');
        }
    }

    /// The suffix of names of registers on lanes.
    fn suffix(&self) -> &'static str {
        self.open.entry.unwrap_or_default()
    }

    fn is_used(&mut self, name: &str, none: &'static str, is_written: bool) {
        if self.text.is_some() {
            return;
        }
        let path = &self.path;
        let usage = self.usages.entry(name.into()).or_insert_with(|| {
            let first = is_written.then(|| path.clone());
            Usage { home: path.clone(), first, writes: 0, none, is_declared: false }
        });
        let shared = usage.home.iter().zip(path).take_while(|(a, b)| a == b).count();
        usage.home.truncate(shared);
        usage.writes += usize::from(is_written);
    }

    /// The name of a register that is written, and whether the statement is to declare it.
    fn written<R: Variable>(&mut self, register: R) -> (String, bool) {
        let name = register.name(self.suffix());
        self.is_used(&name, R::NONE, true);
        let usage = self.usages.get_mut(&name).expect("a use was found");
        let is_declared = self.text.is_none() || !usage.by_write() || usage.is_declared;
        usage.is_declared = true;
        (if is_declared || usage.writes == 1 { name } else { format!("mut {name}") }, !is_declared)
    }

    fn set<R: Variable>(&mut self, to: &R, x: &str) {
        let (name, declares) = self.written(*to);
        self.line(&format!("{}{name} = {x};", if declares { "let " } else { "" }));
    }

    /// Sets registers to the members of an array or a tuple.
    fn set_all<R: Variable>(&mut self, to: &[R], [open, close]: [char; 2], x: &str) {
        let names: Vec<(String, bool)> = to.iter().map(|r| self.written(*r)).collect();
        let all = |of: &dyn Fn(&str) -> String| {
            names.iter().map(|(name, _)| of(name)).collect::<Vec<_>>().join(", ")
        };
        if names.iter().all(|(_, declares)| *declares) {
            return self.line(&format!("let {open}{}{close} = {x};", all(&str::to_string)));
        }
        for (name, _) in names.iter().filter(|(_, declares)| *declares) {
            self.line(&format!("let {name};"));
        }
        let bare = all(&|name| name.trim_start_matches("mut ").to_string());
        self.line(&format!("{open}{bare}{close} = {x};"));
    }

    /// A block without braces, with variables that the text ahead of it declares.
    fn block(&mut self, variables: &[Integer], body: &[I]) {
        self.within(variables, body, |p| body.iter().for_each(|i| p.instruction(i)));
    }

    fn within(&mut self, variables: &[Integer], body: &[I], print: impl FnOnce(&mut Self)) {
        self.path.push(body.as_ptr() as usize);
        for variable in variables {
            self.written(*variable);
        }
        let mut heads = vec![];
        // Copies of a block declare registers each for themselves.
        for (name, usage) in self.usages.iter_mut().filter(|(_, usage)| usage.home == self.path) {
            usage.is_declared = variables.iter().any(|variable| variable.name("") == *name);
            if !usage.by_write() {
                heads.push(format!("let mut {name} = {};", usage.none));
            }
        }
        heads.iter().for_each(|head| self.line(head));
        print(self);
        self.path.pop();
    }

    fn control(&mut self, i: &I) {
        match i {
            I::If { condition, then, otherwise } => {
                does!(self, "if {} {{", condition);
                self.block(&[], then);
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.block(&[], otherwise);
                }
                self.line("}");
            }
            I::For { variable, from, to, body } => {
                let head = format!("for {} in {}..{}", variable.name(""), from.text(self), to.text(self));
                self.turns(&head, &[*variable], body);
            }
            I::Loop { body } => self.turns("loop", &[], body),
            I::Break => self.leave("break", self.loops - 1),
            I::Continue => self.leave("continue", self.loops - 1),
            I::NextRow => self.leave("continue", 0),
            I::Segments { begin, stop, from, to, entries, body } => {
                let most = if *entries { "L::FLUSH" } else { "L::N.saturating_mul(L::FLUSH)" };
                let next = |begin: &str, to: &str| {
                    format!("({to} as usize).min(({begin} as usize).saturating_add({most})) as i64")
                };
                self.pieces([begin, stop], [from, to], body, &next);
            }
            I::Lanes { variable, from, to, single, entries: None, body } => {
                self.on_lanes(*variable, [from, to], *single, body);
            }
            I::Lanes { variable, from, to, entries: Some(slot), body, .. } => {
                self.over_entries(*slot, *variable, [from, to], body);
            }
            I::Strip { pair, pairs, before, sums, variable, from, to, body, after } => {
                let pairs =
                    format!("for {} in {}..{}", pair.name(""), pairs[0].text(self), pairs[1].text(self));
                let each: Vec<String> = sums
                    .iter()
                    .map(|sum| format!("of_{}[{} as usize]", sum.name(""), pair.name("")))
                    .collect();
                for sum in sums {
                    self.line(&format!("let mut of_{} = [L::splat(0.0); rt::WIDEST];", sum.name("")));
                }
                self.strip(*variable, [from, to], body, |p| {
                    p.line(&format!("{pairs} {{"));
                    p.within(&[*pair], before, |p| {
                        before.iter().for_each(|i| p.instruction(i));
                        sums.iter().zip(&each).for_each(|(sum, of_pair)| p.set(sum, of_pair));
                        p.block(&[], body);
                        sums.iter().zip(&each).for_each(|(sum, of_pair)| does!(p, "{} = {};", of_pair, sum));
                    });
                    p.line("}");
                });
                if !after.is_empty() {
                    self.line(&format!("{pairs} {{"));
                    self.within(&[*pair], after, |p| {
                        sums.iter().zip(&each).for_each(|(sum, of_pair)| p.set(sum, of_pair));
                        after.iter().for_each(|i| p.instruction(i));
                    });
                    self.line("}");
                }
            }
            I::Lines { begin, stop, from, to, shape, body } => {
                does!(self, "let mut line = rt::WaveLine::new({}, {} as usize);", shape, from);
                let next = |begin: &str, to: &str| {
                    format!(
                        "{{ if {begin} as usize == line.end() {{ line.step(); }} {to}.min(line.end() as i64) }}"
                    )
                };
                self.pieces([begin, stop], [from, to], body, &next);
            }
            other => unreachable!("no control flow: {other:?}"),
        }
    }

    /// Iterations from..to in pieces begin..stop, given the text of the end of a piece.
    fn pieces(
        &mut self,
        [begin, stop]: [&Integer; 2],
        [from, to]: [&Integer; 2],
        body: &[I],
        next: &dyn Fn(&str, &str) -> String,
    ) {
        let (from, to) = (from.text(self), to.text(self));
        let [b, s] = [begin, stop].map(|r| r.name(""));
        let next = next(&b, &to);
        self.line(&format!("let mut {b} = {from};\nwhile {b} < {to} {{\nlet {s} = {next};"));
        self.block(&[*begin, *stop], body);
        self.line(&format!("{b} = {s};\n}}"));
    }

    /// A loop that other instructions may leave.
    fn turns(&mut self, head: &str, variables: &[Integer], body: &[I]) {
        self.line(&format!("'l{}: {head} {{", self.loops));
        self.loops += 1;
        self.block(variables, body);
        self.loops -= 1;
        self.line("}");
    }

    fn leave(&mut self, word: &str, of: usize) {
        self.line(&format!("{word} 'l{of};"));
    }

    /// The loop's first iteration, as a variable of the text, and its end.
    fn iterations(&mut self, [from, to]: [&Integer; 2]) -> [String; 2] {
        let (from, to) = (from.text(self), to.text(self));
        let [k, end] = ["k", "end"].map(|name| format!("{name}{}", self.path.len()));
        self.line(&format!("let (mut {k}, {end}) = ({from} as usize, {to} as usize);"));
        [k, end]
    }

    /// A loop on lanes: one body for any vector, or one for whole vectors and one for the incomplete vector behind them.
    fn on_lanes(&mut self, variable: Integer, range: [&Integer; 2], single: bool, body: &[I]) {
        let [k, end] = self.iterations(range);
        let around = self.open.clone();
        let vector = |p: &mut Self, n: &'static str| {
            p.open = Open { k: k.clone(), n, is_whole: n == "L::N", entry: None };
            p.line(&format!("let {} = {k} as i64;", variable.name("")));
            p.block(&[variable], body);
        };
        let head = |while_: &str, n: &str| {
            format!("while {while_}{k} < {end} {{\nlet n = {n};\nlet active = L::first(n);")
        };
        let rest = format!("{end} - {k}");
        if single || self.program.wide {
            self.line(&head("", &format!("L::N.min({rest})")));
            vector(self, "n");
            // By whole vectors: tables have room for these, which LLVM could not know of `n`.
            self.line(&format!("{k} += L::N;\n}}"));
        } else {
            let compact = self.lanes == Lanes::Any { compact: true };
            let split = if compact { "L::SPLIT" } else { "true" };
            if self.text.is_some() {
                self.line(&format!("if {split} {{ while {k} + L::N <= {end} {{"));
                vector(self, "L::N");
                self.line(&format!("{k} += L::N;\n}} }}"));
            }
            let n =
                if compact { format!("if L::SPLIT {{ {rest} }} else {{ L::N.min({rest}) }}") } else { rest };
            self.line(&head("L::N > 1 && ", &n));
            vector(self, "n");
            self.line(&format!("{k} += n;\nif {split} {{ break; }}\n}}"));
        }
        self.open = around;
    }

    /// Channels of the pairs of a strip, vector by vector: each is done for all pairs, whose sums over pairs stay in registers
    /// where the body does not read them.
    fn strip(
        &mut self,
        variable: Integer,
        range: [&Integer; 2],
        body: &[I],
        of_pairs: impl FnOnce(&mut Self),
    ) {
        let added = slots(body, &|i| if let I::AddChannels { slot, .. } = i { Some(*slot) } else { None });
        let read = slots(body, &|i| if let I::LoadChannels { slot, .. } = i { Some(*slot) } else { None });
        let held = &added - &read;
        let [k, end] = self.iterations(range);
        let around = self.open.clone();
        self.line(&format!(
            "while {k} < {end} {{\nlet n = L::N.min({end} - {k});\nlet active = L::first(n);"
        ));
        self.line(&format!("let {} = {k} as i64;", variable.name("")));
        self.open = Open { k: k.clone(), n: "n", is_whole: false, entry: None };
        for slot in &held {
            does!(self, "let mut held{} = L::load({}.add({}));", slot, self.reals(slot), &*k);
        }
        self.held = held;
        of_pairs(self);
        for slot in std::mem::take(&mut self.held) {
            does!(self, "held{}.store({}.add({}));", slot, self.reals(&slot), &*k);
        }
        self.line(&format!("{k} += L::N;\n}}"));
        self.open = around;
    }

    /// Entries of clusters, two side by side, instruction by instruction, and then single ones: the chain from a distance to
    /// a force is long, and the second fills the waits of the first. Additions are done entry by entry, since two may be of
    /// one cluster.
    fn over_entries(&mut self, slot: usize, variable: Integer, range: [&Integer; 2], body: &[I]) {
        let is_addition =
            |i: &&I| matches!(i, I::Sum { .. } | I::SumOfProduct { .. } | I::AddInClusters { .. });
        let (additions, values): (Vec<&I>, Vec<&I>) = body.iter().partition(is_addition);
        let ([k, end], entries) = (self.iterations(range), self.pointer(slot, Pointer::Entries));
        let around = self.open.clone();
        let copies = [&["", "_next"][..], &[""]];
        for suffixes in if self.text.is_some() { &copies[..] } else { &copies[..1] } {
            let count = suffixes.len();
            self.line(&format!("while {k} + {count} <= {end} {{"));
            for (n, suffix) in suffixes.iter().enumerate() {
                self.line(&format!(
                    "let entry{suffix} = &*{entries}.add({k} + {n});\n\
                     let cluster{suffix} = entry{suffix}.cluster as usize;\n\
                     let active{suffix} = L::bits(entry{suffix}.mask);"
                ));
            }
            self.line(&format!("let {} = {k} as i64;\n{k} += {count};", variable.name("")));
            let opened = |suffix| Open { k: String::new(), n: "L::N", is_whole: true, entry: Some(suffix) };
            self.within(&[variable], body, |p| {
                for i in &values {
                    for suffix in *suffixes {
                        p.open = opened(suffix);
                        p.instruction(i);
                    }
                }
                for suffix in *suffixes {
                    p.open = opened(suffix);
                    additions.iter().for_each(|i| p.instruction(i));
                }
            });
            self.line("}");
        }
        self.open = around;
    }
}

/// Slots that the instructions of a block name.
fn slots(block: &[I], of: &dyn Fn(&I) -> Option<usize>) -> BTreeSet<usize> {
    let inner = block.iter().flat_map(I::blocks).flat_map(|block| slots(block, of));
    block.iter().filter_map(of).chain(inner).collect()
}
