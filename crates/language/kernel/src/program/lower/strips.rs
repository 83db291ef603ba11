//! Loops over data that hold loops over channels, strip by strip: what a pair has one value of is computed for as many
//! pairs as there are lanes. The channels of these pairs are one instruction, which says no order of the two.

use super::super::{Combine, Instruction as I, Integer, IntegerOp, Room, Vector};
use super::{Lanes, Lowering, OnLanes, Single, outside_values};
use crate::ir::{Acc, Body, LoopId, Range, Stmt, Type, Val, declared, fed, walk};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the body of a loop holds loops over channels, and is straight else.
pub(super) fn in_strips(body: &[Stmt]) -> bool {
    let is_loop = |s: &Stmt| matches!(s, Stmt::For { .. });
    let bars = |s: &Stmt| is_loop(s) || matches!(s, Stmt::Raise { .. });
    let fits = |s: &Stmt| match s {
        Stmt::For { range: Range::Channels(_), body, .. } => !walk(body).any(bars),
        Stmt::For { .. } | Stmt::If { .. } | Stmt::DeclareChannels(..) => false,
        _ => true,
    };
    body.iter().any(is_loop) && body.iter().all(fits)
}

/// Values, indices and sums of a pair that its loops over channels use.
struct Taken {
    /// Rows and entries, in the order of their definitions.
    indices: Vec<Val>,
    /// Reals and conditions that differ between pairs.
    values: BTreeSet<Val>,
    /// Sums of the pair that they feed.
    sums: BTreeSet<Acc>,
}

/// Values, indices and sums of a pair that loops over its channels use.
fn taken(b: &Body, loops: &[Stmt], varying: &HashSet<Val>, own: &BTreeSet<Acc>) -> Taken {
    let mut taken = Taken { indices: vec![], values: BTreeSet::new(), sums: BTreeSet::new() };
    let (mut open, mut seen) = (vec![], HashSet::default());
    for s in walk(loops) {
        match s {
            Stmt::Let(v) => b.op(*v).for_each_arg(|a| open.push(a)),
            s => s.for_each_arg(|v| open.push(v)),
        }
        if let Stmt::Accumulate(m, _) = s
            && own.contains(m)
        {
            taken.sums.insert(*m);
        }
    }
    while let Some(v) = open.pop() {
        if !varying.contains(&v) || !seen.insert(v) {
            continue;
        }
        match b.ty(v) {
            Type::Index(_) => {
                taken.indices.push(v);
                b.op(v).for_each_arg(|a| open.push(a));
            }
            _ => {
                taken.values.insert(v);
            }
        }
    }
    // Values are numbered in the order of their definitions.
    taken.indices.sort_unstable();
    taken
}

/// Values of the pairs of a strip that loops over channels take, in rooms.
struct Spilled {
    values: BTreeMap<Val, Room>,
    sums: BTreeMap<Acc, Room>,
}

impl<'a> Lowering<'a> {
    /// The loop, whose bounds are known.
    pub(super) fn strips(&mut self, id: LoopId, (from, to): (Integer, Integer), body: &'a [Stmt]) {
        let straight: Vec<Stmt> = body.iter().filter(|s| !matches!(s, Stmt::For { .. })).cloned().collect();
        let own = declared(body);
        let of_lanes =
            |sums: BTreeSet<Acc>| sums.into_iter().filter(|m| !own.contains(m)).collect::<BTreeSet<_>>();
        let (sums, bests) = fed(&straight);
        let (sums, bests) = (of_lanes(sums), of_lanes(bests));
        self.splat_outside(body);
        self.firsts.insert(id, from);
        let bests = self.begin_bests(&bests);
        let [begin, stop, variable] = [self.new_integer(), self.new_integer(), self.new_integer()];
        self.variables.insert(id, variable);
        self.begin();
        let sums = self.clear_sums(&sums);
        let outside = std::mem::replace(&mut self.paired, vec![HashMap::default()]);
        let mut lanes = Lanes::new(id, own.clone());
        lanes.sums = sums.clone();
        lanes.places = bests.iter().map(|(m, [_, places])| (*m, *places)).collect();
        lanes.sums.extend(bests.iter().map(|(m, [lanes, _])| (*m, *lanes)));
        self.lanes = Some(lanes);
        self.begin();
        let is_channels = |s: &Stmt| matches!(s, Stmt::For { .. });
        for part in body.chunk_by(|a, b| is_channels(a) == is_channels(b)) {
            if is_channels(&part[0]) {
                self.channels_of_pairs(id, part, &own);
            } else {
                part.iter().for_each(|s| self.stmt(s));
            }
        }
        let of_strip = self.end();
        self.lanes = None;
        self.paired = outside;
        self.emit(I::Lanes { variable, from: begin, end: stop, single: true, entries: None, body: of_strip });
        self.add_totals(&sums);
        let segment = self.end();
        self.emit(I::Segments { begin, stop, from, end: to, entries: false, body: segment });
        self.end_bests(&bests);
    }

