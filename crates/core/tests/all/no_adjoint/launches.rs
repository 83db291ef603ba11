//! Results of the kernels against plain Rust.

use super::kernels::*;
use super::{Call, ints};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::pool::Serial;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_cpu::Cpu;

#[test]
fn counts_are_exact_whoever_counts() {
    let x: Vec<f64> = (0..5000).map(|k| ((k * 7919) % 1000) as f64 * 0.37 - 150.0).collect();
    let bin = |x: f64| (x / 2.5).floor().rem_euclid(16.0) as usize;
    let (mut counts, mut smallest) = ([0; 16], [0i64; 16]);
    for (k, x) in x.iter().enumerate() {
        counts[bin(*x)] += 1;
        smallest[bin(*x)] = smallest[bin(*x)].min(-(k as i64));
    }
    let out = Call::default()
        .dim("Point", 5000)
        .dim("Bin", 16)
        .input("x", &x[..])
        .reals(&[2.5])
        .output("cell_of", DType::I32, &[5000])
        .output("counts", DType::I32, &[16])
        .output("largest", DType::I64, &[])
        .output("smallest", DType::I64, &[16])
        .outputs(&HISTOGRAM);
    assert_eq!(ints(&out["counts"]), counts);
    assert_eq!(ints(&out["smallest"]), smallest);
    assert_eq!(ints(&out["largest"]), [4999 * 4999]);
    assert!(ints(&out["cell_of"]).iter().zip(&x).all(|(c, x)| *c == bin(*x) as i64));
}

#[test]
fn loops_end_where_they_say() {
    let out = Call::default()
        .dim("Row", 300)
        .ints(&[110])
        .output("steps", DType::I32, &[300])
        .output("peak", DType::I64, &[300])
        .outputs(&COLLATZ);
    let (steps, peak) = (ints(&out["steps"]), ints(&out["peak"]));
    for row in 0..300 {
        let (mut n, mut k, mut top) = (row as i64 + 1, 0, row as i64 + 1);
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            (k, top) = (k + 1, top.max(n));
        }
        // A row that gives up leaves its other output as it was.
        let expected = if k > 110 { (-1, 0) } else { (k, top) };
        assert_eq!((steps[row], peak[row]), expected, "{}", row + 1);
    }
    assert!(steps.contains(&-1));
}

/// The operators of Rust, wrapping.
fn all_operators(x: i64, y: i64) -> [i64; 24] {
    let flag = x > 0 || y > 0 && x != y;
    let other = (!flag) | (x == 0);
    let mut z = (x.wrapping_add(y).wrapping_sub(3).wrapping_mul(y) & 12345 | 64) ^ x;
    z = ((z << 3 >> 2) % 1000) / 7;
    [
        x.wrapping_add(y),
        x.wrapping_sub(y),
        x.wrapping_mul(y),
        x.checked_div(y).unwrap_or(if y == 0 { 0 } else { i64::MIN }),
        x.checked_rem(y).unwrap_or(0),
        x & y,
        x | y,
        x ^ y,
        x.wrapping_shl((y & 63) as u32),
        x.wrapping_shr((y & 63) as u32),
        x.wrapping_neg(),
        !x,
        x.wrapping_abs(),
        x.min(y),
        x.max(y),
        i64::from(x < y) + 2 * i64::from(x <= y) + 4 * i64::from(x > y) + 8 * i64::from(x >= y),
        i64::from(x == y) + 2 * i64::from(x != y) + 4 * i64::from((x < 0) != (y < 0)),
        z,
        (x as f64) as i64,
        (x as f64 * 2.0) as i64,
        x.rem_euclid(9),
        if flag {
            1
        } else if !other {
            2
        } else {
            3
        },
        8,
        0,
    ]
}

#[test]
fn integers_have_64_bits_and_wrap() {
    let edge =
        [0, 1, -1, 2, -7, 9, 63, 64, -65, 1 << 40, i64::from(i32::MIN), i64::MAX, i64::MIN, i64::MIN + 1];
    let pairs: Vec<(i64, i64)> = edge.iter().flat_map(|a| edge.iter().map(|b| (*a, *b))).collect();
    let (a, b): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
    let n = pairs.len();
    let out = Call::default()
        .dim("Row", n)
        .dim("Out", 24 * n)
        .input("a", &a[..])
        .input("b", &b[..])
        .output("out", DType::I64, &[24 * n])
        .outputs(&INTEGERS);
    let got = ints(&out["out"]);
    for (k, (x, y)) in pairs.iter().enumerate() {
        let mut expected = all_operators(*x, *y);
        expected[23] = 24 * k as i64 + 23;
        assert_eq!(&got[24 * k..24 * k + 24], expected, "{x} and {y}");
    }
}

