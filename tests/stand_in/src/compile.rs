//! The host's C++ compiler: `$CXX`, or `c++`.
#![expect(unsafe_code, reason = "what the compiler made is loaded")]

use libloading::Library;
use std::path::Path;
use std::process::Command;

/// Compiles a source to a library, with options behind the others.
///
/// # Panics
/// If there is no C++ compiler, or it refuses the text.
pub(crate) fn compile(source: &Path, made: &Path, options: &[&str]) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let mut words = compiler.split_whitespace();
    let done = Command::new(words.next().unwrap_or("c++"))
        .args(words)
        .args(["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-Wall", "-Wno-unused"])
        .arg(source)
        .arg("-o")
        .arg(made)
        .args(options)
        .output()
        .unwrap_or_else(|e| panic!("the tests need a C++ compiler, as $CXX or c++; `{compiler}`: {e}"));
    let log = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "`{compiler}` refused {}:\n{log}", source.display());
}

/// A text as a library. No contraction: a fused product and sum would be the host's choice, not the text's, and results
/// would differ between processors.
///
/// # Panics
/// If there is no C++ compiler, or it refuses the text.
pub fn compiled(text: &str) -> Library {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, made) = (folder.path().join("texts.cpp"), folder.path().join("texts.so"));
    std::fs::write(&source, text).expect("a file in the temporary folder");
    // Fused products are one instruction, with the same bits, where the processor has it.
    #[cfg(target_arch = "x86_64")]
    let fused: &[&str] = if is_x86_feature_detected!("fma") { &["-mfma"] } else { &[] };
    #[cfg(not(target_arch = "x86_64"))]
    let fused: &[&str] = &[];
    compile(&source, &made, fused);
    // SAFETY: the library has no initialisers but those of the C++ runtime.
    unsafe { Library::new(&made) }.expect("the library that was just made")
}
