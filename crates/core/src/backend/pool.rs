//! Where tasks run: the pool a launch is given, and safe ways to share work over it.
#![expect(unsafe_code, reason = "workers call a closure that is borrowed from the caller of `run`")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Nanoseconds of work below which threads cost more than they bring: backends run what is cheaper on the calling
/// thread alone. See [`super::Context::threads_for`].
pub const WORTH_THREADS: usize = 30_000;

/// Runs independent tasks. Which thread runs which task never changes a result: every task owns what it writes.
pub trait Pool: Sync {
    /// How many tasks run at once.
    fn threads(&self) -> usize;
    /// Calls `task(0)` … `task(tasks − 1)`, each once, in any order, and returns when all are done. A task may call
    /// `run` again. Where a task panics, tasks that have not begun are left out, and the panic goes on in the caller.
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

/// No more than some of a pool's threads.
#[derive(Clone, Copy)]
pub struct Share<'p> {
    pool: &'p dyn Pool,
    threads: usize,
}

impl<'p> Share<'p> {
    /// At most `threads` threads of `pool`, and at least one.
    pub fn new(pool: &'p dyn Pool, threads: usize) -> Self {
        Self { pool, threads: threads.max(1) }
    }
}

impl Pool for Share<'_> {
    fn threads(&self) -> usize {
        self.pool.threads().min(self.threads)
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        match self.threads() {
            1 => Serial.run(tasks, task),
            threads if threads == self.pool.threads() => self.pool.run(tasks, task),
            threads => {
                // As many loops as threads, which take the next task that is left.
                let next = AtomicUsize::new(0);
                self.pool.run(threads.min(tasks), &|_| {
                    loop {
                        let t = next.fetch_add(1, Ordering::Relaxed);
                        if t >= tasks {
                            break;
                        }
                        let stop = StopOnPanic(&next, tasks);
                        task(t);
                        std::mem::forget(stop);
                    }
                });
            }
        }
    }
}

/// Dropped while a task panics: no further one begins.
struct StopOnPanic<'a>(&'a AtomicUsize, usize);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

/// A rayon pool of its own, apart from the global one, so that a host program's settings and ours do not mix.
///
/// The calling thread works too, beside `threads − 1` workers. These start with the first parallel call, and again in
/// a child process after a fork, where the parent's threads do not exist; no lock that a fork could find held is ever
/// waited for in the child. When several threads call at once, each works on its own call, and the workers take their
/// tasks in turn. A task may call the pool again.
#[derive(Debug)]
pub struct Threads {
    /// 0: what the environment says, not read yet.
    threads: AtomicUsize,
    started: AtomicPtr<Started>,
}

/// The workers of one process.
#[derive(Debug)]
struct Started {
    process: u32,
    /// None where the system grants no threads.
    workers: Option<rayon::ThreadPool>,
}

/// A call of `run`.
struct Call {
    task: *const (dyn Fn(usize) + Sync),
    tasks: usize,
    /// The next task that has not begun.
    next: AtomicUsize,
    /// Workers that are in the call; None when its caller has left it.
    workers: Mutex<Option<usize>>,
    /// No worker is left.
    idle: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `task` points to a closure that is `Sync`. It is called only by the thread that made the call and by workers
// that counted themselves in `workers` before the caller left; `Call::finish` lets nobody in any more and waits for
// that count to be 0 before the borrow of the closure ends.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

/// What a panic left locked is whole all the same: the pool's own locks are not held while a task runs, and what a task
/// had of its own nobody reads after it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Call {
    fn has_tasks(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.tasks
    }

    /// Runs the next task, if there is one.
    fn run_one(&self) -> bool {
        let t = self.next.fetch_add(1, Ordering::Relaxed);
        if t >= self.tasks {
            return false;
        }
        // SAFETY: the closure lives until `finish` returns: see `Send` above.
        let task = unsafe { &*self.task };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(t))) {
            self.next.store(self.tasks, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(panic);
        }
        true
    }

    /// A worker's part: one task, and then it is the next call's turn.
    fn help(self: Arc<Self>) {
        match &mut *lock(&self.workers) {
            Some(workers) => *workers += 1,
            None => return,
        }
        self.run_one();
        // What the task wrote is seen by whoever locks after this.
        if let Some(workers) = &mut *lock(&self.workers) {
            *workers -= 1;
        }
        self.idle.notify_all();
        if self.has_tasks() {
            rayon::spawn_fifo(move || self.help());
        }
    }

    /// Lets nobody in any more, and waits for those who are.
    fn finish(&self) {
        let mut workers = lock(&self.workers);
        while workers.is_some_and(|n| n > 0) {
            workers = self.idle.wait(workers).unwrap_or_else(PoisonError::into_inner);
        }
        *workers = None;
    }
}

