//! Finite differences, root mean squares and the comparison that most tests want.

/// Derivative of `f` at `x` from two points, step `h`. Error of order h².
pub fn central_difference(mut f: impl FnMut(f64) -> f64, x: f64, h: f64) -> f64 {
    (f(x + h) - f(x - h)) / (2.0 * h)
}

/// Derivative of `f` at `x` from four points, step `h`. Error of order h⁴.
pub fn fourth_order_difference(mut f: impl FnMut(f64) -> f64, x: f64, h: f64) -> f64 {
    let near = central_difference(&mut f, x, h);
    let far = central_difference(&mut f, x, 2.0 * h);
    (4.0 * near - far) / 3.0
}

/// Derivative of `f` at `x` by Richardson extrapolation of central differences with steps h, h/2 and h/4, and
/// an estimate of its error. Error of order h⁶; the estimate is the difference to the best value of order h⁴,
/// or the rounding of the function values where that is larger.
pub fn richardson(mut f: impl FnMut(f64) -> f64, x: f64, h: f64) -> (f64, f64) {
    let mut largest = 0.0_f64;
    let mut difference = |h: f64| {
        central_difference(
            |x| {
                let value = f(x);
                largest = largest.max(value.abs());
                value
            },
            x,
            h,
        )
    };
    let [coarse, middle, fine] = [h, 0.5 * h, 0.25 * h].map(&mut difference);
    let (fourth_coarse, fourth_fine) = ((4.0 * middle - coarse) / 3.0, (4.0 * fine - middle) / 3.0);
    let value = (16.0 * fourth_fine - fourth_coarse) / 15.0;
    let rounding = 8.0 * f64::EPSILON * largest / (0.25 * h);
    (value, (value - fourth_fine).abs().max(rounding))
}

/// Gradient (n,) of `f` at `x` (n,), one component at a time, by the four-point formula with step `h`.
pub fn finite_difference(mut f: impl FnMut(&[f64]) -> f64, x: &[f64], h: f64) -> Vec<f64> {
    along_each(x, |point, i| {
        let at = point[i];
        fourth_order_difference(|value| at_component(&mut f, point, i, value), at, h)
    })
}

/// Gradient (n,) of `f` at `x` (n,) by [`richardson`] with first step `h`, and the largest error estimate.
pub fn finite_difference_with_error(mut f: impl FnMut(&[f64]) -> f64, x: &[f64], h: f64) -> (Vec<f64>, f64) {
    let mut largest = 0.0_f64;
    let gradient = along_each(x, |point, i| {
        let at = point[i];
        let (value, error) = richardson(|value| at_component(&mut f, point, i, value), at, h);
        largest = largest.max(error);
        value
    });
    (gradient, largest)
}

fn along_each(x: &[f64], mut derivative: impl FnMut(&mut [f64], usize) -> f64) -> Vec<f64> {
    let mut point = x.to_vec();
    (0..x.len()).map(|i| derivative(&mut point, i)).collect()
}

fn at_component(f: &mut impl FnMut(&[f64]) -> f64, point: &mut [f64], i: usize, value: f64) -> f64 {
    let before = std::mem::replace(&mut point[i], value);
    let result = f(point);
    point[i] = before;
    result
}

/// Root mean square of all components; zero of none. Arrays of vectors: `rms(forces.as_flattened())`.
pub fn rms(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    // Scaled, so that tiny differences do not underflow when squared.
    let scale = values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    if scale == 0.0 || !scale.is_finite() {
        return values.iter().map(|v| v.abs()).sum();
    }
    scale * (values.iter().map(|v| (v / scale).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// Root mean square of a − b.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn rms_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "lengths differ");
    rms(&a.iter().zip(b).map(|(x, y)| x - y).collect::<Vec<_>>())
}

/// RMS over rows (N, 3) of the length |a − b|: the force error that `accuracy` is a target for. It is √3 times
/// the RMS over components.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn rms_vector_difference(a: &[[f64; 3]], b: &[[f64; 3]]) -> f64 {
    3.0_f64.sqrt() * rms_difference(a.as_flattened(), b.as_flattened())
}

/// Asserts rms(a − b) ≤ tolerance · scale. The error is relative to the scale, often `rms(b)`.
#[track_caller]
pub fn assert_close_rms(a: &[f64], b: &[f64], tolerance: f64, scale: f64) {
    let error = rms_difference(a, b);
    let worst = || {
        let worst = (0..a.len()).max_by(|&i, &j| (a[i] - b[i]).abs().total_cmp(&(a[j] - b[j]).abs()));
        worst.map_or(String::new(), |i| format!("; worst at {i}: {:e} and {:e}", a[i], b[i]))
    };
    assert!(
        error <= tolerance * scale,
        "RMS difference {error:e} exceeds {tolerance:e} × {scale:e}{}",
        worst()
    );
}
