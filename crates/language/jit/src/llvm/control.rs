//! Control flow.

use super::{Entry, Open, Printer, Rest};
use madelung_core::runtime::ClusterEntry;
use madelung_kernel::program::Instruction as I;
use madelung_kernel::program::{Instruction, Integer};
use std::mem::{offset_of, size_of};

impl Printer {
    pub(super) fn control(&mut self, i: &I) {
        match i {
            I::If { condition, then, otherwise } => {
                let [yes, no, end] = [(); 3].map(|()| self.new_label());
                let condition = self.condition(*condition);
                self.branch(&condition, &yes, &no);
                self.begins(&yes);
                self.block(then);
                self.does(format_args!("br label %{end}"));
                self.begins(&no);
                self.block(otherwise);
                self.goes_on(&end);
            }
            I::For { variable, from, end: to, body } => {
                let [head, inside, next, end] = [(); 4].map(|()| self.new_label());
                let from = self.int(*from);
                self.set_int(*variable, &from);
                self.goes_on(&head);
                self.while_below(*variable, *to, &inside, &end);
                self.loops.push([end.clone(), next.clone()]);
                self.block(body);
                self.loops.pop();
                self.goes_on(&next);
                let n = self.int(*variable);
                let n = self.line(format_args!("add nsw i64 {n}, 1"));
                self.set_int(*variable, &n);
                self.does(format_args!("br label %{head}"));
                self.begins(&end);
            }
            I::Loop { body } => {
                let [head, end] = [(); 2].map(|()| self.new_label());
                self.goes_on(&head);
                self.loops.push([end.clone(), head.clone()]);
                self.block(body);
                self.loops.pop();
                self.does(format_args!("br label %{head}"));
                self.begins(&end);
            }
            I::Break => self.leaves(self.loops.last().map(|[end, _]| end.clone())),
            I::Continue => self.leaves(self.loops.last().map(|[_, next]| next.clone())),
            I::NextRow => self.leaves(self.loops.first().map(|[_, next]| next.clone())),
            I::Segments { begin, stop, from, end: to, entries, body } => {
                let [head, inside, end] = [(); 3].map(|()| self.new_label());
                let from = self.int(*from);
                self.set_int(*begin, &from);
                self.goes_on(&head);
                self.while_below(*begin, *to, &inside, &end);
                let mut last = self.int(*to);
                let of_vector = if *entries { 1 } else { self.lanes.n };
                if let Some(most) =
                    self.lanes.flush().checked_mul(of_vector).filter(|n| *n < i64::MAX as usize)
                {
                    let first = self.int(*begin);
                    let far = self.line(format_args!("add nsw i64 {first}, {most}"));
                    last = self.call("i64", "llvm.smin.i64", &[("i64", &far), ("i64", &last)]);
                }
                self.set_int(*stop, &last);
                self.block(body);
                let stop = self.int(*stop);
                self.set_int(*begin, &stop);
                self.does(format_args!("br label %{head}"));
                self.begins(&end);
            }
            I::Lanes { variable, from, end: to, entries: None, body, .. } => {
                self.on_lanes(*variable, *from, *to, body);
            }
            I::Lanes { variable, from, end: to, entries: Some(slot), body, .. } => {
                self.over_entries(*slot, *variable, [*from, *to], body);
            }
            I::Strip { .. } => i.pair_by_pair().iter().for_each(|i| self.instruction(i)),
            I::Lines { begin, stop, from, end: to, shape, body } => {
                let [first, head, end] = [(); 3].map(|()| self.new_label());
                let (lo, hi, shape) = (self.int(*from), self.int(*to), self.shape(*shape));
                let any = self.line(format_args!("icmp slt i64 {lo}, {hi}"));
                self.branch(&any, &first, &end);
                self.begins(&first);
                let line = self.wave_line();
                self.calls("madelung_line", &[("ptr", &shape), ("i64", &lo), ("ptr", &line)]);
                self.set_int(*begin, &lo);
                self.goes_on(&head);
                let behind = self.call("i64", "madelung_line_end", &[("ptr", &line)]);
                let stops = self.call("i64", "llvm.smin.i64", &[("i64", &hi), ("i64", &behind)]);
                self.set_int(*stop, &stops);
                self.block(body);
                let (lo, next) = (self.int(*stop), self.new_label());
                let more = self.line(format_args!("icmp slt i64 {lo}, {hi}"));
                self.branch(&more, &next, &end);
                self.begins(&next);
                self.calls("madelung_line_step", &[("ptr", &line)]);
                self.set_int(*begin, &lo);
                self.does(format_args!("br label %{head}"));
                self.begins(&end);
            }
            other => unreachable!("no control flow: {other:?}"),
        }
    }

    /// Goes to a place, and begins a block that nothing reaches.
    fn leaves(&mut self, to: Option<String>) {
        let to = to.expect("within a loop");
        self.does(format_args!("br label %{to}"));
        let behind = self.new_label();
        self.begins(&behind);
    }

    /// Goes inside while an integer is below another one.
    fn while_below(&mut self, x: Integer, to: Integer, inside: &str, end: &str) {
        let (x, to) = (self.int(x), self.int(to));
        let more = self.line(format_args!("icmp slt i64 {x}, {to}"));
        self.branch(&more, inside, end);
        self.begins(inside);
    }

