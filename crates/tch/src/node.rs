//! Nodes of torch's graph whose backward pass is a function of Rust.
//!
//! Sound because
//! - a tensor of tch is a pointer to an `at::Tensor`, a counted reference, and crosses the border as such both ways;
//! - the state of a node is a box whose pointer is the node's from the moment that it is made, and which the node gives
//!   back once, when it is freed;
//! - that state is `Send` and `Sync`: torch may run a backward pass on any thread;
//! - neither a panic nor an exception crosses the border: both become texts there.
#![expect(unsafe_code, reason = "foreign functions, and tensors behind their pointers")]

use madelung::{Error, Result};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tch::Tensor;
use torch_sys::C_tensor;

/// A backward pass: of inputs, whether their gradients are wanted, and cotangents of the values, None where zero, it
/// makes the gradients, None where zero or not wanted.
pub(crate) type Backward =
    Box<dyn Fn(Vec<Tensor>, &[bool], Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> + Send + Sync>;

#[repr(C)]
struct Foreign {
    state: *mut c_void,
    run: unsafe extern "C" fn(
        *const c_void,
        *const *mut C_tensor,
        *const u8,
        usize,
        *const *mut C_tensor,
        usize,
        *mut *mut C_tensor,
    ) -> *const c_char,
    drop: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    fn madelung_tch_record(
        backward: Foreign,
        inputs: *const *mut C_tensor,
        input_count: usize,
        values: *const *mut C_tensor,
        value_count: usize,
    ) -> *const c_char;
}

/// Puts values, new tensors, behind a node with these inputs, where a gradient by one of these may be wanted.
///
/// # Errors
/// Those of torch, such as one about tangents of its forward mode.
pub(crate) fn record(inputs: &[Tensor], mut values: Vec<Tensor>, backward: Backward) -> Result<Vec<Tensor>> {
    let state = Box::into_raw(Box::new(backward)).cast();
    let pointers: Vec<_> = inputs.iter().map(|x| x.as_ptr().cast_mut()).collect();
    let results: Vec<_> = values.iter_mut().map(Tensor::as_mut_ptr).collect();
    // SAFETY: pointers to tensors that live through the call and as many of them as is said; values have no other
    // reference. The state is that of `run_backward` and `drop_backward`.
    let error = unsafe {
        madelung_tch_record(
            Foreign { state, run: run_backward, drop: drop_backward },
            pointers.as_ptr(),
            pointers.len(),
            results.as_ptr(),
            results.len(),
        )
    };
    if error.is_null() {
        return Ok(values);
    }
    // SAFETY: a C string of this thread, which lives until its next call.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    Err(Error::Unsupported(format!("torch: {text}")))
}

thread_local! {
    /// The text of the thread's last error.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// # Safety
/// `state` is that of a node that lives through the call; arrays have as many elements as is said, and `gradients` as
/// many as there are inputs.
unsafe extern "C" fn run_backward(
    state: *const c_void,
    inputs: *const *mut C_tensor,
    wanted: *const u8,
    input_count: usize,
    cotangents: *const *mut C_tensor,
    cotangent_count: usize,
    gradients: *mut *mut C_tensor,
) -> *const c_char {
    let work = || {
        // SAFETY: the state that `record` made, which is shared and not changed.
        let backward = unsafe { &*state.cast::<Backward>() };
        // SAFETY: the caller's promise.
        let (inputs, cotangents) =
            unsafe { (tensors(inputs, input_count), tensors(cotangents, cotangent_count)) };
        // SAFETY: the caller's promise.
        let wanted: Vec<bool> = (0..input_count).map(|n| unsafe { *wanted.add(n) } != 0).collect();
        backward(inputs.into_iter().flatten().collect(), &wanted, cotangents)
    };
    let text = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(found)) => {
            for (n, gradient) in found.into_iter().enumerate().take(input_count) {
                let Some(mut gradient) = gradient else { continue };
                // SAFETY: there is room for a gradient of each input, and the caller frees it.
                unsafe { *gradients.add(n) = gradient.as_mut_ptr() };
                std::mem::forget(gradient);
            }
            return std::ptr::null();
        }
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("a defect in Madelung, please report it: {}", said(panic)),
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    TEXT.with(|last| {
        let mut last = last.borrow_mut();
        *last = text;
        last.as_ptr()
    })
}

/// New references to tensors; None for null.
///
/// # Safety
/// `pointers` are `count`, each null or that of a tensor.
unsafe fn tensors(pointers: *const *mut C_tensor, count: usize) -> Vec<Option<Tensor>> {
    let of = |n: usize| {
        // SAFETY: the caller's promise.
        let pointer = unsafe { *pointers.add(n) };
        // SAFETY: the caller's promise.
        (!pointer.is_null()).then(|| unsafe { Tensor::clone_from_ptr(pointer) })
    };
    (0..count).map(of).collect()
}

/// The text of a panic.
fn said(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    // What a panic carries may panic when it is dropped.
    std::mem::forget(panic);
    text
}

/// # Safety
/// `state` is that of a node, which does not use it again.
unsafe extern "C" fn drop_backward(state: *mut c_void) {
    // SAFETY: the box that `record` made.
    let state = unsafe { Box::from_raw(state.cast::<Backward>()) };
    // Nobody is there to tell: what a node holds are counted references and numbers.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(state)));
}
