//! Memory, by lanes: loads, channels, tables and additions to them.

use super::super::{Indices, Instruction as I, Integer, IntegerOp, Vector};
use super::{Lowering, OnLanes};
use crate::ir::{Acc, LoopId, Op, ParamId, Role, Val};
use crate::layout::Array;

/// Row and column of an element of a table, where either differs between lanes.
enum InTable {
    /// One row or column common to all lanes: stride and offset of the other one.
    Line(Indices, Integer, Integer),
    Both(Indices, Integer, Indices),
}

impl Lowering<'_> {
    /// Whether the variable of the loop on lanes is meant.
    pub(super) fn is_lane(&self, v: Val) -> bool {
        self.lanes.as_ref().is_some_and(|l| *self.b.op(v) == Op::LoopVar(l.id))
    }

    pub(super) fn load_indices(&mut self, slot: usize) -> OnLanes {
        let to = self.new_indices();
        self.emit(I::LoadIndices { slot, to });
        OnLanes::Index(to)
    }

    /// The entries of pairs that the transpose lists: loaded once.
    pub(super) fn load_entries(&mut self, id: LoopId) -> Indices {
        if let Some(entries) = self.lanes.as_ref().and_then(|l| l.entries) {
            return entries;
        }
        let (slot, to) = (self.list_slot(id, Array::PairEntry), self.new_indices());
        self.emit(I::LoadIndices { slot, to });
        self.lanes.as_mut().expect("inside a loop on lanes").entries = Some(to);
        to
    }

    /// A row of three is loaded once, whichever of its components comes first.
    fn load_row(
        &mut self,
        slot: usize,
        row: Val,
        load: impl FnOnce(&mut Self, [Vector; 3]) -> I,
    ) -> [Vector; 3] {
        if let Some(known) = self.lanes.as_ref().and_then(|l| l.rows.get(&(slot, row))) {
            return *known;
        }
        let to = [self.new_vector(), self.new_vector(), self.new_vector()];
        let load = load(self, to);
        self.emit(load);
        self.lanes.as_mut().expect("inside a loop on lanes").rows.insert((slot, row), to);
        to
    }

    pub(super) fn row_of_three(&mut self, slot: usize, row: Val) -> [Vector; 3] {
        self.load_row(slot, row, |_, to| I::LoadLanes3 { slot, to })
    }

    /// The image shifts of pairs, by component.
    pub(super) fn shifts(&mut self, id: LoopId) -> [Vector; 3] {
        let [triples, packed] = [Array::Shift, Array::PackedShift].map(|array| self.list_slot(id, array));
        let entries = self.transposed(id).then(|| self.load_entries(id));
        self.load_row(triples, usize::MAX, |_, to| I::Shifts { triples, packed, entries, to })
    }

    /// The index of the rows that a load names; none where they are the iterations.
    fn index_of(&mut self, row: Val) -> Option<Indices> {
        let id = self.lanes.as_ref().expect("inside a loop on lanes").id;
        match self.b.op(row) {
            Op::LoopVar(_) => None,
            Op::PairEntry(_) if self.transposed(id) => Some(self.load_entries(id)),
            Op::PairEntry(_) => None,
            _ => Some(self.indices(row)),
        }
    }

    pub(super) fn lane_load(&mut self, (slot, stride): (usize, usize), row: Val, component: usize) -> Vector {
        match (self.index_of(row), stride) {
            (None, 3) => self.row_of_three(slot, row)[component],
            (None, _) => {
                let to = self.new_vector();
                self.emit(I::LoadLanes { slot, first: None, stride, component, to });
                to
            }
            (Some(index), 3) => self.load_row(slot, row, |_, to| I::Gather3 { slot, index, to })[component],
            (Some(index), _) => self.gather_at((slot, stride), index, component),
        }
    }

    pub(super) fn gather(&mut self, array: (usize, usize), row: Val, component: usize) -> Vector {
        let index = self.indices(row);
        self.gather_at(array, index, component)
    }

    fn gather_at(&mut self, (slot, stride): (usize, usize), index: Indices, component: usize) -> Vector {
        let (stride, offset) = (self.integer(stride as i64), self.integer(component as i64));
        let to = self.new_vector();
        self.emit(I::Gather { slot, index, stride, offset, to });
        to
    }

    pub(super) fn lane_load_ints(
        &mut self,
        (slot, stride): (usize, usize),
        row: Val,
        component: usize,
    ) -> Vector {
        match (self.index_of(row), stride) {
            (None, 3) => self.load_row(slot, row, |_, to| I::LoadInts3 { slot, to })[component],
            (None, _) => {
                let to = self.new_vector();
                self.emit(I::LoadInts { slot, stride, component, to });
                to
            }
            (Some(index), _) => {
                let to = self.new_vector();
                self.emit(I::GatherInts { slot, index, stride, component, to });
                to
            }
        }
    }

    pub(super) fn accumulate_channel(&mut self, sum: Acc, value: Val) {
        let slot = self.layout.scratch(sum);
        let (x, y) = match self.is_fused(value) {
            Some((x, y)) => (self.real(x), Some(self.real(y))),
            None => (self.real(value), None),
        };
        self.emit(I::AddChannels { slot, x, y });
    }

    pub(super) fn store_channel(
        &mut self,
        (param, role, component): (ParamId, Role, usize),
        channel: Val,
        value: Val,
    ) {
        let (slot, stride) = self.array(param, role);
        let width = self.widths[&self.b.width(channel)];
        let first = Some(self.integers(IntegerOp::Mul, self.row, width));
        let x = self.real(value);
        self.emit(I::StoreLanes { slot, first, stride, component, x, adds: false });
    }

    /// A contribution to one channel of shared data: of an element, or of an array with one element per channel.
    pub(super) fn contribute_channel(
        &mut self,
        (param, role, component): (ParamId, Role, usize),
        row: Val,
        channel: Option<Val>,
        value: Val,
    ) {
        let (slot, stride) = self.array(param, role);
        let first = channel.map(|c| self.first_of_row(row, c));
        let x = self.real(value);
        self.emit(if matches!(self.b.op(row), Op::PairEntry(_)) {
            I::StoreLanes { slot, first, stride, component, x, adds: true }
        } else {
            I::AddConsecutive { slot, first, stride, component, x }
        });
    }

    /// The place of an element in a table of rows and channels. Of vectors the row alone varies: their channel has a number.
    fn in_table(&mut self, row: Val, column: Val, (components, component): (usize, usize)) -> InTable {
        let width = self.widths[&self.b.width(column)];
        match (self.varies(row), self.varies(column)) {
            (true, true) => InTable::Both(self.indices(row), width, self.indices(column)),
            (true, false) => {
                let offset = self.int(column);
                let [stride, offset] = [(width, 0), (offset, component)]
                    .map(|(elements, further)| self.numbers_of(elements, components, further));
                let index = self.index_of(row).unwrap_or_else(|| {
                    let to = self.new_indices();
                    self.emit(I::Iterations { to });
                    to
                });
                InTable::Line(index, stride, offset)
            }
            _ => {
                let first = self.first_of_row(row, column);
                InTable::Line(self.indices(column), self.integer(1), first)
            }
        }
    }

    /// The numbers that so many elements are, and some more.
    fn numbers_of(&mut self, elements: Integer, components: usize, further: usize) -> Integer {
        if components == 1 {
            return elements;
        }
        let (components, further) = (self.integer(components as i64), self.integer(further as i64));
        let numbers = self.integers(IntegerOp::Mul, elements, components);
        self.integers(IntegerOp::Add, numbers, further)
    }

    pub(super) fn gather_from_table(
        &mut self,
        (param, role, component): (ParamId, Role, usize),
        row: Val,
        column: Val,
    ) -> Vector {
        let (slot, components) = self.array(param, role);
        let place = self.in_table(row, column, (components, component));
        let to = self.new_vector();
        self.emit(match place {
            InTable::Line(index, stride, offset) => I::Gather { slot, index, stride, offset, to },
            InTable::Both(rows, width, columns) => I::GatherTable { slot, rows, width, columns, to },
        });
        to
    }

    pub(super) fn contribute_to_table(
        &mut self,
        (param, role, component): (ParamId, Role, usize),
        row: Val,
        column: Val,
        value: Val,
    ) {
        let (slot, components) = self.array(param, role);
        if !self.varies(row) && !self.varies(column) {
            let (at, x) = (self.table_place(Some(row), column, (components, component)), self.scalar(value));
            self.emit(I::Add { slot, at, x });
            return;
        }
        let place = self.in_table(row, column, (components, component));
        let x = self.real(value);
        self.emit(match place {
            InTable::Line(index, stride, offset) => I::Scatter { slot, index, stride, offset, x },
            InTable::Both(rows, width, columns) => I::ScatterTable { slot, rows, width, columns, x },
        });
    }
}
