use crate::device::{Buffer, StatusWord, alone, bytes, same_each_time};
use crate::primitives::{eighths, mixed, reals};
use crate::refused;
use madelung_core::array::{Array, DType};
use madelung_core::runtime::Reason;
use madelung_cuda::primitives::{
    Integer, Length, Status, WeightOf, add, cast, check_finite, fill, poison, scale_rows,
};

const REALS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

fn array(dtype: DType, x: &[f64]) -> Array {
    Array::from_f64(DType::F64, &[x.len()], x).unwrap().cast(dtype).unwrap()
}

/// Numbers at which rounding is decided: neighbours of midpoints, the ends of each type's range, and NaN.
fn awkward() -> Vec<f64> {
    let mut all = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE];
    for bits in (0..0x7c00u16).step_by(37).chain([0x3ff, 0x400, 0x7bff]) {
        let [low, high] = [bits, bits + 1].map(|b| half::f16::from_bits(b).to_f64());
        let high = if high.is_finite() { high } else { 65536.0 };
        let middle = 0.5 * (low + high);
        all.extend([low, middle, middle.next_down(), -middle.next_up()]);
        // Numbers that are no f32.
        all.extend([middle * (1.0 + 1e-12), middle * (1.0 - 1e-12)]);
    }
    for bits in (0..0x7f80u16).step_by(173).chain([0x7f7f]) {
        let [low, high] = [bits, bits + 1].map(|b| half::bf16::from_bits(b).to_f64());
        if high.is_finite() {
            let middle = 0.5 * (low + high);
            all.extend([-low, middle, -middle.next_down(), middle.next_up()]);
        }
    }
    all.extend([f64::from(f32::MAX), 3.402_823_567_797_336_6e38, 1e39, 1e-45, 7e-46, 1e-60, -1e300]);
    all
}

#[test]
fn casts_round_once() {
    for from in REALS {
        for to in REALS {
            let values = array(from, &awkward());
            let (n, expected) = (awkward().len(), bytes(&values.cast(to).unwrap()));
            let got = same_each_time(
                || (Buffer::of(&bytes(&values)), Buffer::of(&vec![0u8; expected.len()])),
                |queue, (a, b)| {
                    let (a, b) = ((from, a.address()), (to, b.address()));
                    cast(queue, a, b, Length::new(n), Status::IGNORED)
                },
                |(_, b)| b.read(),
            );
            assert_eq!(got, expected, "{from} to {to}");
        }
    }
}

#[test]
fn integers_that_do_not_fit_are_raised() {
    let largest = i64::from(i32::MAX);
    for (values, expected, bits) in [
        (vec![5, -7, largest, -largest - 1], vec![5, -7, i32::MAX, i32::MIN], 0),
        (vec![3, largest + 1], vec![3, i32::MAX], Reason::Overflow.bit()),
        (vec![-largest - 2, 3], vec![i32::MIN, 3], Reason::Overflow.bit()),
    ] {
        let n = Length::new(values.len());
        let got = same_each_time(
            || (Buffer::of(&values), Buffer::of(&vec![0; values.len()]), StatusWord::new()),
            |queue, (a, b, status)| {
                let (a, b) = ((DType::I64, a.address()), (DType::I32, b.address()));
                cast(queue, a, b, n, status.status())
            },
            |(_, b, status)| (b.read(), status.bits()),
        );
        assert_eq!(got, (expected.clone(), bits));
        let wide = same_each_time(
            || (Buffer::of(&expected), Buffer::of(&vec![0; values.len()])),
            |queue, (a, b)| {
                let (a, b) = ((DType::I32, a.address()), (DType::I64, b.address()));
                cast(queue, a, b, n, Status::IGNORED)
            },
            |(_, b)| b.read(),
        );
        assert_eq!(wide, expected.iter().map(|x| i64::from(*x)).collect::<Vec<_>>());
    }
}

#[test]
fn fills_have_one_value_everywhere() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32, DType::I64] {
        for n in [0, 1, 255, 1025] {
            for (count, filled) in [(n + 1, n), (n / 2, n / 2)] {
                let old = bytes(&array(dtype, &vec![7.0; n]));
                let got = same_each_time(
                    || (Buffer::of(&old), Buffer::of(&[count as i64])),
                    |queue, (to, count)| {
                        let n = Length::on_device(n, (Integer::I64, count.address()))?;
                        fill(queue, dtype, to.address(), n, -2.5)
                    },
                    |(to, _)| to.read(),
                );
                let expected: Vec<f64> = (0..n).map(|i| if i < filled { -2.5 } else { 7.0 }).collect();
                assert_eq!(got, bytes(&array(dtype, &expected)), "{dtype}");
            }
        }
    }
}

