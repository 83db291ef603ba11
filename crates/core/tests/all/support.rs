//! Numbers, arrays and errors for several of these tests.

use madelung_core::array::{Array, DType};
use madelung_core::{Error, Result};

/// Numbers in (−1, 1), in no order.
pub(crate) fn numbers(seed: usize, n: usize) -> Vec<f64> {
    (0..n).map(|k| (12.9898 * (k + 1) as f64 + 78.233 * (seed + 1) as f64).sin()).collect()
}

/// Numbers in (−1, 1) that go up and down.
pub(crate) fn wiggles(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (phase + 1.7 * i as f64 + 0.3 * (i * i) as f64).sin()).collect()
}

pub(crate) fn array(shape: &[usize], data: &[f64]) -> Array {
    Array::from_f64(DType::F64, shape, data).expect("shapes fit")
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The error names the argument.
#[track_caller]
pub(crate) fn names<T: std::fmt::Debug>(result: Result<T>, argument: &str) {
    match result {
        Err(Error::Argument { argument: named, expected, got }) => {
            assert!(named.contains(argument), "`{named}`, not `{argument}`: expected {expected}, got {got}");
            assert!(!expected.is_empty() && !got.is_empty());
        }
        other => panic!("expected an error about `{argument}`, got {other:?}"),
    }
}

/// The error begins with the argument, and says this of it.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T>, argument: &str, what: &str) {
    let text = result.unwrap_err().to_string();
    assert!(text.starts_with(&format!("`{argument}`")) && text.contains(what), "{text}");
}
