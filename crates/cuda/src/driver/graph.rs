//! Graphs: work that was captured on a stream once, and can be run again with one call.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::driver::stream::Stream;
use crate::driver::sys::Driver;
use cudarc::driver::sys;
use madelung_core::{Error, Result};
use std::ptr::null_mut;

/// Work that was captured on a stream.
#[derive(Debug)]
pub struct Graph {
    stream: Stream,
    /// An address, for threads share it.
    made: usize,
}

impl Graph {
    /// Captures the work that `work` queues on a stream, which does not run before [`Graph::replay`].
    ///
    /// # Errors
    /// Those of `work`; the work waits or allocates; the stream is the legacy default stream, or captures already.
    pub fn capture(stream: Stream, work: impl FnOnce(Stream) -> Result<()>) -> Result<Self> {
        let capture = Capture::begin(stream)?;
        let _current = stream.device().enter()?;
        let done = work(stream);
        let graph = capture.end();
        done.and(graph)
    }

    /// Queues the captured work on its stream again.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The memory that the captured work reads and writes is still allocated.
    pub unsafe fn replay(&self) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.replay_on(self.stream) }
    }

    /// Queues the captured work on another stream of the device.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The memory that the captured work reads and writes is still allocated.
    pub unsafe fn replay_on(&self, stream: Stream) -> Result<()> {
        // SAFETY: the graph is there, and the caller knows of what it works on.
        let replay =
            |driver: &Driver| unsafe { (driver.cuGraphLaunch)(self.made as sys::CUgraphExec, stream.raw()) };
        self.stream.device().call("replaying a graph", replay)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let driver = self.stream.device().driver;
        if let Ok(_current) = self.stream.device().enter() {
            // SAFETY: it is used no more; what runs of it is finished by the driver.
            unsafe { (driver.cuGraphExecDestroy)(self.made as sys::CUgraphExec) };
        }
    }
}

/// A capture that is under way: what any thread queues on the stream goes to a graph and does not run. It ends when this is
/// dropped, by the thread that began it.
#[derive(Debug)]
pub struct Capture {
    stream: Stream,
    over: bool,
}

impl Capture {
    /// Begins to capture a stream.
    ///
    /// # Errors
    /// The stream is the legacy default stream, or captures already.
    pub fn begin(stream: Stream) -> Result<Self> {
        /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads may do as they like.
        const THREAD_LOCAL: i32 = 1;
        let driver = stream.device().driver;
        if stream.as_raw() < 2 {
            return Err(Error::argument("stream", "one that can be captured", "the legacy default stream"));
        }
        stream.must_not_capture("capturing a graph")?;
        let _current = stream.device().enter()?;
        // SAFETY: it is a stream of this device.
        let code = unsafe { (driver.cuStreamBeginCapture_v2)(stream.raw(), THREAD_LOCAL) };
        driver.check(code, "beginning a capture")?;
        Ok(Self { stream, over: false })
    }

    /// The graph of what was queued.
    ///
    /// # Errors
    /// The queued work waits or allocates; the driver's.
    pub fn end(mut self) -> Result<Graph> {
        let (stream, driver) = (self.stream, self.stream.device().driver);
        let _current = stream.device().enter()?;
        let graph = Captured { stream, graph: self.over()? };
        let mut made = null_mut();
        // SAFETY: the graph is there, and the place is writable.
        let code = unsafe { (driver.cuGraphInstantiateWithFlags)(&raw mut made, graph.graph, 0) };
        driver.check(code, "making a graph of what was captured")?;
        Ok(Graph { stream, made: made as usize })
    }

    fn over(&mut self) -> Result<sys::CUgraph> {
        self.over = true;
        let driver = self.stream.device().driver;
        let mut graph = null_mut();
        // SAFETY: the stream captures; the place is writable.
        let code = unsafe { (driver.cuStreamEndCapture)(self.stream.raw(), &raw mut graph) };
        driver.check(code, "ending a capture").map(|()| graph)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.over
            && let Ok(_current) = self.stream.device().enter()
        {
            drop(self.over().map(|graph| Captured { stream: self.stream, graph }));
        }
    }
}

/// A captured graph, destroyed on drop.
struct Captured {
    stream: Stream,
    graph: sys::CUgraph,
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: it is used no more.
        unsafe { (self.stream.device().driver.cuGraphDestroy)(self.graph) };
    }
}
