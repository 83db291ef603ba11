//! The kernels of the hash grid as CUDA text, against the CPU. (The points that they find: the tests of
//! `madelung-neighbors`.)

use super::host::Host;
use madelung_core::array::{DType, View};
use madelung_core::backend::Context;
use madelung_core::structure::Batch;
use madelung_neighbors::grid::HashGrid;
use madelung_stand_in::Order;

#[test]
fn grids_are_the_same_in_cuda_text() {
    let at: Vec<[f64; 3]> = (0..200)
        .map(f64::from)
        .map(|t| [5.0 * (0.7 * t).sin(), 7.0 * (1.3 * t).cos(), 2.0 * (2.1 * t).sin()])
        .collect();
    let cells = [
        [[4.0, 0.5, 0.0], [-1.0, 5.0, 0.3], [0.2, 0.0, -6.0]],
        [[9.0, 0.0, 0.0], [0.0, 3.0, 0.0], [1.0, 0.0, 4.0]],
    ];
    let pbc = [[true, true, false], [true; 3]];
    let batch = Batch::from_ptr(vec![0, 70, 200]).expect("a batch");
    let points = View::from(&at[..]);
    let search = |context: &Context<'_>| {
        let grid =
            HashGrid::build(context, &points, 0.8, Some(&cells), Some(&pbc), batch.clone()).expect("a grid");
        // Cells one by one, and all points.
        let lists = [1.1, 6.0].map(|radius| {
            let list = grid.query(context, &points, &batch, radius).expect("a list");
            list.iter().collect::<Vec<_>>()
        });
        (lists, grid.nearest(context, &points, &batch, 9, None).expect("the nearest"))
    };
    let expected = search(&madelung_cpu::context());
    for order in [Order::Forwards, Order::Backwards, Order::Shuffled(1)] {
        let host = Host::new(DType::F64, order);
        assert!(search(&Context { backend: &host, ..madelung_cpu::context() }) == expected, "{order:?}");
    }
}
