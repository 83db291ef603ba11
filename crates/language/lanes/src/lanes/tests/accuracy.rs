//! Dense sweeps against the references, and the values at the ends.

use super::on_every_lane;
use super::reference::{self, Double};
use crate::lanes::{Elem, Lane};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Erfc,
    ExpNegSq,
    BothErfc,
    BothExpNegSq,
    Exp,
    Ln,
    Sin,
    Cos,
    Pow,
    Erf,
    Tanh,
    Atan2,
    Asin,
    Acos,
    Floor,
    BothSqrt,
    BothRecip,
}
use Function::*;

#[inline(always)]
fn apply<L: Lane>(function: Function, x: L, e: L) -> L {
    match function {
        Erfc => x.erfc(),
        ExpNegSq => x.exp_neg_sq(),
        BothErfc => x.erfc_exp_neg_sq().0,
        BothExpNegSq => x.erfc_exp_neg_sq().1,
        Exp => x.exp(),
        Ln => x.ln(),
        Sin => x.sin(),
        Cos => x.cos(),
        Pow => x.pow(e),
        Erf => x.erf(),
        Tanh => x.tanh(),
        Atan2 => x.atan2(e),
        Asin => x.asin(),
        Acos => x.acos(),
        Floor => x.floor(),
        BothSqrt => x.sqrt_recip().0,
        BothRecip => x.sqrt_recip().1,
    }
}

fn reference(function: Function, x: f64, e: f64) -> Double {
    match function {
        Erfc | BothErfc => reference::erfc(x),
        ExpNegSq | BothExpNegSq => reference::exp_neg_sq(x),
        Exp => reference::exp(x.into()),
        Ln => reference::ln(x),
        Sin => reference::sin_cos(x).0,
        Cos => reference::sin_cos(x).1,
        Pow => reference::pow(x, e),
        Erf => reference::erf(x),
        Tanh => reference::tanh(x),
        Atan2 => reference::atan2(x.into(), e.into()),
        Asin => reference::asin(x),
        Acos => reference::acos(x),
        Floor => Double::from(x.floor()),
        BothSqrt => reference::sqrt(x),
        BothRecip => Double::from(1.0) / reference::sqrt(x),
    }
}

struct Sweep {
    function: Function,
    points: Vec<(f64, f64)>,
    expected: Vec<Double>,
    relative: bool,
    bar: f64,
}

/// `count` points from `low` to `high`, jittered by a fixed sequence and rounded to the element type.
fn points<E: Elem>(low: f64, high: f64, count: usize) -> impl Iterator<Item = f64> {
    let step = (high - low) / count as f64;
    (0..count).map(move |i| {
        let jitter = (i as f64 * 0.6180339887498949).fract();
        E::of_f64(low + step * (i as f64 + jitter)).to_f64()
    })
}

fn sweep<E: Elem>(function: Function, range: (f64, f64), bar: f64) -> Sweep {
    let points = points::<E>(range.0, range.1, 20_000).map(|x| (x, 0.0)).collect();
    sweep_at(function, points, bar)
}

fn sweep_at(function: Function, points: Vec<(f64, f64)>, bar: f64) -> Sweep {
    let expected = points.iter().map(|&(x, e)| reference(function, x, e)).collect();
    Sweep { function, points, expected, relative: !matches!(function, Sin | Cos), bar }
}

fn ln_points<E: Elem>(decades: f64) -> Vec<(f64, f64)> {
    let wide = points::<E>(-decades, decades, 20_000).map(|d| E::of_f64(10f64.powf(d)).to_f64());
    wide.chain(points::<E>(0.5, 2.0, 20_000)).filter(|&x| x != 1.0).map(|x| (x, 0.0)).collect()
}

fn pow_points<E: Elem>(decades: f64, largest: f64) -> Vec<(f64, f64)> {
    let round = |x: f64| E::of_f64(x).to_f64();
    let bases = points::<E>(-decades, decades, 20_000).map(|d| round(10f64.powf(d)));
    let powers = [-6.0, -12.0, 0.5, 1.5, 2.0, -0.37, 3.0, 17.25, 40.1, -29.9, 0.001];
    bases
        .enumerate()
        .map(|(i, x)| (x, round(powers[i % powers.len()])))
        .chain(points::<E>(0.6, 1.6, 20_000).map(|x| (x, round(largest * (x * 1e3).fract()))))
        .filter(|&(x, e)| (x.ln() * e).abs() < largest)
        .collect()
}

