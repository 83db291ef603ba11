//! Ewald sums of a screened Coulomb potential against the plain lattice sum, and the consistency of the six functions
//! of both potentials.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::{assert_close_rms, finite_difference, fourth_order_difference, rms};
use common::systems::{System, random_system, triclinic_cell};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::pool::Serial;
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::runtime::Kernel;
use madelung_core::structure::Batch;
use madelung_electrostatics::kvectors::miller_indices_batch;
use madelung_electrostatics::{ChargeSum, charge_sum};
use std::f64::consts::PI;

/// The screened potential exp(−κr)/r, whose lattice sum converges without a background.
mod yukawa {
    madelung_core::kernels! {
        #[func]
        pub(crate) fn full(r: Real, kappa: Real) -> Real {
            exp(-kappa * r) / r
        }

        #[func]
        pub(crate) fn short_range(r: Real, alpha: Real, kappa: Real) -> Real {
            let s = 0.5 * kappa / alpha;
            0.5 / r * (erfc(alpha * r + s) * exp(kappa * r) + erfc(alpha * r - s) * exp(-kappa * r))
        }

        #[func]
        pub(crate) fn long_range(r2: Real, alpha: Real, kappa: Real) -> Real {
            full(sqrt(r2), kappa) - short_range(sqrt(r2), alpha, kappa)
        }

        #[func]
        pub(crate) fn long_range_k2(k2: Real, volume: Real, alpha: Real, kappa: Real) -> Real {
            let q2 = k2 + kappa * kappa;
            4.0 * PI / (volume * q2) * exp(-0.25 * q2 / (alpha * alpha))
        }

        #[func]
        pub(crate) fn self_term(alpha: Real, kappa: Real) -> Real {
            let s = 0.5 * kappa / alpha;
            2.0 * alpha / sqrt(PI) * exp(-s * s) - kappa * erfc(s)
        }

        #[func]
        pub(crate) fn background(volume: Real, alpha: Real, kappa: Real) -> Real {
            -long_range_k2(0.0, volume, alpha, kappa)
        }
    }
}

charge_sum! {
    /// Sums of the screened potential.
    static YUKAWA: yukawa = crate::yukawa[kappa];
}

const KAPPA: f64 = 1.3;
/// Radius of the lattice sum, where exp(−κr) is 1e-14.
const REACH: f64 = 32.0 / KAPPA;

/// Seven ions with an excess of charge.
fn system() -> System {
    random_system(5, 7, triclinic_cell(160.0), 0.8, 1.2)
}

/// Energies per atom by definition: ½ qᵢ Σⱼ qⱼ exp(−κr)/r over all images within reach.
fn lattice_sum(system: &System, kappa: f64) -> Vec<f64> {
    let dual = common::oracle::dual_basis(&system.cell);
    let images = dual.map(|b| (b.iter().map(|x| x * x).sum::<f64>().sqrt() * REACH).ceil() as i32 + 2);
    let of = |i: usize| {
        let mut potential = common::oracle::Sum::default();
        for (j, q) in system.charges.iter().enumerate() {
            for x in -images[0]..=images[0] {
                for y in -images[1]..=images[1] {
                    for z in -images[2]..=images[2] {
                        let shift = [x, y, z].map(f64::from);
                        let d: [f64; 3] = std::array::from_fn(|c| {
                            let image: f64 = (0..3).map(|a| shift[a] * system.cell[a][c]).sum();
                            system.positions[j][c] - system.positions[i][c] + image
                        });
                        let r = d.iter().map(|x| x * x).sum::<f64>().sqrt();
                        if r > 0.0 && r < REACH {
                            potential.add(q * (-kappa * r).exp() / r);
                        }
                    }
                }
            }
        }
        0.5 * system.charges[i] * potential.value()
    };
    (0..system.charges.len()).map(of).collect()
}

/// Energies, and gradients of their sum by positions, charges, cell, alpha, kappa and strain.
struct Sum {
    energies: Vec<f64>,
    gradients: [Vec<f64>; 6],
}

