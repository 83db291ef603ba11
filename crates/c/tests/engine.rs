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

/// The folder of programs, and the library that they are linked to.
fn library() -> (PathBuf, PathBuf) {
    let deps = std::env::current_exe().expect("a path");
    let deps = deps.parent().expect("a folder");
    let library = deps.join("libmadelung_c.a");
    (deps.to_path_buf(), library)
}

/// Statically linked, with all warnings as errors.
#[test]
fn programs_in_c_and_in_cpp() {
    let (deps, library) = library();
    let languages = [("cc", "c", "c99"), ("c++", "c++", "c++17")];
    let all = languages.iter().flat_map(|language| ["engine", "processes"].map(|name| (language, name)));
    for ((compiler, language, standard), name) in all {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.c"));
        let program = deps.join(format!("madelung-{name}-{standard}"));
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
        assert!(output.status.success() && said.ends_with("all as expected\n"), "{name} {standard}: {said}");
    }
}

/// A program in Fortran, on machines with a compiler for it: few have one, and nothing else of the project needs it.
#[test]
fn a_program_in_fortran() {
    let Ok(found) = Command::new("gfortran").arg("--version").output() else {
        return println!("not run: there is no gfortran");
    };
    assert!(found.status.success());
    let ((deps, library), folder) = (library(), Path::new(env!("CARGO_MANIFEST_DIR")));
    let program = deps.join("madelung-rock-salt-fortran");
    let output = Command::new("gfortran")
        .args(["-std=f2018", "-Wall", "-Wextra", "-Werror", "-O1", "-J"])
        .arg(&deps)
        .args([folder.join("fortran/madelung.f90"), folder.join("../../examples/c/rock_salt.f90"), library])
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("a Fortran compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).output().expect("a program");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("Madelung's constant 1.747565"), "{said}");
}