/// Points at every angle and at many distances.
fn directions<E: Elem>(decades: f64) -> Vec<(f64, f64)> {
    let round = |x: f64| E::of_f64(x).to_f64();
    let sizes = points::<E>(-decades, decades, 20_000).map(|d| 10f64.powf(d));
    let angles = points::<E>(-3.2, 3.2, 20_000).zip(sizes);
    // Near the axes, too.
    let near = points::<E>(-decades, decades, 20_000).enumerate().map(|(n, d)| {
        let (one, small) = (if n % 2 == 0 { 1.0 } else { -1.0 }, 10f64.powf(d));
        (round(if n % 4 < 2 { small } else { -small }), one)
    });
    angles.map(|(t, r)| (round(r * t.sin()), round(r * t.cos()))).chain(near).collect()
}

/// Numbers of both signs from the smallest to `end`, and evenly up to it.
fn both_signs<E: Elem>(decades: f64, end: f64) -> Vec<(f64, f64)> {
    let wide = points::<E>(-decades, end.log10(), 20_000).enumerate().map(|(n, d)| {
        let x = 10f64.powf(d);
        E::of_f64(if n % 2 == 0 { x } else { -x }).to_f64()
    });
    wide.chain(points::<E>(-end, end, 20_000))
        .filter(|x| x.abs() <= end && *x != 0.0)
        .map(|x| (x, 0.0))
        .collect()
}

/// The bars that the crate promises.
fn bars_f64() -> Vec<Sweep> {
    let mut all = Vec::new();
    for f in [Erfc, BothErfc] {
        all.push(sweep::<f64>(f, (0.0, 6.0), 2e-15));
        all.push(sweep::<f64>(f, (6.0, 26.2), 2e-15));
        all.push(sweep::<f64>(f, (-6.5, 0.0), 2e-15));
    }
    for f in [ExpNegSq, BothExpNegSq] {
        all.push(sweep::<f64>(f, (-6.0, 6.0), 1e-15));
        all.push(sweep::<f64>(f, (6.0, 26.6), 1e-15));
    }
    all.push(sweep::<f64>(Exp, (-1.0, 1.0), 1e-15));
    all.push(sweep::<f64>(Exp, (-708.3, 709.78), 1e-15));
    for f in [Sin, Cos] {
        all.push(sweep::<f64>(f, (-10.0, 10.0), 5e-16));
        all.push(sweep::<f64>(f, (-1e5, 1e5), 5e-16));
        all.push(sweep::<f64>(f, (1e6, 1.5e6), 5e-16));
        // Half a unit in the last place of the argument, where nothing is fused.
        all.push(sweep::<f64>(f, (5e7, 1e8), 1e8 * 1.2e-16));
    }
    all.push(sweep_at(Ln, ln_points::<f64>(307.0), 1e-15));
    all.push(sweep_at(Pow, pow_points::<f64>(300.0, 700.0), 1e-13));
    all.push(sweep_at(Erf, both_signs::<f64>(300.0, 8.0), 1e-15));
    all.push(sweep_at(Tanh, both_signs::<f64>(300.0, 50.0), 1e-15));
    all.push(sweep_at(Atan2, directions::<f64>(100.0), 1e-15));
    for f in [Asin, Acos] {
        all.push(sweep_at(f, both_signs::<f64>(100.0, 1.0), 1e-15));
    }
    all.push(sweep_at(Floor, both_signs::<f64>(3.0, 9e15), 0.0));
    all.push(sweep_at(Floor, both_signs::<f64>(3.0, 20.0), 0.0));
    for f in [BothSqrt, BothRecip] {
        all.push(sweep_at(f, ln_points::<f64>(307.0), f64::EPSILON));
    }
    all
}

