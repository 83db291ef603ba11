//! Arithmetic, comparisons and masks: the same bits as the scalar operations.

use super::on_every_lane;
use crate::lanes::{Elem, Lane};

fn value<E: Elem>(i: usize) -> f64 {
    let special = [0.0, -0.0, 1.0, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3.0, 3.0, 1e-3];
    let x = if i.is_multiple_of(3) {
        special[i / 3 % special.len()]
    } else {
        ((i * 7919 % 1000) as f64 - 500.0) / 37.0
    };
    E::of_f64(x).to_f64()
}

fn lanes<L: Lane>(start: usize) -> (L, Vec<f64>) {
    let values: Vec<f64> = (0..L::N).map(|l| value::<L::Elem>(start + l)).collect();
    let memory: Vec<L::Elem> = values.iter().map(|&x| L::Elem::of_f64(x)).collect();
    // SAFETY: there are N elements.
    (unsafe { L::load(memory.as_ptr()) }, values)
}

#[inline(always)]
fn arithmetic<L: Lane>() {
    let round = |x: f64| L::Elem::of_f64(x).to_f64();
    let truth = |m: L::Mask| {
        let v = L::select(m, L::splat(1.0), L::splat(0.0));
        (0..L::N).map(|l| v.lane(l) == 1.0).collect::<Vec<_>>()
    };
    for start in 0..64 {
        let ((a, va), (b, vb), (c, vc)) =
            (lanes::<L>(start), lanes::<L>(start * 5 + 7), lanes::<L>(start + 31));
        let same = |what: &str, got: L, expected: &dyn Fn(usize) -> f64| {
            for l in 0..L::N {
                let (got, expected) = (got.lane(l), expected(l));
                let equal = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
                assert!(equal, "{what}: {got} is not {expected}");
            }
        };
        // Sums, products, quotients and roots of f32, rounded from f64, are correctly rounded too.
        same("+", a + b, &|l| round(va[l] + vb[l]));
        same("-", a - b, &|l| round(va[l] - vb[l]));
        same("*", a * b, &|l| round(va[l] * vb[l]));
        same("/", a / b, &|l| round(va[l] / vb[l]));
        same("neg", -a, &|l| -va[l]);
        same("abs", a.abs(), &|l| va[l].abs());
        same("sqrt", a.sqrt(), &|l| round(va[l].sqrt()));
        same("recip", a.recip(), &|l| round(1.0 / va[l]));
        for l in 0..L::N {
            let (got, expected) = (a.mul_add(b, c).lane(l), va[l] * vb[l] + vc[l]);
            let size = (va[l] * vb[l]).abs() + vc[l].abs();
            assert!((got - expected).abs() <= 2e-7 * size || got == expected || expected.is_nan());
        }
        let masks = [a.lt(b), a.le(b), a.eq(b), a.eq(a), L::not(a.lt(b)), L::and(a.lt(b), b.lt(c))];
        let expected: [&dyn Fn(usize) -> bool; 6] = [
            &|l| va[l] < vb[l],
            &|l| va[l] <= vb[l],
            &|l| va[l] == vb[l],
            &|l| !va[l].is_nan(),
            &|l| va[l].is_nan() || vb[l].is_nan() || va[l] >= vb[l],
            &|l| va[l] < vb[l] && vb[l] < vc[l],
        ];
        for (mask, expected) in masks.into_iter().zip(expected) {
            let expected: Vec<bool> = (0..L::N).map(expected).collect();
            assert_eq!(truth(mask), expected);
            assert_eq!(L::any(mask), expected.contains(&true));
            assert_eq!(truth(L::or(mask, L::mask(false))), expected);
            same("select", L::select(mask, a, b), &|l| if expected[l] { va[l] } else { vb[l] });
        }
    }
    for n in 0..=L::N {
        assert_eq!(truth(L::first(n)), (0..L::N).map(|l| l < n).collect::<Vec<_>>());
    }
    assert!(!L::any(L::mask(false)) && L::any(L::mask(true)));
    // Carried in f64: a sum that f32 would round.
    let values: Vec<L::Elem> = (0..L::N).map(|l| L::Elem::of_f64(16777216.0 + 2.0 * l as f64)).collect();
    // SAFETY: there are N elements.
    let sum = unsafe { L::load(values.as_ptr()) }.sum();
    assert_eq!(sum, values.iter().map(|x| x.to_f64()).sum::<f64>());
    assert!(L::FLUSH >= 1);
}

#[test]
fn arithmetic_is_that_of_the_element_type() {
    on_every_lane!(arithmetic());
}

/// Processors without FMA would compute a fused operation in software: portable lanes round the product and the sum.
#[test]
fn portable_lanes_do_not_fuse() {
    fn unfused<L: Lane>() {
        // A third has no end in binary: its square is rounded.
        let x = L::splat(1.0 / 3.0);
        let minus = -(x * x);
        assert_eq!(x.mul_add(x, minus).lane(0), 0.0, "{} lanes: the rounding error of the product", L::N);
    }
    unfused::<crate::lanes::Portable64>();
    unfused::<crate::lanes::Portable32>();
    unfused::<f64>();
    unfused::<f32>();
}
