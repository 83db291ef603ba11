//! Graphs, for Python: calls on a stream that are captured once, and launched again. Sound because a graph keeps all memory
//! that its calls read and write, from their capture on.
#![expect(unsafe_code, reason = "graphs read and write memory that is kept for them")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use madelung::Error;
use madelung::cuda::{Capture, Graph};
use pyo3::prelude::*;

use crate::call::{compute, exception};
use crate::captures::{self, Kept};
use crate::stream::DeviceStream;

/// A graph, which is captured until [`DeviceGraph::end`].
#[pyclass(frozen, module = "madelung._native")]
#[derive(Debug)]
pub(crate) struct DeviceGraph {
    stream: DeviceStream,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    // Fields are dropped in this order: captures and graphs before their memory.
    Open(Capture, Arc<Kept>),
    Done(Graph, #[expect(dead_code, reason = "the memory of the graph")] Arc<Kept>),
    /// The capture failed, or was abandoned.
    Failed,
}

impl DeviceGraph {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl DeviceGraph {
    /// Begins to capture a stream.
    #[new]
    fn new(py: Python<'_>, stream: &DeviceStream) -> PyResult<Self> {
        compute(py, || {
            let capture = Capture::begin(stream.0.stream)?;
            let kept = captures::begin(stream.0.stream, stream.0.key())?;
            Ok(Self { stream: stream.clone(), state: Mutex::new(State::Open(capture, kept)) })
        })
    }

    /// Ends the capture.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        compute(py, || {
            let mut state = self.lock();
            *state = match std::mem::replace(&mut *state, State::Failed) {
                State::Open(capture, kept) => State::Done(capture.end()?, kept),
                ended => ended,
            };
            Ok(())
        })
    }

    /// Ends the capture without a graph.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        compute(py, || {
            *self.lock() = State::Failed;
            Ok(())
        })
    }

    /// Puts the captured calls on a stream.
    fn launch(&self, py: Python<'_>, stream: &DeviceStream) -> PyResult<()> {
        let device = self.stream.0.key().0;
        if stream.0.key().0 != device {
            let got = format!("one of device {}", stream.0.key().0);
            return Err(exception(Error::argument("stream", format!("one of device {device}"), got)));
        }
        let (own, on) = (self.stream.0.stream, stream.0.stream);
        compute(py, || match &*self.lock() {
            State::Done(graph, _) => {
                if own.is_capturing()? || on.is_capturing()? {
                    let text = "launching a graph while its stream is captured: that graph would not keep its memory";
                    return Err(Error::Unsupported(text.into()));
                }
                let is_other = self.stream.0.key() != stream.0.key();
                if is_other {
                    on.wait_for(own)?;
                }
                // SAFETY: all memory that it reads and writes is kept with it.
                unsafe { graph.replay_on(on)? };
                // The arrays are those of the stream on which they were captured.
                if is_other { own.wait_for(on) } else { Ok(()) }
            }
            _ => Err(Error::argument(
                "graph",
                "one that was captured",
                "one that is not, or whose capture failed",
            )),
        })
    }
}
