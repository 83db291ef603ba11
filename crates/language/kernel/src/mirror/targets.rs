//! Targets of contributions, and the sums that reach the row's own elements.

use crate::ir::{Acc, Body, Dim, Kernel, Op, ParamId, Range, Role, Stmt, Type, Val};
use std::collections::BTreeMap;

/// A component of elements of an array; in one channel, where that is named by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) param: ParamId,
    pub(super) role: Role,
    pub(super) component: usize,
    pub(super) channel: Option<usize>,
}

impl Target {
    /// The target of contributions in a channel, or in no channel; and the channel, where it is that of a loop.
    pub(super) fn of(
        src: &Body,
        param: ParamId,
        role: Role,
        component: usize,
        channel: Option<Val>,
    ) -> (Self, Option<Val>) {
        let number = channel.and_then(|c| if let Op::Channel(n, _) = src.op(c) { Some(*n) } else { None });
        (Self { param, role, component, channel: number }, channel.filter(|_| number.is_none()))
    }
}

/// The sums over channels that hold contributions to arrays with channels.
pub(super) type ChannelSums = BTreeMap<Target, Acc>;

/// The sum of the contributions to an element in each channel, declared outside of all open blocks.
pub(super) fn channel_sum(kernel: &Kernel, b: &mut Body, sums: &mut ChannelSums, target: Target) -> Acc {
    *sums.entry(target).or_insert_with(|| {
        let sum = b.new_acc();
        let width = kernel.width(target.param, target.role).expect("it has channels");
        b.push_at(0, Stmt::DeclareChannels(sum, width));
        sum
    })
}

/// A statement for each channel, of the channel and of the sum over channels with the numbers that go to one of them.
pub(super) fn for_channels(
    b: &mut Body,
    width: Dim,
    (sum, numbers): (Option<Acc>, &[(usize, Val)]),
    statement: impl FnOnce(Val, Val) -> Stmt,
) {
    let id = b.new_loop();
    b.open(true);
    let c = b.emit(Op::LoopVar(id), Type::Index(width));
    let zero = b.real(0.0);
    let mut value = sum.map_or(zero, |sum| b.emit(Op::ReadChannel(sum, c), Type::Real));
    for (n, number) in numbers {
        let (place, n) = (b.real_op(Op::Place(id)), b.real(*n as f64));
        let is_here = b.emit(Op::Eq(place, n), Type::Bool);
        let here = b.real_op(Op::Select(is_here, *number, zero));
        value = b.real_op(Op::Add(value, here));
    }
    b.push(statement(c, value));
    let body = b.close();
    b.push(Stmt::For { id, range: Range::Channels(width), body });
}

/// Contributions to channels: a sum over channels, and numbers with the channel of each.
type InChannels = (Option<Acc>, Vec<(usize, Val)>);

/// Stores sums to the row's own element: numbers, and sums over channels.
pub(super) fn store_sums(
    kernel: &Kernel,
    b: &mut Body,
    numbers: BTreeMap<Target, Val>,
    channels: ChannelSums,
) {
    let mut in_channels: BTreeMap<Target, InChannels> =
        channels.into_iter().map(|(target, sum)| (target, (Some(sum), vec![]))).collect();
    for (target, value) in numbers {
        let Target { param, role, component, channel } = target;
        match channel {
            None => b.push(Stmt::Store { param, role, component, channel: None, value }),
            Some(n) => {
                let of_all = in_channels.entry(Target { channel: None, ..target }).or_default();
                of_all.1.push((n, value));
            }
        }
    }
    for (Target { param, role, component, .. }, (sum, numbers)) in in_channels {
        let width = kernel.width(param, role).expect("it has channels");
        let store = |c, value| Stmt::Store { param, role, component, channel: Some(c), value };
        for_channels(b, width, (sum, &numbers), store);
    }
}
