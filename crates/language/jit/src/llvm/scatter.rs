//! Instructions that write arrays, by lanes.

use super::arrays::{bytes, suffix};
use super::{Printer, Value};
use madelung_kernel::program::Instruction as I;

impl Printer {
    pub(super) fn scattered(&mut self, i: &I) {
        match *i {
            I::StoreLanes { slot, first, stride, component, x, adds } => {
                let (p, first, x) = (self.pointer(slot), self.first(first), self.vector(x));
                let adds = if adds { "true".to_string() } else { self.adds(slot) };
                self.unless_null(&p, |s| {
                    if stride == 1 && s.lanes.n > 1 {
                        let at = s.element(&first, "1", &component.to_string());
                        let q = s.address(s.real_type(), &p, &at);
                        return s.store(&q, &x, &adds);
                    }
                    // The sum of two f32 in f64, rounded, is their sum in f32.
                    let at = s.strided(&first, stride, component);
                    let x = if s.lanes.element() == s.real_type() { x } else { s.unless_added(&x, &adds) };
                    s.lane_by_lane(&x, |s, l, x| {
                        let q = s.address(s.real_type(), &p, &at[l]);
                        s.put(&q, x, &adds);
                    });
                });
            }
            I::AddChannels { slot, x, y } => {
                let (p, x, y) = (self.pointer(slot), self.vector(x), y.map(|y| self.vector(y)));
                let (ty, element) = (self.lanes.vector(), self.lanes.element());
                let k = self.open.k.clone();
                let q = self.address(element, &p, &k);
                let align = bytes(element);
                let before = self.line(format_args!("load {ty}, ptr {q}, align {align}"));
                let after = match y {
                    Some(y) => self.fused(&x, &y, &before),
                    None => self.line(format_args!("fadd {ty} {before}, {x}")),
                };
                self.does(format_args!("store {ty} {after}, ptr {q}, align {align}"));
            }
            I::AddConsecutive { slot, first, stride, component, x } => {
                let (p, first, x) = (self.pointer(slot), self.first(first), self.vector(x));
                let at = self.strided(&first, stride, component);
                self.add_lanes(&p, &at, &x);
            }
            I::Scatter { slot, index, stride, offset, x } => {
                let (p, index, x) = (self.pointer(slot), self.indices(index), self.vector(x));
                let (stride, offset) = (self.int(stride), self.int(offset));
                let at: Vec<Value> = index.iter().map(|i| self.element(i, &stride, &offset)).collect();
                self.add_lanes(&p, &at, &x);
            }
            I::ScatterTable { slot, rows, width, columns, x } => {
                let (p, x) = (self.pointer(slot), self.vector(x));
                let at = self.table_places(rows, width, columns);
                self.add_lanes(&p, &at, &x);
            }
            I::AddInClusters { slot, width, component, ref terms } => {
                let q = self.in_cluster(slot, width, component);
                let before = self.side_by_side(self.lanes.element(), &q);
                let mut after = before.clone();
                for term in terms {
                    let (x, y) = (self.vector(term.x), term.y.map(|y| self.vector(y)));
                    after = self.added(&after, x, y, term.minus);
                }
                let active = self.open.active().expect("an entry of clusters is open");
                let after = self.select(&active, &after, &before);
                let align = bytes(self.lanes.element());
                self.does(format_args!("store {} {after}, ptr {q}, align {align}", self.lanes.vector()));
            }
            ref other => unreachable!("not to arrays: {other:?}"),
        }
    }

    /// Adds lanes to elements of an f64 array, one after the other, unless it is null.
    fn add_lanes(&mut self, p: &str, at: &[Value], x: &str) {
        self.unless_null(p, |s| {
            s.lane_by_lane(x, |s, l, x| {
                let q = s.address("double", p, &at[l]);
                s.add_to(&q, x);
            });
        });
    }

    /// Does something with each lane that has an iteration, as f64, in order.
    fn lane_by_lane(&mut self, x: &str, mut f: impl FnMut(&mut Self, usize, &str)) {
        let (x, end) = (self.doubles(x), self.new_label());
        let rest = self.open.rest.as_ref().map(|rest| rest.n.clone());
        for l in 0..self.lanes.n {
            if let (Some(n), true) = (&rest, l > 0) {
                let next = self.new_label();
                let more = self.line(format_args!("icmp sgt i64 {n}, {l}"));
                self.branch(&more, &next, &end);
                self.begins(&next);
            }
            let x = self.lane(&x, l);
            f(self, l, &x);
        }
        self.goes_on(&end);
    }

    /// The lanes, or 0 where f32 would hold a number below the normal ones and nothing is added to: as `rt::row_put` has it.
    fn unless_added(&mut self, x: &str, adds: &str) -> Value {
        let (ty, suffix) = (self.lanes.vector(), self.lanes.suffix());
        let plain = self.without_denormals(x, &ty, &suffix);
        self.line(format_args!("select i1 {adds}, {ty} {x}, {ty} {plain}"))
    }

    /// Writes or adds lanes to elements side by side.
    fn store(&mut self, q: &str, x: &str, adds: &str) {
        let (n, ty, element) = (self.lanes.n, self.lanes.vector(), self.real_type());
        let stored = format!("<{n} x {element}>");
        let mut y = if ty == stored { x.to_string() } else { self.unless_added(x, adds) };
        let before = self.side_by_side(element, q);
        let before = self.on_lanes_of(&before);
        let sum = self.line(format_args!("fadd {ty} {before}, {x}"));
        y = self.line(format_args!("select i1 {adds}, {ty} {sum}, {ty} {y}"));
        y = self.narrowed(&y, &ty, &stored);
        let align = bytes(element);
        let Some(active) = self.open.rest.as_ref().map(|rest| rest.active.clone()) else {
            return self.does(format_args!("store {stored} {y}, ptr {q}, align {align}"));
        };
        let (mask_type, align) = (self.mask_type(), align.to_string());
        let args = [(&*stored, &*y), ("ptr", q), ("i32", &*align), (&*mask_type, &*active)];
        self.calls(&format!("llvm.masked.store.v{n}{}.p0", suffix(element)), &args);
    }
}
