//! The header against what cbindgen writes, and a program that uses it, in C99 and in C++17.

use std::path::{Path, PathBuf};
use std::process::Command;

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/madelung.h")
}

/// `MADELUNG_WRITE_HEADER=1` writes it.
#[test]
fn the_header_is_what_cbindgen_writes() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let config = cbindgen::Config::from_file(format!("{folder}/cbindgen.toml")).expect("a configuration");
    let mut text = vec![];
    cbindgen::Builder::new()
        .with_crate(folder)
        .with_config(config)
        .generate()
        .expect("declarations that C has")
        .write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    if std::env::var_os("MADELUNG_WRITE_HEADER").is_some() {
        std::fs::write(header(), &text).expect("a file");
    }
    let there = std::fs::read_to_string(header()).unwrap_or_default();
    assert!(there == text, "crates/c/include/madelung.h is not what cbindgen writes: `make header` does");
}

/// Statically linked, with all warnings as errors.
#[test]
fn a_program_in_c_and_in_cpp() {
    let deps = std::env::current_exe().expect("a path");
    let deps = deps.parent().expect("a folder");
    let library = deps.join("libmadelung.a");
    let library =
        if library.exists() { library } else { deps.parent().expect("a folder").join("libmadelung.a") };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine.c");
    for (compiler, language, standard) in [("cc", "c", "c99"), ("c++", "c++", "c++17")] {
        let program = deps.join(format!("madelung-engine-{standard}"));
        let output = Command::new(compiler)
            .args([&format!("-std={standard}"), "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"])
            .arg("-I")
            .arg(header().parent().expect("a folder"))
            .args(["-x", language])
            .arg(&source)
            .args(["-x", "none"])
            .arg(&library)
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program)
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        let output = Command::new(&program).output().expect("a program");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.ends_with("all as expected\n"), "{standard}: {said}");
    }
}
