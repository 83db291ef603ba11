//! Storage types: stored arguments in every dtype against f64, and integers of both widths.

use crate::support::{names, numbers};
use madelung_core::Result;
use madelung_core::array::{Array, DType, View};
use madelung_core::op::{Arg, Cotangent, Evaluated, Op, Registry, Request};
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_core::tape::{Tape, Value};
use std::sync::Arc;

madelung_core::kernels! {
    /// sᵢ = tᵢ Σⱼ fⱼ exp(−r²)
    #[kernel]
    fn aggregate(
        i: Atom,
        features: &[Vec3; Atom],
        positions: &[Vec3; Atom],
        types: &[i32; Atom],
        pairs: &Pairs<Atom>,
        sum: &mut [Vec3; Atom],
    ) {
        let mut s = vec3(0.0, 0.0, 0.0);
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i];
            s += features[j] * exp(-dot(d, d));
        }
        sum[i] = s * types[i];
    }
}

fn op() -> Arc<Op> {
    Op::new("test", "aggregate", 1)
        .real("features", &["Atom", "3"])
        .stored()
        .real("positions", &["Atom", "3"])
        .ints("types", &["Atom"])
        .pairs("pairs", "Atom")
        .output("sum", &["Atom", "3"])
        .stored_as("features")
        .step(&AGGREGATE)
        .build()
        .expect("an op")
}

const N: usize = 9;
const TYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// The largest relative error of rounding to a dtype.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F32 => 2f64.powi(-24),
        _ => 2f64.powi(-53),
    }
}

/// Numbers in (−1, 1), in no order.
fn random(dtype: DType, seed: usize) -> Array {
    Array::from_f64(dtype, &[N, 3], &numbers(seed, 3 * N)).expect("shapes fit")
}

fn types() -> Array {
    Array::from_f64(DType::I32, &[N], &[1.0, 2.0, 1.0, -1.0, 3.0, 1.0, 1.0, 2.0, 1.0]).expect("shapes fit")
}

fn pairs() -> PairList<'static> {
    let rows = (0..N as i32).flat_map(|i| (0..N as i32).filter(move |j| *j != i).map(move |j| (i, j)));
    let (i, j): (Vec<i32>, Vec<i32>) = rows.unzip();
    PairList::from_coo(&i, j, vec![[0; 3]; N * (N - 1)], N, N, Kind::Full).expect("a list")
}

/// The op at given features and positions, along given directions.
fn evaluate(
    features: &Array,
    positions: &Array,
    cotangent: Option<&Array>,
    direction: &[Option<&Array>],
) -> Result<Evaluated> {
    let (types, pairs) = (types(), pairs());
    let args = [
        Arg::Array(features.view()),
        Arg::Array(positions.view()),
        Arg::Array(types.view()),
        Arg::Structure(&pairs),
    ];
    let direction: Vec<Option<View<'_>>> = direction.iter().map(|u| u.map(Array::view)).collect();
    let directions = [direction.as_slice()];
    let cotangents: Vec<_> = cotangent.iter().map(|w| Some(Cotangent::Array(w.view()))).collect();
    let request = Request {
        values: direction.is_empty(),
        cotangents: &cotangents,
        directions: if direction.is_empty() { &[] } else { &directions },
        gradients: if cotangent.is_some() { &[0, 1] } else { &[] },
        ..Request::default()
    };
    op().evaluate(&madelung_cpu::context(), &args, &request)
}

fn f64_of(array: &Array) -> Array {
    array.cast(DType::F64).unwrap()
}

/// Computed in f64, a stored call is the f64 call with its stored results rounded once.
#[test]
fn rounded_once_at_the_edge() {
    let positions = random(DType::F64, 1);
    for dtype in TYPES {
        let (f, w) = (random(dtype, 2), random(dtype, 3));
        let (u, v) = (random(dtype, 4), random(DType::F64, 5));
        for direction in [&[][..], &[Some(&u), Some(&v), None, None]] {
            for cotangent in [None, Some(&w)] {
                let got = evaluate(&f, &positions, cotangent, direction).expect("a call");
                let wide_u = f64_of(&u);
                let direction: Vec<_> = direction
                    .iter()
                    .enumerate()
                    .map(|(n, u)| if n == 0 { Some(&wide_u) } else { *u })
                    .collect();
                let wide = evaluate(&f64_of(&f), &positions, cotangent.map(f64_of).as_ref(), &direction);
                let wide = wide.expect("a call");
                assert_eq!(got.values.len() + got.gradients.len(), wide.values.len() + wide.gradients.len());
                for (got, wide) in got.values.iter().zip(wide.values) {
                    assert!(got.equals(&wide.cast(dtype).unwrap()).unwrap(), "{dtype}");
                }
                if let ([by_f, by_r], [wide_f, wide_r]) = (&got.gradients[..], &wide.gradients[..]) {
                    assert!(by_f.equals(&wide_f.cast(dtype).unwrap()).unwrap(), "{dtype}");
                    assert!(by_r.equals(wide_r).unwrap(), "{dtype}");
                }
            }
        }
    }
}

