//! In-out arrays: kernels go on with what is there, ops leave their arguments as they are.

use super::kernels::{COUNT, GO_ON};
use super::{Call, ints};
use madelung_core::array::{Array, DType, View};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use std::sync::Arc;

madelung_core::kernels! {
    #[kernel]
    fn square(i: Point, x: &[Real; Point], energy: &mut [Real; Point]) { energy[i] = x[i] * x[i]; }

    #[kernel(no_adjoint)]
    fn add_half(i: Point, x: &[Real; Point], energy: &mut [InOut<Real>; Point]) { energy[i] += 0.5 * x[i]; }

    #[kernel(no_adjoint)]
    fn double(i: Point, energy: &mut [InOut<Real>; Point]) { energy[i] *= 2.0; }

    #[kernel(no_adjoint)]
    fn axpy(i: Atom, a: Real, x: &[Real; Atom], y: &mut [InOut<Real>; Atom]) { y[i] = a * x[i] + y[i]; }

    #[kernel(no_adjoint)]
    fn running_histogram(i: Point, x: &[Real; Point], width: Real, counts: &mut [InOut<i32>; Bin]) {
        atomic_add(counts[floor(x[i] / width) as i64], 1);
    }

    #[kernel(no_adjoint)]
    fn seen(i: Point, energy: &[Real; Point], before: &mut [Real; Point]) { before[i] = energy[i]; }
}

const BIN: [i32; 4] = [2, 0, 2, 1];
const N: [i32; 4] = [1, 2, 3, -4];
const WIDE: [i64; 4] = [1 << 40, -5, 0, 7];

/// Numbers whose sums and products f32 has exactly.
fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|k| (k * 37 % 23) as f64 * 0.25 - 2.5).collect()
}

/// One row of [`GO_ON`] after the other, with arrays in the order of their parameters.
fn gone_on(x: &[f64], a: f64, [y, v, m]: [&[f64]; 3]) -> [Vec<f64>; 3] {
    let y: Vec<f64> = x.iter().zip(y).map(|(x, y)| a * x + y).collect();
    let by = |i: usize, k: usize| [x[i], y[i], 1.0][k];
    let v = v.iter().enumerate().map(|(n, v)| v - by(n / 3, n % 3)).collect();
    let square = |of: &[f64], n: usize| (0..3).map(|k| of[n / 3 * 3 + k] * of[k * 3 + n % 3]).sum::<f64>();
    let rows = m.chunks(9).flat_map(|m| (0..9).map(move |n| square(m, n) + m[n]));
    let m = rows.collect();
    [y, v, m]
}

#[test]
fn kernels_go_on_with_what_is_there() {
    let (x, y, v, m) = (numbers(4), numbers(5)[1..].to_vec(), numbers(12), numbers(36));
    let expected = gone_on(&x, 0.75, [&y, &v, &m]);
    for dtype in [DType::F64, DType::F32] {
        let cast = |x: &[f64], shape: &[usize]| {
            let view = View::new(View::from(x).data(), shape).unwrap();
            view.to_array().unwrap().cast(dtype).unwrap()
        };
        let mut call = Call { dtype: Some(dtype), ..Call::default() }
            .dim("Point", 4)
            .dim("Bin", 3)
            .input("bin", &BIN[..])
            .reals(&[0.75])
            .held("n", &N[..])
            .held("wide", &WIDE[..])
            .held("counts", &[10, 20, 30])
            .held("most", ndarray_of(3).view());
        call.inputs.insert("x", cast(&x, &[4]));
        for (name, array, shape) in [("y", &y, &[4][..]), ("v", &v, &[4, 3]), ("m", &m, &[4, 3, 3])] {
            call.outputs.insert(name, cast(array, shape));
        }
        call.outputs.insert("one", Array::filled(dtype, &[], 1.5));
        let out = call.outputs(&GO_ON);
        for (name, expected) in ["y", "v", "m"].into_iter().zip(&expected) {
            assert_eq!(out[name].to_f64().unwrap(), *expected, "{name}, {dtype}");
        }
        assert_eq!(out["one"].to_f64().unwrap(), [3.0]);
        assert_eq!(ints(&out["n"]), [1, 2, 9, -4]);
        assert_eq!(ints(&out["wide"]), [(1 << 40) + 1, -3, 9, 3]);
        assert_eq!(ints(&out["counts"]), [12, 16, 40]);
        assert_eq!(ints(&out["most"]), [(1 << 40) + 1]);
    }
}

fn ndarray_of(x: i64) -> Array {
    ndarray::arr0(x).into()
}

