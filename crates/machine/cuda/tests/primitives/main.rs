//! The primitives of the CUDA backend, on the stand-in for a device, against plain loops: the suite of all backends, and
//! calls that no other backend has.
#![cfg(target_os = "linux")]

mod device;
mod elementwise;
mod fft;
#[path = "../../../../../tests/common/primitives.rs"]
mod primitives;
mod reduce;
mod scan;
mod sort;
mod suite;
mod transpose;

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
        "suite::sorted_keys",
        "transpose::entries",
    ]);
}
