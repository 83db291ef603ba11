//! Programs in one line of steps: control flow as jumps, registers on lanes by their last use.

use super::chain::{Counts, Link, grouped, kept, links};
use super::order::alternating;
use madelung_kernel::program::{Class, Condition, Family, Instruction, Integer, Program, Register, Shape};
use rustc_hash::FxHashMap as HashMap;

/// An instruction with its place in the line.
#[derive(Debug)]
pub(super) enum Step {
    /// One on lanes: most of those of a program.
    OnLanes(Instruction),
    /// Several on lanes, each of which goes on with the result of the one before; and whether others read the result.
    Group(Vec<Instruction>, Vec<bool>),
    /// Such a group when registers are known.
    Chain(Vec<Link>),
    /// An instruction of another family.
    Do(Instruction),
    /// Some of these, vector by vector.
    InTurns(Vec<Instruction>),
    Jump(usize),
    JumpUnless(Condition, usize),
    /// variable = from; to the place, unless it is below `to`.
    For {
        variable: Integer,
        from: Integer,
        to: Integer,
        end: usize,
    },
    /// The next turn, at the place, if there is one.
    NextTurn {
        variable: Integer,
        to: Integer,
        body: usize,
    },
    /// begin = from; to the place, unless it is below `to`. stop: the end of the segment.
    Segments {
        begin: Integer,
        stop: Integer,
        from: Integer,
        to: Integer,
        entries: bool,
        end: usize,
    },
    NextSegment {
        begin: Integer,
        stop: Integer,
        to: Integer,
        entries: bool,
        body: usize,
    },
    Lanes {
        variable: Integer,
        from: Integer,
        to: Integer,
        single: bool,
        entries: Option<usize>,
        end: usize,
    },
    NextVectors {
        variable: Integer,
        single: bool,
        body: usize,
    },
    Lines {
        begin: Integer,
        stop: Integer,
        from: Integer,
        to: Integer,
        shape: Shape,
        end: usize,
    },
    NextLine {
        begin: Integer,
        stop: Integer,
        to: Integer,
        body: usize,
    },
    End,
}

impl Step {
    fn instructions(&mut self) -> &mut [Instruction] {
        match self {
            Self::OnLanes(i) | Self::Do(i) => std::slice::from_mut(i),
            Self::InTurns(all) | Self::Group(all, _) => all,
            _ => &mut [],
        }
    }
}

/// A program as the interpreter runs it.
#[derive(Debug)]
pub struct Line {
    pub(super) wide: bool,
    pub(super) steps: Vec<Step>,
    pub(super) registers: [usize; Class::COUNT],
    pub(super) scalars: Vec<(usize, f64)>,
    pub(super) integers: Vec<(usize, i64)>,
    pub(super) vectors: Vec<(usize, f64)>,
    pub(super) rows: [Integer; 2],
}

impl Line {
    /// Prepares a program.
    pub fn new(program: &Program) -> Self {
        let constants = &program.integers;
        let counts = Counts::new(&program.body);
        let mut m = Making { steps: vec![], loops: vec![], turns: vec![], constants, counts };
        m.block(&program.body);
        m.steps.push(Step::End);
        let mut registers = program.registers.map(|n| n as usize);
        for (class, count) in allocate(&mut m.steps, &m.turns) {
            registers[class as usize] = count;
        }
        for step in &mut m.steps {
            if let Step::Group(group, kept) = step {
                *step = Step::Chain(links(group, kept));
            }
        }
        Self {
            wide: program.wide,
            steps: m.steps,
            registers,
            scalars: program.scalars.iter().map(|(r, x)| (r.0 as usize, *x)).collect(),
            integers: program.integers.iter().map(|(r, x)| (r.0 as usize, *x)).collect(),
            vectors: program.vectors.iter().map(|(r, x)| (*r as usize, *x)).collect(),
            rows: program.rows,
        }
    }
}

