//! Loops over data.

use super::super::{Address, Combine, Instruction as I, Integer, Vector};
use super::{Lanes, Lowering, at, outside_values, strips};
use crate::ir::{Acc, LoopId, Range, Stmt, Val, declared, fed, walk};
use crate::layout::Array;
use rustc_hash::FxHashMap as HashMap;
use std::collections::{BTreeMap, BTreeSet};

impl<'a> Lowering<'a> {
    /// The first iteration of a loop and the one after the last.
    pub(super) fn bounds(&mut self, range: Range) -> (Integer, Integer) {
        let (slot, array, row) = match range {
            Range::Ints(lo, hi) => return (self.int(lo), self.int(hi)),
            Range::Channels(dim) => return (self.integer(0), self.widths[&dim]),
            Range::Pairs { list, row } => {
                let row = self.int(row);
                let [lo, hi] = [Array::Start, Array::End]
                    .map(|array| self.entry_of(self.slot(list, array), array, at(row)));
                return (lo, hi);
            }
            Range::Column { list, column } => {
                (self.slot(list, Array::ColumnStart), Array::ColumnStart, self.int(column))
            }
            Range::Members { batch, system } => {
                (self.slot(batch, Array::Members), Array::Members, self.int(system))
            }
        };
        let [lo, hi] = [0, 1]
            .map(|component| self.entry_of(slot, array, Address { row: Some(row), stride: 1, component }));
        (lo, hi)
    }

    pub(super) fn data_loop(&mut self, id: LoopId, range: Range, body: &'a [Stmt]) {
        if let Some(clusters) = self.given {
            return self.given_sums(clusters);
        }
        self.data_loops.insert(id, range);
        let bounds = self.bounds(range);
        if strips::in_strips(body) {
            return self.strips(id, bounds, body);
        }
        let is_outer = walk(body).any(|s| matches!(s, Stmt::For { range, .. } if range.is_data()));
        if is_outer || self.b.in_order {
            return self.turns(id, bounds, body);
        }
        let (sums, bests) = fed(body);
        self.splat_outside(body);
        self.firsts.insert(id, bounds.0);
        let bests = self.begin_bests(&bests);
        let [begin, stop] = [self.new_integer(), self.new_integer()];
        self.begin();
        let sums = self.clear_sums(&sums);
        let (variable, body) = self.turn_on_lanes(id, body, sums.clone(), &bests);
        self.emit(I::Lanes { variable, from: begin, end: stop, single: false, entries: None, body });
        self.add_totals(&sums);
        let segment = self.end();
        let (from, to) = bounds;
        self.emit(I::Segments { begin, stop, from, end: to, entries: false, body: segment });
        self.end_bests(&bests);
    }

    /// Copies on lanes of the reals from outside that a body uses.
    pub(super) fn splat_outside(&mut self, body: &[Stmt]) {
        for v in outside_values(self.b, body) {
            self.splat(v);
        }
    }

    pub(super) fn splat(&mut self, v: Val) {
        let x = self.scalar(v);
        let to = match self.splats.get(&v) {
            Some(to) => *to,
            None => self.new_one(),
        };
        self.splats.insert(v, to);
        self.emit(I::Splat { x, to });
    }

    /// Sums on lanes, each 0.
    pub(super) fn clear_sums(&mut self, sums: &BTreeSet<Acc>) -> BTreeMap<Acc, Vector> {
        let mut cleared = BTreeMap::new();
        for m in sums {
            let to = self.new_one();
            self.emit(I::Fill { x: 0.0, to });
            cleared.insert(*m, to);
        }
        cleared
    }

    /// Adds sums on lanes to those outside.
    pub(super) fn add_totals(&mut self, sums: &BTreeMap<Acc, Vector>) {
        for (m, x) in sums {
            let (to, sum) = (self.new_scalar(), self.sums[m]);
            self.emit(I::Total { x: *x, to });
            self.emit(I::Combine { op: Combine::Add, x: sum, y: to, to: sum });
        }
    }

    /// The largest values that lanes of a loop meet, and where.
    pub(super) fn begin_bests(&mut self, bests: &BTreeSet<Acc>) -> BTreeMap<Acc, [Vector; 2]> {
        let mut found = BTreeMap::new();
        for m in bests {
            let [lanes, places] = [self.new_one(), self.new_one()];
            self.emit(I::Fill { x: f64::MIN, to: lanes });
            self.emit(I::Fill { x: -1.0, to: places });
            found.insert(*m, [lanes, places]);
        }
        found
    }

    pub(super) fn end_bests(&mut self, bests: &BTreeMap<Acc, [Vector; 2]>) {
        for (m, [lanes, places]) in bests {
            let (best, place) = (self.sums[m], self.places[m]);
            self.emit(I::BestOf { lanes: *lanes, places: *places, best, place });
        }
    }

    /// The variable and the instructions of a loop on lanes.
    pub(super) fn turn_on_lanes(
        &mut self,
        id: LoopId,
        body: &'a [Stmt],
        mut sums: BTreeMap<Acc, Vector>,
        bests: &BTreeMap<Acc, [Vector; 2]>,
    ) -> (Integer, Vec<I>) {
        let variable = self.new_integer();
        self.variables.insert(id, variable);
        let mut lanes = Lanes::new(id, declared(body));
        lanes.places = bests.iter().map(|(m, [_, places])| (*m, *places)).collect();
        sums.extend(bests.iter().map(|(m, [lanes, _])| (*m, *lanes)));
        lanes.sums = sums;
        let before = self.lanes.replace(lanes);
        // Pairs made outside are scalar; inside everything is computed on lanes.
        let outside = std::mem::replace(&mut self.paired, vec![HashMap::default()]);
        self.begin();
        self.block(body);
        let body = self.end();
        self.paired = outside;
        self.lanes = before;
        (variable, body)
    }
}
