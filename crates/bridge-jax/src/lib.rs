//! The ops as typed XLA FFI handlers.
//!
//! The bridge links to no jaxlib and needs no C++: the C structs of the FFI are declared by hand, and one binary serves
//! every jaxlib from 0.6 on. For each platform there is one handler for all members of all ops, registered under the
//! name of every member, `namespace.name_vN_suffix`, and one for the neighbour search. On CUDA a call is enqueued on
//! XLA's stream, with XLA's scratch memory. Handlers keep no state between calls. `madelung.jax` makes the primitives
//! and their rules from the [`describe`]d ops.

mod call;
mod cuda;
mod ffi;
mod handlers;
mod runtime;
mod search;

pub use cuda::{Outline, scratch};
pub use ffi::{CallFrame, Handler};
pub use madelung_bridge::{Described, describe};
pub use search::search_scratch;

/// The handlers of a target.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The handler registered under the target's name.
    pub plain: Handler,
    /// The handler whose last result is scratch, of the size that [`scratch`] or [`search_scratch`] gives; registered
    /// under the target's name with the suffix [`WITH_SCRATCH`].
    pub with_scratch: Option<Handler>,
}

/// The handlers of one platform.
#[derive(Clone, Copy, Debug)]
pub struct Handlers {
    /// JAX's name of the platform.
    pub platform: &'static str,
    /// The handlers of members of ops.
    pub member: Pair,
    /// The handlers of the neighbour search.
    pub search: Pair,
}

/// The handlers of every platform.
pub const HANDLERS: [Handlers; 2] = [
    Handlers {
        platform: "cpu",
        member: Pair { plain: handlers::member, with_scratch: None },
        search: Pair { plain: handlers::search, with_scratch: None },
    },
    Handlers {
        platform: "CUDA",
        member: Pair { plain: handlers::member_on_cuda, with_scratch: Some(handlers::member_with_scratch) },
        search: Pair { plain: handlers::search_on_cuda, with_scratch: Some(handlers::search_with_scratch) },
    },
];

/// The suffix of a target whose last result is scratch.
pub const WITH_SCRATCH: &str = "_with_scratch";

/// The target of the neighbour search.
pub const SEARCH: &str = search::TARGET;
