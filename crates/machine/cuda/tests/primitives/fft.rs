use crate::device::{alone, captured, scratch};
use crate::refused;
use madelung_core::array::DType;
use madelung_core::backend::Waves;
use madelung_cuda::primitives::{Scratch, fft_scratch, real_fft};

#[test]
fn what_does_not_fit_is_refused() {
    alone(|queue| {
        let call = |dtype, mesh, values| {
            real_fft(queue, Waves::Kept, (dtype, values), mesh, 1, [0, 0], Scratch::EMPTY)
        };
        refused(call(DType::F16, [1, 1, 1], 0), "dtype");
        refused(call(DType::F32, [1, 0, 1], 0), "mesh");
        refused(call(DType::F32, [usize::MAX; 3], 0), "mesh");
        refused(call(DType::F32, [3, 3, 3], 0), "scratch");
        let room = scratch(fft_scratch(queue, DType::F64, [3, 3, 3], 1).unwrap());
        let values = (DType::F64, 8);
        refused(real_fft(queue, Waves::Kept, values, [3, 3, 3], 1, [0, 0], room.scratch()), "values");
    });
}

#[test]
fn plans_are_made_ahead_of_captures() {
    let call = |queue: &_| fft_scratch(queue, DType::F32, [9, 11, 2], 1).map(drop);
    let text = captured(call).unwrap_err().to_string();
    assert!(text.contains("[9, 11, 2]") && text.contains("before the capture"), "{text}");
    alone(|queue| call(queue).unwrap());
    captured(call).unwrap();
}
