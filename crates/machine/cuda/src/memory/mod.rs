//! Memory of a device: allocators, scratch of a call, transfers.

mod allocator;
mod arena;
mod scratch;
mod transfer;

pub use allocator::{Block, Memory};
pub use arena::Arena;
pub use scratch::{Rooms, address};
