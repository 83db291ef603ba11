//! Kernels by chance.

use crate::generator::kernel;
use crate::harness::{Check, report};

#[test]
fn kernels_by_chance() {
    let count = std::env::var("KERNELS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let first = std::env::var("FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut checked = 0;
    for seed in first..first + count {
        let text = kernel(seed);
        let run = std::panic::catch_unwind(|| Check::by_chance(&text).map(|check| check.run()));
        match run {
            Ok(done) => checked += u64::from(done.is_some()),
            Err(_) => panic!(
                "kernel {seed}:\n{}",
                text.replace("; ", ";\n").replace("} ", "}\n").replace("{ ", "{\n")
            ),
        }
    }
    println!("{checked} of {count} kernels checked");
    assert!(checked > count / 2);
    report("kernels_by_chance");
}