#[test]
fn reals_are_f64_in_either_dtype() {
    for dtype in [DType::F64, DType::F32] {
        let positions = [[1.25, -2.5, 0.5], [-3.75, 0.25, 8.0], [0.125, 6.5, -1.5]];
        let cell = [
            [[2.0, 0.0, 0.5], [0.0, 3.0, 0.0], [0.25, 0.0, 4.0]],
            [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 2.0]],
        ];
        let shifts = [[1, 0, -2], [-1, 2, 0], [3, 0, 1]];
        let cast = |view: View<'_>| view.to_array().unwrap().cast(dtype).unwrap();
        let mut call = Call { dtype: Some(dtype), ..Call::default() }
            .dim("Atom", 3)
            .dim("System", 2)
            .dim("Out", 24)
            .reals(&[1.5])
            .output("out", dtype, &[3, 3])
            .output("matrix", dtype, &[2, 3, 3])
            .output("numbers", dtype, &[24]);
        call.inputs.insert("positions", cast(View::from(&positions[..])));
        call.inputs.insert("cell", cast(View::from(&cell[..])));
        call.inputs.insert("g", Array::filled(dtype, &[], 0.75));
        let call = call.input("shifts", &shifts[..]);
        let call = Call {
            batches: [("atoms", Batch::from_idx(vec![0, 0, 1], None).expect("a batch"))].into(),
            ..call
        };
        let out = call.outputs(&REALS);
        let (vectors, numbers) = (out["out"].to_f64().unwrap(), out["numbers"].to_f64().unwrap());
        let rounded = |x: f64| if dtype == DType::F32 { f64::from(x as f32) } else { x };
        for i in 0..3 {
            let (r, s, b) = (positions[i], shifts[i], usize::from(i == 2));
            let mut v: [f64; 3] = std::array::from_fn(|c| {
                (r[c] + (0..3).map(|k| f64::from(s[k]) * cell[b][k][c]).sum::<f64>()) * 1.5
            });
            let cross = [v[1] * r[2] - v[2] * r[1], v[2] * r[0] - v[0] * r[2], v[0] * r[1] - v[1] * r[0]];
            for c in 0..3 {
                v[c] = v[c] / 2.0 - cross[c];
            }
            let s = s.map(|s| -f64::from(s));
            let sign = if s[0] > 0.0 { -1.0 } else { 1.0 };
            for c in 0..3 {
                let first = rounded(sign * v[c] + s[c]);
                assert_eq!(vectors[3 * i + c], rounded(first + if c == 0 { 0.5625 } else { 0.0 }), "{i} {c}");
            }
            let x: f64 = r[0];
            let row = cell[b][1].iter().map(|x| x * x).sum::<f64>().sqrt();
            let expected = [
                x.floor() + x.round_ties_even() + x.abs(),
                x.abs().sqrt() / row,
                x * x * x + x.min(1.0) - x.max(-1.0),
                std::f64::consts::PI,
                rounded(x.floor() + x.round_ties_even() + x.abs()) + 1.0,
                b as f64,
                x.floor(),
                x * x,
            ];
            assert_eq!(numbers[8 * i..8 * i + 8], expected.map(rounded), "{i}");
        }
        // (2 0 ½; 0 3 0; ¼ 0 4)² · 2, exactly.
        let expected = [8.25, 0.0, 6.0, 0.0, 18.0, 0.0, 3.0, 0.0, 32.25];
        assert_eq!(out["matrix"].to_f64().unwrap()[..9], expected);
    }
}

#[test]
fn outputs_are_read_back() {
    let data: Vec<i32> = (0..200).map(|k| (k * 7919) % 101 - 50).collect();
    let from: Vec<i32> = (0..20).map(|k| k * 10).collect();
    let to: Vec<i32> = (0..20).map(|k| if k == 3 { 30 } else { k * 10 + 10 }).collect();
    let out = Call::default()
        .dim("Row", 20)
        .dim("Item", 200)
        .input("from", &from[..])
        .input("to", &to[..])
        .input("data", &data[..])
        .output("sorted", DType::I32, &[200])
        .outputs(&BUBBLE);
    let mut expected = data;
    expected.chunks_mut(10).for_each(<[i32]>::sort_unstable);
    expected[30..40].fill(0);
    assert_eq!(ints(&out["sorted"]), expected.iter().map(|x| i64::from(*x)).collect::<Vec<_>>());
}

#[test]
fn pairs_and_members_are_rows() {
    let list = PairList::from_coo(
        &[0, 0, 1, 2, 2, 3],
        &[1, 2, 0, 0, 3, 2][..],
        &[[0, 0, 1], [1, 0, 0], [0, 0, -1], [-1, 0, 0], [0, 2, 0], [0, -2, 0]][..],
        4,
        4,
        Kind::Full,
    );
    let call = Call {
        batches: [("atoms", Batch::from_idx(vec![0, 0, 0, 0], None).expect("a batch"))].into(),
        pairs: [("pairs", list.expect("a list"))].into(),
        ..Call::default()
    };
    let out = call
        .dim("Atom", 4)
        .dim("System", 1)
        .input("x", &[0.0, 1.5, 1.0, -9.0][..])
        .output("upper", DType::I32, &[4])
        .output("nearest_of", DType::I64, &[4])
        .output("members", DType::I32, &[4])
        .output("images", DType::I64, &[4])
        .outputs(&LISTS);
    assert_eq!(ints(&out["upper"]), [2, 0, 1, 0]);
    assert_eq!(ints(&out["nearest_of"]), [2, 0, 0, 2]);
    assert_eq!(ints(&out["members"]), [0, 1, 2, 3]);
    assert_eq!(ints(&out["images"]), [-100 - 1, 100, 1 - 20, 20]);
}

