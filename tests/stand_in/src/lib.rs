//! Stand-ins for what CUDA programs find on a machine with a GPU, compiled by the host's C++ compiler.

mod compile;

pub use compile::compiled;

/// What goes before CUDA text for a host's compiler: blocks, threads, barriers, shuffles, atomics and functions.
///
/// A launch is `stand_in::launch(grid, threads, order, body)`, which answers what went wrong, or null.
pub const HOST: &str = include_str!("../host.cuh");

/// The order in which the blocks of a launch run, and the threads of a block between two barriers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// From the first to the last.
    #[default]
    Forwards,
    /// From the last to the first.
    Backwards,
    /// By chance, from this seed.
    Shuffled(u64),
}

impl Order {
    /// As the C++ text has it: `Order::Kind`, and the seed.
    pub fn as_cxx(self) -> (i32, u64) {
        match self {
            Self::Forwards => (0, 0),
            Self::Backwards => (1, 0),
            Self::Shuffled(seed) => (2, seed),
        }
    }
}
