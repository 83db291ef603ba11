//! The driver: its library, devices, streams, graphs and records of errors.

pub(crate) mod constants;
pub(crate) mod device;
pub(crate) mod graph;
pub(crate) mod libraries;
pub(crate) mod record;
pub(crate) mod stream;
pub(crate) mod sys;

pub use device::Device;
pub use graph::{Capture, Graph};
pub use libraries::set_library_folders;
pub use stream::Stream;
