//! Every op of the library on a device, as a user of the Rust library calls it. There need be no GPU: a driver, NVRTC and
//! cuFFT of our own stand in for those that are not there (`tests/stand_in`), run the same text and take the same calls.
//! With `MADELUNG_TEST_DEVICE=cuda` the GPU that is there is tested.

mod behaviour;
mod device;
mod records;
mod search;
mod streams;

use crate::backends::asked::Asked;
use crate::backends::calls::inputs;
use crate::backends::{Answers, agrees, floats_agree};
use device::Gpu;
use madelung::array::DType;
use madelung::op::Evaluated;

impl Answers for Gpu {
    // A stand-in takes minutes for all; `cuda_text` asks them of the same kernels.
    const ALL: bool = false;

    fn answer(&self, asked: &Asked<'_>) -> Evaluated {
        let args = asked.input.args(asked.op);
        let done =
            asked.question.ask_by(asked.outputs, &mut |request| self.evaluate(asked.op, &args, request));
        done.unwrap_or_else(|e| panic!("{}: {e}", asked.what()))
    }
}

/// A full list. The other lists are those of `cuda_text`, where there is no driver between the text and its arguments.
#[test]
fn a_device_gives_what_the_processor_gives_for_a_system() {
    agrees(&Gpu::of(0), &inputs(DType::F64)[..1]);
}

/// A directed list.
#[test]
fn a_device_gives_what_the_processor_gives_for_a_batch() {
    agrees(&Gpu::of(0), &inputs(DType::F64)[7..8]);
}

/// Values and gradients of a batch with a full list.
#[test]
fn floats_of_a_device_are_as_good_as_floats_are() {
    let inputs: Vec<_> = inputs(DType::F32).into_iter().skip(4).take(1).collect();
    floats_agree(&Gpu::last(), &inputs, &["F0", "G0"]);
}

/// Steps and errors once more.
#[test]
fn no_two_threads_race() {
    madelung_stand_in::look_for_races(&["cuda::behaviour::a_", "cuda::search::"]);
}
