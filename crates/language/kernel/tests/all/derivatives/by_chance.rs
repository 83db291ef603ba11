//! Kernels by chance: every form of each against finite differences and against the other forms.

use super::harness::{Check, compared, report};
use crate::by_chance::kernels;
use crate::by_chance::rules::{cover, rules};
use crate::by_chance::sources::{COMPILED, text};
use std::collections::BTreeSet;

#[test]
fn kernels_by_chance() {
    let mut count = 0;
    for kernel in kernels() {
        let seed = kernel.seed;
        let derivatives = ["tangent", "second tangent", "gradient", "Hessian-vector product"];
        let before = derivatives.map(compared);
        let run = std::panic::catch_unwind(|| Check::by_chance(kernel).run());
        let text = || text(seed).replace("; ", ";\n").replace("} ", "}\n").replace("{ ", "{\n");
        assert!(run.is_ok(), "kernel {seed}:\n{}", text());
        for (what, before) in derivatives.iter().zip(before) {
            assert!(compared(what) > before, "kernel {seed}: no {what} but zeros:\n{}", text());
        }
        count += 1;
    }
    assert_eq!(count, 252);
    report("kernels_by_chance");
}

#[test]
fn the_compiled_kernels_take_every_rule() {
    let all: Vec<_> = kernels().map(|kernel| rules(&kernel)).collect();
    let taken = |which: &dyn Fn(u64) -> bool| -> BTreeSet<&String> {
        all.iter().filter(|k| which(k.seed)).flat_map(|k| &k.taken).collect()
    };
    let (every, compiled) = (taken(&|_| true), taken(&|seed| COMPILED.contains(&seed)));
    println!("{} kernels take the {} rules of {}", COMPILED.len(), every.len(), all.len());
    let missing: Vec<_> = every.difference(&compiled).collect();
    assert!(missing.is_empty(), "no compiled kernel takes {missing:?}: compile {:?}", cover(&all));
}