/// The Ewald sum at αr_c = k_c/2α = 6.2, where truncation is below rounding.
fn ewald(system: &System, alpha: f64, total: bool) -> Sum {
    let name = if total { "yukawa_summation_total" } else { "yukawa_summation" };
    let ops = YUKAWA.ops("test").expect("the declarations fit");
    let op = ops.into_iter().find(|op| op.name == name).expect("an op");
    let array = |shape: &[usize], data: &[f64]| Array::from_f64(DType::F64, shape, data).expect("shapes fit");
    let n = system.charges.len();
    let (positions, cell) = (system.positions.as_flattened(), system.cell.as_flattened());
    let (positions, cell) = (array(&[n, 3], positions), array(&[1, 3, 3], cell));
    let charges = array(&[n], &system.charges);
    let (alphas, kappas) = (array(&[1], &[alpha]), array(&[1], &[KAPPA]));
    let atoms = Batch::single(n).expect("a batch");
    let given =
        madelung_electrostatics::System::new(positions.view(), charges.view(), cell.view(), atoms.clone());
    let cutoff = 6.2 / alpha;
    let pairs = given.expect("a system").neighbor_list(cutoff, &Serial).expect("a list");
    let (miller, ptr) = miller_indices_batch(&[system.cell], &[2.0 * alpha * 6.2]).expect("wave vectors");
    let waves = Batch::from_ptr(ptr).expect("a batch");
    let args = [
        Arg::Array(positions.view()),
        Arg::Array(charges.view()),
        Arg::Array(cell.view()),
        Arg::Array(alphas.view()),
        Arg::Array(kappas.view()),
        Arg::Zero,
        Arg::Structure(&atoms),
        Arg::Real(1.0),
        Arg::Structure(&pairs),
        Arg::Real(cutoff),
        Arg::Array(View::from(miller.as_slice())),
        Arg::Structure(&waves),
    ];
    let request = Request {
        values: true,
        cotangents: &[Some(Cotangent::Uniform(1.0))],
        gradients: &[0, 1, 2, 3, 4, 5],
        ..Request::default()
    };
    let done = op.evaluate(&madelung_cpu::context(), &args, &request).expect("a sum");
    let gradients: Vec<_> = done.gradients.iter().map(|a| a.to_f64().unwrap()).collect();
    Sum {
        energies: done.values[0].to_f64().unwrap(),
        gradients: gradients.try_into().expect("six gradients"),
    }
}

#[test]
fn energies_are_those_of_the_lattice_sum_for_any_alpha() {
    let system = system();
    let want = lattice_sum(&system, KAPPA);
    for alpha in [0.7, 0.9, 1.3] {
        let got = ewald(&system, alpha, false);
        assert_close_rms(&got.energies, &want, 1e-12, rms(&want));
        let total = ewald(&system, alpha, true).energies;
        assert_close_rms(&total, &[want.iter().sum()], 1e-12, rms(&want));
        let by_alpha = got.gradients[3][0];
        assert!(by_alpha.abs() < 1e-11 * rms(&want), "dE/dα = {by_alpha:e} at α = {alpha}");
    }
}

#[test]
fn gradients_are_those_of_the_lattice_sum() {
    let system = system();
    let [positions, charges, cell, _, kappa, strain] = ewald(&system, 0.9, false).gradients;
    let energy = |system: &System, kappa: f64| common::oracle::sum(lattice_sum(system, kappa));
    let check = |what: &str, got: &[f64], want: &[f64]| {
        let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / rms(want);
        println!("{what}: {worst:.1e}");
        assert!(worst < 1e-9, "{what}: {worst:e}");
    };
    let rows = |x: &[f64]| x.as_chunks().0.to_vec();
    let h = 1e-3;
    let moved = |x: &[f64]| energy(&System { positions: rows(x), ..system.clone() }, KAPPA);
    check("positions", &positions, &finite_difference(moved, system.positions.as_flattened(), h));
    let charged = |x: &[f64]| energy(&System { charges: x.to_vec(), ..system.clone() }, KAPPA);
    check("charges", &charges, &finite_difference(charged, &system.charges, h));
    let in_cell = |x: &[f64]| {
        let rows = rows(x);
        energy(&System { cell: [rows[0], rows[1], rows[2]], ..system.clone() }, KAPPA)
    };
    check("cell", &cell, &finite_difference(in_cell, system.cell.as_flattened(), h));
    check("kappa", &kappa, &[fourth_order_difference(|kappa| energy(&system, kappa), KAPPA, h)]);
    let strained = |x: &[f64]| {
        let rows = rows(x);
        energy(&system.strained(&[rows[0], rows[1], rows[2]]), KAPPA)
    };
    check("strain", &strain, &finite_difference(strained, &[0.0; 9], h));
}

#[test]
fn names_of_kernels_start_with_the_prefix() {
    let ChargeSum { prefix, real_space, green_function, reciprocal_space, .. } = YUKAWA;
    for kernel in [real_space, green_function, reciprocal_space] {
        assert!(kernel.name.starts_with("yukawa_"), "{}", kernel.name);
        let parts = kernel.forms.iter().flat_map(|form| form.parts);
        assert!(parts.map(|part| part.cuda.name).all(|name| name.starts_with(kernel.name)));
    }
    assert_eq!(prefix, "yukawa");
}

