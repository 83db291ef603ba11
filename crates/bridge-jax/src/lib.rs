//! The ops as typed XLA FFI handlers.
//!
//! The bridge links to no jaxlib and needs no C++: the C structs of the FFI are declared by hand, and one binary serves
//! every jaxlib from 0.6 on. For each platform there is one handler for all members of all ops, registered under the
//! name of every member, `namespace.name_vN_suffix`. On CUDA a call is enqueued on
//! XLA's stream, with XLA's scratch memory. Handlers keep no state between calls. `madelung.jax` makes the primitives
//! and their rules from the [`describe`]d ops.

mod call;
mod cuda;
mod ffi;
mod handlers;
mod runtime;

pub use cuda::{Outline, scratch};
pub use ffi::{CallFrame, Handler};
pub use madelung_bridge::{Described, describe};

/// The handlers of a platform, for all targets.
#[derive(Clone, Copy, Debug)]
pub struct Handlers {
    /// JAX's name of the platform.
    pub platform: &'static str,
    /// The handler registered under a target's name.
    pub plain: Handler,
    /// The handler whose last result is scratch, of the size that [`scratch`] gives; registered under a target's name
    /// with the suffix [`WITH_SCRATCH`].
    pub with_scratch: Option<Handler>,
}

/// The handlers of every platform.
pub const HANDLERS: [Handlers; 2] = [
    Handlers { platform: "cpu", plain: handlers::member, with_scratch: None },
    Handlers {
        platform: "CUDA",
        plain: handlers::member_on_cuda,
        with_scratch: Some(handlers::member_with_scratch),
    },
];

/// The suffix of a target whose last result is scratch.
pub const WITH_SCRATCH: &str = "_with_scratch";
