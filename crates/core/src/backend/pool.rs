//! Where tasks run: the pool a launch is given, and safe ways to share work over it.

use std::sync::{Mutex, OnceLock, PoisonError};

/// Runs independent tasks. Which thread runs which task never changes a result: every task owns what it writes.
pub trait Pool: Sync {
    /// How many tasks run at once.
    fn threads(&self) -> usize;
    /// Calls `task(0)` … `task(tasks − 1)`, each once, in any order, and returns when all are done.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// Everything on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Pool for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// A pool of its own, apart from rayon's global one, so that a host program's settings and ours do not mix.
/// Threads start with the first parallel launch, and again in a child process after a fork (where the parent's
/// threads do not exist).
#[derive(Debug)]
pub struct Threads {
    threads: usize,
    started: Mutex<Option<(u32, std::sync::Arc<rayon::ThreadPool>)>>,
}

impl Threads {
    /// A pool of `threads` threads; 0 takes as many as the process may use.
    pub fn new(threads: usize) -> Self {
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: if threads == 0 { available() } else { threads }, started: Mutex::new(None) }
    }

    /// The pool shared by every call that brings none: `MADELUNG_NUM_THREADS` threads, or all there are.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Threads> = OnceLock::new();
        SHARED.get_or_init(|| {
            let asked = std::env::var("MADELUNG_NUM_THREADS").ok().and_then(|n| n.parse().ok());
            Threads::new(asked.unwrap_or(0))
        })
    }

    /// The running pool of this process, or none where the system grants no threads.
    fn pool(&self) -> Option<std::sync::Arc<rayon::ThreadPool>> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((owner, pool)) = started.as_ref()
            && *owner == process
        {
            return Some(pool.clone());
        }
        if let Some(stale) = started.take() {
            // The threads belong to the parent process: joining them here would wait for ever.
            std::mem::forget(stale);
        }
        let builder = rayon::ThreadPoolBuilder::new().num_threads(self.threads);
        let pool = std::sync::Arc::new(builder.thread_name(|i| format!("madelung-{i}")).build().ok()?);
        *started = Some((process, pool.clone()));
        Some(pool)
    }
}

impl Pool for Threads {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        use rayon::prelude::*;
        if self.threads == 1 || tasks <= 1 {
            return Serial.run(tasks, task);
        }
        match self.pool() {
            Some(pool) => pool.install(|| (0..tasks).into_par_iter().with_max_len(1).for_each(task)),
            None => Serial.run(tasks, task),
        }
    }
}

/// The results of `task(0)` … `task(tasks − 1)`, in order.
pub fn map_tasks<T: Send + Sync>(pool: &dyn Pool, tasks: usize, task: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let slots: Vec<OnceLock<T>> = (0..tasks).map(|_| OnceLock::new()).collect();
    pool.run(tasks, &|t| {
        slots[t].get_or_init(|| task(t));
    });
    slots.into_iter().map(|slot| slot.into_inner().expect("a pool runs every task")).collect()
}

/// Cuts `data` at `ends` (rising, the last one at most `data.len()`) and gives part `t` to `task(t, part)`.
pub fn split_tasks<T: Send>(
    pool: &dyn Pool,
    data: &mut [T],
    ends: &[usize],
    task: impl Fn(usize, &mut [T]) + Sync,
) {
    let mut parts = Vec::with_capacity(ends.len());
    let (mut rest, mut start) = (data, 0);
    for &end in ends {
        let (part, tail) = rest.split_at_mut(end - start);
        parts.push(Mutex::new(part));
        (rest, start) = (tail, end);
    }
    pool.run(parts.len(), &|t| task(t, &mut parts[t].lock().unwrap_or_else(PoisonError::into_inner)));
}
