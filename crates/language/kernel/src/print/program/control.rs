//! Branches and loops.

use super::names::OF_ENTRY;
use super::{Lanes, Open, Printer};
use crate::program::{Instruction as I, Integer, Vector};
use std::collections::BTreeSet;

impl Printer<'_> {
    pub(super) fn control(&mut self, i: &I) {
        match i {
            I::If { condition, then, otherwise } => {
                self.line(&format!("if {condition} {{"));
                self.block(then);
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.block(otherwise);
                }
                self.line("}");
            }
            I::For { variable, from, end, body } => {
                self.turns(&format!("for {variable} in {from}..{end}"), body);
            }
            I::Loop { body } => self.turns("loop", body),
            I::Break => self.line(&format!("break 'l{};", self.loops - 1)),
            I::Continue => self.line(&format!("continue 'l{};", self.loops - 1)),
            I::NextRow => self.line("continue 'l0;"),
            I::Segments { begin, stop, from, end, entries, body } => {
                let most = if *entries { "L::FLUSH" } else { "L::N.saturating_mul(L::FLUSH)" };
                let next = format!("{end:#}.min({begin:#}.saturating_add({most})) as i64");
                self.pieces([begin, stop], [from, end], body, &next);
            }
            I::Lanes { variable, from, end, single, entries: None, body } => {
                self.on_lanes(variable, [from, end], *single, body);
            }
            I::Lanes { variable, from, end, entries: Some(slot), body, .. } => {
                self.over_entries(*slot, variable, [from, end], body);
            }
            I::Strip { .. } => self.strip(i),
            I::Lines { begin, stop, from, end, shape, body } => {
                self.line(&format!("let mut line = rt::WaveLine::new({shape}, {from:#});"));
                let next = format!(
                    "{{ if {begin:#} == line.end() {{ line.step(); }} {end}.min(line.end() as i64) }}"
                );
                self.pieces([begin, stop], [from, end], body, &next);
            }
            other => unreachable!("no control flow: {other:?}"),
        }
    }

    /// Iterations from..end in pieces begin..stop, given the text of the end of a piece.
    fn pieces(&mut self, [begin, stop]: [&Integer; 2], [from, end]: [&Integer; 2], body: &[I], next: &str) {
        self.line(&format!("let mut {begin} = {from};\nwhile {begin} < {end} {{\nlet {stop} = {next};"));
        self.block(body);
        self.line(&format!("{begin} = {stop};\n}}"));
    }

    /// A loop that other instructions may leave.
    fn turns(&mut self, head: &str, body: &[I]) {
        self.line(&format!("'l{}: {head} {{", self.loops));
        self.loops += 1;
        self.block(body);
        self.loops -= 1;
        self.line("}");
    }

    /// The loop's first iteration, as a variable of the text, and its end.
    fn iterations(&mut self, [from, end]: [&Integer; 2]) -> [String; 2] {
        let [k, last] = ["k", "end"].map(|name| format!("{name}{}", self.path.len()));
        self.line(&format!("let (mut {k}, {last}) = ({from:#}, {end:#});"));
        [k, last]
    }

    /// The head of a loop over vectors while a condition holds, each with as many iterations as `n` says.
    fn vectors(&mut self, k: &str, condition: &str, n: &str, variable: &Integer) {
        self.line(&format!("while {condition} {{\nlet n = {n};\nlet active = L::first(n);"));
        self.line(&format!("let {variable} = {k} as i64;"));
        self.open = Open { k: k.into(), n: "n", is_whole: false, entry: None };
    }

    /// A loop on lanes: one body for any vector, or one for whole vectors and one for the incomplete vector behind them.
    fn on_lanes(&mut self, variable: &Integer, range: [&Integer; 2], single: bool, body: &[I]) {
        let [k, end] = self.iterations(range);
        let around = self.open.clone();
        let rest = format!("{end} - {k}");
        if single || self.program.wide {
            self.vectors(&k, &format!("{k} < {end}"), &format!("L::N.min({rest})"), variable);
            self.block(body);
            // By whole vectors: tables have room for these, which LLVM could not know of `n`.
            self.line(&format!("{k} += L::N;\n}}"));
        } else {
            let compact = self.lanes == Lanes::Any { compact: true };
            let split = if compact { "L::SPLIT" } else { "true" };
            self.line(&format!("if {split} {{ while {k} + L::N <= {end} {{\nlet {variable} = {k} as i64;"));
            self.open = Open { k: k.clone(), n: "L::N", is_whole: true, entry: None };
            self.block(body);
            self.line(&format!("{k} += L::N;\n}} }}"));
            let any = format!("if L::SPLIT {{ {rest} }} else {{ L::N.min({rest}) }}");
            let condition = format!("L::N > 1 && {k} < {end}");
            self.vectors(&k, &condition, if compact { &any } else { &rest }, variable);
            self.block(body);
            self.line(&format!("{k} += n;\nif {split} {{ break; }}\n}}"));
        }
        self.open = around;
    }

    /// Channels of the pairs of a strip, vector by vector, each for all pairs. Sums of a pair are kept in an array; sums of a
    /// channel over pairs stay in a register where the body does not read them.
    fn strip(&mut self, i: &I) {
        let I::Strip { pair, pairs: [first, last], before, sums, variable, from, end, body, after } = i
        else {
            unreachable!("no strip: {i:?}")
        };
        let pairs = format!("for {pair} in {first}..{last} {{");
        let each = |p: &mut Self, text: &dyn Fn(&Vector, String) -> String| {
            sums.iter().for_each(|sum| p.line(&text(sum, format!("of_{sum}[{pair:#}]"))));
        };
        for sum in sums {
            self.line(&format!("let mut of_{sum} = [L::splat(0.0); rt::WIDEST];"));
        }
        let around = self.open.clone();
        let [k, end] = self.iterations([from, end]);
        self.vectors(&k, &format!("{k} < {end}"), &format!("L::N.min({end} - {k})"), variable);
        self.held = held(body);
        for slot in self.held.clone() {
            self.line(&format!("let mut held{slot} = L::load(reals{slot}.add({k}));"));
        }
        self.line(&pairs);
        self.within(before, |p| {
            before.iter().for_each(|i| p.instruction(i));
            each(p, &|sum, of_pair| format!("let mut {sum} = {of_pair};"));
            p.block(body);
            each(p, &|sum, of_pair| format!("{of_pair} = {sum};"));
        });
        self.line("}");
        for slot in std::mem::take(&mut self.held) {
            self.line(&format!("held{slot}.store(reals{slot}.add({k}));"));
        }
        self.line(&format!("{k} += L::N;\n}}"));
        self.open = around;
        if !after.is_empty() {
            self.line(&pairs);
            self.within(after, |p| {
                each(p, &|sum, of_pair| format!("let {sum} = {of_pair};"));
                after.iter().for_each(|i| p.instruction(i));
            });
            self.line("}");
        }
    }

    /// Entries of clusters, two side by side, instruction by instruction, and then single ones: the chain from a distance to
    /// a force is long, and the second fills the waits of the first. Additions are done entry by entry, since two may be of
    /// one cluster.
    fn over_entries(&mut self, slot: usize, variable: &Integer, range: [&Integer; 2], body: &[I]) {
        let (additions, values): (Vec<&I>, Vec<&I>) = body.iter().partition(|i| i.is_addition());
        let [k, end] = self.iterations(range);
        let around = self.open.clone();
        for suffixes in [&["", "_next"][..], &[""]] {
            let count = suffixes.len();
            let opened = |suffix| Open { k: String::new(), n: "L::N", is_whole: true, entry: Some(suffix) };
            self.line(&format!("while {k} + {count} <= {end} {{\nlet {variable} = {k} as i64;"));
            self.path.push(body.as_ptr() as usize);
            for (n, suffix) in suffixes.iter().enumerate() {
                self.open = opened(suffix);
                self.line(&format!(
                    "let entry{OF_ENTRY} = &*entries{slot}.add({k} + {n});\n\
                     let cluster{OF_ENTRY} = entry{OF_ENTRY}.cluster as usize;\n\
                     let active{OF_ENTRY} = L::bits(entry{OF_ENTRY}.mask);"
                ));
                self.heads();
            }
            for i in &values {
                for suffix in suffixes {
                    self.open = opened(suffix);
                    self.instruction(i);
                }
            }
            for suffix in suffixes {
                self.open = opened(suffix);
                additions.iter().for_each(|i| self.instruction(i));
            }
            self.path.pop();
            self.line(&format!("{k} += {count};\n}}"));
        }
        self.open = around;
    }
}

/// Slots of sums over channels that a block adds to and does not read.
fn held(block: &[I]) -> BTreeSet<usize> {
    let (mut added, mut read, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![block]);
    while let Some(block) = open.pop() {
        for i in block {
            match i {
                I::AddChannels { slot, .. } => added.insert(*slot),
                I::LoadChannels { slot, .. } => read.insert(*slot),
                _ => false,
            };
            open.extend(i.blocks());
        }
    }
    &added - &read
}
