//! Stand-ins for CUDA's libraries and devices, compiled by the host's C++ compiler.
//!
//! [`HOST`] makes CUDA text run on the host. The three libraries make programs run that load the driver, NVRTC and
//! cuFFT: [`install`] loads them into this process, ahead of any real ones; other processes find them in [`folder`] by
//! `LD_LIBRARY_PATH`. The environment of a process configures its GPUs: `STAND_IN_DEVICES` (2), `STAND_IN_CAPABILITY`
//! (90), `STAND_IN_MEMORY` (bytes of each, 2^30), `STAND_IN_NVRTC_HIGHEST` (the newest architecture that NVRTC knows).
//! With `STAND_IN_RACES`, launches whose threads race fail (`races.cuh`). With `MADELUNG_TEST_DEVICE=cuda` there are no
//! stand-ins: the tests run on a GPU.

mod compile;
mod launches;
mod libraries;

pub use compile::compiled;
pub use libraries::{calls, folder, install, is_real, look_for_races, message, set_memory, set_order};
#[doc(hidden)]
pub use {madelung_core as core, madelung_cpu as cpu};

/// The text ahead of CUDA text for a host's compiler: blocks, threads, barriers, shuffles, atomics and functions.
///
/// A launch is `stand_in::launch(grid, threads, order, body)`, which returns an error message, or null.
pub const HOST: &str = concat!(include_str!("../host.cuh"), include_str!("../blocks.cuh"));

/// Functions of the driver that no call may use if its caller lends it a stream and memory: their counts must not
/// change.
pub const UNASKED: [&str; 20] = [
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuCtxSynchronize",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuModuleUnload",
    "cufftCreate",
];

/// Nor a call that was made before.
pub const UNCOMPILED: [&str; 2] = ["cuModuleLoadData", "nvrtcCompileProgram"];

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
    /// The order in C++: `Order::Kind`, and the seed.
    pub fn as_cxx(self) -> (i32, u64) {
        match self {
            Self::Forwards => (0, 0),
            Self::Backwards => (1, 0),
            Self::Shuffled(seed) => (2, seed),
        }
    }
}