/// Against numbers that were never rounded, each sum is off by at most the rounding of its terms and its own.
#[test]
fn error_is_that_of_the_rounding() {
    let (positions, exact) = (random(DType::F64, 1), random(DType::F64, 2));
    let want = evaluate(&exact, &positions, None, &[]).expect("a call").values[0].to_f64().unwrap();
    let magnitudes = exact.try_clone().unwrap().map(f64::abs).unwrap();
    let scale = evaluate(&magnitudes, &positions, None, &[]).expect("a call").values[0].to_f64().unwrap();
    for dtype in TYPES {
        let stored = exact.cast(dtype).unwrap();
        for compute in [DType::F32, DType::F64] {
            let got = evaluate(&stored, &positions.cast(compute).unwrap(), None, &[]).expect("a call");
            assert_eq!(got.values[0].dtype(), dtype);
            // Rounded positions change r² by 4 |x| u each way, the exponential by a few ulp, each of N terms once more.
            let bound = 2.0 * unit(dtype) + if compute == DType::F32 { 40.0 } else { 10.0 } * unit(compute);
            for ((got, want), scale) in got.values[0].to_f64().unwrap().iter().zip(&want).zip(&scale) {
                assert!((got - want).abs() <= bound * scale.abs(), "{dtype} in {compute}: {got} {want}");
            }
        }
    }
}

#[test]
fn on_a_tape() {
    let mut tape = Tape::new(madelung_cpu::context());
    let (f, r) = (tape.input(random(DType::BF16, 2)), tape.input(random(DType::F64, 1)));
    let args = vec![f.into(), r.into(), Value::Ints(Arc::new(types())), Value::Structure(Arc::new(pairs()))];
    let sum = tape.call(&op(), args).expect("a call")[0];
    let w = random(DType::BF16, 3);
    tape.backward(&[(sum, w.try_clone().unwrap())]).expect("a backward pass");
    let want = evaluate(&random(DType::BF16, 2), &random(DType::F64, 1), Some(&w), &[]).expect("a call");
    for (x, want) in [f, r].into_iter().zip(&want.gradients) {
        assert!(tape.gradient(x).expect("a gradient").equals(want).unwrap());
    }
    names(tape.backward(&[(sum, random(DType::F64, 3))]), "cotangent");
}

#[test]
fn what_is_beyond_the_range_is_an_error() {
    let positions = random(DType::F64, 1);
    let large = random(DType::F64, 2).map(|x| 60_000.0 * x.signum()).unwrap();
    let small = random(DType::F16, 2);
    names(evaluate(&large.cast(DType::F16).unwrap(), &positions, None, &[]), "sum");
    assert!(evaluate(&large.cast(DType::BF16).unwrap(), &positions, None, &[]).is_ok());
    let w = large.cast(DType::F16).unwrap();
    names(evaluate(&small, &positions, Some(&w), &[]), "gradient by features");
    names(evaluate(&small, &positions, None, &[Some(&w), None, None, None]), "sum");
    let beyond = random(DType::F64, 2).map(|x| 1e300 * x).unwrap();
    names(evaluate(&beyond, &positions.cast(DType::F32).unwrap(), None, &[]), "features");
    let infinite = large.map(|x| 2.0 * x).unwrap().cast(DType::F16).unwrap();
    names(evaluate(&infinite, &positions, None, &[]), "features");
}

#[test]
fn wrong_types_are_refused() {
    let (f, r) = (random(DType::F16, 2), random(DType::F32, 1));
    names(evaluate(&random(DType::I32, 2), &r, None, &[]), "features");
    names(evaluate(&random(DType::I64, 2), &r, None, &[]), "features");
    for dtype in [DType::F16, DType::BF16, DType::I32, DType::I64] {
        names(evaluate(&f, &random(dtype, 1), None, &[]), "positions");
    }
    for dtype in [DType::BF16, DType::F32, DType::F64, DType::I32] {
        let other = random(dtype, 3);
        names(evaluate(&f, &r, Some(&other), &[]), "cotangent of sum");
        names(evaluate(&f, &r, None, &[Some(&other), None, None, None]), "direction 0 of features");
    }
    names(evaluate(&f, &r, None, &[None, Some(&f), None, None]), "direction 0 of positions");
    let good = || Op::new("test", "aggregate", 1).real("features", &["Atom", "3"]);
    names(good().ints("types", &["Atom"]).stored().build().map(|_| ()), "types");
    names(good().output("sum", &["Atom", "3"]).stored_as("features").build().map(|_| ()), "sum");
    let json = Registry::new([op()]).expect("a registry").to_json();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["ops"][0]["args"][0]["stored"], true);
    assert_eq!(json["ops"][0]["args"][1]["stored"], false);
    assert_eq!(json["ops"][0]["outputs"][0]["stored_as"], "features");
}

