//! The handlers, with XLA's calling convention.
#![expect(unsafe_code, reason = "a foreign calling convention")]

use crate::ffi::{CAPTURABLE, CallFrame, enter};
use crate::{call, cuda};
use std::ffi::c_void;

/// Runs a member of an op's family on the CPU.
///
/// # Safety
/// The frame is one that XLA calls a handler with.
pub(crate) unsafe extern "C" fn member(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, call::run) }
}

/// Runs a member of an op's family on a CUDA device.
///
/// The handler is not capturable: its scratch is freed when it returns, and a replayed graph would write to memory in
/// other use.
///
/// # Safety
/// The frame is one that XLA calls a handler with.
pub(crate) unsafe extern "C" fn member_on_cuda(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, cuda::run) }
}

/// Runs a member of an op's family on a CUDA device, with scratch as the last result, so that XLA may capture the call.
///
/// # Safety
/// The frame is one that XLA calls a handler with.
pub(crate) unsafe extern "C" fn member_with_scratch(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, CAPTURABLE, cuda::run_with_scratch) }
}
