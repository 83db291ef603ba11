//! The CPU backend of Madelung: launches, cluster loops over full pair lists, Fourier transforms, sums, scans and
//! sorts.
//!
//! Results are bitwise equal for any number of threads, and for a system alone and in a batch.

mod backend;
pub mod boxes;
mod cluster_list;
mod cluster_loop;
mod fft;
mod launch;
pub mod points;
mod reduce;
mod scan;
mod sort;

pub use scan::{Count, scan};
pub use sort::{Key, segment_bounds, sort_by_key};

use madelung_core::backend::Context;
use madelung_core::runtime::Isa;

/// The processor this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    isa: Option<Isa>,
}

impl Cpu {
    /// The processor with the instructions it has.
    pub const fn new() -> Self {
        Self { isa: None }
    }

    /// A CPU limited to the instructions of `isa`, of those that it has.
    pub const fn at_most(isa: Isa) -> Self {
        Self { isa: Some(isa) }
    }

    /// The instructions that kernels run on.
    pub fn isa(&self) -> Isa {
        self.isa.map_or(Isa::detect(), |isa| isa.min(Isa::detect()))
    }
}

/// Context of the CPU: the shared thread pool, the process's memory; launches and errors at once.
pub fn context() -> Context<'static> {
    Context::new(&const { Cpu::new() })
}