#[test]
fn integers_of_either_width() {
    let (f, r, pairs) = (random(DType::F32, 2), random(DType::F32, 1), pairs());
    let with = |types: &Array| {
        let arrays = [f.view(), r.view(), types.view()].map(Arg::Array);
        let args: Vec<Arg<'_>> = arrays.into_iter().chain([Arg::Structure(&pairs)]).collect();
        op().value(&madelung_cpu::context(), &args)
    };
    let wide = types().cast(DType::I64).unwrap();
    let (wider, narrower) = (with(&wide).expect("a call"), with(&types()).expect("a call"));
    assert!(wider.len() == 1 && wider[0].equals(&narrower[0]).unwrap());
    for far in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1, i64::MAX, i64::MIN] {
        let mut types = wide.try_clone().unwrap();
        if let Array::I64(a) = &mut types {
            a[3] = far;
        }
        names(with(&types), "types");
    }
    names(with(&types().cast(DType::F32).unwrap()), "types");
}

#[test]
fn batches_and_lists_of_either_width() {
    let int = |shape: &[usize], data: &[f64]| Array::from_f64(DType::I64, shape, data).expect("shapes fit");
    let (idx, ptr) = (int(&[3], &[0.0, 1.0, 1.0]), int(&[3], &[0.0, 1.0, 3.0]));
    let far = int(&[2], &[0.0, 3e9]);
    let narrow = |a: &Array| a.cast(DType::I32).unwrap();
    for (idx, ptr) in [(idx.try_clone().unwrap(), ptr.try_clone().unwrap()), (narrow(&idx), narrow(&ptr))] {
        let batch = Batch::from_idx_array(&idx.view(), None).expect("a batch");
        assert_eq!(batch, Batch::from_ptr_array(&ptr.view()).expect("a batch"));
    }
    names(Batch::from_idx_array(&far.view(), None), "batch_idx");
    names(Batch::from_ptr_array(&far.view()), "batch_ptr");
    names(Batch::from_idx_array(&Array::zeros(DType::F32, &[3]).view(), None), "batch_idx");
    names(Batch::from_ptr_array(&Array::zeros(DType::I64, &[3, 1]).view()), "batch_ptr");
    // Two atoms that see each other, and an image.
    let list = int(&[2, 4], &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    let shifts = int(&[4, 3], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0]);
    let (ptr, others) = (int(&[3], &[0.0, 2.0, 4.0]), int(&[4], &[1.0, 1.0, 0.0, 0.0]));
    let matrix = int(&[2, 2], &[1.0, 1.0, 0.0, 0.0]);
    let shifts_of_matrix = int(&[2, 2, 3], &shifts.to_f64().unwrap());
    let same = |a: &PairList<'_>, b: &PairList<'_>| a.iter().eq(b.iter());
    let [l, s, p, o] = [&list, &shifts, &ptr, &others].map(narrow);
    let coo = PairList::from_coo_arrays(&list.view(), &shifts.view(), 2, 2, Kind::Full).expect("a list");
    assert_eq!(coo.len(), 4);
    let other = [
        PairList::from_coo_arrays(&l.view(), &s.view(), 2, 2, Kind::Full),
        PairList::from_csr_arrays(&p.view(), &o.view(), &s.view(), 2, Kind::Full),
        PairList::from_csr_arrays(&ptr.view(), &others.view(), &shifts.view(), 2, Kind::Full),
        PairList::from_matrix_arrays(&matrix.view(), &shifts_of_matrix.view(), -1, 2, Kind::Full),
    ];
    for list in other {
        assert!(same(&coo, &list.expect("a list")));
    }
    let coo = |list: &Array, shifts: &Array| {
        PairList::from_coo_arrays(&list.view(), &shifts.view(), 2, 2, Kind::Full).map(|_| ())
    };
    names(coo(&ptr, &shifts), "neighbor_list");
    names(coo(&shifts, &shifts), "neighbor_list");
    names(coo(&list.cast(DType::F64).unwrap(), &shifts), "neighbor_list");
    names(coo(&list, &list), "neighbor_shifts");
    names(coo(&list, &int(&[4, 3], &[3e9; 12])), "neighbor_shifts");
    names(coo(&int(&[2, 4], &[3e9; 8]), &shifts), "neighbor_list");
    let csr = PairList::from_csr_arrays(&far.view(), &others.view(), &shifts.view(), 2, Kind::Full);
    names(csr.map(|_| ()), "neighbor_ptr");
    let fill = PairList::from_matrix_arrays(&matrix.view(), &shifts_of_matrix.view(), 3 << 40, 2, Kind::Full);
    names(fill.map(|_| ()), "fill_value");
}
