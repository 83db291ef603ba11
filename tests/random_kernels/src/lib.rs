//! Kernels by chance; `build.rs` writes them.
#![allow(missing_docs, unused_variables, reason = "written by chance")]

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
