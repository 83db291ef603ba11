//! Every op of the library on a device, as a user of the Rust library calls it. There need be no GPU: a driver, NVRTC and
//! cuFFT of our own stand in for those that are not there (`tests/stand_in`), run the same text and take the same calls.

#[path = "../cuda_text/calls.rs"]
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod device;
mod search;

use calls::{Input, inputs};
use common::numeric::{rms, rms_difference};
use device::Gpu;
use madelung::array::{Array, DType};
use madelung::backend::Context;
use madelung::electrostatics::registry;
use std::collections::BTreeSet;

fn gpu() -> Gpu {
    madelung_stand_in::install();
    Gpu::new(0).expect("a device")
}

/// f64 differs by the order of sums and by special functions; f32 is compared at the same rounded inputs, with what
/// 40 atoms at 1e-5 of the RMS may differ by.
fn agree(dtype: DType, bound: f64) {
    let gpu = gpu();
    let mut worst: f64 = 0.0;
    for op in registry().iter() {
        let mut seen = BTreeSet::new();
        for input in inputs(dtype) {
            let systems = input.name.split(',').next().expect("a name").to_string();
            if !Input::has_pairs(op) && !seen.insert(systems) {
                continue;
            }
            let args = input.args(op);
            let outputs = op.value(&Context::default(), &args).expect("a value");
            for question in input.questions(op) {
                let what = format!("{}: {}: {} {}", op.name, input.name, question.member, question.title);
                let want = question.ask(op, &Context::default(), &args, &outputs);
                let want = want.unwrap_or_else(|e| panic!("{what}: {e}"));
                let got = question.ask_by(&outputs, &mut |request| gpu.evaluate(op, &args, request));
                let got = got.unwrap_or_else(|e| panic!("{what}: {e}"));
                let arrays = |e: &madelung::op::Evaluated| -> Vec<Vec<f64>> {
                    e.values.iter().chain(&e.gradients).map(Array::to_f64).collect()
                };
                for (got, want) in arrays(&got).iter().zip(&arrays(&want)) {
                    let error = rms_difference(got, want) / rms(want).max(1e-3);
                    assert!(error < bound, "{what}: {error:e}\n{got:?}\n{want:?}");
                    worst = worst.max(error);
                }
            }
        }
    }
    println!("{dtype}: {worst:e}");
}

#[test]
fn a_device_gives_what_the_processor_gives_in_f64() {
    agree(DType::F64, 1e-12);
}
