//! Whether a loop on lanes must be run vector by vector: where two statements of a turn add to one sum, or to elements of
//! one array that may be the same, their terms alternate.

use super::super::{Instruction as I, Integer, Vector};
use std::collections::{HashMap, HashSet};

/// Whether the bits depend on the vectors' taking turns.
pub(super) fn needs_order(body: &[I], constants: &[(Integer, i64)]) -> bool {
    let mut order = Order { constants, sums: HashSet::new(), arrays: HashMap::new(), needed: false };
    order.block(body, false);
    order.needed
}

struct Order<'a> {
    constants: &'a [(Integer, i64)],
    sums: HashSet<Vector>,
    /// The components of each array that are added to; none where it is not known which one.
    arrays: HashMap<usize, HashSet<Option<i64>>>,
    needed: bool,
}

impl Order<'_> {
    fn block(&mut self, body: &[I], repeated: bool) {
        for i in body {
            match i {
                I::Sum { sum, .. } | I::SumOfProduct { sum, .. } => self.sum(*sum, repeated),
                I::Best { best, .. } => self.sum(*best, repeated),
                I::Scatter { slot, offset, .. } => {
                    let known = self.constants.iter().find(|(r, _)| r == offset).map(|(_, x)| *x);
                    self.array(*slot, known, repeated);
                }
                I::ScatterTable { slot, .. } => self.array(*slot, None, repeated),
                I::AddConsecutive { slot, component, .. }
                | I::AddEntries { slot, component, .. }
                | I::StoreLanes { slot, component, .. }
                | I::NodeAdd { slot, component, .. } => self.array(*slot, Some(*component as i64), repeated),
                i => {
                    let repeats = matches!(i, I::For { .. } | I::Loop { .. } | I::Segments { .. });
                    i.blocks().into_iter().for_each(|block| self.block(block, repeated || repeats));
                }
            }
        }
    }

    fn sum(&mut self, sum: Vector, repeated: bool) {
        if matches!(sum, Vector::One(_)) {
            self.needed |= repeated || !self.sums.insert(sum);
        }
    }

    fn array(&mut self, slot: usize, component: Option<i64>, repeated: bool) {
        let components = self.arrays.entry(slot).or_default();
        let new = components.insert(component);
        self.needed |= repeated || !new || (components.len() > 1 && components.contains(&None));
    }
}