fn lookup(at: &[i32]) -> Call<'static> {
    Call::default()
        .dim("Row", at.len())
        .dim("Entry", 3)
        .input("at", at)
        .input("table", &[0.5, -1.0, 2.0][..])
        .output("out", DType::F64, &[at.len()])
}

#[test]
fn computed_indices_are_checked() {
    let at = [2, 0, 1, -1, 3, i32::MIN, i32::MAX];
    let out = lookup(&at).outputs(&GUARDED);
    assert_eq!(out["out"].to_f64().unwrap(), [2.0, 0.5, -1.0, -1.0, -1.0, -1.0, -1.0]);
    // Rows end there, the others go on.
    let (out, error) = lookup(&at).everywhere(&UNGUARDED);
    assert_eq!(out["out"].to_f64().unwrap(), [2.0, 0.5, -1.0, 1.0, 1.0, 1.0, 1.0]);
    let error = error.expect("an error").to_string();
    assert_eq!(error, "`unguarded::table`: expected indices of rows that are there, got one out of range");
    assert_eq!(lookup(&at[..3]).everywhere(&UNGUARDED).1, None);
    let call = Call { dtype: Some(DType::F32), ..Call::default() }
        .dim("Row", 3)
        .input("to", &[2i64, 0, 1 << 33][..])
        .input("x", &[0.1f32, 0.2, 0.3][..])
        .output("out", DType::F32, &[3]);
    let (out, error) = call.everywhere(&PERMUTE);
    assert!(out["out"].equals(&vec![0.2f32, 0.0, 0.1].into()).unwrap());
    assert!(error.expect("an error").to_string().starts_with("`permute::out`"));
}

#[test]
fn what_does_not_fit_is_an_error() {
    let narrow = |step: &[i64]| {
        Call::default()
            .dim("Row", step.len())
            .input("step", step)
            .output("sum", DType::I32, &[])
            .output("last", DType::I32, &[step.len()])
            .output("quotient", DType::I64, &[step.len()])
    };
    let most = i64::from(i32::MAX);
    let out = narrow(&[most - 7, 7, -2]).outputs(&NARROW);
    assert_eq!((ints(&out["sum"]), ints(&out["quotient"])), (vec![most], vec![0, 14, -50]));
    let overflow = "expected integers that fit its elements, got one that does not";
    assert_eq!(narrow(&[most - 7, 8]).error(&NARROW), format!("`narrow::sum`: {overflow}"));
    assert_eq!(narrow(&[most + 1]).error(&NARROW), format!("`narrow::sum`: {overflow}"));
    assert_eq!(narrow(&[-1]).error(&NARROW), format!("`narrow::last`: {overflow}"));
    assert_eq!(narrow(&[4, 0]).error(&NARROW), "`narrow`: expected divisors other than zero, got zero");
    let full =
        |rows| Call::default().dim("Row", rows).dim("Slot", 40).ints(&[40]).output("used", DType::I32, &[]);
    let full = |rows| full(rows).output("slots", DType::I32, &[40]);
    assert_eq!(ints(&full(40).outputs(&FULL)["slots"]), [1; 40]);
    let (out, error) = full(57).everywhere(&FULL);
    // The count is the true one.
    assert_eq!(ints(&out["used"]), [57]);
    let expected = "`full::slots`: expected room for all that there is, got a capacity that is too small";
    assert_eq!(error.expect("an error").to_string(), expected);
}

/// Launches are checked before generated code runs.
#[test]
fn launches_are_checked() {
    let good = || lookup(&[0, 1]);
    let wrong =
        |call: Call<'_>| call.on(&UNGUARDED, &Cpu::new(), &Serial).expect_err("a bad launch").to_string();
    let with = |name, array: Array| {
        let mut call = good();
        call.outputs.insert(name, array);
        call
    };
    assert!(wrong(with("out", Array::zeros(DType::F32, &[2]))).starts_with("`out`"));
    assert!(wrong(with("out", Array::zeros(DType::F64, &[3]))).starts_with("`out`"));
    assert!(wrong(Call { outputs: Default::default(), ..good() }).starts_with("`out`"));
    assert!(wrong(good().input("table", &[1i32, 2, 3][..])).starts_with("`table`"));
    assert!(wrong(good().ints(&[1])).starts_with("`unguarded`"));
    let narrow = Call::default()
        .dim("Row", 1)
        .input("step", &[1i64][..])
        .output("sum", DType::I64, &[])
        .output("last", DType::I32, &[1])
        .output("quotient", DType::I64, &[1]);
    let error = narrow.on(&NARROW, &Cpu::new(), &Serial).expect_err("a bad launch").to_string();
    assert!(error.starts_with("`sum`: expected 1 × 1 elements of int32"), "{error}");
}
