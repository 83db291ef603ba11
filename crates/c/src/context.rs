//! Contexts of calls.
#![allow(unsafe_code, reason = "exported names; handles are those of `memory`")]

use crate::memory::{give, handle, take};
use crate::status::status;
use madelung::{Error, backend, cpu};

/// The threads that calls may use.
pub struct madelung_context {
    threads: usize,
}

impl madelung_context {
    /// The context of a call.
    pub(crate) fn context(&self) -> backend::Context<'static> {
        backend::Context { max_threads: self.threads, ..cpu::context() }
    }
}

/// A context whose calls use so many threads at most, 0: all that there are. It is freed by `madelung_context_free`.
///
/// `context` is valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_context_new(threads: i32, context: *mut *mut madelung_context) -> i32 {
    status(|| {
        let most = usize::try_from(threads)
            .map_err(|_| Error::argument("threads", "a number from 0 up", threads.to_string()))?;
        let made = madelung_context { threads: if most == 0 { usize::MAX } else { most } };
        // SAFETY: the caller's promise.
        unsafe { give("context", context, made) }
    })
}

/// Frees a context; null is nothing.
///
/// `context` is null, or a handle that no call uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_context_free(context: *mut madelung_context) {
    // SAFETY: the caller's promise.
    unsafe { take(context) };
}

/// The context of a handle; a null pointer is refused.
///
/// # Safety
/// `context` is null, or a handle of this library that is not freed.
pub(crate) unsafe fn context_of(
    context: *const madelung_context,
) -> madelung::Result<backend::Context<'static>> {
    // SAFETY: the caller's promise.
    Ok(unsafe { handle("context", context) }?.context())
}
