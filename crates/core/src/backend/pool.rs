//! Thread pools, and safe ways to share work among their threads.
#![expect(unsafe_code, reason = "workers call a closure borrowed from the caller of `run`")]

use crate::stop::{if_asked, until};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The work in nanoseconds below which a backend uses the calling thread alone, because waking others costs more. See
/// [`super::Context::threads_for`].
pub const WORTH_THREADS: usize = 30_000;

/// How often a caller looks whether workers are done before it sleeps, and pauses of the processor in between: ten to
/// thirty microseconds.
const SPINS: usize = 16;
const SPIN: usize = 32;

/// A pool that runs independent tasks. Every task owns what it writes, so results do not depend on the threads.
pub trait Pool: Sync {
    /// The number of tasks that run at once.
    fn threads(&self) -> usize;
    /// Calls `task(0)` … `task(tasks − 1)`, each once, in any order, and returns when all are done. A task may call
    /// `run` again. If a task panics, tasks that have not begun are skipped, and the panic continues in the caller.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// A pool of the calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Pool for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        for t in 0..tasks {
            if_asked();
            task(t);
        }
    }
}

/// A limited number of a pool's threads.
#[derive(Clone, Copy)]
pub struct Share<'p> {
    pool: &'p dyn Pool,
    threads: usize,
}

impl<'p> Share<'p> {
    /// At most `threads` threads of `pool`, at least one.
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

/// A guard whose drop during a panic keeps further tasks from starting.
struct StopOnPanic<'a>(&'a AtomicUsize, usize);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

/// A pool on a private rayon pool, independent of the host program's global one.
///
/// The calling thread works too, beside `threads − 1` workers, which start with the first parallel call. They start
/// again in a child process after a fork, where the parent's threads do not exist; the child never waits for a lock
/// that the fork may have left held. Concurrent calls share the workers, which take tasks of the calls in turn. A task
/// may call the pool again.
#[derive(Debug)]
pub struct Threads {
    /// 0 until the environment variable is read.
    threads: AtomicUsize,
    started: AtomicPtr<Started>,
}

/// The workers of one process.
#[derive(Debug)]
struct Started {
    process: u32,
    size: usize,
    /// None if the system starts no threads.
    workers: Option<rayon::ThreadPool>,
}

/// The tasks of a call of [`Pool::run`], for threads that take the next one that is left.
pub struct Tasks<'t> {
    task: &'t (dyn Fn(usize) + Sync),
    count: usize,
    /// The first task that has not begun.
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Whether a task has panicked, which others look at on the way ([`crate::stop`]).
    stopped: Arc<AtomicBool>,
}

/// A call of [`Threads::run`].
struct Call {
    /// Borrowed from the caller, for as long as it has not left. Only the calling thread takes tasks, and workers that counted
    /// themselves in `workers` before the caller left; `Call::finish` admits no further worker and waits for that count
    /// to be 0 before the borrow of the closure ends.
    tasks: Tasks<'static>,
    /// The number of workers inside the call; None after the caller has left.
    workers: Mutex<Option<usize>>,
    /// Signals that a worker has left the call.
    idle: Condvar,
}

/// Locks a mutex and ignores poisoning: the pool holds no lock of its own while a task runs, and data of a task that
/// has panicked is not read again.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'t> Tasks<'t> {
    /// `count` tasks, none of which has begun.
    pub fn new(count: usize, task: &'t (dyn Fn(usize) + Sync)) -> Self {
        let (next, panic) = (AtomicUsize::new(0), Mutex::new(None));
        Self { task, count, next, panic, stopped: Arc::default() }
    }

    /// Runs tasks on the thread that made the call until none is left; one that panics is the last.
    pub fn take(&self) {
        while self.run_one(if_asked) {}
    }

    /// [`Tasks::take`] on another thread.
    pub fn help(&self) {
        until(&self.stopped, || while self.run_one(|| ()) {});
    }

    /// Continues the panic of a task: behind the last task, on the thread that made the call.
    pub fn finish(&self) {
        let panic = lock(&self.panic).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn is_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.count
    }

    /// Runs the next task behind `first`; false if there is none.
    fn run_one(&self, first: impl FnOnce()) -> bool {
        let t = self.next.fetch_add(1, Ordering::Relaxed);
        if t >= self.count {
            return false;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| {
            first();
            (self.task)(t);
        })) {
            self.next.store(self.count, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(panic);
            self.stopped.store(true, Ordering::Relaxed);
        }
        true
    }
}

