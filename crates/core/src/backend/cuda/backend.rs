//! A stream of a device as a backend.

use super::{Device, Stream, launch};
use crate::Result;
use crate::array::Place;
use crate::backend::Context;
use crate::backend::launch::{Backend, LaunchArgs};
use crate::backend::primitives::Primitives;
use crate::backend::remote::Remote;

/// Kernels on an NVIDIA GPU, in the order of a stream that its caller lends. Nothing is owned, nothing is waited for, and
/// all memory comes from the context's allocator, so that a call can be captured in a graph.
///
/// Errors that only a run shows wait in the device's record: see [`super::check`].
#[derive(Clone, Copy, Debug)]
pub struct Cuda {
    pub(super) stream: Stream,
    pub(super) atomics: bool,
    pub(super) records_from: usize,
}

/// From so many partners on, records are made. They save 15 ps per pair on an H100, and the launch that makes them takes
/// 4 µs (both estimated: nothing was measured yet). 250,000 pairs pay for it; so many partners have about as many.
const RECORDS_FROM: usize = 4096;

impl Cuda {
    /// On a stream.
    pub fn new(stream: Stream) -> Self {
        Self { stream, atomics: false, records_from: RECORDS_FROM }
    }

    /// The same, or with the faster way for what rows add to elements that they share (meshes, and partners where
    /// [`Context::scatter`] asks for it): as it comes, so that the last bits differ from run to run.
    #[must_use]
    pub fn with_atomics(self, atomics: bool) -> Self {
        Self { atomics, ..self }
    }

    /// The same, or with what rows gather at their partners put side by side ahead of launches with `columns` partners or
    /// more: a launch more, and fewer loads for each pair. The bits are the same.
    #[must_use]
    pub fn with_records_from(self, columns: usize) -> Self {
        Self { records_from: columns, ..self }
    }

    /// The stream.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// The device.
    pub fn device(&self) -> &'static Device {
        self.stream.device()
    }
}

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn run(&self, context: &Context<'_>, launch: &mut LaunchArgs<'_>) -> Result<()> {
        launch::run(self, context, launch)
    }

    fn primitives(&self) -> Result<&dyn Primitives> {
        Ok(self)
    }

    fn place(&self) -> Place {
        Place::Cuda(self.device().ordinal())
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}
