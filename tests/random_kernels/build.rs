//! Writes the kernels that are compiled.

#[path = "../../crates/language/kernel/tests/all/by_chance/sources/mod.rs"]
#[allow(dead_code, reason = "worlds want more numbers than kernels")]
mod sources;

use sources::COMPILED;
use std::fmt::Write;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../crates/language/kernel/tests/all/by_chance/sources");
    let (mut text, mut names) = (String::new(), String::new());
    for seed in COMPILED {
        let source = sources::text(seed).replacen("#[kernel]", "#[kernel(scatter, small)]", 1);
        let source = source.replacen("fn k(", &format!("pub fn kernel_{seed}("), 1);
        writeln!(text, "mod k{seed} {{ madelung_core::kernels! {{ {source} }} }}").expect("a string");
        write!(names, "({seed}, &k{seed}::KERNEL_{seed}), ").expect("a string");
    }
    let count = COMPILED.len();
    writeln!(
        text,
        "/// All of them, by seed.\npub static ALL: [(u64, &madelung_core::runtime::Kernel); {count}] = [{names}];"
    )
    .expect("a string");
    let out = std::env::var_os("OUT_DIR").expect("cargo gives a folder");
    std::fs::write(std::path::Path::new(&out).join("kernels.rs"), text)
        .expect("the folder can be written to");
}
