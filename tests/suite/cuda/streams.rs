//! Streams, and what is done on them beside calls.
#![expect(unsafe_code, reason = "streams are used on their owner's word, and memory of a device is written")]

use madelung::array::Array;
use madelung::cuda::{Device, Graph, Stream};

/// The default stream of a device.
pub(crate) fn default(device: &'static Device) -> Stream {
    // SAFETY: 0 is the default stream, which lives as long as the device.
    unsafe { device.stream(0) }.expect("the default stream")
}

/// The default stream of this thread, which can be captured.
pub(crate) fn of_thread(device: &'static Device) -> Stream {
    // SAFETY: every thread has this stream.
    unsafe { device.stream(2) }.expect("the thread's default stream")
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
