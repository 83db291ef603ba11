//! The largest of the values that a loop meets, and its place.

use super::Printer;
use crate::ir::{Acc, Val};
use std::collections::BTreeSet;

impl Printer<'_> {
    /// The largest values that lanes of a loop meet, and where.
    pub(super) fn begin_bests(&mut self, bests: &BTreeSet<Acc>) {
        for m in bests {
            self.line(&format!("let (mut l{m}, mut lw{m}) = (L::splat(f64::MIN), L::splat(-1.0));"));
        }
    }

    pub(super) fn end_bests(&mut self, bests: &BTreeSet<Acc>) {
        for m in bests {
            self.line(&format!("(m{m}, w{m}) = rt::best(m{m}, w{m}, l{m}, lw{m});"));
        }
    }

    pub(super) fn raise(&mut self, m: Acc, value: Val, place: Val) {
        let (x, at) = (self.real(value), self.real(place));
        let Some(lanes) = &self.lanes else {
            self.line(&format!("if {x} > m{m} {{ (m{m}, w{m}) = ({x}, {at}); }}"));
            return;
        };
        let l = if lanes.inner.contains(&m) { "" } else { "l" };
        let (best, where_) = if l.is_empty() {
            (format!("m{m}"), format!("w{m}"))
        } else {
            (format!("l{m}"), format!("lw{m}"))
        };
        let larger = format!("{best}.lt({x})");
        let larger = if lanes.full { larger } else { format!("L::and(active, {larger})") };
        self.line(&format!(
            "let larger = {larger};\n({best}, {where_}) = (L::select(larger, {x}, {best}), L::select(larger, {at}, {where_}));"
        ));
    }
}
