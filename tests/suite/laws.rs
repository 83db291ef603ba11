//! Sums of a potential whose functions are source text, against those that `charge_sum!` makes of them, bit for bit.

use crate::declared::Given;
use crate::every_form::plan;
use madelung::array::DType;
use madelung::electrostatics::{ChargeSum, INVERSE_POWER};
use madelung::op::{Arg, Cotangent, Op, Request};
use madelung::pairs::Kind;
use madelung::runtime::{Made, kernels};

const FUNCTIONS: &str = "use madelung::electrostatics::inverse_power::{background, long_range, long_range_k2, self_term, short_range};";

#[test]
fn sums_made_of_source_text_have_the_bits_of_those_of_the_macro() {
    let own = ChargeSum::from_source("own", &["exponent"], FUNCTIONS, |text| {
        Ok(kernels(text)?.iter().map(Made::kernel).collect())
    });
    let own = own.expect("kernels").ops("test").expect("ops");
    let library = ChargeSum { saves_gradients: false, ..INVERSE_POWER }.ops("test").expect("ops");
    assert_eq!(own.len(), library.len());
    let context = madelung::cpu::context();
    for (op, made) in library.iter().zip(&own) {
        assert_eq!(op.name.replace("inverse_power", "own"), made.name);
        for dtype in [DType::F64, DType::F32] {
            let plan = plan(op, 18, dtype, Kind::Full);
            let given = plan.arguments(op);
            let args: Vec<Arg<'_>> = given.iter().map(Given::arg).collect();
            let gradients: Vec<usize> = (0..args.len()).filter(|n| op.is_differentiable(*n)).collect();
            let cotangents = [Some(Cotangent::Uniform(0.5))];
            let request = Request {
                values: true,
                cotangents: &cotangents,
                gradients: &gradients,
                ..Request::default()
            };
            let bits = |op: &Op| -> Vec<Vec<u64>> {
                let done = op.evaluate(&context, &args, &request).expect("a sum");
                let each = done.values.iter().chain(&done.gradients);
                each.map(|x| x.to_f64().expect("reals").iter().map(|x| x.to_bits()).collect()).collect()
            };
            assert_eq!(bits(op), bits(made), "{}", op.name);
        }
    }
}
