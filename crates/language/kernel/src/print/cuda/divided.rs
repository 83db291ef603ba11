//! Divided loops: lanes visit the iterations in turn, and add their parts of sums up behind the loop.
//!
//! A few terms are added up as they are before they go to a sum, if that is wider: a conversion and an addition of doubles
//! for each term would cost more than the term.

use super::Printer;
use crate::ir::{Acc, LoopId, Op, Range, Stmt, Val, declared, fed, walk};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::BTreeSet;

impl Printer<'_> {
    /// Lane 0 keeps the earlier part of sums, so that it counts once.
    pub(super) fn only_first_lane_keeps(&mut self, sums: &BTreeSet<Acc>) {
        for m in sums {
            self.line(&format!("if (LANE != 0) m{m} = 0;"));
        }
    }

    pub(super) fn add_lanes_up(&mut self, sums: &BTreeSet<Acc>) {
        let threads = self.threads();
        for m in sums {
            self.line(&format!("m{m} = sum_of_lanes(m{m}, {threads});"));
        }
    }

    /// A divided loop: lanes visit the iterations in turn.
    pub(super) fn divided_loop(&mut self, id: LoopId, body: &[Stmt]) {
        let (sums, bests) = fed(body);
        self.only_first_lane_keeps(&sums);
        let is_flat = !body.iter().any(|s| matches!(s, Stmt::For { .. }));
        if is_flat && self.loops[&id].is_data() {
            self.loop_of_few(id, body);
        } else {
            self.line(&format!(
                "for (long long k{id} = first{id} + LANE; k{id} < last{id}; k{id} += LANES) {{"
            ));
            self.within = true;
            self.block(body);
            self.within = false;
            self.line("}");
        }
        self.add_lanes_up(&sums);
        let threads = self.threads();
        for m in &bests {
            self.line(&format!("best_of_lanes(m{m}, w{m}, {threads});"));
        }
    }

    /// The iterations of a lane, a few at a time, whose terms go to sums together.
    fn loop_of_few(&mut self, id: LoopId, body: &[Stmt]) {
        let scales = self.scales(body);
        let mut few: Vec<Acc> = scales.keys().copied().collect();
        few.sort_unstable();
        for m in few.iter().filter(|m| scales[m] != 1.0) {
            self.line(&format!("m{m} = REAL({:?}) * m{m};", 1.0 / scales[m]));
        }
        // A thread is to have more than one iteration at a time: rows are few where members are many, and a pair waits for
        // its partner's data.
        let unroll = if matches!(self.loops[&id], Range::Members { .. }) { 4 } else { 2 };
        self.line(&format!("#pragma unroll(FEW == 1 ? {unroll} : 1)"));
        self.line(&format!(
            "for (long long at{id} = first{id} + LANE; at{id} < last{id}; at{id} += FEW * LANES) {{"
        ));
        for m in &few {
            self.line(&format!("REAL few{m} = 0;\nauto& f{m} = few_of(m{m}, few{m});"));
        }
        self.line(&format!("const int steps{id} = few_steps(last{id} - at{id});"));
        self.line(&format!("#pragma unroll {unroll}"));
        self.line(&format!("for (int n{id} = 0; n{id} < steps{id}; ++n{id}) {{"));
        self.line(&format!("const long long k{id} = at{id} + n{id} * LANES;"));
        (self.within, self.scales) = (true, scales);
        self.block(body);
        let scales = std::mem::take(&mut self.scales);
        self.within = false;
        self.line("}");
        for m in &few {
            self.line(&format!("add_few(m{m}, few{m});"));
        }
        self.line("}");
        for m in few.iter().filter(|m| scales[m] != 1.0) {
            self.line(&format!("m{m} = REAL({:?}) * m{m};", scales[m]));
        }
    }

    /// The sums that a loop feeds with numbers that depend on no sum, each with the power of two that all its terms have as a
    /// factor: terms go without it, and the sum gets it back behind the loop, without any rounding.
    fn scales(&self, body: &[Stmt]) -> HashMap<Acc, f64> {
        let mut wide: HashSet<Val> = self.doubles.clone();
        let mut found: HashMap<Acc, Option<f64>> = HashMap::default();
        for s in walk(body) {
            match s {
                Stmt::Let(v) => {
                    let op = self.b.op(*v);
                    if op.of_acc().is_some() || op.any_arg(|a| wide.contains(&a)) {
                        wide.insert(*v);
                    }
                }
                Stmt::Accumulate(m, v) => {
                    let scale = (!wide.contains(v)).then(|| self.scaled(*v).0);
                    let known = found.entry(*m).or_insert(scale);
                    *known = match (*known, scale) {
                        (Some(x), Some(y)) => Some(if x == y { x } else { 1.0 }),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        let inner = declared(body);
        let found = found.into_iter().filter(|(m, _)| !inner.contains(m));
        found.filter_map(|(m, scale)| Some((m, scale?))).collect()
    }

    /// A term as a power of two, and the rest of it.
    fn scaled(&self, v: Val) -> (f64, Val) {
        if let Op::Mul(x, y) = *self.b.op(v)
            && let Op::Const(bits) = *self.b.op(x)
        {
            let c = f64::from_bits(bits);
            let is_power = c.abs().log2().fract() == 0.0;
            if is_power && (1e-6..1e6).contains(&c.abs()) {
                return (c, y);
            }
        }
        (1.0, v)
    }

    /// A term goes to a sum, or to that of a few terms.
    pub(super) fn accumulate(&mut self, m: Acc, v: Val) {
        let (name, v) = match self.scales.get(&m) {
            Some(1.0) => (format!("f{m}"), v),
            Some(_) => (format!("f{m}"), self.scaled(v).1),
            None => (format!("m{m}"), v),
        };
        let (v, sign) = self.layout.signed(self.b, v);
        let sum = self.plus(&name, sign, v);
        self.line(&format!("{name} = {sum};"));
    }
}
