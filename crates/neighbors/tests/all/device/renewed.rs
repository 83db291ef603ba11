//! The op that renews lists, on a device: the whole list in rows, in arrays with room, or in as many as are needed.

use super::coo::Coo;
use super::{SKEW, expected};
use crate::gpu::Gpu;
use crate::systems::System;
use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, Request};
use madelung_neighbors::searches;

const CUTOFF: f64 = 3.0;

#[test]
fn the_whole_list_is_made_again() {
    let gpu = Gpu::new();
    let systems = [40, 0, 25].map(|n| System::new(n, SKEW, [true; 3], 1.0));
    let (sent, want) = (gpu.send(&systems, DType::F64), expected(&systems, CUTOFF, false));
    let (pairs, atoms) = (want.others.len(), want.ptr.len() - 1);
    let op = searches().get("renewed_neighbors").expect("the op");
    let integers = |shape: &[usize]| gpu.copy(&Array::zeros(DType::I32, shape).view());
    let former = [&[0][..], &[0, 1], &[0, 3]].map(integers);
    let (flags, batch) = (integers(&[3]), sent.batch());
    let call = |form: i64, sizes: [i64; 4]| {
        let mut args = vec![
            Arg::Array(sent.positions.view()),
            Arg::Array(sent.cell.view()),
            Arg::Array(sent.pbc.view()),
            Arg::Structure(&batch),
            Arg::Real(CUTOFF),
            Arg::Int(0),
            Arg::Array(flags.view()),
        ];
        args.extend(former.iter().map(|array| Arg::Array(array.view())));
        args.extend([form].into_iter().chain(sizes).map(Arg::Int));
        op.evaluate(&gpu.context(), &args, &Request { values: true, ..Request::default() })
    };
    let count = atoms as i64 + 1;
    for capacity in [None, Some(pairs), Some(pairs + 9), Some(pairs - 1)] {
        let room = capacity.map_or([-1; 4], |n| [count, n as i64, 1, n as i64]);
        let found = call(0, room).expect("a list").values;
        let [index, columns, images, kept] =
            found.iter().map(|a| gpu.ints(&a.view())).collect::<Vec<_>>().try_into().expect("four arrays");
        assert!(index.iter().map(|p| i64::from(*p)).eq(want.ptr.iter().copied()));
        assert_eq!(kept, [0; 3]);
        let capacity = capacity.unwrap_or(pairs);
        if capacity < pairs {
            assert!(gpu.error().starts_with("`neighbor_list::capacity`"));
            assert!(columns.iter().all(|j| *j == atoms as i32));
            continue;
        }
        gpu.check().expect("nothing went wrong");
        let whole = Coo::of(&want, capacity - pairs);
        assert_eq!((&columns, images.as_chunks::<3>().0), (&whole.others, &whole.shifts[..]));
        assert_eq!(found[1].shape(), [capacity, 1]);
    }
    let refused = |form, sizes| call(form, sizes).expect_err("an error").to_string();
    assert!(refused(1, [90, 40, 2, 40]).contains("neighbours in clusters are lists of the CPU"));
    assert!(refused(0, [count + 1, 40, 1, 40]).starts_with("`frame`: expected"));
}