    /// A loop on lanes: whole vectors, and the incomplete one behind them.
    fn on_lanes(&mut self, variable: Integer, from: Integer, to: Integer, body: &[Instruction]) {
        let [head, whole, behind, incomplete, end] = [(); 5].map(|()| self.new_label());
        let (from, to, n) = (self.int(from), self.int(to), self.lanes.n);
        let around = self.open.clone();
        let first = self.slot(&format!("k_{head}"), "i64");
        self.does(format_args!("store i64 {from}, ptr {first}"));
        self.goes_on(&head);
        let k = self.line(format_args!("load i64, ptr {first}"));
        let next = self.line(format_args!("add nsw i64 {k}, {n}"));
        let is_whole = self.line(format_args!("icmp sle i64 {next}, {to}"));
        self.branch(&is_whole, &whole, if n == 1 { &end } else { &behind });
        self.begins(&whole);
        self.set_int(variable, &k);
        self.open = Open { k: k.clone(), rest: None, entry: None };
        self.block(body);
        self.does(format_args!("store i64 {next}, ptr {first}"));
        self.does(format_args!("br label %{head}"));
        if n > 1 {
            self.begins(&behind);
            let any = self.line(format_args!("icmp slt i64 {k}, {to}"));
            self.branch(&any, &incomplete, &end);
            self.begins(&incomplete);
            self.set_int(variable, &k);
            let rest = self.rest(&k, &to);
            self.open = Open { k, rest: Some(rest), entry: None };
            self.block(body);
            self.does(format_args!("br label %{end}"));
        }
        self.begins(&end);
        self.open = around;
    }

    /// A loop over entries of clusters: two side by side, instruction by instruction, as compiled code has them, then single
    /// ones. Additions are done entry by entry, since two may be of one cluster.
    fn over_entries(
        &mut self,
        slot: usize,
        variable: Integer,
        [from, to]: [Integer; 2],
        body: &[Instruction],
    ) {
        let (additions, values): (Vec<_>, Vec<_>) = body.iter().partition(|i| i.is_addition());
        let (from, to, entries) = (self.int(from), self.int(to), self.pointer(slot));
        let around = self.open.clone();
        let first = self.slot(&format!("k_entry{}", self.labels), "i64");
        self.does(format_args!("store i64 {from}, ptr {first}"));
        for suffixes in [&["", "_next"][..], &[""]] {
            let [head, inside, behind] = [(); 3].map(|()| self.new_label());
            self.goes_on(&head);
            let k = self.line(format_args!("load i64, ptr {first}"));
            let next = self.line(format_args!("add nsw i64 {k}, {}", suffixes.len()));
            let more = self.line(format_args!("icmp sle i64 {next}, {to}"));
            self.branch(&more, &inside, &behind);
            self.begins(&inside);
            self.set_int(variable, &k);
            let open: Vec<Open> =
                suffixes.iter().enumerate().map(|(n, suffix)| self.entry(&entries, &k, n, suffix)).collect();
            for i in &values {
                for entry in &open {
                    self.open = entry.clone();
                    self.instruction(i);
                }
            }
            for entry in open {
                self.open = entry;
                additions.iter().for_each(|i| self.instruction(i));
            }
            self.does(format_args!("store i64 {next}, ptr {first}"));
            self.does(format_args!("br label %{head}"));
            self.begins(&behind);
        }
        self.open = around;
    }

    /// The n-th entry of clusters from one on.
    fn entry(&mut self, entries: &str, first: &str, n: usize, suffix: &'static str) -> Open {
        let k = self.element(first, "1", &n.to_string());
        let [cluster, mask] =
            [offset_of!(ClusterEntry, cluster), offset_of!(ClusterEntry, mask)].map(|offset| {
                let at = self.element(&k, &size_of::<ClusterEntry>().to_string(), &offset.to_string());
                let q = self.address("i8", entries, &at);
                self.line(format_args!("load i32, ptr {q}, align 4"))
            });
        let cluster = self.line(format_args!("zext i32 {cluster} to i64"));
        let lanes = self.lanes.n;
        let bits = self.line(format_args!("trunc i32 {mask} to i{lanes}"));
        let active = self.line(format_args!("bitcast i{lanes} {bits} to {}", self.mask_type()));
        Open { k, rest: None, entry: Some(Entry { cluster, active, suffix }) }
    }

    fn rest(&mut self, k: &str, to: &str) -> Rest {
        let n = self.line(format_args!("sub nsw i64 {to}, {k}"));
        let last = self.line(format_args!("sub nsw i64 {n}, 1"));
        let place = |p: &mut Self, l: usize| {
            if l == 0 {
                return "0".to_string();
            }
            p.call("i64", "llvm.umin.i64", &[("i64", &l.to_string()), ("i64", &last)])
        };
        let places = (0..self.lanes.n).map(|l| place(self, l)).collect();
        let active = self.before(&n, 0);
        Rest { n, active, places }
    }

    /// The lanes l with l + start < n.
    pub(super) fn before(&mut self, n: &str, start: usize) -> String {
        let lanes = self.lanes.n;
        let ty = format!("<{lanes} x i32>");
        let n = self.line(format_args!("trunc i64 {n} to i32"));
        let one = self.line(format_args!("insertelement {ty} poison, i32 {n}, i32 0"));
        let all = self.line(format_args!("shufflevector {ty} {one}, {ty} poison, {ty} zeroinitializer"));
        let places: Vec<String> = (0..lanes).map(|l| format!("i32 {}", l + start)).collect();
        self.line(format_args!("icmp sgt {ty} {all}, <{}>", places.join(", ")))
    }
}
