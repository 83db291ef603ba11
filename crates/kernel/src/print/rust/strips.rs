//! Loops over data that hold loops over channels, strip by strip: what a pair has one value of is computed for as many
//! pairs as there are lanes. The loops over channels then take these pairs one after the other, for one register of channels
//! at a time, whose sums stay in registers.

use super::{Lanes, Printer, outside_values};
use crate::ir::{Acc, Body, LoopId, Op, Range, Stmt, Type, Val, declared, fed, walk};
use rustc_hash::FxHashSet as HashSet;
use std::collections::BTreeSet;

/// Whether the body of a loop holds loops over channels, and is straight else.
pub fn in_strips(body: &[Stmt]) -> bool {
    let is_loop = |s: &Stmt| matches!(s, Stmt::For { .. });
    let bars = |s: &Stmt| is_loop(s) || matches!(s, Stmt::Raise { .. });
    let fits = |s: &Stmt| match s {
        Stmt::For { range: Range::Channels(_), body, .. } => !walk(body).any(bars),
        Stmt::For { .. } | Stmt::If { .. } | Stmt::DeclareChannels(..) => false,
        _ => true,
    };
    body.iter().any(is_loop) && body.iter().all(fits)
}

/// What loops over channels take from the pair that they belong to.
pub struct Taken {
    /// Rows and entries, in the order of their definitions.
    pub indices: Vec<Val>,
    /// Reals and conditions that differ between pairs.
    pub values: BTreeSet<Val>,
    /// Sums of the pair that they feed.
    pub sums: BTreeSet<Acc>,
}

impl<'a> Printer<'a> {
    /// The loop, whose bounds are known.
    pub(super) fn strips(&mut self, id: LoopId, (lo, hi): (&str, &str), body: &'a [Stmt]) {
        let straight: Vec<Stmt> = body.iter().filter(|s| !matches!(s, Stmt::For { .. })).cloned().collect();
        let own = declared(body);
        let of_lanes =
            |sums: BTreeSet<Acc>| sums.into_iter().filter(|m| !own.contains(m)).collect::<BTreeSet<_>>();
        let (sums, bests) = fed(&straight);
        let (sums, bests) = (of_lanes(sums), of_lanes(bests));
        self.line("{");
        for v in outside_values(self.b, body) {
            self.line(&format!("let u{v} = L::splat(v{v});"));
        }
        self.line(&format!("let (first{id}, end) = ({lo}, {hi});\nlet mut k{id} = first{id};"));
        self.begin_bests(&bests);
        self.line(&format!("while k{id} < end {{"));
        self.line(&format!("let stop = end.min(k{id}.saturating_add(L::N.saturating_mul(L::FLUSH)));"));
        for m in &sums {
            self.line(&format!("let mut l{m} = L::splat(0.0);"));
        }
        self.line(&format!(
            "while k{id} < stop {{\nlet n = L::N.min(stop - k{id});\nlet active = L::first(n);"
        ));
        let outside = std::mem::replace(&mut self.paired, vec![HashSet::default()]);
        let mut lanes = Some(Lanes {
            id,
            full: false,
            varying: HashSet::default(),
            inner: own.clone(),
            sums: sums.clone(),
            rows_loaded: HashSet::default(),
        });
        let is_channels = |s: &Stmt| matches!(s, Stmt::For { .. });
        for part in body.chunk_by(|a, b| is_channels(a) == is_channels(b)) {
            if is_channels(&part[0]) {
                self.channels_of_pairs(id, part, &lanes, &own);
                continue;
            }
            self.lanes = lanes.take();
            for s in part {
                self.stmt(s);
            }
            lanes = self.lanes.take();
        }
        self.paired = outside;
        self.line(&format!("k{id} += n;\n}}"));
        for m in &sums {
            self.line(&format!("m{m} += l{m}.sum();"));
        }
        self.line("}");
        self.end_bests(&bests);
        self.line("}");
    }

