//! The order in which vectors of a loop on lanes meet: terms of one sum, and of elements of one array that may be the same,
//! are added iteration by iteration, as compiled kernels do, which take one vector after the other.

use madelung_kernel::program::{Instruction as I, Integer, Vector};
use std::collections::{BTreeMap, BTreeSet};

/// The instructions of a turn, by their places in its body, that are done vector by vector at its end: those that add to what
/// another one adds to. All others may be done for several vectors at once. None where the whole turn is done for one.
pub(super) fn alternating(body: &[I], constants: &[(Integer, i64)]) -> Option<BTreeSet<usize>> {
    let mut found = Found { constants, additions: BTreeMap::new(), repeated: false };
    for (n, i) in body.iter().enumerate() {
        found.instruction(i, Some(n), false);
    }
    let several = found.additions.into_iter().filter(|(to, of)| of.len() > 1 && to.may_meet(of));
    let places = several.flat_map(|(_, of)| of).map(|addition| addition.place).collect::<Option<_>>();
    places.filter(|_| !found.repeated)
}

/// Target of additions: a sum, or an array by its slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Sum(Vector),
    Array(usize),
}

struct Addition {
    /// Place in the turn; none within a branch or a loop.
    place: Option<usize>,
    /// The component of an array's elements; none where it is not known.
    component: Option<i64>,
}

impl To {
    fn may_meet(self, of: &[Addition]) -> bool {
        let known: BTreeSet<i64> = of.iter().filter_map(|addition| addition.component).collect();
        matches!(self, Self::Sum(_)) || known.len() < of.len()
    }
}

struct Found<'a> {
    constants: &'a [(Integer, i64)],
    additions: BTreeMap<To, Vec<Addition>>,
    /// Whether one is repeated in a turn.
    repeated: bool,
}

impl Found<'_> {
    fn instruction(&mut self, i: &I, place: Option<usize>, repeated: bool) {
        let (to, component) = match i {
            I::Sum { sum, .. } | I::SumOfProduct { sum, .. } | I::Best { best: sum, .. } => {
                // Each vector has its own.
                if let Vector::Each(_) = sum {
                    return;
                }
                (To::Sum(*sum), None)
            }
            I::Scatter { slot, offset, .. } => {
                (To::Array(*slot), self.constants.iter().find(|(r, _)| r == offset).map(|(_, x)| *x))
            }
            I::ScatterTable { slot, .. } => (To::Array(*slot), None),
            I::AddConsecutive { slot, component, .. }
            | I::StoreLanes { slot, component, .. }
            | I::AddInClusters { slot, component, .. }
            | I::NodeAdd { slot, component, .. } => (To::Array(*slot), Some(*component as i64)),
            i => {
                let repeats =
                    matches!(i, I::For { .. } | I::Loop { .. } | I::Segments { .. } | I::Strip { .. });
                for i in i.blocks().flatten() {
                    self.instruction(i, None, repeated || repeats);
                }
                return;
            }
        };
        self.repeated |= repeated;
        self.additions.entry(to).or_default().push(Addition { place, component });
    }
}