impl Call {
    /// Runs one task on a worker, then queues behind other calls.
    fn help(self: Arc<Self>) {
        match &mut *lock(&self.workers) {
            Some(workers) => *workers += 1,
            None => return,
        }
        until(&self.tasks.stopped, || self.tasks.run_one(|| ()));
        // The lock makes the task's writes visible to the caller.
        if let Some(workers) = &mut *lock(&self.workers) {
            *workers -= 1;
        }
        self.idle.notify_all();
        if self.tasks.is_left() {
            rayon::spawn_fifo(move || self.help());
        }
    }

    /// Waits for the workers inside the call, and admits no others.
    fn finish(&self) {
        // Tasks of one size end at about one time, and to be woken takes longer than this.
        for _ in 0..SPINS {
            if lock(&self.workers).is_none_or(|n| n == 0) {
                break;
            }
            (0..SPIN).for_each(|_| std::hint::spin_loop());
        }
        let mut workers = lock(&self.workers);
        while workers.is_some_and(|n| n > 0) {
            workers = self.idle.wait(workers).unwrap_or_else(PoisonError::into_inner);
        }
        *workers = None;
    }
}

impl Threads {
    /// A pool of `threads` threads; 0 stands for all that the process may use.
    pub fn new(threads: usize) -> Self {
        let threads = if threads == 0 { available() } else { threads };
        Self { threads: AtomicUsize::new(threads), started: AtomicPtr::default() }
    }

    /// The default pool, of `MADELUNG_NUM_THREADS` threads; all threads if that is unset or 0. A value that is no
    /// number is ignored, with a warning on stderr.
    pub fn shared() -> &'static Self {
        static SHARED: Threads =
            Threads { threads: AtomicUsize::new(0), started: AtomicPtr::new(std::ptr::null_mut()) };
        &SHARED
    }

    /// Changes the number of threads of calls that begin from now on; 0 stands for all that the process may use. Results
    /// do not depend on it.
    pub fn set_threads(&self, threads: usize) {
        self.threads.store(if threads == 0 { available() } else { threads }, Ordering::Relaxed);
    }

    /// The running workers of this process, at least as many as calls use.
    fn workers(&self) -> Option<&rayon::ThreadPool> {
        let process = std::process::id();
        let found = self.started.load(Ordering::Acquire);
        // SAFETY: memory that `started` has pointed to is freed by `drop` at the earliest.
        if let Some(started) = unsafe { found.as_ref() }
            && started.process == process
            && started.size >= self.threads() - 1
        {
            return started.workers.as_ref();
        }
        // None yet; or fewer than are wanted now, which other calls may use; or those of the parent process, whose threads
        // do not exist here and whose locks may stay held: leaked.
        let size = self.threads() - 1;
        let builder = rayon::ThreadPoolBuilder::new().num_threads(size);
        let workers = builder.thread_name(|n| format!("madelung-{}", n + 1)).build().ok();
        let made = Box::into_raw(Box::new(Started { process, size, workers }));
        let ours = self.started.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: if another thread of this process was faster, `made` was never shared, and `other` is valid as above.
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
        // SAFETY: `drop` has exclusive access to the pool and thus to the memory behind it.
        if unsafe { found.as_ref() }.is_some_and(|s| s.process == std::process::id()) {
            // SAFETY: the pointer came from `Box::into_raw`; rayon's workers end by themselves.
            drop(unsafe { Box::from_raw(found) });
        }
    }
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of threads by the value of `MADELUNG_NUM_THREADS`, or a warning about the value.
fn threads_from(value: Option<&str>) -> Result<usize, String> {
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
        let requested = threads_from(value.as_deref());
        let threads = requested.as_ref().map_or_else(|_| available(), |n| *n);
        match self.threads.compare_exchange(0, threads, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                if let Err(warning) = requested {
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
        // SAFETY: only the lifetime is erased; see `Call::tasks`.
        let task = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync + '_), &'static (dyn Fn(usize) + Sync + 'static)>(
                task,
            )
        };
        let tasks = Tasks::new(tasks, task);
        let call = Arc::new(Call { tasks, workers: Mutex::new(Some(0)), idle: Condvar::new() });
        for _ in 1..self.threads().min(call.tasks.count) {
            let call = call.clone();
            workers.spawn_fifo(move || call.help());
        }
        call.tasks.take();
        call.finish();
        call.tasks.finish();
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

/// Splits `data` at `ends` (ascending, at most `data.len()`) and passes part `t` to `task(t, part)`.
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
    fn threads_by_the_environment() {
        assert_eq!((threads_from(Some("3")), threads_from(Some(" 12 "))), (Ok(3), Ok(12)));
        assert_eq!((threads_from(None), threads_from(Some("0"))), (Ok(available()), Ok(available())));
        for text in ["", "two", "-1", "1.5", "99999999999999999999999"] {
            let warning = threads_from(Some(text)).unwrap_err();
            assert!(warning.contains("MADELUNG_NUM_THREADS") && warning.ends_with(&format!("got `{text}`")));
        }
    }
}
