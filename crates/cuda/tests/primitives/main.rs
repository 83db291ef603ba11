//! The primitives of the CUDA backend, on the stand-in for a device, against the CPU's and against plain loops.
#![cfg(target_os = "linux")]

mod device;
mod elementwise;
mod fft;
mod reduce;
mod scan;
mod sort;
mod transpose;

/// Reproducible pseudorandom numbers.
fn mixed(n: usize) -> impl Iterator<Item = u64> {
    (0..n as u64).map(|i| {
        let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}

/// Multiples of 1/8 between −100 and 100: their sums are exact, in any order.
fn eighths(n: usize) -> Vec<f64> {
    mixed(n).map(|x| (x >> 40) as f64 % 1601.0 / 8.0 - 100.0).collect()
}

/// Reproducible reals between −1 and 1.
fn reals(n: usize) -> Vec<f64> {
    mixed(n).map(|x| (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: madelung_core::Result<T>, argument: &str) {
    let text = result.unwrap_err().to_string();
    assert!(text.starts_with(&format!("`{argument}`")), "{text}");
}

/// A second run of some tests, in another process that detects races of threads.
#[test]
fn no_two_threads_race() {
    madelung_stand_in::look_for_races(&[
        "elementwise::rows",
        "reduce::partial_sums",
        "scan::the_true",
        "sort::bounds",
        "transpose::entries",
    ]);
}