/// All of [`GO_ON`].
fn whole() -> Arc<Op> {
    let arrays = [("y", &["Point"][..]), ("v", &["Point", "3"]), ("m", &["Point", "3", "3"]), ("one", &[])];
    let integers = [
        ("n", &["Point"][..], DType::I32),
        ("wide", &["Point"], DType::I64),
        ("counts", &["Bin"], DType::I32),
        ("most", &[], DType::I64),
    ];
    let op = Op::new("test", "go_on", 1).real("x", &["Point"]).ints("bin", &["Point"]).scalar("a");
    let op = arrays.iter().fold(op, |op, (name, shape)| op.real(name, shape).output(name, shape));
    let op = integers.iter().fold(op, |op, (name, shape, dtype)| {
        op.integers(name, shape, *dtype).integer_output(name, shape, *dtype)
    });
    op.step(&GO_ON).build().expect("an op")
}

#[test]
fn calls_leave_their_arguments_as_they_are() {
    let (x, y, v, m) = (numbers(4), numbers(5)[1..].to_vec(), numbers(12), numbers(36));
    let [y_after, v_after, m_after] = gone_on(&x, -1.5, [&y, &v, &m]);
    let (counts, most, one) = ([10, 20, 30], ndarray::arr0(3i64).into(), Array::filled(DType::F64, &[], 1.5));
    let shaped =
        |x: &[f64], shape: &[usize]| View::new(View::from(x).data(), shape).unwrap().to_array().unwrap();
    let (v, m, most): (Array, Array, Array) = (shaped(&v, &[4, 3]), shaped(&m, &[4, 3, 3]), most);
    // Integers of 32 bits are good for an array of 64, too.
    let wide: [i32; 4] = [-9, 5, 0, 7];
    let args = [
        Arg::Array(View::from(&x)),
        Arg::Array(View::from(&BIN[..])),
        Arg::Real(-1.5),
        Arg::Array(View::from(&y)),
        Arg::Array(v.view()),
        Arg::Array(m.view()),
        Arg::Array(one.view()),
        Arg::Array(View::from(&N[..])),
        Arg::Array(View::from(&wide[..])),
        Arg::Array(View::from(&counts)),
        Arg::Array(most.view()),
    ];
    let (op, context) = (whole(), madelung_cpu::context());
    for _ in 0..2 {
        let values = op.value(&context, &args).expect("values");
        let reals: Vec<Vec<f64>> = values[..4].iter().map(|a| a.to_f64().unwrap()).collect();
        assert_eq!(reals, [y_after.clone(), v_after.clone(), m_after.clone(), vec![3.0]]);
        let integers: Vec<Vec<i64>> = values[4..].iter().map(ints).collect();
        assert_eq!(integers, [vec![1, 2, 9, -4], vec![-8, 7, 9, 3], vec![12, 16, 40], vec![9]]);
        assert_eq!(values[5].dtype(), DType::I64);
        assert_eq!(values[1].shape(), [4, 3]);
    }
    let empty = [0.0; 0];
    let binned: [f64; 3] = [1.0, 2.0, 3.0];
    let op = two(false);
    let none = [Arg::Array(View::from(&empty)), Arg::Array(View::from(&empty))];
    assert!(op.value(&context, &none).expect("no rows")[0].view().is_empty());
    let wrong = [Arg::Array(View::from(&x)), Arg::Array(View::from(&binned))];
    let error = op.value(&context, &wrong).expect_err("3 rows for 4").to_string();
    assert_eq!(error, "`energy`: expected 4 rows (Point), as other arguments have, got 3");
    let nan = [f64::NAN; 4];
    let wrong = [Arg::Array(View::from(&x)), Arg::Array(View::from(&nan))];
    let error = op.value(&context, &wrong).expect_err("no numbers").to_string();
    assert_eq!(error, "`energy`: expected finite numbers, got NaN in row 0");
}

/// `energy` and then twice that, from an argument or from the square of `x`; with an argument it is `seen`, too.
fn two(squares: bool) -> Arc<Op> {
    let op = Op::new("test", "two", 1).real("x", &["Point"]);
    let op = if squares {
        op.output("energy", &["Point"]).step(&SQUARE)
    } else {
        let op = op.real("energy", &["Point"]).output("energy", &["Point"]).output("before", &["Point"]);
        op.step(&SEEN)
    };
    op.step(&ADD_HALF).step(&DOUBLE).build().expect("an op")
}

#[test]
fn steps_go_on_with_what_earlier_ones_left() {
    let (x, energy) = ([1.0, -2.0, 3.0], [10.0, 20.0, 30.0]);
    let context = madelung_cpu::context();
    let given = [Arg::Array(View::from(&x)), Arg::Array(View::from(&energy))];
    let values = two(true).value(&context, &given[..1]).expect("values");
    assert_eq!(values[0].to_f64().unwrap(), x.map(|x| 2.0 * (x * x + 0.5 * x)));
    let values = two(false).value(&context, &given).expect("values");
    assert_eq!(values[0].to_f64().unwrap(), [21.0, 38.0, 63.0]);
    assert_eq!(values[1].to_f64().unwrap(), energy);
}

