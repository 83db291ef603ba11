//! Writes the kernels: an eighth of them statement by statement by chance, the others from the patterns of loops, with
//! formulas by chance.

#[path = "../../crates/kernel/tests/derivatives/generator.rs"]
#[allow(dead_code, reason = "worlds want more numbers than kernels")]
mod generator;
mod patterns;

use std::fmt::Write;

/// How many.
const KERNELS: u64 = 200;

fn main() {
    let here = "cargo:rerun-if-changed";
    println!(
        "{here}=build.rs\n{here}=patterns.rs\n{here}=../../crates/kernel/tests/derivatives/generator.rs"
    );
    let (mut text, mut names) = (String::new(), String::new());
    let mut seed = 0;
    for n in 0..KERNELS {
        let source = loop {
            let source = if n % 8 == 0 { generator::kernel(seed) } else { patterns::kernel(seed) };
            seed += 1;
            if fits(&source) {
                break source;
            }
        };
        let source = source.replacen("#[kernel]", "#[kernel(scatter, small)]", 1);
        let source = source.replacen("fn k(", &format!("pub fn kernel_{n}("), 1);
        writeln!(text, "pub mod k{n} {{ madelung_core::kernels! {{ {source} }} }}").expect("a string");
        write!(names, "&k{n}::KERNEL_{n}, ").expect("a string");
    }
    writeln!(
        text,
        "/// All of them.\npub static ALL: [&madelung_core::runtime::Kernel; {KERNELS}] = [{names}];"
    )
    .expect("a string");
    let out = std::env::var_os("OUT_DIR").expect("cargo gives a folder");
    std::fs::write(std::path::Path::new(&out).join("kernels.rs"), text)
        .expect("the folder can be written to");
}

/// Whether every form has room for its arrays; chance goes beyond it now and then.
fn fits(source: &str) -> bool {
    let file = syn::parse_str(source).expect("a block of functions");
    let kernels = madelung_kernel::lower::lower_block(&file).expect("the language has all of this");
    kernels.iter().all(|k| match madelung_kernel::forms::forms(&k.kernel, &k.fast, true) {
        Ok(_) => true,
        Err(e) => {
            assert!(e.contains("a launch has room for"), "{e}: {source}");
            false
        }
    })
}
