//! Every op of the library on a device, as a user of the Rust library calls it. There need be no GPU: a driver, NVRTC and
//! cuFFT of our own stand in for those that are not there (`tests/stand_in`), run the same text and take the same calls.
//! With `MADELUNG_TEST_DEVICE=cuda` the GPU that is there is tested.

#[path = "../cuda_text/asked.rs"]
mod asked;
mod behaviour;
#[expect(dead_code, reason = "what is asked of texts alone")]
#[path = "../cuda_text/calls.rs"]
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod device;
#[path = "../cuda_text/noise.rs"]
mod noise;
mod records;
mod search;
mod streams;

use asked::{Asked, F32_BOUND, F64_BOUND, Worst, each};
use calls::inputs;
use device::Gpu;
use madelung::array::DType;
use madelung::op::Evaluated;

fn on(gpu: &Gpu, asked: &Asked<'_>) -> Evaluated {
    let args = asked.input.args(asked.op);
    let done = asked.question.ask_by(asked.outputs, &mut |request| gpu.evaluate(asked.op, &args, request));
    done.unwrap_or_else(|e| panic!("{}: {e}", asked.what()))
}

/// Every question to every op, in f64, about one system with a full list and a batch with a directed one. The other lists
/// are those of `tests/cuda_text`, where there is no driver between the text and its arguments.
#[test]
fn a_device_gives_what_the_processor_gives() {
    let (gpu, mut worst) = (Gpu::of(0), Worst::default());
    let inputs: Vec<_> = inputs(DType::F64).into_iter().step_by(7).collect();
    each(&inputs, |asked| {
        worst.note(F64_BOUND, &on(&gpu, asked), &asked.ask(&madelung::cpu::context()), asked);
    });
    worst.assert_below(F64_BOUND);
}

/// Values and gradients in f32, of a batch with a full list, against the processor in f64 at the same numbers.
#[test]
fn floats_of_a_device_are_as_good_as_floats_are() {
    let (gpu, mut worst) = (Gpu::last(), Worst::default());
    let inputs: Vec<_> = inputs(DType::F32).into_iter().skip(4).take(1).collect();
    each(&inputs, |asked| {
        if matches!(asked.question.member, "F0" | "G0") {
            let got = on(&gpu, asked);
            asked.exactly(|exact| worst.note(F32_BOUND, &got, &exact.ask(&madelung::cpu::context()), exact));
        }
    });
    worst.assert_below(F32_BOUND);
}

/// Steps and errors once more.
#[test]
fn no_two_threads_race() {
    madelung_stand_in::look_for_races(&["behaviour::a_", "search::"]);
}
