//! What a caller of the library does with the driver: streams of its own, and a look at what the library asked of it.
#![expect(unsafe_code, reason = "functions of the driver are called")]

use libloading::Library;
use madelung::array::Array;
use madelung::backend::cuda::{Device, Graph, Stream};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

fn driver() -> Library {
    // SAFETY: the library has no initialisers but those of the C++ runtime, and is loaded already.
    unsafe { Library::new(madelung_stand_in::folder().join("libcuda.so")) }.expect("the driver")
}

/// The default stream of a device.
pub(crate) fn default(device: &'static Device) -> Stream {
    // SAFETY: 0 is the default stream, which lives as long as the device.
    unsafe { device.stream(0) }.expect("the default stream")
}

/// A stream of its own. It is never destroyed.
pub(crate) fn new(device: &'static Device) -> Stream {
    let driver = driver();
    let (mut stream, mut context): (*mut c_void, *mut c_void) = (null_mut(), null_mut());
    // SAFETY: these are the functions' signatures, and the places are writable.
    unsafe {
        let retain =
            driver.get::<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint>("cuDevicePrimaryCtxRetain");
        assert_eq!(retain.expect("a function")(&raw mut context, device.ordinal() as c_int), 0);
        let push = driver.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>("cuCtxPushCurrent_v2");
        assert_eq!(push.expect("a function")(context), 0);
        let create = driver.get::<unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_uint>("cuStreamCreate");
        assert_eq!(create.expect("a function")(&raw mut stream, 1), 0);
        let pop = driver.get::<unsafe extern "C" fn(*mut *mut c_void) -> c_uint>("cuCtxPopCurrent_v2");
        assert_eq!(pop.expect("a function")(&raw mut context), 0);
        device.stream(stream as usize).expect("a stream of this device")
    }
}

/// How often memory was asked for or given back, and waited for.
pub(crate) fn asked() -> Vec<u64> {
    let names = [
        "cuMemAlloc_v2",
        "cuMemAllocAsync",
        "cuMemFree_v2",
        "cuMemFreeAsync",
        "cuStreamSynchronize",
        "cuCtxSynchronize",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuStreamDestroy_v2",
    ];
    names.map(madelung_stand_in::calls).into()
}

/// Puts captured work on its stream.
pub(crate) fn replay(graph: &Graph) {
    // SAFETY: the arrays that were captured are still there.
    unsafe { graph.replay() }.expect("a replay");
}

/// Other numbers in an array of a device.
pub(crate) fn overwrite(stream: Stream, array: &Array, numbers: &[f64]) {
    assert_eq!(array.view().len(), numbers.len());
    let to = array.view().data().pointer().addr() as u64;
    // SAFETY: the array has as many numbers.
    unsafe { stream.upload(to, numbers) }.expect("a copy");
}
