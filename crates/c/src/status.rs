//! Statuses of calls, and the reason of the last one that failed in a thread.
#![allow(unsafe_code, reason = "exported names; the pointer that is given is that of the thread's own text")]

use madelung::{Error, Result};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The call did what was asked.
pub const MADELUNG_OK: i32 = 0;
/// An argument does not fit; the reason begins with its name.
pub const MADELUNG_ARGUMENT: i32 = 1;
/// A valid call that this build or machine does not support.
pub const MADELUNG_UNSUPPORTED: i32 = 2;
/// Memory ran out.
pub const MADELUNG_MEMORY: i32 = 3;
/// A fault of the library.
pub const MADELUNG_INTERNAL: i32 = 4;

/// The version of the library: 10000 major + 100 minor + patch. Of one major version, headers of older minor ones fit.
pub const MADELUNG_VERSION: u32 = 100;

thread_local! {
    static REASON: RefCell<CString> = RefCell::new(CString::default());
}

/// The status of a call, with its reason kept.
pub(crate) fn status(call: impl FnOnce() -> Result<()>) -> i32 {
    let found = catch_unwind(AssertUnwindSafe(|| match call() {
        Ok(()) => (MADELUNG_OK, String::new()),
        Err(error) => {
            let status = match &error {
                Error::Argument { .. } => MADELUNG_ARGUMENT,
                Error::Memory { .. } => MADELUNG_MEMORY,
                Error::Unsupported(_) | Error::Driver(_) => MADELUNG_UNSUPPORTED,
                _ => MADELUNG_INTERNAL,
            };
            (status, error.to_string())
        }
    }));
    let (status, reason) = found.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().map(ToString::to_string);
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        // What a panic carries may panic when it is dropped.
        std::mem::forget(panic);
        (MADELUNG_INTERNAL, format!("a fault of madelung: {said}"))
    });
    if status != MADELUNG_OK {
        let reason = CString::new(reason.replace('\0', " ")).unwrap_or_default();
        // A thread that ends has no place for it any more.
        let _ = REASON.try_with(|last| *last.borrow_mut() = reason);
    }
    status
}

/// The reason of the last call of this thread that failed, in UTF-8; empty where none has. It is the thread's until its next
/// call fails.
#[unsafe(no_mangle)]
pub extern "C" fn madelung_last_error() -> *const c_char {
    REASON.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The version of the library, as `MADELUNG_VERSION` is that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn madelung_version() -> u32 {
    MADELUNG_VERSION
}
