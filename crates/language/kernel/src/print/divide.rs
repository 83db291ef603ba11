//! Division of loops among the threads that share a row: of the outermost loops whose iterations do not meet, and of the
//! innermost ones in nests over the nodes of a mesh.

use super::nest;
use crate::layout::Layout;
pub use madelung_abi::Division;

use crate::ir::{Body, LoopId, Op, Range, Stmt, Val, declared, walk};
use rustc_hash::FxHashSet as HashSet;

/// The division of a part's loops among lanes.
#[derive(Clone, Debug)]
pub struct Divided {
    /// The division of the longest kind of loop.
    pub lanes: Division,
    /// Loops whose iterations go to the lanes in turn; none of them is within another.
    pub(crate) loops: HashSet<LoopId>,
    /// Nests of loops over nodes, by the outermost one, of which `loops` has the innermost axis ([`nest`]).
    pub(crate) nests: HashSet<LoopId>,
    /// Whether a lane reads sums over channels that other lanes have made.
    pub(crate) exchanged: bool,
}

/// Constant ranges that are no longer than this are left to every lane.
const SHORT: i64 = 4;

impl Divided {
    /// Reads the body of a part.
    pub fn new(b: &Body, layout: &Layout) -> Self {
        let mut d = Divider::new(b, layout, true);
        d.block(b.stmts(), false);
        if d.irregular {
            // Splines are tabulated for all nests in one way.
            d = Divider::new(b, layout, false);
            d.block(b.stmts(), false);
        }
        let mut divided = Self { lanes: d.longest.1, loops: d.loops, nests: d.nests, exchanged: false };
        if b.in_order || !divided.owns_channels(b, b.stmts(), None) {
            divided.loops.clear();
            divided.nests.clear();
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
    nests: HashSet<LoopId>,
    /// Whether nests of loops over nodes are divided along the innermost axis, and whether one of them cannot be.
    along: bool,
    irregular: bool,
    /// The lanes of the longest loops yet, and how long those are by their kind.
    longest: (usize, Division),
}

impl<'a> Divider<'a> {
    fn new(b: &'a Body, layout: &'a Layout, along: bool) -> Self {
        let [loops, nests] = Default::default();
        Self { b, layout, loops, nests, along, irregular: false, longest: (0, Division::None) }
    }

    /// `inside`: whether the block is within a loop, each iteration of which the lanes share.
    fn block(&mut self, stmts: &[Stmt], inside: bool) {
        for s in stmts {
            if let Stmt::For { id, range, body } = s
                && self.along
                && nest::is_over_nodes(self.b, *range)
            {
                let loops = nest::innermost(self.b, body);
                self.irregular |= loops.is_none();
                self.loops.extend(loops.unwrap_or_default());
                self.nests.insert(*id);
                self.note((2, Division::Nodes));
                continue;
            }
            match s {
                Stmt::For { id, range, body } if self.may_divide(*id, *range, body) => {
                    self.loops.insert(*id);
                    self.note(match range {
                        Range::Channels(dim) if inside => (4, Division::Channels(*dim)),
                        Range::Channels(dim) => (1, Division::Channels(*dim)),
                        range if nest::is_over_nodes(self.b, *range) => (2, Division::Nodes),
                        _ => (3, Division::Loops),
                    });
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

    fn note(&mut self, found: (usize, Division)) {
        if found.0 > self.longest.0 {
            self.longest = found;
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
