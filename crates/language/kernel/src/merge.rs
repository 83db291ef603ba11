//! Sums that add the same are one: of a virial, which is symmetric, six sums of nine are left.

use crate::ir::{Acc, Body, Op, Stmt, Val};
use crate::rewrite::rewrite;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

/// The body with equal sums merged.
pub(crate) fn merged(src: &Body) -> Body {
    let mut body = src.clone();
    // The sums of an outer loop are seen to be equal when those of the inner one are merged.
    while let Some(fewer) = once(&body) {
        body = fewer;
    }
    body
}

/// The statements of a sum, each with its block: the first value, and what is added.
type Terms = Vec<(usize, Val)>;

#[derive(Default)]
struct Sums {
    terms: HashMap<Acc, Terms>,
    /// Reads of a sum, with their blocks.
    reads: Vec<(Acc, usize, Val)>,
    /// The number of reads, of any sum, before the last term of a sum.
    reads_before: HashMap<Acc, usize>,
    /// Sums that are kept apart: others than plain ones, and those that grow after they were read.
    apart: HashSet<Acc>,
    blocks: usize,
}

impl Sums {
    fn block(&mut self, body: &Body, stmts: &[Stmt]) {
        self.blocks += 1;
        let here = self.blocks;
        for s in stmts {
            match s {
                Stmt::Let(v) => {
                    if let Op::Read(m) = *body.op(*v) {
                        self.reads.push((m, here, *v));
                    }
                }
                Stmt::Declare(m, v) | Stmt::Accumulate(m, v) => {
                    self.terms.entry(*m).or_default().push((here, *v));
                    self.reads_before.insert(*m, self.reads.len());
                    if self.reads.iter().any(|(read, ..)| read == m) {
                        self.apart.insert(*m);
                    }
                }
                s => self.apart.extend(s.acc()),
            }
            s.blocks().into_iter().for_each(|block| self.block(body, block));
        }
    }
}

/// One round; None where no two sums are equal.
fn once(src: &Body) -> Option<Body> {
    let mut sums = Sums::default();
    sums.block(src, src.stmts());
    let mut first: HashMap<&Terms, Acc> = HashMap::default();
    let mut into: HashMap<Acc, Acc> = HashMap::default();
    let mut accs: Vec<_> = sums.terms.iter().filter(|(m, _)| !sums.apart.contains(m)).collect();
    accs.sort_unstable();
    for (m, terms) in accs {
        let kept = *first.entry(terms).or_insert(*m);
        let read = sums.reads.iter().position(|(read, ..)| *read == *m).unwrap_or(usize::MAX);
        // The sum that is kept has all its terms where the other is read.
        if sums.reads_before[&kept] <= read {
            into.insert(*m, kept);
        }
    }
    if into.iter().all(|(m, kept)| m == kept) {
        return None;
    }
    // Reads of one sum in one block are one value.
    let mut known: HashMap<(Acc, usize), Val> = HashMap::default();
    let mut same: HashMap<Val, (Acc, Val)> = HashMap::default();
    for (m, block, v) in sums.reads {
        if let Some(kept) = into.get(&m) {
            same.insert(v, (*kept, *known.entry((*kept, block)).or_insert(v)));
        }
    }
    let mut made: HashMap<Val, Val> = HashMap::default();
    let mut body = rewrite(src, &mut |b, v, op, ty| match (op, same.get(&v)) {
        (Op::Read(_), Some((kept, of))) => match made.get(of) {
            Some(n) => *n,
            None => {
                let n = b.copy_op(Op::Read(*kept), ty);
                made.insert(v, n);
                n
            }
        },
        (op, _) => b.copy_op(op, ty),
    });
    body.remove_unused();
    Some(body)
}
