//! Memory for plain numbers: blocks of large buffers that were dropped are kept for later ones, and rows of a slice are
//! written by several threads.

mod buffer;
mod disjoint_rows;
mod exhausted;
pub mod kept;

pub use buffer::{Buffer, Numbers, Plain};
pub use disjoint_rows::Rows;
pub use exhausted::{Exhausted, collected, filled, is_left, push, reserve};
