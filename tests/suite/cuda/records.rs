//! What rows gather at their partners, from records and from its arrays.

use super::device::Gpu;
use crate::backends::asked::{arrays, each};
use crate::backends::calls::inputs;
use crate::backends::{Answers, MEMBERS};
use madelung::array::DType;
use madelung_stand_in::{calls, is_real};

/// Every member of the real-space sum in f64, values and gradients in f32: records are a launch more, and no other bit.
#[test]
fn records_change_no_bit() {
    let alone = Gpu::alone();
    let [plain, packed] = [usize::MAX, 1].map(|from| Gpu::on(alone.stream()).with_records_from(from));
    let launches = || calls("cuLaunchKernel");
    for (dtype, of, members) in [(DType::F64, 3..5, &MEMBERS[..]), (DType::F32, 4..5, &["F0", "G0"][..])] {
        // A directed list, and a batch with a full one: what partners get is gathered in two ways.
        let inputs: Vec<_> = inputs(dtype).drain(of).collect();
        let mut asked_of = 0;
        each(&inputs, |asked| {
            if asked.op.name != "ewald_real_space" || !members.contains(&asked.question.member) {
                return;
            }
            let start = launches();
            let want = plain.answer(asked);
            let between = launches();
            let got = packed.answer(asked);
            // Nobody counts the launches of a GPU.
            assert!(is_real() || launches() - between > between - start, "{}: no records", asked.what());
            assert!(arrays(&got).eq(arrays(&want)), "{}", asked.what());
            asked_of += 1;
        });
        assert!(asked_of > 0, "no question was asked");
    }
}