    /// Loops over the channels of each pair of a strip.
    fn channels_of_pairs(&mut self, id: LoopId, loops: &'a [Stmt], own: &BTreeSet<Acc>) {
        let Some(varying) = self.lanes.as_ref().map(|lanes| lanes.varying.clone()) else { return };
        let all = taken(self.b, loops, &varying, own);
        let mut spilled = Spilled { values: BTreeMap::new(), sums: BTreeMap::new() };
        for v in &all.values {
            let to = self.new_room();
            match self.on_lanes[v] {
                OnLanes::Bool(x) => self.emit(I::SpillMask { x, to }),
                OnLanes::Real(x) => self.emit(I::Spill { x, to }),
                other => unreachable!("value {v} of a pair: {other:?}"),
            }
            spilled.values.insert(*v, to);
        }
        for m in &all.sums {
            let room = self.new_room();
            self.emit(I::Clear { to: room });
            spilled.sums.insert(*m, room);
        }
        let pairs = self.new_integer();
        self.emit(I::Count { to: pairs });
        for s in loops {
            if let Stmt::For { id: channel, range, body } = s {
                let taken = taken(self.b, std::slice::from_ref(s), &varying, own);
                let values = spilled.values.iter().filter(|(v, _)| taken.values.contains(v));
                let values = values.map(|(v, room)| (*v, *room)).collect();
                let of_loop = Spilled { values, sums: spilled.sums.clone() };
                let strip = self.lanes.take();
                self.channels_of_strip((id, pairs), (*channel, *range, body), &taken.indices, &of_loop);
                self.lanes = strip;
            }
        }
        for (m, room) in spilled.sums {
            let (to, sum) = (self.new_vector(), self.lane_sums[&m]);
            self.emit(I::Filled { room, to });
            self.emit(I::CombineLanes { op: Combine::Add, x: sum, y: to, to: sum });
        }
    }

    /// One loop over channels, for all pairs of a strip.
    fn channels_of_strip(
        &mut self,
        (id, pairs): (LoopId, Integer),
        (k, range, body): (LoopId, Range, &'a [Stmt]),
        indices: &[Val],
        spilled: &Spilled,
    ) {
        self.data_loops.insert(k, range);
        let (from, to) = self.bounds(range);
        self.firsts.insert(k, from);
        let (sums, _) = fed(body);
        let (of_pair, of_row): (Vec<Val>, Vec<Val>) =
            outside_values(self.b, body).into_iter().partition(|v| spilled.values.contains_key(v));
        of_row.into_iter().for_each(|v| self.splat(v));
        let (zero, first) = (self.integer(0), self.variables[&id]);
        let [begin, stop, pair] = [self.new_integer(), self.new_integer(), self.new_integer()];
        self.begin();
        self.begin();
        let of_this = self.integers(IntegerOp::Add, first, pair);
        self.variables.insert(id, of_this);
        for v in indices {
            self.let_whole(*v);
        }
        for (v, room) in &spilled.values {
            let x = self.new_scalar();
            self.emit(I::Pick { room: *room, at: pair, to: x });
            let x = if self.b.ty(*v) == Type::Bool { self.is_not_zero(x) } else { Single::Real(x) };
            self.values.insert(*v, x);
        }
        of_pair.into_iter().for_each(|v| self.splat(v));
        let before = self.end();
        let lanes: BTreeMap<Acc, Vector> = sums.iter().map(|m| (*m, self.new_one())).collect();
        let (variable, body) = self.turn_on_lanes(k, body, lanes.clone(), &BTreeMap::new());
        self.begin();
        self.add_to_pairs(&lanes, pair, spilled);
        let after = self.end();
        self.variables.insert(id, first);
        let (pairs, sums) = ([zero, pairs], lanes.into_values().collect());
        self.emit(I::Strip { pair, pairs, before, sums, variable, from: begin, end: stop, body, after });
        let segment = self.end();
        self.emit(I::Segments { begin, stop, from, end: to, entries: false, body: segment });
    }

    fn is_not_zero(&mut self, x: super::Scalar) -> Single {
        let (y, to) = (self.constant(0.0), self.new_condition());
        self.emit(I::Compare { op: super::super::Compare::Ne, x, y, to });
        Single::Bool(to)
    }

    /// Sums over the channels of a pair go to the pair, or to where those of all pairs do.
    fn add_to_pairs(&mut self, lanes: &BTreeMap<Acc, Vector>, pair: Integer, spilled: &Spilled) {
        for (m, x) in lanes {
            let to = self.new_scalar();
            self.emit(I::Total { x: *x, to });
            match spilled.sums.get(m) {
                Some(room) => self.emit(I::AddTo { sum: *room, at: pair, x: to }),
                None => {
                    let sum = self.sums[m];
                    self.emit(I::Combine { op: Combine::Add, x: sum, y: to, to: sum });
                }
            }
        }
    }
}
