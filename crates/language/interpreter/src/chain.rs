//! Chains of operations on lanes, each of which goes on with what the one before gave: it stays in registers, and only what
//! others need is written.

use madelung_kernel::program::{Class, Combine, Fused, Instruction, Mask, Register, Unary, Use, Vector};
use rustc_hash::FxHashMap as HashMap;

/// An operation of a chain, on its value so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Link {
    /// Begins with x.
    Load(Vector),
    /// value + x
    Add(Vector),
    /// value − x
    Sub(Vector),
    /// x − value
    SubtractFrom(Vector),
    /// value · x
    Mul(Vector),
    /// value²
    Square,
    /// −value
    Neg,
    /// value · x + y, −value · x + y, value · x − y
    Product(Fused, Vector, Vector),
    /// x · y + value, −x · y + value, x · y − value
    OnProduct(Fused, Vector, Vector),
    /// value² + y
    SquareOn(Vector),
    /// The value where the mask is true, else x.
    Where(Mask, Vector),
    /// x where the mask is true, else the value.
    Else(Mask, Vector),
    /// Writes the value.
    Store(Vector),
}

/// How often registers are written and read in a program.
#[derive(Default)]
pub(super) struct Counts(HashMap<Register, [usize; 2]>);

impl Counts {
    pub(super) fn new(body: &[Instruction]) -> Self {
        let mut counts = Self::default();
        counts.add(body);
        counts
    }

    fn add(&mut self, body: &[Instruction]) {
        for i in body {
            i.blocks().for_each(|body| self.add(body));
            each_register(i, |r, written, read| {
                let [writes, reads] = self.0.entry(r).or_default();
                *writes += usize::from(written);
                *reads += usize::from(read);
            });
        }
    }

    fn of(&self, r: Register) -> [usize; 2] {
        self.0.get(&r).copied().unwrap_or_default()
    }
}

/// Calls `f` with each register that an instruction uses, and whether it writes and reads it.
fn each_register(i: &Instruction, mut f: impl FnMut(Register, bool, bool)) {
    i.registers(&mut |r, of| f(r, of != Use::Read, matches!(of, Use::Read | Use::Update)));
}

/// The result of an operation that chains are made of.
fn result(i: &Instruction) -> Option<u32> {
    use Instruction as I;
    match *i {
        I::CombineLanes { op: Combine::Add | Combine::Sub | Combine::Mul, to: Vector::Each(to), .. }
        | I::FusedLanes { to: Vector::Each(to), .. }
        | I::UnaryLanes { op: Unary::Neg, to: Vector::Each(to), .. }
        | I::SelectLanes { to: Vector::Each(to), .. } => Some(to),
        _ => None,
    }
}

/// Instructions without control flow in an order of the same meaning, in which those that are the only reader of a result
/// follow it: groups that are chains, if they have more than one.
pub(super) fn grouped(run: &[&Instruction], counts: &Counts) -> Vec<Vec<Instruction>> {
    let mut order = Order { run, before: vec![vec![]; run.len()], groups: vec![] };
    let mut is_sunk = vec![false; run.len()];
    let mut results: HashMap<u32, usize> = HashMap::default();
    for (n, i) in run.iter().enumerate() {
        let mut reads: HashMap<Register, usize> = HashMap::default();
        each_register(i, |r, _, read| *reads.entry(r).or_default() += usize::from(read));
        for ((class, r), reads) in reads {
            if class == Class::Each
                && let Some(at) = results.get(&r)
                && counts.of((Class::Each, r)) == [1, reads]
            {
                order.before[n].push(*at);
                is_sunk[*at] = true;
            }
        }
        if let Some(to) = result(i) {
            // What is read has to be the same later on.
            let mut lasts = true;
            each_register(i, |r, _, read| lasts &= !read || counts.of(r)[0] <= 1);
            if lasts {
                results.insert(to, n);
            }
        }
    }
    (0..run.len()).filter(|n| !is_sunk[*n]).for_each(|n| order.emit(n));
    order.groups
}

struct Order<'r> {
    run: &'r [&'r Instruction],
    /// Instructions whose results each of them alone reads: they come before it.
    before: Vec<Vec<usize>>,
    groups: Vec<Vec<Instruction>>,
}

