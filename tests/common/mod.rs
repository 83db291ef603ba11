//! Independent references: a slow Ewald sum, systems to run it on, stored reference values and finite differences,
//! without code of the library.
//!
//! Include it with `mod common;` from `tests/*.rs`, and from a crate of the workspace with `#[path =
//! "../../../tests/common/mod.rs"] mod common;`.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of this module")]

pub mod numeric;
pub mod oracle;
pub mod references;
pub mod systems;