/// A loop that `Break`, `Continue` and `NextRow` may mean.
#[derive(Default)]
struct Open {
    /// Jumps to the place behind it, and to its next turn.
    breaks: Vec<usize>,
    continues: Vec<usize>,
}

struct Making<'p> {
    steps: Vec<Step>,
    loops: Vec<Open>,
    /// The first and the last step of each loop.
    turns: Vec<(usize, usize)>,
    constants: &'p [(Integer, i64)],
    counts: Counts,
}

/// A place that is not known yet.
const LATER: usize = usize::MAX;

impl Making<'_> {
    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    fn here(&self) -> usize {
        self.steps.len()
    }

    fn block<'i>(&mut self, body: impl IntoIterator<Item = &'i Instruction>) {
        let mut run = vec![];
        for i in body {
            if i.family() == Family::Control {
                self.straight(&std::mem::take(&mut run));
                self.instruction(i);
            } else {
                run.push(i);
            }
        }
        self.straight(&run);
    }

    /// Instructions without control flow.
    fn straight(&mut self, run: &[&Instruction]) {
        for group in grouped(run, &self.counts) {
            if let [i] = &*group {
                self.instruction(i);
            } else {
                let kept = kept(&group, &self.counts);
                self.push(Step::Group(group, kept));
            }
        }
    }

    /// A loop: its head, which jumps behind it, its body, and its foot, which jumps to the body.
    fn turns<'i>(
        &mut self,
        head: Step,
        body: impl IntoIterator<Item = &'i Instruction>,
        last: Option<Step>,
        foot: impl FnOnce(usize) -> Step,
    ) {
        let head = self.push(head);
        let begin = self.here();
        self.block(body);
        self.steps.extend(last);
        let foot = foot(begin);
        let last = self.push(foot);
        self.turns.push((head, last));
        let behind = self.here();
        match &mut self.steps[head] {
            Step::For { end, .. }
            | Step::Segments { end, .. }
            | Step::Lanes { end, .. }
            | Step::Lines { end, .. } => {
                *end = behind;
            }
            step => unreachable!("no head of a loop: {step:?}"),
        }
    }

    /// Jumps of a loop whose next turn and end are known.
    fn close(&mut self, next: usize, behind: usize) {
        let open = self.loops.pop().unwrap_or_default();
        for (jumps, place) in [(open.continues, next), (open.breaks, behind)] {
            for at in jumps {
                self.steps[at] = Step::Jump(place);
            }
        }
    }

    fn instruction(&mut self, i: &Instruction) {
        use Instruction as I;
        match i {
            I::If { condition, then, otherwise } => {
                let branch = self.push(Step::JumpUnless(*condition, LATER));
                self.block(then);
                let mut behind = self.here();
                if !otherwise.is_empty() {
                    let jump = self.push(Step::Jump(LATER));
                    behind = self.here();
                    self.block(otherwise);
                    self.steps[jump] = Step::Jump(self.here());
                }
                self.steps[branch] = Step::JumpUnless(*condition, behind);
            }
            I::For { variable, from, end: to, body } => {
                let (variable, from, to) = (*variable, *from, *to);
                self.loops.push(Open::default());
                self.turns(Step::For { variable, from, to, end: LATER }, body, None, |body| Step::NextTurn {
                    variable,
                    to,
                    body,
                });
                let behind = self.here();
                self.close(behind - 1, behind);
            }
            I::Loop { body } => {
                let begin = self.here();
                self.loops.push(Open::default());
                self.block(body);
                let last = self.push(Step::Jump(begin));
                self.turns.push((begin, last));
                self.close(begin, last + 1);
            }
            I::Break | I::Continue => {
                let at = self.push(Step::Jump(LATER));
                let open = self.loops.last_mut().expect("within a loop");
                if *i == I::Break { &mut open.breaks } else { &mut open.continues }.push(at);
            }
            I::NextRow => {
                let at = self.push(Step::Jump(LATER));
                self.loops.first_mut().expect("within the loop over rows").continues.push(at);
            }
            I::Segments { begin, stop, from, end: to, entries, body } => {
                let (begin, stop, from, to, entries) = (*begin, *stop, *from, *to, *entries);
                let head = Step::Segments { begin, stop, from, to, entries, end: LATER };
                self.turns(head, body, None, |body| Step::NextSegment { begin, stop, to, entries, body });
            }
            I::Lanes { variable, from, end: to, single, entries, body } => {
                let (variable, from, to, entries) = (*variable, *from, *to, *entries);
                let places = if *single { None } else { alternating(body, self.constants) };
                let single = places.is_none();
                let is_last = |n: &usize| places.as_ref().is_some_and(|places| places.contains(n));
                let (last, body): (Vec<_>, Vec<_>) = body.iter().enumerate().partition(|(n, _)| is_last(n));
                let [last, body] = [last, body].map(|of| of.into_iter().map(|(_, i)| i));
                let last: Vec<Instruction> = last.cloned().collect();
                let last = (!last.is_empty()).then_some(Step::InTurns(last));
                self.turns(
                    Step::Lanes { variable, from, to, single, entries, end: LATER },
                    body,
                    last,
                    |body| Step::NextVectors { variable, single, body },
                );
            }
            I::Strip { .. } => i.pair_by_pair().iter().for_each(|i| self.instruction(i)),
            I::Lines { begin, stop, from, end: to, shape, body } => {
                let (begin, stop, from, to, shape) = (*begin, *stop, *from, *to, *shape);
                self.turns(Step::Lines { begin, stop, from, to, shape, end: LATER }, body, None, |body| {
                    Step::NextLine { begin, stop, to, body }
                });
            }
            simple => {
                let simple = simple.clone();
                self.push(if simple.family() == Family::Lanes {
                    Step::OnLanes(simple)
                } else {
                    Step::Do(simple)
                });
            }
        }
    }
}