impl Order<'_> {
    /// An instruction, and ahead of it those whose results it alone reads.
    fn emit(&mut self, n: usize) {
        // Chains are as long as programs may be, which the stack is not.
        let mut waiting = vec![n];
        while let Some(n) = waiting.last().copied() {
            match self.before[n].is_empty() {
                true => {
                    waiting.pop();
                    self.put(self.run[n]);
                }
                false => {
                    let mut before = std::mem::take(&mut self.before[n]);
                    before.sort_unstable_by(|x, y| y.cmp(x));
                    waiting.extend(before);
                }
            }
        }
    }

    /// The next instruction, of the group before it if it goes on with what that gave.
    fn put(&mut self, i: &Instruction) {
        let goes_on = result(i).is_some()
            && self.groups.last().and_then(|group| result(group.last()?)).is_some_and(|last| reads(i, last));
        match self.groups.last_mut() {
            Some(group) if goes_on => group.push(i.clone()),
            _ => self.groups.push(vec![i.clone()]),
        }
    }
}

fn reads(i: &Instruction, of: u32) -> bool {
    let mut found = false;
    each_register(i, |r, _, read| found |= read && r == (Class::Each, of));
    found
}

/// Whether something besides the next operation of a chain reads the result of each.
pub(super) fn kept(chain: &[Instruction], counts: &Counts) -> Vec<bool> {
    let readers = |n: usize, to: u32| {
        let mut reads = 0;
        if let Some(next) = chain.get(n + 1) {
            each_register(next, |r, _, read| reads += usize::from(read && r == (Class::Each, to)));
        }
        reads
    };
    let results = chain.iter().map(|i| result(i).expect("operations of a chain have results"));
    results.enumerate().map(|(n, to)| counts.of((Class::Each, to))[1] > readers(n, to)).collect()
}

/// The links of a chain, whose registers are those of the interpreter, given what is [`kept`].
pub(super) fn links(chain: &[Instruction], kept: &[bool]) -> Vec<Link> {
    let mut links = vec![];
    let (mut value, mut is_stored) = (None, false);
    for (i, kept) in chain.iter().zip(kept) {
        let mut of_this = vec![];
        let to = link(i, value, &mut of_this);
        links.extend(
            value.filter(|x| !is_stored && of_this.iter().any(|link| link.takes(*x))).map(Link::Store),
        );
        links.extend(of_this);
        (value, is_stored) = (Some(to), *kept);
        if is_stored {
            links.push(Link::Store(to));
        }
    }
    links
}

impl Link {
    /// Whether it takes a register, besides the value.
    fn takes(self, r: Vector) -> bool {
        match self {
            Self::Load(x) | Self::Add(x) | Self::Sub(x) | Self::SubtractFrom(x) | Self::Mul(x) => x == r,
            Self::Product(_, x, y) | Self::OnProduct(_, x, y) => x == r || y == r,
            Self::SquareOn(x) | Self::Where(_, x) | Self::Else(_, x) => x == r,
            Self::Square | Self::Neg | Self::Store(_) => false,
        }
    }
}

fn link(i: &Instruction, value: Option<Vector>, links: &mut Vec<Link>) -> Vector {
    use Instruction as I;
    let is = |x: Vector| value == Some(x);
    let begin = |x: Vector, links: &mut Vec<Link>| {
        if !is(x) {
            links.push(Link::Load(x));
        }
    };
    match *i {
        I::CombineLanes { op, x, y, to } => {
            let (on_x, on_y) = match op {
                Combine::Add => (Link::Add(y), Link::Add(x)),
                Combine::Sub => (Link::Sub(y), Link::SubtractFrom(x)),
                _ => (Link::Mul(y), Link::Mul(x)),
            };
            match (is(x), is(y), op) {
                (true, true, Combine::Mul) => links.push(Link::Square),
                (true, false, _) => links.push(on_x),
                (false, true, _) => links.push(on_y),
                _ => {
                    begin(x, links);
                    links.push(on_x);
                }
            }
            to
        }
        I::FusedLanes { op, x, y, z, to } => {
            match (is(x), is(y), is(z), op) {
                (true, true, false, Fused::Add) => links.push(Link::SquareOn(z)),
                (true, false, false, _) => links.push(Link::Product(op, y, z)),
                (false, true, false, _) => links.push(Link::Product(op, x, z)),
                (false, false, true, _) => links.push(Link::OnProduct(op, x, y)),
                _ => {
                    begin(x, links);
                    links.push(Link::Product(op, y, z));
                }
            }
            to
        }
        I::SelectLanes { mask, x, y, to } => {
            if is(y) && !is(x) {
                links.push(Link::Else(mask, x));
            } else {
                begin(x, links);
                links.push(Link::Where(mask, y));
            }
            to
        }
        I::UnaryLanes { x, to, .. } => {
            begin(x, links);
            links.push(Link::Neg);
            to
        }
        ref other => unreachable!("not of a chain: {other:?}"),
    }
}
