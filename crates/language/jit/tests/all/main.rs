//! Kernels that are made at run time: what is refused, and what is kept.

mod made;
mod refusal;
#[path = "../../../kernel/tests/all/rejections/mod.rs"]
mod rejections;
