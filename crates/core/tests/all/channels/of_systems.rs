//! Channels of systems and of members by their numbers.

use super::{ROWS, array, close};
use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, Op};
use madelung_core::structure::Batch;
use std::sync::Arc;

madelung_core::kernels! {
    /// A sum that goes to a channel by its number, and is the only one to have channels.
    #[kernel]
    fn marked(i: Row, x: &[Real; Row], _w: &[Real; Feature], rows: &Batch<Row, System>, total: &mut [[Real; Feature]; System]) {
        total[rows.of(i)][3] += x[i] * x[i];
    }

    /// A channel of a system's members.
    #[kernel]
    fn pooled(i: Row, x: &[Real; Row], z: &[[Real; Feature]; Row], rows: &Batch<Row, System>, out: &mut [Real; Row]) {
        let mut e = 0.0;
        for k in rows.members(rows.of(i)) {
            e += z[k][1] * x[k];
        }
        out[i] = e * x[i];
    }
}

#[test]
fn channels_of_systems_and_members_by_their_numbers() {
    let rows = Batch::from_ptr(vec![0, 70, ROWS as i32]).expect("a batch");
    let marked = Op::new("test", "marked", 1).real("x", &["Row"]).real("_w", &["Feature"]);
    let marked = marked.batch("rows", "Row", "System").output("total", &["System", "Feature"]);
    let marked = marked.step(&MARKED).build().expect("an op");
    let pooled = Op::new("test", "pooled", 1).real("x", &["Row"]).real("z", &["Row", "Feature"]);
    let pooled = pooled.batch("rows", "Row", "System").output("out", &["Row"]);
    let pooled = pooled.step(&POOLED).build().expect("an op");
    let of = |i: usize| usize::from(i >= 70);
    for (dtype, tolerance) in [(DType::F64, 2e-14), (DType::F32, 2e-5)] {
        let [x, w, z] =
            [vec![ROWS], vec![5], vec![ROWS, 5]].map(|shape| array(dtype, &shape, shape.len() as f64));
        let [xs, zs] = [&x, &z].map(|a| a.to_f64().unwrap());
        let (mut total, mut sums) = (vec![0.0; 10], [0.0; 2]);
        for i in 0..ROWS {
            total[5 * of(i) + 3] += xs[i] * xs[i];
            sums[of(i)] += zs[5 * i + 1] * xs[i];
        }
        let value = |op: &Arc<Op>, second: &Array| {
            let args = [Arg::Array(x.view()), Arg::Array(second.view()), Arg::Structure(&rows)];
            op.value(&madelung_cpu::context(), &args).map(|values| values[0].to_f64().unwrap())
        };
        close("marked", &value(&marked, &w).expect("values"), &total, tolerance);
        let want: Vec<f64> = (0..ROWS).map(|i| sums[of(i)] * xs[i]).collect();
        close("pooled", &value(&pooled, &z).expect("values"), &want, tolerance);
        let error = value(&marked, &array(dtype, &[3], 1.0)).expect_err("too few channels");
        let expected = "`total`: expected a feature width of at least 4, got 3";
        assert!(error.to_string().contains(expected), "{error}");
    }
}
