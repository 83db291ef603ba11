//! Compiles the node of torch's graph against the libtorch that tch has found.

use std::path::PathBuf;

/// The version of libtorch for which this version of tch is written.
const TORCH: &str = "2.13";

/// Headers with its version, of newer and of older releases.
const VERSIONS: [&str; 2] = ["torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"];

fn main() {
    println!("cargo::rerun-if-changed=src/node.cpp");
    println!("cargo::rerun-if-env-changed=LIBTORCH_INCLUDE");
    let lib =
        PathBuf::from(std::env::var_os("DEP_TCH_LIBTORCH_LIB").expect("torch-sys says where libtorch is"));
    let beside = lib.join("../include");
    let elsewhere = std::env::var_os("LIBTORCH_INCLUDE").map(|folder| PathBuf::from(folder).join("include"));
    let include = elsewhere.filter(|_| !beside.exists()).unwrap_or(beside);
    // Beyond C++, whose interface changes from one version to the next, tensors pass as pointers.
    let headers = VERSIONS.map(|name| include.join(name));
    let there = headers.iter().filter(|header| header.exists());
    there.for_each(|header| println!("cargo::rerun-if-changed={}", header.display()));
    let found = version(&headers);
    if found != TORCH {
        println!("cargo::error=tch 0.26 needs torch {TORCH}, found {found} (in {})", include.display());
        return;
    }
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        // Those of torch's headers.
        .warnings(false)
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        .file("src/node.cpp")
        .compile("madelung_tch_node");
    println!("cargo::rustc-link-search=native={}", lib.display());
    println!("cargo::rustc-link-lib=torch_cpu");
    println!("cargo::rustc-link-lib=c10");
}

/// The version that headers are of, as "2.13".
fn version(headers: &[PathBuf]) -> String {
    let text: String = headers.iter().filter_map(|header| std::fs::read_to_string(header).ok()).collect();
    let part = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(&format!("#define TORCH_VERSION_{name} ")))
    };
    match (part("MAJOR"), part("MINOR")) {
        (Some(major), Some(minor)) => format!("{}.{}", major.trim(), minor.trim()),
        _ => "none".into(),
    }
}
