//! Kernels by chance; `build.rs` writes them.
#![allow(missing_docs, reason = "written by chance")]

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
