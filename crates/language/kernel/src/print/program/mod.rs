//! Rust text of programs, a statement an instruction: no construct of the language is known here.

mod control;
mod instructions;
mod names;
mod uses;

use crate::program::{Family, Instruction as I, Program, Use};
use names::{OF_ENTRY, name};
use std::collections::BTreeSet;
use uses::Uses;

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
/// ([`Stmt::Check`](crate::ir::Stmt::Check)), what such rows share is touched atomically, and the arrays of a cluster
/// form have room for every cluster that its runs and entries name.
pub fn function(program: &Program, name: &str, lanes: Lanes) -> String {
    let mut p = Printer::new(program, lanes);
    p.block(&program.body);
    let [lo, hi] = program.rows;
    let head = p.head();
    let body = format!(
        "// SAFETY: `rt::LaunchAbi` is made by the backend alone, which checked every array's length and every index\n\
         // against the kernel's declaration, or had them checked; rows lo..hi are this call's own.\n\
         unsafe {{\n{head}let ({lo}, {hi}) = (lo as i64, hi as i64);\n{}}}\n",
        p.text
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
    uses: Uses,
    text: String,
    /// The open blocks, and the number of loops around that can be left.
    path: Vec<usize>,
    loops: usize,
    open: Open,
    /// Slots of sums over channels whose open channels are registers.
    held: BTreeSet<usize>,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program, lanes: Lanes) -> Self {
        Self {
            program,
            lanes,
            uses: Uses::new(program),
            text: String::new(),
            path: vec![],
            loops: 0,
            // Outside of loops on lanes an instruction works on one whole vector.
            open: Open { k: "0".into(), n: "L::N", is_whole: true, entry: None },
            held: BTreeSet::new(),
        }
    }

    /// Pointers and constants.
    fn head(&self) -> String {
        let real = if self.program.wide || self.lanes == Lanes::None { "E" } else { "L::Elem" };
        let mut head = names::pointers(&self.text, real);
        let Program { scalars, integers, vectors, .. } = self.program;
        head.extend(scalars.iter().map(|(r, x)| format!("let {r} = {x:?}f64;\n")));
        head.extend(integers.iter().map(|(r, x)| format!("let {r} = {x}i64;\n")));
        head.extend(vectors.iter().map(|(r, x)| format!("let o{r} = L::splat({x:?});\n")));
        head
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(&line.replace(OF_ENTRY, self.open.entry.unwrap_or_default()));
        self.text.push('\n');
    }

    fn instruction(&mut self, i: &I) {
        if i.family() == Family::Control {
            return self.control(i);
        }
        let (mut to, mut declared, mut all) = (vec![], vec![], true);
        i.registers(&mut |r, of| {
            if of != Use::Read {
                let declares = self.uses.declares(r, i);
                all &= declares.is_some();
                declared.extend(declares.map(|mutable| format!("{mutable}{}", name(r))));
                to.push(name(r));
            }
        });
        let x = self.text(i);
        let [open, close] = match i {
            I::PairLanes { .. } | I::Best { .. } | I::BestOf { .. } => ["(", ")"],
            _ if to.is_empty() || matches!(i, I::AddTo { .. }) => return self.line(&x),
            _ if to.len() == 1 => ["", ""],
            _ => ["[", "]"],
        };
        if all {
            return self.line(&format!("let {open}{}{close} = {x};", declared.join(", ")));
        }
        declared.iter().for_each(|name| self.line(&format!("let {name};")));
        self.line(&format!("{open}{}{close} = {x};", to.join(", ")));
    }

    /// A block without braces.
    fn block(&mut self, body: &[I]) {
        self.within(body, |p| body.iter().for_each(|i| p.instruction(i)));
    }

    /// A block whose registers are declared at its head, if no statement of it does.
    fn within(&mut self, body: &[I], print: impl FnOnce(&mut Self)) {
        self.path.push(body.as_ptr() as usize);
        self.heads();
        print(self);
        self.path.pop();
    }

    fn heads(&mut self) {
        self.uses.heads(&self.path).into_iter().for_each(|head| self.line(&head));
    }
}