impl Threads {
    /// A pool of `threads` threads; 0 takes as many as the process may use.
    pub fn new(threads: usize) -> Self {
        let threads = if threads == 0 { available() } else { threads };
        Self { threads: AtomicUsize::new(threads), started: AtomicPtr::default() }
    }

    /// The pool shared by every call that brings none: `MADELUNG_NUM_THREADS` threads, or all there are (also where it
    /// is 0). What is not a number is reported on stderr, once, and not used.
    pub fn shared() -> &'static Self {
        static SHARED: Threads =
            Threads { threads: AtomicUsize::new(0), started: AtomicPtr::new(std::ptr::null_mut()) };
        &SHARED
    }

    /// The running workers of this process.
    fn workers(&self) -> Option<&rayon::ThreadPool> {
        let process = std::process::id();
        let found = self.started.load(Ordering::Acquire);
        // SAFETY: what `started` has pointed to is freed by `drop` at the earliest, or never.
        if let Some(started) = unsafe { found.as_ref() }
            && started.process == process
        {
            return started.workers.as_ref();
        }
        // None yet, or the parent's: these threads do not exist here, and their locks may be held for ever. They are
        // left as they are.
        let builder = rayon::ThreadPoolBuilder::new().num_threads(self.threads() - 1);
        let workers = builder.thread_name(|n| format!("madelung-{}", n + 1)).build().ok();
        let made = Box::into_raw(Box::new(Started { process, workers }));
        let ours = self.started.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: `made` was never shared where another thread of this process was faster; the other one is its.
        let started = unsafe {
            match ours {
                Ok(_) => &*made,
                Err(other) => {
                    drop(Box::from_raw(made));
                    &*other
                }
            }
        };
        started.workers.as_ref()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let found = *self.started.get_mut();
        // SAFETY: nobody else has the pool any more, so nobody has what it points to.
        if unsafe { found.as_ref() }.is_some_and(|s| s.process == std::process::id()) {
            // SAFETY: it was made by `Box::into_raw`; rayon's workers end by themselves.
            drop(unsafe { Box::from_raw(found) });
        }
    }
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What `MADELUNG_NUM_THREADS` asks for, or what it should say.
fn asked(value: Option<&str>) -> Result<usize, String> {
    match value.map(str::trim) {
        None => Ok(available()),
        Some(text) => match text.parse() {
            Ok(0) => Ok(available()),
            Ok(n) => Ok(n),
            Err(_) => {
                Err(format!("`MADELUNG_NUM_THREADS`: expected a number of threads (0: all), got `{text}`"))
            }
        },
    }
}

impl Pool for Threads {
    fn threads(&self) -> usize {
        let known = self.threads.load(Ordering::Relaxed);
        if known > 0 {
            return known;
        }
        let value = std::env::var_os("MADELUNG_NUM_THREADS").map(|v| v.to_string_lossy().into_owned());
        let asked = asked(value.as_deref());
        let threads = asked.as_ref().map_or_else(|_| available(), |n| *n);
        match self.threads.compare_exchange(0, threads, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                if let Err(warning) = asked {
                    eprintln!("madelung: {warning}; using {threads}");
                }
                threads
            }
            Err(other) => other,
        }
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if self.threads() == 1 || tasks <= 1 {
            return Serial.run(tasks, task);
        }
        let Some(workers) = self.workers() else { return Serial.run(tasks, task) };
        // SAFETY: only the lifetime is taken off; see `Send` of `Call`.
        let task = unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync + 'static)>(
                task,
            )
        };
        let call = Arc::new(Call {
            task,
            tasks,
            next: AtomicUsize::new(0),
            workers: Mutex::new(Some(0)),
            idle: Condvar::new(),
            panic: Mutex::new(None),
        });
        for _ in 1..self.threads().min(tasks) {
            let call = call.clone();
            workers.spawn_fifo(move || call.help());
        }
        while call.run_one() {}
        call.finish();
        let panic = lock(&call.panic).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
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
    pool.run(parts.len(), &|t| task(t, &mut lock(&parts[t])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_asks() {
        assert_eq!((asked(Some("3")), asked(Some(" 12 "))), (Ok(3), Ok(12)));
        assert_eq!((asked(None), asked(Some("0"))), (Ok(available()), Ok(available())));
        for text in ["", "two", "-1", "1.5", "99999999999999999999999"] {
            let warning = asked(Some(text)).unwrap_err();
            assert!(warning.contains("MADELUNG_NUM_THREADS") && warning.ends_with(&format!("got `{text}`")));
        }
    }
}
