use crate::device::{Buffer, alone, same_each_time, scratch};
use crate::primitives::{self, eighths, offsets, summed};
use crate::refused;
use madelung_core::array::DType;
use madelung_cuda::primitives::{
    Integer, Length, Segments, TARGETS, Target, reduce_partials, reduce_scratch, segmented_broadcast,
    segmented_sum,
};

fn segments(offsets: &Buffer<i32>, rows: usize) -> Segments {
    Segments::Offsets { offsets: offsets.address(), count: offsets.len() - 1, rows }
}

#[test]
fn all_rows_are_one_segment() {
    for (rows, count) in [(0, 0), (1, 1), (1000, 1000), (3000, 3000), (3000, 1025), (3000, 0)] {
        let values = eighths(rows * 3);
        let got = same_each_time(
            || {
                let room = scratch(reduce_scratch(rows, 3));
                (Buffer::of(&values), Buffer::of(&[count as i32]), Buffer::of(&[-1.0f64; 3]), room)
            },
            |queue, (values, count, sums, room)| {
                let all = Segments::All(Length::on_device(rows, (Integer::I32, count.address()))?);
                segmented_sum(queue, DType::F64, values.address(), 3, all, sums.address(), room.scratch())
            },
            |(_, _, sums, _)| sums.read(),
        );
        assert_eq!(got, summed(&values, 3, &[count]));
    }
}

#[test]
fn partial_sums_go_to_their_places() {
    const COLUMNS: usize = 12;
    for lengths in primitives::segments() {
        let systems = lengths.len();
        let rows: usize = lengths.iter().sum();
        let values = eighths(rows * COLUMNS);
        let sums = summed(&values, COLUMNS, &lengths);
        let got = same_each_time(
            || {
                (
                    [Buffer::of(&values), Buffer::of(&vec![0.5; 9 * systems])],
                    Buffer::of(&vec![0.5f32; systems]),
                    Buffer::of(&offsets(&lengths)),
                    scratch(reduce_scratch(rows, 10)),
                )
            },
            |queue, ([partials, wide], narrow, offsets, room)| {
                // Nine components of one array, of which some are added, and one of another.
                let mut targets: Vec<Target> = (0..9)
                    .map(|component| Target {
                        array: wide.address(),
                        dtype: DType::F64,
                        stride: 9,
                        component,
                        column: 11 - component,
                        adds: component % 2 == 0,
                    })
                    .collect();
                targets.push(Target {
                    array: narrow.address(),
                    dtype: DType::F32,
                    stride: 1,
                    component: 0,
                    column: 1,
                    adds: true,
                });
                let segments = segments(offsets, rows);
                reduce_partials(queue, partials.address(), COLUMNS, segments, &targets, room.scratch())
            },
            |([_, wide], narrow, ..)| (wide.read(), narrow.read()),
        );
        for s in 0..systems {
            for c in 0..9 {
                let before = if c % 2 == 0 { 0.5 } else { 0.0 };
                assert_eq!(got.0[9 * s + c], before + sums[COLUMNS * s + 11 - c]);
            }
            assert_eq!(got.1[s], (0.5 + sums[COLUMNS * s + 1]) as f32);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    alone(|queue| {
        let none = scratch(0).scratch();
        let all = |rows| Segments::All(Length::new(rows));
        let sum = |dtype, rows| segmented_sum(queue, dtype, 0, 1, all(rows), 0, none);
        refused(sum(DType::F16, 1), "dtype");
        refused(sum(DType::F32, 1025), "scratch");
        refused(sum(DType::F32, 1 << 31), "rows");
        let target = Target { array: 0, dtype: DType::F32, stride: 1, component: 0, column: 3, adds: false };
        let reduce = |targets: &[Target]| reduce_partials(queue, 0, 3, all(1), targets, none);
        refused(reduce(&[target]), "targets");
        refused(reduce(&vec![Target { column: 0, ..target }; TARGETS + 1]), "targets");
    });
}

/// Invalid offsets (which their call has raised) make wrong sums, but read nothing out of bounds.
#[test]
fn offsets_that_are_none_lead_nowhere_else() {
    let rows = 3000;
    let values = vec![1.0f64; rows];
    for wrong in [vec![0, i32::MAX, 3000], vec![-7, 2000, 1000, 3000], vec![3000, 0], vec![i32::MIN, -1]] {
        let count = wrong.len() - 1;
        let sums = same_each_time(
            || {
                let room = scratch(reduce_scratch(rows, 1));
                (Buffer::of(&values), Buffer::of(&wrong), Buffer::of(&vec![0.0f64; count]), room)
            },
            |queue, (values, offsets, sums, room)| {
                let segments = segments(offsets, rows);
                segmented_sum(
                    queue,
                    DType::F64,
                    values.address(),
                    1,
                    segments,
                    sums.address(),
                    room.scratch(),
                )
            },
            |(_, _, sums, _)| sums.read(),
        );
        assert!(sums.iter().all(|x| *x <= rows as f64), "{wrong:?}: {sums:?}");
        let spread = same_each_time(
            || (Buffer::of(&vec![1.0f64; count]), Buffer::of(&wrong), Buffer::of(&vec![1.0f64; rows])),
            |queue, (values, offsets, to)| {
                let segments = segments(offsets, rows);
                segmented_broadcast(queue, DType::F64, values.address(), 1, segments, to.address())
            },
            |(_, _, to)| to.read(),
        );
        assert!(spread.iter().all(|x| *x == 1.0), "{wrong:?}");
    }
}
