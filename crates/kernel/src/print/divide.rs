//! Division of loops among the threads that share a row: of the outermost loops whose iterations do not meet.

use super::layout::Layout;
pub use madelung_kernel_abi::Division;

use crate::ir::{Body, LoopId, Op, Range, Stmt, Val, declared, walk};
use rustc_hash::FxHashSet as HashSet;

/// The division of a part's loops among lanes.
#[derive(Clone, Debug)]
pub struct Divided {
    /// The division of the longest kind of loop.
    pub lanes: Division,
    /// Loops whose iterations go to the lanes in turn; none of them is within another.
    pub(crate) loops: HashSet<LoopId>,
    /// Whether a lane reads sums over channels that other lanes have made.
    pub(crate) exchanged: bool,
}

/// Constant ranges that are no longer than this are left to every lane.
const SHORT: i64 = 4;

impl Divided {
    /// Reads the body of a part.
    pub fn new(b: &Body, layout: &Layout) -> Self {
        let mut d = Divider { b, layout, loops: HashSet::default(), longest: (0, Division::None) };
        d.block(b.stmts(), false);
        let mut divided = Self { lanes: d.longest.1, loops: d.loops, exchanged: false };
        if !divided.owns_channels(b, b.stmts(), None) {
            divided.loops.clear();
            divided.lanes = Division::None;
        }
        divided
    }

    /// Whether each channel of a sum is added to by one lane alone. Notes where other lanes read it.
    fn owns_channels(&mut self, b: &Body, stmts: &[Stmt], within: Option<LoopId>) -> bool {
        let is_own = |c: Val| within.is_some_and(|l| *b.op(c) == Op::LoopVar(l));
        stmts.iter().all(|s| match s {
            Stmt::Let(v) => {
                self.exchanged |= matches!(b.op(*v), Op::ReadChannel(_, c) if !is_own(*c));
                true
            }
            Stmt::AccumulateChannel { channel, .. } => is_own(*channel),
            Stmt::For { id, body, .. } => {
                let within = within.or_else(|| self.loops.contains(id).then_some(*id));
                self.owns_channels(b, body, within)
            }
            Stmt::If { then, otherwise, .. } => {
                self.owns_channels(b, then, within) && self.owns_channels(b, otherwise, within)
            }
            _ => true,
        })
    }
}

struct Divider<'a> {
    b: &'a Body,
    layout: &'a Layout,
    loops: HashSet<LoopId>,
    /// The lanes of the longest loops yet, and how long those are by their kind.
    longest: (usize, Division),
}

impl Divider<'_> {
    /// `inside`: whether the block is within a loop, each iteration of which the lanes share.
    fn block(&mut self, stmts: &[Stmt], inside: bool) {
        for s in stmts {
            match s {
                Stmt::For { id, range, body } if self.may_divide(*id, *range, body) => {
                    self.loops.insert(*id);
                    let found = match range {
                        Range::Channels(dim) if inside => (4, Division::Channels(*dim)),
                        Range::Channels(dim) => (1, Division::Channels(*dim)),
                        Range::Ints(_, hi) if matches!(self.b.op(*hi), Op::SplineOrder { .. }) => {
                            (2, Division::Nodes)
                        }
                        _ => (3, Division::Loops),
                    };
                    if found.0 > self.longest.0 {
                        self.longest = found;
                    }
                }
                Stmt::For { body, .. } => self.block(body, true),
                Stmt::If { then, otherwise, .. } => {
                    self.block(then, inside);
                    self.block(otherwise, inside);
                }
                _ => {}
            }
        }
    }

    /// Whether iterations may run on several lanes at once: then no two of them write one element, other than by sums
    /// that lanes add up afterwards, or by additions to shared elements.
    fn may_divide(&self, id: LoopId, range: Range, body: &[Stmt]) -> bool {
        if let Range::Ints(lo, hi) = range
            && let (Op::Int(lo), Op::Int(hi)) = (self.b.op(lo), self.b.op(hi))
            && hi - lo <= SHORT
        {
            return false;
        }
        let b = self.b;
        let own = declared(body);
        let is_variable = |c: &Option<Val>| c.is_some_and(|c| *b.op(c) == Op::LoopVar(id));
        let (mut may, mut defined) = (true, HashSet::default());
        // A pair with a row of channels of its own: its channels are read side by side, so lanes get those.
        let mut rows = false;
        let mut row_of = |row: Option<Val>, channel: Option<Val>, defined: &HashSet<Val>| {
            let is_channel = channel.is_some_and(|c| matches!(b.op(c), Op::LoopVar(_)));
            rows |= is_channel && row.is_some_and(|r| defined.contains(&r));
        };
        for s in walk(body) {
            match s {
                Stmt::Let(v) => {
                    defined.insert(*v);
                    if let Op::Load { row, channel, .. } = b.op(*v) {
                        row_of(*row, *channel, &defined);
                    }
                }
                Stmt::Store { channel, .. } => may &= is_variable(channel),
                Stmt::DeclareChannels(..) => may = false,
                Stmt::AccumulateChannel { channel, .. } => may &= is_variable(&Some(*channel)),
                Stmt::Raise { acc, place, .. } => may &= own.contains(acc) || *b.op(*place) == Op::Place(id),
                Stmt::Contribute { param, role, row, component, channel, .. } => {
                    row_of(*row, *channel, &defined);
                    let entry = row.and_then(|r| match b.op(r) {
                        Op::PairEntry(l) => Some(*l),
                        _ => None,
                    });
                    let reduced = self.layout.reduction(b, *param, *role, *component, *row).is_some();
                    may &= reduced || entry.is_none_or(|l| l == id) || is_variable(channel);
                }
                _ => {}
            }
        }
        may && (!rows || matches!(range, Range::Channels(_)))
    }
}
