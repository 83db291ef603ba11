//! A kernel of another crate on a formula of this library.

use madelung::array::View;
use madelung::op::{Arg, Cotangent, Op, Request};

madelung::kernels! {
    use madelung::electrostatics::potential::coulomb::short_range;

    #[kernel]
    fn screened_charge(
        i: Site,
        q: &[Real; Site],
        r: &[Real; Site],
        alpha: &Real,
        energy: &mut [Real; Site],
    ) {
        energy[i] = q[i] * short_range(r[i], alpha);
    }
}

/// Reference values of erfc to 17 digits: 0.5, 1, 2.
const ERFC: [(f64, f64); 3] =
    [(0.5, 0.479_500_122_186_953_5), (1.0, 0.157_299_207_050_285_13), (2.0, 0.004_677_734_981_047_266)];

#[test]
fn a_formula_of_another_crate_comes_with_its_derivative() {
    let op =
        Op::new("test", "screened_charge", 1).real("q", &["Site"]).real("r", &["Site"]).real("alpha", &[]);
    let op = op.output("energy", &["Site"]).step(&SCREENED_CHARGE).build().expect("an op");
    let alpha = 0.5;
    let q = [1.0, -2.0, 0.7];
    let r: Vec<f64> = ERFC.iter().map(|(x, _)| x / alpha).collect();
    let one = madelung::array::Array::filled(madelung::array::DType::F64, &[], alpha);
    let args =
        [Arg::Array(View::from(q.as_slice())), Arg::Array(View::from(r.as_slice())), Arg::Array(one.view())];
    let context = madelung::cpu::context();
    let request = Request {
        values: true,
        directions: &[],
        cotangents: &[Some(Cotangent::Uniform(1.0))],
        gradients: &[1],
        ..Request::default()
    };
    let got = op.evaluate(&context, &args, &request).expect("a gradient");
    for (n, (x, erfc)) in ERFC.iter().enumerate() {
        let value = q[n] * erfc / r[n];
        let slope = -2.0 / std::f64::consts::PI.sqrt() * alpha * (-x * x).exp();
        let derivative = q[n] * (slope - erfc / r[n]) / r[n];
        let (e, g) = (got.values[0].to_f64().unwrap()[n], got.gradients[0].to_f64().unwrap()[n]);
        assert!((e - value).abs() <= 4e-15 * value.abs(), "{e} against {value}");
        assert!((g - derivative).abs() <= 8e-15 * derivative.abs(), "{g} against {derivative}");
    }
}