/// The classes of registers that there are one of for each vector.
const OF_VECTORS: [Class; 3] = [Class::Each, Class::Mask, Class::Indices];

/// Gives registers that there are one of for each vector new numbers: each is free again after its last use. The numbers
/// that there are, by class.
fn allocate(steps: &mut [Step], turns: &[(usize, usize)]) -> [(Class, usize); 3] {
    let mut spans: HashMap<Register, (usize, usize)> = HashMap::default();
    for (n, step) in steps.iter_mut().enumerate() {
        for i in step.instructions() {
            i.registers(&mut |r, _| {
                if r.0.is_each() {
                    spans.entry(r).or_insert((n, n)).1 = n;
                }
            });
        }
    }
    // What a loop finds it may find again in the next turn. Inner loops come before those around them.
    for (first, last) in spans.values_mut() {
        for (begin, end) in turns {
            if *first < *begin && (*begin..=*end).contains(last) {
                *last = *end;
            }
        }
    }
    let mut counts = OF_VECTORS.map(|class| (class, 0));
    let mut free: HashMap<Class, Vec<u32>> = HashMap::default();
    let mut given: HashMap<Register, u32> = HashMap::default();
    let mut ends: HashMap<usize, Vec<Register>> = HashMap::default();
    for (register, (_, last)) in &spans {
        ends.entry(*last).or_default().push(*register);
    }
    ends.values_mut().for_each(|ending| ending.sort_unstable());
    for (n, step) in steps.iter_mut().enumerate() {
        for i in step.instructions() {
            i.renumber(&mut |r| {
                let Some(count) = counts.iter_mut().find(|(class, _)| *class == r.0) else { return r.1 };
                *given.entry(r).or_insert_with(|| {
                    free.entry(r.0).or_default().pop().unwrap_or_else(|| {
                        count.1 += 1;
                        count.1 as u32 - 1
                    })
                })
            });
        }
        for register in ends.remove(&n).unwrap_or_default() {
            if let Some(new) = given.get(&register) {
                free.entry(register.0).or_default().push(*new);
            }
        }
    }
    counts
}
