//! Graphs, for Python: calls on a stream that are captured once, and launched again. Sound because a graph keeps all memory
//! that its calls read and write, from their capture on.
#![expect(unsafe_code, reason = "graphs read and write memory that is kept for them")]

use std::sync::{Mutex, PoisonError};

use madelung::cuda::{Capture, Graph, Memory};
use madelung::{Error, Result};
use pyo3::prelude::*;

use crate::call::{compute, exception};
use crate::captures::{self, Kept};
use crate::device::DeviceStream;

/// A graph, which is captured until [`DeviceGraph::end`].
#[pyclass(frozen, module = "madelung._native")]
#[derive(Debug)]
pub(crate) struct DeviceGraph {
    stream: DeviceStream,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Capture),
    /// Fields are dropped in this order: the graph before its memory.
    Done {
        graph: Graph,
        _kept: Kept,
    },
    /// The capture failed.
    Failed,
}

impl DeviceGraph {
    fn ended(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Open(capture) = std::mem::replace(&mut *state, State::Failed) else { return Ok(()) };
        let kept = captures::end(self.stream.0.key());
        let graph = capture.end()?;
        if let Some(kept) = kept {
            *state = State::Done { graph, _kept: kept };
        }
        Ok(())
    }
}

#[pymethods]
impl DeviceGraph {
    /// Begins to capture a stream.
    #[new]
    fn new(py: Python<'_>, stream: &DeviceStream) -> PyResult<Self> {
        compute(py, || {
            let lane = &stream.0;
            let capture = Capture::begin(lane.stream)?;
            captures::begin(lane.key(), Memory::of_capture(lane.stream));
            Ok(Self { stream: stream.clone(), state: Mutex::new(State::Open(capture)) })
        })
    }

    /// Ends the capture.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        compute(py, || self.ended())
    }

    /// Ends the capture without a graph.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        compute(py, || {
            drop(self.ended());
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Failed;
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
        compute(py, || match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Done { graph, .. } => {
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

impl Drop for DeviceGraph {
    fn drop(&mut self) {
        // One that Python forgot before its end.
        let _ = self.ended();
    }
}
