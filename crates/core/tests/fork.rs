//! The pool in a child process: nothing of the parent's threads is there, and nothing of theirs is waited for.
//!
//! A binary of its own: a child has the locks of its parent's other threads as they were, those of other tests too.
#![cfg(unix)]
#![expect(unsafe_code, reason = "fork and waitpid")]

use madelung_core::backend::pool::{Pool, Threads, map_tasks};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs `child` in a forked process; whether it returned true, in less than a minute.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `child` and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
            // SAFETY: ends the child at once, without the test runner's own end.
            unsafe { libc::_exit(i32::from(!good)) }
        }
        pid if pid > 0 => {
            let start = Instant::now();
            let mut status = 0;
            // SAFETY: `pid` is our child, `status` is ours.
            while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
                if start.elapsed() > Duration::from_secs(60) {
                    // SAFETY: as above.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    // SAFETY: as above.
                    unsafe { libc::waitpid(pid, &mut status, 0) };
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
        _ => panic!("no fork"),
    }
}

fn computes(pool: &dyn Pool) -> bool {
    map_tasks(pool, 100, |t| t + 1).iter().sum::<usize>() == 5050
}

/// Two threads meet: there are as many as asked for. A system that grants none is named, not waited for.
fn is_parallel(pool: &dyn Pool) -> bool {
    let (here, start) = (AtomicUsize::new(0), Instant::now());
    pool.run(2, &|_| {
        here.fetch_add(1, Ordering::SeqCst);
        while here.load(Ordering::SeqCst) < 2 && start.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
    });
    // Tasks that ran one after the other took their time.
    let met = start.elapsed() < Duration::from_secs(20);
    if !met {
        eprintln!("the pool's second thread did not come within 20 s: the system granted none, or it hangs");
    }
    met
}

#[test]
fn a_child_has_threads_of_its_own() {
    let pool = Threads::new(2);
    assert!(computes(&pool) && computes(Threads::shared()));
    assert!(forked(|| computes(&pool) && is_parallel(&pool) && computes(Threads::shared())));
    // A child of the child, and the parent afterwards.
    assert!(forked(|| computes(&pool) && forked(|| computes(&pool) && is_parallel(&pool))));
    assert!(computes(&pool) && is_parallel(&pool));
    // A pool that is dropped in the child does not wait for the parent's threads.
    let mine = Threads::new(3);
    assert!(computes(&mine));
    let mut mine = Some(mine);
    assert!(forked(|| mine.take().is_some()));
}

#[test]
fn a_fork_while_pools_start_and_run_leaves_the_child_free() {
    let stop = AtomicBool::new(false);
    let busy = Threads::new(4);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(computes(&busy));
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(computes(&Threads::new(2)));
            }
        });
        for _ in 0..100 {
            let fresh = Threads::new(3);
            let good = std::thread::scope(|scope| {
                // Started at the moment of the fork.
                scope.spawn(|| computes(&fresh));
                forked(|| computes(&fresh) && computes(&busy))
            });
            if !good {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(good);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A fork in the midst of a call of the forking thread's own: the child goes on with a pool of its own.
#[test]
fn a_task_may_fork() {
    let pool = Threads::new(2);
    let good = map_tasks(&pool, 4, |_| forked(|| computes(&pool)));
    assert_eq!(good, [true; 4]);
}
