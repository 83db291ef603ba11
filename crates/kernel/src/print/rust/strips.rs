//! Loops over data that hold loops over channels, strip by strip: what a pair has one value of is computed for as many
//! pairs as there are lanes, and the loops over channels then take these pairs one after the other.

use super::{Lanes, Printer};
use crate::ir::{Acc, Body, LoopId, Range, Stmt, Type, Val, declared, fed, walk};
use std::collections::{BTreeSet, HashSet};

/// Whether the body of a loop holds loops over channels, and is straight else.
pub(super) fn in_strips(body: &[Stmt]) -> bool {
    let is_loop = |s: &Stmt| matches!(s, Stmt::For { .. });
    let fits = |s: &Stmt| match s {
        Stmt::For { range: Range::Channels(_), body, .. } => !walk(body).any(is_loop),
        Stmt::For { .. } | Stmt::If { .. } | Stmt::DeclareChannels(..) => false,
        _ => true,
    };
    body.iter().any(is_loop) && body.iter().all(fits)
}

/// What loops over channels take from the pair that they belong to.
struct Taken {
    /// Rows and entries, in the order of their definitions.
    indices: Vec<Val>,
    /// Reals and conditions that differ between pairs.
    values: BTreeSet<Val>,
    /// Sums of the pair that they feed.
    sums: BTreeSet<Acc>,
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
        for v in self.outside_values(body) {
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
        let outside = std::mem::replace(&mut self.paired, vec![HashSet::new()]);
        let mut lanes = Some(Lanes {
            id,
            full: false,
            varying: HashSet::new(),
            inner: own.clone(),
            sums: sums.clone(),
            rows_loaded: HashSet::new(),
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
            self.line(&format!("let mut t{m} = rt::spill::<L>(L::splat(0.0));"));
        }
        self.line(&format!("for pair in 0..n {{\nlet k{id} = k{id} + pair;"));
        for v in &taken.indices {
            self.let_whole(*v);
        }
        for v in &taken.values {
            let is = if self.b.ty(*v) == Type::Bool { " != 0.0" } else { "" };
            self.line(&format!("let v{v} = rt::Elem::to_f64(s{v}[pair]){is};"));
        }
        for m in &taken.sums {
            self.line(&format!("let mut m{m} = 0.0f64;"));
        }
        let outside = std::mem::replace(&mut self.paired, vec![HashSet::new()]);
        for s in loops {
            self.stmt(s);
        }
        self.paired = outside;
        for m in &taken.sums {
            self.line(&format!("t{m}[pair] = rt::Elem::of_f64(m{m});"));
        }
        self.line("}");
        for m in &taken.sums {
            self.line(&format!("m{m} = m{m} + rt::filled::<L>(&t{m});"));
        }
    }
}

/// What loops over the channels of a pair take from it.
fn taken(b: &Body, loops: &[Stmt], varying: &HashSet<Val>, own: &BTreeSet<Acc>) -> Taken {
    let mut taken = Taken { indices: vec![], values: BTreeSet::new(), sums: BTreeSet::new() };
    let (mut open, mut seen) = (vec![], HashSet::new());
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