#[test]
fn sums_of_two_arrays_are_rounded_once() {
    for dtype in REALS {
        let a = array(dtype, &eighths(1500));
        let b = array(dtype, &reals(1500));
        let pairs = a.view().to_f64().unwrap().into_iter().zip(b.view().to_f64().unwrap());
        let expected = array(dtype, &pairs.map(|(a, b)| a + b).collect::<Vec<_>>());
        let got = same_each_time(
            || [&a, &b].map(|x| Buffer::of(&bytes(x))),
            |queue, [a, b]| add(queue, dtype, a.address(), b.address(), Length::new(1500)),
            |[a, _]| a.read(),
        );
        assert_eq!(got, bytes(&expected), "{dtype}");
    }
}

#[test]
fn rows_are_multiplied_by_their_weights() {
    for (dtype, width) in [(DType::F32, 3), (DType::F64, 1), (DType::F64, 9)] {
        let rows = 400;
        let unit = array(dtype, &reals(rows * width));
        let of: Vec<i32> = mixed(rows).map(|x| (x >> 20) as i32 & 7).collect();
        for weight_type in [DType::F32, DType::F64] {
            for which in 0..3 {
                let weights = array(weight_type, &reals(rows));
                let (x, w) = (unit.view().to_f64().unwrap(), weights.view().to_f64().unwrap());
                let factor = -0.5;
                let weight = |row: usize| factor * [1.0, w[row], w[of[row] as usize]][which];
                let product = |(n, x): (usize, &f64)| x * weight(n / width);
                let expected = array(dtype, &x.iter().enumerate().map(product).collect::<Vec<_>>());
                let got = same_each_time(
                    || ([&unit, &unit, &weights].map(|x| Buffer::of(&bytes(x))), Buffer::of(&of)),
                    |queue, ([unit, to, values], of)| {
                        let values = (weight_type, values.address());
                        let of = WeightOf::System(values, of.address(), rows);
                        let weights = [WeightOf::None, WeightOf::Row(values), of][which];
                        let at = [unit.address(), to.address()];
                        scale_rows(queue, dtype, at, Length::new(rows), width, (weights, factor))
                    },
                    |([_, to, _], _)| to.read(),
                );
                assert_eq!(got, bytes(&expected), "{dtype} {width} {which}");
            }
        }
    }
}

/// Weights are not read beyond their number.
#[test]
fn rows_of_systems_that_are_not_there_have_no_weight() {
    let unit = array(DType::F64, &[1.0; 5]);
    let weights = array(DType::F64, &[2.0, 3.0]);
    let of = [0, -1, 1, i32::MAX, 2];
    let got = same_each_time(
        || ([&unit, &unit, &weights].map(|x| Buffer::of(&bytes(x))), Buffer::of(&of)),
        |queue, ([unit, to, values], of)| {
            let weights = WeightOf::System((DType::F64, values.address()), of.address(), 2);
            scale_rows(queue, DType::F64, [unit.address(), to.address()], Length::new(5), 1, (weights, 1.0))
        },
        |([_, to, _], _)| to.read(),
    );
    let nan = f64::NAN;
    assert_eq!(got, bytes(&array(DType::F64, &[2.0, nan, 3.0, nan, nan])));
}

#[test]
fn poison_follows_the_status_word() {
    for dtype in REALS {
        let before = array(dtype, &eighths(1100));
        for raised in [0, Reason::Capacity.bit()] {
            let got = same_each_time(
                || (Buffer::of(&bytes(&before)), Buffer::of(&[raised])),
                |queue, (to, word)| poison(queue, dtype, to.address(), Length::new(1100), word.address()),
                |(to, _)| to.read(),
            );
            let nan = array(dtype, &vec![f64::NAN; 1100]);
            assert_eq!(got, bytes(if raised == 0 { &before } else { &nan }), "{dtype}");
        }
    }
}

#[test]
fn what_is_not_finite_is_raised() {
    for dtype in REALS {
        for (at, value) in [(0, f64::NAN), (1099, f64::INFINITY), (500, f64::NEG_INFINITY), (500, 1.0)] {
            let mut values = eighths(1100);
            values[at] = value;
            let values = array(dtype, &values);
            let bits = same_each_time(
                || (Buffer::of(&bytes(&values)), StatusWord::new()),
                |queue, (x, status)| {
                    check_finite(queue, dtype, x.address(), Length::new(1100), status.status())
                },
                |(_, status)| status.bits(),
            );
            assert_eq!(bits, if value == 1.0 { 0 } else { Reason::NotFinite.bit() }, "{dtype}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    alone(|queue| {
        let n = Length::new(1);
        let to = |a, b| cast(queue, (a, 0), (b, 0), n, Status::IGNORED);
        refused(to(DType::F32, DType::I32), "to");
        refused(to(DType::I32, DType::F64), "to");
        refused(add(queue, DType::I32, 0, 0, n), "dtype");
        refused(poison(queue, DType::I64, 0, n, 0), "dtype");
        refused(check_finite(queue, DType::I32, 0, n, Status::IGNORED), "dtype");
        let weights = WeightOf::Row((DType::F16, 0));
        refused(scale_rows(queue, DType::F32, [0, 0], n, 1, (weights, 1.0)), "weights");
    });
}
