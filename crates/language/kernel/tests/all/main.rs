//! The tests of the kernel language, as one binary.

mod by_chance;
mod clusters;
mod derivatives;
mod no_adjoint;
mod refusal;
mod rejections;