/// The six functions at x, a distance or a wave number, in a cell of volume 1.
macro_rules! six_functions {
    ($name:ident = $($potential:ident)::+ [$($parameter:ident),*]) => {
        madelung_core::kernels! {
            use $($potential)::+::{background, full, long_range, long_range_k2, self_term, short_range};

            #[kernel(small)]
            fn $name(
                i: Site,
                x: &[Real; Site],
                alpha: &Real,
                $($parameter: &Real,)*
                phi: &mut [Real; Site],
                short: &mut [Real; Site],
                long: &mut [Real; Site],
                wave: &mut [Real; Site],
                own: &mut [Real; Site],
                uniform: &mut [Real; Site],
            ) {
                phi[i] = full(x[i] $(, $parameter)*);
                short[i] = short_range(x[i], alpha $(, $parameter)*);
                long[i] = long_range(x[i] * x[i], alpha $(, $parameter)*);
                wave[i] = long_range_k2(x[i] * x[i], 1.0, alpha $(, $parameter)*);
                own[i] = self_term(alpha $(, $parameter)*);
                uniform[i] = background(1.0, alpha $(, $parameter)*);
            }
        }
    };
}

six_functions!(of_coulomb = madelung_electrostatics::potential::coulomb[]);
six_functions!(of_yukawa = crate::yukawa[kappa]);

/// The six functions at `x`, for α = 1 and `parameters`.
fn functions(kernel: &'static Kernel, x: &[f64], parameters: &[(&str, f64)]) -> [Vec<f64>; 6] {
    let mut op = Op::new("test", "functions", 1).real("x", &["Site"]);
    let parameters = [&[("alpha", 1.0)], parameters].concat();
    for (name, _) in &parameters {
        op = op.real(name, &[]);
    }
    for name in ["phi", "short", "long", "wave", "own", "uniform"] {
        op = op.output(name, &["Site"]);
    }
    let op = op.step(kernel).build().expect("an op");
    let numbers: Vec<_> = parameters.iter().map(|(_, p)| Array::filled(DType::F64, &[], *p)).collect();
    let args: Vec<_> =
        [View::from(x)].into_iter().chain(numbers.iter().map(Array::view)).map(Arg::Array).collect();
    let values = op.value(&madelung_cpu::context(), &args).expect("values");
    values.iter().map(|a| a.to_f64().unwrap()).collect::<Vec<_>>().try_into().expect("six outputs")
}

/// Simpson's rule for 4π ∫ r² f(r) sin(kr)/kr dr, f at r = h, 2h, …: an odd number of points, and zero at the end.
fn transform(f: &[f64], h: f64, k: f64) -> f64 {
    let term = |(n, f): (usize, &f64)| {
        let r = (n + 1) as f64 * h;
        let wave = if k > 0.0 { (k * r).sin() / k } else { r };
        if n % 2 == 0 { 4.0 * r * wave * f } else { 2.0 * r * wave * f }
    };
    4.0 * PI * h / 3.0 * f.iter().enumerate().map(term).sum::<f64>()
}

#[test]
fn the_six_functions_of_a_potential_fit_together() {
    const H: f64 = 1.0 / 1024.0;
    // Zero where the cell is neutralised, for the whole potential has no coefficient at k = 0 then.
    for (kernel, parameters, kappa) in [(&OF_COULOMB, &[][..], 0.0), (&OF_YUKAWA, &[("kappa", KAPPA)], KAPPA)]
    {
        let r: Vec<f64> = (1..8192).map(|n| f64::from(n) * H).collect();
        let [phi, short, long, _, own, uniform] = functions(kernel, &r, parameters);
        for n in 0..r.len() {
            let exact = (-kappa * r[n]).exp() / r[n];
            // A quotient, and an exponential as good as docs/design.md says: 2e-15 on lanes.
            let bound = if kappa > 0.0 { 2e-15 } else { 4e-16 };
            assert!((phi[n] - exact).abs() <= bound * exact, "φ({}) = {}", r[n], phi[n]);
            assert!((short[n] + long[n] - exact).abs() <= 1e-15 * exact, "parts at {}", r[n]);
        }
        // The long-range part is even in r.
        let at_zero = (64.0 * long[0] - 20.0 * long[1] + long[3]) / 45.0;
        assert!((at_zero / own[0] - 1.0).abs() < 1e-11, "self term {} against {at_zero}", own[0]);
        let whole = |k: f64| if k + kappa > 0.0 { 4.0 * PI / (k * k + kappa * kappa) } else { 0.0 };
        let waves = [0.3, 1.0, 2.5, 6.0];
        let [_, _, _, wave, ..] = functions(kernel, &waves, parameters);
        let check = |k: f64, sum: f64| {
            let want = transform(&short, H, k);
            println!("k = {k}: {:.1e}", sum / want - 1.0);
            assert!((sum / want - 1.0).abs() < 1e-10, "short-range part at k = {k}: {sum} against {want}");
        };
        check(0.0, whole(0.0) + uniform[0]);
        for (k, long) in waves.into_iter().zip(wave) {
            check(k, whole(k) - long);
        }
    }
}
