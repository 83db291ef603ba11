//! The C interface: systems, lists, sums, pair potentials, and every op of the library by its name.
//!
//! Structs that callers fill begin with their size, so that fields can be added behind the others. A call gives a status;
//! the reason of the last one that failed is that of its thread. No panic leaves a call.

#![allow(non_camel_case_types, reason = "names of C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "what pointers must be is said in the header, which has no headings"
)]

pub mod call;
pub mod context;
pub mod domain;
pub mod list;
mod memory;
pub mod potential;
pub mod status;
pub mod sums;
pub mod types;
