//! Graphs: work that was captured on a stream once, and can be run again with one call.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::driver::stream::Stream;
use crate::driver::sys::Driver;
use cudarc::driver::sys;
use madelung_core::{Error, Result};
use std::ffi::c_void;
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
        work(stream)?;
        capture.end()
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

/// A capture that is under way: what any thread queues on the stream goes to a graph and does not run. Any thread may end
/// it; dropped, it ends without a graph.
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
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`: the driver lets another thread end no other kind. Nothing is lost: what would
        /// break a capture is refused here, and by the driver where it concerns the stream itself.
        const RELAXED: i32 = 2;
        let driver = stream.device().driver;
        if stream.as_raw() < 2 {
            return Err(Error::argument("stream", "one that can be captured", "the legacy default stream"));
        }
        stream.must_not_capture("capturing a graph")?;
        let _current = stream.device().enter()?;
        // SAFETY: it is a stream of this device.
        let code = unsafe { (driver.cuStreamBeginCapture_v2)(stream.raw(), RELAXED) };
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

impl Stream {
    /// The number of the capture that is under way on the stream, unique in the process; None if there is none.
    ///
    /// # Errors
    /// The driver's, such as that of a capture that something has broken.
    pub fn capture(&self) -> Result<Option<u64>> {
        self.captured().map(|found| found.map(|(id, _)| id))
    }

    fn captured(&self) -> Result<Option<(u64, sys::CUgraph)>> {
        let (mut status, mut id, mut graph) = (0, 0, null_mut());
        if self.as_raw() < 2 {
            // The legacy default stream captures never, and asking it breaks captures of streams that it waits for.
            return Ok(None);
        }
        // SAFETY: it is a stream of this device; the places are writable, and null where nothing is asked for.
        let ask = |driver: &Driver| unsafe {
            let places = (&raw mut status, &raw mut id, &raw mut graph);
            (driver.cuStreamGetCaptureInfo_v2)(
                self.raw(),
                places.0,
                places.1,
                places.2,
                null_mut(),
                null_mut(),
            )
        };
        self.device().call("asking for a stream's capture", ask)?;
        match status {
            0 => Ok(None),
            1 => Ok(Some((id, graph))),
            _ => Err(Error::Driver("the stream's capture was broken by a call that none may have".into())),
        }
    }

    /// Calls `over` when the graph that the stream captures, and every copy of it, is gone and runs no more. A thread of the
    /// driver does so, in which nothing may call the driver.
    ///
    /// # Errors
    /// The stream does not capture; the driver's.
    pub fn when_graph_is_over(&self, over: impl FnOnce() + Send + 'static) -> Result<()> {
        /// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`: the one flag there is, which has to be given.
        const NO_SYNC: u32 = 1;
        /// `CU_GRAPH_USER_OBJECT_MOVE`: the graph has the only reference.
        const MOVE: u32 = 1;
        type Over = Box<dyn FnOnce() + Send>;
        unsafe extern "C" fn call(over: *mut c_void) {
            // SAFETY: it was boxed below, and the driver comes here once.
            let over = unsafe { Box::from_raw(over.cast::<Over>()) };
            over();
        }
        let Some((_, graph)) = self.captured()? else {
            return Err(Error::argument("stream", "one that captures", "one that does not"));
        };
        let (mut object, over) = (null_mut(), Box::into_raw(Box::new(Box::new(over) as Over)));
        let keep = |driver: &Driver| {
            // SAFETY: the place is writable; `call` takes what it is given, which nobody else has.
            let code = unsafe { (driver.cuUserObjectCreate)(&raw mut object, over.cast(), call, 1, NO_SYNC) };
            // SAFETY: the graph and the object are there. What no graph takes is leaked.
            if code == 0 { unsafe { (driver.cuGraphRetainUserObject)(graph, object, 1, MOVE) } } else { code }
        };
        self.device().call("tying memory to a graph", keep)
    }
}