    /// Loops over the channels of each pair of a strip.
    fn channels_of_pairs(
        &mut self,
        id: LoopId,
        loops: &'a [Stmt],
        lanes: &Option<Lanes>,
        own: &BTreeSet<Acc>,
    ) {
        let Some(varying) = lanes.as_ref().map(|lanes| &lanes.varying) else { return };
        let taken = taken(self.b, loops, varying, own);
        for v in &taken.values {
            let of_lanes = match self.b.ty(*v) {
                Type::Bool => format!("L::select(v{v}, L::splat(1.0), L::splat(0.0))"),
                _ => format!("v{v}"),
            };
            self.line(&format!("let s{v} = rt::spill::<L>({of_lanes});"));
        }
        for m in &taken.sums {
            self.line(&format!("let mut t{m} = rt::Spilled::<f64>::default();"));
        }
        self.line("let pairs = n;");
        for s in loops {
            if let Stmt::For { id: channel, range, body } = s {
                let taken = self::taken(self.b, std::slice::from_ref(s), varying, own);
                self.channels_of_strip(id, (*channel, *range, body), &taken);
            }
        }
        for m in &taken.sums {
            self.line(&format!("m{m} = m{m} + rt::filled::<L>(&t{m});"));
        }
    }

    /// One loop over channels, for all pairs of a strip.
    fn channels_of_strip(
        &mut self,
        id: LoopId,
        (k, range, body): (LoopId, Range, &'a [Stmt]),
        taken: &Taken,
    ) {
        self.data_loops.insert(k, range);
        let (lo, hi) = self.layout.bounds(range, |_, _| String::new(), |v| self.scalar(v));
        let (sums, _) = fed(body);
        let held = self.held(body);
        self.line(&format!("{{\nlet mut k{k} = {lo};"));
        let outside: Vec<Val> = outside_values(self.b, body).into_iter().collect();
        let (of_pair, of_row): (Vec<Val>, Vec<Val>) = outside.iter().partition(|v| taken.values.contains(v));
        for v in of_row {
            self.line(&format!("let u{v} = L::splat(v{v});"));
        }
        for m in &sums {
            self.line(&format!("let mut d{m} = [L::splat(0.0); rt::WIDEST];"));
        }
        self.line(&format!(
            "while k{k} < {hi} {{\nlet stop = ({hi}).min(k{k}.saturating_add(L::N.saturating_mul(L::FLUSH)));\nwhile k{k} < stop {{\n\
             let n = L::N.min(stop - k{k});\nlet active = L::first(n);"
        ));
        for m in &held {
            self.line(&format!("let mut c{m} = L::load(p{}.add(k{k}));", self.layout.scratch(*m)));
        }
        self.line(&format!("for pair in 0..pairs {{\nlet k{id} = k{id} + pair;"));
        for v in &taken.indices {
            self.let_whole(*v);
        }
        for v in &taken.values {
            let is = if self.b.ty(*v) == Type::Bool { " != 0.0" } else { "" };
            self.line(&format!("let v{v} = rt::Elem::to_f64(s{v}[pair]){is};"));
        }
        for v in of_pair {
            self.line(&format!("let u{v} = L::splat(v{v});"));
        }
        for m in &sums {
            self.line(&format!("let mut l{m} = d{m}[pair];"));
        }
        let outside = std::mem::replace(&mut self.held, held);
        self.lane_body(k, body, false, &sums);
        let held = std::mem::replace(&mut self.held, outside);
        for m in &sums {
            self.line(&format!("d{m}[pair] = l{m};"));
        }
        self.line("}");
        for m in &held {
            self.line(&format!("c{m}.store(p{}.add(k{k}));", self.layout.scratch(*m)));
        }
        self.line(&format!("k{k} += n;\n}}"));
        for m in &sums {
            let into = if taken.sums.contains(m) { format!("t{m}[pair]") } else { format!("m{m}") };
            self.line(&format!(
                "for pair in 0..pairs {{ {into} += std::mem::replace(&mut d{m}[pair], L::splat(0.0)).sum(); }}"
            ));
        }
        self.line("}\n}");
    }

    /// The sums over channels that a loop adds to and does not read.
    fn held(&self, body: &[Stmt]) -> BTreeSet<Acc> {
        let mut held = BTreeSet::new();
        for s in walk(body) {
            if let Stmt::AccumulateChannel { sum, .. } = s {
                held.insert(*sum);
            }
        }
        for s in walk(body) {
            if let Stmt::Let(v) = s
                && let Op::ReadChannel(sum, _) = self.b.op(*v)
            {
                held.remove(sum);
            }
        }
        held
    }
}

/// What loops over the channels of a pair take from it.
pub fn taken(b: &Body, loops: &[Stmt], varying: &HashSet<Val>, own: &BTreeSet<Acc>) -> Taken {
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
