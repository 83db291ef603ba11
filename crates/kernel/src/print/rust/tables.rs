//! Tables: arrays whose row and column are elements of maps.

use super::{Lanes, Printer};
use crate::ir::{ParamId, Role, Val};
use crate::print::layout::Array;

impl Printer<'_> {
    /// The address of an element of a table in the terms of `gather` and `scatter`, of their forms for tables where row and
    /// column differ between lanes, or, where neither does, of scalar code. Before it the ending of those forms' names.
    pub(super) fn in_table(
        &self,
        (param, role): (ParamId, Role),
        row: Val,
        column: Val,
    ) -> (&'static str, String) {
        let (slot, width) = (self.layout.slot(param, Array::Values(role)), self.b.width(column));
        let at = |v: Val| {
            if self.varies(v) { format!("v{v}{}", self.entry) } else { self.scalar(v) }
        };
        let (r, c) = (at(row), at(column));
        match (self.varies(row), self.varies(column)) {
            (false, false) => ("", format!("p{slot}, {r} * w{width} + {c}")),
            (false, true) => ("", format!("p{slot}, {c}, 1, {r} * w{width}")),
            (true, false) => ("", format!("p{slot}, {r}, w{width}, {c}")),
            (true, true) => ("_table", format!("p{slot}, {r}, w{width}, {c}")),
        }
    }

    pub(super) fn contribute_to_table(&mut self, array: (ParamId, Role), row: Val, column: Val, value: Val) {
        let (form, at) = self.in_table(array, row, column);
        if self.varies(row) || self.varies(column) {
            let n = self.lanes.as_ref().map_or("n", Lanes::count);
            let x = self.real(value);
            self.line(&format!("rt::scatter{form}::<L>({at}, {x}, {n});"));
        } else {
            let x = self.scalar(value);
            self.line(&format!("rt::add({at}, {x});"));
        }
    }
}
