//! Channels: innermost loops whose elements lie side by side, so that lanes load and store them as they are.

use super::{Lanes, Printer};
use crate::ir::{Acc, Op, ParamId, Role, Val};
use crate::print::layout::Array;

impl Printer<'_> {
    /// Whether the variable of the loop on lanes is meant.
    pub(super) fn is_lane(&self, v: Val) -> bool {
        self.lanes.as_ref().is_some_and(|l| *self.b.op(v) == Op::LoopVar(l.id))
    }

    /// The loop on lanes, which goes over these channels.
    fn lane_loop(&self, channel: Val) -> &Lanes {
        debug_assert!(self.is_lane(channel), "channels are those of the innermost loop");
        self.lanes.as_ref().expect("loops over channels run on lanes")
    }

    /// The position of a row's first channel.
    fn first_channel(&self, row: &str, channel: Val) -> String {
        format!("{row} * w{}", self.b.width(channel))
    }

    pub(super) fn load_channel(&self, param: ParamId, role: Role, row: Option<Val>, channel: Val) -> String {
        let lanes = self.lane_loop(channel);
        let slot = self.layout.slot(param, Array::Values(role));
        let at = row.map_or_else(|| "0".into(), |r| self.first_channel(&self.scalar(r), channel));
        lanes.load_channels(&format!("p{slot}.add({at} + k{})", lanes.id))
    }

    pub(super) fn read_channel(&self, sum: Acc, channel: Val) -> String {
        let lanes = self.lane_loop(channel);
        lanes.load_channels(&format!("p{}.add(k{})", self.layout.scratch(sum), lanes.id))
    }

    pub(super) fn accumulate_channel(&mut self, sum: Acc, channel: Val, value: Val) {
        let lanes = self.lane_loop(channel);
        if self.held.contains(&sum) {
            let held = format!("c{sum}");
            self.line(&format!("{held} = {};", self.added(&held, '+', value)));
            return;
        }
        // There is room for whole registers.
        let at = format!("p{}.add(k{})", self.layout.scratch(sum), lanes.id);
        let after = match self.is_fused(value) {
            Some((x, y)) => format!("{}.mul_add({}, L::load({at}))", self.real(x), self.real(y)),
            None => format!("(L::load({at}) + {})", self.real(value)),
        };
        self.line(&format!("{after}.store({at});"));
    }

    pub(super) fn store_channel(&mut self, param: ParamId, role: Role, channel: Val, value: Val) {
        let lanes = self.lane_loop(channel);
        let (k, n) = (lanes.id, lanes.count());
        let slot = self.layout.slot(param, Array::Values(role));
        let (at, x) = (self.first_channel("row", channel), self.real(value));
        self.line(&format!("rt::put_lanes::<L>(p{slot}, {at} + k{k}, {x}, {n}, a.adds({slot}));"));
    }

    /// A contribution to one channel of shared data: of an element, or of an array with one element per channel.
    pub(super) fn contribute_channel(
        &mut self,
        (param, role, component): (ParamId, Role, usize),
        row: Val,
        channel: Option<Val>,
        value: Val,
    ) {
        let lanes = self.lane_loop(channel.unwrap_or(row));
        let (k, n) = (lanes.id, lanes.count());
        let slot = self.layout.slot(param, Array::Values(role));
        let first = channel.map_or_else(|| "0".into(), |c| self.first_channel(&self.scalar(row), c));
        let (stride, x) = (self.kernel.components(param, role), self.real(value));
        if matches!(self.b.op(row), Op::PairEntry(_)) {
            self.line(&format!("rt::put_lanes::<L>(p{slot}, {first} + k{k}, {x}, {n}, true);"));
            return;
        }
        self.line(&format!(
            "rt::scatter_lanes::<L>(p{slot}, {first} + k{k}, {stride}, {component}, {x}, {n});"
        ));
    }
}