fn bars_f32() -> Vec<Sweep> {
    let mut all = Vec::new();
    for f in [Erfc, BothErfc] {
        all.push(sweep::<f32>(f, (0.0, 6.0), 5e-7));
        all.push(sweep::<f32>(f, (6.0, 9.0), 5e-7));
        all.push(sweep::<f32>(f, (-4.0, 0.0), 5e-7));
    }
    for f in [ExpNegSq, BothExpNegSq] {
        all.push(sweep::<f32>(f, (-9.3, 9.3), 5e-7));
    }
    all.push(sweep::<f32>(Exp, (-87.3, 88.7), 5e-7));
    for f in [Sin, Cos] {
        all.push(sweep::<f32>(f, (-10.0, 10.0), 2e-7));
        all.push(sweep::<f32>(f, (-1e3, 1e3), 2e-7));
        all.push(sweep::<f32>(f, (8e3, 1e4), 2e-7));
        all.push(sweep::<f32>(f, (5e4, 1e5), 1e5 * 6e-8));
    }
    all.push(sweep_at(Ln, ln_points::<f32>(37.0), 5e-7));
    all.push(sweep_at(Pow, pow_points::<f32>(37.0, 80.0), 1e-6));
    all.push(sweep_at(Erf, both_signs::<f32>(37.0, 5.0), 5e-7));
    all.push(sweep_at(Tanh, both_signs::<f32>(37.0, 30.0), 5e-7));
    all.push(sweep_at(Atan2, directions::<f32>(15.0), 5e-7));
    for f in [Asin, Acos] {
        all.push(sweep_at(f, both_signs::<f32>(15.0, 1.0), 5e-7));
    }
    all.push(sweep_at(Floor, both_signs::<f32>(3.0, 1.6e7), 0.0));
    all.push(sweep_at(Floor, both_signs::<f32>(3.0, 20.0), 0.0));
    for f in [BothSqrt, BothRecip] {
        all.push(sweep_at(f, ln_points::<f32>(37.0), f64::from(f32::EPSILON)));
    }
    all
}

#[inline(always)]
fn accuracy<L: Lane>(sweeps: &(Vec<Sweep>, Vec<Sweep>)) {
    let sweeps = if <L::Elem as Elem>::NAME == "f64" { &sweeps.0 } else { &sweeps.1 };
    for sweep in sweeps {
        let (mut worst, mut at) = (0.0, (0.0, 0.0));
        for (chunk, expected) in sweep.points.chunks(L::N).zip(sweep.expected.chunks(L::N)) {
            let mut memory = (vec![L::Elem::default(); chunk.len()], vec![L::Elem::default(); chunk.len()]);
            for (l, &(x, e)) in chunk.iter().enumerate() {
                (memory.0[l], memory.1[l]) = (L::Elem::of_f64(x), L::Elem::of_f64(e));
            }
            // SAFETY: both have as many elements as they say.
            let (x, e) = unsafe {
                (L::load_first(memory.0.as_ptr(), chunk.len()), L::load_first(memory.1.as_ptr(), chunk.len()))
            };
            let value = apply(sweep.function, x, e);
            for (l, expected) in expected.iter().enumerate() {
                let error = ((value.lane(l) - expected.0) - expected.1).abs();
                let error =
                    if sweep.relative && expected.0 != 0.0 { error / expected.0.abs() } else { error };
                if error.is_nan() || error > worst {
                    (worst, at) = (error, chunk[l]);
                }
            }
        }
        let name = core::any::type_name::<L>().rsplit("::").next().unwrap_or_default();
        let range = (sweep.points[0].0, sweep.points[sweep.points.len() - 1].0);
        println!("{name:10} {:12} {range:9.1?} {worst:9.2e} at {at:.5?}", format!("{:?}", sweep.function));
        assert!(worst <= sweep.bar, "{name}: {:?} is {worst:e} off at {at:?}", sweep.function);
    }
}

