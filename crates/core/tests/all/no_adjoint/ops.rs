//! Kernels that are not differentiated as steps of an op, and its status.

use super::ints;
use super::kernels::{CELLS, COUNT};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::backend::status::{Deferred, Status};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use std::sync::Arc;

madelung_core::kernels! {
    #[kernel]
    fn square(i: Point, x: &[Real; Point], energy: &mut [Real; Point]) { energy[i] = x[i] * x[i]; }

    #[kernel(no_adjoint)]
    fn roots(i: Point, x: &[Real; Point], root: &mut [Real; Point]) { root[i] = sqrt(x[i]); }
}

/// Points counted in eight cells, and the square of each coordinate.
fn op() -> Arc<Op> {
    Op::new("test", "binned", 1)
        .real("x", &["Point"])
        .scalar("width")
        .output("energy", &["Point"])
        .integer_output("counts", &["8"], DType::I32)
        .integer_scratch("cell_of", &["Point"], DType::I32)
        .step(&CELLS)
        .step(&COUNT)
        .step(&SQUARE)
        .build()
        .expect("an op")
}

const X: [f64; 5] = [0.5, 7.9, 3.2, 3.9, 0.0];

#[test]
fn integers_go_from_step_to_step() {
    let (op, context) = (op(), madelung_cpu::context());
    let args = [Arg::Array(View::from(&X[..])), Arg::Real(1.0)];
    let values = op.value(&context, &args).expect("values");
    assert_eq!(values[0].to_f64().unwrap(), X.map(|x| x * x));
    assert_eq!(ints(&values[1]), [2, 0, 0, 2, 0, 0, 0, 1]);
    // The steps with integers have derivatives: none.
    let cotangents = [Some(Cotangent::Uniform(1.0)), None];
    let request = Request { values: true, cotangents: &cotangents, gradients: &[0], ..Request::default() };
    let g = op.evaluate(&context, &args, &request).expect("a gradient");
    assert_eq!(g.gradients[0].to_f64().unwrap(), X.map(|x| 2.0 * x));
    assert_eq!(g.values.len(), values.len());
    assert!(g.values.iter().zip(&values).all(|(a, b)| a.equals(b).unwrap()));
    let ones = [1.0; 5];
    let direction = [Some(View::from(&ones[..])), None];
    let request = Request { directions: &[&direction], ..Request::default() };
    let f = op.evaluate(&context, &args, &request).expect("a tangent");
    assert_eq!(
        (f.values[0].to_f64().unwrap(), ints(&f.values[1])),
        (X.map(|x| 2.0 * x).to_vec(), vec![0; 8])
    );
    let cotangents = [None, Some(Cotangent::Uniform(1.0))];
    let request = Request { cotangents: &cotangents, gradients: &[0], ..Request::default() };
    let error = op.evaluate(&context, &args, &request).expect_err("a cotangent of integers").to_string();
    assert!(error.starts_with("`cotangent of counts`: expected none"), "{error}");
}

#[test]
fn a_gradient_through_one_is_an_error() {
    let op =
        Op::new("test", "roots", 1).real("x", &["Point"]).output("root", &["Point"]).step(&ROOTS).build();
    let (op, context) = (op.expect("an op"), madelung_cpu::context());
    let args = [Arg::Array(View::from(&X[..]))];
    assert_eq!(op.value(&context, &args).expect("values")[0].to_f64().unwrap(), X.map(f64::sqrt));
    let request =
        Request { cotangents: &[Some(Cotangent::Uniform(1.0))], gradients: &[0], ..Request::default() };
    let error = op.evaluate(&context, &args, &request).expect_err("no gradient").to_string();
    assert_eq!(error, "roots: no form for Gradient: it is not differentiated");
    let ones = [1.0; 5];
    let direction = [Some(View::from(&ones[..]))];
    let request = Request { directions: &[&direction], ..Request::default() };
    assert!(op.evaluate(&context, &args, &request).expect_err("no tangent").to_string().contains("Tangent"));
}

#[test]
fn errors_come_at_once_or_with_the_next_check() {
    let op = op();
    let x = [0.5, 8.5, 1.0];
    let args = [Arg::Array(View::from(&x[..])), Arg::Real(1.0)];
    let expected = "`test::binned.v1::counts`: expected indices of rows that are there, got one out of range";
    assert_eq!(op.value(&madelung_cpu::context(), &args).expect_err("out of range").to_string(), expected);

    let status = Deferred::default();
    let context = Context { status: &status, ..madelung_cpu::context() };
    let values = op.value(&context, &args).expect("values that wait for the check");
    assert!(values[0].to_f64().unwrap().iter().all(|x| x.is_nan()), "{values:?}");
    assert_eq!(ints(&values[1]), [1, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(status.check().expect_err("the error").to_string(), expected);
    assert_eq!(status.check(), Ok(()));

    // A result that is no number waits as well.
    let huge = [1e200];
    let args = [Arg::Array(View::from(&huge[..])), Arg::Real(1e200)];
    assert!(op.value(&madelung_cpu::context(), &args).is_err());
    let values = op.value(&context, &args).expect("values that wait for the check");
    assert!(values[0].to_f64().unwrap()[0].is_nan());
    assert!(status.check().expect_err("the error").to_string().contains("finite"));
    let fine = [Arg::Array(View::from(&X[..])), Arg::Real(1.0)];
    assert_eq!(op.value(&context, &fine).expect("values")[0].to_f64().unwrap(), X.map(|x| x * x));
    assert_eq!(status.check(), Ok(()));
}

#[test]
fn declarations_know_integers() {
    let begin = || Op::new("test", "bad", 1).real("x", &["Point"]).scalar("width");
    let real = begin().output("cell_of", &["Point"]).step(&CELLS).build();
    assert!(real.expect_err("a real output").to_string().contains("cells::cell_of"));
    let wide = begin().integer_output("cell_of", &["Point"], DType::I64).step(&CELLS).build();
    assert!(wide.expect_err("int64").to_string().contains("int32"));
    let unwritten = begin()
        .integer_scratch("cell_of", &["Point"], DType::I32)
        .integer_output("counts", &["4"], DType::I32)
        .step(&COUNT)
        .step(&CELLS)
        .build();
    assert!(unwritten.expect_err("read before it is there").to_string().contains("cell_of"));
    let as_real = Op::new("test", "bad", 1)
        .real("x", &["Point"])
        .integer_output("energy", &["Point"], DType::I32)
        .step(&SQUARE)
        .build();
    assert!(as_real.expect_err("integers").to_string().contains("square::energy"));
    let json = serde_json::to_string(&*op()).expect("json");
    assert!(
        json.contains(r#""dtype":"i32""#) && json.contains(r#""name":"counts","shape":[{"const":8}]"#),
        "{json}"
    );
    let array: Array = ndarray::arr1(&[1i64, 2]).into();
    assert_eq!(
        (array.dtype(), array.cast(DType::I32).unwrap().to_f64().unwrap()),
        (DType::I64, vec![1.0, 2.0])
    );
}