#[test]
fn examples_of_the_manual() {
    let (context, x, y) = (madelung_cpu::context(), [0.5, 1.75, -2.0], [1.0, 2.0, 3.0]);
    let op = Op::new("test", "axpy", 1).scalar("a").real("x", &["Atom"]).real("y", &["Atom"]);
    let op = op.output("y", &["Atom"]).step(&AXPY).build().expect("an op");
    let args = [Arg::Real(2.0), Arg::Array(View::from(&x)), Arg::Array(View::from(&y))];
    assert_eq!(op.value(&context, &args).expect("values")[0].to_f64().unwrap(), [2.0, 5.5, -1.0]);
    let op = Op::new("test", "histogram", 1).real("x", &["Point"]).scalar("width").ints("counts", &["Bin"]);
    let op = op.integer_output("counts", &["Bin"], DType::I32).step(&RUNNING_HISTOGRAM).build();
    let (op, mut counts) = (op.expect("an op"), Array::zeros(DType::I32, &[3]));
    for x in [[0.5, 1.5, 0.1], [2.9, 0.0, 1.0]] {
        let args = [Arg::Array(View::from(&x)), Arg::Real(1.0), Arg::Array(counts.view())];
        counts = op.value(&context, &args).expect("counts").remove(0);
    }
    assert_eq!(ints(&counts), [3, 2, 1]);
}

#[test]
fn derivatives_do_not_pass_through_them() {
    let (x, energy) = ([1.0, -2.0, 3.0], [10.0, 20.0, 30.0]);
    let context = madelung_cpu::context();
    let given = [Arg::Array(View::from(&x)), Arg::Array(View::from(&energy))];
    let cotangents = [Some(Cotangent::Uniform(1.0))];
    for (squares, by, name) in [(true, 0, "double"), (false, 0, "double"), (false, 1, "double")] {
        let args = &given[..if squares { 1 } else { 2 }];
        let request = Request { cotangents: &cotangents, gradients: &[by], ..Request::default() };
        let error = two(squares).evaluate(&context, args, &request).expect_err("no gradient").to_string();
        assert!(error.contains(": no form for Gradient: it is not differentiated"), "{error}, not of {name}");
        let mut direction = vec![None; args.len()];
        direction[by] = Some(View::from(&x));
        let request = Request { directions: &[&direction], ..Request::default() };
        let error = two(squares).evaluate(&context, args, &request).expect_err("no tangent").to_string();
        assert!(error.contains(": no form for Tangent: it is not differentiated"), "{error}");
    }
}

#[test]
fn declarations_say_where_they_begin() {
    let begin = || Op::new("test", "bad", 1).real("x", &["Point"]);
    let nowhere = begin().output("energy", &["Point"]).step(&ADD_HALF).build();
    assert_eq!(
        nowhere.expect_err("no argument").to_string(),
        "`test::bad.v1::add_half::energy`: expected an argument of this name, or an array that an earlier step wrote, got one \
         that none has"
    );
    let named = || begin().real("energy", &["Point"]);
    let unused = named().output("energy", &["Point"]).step(&SQUARE).build();
    let error = unused.expect_err("an argument that nothing reads").to_string();
    assert_eq!(error, "`energy`: expected a name of its own, got one that another buffer has");
    let absent = named().step(&ADD_HALF).build();
    assert!(absent.expect_err("no output").to_string().contains("add_half::energy"));
    let twice = named().output("energy", &["Point"]).step_as(&ADD_HALF, &[("x", "energy")]).build();
    assert!(twice.expect_err("read, and gone on with").to_string().contains("another that reads it"));
    let wide = begin().real("energy", &["Point", "3"]).output("energy", &["Point"]).step(&ADD_HALF).build();
    let error = wide.expect_err("vectors").to_string();
    assert!(error.starts_with("`test::bad.v1::copy::argument`: expected an array"), "{error}");
    let dtype = begin()
        .ints("cell_of", &["Point"])
        .integers("counts", &["8"], DType::I64)
        .integer_output("counts", &["8"], DType::I32)
        .step(&COUNT)
        .build();
    assert!(dtype.expect_err("integers of 64 bits").to_string().contains("counts"));
    // A step between two that go on with an array would see it half done.
    let between = named()
        .output("before", &["Point"])
        .scratch("energy", &["Point"])
        .step(&ADD_HALF)
        .step(&SEEN)
        .step(&DOUBLE)
        .build();
    let error = between.expect_err("read before it is whole").to_string();
    assert!(error.contains("double::energy") && error.contains("that no earlier step has read"), "{error}");
}
