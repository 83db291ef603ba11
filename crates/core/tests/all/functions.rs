//! Functions imported by other blocks: the same bits as if they were written there, derivatives included.

use madelung_core::array::Array;
use madelung_core::op::{Arg, Cotangent, Op, Request};

mod library {
    madelung_core::kernels! {
        #[func]
        fn square(x: Real) -> Real {
            x * x
        }

        /// A bell, whose derivative is given (and calls it).
        #[func]
        pub fn bell(x: Real, width: Real) -> Real {
            exp(-square(x / width))
        }

        #[derivative(bell)]
        fn bell_derivative(x: Real, width: Real) -> (Real, Real) {
            let slope = -2.0 * x / square(width) * bell(x, width);
            (slope, -x / width * slope)
        }

        #[func]
        pub(crate) fn norm(v: Vec3) -> Real {
            sqrt(square(v.x) + square(v.y) + square(v.z))
        }
    }
}

mod middle {
    madelung_core::kernels! {
        use crate::functions::library::bell as gauss;

        #[func]
        fn square(x: Real) -> Real {
            0.5 * x
        }

        /// Hands on a function of another block.
        #[func]
        pub(crate) fn two_bells(x: Real) -> Real {
            gauss(x, 1.5) + square(gauss(x, 0.5))
        }
    }
}

mod imported {
    madelung_core::kernels! {
        use crate::functions::{library::{bell, norm}, middle::two_bells};

        #[func]
        fn square(x: Real) -> Real {
            sin(x)
        }

        #[kernel]
        pub(super) fn k(i: Atom, v: &[Vec3; Atom], a: &[Real; Atom], out: &mut [Real; Atom]) {
            let r = norm(v[i]);
            out[i] = bell(r, a[i]) + square(a[i]) * two_bells(r);
        }
    }
}

mod written {
    madelung_core::kernels! {
        #[func]
        fn bell(x: Real, width: Real) -> Real {
            exp(-((x / width) * (x / width)))
        }

        #[derivative(bell)]
        fn bell_derivative(x: Real, width: Real) -> (Real, Real) {
            let slope = -2.0 * x / (width * width) * bell(x, width);
            (slope, -x / width * slope)
        }

        #[kernel]
        pub(super) fn k(i: Atom, v: &[Vec3; Atom], a: &[Real; Atom], out: &mut [Real; Atom]) {
            let w = v[i];
            let r = sqrt(w.x * w.x + w.y * w.y + w.z * w.z);
            out[i] = bell(r, a[i]) + sin(a[i]) * (bell(r, 1.5) + 0.5 * bell(r, 0.5));
        }
    }
}

#[test]
fn an_imported_function_is_as_if_written_here() {
    let n = 37;
    let numbers = |n: usize, lo: f64| (0..n).map(|k| lo + 0.1 * ((k * 7) % 11) as f64).collect::<Vec<_>>();
    let v = Array::from_f64(madelung_core::array::DType::F64, &[n, 3], &numbers(3 * n, -0.3)).unwrap();
    let a = Array::from_f64(madelung_core::array::DType::F64, &[n], &numbers(n, 0.4)).unwrap();
    let args = [Arg::Array(v.view()), Arg::Array(a.view())];
    let direction = [Some(v.view()), Some(a.view())];
    let [x, y] = [&imported::K, &written::K].map(|kernel| {
        let op = Op::new("test", "k", 1).real("v", &["Atom", "3"]).real("a", &["Atom"]);
        let op = op.output("out", &["Atom"]).step(kernel).build().unwrap();
        let context = madelung_cpu::context();
        let values = op.value(&context, &args).unwrap();
        let request = |directions| Request {
            values: false,
            directions,
            cotangents: &[Some(Cotangent::Uniform(1.0))],
            gradients: &[0, 1],
            ..Request::default()
        };
        let first = op.evaluate(&context, &args, &request(&[])).unwrap().gradients;
        let second = op.evaluate(&context, &args, &request(&[&direction])).unwrap().gradients;
        [values, first, second].iter().flatten().map(|a| a.to_f64().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(x, y);
}
