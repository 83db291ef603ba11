//! The prelude's own functions, against the host's in long double. On a GPU its exponential takes the place of the host's:
//! both are good to a unit in the last place.
#![expect(unsafe_code, reason = "what the C++ compiler made is called here")]

use libloading::Library;
use madelung_core::runtime::PRELUDE;
use madelung_stand_in::{HOST, compiled};

/// The largest relative error of either of two functions at n numbers from `from` to `to`, evenly or by factors.
type Sweep = unsafe extern "C" fn(f64, f64, i64, *mut f64);

const SWEEPS: &str = "
template <class T, class Both, class Exact>
static void sweep(bool factors, double from, double to, long long n, double* worst, Both both, Exact exact) {
  for (long long k = 0; k <= n; ++k) {
    const T x = factors ? T(from * pow(to / from, double(k) / n)) : T(from + (to - from) * k / n);
    const auto got = both(x);
    long double want[2];
    exact((long double)x, want);
    worst[0] = fmax(worst[0], double(fabsl((got.first - want[0]) / want[0])));
    worst[1] = fmax(worst[1], double(fabsl((got.second - want[1]) / want[1])));
  }
}
template <class T> static void erfc_sweep(double from, double to, long long n, double* worst) {
  sweep<T>(false, from, to, n, worst, [](T x) { return erfc_exp_neg_sq(x); },
           [](long double x, long double* want) { want[0] = erfcl(x); want[1] = expl(-x * x); });
}
template <class T> static void root_sweep(double from, double to, long long n, double* worst) {
  sweep<T>(true, from, to, n, worst, [](T x) { return sqrt_recip(x); },
           [](long double x, long double* want) { want[0] = sqrtl(x); want[1] = 1 / sqrtl(x); });
}
extern \"C\" {
void erfc_double(double from, double to, long long n, double* worst) { erfc_sweep<double>(from, to, n, worst); }
void erfc_float(double from, double to, long long n, double* worst) { erfc_sweep<float>(from, to, n, worst); }
void root_double(double from, double to, long long n, double* worst) { root_sweep<double>(from, to, n, worst); }
void root_float(double from, double to, long long n, double* worst) { root_sweep<float>(from, to, n, worst); }
void ends(double x, double, long long, double* out) {
  const auto e = erfc_exp_neg_sq(x);
  const auto r = sqrt_recip(x);
  out[0] = e.first; out[1] = e.second; out[2] = r.first; out[3] = r.second;
}
void angles(double y, double x, long long, double* out) {
  out[0] = angle(y, x); out[1] = angle(float(y), float(x)); out[2] = angle(y, float(x)); out[3] = angle(-y, x);
}
}
";

fn library() -> Library {
    compiled(&format!("{HOST}#define REAL double\n{PRELUDE}{SWEEPS}"))
}

fn call(library: &Library, name: &str, from: f64, to: f64) -> [f64; 4] {
    let mut out = [0.0; 4];
    // SAFETY: the function has this signature, and writes four numbers at most.
    unsafe { library.get::<Sweep>(name).expect("a function")(from, to, 400_000, out.as_mut_ptr()) };
    out
}

#[test]
fn erfc_and_roots_are_as_good_as_those_of_the_rust_code() {
    let library = library();
    // Beyond these ends the functions leave the normal numbers.
    let cases = [
        ("erfc_double", -6.0, 6.0, 2e-15),
        ("erfc_double", 6.0, 26.5, 2e-15),
        ("erfc_float", -6.0, 6.0, 5e-7),
        ("erfc_float", 6.0, 9.1, 5e-7),
        ("root_double", 1e-290, 1e290, 2.3e-16),
        ("root_float", 1e-36, 1e36, 1.2e-7),
    ];
    for (name, from, to, bound) in cases {
        let [first, second, ..] = call(&library, name, from, to);
        println!("{name} from {from:e} to {to:e}: {first:.1e}, {second:.1e}");
        assert!(first <= bound && second <= bound, "{name}: {first:e}, {second:e}");
    }
}

#[test]
fn ends_of_the_range_are_kept() {
    let library = library();
    let inf = f64::INFINITY;
    let [erfc, gauss, root, inverse] = call(&library, "ends", inf, 0.0);
    assert_eq!([erfc, gauss, root, inverse], [0.0, 0.0, inf, 0.0]);
    assert_eq!(call(&library, "ends", -inf, 0.0)[..2], [2.0, 0.0]);
    assert_eq!(call(&library, "ends", 0.0, 0.0), [1.0, 1.0, 0.0, inf]);
    assert!(call(&library, "ends", f64::NAN, 0.0).iter().all(|x| x.is_nan()));
    assert!(call(&library, "ends", -1.0, 0.0)[2..].iter().all(|x| x.is_nan()));
}

/// As on the CPU, whose lanes have no signs of zeros.
#[test]
fn angles_know_no_sign_of_zero() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    let library = library();
    for zero in [0.0, -0.0] {
        assert_eq!(call(&library, "angles", zero, -zero), [0.0; 4]);
        assert_eq!(call(&library, "angles", zero, 2.0), [0.0; 4]);
        assert_eq!(call(&library, "angles", zero, -2.0), [PI, f64::from(PI as f32), PI, PI]);
        assert_eq!(
            call(&library, "angles", 2.0, zero),
            [FRAC_PI_2, f64::from(FRAC_PI_2 as f32), FRAC_PI_2, -FRAC_PI_2]
        );
    }
    assert_eq!(call(&library, "angles", 3.0, 3.0)[0], FRAC_PI_4);
}
