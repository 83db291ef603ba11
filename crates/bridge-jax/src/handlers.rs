//! Handlers that XLA calls: functions of its calling convention around the work of a call.
#![expect(unsafe_code, reason = "a foreign calling convention")]

use crate::ffi::{CAPTURABLE, CallFrame, enter};
use crate::{call, cuda, search};
use std::ffi::c_void;

/// Runs a member of an op's family on the CPU.
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn member(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, call::run) }
}

/// Finds the pairs of a neighbour list on the CPU.
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn search(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, search::run) }
}

/// Runs a member of an op's family on a CUDA device.
///
/// It does not say that it may be captured: scratch memory goes back to XLA when the handler returns, and who runs a graph
/// again would write to what others have got since.
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn member_on_cuda(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, cuda::run) }
}

/// Runs a member of an op's family on a CUDA device with its scratch memory as the last result, so that XLA may capture it.
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn member_with_scratch(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, CAPTURABLE, cuda::run_with_scratch) }
}

/// Finds the pairs of a neighbour list on a CUDA device; as [`member_on_cuda`].
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn search_on_cuda(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, search::run_on_cuda) }
}

/// Finds the pairs of a neighbour list on a CUDA device; its scratch memory is as in [`member_with_scratch`].
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn search_with_scratch(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, CAPTURABLE, search::run_with_scratch) }
}