#[test]
fn functions_keep_their_bars() {
    let sweeps = (bars_f64(), bars_f32());
    on_every_lane!(accuracy(&sweeps));
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// `(function, x, e, expected)`.
const ENDS: [(Function, f64, f64, f64); 106] = [
    (Erf, 0.0, 0.0, 0.0),
    (Erf, INF, 0.0, 1.0),
    (Erf, -INF, 0.0, -1.0),
    (Erf, -1e30, 0.0, -1.0),
    (Erf, NAN, 0.0, NAN),
    (Tanh, 0.0, 0.0, 0.0),
    (Tanh, INF, 0.0, 1.0),
    (Tanh, -INF, 0.0, -1.0),
    (Tanh, 1e30, 0.0, 1.0),
    (Tanh, NAN, 0.0, NAN),
    (Atan2, 0.0, 0.0, 0.0),
    (Atan2, -0.0, -0.0, 0.0),
    (Atan2, 0.0, 2.0, 0.0),
    (Atan2, 1.0, INF, 0.0),
    (Atan2, NAN, 1.0, NAN),
    (Atan2, 1.0, NAN, NAN),
    (Atan2, NAN, 0.0, NAN),
    (Asin, 0.0, 0.0, 0.0),
    (Asin, 1.001, 0.0, NAN),
    (Asin, -INF, 0.0, NAN),
    (Asin, NAN, 0.0, NAN),
    (Acos, 1.0, 0.0, 0.0),
    (Acos, 1.001, 0.0, NAN),
    (Acos, -1.001, 0.0, NAN),
    (Acos, NAN, 0.0, NAN),
    (Floor, -0.5, 0.0, -1.0),
    (Floor, -INF, 0.0, -INF),
    (Floor, NAN, 0.0, NAN),
    (BothSqrt, 0.0, 0.0, 0.0),
    (BothRecip, 0.0, 0.0, INF),
    (BothSqrt, INF, 0.0, INF),
    (BothRecip, INF, 0.0, 0.0),
    (BothSqrt, -1.0, 0.0, NAN),
    (BothRecip, -1.0, 0.0, NAN),
    (BothSqrt, NAN, 0.0, NAN),
    (BothRecip, NAN, 0.0, NAN),
    (Erfc, 0.0, 0.0, 1.0),
    (Erfc, -0.0, 0.0, 1.0),
    (Erfc, INF, 0.0, 0.0),
    (Erfc, -INF, 0.0, 2.0),
    (Erfc, NAN, 0.0, NAN),
    (Erfc, 27.5, 0.0, 0.0),
    (Erfc, 28.5, 0.0, 0.0),
    (Erfc, 1e30, 0.0, 0.0),
    (Erfc, -1e30, 0.0, 2.0),
    (BothErfc, INF, 0.0, 0.0),
    (BothErfc, NAN, 0.0, NAN),
    (BothExpNegSq, NAN, 0.0, NAN),
    (BothExpNegSq, -INF, 0.0, 0.0),
    (ExpNegSq, 0.0, 0.0, 1.0),
    (ExpNegSq, INF, 0.0, 0.0),
    (ExpNegSq, -INF, 0.0, 0.0),
    (ExpNegSq, NAN, 0.0, NAN),
    (ExpNegSq, 1e25, 0.0, 0.0),
    (Exp, 0.0, 0.0, 1.0),
    (Exp, -0.0, 0.0, 1.0),
    (Exp, INF, 0.0, INF),
    (Exp, -INF, 0.0, 0.0),
    (Exp, NAN, 0.0, NAN),
    (Exp, 710.0, 0.0, INF),
    (Exp, 1e30, 0.0, INF),
    (Exp, -746.0, 0.0, 0.0),
    (Exp, -1e30, 0.0, 0.0),
    (Ln, 1.0, 0.0, 0.0),
    (Ln, 0.0, 0.0, -INF),
    (Ln, -0.0, 0.0, -INF),
    (Ln, INF, 0.0, INF),
    (Ln, -1.0, 0.0, NAN),
    (Ln, -INF, 0.0, NAN),
    (Ln, NAN, 0.0, NAN),
    (Sin, 0.0, 0.0, 0.0),
    (Cos, 0.0, 0.0, 1.0),
    (Sin, NAN, 0.0, NAN),
    (Cos, NAN, 0.0, NAN),
    (Sin, INF, 0.0, NAN),
    (Cos, -INF, 0.0, NAN),
    (Sin, 1.1e9, 0.0, NAN),
    (Cos, -1.1e9, 0.0, NAN),
    (Pow, 2.0, 0.0, 1.0),
    (Pow, 0.0, 0.0, 1.0),
    (Pow, INF, 0.0, 1.0),
    (Pow, NAN, 0.0, 1.0),
    (Pow, -3.0, -0.0, 1.0),
    (Pow, 0.0, 2.5, 0.0),
    (Pow, 0.0, -1.0, INF),
    (Pow, 1.0, 7.5, 1.0),
    (Pow, INF, 2.0, INF),
    (Pow, INF, -2.0, 0.0),
    (Pow, 2.0, INF, INF),
    (Pow, 2.0, -INF, 0.0),
    (Pow, 0.5, INF, 0.0),
    (Pow, 10.0, 400.0, INF),
    (Pow, 10.0, -400.0, 0.0),
    (Pow, 10.0, 1e30, INF),
    (Pow, 10.0, -1e30, 0.0),
    (Pow, NAN, 2.0, NAN),
    (Pow, 2.0, NAN, NAN),
    (Pow, -2.0, 2.0, 4.0),
    (Pow, -2.0, 3.0, -8.0),
    (Pow, -2.0, -1.0, -0.5),
    (Pow, -2.0, 0.5, NAN),
    (Pow, -2.0, 2.5, NAN),
    (Pow, 2.0, 10.0, 1024.0),
    (Pow, 4.0, 0.5, 2.0),
    (Pow, 2.0, -1.0, 0.5),
    (Pow, 2.0, 1.0, 2.0),
];

#[inline(always)]
fn ends<L: Lane>() {
    for (function, x, e, expected) in ENDS {
        let value = apply(function, L::splat(x), L::splat(e));
        for l in 0..L::N {
            let value = value.lane(l);
            let same = value == expected || (value.is_nan() && expected.is_nan());
            let near = (value - expected).abs() <= 2e-7 * expected.abs();
            assert!(same || (function == Pow && near), "{function:?}({x}, {e}) = {value}, not {expected}");
        }
    }
    // Half turns and quarters: π to a unit in the last place.
    let turns =
        [(-0.0, -1.0, 4), (0.0, -3.0, 4), (2.0, 0.0, 2), (-2.0, -0.0, -2), (5.0, 5.0, 1), (-5.0, -5.0, -3)];
    let unit = if <L::Elem as Elem>::NAME == "f64" { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let near_turn = |value: L, eighths: i32| {
        let expected = f64::from(eighths) * core::f64::consts::FRAC_PI_4;
        assert!(
            (value.lane(0) - expected).abs() <= unit * expected.abs(),
            "{}: {eighths} π/4",
            value.lane(0)
        );
    };
    for (y, x, eighths) in turns {
        near_turn(L::splat(y).atan2(L::splat(x)), eighths);
    }
    near_turn(L::splat(-1.0).acos(), 4);
    near_turn(L::splat(-1.0).asin(), -2);
    // Denormals come out as such or as zero, and have a logarithm.
    let f64_lanes = <L::Elem as Elem>::NAME == "f64";
    let (x, least) =
        if f64_lanes { (-720.0, f64::MIN_POSITIVE) } else { (-95.0, f64::from(f32::MIN_POSITIVE)) };
    let value = L::splat(x).exp().lane(0);
    assert!(value == 0.0 || (value / x.exp() - 1.0).abs() < 1e-2, "{value}");
    let value = L::splat(least / 1024.0).ln().lane(0);
    assert!((value - (least / 1024.0).ln()).abs() < 1e-4, "{value}");
    // Every sign of zero and NaN payload goes through erfc.
    let payload = L::splat(f64::from_bits(0x7FF8_0000_0000_0123));
    assert!(
        payload.erfc().lane(0).is_nan() && payload.exp().lane(0).is_nan() && payload.ln().lane(0).is_nan()
    );
}

#[test]
fn the_ends_are_right() {
    on_every_lane!(ends());
}

/// The CUDA text computes erfc and exp(−x²) with the same tables.
#[test]
fn the_prelude_has_the_same_coefficients() {
    use crate::lanes::coefficients::*;
    let tables: [&[f64]; 4] = [&ERFCX_TOP_F64, &ERFCX_BOTTOM_F64, &ERFCX_TOP_F32, &ERFCX_BOTTOM_F32];
    for table in tables {
        let mut rest = crate::PRELUDE;
        for c in table.iter().map(|c| format!("{c:?}")) {
            let at = rest.find(&c).unwrap_or_else(|| panic!("{c} is not there, or not in its place"));
            rest = &rest[at + c.len()..];
        }
    }
}
