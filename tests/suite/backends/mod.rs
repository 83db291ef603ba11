//! One suite for every backend: each op of the registry with every member of its family, against the processor.

pub(crate) mod asked;
mod at_run_time;
pub(crate) mod calls;
pub(crate) mod noise;

use asked::{Asked, F32_BOUND, F64_BOUND, Worst, each};
use calls::Input;
use madelung::array::DType;
use madelung::backend::Context;
use madelung::op::Evaluated;

/// Whether the n-th of some tests that take long and say much the same has its turn: by `MADELUNG_TEST_TURN`, a number that
/// `.ci/run` takes from the commit. Without it all have.
pub(crate) fn is_in_turn(n: usize, of: usize) -> bool {
    let turn = std::env::var("MADELUNG_TEST_TURN").ok();
    let turn = turn.map(|turn| turn.parse::<usize>().expect("`MADELUNG_TEST_TURN`: a number"));
    turn.is_none_or(|turn| turn % of == n % of)
}

/// The members of an op's family.
pub(crate) const MEMBERS: [&str; 5] = ["F0", "F1", "F2", "G0", "G1"];

/// A backend under test.
pub(crate) trait Answers {
    /// Whether it is asked of every op and crossed questions, too.
    const ALL: bool = true;

    fn answer(&self, asked: &Asked<'_>) -> Evaluated;
}

impl Answers for Context<'_> {
    fn answer(&self, asked: &Asked<'_>) -> Evaluated {
        asked.ask(self)
    }
}

/// Asserts that a backend gives in f64 what the processor gives.
#[track_caller]
pub(crate) fn agrees<B: Answers>(backend: &B, inputs: &[Input]) {
    let mut worst = Worst::default();
    each(inputs, |asked| {
        if !B::ALL && (asked.question.is_crossed || asked.is_left_out()) {
            return;
        }
        worst.note(F64_BOUND, &backend.answer(asked), &madelung::cpu::context().answer(asked), asked);
    });
    worst.assert_below(F64_BOUND);
}

/// Asserts that some members in f32 are near those of the processor in f64, at the same numbers.
#[track_caller]
pub(crate) fn floats_agree<B: Answers>(backend: &B, inputs: &[Input], members: &[&str]) {
    let mut worst = Worst::default();
    each(inputs, |asked| {
        let is_asked = members.contains(&asked.question.member) && !asked.gives_integers();
        if is_asked && (B::ALL || !asked.is_left_out()) {
            let got = backend.answer(asked);
            asked.exactly(|exact| {
                worst.note(F32_BOUND, &got, &madelung::cpu::context().answer(exact), exact);
            });
        }
    });
    worst.assert_below(F32_BOUND);
}

#[test]
fn floats_of_the_processor_are_as_good_as_floats_are() {
    if !is_in_turn(5, 6) {
        return;
    }
    floats_agree(&madelung::cpu::context(), &calls::inputs(DType::F32), &MEMBERS);
}
