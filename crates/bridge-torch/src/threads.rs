//! PyTorch's own threads as a pool.
//!
//! After an operation PyTorch's threads spin for some milliseconds, waiting for the next one: workers of another pool would share
//! the cores with them.
#![expect(unsafe_code, reason = "a foreign function calls back")]
// Sound because the loop's data is borrowed until the foreign function returns, and no panic leaves what it calls.

use crate::shim::shim;
use madelung_core::backend::pool::{Pool, Serial, Tasks, Threads};
use std::ffi::c_void;
use std::thread::{ThreadId, current};

/// The threads of PyTorch's parallel loops.
#[derive(Debug)]
pub(crate) struct TorchThreads {
    threads: usize,
}

/// The data of a loop.
struct Shared<'t> {
    tasks: Tasks<'t>,
    caller: ThreadId,
}

impl TorchThreads {
    /// `threads` of them, at most as many as Madelung's own pool has; None where the shim has no parallel loops (before
    /// PyTorch 2.10), and in a child process after a fork, in which OpenMP's loops wait for ever for threads of the parent.
    pub(crate) fn new(threads: usize) -> Option<Self> {
        let has_loops = shim().torch_parallel_for.is_some() && shim().process == std::process::id();
        has_loops.then(|| Self { threads: threads.min(Threads::shared().threads()) })
    }
}

impl Pool for TorchThreads {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let loops = self.threads.min(tasks);
        let (Some(parallel_for), true) = (shim().torch_parallel_for, loops > 1) else {
            return Serial.run(tasks, task);
        };
        let shared = Shared { tasks: Tasks::new(tasks, task), caller: current().id() };
        // SAFETY: `shared` outlives the call, and is read alone.
        let code = unsafe { parallel_for(0, loops as i64, 1, part, (&raw const shared).cast_mut().cast()) };
        if code != 0 {
            // No loop has begun, or some have: these took what they ran.
            shared.tasks.take();
        }
        shared.tasks.finish();
    }
}

/// Takes tasks until none is left, on one of PyTorch's threads.
unsafe extern "C" fn part(_: i64, _: i64, data: *mut c_void) {
    // SAFETY: the data that `run` gave.
    let shared = unsafe { &*data.cast::<Shared<'_>>() };
    if current().id() == shared.caller { shared.tasks.take() } else { shared.tasks.help() }
}
