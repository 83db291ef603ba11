//! Memory for plain numbers: blocks of large buffers that were dropped are kept for later ones.

mod buffer;
pub mod kept;

pub use buffer::{Buffer, Numbers, Plain};
